//! A change of several statements in one transaction, and what it does row by row.
//!
//! A session beside the change holds a snapshot, and the change runs over the same one. The server says which tables were written, by
//! whatever: statements, triggers, foreign keys. Of these,
//!
//! * a row version is new where the change sees it and the snapshot does not. Its `xmin` is one of the change's transactions;
//! * a row version is gone where the snapshot sees it and the change does not. Its `xmax` is one of these, or a group of lockers that
//!   was made since.
//!
//! `xmin` and `xmax` only choose which versions to ask for. A version is known by its place, which is not used again while the snapshot
//! stands. So nothing has to be installed, and nothing depends on keys.
//!
//! A preview runs the change twice over the snapshot, in two transactions with two times. Columns in which both wrote other values are
//! made anew each time. The second transaction is rolled back too.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

use palisade::{
    catalog::{Catalog, Relation, RelationKind},
    change::{Difference, RowDifference, TableDifference, pair_rows},
    dialect::Dialect,
    guard::{
        BackendError, BackendErrorKind, BeforeAndAfter, ChangeEnd, ChangeRun, OpenTicket, Purpose,
    },
    value::{DroppedRows, KeptRows, Value},
};
use palisade_pool::{Pool, Task, Work};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{
    Client, SimpleQueryMessage,
    types::{ToSql, Type},
};

use crate::{
    cells::Reading,
    connect::{Connector, Session},
    execute::{self, Ground, Opened},
    fault,
    history::script::SCHEMA,
    ledger,
    schema_change::Look,
    second_look::Outside,
    write::{self, Facts},
};

/// Rows that a change may touch that is looked at.
const MAX_ROWS: usize = 10_000;

/// Bytes of rows that a change may touch that is looked at.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// What a change gets beyond its time, for the server to end it by its own clock.
const GRACE: Duration = Duration::from_millis(200);

/// Ids of transactions go round after so many.
const ROUND: i64 = 1 << 32;

/// What a change runs over.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) ground: Ground<'a>,
    pub(crate) catalog: &'a Catalog,
    pub(crate) outside: &'a Outside,
    pub(crate) is_pooled: bool,
}

/// Runs a change in a session of the first pool, with one of the second beside it.
///
/// # Errors
/// If nothing was run.
pub(crate) async fn run_change(
    stage: Stage<'_>,
    (pool, before): (&Pool<Connector>, &Pool<Connector>),
    tasks: &[Task<'_>],
    purpose: &Purpose,
) -> Result<ChangeEnd, BackendError> {
    let Some(first) = tasks.first() else {
        return Err(BackendError::not_previewable("a change has statements"));
    };
    let _turn = pool.take_turn(tasks).await?;
    let deadline = Instant::now() + first.limits.statement_timeout() + GRACE;
    let cancel = first.cancel;
    let busy = |_| BackendError::busy("no connection was free in time");
    let mut is_first = true;
    loop {
        // Whoever has a session of the pool does not wait for one beside it.
        let mut beside = timeout_at(deadline, before.lease()).await.map_err(busy)??;
        let mut here = timeout_at(deadline, pool.lease()).await.map_err(busy)??;
        let mut change = Change {
            stage,
            tasks,
            at: 0,
            has_run: false,
        };
        let running = change.run(here.session()?, beside.session()?, purpose);
        let ended = tokio::select! {
            biased;
            ended = timeout_at(deadline, running) => ended.map_err(|_| BackendError::out_of_time()),
            () = cancel.wait() => Err(BackendError::cancelled()),
        };
        let (statement, has_run) = (change.at, change.has_run);
        let failed = |error| Ok(ChangeEnd::Failed { statement, error });
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                here.abandon().await;
                beside.abandon().await;
                return failed(error);
            }
        };
        let attempt = Attempt {
            is_first,
            was_idle: here.is_reused() || beside.is_reused(),
            has_run,
        };
        if attempt.may_run_again(ended.as_ref().err()) {
            drop((here, beside));
            pool.forget_idle();
            before.forget_idle();
            is_first = false;
            continue;
        }
        let is_oversized = here.session()?.excess.happened() || beside.session()?.excess.happened();
        let kept = match &ended {
            Ok(ran) if ran.is_met => {
                Some(write::keep(&here.session()?.client, stage.is_pooled).await)
            }
            Ok(_) | Err(_) => None,
        };
        here.give_back().await;
        beside.give_back().await;
        return match (ended, kept) {
            (Ok(_), Some(Err(error))) => failed(error),
            (Ok(ran), kept) => Ok(ChangeEnd::Ran(ChangeRun {
                is_kept: kept.is_some(),
                ..ran.run
            })),
            (Err(_), _) if is_oversized => failed(too_large()),
            (Err(error), _) => failed(error),
        };
    }
}

