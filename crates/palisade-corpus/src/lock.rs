//! `access.lock`: what every principal may do, written down for review.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use palisade::firewall::{AccessClass, Firewall};

use crate::{
    folder::PolicyTests,
    load::OWN_POLICIES,
    run::{RunError, Runner},
};

/// The file's name, in the policy folder.
const LOCK_FILE: &str = "access.lock";

/// Lines of a difference that a report shows.
const MAX_LINES: usize = 24;

/// Lines above it that name the file.
const HEAD_LINES: usize = 2;

const HEAD: &str = "\
# What every principal sees and may change, over the tables in `tests`.
# `palisade policy lock` writes this file, and `palisade policy test` holds the policies to it.
# Each line is true for every statement. What no line names is never permitted.
";

/// An `access.lock` as it is and as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Where it is.
    pub path: PathBuf,
    /// Its text; none if there is no such file.
    pub old: Option<String>,
    /// What the policies give.
    pub new: String,
}

impl Lock {
    /// What changes, as `diff -u` prints it; empty if nothing does.
    #[must_use]
    pub fn diff(&self) -> String {
        let name = self.path.display().to_string();
        let old = self.old.as_deref().unwrap_or_default();
        similar::TextDiff::from_lines(old, &self.new)
            .unified_diff()
            .context_radius(0)
            .header(&name, &name)
            .to_string()
    }

    /// What changes, its first lines and how many more there are.
    #[must_use]
    pub fn short_diff(&self) -> String {
        let diff = self.diff();
        let shown = HEAD_LINES + MAX_LINES;
        let mut out: String = diff.split_inclusive('\n').take(shown).collect();
        match diff.lines().count().saturating_sub(shown) {
            0 => {}
            more => {
                let _ = writeln!(out, "… {more} more lines");
            }
        }
        out
    }

    /// The lines that it loses and gets, after `-` and `+`.
    #[must_use]
    pub fn list_changed_lines(&self) -> Vec<String> {
        let diff = self.diff();
        let lines = diff.lines().skip(2);
        lines
            .filter(|line| line.starts_with(['-', '+']))
            .map(str::to_owned)
            .collect()
    }

    /// Whether the file is what the policies give.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.old.as_deref() == Some(self.new.as_str())
    }
}

impl PolicyTests {
    /// The folder's `access.lock`, and what it should be.
    ///
    /// # Errors
    /// If policies or catalogs do not load, or the file cannot be read.
    pub fn lock(&self) -> Result<Lock, RunError> {
        let runner = Runner::over_catalogs(self.corpus(), OWN_POLICIES)?;
        self.lock_by(&runner)
    }

    pub(crate) fn lock_by(&self, runner: &Runner) -> Result<Lock, RunError> {
        let path = self.folder().join(LOCK_FILE);
        let old = read(&path).map_err(RunError::Lock)?;
        let mut new = HEAD.to_owned();
        for catalog in self.corpus().catalogs.keys() {
            let firewall = runner.firewall_over(catalog, OWN_POLICIES)?;
            let classes = classes(&firewall).map_err(|source| RunError::Policies {
                policies: OWN_POLICIES.to_owned(),
                catalog: catalog.clone(),
                source,
            })?;
            let _ = writeln!(new, "\ncatalog {catalog}");
            write(&classes, &mut new);
        }
        Ok(Lock { path, old, new })
    }

    /// What is wrong with the folder's `access.lock`; nothing if there is none.
    pub(crate) fn find_stale_lock(&self) -> Result<Option<String>, RunError> {
        let path = self.folder().join(LOCK_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let lock = self.lock()?;
        if lock.is_current() {
            return Ok(None);
        }
        let diff = lock.short_diff();
        let shown = diff.lines().skip(2).map(|line| format!("  {line}"));
        Ok(Some(format!(
            "{}: it is not what the policies give\n{}\n  help: `palisade policy lock {} --update` writes it anew",
            lock.path.display(),
            shown.collect::<Vec<_>>().join("\n"),
            self.folder().display()
        )))
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn classes(firewall: &Arc<Firewall>) -> Result<Vec<AccessClass>, palisade::error::Error> {
    firewall.access_classes(&firewall.known_principals())
}

/// The members of each class, then a line for each cell.
fn write(classes: &[AccessClass], out: &mut String) {
    let name = |class: &AccessClass| class.members.first().cloned().unwrap_or_default();
    for class in classes {
        let _ = writeln!(out, "class {}: {}", name(class), class.members.join(", "));
    }
    for class in classes {
        let name = name(class);
        if class.cells.is_empty() {
            let _ = writeln!(out, "{name}: nothing");
        }
        for cell in &class.cells {
            let _ = writeln!(
                out,
                "{name}: {} {}: {}",
                cell.resource(),
                cell.action,
                cell.value
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn long_differences_are_cut() {
        let text = |count: usize| -> String { (0..count).map(|n| format!("{n}\n")).collect() };
        let lock = |count| Lock {
            path: "access.lock".into(),
            old: Some(String::new()),
            new: text(count),
        };
        assert!(lock(20).short_diff().ends_with("+19\n"));
        let cut = lock(400).short_diff();
        assert!(cut.ends_with("+22\n… 377 more lines\n"), "{cut}");
    }
}
