//! Moments of a MySQL server: which numbers of changes a snapshot sees.
//!
//! Each change of a row writes its number in its own transaction, so a snapshot sees the number if it sees the change. A lower number
//! that it misses is of an open transaction, or was given out in vain.
//!
//! What was given out in vain is taken after a while by a row of ours, so that labels stay short. A transaction that comes for it all the
//! same fails: no change ever has a number that a label has seen without it.

use std::time::{Duration, Instant};

use mysql_async::{Conn, Error, Row, prelude::Queryable as _};
use palisade::{
    catalog::Companion,
    dialect::Dialect,
    guard::{BackendError, BackendErrorKind},
    past::{CommittedState, Label, LabelStanding, NumberRange},
};

use super::{
    LastLabel, lacks, print_ranges, run,
    script::SEAL,
    script::SPANS,
    triggers,
    triggers::{NUMBERS, PLACE, STATE},
};
use crate::{
    introspect::{query, text},
    settings::{identifier, literal},
};

/// How long a number is missing until it may be taken. Who holds one has written it long before, or waits for a lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// So many numbers are taken at once.
const MOST_TAKEN: u64 = 5_000;

/// So many rows are deleted at once, once there are that many, and so many times.
const DELETED: u64 = 20_000;
const LEAST_DELETED: u64 = 1_000;
const DELETIONS: u32 = 10;

/// The numbers that a snapshot sees: those below `next` that are not `missing`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    next: u64,
    missing: Vec<NumberRange>,
    /// All below it are seen, and have no rows.
    low: u64,
}

impl Seen {
    /// From the runs of numbers that have rows, rising, from `low` on.
    fn of_runs(low: u64, runs: &[NumberRange]) -> Self {
        let mut next = low;
        let mut missing = Vec::new();
        for run in runs {
            if let Some(last) = run.first.checked_sub(1).filter(|last| *last >= next) {
                missing.push(NumberRange { first: next, last });
            }
            next = next.max(run.last.saturating_add(1));
        }
        Self { next, missing, low }
    }

    /// All numbers below this are seen.
    fn settled(&self) -> u64 {
        self.missing.first().map_or(self.next, |range| range.first)
    }
}

/// What is known of moments that were noted before.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// The last one, with its epoch, which is on disk.
    last: Option<(String, Seen)>,
    /// What was missing at a time.
    missing: Option<(Instant, Vec<NumberRange>)>,
}

impl Noted {
    /// Whether the last moment is this one.
    fn has(&self, epoch: &str, seen: &Seen) -> bool {
        self.last.as_ref().is_some_and(|(of, last)| {
            of == epoch && last.next == seen.next && last.missing == seen.missing
        })
    }

    /// Of what is missing now, what was missing for so long that it may be taken.
    fn list_overdue(&mut self, now: Instant, missing: &[NumberRange]) -> Vec<NumberRange> {
        let since = self.missing.as_ref();
        let is_over = since.is_some_and(|(since, _)| now.duration_since(*since) >= PATIENCE);
        let overdue = match since {
            Some((_, before)) if is_over => take(&intersect(before, missing), MOST_TAKEN),
            Some(_) | None => Vec::new(),
        };
        if is_over || since.is_none() {
            self.missing = Some((now, missing.to_vec()));
        }
        overdue
    }
}

/// The changes that are committed by now, for a connection to the database `own`.
pub(super) async fn take_label(
    conn: &mut Conn,
    own: &str,
    last: &LastLabel,
) -> Result<Label, BackendError> {
    let (epoch, obstacle) = read_place(conn, own).await?;
    if !obstacle.is_empty() {
        return Err(BackendError::no_moment(format!(
            "the server has no moments to note: {obstacle}"
        )));
    }
    let seen = read_seen(conn, own).await?;
    if !last.numbers().has(&epoch, &seen) {
        seal(conn, own, seen.settled()).await?;
        last.numbers().last = Some((epoch.clone(), seen.clone()));
        if seen.settled().saturating_sub(seen.low) >= LEAST_DELETED {
            forget(conn, own).await?;
        }
    }
    let overdue = last.numbers().list_overdue(Instant::now(), &seen.missing);
    if !overdue.is_empty() {
        take_numbers(conn, own, &overdue).await?;
    }
    let missing: Vec<String> = seen.missing.iter().map(NumberRange::to_string).collect();
    let printed = format!("{epoch}:{}:{}", seen.next, missing.join(","));
    Label::parse(Dialect::Mysql, &printed).ok_or_else(|| {
        BackendError::new(BackendErrorKind::Conflict,
            "so many transactions are open that a moment cannot be noted; it can once they have ended",
        )
    })
}

