//! `palisade policy bundle`, and what a configuration says of bundles.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::desk::Desk;

/// Permits all of it.
pub(crate) const OPEN: &str = "@id(\"open\")\npermit (principal, action, resource);\n";

/// Makes a key in `file`; its public half.
pub(crate) fn make_key(desk: &Desk, file: &str) -> String {
    let told = desk
        .run(&["policy", "bundle", "keygen", file])
        .expect_exit(0)
        .out;
    let (_, key) = told.split_once("[\"").unwrap();
    key.split_once('"').unwrap().0.to_owned()
}

/// Packs policies with this text; the bytes of the bundle.
pub(crate) fn pack(desk: &Desk, text: &str, serial: u64, keys: &[&str]) -> Vec<u8> {
    desk.policy(text);
    let serial = serial.to_string();
    let mut arguments = vec!["policy", "bundle", "pack", "p", "--name", "shop"];
    arguments.extend(["--serial", &serial, "--out", "made.palisade"]);
    arguments.extend(keys.iter().flat_map(|key| ["--key", key]));
    desk.run(&arguments).expect_exit(0);
    fs::read(desk.path("made.palisade")).unwrap()
}

#[test]
fn policies_are_packed_and_verified() {
    let desk = Desk::new();
    let public = make_key(&desk, "bundle.key");
    let mode = |name: &str| fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("bundle.key"), 0o600);
    desk.run(&["policy", "bundle", "keygen", "bundle.key"])
        .fails(2, &["bundle.key", "never written over"]);
    let pack = |out: &str| {
        desk.run(&[
            "policy",
            "bundle",
            "pack",
            "demo-policies",
            "--name",
            "demo",
            "--key",
            "bundle.key",
            "--serial",
            "7",
            "--out",
            out,
        ])
        .expect_exit(0)
        .out
    };
    let told = pack("a.palisade");
    assert!(told.contains("bundle demo, serial number 7"), "{told}");
    let bundle = ["policy", "bundle"];
    let json = ["--format", "json"];
    let keygen = [&bundle[..], &["keygen", "third.key"], &json].concat();
    let made = desk.run(&keygen).expect_exit(0).json();
    let other = made["public_key"].as_str().unwrap();
    assert!(other.starts_with("ed25519:"), "{made}");
    let by_other = [
        "pack",
        "demo-policies",
        "--name",
        "demo",
        "--key",
        "third.key",
    ];
    let out = ["--serial", "8", "--out", "c.palisade"];
    let packed = desk.run(&[&bundle[..], &by_other, &out, &json].concat());
    let packed = packed.expect_exit(0).json();
    assert_eq!(
        (&packed["name"], &packed["serial"]),
        (&"demo".into(), &8.into()),
        "{packed}"
    );
    let verify = ["verify", "c.palisade", "--key", other];
    let verified = desk.run(&[&bundle[..], &verify, &json].concat());
    assert_eq!(verified.expect_exit(0).json()["digest"], packed["digest"]);
    pack("b.palisade");
    let read = |name: &str| fs::read(desk.path(name)).unwrap();
    assert_eq!(read("a.palisade"), read("b.palisade"));
    let verify = ["policy", "bundle", "verify", "a.palisade", "--key", &public];
    let told = desk.run(&verify).expect_exit(0).out;
    for name in [
        "base.cedar",
        "classification.toml",
        "entities.json",
        "principals.cedarschema",
    ] {
        assert!(told.contains(name), "{name}: {told}");
    }
    for name in ["tests", "access.lock", "properties.toml"] {
        assert!(!told.contains(name), "{name}: {told}");
    }
    let more = |more: &[&str]| desk.run(&[&verify[..], more].concat());
    let told = more(&["--catalog", "sqlite:demo.db", "--format", "json"]);
    let told = told.expect_exit(0).json();
    assert_eq!((&told["serial"], &told["loads"]), (&7.into(), &true.into()));
    // What it is unpacked to decides as what it was packed of.
    more(&["--unpack", "again"]).expect_exit(0);
    more(&["--unpack", "again"]).fails(2, &["not empty"]);
    desk.run(&[
        "policy",
        "bundle",
        "pack",
        "again",
        "--name",
        "demo",
        "--key",
        "bundle.key",
        "--serial",
        "7",
        "--out",
        "c.palisade",
    ])
    .expect_exit(0);
    assert_eq!(read("a.palisade"), read("c.palisade"));
    // It is whole, and fits no other tables.
    desk.write("other.sql", "CREATE TABLE a (x);");
    more(&["--catalog", "other.sql"]).fails(3, &["(bundle demo 7)/", "main."]);
    // Another key did not sign it.
    let other = make_key(&desk, "other.key");
    desk.run(&["policy", "bundle", "verify", "a.palisade", "--key", &other])
        .fails(3, &["no trusted key signed it", "help:"]);
    desk.run(&["policy", "bundle", "verify", "bundle.key", "--key", &public])
        .fails(3, &["no bundle of policies"]);
    desk.run(&[
        "policy",
        "bundle",
        "verify",
        "a.palisade",
        "--key",
        "ed25519:00",
    ])
    .fails(2, &["no public key"]);
    // A key that others can read signs nothing.
    fs::set_permissions(desk.path("bundle.key"), fs::Permissions::from_mode(0o644)).unwrap();
    desk.run(&[
        "policy",
        "bundle",
        "pack",
        "demo-policies",
        "--name",
        "demo",
        "--key",
        "bundle.key",
        "--out",
        "d.palisade",
    ])
    .fails(3, &["chmod 600"]);
}

