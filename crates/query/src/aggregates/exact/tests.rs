//! The exact sum against big rational arithmetic, in any order and any split.

use num_bigint::{BigInt, BigUint};
use proptest::prelude::*;

use super::{ExactSum, parts, round};

/// The sum as an integer times 2^-1074, which every finite double is a multiple of.
fn reference(values: &[f64]) -> BigInt {
    values
        .iter()
        .filter_map(|value| parts(*value))
        .map(|parts| {
            let magnitude = BigInt::from(parts.magnitude) << (parts.exponent + 1074);
            if parts.negative { -magnitude } else { magnitude }
        })
        .sum()
}

fn sum(values: &[f64]) -> ExactSum {
    let mut sum = ExactSum::default();
    values.iter().for_each(|value| sum.add(*value));
    sum
}

/// Doubles of every kind, most of them finite: any bits, everyday numbers, and the ends of the range.
fn doubles() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |value| value.is_finite()),
        4 => -1e6..1e6f64,
        2 => (-1_000_000i32..1_000_000).prop_map(|cents| f64::from(cents) / 100.0),
        1 => prop::sample::select(vec![0.0, -0.0, 1e300, -1e300, 1e-300, -1e-300, f64::MAX, f64::MIN, 5e-324, f64::MIN_POSITIVE, 1.0]),
    ]
}

#[test]
fn cancellation_keeps_every_bit() {
    for (values, expected) in [
        (vec![1e300, 1.0, -1e300], 1.0),
        (vec![1e300, 1e-300, -1e300], 1e-300),
        (vec![1.0, 1e100, 1.0, -1e100], 2.0),
        (vec![f64::MAX, f64::MAX, f64::MIN, f64::MIN, 5e-324], 5e-324),
        (vec![f64::MAX, f64::MAX], f64::INFINITY),
        (vec![0.1; 10], 1.0),
        (vec![-0.0, -0.0], 0.0),
        (vec![f64::NAN, 1.0], f64::NAN),
        (vec![f64::INFINITY, 1.0], f64::INFINITY),
        (vec![f64::INFINITY, f64::NEG_INFINITY], f64::NAN),
        (vec![], 0.0),
    ] {
        assert_eq!(sum(&values).to_f64().to_bits(), expected.to_bits(), "{values:?}");
    }
}

#[test]
fn ties_go_to_even_and_a_hair_decides() {
    let two_53 = 9_007_199_254_740_992.0;
    assert_eq!(sum(&[two_53, 1.0]).to_f64(), two_53);
    assert_eq!(sum(&[two_53, 2.0, 1.0]).to_f64(), two_53 + 4.0);
    assert_eq!(sum(&[two_53, 1.0, 5e-324]).to_f64(), two_53 + 2.0);
    assert_eq!(sum(&[two_53, 1.0, -5e-324]).to_f64(), two_53);
}

#[test]
fn values_can_be_taken_out_again() {
    let mut total = sum(&[1e300, f64::NAN, f64::INFINITY, 0.1, 3.0]);
    for value in [f64::NAN, f64::INFINITY, 1e300] {
        total.subtract(value);
    }
    assert_eq!(total.to_f64(), 3.1);
    assert_eq!(total.to_bytes(), sum(&[3.0, 0.1]).to_bytes());
}

#[test]
fn bytes_that_are_no_sum_are_refused() {
    assert!(ExactSum::from_bytes(&[]).is_none());
    assert!(ExactSum::from_bytes(&[2, 0, 0, 0]).is_none());
    assert!(ExactSum::from_bytes(&[1, 0, 0]).is_none());
}

