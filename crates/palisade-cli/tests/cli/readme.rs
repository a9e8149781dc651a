//! What the README shows runs as it stands there.

use crate::{
    desk::{Answer, Desk},
    shop::Shop,
};

const README: &str = include_str!("../../../../README.md");

/// Where the README's database is.
const HOST: &str = "localhost:5432/sales";

/// The README's blocks in `language` below `## TITLE`.
fn blocks(title: &str, language: &str) -> Vec<&'static str> {
    let (_, section) = README.split_once(&format!("\n## {title}\n")).unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    section
        .split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'))
        .collect()
}

/// Runs a line in a shell that finds the binary and the server's own client.
fn shell(shop: &Shop, line: &str) -> Answer {
    let client = shop.server.client(shop.server.superuser(), &shop.database);
    let mut path = vec![std::path::PathBuf::from(env!("CARGO_BIN_EXE_palisade"))];
    path.push(client.get_program().into());
    let mut path: Vec<_> = path
        .iter()
        .filter_map(|program| Some(program.parent()?.to_owned()))
        .collect();
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut command = shop.desk.command("sh");
    for (name, value) in client.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("SALES_PASSWORD", "x")
        .args(["-c", line]);
    Answer::from_command(&mut command, b"")
}

#[test]
fn the_quick_start_runs() {
    let shop = Shop::new("readme");
    let (host, port) = (shop.server.host(), shop.server.port());
    let here = |text: &str| {
        assert!(text.contains("localhost:5432"), "{text}");
        text.replace(HOST, &format!("{host}:{port}/{}", shop.database))
            .replace("localhost:5432", &format!("{host}:{port}"))
    };
    let scripts = blocks("PostgreSQL", "sh");
    let (first, second) = (scripts[0], scripts[1]);
    let mut answers = Vec::new();
    for line in first.lines() {
        // The doctor finds what a new database grants to everybody.
        let exit = i32::from(line.contains(" doctor "));
        answers.push(shell(&shop, &here(line)).expect_exit(exit));
    }
    assert_eq!(answers.len(), 5);
    assert!(answers[2].out.contains("can-create"), "{}", answers[2].out);
    assert!(!answers[2].out.contains("no-timeout"), "{}", answers[2].out);
    assert!(answers[3].out.contains("Ada Brandt"), "{}", answers[3].out);
    assert!(answers[3].out.contains("****4821"), "{}", answers[3].out);
    assert!(!answers[3].out.contains("900-11"), "{}", answers[3].out);
    assert!(answers[4].err.contains("serving"), "{}", answers[4].err);

    let config = blocks("PostgreSQL", "toml");
    shop.desk.write("palisade.toml", here(config[0]));
    std::fs::rename(shop.desk.path("p"), shop.desk.path("policies")).unwrap();
    let answer = shell(&shop, second.trim()).expect_exit(0);
    assert!(
        answer.err.contains("serving") && answer.err.contains("support-bot"),
        "{}",
        answer.err
    );
    assert!(shop.desk.path("audit.jsonl").exists());
}

#[test]
fn the_quick_start_with_mariadb_runs() {
    let shop = Shop::mariadb("readme");
    let (host, port) = (shop.server.host(), shop.server.port());
    let here = |text: &str| {
        text.replace(
            "localhost:3306/sales",
            &format!("{host}:{port}/{}", shop.database),
        )
        .replace(
            "--host=localhost --port=3306",
            &format!("--host={host} --port={port}"),
        )
    };
    let mut answers = Vec::new();
    for line in blocks("MySQL and MariaDB", "sh")[0].lines() {
        answers.push(shell(&shop, &here(line)).expect_exit(0));
        if line.starts_with("mariadb ") {
            shop.ask(&format!(
                "ALTER USER palisade_reader@'{host}' IDENTIFIED BY 'x' ACCOUNT UNLOCK"
            ));
        }
    }
    assert_eq!(answers.len(), 5);
    assert!(
        answers[2].out.contains("Nothing is weak"),
        "{}",
        answers[2].out
    );
    assert!(answers[3].out.contains("****4821"), "{}", answers[3].out);
    assert!(!answers[3].out.contains("900-11"), "{}", answers[3].out);
    assert!(answers[4].err.contains("serving"), "{}", answers[4].err);
}

#[test]
fn the_command_line_of_the_readme_runs() {
    let desk = Desk::new();
    let mut run = 0;
    for line in blocks("The command line", "sh")[0].lines() {
        if line == "sqlite3 demo.db .schema > schema.sql" {
            desk.write("schema.sql", include_str!("../../src/demo/schema.sql"));
            continue;
        }
        // Whether there are credentials is not told.
        let exit = i32::from(line.contains("credentials"));
        let answer = desk.shell(line, 0, b"").expect_exit(exit);
        assert!(!answer.out.contains("900-11"), "{line}: {}", answer.out);
        run += 1;
    }
    assert_eq!(run, 8);
}

#[test]
fn the_configuration_of_the_readme_is_read_without_a_server() {
    let desk = Desk::empty();
    desk.write("palisade.toml", blocks("PostgreSQL", "toml")[0]);
    // What it names is not there; all of it is understood.
    desk.run(&["serve", "connection:sales", "--config", "palisade.toml"])
        .fails(3, &["policies"]);
}
