//! From text to exactly one query.

use sqlparser::{
    ast::{Query, SetExpr, Statement},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan, Whitespace},
};

use crate::syntax::{
    dialect, explain,
    explain::{Explain, ExplainWords},
    letter_case,
    lexer::{keep_buffer, tokenize},
    prescan::Outline,
    stack::with_stack,
    statement_kind, subscript, unsupported,
    wording::Wording,
};
use crate::{code::Code, dialect::Dialect, limits::Limits, rejection::Rejection};

/// A query as the parser read it, with what the tree forgets.
#[derive(Debug)]
pub(crate) struct ParsedQuery<'a> {
    pub(crate) text: &'a str,
    pub(crate) query: Box<Query>,
    pub(crate) outline: Outline,
    /// Set if not its answer is asked for, but how the engine would find it.
    pub(crate) explain: Option<Explain>,
}

/// A statement that creates, alters, drops or empties relations, as the parser read it.
#[derive(Debug)]
pub(crate) struct ParsedDefinition<'a> {
    pub(crate) text: &'a str,
    pub(crate) statement: Box<Statement>,
    pub(crate) outline: Outline,
}

impl ParsedDefinition<'_> {
    /// The refusal of a definition where none is permitted, by its name.
    pub(crate) fn not_allowed(&self) -> Rejection {
        not_allowed(statement_kind::name(&self.statement))
    }
}

