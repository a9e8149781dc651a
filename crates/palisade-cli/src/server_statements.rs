//! Statements that a server has counted: `pg_stat_statements` of PostgreSQL, `performance_schema` of MySQL and MariaDB.

use std::{collections::BTreeSet, time::Duration};

use palisade::{
    session::{Principal, Transport},
    value::Params,
};
use palisade_corpus::{AskedStatement, Literals};

use crate::{
    database::Database,
    exit::Failure,
    host, mysql, postgres,
    target::{Engine, Target},
};

/// What a server tells of the statements of a database.
#[derive(Debug, Default)]
pub(crate) struct CountedStatements {
    pub(crate) statements: Vec<CountedStatement>,
    /// What cannot be seen there, a sentence each.
    pub(crate) unseen: Vec<String>,
}

/// A statement as a server counts it, without its literals.
#[derive(Debug)]
pub(crate) struct CountedStatement {
    /// Who logged in; none where the server counts all accounts as one.
    pub(crate) account: Option<String>,
    pub(crate) text: String,
    pub(crate) calls: u64,
    /// When first and last, since 1970-01-01 UTC, as far as the server knows.
    pub(crate) first: Duration,
    pub(crate) last: Duration,
}

/// Whose statements are read, and for whom policies are learned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whose<'a> {
    /// These accounts' alone; all if there is none.
    pub(crate) accounts: &'a [String],
    /// Each account's own principal if there is none.
    pub(crate) principal: Option<&'a Principal>,
}

/// The words by which queries and changes begin. What else servers count sets, locks, shows or defines something.
const BEGINNINGS: [&str; 9] = [
    "SELECT", "WITH", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE",
];

/// The statements that the server of `database` has counted, as they were asked, and what cannot be seen there.
pub(crate) fn read(
    database: &Database,
    whose: Whose<'_>,
) -> Result<(Vec<AskedStatement>, Vec<String>), Failure> {
    let Database::Server(target) = database else {
        return Err(Failure::Usage(
            "SQLite counts no statements\n  help: learn from an audit log, `--audit FILE`, or from statements that you mark, \
             `--statements FILE`"
                .to_owned(),
        ));
    };
    let CountedStatements {
        statements,
        mut unseen,
    } = host::runtime()?.block_on(ask_server(target))?;
    let mut asked: Vec<AskedStatement> = Vec::new();
    let mut others = 0_u64;
    for statement in statements {
        let is_wanted = match &statement.account {
            Some(account) => whose.accounts.is_empty() || whose.accounts.contains(account),
            None => true,
        };
        if !is_wanted {
            continue;
        }
        if !is_query_or_change(&statement.text) {
            others += statement.calls;
            continue;
        }
        asked.push(to_asked(statement, target, whose)?);
    }
    if others > 0 {
        unseen.push(format!(
            "{others} calls were neither queries nor changes of rows, and nothing is learned from them."
        ));
    }
    unseen.push(
        "A server does not know in which sessions an agent read instructions to it, nor what it was refused elsewhere."
            .to_owned(),
    );
    Ok((asked, unseen))
}

async fn ask_server(target: &Target) -> Result<CountedStatements, Failure> {
    match target.engine() {
        Engine::Postgres => postgres::read_statements(target).await,
        Engine::Mysql => mysql::read_statements(target).await,
    }
}

fn is_query_or_change(text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
    // What drivers ask of MySQL when they connect.
    if text.starts_with("SELECT @@") {
        return false;
    }
    let end = text.find(|c: char| !c.is_ascii_alphabetic());
    let word = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    BEGINNINGS.iter().any(|one| word.eq_ignore_ascii_case(one))
}

