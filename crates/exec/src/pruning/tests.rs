//! What bounds exclude, rule by rule; the whole is tested against full scans in `crate::tests`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::{Expr, cast, col, lit};
use proptest::prelude::*;

use super::bounds::{Bounds, Containers};
use super::{Predicate, compile};

struct OneColumn(Bounds);

impl Containers for OneColumn {
    fn len(&self) -> usize {
        self.0.lower.len()
    }

    fn column(&self, index: usize) -> Option<Bounds> {
        (index == 0).then(|| self.0.clone())
    }
}

fn bounds(lower: impl Array + 'static, upper: impl Array + 'static, nulls: Vec<Option<u64>>, rows: u64) -> OneColumn {
    let counts: UInt64Array = nulls.into();
    let rows = UInt64Array::from(vec![rows; counts.len()]);
    let (lower, upper): (ArrayRef, ArrayRef) = (Arc::new(lower), Arc::new(upper));
    OneColumn(Bounds::from_statistics(&lower, &upper, &counts, &rows).unwrap())
}

fn kept(containers: &OneColumn, filter: &Expr) -> Vec<bool> {
    let data_type = containers.0.lower.data_type().clone();
    let schema = Schema::new(vec![Field::new("c", data_type, true), Field::new("unknown", DataType::Int64, true)]);
    let predicate = Predicate::compile(std::slice::from_ref(filter), &schema);
    predicate.may_match(containers).iter().collect()
}

fn integers() -> OneColumn {
    // [0, 9], [10, 19], all NULL, nothing known, inverted, one value.
    bounds(
        Int64Array::from(vec![Some(0), Some(10), None, None, Some(9), Some(5)]),
        Int64Array::from(vec![Some(9), Some(19), None, None, Some(0), Some(5)]),
        vec![Some(0), Some(3), Some(10), None, Some(0), None],
        10,
    )
}

#[test]
fn comparisons_exclude_what_bounds_exclude() {
    let c = || col("c");
    let cases = [
        (c().eq(lit(5_i64)), [true, false, false, true, true, true]),
        (lit(12_i64).lt_eq(c()), [false, true, false, true, true, false]),
        (c().not_eq(lit(5_i64)), [true, true, false, true, true, false]),
        (!(c().gt(lit(9_i64))), [true, false, false, true, true, true]),
        (c().is_null(), [false, true, true, true, false, true]),
        (c().is_not_null(), [true, true, false, true, true, true]),
        (c().between(lit(10_i64), lit(11_i64)), [false, true, false, true, true, false]),
        (c().in_list(vec![lit(-4_i64), lit(10_i64)], false), [false, true, false, true, true, false]),
        (c().in_list(vec![lit(5_i64)], true), [true, true, false, true, true, false]),
        (c().eq(lit(5_i64)).or(c().eq(lit(15_i64))), [true, true, false, true, true, true]),
        (c().gt(lit(5_i64)).and(c().lt(lit(10_i64))), [true, false, false, true, true, false]),
    ];
    for (filter, expected) in cases {
        assert_eq!(kept(&integers(), &filter), expected, "{filter}");
    }
}

#[test]
fn what_is_not_understood_excludes_nothing() {
    let c = || col("c");
    let all = [true; 6];
    let unknown = col("unknown").eq(lit(1_i64));
    for filter in [
        c() + lit(1_i64), // not even boolean
        (c() + lit(1_i64)).eq(lit(100_i64)),
        c().eq(lit(5_i32)), // not coerced
        c().eq(col("unknown")),
        !unknown.clone(),
        unknown.clone().or(c().eq(lit(100_i64))),
        col("nowhere").eq(lit(1_i64)),
    ] {
        assert_eq!(kept(&integers(), &filter), all, "{filter}");
    }
    // But it does not get in the way of what is.
    assert_eq!(kept(&integers(), &unknown.and(c().eq(lit(100_i64)))), [false, false, false, true, true, false]);
}

#[test]
fn null_literals_accept_nothing() {
    let null = lit(datafusion::common::ScalarValue::Int64(None));
    assert_eq!(kept(&integers(), &col("c").eq(null.clone())), [false; 6]);
    assert_eq!(kept(&integers(), &!(col("c").lt(null))), [false; 6]);
}

