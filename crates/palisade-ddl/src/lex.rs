//! Words of a script, and where its statements end.
//!
//! A dump is no SQL alone: `COPY … FROM stdin` is followed by rows, MySQL's client changes the delimiter,
//! and `/*!40101 … */` is a comment to every engine but one. Where a statement ends can hang on all of
//! these, so words and statements are read together.

use crate::DdlError;
use palisade::dialect::Dialect;

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lexeme {
    /// A word without quotes, as written.
    Word,
    /// A name in quotes, which are undone here.
    Quoted(String),
    /// A string, as written.
    Text,
    /// A number.
    Number,
    /// An operator or a mark; PostgreSQL's operators are one token each.
    Symbol,
}

/// A token of a statement.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) lexeme: Lexeme,
    /// Where it starts and ends, in bytes.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Counted from 1.
    pub(super) line: usize,
}

/// The tokens up to a delimiter, which is left out.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) tokens: Vec<Token>,
}

pub(super) struct Lexer<'t> {
    text: &'t str,
    dialect: Dialect,
    at: usize,
    line: usize,
    /// MySQL's client has a statement for it.
    delimiter: String,
    /// Within `/*!40101 … */`.
    conditional: bool,
    /// MySQL under `ANSI_QUOTES`, PostgreSQL always: `"a"` is a name.
    pub(super) ansi_quotes: bool,
    /// MySQL under `NO_BACKSLASH_ESCAPES`, PostgreSQL always: a backslash is itself.
    pub(super) plain_backslash: bool,
}

