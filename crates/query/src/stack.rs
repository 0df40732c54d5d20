//! Room on the stack for statements that nest deeply: parsing and dropping their trees recurse,
//! partly without looking at the stack. (Planning and evaluating recurse too; the threads that do it
//! need [`QUERY_THREAD`] bytes, because they are entered by the scheduler.)

/// Stack that a thread needs which plans and runs whatever the default limits of
/// [`crate::dialect::ParseLimits`] let through, in an unoptimised build.
pub const QUERY_THREAD: usize = 64 << 20;

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
