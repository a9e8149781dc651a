//! `palisade broker install-service`: a unit of systemd, or a property list of launchd.

use std::{io::Write as _, path::Path};

use palisade_broker::CredentialStore;

use super::plist::print_plist;
use crate::{
    args::broker::ServiceArguments,
    broker::{door::identify, load::find_target},
    config::ConfigFile,
    exit::{Exit, Failure},
    stdout,
};

/// Where systemd looks for units, and launchd for property lists.
const UNIT: &str = "/etc/systemd/system/palisade-broker.service";
const PLIST: &str = "/Library/LaunchDaemons/palisade-broker.plist";

/// What a broker takes to end at most, in seconds, beside the time that what runs may still take.
const STOP_SECONDS: u64 = 30;

/// Writes the unit, or prints it.
pub(super) fn install(
    config: &Path,
    file: &ConfigFile,
    arguments: &ServiceArguments,
) -> Result<Exit, Failure> {
    let ServiceArguments {
        user,
        unit,
        launchd,
        credentials,
        print,
    } = arguments;
    let is_name = !user.is_empty()
        && user
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if !is_name {
        return Err(Failure::Usage(format!(
            "`{user}` is no name of a user\n  help: write letters, digits, `-` and `_`"
        )));
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::Internal(format!("this program is not found: {error}")))?;
    let setup = file.broker();
    let config = make_absolute(config)?;
    let credentials = list_credentials(file, &make_absolute(credentials)?)?;
    let folder = make_absolute(&setup.directory)?;
    let is_launchd = *launchd || cfg!(target_os = "macos");
    let stop = setup.drain.as_secs().saturating_add(STOP_SECONDS);
    let text = if is_launchd {
        print_plist(&program, &config, user, stop)
    } else {
        print_unit(
            &program_word(&program)?,
            &program_word(&config)?,
            &program_word(&folder)?,
            (user, setup.group, &credentials.lines),
            stop,
        )
    };
    if *print {
        stdout::text(&text)?;
        return Ok(Exit::Permitted);
    }
    let usual = if is_launchd { PLIST } else { UNIT };
    let unit = unit.as_deref().unwrap_or(Path::new(usual));
    let written =
        std::fs::File::create_new(unit).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        Failure::Usage(format!(
            "`{}` cannot be written: {error}\n  help: remove it if it is there, run this as root, or name another file by `--unit`",
            unit.display()
        ))
    })?;
    if is_launchd {
        stdout::text(&format!(
            "{} is written. Make a user `{user}` that owns {}, and have it run:\n  {} load-connections --config {} --store file\nNext:\n  launchctl bootstrap system {}\n",
            unit.display(),
            folder.display(),
            program.display(),
            config.display(),
            unit.display()
        ))?;
        return Ok(Exit::Permitted);
    }
    // Whoever is of the group can come through the folder, and see no names in it.
    let (mode, agents) = match setup.group {
        Some(group) => (
            format!("-g {group} -m 710"),
            format!(
                "For the user of each agent:\n  usermod --append --groups \"$(getent group {group} | cut -d: -f1)\" AGENT\nIts relay:\n  {} relay --run {folder}/run --secret {folder}/secret --broker-user \"$(id -u {user})\"\n",
                program.display(),
                folder = folder.display()
            ),
        ),
        None => (
            "-m 700".to_owned(),
            "No agent of another user can connect: write `group`, the id of a group, under `[broker]`, and make the unit anew.\n"
                .to_owned(),
        ),
    };
    let load = match credentials.are_missing {
        true => format!(
            "  runuser -u {user} -- {} load-connections --config {} --store file\n",
            program.display(),
            config.display()
        ),
        false => String::new(),
    };
    stdout::text(&format!(
        "{} is written. The broker can write to its folder alone: put `audit` and `state` there. Next:\n  useradd --system {user}\n  install -d -o {user} {mode} {}\n{load}  systemctl daemon-reload\n  systemctl enable --now palisade-broker\n{agents}",
        unit.display(),
        folder.display(),
    ))?;
    Ok(Exit::Permitted)
}

/// What systemd has of the passwords.
struct Credentials {
    /// The lines of the unit by which it opens them.
    lines: String,
    /// Whether a connection wants a password that systemd does not have.
    are_missing: bool,
}

/// Looks which passwords are stored as systemd's credentials.
fn list_credentials(file: &ConfigFile, folder: &Path) -> Result<Credentials, Failure> {
    let store = CredentialStore::new(folder);
    let mut credentials = Credentials {
        lines: String::new(),
        are_missing: false,
    };
    for name in file.names() {
        let (_, database) = file.connection(name)?;
        let Some(target) = find_target(database) else {
            continue;
        };
        let identity = identify(name, target);
        let path = store.path(&identity);
        if path.exists() {
            let credential = CredentialStore::credential(&identity).replace('%', "%%");
            let path = program_word(&path)?;
            credentials.lines += &format!("LoadCredentialEncrypted={credential}:{path}\n");
        } else {
            credentials.are_missing = true;
        }
    }
    Ok(credentials)
}

fn make_absolute(path: &Path) -> Result<std::path::PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::Usage(format!("`{}`: {error}", path.display())))
}

/// A path as a word of a unit.
fn program_word(path: &Path) -> Result<String, Failure> {
    let text = path.to_string_lossy();
    if text.contains(['"', '\\', '$', '\n', '\u{fffd}', ' ']) {
        return Err(Failure::Usage(format!(
            "`{}` cannot stand in a unit\n  help: name a path of letters, digits, `-`, `_`, `.` and `/`",
            path.display()
        )));
    }
    Ok(text.replace('%', "%%"))
}

/// The unit. What it forbids, the broker does not need.
fn print_unit(
    program: &str,
    config: &str,
    folder: &str,
    (user, group, credentials): (&str, Option<u32>, &str),
    stop: u64,
) -> String {
    // It gives its socket and its secrets to the group, which takes a member of it.
    let (group, calls) = match group {
        Some(group) => (
            format!("SupplementaryGroups={group}\n"),
            "SystemCallFilter=chown fchown fchownat lchown\n",
        ),
        None => (String::new(), ""),
    };
    format!(
        "[Unit]
Description=Palisade's broker
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={program} broker --config {config}
User={user}
{group}{credentials}Restart=on-failure
TimeoutStopSec={stop}
UMask=0077
LimitCORE=0
LimitMEMLOCK=infinity
ReadWritePaths={folder}
CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
PrivateDevices=yes
PrivateMounts=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=read-only
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProcSubset=pid
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
DevicePolicy=closed
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallFilter=setrlimit prlimit64
{calls}
[Install]
WantedBy=multi-user.target
"
    )
}
