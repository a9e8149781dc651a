//! Tables that show every row to a principal from whom rows are hidden to which they refer: order lines of all tenants, where orders are
//! filtered.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::Relation;
use crate::policy::{
    cedar::{
        request::Subject,
        row_verdict::Rows,
        schema::{PolicyAction, row_type, write_attribute},
        seen_attribute::{SeenAttribute, seen_attributes},
    },
    decide::rows::decide_rows,
    lint::{list_names, place},
    load::{diagnostic::PolicyProblem, source::Origins},
    obligation::RowFilter,
    rule::Rule,
    set::Loaded,
};

/// Such tables.
#[derive(Default)]
pub(in crate::policy) struct UnfilteredChildren {
    /// By the policy that lets all rows be seen: the columns that refer, and what to write for the first of them.
    found: BTreeMap<String, (BTreeSet<String>, String)>,
}

impl UnfilteredChildren {
    /// Looks at `relation`, which `subject` may select, and of which it sees `seen`.
    pub(in crate::policy) fn look(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        seen: &Rows,
    ) {
        if seen.filter != RowFilter::Everything {
            return;
        }
        let Some(by) = seen.policies.first() else {
            return;
        };
        for attribute in seen_attributes(&loaded.catalog, relation) {
            // Where a policy fails, it is reported as failing.
            let parent = decide_rows(loaded, subject, attribute.parent, PolicyAction::See);
            let is_filtered =
                parent.is_ok_and(|parent| matches!(parent.filter, RowFilter::Where(_)));
            let column = relation.column(attribute.column);
            if let (true, Some(column)) = (is_filtered, column) {
                let found = self.found.entry(by.clone());
                let (columns, _) =
                    found.or_insert_with(|| (BTreeSet::new(), write_forbid(relation, &attribute)));
                columns.insert(column.uid.clone());
            }
        }
    }

    /// The warnings: one for each policy.
    pub(in crate::policy) fn report(
        self,
        origins: &Origins<'_>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        for (id, (columns, forbid)) in self.found {
            let columns: Vec<String> = columns.into_iter().collect();
            let message = format!(
                "all rows are seen of tables that refer to hidden rows: by {}",
                list_names(&columns)
            );
            let help = format!("let them be hidden with the row to which they refer: `{forbid}`");
            let warning = place(origins, &id, message).with_help(Some(help));
            warnings.push(warning.of_rule(Rule::ChildUnfiltered));
        }
    }
}

/// The policy by which rows follow those to which they refer.
fn write_forbid(relation: &Relation, attribute: &SeenAttribute<'_>) -> String {
    format!(
        "forbid (principal, action in [Action::\"see\", Action::\"change\", Action::\"add\"], resource is {}) unless {{ {} }};",
        row_type(relation),
        write_attribute(&attribute.name)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use crate::{
        catalog::test_ddl,
        policy::{ColumnFlow, Lint, PolicyFile, PolicySet, PolicySources},
    };

    const SCHEMA: &str = "
        CREATE TABLE orders (id integer PRIMARY KEY, tenant integer NOT NULL);
        CREATE TABLE items (id integer PRIMARY KEY, order_id integer NOT NULL REFERENCES orders (id));";

    fn told(policies: &str) -> Vec<(String, String)> {
        told_of(SCHEMA, policies)
    }

    fn told_of(schema: &str, policies: &str) -> Vec<(String, String)> {
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "base.cedar".to_owned(),
                text: format!("permit(principal, action, resource);\n{policies}"),
            }],
            ..PolicySources::default()
        };
        let catalog = Arc::new(test_ddl::postgres(schema, "main").unwrap());
        let flow = ColumnFlow::default();
        let set = PolicySet::load_and_lint(&sources, &catalog, &flow, Lint::EveryRelation).unwrap();
        let told = set.warnings().iter();
        let told = told.filter(|warning| warning.message.starts_with("all rows are seen"));
        told.map(|warning| {
            let help = warning.help.clone().unwrap_or_default();
            (warning.message.clone(), help)
        })
        .collect()
    }

    #[test]
    fn what_refers_to_hidden_rows_is_warned_of_until_it_follows_them() {
        let tenant = r#"forbid(principal, action == Action::"see", resource is row::public::orders) unless { resource.tenant == 1 };"#;
        assert_eq!(told(""), []);
        let found = told(tenant);
        let (message, help) = found.first().unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(message.ends_with("by `public.items.order_id`"), "{message}");
        // What it says to write is right.
        let (_, forbid) = help.split_once('`').unwrap();
        let forbid = forbid.trim_end_matches('`');
        assert_eq!(told(&format!("{tenant}\n{forbid}")), []);
    }

    #[test]
    fn a_column_whose_name_is_no_identifier_is_followed_too() {
        let schema = SCHEMA.replace("order_id", "\"weird \"\"ref\"");
        let tenant = r#"forbid(principal, action == Action::"see", resource is row::public::orders) unless { resource.tenant == 1 };"#;
        let found = told_of(&schema, tenant);
        let (_, help) = found.first().unwrap();
        let (_, forbid) = help.split_once('`').unwrap();
        let forbid = forbid.trim_end_matches('`');
        assert!(
            forbid.contains(r#"unless { resource["weird \"ref_is_seen"] }"#),
            "{forbid}"
        );
        assert_eq!(told_of(&schema, &format!("{tenant}\n{forbid}")), []);
    }
}
