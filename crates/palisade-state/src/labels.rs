//! Moments as of which tables can be read: one table of the store.

use palisade::past::{KeptLabel, LabelKeeping, LabelStore};

use crate::{
    database::{DatabaseFault, StateRow, StateValue},
    store::ApprovalStore,
};

/// The table, which the fourth form of the store has.
pub(crate) const TABLE: &str = "
    CREATE TABLE labels (
        id INTEGER PRIMARY KEY,
        database TEXT NOT NULL,
        name TEXT,
        label TEXT NOT NULL,
        taken_ms INTEGER NOT NULL,
        taken_by TEXT
    ) STRICT;
    CREATE UNIQUE INDEX labels_by_name ON labels (database, name) WHERE name IS NOT NULL;
    CREATE INDEX labels_by_time ON labels (database, taken_ms);
";

/// The most snapshots of one principal.
const MAX_SNAPSHOTS: u64 = 100;

/// How long a label without a name is kept, in milliseconds: ninety days.
const KEPT_MS: i64 = 90 * 24 * 60 * 60 * 1000;

const COLUMNS: &str = "name, label, taken_ms, taken_by";

fn read_label(row: &StateRow) -> Result<KeptLabel, DatabaseFault> {
    Ok(KeptLabel {
        name: row.find_text(0)?,
        label: row.text(1)?,
        taken_ms: u64::try_from(row.integer(2)?).unwrap_or_default(),
        taken_by: row.find_text(3)?,
    })
}

fn to_signed(milliseconds: u64) -> i64 {
    i64::try_from(milliseconds).unwrap_or(i64::MAX)
}

impl ApprovalStore {
    /// The first label that a query gives.
    fn find_label(&self, query: &str, values: &[StateValue]) -> Result<Option<KeptLabel>, String> {
        let found = self.database.read(|transaction| {
            let row = transaction.find(query, values)?;
            row.as_ref().map(read_label).transpose()
        });
        found.map_err(|fault: DatabaseFault| fault.0)
    }
}

impl LabelStore for ApprovalStore {
    fn read_version(&self) -> Result<u64, String> {
        Ok(self.database.read_writes()?)
    }

    fn keep_label(&self, database: &str, kept: &KeptLabel) -> Result<LabelKeeping, String> {
        let taken_ms = to_signed(kept.taken_ms);
        let taken_by: StateValue = kept.taken_by.as_ref().into();
        let keeping = self.database.write(|transaction| {
            if let Some(name) = &kept.name {
                let same = transaction.count(
                    "SELECT count(*) FROM labels WHERE database = ?1 AND name = ?2",
                    &[database.into(), name.into()],
                )?;
                let own = transaction.count(
                    "SELECT count(*) FROM labels WHERE database = ?1 AND name IS NOT NULL AND taken_by = ?2",
                    &[database.into(), taken_by.clone()],
                )?;
                match (same > 0, own >= MAX_SNAPSHOTS) {
                    (true, _) => return Ok(LabelKeeping::NameTaken),
                    (false, true) => return Ok(LabelKeeping::TooMany),
                    (false, false) => {}
                }
            } else {
                transaction.execute(
                    "DELETE FROM labels WHERE database = ?1 AND name IS NULL AND taken_ms < ?2",
                    &[database.into(), taken_ms.saturating_sub(KEPT_MS).into()],
                )?;
            }
            transaction.execute(
                "INSERT INTO labels (database, name, label, taken_ms, taken_by) VALUES (?1, ?2, ?3, ?4, ?5)",
                &[
                    database.into(),
                    kept.name.as_ref().into(),
                    (&kept.label).into(),
                    taken_ms.into(),
                    taken_by,
                ],
            )?;
            Ok(LabelKeeping::Kept)
        });
        keeping.map_err(|fault: DatabaseFault| fault.0)
    }

    fn find_snapshot(&self, database: &str, name: &str) -> Result<Option<KeptLabel>, String> {
        let query = format!("SELECT {COLUMNS} FROM labels WHERE database = ?1 AND name = ?2");
        self.find_label(&query, &[database.into(), name.into()])
    }

    fn find_label_at(&self, database: &str, taken_ms: u64) -> Result<Option<KeptLabel>, String> {
        let query = format!(
            "SELECT {COLUMNS} FROM labels WHERE database = ?1 AND taken_ms <= ?2
             ORDER BY taken_ms DESC, id DESC LIMIT 1"
        );
        self.find_label(&query, &[database.into(), to_signed(taken_ms).into()])
    }

