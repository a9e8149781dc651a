//! The tests of a policy folder, run.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use palisade::{code::Stage, policy::PolicySources};

use crate::{
    case::Case,
    compare::Difference,
    cores::share,
    load::{Corpus, CorpusError, OWN_POLICIES},
    policy_coverage::measure,
    progress::{Progress, Step},
    report::{CaseResult, Report, Status},
    run::{Answer, Ran, RunError, Runner},
    why::Inquiry,
    wish::Wish,
};

/// The tests of a policy folder.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path();
/// # std::fs::create_dir(path.join("tests"))?;
/// std::fs::write(path.join("base.cedar"), "permit (principal, action, resource);")?;
/// std::fs::write(path.join("tests/shop.sql"), "CREATE TABLE tea (name TEXT);")?;
/// std::fs::write(
///     path.join("tests/tea.toml"),
///     r#"
///     as = 'Agent::"anyone"'
///     [[case]]
///     name = "tea-is-for-all"
///     sql = "SELECT name FROM tea"
///     decision = "allow"
///     rows = []
///     "#,
/// )?;
/// let report = palisade_corpus::PolicyTests::load(path)?.run()?;
/// assert!(report.is_passed(), "{}", report.text(&Default::default()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PolicyTests {
    folder: PathBuf,
    corpus: Corpus,
    chosen: Vec<Case>,
    wish: Wish,
    progress: Progress,
}

