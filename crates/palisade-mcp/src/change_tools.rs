//! The tools of changes that are looked at before they are kept: what they are called with, and what they do.

use std::{collections::BTreeMap, time::Duration};

use palisade::{
    answer::Form,
    code::Code,
    guard::{ChangeCall, ChangeProposal, PreviewedChange, Refusal, TracedRow},
    limits::Limits,
    rejection::Rejection,
    value::Params,
};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::{
    answer,
    calls::CallContext,
    connections::Connection,
    refusals::{read_only, refusal},
    tool_name::ToolName,
};

/// Characters of a change's id, and of a preview's.
const MAX_ID: usize = 64;

/// Characters of a reason.
pub(crate) const MAX_REASON: usize = 1_000;

/// Who has a use for a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartInChanges {
    /// Who may change something.
    Proposer,
    /// Who may approve what others propose.
    Approver,
    /// Either.
    Both,
}

/// What a tool of changes is called with.
#[derive(Debug)]
pub(crate) enum ChangeToolCall {
    Propose {
        statements: Vec<(String, Params)>,
        reason: Option<String>,
        max_affected_rows: Option<u64>,
    },
    Validate(String, Form),
    Inspect(String, Form),
    Approve {
        change: String,
        preview: String,
    },
    Reject(String),
    Commit(String),
    Compensate {
        change: String,
        reason: Option<String>,
    },
    Revert {
        table: String,
        to: String,
        reason: Option<String>,
    },
    List,
    Receipts(Option<String>),
    Trace {
        table: String,
        key: BTreeMap<String, palisade::value::Value>,
    },
}

impl ChangeToolCall {
    /// The tool that is called.
    fn tool(&self) -> ToolName {
        match self {
            Self::Propose { .. } => ToolName::ProposeChange,
            Self::Validate(_, _) => ToolName::ValidateChange,
            Self::Inspect(_, _) => ToolName::InspectChange,
            Self::Approve { .. } => ToolName::ApproveChange,
            Self::Reject(_) => ToolName::RejectChange,
            Self::Commit(_) => ToolName::CommitChange,
            Self::Compensate { .. } => ToolName::CompensateChange,
            Self::Revert { .. } => ToolName::RevertTable,
            Self::List => ToolName::ListChanges,
            Self::Receipts(_) => ToolName::ListReceipts,
            Self::Trace { .. } => ToolName::Trace,
        }
    }

    /// Whether it shows something. The gate records such calls.
    pub(crate) fn is_reading(&self) -> bool {
        match self {
            Self::Validate(_, _)
            | Self::Inspect(_, _)
            | Self::List
            | Self::Receipts(_)
            | Self::Trace { .. } => true,
            Self::Propose { .. }
            | Self::Approve { .. }
            | Self::Reject(_)
            | Self::Commit(_)
            | Self::Compensate { .. }
            | Self::Revert { .. } => false,
        }
    }

    /// About what it takes while it waits.
    pub(crate) fn bytes(&self, values: impl Fn(&Params) -> usize) -> usize {
        match self {
            Self::Propose {
                statements,
                reason,
                max_affected_rows: _,
            } => {
                let texts = statements.iter();
                let texts = texts.map(|(sql, params)| sql.len() + values(params));
                texts.sum::<usize>() + reason.as_ref().map_or(0, String::len)
            }
            Self::Approve { change, preview } => change.len() + preview.len(),
            Self::Compensate { change, reason } => {
                change.len() + reason.as_ref().map_or(0, String::len)
            }
            Self::Revert { table, to, reason } => {
                table.len() + to.len() + reason.as_ref().map_or(0, String::len)
            }
            Self::Validate(id, _) | Self::Inspect(id, _) | Self::Reject(id) | Self::Commit(id) => {
                id.len()
            }
            Self::Trace { table, key } => table.len() + values(&Params::Named(key.clone())),
            Self::Receipts(id) => id.as_ref().map_or(0, String::len),
            Self::List => 0,
        }
    }
}

/// An id as a caller writes it.
///
/// # Errors
/// If it is none.
pub(crate) fn read_id(argument: &str, id: String) -> Result<String, Rejection> {
    match (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(id),
        false => Err(Rejection::new(
            Code::RequestInvalid,
            format!("`{argument}` must be an id as propose_change and list_changes give it"),
        )),
    }
}

