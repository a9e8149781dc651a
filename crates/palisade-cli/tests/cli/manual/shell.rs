//! Runs what a page shows. A `console` block is commands behind `$ `, each with its output; a line `...` stands for any lines, and
//! `[..]` for any characters of one. A command ends with exit code 0; the last of a block with that of the attribute `exit-N`.

use std::path::{Path, PathBuf};

use crate::{
    desk::{Answer, Desk},
    manual::blocks::Block,
    shop::Shop,
};

/// Where a page's commands run.
pub(super) struct Stand {
    desk: Desk,
    shop: Option<Shop>,
    /// Texts of the page, and what stands in their places here.
    places: Vec<(String, String)>,
}

/// Programs that tests do not have; their lines are shown and not run.
const NOT_RUN: &[&str] = &["cargo ", "claude ", "npx "];

/// Where the pages suppose the reader's folder.
const HOME: &str = "/home/you/desk";

/// Tables that the PostgreSQL fragments of the manual speak of.
const SALES: &str = "CREATE TABLE customers (id int PRIMARY KEY, tenant_id int NOT NULL, name text NOT NULL, email text);\n";

impl Stand {
    /// An empty folder.
    pub(super) fn in_empty_folder() -> Self {
        let desk = Desk::empty();
        let here = desk.path("").canonicalize().unwrap();
        let places = vec![
            (HOME.to_owned(), text(&here)),
            ("/usr/local/bin".to_owned(), text(&programs())),
        ];
        Self {
            desk,
            shop: None,
            places,
        }
    }

    /// A folder beside a database, which the page calls `sales` and finds at `place`.
    pub(super) fn over_database(shop: Shop, place: &str) -> Self {
        let mut stand = Self::in_empty_folder();
        let (host, port) = (shop.server.host(), shop.server.port());
        let (name, number) = place.split_once(':').unwrap();
        let own = &mut stand.places;
        own.push((
            format!("{place}/sales"),
            format!("{host}:{port}/{}", shop.database),
        ));
        own.push((place.to_owned(), format!("{host}:{port}")));
        own.push((
            format!("--host={name} --port={number}"),
            format!("--host={host} --port={port}"),
        ));
        stand.shop = Some(shop);
        stand
    }

    /// Writes a file of the page.
    pub(super) fn write(&self, name: &str, text: &str) {
        self.desk.write(name, self.as_run_here(text));
    }

    /// A text of the page, as it is meant here.
    fn as_run_here(&self, text: &str) -> String {
        let places = self.places.iter();
        places.fold(text.to_owned(), |text, (page, here)| {
            text.replace(page, here)
        })
    }

    /// What was printed here, as the page has it.
    fn as_in_page(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (page, here) in &self.places {
            text = text.replace(here, page);
        }
        if let Some(shop) = &self.shop {
            text = text.replace(&shop.database, "sales");
        }
        steady(&text)
    }

    fn run(&self, command: &str) -> (i32, String) {
        let mut folders = vec![programs()];
        let mut shell = self.desk.command("sh");
        if let Some(shop) = &self.shop {
            let client = shop.server.client(shop.server.superuser(), &shop.database);
            folders.extend(Path::new(client.get_program()).parent().map(PathBuf::from));
            for (name, value) in client.get_envs() {
                if let Some(value) = value {
                    shell.env(name, value);
                }
            }
        }
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        shell
            .env("PATH", std::env::join_paths(folders).unwrap())
            .env("SALES_PASSWORD", "x")
            .args(["-c", &format!("exec 2>&1\n{}", self.as_run_here(command))]);
        let answer = Answer::from_command(&mut shell, b"");
        self.unlock(command);
        (answer.exit, self.as_in_page(&answer.out))
    }

    /// A new account of MariaDB is locked until somebody gives it a password.
    fn unlock(&self, command: &str) {
        if let (true, Some(shop)) = (command.starts_with("mariadb "), &self.shop) {
            let host = shop.server.host();
            shop.ask(&format!(
                "ALTER USER palisade_reader@'{host}' IDENTIFIED BY 'x' ACCOUNT UNLOCK"
            ));
        }
    }
}

/// The same with times, durations and what a random key makes, always alike.
fn steady(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let is_time = line
            .get(..4)
            .is_some_and(|year| year.parse::<u32>().is_ok())
            && line.get(10..11) == Some("T");
        match line.split_once(' ') {
            Some((_, rest)) if is_time => out.push_str(&format!("{TIME} {rest}")),
            Some(_) | None => out.push_str(line),
        }
    }
    for (key, number) in [
        ("\"duration_us\":", "1200"),
        ("\"time_ms\":", "1789905600000"),
    ] {
        let mut parts = out.split(key).map(str::to_owned);
        let mut joined = parts.next().unwrap_or_default();
        for part in parts {
            let digits = part.trim_start_matches(|c: char| c.is_ascii_digit());
            joined.push_str(&format!("{key}{number}{digits}"));
        }
        out = joined;
    }
    for key in ["\"chain\":\"", "\"key\":\"", "\"before\":\"", "\"mac\":\""] {
        let mut parts = out.split(key).map(str::to_owned);
        let mut joined = parts.next().unwrap_or_default();
        for part in parts {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
            joined.push_str(&format!("{key}…{rest}"));
        }
        out = joined;
    }
    out
}

/// What stands for every point in time.
const TIME: &str = "2026-09-20T12:00:00.000000Z";

fn programs() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_palisade"))
        .parent()
        .unwrap()
        .to_owned()
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().trim_end_matches('/').to_owned()
}

