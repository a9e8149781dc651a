//! Names and literals where an expression begins. The parser comes to the same, after it has tried to read
//! each as a type (`DATE '…'`) and formatted an error: a tenth of all its time.

use sqlparser::{
    ast::Expr,
    keywords::{Keyword, RESERVED_FOR_COLUMN_ALIAS},
    parser::{Parser, ParserError},
    tokenizer::Token,
};

/// The name or literal that stands next, if it can be nothing else.
///
/// A word that is no keyword of the parser's is a name, unless what follows makes it a call, a literal's
/// prefix or part of an operator that the parser looks for; only what does not is listed.
pub(in crate::syntax) fn simple(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    match &parser.peek_token_ref().token {
        Token::Number(_, _) | Token::SingleQuotedString(_) | Token::Placeholder(_) => {
            Some(parser.parse_value().map(Expr::Value))
        }
        Token::Word(word) if word.keyword == Keyword::NoKeyword => {
            match &parser.peek_nth_token_ref(1).token {
                Token::Comma
                | Token::Period
                | Token::RParen
                | Token::SemiColon
                | Token::EOF
                | Token::Eq
                | Token::Neq
                | Token::Lt
                | Token::Gt
                | Token::LtEq
                | Token::GtEq
                | Token::Plus
                | Token::Minus
                | Token::Mul
                | Token::Div
                | Token::StringConcat
                | Token::DoubleColon
                | Token::Word(_) => Some(parser.parse_identifier().map(Expr::Identifier)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// One of `words`, without quotes, where neither arguments nor a literal follow: a name like any other, which the parser
/// takes for the begin of a construct.
pub(in crate::syntax) fn bare(
    parser: &mut Parser,
    words: &[Keyword],
) -> Option<Result<Expr, ParserError>> {
    match &parser.peek_token_ref().token {
        Token::Word(word) if word.quote_style.is_none() && words.contains(&word.keyword) => {}
        _ => return None,
    }
    match &parser.peek_nth_token_ref(1).token {
        Token::LParen
        | Token::Number(_, _)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::Placeholder(_) => None,
        // `INTERVAL -'1' day` is read by some.
        Token::Minus | Token::Plus
            if matches!(
                parser.peek_nth_token_ref(2).token,
                Token::SingleQuotedString(_)
            ) =>
        {
            None
        }
        _ => Some(parser.parse_identifier().map(Expr::Identifier)),
    }
}

/// Whether a keyword names the output that it follows without AS. To every engine here ON does not, which begins what an
/// upsert says: `INSERT INTO t SELECT 1 ON CONFLICT …`.
pub(in crate::syntax) fn names_column(keyword: Keyword) -> bool {
    keyword != Keyword::ON && !RESERVED_FOR_COLUMN_ALIAS.contains(&keyword)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use sqlparser::{
        dialect::{Dialect as ParserDialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect},
        parser::Parser,
    };

    use super::super::{options, parser_dialect};
    use crate::dialect::Dialect;

    const EXPRESSIONS: &[&str] = &[
        "a",
        "a.b",
        "a.b.c",
        "\"a\"",
        "\"a\".\"B\"",
        "`a`",
        "a b",
        "a AS b",
        "a, b",
        "a = 1",
        "a<b",
        "a - -1",
        "a || 'x'",
        "a * b / c",
        "a::int",
        "a.*",
        "f(a)",
        "a.f(b)",
        "f (a, 'x')",
        "x'41'",
        "X 'a'",
        "_utf8'x'",
        "_utf8 'x'",
        "n'x'",
        "e'x'",
        "b'1'",
        "U&'x'",
        "$1",
        "?",
        ":a",
        "date '2020-01-01'",
        "date",
        "t.date",
        "timestamp with time zone '2020-01-01'",
        "time",
        "interval '1' day",
        "interval",
        "bool 'true'",
        "int '1'",
        "point '1,2'",
        "point",
        "xml '<a/>'",
        "xml",
        "json '{}'",
        "citext 'x'",
        "myschema.mytype 'x'",
        "1",
        "1.5",
        "1e3",
        ".5",
        "'a''b'",
        "'a' 'b'",
        "'a'\n'b'",
        "$$x$$",
        "a -> 'b'",
        "a ->> 'b'",
        "a -> b",
        "a @> b",
        "a ~ 'x'",
        "a IS NULL",
        "a NOT NULL",
        "a ISNULL",
        "a BETWEEN b AND c",
        "a IN (1, b)",
        "a COLLATE nocase",
        "a AT TIME ZONE 'UTC'",
        "a[1]",
        "a[b:c]",
        "(a).b",
        "(a, b)",
        "CASE a WHEN b THEN c END",
        "a OVERLAPS b",
        "a DIV b",
        "a MOD b",
        "a % b",
        "a & b",
        "a | b",
        "a << b",
        "a ^ b",
        "a # b",
        "a XOR b",
        "a := 1",
        "@a",
        "@@a",
        "a = ANY (b)",
        "NOT a",
        "NOT a = b",
        "- a",
        "+ a",
        "~ a",
        "current_date",
        "current_date - a",
        "user",
        "binary a",
        "row(a, b)",
        "array[a, b]",
        "a LIKE b ESCAPE '!'",
        "sum(a) FILTER (WHERE b)",
        "a (+)",
        "a => b",
        "f(a => b)",
        "varying a",
        "double precision '1'",
        "character varying(3) 'x'",
        "setof a",
        "a.1",
        "a 1",
        "a 'b'",
        "1 a",
        "name",
        "replace(a, b, c)",
        "a MEMBER OF (b)",
        "a SOUNDS LIKE b",
        "a REGEXP b",
        "a NOTNULL",
    ];

    /// What our dialects read in another way on purpose.
    const MENDED: &[(Dialect, &str)] = &[
        (Dialect::Postgres, "a ISNULL"),
        (Dialect::Sqlite, "a ISNULL"),
        (Dialect::Mysql, "binary a"),
        // Two words that PostgreSQL reads as no condition.
        (Dialect::Postgres, "a NOT NULL"),
        // A literal of a type that the parser does not know.
        (Dialect::Postgres, "X 'a'"),
        (Dialect::Postgres, "_utf8 'x'"),
        (Dialect::Postgres, "_utf8'x'"),
        (Dialect::Postgres, "citext 'x'"),
        (Dialect::Postgres, "a 'b'"),
    ];

    /// What the parser's own dialect reads, ours reads the same.
    #[test]
    fn the_parser_reads_the_same() {
        for dialect in Dialect::ALL {
            let own: &dyn ParserDialect = match dialect {
                Dialect::Sqlite => &SQLiteDialect {},
                Dialect::Postgres => &PostgreSqlDialect {},
                Dialect::Mysql => &MySqlDialect {},
            };
            let read = |dialect: &dyn ParserDialect, text: &str| {
                Parser::new(dialect)
                    .with_options(options())
                    .try_with_sql(text)
                    .and_then(|mut parser| parser.parse_statements())
            };
            let mut both = 0;
            for expression in EXPRESSIONS {
                for text in [
                    format!("SELECT {expression}"),
                    format!(
                        "SELECT 1 WHERE x = {expression} AND {expression} ORDER BY {expression}"
                    ),
                    format!("SELECT g({expression}, {expression}) FROM t JOIN u ON {expression}"),
                ] {
                    if MENDED.contains(&(dialect, *expression)) {
                        continue;
                    }
                    let (theirs, ours) = (read(own, &text), read(parser_dialect(dialect), &text));
                    if theirs.is_ok() {
                        assert_eq!(theirs, ours, "{dialect:?}: {text}");
                        both += 1;
                    }
                }
            }
            assert!(both > EXPRESSIONS.len(), "{dialect:?}: {both}");
        }
    }
}
