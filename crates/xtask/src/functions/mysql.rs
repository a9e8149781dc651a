//! MariaDB and MySQL list no native functions: a name is one unless calling it is answered with the
//! news that it does not exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use super::table_format::Found;
use crate::run::{Result, exists};

/// Error codes of the servers
/// (<https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html>).
mod code {
    pub(super) const SYNTAX: u16 = 1064;
    pub(super) const WRONG_GROUP_FUNCTION_ARGUMENTS: u16 = 1107;
    pub(super) const NO_FUNCTION: u16 = 1305;
    pub(super) const WRONG_ARGUMENTS_OF_ROUTINE: u16 = 1318;
    pub(super) const WRONG_ARGUMENTS: u16 = 1582;
    pub(super) const NO_FUNCTION_BUT_A_KEYWORD: u16 = 1630;
    /// MySQL's own, for `information_schema` only.
    pub(super) const INTERNAL: u16 = 3566;
}

/// What may stand after SELECT and before a parenthesis and is no function.
const KEYWORDS: &[&str] = &[
    "all",
    "binary",
    "character",
    "distinct",
    "distinctrow",
    "high_priority",
    "not",
    "sql_big_result",
    "sql_buffer_result",
    "sql_cache",
    "sql_calc_found_rows",
    "sql_no_cache",
    "sql_small_result",
    "sql_tsi_day",
    "sql_tsi_hour",
    "sql_tsi_minute",
    "sql_tsi_month",
    "sql_tsi_quarter",
    "sql_tsi_second",
    "sql_tsi_week",
    "sql_tsi_year",
    "straight_join",
    "unique",
];

/// How many arguments are tried; a function that takes the last takes any number.
const COUNTS: [u16; 15] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 21];

/// Every native function that answers to one of `known`, to a word of the server's keyword or help
/// tables, or to a name-like text of `program`.
pub(super) fn functions(
    client: &[String],
    program: Option<&Path>,
    known: Vec<String>,
) -> Result<Vec<Found>> {
    let server = Server::new(client)?;
    let mut names: BTreeSet<String> = known.into_iter().collect();
    for query in [
        "SELECT word FROM information_schema.keywords",
        "SELECT name FROM mysql.help_topic UNION SELECT name FROM mysql.help_keyword",
        "SELECT function FROM information_schema.sql_functions",
    ] {
        names.extend(server.column(query));
    }
    if let Some(program) = program {
        let text = std::fs::read(program)
            .map_err(|error| format!("{} cannot be read: {error}", program.display()))?;
        names.extend(words(&text));
    }
    names.retain(|name| is_name(name) && !KEYWORDS.contains(&name.as_str()));
    println!("{} names are tried", names.len());
    let names: Vec<_> = names.into_iter().collect();

    // Most names are nothing; a few counts of arguments tell. What only stands with OVER is a keyword.
    let mut live = BTreeSet::new();
    let mut keywords = BTreeSet::new();
    for count in [0, 1, 2, 4] {
        for (name, code) in names.iter().zip(server.codes(&names, count, "")?) {
            if exists_with(code) {
                live.insert(name.clone());
            } else if code == code::SYNTAX {
                keywords.insert(name.clone());
            }
        }
    }
    let keywords: Vec<_> = keywords.into_iter().collect();
    for count in [0, 1, 2] {
        let codes = server.codes(&keywords, count, " OVER ()")?;
        let answered = keywords
            .iter()
            .zip(codes)
            .filter(|(_, code)| exists_with(*code));
        live.extend(answered.map(|(name, _)| name.clone()));
    }
    let live: Vec<_> = live.into_iter().collect();
    let mut taken: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for count in COUNTS {
        let plain = server.codes(&live, count, "")?;
        let over = server.codes(&live, count, " OVER ()")?;
        for ((name, plain), over) in live.iter().zip(plain).zip(over) {
            if takes(plain) || takes(over) {
                taken.entry(name).or_default().push(count);
            }
        }
    }
    Ok(live
        .iter()
        .map(|name| found_function(name, taken.get(name.as_str()).map_or(&[], Vec::as_slice)))
        .collect())
}

fn found_function(name: &str, counts: &[u16]) -> Found {
    let any = counts.is_empty() || counts.iter().any(|count| *count >= 20);
    Found {
        schema: "-".to_owned(),
        name: name.to_owned(),
        kind: None,
        min: counts.first().copied().unwrap_or(0),
        max: counts.last().copied().filter(|_| !any),
        out: String::new(),
    }
}

/// Whether an answer to a call shows a function of that name.
fn exists_with(answer: u16) -> bool {
    !matches!(
        answer,
        code::SYNTAX | code::NO_FUNCTION | code::NO_FUNCTION_BUT_A_KEYWORD
    )
}

