//! One writer per column: typed once per batch, called once per row.

use arrow::array::{Array, ArrowPrimitiveType, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalUnit, IntervalYearMonthType, RunEndIndexType, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use lakeserve_common::error::{Error, ErrorKind, Result};

use super::nested::{as_json_text, list, map, structure};
use super::{Spelling, json, number, time};

/// Writes the value of one row; the row must be below the length of the array that the writer was made from.
pub(super) type Cell<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + Send + Sync + 'a>;

/// The writer of an array.
///
/// # Errors
/// `Unsupported` for unions, at any depth.
pub(super) fn cell(array: &dyn Array, spelling: Spelling) -> Result<Cell<'_>> {
    use DataType as T;
    Ok(match array.data_type() {
        T::Null => {
            let null = null_text(spelling);
            Box::new(move |_, out: &mut Vec<u8>| out.extend_from_slice(null))
        }
        T::Boolean => {
            let values = array.as_boolean().values();
            nullable(array, spelling, move |row, out| {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" });
            })
        }
        T::Int8 => integer::<Int8Type>(array, spelling),
        T::Int16 => integer::<Int16Type>(array, spelling),
        T::Int32 => integer::<Int32Type>(array, spelling),
        T::Int64 => integer::<Int64Type>(array, spelling),
        T::UInt8 => integer::<UInt8Type>(array, spelling),
        T::UInt16 => integer::<UInt16Type>(array, spelling),
        T::UInt32 => integer::<UInt32Type>(array, spelling),
        T::UInt64 => integer::<UInt64Type>(array, spelling),
        T::Float16 => {
            primitive::<Float16Type>(array, spelling, move |value, out| single(value.to_f32(), spelling, out))
        }
        T::Float32 => primitive::<Float32Type>(array, spelling, move |value, out| single(value, spelling, out)),
        T::Float64 => primitive::<Float64Type>(array, spelling, move |value, out| double(value, spelling, out)),
        T::Decimal32(_, scale) => decimal::<Decimal32Type>(array, spelling, *scale, |value| value.into()),
        T::Decimal64(_, scale) => decimal::<Decimal64Type>(array, spelling, *scale, |value| value.into()),
        T::Decimal128(_, scale) => decimal::<Decimal128Type>(array, spelling, *scale, |value| value),
        T::Decimal256(_, scale) => {
            let scale = *scale;
            primitive::<Decimal256Type>(array, spelling, move |value, out| {
                quoted(spelling, out, |out| number::decimal256(value, scale, out));
            })
        }
        T::Date32 => quoted_primitive::<Date32Type>(array, spelling, |days, out| time::date(days.into(), out)),
        T::Date64 => quoted_primitive::<Date64Type>(array, spelling, |millis, out| {
            time::date(millis.div_euclid(86_400_000), out)
        }),
        T::Time32(TimeUnit::Second) => clock::<Time32SecondType>(array, spelling, TimeUnit::Second),
        T::Time32(_) => clock::<Time32MillisecondType>(array, spelling, TimeUnit::Millisecond),
        T::Time64(TimeUnit::Microsecond) => clock::<Time64MicrosecondType>(array, spelling, TimeUnit::Microsecond),
        T::Time64(_) => clock::<Time64NanosecondType>(array, spelling, TimeUnit::Nanosecond),
        T::Timestamp(unit, zone) => timestamp(array, spelling, *unit, zone.is_some()),
        T::Duration(unit) => duration(array, spelling, *unit),
        T::Interval(unit) => interval(array, spelling, *unit),
        T::Utf8 => text(array, spelling, array.as_string::<i32>(), |array, row| array.value(row)),
        T::LargeUtf8 => text(array, spelling, array.as_string::<i64>(), |array, row| array.value(row)),
        T::Utf8View => text(array, spelling, array.as_string_view(), |array, row| array.value(row)),
        T::Binary => bytes(array, spelling, array.as_binary::<i32>(), |array, row| array.value(row)),
        T::LargeBinary => bytes(array, spelling, array.as_binary::<i64>(), |array, row| array.value(row)),
        T::BinaryView => bytes(array, spelling, array.as_binary_view(), |array, row| array.value(row)),
        T::FixedSizeBinary(_) => bytes(array, spelling, array.as_fixed_size_binary(), |array, row| array.value(row)),
        T::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                // Every row of a dictionary without values is NULL.
                let null = null_text(spelling);
                return Ok(Box::new(move |_, out: &mut Vec<u8>| out.extend_from_slice(null)));
            }
            let keys = dictionary.normalized_keys();
            let values = cell(dictionary.values().as_ref(), spelling)?;
            nullable(array, spelling, move |row, out| values(keys[row], out))
        }
        T::RunEndEncoded(run_ends, _) => match run_ends.data_type() {
            T::Int16 => runs::<Int16Type>(array, spelling)?,
            T::Int32 => runs::<Int32Type>(array, spelling)?,
            _ => runs::<Int64Type>(array, spelling)?,
        },
        T::List(_) | T::LargeList(_) | T::ListView(_) | T::LargeListView(_) | T::FixedSizeList(_, _) => {
            list(array, spelling)?
        }
        T::Struct(_) => as_json_text(array, spelling, structure(array.as_struct())?),
        T::Map(_, _) => as_json_text(array, spelling, map(array.as_map())?),
        T::Union(_, _) => {
            return Err(Error::new(ErrorKind::Unsupported, "values of a union type cannot be written out yet")
                .with_hint("select one member of the union instead"));
        }
    })
}

