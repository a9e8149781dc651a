//! The folder is checked whenever it changes: as `palisade policy check` does, with the open files laid over the disk's.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use lsp_types::{Diagnostic, DiagnosticSeverity, MessageType};
use palisade::{
    catalog::Catalog,
    error::Error,
    policy::{Lint, PolicyProblem, PolicySources, find_syntax_errors},
};
use palisade_host::{PolicyFolder, PolicyFolderError};
use serde_json::json;

use crate::{
    database::Access,
    exit::Failure,
    lsp::{
        diagnostics::{describe_fault, describe_problem},
        documents::Documents,
        editor::Editor,
        options::Options,
        state::{Analysis, LoadedPolicies, Shared},
        workspace::{Tables, Workspace},
    },
    policies::Policies,
    setup::Setup,
};

/// Diagnostics by file.
type Shown = BTreeMap<PathBuf, Vec<Diagnostic>>;

/// What checks remember of each other.
struct Checker<'c> {
    editor: &'c Editor,
    root: &'c Path,
    options: &'c Options,
    /// The folder, and the configuration as it was then.
    workspace: Option<(Option<String>, Workspace)>,
    /// The files that have diagnostics in the editor.
    marked: BTreeSet<PathBuf>,
    /// What a person was told last.
    notice: Option<String>,
}

/// Checks after each change, until the server ends.
pub(super) fn run_checks(shared: &Shared, editor: &Editor, root: &Path, options: &Options) {
    let mut checker = Checker {
        editor,
        root,
        options,
        workspace: None,
        marked: BTreeSet::new(),
        notice: None,
    };
    let (mut seen, mut loaded) = (0, None);
    while let Some((generation, documents)) = shared.wait_for_change(seen) {
        seen = generation;
        let analysis = checker.check(generation, &documents, loaded.clone());
        loaded.clone_from(&analysis.loaded);
        shared.store(analysis);
    }
}

