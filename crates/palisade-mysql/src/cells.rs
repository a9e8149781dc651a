//! What the server sends, as values.

use std::fmt::Write as _;

use mysql_async::{
    Column, Value as Cell,
    consts::{ColumnFlags, ColumnType},
};
use palisade::{guard::BackendError, value::Value};

/// The types of these columns, as the catalog of a table has them; nothing where the server does not say.
pub(crate) fn type_names(columns: &[Column]) -> Vec<&'static str> {
    columns.iter().map(type_name).collect()
}

fn type_name(column: &Column) -> &'static str {
    use ColumnType as Type;
    let is_unsigned = column.flags().contains(ColumnFlags::UNSIGNED_FLAG);
    let signed = |signed, unsigned| if is_unsigned { unsigned } else { signed };
    let text = |text, bytes| match column.character_set() == BINARY {
        true => bytes,
        false => text,
    };
    match column.column_type() {
        Type::MYSQL_TYPE_TINY => signed("tinyint", "tinyint unsigned"),
        Type::MYSQL_TYPE_SHORT => signed("smallint", "smallint unsigned"),
        Type::MYSQL_TYPE_INT24 => signed("mediumint", "mediumint unsigned"),
        Type::MYSQL_TYPE_LONG => signed("int", "int unsigned"),
        Type::MYSQL_TYPE_LONGLONG => signed("bigint", "bigint unsigned"),
        Type::MYSQL_TYPE_FLOAT => "float",
        Type::MYSQL_TYPE_DOUBLE => "double",
        Type::MYSQL_TYPE_DECIMAL | Type::MYSQL_TYPE_NEWDECIMAL => "decimal",
        Type::MYSQL_TYPE_DATE | Type::MYSQL_TYPE_NEWDATE => "date",
        Type::MYSQL_TYPE_TIME | Type::MYSQL_TYPE_TIME2 => "time",
        Type::MYSQL_TYPE_TIMESTAMP | Type::MYSQL_TYPE_TIMESTAMP2 => "timestamp",
        Type::MYSQL_TYPE_DATETIME | Type::MYSQL_TYPE_DATETIME2 => "datetime",
        Type::MYSQL_TYPE_YEAR => "year",
        Type::MYSQL_TYPE_BIT => "bit",
        Type::MYSQL_TYPE_JSON => "json",
        Type::MYSQL_TYPE_VARCHAR | Type::MYSQL_TYPE_VAR_STRING => text("varchar", "varbinary"),
        Type::MYSQL_TYPE_STRING => text("char", "binary"),
        Type::MYSQL_TYPE_TINY_BLOB => text("tinytext", "tinyblob"),
        Type::MYSQL_TYPE_BLOB => text("text", "blob"),
        Type::MYSQL_TYPE_MEDIUM_BLOB => text("mediumtext", "mediumblob"),
        Type::MYSQL_TYPE_LONG_BLOB => text("longtext", "longblob"),
        Type::MYSQL_TYPE_GEOMETRY => "geometry",
        Type::MYSQL_TYPE_NULL
        | Type::MYSQL_TYPE_ENUM
        | Type::MYSQL_TYPE_SET
        | Type::MYSQL_TYPE_VECTOR
        | Type::MYSQL_TYPE_TYPED_ARRAY
        | Type::MYSQL_TYPE_UNKNOWN => "",
    }
}

/// The collation of bytes
/// (<https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_character_set.html>).
const BINARY: u16 = 63;

/// The most digits after the point of seconds; more means that their number is not fixed.
const MAX_FRACTION: u8 = 6;

/// Bytes of a date with a time of day and all digits.
const MOMENT_BYTES: usize = "2026-01-02 03:04:05.060708".len();

/// How the cells of a column become values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    shape: Shape,
    /// Digits after the point of seconds.
    fraction: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// As the server prints it: strings, exact numbers, JSON.
    Text,
    /// Bytes: binary strings and geometries.
    Blob,
    /// A string of bits, shown as the number it is.
    Bits,
    Date,
    /// A date with a time of day.
    Moment,
}