/// `/*!999999` is MariaDB's way of saying something to its client alone.
const NO_SERVER: u32 = 999_999;

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str, dialect: Dialect) -> Self {
        let mysql = dialect == Dialect::Mysql;
        Self {
            text,
            dialect,
            at: 0,
            line: 1,
            delimiter: ";".to_owned(),
            conditional: false,
            ansi_quotes: !mysql,
            plain_backslash: !mysql,
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn starts(&self, prefix: &str) -> bool {
        self.rest().starts_with(prefix)
    }

    fn advance(&mut self, bytes: usize) {
        let end = self.at.saturating_add(bytes).min(self.text.len());
        let passed = self.text.get(self.at..end).unwrap_or_default();
        self.line += passed.matches('\n').count();
        self.at = end;
    }

    fn error(&self, line: usize, message: &str) -> DdlError {
        DdlError::new(line, message)
    }

    /// The next statement that has a token; `None` at the end of the text.
    ///
    /// # Errors
    /// If a string, a quoted name or a comment does not end.
    pub(super) fn statement(&mut self) -> Result<Option<Statement>, DdlError> {
        let mut tokens: Vec<Token> = Vec::new();
        let mut depth = 0usize;
        // Of `BEGIN ATOMIC … END`, a function's body that is no string.
        let mut blocks = 0usize;
        loop {
            self.blank(tokens.is_empty())?;
            if self.conditional && self.starts("*/") {
                self.conditional = false;
                self.advance(2);
                continue;
            }
            let ends = self.starts(&self.delimiter) && (depth == 0 || self.delimiter != ";");
            if ends && blocks == 0 {
                self.advance(self.delimiter.len());
                if tokens.is_empty() {
                    continue;
                }
                return Ok(Some(Statement { tokens }));
            }
            let Some(c) = self.peek() else {
                return Ok((!tokens.is_empty()).then_some(Statement { tokens }));
            };
            if tokens.is_empty() && self.client_line()? {
                continue;
            }
            let (start, line) = (self.at, self.line);
            let lexeme = self.lexeme(c)?;
            let word = self.text.get(start..self.at).unwrap_or_default();
            match (&lexeme, word) {
                (Lexeme::Symbol, "(" | "[") => depth += 1,
                (Lexeme::Symbol, ")" | "]") => depth = depth.saturating_sub(1),
                (Lexeme::Word, _) if self.dialect == Dialect::Postgres => {
                    let after_begin = (tokens.last())
                        .and_then(|last| self.text.get(last.start..last.end))
                        .is_some_and(|last| last.eq_ignore_ascii_case("begin"));
                    if word.eq_ignore_ascii_case("atomic") && after_begin
                        || blocks > 0 && word.eq_ignore_ascii_case("case")
                    {
                        blocks += 1;
                    } else if word.eq_ignore_ascii_case("end") {
                        blocks = blocks.saturating_sub(1);
                    }
                }
                _ => {}
            }
            tokens.push(Token {
                lexeme,
                start,
                end: self.at,
                line,
            });
        }
    }

    /// Passes over blanks and comments.
    fn blank(&mut self, between: bool) -> Result<(), DdlError> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start().len();
            self.advance(blanks);
            let mysql = self.dialect == Dialect::Mysql;
            if self.starts("--") && (!mysql || self.dashes_comment()) || mysql && self.starts("#") {
                let line = self.rest().find('\n').unwrap_or(self.rest().len());
                self.advance(line);
            } else if mysql && (self.starts("/*!") || self.starts("/*M!")) {
                self.advance(if self.starts("/*!") { 3 } else { 4 });
                let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
                let version = self.rest().get(..digits).unwrap_or_default();
                if version.parse::<u32>().is_ok_and(|v| v >= NO_SERVER) {
                    self.comment_end(false)?;
                } else {
                    self.advance(digits);
                    self.conditional = true;
                }
            } else if self.starts("/*") {
                self.advance(2);
                self.comment_end(!mysql)?;
            } else if blanks == 0 || !between {
                return Ok(());
            }
        }
    }

    /// In MySQL two dashes need a blank after them.
    fn dashes_comment(&self) -> bool {
        self.rest()
            .chars()
            .nth(2)
            .is_none_or(|c| c.is_whitespace() || c.is_control())
    }

    fn comment_end(&mut self, nested: bool) -> Result<(), DdlError> {
        let line = self.line;
        let mut depth = 1usize;
        while depth > 0 {
            let Some(c) = self.peek() else {
                return Err(self.error(line, "a comment does not end"));
            };
            if self.starts("*/") {
                depth -= 1;
                self.advance(2);
            } else if nested && self.starts("/*") {
                depth += 1;
                self.advance(2);
            } else {
                self.advance(c.len_utf8());
            }
        }
        Ok(())
    }

    /// A line for the client: `DELIMITER ;;`, or `\restrict` and the like.
    fn client_line(&mut self) -> Result<bool, DdlError> {
        let line = self.rest().lines().next().unwrap_or_default();
        match self.dialect {
            Dialect::Mysql => {
                let mut words = line.split_whitespace();
                let first = words.next().unwrap_or_default();
                if !first.eq_ignore_ascii_case("delimiter") {
                    return Ok(false);
                }
                let Some(delimiter) = words.next() else {
                    return Err(self.error(self.line, "DELIMITER names none"));
                };
                self.delimiter = delimiter.to_owned();
            }
            Dialect::Postgres => {
                if !line.starts_with('\\') {
                    return Ok(false);
                }
                let command = line.split_whitespace().next().unwrap_or_default();
                // Whatever else may lead to another database or another file.
                if !matches!(
                    command,
                    "\\restrict" | "\\unrestrict" | "\\." | "\\set" | "\\pset"
                ) {
                    return Err(self.error(
                        self.line,
                        &format!("`{command}` is a command of the client that is not understood"),
                    ));
                }
            }
            Dialect::Sqlite => return Ok(false),
        }
        self.advance(line.len());
        Ok(true)
    }

    /// Passes over the rows after `COPY … FROM stdin`.
    pub(super) fn skip_rows(&mut self) -> Result<(), DdlError> {
        let line = self.line;
        let rest = self.rest();
        let mut passed = rest.find('\n').map_or(rest.len(), |end| end + 1);
        for row in rest.get(passed..).unwrap_or_default().split_inclusive('\n') {
            passed += row.len();
            if row.trim_end_matches(['\n', '\r']) == "\\." {
                self.advance(passed);
                return Ok(());
            }
        }
        Err(self.error(line, "the rows of COPY do not end"))
    }

    fn lexeme(&mut self, c: char) -> Result<Lexeme, DdlError> {
        let mysql = self.dialect == Dialect::Mysql;
        let next = self.rest().chars().nth(1);
        match c {
            '\'' => self
                .read_quoted('\'', !self.plain_backslash)
                .map(|_| Lexeme::Text),
            '"' if self.ansi_quotes => self.read_quoted('"', false).map(Lexeme::Quoted),
            '"' => self
                .read_quoted('"', !self.plain_backslash)
                .map(|_| Lexeme::Text),
            '`' if mysql => self.read_quoted('`', false).map(Lexeme::Quoted),
            'e' | 'E' if !mysql && next == Some('\'') => {
                self.advance(1);
                self.read_quoted('\'', true).map(|_| Lexeme::Text)
            }
            'b' | 'B' | 'x' | 'X' | 'n' | 'N' if next == Some('\'') => {
                self.advance(1);
                self.read_quoted('\'', mysql && !self.plain_backslash)
                    .map(|_| Lexeme::Text)
            }
            'u' | 'U'
                if !mysql
                    && self
                        .rest()
                        .get(1..3)
                        .is_some_and(|n| matches!(n, "&'" | "&\"")) =>
            {
                Err(self.error(self.line, "names and strings with U& are not understood"))
            }
            '$' if !mysql => self.dollar(),
            _ if c.is_ascii_digit() || c == '.' && next.is_some_and(|n| n.is_ascii_digit()) => {
                let part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_' || c == '$';
                // A name in MySQL may start with a digit.
                let word = self.take(part);
                let number = word.starts_with("0x")
                    || word
                        .bytes()
                        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E'));
                Ok(if number { Lexeme::Number } else { Lexeme::Word })
            }
            _ if c.is_alphabetic()
                || c == '_'
                || !c.is_ascii()
                || mysql && matches!(c, '@' | '$') =>
            {
                let part = |c: char| {
                    c.is_alphanumeric()
                        || !c.is_ascii()
                        || matches!(c, '_' | '$')
                        || mysql && c == '@'
                };
                self.take(part);
                Ok(Lexeme::Word)
            }
            _ if !mysql && is_operator(c) => {
                let text = self.rest();
                let mut length = text.chars().take_while(|c| is_operator(*c)).count();
                // A comment ends an operator.
                let run = text.get(..length).unwrap_or_default();
                if let Some(at) = ["--", "/*"].iter().filter_map(|m| run.find(m)).min() {
                    length = at.max(1);
                }
                self.advance(length);
                Ok(Lexeme::Symbol)
            }
            _ if self.starts("::") || self.starts(":=") => {
                self.advance(2);
                Ok(Lexeme::Symbol)
            }
            _ => {
                self.advance(c.len_utf8());
                Ok(Lexeme::Symbol)
            }
        }
    }

    fn take(&mut self, part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|c| !part(c)).unwrap_or(rest.len());
        self.advance(length);
        rest.get(..length).unwrap_or_default()
    }

    /// What stands in quotes, doubled ones undone.
    fn read_quoted(&mut self, quote: char, backslash: bool) -> Result<String, DdlError> {
        let line = self.line;
        let mut inner = String::new();
        let mut chars = self.rest().char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if backslash && c == '\\' {
                inner.extend(chars.next().map(|(_, c)| c));
            } else if c != quote {
                inner.push(c);
            } else if chars.peek().is_some_and(|(_, next)| *next == quote) {
                inner.push(quote);
                chars.next();
            } else {
                self.advance(at + 1);
                return Ok(inner);
            }
        }
        Err(self.error(line, "what stands in quotes does not end"))
    }

    /// A dollar-quoted string, or a parameter.
    fn dollar(&mut self) -> Result<Lexeme, DdlError> {
        let line = self.line;
        let rest = self.rest();
        let inner = rest.get(1..).unwrap_or_default();
        let tag = inner
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || !c.is_ascii()))
            .unwrap_or(inner.len());
        let digit = inner.starts_with(|c: char| c.is_ascii_digit());
        if digit || !inner.get(tag..).is_some_and(|after| after.starts_with('$')) {
            self.advance(1 + tag);
            return Ok(Lexeme::Symbol);
        }
        let marker = rest.get(..tag + 2).unwrap_or_default();
        let body = rest.get(marker.len()..).unwrap_or_default();
        match body.find(marker) {
            Some(end) => {
                self.advance(2 * marker.len() + end);
                Ok(Lexeme::Text)
            }
            None => Err(self.error(line, "what stands in dollar quotes does not end")),
        }
    }
}

