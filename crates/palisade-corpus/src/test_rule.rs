//! The rules that tests are held to, and the warnings of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use palisade::{did_you_mean, firewall::Listing, session::Principal};
use serde::Serialize;

use crate::{
    case::Case,
    folder::PolicyTests,
    load::OWN_POLICIES,
    only_policy::{PERMIT_EVERYTHING, only},
    report::{Report, Status},
    run::{RunError, Runner},
    unreachable::Reach,
};

macro_rules! rules {
    ($($name:ident $slug:literal: $summary:literal, $harm:literal, $cure:literal, $example:literal;)+) => {
        /// A rule that tests of policies are held to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum TestRule {
            $(#[doc = $summary] $name,)+
        }

        impl TestRule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its code.
            #[must_use]
            pub fn slug(self) -> &'static str {
                match self { $(Self::$name => $slug,)+ }
            }

            /// What it finds.
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self { $(Self::$name => $summary,)+ }
            }

            /// What goes wrong.
            #[must_use]
            pub fn harm(self) -> &'static str {
                match self { $(Self::$name => $harm,)+ }
            }

            /// What to do about it.
            #[must_use]
            pub fn cure(self) -> &'static str {
                match self { $(Self::$name => $cure,)+ }
            }

            /// A file of tests that it warns of, over [`EXAMPLE_FILES`].
            #[must_use]
            pub fn example(self) -> &'static str {
                match self { $(Self::$name => $example,)+ }
            }

            /// The rule of a code.
            #[must_use]
            pub fn from_slug(slug: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|rule| rule.slug() == slug)
            }
        }
    };
}

/// The policy folder of [`TestRule::example`], by file.
pub const EXAMPLE_FILES: &[(&str, &str)] = &[
    (
        "tests/tea.sql",
        "CREATE TABLE tea (id INTEGER PRIMARY KEY, name TEXT);\n",
    ),
    (
        "base.cedar",
        "permit (principal in Role::\"guest\", action, resource);\n",
    ),
    (
        "entities.json",
        "[{\"uid\": {\"type\": \"Agent\", \"id\": \"ann\"}, \"attrs\": {}, \"parents\": [{\"type\": \"Role\", \"id\": \"guest\"}]}]\n",
    ),
];

rules! {
    ProvesNothing "proves-nothing": "a case holds where everything is permitted and where everything is forbidden",
        "no change of the policies makes it fail", "expect rows, masks or a code that the policies decide",
        "[[case]]\nname = \"no-statement\"\nas = 'Agent::\"ann\"'\nsql = \"SELECT FROM\"\ndecision = \"reject\"\ncode = \"syntax.invalid\"\n";
    Unreachable "unreachable": "a case fails, and no policies can make it hold",
        "policies are changed in vain", "correct the statement or what the case expects of it",
        "[[case]]\nname = \"ann-reads-leaves\"\nas = 'Agent::\"ann\"'\nsql = \"SELECT leaves FROM tea\"\ndecision = \"allow\"\n";
    OnlyInTests "only-in-tests": "a principal of a case is neither in `entities.json` nor in a policy",
        "a name with a mistake has no roles, so that the case is about anybody", "correct the name or list the principal; where it stands for any other, ignore the warning with that reason",
        "[[case]]\nname = \"ann-reads\"\nas = 'Agent::\"anne\"'\nsql = \"SELECT name FROM tea\"\ndecision = \"reject\"\ncode = \"name.unknown-relation\"\n";
    IgnoreUnknown "ignore-unknown": "an ignore names a rule of tests that does not exist",
        "the warning that was meant is told all the same", "write the code as the warning has it",
        "# palisade:ignore prove-nothing The text is no statement.\n[[case]]\nname = \"ann-reads\"\nas = 'Agent::\"ann\"'\nsql = \"SELECT name FROM tea\"\ndecision = \"allow\"\n";
    IgnoreUnexplained "ignore-unexplained": "an ignore has no reason",
        "who reads it later cannot tell whether it still holds", "write the reason behind the code",
        "# palisade:ignore only-in-tests\n[[case]]\nname = \"others-read-nothing\"\nas = 'Agent::\"eve\"'\nsql = \"SELECT name FROM tea\"\ndecision = \"reject\"\ncode = \"name.unknown-relation\"\n";
    IgnoreUnused "ignore-unused": "an ignore silences nothing",
        "it would hide a later mistake", "take it away",
        "# palisade:ignore only-in-tests She is any other.\n[[case]]\nname = \"ann-reads\"\nas = 'Agent::\"ann\"'\nsql = \"SELECT name FROM tea\"\ndecision = \"allow\"\n";
}

