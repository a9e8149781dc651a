//! Attacks: refused, or run without showing what is protected.

use palisade::{
    code::Code,
    dialect::Dialect,
    firewall::{Decision, Firewall},
    guard::{BackendError, BackendErrorKind},
    limits::Limits,
    rewrite::RewrittenStatement,
    session::{Principal, Session},
    value::Params,
};

use crate::{
    answer::Answer,
    args::{Arguments, Part},
    data::{self, BypassCase, Canaries, Must, Oracle},
    engine::{Database, Engines},
    fault::Fault,
    parallel,
    policies::{self, Protection},
    record::{Judgement, Record, Rows},
};

/// Rows that reach the caller where an attack is on the limit of rows; the tables hold a few more.
const FEW_ROWS: u64 = 3;

/// Measures the attacks, engine by engine.
///
/// # Errors
/// If the data cannot be read or a policy does not load.
pub(crate) fn evaluate(arguments: &Arguments, engines: &Engines) -> Result<Vec<Record>, Fault> {
    let canaries = data::canaries(&arguments.dir)?;
    let mut cases = arguments.chosen(
        data::rows::<BypassCase>(&arguments.dir, Part::Bypass)?,
        |row| (Some(row.engine), &row.category, &row.id),
    );
    let mut groups = Vec::new();
    for dialect in Dialect::ALL {
        let (mine, rest) = cases.into_iter().partition(|case| case.engine == dialect);
        cases = rest;
        groups.push((dialect, mine));
    }
    groups.retain(|(_, cases): &(_, Vec<_>)| !cases.is_empty());
    let records = parallel::map(
        "attacks, engines",
        &groups,
        arguments.jobs,
        |(dialect, cases)| of_engine(arguments, engines, *dialect, cases, &canaries),
    )?;
    Ok(records.into_iter().flatten().collect())
}

/// The attacked database and its twins.
struct Stand {
    /// Firewalls over the first database.
    secrets: Firewall,
    tenant: Firewall,
    /// As in the data.
    first: Box<dyn Database>,
    /// With other secrets in `users.ssn`.
    other_secrets: Box<dyn Database>,
    /// With other rows of the tenants that are not to be seen.
    other_tenants: Box<dyn Database>,
}

fn of_engine(
    arguments: &Arguments,
    engines: &Engines,
    dialect: Dialect,
    cases: &[BypassCase],
    canaries: &Canaries,
) -> Result<Vec<Record>, Fault> {
    let schema = format!("bypass__{dialect}");
    let script = data::script(&arguments.dir, &schema)?;
    let engine = engines.of(dialect);
    let load = || {
        let first = engine.load(&schema, &script)?;
        let catalog = first.catalog()?;
        let other_secrets = engine.load(&schema, &with_other_secrets(&script, canaries))?;
        let other_tenants = engine.load(&schema, &with_other_tenants(&script))?;
        Ok::<_, String>((first, catalog, other_secrets, other_tenants))
    };
    let (first, catalog, other_secrets, other_tenants) = match load() {
        Ok(databases) => databases,
        Err(why) => {
            return Ok(cases
                .iter()
                .map(|case| Record {
                    judgement: Judgement::NotRun,
                    message: why.clone(),
                    ..blank(case)
                })
                .collect());
        }
    };
    let limits = Limits {
        statement_timeout_ms: arguments.attack_timeout,
        ..Limits::default()
    };
    let firewall = |protection| {
        let (catalog, limits) = (catalog.clone(), limits.clone());
        policies::attacked(&schema, catalog, protection, &arguments.mask, limits)
    };
    let stand = Stand {
        secrets: firewall(Protection::Secrets)?,
        tenant: firewall(Protection::Tenant)?,
        first,
        other_secrets,
        other_tenants,
    };
    Ok(cases
        .iter()
        .map(|case| stand.judge(arguments, case, canaries))
        .collect())
}

/// The second data set: every number of `users` another one.
fn with_other_secrets(script: &str, canaries: &Canaries) -> String {
    let numbers = canaries
        .canaries
        .keys()
        .filter(|secret| secret.starts_with(|c: char| c.is_ascii_digit()));
    numbers
        .zip(&canaries.variant_b_ssn)
        .fold(script.to_owned(), |script, (number, other)| {
            script.replace(number, other)
        })
}

/// A third data set: the users of tenant 2 have other names.
fn with_other_tenants(script: &str) -> String {
    [
        ("Cid", "Carl"),
        ("cid@", "carl@"),
        ("Dee", "Dora"),
        ("dee@", "dora@"),
    ]
    .iter()
    .fold(script.to_owned(), |script, (name, other)| {
        script.replace(name, other)
    })
}

