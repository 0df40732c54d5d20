//! A wide two's complement number in words of 64 bits at fixed positions.

use num_bigint::BigInt;

/// The number is the sum of word `i` × 2^(64 × (`lowest` + i)), the last word counting as signed.
///
/// The last word stands above every word that a value was added to, so it only ever takes carries: it could overflow
/// after 2^63 additions.
#[derive(Debug, Clone, Default)]
pub(super) struct Limbs {
    lowest: i32,
    words: Vec<u64>,
}

const WORD_BITS: i32 = 64;

impl Limbs {
    /// Whether nothing was added yet.
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn heap_size(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Adds ±`magnitude` × 2^`exponent`.
    pub(super) fn add(&mut self, negative: bool, magnitude: u128, exponent: i32) {
        let place = exponent.div_euclid(WORD_BITS);
        let shift = exponent.rem_euclid(WORD_BITS);
        let low = u128::from(low_word(magnitude)) << shift;
        let high = u128::from(high_word(magnitude)) << shift;
        let addend = [low_word(low), high_word(low) | low_word(high), high_word(high)];
        self.cover(place, place + 3);
        self.add_words(place, &addend, negative, 0);
    }

    /// Adds another number.
    pub(super) fn merge(&mut self, other: &Self) {
        if !other.is_empty() {
            self.cover(other.lowest, other.last());
            self.add_words(other.lowest, &other.words, false, other.extension());
        }
    }

    /// The number as an integer times a power of two.
    pub(super) fn to_integer(&self) -> (BigInt, i32) {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        (BigInt::from_signed_bytes_le(&bytes), self.lowest * WORD_BITS)
    }

    /// Adds or subtracts `addend` from position `place` up; beyond its end it goes on with `extension`.
    fn add_words(&mut self, place: i32, addend: &[u64], negative: bool, extension: u64) {
        let start = self.index(place);
        let mut carry = false;
        for (nth, word) in self.words[start..].iter_mut().enumerate() {
            if nth >= addend.len() && !carry && extension == 0 {
                break;
            }
            let addend = addend.get(nth).copied().unwrap_or(extension);
            let carried = u64::from(carry);
            let (result, first) = if negative { word.overflowing_sub(addend) } else { word.overflowing_add(addend) };
            let (result, second) =
                if negative { result.overflowing_sub(carried) } else { result.overflowing_add(carried) };
            *word = result;
            carry = first || second;
        }
    }

    /// Makes room for the positions from `low` to `high`.
    fn cover(&mut self, low: i32, high: i32) {
        if self.words.is_empty() {
            self.lowest = low;
            self.words = vec![0; self.index(high) + 1];
            return;
        }
        if low < self.lowest {
            let missing = usize::try_from(self.lowest - low).unwrap_or_default();
            self.words.splice(0..0, std::iter::repeat_n(0, missing));
            self.lowest = low;
        }
        if high > self.last() {
            self.words.resize(self.index(high) + 1, self.extension());
        }
    }

    /// What the words above the last one would be.
    fn extension(&self) -> u64 {
        if self.words.last().is_some_and(|word| word.cast_signed() < 0) { u64::MAX } else { 0 }
    }

    fn last(&self) -> i32 {
        self.lowest + i32::try_from(self.words.len()).unwrap_or_default() - 1
    }

    fn index(&self, place: i32) -> usize {
        usize::try_from(place - self.lowest).unwrap_or_default()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn low_word(value: u128) -> u64 {
    value as u64
}

fn high_word(value: u128) -> u64 {
    low_word(value >> WORD_BITS)
}
