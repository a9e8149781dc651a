//! The same policy gives the same verdict on every engine, for statements that mean the same there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{collections::BTreeMap, fs, path::PathBuf};

use palisade::{
    dialect::Dialect,
    firewall::{Decision, Firewall},
    session::{Principal, Session},
    value::Params,
};
use palisade_corpus::{Corpus, Runner};
use serde::Deserialize;

/// `corpus/portable.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Portable {
    catalogs: Vec<String>,
    policies: String,
    r#as: String,
    allow: Vec<String>,
    /// Statements by the code of their refusal.
    refuse: BTreeMap<String, Vec<String>>,
}

/// The code of a refusal, or that there is none.
fn verdict(firewall: &Firewall, session: &Session, sql: &str) -> String {
    match firewall.check(sql, &Params::None, session).unwrap() {
        Decision::Allow(_) => "allow".to_owned(),
        Decision::Reject(why) => why.code().slug().to_owned(),
    }
}

#[test]
fn engines_agree() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let text = fs::read_to_string(folder.join("portable.toml")).unwrap();
    let portable: Portable = toml::from_str(&text).unwrap();
    let corpus = Corpus::load(&folder).unwrap();
    let runner = Runner::new(&corpus).unwrap();
    let firewalls: Vec<(Dialect, _)> = portable
        .catalogs
        .iter()
        .map(|catalog| {
            let case = corpus
                .cases
                .iter()
                .find(|case| case.catalog == *catalog && case.policies == portable.policies)
                .unwrap();
            (case.dialect, runner.firewall(case).unwrap())
        })
        .collect();
    assert_eq!(firewalls.len(), 3);
    let session = Session::new(Principal::parse(&portable.r#as).unwrap());

    let allowed = portable.allow.iter().map(|sql| ("allow", sql));
    let refused = portable
        .refuse
        .iter()
        .flat_map(|(code, statements)| statements.iter().map(move |sql| (code.as_str(), sql)));
    let mut wrong = Vec::new();
    let mut count = 0;
    for (expected, sql) in allowed.chain(refused) {
        count += 1;
        for (dialect, firewall) in &firewalls {
            let verdict = verdict(firewall, &session, sql);
            if verdict != expected {
                wrong.push(format!("{dialect}: {verdict}, not {expected}: {sql}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 200, "{count}");
    assert!(
        portable.allow.len() >= 80 && portable.refuse.len() >= 12,
        "both verdicts, and many codes"
    );
}
