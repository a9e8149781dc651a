//! The folders of a broker, and the secrets in them.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use crate::{
    broker::BrokerError,
    private::{Group, PrivateError, at, open_folder, read_file, write_file},
    secret::{is_secret, make_secret},
};

/// Bytes of a file with a secret that are looked at.
pub(crate) const SECRET_BYTES: u64 = 256;

/// Bytes of a socket's path that every system takes.
const SOCKET_PATH_BYTES: usize = 103;

/// Connections that the system keeps until the broker takes them. More wait in the order in which they came, behind no more than these.
const BACKLOG: i32 = 64;

/// Where a broker keeps what: one folder, with a folder in it for each that has other readers.
///
/// | path | who needs it |
/// |---|---|
/// | `run/palisade.sock` | relays: connecting needs no permission to write |
/// | `secret/token` | relays |
/// | `enrolments/NAME/token` | the relays of one enrolment |
/// | `admin/` | the operator: `status`, `end`, the lock, and hashes of sessions |
/// | `passwords/` | the broker |
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
    group: Group,
}

impl Layout {
    /// The folders in `root`. Processes of `group` may connect beside those of the broker's own user.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, group: Option<u32>) -> Self {
        Self {
            root: root.into(),
            group,
        }
    }

    /// The folder of all of them.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the socket.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The folder of the secret that relays bring.
    #[must_use]
    pub fn secret(&self) -> PathBuf {
        self.root.join("secret")
    }

    /// The folder of the secret of one enrolment.
    #[must_use]
    pub fn enrolment(&self, name: &str) -> PathBuf {
        self.root.join("enrolments").join(name)
    }

    /// The operator's folder.
    #[must_use]
    pub fn admin(&self) -> PathBuf {
        self.root.join("admin")
    }

    /// The folder of passwords.
    #[must_use]
    pub fn passwords(&self) -> PathBuf {
        self.root.join("passwords")
    }

    /// The socket in a folder.
    pub(crate) fn socket_in(run: &Path) -> PathBuf {
        run.join("palisade.sock")
    }

    /// The secret in a folder.
    pub(crate) fn token_in(secret: &Path) -> PathBuf {
        secret.join("token")
    }

    /// Makes the folder itself, which holds the others.
    ///
    /// # Errors
    /// If it is another's, or others may use it.
    pub fn open(&self) -> Result<(), PrivateError> {
        open_folder(&self.root, self.group)
    }

    /// Makes what is not there yet, and refuses what others could use. The lock is the broker's until it is dropped.
    pub(crate) fn prepare(&self, enrolments: &[&str]) -> Result<(File, Secrets), BrokerError> {
        self.open()?;
        open_folder(&self.admin(), None)?;
        let lock = self.lock()?;
        let admin = keep_secret(&self.admin(), None)?;
        open_folder(&self.run(), self.group)?;
        open_folder(&self.secret(), self.group)?;
        let token = keep_secret(&self.secret(), self.group)?;
        let mut of_enrolments = Vec::new();
        if !enrolments.is_empty() {
            open_folder(&self.root.join("enrolments"), self.group)?;
        }
        for name in enrolments {
            let folder = self.enrolment(name);
            open_folder(&folder, self.group)?;
            of_enrolments.push(keep_secret(&folder, self.group)?);
        }
        Ok((
            lock,
            Secrets {
                token,
                admin,
                enrolments: of_enrolments,
            },
        ))
    }

    fn lock(&self) -> Result<File, BrokerError> {
        let path = self.admin().join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(at(&path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(BrokerError::Running(self.root.clone())),
            Err(error) => Err(at(&path)(error.into()).into()),
        }
    }

    /// Listens at the socket. What a broker left behind there is replaced: the lock says that no broker listens.
    pub(crate) fn listen(&self) -> Result<tokio::net::UnixListener, BrokerError> {
        let path = Self::socket_in(&self.run());
        let length = path.as_os_str().len();
        if length > SOCKET_PATH_BYTES {
            return Err(BrokerError::LongPath {
                path,
                most: SOCKET_PATH_BYTES,
            });
        }
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.file_type().is_socket() => {
                fs::remove_file(&path).map_err(at(&path))?;
            }
            Ok(_) => {
                return Err(PrivateError::Kind {
                    path,
                    wanted: "a socket",
                }
                .into());
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&path)(error).into()),
        }
        // From the first moment its owner's alone.
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = tokio::net::UnixListener::bind(&path);
        rustix::process::umask(before);
        let listener = bound.map_err(at(&path))?;
        let shortened = rustix::net::listen(&listener, BACKLOG);
        shortened.map_err(|error| at(&path)(error.into()))?;
        if let Some(group) = self.group {
            std::os::unix::fs::lchown(&path, None, Some(group)).map_err(at(&path))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).map_err(at(&path))?;
        }
        Ok(listener)
    }
}

/// The secrets of a broker.
pub(crate) struct Secrets {
    /// What relays bring.
    pub(crate) token: String,
    /// What the operator brings.
    pub(crate) admin: String,
    /// What the relays of each enrolment bring.
    pub(crate) enrolments: Vec<String>,
}

/// The secret of a folder, which is made where there is none.
fn keep_secret(folder: &Path, group: Group) -> Result<String, BrokerError> {
    let path = Layout::token_in(folder);
    if let Some(text) = read_file(&path, SECRET_BYTES, group)?
        && is_secret(text.trim_end())
    {
        return Ok(text.trim_end().to_owned());
    }
    let secret = make_secret().map_err(|error| BrokerError::Random(error.to_string()))?;
    write_file(&path, format!("{secret}\n").as_bytes(), group)?;
    Ok(secret)
}
