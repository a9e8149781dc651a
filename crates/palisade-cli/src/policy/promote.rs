//! `palisade policy promote`: a policy folder on trial decides from then on.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use palisade_corpus::{PolicyTests, TextForm};
use palisade_host::PolicyFolder;
use serde_json::json;

use crate::{
    args::{Format, policy::PromoteArguments},
    exit::{Exit, Failure},
    policy::{
        diff::{describe, describe_limits},
        test::{not_loaded, not_run},
    },
    progress::ProgressLine,
    stdout,
};

/// Runs the command.
pub(crate) fn run(arguments: &PromoteArguments) -> Result<Exit, Failure> {
    let (candidate, enforced) = (&arguments.candidate, &arguments.enforced);
    let new = PolicyTests::load(candidate).map_err(not_loaded)?;
    let old = PolicyTests::load(enforced).map_err(not_loaded)?;
    if new.corpus().cases.is_empty() {
        return Err(Failure::Usage(format!(
            "there are no tests in `{}`\n  help: write cases into `*.toml` and tables into `*.sql` there",
            candidate.join("tests").display()
        )));
    }
    let tested = read(candidate)?;
    let line = ProgressLine::begin("testing");
    let new = line.follow(new);
    let report = new.run().map_err(|error| not_run(&error, candidate))?;
    drop(line);
    if !report.is_passed() {
        stdout::text(&match arguments.format {
            Format::Json => {
                let told = json!({ "promoted": false, "kept": null, "tests": report.json() });
                format!("{told}\n")
            }
            Format::Text => report.text(&TextForm {
                verbose: false,
                folder: candidate.clone(),
            }),
        })?;
        return Ok(Exit::Refused);
    }
    let diff = new
        .compare_with(&old)
        .map_err(|error| not_run(&error, candidate))?;
    match arguments.format {
        Format::Text => stdout::text(&(describe(&diff.changes) + &describe_limits(&diff)))?,
        Format::Json => {}
    }
    let shown = enforced.display();
    let kept = match arguments.yes {
        true => Some(replace(candidate, enforced, &tested)?),
        false => None,
    };
    stdout::text(&match (arguments.format, kept) {
        (Format::Json, kept) => {
            let told = json!({
                "promoted": kept.is_some(),
                "kept": kept.map(|kept| kept.display().to_string()),
                "diff": diff,
            });
            format!("{told}\n")
        }
        (Format::Text, None) => format!(
            "the tests of `{}` hold; `--yes` makes it `{shown}`\n",
            candidate.display()
        ),
        (Format::Text, Some(kept)) => format!(
            "`{shown}` is what `{}` is; what it was is `{}`\n",
            candidate.display(),
            kept.display()
        ),
    })?;
    Ok(Exit::Permitted)
}

fn read(folder: &Path) -> Result<PolicyFolder, Failure> {
    PolicyFolder::read(folder).map_err(|error| Failure::Configuration(format!("error: {error}")))
}

/// Puts a copy of `candidate` in the place of `enforced`, and says what became of that.
fn replace(candidate: &Path, enforced: &Path, tested: &PolicyFolder) -> Result<PathBuf, Failure> {
    let fault = |what: &Path, error: io::Error| {
        Failure::Usage(format!(
            "cannot write `{}`: {error}; nothing was changed",
            what.display()
        ))
    };
    // A link is followed, so that both names stand in one folder.
    let enforced = fs::canonicalize(enforced).map_err(|error| fault(enforced, error))?;
    let beside = |suffix: &str| {
        let mut name = enforced.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let copy = beside(&format!(".new-{}", std::process::id()));
    let copied = copy_folder(candidate, &copy).map_err(|error| fault(&copy, error));
    let copied = copied.and_then(|()| read(&copy));
    let is_tested = copied
        .as_ref()
        .is_ok_and(|copied| copied.sources == tested.sources);
    if !is_tested {
        // What is left of a copy is of no use.
        let _ = fs::remove_dir_all(&copy);
        copied?;
        return Err(Failure::Usage(format!(
            "`{}` was changed meanwhile; nothing was replaced",
            candidate.display()
        )));
    }
    let mut names = std::iter::once(".before".to_owned())
        .chain((2..).map(|number: u32| format!(".before-{number}")))
        .map(|suffix| beside(&suffix));
    let kept = names
        .find(|name| !name.exists())
        .unwrap_or_else(|| beside(".before"));
    exchange(&copy, &enforced).map_err(|error| {
        let _ = fs::remove_dir_all(&copy);
        fault(&enforced, error)
    })?;
    // The new policies decide by now; what was there lies at the copy's place.
    match fs::rename(&copy, &kept) {
        Ok(()) => Ok(kept),
        Err(_) => Ok(copy),
    }
}

/// Gives each of two folders the other's name, in one step: there is a folder at each name at any moment.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Gives each of two folders the other's name. Between two of the steps there is none at the second.
#[cfg(not(target_os = "linux"))]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let mut aside = other.as_os_str().to_owned();
    aside.push(".aside");
    let aside = PathBuf::from(aside);
    fs::rename(other, &aside)?;
    if let Err(error) = fs::rename(one, other) {
        fs::rename(&aside, other)?;
        return Err(error);
    }
    fs::rename(&aside, one)
}

/// Copies files and folders; a link is an error, since what it leads to may change by itself.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        } else {
            let name = entry.path().display().to_string();
            let why = format!("`{name}` is neither a file nor a folder");
            return Err(io::Error::other(why));
        }
    }
    Ok(())
}
