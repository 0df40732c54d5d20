//! The names of column types towards clients.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};

/// The SQL name of a type, as `/v1/query` gives it in `columns[].type`: `BIGINT`, `DECIMAL(15,2)`, `VARCHAR`,
/// `TIMESTAMP` (microseconds; `TIMESTAMP(0)`, `(3)` and `(9)` for the other units), `TIMESTAMP WITH TIME ZONE`,
/// `BIGINT[]`, `STRUCT(a BIGINT, b VARCHAR)`, `MAP(VARCHAR, BIGINT)`.
#[must_use]
pub fn sql_type(data_type: &DataType) -> String {
    use DataType as T;
    let name = match data_type {
        T::Null => "NULL",
        T::Boolean => "BOOLEAN",
        T::Int8 => "TINYINT",
        T::Int16 => "SMALLINT",
        T::Int32 => "INTEGER",
        T::Int64 => "BIGINT",
        T::UInt8 => "TINYINT UNSIGNED",
        T::UInt16 => "SMALLINT UNSIGNED",
        T::UInt32 => "INTEGER UNSIGNED",
        T::UInt64 => "BIGINT UNSIGNED",
        T::Float16 => "HALF",
        T::Float32 => "REAL",
        T::Float64 => "DOUBLE",
        T::Decimal32(precision, scale)
        | T::Decimal64(precision, scale)
        | T::Decimal128(precision, scale)
        | T::Decimal256(precision, scale) => return format!("DECIMAL({precision},{scale})"),
        T::Date32 | T::Date64 => "DATE",
        T::Time32(_) | T::Time64(_) => "TIME",
        T::Timestamp(unit, zone) => {
            let digits = match unit {
                TimeUnit::Second => "(0)",
                TimeUnit::Millisecond => "(3)",
                TimeUnit::Microsecond => "",
                TimeUnit::Nanosecond => "(9)",
            };
            let zone = if zone.is_some() { " WITH TIME ZONE" } else { "" };
            return format!("TIMESTAMP{digits}{zone}");
        }
        T::Duration(_) | T::Interval(IntervalUnit::DayTime) => "INTERVAL DAY TO SECOND",
        T::Interval(IntervalUnit::YearMonth) => "INTERVAL YEAR TO MONTH",
        T::Interval(IntervalUnit::MonthDayNano) => "INTERVAL",
        T::Utf8 | T::LargeUtf8 | T::Utf8View => "VARCHAR",
        T::Binary | T::LargeBinary | T::BinaryView => "VARBINARY",
        T::FixedSizeBinary(size) => return format!("BINARY({size})"),
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) | T::FixedSizeList(item, _) => {
            return format!("{}[]", sql_type(item.data_type()));
        }
        T::Struct(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|field| format!("{} {}", field.name(), sql_type(field.data_type()))).collect();
            return format!("STRUCT({})", fields.join(", "));
        }
        T::Map(entries, _) => {
            let T::Struct(fields) = entries.data_type() else { return "MAP".into() };
            let types: Vec<_> = fields.iter().map(|field| sql_type(field.data_type())).collect();
            return format!("MAP({})", types.join(", "));
        }
        T::Union(_, _) => "UNION",
        T::Dictionary(_, value) => return sql_type(value),
        T::RunEndEncoded(_, value) => return sql_type(value.data_type()),
    };
    name.into()
}

/// The Pinot name of a type, as `/query/sql` gives it in `columnDataTypes`. What Pinot has no type for (dates, times,
/// intervals) is a STRING in canonical spelling; nested values other than lists of scalars are JSON.
#[must_use]
pub fn pinot_type(data_type: &DataType) -> &'static str {
    use DataType as T;
    match data_type {
        T::Boolean => "BOOLEAN",
        T::Int8 | T::Int16 | T::Int32 | T::UInt8 | T::UInt16 => "INT",
        T::Int64 | T::UInt32 | T::UInt64 => "LONG",
        T::Float16 | T::Float32 => "FLOAT",
        T::Float64 => "DOUBLE",
        T::Decimal32(_, _) | T::Decimal64(_, _) | T::Decimal128(_, _) | T::Decimal256(_, _) => "BIG_DECIMAL",
        T::Timestamp(_, _) => "TIMESTAMP",
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => "BYTES",
        T::Null
        | T::Utf8
        | T::LargeUtf8
        | T::Utf8View
        | T::Date32
        | T::Date64
        | T::Time32(_)
        | T::Time64(_)
        | T::Duration(_)
        | T::Interval(_) => "STRING",
        T::Dictionary(_, value) => pinot_type(value),
        T::RunEndEncoded(_, value) => pinot_type(value.data_type()),
        T::List(_) | T::LargeList(_) | T::ListView(_) | T::LargeListView(_) | T::FixedSizeList(_, _) => {
            match pinot_array_element(data_type) {
                Some("BOOLEAN") => "BOOLEAN_ARRAY",
                Some("INT") => "INT_ARRAY",
                Some("LONG") => "LONG_ARRAY",
                Some("FLOAT") => "FLOAT_ARRAY",
                Some("DOUBLE") => "DOUBLE_ARRAY",
                Some("BIG_DECIMAL") => "BIG_DECIMAL_ARRAY",
                Some("TIMESTAMP") => "TIMESTAMP_ARRAY",
                Some("BYTES") => "BYTES_ARRAY",
                Some(_) => "STRING_ARRAY",
                None => "JSON",
            }
        }
        T::Struct(_) | T::Map(_, _) | T::Union(_, _) => "JSON",
    }
}

/// The Pinot type of a list's items, if the list is one of scalars and so a Pinot array.
pub(super) fn pinot_array_element(data_type: &DataType) -> Option<&'static str> {
    use DataType as T;
    let (T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) | T::FixedSizeList(item, _)) =
        data_type
    else {
        return None;
    };
    let name = pinot_type(item.data_type());
    (name != "JSON" && !name.ends_with("_ARRAY")).then_some(name)
}
