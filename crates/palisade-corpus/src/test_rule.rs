//! The rules that tests are held to, and the warnings of them.

use std::{collections::BTreeSet, fmt};

use palisade::{
    firewall::Listing,
    policy::{PolicyFile, PolicySources},
};
use serde::Serialize;

use crate::{
    case::Case,
    folder::PolicyTests,
    load::OWN_POLICIES,
    report::{Report, Status},
    run::{RunError, Runner},
};

macro_rules! rules {
    ($($name:ident $slug:literal: $summary:literal, $harm:literal, $cure:literal;)+) => {
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
        }
    };
}

rules! {
    ProvesNothing "proves-nothing": "a case holds where everything is permitted and where everything is forbidden",
        "no change of the policies makes it fail", "expect rows, masks or a code that the policies decide";
    OnlyInTests "only-in-tests": "a principal of a case is not in `entities.json`, and one of nearly that name is",
        "a name with a mistake has no roles, so that the case is about anybody", "correct the name, or give anybody a name of its own";
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
    /// Holds the cases that passed to every [`TestRule`].
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
        let ends = load("permit (principal, action, resource);")
            .zip(load("forbid (principal, action, resource);"));
        if ends.is_none() {
            let why = "a policy of everything does not load over the tables of the tests";
            out.not_checked.push((TestRule::ProvesNothing.slug(), why));
        }
        if own.entities.is_none() {
            let why = "there is no entities.json";
            out.not_checked.push((TestRule::OnlyInTests.slug(), why));
        }
        let mut told = BTreeSet::new();
        for result in &report.results {
            self.require_wish()?;
            let case = &result.case;
            match result.status {
                Status::Passed => {}
                Status::Failed(_) | Status::Skipped(_) => continue,
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
            let Listing::Missing {
                closest: Some(closest),
            } = standing.listing
            else {
                continue;
            };
            if told.insert((case.file.clone(), case.principal.clone())) {
                let message = format!(
                    "`{}` is not in entities.json; did you mean `{}::{closest:?}`?",
                    case.principal,
                    case.principal.kind()
                );
                out.warnings
                    .push(TestWarning::new(TestRule::OnlyInTests, case, message));
            }
        }
        Ok(out)
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

/// `sources` with one policy in the place of all.
fn only(sources: &PolicySources, text: &str) -> PolicySources {
    PolicySources {
        policies: vec![PolicyFile {
            name: "only.cedar".to_owned(),
            text: text.to_owned(),
        }],
        ..sources.clone()
    }
}
