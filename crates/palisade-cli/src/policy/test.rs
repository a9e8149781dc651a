//! `palisade policy test`: the tests of a policy folder.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use palisade::moment;
use palisade_corpus::{
    CorpusError, MutationReport, PolicyCoverage, PolicyTests, Report, RunError, Status, TestRule,
    TestWarning, TestWarnings, TextForm,
};

use crate::{
    args::policy::{FailOn, TestArguments, TestFormat},
    changed_lines::ChangedLines,
    coverage_page,
    exit::{Exit, Failure},
    policies::Policies,
    policy::{
        check::{Told, sarif},
        generate,
    },
    progress::ProgressLine,
    shell_word::quote_word,
    stdout,
};

/// How often a folder is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn run(arguments: &TestArguments) -> Result<Exit, Failure> {
    if let Some(new) = &arguments.generate {
        return generate::run(arguments, new);
    }
    if !arguments.watch {
        return test(arguments);
    }
    loop {
        let seen = look(&arguments.dir);
        match test(arguments) {
            Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
            // What is half-written now is whole after the next change.
            Err(failure) => stdout::text(&format!("{failure}\n"))?,
            Ok(_) => {}
        }
        stdout::text("\nwaiting for a change …\n")?;
        while look(&arguments.dir) == seen {
            std::thread::sleep(LOOK);
        }
    }
}

/// The files of a policy folder and of its tests, with sizes and times.
fn look(folder: &Path) -> BTreeMap<PathBuf, (u64, Option<SystemTime>)> {
    let mut found = BTreeMap::new();
    for folder in [folder.to_owned(), folder.join("tests")] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if let Ok(metadata) = entry.metadata() {
                let changed = metadata.modified().ok();
                found.insert(entry.path(), (metadata.len(), changed));
            }
        }
    }
    found
}

fn test(arguments: &TestArguments) -> Result<Exit, Failure> {
    let tests = PolicyTests::load(&arguments.dir).map_err(not_loaded)?;
    if tests.corpus().cases.is_empty() {
        return Err(Failure::Usage(format!(
            "there are no tests in `{}`\n  help: write cases into `*.toml` and tables into `*.sql` there",
            arguments.dir.join("tests").display()
        )));
    }
    let tests = match &arguments.filter {
        Some(part) => tests.filter(part),
        None => tests,
    };
    let line = ProgressLine::begin("testing");
    let tests = line.follow(tests);
    let ran = if arguments.coverage {
        tests.run_and_measure()
    } else {
        tests.run()
    };
    let mut report = ran.map_err(|error| not_run(&error, &arguments.dir))?;
    if let (Some(coverage), Some(revision)) = (&mut report.coverage, &arguments.since) {
        let changed = ChangedLines::find(&arguments.dir, revision)?;
        coverage.retain_policies(|policy| {
            changed.touch(&policy.file, policy.first_line, policy.last_line)
        });
    }
    let too_little = find_too_little(&report, arguments);
    report.problems.extend(too_little);
    if let Some(coverage) = &report.coverage {
        write_coverage(coverage, &tests, arguments)?;
    }
    if report.results.is_empty() {
        let part = arguments.filter.as_deref().unwrap_or_default();
        return Err(Failure::Usage(format!("no case has `{part}` in its name")));
    }
    if arguments.update {
        drop(line);
        return update(&report, arguments);
    }
    // A mutant is noticed by what holds without it.
    let mutation = match arguments.mutate && report.is_passed() {
        true => Some(
            tests
                .mutate()
                .map_err(|error| not_run(&error, &arguments.dir))?,
        ),
        false => None,
    };
    let lint = match arguments.lint {
        true => Some(
            tests
                .lint(&report)
                .map_err(|error| not_run(&error, &arguments.dir))?,
        ),
        false => None,
    };
    if let (Some(lint), FailOn::Warning) = (&lint, arguments.fail_on) {
        let warnings = lint.warnings.iter().map(ToString::to_string);
        report.problems.extend(warnings);
    }
    drop(line);
    print(report.clone(), mutation.as_ref(), lint.as_ref(), arguments)?;
    let is_passed = mutation.is_none_or(|mutation| mutation.is_passed());
    Ok(if report.is_passed() && is_passed {
        Exit::Permitted
    } else {
        Exit::Refused
    })
}

/// Writes the coverage into the files that are asked for.
fn write_coverage(
    coverage: &PolicyCoverage,
    tests: &PolicyTests,
    arguments: &TestArguments,
) -> Result<(), Failure> {
    if let Some(path) = &arguments.lcov {
        replace(path, &coverage.lcov(tests.folder()))?;
    }
    if let Some(path) = &arguments.html {
        let policies = Policies::read(tests.folder())?;
        replace(path, &coverage_page::write(coverage, &policies.sources))?;
    }
    Ok(())
}

