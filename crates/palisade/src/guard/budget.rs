//! How much a principal may take within a minute and within a day.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
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

/// What was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spending {
    /// Statements asked.
    pub statements: u64,
    /// Rows answered.
    pub rows: u64,
    /// Cells answered.
    pub cells: u64,
    /// How long the statements took.
    pub time: Duration,
}

impl Spending {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            statements: self.statements.saturating_add(other.statements),
            rows: self.rows.saturating_add(other.rows),
            cells: self.cells.saturating_add(other.cells),
            time: self.time.saturating_add(other.time),
        }
    }
}

/// What was taken since a span began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanSpending {
    /// When it began, since 1970-01-01 UTC.
    pub since: Duration,
    /// What was taken since then, by whichever server.
    pub spending: Spending,
}

/// Where several servers count together.
pub trait BudgetStore: Send + Sync {
    /// Adds what was `taken` here to what all have taken, and tells that of each of these principals, in a span of each of these
    /// lengths. `now` is the time since 1970-01-01 UTC. A span that is over by then begins anew.
    ///
    /// # Errors
    /// A text for the operator. Then nothing was added.
    fn exchange_spending(
        &self,
        taken: &[(Principal, Spending)],
        lengths: [Duration; 2],
        now: Duration,
    ) -> Result<Vec<(Principal, [SpanSpending; 2])>, String>;
}

/// What each principal may take, and what was taken so far. Gates that share one count together.
///
/// A span begins with a principal's first statement, and the next begins with the first one after its end. What begins within the
/// budget is answered whole, so the last statements can go beyond it: as many as run at once, each by its own limits.
///
/// Servers that [exchange](crate::guard::Guard::exchange_budgets) what they count know of each other's from then on. What a principal
/// takes at several of them between two exchanges goes beyond its budget.
#[derive(Debug)]
pub struct Budgets {
    spans: [(Span, Allowance); 2],
    counted: Mutex<HashMap<Principal, Counted>>,
    /// Held while others are told. What is heard by two at a time could come in the wrong order.
    telling: Mutex<()>,
}

/// A span of time, and what it is called.
#[derive(Debug, Clone, Copy)]
struct Span {
    name: &'static str,
    length: Duration,
}

/// What is counted of a principal.
#[derive(Debug, Clone, Copy)]
struct Counted {
    spans: [Spent; 2],
    /// What others have not been told of.
    untold: Spending,
    /// Whether it has asked since others were last asked about it.
    is_asking: bool,
}

/// What was taken in a span.
#[derive(Debug, Clone, Copy)]
struct Spent {
    /// By the clock of this machine, as all times here.
    until: Duration,
    spending: Spending,
}

impl Spent {
    fn begin(span: Span, now: Duration) -> Self {
        Self {
            until: now.saturating_add(span.length),
            spending: Spending::default(),
        }
    }

