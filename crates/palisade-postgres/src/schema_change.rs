//! The schema as it was when the catalog was read, by the marks that the server puts on its rows.
//!
//! A statement is decided by a catalog in memory, and by the time that it runs somebody may have replaced a view
//! or added a column. So each statement looks again, in its own transaction and after its cursor has
//! locked the relations it reads: no later change gets in before it ends.
//!
//! Looking at the marks takes the server longer than most small statements do. So a backend remembers at which state
//! of the database it found what. Two snapshots that the server calls by the same text see the same transactions,
//! hence the same rows of its catalog. Where no transaction has written anything since, not even to a table, only the
//! state is asked.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use palisade::{guard::BackendError, ident};
use tokio_postgres::{Client, Row, Statement, error::SqlState, types::Type};

use crate::{
    fault,
    history::script::SCHEMA,
    introspect::{Columns, IntrospectError, USER_SCHEMA, from_withheld},
};

/// What the catalog was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schema {
    /// By uid.
    relations: HashMap<String, Marked>,
    /// Uids of relations by oid, and the names of their columns by number.
    origins: HashMap<u32, Origin>,
    /// Routines of the database, by uid.
    routines: HashMap<String, Marked>,
    /// Of operators, casts and conditions of domains.
    rest: Marked,
    /// Of all of it and the rest of the catalog.
    fingerprint: String,
    seen: Seen,
}

/// What was found to be unchanged, and when. It is no part of the schema: of clones each has its own.
#[derive(Debug, Default)]
struct Seen(Mutex<Sight>);

#[derive(Debug, Default)]
struct Sight {
    /// The last state of the database at which marks were looked at.
    moment: Option<Moment>,
    /// What was unchanged then, beside what every statement depends on.
    objects: HashSet<(Sort, String)>,
    /// Whether no transaction had written between the last two looks at marks. Where transactions write all the time,
    /// to ask for the state first would be in vain.
    is_quiet: bool,
}

impl Clone for Seen {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Seen {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Seen {}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Sight> {
        // Whoever panicked was comparing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is worth asking whether `objects` are as they were seen.
    fn may_know(&self, objects: &[(Sort, &Marked)]) -> bool {
        let sight = self.lock();
        sight.is_quiet && sight.has(objects)
    }

    /// The last state that was looked at, if writing has paused and `objects` were unchanged then.
    fn known_moment(&self, objects: &[(Sort, &Marked)]) -> Option<Moment> {
        let sight = self.lock();
        let is_known = sight.is_quiet && sight.has(objects);
        sight.moment.clone().filter(|_| is_known)
    }

    /// Notes that the state is another one by now.
    fn forget(&self) {
        self.lock().is_quiet = false;
    }

    /// Whether `objects` were unchanged at `moment`.
    fn knows(&self, moment: &Moment, objects: &[(Sort, &Marked)]) -> bool {
        let mut sight = self.lock();
        sight.is_quiet = sight.moment.as_ref() == Some(moment);
        sight.is_quiet && sight.has(objects)
    }

