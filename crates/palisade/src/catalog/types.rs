//! Types: what values of a column are like, and the types and operators a database adds.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dialect::Dialect;

/// A class of types whose values compare among themselves without conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TypeClass {
    /// Whole numbers.
    Integer,
    /// Floating-point numbers; any number on SQLite.
    Number,
    /// Exact decimal numbers.
    Decimal,
    /// Booleans; on SQLite, integers declared BOOLEAN.
    Boolean,
    /// Character strings.
    Text,
    /// Character strings whose trailing blanks do not count (`character(n)`).
    Padded,
    /// One of a list of names.
    Enum,
    /// UUIDs.
    Uuid,
    /// Bytes.
    Blob,
    /// Days.
    Date,
    /// Times of day.
    Time,
    /// Points in time without a zone.
    Timestamp,
    /// Points in time.
    TimestampTz,
    /// Lengths of time.
    Interval,
    /// JSON.
    Json,
    /// Network addresses.
    Network,
    /// Anything else, or no declared type.
    Other,
}

impl TypeClass {
    /// The class of a type by its name, as the engine's catalog spells it: `format_type` on PostgreSQL,
    /// `COLUMN_TYPE` on MySQL. Types that a database adds are of the class [`Other`](Self::Other); whoever knows an
    /// enum for one says so.
    #[must_use]
    pub fn from_name(dialect: Dialect, type_name: &str) -> Self {
        match dialect {
            Dialect::Sqlite => sqlite(type_name),
            Dialect::Postgres => postgres(type_name),
            Dialect::Mysql => mysql(type_name),
        }
    }
}

/// A set of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClassSet(u32);

impl ClassSet {
    /// Those in a list.
    pub(crate) fn from_list(classes: &[TypeClass]) -> Self {
        Self(
            classes
                .iter()
                .fold(0, |bits, class| bits | Self::bit(*class)),
        )
    }

    /// Its classes.
    pub(crate) fn iter(self) -> impl Iterator<Item = TypeClass> {
        let all = [
            TypeClass::Integer,
            TypeClass::Number,
            TypeClass::Decimal,
            TypeClass::Boolean,
            TypeClass::Text,
            TypeClass::Padded,
            TypeClass::Enum,
            TypeClass::Uuid,
            TypeClass::Blob,
            TypeClass::Date,
            TypeClass::Time,
            TypeClass::Timestamp,
            TypeClass::TimestampTz,
            TypeClass::Interval,
            TypeClass::Json,
            TypeClass::Network,
            TypeClass::Other,
        ];
        all.into_iter().filter(move |class| self.contains(*class))
    }

