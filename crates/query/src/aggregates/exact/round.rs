//! One rounding, at the end: exact numbers to the nearest double, ties to even.

use num_bigint::{BigInt, BigUint};

/// The leading bits of a natural number.
#[derive(Debug, Clone, Copy)]
pub(in crate::aggregates) struct Top {
    /// All bits if there are no more than 128, else the first 128.
    pub(in crate::aggregates) bits: u128,
    /// How many bits were left off.
    pub(in crate::aggregates) exponent: i32,
    /// Whether any of those was one.
    pub(in crate::aggregates) inexact: bool,
}

/// Cuts a natural number down to its first 128 bits.
pub(in crate::aggregates) fn top_bits(value: &BigUint) -> Top {
    let dropped = value.bits().saturating_sub(128);
    let mut digits = (value >> dropped).iter_u64_digits().map(u128::from).collect::<Vec<_>>().into_iter();
    let bits = digits.next().unwrap_or_default() | (digits.next().unwrap_or_default() << 64);
    let inexact = value.trailing_zeros().is_some_and(|zeros| zeros < dropped);
    Top { bits, exponent: i32::try_from(dropped).unwrap_or(i32::MAX / 2), inexact }
}

/// ±`magnitude` × 2^`exponent` as the nearest double. `inexact` says that the true magnitude is a little larger, by
/// less than one; then the magnitude must have at least 55 bits.
pub(in crate::aggregates) fn nearest(negative: bool, magnitude: u128, exponent: i32, inexact: bool) -> f64 {
    const FRACTION_BITS: i32 = 52;
    const SMALLEST: i32 = -1074;
    let absolute = {
        let length = 128 - bit_count(magnitude.leading_zeros());
        let leading = exponent + length - 1;
        let unit = (leading - FRACTION_BITS).max(SMALLEST);
        if magnitude == 0 {
            0.0
        } else if leading > 1023 {
            f64::INFINITY
        } else {
            let kept = shift_to_unit(magnitude, unit - exponent, inexact);
            assemble(kept, unit)
        }
    };
    if negative && absolute != 0.0 { -absolute } else { absolute }
}

/// The magnitude without its last `dropped` bits (or with as many zeros appended), rounded to even.
fn shift_to_unit(magnitude: u128, dropped: i32, inexact: bool) -> u64 {
    let kept = match dropped {
        ..=0 => magnitude << -dropped,
        1..=128 => {
            let last = magnitude >> (dropped - 1);
            let kept = last >> 1;
            let beyond_half = inexact || magnitude & !(u128::MAX << (dropped - 1)) != 0;
            kept + u128::from(last & 1 == 1 && (beyond_half || kept & 1 == 1))
        }
        _ => 0,
    };
    u64::try_from(kept).unwrap_or(u64::MAX)
}

/// `kept` × 2^`unit` for `kept` up to 2^53, which is a double.
fn assemble(kept: u64, unit: i32) -> f64 {
    const IMPLICIT: u64 = 1 << 52;
    if kept < IMPLICIT {
        // Subnormal: the unit is the smallest one.
        return f64::from_bits(kept);
    }
    let (kept, unit) = if kept == IMPLICIT << 1 { (IMPLICIT, unit + 1) } else { (kept, unit) };
    match u64::try_from(unit + 52 + 1023) {
        Ok(field) if field < 0x7ff => f64::from_bits((field << 52) | (kept - IMPLICIT)),
        _ => f64::INFINITY,
    }
}

/// ±`magnitude` × 2^`exponent` ÷ `divisor` as the nearest double. The divisor must be above zero. `inexact` as in
/// [`nearest`], for a magnitude of 128 bits.
pub(in crate::aggregates) fn ratio(negative: bool, magnitude: u128, exponent: i32, divisor: u64, inexact: bool) -> f64 {
    if magnitude == 0 {
        return 0.0;
    }
    if divisor <= 1 {
        return nearest(negative, magnitude, exponent, inexact);
    }
    let up = magnitude.leading_zeros();
    let (shifted, divisor) = (magnitude << up, u128::from(divisor));
    let remainder = shifted % divisor;
    nearest(negative, shifted / divisor, exponent - bit_count(up), inexact || remainder != 0)
}

/// `numerator` × 2^`exponent` ÷ `denominator`, or its square root, as the nearest double. Neither may be negative.
pub(in crate::aggregates) fn quotient(numerator: &BigInt, exponent: i32, denominator: &BigUint, root: bool) -> f64 {
    let numerator = numerator.magnitude();
    if numerator.bits() == 0 || denominator.bits() == 0 {
        return 0.0;
    }
    // So many bits that the quotient has at least 128.
    let up = (129 + denominator.bits()).saturating_sub(numerator.bits());
    let numerator = numerator << up;
    let quotient = &numerator / denominator;
    let exact = &quotient * denominator == numerator;
    let top = top_bits(&quotient);
    let exponent = exponent - i32::try_from(up).unwrap_or_default() + top.exponent;
    let inexact = top.inexact || !exact;
    if !root {
        return nearest(false, top.bits, exponent, inexact);
    }
    let odd = exponent.rem_euclid(2);
    let square = top.bits >> odd;
    let inexact = inexact || (odd == 1 && top.bits & 1 == 1);
    let root = square.isqrt();
    nearest(false, root, (exponent + odd) / 2, inexact || root * root != square)
}

fn bit_count(bits: u32) -> i32 {
    i32::try_from(bits).unwrap_or_default()
}
