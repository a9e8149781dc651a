//! Words that policies compare with: of those that are always the same ones, a misspelt one is never met, so that a forbid
//! forbids nothing.

use std::collections::BTreeSet;

use cedar_policy::Policy;
use serde_json::Value;

use crate::policy::{
    cedar::{
        by_action::covers_any,
        context_use::{STATEMENT, USAGE},
        entities,
        schema::PolicyAction,
    },
    lint::compared_literals::collect_compared,
    load::{
        classification::Tags,
        diagnostic::{PolicyProblem, probably},
        source::Located,
        template::Templates,
    },
};
use crate::{
    access::{StatementFacts, Usage},
    catalog::{Catalog, functions::Safety},
    session::Transport,
};

/// Reports the words that what they are compared with never is: problems where the words are fixed, warnings where they are
/// the operator's own.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    catalog: &Catalog,
    (tags, templates): (&Tags, &Templates),
    problems: &mut Vec<PolicyProblem>,
    warnings: &mut Vec<PolicyProblem>,
) {
    let known = Known {
        tables: entities::catalog_ids(catalog, tags, templates)
            .remove("Table")
            .unwrap_or_default(),
        tags: tags.all().map(str::to_owned).collect(),
        templates: templates.names().map(str::to_owned).collect(),
    };
    for located in located {
        let Located { policy, origin, .. } = located;
        let compared: BTreeSet<_> = collect_compared(located, Path::from_json)
            .into_iter()
            .collect();
        for (path, word) in compared {
            let (words, fixed) = known.words(path);
            if row_attribute(path).is_some_and(|name| is_row_column(policy, catalog, name)) {
                continue;
            }
            if words.contains(word.as_str()) {
                continue;
            }
            let message = format!("`{}` is never `{word}`", path.name());
            let help = match probably(&word, words.iter().copied()) {
                Some(word) => Some(format!("did you mean `{word}`?")),
                None if !fixed => None,
                None => {
                    let words: Vec<&str> = words.into_iter().collect();
                    Some(format!("it is one of `{}`", words.join("`, `")))
                }
            };
            let problem = origin.at_text(&word, message).with_help(help);
            if fixed {
                problems.push(problem);
            } else {
                warnings.push(problem);
            }
        }
    }
}

/// As what a column would be called that is named like `path`.
fn row_attribute(path: Path) -> Option<&'static str> {
    match path {
        Path::Safety => Some("safety"),
        Path::Tags => Some("tags"),
        Path::Kind | Path::Usage | Path::Transport | Path::Tables | Path::Template => None,
    }
}

/// Whether `resource.name` may be a column in this policy.
fn is_row_column(policy: &Policy, catalog: &Catalog, name: &str) -> bool {
    covers_any(policy, PolicyAction::is_of_rows)
        && catalog
            .relations()
            .iter()
            .any(|relation| relation.position(name).is_some())
}

/// What is compared with words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Path {
    Kind,
    Usage,
    Transport,
    Safety,
    Tables,
    Template,
    Tags,
}

impl Path {
    fn name(self) -> &'static str {
        match self {
            Self::Kind => "context.statement.kind",
            Self::Usage => "context.usage",
            Self::Transport => "context.transport",
            Self::Safety => "resource.safety",
            Self::Tables => "context.statement.tables",
            Self::Template => "context.template",
            Self::Tags => "resource.tags",
        }
    }

    /// What `json` is, if it is one of them.
    fn from_json(json: &Value) -> Option<Self> {
        let access = json.get(".")?;
        let (left, attribute) = (access.get("left")?, access.get("attr")?.as_str()?);
        match (left.get("Var").and_then(Value::as_str), attribute) {
            (Some("context"), USAGE) => Some(Self::Usage),
            (Some("context"), "transport") => Some(Self::Transport),
            (Some("context"), "template") => Some(Self::Template),
            (Some("resource"), "safety") => Some(Self::Safety),
            (Some("resource"), "tags") => Some(Self::Tags),
            (Some(_), _) => None,
            (None, _) => {
                let outer = left.get(".")?;
                let is_statement = outer.get("left")?.get("Var")?.as_str()? == "context"
                    && outer.get("attr")?.as_str()? == STATEMENT;
                match attribute {
                    "kind" if is_statement => Some(Self::Kind),
                    "tables" if is_statement => Some(Self::Tables),
                    _ => None,
                }
            }
        }
    }
}

