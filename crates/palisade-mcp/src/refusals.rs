//! The refusals of calls that run no statement.

use palisade::{
    code::{Code, Detail},
    guard::Refusal,
    rejection::Rejection,
};

use crate::{queue::Busy, tool_name::ToolName};

pub(crate) fn refusal(rejection: Rejection) -> Refusal {
    Refusal::new(rejection)
}

pub(crate) fn nobody_asks() -> Rejection {
    Rejection::new(
        Code::PolicyNoPermit,
        "the request says of no principal that it asks, so nothing is permitted",
    )
}

/// What the call of a tool is told that there is not, or that is switched off.
pub(crate) const NO_SUCH_TOOL: &str = "there is no such tool; ask `tools/list` which there are";

pub(crate) fn no_such_tool() -> Rejection {
    Rejection::new(Code::RequestInvalid, NO_SUCH_TOOL)
        .with_operator_detail("a tool that there is not, or that is switched off")
}

/// What the call of `tool` is told, which takes part in changes, where the caller takes part in none.
pub(crate) fn read_only(tool: ToolName) -> Rejection {
    let name = tool.name();
    let told = if tool == ToolName::Execute {
        format!("nothing can be changed here: there is no tool `{name}`; read with `query`")
    } else {
        // Who may change something can lack the right to approve, so that this says less.
        format!("you take no part in changes here by `{name}`; read with `query`")
    };
    Rejection::new(Code::StatementNotAllowed, told)
}

pub(crate) fn unreachable(name: &str) -> Rejection {
    Rejection::new(
        Code::DatabaseUnavailable,
        format!("the database of the connection `{name}` cannot be reached now"),
    )
}

pub(crate) fn opening(name: &str) -> Rejection {
    Rejection::new(
        Code::DatabaseUnavailable,
        format!(
            "the database of the connection `{name}` is still being opened; call again in some seconds"
        ),
    )
}

pub(crate) fn cancelled_call() -> Rejection {
    Rejection::new(
        Code::LimitCancelled,
        "the call was cancelled while it waited, and nothing of it was run",
    )
}

pub(crate) fn too_busy(busy: Busy) -> Rejection {
    let ms = busy.retry_after.as_millis();
    let told = format!(
        "too many statements run or wait already, so this one was not run; send it again after {ms} ms, and fewer at a time"
    );
    Rejection::new(Code::LimitBusy, told).with_retry_after(busy.retry_after)
}

pub(crate) fn internal(detail: &str) -> Rejection {
    Rejection::internal(detail)
}

/// What the log of calls says of an incident: an engine's own message can hold values, so that it is left out.
pub(crate) fn logged_detail(rejection: &Rejection) -> &str {
    match rejection.code().detail() {
        Detail::Recorded => rejection.operator_detail().unwrap_or_default(),
        Detail::Withheld => "",
    }
}
