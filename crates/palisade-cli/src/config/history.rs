//! How often the server notes a moment: `[history]` of the configuration.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::{config::Reader, exit::Failure};

/// How often a moment is noted, where the configuration does not say it.
pub(crate) const EVERY: Duration = Duration::from_secs(10);

/// `[history]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryTable {
    /// How often `serve` notes the moment, so that tables with a history can be read as they were at a time: `"1s"` to `"24h"`. A moment in
    /// which nothing was written is not noted. Without it, `"10s"`.
    every: Option<Spanned<String>>,
}

impl Reader<'_> {
    /// How often a moment is noted.
    pub(crate) fn heartbeat(&self, table: HistoryTable) -> Result<Option<Duration>, Failure> {
        let HistoryTable { every } = table;
        self.period(every, "every")
    }

    /// The period that `key` has, if it is there.
    pub(crate) fn period(
        &self,
        text: Option<Spanned<String>>,
        key: &str,
    ) -> Result<Option<Duration>, Failure> {
        let Some(text) = text else { return Ok(None) };
        match read_period(text.get_ref()) {
            Some(period) => Ok(Some(period)),
            None => Err(self.fault(
                &format!("`{key}` cannot be `{}`", text.get_ref()),
                Some(text.span()),
                "write seconds, minutes or hours, from `\"1s\"` to `\"24h\"`",
            )),
        }
    }
}

/// A number with `s`, `m` or `h`, from a second to a day.
fn read_period(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let of_unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        _ => return None,
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = is_number.then(|| digits.parse().ok())??;
    let seconds = number.checked_mul(of_unit)?;
    (1..=24 * 60 * 60)
        .contains(&seconds)
        .then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_from_a_second_to_a_day() {
        for (text, seconds) in [
            ("1s", Some(1)),
            ("10s", Some(10)),
            ("5m", Some(300)),
            ("24h", Some(86_400)),
            ("0s", None),
            ("25h", None),
            ("s", None),
            ("", None),
            ("10", None),
            ("+1s", None),
            ("1 s", None),
            ("1d", None),
            ("1\u{e9}", None),
        ] {
            assert_eq!(
                read_period(text),
                seconds.map(Duration::from_secs),
                "{text}"
            );
        }
    }
}
