//! A case of our own making: a statement asked as a principal over a catalog.

use std::time::Duration;

use palisade::session::Principal;

use crate::{
    case::{Case, Suite},
    load::OWN_POLICIES,
    written::dialect,
};

/// Moments that are tried: midnight of a holiday, and noon of a Monday (2026-03-02).
pub(crate) const MOMENTS: [Duration; 2] = [Duration::ZERO, Duration::from_secs(1_772_452_800)];

/// The id of a principal that nothing names.
pub(crate) const SOMEONE: &str = "someone-else";

/// Whether the principal has an id, rather than standing for all others.
pub(crate) fn is_named(principal: &Principal) -> bool {
    !principal.id().starts_with('\u{1}')
}

/// The principal; where it stands for all others, a principal that nothing names.
pub(crate) fn stand_in(principal: &Principal) -> Principal {
    if is_named(principal) {
        principal.clone()
    } else {
        Principal::new(principal.kind(), SOMEONE)
    }
}

/// A case without a name that expects to be permitted; none for a catalog of no dialect.
pub(crate) fn probe_case(
    catalog: &str,
    principal: &Principal,
    sql: &str,
    at: Duration,
) -> Option<Case> {
    let place = (catalog.to_owned(), dialect(catalog).ok()?);
    let case = Case::expect_permit(
        (Suite::Tests, OWN_POLICIES),
        place,
        stand_in(principal),
        sql,
    );
    Some(Case { at, ..case })
}