/// The one statement of a text.
#[derive(Debug)]
pub(crate) enum Parsed<'a> {
    /// What gives rows, or changes them.
    Query(ParsedQuery<'a>),
    /// What changes the schema, or empties tables.
    Definition(ParsedDefinition<'a>),
}

/// A statement as it is resolved.
#[derive(Debug)]
pub(in crate::syntax) enum Tree {
    Query(Box<Query>),
    Explain(Box<Query>, Explain),
    Definition(Box<Statement>),
}

/// Reads `text` like [`parse_any`], where it must be a query, or a change of rows.
///
/// # Errors
/// As `parse_any`, and `statement.not-allowed` for definitions.
pub(crate) fn parse<T>(
    text: &str,
    dialect: Dialect,
    limits: &Limits,
    with: impl FnOnce(ParsedQuery<'_>) -> Result<T, Rejection>,
) -> Result<T, Rejection> {
    parse_any(text, dialect, limits, |parsed| match parsed {
        Parsed::Query(query) => with(query),
        Parsed::Definition(definition) => {
            Err(not_allowed(statement_kind::name(&definition.statement)))
        }
    })
}

/// Reads `text`, checks it and gives the one statement in it to `with`, on a stack that has room for
/// the tree and for dropping it.
///
/// # Errors
/// Every code of the stages `syntax` and `limit`, and `statement.not-allowed` for statements of other
/// kinds.
pub(crate) fn parse_any<T>(
    text: &str,
    dialect: Dialect,
    limits: &Limits,
    with: impl FnOnce(Parsed<'_>) -> Result<T, Rejection>,
) -> Result<T, Rejection> {
    Lexed::read(text.into(), dialect, limits)?.parse(dialect, limits, with)
}

/// What a block of code begins with where models write Markdown; no statement does.
const FENCE: &str = "```";

/// A text in tokens, of which nothing has been checked.
#[derive(Debug)]
pub(crate) struct Lexed<'t> {
    text: &'t str,
    tokens: Vec<TokenWithSpan>,
    is_plan: bool,
}

impl<'t> Lexed<'t> {
    /// Those of the caller's own text.
    ///
    /// # Errors
    /// `limit.query-size`, `syntax.character` and `syntax.invalid`.
    pub(crate) fn read(
        wording: Wording<'t>,
        dialect: Dialect,
        limits: &Limits,
    ) -> Result<Self, Rejection> {
        let text = wording.own_text();
        check_size(text, limits)?;
        if text.trim_start().starts_with(FENCE) {
            return Err(Rejection::new(
                Code::SyntaxInvalid,
                "the text stands in a fence of Markdown (```); send the statement alone",
            ));
        }
        let tokens = tokenize(text, dialect)?;
        Ok(Self {
            text,
            tokens,
            is_plan: wording.is_plan(),
        })
    }

    /// As [`parse_any`] of the text.
    ///
    /// # Errors
    /// As `parse_any`.
    pub(crate) fn parse<T>(
        self,
        dialect: Dialect,
        limits: &Limits,
        with: impl FnOnce(Parsed<'_>) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let Self {
            text,
            tokens,
            is_plan,
        } = self;
        let outline = Outline::read(text, &tokens, dialect, limits)?;
        if !text.is_ascii() {
            letter_case::check(&tokens, dialect)?;
        }
        with_stack(outline.levels, move || {
            let tree = parse_tokens(tokens, dialect, limits)
                .map_err(|refusal| unsupported::name_construct(refusal, text, dialect))?;
            let tree = if is_plan { plan_of(tree)? } else { tree };
            let (query, explain) = match tree {
                Tree::Query(query) => (query, None),
                Tree::Explain(query, explain) => (query, Some(explain)),
                Tree::Definition(statement) => {
                    return with(Parsed::Definition(ParsedDefinition {
                        text,
                        statement,
                        outline,
                    }));
                }
            };
            with(Parsed::Query(ParsedQuery {
                text,
                query,
                outline,
                explain,
            }))
        })
    }
}

/// What is asked for the plan of `tree`.
///
/// # Errors
/// `statement.not-allowed` where it is no query.
fn plan_of(tree: Tree) -> Result<Tree, Rejection> {
    match tree {
        Tree::Query(query) => match &*query.body {
            SetExpr::Insert(statement)
            | SetExpr::Update(statement)
            | SetExpr::Delete(statement)
            | SetExpr::Merge(statement) => Err(explain::no_query(statement)),
            SetExpr::Select(_)
            | SetExpr::Query(_)
            | SetExpr::SetOperation {
                op: _,
                set_quantifier: _,
                left: _,
                right: _,
            }
            | SetExpr::Values(_)
            | SetExpr::Table(_) => Ok(Tree::Explain(query, Explain::default())),
        },
        // It asks for a plan by itself.
        Tree::Explain(query, explain) => Ok(Tree::Explain(query, explain)),
        Tree::Definition(statement) => Err(explain::no_query(&statement)),
    }
}

/// Refuses a text that is too long or holds a character that is ours.
fn check_size(text: &str, limits: &Limits) -> Result<(), Rejection> {
    if text.len() > limits.max_query_bytes {
        return Err(Rejection::new(
            Code::LimitQuerySize,
            format!(
                "the statement has {} bytes; the limit is {}",
                text.len(),
                limits.max_query_bytes
            ),
        ));
    }
    if text.contains('\0') {
        return Err(Rejection::new(
            Code::SyntaxCharacter,
            "the statement holds a NUL character",
        ));
    }
    Ok(())
}

/// The type that `name` spells.
pub(crate) fn data_type(name: &str, dialect: Dialect) -> Option<sqlparser::ast::DataType> {
    let mut parser = Parser::new(dialect::parser_dialect(dialect))
        .try_with_sql(name)
        .ok()?;
    let data_type = parser.parse_data_type().ok()?;
    (parser.next_token().token == Token::EOF).then_some(data_type)
}

/// Parses tokens that [`Outline::read`] has passed.
pub(in crate::syntax) fn parse_tokens(
    tokens: Vec<TokenWithSpan>,
    dialect: Dialect,
    limits: &Limits,
) -> Result<Tree, Rejection> {
    // The outline has bounded nesting; the parser's own count is only the last resort.
    let has_subscripts =
        dialect == Dialect::Postgres && tokens.iter().any(|t| t.token == Token::LBracket);
    let recursion = limits.max_nesting.saturating_mul(8).saturating_add(64);
    let mut parser = Parser::new(dialect::parser_dialect(dialect))
        .with_recursion_limit(recursion)
        .with_options(dialect::options())
        .with_tokens_with_locations(drop_blanks(dialect::prepare(tokens, dialect)));
    let read = parse_one(&mut parser);
    let tokens = parser.into_tokens();
    let read = read.map_err(|error| refuse_unparsed(&error, &tokens));
    keep_buffer(tokens);
    match read? {
        Some(Read::Query(mut query)) => {
            if has_subscripts {
                subscript::join_names(&mut *query);
            }
            Ok(Tree::Query(query))
        }
        Some(Read::Other(mut statement)) => {
            if has_subscripts {
                subscript::join_names(&mut *statement);
            }
            classify(*statement, dialect)
        }
        None => Err(Rejection::new(
            Code::SyntaxEmpty,
            "the text holds no statement",
        )),
    }
}

/// What a text begins with.
fn first_word(tokens: &[TokenWithSpan]) -> Option<String> {
    tokens
        .iter()
        .find_map(|TokenWithSpan { token, span: _ }| match token {
            Token::Word(word) => Some(word.value.to_ascii_uppercase()),
            Token::Whitespace(_) | Token::SemiColon => None,
            other => Some(other.to_string()),
        })
}

/// What the parser read. Trees of statements are large, and each move of one is a copy.
enum Read {
    Query(Box<Query>),
    Other(Box<Statement>),
}

/// The one statement of the tokens, if there is any: [`Outline::read`] has seen that there are not several.
fn parse_one(parser: &mut Parser<'_>) -> Result<Option<Read>, ParserError> {
    while parser.consume_token(&Token::SemiColon) {}
    let read = match &parser.peek_token_ref().token {
        Token::EOF => return Ok(None),
        // As the parser does of itself with these words.
        Token::Word(word)
            if matches!(
                word.keyword,
                Keyword::SELECT | Keyword::WITH | Keyword::VALUES
            ) =>
        {
            Read::Query(parser.parse_query()?)
        }
        _ => Read::Other(Box::new(parser.parse_statement()?)),
    };
    while parser.consume_token(&Token::SemiColon) {}
    match parser.peek_token() {
        TokenWithSpan {
            token: Token::EOF,
            span: _,
        } => Ok(Some(read)),
        further => parser.expected("end of statement", further),
    }
}

/// The tokens without the blanks that the parser steps over time and again. It looks at one only between a sigil
/// and the name of a placeholder, where there must be none; of line ends it looks at those between strings.
fn drop_blanks(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut after_sigil = false;
    tokens.retain(|TokenWithSpan { token, span: _ }| match token {
        Token::Whitespace(Whitespace::Space | Whitespace::Tab) => after_sigil,
        other => {
            after_sigil = matches!(other, Token::Colon | Token::AtSign);
            true
        }
    });
    tokens
}

/// What is resolved of a statement; others are refused by name.
fn classify(statement: Statement, dialect: Dialect) -> Result<Tree, Rejection> {
    Ok(match statement {
        Statement::Query(query) => Tree::Query(query),
        // As the body of a query, where WITH may stand before it.
        Statement::Insert(_) => Tree::Query(query_of_body(SetExpr::Insert(statement))),
        Statement::Update(_) => Tree::Query(query_of_body(SetExpr::Update(statement))),
        Statement::Delete(_) => Tree::Query(query_of_body(SetExpr::Delete(statement))),
        Statement::Merge(_) => Tree::Query(query_of_body(SetExpr::Merge(statement))),
        Statement::CreateTable(_)
        | Statement::CreateView(_)
        | Statement::CreateIndex(_)
        | Statement::AlterTable(_)
        | Statement::Drop {
            object_type: _,
            if_exists: _,
            names: _,
            cascade: _,
            restrict: _,
            purge: _,
            temporary: _,
            table: _,
        }
        | Statement::Truncate(_) => Tree::Definition(Box::new(statement)),
        Statement::Explain {
            describe_alias,
            analyze,
            verbose,
            query_plan,
            estimate,
            statement,
            format,
            options,
        } => {
            let explain = Explain::read(
                describe_alias,
                ExplainWords {
                    analyze,
                    verbose,
                    query_plan,
                    estimate,
                },
                format.as_ref(),
                &options.unwrap_or_default(),
                dialect,
            )?;
            match *statement {
                Statement::Query(query) => Tree::Explain(query, explain),
                other => return Err(explain::no_query(&other)),
            }
        }
        other => return Err(not_allowed(statement_kind::name(&other))),
    })
}

/// A query that is its body and nothing else.
fn query_of_body(body: SetExpr) -> Box<Query> {
    Box::new(Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    })
}

/// What the parser does not read may still say what it is by its first word.
fn refuse_unparsed(error: &ParserError, tokens: &[TokenWithSpan]) -> Rejection {
    let first = first_word(tokens);
    let invalid = |message: &str| Rejection::new(Code::SyntaxInvalid, word_error(message, tokens));
    match error {
        ParserError::RecursionLimitExceeded => {
            Rejection::new(Code::LimitDepth, "the statement is nested too deeply")
        }
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            match first.as_deref() {
                // What is read where it can be read is refused as what it is.
                Some(
                    "SELECT" | "WITH" | "VALUES" | "TABLE" | "(" | "" | "INSERT" | "UPDATE"
                    | "DELETE" | "MERGE" | "EXPLAIN",
                )
                | None => invalid(message),
                // Some of these may be permitted.
                Some(word @ ("ALTER" | "CREATE" | "DROP" | "TRUNCATE")) => Rejection::new(
                    Code::StatementNotAllowed,
                    format!("a {word} statement of this form is not read and not permitted"),
                ),
                Some(word) if word.bytes().all(|b| b.is_ascii_alphabetic()) && is_verb(word) => {
                    not_allowed(word)
                }
                Some(_) => invalid(message),
            }
        }
    }
}

