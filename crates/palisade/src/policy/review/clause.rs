//! Policies with their places and clauses, and what became of a clause: for whoever measures what tests try.

use std::fmt::Write as _;

use cedar_policy::{
    EntityUid, Expression, Policy, PrincipalConstraint, Request, ResourceConstraint,
    eval_expression,
};
use serde_json::{Value, json};

use crate::catalog::{ColumnId, RelationId};
use crate::policy::{
    cedar::{
        by_action::{covers_any, covers_only},
        entities::{action_uid, resource},
        request::Subject,
        schema::PolicyAction,
    },
    load::{
        diagnostic::Source,
        source::{clause_ranges, parse},
    },
    review::mutant::{describe, print},
    set::Loaded,
    sources::PolicySources,
};

/// A policy as it stands in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOutline {
    /// Its id.
    pub id: String,
    /// Its file, as the sources name it.
    pub file: String,
    /// The line of its first token, from 1.
    pub first_line: u32,
    /// The line of its semicolon.
    pub last_line: u32,
    /// Its conditions, in their order.
    pub clauses: Vec<Clause>,
}

/// A `when` or `unless` of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// The line of its first word, from 1.
    pub line: u32,
    /// `when { … }` or `unless { … }`, on one line.
    pub text: String,
    /// What it is asked about.
    pub about: ClauseAbout,
    /// Whether its policy is of an action on tables, and of one on columns.
    of_tables: bool,
    of_columns: bool,
    /// The condition, as Cedar parses it.
    condition: String,
    /// Whether the policy's scope takes a principal and a resource, likewise.
    scope: String,
}

/// What a clause is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClauseAbout {
    /// Tables or columns: [`PolicySet::clause_value`] tells its value.
    Resources,
    /// Rows: policies that show the rows for which it holds, and all that its policy is about.
    Rows {
        /// Permits `see` where the condition holds.
        holding: String,
        /// Permits `see` wherever the scope does.
        all: String,
    },
    /// What is known of a statement, a function or a template alone. It has no value before these.
    Others,
}

/// Every policy of `sources` that parses, by file and line.
#[must_use]
pub fn outline(sources: &PolicySources) -> Vec<PolicyOutline> {
    let mut out = Vec::new();
    for file in &sources.policies {
        let source = Source {
            name: &file.name,
            text: &file.text,
        };
        for located in parse(source, &mut Vec::new()) {
            let line_of = |offset: usize| source.at(offset..offset, "").line.unwrap_or(1);
            let range = located.origin.range.clone();
            let conditions = located.conditions().and_then(Value::as_array);
            let places = clause_ranges(located.origin.text());
            let clauses = conditions
                .into_iter()
                .flatten()
                .zip(places)
                .filter_map(|(condition, place)| {
                    let kind = condition.get("kind").and_then(Value::as_str)?;
                    let body = condition.get("body")?;
                    Some(Clause {
                        line: line_of(range.start + place.start),
                        text: format!("{kind} {{ {} }}", describe(body)),
                        of_tables: !covers_only(&located.policy, PolicyAction::is_of_columns),
                        of_columns: covers_any(&located.policy, PolicyAction::is_of_columns),
                        about: find_about(&located.policy, body)?,
                        condition: describe(body),
                        scope: describe_scope(&located.policy),
                    })
                })
                .collect();
            out.push(PolicyOutline {
                id: located.policy.id().to_string(),
                file: file.name.clone(),
                first_line: line_of(range.start),
                last_line: line_of(range.end.saturating_sub(1)),
                clauses,
            });
        }
    }
    out
}

