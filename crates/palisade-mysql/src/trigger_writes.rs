//! Which tables a trigger can write, as its body says.
//!
//! A body is read as words, not as a program: every statement that writes begins with a word of its own, and names its tables behind
//! it. What could write in another way makes the answer unknown: procedures, functions that are not the server's own, files, settings
//! of the server, and text that only the server reads as it does.

use palisade::{
    catalog::functions::{Safety, registry},
    dialect::Dialect,
};
use sqlparser::{
    dialect::MySqlDialect,
    tokenizer::{Token, Tokenizer, Word},
};

/// A table that a trigger names: without a schema it is one of the trigger's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

/// Settings under which a body means what it means here, but for these.
const OTHER_READINGS: [&str; 3] = ["ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ORACLE"];

/// Words that begin what is not looked into, or set something of the server. As names of columns they refuse a trigger for nothing.
const UNKNOWN: [&str; 18] = [
    "ALTER",
    "CALL",
    "CREATE",
    "DROP",
    "DUMPFILE",
    "EXECUTE",
    "FLUSH",
    "GLOBAL",
    "GRANT",
    "KILL",
    "LOAD",
    "LOCK",
    "OUTFILE",
    "PERSIST",
    "PERSIST_ONLY",
    "PREPARE",
    "RENAME",
    "REVOKE",
];

/// Words of the grammar behind which a parenthesis is no call.
const CLAUSES: [&str; 53] = [
    "ALL",
    "AND",
    "ANY",
    "AS",
    "BETWEEN",
    "BIGINT",
    "BINARY",
    "BY",
    "CASE",
    "CHAR",
    "CHARACTER",
    "DATETIME",
    "DECIMAL",
    "DIV",
    "DOUBLE",
    "ELSE",
    "ELSEIF",
    "EXCEPT",
    "EXISTS",
    "FLOAT",
    "FROM",
    "HAVING",
    "IN",
    "INT",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "IS",
    "JOIN",
    "LIKE",
    "LIMIT",
    "NOT",
    "NUMERIC",
    "ON",
    "OR",
    "OVER",
    "RETURN",
    "SELECT",
    "SET",
    "SMALLINT",
    "SOME",
    "THEN",
    "TIMESTAMP",
    "TINYINT",
    "UNION",
    "UNTIL",
    "USING",
    "VALUE",
    "VARBINARY",
    "VARCHAR",
    "WHEN",
    "WHERE",
    "XOR",
];

/// Words of the grammar behind which a parenthesis is no call, and that are functions too, which do nothing beyond their result.
const EITHER: [&str; 5] = ["DATE", "IF", "TIME", "VALUES", "WHILE"];

/// The tables that a trigger with this `body` can write, made under `sql_mode`; none if it is not known.
pub(crate) fn find_targets(body: &str, sql_mode: &str) -> Option<Vec<Target>> {
    let is_other = |mode: &str| {
        OTHER_READINGS
            .iter()
            .any(|one| mode.eq_ignore_ascii_case(one))
    };
    // Comments of some versions hold statements.
    if sql_mode.split(',').any(is_other) || body.contains("/*!") || body.contains("/*M!") {
        return None;
    }
    let tokens = Tokenizer::new(&MySqlDialect {}, body).tokenize().ok()?;
    let mut body = Body {
        tokens: &tokens,
        at: 0,
        targets: Vec::new(),
    };
    while body.at < body.tokens.len() {
        body.step()?;
    }
    Some(body.targets)
}

struct Body<'t> {
    tokens: &'t [Token],
    at: usize,
    targets: Vec<Target>,
}

impl<'t> Body<'t> {
    /// The next token that is not white, and where the one after it is.
    fn peek_from(&self, from: usize) -> Option<(&'t Token, usize)> {
        let rest = self.tokens.get(from..)?;
        let skipped = rest
            .iter()
            .position(|token| !matches!(token, Token::Whitespace(_)))?;
        rest.get(skipped).map(|token| (token, from + skipped + 1))
    }

