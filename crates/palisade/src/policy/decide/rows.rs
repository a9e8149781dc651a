//! Which rows of a relation a principal sees, may change or may add: the row policies, evaluated with
//! the row unknown.

use std::collections::BTreeSet;

use cedar_policy::{Effect, EntityTypeName, PartialEntityUid, PartialRequest, PolicyId};

use crate::catalog::Relation;
use crate::policy::{
    cedar::{
        entities::{action_uid, resource, row_ancestors},
        failure::Failure,
        request::Subject,
        residual::{Untranslatable, translate},
        row_verdict::Rows,
        schema,
        schema::PolicyAction,
    },
    obligation::{Predicate, RowFilter},
    set::Loaded,
};

/// The rows of `relation` to which `subject` may do `action`: `see`, `change` or `add`.
///
/// A filter is always `And[Or[permits…], Not(forbid)…]`, with one element a policy and single
/// elements kept, so that what a dialect adds to a policy's condition finds it.
///
/// # Errors
/// If a row policy fails to evaluate whatever the row.
pub(in crate::policy) fn rows(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    action: PolicyAction,
) -> Result<Rows, Failure> {
    subject.remember_rows(action, relation.id, || {
        find_rows(loaded, subject, relation, action)
    })
}

fn find_rows(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    action: PolicyAction,
) -> Result<Rows, Failure> {
    let row_type: EntityTypeName = schema::row_type(relation).parse().map_err(Failure::new)?;
    let ancestors = row_ancestors(&loaded.catalog, &loaded.tags, relation);
    let uids = ancestors.iter().map(|(kind, id)| resource(kind, id));
    let uids: Vec<_> = uids.collect::<Result<_, _>>()?;
    let policies = loaded.policies.about_rows(action, &row_type, &uids)?;
    if policies.is_empty() {
        return Ok(combine(loaded, Vec::new()));
    }
    let schema = loaded.schemas.of_rows(&loaded.catalog, relation)?;
    let request = PartialRequest::new(
        PartialEntityUid::from_concrete(subject.uid.clone()),
        action_uid(action)?,
        PartialEntityUid::new(row_type, None),
        Some(subject.context.clone()),
        &schema,
    )
    .map_err(Failure::new)?;
    let response = policies
        .tpe(&request, &subject.partial, &schema)
        .map_err(Failure::new)?;

    let failed = sort_ids(response.error_permits().chain(response.error_forbids()));
    if !failed.is_empty() {
        let detail = format!("row policies fail for every row: {}", failed.join(", "));
        return Err(Failure {
            detail,
            policies: failed,
        });
    }
    let mut conditions: Vec<(String, Effect, Result<Predicate, Untranslatable>)> = Vec::new();
    for (ids, effect) in [
        (sort_ids(response.true_permits()), Effect::Permit),
        (sort_ids(response.true_forbids()), Effect::Forbid),
    ] {
        conditions.extend(
            ids.into_iter()
                .map(|id| (id, effect, Ok(Predicate::Constant(true)))),
        );
    }
    for residual in response.residual_policies() {
        let condition = translate(&residual, relation, &ancestors, loaded.catalog.dialect());
        conditions.push((residual.id().to_string(), residual.effect(), condition));
    }
    conditions.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(combine(loaded, conditions))
}

