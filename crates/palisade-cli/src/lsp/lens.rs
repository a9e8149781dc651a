//! Above each policy: what it decides alone, and whether a test tries it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use palisade::{
    firewall::SoleCells,
    policy::{PolicySources, outline},
};
use palisade_corpus::{PolicyHits, PolicyTests};
use serde_json::{Value, json};

use crate::{
    lsp::state::{Analysis, LoadedPolicies},
    policies::Policies,
};

/// What was measured last, and of which check.
#[derive(Default)]
pub(super) struct Lenses(Mutex<Option<(u64, Measured)>>);

/// What is known of the policies of a folder.
#[derive(Clone)]
struct Measured {
    sole: BTreeMap<String, SoleCells>,
    /// What cases try, or why that is not known.
    tested: Result<Vec<PolicyHits>, String>,
}

impl Lenses {
    /// The lenses of the file called `name`; none once they are not wanted any more.
    pub(super) fn list(
        &self,
        name: &str,
        analysis: &Analysis,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Vec<Value>>, String> {
        let (Some(policies), Some(loaded)) = (&analysis.policies, &analysis.loaded) else {
            return Ok(Some(Vec::new()));
        };
        if !analysis.is_current {
            return Ok(Some(Vec::new()));
        }
        // One is measured at a time. A poisoned lock guards what was finished.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().filter(|(of, _)| *of == analysis.generation);
        let measured = match known {
            Some((_, known)) => known.clone(),
            None => match measure(policies, loaded, is_wanted)? {
                Some(new) => {
                    *last = Some((analysis.generation, new.clone()));
                    new
                }
                None => return Ok(None),
            },
        };
        drop(last);
        Ok(Some(measured.describe(name, &policies.sources)))
    }
}

fn measure(
    policies: &Policies,
    loaded: &LoadedPolicies,
    is_wanted: impl Fn() -> bool,
) -> Result<Option<Measured>, String> {
    let sole = loaded.firewall.count_sole_cells(&is_wanted);
    let Some(sole) = sole.map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    if !is_wanted() {
        return Ok(None);
    }
    let tested = run_tests(policies);
    Ok(Some(Measured { sole, tested }))
}

/// What the folder's tests try of these policies. No server is asked.
fn run_tests(policies: &Policies) -> Result<Vec<PolicyHits>, String> {
    let folder = policies.folder().ok_or("there is no folder")?;
    let tests = PolicyTests::load(folder).map_err(|error| error.to_string())?;
    if tests.corpus().cases.is_empty() {
        return Err("there are none".to_owned());
    }
    let tests = tests.with_policies(policies.sources.clone());
    let report = tests.without_servers().run_and_measure();
    let report = report.map_err(|error| error.to_string())?;
    Ok(report
        .coverage
        .map(|found| found.policies)
        .unwrap_or_default())
}

impl Measured {
    fn describe(&self, name: &str, sources: &PolicySources) -> Vec<Value> {
        let mut lenses = Vec::new();
        for policy in outline(sources).iter().filter(|one| one.file == name) {
            let line = policy.first_line.saturating_sub(1);
            let place = json!({"line": line, "character": 0});
            let range = json!({"start": place, "end": place});
            for title in [self.tell_cells(&policy.id), self.tell_tests(&policy.id)] {
                let command = json!({"title": title, "command": ""});
                lenses.push(json!({"range": range, "command": command}));
            }
        }
        lenses
    }

    fn tell_cells(&self, id: &str) -> String {
        match self.sole.get(id) {
            Some(SoleCells::Count(0)) => "decides nothing alone".to_owned(),
            Some(SoleCells::Count(1)) => "decides 1 cell alone".to_owned(),
            Some(SoleCells::Count(count)) => format!("decides {count} cells alone"),
            Some(SoleCells::Uncounted(why)) => format!("cells not counted: {why}"),
            None => "cells not counted".to_owned(),
        }
    }

    fn tell_tests(&self, id: &str) -> String {
        let policies = match &self.tested {
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
