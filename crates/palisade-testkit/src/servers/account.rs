//! Whom a server runs as: PostgreSQL and MySQL refuse to run as root.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::Path,
    process::Command,
};

use super::error::ServerError;

/// A user id with its group. As root this is the server's own account or `nobody`; as anybody else
/// it is that user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    uid: u32,
    gid: u32,
    /// Whether a change of account is needed, that is: whether we are root.
    change: bool,
}

impl Account {
    /// Chooses among `preferred` names, in order, and then `nobody`.
    pub(super) fn choose(preferred: &[&str]) -> Result<Self, ServerError> {
        let uid = rustix::process::geteuid();
        if !uid.is_root() {
            return Ok(Self {
                uid: uid.as_raw(),
                gid: rustix::process::getegid().as_raw(),
                change: false,
            });
        }
        let path = Path::new("/etc/passwd");
        let passwd =
            fs::read_to_string(path).map_err(|why| ServerError::system("read", path, &why))?;
        preferred
            .iter()
            .chain(&["nobody"])
            .find_map(|name| entry(&passwd, name))
            .map(|(uid, gid)| Self {
                uid,
                gid,
                change: true,
            })
            .ok_or_else(|| ServerError::System {
                what: "find an account that is not root".to_owned(),
                why: format!("neither {} nor nobody exists", preferred.join(" nor ")),
            })
    }

    /// The number that names this account.
    pub(super) fn uid(self) -> u32 {
        self.uid
    }

    /// Makes `command` run as this account. Its supplementary groups go, too.
    pub(super) fn apply(self, command: &mut Command) {
        if self.change {
            command.uid(self.uid).gid(self.gid);
        }
    }

    /// Gives `path` to this account.
    pub(super) fn own(self, path: &Path) -> Result<(), ServerError> {
        if self.change {
            chown(path, Some(self.uid), Some(self.gid))
                .map_err(|why| ServerError::system("chown", path, &why))?;
        }
        Ok(())
    }
}

fn entry(passwd: &str, name: &str) -> Option<(u32, u32)> {
    let line = passwd
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let uid = fields.next()?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some((uid, gid))
}
