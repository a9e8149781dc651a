//! How much a principal may take within a minute and within a day.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{code::Code, rejection::Rejection, session::Principal};

/// Principals whose spending is counted at a time. The operator names principals, and an agent cannot.
const PRINCIPALS: usize = 10_000;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a principal may take within one span of time. What is `None` has no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// Statements asked, whatever becomes of them.
    pub statements: Option<u64>,
    /// Rows answered.
    pub rows: Option<u64>,
    /// Cells answered.
    pub cells: Option<u64>,
    /// Seconds that its statements took, from the text to the answer.
    pub seconds: Option<u64>,
}

/// What each principal may take, and what was taken so far. Gates that share one count together.
///
/// A span begins with a principal's first statement, and the next begins with the first one after its end. What begins within the
/// budget is answered whole, so the last statements can go beyond it: as many as run at once, each by its own limits.
#[derive(Debug)]
pub struct Budgets {
    spans: [(Span, Allowance); 2],
    spent: Mutex<HashMap<Principal, [Spent; 2]>>,
}

/// What a statement took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::guard) struct Taken {
    pub(in crate::guard) rows: u64,
    pub(in crate::guard) cells: u64,
    pub(in crate::guard) time: Duration,
}

/// A span of time, and what it is called.
#[derive(Debug, Clone, Copy)]
struct Span {
    name: &'static str,
    length: Duration,
}

/// What was taken since a span began.
#[derive(Debug, Clone, Copy)]
struct Spent {
    since: Duration,
    statements: u64,
    taken: Taken,
}

impl Spent {
    fn from(since: Duration) -> Self {
        Self {
            since,
            statements: 0,
            taken: Taken::default(),
        }
    }

    /// Begins a new span where this one is over.
    fn renew(&mut self, span: Span, now: Duration) {
        if now.saturating_sub(self.since) >= span.length {
            *self = Self::from(now);
        }
    }

    /// What is used up, as it is called, and its bound.
    fn find_exhausted(&self, allowance: Allowance) -> Option<(&'static str, u64)> {
        let Allowance {
            statements,
            rows,
            cells,
            seconds,
        } = allowance;
        [
            ("statements", self.statements, statements),
            ("rows", self.taken.rows, rows),
            ("cells", self.taken.cells, cells),
            ("seconds", self.taken.time.as_secs(), seconds),
        ]
        .into_iter()
        .find_map(|(what, used, most)| most.filter(|most| used >= *most).map(|most| (what, most)))
    }
}

impl Budgets {
    /// Nothing is taken yet.
    #[must_use]
    pub fn new(minute: Allowance, day: Allowance) -> Self {
        let (minute_span, day_span) = (
            Span {
                name: "minute",
                length: MINUTE,
            },
            Span {
                name: "day",
                length: DAY,
            },
        );
        Self {
            spans: [(minute_span, minute), (day_span, day)],
            spent: Mutex::default(),
        }
    }

    /// Counts a statement of `principal`, which is about to be decided.
    ///
    /// # Errors
    /// `limit.budget`, with the time after which the budget renews. Then nothing is counted.
    pub(in crate::guard) fn admit(
        &self,
        principal: &Principal,
        now: Duration,
    ) -> Result<(), Rejection> {
        let mut all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = find(&mut all, principal, now);
        for ((span, allowance), spent) in self.spans.iter().zip(spent.iter_mut()) {
            spent.renew(*span, now);
            if let Some((what, most)) = spent.find_exhausted(*allowance) {
                let left = span.length.saturating_sub(now.saturating_sub(spent.since));
                return Err(Rejection::new(
                    Code::LimitBudget,
                    format!(
                        "your budget of {most} {what} a {} is used up; it renews in {}",
                        span.name,
                        spell(left)
                    ),
                )
                .with_retry_after(left));
            }
        }
        for spent in spent {
            spent.statements = spent.statements.saturating_add(1);
        }
        Ok(())
    }

