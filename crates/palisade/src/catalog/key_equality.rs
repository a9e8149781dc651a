//! Whether `=` finds the rows that a foreign key takes.
//!
//! A key compares in its own way: PostgreSQL by the operator of the referenced index, InnoDB the bytes that it stores, SQLite as if the
//! referenced value had no type. Of two columns of one type that is what `=` does; of others only where it was measured, on PostgreSQL
//! 15, MariaDB 10.11 and SQLite 3.40, with values at which they could differ. What is not known to compare alike does not.

use crate::catalog::{Catalog, Column, Relation, TypeClass, TypeKind, types::bare};
use crate::dialect::Dialect;

/// How many domains may stand on each other.
const DOMAINS: usize = 8;

/// Types of PostgreSQL's own that are of no class of ours, and that a key can have.
const OTHERS: &[&str] = &[
    "bit",
    "bit varying",
    "daterange",
    "int4range",
    "int8range",
    "money",
    "numrange",
    "oid",
    "pg_lsn",
    "tsrange",
    "tstzrange",
    "xid8",
];

impl Catalog {
    /// Whether `parent.a = child.b AND …` is true of all rows that a foreign key from the columns `own` of `child` to the columns
    /// `referenced` of `parent` ties together.
    #[must_use]
    pub fn finds_referencing(
        &self,
        parent: &Relation,
        referenced: &[u16],
        child: &Relation,
        own: &[u16],
    ) -> bool {
        let mut pairs = referenced.iter().zip(own);
        referenced.len() == own.len()
            && pairs.all(|(theirs, ours)| {
                match (parent.column(*theirs), child.column(*ours)) {
                    (Some(key), Some(ours)) => match self.dialect() {
                        Dialect::Sqlite => {
                            // Its values are whole numbers, whatever they are compared with.
                            parent.rowid_alias == Some(*theirs) || alike_on_sqlite(key, ours)
                        }
                        Dialect::Postgres => self.alike_on_postgres(key, ours),
                        Dialect::Mysql => alike_on_mysql(key, ours),
                    },
                    (Some(_) | None, _) => false,
                }
            })
            && self.is_by_default(parent, referenced)
    }

    /// Whether the index that a key refers to compares as the types of its columns do elsewhere. Only PostgreSQL has others
    /// (<https://www.postgresql.org/docs/current/indexes-opclass.html>).
    fn is_by_default(&self, parent: &Relation, referenced: &[u16]) -> bool {
        match self.dialect() {
            Dialect::Sqlite | Dialect::Mysql => return true,
            Dialect::Postgres => {}
        }
        let mut wanted = referenced.to_vec();
        wanted.sort_unstable();
        let keys = parent.unique_keys.iter().flatten();
        let mut same = keys.filter(|key| {
            let mut columns = key.columns.clone();
            columns.sort_unstable();
            columns == wanted
        });
        // Of a table that inherits, none: nothing refers to its rows.
        same.next()
            .is_none_or(|first| first.plain || same.any(|key| key.plain))
    }

    fn alike_on_postgres(&self, referenced: &Column, own: &Column) -> bool {
        if referenced.collation != own.collation {
            return false;
        }
        let (Some(theirs), Some(ours)) = (
            self.behind_domains(&referenced.type_name),
            self.behind_domains(&own.type_name),
        ) else {
            return false;
        };
        if theirs == ours && self.has_equality(theirs) {
            return true;
        }
        let ((theirs, is_array), (ours, too)) = (bare(theirs), bare(ours));
        if is_array != too {
            return false;
        }
        let class = |name: &str| TypeClass::from_name(Dialect::Postgres, name);
        if theirs == ours {
            return class(&theirs) != TypeClass::Other
                || OTHERS.contains(&theirs.trim_end_matches("[]"))
                || is_array && class(theirs.trim_end_matches("[]")) != TypeClass::Other;
        }
        if is_array {
            return false;
        }
        let is_name = |name: &str| matches!(name, "name" | "\"char\"");
        if is_name(&theirs) || is_name(&ours) {
            return false;
        }
        match (class(&theirs), class(&ours)) {
            (TypeClass::Integer | TypeClass::Decimal, TypeClass::Integer)
            | (TypeClass::Decimal, TypeClass::Decimal)
            | (TypeClass::Number, TypeClass::Number)
            | (TypeClass::Text, TypeClass::Text | TypeClass::Padded)
            | (TypeClass::Padded, TypeClass::Padded) => true,
            // Of `text`, `=` is the operator that counts blanks at the end, where the key's does not.
            (TypeClass::Padded, TypeClass::Text) => ours != "text",
            (TypeClass::Network, TypeClass::Network) => {
                let is_address = |name: &str| matches!(name, "inet" | "cidr");
                is_address(&theirs) && is_address(&ours)
            }
            _ => false,
        }
    }

