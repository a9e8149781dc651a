//! Templates whose statements name what the catalog lacks: whoever runs one is refused.

use crate::{
    catalog::Catalog,
    code::Code,
    firewall::column_lineage::Everything,
    limits::Limits,
    policy::{PolicyProblem, PolicySet},
    resolve,
    resolve::Mode,
    syntax,
};

/// Warns of each template that reads and names a table, column or function that is not there, for whomever.
pub(in crate::firewall) fn check(
    catalog: &Catalog,
    policies: &PolicySet,
    limits: &Limits,
) -> Vec<PolicyProblem> {
    let everything = Everything { catalog };
    let mut out = Vec::new();
    for template in policies.templates() {
        let resolved = syntax::parse(&template.sql, catalog.dialect(), limits, |parsed| {
            resolve::resolve(parsed, catalog, &everything, Mode::Statement, limits).map(drop)
        });
        let Err(refused) = resolved else {
            continue;
        };
        // A change has a target that nothing here permits: its names are not looked at.
        let is_of_names = matches!(
            refused.code(),
            Code::NameUnknownRelation
                | Code::NameUnknownColumn
                | Code::NameAmbiguous
                | Code::FunctionUnknown
        );
        if is_of_names {
            let message = format!(
                "the template `{}` cannot be run: {}",
                template.name,
                refused.message()
            );
            let help = "correct the name, or give the statement the schema that the database has";
            out.push(template.problem(message, help));
        }
    }
    out
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

    use crate::{
        catalog::test_ddl,
        firewall::Firewall,
        policy::{Lint, PolicySources},
    };

    fn told(sql: &str, lint: Lint) -> Vec<String> {
        let catalog = test_ddl::postgres("CREATE TABLE tickets (id int);", "main");
        let sources = PolicySources {
            templates: Some(format!(
                "[[template]]\nname = \"t\"\ndescription = \"d\"\nsql = {sql:?}\n"
            )),
            ..PolicySources::default()
        };
        let firewall = Firewall::builder(catalog.unwrap(), sources).lint(lint);
        let firewall = firewall.build().unwrap();
        let told = firewall.policies().warnings().iter();
        let told = told.map(ToString::to_string);
        told.filter(|told| told.contains("the template `t`"))
            .collect()
    }

    #[test]
    fn templates_that_name_what_is_not_there_are_warned_of() {
        for (sql, expected) in [
            ("SELECT id FROM tikets", Some("tikets")),
            ("SELECT idd FROM tickets", Some("idd")),
            (
                "SELECT no_such_function(id) FROM tickets",
                Some("no_such_function"),
            ),
            ("SELECT id, count(*) FROM tickets GROUP BY id", None),
            ("UPDATE tickets SET id = 1", None),
        ] {
            let found = told(sql, Lint::EveryRelation);
            assert_eq!(
                found.len(),
                usize::from(expected.is_some()),
                "{sql}: {found:?}"
            );
            if let (Some(found), Some(expected)) = (found.first(), expected) {
                assert!(
                    found.contains(expected) && found.contains("templates.toml:4:"),
                    "{found}"
                );
            }
            assert!(told(sql, Lint::Sample).is_empty(), "{sql}");
        }
    }
}
