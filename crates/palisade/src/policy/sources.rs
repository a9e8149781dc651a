//! The texts that policies are loaded from.

use crate::token::TokenSecret;

/// The texts of a policy folder. The core reads no files; whoever does fills this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySources {
    /// The `*.cedar` files.
    pub policies: Vec<PolicyFile>,
    /// `principals.cedarschema`: the entity types `Agent`, `User` and `Role` with their attributes.
    /// Without it they have none and can be members of roles.
    pub principals_schema: Option<String>,
    /// `entities.json`: principals and roles in Cedar's JSON format.
    pub entities: Option<String>,
    /// `classification.toml`: tags of columns and tables.
    pub classification: Option<String>,
    /// `schemas.toml`: what policies call the schemas of a database, by engine.
    pub schemas: Option<String>,
    /// `templates.toml`: statements that may be run by name.
    pub templates: Option<String>,
    /// The secret behind tokens and `@mask("hash")`; not a file of the folder.
    pub secret: Option<TokenSecret>,
}

/// A file of Cedar policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    /// Its name, for messages; without folders and extension it names policies that have no `@id`.
    pub name: String,
    /// Its text.
    pub text: String,
}
