//! Templates of several connections whose tools would have one name.

use rmcp::model::Extensions;

use crate::server::PalisadeServer;

impl PalisadeServer {
    /// The templates that are no tools of their own although the operator offers them so: another tool has their name. Of principals
    /// that only a request tells, none is known.
    #[must_use]
    pub fn list_template_clashes(&self) -> Vec<String> {
        let connections = &self.connections;
        let (_, left_out) = connections.divide_template_tools(&Extensions::default());
        let described = left_out.into_iter().map(|tool| {
            let (template, connection) = (tool.template.name, &tool.connection.name);
            format!(
                "template {template:?} of {connection:?}: the tool `{}` is there already",
                tool.name
            )
        });
        described.collect()
    }
}
