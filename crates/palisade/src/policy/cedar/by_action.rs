//! Which policies can matter to which action on which resource. Cedar looks at every policy at every call, so each call gets a
//! set of its own.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use cedar_policy::{
    ActionConstraint, Effect, Entities, EntityTypeName, EntityUid, Policy, PolicyId, PolicySet,
    PolicySetError, PrincipalConstraint, ResourceConstraint,
};

use crate::policy::cedar::{context_use, failure::Failure, schema::PolicyAction};

/// The policies by the actions and the resources that their scopes admit.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Slices {
    whole: BTreeMap<PolicyAction, Slice>,
    /// Those that hold whatever the statement is, for as long as it is not known.
    before: BTreeMap<PolicyAction, Slice>,
}

/// The policies of one action. A policy whose scope names a resource is asked about that resource alone, so that a decision
/// costs as much with ten thousand of them as with ten.
#[derive(Debug, Clone)]
struct Slice {
    all: PolicySet,
    permits: bool,
    forbids: bool,
    /// Those whose scopes admit every resource.
    of_any: PolicySet,
    by_type: HashMap<EntityTypeName, Vec<Policy>>,
    /// By the resource that is meant, and by what it is in.
    by_uid: HashMap<EntityUid, Vec<Policy>>,
}

impl Slice {
    fn new(policies: impl IntoIterator<Item = Policy>) -> Result<Self, Box<PolicySetError>> {
        let mut all = PolicySet::new();
        let (mut permits, mut forbids) = (false, false);
        let mut of_any = PolicySet::new();
        let mut by_type: HashMap<_, Vec<_>> = HashMap::new();
        let mut by_uid: HashMap<_, Vec<_>> = HashMap::new();
        for policy in policies {
            all.add(policy.clone()).map_err(Box::new)?;
            match policy.effect() {
                Effect::Permit => permits = true,
                Effect::Forbid => forbids = true,
            }
            match policy.resource_constraint() {
                ResourceConstraint::Any => of_any.add(policy).map_err(Box::new)?,
                ResourceConstraint::Is(kind) => by_type.entry(kind).or_default().push(policy),
                ResourceConstraint::Eq(uid)
                | ResourceConstraint::In(uid)
                | ResourceConstraint::IsIn(_, uid) => {
                    by_uid.entry(uid).or_default().push(policy);
                }
            }
        }
        Ok(Self {
            all,
            permits,
            forbids,
            of_any,
            by_type,
            by_uid,
        })
    }

