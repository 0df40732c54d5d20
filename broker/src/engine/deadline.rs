//! When a query must have ended. Set once from the request, moved when the statement itself says
//! `SET timeoutMs`, and watched on both sides of the result channel.

use std::time::Duration;

use lakeserve_common::clock::Clock;
use lakeserve_common::units::Span;
use lakeserve_common::{Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::time::Instant;

/// A deadline that may move.
#[derive(Debug)]
pub(crate) struct Deadline {
    started: Instant,
    timeout: watch::Sender<Duration>,
}

impl Deadline {
    /// `timeout` from now.
    pub(crate) fn after(timeout: Duration, clock: &dyn Clock) -> Self {
        Self { started: Instant::from_std(clock.instant()), timeout: watch::Sender::new(timeout) }
    }

    /// Moves it to `timeout` after the query came.
    pub(crate) fn set(&self, timeout: Duration) {
        self.timeout.send_replace(timeout);
    }

    /// The error for the client if it has passed.
    ///
    /// # Errors
    /// `Deadline` when it has.
    pub(crate) fn check(&self, clock: &dyn Clock) -> Result<()> {
        let timeout = *self.timeout.borrow();
        match Instant::from_std(clock.instant()) < self.started + timeout {
            true => Ok(()),
            false => Err(exceeded(timeout)),
        }
    }

    /// Waits until it has passed; the error for the client.
    pub(crate) async fn passed(&self) -> Error {
        let mut timeouts = self.timeout.subscribe();
        loop {
            let timeout = *timeouts.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep_until(self.started + timeout) => return exceeded(timeout),
                changed = timeouts.changed() => {
                    if changed.is_err() {
                        return exceeded(timeout);
                    }
                }
            }
        }
    }
}

fn exceeded(timeout: Duration) -> Error {
    Error::new(ErrorKind::Deadline, format!("the query did not end within its timeout of {}", Span(timeout)))
        .with_hint("raise the timeout (timeoutMs, timeout_ms or --timeout), or ask for less")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_moves_is_met_where_it_is_now() {
        let deadline = Deadline { started: Instant::now(), timeout: watch::Sender::new(Duration::from_secs(30)) };
        let mut passed = Box::pin(deadline.passed());
        assert!(futures::poll!(&mut passed).is_pending());
        deadline.set(Duration::from_millis(500));
        let error = passed.await;
        assert_eq!(error.kind(), ErrorKind::Deadline);
        assert!(error.message().contains("500ms"), "{error}");
        assert_eq!(deadline.started.elapsed(), Duration::from_millis(500));
    }
}
