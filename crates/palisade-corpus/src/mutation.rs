//! Whether the tests of a policy folder notice that a policy is changed.

use std::{collections::BTreeSet, fmt::Write as _};

use palisade::policy::{Mutant, mutate};
use serde_json::json;

use crate::{
    case::Case,
    cores::share,
    folder::PolicyTests,
    load::{Corpus, OWN_POLICIES},
    run::{Answer, RunError, Runner},
    survivor::Survivor,
    wish::Wish,
    witness::{Before, Witness},
};

/// What became of each mutant of a policy folder.
#[derive(Debug, Clone)]
pub struct MutationReport {
    /// By file and line.
    pub results: Vec<MutantResult>,
    /// Survivors that the folder names, and that are none.
    pub(crate) problems: Vec<String>,
}

/// What became of one mutant.
#[derive(Debug, Clone)]
pub struct MutantResult {
    /// The changed policy.
    pub mutant: Mutant,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a mutant.
#[derive(Debug, Clone)]
pub enum Fate {
    /// This case does not hold with it.
    Noticed(String),
    /// Policies with it do not load, and could not be used.
    NotLoaded,
    /// What each principal may see and change is the same.
    Equivalent,
    /// No case notices it, and the folder says why.
    Named(String),
    /// No case notices it. The witness is a case that would, where one was found.
    Survived(Option<Box<Witness>>),
}

impl MutationReport {
    /// Whether every mutant is noticed, changes nothing, or is named with a reason.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.problems.is_empty() && self.survivors().next().is_none()
    }

    fn survivors(&self) -> impl Iterator<Item = (&Mutant, Option<&Witness>)> {
        self.results.iter().filter_map(|result| match &result.fate {
            Fate::Survived(witness) => Some((&result.mutant, witness.as_deref())),
            Fate::Noticed(_) | Fate::NotLoaded | Fate::Equivalent | Fate::Named(_) => None,
        })
    }

    /// Each survivor and each wrong name of one, as a problem of the folder.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        let survivors = self
            .survivors()
            .map(|(mutant, _)| format!("no case notices {}", describe(mutant)));
        survivors.chain(self.problems.iter().cloned())
    }

    fn count(&self, is: impl Fn(&Fate) -> bool) -> usize {
        self.results
            .iter()
            .filter(|result| is(&result.fate))
            .count()
    }

    /// How many of those that change anything are noticed or named, in hundredths, rounded down; all of none.
    #[must_use]
    pub fn score(&self) -> usize {
        let survived = self.survivors().count();
        let told = self.count(|fate| matches!(fate, Fate::Noticed(_) | Fate::Named(_)));
        (told * 100).checked_div(told + survived).unwrap_or(100)
    }

    /// For people: each survivor with a case that notices it, then how many there are.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (mutant, witness) in self.survivors() {
            let _ = writeln!(out, "SURVIVED {}", describe(mutant));
            match witness {
                Some(witness) => witness.write(&mut out),
                None => {
                    let _ = writeln!(
                        out,
                        "  no statement was found that shows it\n  help: write a case that does, or name the mutant under `[[survivor]]` with the reason\n"
                    );
                }
            }
        }
        for problem in &self.problems {
            let _ = writeln!(out, "FAILED {problem}\n");
        }
        // Over other tables they may change something.
        for result in &self.results {
            if matches!(result.fate, Fate::Equivalent) {
                let mutant = describe(&result.mutant);
                let _ = writeln!(out, "changes nothing over these tables: {mutant}");
            }
        }
        let _ = writeln!(out, "{}", self.summary());
        out
    }

    /// `mutants: 51 noticed, 2 survived, 3 named, 4 change nothing, 5 do not load; score 96 %`.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts = vec![
            format!(
                "{} noticed",
                self.count(|fate| matches!(fate, Fate::Noticed(_)))
            ),
            format!("{} survived", self.survivors().count()),
        ];
        for (count, what) in [
            (
                self.count(|fate| matches!(fate, Fate::Named(_))),
                "named with a reason",
            ),
            (
                self.count(|fate| matches!(fate, Fate::Equivalent)),
                "change nothing",
            ),
            (
                self.count(|fate| matches!(fate, Fate::NotLoaded)),
                "do not load",
            ),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        format!("mutants: {}; score {} %", parts.join(", "), self.score())
    }

    /// One JSON object.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let mutants = self.results.iter().map(|MutantResult { mutant, fate }| {
            let (fate, by, witness) = match fate {
                Fate::Noticed(case) => ("noticed", Some(case.as_str()), None),
                Fate::NotLoaded => ("not-loaded", None, None),
                Fate::Equivalent => ("equivalent", None, None),
                Fate::Named(reason) => ("named", Some(reason.as_str()), None),
                Fate::Survived(witness) => ("survived", None, witness.as_deref()),
            };
            json!({
                "policy": mutant.policy,
                "mutation": mutant.mutation.name(),
                "change": mutant.change,
                "file": mutant.file,
                "line": mutant.line,
                "fate": fate,
                "by": by,
                "witness": witness.map(Witness::json),
            })
        });
        json!({
            "score": self.score(),
            "problems": self.problems,
            "mutants": mutants.collect::<Vec<_>>(),
        })
    }
}

