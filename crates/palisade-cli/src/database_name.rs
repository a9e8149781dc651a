//! What statements are decided over, as it is written: a database, or the text of its schema.

use std::path::{Path, PathBuf};

use crate::{exit::Failure, target::Engine};

/// A database as the operator names it. Nothing has been opened yet.
pub(crate) enum Source {
    /// `sqlite:FILE`
    Sqlite(PathBuf),
    /// `postgres://USER@HOST:PORT/DATABASE`, `mysql://…` or `mariadb://…`; whoever wrote a password into it has to
    /// be told, not quoted.
    Server(Engine, String),
    /// `connection:NAME`, one of the configuration's.
    Connection(String),
}

/// The ways to write one.
const FORMS: &str = "`sqlite:FILE`, `postgres://USER@HOST/DATABASE`, `mysql://USER@HOST/DATABASE`, or `connection:NAME` with `--config FILE`";

/// How the URLs of servers begin.
const SCHEMES: &[(&str, Engine)] = &[
    ("postgres://", Engine::Postgres),
    ("postgresql://", Engine::Postgres),
    ("mysql://", Engine::Mysql),
    ("mariadb://", Engine::Mysql),
];

impl Source {
    /// Reads what the command line or the configuration says.
    ///
    /// The text is not quoted in errors where it can hold a password.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        if let Some((_, engine)) = SCHEMES.iter().find(|(scheme, _)| lower.starts_with(scheme)) {
            return Ok(Self::Server(*engine, text.to_owned()));
        }
        if let Some(file) = text.strip_prefix("sqlite:")
            && !file.is_empty()
        {
            return match find_meant_file(file) {
                None => Ok(Self::Sqlite(PathBuf::from(file))),
                // It may be the URL of a server, with a password.
                Some(_) if text.contains('@') => Err(format!("{NO_SLASHES}; write `sqlite:FILE`")),
                Some(meant) => Err(format!("{NO_SLASHES}; write `sqlite:{meant}`")),
            };
        }
        if let Some(name) = text.strip_prefix("connection:")
            && !name.is_empty()
        {
            return Ok(Self::Connection(name.to_owned()));
        }
        let shown = if text.contains('@') {
            "that".to_owned()
        } else {
            format!("`{text}`")
        };
        Err(format!(
            "{shown} does not name a database; write {FORMS}, for example `sqlite:demo.db`"
        ))
    }

    /// As [`parse`](Self::parse), for the command line.
    pub(crate) fn argument(text: &str) -> Result<Self, Failure> {
        Self::parse(text).map_err(Failure::Usage)
    }
}

/// Why `sqlite://shop.db` names no file.
const NO_SLASHES: &str = "after `sqlite:` stands a path, without the slashes of a URL";

/// The relative path that is meant where `file` is one after the slashes of a URL: `//shop.db`. A file that is there is meant itself.
fn find_meant_file(file: &str) -> Option<&str> {
    let meant = file.strip_prefix("//")?;
    let is_relative = !meant.is_empty() && !meant.starts_with('/');
    (is_relative && !Path::new(file).exists()).then_some(meant)
}

/// What `--catalog` takes: a file of `CREATE` statements, or a database.
pub(crate) enum CatalogSource {
    /// The schema as text.
    Schema(PathBuf),
    /// A database to read it from.
    Database(Source),
}

impl CatalogSource {
    /// Reads what the command line says: whatever does not begin as a database does is a file.
    pub(crate) fn argument(text: &str) -> Result<Self, Failure> {
        let begins = ["sqlite:", "connection:"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        if begins || text.contains("://") {
            Source::argument(text).map(Self::Database)
        } else {
            Ok(Self::Schema(PathBuf::from(text)))
        }
    }
}

/// The name of a file without folders and extension: a database's name in policies.
pub(crate) fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(
        || "main".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn databases_are_named_with_their_engine() {
        assert!(
            matches!(Source::parse("sqlite:a.db"), Ok(Source::Sqlite(path)) if path == Path::new("a.db"))
        );
        assert!(matches!(
            Source::parse("postgres://u@h/d"),
            Ok(Source::Server(Engine::Postgres, _))
        ));
        assert!(matches!(
            Source::parse("PostgreSQL://u@h/d"),
            Ok(Source::Server(Engine::Postgres, _))
        ));
        for url in ["mysql://u@h/d", "MariaDB://u@h/d"] {
            assert!(matches!(
                Source::parse(url),
                Ok(Source::Server(Engine::Mysql, _))
            ));
        }
        assert!(
            matches!(Source::parse("connection:sales"), Ok(Source::Connection(name)) if name == "sales")
        );
        for bad in ["a.db", "sqlite:", "connection:", "redis://x", "mysql:x", ""] {
            assert!(Source::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_has_no_slashes_of_a_url() {
        let read = |text: &str| match Source::parse(text) {
            Ok(Source::Sqlite(path)) => Ok(path),
            Ok(Source::Server(..) | Source::Connection(_)) => panic!("{text} is a file"),
            Err(told) => Err(told),
        };
        let told = read("sqlite://no-such-shop.db").unwrap_err();
        assert!(told.ends_with("write `sqlite:no-such-shop.db`"), "{told}");
        let told = read("sqlite://ann:geheim@db/sales").unwrap_err();
        assert!(
            told.ends_with("write `sqlite:FILE`") && !told.contains("geheim"),
            "{told}"
        );
        // From the root, whether it is there or not.
        for path in ["/no/such/shop.db", "///no/such/shop.db"] {
            assert_eq!(read(&format!("sqlite:{path}")), Ok(PathBuf::from(path)));
        }
        // One that is there is meant.
        let here = std::env::current_exe().unwrap();
        let path = format!("/{}", here.display());
        assert_eq!(read(&format!("sqlite:{path}")), Ok(PathBuf::from(&path)));
    }

    #[test]
    fn what_may_hold_a_password_is_not_quoted() {
        let Err(told) = Source::parse("postgress://ann:geheim@db/sales") else {
            panic!("it is no database");
        };
        assert!(!told.contains("geheim"), "{told}");
    }
}
