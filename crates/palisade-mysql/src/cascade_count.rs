//! How many rows foreign keys change with a statement. The server does not count them: InnoDB changes them below where
//! rows are counted.
//!
//! They are looked for before the statement runs, from the rows that it will change, table by table as keys lead on.
//! Each step uses the index that a foreign key has, so that the rows read are the rows that will be changed. The
//! transaction locks what it reads and where it looked, so that the statement finds the same. Rows that triggers
//! change are not counted. Where a key compares its columns as no condition can, every row that has such a key counts.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use mysql_async::{Conn, Params, Row, prelude::Queryable as _};
use palisade::{
    catalog::{Cascade, Catalog, Change, ForeignKey, Relation, RelationId},
    guard::{BackendError, BackendErrorKind},
    rewrite::CascadeCount,
};

use crate::{execute, fault, params, settings::identifier};

/// How deep foreign keys lead: InnoDB refuses a statement whose changes would go deeper
/// (<https://dev.mysql.com/doc/refman/8.4/en/create-table-foreign-keys.html>).
const DEPTH: usize = 15;

/// What happens to rows of a table: the columns are those that get other values.
type Effect = (RelationId, Change, BTreeSet<u16>);

/// The rows that a statement will change.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Reached {
    /// Of its own, where foreign keys lead back to their table: the server counts fewer, if a key is before it.
    own: u64,
    /// By foreign keys, beside those.
    beside: u64,
}

impl Reached {
    /// How many rows were changed, where the server counts `affected`.
    pub(crate) fn with(self, affected: u64) -> u64 {
        self.own.max(affected).saturating_add(self.beside)
    }
}

/// Finds how many rows foreign keys will change; refuses where it is more than `most`.
pub(crate) async fn find(
    conn: &mut Conn,
    catalog: &Catalog,
    reach: &CascadeCount,
    most: u64,
) -> Result<Reached, BackendError> {
    let params = params::bind(
        u16::try_from(reach.params().len()).unwrap_or(u16::MAX),
        reach.params(),
    )?;
    let mut walk = Walk {
        catalog,
        base: format!("({}) AS r0", reach.sql()),
        params,
        // One more than may be changed tells enough.
        limit: most.saturating_add(1),
        told_apart: BTreeSet::new(),
        found: BTreeMap::new(),
        reached: Reached::default(),
    };
    let origin = (reach.relation(), reach.change(), reach.columns().clone());
    walk.told_apart = ambiguous(catalog, &origin);
    walk.from(conn, origin).await?;
    Ok(walk.reached)
}

/// What can be reached in several ways, so that its rows have to be told apart.
fn ambiguous(catalog: &Catalog, origin: &Effect) -> BTreeSet<Effect> {
    let mut entered = BTreeSet::from([origin.clone()]);
    let mut several = BTreeSet::new();
    let mut waiting = vec![origin.clone()];
    while let Some(effect) = waiting.pop() {
        for (key, next) in followers(catalog, &effect) {
            // Of any row, each is one that refers to it.
            let is_found = is_found(catalog, &effect, key, &next);
            if entered.insert(next.clone()) {
                waiting.push(next.clone());
            } else {
                several.insert(next.clone());
            }
            if !is_found {
                several.insert(next);
            }
        }
    }
    // What follows from those does so once for each way.
    waiting.extend(several.iter().cloned());
    while let Some(effect) = waiting.pop() {
        for (_, next) in followers(catalog, &effect) {
            if several.insert(next.clone()) {
                waiting.push(next);
            }
        }
    }
    several
}

