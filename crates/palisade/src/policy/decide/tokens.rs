//! Where a column is given as tokens.

use std::collections::BTreeSet;

use cedar_policy::EntityUid;

use crate::catalog::{ColumnId, Relation};
use crate::policy::cedar::request::{Failure, Subject, Verdict, decide};
use crate::policy::{
    cedar::schema::Action,
    decide::columns::columns,
    load::Loaded,
    obligation::{ColumnDecision, ColumnLevel, HashDomain, Mask, TokenMask},
};

/// Tokens in place of a column that is not plain: where `read_token` is permitted, and no forbid has taken
/// the plaintext for a mask of its own.
pub(in crate::policy) fn instead(
    loaded: &Loaded,
    subject: &Subject,
    column: &EntityUid,
    plain: &Verdict,
) -> Result<Option<ColumnDecision>, Failure> {
    let asks_for_a_mask = loaded.demands(&plain.policies).mask.is_some();
    if asks_for_a_mask || !loaded.policies.permits(Action::ReadToken) {
        return Ok(None);
    }
    let token = decide(loaded, subject, Action::ReadToken, column.clone())?;
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
pub(in crate::policy) fn columns_of(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<Vec<(ColumnId, String)>, Failure> {
    let decisions = columns(loaded, subject, relation)?;
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