/// What is known of an attempt to run a change.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    is_first: bool,
    /// Whether one of its sessions had been idle.
    was_idle: bool,
    /// Whether a statement has run.
    has_run: bool,
}

impl Attempt {
    /// Whether the change is run once more: the server closed an idle session, for it was restarted, and nothing has run yet.
    fn may_run_again(self, error: Option<&BackendError>) -> bool {
        let is_lost = error.is_some_and(|error| error.kind == BackendErrorKind::Unavailable);
        is_lost && self.is_first && self.was_idle && !self.has_run
    }
}

/// A change that is run.
struct Change<'a> {
    stage: Stage<'a>,
    tasks: &'a [Task<'a>],
    /// The statement that it is at.
    at: usize,
    /// Whether one has run.
    has_run: bool,
}

/// A change that ran, and is not kept yet.
struct Ran {
    run: ChangeRun,
    /// Whether it is to be kept.
    is_met: bool,
}

/// The state of the database before a change.
struct Snapshot {
    id: String,
    /// The next group of lockers.
    next_group: i64,
}

/// A table that was written.
struct Written<'c> {
    relation: &'c Relation,
    /// The partitions, by the server's ids. The table itself where there are none.
    parts: BTreeSet<u32>,
    is_partitioned: bool,
}

/// Where a row version is: the id of its table, and its place there.
type Place = (u32, String);

/// Row versions by place.
type Versions = BTreeMap<Place, Vec<Value>>;

impl<'a> Change<'a> {
    async fn run(
        &mut self,
        here: &mut Session,
        beside: &mut Session,
        purpose: &Purpose,
    ) -> Result<Ran, BackendError> {
        let Some(first) = self.tasks.first() else {
            return Err(BackendError::not_previewable("a change has statements"));
        };
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let look_beside = execute::enter(beside, self.stage.ground, first, begin).await?;
        let snapshot = export(&beside.client).await?;
        let import = format!("SET TRANSACTION SNAPSHOT '{}'", snapshot.id);
        let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE; {import}");
        let look = execute::enter(here, self.stage.ground, first, &begin).await?;
        let sessions = (&*here, &*beside);
        match purpose {
            Purpose::Keep(expectation) => {
                let run = self.run_once(sessions, &look, &snapshot).await?;
                let is_met = expectation.is_met(&run.difference);
                if is_met && let Some(left) = expectation.leave(&run)? {
                    ledger::leave(&here.client, self.stage.catalog, &left).await?;
                }
                Ok(Ran { run, is_met })
            }
            Purpose::Preview(lens) => {
                let one = self.run_once(sessions, &look, &snapshot).await?;
                // Another transaction has another time.
                let again = format!("ROLLBACK AND CHAIN; {import}");
                let look = execute::enter(here, self.stage.ground, first, &again).await?;
                let mut run = self.run_once((&*here, &*beside), &look, &snapshot).await?;
                let generated = run
                    .difference
                    .find_generated(&one.difference, self.stage.catalog);
                run.generated = generated.ok_or_else(|| {
                    BackendError::not_previewable(
                        "its statements choose other rows each time they run; name the rows in WHERE",
                    )
                })?;
                for ticket in lens.looks(&run.difference) {
                    let ticket = ticket.open(self.stage.catalog)?;
                    run.looked.push(BeforeAndAfter {
                        before: self.look(beside, &look_beside, &ticket).await?,
                        after: self.look(here, &look, &ticket).await?,
                    });
                }
                Ok(Ran { run, is_met: false })
            }
        }
    }

