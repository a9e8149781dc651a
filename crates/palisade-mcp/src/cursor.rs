//! Cursors of lists: where the next page begins, under a seal. Nothing is kept for them, and a client can make none by itself.

use std::sync::OnceLock;

use hmac::{Hmac, KeyInit as _, Mac as _};
use palisade::{code::Code, rejection::Rejection};
use sha2::Sha256;

/// Bytes of a seal.
const SEAL: usize = 16;

/// Seals the cursors of one server. They end with it.
#[derive(Default)]
pub(crate) struct Seals {
    key: OnceLock<[u8; 32]>,
}

impl Seals {
    /// The cursor of the entry `position` of a list. `scope` is all that the list depends on: who asks, what there is, and what is asked
    /// for.
    pub(crate) fn seal(&self, scope: &str, position: usize) -> Result<String, Rejection> {
        let mut cursor = format!("{position:x}.");
        for byte in self.tag(scope, position)? {
            cursor.push_str(&format!("{byte:02x}"));
        }
        Ok(cursor)
    }

    /// Where the page of `cursor` begins.
    pub(crate) fn open(&self, scope: &str, cursor: &str) -> Result<usize, Rejection> {
        let position = cursor
            .split_once('.')
            .and_then(|(position, _)| usize::from_str_radix(position, 16).ok());
        match position {
            // Written again, so that there is one spelling of each.
            Some(position) if same(&self.seal(scope, position)?, cursor) => Ok(position),
            Some(_) | None => Err(Rejection::new(
                Code::RequestInvalid,
                "`cursor` is of no page of this list: the arguments or the tables are others; call again without it",
            )),
        }
    }

    fn tag(&self, scope: &str, position: usize) -> Result<[u8; SEAL], Rejection> {
        let failed = |why: String| Rejection::internal(why);
        let key = match self.key.get() {
            Some(key) => key,
            None => {
                let mut key = [0; 32];
                getrandom::fill(&mut key).map_err(|error| failed(error.to_string()))?;
                self.key.get_or_init(|| key)
            }
        };
        let mut mac =
            Hmac::<Sha256>::new_from_slice(key).map_err(|error| failed(error.to_string()))?;
        mac.update(&position.to_be_bytes());
        mac.update(scope.as_bytes());
        let whole = mac.finalize().into_bytes();
        let mut tag = [0; SEAL];
        for (to, from) in tag.iter_mut().zip(whole) {
            *to = from;
        }
        Ok(tag)
    }
}

/// Whether two texts are the same; how long it takes does not tell where they differ.
fn same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_cursor_is_of_its_list_alone() {
        let seals = Seals::default();
        let cursor = seals.seal("a", 700).unwrap();
        assert_eq!(seals.open("a", &cursor), Ok(700));
        let forged = cursor.replacen("2bc", "2bd", 1);
        for wrong in [
            "",
            "2bc.",
            "x",
            &forged,
            &format!("0{cursor}"),
            &cursor.to_uppercase(),
        ] {
            let refused = seals.open("a", wrong).unwrap_err();
            assert_eq!(refused.code(), Code::RequestInvalid, "{wrong}");
        }
        assert!(seals.open("b", &cursor).is_err());
        assert!(Seals::default().open("a", &cursor).is_err());
    }
}
