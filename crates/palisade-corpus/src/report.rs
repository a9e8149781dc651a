//! What became of cases, for people and for programs.

use std::{fmt::Write as _, path::PathBuf};

use palisade::dialect::Dialect;
use quick_junit::{TestCase, TestCaseStatus, TestSuite};
use serde_json::json;

use crate::{
    case::{Case, Verdict},
    compare::Difference,
    junit,
    load::catalog_file,
    policy_coverage::PolicyCoverage,
    run::Answer,
    why::Why,
};

/// What became of every case.
#[derive(Debug, Clone)]
pub struct Report {
    /// In the order of files and lines.
    pub results: Vec<CaseResult>,
    /// What else is wrong with the folder.
    pub problems: Vec<String>,
    /// What the cases touch, where that was measured.
    pub coverage: Option<PolicyCoverage>,
}

/// What became of one case.
#[derive(Debug, Clone)]
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// Whether it holds.
    pub status: Status,
    /// What came out; none if it was skipped, or nothing could.
    pub answer: Option<Answer>,
    /// Of a case that does not hold, why, where that was looked into.
    pub why: Option<Why>,
}

/// Whether a case holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// It does.
    Passed,
    /// It does not; never empty.
    Failed(Vec<Difference>),
    /// It was not run, for this reason.
    Skipped(String),
}

/// How a report is written for people.
#[derive(Debug, Clone, Default)]
pub struct TextForm {
    /// Every case, and failing ones whole.
    pub verbose: bool,
    /// The policy folder, for commands that repeat a case.
    pub folder: PathBuf,
}

/// Lines of a failing case.
const MAX_LINES: usize = 30;

