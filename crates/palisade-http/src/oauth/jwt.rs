//! A JSON Web Token in its compact form (RFC 7515, RFC 7519): what it says before and after its signature was looked at.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::oauth::{
    Denied, LEEWAY,
    keys::{Algorithm, Key},
};

/// What a token of access says that it is, without case: RFC 9068, and what issuers write instead of it.
const TYPES: [&str; 3] = ["at+jwt", "application/at+jwt", "jwt"];

/// The header, as far as it decides. Others of its fields say how to find a key, which the configuration alone says.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Extensions that have to be understood, of which this server knows none.
    crit: Option<Value>,
    /// The claims are encoded otherwise (RFC 7797).
    b64: Option<Value>,
}

/// A token whose signature has not been looked at. Its claims cannot be had before.
pub(crate) struct Jwt<'t> {
    header: Header,
    claims: Map<String, Value>,
    issuer: String,
    /// What is signed.
    message: &'t str,
    signature: Vec<u8>,
}

impl<'t> Jwt<'t> {
    /// Reads `token`.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn read(token: &'t str) -> Result<Self, Denied> {
        const NONE: Denied = Denied::Invalid("the token is not known, or is no JWT");
        let (message, signature) = token.rsplit_once('.').ok_or(NONE)?;
        let (header, claims) = message.split_once('.').ok_or(NONE)?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| NONE);
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| NONE)?;
        if header.crit.is_some() || header.b64.is_some() {
            return Err(Denied::Invalid("it has extensions that are not known here"));
        }
        let is_of_type = |typ: &String| TYPES.contains(&typ.to_ascii_lowercase().as_str());
        if !header.typ.as_ref().is_none_or(is_of_type) {
            return Err(Denied::Invalid("it is no access token"));
        }
        // A key that is there twice would be read one way here and another way elsewhere.
        let claims = decode(claims)?;
        let UniqueKeys = serde_json::from_slice(&claims).map_err(|_| NONE)?;
        let claims: Map<String, Value> = serde_json::from_slice(&claims).map_err(|_| NONE)?;
        let issuer = claims.get("iss").and_then(Value::as_str).ok_or(NONE)?;
        Ok(Self {
            issuer: issuer.to_owned(),
            header,
            claims,
            message,
            signature: decode(signature)?,
        })
    }

    /// Who says to have made it.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The name of the algorithm by which it says to be signed.
    pub(crate) fn algorithm(&self) -> &str {
        &self.header.alg
    }

    /// The name of the key by which it says to be signed.
    pub(crate) fn key_name(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// Its claims, if one of `keys` signed it by `algorithm`.
    pub(crate) fn open<'k>(
        self,
        keys: impl Iterator<Item = &'k Key>,
        algorithm: Algorithm,
    ) -> Option<Claims> {
        let signed = |key: &Key| key.verify(algorithm, self.message.as_bytes(), &self.signature);
        let mut keys = keys;
        keys.any(signed).then_some(Claims(self.claims))
    }
}

/// An object each of whose keys is there once.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = UniqueKeys;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<UniqueKeys, A::Error> {
                let mut seen = std::collections::BTreeSet::new();
                while let Some(key) = map.next_key::<String>()? {
                    let serde::de::IgnoredAny = map.next_value()?;
                    if !seen.insert(key) {
                        return Err(serde::de::Error::custom("a key is there twice"));
                    }
                }
                Ok(UniqueKeys)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// What a token claims, whose signature is good.
#[derive(Debug)]
pub(crate) struct Claims(Map<String, Value>);

impl Claims {
    /// All of them.
    pub(crate) fn all(&self) -> &Map<String, Value> {
        &self.0
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// When the token ends, in seconds since 1970-01-01 UTC, if it is good at `now`.
    ///
    /// # Errors
    /// If it has no end, has ended, does not hold yet, or one of its times is none.
    pub(crate) fn check_times(&self, now: u64) -> Result<u64, Denied> {
        const NO_TIME: Denied = Denied::Invalid("one of its times is none");
        let time = |name: &str| match self.0.get(name) {
            None => Ok(None),
            // A time may have a fraction (RFC 7519, section 2).
            Some(value) => match (value.as_u64(), value.as_f64()) {
                (Some(seconds), _) => Ok(Some(seconds)),
                (None, Some(seconds)) if (0.0..1e15).contains(&seconds) => {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "it was looked at whether it fits"
                    )]
                    let seconds = seconds as u64;
                    Ok(Some(seconds))
                }
                (None, _) => Err(NO_TIME),
            },
        };
        let leeway = LEEWAY.as_secs();
        let end = time("exp")?.ok_or(Denied::Invalid("it has no end (`exp`)"))?;
        if end.saturating_add(leeway) <= now {
            return Err(Denied::Invalid("it has ended"));
        }
        let begins = [time("nbf")?, time("iat")?];
        if (begins.iter().flatten()).any(|begin| *begin > now.saturating_add(leeway)) {
            return Err(Denied::Invalid("it does not hold yet"));
        }
        Ok(end.saturating_add(leeway))
    }

    /// Whether it is for `audience`.
    pub(crate) fn is_for(&self, audience: &str) -> bool {
        match self.0.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(several)) => several.iter().any(|one| one == audience),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
                false
            }
        }
    }

    /// Whether it has a scope: in `scope`, separated by spaces (RFC 8693), or in `scp`, as some issuers write it.
    pub(crate) fn has_scope(&self, scope: &str) -> bool {
        let in_text = |name: &str| {
            let text = self.text(name).unwrap_or_default();
            text.split(' ').any(|one| one == scope)
        };
        let listed = self.0.get("scp").and_then(Value::as_array);
        let is_listed = listed.is_some_and(|list| list.iter().any(|one| one == scope));
        in_text("scope") || in_text("scp") || is_listed
    }

    /// The issuer's name of its bearer.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.text("sub")
    }

    /// The client that the issuer gave it to (RFC 9068, section 2.2; `azp` of OpenID Connect).
    pub(crate) fn client(&self) -> Option<&str> {
        self.text("client_id").or_else(|| self.text("azp"))
    }
}