    /// Runs the statements in the transaction of the first session.
    async fn run_once(
        &mut self,
        (here, beside): (&Session, &Session),
        look: &Look,
        snapshot: &Snapshot,
    ) -> Result<ChangeRun, BackendError> {
        let client = &here.client;
        let so_far = count_written(client).await?;
        self.refuse_foreign_tables(client).await?;
        let facts = Facts {
            client,
            schema: self.stage.ground.schema,
            catalog: self.stage.catalog,
            outside: self.stage.outside,
            is_fixed: true,
        };
        let mut affected = Vec::with_capacity(self.tasks.len());
        let mut changed = 0_u64;
        for (at, task) in self.tasks.iter().enumerate() {
            self.at = at;
            let Work::Change(changes) = task.work else {
                return Err(BackendError::second_lock(
                    "a change has another kind of statement",
                ));
            };
            let statement = client
                .prepare(task.checks.plan_text().to_prepare())
                .await
                .map_err(|e| fault::prepare(&e))?;
            let opened = Opened {
                statement,
                look: look.clone(),
                coming: None,
            };
            self.has_run = true;
            // What RETURNING gives stands in the difference too.
            let completion = write::change(facts, opened, task, changes, &mut DroppedRows).await?;
            let rows = completion.affected.unwrap_or_default();
            changed = changed.saturating_add(rows);
            affected.push(rows);
        }
        // What waits for the end is done and checked before it is looked at.
        client
            .batch_execute("SET CONSTRAINTS ALL IMMEDIATE")
            .await
            .map_err(|e| fault::change(&e))?;
        self.at = 0;
        let tables = self.find_written(client, &so_far).await?;
        if tables.is_empty() && changed > 0 {
            return Err(BackendError::not_previewable("it writes what is no table"));
        }
        let mut difference = Difference::default();
        let mut room = Room::default();
        for table in &tables {
            let rows = find_rows((client, &beside.client), table, snapshot, &mut room).await?;
            if !rows.is_empty() {
                difference.tables.push(TableDifference {
                    schema: table.relation.schema.clone(),
                    table: table.relation.name.clone(),
                    rows,
                });
            }
        }
        Ok(ChangeRun {
            affected,
            difference,
            ..ChangeRun::default()
        })
    }

