//! Whether principals see and do no more than a bound, at every column and table.

use std::collections::{BTreeMap, BTreeSet};

use palisade::{
    firewall::{AccessLevel, AccessPlace, Firewall},
    session::Principal,
};

use crate::{
    probe::Place,
    property::{Bound, Property, RowBound, Who, is_matched},
    prove::{Findings, Ground, ProveError, Suspect, join_levels, unknown},
    reproduce::{Wanted, confirm},
};

/// A bound, as a property has it.
pub(crate) struct Bounds<'b> {
    pub(crate) who: &'b Who,
    pub(crate) tagged: &'b [String],
    pub(crate) columns: &'b [String],
    pub(crate) tables: &'b [String],
    pub(crate) shows: Option<Bound>,
    pub(crate) rows: Option<RowBound>,
    pub(crate) may_not: &'b [String],
}

/// What a bound is about in one catalog.
pub(crate) struct Targets {
    pub(crate) columns: BTreeSet<(String, String)>,
    pub(crate) tables: BTreeSet<String>,
}

/// How a level stands to a bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Within,
    /// Within, and a mask that circumstances may change.
    WithinByMask,
    Beyond,
}

pub(crate) fn prove(
    property: &Property,
    bounds: &Bounds<'_>,
    grounds: &[Ground<'_>],
    findings: &mut Findings,
) -> Result<(), ProveError> {
    require_names(property, bounds, grounds)?;
    let mut principals = BTreeSet::new();
    let mut is_about_something = false;
    for ground in grounds {
        let firewall = &ground.firewall;
        let targets = find_targets(bounds, firewall, findings);
        findings.world.catalogs.insert(ground.catalog.to_owned());
        findings.world.columns += targets.columns.len();
        findings.world.tables += targets.tables.len();
        let vary = firewall.policies().demands_vary();
        for principal in firewall.known_principals() {
            if !is_meant(bounds.who, firewall, &principal) {
                continue;
            }
            principals.insert(principal.clone());
            is_about_something |= !targets.columns.is_empty() || !targets.tables.is_empty();
            let places = ground.places(&principal)?;
            let places: BTreeMap<(&str, Option<&str>, &str), &AccessPlace> = places
                .iter()
                .map(|place| {
                    let key = (place.table.as_str(), place.column.as_deref(), place.action);
                    (key, place)
                })
                .collect();
            let mut check = |table: &str,
                             column: Option<&str>,
                             action: &'static str,
                             judge: &dyn Fn(&AccessLevel) -> Standing| {
                let Some(found) = places.get(&(table, column, action)) else {
                    return;
                };
                check_place(ground, (&principal, found), vary, judge, findings);
            };
            for (table, column) in &targets.columns {
                if let Some(bound) = bounds.shows {
                    check(table, Some(column), "read", &|level| {
                        shown_within(level, bound)
                    });
                }
                if bounds.may_not.iter().any(|action| action == "write") {
                    check(table, Some(column), "write", &nothing);
                }
            }
            for table in &targets.tables {
                if let Some(bound) = bounds.rows {
                    check(table, None, "see", &|level| rows_within(level, bound));
                }
                for action in ["select", "insert", "update", "delete", "truncate"] {
                    if bounds.may_not.iter().any(|named| named == action) {
                        check(table, None, action, &nothing);
                    }
                }
            }
        }
    }
    findings.world.principals = principals.len();
    if principals.is_empty() {
        let why = "it is about no principal: none that entities or policies name is meant";
        findings.undecided.insert(why.to_owned());
    } else if !is_about_something {
        let why = "it is about no column and no table of the catalog";
        findings.undecided.insert(why.to_owned());
    }
    Ok(())
}

pub(crate) fn nothing(level: &AccessLevel) -> Standing {
    // A name that is known is no permission.
    match level.is_nothing() || *level == AccessLevel::NameOnly {
        true => Standing::Within,
        false => Standing::Beyond,
    }
}

pub(crate) fn shown_within(level: &AccessLevel, bound: Bound) -> Standing {
    let needed = match level {
        AccessLevel::Never => return Standing::Within,
        AccessLevel::Nulls => Bound::Null,
        AccessLevel::Token => Bound::Token,
        AccessLevel::Masked(_) => Bound::Mask,
        AccessLevel::AfterApproval(_, level) => return shown_within(level, bound),
        AccessLevel::NoRows
        | AccessLevel::NameOnly
        | AccessLevel::Plain
        | AccessLevel::SomeRows(_)
        | AccessLevel::AllRows
        | AccessLevel::Allowed(_) => return Standing::Beyond,
    };
    match needed <= bound {
        true if bound == Bound::Mask => Standing::Within,
        true => Standing::WithinByMask,
        false => Standing::Beyond,
    }
}

pub(crate) fn rows_within(level: &AccessLevel, bound: RowBound) -> Standing {
    match (level, bound) {
        (AccessLevel::Never | AccessLevel::NoRows, _) => Standing::Within,
        (AccessLevel::AfterApproval(_, level), bound) => rows_within(level, bound),
        (AccessLevel::SomeRows(_), RowBound::Some) => Standing::Within,
        (
            AccessLevel::SomeRows(_)
            | AccessLevel::NameOnly
            | AccessLevel::Nulls
            | AccessLevel::Token
            | AccessLevel::Masked(_)
            | AccessLevel::Plain
            | AccessLevel::AllRows
            | AccessLevel::Allowed(_),
            _,
        ) => Standing::Beyond,
    }
}

pub(crate) fn check_place(
    ground: &Ground<'_>,
    (principal, found): (&Principal, &AccessPlace),
    vary: bool,
    judge: &dyn Fn(&AccessLevel) -> Standing,
    findings: &mut Findings,
) {
    let is = |levels: &[AccessLevel], standing| levels.iter().any(|level| judge(level) == standing);
    let beyond = is(&found.levels, Standing::Beyond);
    let beyond_in_template = is(&found.in_templates, Standing::Beyond);
    let beyond_levels = found.levels.iter().chain(&found.in_templates);
    let beyond_levels = beyond_levels.filter(|level| judge(level) == Standing::Beyond);
    let suspect = Suspect {
        principal: principal.clone(),
        place: Place {
            table: found.table.clone(),
            column: found.column.clone(),
            action: found.action,
        },
        shown: join_levels(beyond_levels),
        by: found.by.iter().cloned().collect(),
        depends: found
            .levels
            .iter()
            .any(|level| judge(level) != Standing::Beyond),
    };
    if beyond {
        let most = found
            .levels
            .iter()
            .filter(|level| judge(level) == Standing::Beyond);
        let wanted = Wanted::most_of(most);
        findings.try_suspect(&suspect, |suspect| confirm(ground, suspect, wanted));
        return;
    }
    if beyond_in_template {
        findings.undecided.insert(format!(
            "{}; within a template that it may run, which is not run here",
            suspect.describe()
        ));
        return;
    }
    let varies = is(&found.levels, Standing::WithinByMask)
        || is(&found.in_templates, Standing::WithinByMask);
    if vary && varies {
        let shown = join_levels(found.levels.iter().chain(&found.in_templates));
        let suspect = Suspect { shown, ..suspect };
        findings.undecided.insert(format!(
            "{}; circumstances decide about masks or tokens, and which of them come together is not enumerated",
            suspect.describe()
        ));
    }
}

pub(crate) fn is_meant(who: &Who, firewall: &Firewall, principal: &Principal) -> bool {
    let is_in = |groups: &[Principal]| groups.iter().any(|group| firewall.is_in(principal, group));
    match who {
        Who::Everyone => true,
        Who::Outside(groups) => !is_in(groups),
        Who::Within(groups) => is_in(groups),
    }
}

pub(crate) fn find_targets(
    bounds: &Bounds<'_>,
    firewall: &Firewall,
    findings: &mut Findings,
) -> Targets {
    let mut targets = Targets {
        columns: BTreeSet::new(),
        tables: BTreeSet::new(),
    };
    for column in firewall.known_columns() {
        let name = format!("{}.{}", column.table, column.column);
        let is_column = bounds
            .columns
            .iter()
            .any(|pattern| is_matched(pattern, &name))
            || bounds.tagged.iter().any(|tag| column.tags.contains(tag));
        let is_table = bounds
            .tables
            .iter()
            .any(|pattern| is_matched(pattern, &column.table));
        if (is_column || is_table) && !column.is_enumerated {
            findings.undecided.insert(format!(
                "`{}` is a virtual table, which is not enumerated",
                column.table
            ));
            continue;
        }
        if is_table {
            targets.tables.insert(column.table.clone());
        }
        if is_column {
            targets.columns.insert((column.table, column.column));
        }
    }
    targets
}

/// Refuses a name that is in no catalog: a mistake in it would prove anything.
pub(crate) fn require_names(
    property: &Property,
    bounds: &Bounds<'_>,
    grounds: &[Ground<'_>],
) -> Result<(), ProveError> {
    let (mut tags, mut columns, mut tables, mut entities) = (
        BTreeSet::new(),
        BTreeSet::new(),
        BTreeSet::new(),
        BTreeSet::new(),
    );
    for ground in grounds {
        for column in ground.firewall.known_columns() {
            columns.insert(format!("{}.{}", column.table, column.column));
            tables.insert(column.table);
            tags.extend(column.tags);
        }
        entities.extend(ground.firewall.policies().entity_names());
    }
    for (what, names, known) in [
        ("tag on a column", bounds.tagged, &tags),
        ("column", bounds.columns, &columns),
        ("table", bounds.tables, &tables),
    ] {
        for name in names {
            let is_known = match what {
                "tag on a column" => known.contains(name),
                _ => known.iter().any(|one| is_matched(name, one)),
            };
            if !is_known {
                return Err(unknown(property, what, name, known));
            }
        }
    }
    match bounds.who {
        Who::Everyone => {}
        Who::Outside(groups) | Who::Within(groups) => {
            for group in groups {
                let name = group.to_string();
                if !entities.contains(&name) {
                    return Err(unknown(
                        property,
                        "entity or policy that names",
                        &name,
                        &entities,
                    ));
                }
            }
        }
    }
    Ok(())
}
