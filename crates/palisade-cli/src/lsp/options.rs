//! What the command line and the editor say of the folder and its tables.

use std::path::PathBuf;

use palisade::dialect::Dialect;
use serde::Deserialize;
use serde_json::Value;

use crate::args::{SecretArguments, dialect, lsp::LspArguments};

/// Which folder is looked at, over which tables. Paths are from the workspace's folder.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) dialect: Option<Dialect>,
    pub(super) catalog: Option<String>,
    pub(super) secret: SecretArguments,
    pub(super) policies: Option<PathBuf>,
    pub(super) config: Option<PathBuf>,
}

/// `initializationOptions`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct EditorOptions {
    dialect: Option<String>,
    catalog: Option<String>,
    password_env: Option<String>,
    password_file: Option<PathBuf>,
    policies: Option<PathBuf>,
    config: Option<PathBuf>,
}

impl Options {
    /// What the command line says, before what the editor does.
    pub(super) fn read(arguments: &LspArguments, editor: Option<&Value>) -> Result<Self, String> {
        let editor = match editor {
            None | Some(Value::Null) => EditorOptions::default(),
            Some(given) => EditorOptions::deserialize(given)
                .map_err(|why| format!("initializationOptions: {why}"))?,
        };
        let named = editor.dialect.as_deref().map(dialect).transpose()?;
        let secret = &arguments.secret;
        let has_secret = secret.password_env.is_some() || secret.password_file.is_some();
        let secret = match has_secret {
            true => SecretArguments {
                password_env: secret.password_env.clone(),
                password_file: secret.password_file.clone(),
            },
            false => SecretArguments {
                password_env: editor.password_env,
                password_file: editor.password_file,
            },
        };
        Ok(Self {
            dialect: arguments.dialect.or(named),
            catalog: arguments.catalog.clone().or(editor.catalog),
            secret,
            policies: arguments.policies.clone().or(editor.policies),
            config: arguments.config.clone().or(editor.config),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn the_command_line_goes_before_the_editor() {
        let arguments = LspArguments {
            dialect: None,
            catalog: Some("sqlite:a.db".to_owned()),
            secret: SecretArguments::default(),
            policies: None,
            config: None,
        };
        let told = json!({"catalog": "b.sql", "policies": "p", "dialect": "postgres"});
        let options = Options::read(&arguments, Some(&told)).unwrap();
        assert_eq!(options.catalog.as_deref(), Some("sqlite:a.db"));
        assert_eq!(options.policies, Some(PathBuf::from("p")));
        assert_eq!(options.dialect, Some(Dialect::Postgres));
        for wrong in [
            json!({"polices": "p"}),
            json!({"dialect": "oracle"}),
            json!(3),
        ] {
            assert!(Options::read(&arguments, Some(&wrong)).is_err(), "{wrong}");
        }
    }
}
