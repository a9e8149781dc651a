//! What others install: the binary, completions, manual pages, the bundle for desktop clients, a bill of materials and checksums.

mod bundle;
mod sbom;
mod sums;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::run::{Result, cargo, root, run};

const HELP: &str = "\
Usage: cargo xtask dist [OPTION...]

Builds what others install into target/dist/palisade-VERSION, and says how to sign it:
  palisade-TARGET              the binary, with every feature
  palisade-mcp-VERSION-….mcpb  a bundle for desktop clients
  completions, man             of bash, zsh, fish, powershell, elvish; one page a command
  palisade.cdx.json            everything that is linked in (CycloneDX 1.6)
  server.json                  the entry for the registry of MCP servers, with --owner
  SHA256SUMS                   of all of these

Options:
  --target TRIPLE   for another system, as x86_64-unknown-linux-musl, which needs nothing of the system it runs on
  --profile NAME    another profile than `dist`
  --binary PATH     a binary that is built already
  --owner NAME      who publishes it: the account at GitHub and its image registry
  --into FOLDER     another folder

Examples:
  cargo xtask dist
  cargo xtask dist --target x86_64-unknown-linux-musl --owner example
  cargo xtask dist --binary target/debug/palisade";

/// Shells that completions are made for, and what each calls its file.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "palisade.bash"),
    ("zsh", "_palisade"),
    ("fish", "palisade.fish"),
    ("powershell", "palisade.ps1"),
    ("elvish", "palisade.elv"),
];

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is asked for.
#[derive(Debug, Default)]
struct Options {
    target: Option<String>,
    profile: Option<String>,
    binary: Option<PathBuf>,
    owner: Option<String>,
    into: Option<PathBuf>,
}

/// Makes everything.
pub(crate) fn run_task(args: &[String]) -> Result {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    let options = read_options(args)?;
    let folder = make(&options)?;
    println!("{}", explain_signing(&folder));
    Ok(())
}

fn read_options(args: &[String]) -> Result<Options> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || {
            let value = args.next().cloned();
            value.ok_or_else(|| format!("`{name}` needs a value\n\n{HELP}"))
        };
        match name.as_str() {
            "--target" => options.target = Some(value()?),
            "--profile" => options.profile = Some(value()?),
            "--binary" => options.binary = Some(PathBuf::from(value()?)),
            "--owner" => options.owner = Some(value()?),
            "--into" => options.into = Some(PathBuf::from(value()?)),
            other => return Err(format!("there is no option `{other}`\n\n{HELP}")),
        }
    }
    if let Some(owner) = &options.owner {
        let is_name = owner
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_name || owner.is_empty() {
            return Err(format!(
                "`{owner}` is no account; write letters, digits and `-`"
            ));
        }
    }
    Ok(options)
}

/// Makes everything, and gives the folder that it is in.
fn make(options: &Options) -> Result<PathBuf> {
    let target = match &options.target {
        Some(target) => target.clone(),
        None => read_host()?,
    };
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(options)?,
    };
    check_version(&binary)?;
    let folder = match &options.into {
        Some(folder) => folder.clone(),
        None => root().join(format!("target/dist/palisade-{VERSION}")),
    };
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| tell(&folder, &error))?;
    }
    fs::create_dir_all(&folder).map_err(|error| tell(&folder, &error))?;
    let suffix = match target.contains("windows") {
        true => ".exe",
        false => "",
    };
    let copy = folder.join(format!("palisade-{target}{suffix}"));
    fs::copy(&binary, &copy).map_err(|error| tell(&binary, &error))?;
    write_completions(&binary, &folder)?;
    run(Command::new(&binary)
        .arg("man")
        .arg(folder.join("man"))
        .stdout(Stdio::null()))?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let from = root().join(name);
        fs::copy(&from, folder.join(name)).map_err(|error| tell(&from, &error))?;
    }
    let bundle = bundle::write(&copy, &target, &folder)?;
    let bill = sbom::write(&target, &copy)?;
    write(&folder.join("palisade.cdx.json"), bill.as_bytes())?;
    if let Some(owner) = &options.owner {
        let entry = bundle::describe_for_registry(&bundle, owner)?;
        write(&folder.join("server.json"), entry.as_bytes())?;
    }
    let sums = sums::list(&folder)?;
    write(&folder.join("SHA256SUMS"), sums.as_bytes())?;
    Ok(folder)
}

/// The binary of the profile, with every feature.
fn build(options: &Options) -> Result<PathBuf> {
    let profile = options.profile.as_deref().unwrap_or("dist");
    let mut args = vec!["build", "--locked", "--package", "palisade-cli"];
    args.extend(["--features", "full", "--profile", profile]);
    let mut folder = root().join("target");
    if let Some(target) = &options.target {
        args.extend(["--target", target]);
        folder.push(target);
    }
    cargo(&args)?;
    let folder = folder.join(match profile {
        "dev" => "debug",
        other => other,
    });
    let plain = folder.join("palisade");
    match plain.exists() {
        true => Ok(plain),
        false => Ok(folder.join("palisade.exe")),
    }
}

/// The system that this runs on.
fn read_host() -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .map_err(|error| format!("`rustc -vV` cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` names no host".to_owned())
}

/// A binary of another version would be handed on under a wrong name. It also has to run here: completions and pages are its own.
fn check_version(binary: &Path) -> Result {
    let told = print(binary, &["--version"])?;
    match told.trim() == format!("palisade {VERSION}") {
        true => Ok(()),
        false => Err(format!(
            "`{}` is `{}`, and the workspace is {VERSION}",
            binary.display(),
            told.trim()
        )),
    }
}

fn write_completions(binary: &Path, folder: &Path) -> Result {
    let folder = folder.join("completions");
    fs::create_dir_all(&folder).map_err(|error| tell(&folder, &error))?;
    for (shell, file) in SHELLS {
        let script = print(binary, &["completions", shell])?;
        write(&folder.join(file), script.as_bytes())?;
    }
    Ok(())
}

/// What a program prints.
fn print(program: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            format!(
                "`{}` cannot be started, and must run on this system: {error}",
                program.display()
            )
        })?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|error| error.to_string()),
        false => Err(format!(
            "`{} {}` failed: {}",
            program.display(),
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result {
    fs::write(path, bytes).map_err(|error| tell(path, &error))
}

fn tell(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn explain_signing(folder: &Path) -> String {
    format!(
        "\n{} is ready. SHA256SUMS names every file of it, so that one signature is enough, by one of:
  minisign -Sm SHA256SUMS
  cosign sign-blob --bundle SHA256SUMS.sigstore.json SHA256SUMS
  gpg --armor --detach-sign SHA256SUMS
Whoever installs it checks the signature, and then: sha256sum --check SHA256SUMS",
        folder.display()
    )
}

#[cfg(test)]
mod tests;
