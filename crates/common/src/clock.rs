//! The clock seam. Nothing outside this module reads the wall clock (a lint bans it), so that a
//! test or a simulation can decide what time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time. Cheap to clone as `Arc<dyn Clock>`.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Milliseconds since the Unix epoch, UTC.
    fn now_ms(&self) -> i64;
    /// A monotonic instant, for measuring spans of time.
    fn instant(&self) -> Instant;
}

/// The machine's own clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam the ban points to")]
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam the ban points to")]
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// The system clock behind the seam.
#[must_use]
pub fn system() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// A clock that a test moves by hand. The wall clock stands where it was put; the monotonic
/// instant advances by the same amounts.
#[derive(Debug)]
pub struct ManualClock {
    start: Instant,
    start_ms: i64,
    now_ms: AtomicI64,
}

impl ManualClock {
    /// A clock that stands at `now_ms` milliseconds after the Unix epoch.
    #[must_use]
    pub fn at(now_ms: i64) -> Self {
        Self { start: SystemClock.instant(), start_ms: now_ms, now_ms: AtomicI64::new(now_ms) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.now_ms.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn instant(&self) -> Instant {
        let passed = self.now_ms().saturating_sub(self.start_ms);
        self.start + Duration::from_millis(u64::try_from(passed).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_clock_moves_both_readings_together() {
        let clock = ManualClock::at(1_000);
        let before = clock.instant();
        clock.advance(Duration::from_secs(2));
        assert_eq!(clock.now_ms(), 3_000);
        assert_eq!(clock.instant().duration_since(before), Duration::from_secs(2));
    }
}
