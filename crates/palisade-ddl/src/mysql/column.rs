//! A column's declaration.

use crate::{
    DdlError,
    cursor::{Cursor, Name},
    foreign_key::{Actions, actions},
    lex::Lexeme,
    state::{Typed, column},
};
use palisade::{
    catalog::{ColumnDef, DefaultValue, TypeClass},
    dialect::Dialect,
};

/// A column and what its declaration says of it besides.
pub(super) struct Declared {
    pub(super) column: ColumnDef,
    pub(super) is_key: bool,
    pub(super) is_unique: bool,
    /// Whether a new row has a value in it by itself, other than a counted number.
    pub(super) is_filled: bool,
    /// Whether it is given the time when its row is updated.
    pub(super) is_retimed: bool,
    /// Whether it is said what a new row has in it.
    says_default: bool,
    /// Left out by `*`.
    pub(super) is_hidden: bool,
    /// Whether the column has a character set of its own, so that the table's collation is not its.
    pub(super) has_charset: bool,
    pub(super) references: Option<Reference>,
}

impl Declared {
    fn fill(&mut self, filled: DefaultValue) {
        self.column.filled = filled;
        self.says_default = true;
    }
}

/// What stands after REFERENCES.
pub(super) struct Reference {
    pub(super) table: Name,
    /// None for those of the primary key.
    pub(super) columns: Vec<String>,
    pub(super) actions: Actions,
}

impl Reference {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, DdlError> {
        Ok(Self {
            table: cursor.name()?,
            columns: if cursor.sees("(") {
                cursor.group()?.idents()?
            } else {
                Vec::new()
            },
            actions: actions(cursor)?,
        })
    }
}

/// Takes name, type and attributes; leaves `FIRST` and `AFTER`.
pub(super) fn parse_column(cursor: &mut Cursor<'_>) -> Result<Declared, DdlError> {
    let name = cursor.ident()?;
    let (typed, is_serial) = parse_type(cursor)?;
    let is_timestamp = typed.name.starts_with("timestamp");
    let mut found = Declared {
        column: column(name, typed),
        is_key: false,
        is_unique: is_serial,
        // Where the server's settings say so.
        is_filled: is_timestamp,
        is_retimed: false,
        says_default: is_serial,
        is_hidden: false,
        has_charset: false,
        references: None,
    };
    found.column.nullable = !is_serial;
    if is_serial || is_timestamp {
        found.column.filled = DefaultValue::Unknown;
    }
    while !cursor.is_empty() && !cursor.sees("first") && !cursor.sees("after") {
        attribute(cursor, &mut found)?;
    }
    Ok(found)
}

fn attribute(cursor: &mut Cursor<'_>, found: &mut Declared) -> Result<(), DdlError> {
    if cursor.eat("not null") {
        found.column.nullable = false;
    } else if cursor.eat("character set") || cursor.eat("charset") {
        cursor.eat("=");
        cursor.bump();
        found.has_charset = true;
    } else if cursor.eat("collate") {
        cursor.eat("=");
        let name = cursor
            .bump()
            .map(|token| cursor.spell_token(token))
            .unwrap_or_default();
        found.column.collation = name.trim_matches(['\'', '`', '"']).to_ascii_lowercase();
    } else if cursor.eat("unique key") || cursor.eat("unique") {
        found.is_unique = true;
    } else if cursor.eat("serial default value") {
        found.is_unique = true;
        found.column.nullable = false;
        found.fill(DefaultValue::Unknown);
    } else if cursor.eat("primary key") || cursor.eat("key") {
        found.is_key = true;
        found.column.nullable = false;
    } else if cursor.eat("generated always as") || cursor.eat("as") {
        found.column.generated = Some(cursor.group()?.written().to_owned());
        found.fill(DefaultValue::Unknown);
        found.column.stored = cursor.eat_any(&["stored", "persistent"]).is_some();
        cursor.eat("virtual");
    } else if cursor.eat("generated always") {
        // MariaDB: `AS ROW START`, the time a row was written.
        return Err(cursor.error("a column of this kind is not understood"));
    } else if cursor.eat("references") {
        found.references = Some(Reference::read(cursor)?);
    } else if cursor.eat("default") {
        found.is_filled = !cursor.sees("null");
        found.fill(default(cursor, &found.column)?);
    } else if cursor.eat("auto_increment") {
        found.fill(DefaultValue::Unknown);
    } else if cursor.eat("null") {
        // Whatever the server's settings say.
        if !found.says_default {
            found.column.filled = DefaultValue::Null;
        }
    } else if cursor.eat("on update") {
        found.is_retimed = true;
        value(cursor)?;
    } else if cursor.eat("constraint") {
        if !cursor.sees("check") {
            cursor.ident()?;
        }
    } else if cursor.eat("check") {
        cursor.group()?;
        cursor.eat_any(&["not enforced", "enforced"]);
    } else if cursor.eat("invisible") {
        found.is_hidden = true;
    } else if cursor
        .eat_any(&[
            "comment",
            "column_format",
            "storage",
            "srid",
            "engine_attribute",
            "secondary_engine_attribute",
        ])
        .is_some()
    {
        cursor.eat("=");
        cursor.bump();
    } else if cursor
        .eat_any(&[
            "visible",
            "binary",
            "ascii",
            "unicode",
            "byte",
            "signed",
            "without system versioning",
            "with system versioning",
            "compressed",
        ])
        .is_none()
    {
        return Err(cursor.expected_error("an attribute of the column"));
    }
    Ok(())
}