    fn peek(&self) -> Option<&'t Token> {
        self.peek_from(self.at).map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<&'t Token> {
        let (token, after) = self.peek_from(self.at)?;
        self.at = after;
        Some(token)
    }

    /// What stands before the token that was just taken, white aside.
    fn find_before(&self) -> Option<&'t Token> {
        let taken = self.tokens.get(..self.at)?;
        let mut solid = taken
            .iter()
            .rev()
            .filter(|token| !matches!(token, Token::Whitespace(_)));
        solid.next();
        solid.next()
    }

    /// Looks at one token, and at the tables that it is followed by.
    fn step(&mut self) -> Option<()> {
        let Some(token) = self.next() else {
            self.at = self.tokens.len();
            return Some(());
        };
        let word = match token {
            // `@@` names a setting of the server.
            Token::Word(word) if word.value.starts_with("@@") => return None,
            Token::Word(word) => word,
            Token::AtSign if self.peek() == Some(&Token::AtSign) => return None,
            _ => return Some(()),
        };
        let before = self.find_before();
        if before == Some(&Token::Period) {
            // The name of a column, unless a function of a database is called.
            return (self.peek() != Some(&Token::LParen)).then_some(());
        }
        let is_before = |text: &str| matches!(before, Some(Token::Word(word)) if is(word, text));
        let is_called = self.peek() == Some(&Token::LParen);
        match keyword(word).as_deref() {
            Some("INSERT" | "REPLACE") if !is_called => {
                self.skip(&["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"]);
                self.take_target()
            }
            Some("UPDATE") if !is_before("KEY") && !is_before("FOR") => self.take_updated(),
            Some("DELETE") => self.take_deleted(),
            Some("TRUNCATE") if !is_called => None,
            Some(word) if UNKNOWN.contains(&word) => None,
            _ if is_called => self.check_call(word),
            _ => Some(()),
        }
    }

    fn skip(&mut self, words: &[&str]) {
        while let Some(Token::Word(word)) = self.peek()
            && words.iter().any(|one| is(word, one))
        {
            self.next();
        }
    }

    /// A table's name.
    fn take_target(&mut self) -> Option<()> {
        let Some(Token::Word(first)) = self.next() else {
            return None;
        };
        let mut target = Target {
            schema: None,
            name: first.value.clone(),
        };
        if self.peek() == Some(&Token::Period) {
            self.next();
            let Some(Token::Word(second)) = self.next() else {
                return None;
            };
            target.schema = Some(std::mem::replace(&mut target.name, second.value.clone()));
        }
        self.targets.push(target);
        Some(())
    }

    /// The tables between `UPDATE` and `SET`: which of them are written does not matter.
    fn take_updated(&mut self) -> Option<()> {
        self.skip(&["LOW_PRIORITY", "IGNORE"]);
        self.take_target()?;
        let mut depth = 0_u32;
        loop {
            let token = self.next()?;
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.checked_sub(1)?,
                Token::SemiColon => return None,
                // Tables of a subquery are not written, and its calls are not looked at here.
                Token::Word(word) if is(word, "SELECT") || is(word, "WITH") => return None,
                Token::Word(word) if depth == 0 && is(word, "SET") => return Some(()),
                Token::Comma if depth == 0 => self.take_target()?,
                Token::Word(word)
                    if depth == 0 && (is(word, "JOIN") || is(word, "STRAIGHT_JOIN")) =>
                {
                    self.take_target()?;
                }
                // A condition of a join calls a function, as `ON f(a)` would.
                Token::Word(word)
                    if self.peek() == Some(&Token::LParen)
                        && !["ON", "AND", "OR", "NOT", "USING", "IN"]
                            .iter()
                            .any(|one| is(word, one)) =>
                {
                    return None;
                }
                _ => {}
            }
        }
    }

    /// The table of a `DELETE` of one.
    fn take_deleted(&mut self) -> Option<()> {
        self.skip(&["LOW_PRIORITY", "QUICK", "IGNORE"]);
        let Some(Token::Word(word)) = self.next() else {
            return None;
        };
        if !is(word, "FROM") {
            return None;
        }
        self.take_target()?;
        match self.peek() {
            Some(Token::Comma | Token::Period) => None,
            Some(Token::Word(word)) if is(word, "USING") => None,
            _ => Some(()),
        }
    }

    /// Whether what is called by `word` is the server's own, and does nothing beyond its result.
    fn check_call(&self, word: &Word) -> Option<()> {
        let name = keyword(word)?;
        if CLAUSES.contains(&name.as_str()) || EITHER.contains(&name.as_str()) {
            return Some(());
        }
        // With a space between, some names are those of the database's own functions.
        if self.tokens.get(self.at) != Some(&Token::LParen) {
            return None;
        }
        let name = name.to_lowercase();
        let mut found = registry(Dialect::Mysql).find_by_name(&name).peekable();
        found.peek()?;
        found.all(|def| is_harmless(def.safety)).then_some(())
    }
}

