//! Honest queries: permitted where everything may be read, and the rows the same.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use palisade::{
    code::Code, dialect::Dialect, firewall::Firewall, limits::Limits, rewrite::RewrittenStatement,
};

use crate::{
    args::{Arguments, Part},
    data::{self, BenignQuery},
    decide::{Verdict, decide},
    engine::{Database, Engines},
    fault::Fault,
    parallel, policies,
    record::{Judgement, Record, Rows},
};

/// Measures the honest queries, schema by schema.
///
/// # Errors
/// If the data cannot be read or a policy does not load.
pub(crate) fn evaluate(arguments: &Arguments, engines: &Engines) -> Result<Vec<Record>, Fault> {
    let rows = arguments.select_rows(
        data::rows::<BenignQuery>(&arguments.dir, Part::Benign)?,
        |row| (Some(row.engine), &row.family, &row.id),
    );
    let mut schemas: BTreeMap<(&'static str, String), (Dialect, Vec<BenignQuery>)> =
        BTreeMap::new();
    for row in rows {
        let key = (row.engine.name(), row.schema_id.clone());
        let (_, queries) = schemas
            .entry(key)
            .or_insert_with(|| (row.engine, Vec::new()));
        queries.push(row);
    }
    let schemas: Vec<_> = schemas.into_iter().collect();
    let records = parallel::map(
        "honest queries, schemas",
        &schemas,
        arguments.jobs,
        |schema| {
            let ((_, id), (engine, queries)) = schema;
            of_schema(arguments, engines, *engine, id, queries)
        },
    )?;
    Ok(records.into_iter().flatten().collect())
}

fn of_schema(
    arguments: &Arguments,
    engines: &Engines,
    engine: Dialect,
    schema: &str,
    queries: &[BenignQuery],
) -> Result<Vec<Record>, Fault> {
    let script = data::script(&arguments.dir, schema)?;
    let loaded = engines
        .for_dialect(engine)
        .load(schema, &script)
        .and_then(|database| database.catalog().map(|catalog| (database, catalog)));
    let (database, catalog) = match loaded {
        Ok(loaded) => loaded,
        Err(why) => {
            return Ok(queries
                .iter()
                .map(|query| Record {
                    judgement: Judgement::NotRun,
                    message: why.clone(),
                    ..blank(query)
                })
                .collect());
        }
    };
    // What bounds answers is not what is measured here; what bounds statements is.
    let limits = Limits {
        max_rows: 1_000_000,
        max_result_bytes: 1024 * 1024 * 1024,
        max_cell_bytes: 64 * 1024 * 1024,
        statement_timeout_ms: arguments.timeout,
        ..Limits::default()
    };
    let firewall = policies::read_everything(schema, catalog, limits)?;
    Ok(queries
        .iter()
        .map(|query| judge(arguments, &firewall, database.as_ref(), query))
        .collect())
}

fn judge(
    arguments: &Arguments,
    firewall: &Firewall,
    database: &dyn Database,
    query: &BenignQuery,
) -> Record {
    match decide(firewall, &query.sql, None) {
        Verdict::Allow(statement) => {
            let (rows, message) = if arguments.decisions_only || query.volatile {
                (Rows::NotCompared, String::new())
            } else {
                compare(arguments, database, query, &statement)
            };
            Record {
                judgement: Judgement::Right,
                rows,
                message,
                ..blank(query)
            }
        }
        Verdict::Reject(rejection) => {
            let mut message = match rejection.operator_detail() {
                Some(detail) => format!("{} [{detail}]", rejection.message()),
                None => rejection.message().to_owned(),
            };
            if arguments.originals
                && let Err(error) =
                    database.original(&query.sql, Duration::from_millis(arguments.timeout))
            {
                message = format!("the original fails: {error}; {message}");
            }
            Record {
                code: Some(rejection.code().slug()),
                message,
                ..blank(query)
            }
        }
        Verdict::Broken(message) => Record {
            code: Some(Code::Internal.slug()),
            message,
            ..blank(query)
        },
    }
}

fn compare(
    arguments: &Arguments,
    database: &dyn Database,
    query: &BenignQuery,
    statement: &Arc<RewrittenStatement>,
) -> (Rows, String) {
    let timeout = Duration::from_millis(arguments.timeout);
    let original = match database.original(&query.sql, timeout) {
        Ok(answer) => answer,
        // All of them ran when they were collected: a wrong setting here, and not to be hidden.
        Err(error) => return (Rows::Differ, format!("the original fails: {error}")),
    };
    let rewritten = match database.rewritten(statement) {
        Ok(answer) => answer,
        Err(error) => {
            return (
                Rows::Differ,
                format!(
                    "the rewritten fails: {error}; {}",
                    palisade::danger::parts(statement).sql
                ),
            );
        }
    };
    match original.difference(&rewritten, query.has_order_by == Some(true)) {
        None => (Rows::Equal, String::new()),
        Some(difference) => (
            Rows::Differ,
            format!("{difference}; {}", palisade::danger::parts(statement).sql),
        ),
    }
}

fn blank(query: &BenignQuery) -> Record {
    Record {
        part: Part::Benign,
        engine: Some(query.engine),
        family: query.family.clone(),
        category: match (query.realistic, query.strict_benign) {
            (true, true) => "realistic",
            (true, false) => "realistic, needs_policy",
            (false, true) => "synthetic",
            (false, false) => "synthetic, needs_policy",
        }
        .to_owned(),
        id: query.id.clone(),
        text: query.sql.clone(),
        judgement: Judgement::Wrong,
        rows: Rows::NotCompared,
        code: None,
        message: String::new(),
    }
}
