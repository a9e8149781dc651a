//! `palisade policy check`: what is wrong with a policy folder, and what is odd.

use std::fmt::Write as _;

use palisade::{
    catalog::{Catalog, Relation, RelationKind},
    error::Error,
    firewall::Firewall,
    policy::{Lint, PolicyProblem, Rule},
};
use palisade_corpus::junit;
use serde_json::{Value, json};

use crate::{
    args::policy::{CheckFormat, FailOn, PolicyCheckArguments},
    database::Access,
    exit::{Exit, Failure},
    human,
    policy::fix,
    setup::Setup,
    stdout, unreadable,
};

/// Runs the command over `catalog`.
pub(crate) fn run(
    arguments: &PolicyCheckArguments,
    setup: &Setup,
    catalog: Catalog,
) -> Result<Exit, Failure> {
    match setup.try_firewall(catalog, Access::Write, Lint::EveryRelation) {
        Ok(firewall) => {
            let mut warnings = firewall.policies().warnings().to_vec();
            let mut unchecked = find_unchecked(setup);
            if arguments.deep {
                let deep = firewall.check_deeply();
                warnings.extend(deep.warnings);
                let policies = deep.unchecked.into_iter();
                unchecked.extend(policies.map(|(policy, why)| Unchecked {
                    what: policy,
                    why,
                    is_rule: false,
                }));
            }
            if arguments.fix {
                return fix::run(&setup.policies, &warnings, arguments.dry_run);
            }
            let text = match arguments.format {
                CheckFormat::Text => describe(setup, &firewall, &warnings, &unchecked),
                form => render(setup, form, (&[], &warnings), &unchecked)?,
            };
            stdout::text(&text)?;
            Ok(match arguments.fail_on {
                FailOn::Warning if !warnings.is_empty() => Exit::Refused,
                FailOn::Warning | FailOn::Error => Exit::Permitted,
            })
        }
        Err(Error::Policies(errors)) if arguments.format != CheckFormat::Text => {
            stdout::text(&render(
                setup,
                arguments.format,
                (errors.problems(), &[]),
                &find_unchecked(setup),
            )?)?;
            Ok(Exit::Configuration)
        }
        Err(error) => Err(setup.policies.failure(&error)),
    }
}

/// For people: each warning with its line, what was not checked, and how many there are.
fn describe(
    setup: &Setup,
    firewall: &Firewall,
    warnings: &[PolicyProblem],
    unchecked: &[Unchecked],
) -> String {
    let mut out = String::new();
    for warning in warnings {
        let kind = warning
            .rule
            .map_or("warning".to_owned(), |rule| format!("warning[{rule}]"));
        out.push_str(&setup.policies.render(&kind, warning));
        out.push('\n');
    }
    for Unchecked { what, why, .. } in unchecked {
        let _ = writeln!(out, "Not checked: {what}, since {why}.");
    }
    if let Some(told) = unreadable::describe(firewall.catalog()) {
        out.push_str(&human::wrap(&format!("note: {told}"), 0, 6));
    }
    // Those that policies can permit and people know of.
    let is_counted = |relation: &&Relation| match relation.kind {
        RelationKind::Table | RelationKind::View | RelationKind::Materialized => true,
        RelationKind::Virtual | RelationKind::System => false,
    };
    let relations = firewall.catalog().relations().iter();
    let _ = writeln!(
        out,
        "The policies load over {} tables and views; warnings: {}.",
        relations.filter(is_counted).count(),
        warnings.len()
    );
    out
}

/// A rule, or a policy in a deep check, that was not checked.
struct Unchecked {
    /// The rule's code, or the policy's id.
    what: String,
    why: String,
    is_rule: bool,
}

fn find_unchecked(setup: &Setup) -> Vec<Unchecked> {
    let sources = &setup.policies.sources;
    let unchecked = Rule::ALL.iter().filter_map(|rule| {
        Some(Unchecked {
            what: rule.slug().to_owned(),
            why: rule.why_unchecked(sources)?.to_owned(),
            is_rule: true,
        })
    });
    unchecked.collect()
}

