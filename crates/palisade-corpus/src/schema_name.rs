//! What the database of a MySQL catalog is called, in statements and in policies.

use std::collections::BTreeMap;

use palisade::policy::PolicySources;

/// Where `schemas.toml` names none: policies then name its relations as they do SQLite's.
const DATABASE: &str = "main";

/// The database of a MySQL catalog that is given as text: what `schemas.toml` names, where it names a single one.
pub(crate) fn mysql_database(sources: &PolicySources) -> String {
    let named = mysql_names(sources);
    let mut names = named.into_keys();
    match (names.next(), names.next()) {
        (Some(only), None) => only,
        (None, _) | (Some(_), Some(_)) => DATABASE.to_owned(),
    }
}

/// The same policies where the database is called `own_name`: what they call it stays.
pub(crate) fn rename_mysql_database(sources: &PolicySources, own_name: &str) -> PolicySources {
    let database = mysql_database(sources);
    let named = mysql_names(sources).remove(&database);
    let name = named.unwrap_or(database);
    let names = toml::Table::from_iter([(own_name.to_owned(), toml::Value::from(name))]);
    let document = toml::Table::from_iter([("mysql".to_owned(), toml::Value::Table(names))]);
    PolicySources {
        schemas: Some(document.to_string()),
        ..sources.clone()
    }
}

/// What policies call MySQL's databases. A file that is none is the loader's to tell of.
fn mysql_names(sources: &PolicySources) -> BTreeMap<String, String> {
    let text = sources.schemas.as_deref().unwrap_or_default();
    let document: toml::Table = toml::from_str(text).unwrap_or_default();
    let names = document.get("mysql").and_then(toml::Value::as_table);
    let names = names.into_iter().flatten();
    names
        .filter_map(|(database, name)| Some((database.clone(), name.as_str()?.to_owned())))
        .collect()
}
