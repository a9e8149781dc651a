//! Just enough of SQLite's lexer to cut stored schema text where the engine offers no pragma: a
//! view's query, a generated column's expression, what sets a trigger off, the statements of a script.
//!
//! Follows `sqlite3GetToken`: quotes double to escape themselves, and `[…]` ends at the first `]`. Block comments do
//! not nest, and an open comment runs to the end.

use std::{collections::BTreeSet, ops::Range};

use palisade::catalog::Change;

/// What a token is, as far as cutting needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A bare word or number: letters, digits, `_`, `$` and anything beyond ASCII.
    Word,
    /// `"…"`, `` `…` ``, `[…]` or `'…'`; SQLite takes all four as names in a schema.
    Quoted,
    /// One byte of punctuation.
    Punctuation(u8),
}

#[derive(Debug, Clone)]
struct Token {
    kind: Kind,
    span: Range<usize>,
}

/// The query of a view, from the text that SQLite stores for it (`CREATE VIEW v(a, b) AS SELECT …`);
/// `None` if the text has another form.
pub(crate) fn view_query(sql: &str) -> Option<&str> {
    let tokens = tokens(sql);
    let mut at = Cursor {
        sql,
        tokens: &tokens,
    };
    at.create("view")?;
    if at.peek(b'(') {
        at.group()?;
    }
    let start = at.word("as")?.end;
    let query = sql.get(start..)?.trim().trim_end_matches(';').trim_end();
    (!query.is_empty()).then_some(query)
}

/// What sets a trigger off, and the columns that it is about, from the text that SQLite stores for it
/// (`CREATE TRIGGER t AFTER UPDATE OF a ON …`); `None` if the text does not show it.
pub(crate) fn trigger_event(sql: &str) -> Option<(Change, BTreeSet<String>)> {
    let tokens = tokens(sql);
    let mut at = Cursor {
        sql,
        tokens: &tokens,
    };
    at.create("trigger")?;
    if at.word("instead").is_some() {
        at.word("of")?;
    } else {
        let _ = at.word("before").or_else(|| at.word("after"));
    }
    let change = [Change::Insert, Change::Update, Change::Delete]
        .into_iter()
        .find(|change| at.word(change.name()).is_some())?;
    let mut columns = BTreeSet::new();
    if at.word("of").is_some() {
        columns.insert(at.name()?);
        while at.punctuation(b',').is_some() {
            columns.insert(at.name()?);
        }
    }
    at.word("on")?;
    Some((change, columns))
}

/// An argument of a virtual table's module: the option that it sets, and its value where it is one name. What sets no option is a column.
type Argument = (Option<String>, Option<String>);

/// The module of a virtual table, and its arguments, from the text of `CREATE VIRTUAL TABLE`; `None` if the text has another form.
pub(crate) fn virtual_table(sql: &str) -> Option<(String, Vec<Argument>)> {
    let tokens = tokens(sql);
    let mut at = Cursor {
        sql,
        tokens: &tokens,
    };
    let (_, module) = at.create_virtual()?;
    let mut arguments = Vec::new();
    if at.peek(b'(') {
        let list = at.group()?;
        for argument in split_arguments(list) {
            let mut at = Cursor {
                sql,
                tokens: argument,
            };
            let option = at.name();
            arguments.push(match at.punctuation(b'=') {
                Some(_) => {
                    // Nothing is an empty name.
                    let value = match at.tokens.is_empty() {
                        true => Some(String::new()),
                        false => at.name(),
                    };
                    (option, value.filter(|_| at.tokens.is_empty()))
                }
                None => (None, None),
            });
        }
    }
    Some((module, arguments))
}

/// The name and the module of the virtual table that a statement creates.
pub(crate) fn created_virtual(sql: &str) -> Option<(String, String)> {
    let tokens = tokens(sql);
    let mut at = Cursor {
        sql,
        tokens: &tokens,
    };
    at.create_virtual()
}

