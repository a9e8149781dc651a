//! What an engine reads and the parser does not, so that it is refused by name and not as a mistake.
//!
//! Looked at only after the parser has failed: nothing is decided here but which refusal it is.

use std::collections::HashSet;

use sqlparser::tokenizer::Token;

use crate::syntax::{advice::advise, dialect::Solid, lexer};
use crate::{
    code::Code::{self, NameSystemRelation, NameVariable, StatementNotAllowed, SyntaxUnsupported},
    dialect::Dialect::{self, Mysql, Postgres, Sqlite},
    rejection::Rejection,
};

/// A construct that the parser does not read.
pub(crate) struct Gap {
    /// The engines that have it.
    pub(crate) engines: &'static [Dialect],
    /// Words and signs that stand next to each other in it: `a|b` is one of two, `_` is any, `()` is what parentheses
    /// hold, `…` is anything before the next, `~` anything of the clause that has begun.
    /// A number or a parameter is `#`.
    signs: &'static str,
    /// How it is refused.
    pub(crate) code: Code,
    /// What it is called.
    pub(crate) name: &'static str,
    /// What to write in its place, where the same can be said.
    instead: Option<&'static str>,
}

impl Gap {
    const fn with_replacement(self, instead: &'static str) -> Self {
        Self {
            instead: Some(instead),
            ..self
        }
    }
}

const fn gap(
    engines: &'static [Dialect],
    signs: &'static str,
    code: Code,
    name: &'static str,
) -> Gap {
    Gap {
        engines,
        signs,
        code,
        name,
        instead: None,
    }
}

/// How many words and signs `…` stands for at most, so that a long text is not read again from each of its words.
const MAX_GAP: usize = 200;

const ELEMENT: &str = "a change of an element of a column";
const WHOLE: &str = "assign the whole column, for example with array_cat or jsonb_set";
const ANY_KEY: &str = "write ON CONFLICT DO NOTHING without columns; \
     for DO UPDATE send an UPDATE first, and an INSERT where it changed no row";