/// The kinds of things of which less is tested than asked.
fn find_too_little(report: &Report, arguments: &TestArguments) -> Vec<String> {
    let kinds = report.coverage.iter().flat_map(|found| &found.kinds);
    let mut told = Vec::new();
    for covered in kinds {
        let asked = &arguments.fail_under;
        for (_, least) in asked.iter().filter(|(kind, _)| *kind == covered.kind) {
            let percent = covered.percent();
            if percent < *least {
                told.push(format!(
                    "coverage: {percent} % of {} are tested, less than {least} %",
                    covered.kind
                ));
            }
        }
    }
    told
}

fn print(
    mut report: Report,
    mutation: Option<&MutationReport>,
    lint: Option<&TestWarnings>,
    arguments: &TestArguments,
) -> Result<(), Failure> {
    let text = match arguments.format {
        TestFormat::Text => {
            let form = TextForm {
                verbose: arguments.verbose,
                folder: arguments.dir.clone(),
            };
            let told = match mutation {
                Some(mutation) => mutation.text(),
                None if arguments.mutate => {
                    "mutants: not tried, since they are held against cases that hold\n".to_owned()
                }
                None => String::new(),
            };
            let lint = lint.map_or_else(String::new, |lint| describe(lint, arguments.fail_on));
            format!("{lint}{}{told}", report.text(&form))
        }
        TestFormat::Json => {
            let mut told = report.json();
            if let (Some(mutation), Some(told)) = (mutation, told.as_object_mut()) {
                told.insert("mutation".to_owned(), mutation.json());
            }
            if let (Some(lint), Some(told)) = (lint, told.as_object_mut()) {
                let lint = serde_json::to_value(lint)
                    .map_err(|error| Failure::Internal(error.to_string()))?;
                told.insert("lint".to_owned(), lint);
            }
            format!("{told}\n")
        }
        TestFormat::Github | TestFormat::Sarif => {
            let problems = report.problems.clone().into_iter();
            let survivors = mutation.into_iter().flat_map(MutationReport::problems);
            let warnings = lint.map_or(&[][..], |lint| lint.warnings.as_slice());
            let all = annotate(&report, problems.chain(survivors), warnings, arguments);
            match arguments.format {
                TestFormat::Github => all.iter().map(Told::github).collect(),
                TestFormat::Text
                | TestFormat::Json
                | TestFormat::Junit
                | TestFormat::Tap
                | TestFormat::Sarif => {
                    let rules = TestRule::ALL
                        .iter()
                        .map(|rule| [rule.slug(), rule.summary(), rule.harm(), rule.cure()]);
                    format!("{}\n", sarif(&all, rules))
                }
            }
        }
        TestFormat::Tap | TestFormat::Junit => {
            let survivors = mutation.into_iter().flat_map(MutationReport::problems);
            report.problems.extend(survivors);
            match arguments.format {
                TestFormat::Tap => report.tap(),
                TestFormat::Text
                | TestFormat::Json
                | TestFormat::Junit
                | TestFormat::Github
                | TestFormat::Sarif => report.junit().map_err(Failure::Internal)?,
            }
        }
    };
    stdout::text(&text)
}

/// Cases that failed and other problems as errors, and warnings, each with its place.
fn annotate(
    report: &Report,
    problems: impl Iterator<Item = String>,
    warnings: &[TestWarning],
    arguments: &TestArguments,
) -> Vec<Told> {
    let mut all = Vec::new();
    for result in &report.results {
        let Status::Failed(differences) = &result.status else {
            continue;
        };
        let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
        all.push(Told {
            level: "error",
            code: "case-fails",
            file: result.case.file.clone(),
            line: Some(result.case.line),
            column: None,
            message: format!("{}: {}", result.case.name, told.join("\n")),
            help: None,
        });
    }
    // Warnings that fail are among the problems too, without a place of their own.
    let is_warning = |text: &String| warnings.iter().any(|one| one.to_string() == *text);
    all.extend(
        problems
            .filter(|text| !is_warning(text))
            .map(|message| Told {
                level: "error",
                code: "tests-fail",
                file: arguments.dir.join("tests").display().to_string(),
                line: None,
                column: None,
                message,
                help: None,
            }),
    );
    all.extend(warnings.iter().map(|warning| Told {
        level: match arguments.fail_on {
            FailOn::Warning => "error",
            FailOn::Error => "warning",
        },
        code: warning.code,
        file: warning.file.clone(),
        line: Some(warning.line),
        column: None,
        message: warning.message.clone(),
        help: Some(warning.help.to_owned()),
    }));
    all
}

