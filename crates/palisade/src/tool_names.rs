//! What the tools of an embedder's server are called. Hints and next actions of refusals name them.

use std::{borrow::Cow, collections::BTreeMap};

use crate::code::Code;

/// The tools that `palisade serve` has by itself, sorted. No template can be a tool by one of these names.
pub const TOOLS: [&str; 30] = [
    "approve_change",
    "commit_change",
    "compensate_change",
    "create_snapshot",
    "delete_snapshot",
    "describe_table",
    "diff_table",
    "execute",
    "explain_query",
    "inspect_change",
    "list_changes",
    "list_databases",
    "list_history",
    "list_receipts",
    "list_schemas",
    "list_snapshots",
    "list_tables",
    "list_templates",
    "list_views",
    "policy_explain",
    "policy_test",
    "propose_change",
    "query",
    "reject_change",
    "revert_table",
    "run_template",
    "schema_dump",
    "search_objects",
    "trace",
    "validate_change",
];

/// Words in hints where there is no such tool.
const OPERATOR: &str = "the operator";

/// The names of a server's tools, by the names that `palisade serve` gives to tools of the same use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    /// Tools that are called otherwise, or of which there is none.
    others: BTreeMap<String, Option<String>>,
}

impl ToolNames {
    /// The names of a server that has these tools alone: what `palisade serve` calls each, and what it is called there.
    pub fn only<'t, N: Into<String>>(tools: impl IntoIterator<Item = (&'t str, N)>) -> Self {
        let none = TOOLS.into_iter().chain(usual_names());
        let mut others: BTreeMap<_, _> = none.map(|usual| (usual.to_owned(), None)).collect();
        let own = tools.into_iter();
        others.extend(own.map(|(usual, own)| (usual.to_owned(), Some(own.into()))));
        Self { others }
    }

    /// The tool that `palisade serve` calls `usual` is called `own`.
    #[must_use]
    pub fn rename(mut self, usual: &str, own: impl Into<String>) -> Self {
        self.others.insert(usual.to_owned(), Some(own.into()));
        self
    }

    /// There is no tool for what `palisade serve` calls `usual`.
    #[must_use]
    pub fn remove(mut self, usual: &str) -> Self {
        self.others.insert(usual.to_owned(), None);
        self
    }

    /// What the tool is called, if there is one.
    #[must_use]
    pub fn name<'a>(&'a self, usual: &'a str) -> Option<&'a str> {
        match self.others.get(usual) {
            Some(own) => own.as_deref(),
            None => Some(usual),
        }
    }

    /// A hint with the names of this server's tools.
    pub(crate) fn translate(&self, hint: &'static str) -> Cow<'static, str> {
        // Longer names first, so that none is found inside of another.
        let mut tools: Vec<&str> = usual_names().collect();
        tools.sort_by_key(|tool| std::cmp::Reverse(tool.len()));
        let mut out = Cow::Borrowed(hint);
        for usual in tools {
            // `query` is a word of English too.
            let is_name = usual.contains('_');
            match self.name(usual) {
                Some(own) if own == usual => {}
                own if is_name && out.contains(usual) => {
                    out = Cow::Owned(out.replace(usual, own.unwrap_or(OPERATOR)));
                }
                Some(_) | None => {}
            }
        }
        out
    }
}

/// Every name in the table of codes.
fn usual_names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&'static str> = Code::ALL
        .iter()
        .flat_map(|code| code.next_valid_actions())
        .copied()
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_have_few_tools() {
        let names = ToolNames::only([("query", "ask")]);
        let named = usual_names()
            .chain(TOOLS)
            .filter_map(|tool| names.name(tool));
        assert!(
            named.eq(usual_names()
                .chain(TOOLS)
                .filter_map(|tool| (tool == "query").then_some("ask")))
        );
    }

    #[test]
    fn hints_name_tools_that_exist() {
        let usual = ToolNames::default();
        let own = ToolNames::default()
            .rename("list_tables", "tables")
            .rename("describe_table", "columns")
            .remove("list_templates");
        for code in Code::ALL {
            let hint = code.remediation();
            assert_eq!(usual.translate(hint), hint);
            let told = own.translate(hint);
            for gone in ["list_tables", "describe_table", "list_templates"] {
                assert!(!told.contains(gone), "{told}");
            }
        }
        let told = own.translate(Code::TemplateUnknown.remediation());
        let expected = "Run one of the templates that the operator shows, by its name.";
        assert_eq!(told, expected);
        assert_eq!(own.name("list_templates"), None);
    }
}
