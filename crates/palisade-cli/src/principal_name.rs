//! A principal as an operator writes it. Single quotes are a shell's, and enclose no id.

use palisade::session::{Principal, PrincipalSyntaxError};

/// Why a text names no principal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrincipalNameError {
    /// It is written otherwise.
    #[error(transparent)]
    Syntax(#[from] PrincipalSyntaxError),
    /// Its id stands in single quotes, which would be part of it.
    #[error("an id stands in double quotes; write `{0}`")]
    SingleQuotes(Principal),
}

/// Reads `Agent::"support-bot"`, as [`Principal::parse`] does.
pub(crate) fn parse(text: &str) -> Result<Principal, PrincipalNameError> {
    let principal = Principal::parse(text)?;
    let Some((kind, id)) = text.split_once("::") else {
        return Ok(principal);
    };
    if !id.starts_with('\'') {
        return Ok(principal);
    }
    let meant = Principal::parse(&format!("{kind}::\"{}\"", id.trim_matches('\'')))?;
    Err(PrincipalNameError::SingleQuotes(meant))
}

/// As [`parse`], for `--as` of the command line.
pub(crate) fn parse_as(text: &str) -> Result<Principal, String> {
    parse(text).map_err(|error| match error {
        PrincipalNameError::Syntax(error) => error.to_string(),
        PrincipalNameError::SingleQuotes(meant) => {
            format!("an id stands in double quotes; write `--as '{meant}'`")
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn single_quotes_enclose_no_id() {
        let bot = Principal::new("Agent", "support-bot");
        for good in ["Agent::\"support-bot\"", "Agent::support-bot"] {
            assert_eq!(parse(good).unwrap(), bot);
            assert_eq!(parse_as(good).unwrap(), bot);
        }
        // They are an id's where it is enclosed otherwise, or begins with another letter.
        for (text, id) in [
            ("Agent::\"'quoted'\"", "'quoted'"),
            ("User::o'neil", "o'neil"),
        ] {
            assert_eq!(parse(text).unwrap().id(), id);
        }
        for bad in ["Agent::'support-bot'", "Agent::'support-bot"] {
            let told = parse(bad).unwrap_err().to_string();
            assert!(told.ends_with("write `Agent::\"support-bot\"`"), "{told}");
            let told = parse_as(bad).unwrap_err();
            assert!(
                told.ends_with("write `--as 'Agent::\"support-bot\"'`"),
                "{told}"
            );
        }
        assert!(parse("Agent::''").is_err());
    }
}
