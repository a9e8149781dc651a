//! The decision about one relation: whether it exists for the session, whether it may be read, which rows and how many.
//! It is no looser than the decisions about the relation's ancestors and descendants.

use std::collections::{BTreeSet, HashMap};

use crate::policy::{
    cedar::{
        entities::resource,
        failure::Failure,
        request::{Subject, Verdict, decide},
        schema,
        schema::PolicyAction,
    },
    decide::{
        columns,
        columns::{ColumnClass, decide_columns},
        inherited, mask_fit,
        rows::decide_rows,
        system_relations,
    },
    inheritance,
    obligation::{Caps, ColumnDecision, ColumnLevel, RelationDecision, RowFilter, Visibility},
    set::Loaded,
};
use crate::{
    catalog::{Relation, RelationId, SystemRelation},
    code::Code,
};

/// What is decided about a relation, no looser than what is decided about its ancestors and forbidden
/// of its descendants.
pub(in crate::policy) fn decide_relation(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<RelationDecision, Failure> {
    let catalog = &loaded.catalog;
    let mut decision = decide_own_relation(loaded, subject, relation)?;
    let above = loaded.inheritance.ancestors(catalog, relation);
    let below = loaded.inheritance.descendants(catalog, relation);
    for other in &above {
        let theirs = if schema::has_entity(other) {
            decide_own_relation(loaded, subject, other)?
        } else {
            deny_relation(Some(other))
        };
        inheritance::tighten(&mut decision, relation, other, &theirs);
    }
    let mut known = HashMap::new();
    for other in &below {
        if decision.visibility != Visibility::Selectable {
            break;
        }
        let theirs = decide_forbidden_part(loaded, subject, relation, other, &mut known)?;
        inheritance::tighten(&mut decision, relation, other, &theirs);
    }
    if decision.visibility == Visibility::Selectable {
        if !(above.is_empty() && below.is_empty()) {
            columns::tighten_generated(loaded, relation, &mut decision.columns);
        }
        mask_fit::settle(loaded, subject, relation, &mut decision.columns);
        let decide = |below: &Relation| decide_relation(loaded, subject, below);
        inherited::settle_view(loaded, &decide, relation, &mut decision.columns)?;
        decision.has_hidden_children = has_hidden_children(loaded, subject, &below)?;
    } else {
        decision.columns = columns::hide_columns(relation.columns.len());
        decision.rows = RowFilter::Nothing;
        decision.caps = Caps::default();
    }
    Ok(decision)
}

/// Whether a relation has rows in one of `below` that the session does not see whole.
fn has_hidden_children(
    loaded: &Loaded,
    subject: &Subject,
    below: &[&Relation],
) -> Result<bool, Failure> {
    let mut known: HashMap<RelationId, bool> = HashMap::new();
    let mut is_whole = |relation: &Relation| {
        if let Some(whole) = known.get(&relation.id) {
            return Ok(*whole);
        }
        let whole = schema::has_entity(relation) && {
            let own = decide_own_relation(loaded, subject, relation)?;
            own.visibility == Visibility::Selectable && !own.has_obligation()
        };
        known.insert(relation.id, whole);
        Ok(whole)
    };
    for relation in below {
        // Another parent may withhold it too.
        for each in std::iter::once(*relation)
            .chain(loaded.inheritance.ancestors(&loaded.catalog, relation))
        {
            if !is_whole(each)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// What policies say of a relation alone.
fn decide_own_relation(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<RelationDecision, Failure> {
    let table = resource("Table", &relation.uid)?;
    let select = decide(
        loaded,
        subject,
        PolicyAction::Select,
        relation,
        table.clone(),
    )?;
    if let Some(known) = relation.system {
        return decide_system_relation(loaded, subject, relation, known, &table, select);
    }
    if !select.permitted {
        return decide_unselectable(loaded, subject, relation, table, select);
    }
    decide_selectable(loaded, subject, relation, select)
}

/// What policies say of a relation of the engine's own, which is not there unless a permit names it.
fn decide_system_relation(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    known: &SystemRelation,
    table: &cedar_policy::EntityUid,
    select: Verdict,
) -> Result<RelationDecision, Failure> {
    if !(select.permitted && system_relations::is_named(loaded, &select.policies, table)) {
        // Those of a denial are the ones that forbid.
        let policies = match select.permitted {
            true => Vec::new(),
            false => select.policies,
        };
        return Ok(RelationDecision {
            policies,
            ..deny_relation(Some(relation))
        });
    }
    let mut decision = decide_selectable(loaded, subject, relation, select)?;
    system_relations::hide_unreviewed(loaded, relation, known, &mut decision.columns)?;
    Ok(decision)
}

/// What policies say of the rows and columns of a relation that may be selected.
fn decide_selectable(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    select: Verdict,
) -> Result<RelationDecision, Failure> {
    let rows = decide_rows(loaded, subject, relation, PolicyAction::See)?;
    let caps = loaded.demands(&select.policies).caps.tightest(rows.caps);
    let mut policies: BTreeSet<String> = rows.policies;
    policies.extend(select.policies);
    Ok(RelationDecision {
        visibility: Visibility::Selectable,
        columns: decide_columns(loaded, subject, relation)?,
        rows: rows.filter,
        caps,
        policies: policies.into_iter().collect(),
        message: None,
        has_hidden_children: false,
        past: None,
    })
}

/// A relation that may not be selected: known of, or absent. Its columns are hidden either way.
fn decide_unselectable(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    table: cedar_policy::EntityUid,
    select: Verdict,
) -> Result<RelationDecision, Failure> {
    let discover = decide(loaded, subject, PolicyAction::Discover, relation, table)?;
    // Cedar names policies in a denial only if they forbid.
    let code = if select.policies.is_empty() {
        Code::PolicyNoPermit
    } else {
        Code::PolicyForbidden
    };
    let visibility = if discover.permitted {
        Visibility::Discoverable(code)
    } else {
        Visibility::Absent
    };
    // What does not exist has nothing to say.
    let message = select
        .policies
        .iter()
        .filter(|_| discover.permitted)
        .find_map(|id| {
            loaded
                .annotations
                .get(id)
                .and_then(|annotations| annotations.message.clone())
        });
    Ok(RelationDecision {
        visibility,
        columns: columns::hide_columns(relation.columns.len()),
        rows: RowFilter::Nothing,
        caps: Caps::default(),
        policies: select.policies,
        message,
        has_hidden_children: false,
        past: None,
    })
}

/// A relation that does not exist for the session.
pub(in crate::policy) fn deny_relation(relation: Option<&Relation>) -> RelationDecision {
    let columns = relation.map_or(0, |relation| relation.columns.len());
    RelationDecision {
        visibility: Visibility::Absent,
        columns: columns::hide_columns(columns),
        rows: RowFilter::Nothing,
        caps: Caps::default(),
        policies: Vec::new(),
        message: None,
        has_hidden_children: false,
        past: None,
    }
}

/// What columns' forbids were decided to, by what policies can tell of a column and its relation.
type KnownColumns<'a> =
    HashMap<(Option<&'a str>, Option<&'a str>, ColumnClass<'a>), ColumnDecision>;

/// What policies forbid of `below`, which inherits from `relation`, as a decision about `below` that is
/// otherwise all permission.
fn decide_forbidden_part<'a>(
    loaded: &'a Loaded,
    subject: &Subject,
    relation: &Relation,
    below: &'a Relation,
    known: &mut KnownColumns<'a>,
) -> Result<RelationDecision, Failure> {
    let mut out = RelationDecision {
        visibility: Visibility::Selectable,
        columns: vec![
            ColumnDecision {
                level: ColumnLevel::Plain,
                policies: Vec::new()
            };
            below.columns.len()
        ],
        rows: RowFilter::Everything,
        caps: Caps::default(),
        policies: Vec::new(),
        message: None,
        has_hidden_children: false,
        past: None,
    };
    if !schema::has_entity(below) {
        return Ok(deny_relation(Some(below)));
    }
    if loaded.policies.forbids(PolicyAction::Select) {
        let table = resource("Table", &below.uid)?;
        let select = decide(loaded, subject, PolicyAction::Select, below, table)?;
        // Cedar names policies in a denial only if they forbid.
        if !select.permitted && !select.policies.is_empty() {
            let table = resource("Table", &relation.uid)?;
            let refused = decide_unselectable(loaded, subject, relation, table, select)?;
            return Ok(RelationDecision {
                columns: columns::hide_columns(below.columns.len()),
                ..refused
            });
        }
    }
    if loaded.policies.forbids(PolicyAction::ReadPlain) {
        let named = loaded.tables_in_attributes || loaded.named_tables.contains(&below.uid);
        let table = named.then_some(below.uid.as_str());
        for ((id, column), decided) in below.column_ids().zip(&mut out.columns) {
            if relation.position(&column.key).is_none() {
                continue;
            }
            let class = ColumnClass::new(loaded, id, &column.uid, column.nullable);
            let key = (Some(below.schema.as_str()), table, class);
            *decided = match known.get(&key) {
                Some(decision) => decision.clone(),
                None => {
                    let decision =
                        columns::decide_unforbidden_column(loaded, subject, below, &column.uid)?;
                    known.insert(key, decision.clone());
                    decision
                }
            };
        }
    }
    if loaded.policies.forbids(PolicyAction::See) {
        let rows = decide_rows(loaded, subject, below, PolicyAction::See)?;
        out.rows = rows.unforbidden;
        out.policies = rows.forbidding.into_iter().collect();
    }
    Ok(out)
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

    use super::*;
    use crate::policy::tests::fixture::{READ_ALL, agent, decision, relation_id, set};

    #[test]
    fn visibility_has_three_degrees() {
        assert_eq!(
            decision(READ_ALL, "bot", "tickets").visibility,
            Visibility::Selectable
        );
        assert_eq!(
            decision("", "bot", "tickets").visibility,
            Visibility::Absent
        );
        let discover = "permit(principal, action == Action::\"discover\", resource);\n";
        let no_permit = decision(discover, "bot", "tickets");
        assert_eq!(
            no_permit.visibility,
            Visibility::Discoverable(Code::PolicyNoPermit)
        );
        let forbid = format!(
            "{READ_ALL}{discover}@id(\"closed\") @message(\"tickets are closed\") forbid(principal, action == Action::\"select\", resource == Table::\"main.tickets\");"
        );
        let forbidden = decision(&forbid, "bot", "tickets");
        assert_eq!(
            forbidden.visibility,
            Visibility::Discoverable(Code::PolicyForbidden)
        );
        assert_eq!(forbidden.message.as_deref(), Some("tickets are closed"));
        assert_eq!(forbidden.policies, ["closed"]);
        assert!(
            forbidden
                .columns
                .iter()
                .all(|c| c.level == ColumnLevel::Hidden)
        );
        assert_eq!(forbidden.rows, RowFilter::Nothing);
        assert_eq!(
            decision(&forbid, "bot", "customers").visibility,
            Visibility::Selectable
        );
    }

    #[test]
    fn roles_reach_through_roles() {
        let policies = "permit(principal in Role::\"analyst\", action == Action::\"select\", resource in Schema::\"main\");";
        assert_eq!(
            decision(policies, "officer", "tickets").visibility,
            Visibility::Selectable
        );
        assert_eq!(
            decision(policies, "stranger", "tickets").visibility,
            Visibility::Absent
        );
    }

    #[test]
    fn a_forbid_that_fails_to_evaluate_denies() {
        // Cedar alone would skip the forbid and allow.
        let policies = format!(
            "{READ_ALL}@id(\"overflow\") forbid(principal, action == Action::\"select\", resource == Table::\"main.tickets\") when {{ 9223372036854775807 + principal.tenant > 0 }};"
        ).replace("when { 9", "when { principal has tenant && 9");
        let set = set(&policies);
        let refused = set
            .session(&agent("bot"))
            .relation(relation_id("tickets"))
            .unwrap_err();
        assert_eq!(refused.code(), Code::PolicyEvaluationFailed);
        assert_eq!(refused.message(), Code::PolicyEvaluationFailed.summary());
        assert_eq!(refused.policies(), ["overflow"]);
        assert!(refused.operator_detail().unwrap().contains("overflow"));
        assert!(
            set.session(&agent("officer"))
                .relation(relation_id("tickets"))
                .is_ok()
        );
        assert!(set.session(&agent("bot")).discoverable().is_err());
    }
}
