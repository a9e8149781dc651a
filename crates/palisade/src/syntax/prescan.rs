//! One pass over the tokens: what must be refused before the parser recurses, and what the tree
//! forgets (the text of each projection item, the number of each `?`).

use std::collections::{BTreeSet, HashMap, HashSet};

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Location, Span, Token, TokenWithSpan, Whitespace},
};

use crate::syntax::{
    dialect::{is_word, token_edit::is_hex_number},
    parser_drift::check_drift,
};
use crate::{
    code::Code, dialect::Dialect, limits::Limits, rejection::Rejection, value::Placeholder,
};

/// Operators of our dialects that the parser does not know as such.
const OPERATORS: &[&str] = &["isnull", "variadic", "sounds"];

/// What the tokens of one statement say.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// For each `SELECT` keyword, where its projection items begin and end.
    pub(crate) projections: HashMap<Location, Vec<(Location, Location)>>,
    /// For each `?`, its number.
    pub(crate) positional: HashMap<Location, u32>,
    /// How often each placeholder is written.
    pub(crate) uses: HashMap<String, usize>,
    /// Every placeholder used.
    pub(crate) placeholders: BTreeSet<Placeholder>,
    /// Where integers written in hexadecimal begin: the tree holds them like blobs.
    pub(crate) hex_numbers: HashSet<Location>,
    /// Deepest nesting plus longest chain: levels the tree can have.
    pub(crate) levels: usize,
}

/// A parenthesis, or the statement itself, while its tokens go by.
#[derive(Default)]
struct Level {
    set_operators: usize,
    operators: usize,
    joins: usize,
    /// The longest run of operators and joins so far: keywords and commas begin a new one, and the
    /// tree keeps the old.
    longest: usize,
    /// Levels of the deepest tree in parentheses here.
    below: usize,
    select: Option<Projection>,
    last: Option<Keyword>,
}

struct Projection {
    keyword: Location,
    items: Vec<(Location, Location)>,
    current: Option<(Location, Location)>,
}

