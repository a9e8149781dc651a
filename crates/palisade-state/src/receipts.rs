//! Receipts of changes that were kept, in a chain: each place names the digest of the one before it, and a note says which is the last.
//!
//! Places are sealed for their numbers, so that none can be edited or moved without the key. What is cut off at the end is missed by the
//! note of the last. Whoever puts back the whole file of an earlier day is found out by the database's own table of receipts alone.

use std::collections::BTreeSet;

use palisade::change::{ChainFault, ChainedReceipt, ChainedReceiptBody, ChangeRecord};

use crate::{
    database::{DatabaseFault, StateTransaction, StateValue},
    seal::hex,
    store::ApprovalStore,
};

/// The tables, which the third form of the store has. Of `receipt_rows`, those without a number are of changes that are not kept yet.
pub(crate) const TABLES: &str = "
    CREATE TABLE receipts (
        number INTEGER PRIMARY KEY,
        sealed BLOB NOT NULL
    ) STRICT;
    CREATE TABLE receipt_rows (
        change TEXT NOT NULL,
        mark TEXT NOT NULL,
        number INTEGER
    ) STRICT;
    CREATE INDEX receipt_rows_by_mark ON receipt_rows (mark);
    CREATE INDEX receipt_rows_by_change ON receipt_rows (change);
    CREATE TABLE receipt_head (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        sealed BLOB NOT NULL
    ) STRICT;
";

/// Beside what the note of the last receipt is sealed.
const HEAD: &str = "the last receipt";

/// Beside what a receipt is sealed.
fn place(number: u64) -> String {
    format!("receipt {number}")
}

fn to_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The marks of rows as one text.
fn spell_marks(marks: &BTreeSet<String>) -> String {
    let lines = marks.iter().map(|mark| format!("{mark}\n"));
    format!("palisade receipt rows 1\n{}", lines.collect::<String>())
}

fn read_marks(
    transaction: &mut StateTransaction<'_>,
    condition: &str,
    value: StateValue,
) -> Result<BTreeSet<String>, DatabaseFault> {
    let query = format!("SELECT mark FROM receipt_rows WHERE {condition}");
    let rows = transaction.query(&query, &[value])?;
    rows.iter().map(|row| row.text(0)).collect()
}

impl ApprovalStore {
    /// Notes the rows of a change that is about to be kept.
    pub(crate) fn hold(&self, change: &str, marks: &[String]) -> Result<(), String> {
        let held = self.database.write(|transaction| {
            release(transaction, change)?;
            for mark in marks {
                transaction.execute(
                    "INSERT INTO receipt_rows (change, mark) VALUES (?1, ?2)",
                    &[change.into(), mark.into()],
                )?;
            }
            Ok(())
        });
        held.map_err(|fault: DatabaseFault| fault.0)
    }

    /// Chains the receipt of a change that was kept, if it has one.
    pub(crate) fn chain(
        &self,
        transaction: &mut StateTransaction<'_>,
        record: &ChangeRecord,
    ) -> Result<(), DatabaseFault> {
        let Some(receipt) = record.body.receipt.clone() else {
            return Ok(());
        };
        let head = self.read_head(transaction);
        let head = head.map_err(|why| DatabaseFault(why.to_string()))?;
        let (last, previous) = head.unwrap_or_default();
        let number = last.saturating_add(1);
        let marks = read_marks(
            transaction,
            "change = ?1 AND number IS NULL",
            (&record.id).into(),
        )?;
        let body = ChainedReceiptBody {
            version: 1,
            number,
            previous,
            change: record.id.clone(),
            connection: record.body.connection.clone(),
            proposed_by: record.body.principal.clone(),
            reason: record.body.reason.clone(),
            tables: record.body.tables.clone(),
            in_database: record.body.began.is_some_and(|began| began.has_ledger),
            rows: u64::try_from(marks.len()).unwrap_or(u64::MAX),
            marks: hex(&self.keys.digest(&spell_marks(&marks))),
            receipt,
        };
        let body = serde_json::to_string(&body).map_err(|error| error.to_string())?;
        transaction.execute(
            "INSERT INTO receipts (number, sealed) VALUES (?1, ?2)",
            &[
                to_integer(number).into(),
                self.keys.seal(&place(number), &body)?.into(),
            ],
        )?;
        transaction.execute(
            "UPDATE receipt_rows SET number = ?2 WHERE change = ?1 AND number IS NULL",
            &[(&record.id).into(), to_integer(number).into()],
        )?;
        let head = format!("{number} {}", self.digest_link(&body));
        transaction.execute(
            "INSERT INTO receipt_head (one, sealed) VALUES (1, ?1)
             ON CONFLICT (one) DO UPDATE SET sealed = excluded.sealed",
            &[self.keys.seal(HEAD, &head)?.into()],
        )?;
        Ok(())
    }