    /// Refuses what could write a foreign table, whose rows the server does not count.
    async fn refuse_foreign_tables(&self, client: &Client) -> Result<(), BackendError> {
        let sql = "SELECT c.relname::pg_catalog.text, \
             EXISTS (SELECT 1 FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid) \
             FROM pg_catalog.pg_class c WHERE c.relkind = 'f'";
        let rows = client
            .query(sql, &[])
            .await
            .map_err(|e| fault::engine(&e))?;
        let read = |e: tokio_postgres::Error| fault::engine(&e);
        let mut foreign = BTreeSet::new();
        for row in &rows {
            foreign.insert(row.try_get::<_, String>(0).map_err(read)?);
            if row.try_get::<_, bool>(1).map_err(read)? {
                return Err(BackendError::not_previewable(
                    "a part of a table is foreign, and the server does not count its rows",
                ));
            }
        }
        let catalog = self.stage.catalog;
        let reaches_foreign = |task: &Task<'_>| match task.work {
            Work::Change(changes) => {
                let is_plain = |name: &String| {
                    let mut named = catalog.relations().iter().filter(|one| one.name == *name);
                    !foreign.contains(name) && named.all(|one| one.kind == RelationKind::Table)
                };
                !changes.triggers.is_empty()
                    || !changes.writes.iter().all(|(_, name, _)| is_plain(name))
            }
            Work::Read | Work::Explain | Work::Define => true,
        };
        match !foreign.is_empty() && self.tasks.iter().any(reaches_foreign) {
            true => Err(BackendError::not_previewable(
                "it writes a foreign table, or sets off what may write one, and the server does not count its rows",
            )),
            false => Ok(()),
        }
    }

    /// The tables that were written since `so_far`, by whatever.
    async fn find_written(
        &self,
        client: &Client,
        so_far: &HashMap<u32, i64>,
    ) -> Result<Vec<Written<'a>>, BackendError> {
        let mut tables: BTreeMap<String, Written<'a>> = BTreeMap::new();
        for (oid, count) in count_written(client).await? {
            if so_far.get(&oid) == Some(&count) {
                continue;
            }
            let rows = client
                .query_typed(ABOUT, &[(&oid as &(dyn ToSql + Sync), Type::OID)])
                .await
                .map_err(|e| fault::engine(&e))?;
            let Some(row) = rows.first() else {
                return Err(BackendError::not_previewable("it makes a table"));
            };
            let read = |e: tokio_postgres::Error| fault::engine(&e);
            let schema: String = row.try_get(0).map_err(read)?;
            let root: Option<u32> = row.try_get(1).map_err(read)?;
            let inherits: bool = row.try_get(2).map_err(read)?;
            let is_secured: bool = row.try_get(3).map_err(read)?;
            match schema.as_str() {
                // Parts of large values, which stand in their rows; and what history keeps, which is no part of a difference.
                "pg_toast" | SCHEMA => continue,
                "pg_catalog" | "information_schema" => {
                    return Err(BackendError::not_previewable(
                        "something that it sets off writes the server's own tables",
                    ));
                }
                _ => {}
            }
            if inherits {
                return Err(BackendError::not_previewable(
                    "it writes a table that inherits from another one",
                ));
            }
            if is_secured {
                return Err(BackendError::not_previewable(
                    "it writes a table with row-level security, of which the account does not see every row",
                ));
            }
            let origin = self.stage.ground.schema.origin(root.unwrap_or(oid));
            let relation = origin.and_then(|origin| {
                let mut relations = self.stage.catalog.relations().iter();
                relations.find(|relation| relation.uid == origin.uid)
            });
            let relation = relation.filter(|relation| relation.kind == RelationKind::Table);
            let relation = relation.ok_or_else(|| {
                BackendError::not_previewable("it writes a table that the catalog has not")
            })?;
            let written = tables
                .entry(relation.uid.clone())
                .or_insert_with(|| Written {
                    relation,
                    parts: BTreeSet::new(),
                    is_partitioned: root.is_some(),
                });
            written.parts.insert(oid);
        }
        Ok(tables.into_values().collect())
    }

    /// What a decided query gives in a session's transaction, in which nothing is written meanwhile.
    async fn look(
        &self,
        session: &mut Session,
        look: &Look,
        ticket: &OpenTicket,
    ) -> Result<Vec<Vec<Value>>, BackendError> {
        let task = Task::admit(ticket, false)?
            .ok_or_else(|| BackendError::second_lock("what is looked through does nothing"))?;
        let ground = self.stage.ground;
        run_ours(
            session,
            "SAVEPOINT palisade_look; SET TRANSACTION READ ONLY",
        )
        .await?;
        if let Some(name) = ground.handed {
            execute::hand(&session.client, name, &task).await?;
        }
        let text = task.checks.plan_text().to_prepare();
        let statement = session.client.prepare(text).await;
        let opened = Opened {
            statement: statement.map_err(|e| fault::prepare(&e))?,
            look: look.clone(),
            coming: None,
        };
        let mut rows = KeptRows::default();
        execute::answer(session, ground.schema, opened, &task, None, &mut rows).await?;
        // Its locks are taken: a definition that came after the snapshot is seen from another session.
        let outside = self.stage.outside;
        outside
            .verify(&session.client, ground.schema, &task)
            .await?;
        run_ours(
            session,
            "ROLLBACK TO SAVEPOINT palisade_look; RELEASE SAVEPOINT palisade_look",
        )
        .await?;
        Ok(rows.0)
    }
}

async fn run_ours(session: &Session, sql: &str) -> Result<(), BackendError> {
    let ran = session.client.batch_execute(sql).await;
    ran.map_err(|e| fault::engine(&e))
}

/// Lends the state that a session's transaction sees.
async fn export(client: &Client) -> Result<Snapshot, BackendError> {
    let sql = format!("SELECT pg_catalog.pg_export_snapshot(), {NEXT_GROUP}");
    let row = client
        .query_one(&sql, &[])
        .await
        .map_err(|e| fault::engine(&e))?;
    let id: String = row.try_get(0).map_err(|e| fault::engine(&e))?;
    if !id.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        return Err(BackendError::unavailable(
            "the server names a snapshot oddly",
        ));
    }
    Ok(Snapshot {
        id,
        next_group: row.try_get(1).map_err(|e| fault::engine(&e))?,
    })
}

/// The id of the next group of lockers, as a number below [`ROUND`].
const NEXT_GROUP: &str =
    "((pg_catalog.mxid_age('1'::pg_catalog.xid)::pg_catalog.int8 + 1 + 4294967296) % 4294967296)";

/// What there is to know of a table by its id: its schema, the table that it is a part of, whether it inherits otherwise, and whether
/// the account sees only some of its rows.
const ABOUT: &str = "SELECT n.nspname::pg_catalog.text, \
     CASE WHEN c.relispartition THEN pg_catalog.pg_partition_root(c.oid)::pg_catalog.oid END, \
     NOT c.relispartition AND EXISTS (SELECT 1 FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid), \
     pg_catalog.row_security_active(c.oid) \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1";

