//! The work tree that is changed: never yours.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use super::{
    list::{CODE, Mutant},
    switches::{SWITCH, switch},
};
use crate::run::{Result, root, run};

/// A work tree of what is committed, with switches in it.
pub(super) struct Tree {
    pub(super) path: PathBuf,
    /// What was written the last time, and when: what stays the same is not built again.
    before: BTreeMap<String, (String, SystemTime)>,
    /// By file, where changes stand in its text.
    pub(super) marks: BTreeMap<String, Marks>,
}

/// Where changes stand in a file that was written.
pub(super) struct Marks {
    pub(super) changes: Vec<(u32, Range<usize>)>,
    pub(super) around: Vec<(Vec<u32>, Range<usize>)>,
}

impl Tree {
    /// Of what is committed.
    pub(super) fn prepare() -> Result<Self> {
        let path = root().join("target/mutants/tree");
        let git =
            |args: &[&str], folder: &Path| run(Command::new("git").args(args).current_dir(folder));
        if !path.exists() {
            git(&["worktree", "prune"], &root())?;
            let path = path.to_string_lossy().into_owned();
            git(&["worktree", "add", "--detach", &path], &root())?;
        }
        let mut tree = Self {
            path,
            before: BTreeMap::new(),
            marks: BTreeMap::new(),
        };
        for file in ask_git(&["diff", "--name-only"], &tree.path)?.lines() {
            let full = tree.path.join(file);
            let time = fs::metadata(&full).and_then(|of| of.modified());
            if let (Ok(text), Ok(time)) = (fs::read_to_string(&full), time) {
                tree.before.insert(file.to_owned(), (text, time));
            }
        }
        let head = ask_git(&["rev-parse", "HEAD"], &root())?;
        git(&["reset", "--quiet", "--hard", head.trim()], &tree.path)?;
        tree.rename_version()?;
        Ok(tree)
    }

    /// Another version than yours, so that both can be built in one target folder, with the same dependencies.
    fn rename_version(&mut self) -> Result {
        let manifest = self.read("Cargo.toml")?;
        let (head, rest) = manifest
            .split_once("[workspace.package]\nversion = \"")
            .ok_or("Cargo.toml: no version where it should be")?;
        let (version, rest) = rest.split_once('"').ok_or("Cargo.toml: a broken version")?;
        let manifest = format!("{head}[workspace.package]\nversion = \"{version}+changed\"{rest}");
        self.write("Cargo.toml", &manifest)?;
        let (old, new) = (
            format!("\nversion = \"{version}\"\n"),
            format!("\nversion = \"{version}+changed\"\n"),
        );
        // Only packages of the workspace have no source.
        let lock = self.read("Cargo.lock")?;
        let packages: Vec<String> = lock
            .split("[[package]]")
            .map(|package| match package.contains("\nsource = ") {
                true => package.to_owned(),
                false => package.replace(&old, &new),
            })
            .collect();
        self.write("Cargo.lock", &packages.join("[[package]]"))
    }

    /// Writes the sources with a switch for each of `drawn` but those in `out`; gives what no switch can make, with reasons.
    pub(super) fn write_switches(
        &mut self,
        drawn: &[Mutant],
        out: &BTreeSet<u32>,
    ) -> Result<Vec<(u32, &'static str)>> {
        let mut by_file: BTreeMap<&str, Vec<(u32, &Mutant)>> = BTreeMap::new();
        for (number, mutant) in (0_u32..).zip(drawn) {
            let changes = by_file.entry(&mutant.place.file).or_default();
            if !out.contains(&number) {
                changes.push((number, mutant));
            }
        }
        let mut left_out = Vec::new();
        for (file, changes) in by_file {
            let source = ask_git(&["show", &format!("HEAD:{file}")], &self.path)?;
            let switched = switch(&source, &changes).map_err(|error| format!("{file}: {error}"))?;
            left_out.extend(switched.left_out);
            let mut text = switched.text;
            if file.ends_with("/src/lib.rs") {
                text.push_str(SWITCH);
            }
            self.write(file, &text)?;
            let marks = Marks {
                changes: switched.changes,
                around: switched.around,
            };
            self.marks.insert(file.to_owned(), marks);
        }
        for package in CODE {
            let file = format!("crates/{package}/src/lib.rs");
            if !self.marks.contains_key(&file) {
                let source = ask_git(&["show", &format!("HEAD:{file}")], &self.path)?;
                self.write(&file, &format!("{source}{SWITCH}"))?;
            }
        }
        Ok(left_out)
    }

    fn read(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.path.join(file)).map_err(|error| format!("{file}: {error}"))
    }

    fn write(&self, file: &str, text: &str) -> Result {
        let path = self.path.join(file);
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        fs::write(&path, text).map_err(|error| format!("{file}: {error}"))?;
        if let Some((before, time)) = self.before.get(file)
            && before == text
        {
            let file = fs::File::options().write(true).open(&path);
            // Without its time it is built again, which is all.
            let _ = file.and_then(|file| file.set_modified(*time));
        }
        Ok(())
    }
}

fn ask_git(args: &[&str], folder: &Path) -> Result<String> {
    let output = Command::new("git")
        .args(args)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("`git {}`: {}", args.join(" "), output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}
