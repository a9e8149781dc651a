//! Whether policies are no wider than others, and whether one is redundant.

use std::collections::{BTreeMap, BTreeSet};

use palisade::{
    firewall::{AccessLevel, AccessPlace},
    policy::{Mutation, PolicySet, PolicySources, mutate},
    session::Principal,
};

use crate::{
    load::OWN_POLICIES,
    probe::Place,
    property::Property,
    prove::{Findings, Ground, ProveError, Suspect, join_levels, places, unknown},
    reproduce::{confirm_any_difference, confirm_difference},
    run::{RunError, Runner},
};

/// A place: table, column, action.
pub(crate) type Key = (String, Option<String>, &'static str);

/// How two sets of levels stand to each other.
pub(crate) enum Compared {
    NoWider,
    Wider,
    Unknown(&'static str),
}

/// Whether nothing is permitted or shown that `old` does not.
pub(crate) fn no_wider(
    old: &PolicySources,
    grounds: &[Ground<'_>],
    findings: &mut Findings,
) -> Result<(), ProveError> {
    let mut all = BTreeSet::new();
    for ground in grounds {
        let before = other_policies(ground, old)?;
        let was = before.firewall_over(ground.catalog, OWN_POLICIES)?;
        let mut principals: BTreeSet<Principal> =
            ground.firewall.known_principals().into_iter().collect();
        principals.extend(was.known_principals());
        count_world(ground, findings);
        all.extend(principals.iter().cloned());
        let (new_set, old_set) = (ground.firewall.policies(), was.policies());
        // The same texts over the same tables decide alike.
        if old_set.version() == new_set.version() {
            continue;
        }
        let vary = new_set.demands_vary() || old_set.demands_vary();
        for principal in &principals {
            let new = ground.places(principal)?;
            let old = index(places(&was, ground.catalog, principal)?);
            for place in new {
                let old = old.get(&key(&place));
                compare_place(ground, &before, principal, (&place, old), vary, findings);
            }
        }
        compare_beyond_tables(new_set, old_set, findings);
    }
    findings.world.principals = all.len();
    Ok(())
}

/// Whether a place of a principal has no more than it had by the policies of `before`.
pub(crate) fn compare_place(
    ground: &Ground<'_>,
    before: &Runner,
    principal: &Principal,
    (place, old): (&AccessPlace, Option<&AccessPlace>),
    vary: bool,
    findings: &mut Findings,
) {
    let old_levels = old.map_or(&[][..], |old| &old.levels);
    let compared = compare(&place.levels, old_levels, vary);
    let suspect = suspect(principal, place, old_levels);
    match compared {
        Compared::NoWider => {}
        Compared::Wider => findings.try_suspect(&suspect, |suspect| {
            confirm_difference(ground, before, suspect)
        }),
        Compared::Unknown(why) => {
            findings
                .undecided
                .insert(format!("{}; {why}", suspect.describe()));
        }
    }
    let in_old = old.map_or(&[][..], |old| &old.in_templates);
    let is_same = place.in_templates == in_old && !vary;
    if !is_same
        && !matches!(
            compare(&place.in_templates, old_levels, vary),
            Compared::NoWider
        )
    {
        findings.undecided.insert(format!(
            "{}; within a template that it may run, which is not run here",
            suspect.describe()
        ));
    }
}

/// Whether what tables and columns do not show is the same.
pub(crate) fn compare_beyond_tables(
    new_set: &PolicySet,
    old_set: &PolicySet,
    findings: &mut Findings,
) {
    let (new, old) = (
        new_set.policies_beyond_tables(),
        old_set.policies_beyond_tables(),
    );
    let is_same =
        new == old && (new.is_empty() || new_set.entities_digest() == old_set.entities_digest());
    if !is_same {
        findings.undecided.insert(
            "policies of functions, definitions or approvals, or the entities that they look at, are others; these actions are not enumerated".to_owned(),
        );
    }
}

/// The cases of `ground` by the policies `without` one of them; nothing, with the reason among what is undecided, if they do not load.
pub(crate) fn load_without(
    ground: &Ground<'_>,
    without: &PolicySources,
    findings: &mut Findings,
) -> Option<Runner> {
    match ground.runner.with_policies(OWN_POLICIES, without) {
        Ok(less) => Some(less),
        Err(error) => {
            findings.undecided.insert(format!(
                "without it the policies do not load over `{}`: {error}",
                ground.catalog
            ));
            None
        }
    }
}

/// The sources without the policy `id`.
///
/// # Errors
/// If there is no such policy.
pub(crate) fn remove(
    property: &Property,
    id: &str,
    sources: &PolicySources,
) -> Result<PolicySources, ProveError> {
    let mutants = mutate(sources);
    let mut removals = mutants
        .iter()
        .filter(|mutant| mutant.mutation == Mutation::Removed);
    match removals.clone().find(|mutant| mutant.policy == id) {
        Some(removal) => Ok(removal.apply(sources)),
        None => {
            let known: Vec<String> = removals.by_ref().map(|one| one.policy.clone()).collect();
            Err(unknown(property, "policy", id, &known))
        }
    }
}

/// Tries to show that a place of a principal is not the same without a policy.
pub(crate) fn compare_without(
    ground: &Ground<'_>,
    less: &Runner,
    principal: &Principal,
    (with, without): (Option<&AccessPlace>, Option<&AccessPlace>),
    findings: &mut Findings,
) {
    let levels = |place: Option<&AccessPlace>| match place {
        Some(place) => (trim(&place.levels), trim(&place.in_templates)),
        None => (Vec::new(), Vec::new()),
    };
    let (is, was) = (levels(with), levels(without));
    let Some(place) = with.or(without).filter(|_| is != was) else {
        return;
    };
    let mut suspect = suspect(principal, place, &was.0);
    suspect.shown = format!("{}, without it {}", join_levels(&is.0), join_levels(&was.0));
    suspect.depends |= is.0 == was.0;
    findings.try_suspect(&suspect, |suspect| {
        confirm_any_difference(ground, less, suspect)
    });
}

/// Whether without the policy `id` each principal sees and may do the same.
pub(crate) fn redundant(
    property: &Property,
    id: &str,
    sources: &PolicySources,
    grounds: &[Ground<'_>],
    findings: &mut Findings,
) -> Result<(), ProveError> {
    let without = remove(property, id, sources)?;
    let mut all = BTreeSet::new();
    for ground in grounds {
        count_world(ground, findings);
        let principals = ground.firewall.known_principals();
        all.extend(principals.iter().cloned());
        let Some(less) = load_without(ground, &without, findings) else {
            continue;
        };
        let rest = less.firewall_over(ground.catalog, OWN_POLICIES)?;
        for principal in &principals {
            let with = index(ground.places(principal)?);
            let without = index(places(&rest, ground.catalog, principal)?);
            let keys: BTreeSet<&Key> = with.keys().chain(without.keys()).collect();
            for key in keys {
                let places = (with.get(key), without.get(key));
                compare_without(ground, &less, principal, places, findings);
            }
        }
        for why in ground.firewall.why_not_enumerated(id) {
            findings.undecided.insert(why);
        }
    }
    findings.world.principals = all.len();
    Ok(())
}

/// Levels without those that say nothing at all, where all do.
pub(crate) fn trim(levels: &[AccessLevel]) -> Vec<AccessLevel> {
    match levels.iter().all(|level| *level == AccessLevel::Never) {
        true => Vec::new(),
        false => levels.to_vec(),
    }
}

/// Whether all of `new` is within all of `old`. `vary` says that masks and caps between these are not known.
pub(crate) fn compare(new: &[AccessLevel], old: &[AccessLevel], vary: bool) -> Compared {
    const NEVER: &[AccessLevel] = &[AccessLevel::Never];
    let old = if old.is_empty() { NEVER } else { old };
    if new.iter().all(AccessLevel::is_nothing) {
        return Compared::NoWider;
    }
    let is_most = |level: &AccessLevel| matches!(level, AccessLevel::Plain | AccessLevel::AllRows);
    if old.iter().all(is_most) {
        return Compared::NoWider;
    }
    let pairs = new
        .iter()
        .flat_map(|new| old.iter().map(move |old| new.is_within(old)));
    let (mut all_within, mut any_unknown) = (true, false);
    for pair in pairs {
        all_within &= pair == Some(true);
        any_unknown |= pair.is_none();
    }
    // Some of the new is more than anything of the old.
    let is_wider = new
        .iter()
        .any(|new| old.iter().all(|old| new.is_within(old) == Some(false)));
    match (all_within, is_wider) {
        (true, _) if vary => Compared::Unknown(
            "circumstances decide about masks, tokens or caps, and which of them come together is not enumerated",
        ),
        (true, _) => Compared::NoWider,
        (false, true) => Compared::Wider,
        (false, false) if any_unknown => {
            Compared::Unknown("two masks, conditions or caps that cannot be compared")
        }
        (false, false) => Compared::Unknown("circumstances decide, and these may be others"),
    }
}

pub(crate) fn suspect(principal: &Principal, place: &AccessPlace, old: &[AccessLevel]) -> Suspect {
    let depends = |levels: &[AccessLevel]| levels.iter().collect::<BTreeSet<_>>().len() > 1;
    Suspect {
        principal: principal.clone(),
        place: Place {
            table: place.table.clone(),
            column: place.column.clone(),
            action: place.action,
        },
        shown: format!("{}, was {}", join_levels(&place.levels), join_levels(old)),
        by: place.by.iter().cloned().collect(),
        depends: depends(&place.levels) || depends(old),
    }
}

pub(crate) fn key(place: &AccessPlace) -> Key {
    (place.table.clone(), place.column.clone(), place.action)
}

pub(crate) fn index(places: Vec<AccessPlace>) -> BTreeMap<Key, AccessPlace> {
    places
        .into_iter()
        .map(|place| (key(&place), place))
        .collect()
}

pub(crate) fn count_world(ground: &Ground<'_>, findings: &mut Findings) {
    let world = &mut findings.world;
    world.catalogs.insert(ground.catalog.to_owned());
    let mut tables = BTreeSet::new();
    for column in ground.firewall.known_columns() {
        if column.is_enumerated {
            world.columns += 1;
            tables.insert(column.table);
        }
    }
    world.tables += tables.len();
}

/// The same tables by other policies.
pub(crate) fn other_policies(
    ground: &Ground<'_>,
    sources: &PolicySources,
) -> Result<Runner, RunError> {
    ground
        .runner
        .with_policies(OWN_POLICIES, sources)
        .map_err(|source| RunError::Policies {
            policies: OWN_POLICIES.to_owned(),
            catalog: ground.catalog.to_owned(),
            source,
        })
}
