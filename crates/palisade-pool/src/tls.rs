//! Certificates of authorities, from files and from the machine.

use std::path::Path;

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::config::ConfigError;

/// The certificates in the file at `path`, at least one.
///
/// # Errors
/// If the file cannot be read, or has none.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|why| ConfigError::file(path, &why.to_string()))?;
    if found.is_empty() {
        return Err(ConfigError::file(path, "it holds no certificate"));
    }
    Ok(found)
}

/// The authorities that the machine trusts, at least one. A certificate that cannot be read is left out: it is not trusted.
/// `option` is the URL's option that names a file instead.
///
/// # Errors
/// If the machine trusts none.
pub fn machine_authorities(option: &str) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let found = rustls_native_certs::load_native_certs();
    let usable: Vec<_> = found
        .certs
        .into_iter()
        .filter(|der| RootCertStore::empty().add(der.clone()).is_ok())
        .collect();
    if usable.is_empty() {
        let why: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        return Err(ConfigError::Tls(format!(
            "the machine trusts no certificate authority; name one with `{option}` ({})",
            why.join("; ")
        )));
    }
    Ok(usable)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_file_of_certificates_holds_one_at_least() {
        let path = std::env::temp_dir().join(format!("palisade-pem-{}", std::process::id()));
        let one = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";
        std::fs::write(&path, one.repeat(2)).unwrap();
        assert_eq!(read_certificates(&path).unwrap().len(), 2);
        std::fs::write(&path, "").unwrap();
        let error = read_certificates(&path).unwrap_err().to_string();
        assert!(error.contains("it holds no certificate"), "{error}");
        std::fs::remove_file(&path).unwrap();
        read_certificates(&path).unwrap_err();
    }
}