/// How many rows of each table this session has written, rolled back ones too, since it last told the server's statistics.
async fn count_written(client: &Client) -> Result<HashMap<u32, i64>, BackendError> {
    let sql = "SELECT pg_catalog.current_setting('track_counts') = 'on', s.relid, \
         (s.n_tup_ins + s.n_tup_upd + s.n_tup_del)::pg_catalog.int8 \
         FROM (SELECT 1) AS one LEFT JOIN pg_catalog.pg_stat_xact_all_tables s \
         ON s.n_tup_ins + s.n_tup_upd + s.n_tup_del > 0";
    let rows = client
        .query(sql, &[])
        .await
        .map_err(|e| fault::engine(&e))?;
    let mut counts = HashMap::new();
    let read = |e: tokio_postgres::Error| fault::engine(&e);
    for row in &rows {
        if !row.try_get::<_, bool>(0).map_err(read)? {
            return Err(BackendError::not_previewable(
                "the server does not count changed rows; its operator sets track_counts to on",
            ));
        }
        if let Some(oid) = row.try_get::<_, Option<u32>>(1).map_err(read)? {
            counts.insert(oid, row.try_get(2).map_err(read)?);
        }
    }
    Ok(counts)
}

/// How much was read.
#[derive(Default)]
struct Room {
    rows: usize,
    bytes: usize,
}

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), BackendError> {
        self.rows = self.rows.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        // Each row can be read before and after.
        if self.rows > 2 * MAX_ROWS {
            return Err(BackendError::new(
                BackendErrorKind::AffectedRows,
                format!("a change that is looked at touches at most {MAX_ROWS} rows"),
            ));
        }
        match self.bytes > MAX_BYTES {
            true => Err(too_large()),
            false => Ok(()),
        }
    }
}

fn too_large() -> BackendError {
    BackendError::new(
        BackendErrorKind::Resource,
        format!("the rows of a change that is looked at have at most {MAX_BYTES} bytes"),
    )
}

/// The rows of a table that are different.
async fn find_rows(
    (here, beside): (&Client, &Client),
    table: &Written<'_>,
    snapshot: &Snapshot,
    room: &mut Room,
) -> Result<Vec<RowDifference>, BackendError> {
    let row = here
        .query_one(
            "SELECT (pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text::pg_catalog.numeric % 4294967296)::pg_catalog.int8",
            &[],
        )
        .await
        .map_err(|e| fault::engine(&e))?;
    let own: Option<i64> = row.try_get(0).map_err(|e| fault::engine(&e))?;
    let Some(own) = own else {
        return Ok(Vec::new());
    };
    let since = |column: &str, first: i64| {
        format!("((r.{column}::pg_catalog.text::pg_catalog.int8 - {first} + {ROUND}) % {ROUND})")
    };
    let new = format!("{} < {}", since("xmin", own), ROUND / 2);
    let group = snapshot.next_group;
    let gone = format!(
        "r.xmax::pg_catalog.text <> '0' AND ({} < {} OR {} < ({NEXT_GROUP} - {group} + {ROUND}) % {ROUND})",
        since("xmax", own),
        ROUND / 2,
        since("xmax", group),
    );
    let mut after = table.read(here, &new, room).await?;
    let mut before = table.read(beside, &gone, room).await?;
    for place in table.find_present(beside, after.keys()).await? {
        after.remove(&place);
    }
    for place in table.find_present(here, before.keys()).await? {
        before.remove(&place);
    }
    Ok(pair_rows(
        table.relation,
        before.into_values(),
        after.into_values(),
    ))
}

