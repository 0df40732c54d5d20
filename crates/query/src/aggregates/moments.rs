//! Exact sums of values and of their squares, and variance and standard deviation from them.
//!
//! With S = Σx and Q = Σx² held exactly, the variance is (n·Q − S²) ÷ (n·d), where d is n for the population and
//! n − 1 for a sample. Numerator and denominator are integers; only their quotient is rounded, and only the root of
//! the unrounded quotient for a deviation.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryBuilder};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use num_bigint::{BigInt, BigUint};

use super::exact::{ExactSum, Parts, parts, round};
use super::total::{Adds, Total, decode_bytes};

/// Σx and Σx².
#[derive(Debug, Clone, Default)]
pub(super) struct Moments {
    sum: ExactSum,
    squares: ExactSum,
}

impl Moments {
    /// The variance of `count` values that were unscaled decimals of `scale` places (0 for numbers), or its root.
    /// Nothing where it is undefined: for no values, and for a sample of one.
    pub(super) fn variance(&self, count: u64, sample: bool, root: bool, scale: i8) -> Option<f64> {
        let degrees = count.checked_sub(u64::from(sample)).filter(|degrees| *degrees > 0)?;
        if self.sum.not_finite().is_some() {
            return Some(f64::NAN);
        }
        let (sum, sum_exponent) = self.sum.exact();
        let (squares, squares_exponent) = self.squares.exact();
        let exponent = squares_exponent.min(2 * sum_exponent);
        let mut numerator =
            ((squares * count) << (squares_exponent - exponent)) - ((&sum * &sum) << (2 * sum_exponent - exponent));
        let mut denominator = BigUint::from(count) * degrees;
        let unit = BigUint::from(10u8).pow(2 * u32::from(scale.unsigned_abs()));
        if scale > 0 {
            denominator *= unit;
        } else {
            numerator *= BigInt::from(unit);
        }
        Some(round::quotient(&numerator, exponent, &denominator, root))
    }

    fn change_double(&mut self, parts: Parts, remove: bool) {
        if parts.magnitude != 0 {
            // Squares of odd magnitudes are short for numbers of few digits, so that they stay in 128 bits.
            let zeros = parts.magnitude.trailing_zeros();
            let exponent = parts.exponent + i32::try_from(zeros).unwrap_or_default();
            self.change(parts.negative, (parts.magnitude >> zeros).into(), exponent, remove);
        }
    }

    fn change(&mut self, negative: bool, magnitude: u128, exponent: i32, remove: bool) {
        self.sum.add_scaled(negative != remove, magnitude, exponent);
        let (high, low) = (magnitude >> 64, magnitude & u128::from(u64::MAX));
        self.squares.add_scaled(remove, low * low, 2 * exponent);
        if high > 0 {
            self.squares.add_scaled(remove, high * high, 2 * exponent + 128);
            self.squares.add_scaled(remove, high * low, 2 * exponent + 65);
        }
    }
}

impl Total for Moments {
    const USES_HEAP: bool = true;

    fn heap_size(&self) -> usize {
        self.sum.heap_size() + self.squares.heap_size()
    }

    fn merge(&mut self, other: &Self) {
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
    }

    fn state_type() -> DataType {
        DataType::Binary
    }

    fn encode(totals: &[Self]) -> ArrayRef {
        let mut builder = BinaryBuilder::with_capacity(totals.len(), totals.len() * 32);
        for total in totals {
            let (sum, squares) = (total.sum.to_bytes(), total.squares.to_bytes());
            let mut bytes = u32::try_from(sum.len()).unwrap_or_default().to_le_bytes().to_vec();
            bytes.extend_from_slice(&sum);
            bytes.extend_from_slice(&squares);
            builder.append_value(bytes);
        }
        Arc::new(builder.finish())
    }

    fn decode(array: &dyn Array) -> Result<Vec<Self>> {
        decode_bytes(array, |bytes| {
            let (length, rest) = bytes.split_first_chunk::<4>()?;
            let (sum, squares) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
            Some(Self { sum: ExactSum::from_bytes(sum)?, squares: ExactSum::from_bytes(squares)? })
        })
    }
}

impl Adds<f64> for Moments {
    fn add(&mut self, value: f64) {
        match parts(value) {
            Some(parts) => self.change_double(parts, false),
            None => self.sum.add(value),
        }
    }