impl Stand {
    fn judge(&self, arguments: &Arguments, case: &BypassCase, canaries: &Canaries) -> Record {
        let session = Session::new(Principal::new("Agent", "eval"));
        let firewall = match case.oracle {
            Oracle::Tenant => &self.tenant,
            Oracle::Canary
            | Oracle::Differential
            | Oracle::DenyOnly
            | Oracle::NoSideEffect
            | Oracle::Resource
            | Oracle::Review => &self.secrets,
        };
        let mut limits = firewall.limits().clone();
        if case.must == Must::Neutralise && case.oracle == Oracle::Resource {
            limits.max_rows = FEW_ROWS;
        }
        let forms: Vec<&str> = canaries
            .canaries
            .values()
            .flatten()
            .map(String::as_str)
            .collect();
        match firewall.check_within(&case.sql, &Params::None, &session, &limits) {
            Ok(Decision::Reject(rejection)) => {
                let shown = leak(&forms, case, |form| rejection.message().contains(form));
                Record {
                    judgement: right(shown.is_none()),
                    code: Some(rejection.code().slug()),
                    message: shown.unwrap_or_else(|| rejection.message().to_owned()),
                    ..blank(case)
                }
            }
            Ok(Decision::Allow(statement)) => {
                let caught = if arguments.decisions_only {
                    decided(case)
                } else {
                    self.ran(case, &statement, &forms)
                };
                let (judgement, message) = match caught {
                    Ok(how) => (Judgement::Right, how),
                    Err(how) => (Judgement::Wrong, format!("{how}; {}", statement.sql())),
                };
                Record {
                    judgement,
                    message,
                    ..blank(case)
                }
            }
            Err(error) => Record {
                code: Some(Code::Internal.slug()),
                message: error.to_string(),
                ..blank(case)
            },
        }
    }

    /// How a permitted attack was caught when it ran, or how it was not.
    fn ran(
        &self,
        case: &BypassCase,
        statement: &RewrittenStatement,
        forms: &[&str],
    ) -> Result<String, String> {
        if case.must == Must::Deny {
            if case.oracle != Oracle::Resource {
                return decided(case);
            }
            return match self.first.rewritten(statement) {
                Ok(answer) => stopped_at_rows(&answer, statement),
                Err(error) => stopped(&error).ok_or_else(|| format!("permitted; {error}")),
            };
        }
        let first = self.first.rewritten(statement);
        if let Err(error) = &first
            && case.oracle == Oracle::Resource
            && let Some(how) = stopped(error)
        {
            return Ok(how);
        }
        if let Ok(answer) = &first {
            if let Some(shown) = leak(forms, case, |form| answer.holds(form)) {
                return Err(shown);
            }
            let most = statement.limits().max_rows.saturating_add(1);
            if u64::try_from(answer.rows.len()).unwrap_or(u64::MAX) > most {
                return Err(format!("{} rows, at most {most} wanted", answer.rows.len()));
            }
        }
        for (what, database) in [
            ("secrets", &self.other_secrets),
            ("rows of other tenants", &self.other_tenants),
        ] {
            if what != "secrets" && case.oracle != Oracle::Tenant {
                continue;
            }
            let second = database.rewritten(statement);
            if let Some(difference) = between(&first, &second) {
                return Err(format!("differs with other {what}: {difference}"));
            }
        }
        Ok(match &first {
            Ok(_) => "ran and showed nothing".to_owned(),
            Err(error) => format!("the engine refused: {error}"),
        })
    }
}

/// The verdict on a permitted attack that is not run.
fn decided(case: &BypassCase) -> Result<String, String> {
    match case.must {
        Must::Deny => Err("permitted".to_owned()),
        Must::Neutralise => Ok("permitted, not run".to_owned()),
    }
}

/// What differs between the answers of two data sets, to whoever sees only what an agent sees.
fn between(
    first: &Result<Answer, BackendError>,
    second: &Result<Answer, BackendError>,
) -> Option<String> {
    match (first, second) {
        (Ok(first), Ok(second)) => first.difference(second, true),
        (Err(first), Err(second)) => (first.kind != second.kind)
            .then(|| format!("{:?} became {:?}", first.kind, second.kind)),
        (Ok(_), Err(error)) => Some(format!("rows became {error}")),
        (Err(error), Ok(_)) => Some(format!("{error} became rows")),
    }
}

/// Which limit stopped it, if one did.
fn stopped(error: &BackendError) -> Option<String> {
    match error.kind {
        BackendErrorKind::Timeout => Some("stopped by the limit on time".to_owned()),
        BackendErrorKind::Resource => Some("stopped by the limit on memory".to_owned()),
        BackendErrorKind::Rejected
        | BackendErrorKind::SecondLock
        | BackendErrorKind::Unavailable => None,
    }
}

fn stopped_at_rows(answer: &Answer, statement: &RewrittenStatement) -> Result<String, String> {
    let rows = u64::try_from(answer.rows.len()).unwrap_or(u64::MAX);
    if rows > statement.limits().max_rows {
        Ok("stopped by the limit on rows".to_owned())
    } else {
        Err(format!("permitted, ran to its end with {rows} rows"))
    }
}

/// The first form of a secret that shows. One that the statement itself spells tells nothing by
/// standing in the answer; whether it stands there in both data sets does, and that is compared.
fn leak(forms: &[&str], case: &BypassCase, shows: impl Fn(&str) -> bool) -> Option<String> {
    forms
        .iter()
        .find(|form| !case.sql.contains(**form) && shows(form))
        .map(|form| format!("shows `{form}`"))
}

fn right(right: bool) -> Judgement {
    if right {
        Judgement::Right
    } else {
        Judgement::Wrong
    }
}

fn blank(case: &BypassCase) -> Record {
    Record {
        part: Part::Bypass,
        engine: Some(case.engine),
        family: case.must.name().to_owned(),
        category: case.category.clone(),
        id: case.id.clone(),
        text: case.sql.clone(),
        judgement: Judgement::Wrong,
        rows: Rows::NotCompared,
        code: None,
        message: String::new(),
    }
}