    /// Whether `=` is a type's own that a database adds: of an enum it always is, and of what came with an extension where its
    /// operators are found without a schema.
    fn has_equality(&self, name: &str) -> bool {
        let plain = name.replace('"', "");
        let mut named = self
            .types()
            .iter()
            .filter(|def| plain == def.name || plain == format!("{}.{}", def.schema, def.name));
        let (Some(def), None) = (named.next(), named.next()) else {
            return false;
        };
        match &def.kind {
            TypeKind::Enum => true,
            TypeKind::Base => {
                let mut operators = self.operators().iter();
                def.extension.is_some()
                    && self.search_path().contains(&def.schema)
                    && operators.any(|known| known.name == "=" && known.schema == def.schema)
            }
            TypeKind::Domain { base: _, check: _ } | TypeKind::Composite(_) | TypeKind::Range => {
                false
            }
        }
    }

    /// The type of PostgreSQL's that `name` is once domains are looked through; nothing where two are called so.
    pub(crate) fn behind_domains<'t>(&'t self, name: &'t str) -> Option<&'t str> {
        let mut name = name;
        for _ in 0..DOMAINS {
            let plain = name.replace('"', "");
            let mut domains = self.types().iter().filter_map(|def| match &def.kind {
                TypeKind::Domain { base, check: _ } => {
                    let is_so =
                        plain == def.name || plain == format!("{}.{}", def.schema, def.name);
                    is_so.then_some(base.as_str())
                }
                TypeKind::Enum | TypeKind::Composite(_) | TypeKind::Range | TypeKind::Base => None,
            });
            match (domains.next(), domains.next()) {
                (None, _) => return Some(name),
                (Some(base), None) => name = base,
                (Some(_), Some(_)) => return None,
            }
        }
        None
    }
}

/// InnoDB compares what it stores: of two ENUM the numbers, of DECIMAL the digits before and behind the point by themselves.
fn alike_on_mysql(referenced: &Column, own: &Column) -> bool {
    if referenced.collation != own.collation {
        return false;
    }
    let declared = |column: &Column| column.type_name.trim().to_ascii_lowercase();
    let (theirs, ours) = (declared(referenced), declared(own));
    if theirs == ours {
        return true;
    }
    let kind = |declared: &str| {
        let end = declared.find(|c: char| !c.is_ascii_alphabetic());
        declared
            .get(..end.unwrap_or(declared.len()))
            .map(str::to_owned)
    };
    let (Some(first), Some(second)) = (kind(&theirs), kind(&ours)) else {
        return false;
    };
    let is_unsigned =
        |declared: &str| declared.contains(" unsigned") || declared.contains(" zerofill");
    match (first.as_str(), second.as_str()) {
        ("tinyint" | "smallint" | "mediumint" | "int" | "bigint", same) => {
            // The number in parentheses is how wide they are shown.
            first == same && is_unsigned(&theirs) == is_unsigned(&ours)
        }
        ("varchar", "varchar") | ("binary" | "varbinary", "binary" | "varbinary") => true,
        ("char" | "varchar", "char" | "varchar") => counts_no_blanks(&own.collation),
        _ => false,
    }
}