/// The name of the table that a statement creates, in no other schema than `main`; no virtual or temporary one.
pub(crate) fn created_table(sql: &str) -> Option<String> {
    let tokens = tokens(sql);
    let mut at = Cursor {
        sql,
        tokens: &tokens,
    };
    at.word("create")?;
    at.word("table")?;
    at.created_name()
}

/// The text of a virtual table that a statement writes into the schema, as `.dump` of SQLite's shell does:
/// `INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table',name,name,0,text)`.
pub(crate) fn dumped_virtual(sql: &str) -> Option<String> {
    let tokens = tokens(sql);
    let mut at = Cursor {
        sql,
        tokens: &tokens,
    };
    at.word("insert")?;
    at.word("into")?;
    let _ = at
        .word("sqlite_schema")
        .or_else(|| at.word("sqlite_master"))?;
    at.punctuation(b'(')?;
    for (number, column) in ["type", "name", "tbl_name", "rootpage", "sql"]
        .iter()
        .enumerate()
    {
        if number > 0 {
            at.punctuation(b',')?;
        }
        at.word(column)?;
    }
    at.punctuation(b')')?;
    at.word("values")?;
    at.punctuation(b'(')?;
    (at.string()? == "table").then_some(())?;
    at.punctuation(b',')?;
    let name = at.string()?;
    at.punctuation(b',')?;
    (at.string()? == name).then_some(())?;
    at.punctuation(b',')?;
    at.word("0")?;
    at.punctuation(b',')?;
    let text = at.string()?;
    at.punctuation(b')')?;
    at.end()?;
    // One statement, and of what it says that it is of.
    let is_one = matches!(statements(&text).as_slice(), [_]);
    let (created, _) = created_virtual(&text)?;
    (is_one && created == name).then_some(text)
}

/// Whether a statement is `PRAGMA writable_schema = …` and no more.
pub(crate) fn switches_writable_schema(sql: &str) -> bool {
    let tokens = tokens(sql);
    let mut at = Cursor {
        sql,
        tokens: &tokens,
    };
    let mut switches = || {
        at.word("pragma")?;
        at.word("writable_schema")?;
        at.punctuation(b'=')?;
        ["on", "off", "reset", "0", "1"]
            .iter()
            .find_map(|value| at.word(value))?;
        at.end()
    };
    switches().is_some()
}

/// The table of `INSERT INTO table VALUES …`, and the text from VALUES on.
pub(crate) fn inserted_rows(sql: &str) -> Option<(String, &str)> {
    let tokens = tokens(sql);
    let mut at = Cursor {
        sql,
        tokens: &tokens,
    };
    at.word("insert")?;
    at.word("into")?;
    let table = at.name()?;
    let values = at.word("values")?;
    Some((table, sql.get(values.start..)?))
}

fn split_arguments(mut list: &[Token]) -> Vec<&[Token]> {
    let mut out = Vec::new();
    let mut depth = 0_usize;
    let mut length = 0_usize;
    while let Some(token) = list.get(length) {
        match token.kind {
            Kind::Punctuation(b',') if depth == 0 => {
                let (argument, rest) = list.split_at(length);
                out.push(argument);
                list = rest.get(1..).unwrap_or_default();
                length = 0;
                continue;
            }
            Kind::Punctuation(b'(') => depth += 1,
            Kind::Punctuation(b')') => depth = depth.saturating_sub(1),
            Kind::Punctuation(_) | Kind::Word | Kind::Quoted => {}
        }
        length += 1;
    }
    out.push(list);
    out
}

/// Whether a table's stored text says that a row which is in another's way is removed (`UNIQUE ON CONFLICT REPLACE`).
pub(crate) fn replaces_rows(sql: &str) -> bool {
    let tokens = tokens(sql);
    tokens.windows(3).any(|words| {
        ["on", "conflict", "replace"]
            .iter()
            .zip(words)
            .all(|(word, token)| is_word(sql, token, word))
    })
}

