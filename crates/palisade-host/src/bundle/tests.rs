#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use palisade::policy::PolicyFile;
use serde_json::{Value, json};

use super::*;

fn sources() -> PolicySources {
    let file = |name: &str, text: &str| PolicyFile {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    PolicySources {
        policies: vec![file("a.cedar", "permit (principal, action, resource);")],
        entities: Some("[]".to_owned()),
        ..PolicySources::default()
    }
}

fn key() -> BundleKey {
    BundleKey::generate().unwrap()
}

fn pack(serial: u64, keys: &[&BundleKey]) -> Vec<u8> {
    pack_bundle(&sources(), &"shop".parse().unwrap(), serial, keys).unwrap()
}

/// A bundle with this payload, whatever it is, signed well.
fn sign(payload: &[u8], key: &BundleKey) -> Vec<u8> {
    envelope::seal(payload, &[key]).unwrap()
}

fn file(name: &str, text: &str) -> Value {
    json!({"name": name, "sha256": sha256_hex(text.as_bytes()), "text": text})
}

#[test]
fn what_is_packed_is_read_again() {
    let (old, new) = (key(), key());
    let bytes = pack(7, &[&old, &new]);
    assert_eq!(bytes, pack(7, &[&old, &new]), "the same bytes each time");
    assert_ne!(bytes, pack(8, &[&old, &new]));
    for trusted in [&old, &new] {
        let bundle = PolicyBundle::open(&bytes, &[trusted.public()]).unwrap();
        assert_eq!(bundle.signers, [trusted.public().id()]);
        let origin = &bundle.origin;
        assert_eq!((origin.name.as_str(), origin.serial), ("shop", 7));
        let names: Vec<_> = bundle.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a.cedar", "entities.json"]);
        let with_origin = PolicySources {
            origin: Some(origin.clone()),
            ..sources()
        };
        assert_eq!(bundle.sources, with_origin);
    }
    let again: BundleKey = old.reveal().parse().unwrap();
    assert_eq!(again.public(), old.public());
    assert_eq!(old.public().to_string().parse(), Ok(old.public()));
}

#[test]
fn no_bit_can_be_another() {
    let key = key();
    let (bytes, trusted) = (pack(7, &[&key]), [key.public()]);
    assert!(PolicyBundle::open(&bytes, &trusted).is_ok());
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut other = bytes.clone();
            other[place] ^= 1 << bit;
            let read = PolicyBundle::open(&other, &trusted);
            assert!(read.is_err(), "bit {bit} of byte {place}");
        }
    }
    for length in 0..bytes.len() - 1 {
        let read = PolicyBundle::open(&bytes[..length], &trusted);
        assert!(read.is_err(), "cut to {length} bytes");
    }
}

#[test]
fn only_a_trusted_key_counts() {
    let (key, other) = (key(), key());
    let bytes = pack(7, &[&key]);
    let read = PolicyBundle::open(&bytes, &[other.public()]);
    assert_eq!(read, Err(BundleError::Untrusted(key.public().id())));
    assert!(PolicyBundle::open(&bytes, &[]).is_err());
    // The name of a trusted key over the signature of another.
    let mut envelope: Value = serde_json::from_slice(&bytes).unwrap();
    envelope["signatures"][0]["keyid"] = json!(other.public().id());
    let renamed = envelope.to_string();
    let trusted = [key.public(), other.public()];
    assert!(PolicyBundle::open(renamed.as_bytes(), &trusted).is_err());
    // A signature of something else than a bundle's type.
    let payload = STANDARD.decode(envelope["payload"].as_str().unwrap());
    let plain = STANDARD.encode(key.sign(&payload.unwrap()));
    envelope["signatures"] = json!([{"keyid": key.public().id(), "sig": plain}]);
    let plain = envelope.to_string();
    assert!(PolicyBundle::open(plain.as_bytes(), &trusted).is_err());
    envelope["signatures"] = json!([]);
    let unsigned = envelope.to_string();
    assert!(PolicyBundle::open(unsigned.as_bytes(), &trusted).is_err());
}

#[test]
fn nothing_stands_beside_what_is_signed() {
    let key = key();
    let bytes = pack(7, &[&key]);
    for (name, value) in [("files", json!([file("b.cedar", "")])), ("extra", json!(1))] {
        let mut envelope: Value = serde_json::from_slice(&bytes).unwrap();
        envelope[name] = value;
        let more = envelope.to_string();
        let read = PolicyBundle::open(more.as_bytes(), &[key.public()]);
        assert!(matches!(read, Err(BundleError::Envelope(_))), "{read:?}");
    }
    let odd = String::from_utf8(bytes.clone()).unwrap();
    let odd = odd.replacen('{', "{\"a\\nERROR \\u001b[1m\":1,", 1);
    let read = PolicyBundle::open(odd.as_bytes(), &[key.public()]);
    let told = read.unwrap_err().to_string();
    assert!(
        told.contains("ERROR") && !told.contains(char::is_control),
        "{told:?}"
    );
    let twice = String::from_utf8(bytes).unwrap();
    let twice = twice.replacen('{', "{\"payload\":\"e30=\",", 1);
    assert!(PolicyBundle::open(twice.as_bytes(), &[key.public()]).is_err());
}

