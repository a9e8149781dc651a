//! The certificate that the server shows, and what becomes of it when its files change.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::NoServerSessionStorage,
};

use crate::{clients::ClientAuthorities, file_stamp::FileStamp};

/// How often it is looked whether the files are others.
const LOOK: Duration = Duration::from_secs(1);

/// Why a certificate cannot be shown, or why none of clients can be taken.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct CertificateError {
    path: PathBuf,
    why: String,
}

impl CertificateError {
    pub(crate) fn new(path: &Path, why: impl ToString) -> Self {
        Self {
            path: path.to_path_buf(),
            why: why.to_string(),
        }
    }
}

/// A certificate with its key, in PEM files. When they change, new connections are shown the new one; what cannot be read
/// is told in the log, and the old one stays. Clones share everything.
#[derive(Debug, Clone)]
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    clients: Option<ClientAuthorities>,
    current: Arc<Mutex<Current>>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    stamp: Stamp,
    looked: Instant,
}

/// What the files were when they were read.
type Stamp = [Option<FileStamp>; 2];

impl Certificates {
    /// Reads the certificate, with those that lead to an authority, and its key.
    ///
    /// # Errors
    /// If a file cannot be read, or the key is that of another certificate.
    pub fn read(certificate: PathBuf, key: PathBuf) -> Result<Self, CertificateError> {
        Self::read_for(certificate, key, None)
    }

    /// The same for clients that show certificates too.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_with_clients(
        certificate: PathBuf,
        key: PathBuf,
        clients: ClientAuthorities,
    ) -> Result<Self, CertificateError> {
        Self::read_for(certificate, key, Some(clients))
    }

    fn read_for(
        certificate: PathBuf,
        key: PathBuf,
        clients: Option<ClientAuthorities>,
    ) -> Result<Self, CertificateError> {
        let stamp = stamp(&certificate, &key);
        let config = read_config(&certificate, &key, clients.as_ref())?;
        Ok(Self {
            certificate,
            key,
            clients,
            current: Arc::new(Mutex::new(Current {
                config,
                stamp,
                looked: Instant::now(),
            })),
        })
    }

    /// Whose client certificates count, if any do.
    pub(crate) fn clients(&self) -> Option<&ClientAuthorities> {
        self.clients.as_ref()
    }

    /// What a new connection is shown.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= LOOK {
            current.looked = Instant::now();
            let stamp = stamp(&self.certificate, &self.key);
            if stamp != current.stamp {
                match read_config(&self.certificate, &self.key, self.clients.as_ref()) {
                    Ok(config) => {
                        tracing::info!("the certificate was read again");
                        current.config = config;
                    }
                    Err(error) => {
                        tracing::error!("the certificate stays the old one: {error}");
                    }
                }
                // Written in two steps, they are read again when the second is there.
                current.stamp = stamp;
            }
        }
        Arc::clone(&current.config)
    }
}

fn stamp(certificate: &Path, key: &Path) -> Stamp {
    [certificate, key].map(FileStamp::look)
}

/// TLS 1.3 and 1.2.
fn read_config(
    certificate: &Path,
    key: &Path,
    clients: Option<&ClientAuthorities>,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| CertificateError::new(certificate, error))?;
    if chain.is_empty() {
        return Err(CertificateError::new(
            certificate,
            "it holds no certificate",
        ));
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| CertificateError::new(key, error))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| CertificateError::new(certificate, error))?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(clients.handshake_verifier()),
    };
    let mut config = builder
        .with_single_cert(chain, private)
        .map_err(|error| CertificateError::new(key, error))?;
    if clients.is_some() {
        // A session that goes on would bring the certificate of its beginning, and it would not be asked again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
