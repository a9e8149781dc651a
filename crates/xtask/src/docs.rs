//! The manual: builds the book, and checks links, anchors and the length of sentences in the Markdown files.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use crate::run::{FULL, Result, cargo, exists, root, run};

/// The version of the program that builds the book. A later one may make other pages.
const MDBOOK: &str = "0.5.4";

const HELP: &str = "\
Usage: cargo xtask docs [--write]

Checks links and sentences of every Markdown file, and builds the book of `docs` into `target/book`. mdBook is
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
    check_pages()?;
    run(Command::new(mdbook()?).args(["build", "docs"]))
}

/// Runs the tests of the manual so that they write its pages.
fn write() -> Result {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    run(Command::new(cargo)
        .args(["test", "--workspace", "--test", "cli"])
        .args(FULL)
        .args(["--", "manual"])
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

/// Every relative link of every Markdown file leads to a file, and its anchor to a heading there. No sentence is too long.
pub(crate) fn check_pages() -> Result {
    println!("\n==> links and sentences of the Markdown files");
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
    for path in &files {
        let shown = path.strip_prefix(root()).unwrap_or(path).display();
        let long = long_sentences(&read(path)?);
        wrong.extend(long.iter().map(|(line, words, start)| {
            format!("{shown}:{line}: a sentence of {words} words: {start}")
        }));
    }
    wrong.extend(missing_tests(&read(&root().join("SECURITY.md"))?));
    if wrong.is_empty() {
        println!("    {count} links in {} files", files.len());
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// Words of the longest sentence.
const MAX_WORDS: usize = 40;

/// Sentences that are too long: the line where their paragraph begins, their words, and how they start. Tables and headings have none.
fn long_sentences(text: &str) -> Vec<(usize, usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    let mut last = 0;
    for (number, line) in prose(text) {
        let line = line.trim();
        let is_item = ["* ", "- ", "+ "].iter().any(|mark| line.starts_with(mark))
            || line
                .split_once(". ")
                .is_some_and(|(digits, _)| digits.parse::<u32>().is_ok());
        let is_none = line.is_empty() || line.starts_with(['#', '|', '<']);
        if is_none {
            is_open = false;
            continue;
        }
        match paragraphs.last_mut() {
            Some((_, paragraph)) if is_open && !is_item && number == last + 1 => {
                paragraph.push(' ');
                paragraph.push_str(line);
            }
            Some(_) | None => paragraphs.push((number, line.to_owned())),
        }
        is_open = true;
        last = number;
    }
    let mut long = Vec::new();
    for (number, paragraph) in paragraphs {
        // Code counts as one word, as do the targets of links.
        let plain: Vec<&str> = paragraph.split('`').collect();
        let plain: Vec<&str> = plain
            .iter()
            .enumerate()
            .map(|(at, part)| if at % 2 == 0 { *part } else { "Code" })
            .collect();
        let plain = plain.concat().replace("](", " ](");
        for sentence in sentences(&plain) {
            let words = sentence
                .split_whitespace()
                .filter(|word| !word.starts_with("](") && word.contains(char::is_alphanumeric))
                .count();
            if words > MAX_WORDS {
                long.push((number, words, sentence.chars().take(80).collect()));
            }
        }
    }
    long
}

/// The sentences of a paragraph: one begins with a capital letter behind a full stop.
fn sentences(paragraph: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut words = paragraph.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if let Some(sentence) = out.last_mut() {
            sentence.push_str(word);
            sentence.push(' ');
        }
        let ends = word
            .trim_end_matches(['*', ')', '"'])
            .ends_with(['.', '!', '?']);
        let begins = words
            .peek()
            .and_then(|next| next.trim_start_matches(['*', '(', '"', '[']).chars().next())
            .is_some_and(char::is_uppercase);
        if ends && begins {
            out.push(String::new());
        }
    }
    out
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
    fn long_sentences_are_found() {
        let long = "word ".repeat(41);
        let text = format!(
            "# Title\n\nShort. {long}\nends. Short.\n\n* item {}\n| {long} |\n",
            "a ".repeat(30)
        );
        let found = long_sentences(&text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].0, found[0].1), (3, 43));
    }

    #[test]
    fn the_pages_are_as_they_should_be() {
        assert_eq!(check_pages(), Ok(()));
    }
}
