//! Debian's packages: installed, or only unpacked under `target/tools`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    find,
    run::{Result, exists, run},
};

/// How long fetching may take, in seconds: what is optional must not hold up the tests for ever.
const PATIENCE: &str = "300";

/// Which packages are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// What this machine installs from; packages it already has are not fetched again.
    Machine,
    /// Debian's unstable distribution, from the mirror that this machine installs from. Everything
    /// is fetched, down to the C library: the machine's own is too old.
    Unstable,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Unstable => "unstable",
        }
    }
}

/// Whether this machine has apt at all.
pub(crate) fn is_here() -> bool {
    exists("apt-get", &["--version"]) && exists("dpkg", &["--version"])
}

/// Installs packages on this machine, as root. No service is started: tests start their own.
pub(crate) fn install(packages: &[&str]) -> Result {
    let _policy = NoServices::declare()?;
    let install = || {
        // Without a time limit: dpkg is not to be interrupted.
        run(Command::new("apt-get")
            .args(["install", "--yes", "--quiet=2"])
            .args(["--no-install-recommends", "-o", "DPkg::Lock::Timeout=120"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive"))
    };
    // Lists that are too old, or that an image left out, name packages that are gone.
    install().or_else(|_| {
        run(Command::new("timeout").args([PATIENCE, "apt-get", "update", "--quiet=2"]))?;
        install()
    })
}

/// Fetches packages with all they need and unpacks them into `root`, which must not exist. Needs no
/// rights, and leaves the machine's own packages alone: apt works in a folder of its own.
pub(crate) fn unpack(source: Source, packages: &[&str], root: &Path) -> Result {
    let apt = Apt::new(source)?;
    run(&mut apt.get(&["update"]))?;
    // Archives of an earlier call would be unpacked along with these.
    clear(&apt.archives())?;
    fs::create_dir_all(apt.archives().join("partial")).map_err(at(&apt.archives()))?;
    run(apt
        .get(&["install", "--yes", "--download-only"])
        .arg("--no-install-recommends")
        .args(packages))?;

    let partial = root.with_extension("partial");
    clear(&partial)?;
    fs::create_dir_all(&partial).map_err(at(&partial))?;
    println!("\n==> dpkg --extract into {}", root.display());
    let mut unpacked = 0_u32;
    for entry in fs::read_dir(apt.archives()).map_err(at(&apt.archives()))? {
        let archive = entry.map_err(at(&apt.archives()))?.path();
        if archive.extension().is_some_and(|end| end == "deb") {
            quietly(
                Command::new("dpkg")
                    .arg("--extract")
                    .arg(&archive)
                    .arg(&partial),
            )?;
            unpacked += 1;
        }
    }
    if unpacked == 0 {
        return Err(format!("nothing was fetched for {}", packages.join(" ")));
    }
    clear(&apt.archives())?;
    // Whole or not there.
    fs::rename(&partial, root).map_err(at(root))
}

/// An apt that keeps lists and archives under `target/tools/apt`.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(source: Source) -> Result<Self> {
        let folder = find::tools().join("apt").join(source.name());
        let apt = Self { folder };
        for below in ["state/lists/partial", "cache", "none"] {
            let below = apt.folder.join(below);
            fs::create_dir_all(&below).map_err(at(&below))?;
        }
        let own = match source {
            Source::Machine => "Dir::State::status \"/var/lib/dpkg/status\";\n".to_owned(),
            Source::Unstable => {
                // Nothing counts as installed.
                apt.write("status", "")?;
                let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
                let line = format!("deb [signed-by={keyring}] {} sid main\n", mirror()?);
                apt.write("sources.list", &line)?;
                UNSTABLE.replace("FOLDER", &apt.folder.to_string_lossy())
            }
        };
        let shared = CONFIGURATION.replace("FOLDER", &apt.folder.to_string_lossy());
        apt.write("apt.conf", &(shared + &own))?;
        Ok(apt)
    }

    fn write(&self, name: &str, text: &str) -> Result {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(at(&path))
    }

    fn archives(&self) -> PathBuf {
        self.folder.join("cache/archives")
    }

    /// The machine's settings hold (mirrors, proxies, what is checked), except where files are.
    fn get(&self, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command
            .args([PATIENCE, "apt-get", "--config-file"])
            .arg(self.folder.join("apt.conf"))
            .args(args);
        command
    }
}

/// The arguments that make apt work on folders of ours. Dpkg's lock is of no use, for nothing is installed, and an
/// ordinary user may not take it. Fetching as `_apt` needs a folder that account can write, and the signatures are
/// checked all the same. Hooks tidy the machine's folders.
const CONFIGURATION: &str = r#"quiet "2";
Dir::State "FOLDER/state";
Dir::Cache "FOLDER/cache";
Debug::NoLocking "1";
Acquire::Languages "none";
Acquire::Retries "1";
APT::Sandbox::User "";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"#;

/// The machine's other sources and pins are for the machine.
const UNSTABLE: &str = r#"Dir::State::status "FOLDER/status";
Dir::Etc::sourcelist "FOLDER/sources.list";
Dir::Etc::sourceparts "FOLDER/none";
Dir::Etc::preferencesparts "FOLDER/none";
Dir::Etc::preferences "FOLDER/none/preferences";
APT::Update::Error-Mode "any";
"#;

/// The mirror of Debian that this machine installs from.
fn mirror() -> Result<String> {
    // Whose a source is stands in its lists, which an image may have left out.
    let apt = Apt::new(Source::Machine)?;
    run(&mut apt.get(&["update"]))?;
    let output = apt
        .get(&["indextargets", "--format", "$(REPO_URI)"])
        .args(["Created-By: Packages", "Origin: Debian", "Component: main"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("apt-get indextargets: {error}"))?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find(|uri| !uri.contains("security"))
        .map(str::to_owned)
        .ok_or_else(|| "apt has no mirror of Debian here".to_owned())
}

/// The answer of Debian's tools to "may this service be started?": no, until dropped. A machine
/// that has its own answer keeps it.
struct NoServices {
    ours: Option<&'static Path>,
}

impl NoServices {
    fn declare() -> Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = Path::new("/usr/sbin/policy-rc.d");
        if path.exists() {
            return Ok(Self { ours: None });
        }
        let declared = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"#!/bin/sh\nexit 101\n"));
        declared.map_err(at(path))?;
        Ok(Self { ours: Some(path) })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(path) = self.ours
            && let Err(error) = fs::remove_file(path)
        {
            eprintln!("xtask: {} stays behind: {error}", path.display());
        }
    }
}

fn clear(folder: &Path) -> Result {
    match fs::remove_dir_all(folder) {
        Err(error) if folder.exists() => Err(at(folder)(error)),
        Err(_) | Ok(()) => Ok(()),
    }
}

fn quietly(command: &mut Command) -> Result {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}