impl Report {
    /// Whether every case holds that was run, and nothing else is wrong.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.problems.is_empty() && self.count_failed() == 0
    }

    /// How many cases do not hold.
    #[must_use]
    pub fn count_failed(&self) -> usize {
        self.count(|status| matches!(status, Status::Failed(_)))
    }

    fn count(&self, is: impl Fn(&Status) -> bool) -> usize {
        self.results
            .iter()
            .filter(|result| is(&result.status))
            .count()
    }

    /// For people: each case that does not hold, then how many do.
    #[must_use]
    pub fn text(&self, form: &TextForm) -> String {
        let mut out = String::new();
        for result in &self.results {
            result.write(form, &mut out);
        }
        for problem in &self.problems {
            let _ = writeln!(out, "FAILED {}\n", problem.trim_end());
        }
        let left_out: Vec<&str> = self
            .results
            .iter()
            .filter(|result| result.case.is_left_out)
            .map(|result| result.case.name.as_str())
            .collect();
        if let [first, ..] = left_out.as_slice() {
            let _ = writeln!(
                out,
                "{} left out of matrices, each a deny: {}",
                pluralise(left_out.len(), "cell"),
                if form.verbose || left_out.len() == 1 {
                    left_out.join(", ")
                } else {
                    format!("{first}, …")
                }
            );
        }
        if let Some(coverage) = &self.coverage {
            out.push_str(&coverage.text());
        }
        let _ = writeln!(out, "{}", self.summary());
        out
    }

    /// `12 passed, 1 failed, 2 skipped`.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut out = format!(
            "{} passed, {} failed, {} skipped",
            self.count(|status| matches!(status, Status::Passed)),
            self.count_failed(),
            self.count(|status| matches!(status, Status::Skipped(_))),
        );
        if !self.problems.is_empty() {
            let _ = write!(out, ", {}", pluralise(self.problems.len(), "other problem"));
        }
        out
    }

    /// One JSON object.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let cases = self.results.iter().map(|result| {
            let case = &result.case;
            let (status, reason, differences) = match &result.status {
                Status::Passed => ("passed", None, &[][..]),
                Status::Failed(differences) => ("failed", None, differences.as_slice()),
                Status::Skipped(why) => ("skipped", Some(why), &[][..]),
            };
            json!({
                "name": case.name,
                "file": case.file,
                "line": case.line,
                "status": status,
                "reason": reason,
                "principal": case.principal.to_string(),
                "sql": case.template.is_none().then_some(&case.sql),
                "template": case.template,
                "expected": case.expected(),
                "left_out": case.is_left_out,
                "policies": result.answer.as_ref().map(|answer| &answer.policies),
                "rewritten": result.answer.as_ref().map(|answer| &answer.rewritten),
                "why": result.why.as_ref().map(Why::json),
                "differences": differences.iter().map(|difference| json!({
                    "what": difference.what,
                    "expected": difference.expected,
                    "got": difference.got,
                })).collect::<Vec<_>>(),
            })
        });
        json!({
            "passed": self.count(|status| matches!(status, Status::Passed)),
            "failed": self.count_failed(),
            "skipped": self.count(|status| matches!(status, Status::Skipped(_))),
            "problems": self.problems,
            "coverage": self.coverage,
            "cases": cases.collect::<Vec<_>>(),
        })
    }

    /// The Test Anything Protocol, version 14.
    #[must_use]
    pub fn tap(&self) -> String {
        let all = self.results.len() + self.problems.len();
        let mut out = format!("TAP version 14\n1..{all}\n");
        for (number, result) in (1..).zip(&self.results) {
            let case = &result.case;
            let _ = match &result.status {
                Status::Passed => writeln!(out, "ok {number} - {}", case.name),
                Status::Skipped(why) => {
                    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
                    writeln!(out, "ok {number} - {} # SKIP {why}", case.name)
                }
                Status::Failed(differences) => {
                    let told = json!({
                        "at": format!("{}:{}", case.file, case.line),
                        "why": result.why.as_ref().map(Why::json),
                        "differences": differences.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    });
                    // JSON is YAML.
                    writeln!(
                        out,
                        "not ok {number} - {}\n  ---\n  {told}\n  ...",
                        case.name
                    )
                }
            };
        }
        for (number, problem) in (self.results.len() + 1..).zip(&self.problems) {
            let told = json!(problem);
            let _ = writeln!(out, "not ok {number} - the folder\n  ---\n  {told}\n  ...");
        }
        out
    }

    /// JUnit's XML, a suite for each file.
    ///
    /// # Errors
    /// If the report cannot be written as XML.
    pub fn junit(&self) -> Result<String, String> {
        let mut report = quick_junit::Report::new("palisade policy test");
        for chunk in self.results.chunk_by(|a, b| a.case.file == b.case.file) {
            let name = chunk.first().map_or("", |result| &result.case.file);
            let mut suite = TestSuite::new(name);
            for result in chunk {
                let status = match &result.status {
                    Status::Passed => TestCaseStatus::success(),
                    Status::Skipped(why) => {
                        let mut status = TestCaseStatus::skipped();
                        status.set_message(why.as_str());
                        status
                    }
                    Status::Failed(differences) => {
                        let told: Vec<String> =
                            differences.iter().map(ToString::to_string).collect();
                        let what: Vec<&str> = differences.iter().map(|d| d.what).collect();
                        junit::fail(&format!("differs: {}", what.join(", ")), &told.join("\n"))
                    }
                };
                let case = &result.case;
                let line = Some(case.line.to_string());
                let mut told = junit::case(&case.name, &case.file, line, status);
                told.set_classname(case.topic.as_str());
                suite.add_test_case(told);
            }
            report.add_test_suite(suite);
        }
        if !self.problems.is_empty() {
            let mut suite = TestSuite::new("the folder");
            for problem in &self.problems {
                let status = junit::fail("the folder", problem);
                suite.add_test_case(TestCase::new("the folder", status));
            }
            report.add_test_suite(suite);
        }
        report.to_string().map_err(|error| error.to_string())
    }
}

