//! `palisade run`: a template of the policy folder through the gate to a database.

use std::{collections::BTreeMap, io::Write as _};

use palisade::{
    code::Code,
    guard::Refusal,
    policy::template::{ParameterType, Template},
    session::{Session, Transport},
    value::Value,
};

use crate::{
    answer::{Answer, Verdict},
    args::RunArguments,
    database::Access,
    database_name::Source,
    exit::{Exit, Failure},
    query::Gate,
    setup::Setup,
    statements,
};

/// Runs the command.
pub(crate) fn run(arguments: &RunArguments) -> Result<Exit, Failure> {
    let (setup, database) = Setup::over(
        Source::argument(&arguments.source)?,
        &arguments.secret,
        &arguments.policies,
        Some(&arguments.audit),
    )?;
    let mut limits = setup.limits.clone();
    limits.max_rows = limits.max_rows.min(arguments.max_rows.unwrap_or(u64::MAX));
    let access = if arguments.write {
        Access::Write
    } else {
        Access::Read
    };
    let gate = Gate::open(&setup, &database, access, limits)?;
    let session = Session::new(setup.principal.clone()).over(Transport::Cli);
    let answer = match gate.templates(&session) {
        Ok(templates) => {
            let template = templates.iter().find(|t| t.name == arguments.template);
            let values = values(&arguments.param, template)?;
            gate.run(&arguments.template, &values, &session)
        }
        Err(Refusal { rejection, .. }) => Answer::invalid(rejection.code(), rejection.message()),
    };
    statements::print(&answer, arguments.format)?;
    if !arguments.write && is_refused_change(&answer) {
        // There is no reader if this fails.
        let _ = writeln!(
            std::io::stderr(),
            "note: the template changes data: `--write` opens the database for it"
        );
    }
    Ok(answer.exit())
}

/// Whether a statement that changes data was refused as what it is.
fn is_refused_change(answer: &Answer) -> bool {
    const CHANGES: [&str; 9] = [
        "INSERT", "REPLACE", "UPDATE", "DELETE", "MERGE", "CREATE", "ALTER", "DROP", "TRUNCATE",
    ];
    match &answer.verdict {
        Verdict::Refused(Refusal { rejection, .. }) => {
            let word = rejection.message().split(' ').next().unwrap_or_default();
            rejection.code() == Code::StatementNotAllowed && CHANGES.contains(&word)
        }
        Verdict::Rows(_) | Verdict::Permitted(_) => false,
    }
}

/// The values on the command line, each as the template's parameter of its name takes it. A value that cannot be read
/// so stays text, which the gate refuses.
fn values(
    given: &[String],
    template: Option<&Template>,
) -> Result<BTreeMap<String, Value>, Failure> {
    let mut out = BTreeMap::new();
    for pair in given {
        let (name, value) = match pair.split_once('=') {
            Some((name, text)) => (name, value(text, name, template)),
            None => (pair.as_str(), Value::Null),
        };
        if out.insert(name.to_owned(), value).is_some() {
            return Err(Failure::Usage(format!(
                "`--param {name}` is given twice\n  help: give each parameter once"
            )));
        }
    }
    Ok(out)
}

fn value(text: &str, name: &str, template: Option<&Template>) -> Value {
    let parameters = template.map_or(&[][..], |template| &template.parameters);
    let kind = parameters.iter().find(|p| p.name == name).map(|p| p.kind);
    let read = match kind {
        Some(ParameterType::Integer) => text.parse().ok().map(Value::Integer),
        Some(ParameterType::Number) => text.parse().ok().map(Value::Integer).or_else(|| {
            text.parse()
                .ok()
                .filter(|n: &f64| n.is_finite())
                .map(Value::Real)
        }),
        Some(ParameterType::Boolean) => text.parse().ok().map(Value::Bool),
        Some(ParameterType::Text) | None => None,
    };
    read.unwrap_or_else(|| Value::text(text))
}