/// Columns of relations, by position, that the account has to read so that rows which foreign keys change are counted where `change`
/// happens to rows of `relation`, to their `columns` if they are updated. Where `may` is false of what a key does, statements that
/// would have it do so are refused.
#[must_use]
pub fn columns_read(
    catalog: &Catalog,
    relation: &Relation,
    change: Change,
    columns: BTreeSet<u16>,
    may: impl Fn(&Cascade<'_>) -> bool,
) -> BTreeSet<(RelationId, u16)> {
    let origin = (relation.id, change, columns);
    let told_apart = ambiguous(catalog, &origin);
    let mut found = BTreeSet::new();
    let mut done = BTreeSet::from([origin.clone()]);
    let mut waiting = vec![origin];
    while let Some((id, change, columns)) = waiting.pop() {
        let Some(relation) = catalog.relation(id) else {
            continue;
        };
        let cascades = catalog.cascades(relation, change, &columns);
        let mut add = |of: &Relation, names: &[String]| {
            let names = names.iter().map(|name| catalog.dialect().fold(name));
            let positions = names.filter_map(|name| of.position(&name));
            found.extend(positions.map(|index| (of.id, index)));
        };
        for cascade in cascades.iter().filter(|cascade| may(cascade)) {
            add(relation, &cascade.key.references);
            add(cascade.child, &cascade.key.columns);
            let next = (cascade.child.id, cascade.change, cascade.columns.clone());
            if done.insert(next.clone()) {
                waiting.push(next);
            }
        }
        if told_apart.contains(&(id, change, columns)) {
            found.extend(relation.primary_key.iter().map(|index| (id, *index)));
        }
    }
    found
}

/// What foreign keys do where `effect` happens.
fn followers<'c>(
    catalog: &'c Catalog,
    (relation, change, columns): &Effect,
) -> Vec<(&'c ForeignKey, Effect)> {
    let Some(relation) = catalog.relation(*relation) else {
        return Vec::new();
    };
    let cascades = catalog.cascades(relation, *change, columns).into_iter();
    cascades
        .map(|cascade| {
            (
                cascade.key,
                (cascade.child.id, cascade.change, cascade.columns),
            )
        })
        .collect()
}

/// Whether a condition finds the rows of `next` that refer to those of `effect` by `key`.
fn is_found(catalog: &Catalog, effect: &Effect, key: &ForeignKey, next: &Effect) -> bool {
    let (Some(parent), Some(child)) = (catalog.relation(effect.0), catalog.relation(next.0)) else {
        return false;
    };
    let positions = |relation: &Relation, names: &[String]| -> Option<Vec<u16>> {
        let names = names.iter().map(|name| catalog.dialect().fold(name));
        names.map(|name| relation.position(&name)).collect()
    };
    let referenced = positions(parent, &key.references);
    let own = positions(child, &key.columns);
    match (referenced, own) {
        (Some(referenced), Some(own)) => {
            catalog.finds_referencing(parent, &referenced, child, &own)
        }
        (Some(_) | None, _) => false,
    }
}

/// Where the keys have led to so far.
struct Walk<'c> {
    catalog: &'c Catalog,
    /// The rows that the statement changes, as a table.
    base: String,
    params: Params,
    limit: u64,
    told_apart: BTreeSet<Effect>,
    /// The primary keys of rows that have to be told apart.
    found: BTreeMap<Effect, HashSet<String>>,
    reached: Reached,
}

/// A way that keys lead.
struct Path {
    effect: Effect,
    /// The tables on it, joined.
    tables: String,
    depth: usize,
}

/// The ways that lead on from `path` by one key.
fn follow(catalog: &Catalog, path: &Path) -> Vec<Path> {
    if path.depth == DEPTH {
        return Vec::new();
    }
    let mut ways = Vec::new();
    for (key, effect) in followers(catalog, &path.effect) {
        let Some(next) = catalog.relation(effect.0) else {
            continue;
        };
        let depth = path.depth + 1;
        let is_found = is_found(catalog, &path.effect, key, &effect);
        let tables = format!(
            "{} STRAIGHT_JOIN {}.{} AS r{depth} ON {}",
            path.tables,
            identifier(&next.schema),
            identifier(&next.name),
            match is_found {
                true => equal(key, path.depth, depth),
                false => present(key, depth),
            }
        );
        ways.push(Path {
            effect,
            tables,
            depth,
        });
    }
    ways
}