/// Whether texts that differ in blanks at their ends are equal: CHAR, which has none when it is read, has them in an index.
fn counts_no_blanks(collation: &str) -> bool {
    let name = collation.to_ascii_lowercase();
    !name.is_empty() && name != "binary" && !name.contains("nopad") && !name.contains("_0900_")
}

/// What a key does is done by comparing with a value that has the collation of its column and no affinity
/// (<https://www.sqlite.org/datatype3.html#type_conversions_prior_to_comparison>): beside texts, numbers become texts then.
fn alike_on_sqlite(referenced: &Column, own: &Column) -> bool {
    let is_text = |column: &Column| {
        TypeClass::from_name(Dialect::Sqlite, &column.type_name) == TypeClass::Text
    };
    !is_text(own) || is_text(referenced)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::catalog::{
        ColumnDef, DefaultValue, RelationDef, RelationKind, TypeDef, UniqueKeyDef,
    };

    fn column(name: &str, type_name: &str, collation: &str, dialect: Dialect) -> ColumnDef {
        ColumnDef {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            class: TypeClass::from_name(dialect, type_name),
            nullable: true,
            collation: collation.to_owned(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
        }
    }

    /// A table with two columns. The second refers to the first.
    fn table(theirs: (&str, &str), ours: (&str, &str), dialect: Dialect) -> RelationDef {
        let columns = vec![
            column("theirs", theirs.0, theirs.1, dialect),
            column("ours", ours.0, ours.1, dialect),
        ];
        RelationDef::new("s", "t", RelationKind::Table, columns)
    }

    fn finds(dialect: Dialect, def: RelationDef) -> bool {
        let domain = TypeDef {
            schema: "s".to_owned(),
            name: "short".to_owned(),
            kind: TypeKind::Domain {
                base: "integer".to_owned(),
                check: None,
            },
            extension: None,
        };
        let mood = TypeDef {
            schema: "s".to_owned(),
            name: "mood".to_owned(),
            kind: TypeKind::Enum,
            extension: None,
        };
        let mut builder = Catalog::builder(dialect).relation(def);
        if dialect == Dialect::Postgres {
            builder = builder.type_def(domain).type_def(mood);
        }
        let catalog = builder.build().unwrap();
        let table = &catalog.relations()[0];
        catalog.finds_referencing(table, &[0], table, &[1])
    }

    fn check(dialect: Dialect, collation: &str, cases: &[(&str, &str, bool)]) {
        for (theirs, ours, expected) in cases {
            let def = table((theirs, collation), (ours, collation), dialect);
            assert_eq!(
                finds(dialect, def),
                *expected,
                "{theirs} {ours} {collation}"
            );
        }
    }

    #[test]
    fn innodb_compares_what_it_stores() {
        check(
            Dialect::Mysql,
            "latin1_swedish_ci",
            &[
                ("int", "INT ", true),
                ("int(11)", "int", true),
                ("int", "bigint", false),
                ("int unsigned", "int", false),
                ("int(10) unsigned", "int unsigned", true),
                ("int zerofill", "int", false),
                ("int zerofill", "int unsigned", true),
                ("varchar(5)", "varchar(9)", true),
                ("binary(5)", "varbinary(9)", true),
                ("char(5)", "varchar(9)", true),
                ("char(5)", "char(9)", true),
                ("varchar(5)", "varbinary(5)", false),
                ("decimal(5,2)", "decimal(6,2)", false),
                ("decimal(5,2)", "decimal(5,2)", true),
                ("enum('a')", "enum('b')", false),
                ("date", "datetime", false),
            ],
        );
        for (collation, expected) in [
            ("utf8mb4_general_ci", true),
            ("utf8mb4_0900_ai_ci", false),
            ("utf8mb4_nopad_bin", false),
            ("binary", false),
            ("", false),
        ] {
            check(
                Dialect::Mysql,
                collation,
                &[("char(5)", "varchar(5)", expected)],
            );
        }
        let other = table(("int", "a_ci"), ("int", "b_ci"), Dialect::Mysql);
        assert!(!finds(Dialect::Mysql, other));
    }

    #[test]
    fn sqlite_compares_numbers_beside_texts_as_texts() {
        check(
            Dialect::Sqlite,
            "BINARY",
            &[
                ("INTEGER", "INTEGER", true),
                ("INTEGER", "", true),
                ("TEXT", "TEXT", true),
                ("TEXT", "INTEGER", true),
                ("INTEGER", "TEXT", false),
                ("", "TEXT", false),
            ],
        );
        // Its values are whole numbers, whatever they are compared with.
        let def = RelationDef {
            has_rowid: true,
            rowid_alias: Some("theirs".to_owned()),
            ..table(("INTEGER", "BINARY"), ("TEXT", "BINARY"), Dialect::Sqlite)
        };
        assert!(finds(Dialect::Sqlite, def));
    }

    #[test]
    fn postgresql_compares_by_the_operator_of_the_index() {
        check(
            Dialect::Postgres,
            "",
            &[
                ("integer", "integer", true),
                ("integer", "bigint", true),
                ("numeric(5,2)", "integer", true),
                ("integer", "numeric", false),
                ("numeric(5,2)", "numeric", true),
                ("real", "double precision", true),
                ("real", "integer", false),
                ("text", "character varying(5)", true),
                ("text", "character(5)", true),
                ("character(5)", "character(9)", true),
                ("character(5)", "text", false),
                ("character(5)", "character varying(5)", true),
                ("name", "text", false),
                ("text", "name", false),
                ("name", "name", true),
                ("inet", "cidr", true),
                ("inet", "macaddr", false),
                ("macaddr", "macaddr", true),
                ("date", "timestamp without time zone", false),
                ("int4range", "int4range", true),
                ("point", "point", false),
                ("integer[]", "integer[]", true),
                ("int4range[]", "int4range[]", true),
                ("point[]", "point[]", false),
                ("integer[]", "integer", false),
                ("integer[]", "bigint[]", false),
                ("short", "integer", true),
                ("s.short", "short", true),
                ("mood", "mood", true),
                ("mood", "text", false),
            ],
        );
        let other = table(("text", ""), ("text", "s.folded"), Dialect::Postgres);
        assert!(!finds(Dialect::Postgres, other));
    }

    #[test]
    fn postgresql_has_an_index_that_compares_as_elsewhere_or_not() {
        let key = |columns: &[&str], plain| UniqueKeyDef {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            plain,
            ..UniqueKeyDef::default()
        };
        for (keys, expected) in [
            (vec![key(&["theirs"], true)], true),
            (vec![key(&["theirs"], false)], false),
            (vec![key(&["theirs"], false), key(&["theirs"], true)], true),
            (vec![key(&["theirs"], false), key(&["ours"], true)], false),
            (vec![key(&["ours"], false)], true),
            (Vec::new(), true),
        ] {
            let def = RelationDef {
                unique_keys: Some(keys.clone()),
                ..table(("integer", ""), ("integer", ""), Dialect::Postgres)
            };
            assert_eq!(finds(Dialect::Postgres, def), expected, "{keys:?}");
        }
    }

    #[test]
    fn a_key_has_as_many_columns_on_both_sides() {
        let def = table(("integer", ""), ("integer", ""), Dialect::Postgres);
        let catalog = Catalog::builder(Dialect::Postgres).relation(def);
        let catalog = catalog.build().unwrap();
        let table = &catalog.relations()[0];
        for (theirs, ours, expected) in [
            (&[0, 1][..], &[1, 0][..], true),
            (&[0, 1], &[1], false),
            (&[0], &[7], false),
        ] {
            let found = catalog.finds_referencing(table, theirs, table, ours);
            assert_eq!(found, expected, "{theirs:?} {ours:?}");
        }
    }
}
