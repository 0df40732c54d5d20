//! Who may run: a fixed number of queries at a time and a bounded number that wait. What is beyond
//! is refused at once, so that overload shows early and not as timeouts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lakeserve_common::{Error, ErrorKind, Result};
use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::metrics::EngineMetrics;

/// The gate before the compute threads.
#[derive(Debug)]
pub(crate) struct Admission {
    slots: Arc<Semaphore>,
    concurrency: usize,
    waiting: AtomicUsize,
    max_waiting: usize,
    running_gauge: IntGauge,
    waiting_gauge: IntGauge,
}

/// The right to run one query; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _slot: OwnedSemaphorePermit,
    running: IntGauge,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.running.dec();
    }
}

/// One place in the queue; left when dropped, also when the waiting client goes away.
struct Place<'a>(&'a Admission);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
        self.0.waiting_gauge.dec();
    }
}

impl Admission {
    pub(crate) fn new(concurrency: usize, max_waiting: usize, metrics: &EngineMetrics) -> Self {
        let concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            slots: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            waiting: AtomicUsize::new(0),
            max_waiting,
            running_gauge: metrics.running.clone(),
            waiting_gauge: metrics.waiting.clone(),
        }
    }

    /// Waits for a slot.
    ///
    /// # Errors
    /// `Capacity` at once when too many wait already.
    pub(crate) async fn admit(&self) -> Result<Permit> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(self.permit(slot));
        }
        let place = self.queue()?;
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        drop(place);
        // The semaphore is never closed, but a closed one must not let anybody through.
        let slot = slot.map_err(|_| Error::new(ErrorKind::Draining, "the engine takes no more queries"))?;
        Ok(self.permit(slot))
    }

    fn queue(&self) -> Result<Place<'_>> {
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        self.waiting_gauge.inc();
        let place = Place(self);
        if before < self.max_waiting {
            return Ok(place);
        }
        drop(place);
        let message = format!("at capacity: {} queries run and {before} wait", self.concurrency);
        Err(Error::new(ErrorKind::Capacity, message).with_hint("retry after a second, or on another broker"))
    }

    fn permit(&self, slot: OwnedSemaphorePermit) -> Permit {
        self.running_gauge.inc();
        Permit { _slot: slot, running: self.running_gauge.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_queue_is_bounded_and_a_waiter_that_leaves_makes_room() {
        let metrics = EngineMetrics::new(&prometheus::Registry::new()).unwrap();
        let admission = Arc::new(Admission::new(1, 1, &metrics));
        let first = admission.admit().await.unwrap();
        let mut second = Box::pin(admission.admit());
        assert!(futures::poll!(&mut second).is_pending());
        let refused = admission.admit().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Capacity);
        drop(second);
        assert_eq!(metrics.waiting.get(), 0);
        let mut third = Box::pin(admission.admit());
        assert!(futures::poll!(&mut third).is_pending());
        drop(first);
        let third = third.await.unwrap();
        assert_eq!((metrics.running.get(), metrics.waiting.get()), (1, 0));
        drop(third);
        assert_eq!(metrics.running.get(), 0);
    }
}
