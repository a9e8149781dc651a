//! Above each policy: what it decides alone, whether a test tries it, and which changes of it no test notices.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use palisade::{firewall::SoleCells, policy::outline};
use palisade_corpus::PolicyHits;
use serde_json::{Value, json};

use crate::lsp::{
    state::Analysis,
    trials::{Mutants, PolicyMutants, Trial},
};

/// How many cells each policy decides alone.
type Sole = Arc<BTreeMap<String, SoleCells>>;

/// What was counted last, and of which check.
#[derive(Default)]
pub(super) struct Lenses(Mutex<Option<(u64, Sole)>>);

/// Surviving mutants that a lens names.
const NAMED: usize = 2;

impl Lenses {
    /// The cells that each policy decides alone; none once they are not wanted any more.
    pub(super) fn count(
        &self,
        analysis: &Analysis,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Sole>, String> {
        let Some(loaded) = &analysis.loaded else {
            return Ok(Some(Sole::default()));
        };
        // They are counted once at a time. A poisoned lock guards what was finished.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, known)) = &*last
            && *of == analysis.generation
        {
            return Ok(Some(Arc::clone(known)));
        }
        let sole = loaded.firewall.count_sole_cells(&is_wanted);
        let sole = sole.map_err(|error| error.to_string())?.map(Arc::new);
        if let Some(sole) = &sole {
            *last = Some((analysis.generation, Arc::clone(sole)));
        }
        Ok(sole)
    }
}

/// The lenses of the file called `name`.
pub(super) fn describe_lenses(
    name: &str,
    analysis: &Analysis,
    sole: &BTreeMap<String, SoleCells>,
    trial: &Trial,
) -> Vec<Value> {
    let policies = analysis.policies.iter();
    let outlines = policies.flat_map(|policies| outline(&policies.sources));
    let mut lenses = Vec::new();
    for policy in outlines.filter(|one| one.file == name) {
        let line = policy.first_line.saturating_sub(1);
        let place = json!({"line": line, "character": 0});
        let range = json!({"start": place, "end": place});
        let id = policy.id.as_str();
        let titles = [
            Some(tell_cells(sole.get(id))),
            Some(tell_tests(&trial.tested, id)),
            tell_mutants(&trial.mutants, id),
        ];
        for title in titles.into_iter().flatten() {
            let command = json!({"title": title, "command": ""});
            lenses.push(json!({"range": range, "command": command}));
        }
    }
    lenses
}

fn tell_cells(sole: Option<&SoleCells>) -> String {
    match sole {
        Some(SoleCells::Count(0)) => "decides nothing alone".to_owned(),
        Some(SoleCells::Count(1)) => "decides 1 cell alone".to_owned(),
        Some(SoleCells::Count(count)) => format!("decides {count} cells alone"),
        Some(SoleCells::Uncounted(why)) => format!("cells not counted: {why}"),
        None => "cells not counted".to_owned(),
    }
}

fn tell_tests(tested: &Result<Arc<Vec<PolicyHits>>, String>, id: &str) -> String {
    let policies = match tested {
        Ok(policies) => policies,
        Err(why) => return format!("no tests: {why}"),
    };
    let found = policies.iter().find(|policy| policy.policy == id);
    let Some(found) = found.filter(|policy| policy.cases > 0) else {
        return "untested".to_owned();
    };
    let told = match found.cases {
        1 => "tested by 1 case".to_owned(),
        cases => format!("tested by {cases} cases"),
    };
    format!("{told}{}", tell_conditions(found))
}

/// What became of the changes of a policy; none where nothing tries them.
fn tell_mutants(mutants: &Mutants, id: &str) -> Option<String> {
    let found = match mutants {
        Mutants::Awaited => return Some("mutants are being tried …".to_owned()),
        Mutants::Untried => return None,
        Mutants::Tried(found) => found.get(id)?,
    };
    let PolicyMutants {
        all,
        tried,
        survivors,
    } = found;
    let of = match (all - tried, all) {
        (0, 1) => "1 mutant".to_owned(),
        (0, all) => format!("{all} mutants"),
        (_, all) => format!("{tried} of {all} mutants tried"),
    };
    let named: Vec<&str> = survivors.iter().take(NAMED).map(String::as_str).collect();
    let more = match survivors.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; {more} more"),
    };
    Some(match survivors.len() {
        0 => format!("{of}, none survives"),
        1 => format!("{of}, 1 survives: {}", named.join("; ")),
        count => format!("{of}, {count} survive: {}{more}", named.join("; ")),
    })
}

/// What was never seen of the conditions of a policy.
fn tell_conditions(policy: &PolicyHits) -> String {
    let seen = || policy.clauses.iter().filter_map(|clause| clause.seen);
    let unseen = [
        ("true", seen().filter(|seen| seen.holding == 0).count()),
        ("false", seen().filter(|seen| seen.failing == 0).count()),
    ];
    let told = unseen.iter().map(|(value, count)| match count {
        0 => String::new(),
        1 => format!(", a condition is never {value}"),
        count => format!(", {count} conditions are never {value}"),
    });
    told.collect()
}
