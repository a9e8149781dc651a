#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{collections::BTreeSet, io::Read as _};

use serde_json::Value;

use super::*;

/// The binary that tests are built beside. A script in its place keeps what is packed small.
#[cfg(unix)]
fn write_stand_in(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let test = std::env::current_exe().unwrap();
    let binary = test.ancestors().nth(2).unwrap().join("palisade");
    assert!(
        binary.exists(),
        "build {} first: `cargo build --workspace --features palisade-cli/full`",
        binary.display()
    );
    let script = folder.join("palisade");
    let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", binary.display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[cfg(unix)]
#[test]
fn everything_that_others_install_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "--binary",
        write_stand_in(folder.path()).to_str().unwrap(),
        "--into",
        folder.path().join("out").to_str().unwrap(),
        "--target",
        "x86_64-unknown-linux-gnu",
        "--owner",
        "Example-1",
    ]
    .map(str::to_owned);
    let options = read_options(&args).unwrap();
    let out = make(&options).unwrap();
    check_sums(&out);
    check_bundle(&out, folder.path());
    check_bill(&out);
    for (_, file) in SHELLS {
        let text = fs::read_to_string(out.join("completions").join(file)).unwrap();
        assert!(text.contains("setup-sql"), "{file}");
    }
    assert!(out.join("man/palisade-policy-check.1").exists());
    // Made again, it is the same to the byte.
    let before = fs::read(out.join("SHA256SUMS")).unwrap();
    make(&options).unwrap();
    assert_eq!(fs::read(out.join("SHA256SUMS")).unwrap(), before);
}

/// Each file has its line, as `sha256sum` prints it.
fn check_sums(out: &Path) {
    let text = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    for file in [
        "palisade-x86_64-unknown-linux-gnu",
        "palisade.cdx.json",
        "server.json",
        "man/palisade.1",
        "completions/_palisade",
        "LICENSE-MIT",
    ] {
        assert!(
            text.lines()
                .any(|line| line.ends_with(&format!("  {file}"))),
            "{file}: {text}"
        );
    }
    let checked = Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(out)
        .output();
    if let Ok(output) = checked {
        assert!(output.status.success(), "{output:?}");
    }
    // Of the empty text, as FIPS 180-4 has it.
    assert_eq!(
        sums::sum_text(""),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

/// A client unpacks the bundle, and starts what its manifest names.
#[cfg(unix)]
fn check_bundle(out: &Path, folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let name = format!("palisade-mcp-{VERSION}-x86_64-unknown-linux-gnu.mcpb");
    let mut zip = zip::ZipArchive::new(fs::File::open(out.join(&name)).unwrap()).unwrap();
    let mut read = |name: &str| {
        let mut file = zip.by_name(name).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        (bytes, file.unix_mode().unwrap())
    };
    let (manifest, _) = read("manifest.json");
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["version"], VERSION);
    assert_eq!(manifest["compatibility"]["platforms"][0], "linux");
    let entry = manifest["server"]["entry_point"].as_str().unwrap();
    let (program, mode) = read(entry);
    assert_eq!(mode & 0o777, 0o755);
    let path = folder.join("unpacked");
    fs::write(&path, program).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o777)).unwrap();
    check_version(&path).unwrap();
    // The registry is told of this bundle.
    let told = read_json(&out.join("server.json"));
    assert_eq!(told["name"], "io.github.Example-1/palisade");
    let (image, bundle) = (&told["packages"][0], &told["packages"][1]);
    assert_eq!(
        image["identifier"],
        format!("ghcr.io/example-1/palisade:{VERSION}")
    );
    assert_eq!(
        bundle["fileSha256"],
        sums::sum_file(&out.join(&name)).unwrap()
    );
    let address = bundle["identifier"].as_str().unwrap();
    assert!(address.ends_with(&name), "{address}");
    assert!(!told.to_string().contains("OWNER"), "{told}");
}

/// What is linked is in the bill, with licence and checksum; what only tests and builds need is not.
fn check_bill(out: &Path) {
    let bill = read_json(&out.join("palisade.cdx.json"));
    assert_eq!(bill["bomFormat"], "CycloneDX");
    assert_eq!(bill["specVersion"], "1.6");
    let serial = bill["serialNumber"].as_str().unwrap();
    let parts: Vec<usize> = serial.split('-').map(str::len).collect();
    assert_eq!(parts, ["urn:uuid:".len() + 8, 4, 4, 4, 12]);
    let main = &bill["metadata"]["component"];
    assert_eq!(main["version"], VERSION);
    let own = out.join("palisade-x86_64-unknown-linux-gnu");
    assert_eq!(main["hashes"][0]["content"], sums::sum_file(&own).unwrap());
    let components = bill["components"].as_array().unwrap();
    let mut refs = BTreeSet::from([main["bom-ref"].as_str().unwrap()]);
    let mut names = BTreeSet::new();
    for component in components {
        let reference = component["bom-ref"].as_str().unwrap();
        assert!(refs.insert(reference), "{reference} is there twice");
        names.insert(component["name"].as_str().unwrap());
        let licence = component["licenses"][0]["expression"].as_str().unwrap();
        assert!(!licence.contains('/'), "{licence}");
        let is_own = component["name"].as_str().unwrap().starts_with("palisade");
        assert_eq!(component["hashes"].is_null(), is_own, "{component}");
    }
    for name in [
        "palisade",
        "palisade-http",
        "cedar-policy",
        "libsqlite3-sys",
        "ring",
        "rustls",
        "sqlparser",
        "tokio-postgres",
        "ureq",
    ] {
        assert!(names.contains(name), "{name}");
    }
    for name in ["criterion", "palisade-testkit", "proptest", "rcgen", "zip"] {
        assert!(!names.contains(name), "{name}");
    }
    for dependency in bill["dependencies"].as_array().unwrap() {
        let own = dependency["ref"].as_str().unwrap();
        assert!(refs.contains(own), "{own}");
        for other in dependency["dependsOn"].as_array().unwrap() {
            assert!(refs.contains(other.as_str().unwrap()), "{other}");
        }
    }
    assert_eq!(bill["dependencies"].as_array().unwrap().len(), refs.len());
}

#[test]
fn what_is_not_understood_is_refused() {
    let read = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        read_options(&args).unwrap_err()
    };
    assert!(read(&["--fast"]).contains("no option `--fast`"));
    assert!(read(&["--binary"]).contains("needs a value"));
    assert!(read(&["--owner", "a/b"]).contains("no account"));
    // Another version is not handed on.
    let told = check_version(Path::new("/bin/true")).unwrap_err();
    assert!(told.contains("the workspace is"), "{told}");
}