/// What is odd about the tests, and what was not looked at. Warnings that fail are told as that.
fn describe(lint: &TestWarnings, fail_on: FailOn) -> String {
    let mut out = String::new();
    match fail_on {
        FailOn::Warning => {}
        FailOn::Error => {
            for warning in &lint.warnings {
                let _ = writeln!(out, "{warning}\n");
            }
        }
    }
    for (code, why) in &lint.not_checked {
        let _ = writeln!(out, "Not checked: {code}, since {why}.");
    }
    out
}

/// Shows what changes in the files of tests, then writes it.
fn update(report: &Report, arguments: &TestArguments) -> Result<Exit, Failure> {
    let (updates, left) = report.updates().map_err(Failure::Usage)?;
    for update in &updates {
        stdout::text(&update.diff())?;
    }
    if !left.is_empty() {
        stdout::text(&format!(
            "not written, for a person to decide: {}\n",
            left.join(", ")
        ))?;
    }
    if !arguments.dry_run {
        for update in &updates {
            replace(Path::new(&update.file), &update.new)?;
        }
    }
    let told = match (updates.len(), arguments.dry_run) {
        (0, _) => "nothing to write".to_owned(),
        (1, true) => "1 file would be written".to_owned(),
        (1, false) => "1 file was written".to_owned(),
        (count, true) => format!("{count} files would be written"),
        (count, false) => format!("{count} files were written"),
    };
    stdout::text(&format!("{told}\n"))?;
    Ok(if left.is_empty() && report.problems.is_empty() {
        Exit::Permitted
    } else {
        Exit::Refused
    })
}

/// Writes a file whole or not at all.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let fault = |error: std::io::Error| {
        Failure::Usage(format!("cannot write `{}`: {error}", path.display()))
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text).map_err(fault)?;
    std::fs::rename(&beside, path).map_err(fault)
}

/// That a folder cannot be tested, as its fault is the policies' or the tests'.
pub(crate) fn not_loaded(error: CorpusError) -> Failure {
    match error {
        CorpusError::Policies(error) => {
            let help = error.help.as_deref();
            let help = help.map(|help| format!("\n  help: {help}"));
            Failure::Configuration(format!("error: {error}{}", help.unwrap_or_default()))
        }
        error @ (CorpusError::Read { .. }
        | CorpusError::Format { .. }
        | CorpusError::Case { .. }) => Failure::Usage(error.to_string()),
    }
}

/// Of when the tables are that policies do not fit, where a database was read for them: it may have others by now.
fn note_snapshot(folder: &Path, catalog: &str) -> Option<String> {
    let path = palisade_corpus::catalog_file(folder, catalog);
    let is_snapshot = path
        .extension()
        .is_some_and(|extension| extension == "json");
    let written = std::fs::metadata(&path).and_then(|file| file.modified());
    let written = written.ok().filter(|_| is_snapshot)?;
    let since_1970 = written.duration_since(UNIX_EPOCH).ok()?;
    let shown = path.display();
    Some(format!(
        "\nnote: the tables are those of `{shown}`, a file of {}\n  help: `palisade init DATABASE {} --refresh` takes them from the database anew",
        moment::print_utc(Duration::from_secs(since_1970.as_secs())),
        quote_word(&folder.display().to_string())
    ))
}

pub(crate) fn not_run(error: &RunError, folder: &Path) -> Failure {
    match error {
        RunError::Policies {
            policies: _,
            catalog,
            source,
        } => match Policies::read(folder).map(|policies| policies.failure(source)) {
            Ok(Failure::Configuration(told)) => {
                let note = note_snapshot(folder, catalog).unwrap_or_default();
                Failure::Configuration(told + &note)
            }
            Ok(failure) | Err(failure) => failure,
        },
        RunError::Database { catalog, why } => {
            let path = palisade_corpus::catalog_file(folder, catalog);
            Failure::Usage(format!("{}: {why}", path.display()))
        }
        RunError::Ddl { catalog, source } => Failure::Usage(format!(
            "{}: {source}",
            folder
                .join("tests")
                .join(format!("{catalog}.sql"))
                .display()
        )),
        RunError::Lock(_) | RunError::Stopped => Failure::Usage(error.to_string()),
        RunError::Folder(_) | RunError::Missing { .. } => Failure::Internal(error.to_string()),
    }
}
