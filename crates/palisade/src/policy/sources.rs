//! The texts that policies are loaded from.

use std::fmt;

use serde::Serialize;

use crate::token::TokenSecret;

/// The texts of a policy folder. The core reads no files; whoever does fills this.
#[derive(Clone, Default, PartialEq, Eq)]
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
    /// The signed bundle that they came in. It decides nothing, and stands in every audit record.
    pub origin: Option<PolicyOrigin>,
}

impl PolicySources {
    /// One file of policies, and nothing else. Other files of a folder are fields to set.
    ///
    /// ```
    /// use palisade::policy::PolicySources;
    /// let policies = PolicySources {
    ///     entities: Some(r#"[{"uid": {"type": "Agent", "id": "a"}, "attrs": {}, "parents": []}]"#.into()),
    ///     ..PolicySources::from_cedar("app.cedar", "permit(principal, action, resource);")
    /// };
    /// assert_eq!(policies.policies[0].name, "app.cedar");
    /// ```
    #[must_use]
    pub fn from_cedar(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            policies: vec![PolicyFile {
                name: name.into(),
                text: text.into(),
            }],
            ..Self::default()
        }
    }
}

// Versions of policies are digests of this. The origin is left out: the same texts in another bundle decide alike.
impl fmt::Debug for PolicySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            policies,
            principals_schema,
            entities,
            classification,
            schemas,
            templates,
            secret,
            origin: _,
        } = self;
        f.debug_struct("PolicySources")
            .field("policies", policies)
            .field("principals_schema", principals_schema)
            .field("entities", entities)
            .field("classification", classification)
            .field("schemas", schemas)
            .field("templates", templates)
            .field("secret", secret)
            .finish()
    }
}

/// A signed bundle of policies, as records name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyOrigin {
    /// Its name.
    pub name: String,
    /// Its serial number, which only rises.
    pub serial: u64,
    /// The SHA-256 of what was signed, in hexadecimal digits.
    pub digest: String,
}

impl fmt::Display for PolicyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            serial,
            digest,
        } = self;
        write!(f, "{name} {serial} sha256:{digest}")
    }
}

/// A file of Cedar policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    /// Its name, for messages; without folders and extension it names policies that have no `@id`.
    pub name: String,
    /// Its text.
    pub text: String,
}