/// Whether it shows a call with this many arguments.
fn takes(answer: u16) -> bool {
    exists_with(answer)
        && !matches!(
            answer,
            code::WRONG_ARGUMENTS
                | code::WRONG_ARGUMENTS_OF_ROUTINE
                | code::WRONG_GROUP_FUNCTION_ARGUMENTS
                | code::INTERNAL
        )
}

fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The upper-case words of a program, and each end of one: linkers keep a text that ends another only
/// once.
fn words(program: &[u8]) -> BTreeSet<String> {
    let is_word = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let mut words = BTreeSet::new();
    for run in program.split(|byte| !is_word(*byte)) {
        let Ok(run) = std::str::from_utf8(run) else {
            continue;
        };
        for (start, _) in run.char_indices() {
            if let Some(end) = run.get(start..)
                && (2..=45).contains(&end.len())
            {
                words.insert(end.to_ascii_lowercase());
            }
        }
    }
    words
}

/// The command-line client, connected anew for each batch.
struct Server<'a> {
    program: &'static str,
    args: &'a [String],
}

impl<'a> Server<'a> {
    fn new(args: &'a [String]) -> Result<Self> {
        let program = ["mariadb", "mysql"]
            .into_iter()
            .find(|program| exists(program, &["--version"]))
            .ok_or("neither `mariadb` nor `mysql` is installed")?;
        let server = Self { program, args };
        // A server that cannot be reached must not look like one without functions.
        let version = server.run("SELECT version()")?;
        if version.errors.is_empty() && !version.output.is_empty() {
            println!("{} {}", program, version.output.trim());
            Ok(server)
        } else {
            Err(version.errors)
        }
    }

    /// One column, lower case; nothing if the server has no such relation.
    fn column(&self, query: &str) -> Vec<String> {
        self.run(query).map_or_else(
            |_| Vec::new(),
            |answer| answer.output.lines().map(str::to_ascii_lowercase).collect(),
        )
    }

    /// The error code of a call of each of `names` with `count` NULLs, in order; 0 for none.
    fn codes(&self, names: &[String], count: u16, over: &str) -> Result<Vec<u16>> {
        let args = vec!["NULL"; usize::from(count)].join(",");
        let calls: String = names
            .iter()
            .map(|name| format!("SELECT {name}({args}){over};\n"))
            .collect();
        let mut codes = vec![0; names.len()];
        for line in self.run(&calls)?.errors.lines() {
            let Some((line, code)) = error(line) else {
                continue;
            };
            if let Some(at) = line.checked_sub(1).and_then(|line| codes.get_mut(line)) {
                *at = code;
            }
        }
        Ok(codes)
    }

    fn run(&self, statements: &str) -> Result<Answer> {
        let mut child = Command::new(self.program)
            .args(self.args)
            .args(["--force", "--skip-column-names", "--batch", "mysql"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("`{}` cannot be started: {error}", self.program))?;
        let input = child.stdin.take();
        let statements = statements.to_owned();
        let writer = std::thread::spawn(move || {
            // A client that ends early says why on its standard error.
            input.map(|mut input| input.write_all(statements.as_bytes()))
        });
        let output = child
            .wait_with_output()
            .map_err(|error| format!("`{}` failed: {error}", self.program))?;
        let _ = writer.join();
        Ok(Answer {
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

struct Answer {
    output: String,
    errors: String,
}

/// Line and code of `ERROR 1305 (42000) at line 7: …`.
fn error(line: &str) -> Option<(usize, u16)> {
    let (code, rest) = line.strip_prefix("ERROR ")?.split_once(' ')?;
    let (line, _) = rest.split_once(" at line ")?.1.split_once(':')?;
    Some((line.parse().ok()?, code.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let line = "ERROR 1305 (42000) at line 7: FUNCTION mysql.X does not exist";
        assert_eq!(error(line), Some((7, 1305)));
        assert_eq!(error("ERROR 2002 (HY000): Can't connect to server"), None);
        assert!(exists_with(0) && takes(0) && exists_with(1582) && !takes(1582));
        assert!(!exists_with(1305) && !exists_with(1064));
    }

    #[test]
    fn a_name_that_ends_another_is_found() {
        let words = words(b"\0STRING_TO_VECTOR\0x\0ABS\0");
        assert!(words.contains("string_to_vector") && words.contains("to_vector"));
        assert!(words.contains("abs") && !words.contains("x"));
    }

    #[test]
    fn counts_become_a_range() {
        let range = |counts: &[u16]| {
            (
                found_function("f", counts).min,
                found_function("f", counts).max,
            )
        };
        assert_eq!(range(&[1, 2]), (1, Some(2)));
        assert_eq!(range(&[3, 5, 7, 21]), (3, None));
        assert_eq!(range(&[]), (0, None));
    }
}
