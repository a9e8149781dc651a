//! The keys of an issuer, as they are fetched, remembered and replaced.
//!
//! | the keys that are remembered | and the token's key | are |
//! |---|---|---|
//! | are younger than [`FRESH`] | is among them | used |
//! | are younger than [`STALE`] | is among them | used, and fetched anew beside it |
//! | are none, or older | – | fetched; where they cannot be had, the token is refused |
//! | – | is not among them | fetched, at most once in [`PAUSE`] |
//!
//! A fetch takes at most [`PATIENCE`] and [`MAX_DOCUMENT`] bytes, follows no redirect, and happens once at a time.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::task::spawn_blocking;

use crate::oauth::{
    Denied, discovery,
    jwt::{Claims, Jwt},
    keys::{Algorithm, Key, read_keys},
};

/// For how long keys are used without a look whether there are others. A key that its issuer takes back is trusted as long.
const FRESH: Duration = Duration::from_secs(10 * 60);

/// For how long they are used where the issuer does not answer.
const STALE: Duration = Duration::from_secs(6 * 60 * 60);

/// Between two fetches.
const PAUSE: Duration = Duration::from_secs(10);

/// How long a document may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// The largest document, in bytes.
const MAX_DOCUMENT: u64 = 256 * 1024;

/// An authorization server whose tokens count.
#[derive(Debug, Clone)]
pub struct Issuer {
    name: String,
    keys: Option<String>,
    algorithms: Vec<Algorithm>,
}

/// Why there can be no such issuer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerError {
    /// Everybody between here and there could make tokens.
    #[error("`{0}` is not encrypted; write an address that begins with `https://`")]
    Plain(String),
    /// It is no address.
    #[error("`{0}` is no address without a query, as `https://login.example.com`")]
    Address(String),
}

impl Issuer {
    /// The issuer that calls itself `name` in its tokens. Its keys are at `keys`; without it, where its metadata say. Its tokens
    /// are signed by one of `algorithms`; RS256 and ES256 if none are given.
    ///
    /// # Errors
    /// If an address is none, or is not encrypted and not of this machine.
    pub fn new(
        name: String,
        keys: Option<String>,
        algorithms: Vec<Algorithm>,
    ) -> Result<Self, IssuerError> {
        check_address(&name)?;
        if let Some(keys) = &keys {
            check_address(keys)?;
        }
        let algorithms = match algorithms.is_empty() {
            true => vec![Algorithm::Rs256, Algorithm::Es256],
            false => algorithms,
        };
        Ok(Self {
            name,
            keys,
            algorithms,
        })
    }

    /// What it calls itself.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its keys are, if the operator said so.
    pub(crate) fn keys(&self) -> Option<&str> {
        self.keys.as_deref()
    }

    /// The algorithm of this name, if its tokens may be signed by it.
    pub(crate) fn find_algorithm(&self, name: &str) -> Option<Algorithm> {
        let mut algorithms = self.algorithms.iter();
        algorithms.find(|one| one.name() == name).copied()
    }
}

/// Whether an address is encrypted or of this machine, so that nothing between can answer in another's name.
///
/// # Errors
/// If it is not.
pub(crate) fn check_address(address: &str) -> Result<(), IssuerError> {
    let is_plain_text = address
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'?' | b'#' | b'@' | b'\\'));
    let (scheme, rest) = address.split_once("://").unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    if !is_plain_text || host.is_empty() {
        return Err(IssuerError::Address(address.to_owned()));
    }
    let own = ["localhost", "127.0.0.1", "[::1]"];
    let is_own = own.iter().any(|own| {
        host.strip_prefix(own)
            .is_some_and(|port| port.is_empty() || port.starts_with(':'))
    });
    match scheme {
        "https" => Ok(()),
        "http" if is_own => Ok(()),
        "http" => Err(IssuerError::Plain(address.to_owned())),
        _ => Err(IssuerError::Address(address.to_owned())),
    }
}

/// What is remembered.
#[derive(Debug, Default)]
struct Remembered {
    keys: Arc<Vec<Key>>,
    /// When they came.
    fetched: Option<Instant>,
    /// When they were asked for last.
    tried: Option<Instant>,
}

/// Fetches the keys of one issuer.
pub(crate) struct KeySource {
    issuer: Issuer,
    agent: ureq::Agent,
    remembered: Mutex<Remembered>,
    /// Held while they are fetched.
    fetching: tokio::sync::Mutex<()>,
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeySource").field(&self.issuer).finish()
    }
}

