//! Running totals: what an aggregate keeps for a group, how values enter and leave it, and how it travels between
//! partial and final aggregation.
//!
//! Invariants: adding is commutative and associative bit for bit, `subtract` undoes `add`, and no total can wrap:
//! each is wide enough for 2^63 rows of its argument type.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, i256};
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use num_bigint::BigInt;

use super::exact::ExactSum;

/// A total that can be kept, merged and sent.
pub(super) trait Total: Default + Clone + Debug + Send + Sync + 'static {
    /// Whether [`Self::heap_size`] can be other than zero.
    const USES_HEAP: bool;

    /// Bytes on the heap.
    fn heap_size(&self) -> usize {
        0
    }

    /// Adds another total.
    fn merge(&mut self, other: &Self);

    /// The Arrow type of [`Self::encode`].
    fn state_type() -> DataType;

    /// The totals as one array.
    fn encode(totals: &[Self]) -> ArrayRef;

    /// Reads [`Self::encode`]; rows that are NULL are empty totals.
    ///
    /// # Errors
    /// If a row is not an encoded total.
    fn decode(array: &dyn Array) -> Result<Vec<Self>>;
}

/// A total of values of type `V`.
pub(super) trait Adds<V: Copy>: Total {
    /// Adds a value.
    fn add(&mut self, value: V);

    /// Takes out a value that was added before.
    fn subtract(&mut self, value: V);

    /// Adds all values.
    fn add_all(&mut self, values: &[V]) {
        for value in values {
            self.add(*value);
        }
    }
}

/// Whole numbers and decimals of up to 19 digits.
impl Total for i128 {
    const USES_HEAP: bool = false;

    fn merge(&mut self, other: &Self) {
        *self = self.wrapping_add(*other);
    }

    fn state_type() -> DataType {
        DataType::Decimal128(38, 0)
    }

    fn encode(totals: &[Self]) -> ArrayRef {
        let array = PrimitiveArray::<Decimal128Type>::from_iter_values(totals.iter().copied());
        Arc::new(array.with_data_type(Self::state_type()))
    }

    fn decode(array: &dyn Array) -> Result<Vec<Self>> {
        let array = array
            .as_primitive_opt::<Decimal128Type>()
            .ok_or_else(|| internal_datafusion_err!("a total of whole numbers cannot be {}", array.data_type()))?;
        Ok(array.iter().map(Option::unwrap_or_default).collect())
    }
}

impl<V: Copy + Into<i128>> Adds<V> for i128 {
    fn add(&mut self, value: V) {
        *self = self.wrapping_add(value.into());
    }

    fn subtract(&mut self, value: V) {
        *self = self.wrapping_sub(value.into());
    }
}

/// Decimals of up to 38 digits.
impl Total for i256 {
    const USES_HEAP: bool = false;

    fn merge(&mut self, other: &Self) {
        *self = self.wrapping_add(*other);
    }

    fn state_type() -> DataType {
        DataType::Decimal256(76, 0)
    }

    fn encode(totals: &[Self]) -> ArrayRef {
        let array = PrimitiveArray::<Decimal256Type>::from_iter_values(totals.iter().copied());
        Arc::new(array.with_data_type(Self::state_type()))
    }

    fn decode(array: &dyn Array) -> Result<Vec<Self>> {
        let array = array
            .as_primitive_opt::<Decimal256Type>()
            .ok_or_else(|| internal_datafusion_err!("a total of decimals cannot be {}", array.data_type()))?;
        Ok(array.iter().map(Option::unwrap_or_default).collect())
    }
}

impl Adds<i128> for i256 {
    fn add(&mut self, value: i128) {
        *self = self.wrapping_add(Self::from_i128(value));
    }

    fn subtract(&mut self, value: i128) {
        *self = self.wrapping_sub(Self::from_i128(value));
    }

    fn add_all(&mut self, values: &[i128]) {
        // Nearly always a whole batch fits 128 bits.
        let mut narrow = 0i128;
        for value in values {
            match narrow.checked_add(*value) {
                Some(sum) => narrow = sum,
                None => {
                    self.add(narrow);
                    narrow = *value;
                }
            }
        }
        self.add(narrow);
    }
}

/// Decimals of up to 76 digits: 256 bits and the carries out of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Carried {
    low: i256,
    carry: i64,
}

impl Carried {
    fn add_signed(&mut self, value: i256, carry: i64) {
        let sum = self.low.wrapping_add(value);
        let overflowed = (value.is_negative() == self.low.is_negative()) && (sum.is_negative() != value.is_negative());
        if overflowed {
            self.carry = self.carry.wrapping_add(if value.is_negative() { -1 } else { 1 });
        }
        self.carry = self.carry.wrapping_add(carry);
        self.low = sum;
    }
}

impl Total for Carried {
    const USES_HEAP: bool = false;

    fn merge(&mut self, other: &Self) {
        self.add_signed(other.low, other.carry);
    }

    fn state_type() -> DataType {
        DataType::Binary
    }

    fn encode(totals: &[Self]) -> ArrayRef {
        let mut builder = BinaryBuilder::with_capacity(totals.len(), totals.len() * 40);
        for total in totals {
            let mut bytes = total.low.to_le_bytes().to_vec();
            bytes.extend_from_slice(&total.carry.to_le_bytes());
            builder.append_value(bytes);
        }
        Arc::new(builder.finish())
    }

