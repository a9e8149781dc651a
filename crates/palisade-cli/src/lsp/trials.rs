//! The tests of the folder, run aside after each check: what fails is shown at its case, and lenses tell what cases and mutants
//! show. Whatever runs ends with the next change.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use lsp_types::{Diagnostic, DiagnosticSeverity, NumberOrString};
use palisade::policy::mutate;
use palisade_corpus::{
    CaseResult, CorpusError, Difference, Fate, PolicyHits, PolicyTests, RunError, Status, TestRule,
    TestWarning, catalog_file,
};
use serde_json::{Value, json};

use crate::{
    lsp::{
        diagnostics::{SOURCE, whole_line},
        editor::Editor,
        positions::find_position,
        requests::Answerer,
        state::Analysis,
    },
    policies::Policies,
};

/// How long the tests of one state of the folder may run, and then its mutants.
const PATIENCE: Duration = Duration::from_secs(60);

/// Characters of what was expected or came out that an editor shows.
const SHOWN: usize = 400;

/// What the tests show of a state of the folder.
#[derive(Default)]
pub(super) struct Trials(Mutex<Option<(u64, Trial)>>);

/// What the tests show.
#[derive(Clone)]
pub(super) struct Trial {
    /// What cases try of each policy, or why that is not known.
    pub(super) tested: Result<Arc<Vec<PolicyHits>>, String>,
    pub(super) mutants: Mutants,
}

/// What became of mutants.
#[derive(Clone)]
pub(super) enum Mutants {
    /// They are still tried.
    Awaited,
    /// There are none, since there is nothing to try them with.
    Untried,
    /// By policy.
    Tried(Arc<BTreeMap<String, PolicyMutants>>),
}

/// What became of the mutants of one policy.
#[derive(Default)]
pub(super) struct PolicyMutants {
    /// How many there are.
    pub(super) all: usize,
    /// How many were tried before time was up.
    pub(super) tried: usize,
    /// What no case notices.
    pub(super) survivors: Vec<String>,
}

impl Trials {
    /// What is known of the check of this change.
    pub(super) fn find(&self, generation: u64) -> Option<Trial> {
        // A poisoned lock guards finished values; the panic was elsewhere.
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, trial) = last.as_ref()?;
        (*of == generation).then(|| trial.clone())
    }

    fn store(&self, generation: u64, trial: Trial) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((generation, trial));
    }
}

/// Runs the tests after each check until the server ends. `refreshes` says whether the editor can be asked to draw lenses anew.
pub(super) fn run_trials(answerer: &Arc<Answerer>, editor: &Editor, refreshes: bool) {
    let mut runner = TrialRunner {
        answerer,
        editor,
        marked: BTreeSet::new(),
    };
    let shared = &answerer.shared;
    let mut seen = 0;
    while let Some(analysis) = shared.wait_for_analysis(seen) {
        seen = analysis.generation;
        let Some(tests) = runner.run(&analysis) else {
            continue;
        };
        // Mutants take longest, and are for lenses alone.
        if !shared.wait_for_lenses(seen) {
            continue;
        }
        let mutants =
            tests.and_then(|(tests, policies)| try_mutants(tests, &policies, answerer, seen));
        let Some(trial) = answerer
            .trials
            .find(seen)
            .filter(|_| shared.is_newest(seen))
        else {
            continue;
        };
        let mutants = mutants.map_or(Mutants::Untried, |found| Mutants::Tried(Arc::new(found)));
        answerer.trials.store(seen, Trial { mutants, ..trial });
        shared.wake();
        if refreshes {
            editor.ask("workspace/codeLens/refresh", Value::Null);
        }
    }
}

/// Diagnostics by file.
type Shown = BTreeMap<PathBuf, Vec<Diagnostic>>;

/// Tests that hold, and the policies they are of.
type Ready = Option<(PolicyTests, Policies)>;

struct TrialRunner<'r> {
    answerer: &'r Arc<Answerer>,
    editor: &'r Editor,
    /// The files of tests that have diagnostics in the editor.
    marked: BTreeSet<PathBuf>,
}

