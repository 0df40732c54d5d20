//! Sizes and durations as people write them in a configuration: `256MiB`, `5s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes. Written as `512`, `64KiB`, `256MiB`, `2GiB`, `1TiB` (powers of 1024) or
/// with `KB`, `MB`, `GB`, `TB` (powers of 1000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// That many KiB.
    #[must_use]
    pub const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    /// That many MiB.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// That many GiB.
    #[must_use]
    pub const fn gib(count: u64) -> Self {
        Self(count << 30)
    }

    /// As a length in memory, saturating.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

const BYTE_UNITS: [(&str, u64); 10] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    ("", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let unit = unit.trim();
        let factor = BYTE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor);
        let value = digits.parse::<u64>().ok().zip(factor).and_then(|(count, factor)| count.checked_mul(factor));
        value.map(Self).ok_or_else(|| format!("`{text}` is not a size; write for example 512, 64KiB or 2GiB"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, factor) in [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{}{name}", self.0 / factor);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// A span of time. Written as `250ms`, `5s`, `2m`, `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

impl Span {
    /// That many milliseconds.
    #[must_use]
    pub const fn millis(count: u64) -> Self {
        Self(Duration::from_millis(count))
    }

    /// That many seconds.
    #[must_use]
    pub const fn secs(count: u64) -> Self {
        Self(Duration::from_secs(count))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let factor = match unit.trim() {
            "ms" => Some(1),
            "s" => Some(1_000),
            "m" => Some(60_000),
            "h" => Some(3_600_000),
            _ => None,
        };
        let millis = digits.parse::<u64>().ok().zip(factor).and_then(|(count, factor)| count.checked_mul(factor));
        millis.map(Self::millis).ok_or_else(|| format!("`{text}` is not a duration; write for example 250ms, 5s or 2m"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        for (name, factor) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
            if millis >= factor && millis.is_multiple_of(factor) {
                return write!(f, "{}{name}", millis / factor);
            }
        }
        write!(f, "{millis}ms")
    }
}

macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a number with a unit, as text")
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_u64<E: de::Error>(self, count: u64) -> Result<$type, E> {
                        count.to_string().parse().map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, count: i64) -> Result<$type, E> {
                        count.to_string().parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }
    };
}

serde_as_text!(ByteSize);
serde_as_text!(Span);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print() {
        for (text, bytes) in [("512", 512), ("64KiB", 65_536), ("2 GiB", 2 << 30), ("1MB", 1_000_000)] {
            assert_eq!(text.parse::<ByteSize>().unwrap().0, bytes, "{text}");
        }
        assert_eq!(ByteSize::mib(256).to_string(), "256MiB");
        assert!("12 parsecs".parse::<ByteSize>().unwrap_err().contains("12 parsecs"));
        assert!("99999999999999999999".parse::<ByteSize>().is_err());
    }

    #[test]
    fn spans_read_and_print() {
        for (text, millis) in [("250ms", 250), ("5s", 5_000), ("2m", 120_000), ("1h", 3_600_000)] {
            let span = text.parse::<Span>().unwrap();
            assert_eq!(span.0.as_millis(), millis, "{text}");
            assert_eq!(span.to_string(), text);
        }
        assert!("5".parse::<Span>().is_err());
    }
}
