//! Whether a statement shows what an enumeration found: it is decided and run as any other.

use palisade::firewall::{AccessLevel, Trace};

use crate::{
    case::Case,
    probe,
    probe_case::{MOMENTS, probe_case, stand_in},
    prove::{Ground, Suspect},
    run::{Answer, Runner},
};

/// A statement that was run, and what came of it.
pub(crate) struct Confirmed {
    pub(crate) case: Case,
    pub(crate) answer: Answer,
}

/// What a statement has to show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The column's values.
    Plain,
    /// The column, under a mask.
    Column,
    /// Every row.
    EveryRow,
    /// Any row.
    Rows,
    /// That it is permitted.
    Permit,
}

impl Wanted {
    /// What shows the most of `levels`.
    pub(crate) fn most_of<'l>(levels: impl Iterator<Item = &'l AccessLevel>) -> Self {
        let each = levels.map(Self::of_level);
        let rank = |wanted: &Self| match wanted {
            Self::Plain | Self::EveryRow => 2,
            Self::Column | Self::Rows => 1,
            Self::Permit => 0,
        };
        each.max_by_key(rank).unwrap_or(Self::Permit)
    }

    fn of_level(level: &AccessLevel) -> Self {
        match level {
            AccessLevel::Plain => Self::Plain,
            AccessLevel::Nulls | AccessLevel::Token | AccessLevel::Masked(_) => Self::Column,
            AccessLevel::AllRows => Self::EveryRow,
            AccessLevel::SomeRows(_) => Self::Rows,
            AccessLevel::Never
            | AccessLevel::NoRows
            | AccessLevel::NameOnly
            | AccessLevel::Allowed(_) => Self::Permit,
            AccessLevel::AfterApproval(_, level) => Self::of_level(level),
        }
    }
}

/// A statement at the suspect's place that shows what is `wanted`.
pub(crate) fn confirm(ground: &Ground<'_>, suspect: &Suspect, wanted: Wanted) -> Option<Confirmed> {
    try_statements(ground, suspect, |case| {
        let trace = ground.runner.explain(case).ok()?;
        shows(&trace, suspect, wanted).then_some(())
    })
}

/// A statement at the suspect's place that `ground` permits, and that is answered otherwise by `other`.
pub(crate) fn confirm_difference(
    ground: &Ground<'_>,
    other: &Runner,
    suspect: &Suspect,
) -> Option<Confirmed> {
    try_statements(ground, suspect, |case| {
        let (is, was) = (ground.runner.decide(case).ok()?, other.decide(case).ok()?);
        let is_permitted = is.code.is_none();
        let differs = (is.code, &is.rewritten) != (was.code, &was.rewritten);
        (is_permitted && differs).then_some(())
    })
}

/// A statement that the two answer otherwise, whichever permits it.
pub(crate) fn confirm_any_difference(
    ground: &Ground<'_>,
    other: &Runner,
    suspect: &Suspect,
) -> Option<Confirmed> {
    for at in MOMENTS {
        for sql in statements(ground, suspect) {
            let case = probe_case(ground.catalog, &suspect.principal, &sql, at)?;
            let (Ok(is), Ok(was)) = (ground.runner.decide(&case), other.decide(&case)) else {
                continue;
            };
            if (is.code, &is.rewritten) == (was.code, &was.rewritten) {
                continue;
            }
            if let Some(answer) = ground.runner.run(&case).answer {
                return Some(Confirmed { case, answer });
            }
        }
    }
    None
}

/// The first statement that passes `shows` and that runs.
fn try_statements(
    ground: &Ground<'_>,
    suspect: &Suspect,
    shows: impl Fn(&Case) -> Option<()>,
) -> Option<Confirmed> {
    for at in MOMENTS {
        for sql in statements(ground, suspect) {
            let case = probe_case(ground.catalog, &suspect.principal, &sql, at)?;
            if shows(&case).is_none() {
                continue;
            }
            // What is decided is not yet what comes out.
            let answer = ground.runner.run(&case).answer;
            if let Some(answer) = answer.filter(|answer| answer.code.is_none()) {
                return Some(Confirmed {
                    case: name_case(case, suspect),
                    answer,
                });
            }
        }
    }
    None
}

fn name_case(mut case: Case, suspect: &Suspect) -> Case {
    let who = stand_in(&suspect.principal);
    let text = format!(
        "{}-{}-{}",
        suspect.place.action,
        suspect.place.resource(),
        who.id()
    );
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    case.name = words.join("-");
    case.written_name.clone_from(&case.name);
    case
}

fn statements(ground: &Ground<'_>, suspect: &Suspect) -> Vec<String> {
    let catalog = ground.firewall.catalog();
    let readable: Vec<String> = ground
        .places(&suspect.principal)
        .unwrap_or_default()
        .into_iter()
        .filter(|place| place.table == suspect.place.table && place.action == "read")
        .filter(|place| !place.levels.iter().any(AccessLevel::is_nothing))
        .filter_map(|place| place.column)
        .collect();
    let mut all = probe::statements(catalog, &suspect.place, &readable);
    // A change needs no condition where no column may be read.
    if !readable.is_empty() {
        all.extend(probe::statements(catalog, &suspect.place, &[]));
    }
    all
}

/// Whether the record of a permitted statement shows what is wanted.
fn shows(trace: &Trace, suspect: &Suspect, wanted: Wanted) -> bool {
    if trace.code.is_some() {
        return false;
    }
    if wanted == Wanted::Permit {
        return true;
    }
    let mut relations = trace.relations.iter();
    let relation = relations.find(|relation| relation.relation == suspect.place.table);
    let Some(relation) = relation else {
        return false;
    };
    let column = suspect.place.column.as_deref();
    let level = relation
        .columns
        .iter()
        .find(|one| Some(one.column.as_str()) == column)
        .map(|one| one.level.as_str());
    match wanted {
        Wanted::Plain => level == Some("plain"),
        Wanted::Column => level.is_some_and(|level| level != "hidden"),
        Wanted::EveryRow => relation.rows == "all",
        Wanted::Rows => relation.rows != "none",
        Wanted::Permit => true,
    }
}