#[test]
fn roots_are_rounded_once() {
    let root = |value: u64| round::quotient(&BigInt::from(value), 0, &BigUint::from(1u32), true);
    for value in [1, 2, 3, 4, 10, 1 << 40, u64::MAX] {
        // The standard root is correctly rounded too, where its argument is exact.
        #[expect(clippy::cast_precision_loss, reason = "checked by the filter")]
        let double = value as f64;
        if value < 1 << 53 {
            assert_eq!(root(value), double.sqrt(), "{value}");
        }
    }
    assert_eq!(round::quotient(&BigInt::from(1), 0, &BigUint::from(3u32), false), 1.0 / 3.0);
    assert_eq!(round::quotient(&(BigInt::from(1) << 3000), -3000, &BigUint::from(7u32), false), 1.0 / 7.0);
}

proptest! {
    #[test]
    fn order_and_splits_do_not_matter(
        values in prop::collection::vec(doubles(), 0..60),
        order in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let expected = sum(&values);
        let mut rotated = values.clone();
        if !rotated.is_empty() {
            rotated.rotate_left(order.index(values.len()));
            rotated.reverse();
        }
        prop_assert_eq!(sum(&rotated).to_bytes(), expected.to_bytes());

        // Any split into partial sums, each sent as bytes, merged from either end.
        let mut bounds: Vec<usize> = cuts.iter().map(|cut| cut.index(values.len() + 1)).collect();
        bounds.extend([0, values.len()]);
        bounds.sort_unstable();
        let partials: Vec<ExactSum> = bounds
            .windows(2)
            .map(|bound| ExactSum::from_bytes(&sum(&rotated[bound[0]..bound[1]]).to_bytes()).unwrap())
            .collect();
        let (mut forward, mut backward) = (ExactSum::default(), ExactSum::default());
        partials.iter().for_each(|partial| forward.merge(partial));
        partials.iter().rev().for_each(|partial| backward.merge(partial));
        prop_assert_eq!(forward.to_bytes(), expected.to_bytes());
        prop_assert_eq!(backward.to_f64().to_bits(), expected.to_f64().to_bits());
    }

    #[test]
    fn it_is_the_exact_sum_rounded_once(values in prop::collection::vec(doubles(), 0..60), count in 1u64..100_000) {
        let exact = reference(&values);
        let total = sum(&values);
        let (mantissa, exponent) = total.exact();
        prop_assert_eq!(mantissa << (exponent + 1074), exact.clone());
        let magnitude = BigInt::from(exact.magnitude().clone());
        let expected = |divisor: u64| {
            let absolute = round::quotient(&magnitude, -1074, &BigUint::from(divisor), false);
            if exact < BigInt::ZERO { -absolute } else { absolute }
        };
        prop_assert_eq!(total.to_f64().to_bits(), expected(1).to_bits());
        prop_assert_eq!(total.mean(count).to_bits(), expected(count).to_bits());
    }

    #[test]
    fn one_value_is_its_own_sum(value in doubles()) {
        let rounded = sum(&[value]).to_f64();
        prop_assert!(rounded == value && (value != 0.0 || rounded.is_sign_positive()));
        prop_assert_eq!(sum(&[value, value, -value]).to_f64(), value);
    }

    #[test]
    fn two_values_round_as_hardware_does(left in doubles(), right in doubles()) {
        prop_assert_eq!(sum(&[left, right]).to_f64(), left + right);
    }

    #[test]
    fn quotients_round_as_hardware_does(left in 1u64..1 << 53, right in 1u64..1 << 53) {
        #[expect(clippy::cast_precision_loss, reason = "both are below 2^53")]
        let expected = left as f64 / right as f64;
        prop_assert_eq!(round::ratio(false, left.into(), 0, right, false), expected);
        prop_assert_eq!(round::quotient(&BigInt::from(left), 0, &BigUint::from(right), false), expected);
    }

    #[test]
    fn taking_out_is_the_inverse_of_adding(
        kept in prop::collection::vec(doubles(), 0..20),
        removed in prop::collection::vec(doubles(), 0..20),
    ) {
        let mut total = sum(&removed);
        kept.iter().for_each(|value| total.add(*value));
        removed.iter().for_each(|value| total.subtract(*value));
        prop_assert_eq!(total.to_bytes(), sum(&kept).to_bytes());
    }
}