    fn digest_link(&self, body: &str) -> String {
        hex(&self.keys.digest(&format!("palisade receipt 1\n{body}")))
    }

    /// The number and digest of the last receipt, if there are any.
    fn read_head(
        &self,
        transaction: &mut StateTransaction<'_>,
    ) -> Result<Option<(u64, String)>, VerifyFault> {
        let Some(row) = transaction.find("SELECT sealed FROM receipt_head", &[])? else {
            let count = transaction.count("SELECT count(*) FROM receipts", &[])?;
            return match count {
                0 => Ok(None),
                1.. => Err(ChainFault::NoHead.into()),
            };
        };
        let sealed = row.bytes(0)?;
        let head = self.keys.open(HEAD, &sealed);
        let head = head.as_deref().and_then(|head| head.split_once(' '));
        let head =
            head.and_then(|(number, digest)| Some((number.parse().ok()?, digest.to_owned())));
        head.map(Some).ok_or(VerifyFault::Chain(ChainFault::NoHead))
    }

    /// The receipts that stand in the file, oldest first; none in the place of a receipt that does not open.
    fn read_links(
        &self,
        transaction: &mut StateTransaction<'_>,
    ) -> Result<Vec<(u64, Option<ChainedReceipt>)>, DatabaseFault> {
        let rows = transaction.query("SELECT number, sealed FROM receipts ORDER BY number", &[])?;
        let rows: Vec<(i64, Vec<u8>)> = (rows.iter())
            .map(|row| Ok((row.integer(0)?, row.bytes(1)?)))
            .collect::<Result<_, DatabaseFault>>()?;
        let opened = rows.into_iter().map(|(number, sealed)| {
            let number = u64::try_from(number).unwrap_or_default();
            let link = self.keys.open(&place(number), &sealed).and_then(|body| {
                Some(ChainedReceipt {
                    digest: self.digest_link(&body),
                    body: serde_json::from_str(&body).ok()?,
                })
            });
            (number, link)
        });
        Ok(opened.collect())
    }

    /// All receipts, newest first. What does not open is left out: [`verify_receipts`](Self::verify_receipts) tells of it.
    pub(crate) fn read_receipts(&self) -> Result<Vec<ChainedReceipt>, String> {
        let links = self
            .database
            .read(|transaction| self.read_links(transaction))?;
        Ok(links
            .into_iter()
            .rev()
            .filter_map(|(_, link)| link)
            .collect())
    }

    /// The numbers of receipts about the row with this mark.
    pub(crate) fn find_numbers(&self, mark: &str) -> Result<Vec<u64>, String> {
        let numbers = self.database.read(|transaction| {
            let rows = transaction.query(
                "SELECT DISTINCT number FROM receipt_rows WHERE mark = ?1 AND number IS NOT NULL ORDER BY number",
                &[mark.into()],
            )?;
            let numbers = rows.iter().map(|row| row.integer(0));
            numbers.collect::<Result<Vec<i64>, DatabaseFault>>()
        })?;
        let numbers = numbers.into_iter();
        Ok(numbers
            .filter_map(|number| u64::try_from(number).ok())
            .collect())
    }

    /// Checks that the receipts are those that were chained, in their order and none missing; the receipts, oldest first.
    ///
    /// # Errors
    /// At the first that is not as it was written.
    pub fn verify_receipts(&self) -> Result<Vec<ChainedReceipt>, VerifyFault> {
        self.database.read(|transaction| self.verify(transaction))
    }

