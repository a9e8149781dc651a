//! `palisade man`: a page of the manual for each command, as `man` reads it.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;

use crate::{
    args::Arguments,
    exit::{Exit, Failure},
    stdout,
};

pub(crate) const MAN_HELP: &str = "\
One page a command: palisade.1, palisade-query.1, palisade-policy-check.1, …
Pages of that name that are there are replaced.

Examples:
  palisade man > palisade.1
  palisade man share/man/man1

Then: man -M share/man palisade-query";

/// `palisade man`
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The folder that gets them all, made where it is missing. Without it, the
    /// page of `palisade` itself is printed
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// Prints the first page, or writes all of them.
pub(crate) fn run(arguments: &ManArguments) -> Result<Exit, Failure> {
    // `palisade help` is no command that has a page.
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = &arguments.folder else {
        stdout::text(&render_page(&command)?)?;
        return Ok(Exit::Permitted);
    };
    let refused = |path: &Path, error: &std::io::Error| {
        Failure::Usage(format!(
            "`{}` cannot be written: {error}\n  help: name a folder that you may write to",
            path.display()
        ))
    };
    fs::create_dir_all(folder).map_err(|error| refused(folder, &error))?;
    let mut count = 0_usize;
    let mut waiting = vec![command];
    while let Some(command) = waiting.pop() {
        let path = folder.join(format!("{}.1", page_name(&command)));
        fs::write(&path, render_page(&command)?).map_err(|error| refused(&path, &error))?;
        count = count.saturating_add(1);
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        waiting.extend(shown.cloned());
    }
    stdout::text(&format!("wrote {count} pages to {}\n", folder.display()))?;
    Ok(Exit::Permitted)
}

/// What a command's page is called, without its section.
fn page_name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// The page of one command.
fn render_page(command: &Command) -> Result<String, Failure> {
    let text = command.get_after_help().map(ToString::to_string);
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    // What follows the options is laid out in lines, which its own sections would join.
    man.render_title(&mut page)
        .and_then(|()| man.render_name_section(&mut page))
        .and_then(|()| man.render_synopsis_section(&mut page))
        .and_then(|()| man.render_description_section(&mut page))
        .and_then(|()| match command.get_arguments().next() {
            Some(_) => man.render_options_section(&mut page),
            None => Ok(()),
        })
        .and_then(|()| match command.get_subcommands().next() {
            Some(_) => man.render_subcommands_section(&mut page),
            None => Ok(()),
        })
        .and_then(|()| page.write_all(render_end(&text.unwrap_or_default()).as_bytes()))
        .map_err(|error| Failure::Internal(format!("the page cannot be made: {error}")))?;
    String::from_utf8(page)
        .map_err(|error| Failure::Internal(format!("the page is no text: {error}")))
}

/// Sections of what follows the options: examples, and what stands before them.
fn render_end(text: &str) -> String {
    let start = text
        .split_inclusive('\n')
        .take_while(|line| !line.starts_with("Example"))
        .map(str::len)
        .sum();
    let (notes, examples) = text.split_at(start);
    let mut out = String::new();
    for (heading, lines) in [("NOTES", notes), ("EXAMPLES", examples)] {
        if lines.trim().is_empty() {
            continue;
        }
        out += &format!(".SH {heading}\n.nf\n");
        for line in lines.trim_end().lines() {
            out += &escape(line);
            out.push('\n');
        }
        out += ".fi\n";
    }
    out
}

/// A line as `roff` prints it to the letter: quotes and signs that it would make typographic ones of can be pasted.
fn escape(line: &str) -> String {
    let mut out = String::new();
    for c in line.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            other => out.push(other),
        }
    }
    match out.starts_with('.') {
        true => format!("\\&{out}"),
        false => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_as_they_are() {
        assert_eq!(
            render_end("Say `it`.\n\nExamples:\n  a \\\n    --b 'c'\n.c\n"),
            ".SH NOTES\n.nf\nSay \\(gait\\(ga.\n.fi\n.SH EXAMPLES\n.nf\nExamples:\n  a \\e\n    \\-\\-b \\(aqc\\(aq\n\\&.c\n.fi\n"
        );
        assert_eq!(render_end(""), "");
    }
}
