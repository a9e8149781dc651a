//! The envelope: DSSE, the dead simple signing envelope (<https://github.com/secure-systems-lab/dsse>), with Ed25519.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use crate::bundle::{BundleError, BundleKey, BundlePublicKey, describe};

/// What is signed beside the payload, so that a signature of something else is none of a bundle.
const PAYLOAD_TYPE: &str = "application/vnd.palisade.policies+json";

/// Signatures that are looked at.
const MAX_SIGNATURES: usize = 16;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Envelope {
    payload_type: String,
    payload: String,
    signatures: Vec<Signature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signature {
    keyid: String,
    sig: String,
}

/// The payload of an envelope that a key of `keys` signed, and the ids of all of them that did.
pub(super) fn open(
    bytes: &[u8],
    keys: &[BundlePublicKey],
) -> Result<(Vec<u8>, Vec<String>), BundleError> {
    let wrong = |why: &str| BundleError::Envelope(why.to_owned());
    let Envelope {
        payload_type,
        payload,
        signatures,
    } = serde_json::from_slice(bytes).map_err(|error| wrong(&describe(&error)))?;
    if payload_type != PAYLOAD_TYPE {
        return Err(wrong("its `payloadType` is another"));
    }
    if signatures.len() > MAX_SIGNATURES {
        return Err(wrong(&format!(
            "it has more than {MAX_SIGNATURES} signatures"
        )));
    }
    let payload = STANDARD.decode(&payload);
    let payload = payload.map_err(|_| wrong("its `payload` is not in Base64"))?;
    let message = message(&payload);
    let mut signers = Vec::new();
    let mut named = Vec::new();
    for Signature { keyid, sig } in &signatures {
        let sig = STANDARD.decode(sig);
        let sig = sig.map_err(|_| wrong("a signature is not in Base64"))?;
        let mut keys = keys.iter().filter(|key| key.id() == *keyid);
        if keys.any(|key| key.verifies(&message, &sig)) && !signers.contains(keyid) {
            signers.push(keyid.clone());
        }
        // It is not signed: nothing but an id is told of it.
        let is_id = keyid.len() <= 64 && keyid.bytes().all(|byte| byte.is_ascii_hexdigit());
        named.push(if is_id { keyid.as_str() } else { "(odd)" });
    }
    match signers.is_empty() {
        false => Ok((payload, signers)),
        true if named.is_empty() => Err(wrong("it has no signature")),
        true => Err(BundleError::Untrusted(named.join(", "))),
    }
}

/// An envelope around `payload`, signed by each of `keys`.
pub(super) fn seal(payload: &[u8], keys: &[&BundleKey]) -> Result<Vec<u8>, BundleError> {
    let message = message(payload);
    let envelope = Envelope {
        payload_type: PAYLOAD_TYPE.to_owned(),
        payload: STANDARD.encode(payload),
        signatures: keys
            .iter()
            .map(|key| Signature {
                keyid: key.public().id(),
                sig: STANDARD.encode(key.sign(&message)),
            })
            .collect(),
    };
    let written = serde_json::to_vec(&envelope);
    let mut bytes = written.map_err(|error| BundleError::Envelope(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// What is signed: DSSE's pre-authentication encoding.
fn message(payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {PAYLOAD_TYPE} {} ",
        PAYLOAD_TYPE.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}
