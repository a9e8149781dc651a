//! What a person at the command line does where an agent has tools.

use palisade::tool_names::ToolNames;

/// The commands in the places of the tools that hints name.
pub(crate) fn names() -> ToolNames {
    ToolNames::default()
        .rename("list_tables", "`palisade tables`")
        .rename("describe_table", "`palisade describe`")
        .rename("query", "`palisade query`")
        .rename("execute", "`palisade execute`")
        .rename("list_changes", "`palisade changes list`")
        .rename("inspect_change", "`palisade changes show`")
        .rename("propose_change", "`palisade changes propose`")
        .rename("validate_change", "`palisade changes validate`")
        .rename("approve_change", "`palisade changes approve`")
        .rename("reject_change", "`palisade changes reject`")
        .rename("commit_change", "`palisade changes commit`")
        .rename("compensate_change", "`palisade changes compensate`")
        .rename("revert_table", "`palisade changes revert`")
        .rename("diff_table", "`palisade history diff`")
        .rename("list_history", "`palisade history list`")
        .rename("list_receipts", "`palisade ledger list`")
        .rename("list_snapshots", "`palisade snapshots list`")
        .rename("create_snapshot", "`palisade snapshots create`")
        .remove("list_templates")
}