    /// Counts what a statement of `principal` took.
    pub(in crate::guard) fn spend(&self, principal: &Principal, taken: Taken, now: Duration) {
        let mut all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = find(&mut all, principal, now);
        for ((span, _), spent) in self.spans.iter().zip(spent.iter_mut()) {
            spent.renew(*span, now);
            let so_far = &mut spent.taken;
            so_far.rows = so_far.rows.saturating_add(taken.rows);
            so_far.cells = so_far.cells.saturating_add(taken.cells);
            so_far.time = so_far.time.saturating_add(taken.time);
        }
    }
}

/// What `principal` has spent. Where too many are counted, those whose day is over are forgotten, or the one whose day is oldest.
fn find<'a>(
    all: &'a mut HashMap<Principal, [Spent; 2]>,
    principal: &Principal,
    now: Duration,
) -> &'a mut [Spent; 2] {
    if all.len() >= PRINCIPALS && !all.contains_key(principal) {
        all.retain(|_, [_, day]| now.saturating_sub(day.since) < DAY);
        let oldest = all.iter().min_by_key(|(_, [_, day])| day.since);
        if all.len() >= PRINCIPALS
            && let Some(oldest) = oldest.map(|(principal, _)| principal.clone())
        {
            all.remove(&oldest);
        }
    }
    all.entry(principal.clone())
        .or_insert_with(|| [Spent::from(now); 2])
}

/// A time as people say it.
fn spell(time: Duration) -> String {
    let seconds = time.as_secs().max(1);
    match seconds {
        0..=120 => format!("{seconds} seconds"),
        121..=7_200 => format!("{} minutes", seconds.div_ceil(60)),
        _ => format!("{} hours", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn principal(id: usize) -> Principal {
        Principal::new("Agent", format!("a{id}"))
    }

    fn taken(rows: u64, cells: u64, ms: u64) -> Taken {
        Taken {
            rows,
            cells,
            time: Duration::from_millis(ms),
        }
    }

    #[test]
    fn each_kind_has_a_budget_that_renews() {
        let at = Duration::from_secs(1_000);
        let none = Allowance::default();
        let cases = [
            (
                Allowance {
                    statements: Some(2),
                    ..none
                },
                "2 statements",
            ),
            (
                Allowance {
                    rows: Some(20),
                    ..none
                },
                "20 rows",
            ),
            (
                Allowance {
                    cells: Some(60),
                    ..none
                },
                "60 cells",
            ),
            (
                Allowance {
                    seconds: Some(3),
                    ..none
                },
                "3 seconds",
            ),
        ];
        for (allowance, what) in cases {
            for (budgets, span, length) in [
                (Budgets::new(allowance, none), "a minute", MINUTE),
                (Budgets::new(none, allowance), "a day", DAY),
            ] {
                for _ in 0..2 {
                    budgets.admit(&principal(1), at).unwrap();
                    budgets.spend(&principal(1), taken(10, 30, 1_500), at);
                }
                let refused = budgets.admit(&principal(1), at + length / 2).unwrap_err();
                assert_eq!(refused.code(), Code::LimitBudget);
                assert!(refused.message().contains(what), "{refused}");
                assert!(refused.message().contains(span), "{refused}");
                assert!(budgets.admit(&principal(2), at).is_ok());
                assert!(budgets.admit(&principal(1), at + length).is_ok());
            }
        }
    }

    #[test]
    fn a_refusal_by_the_day_counts_nothing_in_the_minute() {
        let one = Allowance {
            statements: Some(1),
            ..Allowance::default()
        };
        let three = Allowance {
            statements: Some(3),
            ..Allowance::default()
        };
        let budgets = Budgets::new(three, one);
        let at = Duration::from_secs(5);
        budgets.admit(&principal(1), at).unwrap();
        for _ in 0..5 {
            let refused = budgets.admit(&principal(1), at).unwrap_err();
            assert!(refused.message().contains("a day"), "{refused}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let budgets = Budgets::new(Allowance::default(), Allowance::default());
        for id in 0..PRINCIPALS + 10 {
            let now = Duration::from_millis(u64::try_from(id).unwrap());
            budgets.admit(&principal(id), now).unwrap();
        }
        assert_eq!(budgets.spent.lock().unwrap().len(), PRINCIPALS);
    }
}