    /// Remembers that `objects` were unchanged at `moment`.
    fn learn(&self, moment: Option<Moment>, objects: &[(Sort, &Marked)]) {
        let mut sight = self.lock();
        sight.is_quiet = moment.is_some() && sight.moment == moment;
        if !sight.is_quiet {
            sight.objects.clear();
            sight.moment = moment;
        }
        let objects = objects.iter().map(|(sort, marked)| (*sort, marked.uid()));
        sight.objects.extend(objects);
    }
}

impl Sight {
    fn has(&self, objects: &[(Sort, &Marked)]) -> bool {
        objects
            .iter()
            .all(|(sort, marked)| self.objects.contains(&(*sort, marked.uid())))
    }
}

/// A state of the database, by which transactions it sees, and of which server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Moment(String);

impl Moment {
    /// The state that the server calls `snapshot`: before which transaction all have ended, from which on none had begun,
    /// and which of those between were running. A `server` that follows another leaves the last out: there is such a state
    /// only where none were.
    fn parse(snapshot: &str, server: &str) -> Option<Self> {
        let mut parts = snapshot.split(':');
        let (ended, begun) = (parts.next()?, parts.next()?);
        let is_leading = server.starts_with("f ");
        (is_leading || ended == begun).then(|| Self(format!("{snapshot} {server}")))
    }
}

/// What tells a server from others, and from itself after it was restored: whether it follows another, and since when it runs.
const SERVER: &str = "pg_catalog.concat_ws(' ', pg_catalog.pg_is_in_recovery(), pg_catalog.pg_postmaster_start_time())";

/// The query for the state of the database, and for its server: others can call other states alike.
fn moment() -> String {
    format!("SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text, {SERVER}")
}

/// The queries for marks, prepared in a session: planning them takes longer than running them.
#[derive(Clone)]
pub(crate) struct Look {
    /// Gives marks, and the state of the database.
    marks: Statement,
    /// Fails unless all marks are the given ones; else it gives the state.
    gate: Statement,
    /// Fails unless the state is the given one.
    state_gate: Statement,
}

impl Look {
    /// Prepares them, under the search path of statements.
    pub(crate) async fn prepare(client: &Client) -> Result<Self, BackendError> {
        let marks = marks(
            "c.oid = ANY ($1)",
            &format!("p.proname = ANY ($2) AND {USER_SCHEMA}"),
        );
        let moment = moment();
        // With the state of the database in the place of an object's schema and name.
        let all = format!(
            "{marks} UNION ALL SELECT 'm', 0::pg_catalog.oid, m.*, '' FROM ({moment}) AS m"
        );
        // A division by zero is an error in every version, and the server goes no further in the transaction.
        let gate = format!(
            "SELECT m.snapshot, m.server, 1 / (NOT EXISTS ( \
                 SELECT e.sort COLLATE pg_catalog.\"C\", e.oid, e.schema COLLATE pg_catalog.\"C\", \
                        e.name COLLATE pg_catalog.\"C\", e.mark COLLATE pg_catalog.\"C\" \
                 FROM ROWS FROM (pg_catalog.unnest($3), pg_catalog.unnest($4), pg_catalog.unnest($5), \
                                 pg_catalog.unnest($6), pg_catalog.unnest($7)) AS e (sort, oid, schema, name, mark) \
                 EXCEPT ({marks})))::pg_catalog.int4 \
             FROM ({moment}) AS m (snapshot, server)"
        );
        let state_gate = format!(
            "SELECT 1 / (pg_catalog.concat_ws(' ', m.snapshot, m.server) = $1)::pg_catalog.int4 \
             FROM ({moment}) AS m (snapshot, server)"
        );
        let (oids, texts) = (Type::OID_ARRAY, Type::TEXT_ARRAY);
        let sought = [oids.clone(), texts.clone()];
        let given = [texts.clone(), oids, texts.clone(), texts.clone(), texts];
        let compared = [sought.as_slice(), &given].concat();
        let (marks, gate, state_gate) = tokio::join!(
            biased;
            client.prepare_typed(&all, &sought),
            client.prepare_typed(&gate, &compared),
            client.prepare_typed(&state_gate, &[Type::TEXT]),
        );
        let ready = |statement: Result<Statement, _>| statement.map_err(|e| fault::engine(&e));
        Ok(Self {
            marks: ready(marks)?,
            gate: ready(gate)?,
            state_gate: ready(state_gate)?,
        })
    }
}

/// What a gate may go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The last look, if the database is in the same state.
    LastLook,
    /// All marks are looked at.
    Nothing,
}

/// What a gate found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// The schema is as it was read, and the transaction goes on.
    Open,
    /// Something was written since the last look. The transaction has failed; all marks have to be looked at.
    Stale,
}

/// An object and its mark, which changes with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Marked {
    /// 0 for all routines of one name.
    oid: u32,
    schema: String,
    name: String,
    mark: String,
}

impl Marked {
    fn uid(&self) -> String {
        ident::qualify([self.schema.as_str(), self.name.as_str()])
    }
}

/// A relation as results name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) uid: String,
    pub(crate) name: String,
    /// By `attnum`.
    pub(crate) columns: HashMap<i16, String>,
    /// Whether it holds the history of a table.
    pub(crate) is_companion: bool,
}

