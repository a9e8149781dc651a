//! Which policies can matter to which action. Cedar looks at every policy at every call, so each
//! action gets a set of its own.

use std::collections::BTreeMap;

use cedar_policy::{
    ActionConstraint, Effect, EntityUid, Policy, PolicyId, PolicySet, PolicySetError,
};

use crate::policy::cedar::{context_use, schema::PolicyAction};

/// The policies by the actions their scopes admit.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Slices {
    whole: BTreeMap<PolicyAction, PolicySet>,
    /// Those that hold whatever the statement is, for as long as it is not known.
    before: BTreeMap<PolicyAction, PolicySet>,
}

impl Slices {
    /// One set for each action.
    ///
    /// # Errors
    /// If two policies have one id.
    pub(in crate::policy) fn new<'a>(
        policies: impl Iterator<Item = &'a Policy> + Clone,
    ) -> Result<Self, Box<PolicySetError>> {
        let mut whole = BTreeMap::new();
        for action in PolicyAction::ALL {
            let chosen = policies.clone().filter(|policy| covers(policy, *action));
            let set = PolicySet::from_policies(chosen.cloned()).map_err(Box::new)?;
            whole.insert(*action, set);
        }
        Self::from_sets(whole)
    }

    fn from_sets(whole: BTreeMap<PolicyAction, PolicySet>) -> Result<Self, Box<PolicySetError>> {
        let known = whole.iter().map(|(action, policies)| {
            let known = policies.policies().map(context_use::whatever_the_statement);
            let known = PolicySet::from_policies(known).map_err(Box::new)?;
            Ok::<_, Box<PolicySetError>>((*action, known))
        });
        let before = known.collect::<Result<_, _>>()?;
        Ok(Self { whole, before })
    }

    /// The same with `change` done to each policy of each action.
    ///
    /// # Errors
    /// As `change`, and if two policies have one id.
    pub(in crate::policy) fn map(
        &self,
        change: impl Fn(PolicyAction, &Policy) -> Result<Policy, String>,
    ) -> Result<Self, String> {
        let changed = self.whole.iter().map(|(action, policies)| {
            let policies: Vec<_> = policies
                .policies()
                .map(|policy| change(*action, policy))
                .collect::<Result<_, _>>()?;
            let policies = PolicySet::from_policies(policies).map_err(|e| e.to_string())?;
            Ok((*action, policies))
        });
        let whole = changed.collect::<Result<_, String>>()?;
        Self::from_sets(whole).map_err(|e| e.to_string())
    }

    /// The policies whose scope admits `action`.
    pub(in crate::policy) fn for_action(&self, action: PolicyAction) -> Option<&PolicySet> {
        self.whole.get(&action)
    }

    /// Those policies as far as they hold whatever the statement is: for asking before it is known.
    pub(in crate::policy) fn for_action_before_statement(
        &self,
        action: PolicyAction,
    ) -> Option<&PolicySet> {
        self.before.get(&action)
    }

    /// Whether the policy of this id is among those of `action`.
    pub(in crate::policy) fn has(&self, action: PolicyAction, id: &str) -> bool {
        let policies = self.for_action(action);
        policies.is_some_and(|policies| policies.policy(&PolicyId::new(id)).is_some())
    }

    /// Whether a policy could permit `action`.
    pub(in crate::policy) fn permits(&self, action: PolicyAction) -> bool {
        self.for_action(action).is_some_and(|policies| {
            policies
                .policies()
                .any(|policy| policy.effect() == Effect::Permit)
        })
    }

    /// Whether a policy could forbid `action`.
    pub(in crate::policy) fn forbids(&self, action: PolicyAction) -> bool {
        self.for_action(action).is_none_or(|policies| {
            policies
                .policies()
                .any(|policy| policy.effect() == Effect::Forbid)
        })
    }
}

/// Whether the policy's scope admits `action`, by itself or as a member of a group.
pub(in crate::policy) fn covers(policy: &Policy, action: PolicyAction) -> bool {
    let is = |uid: &EntityUid, name: &str| {
        uid.type_name().to_string() == "Action" && uid.id().unescaped() == name
    };
    match policy.action_constraint() {
        // Nobody gets tokens by a permit of everything.
        ActionConstraint::Any => {
            action != PolicyAction::ReadToken || policy.effect() == Effect::Forbid
        }
        ActionConstraint::Eq(uid) => is(&uid, action.name()),
        ActionConstraint::In(uids) => uids.iter().any(|uid| {
            is(uid, action.name()) || action.group().is_some_and(|group| is(uid, group))
        }),
    }
}
