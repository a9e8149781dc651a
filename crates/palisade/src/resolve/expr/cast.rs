//! Types in casts: the engine's own, and those of the database whose input does no harm.

use sqlparser::ast::{ArrayElemTypeDef, DataType, Ident, ObjectName, ObjectNamePart};

use crate::resolve::{Resolver, refuse_unsupported};
use crate::{
    catalog::{Relation, TypeClass, TypeKind},
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
    syntax,
};

/// PostgreSQL's own types that the parser has no node for, whose input depends on the text alone.
const POSTGRES: &[&str] = &[
    "bit",
    "bool",
    "box",
    "bpchar",
    "bytea",
    "char",
    "cid",
    "cidr",
    "circle",
    "date",
    "datemultirange",
    "daterange",
    "decimal",
    "float4",
    "float8",
    "inet",
    "int2",
    "int2vector",
    "int4",
    "int4multirange",
    "int4range",
    "int8",
    "int8multirange",
    "int8range",
    "interval",
    "json",
    "jsonb",
    "jsonpath",
    "line",
    "lseg",
    "macaddr",
    "macaddr8",
    "money",
    "name",
    "numeric",
    "nummultirange",
    "numrange",
    "oid",
    "oidvector",
    "path",
    "pg_lsn",
    "pg_snapshot",
    "point",
    "polygon",
    "record",
    "text",
    "tid",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "tsmultirange",
    "tsquery",
    "tsrange",
    "tstzmultirange",
    "tstzrange",
    "tsvector",
    "txid_snapshot",
    "uuid",
    "varbit",
    "varchar",
    "xid",
    "xid8",
    "xml",
];

/// Types whose input looks names up: the function that does.
const POSTGRES_CATALOG: &[(&str, &str)] = &[
    ("regclass", "pg_catalog.regclassin"),
    ("regcollation", "pg_catalog.regcollationin"),
    ("regconfig", ""),
    ("regdictionary", ""),
    ("regnamespace", "pg_catalog.regnamespacein"),
    ("regoper", "pg_catalog.regoperin"),
    ("regoperator", "pg_catalog.regoperatorin"),
    ("regproc", "pg_catalog.regprocin"),
    ("regprocedure", "pg_catalog.regprocedurein"),
    ("regrole", "pg_catalog.regrolein"),
    ("regtype", "pg_catalog.regtypein"),
    ("aclitem", "pg_catalog.aclitemin"),
];

impl<'a> Resolver<'a> {
    /// A type that a value is made into; its schema and name if it is one of the database's, whose schema
    /// is then written.
    pub(in crate::resolve) fn cast_type(
        &mut self,
        data_type: &mut DataType,
    ) -> Result<Option<(String, String)>, Rejection> {
        match self.catalog.dialect() {
            // A type's name only chooses an affinity, so nothing runs for it.
            Dialect::Sqlite | Dialect::Mysql => plain(data_type).map(|()| None),
            Dialect::Postgres => match data_type {
                DataType::Custom(name, modifiers) => {
                    if modifiers
                        .iter()
                        .any(|m| !m.bytes().all(|b| b.is_ascii_alphanumeric()))
                    {
                        return Err(refuse_unsupported("a type of this form"));
                    }
                    self.named_type(name)
                }
                DataType::Regclass => {
                    self.catalog_type("regclass")?;
                    Ok(None)
                }
                DataType::Array(
                    ArrayElemTypeDef::SquareBracket(element, _)
                    | ArrayElemTypeDef::Qualified(element, _),
                ) => self.cast_type(element),
                other => {
                    plain(other)?;
                    // What the parser has a node for may be a type of another engine, and here of anybody's.
                    match word(other) {
                        Some(name) if !is_own_name(&name) => {
                            let mut name = ObjectName::from(vec![Ident::new(name)]);
                            let own = self.named_type(&mut name)?;
                            if !other.to_string().contains('(') {
                                *other = DataType::Custom(name, Vec::new());
                            }
                            Ok(own)
                        }
                        Some(_) | None => Ok(None),
                    }
                }
            },
        }
    }