/// The companions as results name them.
async fn read_origins(client: &Client) -> Result<HashMap<u32, Origin>, tokio_postgres::Error> {
    let sql = format!(
        "SELECT c.oid, c.relname::pg_catalog.text, a.attnum, a.attname::pg_catalog.text \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
         WHERE n.nspname = '{SCHEMA}' AND c.relkind = 'r'"
    );
    let mut origins = HashMap::new();
    for row in client.query_typed(&sql, &[]).await? {
        let name: String = row.try_get(1)?;
        let origin = origins.entry(row.try_get(0)?).or_insert_with(|| Origin {
            uid: palisade::ident::qualify([SCHEMA, &name]),
            name: palisade::dialect::Dialect::Postgres.fold(&name),
            columns: HashMap::new(),
            is_companion: true,
        });
        origin.columns.insert(row.try_get(2)?, row.try_get(3)?);
    }
    Ok(origins)
}

impl Schema {
    /// Reads it in the transaction in which the catalog is read.
    pub(crate) async fn read(client: &Client, columns: &Columns) -> Result<Self, IntrospectError> {
        let sql = marks(&relations(), USER_SCHEMA);
        let mut schema = Self {
            relations: HashMap::new(),
            origins: HashMap::new(),
            routines: HashMap::new(),
            rest: Marked::default(),
            fingerprint: Self::fingerprint_now(client).await?,
            seen: Seen::default(),
        };
        for row in client.query_typed(&sql, &[]).await? {
            let (sort, marked) = read_mark(&row)?;
            let uid = marked.uid();
            match sort {
                Sort::Relation => {
                    let origin = Origin {
                        uid: uid.clone(),
                        name: marked.name.clone(),
                        columns: columns
                            .columns(marked.oid)
                            .iter()
                            .map(|c| (c.number, c.name.clone()))
                            .collect(),
                        is_companion: false,
                    };
                    schema.origins.insert(marked.oid, origin);
                    schema.relations.insert(uid, marked);
                }
                Sort::Routines => {
                    schema.routines.insert(uid, marked);
                }
                Sort::Rest => schema.rest = marked,
                Sort::Moment => {}
            }
        }
        schema.origins.extend(read_origins(client).await?);
        Ok(schema)
    }

    /// What [`read`](Self::read) would find, in one text that the server makes: reading a thousand tables and
    /// sending them takes many times as long.
    pub(crate) async fn fingerprint_now(client: &Client) -> Result<String, IntrospectError> {
        let marks = marks(&relations(), USER_SCHEMA);
        // A right on a whole table leaves its columns' rows as they were.
        let withheld = from_withheld();
        let sql = format!(
            "SELECT pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.concat_ws(E'\n', \
                    pg_catalog.string_agg(m.mark, E'\n' ORDER BY m.mark), \
                    (SELECT pg_catalog.concat_ws(' ', pg_catalog.count(*), pg_catalog.sum(c.oid::int8 * a.attnum)) \
                     {withheld}), \
                    (SELECT pg_catalog.concat_ws(' ', pg_catalog.count(*), pg_catalog.sum(k.xmin::text::int8)) \
                     FROM pg_catalog.pg_constraint k), \
                    (SELECT pg_catalog.concat_ws(' ', pg_catalog.count(*), pg_catalog.sum(i.xmin::text::int8)) \
                     FROM pg_catalog.pg_index i WHERE i.indisunique OR i.indisexclusion), \
                    (SELECT pg_catalog.concat_ws(' ', pg_catalog.count(*), pg_catalog.sum(d.xmin::text::int8)) \
                     FROM pg_catalog.pg_attrdef d), \
                    (SELECT pg_catalog.concat_ws(' ', pg_catalog.count(*), pg_catalog.sum(e.xmin::text::int8)) \
                     FROM pg_catalog.pg_enum e), \
                    (SELECT pg_catalog.concat_ws(' ', pg_catalog.count(*), pg_catalog.sum(c.xmin::text::int8)) \
                     FROM pg_catalog.pg_cast c), \
                    (SELECT pg_catalog.concat_ws(' ', pg_catalog.count(*), pg_catalog.sum(t.xmin::text::int8)) \
                     FROM pg_catalog.pg_type t), \
                    (SELECT pg_catalog.concat_ws(' ', pg_catalog.count(*), pg_catalog.sum(x.xmin::text::int8)) \
                     FROM pg_catalog.pg_extension x)), 'UTF8')), 'hex') \
             FROM (SELECT pg_catalog.concat_ws(' ', a.sort, a.oid, a.schema, a.name, a.mark) \
                   FROM ({marks}) AS a (sort, oid, schema, name, mark)) AS m (mark)"
        );
        let rows = client.query_typed(&sql, &[]).await?;
        let row = rows.first().ok_or_else(|| {
            IntrospectError::Inconsistent("the server gives no fingerprint".to_owned())
        })?;
        Ok(row.try_get(0)?)
    }

