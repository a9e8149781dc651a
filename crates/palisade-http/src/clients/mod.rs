//! Client certificates (mutual TLS): a third way to say who asks, beside tokens of the server's own and of authorization servers.
//!
//! A certificate is asked when a connection begins, and again by every request, at most a second after it was asked last. So what
//! has ended or is revoked lets in no more, however long the connection was open. Sessions are never resumed: each
//! connection brings its certificate.
//!
//! | of a certificate | is asked |
//! |---|---|
//! | its signature | that it leads to one of the authorities |
//! | its times | that it is now between them |
//! | extended key usage | that it is there, and names client authentication |
//! | lists of revoked certificates, where there are some | that one of each authority on the way is there and has not ended, and that the certificate is in none |
//! | its names | that the lines of a [`ClaimMap`](crate::ClaimMap) make one principal of them |

mod names;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustls::{
    CertificateError as Fault, DigitallySignedStruct, DistinguishedName, RootCertStore,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::ring,
    pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

pub(crate) use names::{Bearer, Name, Named};

use crate::{certificates::CertificateError, claim_file::ClaimFile, file_stamp::FileStamp};

/// How often it is looked whether the files are others, and whether a certificate is still good.
const LOOK: Duration = Duration::from_secs(1);

/// What an operator decides about client certificates.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The PEM file of authorities whose certificates count.
    pub authorities: PathBuf,
    /// The PEM file of their lists of revoked certificates. With it, every authority needs a list.
    pub revoked: Option<PathBuf>,
    /// Who asks, by the names in a certificate; read by [`ClaimFile::read_for_certificates`].
    pub claims: ClaimFile,
    /// Whether a connection without a certificate is refused, whatever else it would bring.
    pub is_required: bool,
}

/// Whose client certificates count. When the files change, connections that are open are asked by the new ones too. What cannot be read
/// is told in the log, and the old ones stay in force. Clones share everything.
#[derive(Debug, Clone)]
pub struct ClientAuthorities {
    options: Arc<ClientOptions>,
    current: Arc<Mutex<Current>>,
}

#[derive(Debug)]
struct Current {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Another one for each verifier.
    version: u64,
    stamp: Stamp,
    looked: Instant,
}

/// What the files were when they were read.
type Stamp = [Option<FileStamp>; 2];

impl ClientAuthorities {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be read, or has nothing in it.
    pub fn read(options: ClientOptions) -> Result<Self, CertificateError> {
        let stamp = stamp(&options);
        let verifier = read_verifier(&options)?;
        Ok(Self {
            options: Arc::new(options),
            current: Arc::new(Mutex::new(Current {
                verifier,
                version: 0,
                stamp,
                looked: Instant::now(),
            })),
        })
    }

    /// What asks certificates now, and its version.
    fn verifier(&self) -> (u64, Arc<dyn ClientCertVerifier>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= LOOK {
            current.looked = Instant::now();
            let stamp = stamp(&self.options);
            if stamp != current.stamp {
                match read_verifier(&self.options) {
                    Ok(verifier) => {
                        tracing::info!("the authorities of clients were read again");
                        current.verifier = verifier;
                        current.version = current.version.saturating_add(1);
                    }
                    Err(error) => {
                        tracing::error!("the authorities of clients stay the old ones: {error}");
                    }
                }
                current.stamp = stamp;
            }
        }
        (current.version, Arc::clone(&current.verifier))
    }

    /// What asks the certificates of new connections.
    pub(crate) fn handshake_verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(HandshakeVerifier(self.clone()))
    }
}

fn stamp(options: &ClientOptions) -> Stamp {
    let revoked = options.revoked.as_deref();
    [
        FileStamp::look(&options.authorities),
        revoked.and_then(FileStamp::look),
    ]
}

fn read_verifier(options: &ClientOptions) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let path = options.authorities.as_path();
    let mut roots = RootCertStore::empty();
    for authority in read_pem::<CertificateDer<'static>>(path, "certificate")? {
        roots
            .add(authority)
            .map_err(|error| CertificateError::new(path, error))?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    // A list that has ended would hide what was revoked since: it lets in none of its authority's.
    let builder = match &options.revoked {
        None => builder,
        Some(revoked) => builder
            .with_crls(read_pem::<CertificateRevocationListDer<'static>>(
                revoked,
                "list of revoked certificates",
            )?)
            .enforce_revocation_expiration(),
    };
    let faulty = options.revoked.as_deref().unwrap_or(path);
    builder
        .build()
        .map_err(|error| CertificateError::new(faulty, error))
}

/// Everything of a kind in a PEM file, of which it must have one at least.
fn read_pem<T: PemObject>(path: &Path, kind: &str) -> Result<Vec<T>, CertificateError> {
    let read = T::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<T>, _>>);
    let read = read.map_err(|error| CertificateError::new(path, error))?;
    match read.is_empty() {
        true => Err(CertificateError::new(path, format!("it holds no {kind}"))),
        false => Ok(read),
    }
}

/// Whether a certificate is good now.
fn verify(
    verifier: &dyn ClientCertVerifier,
    certificate: &CertificateDer<'_>,
    rest: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<ClientCertVerified, rustls::Error> {
    let verified = verifier.verify_client_cert(certificate, rest, now)?;
    match names::is_for_clients(certificate) {
        true => Ok(verified),
        false => Err(rustls::Error::InvalidCertificate(Fault::InvalidPurpose)),
    }
}

/// Asks the certificates of new connections by the files as they are then.
#[derive(Debug)]
struct HandshakeVerifier(ClientAuthorities);

impl ClientCertVerifier for HandshakeVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.options.is_required
    }

    /// None: they would be those of the files as they were.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let (_, verifier) = self.0.verifier();
        verify(&*verifier, end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let (_, verifier) = self.0.verifier();
        verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let (_, verifier) = self.0.verifier();
        verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let (_, verifier) = self.0.verifier();
        verifier.supported_verify_schemes()
    }
}

/// The certificate that a connection's client showed, and has the key of.
pub(crate) struct PeerCertificate {
    authorities: ClientAuthorities,
    /// It, and those that lead to an authority.
    chain: Vec<CertificateDer<'static>>,
    names: Vec<Name>,
    /// By which version it was found good, and when.
    good: Mutex<Option<(u64, Instant)>>,
}

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerCertificate")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl PeerCertificate {
    /// What a connection's client showed; `chain` begins with its own.
    pub(crate) fn new(authorities: ClientAuthorities, chain: &[CertificateDer<'_>]) -> Self {
        let chain: Vec<_> = chain.iter().map(|one| one.clone().into_owned()).collect();
        Self {
            names: chain
                .first()
                .map(|own| names::read_names(own))
                .unwrap_or_default(),
            authorities,
            chain,
            good: Mutex::default(),
        }
    }

    /// Whether it is good now.
    pub(crate) fn is_good(&self) -> bool {
        let (version, verifier) = self.authorities.verifier();
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if good.is_some_and(|(by, since)| by == version && since.elapsed() < LOOK) {
            return true;
        }
        *good = None;
        let Some((own, rest)) = self.chain.split_first() else {
            return false;
        };
        match verify(&*verifier, own, rest, UnixTime::now()) {
            Ok(_) => {
                *good = Some((version, Instant::now()));
                true
            }
            Err(error) => {
                tracing::info!(names = ?self.names, "a client's certificate lets in no more: {error}");
                false
            }
        }
    }

    /// Whose it is, by the file of claims as it is now.
    pub(crate) fn identify(&self) -> Named {
        names::identify(&self.authorities.options.claims.map(), &self.names)
    }
}