fn to_asked(
    statement: CountedStatement,
    target: &Target,
    whose: Whose<'_>,
) -> Result<AskedStatement, Failure> {
    let principal = match (whose.principal, &statement.account) {
        (Some(principal), _) => principal.clone(),
        // A name of an account may hold what would end the text of a policy.
        (None, Some(account)) => {
            let name = format!("Agent::\"{account}\"");
            Principal::parse(&name).map_err(|_| {
                Failure::Usage(format!(
                    "the account {account:?} cannot be the name of a principal\n  help: say for whom policies are learned from its \
                     statements, `--account` and `--as`, or leave it out"
                ))
            })?
        }
        (None, None) => {
            return Err(Failure::Usage(
                "the server counts the statements of all accounts as one\n  help: say for whom policies are learned: `--as \
                 'Agent::\"support-bot\"'`"
                    .to_owned(),
            ));
        }
    };
    let CountedStatement {
        account: _,
        text,
        calls,
        first,
        last,
    } = statement;
    Ok(AskedStatement {
        principal,
        sql: match target.engine() {
            Engine::Postgres => leave_numbers_out(&text),
            Engine::Mysql => spell_lists(&text),
        },
        template: None,
        params: Params::None,
        transport: Transport::default(),
        first,
        last,
        count: calls,
        clean: calls,
        needed_approval: false,
        obligations: BTreeSet::new(),
        literals: Literals::LeftOut,
        was_permitted: None,
        refused_with: None,
    })
}

/// `text` with a `?` that stands alone in the place of each `$1` of PostgreSQL's, as audit logs have it.
fn leave_numbers_out(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut quote = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (None, '$') if rest.peek().is_some_and(char::is_ascii_digit) => {
                while rest.next_if(char::is_ascii_digit).is_some() {}
                out.push_str(" ? ");
                continue;
            }
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None | Some(_), _) => {}
        }
        out.push(if c.is_whitespace() && quote.is_none() {
            ' '
        } else {
            c
        });
    }
    out
}

/// `text` with values in the place of each list that a digest of MySQL leaves out: `IN (...)`, `f(?, ...)`, and
/// `VALUES (...) /* , ... */`, of as many as there are columns before it.
fn spell_lists(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" VALUES (...)") {
        out.push_str(before);
        let values = vec!["?"; count_list(before)].join(" , ");
        out.push_str(&format!(" VALUES ( {values} )"));
        rest = after;
    }
    out.push_str(rest);
    out.replace("/* , ... */", "")
        .replace("(...)", "( ? )")
        .replace("?, ...", "? , ?")
}

/// Of how many the list in parentheses is at whose end `text` ends; 1 where there is none.
fn count_list(text: &str) -> usize {
    let Some(inside) = text.trim_end().strip_suffix(')') else {
        return 1;
    };
    let list = inside.rsplit('(').next().unwrap_or_default();
    list.split(',').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_question_marks() {
        for (text, expected) in [
            ("SELECT a FROM t WHERE b=$12", "SELECT a FROM t WHERE b= ? "),
            ("SELECT \"$1\", '$2'", "SELECT \"$1\", '$2'"),
            ("SELECT $1::text\nFROM t", "SELECT  ? ::text FROM t"),
            ("SELECT a$1 $", "SELECT a ?  $"),
        ] {
            assert_eq!(leave_numbers_out(text), expected);
        }
    }

    #[test]
    fn lists_have_a_value() {
        for (digest, expected) in [
            (
                "INSERT INTO `t` VALUES (...)",
                "INSERT INTO `t` VALUES ( ? )",
            ),
            (
                "INSERT INTO `t` ( `a` , `b` ) VALUES (...) /* , ... */",
                "INSERT INTO `t` ( `a` , `b` ) VALUES ( ? , ? ) ",
            ),
            ("`a` IN (...) AND ?", "`a` IN ( ? ) AND ?"),
            ("COALESCE ( `a` , ?, ... )", "COALESCE ( `a` , ? , ? )"),
        ] {
            assert_eq!(spell_lists(digest), expected);
        }
    }

    #[test]
    fn what_is_learned_from_begins_so() {
        for (text, is_one) in [
            ("SELECT 1", true),
            ("  (select 1)", true),
            ("with x as (values (1)) table x", true),
            ("BEGIN", false),
            ("SELECTED", false),
            ("SET x = 1", false),
            ("SELECT @@`wait_timeout`", false),
            ("", false),
        ] {
            assert_eq!(is_query_or_change(text), is_one, "{text}");
        }
    }
}