/// The parser's message, or where it speaks of its own insides, the token at which it stopped.
fn word_error(message: &str, tokens: &[TokenWithSpan]) -> String {
    const INSIDES: [&str; 3] = [
        "No infix parser for token",
        "Unexpected token in unary operator parsing",
        "Internal parser error",
    ];
    if !INSIDES.iter().any(|inside| message.starts_with(inside)) {
        return match message.strip_suffix("found: EOF") {
            Some(expected) => format!("{expected}found the end of the statement"),
            None => message.to_owned(),
        };
    }
    let stopped = tokens.iter().find(|t| {
        let place = t.span.start.to_string();
        !place.is_empty() && message.ends_with(&place)
    });
    match stopped {
        Some(TokenWithSpan { token, span }) => format!("`{token}` cannot stand{}", span.start),
        None => "the statement is not understood".to_owned(),
    }
}

/// Words that begin statements of one engine or another.
fn is_verb(word: &str) -> bool {
    const VERBS: &[&str] = &[
        "ABORT",
        "ALTER",
        "ANALYZE",
        "ATTACH",
        "BEGIN",
        "CALL",
        "CLUSTER",
        "COMMENT",
        "COMMIT",
        "COPY",
        "CREATE",
        "DEALLOCATE",
        "DECLARE",
        "DELETE",
        "DESC",
        "DESCRIBE",
        "DETACH",
        "DISCARD",
        "DO",
        "DROP",
        "END",
        "EXECUTE",
        "EXPLAIN",
        "FETCH",
        "FLUSH",
        "GRANT",
        "HANDLER",
        "IMPORT",
        "INSERT",
        "INSTALL",
        "KILL",
        "LISTEN",
        "LOAD",
        "LOCK",
        "MERGE",
        "MOVE",
        "NOTIFY",
        "OPTIMIZE",
        "PRAGMA",
        "PREPARE",
        "PURGE",
        "REASSIGN",
        "REFRESH",
        "REINDEX",
        "RELEASE",
        "RENAME",
        "REPAIR",
        "REPLACE",
        "RESET",
        "REVOKE",
        "ROLLBACK",
        "SAVEPOINT",
        "SECURITY",
        "SET",
        "SHOW",
        "SHUTDOWN",
        "START",
        "STOP",
        "TABLE",
        "TRUNCATE",
        "UNLISTEN",
        "UNLOCK",
        "UPDATE",
        "USE",
        "VACUUM",
        "XA",
    ];
    VERBS.binary_search(&word).is_ok()
}

