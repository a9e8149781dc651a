//! States of committed transactions, as of which tables can be read that have history.
//!
//! A label is no clock: it says which transactions a read at that moment would have seen. Each engine has its own form of it.
//!
//! | engine | form | what it says |
//! |---|---|---|
//! | PostgreSQL | `EPOCH:XMIN:XMAX:XID,XID` | `pg_current_snapshot()` |
//! | MariaDB | `EPOCH:NEXT:ID,ID-ID` | the next transaction's id, and the ids of those that were open |
//! | MySQL | `EPOCH:NEXT:N,N-N` | the number after the last change that was seen, and those below it that were not |
//! | SQLite | `SEQ:MARK` | the last change of a row, and the random mark that it left |

use std::fmt;

use crate::dialect::Dialect;

/// The column of a companion with the transaction, or change, since which a row was so.
pub const FROM: &str = "palisade_from";

/// The column with the one since which it is so no longer; NULL, or the engine's highest number, while it is.
pub const TO: &str = "palisade_to";

/// What names of relations and triggers begin with that operators make for history.
pub const PREFIX: &str = "palisade_history";

/// The most characters of a label's text: some thousand transactions in flight.
const MAX_TEXT: usize = 64 * 1024;

/// A state of committed transactions of one database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    text: String,
    state: CommittedState,
}

/// Which transactions a label has seen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommittedState {
    /// SQLite: all changes of rows up to this one, which left this mark.
    Sequence {
        /// The last change.
        last: i64,
        /// Its mark.
        mark: i64,
    },
    /// PostgreSQL: those that this snapshot sees, in the server's epoch.
    Snapshot {
        /// The server and its timeline.
        epoch: String,
        /// The text of a `pg_snapshot`.
        snapshot: String,
    },
    /// MySQL and MariaDB: those below `next` that are not `active`, in the server's epoch. On MySQL they are changes of rows.
    Counter {
        /// The server and its registry of history.
        epoch: String,
        /// The id that the next transaction gets.
        next: u64,
        /// Those that were open, rising.
        active: Vec<NumberRange>,
    },
}

/// Numbers that follow each other, both ends among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumberRange {
    /// The lowest.
    pub first: u64,
    /// The highest.
    pub last: u64,
}

impl NumberRange {
    /// One number.
    #[must_use]
    pub fn one(number: u64) -> Self {
        Self {
            first: number,
            last: number,
        }
    }
}

/// As a label has it: `7`, or `9-12`.
impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl Label {
    /// Reads the text of a label of an engine.
    ///
    /// Nothing but digits, words of an epoch, colons, commas and hyphens gets through, so that a label's parts may stand in a
    /// statement.
    #[must_use]
    pub fn parse(dialect: Dialect, text: &str) -> Option<Self> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let state = match dialect {
            Dialect::Sqlite => {
                let (last, mark) = text.split_once(':')?;
                let last = last.parse().ok().filter(|last: &i64| *last >= 0)?;
                let mark = mark.parse().ok()?;
                CommittedState::Sequence { last, mark }
            }
            Dialect::Postgres => {
                let (epoch, snapshot) = text.split_once(':')?;
                (is_epoch(epoch) && is_snapshot(snapshot)).then(|| CommittedState::Snapshot {
                    epoch: epoch.to_owned(),
                    snapshot: snapshot.to_owned(),
                })?
            }
            Dialect::Mysql => {
                let (epoch, rest) = text.split_once(':')?;
                let (next, active) = rest.split_once(':')?;
                let next = read_id(next)?;
                let active = read_ranges(active)?;
                let is_rising = active.is_sorted_by(|a, b| a.last < b.first);
                let is_below = active.last().is_none_or(|range| range.last < next);
                (is_epoch(epoch) && is_rising && is_below).then(|| CommittedState::Counter {
                    epoch: epoch.to_owned(),
                    next,
                    active,
                })?
            }
        };
        let text = text.to_owned();
        Some(Self { text, state })
    }

    /// The text that [`parse`](Self::parse) reads.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.text
    }

    /// Which transactions it has seen.
    #[must_use]
    pub fn state(&self) -> &CommittedState {
        &self.state
    }
}

impl CommittedState {
    /// Whether a transaction, or a change on SQLite, is among those of this state. Of one of another epoch it says nothing.
    #[must_use]
    pub fn has_seen(&self, transaction: u64) -> bool {
        match self {
            Self::Sequence { last, mark: _ } => {
                i64::try_from(transaction).is_ok_and(|change| change <= *last)
            }
            Self::Snapshot { epoch: _, snapshot } => snapshot_sees(snapshot, transaction),
            Self::Counter {
                epoch: _,
                next,
                active,
            } => transaction < *next && !are_among(active, transaction),
        }
    }

    /// Whether it is a later one of the same database: of more transactions, or of as many of which fewer were open.
    #[must_use]
    pub fn is_after(&self, other: &Self) -> bool {
        let (reach, open) = self.measure();
        let (other_reach, other_open) = other.measure();
        self.epoch() == other.epoch()
            && (reach > other_reach || (reach == other_reach && open < other_open))
    }