impl TrialRunner<'_> {
    /// Runs the tests, and shows what is wrong with them. None where a change came meanwhile.
    fn run(&mut self, analysis: &Arc<Analysis>) -> Option<Ready> {
        let generation = analysis.generation;
        let policies = analysis.policies.clone();
        let Some((policies, folder)) =
            policies.and_then(|found| Some((found.clone(), found.folder()?.to_owned())))
        else {
            self.publish(analysis, Shown::new());
            return None;
        };
        let sources = policies.sources.clone();
        let (tests, faults) = PolicyTests::load_open(&folder, sources, &analysis.open_tests);
        let mut shown = Shown::new();
        for fault in &faults {
            show_fault(fault, &mut shown, analysis);
        }
        if !faults.is_empty() {
            self.settle(analysis, Err("they do not load".to_owned()), shown);
            return Some(None);
        }
        if !analysis.is_current {
            self.settle(analysis, Err("the policies do not load".to_owned()), shown);
            return Some(None);
        }
        if tests.corpus().cases.is_empty() {
            self.settle(analysis, Err("there are none".to_owned()), shown);
            return Some(None);
        }
        let begun = Instant::now();
        let tests = tests.without_servers();
        let tests = tests.while_wanted(wish(self.answerer, generation, begun));
        let ran = tests.run_and_measure();
        let ran = ran.and_then(|report| Ok((tests.lint(&report)?, report)));
        if !self.answerer.shared.is_newest(generation) {
            return None;
        }
        match ran {
            Ok((warnings, report)) => {
                for result in &report.results {
                    show_failure(result, &mut shown, analysis);
                }
                // What a case that fails expects in vain stands at that case already.
                let of_others = |one: &&TestWarning| one.code != TestRule::Unreachable.slug();
                for warning in warnings.warnings.iter().filter(of_others) {
                    show_warning(warning, &mut shown, analysis);
                }
                let hits = report.coverage.map(|found| found.policies);
                self.settle(analysis, Ok(Arc::new(hits.unwrap_or_default())), shown);
                Some(Some((tests, policies)))
            }
            Err(error) => {
                show_trouble(&error, &folder, &mut shown, analysis);
                let why = match error {
                    RunError::Stopped => {
                        let seconds = PATIENCE.as_secs();
                        format!("they take more than {seconds} s: run `palisade policy test`")
                    }
                    error => error.to_string(),
                };
                self.settle(analysis, Err(why), shown);
                Some(None)
            }
        }
    }

    /// Takes up what the tests show, and tells the editor.
    fn settle(
        &mut self,
        analysis: &Analysis,
        tested: Result<Arc<Vec<PolicyHits>>, String>,
        shown: Shown,
    ) {
        let mutants = match &tested {
            Ok(_) => Mutants::Awaited,
            Err(_) => Mutants::Untried,
        };
        let Answerer { shared, trials, .. } = &**self.answerer;
        if shared.is_newest(analysis.generation) {
            trials.store(analysis.generation, Trial { tested, mutants });
            shared.wake();
        }
        self.publish(analysis, shown);
    }

    /// Sends the diagnostics of each file of tests that has some, or had.
    fn publish(&mut self, analysis: &Analysis, mut shown: Shown) {
        for path in std::mem::take(&mut self.marked) {
            shown.entry(path).or_default();
        }
        for (path, diagnostics) in shown {
            let Some(uri) = analysis.documents.uri_of(&path) else {
                continue;
            };
            let document = analysis.documents.get(&path);
            let version = document.map(|document| document.version);
            if !diagnostics.is_empty() {
                self.marked.insert(path);
            }
            let params = json!({"uri": uri, "version": version, "diagnostics": diagnostics});
            (self.editor).notify("textDocument/publishDiagnostics", params);
        }
    }
}

/// Whether a run that began then is still wanted.
fn wish(
    answerer: &Arc<Answerer>,
    generation: u64,
    begun: Instant,
) -> impl Fn() -> bool + Send + Sync + 'static {
    let answerer = Arc::clone(answerer);
    move || answerer.shared.is_newest(generation) && begun.elapsed() < PATIENCE
}

/// Tries the mutants of `policies`, by policy; none where that cannot be.
fn try_mutants(
    tests: PolicyTests,
    policies: &Policies,
    answerer: &Arc<Answerer>,
    generation: u64,
) -> Option<BTreeMap<String, PolicyMutants>> {
    let mut found: BTreeMap<String, PolicyMutants> = BTreeMap::new();
    for mutant in mutate(&policies.sources) {
        found.entry(mutant.policy).or_default().all += 1;
    }
    let tests = tests.while_wanted(wish(answerer, generation, Instant::now()));
    for result in tests.mutate().ok()?.results {
        let of = found.entry(result.mutant.policy.clone()).or_default();
        of.tried += 1;
        match result.fate {
            Fate::Survived(_) => of.survivors.push(result.mutant.describe()),
            Fate::Noticed(_) | Fate::NotLoaded | Fate::Equivalent | Fate::Named(_) => {}
        }
    }
    Some(found)
}

