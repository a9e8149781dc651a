//! Servers on which the cases of a folder run: `tests/servers.toml`.

use std::collections::BTreeMap;

use palisade::dialect::Dialect;
use serde::Deserialize;
use toml::Spanned;

use crate::written::{Text, WrittenError, dialect, parse_toml};

/// A server of PostgreSQL, MySQL or MariaDB that holds nothing but tests.
///
/// For each catalog, and for each case that changes rows, a database `palisade_test_…` is made on it, and dropped afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TestServer {
    /// `postgres://USER@HOST:PORT/DATABASE` or `mysql://…`, without a password: an account that may make databases.
    pub url: String,
    /// The environment variable that holds the account's password.
    #[serde(default)]
    pub password_env: Option<String>,
    /// That databases may be made and dropped there. Nothing runs without it.
    #[serde(default)]
    pub disposable: bool,
}

impl TestServer {
    /// The servers of a folder's `servers.toml`, by the catalogs whose databases they hold.
    ///
    /// # Errors
    /// With the place, if it is not of the format, or names what cannot be.
    pub(crate) fn read_all(
        text: &Text<'_>,
        catalogs: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, Self>, WrittenError> {
        let servers: BTreeMap<Spanned<String>, Self> = parse_toml(text)?;
        let servers = servers.into_iter().map(|(catalog, server)| {
            let why = server.verify(catalog.get_ref(), catalogs);
            why.map_err(|why| WrittenError {
                place: text.place(Some(catalog.span())),
                case: None,
                message: format!("[\"{}\"]: {why}", catalog.get_ref()),
            })?;
            Ok((catalog.into_inner(), server))
        });
        servers.collect()
    }

    fn verify(&self, catalog: &str, catalogs: &BTreeMap<String, String>) -> Result<(), String> {
        if !catalogs.contains_key(catalog) {
            return Err(format!(
                "there is no catalog of this name; put its tables into `tests/{catalog}.sql`"
            ));
        }
        let is_fitting = |schemes: &[&str]| {
            let scheme = self.url.split_once("://").map(|(scheme, _)| scheme);
            scheme.is_some_and(|scheme| schemes.contains(&scheme))
        };
        let fits = match dialect(catalog)? {
            Dialect::Sqlite => {
                return Err(
                    "cases of SQLite run in a file of their own, without a server".to_owned(),
                );
            }
            Dialect::Postgres => is_fitting(&["postgres", "postgresql"]),
            Dialect::Mysql => is_fitting(&["mysql", "mariadb"]),
        };
        if !fits {
            return Err(format!(
                "`{}` is of another engine than the catalog, or no URL of a server",
                self.url
            ));
        }
        let authority = self.url.split('/').nth(2).unwrap_or_default();
        if let Some((account, _)) = authority.rsplit_once('@')
            && account.contains(':')
        {
            return Err(
                "a password has no place in a file; name the variable that holds it, `password_env = \"NAME\"`"
                    .to_owned(),
            );
        }
        if with_database(&self.url, "x").is_none() {
            return Err(
                "the URL names no database; log in to one that is there, as `postgres`".to_owned(),
            );
        }
        if !self.disposable {
            return Err(
                "databases are made and dropped there: write `disposable = true` where it holds nothing but tests"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The text of a `servers.toml` with this server alone, for `catalog`.
    pub(crate) fn to_toml(&self, catalog: &str) -> String {
        let text = |text: &str| toml::Value::from(text).to_string();
        let password = self
            .password_env
            .as_deref()
            .map_or_else(String::new, |name| {
                format!("password_env = {}\n", text(name))
            });
        format!(
            "[{}]\nurl = {}\n{password}disposable = {}\n",
            text(catalog),
            text(&self.url),
            self.disposable
        )
    }

    /// The password, if one is named.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn password(&self) -> Result<Option<String>, String> {
        let Some(name) = &self.password_env else {
            return Ok(None);
        };
        match std::env::var(name) {
            Ok(password) => Ok(Some(password)),
            Err(_) => Err(format!(
                "`{name}`, which is to hold the password, is not set"
            )),
        }
    }
}

/// `url` with another database.
pub(crate) fn with_database(url: &str, name: &str) -> Option<String> {
    let (base, options) = match url.split_once('?') {
        Some((base, options)) => (base, format!("?{options}")),
        None => (url, String::new()),
    };
    let (scheme, rest) = base.split_once("://")?;
    let (authority, old) = rest.split_once('/')?;
    (!old.is_empty()).then(|| format!("{scheme}://{authority}/{name}{options}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_replaced() {
        for (url, expected) in [
            ("postgres://u@h:1/d", Some("postgres://u@h:1/n")),
            (
                "mysql://u@h/d?ssl-mode=REQUIRED",
                Some("mysql://u@h/n?ssl-mode=REQUIRED"),
            ),
            ("mysql://u@h?ssl-mode=REQUIRED", None),
            ("postgres://u@h/", None),
        ] {
            assert_eq!(with_database(url, "n").as_deref(), expected);
        }
    }
}
