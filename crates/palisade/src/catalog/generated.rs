//! Which columns a generated column is computed from, and whether reading it can fail.

use std::collections::BTreeSet;

use crate::catalog::{Relation, may_name, may_name_rows};
use crate::dialect::Dialect;

/// `columns`, and those that the generated ones among them are computed from, however far.
pub(crate) fn computed_from(
    columns: impl IntoIterator<Item = u16>,
    relation: &Relation,
    dialect: Dialect,
) -> BTreeSet<u16> {
    let mut found: BTreeSet<u16> = columns.into_iter().collect();
    let mut waiting: Vec<u16> = found.iter().copied().collect();
    while let Some(index) = waiting.pop() {
        let text = relation.column(index).and_then(|c| c.generated.as_deref());
        let Some(text) = text else {
            continue;
        };
        let every = may_name_rows(text, &relation.name, dialect);
        for (id, column) in relation.column_ids() {
            if (every || may_name(text, &column.name, dialect)) && found.insert(id.index) {
                waiting.push(id.index);
            }
        }
    }
    found
}

/// Whether reading the column may fail, and tell of a row that is not shown: it is computed where it is read, by more than
/// what has a result for every value.
pub(crate) fn may_fail(index: u16, relation: &Relation, dialect: Dialect) -> bool {
    let text = |index: u16| {
        let column = relation.column(index)?;
        column.generated.as_deref().filter(|_| !column.stored)
    };
    text(index).is_some()
        && computed_from([index], relation, dialect)
            .into_iter()
            .filter_map(text)
            .any(|text| !is_total(text, dialect))
}

/// Whether `text` is made of what has a result for every value alone.
fn is_total(text: &str, dialect: Dialect) -> bool {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(close) = quote(first) {
            let Some((_, after)) = rest
                .get(first.len_utf8()..)
                .and_then(|t| t.split_once(close))
            else {
                return false;
            };
            // What is escaped, and calls of what is quoted.
            let inner = rest.get(..rest.len() - after.len()).unwrap_or_default();
            if inner.contains('\\')
                || after.starts_with(close)
                || after.trim_start().starts_with('(')
            {
                return false;
            }
            rest = after;
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if !is_harmless(&word.to_ascii_lowercase(), after.trim_start(), dialect) {
                return false;
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix("::text") {
            if after.starts_with(is_word) {
                return false;
            }
            rest = after;
        } else if first.is_ascii_whitespace()
            || "(),=<>!|".contains(first)
            || (dialect == Dialect::Sqlite
                && "+-*/%".contains(first)
                && !["->", "--", "/*"]
                    .iter()
                    .any(|other| rest.starts_with(other)))
        {
            rest = rest.get(1..).unwrap_or_default();
        } else {
            return false;
        }
    }
    true
}

fn quote(first: char) -> Option<char> {
    match first {
        '\'' | '"' | '`' => Some(first),
        '[' => Some(']'),
        _ => None,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()
}

/// Whether a word is a name, or says what cannot fail.
fn is_harmless(word: &str, after: &str, dialect: Dialect) -> bool {
    const NOT: [&str; 16] = [
        "like", "glob", "regexp", "rlike", "match", "similar", "ilike", "json", "div", "mod",
        "select", "interval", "at", "xor", "collate", "array",
    ];
    const BEFORE: [&str; 14] = [
        "and", "or", "not", "in", "case", "when", "then", "else", "between", "is", "as",
        "coalesce", "nullif", "lower",
    ];
    if NOT.contains(&word) {
        return false;
    }
    if !after.starts_with('(') || BEFORE.contains(&word) {
        return true;
    }
    let known: &[&str] = match dialect {
        Dialect::Sqlite => &[
            "upper",
            "length",
            "ifnull",
            "iif",
            "substr",
            "substring",
            "trim",
            "ltrim",
            "rtrim",
            "instr",
            "typeof",
            "hex",
            "round",
            "sign",
            "unicode",
            "min",
            "max",
            "cast",
        ],
        // `length` of two arguments and what makes one type of several values may fail.
        Dialect::Postgres => &["upper", "char_length", "btrim", "ltrim", "rtrim"],
        Dialect::Mysql => &[
            "upper",
            "lcase",
            "ucase",
            "length",
            "char_length",
            "ifnull",
            "if",
            "left",
            "right",
            "substr",
            "substring",
            "trim",
            "ltrim",
            "rtrim",
            "concat",
            "concat_ws",
            "instr",
            "locate",
            "isnull",
            "cast",
            "char",
            "varchar",
            "decimal",
        ],
    };
    known.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_result_for_every_value() {
        use Dialect::{Mysql, Postgres, Sqlite};
        for (dialect, text, expected) in [
            (Sqlite, "substr(doc, 1, 4)", true),
            (Sqlite, "a * 2 - 1", true),
            (Sqlite, "name || ' <' || email || '>'", true),
            (
                Sqlite,
                "CASE WHEN a IN ('x', 'y') THEN upper([b c]) END",
                true,
            ),
            (Sqlite, "json_extract(p, '$.t')", false),
            (Sqlite, "p ->> '$.t'", false),
            (Sqlite, "abs(n)", false),
            (Sqlite, "\"abs\" (n)", false),
            (Sqlite, "'' || 'a''b' || abs(n)", false),
            (Sqlite, "a LIKE b", false),
            (Mysql, "substr(`doc`,1,4)", true),
            (Mysql, "`a` + 1", false),
            (Mysql, "json_value(`p`,'$.t')", false),
            (Mysql, "cast(`p` as json)", false),
            (Postgres, "lower((doc)::text)", true),
            (Postgres, "(doc)::integer", false),
            (Postgres, "(a / b)", false),
        ] {
            assert_eq!(is_total(text, dialect), expected, "{text}");
        }
    }
}
