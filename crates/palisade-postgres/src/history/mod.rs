//! History of tables: what the backend asks of it.

pub(crate) mod script;
#[cfg(test)]
mod tests;

use std::time::Duration;

use palisade::{
    catalog::{Catalog, Companion, Relation, RelationKind, TypeClass},
    dialect::Dialect,
    guard::{BackendError, BackendErrorKind},
    past::{CommittedState, FROM, HistoryOrder, Label, LabelStanding, TO},
    value::Value,
};
use tokio::time::sleep;
use tokio_postgres::{Client, SimpleQueryMessage};

use self::script::{
    HistoryTable, LABEL_QUERY, POSITION_QUERY, SCHEMA, SETTLED_QUERY, standing_query,
};
use crate::{fault, params};

/// How often it is looked whether the log is on disk, and how many times.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: u32 = 250;

/// After so many, the server is given something to write.
const PATIENT_LOOKS: u32 = 5;

/// The names of a table that its script needs.
struct Named {
    columns: Vec<String>,
    key: Vec<String>,
}

impl Named {
    fn of_relation(relation: &Relation) -> Self {
        let name = |index: &u16| Some(relation.column(*index)?.name.to_string());
        Self {
            columns: (relation.columns.iter())
                .map(|column| column.name.to_string())
                .collect(),
            key: relation.primary_key.iter().filter_map(name).collect(),
        }
    }

    fn table<'a>(&'a self, relation: &'a Relation) -> HistoryTable<'a> {
        HistoryTable {
            schema: &relation.schema,
            table: &relation.name,
            columns: &self.columns,
            key: &self.key,
        }
    }
}

/// The statements that do to the history of `relation` what is ordered.
pub(crate) fn write_script(relation: &Relation, order: &HistoryOrder) -> Result<String, String> {
    let named = Named::of_relation(relation);
    let table = named.table(relation);
    let script = match order {
        HistoryOrder::Enable { account } => script::enable_script(&table, account.as_deref()),
        HistoryOrder::Disable => script::disable_script(&table),
        HistoryOrder::Prune(label) => match label.state() {
            CommittedState::Snapshot { epoch: _, snapshot } => {
                script::prune_script(&table, snapshot)
            }
            CommittedState::Sequence { .. } | CommittedState::Counter { .. } => {
                return Err("the label is of another engine".to_owned());
            }
        },
    };
    script.map_err(|fault| format!("`{}`: {fault}", relation.database_name()))
}

/// The companion of each of `relations` that has one with all of its columns, by the table's schema and name.
pub(crate) async fn read_companions(
    client: &Client,
    relations: &[palisade::catalog::RelationDef],
) -> Result<Vec<(String, String, Companion)>, tokio_postgres::Error> {
    let sql = format!(
        "SELECT c.relname::pg_catalog.text, ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_attribute a \
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = '{SCHEMA}' AND c.relkind = 'r'"
    );
    let mut found = Vec::new();
    for row in client.query_typed(&sql, &[]).await? {
        let name: String = row.try_get(0)?;
        let columns: Vec<String> = row.try_get(1)?;
        let table = relations.iter().find(|def| {
            def.kind == RelationKind::Table
                && format!("{}.{}", def.schema, def.name) == name
                && def
                    .columns
                    .iter()
                    .map(|column| column.name.as_str())
                    .chain([FROM, TO])
                    .eq(columns.iter().map(String::as_str))
        });
        if let Some(table) = table {
            let companion = Companion {
                schema: SCHEMA.to_owned(),
                name,
            };
            found.push((table.schema.clone(), table.name.clone(), companion));
        }
    }
    Ok(found)
}

