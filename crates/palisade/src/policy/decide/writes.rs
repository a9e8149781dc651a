//! What a session may change: actions on a relation, its columns, and its rows.
//!
//! A relation's relatives count as in [`inherit`](crate::policy::inheritance): a change must be permitted of it and
//! of each ancestor, and forbidden of no descendant, because rows of one are rows of the others.

use std::collections::BTreeMap;

use crate::policy::{
    cedar::{
        entities::resource,
        failure::Failure,
        request::{Subject, Verdict, decide, decide_among},
        schema,
        schema::PolicyAction,
    },
    decide::rows::decide_rows_with_relatives,
    obligation::{Caps, RowFilter},
    set::Loaded,
};
use crate::{
    catalog::{Change, Relation},
    code::Code,
};

/// Everything decided about changing one relation for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteDecision {
    actions: BTreeMap<Change, ActionDecision>,
    /// For each column of the catalog's relation, in its order.
    pub columns: Vec<ColumnWrite>,
    /// Rows that may be changed or deleted, beyond being seen.
    pub change: RowFilter,
    /// Ids of the policies that determined `change`, sorted.
    pub change_policies: Vec<String>,
    /// What rows may be like after a change.
    pub add: RowFilter,
    /// Ids of the policies that determined `add`, sorted.
    pub add_policies: Vec<String>,
}

/// What was decided about one way of changing a relation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ActionDecision {
    /// Whether it is permitted, if the statement has a condition where one can stand.
    pub permitted: bool,
    /// Whether it is permitted without a condition, by a policy that says so.
    pub unconditional: bool,
    /// Ids of the policies that permit it without a condition, sorted; none where none does.
    pub unconditional_policies: Vec<String>,
    /// The tightest caps of these, which hold beside the others where there is no condition.
    pub unconditional_caps: Caps,
    /// Ids of the policies that determined it, sorted.
    pub policies: Vec<String>,
    /// The tightest caps of the determining policies; `rows` are the most that one statement may change.
    pub caps: Caps,
    /// `@message` of the forbid that refused it.
    pub message: Option<String>,
}

impl ActionDecision {
    /// The code of the refusal where it is not permitted.
    #[must_use]
    pub fn code(&self) -> Code {
        // Cedar names policies in a denial only if they forbid.
        if self.policies.is_empty() {
            Code::PolicyNoPermit
        } else {
            Code::PolicyForbidden
        }
    }
}

/// What was decided about assigning one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnWrite {
    /// Whether it may be assigned.
    pub permitted: bool,
    /// Ids of the policies that determined it, sorted.
    pub policies: Vec<String>,
}

impl WriteDecision {
    /// Of what is no table.
    pub(crate) fn nothing() -> Self {
        Self {
            actions: BTreeMap::new(),
            columns: Vec::new(),
            change: RowFilter::Nothing,
            change_policies: Vec::new(),
            add: RowFilter::Nothing,
            add_policies: Vec::new(),
        }
    }

    /// Ids of the policies that determined which rows `change` reaches and leaves.
    pub(crate) fn row_policies(&self, change: Change) -> impl Iterator<Item = &String> {
        let (reached, left): (&[String], &[String]) = match change {
            Change::Insert => (&[], &self.add_policies),
            Change::Update => (&self.change_policies, &self.add_policies),
            Change::Delete | Change::Truncate => (&self.change_policies, &[]),
        };
        reached.iter().chain(left)
    }

    /// What was decided about `change`.
    #[must_use]
    pub fn action(&self, change: Change) -> ActionDecision {
        self.actions.get(&change).cloned().unwrap_or_default()
    }

    /// Whether any change is permitted, so that the relation exists as a target.
    #[must_use]
    pub fn is_target(&self) -> bool {
        self.actions.values().any(|action| action.permitted)
    }

    /// Whether the column at `index` may be assigned.
    #[must_use]
    pub fn assigns(&self, index: u16) -> bool {
        self.columns
            .get(usize::from(index))
            .is_some_and(|column| column.permitted)
    }
}

/// The policy action of a change.
pub(in crate::policy) fn action(change: Change) -> PolicyAction {
    match change {
        Change::Insert => PolicyAction::Insert,
        Change::Update => PolicyAction::Update,
        Change::Delete => PolicyAction::Delete,
        Change::Truncate => PolicyAction::Truncate,
    }
}

