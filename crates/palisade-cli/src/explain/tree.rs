//! A trace as a tree: what is touched, where, by which policies, and what stands in its place.

use palisade::{
    access::TextPlace,
    firewall::{ColumnTrace, RelationTrace, Trace},
    policy::ConditionValues,
};

use super::{DecidingPolicy, Explained};

/// A line of the tree, with what belongs to it.
#[derive(Debug, Default)]
pub(super) struct Branch {
    /// What it says.
    pub(super) text: String,
    /// A statement below it.
    pub(super) sql: Option<String>,
    /// What belongs to it.
    pub(super) below: Vec<Branch>,
}

impl Branch {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// What was decided about each relation.
pub(super) fn describe_relations(explained: &Explained) -> Vec<Branch> {
    let relations = explained.trace.relations.iter();
    relations
        .map(|relation| of_relation(relation, &explained.policies))
        .collect()
}

/// What holds for the statement as a whole, and the policies that none of its relations names.
pub(super) fn describe_whole(explained: &Explained) -> Vec<Branch> {
    let Trace {
        original: _,
        principal: _,
        stage: _,
        relations,
        functions,
        max_rows,
        max_time_ms,
        approval,
        fenced,
        policies,
        prechecks,
        rewritten: _,
        code: _,
        message: _,
        detail: _,
    } = &explained.trace;
    let mut out = Vec::new();
    let is_told = |id: &String| relations.iter().any(|relation| names(relation, id));
    for id in policies.iter().filter(|id| !is_told(id)) {
        let branches = of_policy(id, "", &explained.policies);
        out.extend(branches);
    }
    if !functions.is_empty() {
        out.push(Branch::new(format!("functions: {}", functions.join(", "))));
    }
    if let Some(rows) = max_rows {
        out.push(Branch::new(format!("row cap: {rows}")));
    }
    if let Some(time) = max_time_ms {
        out.push(Branch::new(format!("time cap: {time} ms")));
    }
    if let Some(approval) = approval {
        out.push(Branch::new(format!("after approval: {approval}")));
    }
    if *fenced {
        out.push(Branch::new(
            "fence: filters run before the statement's own conditions",
        ));
    }
    for precheck in prechecks {
        out.push(Branch {
            sql: Some(precheck.clone()),
            ..Branch::new("must give no row first:")
        });
    }
    out
}

/// Whether what was decided about `relation` names the policy.
fn names(relation: &RelationTrace, id: &String) -> bool {
    let columns = relation.columns.iter().flat_map(|column| &column.policies);
    let all = relation.policies.iter().chain(&relation.changed_by);
    all.chain(columns).any(|policy| policy == id)
}

fn of_relation(relation: &RelationTrace, deciding: &[DecidingPolicy]) -> Branch {
    let RelationTrace {
        relation: uid,
        places,
        policies,
        rows,
        changed_by,
        source,
        columns,
    } = relation;
    let at: Vec<String> = places.iter().map(describe).collect();
    let mut out = Branch::new(match at.as_slice() {
        [] => uid.clone(),
        at => format!("{uid} at {}", at.join(", ")),
    });
    let by = |text: String, ids: &[String], about: &str| {
        let below = ids.iter().flat_map(|id| of_policy(id, about, deciding));
        let mut branch = Branch::new(text);
        branch.below = below.collect();
        if branch.below.is_empty() {
            branch.text.push_str(" (by no policy)");
        }
        branch
    };
    out.below.push(by(format!("rows: {rows}"), policies, uid));
    if !changed_by.is_empty() {
        out.below.push(by("changed".to_owned(), changed_by, uid));
    }
    for column in columns {
        let about = format!("{uid}.{}", column.column);
        let text = describe_column(column);
        out.below.push(by(text, &column.policies, &about));
    }
    if let Some(source) = source {
        out.below.push(Branch {
            sql: Some(source.clone()),
            ..Branch::new("in its place:")
        });
    }
    out
}

/// `email: mask fixed(***) for output at 1:8, filter at 1:40`
fn describe_column(column: &ColumnTrace) -> String {
    let ColumnTrace {
        column: name,
        usages,
        places,
        level,
        policies: _,
    } = column;
    let uses: Vec<String> = usages
        .iter()
        .map(|usage| {
            let places = places.iter().filter(|place| place.usage == *usage);
            let at: Vec<String> = places.map(|place| describe(&place.place)).collect();
            match at.as_slice() {
                [] => (*usage).to_owned(),
                at => format!("{usage} at {}", at.join(", ")),
            }
        })
        .collect();
    match uses.as_slice() {
        [] => format!("{name}: {level} for nothing"),
        uses => format!("{name}: {level} for {}", uses.join(", ")),
    }
}

fn describe(place: &TextPlace) -> String {
    format!("{}:{}", place.line, place.column)
}

/// A policy with its conditions, as far as they are of `about`.
fn of_policy(id: &str, about: &str, deciding: &[DecidingPolicy]) -> Vec<Branch> {
    let Some(policy) = deciding.iter().find(|policy| policy.id == id) else {
        return vec![Branch::new(id)];
    };
    let effect = policy.effect.map(|effect| format!(" ({})", effect.name()));
    let mut out = Branch::new(format!("{id}{}", effect.unwrap_or_default()));
    let conditions = policy.conditions.iter();
    for condition in conditions.filter(|found| {
        let of = found.resource.as_deref();
        of.is_none_or(|of| about.is_empty() || of == about)
    }) {
        out.below.push(of_condition(condition));
    }
    vec![out]
}

/// How a part begins whose value could not be had.
const NO_VALUE: &str = "none, ";

/// A condition, with its values below it.
fn of_condition(condition: &ConditionValues) -> Branch {
    // What looks at a function or a template has no value outside of it.
    let parts: Vec<_> = condition
        .parts
        .iter()
        .filter(|part| !part.value.starts_with(NO_VALUE))
        .collect();
    match parts.as_slice() {
        // The whole is one part that looks at nothing else.
        [one] if condition.parts.len() == 1 => {
            Branch::new(format!("{} is {}", condition.clause, one.value))
        }
        parts => Branch {
            below: parts
                .iter()
                .map(|part| Branch::new(format!("{} is {}", part.text, part.value)))
                .collect(),
            ..Branch::new(condition.clause.clone())
        },
    }
}
