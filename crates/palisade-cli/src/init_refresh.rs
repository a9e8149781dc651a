//! `palisade init --refresh`: the tables that the tests of a folder decide over, taken from their database anew.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use palisade::{catalog::Catalog, dialect::Dialect, policy::PolicySet};
use serde_json::json;

use crate::{
    args::{Format, PolicyArguments, policy::InitArguments},
    database_name::{CatalogSource, stem},
    exit::{Exit, Failure},
    human,
    init::{list_columns, plain_name, snapshot_file},
    policy::test::replace,
    setup::{Setup, require_dialect},
    shell_word::quote_word,
    stdout,
};

/// Names of columns that are told of each side.
const MAX_TOLD: usize = 24;

/// Runs the command.
pub(crate) fn run(arguments: &InitArguments) -> Result<Exit, Failure> {
    let given = PolicyArguments {
        principal: None,
        policies: None,
        config: arguments.config.clone(),
    };
    let (configured, name, catalog) = match CatalogSource::argument(&arguments.source)? {
        CatalogSource::Schema(path) => {
            let name = stem(&path);
            let dialect = arguments.dialect;
            let source = CatalogSource::Schema(path);
            let (setup, catalog) = Setup::over_catalog(source, dialect, &arguments.secret, &given)?;
            (setup.policies.folder().map(Path::to_owned), name, catalog)
        }
        CatalogSource::Database(source) => {
            let (setup, database) = Setup::over(source, &arguments.secret, &given, None)?;
            if let Some(asked) = arguments.dialect {
                require_dialect(asked, database.dialect())?;
            }
            let folder = setup.policies.folder().map(Path::to_owned);
            (folder, database.name(), database.catalog()?)
        }
    };
    let policies = match configured {
        Some(folder) => folder,
        None => find_policies(&arguments.dir),
    };
    let file = find_snapshot(&policies, &plain_name(&name), catalog.dialect())?;
    let old = read(&file)?;
    let new = catalog.to_snapshot();
    let is_same = old == new;
    if !is_same {
        replace(&file, &new)?;
        refresh_schema(&policies, &catalog)?;
    }
    // A file that is no catalog has no columns to compare.
    let was = Catalog::from_snapshot(&old).ok();
    let was = was.as_ref().map(list_columns).unwrap_or_default();
    let is = list_columns(&catalog);
    let change = Change {
        file,
        is_same,
        new: is.difference(&was).cloned().collect(),
        gone: was.difference(&is).cloned().collect(),
    };
    stdout::text(&match arguments.format {
        Format::Json => change.json(),
        Format::Text => change.tell(&policies),
    })?;
    Ok(Exit::Permitted)
}

/// What became of the catalog.
struct Change {
    file: PathBuf,
    is_same: bool,
    new: BTreeSet<String>,
    gone: BTreeSet<String>,
}

impl Change {
    fn json(&self) -> String {
        let told = json!({
            "file": self.file.display().to_string(),
            "state": if self.is_same { "same" } else { "wrote" },
            "new": self.new,
            "gone": self.gone,
        });
        format!("{told}\n")
    }

    fn tell(&self, policies: &Path) -> String {
        let file = self.file.display();
        if self.is_same {
            return format!("same  {file}\n");
        }
        let mut out = format!("wrote {file}\n");
        for (mark, columns) in [('+', &self.new), ('-', &self.gone)] {
            for column in columns.iter().take(MAX_TOLD) {
                let _ = writeln!(out, "  {mark} {}", human::printable(column));
            }
            match columns.len().saturating_sub(MAX_TOLD) {
                0 => {}
                more => {
                    let _ = writeln!(out, "  {mark} … {more} more");
                }
            }
        }
        let folder = quote_word(&policies.display().to_string());
        let _ = writeln!(
            out,
            "Look at what that changes: `palisade policy test {folder}`, then `palisade policy lock {folder} --update`."
        );
        out
    }
}

/// The policy folder of a working folder, or the folder itself.
fn find_policies(dir: &Path) -> PathBuf {
    let within = dir.join("policies");
    match within.is_dir() {
        true => within,
        false => dir.to_owned(),
    }
}

/// The catalog that is taken anew: the file of the database's name or, where there is none, the only one of its dialect.
fn find_snapshot(policies: &Path, name: &str, dialect: Dialect) -> Result<PathBuf, Failure> {
    let file = snapshot_file(policies, name, dialect);
    if file.exists() {
        return Ok(file);
    }
    let tests = policies.join("tests");
    let entries = std::fs::read_dir(&tests).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| is_snapshot_of(path, dialect))
        .collect();
    found.sort();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::Usage(format!(
            "there is no `{}` to take anew\n  help: `palisade init DATABASE DIR` without `--refresh` writes one",
            file.display()
        ))),
        [_, _, ..] => {
            let names: Vec<String> = (found.iter())
                .filter_map(|path| path.file_name())
                .map(|name| format!("`{}`", name.display()))
                .collect();
            Err(Failure::Usage(format!(
                "there is no `{}`, and which of {} is of this database is not known\n  help: give it the name of the database",
                file.display(),
                names.join(", ")
            )))
        }
    }
}

/// Whether a file is the catalog of a database of this dialect, by its name.
fn is_snapshot_of(path: &Path, dialect: Dialect) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let Some(name) = name.as_ref().and_then(|name| name.strip_suffix(".json")) else {
        return false;
    };
    let of = name
        .rsplit_once('.')
        .and_then(|(_, last)| Dialect::from_name(last));
    of.unwrap_or(Dialect::Sqlite) == dialect
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("cannot read `{}`: {error}", file.display())))
}

/// The schema for Cedar's language server, where `init` has written one.
fn refresh_schema(policies: &Path, catalog: &Catalog) -> Result<(), Failure> {
    let beside = policies.parent().map(|dir| dir.join("schema.cedarschema"));
    match beside.filter(|file| file.exists()) {
        Some(file) => replace(&file, &PolicySet::schema_text(catalog)),
        None => Ok(()),
    }
}