/// The lines of `block`, with outputs as they are now.
pub(super) fn replay(
    stand: &Stand,
    block: &Block,
    page: &str,
    failed: &mut Vec<String>,
) -> Vec<String> {
    let lines: Vec<&str> = block.text.lines().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(first) = lines.get(at) {
        let place = format!("{page}:{}", block.lines.start + at + 1);
        let command = first.strip_prefix("$ ");
        let command = command.unwrap_or_else(|| panic!("{place}: `{first}` is no command"));
        let mut end = at + 1;
        let mut script = command.to_owned();
        while script.ends_with('\\') && end < lines.len() {
            script = format!("{script}\n{}", lines[end]);
            end += 1;
        }
        out.extend(lines[at..end].iter().map(|line| (*line).to_owned()));
        let next = lines[end..].iter().position(|line| line.starts_with("$ "));
        let next = next.map_or(lines.len(), |next| end + next);
        let shown = &lines[end..next];
        at = next;
        if NOT_RUN.iter().any(|program| script.starts_with(program)) {
            out.extend(shown.iter().map(|line| (*line).to_owned()));
            continue;
        }
        let (exit, printed) = stand.run(&script);
        let wanted = if next == lines.len() { block.exit() } else { 0 };
        if exit != wanted {
            failed.push(format!(
                "{place}: exit code {exit} of `{script}`:\n{printed}"
            ));
        }
        let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
        if matches(shown, &printed) {
            out.extend(shown.iter().map(|line| (*line).to_owned()));
        } else {
            out.extend(printed.iter().map(|line| (*line).to_owned()));
        }
    }
    out
}

/// Whether the page's lines stand for these.
fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| stands_for(line, first) && matches(rest, others)),
    }
}

fn stands_for(shown: &str, printed: &str) -> bool {
    match shown.split_once("[..]") {
        None => shown == printed,
        Some((before, after)) => printed.strip_prefix(before).is_some_and(|rest| {
            let places = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            places.into_iter().any(|at| stands_for(after, &rest[at..]))
        }),
    }
}

/// Loads a block as the binary reads such a file, beside the demonstration in `desk`; says whether there was anything to load.
pub(super) fn load(desk: &Desk, block: &Block, page: &str) -> bool {
    // A mistake that the page shows on purpose: a command says what comes of it.
    if block.attribute("load") == Some("no") {
        return false;
    }
    let place = format!("{page}:{}", block.lines.start + 1);
    let _ = std::fs::remove_dir_all(desk.path("p"));
    let sales = block.is("postgres");
    if sales {
        desk.write("sales.sql", SALES);
    }
    let catalog: &[&str] = if sales {
        &["--dialect", "postgres", "--catalog", "sales.sql"]
    } else {
        &["--catalog", "sqlite:demo.db"]
    };
    // What needs the secret of tokens finds one.
    let run = |arguments: &[&str]| {
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        command.args(arguments).env("TOKEN_SECRET", "0".repeat(64));
        Answer::from_command(&mut command, b"")
    };
    let check = |folder: &str| {
        desk.write(
            "secret.toml",
            "token_secret_env = \"TOKEN_SECRET\"\n[grants]\nenv = [\"TOKEN_SECRET\"]\n",
        );
        let options = ["--policies", folder, "--config", "secret.toml"];
        let answer = run(&[&["policy", "check"], catalog, &options].concat());
        assert_eq!(answer.exit, 0, "{place}: {}{}", answer.out, answer.err);
    };
    let bundle = || {
        for name in ["principals.cedarschema", "entities.json"] {
            let text = std::fs::read(desk.path("demo-policies").join(name)).unwrap();
            desk.write(&format!("p/{name}"), text);
        }
        if !sales {
            let text = std::fs::read(desk.path("demo-policies/classification.toml")).unwrap();
            desk.write("p/classification.toml", text);
        }
    };
    match block.language() {
        "cedar" => {
            bundle();
            if block.text.contains("Template::") || block.text.contains("context.template") {
                desk.write("p/templates.toml", TEMPLATE);
            }
            desk.write("p/base.cedar", &block.text);
            check("p");
        }
        "toml" if block.text.contains("[[template]]") => {
            desk.write("p/base.cedar", "permit (principal, action, resource);");
            desk.write("p/templates.toml", &block.text);
            check("p");
        }
        "toml" if block.text.contains("[[column]]") || block.text.contains("[[table]]") => {
            desk.write("p/base.cedar", "permit (principal, action, resource);");
            desk.write("p/classification.toml", &block.text);
            check("p");
        }
        "toml" if block.text.starts_with("[sqlite]") => {
            desk.write("p/base.cedar", "permit (principal, action, resource);");
            desk.write("p/schemas.toml", &block.text);
            check("p");
        }
        "toml" => {
            desk.write("palisade.toml", &block.text);
            let answer = run(&[
                "check",
                "--catalog",
                "sqlite:demo.db",
                "--policies",
                "demo-policies",
                "--config",
                "palisade.toml",
                "SELECT 1",
            ]);
            // Whatever is decided, the configuration has been read.
            assert!(answer.exit < 2, "{place}: {}{}", answer.out, answer.err);
        }
        "json" => {
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(&block.text);
            assert!(parsed.is_ok(), "{place}: {parsed:?}");
        }
        _ => return false,
    }
    true
}

/// The template that the manual's policies name.
const TEMPLATE: &str = r#"[[template]]
name = "tickets-of"
description = "The tickets of one customer."
sql = "SELECT id, subject FROM tickets WHERE customer_id = :customer"
parameters = [{ name = "customer", type = "integer" }]
"#;