/// What `subject` may change of `relation`.
///
/// # Errors
/// If a policy that could matter fails to evaluate.
pub(in crate::policy) fn decide_writes(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<WriteDecision, Failure> {
    let mut out = WriteDecision::nothing();
    // Without a permit there is nothing to decide, whatever is forbidden.
    let possible = Change::ALL
        .into_iter()
        .filter(|change| loaded.policies.permits(action(*change)));
    for change in possible {
        let decided = decide_change(loaded, subject, relation, change)?;
        out.actions.insert(change, decided);
    }
    if !out.is_target() {
        return Ok(out);
    }
    for column in &relation.columns {
        out.columns
            .push(decide_assignment(loaded, subject, relation, &column.key)?);
    }
    (out.change, out.change_policies) =
        decide_rows_with_relatives(loaded, subject, relation, PolicyAction::Change)?;
    (out.add, out.add_policies) =
        decide_rows_with_relatives(loaded, subject, relation, PolicyAction::Add)?;
    Ok(out)
}

fn relatives<'l>(loaded: &'l Loaded, relation: &Relation) -> [Vec<&'l Relation>; 2] {
    [
        loaded.inheritance.ancestors(&loaded.catalog, relation),
        loaded.inheritance.descendants(&loaded.catalog, relation),
    ]
}

fn decide_change(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    change: Change,
) -> Result<ActionDecision, Failure> {
    let mut out = decide_own_change(loaded, subject, relation, change)?;
    let [above, below] = relatives(loaded, relation);
    for (other, only_forbids) in above
        .into_iter()
        .map(|other| (other, false))
        .chain(below.into_iter().map(|other| (other, true)))
    {
        if !schema::has_entity(other) {
            return Ok(ActionDecision::default());
        }
        let theirs = decide_own_change(loaded, subject, other, change)?;
        let forbidden = !theirs.permitted && !theirs.policies.is_empty();
        if only_forbids && !forbidden {
            continue;
        }
        if !theirs.permitted && out.permitted {
            out.message.clone_from(&theirs.message);
            out.policies.clear();
        }
        out.permitted &= theirs.permitted;
        out.unconditional &= theirs.unconditional;
        (out.unconditional_policies).extend(theirs.unconditional_policies);
        out.unconditional_caps = (out.unconditional_caps).tightest(theirs.unconditional_caps);
        out.caps = out.caps.tightest(theirs.caps);
        out.policies.extend(theirs.policies);
    }
    for policies in [&mut out.policies, &mut out.unconditional_policies] {
        policies.sort();
        policies.dedup();
    }
    Ok(out)
}

/// What policies say of a relation alone.
fn decide_own_change(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    change: Change,
) -> Result<ActionDecision, Failure> {
    let table = resource("Table", &relation.uid)?;
    let ask = |has_where: bool| -> Result<Verdict, Failure> {
        let context = match change {
            Change::Insert | Change::Truncate => subject.context.clone(),
            Change::Update | Change::Delete => subject.circumstances.with_condition(has_where)?,
        };
        let entities = subject.entities_about(loaded, relation)?;
        decide_among(
            loaded,
            subject,
            action(change),
            table.clone(),
            &entities,
            context,
        )
    };
    let verdict = ask(true)?;
    let (unconditional, unconditional_policies) = match change {
        // There is no place for a condition, and `truncate` says what it does.
        Change::Insert | Change::Truncate => (verdict.permitted, Vec::new()),
        Change::Update | Change::Delete => {
            let without = ask(false)?;
            // A blanket permit does not reach it: some policy must have spoken of it.
            let spoken = |id: &String| loaded.unconditional.contains(id);
            match without.permitted && without.policies.iter().any(spoken) {
                true => (true, without.policies),
                false => (false, Vec::new()),
            }
        }
    };
    let annotations = |id: &String| loaded.annotations.get(id);
    Ok(ActionDecision {
        permitted: verdict.permitted,
        unconditional,
        unconditional_caps: loaded.demands(&unconditional_policies).caps,
        unconditional_policies,
        caps: loaded.demands(&verdict.policies).caps,
        message: verdict
            .policies
            .iter()
            .filter(|_| !verdict.permitted)
            .find_map(|id| annotations(id)?.message.clone()),
        policies: verdict.policies,
    })
}

/// Whether the column `key` of `relation` may be assigned, and its namesakes among the relatives.
fn decide_assignment(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    key: &str,
) -> Result<ColumnWrite, Failure> {
    let mut out = ColumnWrite {
        permitted: true,
        policies: Vec::new(),
    };
    let [above, below] = relatives(loaded, relation);
    let own = (relation, false);
    for (other, only_forbids) in std::iter::once(own)
        .chain(above.into_iter().map(|other| (other, false)))
        .chain(below.into_iter().map(|other| (other, true)))
    {
        let Some(column) = other.position(key).and_then(|index| other.column(index)) else {
            continue;
        };
        let verdict = decide(
            loaded,
            subject,
            PolicyAction::Write,
            other,
            resource("Column", &column.uid)?,
        )?;
        let forbidden = !verdict.permitted && !verdict.policies.is_empty();
        if only_forbids && !forbidden {
            continue;
        }
        out.permitted &= verdict.permitted;
        out.policies.extend(verdict.policies);
    }
    out.policies.sort();
    out.policies.dedup();
    Ok(out)
}