    fn subtract(&mut self, value: f64) {
        match parts(value) {
            Some(parts) => self.change_double(parts, true),
            None => self.sum.subtract(value),
        }
    }
}

impl Adds<i64> for Moments {
    fn add(&mut self, value: i64) {
        self.change(value < 0, value.unsigned_abs().into(), 0, false);
    }

    fn subtract(&mut self, value: i64) {
        self.change(value < 0, value.unsigned_abs().into(), 0, true);
    }
}

impl Adds<u64> for Moments {
    fn add(&mut self, value: u64) {
        self.change(false, value.into(), 0, false);
    }

    fn subtract(&mut self, value: u64) {
        self.change(false, value.into(), 0, true);
    }
}

impl Adds<i128> for Moments {
    fn add(&mut self, value: i128) {
        self.change(value < 0, value.unsigned_abs(), 0, false);
    }

    fn subtract(&mut self, value: i128) {
        self.change(value < 0, value.unsigned_abs(), 0, true);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of<V: Copy>(values: &[V]) -> Moments
    where
        Moments: Adds<V>,
    {
        let mut moments = Moments::default();
        moments.add_all(values);
        moments
    }

    fn bytes(moments: &Moments) -> Vec<u8> {
        [moments.sum.to_bytes(), moments.squares.to_bytes()].concat()
    }

    fn variance<V: Copy>(values: &[V], sample: bool, root: bool) -> Option<f64>
    where
        Moments: Adds<V>,
    {
        of(values).variance(values.len().try_into().unwrap(), sample, root, 0)
    }

    #[test]
    fn textbook_values() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(variance(&values, false, false), Some(4.0));
        assert_eq!(variance(&values, false, true), Some(2.0));
        assert_eq!(variance(&values, true, false), Some(32.0 / 7.0));
        assert_eq!(variance(&[3.0], false, false), Some(0.0));
        assert_eq!(variance(&[3.0], true, false), None);
        assert_eq!(variance::<f64>(&[], false, false), None);
        assert!(variance(&[1.0, f64::INFINITY], false, false).unwrap().is_nan());
        // Where the textbook formula in doubles gives nonsense.
        assert_eq!(variance(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0], true, false), Some(30.0));
        assert_eq!(variance(&[i64::MAX, i64::MAX - 2], false, true), Some(1.0));
        assert_eq!(variance(&[u64::MAX, u64::MAX - 2], false, true), Some(1.0));
        // The variance of these is no double, their deviation is one.
        assert_eq!(variance(&[1e200, -1e200], false, true), Some(1e200));
        assert_eq!(variance(&[1e200, -1e200], false, false), Some(f64::INFINITY));
    }

    #[test]
    fn decimals_divide_by_their_scale() {
        let moments = of(&[i128::MAX, i128::MAX - 200]);
        assert_eq!(moments.variance(2, false, true, 2), Some(1.0));
        assert_eq!(of(&[1i128, 3]).variance(2, false, false, -1), Some(100.0));
    }

    proptest! {
        #[test]
        fn order_splits_and_removal_do_not_matter(
            left in prop::collection::vec(any::<f64>(), 0..20),
            right in prop::collection::vec(-1e3..1e3f64, 0..20),
        ) {
            let mut forward = of(&left);
            forward.merge(&of(&right));
            let mut backward = of(&right);
            backward.merge(&Moments::decode(Moments::encode(&[of(&left)]).as_ref()).unwrap()[0]);
            prop_assert_eq!(bytes(&forward), bytes(&backward));
            left.iter().for_each(|value| forward.subtract(*value));
            prop_assert_eq!(bytes(&forward), bytes(&of(&right)));
        }

        #[test]
        fn whole_numbers_agree_with_integer_arithmetic(values in prop::collection::vec(-1_000_000i64..1_000_000, 2..50)) {
            let count = i128::try_from(values.len()).unwrap();
            let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
            let squares: i128 = values.iter().map(|value| i128::from(*value) * i128::from(*value)).sum();
            let numerator = BigInt::from(count * squares - sum * sum);
            let denominator = BigUint::from((count * (count - 1)).unsigned_abs());
            prop_assert_eq!(variance(&values, true, false), Some(round::quotient(&numerator, 0, &denominator, false)));
            #[expect(clippy::cast_precision_loss, reason = "all are below 2^53")]
            let doubles: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            prop_assert_eq!(variance(&doubles, true, true), variance(&values, true, true));
        }
    }
}