impl Written<'_> {
    fn source_clause(&self) -> String {
        let name = |name: &str| Dialect::Postgres.identifier(name);
        format!(
            "FROM {}{}.{} AS r",
            if self.is_partitioned { "" } else { "ONLY " },
            name(&self.relation.schema),
            name(&self.relation.name)
        )
    }

    /// The row versions that `client` sees and `condition` chooses.
    async fn read(
        &self,
        client: &Client,
        condition: &str,
        room: &mut Room,
    ) -> Result<Versions, BackendError> {
        let columns = self.relation.columns.iter();
        let columns = columns.map(|c| format!("r.{}", Dialect::Postgres.identifier(&c.name)));
        let parts: Vec<String> = self.parts.iter().map(u32::to_string).collect();
        let sql = format!(
            "SELECT r.ctid::pg_catalog.text, r.tableoid, {} {} WHERE r.tableoid IN ({}) AND {condition} LIMIT {}",
            columns.collect::<Vec<_>>().join(", "),
            self.source_clause(),
            parts.join(", "),
            2 * MAX_ROWS + 1
        );
        let statement = client
            .prepare(&sql)
            .await
            .map_err(|e| unreadable(&e, self.relation))?;
        let readings: Vec<Reading> = statement
            .columns()
            .iter()
            .map(|c| Reading::new(c.type_()))
            .collect();
        let found = client
            .simple_query(&sql)
            .await
            .map_err(|e| unreadable(&e, self.relation))?;
        let mut versions = Versions::new();
        for message in found {
            let SimpleQueryMessage::Row(row) = message else {
                continue;
            };
            let (cells, bytes) = execute::cells(&row, &readings)?;
            room.take(bytes)?;
            let mut cells = cells.into_iter();
            let place = match (cells.next(), cells.next()) {
                (Some(Value::Text(place)), Some(Value::Integer(table))) => {
                    let place = String::from_utf8_lossy(&place).into_owned();
                    u32::try_from(table).ok().map(|table| (table, place))
                }
                _ => None,
            };
            let place =
                place.ok_or_else(|| BackendError::unavailable("the server told no row's place"))?;
            versions.insert(place, cells.collect());
        }
        Ok(versions)
    }

    /// Which of these row versions `client` sees.
    async fn find_present(
        &self,
        client: &Client,
        places: impl Iterator<Item = &Place>,
    ) -> Result<Vec<Place>, BackendError> {
        let asked: HashSet<&Place> = places.collect();
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let list: Vec<String> = asked
            .iter()
            .map(|(_, place)| format!("\"{place}\""))
            .collect();
        let list = format!("{{{}}}", list.join(","));
        let sql = format!(
            "SELECT r.tableoid, r.ctid::pg_catalog.text {} \
             WHERE r.ctid = ANY (CAST(CAST($1 AS pg_catalog.text) AS pg_catalog.tid[]))",
            self.source_clause()
        );
        let rows = client
            .query_typed(&sql, &[(&list as &(dyn ToSql + Sync), Type::TEXT)])
            .await
            .map_err(|e| unreadable(&e, self.relation))?;
        let mut present = Vec::new();
        for row in &rows {
            let read = |e: tokio_postgres::Error| fault::engine(&e);
            let place: Place = (row.try_get(0).map_err(read)?, row.try_get(1).map_err(read)?);
            if asked.contains(&place) {
                present.push(place);
            }
        }
        Ok(present)
    }
}

/// Why rows of `relation` cannot be read: most of all, for the lack of a grant, which the operator is told.
fn unreadable(error: &tokio_postgres::Error, relation: &Relation) -> BackendError {
    let fault = fault::engine(error);
    let is_denied = error
        .as_db_error()
        .is_some_and(|db| db.code().code() == "42501");
    match is_denied {
        true => BackendError::new(
            BackendErrorKind::NotGranted,
            format!(
                "a change in steps is shown by whole rows, and the account may not read those of {0}; for changes in steps: GRANT SELECT ON {0} TO the account",
                relation.uid
            ),
        ),
        false => fault,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_change_is_run_again_where_an_idle_session_was_gone() {
        let gone = BackendError::unavailable("gone");
        let late = BackendError::out_of_time();
        let attempt = |is_first, was_idle, has_run| Attempt {
            is_first,
            was_idle,
            has_run,
        };
        for (attempt, error, expected) in [
            (attempt(true, true, false), Some(&gone), true),
            (attempt(true, true, false), Some(&late), false),
            (attempt(true, true, false), None, false),
            (attempt(false, true, false), Some(&gone), false),
            (attempt(true, false, false), Some(&gone), false),
            (attempt(true, true, true), Some(&gone), false),
        ] {
            assert_eq!(attempt.may_run_again(error), expected, "{attempt:?}");
        }
    }

    #[test]
    fn rows_and_bytes_may_be_as_many_as_the_limits_say() {
        let mut room = Room::default();
        for _ in 0..2 * MAX_ROWS {
            room.take(0).unwrap();
        }
        assert_eq!(
            room.take(0).unwrap_err().kind,
            BackendErrorKind::AffectedRows
        );
        let mut room = Room::default();
        room.take(MAX_BYTES).unwrap();
        assert_eq!(room.take(1).unwrap_err().kind, BackendErrorKind::Resource);
    }
}