impl Outline {
    /// Reads the tokens.
    ///
    /// # Errors
    /// `syntax.empty`, `syntax.multiple-statements`, `syntax.character`,
    /// `syntax.executable-comment`, `limit.depth`.
    pub(in crate::syntax) fn read(
        text: &str,
        tokens: &[TokenWithSpan],
        dialect: Dialect,
        limits: &Limits,
    ) -> Result<Self, Rejection> {
        check_characters(text, tokens)?;
        check_drift(tokens, dialect)?;
        let mut outline = Self::default();
        let mut levels = vec![Level::default()];
        let mut cases = 0usize;
        let mut deepest = 0usize;
        let mut most_cases = 0usize;
        let mut anonymous = 0u32;
        let mut ended = false;
        let mut any = false;
        for TokenWithSpan { token, span } in tokens {
            check_token(token)?;
            if matches!(token, Token::Whitespace(_) | Token::EOF) {
                continue;
            }
            if matches!(token, Token::SemiColon) {
                ended = any;
                continue;
            }
            if ended {
                return Err(Rejection::new(
                    Code::SyntaxMultiple,
                    format!(
                        "a second statement begins at {}",
                        describe_place(span.start)
                    ),
                ));
            }
            any = true;
            match token {
                Token::LParen | Token::LBracket | Token::LBrace => {
                    if let Some(level) = levels.last_mut() {
                        level.extend(*span);
                    }
                    levels.push(Level::default());
                }
                Token::RParen | Token::RBracket | Token::RBrace => {
                    if levels.len() > 1
                        && let Some(level) = levels.pop()
                    {
                        let below = level.depth() + 1;
                        outline.close(level);
                        if let Some(level) = levels.last_mut() {
                            level.below = level.below.max(below);
                        }
                    }
                    if let Some(level) = levels.last_mut() {
                        level.extend(*span);
                    }
                }
                Token::Comma => {
                    if let Some(level) = levels.last_mut() {
                        level.operators = 0;
                        level.next_item();
                    }
                }
                Token::Word(word) => {
                    match (word.quote_style, word.keyword) {
                        (None, Keyword::CASE) => cases += 1,
                        (None, Keyword::END) => cases = cases.saturating_sub(1),
                        _ => {}
                    }
                    if let Some(level) = levels.last_mut() {
                        let keyword = word.quote_style.is_none().then_some(word.keyword);
                        let may_be =
                            matches!(keyword, Some(Keyword::NoKeyword | Keyword::VARIADIC));
                        if may_be && is_word(token, OPERATORS) {
                            level.operators += 1;
                        }
                        if let Some(done) = level.word(keyword, *span) {
                            outline.close_projection(done);
                        }
                    }
                }
                Token::Placeholder(text) => {
                    if let Some(level) = levels.last_mut() {
                        level.extend(*span);
                    }
                    *outline.uses.entry(text.clone()).or_default() += 1;
                    match placeholder(text, anonymous, dialect) {
                        Some(Placeholder::Number(n)) => {
                            anonymous = anonymous.max(n);
                            outline.positional.insert(span.start, n);
                            outline.placeholders.insert(Placeholder::Number(n));
                        }
                        Some(name) => {
                            outline.placeholders.insert(name);
                        }
                        None => {
                            return Err(Rejection::new(
                                Code::SyntaxInvalid,
                                format!(
                                    "`{text}` is not a placeholder: {}",
                                    crate::syntax::advise_on_parameter(dialect)
                                ),
                            ));
                        }
                    }
                }
                Token::HexStringLiteral(digits) => {
                    if let Some(level) = levels.last_mut() {
                        level.extend(*span);
                    }
                    if is_hex_number(digits, *span) {
                        outline.hex_numbers.insert(span.start);
                    }
                }
                Token::Number(..) | Token::SingleQuotedString(_) => {
                    if let Some(level) = levels.last_mut() {
                        level.extend(*span);
                    }
                }
                other => {
                    if let Some(level) = levels.last_mut() {
                        level.extend(*span);
                        // Every sign counts: which of them chain is the parser's business.
                        if !matches!(other, Token::Period) {
                            level.operators += 1;
                        }
                    }
                }
            }
            deepest = deepest.max(levels.len() - 1 + cases);
            if deepest > limits.max_nesting {
                return Err(Rejection::new(
                    Code::LimitDepth,
                    format!(
                        "the statement is nested deeper than {} at {}",
                        limits.max_nesting,
                        describe_place(span.start)
                    ),
                ));
            }
            most_cases = most_cases.max(cases);
            let chain = levels.last_mut().map_or(0, Level::measure);
            if chain > limits.max_chain {
                return Err(Rejection::new(
                    Code::LimitDepth,
                    format!(
                        "more than {} operators are chained at {}",
                        limits.max_chain,
                        describe_place(span.start)
                    ),
                ));
            }
        }
        if !any {
            return Err(Rejection::new(
                Code::SyntaxEmpty,
                "the text holds no statement",
            ));
        }
        // Parentheses that never close are the parser's business; their levels count all the same.
        let mut depth = most_cases;
        for level in levels {
            depth += level.depth() + 1;
            outline.close(level);
        }
        // A chain may begin with parentheses in which a chain begins: each is short, the tree is not.
        if depth > limits.max_chain.saturating_add(2 * limits.max_nesting) {
            return Err(Rejection::new(
                Code::LimitDepth,
                format!("nested chains of operators make the statement {depth} levels deep"),
            ));
        }
        outline.levels = depth;
        Ok(outline)
    }

    /// The text of each projection item of the `SELECT` at `keyword`, if there are `count`.
    pub(crate) fn item_texts(
        &self,
        keyword: Location,
        count: usize,
        text: &str,
    ) -> Option<Vec<String>> {
        let items = self.projections.get(&keyword)?;
        if items.len() != count {
            return None;
        }
        let mut cursor = Cursor::new(text);
        items
            .iter()
            .map(|(start, end)| {
                let start = cursor.advance(*start)?;
                let end = cursor.advance(*end)?;
                text.get(start..end).map(str::to_owned)
            })
            .collect()
    }

    /// Whether the placeholder that is spelt so stands in one place only.
    pub(crate) fn is_used_once(&self, text: &str) -> bool {
        self.uses.get(text).is_some_and(|count| *count == 1)
    }

    /// Whether the literal at this place is written `0x…`.
    pub(crate) fn is_hex_number(&self, start: Location) -> bool {
        self.hex_numbers.contains(&start)
    }

