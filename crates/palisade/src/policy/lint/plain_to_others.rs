//! Columns that forbids withhold from each principal whom the entities name, role by role, and that any other principal reads
//! plain: one in no role, or the one by default.

use std::collections::{BTreeMap, HashMap};

use cedar_policy::{Effect, EntityTypeName, EntityUid, PolicyId, PrincipalConstraint};

use crate::catalog::Relation;
use crate::policy::{
    cedar::{request::Subject, schema::PolicyAction},
    lint::{list_names, place},
    load::{diagnostic::PolicyProblem, source::Origins},
    obligation::{ColumnDecision, ColumnLevel},
    rule::Rule,
    set::Loaded,
};

/// Columns by who reads them plain.
#[derive(Default)]
pub(in crate::policy) struct PlainToOthers {
    by_type: BTreeMap<EntityTypeName, OfType>,
}

/// What is known of the principals of one type.
struct OfType {
    /// The first subject that was looked at.
    first: usize,
    /// The principals that were looked at: of one alone nothing is concluded.
    principals: Vec<EntityUid>,
    /// By column that is withheld from all of them: a policy that does it.
    withheld: HashMap<String, String>,
    /// By policy: the columns that are plain to a principal of whom nothing is known.
    plain: BTreeMap<String, Vec<String>>,
}

impl PlainToOthers {
    /// Notes what the subject of this number, whom the entities name, reads of `relation`.
    pub(in crate::policy) fn note_known(
        &mut self,
        loaded: &Loaded,
        (number, subject): (usize, &Subject),
        relation: &Relation,
        decisions: &[ColumnDecision],
    ) {
        let kind = subject.uid.type_name();
        let known = self.by_type.entry(kind.clone()).or_insert_with(|| OfType {
            first: number,
            principals: Vec::new(),
            withheld: HashMap::new(),
            plain: BTreeMap::new(),
        });
        if !known.principals.contains(&subject.uid) {
            known.principals.push(subject.uid.clone());
        }
        for (column, decided) in relation.columns.iter().zip(decisions) {
            if decided.level == ColumnLevel::Plain {
                known.withheld.remove(&column.uid);
            } else if known.first == number {
                let by = decided
                    .policies
                    .iter()
                    .find(|id| withholds_from_roles(loaded, id));
                if let Some(id) = by {
                    known.withheld.insert(column.uid.clone(), id.clone());
                }
            } else if !decided
                .policies
                .iter()
                .any(|id| withholds_from_roles(loaded, id))
            {
                // It is not permitted either, which is another reason.
                known.withheld.remove(&column.uid);
            }
        }
    }

    /// Notes what a principal of whom nothing is known reads of `relation`, of which it sees rows.
    pub(in crate::policy) fn note_unknown(
        &mut self,
        subject: &Subject,
        relation: &Relation,
        decisions: &[ColumnDecision],
    ) {
        let Some(known) = self.by_type.get_mut(subject.uid.type_name()) else {
            return;
        };
        if known.principals.len() < 2 {
            return;
        }
        for (column, decided) in relation.columns.iter().zip(decisions) {
            if decided.level == ColumnLevel::Plain
                && let Some(policy) = known.withheld.remove(&column.uid)
            {
                let columns = known.plain.entry(policy).or_default();
                columns.push(column.uid.clone());
            }
        }
    }

    /// The warnings: one for each policy.
    pub(in crate::policy) fn report(
        self,
        origins: &Origins<'_>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        for (kind, known) in self.by_type {
            for (id, columns) in known.plain {
                let message = format!(
                    "{} is withheld from each `{kind}` in entities.json, by its role, and any other `{kind}` reads it plain",
                    list_names(&columns)
                );
                let help = "say who may read it: forbid it with `unless { principal in Role::\"…\" }`, or permit reading to roles and not to all";
                let warning = place(origins, &id, message).with_help(Some(help));
                warnings.push(warning.of_rule(Rule::PlainToOthers));
            }
        }
    }
}

/// Whether a policy forbids reading plain values to those in a role.
fn withholds_from_roles(loaded: &Loaded, id: &str) -> bool {
    let policies = loaded.policies.for_action(PolicyAction::ReadPlain);
    let policy = policies.and_then(|policies| policies.policy(&PolicyId::new(id)));
    policy.is_some_and(|policy| {
        policy.effect() == Effect::Forbid
            && match policy.principal_constraint() {
                PrincipalConstraint::In(_) | PrincipalConstraint::IsIn(_, _) => true,
                PrincipalConstraint::Any
                | PrincipalConstraint::Is(_)
                | PrincipalConstraint::Eq(_) => false,
            }
    })
}

#[cfg(test)]
mod tests {
    use crate::policy::tests::fixture::{READ_ALL, lint};

    #[test]
    fn what_strangers_alone_read_is_warned_of() {
        let entities = r#"[
            {"uid": {"type": "Role", "id": "sales"}, "attrs": {}, "parents": []},
            {"uid": {"type": "Role", "id": "support"}, "attrs": {}, "parents": []},
            {"uid": {"type": "Agent", "id": "a"}, "attrs": {}, "parents": [{"type": "Role", "id": "sales"}]},
            {"uid": {"type": "Agent", "id": "b"}, "attrs": {}, "parents": [{"type": "Role", "id": "support"}]}
        ]"#;
        let forbid = |scope: &str| {
            format!(
                "forbid({scope}, action == Action::\"read_plain\", resource == Column::\"main.customers.ssn\");\n"
            )
        };
        let told = |policies: &str| -> Vec<String> {
            let told = lint(policies, Some(entities)).into_iter();
            told.filter(|told| told.contains("is withheld from each"))
                .collect()
        };
        let (sales, support) = (
            forbid("principal in Role::\"sales\""),
            forbid("principal in Role::\"support\""),
        );
        let found = told(&format!("{READ_ALL}{sales}{support}"));
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with("base.cedar:4:1: `main.customers.ssn` is withheld from each `Agent` in entities.json")),
            "{found:?}"
        );
        for silent in [
            // One role may read it.
            format!("{READ_ALL}{sales}"),
            // It is withheld from strangers too.
            format!("{READ_ALL}{}", forbid("principal")),
            format!("{READ_ALL}{sales}{support}{}", forbid("principal is Agent")),
            format!(
                "{}{sales}{support}",
                READ_ALL.replace("permit(principal,", "permit(principal in Role::\"sales\",")
            ),
            // Two are singled out.
            format!(
                "{READ_ALL}{}{}",
                forbid("principal == Agent::\"a\""),
                forbid("principal == Agent::\"b\"")
            ),
        ] {
            assert_eq!(told(&silent), [""; 0], "{silent}");
        }
    }
}
