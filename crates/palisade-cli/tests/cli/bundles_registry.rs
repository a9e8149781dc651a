//! Bundles from a registry, by the distribution API of OCI.

use std::fs;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{SHA256, digest};
use serde_json::json;

use crate::{
    bundle_depot::{Depot, Mood},
    bundles::{OPEN, make_key, pack},
    desk::Desk,
};

fn digest_of(bytes: &[u8]) -> String {
    let digits = digest(&SHA256, bytes);
    let digits: String = digits
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{digits}")
}

/// Pushes a bundle under the tag `prod`, as `oras push` does; the path of its layer.
fn push(depot: &Depot, bundle: &[u8]) -> String {
    let digest = digest_of(bundle);
    let layer = json!({"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": bundle.len()});
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": "application/vnd.palisade.policies",
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": digest_of(b"{}"), "size": 2}, "layers": [layer]});
    depot.hold("/v2/acme/shop/manifests/prod", manifest.to_string());
    let path = format!("/v2/acme/shop/blobs/{digest}");
    depot.hold(&path, bundle);
    path
}

#[test]
fn a_registry_is_asked_for_a_tag() {
    let desk = Desk::new();
    let public = make_key(&desk, "a.key");
    let depot = Depot::start();
    let bundle = pack(&desk, OPEN, 3, &["a.key"]);
    let layer = push(&depot, &bundle);
    let configure = |reference: &str, more: &str| {
        desk.write(
            "palisade.toml",
            format!(
                "[policies]\nbundle = \"oci://{0}/acme/shop{reference}\"\nname = \"shop\"\npublic_keys = [\"{public}\"]\nkeep = \"kept\"\n{more}\n[grants]\nhosts = [\"{0}\"]\nfiles = [\"login\"]\n[connections.demo]\nurl = \"sqlite:demo.db\"\n",
                depot.host
            ),
        );
    };
    let query = || {
        desk.run(&[
            "query",
            "connection:demo",
            "--config",
            "palisade.toml",
            "SELECT count(*) FROM customers",
        ])
    };
    configure(":prod", "");
    query().expect_exit(0);
    let manifest = depot.lock_held().files["/v2/acme/shop/manifests/prod"].clone();
    depot.hold(
        &format!("/v2/acme/shop/manifests/{}", digest_of(&manifest)),
        manifest.clone(),
    );
    configure(&format!("@{}", digest_of(&manifest)), "");
    query().expect_exit(0);
    // It asks who asks.
    configure(":prod", "");
    depot.lock_held().ticket = Some("abc".to_owned());
    query().fails(3, &["what gives tickets for the registry answered 404"]);
    depot.hold("/token", json!({"token": "abc"}).to_string());
    query().expect_exit(0);
    let asked = depot.lock_held().asked.join("");
    assert!(
        asked.contains("GET /token?service=depot&scope=repository%3Aacme%2Fshop%3Apull "),
        "{asked}"
    );
    assert!(
        !asked.to_lowercase().contains("authorization: basic"),
        "{asked}"
    );
    desk.write("login", "robot:geheim\n");
    fs::set_permissions(
        desk.path("login"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    configure(":prod", "credentials_file = \"login\"");
    query().expect_exit(0);
    let basic = format!("Basic {}", STANDARD.encode("robot:geheim"));
    {
        let held = depot.lock_held();
        let with: Vec<_> = held
            .asked
            .iter()
            .filter(|head| head.contains(&basic))
            .collect();
        assert!(
            with.iter().all(|head| head.starts_with("GET /token?")) && with.len() == 1,
            "{with:?}"
        );
    }
    depot.hold("/token", json!({"token": "wrong"}).to_string());
    query().fails(3, &["the registry answered 401", "credentials_file"]);
    depot.hold("/token", json!({"token": "a\r\nb"}).to_string());
    query().fails(3, &["gave none"]);
    depot.lock_held().ticket = None;
    // What lies.
    let mut other = bundle.clone();
    let last = other.len() - 2;
    other[last] ^= 1;
    depot.hold(&layer, other);
    query().fails(3, &["another digest than its manifest says"]);
    depot.hold(
        "/v2/acme/shop/manifests/prod",
        json!({"layers": []}).to_string(),
    );
    query().fails(3, &["has 0 layers"]);
    let escape = json!({"layers": [{"digest": "sha256:../../../x", "size": 1}]});
    depot.hold("/v2/acme/shop/manifests/prod", escape.to_string());
    query().fails(3, &["has no SHA-256"]);
    let large = json!({"layers": [{"digest": digest_of(b"x"), "size": 1_u64 << 40}]});
    depot.hold("/v2/acme/shop/manifests/prod", large.to_string());
    query().fails(3, &["longer than a bundle can be"]);
    depot.lock_held().mood = Mood::Endless;
    query().fails(3, &["longer than"]);
    let told = query().err;
    assert!(!told.contains("geheim"), "{told}");
}