impl fmt::Display for TestRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.slug())
    }
}

/// Something odd about a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestWarning {
    /// The rule's code.
    pub code: &'static str,
    /// The file of the case.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// What is odd.
    pub message: String,
    /// What to do about it.
    pub help: &'static str,
}

impl fmt::Display for TestWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            code,
            file,
            line,
            message,
            help,
        } = self;
        write!(
            f,
            "warning[{code}] {file}:{line}: {message}\n  help: {help}"
        )
    }
}

/// What the rules find in the tests of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TestWarnings {
    /// In the order of files and lines.
    pub warnings: Vec<TestWarning>,
    /// The codes of rules that could not be checked, with the reason.
    pub not_checked: Vec<(&'static str, &'static str)>,
}

impl PolicyTests {
    /// Holds the cases to every [`TestRule`]: those that failed to [`TestRule::Unreachable`], those that passed to the others.
    ///
    /// # Errors
    /// If a catalog or the policies do not load.
    pub fn lint(&self, report: &Report) -> Result<TestWarnings, RunError> {
        let mut out = TestWarnings::default();
        let Some(own) = self.corpus().policies.get(OWN_POLICIES) else {
            return Ok(out);
        };
        let runner = Runner::new(self.corpus())?;
        let load = |text: &str| {
            let sources = only(own, text);
            runner.with_policies(OWN_POLICIES, &sources).ok()
        };
        // A forbid of everything is as no permit, and needs no other policy.
        let ends = load(PERMIT_EVERYTHING).zip(load("forbid (principal, action, resource);"));
        if ends.is_none() {
            let why = "a policy of everything does not load over the tables of the tests";
            for rule in [TestRule::ProvesNothing, TestRule::Unreachable] {
                out.not_checked.push((rule.slug(), why));
            }
        }
        if own.entities.is_none() {
            let why = "there is no entities.json";
            out.not_checked.push((TestRule::OnlyInTests.slug(), why));
        }
        let mut firewalls = report.results.iter().map(|one| runner.firewall(&one.case));
        let any = firewalls.find_map(|firewall| firewall);
        let ids = any.map_or_else(BTreeSet::new, |any| any.policies().ids());
        let reach = ends.as_ref().map(|(open, _)| Reach {
            open,
            policies: &ids,
        });
        let mut told = BTreeSet::new();
        let mut known: BTreeMap<&String, Vec<Principal>> = BTreeMap::new();
        let mut texts = Texts::new();
        for result in &report.results {
            let file = &result.case.file;
            if !texts.contains_key(file) {
                let text = std::fs::read_to_string(file).unwrap_or_default();
                texts.insert(file.clone(), text);
            }
        }
        let count = self.progress().count("results", report.results.len());
        for result in &report.results {
            self.require_wish()?;
            count.add_one();
            let case = &result.case;
            match result.status {
                Status::Passed => {}
                Status::Failed(_) => {
                    let obstacle = reach.as_ref().and_then(|reach| reach.find_obstacle(case));
                    if let Some(why) = obstacle {
                        let message = format!("`{}` cannot hold: {why}", case.name);
                        out.warnings
                            .push(TestWarning::new(TestRule::Unreachable, case, message));
                    }
                    continue;
                }
                Status::Skipped(_) => continue,
            }
            let holds = |runner: &Runner| runner.run(case).differences.is_empty();
            if ends
                .as_ref()
                .is_some_and(|(open, closed)| holds(open) && holds(closed))
            {
                let message = format!(
                    "`{}` holds whether everything is permitted or everything is forbidden",
                    case.name
                );
                out.warnings
                    .push(TestWarning::new(TestRule::ProvesNothing, case, message));
            }
            let Some(firewall) = runner.firewall(case) else {
                continue;
            };
            let Ok(standing) = firewall.standing(&case.session()) else {
                continue;
            };
            let Listing::Missing { closest } = standing.listing else {
                continue;
            };
            let known = known.entry(&case.catalog);
            let known = known.or_insert_with(|| firewall.known_principals());
            if known.contains(&case.principal) {
                continue;
            }
            if told.insert((
                case.file.clone(),
                case.principal.clone(),
                part_of(&texts, case),
            )) {
                let hint = match closest {
                    Some(closest) => {
                        format!("; did you mean `{}::{closest:?}`?", case.principal.kind())
                    }
                    None => ", and no policy names it".to_owned(),
                };
                let message = format!("`{}` is not in entities.json{hint}", case.principal);
                out.warnings
                    .push(TestWarning::new(TestRule::OnlyInTests, case, message));
            }
        }
        self.apply_ignores(report, &texts, &mut out);
        Ok(out)
    }

