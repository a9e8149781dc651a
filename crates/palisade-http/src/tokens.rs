//! Where tokens are: in a file, or in a store that several servers share.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use palisade::session::Principal;
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    token::{Token, TokenName},
    token_file::{TokenEntry, TokenFile, TokenFileError},
};

/// How often a server looks at a shared store.
const LOOK: Duration = Duration::from_millis(500);

/// How old what was read of a shared store may be. After that no token is known, so that a revoked token is not used on.
const OLDEST: Duration = Duration::from_secs(5);

/// Where several servers keep their tokens: texts of JSON, by name.
pub trait TokenStore: Send + Sync {
    /// All of them.
    ///
    /// # Errors
    /// If the store does not work.
    fn list(&self) -> Result<Vec<String>, String>;

    /// Keeps one; false if there is one of this name.
    ///
    /// # Errors
    /// If the store does not work.
    fn keep(&self, name: &str, text: &str) -> Result<bool, String>;

    /// Deletes one; false if there is none of this name.
    ///
    /// # Errors
    /// If the store does not work.
    fn delete(&self, name: &str) -> Result<bool, String>;
}

/// The tokens of a server.
#[derive(Debug, Clone)]
pub enum Tokens {
    /// In a file.
    File(TokenFile),
    /// In a store.
    Shared(SharedTokens),
}

impl From<TokenFile> for Tokens {
    fn from(file: TokenFile) -> Self {
        Self::File(file)
    }
}

impl From<SharedTokens> for Tokens {
    fn from(shared: SharedTokens) -> Self {
        Self::Shared(shared)
    }
}

impl Tokens {
    /// All of them.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn entries(&self) -> Result<Arc<Vec<TokenEntry>>, TokenFileError> {
        match self {
            Self::File(file) => file.entries(),
            Self::Shared(shared) => shared.entries(),
        }
    }

    /// The entry of `token`, if it is there and has not ended.
    ///
    /// # Errors
    /// As [`entries`](Self::entries).
    pub fn find(&self, token: &Token) -> Result<Option<TokenEntry>, TokenFileError> {
        let hash = token.hash();
        let now = now();
        let entries = self.entries()?;
        // A hash of a random text tells nothing by how long it takes to compare.
        let found = entries.iter().find(|entry| entry.sha256 == hash);
        Ok(found.filter(|entry| !entry.is_expired(now)).cloned())
    }

    /// Makes a token for `principal` that ends after `lifetime`, and keeps its hash.
    ///
    /// # Errors
    /// If there is one of this name, or it cannot be kept.
    pub fn create(
        &self,
        name: TokenName,
        principal: &Principal,
        lifetime: Option<Duration>,
    ) -> Result<(Token, TokenEntry), TokenFileError> {
        let token = Token::generate()?;
        let created = now();
        let entry = TokenEntry {
            name,
            principal: principal.to_string(),
            sha256: token.hash(),
            created,
            expires: lifetime.map(|lifetime| created.saturating_add(lifetime.as_secs())),
        };
        match self {
            Self::File(file) => file.add(&entry)?,
            Self::Shared(shared) => shared.add(&entry)?,
        }
        Ok((token, entry))
    }

    /// Revokes a token: requests with it are refused, at other servers over the same store within a second.
    ///
    /// # Errors
    /// If there is none of this name, or it cannot be deleted.
    pub fn revoke(&self, name: &TokenName) -> Result<TokenEntry, TokenFileError> {
        match self {
            Self::File(file) => file.revoke(name),
            Self::Shared(shared) => shared.revoke(name),
        }
    }
}

/// What was read of a store, and when.
type Seen = Option<(Instant, Arc<Vec<TokenEntry>>)>;

/// Tokens in a store. Clones share what was read of it.
#[derive(Clone)]
pub struct SharedTokens {
    store: Arc<dyn TokenStore>,
    seen: Arc<Mutex<Seen>>,
}

impl fmt::Debug for SharedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedTokens")
    }
}

impl SharedTokens {
    /// Those in `store`, of which nothing is known before it is [read](Self::refresh). A server that
    /// [serves](crate::serve) reads it again twice a second.
    pub fn new(store: Arc<dyn TokenStore>) -> Self {
        Self {
            store,
            seen: Arc::default(),
        }
    }

    /// Reads the store. Blocks.
    ///
    /// # Errors
    /// If it does not work, or holds something else.
    pub fn refresh(&self) -> Result<Arc<Vec<TokenEntry>>, TokenFileError> {
        let asked = Instant::now();
        let texts = self.store.list().map_err(TokenFileError::Store)?;
        let read = |text: &String| {
            let entry: TokenEntry = serde_json::from_str(text)
                .map_err(|error| TokenFileError::Store(error.to_string()))?;
            Principal::parse(&entry.principal)
                .map_err(|error| TokenFileError::Store(format!("`{}`: {error}", entry.name)))?;
            Ok(entry)
        };
        let entries = texts.iter().map(read);
        let entries = Arc::new(entries.collect::<Result<Vec<_>, TokenFileError>>()?);
        *self.lock() = Some((asked, Arc::clone(&entries)));
        Ok(entries)
    }