/// The state of committed transactions by now, once the log of all of them is on disk. None on a standby, whose snapshots leave out some.
pub(crate) async fn take_label(client: &Client) -> Result<Option<Label>, BackendError> {
    let Some(text) = one_text(client, LABEL_QUERY).await? else {
        return Ok(None);
    };
    let label = Label::parse(Dialect::Postgres, &text).ok_or_else(|| {
        BackendError::unavailable(format!("the server gave a label that is none: {text}"))
    })?;
    let position = one_text(client, POSITION_QUERY).await?.unwrap_or_default();
    let is_position = position.bytes().all(|b| b.is_ascii_hexdigit() || b == b'/');
    let settled = SETTLED_QUERY.replace("$1", &format!("'{position}'"));
    for look in 0..LOOKS {
        // What is written without a commit waits for the next one. A transaction of ours that has an id is one, and the server's log
        // writer does the rest.
        if look == PATIENT_LOOKS {
            one_text(client, "SELECT pg_catalog.pg_current_xact_id()").await?;
        }
        if is_position && one_text(client, &settled).await?.as_deref() == Some("t") {
            return Ok(Some(label));
        }
        sleep(LOOK).await;
    }
    Err(BackendError::new(
        BackendErrorKind::Conflict,
        "the server's log was not on disk in time; a label taken now could be lost",
    ))
}

/// Whether `label` is of this server, and the history in `companions` reaches back to it.
pub(crate) async fn check_label(
    client: &Client,
    catalog: &Catalog,
    label: &Label,
    companions: &[Companion],
) -> Result<LabelStanding, BackendError> {
    let CommittedState::Snapshot { epoch, snapshot } = label.state() else {
        return Ok(LabelStanding::Foreign);
    };
    let now = one_text(client, LABEL_QUERY).await?;
    let now = now.and_then(|text| Label::parse(Dialect::Postgres, &text));
    match now.as_ref().map(Label::state) {
        // A server whose files are older than the label has not given out its numbers yet.
        Some(CommittedState::Snapshot {
            epoch: ours,
            snapshot: last,
        }) if ours == epoch && read_end(snapshot) <= read_end(last) => {}
        Some(_) | None => return Ok(LabelStanding::Foreign),
    }
    let system = epoch.split('.').next().unwrap_or_default();
    for companion in companions {
        let found = companion.name.split_once('.');
        let found = found.and_then(|(schema, name)| catalog.find(schema, name));
        let Some(relation) = found else {
            return Ok(LabelStanding::BeforeHistory);
        };
        let named = Named::of_relation(relation);
        let query = standing_query(&named.table(relation), system, snapshot);
        let query = query.map_err(|fault| BackendError::unavailable(fault.to_string()))?;
        if one_text(client, &query).await?.as_deref() != Some("t") {
            return Ok(LabelStanding::BeforeHistory);
        }
    }
    Ok(LabelStanding::Answers)
}

/// The first transaction that a snapshot has not seen begin.
fn read_end(snapshot: &str) -> Option<u64> {
    snapshot.split(':').nth(1)?.parse().ok()
}

/// The keys of rows of `relation` whose state at the second label, or by now, is not that of the first.
pub(crate) async fn list_changed_keys(
    client: &Client,
    relation: &Relation,
    companion: &Companion,
    (from, to): (&Label, Option<&Label>),
    most: u32,
) -> Result<Vec<Vec<Value>>, BackendError> {
    let quote = |name: &str| Dialect::Postgres.identifier(name);
    let snapshot = |label: &Label| match label.state() {
        CommittedState::Snapshot { epoch: _, snapshot } => {
            format!("'{snapshot}'::pg_catalog.pg_snapshot")
        }
        // Of another engine: it is refused before.
        CommittedState::Sequence { .. } | CommittedState::Counter { .. } => {
            "NULL::pg_catalog.pg_snapshot".to_owned()
        }
    };
    let first = snapshot(from);
    let is_between = |column: &str| {
        let since = format!(
            "{column} >= pg_catalog.pg_snapshot_xmin({first}) AND NOT pg_catalog.pg_visible_in_snapshot({column}, {first})"
        );
        match to {
            Some(to) => format!(
                "{since} AND pg_catalog.pg_visible_in_snapshot({column}, {})",
                snapshot(to)
            ),
            None => since,
        }
    };
    let keys = relation
        .primary_key
        .iter()
        .filter_map(|index| relation.column(*index));
    let names: Vec<String> = keys.clone().map(|key| quote(&key.name)).collect();
    let texts: Vec<String> = names
        .iter()
        .map(|name| format!("{name}::pg_catalog.text"))
        .collect();
    let sql = format!(
        "SELECT {texts} FROM (SELECT {names} FROM {table} WHERE {began} UNION SELECT {names} FROM {table} WHERE {ended} LIMIT {most}) AS k",
        table = format!("{}.{}", quote(&companion.schema), quote(&companion.name)),
        // Each by an index of its own: joined by OR, all of the history is read.
        began = is_between(FROM),
        ended = is_between(TO),
        most = most.saturating_add(1),
        texts = texts.join(", "),
        names = names.join(", "),
    );
    let classes: Vec<TypeClass> = keys.map(|key| key.class).collect();
    let mut all = Vec::new();
    for message in client
        .simple_query(&sql)
        .await
        .map_err(|e| fault::engine(&e))?
    {
        if let SimpleQueryMessage::Row(row) = message {
            let cells = (0..).zip(&classes);
            let cells = cells.map(|(at, class)| read_key(row.get(at), *class));
            all.push(cells.collect());
        }
    }
    Ok(all)
}

