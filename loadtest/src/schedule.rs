//! When each query is meant to be sent: evenly spaced at the rate, known before the run begins.
//!
//! Times are offsets from the start of the run. The warm-up comes first; queries before its end are
//! sent but not measured.

use std::time::Duration;

/// The send times of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    rate: u64,
    warmup: u64,
    total: u64,
}

impl Schedule {
    /// `rate` queries per second for `warmup` and then for `duration`.
    pub(crate) fn new(rate: u32, warmup: Duration, duration: Duration) -> Self {
        let rate = u64::from(rate);
        let sent_before = |offset: Duration| {
            let queries = u128::from(rate) * offset.as_nanos();
            u64::try_from(queries.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
        };
        Self { rate, warmup: sent_before(warmup), total: sent_before(warmup + duration) }
    }

    /// How many queries there are, warm-up included.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// How many queries are measured.
    pub(crate) fn measured(&self) -> u64 {
        self.total - self.warmup
    }

    /// Whether query `index` (from 0) is measured.
    pub(crate) fn is_measured(&self, index: u64) -> bool {
        index >= self.warmup
    }

    /// When query `index` is meant to be sent.
    pub(crate) fn intended(&self, index: u64) -> Duration {
        let nanos = u128::from(index) * 1_000_000_000 / u128::from(self.rate);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many queries should have been sent by `offset`, those at `offset` included.
    pub(crate) fn due(&self, offset: Duration) -> u64 {
        let queries = u128::from(self.rate) * (offset.as_nanos() + 1);
        u64::try_from(queries.div_ceil(1_000_000_000)).unwrap_or(u64::MAX).min(self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_evenly_spaced_and_the_warm_up_comes_first() {
        let schedule = Schedule::new(2_000, Duration::from_secs(2), Duration::from_secs(10));
        assert_eq!((schedule.total(), schedule.measured()), (24_000, 20_000));
        assert_eq!(schedule.intended(0), Duration::ZERO);
        assert_eq!(schedule.intended(1), Duration::from_micros(500));
        assert_eq!(schedule.intended(4_000), Duration::from_secs(2));
        assert!(!schedule.is_measured(3_999) && schedule.is_measured(4_000));
    }

    #[test]
    fn rates_that_do_not_divide_a_second_keep_their_count() {
        let schedule = Schedule::new(7, Duration::ZERO, Duration::from_millis(2_500));
        assert_eq!(schedule.total(), 18);
        assert!(schedule.intended(17) < Duration::from_millis(2_500));
        assert_eq!(Schedule::new(7, Duration::ZERO, Duration::from_secs(60)).total(), 420);
    }

    #[test]
    fn a_query_is_due_from_its_intended_time_on() {
        for rate in [1, 3, 7, 999, 2_000, 1_000_000] {
            let schedule = Schedule::new(rate, Duration::ZERO, Duration::from_secs(3));
            for index in [0, 1, 2, u64::from(rate), u64::from(rate) * 3 - 1] {
                let intended = schedule.intended(index);
                assert!(schedule.due(intended + Duration::from_nanos(1)) > index, "rate {rate}, query {index}");
                if let Some(before) = intended.checked_sub(Duration::from_nanos(2)) {
                    assert!(schedule.due(before) <= index, "rate {rate}, query {index}");
                }
            }
            assert_eq!(schedule.due(Duration::from_secs(99)), schedule.total());
        }
    }
}
