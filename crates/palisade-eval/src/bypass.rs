//! Attacks: refused, or run without showing what is protected.

use std::sync::Arc;

use palisade::{
    catalog::Catalog,
    code::Code,
    dialect::Dialect,
    firewall::Firewall,
    guard::{BackendError, BackendErrorKind},
    limits::Limits,
    rewrite::RewrittenStatement,
};

use crate::{
    answer::Answer,
    args::{Arguments, Part},
    data::{self, BypassCase, Canaries, Must, Oracle},
    decide::{Verdict, decide},
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
    let mut cases = arguments.select_rows(
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
    /// As in the data.
    first: Place,
    /// With other secrets in `users.ssn`.
    other_secrets: Place,
    /// Without the rows that are not to be seen.
    no_other_tenants: Place,
}

/// A database behind firewalls of its own: its name may stand in what is printed.
struct Place {
    secrets: Firewall,
    tenant: Firewall,
    database: Box<dyn Database>,
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
    let load = |script: &str| {
        let loaded = engines
            .for_dialect(dialect)
            .load(&schema, script)
            .and_then(|database| database.catalog().map(|catalog| (database, catalog)));
        match loaded {
            Ok((database, catalog)) => Place::new(arguments, &schema, database, catalog).map(Ok),
            Err(why) => Ok(Err(why)),
        }
    };
    let places = [
        load(&script)?,
        load(&with_other_secrets(&script, canaries))?,
        load(&without_other_tenants(&script))?,
    ];
    let stand = match places {
        [Ok(first), Ok(other_secrets), Ok(no_other_tenants)] => Stand {
            first,
            other_secrets,
            no_other_tenants,
        },
        [Err(why), _, _] | [_, Err(why), _] | [_, _, Err(why)] => {
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
    Ok(cases
        .iter()
        .map(|case| stand.judge(arguments, case, canaries))
        .collect())
}

impl Place {
    fn new(
        arguments: &Arguments,
        schema: &str,
        database: Box<dyn Database>,
        catalog: Catalog,
    ) -> Result<Self, Fault> {
        let limits = Limits {
            statement_timeout_ms: arguments.attack_timeout,
            ..Limits::default()
        };
        let firewall = |protection| {
            let (catalog, limits) = (catalog.clone(), limits.clone());
            if arguments.unprotected {
                return policies::read_everything(schema, catalog, limits);
            }
            policies::policies_under_attack(schema, catalog, protection, &arguments.mask, limits)
        };
        Ok(Self {
            secrets: firewall(Protection::Secrets)?,
            tenant: firewall(Protection::Tenant)?,
            database,
        })
    }

    fn decide(&self, case: &BypassCase) -> Verdict {
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
        decide(firewall, &case.sql, Some(&limits))
    }

    /// What an agent gets: rows, or which kind of refusal.
    fn answer(&self, case: &BypassCase) -> Result<Answer, String> {
        match self.decide(case) {
            Verdict::Allow(statement) => self
                .database
                .rewritten(&statement)
                .map_err(|error| format!("{:?}", error.kind)),
            Verdict::Reject(rejection) => Err(rejection.to_string()),
            Verdict::Broken(message) => Err(message),
        }
    }
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

/// A third data set, with the rows of tenant 1 alone. An agent of that tenant must get the same answers from it.
fn without_other_tenants(script: &str) -> String {
    script
        .lines()
        .filter(|line| !(line.starts_with("INSERT INTO users") && line.ends_with(",2);")))
        .fold(String::new(), |script, line| script + line + "\n")
}

impl Stand {
    fn judge(&self, arguments: &Arguments, case: &BypassCase, canaries: &Canaries) -> Record {
        let forms: Vec<&str> = canaries
            .canaries
            .values()
            .flatten()
            .map(String::as_str)
            .collect();
        match self.first.decide(case) {
            Verdict::Reject(rejection) => {
                let shown = leak(&forms, case, |form| rejection.message().contains(form));
                Record {
                    judgement: right(shown.is_none()),
                    code: Some(rejection.code().slug()),
                    message: shown.unwrap_or_else(|| rejection.message().to_owned()),
                    ..blank(case)
                }
            }
            Verdict::Allow(statement) => {
                let caught = if arguments.decisions_only {
                    decide_case(case)
                } else {
                    self.ran(case, &statement, &forms)
                };
                let (judgement, message) = match caught {
                    Caught::Yes(how) => (Judgement::Right, how),
                    Caught::No(how) => (
                        Judgement::Wrong,
                        format!("{how}; {}", palisade::danger::parts(&statement).sql),
                    ),
                    Caught::Unknown(why) => (Judgement::NotRun, why),
                };
                Record {
                    judgement,
                    message,
                    ..blank(case)
                }
            }
            Verdict::Broken(message) => Record {
                code: Some(Code::Internal.slug()),
                message,
                ..blank(case)
            },
        }
    }

    /// How a permitted attack was caught when it ran, or how it was not.
    fn ran(
        &self,
        case: &BypassCase,
        statement: &Arc<RewrittenStatement>,
        forms: &[&str],
    ) -> Caught {
        match (case.must, case.oracle) {
            (Must::Deny, Oracle::Resource) => match self.first.database.rewritten(statement) {
                Ok(answer) => stopped_at_rows(&answer, statement),
                Err(error) => match is_stopped_by_engine(&error) {
                    Some(how) => Caught::Yes(how),
                    None => Caught::No(format!("permitted; {error}")),
                },
            },
            // It counts as a miss; what it showed tells a leak from a label that asks for too much.
            (Must::Deny, Oracle::Canary) => match self.check_answers(case, statement, forms) {
                Caught::Yes(how) | Caught::No(how) => Caught::No(format!("permitted; {how}")),
                unknown @ Caught::Unknown(_) => unknown,
            },
            (
                Must::Deny,
                Oracle::Differential
                | Oracle::DenyOnly
                | Oracle::NoSideEffect
                | Oracle::Tenant
                | Oracle::Review,
            ) => decide_case(case),
            (Must::Neutralise, _) => self.check_answers(case, statement, forms),
        }
    }

    /// That a permitted attack showed nothing, or what it showed.
    fn check_answers(
        &self,
        case: &BypassCase,
        statement: &Arc<RewrittenStatement>,
        forms: &[&str],
    ) -> Caught {
        let (first, how) = match self.first.database.rewritten(statement) {
            Ok(answer) => {
                if let Some(shown) = leak(forms, case, |form| answer.holds(form)) {
                    return Caught::No(shown);
                }
                let most = statement.limits().max_rows.saturating_add(1);
                if u64::try_from(answer.rows.len()).unwrap_or(u64::MAX) > most {
                    let rows = answer.rows.len();
                    return Caught::No(format!("{rows} rows, at most {most} wanted"));
                }
                (Ok(answer), "ran and showed nothing".to_owned())
            }
            Err(error) => {
                if case.oracle == Oracle::Resource
                    && let Some(how) = is_stopped_by_engine(&error)
                {
                    return Caught::Yes(how);
                }
                // A database that answers nothing would catch everything.
                if error.kind == BackendErrorKind::Unavailable {
                    return Caught::Unknown(error.to_string());
                }
                let how = format!("refused when run: {error}");
                (Err(format!("{:?}", error.kind)), how)
            }
        };
        let mut twins = vec![("with other secrets", &self.other_secrets)];
        if case.oracle == Oracle::Tenant {
            twins.push(("without other tenants", &self.no_other_tenants));
        }
        for (what, place) in twins {
            if let Some(difference) = compare_answers(&first, &place.answer(case)) {
                return Caught::No(format!("differs {what}: {difference}"));
            }
        }
        Caught::Yes(how)
    }
}

/// Whether a permitted attack was caught, and how.
enum Caught {
    Yes(String),
    No(String),
    /// The database did not answer.
    Unknown(String),
}

/// The verdict on a permitted attack that is not run.
fn decide_case(case: &BypassCase) -> Caught {
    match case.must {
        Must::Deny => Caught::No("permitted".to_owned()),
        Must::Neutralise => Caught::Unknown("permitted, not run".to_owned()),
    }
}

/// What differs between the answers of two data sets, to whoever sees only what an agent sees.
fn compare_answers(
    first: &Result<Answer, String>,
    second: &Result<Answer, String>,
) -> Option<String> {
    match (first, second) {
        (Ok(first), Ok(second)) => first.difference(second, true),
        (Err(first), Err(second)) => (first != second).then(|| format!("{first} became {second}")),
        (Ok(_), Err(second)) => Some(format!("rows became {second}")),
        (Err(first), Ok(_)) => Some(format!("{first} became rows")),
    }
}

/// Which limit stopped it, if one did.
fn is_stopped_by_engine(error: &BackendError) -> Option<String> {
    match error.kind {
        BackendErrorKind::Timeout => Some("stopped by the limit on time".to_owned()),
        BackendErrorKind::Resource => Some("stopped by the limit on memory".to_owned()),
        BackendErrorKind::Rejected
        | BackendErrorKind::NameNotFound
        | BackendErrorKind::NotGranted
        | BackendErrorKind::SecondLock
        | BackendErrorKind::Constraint
        | BackendErrorKind::AffectedRows
        | BackendErrorKind::NotAdmitted
        | BackendErrorKind::Forbidden
        | BackendErrorKind::ReadOnly
        | BackendErrorKind::SchemaChanged
        | BackendErrorKind::Cost
        | BackendErrorKind::NotPreviewable
        | BackendErrorKind::NotTaken
        | BackendErrorKind::OutcomeUnknown
        | BackendErrorKind::Conflict
        | BackendErrorKind::Locked
        | BackendErrorKind::Busy
        | BackendErrorKind::Cancelled
        | BackendErrorKind::NoMoment
        | BackendErrorKind::Unavailable => None,
    }
}

fn stopped_at_rows(answer: &Answer, statement: &RewrittenStatement) -> Caught {
    let rows = u64::try_from(answer.rows.len()).unwrap_or(u64::MAX);
    if rows > statement.limits().max_rows {
        Caught::Yes("stopped by the limit on rows".to_owned())
    } else {
        Caught::No(format!("permitted, ran to its end with {rows} rows"))
    }
}

/// The first form of a secret that an answer shows. A form that the statement itself spells is no leak by itself: the
/// comparison of both data sets covers it.
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
