//! Points in time as text.

use std::time::Duration;

/// The time since 1970 of `2026-03-01T12:00:00Z`, or of `2026-03-01T12:00:00.250Z`: UTC, from 1970 to 9999. None of any
/// other text.
#[must_use]
pub fn since_1970(text: &str) -> Option<Duration> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut parts = time.splitn(3, ':');
    let (hours, minutes) = (parts.next()?, parts.next()?);
    let seconds = parts.next()?;
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "000"));
    let [hours, minutes, seconds, fraction] =
        [hours, minutes, seconds, fraction].map(|number| number.parse::<u16>().ok().map(i64::from));
    let of_day = (hours? * 60 + minutes?) * 60 + seconds?;
    let milliseconds = days(date)? * 86_400_000 + of_day * 1_000 + fraction?;
    // What is not written as it would be printed is no moment: no 30 February, no 25 o'clock, no sign.
    let (printed, printed_time) = utc(milliseconds);
    let same = printed == date
        && (printed_time == time || printed_time.strip_suffix(".000") == Some(time));
    let milliseconds = u64::try_from(milliseconds).ok()?;
    same.then(|| Duration::from_millis(milliseconds))
}

/// As [`since_1970`], of what people write: without the `T` or the `Z`, without seconds, and a day alone for its beginning.
#[must_use]
pub fn read_moment(text: &str) -> Option<Duration> {
    let text = text.trim();
    let text = text.strip_suffix('Z').unwrap_or(text).trim_end();
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let seconds = if time.matches(':').count() == 1 {
        ":00"
    } else {
        ""
    };
    since_1970(&format!("{date}T{time}{seconds}Z"))
}

/// A time since 1970 as [`since_1970`] reads it, to the millisecond.
#[must_use]
pub fn print_utc(since_1970: Duration) -> String {
    let milliseconds = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
    let (date, time) = utc(milliseconds);
    let time = time.strip_suffix(".000").unwrap_or(&time);
    format!("{date}T{time}Z")
}

/// The days from 1970-01-01 to `YYYY-MM-DD`, in the calendar that Cedar and SQL use
/// (<https://howardhinnant.github.io/date_algorithms.html#days_from_civil>).
pub(crate) fn days(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-');
    let mut next = || parts.next()?.parse::<i64>().ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let plausible = text.len() == 10
        && (0..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day);
    if !plausible {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// `2020-01-31` and `23:59:59.999`, UTC, of milliseconds since 1970.
pub(crate) fn utc(milliseconds: i64) -> (String, String) {
    let (days, of_day) = (
        milliseconds.div_euclid(86_400_000),
        milliseconds.rem_euclid(86_400_000),
    );
    // https://howardhinnant.github.io/date_algorithms.html#civil_from_days
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (seconds, fraction) = (of_day / 1_000, of_day % 1_000);
    let time = format!(
        "{:02}:{:02}:{:02}.{fraction:03}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    (format!("{year:04}-{month:02}-{day:02}"), time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        for (milliseconds, date, time) in [
            (0, "1970-01-01", "00:00:00.000"),
            (-1, "1969-12-31", "23:59:59.999"),
            (1_582_934_400_001, "2020-02-29", "00:00:00.001"),
            (253_402_300_799_999, "9999-12-31", "23:59:59.999"),
        ] {
            let (got_date, got_time) = utc(milliseconds);
            assert_eq!((got_date.as_str(), got_time.as_str()), (date, time));
        }
    }
    #[test]
    fn moments_are_read_as_they_are_written() {
        for (text, milliseconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2020-02-29T00:00:00.001Z", Some(1_582_934_400_001)),
            ("9999-12-31T23:59:59.999Z", Some(253_402_300_799_999)),
            ("2026-03-01T12:00:00", None),
            ("2026-03-01T12:00:00+01:00", None),
            ("2026-03-01 12:00:00Z", None),
            ("2026-03-01T12:00Z", None),
            ("2026-03-01T12:00:00.5Z", None),
            ("2026-02-30T12:00:00Z", None),
            ("2026-03-01T24:00:00Z", None),
            ("2026-03-01T12:60:00Z", None),
            ("2026-03-01T+1:00:00Z", None),
            ("2026-03-01T99999999999999999:00:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("", None),
        ] {
            let expected = milliseconds.map(Duration::from_millis);
            assert_eq!(since_1970(text), expected, "{text}");
        }
    }

    #[test]
    fn moments_are_read_as_people_write_them() {
        let noon = "2026-03-01T12:00:00Z";
        for (text, meant) in [
            (noon, noon),
            ("2026-03-01T12:00:00", noon),
            ("2026-03-01 12:00:00", noon),
            ("2026-03-01 12:00:00Z", noon),
            (" 2026-03-01 12:00 ", noon),
            ("2026-03-01", "2026-03-01T00:00:00Z"),
            ("2026-02-30", "none"),
            ("2026-03-01T12:00:00+01:00", "none"),
            ("2026-03-01T12:00:00ZZ", "none"),
            ("yesterday", "none"),
            ("", "none"),
        ] {
            assert_eq!(read_moment(text), since_1970(meant), "{text}");
        }
    }

    #[test]
    fn days_count_from_1970() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("2000-03-01", Some(11_017)),
            ("1969-12-31", Some(-1)),
            ("0001-01-01", Some(-719_162)),
            ("1970-13-01", None),
            ("1970-01-01T00:00:00Z", None),
        ] {
            assert_eq!(days(text), expected, "{text}");
        }
    }
}
