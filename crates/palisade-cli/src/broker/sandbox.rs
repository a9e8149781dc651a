//! `palisade sandbox`: a command without network and home, which can connect to the broker and read nothing else of it.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    args::broker::SandboxArguments,
    broker::{
        hand_in::Channel,
        landlock::{Enforced, OpenPaths, confine},
        layout,
        own_paths::list_own_paths,
    },
    config::ConfigFile,
    exit::{Exit, Failure},
    serve, stdout,
};

/// The program that makes the sandbox.
const PROGRAM: &str = "bwrap";

/// Where the command finds programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

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

/// The folder of devices. Bubblewrap's own holds harmless ones alone.
const DEVICES: &str = "/dev";

/// What a program may write to without harm. Other devices of the machine hold disks, memory and other people's terminals.
const HARMLESS_DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// What the command can reach of the broker and of folders.
struct Reach {
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    run: PathBuf,
    secret: PathBuf,
    /// This program, which is the relay.
    own: PathBuf,
}

/// How the command comes to the broker's socket.
#[derive(Clone, Copy)]
enum Socket {
    /// Its folder is there.
    Bound,
    /// It does not: connections are handed in.
    HandedIn,
}

/// Runs the command.
pub(crate) fn run(arguments: &SandboxArguments) -> Result<Exit, Failure> {
    let SandboxArguments {
        config,
        enrolment,
        readable,
        writable,
        hand_in,
        container,
        landlock_only,
        confine: is_inside,
        sockets,
        print,
        check,
        command,
    } = arguments;
    if *check {
        return check_machine();
    }
    if *is_inside {
        let open = OpenPaths {
            readable: readable.clone(),
            writable: writable.clone(),
            sockets: sockets.clone(),
        };
        enforce(&open)?;
        return Err(start(&mut Command::new(first_word(command)?), command));
    }
    // Before any file is opened, so that the descriptor's number is free.
    let channel = hand_in.then(Channel::open).transpose()?;
    let reach = find_reach((config, enrolment.as_deref()), readable, writable)?;
    if let Some(channel) = channel {
        let Reach {
            readable: _,
            writable: _,
            run,
            secret,
            own,
        } = &reach;
        let mut program = if *container {
            let mut program = Command::new(first_word(command)?);
            program.args(command.iter().skip(1));
            program.env("PALISADE_SECRET", secret);
            program
        } else {
            let mut program = Command::new(PROGRAM);
            program.args(bubblewrap_words(&reach, Socket::HandedIn, command));
            program
        };
        program.env("PALISADE", own);
        return channel.run(program, run);
    }
    if *landlock_only {
        return run_confined(&reach, command);
    }
    let words = bubblewrap_words(&reach, Socket::Bound, command);
    if *print {
        let shown: Vec<String> = words.iter().map(quote).collect();
        stdout::text(&format!("{PROGRAM} {}\n", shown.join(" ")))?;
        return Ok(Exit::Permitted);
    }
    // It takes the place of this process, so that signals and the exit code are the command's.
    Err(absent(&Command::new(PROGRAM).args(words).exec()))
}

/// What of the broker and of the folders named the command may reach.
fn find_reach(
    (config, enrolment): (&Path, Option<&str>),
    readable: &[PathBuf],
    writable: &[PathBuf],
) -> Result<Reach, Failure> {
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
    let all = |paths: &[PathBuf]| {
        paths
            .iter()
            .map(|path| find(path))
            .collect::<Result<_, _>>()
    };
    let (readable, writable): (Vec<PathBuf>, Vec<PathBuf>) = (all(readable)?, all(writable)?);
    refuse_own_paths(&file, config, readable.iter().chain(&writable))?;
    let own = std::env::current_exe()
        .map_err(|error| Failure::Internal(format!("this program is not found: {error}")))?;
    Ok(Reach {
        readable,
        writable,
        run: find(&layout.run())?,
        secret: find(&secret)?,
        own: find(&own)?,
    })
}

/// Refuses folders for the command that hold something of the broker's, or are in it.
fn refuse_own_paths<'p>(
    file: &ConfigFile,
    config: &Path,
    opened: impl Iterator<Item = &'p PathBuf> + Clone,
) -> Result<(), Failure> {
    let system = SYSTEM
        .iter()
        .filter_map(|path| std::fs::canonicalize(path).ok());
    let system: Vec<PathBuf> = system.collect();
    let directory = find(&file.broker().directory)?;
    if let Some(shown) = system.iter().find(|shown| directory.starts_with(shown)) {
        return Err(Failure::Usage(format!(
            "`{}` is in `{}`, which every command in the sandbox can read\n  help: name a `directory` elsewhere under `[broker]`",
            directory.display(),
            shown.display()
        )));
    }
    let named = list_own_paths(file);
    for kept in named.iter().map(PathBuf::as_path).chain([config]) {
        let real = find_place(kept)?;
        if let Some(path) = opened
            .clone()
            .find(|path| real.starts_with(path) || path.starts_with(&real))
        {
            return Err(Failure::Usage(format!(
                "`{}` would let the command reach `{}`, which is not for it\n  help: name a folder beside it; what the configuration names stays outside of the sandbox",
                path.display(),
                kept.display()
            )));
        }
    }
    Ok(())
}

