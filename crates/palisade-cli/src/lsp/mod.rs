//! `palisade lsp`: a language server for policy folders, over standard input and output.
//!
//! The main thread reads messages and answers nothing that takes time. One thread checks the folder after changes, one runs
//! its tests after that, and each request is answered on a thread of its own.

mod checks;
mod completion;
mod definition;
mod diagnostics;
mod documents;
mod editor;
mod hover;
mod layout;
mod lens;
mod options;
mod positions;
mod quick_fixes;
mod requests;
mod state;
mod trials;
mod workspace;

use std::{path::PathBuf, sync::Arc, thread};

use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId};
use lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionProviderCapability, CodeLensOptions,
    CompletionOptions, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, HoverProviderCapability, InitializeParams, MessageType, OneOf,
    ServerCapabilities, TextDocumentSyncCapability, TextDocumentSyncKind,
};
use serde_json::{Value, json};

use crate::{
    STACK,
    args::lsp::LspArguments,
    exit::{Exit, Failure},
    lsp::{
        checks::run_checks,
        documents::{Documents, find_path},
        editor::{Editor, Unanswered},
        options::Options,
        quick_fixes::FIX_ALL,
        requests::{Answerer, METHODS, Question},
        trials::run_trials,
    },
};

/// The server, and how far the conversation is.
struct Server<'a> {
    arguments: &'a LspArguments,
    editor: Arc<Editor>,
    answerer: Arc<Answerer>,
    stage: Stage,
}

/// How far the conversation is.
enum Stage {
    /// Before `initialize`.
    New,
    /// After it; whether the editor can be asked to watch files.
    Begun { watches: bool },
    /// After `shutdown`.
    Ended,
}

/// Runs the server until the editor ends it.
pub(crate) fn run(arguments: &LspArguments) -> Result<Exit, Failure> {
    let (connection, threads) = Connection::stdio();
    let messages = connection.receiver.clone();
    let mut server = Server {
        arguments,
        editor: Arc::new(Editor::new(connection)),
        answerer: Arc::default(),
        stage: Stage::New,
    };
    let mut is_told_to_exit = false;
    for message in &messages {
        match message {
            Message::Request(request) => server.take_request(request)?,
            Message::Notification(notification) if notification.method == "exit" => {
                is_told_to_exit = true;
                break;
            }
            Message::Notification(notification) => server.take_notification(notification),
            // Whatever the editor makes of what it was asked.
            Message::Response(_) => {}
        }
    }
    server.answerer.shared.end();
    server.editor.close();
    // So that the reading thread ends too.
    drop(messages);
    threads.join().map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Usage(format!("what came is no message of an editor: {error}")),
    })?;
    Ok(match server.stage {
        Stage::New | Stage::Begun { .. } if is_told_to_exit => Exit::Refused,
        Stage::New | Stage::Begun { .. } | Stage::Ended => Exit::Permitted,
    })
}