/// Whether a function of this class leaves nothing behind that a transaction does not take back.
fn is_harmless(safety: Safety) -> bool {
    match safety {
        Safety::Pure
        | Safety::Volatile
        | Safety::Account
        | Safety::Session
        | Safety::Catalog
        // The server bounds how long a statement takes.
        | Safety::Resource => true,
        Safety::File
        | Safety::Network
        | Safety::DynamicSql
        | Safety::Lock
        | Safety::Admin
        | Safety::Unknown => false,
    }
}

/// The word in capitals, unless it is quoted.
fn keyword(word: &Word) -> Option<String> {
    (word.quote_style.is_none()).then(|| word.value.to_ascii_uppercase())
}

fn is(word: &Word, text: &str) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn names(body: &str) -> Option<Vec<String>> {
        let targets = find_targets(body, "STRICT_TRANS_TABLES,ONLY_FULL_GROUP_BY")?;
        let name = |target: Target| match target.schema {
            Some(schema) => format!("{schema}.{}", target.name),
            None => target.name,
        };
        Some(targets.into_iter().map(name).collect())
    }

    #[test]
    fn written_tables_are_those_behind_the_words_that_write() {
        for (body, expected) in [
            ("SET NEW.changed = NOW()", vec![]),
            (
                "SET NEW.total = NEW.amount * IF(NEW.rate > 1, NEW.rate, 1)",
                vec![],
            ),
            (
                "INSERT INTO log (what) VALUES (CONCAT('x', NEW.id))",
                vec!["log"],
            ),
            ("insert ignore log values (1)", vec!["log"]),
            (
                "REPLACE `o d`.`t` SET a = REPLACE(NEW.a, 'x', 'y')",
                vec!["o d.t"],
            ),
            (
                "BEGIN IF NEW.a <> OLD.a THEN UPDATE d.counts c SET c.n = c.n + 1 WHERE c.id = (SELECT max(id) FROM other); END IF; \
                 DELETE FROM queue WHERE id IN (SELECT id FROM q2 FOR UPDATE); END",
                vec!["d.counts", "queue"],
            ),
            (
                "UPDATE a JOIN b ON (a.id = b.id AND b.x IN (1, 2)), c SET a.n = b.n",
                vec!["a", "b", "c"],
            ),
            (
                "INSERT INTO n VALUES (1) ON DUPLICATE KEY UPDATE n = n + COUNT(1)",
                vec!["n"],
            ),
            (
                "BEGIN -- UPDATE x\n /* DELETE FROM y */ # INSERT INTO z\n SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'UPDATE t'; END",
                vec![],
            ),
            (
                "BEGIN DECLARE n DECIMAL(10, 2); DECLARE v VARCHAR (20); SET @seen = 1; END",
                vec![],
            ),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(names(body), Some(expected), "{body}");
        }
    }

    #[test]
    fn what_could_write_in_another_way_is_not_known() {
        for body in [
            "CALL p()",
            "SET @x = own_function(1)",
            "SET @x = d.now()",
            "SET @x = `now`()",
            // A function of the database by that name.
            "SET @x = now ()",
            "SET @x = NEXTVAL(s)",
            "SET @x = GET_LOCK('x', 1)",
            "SET GLOBAL max_connections = 1",
            "SET @@global.max_connections = 1",
            "SELECT 1 INTO OUTFILE '/tmp/x'",
            "DELETE a FROM a JOIN b",
            "DELETE FROM a USING a JOIN b",
            "DELETE FROM a.*",
            "UPDATE (SELECT 1) x SET a = 1",
            "UPDATE a JOIN (SELECT f() AS g) b SET a.n = 1",
            "UPDATE a JOIN b ON f(a.n) SET a.n = 1",
            "/*!50000 INSERT INTO hidden VALUES (1) */ SET NEW.a = 1",
            "/*M! INSERT INTO hidden VALUES (1) */ SET NEW.a = 1",
            "INSERT INTO (SELECT 1)",
            "SET NEW.a = 'open",
            "CREATE TEMPORARY TABLE x (a int)",
            "TRUNCATE TABLE t",
        ] {
            assert_eq!(names(body), None, "{body}");
        }
        for mode in [
            "ANSI_QUOTES",
            "STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES",
            "oracle",
        ] {
            assert_eq!(find_targets("SET NEW.a = 1", mode), None, "{mode}");
        }
    }
}
