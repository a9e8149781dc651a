//! The lines of a policy folder that changed since a revision, as Git tells.

use std::{collections::BTreeMap, ops::RangeInclusive, path::Path, process::Command};

use crate::exit::Failure;

/// By file of the folder, the lines that are new or changed, from 1; where lines went away, those around.
pub(crate) struct ChangedLines(BTreeMap<String, Vec<RangeInclusive<u32>>>);

impl ChangedLines {
    /// Those of the `*.cedar` files in `folder` since `revision`, files that Git does not know yet included.
    pub(crate) fn find(folder: &Path, revision: &str) -> Result<Self, Failure> {
        let revision = run_git(
            folder,
            &["rev-parse", "--verify", "--end-of-options", revision],
        )?;
        let diff = run_git(
            folder,
            &[
                "diff",
                "--no-ext-diff",
                "--no-color",
                "--unified=0",
                "--relative",
                "--src-prefix=a/",
                "--dst-prefix=b/",
                revision.trim(),
                "--",
                "*.cedar",
            ],
        )?;
        let mut out = Self(read_diff(&diff));
        let new = run_git(
            folder,
            &[
                "ls-files",
                "--others",
                "--exclude-standard",
                "--",
                "*.cedar",
            ],
        )?;
        for file in new.lines() {
            out.0.insert(file.to_owned(), vec![1..=u32::MAX]);
        }
        Ok(out)
    }

    /// Whether any line from `first` to `last` of `file` changed.
    pub(crate) fn touch(&self, file: &str, first: u32, last: u32) -> bool {
        let ranges = self.0.get(file).into_iter().flatten();
        ranges
            .into_iter()
            .any(|range| *range.start() <= last && *range.end() >= first)
    }
}

fn run_git(folder: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .map_err(|error| {
            Failure::Usage(format!(
                "cannot run `git`: {error}\n  help: install Git, or leave `--since` out"
            ))
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Usage(format!(
        "Git does not tell what changed: {}\n  help: name a revision of the folder's repository, for example `--since main`",
        crate::human::printable(told.trim())
    )))
}

/// The new lines of each file of a difference without context.
fn read_diff(diff: &str) -> BTreeMap<String, Vec<RangeInclusive<u32>>> {
    let mut out: BTreeMap<String, Vec<RangeInclusive<u32>>> = BTreeMap::new();
    let mut file = None;
    // A line of a file that looks like a heading is no heading.
    let mut left = 0_u32;
    for line in diff.lines() {
        if left > 0 && line.starts_with(['+', '-']) {
            left -= 1;
        } else if let Some(name) = line.strip_prefix("+++ b/") {
            file = Some(name.to_owned());
        } else if let Some((old, new)) = read_hunk(line)
            && let Some(file) = &file
        {
            left = old.1.saturating_add(new.1);
            let (start, count) = new;
            let range = match count {
                // Lines went away between two.
                0 => start..=start.saturating_add(1),
                count => start..=start.saturating_add(count - 1),
            };
            out.entry(file.clone()).or_default().push(range);
        }
    }
    out
}

/// The first lines and numbers of lines of `@@ -a,b +c,d @@`.
fn read_hunk(line: &str) -> Option<((u32, u32), (u32, u32))> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let read = |text: &str| {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    Some((read(old)?, read(new)?))
}

#[cfg(test)]
mod tests {
    use super::read_diff;

    #[test]
    fn new_lines_are_read_and_lines_of_files_are_no_headings() {
        let diff = "diff --git a/x.cedar b/x.cedar\n--- a/x.cedar\n+++ b/x.cedar\n@@ -1 +1,2 @@\n-a\n+++ b/y.cedar\n+@@ -1 +9 @@\n@@ -7,2 +8,0 @@ z\n-b\n-c\n";
        let found = read_diff(diff);
        assert_eq!(found.len(), 1);
        assert_eq!(found.get("x.cedar"), Some(&vec![1..=2, 8..=9]));
    }
}
