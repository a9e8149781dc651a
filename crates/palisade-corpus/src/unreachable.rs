//! Expectations that no policies can meet.

use std::collections::BTreeSet;

use palisade::{code::Code, did_you_mean};

use crate::{
    case::{Case, Shown, Verdict},
    compare::names,
    run::Runner,
};

/// What a case that fails is held against.
pub(crate) struct Reach<'r> {
    /// Policies that permit everything.
    pub(crate) open: &'r Runner,
    /// The ids of the policies that the case is decided by.
    pub(crate) policies: &'r BTreeSet<String>,
}

impl Reach<'_> {
    /// Why `case` holds by no policies; none where some may exist.
    pub(crate) fn find_obstacle(&self, case: &Case) -> Option<String> {
        self.find_unknown_policy(case)
            .or_else(|| self.find_other_verdict(case))
            .or_else(|| self.find_empty_cell(case))
            .or_else(|| self.find_unknown_column(case))
    }

    fn find_unknown_policy(&self, case: &Case) -> Option<String> {
        let expected = case.expect.policies.iter().flatten();
        let mut unknown = expected.filter(|id| !self.policies.contains(*id));
        let id = unknown.next()?;
        let close = did_you_mean::closest(id, self.policies.iter().map(String::as_str));
        let hint = close.map(|close| format!("; did you mean `{close}`?"));
        Some(format!(
            "there is no policy `{id}`{}",
            hint.unwrap_or_default()
        ))
    }

    /// The text of a statement alone makes it refused, or keeps it from being refused so.
    fn find_other_verdict(&self, case: &Case) -> Option<String> {
        let answer = self.open.decide(case).ok()?;
        match (case.expect.verdict, answer.code) {
            (Verdict::Allow, Some(code)) if is_final(code) => {
                let message = answer
                    .json
                    .get("message")
                    .and_then(serde_json::Value::as_str);
                Some(format!(
                    "it is refused where everything is permitted too, with `{code}`: {}",
                    message.unwrap_or_default()
                ))
            }
            (Verdict::Reject(expected), got) if is_of_text(expected) && got != Some(expected) => {
                Some(format!(
                    "`{expected}` depends on the statement's text alone, and this text is not refused so"
                ))
            }
            (Verdict::Allow | Verdict::Reject(_) | Verdict::Deny, _) => None,
        }
    }

    /// A cell that says `mask` or `filter` of a statement that reads no table.
    fn find_empty_cell(&self, case: &Case) -> Option<String> {
        let shown = case
            .expect
            .shown
            .filter(|shown| *shown != Shown::default())?;
        let trace = self.open.explain(case).ok()?;
        let reads_nothing = trace.code.is_none() && trace.relations.is_empty();
        reads_nothing.then(|| format!("a statement that reads no table cannot give `{shown}`"))
    }

    /// A column that the statement does not give, however much is permitted.
    fn find_unknown_column(&self, case: &Case) -> Option<String> {
        if self.open.changes(case) {
            return None;
        }
        let expect = &case.expect;
        let expected = expect.columns.iter().chain(&expect.masked).flatten();
        let expected: Vec<&String> = expected.collect();
        if expected.is_empty() {
            return None;
        }
        let answer = self.open.answer(case).ok()?;
        if answer.code.is_some() {
            return None;
        }
        let given = names(&answer.json, |_| true);
        let unknown = expected.into_iter().find(|name| !given.contains(name))?;
        let given: Vec<String> = given.iter().map(|name| format!("`{name}`")).collect();
        Some(format!(
            "the statement gives no column `{unknown}`, whatever is permitted; it gives {}",
            given.join(", ")
        ))
    }
}

/// Whether a refusal under policies that permit everything is one under any policies.
fn is_final(code: Code) -> bool {
    let named = [
        Code::NameUnknownRelation,
        Code::NameUnknownColumn,
        Code::NameUnknownType,
        Code::NameAmbiguous,
        Code::FunctionUnknown,
        Code::ParameterMismatch,
        Code::TemplateUnknown,
        Code::SyntaxUnsupported,
    ];
    is_of_text(code) || named.contains(&code)
}

/// Whether policies have no part in a refusal.
pub(crate) fn is_of_text(code: Code) -> bool {
    [
        Code::SyntaxEmpty,
        Code::SyntaxCharacter,
        Code::SyntaxExecutableComment,
        Code::SyntaxInvalid,
        Code::SyntaxMultiple,
    ]
    .contains(&code)
}