fn not_allowed(verb: &str) -> Rejection {
    let of_transactions = [
        "ABORT",
        "BEGIN",
        "COMMIT",
        "END",
        "RELEASE",
        "RELEASE SAVEPOINT",
        "ROLLBACK",
        "SAVEPOINT",
        "START",
        "START TRANSACTION",
    ];
    let why = match of_transactions.contains(&verb) {
        true => ": each statement is a transaction of its own",
        false => "",
    };
    Rejection::new(
        Code::StatementNotAllowed,
        format!("{verb} statements are not permitted{why}"),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]
    use super::*;

    fn code(text: &str) -> Option<Code> {
        parse(text, Dialect::Sqlite, &Limits::default(), |_| Ok(()))
            .err()
            .map(|r| r.code())
    }

    #[test]
    fn exactly_one_query() {
        for (text, expected) in [
            ("SELECT 1", None),
            ("SELECT 1;", None),
            (";; SELECT 1 ; ;", None),
            ("", Some(Code::SyntaxEmpty)),
            (" ; ", Some(Code::SyntaxEmpty)),
            ("-- nothing\n/* at all */", Some(Code::SyntaxEmpty)),
            ("SELECT 1; DROP TABLE t", Some(Code::SyntaxMultiple)),
            ("SELECT 1;;DROP TABLE t", Some(Code::SyntaxMultiple)),
            (
                "SELECT 1 /*!;DROP TABLE t*/",
                Some(Code::SyntaxExecutableComment),
            ),
            ("SELECT 1 /*M! + 1 */", Some(Code::SyntaxExecutableComment)),
            ("SELECT 'a\0b'", Some(Code::SyntaxCharacter)),
            ("SELECT\u{200b}x FROM t", Some(Code::SyntaxCharacter)),
            ("SELECT '\u{200b}'", None),
            (
                "SELECT a ISNULL, b NOT GLOB '*', a NOTNULL FROM t WHERE a ISNULL AND b",
                None,
            ),
            (
                "WITH a AS MATERIALIZED (SELECT 1), b AS NOT MATERIALIZED (SELECT 2) SELECT 1",
                None,
            ),
            ("SELECT\u{b}1", Some(Code::SyntaxCharacter)),
            ("SELECT\u{a0}1", Some(Code::SyntaxCharacter)),
            (
                "SELECT \"a\u{202e}\" FROM t -- \u{202e}",
                Some(Code::SyntaxCharacter),
            ),
            ("SELECT 1 -- \u{202e}", None),
            (
                "SELECT a IS 'x', a IS NOT b + 1, a IS NULL, a IS NOT NULL, a IS TRUE FROM t",
                None,
            ),
            ("SELEC 1", Some(Code::SyntaxInvalid)),
            ("SELECT 1 FROM", Some(Code::SyntaxInvalid)),
            ("SELECT 1 FROM t WHERE a END", Some(Code::SyntaxInvalid)),
            ("DELETE FROM t WHERE a END", Some(Code::SyntaxInvalid)),
            ("VALUES (1);", None),
            ("VACUUM INTO '/tmp/x'", Some(Code::StatementNotAllowed)),
            ("PRAGMA query_only = 0", Some(Code::StatementNotAllowed)),
            ("DELETE FROM t", None),
            ("WITH x AS (SELECT 1) DELETE FROM t", None),
            ("ATTACH 'x' AS y", Some(Code::StatementNotAllowed)),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    /// What an agent reads is about its statement, whatever the parser calls things.
    #[test]
    fn messages_show_no_insides() {
        let tokens = tokenize("SELECT a ~ b", Dialect::Postgres).unwrap_or_default();
        let says = |message: &str| {
            let error = ParserError::ParserError(message.to_owned());
            refuse_unparsed(&error, &tokens).message().to_owned()
        };
        let word = "No infix parser for token Word(Word { value: \"a\" }) at Line: 1, Column: 8";
        assert_eq!(says(word), "`a` cannot stand at Line: 1, Column: 8");
        assert_eq!(
            says("Internal parser error: got ALL"),
            "the statement is not understood"
        );
        let plain = "Expected: ), found: x at Line: 1, Column: 8";
        assert_eq!(says(plain), plain);
        assert_eq!(
            says("Expected: an expression, found: EOF"),
            "Expected: an expression, found the end of the statement"
        );
    }

    #[test]
    fn depth_is_refused_before_it_is_parsed() {
        let parens = format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(code(&parens), Some(Code::LimitDepth));
        let union = vec!["SELECT 1"; 600].join(" UNION ");
        assert_eq!(code(&union), Some(Code::LimitDepth));
        let chain = format!("SELECT {}1", "1 OR ".repeat(2000));
        assert_eq!(code(&chain), Some(Code::LimitDepth));
        let signs = format!("SELECT {}1", "- ".repeat(2000));
        assert_eq!(code(&signs), Some(Code::LimitDepth));
        let list = format!("SELECT 1 IN ({})", vec!["1"; 20_000].join(","));
        assert_eq!(code(&list), None);
        let long = format!("SELECT '{}'", "x".repeat(10 << 20));
        assert_eq!(code(&long), Some(Code::LimitQuerySize));
    }

    /// A word that nests without parentheses and is not counted would abort the process.
    #[test]
    fn no_keyword_nests_uncounted() {
        use sqlparser::keywords::ALL_KEYWORDS;
        // Each has half a megabyte of stack, of which a level of the parser takes more than a thousandth.
        let workers = Dialect::ALL.map(|dialect| {
            let small = std::thread::Builder::new().stack_size(512 * 1024);
            small.spawn(move || {
                for keyword in ALL_KEYWORDS
                    .iter()
                    .copied()
                    .chain(["ISNULL", "!", "-", "@"])
                {
                    let many = format!("{keyword} ").repeat(600);
                    for text in [
                        format!("SELECT {many}1"),
                        format!("SELECT 1 {many}1"),
                        format!("SELECT f({many}1)"),
                        format!("SELECT * FROM {many}t"),
                    ] {
                        let _ = parse(&text, dialect, &Limits::default(), |_| Ok(()));
                    }
                }
            })
        });
        for worker in workers {
            let joined = worker.map(std::thread::JoinHandle::join);
            assert!(matches!(joined, Ok(Ok(()))));
        }
    }

    #[test]
    fn items_keep_their_text() {
        let text =
            "SELECT DISTINCT a,  count( * ) AS n, (SELECT x, y FROM u) /* c */, f(a, b)\nFROM t";
        let texts = parse(text, Dialect::Sqlite, &Limits::default(), |parsed| {
            let mut all: Vec<_> = parsed.outline.projections.keys().copied().collect();
            all.sort();
            let first = all.first().copied().unwrap_or_else(|| panic!("no select"));
            Ok(parsed.outline.item_texts(first, 4, text))
        });
        assert_eq!(
            texts.ok().flatten().unwrap_or_default(),
            ["a", "count( * ) AS n", "(SELECT x, y FROM u)", "f(a, b)"]
        );
    }

    #[test]
    fn verbs_are_sorted() {
        assert!(is_verb("ABORT") && is_verb("XA") && is_verb("PRAGMA") && is_verb("REPLACE"));
    }

    #[test]
    fn an_escape_that_is_not_read_is_no_open_string() {
        for (text, expected) in [
            ("SELECT E'\\xc3\\xa9'", Code::SyntaxUnsupported),
            ("SELECT 'a',\n  E'x\\'\\303'", Code::SyntaxUnsupported),
            ("SELECT E'\\xc3", Code::SyntaxInvalid),
            ("SELECT E'a\\'", Code::SyntaxInvalid),
        ] {
            let found = tokenize(text, Dialect::Postgres).map_err(|why| why.code());
            assert_eq!(found.err(), Some(expected), "{text}");
        }
        assert!(tokenize("SELECT E'\\x41\\u00e9'", Dialect::Postgres).is_ok());
    }
}