#[test]
fn nan_may_hide_behind_the_bounds_of_floats() {
    let one =
        || bounds(Float64Array::from(vec![3.0, 0.0]), Float64Array::from(vec![3.0, -0.0]), vec![Some(0), Some(0)], 3);
    let c = || col("c");
    // Either sign of NaN lies beyond all numbers.
    for filter in [c().not_eq(lit(3.0)), !(c().lt(lit(10.0))), c().gt(lit(5.0)), c().lt(lit(-5.0)), !(c().eq(lit(3.0)))]
    {
        assert_eq!(kept(&one(), &filter), [true, true], "{filter}");
    }
    assert_eq!(kept(&one(), &c().eq(lit(3.0))), [true, false]);
    assert_eq!(kept(&one(), &c().between(lit(1.0), lit(2.0))), [false, false]);
    assert_eq!(kept(&one(), &c().gt(lit(1.0)).and(c().lt(lit(3.5)))), [true, false]);
    assert_eq!(kept(&one(), &c().in_list(vec![lit(2.0), lit(-0.0)], false)), [false, true]);
    assert_eq!(kept(&one(), &c().eq(lit(f64::NAN))), [true, true]);
    // A zero of one sign is a zero of the other.
    assert_eq!(kept(&one(), &c().eq(lit(0.0))), [false, true]);
    assert_eq!(kept(&one(), &c().eq(lit(-0.0))), [false, true]);
}

#[test]
fn a_nan_bound_is_no_bound() {
    let nan = bounds(Float64Array::from(vec![f64::NAN]), Float64Array::from(vec![1.0]), vec![Some(0)], 3);
    assert_eq!(kept(&nan, &col("c").eq(lit(50.0))), [true]);
}

#[test]
fn floats_are_compared_as_the_doubles_they_are() {
    let f = -122.44_f32;
    let one = bounds(Float32Array::from(vec![f]), Float32Array::from(vec![f]), vec![Some(0)], 1);
    let as_double = cast(col("c"), DataType::Float64);
    assert_eq!(kept(&one, &as_double.clone().eq(lit(-122.44))), [false]);
    assert_eq!(kept(&one, &as_double.eq(lit(f64::from(f)))), [true]);
}

#[test]
fn prefixes_exclude_texts() {
    let texts = || {
        bounds(
            StringArray::from(vec!["abc", "abd", "b", "ab"]),
            StringArray::from(vec!["abz", "abd", "zz", "abc"]),
            vec![Some(0); 4],
            5,
        )
    };
    let c = || col("c");
    assert_eq!(kept(&texts(), &c().like(lit("b%"))), [false, false, true, false]);
    assert_eq!(kept(&texts(), &c().like(lit("abd%"))), [true, true, false, false]);
    assert_eq!(kept(&texts(), &c().not_like(lit("ab%"))), [false, false, true, false]);
    assert_eq!(kept(&texts(), &c().not_like(lit("ab_"))), [true, true, true, true]);
    assert_eq!(kept(&texts(), &c().like(lit("%b"))), [true; 4]);
    assert_eq!(kept(&texts(), &c().like(lit("a\\%"))), [true; 4]);
    assert_eq!(kept(&texts(), &c().ilike(lit("Q%"))), [true; 4]);
}

#[test]
fn booleans_are_predicates_themselves() {
    let flags = || {
        bounds(
            BooleanArray::from(vec![false, true, false]),
            BooleanArray::from(vec![false, true, true]),
            vec![None; 3],
            5,
        )
    };
    assert_eq!(kept(&flags(), &col("c")), [false, true, true]);
    assert_eq!(kept(&flags(), &!col("c")), [true, false, true]);
    assert_eq!(kept(&flags(), &col("c").is_true()), [false, true, true]);
    assert_eq!(kept(&flags(), &col("c").is_not_true()), [true; 3]);
}

#[test]
fn a_chain_of_many_terms_is_walked_without_recursion() {
    let chain = |op: fn(Expr, Expr) -> Expr| (100..30_000_i64).map(|value| col("c").eq(lit(value))).reduce(op).unwrap();
    let worker = std::thread::Builder::new().stack_size(64 << 20);
    let checked = worker.spawn(move || {
        let or = chain(Expr::or);
        let excluded = kept(&integers(), &or);
        let and = chain(Expr::and);
        (excluded, kept(&integers(), &and))
    });
    let (or, and) = checked.unwrap().join().unwrap();
    assert_eq!(or, [false, false, false, true, true, false]);
    assert_eq!(and, [false, false, false, true, true, false]);
}

proptest! {
    #[test]
    fn the_successor_of_a_prefix_ends_its_texts(prefix in "\\PC{1,4}", rest in "\\PC{0,3}", other in "\\PC{0,4}") {
        let all = format!("{prefix}{rest}");
        if let Some(end) = compile::successor(&prefix) {
            prop_assert!(all < end);
            // And nothing else lies between.
            if other >= prefix && other < end {
                prop_assert!(other.starts_with(&prefix));
            }
        }
    }
}