    fn decode(array: &dyn Array) -> Result<Vec<Self>> {
        decode_bytes(array, |bytes| {
            let (low, carry) = bytes.split_first_chunk::<32>()?;
            Some(Self { low: i256::from_le_bytes(*low), carry: i64::from_le_bytes(carry.try_into().ok()?) })
        })
    }
}

impl Adds<i256> for Carried {
    fn add(&mut self, value: i256) {
        self.add_signed(value, 0);
    }

    fn subtract(&mut self, value: i256) {
        match value.checked_neg() {
            Some(negated) => self.add_signed(negated, 0),
            // −2^255 has no opposite among 256 bits: −(−2^255) = −2^255 + 2^256.
            None => self.add_signed(value, 1),
        }
    }
}

impl Total for ExactSum {
    const USES_HEAP: bool = true;

    fn heap_size(&self) -> usize {
        Self::heap_size(self)
    }

    fn merge(&mut self, other: &Self) {
        Self::merge(self, other);
    }

    fn state_type() -> DataType {
        DataType::Binary
    }

    fn encode(totals: &[Self]) -> ArrayRef {
        let mut builder = BinaryBuilder::with_capacity(totals.len(), totals.len() * 16);
        totals.iter().for_each(|total| builder.append_value(total.to_bytes()));
        Arc::new(builder.finish())
    }

    fn decode(array: &dyn Array) -> Result<Vec<Self>> {
        decode_bytes(array, Self::from_bytes)
    }
}

impl Adds<f64> for ExactSum {
    fn add(&mut self, value: f64) {
        Self::add(self, value);
    }

    fn subtract(&mut self, value: f64) {
        Self::subtract(self, value);
    }
}

/// Reads a binary array row by row; rows that are NULL are defaults.
pub(super) fn decode_bytes<T: Default>(array: &dyn Array, read: impl Fn(&[u8]) -> Option<T>) -> Result<Vec<T>> {
    let malformed = || internal_datafusion_err!("a partial aggregate is malformed");
    let array = array.as_binary_opt::<i32>().ok_or_else(malformed)?;
    array.iter().map(|bytes| bytes.map_or_else(|| Some(T::default()), &read).ok_or_else(malformed)).collect()
}

/// A total that is a whole number.
pub(super) trait Whole: Total {
    /// The number.
    fn to_integer(&self) -> BigInt;

    /// The number, if it fits 128 bits.
    fn to_i128(&self) -> Option<i128>;
}

impl Whole for i128 {
    fn to_integer(&self) -> BigInt {
        BigInt::from(*self)
    }

    fn to_i128(&self) -> Option<i128> {
        Some(*self)
    }
}

impl Whole for i256 {
    fn to_integer(&self) -> BigInt {
        BigInt::from_signed_bytes_le(&self.to_le_bytes())
    }

    fn to_i128(&self) -> Option<i128> {
        Self::to_i128(*self)
    }
}

impl Whole for Carried {
    fn to_integer(&self) -> BigInt {
        self.low.to_integer() + (BigInt::from(self.carry) << 256)
    }

    fn to_i128(&self) -> Option<i128> {
        (self.carry == 0).then(|| self.low.to_i128()).flatten()
    }
}

/// The integer as 256 bits, if it fits.
pub(super) fn to_i256(value: &BigInt) -> Option<i256> {
    let bytes = value.to_signed_bytes_le();
    let mut all = [if value.sign() == num_bigint::Sign::Minus { 0xff } else { 0 }; 32];
    all.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(i256::from_le_bytes(all))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn carried_totals_never_wrap(values in prop::collection::vec((any::<i128>(), any::<u128>()), 1..40)) {
            let values: Vec<i256> = values.into_iter().map(|(high, low)| i256::from_parts(low, high)).collect();
            let mut total = Carried::default();
            values.iter().for_each(|value| total.add(*value));
            let expected: BigInt = values.iter().map(Whole::to_integer).sum();
            prop_assert_eq!(total.to_integer(), expected);
            let decoded = Carried::decode(Carried::encode(&[total]).as_ref()).unwrap();
            prop_assert_eq!(&decoded, &[total]);
            values.iter().rev().for_each(|value| total.subtract(*value));
            prop_assert_eq!(total, Carried::default());
        }

        #[test]
        fn wide_decimals_never_wrap(values in prop::collection::vec(any::<i128>(), 0..40)) {
            let mut total = i256::default();
            total.add_all(&values);
            prop_assert_eq!(total.to_integer(), values.iter().map(|value| BigInt::from(*value)).sum::<BigInt>());
            prop_assert_eq!(to_i256(&total.to_integer()), Some(total));
        }
    }

    #[test]
    fn the_smallest_number_can_be_taken_out() {
        let mut total = Carried::default();
        total.add(i256::MIN);
        total.add(i256::MIN);
        total.subtract(i256::MIN);
        assert_eq!(total.to_integer(), i256::MIN.to_integer());
        assert_eq!(to_i256(&(i256::MAX.to_integer() + 1)), None);
    }
}
