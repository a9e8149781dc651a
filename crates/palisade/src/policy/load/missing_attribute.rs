//! An attribute that some of the types lack which a policy can meet: Cedar tells of each type by itself, and here it is one problem.

use std::collections::BTreeSet;

use cedar_policy::Policy;

use crate::{
    catalog::{Catalog, Relation},
    policy::{
        cedar::{
            named_relations::NamedRelations, schema::row_type, seen_attribute::find_seen_attribute,
        },
        lint::list_names,
        load::{
            diagnostic::{PolicyProblem, SourceSpan, probably},
            unseen_attribute,
        },
    },
};

/// What Cedar says of an attribute and a type.
enum Said {
    /// The type has none by this name.
    Missing,
    /// It may be absent, and the policy does not ask.
    Unasked,
}

/// The attribute and the type of which a message of Cedar tells.
fn read(message: &str) -> Option<(Said, &str, &str)> {
    let (before, rest) = message.split_once("attribute `")?;
    let (attribute, rest) = rest.split_once("` on entity type `")?;
    let (kind, rest) = rest.split_once('`')?;
    let said = match rest {
        " not found" => Said::Missing,
        "" if before.contains("unable to guarantee safety of access to optional") => Said::Unasked,
        _ => return None,
    };
    Some((said, attribute, kind))
}

/// The attribute that a type lacks, and the type, by a message of Cedar.
pub(in crate::policy) fn read_missing(message: &str) -> Option<(&str, &str)> {
    match read(message)? {
        (Said::Missing, attribute, kind) => Some((attribute, kind)),
        (Said::Unasked, _, _) => None,
    }
}

/// The problems of one policy, with one in the place of those that several types have at the same words.
pub(in crate::policy) fn fold(
    policy: &Policy,
    catalog: &Catalog,
    named: &NamedRelations<'_>,
    problems: Vec<PolicyProblem>,
) -> Vec<PolicyProblem> {
    let mut out = Vec::new();
    let mut folded: BTreeSet<(usize, String)> = BTreeSet::new();
    for problem in &problems {
        let (Some((_, attribute, _)), Some(span)) = (read(&problem.message), problem.span) else {
            out.push(problem.clone());
            continue;
        };
        if folded.contains(&(span.offset, attribute.to_owned())) {
            continue;
        }
        match fold_one(policy, (catalog, named), &problems, (attribute, span)) {
            Some((message, help)) => {
                folded.insert((span.offset, attribute.to_owned()));
                let one = PolicyProblem {
                    message,
                    help: None,
                    ..problem.clone()
                };
                out.push(one.with_help(Some(help)));
            }
            None => out.push(problem.clone()),
        }
    }
    out
}

