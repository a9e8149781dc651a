//! Requests of the editor, each answered on a thread of its own.

use std::{path::PathBuf, sync::Arc};

use lsp_server::{ErrorCode, Request, RequestId};
use lsp_types::{
    CodeActionParams, CodeLensParams, CompletionParams, DocumentFormattingParams,
    GotoDefinitionParams, HoverParams, Position, Uri,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::lsp::{
    completion::complete_word,
    definition::find_definition,
    diagnostics::explain_rule,
    documents::{Documents, find_path},
    editor::{Editor, Unanswered},
    hover::{explain_word, find_warned_rules},
    layout::lay_out,
    lens::{Lenses, describe_lenses},
    positions::{find_offset, find_range},
    quick_fixes::list_quick_fixes,
    state::{Analysis, Shared},
    trials::Trials,
};

/// What requests are answered from.
#[derive(Default)]
pub(super) struct Answerer {
    pub(super) shared: Shared,
    pub(super) trials: Trials,
    lenses: Lenses,
}

/// A request, and what the editor had open when it came.
pub(super) struct Question {
    pub(super) request: Request,
    pub(super) documents: Documents,
    pub(super) generation: u64,
}

/// A file of the policy folder.
struct Asked {
    name: String,
    text: Arc<str>,
}

/// The methods that are answered here.
pub(super) const METHODS: [&str; 6] = [
    "textDocument/hover",
    "textDocument/completion",
    "textDocument/definition",
    "textDocument/codeAction",
    "textDocument/formatting",
    "textDocument/codeLens",
];

impl Answerer {
    /// The answer to a question, as long as the editor waits for it.
    pub(super) fn answer(&self, question: Question, editor: &Editor) -> Result<Value, Unanswered> {
        let Question {
            request,
            documents,
            generation,
        } = question;
        let Request { id, method, params } = request;
        match method.as_str() {
            "textDocument/hover" => {
                let HoverParams {
                    text_document_position_params: at,
                    ..
                } = read(params)?;
                let analysis = self.first_check(&id, editor)?;
                let Some(asked) = find_file(&documents, &at.text_document.uri, &analysis) else {
                    return Ok(Value::Null);
                };
                Ok(show_hover(&asked, at.position, &analysis))
            }
            "textDocument/completion" => {
                let CompletionParams {
                    text_document_position: at,
                    ..
                } = read(params)?;
                let analysis = self.first_check(&id, editor)?;
                let Some(asked) = find_file(&documents, &at.text_document.uri, &analysis) else {
                    return Ok(Value::Null);
                };
                let offset = find_offset(&asked.text, at.position);
                Ok(complete_word(&asked.text, offset, &analysis))
            }
            "textDocument/definition" => {
                let GotoDefinitionParams {
                    text_document_position_params: at,
                    ..
                } = read(params)?;
                let analysis = self.first_check(&id, editor)?;
                let Some(asked) = find_file(&documents, &at.text_document.uri, &analysis) else {
                    return Ok(Value::Null);
                };
                let place = show_definition(&asked, at.position, &documents, &analysis);
                Ok(place.unwrap_or_default())
            }
            "textDocument/codeAction" => {
                let params: CodeActionParams = read(params)?;
                let analysis = self.check_of(generation, &id, editor)?;
                let uri = &params.text_document.uri;
                let Some(asked) = find_file(&documents, uri, &analysis) else {
                    return Ok(Value::Null);
                };
                Ok(list_quick_fixes(&params, &asked.name, &analysis).into())
            }
            "textDocument/formatting" => {
                let DocumentFormattingParams { text_document, .. } = read(params)?;
                let path = find_path(&text_document.uri);
                let text = path.as_ref().and_then(|path| documents.read(path));
                let name = path.as_ref().and_then(|path| path.file_name()?.to_str());
                let Some((name, text)) = name.zip(text) else {
                    return Ok(Value::Null);
                };
                lay_out(name, &text)
            }
            "textDocument/codeLens" => {
                let CodeLensParams { text_document, .. } = read(params)?;
                let analysis = self.check_of(generation, &id, editor)?;
                let Some(asked) = find_file(&documents, &text_document.uri, &analysis) else {
                    return Ok(Value::Null);
                };
                self.shared.note_lenses();
                self.list_lenses(&asked.name, &analysis, || editor.is_waiting(&id))
            }
            _ => Err(Unanswered::new(
                ErrorCode::MethodNotFound,
                format!("there is no `{method}` here"),
            )),
        }
    }

    /// The lenses of the file called `name`, once its tests have run.
    fn list_lenses(
        &self,
        name: &str,
        analysis: &Analysis,
        is_waiting: impl Fn() -> bool,
    ) -> Result<Value, Unanswered> {
        if !analysis.is_current {
            return Ok(json!([]));
        }
        let generation = analysis.generation;
        let is_wanted = || is_waiting() && self.shared.is_newest(generation);
        let sole = self.lenses.count(analysis, is_wanted);
        let sole = sole.map_err(|why| Unanswered::new(ErrorCode::InternalError, why))?;
        let trial = self.shared.wait_until(
            || self.trials.find(generation),
            |state| is_waiting() && state.generation == generation,
        );
        let (sole, trial) = sole.zip(trial).ok_or_else(say_outdated)?;
        Ok(describe_lenses(name, analysis, &sole, &trial).into())
    }

    /// The last check, or the first to come.
    fn first_check(&self, id: &RequestId, editor: &Editor) -> Result<Arc<Analysis>, Unanswered> {
        self.check_of(0, id, editor)
    }

    /// The check of a change, or of a later one.
    fn check_of(
        &self,
        generation: u64,
        id: &RequestId,
        editor: &Editor,
    ) -> Result<Arc<Analysis>, Unanswered> {
        let is_wanted = || editor.is_waiting(id);
        let analysis = self.shared.wait_for_check(generation, is_wanted);
        analysis.ok_or_else(say_outdated)
    }
}

fn say_outdated() -> Unanswered {
    Unanswered::new(ErrorCode::ContentModified, "the policies have changed")
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Unanswered> {
    serde_json::from_value(params)
        .map_err(|why| Unanswered::new(ErrorCode::InvalidParams, why.to_string()))
}

/// The file that is asked about, if it is of the policy folder.
fn find_file(documents: &Documents, uri: &Uri, analysis: &Analysis) -> Option<Asked> {
    let path: PathBuf = find_path(uri)?;
    if path.parent() != Some(analysis.folder.as_path()) {
        return None;
    }
    Some(Asked {
        name: path.file_name()?.to_str()?.to_owned(),
        text: documents.read(&path)?,
    })
}

/// The word under the mouse, and the rules of warnings there.
fn show_hover(asked: &Asked, position: Position, analysis: &Analysis) -> Value {
    let offset = find_offset(&asked.text, position);
    let word = explain_word(&asked.text, offset, analysis);
    let range = word.as_ref().map(|(word, _)| word.range.clone());
    let mut parts: Vec<String> = word.into_iter().map(|(_, told)| told).collect();
    // Places of warnings are those of the text that was checked.
    let policies = analysis.policies.as_ref();
    let checked = policies.and_then(|policies| policies.text(&asked.name));
    if checked == Some(asked.text.as_ref()) {
        for rule in find_warned_rules(&asked.name, offset, analysis) {
            let told = explain_rule(rule);
            if !parts.contains(&told) {
                parts.push(told);
            }
        }
    }
    if parts.is_empty() {
        return Value::Null;
    }
    json!({
        "contents": {"kind": "markdown", "value": parts.join("\n\n---\n\n")},
        "range": range.map(|range| find_range(&asked.text, range)),
    })
}

fn show_definition(
    asked: &Asked,
    position: Position,
    documents: &Documents,
    analysis: &Analysis,
) -> Option<Value> {
    let offset = find_offset(&asked.text, position);
    let text = |name: &str| documents.read(&analysis.folder.join(name));
    let read = |name: &str| text(name).map(|text| text.to_string());
    let (file, range) = find_definition(&asked.text, offset, read)?;
    let uri = documents.uri_of(&analysis.folder.join(file))?;
    Some(json!({"uri": uri, "range": find_range(&text(file)?, range)}))
}
