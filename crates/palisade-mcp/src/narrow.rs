//! What one request leaves of what a server offers: fewer databases, fewer tools, never more.

use std::{collections::BTreeSet, sync::Arc};

use rmcp::model::Extensions;

use crate::{
    connections::{Connection, Waiting},
    server::PalisadeServer,
    template_tools::TemplateTool,
    tool_set::ToolSet,
};

/// To what a request narrows a server. It takes away from what the operator and policies give, and cannot add to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// The databases that are left, by the operator's names; without them, all are.
    pub databases: Option<BTreeSet<String>>,
    /// The tools that are left, by their names; without them, all are.
    pub tools: Option<BTreeSet<String>>,
}

impl Narrowing {
    /// Whether it takes nothing away.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.databases.is_none() && self.tools.is_none()
    }

    /// Whether the tool called `name` is left.
    fn leaves_tool(&self, name: &str) -> bool {
        let tools = self.tools.as_ref();
        tools.is_none_or(|tools| tools.contains(name))
    }
}

impl PalisadeServer {
    /// Whether everything that `narrowing` names is offered to who asks by `request`. It does not say what is missing: what is
    /// hidden and what is not there are alike.
    #[must_use]
    pub fn offers(&self, request: &Extensions, narrowing: &Narrowing) -> bool {
        let Narrowing { databases, tools } = narrowing;
        let has_databases = databases.as_ref().is_none_or(|databases| {
            let names = self.connections.names();
            databases.iter().all(|name| names.contains(&name.as_str()))
        });
        let has_tools = tools.as_ref().is_none_or(|tools| {
            let offered = self.list_offered(request);
            let mut tools = tools.iter();
            tools.all(|name| offered.iter().any(|tool| tool.name == *name))
        });
        has_databases && has_tools
    }

    /// The same with what `narrowing` leaves of it: other tools are neither listed nor run, and other databases are not there. What was
    /// narrowed before stays so.
    #[must_use]
    pub fn narrow(&self, narrowing: &Narrowing) -> Self {
        let mut narrowed = self.clone();
        if let Some(databases) = &narrowing.databases {
            narrowed.connections = Arc::new(self.connections.only_within(databases));
        }
        narrowed.narrowings.push(narrowing.clone());
        narrowed
    }

    /// The tools that are offered by now.
    pub(crate) fn tools(&self) -> Arc<ToolSet> {
        let offered = self.current_tools();
        if self.narrowings.is_empty() {
            return offered;
        }
        let is_left = |name: &str| self.leaves_tool(name);
        Arc::new(offered.only_where(is_left))
    }

    /// The tools that a refusal can name to a caller: those that it can use by now on `connection`, or on any before one was chosen.
    pub(crate) fn usable_tools(
        &self,
        request: &Extensions,
        connection: Option<&Connection>,
    ) -> ToolSet {
        let (connections, set) = (&self.connections, self.tools());
        let has_templates = connections.have_templates(request);
        match connection {
            Some(connection) => {
                let is_changeable = connection.is_changeable(request);
                let may = (is_changeable, connection.may_approve(request));
                set.only_usable((is_changeable, has_templates), connection.find_uses(may))
            }
            None => {
                let is_changeable = connections.foresee(request).changeable();
                let uses = match connections.unopened().is_empty() {
                    true => connections.find_uses(request),
                    // Of a database that is not open it is not known yet.
                    false => Waiting {
                        proposes: true,
                        approves: true,
                        has_history: true,
                        ..Waiting::default()
                    },
                };
                let has_templates = has_templates || !connections.unopened().is_empty();
                set.only_usable((is_changeable, has_templates), uses)
            }
        }
    }

    /// The templates that are tools of their own for a caller.
    pub(crate) fn template_tools(&self, request: &Extensions) -> Vec<TemplateTool> {
        let mut tools = self.connections.template_tools(request);
        tools.retain(|tool| self.leaves_tool(&tool.name));
        tools
    }

    fn leaves_tool(&self, name: &str) -> bool {
        let mut narrowings = self.narrowings.iter();
        narrowings.all(|narrowing| narrowing.leaves_tool(name))
    }
}
