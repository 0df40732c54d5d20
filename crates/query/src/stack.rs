//! Room on the stack for statements that nest deeply: parsing, planning and dropping their trees
//! recurse, partly without looking at the stack.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes of stack that the deepest recursion allowed takes per token of a statement, in an
/// unoptimised build.
const BYTES_PER_TOKEN: usize = 1024;
/// Never less than this.
const LEAST: usize = 8 << 20;
/// Never more than this; address space only, pages are taken as they are touched.
const MOST: usize = 256 << 20;
/// A thread with less room than this left grows.
const RED_ZONE: usize = 4 << 20;

/// Runs `work` with at least the stack that a statement of so many tokens may need.
pub fn with_stack<T>(tokens: usize, work: impl FnOnce() -> T) -> T {
    let size = tokens.saturating_mul(BYTES_PER_TOKEN).clamp(LEAST, MOST);
    let red_zone = if size > LEAST { size } else { RED_ZONE };
    stacker::maybe_grow(red_zone, size, work)
}

/// Runs one step of a recursion over a plan, growing the stack when it gets short.
pub fn recurse<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(512 << 10, LEAST, step)
}

/// A future that is polled with room on the stack: planning is one recursive call after another.
#[derive(Debug)]
pub struct WithStack<F> {
    inner: Pin<Box<F>>,
    tokens: usize,
}

impl<F: Future> WithStack<F> {
    /// Polls `inner` with the stack that a statement of so many tokens may need.
    pub fn new(tokens: usize, inner: F) -> Self {
        Self { inner: Box::pin(inner), tokens }
    }
}

impl<F: Future> Future for WithStack<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let tokens = self.tokens;
        let inner = self.inner.as_mut();
        with_stack(tokens, || inner.poll(context))
    }
}
