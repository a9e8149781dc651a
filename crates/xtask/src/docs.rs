//! The manual: builds the book, and checks every link and anchor of the Markdown files.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use crate::run::{Result, cargo, exists, root, run};

/// The version of the program that builds the book. A later one may make other pages.
const MDBOOK: &str = "0.5.4";

const HELP: &str = "\
Usage: cargo xtask docs [--write]

Checks the links of every Markdown file, and builds the book of `docs` into `target/book`. mdBook is
installed under `target/tools` where it is missing.

  --write  first writes anew what tests hold to the binary: outputs of commands, and generated sections";

/// Checks links and builds the book.
pub(crate) fn build(args: &[String]) -> Result {
    match args {
        [] => {}
        [word] if word == "--write" => write()?,
        [word] if word == "--help" || word == "-h" => {
            println!("{HELP}");
            return Ok(());
        }
        _ => return Err(HELP.to_owned()),
    }
    check_links()?;
    run(Command::new(mdbook()?).args(["build", "docs"]))
}

/// Runs the tests of the manual so that they write its pages.
fn write() -> Result {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    run(Command::new(cargo)
        .args(["test", "--workspace", "--test", "cli", "--", "manual"])
        .env("PALISADE_WRITE_DOCS", "1"))
}

/// The program, installed under `target/` where it is missing: without its server and its search, which take most of its
/// dependencies.
fn mdbook() -> Result<PathBuf> {
    let tools = root().join("target/tools");
    let own = tools.join("bin/mdbook");
    if own.exists() {
        return Ok(own);
    }
    if exists("mdbook", &["--version"]) {
        return Ok("mdbook".into());
    }
    println!("\nmdbook is missing and is installed under target/tools (some minutes, once)");
    let tools = tools.to_string_lossy().into_owned();
    cargo(&[
        "install",
        "mdbook",
        "--version",
        MDBOOK,
        "--no-default-features",
        "--locked",
        "--debug",
        "--root",
        &tools,
    ])?;
    Ok(own)
}

/// Every relative link of every Markdown file leads to a file, and its anchor to a heading there.
pub(crate) fn check_links() -> Result {
    println!("\n==> links of the Markdown files");
    let mut files = Vec::new();
    for top in ["", "docs"] {
        collect(&root().join(top), top == "docs", &mut files)?;
    }
    let mut wrong = Vec::new();
    let mut count = 0;
    for path in &files {
        let text = read(path)?;
        for (line, target) in links(&text) {
            count += 1;
            if let Some(why) = fault(path, &target)? {
                let shown = path.strip_prefix(root()).unwrap_or(path).display();
                wrong.push(format!("{shown}:{line}: `{target}` {why}"));
            }
        }
    }
    wrong.extend(missing_tests(&read(&root().join("SECURITY.md"))?));
    if wrong.is_empty() {
        println!("    {count} links in {} files", files.len());
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// Tests that the tables of limits name in their last column, and that are not there.
fn missing_tests(text: &str) -> Vec<String> {
    let limits = text.split("\n## Limits\n").nth(1).unwrap_or_default();
    let limits = limits.split("\n## ").next().unwrap_or_default();
    let rows = limits.lines().filter(|line| line.starts_with("| "));
    let last = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let named = last.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let is_there = |path: &&str| {
        root().join("crates").join(path).exists()
            || (path.starts_with("corpus") && root().join(path).exists())
    };
    named
        .filter(|path| !is_there(path))
        .map(|path| format!("SECURITY.md: the test `{path}` is not there"))
        .collect()
}

/// The Markdown files of a folder.
fn collect(folder: &Path, is_deep: bool, out: &mut Vec<PathBuf>) -> Result {
    let fault = |why: std::io::Error| format!("{}: {why}", folder.display());
    for entry in fs::read_dir(folder).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if path.is_dir() && is_deep {
            collect(&path, true, out)?;
        } else if path.extension().is_some_and(|end| end == "md") {
            out.push(path);
        }
    }
    out.sort();
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}

/// The lines of a page outside of fenced blocks, from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((number + 1, line))
    })
}

/// The targets of `[text](target)`, each with its line. Code in a line holds none.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    for (number, line) in prose(text) {
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        for part in plain.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                out.push((number, target.to_owned()));
            }
        }
    }
    out
}

/// Why a link leads nowhere. Links to other sites are not followed.
fn fault(page: &Path, target: &str) -> Result<Option<String>> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(None);
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.parent().unwrap_or(page);
    let path = if file.is_empty() {
        page.to_owned()
    } else {
        normalise(&folder.join(file))
    };
    if !path.exists() {
        return Ok(Some("is not there".to_owned()));
    }
    let docs = root().join("docs");
    if page.starts_with(&docs) && !path.starts_with(&docs) {
        return Ok(Some("leads out of the book".to_owned()));
    }
    if anchor.is_empty() {
        return Ok(None);
    }
    let known = anchors(&read(&path)?);
    Ok((!known.contains(anchor)).then(|| "has no such heading".to_owned()))
}

/// `path` without `..`.
fn normalise(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::Normal(_) => out.push(part),
        }
    }
    out
}

/// What headings are called in links.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stand_outside_of_code() {
        let text = "[a](b.md#c) `[d](e)` [f](g)\n```text\n[h](i)\n```\n[j](k)\n";
        let targets: Vec<String> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(targets, ["b.md#c", "g", "k"]);
    }

    #[test]
    fn headings_have_anchors() {
        let found = anchors("# What `x` is\n```text\n# no\n```\n## A & B\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a--b", "what-x-is"]);
    }

    #[test]
    fn every_link_leads_somewhere() {
        assert_eq!(check_links(), Ok(()));
    }
}
