//! What to write for functions, types and fields that other engines have. Models and people write those of the engine that they know best.

use sqlparser::ast::{DataType, DateTimeField};

use crate::dialect::Dialect;

/// A function, and what stands in its place on SQLite, PostgreSQL, and MySQL and MariaDB; nothing where it is no question.
struct Counterpart {
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    mysql: &'static str,
}

/// What to write on `dialect` in the place of the function `name`, which it does not have.
pub(crate) fn find_counterpart(name: &str, dialect: Dialect) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let found = COUNTERPARTS.iter().find(|entry| entry.name == name)?;
    let text = match dialect {
        Dialect::Sqlite => found.sqlite,
        Dialect::Postgres => found.postgres,
        Dialect::Mysql => found.mysql,
    };
    (!text.is_empty()).then_some(text)
}

/// What MySQL and MariaDB have in a cast in the place of a type that neither takes there
/// (<https://dev.mysql.com/doc/refman/8.4/en/cast-functions.html#function_cast>).
pub(in crate::resolve) fn replace_cast_type(data_type: &DataType) -> Option<&'static str> {
    let name = data_type.to_string().to_ascii_uppercase();
    match name.split(['(', ' ']).next()? {
        "TEXT" | "TINYTEXT" | "MEDIUMTEXT" | "LONGTEXT" | "VARCHAR" | "NVARCHAR" | "STRING" => {
            Some("CAST(x AS CHAR)")
        }
        "BIGINT" | "SMALLINT" | "TINYINT" | "MEDIUMINT" | "BOOLEAN" | "BOOL" => {
            Some("CAST(x AS SIGNED)")
        }
        "TIMESTAMP" | "TIMESTAMPTZ" => Some("CAST(x AS DATETIME)"),
        "BLOB" | "BYTEA" => Some("CAST(x AS BINARY)"),
        _ => None,
    }
}

/// What MySQL and MariaDB have in the place of a field of a date that they do not know.
pub(in crate::resolve) fn replace_date_field(field: &DateTimeField) -> Option<&'static str> {
    match field.to_string().to_ascii_uppercase().as_str() {
        "EPOCH" => Some("UNIX_TIMESTAMP(x)"),
        "DOW" | "ISODOW" => {
            Some("DAYOFWEEK(x), of which 1 is Sunday, or WEEKDAY(x), of which 0 is Monday")
        }
        "DOY" => Some("DAYOFYEAR(x)"),
        _ => None,
    }
}

const fn counterpart(
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    mysql: &'static str,
) -> Counterpart {
    Counterpart {
        name,
        sqlite,
        postgres,
        mysql,
    }
}

