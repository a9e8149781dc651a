//! Which transactions have committed, from the status of InnoDB.
//!
//! The text of `SHOW ENGINE INNODB STATUS` lists all transactions at one moment, but it also quotes statements as they were sent, with
//! their line breaks. Whatever is not as expected gives nothing, and the server is asked again.

/// Ids from here on are none: an id has six bytes, and InnoDB shows addresses in their place.
const NO_ID: u64 = 1 << 48;

/// What stands before the list, up to the counter.
const HEAD: &str = "\n------------\nTRANSACTIONS\n------------\nTrx id counter ";

/// What stands after it.
const FOOT: &str = "\n--------\nFILE I/O\n--------\n";

/// The transactions that a snapshot sees: those below the next id that are not open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    /// The id that the next transaction gets.
    pub(crate) next: u64,
    /// The ids below it of those that are open, rising.
    pub(crate) active: Vec<u64>,
}

/// A transaction in the list.
struct Listed {
    id: Option<u64>,
    /// The connection that runs it; a prepared one may have none.
    connection: Option<u64>,
    /// The limits of its read view: ids from the first on are invisible, ids below the second are visible.
    view: Option<(u64, u64)>,
    has_locks: bool,
}

/// Reads a label from two statuses: of before and of after the session `connection` took its snapshot.
///
/// The counter must stand still: each transaction takes a number when it first writes, and another one when it commits. The open ids must
/// be the same, and the read view that the server shows for the session must be that of both. Where this gives none, another try may.
pub(crate) fn read_label(before: &str, after: &str, connection: u64) -> Option<Committed> {
    let committed = read_status(before)?;
    let (next, listed) = read_list(after)?;
    if committed.next != next || committed.active != list_active(next, &listed)? {
        return None;
    }
    let mut own = (listed.iter()).filter(|one| one.connection == Some(connection));
    let (first, second) = (own.next()?, own.next());
    let lowest = committed.active.first().copied().unwrap_or(next);
    // Where all ids from the lowest one on are open, the server writes a view that ends there.
    let open = u64::try_from(committed.active.len()).ok()?;
    let ends = [Some(next), (next - lowest == open).then_some(lowest)];
    let is_view = |view: (u64, u64)| view.1 == lowest && ends.contains(&Some(view.0));
    let is_own = second.is_none() && first.id.is_none() && first.view.is_some_and(is_view);
    is_own.then_some(committed)
}

/// Reads the counter and the open ids: transactions that are prepared are open, with a connection or without.
pub(crate) fn read_status(status: &str) -> Option<Committed> {
    let (next, listed) = read_list(status)?;
    let active = list_active(next, &listed)?;
    Some(Committed { next, active })
}

/// Ids from the counter on began after it was read.
fn list_active(next: u64, listed: &[Listed]) -> Option<Vec<u64>> {
    let ids = listed.iter().filter_map(|one| one.id);
    let mut ids: Vec<u64> = ids.filter(|id| *id < next).collect();
    ids.sort_unstable();
    ids.is_sorted_by(|a, b| a < b).then_some(ids)
}

/// Reads the counter and the entries of the list. It may be cut: the server limits the text to a megabyte.
fn read_list(status: &str) -> Option<(u64, Vec<Listed>)> {
    let section = find_once(status, HEAD)?.1;
    if status.matches("\nTrx id counter ").count() != 1 {
        return None;
    }
    let (list, rest) = find_once(section, FOOT)?;
    if !rest.contains("\nEND OF INNODB MONITOR OUTPUT\n") {
        return None;
    }
    let mut lines = list.split('\n');
    let next = read_number(lines.next()?).filter(|next| *next < NO_ID)?;
    lines.next()?.strip_prefix("Purge done for trx's n:o < ")?;
    lines.next()?.strip_prefix("History list length ")?;
    if lines.next()? != "LIST OF TRANSACTIONS FOR EACH SESSION:" {
        return None;
    }
    let mut listed: Vec<Listed> = Vec::new();
    for line in lines {
        if line.contains("... truncated...") {
            return None;
        }
        if let Some(text) = line.strip_prefix("---TRANSACTION") {
            if listed.last().is_some_and(|last| !last.has_locks) {
                return None;
            }
            listed.push(Listed {
                id: read_entry(text)?,
                connection: None,
                view: None,
                has_locks: false,
            });
            continue;
        }
        read_detail(line, listed.last_mut()?)?;
    }
    let is_whole = listed.last().is_none_or(|last| last.has_locks);
    is_whole.then_some((next, listed))
}

/// What is before and after `mark`, if it is there once.
fn find_once<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    let (before, after) = text.split_once(mark)?;
    (!after.contains(mark)).then_some((before, after))
}

/// Reads what follows `---TRANSACTION`: the id, or that there is none.
fn read_entry(text: &str) -> Option<Option<u64>> {
    let (name, state) = text.strip_prefix(' ')?.split_once(", ")?;
    let address = name
        .strip_prefix("(0x")
        .and_then(|name| name.strip_suffix(')'));
    let id = match address {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()) => None,
        Some(_) => return None,
        None => Some(read_number(name)?).filter(|id| *id < NO_ID),
    };
    let is_active = ["ACTIVE (PREPARED) ", "ACTIVE "]
        .iter()
        .find_map(|start| state.strip_prefix(start))
        .and_then(|since| since.split_once(" sec"))
        .is_some_and(|(time, rest)| {
            read_number(time).is_some() && (rest.is_empty() || rest.starts_with(' '))
        });
    let is_quiet = ["not started", "COMMITTED IN MEMORY"]
        .iter()
        .any(|start| state.starts_with(start));
    (is_active || is_quiet && id.is_none()).then_some(id)
}

/// Reads a line below the head of an entry. Those of statements and locks say nothing.
fn read_detail(line: &str, last: &mut Listed) -> Option<()> {
    const VIEW: &str = "Trx read view will not see trx with id >= ";
    if !last.has_locks {
        last.has_locks = line.contains(" lock struct(s), heap size ");
        return Some(());
    }
    if let Some(text) = line.strip_prefix("MariaDB thread id ") {
        if last.connection.is_none() {
            last.connection = Some(read_number(text.split_once(',')?.0)?);
        }
    } else if let Some(text) = line.strip_prefix(VIEW) {
        let (invisible, visible) = text.split_once(", sees < ")?;
        // A statement may imitate the line: the true one comes after it.
        last.view = Some((read_number(invisible)?, read_number(visible)?));
    }
    Some(())
}

/// Reads a number as it is printed: without a sign, spaces or zeros before it.
fn read_number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
}
