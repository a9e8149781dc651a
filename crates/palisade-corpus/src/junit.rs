//! JUnit's XML, which continuous integration reads.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// Something wrong with a file.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What kind of thing: the code of a rule.
    pub name: String,
    /// Where.
    pub file: String,
    /// The line, from 1.
    pub line: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// A report that has a failure for each problem, and one case that passes where there is none.
///
/// # Errors
/// If the report cannot be written as XML.
pub fn problems(name: &str, problems: impl Iterator<Item = Problem>) -> Result<String, String> {
    let mut suite = TestSuite::new(name);
    for problem in problems {
        let help = problem.help.map(|help| format!("\nhelp: {help}"));
        let description = format!("{}{}", problem.message, help.unwrap_or_default());
        let status = fail(&problem.message, &description);
        let line = problem.line.map(|line| line.to_string());
        suite.add_test_case(case(&problem.name, &problem.file, line, status));
    }
    if suite.test_cases.is_empty() {
        suite.add_test_case(TestCase::new(name, TestCaseStatus::success()));
    }
    let mut report = Report::new(name);
    report.add_test_suite(suite);
    report.to_string().map_err(|error| error.to_string())
}

pub(crate) fn fail(message: &str, description: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(message);
    status.set_description(description);
    status
}

pub(crate) fn case(
    name: &str,
    file: &str,
    line: Option<String>,
    status: TestCaseStatus,
) -> TestCase {
    let mut told = TestCase::new(name, status);
    told.extra.insert("file".into(), file.into());
    if let Some(line) = line {
        told.extra.insert("line".into(), line.into());
    }
    told
}
