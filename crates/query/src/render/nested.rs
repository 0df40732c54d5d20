//! Writers of lists, structs and maps.

use std::ops::Range;

use arrow::array::{Array, AsArray, FixedSizeListArray, MapArray, OffsetSizeTrait, StructArray};
use arrow::datatypes::{ArrowNativeType, DataType};
use lakeserve_common::error::Result;

use super::cell::{Cell, cell, nullable};
use super::types::pinot_array_element;
use super::{Spelling, json};

/// A list: a JSON array, unless the spelling wants nested values as text.
pub(super) fn list(array: &dyn Array, spelling: Spelling) -> Result<Cell<'_>> {
    let pinot_array = spelling == Spelling::Pinot && pinot_array_element(array.data_type()).is_some();
    if pinot_array {
        items(array, spelling)
    } else {
        Ok(as_json_text(array, spelling, items(array, Spelling::Canonical)?))
    }
}

/// A JSON array of the items of each row.
fn items(array: &dyn Array, spelling: Spelling) -> Result<Cell<'_>> {
    fn offsets<O: OffsetSizeTrait>(offsets: &[O]) -> impl Fn(usize) -> Range<usize> + Send + Sync + '_ {
        |row| offsets[row].as_usize()..offsets[row + 1].as_usize()
    }
    fn views<'a, O: OffsetSizeTrait>(
        offsets: &'a [O],
        sizes: &'a [O],
    ) -> impl Fn(usize) -> Range<usize> + Send + Sync + 'a {
        |row| offsets[row].as_usize()..offsets[row].as_usize() + sizes[row].as_usize()
    }
    fn make<'a>(
        array: &'a dyn Array,
        values: &'a dyn Array,
        spelling: Spelling,
        range: impl Fn(usize) -> Range<usize> + Send + Sync + 'a,
    ) -> Result<Cell<'a>> {
        let item = cell(values, spelling)?;
        Ok(nullable(array, spelling, move |row, out| {
            out.push(b'[');
            for (nth, at) in range(row).enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                item(at, out);
            }
            out.push(b']');
        }))
    }
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            make(array, list.values().as_ref(), spelling, offsets(list.value_offsets()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            make(array, list.values().as_ref(), spelling, offsets(list.value_offsets()))
        }
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            make(array, list.values().as_ref(), spelling, views(list.offsets(), list.sizes()))
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            make(array, list.values().as_ref(), spelling, views(list.offsets(), list.sizes()))
        }
        _ => {
            let list: &FixedSizeListArray = array.as_fixed_size_list();
            let size = usize::try_from(list.value_length()).unwrap_or_default();
            // The values may be those of a longer, sliced array; the offset says where this one begins.
            let base = usize::try_from(list.value_offset(0)).unwrap_or_default();
            make(array, list.values().as_ref(), spelling, move |row| base + row * size..base + (row + 1) * size)
        }
    }
}

/// A JSON object with the fields in schema order.
pub(super) fn structure(array: &StructArray) -> Result<Cell<'_>> {
    let mut fields = Vec::with_capacity(array.num_columns());
    for (field, column) in array.fields().iter().zip(array.columns()) {
        let mut label = Vec::new();
        json::string(field.name(), &mut label);
        label.push(b':');
        fields.push((label, cell(column.as_ref(), Spelling::Canonical)?));
    }
    Ok(nullable(array, Spelling::Canonical, move |row, out| {
        out.push(b'{');
        for (nth, (label, value)) in fields.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            out.extend_from_slice(label);
            value(row, out);
        }
        out.push(b'}');
    }))
}

/// A JSON array of `[key, value]` pairs, sorted by the JSON text of the key.
pub(super) fn map(array: &MapArray) -> Result<Cell<'_>> {
    let keys = cell(array.keys().as_ref(), Spelling::Canonical)?;
    let values = cell(array.values().as_ref(), Spelling::Canonical)?;
    let offsets = array.value_offsets();
    Ok(nullable(array, Spelling::Canonical, move |row, out| {
        let range = offsets[row].as_usize()..offsets[row + 1].as_usize();
        let mut pairs: Vec<(Vec<u8>, usize, Vec<u8>)> = range
            .map(|at| {
                let mut key = Vec::new();
                keys(at, &mut key);
                (json::ascii_order_key(&key), at, key)
            })
            .collect();
        pairs.sort_unstable();
        out.push(b'[');
        for (nth, (_, at, key)) in pairs.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            out.push(b'[');
            out.extend_from_slice(key);
            out.push(b',');
            values(*at, out);
            out.push(b']');
        }
        out.push(b']');
    }))
}

/// Turns a writer of canonical JSON into one for `spelling`: the JSON itself, the JSON in a JSON string (Pinot),
/// or the bare JSON with nothing for NULL (text).
pub(super) fn as_json_text<'a>(array: &'a dyn Array, spelling: Spelling, canonical: Cell<'a>) -> Cell<'a> {
    match spelling {
        Spelling::Canonical => canonical,
        Spelling::Text => nullable(array, spelling, canonical),
        Spelling::Pinot => nullable(array, spelling, move |row, out| {
            let mut text = Vec::new();
            canonical(row, &mut text);
            json::string(&String::from_utf8_lossy(&text), out);
        }),
    }
}
