//! The manual, README and their examples are held to the binary: every command of a `console` block runs and prints what the page
//! shows, every TOML and Cedar block loads, and every generated section is what its registry gives.
//!
//! `PALISADE_WRITE_DOCS=1` writes the pages anew instead of comparing them.

pub(crate) mod blocks;
mod file_schemas;
mod generated;
mod shell;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::{
    desk::Desk,
    manual::{blocks::Block, shell::Stand},
    shop::Shop,
};

/// Set to have pages written instead of compared.
const WRITE: &str = "PALISADE_WRITE_DOCS";

/// Pages whose commands run beside a database of PostgreSQL.
const POSTGRES: &[&str] = &["README.md", "docs/databases/postgres.md"];

/// Pages whose commands run beside a database of MariaDB.
const MYSQL: &[&str] = &["docs/databases/mysql.md"];

/// Pages that tests of other crates make: what becomes of values, and what is decided.
const MADE_ELSEWHERE: &[&str] = &[
    "docs/reference/coverage.md",
    "docs/reference/masks.md",
    "docs/reference/types.md",
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Markdown file of the manual, and those in the top folder that show commands.
pub(crate) fn pages() -> Vec<String> {
    let mut out = vec!["README.md".to_owned(), "SECURITY.md".to_owned()];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                out.push(path.to_str().unwrap().replace('\\', "/"));
            }
        }
    }
    out.sort();
    out
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// Compares what a page should be with what it is, or writes it where that is asked for.
fn settle(page: &str, is: &str, should: &str) {
    if is == should {
        return;
    }
    if env::var_os(WRITE).is_some() {
        fs::write(root().join(page), should).unwrap();
        return;
    }
    let differing = is.lines().zip(should.lines()).position(|(a, b)| a != b);
    let first = differing.unwrap_or_else(|| is.lines().count().min(should.lines().count()));
    let part = |text: &str| {
        let lines: Vec<&str> = text.lines().skip(first).take(12).collect();
        lines.join("\n")
    };
    panic!(
        "{page}, from line {}:\n{}\n---- should be ----\n{}\n({WRITE}=1 writes the page anew)",
        first + 1,
        part(is),
        part(should)
    );
}

