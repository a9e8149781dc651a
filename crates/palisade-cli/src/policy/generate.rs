//! `palisade policy test --generate`: tests made of the policies, in a folder of their own for review.

use std::{fmt::Write as _, path::Path};

use palisade::policy::PolicySources;
use palisade_corpus::{GenerateError, Generated, PolicyTests, TextForm};

use crate::{
    args::policy::{TestArguments, TestFormat},
    exit::{Exit, Failure},
    human,
    policy::{
        diff::choose_catalog,
        test::{not_loaded, not_run},
    },
    progress::ProgressLine,
    stdout,
};

/// Writes the folder `new`, and runs what is in it.
pub(crate) fn run(arguments: &TestArguments, new: &Path) -> Result<Exit, Failure> {
    let tests = PolicyTests::load(&arguments.dir).map_err(not_loaded)?;
    if tests.corpus().catalogs.is_empty() {
        return Err(Failure::Usage(format!(
            "there are no tables in `{}`\n  help: write `CREATE` statements into `NAME.sql` there",
            arguments.dir.join("tests").display()
        )));
    }
    require_new(new)?;
    let catalog = choose_catalog(arguments.catalog.as_ref(), &arguments.dir, &tests)?;
    let line = ProgressLine::begin("making rows and cases");
    let generated = tests.generate(&catalog).map_err(|error| match error {
        GenerateError::Run(error) => not_run(&error, &arguments.dir),
        GenerateError::Tables(why) => Failure::Usage(why),
    })?;
    let policies = tests.corpus().policies.values().next();
    write(new, policies, &generated)?;
    let written = PolicyTests::load(new).map_err(not_loaded)?;
    let written = line.follow(written);
    let report = written.run().map_err(|error| not_run(&error, new))?;
    drop(line);
    stdout::text(&match arguments.format {
        TestFormat::Text => {
            describe(new, &generated)
                + &report.text(&TextForm {
                    verbose: false,
                    folder: new.to_owned(),
                })
        }
        TestFormat::Json => {
            let told = serde_json::json!({
                "folder": new.display().to_string(),
                "unverified": generated.unverified,
                "rejected_rows": generated.rejected,
                "tests": report.json(),
            });
            format!("{told}\n")
        }
        TestFormat::Junit => report.junit().map_err(Failure::Internal)?,
        TestFormat::Tap => report.tap(),
        // Annotations are of files that stand in a change for review; these are new.
        TestFormat::Github | TestFormat::Sarif => {
            return Err(Failure::Usage(
                "what is generated has no annotations\n  help: write `--format text`, `json`, `junit` or `tap`"
                    .to_owned(),
            ));
        }
    })?;
    Ok(match report.is_passed() {
        true => Exit::Permitted,
        false => Exit::Refused,
    })
}

/// Refuses a folder that holds anything: nothing is overwritten.
fn require_new(new: &Path) -> Result<(), Failure> {
    let fault = |why: String| Failure::Usage(format!("cannot write to `{}`: {why}", new.display()));
    match std::fs::read_dir(new) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(fault(
                "it is not empty\n  help: name a new folder, and take over from it what you have reviewed"
                    .to_owned(),
            )),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(fault(error.to_string())),
    }
}

fn write(
    new: &Path,
    policies: Option<&PolicySources>,
    generated: &Generated,
) -> Result<(), Failure> {
    let fault = |path: &Path, error: std::io::Error| {
        Failure::Usage(format!("cannot write `{}`: {error}", path.display()))
    };
    let tests = new.join("tests");
    std::fs::create_dir_all(&tests).map_err(|error| fault(&tests, error))?;
    let mut files: Vec<(&str, &str)> = Vec::new();
    if let Some(sources) = policies {
        let policies = sources.policies.iter();
        files.extend(policies.map(|file| (file.name.as_str(), file.text.as_str())));
        for (name, text) in [
            ("principals.cedarschema", &sources.principals_schema),
            ("entities.json", &sources.entities),
            ("classification.toml", &sources.classification),
            ("schemas.toml", &sources.schemas),
            ("templates.toml", &sources.templates),
        ] {
            files.extend(text.as_deref().map(|text| (name, text)));
        }
    }
    let tables = format!("tests/{}.sql", generated.catalog);
    files.push((&tables, &generated.tables));
    files.extend(
        generated
            .servers
            .as_deref()
            .map(|text| ("tests/servers.toml", text)),
    );
    files.push(("tests/generated.toml", &generated.cases));
    for (name, text) in files {
        let path = new.join(name);
        std::fs::write(&path, text).map_err(|error| fault(&path, error))?;
    }
    Ok(())
}

fn describe(new: &Path, generated: &Generated) -> String {
    let mut out = format!(
        "`{0}/tests/{1}.sql` and `{0}/tests/generated.toml` were written, for review\n",
        new.display(),
        generated.catalog
    );
    for cell in &generated.unverified {
        let _ = writeln!(out, "unverified: {}", human::printable(cell));
    }
    if generated.rejected > 0 {
        let count = generated.rejected;
        let _ = writeln!(
            out,
            "{count} rows were left out: the tables do not take them"
        );
    }
    out
}
