//! The policy folder of a workspace, and the tables that its policies are about.

use std::{
    path::{Component, Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use palisade::{catalog::Catalog, dialect::Dialect, token::TokenSecret};
use palisade_corpus::SECRET;

use crate::{
    args::PolicyArguments,
    config::{Config, ConfigFile, bundle::PolicySetup},
    database::{Database, catalog_of_schema},
    database_name::{CatalogSource, Source},
    exit::Failure,
    lsp::options::Options,
    policies::Policies,
    setup::{Setup, configuration, reach},
};

/// A policy folder with its tables, as they were found.
pub(super) struct Workspace {
    pub(super) folder: PathBuf,
    setup: Setup,
    /// What is named; none where the folder's tests have the tables.
    tables: Option<TableSource>,
    dialect: Option<Dialect>,
    /// What was read last, and the file that it came from as it was then; none of a server's.
    read: Option<(Option<(PathBuf, Stamp)>, Catalog)>,
    /// When the server was asked last without an answer, and why there was none.
    unreached: Option<(Instant, String)>,
}

/// A server that does not answer is left alone for so long.
const REST: Duration = Duration::from_secs(30);

/// Where tables are read from.
#[derive(Clone)]
enum TableSource {
    /// A file of `CREATE` statements, or a snapshot.
    Schema(PathBuf, Dialect),
    Database(Database),
}

/// When a file was written, and its size; none if there is none.
type Stamp = Option<(SystemTime, u64)>;

/// The tables, and what a person should know of where they come from.
pub(super) struct Tables {
    pub(super) catalog: Option<Catalog>,
    pub(super) notice: Option<String>,
}

impl Workspace {
    /// Finds the folder below `root`, or takes `opened`, where a policy is open.
    pub(super) fn find(
        root: &Path,
        options: &Options,
        opened: Option<PathBuf>,
    ) -> Result<Option<Self>, Failure> {
        let file = find_configuration(root, options)?;
        let source = find_source(root, options, file.as_ref())?;
        let (config, tables) = match source {
            Some(CatalogSource::Schema(path)) => {
                options
                    .secret
                    .refuse_unused("a file of CREATE statements")?;
                let dialect = options.dialect.unwrap_or(Dialect::Sqlite);
                let config = file.as_ref().map(|file| file.defaults().clone());
                (
                    config.unwrap_or_default(),
                    Some(TableSource::Schema(path, dialect)),
                )
            }
            Some(CatalogSource::Database(source)) => {
                let (config, database) = reach(source, &options.secret, file.as_ref())?;
                (config, Some(TableSource::Database(database)))
            }
            None => {
                let config = file.as_ref().map(|file| file.defaults().clone());
                (config.unwrap_or_default(), None)
            }
        };
        // A bundle is made of a folder, which stands elsewhere.
        let configured = config.policies.as_ref().and_then(PolicySetup::folder);
        let folder = match (&options.policies, configured) {
            (Some(named), _) => Some(root.join(named)),
            (None, Some(named)) => Some(named.to_owned()),
            (None, None) => find_folder(root).or(opened),
        };
        let Some(folder) = folder.as_deref().map(clean_path) else {
            return Ok(None);
        };
        let secret = find_token_secret(&config);
        Ok(Some(Self {
            folder,
            setup: Setup::from_config(&config, Policies::starter(), secret),
            tables,
            dialect: options.dialect,
            read: None,
            unreached: None,
        }))
    }

    /// What decides by these policies.
    pub(super) fn setup(&self, policies: Policies) -> Setup {
        self.setup.with_policies(policies)
    }

    /// The tables, read anew where a file that they come from changed. Where their database cannot be reached, they are those
    /// of the folder's tests.
    pub(super) fn tables(&mut self) -> Result<Tables, Failure> {
        let named = self.tables.clone();
        let Some(source) = named.or_else(|| self.find_tests()) else {
            let notice = "there are no tables: name a schema by `catalog`, a connection in `palisade.toml`, or write `CREATE` statements into `tests/NAME.sql`";
            return Ok(Tables {
                catalog: None,
                notice: Some(notice.to_owned()),
            });
        };
        match self.read_tables(&source) {
            Ok(catalog) => Ok(Tables {
                catalog: Some(catalog),
                notice: None,
            }),
            Err(failure) => {
                let Some(tests) = self.find_tests() else {
                    return Err(failure);
                };
                Ok(Tables {
                    catalog: Some(self.read_tables(&tests)?),
                    notice: Some(format!(
                        "{failure}\nThe tables are those of the folder's tests."
                    )),
                })
            }
        }
    }

    fn read_tables(&mut self, source: &TableSource) -> Result<Catalog, Failure> {
        let file = source.file().map(|path| (path.clone(), look(path)));
        if let Some((known, catalog)) = &self.read
            && *known == file
        {
            return Ok(catalog.clone());
        }
        let catalog = match source {
            TableSource::Schema(path, dialect) => catalog_of_schema(path, *dialect)?,
            TableSource::Database(database @ Database::Server(_)) => self.ask_server(database)?,
            TableSource::Database(database) => database.catalog()?,
        };
        self.read = Some((file, catalog.clone()));
        Ok(catalog)
    }
}

impl Workspace {
    /// The tables of the folder's tests, the first by name.
    fn find_tests(&self) -> Option<TableSource> {
        let entries = std::fs::read_dir(self.folder.join("tests"));
        let entries = entries.into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        let holds_tables = |path: &PathBuf| {
            let extension = path.extension();
            extension.is_some_and(|extension| extension == "sql" || extension == "json")
        };
        paths.retain(holds_tables);
        paths.sort();
        let path = paths.into_iter().next()?;
        let named = path.file_stem()?.to_str()?.rsplit_once('.');
        let named = named.and_then(|(_, dialect)| Dialect::from_name(dialect));
        let dialect = self.dialect.or(named).unwrap_or(Dialect::Sqlite);
        Some(TableSource::Schema(path, dialect))
    }

    fn ask_server(&mut self, database: &Database) -> Result<Catalog, Failure> {
        if let Some((when, why)) = &self.unreached
            && when.elapsed() < REST
        {
            return Err(Failure::Unavailable(why.clone()));
        }
        database.catalog().inspect_err(|failure| {
            let why = failure.to_string();
            let why = why.strip_prefix("error: ").unwrap_or(&why).to_owned();
            self.unreached = Some((Instant::now(), why));
        })
    }
}

impl TableSource {
    /// The file that it is in; none of a server's.
    fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Schema(path, _)
            | Self::Database(Database::Sqlite(path) | Database::Memory(Some(path))) => Some(path),
            Self::Database(Database::Memory(None) | Database::Server(_)) => None,
        }
    }
}

