//! Which tools a server offers, as far as policy has a use for them.

use std::sync::{Arc, PoisonError, RwLock};

use palisade::{did_you_mean, tool_names::ToolNames};

use crate::{connections::Waiting, tool_name::ToolName};

/// The tools that an operator lets a server offer. What is left out is neither listed nor called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSet(Vec<ToolName>);

/// There is no tool of this name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no tool `{name}`{}", hint.map_or_else(String::new, |close| format!("; did you mean `{close}`?")))]
pub struct UnknownToolError {
    name: String,
    hint: Option<&'static str>,
}

impl ToolSet {
    /// All tools.
    #[must_use]
    pub fn full() -> Self {
        Self(ToolName::ALL.to_vec())
    }

    /// The few that an agent needs, for clients whose models read every tool of every server: `search_objects`, `describe_table`,
    /// `query`, `policy_explain`, and `execute` where something may be changed.
    #[must_use]
    pub fn core() -> Self {
        Self(vec![
            ToolName::DescribeTable,
            ToolName::Execute,
            ToolName::PolicyExplain,
            ToolName::Query,
            ToolName::SearchObjects,
        ])
    }

    /// The same and the tool called `name`.
    ///
    /// # Errors
    /// If there is none.
    pub fn include(mut self, name: &str) -> Result<Self, UnknownToolError> {
        let tool = find_tool(name)?;
        if !self.has(tool) {
            self.0.push(tool);
        }
        Ok(self)
    }

    /// The same without the tool called `name`.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn exclude(mut self, name: &str) -> Result<Self, UnknownToolError> {
        let tool = find_tool(name)?;
        self.0.retain(|one| *one != tool);
        Ok(self)
    }

    /// Those of them for whose names `is_left` holds.
    pub(crate) fn only_where(&self, is_left: impl Fn(&str) -> bool) -> Self {
        let left = self.0.iter().copied();
        Self(left.filter(|tool| is_left(tool.name())).collect())
    }

    /// Those of them that a caller can use who may change something or not, as there are templates for it or not: what refusals name.
    pub(crate) fn only_usable(
        &self,
        (is_changeable, has_templates): (bool, bool),
        waiting: Waiting,
    ) -> Self {
        let left = self.0.iter().copied();
        let is_left = |tool: &ToolName| {
            let is_permitted = *tool != ToolName::Execute || is_changeable;
            is_permitted && tool.is_of_use(has_templates, waiting)
        };
        Self(left.filter(is_left).collect())
    }

    pub(crate) fn has(&self, tool: ToolName) -> bool {
        self.0.contains(&tool)
    }

    /// What hints call the tools that they name: another of the same use, or none.
    pub(crate) fn names(&self) -> ToolNames {
        let mut names = ToolNames::default();
        for tool in ToolName::ALL.iter().filter(|tool| !self.has(**tool)) {
            names = match tool {
                ToolName::ListTables if self.has(ToolName::SearchObjects) => {
                    names.rename(tool.name(), ToolName::SearchObjects.name())
                }
                _ => names.remove(tool.name()),
            };
        }
        names
    }
}

/// The tools that are offered by now. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentTools(Arc<RwLock<Arc<ToolSet>>>);

impl CurrentTools {
    pub(crate) fn new(tools: ToolSet) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(tools))))
    }

    pub(crate) fn get(&self) -> Arc<ToolSet> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace(&self, tools: ToolSet) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
    }
}

impl Default for ToolSet {
    fn default() -> Self {
        Self::full()
    }
}

fn find_tool(name: &str) -> Result<ToolName, UnknownToolError> {
    ToolName::from_name(name).ok_or_else(|| UnknownToolError {
        name: name.to_owned(),
        hint: did_you_mean::closest(name, ToolName::ALL.iter().map(|tool| tool.name())),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_set_grows_and_shrinks_by_names_that_exist() {
        let set = ToolSet::core().include("list_tables").unwrap();
        assert!(set.has(ToolName::ListTables) && !set.has(ToolName::ListViews));
        assert_eq!(set.names().name("list_tables"), Some("list_tables"));
        let set = set.exclude("list_tables").unwrap();
        assert_eq!(set, ToolSet::core());
        assert_eq!(set.names().name("list_tables"), Some("search_objects"));
        let set = set.exclude("search_objects").unwrap();
        assert_eq!(set.names().name("list_tables"), None);
        let unknown = set.exclude("list_table").unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "there is no tool `list_table`; did you mean `list_tables`?"
        );
    }

    #[test]
    fn what_a_caller_cannot_use_is_not_named() {
        let named = |is_changeable, waiting| {
            let set = ToolSet::full().only_usable((is_changeable, false), waiting);
            let names = set.names();
            let tools = ["query", "execute", "propose_change", "list_snapshots"];
            tools.map(|tool| names.name(tool).is_some())
        };
        assert_eq!(
            named(false, Waiting::default()),
            [true, false, false, false]
        );
        let all = Waiting {
            proposes: true,
            has_history: true,
            ..Waiting::default()
        };
        assert_eq!(named(true, all), [true; 4]);
        assert!(
            !ToolSet::full()
                .only_usable((true, false), all)
                .has(ToolName::RunTemplate)
        );
    }
}