    /// The policies that a resource of this type can meet, which is or is in one of `uids`.
    fn about<'u>(
        &self,
        kind: &EntityTypeName,
        uids: impl Iterator<Item = &'u EntityUid>,
    ) -> Result<Cow<'_, PolicySet>, Failure> {
        let of_type = self.by_type.get(kind).into_iter().flatten();
        let of_uids = uids.filter_map(|uid| self.by_uid.get(uid)).flatten();
        let mut named = of_type.chain(of_uids).peekable();
        if named.peek().is_none() {
            return Ok(Cow::Borrowed(&self.of_any));
        }
        let mut out = self.of_any.clone();
        for policy in named {
            out.add(policy.clone()).map_err(Failure::new)?;
        }
        Ok(Cow::Owned(out))
    }
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
            whole.insert(*action, Slice::new(chosen.cloned())?);
        }
        Self::from_slices(whole)
    }

    fn from_slices(whole: BTreeMap<PolicyAction, Slice>) -> Result<Self, Box<PolicySetError>> {
        let known = whole.iter().map(|(action, slice)| {
            let known = slice
                .all
                .policies()
                .map(context_use::whatever_the_statement);
            Ok::<_, Box<PolicySetError>>((*action, Slice::new(known)?))
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
        let changed = self.whole.iter().map(|(action, slice)| {
            let policies: Vec<_> = slice
                .all
                .policies()
                .map(|policy| change(*action, policy))
                .collect::<Result<_, _>>()?;
            let slice = Slice::new(policies).map_err(|e| e.to_string())?;
            Ok((*action, slice))
        });
        let whole = changed.collect::<Result<_, String>>()?;
        Self::from_slices(whole).map_err(|e| e.to_string())
    }

    /// Those that can apply to `principal`, which is in `above`: whatever else there is changes nothing for it.
    ///
    /// # Errors
    /// If two policies have one id.
    pub(in crate::policy) fn about_principal(
        &self,
        principal: &EntityUid,
        above: &BTreeSet<EntityUid>,
    ) -> Result<Self, Box<PolicySetError>> {
        let is_within = |uid: &EntityUid| uid == principal || above.contains(uid);
        let can_apply = |policy: &&Policy| match policy.principal_constraint() {
            PrincipalConstraint::Any => true,
            PrincipalConstraint::Is(kind) => kind == *principal.type_name(),
            PrincipalConstraint::Eq(uid) => uid == *principal,
            PrincipalConstraint::In(uid) => is_within(&uid),
            PrincipalConstraint::IsIn(kind, uid) => {
                kind == *principal.type_name() && is_within(&uid)
            }
        };
        let whole = self.whole.iter().map(|(action, slice)| {
            let chosen = slice.all.policies().filter(can_apply).cloned();
            Ok((*action, Slice::new(chosen)?))
        });
        Self::from_slices(whole.collect::<Result<_, Box<PolicySetError>>>()?)
    }

    /// The policies whose scope admits `action`.
    pub(in crate::policy) fn for_action(&self, action: PolicyAction) -> Option<&PolicySet> {
        self.whole.get(&action).map(|slice| &slice.all)
    }

    /// The policies that can matter to `action` on `resource`; before the statement is known those parts of them that hold whatever
    /// it is.
    ///
    /// # Errors
    /// If the action has no policies to look among, or two have one id.
    pub(in crate::policy) fn about(
        &self,
        action: PolicyAction,
        resource: &EntityUid,
        entities: &Entities,
        knows_statement: bool,
    ) -> Result<Cow<'_, PolicySet>, Failure> {
        let slices = if knows_statement {
            &self.whole
        } else {
            &self.before
        };
        let slice = slices.get(&action).ok_or_else(no_policies)?;
        let above = entities.ancestors(resource).into_iter().flatten();
        slice.about(resource.type_name(), std::iter::once(resource).chain(above))
    }

    /// The policies that can matter to `action` on rows of this type, which are in `ancestors`.
    ///
    /// # Errors
    /// As [`about`](Self::about).
    pub(in crate::policy) fn about_rows(
        &self,
        action: PolicyAction,
        row_type: &EntityTypeName,
        ancestors: &[EntityUid],
    ) -> Result<Cow<'_, PolicySet>, Failure> {
        let slice = self.whole.get(&action).ok_or_else(no_policies)?;
        slice.about(row_type, ancestors.iter())
    }

    /// Whether the policy of this id is among those of `action`.
    pub(in crate::policy) fn has(&self, action: PolicyAction, id: &str) -> bool {
        let policies = self.for_action(action);
        policies.is_some_and(|policies| policies.policy(&PolicyId::new(id)).is_some())
    }

    /// Whether a policy could permit `action`.
    pub(in crate::policy) fn permits(&self, action: PolicyAction) -> bool {
        self.whole.get(&action).is_some_and(|slice| slice.permits)
    }

    /// Whether a policy could forbid `action`.
    pub(in crate::policy) fn forbids(&self, action: PolicyAction) -> bool {
        self.whole.get(&action).is_none_or(|slice| slice.forbids)
    }
}

fn no_policies() -> Failure {
    Failure::new("no policies for the action")
}

/// Whether the policy's scope admits an action of which `is_meant` holds.
pub(in crate::policy) fn covers_any(
    policy: &Policy,
    is_meant: impl Fn(PolicyAction) -> bool,
) -> bool {
    PolicyAction::filter(is_meant).any(|action| covers(policy, action))
}

/// Whether the policy's scope admits no action but those of which `is_meant` holds.
pub(in crate::policy) fn covers_only(
    policy: &Policy,
    is_meant: impl Fn(PolicyAction) -> bool,
) -> bool {
    !covers_any(policy, |action| !is_meant(action))
}

/// Whether the policy's scope admits `action`, by itself or as a member of a group.
pub(in crate::policy) fn covers(policy: &Policy, action: PolicyAction) -> bool {
    let is = |uid: &EntityUid, name: &str| {
        uid.type_name().to_string() == "Action" && uid.id().unescaped() == name
    };
    match policy.action_constraint() {
        // A permit of everything gives no tokens.
        ActionConstraint::Any => {
            action != PolicyAction::ReadToken || policy.effect() == Effect::Forbid
        }
        ActionConstraint::Eq(uid) => is(&uid, action.name()),
        ActionConstraint::In(uids) => uids.iter().any(|uid| {
            is(uid, action.name()) || action.group().is_some_and(|group| is(uid, group))
        }),
    }
}