/// Runs the commands of a page, each block in the folder that the blocks before it left.
fn run(page: &str, stand: &Stand) {
    let text = read(page);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the end, so that the places of earlier blocks stay.
    let mut edits = Vec::new();
    let mut failed = Vec::new();
    for block in blocks::read(&text) {
        match block.language() {
            "console" => {
                let replayed = shell::replay(stand, &block, page, &mut failed);
                edits.push((block.lines.clone(), replayed));
            }
            _ => {
                if let Some(name) = block.attribute("file") {
                    stand.write(name, &block.text);
                }
            }
        }
    }
    for (range, new) in edits.into_iter().rev() {
        lines.splice(range, new);
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    settle(page, &text, &format!("{}\n", lines.join("\n")));
}

#[test]
fn the_commands_of_the_manual_print_what_it_shows() {
    for page in pages() {
        if !POSTGRES.contains(&page.as_str()) && !MYSQL.contains(&page.as_str()) {
            run(&page, &Stand::in_empty_folder());
        }
    }
}

#[test]
fn the_commands_for_postgres_print_what_the_manual_shows() {
    for page in POSTGRES {
        run(
            page,
            &Stand::over_database(Shop::new("manual"), "localhost:5432"),
        );
    }
}

#[test]
fn the_commands_for_mariadb_print_what_the_manual_shows() {
    for page in MYSQL {
        run(
            page,
            &Stand::over_database(Shop::mariadb("manual"), "localhost:3306"),
        );
    }
}

/// Blocks of policies, configuration, templates and classification are read as the binary reads them.
#[test]
fn what_the_manual_shows_loads() {
    let desk = Desk::new();
    let mut seen = 0;
    for page in pages() {
        if MADE_ELSEWHERE.contains(&page.as_str()) {
            continue;
        }
        for block in blocks::read(&read(&page)) {
            seen += usize::from(shell::load(&desk, &block, &page));
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Policies of the manual are laid out as `palisade policy fmt` lays them out, unless a page shows a mistake. README has 200
/// lines at most, and keeps its policies on fewer.
#[test]
fn the_policies_of_the_manual_are_formatted() {
    let desk = Desk::empty();
    let mut found = Vec::new();
    for page in pages().into_iter().filter(|page| page != "README.md") {
        for block in blocks::read(&read(&page)) {
            if block.language() == "cedar" && block.attribute("load") != Some("no") {
                let file = format!("p/{}.cedar", found.len());
                desk.write(&file, &block.text);
                found.push((page.clone(), block.lines, file));
            }
        }
    }
    assert!(found.len() > 20, "{}", found.len());
    desk.run(&["policy", "fmt", "p"]).expect_exit(0);
    for of_page in found.chunk_by(|one, other| one.0 == other.0) {
        let (page, _, _) = &of_page[0];
        let text = read(page);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // From the end, so that the places of earlier blocks stay.
        for (_, range, file) in of_page.iter().rev() {
            let formatted = fs::read_to_string(desk.path(file)).unwrap();
            lines.splice(range.clone(), formatted.lines().map(str::to_owned));
        }
        settle(page, &text, &format!("{}\n", lines.join("\n")));
    }
}

/// A block in a language of which nothing is tested would be a claim that nothing holds up.
#[test]
fn every_block_of_the_manual_is_of_a_language_that_is_tested() {
    for page in pages() {
        for block in blocks::read(&read(&page)) {
            let Block { info, .. } = &block;
            let known = ["console", "toml", "cedar", "json", "rust", "text", "yaml"];
            assert!(
                known.contains(&block.language()),
                "{page}:{}: a block of `{info}`",
                block.lines.start
            );
        }
    }
}

/// Sections that stand in the code stand in the manual as they are there.
#[test]
fn the_generated_sections_of_the_manual_are_current() {
    let sections = generated::sections();
    let mut used = Vec::new();
    for page in pages() {
        let text = read(&page);
        let mut current = text.clone();
        for (name, body) in &sections {
            let begin = format!("<!-- generated: {name} -->\n");
            let Some((before, rest)) = current.split_once(&begin) else {
                continue;
            };
            let end = "<!-- /generated -->";
            let (_, after) = rest
                .split_once(end)
                .unwrap_or_else(|| panic!("{page}: `{name}` has no `{end}`"));
            current = format!("{before}{begin}\n{}\n\n{end}{after}", body.trim_end());
            used.push(*name);
        }
        settle(&page, &text, &current);
    }
    for (name, _) in &sections {
        assert!(used.contains(name), "`{name}` is in no page");
    }
}

/// The schemas that `palisade config schema` prints have the keys that are read.
#[test]
fn the_schemas_of_files_are_current() {
    let mut schemas = file_schemas::all();
    schemas.push(("palisade.schema.json", generated::configuration_schema()));
    for (file, schema) in schemas {
        let path = format!("crates/palisade-cli/src/schemas/{file}");
        let text = serde_json::to_string_pretty(&schema).unwrap();
        settle(&path, &read(&path), &format!("{text}\n"));
    }
}

/// The table of contents names every page, once.
#[test]
fn every_page_is_in_the_summary() {
    let summary = read("docs/SUMMARY.md");
    for page in pages() {
        let Some(page) = page.strip_prefix("docs/") else {
            continue;
        };
        let count = summary.matches(&format!("({page})")).count();
        assert_eq!(count, usize::from(page != "SUMMARY.md"), "{page}");
    }
}

/// Every action, and every attribute of a context, has its place in the manual.
#[test]
fn the_manual_names_every_action_and_attribute() {
    let schema = generated::policy_schema();
    let (actions, contexts) = (
        read("docs/policies/actions.md"),
        read("docs/policies/context.md"),
    );
    let mut seen = 0;
    for line in schema.lines().filter(|line| line.starts_with("action ")) {
        let (names, rest) = line.split_once(" appliesTo ").unwrap_or((line, ""));
        for name in names.split('"').skip(1).step_by(2) {
            assert!(actions.contains(&format!("`{name}`")), "action `{name}`");
            seen += 1;
        }
        let context = rest.split("context: ").nth(1).unwrap_or_default();
        let words = context.split(|c: char| !(c.is_ascii_alphabetic() || c == '_'));
        for word in words.filter(|word| word.starts_with(char::is_lowercase) && *word != "datetime")
        {
            assert!(contexts.contains(word), "attribute `{word}`");
        }
    }
    assert!(seen > 15, "{seen}");
}
