//! EXPLAIN: its forms, and the spelling that runs.

use sqlparser::ast::{
    AnalyzeFormat, AnalyzeFormatKind, DescribeAlias, Expr, Statement, UtilityOption, Value,
};

use crate::syntax::statement_kind;
use crate::{code::Code, dialect::Dialect, rejection::Rejection};

/// Which words stand between EXPLAIN and what it explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of its own")]
pub(super) struct ExplainWords {
    pub(super) analyze: bool,
    pub(super) verbose: bool,
    pub(super) query_plan: bool,
    pub(super) estimate: bool,
}

/// What a plan is asked to show. Nothing that runs the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Explain {
    json: bool,
    verbose: bool,
    without_costs: bool,
}

impl Explain {
    /// Reads the words around the explained query.
    ///
    /// # Errors
    /// `syntax.unsupported` with the option's name.
    pub(super) fn read(
        describe_alias: DescribeAlias,
        words: ExplainWords,
        format: Option<&AnalyzeFormatKind>,
        options: &[UtilityOption],
        dialect: Dialect,
    ) -> Result<Self, Rejection> {
        let ExplainWords {
            analyze,
            verbose,
            query_plan,
            estimate,
        } = words;
        let mut out = Self {
            json: false,
            verbose,
            without_costs: false,
        };
        match describe_alias {
            DescribeAlias::Explain => {}
            DescribeAlias::Describe | DescribeAlias::Desc if dialect == Dialect::Mysql => {}
            DescribeAlias::Describe | DescribeAlias::Desc => return Err(refuse("DESCRIBE")),
        }
        if analyze {
            return Err(runs("EXPLAIN ANALYZE"));
        }
        if estimate {
            return Err(refuse("EXPLAIN ESTIMATE"));
        }
        if query_plan != (dialect == Dialect::Sqlite) {
            return Err(refuse(if query_plan {
                "EXPLAIN QUERY PLAN"
            } else {
                "EXPLAIN without QUERY PLAN"
            }));
        }
        if verbose && dialect != Dialect::Postgres {
            return Err(refuse("EXPLAIN VERBOSE"));
        }
        match format {
            None => {}
            Some(AnalyzeFormatKind::Keyword(format) | AnalyzeFormatKind::Assignment(format)) => {
                out.format(*format)?;
            }
        }
        for UtilityOption { name, arg } in options {
            let option = name.value.to_ascii_lowercase();
            match (option.as_str(), switch(arg.as_ref())) {
                ("analyze", Some(false)) => {}
                ("verbose", Some(on)) => out.verbose = on,
                ("costs", Some(on)) => out.without_costs = !on,
                ("format", _) if word(arg.as_ref()) == "text" => out.json = false,
                ("format", _) if word(arg.as_ref()) == "json" => out.json = true,
                ("analyze", _) => {
                    return Err(runs("EXPLAIN ANALYZE"));
                }
                _ => return Err(refuse(&format!("the option {option} of EXPLAIN"))),
            }
        }
        Ok(out)
    }

    fn format(&mut self, format: AnalyzeFormat) -> Result<(), Rejection> {
        self.json = match format {
            AnalyzeFormat::JSON => true,
            AnalyzeFormat::TEXT | AnalyzeFormat::TRADITIONAL => false,
            AnalyzeFormat::GRAPHVIZ | AnalyzeFormat::TREE => {
                return Err(refuse("this format of EXPLAIN"));
            }
        };
        Ok(())
    }

