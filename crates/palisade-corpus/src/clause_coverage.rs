//! Which policies tests try, and which of their clauses were seen true and seen false.

use std::collections::{BTreeMap, BTreeSet};

use palisade::{
    policy::{Clause, ClauseAbout, PolicyFile, PolicyOutline, PolicySources, outline},
    token::Lifetime,
    value::Params,
};
use serde::Serialize;

use crate::{
    case::Case,
    report::CaseResult,
    run::{RunError, Runner, Touched},
};

/// What cases try of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyHits {
    /// Its id.
    pub policy: String,
    /// Its file.
    pub file: String,
    /// The line of its first token, from 1.
    pub first_line: u32,
    /// The line of its semicolon.
    pub last_line: u32,
    /// How many cases it determined.
    pub cases: usize,
    /// Its conditions.
    pub clauses: Vec<ClauseHits>,
}

/// What cases try of a clause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClauseHits {
    /// The line of its first word, from 1.
    pub line: u32,
    /// `when { … }` or `unless { … }`, on one line.
    pub clause: String,
    /// What it was; none where that is not measured.
    pub seen: Option<Seen>,
}

/// How often a condition was true and was false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// How often its condition held.
    pub holding: usize,
    /// How often it did not.
    pub failing: usize,
}

impl Seen {
    fn note(&mut self, value: bool) {
        match value {
            true => self.holding += 1,
            false => self.failing += 1,
        }
    }
}

impl PolicyHits {
    /// What was never seen of its clauses, and how many things there are to be seen.
    pub(crate) fn find_unseen(&self) -> (usize, Vec<String>) {
        let mut unseen = Vec::new();
        let mut total = 0;
        for clause in &self.clauses {
            let Some(seen) = clause.seen else { continue };
            total += 2;
            for (count, what) in [(seen.holding, "true"), (seen.failing, "false")] {
                if count == 0 {
                    unseen.push(format!("{} {} never {what}", self.policy, clause.clause));
                }
            }
        }
        (total, unseen)
    }
}

/// What `results` try of the policies in `sources`, by file and line; `hits` says how many cases each policy determined.
pub(crate) fn measure(
    runner: &Runner,
    (policies, sources): (&str, &PolicySources),
    results: &[CaseResult],
    hits: &BTreeMap<String, usize>,
) -> Result<Vec<PolicyHits>, RunError> {
    let outlines = outline(sources);
    let cases: Vec<CaseTouches> = results
        .iter()
        .filter(|result| result.answer.is_some())
        .map(|result| {
            // The runner knows no other.
            let token_lifetime = Lifetime::default();
            let case = Case {
                token_lifetime,
                ..result.case.clone()
            };
            let touched = runner.find_touched(&case);
            (case, touched)
        })
        .collect();
    let rows = RowProbe {
        runner,
        policies,
        sources,
    };
    outlines
        .into_iter()
        .map(|policy| {
            let PolicyOutline {
                id,
                file,
                first_line,
                last_line,
                clauses,
            } = policy;
            let clauses = clauses
                .iter()
                .map(|clause| {
                    let seen = match &clause.about {
                        ClauseAbout::Others => None,
                        ClauseAbout::Resources => Some(watch(runner, clause, &cases)),
                        ClauseAbout::Rows { holding, all } => rows.count(holding, all, &cases)?,
                    };
                    Ok(ClauseHits {
                        line: clause.line,
                        clause: clause.text.clone(),
                        seen,
                    })
                })
                .collect::<Result<_, RunError>>()?;
            Ok(PolicyHits {
                cases: hits.get(&id).copied().unwrap_or(0),
                policy: id,
                file,
                first_line,
                last_line,
                clauses,
            })
        })
        .collect()
}

/// A case, and the tables and columns that it touches.
type CaseTouches = (Case, Vec<Touched>);

/// The values of a clause over what cases touch.
fn watch(runner: &Runner, clause: &Clause, cases: &[CaseTouches]) -> Seen {
    let mut seen = Seen::default();
    for (case, touched) in cases {
        let Some(firewall) = runner.firewall(case) else {
            continue;
        };
        let session = match case.question(firewall) {
            Ok(asked) => asked.session,
            // Of a template that is not there for whoever asks.
            Err(_) => case.session(),
        };
        for Touched {
            table,
            column,
            usages: _,
        } in touched
        {
            let value = firewall.clause_value(clause, &session, table, column.as_deref());
            if let Some(value) = value {
                seen.note(value);
            }
        }
    }
    seen
}

/// Permits that let a table be read, whatever its rows.
const READ: &str = "permit (principal, action in [Action::\"select\", Action::\"call\"], resource);
permit (principal, action in Action::\"read\", resource);
";

/// What the attributes end with by which rows follow others.
const FOLLOWS: &str = "_is_seen";

/// Counts rows that single conditions show, by the firewall itself.
struct RowProbe<'r> {
    runner: &'r Runner,
    policies: &'r str,
    sources: &'r PolicySources,
}

impl RowProbe<'_> {
    /// Over the tables that each principal of the cases touches, whether rows were there for which the condition held, and for
    /// which it did not; none where no table has rows to be counted.
    fn count(
        &self,
        holding: &str,
        all: &str,
        cases: &[CaseTouches],
    ) -> Result<Option<Seen>, RunError> {
        // Which rows of other tables are seen, other policies say.
        if holding.contains(FOLLOWS) {
            return Ok(None);
        }
        let load = |policy: &str| {
            let sources = PolicySources {
                policies: vec![PolicyFile {
                    name: "probe.cedar".to_owned(),
                    text: format!("{READ}{policy}"),
                }],
                templates: None,
                ..self.sources.clone()
            };
            self.runner.with_policies(self.policies, &sources).ok()
        };
        let Some((holding, all)) = load(holding).zip(load(all)) else {
            return Ok(None);
        };
        let mut seen = None;
        let mut asked = BTreeSet::new();
        for (case, touched) in cases {
            for Touched { table, .. } in touched {
                let key = (case.catalog.clone(), case.principal.clone(), case.at, table);
                if !asked.insert(key) {
                    continue;
                }
                let count = |runner: &Runner| count_rows(runner, case, table);
                let Some((shown, there)) = count(&holding).zip(count(&all)) else {
                    continue;
                };
                if there == 0 {
                    continue;
                }
                let seen = seen.get_or_insert_with(Seen::default);
                seen.holding += usize::try_from(shown).unwrap_or(usize::MAX);
                let hidden = there.saturating_sub(shown);
                seen.failing += usize::try_from(hidden).unwrap_or(usize::MAX);
            }
        }
        Ok(seen)
    }
}

/// How many rows of `table` are shown to the principal of `case`; none where it does not run.
fn count_rows(runner: &Runner, case: &Case, table: &str) -> Option<u64> {
    let name = |part: &str| format!("\"{}\"", part.replace('"', "\"\""));
    let (schema, table) = table.split_once('.')?;
    let question = Case {
        sql: format!("SELECT count(*) AS n FROM {}.{}", name(schema), name(table)),
        template: None,
        params: Params::None,
        written_params: None,
        ..case.clone()
    };
    let answer = runner.answer(&question).ok()?;
    answer.json.pointer("/rows/0/n")?.as_u64()
}
