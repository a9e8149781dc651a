//! The manual's page of what is read and what is refused, made of the decisions themselves.

use std::fmt::Write as _;

use palisade::{dialect::Dialect, session::Principal};
use serde::Deserialize;

use crate::{
    case::{Case, Suite},
    run::Runner,
};

/// The features of `corpus/coverage.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    group: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    features: Vec<Feature>,
}

/// A feature, as each engine that has it writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Feature {
    name: String,
    sqlite: Option<String>,
    postgres: Option<String>,
    mysql: Option<String>,
}

const HEAD: &str = "\
# What is read and what is refused

Each cell is the firewall's own decision over a database in which nothing is withheld: *yes*, or the [code](codes.md) of the
refusal. A dash: the engine has no such thing. What is not in here may still be read; what is not understood is refused with
`syntax.unsupported` or `syntax.invalid`, never passed on. A test fails when this page is not what the firewall
decides; `cargo run -p palisade-corpus --example coverage > docs/reference/coverage.md` writes it anew.

";

impl Coverage {
    /// # Errors
    /// If the text is not of the form.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The page, decided by `runner`.
    ///
    /// # Errors
    /// If the corpus has no shop to decide over.
    pub fn page(&self, runner: &Runner) -> Result<String, String> {
        let mut page = HEAD.to_owned();
        for Group { name, features } in &self.group {
            let _ = write!(
                page,
                "## {name}\n\n| | SQLite | PostgreSQL | MySQL, MariaDB |\n|---|---|---|---|\n"
            );
            for feature in features {
                let mut cells = Vec::new();
                for dialect in Dialect::ALL {
                    cells.push(match feature.statement(dialect) {
                        None => "–".to_owned(),
                        Some(sql) => describe_decision(runner, dialect, sql)?,
                    });
                }
                let _ = writeln!(page, "| {} | {} |", feature.name, cells.join(" | "));
            }
            page.push('\n');
        }
        // One line end at the end of the page.
        Ok(format!("{}\n", page.trim_end()))
    }
}

impl Feature {
    fn statement(&self, dialect: Dialect) -> Option<&str> {
        match dialect {
            Dialect::Sqlite => self.sqlite.as_deref(),
            Dialect::Postgres => self.postgres.as_deref(),
            Dialect::Mysql => self.mysql.as_deref(),
        }
    }
}

fn describe_decision(runner: &Runner, dialect: Dialect, sql: &str) -> Result<String, String> {
    let catalog = match dialect {
        Dialect::Sqlite => "shop".to_owned(),
        Dialect::Postgres | Dialect::Mysql => format!("shop.{dialect}"),
    };
    let principal = Principal::parse("Agent::\"anyone\"").map_err(|error| error.to_string())?;
    let case = Case::expect_permit((Suite::Accept, "open"), (catalog, dialect), principal, sql);
    Ok(match runner.decide(&case)?.code {
        None => "yes".to_owned(),
        Some(code) => format!("`{code}`"),
    })
}