/// The gaps, those that write first.
pub(crate) const GAPS: &[Gap] = &[
    gap(
        &[Mysql],
        "into outfile|dumpfile",
        StatementNotAllowed,
        "SELECT … INTO a file",
    ),
    gap(
        &[Mysql],
        "into @",
        StatementNotAllowed,
        "SELECT … INTO a variable",
    ),
    gap(
        &[Mysql],
        "lock in share mode",
        StatementNotAllowed,
        "LOCK IN SHARE MODE",
    ),
    gap(
        &[Mysql],
        "procedure analyse",
        StatementNotAllowed,
        "PROCEDURE ANALYSE",
    ),
    gap(
        &[Postgres],
        ") search depth|breadth first",
        SyntaxUnsupported,
        "SEARCH after a recursive query",
    ),
    gap(
        &[Postgres, Mysql],
        ") cycle",
        SyntaxUnsupported,
        "CYCLE after a recursive query",
    ),
    gap(
        &[Postgres],
        "using () as",
        SyntaxUnsupported,
        "an alias on USING",
    ),
    gap(
        &[Postgres, Sqlite],
        "exclude current|group|ties|no",
        SyntaxUnsupported,
        "EXCLUDE in a window that continues another",
    ),
    gap(
        &[Postgres],
        "operator () any|all|some",
        SyntaxUnsupported,
        "OPERATOR(…) before ANY or ALL",
    ),
    gap(
        &[Postgres, Sqlite],
        "on conflict () where",
        SyntaxUnsupported,
        "WHERE after the columns of ON CONFLICT",
    )
    .with_replacement(ANY_KEY),
    gap(
        &[Postgres, Sqlite],
        "on conflict ( (",
        SyntaxUnsupported,
        "an expression among the columns of ON CONFLICT",
    )
    .with_replacement(ANY_KEY),
    gap(
        &[Postgres, Sqlite],
        "on conflict ( _ (",
        SyntaxUnsupported,
        "an expression among the columns of ON CONFLICT",
    )
    .with_replacement(ANY_KEY),
    gap(
        &[Postgres, Sqlite],
        "on conflict ( _ collate",
        SyntaxUnsupported,
        "COLLATE after a column of ON CONFLICT",
    )
    .with_replacement(ANY_KEY),
    gap(
        &[Sqlite],
        "on conflict … on conflict",
        SyntaxUnsupported,
        "a second ON CONFLICT clause (one without columns is of every key)",
    ),
    gap(
        &[Sqlite],
        "unsigned big int",
        SyntaxUnsupported,
        "the type UNSIGNED BIG INT (BIGINT is the same to SQLite)",
    ),
    gap(
        &[Sqlite],
        "native|varying character",
        SyntaxUnsupported,
        "a type of several words (TEXT is the same to SQLite)",
    ),
    gap(
        &[Postgres],
        "overriding system|user value",
        SyntaxUnsupported,
        "OVERRIDING SYSTEM VALUE or USER VALUE",
    ),
    gap(&[Postgres], "at local", SyntaxUnsupported, "AT LOCAL"),
    gap(
        &[Postgres],
        "between symmetric|asymmetric",
        SyntaxUnsupported,
        "BETWEEN SYMMETRIC",
    ),
    gap(
        &[Postgres],
        "group by distinct",
        SyntaxUnsupported,
        "GROUP BY DISTINCT",
    ),
    gap(
        &[Postgres],
        "grouping sets ( … grouping sets",
        SyntaxUnsupported,
        "GROUPING SETS inside of GROUPING SETS",
    )
    .with_replacement("write all sets in one list"),
    gap(
        &[Postgres],
        "group by all _",
        SyntaxUnsupported,
        "GROUP BY ALL",
    ),
    gap(
        &[Postgres],
        "* <|<=|=|<>|>|>=",
        SyntaxUnsupported,
        "a comparison of rows by their bytes (`*=`, `*<` and their like)",
    ),
    gap(&[Postgres], "is document", SyntaxUnsupported, "IS DOCUMENT"),
    gap(
        &[Postgres],
        "is not document",
        SyntaxUnsupported,
        "IS DOCUMENT",
    ),
    gap(
        &[Postgres],
        "xmlserialize (",
        SyntaxUnsupported,
        "XMLSERIALIZE",
    ),
    gap(&[Postgres], "xmlroot (", SyntaxUnsupported, "XMLROOT"),
    gap(
        &[Postgres],
        "substring ( … similar",
        SyntaxUnsupported,
        "SUBSTRING … SIMILAR",
    ),
    gap(
        &[Postgres],
        "json_query|json_value|json_exists|json_object|json_objectagg|json_array|json_arrayagg (",
        SyntaxUnsupported,
        "a clause of this form in an SQL/JSON function",
    ),
    gap(
        &[Postgres],
        "json_table (",
        SyntaxUnsupported,
        "a clause of this form in JSON_TABLE",
    ),
    gap(
        &[Postgres],
        "limit # , #",
        SyntaxUnsupported,
        "LIMIT with two numbers",
    )
    .with_replacement("write LIMIT count OFFSET start"),
    gap(
        &[Postgres],
        "fetch first|next (",
        SyntaxUnsupported,
        "FETCH of a computed number",
    ),
    gap(&[Postgres], "uescape", SyntaxUnsupported, "UESCAPE"),
    gap(
        &[Postgres],
        ") . *",
        SyntaxUnsupported,
        "`.*` after an expression",
    ),
    gap(&[Postgres], "set ~ [ … ] =", SyntaxUnsupported, ELEMENT).with_replacement(WHOLE),
    gap(&[Postgres], "set ( ~ [", SyntaxUnsupported, ELEMENT).with_replacement(WHOLE),
    gap(
        &[Postgres],
        "insert into _ ( ~ [",
        SyntaxUnsupported,
        ELEMENT,
    )
    .with_replacement(WHOLE),
    gap(
        &[Postgres],
        "insert into _ . _ ( ~ [",
        SyntaxUnsupported,
        ELEMENT,
    )
    .with_replacement(WHOLE),
    gap(
        &[Postgres],
        "then insert default values",
        SyntaxUnsupported,
        "INSERT DEFAULT VALUES in MERGE",
    )
    .with_replacement("write INSERT (a) VALUES (DEFAULT) with one of the table's columns"),
    gap(
        &[Mysql],
        "count|sum|avg|min|max () filter (",
        SyntaxUnsupported,
        "FILTER after an aggregate",
    )
    .with_replacement("write SUM(CASE WHEN … THEN x END) or COUNT(CASE WHEN … THEN 1 END)"),
    gap(
        &[Mysql],
        "update low_priority ignore",
        SyntaxUnsupported,
        "UPDATE LOW_PRIORITY IGNORE",
    ),
    gap(
        &[Mysql],
        "char ( … using",
        SyntaxUnsupported,
        "CHAR(… USING …)",
    ),
    gap(
        &[Mysql],
        "interval (",
        SyntaxUnsupported,
        "the function INTERVAL",
    ),
    gap(
        &[Mysql],
        "for system_time",
        SyntaxUnsupported,
        "FOR SYSTEM_TIME",
    ),
    gap(
        &[Mysql],
        "rows examined",
        SyntaxUnsupported,
        "ROWS EXAMINED",
    ),
    gap(
        &[Mysql],
        "json_value ( … on empty|error",
        SyntaxUnsupported,
        "ON EMPTY or ON ERROR in JSON_VALUE",
    ),
    gap(
        &[Mysql],
        "weight_string ( … as",
        SyntaxUnsupported,
        "WEIGHT_STRING(… AS …)",
    ),
    gap(
        &[Mysql],
        "against (",
        SyntaxUnsupported,
        "AGAINST with anything but a literal or parameter",
    ),
    // MariaDB alone, and MySQL until 8.0.12: there it puts the groups in order
    // (<https://dev.mysql.com/doc/refman/8.0/en/select.html>).
    gap(
        &[Mysql],
        "group by ~ asc|desc",
        SyntaxUnsupported,
        "ASC or DESC in GROUP BY",
    )
    .with_replacement("write ORDER BY with the same terms"),
    // To MariaDB it is `! !`, to MySQL's lexer `!`: `!!0` is 0 of the one and 1 of the other.
    gap(
        &[Mysql],
        "!!",
        SyntaxUnsupported,
        "`!!`, which MySQL and MariaDB read differently,",
    )
    .with_replacement("write `! !` or NOT (NOT …)"),
    gap(&[Mysql], "@", NameVariable, "a variable of the session"),
];