/// Shows what is wrong with a file of tests, at its place.
fn show_fault(fault: &CorpusError, shown: &mut Shown, analysis: &Analysis) {
    let Some(place) = fault.place() else {
        return;
    };
    let text = analysis.documents.read(&place.file).unwrap_or_default();
    let line = place.line.unwrap_or(1);
    let mut range = whole_line(&text, line);
    if let Some(column) = place.column {
        let before = text.split_inclusive('\n').take(line as usize - 1);
        let start: usize = before.map(str::len).sum();
        let rest = text.get(start..).unwrap_or_default();
        let skipped = rest.chars().take(column as usize - 1).map(char::len_utf8);
        range.start = find_position(&text, start + skipped.sum::<usize>());
        range.end = range.end.max(range.start);
    }
    let diagnostic = Diagnostic {
        range,
        ..describe("not-loaded", DiagnosticSeverity::ERROR, fault.message())
    };
    let all = shown.entry(place.file).or_default();
    // A case on several engines has its fault once.
    if !all.contains(&diagnostic) {
        all.push(diagnostic);
    }
}

/// Shows that a case does not hold.
fn show_failure(result: &CaseResult, shown: &mut Shown, analysis: &Analysis) {
    let Status::Failed(differences) = &result.status else {
        return;
    };
    let told = differences.iter().map(|difference| {
        let Difference {
            what,
            expected,
            got,
            ..
        } = difference;
        format!("\n{what}: expected {}, got {}", cut(expected), cut(got))
    });
    let told: String = told.collect();
    let answer = result.answer.as_ref();
    let answer = answer.and_then(|answer| answer.json.get("message")?.as_str());
    let answer = answer.map_or_else(String::new, |message| format!("\n{}", cut(message)));
    let message = format!("`{}` does not hold{told}{answer}", result.case.name);
    let severity = DiagnosticSeverity::WARNING;
    let place = (result.case.file.as_str(), result.case.line);
    show_at(
        place,
        describe("test-fails", severity, message),
        shown,
        analysis,
    );
}

fn show_warning(warning: &TestWarning, shown: &mut Shown, analysis: &Analysis) {
    let message = format!("{}\nhelp: {}", warning.message, warning.help);
    let severity = DiagnosticSeverity::WARNING;
    let place = (warning.file.as_str(), warning.line);
    show_at(
        place,
        describe(warning.code, severity, message),
        shown,
        analysis,
    );
}

/// Shows why no test runs, at the tables where these are at fault.
fn show_trouble(error: &RunError, folder: &Path, shown: &mut Shown, analysis: &Analysis) {
    let (catalog, why) = match error {
        RunError::Database { catalog, why } => (catalog, why.clone()),
        RunError::Ddl { catalog, source } => (catalog, source.to_string()),
        RunError::Policies {
            catalog, source, ..
        } if !catalog.is_empty() => (
            catalog,
            format!("the policies do not load over these tables: {source}"),
        ),
        RunError::Policies { .. }
        | RunError::Folder(_)
        | RunError::Lock(_)
        | RunError::Missing { .. }
        | RunError::Stopped => return,
    };
    let path = catalog_file(folder, catalog);
    let diagnostic = describe("not-loaded", DiagnosticSeverity::ERROR, why);
    show_at((&path.to_string_lossy(), 1), diagnostic, shown, analysis);
}

fn show_at(
    (file, line): (&str, u32),
    diagnostic: Diagnostic,
    shown: &mut Shown,
    analysis: &Analysis,
) {
    let path = PathBuf::from(file);
    let text = analysis.documents.read(&path).unwrap_or_default();
    let range = whole_line(&text, line);
    let all = shown.entry(path).or_default();
    all.push(Diagnostic {
        range,
        ..diagnostic
    });
}

fn describe(code: &str, severity: DiagnosticSeverity, message: String) -> Diagnostic {
    Diagnostic {
        severity: Some(severity),
        code: Some(NumberOrString::String(code.to_owned())),
        source: Some(SOURCE.to_owned()),
        message,
        ..Diagnostic::default()
    }
}

/// The beginning of a text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((at, _)) => format!("{} …", text.get(..at).unwrap_or_default()),
    }
}
