//! From the bounds and counts in manifests to typed statistics over all files.
//!
//! A bound that is missing, not understood, a NaN or inverted is *not known*, which never prunes.

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::DataType;
use lakeserve_common::Result;

use super::manifest::Entry;
use super::scalar::{self, Scalar};
use super::schema::{Field, Schema, Type};
use crate::snapshot::{ColumnStatistics, TableStatistics};

/// Statistics of `files` (in canonical order). `constants` yields the value of a column that a
/// partition fixes for a file: `Some(None)` is null.
pub(super) fn collect(
    schema: &Schema,
    files: &[&Entry],
    constants: impl Fn(usize, usize) -> Option<Option<Scalar>>,
) -> Result<TableStatistics> {
    let columns = schema.fields.iter().enumerate().map(|(column, field)| match &field.kind {
        Type::Primitive(kind) => collect_column(field, kind, files, |file| constants(column, file)),
        _ => Ok(None),
    });
    Ok(TableStatistics { columns: columns.collect::<Result<_>>()? })
}

fn collect_column(
    field: &Field,
    kind: &DataType,
    files: &[&Entry],
    constant: impl Fn(usize) -> Option<Option<Scalar>>,
) -> Result<Option<ColumnStatistics>> {
    let mut lowers = Vec::with_capacity(files.len());
    let mut uppers = Vec::with_capacity(files.len());
    let mut nulls = Vec::with_capacity(files.len());
    for (ordinal, file) in files.iter().enumerate() {
        let (mut lower, mut upper) = bounds(field.id, kind, file);
        let mut null_count = null_count(field.id, file);
        match constant(ordinal) {
            Some(Some(value)) if lower.is_none() && upper.is_none() && !value.is_nan() => {
                (lower, upper) = (Some(value.clone()), Some(value));
                null_count = null_count.or(Some(0));
            }
            Some(None) => null_count = null_count.or(Some(file.records)),
            _ => {}
        }
        lowers.push(lower);
        uppers.push(upper);
        nulls.push(null_count);
    }
    let known = |values: &[Option<Scalar>]| values.iter().any(Option::is_some);
    if !known(&lowers) && !known(&uppers) && nulls.iter().all(Option::is_none) {
        return Ok(None);
    }
    let (lower, upper): (ArrayRef, ArrayRef) = (scalar::array(&lowers, kind)?, scalar::array(&uppers, kind)?);
    Ok(Some(ColumnStatistics { lower, upper, null_count: UInt64Array::from(nulls) }))
}

fn find<T>(pairs: &[(i32, T)], id: i32) -> Option<&T> {
    let position = pairs.binary_search_by_key(&id, |(id, _)| *id).ok()?;
    pairs.get(position).map(|(_, value)| value)
}

/// Both bounds of column `id` in `file`.
fn bounds(id: i32, kind: &DataType, file: &Entry) -> (Option<Scalar>, Option<Scalar>) {
    // Writers in Java order UUIDs as pairs of signed numbers: such bounds cannot be trusted.
    if *kind == DataType::FixedSizeBinary(16) {
        return (None, None);
    }
    let read = |bytes: &[u8]| Scalar::from_bound(bytes, kind).filter(|bound| !bound.is_nan());
    let lower = find(&file.lower_bounds, id).and_then(|bytes| read(bytes)).map(|bound| signed_zero(bound, -0.0));
    // Some writers leave the upper bound empty when they do not know it.
    let upper = find(&file.upper_bounds, id).filter(|bytes| !bytes.is_empty());
    let upper = upper.and_then(|bytes| read(bytes)).map(|bound| signed_zero(bound, 0.0));
    match (&lower, &upper) {
        (Some(low), Some(high)) if scalar::is_inverted(low, high) => (None, None),
        _ => (lower, upper),
    }
}

/// A bound of zero must cover both zeros, which comparisons may tell apart.
fn signed_zero(bound: Scalar, zero: f64) -> Scalar {
    match bound {
        Scalar::Float(0.0) => Scalar::Float(zero),
        other => other,
    }
}

fn null_count(id: i32, file: &Entry) -> Option<u64> {
    let count = find(&file.null_counts, id).and_then(|count| u64::try_from(*count).ok())?;
    (count <= file.records).then_some(count)
}

#[cfg(test)]
mod tests;