const COUNTERPARTS: &[Counterpart] = &[
    counterpart(
        "add_months",
        "date(x, '+1 month')",
        "x + interval '1 month'",
        "x + INTERVAL 1 MONTH",
    ),
    counterpart("any_value", "min(x)", "min(x)", "MIN(x)"),
    counterpart("array_agg", "json_group_array(x)", "", "JSON_ARRAYAGG(x)"),
    counterpart(
        "array_sample",
        "",
        "the array's unnest(…) in a subquery, with ORDER BY random() and LIMIT",
        "",
    ),
    counterpart(
        "array_shuffle",
        "",
        "the array's unnest(…) in a subquery, with ORDER BY random()",
        "",
    ),
    counterpart("bool_and", "min(x)", "", "MIN(x)"),
    counterpart("bool_or", "max(x)", "", "MAX(x)"),
    counterpart(
        "charindex",
        "instr(x, part)",
        "strpos(x, part)",
        "LOCATE(part, x)",
    ),
    counterpart(
        "count_if",
        "count(*) FILTER (WHERE condition)",
        "count(*) FILTER (WHERE condition)",
        "SUM(condition)",
    ),
    counterpart(
        "countif",
        "count(*) FILTER (WHERE condition)",
        "count(*) FILTER (WHERE condition)",
        "SUM(condition)",
    ),
    counterpart("curdate", "date('now')", "current_date", ""),
    counterpart("date_add", "date(x, '+1 day')", "x + interval '1 day'", ""),
    counterpart(
        "date_diff",
        "julianday(a) - julianday(b)",
        "a::date - b::date",
        "DATEDIFF(a, b)",
    ),
    counterpart(
        "date_format",
        "strftime('%Y-%m', x)",
        "to_char(x, 'YYYY-MM')",
        "",
    ),
    counterpart("date_part", "strftime('%Y', x)", "", "EXTRACT(YEAR FROM x)"),
    counterpart("date_sub", "date(x, '-1 day')", "x - interval '1 day'", ""),
    counterpart("date_subtract", "", "x - interval '1 day'", ""),
    counterpart(
        "date_trunc",
        "strftime('%Y-%m-01', x), or date(x, 'start of month')",
        "",
        "DATE_FORMAT(x, '%Y-%m-01')",
    ),
    counterpart(
        "dateadd",
        "date(x, '+1 day')",
        "x + interval '1 day'",
        "x + INTERVAL 1 DAY",
    ),
    counterpart(
        "datediff",
        "julianday(a) - julianday(b)",
        "a::date - b::date",
        "",
    ),
    counterpart("day", "strftime('%d', x)", "extract(day FROM x)", ""),
    counterpart(
        "find_in_set",
        "instr(',' || list || ',', ',' || x || ',') > 0",
        "x = ANY (string_to_array(list, ','))",
        "",
    ),
    counterpart(
        "from_unixtime",
        "datetime(x, 'unixepoch')",
        "to_timestamp(x)",
        "",
    ),
    counterpart("gen_random_uuid", "", "", "UUID()"),
    counterpart(
        "generate_series",
        "a recursive WITH",
        "",
        "a recursive WITH",
    ),
    counterpart("getdate", "datetime('now')", "now()", "NOW()"),
    counterpart("greatest", "max(a, b)", "", ""),
    counterpart("group_concat", "", "string_agg(x, ',')", ""),
    counterpart(
        "if",
        "iif(condition, a, b)",
        "CASE WHEN condition THEN a ELSE b END",
        "",
    ),
    counterpart("ifnull", "", "coalesce(x, y)", ""),
    counterpart(
        "iif",
        "",
        "CASE WHEN condition THEN a ELSE b END",
        "IF(condition, a, b)",
    ),
    counterpart("instr", "", "strpos(x, part)", ""),
    counterpart(
        "isnull",
        "coalesce(x, y)",
        "coalesce(x, y)",
        "COALESCE(x, y)",
    ),
    counterpart("json_agg", "json_group_array(x)", "", "JSON_ARRAYAGG(x)"),
    counterpart("json_array", "", "json_build_array(x, y)", ""),
    counterpart("json_arrayagg", "json_group_array(x)", "json_agg(x)", ""),
    counterpart(
        "json_build_object",
        "json_object('key', x)",
        "",
        "JSON_OBJECT('key', x)",
    ),
    counterpart(
        "json_exists",
        "json_type(x, '$.key') IS NOT NULL",
        "jsonb_path_exists(x::jsonb, '$.key')",
        "JSON_CONTAINS_PATH(x, 'one', '$.key')",
    ),
    counterpart("json_extract", "", "x ->> 'key', or x #>> '{a,b}'", ""),
    counterpart("json_object", "", "json_build_object('key', x)", ""),
    counterpart(
        "json_query",
        "json_extract(x, '$.key')",
        "x -> 'key', or x #> '{a,b}'",
        "JSON_EXTRACT(x, '$.key')",
    ),
    counterpart("json_unquote", "x ->> '$.key'", "x ->> 'key'", ""),
    counterpart(
        "json_value",
        "json_extract(x, '$.key')",
        "x ->> 'key', or x #>> '{a,b}'",
        "JSON_UNQUOTE(JSON_EXTRACT(x, '$.key'))",
    ),
    counterpart("jsonb_agg", "json_group_array(x)", "", "JSON_ARRAYAGG(x)"),
    counterpart(
        "last_day",
        "date(x, 'start of month', '+1 month', '-1 day')",
        "(date_trunc('month', x) + interval '1 month - 1 day')::date",
        "",
    ),
    counterpart("least", "min(a, b)", "", ""),
    counterpart("left", "substr(x, 1, n)", "", ""),
    counterpart("len", "length(x)", "length(x)", "CHAR_LENGTH(x)"),
    counterpart(
        "listagg",
        "group_concat(x, ',')",
        "string_agg(x, ',')",
        "GROUP_CONCAT(x SEPARATOR ',')",
    ),
    counterpart("locate", "instr(x, part)", "strpos(x, part)", ""),
    counterpart(
        "median",
        "row_number() and count(*) OVER () in a subquery, and the row in the middle",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
        "ROW_NUMBER() and COUNT(*) OVER () in a subquery, and the row in the middle",
    ),
    counterpart("month", "strftime('%m', x)", "extract(month FROM x)", ""),
    counterpart("newid", "", "gen_random_uuid()", "UUID()"),
    counterpart("now", "datetime('now')", "", ""),
    counterpart("nvl", "coalesce(x, y)", "coalesce(x, y)", "COALESCE(x, y)"),
    counterpart("rand", "random()", "random()", ""),
    counterpart("random", "", "", "RAND()"),
    counterpart("regexp", "LIKE or GLOB", "x ~ 'pattern'", ""),
    counterpart(
        "regexp_extract",
        "substr and instr",
        "substring(x FROM 'pattern')",
        "REGEXP_SUBSTR(x, 'pattern')",
    ),
    counterpart(
        "regexp_matches",
        "LIKE or GLOB",
        "",
        "REGEXP, or REGEXP_SUBSTR(x, pattern)",
    ),
    counterpart("right", "substr(x, -n)", "", ""),
    counterpart(
        "split_part",
        "substr(x, 1, instr(x, ',') - 1)",
        "",
        "SUBSTRING_INDEX(x, ',', n)",
    ),
    counterpart("stddev", "sqrt(avg(x * x) - avg(x) * avg(x))", "", ""),
    counterpart(
        "stdev",
        "sqrt(avg(x * x) - avg(x) * avg(x))",
        "stddev(x)",
        "STDDEV(x)",
    ),
    counterpart("str_to_date", "date(x)", "to_date(x, 'YYYY-MM-DD')", ""),
    counterpart(
        "strftime",
        "",
        "to_char(x, 'YYYY-MM')",
        "DATE_FORMAT(x, '%Y-%m')",
    ),
    counterpart(
        "string_agg",
        "group_concat(x, ',')",
        "",
        "GROUP_CONCAT(x SEPARATOR ',')",
    ),
    counterpart("strpos", "instr(x, part)", "", "LOCATE(part, x)"),
    counterpart(
        "substring_index",
        "substr(x, 1, instr(x, ',') - 1)",
        "split_part(x, ',', n)",
        "",
    ),
    counterpart("sysdate", "datetime('now')", "now()", ""),
    counterpart(
        "timestampadd",
        "datetime(x, '+1 day')",
        "x + interval '1 day'",
        "",
    ),
    counterpart(
        "timestampdiff",
        "julianday(b) - julianday(a)",
        "b - a, or extract(epoch FROM b - a)",
        "",
    ),
    counterpart(
        "to_char",
        "strftime('%Y-%m', x), or printf('%.2f', x)",
        "",
        "DATE_FORMAT(x, '%Y-%m'), or FORMAT(x, 2)",
    ),
    counterpart("to_date", "date(x)", "", "STR_TO_DATE(x, '%Y-%m-%d')"),
    counterpart(
        "to_timestamp",
        "datetime(x, 'unixepoch')",
        "",
        "FROM_UNIXTIME(x)",
    ),
    counterpart("truncate", "trunc(x)", "trunc(x, n)", ""),
    counterpart(
        "unix_timestamp",
        "unixepoch(x)",
        "extract(epoch FROM x)",
        "",
    ),
    counterpart(
        "unixepoch",
        "",
        "extract(epoch FROM x)",
        "UNIX_TIMESTAMP(x)",
    ),
    counterpart("uuid", "", "gen_random_uuid()", ""),
    counterpart("week", "strftime('%W', x)", "extract(week FROM x)", ""),
    counterpart("year", "strftime('%Y', x)", "extract(year FROM x)", ""),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_other_engines_call_otherwise_is_found() {
        for (name, dialect, told) in [
            ("NOW", Dialect::Sqlite, Some("datetime('now')")),
            ("now", Dialect::Postgres, None),
            ("IFNULL", Dialect::Postgres, Some("coalesce(x, y)")),
            (
                "date_trunc",
                Dialect::Mysql,
                Some("DATE_FORMAT(x, '%Y-%m-01')"),
            ),
            ("nosuch", Dialect::Mysql, None),
        ] {
            assert_eq!(find_counterpart(name, dialect), told, "{name} {dialect}");
        }
    }

    #[test]
    fn each_function_stands_once_and_in_order() {
        assert!(COUNTERPARTS.is_sorted_by(|a, b| a.name < b.name));
    }
}
