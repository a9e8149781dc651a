//! Crates as they would be published: each packs, with all that it needs in it. `tests/tidy` holds that none includes a file from
//! outside of its folder.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::run::{Result, cargo, root};

/// Members of the workspace that are not published.
const OWN: &[&str] = &[
    "palisade-benches",
    "palisade-eval",
    "palisade-examples",
    "palisade-testkit",
    "palisade-train",
    "xtask",
];

/// What a registry and docs.rs show of a crate.
const SHOWN: [&str; 5] = [
    "description",
    "keywords",
    "categories",
    "license",
    "rust_version",
];

/// Packs each crate that is published, and looks whether a registry would have something to show of it.
pub(crate) fn check() -> Result {
    let crates = read_published()?;
    let missing: Vec<String> = crates.iter().flat_map(list_missing).collect();
    if !missing.is_empty() {
        return Err(missing.join("\n"));
    }
    if crates.iter().any(|one| is_empty(one, "repository")) {
        println!(
            "\n    no `repository` is named yet: write one under `[workspace.package]`, and `repository.workspace = true` in each \
             crate, before the first is published"
        );
    }
    // Without a lock file for each, which is resolved anew and takes half a minute.
    let mut args = vec![
        "package",
        "--workspace",
        "--no-verify",
        "--exclude-lockfile",
        "--allow-dirty",
        "--quiet",
    ];
    for package in OWN {
        args.extend(["--exclude", package]);
    }
    cargo(&args)
}

/// The crates that are published, as cargo describes them.
fn read_published() -> Result<Vec<Value>> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(program)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("`cargo metadata` cannot be started: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("`cargo metadata`: {error}"))?;
    let packages = metadata.get("packages").and_then(Value::as_array);
    let packages = packages.ok_or("`cargo metadata` names no crates")?;
    let is_own = |name: &str| OWN.contains(&name);
    Ok(packages
        .iter()
        .filter(|package| !is_own(read_name(package)))
        .cloned()
        .collect())
}

fn read_name(package: &Value) -> &str {
    let name = package.get("name").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// Whether a crate says nothing under `key`.
fn is_empty(package: &Value, key: &str) -> bool {
    match package.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => false,
    }
}

/// What the manifest of a crate lacks, each as a sentence.
fn list_missing(package: &Value) -> Vec<String> {
    let name = read_name(package);
    let mut missing: Vec<String> = SHOWN
        .iter()
        .filter(|key| is_empty(package, key))
        .map(|key| {
            format!(
                "crates/{name}/Cargo.toml has no `{}`",
                key.replace('_', "-")
            )
        })
        .collect();
    let count = |key: &str| {
        package
            .get(key)
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    };
    for key in ["keywords", "categories"] {
        if count(key) > 5 {
            missing.push(format!(
                "crates/{name}/Cargo.toml has more than five `{key}`"
            ));
        }
    }
    if package.pointer("/metadata/docs/rs/all-features") != Some(&Value::Bool(true)) {
        missing.push(format!(
            "crates/{name}/Cargo.toml has no `[package.metadata.docs.rs]` with `all-features = true`"
        ));
    }
    missing
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_registry_has_something_to_show_of_each_crate() {
        let crates = read_published().unwrap();
        assert!(crates.len() > 10, "{}", crates.len());
        let missing: Vec<String> = crates.iter().flat_map(list_missing).collect();
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn what_a_crate_lacks_is_told() {
        let missing = list_missing(
            &json!({"name": "a", "description": "", "keywords": ["1", "2", "3", "4", "5", "6"],
            "categories": ["database"], "license": "MIT", "rust_version": null}),
        );
        assert_eq!(missing.len(), 4, "{missing:?}");
    }
}