/// Whether `label` is of this server, and the history in `companions` is whole from there on, for a connection to the database `own`.
pub(super) async fn check_label(
    conn: &mut Conn,
    own: &str,
    label: &Label,
    companions: &[Companion],
) -> Result<LabelStanding, BackendError> {
    let CommittedState::Counter {
        epoch,
        next,
        active: _,
    } = label.state()
    else {
        return Ok(LabelStanding::Foreign);
    };
    let (found, _) = read_place(conn, own).await?;
    if found != *epoch || read_next(conn, own).await? < *next {
        return Ok(LabelStanding::Foreign);
    }
    for companion in companions {
        let Some(table) = super::table_of(companion, own) else {
            return Ok(LabelStanding::BeforeHistory);
        };
        if !reaches_back(conn, (own, table), label).await? {
            return Ok(LabelStanding::BeforeHistory);
        }
    }
    Ok(LabelStanding::Answers)
}

/// Whether the history of a table is whole, and begins no later than `label`.
async fn reaches_back(
    conn: &mut Conn,
    (own, table): (&str, &str),
    label: &Label,
) -> Result<bool, BackendError> {
    let sql = format!(
        "SELECT CAST(h.palisade_from AS CHAR), CAST(COALESCE(h.state = {}.{}, 0) AS CHAR), COALESCE(h.pruned, '') FROM {} h WHERE h.table_name = {}",
        identifier(own),
        triggers::state_call(own, table),
        name(own, SPANS),
        literal(table)
    );
    let rows = query(conn, sql).await;
    let rows = rows.map_err(|error| lacks(&error, &of_functions(STATE)))?;
    let Some(row) = rows.first() else {
        return Ok(false);
    };
    let since = number(row, 0)?;
    let is_whole = cell(row, 1)? == "1";
    let pruned = cell(row, 2)?;
    Ok(is_whole && label.state().has_seen(since) && has_seen_all(label, &pruned))
}

/// Whether a label has seen all that the one has seen before which was pruned.
fn has_seen_all(label: &Label, pruned: &str) -> bool {
    if pruned.is_empty() {
        return true;
    }
    let pruned = Label::parse(
        Dialect::Mysql,
        &format!("{}:{pruned}", label.state().epoch()),
    );
    let (
        Some(CommittedState::Counter {
            next: first,
            active: unseen,
            epoch: _,
        }),
        CommittedState::Counter {
            next,
            active,
            epoch: _,
        },
    ) = (pruned.as_ref().map(Label::state), label.state())
    else {
        return false;
    };
    let below = active.iter().filter(|range| range.first < *first);
    next >= first
        && below.into_iter().all(|range| {
            let last = range.last.min(first.saturating_sub(1));
            unseen
                .iter()
                .any(|known| known.first <= range.first && last <= known.last)
        })
}

/// Which server this is, and why it has no moments.
async fn read_place(conn: &mut Conn, own: &str) -> Result<(String, String), BackendError> {
    let sql = format!("SELECT {}.{}", identifier(own), triggers::place_call(own));
    let rows = query(conn, sql).await;
    let rows = rows.map_err(|error| lacks(&error, &of_functions(PLACE)))?;
    let found = rows.first().and_then(|row| text(row, 0).ok());
    let place = found.as_deref().and_then(|place| place.split_once(' '));
    let (epoch, obstacle) = place.ok_or_else(|| {
        BackendError::no_moment(
            "what keeps history in the database is not whole: run the SQL of `palisade history rebase`",
        )
    })?;
    Ok((epoch.to_owned(), obstacle.to_owned()))
}