fn null_text(spelling: Spelling) -> &'static [u8] {
    match spelling {
        Spelling::Canonical | Spelling::Pinot => b"null",
        Spelling::Text => b"",
    }
}

/// Adds the check for NULL around a writer of values, where the array has any.
pub(super) fn nullable<'a>(
    array: &'a dyn Array,
    spelling: Spelling,
    write: impl Fn(usize, &mut Vec<u8>) + Send + Sync + 'a,
) -> Cell<'a> {
    match array.nulls() {
        None => Box::new(write),
        Some(nulls) => {
            let nulls: &NullBuffer = nulls;
            let null = null_text(spelling);
            Box::new(move |row, out: &mut Vec<u8>| {
                if nulls.is_null(row) {
                    out.extend_from_slice(null);
                } else {
                    write(row, out);
                }
            })
        }
    }
}

/// Puts quotes around text that needs no escapes.
fn quoted(spelling: Spelling, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if spelling == Spelling::Text {
        write(out);
    } else {
        out.push(b'"');
        write(out);
        out.push(b'"');
    }
}

fn primitive<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    spelling: Spelling,
    write: impl Fn(T::Native, &mut Vec<u8>) + Send + Sync + 'a,
) -> Cell<'a> {
    let values = array.as_primitive::<T>().values();
    nullable(array, spelling, move |row, out| write(values[row], out))
}

fn quoted_primitive<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    spelling: Spelling,
    write: impl Fn(T::Native, &mut Vec<u8>) + Send + Sync + 'a,
) -> Cell<'a> {
    primitive::<T>(array, spelling, move |value, out| quoted(spelling, out, |out| write(value, out)))
}

fn integer<T: ArrowPrimitiveType>(array: &dyn Array, spelling: Spelling) -> Cell<'_>
where
    T::Native: Into<i128>,
{
    primitive::<T>(array, spelling, |value, out| number::integer(value.into(), out))
}

fn decimal<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    spelling: Spelling,
    scale: i8,
    widen: impl Fn(T::Native) -> i128 + Send + Sync + 'a,
) -> Cell<'a> {
    quoted_primitive::<T>(array, spelling, move |value, out| number::decimal128(widen(value), scale, out))
}

/// Single precision: widened in the canonical spelling, which other readers compare as doubles; shortest elsewhere.
fn single(value: f32, spelling: Spelling, out: &mut Vec<u8>) {
    if spelling == Spelling::Canonical || !value.is_finite() {
        double(value.into(), spelling, out);
    } else {
        number::single(value, out);
    }
}

fn double(value: f64, spelling: Spelling, out: &mut Vec<u8>) {
    match number::not_finite(value) {
        Some(text) => quoted(spelling, out, |out| out.extend_from_slice(text.as_bytes())),
        None => number::double(value, out),
    }
}