/// The expression of generated column `column`, without its parentheses, from the stored text of
/// its `CREATE TABLE`; `None` if the text does not show it.
pub(crate) fn generated_expression<'a>(sql: &'a str, column: &str) -> Option<&'a str> {
    let tokens = tokens(sql);
    let mut at = Cursor {
        sql,
        tokens: &tokens,
    };
    // The column list is the first group: names before it cannot hold a bare parenthesis.
    while !at.peek(b'(') {
        at.next()?;
    }
    let list = at.group()?;
    let mut at = Cursor { sql, tokens: list };
    loop {
        if at.tokens.is_empty() {
            return None;
        }
        let wanted = at.name()?.eq_ignore_ascii_case(column);
        loop {
            if at.tokens.is_empty() || at.punctuation(b',').is_some() {
                break;
            }
            if at.peek(b'(') {
                at.group()?;
            } else if at.word("as").is_some() && at.peek(b'(') {
                let inner = at.group()?;
                if wanted {
                    let (first, last) = (inner.first()?, inner.last()?);
                    return sql.get(first.span.start..last.span.end);
                }
            } else {
                at.next()?;
            }
        }
        if wanted {
            return None;
        }
    }
}

/// Operators and words that call a function of their name.
const CALLING_WORDS: &[&str] = &[
    "current_date",
    "current_time",
    "current_timestamp",
    "glob",
    "like",
    "match",
    "regexp",
];

/// The names of all functions that a text can call, and more: every name before a parenthesis, and what calls
/// without one.
pub(crate) fn callable(sql: &str) -> Vec<String> {
    let tokens = tokens(sql);
    let mut out = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let mut at = Cursor {
            sql,
            tokens: tokens.get(index..).unwrap_or_default(),
        };
        if at.punctuation(b'-').is_some() {
            if at.peek(b'>') {
                out.extend(["->", "->>"].map(str::to_owned));
            }
        } else if let Some(word) = CALLING_WORDS.iter().find(|w| is_word(sql, token, w)) {
            out.push((*word).to_owned());
        } else if let Some(name) = at.name()
            && at.peek(b'(')
        {
            out.push(name);
        }
    }
    out
}

/// The statements of `script` with the number of the line each begins on, the first being 1.
///
/// Cuts where `sqlite3_complete` does: at a semicolon, in a trigger at `; END ;`. A wrong cut is a
/// syntax error to the engine, never another meaning.
pub(crate) fn statements(script: &str) -> Vec<(usize, &str)> {
    let tokens = tokens(script);
    let mut out = Vec::new();
    let mut line = Lines {
        text: script,
        at: 0,
        line: 1,
    };
    let mut current: Vec<&Token> = Vec::new();
    for token in &tokens {
        if token.kind != Kind::Punctuation(b';') {
            current.push(token);
            continue;
        }
        if is_trigger(script, &current) && !ends_trigger(script, &current) {
            current.push(token);
            continue;
        }
        if let Some(first) = current.first() {
            let span = first.span.start..token.span.end;
            out.push((
                line.number(span.start),
                script.get(span).unwrap_or_default(),
            ));
        }
        current.clear();
    }
    if let Some(first) = current.first() {
        let start = first.span.start;
        out.push((line.number(start), script.get(start..).unwrap_or_default()));
    }
    out
}

/// Counts lines while it moves forward through a text.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn number(&mut self, offset: usize) -> usize {
        let passed = self
            .text
            .as_bytes()
            .get(self.at..offset)
            .unwrap_or_default();
        self.line += passed.iter().filter(|b| **b == b'\n').count();
        self.at = offset;
        self.line
    }
}

fn is_trigger(sql: &str, tokens: &[&Token]) -> bool {
    let word = |i: usize, text: &str| tokens.get(i).is_some_and(|t| is_word(sql, t, text));
    word(0, "create")
        && (word(1, "trigger") || ((word(1, "temp") || word(1, "temporary")) && word(2, "trigger")))
}

fn ends_trigger(sql: &str, tokens: &[&Token]) -> bool {
    match tokens {
        [.., semicolon, end] => {
            semicolon.kind == Kind::Punctuation(b';') && is_word(sql, end, "end")
        }
        [] | [_] => false,
    }
}

