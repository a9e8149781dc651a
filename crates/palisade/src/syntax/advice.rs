//! What to write in the place of what another engine, or a library of another language, would read.
//!
//! Looked at only after the parser has failed: nothing is decided here but what a refusal says.

use sqlparser::tokenizer::Token;

use crate::{
    dialect::Dialect,
    syntax::{dialect::Solid, identifier::is_typographic_quote},
};

/// What to write, where a token tells what was meant. `message` is the parser's, with the place where it stopped.
pub(in crate::syntax) fn advise(
    solid: &Solid<'_>,
    message: &str,
    dialect: Dialect,
) -> Option<&'static str> {
    (0..solid.len()).find_map(|n| advise_at(solid, n, message, dialect))
}

fn advise_at(solid: &Solid<'_>, n: usize, message: &str, dialect: Dialect) -> Option<&'static str> {
    // Elsewhere these signs may be right.
    let stops_here = || {
        let place = solid.token(n).map(|token| token.span.start.to_string());
        place.is_some_and(|place| !place.is_empty() && message.ends_with(&place))
    };
    let next = solid.token(n + 1).map(|next| &next.token);
    match &solid.token(n)?.token {
        Token::Word(word)
            if word.quote_style.is_none() && word.value.contains(is_typographic_quote) =>
        {
            Some(TYPOGRAPHIC)
        }
        Token::Char(c) if is_typographic_quote(*c) => Some(TYPOGRAPHIC),
        Token::Char('`') if dialect == Dialect::Postgres => {
            Some("backticks quote nothing here; write names bare, or as \"name\"")
        }
        // `t."name"`, `"t".name`
        Token::DoubleQuotedString(_)
            if dialect == Dialect::Mysql
                && (next == Some(&Token::Period)
                    || n.checked_sub(1)
                        .is_some_and(|n| solid.is(n, &Token::Period))) =>
        {
            Some("double quotes make a text here; write names bare, or as `name`")
        }
        // `%s` and `%(name)s` of Python, `{name}` of templates.
        Token::Mod if next.is_some_and(is_python_parameter) && stops_here() => {
            Some(advise_on_parameter(dialect))
        }
        Token::Question | Token::LBrace if stops_here() => Some(advise_on_parameter(dialect)),
        _ => None,
    }
}

const TYPOGRAPHIC: &str = "typographic quotation marks quote nothing; write texts as 'text'";

fn is_python_parameter(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.quote_style.is_none() && word.value == "s",
        token => *token == Token::LParen,
    }
}

/// How the place of a parameter is written.
pub(crate) const fn advise_on_parameter(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "a parameter is written ?, ?1 or :name",
        Dialect::Postgres => "a parameter is written $1, $2 and so on",
        Dialect::Mysql => "a parameter is written ?",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::*;
    use crate::syntax::lexer::tokenize;

    #[test]
    fn what_others_read_is_told_in_the_engines_words() {
        let double = "double quotes make a text";
        for (dialect, text, told) in [
            (Dialect::Postgres, "a = ?", Some("written $1")),
            (Dialect::Postgres, "a IN (%s)", Some("written $1")),
            (Dialect::Mysql, "a = %(id)s", Some("written ?")),
            (Dialect::Mysql, "a = {id}", Some("written ?")),
            (Dialect::Sqlite, "a = {id}", Some("written ?, ?1")),
            (Dialect::Postgres, "a % b", None),
            (
                Dialect::Postgres,
                "a = `b`",
                Some("backticks quote nothing"),
            ),
            (Dialect::Mysql, r#"o."status""#, Some(double)),
            (Dialect::Mysql, r#""o".status"#, Some(double)),
            (Dialect::Mysql, r#"a = "status""#, None),
            (Dialect::Sqlite, "a = ‘b’", Some("typographic")),
        ] {
            let tokens = tokenize(text, dialect).unwrap_or_else(|error| panic!("{text}: {error}"));
            let solid = Solid::new(&tokens);
            let signs = [Token::Question, Token::Mod, Token::LBrace];
            let mut stops = tokens.iter().filter(|token| signs.contains(&token.token));
            let place = stops.next().map(|token| token.span.start.to_string());
            let message = format!("found a sign{}", place.unwrap_or_default());
            assert_eq!(
                advise(&solid, "elsewhere", dialect).is_some(),
                told.is_some() && !message.contains("Line"),
                "{text}"
            );
            let advice = advise(&solid, &message, dialect);
            let is_so = match (advice, told) {
                (Some(advice), Some(told)) => advice.contains(told),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            assert!(is_so, "{text}: {advice:?}");
        }
    }
}