/// The configuration that is named, or the workspace's.
fn find_configuration(root: &Path, options: &Options) -> Result<Option<ConfigFile>, Failure> {
    let named = options.config.as_ref().map(|path| root.join(path));
    let own = root.join("palisade.toml");
    let path = named.or_else(|| own.is_file().then_some(own));
    configuration(&PolicyArguments {
        principal: None,
        policies: None,
        config: path,
    })
}

/// The schema that is named, or the configuration's only connection.
fn find_source(
    root: &Path,
    options: &Options,
    file: Option<&ConfigFile>,
) -> Result<Option<CatalogSource>, Failure> {
    let Some(named) = &options.catalog else {
        let mut names = file.into_iter().flat_map(ConfigFile::names);
        let only = names.next().filter(|_| names.next().is_none());
        let source = only.map(|name| Source::Connection(name.to_owned()));
        return Ok(source.map(CatalogSource::Database));
    };
    Ok(Some(match CatalogSource::argument(named)? {
        CatalogSource::Schema(path) => CatalogSource::Schema(root.join(path)),
        CatalogSource::Database(Source::Sqlite(path)) => {
            CatalogSource::Database(Source::Sqlite(root.join(path)))
        }
        other @ CatalogSource::Database(Source::Server(..) | Source::Connection(_)) => other,
    }))
}

/// The workspace itself, or its `policies`.
fn find_folder(root: &Path) -> Option<PathBuf> {
    let has_policies = |folder: &PathBuf| {
        let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.any(|entry| entry.path().extension().is_some_and(|ext| ext == "cedar"))
    };
    let folders = [root.to_owned(), root.join("policies")];
    folders.into_iter().find(has_policies)
}

/// The secret behind tokens. No token is made here: where an editor lacks the secret, another stands in for it.
fn find_token_secret(config: &Config) -> Option<TokenSecret> {
    config
        .token_secret
        .as_ref()
        .map(|secret| match secret.read() {
            Ok(secret) => TokenSecret::new(secret.reveal()),
            Err(_) => TokenSecret::new(SECRET),
        })
}

/// The path without `..`, as an editor writes it. Links stay, since the editor names files by them too.
fn clean_path(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if out.file_name().is_some() => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

fn look(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_as_editors_write_them() {
        for (path, clean) in [
            ("/a/b/../c/./d", "/a/c/d"),
            ("/a/..", "/"),
            ("../a", "../a"),
        ] {
            assert_eq!(clean_path(Path::new(path)), PathBuf::from(clean));
        }
    }
}