#[test]
fn a_configuration_of_a_bundle_is_checked() {
    let desk = Desk::new();
    let public = make_key(&desk, "bundle.key");
    let bundle = pack(&desk, OPEN, 1, &["bundle.key"]);
    desk.write("shop.palisade", &bundle);
    let good = format!(
        "[policies]\nbundle = \"shop.palisade\"\nname = \"shop\"\npublic_keys = [\"{public}\"]\nkeep = \"kept\"\n[grants]\nhosts = [\"policies.example.org:443\", \"ghcr.io:443\"]\n[connections.demo]\nurl = \"sqlite:demo.db\"\n"
    );
    let check = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        desk.write("palisade.toml", good.replacen(from, to, 1));
        desk.run(&["config", "check"])
    };
    let set = |bundle: &str| check("\"shop.palisade\"", bundle);
    set("\"shop.palisade\"").expect_exit(0);
    set("\"https://policies.example.org/a/shop.palisade\"").expect_exit(0);
    set("\"oci://ghcr.io/acme/shop:prod\"").expect_exit(0);
    set("\"nowhere.palisade\"").fails(3, &["nowhere.palisade", "help:"]);
    set("\"https://elsewhere.example.org/shop\"").fails(
        3,
        &["`elsewhere.example.org:443` is not granted", "[grants]"],
    );
    set("\"oci://elsewhere.example.org/shop:prod\"").fails(3, &["is not granted"]);
    set("\"http://policies.example.org/shop\"").fails(3, &["in plain text", "https://"]);
    set("\"https://me:geheim@policies.example.org/shop\"")
        .fails(3, &["without a query and a password"]);
    let told = set("\"https://policies.example.org/shop?key=geheim\"");
    assert!(!told.err.contains("geheim"), "{}", told.err);
    set("\"ftp://policies.example.org/shop\"").fails(3, &["no address that is known", "oci://"]);
    set("\"oci://ghcr.io/shop\"").fails(3, &["no artefact of a registry"]);
    check("\"shop\"", "\"Shop\"").fails(3, &["lower-case letters"]);
    check("\"shop\"", "\"other\"").fails(3, &["its name is `shop`"]);
    check(&public, "ed25519:00").fails(3, &["no public key", "keygen"]);
    check(&format!("\"{public}\""), "").fails(3, &["one key or more"]);
    check("keep = \"kept\"\n", "").fails(3, &["keep"]);
    check("keep", "kep").fails(3, &["did you mean `keep`?"]);
    check("keep = \"kept\"", "keep = \"kept\"\nevery = \"0s\"")
        .fails(3, &["`every` cannot be `0s`"]);
    check(
        "keep = \"kept\"",
        "keep = \"kept\"\ncredentials_file = \"login\"",
    )
    .fails(3, &["not granted"]);
    check(
        "keep = \"kept\"",
        "keep = \"kept\"\nauthorities = \"ca.pem\"",
    )
    .fails(3, &["a file has no certificate"]);
    // The other commands decide by it too.
    set("\"shop.palisade\"");
    desk.run(&[
        "query",
        "connection:demo",
        "--config",
        "palisade.toml",
        "SELECT count(*) FROM customers",
    ])
    .expect_exit(0);
    let told = desk
        .run(&["doctor", "connection:demo", "--config", "palisade.toml"])
        .expect_exit(0)
        .out;
    assert!(
        told.contains("the policies are the bundle shop 1"),
        "{told}"
    );
}