    /// Begins a new span where this one is over.
    fn renew(&mut self, span: Span, now: Duration) {
        if now >= self.until {
            *self = Self::begin(span, now);
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
        let spending = self.spending;
        [
            ("statements", spending.statements, statements),
            ("rows", spending.rows, rows),
            ("cells", spending.cells, cells),
            ("seconds", spending.time.as_secs(), seconds),
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
            counted: Mutex::default(),
            telling: Mutex::default(),
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
        let mut all = self.lock();
        let counted = self.find(&mut all, principal, now);
        counted.is_asking = true;
        for ((span, allowance), spent) in self.spans.iter().zip(counted.spans.iter_mut()) {
            spent.renew(*span, now);
            if let Some((what, most)) = spent.find_exhausted(*allowance) {
                let left = spent.until.saturating_sub(now);
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
        counted.add(Spending {
            statements: 1,
            ..Spending::default()
        });
        Ok(())
    }

    /// Counts what a statement of `principal` took.
    pub(in crate::guard) fn spend(&self, principal: &Principal, taken: Spending, now: Duration) {
        let mut all = self.lock();
        let counted = self.find(&mut all, principal, now);
        for ((span, _), spent) in self.spans.iter().zip(counted.spans.iter_mut()) {
            spent.renew(*span, now);
        }
        counted.add(taken);
    }

    /// Tells `store` what was taken since it was last told, and hears what all have taken; nothing while another does. `now` is the time of this machine's clock,
    /// and since 1970-01-01 UTC.
    ///
    /// # Errors
    /// As [`BudgetStore::exchange_spending`]; it is told the next time.
    pub(in crate::guard) fn exchange(
        &self,
        store: &dyn BudgetStore,
        (now, unix): (Duration, Duration),
    ) -> Result<(), String> {
        let _telling = match self.telling.try_lock() {
            Ok(telling) => telling,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let mut told = Vec::new();
        for (principal, counted) in self.lock().iter_mut() {
            if std::mem::take(&mut counted.is_asking) || counted.untold != Spending::default() {
                told.push((principal.clone(), std::mem::take(&mut counted.untold)));
            }
        }
        if told.is_empty() {
            return Ok(());
        }
        let lengths = self.spans.map(|(span, _)| span.length);
        let heard = store.exchange_spending(&told, lengths, unix);
        let mut all = self.lock();
        match heard {
            Ok(heard) => {
                for (principal, spans) in heard {
                    let Some(counted) = all.get_mut(&principal) else {
                        continue;
                    };
                    let untold = counted.untold;
                    for ((spent, length), by_all) in
                        counted.spans.iter_mut().zip(lengths).zip(spans)
                    {
                        let left = by_all
                            .since
                            .saturating_add(length)
                            .saturating_sub(unix)
                            .min(length);
                        spent.until = now.saturating_add(left);
                        spent.spending = by_all.spending.plus(untold);
                    }
                }
                Ok(())
            }
            Err(why) => {
                for (principal, taken) in told {
                    let counted = self.find(&mut all, &principal, now);
                    counted.is_asking = true;
                    counted.untold = counted.untold.plus(taken);
                }
                Err(why)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Principal, Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `principal` has spent. Where too many are counted, those whose day is over are forgotten, or the one whose day ends
    /// first.
    fn find<'a>(
        &self,
        all: &'a mut HashMap<Principal, Counted>,
        principal: &Principal,
        now: Duration,
    ) -> &'a mut Counted {
        if all.len() >= PRINCIPALS && !all.contains_key(principal) {
            all.retain(|_, counted| now < counted.day_end());
            let first = all.iter().min_by_key(|(_, counted)| counted.day_end());
            if all.len() >= PRINCIPALS
                && let Some(first) = first.map(|(principal, _)| principal.clone())
            {
                all.remove(&first);
            }
        }
        all.entry(principal.clone()).or_insert_with(|| Counted {
            spans: self.spans.map(|(span, _)| Spent::begin(span, now)),
            untold: Spending::default(),
            is_asking: false,
        })
    }
}

impl Counted {
    fn add(&mut self, taken: Spending) {
        for spent in &mut self.spans {
            spent.spending = spent.spending.plus(taken);
        }
        self.untold = self.untold.plus(taken);
    }

    fn day_end(&self) -> Duration {
        let [_, day] = self.spans;
        day.until
    }
}

/// A time as people say it.
fn spell(time: Duration) -> String {
    let seconds = time.as_secs().max(1);
    match seconds {
        0..=1 => "1 second".to_owned(),
        2..=120 => format!("{seconds} seconds"),
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

    fn taken(rows: u64, cells: u64, ms: u64) -> Spending {
        Spending {
            statements: 0,
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
    fn a_refusal_says_when_the_budget_renews() {
        let at = Duration::from_secs(1_000);
        let one = Allowance {
            statements: Some(1),
            ..Allowance::default()
        };
        let budgets = Budgets::new(Allowance::default(), one);
        budgets.admit(&principal(1), at).unwrap();
        for (left_ms, told) in [
            (1, "1 second"),
            (30_000, "30 seconds"),
            (120_000, "120 seconds"),
            (121_000, "3 minutes"),
            (7_200_000, "120 minutes"),
            (7_201_000, "3 hours"),
            (86_400_000, "24 hours"),
        ] {
            let left = Duration::from_millis(left_ms);
            let refused = budgets.admit(&principal(1), at + DAY - left).unwrap_err();
            let end = format!("it renews in {told}");
            assert!(refused.message().ends_with(&end), "{left_ms}: {refused}");
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
        assert_eq!(budgets.lock().len(), PRINCIPALS);
    }
}