impl PolicyTests {
    /// Reads the policy folder at `folder` with its tests.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, CorpusError> {
        let folder = folder.as_ref();
        let corpus = Corpus::load_policy_folder(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            chosen: corpus.cases.clone(),
            corpus,
            wish: Wish::default(),
            progress: Progress::default(),
        })
    }

    /// The tests of `folder` by other policies, and with the texts of open files of tests, by name, in the place of what is
    /// written: as an editor has them. With it comes everything that is wrong; cases without a fault are there all the same.
    #[must_use]
    pub fn load_open(
        folder: &Path,
        sources: PolicySources,
        open: &BTreeMap<String, String>,
    ) -> (Self, Vec<CorpusError>) {
        let (corpus, faults) = Corpus::load_tests(folder, sources, open);
        let tests = Self {
            folder: folder.to_owned(),
            chosen: corpus.cases.clone(),
            corpus,
            wish: Wish::default(),
            progress: Progress::default(),
        };
        (tests, faults)
    }

    /// The same, whose runs end early once `is_wanted` says no: with [`RunError::Stopped`], or for mutants with those that were
    /// judged. One thread judges mutants then, so that the machine stays free for a person.
    #[must_use]
    pub fn while_wanted(mut self, is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.wish = Wish::new(is_wanted);
        self
    }

    /// The same, whose work tells how far it is, from any thread.
    #[must_use]
    pub fn telling(mut self, tell: impl Fn(Step) + Send + Sync + 'static) -> Self {
        self.progress = Progress::new(tell);
        self
    }

    /// Who is told how far work is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The policy folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same without servers: their cases are decided, and do not run.
    #[must_use]
    pub fn without_servers(mut self) -> Self {
        self.corpus.servers.clear();
        self
    }

    /// Only the cases whose id contains `part`.
    #[must_use]
    pub fn filter(mut self, part: &str) -> Self {
        self.chosen.retain(|case| case.id().contains(part));
        self
    }

    /// Whether the run is still wanted.
    pub(crate) fn wish(&self) -> &Wish {
        &self.wish
    }

    /// Whether the run goes on.
    pub(crate) fn require_wish(&self) -> Result<(), RunError> {
        self.wish.is_alive().then_some(()).ok_or(RunError::Stopped)
    }

    /// The cases that are run.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = &Case> {
        self.chosen.iter()
    }

    /// Every case of the folder, with its catalogs and policies.
    #[must_use]
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// Runs the cases, and compares the folder's `access.lock` with what the policies give. Policies and cases are loaded in two orders; where the decision about a case differs, it fails.
    ///
    /// # Errors
    /// If a catalog or the policies do not load.
    pub fn run(&self) -> Result<Report, RunError> {
        self.run_with(&Measure::Nothing)
    }

    /// As [`run`](Self::run), and measures what the cases touch.
    ///
    /// # Errors
    /// As there.
    pub fn run_and_measure(&self) -> Result<Report, RunError> {
        self.run_with(&Measure::Coverage)
    }

    fn run_with(&self, measured: &Measure) -> Result<Report, RunError> {
        let wanted: Vec<Case> = (self.chosen.iter())
            .filter(|case| case.skip.is_none())
            .cloned()
            .collect();
        let orders = [1, 2].map(|seed| self.in_order(seed, &wanted));
        self.run_orders(measured, &wanted, &orders)
    }

    /// Runs the cases as loaded in the first of `orders`, and decides about them as in the second.
    fn run_orders(
        &self,
        measured: &Measure,
        wanted: &[Case],
        orders: &[Corpus; 2],
    ) -> Result<Report, RunError> {
        let skipped = self.chosen.iter().filter(|case| case.skip.is_some());
        let [first, second] = orders;
        let one = Runner::on_servers(first)?;
        let other = match second.policies.get(OWN_POLICIES) {
            // On the same databases, whose names are in what is compared.
            Some(sources) if !self.corpus.servers.is_empty() => one
                .with_policies(OWN_POLICIES, sources)
                .map_err(|source| RunError::Policies {
                    policies: OWN_POLICIES.to_owned(),
                    catalog: String::new(),
                    source,
                })?,
            Some(_) | None => Runner::new(second)?,
        };
        let mut found: BTreeMap<&str, Ran> = BTreeMap::new();
        let is_wanted = |_: &&Case| self.wish.is_alive();
        let cores = self.wish.cores();
        let count = self.progress.count("cases", first.cases.len());
        let ran = share(&first.cases, (cores, &count), |case| {
            Some(case).filter(is_wanted).map(|case| one.run(case))
        });
        self.require_wish()?;
        found.extend(first.cases.iter().map(|case| case.name.as_str()).zip(ran));
        let count = (self.progress).count("cases in another order", second.cases.len());
        let decided = share(&second.cases, (cores, &count), |case| {
            Some(case).filter(is_wanted).map(|case| other.decide(case))
        });
        self.require_wish()?;
        for (case, decided) in second.cases.iter().zip(decided) {
            if let Some(ran) = found.get_mut(case.name.as_str()) {
                let difference = differ_by_order(ran, decided);
                ran.differences.extend(difference);
            }
        }
        let mut results = Vec::new();
        for case in skipped {
            let why = case.skip.clone().unwrap_or_default();
            results.push(CaseResult {
                case: case.clone(),
                status: Status::Skipped(why),
                answer: None,
                why: None,
            });
        }
        let own = self.corpus.policies.get(OWN_POLICIES);
        let mut inquiry = own.map(|sources| Inquiry::new(&one, sources));
        for case in wanted {
            let Some(Ran {
                answer,
                differences,
            }) = found.remove(case.name.as_str())
            else {
                continue;
            };
            let status = if differences.is_empty() {
                Status::Passed
            } else {
                Status::Failed(differences)
            };
            let why = match (&status, &mut inquiry) {
                (Status::Failed(_), Some(inquiry)) => inquiry.ask(case, answer.as_ref()),
                (Status::Failed(_) | Status::Passed | Status::Skipped(_), _) => None,
            };
            results.push(CaseResult {
                case: case.clone(),
                status,
                answer,
                why,
            });
        }
        results.sort_by(|a, b| {
            let place = |result: &CaseResult| (result.case.file.clone(), result.case.line);
            place(a).cmp(&place(b))
        });
        let coverage = match measured {
            Measure::Nothing => None,
            Measure::Coverage => {
                let all = Runner::over_catalogs(&self.corpus, OWN_POLICIES)?;
                let catalogs = self.corpus.catalogs.keys();
                match self.corpus.policies.get(OWN_POLICIES) {
                    Some(own) => Some(measure(&all, catalogs, (OWN_POLICIES, own), &results)?),
                    None => None,
                }
            }
        };
        Ok(Report {
            coverage,
            results,
            problems: self.find_stale_lock()?.into_iter().collect(),
        })
    }

    /// The same folder with policies, entities and cases in another order.
    fn in_order(&self, seed: u64, cases: &[Case]) -> Corpus {
        let mut order = Order(seed);
        let policies = self.corpus.policies.iter();
        let mut corpus = Corpus {
            catalogs: self.corpus.catalogs.clone(),
            policies: policies
                .map(|(name, sources)| (name.clone(), order.shuffle_sources(sources)))
                .collect(),
            techniques: self.corpus.techniques.clone(),
            survivors: Vec::new(),
            servers: self.corpus.servers.clone(),
            default_policies: self.corpus.default_policies.clone(),
            cases: cases.to_vec(),
        };
        order.shuffle(&mut corpus.cases);
        corpus
    }
}

/// What is measured beside whether cases hold.
enum Measure {
    Nothing,
    Coverage,
}