/// The transactions by which a row of `relation`, or any of its rows, came to another state: the newest `most`, newest first.
pub(crate) async fn list_writes(
    client: &Client,
    relation: &Relation,
    companion: &Companion,
    key: Option<&[Value]>,
    most: u32,
) -> Result<Vec<u64>, BackendError> {
    let quote = |name: &str| Dialect::Postgres.identifier(name);
    let table = format!("{}.{}", quote(&companion.schema), quote(&companion.name));
    let columns = relation
        .primary_key
        .iter()
        .filter_map(|index| relation.column(*index));
    let is_row = match key {
        Some(_) => {
            let each = (1..).zip(columns);
            let each = each.map(|(number, column)| format!("{} = ${number}", quote(&column.name)));
            each.collect::<Vec<_>>().join(" AND ")
        }
        None => "true".to_owned(),
    };
    // Numbers of transactions fit, as those of the server do.
    let number = |column: &str| format!("{column}::pg_catalog.text::pg_catalog.int8");
    let sql = format!(
        "SELECT {from} FROM {table} WHERE {is_row} UNION SELECT {to} FROM {table} WHERE {TO} IS NOT NULL AND {is_row} \
         ORDER BY 1 DESC LIMIT {most}",
        from = number(FROM),
        to = number(TO),
    );
    let statement = client.prepare(&sql).await.map_err(|e| fault::engine(&e))?;
    let bound = params::bind(statement.params(), key.unwrap_or_default())?;
    let bound: Vec<_> = bound.iter().map(|(value, _)| value as _).collect();
    let rows = client.query(&statement, &bound);
    let rows = rows.await.map_err(|e| fault::engine(&e))?;
    let ids = rows.iter().map(|row| row.try_get::<_, i64>(0));
    let ids: Result<Vec<i64>, _> = ids.collect();
    let ids = ids.map_err(|e| fault::engine(&e))?;
    Ok(ids
        .into_iter()
        .filter_map(|id| u64::try_from(id).ok())
        .collect())
}

/// A value of a key, as decided queries bind it.
fn read_key(text: Option<&str>, class: TypeClass) -> Value {
    let Some(text) = text else {
        return Value::Null;
    };
    match class {
        TypeClass::Integer => text
            .parse()
            .map_or_else(|_| Value::text(text), Value::Integer),
        TypeClass::Boolean => Value::Bool(text == "true"),
        TypeClass::Number
        | TypeClass::Decimal
        | TypeClass::Text
        | TypeClass::Padded
        | TypeClass::Enum
        | TypeClass::Uuid
        | TypeClass::Blob
        | TypeClass::Date
        | TypeClass::Time
        | TypeClass::Timestamp
        | TypeClass::TimestampTz
        | TypeClass::Interval
        | TypeClass::Json
        | TypeClass::Network
        | TypeClass::Other => Value::text(text),
    }
}

/// The first cell of the first row, as text.
async fn one_text(client: &Client, sql: &str) -> Result<Option<String>, BackendError> {
    let messages = client
        .simple_query(sql)
        .await
        .map_err(|e| fault::engine(&e))?;
    let mut rows = messages.iter();
    Ok(rows.find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}
