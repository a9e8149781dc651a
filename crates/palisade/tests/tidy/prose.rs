//! Plain sentences: in Markdown files and in doc comments of every crate.

use std::{fs, path::Path, sync::LazyLock};

use regex::Regex;

use crate::{core, imports::texts};

/// Words of the longest sentence. Aim at 25.
const LIMIT: usize = 40;

fn regex(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

static DOC: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*//[/!] ?(.*)$"));
static FENCE: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*(```|~~~)"));
static NO_PROSE: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*(#|\||<|\s{4}\S)"));
static ITEM: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*(?:[*+-]|\d+\.)\s+(.*)$"));
static LINK: LazyLock<Regex> = LazyLock::new(|| regex(r"\[([^\]]*)\]\([^)]*\)"));
static SPAN: LazyLock<Regex> = LazyLock::new(|| regex(r"`[^`]*`"));
static BOUNDARY: LazyLock<Regex> = LazyLock::new(|| regex(r#"[.!?](\s+)[A-Z`"'(*]"#));

/// Words of the house. The field says: precheck, no principal, hidden, conflicting rows, source subquery.
static HOUSE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(proviso\w*|nobody|ke(?:pt|eps?) apart|in (?:the|its|their|nobody's) way|source forms?)\b",
    )
});

/// A paragraph with the line on which it begins.
struct Paragraph {
    line: usize,
    text: String,
}

/// The prose of a file: code blocks, tables, quotations of HTML and headings are left out.
fn paragraphs(path: &str, text: &str) -> Vec<Paragraph> {
    let is_rust = path.ends_with(".rs");
    let (mut out, mut code, mut open): (Vec<Paragraph>, bool, bool) = (Vec::new(), false, false);
    for (number, raw) in (1..).zip(text.lines()) {
        let mut line = match (is_rust, DOC.captures(raw)) {
            (true, Some(found)) => found[1].to_owned(),
            (true, None) => String::new(),
            (false, _) => raw.to_owned(),
        };
        if FENCE.is_match(&line) {
            code = !code;
            line = String::new();
        }
        let stops = code || line.trim().is_empty() || NO_PROSE.is_match(&line);
        let begins = ITEM.captures(&line).map(|found| found[1].to_owned());
        if stops {
            open = false;
            continue;
        }
        let is_item = begins.is_some();
        let words = begins.unwrap_or_else(|| line.trim().to_owned());
        match out.last_mut().filter(|_| open && !is_item) {
            Some(paragraph) => {
                paragraph.text.push(' ');
                paragraph.text.push_str(&words);
            }
            None => out.push(Paragraph {
                line: number,
                text: words,
            }),
        }
        open = true;
    }
    out
}

/// The sentences of a paragraph; a code span, like a link with its target, is one word.
fn sentences(text: &str) -> Vec<String> {
    let text = LINK.replace_all(text, "$1");
    let text = SPAN.replace_all(&text, "code");
    let (mut out, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(found) = BOUNDARY.captures_at(&text, at) {
        let gap = found.get(1).unwrap();
        out.push(text[start..gap.start()].to_owned());
        (start, at) = (gap.end(), gap.end());
    }
    out.push(text[start..].to_owned());
    out.retain(|sentence| !sentence.trim().is_empty());
    out
}

fn prose() -> Vec<(String, String)> {
    let root = core().join("../../..");
    let mut files = texts(&["crates", "benches", "fuzz", "second-opinion"]);
    collect(&root, &root, "md", &mut files);
    files
}

/// The files below `folder` whose names end in `ending`.
fn collect(root: &Path, folder: &Path, ending: &str, out: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(root, &path, ending, out);
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            out.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn sentences_are_short_and_plain() {
    let house = Regex::new(
        r"(?i)\b(be they|of which (?:policy|the)|what it (?:would|may|can|has)|one that)\b",
    )
    .unwrap();
    let word = Regex::new(r"[\w'’-]+").unwrap();
    let mut wrong = Vec::new();
    for (path, text) in prose() {
        for Paragraph { line, text } in paragraphs(&path, &text) {
            for sentence in sentences(&text) {
                let words = word.find_iter(&sentence).count();
                let begin: String = sentence.chars().take(90).collect();
                if words > LIMIT {
                    wrong.push(format!("{path}:{line}: {words} words: {begin}"));
                }
                if let Some(found) = HOUSE.find(&sentence).or_else(|| house.find(&sentence)) {
                    wrong.push(format!("{path}:{line}: `{}`: {begin}", found.as_str()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them: {wrong:#?}", wrong.len());
}

/// The files of the corpus and of policies, with the texts of cases.
pub(crate) fn cases() -> Vec<(String, String)> {
    let root = core().join("../../..");
    let mut files = Vec::new();
    for folder in ["corpus", "policies"] {
        collect(&root, &root.join(folder), "toml", &mut files);
    }
    assert!(files.len() > 20, "{}", files.len());
    files
}

/// Words of the house where the field has words of its own: in every comment, in the texts of cases, and in names.
#[test]
fn house_words_stay_away() {
    let comment = regex(r"(?:^|\s)//[/!]?\s(.*)$");
    let why = regex(r#"^(?:why|description) = "(.*)"$"#);
    let name = regex(r"\b\w*(?:proviso|ke(?:pt|eps?)_apart|in_the_way)\w*\b");
    // In the core what a column will hold is `stored`, and rows that have the same key are `conflicts`.
    let noun = regex(r"\blet (?:mut )?(?:held|met)\b|\b(?:held|met): |\b(?:held|met)\) in\b");
    let mut wrong = Vec::new();
    for (path, text) in texts(&["crates", "benches", "fuzz", "second-opinion", "examples"]) {
        if path.contains("/tests/tidy/") {
            continue;
        }
        let is_core = path.contains("crates/palisade/src/");
        for (line, text) in (1..).zip(text.lines()) {
            let text = SPAN.replace_all(text, "code");
            let prose = comment.captures(&text);
            let found = prose
                .and_then(|prose| HOUSE.find(prose.get(1)?.as_str()).map(|word| word.as_str()))
                .or_else(|| name.find(&text).map(|word| word.as_str()))
                .or_else(|| Some(noun.find(&text).filter(|_| is_core)?.as_str()));
            if let Some(found) = found {
                wrong.push(format!("{path}:{line}: `{found}`"));
            }
        }
    }
    for (path, text) in cases() {
        for (line, text) in (1..).zip(text.lines()) {
            let text = why.captures(text);
            let text = text.and_then(|text| Some(text.get(1)?.as_str()));
            if let Some(found) = text.and_then(|text| HOUSE.find(text)) {
                wrong.push(format!("{path}:{line}: `{}`", found.as_str()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them: {wrong:#?}", wrong.len());
}

#[test]
fn sentences_are_told_apart() {
    let text = "One `a. B` two [three](https://a.b/c). Four five! Six.";
    assert_eq!(
        sentences(text),
        ["One code two three.", "Four five!", "Six."]
    );
    let found = paragraphs(
        "a.md",
        "# No\n\nOne\ntwo.\n* three\n\n```\nno\n```\n| no |\n",
    );
    let found: Vec<_> = found
        .iter()
        .map(|paragraph| (paragraph.line, paragraph.text.as_str()))
        .collect();
    assert_eq!(found, [(3, "One two."), (5, "three")]);
}