fn clock<T: ArrowPrimitiveType>(array: &dyn Array, spelling: Spelling, unit: TimeUnit) -> Cell<'_>
where
    T::Native: Into<i64>,
{
    quoted_primitive::<T>(array, spelling, move |value, out| time::time(value.into(), unit, out))
}

fn timestamp(array: &dyn Array, spelling: Spelling, unit: TimeUnit, zoned: bool) -> Cell<'_> {
    let write = move |value: i64, out: &mut Vec<u8>| match spelling {
        Spelling::Pinot => time::java_timestamp(value, unit, out),
        Spelling::Canonical | Spelling::Text => time::timestamp(value, unit, zoned, out),
    };
    match unit {
        TimeUnit::Second => quoted_primitive::<TimestampSecondType>(array, spelling, write),
        TimeUnit::Millisecond => quoted_primitive::<TimestampMillisecondType>(array, spelling, write),
        TimeUnit::Microsecond => quoted_primitive::<TimestampMicrosecondType>(array, spelling, write),
        TimeUnit::Nanosecond => quoted_primitive::<TimestampNanosecondType>(array, spelling, write),
    }
}

fn duration(array: &dyn Array, spelling: Spelling, unit: TimeUnit) -> Cell<'_> {
    let nanos = i128::from(1_000_000_000 / time::per_second(unit));
    let write = move |value: i64, out: &mut Vec<u8>| time::interval(0, 0, i128::from(value) * nanos, out);
    match unit {
        TimeUnit::Second => quoted_primitive::<DurationSecondType>(array, spelling, write),
        TimeUnit::Millisecond => quoted_primitive::<DurationMillisecondType>(array, spelling, write),
        TimeUnit::Microsecond => quoted_primitive::<DurationMicrosecondType>(array, spelling, write),
        TimeUnit::Nanosecond => quoted_primitive::<DurationNanosecondType>(array, spelling, write),
    }
}

fn interval(array: &dyn Array, spelling: Spelling, unit: IntervalUnit) -> Cell<'_> {
    match unit {
        IntervalUnit::YearMonth => quoted_primitive::<IntervalYearMonthType>(array, spelling, |months, out| {
            time::interval(months.into(), 0, 0, out);
        }),
        IntervalUnit::DayTime => quoted_primitive::<IntervalDayTimeType>(array, spelling, |value, out| {
            time::interval(0, value.days.into(), i128::from(value.milliseconds) * 1_000_000, out);
        }),
        IntervalUnit::MonthDayNano => quoted_primitive::<IntervalMonthDayNanoType>(array, spelling, |value, out| {
            time::interval(value.months.into(), value.days.into(), value.nanoseconds.into(), out);
        }),
    }
}

fn text<'a, A: Sync + ?Sized>(
    array: &'a dyn Array,
    spelling: Spelling,
    typed: &'a A,
    value: impl Fn(&'a A, usize) -> &'a str + Send + Sync + 'a,
) -> Cell<'a> {
    nullable(array, spelling, move |row, out| {
        let text = value(typed, row);
        if spelling == Spelling::Text {
            out.extend_from_slice(text.as_bytes());
        } else {
            json::string(text, out);
        }
    })
}

fn bytes<'a, A: Sync + ?Sized>(
    array: &'a dyn Array,
    spelling: Spelling,
    typed: &'a A,
    value: impl Fn(&'a A, usize) -> &'a [u8] + Send + Sync + 'a,
) -> Cell<'a> {
    nullable(array, spelling, move |row, out| {
        quoted(spelling, out, |out| {
            if spelling != Spelling::Pinot {
                out.extend_from_slice(b"0x");
            }
            json::hex(value(typed, row), out);
        });
    })
}

fn runs<R: RunEndIndexType>(array: &dyn Array, spelling: Spelling) -> Result<Cell<'_>> {
    let runs = array.as_run::<R>();
    let values = cell(runs.values().as_ref(), spelling)?;
    Ok(Box::new(move |row, out: &mut Vec<u8>| values(runs.get_physical_index(row), out)))
}
