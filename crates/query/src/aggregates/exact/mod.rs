//! Exact sums of doubles.
//!
//! Every finite double is an integer times a power of two, so a sum of doubles is one too. [`ExactSum`] holds that
//! number itself and rounds once, at the end; this is what Neal calls a superaccumulator ("Fast exact summation using
//! small and large superaccumulators", 2015). The result does not depend on the order of the values, on how they were
//! split into partial sums or on how those were merged, and values can be taken out again.
//!
//! Two parts add up to the total: 128 bits at a floating position, where nearly all columns of real data stay, and
//! words of 64 bits at fixed positions for what does not fit there. At most 2,200 bits are ever needed for sums,
//! 4,400 for sums of squares.
//!
//! NaN and the infinities are counted apart. A sum that is zero is `+0.0`, also when all values were `-0.0`.

mod limbs;
pub(super) mod round;
#[cfg(test)]
mod tests;

use std::mem::size_of;

use num_bigint::{BigInt, Sign};

use self::limbs::Limbs;

/// An exact sum. The default is the sum of nothing.
#[derive(Debug, Clone, Default)]
pub struct ExactSum {
    /// This part of the total is `mantissa` × 2^`exponent`.
    mantissa: i128,
    exponent: i32,
    rare: Option<Box<Rare>>,
}

/// What most sums do without.
#[derive(Debug, Clone, Default)]
struct Rare {
    limbs: Limbs,
    /// How many values were NaN, +∞ and −∞.
    not_finite: [i64; 3],
}

/// A finite double as sign, magnitude and exponent: ±magnitude × 2^exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) negative: bool,
    pub(super) magnitude: u64,
    pub(super) exponent: i32,
}

/// The parts of a double, or nothing for NaN and the infinities.
pub(super) fn parts(value: f64) -> Option<Parts> {
    const FRACTION_BITS: u32 = 52;
    let bits = value.to_bits();
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    let field = i32::try_from((bits >> FRACTION_BITS) & 0x7ff).unwrap_or_default();
    let (magnitude, exponent) = match field {
        0x7ff => return None,
        0 => (fraction, -1074),
        _ => (fraction | (1 << FRACTION_BITS), field - 1075),
    };
    Some(Parts { negative: value.is_sign_negative(), magnitude, exponent })
}

impl ExactSum {
    /// Adds a double.
    #[inline]
    pub fn add(&mut self, value: f64) {
        match parts(value) {
            Some(parts) => self.add_scaled(parts.negative, parts.magnitude.into(), parts.exponent),
            None => self.count_not_finite(value, 1),
        }
    }

    /// Takes out a double that was added before.
    #[inline]
    pub fn subtract(&mut self, value: f64) {
        match parts(value) {
            Some(parts) => self.add_scaled(!parts.negative, parts.magnitude.into(), parts.exponent),
            None => self.count_not_finite(value, -1),
        }
    }

    /// Adds ±`magnitude` × 2^`exponent`.
    #[inline]
    pub(super) fn add_scaled(&mut self, negative: bool, magnitude: u128, exponent: i32) {
        if magnitude == 0 {
            return;
        }
        if self.mantissa == 0 {
            self.exponent = exponent;
        }
        // Where both can stand at the lower of the two positions with a bit to spare, they are added there.
        let up = exponent - self.exponent;
        if up >= 0 {
            if up < spare_bits(magnitude)
                && let Some(sum) = self.mantissa.checked_add(signed(negative, magnitude << up))
            {
                self.mantissa = sum;
                return;
            }
        } else if -up < spare_bits(self.mantissa.unsigned_abs())
            && spare_bits(magnitude) > 0
            && let Some(sum) = (self.mantissa << -up).checked_add(signed(negative, magnitude))
        {
            self.mantissa = sum;
            self.exponent = exponent;
            return;
        }
        self.rare_mut().limbs.add(negative, magnitude, exponent);
        if spare_bits(self.mantissa.unsigned_abs()) <= 1 {
            self.flush();
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.add_scaled(other.mantissa < 0, other.mantissa.unsigned_abs(), other.exponent);
        if let Some(theirs) = &other.rare {
            let ours = self.rare_mut();
            ours.limbs.merge(&theirs.limbs);
            for (ours, theirs) in ours.not_finite.iter_mut().zip(theirs.not_finite) {
                *ours += theirs;
            }
        }
    }

    /// The sum, rounded to the nearest double, ties to even; beyond the range of doubles ±∞.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        self.mean(1)
    }