/// The words of bubblewrap for `command`, with Landlock inside of it as a second layer.
fn bubblewrap_words(reach: &Reach, socket: Socket, command: &[OsString]) -> Vec<OsString> {
    let Reach {
        readable,
        writable,
        run,
        secret,
        own,
    } = reach;
    let mut words = isolate();
    let mut bind = |option: &str, path: &Path| {
        words.extend([option.into(), path.into(), path.into()]);
    };
    for path in readable {
        bind("--ro-bind", path);
    }
    for path in writable {
        bind("--bind", path);
    }
    // With a socket's folder to write to, the command could put its own socket there.
    let run = match socket {
        Socket::Bound => Some(run),
        Socket::HandedIn => None,
    };
    for path in run.into_iter().chain([secret, own]) {
        bind("--ro-bind", path);
    }
    let variables = [("PALISADE_SECRET", secret), ("PALISADE", own)];
    for (name, value) in (run.map(|run| ("PALISADE_RUN", run)).into_iter()).chain(variables) {
        words.extend(["--setenv".into(), name.into(), value.into()]);
    }
    if let Some(first) = writable.first() {
        words.extend(["--chdir".into(), first.into()]);
    }
    words.push("--".into());
    words.extend([own.into(), "sandbox".into(), "--confine".into()]);
    let mut name = |option: &str, path: &Path| words.extend([option.into(), path.into()]);
    for path in SYSTEM.iter().map(Path::new).chain([Path::new("/proc")]) {
        name("--readable", path);
    }
    for path in readable.iter().chain([secret, own]) {
        name("--readable", path);
    }
    for path in [DEVICES, "/tmp"] {
        name("--writable", Path::new(path));
    }
    for path in writable {
        name("--writable", path);
    }
    if let Some(run) = run {
        name("--socket", run);
    }
    words.push("--".into());
    words.extend(command.iter().cloned());
    words
}

/// Runs `command` under Landlock alone.
fn run_confined(reach: &Reach, command: &[OsString]) -> Result<Exit, Failure> {
    if rustix::process::geteuid().is_root() {
        return Err(Failure::Usage(
            "Landlock alone does not confine root, who can read the kernel's memory\n  help: start it as another user, or leave `--landlock-only` out for bubblewrap"
                .to_owned(),
        ));
    }
    let Reach {
        readable,
        writable,
        run,
        secret,
        own,
    } = reach;
    let system = SYSTEM.iter().map(PathBuf::from);
    let open = OpenPaths {
        readable: system
            .chain(["/proc".into(), secret.clone(), own.clone()])
            .chain(readable.iter().cloned())
            .collect(),
        writable: (HARMLESS_DEVICES.iter().map(PathBuf::from))
            .chain(writable.iter().cloned())
            .collect(),
        sockets: vec![run.clone()],
    };
    let enforced = enforce(&open)?;
    if enforced == Enforced::Nothing {
        return Err(Failure::Unavailable(
            "this kernel has no Landlock\n  help: start it with `lsm=landlock,…`, or leave `--landlock-only` out for bubblewrap"
                .to_owned(),
        ));
    }
    serve::log();
    tracing::warn!(
        "Landlock alone confines the command: {}",
        enforced.describe_gaps()
    );
    let folder = writable.first().map_or(Path::new("/"), PathBuf::as_path);
    let mut program = Command::new(first_word(command)?);
    program
        .env_clear()
        .env("HOME", folder)
        .env("PATH", PATH)
        .env("PALISADE", own)
        .env("PALISADE_RUN", run)
        .env("PALISADE_SECRET", secret)
        .current_dir(folder);
    Err(start(&mut program, command))
}

fn enforce(open: &OpenPaths) -> Result<Enforced, Failure> {
    confine(open).map_err(|error| Failure::Internal(format!("Landlock: {error}")))
}

fn first_word(command: &[OsString]) -> Result<&OsString, Failure> {
    command.first().ok_or_else(|| {
        Failure::Usage("there is no command\n  help: write it after `--`".to_owned())
    })
}

/// Puts `command` in the place of this process; what comes back is why it does not start.
fn start(program: &mut Command, command: &[OsString]) -> Failure {
    let error = program.args(command.iter().skip(1)).exec();
    let name = program.get_program().to_string_lossy();
    Failure::Unavailable(format!(
        "`{name}` does not start: {error}\n  help: `--readable DIR` lets the sandbox have the folder of a program outside of /usr"
    ))
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
    for (name, value) in [("HOME", "/tmp/home"), ("PATH", PATH)] {
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

/// The whole path of what may be made later.
fn find_place(path: &Path) -> Result<PathBuf, Failure> {
    if let Ok(found) = std::fs::canonicalize(path) {
        return Ok(found);
    }
    let whole = std::path::absolute(path)
        .map_err(|error| Failure::Usage(format!("`{}`: {error}", path.display())))?;
    match (whole.parent(), whole.file_name()) {
        (Some(folder), Some(name)) => Ok(find_place(folder)?.join(name)),
        (None, _) | (_, None) => Ok(whole),
    }
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
        // This process ends next, and opens nothing.
        let second = match enforce(&OpenPaths::default())? {
            Enforced::All => "Landlock is its second layer.".to_owned(),
            Enforced::Part(abi) => {
                format!("Landlock is its second layer, with the interface {abi} of this kernel.")
            }
            Enforced::Nothing => {
                "This kernel has no Landlock, so bubblewrap is its only layer.".to_owned()
            }
        };
        stdout::text(&format!("This machine makes sandboxes. {second}\n"))?;
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