impl Walk<'_> {
    async fn from(&mut self, conn: &mut Conn, origin: Effect) -> Result<(), BackendError> {
        let start = Path {
            effect: origin,
            tables: self.base.clone(),
            depth: 0,
        };
        if self.told_apart.contains(&start.effect) {
            self.reached.own = self.rows(conn, &start).await?;
        }
        let mut waiting = VecDeque::from([start]);
        while let Some(path) = waiting.pop_front() {
            for path in follow(self.catalog, &path) {
                let more = self.rows(conn, &path).await?;
                self.reached.beside = self.reached.beside.saturating_add(more);
                let all = self.reached.with(0);
                if all >= self.limit {
                    return Err(BackendError::new(
                        BackendErrorKind::AffectedRows,
                        format!("foreign keys would change {all} rows or more"),
                    ));
                }
                // Where all rows were known, so is whatever follows from them.
                if more > 0 {
                    waiting.push_back(path);
                }
            }
        }
        Ok(())
    }

    /// How many rows there are at the end of `path` that were not known, up to the limit.
    async fn rows(&mut self, conn: &mut Conn, path: &Path) -> Result<u64, BackendError> {
        let key = match self.catalog.relation(path.effect.0) {
            Some(relation) if self.told_apart.contains(&path.effect) => {
                primary_key(relation, path.depth)
            }
            Some(_) | None => None,
        };
        let (tables, limit) = (&path.tables, self.limit);
        let Some(key) = key else {
            let sql = format!("SELECT COUNT(*) FROM (SELECT 1 FROM {tables} LIMIT {limit}) AS r");
            let rows = self.ask(conn, &sql).await?;
            let count = rows
                .into_iter()
                .next()
                .and_then(|mut row| row.take::<u64, _>(0));
            return count.ok_or_else(|| BackendError::second_lock("a count gave no row"));
        };
        let sql = format!("SELECT DISTINCT {key} FROM {tables} LIMIT {limit}");
        let rows = self.ask(conn, &sql).await?;
        let known = self.found.entry(path.effect.clone()).or_default();
        let before = known.len();
        known.extend(rows.into_iter().map(|row| format!("{:?}", row.unwrap())));
        Ok(u64::try_from(known.len() - before).unwrap_or(u64::MAX))
    }

    async fn ask(&self, conn: &mut Conn, sql: &str) -> Result<Vec<Row>, BackendError> {
        execute::check_text(sql)?;
        let rows = conn.exec(sql, self.params.clone()).await;
        rows.map_err(|error| {
            let fault = fault::change(&error);
            match fault.kind {
                // Whoever may have keys change rows may not be able to read these.
                BackendErrorKind::SecondLock => BackendError::rejected(format!(
                    "rows that foreign keys change cannot be counted: {}",
                    fault.detail
                )),
                _ => fault,
            }
        })
    }
}

/// That rows of the table that is joined as number `depth` refer to those of `before` by `key`. In this order each is found by an index.
fn equal(key: &ForeignKey, before: usize, depth: usize) -> String {
    let equal: Vec<String> = (key.columns.iter().zip(&key.references))
        .map(|(own, theirs)| {
            format!(
                "r{depth}.{} = r{before}.{}",
                identifier(own),
                identifier(theirs)
            )
        })
        .collect();
    equal.join(" AND ")
}

/// That rows of the table that is joined as number `depth` refer to any by `key`.
fn present(key: &ForeignKey, depth: usize) -> String {
    let present: Vec<String> = (key.columns.iter())
        .map(|own| format!("r{depth}.{} IS NOT NULL", identifier(own)))
        .collect();
    present.join(" AND ")
}