fn is_operator(c: char) -> bool {
    // https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-OPERATORS
    matches!(
        c,
        '+' | '-'
            | '*'
            | '/'
            | '<'
            | '>'
            | '='
            | '~'
            | '!'
            | '@'
            | '#'
            | '%'
            | '^'
            | '&'
            | '|'
            | '?'
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn statements(dialect: Dialect, text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text, dialect);
        let mut out = Vec::new();
        while let Some(statement) = lexer.statement().unwrap() {
            let words: Vec<_> = (statement.tokens.iter())
                .map(|t| text.get(t.start..t.end).unwrap())
                .collect();
            out.push(words.join(" "));
            if words.last() == Some(&"stdin") {
                lexer.skip_rows().unwrap();
            }
        }
        out
    }

    #[test]
    fn statements_end_where_the_engines_end_them() {
        let text = "a 'x;''y' $q$;$x$$q$; COPY t FROM stdin;\n1;\\x\n\\.\nb \"c;\"\"d\"; /* ; /* ; */ */ e -- ;\n;\
                    CREATE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN a THEN b END; END; g (h; i); E'\\';'";
        assert_eq!(
            statements(Dialect::Postgres, text),
            [
                "a 'x;''y' $q$;$x$$q$",
                "COPY t FROM stdin",
                "b \"c;\"\"d\"",
                "e",
                "CREATE FUNCTION f ( ) BEGIN ATOMIC SELECT CASE WHEN a THEN b END ; END",
                "g ( h ; i )",
                "E'\\';'",
            ]
        );
        let text = "/*!999999\\- x */ # ;\n/*!40101 SET x = 1 */;\nDELIMITER ;;\na; b ;;\nDELIMITER ;\n`c;``d` 'e\\';' \"f;\"; a--1;";
        assert_eq!(
            statements(Dialect::Mysql, text),
            ["SET x = 1", "a ; b", "`c;``d` 'e\\';' \"f;\"", "a - - 1"]
        );
    }

    #[test]
    fn what_does_not_end_is_an_error_with_its_line() {
        for (dialect, text) in [
            (Dialect::Postgres, "a;\n'b"),
            (Dialect::Postgres, "a;\n$$b"),
            (Dialect::Postgres, "a;\n/* /* */"),
            (Dialect::Postgres, "a;\n\\connect other"),
            (Dialect::Mysql, "a;\n`b"),
        ] {
            let mut lexer = Lexer::new(text, dialect);
            assert!(lexer.statement().unwrap().is_some());
            assert_eq!(lexer.statement().unwrap_err().line(), 2, "{text}");
        }
    }
}