/// What a snapshot of now sees.
async fn read_seen(conn: &mut Conn, own: &str) -> Result<Seen, BackendError> {
    run(conn, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
    run(
        conn,
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    )
    .await?;
    let seen = async {
        let low = read_low(conn, own).await?;
        let sql = format!(
            "SELECT CAST(MIN(r.n) AS CHAR), CAST(MAX(r.n) AS CHAR) FROM \
             (SELECT x.n, x.n - ROW_NUMBER() OVER (ORDER BY x.n) AS run FROM {} x WHERE x.n >= {low}) r GROUP BY r.run ORDER BY MIN(r.n)",
            name(own, NUMBERS)
        );
        let rows = query(conn, sql).await;
        let rows = rows.map_err(|error| lacks(&error, &of_numbers()))?;
        let read = |row: &Row| {
            Ok(NumberRange {
                first: number(row, 0)?,
                last: number(row, 1)?,
            })
        };
        let runs: Result<Vec<NumberRange>, BackendError> = rows.iter().map(read).collect();
        Ok(Seen::of_runs(low, &runs?))
    };
    let seen = seen.await;
    run(conn, "COMMIT").await?;
    seen
}

/// The number after the highest committed one.
async fn read_next(conn: &mut Conn, own: &str) -> Result<u64, BackendError> {
    let sql = format!(
        "SELECT CAST(COALESCE(MAX(x.n) + 1, 0) AS CHAR) FROM {} x",
        name(own, NUMBERS)
    );
    let rows = query(conn, sql).await;
    let rows = rows.map_err(|error| lacks(&error, &of_numbers()))?;
    let next = rows.first().map_or(Ok(0), |row| number(row, 0))?;
    Ok(next.max(read_low(conn, own).await?))
}

async fn read_low(conn: &mut Conn, own: &str) -> Result<u64, BackendError> {
    let sql = format!(
        "SELECT CAST(s.low AS CHAR) FROM {} s WHERE s.id = 1",
        name(own, SEAL)
    );
    let rows = query(conn, sql).await;
    let rows = rows.map_err(|error| lacks(&error, &of_seal()))?;
    match rows.first() {
        Some(row) => number(row, 0),
        None => Err(lost_seal()),
    }
}

/// Writes after a label, before it counts: what it saw is on disk with this, and so is that its numbers were given out. All numbers
/// below `low` are seen by then, and by whoever looks later.
async fn seal(conn: &mut Conn, own: &str, low: u64) -> Result<(), BackendError> {
    let sql = format!(
        "UPDATE {} SET n = n + 1, low = GREATEST(low, {low}) WHERE id = 1",
        name(own, SEAL)
    );
    match write(conn, &sql).await {
        Ok(1) => Ok(()),
        Ok(_) => Err(lost_seal()),
        Err(error) => Err(lacks(&error, &of_seal())),
    }
}

/// Deletes rows of numbers that every label has seen.
async fn forget(conn: &mut Conn, own: &str) -> Result<(), BackendError> {
    let low = read_low(conn, own).await?;
    let sql = format!(
        "DELETE FROM {} WHERE n < {low} ORDER BY n LIMIT {DELETED}",
        name(own, NUMBERS)
    );
    for _ in 0..DELETIONS {
        match write(conn, &sql).await {
            Ok(DELETED) => {}
            Ok(_) => return Ok(()),
            Err(error) => return put_off(&error),
        }
    }
    Ok(())
}

/// Takes numbers without a holder, as far as a look at uncommitted rows tells.
async fn take_numbers(
    conn: &mut Conn,
    own: &str,
    overdue: &[NumberRange],
) -> Result<(), BackendError> {
    let Some(among) = print_ranges("x.n", overdue) else {
        return Ok(());
    };
    run(conn, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").await?;
    let sql = format!(
        "SELECT CAST(x.n AS CHAR) FROM {} x WHERE {among}",
        name(own, NUMBERS)
    );
    let rows = query(conn, sql).await;
    let rows = rows.map_err(|error| lacks(&error, &of_numbers()))?;
    let held: Result<Vec<u64>, BackendError> = rows.iter().map(|row| number(row, 0)).collect();
    let held = held?;
    let free = (overdue.iter())
        .flat_map(|range| range.first..=range.last)
        .filter(|n| !held.contains(n));
    let values: Vec<String> = free.map(|n| format!("({n})")).collect();
    if values.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "INSERT IGNORE INTO {} (n) VALUES {}",
        name(own, NUMBERS),
        values.join(", ")
    );
    match write(conn, &sql).await {
        Ok(_) => Ok(()),
        Err(error) => put_off(&error),
    }
}

/// Runs a statement in a transaction of its own; how many rows it wrote. Sessions only read unless they are told otherwise.
async fn write(conn: &mut Conn, sql: &str) -> Result<u64, Error> {
    conn.query_drop("START TRANSACTION READ WRITE").await?;
    let written = conn.query_drop(sql).await;
    let count = conn.affected_rows();
    let end = if written.is_ok() {
        "COMMIT"
    } else {
        "ROLLBACK"
    };
    conn.query_drop(end).await?;
    written.map(|()| count)
}

/// What can be done later as well is no error, unless it is not granted.
fn put_off(error: &Error) -> Result<(), BackendError> {
    match error {
        // `ER_LOCK_WAIT_TIMEOUT`, `ER_LOCK_DEADLOCK`
        Error::Server(server) if [1205, 1213].contains(&server.code) => Ok(()),
        Error::Server(_) | Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => {
            Err(lacks(error, &of_numbers()))
        }
    }
}

/// The numbers that are in both, which rise.
fn intersect(one: &[NumberRange], other: &[NumberRange]) -> Vec<NumberRange> {
    let mut both = Vec::new();
    let (mut ones, mut others) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (ones.peek(), others.peek()) {
        let (first, last) = (a.first.max(b.first), a.last.min(b.last));
        if first <= last {
            both.push(NumberRange { first, last });
        }
        if a.last <= b.last {
            ones.next();
        } else {
            others.next();
        }
    }
    both
}

/// The first `most` numbers.
fn take(ranges: &[NumberRange], most: u64) -> Vec<NumberRange> {
    let mut left = most;
    let mut taken = Vec::new();
    for range in ranges {
        if left == 0 {
            break;
        }
        let last = range.last.min(range.first.saturating_add(left - 1));
        left -= last - range.first + 1;
        taken.push(NumberRange {
            first: range.first,
            last,
        });
    }
    taken
}

fn name(own: &str, table: &str) -> String {
    format!("{}.{}", identifier(own), identifier(table))
}

fn of_functions(function: &str) -> String {
    format!("EXECUTE ON FUNCTION `{function}`, SELECT ON `{SPANS}`")
}

fn of_numbers() -> String {
    format!("SELECT, INSERT, DELETE ON `{NUMBERS}`")
}

fn of_seal() -> String {
    format!("SELECT, UPDATE (n, low) ON `{SEAL}`")
}

fn lost_seal() -> BackendError {
    BackendError::unavailable(format!(
        "the table `{SEAL}` has not its row: run the SQL of `palisade history enable` again"
    ))
}

fn cell(row: &Row, at: usize) -> Result<String, BackendError> {
    text(row, at).map_err(|error| BackendError::unavailable(error.to_string()))
}

fn number(row: &Row, at: usize) -> Result<u64, BackendError> {
    let text = cell(row, at)?;
    text.parse().map_err(|_| {
        BackendError::unavailable(format!("the server gave a number that is none: {text}"))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn ranges(text: &str) -> Vec<NumberRange> {
        let label = Label::parse(Dialect::Mysql, &format!("e:1000:{text}")).unwrap();
        match label.state() {
            CommittedState::Counter {
                active,
                epoch: _,
                next: _,
            } => active.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn print(ranges: &[NumberRange]) -> String {
        let each: Vec<String> = ranges.iter().map(NumberRange::to_string).collect();
        each.join(",")
    }

    #[test]
    fn what_has_no_row_is_missing() {
        for (low, runs, next, missing, settled) in [
            (1, "", 1, "", 1),
            (1, "1-4", 5, "", 5),
            (1, "2-4", 5, "1", 1),
            (1, "1-4,7,9-10", 11, "5-6,8", 5),
            (20, "", 20, "", 20),
            (20, "20-30,33", 34, "31-32", 31),
            (20, "25", 26, "20-24", 20),
        ] {
            let seen = Seen::of_runs(low, &ranges(runs));
            assert_eq!(seen.next, next, "{runs}");
            assert_eq!(print(&seen.missing), missing, "{runs}");
            assert_eq!(seen.settled(), settled, "{runs}");
        }
    }

    #[test]
    fn what_is_missing_for_long_is_overdue() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut noted = Noted::default();
        for (time, missing, overdue) in [
            (0, "3,7-9", ""),
            (4, "3,7-9,12", ""),
            (10, "3,8-12", "3,8-9"),
            (12, "8-12", ""),
            (21, "10-30", "10-12"),
        ] {
            let found = noted.list_overdue(at(time), &ranges(missing));
            assert_eq!(print(&found), overdue, "{time}");
        }
        assert_eq!(print(&take(&ranges("3,7-9,12"), 3)), "3,7-8");
    }

    #[test]
    fn a_label_reaches_back_to_what_was_pruned() {
        for (label, pruned, reaches) in [
            ("20:", "", true),
            ("20:", "20:", true),
            ("20:", "15:3,9-11", true),
            ("20:9", "15:3,9-11", true),
            ("20:3,9-18", "12:3,9-11", true),
            ("20:3,9-18", "13:3,9-11", false),
            ("20:9-12", "15:3,9-11", false),
            ("20:4", "15:3,9-11", false),
            ("14:", "15:", false),
            ("20:", "what", false),
        ] {
            let label = Label::parse(Dialect::Mysql, &format!("e:{label}")).unwrap();
            assert_eq!(has_seen_all(&label, pruned), reaches, "{label} {pruned}");
        }
    }
}
