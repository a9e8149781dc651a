//! What principals have taken of their budgets, at whichever server: one table of the store.

use std::time::Duration;

use palisade::{
    guard::{BudgetStore, SpanSpending, Spending},
    session::Principal,
};

use crate::{
    database::{DatabaseFault, StateRow, StateTransaction, StateValue},
    store::{ApprovalStore, millis, time},
};

/// The table, which the fifth form of the store has. It holds no request and no value of a row, and is not sealed.
pub(crate) const TABLE: &str = "
    CREATE TABLE budgets (
        principal TEXT PRIMARY KEY,
        minute_since_ms INTEGER NOT NULL,
        minute_statements INTEGER NOT NULL,
        minute_rows INTEGER NOT NULL,
        minute_cells INTEGER NOT NULL,
        minute_time_ms INTEGER NOT NULL,
        day_since_ms INTEGER NOT NULL,
        day_statements INTEGER NOT NULL,
        day_rows INTEGER NOT NULL,
        day_cells INTEGER NOT NULL,
        day_time_ms INTEGER NOT NULL
    ) STRICT;
";

const FIND: &str = "
    SELECT minute_since_ms, minute_statements, minute_rows, minute_cells, minute_time_ms,
           day_since_ms, day_statements, day_rows, day_cells, day_time_ms
    FROM budgets WHERE principal = ?1";

const KEEP: &str = "INSERT INTO budgets VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// Columns of a span.
const COLUMNS: usize = 5;

fn read_span(row: &StateRow, first: usize) -> Result<SpanSpending, DatabaseFault> {
    let count = |at: usize| -> Result<u64, DatabaseFault> {
        Ok(u64::try_from(row.integer(first + at)?).unwrap_or_default())
    };
    Ok(SpanSpending {
        since: time(row.integer(first)?),
        spending: Spending {
            statements: count(1)?,
            rows: count(2)?,
            cells: count(3)?,
            time: time(row.integer(first + 4)?),
        },
    })
}

fn values_of(span: &SpanSpending) -> [StateValue; COLUMNS] {
    let SpanSpending { since, spending } = *span;
    let Spending {
        statements,
        rows,
        cells,
        time,
    } = spending;
    let count = |count: u64| StateValue::from(i64::try_from(count).unwrap_or(i64::MAX));
    [
        millis(since).into(),
        count(statements),
        count(rows),
        count(cells),
        millis(time).into(),
    ]
}

/// Adds what `principal` has taken to the spans of `lengths` that `now` is in.
fn add(
    transaction: &mut StateTransaction<'_>,
    (principal, taken): (&Principal, Spending),
    lengths: [Duration; 2],
    now: Duration,
) -> Result<[SpanSpending; 2], DatabaseFault> {
    let name = principal.to_string();
    let row = transaction.find(FIND, &[(&name).into()])?;
    let fresh = SpanSpending {
        since: now,
        spending: Spending::default(),
    };
    let mut spans = match &row {
        Some(row) => [read_span(row, 0)?, read_span(row, COLUMNS)?],
        None => [fresh; 2],
    };
    for (span, length) in spans.iter_mut().zip(lengths) {
        // A server whose clock is behind does not begin a span before it was begun.
        if now.saturating_sub(span.since) >= length {
            *span = fresh;
        }
        span.spending = span.spending.plus(taken);
    }
    transaction.execute(
        "DELETE FROM budgets WHERE principal = ?1",
        &[(&name).into()],
    )?;
    let spent = spans.iter().flat_map(values_of);
    let values: Vec<StateValue> = std::iter::once((&name).into()).chain(spent).collect();
    transaction.execute(KEEP, &values)?;
    Ok(spans)
}

impl BudgetStore for ApprovalStore {
    fn exchange_spending(
        &self,
        taken: &[(Principal, Spending)],
        lengths: [Duration; 2],
        now: Duration,
    ) -> Result<Vec<(Principal, [SpanSpending; 2])>, String> {
        let [_, day] = lengths;
        let told = self.database.write(|transaction| {
            transaction.execute(
                "DELETE FROM budgets WHERE day_since_ms <= ?1",
                &[millis(now.saturating_sub(day)).into()],
            )?;
            let told = taken.iter().map(|(principal, taken)| {
                let spans = add(transaction, (principal, *taken), lengths, now)?;
                Ok((principal.clone(), spans))
            });
            told.collect::<Result<Vec<_>, DatabaseFault>>()
        });
        told.map_err(|fault| fault.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{seal::StateSecret, store::ApprovalOptions};

    const LENGTHS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(86_400)];

    #[test]
    fn what_is_taken_at_two_servers_counts_together() {
        let folder = std::env::temp_dir().join(format!("palisade-budgets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let open = || {
            let secret = StateSecret::new(*b"secret");
            let path = folder.join("state.db");
            ApprovalStore::open(&path, &secret, ApprovalOptions::default()).unwrap()
        };
        let servers = [open(), open()];
        let (one, other) = (Principal::new("Agent", "a"), Principal::new("Agent", "b"));
        let taken = Spending {
            statements: 2,
            rows: 30,
            cells: 60,
            time: Duration::from_millis(1_500),
        };
        let exchange = |server: usize, who: &Principal, seconds: u64| {
            let all = [(who.clone(), taken)];
            let now = Duration::from_secs(seconds);
            let told = servers[server]
                .exchange_spending(&all, LENGTHS, now)
                .unwrap();
            let [(principal, spans)] = told.try_into().unwrap();
            assert_eq!(principal, *who);
            spans.map(|span| (span.since.as_secs(), span.spending.statements))
        };
        let begin = 1_000_000;
        assert_eq!(exchange(0, &one, begin), [(begin, 2); 2]);
        assert_eq!(exchange(1, &one, begin + 30), [(begin, 4); 2]);
        assert_eq!(exchange(1, &other, begin + 30), [(begin + 30, 2); 2]);
        // The minute is over, the day is not.
        assert_eq!(exchange(0, &one, begin + 60), [(begin + 60, 2), (begin, 6)]);
        let nothing = [(one.clone(), Spending::default())];
        let now = Duration::from_secs(begin + 61);
        let told = servers[1]
            .exchange_spending(&nothing, LENGTHS, now)
            .unwrap();
        let [minute, day] = told[0].1;
        assert_eq!(minute.spending, taken);
        assert_eq!((day.spending.rows, day.spending.cells), (90, 180));
        assert_eq!(day.spending.time, Duration::from_millis(4_500));
        // A day later nothing is left of it.
        let later = begin + 86_400 + 30;
        assert_eq!(exchange(0, &one, later), [(later, 2); 2]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