/// The words that depend on the catalog and the policy folder.
struct Known {
    tables: BTreeSet<String>,
    tags: BTreeSet<String>,
    templates: BTreeSet<String>,
}

impl Known {
    /// The words that there are, and whether they are the same everywhere. Where there is no classification there is no
    /// tag: a forbid by one protects nothing, which has to be said then too.
    fn words(&self, path: Path) -> (BTreeSet<&str>, bool) {
        match path {
            Path::Kind => (StatementFacts::KINDS.into_iter().collect(), true),
            Path::Usage => (Usage::ALL.iter().map(|usage| usage.name()).collect(), true),
            Path::Transport => {
                let all = Transport::ALL.iter();
                (all.map(|transport| transport.name()).collect(), true)
            }
            Path::Safety => {
                let all = Safety::ALL.iter();
                (all.map(|safety| safety.name()).collect(), true)
            }
            Path::Tables => (self.tables.iter().map(String::as_str).collect(), false),
            Path::Template => (self.templates.iter().map(String::as_str).collect(), false),
            Path::Tags => (self.tags.iter().map(String::as_str).collect(), false),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use crate::policy::tests::fixture::{load, set, sources};

    #[test]
    fn fixed_words_must_be_right() {
        for (action, condition, message, help) in [
            (
                "select",
                "context has statement && context.statement.kind == \"selct\"",
                "`context.statement.kind` is never `selct`",
                "did you mean `select`?",
            ),
            (
                "read_plain",
                "context has usage && context.usage.contains(\"ouput\")",
                "`context.usage` is never `ouput`",
                "did you mean `output`?",
            ),
            (
                "read_plain",
                "context has usage && context.usage.containsAny([\"filter\", \"odrer\"])",
                "`context.usage` is never `odrer`",
                "did you mean `order`?",
            ),
            (
                "call",
                "[\"pure\", \"volatil\"].contains(resource.safety)",
                "`resource.safety` is never `volatil`",
                "did you mean `volatile`?",
            ),
            (
                "select",
                "context.transport != \"mcp\"",
                "`context.transport` is never `mcp`",
                "it is one of `cli`, `http`, `library`, `stdio`",
            ),
        ] {
            let text = format!(
                "forbid(principal, action == Action::\"{action}\", resource)\nwhen {{ {condition} }};"
            );
            let errors = load(&sources(&text)).unwrap_err();
            let problem = &errors.problems()[0];
            assert_eq!(problem.message, message);
            assert_eq!(problem.line, Some(2), "{problem}");
            assert_eq!(problem.help.as_deref(), Some(help), "{problem}");
        }
    }

    #[test]
    fn tags_without_a_classification_are_warned_of() {
        let mut sources = sources(
            "forbid(principal, action == Action::\"read_plain\", resource)\nwhen { resource.tags.contains(\"secrt\") };",
        );
        sources.classification = None;
        let set = load(&sources).unwrap();
        let problem = &set.warnings()[0];
        assert_eq!(problem.message, "`resource.tags` is never `secrt`");
        assert_eq!(problem.line, Some(2), "{problem}");
    }

    #[test]
    fn own_words_are_warned_of() {
        for (action, condition, message, help) in [
            (
                "read_plain",
                "resource.tags.contains(\"secrt\")",
                "`resource.tags` is never `secrt`",
                Some("did you mean `secret`?"),
            ),
            (
                "select",
                "context has statement && context.statement.tables.contains(\"main.tikets\")",
                "`context.statement.tables` is never `main.tikets`",
                Some("did you mean `main.tickets`?"),
            ),
            (
                "select",
                "context has template && context.template == \"nope\"",
                "`context.template` is never `nope`",
                None,
            ),
        ] {
            let text = format!(
                "forbid(principal, action == Action::\"{action}\", resource)\nwhen {{ {condition} }};"
            );
            let set = set(&text);
            let problem = &set.warnings()[0];
            assert_eq!(problem.message, message);
            assert_eq!(problem.line, Some(2), "{problem}");
            assert_eq!(problem.help.as_deref(), help, "{problem}");
        }
        let right = set(
            "forbid(principal, action == Action::\"read_plain\", resource) when { resource.tags.containsAny([\"pii\", \"secret\"]) };",
        );
        assert!(right.warnings().is_empty(), "{:?}", right.warnings());
    }
}
