//! An answer as one JSON object: the agent's envelope and, beside it, the operator's part.

use palisade::{
    answer::{AsOf, Notice, ScannedRows},
    code::Code,
    firewall::Trace,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    answer::{Answer, Verdict},
    commands,
    explain::DecidingPolicy,
};

/// The object, without a line end. What does not apply is null; refusals have four keys more, and statements that
/// change rows or read the past one.
pub(crate) fn line(answer: &Answer) -> Result<String, serde_json::Error> {
    let refusal = match &answer.verdict {
        Verdict::Refused(refusal) => Some(refusal),
        Verdict::Rows(_) | Verdict::Permitted(_) => None,
    };
    let explained = answer.explained.as_deref();
    let names = commands::names();
    let agent = refusal.map(|refusal| refusal.rejection.for_agent_of(&names));
    serde_json::to_string(&Line {
        id: answer.id.as_deref(),
        decision: if refusal.is_some() { "reject" } else { "allow" },
        code: agent.as_ref().map(|agent| agent.code),
        message: agent.as_ref().map(|agent| agent.message),
        rewritten: answer.rewritten.as_deref(),
        policies: &answer.policies,
        rows: match &answer.verdict {
            Verdict::Rows(envelope) => Rows::Scanned(envelope.answer()),
            Verdict::Permitted(notices) => Rows::None(NoRows {
                notices: Some(notices),
                ..NoRows::default()
            }),
            Verdict::Refused(_) => Rows::None(NoRows::default()),
        },
        affected_rows: match &answer.verdict {
            Verdict::Rows(envelope) => envelope.affected_rows(),
            Verdict::Permitted(_) | Verdict::Refused(_) => None,
        },
        as_of: match &answer.verdict {
            Verdict::Rows(envelope) => envelope.as_of(),
            Verdict::Permitted(_) | Verdict::Refused(_) => None,
        },
        duration_us: u64::try_from(answer.duration.as_micros()).unwrap_or(u64::MAX),
        refusal: agent.as_ref().map(|agent| RefusalPart {
            retryable: agent.retryable,
            retry_after_ms: agent.retry_after_ms,
            remediation_hint: &agent.remediation_hint,
            next_valid_actions: agent
                .next_valid_actions
                .iter()
                .map(|action| action.trim_matches('`'))
                .collect(),
            incident: refusal.and_then(|refusal| refusal.incident.as_deref()),
        }),
        trace: explained.map(|explained| &explained.trace),
        deciding: explained.map(|explained| explained.policies.as_slice()),
    })
}

#[derive(Serialize)]
struct Line<'a> {
    id: Option<&'a RawValue>,
    decision: &'static str,
    code: Option<Code>,
    message: Option<&'a str>,
    rewritten: Option<&'a str>,
    policies: &'a [String],
    #[serde(flatten)]
    rows: Rows<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    affected_rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<&'a AsOf>,
    duration_us: u64,
    #[serde(flatten)]
    refusal: Option<RefusalPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a Trace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deciding: Option<&'a [DecidingPolicy]>,
}

#[derive(Serialize)]
struct RefusalPart<'a> {
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    remediation_hint: &'a str,
    next_valid_actions: Vec<&'a str>,
    incident: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Rows<'a> {
    Scanned(&'a ScannedRows),
    None(NoRows<'a>),
}

/// The keys of an answer that has no rows, all null but for what an answer would say of masked columns.
#[derive(Default, Serialize)]
struct NoRows<'a> {
    columns: (),
    rows: (),
    row_count: (),
    truncated: (),
    truncation_reason: (),
    total_seen: (),
    empty_reason: (),
    notices: Option<&'a [Notice]>,
    findings: (),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn ids_come_back_as_they_were_written() {
        let mut answer = Answer::invalid(Code::RequestInvalid, "no");
        answer.id = RawValue::from_string("123456789012345678901234567890".to_owned()).ok();
        let text = line(&answer).unwrap();
        assert!(
            text.starts_with(r#"{"id":123456789012345678901234567890,"decision":"reject","#),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["code"], "request.invalid");
        assert!(
            json["rows"].is_null() && json["retryable"] == false && json.get("trace").is_none()
        );
    }
}
