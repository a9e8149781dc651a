//! TLS: as the URL says, and never less.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use palisade_pool::{
    ConfigError,
    tls::{machine_authorities, read_certificates},
};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What must be true of a connection: `sslmode` of libpq without the modes that give way
/// (<https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-PROTECTION>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// Plain text.
    Disable,
    /// Encrypted, without a check of the server's identity: no third party can listen, but it may stand between. With
    /// `sslrootcert`, as [`VerifyCa`](Self::VerifyCa).
    Require,
    /// Encrypted, to somebody whom the certificate authority knows.
    VerifyCa,
    /// Encrypted, to the server whose name the URL gives.
    VerifyFull,
}

impl SslMode {
    /// The mode called `name` in a URL.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "disable" => Some(Self::Disable),
            "require" => Some(Self::Require),
            "verify-ca" => Some(Self::VerifyCa),
            "verify-full" => Some(Self::VerifyFull),
            _ => None,
        }
    }
}

/// What a URL says of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub(crate) mode: SslMode,
    /// A file of certificates of authorities; those of the machine if there is none.
    pub(crate) root_cert: Option<PathBuf>,
    /// Files of our own certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// How connections are made.
#[derive(Clone)]
pub(crate) enum Tls {
    Plain,
    Encrypted(MakeRustlsConnect),
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Encrypted(_) => "Encrypted",
        })
    }
}

impl TlsOptions {
    /// Reads the files.
    pub(crate) fn load(&self) -> Result<Tls, ConfigError> {
        let roots = match (self.mode, &self.root_cert) {
            (SslMode::Disable, _) => return Ok(Tls::Plain),
            (SslMode::Require, None) => None,
            (SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull, Some(path)) => {
                Some(read_roots(path)?)
            }
            (SslMode::VerifyCa | SslMode::VerifyFull, None) => Some(machine_roots()?),
        };
        let provider = Arc::new(ring::default_provider());
        let tls = |error: Error| ConfigError::Tls(error.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(tls)?;
        let builder = match (self.mode, roots) {
            (SslMode::VerifyFull, Some(roots)) => builder.with_root_certificates(roots),
            (_, roots) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyName { roots, provider })),
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = read_certificates(certificate)?;
                let key_der = PrivateKeyDer::from_pem_file(key)
                    .map_err(|why| ConfigError::file(key, &why.to_string()))?;
                builder
                    .with_client_auth_cert(chain, key_der)
                    .map_err(|why| ConfigError::file(certificate, &why.to_string()))?
            }
        };
        // Asked for by servers that take TLS from the first byte (`sslnegotiation=direct`).
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Tls::Encrypted(MakeRustlsConnect::new(config)))
    }
}

fn read_roots(path: &Path) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots
            .add(certificate)
            .map_err(|why| ConfigError::file(path, &why.to_string()))?;
    }
    Ok(roots)
}

fn machine_roots() -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(machine_authorities("sslrootcert")?);
    Ok(roots)
}

/// Looks at who signed the certificate, but not at the name in it; or, without roots, at neither. That the
/// server holds the certificate's key is always seen to.
#[derive(Debug)]
struct AnyName {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // A certificate that cannot be read is none.
        let certificate = ParsedCertificate::try_from(end_entity)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if let Some(roots) = &self.roots {
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