impl Reading {
    /// That of `column`'s cells.
    pub(crate) fn new(column: &Column) -> Self {
        use ColumnType as Type;
        let shape = match column.column_type() {
            Type::MYSQL_TYPE_BIT => Shape::Bits,
            Type::MYSQL_TYPE_GEOMETRY => Shape::Blob,
            Type::MYSQL_TYPE_DATE | Type::MYSQL_TYPE_NEWDATE => Shape::Date,
            Type::MYSQL_TYPE_TIMESTAMP
            | Type::MYSQL_TYPE_TIMESTAMP2
            | Type::MYSQL_TYPE_DATETIME
            | Type::MYSQL_TYPE_DATETIME2 => Shape::Moment,
            Type::MYSQL_TYPE_VARCHAR
            | Type::MYSQL_TYPE_VAR_STRING
            | Type::MYSQL_TYPE_STRING
            | Type::MYSQL_TYPE_ENUM
            | Type::MYSQL_TYPE_SET
            | Type::MYSQL_TYPE_TINY_BLOB
            | Type::MYSQL_TYPE_MEDIUM_BLOB
            | Type::MYSQL_TYPE_LONG_BLOB
            | Type::MYSQL_TYPE_BLOB
            | Type::MYSQL_TYPE_VECTOR
                if column.character_set() == BINARY =>
            {
                Shape::Blob
            }
            _ => Shape::Text,
        };
        Self {
            shape,
            fraction: column.decimals(),
        }
    }

    /// The value of a cell.
    pub(crate) fn value(self, cell: Cell) -> Result<Value, BackendError> {
        let odd =
            || BackendError::unavailable(format!("the server sent another type than {self:?}"));
        Ok(match cell {
            Cell::NULL => Value::Null,
            Cell::Int(n) => Value::Integer(n),
            Cell::UInt(n) => read_unsigned(n),
            // The shortest text that means this number, not the digits of its neighbour among doubles.
            Cell::Float(n) => Value::Real(n.to_string().parse().map_err(|_| odd())?),
            Cell::Double(n) => Value::Real(n),
            Cell::Bytes(bytes) => match self.shape {
                Shape::Blob => Value::Blob(bytes),
                Shape::Bits => {
                    if bytes.len() > size_of::<u64>() {
                        return Err(odd());
                    }
                    let number = bytes.iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
                    read_unsigned(number)
                }
                Shape::Text | Shape::Date | Shape::Moment => Value::Text(bytes),
            },
            Cell::Date(year, month, day, hour, minute, second, micros) => {
                // One allocation: most tables have such columns.
                let mut text = String::with_capacity(MOMENT_BYTES);
                let _ = write!(text, "{year:04}-{month:02}-{day:02}");
                if self.shape != Shape::Date {
                    let _ = write!(text, " {hour:02}:{minute:02}:{second:02}");
                    self.fraction(micros, &mut text);
                }
                Value::text(text)
            }
            Cell::Time(negative, days, hours, minutes, seconds, micros) => {
                let sign = if negative { "-" } else { "" };
                let hours = u64::from(days) * 24 + u64::from(hours);
                let mut text = format!("{sign}{hours:02}:{minutes:02}:{seconds:02}");
                self.fraction(micros, &mut text);
                Value::text(text)
            }
        })
    }

    /// Adds the digits after the point of seconds.
    fn fraction(self, micros: u32, text: &mut String) {
        let wanted = match self.fraction {
            0 => return,
            few if few <= MAX_FRACTION => usize::from(few),
            _ if micros == 0 => return,
            _ => usize::from(MAX_FRACTION),
        };
        let digits = format!("{micros:06}");
        if let Some(digits) = digits.get(..wanted) {
            text.push('.');
            text.push_str(digits);
        }
    }
}

