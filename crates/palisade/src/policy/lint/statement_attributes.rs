//! Policies that look at the statement, or at how a column is used: only forbids can, and only where it is known.

use std::collections::BTreeSet;

use cedar_policy::Effect;

use crate::policy::{
    cedar::{
        by_action::covers,
        context_use::{Mention, STATEMENT, USAGE, collect_mentions, mentions},
        schema,
        schema::PolicyAction,
    },
    load::{
        diagnostic::{PolicyProblem, probably},
        source::Located,
    },
};

/// The policies that look at the statement or at how a column is used. What looks at something that is never there
/// for one of its actions becomes a problem, as do permits that look at what is not known when names are resolved.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    problems: &mut Vec<PolicyProblem>,
) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for located in located {
        let Located {
            policy,
            origin,
            json,
        } = located;
        let found = problems.len();
        // A policy that cannot be written down names none.
        let mentions_of = located.conditions().map(collect_mentions);
        for mention in mentions_of.unwrap_or_default() {
            problems.extend(explain_missing(located, &mention));
        }
        if problems.len() > found {
            continue;
        }
        let Some(attribute) = [USAGE, STATEMENT]
            .into_iter()
            .find(|attribute| json.as_ref().is_none_or(|json| mentions(json, attribute)))
        else {
            continue;
        };
        match policy.effect() {
            Effect::Forbid => {
                // What looks at the context as a whole names no attribute.
                let known = |action: &&PolicyAction| knows(**action, attribute);
                match PolicyAction::ALL.iter().find(|a| covers(policy, **a) && !known(a)) {
                    Some(action) => problems.push(report_unknown(located, attribute, *action)),
                    None => {
                        out.insert(policy.id().to_string());
                    }
                }
            }
            Effect::Permit => problems.push(
                origin
                    .problem(format!("a permit cannot look at `context.{attribute}`"))
                    .with_help(Some(
                        "it is not known yet when names are resolved: permit without it, and forbid the statements that should not be",
                    )),
            ),
        }
    }
    out
}

fn knows(action: PolicyAction, attribute: &str) -> bool {
    let mut known = schema::context(action).into_iter();
    known.any(|known| known.name == attribute)
}

/// What is wrong with looking at an attribute: that there is none of this name, or never for one of the policy's actions.
fn explain_missing(located: &Located<'_>, mention: &Mention) -> Option<PolicyProblem> {
    let Located { policy, origin, .. } = located;
    let attribute = mention.attribute.as_str();
    let none = |wanted: &str, path: &str, names: &[&str]| {
        let help = match probably(wanted, names.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("there are `{}`", names.join("`, `")),
        };
        let message = format!("there is no `{path}{wanted}`");
        Some(origin.at_attribute(wanted, message).with_help(Some(help)))
    };
    let of_actions = PolicyAction::ALL
        .iter()
        .flat_map(|action| schema::context(*action));
    let names: BTreeSet<&str> = of_actions.map(|attribute| attribute.name).collect();
    if !names.contains(attribute) {
        let names: Vec<&str> = names.into_iter().collect();
        return none(attribute, "context.", &names);
    }
    if let (STATEMENT, Some(part)) = (attribute, &mention.part) {
        let names: Vec<&str> = schema::FACTS.iter().map(|fact| fact.name).collect();
        if !names.contains(&part.as_str()) {
            return none(part, "context.statement.", &names);
        }
    }
    let covered = PolicyAction::ALL
        .iter()
        .filter(|action| covers(policy, **action));
    let mut without = covered.filter(|action| !knows(**action, attribute));
    without
        .next()
        .map(|action| report_unknown(located, attribute, *action))
}

/// Where the attribute is missing whatever the statement, the policy would be without effect.
fn report_unknown(located: &Located<'_>, attribute: &str, action: PolicyAction) -> PolicyProblem {
    let Located { policy, origin, .. } = located;
    let known = PolicyAction::ALL
        .iter()
        .filter(|action| knows(**action, attribute));
    let names: Vec<_> = known.map(|action| action.name()).collect();
    let effect = match policy.effect() {
        Effect::Forbid => "forbid",
        Effect::Permit => "permit",
    };
    let message = format!(
        "`context.{attribute}` is not known for `{}`, so this would {effect} nothing there",
        action.name()
    );
    let help = format!(
        "it is known for `{}`: name those in the policy's scope",
        names.join("`, `")
    );
    origin
        .at_attribute(attribute, message)
        .with_help(Some(help))
}