    /// The sum divided by a count above zero, rounded once.
    #[must_use]
    pub fn mean(&self, count: u64) -> f64 {
        if let Some(value) = self.not_finite() {
            return value;
        }
        if self.rare.as_ref().is_none_or(|rare| rare.limbs.is_empty()) {
            return round::ratio(self.mantissa < 0, self.mantissa.unsigned_abs(), self.exponent, count, false);
        }
        let (total, exponent) = self.exact();
        let top = round::top_bits(total.magnitude());
        round::ratio(total.sign() == Sign::Minus, top.bits, exponent + top.exponent, count, top.inexact)
    }

    /// What the sum is if any value was NaN or infinite.
    #[must_use]
    pub fn not_finite(&self) -> Option<f64> {
        match self.rare.as_ref()?.not_finite {
            [0, 0, 0] => None,
            [0, _, 0] => Some(f64::INFINITY),
            [0, 0, _] => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        }
    }

    /// The finite part as an integer times a power of two; the integer is odd, or zero with exponent zero.
    pub(super) fn exact(&self) -> (BigInt, i32) {
        let (mut total, mut exponent) = (BigInt::from(self.mantissa), self.exponent);
        if let Some(rare) = &self.rare
            && !rare.limbs.is_empty()
        {
            let (wide, wide_exponent) = rare.limbs.to_integer();
            let lower = exponent.min(wide_exponent);
            total = (total << (exponent - lower)) + (wide << (wide_exponent - lower));
            exponent = lower;
        }
        match total.trailing_zeros() {
            None => (BigInt::ZERO, 0),
            Some(zeros) => (total >> zeros, exponent + i32::try_from(zeros).unwrap_or_default()),
        }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| size_of::<Rare>() + rare.limbs.heap_size())
    }

    /// The sum as bytes, the same for equal sums: a flag; where it is one the three counts of values that are not
    /// finite (i64); the exponent (i16); the odd integer in as few bytes of two's complement as it needs.
    /// All little-endian.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let (total, exponent) = self.exact();
        let counts = self.rare.as_ref().map(|rare| rare.not_finite).filter(|counts| *counts != [0; 3]);
        let mut bytes = vec![u8::from(counts.is_some())];
        for count in counts.into_iter().flatten() {
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        bytes.extend_from_slice(&i16::try_from(exponent).unwrap_or_default().to_le_bytes());
        bytes.extend_from_slice(&total.to_signed_bytes_le());
        bytes
    }

    /// Reads [`Self::to_bytes`]; nothing if that is not what the bytes are.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (flag, mut rest) = bytes.split_first()?;
        let mut sum = Self::default();
        if *flag == 1 {
            for count in &mut sum.rare_mut().not_finite {
                let (head, tail) = rest.split_first_chunk::<8>()?;
                *count = i64::from_le_bytes(*head);
                rest = tail;
            }
        } else if *flag != 0 {
            return None;
        }
        let (exponent, digits) = rest.split_first_chunk::<2>()?;
        let total = BigInt::from_signed_bytes_le(digits);
        let negative = total.sign() == Sign::Minus;
        let mut exponent = i32::from(i16::from_le_bytes(*exponent));
        for digit in total.iter_u64_digits() {
            sum.add_scaled(negative, digit.into(), exponent);
            exponent += 64;
        }
        Some(sum)
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    #[cold]
    fn count_not_finite(&mut self, value: f64, change: i64) {
        let which = if value.is_nan() { 0 } else { 1 + usize::from(value < 0.0) };
        self.rare_mut().not_finite[which] += change;
    }

    /// Empties the 128 bits into the words.
    fn flush(&mut self) {
        let mantissa = std::mem::take(&mut self.mantissa);
        let exponent = self.exponent;
        self.rare_mut().limbs.add(mantissa < 0, mantissa.unsigned_abs(), exponent);
    }
}

/// By how many bits a magnitude can be shifted up and still leave two bits free.
fn spare_bits(magnitude: u128) -> i32 {
    i32::try_from(magnitude.leading_zeros()).unwrap_or_default() - 1
}

/// A magnitude below 2^127 with its sign.
fn signed(negative: bool, magnitude: u128) -> i128 {
    let value = magnitude.cast_signed();
    if negative { -value } else { value }
}