/// What to say of an attribute that at least two types lack, in the place of all that Cedar says of it there; with what to write.
fn fold_one(
    policy: &Policy,
    (catalog, named): (&Catalog, &NamedRelations<'_>),
    problems: &[PolicyProblem],
    (attribute, span): (&str, SourceSpan),
) -> Option<(String, String)> {
    let mut tables = BTreeSet::new();
    let mut unseen = None;
    let mut others = BTreeSet::new();
    for problem in problems {
        match read(&problem.message) {
            Some((Said::Missing, name, kind))
                if name == attribute && problem.span == Some(span) =>
            {
                match named.with_row_type(kind) {
                    Some(relation) => {
                        let explain =
                            || unseen_attribute::explain_absence(catalog, relation, attribute);
                        unseen = unseen.or_else(explain);
                        tables.insert(relation.uid.clone())
                    }
                    None => others.insert(kind.to_owned()),
                };
            }
            Some(_) | None => {}
        }
    }
    if tables.len() + others.len() < 2 || tables.is_empty() {
        return None;
    }
    let tables: Vec<String> = tables.into_iter().collect();
    let with = named
        .with_rows_in_scope(&policy.resource_constraint())
        .into_iter()
        .find(|relation| has_attribute(catalog, relation, attribute));
    let rows = list_names(&tables);
    if !others.is_empty() {
        let others: Vec<String> = others.into_iter().collect();
        let message = format!(
            "only rows have columns: {} have no `{attribute}`, and neither have rows of {rows}",
            list_names(&others)
        );
        let split = |attribute: &str| {
            format!(
                "write two policies: one of the other actions without this condition, and one of `see` with `resource has {attribute} &&` before it"
            )
        };
        let help = match (with, unseen, find_meant(named, attribute)) {
            (Some(_), _, _) => split(attribute),
            (None, Some(unseen), _) => unseen,
            (None, None, Some(meant)) => format!("did you mean `{meant}`? then {}", split(meant)),
            (None, None, None) => "no table that this is about has such a column".to_owned(),
        };
        return Some((message, help));
    }
    let message = format!("rows of {rows} have no `{attribute}`");
    let help = match with {
        Some(relation) => format!(
            "write `resource is {}` in the scope, or `resource has {attribute} &&` before it",
            row_type(relation)
        ),
        None => unseen
            .or_else(|| {
                let mut there = problems.iter().filter(|problem| problem.span == Some(span));
                there.find_map(|problem| problem.help.clone())
            })
            .unwrap_or_else(|| "write the name of a column that they have".to_owned()),
    };
    Some((message, help))
}

/// Whether rows of `relation` have an attribute of this name: a column, or that a row is seen to which they refer.
fn has_attribute(catalog: &Catalog, relation: &Relation, name: &str) -> bool {
    let is_column = relation.position(name).is_some();
    is_column || find_seen_attribute(catalog, relation, name).is_some()
}

/// The name of a column that was probably meant.
fn find_meant<'c>(named: &NamedRelations<'c>, attribute: &str) -> Option<&'c str> {
    let columns = named.all.iter().flat_map(|relation| &relation.columns);
    let names: BTreeSet<&str> = columns.map(|column| &*column.key).collect();
    probably(attribute, names)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use std::sync::Arc;

    use crate::{
        catalog::Catalog,
        dialect::Dialect,
        policy::{
            ColumnFlow, PolicySet,
            tests::fixture::{sources, table},
        },
    };

    #[test]
    fn an_attribute_that_many_tables_lack_is_told_of_once() {
        let mut builder =
            Catalog::builder(Dialect::Sqlite).relation(table("contacts", &["id", "tenant_id"]));
        for number in 0..6 {
            builder = builder.relation(table(&format!("t{number}"), &["id", "contact_id"]));
        }
        let catalog = Arc::new(builder.build().unwrap());
        for (actions, condition, message, help) in [
            (
                "action == Action::\"see\"",
                "resource.tenant_id == 1",
                "rows of `main.t0`, `main.t1`, `main.t2` and 3 more have no `tenant_id`",
                "write `resource is row::main::contacts` in the scope, or `resource has tenant_id &&` before it",
            ),
            (
                "action in [Action::\"select\", Action::\"see\", Action::\"read\"]",
                "resource.tenant_id == 1",
                "only rows have columns: `Column` and `Table` have no `tenant_id`, and neither have rows of `main.t0`, `main.t1`, `main.t2` and 3 more",
                "write two policies: one of the other actions without this condition, and one of `see` with `resource has tenant_id &&` before it",
            ),
            (
                "action in [Action::\"select\", Action::\"see\", Action::\"read\"]",
                "resource.tenantid == 1",
                "only rows have columns: `Column` and `Table` have no `tenantid`, and neither have rows of `main.contacts`, `main.t0`, `main.t1` and 4 more",
                "did you mean `tenant_id`? then write two policies: one of the other actions without this condition, and one of `see` with `resource has tenant_id &&` before it",
            ),
        ] {
            let text = format!(
                "permit(principal, {actions}, resource in Schema::\"main\")\nwhen {{ {condition} }};"
            );
            let mut sources = sources(&text);
            sources.classification = None;
            let errors = PolicySet::load(&sources, &catalog, &ColumnFlow::default()).unwrap_err();
            let [problem] = errors.problems() else {
                panic!("{errors}")
            };
            assert_eq!(problem.message, message);
            assert_eq!(problem.help.as_deref(), Some(help));
            assert_eq!((problem.line, problem.column), (Some(2), Some(8)));
        }
        // One table alone is told of as Cedar does.
        let text = "permit(principal, action == Action::\"see\", resource is row::main::t1) when { resource.contct_id == 1 };";
        let mut sources = sources(text);
        sources.classification = None;
        let errors = PolicySet::load(&sources, &catalog, &ColumnFlow::default()).unwrap_err();
        assert_eq!(
            errors.problems()[0].help.as_deref(),
            Some("did you mean `contact_id`?")
        );
    }
}
