//! Code actions: what `palisade policy check --fix` mends.

use std::ops::Range;

use lsp_types::{CodeActionKind, CodeActionParams, DiagnosticSeverity};
use palisade::policy::PolicyProblem;
use serde_json::{Value, json};

use crate::{
    lsp::{diagnostics::describe_problem, positions::find_range, state::Analysis},
    policy::fix::find_cut,
};

/// The kind of action that mends a whole file.
pub(super) const FIX_ALL: &str = "source.fixAll.palisade";

/// What mends warnings of the file called `name`.
pub(super) fn list_quick_fixes(
    params: &CodeActionParams,
    name: &str,
    analysis: &Analysis,
) -> Vec<Value> {
    let policies = analysis.policies.as_ref();
    let Some(text) = policies.and_then(|policies| policies.text(name)) else {
        return Vec::new();
    };
    let uri = params.text_document.uri.as_str();
    let warnings = analysis.warnings.iter().filter(|one| one.file == name);
    let cuts: Vec<(&PolicyProblem, Range<usize>)> = warnings
        .filter_map(|warning| Some((warning, find_cut(warning, text)?)))
        .collect();
    let edit = |cuts: &[(&PolicyProblem, Range<usize>)]| {
        let edits = cuts.iter().map(|(_, cut)| {
            let range = find_range(text, cut.clone());
            json!({"range": range, "newText": ""})
        });
        let edits: Vec<Value> = edits.collect();
        json!({"changes": {uri: edits}})
    };
    let mut actions = Vec::new();
    if is_wanted(params, &CodeActionKind::QUICKFIX) {
        for (warning, cut) in &cuts {
            let diagnostic = describe_problem(warning, text, DiagnosticSeverity::WARNING);
            let (asked, at) = (params.range, diagnostic.range);
            if asked.start > at.end || asked.end < at.start {
                continue;
            }
            let cure = warning.rule.map_or("mend it", |rule| rule.cure());
            actions.push(json!({
                "title": format!("Palisade: {cure}"),
                "kind": CodeActionKind::QUICKFIX,
                "diagnostics": [diagnostic],
                "isPreferred": true,
                "edit": edit(&[(*warning, cut.clone())]),
            }));
        }
    }
    let all = CodeActionKind::new(FIX_ALL);
    if !cuts.is_empty() && is_wanted(params, &all) {
        actions.push(json!({
            "title": "Palisade: mend all warnings that need no judgement",
            "kind": all,
            "edit": edit(&cuts),
        }));
    }
    actions
}

/// Whether the editor asks for a kind of action, or for what it is of.
fn is_wanted(params: &CodeActionParams, kind: &CodeActionKind) -> bool {
    let Some(only) = &params.context.only else {
        return true;
    };
    only.iter().any(|asked| {
        let rest = kind.as_str().strip_prefix(asked.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}
