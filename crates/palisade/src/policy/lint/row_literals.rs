//! Texts that policies compare columns of rows with, and that no row ever has: a forbid by one forbids nothing.

use std::collections::BTreeSet;

use cedar_policy::Effect;
use serde_json::Value;

use crate::policy::{
    cedar::{by_action::covers_any, named_relations::NamedRelations, schema::PolicyAction},
    lint::compared_literals::collect_compared,
    load::{
        diagnostic::{PolicyProblem, probably},
        source::Located,
    },
    rule::Rule,
};
use crate::{
    catalog::{Catalog, Column, TypeClass},
    dialect::Dialect,
    value::is_canonical_uuid,
};

/// Labels of an enumeration that the catalog keeps: of one with more, not all are known.
const KEPT_LABELS: usize = 100;

/// Reports the texts that have no form in SQL, and those that are no uuid as columns of uuids are compared. What is no label of an
/// enumeration is a problem of a forbid, and a warning of a permit, which permits the less.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    catalog: &Catalog,
    named: &NamedRelations<'_>,
    problems: &mut Vec<PolicyProblem>,
    warnings: &mut Vec<PolicyProblem>,
) {
    for located in located {
        let Located { policy, origin, .. } = located;
        if !covers_any(policy, PolicyAction::is_of_rows) {
            continue;
        }
        let compared: BTreeSet<_> = collect_compared(located, attribute).into_iter().collect();
        if compared.is_empty() {
            continue;
        }
        let meant = named.with_rows_in_scope(&policy.resource_constraint());
        for (name, text) in compared {
            let columns: Vec<&Column> = meant
                .iter()
                .filter_map(|relation| relation.column(relation.position(&name)?))
                .collect();
            if columns.is_empty() {
                continue;
            }
            let mut classes = columns.iter().map(|column| column.class);
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
            } else if let Some(labels) = find_other_labels(catalog, &columns, &text) {
                let message = format!("`resource.{name}` is never `{text}`: it has no such label");
                let help = match probably(&text, labels.iter().map(String::as_str)) {
                    Some(label) => format!("did you mean `{label}`?"),
                    None => format!("its labels are {}", list_labels(&labels)),
                };
                let problem = origin.at_text(&text, message).with_help(Some(help));
                match policy.effect() {
                    Effect::Forbid => problems.push(problem),
                    Effect::Permit => warnings.push(problem.of_rule(Rule::UnknownName)),
                }
            }
        }
    }
}

/// The labels of the columns, where all of them are enumerations, their labels are known, and none has the label `text`.
fn find_other_labels(catalog: &Catalog, columns: &[&Column], text: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    for column in columns {
        if column.class != TypeClass::Enum {
            return None;
        }
        let labels = match catalog.dialect() {
            Dialect::Postgres => catalog.enum_labels(&column.type_name)?.to_vec(),
            Dialect::Mysql => read_labels(&column.type_name)?,
            Dialect::Sqlite => return None,
        };
        let is_label = |label: &String| match catalog.dialect() {
            Dialect::Postgres | Dialect::Sqlite => label == text,
            // Collations take more for the same, and what is no label was stored as the empty text.
            Dialect::Mysql => {
                text.trim_end().is_empty()
                    || !text.is_ascii()
                    || label.trim_end().eq_ignore_ascii_case(text.trim_end())
            }
        };
        if labels.is_empty() || labels.len() >= KEPT_LABELS || labels.iter().any(is_label) {
            return None;
        }
        out.extend(labels);
    }
    out.dedup();
    Some(out)
}

/// The labels of a type that MySQL or MariaDB spell `enum('a','b')`; none of a SET, whose values are lists of labels.
fn read_labels(type_name: &str) -> Option<Vec<String>> {
    let (kind, rest) = type_name.split_once('(')?;
    if !kind.trim().eq_ignore_ascii_case("enum") || rest.contains('\\') {
        return None;
    }
    let list = rest.trim_end().strip_suffix(')')?.trim();
    let list = list.strip_prefix('\'')?.strip_suffix('\'')?;
    // A quote in a label is written twice: those with one are left to the engine.
    let labels: Vec<&str> = list.split("','").collect();
    let is_plain = labels.iter().all(|label| !label.contains('\''));
    is_plain.then(|| labels.into_iter().map(str::to_owned).collect())
}