    fn verify(
        &self,
        transaction: &mut StateTransaction<'_>,
    ) -> Result<Vec<ChainedReceipt>, VerifyFault> {
        let mut links = Vec::new();
        let (mut expected, mut previous) = (1_u64, String::new());
        for (number, link) in self.read_links(transaction)? {
            if number != expected {
                return Err(ChainFault::Missing(expected).into());
            }
            let link = link.ok_or(ChainFault::Altered(number))?;
            if link.body.previous != previous || link.body.number != number {
                return Err(ChainFault::Altered(number).into());
            }
            let marks = read_marks(transaction, "number = ?1", to_integer(number).into())?;
            if hex(&self.keys.digest(&spell_marks(&marks))) != link.body.marks {
                return Err(ChainFault::OtherRows(number).into());
            }
            previous.clone_from(&link.digest);
            expected = number.saturating_add(1);
            links.push(link);
        }
        let head = self.read_head(transaction)?;
        match head {
            None if links.is_empty() => Ok(links),
            Some((last, digest)) if last.saturating_add(1) == expected && digest == previous => {
                Ok(links)
            }
            Some((last, _)) if last >= expected => Err(ChainFault::Missing(expected).into()),
            Some(_) | None => Err(ChainFault::NoHead.into()),
        }
    }
}

/// Forgets the rows of a change that was not kept.
pub(crate) fn release(
    transaction: &mut StateTransaction<'_>,
    change: &str,
) -> Result<(), DatabaseFault> {
    let released = transaction.execute(
        "DELETE FROM receipt_rows WHERE change = ?1 AND number IS NULL",
        &[change.into()],
    );
    released.map(drop)
}

/// Why receipts are not verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyFault {
    /// They are not what was written.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// The store.
    #[error("the store of receipts does not work: {0}")]
    Store(String),
}

