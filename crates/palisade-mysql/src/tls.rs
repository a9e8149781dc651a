//! TLS: as the URL says, and never less.

use std::{
    fs,
    path::{Path, PathBuf},
};

use mysql_async::{ClientIdentity, SslOpts};
use palisade_pool::{
    ConfigError,
    tls::{machine_authorities, read_certificates},
};

/// What must be true of a connection: `ssl-mode` of MySQL's clients without the mode that gives way
/// (<https://dev.mysql.com/doc/refman/9.0/en/connection-options.html#option_general_ssl-mode>), and without
/// `VERIFY_CA`, which the driver cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// Plain text.
    Disabled,
    /// Encrypted, without a check of the server's identity: no third party can listen, but it may stand between.
    Required,
    /// Encrypted, to the server whose name the URL gives.
    VerifyIdentity,
}

impl SslMode {
    /// The mode called `name` in a URL.
    pub(crate) fn from_name(name: &str) -> Result<Self, ConfigError> {
        match name.to_ascii_uppercase().as_str() {
            "DISABLED" => Ok(Self::Disabled),
            "REQUIRED" => Ok(Self::Required),
            "VERIFY_IDENTITY" => Ok(Self::VerifyIdentity),
            "PREFERRED" => Err(ConfigError::option(
                "ssl-mode",
                "`PREFERRED` gives way to plain text; write `VERIFY_IDENTITY`, `REQUIRED` or `DISABLED`",
            )),
            "VERIFY_CA" => Err(ConfigError::option(
                "ssl-mode",
                "`VERIFY_CA` is not supported; write `VERIFY_IDENTITY`, for which the server's certificate must hold \
                 its name, or `REQUIRED`",
            )),
            _ => Err(ConfigError::option(
                "ssl-mode",
                "it must be `DISABLED`, `REQUIRED` or `VERIFY_IDENTITY`",
            )),
        }
    }
}

/// What a URL says of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub(crate) mode: SslMode,
    /// A file of certificates of authorities; those of the machine if there is none.
    pub(crate) ca: Option<PathBuf>,
    /// Files of our own certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl TlsOptions {
    /// Reads the files. Nothing where connections are plain.
    pub(crate) fn load(&self) -> Result<Option<SslOpts>, ConfigError> {
        let opts = match self.mode {
            SslMode::Disabled => return Ok(None),
            // Whom the driver's own list of authorities knows is of no interest, but there must be one.
            SslMode::Required => SslOpts::default().with_danger_accept_invalid_certs(true),
            SslMode::VerifyIdentity => {
                let roots = match &self.ca {
                    Some(path) => read_certificates(path)?,
                    None => machine_authorities("ssl-ca")?,
                };
                SslOpts::default()
                    .with_disable_built_in_roots(true)
                    .with_root_certs(roots.iter().map(|der| der.to_vec().into()).collect())
            }
        };
        let identity = match &self.identity {
            None => None,
            Some((certificate, key)) => Some(ClientIdentity::new(
                read(certificate)?.into(),
                read(key)?.into(),
            )),
        };
        Ok(Some(opts.with_client_identity(identity)))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    fs::read(path).map_err(|why| ConfigError::file(path, &why.to_string()))
}
