//! JSON schemas of the files that people write, for editors.

use std::fmt::Write as _;

use clap::ValueEnum;

/// A file that has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// palisade.toml
    Palisade,
    /// policies/tests/*.toml
    Tests,
    /// policies/tests/servers.toml
    Servers,
    /// policies/classification.toml
    Classification,
    /// policies/templates.toml
    Templates,
    /// policies/schemas.toml
    Schemas,
    /// properties.toml of a proof
    Properties,
}

/// The folder of schemas in a working folder.
pub(crate) const FOLDER: &str = "editor";

impl SchemaOf {
    /// Its schema. The test that holds the manual to the code makes it of the keys that are read.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Palisade => include_str!("schemas/palisade.schema.json"),
            Self::Tests => include_str!("schemas/tests.schema.json"),
            Self::Servers => include_str!("schemas/servers.schema.json"),
            Self::Classification => include_str!("schemas/classification.schema.json"),
            Self::Templates => include_str!("schemas/templates.schema.json"),
            Self::Schemas => include_str!("schemas/schemas.schema.json"),
            Self::Properties => include_str!("schemas/properties.schema.json"),
        }
    }

    /// What the schema's file is called.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Palisade => "palisade.schema.json",
            Self::Tests => "tests.schema.json",
            Self::Servers => "servers.schema.json",
            Self::Classification => "classification.schema.json",
            Self::Templates => "templates.schema.json",
            Self::Schemas => "schemas.schema.json",
            Self::Properties => "properties.schema.json",
        }
    }

    /// The files in a working folder that it is of, and those among them that it is not of.
    fn patterns(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Palisade => ("palisade.toml", None),
            Self::Tests => ("policies/tests/*.toml", Some("policies/tests/servers.toml")),
            Self::Servers => ("policies/tests/servers.toml", None),
            Self::Classification => ("policies/classification.toml", None),
            Self::Templates => ("policies/templates.toml", None),
            Self::Schemas => ("policies/schemas.toml", None),
            Self::Properties => ("**/properties.toml", None),
        }
    }
}

/// The configuration of Taplo, which editors ask about TOML: which file has which schema.
pub(crate) fn taplo() -> String {
    let mut out = "\
# For editors with Taplo, as VS Code with \"Even Better TOML\": keys are completed
# and checked. `palisade config schema FILE` prints a schema anew.
"
    .to_owned();
    for of in SchemaOf::value_variants() {
        let (include, exclude) = of.patterns();
        let _ = writeln!(out, "\n[[rule]]\ninclude = [\"{include}\"]");
        if let Some(exclude) = exclude {
            let _ = writeln!(out, "exclude = [\"{exclude}\"]");
        }
        let _ = writeln!(out, "schema = {{ path = \"{FOLDER}/{}\" }}", of.file());
    }
    out
}
