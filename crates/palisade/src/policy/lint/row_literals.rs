//! Texts that policies compare columns of rows with, and that no row ever has: a forbid by one forbids nothing.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::policy::{
    cedar::{by_action::covers, named_relations::NamedRelations, schema::PolicyAction},
    lint::compared_literals::collect_compared,
    load::{diagnostic::PolicyProblem, source::Located},
};
use crate::{catalog::TypeClass, value::is_canonical_uuid};

/// Reports the texts that have no form in SQL, and those that are no uuid as columns of uuids are compared.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    named: &NamedRelations<'_>,
    problems: &mut Vec<PolicyProblem>,
) {
    for located in located {
        let Located { policy, origin, .. } = located;
        let of_rows = [PolicyAction::See, PolicyAction::Change, PolicyAction::Add];
        if !of_rows.into_iter().any(|action| covers(policy, action)) {
            continue;
        }
        let compared: BTreeSet<_> = collect_compared(located, attribute).into_iter().collect();
        if compared.is_empty() {
            continue;
        }
        let meant = named.with_rows_in_scope(&policy.resource_constraint());
        for (name, text) in compared {
            let mut classes = meant
                .iter()
                .filter_map(|relation| relation.column(relation.position(&name)?))
                .map(|column| column.class)
                .peekable();
            if classes.peek().is_none() {
                continue;
            }
            if text.contains('\0') {
                let message = format!(
                    "`resource.{name}` is compared with text that holds the character U+0000, which no statement can"
                );
                problems.push(origin.at_attribute(&name, message));
            } else if !is_canonical_uuid(&text) && classes.all(|class| class == TypeClass::Uuid) {
                let lower = text.to_ascii_lowercase();
                let help = is_canonical_uuid(&lower).then(|| format!("write `{lower}`"));
                let message = format!(
                    "`resource.{name}` is never `{text}`: a uuid is compared as its text, 36 characters in lower case"
                );
                problems.push(origin.at_text(&text, message).with_help(help));
            }
        }
    }
}

/// `resource.name`.
fn attribute(json: &Value) -> Option<String> {
    let access = json.get(".")?;
    let is_resource = access.get("left")?.get("Var")?.as_str()? == "resource";
    let name = access.get("attr")?.as_str()?;
    is_resource.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use std::sync::Arc;

    use crate::{
        catalog::{Catalog, test_ddl},
        policy::{ColumnFlow, PolicyErrors, PolicyFile, PolicySet, PolicySources},
    };

    fn load(condition: &str) -> Result<PolicySet, PolicyErrors> {
        let schema = "CREATE TABLE t (id integer PRIMARY KEY, u uuid, vc text);";
        let catalog: Catalog = test_ddl::postgres(schema, "main").unwrap();
        let text = format!(
            "permit(principal, action, resource);\nforbid(principal, action == Action::\"see\", resource is row::public::t)\nwhen {{ {condition} }};"
        );
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "base.cedar".to_owned(),
                text,
            }],
            ..PolicySources::default()
        };
        PolicySet::load(&sources, &Arc::new(catalog), &ColumnFlow::default())
    }

    #[test]
    fn texts_that_no_row_has_are_reported() {
        for (condition, message, help) in [
            (
                "resource has u && resource.u == \"00000000-0000-4000-8000-00000000000A\"",
                "`resource.u` is never `00000000-0000-4000-8000-00000000000A`: a uuid is compared as its text, 36 characters in lower case",
                Some("write `00000000-0000-4000-8000-00000000000a`"),
            ),
            (
                "resource has u && [\"x\", \"00000000-0000-4000-8000-00000000000a\"].contains(resource.u)",
                "`resource.u` is never `x`: a uuid is compared as its text, 36 characters in lower case",
                None,
            ),
            (
                "resource has vc && resource.vc == \"a\\u{0}b\"",
                "`resource.vc` is compared with text that holds the character U+0000, which no statement can",
                None,
            ),
        ] {
            let errors = load(condition).unwrap_err();
            let problem = &errors.problems()[0];
            assert_eq!(problem.message, message);
            assert_eq!(problem.line, Some(3), "{problem}");
            assert_eq!(problem.help.as_deref(), help, "{problem}");
        }
        for condition in [
            "resource has u && resource.u == \"00000000-0000-4000-8000-00000000000a\"",
            "resource has vc && resource.vc == \"00000000-0000-4000-8000-00000000000A\"",
        ] {
            load(condition).unwrap();
        }
    }
}
