//! Decoding of one datum under its writer's schema.

use super::AvroError;
use super::schema::Schema;

/// A decoded datum. Records are positional: see [`super::Layout`] for the positions.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::iceberg) enum Value<'a> {
    /// Null, or a null branch of a union.
    Null,
    /// A boolean.
    Boolean(bool),
    /// An `int` (or the index of an enum's symbol).
    Int(i32),
    /// A `long`.
    Long(i64),
    /// A `float`.
    Float(f32),
    /// A `double`.
    Double(f64),
    /// Bytes or fixed.
    Bytes(&'a [u8]),
    /// A string.
    Text(&'a str),
    /// An array's items.
    Array(Vec<Value<'a>>),
    /// A map's entries in file order.
    Map(Vec<(&'a str, Value<'a>)>),
    /// A record's fields in schema order.
    Record(Vec<Value<'a>>),
}

impl<'a> Value<'a> {
    /// An integer of either width.
    pub(in crate::iceberg) fn integer(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(i64::from(*value)),
            Self::Long(value) => Some(*value),
            _ => None,
        }
    }

    /// A string.
    pub(in crate::iceberg) fn text(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Bytes or fixed.
    pub(in crate::iceberg) fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// An array's items; nothing for null and anything else.
    pub(in crate::iceberg) fn items(&self) -> &[Value<'a>] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// The field at `position` of a record; null where there is none.
    pub(in crate::iceberg) fn field(&self, position: Option<usize>) -> &Value<'a> {
        match (self, position) {
            (Self::Record(fields), Some(position)) => fields.get(position).unwrap_or(&Self::Null),
            _ => &Self::Null,
        }
    }
}

/// The bytes that are still to be read.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next `length` bytes.
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], AvroError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(length) else {
            return Err(AvroError::Truncated(length - self.bytes.len()));
        };
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], AvroError> {
        self.take(N)?.try_into().map_err(|_| AvroError::Malformed("a number has a wrong length"))
    }

    /// A zigzag variable-length integer.
    pub(super) fn long(&mut self) -> Result<i64, AvroError> {
        let mut raw = 0_u64;
        for shift in (0..70).step_by(7) {
            let [byte] = self.array::<1>()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            raw |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed());
            }
        }
        Err(AvroError::Malformed("an integer has more than 64 bits"))
    }

    fn int(&mut self) -> Result<i32, AvroError> {
        i32::try_from(self.long()?).map_err(|_| AvroError::Malformed("an int has more than 32 bits"))
    }

    /// A length that the bytes can hold.
    pub(super) fn length(&mut self) -> Result<usize, AvroError> {
        let length = self.long()?;
        let length = usize::try_from(length).map_err(|_| AvroError::Malformed("a length is negative"))?;
        match length.checked_sub(self.bytes.len()) {
            None | Some(0) => Ok(length),
            Some(missing) => Err(AvroError::Truncated(missing)),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], AvroError> {
        let length = self.length()?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, AvroError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| AvroError::Malformed("a string is not UTF-8"))
    }

    /// The number of items in the next block of an array or map; 0 ends it. Every item that occurs
    /// in a manifest takes at least one byte, which bounds the count.
    pub(super) fn block_count(&mut self) -> Result<usize, AvroError> {
        let mut count = self.long()?;
        if count < 0 {
            count = count.checked_neg().ok_or(AvroError::Malformed("an array's count is out of range"))?;
            self.long()?;
        }
        let count = usize::try_from(count).map_err(|_| AvroError::Malformed("an array's count is out of range"))?;
        match count.checked_sub(self.bytes.len()) {
            None | Some(0) => Ok(count),
            Some(missing) => Err(AvroError::Truncated(missing)),
        }
    }
}

/// Decodes one datum.
pub(super) fn decode<'a>(schema: &Schema, cursor: &mut Cursor<'a>) -> Result<Value<'a>, AvroError> {
    Ok(match schema {
        Schema::Null => Value::Null,
        Schema::Boolean => match cursor.take(1)? {
            [0] => Value::Boolean(false),
            [1] => Value::Boolean(true),
            _ => return Err(AvroError::Malformed("a boolean is neither 0 nor 1")),
        },
        Schema::Int | Schema::Enum => Value::Int(cursor.int()?),
        Schema::Long => Value::Long(cursor.long()?),
        Schema::Float => Value::Float(f32::from_le_bytes(cursor.array()?)),
        Schema::Double => Value::Double(f64::from_le_bytes(cursor.array()?)),
        Schema::Bytes => Value::Bytes(cursor.bytes()?),
        Schema::Text => Value::Text(cursor.text()?),
        Schema::Fixed(size) => Value::Bytes(cursor.take(*size)?),
        Schema::Union(branches) => {
            let branch = usize::try_from(cursor.long()?).ok().and_then(|index| branches.get(index));
            decode(branch.ok_or(AvroError::Malformed("a union's branch does not exist"))?, cursor)?
        }
        Schema::Array(item) => {
            let mut items = Vec::new();
            loop {
                let count = cursor.block_count()?;
                if count == 0 {
                    break Value::Array(items);
                }
                for _ in 0..count {
                    items.push(decode(item, cursor)?);
                }
            }
        }
        Schema::Map(item) => {
            let mut entries = Vec::new();
            loop {
                let count = cursor.block_count()?;
                if count == 0 {
                    break Value::Map(entries);
                }
                for _ in 0..count {
                    let key = cursor.text()?;
                    entries.push((key, decode(item, cursor)?));
                }
            }
        }
        Schema::Record(fields) => {
            let mut values = Vec::with_capacity(fields.len());
            for field in fields.iter() {
                values.push(decode(&field.schema, cursor)?);
            }
            Value::Record(values)
        }
    })
}