    /// Reads the store again and again, for ever.
    pub(crate) async fn keep_fresh(self) {
        let mut works = true;
        loop {
            let this = self.clone();
            let read = spawn_blocking(move || this.refresh().map(drop)).await;
            match read {
                Ok(Ok(())) => works = true,
                Ok(Err(error)) if works => {
                    tracing::error!("access tokens cannot be read: {error}");
                    works = false;
                }
                Ok(Err(_)) => {}
                // The runtime ends.
                Err(_) => return,
            }
            sleep(LOOK).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries(&self) -> Result<Arc<Vec<TokenEntry>>, TokenFileError> {
        match &*self.lock() {
            Some((since, entries)) if since.elapsed() < OLDEST => Ok(Arc::clone(entries)),
            Some(_) | None => Err(TokenFileError::Store(
                "the store has not answered for seconds".to_owned(),
            )),
        }
    }

    fn add(&self, entry: &TokenEntry) -> Result<(), TokenFileError> {
        let text = serde_json::to_string(entry)
            .map_err(|error| TokenFileError::Store(error.to_string()))?;
        let kept = self.store.keep(entry.name.as_str(), &text);
        match kept.map_err(TokenFileError::Store)? {
            true => Ok(()),
            false => Err(TokenFileError::Taken(entry.name.clone())),
        }
    }

    fn revoke(&self, name: &TokenName) -> Result<TokenEntry, TokenFileError> {
        let entries = self.refresh()?;
        let missing = || TokenFileError::Missing(name.clone());
        let entry = entries.iter().find(|entry| entry.name == *name);
        let entry = entry.cloned().ok_or_else(missing)?;
        let deleted = self.store.delete(name.as_str());
        match deleted.map_err(TokenFileError::Store)? {
            true => Ok(entry),
            false => Err(missing()),
        }
    }
}

/// Seconds since 1970-01-01 UTC. A clock before that ends every token that ends.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(u64::MAX, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A store that can be gone.
    #[derive(Default)]
    struct Texts(Mutex<(BTreeMap<String, String>, bool)>);

    impl Texts {
        fn with<T>(
            &self,
            work: impl FnOnce(&mut BTreeMap<String, String>) -> T,
        ) -> Result<T, String> {
            let mut held = self.0.lock().unwrap();
            match held.1 {
                true => Err("gone".to_owned()),
                false => Ok(work(&mut held.0)),
            }
        }
    }

    impl TokenStore for Texts {
        fn list(&self) -> Result<Vec<String>, String> {
            self.with(|texts| texts.values().cloned().collect())
        }

        fn keep(&self, name: &str, text: &str) -> Result<bool, String> {
            self.with(|texts| {
                let is_new = !texts.contains_key(name);
                texts
                    .entry(name.to_owned())
                    .or_insert_with(|| text.to_owned());
                is_new
            })
        }

        fn delete(&self, name: &str) -> Result<bool, String> {
            self.with(|texts| texts.remove(name).is_some())
        }
    }

    #[test]
    fn servers_over_one_store_know_the_same_tokens() {
        let store = Arc::new(Texts::default());
        let server = || SharedTokens::new(Arc::clone(&store) as Arc<dyn TokenStore>);
        let (here, there) = (server(), server());
        let agent = Principal::new("Agent", "a");
        let name: TokenName = "one".parse().unwrap();
        let (token, _) = (Tokens::from(here.clone()).create(name.clone(), &agent, None)).unwrap();
        let known = |server: &SharedTokens| {
            let found = Tokens::from(server.clone()).find(&token);
            found.map(|entry| entry.is_some()).ok()
        };
        // What was never read knows nothing.
        assert_eq!(known(&there), None);
        there.refresh().unwrap();
        assert_eq!(known(&there), Some(true));
        assert!(matches!(
            Tokens::from(there.clone()).create(name.clone(), &agent, None),
            Err(TokenFileError::Taken(_))
        ));
        Tokens::from(here).revoke(&name).unwrap();
        there.refresh().unwrap();
        assert_eq!(known(&there), Some(false));
        assert!(matches!(
            Tokens::from(there.clone()).revoke(&name),
            Err(TokenFileError::Missing(_))
        ));
    }

    #[test]
    fn a_store_that_is_gone_lets_nobody_in_after_a_while() {
        let store = Arc::new(Texts::default());
        let tokens = SharedTokens::new(Arc::clone(&store) as Arc<dyn TokenStore>);
        let agent = Principal::new("Agent", "a");
        let all = Tokens::from(tokens.clone());
        let (token, _) = all.create("one".parse().unwrap(), &agent, None).unwrap();
        tokens.refresh().unwrap();
        store.0.lock().unwrap().1 = true;
        tokens.refresh().unwrap_err();
        assert!(all.find(&token).unwrap().is_some());
        if let Some((since, _)) = &mut *tokens.lock() {
            *since = since.checked_sub(OLDEST).unwrap();
        }
        all.find(&token).unwrap_err();
    }
}