    fn bit(class: TypeClass) -> u32 {
        let place = match class {
            TypeClass::Integer => 0,
            TypeClass::Number => 1,
            TypeClass::Decimal => 2,
            TypeClass::Boolean => 3,
            TypeClass::Text => 4,
            TypeClass::Padded => 5,
            TypeClass::Enum => 6,
            TypeClass::Uuid => 7,
            TypeClass::Blob => 8,
            TypeClass::Date => 9,
            TypeClass::Time => 10,
            TypeClass::Timestamp => 11,
            TypeClass::TimestampTz => 12,
            TypeClass::Interval => 13,
            TypeClass::Json => 14,
            TypeClass::Network => 15,
            TypeClass::Other => 16,
        };
        1 << place
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn contains(self, class: TypeClass) -> bool {
        self.0 & Self::bit(class) != 0
    }

    /// Whether no class is in it that is not in `other`.
    pub(crate) fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether days and points in time are all that is in it.
    pub(crate) fn is_of_moments(self) -> bool {
        self.is_within(Self::from_list(&[
            TypeClass::Date,
            TypeClass::Timestamp,
            TypeClass::TimestampTz,
        ]))
    }

    /// Whether several of days and points in time are in it.
    pub(crate) fn mixes_moments(self) -> bool {
        let moments = [
            TypeClass::Date,
            TypeClass::Timestamp,
            TypeClass::TimestampTz,
        ];
        let own = moments.into_iter().filter(|class| self.contains(*class));
        own.count() > 1
    }

    /// Whether PostgreSQL may fail to make one type of values of all its classes: a decimal may not fit a floating-point number, nor a
    /// day a point in time.
    pub(crate) fn is_rounded_as_one(self) -> bool {
        let is_rounded = self.contains(TypeClass::Decimal) && self.contains(TypeClass::Number);
        is_rounded || self.mixes_moments()
    }

    /// Whether one class is in it.
    pub(crate) fn is_single(self) -> bool {
        self.0.count_ones() == 1
    }
}

/// The rules of column affinity (<https://www.sqlite.org/datatype3.html#determination_of_column_affinity>), except that types
/// which say boolean or date are told apart from numbers.
fn sqlite(type_name: &str) -> TypeClass {
    let name = type_name.to_ascii_uppercase();
    let has = |part: &str| name.contains(part);
    if name.is_empty() {
        TypeClass::Other
    } else if has("INT") {
        TypeClass::Integer
    } else if has("CHAR") || has("CLOB") || has("TEXT") {
        TypeClass::Text
    } else if has("BLOB") {
        TypeClass::Blob
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        TypeClass::Number
    } else if has("BOOL") {
        TypeClass::Boolean
    } else if has("DATE") || has("TIME") || name == "ANY" {
        TypeClass::Other
    } else {
        TypeClass::Number
    }
}

/// The name that PostgreSQL's catalog has for its own type that a statement writes as `written`, without modifiers and
/// dimensions (<https://www.postgresql.org/docs/current/datatype.html>). The name of another type comes back folded, without
/// quotes.
pub(crate) fn postgres_type_name(written: &str) -> String {
    let (mut name, mut modifier) = (String::new(), String::new());
    let (mut is_quoted, mut in_brackets, mut depth) = (false, false, 0usize);
    for c in written.chars() {
        match c {
            '"' if depth == 0 => {
                is_quoted = !is_quoted;
                name.push(c);
            }
            _ if is_quoted => name.push(c),
            '(' | '[' => {
                depth += 1;
                in_brackets = c == '[';
                name.push(' ');
            }
            ')' | ']' => depth = depth.saturating_sub(1),
            _ if depth > 0 && in_brackets => {}
            _ if depth > 0 => modifier.push(c),
            _ => name.push(c.to_ascii_lowercase()),
        }
    }
    let words: Vec<&str> = name.split_whitespace().collect();
    let name = words.join(" ");
    let name = name.strip_suffix(" array").unwrap_or(&name);
    // Quotes matter to one name alone: the keyword `char` is another type than the catalog's `"char"`.
    let bare = name.replace('"', "");
    let name = match bare.strip_prefix("pg_catalog.") {
        Some("char") => "\"char\"",
        Some(own) => own,
        None if bare == "char" && name.contains('"') => "\"char\"",
        None => &bare,
    };
    match name {
        "int" | "int4" | "serial" | "serial4" => "integer",
        "int2" | "smallserial" | "serial2" => "smallint",
        "int8" | "bigserial" | "serial8" => "bigint",
        "float" if modifier.trim().parse().is_ok_and(|bits: u8| bits <= 24) => "real",
        "float4" => "real",
        "float" | "float8" => "double precision",
        "bool" => "boolean",
        "dec" | "decimal" => "numeric",
        "varchar"
        | "char varying"
        | "nchar varying"
        | "national char varying"
        | "national character varying" => "character varying",
        "bpchar" if modifier.is_empty() => "bpchar",
        "bpchar" | "char" | "nchar" | "national char" | "national character" => "character",
        "varbit" => "bit varying",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        "time" => "time without time zone",
        "timetz" => "time with time zone",
        other => other,
    }
    .to_owned()
}

/// The name without `(…)`, and whether it is an array's.
pub(super) fn bare(type_name: &str) -> (String, bool) {
    let name = type_name.trim().to_ascii_lowercase();
    let array = name.ends_with(']');
    let mut out = String::with_capacity(name.len());
    let mut depth = 0usize;
    for c in name.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            other if depth == 0 => out.push(other),
            _ => {}
        }
    }
    let words: Vec<&str> = out.split_whitespace().collect();
    (words.join(" "), array)
}

