//! What an account needs beyond its changes so that they can be looked at before they are kept.

use std::collections::{BTreeMap, BTreeSet};

use palisade::{
    catalog::{Catalog, ReferenceAction, Relation, RelationKind},
    change::{IMAGES, LEDGER},
    dialect::Dialect,
    ident,
};

use crate::{
    needs::Needs,
    weakness::{Weak, missing_steps},
};

/// What is said of the table of images of rows.
pub(crate) const IMAGES_NOTE: &str = "-- Rows as changes found and left them, so that changes can be undone: leave this table out where no copy of a value may stay.\n";

/// What changes in steps take of an account.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StepNeeds {
    /// Tables of which whole rows are read, by schema and name.
    pub(crate) whole: BTreeSet<(String, String)>,
    /// The schema of the table of receipts.
    pub(crate) schema: String,
    /// What else can be written, which is not known here.
    pub(crate) notes: Vec<String>,
}

impl StepNeeds {
    /// Whether rows of this table are read whole.
    pub(crate) fn reads_whole(&self, key: &(String, String)) -> bool {
        self.whole.contains(key)
    }

    /// The tables that they take, with the privileges for each. That of receipts is the first, and that of images the second.
    pub(crate) fn tables(&self) -> Vec<((String, String), &'static [&'static str])> {
        let own = |name: &str| (self.schema.clone(), name.to_owned());
        let whole = self.whole.iter().cloned();
        [
            (own(LEDGER), &["SELECT", "INSERT"][..]),
            (own(IMAGES), &["SELECT", "INSERT", "DELETE"][..]),
        ]
        .into_iter()
        .chain(whole.map(|key| (key, &["SELECT"][..])))
        .collect()
    }

    /// What an account lacks, that `holds` these privileges on tables; those that are not there have no entry. Nothing, where the
    /// database keeps no receipts.
    ///
    /// `mend` spells the statement that grants privileges on a table.
    pub(crate) fn find_lacking(
        &self,
        user: &str,
        holds: &BTreeMap<(String, String), BTreeSet<String>>,
        mend: impl Fn(&str, &(String, String)) -> String,
    ) -> Vec<Weak> {
        if !holds.contains_key(&(self.schema.clone(), LEDGER.to_owned())) {
            return Vec::new();
        }
        let mut found = Vec::new();
        let none = BTreeSet::new();
        for (key, wanted) in self.tables() {
            let held = match holds.get(&key) {
                Some(held) => held,
                // Whoever wants no copy of a value to stay has no such table.
                None if key.1 == IMAGES => continue,
                None => &none,
            };
            let lacking = wanted.iter().filter(|word| !held.contains(**word));
            let lacking: Vec<&str> = lacking.copied().collect();
            if !lacking.is_empty() {
                let words = lacking.join(", ");
                let shown = ident::qualify([key.0.as_str(), key.1.as_str()]);
                found.push(missing_steps(user, &shown, &words, mend(&words, &key)));
            }
        }
        found
    }

    /// The statement that makes the table of receipts, `ledger` being its name in SQL.
    pub(crate) fn ledger_script(ledger: &str, engine: &str) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {ledger} (change_id varchar(64) PRIMARY KEY, receipt text NOT NULL){engine};\n"
        )
    }

    /// The name of the table of receipts, in a schema.
    pub(crate) fn ledger(&self, identifier: impl Fn(&str) -> String) -> String {
        format!("{}.{}", identifier(&self.schema), identifier(LEDGER))
    }

    /// The statement that makes the table of images of rows, `images` being its name in SQL, and `text` a type that takes them.
    pub(crate) fn images_script(images: &str, text: &str, engine: &str) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {images} (change_id varchar(64) NOT NULL, part integer NOT NULL, kept_ms bigint NOT NULL, image {text} NOT NULL, PRIMARY KEY (change_id, part)){engine};\n"
        )
    }

    /// The name of the table of images of rows, in a schema.
    pub(crate) fn images(&self, identifier: impl Fn(&str) -> String) -> String {
        format!("{}.{}", identifier(&self.schema), identifier(IMAGES))
    }
}

impl Needs {
    /// Adds what changes in steps take: whole rows of all tables that the changes write, by foreign keys too, and receipts.
    pub(crate) fn look_before(&mut self, catalog: &Catalog) {
        let key = |relation: &Relation| (relation.schema.clone(), relation.name.clone());
        let changed = |relation: &&Relation| {
            let changes = self.changes.get(&key(relation));
            changes.is_some_and(|changes| {
                changes.delete || !changes.insert.is_empty() || !changes.update.is_empty()
            })
        };
        let mut reached: Vec<&Relation> = catalog.relations().iter().filter(changed).collect();
        let mut next = 0;
        while let Some(parent) = reached.get(next).copied() {
            next += 1;
            for child in catalog.relations() {
                if is_followed(catalog, child, parent)
                    && reached.iter().all(|known| known.id != child.id)
                {
                    reached.push(child);
                }
            }
        }
        // Where the server tells of triggers only to who may make them, that is needed too.
        let to_grant = match catalog.dialect() {
            Dialect::Sqlite | Dialect::Postgres => "SELECT",
            Dialect::Mysql => "SELECT and TRIGGER",
        };
        let mut notes = Vec::new();
        for relation in &reached {
            let name = relation.database_name();
            if relation.kind != RelationKind::Table {
                notes.push(format!(
                    "{name} is a view: grant SELECT on the table that it is changed through"
                ));
            }
            if !relation.triggers.is_empty() {
                notes.push(format!(
                    "{name} has triggers: grant {to_grant} on each table that they write"
                ));
            }
        }
        self.steps = Some(StepNeeds {
            whole: reached
                .into_iter()
                .filter(|relation| relation.kind == RelationKind::Table)
                .map(key)
                .collect(),
            schema: catalog.default_schema().to_owned(),
            notes,
        });
    }
}

/// Whether a foreign key changes rows of `child` where rows of `parent` change.
fn is_followed(catalog: &Catalog, child: &Relation, parent: &Relation) -> bool {
    let acts = |action: ReferenceAction| action != ReferenceAction::Refuse;
    child.foreign_keys.iter().any(|key| {
        let of = catalog.find(&key.schema, &key.table);
        of.is_some_and(|of| of.id == parent.id) && (acts(key.on_delete) || acts(key.on_update))
    })
}