/// `refusal`, or a refusal by name of what the parser does not read in `text`.
pub(in crate::syntax) fn name_construct(
    refusal: Rejection,
    text: &str,
    dialect: Dialect,
) -> Rejection {
    let Ok(tokens) = lexer::tokenize(text, dialect) else {
        return refusal;
    };
    let solid = Solid::new(&tokens);
    if refusal.code() == StatementNotAllowed && asks_for_the_schema(&solid) {
        let message = "what tables and columns there are is not for statements to ask";
        return Rejection::new(NameSystemRelation, message);
    }
    if refusal.code() != Code::SyntaxInvalid && !is_table_definition(&solid) {
        return refusal;
    }
    let words: HashSet<String> = (0..solid.len())
        .filter_map(|n| solid.token(n))
        .filter_map(|token| match &token.token {
            Token::Word(word) => Some(word.value.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    let found = GAPS
        .iter()
        .filter(|gap| gap.engines.contains(&dialect))
        .find(|gap| {
            let signs: Vec<&str> = gap.signs.split(' ').collect();
            may_begin(&words, &signs) && (0..solid.len()).any(|n| begins(&solid, n, &signs))
        });
    match found {
        None => match advise(&solid, refusal.message(), dialect) {
            Some(advice) => {
                Rejection::new(refusal.code(), format!("{}: {advice}", refusal.message()))
            }
            None => refusal,
        },
        Some(gap) => {
            let why = match gap.code {
                StatementNotAllowed => "is not permitted",
                NameVariable => "cannot be read",
                _ => "is not supported",
            };
            let message = match gap.instead {
                None => format!("{} {why}", gap.name),
                Some(instead) => format!("{} {why}: {instead}", gap.name),
            };
            Rejection::new(gap.code, message)
        }
    }
}

/// Whether it makes or alters a table, which may be permitted where it is read.
fn is_table_definition(solid: &Solid<'_>) -> bool {
    begins(solid, 0, &["create|alter", "table"])
}

/// Whether a statement that is refused in any case asks the engine what tables and columns there are.
fn asks_for_the_schema(solid: &Solid<'_>) -> bool {
    const QUESTIONS: [&str; 2] = [
        "show tables|table|columns|fields|index|indexes|keys|create|databases|schemas|views|triggers|full",
        "pragma … table_info|table_xinfo|table_list|index_list|index_info|index_xinfo|foreign_key_list|database_list",
    ];
    let asks = |signs: &&str| begins(solid, 0, &signs.split(' ').collect::<Vec<_>>());
    // `DESCRIBE t`, and `DESCRIBE t column`.
    let describes = solid.is_word(0, &["describe", "desc"])
        && solid
            .after_name(1)
            .is_some_and(|after| after + 2 >= solid.len());
    // `EXPLAIN t` is the same on MySQL, and models write it for every engine.
    let explains = solid.is_word(0, &["explain"])
        && solid.after_name(1).is_some_and(|after| {
            after == solid.len() || (after + 1 == solid.len() && solid.is(after, &Token::SemiColon))
        });
    describes || explains || QUESTIONS.iter().any(asks)
}

/// Whether a text of these words can have what begins with the first sign, where that is a word.
fn may_begin(words: &HashSet<String>, signs: &[&str]) -> bool {
    let is_word = |sign: &str| sign.starts_with(|c: char| c.is_ascii_alphabetic());
    match signs.first() {
        Some(first) if is_word(first) => first.split('|').any(|word| words.contains(word)),
        Some(_) | None => true,
    }
}

fn begins(solid: &Solid<'_>, n: usize, signs: &[&str]) -> bool {
    let Some((sign, rest)) = signs.split_first() else {
        return true;
    };
    match *sign {
        "()" => solid
            .find_closing(n)
            .is_some_and(|close| begins(solid, close + 1, rest)),
        "_" => {
            let is_word = matches!(solid.token(n).map(|t| &t.token), Some(Token::Word(_)));
            is_word && begins(solid, n + 1, rest)
        }
        "…" => (n..solid.len().min(n + MAX_GAP)).any(|n| begins(solid, n, rest)),
        "~" => clause_positions(solid, n).any(|n| begins(solid, n, rest)),
        "!!" => solid.is(n, &Token::DoubleExclamationMark) && begins(solid, n + 1, rest),
        "(" => solid.is(n, &Token::LParen) && begins(solid, n + 1, rest),
        ")" => solid.is(n, &Token::RParen) && begins(solid, n + 1, rest),
        "[" => solid.is(n, &Token::LBracket) && begins(solid, n + 1, rest),
        "]" => solid.is(n, &Token::RBracket) && begins(solid, n + 1, rest),
        "=" => solid.is(n, &Token::Eq) && begins(solid, n + 1, rest),
        "." => solid.is(n, &Token::Period) && begins(solid, n + 1, rest),
        "," => solid.is(n, &Token::Comma) && begins(solid, n + 1, rest),
        "#" => {
            let token = solid.token(n).map(|t| &t.token);
            let is_count = matches!(token, Some(Token::Number(_, _) | Token::Placeholder(_)));
            is_count && begins(solid, n + 1, rest)
        }
        "*" => solid.is(n, &Token::Mul) && begins(solid, n + 1, rest),
        "@" => {
            let variable = solid.token(n).is_some_and(|t| match &t.token {
                Token::Word(word) => word.quote_style.is_none() && word.value.starts_with('@'),
                token => *token == Token::AtSign,
            });
            variable && begins(solid, n + 1, rest)
        }
        "<|<=|=|<>|>|>=" => {
            let comparisons = [
                Token::Lt,
                Token::LtEq,
                Token::Eq,
                Token::Neq,
                Token::Gt,
                Token::GtEq,
            ];
            comparisons.iter().any(|token| solid.is(n, token)) && begins(solid, n + 1, rest)
        }
        words => {
            let words: Vec<&str> = words.split('|').collect();
            solid.is_word(n, &words) && begins(solid, n + 1, rest)
        }
    }
}

/// From `n` on what stands in the clause that has begun, what parentheses hold left out.
fn clause_positions<'s>(solid: &'s Solid<'_>, n: usize) -> impl Iterator<Item = usize> + 's {
    const CLAUSES: [&str; 15] = [
        "from",
        "where",
        "having",
        "window",
        "order",
        "limit",
        "union",
        "except",
        "intersect",
        "for",
        "into",
        "on",
        "when",
        "returning",
        "select",
    ];
    let next = |n: usize| match solid.is(n, &Token::LParen) {
        true => solid.find_closing(n).map(|close| close + 1),
        false => Some(n + 1),
    };
    std::iter::successors(Some(n), move |n| next(*n)).take_while(|n| {
        *n < solid.len() && !solid.is(*n, &Token::RParen) && !solid.is_word(*n, &CLAUSES)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::*;
    use crate::syntax::lexer::tokenize;

    fn tokens(text: &str) -> Vec<sqlparser::tokenizer::TokenWithSpan> {
        let tokens = tokenize(text, Dialect::Postgres);
        tokens.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn signs_begin_with_what_they_stand_for() {
        for (signs, text, expected) in [
            ("a b", "a b c", true),
            ("a b", "a c", false),
            ("a b", "b", false),
            ("a|b c", "B c", true),
            ("a", r#""a""#, false),
            ("() x", "(1, (2)) x", true),
            ("() x", "(1 x", false),
            ("() x", "(1) y", false),
            ("_ x", r#""any" x"#, true),
            ("_ x", "1 x", false),
            ("_ x", "any y", false),
            ("… x", "1 2 3 x", true),
            ("… x", "1 2 3 y", false),
            ("~ x", "1 (2 from) x", true),
            ("~ x", "1 from x", false),
            ("~ x", "1 ) x", false),
            ("( x", "( x", true),
            ("( x", ") x", false),
            ("( x", "( y", false),
            (") x", ") x", true),
            (") x", ") y", false),
            ("[ x", "[ x", true),
            ("[ x", "[ y", false),
            ("] x", "] x", true),
            ("] x", "] y", false),
            ("= x", "= x", true),
            ("= x", "= y", false),
            ("= x", "< x", false),
            (". x", ". x", true),
            (". x", ". y", false),
            (", x", ", x", true),
            (", x", ". x", false),
            ("# x", "1 x", true),
            ("# x", "$1 x", true),
            ("# x", "a x", false),
            ("* x", "* x", true),
            ("* x", "* y", false),
            ("!! x", "!! x", true),
            ("!! x", "!! y", false),
            ("<|<=|=|<>|>|>= x", "< x", true),
            ("<|<=|=|<>|>|>= x", ">= x", true),
            ("<|<=|=|<>|>|>= x", "<> x", true),
            ("<|<=|=|<>|>|>= x", "+ x", false),
            ("<|<=|=|<>|>|>= x", "< y", false),
        ] {
            let tokens = tokens(text);
            let signs_of: Vec<&str> = signs.split(' ').collect();
            let found = begins(&Solid::new(&tokens), 0, &signs_of);
            assert_eq!(found, expected, "{signs}: {text}");
        }
    }

    #[test]
    fn questions_about_the_schema_are_known() {
        for (text, expected) in [
            ("show tables", true),
            ("SHOW FULL TABLES", true),
            ("show grants", false),
            ("show table status", true),
            ("show triggers", true),
            ("explain t", true),
            ("explain s.t;", true),
            ("explain drop table t", false),
            ("describe t", true),
            ("desc s.t", true),
            ("describe t c", true),
            ("describe t c;", true),
            ("describe t c d;", false),
            ("describe 1", false),
            ("pragma table_info(t)", true),
            ("pragma main.table_list", true),
            ("pragma journal_mode", false),
            ("select 1", false),
        ] {
            let tokens = tokens(text);
            let found = asks_for_the_schema(&Solid::new(&tokens));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn tables_are_defined_by_two_words() {
        for (text, expected) in [
            ("create table t (a int)", true),
            ("ALTER TABLE t", true),
            ("create view v", false),
            ("drop table t", false),
        ] {
            let tokens = tokens(text);
            let found = is_table_definition(&Solid::new(&tokens));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_text_may_have_what_begins_with_one_of_its_words() {
        let words = HashSet::from(["a".to_owned(), "b".to_owned()]);
        for (signs, expected) in [
            (&["a", "x"][..], true),
            (&["x|b"], true),
            (&["x", "a"], false),
            (&["(", "x"], true),
            (&["…"], true),
            (&[], true),
        ] {
            assert_eq!(may_begin(&words, signs), expected, "{signs:?}");
        }
    }
}