    /// What stands before the query that runs.
    ///
    /// MySQL and MariaDB give tables of different columns, and JSON in one column, so they are asked for
    /// JSON.
    pub(crate) fn prefix(self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Sqlite => "EXPLAIN QUERY PLAN ".to_owned(),
            Dialect::Mysql => "EXPLAIN FORMAT=JSON ".to_owned(),
            Dialect::Postgres => {
                let format = if self.json { "JSON" } else { "TEXT" };
                let costs = if self.without_costs { "FALSE" } else { "TRUE" };
                let verbose = if self.verbose { "TRUE" } else { "FALSE" };
                format!("EXPLAIN (FORMAT {format}, COSTS {costs}, VERBOSE {verbose}) ")
            }
        }
    }

    /// The words with which a plan is asked for, in front of a query that is yet to be read.
    pub(crate) fn words(dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sqlite => "EXPLAIN QUERY PLAN ",
            Dialect::Postgres | Dialect::Mysql => "EXPLAIN ",
        }
    }

    /// The names of the answer's columns.
    pub(crate) fn columns(dialect: Dialect) -> &'static [&'static str] {
        match dialect {
            Dialect::Sqlite => &["id", "parent", "notused", "detail"],
            Dialect::Postgres => &["QUERY PLAN"],
            Dialect::Mysql => &["EXPLAIN"],
        }
    }
}

/// The refusal of EXPLAIN before what is no query.
pub(super) fn no_query(statement: &Statement) -> Rejection {
    Rejection::new(
        Code::StatementNotAllowed,
        format!(
            "EXPLAIN of {} is not permitted; only queries are explained",
            statement_kind::name(statement)
        ),
    )
}

/// The refusal of what runs the statement that it explains.
fn runs(what: &str) -> Rejection {
    Rejection::new(
        Code::StatementNotAllowed,
        format!("{what} runs the statement and is not permitted; leave ANALYZE out"),
    )
}

fn refuse(what: &str) -> Rejection {
    Rejection::new(Code::SyntaxUnsupported, format!("{what} is not supported"))
}

/// `on`, `true`, `1` or nothing; `off`, `false`, `0`.
fn switch(arg: Option<&Expr>) -> Option<bool> {
    if arg.is_none() {
        return Some(true);
    }
    match word(arg).as_str() {
        "on" | "true" | "1" => Some(true),
        "off" | "false" | "0" => Some(false),
        _ => None,
    }
}

fn word(arg: Option<&Expr>) -> String {
    match arg {
        Some(Expr::Identifier(ident)) => ident.value.to_ascii_lowercase(),
        Some(Expr::Value(value)) => match &value.value {
            Value::Boolean(value) => value.to_string(),
            Value::Number(digits, _) => digits.clone(),
            Value::SingleQuotedString(text) => text.to_ascii_lowercase(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::*;
    use crate::{limits::Limits, syntax::parse};

    #[test]
    fn options_of_explain_are_switched_by_words_and_digits() {
        for (options, expected) in [
            ("COSTS", "(FORMAT TEXT, COSTS TRUE, VERBOSE FALSE)"),
            ("COSTS off", "(FORMAT TEXT, COSTS FALSE, VERBOSE FALSE)"),
            ("COSTS 'off'", "(FORMAT TEXT, COSTS FALSE, VERBOSE FALSE)"),
            ("COSTS 0", "(FORMAT TEXT, COSTS FALSE, VERBOSE FALSE)"),
            ("VERBOSE 1", "(FORMAT TEXT, COSTS TRUE, VERBOSE TRUE)"),
            (
                "ANALYZE 0, FORMAT json",
                "(FORMAT JSON, COSTS TRUE, VERBOSE FALSE)",
            ),
        ] {
            let text = format!("EXPLAIN ({options}) SELECT 1");
            let prefix = parse(&text, Dialect::Postgres, &Limits::default(), |parsed| {
                Ok(parsed.explain.map(|it| it.prefix(Dialect::Postgres)))
            });
            let prefix = prefix.unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(prefix, Some(format!("EXPLAIN {expected} ")), "{text}");
        }
        let runs = "EXPLAIN (ANALYZE 1) SELECT 1";
        let refused = parse(runs, Dialect::Postgres, &Limits::default(), |_| Ok(()));
        let code = refused.map_err(|why| why.code());
        assert_eq!(code, Err(Code::StatementNotAllowed));
    }
}