/// The columns of the primary key, if there is one, of the table that is joined as number `depth`.
fn primary_key(relation: &Relation, depth: usize) -> Option<String> {
    let columns = relation.primary_key.iter();
    let columns: Option<Vec<String>> = columns
        .map(|index| {
            Some(format!(
                "r{depth}.{}",
                identifier(&relation.column(*index)?.name)
            ))
        })
        .collect();
    columns
        .filter(|columns| !columns.is_empty())
        .map(|columns| columns.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Tables `t0`, `t1` and so on, of which each refers to the one before it.
    fn chain(length: usize, on_delete: &str) -> Catalog {
        let mut schema = "CREATE TABLE t0 (id int PRIMARY KEY);".to_owned();
        for number in 1..length {
            let before = number - 1;
            schema.push_str(&format!(
                "CREATE TABLE t{number} (id int PRIMARY KEY, up int, KEY (up), \
                 FOREIGN KEY (up) REFERENCES t{before} (id) ON DELETE {on_delete});"
            ));
        }
        palisade_ddl::mysql(&schema, "d").unwrap()
    }

    fn start(catalog: &Catalog, change: Change) -> Path {
        let relation = catalog.find("d", "t0").unwrap().id;
        Path {
            effect: (relation, change, BTreeSet::new()),
            tables: "(SELECT 1) AS r0".to_owned(),
            depth: 0,
        }
    }

    #[test]
    fn keys_are_followed_as_deep_as_the_server_goes() {
        let catalog = chain(18, "CASCADE");
        let mut path = start(&catalog, Change::Delete);
        let mut steps = 0;
        while let Some(next) = follow(&catalog, &path).pop() {
            steps += 1;
            assert_eq!(next.depth, steps);
            let join = format!(
                "{} STRAIGHT_JOIN `d`.`t{steps}` AS r{steps} ON r{steps}.`up` = r{}.`id`",
                path.tables,
                steps - 1
            );
            assert_eq!(next.tables, join);
            path = next;
        }
        assert_eq!(steps, 15);
    }

    #[test]
    fn keys_that_change_nothing_are_not_followed() {
        for (on_delete, change, count) in [
            ("CASCADE", Change::Delete, 1),
            ("SET NULL", Change::Delete, 1),
            ("RESTRICT", Change::Delete, 0),
            ("CASCADE", Change::Update, 0),
        ] {
            let catalog = chain(2, on_delete);
            let found = follow(&catalog, &start(&catalog, change));
            assert_eq!(found.len(), count, "{on_delete} {change:?}");
        }
    }

    #[test]
    fn what_is_reached_in_two_ways_is_told_apart() {
        let schema = "CREATE TABLE t0 (id int PRIMARY KEY);
            CREATE TABLE a (id int PRIMARY KEY, up int, KEY (up), FOREIGN KEY (up) REFERENCES t0 (id) ON DELETE CASCADE);
            CREATE TABLE b (id int PRIMARY KEY, up int, KEY (up), FOREIGN KEY (up) REFERENCES t0 (id) ON DELETE CASCADE);
            CREATE TABLE c (id int PRIMARY KEY, a int, b int, KEY (a), KEY (b),
                FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE,
                FOREIGN KEY (b) REFERENCES b (id) ON DELETE CASCADE);
            CREATE TABLE e (id int PRIMARY KEY, c int, KEY (c), FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE);";
        let catalog = palisade_ddl::mysql(schema, "d").unwrap();
        let origin = start(&catalog, Change::Delete).effect;
        let names: BTreeSet<String> = ambiguous(&catalog, &origin)
            .iter()
            .map(|effect| catalog.relation(effect.0).unwrap().name.to_string())
            .collect();
        assert_eq!(names, ["c", "e"].map(str::to_owned).into());
    }

    #[test]
    fn rows_are_counted_with_those_of_the_statement() {
        for (own, beside, affected, all) in [(0, 0, 3, 3), (0, 4, 3, 7), (5, 4, 3, 9), (2, 4, 3, 7)]
        {
            assert_eq!(Reached { own, beside }.with(affected), all);
        }
    }
}