impl Connection {
    /// Runs a call of a tool of changes. It reads and writes the state, which blocks.
    pub(crate) async fn call_changes(
        &self,
        call: &ChangeToolCall,
        context: &CallContext,
        limits: &Limits,
    ) -> Result<CallToolResult, Refusal> {
        let part = call.tool().part_in_changes();
        let may = part.is_some_and(|part| match part {
            PartInChanges::Proposer => context.is_changeable,
            PartInChanges::Approver => context.may_approve,
            PartInChanges::Both => context.is_changeable || context.may_approve,
        });
        let guard = &self.guard;
        if !may {
            let refused = refusal(read_only(call.tool()));
            if call.is_reading() {
                guard.record_call(&context.session, Err(&refused), Duration::ZERO)?;
            }
            return Err(refused);
        }
        let within = |form: Form| ChangeCall {
            limits: Some(limits),
            room: Some(context.size.room(form, true)),
            cancel: Some(&context.cancel),
            ..ChangeCall::new(&context.session)
        };
        let plain = within(Form::Table);
        match call {
            ChangeToolCall::Propose {
                statements,
                reason,
                max_affected_rows,
            } => {
                let proposal = ChangeProposal {
                    statements,
                    reason: reason.as_deref(),
                    max_affected_rows: *max_affected_rows,
                };
                let proposed = guard.propose_change(proposal, plain);
                self.tell(&proposed.await?)
            }
            ChangeToolCall::Validate(id, form) => {
                let validated = guard.validate_change(id, within(*form));
                self.show(&validated.await?, *form, context)
            }
            ChangeToolCall::Inspect(id, form) => {
                let inspected = guard.inspect_change(id, within(*form));
                self.show(&inspected.await?, *form, context)
            }
            ChangeToolCall::Approve { change, preview } => {
                let approved = guard.approve_change((change, preview), plain);
                self.tell(&approved.await?)
            }
            ChangeToolCall::Reject(id) => self.tell(&guard.reject_change(id, &context.session)?),
            ChangeToolCall::Commit(id) => {
                let committed = guard.commit_change(id, plain);
                self.tell(&committed.await?)
            }
            ChangeToolCall::Compensate { change, reason } => {
                let proposed = guard.compensate_change(change, reason.as_deref(), plain);
                self.tell(&proposed.await?)
            }
            ChangeToolCall::Revert { table, to, reason } => {
                let beside = (to.as_str(), reason.as_deref());
                let proposed = guard.revert_table(table, beside, plain);
                self.tell(&proposed.await?)
            }
            ChangeToolCall::List => {
                let changes = guard.list_changes(&context.session)?;
                self.tell(&json!({"changes": changes}))
            }
            ChangeToolCall::Receipts(None) => {
                let receipts = guard.list_receipts(&context.session)?;
                self.tell(&json!({"receipts": receipts}))
            }
            ChangeToolCall::Receipts(Some(id)) => {
                self.tell(&guard.get_receipt(id, &context.session)?)
            }
            ChangeToolCall::Trace { table, key } => {
                let receipts = guard.trace_row(TracedRow { table, key }, &context.session)?;
                self.tell(&json!({"receipts": receipts}))
            }
        }
    }

    /// A change, and behind it the rows that are different.
    fn show(
        &self,
        looked: &PreviewedChange,
        form: Form,
        context: &CallContext,
    ) -> Result<CallToolResult, Refusal> {
        let PreviewedChange {
            view,
            preview,
            is_as_validated,
        } = looked;
        let mut told = to_json(view).map_err(refusal)?;
        if let Value::Object(told) = &mut told {
            if preview.is_some() {
                told.insert("as_validated".to_owned(), json!(is_as_validated));
            }
            if let Some(preview) = preview {
                told.insert("row_counts".to_owned(), json!(preview.row_counts));
                if let Some(ms) = preview.lock_held_ms {
                    told.insert("lock_held_ms".to_owned(), json!(ms));
                }
            }
            if let Some(preview) = preview
                && !preview.generated.is_empty()
            {
                told.insert("generated".to_owned(), json!(preview.generated));
            }
            let counted: Vec<Value> = preview
                .iter()
                .flat_map(|preview| &preview.counted)
                .map(answer::count_changed)
                .collect();
            if !counted.is_empty() {
                told.insert("also_changed".to_owned(), Value::Array(counted));
            }
        }
        let mut result = self.tell(&told)?;
        let Some(preview) = preview else {
            return Ok(result);
        };
        context.notes.note_answer(&preview.rows);
        match form {
            Form::Table => {
                result
                    .content
                    .push(ContentBlock::text(preview.rows.table_text()));
                result.structured_content = None;
            }
            Form::Json => {
                let rows = to_json(&preview.rows.for_model()).map_err(refusal)?;
                if let Some(Value::Object(body)) = &mut result.structured_content {
                    body.insert("difference".to_owned(), rows);
                }
                result
                    .content
                    .push(ContentBlock::text(preview.rows.delimited_text()));
            }
        }
        Ok(result)
    }
}

fn to_json(told: &impl serde::Serialize) -> Result<Value, Rejection> {
    serde_json::to_value(told).map_err(|error| answer::unwritten(&error))
}