/// Some labels as a message lists them.
fn list_labels(labels: &[String]) -> String {
    const LISTED: usize = 12;
    let shown: Vec<String> = labels
        .iter()
        .take(LISTED)
        .map(|label| format!("`{label}`"))
        .collect();
    match labels.len() > LISTED {
        true => format!("{}, …", shown.join(", ")),
        false => shown.join(", "),
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
        catalog::{Catalog, TypeClass, test_ddl},
        dialect::Dialect,
        policy::{
            ColumnFlow, PolicyErrors, PolicyFile, PolicySet, PolicySources,
            tests::fixture::{column, table},
        },
    };

    #[test]
    fn labels_that_an_enumeration_lacks_are_reported() {
        let relation = |type_name: &str| {
            let mut out = table("t", &["id", "vc"]);
            let mut stage = column("stage", TypeClass::Enum);
            stage.type_name = type_name.to_owned();
            out.columns.push(stage);
            out
        };
        let labels = ["open", "won", "lost"].map(str::to_owned).to_vec();
        let postgres = Catalog::builder(Dialect::Postgres)
            .relation(relation("main.stage"))
            .enum_labels("main", "stage", labels);
        let mysql = Catalog::builder(Dialect::Mysql).relation(relation("enum('open','won')"));
        let unknown = Catalog::builder(Dialect::Postgres).relation(relation("main.stage"));
        let many = (0..100).map(|at| format!("l{at}")).collect();
        let many = Catalog::builder(Dialect::Postgres)
            .relation(relation("main.stage"))
            .enum_labels("main", "stage", many);
        let [postgres, mysql, unknown, many] =
            [postgres, mysql, unknown, many].map(|builder| Arc::new(builder.build().unwrap()));
        let told = |catalog: &Arc<Catalog>, effect: &str, condition: &str| -> Vec<String> {
            let text = format!(
                "permit(principal, action in [Action::\"select\", Action::\"read\"], resource);\n{effect}(principal, action == Action::\"see\", resource is row::main::t)\nwhen {{ resource has stage && {condition} }};"
            );
            let sources = PolicySources {
                policies: vec![PolicyFile {
                    name: "base.cedar".to_owned(),
                    text,
                }],
                ..PolicySources::default()
            };
            let loaded = PolicySet::load(&sources, catalog, &ColumnFlow::default());
            let told: Vec<String> = match loaded {
                Ok(set) => set
                    .warnings()
                    .iter()
                    .map(|w| format!("warning {w}"))
                    .collect(),
                Err(errors) => errors.problems().iter().map(ToString::to_string).collect(),
            };
            told.into_iter()
                .filter(|told| told.contains("no such label"))
                .collect()
        };
        let wonn = "resource.stage == \"wonn\"";
        assert_eq!(
            told(&postgres, "forbid", wonn),
            [
                "base.cedar:3:48: `resource.stage` is never `wonn`: it has no such label\n  help: did you mean `won`?"
            ]
        );
        let found = told(&postgres, "permit", "[\"gone\"].contains(resource.stage)");
        assert_eq!(
            found,
            [
                "warning base.cedar:3:31: `resource.stage` is never `gone`: it has no such label\n  help: its labels are `open`, `won`, `lost`"
            ]
        );
        assert_eq!(told(&mysql, "forbid", wonn).len(), 1);
        for (catalog, condition) in [
            (&postgres, "resource.stage == \"won\""),
            (&postgres, "[\"open\", \"lost\"].contains(resource.stage)"),
            (&mysql, "resource.stage == \"WON\""),
            (&mysql, "resource.stage == \"\""),
            (&unknown, wonn),
            (&many, wonn),
        ] {
            assert_eq!(told(catalog, "forbid", condition), [""; 0], "{condition}");
        }
    }

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