impl Server<'_> {
    fn take_request(&mut self, request: Request) -> Result<(), Failure> {
        let refuse = |code, why: &str| Err(Unanswered::new(code, why));
        match (&self.stage, request.method.as_str()) {
            (Stage::New, "initialize") => return self.initialize(request),
            (Stage::New, _) => {
                let why = refuse(ErrorCode::ServerNotInitialized, "`initialize` comes first");
                self.editor.respond(request.id, why);
            }
            (Stage::Ended, _) => {
                let why = refuse(ErrorCode::InvalidRequest, "the server has been shut down");
                self.editor.respond(request.id, why);
            }
            (Stage::Begun { .. }, "shutdown") => {
                self.stage = Stage::Ended;
                self.answerer.shared.end();
                self.editor.respond(request.id, Ok(Value::Null));
            }
            (Stage::Begun { .. }, method) if METHODS.contains(&method) => {
                return self.answer_aside(request);
            }
            (Stage::Begun { .. }, "initialize") => {
                let why = refuse(ErrorCode::InvalidRequest, "`initialize` came before");
                self.editor.respond(request.id, why);
            }
            (Stage::Begun { .. }, _) => {
                let why = format!("there is no `{}` here", request.method);
                let why = refuse(ErrorCode::MethodNotFound, &why);
                self.editor.respond(request.id, why);
            }
        }
        Ok(())
    }

    /// Answers a request on a thread of its own.
    fn answer_aside(&self, request: Request) -> Result<(), Failure> {
        let id = request.id.clone();
        if !self.editor.admit(&id) {
            let why = Unanswered::new(ErrorCode::ServerCancelled, "too many requests wait");
            self.editor.respond(id, Err(why));
            return Ok(());
        }
        let state = self.answerer.shared.lock();
        let question = Question {
            request,
            documents: state.documents.clone(),
            generation: state.generation,
        };
        drop(state);
        let (editor, answerer) = (Arc::clone(&self.editor), Arc::clone(&self.answerer));
        start_thread(move || {
            let answer = answerer.answer(question, &editor);
            editor.answer(id, answer);
        })
    }

    fn take_notification(&mut self, notification: Notification) {
        let Stage::Begun { watches } = self.stage else {
            return;
        };
        let Notification { method, params } = notification;
        let shared = &self.answerer.shared;
        match method.as_str() {
            "initialized" if watches => {
                self.editor.ask("client/registerCapability", watch_files());
            }
            "textDocument/didOpen" => {
                if let Some(DidOpenTextDocumentParams { text_document: it }) = self.read(params) {
                    shared.change(|documents| documents.put(it.uri, it.version, &it.text));
                }
            }
            "textDocument/didChange" => {
                if let Some(change) = self.read::<DidChangeTextDocumentParams>(params) {
                    let it = change.text_document;
                    // Each is the whole text.
                    if let Some(last) = change.content_changes.last() {
                        shared.change(|documents| documents.put(it.uri, it.version, &last.text));
                    }
                }
            }
            "textDocument/didClose" => {
                if let Some(DidCloseTextDocumentParams { text_document: it }) = self.read(params) {
                    shared.change(|documents| documents.remove(&it.uri));
                }
            }
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => {
                shared.change(|_: &mut Documents| {});
            }
            "$/cancelRequest" => {
                let id = params.get("id").cloned().unwrap_or_default();
                if let Ok(id) = serde_json::from_value::<RequestId>(id) {
                    self.editor.cancel(id);
                    shared.wake();
                }
            }
            _ => {}
        }
    }

    fn initialize(&mut self, request: Request) -> Result<(), Failure> {
        let params: InitializeParams = match serde_json::from_value(request.params) {
            Ok(params) => params,
            Err(why) => {
                let why = Unanswered::new(ErrorCode::InvalidParams, why.to_string());
                self.editor.respond(request.id, Err(why));
                return Ok(());
            }
        };
        let workspace = params.capabilities.workspace.as_ref();
        let watching = workspace.and_then(|it| it.did_change_watched_files);
        let watches = watching.is_some_and(|it| it.dynamic_registration == Some(true));
        let lenses = workspace.and_then(|it| it.code_lens.as_ref());
        let refreshes = lenses.is_some_and(|it| it.refresh_support == Some(true));
        self.stage = Stage::Begun { watches };
        let capabilities = json!({
            "capabilities": describe_capabilities(),
            "serverInfo": {"name": "palisade", "version": env!("CARGO_PKG_VERSION")},
        });
        self.editor.respond(request.id, Ok(capabilities));
        let editor = params.initialization_options.as_ref();
        let options = match Options::read(self.arguments, editor) {
            Ok(options) => options,
            Err(why) => {
                self.editor.show(MessageType::ERROR, &why);
                Options::read(self.arguments, None).unwrap_or_default()
            }
        };
        let root = find_root(&params);
        let (editor, answerer) = (Arc::clone(&self.editor), Arc::clone(&self.answerer));
        // The folder is checked before any of its files is open.
        answerer.shared.change(|_: &mut Documents| {});
        let trials = (Arc::clone(&answerer), Arc::clone(&editor));
        start_thread(move || run_checks(&answerer.shared, &editor, &root, &options))?;
        start_thread(move || run_trials(&trials.0, &trials.1, refreshes))
    }

    /// The parameters of a notification; a person is told of what cannot be read.
    fn read<T: serde::de::DeserializeOwned>(&self, params: Value) -> Option<T> {
        match serde_json::from_value(params) {
            Ok(read) => Some(read),
            Err(why) => {
                self.editor.show(MessageType::WARNING, &why.to_string());
                None
            }
        }
    }
}

/// Starts a thread that Cedar has stack enough on.
fn start_thread(work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().stack_size(STACK).spawn(work);
    match started {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::Internal(format!("cannot start: {error}"))),
    }
}

/// The folder that is open in the editor, or where it was started.
fn find_root(params: &InitializeParams) -> PathBuf {
    let folders = params.workspace_folders.iter().flatten();
    let mut uris = folders.map(|folder| &folder.uri);
    #[expect(deprecated, reason = "editors without workspace folders send it")]
    let root = uris.next().or(params.root_uri.as_ref());
    root.and_then(find_path)
        .or_else(|| std::env::current_dir().ok())
        .unwrap_or_default()
}

fn describe_capabilities() -> ServerCapabilities {
    let trigger = |text: &str| text.to_owned();
    ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncCapability::Options(
            lsp_types::TextDocumentSyncOptions {
                open_close: Some(true),
                change: Some(TextDocumentSyncKind::FULL),
                save: Some(lsp_types::TextDocumentSyncSaveOptions::Supported(true)),
                ..lsp_types::TextDocumentSyncOptions::default()
            },
        )),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(vec![trigger("\""), trigger(":"), trigger("@")]),
            ..CompletionOptions::default()
        }),
        definition_provider: Some(OneOf::Left(true)),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX, CodeActionKind::new(FIX_ALL)]),
            ..CodeActionOptions::default()
        })),
        document_formatting_provider: Some(OneOf::Left(true)),
        code_lens_provider: Some(CodeLensOptions {
            resolve_provider: Some(false),
        }),
        ..ServerCapabilities::default()
    }
}

/// Asks to be told of files that others change: policies, entities, classifications, tables and the configuration.
fn watch_files() -> Value {
    let globs = ["cedar", "cedarschema", "json", "toml", "sql"];
    let watchers = globs.map(|ending| json!({"globPattern": format!("**/*.{ending}")}));
    json!({"registrations": [{
        "id": "palisade-files",
        "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": watchers},
    }]})
}