/// A problem as programs are told of it: `level` is `error` or `warning`.
pub(crate) struct Told {
    pub(crate) level: &'static str,
    pub(crate) code: &'static str,
    pub(crate) file: String,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

fn render(
    setup: &Setup,
    form: CheckFormat,
    (errors, warnings): (&[PolicyProblem], &[PolicyProblem]),
    unchecked: &[Unchecked],
) -> Result<String, Failure> {
    let told = |level, problem: &PolicyProblem| Told {
        level,
        code: problem_code(problem),
        file: setup.policies.shown_file(problem),
        line: problem.line,
        column: problem.column,
        message: problem.message.clone(),
        help: problem.help.clone(),
    };
    let errors = errors.iter().map(|problem| told("error", problem));
    let warnings = warnings.iter().map(|problem| told("warning", problem));
    let all: Vec<Told> = errors.chain(warnings).collect();
    Ok(match form {
        CheckFormat::Json => {
            let unchecked = unchecked.iter().map(|one| match one.is_rule {
                true => json!({"code": one.what, "why": one.why}),
                false => json!({"policy": one.what, "why": one.why}),
            });
            let told = json!({
                "problems": all.iter().map(Told::json).collect::<Vec<_>>(),
                "not_checked": unchecked.collect::<Vec<_>>(),
            });
            format!("{told}\n")
        }
        CheckFormat::Github => all.iter().map(Told::github).collect(),
        CheckFormat::Sarif => {
            let rules = Rule::ALL.iter();
            let rules = rules.map(|rule| [rule.slug(), rule.summary(), rule.harm(), rule.cure()]);
            format!("{}\n", sarif(&all, rules))
        }
        CheckFormat::Junit => {
            let cases = all.iter().map(|told| junit::Problem {
                name: told.code.to_owned(),
                file: told.file.clone(),
                line: told.line,
                message: told.message.clone(),
                help: told.help.clone(),
            });
            junit::problems("palisade policy check", cases).map_err(Failure::Internal)?
        }
        CheckFormat::Text => String::new(),
    })
}

/// The code of a problem: that of its rule, where it is a warning.
pub(crate) fn problem_code(problem: &PolicyProblem) -> &'static str {
    problem.rule.map_or("not-loaded", Rule::slug)
}

impl Told {
    fn json(&self) -> Value {
        json!({
            "level": self.level,
            "code": self.code,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "help": self.help,
        })
    }

    /// A workflow command. `%` and line ends are escaped, so that a message cannot give another.
    pub(crate) fn github(&self) -> String {
        let data = |text: &str| {
            let text = text.replace('%', "%25");
            text.replace('\r', "%0D").replace('\n', "%0A")
        };
        let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
        let place = match (self.line, self.column) {
            (Some(line), Some(column)) => format!(",line={line},col={column}"),
            (Some(line), None) => format!(",line={line}"),
            (None, _) => String::new(),
        };
        let help = self.help.as_deref();
        let help = help.map(|help| format!("\nhelp: {help}"));
        format!(
            "::{} file={}{place},title={}::{}\n",
            self.level,
            property(&self.file),
            property(self.code),
            data(&format!("{}{}", self.message, help.unwrap_or_default()))
        )
    }
}

/// The Static Analysis Results Interchange Format, version 2.1.0.
/// A rule is its code, what it finds, what goes wrong and the cure.
pub(crate) fn sarif(all: &[Told], rules: impl Iterator<Item = [&'static str; 4]>) -> Value {
    let rules = rules.map(|[slug, summary, harm, cure]| {
        json!({
            "id": slug,
            "shortDescription": {"text": summary},
            "defaultConfiguration": {"level": "warning"},
            "help": {"text": format!("{harm}. {cure}.")},
        })
    });
    let results = all.iter().map(|told| {
        let region = told
            .line
            .map(|line| json!({"startLine": line, "startColumn": told.column.unwrap_or(1)}));
        let mut place = json!({"artifactLocation": {"uri": told.file}});
        if let (Some(region), Some(place)) = (region, place.as_object_mut()) {
            place.insert("region".to_owned(), region);
        }
        json!({
            "ruleId": told.code,
            "level": told.level,
            "message": {"text": told.message},
            "locations": [{"physicalLocation": place}],
        })
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "palisade",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.collect::<Vec<_>>(),
            }},
            "results": results.collect::<Vec<_>>(),
        }],
    })
}