/// Takes a default: what a new row has in `column` by it.
pub(super) fn default(
    cursor: &mut Cursor<'_>,
    column: &ColumnDef,
) -> Result<DefaultValue, DdlError> {
    let before = *cursor;
    value(cursor)?;
    let text = before.text_before(cursor);
    let (class, type_name) = (column.class, &column.type_name);
    Ok(DefaultValue::by(text, class, type_name, Dialect::Mysql))
}

/// Takes a value: a literal, a call, or an expression in parentheses.
fn value(cursor: &mut Cursor<'_>) -> Result<(), DdlError> {
    if cursor.sees("(") {
        cursor.group()?;
        return Ok(());
    }
    if cursor.eat("-") || cursor.eat("+") {
        cursor.bump();
        return Ok(());
    }
    cursor.bump();
    if cursor.sees("(") {
        cursor.group()?;
    } else if cursor
        .first()
        .is_some_and(|token| token.lexeme == Lexeme::Text)
    {
        // `_utf8mb4'a'`
        cursor.bump();
    }
    Ok(())
}

/// A type as `COLUMN_TYPE` spells it, and whether it is SERIAL, which says more.
fn parse_type(cursor: &mut Cursor<'_>) -> Result<(Typed, bool), DdlError> {
    let Some(word) = cursor.word() else {
        return Err(cursor.expected_error("a type"));
    };
    cursor.bump();
    let mut serial = false;
    let name = match word.as_str() {
        "integer" => "int",
        "int1" => "tinyint",
        "int2" => "smallint",
        "int3" | "middleint" => "mediumint",
        "int4" => "int",
        "int8" => "bigint",
        "dec" | "numeric" | "fixed" => "decimal",
        "real" | "float8" => "double",
        "float4" => "float",
        "double" => {
            cursor.eat("precision");
            "double"
        }
        "bool" | "boolean" => {
            let name = "tinyint(1)".to_owned();
            let class = TypeClass::Integer;
            return Ok((Typed { name, class }, false));
        }
        "serial" => {
            serial = true;
            "bigint unsigned"
        }
        "character" | "nchar" | "national" | "char" => {
            if word == "national" {
                cursor.eat_any(&["character", "char", "varchar"]);
            }
            if cursor.eat("varying") || word == "national" && cursor.sees("(") {
                "varchar"
            } else {
                "char"
            }
        }
        "varcharacter" | "nvarchar" => "varchar",
        "long" => match cursor.eat_any(&["varchar", "varbinary"]) {
            Some("varbinary") => "mediumblob",
            Some(_) | None => "mediumtext",
        },
        other => other,
    };
    let mut name = name.to_owned();
    if cursor.sees("(") {
        let parts: Vec<&str> = cursor
            .group()?
            .parts()
            .iter()
            .map(Cursor::written)
            .collect();
        name = format!("{name}({})", parts.join(","));
    } else if matches!(name.as_str(), "char" | "binary" | "bit") {
        name.push_str("(1)");
    }
    while let Some(word) = cursor.eat_any(&["unsigned", "zerofill", "signed"]) {
        if word != "signed" {
            name = format!("{name} {word}");
        }
    }
    let class = TypeClass::from_name(Dialect::Mysql, &name);
    Ok((Typed { name, class }, serial))
}