    /// The fingerprint when it was read.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The relation that results call `oid`.
    pub(crate) fn origin(&self, oid: u32) -> Option<&Origin> {
        self.origins.get(&oid)
    }

    /// Checks that the relations and routines with these uids, and operators, casts and domains, are those of
    /// this schema.
    ///
    /// A routine that is not the database's own is not looked at.
    pub(crate) async fn verify(
        &self,
        client: &Client,
        look: &Look,
        relations: &[String],
        routines: &BTreeSet<String>,
    ) -> Result<(), BackendError> {
        let Expected {
            objects: expected,
            oids,
            names,
        } = self.list_expected(relations, routines)?;
        if self.seen.may_know(&expected)
            && let Some(moment) = now(client).await?
            && self.seen.knows(&moment, &expected)
        {
            return Ok(());
        }
        let found = client
            .query(&look.marks, &[&oids, &names])
            .await
            .and_then(|rows| rows.iter().map(read_mark).collect::<Result<Vec<_>, _>>())
            .map_err(|e| fault::engine(&e))?;
        let is_found =
            |(sort, marked): &(Sort, &Marked)| found.iter().any(|(s, m)| (s, m) == (sort, *marked));
        if !expected.iter().all(is_found) {
            return Err(BackendError::schema_changed("the schema changed"));
        }
        let moment = found.iter().find(|(sort, _)| *sort == Sort::Moment);
        let moment = moment.and_then(|(_, m)| Moment::parse(&m.schema, &m.name));
        self.seen.learn(moment, &expected);
        Ok(())
    }

    /// As [`verify`](Self::verify), by the server itself: where it finds something else, it runs nothing more of the transaction. So
    /// what comes next may be sent at once.
    pub(crate) async fn pass(
        &self,
        (client, look): (&Client, &Look),
        trust: Trust,
        relations: &[String],
        routines: &BTreeSet<String>,
    ) -> Result<Passage, BackendError> {
        let Expected {
            objects,
            oids,
            names,
        } = self.list_expected(relations, routines)?;
        let known = match trust {
            Trust::LastLook => self.seen.known_moment(&objects),
            Trust::Nothing => None,
        };
        if let Some(moment) = known {
            return match client.query(&look.state_gate, &[&moment.0]).await {
                Ok(_) => Ok(Passage::Open),
                Err(error) if is_shut(&error) => {
                    self.seen.forget();
                    Ok(Passage::Stale)
                }
                Err(error) => Err(fault::engine(&error)),
            };
        }
        let column = |text: fn(&Marked) -> &str| -> Vec<&str> {
            objects.iter().map(|(_, marked)| text(marked)).collect()
        };
        let sorts: Vec<&str> = objects.iter().map(|(sort, _)| sort.letter()).collect();
        let own_oids: Vec<u32> = objects.iter().map(|(_, marked)| marked.oid).collect();
        let (schemas, own_names) = (column(|m| &m.schema), column(|m| &m.name));
        let marks = column(|m| &m.mark);
        let told = client
            .query_one(
                &look.gate,
                &[
                    &oids, &names, &sorts, &own_oids, &schemas, &own_names, &marks,
                ],
            )
            .await
            .and_then(|row| read_moment(&row));
        match told {
            Ok(moment) => self.seen.learn(moment, &objects),
            Err(error) if is_shut(&error) => {
                return Err(BackendError::schema_changed("the schema changed"));
            }
            Err(error) => return Err(fault::engine(&error)),
        }
        Ok(Passage::Open)
    }

    /// What a statement depends on that reads these relations and calls these routines.
    fn list_expected(
        &self,
        relations: &[String],
        routines: &BTreeSet<String>,
    ) -> Result<Expected<'_>, BackendError> {
        let mut expected = Expected {
            objects: vec![(Sort::Rest, &self.rest)],
            oids: Vec::new(),
            names: Vec::new(),
        };
        // The server's own relations change with its version only.
        for uid in relations.iter().filter(|uid| !is_system(uid)) {
            let Some(found) = self.relations.get(uid) else {
                return Err(BackendError::second_lock(format!("`{uid}` is no relation")));
            };
            expected.oids.push(found.oid);
            expected.objects.push((Sort::Relation, found));
        }
        for found in routines.iter().filter_map(|uid| self.routines.get(uid)) {
            expected.names.push(found.name.as_str());
            expected.objects.push((Sort::Routines, found));
        }
        Ok(expected)
    }
}