impl KeySource {
    pub(crate) fn new(issuer: Issuer) -> Self {
        let config = ureq::Agent::config_builder()
            .max_redirects(0)
            .timeout_global(Some(PATIENCE))
            .build();
        Self {
            issuer,
            agent: config.into(),
            remembered: Mutex::default(),
            fetching: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// What `jwt` claims.
    ///
    /// # Errors
    /// If no key of the issuer's signed it, or the keys cannot be had.
    pub(crate) async fn verify(
        self: &Arc<Self>,
        jwt: Jwt<'_>,
        algorithm: Algorithm,
    ) -> Result<Claims, Denied> {
        let keys = self.find_keys(jwt.key_name()).await?;
        let name = jwt.key_name().map(str::to_owned);
        let fitting = keys.iter().filter(|key| key.is_named(name.as_deref()));
        jwt.open(fitting, algorithm)
            .ok_or(Denied::Invalid("no key of its issuer signed it"))
    }

    /// The keys, with that called `name` where it can be had.
    async fn find_keys(self: &Arc<Self>, name: Option<&str>) -> Result<Arc<Vec<Key>>, Denied> {
        let has_key = |keys: &[Key]| keys.iter().any(|key| key.is_named(name));
        if let Some((keys, age)) = self.remembered()
            && has_key(&keys)
        {
            if age >= FRESH && self.may_try() {
                let source = Arc::clone(self);
                // No request waits for it: the next request finds what it brings.
                tokio::spawn(async move { source.fetch().await });
            }
            return Ok(keys);
        }
        if self.may_try() {
            self.fetch().await;
        }
        match self.remembered() {
            Some((keys, _)) if has_key(&keys) => Ok(keys),
            Some(_) => Err(Denied::Invalid("its key is not known")),
            None => Err(Denied::Unavailable),
        }
    }

    /// The keys and their age, while they may be used.
    fn remembered(&self) -> Option<(Arc<Vec<Key>>, Duration)> {
        let remembered = self.lock();
        let age = remembered.fetched?.elapsed();
        (age < STALE).then(|| (Arc::clone(&remembered.keys), age))
    }

    /// Whether enough time has passed since the last try.
    fn may_try(&self) -> bool {
        let tried = self.lock().tried;
        tried.is_none_or(|tried| tried.elapsed() >= PAUSE)
    }

    /// Fetches the keys, unless another has begun to: then it waits for that.
    async fn fetch(self: &Arc<Self>) {
        let _alone = self.fetching.lock().await;
        if !self.may_try() {
            return;
        }
        self.lock().tried = Some(Instant::now());
        let source = Arc::clone(self);
        let fetched = spawn_blocking(move || source.fetch_keys()).await;
        match fetched.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(keys) => {
                let mut remembered = self.lock();
                remembered.keys = Arc::new(keys);
                remembered.fetched = Some(Instant::now());
            }
            Err(why) => {
                let issuer = self.issuer.name();
                tracing::error!("the keys of the issuer `{issuer}` cannot be fetched: {why}");
            }
        }
    }

    fn fetch_keys(&self) -> Result<Vec<Key>, String> {
        let read = |address: &str| self.read(address);
        let address = match self.issuer.keys() {
            Some(address) => address.to_owned(),
            None => discovery::find_keys_address(self.issuer.name(), read)?,
        };
        let keys = read_keys(&self.read(&address)?)?;
        match keys.is_empty() {
            true => Err(format!(
                "{address} has no key by which tokens could be verified"
            )),
            false => Ok(keys),
        }
    }

    /// The document at `address`.
    fn read(&self, address: &str) -> Result<Vec<u8>, String> {
        let why = |error: &dyn fmt::Display| format!("{address}: {error}");
        let mut response = self
            .agent
            .get(address)
            .call()
            .map_err(|error| why(&error))?;
        if response.status() != 200 {
            return Err(why(&response.status()));
        }
        let body = response.body_mut().with_config().limit(MAX_DOCUMENT);
        body.read_to_vec().map_err(|error| why(&error))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_for_the_machine_itself() {
        for good in [
            "https://login.example.com",
            "https://login.example.com/realms/main",
            "http://127.0.0.1:8080/a",
            "http://localhost",
            "http://[::1]:1",
        ] {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for plain in [
            "http://login.example.com",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
        ] {
            assert_eq!(
                check_address(plain),
                Err(IssuerError::Plain(plain.to_owned()))
            );
        }
        for bad in [
            "",
            "login",
            "https://",
            "ftp://a",
            "https://a?b",
            "https://a\"b",
            "http://localhost@example.com",
        ] {
            assert_eq!(
                check_address(bad),
                Err(IssuerError::Address(bad.to_owned()))
            );
        }
    }
}