fn postgres(type_name: &str) -> TypeClass {
    let (name, array) = bare(type_name);
    if array {
        return TypeClass::Other;
    }
    match name.strip_prefix("pg_catalog.").unwrap_or(&name) {
        "smallint" | "integer" | "bigint" | "int2" | "int4" | "int8" | "int" => TypeClass::Integer,
        "real" | "double precision" | "float4" | "float8" | "float" => TypeClass::Number,
        "numeric" | "decimal" => TypeClass::Decimal,
        "boolean" | "bool" => TypeClass::Boolean,
        "text" | "character varying" | "varchar" | "name" => TypeClass::Text,
        "character" | "char" | "bpchar" | "\"char\"" => TypeClass::Padded,
        "uuid" => TypeClass::Uuid,
        "bytea" => TypeClass::Blob,
        "date" => TypeClass::Date,
        "time" | "time without time zone" | "time with time zone" | "timetz" => TypeClass::Time,
        "timestamp" | "timestamp without time zone" => TypeClass::Timestamp,
        "timestamptz" | "timestamp with time zone" => TypeClass::TimestampTz,
        "interval" => TypeClass::Interval,
        "json" | "jsonb" => TypeClass::Json,
        "inet" | "cidr" | "macaddr" | "macaddr8" => TypeClass::Network,
        _ => TypeClass::Other,
    }
}

fn mysql(type_name: &str) -> TypeClass {
    let (name, _) = bare(type_name);
    match name.split(' ').next().unwrap_or_default() {
        "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "year" => {
            TypeClass::Integer
        }
        "float" | "double" | "real" => TypeClass::Number,
        "decimal" | "numeric" | "dec" | "fixed" => TypeClass::Decimal,
        "bool" | "boolean" => TypeClass::Integer,
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => TypeClass::Text,
        "enum" | "set" => TypeClass::Enum,
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => TypeClass::Blob,
        "date" => TypeClass::Date,
        "time" => TypeClass::Time,
        "datetime" => TypeClass::Timestamp,
        "timestamp" => TypeClass::TimestampTz,
        "json" => TypeClass::Json,
        "uuid" => TypeClass::Uuid,
        "inet4" | "inet6" => TypeClass::Network,
        _ => TypeClass::Other,
    }
}

/// The name of a type as it is shown to who may not see the values of its columns: MySQL spells the labels of an ENUM or SET
/// in it.
pub(crate) fn without_labels(type_name: &Arc<str>) -> Arc<str> {
    match type_name.split_once('(') {
        Some((kind, labels)) if labels.contains(['\'', '"']) => kind.trim().into(),
        Some(_) | None => Arc::clone(type_name),
    }
}

/// A type that a database adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeDef {
    /// The schema it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TypeKind,
    /// The extension it came with.
    pub extension: Option<String>,
}

/// What a type is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    /// One of a list of names.
    Enum,
    /// A base type with a condition, which may call functions.
    Domain {
        /// The type it narrows, as `format_type` spells it.
        base: String,
        /// Its conditions, as text.
        check: Option<String>,
    },
    /// A row type: names and types of its columns.
    Composite(Vec<(String, String)>),
    /// A range or multirange.
    Range,
    /// A type with input and output functions of its own.
    Base,
}

/// An operator that a database adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorDef {
    /// The schema it is in.
    pub schema: String,
    /// Its symbol.
    pub name: String,
    /// The id of the function behind it, `schema.name`.
    pub function: String,
    /// Whether the engine can choose it only for values of types that a database adds. It is so where PostgreSQL has
    /// an operator of this symbol for texts, and casts nothing of its own types to the operand types
    /// (<https://www.postgresql.org/docs/current/typeconv-oper.html>).
    pub confined: bool,
    /// What stands before it.
    pub left: OperandDef,
    /// What stands after it.
    pub right: OperandDef,
}

/// What PostgreSQL may take for an operand of an operator that a database adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperandDef {
    /// Nothing stands there.
    Absent,
    /// A value of any type.
    Any,
    /// Of the engine's own types that have a class, those of these classes. The engine casts them to the operand's type
    /// where nothing is written (<https://www.postgresql.org/docs/current/typeconv-oper.html>). Values of other types may
    /// be operands as well.
    Classes(Vec<TypeClass>),
}

impl OperandDef {
    /// Whether no value of a class can be this operand.
    #[must_use]
    pub fn excludes(&self, class: TypeClass) -> bool {
        match self {
            Self::Absent => true,
            Self::Any => false,
            Self::Classes(classes) => !class.is_by_name_alone() && !classes.contains(&class),
        }
    }
}

impl TypeClass {
    /// Whether PostgreSQL's types of this class are told apart by their names alone: those that a database adds, and those of
    /// no class.
    #[must_use]
    pub fn is_by_name_alone(self) -> bool {
        match self {
            Self::Other | Self::Enum => true,
            Self::Integer
            | Self::Number
            | Self::Decimal
            | Self::Boolean
            | Self::Text
            | Self::Padded
            | Self::Uuid
            | Self::Blob
            | Self::Date
            | Self::Time
            | Self::Timestamp
            | Self::TimestampTz
            | Self::Interval
            | Self::Json
            | Self::Network => false,
        }
    }