    /// Below which number it may have seen transactions, and how many of those were open.
    fn measure(&self) -> (u64, u64) {
        let count = |ids: &[u64]| u64::try_from(ids.len()).unwrap_or(u64::MAX);
        match self {
            Self::Sequence { last, mark: _ } => (u64::try_from(*last).unwrap_or_default(), 0),
            Self::Snapshot { epoch: _, snapshot } => {
                read_snapshot(snapshot).map_or((0, 0), |(xmax, open)| (xmax, count(&open)))
            }
            Self::Counter {
                epoch: _,
                next,
                active,
            } => {
                let lengths = active.iter().map(|range| range.last - range.first + 1);
                (*next, lengths.sum())
            }
        }
    }

    /// What tells the database of this state from others, and from itself before it was restored. SQLite has no such thing that a
    /// label knows: it is asked.
    #[must_use]
    pub fn epoch(&self) -> &str {
        match self {
            Self::Sequence { last: _, mark: _ } => "",
            Self::Snapshot { epoch, snapshot: _ } => epoch,
            Self::Counter {
                epoch,
                next: _,
                active: _,
            } => epoch,
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a label answers for tables as they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelStanding {
    /// Everything that it needs is there.
    Answers,
    /// It is of another database, or of this one before it was restored.
    Foreign,
    /// History of a table begins later, or was pruned since.
    BeforeHistory,
}

/// What an operator wants of the history of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryOrder {
    /// That it is kept from now on, and that this account, where one is named, may read it.
    Enable {
        /// The firewall's account.
        account: Option<String>,
    },
    /// That it is kept no longer, and what was kept is deleted.
    Disable,
    /// That what had ended at a label is deleted.
    Prune(Label),
}

/// A label that is kept, with when and by whom it was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLabel {
    /// The name of a snapshot; none of a label that changes and time leave.
    pub name: Option<String>,
    /// The label's text.
    pub label: String,
    /// When, in milliseconds since 1970-01-01 UTC.
    pub taken_ms: u64,
    /// The principal; none of a label without a name.
    pub taken_by: Option<String>,
}

/// What became of a label that was to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelKeeping {
    /// It is kept.
    Kept,
    /// There is a snapshot by this name.
    NameTaken,
    /// The principal has as many snapshots as it may.
    TooMany,
}

/// Where labels are kept, by the names of their databases.
pub trait LabelStore: Send + Sync {
    /// A number that is another one once anything was written, by whoever.
    ///
    /// # Errors
    /// A text for the operator.
    fn read_version(&self) -> Result<u64, String>;

    /// Keeps a label.
    ///
    /// # Errors
    /// A text for the operator.
    fn keep_label(&self, database: &str, kept: &KeptLabel) -> Result<LabelKeeping, String>;

    /// The snapshot by this name.
    ///
    /// # Errors
    /// A text for the operator.
    fn find_snapshot(&self, database: &str, name: &str) -> Result<Option<KeptLabel>, String>;

    /// The last label that was taken at `taken_ms` or before.
    ///
    /// # Errors
    /// A text for the operator.
    fn find_label_at(&self, database: &str, taken_ms: u64) -> Result<Option<KeptLabel>, String>;

    /// All snapshots, newest first.
    ///
    /// # Errors
    /// A text for the operator.
    fn list_snapshots(&self, database: &str) -> Result<Vec<KeptLabel>, String>;

    /// Takes the name off a snapshot; whether there was one.
    ///
    /// # Errors
    /// A text for the operator.
    fn delete_snapshot(&self, database: &str, name: &str) -> Result<bool, String>;
}

/// Whether `name` may be a snapshot's: letters, digits, `_`, `-` and `.`, 64 at most. No time is one.
#[must_use]
pub fn is_snapshot_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=64).contains(&name.len()) && name.bytes().all(is_part)
}

fn is_epoch(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    (1..=128).contains(&text.len()) && text.bytes().all(is_word)
}

