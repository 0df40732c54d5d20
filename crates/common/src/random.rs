//! The randomness seam: jitter, ids and sampling draw from here, so that a seeded run repeats.

use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A source of random numbers that is shared between threads.
#[derive(Debug)]
pub struct Random(Mutex<StdRng>);

impl Random {
    /// Seeded by the operating system.
    #[must_use]
    pub fn from_os() -> Self {
        Self(Mutex::new(StdRng::from_os_rng()))
    }

    /// Always the same sequence for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// `N` random bytes.
    #[must_use]
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut bytes[..]);
        bytes
    }

    /// A number in `[0, 1)`.
    #[must_use]
    pub fn unit(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    /// A factor around one, uniform in `[1 - spread, 1 + spread)`.
    #[must_use]
    pub fn jitter(&self, spread: f64) -> f64 {
        1.0 + spread * (2.0 * self.unit() - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_jitter_stays_in_its_band() {
        assert_eq!(Random::seeded(1).bytes::<16>(), Random::seeded(1).bytes::<16>());
        let random = Random::seeded(2);
        assert!((0..1_000).all(|_| (0.8..1.2).contains(&random.jitter(0.2))));
    }
}
