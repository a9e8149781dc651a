//! What is decided about the columns of one relation: plain, a token, a mask, or hidden.

use std::collections::{BTreeSet, HashMap};

use crate::catalog::{ColumnId, Relation};
use crate::policy::{
    cedar::{
        entities::resource,
        failure::Failure,
        request::{Subject, Verdict, decide},
        schema::PolicyAction,
    },
    obligation::{ColumnDecision, ColumnLevel, HashDomain, Mask, TokenMask},
    set::Loaded,
};

/// One decision for each column. What the account may not read is hidden, whatever policies show of it.
pub(in crate::policy) fn decide_columns(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<Vec<ColumnDecision>, Failure> {
    let mut out = decide_columns_by_policy(loaded, subject, relation)?;
    for (column, decision) in relation.columns.iter().zip(&mut out) {
        if column.withheld && decision.level.reads_stored(column.nullable) {
            decision.level = ColumnLevel::Hidden;
        }
    }
    Ok(out)
}

/// The columns of `relation` that policies show, and the account may not read.
pub(in crate::policy) fn list_withheld<'r>(
    loaded: &Loaded,
    subject: &Subject,
    relation: &'r Relation,
) -> Result<Vec<&'r str>, Failure> {
    if !relation.columns.iter().any(|column| column.withheld) {
        return Ok(Vec::new());
    }
    let decided = decide_columns_by_policy(loaded, subject, relation)?;
    let decided = relation.columns.iter().zip(&decided);
    let withheld = decided.filter(|(column, decision)| {
        column.withheld && decision.level.reads_stored(column.nullable)
    });
    Ok(withheld.map(|(column, _)| column.uid.as_str()).collect())
}