    fn close(&mut self, level: Level) {
        if let Some(projection) = level.select {
            self.close_projection(projection);
        }
    }

    fn close_projection(&mut self, mut projection: Projection) {
        projection.items.extend(projection.current.take());
        self.projections
            .insert(projection.keyword, projection.items);
    }
}

/// What a placeholder means; `last` is the highest number so far.
fn placeholder(text: &str, last: u32, dialect: Dialect) -> Option<Placeholder> {
    let next = || last.checked_add(1).map(Placeholder::Number);
    let number = |sigil, most: u32| {
        text.strip_prefix(sigil)
            .and_then(|n: &str| n.parse().ok())
            .filter(|n| (1..=most).contains(n))
            .map(Placeholder::Number)
    };
    match dialect {
        Dialect::Sqlite if text == "?" => next(),
        Dialect::Sqlite if text.starts_with('?') => number('?', 32_766),
        Dialect::Sqlite => placeholder_name(text),
        Dialect::Postgres => number('$', 65_535),
        Dialect::Mysql => (text == "?").then(next).flatten(),
    }
}

/// The name in `:a`, `@a` or `$a`.
pub(crate) fn placeholder_name(text: &str) -> Option<Placeholder> {
    let name = text.strip_prefix([':', '@', '$'])?;
    let plain = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    (plain && !name.is_empty()).then(|| Placeholder::Name(name.to_owned()))
}

impl Level {
    /// The chain that is open, counted towards the longest.
    fn measure(&mut self) -> usize {
        self.longest = self.longest.max(self.operators + self.joins);
        self.set_operators + self.operators + self.joins
    }

    /// Levels of the tree made here: every arm of a set operation may stand below all of them.
    fn depth(&self) -> usize {
        self.set_operators + self.longest + self.below
    }

    fn extend(&mut self, span: Span) {
        if let Some(projection) = &mut self.select {
            match &mut projection.current {
                Some((_, end)) => *end = span.end,
                None => projection.current = Some((span.start, span.end)),
            }
        }
    }

    fn next_item(&mut self) {
        if let Some(projection) = &mut self.select {
            projection.items.extend(projection.current.take());
        }
    }

    /// A word goes by; the projection it ends, if it does.
    fn word(&mut self, keyword: Option<Keyword>, span: Span) -> Option<Projection> {
        let last = std::mem::replace(&mut self.last, keyword);
        let whole = [last, keyword];
        if whole == [Some(Keyword::DISTINCT), Some(Keyword::FROM)]
            || whole == [Some(Keyword::WITHIN), Some(Keyword::GROUP)]
        {
            // `a IS DISTINCT FROM b`, `f(a) WITHIN GROUP (ORDER BY b)`: not the clause.
            self.extend(span);
            return None;
        }
        match keyword {
            Some(Keyword::SELECT) => {
                let ended = self.select.take();
                self.operators = 0;
                self.select = Some(Projection {
                    keyword: span.start,
                    items: Vec::new(),
                    current: None,
                });
                return ended;
            }
            Some(Keyword::DISTINCT | Keyword::ALL)
                if self
                    .select
                    .as_ref()
                    .is_some_and(|p| p.items.is_empty() && p.current.is_none()) =>
            {
                // No word may stand between this and FROM, which is the clause nevertheless.
                self.last = None;
                return None;
            }
            Some(
                Keyword::FROM
                | Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::WINDOW
                | Keyword::ORDER
                | Keyword::LIMIT,
            ) => {
                self.operators = 0;
                return self.select.take();
            }
            Some(Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT) => {
                self.set_operators += 1;
                self.operators = 0;
                self.joins = 0;
                return self.select.take();
            }
            Some(Keyword::JOIN | Keyword::STRAIGHT_JOIN) => {
                self.joins += 1;
                self.operators = 0;
            }
            Some(
                Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::NOTNULL
                | Keyword::COLLATE
                | Keyword::LIKE
                | Keyword::GLOB
                | Keyword::MATCH
                | Keyword::REGEXP
                | Keyword::BETWEEN
                | Keyword::IN
                | Keyword::AT
                | Keyword::BINARY
                | Keyword::DIV
                | Keyword::MOD
                | Keyword::XOR
                | Keyword::RLIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::OVERLAPS
                | Keyword::MEMBER
                | Keyword::INTERVAL
                | Keyword::OPERATOR,
            ) => self.operators += 1,
            _ => {}
        }
        self.extend(span);
        None
    }
}

