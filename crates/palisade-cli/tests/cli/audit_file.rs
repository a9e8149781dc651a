//! What of an audit log takes time: anchors while nothing is recorded, and files that are renamed for their age.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use palisade::audit::{AuditRecord, AuditSink as _, RecordKind, RecordedDecision};

use palisade_host::{AuditFile, AuditKey, AuditOptions, list_audit_files, verify_audit};

fn record() -> AuditRecord {
    AuditRecord {
        kind: RecordKind::Call,
        time_ms: 0,
        principal: "Agent::\"a\"".to_owned(),
        proposed_by: None,
        transport: "library",
        client: None,
        claimed_client: None,
        claimed_purpose: None,
        session: None,
        tool: None,
        trace: None,
        template: None,
        connection: None,
        fingerprint: String::new(),
        statement: String::new(),
        decision: RecordedDecision::Allow,
        dry_run: false,
        code: None,
        detail: None,
        incident: None,
        policy_version: String::new(),
        policy_bundle: None,
        policy_digest: String::new(),
        entities_digest: String::new(),
        catalog_digest: String::new(),
        policies: Vec::new(),
        obligations: Vec::new(),
        approval: None,
        candidate: None,
        relations: Vec::new(),
        rows: 0,
        affected: None,
        truncated: false,
        findings: 0,
        duration_us: 0,
    }
}

fn options(folder: &Path) -> AuditOptions {
    AuditOptions {
        anchors: Some(folder.join("anchors")),
        ..AuditOptions::new(Some(AuditKey::derive(b"a secret of 32 bytes and of more")))
    }
}

#[test]
fn an_anchor_is_written_while_nothing_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let options = AuditOptions {
        anchor_after: Duration::from_millis(50),
        ..options(folder.path())
    };
    let file = AuditFile::open(&folder.path().join("log"), options).unwrap();
    file.record(&record()).unwrap();
    let began = Instant::now();
    let anchors = || std::fs::read_to_string(folder.path().join("anchors")).unwrap_or_default();
    while anchors().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "no anchor comes");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(
        anchors().lines().count(),
        1,
        "what is anchored is not anchored again"
    );
}

#[test]
fn an_old_file_is_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let options = AuditOptions {
        max_file_age: Some(Duration::from_millis(100)),
        max_files: Some(2),
        ..options(folder.path())
    };
    let (path, key) = (folder.path().join("log"), options.key.clone().unwrap());
    let file = AuditFile::open(&path, options).unwrap();
    for _ in 0..5 {
        file.record(&record()).unwrap();
        std::thread::sleep(Duration::from_millis(120));
    }
    drop(file);
    let files = list_audit_files(&path).unwrap();
    assert_eq!(files.len(), 3, "{files:?}");
    let anchors = std::fs::read_to_string(folder.path().join("anchors")).unwrap();
    let anchors: Vec<_> = anchors.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(anchors.len(), 5, "one at the end of each file");
    let verdict = verify_audit(&files, &key, Some(&anchors)).unwrap();
    assert_eq!(verdict.faults, [], "{:?}", verdict.notes);
    // Two of the five were removed with their ends.
    assert_eq!(verdict.anchors, 3);
}