impl Checker<'_> {
    fn check(
        &mut self,
        generation: u64,
        documents: &Documents,
        loaded: Option<Arc<LoadedPolicies>>,
    ) -> Analysis {
        let mut analysis = Analysis {
            generation,
            folder: self.root.to_owned(),
            policies: None,
            warnings: Vec::new(),
            loaded,
            is_current: false,
            documents: documents.clone(),
            open_tests: BTreeMap::new(),
        };
        let mut shown = Shown::new();
        match self.check_folder(documents, &mut analysis, &mut shown) {
            Ok(notice) => self.tell(notice),
            Err(failure) => self.tell(Some(failure.to_string())),
        }
        self.publish(documents, shown);
        analysis
    }

    /// Checks the folder. What a person should know beside is given back.
    fn check_folder(
        &mut self,
        documents: &Documents,
        analysis: &mut Analysis,
        shown: &mut Shown,
    ) -> Result<Option<String>, Failure> {
        let configuration = self.read_configuration();
        let is_known = |(known, _): &(Option<String>, Workspace)| *known == configuration;
        let mut trouble = None;
        if !self.workspace.as_ref().is_some_and(is_known) {
            let opened = documents.find_policy_folder();
            match Workspace::find(self.root, self.options, opened) {
                Ok(found) => {
                    self.workspace = found.map(|workspace| (configuration, workspace));
                }
                // Until it is mended, the folder is what it was.
                Err(failure) => trouble = Some(failure.to_string()),
            }
        }
        let Some((_, workspace)) = &mut self.workspace else {
            return Ok(trouble);
        };
        analysis.folder.clone_from(&workspace.folder);
        let buffers = documents.list_in(&workspace.folder);
        analysis.open_tests = documents.list_in(&workspace.folder.join("tests"));
        let policies: Policies = match PolicyFolder::read_under(&workspace.folder, &buffers) {
            Ok(read) => read.into(),
            Err(error) => {
                show_fault(&error, documents, shown);
                return Ok(shown.is_empty().then(|| tell_fault(&error)));
            }
        };
        analysis.policies = Some(policies.clone());
        // What is wrong with the texts does not wait for the tables.
        let tables = workspace.tables().unwrap_or_else(|failure| Tables {
            catalog: None,
            notice: Some(failure.to_string()),
        });
        let setup = workspace.setup(policies.clone());
        let Tables { catalog, notice } = tables;
        let errors = match catalog {
            Some(catalog) => {
                let found = setup.try_firewall(catalog.clone(), Access::Write, Lint::EveryRelation);
                match found {
                    Ok(firewall) => {
                        analysis.warnings = firewall.policies().warnings().to_vec();
                        analysis.loaded = Some(Arc::new(LoadedPolicies::new(firewall)));
                        analysis.is_current = true;
                        Vec::new()
                    }
                    Err(Error::Policies(errors)) => {
                        if analysis.loaded.as_ref().is_none_or(|loaded| loaded.is_bare) {
                            let bare = load_bare(&setup, &catalog);
                            analysis.loaded = bare.map(Arc::new);
                        }
                        errors.problems().to_vec()
                    }
                    Err(other) => return Err(policies.failure(&other)),
                }
            }
            // No tables, no meaning: what is left is whether it parses.
            None => (policies.sources.policies.iter())
                .flat_map(find_syntax_errors)
                .collect(),
        };
        let mut add = |problem: &PolicyProblem, severity| {
            let text = policies.text(&problem.file).unwrap_or_default();
            let path = analysis.folder.join(&problem.file);
            let diagnostic = describe_problem(problem, text, severity);
            shown.entry(path).or_default().push(diagnostic);
        };
        for error in &errors {
            add(error, DiagnosticSeverity::ERROR);
        }
        for warning in &analysis.warnings {
            add(warning, DiagnosticSeverity::WARNING);
        }
        Ok(trouble.or(notice))
    }

    /// The configuration's text: where it changes, the folder is found anew.
    fn read_configuration(&self) -> Option<String> {
        let named = self.options.config.as_ref();
        let path = named.map_or_else(|| "palisade.toml".into(), |path| path.clone());
        std::fs::read_to_string(self.root.join(path)).ok()
    }

    /// Sends the diagnostics of each file that has some, or had.
    fn publish(&mut self, documents: &Documents, mut shown: Shown) {
        for path in std::mem::take(&mut self.marked) {
            shown.entry(path).or_default();
        }
        for (path, diagnostics) in shown {
            let Some(uri) = documents.uri_of(&path) else {
                continue;
            };
            let version = documents.get(&path).map(|document| document.version);
            if !diagnostics.is_empty() {
                self.marked.insert(path);
            }
            let params = json!({"uri": uri, "version": version, "diagnostics": diagnostics});
            (self.editor).notify("textDocument/publishDiagnostics", params);
        }
    }

    /// Shows a person what is new to them.
    fn tell(&mut self, notice: Option<String>) {
        if let Some(notice) = &notice
            && self.notice.as_ref() != Some(notice)
        {
            self.editor.show(MessageType::WARNING, notice);
        }
        self.notice = notice;
    }
}

/// What is known without policies: with entities and classification, or where these are wrong of the tables alone.
fn load_bare(setup: &Setup, catalog: &Catalog) -> Option<LoadedPolicies> {
    let sources = &setup.policies.sources;
    let whole = PolicySources {
        policies: Vec::new(),
        templates: None,
        ..sources.clone()
    };
    let tables = PolicySources {
        schemas: sources.schemas.clone(),
        ..PolicySources::default()
    };
    [whole, tables].into_iter().find_map(|sources| {
        let setup = setup.with_policies(setup.policies.with_sources(sources));
        let firewall = setup.try_firewall(catalog.clone(), Access::Write, Lint::Sample);
        firewall.ok().map(LoadedPolicies::without_policies)
    })
}

/// Shows that a folder cannot be read, at the file that is wrong or at every open one.
fn show_fault(error: &PolicyFolderError, documents: &Documents, shown: &mut Shown) {
    let diagnostic = describe_fault(tell_fault(error));
    let open = documents.list_in(&error.path).into_keys();
    let names: Vec<String> = match &error.file {
        Some(file) => vec![file.clone()],
        None => open.collect(),
    };
    for name in names {
        shown.insert(error.path.join(name), vec![diagnostic.clone()]);
    }
}

fn tell_fault(error: &PolicyFolderError) -> String {
    let help = error.help.as_deref();
    let help = help.map(|help| format!("\nhelp: {help}"));
    format!("{error}{}", help.unwrap_or_default())
}