    fn list_snapshots(&self, database: &str) -> Result<Vec<KeptLabel>, String> {
        let query = format!(
            "SELECT {COLUMNS} FROM labels WHERE database = ?1 AND name IS NOT NULL
             ORDER BY taken_ms DESC, id DESC"
        );
        let listed = self.database.read(|transaction| {
            let rows = transaction.query(&query, &[database.into()])?;
            rows.iter().map(read_label).collect()
        });
        listed.map_err(|fault: DatabaseFault| fault.0)
    }

    fn delete_snapshot(&self, database: &str, name: &str) -> Result<bool, String> {
        let changed = self.database.write(|transaction| {
            transaction.execute(
                "UPDATE labels SET name = NULL, taken_by = NULL WHERE database = ?1 AND name = ?2",
                &[database.into(), name.into()],
            )
        });
        let changed = changed.map_err(|fault: DatabaseFault| fault.0);
        changed.map(|count| count > 0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{seal::StateSecret, store::ApprovalOptions};

    fn label(name: Option<&str>, label: &str, taken_ms: u64) -> KeptLabel {
        KeptLabel {
            name: name.map(str::to_owned),
            label: label.to_owned(),
            taken_ms,
            taken_by: name.map(|_| "Agent::\"a\"".to_owned()),
        }
    }

    #[test]
    fn a_time_is_the_last_label_not_after_it() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        for kept in [
            label(None, "1:1", 1_000),
            label(Some("monday"), "2:2", 2_000),
            label(None, "3:3", 2_000),
        ] {
            assert_eq!(store.keep_label("desk", &kept), Ok(LabelKeeping::Kept));
        }
        let at = |ms| {
            let found = store.find_label_at("desk", ms).unwrap();
            found.map(|found| found.label)
        };
        assert_eq!(at(999), None);
        assert_eq!(at(1_000).as_deref(), Some("1:1"));
        assert_eq!(at(1_999).as_deref(), Some("1:1"));
        assert_eq!(at(9_000).as_deref(), Some("3:3"));
        assert_eq!(store.find_label_at("other", 9_000), Ok(None));
    }

    #[test]
    fn whatever_is_written_makes_another_version() {
        let folder = std::env::temp_dir().join(format!("palisade-version-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let open = || {
            let secret = StateSecret::new(*b"secret");
            ApprovalStore::open(
                &folder.join("state.db"),
                &secret,
                ApprovalOptions::default(),
            )
        };
        let (store, other) = (open().unwrap(), open().unwrap());
        let mut seen = vec![store.read_version().unwrap()];
        for (number, writer) in (0..).zip([&store, &other, &other, &store]) {
            writer
                .keep_label("desk", &label(None, "1:1", number))
                .unwrap();
            let now = store.read_version().unwrap();
            assert!(!seen.contains(&now), "{number}");
            assert_eq!(store.read_version().unwrap(), now);
            seen.push(now);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn names_are_of_one_snapshot_of_a_database() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        let monday = label(Some("monday"), "1:1", 1_000);
        assert_eq!(store.keep_label("desk", &monday), Ok(LabelKeeping::Kept));
        assert_eq!(
            store.keep_label("desk", &monday),
            Ok(LabelKeeping::NameTaken)
        );
        assert_eq!(store.keep_label("shop", &monday), Ok(LabelKeeping::Kept));
        assert_eq!(store.delete_snapshot("desk", "monday"), Ok(true));
        assert_eq!(store.delete_snapshot("desk", "monday"), Ok(false));
        assert_eq!(store.list_snapshots("desk"), Ok(Vec::new()));
        // The moment stays one.
        assert!(store.find_label_at("desk", 1_000).unwrap().is_some());
        for number in 0..MAX_SNAPSHOTS {
            let kept = label(Some(&format!("s{number}")), "1:1", number);
            assert_eq!(store.keep_label("desk", &kept), Ok(LabelKeeping::Kept));
        }
        assert_eq!(store.keep_label("desk", &monday), Ok(LabelKeeping::TooMany));
    }

    #[test]
    fn labels_without_names_are_forgotten_after_ninety_days() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        let late = u64::try_from(KEPT_MS).unwrap() + 2_000;
        for kept in [
            label(None, "1:1", 1_000),
            label(Some("monday"), "2:2", 1_500),
            label(None, "3:3", late),
        ] {
            store.keep_label("desk", &kept).unwrap();
        }
        assert_eq!(store.find_label_at("desk", 1_200), Ok(None));
        assert!(store.find_snapshot("desk", "monday").unwrap().is_some());
    }
}