#[test]
fn what_is_signed_is_looked_at_too() {
    let key = key();
    let good = file("a.cedar", "permit (principal, action, resource);");
    let check = |change: &dyn Fn(&mut Value), told: &str| {
        let mut payload =
            json!({"format": 1, "name": "shop", "serial": 7, "files": [good.clone()]});
        change(&mut payload);
        let bytes = sign(payload.to_string().as_bytes(), &key);
        match PolicyBundle::open(&bytes, &[key.public()]) {
            Ok(_) => assert_eq!(told, ""),
            Err(error) => {
                let said = error.to_string();
                assert!(!told.is_empty() && said.contains(told), "{told}: {said}");
            }
        }
    };
    check(&|_| {}, "");
    for name in [
        "../a.cedar",
        "a/../b.cedar",
        "/etc/x.cedar",
        "a\\b.cedar",
        "c:b.cedar",
        "\u{0}.cedar",
        ".hidden.cedar",
        "tests",
        "README.md",
        "access.lock",
        "clasification.toml",
        "",
    ] {
        check(
            &|payload| payload["files"] = json!([file(name, "")]),
            "no file that policies are read from",
        );
    }
    check(
        &|payload| payload["files"] = json!([good.clone(), good.clone()]),
        "there twice",
    );
    check(
        &|payload| payload["files"] = json!([file("b.cedar", ""), good.clone()]),
        "not in its place",
    );
    // A file that was put in another's place, under the manifest of before.
    check(
        &|payload| payload["files"][0]["text"] = json!("forbid (principal, action, resource);"),
        "another digest",
    );
    check(&|payload| payload["files"] = json!([]), "no `*.cedar`");
    check(
        &|payload| payload["files"] = json!([file("entities.json", "[]")]),
        "no `*.cedar`",
    );
    check(&|payload| payload["serial"] = json!(0), "serial number 0");
    check(
        &|payload| payload["serial"] = json!(u64::MAX),
        "serial number",
    );
    check(&|payload| payload["serial"] = json!(-1), "invalid value");
    check(&|payload| payload["name"] = json!("../shop"), "name has");
    check(&|payload| payload["name"] = json!(""), "name has");
    check(&|payload| payload["more"] = json!(1), "unknown field");
    check(&|payload| payload["format"] = json!(2), "format is 2");
    check(&|payload| payload["format"] = json!("1"), "invalid type");
    // Names that occur twice in a map hide one from a reviewer.
    let text = json!({"format": 1, "name": "shop", "serial": 7, "files": [good]}).to_string();
    let text = text.replacen("\"serial\":7", "\"serial\":7,\"serial\":8", 1);
    let bytes = sign(text.as_bytes(), &key);
    assert!(PolicyBundle::open(&bytes, &[key.public()]).is_err());
}

#[test]
fn what_could_not_be_read_is_not_packed() {
    let key = key();
    let pack = |sources: &PolicySources, serial: u64, keys: &[&BundleKey]| {
        pack_bundle(sources, &"shop".parse().unwrap(), serial, keys)
    };
    assert!(pack(&sources(), 1, &[&key]).is_ok());
    assert!(pack(&sources(), 0, &[&key]).is_err());
    assert!(pack(&sources(), 1, &[]).is_err());
    assert!(pack(&PolicySources::default(), 1, &[&key]).is_err());
    let large = PolicySources {
        classification: Some("#".repeat(BUNDLE_LIMIT)),
        ..sources()
    };
    assert_eq!(pack(&large, 1, &[&key]), Err(BundleError::TooLong));
}

#[test]
fn names_and_keys_have_one_form() {
    for name in ["shop", "0", "eu-1.shop_b"] {
        assert!(name.parse::<BundleName>().is_ok(), "{name}");
    }
    for name in ["", "-a", ".", "..", "Shop", "a/b", "a b", "é"] {
        assert!(name.parse::<BundleName>().is_err(), "{name}");
    }
    assert!("a".repeat(64).parse::<BundleName>().is_ok());
    assert!("a".repeat(65).parse::<BundleName>().is_err());
    let public = key().public().to_string();
    for text in [&public[8..], &public[..70], "ed25519:", "x"] {
        assert_eq!(
            text.parse::<BundlePublicKey>(),
            Err(BundleKeyError::Public),
            "{text}"
        );
    }
    assert_eq!(
        public.parse::<BundleKey>().unwrap_err(),
        BundleKeyError::Private
    );
}
