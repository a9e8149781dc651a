//! The refusals of calls that run no statement.

use palisade::{
    code::{Code, Fault},
    did_you_mean,
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
const NO_SUCH_TOOL: &str = "there is no such tool";

/// Tools that such a call is told of.
const MAX_NAMED: usize = 8;

/// Characters of the name that a client made up, as far as it is read.
const MAX_READ: usize = 128;

/// The tools that most calls mean, before all others.
const USUAL: [ToolName; 5] = [
    ToolName::Query,
    ToolName::ListTables,
    ToolName::SearchObjects,
    ToolName::DescribeTable,
    ToolName::Execute,
];

/// What the call of `name` is told, of which there is no tool: some of those that are `offered`, and first what was probably meant. A
/// model cannot ask for the list.
pub(crate) fn describe_unknown_tool(name: &str, offered: &[&str]) -> String {
    let close = did_you_mean::closest(name, offered.iter().copied());
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let read: String = name.chars().take(MAX_READ).collect();
    let meant = words(&read);
    let place = |tool: &str| {
        let shares_word = words(tool).iter().any(|word| meant.contains(word));
        let usual = USUAL.iter().position(|usual| usual.name() == tool);
        (
            close != Some(tool),
            !shares_word,
            usual.unwrap_or(USUAL.len()),
        )
    };
    let mut named = offered.to_vec();
    named.sort_by_key(|tool| place(tool));
    named.truncate(MAX_NAMED);
    let more = offered.len().saturating_sub(named.len());
    match (named.is_empty(), more) {
        (true, _) => NO_SUCH_TOOL.to_owned(),
        (false, 0) => format!("{NO_SUCH_TOOL}; there are `{}`", named.join("`, `")),
        (false, more) => format!(
            "{NO_SUCH_TOOL}; there are `{}`, and {more} more",
            named.join("`, `")
        ),
    }
}

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

/// Explains an incident to whoever reads the log, without data. An agent's own mistake is no error of the server's.
pub(crate) fn log_incident(
    incident: &str,
    rejection: &Rejection,
    (tool, connection): (&str, Option<&str>),
) {
    let code = rejection.code().slug();
    let detail = rejection.recorded_detail().unwrap_or_default();
    match rejection.code().fault() {
        Fault::Statement => {
            tracing::warn!(incident, code, tool, connection, detail, "refused");
        }
        Fault::Database | Fault::Configuration | Fault::Internal => {
            tracing::error!(incident, code, tool, connection, detail, "refused");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_tool_is_told_the_nearest_that_there_are() {
        let all: Vec<&str> = ToolName::ALL.iter().map(|tool| tool.name()).collect();
        for (name, first) in [
            ("qurey", "query"),
            ("run_query", "query"),
            ("list-users", "list_tables"),
            ("execute_sql", "execute"),
            ("shell", "query"),
            ("", "query"),
            ("describe_tabel", "describe_table"),
        ] {
            let told = describe_unknown_tool(name, &all);
            let begin = format!("there is no such tool; there are `{first}`, ");
            assert!(told.starts_with(&begin), "{name}: {told}");
            assert_eq!(told.matches('`').count(), 16, "{told}");
            assert!(told.ends_with(", and 22 more"), "{told}");
        }
        // Of two names that are near nothing, the same is told.
        let few = ["describe_table", "query"];
        let told = "there is no such tool; there are `query`, `describe_table`";
        assert_eq!(describe_unknown_tool(&"x".repeat(5000), &few), told);
        assert_eq!(describe_unknown_tool("shell", &few), told);
        assert_eq!(describe_unknown_tool("shell", &[]), "there is no such tool");
    }
}
