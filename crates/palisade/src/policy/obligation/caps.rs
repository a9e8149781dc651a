//! What policy lets one statement cost.

use std::fmt;

/// Caps of policies on one statement. What none of them bounds, the configuration bounds alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caps {
    /// `@max_rows("100")`: the most rows of an answer, or that a change changes. At least 1.
    pub rows: Option<u64>,
    /// `@max_rows("100 else refuse")`: the most rows of an answer that is refused where there are more. At least 1.
    pub rows_or_refusal: Option<u64>,
    /// `@max_time("5s")`: the most milliseconds that the statement may take. At least 1.
    pub time_ms: Option<u64>,
}

impl Caps {
    /// Each cap at the smaller of the two.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        let Self {
            rows,
            rows_or_refusal,
            time_ms,
        } = self;
        let smaller = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        Self {
            rows: smaller(rows, other.rows),
            rows_or_refusal: smaller(rows_or_refusal, other.rows_or_refusal),
            time_ms: smaller(time_ms, other.time_ms),
        }
    }

    /// The most rows of an answer, or that a change changes.
    #[must_use]
    pub fn most_rows(self) -> Option<u64> {
        self.rows.into_iter().chain(self.rows_or_refusal).min()
    }

    /// Whether an answer with more rows than the most is refused, and not cut. A smaller cap that cuts comes first.
    #[must_use]
    pub fn refuses_more(self) -> bool {
        self.rows_or_refusal.is_some() && self.rows_or_refusal == self.most_rows()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// What is behind `@max_rows`, as it is written.
    #[must_use]
    pub fn rows_as_written(self) -> Option<String> {
        let rows = self.most_rows()?;
        Some(match self.refuses_more() {
            true => format!("{rows} else refuse"),
            false => rows.to_string(),
        })
    }

    /// What is behind `@max_time`, as it is written.
    #[must_use]
    pub fn time_as_written(self) -> Option<String> {
        let time = self.time_ms?;
        Some(match time % 1000 {
            0 => format!("{}s", time / 1000),
            _ => format!("{time}ms"),
        })
    }
}

/// In words, behind what is permitted: `, at most 100 rows, in 5s`. Nothing where there are no caps.
impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rows) = self.most_rows() {
            write!(f, ", at most {rows} rows")?;
            if self.refuses_more() {
                f.write_str(" or refused")?;
            }
        }
        match self.time_as_written() {
            Some(time) => write!(f, ", in {time}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Caps;

    #[test]
    fn a_smaller_cap_that_cuts_comes_before_a_refusal() {
        let cut = |rows| Caps {
            rows: Some(rows),
            ..Caps::default()
        };
        let refuse = |rows| Caps {
            rows_or_refusal: Some(rows),
            ..Caps::default()
        };
        for (one, other, most, refuses) in [
            (cut(5), refuse(10), 5, false),
            (cut(10), refuse(5), 5, true),
            (cut(5), refuse(5), 5, true),
            (refuse(7), refuse(9), 7, true),
        ] {
            for both in [one.tightest(other), other.tightest(one)] {
                assert_eq!(
                    (both.most_rows(), both.refuses_more()),
                    (Some(most), refuses)
                );
            }
        }
        let all = Caps {
            time_ms: Some(1500),
            ..refuse(3)
        };
        assert_eq!(all.to_string(), ", at most 3 rows or refused, in 1500ms");
        assert_eq!(Caps::default().to_string(), "");
    }
}