    fn named_type(&mut self, name: &mut ObjectName) -> Result<Option<(String, String)>, Rejection> {
        let parts: Vec<String> = name
            .0
            .iter()
            .filter_map(|part| part.as_ident())
            .map(|ident| self.key(ident).into_owned())
            .collect();
        let (schema, key) = match parts.as_slice() {
            [key] => (None, key),
            [schema, key] => (Some(schema), key),
            _ => return Err(refuse_unsupported("a type of this form")),
        };
        if schema.is_none_or(|schema| schema == "pg_catalog") {
            // `_int4` is `int4[]`.
            let element = key.strip_prefix('_').unwrap_or(key);
            if POSTGRES.binary_search(&element).is_ok() {
                return Ok(None);
            }
            if POSTGRES_CATALOG.iter().any(|(name, _)| *name == element) {
                self.catalog_type(element)?;
                return Ok(None);
            }
        }
        let path = self.catalog.search_path();
        let found = self.catalog.types().iter().find(|def| {
            def.name == *key
                && schema.map_or_else(|| path.contains(&def.schema), |s| def.schema == *s)
        });
        let own = match found {
            Some(def) => {
                self.type_input(&def.kind, def.extension.is_some())?;
                (def.schema.clone(), def.name.clone())
            }
            // The row type of a table: its columns' names are the table's.
            None => {
                let seen = self.row_type(schema.map(String::as_str), key)?.is_some();
                match self.relation_named(schema.map(String::as_str), key) {
                    Some(row) if seen => (row.schema.clone(), row.name.clone()),
                    Some(_) | None => {
                        return Err(Rejection::new(
                            Code::NameUnknownType,
                            format!("there is no type `{key}`"),
                        ));
                    }
                }
            }
        };
        self.user_types.has_own_casts = true;
        name.0 = [&own.0, &own.1]
            .map(|part| ObjectNamePart::Identifier(self.encode(part)))
            .to_vec();
        Ok(Some(own))
    }

    /// What a text that becomes a value of a type of the database calls.
    fn type_input(&mut self, kind: &TypeKind, of_extension: bool) -> Result<(), Rejection> {
        match kind {
            TypeKind::Enum | TypeKind::Range | TypeKind::Composite(_) => Ok(()),
            TypeKind::Base | TypeKind::Domain { base: _, check: _ } if of_extension => Ok(()),
            // Its condition may call anything.
            TypeKind::Domain { base: _, check } => {
                let words = check
                    .as_deref()
                    .map(|text| syntax::words(text, Dialect::Postgres))
                    .unwrap_or_default();
                for word in words {
                    let called: Vec<String> = self
                        .catalog
                        .functions_named(&word)
                        .map(|def| def.uid.clone())
                        .collect();
                    self.access.functions.extend(called);
                }
                Ok(())
            }
            // So may its input function.
            TypeKind::Base => Err(refuse_unsupported("a cast to a base type of the database")),
        }
    }