/// Whether `text` is `xmin:xmax:xid,xid`, as a `pg_snapshot` is written
/// (<https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT-PARTS>).
fn is_snapshot(text: &str) -> bool {
    let mut parts = text.split(':');
    let (Some(xmin), Some(xmax), Some(open), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (Some(xmin), Some(xmax), Some(open)) = (read_id(xmin), read_id(xmax), read_ids(open))
    else {
        return false;
    };
    xmin <= xmax && open.iter().all(|xid| (xmin..xmax).contains(xid))
}

/// Whether the text of a snapshot sees a transaction: one before `xmax` that was not open.
fn snapshot_sees(snapshot: &str, transaction: u64) -> bool {
    read_snapshot(snapshot)
        .is_some_and(|(xmax, open)| transaction < xmax && !open.contains(&transaction))
}

/// The number above all transactions that a `pg_snapshot` sees, and those below it that were open.
fn read_snapshot(snapshot: &str) -> Option<(u64, Vec<u64>)> {
    let mut parts = snapshot.split(':').skip(1);
    let xmax = parts.next().and_then(read_id)?;
    Some((xmax, parts.next().and_then(read_ids)?))
}

/// Whether one of these ranges, which rise, has the number.
fn are_among(ranges: &[NumberRange], number: u64) -> bool {
    let after = ranges.partition_point(|range| range.last < number);
    ranges.get(after).is_some_and(|range| range.first <= number)
}

fn read_id(text: &str) -> Option<u64> {
    // `parse` takes a sign.
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn read_ids(text: &str) -> Option<Vec<u64>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(read_id).collect()
}

fn read_ranges(text: &str) -> Option<Vec<NumberRange>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let read = |part: &str| match part.split_once('-') {
        None => read_id(part).map(NumberRange::one),
        Some((first, last)) => {
            let (first, last) = (read_id(first)?, read_id(last)?);
            (first < last).then_some(NumberRange { first, last })
        }
    };
    text.split(',').map(read).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_state_has_seen_what_had_committed() {
        for (dialect, text, seen) in [
            (Dialect::Sqlite, "12:-77", [true, true, false]),
            (Dialect::Postgres, "7.1:11:13:11", [true, false, false]),
            (Dialect::Postgres, "7.1:14:14:", [true, true, true]),
            (Dialect::Mysql, "a.9:13:11", [true, false, false]),
            (Dialect::Mysql, "a.9:12:", [true, true, false]),
            (Dialect::Mysql, "a.9:14:11-12", [true, false, true]),
            (Dialect::Mysql, "a.9:14:8-9,11-13", [true, false, false]),
        ] {
            let label = Label::parse(dialect, text).unwrap();
            let found = [10, 11, 13].map(|id| label.state().has_seen(id));
            assert_eq!(found, seen, "{text}");
        }
    }

    #[test]
    fn a_later_state_is_of_more_transactions() {
        for (dialect, one, other, is_after) in [
            (Dialect::Sqlite, "12:-77", "11:5", true),
            (Dialect::Sqlite, "12:-77", "12:-77", false),
            (Dialect::Postgres, "7.1:11:13:11", "7.1:11:12:", true),
            (Dialect::Postgres, "7.1:13:13:", "7.1:11:13:11", true),
            (Dialect::Postgres, "7.1:9:9:", "7.1:11:13:11", false),
            (Dialect::Postgres, "7.2:14:14:", "7.1:11:13:11", false),
            (Dialect::Mysql, "a.9:14:11-12", "a.9:13:", true),
            (Dialect::Mysql, "a.9:14:11", "a.9:14:11-12", true),
            (Dialect::Mysql, "a.9:14:11-12", "a.9:14:8,11", false),
        ] {
            let [one, other] = [one, other].map(|text| Label::parse(dialect, text).unwrap());
            let found = one.state().is_after(other.state());
            assert_eq!(found, is_after, "{one} {other}");
            assert!(!found || !other.state().is_after(one.state()));
        }
    }

    #[test]
    fn labels_are_read_strictly() {
        for (dialect, text, is_label) in [
            (Dialect::Sqlite, "12:-77", true),
            (Dialect::Sqlite, "0:0", true),
            (Dialect::Sqlite, "-1:0", false),
            (Dialect::Sqlite, "12", false),
            (Dialect::Sqlite, "12:1) OR (1", false),
            (Dialect::Postgres, "7398.1:750:753:751,752", true),
            (Dialect::Postgres, "7398.1:750:750:", true),
            (Dialect::Postgres, "7398.1:750:753:753", false),
            (Dialect::Postgres, "7398.1:753:750:", false),
            (Dialect::Postgres, "7398.1:750:753:751,752'", false),
            (Dialect::Postgres, "73'98:750:753:", false),
            (Dialect::Postgres, ":750:753:", false),
            (Dialect::Postgres, "7398.1:+750:753:", false),
            (Dialect::Mysql, "a1b2.9:800:790,795", true),
            (Dialect::Mysql, "a1b2.9:800:", true),
            (Dialect::Mysql, "a1b2.9:800:795,790", false),
            (Dialect::Mysql, "a1b2.9:800:800", false),
            (Dialect::Mysql, "a1b2.9:800", false),
            (Dialect::Mysql, "a1b2.9:800:7,9-12,790", true),
            (Dialect::Mysql, "a1b2.9:800:7-7", false),
            (Dialect::Mysql, "a1b2.9:800:9-7", false),
            (Dialect::Mysql, "a1b2.9:800:7-9,9-12", false),
            (Dialect::Mysql, "a1b2.9:800:790-800", false),
            (Dialect::Mysql, "a1b2.9:800:7-", false),
            (Dialect::Mysql, "a1b2.9:800:7--9", false),
        ] {
            let label = Label::parse(dialect, text);
            assert_eq!(label.is_some(), is_label, "{dialect:?} {text}");
            if let Some(label) = label {
                assert_eq!(label.as_text(), text);
            }
        }
    }
}