/// What differs in the decision about a case where everything was loaded in another order.
fn differ_by_order(ran: &Ran, other: Result<Answer, String>) -> Option<Difference> {
    let one = ran.answer.as_ref()?;
    let other = match other {
        Ok(other) => other,
        Err(why) => return Some(Difference::new("order", "an answer", why)),
    };
    // What has a text was decided; that it was refused afterwards, the data made so.
    let is_decided = |answer: &Answer| {
        answer
            .code
            .is_none_or(|code| code.stage() == Stage::Decision && answer.rewritten.is_none())
    };
    if !is_decided(one) {
        return None;
    }
    let told = |answer: &Answer| {
        let code = answer.code.map_or("allow", |code| code.slug());
        let rewritten = answer.rewritten.clone().unwrap_or_default();
        format!("{code} by {}: {rewritten}", answer.policies.join(", "))
    };
    let (expected, got) = (told(one), told(&other));
    (expected != got).then(|| Difference::new("order", expected, got))
}

/// An order that is the same in every run.
struct Order(u64);

impl Order {
    fn next(&mut self, below: usize) -> usize {
        // SplitMix64, of which nothing is asked but to mix.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((bits ^ (bits >> 31)) % below.max(1) as u64).unwrap_or(0)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.next(last + 1));
        }
    }

    fn shuffle_sources(&mut self, sources: &PolicySources) -> PolicySources {
        let mut sources = sources.clone();
        self.shuffle(&mut sources.policies);
        // What is no list of entities is left for the loader to tell of.
        if let Some(Ok(serde_json::Value::Array(mut entities))) =
            sources.entities.as_deref().map(serde_json::from_str)
        {
            self.shuffle(&mut entities);
            sources.entities = Some(serde_json::Value::Array(entities).to_string());
        }
        sources
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::{Measure, PolicyTests};
    use crate::load::OWN_POLICIES;

    fn folder() -> (tempfile::TempDir, PolicyTests) {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("tests")).unwrap();
        for name in ["a", "b", "c", "d"] {
            let policy = format!("@id(\"{name}\") permit (principal, action, resource);");
            write(&format!("{name}.cedar"), &policy);
        }
        write("tests/tea.sql", "CREATE TABLE tea (name TEXT);");
        let cases: String = (0..6)
            .map(|number| {
                format!(
                    "[[case]]\nname = \"case-{number}\"\nas = 'Agent::\"ann\"'\nsql = \"SELECT name FROM tea\"\ndecision = \"allow\"\n"
                )
            })
            .collect();
        write("tests/tea.toml", &cases);
        let tests = PolicyTests::load(folder.path()).unwrap();
        (folder, tests)
    }

    #[test]
    fn the_two_orders_hold_the_same_and_differ() {
        let (_folder, tests) = folder();
        let cases = &tests.corpus().cases;
        let [first, second] = [1, 2].map(|seed| tests.in_order(seed, cases));
        let names = |corpus: &super::Corpus| -> Vec<String> {
            let cases = corpus.cases.iter().map(|case| case.name.clone());
            let files = corpus.policies[OWN_POLICIES].policies.iter();
            cases.chain(files.map(|file| file.name.clone())).collect()
        };
        let (first, second) = (names(&first), names(&second));
        assert_ne!(first, second);
        assert_ne!(first[..6], second[..6]);
        assert_ne!(first[6..], second[6..]);
        let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(set(&first), set(&second));
    }

    /// The firewall decides alike in every order, so that policies which do not stand in for such a fault.
    #[test]
    fn a_decision_that_differs_in_the_second_order_is_a_failure() {
        let (_folder, tests) = folder();
        let cases = tests.corpus().cases.clone();
        let orders = || [1, 2].map(|seed| tests.in_order(seed, &cases));
        let run = |orders| {
            tests
                .run_orders(&Measure::Nothing, &cases, &orders)
                .unwrap()
        };
        assert!(run(orders()).is_passed());
        let mut otherwise = orders();
        for (changed, told) in [
            (
                "forbid (principal, action, resource);",
                "got      name.unknown-relation by ",
            ),
            (
                "permit (principal, action, resource);",
                "got      allow by ",
            ),
        ] {
            let own = otherwise[1].policies.get_mut(OWN_POLICIES).unwrap();
            own.policies.truncate(1);
            own.policies[0].text = format!("@id(\"other\") {changed}");
            let report = run(otherwise.clone());
            assert!(!report.is_passed());
            let text = report.text(&crate::TextForm::default());
            assert!(text.contains("\n  order\n"), "{text}");
            assert!(text.contains("expected allow by a, b, c, d: "), "{text}");
            assert!(text.contains(told), "{told}\n{text}");
        }
    }
}