impl From<DatabaseFault> for VerifyFault {
    fn from(fault: DatabaseFault) -> Self {
        Self::Store(fault.0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::{path::Path, time::Duration};

    use rusqlite::Connection;

    use palisade::change::{ChangeBody, ChangeEvent, ChangeStore as _, Receipt, Step};

    use super::*;
    use crate::{ApprovalOptions, StateSecret};

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn store(path: &Path) -> ApprovalStore {
        ApprovalStore::open(
            path,
            &StateSecret::new(*b"secret"),
            ApprovalOptions::default(),
        )
        .unwrap()
    }

    /// A receipt that says little.
    pub(crate) fn receipt() -> Receipt {
        Receipt {
            id: "r".to_owned(),
            kept_ms: 1,
            proposed_by: "p".to_owned(),
            approved_by: None,
            fingerprints: Vec::new(),
            policies: Vec::new(),
            permitted_by: Vec::new(),
            writes: Vec::new(),
            statements: String::new(),
            policy_version: String::new(),
            catalog_version: String::new(),
            difference: String::new(),
            keys: String::new(),
            images: String::new(),
            tables: Vec::new(),
        }
    }

    /// A change that is kept, about rows with these marks.
    fn keep(store: &ApprovalStore, marks: &[&str]) -> String {
        let receipt = receipt();
        let body = ChangeBody {
            version: 1,
            principal: "p".to_owned(),
            transport: "stdio".to_owned(),
            client: None,
            connection: None,
            statements: Vec::new(),
            compensates: None,
            reverts: None,
            reason: Some("geheim".to_owned()),
            tables: vec!["main.t".to_owned()],
            writes: Vec::new(),
            sets_off: false,
            policy_version: String::new(),
            level: None,
            policies: Vec::new(),
            max_affected_rows: 1,
            preview: None,
            began: None,
            receipt: None,
        };
        let id = store.propose(&body, NOW).unwrap().unwrap().id;
        let kept = ChangeBody {
            receipt: Some(receipt),
            ..body
        };
        let step = |event, body| Step {
            id: &id,
            event,
            preview: None,
            body,
            by: None,
            now: NOW,
        };
        store.step(step(ChangeEvent::Validate, None)).unwrap();
        store
            .step(step(ChangeEvent::BeginUnapproved, None))
            .unwrap();
        let marks: Vec<String> = marks.iter().map(|mark| (*mark).to_owned()).collect();
        store.hold_rows(&id, &marks).unwrap();
        assert!(
            marks
                .iter()
                .all(|mark| !store.trace_row(mark).unwrap().contains(&99))
        );
        store.step(step(ChangeEvent::Keep, Some(&kept))).unwrap();
        id
    }

    #[test]
    fn receipts_are_chained_and_found_by_rows() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir.path().join("state.db"));
        assert_eq!(store.verify_receipts().unwrap(), []);
        for marks in [&["a", "b"][..], &["b"], &[]] {
            keep(&store, marks);
        }
        let links = store.verify_receipts().unwrap();
        let [one, two, three] = links.as_slice() else {
            panic!("{links:?}");
        };
        assert_eq!(one.body.previous, "");
        assert_eq!(two.body.previous, one.digest);
        assert_eq!(three.body.previous, two.digest);
        assert_eq!(store.trace_row("b").unwrap(), [1, 2]);
        assert_eq!(store.trace_row("c").unwrap(), [] as [u64; 0]);
        let bytes = std::fs::read(dir.path().join("state.db")).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("geheim"));
    }

    /// Each statement is what somebody does to the file without the key.
    #[test]
    fn what_is_done_to_receipts_is_found() {
        let third = ChainFault::Missing(3);
        for (sql, fault) in [
            ("UPDATE receipts SET sealed = zeroblob(200) WHERE number = 2", ChainFault::Altered(2)),
            ("DELETE FROM receipts WHERE number = 2", ChainFault::Missing(2)),
            ("DELETE FROM receipts WHERE number = 3", third),
            (
                "DELETE FROM receipts WHERE number = 1; UPDATE receipts SET number = number - 1",
                ChainFault::Altered(1),
            ),
            (
                "UPDATE receipts SET number = 9 WHERE number = 1; UPDATE receipts SET number = 1 WHERE number = 2;
                 UPDATE receipts SET number = 2 WHERE number = 9",
                ChainFault::Altered(1),
            ),
            (
                "INSERT INTO receipts SELECT 4, sealed FROM receipts WHERE number = 3",
                ChainFault::Altered(4),
            ),
            ("DELETE FROM receipt_rows WHERE number = 2", ChainFault::OtherRows(2)),
            ("UPDATE receipt_rows SET number = 3 WHERE number = 1", ChainFault::OtherRows(1)),
            ("DELETE FROM receipt_head", ChainFault::NoHead),
            ("DELETE FROM receipts", ChainFault::Missing(1)),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("state.db");
            let store = store(&path);
            for marks in [["a"], ["b"], ["c"]] {
                keep(&store, &marks);
            }
            assert_eq!(store.verify_receipts().unwrap().len(), 3);
            Connection::open(&path).unwrap().execute_batch(sql).unwrap();
            assert_eq!(store.verify_receipts(), Err(fault.into()), "{sql}");
        }
    }

    /// A file was put back, written on, and given the last number's seal of before: as many receipts, and other ones.
    #[test]
    fn a_head_of_other_receipts_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("state.db"), dir.path().join("copy.db"));
        let first = store(&path);
        keep(&first, &["a"]);
        let file = Connection::open(&path).unwrap();
        file.execute("VACUUM INTO ?1", [copy.to_str()]).unwrap();
        keep(&first, &["b"]);
        let sql = "SELECT sealed FROM receipt_head";
        let head: Vec<u8> = file.query_row(sql, [], |row| row.get(0)).unwrap();
        let second = store(&copy);
        keep(&second, &["c"]);
        assert_eq!(second.verify_receipts().unwrap().len(), 2);
        let file = Connection::open(&copy).unwrap();
        file.execute("UPDATE receipt_head SET sealed = ?1", [head])
            .unwrap();
        let told = second.verify_receipts();
        assert_eq!(told, Err(ChainFault::NoHead.into()));
    }

    /// The rows of a change that was not kept are forgotten.
    #[test]
    fn what_was_not_kept_leaves_nothing() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        store.hold_rows("x", &["a".to_owned()]).unwrap();
        store.hold_rows("x", &["b".to_owned()]).unwrap();
        assert_eq!(store.trace_row("b").unwrap(), [] as [u64; 0]);
        let marks = store.database.write(|transaction| {
            let marks = read_marks(transaction, "change = ?1", "x".into())?;
            release(transaction, "x")?;
            Ok::<_, DatabaseFault>((marks, read_marks(transaction, "change = ?1", "x".into())?))
        });
        let held = BTreeSet::from(["b".to_owned()]);
        assert_eq!(marks, Ok((held, BTreeSet::new())));
    }
}
