//! What `palisade init` writes for editors, tried with Taplo, which editors ask about TOML.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    clients::fresh_folder,
    run::{FULL, Result, cargo, root, run},
};

/// The language server's own command line.
const TAPLO: &str = "@taplo/cli@0.7.0";

/// A key that no file has.
const MISSPELT: &str = "misspelt_key = 1\n";

/// A file that has templates, whose keys the demonstration does not use.
const TEMPLATES: &str = "[[template]]
name = \"tickets-of\"
description = \"The tickets of one customer.\"
sql = \"SELECT id FROM tickets WHERE customer_id = :customer\"
parameters = [{ name = \"customer\", type = \"integer\", nullable = true }]
";

/// The same, of a binary that is built first.
pub(crate) fn build_and_check() -> Result {
    // With an example, as the tests are built: their crates are compiled once.
    let build = [
        "build",
        "--workspace",
        "--bin",
        "palisade",
        "--example",
        "stdio",
    ];
    cargo(&[&build[..], &FULL].concat())?;
    check(&root().join("target/debug/palisade"))
}

/// Taplo takes every file of a folder by `palisade init`, of the demonstration and of the corpus, and none with a misspelt key.
pub(crate) fn check(binary: &Path) -> Result {
    let taplo = install()?;
    let folder = fresh_folder("target/editors/desk")?;
    let palisade = |arguments: &[&str]| {
        run(Command::new(binary)
            .args(arguments)
            .current_dir(&folder)
            .stdout(Stdio::null()))
    };
    palisade(&["demo"])?;
    palisade(&["init", "sqlite:demo.db", "desk"])?;
    let desk = folder.join("desk");
    let policies = desk.join("policies");
    for file in [
        "demo-policies/tests/matrix.toml",
        "demo-policies/tests/support-bot.toml",
    ] {
        let (from, name) = (
            folder.join(file),
            Path::new(file).file_name().unwrap_or_default(),
        );
        fs::copy(&from, policies.join("tests").join(name))
            .map_err(|error| format!("{}: {error}", from.display()))?;
    }
    let properties = folder.join("demo-policies/properties.toml");
    fs::copy(&properties, desk.join("properties.toml"))
        .map_err(|error| format!("{}: {error}", properties.display()))?;
    for (name, text) in [
        ("templates.toml", TEMPLATES),
        ("schemas.toml", "[postgres]\npublic = \"main\"\n"),
        (
            "tests/servers.toml",
            "[\"shop.postgres\"]\nurl = \"postgres://tester@localhost/postgres\"\ndisposable = true\n",
        ),
    ] {
        write(&policies.join(name), text)?;
    }
    let files = [
        "palisade.toml",
        "properties.toml",
        "policies/classification.toml",
        "policies/templates.toml",
        "policies/schemas.toml",
        "policies/tests/first.toml",
        "policies/tests/matrix.toml",
        "policies/tests/support-bot.toml",
        "policies/tests/servers.toml",
    ];
    if !lint(&taplo, &desk, &files)? {
        return Err("Taplo refuses what `palisade init` and the demonstration wrote".to_owned());
    }
    for file in files {
        let path = desk.join(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
        write(&path, &format!("{MISSPELT}{text}"))?;
        if lint(&taplo, &desk, &[file])? {
            return Err(format!("Taplo takes `{file}` with a misspelt key"));
        }
        write(&path, &text)?;
    }
    check_corpus(&taplo, &desk)
}

/// The cases of the corpus are of the schema of tests.
fn check_corpus(taplo: &Path, desk: &Path) -> Result {
    let mut files = Vec::new();
    for suite in ["accept", "reject", "rewrite", "scan", "attacks"] {
        let folder = root().join("corpus").join(suite);
        let found = fs::read_dir(&folder).map_err(|error| format!("{suite}: {error}"))?;
        files.extend(found.flatten().map(|file| file.path()));
    }
    let schema = desk.join("editor/tests.schema.json");
    let told = Command::new(taplo)
        .args(["lint", "--schema", &format!("file://{}", schema.display())])
        .args(files)
        .stderr(Stdio::inherit())
        .status()
        .map_err(|error| format!("Taplo cannot be started: {error}"))?;
    match told.success() {
        true => Ok(()),
        false => Err("Taplo refuses cases of the corpus".to_owned()),
    }
}

/// Whether Taplo finds nothing wrong with these files.
fn lint(taplo: &Path, folder: &Path, files: &[&str]) -> Result<bool> {
    let told = Command::new(taplo)
        .arg("lint")
        .args(files)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("Taplo cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&told.stderr);
    // Without its configuration it would look at nothing.
    if !text.contains("found configuration file") {
        return Err(format!("Taplo has not found `.taplo.toml`: {text}"));
    }
    Ok(told.status.success())
}

fn install() -> Result<PathBuf> {
    let folder = root().join("target/editors/taplo");
    let program = folder.join("node_modules/.bin/taplo");
    if !program.exists() {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        run(Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--prefix"])
            .arg(&folder)
            .arg(TAPLO))?;
    }
    Ok(program)
}

fn write(path: &Path, text: &str) -> Result {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