fn read_unsigned(n: u64) -> Value {
    i64::try_from(n).map_or_else(|_| Value::text(n.to_string()), Value::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(column: Column, cell: Cell, expected: Value) {
        let reading = Reading::new(&column);
        assert_eq!(reading.value(cell).ok(), Some(expected), "{column:?}");
    }

    #[test]
    fn types_are_named_as_tables_declare_them() {
        use ColumnType as Type;
        // The collation of bytes, and one of characters.
        let name = |ty: Type, collation: u16, flags: ColumnFlags| {
            let column = Column::new(ty)
                .with_character_set(collation)
                .with_flags(flags);
            type_names(&[column])[0]
        };
        let (unsigned, none) = (ColumnFlags::UNSIGNED_FLAG, ColumnFlags::empty());
        for (ty, signed) in [
            (Type::MYSQL_TYPE_TINY, "tinyint"),
            (Type::MYSQL_TYPE_SHORT, "smallint"),
            (Type::MYSQL_TYPE_INT24, "mediumint"),
            (Type::MYSQL_TYPE_LONG, "int"),
            (Type::MYSQL_TYPE_LONGLONG, "bigint"),
        ] {
            assert_eq!(name(ty, BINARY, none), signed);
            assert_eq!(name(ty, BINARY, unsigned), format!("{signed} unsigned"));
        }
        for (ty, characters, bytes) in [
            (Type::MYSQL_TYPE_VAR_STRING, "varchar", "varbinary"),
            (Type::MYSQL_TYPE_VARCHAR, "varchar", "varbinary"),
            (Type::MYSQL_TYPE_STRING, "char", "binary"),
            (Type::MYSQL_TYPE_TINY_BLOB, "tinytext", "tinyblob"),
            (Type::MYSQL_TYPE_BLOB, "text", "blob"),
            (Type::MYSQL_TYPE_MEDIUM_BLOB, "mediumtext", "mediumblob"),
            (Type::MYSQL_TYPE_LONG_BLOB, "longtext", "longblob"),
        ] {
            assert_eq!(name(ty, 45, none), characters);
            assert_eq!(name(ty, BINARY, none), bytes);
        }
        for (ty, of_all) in [
            (Type::MYSQL_TYPE_FLOAT, "float"),
            (Type::MYSQL_TYPE_DOUBLE, "double"),
            (Type::MYSQL_TYPE_NEWDECIMAL, "decimal"),
            (Type::MYSQL_TYPE_DATE, "date"),
            (Type::MYSQL_TYPE_TIME, "time"),
            (Type::MYSQL_TYPE_TIMESTAMP, "timestamp"),
            (Type::MYSQL_TYPE_DATETIME, "datetime"),
            (Type::MYSQL_TYPE_YEAR, "year"),
            (Type::MYSQL_TYPE_BIT, "bit"),
            (Type::MYSQL_TYPE_JSON, "json"),
            (Type::MYSQL_TYPE_GEOMETRY, "geometry"),
            (Type::MYSQL_TYPE_ENUM, ""),
        ] {
            assert_eq!(name(ty, BINARY, none), of_all);
        }
    }

    #[test]
    fn cells_become_values() {
        use ColumnType as Type;
        let column = |ty| Column::new(ty).with_character_set(BINARY);
        check(
            column(Type::MYSQL_TYPE_LONGLONG),
            Cell::UInt(u64::MAX),
            Value::text("18446744073709551615"),
        );
        check(
            column(Type::MYSQL_TYPE_FLOAT),
            Cell::Float(1.1),
            Value::Real(1.1),
        );
        check(
            column(Type::MYSQL_TYPE_BIT),
            Cell::Bytes(vec![1, 2]),
            Value::Integer(258),
        );
        check(
            column(Type::MYSQL_TYPE_NEWDECIMAL),
            Cell::Bytes(b"1.10".to_vec()),
            Value::text("1.10"),
        );
        check(
            column(Type::MYSQL_TYPE_VAR_STRING),
            Cell::Bytes(vec![255]),
            Value::Blob(vec![255]),
        );
        check(
            column(Type::MYSQL_TYPE_DATE),
            Cell::Date(0, 0, 0, 0, 0, 0, 0),
            Value::text("0000-00-00"),
        );
        check(
            column(Type::MYSQL_TYPE_DATETIME).with_decimals(3),
            Cell::Date(2026, 1, 2, 3, 4, 5, 60_000),
            Value::text("2026-01-02 03:04:05.060"),
        );
        // How many digits there are is not known of what is computed from text.
        for (micros, text) in [(0, "03:04:05"), (60_000, "03:04:05.060000")] {
            check(
                column(Type::MYSQL_TYPE_TIME).with_decimals(31),
                Cell::Time(false, 0, 3, 4, 5, micros),
                Value::text(text),
            );
        }
        check(
            column(Type::MYSQL_TYPE_TIME),
            Cell::Time(true, 34, 22, 59, 58, 0),
            Value::text("-838:59:58"),
        );
    }
}
