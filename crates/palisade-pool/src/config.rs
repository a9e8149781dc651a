//! What the configurations of both servers have in common.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a connection may take to come about, unless the configuration says otherwise.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A configuration that cannot be used. No text of it repeats the URL, which can hold a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is no connection URL.
    #[error("the connection URL cannot be read: {0}")]
    Url(String),
    /// An option does not exist, or has no such value.
    #[error("the connection URL's option `{option}` cannot be used: {reason}")]
    Option {
        /// Its name.
        option: String,
        /// Why not.
        reason: &'static str,
    },
    /// A file of certificates or keys cannot be used.
    #[error("cannot use `{path}`: {reason}")]
    File {
        /// The path given.
        path: String,
        /// Why not.
        reason: String,
    },
    /// There is no TLS to be had.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}

impl ConfigError {
    /// An option that does not exist, or has no such value.
    #[must_use]
    pub fn option(option: &str, reason: &'static str) -> Self {
        Self::Option {
            option: option.to_owned(),
            reason,
        }
    }

    /// A file that cannot be used.
    #[must_use]
    pub fn file(path: &Path, reason: &str) -> Self {
        Self::File {
            path: path.display().to_string(),
            reason: reason.to_owned(),
        }
    }
}

/// Files of certificates that a connection URL names.
#[derive(Debug, Clone, Default)]
pub struct CertificateFiles {
    /// Certificates of authorities; `system` for those that the machine trusts.
    pub authorities: Option<PathBuf>,
    /// Our own certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

impl CertificateFiles {
    /// Whether the URL names any of them.
    #[must_use]
    pub fn are_named(&self) -> bool {
        self.authorities.is_some() || self.certificate.is_some() || self.key.is_some()
    }

    /// The file of authorities; none for those that the machine trusts.
    #[must_use]
    pub fn authorities(&self) -> Option<PathBuf> {
        let path = self.authorities.clone();
        path.filter(|path| path != Path::new("system"))
    }

    /// Our own certificate and its key. `option` is the URL's option that names the certificate.
    ///
    /// # Errors
    /// `reason`, if the URL names only one of the two.
    pub fn identity(
        &self,
        option: &str,
        reason: &'static str,
    ) -> Result<Option<(PathBuf, PathBuf)>, ConfigError> {
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Ok(Some((certificate.clone(), key.clone()))),
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => Err(ConfigError::option(option, reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn files(authorities: Option<&str>, certificate: bool, key: bool) -> CertificateFiles {
        CertificateFiles {
            authorities: authorities.map(PathBuf::from),
            certificate: certificate.then(|| PathBuf::from("c.pem")),
            key: key.then(|| PathBuf::from("k.pem")),
        }
    }

    #[test]
    fn certificate_files_are_named_by_any_of_the_three() {
        for (files, are_named) in [
            (files(None, false, false), false),
            (files(Some("a.pem"), false, false), true),
            (files(None, true, false), true),
            (files(None, false, true), true),
        ] {
            assert_eq!(files.are_named(), are_named, "{files:?}");
        }
    }

    #[test]
    fn the_machines_own_authorities_are_no_file() {
        let named = |name| files(name, false, false).authorities();
        assert_eq!(named(Some("a.pem")), Some(PathBuf::from("a.pem")));
        assert_eq!(named(Some("system")), None);
        assert_eq!(named(None), None);
    }

    #[test]
    fn a_certificate_and_its_key_come_together() {
        let identity = |certificate, key| files(None, certificate, key).identity("cert", "both");
        assert_eq!(identity(false, false).unwrap(), None);
        let both = (PathBuf::from("c.pem"), PathBuf::from("k.pem"));
        assert_eq!(identity(true, true).unwrap(), Some(both));
        identity(true, false).unwrap_err();
        identity(false, true).unwrap_err();
    }
}
