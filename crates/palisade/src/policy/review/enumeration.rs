//! What an enumeration of tables and columns does not tell of policies: for whoever proves something by one.

use std::collections::BTreeSet;

use cedar_policy::{Effect, Policy};

use crate::policy::{
    PolicySet,
    cedar::{entities, schema::PolicyAction},
    review::what_if,
};
use crate::session::Principal;

/// Actions that no table, row or column is asked about.
const NOT_ENUMERATED: [PolicyAction; 5] = [
    PolicyAction::Call,
    PolicyAction::Create,
    PolicyAction::Alter,
    PolicyAction::Drop,
    PolicyAction::Approve,
];

impl PolicySet {
    /// Whether `principal` is `group`, or in it by the operator's entities.
    pub(crate) fn is_in(&self, principal: &Principal, group: &Principal) -> bool {
        let uid = |one: &Principal| entities::uid(one.kind(), one.id());
        let (Some(principal), Some(group)) = (uid(principal), uid(group)) else {
            return false;
        };
        let mut above = self
            .loaded
            .store
            .operator
            .ancestors(&principal)
            .into_iter()
            .flatten();
        principal == group || above.any(|one| *one == group)
    }

    /// Every entity that `entities.json` or a policy names, as Cedar writes it, sorted.
    #[must_use]
    pub fn entity_names(&self) -> BTreeSet<String> {
        let named = what_if::find_entities(&self.loaded.policies).into_iter();
        let named = named.map(|(kind, id)| Principal::new(kind, id).to_string());
        let listed = self.loaded.store.operator.iter();
        let listed = listed.map(|entity| {
            let uid = entity.uid();
            Principal::new(uid.type_name().to_string(), uid.id().unescaped()).to_string()
        });
        named.chain(listed).collect()
    }

    /// Whether what several policies demand together may be something else than what each demands: policies of columns, and
    /// those with caps or approvals, look at circumstances. Then masks and caps in between are not known.
    #[must_use]
    pub fn demands_vary(&self) -> bool {
        let policies = &self.loaded.policies;
        let mut of_columns = PolicyAction::filter(PolicyAction::is_read_of_columns)
            .filter_map(|action| policies.for_action(action))
            .flat_map(cedar_policy::PolicySet::policies);
        let mut demanding = what_if::each(policies).filter(|policy| {
            let id: &str = policy.id().as_ref();
            let annotations = self.loaded.annotations.get(id);
            annotations.is_some_and(|found| found.demands() || found.mask.is_some())
        });
        of_columns.any(what_if::looks_at_circumstances)
            || demanding.any(what_if::looks_at_circumstances)
    }

    /// Whether the policy called `id` looks at the time, the client, the transport or the statement.
    #[must_use]
    pub fn looks_at_circumstances(&self, id: &str) -> bool {
        self.of_id(id).any(what_if::looks_at_circumstances)
    }

    /// Whether the policy called `id` demands an approval.
    #[must_use]
    pub fn asks_for_approval(&self, id: &str) -> bool {
        let annotations = self.loaded.annotations.get(id);
        annotations.is_some_and(|found| found.approval.is_some())
    }

    /// The actions of the policy called `id` that tables and columns do not show: of functions, definitions and approvals.
    #[must_use]
    pub fn actions_beyond_tables(&self, id: &str) -> Vec<&'static str> {
        let is_of = |action: &&PolicyAction| self.loaded.policies.has(**action, id);
        let found = NOT_ENUMERATED.iter().filter(is_of);
        found.map(|action| action.name()).collect()
    }

    /// The policies of functions, definitions and approvals, as Cedar writes them, each behind its action and effect.
    #[must_use]
    pub fn policies_beyond_tables(&self) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        for action in NOT_ENUMERATED {
            let policies = self.loaded.policies.for_action(action).into_iter();
            for policy in policies.flat_map(cedar_policy::PolicySet::policies) {
                let effect = match policy.effect() {
                    Effect::Permit => "permit",
                    Effect::Forbid => "forbid",
                };
                // What cannot be written down is told apart by its id.
                let text = policy.to_cedar().unwrap_or_else(|| policy.id().to_string());
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                out.insert(format!("{} {effect}: {text}", action.name()));
            }
        }
        out
    }

    /// The tables, views and columns that the policy called `id` names.
    #[must_use]
    pub fn tables_named_by(&self, id: &str) -> BTreeSet<String> {
        let named = self.of_id(id).flat_map(what_if::find_entities_of);
        let of_tables =
            named.filter(|(kind, _)| ["Table", "View", "Column"].contains(&kind.as_str()));
        of_tables.map(|(_, id)| id).collect()
    }

    fn of_id<'s>(&'s self, id: &'s str) -> impl Iterator<Item = &'s Policy> {
        what_if::each(&self.loaded.policies)
            .filter(move |policy| policy.id().as_ref() as &str == id)
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::tests::fixture::set;

    #[test]
    fn names_are_those_of_policies_and_of_entities() {
        let set = set(
            r#"@id("a") permit(principal == User::"ann", action == Action::"select", resource == Table::"main.tickets");
            @id("b") forbid(principal, action == Action::"select", resource)
            when { resource == Table::"main.customers" || principal in Role::"guest" };
            @id("c") permit(principal, action == Action::"see", resource);"#,
        );
        let names = set.entity_names();
        let of_type = |kind: &str| -> Vec<&str> {
            let names = names.iter().map(String::as_str);
            names.filter(|name| name.starts_with(kind)).collect()
        };
        assert_eq!(of_type("User"), ["User::\"ann\""]);
        assert_eq!(of_type("Agent"), ["Agent::\"bot\"", "Agent::\"officer\""]);
        assert_eq!(
            of_type("Role"),
            ["Role::\"analyst\"", "Role::\"dpo\"", "Role::\"guest\""]
        );
        assert_eq!(
            of_type("Table"),
            ["Table::\"main.customers\"", "Table::\"main.tickets\""]
        );
        for (id, tables) in [
            ("a", &["main.tickets"][..]),
            ("b", &["main.customers"]),
            ("c", &[]),
            ("none", &[]),
        ] {
            assert!(set.tables_named_by(id).iter().eq(tables), "{id}");
        }
    }
}
