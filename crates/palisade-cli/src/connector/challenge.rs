//! The first step: a request without a token is refused, and its client told where to go on (RFC 6750, RFC 9728).

use crate::connector::{Checks, fetch::Answer};

const CHECK: &str = "challenge";

/// Looks at the answer to a request without a token. The address of the metadata, if the answer names it.
pub(super) fn check(answer: &Answer, checks: &mut Checks) -> Option<String> {
    match answer.status {
        401 => {}
        200..=299 => checks.fault(
            CHECK,
            format!("a request without a token is answered {}", answer.status),
            "let the server ask for tokens, or a proxy before it not answer in its place",
        ),
        403 => checks.fault(
            CHECK,
            "a request without a token is answered 403",
            "name this address's host under `hosts` of `[http]`; without a token the answer has to be 401",
        ),
        404 | 405 => checks.fault(
            CHECK,
            format!("there is no server of MCP: it answers {}", answer.status),
            "write the address with its path, as `https://palisade.example.com/mcp`",
        ),
        status => checks.fault(
            CHECK,
            format!("a request without a token is answered {status}, and not 401"),
            "look at what stands before the server: clients ask for a token only after 401",
        ),
    }
    if answer.status != 401 {
        return None;
    }
    let parameters = answer.challenges.iter().find_map(|text| read_bearer(text));
    let Some(parameters) = parameters else {
        checks.fault(
            CHECK,
            match answer.challenges.is_empty() {
                true => "it answers 401 without `WWW-Authenticate`",
                false => "`WWW-Authenticate` asks for something else than `Bearer`",
            },
            "let a proxy pass `WWW-Authenticate: Bearer …` on as the server sends it",
        );
        return None;
    };
    let named = parameters
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("resource_metadata"));
    match named {
        Some((_, address)) => {
            checks.pass(CHECK, format!("401, and the metadata are at {address}"));
            Some(address)
        }
        None => {
            checks.note(
                CHECK,
                "401, and `WWW-Authenticate` does not say where the metadata are",
                "configure `[http.oauth]`; without it clients need an access token that `palisade token create` makes",
            );
            None
        }
    }
}

/// The parameters of the scheme `Bearer` in a value of `WWW-Authenticate`, if it asks for that.
fn read_bearer(text: &str) -> Option<Vec<(String, String)>> {
    let mut found: Option<Vec<(String, String)>> = None;
    let mut is_bearer = false;
    for part in split_parts(text) {
        let mut part = part.trim();
        // A part that begins with a word before its parameter begins a scheme.
        let word = part.split_whitespace().next().unwrap_or_default();
        if !word.is_empty() && !word.contains('=') {
            is_bearer = word.eq_ignore_ascii_case("bearer");
            part = part.get(word.len()..).unwrap_or_default().trim();
            if is_bearer {
                found.get_or_insert_with(Vec::new);
            }
        }
        if let (true, Some(found), Some((name, value))) =
            (is_bearer, found.as_mut(), part.split_once('='))
        {
            found.push((name.trim().to_owned(), unquote(value.trim())));
        }
    }
    found
}

/// The parts between commas that stand in no quotes.
fn split_parts(text: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in text.chars() {
        match c {
            ',' if !is_quoted => parts.push(std::mem::take(&mut part)),
            _ => part.push(c),
        }
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = is_quoted && c == '\\' && !is_escaped;
    }
    parts.push(part);
    parts
}

fn unquote(value: &str) -> String {
    let inner = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    let Some(inner) = inner else {
        return value.to_owned();
    };
    let (mut out, mut is_escaped) = (String::new(), false);
    for c in inner.chars() {
        is_escaped = c == '\\' && !is_escaped;
        if !is_escaped {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_bearer_are_found_among_others() {
        let find = |text: &str, name: &str| {
            let parameters = read_bearer(text)?;
            let found = parameters.into_iter().find(|(own, _)| own == name);
            found.map(|(_, value)| value)
        };
        let told = r#"Basic realm="a, b", bearer realm="x\"y", resource_metadata="https://a/b,c", scope=d, Digest nonce="n""#;
        assert_eq!(find(told, "realm").as_deref(), Some("x\"y"));
        assert_eq!(
            find(told, "resource_metadata").as_deref(),
            Some("https://a/b,c")
        );
        assert_eq!(find(told, "scope").as_deref(), Some("d"));
        assert_eq!(find(told, "nonce"), None);
        assert_eq!(read_bearer("Bearer"), Some(Vec::new()));
        for other in ["Basic realm=\"bearer x\"", "", "Bearerish a=b"] {
            assert_eq!(read_bearer(other), None, "{other}");
        }
    }
}
