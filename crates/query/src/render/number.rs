//! Integers, floating-point numbers and decimals as text.

use std::io::Write;

use arrow::datatypes::i256;

/// Writes an integer in decimal digits.
pub(super) fn integer(value: i128, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    digits(value.unsigned_abs(), out);
}

/// Writes the decimal digits of a magnitude.
fn digits(value: u128, out: &mut Vec<u8>) {
    let Ok(mut small) = u64::try_from(value) else {
        // Writing to a vector cannot fail.
        let _ = write!(out, "{value}");
        return;
    };
    let mut buffer = [0u8; 20];
    let mut start = buffer.len();
    loop {
        start -= 1;
        buffer[start] = b'0' + u8::try_from(small % 10).unwrap_or_default();
        small /= 10;
        if small == 0 {
            break;
        }
    }
    out.extend_from_slice(&buffer[start..]);
}

/// Writes the shortest text that reads back as the same double, in the layout of Python's `repr`: plain digits
/// from 1e-4 up to 1e16, else an exponent with sign and at least two digits.
pub(super) fn double(value: f64, out: &mut Vec<u8>) {
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        // serde_json's float writer is several times faster than the standard library's.
        let _ = serde_json::to_writer(&mut *out, &value);
    } else {
        exponent(&format!("{value:e}"), out);
    }
}

/// As [`double`], with the shortest text for single precision.
pub(super) fn single(value: f32, out: &mut Vec<u8>) {
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        let _ = write!(out, "{value:?}");
    } else {
        exponent(&format!("{value:e}"), out);
    }
}

/// Lays out Rust's `1.5e-7` as `1.5e-07`.
fn exponent(text: &str, out: &mut Vec<u8>) {
    let Some((mantissa, exponent)) = text.split_once('e') else {
        out.extend_from_slice(text.as_bytes());
        return;
    };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    let _ = write!(out, "{mantissa}e{sign}{digits:0>2}");
}

/// The text of a value that JSON has no number for, if it is one.
pub(super) fn not_finite(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        None
    }
}

/// Writes a decimal of up to 38 digits: `unscaled` × 10^-`scale`, without exponent and with all its scale's digits.
pub(super) fn decimal128(unscaled: i128, scale: i8, out: &mut Vec<u8>) {
    if scale == 0 {
        return integer(unscaled, out);
    }
    let mut text = Vec::with_capacity(40);
    digits(unscaled.unsigned_abs(), &mut text);
    decimal(unscaled < 0, &text, scale, out);
}

/// As [`decimal128`], for up to 76 digits.
pub(super) fn decimal256(unscaled: i256, scale: i8, out: &mut Vec<u8>) {
    let text = unscaled.to_string();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text.as_str()), |digits| (true, digits));
    decimal(negative, digits.as_bytes(), scale, out);
}

fn decimal(negative: bool, digits: &[u8], scale: i8, out: &mut Vec<u8>) {
    if negative {
        out.push(b'-');
    }
    let places = usize::from(scale.unsigned_abs());
    if scale <= 0 {
        out.extend_from_slice(digits);
        if digits != b"0" {
            out.resize(out.len() + places, b'0');
        }
    } else if digits.len() > places {
        let (whole, fraction) = digits.split_at(digits.len() - places);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + places - digits.len(), b'0');
        out.extend_from_slice(digits);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_take_the_layout_of_python_repr() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (-1.5e300, "-1.5e+300"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(text(|out| double(value, out)), expected);
        }
        assert_eq!(text(|out| single(0.1, out)), "0.1");
        assert_eq!(text(|out| single(1e20, out)), "1e+20");
    }

    #[test]
    fn decimals_keep_their_scale() {
        for (unscaled, scale, expected) in [
            (0, 2, "0.00"),
            (-5, 2, "-0.05"),
            (12345, 2, "123.45"),
            (123, -2, "12300"),
            (0, -2, "0"),
            (7, 0, "7"),
            (-99_999_999_999_999_999_999_999_999_999_999_999_999, 38, "-0.99999999999999999999999999999999999999"),
        ] {
            assert_eq!(text(|out| decimal128(unscaled, scale, out)), expected);
            assert_eq!(text(|out| decimal256(i256::from_i128(unscaled), scale, out)), expected);
        }
    }

    proptest! {
        #[test]
        fn every_double_reads_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let written = text(|out| double(value, out));
            prop_assert_eq!(written.parse::<f64>().unwrap().to_bits(), bits);
            // Both ways of writing give the shortest digits.
            let mut debug = Vec::new();
            exponent(&format!("{value:?}"), &mut debug);
            prop_assert_eq!(written, String::from_utf8(debug).unwrap());
        }

        #[test]
        fn integers_are_their_display(value in any::<i128>(), small in any::<i64>()) {
            prop_assert_eq!(text(|out| integer(value, out)), value.to_string());
            prop_assert_eq!(text(|out| integer(small.into(), out)), small.to_string());
        }
    }
}
