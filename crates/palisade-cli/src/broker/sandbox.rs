//! `palisade sandbox`: a command without network and home, which can connect to the broker and read nothing else of it.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    broker::layout,
    broker_args::SandboxArguments,
    config::ConfigFile,
    exit::{Exit, Failure},
    output,
};

/// The program that makes the sandbox.
const PROGRAM: &str = "bwrap";

/// What programs need of a system, where it is there.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/ssl",
    "/etc/passwd",
    "/etc/group",
];

/// Runs the command.
pub(crate) fn run(arguments: &SandboxArguments) -> Result<Exit, Failure> {
    let SandboxArguments {
        config,
        enrolment,
        readable,
        writable,
        print,
        check,
        command,
    } = arguments;
    if *check {
        return check_machine();
    }
    let file = ConfigFile::read(config)?;
    let setup = file.broker();
    let layout = layout(setup);
    let secret = match enrolment {
        None => layout.secret(),
        Some(name) if setup.enrolments.contains_key(name) => layout.enrolment(name),
        Some(name) => {
            return Err(Failure::Usage(format!(
                "there is no enrolment `{name}`\n  help: write `[broker.enrolments.{name}]` with a `principal`"
            )));
        }
    };
    let mut words = isolate();
    let mut bind = |option: &str, path: &Path| -> Result<PathBuf, Failure> {
        let path = find(path)?;
        words.extend([option.into(), path.clone().into(), path.clone().into()]);
        Ok(path)
    };
    for path in readable {
        bind("--ro-bind", path)?;
    }
    for path in writable {
        let path = bind("--bind", path)?;
        for kept in [setup.directory.as_path(), config.as_path()] {
            if find(kept)?.starts_with(&path) {
                return Err(Failure::Usage(format!(
                    "`{}` holds `{}`, which the command must not change\n  help: name a folder beside it",
                    path.display(),
                    kept.display()
                )));
            }
        }
    }
    // With a socket's folder to write to, the command could put its own socket there.
    let run = bind("--ro-bind", &layout.run())?;
    let secret = bind("--ro-bind", &secret)?;
    let own = std::env::current_exe()
        .map_err(|error| Failure::Internal(format!("this program is not found: {error}")))?;
    bind("--ro-bind", &own)?;
    for (name, value) in [("PALISADE_RUN", run), ("PALISADE_SECRET", secret)] {
        words.extend(["--setenv".into(), name.into(), value.into()]);
    }
    if let Some(first) = writable.first() {
        words.extend(["--chdir".into(), find(first)?.into()]);
    }
    words.push("--".into());
    words.extend(command.iter().cloned());
    if *print {
        let shown: Vec<String> = words.iter().map(quote).collect();
        output::text(&format!("{PROGRAM} {}\n", shown.join(" ")))?;
        return Ok(Exit::Permitted);
    }
    // It takes the place of this process, so that signals and the exit code are the command's.
    Err(absent(&Command::new(PROGRAM).args(words).exec()))
}

/// The options for a command without network, home, environment and other processes.
fn isolate() -> Vec<OsString> {
    let mut words: Vec<OsString> = [
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
    ]
    .map(OsString::from)
    .into();
    for path in SYSTEM {
        words.extend(["--ro-bind-try", path, path].map(OsString::from));
    }
    let own = [
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--dir",
        "/tmp/home",
    ];
    words.extend(own.map(OsString::from));
    for (name, value) in [
        ("HOME", "/tmp/home"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ] {
        words.extend(["--setenv", name, value].map(OsString::from));
    }
    words
}

/// The whole path of what is there.
fn find(path: &Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(path).map_err(|error| {
        Failure::Usage(format!(
            "`{}`: {error}\n  help: the broker makes its folders when it starts: `palisade broker --config FILE`",
            path.display()
        ))
    })
}

/// That the program does not start.
fn absent(error: &std::io::Error) -> Failure {
    Failure::Unavailable(format!(
        "`{PROGRAM}` does not start: {error}\n  help: install it; Debian and Ubuntu: `apt-get install bubblewrap`"
    ))
}

/// Tells whether this machine makes a sandbox.
fn check_machine() -> Result<Exit, Failure> {
    let mut words = isolate();
    words.extend(["--", "true"].map(OsString::from));
    let made = Command::new(PROGRAM)
        .args(words)
        .output()
        .map_err(|error| absent(&error))?;
    if made.status.success() {
        output::text("This machine makes sandboxes.\n")?;
        return Ok(Exit::Permitted);
    }
    let apparmor = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
    let is_restricted = std::fs::read_to_string(apparmor).is_ok_and(|text| text.trim() == "1");
    let help = if is_restricted {
        "AppArmor forbids user namespaces here; install the profile `bwrap-userns-restrict` of the package `apparmor-profiles`"
    } else {
        "let users make namespaces: `sysctl kernel.unprivileged_userns_clone=1` and `sysctl user.max_user_namespaces=10000`; in a container, run the broker and the agent in two containers instead"
    };
    Err(Failure::Unavailable(format!(
        "this machine makes no sandbox: {}\n  help: {help}",
        String::from_utf8_lossy(&made.stderr).trim()
    )))
}

/// A word as a shell takes it.
fn quote(word: &OsString) -> String {
    let text = word.to_string_lossy();
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&b);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
