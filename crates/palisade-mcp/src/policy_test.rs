//! The answer of `policy_test`: what would become of a statement.

use palisade::{
    answer::{Notice, OutputColumn},
    guard::DryRun,
    rewrite::Effect,
};
use serde::Serialize;
use serde_json::Value;

use crate::metadata::{NameFinding, find};

/// What would become of a statement. It tells what the statement itself would tell, and nothing of filters or of the text that runs.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyTest<'a> {
    allowed: bool,
    /// `read`, `explain`, `write`, `define` or `nothing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<&'static str>,
    /// The columns of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<&'a [OutputColumn]>,
    #[serde(skip_serializing_if = "<[Notice]>::is_empty")]
    notices: &'a [Notice],
    /// What is decided only when it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_later: Option<&'static str>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<Value>,
    findings: Vec<NameFinding<'a>>,
}

/// Of what would run.
pub(crate) fn describe_permitted(run: &DryRun) -> PolicyTest<'_> {
    let mut findings = Vec::new();
    for column in &run.columns {
        let texts = [&*column.name, &*column.type_name];
        find(&mut findings, &texts, "", Some(&column.name));
    }
    PolicyTest {
        allowed: true,
        effect: Some(match run.effect {
            Effect::Read => "read",
            Effect::Explain => "explain",
            Effect::Write => "write",
            Effect::Define => "define",
            Effect::Nothing => "nothing",
        }),
        columns: Some(&run.columns),
        notices: &run.notices,
        decided_later: run.is_decided_later.then_some(
            "The rows that it changes, or what the engine estimates, are looked at when it runs.",
        ),
        refusal: None,
        findings,
    }
}

/// Of what would be refused, as an agent is told of it.
pub(crate) fn describe_refused(refusal: Value) -> PolicyTest<'static> {
    PolicyTest {
        allowed: false,
        effect: None,
        columns: None,
        notices: &[],
        decided_later: None,
        refusal: Some(refusal),
        findings: Vec::new(),
    }
}