/// What a statement depends on.
struct Expected<'a> {
    objects: Vec<(Sort, &'a Marked)>,
    /// Of the relations among them.
    oids: Vec<u32>,
    /// Of the routines among them.
    names: Vec<&'a str>,
}

/// Whether a gate of [`Look`] found something else than it was given.
fn is_shut(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::DIVISION_BY_ZERO)
}

impl Schema {
    /// Whether changes of one of these relations are rewritten by rules.
    pub(crate) async fn has_rules(
        &self,
        client: &Client,
        relations: &[String],
    ) -> Result<bool, BackendError> {
        let oids: Vec<u32> = (relations.iter())
            .filter_map(|uid| self.relations.get(uid))
            .map(|marked| marked.oid)
            .collect();
        // A view's query is the only rule for SELECT.
        let sql = "SELECT 1 FROM pg_catalog.pg_rewrite r \
                   WHERE r.ev_class = ANY ($1) AND r.ev_type <> '1' AND r.ev_enabled <> 'D' LIMIT 1";
        client
            .query_typed(sql, &[(&oids, Type::OID_ARRAY)])
            .await
            .map(|rows| !rows.is_empty())
            .map_err(|e| fault::engine(&e))
    }
}

/// The condition that a row of `pg_class` is a relation of people's, with rows.
fn relations() -> String {
    format!("c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {USER_SCHEMA}")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sort {
    Relation,
    Routines,
    Rest,
    Moment,
}

impl Sort {
    /// What the query for marks calls it.
    fn letter(self) -> &'static str {
        match self {
            Self::Relation => "r",
            Self::Routines => "f",
            Self::Rest => "o",
            Self::Moment => "m",
        }
    }
}

/// The server that a session is with.
pub(crate) async fn server(client: &Client) -> Result<String, BackendError> {
    let sql = format!("SELECT {SERVER}");
    let row = client.query_typed_one(&sql, &[]).await;
    row.and_then(|row| row.try_get(0))
        .map_err(|e| fault::engine(&e))
}

/// The state of the database for the next statement, if the server tells it.
async fn now(client: &Client) -> Result<Option<Moment>, BackendError> {
    let rows = client
        .query_typed(&moment(), &[])
        .await
        .map_err(|e| fault::engine(&e))?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    read_moment(row).map_err(|e| fault::engine(&e))
}

/// The state that begins a row.
fn read_moment(row: &Row) -> Result<Option<Moment>, tokio_postgres::Error> {
    Ok(Moment::parse(row.try_get(0)?, row.try_get(1)?))
}

/// The query for marks of the relations and routines for which these conditions hold.
///
/// A row's `xmin` is the transaction that wrote it. Of `pg_class` it says nothing, since statistics, indexes and
/// privileges are kept there too. Of columns, and of rules, which hold the queries of views, it does. It also does of
/// triggers, by which the server enforces foreign keys, on both tables. A replaced trigger has a later transaction
/// than the old one, and a dropped trigger changes the count. What enforces a foreign key cannot be changed. Operators
/// and casts cannot be replaced, only added, with higher oids. It also does of constraints, by which an upsert finds
/// its conflicting rows.
fn marks(relations: &str, routines: &str) -> String {
    format!(
        "SELECT 'r', c.oid, n.nspname::text, c.relname::text, pg_catalog.concat_ws(' ', c.relkind::text, \
                (SELECT pg_catalog.sum(a.xmin::text::int8) FROM pg_catalog.pg_attribute a \
                 WHERE a.attrelid = c.oid AND a.attnum > 0), \
                (SELECT pg_catalog.concat_ws(',', pg_catalog.count(*), pg_catalog.sum(r.xmin::text::int8)) \
                 FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid), \
                (SELECT pg_catalog.concat_ws(',', pg_catalog.count(*), pg_catalog.sum(t.xmin::text::int8), \
                        pg_catalog.sum(p.xmin::text::int8)) \
                 FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid \
                 WHERE t.tgrelid = c.oid), \
                (SELECT pg_catalog.sum(i.inhparent::int8) FROM pg_catalog.pg_inherits i \
                 WHERE i.inhrelid = c.oid), \
                (SELECT pg_catalog.concat_ws(',', pg_catalog.count(*), pg_catalog.sum(i.inhrelid::int8)) \
                 FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid), \
                (SELECT pg_catalog.concat_ws(',', pg_catalog.count(*), pg_catalog.sum(k.xmin::text::int8)) \
                 FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u', 'x'))) \
         FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE {relations} \
         UNION ALL \
         SELECT 'f', 0::pg_catalog.oid, n.nspname::text, p.proname::text, \
                pg_catalog.concat_ws(' ', pg_catalog.count(*), pg_catalog.sum(p.xmin::text::int8)) \
         FROM pg_catalog.pg_proc p \
         JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         WHERE {routines} GROUP BY n.nspname, p.proname \
         UNION ALL \
         SELECT 'o', 0::pg_catalog.oid, '', '', pg_catalog.concat_ws(' ', \
                (SELECT pg_catalog.max(o.oid) FROM pg_catalog.pg_operator o), \
                (SELECT pg_catalog.max(k.oid) FROM pg_catalog.pg_cast k), \
                (SELECT pg_catalog.sum(d.xmin::text::int8) FROM pg_catalog.pg_constraint d \
                 WHERE d.contypid > 0))"
    )
}