/// What policies alone say of each column; columns that no policy can tell apart share a decision.
fn decide_columns_by_policy(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<Vec<ColumnDecision>, Failure> {
    let mut classes: HashMap<ColumnClass<'_>, ColumnDecision> = HashMap::new();
    let mut out = Vec::with_capacity(relation.columns.len());
    for (id, column) in relation.column_ids() {
        let class = ColumnClass::new(loaded, id, &column.uid, column.nullable);
        let decision = match classes.get(&class) {
            Some(decision) => decision.clone(),
            None => {
                let decision = decide_column(loaded, subject, relation, &column.uid)?;
                classes.insert(class, decision.clone());
                decision
            }
        };
        out.push(decision);
    }
    tighten_generated(loaded, relation, &mut out);
    Ok(out)
}

fn decide_column(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    uid: &str,
) -> Result<ColumnDecision, Failure> {
    let column = resource("Column", uid)?;
    let ask = |action| decide(loaded, subject, action, relation, column.clone());
    decide_column_by(loaded, &ask)
}

/// What is decided about a column of which `ask` says who may do what to it.
pub(in crate::policy) fn decide_column_by(
    loaded: &Loaded,
    ask: &dyn Fn(PolicyAction) -> Result<Verdict, Failure>,
) -> Result<ColumnDecision, Failure> {
    decide_level(loaded, ask, |verdict| verdict)
}

/// What forbids alone leave of a column.
pub(in crate::policy) fn decide_unforbidden_column(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    uid: &str,
) -> Result<ColumnDecision, Failure> {
    let column = resource("Column", uid)?;
    let ask = |action| decide(loaded, subject, action, relation, column.clone());
    decide_level(loaded, &ask, permit_unforbidden)
}

/// What a verdict says where whatever is not forbidden is permitted.
fn permit_unforbidden(verdict: Verdict) -> Verdict {
    // Cedar names policies in a denial only if they forbid.
    if verdict.permitted || verdict.policies.is_empty() {
        Verdict {
            permitted: true,
            policies: Vec::new(),
        }
    } else {
        verdict
    }
}

/// The level of a column, the first of these that is permitted: plain, a token, a mask. It is hidden otherwise.
/// `interpret` says what Cedar's answers mean for the plaintext and for the mask; a token needs a permit of its own.
fn decide_level(
    loaded: &Loaded,
    ask: &dyn Fn(PolicyAction) -> Result<Verdict, Failure>,
    interpret: fn(Verdict) -> Verdict,
) -> Result<ColumnDecision, Failure> {
    let plain = interpret(ask(PolicyAction::ReadPlain)?);
    if plain.permitted {
        return Ok(ColumnDecision {
            level: ColumnLevel::Plain,
            policies: plain.policies,
        });
    }
    if let Some(token) = decide_token(loaded, ask, &plain)? {
        return Ok(token);
    }
    let masked = interpret(ask(PolicyAction::ReadMasked)?);
    let policies: BTreeSet<String> = plain.policies.into_iter().chain(masked.policies).collect();
    let level = if masked.permitted {
        ColumnLevel::Masked(find_demanded_mask(loaded, policies.iter()))
    } else {
        ColumnLevel::Hidden
    };
    Ok(ColumnDecision {
        level,
        policies: policies.into_iter().collect(),
    })
}

/// Tokens in place of a column that is not plain: where `read_token` is permitted, and no forbid has taken
/// the plaintext for a mask of its own.
fn decide_token(
    loaded: &Loaded,
    ask: &dyn Fn(PolicyAction) -> Result<Verdict, Failure>,
    plain: &Verdict,
) -> Result<Option<ColumnDecision>, Failure> {
    let asks_for_a_mask = loaded.demands(&plain.policies).mask.is_some();
    if asks_for_a_mask || !loaded.policies.permits(PolicyAction::ReadToken) {
        return Ok(None);
    }
    let token = ask(PolicyAction::ReadToken)?;
    if !token.permitted {
        return Ok(None);
    }
    // A permit without a domain wants the column's own, which is the smallest.
    let domain = loaded
        .demands(&token.policies)
        .domain
        .unwrap_or(HashDomain::Column);
    let policies: BTreeSet<String> = plain
        .policies
        .iter()
        .cloned()
        .chain(token.policies)
        .collect();
    Ok(Some(ColumnDecision {
        level: ColumnLevel::Masked(Mask::Token(TokenMask { domain, keys: None })),
        policies: policies.into_iter().collect(),
    }))
}

/// The columns of `relation` that `subject` reads as tokens or hashes, each with its uid.
pub(in crate::policy) fn find_keyed_columns(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<Vec<(ColumnId, String)>, Failure> {
    let decisions = decide_columns(loaded, subject, relation)?;
    let tokens = relation.column_ids().zip(decisions).filter(|(_, decided)| {
        matches!(
            decided.level,
            ColumnLevel::Masked(Mask::Token(_) | Mask::Hash(_))
        )
    });
    Ok(tokens
        .map(|((id, column), _)| (id, column.uid.clone()))
        .collect())
}

/// The strictest mask that the policies demand; NULL if none does.
fn find_demanded_mask<'p>(loaded: &Loaded, policies: impl Iterator<Item = &'p String>) -> Mask {
    loaded.demands(policies).mask.unwrap_or(Mask::Null)
}

/// So many columns that do not exist for the session.
pub(in crate::policy) fn hide_columns(columns: usize) -> Vec<ColumnDecision> {
    vec![
        ColumnDecision {
            level: ColumnLevel::Hidden,
            policies: Vec::new()
        };
        columns
    ]
}

/// A generated column shows what it is computed from: it is hidden if any of that is, and NULL if
/// any of that is masked, whatever policies say of the column itself.
pub(in crate::policy) fn tighten_generated(
    loaded: &Loaded,
    relation: &Relation,
    columns: &mut [ColumnDecision],
) {
    // Generated columns may build on each other; each round settles at least one.
    for _ in 0..columns.len() {
        let mut changed = false;
        for (id, column) in relation.column_ids() {
            let Some(from) = loaded
                .flow
                .columns
                .get(&id)
                .filter(|_| column.generated.is_some())
            else {
                continue;
            };
            let strictest = from
                .iter()
                .filter_map(|base| columns.get(usize::from(base.index)))
                .max_by_key(|base| strictness(&base.level))
                .cloned();
            let Some(base) = strictest else { continue };
            let Some(own) = columns.get_mut(usize::from(id.index)) else {
                continue;
            };
            let level = match (&base.level, &own.level) {
                (ColumnLevel::Plain, level) => level.clone(),
                (ColumnLevel::Hidden, _) | (_, ColumnLevel::Hidden) => ColumnLevel::Hidden,
                (ColumnLevel::Masked(_), _) => ColumnLevel::Masked(Mask::Null),
            };
            if own.level != level {
                own.level = level;
                own.policies.extend(base.policies);
                own.policies.sort();
                own.policies.dedup();
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

fn strictness(level: &ColumnLevel) -> u8 {
    match level {
        ColumnLevel::Plain => 0,
        ColumnLevel::Masked(_) => 1,
        ColumnLevel::Hidden => 2,
    }
}

/// Whether a column is computed from others, and no policy can name it.
pub(in crate::policy) fn is_computed(loaded: &Loaded, id: ColumnId, uid: &str) -> bool {
    let is_computed = loaded
        .flow
        .columns
        .get(&id)
        .is_some_and(|from| !from.is_empty());
    let is_named = loaded.columns_in_attributes || loaded.named_columns.contains(uid);
    is_computed && !is_named
}

/// What policies can tell of a column of a given relation.
#[derive(PartialEq, Eq, Hash)]
pub(in crate::policy) struct ColumnClass<'a> {
    tags: Vec<&'a str>,
    nullable: bool,
    /// Set where something may name the column.
    uid: Option<&'a str>,
}

impl<'a> ColumnClass<'a> {
    pub(in crate::policy) fn new(
        loaded: &'a Loaded,
        id: ColumnId,
        uid: &'a str,
        nullable: bool,
    ) -> Self {
        let named = loaded.columns_in_attributes || loaded.named_columns.contains(uid);
        Self {
            tags: loaded.tags.of_column(id).collect(),
            nullable,
            uid: named.then_some(uid),
        }
    }
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

    use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::{
        policy::{
            ColumnFlow, PolicySet,
            tests::fixture::{self, READ_ALL, agent, decision, relation_id, sources},
        },
        token::TokenSecret,
    };

    fn levels(policies: &str, who: &str) -> Vec<ColumnLevel> {
        let decision = decision(policies, who, "customers");
        decision
            .columns
            .iter()
            .map(|column| column.level.clone())
            .collect()
    }

    #[test]
    fn columns_are_plain_masked_or_hidden() {
        let plain = levels(READ_ALL, "bot");
        assert!(plain.iter().all(|level| *level == ColumnLevel::Plain));
        let policies = format!(
            "{READ_ALL}@mask(\"last(4)\") forbid(principal, action == Action::\"read_plain\", resource) when {{ resource.tags.contains(\"pii\") }} unless {{ principal in Role::\"dpo\" }};
            forbid(principal, action == Action::\"read_masked\", resource == Column::\"main.customers.name\");
            forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.customers.name\");
            forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.customers.active\");"
        );
        let last = ColumnLevel::Masked(Mask::Last(Reverse(4)));
        let (plain, null) = (ColumnLevel::Plain, ColumnLevel::Masked(Mask::Null));
        assert_eq!(
            levels(&policies, "bot"),
            [
                plain.clone(),
                ColumnLevel::Hidden,
                last.clone(),
                last,
                plain.clone(),
                null.clone()
            ]
        );
        assert_eq!(
            levels(&policies, "officer"),
            [
                plain.clone(),
                ColumnLevel::Hidden,
                plain.clone(),
                plain.clone(),
                plain,
                null
            ]
        );
    }

    #[test]
    fn the_strictest_mask_wins() {
        let forbid = |mask: &str, tag: &str| {
            format!(
                "@mask(\"{mask}\") forbid(principal, action == Action::\"read_plain\", resource) when {{ resource.tags.contains(\"{tag}\") }};\n"
            )
        };
        let policies = format!(
            "{READ_ALL}{}{}",
            forbid("last(4)", "pii"),
            forbid("last(2)", "secret")
        );
        let levels = levels(&policies, "bot");
        assert_eq!(levels[2], ColumnLevel::Masked(Mask::Last(Reverse(4))));
        assert_eq!(levels[3], ColumnLevel::Masked(Mask::Last(Reverse(2))));
        // The permit of `read_masked` takes part too, and a mask is never lost to a bare permit.
        let policies = format!(
            "permit(principal, action == Action::\"select\", resource);
             @mask(\"fixed(x)\") permit(principal, action == Action::\"read_masked\", resource);
             permit(principal, action == Action::\"read_masked\", resource);
             {}",
            forbid("last(4)", "pii")
        );
        assert!(
            self::levels(&policies, "bot")
                .iter()
                .all(|level| *level == ColumnLevel::Masked(Mask::Fixed("x".to_owned())))
        );
    }

    fn keyed(policies: &str) -> Vec<String> {
        let mut sources = sources(policies);
        sources.secret = Some(TokenSecret::new("0".repeat(32)));
        let set = fixture::load(&sources).unwrap_or_else(|errors| panic!("{errors}"));
        let view = set.session(&agent("bot"));
        let decision = view.relation(relation_id("customers")).unwrap();
        decision
            .columns
            .iter()
            .map(|column| match &column.level {
                ColumnLevel::Plain => "plain".to_owned(),
                ColumnLevel::Masked(mask) => mask.to_string(),
                ColumnLevel::Hidden => "hidden".to_owned(),
            })
            .collect()
    }

    /// Plain, then a token, then a mask, then nothing; and no token by a permit of everything.
    #[test]
    fn tokens_stand_between_plain_and_masked() {
        let tokens = "@domain(\"people\") permit(principal, action == Action::\"read_token\", resource in Table::\"main.customers\");";
        let of_tags = "forbid(principal, action == Action::\"read_plain\", resource) when { resource.tags.contains(\"pii\") };";
        let levels = keyed(&format!("{READ_ALL}{tokens}{of_tags}"));
        assert_eq!(
            levels[..4],
            ["plain", "plain", "token(people)", "token(people)"]
        );
        // A mask that a forbid demands is no token; one that a permit offers is behind it.
        let masked = format!("@mask(\"last(4)\") {of_tags}");
        let levels = keyed(&format!("{READ_ALL}{tokens}{masked}"));
        assert_eq!(levels[2..4], ["last(4)", "last(4)"]);
        let blanket = format!("permit(principal, action, resource);{of_tags}");
        assert_eq!(keyed(&blanket)[2], "null");
        let forbidden = format!(
            "{READ_ALL}{tokens}{of_tags} forbid(principal, action == Action::\"read_token\", resource == Column::\"main.customers.ssn\");"
        );
        assert_eq!(keyed(&forbidden)[2..4], ["token(people)", "null"]);
        // Of two domains the smaller.
        let own = "permit(principal, action == Action::\"read_token\", resource == Column::\"main.customers.ssn\");";
        let levels = keyed(&format!("{READ_ALL}{tokens}{own}{of_tags}"));
        assert_eq!(levels[2..4], ["token(people)", "token"]);
    }

    #[test]
    fn tokens_need_a_secret() {
        let tokens = "permit(principal, action == Action::\"read_token\", resource);";
        let errors = fixture::load(&sources(&format!("{READ_ALL}{tokens}"))).unwrap_err();
        assert_eq!(errors.problems()[0].line, Some(4), "{errors}");
        assert!(errors.to_string().contains("token_secret_env"), "{errors}");
    }

    #[test]
    fn masks_follow_data_into_views() {
        let catalog = fixture::catalog();
        let id = |uid| fixture::column_id(&catalog, uid);
        let flow = ColumnFlow::from(BTreeMap::from([(
            id("main.contacts.address"),
            BTreeSet::from([id("main.customers.email")]),
        )]));
        let policies = format!(
            "{READ_ALL}forbid(principal, action == Action::\"read_plain\", resource) when {{ resource.tags.contains(\"pii\") }};"
        );
        let set = PolicySet::load(&sources(&policies), &Arc::new(catalog.clone()), &flow).unwrap();
        let view = set
            .session(&agent("bot"))
            .relation(relation_id("contacts"))
            .unwrap();
        assert_eq!(view.columns[0].level, ColumnLevel::Masked(Mask::Null));
    }

    #[test]
    fn columns_named_by_attributes_are_decided_one_by_one() {
        let mut sources = sources(
            "permit(principal, action == Action::\"select\", resource);
             permit(principal is Agent, action in Action::\"read\", resource) when { principal.open.contains(resource) };",
        );
        sources.principals_schema =
            Some("entity Role; entity User; entity Agent { open: Set<Column> };".to_owned());
        sources.entities = Some(
            r#"[{ "uid": { "type": "Agent", "id": "bot" }, "parents": [],
                  "attrs": { "open": [{ "type": "Column", "id": "main.customers.name" }] } }]"#
                .to_owned(),
        );
        let set = fixture::load(&sources).unwrap_or_else(|errors| panic!("{errors}"));
        let decision = set
            .session(&agent("bot"))
            .relation(relation_id("customers"))
            .unwrap();
        let plain: Vec<_> = decision
            .columns
            .iter()
            .map(|column| column.level == ColumnLevel::Plain)
            .collect();
        assert_eq!(plain, [false, true, false, false, false, false]);
    }

    #[test]
    fn conditions_read_attributes_of_whom_they_name() {
        for (tenant, level) in [
            (42, ColumnLevel::Plain),
            (43, ColumnLevel::Masked(Mask::Null)),
        ] {
            let policies = format!(
                "{READ_ALL}forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.customers.name\")
                 unless {{ Agent::\"bot\" has tenant && Agent::\"bot\".tenant == {tenant} }};"
            );
            let decision = decision(&policies, "officer", "customers");
            assert_eq!(decision.columns[1].level, level, "{tenant}");
        }
    }
}