/// The value of a clause for `subject` and a table or column; none where the policy's scope takes these not, or the clause
/// has no value.
pub(in crate::policy) fn value(
    loaded: &Loaded,
    subject: &Subject,
    clause: &Clause,
    relation: RelationId,
    column: Option<ColumnId>,
) -> Option<bool> {
    let relation = loaded.catalog.relation(relation)?;
    let (kind, id) = match column {
        Some(column) => ("Column", loaded.catalog.column(column)?.uid.as_str()),
        None => ("Table", relation.uid.as_str()),
    };
    let is_of_kind = match column {
        Some(_) => clause.of_columns,
        None => clause.of_tables,
    };
    is_of_kind.then_some(())?;
    let entities = subject.entities_about(loaded, relation).ok()?;
    let request = Request::new(
        subject.uid.clone(),
        action_uid(PolicyAction::Select).ok()?,
        resource(kind, id).ok()?,
        subject.context.clone(),
        None,
    )
    .ok()?;
    let is_true = |text: &str| {
        let parsed: Expression = text.parse().ok()?;
        match eval_expression(&request, &entities, &parsed).ok()? {
            cedar_policy::EvalResult::Bool(value) => Some(value),
            _ => None,
        }
    };
    is_true(&clause.scope)?.then_some(())?;
    is_true(&clause.condition)
}

fn find_about(policy: &Policy, body: &Value) -> Option<ClauseAbout> {
    if covers_only(policy, PolicyAction::is_of_rows) {
        return Some(ClauseAbout::Rows {
            holding: permit_rows(policy, body)?,
            all: permit_rows(policy, &json!({"Value": true}))?,
        });
    }
    let text = describe(body);
    let is_later = [
        "context.statement",
        "context.usage",
        "context.template",
        "context.has_where",
    ]
    .iter()
    .any(|attribute| text.contains(attribute));
    let is_of_others = covers_only(policy, PolicyAction::is_of_no_relation);
    Some(match is_later || is_of_others {
        true => ClauseAbout::Others,
        false => ClauseAbout::Resources,
    })
}

/// A permit of `see` in the scope of `policy` with this condition.
fn permit_rows(policy: &Policy, body: &Value) -> Option<String> {
    let mut json = policy.to_json().ok()?;
    let fields = json.as_object_mut()?;
    let action = json!({"op": "==", "entity": {"type": "Action", "id": PolicyAction::See.name()}});
    fields.insert("effect".to_owned(), json!("permit"));
    fields.insert("action".to_owned(), action);
    fields.insert("annotations".to_owned(), json!({}));
    let conditions = json!([{"kind": "when", "body": body}]);
    fields.insert("conditions".to_owned(), conditions);
    print(&json)
}

/// Whether the scope of `policy` takes `principal` and `resource`, as a condition.
fn describe_scope(policy: &Policy) -> String {
    let mut out = "true".to_owned();
    let is = |out: &mut String, variable: &str, kind: &dyn std::fmt::Display| {
        let _ = write!(out, " && {variable} is {kind}");
    };
    let inside = |out: &mut String, variable: &str, uid: &EntityUid| {
        let _ = write!(out, " && {variable} in {uid}");
    };
    match policy.principal_constraint() {
        PrincipalConstraint::Any => {}
        PrincipalConstraint::Eq(uid) => {
            let _ = write!(out, " && principal == {uid}");
        }
        PrincipalConstraint::In(uid) => inside(&mut out, "principal", &uid),
        PrincipalConstraint::Is(kind) => is(&mut out, "principal", &kind),
        PrincipalConstraint::IsIn(kind, uid) => {
            is(&mut out, "principal", &kind);
            inside(&mut out, "principal", &uid);
        }
    }
    match policy.resource_constraint() {
        ResourceConstraint::Any => {}
        ResourceConstraint::Eq(uid) => {
            let _ = write!(out, " && resource == {uid}");
        }
        ResourceConstraint::In(uid) => inside(&mut out, "resource", &uid),
        ResourceConstraint::Is(kind) => is(&mut out, "resource", &kind),
        ResourceConstraint::IsIn(kind, uid) => {
            is(&mut out, "resource", &kind);
            inside(&mut out, "resource", &uid);
        }
    }
    out
}
