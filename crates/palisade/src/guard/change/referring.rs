//! Which rows keep a change from being undone: those that refer to what would be removed.

use std::collections::BTreeMap;

use super::{
    Decision,
    compensation::{MAX_NAME, MAX_NAMED},
};
use crate::{
    change::{Inverse, Referring, write_key},
    code::Code,
    firewall::Decided,
    guard::{Backend, Guard, live::Live, permit::decide, question::Question, ticket::Ticket},
    limits::Limits,
    rejection::Rejection,
    rewrite::Effect,
    session::Session,
    syntax::Wording,
    value::{KeptRows, Params, Value},
};

/// The most values that one query looks for, and the most queries.
const VALUES_AT_ONCE: usize = 500;
const MAX_QUERIES: usize = 20;

impl Guard {
    /// A conflict, with the keys of rows that refer to what would be removed. They are told to whoever sees all rows of their table, and all
    /// columns plain.
    pub(super) async fn name_referring(
        &self,
        rejection: Rejection,
        decisions: &[Decision],
        (session, limits): (&Session, &Limits),
    ) -> Rejection {
        let first = decisions.first();
        let inverse = first.and_then(|first| Some((first, first.inverse.as_ref()?)));
        let Some((first, inverse)) = inverse.filter(|_| rejection.code() == Code::ChangeConflict)
        else {
            return rejection;
        };
        let live = &first.run.live;
        let mut named: Vec<String> = Vec::new();
        let mut queries = 0;
        for referring in inverse.find_referring(live.firewall.catalog()) {
            let name = (referring.schema, referring.table);
            if (self.find_whole_tables([name].into_iter(), session)).is_empty() {
                continue;
            }
            for values in referring.values.chunks(VALUES_AT_ONCE) {
                queries += 1;
                if named.len() >= MAX_NAMED || queries > MAX_QUERIES {
                    break;
                }
                let asked = self.list_referring(live, (&referring, values), (session, limits));
                let found = asked.await.unwrap_or_default();
                named.extend(self.spell_rows(live, inverse, &referring, found));
            }
        }
        named.sort();
        named.dedup();
        named.truncate(MAX_NAMED);
        if named.is_empty() {
            return rejection;
        }
        let message = format!(
            "{}; these rows refer to what would be removed: {}",
            rejection.message(),
            named.join("; ")
        );
        Rejection::new(rejection.code(), message)
    }

    /// The keys of rows that refer to one of these values, by a query of `session`'s; nothing if that is refused.
    async fn list_referring(
        &self,
        live: &Live<dyn Backend>,
        (referring, values): (&Referring<'_>, &[Vec<Value>]),
        (session, limits): (&Session, &Limits),
    ) -> Option<Vec<Vec<Value>>> {
        let catalog = live.firewall.catalog();
        let relation = catalog.find(referring.schema, referring.table)?;
        let dialect = catalog.dialect();
        let name = |name: &str| dialect.identifier(name);
        let keys: Vec<String> = (relation.primary_key.iter())
            .filter_map(|index| relation.column(*index))
            .map(|column| name(&column.name))
            .collect();
        if keys.is_empty() {
            return None;
        }
        let mut number = 0;
        let mut parameter = || {
            number += 1;
            dialect.placeholder(number)
        };
        let condition = match referring.columns {
            [only] => {
                let list: Vec<String> = values.iter().map(|_| parameter()).collect();
                format!("{} IN ({})", name(only), list.join(", "))
            }
            several => {
                let row = |_: &Vec<Value>| {
                    let parts = several.iter();
                    let parts = parts.map(|column| format!("{} = {}", name(column), parameter()));
                    format!("({})", parts.collect::<Vec<_>>().join(" AND "))
                };
                values.iter().map(row).collect::<Vec<_>>().join(" OR ")
            }
        };
        let keys = keys.join(", ");
        let sql = format!(
            "SELECT {keys} FROM {}.{} WHERE {condition} ORDER BY {keys}",
            name(referring.schema),
            name(referring.table),
        );
        let params = Params::Positional(values.iter().flatten().cloned().collect());
        let session = self.now(&live.firewall, session);
        let question = Question {
            wording: Wording::from(sql.as_str()),
            params: &params,
            session: &session,
            limits,
        };
        let decided = decide(live, question).ok()?;
        let statement = match decided {
            Decided::Allow(statement) if statement.effect() == Effect::Read => statement,
            // What waits for a person is not told meanwhile.
            Decided::Allow(_) | Decided::Pending(_, _) | Decided::Reject(_) => return None,
        };
        let statement = statement.into();
        let mut rows = KeptRows::default();
        let executed = live.backend.execute(Ticket::issue(&statement), &mut rows);
        executed.await.ok()?;
        Some(rows.0)
    }

    /// These rows for a person, without those that go or refer elsewhere with the same change.
    fn spell_rows(
        &self,
        live: &Live<dyn Backend>,
        inverse: &Inverse,
        referring: &Referring<'_>,
        rows: Vec<Vec<Value>>,
    ) -> Vec<String> {
        let catalog = live.firewall.catalog();
        let Some(relation) = catalog.find(referring.schema, referring.table) else {
            return Vec::new();
        };
        let names: Vec<String> = (relation.primary_key.iter())
            .filter_map(|index| relation.column(*index))
            .map(|column| column.name.to_string())
            .collect();
        let keys = rows.into_iter().map(|row| {
            let key = names.iter().cloned().zip(row);
            key.collect::<BTreeMap<String, Value>>()
        });
        let told = keys
            .filter(|key| !inverse.releases(relation, key, referring.columns))
            .map(|key| format!("{}.{} {}", relation.schema, relation.name, write_key(&key)))
            .filter(|text| text.len() <= MAX_NAME)
            .filter(|text| self.scanner.detect(text.as_bytes()).is_empty());
        told.take(MAX_NAMED).collect()
    }
}