fn read_mark(row: &Row) -> Result<(Sort, Marked), tokio_postgres::Error> {
    let sort = match row.try_get(0)? {
        "r" => Sort::Relation,
        "f" => Sort::Routines,
        "m" => Sort::Moment,
        _ => Sort::Rest,
    };
    Ok((
        sort,
        Marked {
            oid: row.try_get(1)?,
            schema: row.try_get(2)?,
            name: row.try_get(3)?,
            mark: row.try_get(4)?,
        },
    ))
}

/// Whether a uid is of a relation of the server's own.
pub(crate) fn is_system(uid: &str) -> bool {
    uid.starts_with("pg_catalog.") || uid.starts_with("information_schema.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_of_the_servers_own_are_in_its_schemas() {
        for (uid, expected) in [
            ("pg_catalog.pg_class", true),
            ("information_schema.tables", true),
            ("pg_catalogs.pg_class", false),
            ("public.pg_catalog", false),
        ] {
            assert_eq!(is_system(uid), expected, "{uid}");
        }
    }

    #[test]
    fn states_that_a_text_does_not_tell_apart_are_none() {
        for (snapshot, server, expected) in [
            ("10:10:", "f 2026", true),
            ("10:20:10,14", "f 2026", true),
            ("10:10:", "t 2026", true),
            ("10:20:", "t 2026", false),
            ("10:20:", "", false),
            ("", "f 2026", false),
        ] {
            let moment = Moment::parse(snapshot, server);
            assert_eq!(moment.is_some(), expected, "{snapshot} {server}");
        }
        assert_ne!(
            Moment::parse("10:10:", "f 1"),
            Moment::parse("10:10:", "f 2")
        );
    }

    #[test]
    fn what_was_seen_is_known_for_that_state_alone() {
        let object = |name: &str| Marked {
            schema: "app".to_owned(),
            name: name.to_owned(),
            ..Marked::default()
        };
        let (users, orders) = (object("users"), object("orders"));
        let (users, both) = (
            [(Sort::Relation, &users)],
            [(Sort::Relation, &users), (Sort::Relation, &orders)],
        );
        let (first, second) = (Moment("1:1:".to_owned()), Moment("2:2:".to_owned()));
        let seen = Seen::default();
        seen.learn(Some(first.clone()), &users);
        assert!(
            !seen.may_know(&users),
            "whether anybody writes is not known"
        );
        seen.learn(Some(first.clone()), &users);
        assert!(seen.may_know(&users) && seen.knows(&first, &users));
        assert!(!seen.may_know(&both) && !seen.knows(&first, &both));
        assert!(!seen.knows(&second, &users));
        assert!(!seen.may_know(&users), "somebody wrote");
        seen.learn(Some(second.clone()), &both);
        seen.learn(Some(second.clone()), &users);
        assert!(seen.knows(&second, &both));
        seen.learn(None, &both);
        seen.learn(None, &both);
        assert!(!seen.may_know(&users));
    }
}