fn is_word(sql: &str, token: &Token, word: &str) -> bool {
    token.kind == Kind::Word
        && sql
            .get(token.span.clone())
            .is_some_and(|t| t.eq_ignore_ascii_case(word))
}

/// Walks over tokens from the left.
struct Cursor<'s, 't> {
    sql: &'s str,
    tokens: &'t [Token],
}

impl<'t> Cursor<'_, 't> {
    fn next(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn peek(&self, byte: u8) -> bool {
        self.tokens
            .first()
            .is_some_and(|t| t.kind == Kind::Punctuation(byte))
    }

    fn word(&mut self, word: &str) -> Option<Range<usize>> {
        let found = self
            .tokens
            .first()
            .is_some_and(|t| is_word(self.sql, t, word));
        if found {
            self.next().map(|t| t.span.clone())
        } else {
            None
        }
    }

    /// `CREATE [TEMP] kind [IF NOT EXISTS] [schema.]name`
    fn create(&mut self, kind: &str) -> Option<()> {
        self.word("create")?;
        let _ = self.word("temp").or_else(|| self.word("temporary"));
        self.word(kind)?;
        self.qualified_name().map(|_| ())
    }

    /// `CREATE VIRTUAL TABLE [IF NOT EXISTS] [main.]name USING module`: the name, and the module.
    fn create_virtual(&mut self) -> Option<(String, String)> {
        self.word("create")?;
        self.word("virtual")?;
        self.word("table")?;
        let name = self.created_name()?;
        self.word("using")?;
        Some((name, self.name()?))
    }

    /// `[IF NOT EXISTS] [main.]name`: the name.
    fn created_name(&mut self) -> Option<String> {
        let (schema, name) = self.qualified_name()?;
        schema
            .is_none_or(|schema| schema.eq_ignore_ascii_case("main"))
            .then_some(name)
    }

    /// `[IF NOT EXISTS] [schema.]name`
    fn qualified_name(&mut self) -> Option<(Option<String>, String)> {
        if self.word("if").is_some() {
            self.word("not")?;
            self.word("exists")?;
        }
        let first = self.name()?;
        match self.punctuation(b'.') {
            Some(_) => Some((Some(first), self.name()?)),
            None => Some((None, first)),
        }
    }

    fn punctuation(&mut self, byte: u8) -> Option<&'t Token> {
        if self.peek(byte) { self.next() } else { None }
    }

    /// A name, its quotes taken off.
    fn name(&mut self) -> Option<String> {
        let token = self.next()?;
        let text = self.sql.get(token.span.clone())?;
        match token.kind {
            Kind::Word => Some(text.to_owned()),
            Kind::Quoted => dequote(text),
            Kind::Punctuation(_) => None,
        }
    }

    /// A string, its quotes taken off.
    fn string(&mut self) -> Option<String> {
        let token = self.next()?;
        let text = self.sql.get(token.span.clone())?;
        (token.kind == Kind::Quoted && text.starts_with('\''))
            .then(|| dequote(text))
            .flatten()
    }

    /// The end of the statement.
    fn end(&mut self) -> Option<()> {
        let _ = self.punctuation(b';');
        self.tokens.is_empty().then_some(())
    }

    /// The tokens between a parenthesis and its partner.
    fn group(&mut self) -> Option<&'t [Token]> {
        self.punctuation(b'(')?;
        let all = self.tokens;
        let mut depth = 1_usize;
        let mut length = 0_usize;
        loop {
            match self.next()?.kind {
                Kind::Punctuation(b'(') => depth += 1,
                Kind::Punctuation(b')') => depth -= 1,
                Kind::Punctuation(_) | Kind::Word | Kind::Quoted => {}
            }
            if depth == 0 {
                return all.get(..length);
            }
            length += 1;
        }
    }
}

fn dequote(text: &str) -> Option<String> {
    let open = text.chars().next()?;
    let inner = text.get(1..text.len().checked_sub(1)?)?;
    Some(match open {
        '[' => inner.to_owned(),
        quote => inner.replace(&format!("{quote}{quote}"), &quote.to_string()),
    })
}

