//! The tools of tables as they were: snapshots, and what is different since.

use std::collections::BTreeMap;

use palisade::{
    answer::Form,
    code::Code,
    guard::{ChangeCall, Moments, PastDifference, PastHistory, PastRows, Preview, Refusal},
    limits::Limits,
    rejection::Rejection,
    value::{Params, Value as Cell},
};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::{
    answer, calls::CallContext, connections::Connection, declare::described_type, refusals::refusal,
};

/// Characters of a moment: a name or a time.
const MAX_MOMENT: usize = 64;

/// What a tool of the past is called with.
#[derive(Debug)]
pub(crate) enum PastToolCall {
    Create(String),
    Delete(String),
    List,
    Diff {
        table: String,
        from: String,
        to: Option<String>,
        form: Form,
    },
    History {
        table: String,
        /// Of one row; of all where there is none.
        key: Option<BTreeMap<String, Cell>>,
        from: Option<String>,
        form: Form,
    },
}

impl PastToolCall {
    /// About what it takes while it waits, with what its parameters take.
    pub(crate) fn bytes(&self, values: impl Fn(&Params) -> usize) -> usize {
        match self {
            Self::Create(name) | Self::Delete(name) => name.len(),
            Self::List => 0,
            Self::Diff {
                table,
                from,
                to,
                form: _,
            } => table.len() + from.len() + to.as_ref().map_or(0, String::len),
            Self::History {
                table,
                key,
                from,
                form: _,
            } => {
                let key = key.clone().map_or(Params::None, Params::Named);
                table.len() + from.as_ref().map_or(0, String::len) + values(&key)
            }
        }
    }
}

/// A snapshot's name or a time, as a caller writes it; the gate reads it.
///
/// # Errors
/// If it is too long to be one.
pub(crate) fn read_moment(argument: &str, moment: String) -> Result<String, Rejection> {
    match (1..=MAX_MOMENT).contains(&moment.len()) {
        true => Ok(moment),
        false => Err(Rejection::new(
            Code::RequestInvalid,
            format!("`{argument}` must have 1 to {MAX_MOMENT} characters"),
        )),
    }
}

/// The schema of a moment.
pub(crate) fn moment() -> Value {
    described_type(
        "string",
        "Read tables as they were: a snapshot's name, or a time as 2026-03-01T12:00:00Z.",
    )
}

/// How a call reads rows that it answers in this form.
fn read_within<'a>(context: &'a CallContext, limits: &'a Limits, form: Form) -> ChangeCall<'a> {
    ChangeCall {
        limits: Some(limits),
        room: Some(context.size.room(form, true)),
        cancel: Some(&context.cancel),
        ..ChangeCall::new(&context.session)
    }
}

impl Connection {
    /// Runs a call of a tool of the past. It reads and writes the state, which blocks.
    pub(crate) async fn call_past(
        &self,
        call: &PastToolCall,
        context: &CallContext,
        limits: &Limits,
    ) -> Result<CallToolResult, Refusal> {
        let (guard, session) = (&self.guard, &context.session);
        match call {
            PastToolCall::Create(name) => self.tell(&guard.create_snapshot(name, session).await?),
            PastToolCall::Delete(name) => self.tell(&guard.delete_snapshot(name, session)?),
            PastToolCall::List => self.tell(&json!({"snapshots": guard.list_snapshots(session)?})),
            PastToolCall::Diff {
                table,
                from,
                to,
                form,
            } => {
                let moments = Moments {
                    from,
                    to: to.as_deref(),
                };
                let within = read_within(context, limits, *form);
                let compared = guard.compare_past(table, moments, within).await?;
                let PastDifference { from, to, preview } = compared;
                let told = json!({"from": from, "to": to, "row_counts": preview.row_counts});
                self.show_cells(told, ("difference", &preview), (*form, context))
            }
            PastToolCall::History {
                table,
                key,
                from,
                form,
            } => {
                let rows = PastRows {
                    table,
                    key: key.as_ref(),
                };
                let within = read_within(context, limits, *form);
                let listed = guard.list_history(rows, from.as_deref(), within);
                let PastHistory { from, preview } = listed.await?;
                let told = from.map_or_else(|| json!({}), |from| json!({"from": from}));
                self.show_cells(told, ("history", &preview), (*form, context))
            }
        }
    }

    /// What is `told`, and behind it the cells that are different, which have a name.
    fn show_cells(
        &self,
        mut told: Value,
        (name, preview): (&str, &Preview),
        (form, context): (Form, &CallContext),
    ) -> Result<CallToolResult, Refusal> {
        context.notes.note_answer(&preview.rows);
        let counted: Vec<Value> = preview.counted.iter().map(answer::count_changed).collect();
        if let (Value::Object(told), false) = (&mut told, counted.is_empty()) {
            told.insert("also_changed".to_owned(), Value::Array(counted));
        }
        let mut result = self.tell(&told)?;
        match form {
            Form::Table => {
                let rows = ContentBlock::text(preview.rows.table_text());
                result.content.push(rows);
                result.structured_content = None;
            }
            Form::Json => {
                let rows = serde_json::to_value(preview.rows.for_model());
                let rows = rows.map_err(|error| refusal(answer::unwritten(&error)))?;
                if let Some(Value::Object(body)) = &mut result.structured_content {
                    body.insert(name.to_owned(), rows);
                }
                let rows = ContentBlock::text(preview.rows.delimited_text());
                result.content.push(rows);
            }
        }
        Ok(result)
    }
}