fn combine(
    loaded: &Loaded,
    conditions: Vec<(String, Effect, Result<Predicate, Untranslatable>)>,
) -> Rows {
    let mut permits = Vec::new();
    let mut forbids = Vec::new();
    let mut policies = BTreeSet::new();
    let mut forbidding = BTreeSet::new();
    let mut untranslatable = Vec::new();
    for (id, effect, condition) in conditions {
        let condition = match condition {
            Ok(Predicate::Constant(false)) => continue,
            Ok(condition) => condition,
            Err(why) => {
                untranslatable.push((id.clone(), effect, why));
                match effect {
                    Effect::Permit => continue,
                    Effect::Forbid => Predicate::Constant(true),
                }
            }
        };
        policies.insert(id.clone());
        let conditions = match effect {
            Effect::Permit => &mut permits,
            Effect::Forbid => {
                forbidding.insert(id);
                &mut forbids
            }
        };
        // What several policies say in the same words is asked of each row once.
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
    let unforbidden = if forbids.contains(&Predicate::Constant(true)) {
        RowFilter::Nothing
    } else if forbids.is_empty() {
        RowFilter::Everything
    } else {
        let not = |forbid: &Predicate| Predicate::Not(Box::new(forbid.clone()));
        RowFilter::Where(Predicate::And(forbids.iter().map(not).collect()))
    };
    let caps = loaded.demands(&policies).caps;
    let filter = if permits.is_empty() || forbids.contains(&Predicate::Constant(true)) {
        RowFilter::Nothing
    } else {
        if permits.contains(&Predicate::Constant(true)) {
            permits = vec![Predicate::Constant(true)];
        }
        if forbids.is_empty() && permits == [Predicate::Constant(true)] {
            RowFilter::Everything
        } else {
            let mut all = vec![Predicate::Or(permits)];
            all.extend(
                forbids
                    .into_iter()
                    .map(|forbid| Predicate::Not(Box::new(forbid))),
            );
            RowFilter::Where(Predicate::And(all))
        }
    };
    Rows {
        filter,
        unforbidden,
        forbidding,
        policies,
        caps,
        untranslatable,
    }
}

fn sort_ids<'a>(ids: impl Iterator<Item = &'a PolicyId>) -> Vec<String> {
    let mut ids: Vec<String> = ids.map(ToString::to_string).collect();
    ids.sort();
    ids
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
        code::Code,
        policy::{
            obligation::{Comparison, Literal, Operand, Predicate, RowFilter},
            tests::fixture::{agent, load, relation_id, set, sources},
        },
        session::{Principal, Session},
    };

    const SELECT: &str = "permit(principal, action == Action::\"select\", resource);\n";
    const SEE: &str = "permit(principal, action == Action::\"see\", resource);\n";
    const TENANT: &str = "@id(\"tenant\") forbid(principal, action == Action::\"see\", resource is row::main::tickets)
        unless { principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant };\n";

    fn rows(policies: &str, who: &str, table: &str) -> RowFilter {
        let set = set(&format!("{SELECT}{policies}"));
        set.session(&agent(who))
            .relation(relation_id(table))
            .unwrap()
            .rows
            .clone()
    }

    fn equals(column: u16, value: i64) -> Predicate {
        Predicate::Compare(
            Operand::Column(column),
            Comparison::Equal,
            Operand::Literal(Literal::Integer(value)),
        )
    }

    #[test]
    fn no_permit_means_no_rows() {
        assert_eq!(rows("", "bot", "tickets"), RowFilter::Nothing);
        assert_eq!(rows(SEE, "bot", "tickets"), RowFilter::Everything);
    }

    #[test]
    fn permits_and_forbids_keep_their_shape() {
        let forbid = Predicate::Not(Box::new(Predicate::And(vec![
            Predicate::Has(1),
            equals(1, 42),
        ])));
        let expect = Predicate::And(vec![
            Predicate::Or(vec![Predicate::Constant(true)]),
            Predicate::Not(Box::new(forbid)),
        ]);
        assert_eq!(
            rows(&format!("{SEE}{TENANT}"), "bot", "tickets"),
            RowFilter::Where(expect)
        );
        assert_eq!(
            rows(&format!("{SEE}{TENANT}"), "bot", "customers"),
            RowFilter::Everything
        );
    }

    /// One policy for every table that has the column, and for no other.
    #[test]
    fn a_policy_may_speak_of_all_tables_with_a_column() {
        let tenant = "@id(\"tenant\") forbid(principal, action == Action::\"see\", resource in HasColumn::\"tenant_id\")
            unless { principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant };\n";
        let own = rows(&format!("{SEE}{TENANT}"), "bot", "tickets");
        assert_ne!(own, RowFilter::Everything);
        assert_eq!(rows(&format!("{SEE}{tenant}"), "bot", "tickets"), own);
        assert_eq!(
            rows(&format!("{SEE}{tenant}"), "officer", "tickets"),
            RowFilter::Nothing
        );
        assert_eq!(
            rows(&format!("{SEE}{tenant}"), "bot", "contacts"),
            RowFilter::Everything
        );
        let inside = "permit(principal, action == Action::\"see\", resource)
            unless { resource in HasColumn::\"tenant_id\" };\n";
        assert_eq!(rows(inside, "bot", "tickets"), RowFilter::Nothing);
        assert_eq!(rows(inside, "bot", "contacts"), RowFilter::Everything);
    }

    #[test]
    fn a_misspelt_column_or_tag_of_tables_is_an_error() {
        for (group, told) in [
            (
                "HasColumn::\"tenantid\"",
                "`HasColumn::\"tenantid\"` is not in the catalog",
            ),
            (
                "Tagged::\"tenant\"",
                "`Tagged::\"tenant\"` is not in the tags that tables have",
            ),
        ] {
            let policies =
                format!("forbid(principal, action == Action::\"see\", resource in {group});");
            let errors = load(&sources(&policies)).unwrap_err();
            assert!(errors.to_string().contains(told), "{errors}");
        }
    }

    #[test]
    fn a_condition_may_name_the_rows_of_another_relation() {
        let others = "permit(principal, action == Action::\"see\", resource) unless { resource is row::main::tickets };\n";
        assert_eq!(rows(others, "bot", "customers"), RowFilter::Everything);
        assert_eq!(rows(others, "bot", "tickets"), RowFilter::Nothing);
        let one = "permit(principal, action == Action::\"see\", resource is row::main::customers)
            unless { resource is row::main::tickets && resource.id == 1 };\n";
        assert_eq!(rows(one, "bot", "customers"), RowFilter::Everything);
        let named =
            "permit(principal, action == Action::\"see\", resource in Table::\"main.customers\")
            unless { resource is row::main::tickets };\n";
        assert_eq!(rows(named, "bot", "customers"), RowFilter::Everything);
    }

    #[test]
    fn permits_are_alternatives() {
        let permit = |id: &str, n: u8| {
            format!(
                "@id(\"{id}\") permit(principal, action == Action::\"see\", resource is row::main::tickets) when {{ resource.id == {n} }};\n"
            )
        };
        let got = rows(
            &format!("{}{}", permit("b", 2), permit("a", 1)),
            "bot",
            "tickets",
        );
        let expect = Predicate::And(vec![Predicate::Or(vec![equals(0, 1), equals(0, 2)])]);
        assert_eq!(got, RowFilter::Where(expect));
    }

    #[test]
    fn a_missing_attribute_matches_nothing() {
        assert_eq!(
            rows(&format!("{SEE}{TENANT}"), "officer", "tickets"),
            RowFilter::Nothing
        );
        assert_eq!(
            rows(&format!("{SEE}{TENANT}"), "stranger", "tickets"),
            RowFilter::Nothing
        );
        let permit = "permit(principal, action == Action::\"see\", resource is row::main::tickets)
            when { principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant };\n";
        assert_eq!(rows(permit, "officer", "tickets"), RowFilter::Nothing);
    }

    #[test]
    fn an_unknown_principal_without_its_required_attributes_sees_nothing() {
        let policies = format!(
            "{SELECT}{SEE}forbid(principal is User, action == Action::\"see\", resource is row::main::tickets)
             unless {{ principal.level == resource.id }};"
        );
        let view = set(&policies).session(&Session::new(Principal::new("User", "unknown")));
        assert_eq!(
            view.relation(relation_id("tickets")).unwrap().rows,
            RowFilter::Nothing
        );
        let policies = format!(
            "{SELECT}{SEE}forbid(principal is User, action == Action::\"select\", resource)
             unless {{ principal.level == 3 }};"
        );
        let view = set(&policies).session(&Session::new(Principal::new("User", "unknown")));
        let refused = view.relation(relation_id("tickets")).unwrap_err();
        assert_eq!(refused.code(), Code::PolicyEvaluationFailed);
        assert_eq!(refused.policies(), ["base.cedar:3"]);
    }

    #[test]
    fn row_caps_combine_to_the_smallest() {
        let policies = "@max_rows(\"500\") permit(principal, action == Action::\"select\", resource);
            @max_rows(\"100\") permit(principal, action == Action::\"see\", resource is row::main::tickets) when { resource.id < 5 };
            @max_rows(\"10\") permit(principal, action == Action::\"see\", resource is row::main::customers);";
        let set = set(policies);
        let view = set.session(&agent("bot"));
        let tickets = view.relation(relation_id("tickets")).unwrap();
        assert_eq!(tickets.caps.rows, Some(100));
        assert_eq!(tickets.policies, ["base.cedar:1", "base.cedar:2"]);
        assert_eq!(
            view.relation(relation_id("customers")).unwrap().caps.rows,
            Some(10)
        );
    }

    #[test]
    fn transport_is_known_while_filtering() {
        let policies = format!(
            "{SELECT}permit(principal, action == Action::\"see\", resource) when {{ context.transport == \"cli\" }};"
        );
        let set = set(&policies);
        let id = relation_id("tickets");
        let bot = agent("bot");
        assert_eq!(
            set.session(&bot).relation(id).unwrap().rows,
            RowFilter::Nothing
        );
        let cli = bot.over(crate::session::Transport::Cli);
        assert_eq!(
            set.session(&cli).relation(id).unwrap().rows,
            RowFilter::Everything
        );
    }
}