fn tokens(sql: &str) -> Vec<Token> {
    let bytes = sql.as_bytes();
    let byte = |i: usize| bytes.get(i).copied();
    let mut out = Vec::new();
    let mut i = 0;
    while let Some(b) = byte(i) {
        let start = i;
        let kind = match b {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => {
                i += 1;
                continue;
            }
            b'-' if byte(i + 1) == Some(b'-') => {
                while byte(i).is_some_and(|b| b != b'\n') {
                    i += 1;
                }
                continue;
            }
            b'/' if byte(i + 1) == Some(b'*') => {
                i += 2;
                while byte(i).is_some() && !(byte(i) == Some(b'*') && byte(i + 1) == Some(b'/')) {
                    i += 1;
                }
                i = (i + 2).min(bytes.len());
                continue;
            }
            b'\'' | b'"' | b'`' => {
                i += 1;
                while let Some(c) = byte(i) {
                    i += 1;
                    if c == b {
                        if byte(i) != Some(b) {
                            break;
                        }
                        i += 1;
                    }
                }
                Kind::Quoted
            }
            b'[' => {
                while byte(i).is_some_and(|b| b != b']') {
                    i += 1;
                }
                i = (i + 1).min(bytes.len());
                Kind::Quoted
            }
            b if is_word_byte(b) => {
                while byte(i).is_some_and(is_word_byte) {
                    i += 1;
                }
                Kind::Word
            }
            b => {
                i += 1;
                Kind::Punctuation(b)
            }
        };
        out.push(Token {
            kind,
            span: start..i,
        });
    }
    out
}

fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_views_query_follows_its_as() {
        let check = |sql: &str, query: &str| assert_eq!(view_query(sql), Some(query), "{sql}");
        check("CREATE VIEW v AS SELECT 1", "SELECT 1");
        check("CREATE VIEW v(a,b) AS SELECT 1, 2;", "SELECT 1, 2");
        check(
            "CREATE VIEW \"as\"(\"a as (\", [b)]) AS\nSELECT 1, 2",
            "SELECT 1, 2",
        );
        check(
            "create /* as select 9 */ view -- as select 8\n `x``y` as(select 1)",
            "(select 1)",
        );
        check(
            "CREATE TEMP VIEW IF NOT EXISTS main.'v' AS WITH c AS (SELECT 1) SELECT * FROM c",
            "WITH c AS (SELECT 1) SELECT * FROM c",
        );
        for bad in [
            "",
            "CREATE TABLE t(a)",
            "CREATE VIEW v",
            "CREATE VIEW v AS ",
            "CREATE VIEW (a) AS SELECT 1",
            "CREATE VIEW v(a AS SELECT 1",
        ] {
            assert_eq!(view_query(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_triggers_event_follows_its_name() {
        let check = |sql: &str, event: Option<Change>| {
            let found = trigger_event(sql).map(|(change, _)| change);
            assert_eq!(found, event, "{sql}");
        };
        check(
            "CREATE TRIGGER t AFTER INSERT ON x BEGIN DELETE FROM y; END",
            Some(Change::Insert),
        );
        check(
            "CREATE TRIGGER t UPDATE OF a, b ON x BEGIN SELECT 1; END",
            Some(Change::Update),
        );
        check(
            "CREATE TEMP TRIGGER IF NOT EXISTS main.\"after insert\" INSTEAD OF DELETE ON v BEGIN SELECT 1; END",
            Some(Change::Delete),
        );
        check(
            "create trigger insert /* update */ before delete on x begin select 1; end",
            Some(Change::Delete),
        );
        check(
            "CREATE TRIGGER if AFTER INSERT ON x BEGIN SELECT 1; END",
            None,
        );
        check("CREATE TRIGGER t ON x", None);
        check("CREATE TABLE t (a)", None);
        check("", None);
    }

    #[test]
    fn a_triggers_columns_follow_its_event() {
        let check = |sql: &str, expected: &[&str]| {
            let (_, columns) = trigger_event(sql).unwrap();
            assert_eq!(columns.iter().collect::<Vec<_>>(), expected, "{sql}");
        };
        check(
            "CREATE TRIGGER t UPDATE OF b, [a c] ,\"on\" ON x BEGIN SELECT 1; END",
            &["a c", "b", "on"],
        );
        check(
            "CREATE TRIGGER t AFTER UPDATE ON x BEGIN SELECT 1; END",
            &[],
        );
        let unread = "CREATE TRIGGER t AFTER UPDATE OF a b ON x BEGIN SELECT 1; END";
        assert_eq!(trigger_event(unread), None);
    }

    #[test]
    fn a_dumped_virtual_table_is_told_by_its_whole_form() {
        let dumped = |name: &str, text: &str| {
            format!(
                "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','{name}','{name}',0,'{text}');"
            )
        };
        assert_eq!(
            dumped_virtual(&dumped(
                "n",
                "CREATE VIRTUAL TABLE n USING fts5(a, content=''notes'')"
            ))
            .as_deref(),
            Some("CREATE VIRTUAL TABLE n USING fts5(a, content='notes')")
        );
        for other in [
            dumped("m", "CREATE VIRTUAL TABLE n USING fts5(a)"),
            dumped("n", "CREATE TABLE n (a)"),
            dumped("n", "CREATE VIRTUAL TABLE n USING fts5(a); SELECT 1"),
            dumped("n", "CREATE VIRTUAL TABLE n USING fts5(a)").replace("0,", "2,"),
            dumped("n", "CREATE VIRTUAL TABLE n USING fts5(a)").replace("'table'", "'view'"),
            dumped("n", "CREATE VIRTUAL TABLE n USING fts5(a)").replace(");", "), (1);"),
        ] {
            assert_eq!(dumped_virtual(&other), None, "{other}");
        }
        assert!(switches_writable_schema("PRAGMA writable_schema=ON;"));
        assert!(!switches_writable_schema("PRAGMA writable_schema"));
        assert!(!switches_writable_schema("PRAGMA other=ON;"));
    }

    #[test]
    fn what_replaces_rows_says_so() {
        for (sql, expected) in [
            ("CREATE TABLE t (a UNIQUE ON conflict\nREPLACE)", true),
            (
                "CREATE TABLE t (a, UNIQUE (a) ON CONFLICT /* so */ REPLACE)",
                true,
            ),
            ("CREATE TABLE t (a UNIQUE ON CONFLICT IGNORE)", false),
            ("CREATE TABLE t (a DEFAULT 'on conflict replace')", false),
        ] {
            assert_eq!(replaces_rows(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_generated_columns_expression_is_in_its_parentheses() {
        let sql = "CREATE TABLE \"t(as)\" (a text DEFAULT (cast(1 as text)) CHECK (a <> ')'), -- b as (0)\n\
            b GENERATED ALWAYS AS (upper(a) || ')') STORED, [c d] int as( /* x */ a + 1 ) virtual, CONSTRAINT q CHECK (a > 1))";
        assert_eq!(generated_expression(sql, "B"), Some("upper(a) || ')'"));
        assert_eq!(generated_expression(sql, "c d"), Some("a + 1"));
        assert_eq!(generated_expression(sql, "a"), None);
        assert_eq!(generated_expression(sql, "nope"), None);
        assert_eq!(generated_expression("CREATE TABLE t", "a"), None);
    }

    #[test]
    fn scripts_are_cut_at_statements() {
        let script = "-- first;\nSELECT ';';\n\nCREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; SELECT CASE 1 WHEN 1 THEN 2 END; END;\n;SELECT 2 /* ; */";
        assert_eq!(
            statements(script),
            vec![
                (2, "SELECT ';';"),
                (
                    4,
                    "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; SELECT CASE 1 WHEN 1 THEN 2 END; END;"
                ),
                (5, "SELECT 2 /* ; */"),
            ]
        );
        assert!(statements(" \n-- nothing\n;;").is_empty());
        assert_eq!(statements("SELECT 'open"), vec![(1, "SELECT 'open")]);
    }
}
