//! JSON numbers as SQL literals would have them.

use datafusion::arrow::datatypes::i256;
use datafusion::common::ScalarValue;

/// Digits of the widest decimal.
const MOST_DIGITS: usize = 76;
/// Digits that a decimal of 128 bits holds.
const MOST_DIGITS_128: usize = 38;
/// Any double is told by this many digits.
const DOUBLE_DIGITS: usize = 17;

/// The value of a JSON number: BIGINT, unsigned BIGINT or a decimal of just the digits that were sent. Doubles beyond
/// the range of decimals (`1e300`) stay doubles.
///
/// # Errors
/// The reason, to follow the words "the number … ".
pub(super) fn scalar(text: &str) -> Result<ScalarValue, &'static str> {
    if let Ok(value) = text.parse::<i64>() {
        return Ok(ScalarValue::Int64(Some(value)));
    }
    if let Ok(value) = text.parse::<u64>() {
        return Ok(ScalarValue::UInt64(Some(value)));
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        None => (text, Some(0)),
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()),
    };
    let (sign, magnitude) = mantissa.strip_prefix('-').map_or(("", mantissa), |magnitude| ("-", magnitude));
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("is not a number");
    }
    let significant = all.trim_start_matches('0');
    if let Some(decimal) =
        exponent.and_then(|exponent| decimal(sign, significant, i64::try_from(fraction.len()).ok()? - exponent))
    {
        return Ok(decimal);
    }
    if significant.len() > DOUBLE_DIGITS {
        return Err("has more digits than a decimal holds (76)");
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(ScalarValue::Float64(Some(value))),
        _ => Err("is out of range"),
    }
}

/// `digits` × 10^-`scale`, if it fits a decimal type.
fn decimal(sign: &str, digits: &str, scale: i64) -> Option<ScalarValue> {
    // A negative scale is written out: arithmetic on such types is poorly supported.
    let (digits, scale) = match usize::try_from(scale) {
        Ok(scale) => (digits.to_owned(), scale),
        Err(_) if digits.is_empty() => (String::new(), 0),
        Err(_) => {
            let zeros = usize::try_from(scale.unsigned_abs()).ok().filter(|zeros| *zeros <= MOST_DIGITS)?;
            (format!("{digits}{}", "0".repeat(zeros)), 0)
        }
    };
    let precision = digits.len().max(scale).max(1);
    let unscaled = format!("{sign}{}", if digits.is_empty() { "0" } else { &digits });
    let (precision_byte, scale) = (u8::try_from(precision).ok()?, i8::try_from(scale).ok()?);
    if precision <= MOST_DIGITS_128 {
        Some(ScalarValue::Decimal128(Some(unscaled.parse().ok()?), precision_byte, scale))
    } else if precision <= MOST_DIGITS {
        Some(ScalarValue::Decimal256(Some(i256::from_string(&unscaled)?), precision_byte, scale))
    } else {
        None
    }
}
