//! The relations that policies are tried on as they are loaded.

use crate::catalog::Relation;
use crate::policy::{
    cedar::schema,
    lint::Lint,
    load::diagnostic::{PolicyProblem, Source},
    rule::Rule,
    set::Loaded,
};

/// How many pairs of a relation and a principal a sample has.
const SAMPLE: usize = 400;

/// The relations that policies are tried on: all, or of many those first that policies name.
pub(in crate::policy) fn relations_to_try<'l>(
    loaded: &'l Loaded,
    lint: Lint,
    subjects: usize,
    warnings: &mut Vec<PolicyProblem>,
) -> Vec<&'l Relation> {
    let relations = loaded.catalog.relations().iter();
    let all: Vec<&Relation> = relations.filter(|r| schema::has_entity(r)).collect();
    let wanted = SAMPLE / subjects.max(1);
    match lint {
        Lint::EveryRelation => return all,
        Lint::Sample if all.len() <= wanted => return all,
        Lint::Sample => {}
    }
    let is_named = |relation: &&&Relation| {
        let mut columns = relation.columns.iter();
        loaded.named_tables.contains(&relation.uid)
            || columns.any(|column| loaded.named_columns.contains(&column.uid))
            || loaded.named_row_types.contains(&schema::row_type(relation))
    };
    let (mut sample, others): (Vec<&Relation>, Vec<&Relation>) = all.iter().partition(is_named);
    sample.extend(others);
    sample.truncate(wanted.max(1));
    let message = format!(
        "the policies were tried on {} of {} relations",
        sample.len(),
        all.len()
    );
    let source = Source {
        name: "policies",
        text: "",
    };
    let help = "`palisade policy check` tries them on all";
    let warning = source.problem_of_file(message).with_help(Some(help));
    warnings.push(warning.of_rule(Rule::Sampled));
    sample
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use crate::{
        catalog::Catalog,
        dialect::Dialect,
        policy::{
            ColumnFlow, PolicySet,
            tests::fixture::{sources, table},
        },
    };

    const SELECT: &str =
        "permit(principal, action == Action::\"select\", resource == Table::\"main.tickets\");\n";

    #[test]
    fn a_sample_begins_with_the_tables_that_policies_name() {
        let mut builder = Catalog::builder(Dialect::Sqlite);
        for number in 0..150 {
            builder = builder.relation(table(&format!("t{number:03}"), &["id", "title"]));
        }
        let catalog = Arc::new(builder.build().unwrap());
        let on_column = "permit(principal, action, resource);\n@mask(\"expr(value > 5)\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.t149.title\");";
        let on_rows = "permit(principal, action == Action::\"see\", resource is row::main::t149) when { resource has id && resource.id * 2 == 4 };";
        for (policies, expected) in [
            (
                SELECT.replace("tickets", "t149"),
                "`main.t149` can be selected",
            ),
            (on_rows.to_owned(), "(rows of `main.t149`)"),
            (on_column.to_owned(), "is no mask for `main.t149.title`"),
        ] {
            let mut sources = sources(&policies);
            sources.classification = None;
            let told = match PolicySet::load(&sources, &catalog, &ColumnFlow::default()) {
                Ok(set) => {
                    let warnings: Vec<String> =
                        set.warnings().iter().map(ToString::to_string).collect();
                    let warnings = warnings.join("\n");
                    assert!(warnings.contains("were tried on"), "{warnings}");
                    warnings
                }
                Err(errors) => errors.to_string(),
            };
            assert!(told.contains(expected), "{policies}: {told}");
        }
    }
}