    /// The classes of PostgreSQL's own types that it casts to a type of this class where nothing is written
    /// (`pg_cast` with the context `i`); none for types that have no class.
    #[must_use]
    pub fn implicit_sources(self) -> &'static [Self] {
        match self {
            Self::Integer => &[Self::Integer],
            Self::Decimal => &[Self::Integer, Self::Decimal],
            Self::Number => &[Self::Integer, Self::Decimal, Self::Number],
            Self::Text => &[Self::Text, Self::Padded],
            Self::Padded => &[Self::Text, Self::Padded],
            Self::Timestamp => &[Self::Date, Self::Timestamp],
            Self::TimestampTz => &[Self::Date, Self::Timestamp, Self::TimestampTz],
            Self::Interval => &[Self::Time, Self::Interval],
            Self::Boolean => &[Self::Boolean],
            Self::Uuid => &[Self::Uuid],
            Self::Blob => &[Self::Blob],
            Self::Date => &[Self::Date],
            Self::Time => &[Self::Time],
            Self::Json => &[Self::Json],
            Self::Network => &[Self::Network],
            Self::Enum | Self::Other => &[],
        }
    }
}

/// A cast that a database adds and that calls a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CastDef {
    /// The schema and name of the type that is cast. One of PostgreSQL's own is in `pg_catalog`, called as
    /// `format_type` spells it.
    pub source: (String, String),
    /// The schema and name of the type that it becomes.
    pub target: (String, String),
    /// The id of the function behind it, `schema.name`.
    pub function: String,
    /// Whether it is applied where nothing is written too.
    pub implicit: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_classes() {
        for (dialect, name, class) in [
            (Dialect::Postgres, "character varying(20)", TypeClass::Text),
            (Dialect::Postgres, "character(3)", TypeClass::Padded),
            (
                Dialect::Postgres,
                "timestamp(3) with time zone",
                TypeClass::TimestampTz,
            ),
            (Dialect::Postgres, "numeric(10,2)", TypeClass::Decimal),
            (Dialect::Postgres, "integer[]", TypeClass::Other),
            (Dialect::Postgres, "public.mood", TypeClass::Other),
            (Dialect::Mysql, "int(10) unsigned", TypeClass::Integer),
            (Dialect::Mysql, "enum('a b','c')", TypeClass::Enum),
            (Dialect::Mysql, "varchar(5)", TypeClass::Text),
            (Dialect::Sqlite, "VARCHAR(5)", TypeClass::Text),
        ] {
            assert_eq!(TypeClass::from_name(dialect, name), class, "{name}");
        }
    }

    #[test]
    fn own_types_have_the_names_of_the_catalog() {
        for (written, name) in [
            ("INT", "integer"),
            ("pg_catalog.int4", "integer"),
            ("INT[]", "integer"),
            ("INT ARRAY[4]", "integer"),
            ("FLOAT[4]", "double precision"),
            ("VARCHAR(3)[]", "character varying"),
            ("CHARACTER VARYING(3)", "character varying"),
            ("CHAR", "character"),
            ("pg_catalog.char", "\"char\""),
            ("\"char\"", "\"char\""),
            ("NATIONAL CHARACTER VARYING ( 3 )", "character varying"),
            ("BPCHAR", "bpchar"),
            ("BPCHAR(3)", "character"),
            ("NUMERIC(10, 2)", "numeric"),
            ("FLOAT(24)", "real"),
            ("FLOAT", "double precision"),
            ("DOUBLE PRECISION", "double precision"),
            ("BIT VARYING(3)", "bit varying"),
            ("TIMESTAMP(3) WITH TIME ZONE", "timestamp with time zone"),
            ("TIMESTAMPTZ(3)", "timestamp with time zone"),
            ("TIMESTAMP", "timestamp without time zone"),
            ("pg_catalog.text", "text"),
            ("pg_catalog.\"text\"", "text"),
            ("\"pg_catalog\".\"text\"", "text"),
            ("\"text\"", "text"),
            ("\"TEXT\"", "TEXT"),
            ("\"int4\"[]", "integer"),
            ("pg_catalog.\"char\"", "\"char\""),
            ("UUID", "uuid"),
        ] {
            assert_eq!(postgres_type_name(written), name, "{written}");
        }
    }
}