impl PolicyTests {
    /// Changes each policy in one place at a time, and says which changes no case notices. A case that does not
    /// hold already notices nothing. A run that [ends early](Self::while_wanted) says what became of the mutants until then.
    ///
    /// # Errors
    /// If a catalog or the policies do not load.
    pub fn mutate(&self) -> Result<MutationReport, RunError> {
        let corpus = self.corpus();
        let Some(sources) = corpus.policies.get(OWN_POLICIES) else {
            return Ok(MutationReport {
                results: Vec::new(),
                problems: Vec::new(),
            });
        };
        let cases: Vec<&Case> = self.chosen().filter(|case| case.skip.is_none()).collect();
        let runner = Runner::over_folder(corpus, OWN_POLICIES)?;
        let court = Court {
            corpus,
            before: Before::new(&runner, corpus)?,
            known: cases
                .into_iter()
                .take_while(|_| self.wish().is_alive())
                .filter(|case| runner.run(case).differences.is_empty())
                .filter_map(|case| Some((case, runner.decide(case).ok()?)))
                .collect(),
            runner: &runner,
            wish: self.wish(),
        };
        let mutants = mutate(sources);
        let count = self.progress().count("mutants", mutants.len());
        let mut results = share(&mutants, (self.wish().cores(), &count), |mutant| {
            let fate = court.judge(mutant, sources)?;
            Some(MutantResult {
                mutant: mutant.clone(),
                fate,
            })
        });
        let mut problems = name_survivors(&mut results, &corpus.survivors);
        if !self.wish().is_alive() {
            // What is named may be among those that were not judged.
            problems.clear();
        }
        Ok(MutationReport { results, problems })
    }
}

/// `base.cedar:12 support.tables: widened, for every action`.
fn describe(mutant: &Mutant) -> String {
    let Mutant {
        policy, file, line, ..
    } = mutant;
    format!("{file}:{line} {policy}: {}", mutant.describe())
}

/// Gives survivors the reasons that the folder has for them; what is named and does not survive.
fn name_survivors(results: &mut [MutantResult], named: &[Survivor]) -> Vec<String> {
    let mut problems = Vec::new();
    for survivor in named {
        let mut found = false;
        let mut why = "there is no such mutant".to_owned();
        for MutantResult { mutant, fate } in &mut *results {
            if mutant.policy != survivor.policy || mutant.change != survivor.change {
                continue;
            }
            match fate {
                Fate::Survived(_) => {
                    *fate = Fate::Named(survivor.reason.clone());
                    found = true;
                }
                Fate::Named(_) => found = true,
                Fate::Noticed(case) => why = format!("the case `{case}` notices it"),
                Fate::NotLoaded => "it does not load".clone_into(&mut why),
                Fate::Equivalent => "it changes nothing".clone_into(&mut why),
            }
        }
        if !found {
            problems.push(format!(
                "{}: `{}` {} is no survivor: {why}\n  help: take the entry away",
                survivor.place, survivor.policy, survivor.change
            ));
        }
    }
    problems
}

/// What mutants are held against.
struct Court<'c> {
    corpus: &'c Corpus,
    runner: &'c Runner,
    before: Before,
    /// The cases that hold, and how they are decided.
    known: Vec<(&'c Case, Answer)>,
    wish: &'c Wish,
}

impl Court<'_> {
    /// What becomes of a mutant; none where the run ends before that is known.
    fn judge(&self, mutant: &Mutant, sources: &palisade::policy::PolicySources) -> Option<Fate> {
        if !self.wish.is_alive() {
            return None;
        }
        let Ok(changed) = self
            .runner
            .with_policies(OWN_POLICIES, &mutant.apply(sources))
        else {
            return Some(Fate::NotLoaded);
        };
        for (case, was) in &self.known {
            if !self.wish.is_alive() {
                return None;
            }
            // What is decided alike gives the same rows.
            let is_alike = |is| is_alike(case, was, &is);
            if !changed.decide(case).is_ok_and(is_alike)
                && !changed.run(case).differences.is_empty()
            {
                return Some(Fate::Noticed(case.name.clone()));
            }
        }
        let compared = self
            .before
            .compare(self.runner, &changed, self.corpus, mutant);
        Some(match compared {
            Ok(None) => Fate::Equivalent,
            Ok(Some(witness)) => Fate::Survived(witness.map(Box::new)),
            // What cannot be compared may differ.
            Err(_) => Fate::Survived(None),
        })
    }
}

/// Whether two decisions about `case` are the same to it.
fn is_alike(case: &Case, was: &Answer, is: &Answer) -> bool {
    let by = |answer: &Answer| {
        case.expect
            .policies
            .as_ref()
            .map(|_| answer.policies.clone())
    };
    let told = |answer: &Answer| {
        (
            answer.code,
            answer.rewritten.clone(),
            answer.shown,
            answer.max_time_ms,
            answer.approval,
            answer.approvals.clone(),
            answer.json.clone(),
        )
    };
    told(was) == told(is) && by(was) == by(is)
}

/// The names of `cases`, to tell of names that are taken.
pub(crate) fn names(corpus: &Corpus) -> BTreeSet<&str> {
    corpus.cases.iter().map(|case| case.name.as_str()).collect()
}
