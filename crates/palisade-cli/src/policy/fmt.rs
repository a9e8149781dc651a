//! `palisade policy fmt`: the policies of a folder, laid out by Cedar's formatter.

use std::fmt::Write as _;

use palisade::policy::{PolicyFile, PolicyProblem, format_policies};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::{
    args::{Format, policy::FmtArguments},
    exit::{Exit, Failure},
    policies::Policies,
    policy::test::replace,
    stdout,
};

/// A file as it is and as it would be.
struct Layout<'f> {
    /// Its path, as the reader can open it.
    path: String,
    file: &'f PolicyFile,
    new: String,
}

/// Runs the command. A file that does not parse keeps its bytes, and the others are laid out all the same.
pub(crate) fn run(arguments: &FmtArguments) -> Result<Exit, Failure> {
    let policies = Policies::read(&arguments.dir)?;
    let (mut layouts, mut problems) = (Vec::new(), Vec::new());
    for file in &policies.sources.policies {
        match format_policies(file) {
            Ok(new) => layouts.push(Layout {
                path: arguments.dir.join(&file.name).display().to_string(),
                file,
                new,
            }),
            Err(errors) => problems.extend_from_slice(errors.problems()),
        }
    }
    if !arguments.check {
        for layout in layouts.iter().filter(|layout| layout.differs()) {
            replace(layout.path.as_ref(), &layout.new)?;
        }
    }
    stdout::text(&match arguments.format {
        Format::Text => describe(&layouts, arguments.check),
        Format::Json => format!("{}\n", tell(&policies, &layouts, &problems)),
    })?;
    if !problems.is_empty() {
        let texts = problems.iter().map(|p| policies.render("error", p));
        let texts = texts.collect::<Vec<_>>().join("\n");
        return match arguments.format {
            Format::Text => Err(Failure::Configuration(texts.trim_end().to_owned())),
            Format::Json => Ok(Exit::Configuration),
        };
    }
    let differs = layouts.iter().any(Layout::differs);
    Ok(match arguments.check && differs {
        true => Exit::Refused,
        false => Exit::Permitted,
    })
}

impl Layout<'_> {
    fn differs(&self) -> bool {
        self.file.text != self.new
    }

    fn diff(&self) -> String {
        TextDiff::from_lines(&self.file.text, &self.new)
            .unified_diff()
            .context_radius(2)
            .header(&self.path, &self.path)
            .to_string()
    }
}

/// For people: the differences, or the files that were written.
fn describe(layouts: &[Layout<'_>], is_check: bool) -> String {
    let mut out = String::new();
    let mut count = 0;
    for layout in layouts.iter().filter(|layout| layout.differs()) {
        count += 1;
        if is_check {
            out.push_str(&layout.diff());
        } else {
            let _ = writeln!(out, "formatted {}", layout.path);
        }
    }
    let files = |count: usize| match count {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    let _ = match (count, is_check) {
        (0, _) => writeln!(out, "{}, nothing to format", files(layouts.len())),
        (count, true) => writeln!(
            out,
            "{} would be formatted; without `--check` they are",
            files(count)
        ),
        (_, false) => Ok(()),
    };
    out
}

/// One JSON object: each file with its difference, and what is wrong.
fn tell(policies: &Policies, layouts: &[Layout<'_>], problems: &[PolicyProblem]) -> Value {
    let files = layouts.iter().map(|layout| {
        json!({
            "file": layout.path,
            "formatted": !layout.differs(),
            "diff": layout.differs().then(|| layout.diff()),
        })
    });
    let problems = problems.iter().map(|problem| {
        json!({
            "file": policies.shown_file(problem),
            "line": problem.line,
            "column": problem.column,
            "message": problem.message,
            "help": problem.help,
        })
    });
    json!({
        "files": files.collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    })
}
