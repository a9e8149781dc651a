//! `palisade broker install-service`: a unit of systemd.

use std::{io::Write as _, path::Path};

use crate::{
    broker_args::ServiceArguments,
    broker_config::BrokerSetup,
    exit::{Exit, Failure},
    output,
};

/// Writes the unit, or prints it.
pub(super) fn install(
    config: &Path,
    setup: &BrokerSetup,
    arguments: &ServiceArguments,
) -> Result<Exit, Failure> {
    let ServiceArguments { user, unit, print } = arguments;
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
    let config = make_absolute(config)?;
    let folder = make_absolute(&setup.directory)?;
    let text = print_unit(
        &program_word(&program)?,
        &program_word(&config)?,
        &program_word(&folder)?,
        user,
    );
    if *print {
        output::text(&text)?;
        return Ok(Exit::Permitted);
    }
    let written =
        std::fs::File::create_new(unit).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        Failure::Usage(format!(
            "`{}` cannot be written: {error}\n  help: remove it if it is there, run this as root, or name another file by `--unit`",
            unit.display()
        ))
    })?;
    output::text(&format!(
        "{} is written. The broker can write to its folder alone: put `audit` and `state` there. Next:\n  useradd --system {user}\n  install -d -o {user} -m 700 {}\n  runuser -u {user} -- {} load-connections --config {}\n  systemctl daemon-reload\n  systemctl enable --now palisade-broker\n",
        unit.display(),
        folder.display(),
        program.display(),
        config.display()
    ))?;
    Ok(Exit::Permitted)
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
fn print_unit(program: &str, config: &str, folder: &str, user: &str) -> String {
    format!(
        "[Unit]
Description=Palisade's broker
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={program} broker --config {config}
User={user}
Restart=on-failure
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

[Install]
WantedBy=multi-user.target
"
    )
}
