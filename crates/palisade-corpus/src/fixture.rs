//! What the databases of cases have in common, whatever engine runs them.

use std::{future::Future, pin::Pin, sync::Arc};

use palisade::{
    answer::{Action, Marker, ScanSession},
    catalog::Catalog,
    guard::Backend,
    rewrite::RewrittenStatement,
    value::{Params, RowSink as _, Value},
};
use serde_json::Value as Json;

use crate::case::Case;

/// A database that holds the rows of a catalog's script, and is gone with this value.
pub(crate) trait Fixture: Send + Sync {
    /// What it holds.
    fn catalog(&self) -> &Catalog;

    /// A backend over it, which reads; of a [`copy`](Self::copy), it changes rows too.
    fn backend(&self) -> Arc<dyn Backend>;

    /// The same tables and rows in another database, to be changed.
    fn copy(&self) -> Result<Box<dyn Fixture>, String>;

    /// What the engine gives for `sql`, without the firewall.
    fn query(&self, sql: &str, params: &Params) -> Result<Bare, String>;

    /// Runs each of `statements` on it, one after the other: whether the engine took it.
    fn try_each(&self, statements: &[String]) -> Result<Vec<bool>, String>;

    /// Waits for what the backend does.
    fn wait(&self, future: Pin<Box<dyn Future<Output = ()> + Send + '_>>);

    /// What the database is called in statements, where that is another name than the catalog's in every run.
    fn own_name(&self) -> Option<&str>;
}

/// The answer of a bare engine.
pub(crate) struct Bare {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Bare {
    /// The rows as a case has them.
    pub(crate) fn json(self) -> Vec<Vec<Json>> {
        let rows = self.rows.into_iter();
        rows.map(|row| row.into_iter().map(json).collect())
            .collect()
    }

    /// The same in the form of an answer to `case`.
    pub(crate) fn answer(
        self,
        case: &Case,
        statement: &RewrittenStatement,
    ) -> Result<Json, String> {
        let names: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let mut scan = ScanSession::new(
            statement.scan_plan(),
            Action::Flag,
            Marker::from_bytes([0; 16]),
        );
        let mut flow = scan.columns(&names);
        let mut rows = self.rows.into_iter();
        while flow.is_continue()
            && let Some(row) = rows.next()
        {
            flow = scan.row(row);
        }
        let answer = scan.finish().map_err(|rejection| {
            format!(
                "case `{}`: {rejection}: {}; its columns are {names:?}",
                case.name,
                rejection.operator_detail().unwrap_or("")
            )
        })?;
        serde_json::to_value(answer).map_err(|error| error.to_string())
    }
}

fn json(cell: Value) -> Json {
    match cell {
        Value::Null => Json::Null,
        Value::Bool(is_true) => Json::from(is_true),
        Value::Integer(number) => Json::from(number),
        Value::Real(number) => Json::from(number),
        Value::Text(text) => Json::from(String::from_utf8_lossy(&text)),
        Value::Blob(bytes) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            Json::from(digits.collect::<String>())
        }
    }
}
