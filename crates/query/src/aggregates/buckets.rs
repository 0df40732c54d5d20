//! Counts in logarithmic buckets: the sketch behind approximate percentiles.
//!
//! A bucket is what the first nine significant bits of a double tell (its exponent and eight bits of fraction), and
//! stands for its end nearest to zero. A quantile is therefore off by at most one part in 256 (0.4 %), towards zero,
//! and exact for whole numbers below 512 and all numbers of nine bits. The counts do not depend on the order of the
//! values, add up over partial results and can be subtracted, unlike those of t-digest or KLL. Numbers nearer to zero
//! than 2^-1030 count as zero; NaN is one bucket above +∞, where sorting puts it too.

use std::mem::size_of;

use datafusion::common::HashMap;

/// Bits of a double's fraction that a bucket does not tell.
const DROPPED_BITS: u32 = 44;
/// The bucket of NaN.
const NAN_KEY: i32 = i32::MAX;

/// How many values fell into each bucket.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Buckets {
    counts: HashMap<i32, u64>,
    total: u64,
}

/// The bucket of a value; buckets order as their values do.
fn key(value: f64) -> i32 {
    if value.is_nan() {
        return NAN_KEY;
    }
    let magnitude = i32::try_from(value.abs().to_bits() >> DROPPED_BITS).unwrap_or(NAN_KEY);
    if value.is_sign_negative() { -magnitude } else { magnitude }
}

/// The value that a bucket stands for.
fn value(key: i32) -> f64 {
    if key == NAN_KEY {
        return f64::NAN;
    }
    let magnitude = f64::from_bits(u64::from(key.unsigned_abs()) << DROPPED_BITS);
    if key < 0 { -magnitude } else { magnitude }
}

impl Buckets {
    /// Counts a value.
    pub(super) fn add(&mut self, value: f64) {
        self.add_count(key(value), 1);
    }

    /// Takes out a value that was counted before.
    pub(super) fn subtract(&mut self, value: f64) {
        let key = key(value);
        if let Some(count) = self.counts.get_mut(&key) {
            *count -= 1;
            self.total -= 1;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }

    /// Adds other counts.
    pub(super) fn merge(&mut self, other: &Self) {
        for (key, count) in &other.counts {
            self.add_count(*key, *count);
        }
    }

    fn add_count(&mut self, key: i32, count: u64) {
        *self.counts.entry(key).or_insert(0) += count;
        self.total += count;
    }

    /// The quantile (0 the least value, 1 the greatest), linear between neighbours as `percentile_cont` has it;
    /// nothing without values.
    pub(super) fn quantile(&self, quantile: f64) -> Option<f64> {
        let last = self.total.checked_sub(1)?;
        let mut sorted: Vec<(i32, u64)> = self.counts.iter().map(|(key, count)| (*key, *count)).collect();
        sorted.sort_unstable();
        #[expect(clippy::cast_precision_loss, reason = "a rank within 2^-53 of the right one is what is promised")]
        let rank = quantile * last as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ranks are not negative")]
        let below = (rank.floor() as u64).min(last);
        let low = at(&sorted, below)?;
        let high = at(&sorted, (below + 1).min(last))?;
        let fraction = rank - rank.floor();
        Some(if low == high || fraction == 0.0 { low } else { low + (high - low) * fraction })
    }

    /// Bytes on the heap.
    pub(super) fn heap_size(&self) -> usize {
        self.counts.capacity() * (size_of::<(i32, u64)>() + 1) * 8 / 7
    }

    /// The buckets in order, each its key (i32) and count (u64), little-endian.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut sorted: Vec<_> = self.counts.iter().collect();
        sorted.sort_unstable();
        sorted.into_iter().flat_map(|(key, count)| key.to_le_bytes().into_iter().chain(count.to_le_bytes())).collect()
    }

    /// Reads [`Self::to_bytes`]; nothing if that is not what the bytes are.
    pub(super) fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut buckets = Self::default();
        while !bytes.is_empty() {
            let (key, rest) = bytes.split_first_chunk::<4>()?;
            let (count, rest) = rest.split_first_chunk::<8>()?;
            buckets.add_count(i32::from_le_bytes(*key), u64::from_le_bytes(*count));
            bytes = rest;
        }
        Some(buckets)
    }
}

/// The value of a rank, counted from zero.
fn at(sorted: &[(i32, u64)], rank: u64) -> Option<f64> {
    let mut seen = 0;
    let bucket = sorted.iter().find(|(_, count)| {
        seen += count;
        seen > rank
    });
    bucket.map(|(key, _)| value(*key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[f64]) -> Buckets {
        let mut buckets = Buckets::default();
        values.iter().for_each(|value| buckets.add(*value));
        buckets
    }

    /// `percentile_cont` itself.
    fn exact(values: &[f64], quantile: f64) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "short")]
        let rank = quantile * (sorted.len() - 1) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "short")]
        let below = rank as usize;
        let high = sorted[(below + 1).min(sorted.len() - 1)];
        sorted[below] + (high - sorted[below]) * (rank - rank.floor())
    }

    #[test]
    fn small_whole_numbers_are_exact() {
        let values: Vec<f64> = (-511..512).map(f64::from).collect();
        let buckets = of(&values);
        for (quantile, expected) in [(0.0, -511.0), (0.5, 0.0), (1.0, 511.0), (0.25, -255.5)] {
            assert_eq!(buckets.quantile(quantile), Some(expected));
        }
        assert_eq!(Buckets::default().quantile(0.5), None);
    }

    #[test]
    fn what_is_not_finite_sorts_to_the_ends() {
        let buckets = of(&[f64::NAN, f64::INFINITY, 1.0, f64::NEG_INFINITY, -0.0]);
        assert_eq!(buckets.quantile(0.0), Some(f64::NEG_INFINITY));
        assert_eq!(buckets.quantile(0.5), Some(1.0));
        assert_eq!(buckets.quantile(0.75), Some(f64::INFINITY));
        assert!(buckets.quantile(1.0).unwrap().is_nan());
    }

    proptest! {
        #[test]
        fn keys_order_as_values_do(left in any::<f64>(), right in any::<f64>()) {
            prop_assert!((left > right) || key(left) <= key(right) || right.is_nan() || left.is_nan());
            prop_assert_eq!(key(value(key(left))), key(left));
        }

        #[test]
        fn quantiles_are_within_half_a_percent(
            values in prop::collection::vec(prop_oneof![1.0..1e9f64, 1e-9..1.0f64], 1..200),
            quantile in 0.0..1.0f64,
        ) {
            let (found, expected) = (of(&values).quantile(quantile).unwrap(), exact(&values, quantile));
            prop_assert!((found - expected).abs() <= expected * 0.004, "{} for {}", found, expected);
        }

        #[test]
        fn order_splits_and_removal_do_not_matter(
            left in prop::collection::vec(any::<f64>(), 0..50),
            right in prop::collection::vec(-10.0..10.0f64, 0..50),
        ) {
            let both: Vec<f64> = right.iter().chain(&left).copied().collect();
            let mut merged = of(&left);
            merged.merge(&Buckets::from_bytes(&of(&right).to_bytes()).unwrap());
            prop_assert_eq!(&merged, &of(&both));
            prop_assert_eq!(merged.to_bytes(), of(&both).to_bytes());
            left.iter().for_each(|value| merged.subtract(*value));
            prop_assert_eq!(merged, of(&right));
        }
    }
}
