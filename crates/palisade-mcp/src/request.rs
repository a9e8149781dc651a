//! What keeps a line from being a request.

use rmcp::model::ErrorCode;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

/// The byte order mark, with which a text may begin.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Why a line is no request that a tool could be asked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is no JSON; what the reader says of it, which quotes nothing.
    Text(String),
    /// It is another value than an object.
    Value,
    /// It is neither a request nor an answer to one.
    Method,
    /// `tools/call` without the name of a tool.
    ToolName,
    /// `tools/call` with arguments that are no object.
    Arguments,
}

impl Fault {
    /// JSON-RPC's code of it.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Text(_) => ErrorCode::PARSE_ERROR,
            Self::Value | Self::Method => ErrorCode::INVALID_REQUEST,
            Self::ToolName | Self::Arguments => ErrorCode::INVALID_PARAMS,
        }
    }

    /// What the client is told.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Text(why) => format!("the line is not JSON: {why}"),
            Self::Value => "the line is not a JSON object; send one request a line".to_owned(),
            Self::Method => "the request has no `method`".to_owned(),
            Self::ToolName => "`name` of `tools/call` must be the name of a tool".to_owned(),
            Self::Arguments => "`arguments` of `tools/call` must be an object".to_owned(),
        }
    }

    /// Whether it is of an object, so that the id in it is its own.
    pub(crate) fn is_of_object(&self) -> bool {
        match self {
            Self::Text(_) | Self::Value => false,
            Self::Method | Self::ToolName | Self::Arguments => true,
        }
    }
}

/// The parts of a message that say what it is.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(default)]
    id: Option<IgnoredAny>,
    #[serde(default)]
    result: Option<IgnoredAny>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

/// The parts of a call that have to be of one type.
#[derive(Default, Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// What is wrong with `line`, if anything. An empty line is passed over.
pub(crate) fn find_fault(line: &[u8]) -> Option<Fault> {
    let line = line.strip_prefix(MARK).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return None;
    }
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(line) {
        return Some(Fault::Text(error.to_string()));
    }
    if !line.starts_with(b"{") {
        return Some(Fault::Value);
    }
    // What is there twice is for the protocol's crate to judge.
    let Message {
        method,
        params,
        id,
        result,
        error,
    } = serde_json::from_slice(line).ok()?;
    let Some(method) = method else {
        let is_answer = result.is_some() || error.is_some();
        return (!is_answer).then_some(Fault::Method);
    };
    if method.get() != "\"tools/call\"" || id.is_none() {
        return None;
    }
    let params = params.filter(|params| params.get().starts_with('{'));
    let Call { name, arguments } = match params {
        Some(params) => serde_json::from_str(params.get()).ok()?,
        None => Call::default(),
    };
    if !name.is_some_and(|name| name.get().starts_with('"')) {
        return Some(Fault::ToolName);
    }
    let is_object = arguments.is_none_or(|arguments| arguments.get().starts_with('{'));
    (!is_object).then_some(Fault::Arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_types_of_the_protocol() {
        let call = |params: &str| {
            let line = format!(r#"{{"id":1,"method":"tools/call","params":{params}}}"#);
            find_fault(line.as_bytes())
        };
        for good in [
            r#"{"name":"query"}"#,
            r#"{"name":"query","arguments":{}}"#,
            r#"{"name":"query","arguments":null,"_meta":{}}"#,
        ] {
            assert_eq!(call(good), None, "{good}");
        }
        for bad in ["\"x\"", "[]", "1", "true"] {
            let params = format!(r#"{{"name":"query","arguments":{bad}}}"#);
            assert_eq!(call(&params), Some(Fault::Arguments), "{bad}");
            let params = format!(r#"{{"name":{bad}}}"#).replace("\"x\"", "7");
            assert_eq!(call(&params), Some(Fault::ToolName), "{bad}");
            assert_eq!(call(bad), Some(Fault::ToolName), "{bad}");
        }
        for other in [
            r#"{"method":"tools/call","params":7}"#,
            r#"{"id":1,"error":{}}"#,
            r#"{"method":"notifications/initialized"}"#,
            " \r\n",
        ] {
            assert_eq!(find_fault(other.as_bytes()), None, "{other}");
        }
    }
}