    /// A type whose input looks names up, by a function that policies permit. In a refusal the statement's own word is said: the
    /// function stands nowhere in it.
    fn catalog_type(&mut self, name: &str) -> Result<(), Rejection> {
        let function = POSTGRES_CATALOG
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, function)| *function)
            .filter(|function| !function.is_empty());
        let Some(function) = function else {
            return Ok(());
        };
        if let Some(def) = self.catalog.function(function)
            && self.is_statement()
            && !self.visible.calls(def)?
        {
            let message = format!(
                "a cast to `{name}` looks names up in the system catalogs, and no policy permits it by name: leave the cast out"
            );
            let detail = format!(
                "a permit of `call` with `resource == Function::{function:?}` in its scope permits it, where no policy forbids it"
            );
            return Err(
                Rejection::new(Code::FunctionNotAllowed, message).with_operator_detail(detail)
            );
        }
        self.access.functions.insert(function.to_owned());
        Ok(())
    }

    /// The relation that a type's name can mean.
    fn relation_named(&self, schema: Option<&str>, key: &str) -> Option<&'a Relation> {
        match schema {
            Some(schema) => self.catalog.find(schema, key),
            None => self.catalog.lookup(key),
        }
    }

    /// Names and types of the columns of a composite type, or of a visible relation's rows.
    pub(in crate::resolve) fn row_type(
        &mut self,
        schema: Option<&str>,
        key: &str,
    ) -> Result<Option<Vec<(String, String)>>, Rejection> {
        let path = self.catalog.search_path();
        for def in self.catalog.types() {
            if def.name == key
                && schema.map_or_else(|| path.contains(&def.schema), |s| def.schema == s)
                && let TypeKind::Composite(columns) = &def.kind
            {
                return Ok(Some(columns.clone()));
            }
        }
        let Some(relation) = self.relation_named(schema, key) else {
            return Ok(None);
        };
        let decision = self.visible.relation(relation.id)?;
        // Its columns' names are all there is to see, so all must be visible.
        Ok((!decision.has_obligation()
            && decision.visibility == crate::policy::obligation::Visibility::Selectable)
            .then(|| {
                relation
                    .columns
                    .iter()
                    .map(|c| (c.name.to_string(), c.type_name.to_string()))
                    .collect()
            }))
    }
}

/// Whether PostgreSQL has a harmless type of this name.
pub(in crate::resolve) fn is_own_type(key: &str) -> bool {
    POSTGRES.binary_search(&key).is_ok()
}

/// Whether a column's type, as `format_type` spells it, is PostgreSQL's own, or an array of it. The type of a database
/// is written with its schema, or in quotes if it has the name of one of these.
pub(crate) fn is_engine_type(type_name: &str) -> bool {
    let element = type_name.trim_end_matches("[]");
    let bare = element.split('(').next().unwrap_or_default().trim();
    TypeClass::from_name(Dialect::Postgres, element) != TypeClass::Other
        || is_own_type(bare)
        || bare == "bit varying"
}

/// The name of a type that is one word, folded.
fn word(data_type: &DataType) -> Option<String> {
    let text = data_type.to_string().to_ascii_lowercase();
    let name = text.split('(').next().unwrap_or_default().trim();
    (!name.contains(' ')).then(|| name.to_owned())
}

/// Whether a word is PostgreSQL's own name or alias of a type.
fn is_own_name(name: &str) -> bool {
    is_own_type(name)
        || matches!(
            name,
            "bigint"
                | "boolean"
                | "character"
                | "dec"
                | "float"
                | "int"
                | "integer"
                | "nchar"
                | "real"
                | "smallint"
        )
}

/// Names that hold expressions or nested types are refused.
fn plain(data_type: &DataType) -> Result<(), Rejection> {
    let plain = data_type.to_string().bytes().all(|b| {
        b.is_ascii_alphanumeric() || matches!(b, b' ' | b'_' | b'(' | b')' | b',' | b'[' | b']')
    });
    if plain {
        Ok(())
    } else {
        Err(refuse_unsupported("a type of this form in a cast"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_a_database_are_told_from_the_engine_s() {
        for name in [
            "integer",
            "integer[]",
            "character varying(20)",
            "numeric(10,2)",
            "timestamp(3) with time zone",
            "bit varying(4)",
            "tsvector",
            "\"char\"",
        ] {
            assert!(is_engine_type(name), "{name}");
        }
        for name in [
            "mood",
            "app.mood[]",
            "public.text",
            "\"TEXT\"",
            "regclass",
            "",
        ] {
            assert!(!is_engine_type(name), "{name}");
        }
    }

    #[test]
    fn types_are_sorted() {
        assert!(POSTGRES.is_sorted());
    }
}
