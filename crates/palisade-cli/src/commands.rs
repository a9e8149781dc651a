//! What a person at the command line does where an agent has tools.

use palisade::tool_names::ToolNames;

/// The commands in the places of the tools that hints name.
pub(crate) fn names() -> ToolNames {
    ToolNames::default()
        .rename("list_tables", "`palisade tables`")
        .rename("describe_table", "`palisade describe`")
        .rename("query", "`palisade query`")
        .remove("list_templates")
}
