//! Points in time as text.

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
    use super::utc;

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
}
