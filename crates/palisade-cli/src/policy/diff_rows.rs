//! `palisade policy diff --rows`: how many rows of a database come and go where policies give way to others. Never a value.

use std::{collections::BTreeMap, sync::Arc};

use palisade::{
    audit::NoAudit,
    code::{Code, Fault, Stage},
    firewall::Firewall,
    guard::{Guard, Request},
    limits::Limits,
    session::Session,
};
use palisade_corpus::AskedStatement;
use palisade_host::Machine;
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::{
    args::policy::DiffArguments,
    database::Access,
    exit::Failure,
    host::{self, Driver},
    human,
    policies::Policies,
    setup::Setup,
};

/// Rows of an answer that are compared at most.
const MOST: u64 = 100_000;

/// What of an answer is another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RowChange {
    pub(crate) principal: String,
    pub(crate) sql: String,
    /// Rows of the answer by the old policies; none where it was refused.
    pub(crate) old: Option<u64>,
    /// Rows of the answer by the new ones.
    pub(crate) new: Option<u64>,
    /// Rows that there are by the new policies alone.
    pub(crate) come: u64,
    /// Rows that there were by the old ones alone.
    pub(crate) go: u64,
    /// Whether there may be more, beyond what is compared.
    pub(crate) is_cut: bool,
    /// Why rows could not be counted: the code of what failed.
    pub(crate) not_counted: Option<&'static str>,
}

/// What the statements of `asked` give of the rows in the database `name` by either folder, where it is not the same.
pub(crate) fn compare(
    arguments: &DiffArguments,
    name: &str,
    asked: &[AskedStatement],
) -> Result<Vec<RowChange>, Failure> {
    let (setup, database) = Setup::without_configuration(
        name,
        &arguments.secret,
        Some(&arguments.old),
        "palisade policy diff old new --statements asked.jsonl --rows sqlite:demo.db",
    )?;
    let runtime = host::runtime()?;
    let backend = database.open(Access::Read, Driver::Own(&runtime))?;
    let limits = Limits {
        max_rows: MOST,
        ..setup.limits.clone()
    };
    let old = setup
        .firewall(backend.catalog().clone(), Access::Read)?
        .limited(limits)
        .map_err(|error| setup.policies.failure(&error))?;
    // With the secret of the other, so that what both hash is equal.
    let policies = Policies::read(&arguments.new)?;
    let new = old
        .renewed(backend.catalog().clone(), policies.sources.clone())
        .map_err(|error| policies.failure(&error))?;
    let guard = |firewall: Firewall| {
        let (host, audit) = (Arc::new(Machine::new()), Arc::new(NoAudit));
        Guard::over(Arc::new(firewall), Arc::clone(&backend), host, audit)
    };
    let (old, new) = (guard(old), guard(new));
    let mut changes = Vec::new();
    for statement in asked {
        let answers = [&old, &new].map(|guard| read(guard, &runtime, statement));
        let [before, after] = answers;
        let (before, after) = (before?, after?);
        let (was, is) = (before.rows(), after.rows());
        let change = RowChange {
            principal: statement.principal.to_string(),
            sql: statement.sql.clone(),
            old: was.map(Rows::count),
            new: is.map(Rows::count),
            come: Rows::count_beyond(is, was),
            go: Rows::count_beyond(was, is),
            is_cut: [was, is].into_iter().flatten().any(|rows| rows.is_cut),
            not_counted: before.failure().or(after.failure()),
        };
        let differs = change.come + change.go > 0 || was.is_some() != is.is_some();
        if differs || change.not_counted.is_some() {
            changes.push(change);
        }
    }
    Ok(changes)
}

/// What a gate gives for a statement.
enum Counted {
    Rows(Rows),
    /// It refuses the statement.
    Refused,
    /// It ran out of time, or failed in the database: this tells nothing of policies.
    Failed(Code),
}

impl Counted {
    fn rows(&self) -> Option<&Rows> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Refused | Self::Failed(_) => None,
        }
    }

    fn failure(&self) -> Option<&'static str> {
        match self {
            Self::Rows(_) | Self::Refused => None,
            Self::Failed(code) => Some(code.slug()),
        }
    }
}

/// How often each row of an answer is in it.
struct Rows {
    rows: BTreeMap<String, u64>,
    is_cut: bool,
}

impl Rows {
    fn count(&self) -> u64 {
        self.rows.values().sum()
    }

    /// How many of `these` are not in `those`, each as often as it is there more often.
    fn count_beyond(these: Option<&Self>, those: Option<&Self>) -> u64 {
        let Some(these) = these else { return 0 };
        let beyond = these.rows.iter().map(|(row, count)| {
            let there = those.and_then(|those| those.rows.get(row));
            count.saturating_sub(there.copied().unwrap_or_default())
        });
        beyond.sum()
    }
}

/// What a gate gives for `asked`.
fn read(guard: &Guard, runtime: &Runtime, asked: &AskedStatement) -> Result<Counted, Failure> {
    let session = Session::new(asked.principal.clone());
    let request = Request::statement(&asked.sql, &asked.params, &session);
    let (outcome, _) = runtime.block_on(guard.answer(request));
    let envelope = match outcome.into_result() {
        Ok(envelope) => envelope,
        Err(refusal) => {
            let code = refusal.rejection.code();
            return Ok(match (code.fault(), code.stage()) {
                (Fault::Statement, Stage::Decision) => Counted::Refused,
                (
                    Fault::Statement | Fault::Database | Fault::Configuration | Fault::Internal,
                    Stage::Decision | Stage::Execution,
                ) => Counted::Failed(code),
            });
        }
    };
    let answer = serde_json::to_value(envelope.answer())
        .map_err(|error| Failure::Internal(error.to_string()))?;
    let mut rows = BTreeMap::new();
    let found = answer.get("rows").and_then(serde_json::Value::as_array);
    for row in found.into_iter().flatten() {
        *rows.entry(row.to_string()).or_default() += 1;
    }
    Ok(Counted::Rows(Rows {
        rows,
        is_cut: envelope.answer().truncation().is_some(),
    }))
}

/// A line for each statement that gives other rows.
pub(crate) fn describe(changes: &[RowChange]) -> String {
    if changes.is_empty() {
        return "every statement gives the same rows\n".to_owned();
    }
    let mut out = String::new();
    for change in changes {
        if let Some(code) = change.not_counted {
            let told = format!("{}: {}: not counted, {code}", change.principal, change.sql);
            out.push_str(&format!("  {}\n", human::printable(&told)));
            continue;
        }
        let counted = match (change.old, change.new) {
            (None, Some(new)) => format!("permitted now, {new} rows"),
            (Some(old), None) => format!("refused now, {old} rows before"),
            (Some(old), Some(new)) => format!(
                "{} rows come, {} go ({old} before, {new} now)",
                change.come, change.go
            ),
            (None, None) => continue,
        };
        let cut = if change.is_cut { ", or more" } else { "" };
        let told = format!("{}: {}: {counted}{cut}", change.principal, change.sql);
        out.push_str(&format!("  {}\n", human::printable(&told)));
    }
    out
}
