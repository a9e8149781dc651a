//! The headers by which a request asks for less than it could have.

use std::collections::BTreeSet;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use palisade_mcp::Narrowing;

/// Where nothing may be changed, whatever policies permit.
pub(crate) const READ_ONLY_PATH: &str = "/mcp/readonly";

/// What our own headers begin with. Some proxies write `_` where a client wrote `-`.
const OWN_HEADERS: [&str; 2] = ["palisade-", "palisade_"];

const READ_ONLY: HeaderName = HeaderName::from_static("palisade-read-only");
const DATABASES: HeaderName = HeaderName::from_static("palisade-databases");
const TOOLS: HeaderName = HeaderName::from_static("palisade-tools");

/// The most names of one header.
const MAX_NAMES: usize = 64;

/// The most characters of a name: a template's tool can be called by its connection and itself.
const MAX_NAME: usize = 160;

/// What a request asks to be less.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Whether it changes nothing.
    pub(crate) is_read_only: bool,
    /// What is left of databases and tools.
    pub(crate) narrowing: Narrowing,
}

/// What the headers and the path of a request ask to be less.
///
/// # Errors
/// What is wrong with a header of ours. It quotes names of headers alone.
pub(crate) fn read(headers: &HeaderMap, path: &str) -> Result<Asked, String> {
    let is_known = |name: &HeaderName| [READ_ONLY, DATABASES, TOOLS].contains(name);
    let is_own = |name: &HeaderName| {
        let mut own = OWN_HEADERS.iter();
        own.any(|start| name.as_str().starts_with(start))
    };
    if let Some(unknown) = headers.keys().find(|name| is_own(name) && !is_known(name)) {
        return Err(format!(
            "there is no header `{unknown}`; there are `{READ_ONLY}`, `{DATABASES}` and `{TOOLS}`, and each only takes away"
        ));
    }
    let is_read_only = match only_value(headers, &READ_ONLY)? {
        None => path == READ_ONLY_PATH,
        Some(value) if value.as_bytes().eq_ignore_ascii_case(b"true") => true,
        Some(_) => {
            return Err(format!(
                "`{READ_ONLY}` can only be `true`: a request can ask for less, never for more; leave it out otherwise"
            ));
        }
    };
    Ok(Asked {
        is_read_only,
        narrowing: Narrowing {
            databases: read_names(headers, &DATABASES)?,
            tools: read_names(headers, &TOOLS)?,
        },
    })
}

/// The value of a header, which a request has once.
fn only_value<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h HeaderValue>, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(format!(
            "the header `{name}` is there twice; write it once, with commas between names"
        )),
    }
}

/// Names with commas between them.
fn read_names(
    headers: &HeaderMap,
    header: &HeaderName,
) -> Result<Option<BTreeSet<String>>, String> {
    let Some(value) = only_value(headers, header)? else {
        return Ok(None);
    };
    let is_name = |name: &str| {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_sign)
    };
    let names = value.to_str().ok().and_then(|text| {
        let names = text.split(',').map(str::trim);
        let names: Option<BTreeSet<String>> = names
            .map(|name| is_name(name).then(|| name.to_owned()))
            .collect();
        names.filter(|names| names.len() <= MAX_NAMES)
    });
    match names {
        Some(names) => Ok(Some(names)),
        None => Err(format!(
            "`{header}` must be 1 to {MAX_NAMES} names with commas between them, of letters, digits, `-`, `_` and `.`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(pairs: &[(&'static str, &str)], path: &str) -> Result<Asked, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        read(&headers, path)
    }

    #[test]
    fn headers_only_take_away() {
        let names = |text: &str| Some(text.split(' ').map(str::to_owned).collect());
        let nothing = read_all(&[("accept", "x")], "/mcp").unwrap();
        assert!(!nothing.is_read_only && nothing.narrowing.is_empty());
        assert!(read_all(&[], READ_ONLY_PATH).unwrap().is_read_only);
        let all = [
            ("palisade-read-only", "true"),
            ("palisade-databases", "a, b-1 ,c.d"),
            ("palisade-tools", "query"),
        ];
        let narrowed = Asked {
            is_read_only: true,
            narrowing: Narrowing {
                databases: names("a b-1 c.d"),
                tools: names("query"),
            },
        };
        assert_eq!(read_all(&all, "/mcp"), Ok(narrowed));
        for (pairs, why) in [
            (&[("palisade-principal", "x")][..], "there is no header"),
            (&[("palisade_tools", "query")], "there is no header"),
            (&[("palisade-read-only", "false")], "can only be `true`"),
            (&[("palisade-read-only", "")], "can only be `true`"),
            (&[("palisade-tools", "")], "must be 1 to 64 names"),
            (&[("palisade-tools", "query,")], "must be 1 to 64 names"),
            (&[("palisade-tools", "a b")], "must be 1 to 64 names"),
            (
                &[("palisade-tools", "a"), ("palisade-tools", "b")],
                "is there twice",
            ),
        ] {
            for path in ["/mcp", READ_ONLY_PATH] {
                let told = read_all(pairs, path).unwrap_err();
                assert!(told.contains(why), "{pairs:?}: {told}");
            }
        }
        let many: Vec<String> = (0..65).map(|n| format!("t{n}")).collect();
        assert!(read_all(&[("palisade-databases", &many.join(","))], "/mcp").is_err());
    }
}
