//! The bill of materials: every crate that is linked into the binary (CycloneDX 1.6, <https://cyclonedx.org/docs/1.6/json/>).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Map, Value, json};

use crate::{
    dist::{VERSION, sums, tell},
    run::{FULL, Result, root},
};

/// The crate that the binary is of.
const CRATE: &str = "palisade-cli";

/// The bill of `binary`, which was built for `target`.
pub(super) fn write(target: &str, binary: &Path) -> Result<String> {
    let metadata = read_metadata(target)?;
    let packages: BTreeMap<&str, &Value> = list(&metadata, "/packages")?
        .iter()
        .filter_map(|package| Some((text(package, "id")?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = list(&metadata, "/resolve/nodes")?
        .iter()
        .filter_map(|node| Some((text(node, "id")?, node)))
        .collect();
    let own = packages
        .iter()
        .find(|(_, package)| text(package, "name") == Some(CRATE))
        .map(|(id, _)| *id)
        .ok_or_else(|| format!("cargo knows no crate `{CRATE}`"))?;
    let sums = read_lock()?;
    let (mut components, mut dependencies) = (Vec::new(), Vec::new());
    let (mut waiting, mut seen) = (vec![own], BTreeSet::from([own]));
    while let Some(id) = waiting.pop() {
        let package = packages
            .get(id)
            .ok_or_else(|| format!("cargo says nothing of `{id}`"))?;
        let linked = nodes.get(id).map(|node| list_linked(node));
        let linked = linked.unwrap_or_default();
        let refs: BTreeSet<String> = linked
            .iter()
            .filter_map(|id| packages.get(id))
            .filter_map(|package| name(package))
            .collect();
        dependencies.push(json!({"ref": name(package), "dependsOn": refs}));
        if id != own {
            components.push(describe(package, &sums)?);
        }
        waiting.extend(linked.into_iter().filter(|id| seen.insert(id)));
    }
    let by =
        |key: &'static str| move |value: &Value| text(value, key).unwrap_or_default().to_owned();
    components.sort_by_key(by("bom-ref"));
    dependencies.sort_by_key(by("ref"));
    let program = packages.get(own).and_then(|package| name(package));
    let main = json!({
        "type": "application",
        "bom-ref": program,
        "name": "palisade",
        "version": VERSION,
        "description": "A SQL firewall for AI agents",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "hashes": [{"alg": "SHA-256", "content": sums::sum_file(binary)?}],
        "properties": [{"name": "cdx:rustc:target", "value": target}],
    });
    let body = json!({"component": main, "components": components, "dependencies": dependencies});
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": print_serial(&sums::sum_text(&body.to_string())),
        "version": 1,
        "metadata": {"component": main},
        "components": components,
        "dependencies": dependencies,
    });
    let text = serde_json::to_string_pretty(&bill).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}

/// What cargo would build of the workspace for `target`, with every feature of the binary.
fn read_metadata(target: &str) -> Result<Value> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(program)
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", target])
        .args(FULL)
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("`cargo metadata` cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("`cargo metadata` failed: {}", output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("`cargo metadata`: {error}"))
}

/// Crates that are linked with that of `node`: neither those of its tests nor those of its build.
fn list_linked(node: &Value) -> Vec<&str> {
    let Some(deps) = node.get("deps").and_then(Value::as_array) else {
        return Vec::new();
    };
    let is_linked = |dep: &&Value| {
        let kinds = dep.get("dep_kinds").and_then(Value::as_array);
        kinds.is_some_and(|kinds| {
            kinds
                .iter()
                .any(|kind| kind.get("kind").is_none_or(Value::is_null))
        })
    };
    deps.iter()
        .filter(is_linked)
        .filter_map(|dep| text(dep, "pkg"))
        .collect()
}

/// Checksums of crates by name and version, as `Cargo.lock` has them.
fn read_lock() -> Result<BTreeMap<(String, String), String>> {
    let path = root().join("Cargo.lock");
    let lock = fs::read_to_string(&path).map_err(|error| tell(&path, &error))?;
    let mut out = BTreeMap::new();
    for block in lock.split("[[package]]").skip(1) {
        let find = |key: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) =
            (find("name = "), find("version = "), find("checksum = "))
        {
            out.insert((name, version), sum);
        }
    }
    Ok(out)
}

/// A component of the bill.
fn describe(package: &Value, sums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let of = |key| text(package, key).map(str::to_owned);
    let (Some(crate_name), Some(version)) = (of("name"), of("version")) else {
        return Err(format!("a crate has no name or version: {package}"));
    };
    let licence = of("license")
        .ok_or_else(|| format!("`{crate_name}` names no licence; `cargo deny` would say so too"))?;
    let mut out = Map::new();
    out.insert("type".into(), json!("library"));
    out.insert("bom-ref".into(), json!(name(package)));
    out.insert("name".into(), json!(crate_name));
    out.insert("version".into(), json!(version));
    if let Some(description) = of("description") {
        out.insert("description".into(), json!(description.trim()));
    }
    out.insert("scope".into(), json!("required"));
    // Old manifests write `/` for OR.
    let licence = licence.replace(" / ", "/").replace('/', " OR ");
    out.insert("licenses".into(), json!([{"expression": licence}]));
    out.insert("purl".into(), json!(name(package)));
    if let Some(sum) = sums.get(&(crate_name, version)) {
        let hashes = json!([{"alg": "SHA-256", "content": sum}]);
        out.insert("hashes".into(), hashes);
    }
    if let Some(url) = of("repository") {
        let references = json!([{"type": "vcs", "url": url}]);
        out.insert("externalReferences".into(), references);
    }
    Ok(Value::Object(out))
}

/// A package's name as other tools write it (purl).
fn name(package: &Value) -> Option<String> {
    let (name, version) = (text(package, "name")?, text(package, "version")?);
    Some(format!("pkg:cargo/{name}@{version}"))
}

/// A serial number that says what is in the bill: the same bill has the same one (UUID of version 8).
fn print_serial(digest: &str) -> String {
    let part = |from: usize, to: usize| digest.get(from..to).unwrap_or_default();
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 15),
        part(15, 18),
        part(18, 30)
    )
}

fn list<'a>(value: &'a Value, place: &str) -> Result<&'a [Value]> {
    let list = value.pointer(place).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("`cargo metadata` has no `{place}`"))?;
    Ok(list.as_slice())
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}