impl CaseResult {
    fn write(&self, form: &TextForm, out: &mut String) {
        let case = &self.case;
        let place = format!("{}:{}", case.file, case.line);
        match &self.status {
            Status::Passed if form.verbose => {
                let _ = writeln!(out, "passed {} ({})", case.name, case.expected());
            }
            Status::Passed => {}
            Status::Skipped(why) => {
                let _ = writeln!(out, "skipped {place} {}: {why}", case.name);
            }
            Status::Failed(differences) => {
                let mut text = format!("FAILED {place} {}\n", case.name);
                if !case.why.is_empty() {
                    let _ = writeln!(text, "  {}", case.why);
                }
                let _ = writeln!(text, "  {}: {}", case.principal, case.asked());
                for difference in differences {
                    let _ = writeln!(text, "  {difference}");
                }
                if let Some(answer) = &self.answer {
                    let by = match answer.policies.as_slice() {
                        [] => "no policy".to_owned(),
                        ids => ids.join(", "),
                    };
                    let _ = writeln!(text, "  decided by {by}");
                }
                self.write_why(&mut text);
                let again = format!("  again: {}", self.command(form));
                // A command of one line keeps the last line; a longer one is cut with the rest.
                let last = usize::from(again.lines().count() == 1);
                if last == 0 {
                    let _ = writeln!(text, "{again}");
                }
                let lines: Vec<&str> = text.lines().collect();
                if form.verbose || lines.len() + last <= MAX_LINES {
                    out.push_str(&text);
                } else {
                    let (shown, rest) = lines.split_at(MAX_LINES - 1 - last);
                    let _ = writeln!(
                        out,
                        "{}\n  … {}; `--verbose` shows all",
                        shown.join("\n"),
                        pluralise(rest.len(), "more line")
                    );
                }
                if last == 1 {
                    let _ = writeln!(out, "{again}");
                }
                out.push('\n');
            }
        }
    }

    /// Which policies would have to go, and the conditions of those that decided.
    fn write_why(&self, text: &mut String) {
        let Some(Why {
            unreachable,
            without,
            conditions,
        }) = &self.why
        else {
            return;
        };
        if let Some(why) = unreachable {
            let _ = writeln!(text, "  no policies can make it hold: {why}");
            return;
        }
        let sets: Vec<String> = without.iter().map(|set| set.join(" and ")).collect();
        let _ = match sets.as_slice() {
            [] => writeln!(
                text,
                "  no policy has to go for it to hold; one is missing or is otherwise"
            ),
            sets => writeln!(
                text,
                "  it would hold without {}",
                sets.join(", or without ")
            ),
        };
        for condition in conditions {
            let at = condition.resource.as_ref().map(|at| format!(" at {at}"));
            let head = format!(
                "  {}{}: {}",
                condition.policy,
                at.unwrap_or_default(),
                condition.clause
            );
            match condition.parts.as_slice() {
                // The whole is one part that looks at nothing else.
                [one] if condition.clause.ends_with(&format!("{{ {} }}", one.text)) => {
                    let _ = writeln!(text, "{head} is {}", one.value);
                }
                parts => {
                    let _ = writeln!(text, "{head}");
                    for part in parts {
                        let _ = writeln!(text, "    {} is {}", part.text, part.value);
                    }
                }
            }
        }
    }

    /// The command that asks the case again, over its tables where these can be made.
    fn command(&self, form: &TextForm) -> String {
        let case = &self.case;
        let folder = form.folder.display().to_string();
        let schema = catalog_file(&form.folder, &case.catalog);
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let params = match (&case.template, &case.written_params) {
            (None, Some(params)) => format!(" --params {}", quoted(&params.to_string())),
            (Some(_), _) | (None, None) => String::new(),
        };
        let path = quoted(&schema.display().to_string());
        let has_rows = case.dialect == Dialect::Sqlite
            && schema
                .extension()
                .is_some_and(|extension| extension == "sql");
        let over = match has_rows {
            true => format!("--init {path}"),
            false => format!("--dialect {} --catalog {path}", case.dialect.name()),
        };
        format!(
            "palisade policy repl {over} --policies {}{params} --as {} {}",
            quoted(&folder),
            quoted(&case.principal.to_string()),
            quoted(&case.asked())
        )
    }
}

impl Case {
    /// What the case expects, as a cell says it: `mask`, `deny`, a code.
    #[must_use]
    pub fn expected(&self) -> String {
        match (self.expect.verdict, self.expect.shown) {
            (Verdict::Allow, Some(shown)) => shown.to_string(),
            (Verdict::Reject(code), _) => code.slug().to_owned(),
            (verdict @ (Verdict::Allow | Verdict::Deny), _) => verdict.to_string(),
        }
    }
}

/// `1 cell`, `2 cells`.
fn pluralise(count: usize, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {what}{end}")
}