/// Refuses characters that can hide meaning, anywhere but in string literals and comments.
fn check_characters(text: &str, tokens: &[TokenWithSpan]) -> Result<(), Rejection> {
    // Nearly every statement is plain, which is quickly seen.
    let plain = |b: u8| matches!(b, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    if text.bytes().all(plain) || !text.chars().any(hides_meaning) {
        return Ok(());
    }
    let mut harmless = tokens.iter().filter_map(|t| match &t.token {
        Token::SingleQuotedString(_)
        | Token::Whitespace(
            Whitespace::SingleLineComment {
                comment: _,
                prefix: _,
            }
            | Whitespace::MultiLineComment(_),
        ) => Some(t.span),
        _ => None,
    });
    let mut span = harmless.next();
    let mut at = Location { line: 1, column: 1 };
    for c in text.chars() {
        while span.is_some_and(|s| s.end <= at) {
            span = harmless.next();
        }
        if hides_meaning(c) && span.is_none_or(|s| s.start > at) {
            return Err(refuse_character(c));
        }
        if c == '\n' {
            at = Location {
                line: at.line + 1,
                column: 1,
            };
        } else {
            at.column += 1;
        }
    }
    Ok(())
}

/// Refuses comments that some engine executes, and line breaks in names: a name is printed again, and
/// printed text must not depend on where lines end.
fn check_token(token: &Token) -> Result<(), Rejection> {
    if let Token::Word(word) = token
        // Nearly every name is plain, which is quickly seen.
        && !word.value.bytes().all(|b| matches!(b, b' '..=b'~'))
        && let Some(c) = word.value.chars().find(|c| c.is_control())
    {
        return Err(refuse_character(c));
    }
    if let Token::Whitespace(Whitespace::MultiLineComment(comment)) = token
        && (comment.starts_with('!') || comment.starts_with("M!"))
    {
        return Err(Rejection::new(
            Code::SyntaxExecutableComment,
            "a comment begins with `/*!` or `/*M!`, which some engines execute",
        ));
    }
    Ok(())
}

fn refuse_character(c: char) -> Rejection {
    Rejection::new(
        Code::SyntaxCharacter,
        format!(
            "the character U+{:04X} stands outside of a string literal",
            u32::from(c)
        ),
    )
}

/// Control, zero-width, direction and tag characters, and spaces that are not ASCII: none is needed
/// in a name, and each makes a name read as another.
fn hides_meaning(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
        || (c.is_whitespace() && !c.is_ascii())
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// A position as people count it.
fn describe_place(location: Location) -> String {
    format!("line {}, column {}", location.line, location.column)
}

/// Turns locations, in order, into byte offsets in one pass.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'t> {
    text: &'t str,
    offset: usize,
    line: u64,
    column: u64,
}

impl<'t> Cursor<'t> {
    /// At the beginning of `text`.
    pub(crate) fn new(text: &'t str) -> Self {
        Self {
            text,
            offset: 0,
            line: 1,
            column: 1,
        }
    }

    /// The offset of `to`, which is not before the last.
    pub(crate) fn advance(&mut self, to: Location) -> Option<usize> {
        for c in self.text.get(self.offset..)?.chars() {
            if (self.line, self.column) >= (to.line, to.column) {
                break;
            }
            self.offset += c.len_utf8();
            if c == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        Some(self.offset)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::*;
    use crate::syntax::lexer::tokenize;

    fn read(text: &str, limits: &Limits) -> Result<Outline, Code> {
        let tokens = tokenize(text, Dialect::Postgres);
        let tokens = tokens.unwrap_or_else(|error| panic!("{text}: {error}"));
        Outline::read(text, &tokens, Dialect::Postgres, limits).map_err(|error| error.code())
    }

    #[test]
    fn characters_that_hide_meaning_are_known() {
        for (c, expected) in [
            (' ', false),
            ('\t', false),
            ('\n', false),
            ('\r', false),
            ('\0', true),
            ('\u{7f}', true),
            ('\u{85}', true),
            ('\u{a0}', true),
            ('\u{ad}', true),
            ('\u{200b}', true),
            ('\u{200f}', true),
            ('\u{2010}', false),
            ('\u{202a}', true),
            ('\u{202e}', true),
            ('\u{202f}', true),
            ('\u{2060}', true),
            ('\u{206f}', true),
            ('\u{2070}', false),
            ('\u{3000}', true),
            ('\u{feff}', true),
            ('\u{e0041}', true),
            ('é', false),
            ('字', false),
            ('a', false),
        ] {
            assert_eq!(hides_meaning(c), expected, "{:04x}", u32::from(c));
        }
    }

    #[test]
    fn a_cursor_goes_on_in_lines_and_columns() {
        let text = "aé\nbcd\n\ne";
        let mut cursor = Cursor::new(text);
        for (line, column, offset) in [
            (1, 1, 0),
            (1, 2, 1),
            (1, 3, 3),
            (2, 1, 4),
            (2, 1, 4),
            (2, 3, 6),
            (4, 1, 9),
            (4, 9, 10),
        ] {
            let found = cursor.advance(Location { line, column });
            assert_eq!(found, Some(offset), "{line} {column}");
        }
    }

    #[test]
    fn one_statement_may_end_with_semicolons_and_no_other_follows() {
        let limits = Limits::default();
        for (text, expected) in [
            ("SELECT 1", Ok(())),
            ("SELECT 1;", Ok(())),
            (";SELECT 1", Ok(())),
            ("SELECT 1;; -- end", Ok(())),
            ("SELECT 1; SELECT 2", Err(Code::SyntaxMultiple)),
            ("SELECT 1; 2", Err(Code::SyntaxMultiple)),
            ("", Err(Code::SyntaxEmpty)),
            (" ; -- nothing", Err(Code::SyntaxEmpty)),
        ] {
            assert_eq!(read(text, &limits).map(|_| ()), expected, "{text}");
        }
    }

    #[test]
    fn levels_are_those_of_the_deepest_tree() {
        let levels = |text: &str| {
            let outline = read(text, &Limits::default());
            outline
                .unwrap_or_else(|code| panic!("{text}: {code:?}"))
                .levels
        };
        let plain = levels("SELECT a");
        for (text, more) in [
            ("SELECT a, b, c", 0),
            ("SELECT (a)", 1),
            ("SELECT ((a)), (b)", 2),
            ("SELECT ARRAY[a]", 1),
        ] {
            assert_eq!(levels(text), plain + more, "{text}");
        }
        for (less, more) in [
            ("SELECT a", "SELECT a + b"),
            ("SELECT a + b", "SELECT a + b + c"),
            ("SELECT a FROM t", "SELECT a FROM t JOIN u ON true"),
            ("SELECT a", "SELECT a UNION SELECT b"),
            ("SELECT a", "SELECT CASE WHEN a THEN b END"),
        ] {
            assert!(levels(less) < levels(more), "{less} {more}");
        }
    }

    #[test]
    fn chains_are_as_long_as_the_limits_say() {
        let limits = Limits {
            max_chain: 10,
            max_nesting: 10,
            ..Limits::default()
        };
        let chain = |first: &str, more: usize| format!("{first}{}", " + a".repeat(more));
        let plain = |more| format!("SELECT {}", chain("a", more));
        // Each chain begins with the one before, in parentheses: none is long, and the tree is deep.
        let nested = |more: usize| {
            let second = chain(&format!("({})", chain("a", 10)), 10);
            format!("SELECT {}", chain(&format!("({second})"), more))
        };
        let levels = |text: &str| read(text, &limits).map(|outline| outline.levels);
        for (fits, exceeds) in [(plain(10), plain(11)), (nested(7), nested(8))] {
            assert!(levels(&fits).is_ok(), "{fits}");
            assert_eq!(levels(&exceeds), Err(Code::LimitDepth), "{exceeds}");
        }
        assert_eq!(levels(&nested(7)), Ok(30));
    }

    #[test]
    fn placeholders_are_counted() {
        let outline = read("SELECT $1, $2, $1", &Limits::default());
        let outline = outline.unwrap_or_else(|code| panic!("{code:?}"));
        assert_eq!(outline.placeholders.len(), 2);
        assert_eq!(outline.uses.get("$1"), Some(&2));
        assert!(outline.is_used_once("$2") && !outline.is_used_once("$1"));
    }
}
