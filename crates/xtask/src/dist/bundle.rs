//! The bundle for desktop clients (`.mcpb`): a zip file of a manifest and the binary. And the entry for the registry of MCP servers.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::{
    dist::{VERSION, sums, tell},
    run::{Result, root},
};

/// Writes the bundle of `binary` into `folder`, and gives its path.
pub(super) fn write(binary: &Path, target: &str, folder: &Path) -> Result<PathBuf> {
    let platform = name_platform(target)?;
    let program = match platform {
        "win32" => "palisade.exe",
        _ => "palisade",
    };
    let mut manifest = read("manifest.json")?;
    set(&mut manifest, "/compatibility/platforms", json!([platform]))?;
    let entry = format!("server/{program}");
    set(&mut manifest, "/server/entry_point", json!(entry))?;
    let command = format!("${{__dirname}}/{entry}");
    set(&mut manifest, "/server/mcp_config/command", json!(command))?;
    let path = folder.join(format!("palisade-mcp-{VERSION}-{target}.mcpb"));
    let file = File::create(&path).map_err(|error| tell(&path, &error))?;
    let mut zip = ZipWriter::new(file);
    // Times are left out, so that the same files make the same bundle.
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    let fault = |error: zip::result::ZipError| format!("{}: {error}", path.display());
    let text = print(&manifest)?;
    zip.start_file("manifest.json", options.unix_permissions(0o644))
        .map_err(fault)?;
    io::copy(&mut text.as_bytes(), &mut zip).map_err(|error| tell(&path, &error))?;
    let large = options.unix_permissions(0o755).large_file(true);
    zip.start_file(&*entry, large).map_err(fault)?;
    let mut program = File::open(binary).map_err(|error| tell(binary, &error))?;
    io::copy(&mut program, &mut zip).map_err(|error| tell(&path, &error))?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let from = root().join(name);
        let text = fs::read(&from).map_err(|error| tell(&from, &error))?;
        zip.start_file(name, options.unix_permissions(0o644))
            .map_err(fault)?;
        io::copy(&mut &*text, &mut zip).map_err(|error| tell(&path, &error))?;
    }
    zip.finish().map_err(fault)?;
    Ok(path)
}

/// What a bundle calls the system of `target`.
fn name_platform(target: &str) -> Result<&'static str> {
    let known = [
        ("linux", "linux"),
        ("darwin", "darwin"),
        ("windows", "win32"),
    ];
    let found = known.iter().find(|(part, _)| target.contains(part));
    found
        .map(|(_, platform)| *platform)
        .ok_or_else(|| format!("bundles know no platform of `{target}`"))
}

/// The entry for the registry, of the bundle at `bundle` and the image of `owner`.
pub(super) fn describe_for_registry(bundle: &Path, owner: &str) -> Result<String> {
    let name = bundle.file_name().unwrap_or_default().to_string_lossy();
    let mut text = print(&read("server.json")?)?;
    let placeholder = format!("palisade-mcp-{VERSION}-PLATFORM.mcpb");
    let sum = sums::sum_file(bundle)?;
    // The registry takes names of accounts in lower case alone where they are of an image.
    let image = format!("ghcr.io/{}/", owner.to_lowercase());
    for (there, here) in [
        (&*placeholder, &*name),
        ("\"SHA256\"", &*format!("\"{sum}\"")),
        ("ghcr.io/OWNER/", &*image),
        ("OWNER", owner),
    ] {
        if !text.contains(there) {
            return Err(format!("packaging/mcp/server.json has no `{there}`"));
        }
        text = text.replace(there, here);
    }
    Ok(text)
}

fn read(name: &str) -> Result<Value> {
    let path = root().join("packaging/mcp").join(name);
    let text = fs::read_to_string(&path).map_err(|error| tell(&path, &error))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    match value.get("version").and_then(Value::as_str) == Some(VERSION) {
        true => Ok(value),
        false => Err(format!("{} is not of version {VERSION}", path.display())),
    }
}

fn set(value: &mut Value, place: &str, new: Value) -> Result {
    let old = value.pointer_mut(place);
    *old.ok_or_else(|| format!("the manifest has no `{place}`"))? = new;
    Ok(())
}

fn print(value: &Value) -> Result<String> {
    let text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}
