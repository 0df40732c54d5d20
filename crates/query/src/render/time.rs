//! Dates, times, timestamps, durations and intervals as text, over the whole range of their Arrow types: the
//! proleptic Gregorian calendar holds for any year, also where calendar libraries end.

use std::io::Write;

use arrow::datatypes::TimeUnit;

const DAY_SECONDS: i64 = 86_400;
const NANOS: i64 = 1_000_000_000;

/// Units of `unit` in a second.
pub(super) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => NANOS,
    }
}

/// Year, month and day of a count of days since 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// `YYYY-MM-DD` from days since 1970-01-01; years outside 0…9999 take the digits and sign that they need.
pub(super) fn date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    if (0..=9999).contains(&year) {
        two_digits(year / 100, out);
        two_digits(year % 100, out);
    } else {
        let _ = write!(out, "{year:04}");
    }
    out.push(b'-');
    two_digits(month, out);
    out.push(b'-');
    two_digits(day, out);
}

/// The days and the nanoseconds within the day of a timestamp.
fn split(value: i64, unit: TimeUnit) -> (i64, i64, i64) {
    let per_second = per_second(unit);
    let seconds = value.div_euclid(per_second);
    let nanos = value.rem_euclid(per_second) * (NANOS / per_second);
    (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS), nanos)
}

/// `YYYY-MM-DDTHH:MM:SS.ffffff`, with nine digits only where microseconds do not do, and `Z` for zoned ones.
pub(super) fn timestamp(value: i64, unit: TimeUnit, zoned: bool, out: &mut Vec<u8>) {
    let (days, second_of_day, nanos) = split(value, unit);
    date(days, out);
    out.push(b'T');
    clock(second_of_day, out);
    fraction(nanos, out);
    if zoned {
        out.push(b'Z');
    }
}

/// `yyyy-mm-dd hh:mm:ss.f`, as `java.sql.Timestamp` writes it: the fraction has at least one digit and no
/// trailing zeros beyond that.
pub(super) fn java_timestamp(value: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    let (days, second_of_day, nanos) = split(value, unit);
    date(days, out);
    out.push(b' ');
    clock(second_of_day, out);
    let digits = format!("{nanos:09}");
    let kept = digits.trim_end_matches('0');
    out.push(b'.');
    out.extend_from_slice(if kept.is_empty() { b"0" } else { kept.as_bytes() });
}

/// `HH:MM:SS`, with a fraction only when it is not zero.
pub(super) fn time(value: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    let (days, second_of_day, nanos) = split(value, unit);
    clock(days * DAY_SECONDS + second_of_day, out);
    if nanos != 0 {
        fraction(nanos, out);
    }
}

fn clock(second_of_day: i64, out: &mut Vec<u8>) {
    two_digits(second_of_day / 3600, out);
    out.push(b':');
    two_digits(second_of_day / 60 % 60, out);
    out.push(b':');
    two_digits(second_of_day % 60, out);
}

/// A point and six digits, or nine where the last three are not zero.
fn fraction(nanos: i64, out: &mut Vec<u8>) {
    out.push(b'.');
    let micros = nanos / 1000;
    two_digits(micros / 10_000, out);
    two_digits(micros / 100 % 100, out);
    two_digits(micros % 100, out);
    if nanos % 1000 != 0 {
        let _ = write!(out, "{:03}", nanos % 1000);
    }
}

fn two_digits(value: i64, out: &mut Vec<u8>) {
    match u8::try_from(value) {
        Ok(value) if value < 100 => out.extend_from_slice(&[b'0' + value / 10, b'0' + value % 10]),
        _ => {
            let _ = write!(out, "{value:02}");
        }
    }
}

/// An ISO 8601 duration, each part with its own sign, zero parts left out: `P1Y2M3DT4H5M6.7S`; `PT0S` for nothing.
pub(super) fn interval(months: i64, days: i64, nanos: i128, out: &mut Vec<u8>) {
    out.push(b'P');
    let start = out.len();
    let part = |value: i128, letter: char, out: &mut Vec<u8>| {
        if value != 0 {
            let _ = write!(out, "{value}{letter}");
        }
    };
    part((months / 12).into(), 'Y', out);
    part((months % 12).into(), 'M', out);
    part(days.into(), 'D', out);
    if nanos != 0 {
        out.push(b'T');
        let second = i128::from(NANOS);
        part(nanos / (3600 * second), 'H', out);
        part(nanos / (60 * second) % 60, 'M', out);
        let rest = nanos % (60 * second);
        if rest != 0 {
            let sign = if rest < 0 { "-" } else { "" };
            let _ = write!(out, "{sign}{}", rest.abs() / second);
            if rest % second != 0 {
                let digits = format!("{:09}", rest.abs() % second);
                let _ = write!(out, ".{}", digits.trim_end_matches('0'));
            }
            out.push(b'S');
        }
    } else if out.len() == start {
        out.extend_from_slice(b"T0S");
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
    fn timestamps_of_every_unit_and_age() {
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        for (value, unit, zoned, expected) in [
            (0, Second, false, "1970-01-01T00:00:00.000000"),
            (0, Microsecond, true, "1970-01-01T00:00:00.000000Z"),
            (-1, Nanosecond, false, "1969-12-31T23:59:59.999999999"),
            (-1_000, Nanosecond, false, "1969-12-31T23:59:59.999999"),
            (1_500, Millisecond, false, "1970-01-01T00:00:01.500000"),
            (253_402_300_800, Second, false, "10000-01-01T00:00:00.000000"),
            (-62_167_219_201, Second, false, "-001-12-31T23:59:59.000000"),
            (-62_135_596_800, Second, true, "0001-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(text(|out| timestamp(value, unit, zoned, out)), expected);
        }
        // The ends of the type are spelled too.
        assert!(text(|out| timestamp(i64::MAX, Second, false, out)).starts_with("292277026596-12-04T"));
        assert!(text(|out| timestamp(i64::MIN, Second, false, out)).starts_with("-292277022657-01-27T"));
    }

    #[test]
    fn times_and_java_timestamps() {
        assert_eq!(text(|out| time(0, TimeUnit::Second, out)), "00:00:00");
        assert_eq!(text(|out| time(86_399_000_001, TimeUnit::Microsecond, out)), "23:59:59.000001");
        assert_eq!(text(|out| time(1, TimeUnit::Nanosecond, out)), "00:00:00.000000001");
        assert_eq!(text(|out| java_timestamp(0, TimeUnit::Second, out)), "1970-01-01 00:00:00.0");
        assert_eq!(text(|out| java_timestamp(1_250_000, TimeUnit::Microsecond, out)), "1970-01-01 00:00:01.25");
    }

    #[test]
    fn intervals_are_iso_8601() {
        for (months, days, nanos, expected) in [
            (0, 0, 0, "PT0S"),
            (14, 3, 14_706_000_000_700, "P1Y2M3DT4H5M6.0000007S"),
            (-1, 2, -500_000_000, "P-1M2DT-0.5S"),
            (0, 1, 0, "P1D"),
            (0, 0, 3_600_000_000_000, "PT1H"),
        ] {
            assert_eq!(text(|out| interval(months, days, nanos, out)), expected);
        }
    }

    proptest! {
        #[test]
        fn dates_agree_with_chrono(days in -96_000_000i32..96_000_000) {
            use chrono::Datelike;
            let (year, month, day) = civil(days.into());
            let expected = chrono::NaiveDate::from_num_days_from_ce_opt(days + 719_163);
            if let Some(expected) = expected {
                prop_assert_eq!((year, month, day), (expected.year().into(), expected.month().into(), expected.day().into()));
            }
        }
    }
}