    /// Takes away the warnings that comments silence, and adds those about the comments themselves.
    fn apply_ignores(&self, report: &Report, texts: &Texts, out: &mut TestWarnings) {
        let not_checked: Vec<&str> = out.not_checked.iter().map(|(code, _)| *code).collect();
        let mut found = Vec::new();
        for (file, text) in texts {
            for ignore in read_ignores(text) {
                let warn = |rule: TestRule, message: String| TestWarning {
                    code: rule.slug(),
                    file: file.clone(),
                    line: ignore.line,
                    message,
                    help: rule.cure(),
                };
                let slug = &ignore.slug;
                let Some(rule) = TestRule::from_slug(slug) else {
                    let close =
                        did_you_mean::closest(slug, TestRule::ALL.iter().map(|rule| rule.slug()));
                    let hint = close.map(|close| format!("; did you mean `{close}`?"));
                    let hint = hint.unwrap_or_default();
                    let message = format!("there is no rule `{slug}` of tests to ignore{hint}");
                    found.push(warn(TestRule::IgnoreUnknown, message));
                    continue;
                };
                if !ignore.has_reason {
                    let message =
                        format!("why is `{slug}` ignored here? without a reason it is not");
                    found.push(warn(TestRule::IgnoreUnexplained, message));
                    continue;
                }
                let is_within = |place: &str, line: u32| {
                    place == file && (ignore.first..=ignore.last).contains(&line)
                };
                let before = out.warnings.len();
                out.warnings.retain(|warning| {
                    !(warning.code == rule.slug() && is_within(&warning.file, warning.line))
                });
                // Of cases that were not held to the rules, nothing is known.
                let all_passed = (report.results.iter())
                    .filter(|result| is_within(&result.case.file, result.case.line))
                    .all(|result| result.status == Status::Passed);
                let is_tried = all_passed
                    && !not_checked.contains(&rule.slug())
                    && report.results.len() == self.corpus().cases.len();
                if is_tried && out.warnings.len() == before {
                    let message = format!("this ignores no warning of `{slug}`");
                    found.push(warn(TestRule::IgnoreUnused, message));
                }
            }
        }
        out.warnings.extend(found);
        out.warnings
            .sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    }
}

/// The texts of files of tests, by name.
type Texts = BTreeMap<String, String>;

const MARK: &str = "# palisade:ignore";

/// A comment that silences a rule: within the lines around it, to the next empty ones.
struct Ignore {
    slug: String,
    has_reason: bool,
    /// Its own line, from 1.
    line: u32,
    first: u32,
    last: u32,
}

fn read_ignores(text: &str) -> Vec<Ignore> {
    let lines: Vec<&str> = text.lines().collect();
    let number = |index: usize| u32::try_from(index + 1).unwrap_or(u32::MAX);
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some((_, said)) = line.split_once(MARK) else {
            continue;
        };
        let said = said.trim();
        let (slug, reason) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
        let (first, last) = paragraph(&lines, index);
        found.push(Ignore {
            slug: slug.to_owned(),
            has_reason: !reason.trim().is_empty(),
            line: number(index),
            first: number(first),
            last: number(last),
        });
    }
    found
}

/// The first and the last index of the lines around `index`, up to the next empty lines.
fn paragraph(lines: &[&str], index: usize) -> (usize, usize) {
    let is_blank = |line: &&str| line.trim().is_empty();
    let before = lines.get(..index).unwrap_or_default();
    let first = before
        .iter()
        .rposition(is_blank)
        .map_or(0, |blank| blank + 1);
    let after = lines.get(index..).unwrap_or_default();
    let last = match after.iter().position(is_blank) {
        Some(blank) => (index + blank).saturating_sub(1),
        None => lines.len().saturating_sub(1),
    };
    (first, last)
}

/// Where the lines around a case begin: a principal is told once for those.
fn part_of(texts: &Texts, case: &Case) -> usize {
    let text = texts.get(&case.file).map_or("", String::as_str);
    let lines: Vec<&str> = text.lines().collect();
    let index = usize::try_from(case.line).unwrap_or(1).saturating_sub(1);
    match text.contains(MARK) {
        true => paragraph(&lines, index).0,
        false => 0,
    }
}

impl TestWarning {
    fn new(rule: TestRule, case: &Case, message: String) -> Self {
        Self {
            code: rule.slug(),
            file: case.file.clone(),
            line: case.line,
            message,
            help: rule.cure(),
        }
    }
}
