//! The registry of SQLite's functions: name, kind, safety class and arity, as data.
//!
//! Source: <https://www.sqlite.org/lang_corefunc.html>, `lang_datefunc`, `lang_mathfunc`,
//! `lang_aggfunc`, `windowfunctions`, `json1`, and `pragma_function_list` of the bundled build. A
//! test in `palisade-sqlite` compares the table with that pragma, so a new SQLite adds no function
//! unseen.

use crate::dialect::Dialect;

/// What a function reaches beyond its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Safety {
    /// Its result depends on its arguments alone.
    Pure,
    /// Harmless, but differs from call to call: time, random numbers.
    Volatile,
    /// Reads or sets the state of the connection or server.
    Session,
    /// Reads system catalogs or index internals.
    Catalog,
    /// Reads or writes files.
    File,
    /// Reaches the network.
    Network,
    /// Runs text as SQL.
    DynamicSql,
    /// Takes locks.
    Lock,
    /// Controls the server.
    Admin,
    /// Makes values whose size its arguments choose.
    Resource,
    /// Not classified.
    Unknown,
}

impl Safety {
    /// The word policies see as `resource.safety`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Volatile => "volatile",
            Self::Session => "session",
            Self::Catalog => "catalog",
            Self::File => "file",
            Self::Network => "network",
            Self::DynamicSql => "dynamic-sql",
            Self::Lock => "lock",
            Self::Admin => "admin",
            Self::Resource => "resource",
            Self::Unknown => "unknown",
        }
    }

    /// Whether a permit must name the function: a blanket permit does not reach it.
    #[must_use]
    pub fn needs_named_permit(self) -> bool {
        match self {
            Self::Pure | Self::Volatile => false,
            Self::Session
            | Self::Catalog
            | Self::File
            | Self::Network
            | Self::DynamicSql
            | Self::Lock
            | Self::Admin
            | Self::Resource
            | Self::Unknown => true,
        }
    }
}

/// Where a function may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One value a call.
    Scalar,
    /// Written without parentheses.
    Niladic,
    /// One value a group.
    Aggregate,
    /// A scalar with several arguments, an aggregate with one (`max`, `min`).
    ScalarOrAggregate,
    /// Only with `OVER`.
    Window,
    /// A table in `FROM`.
    Table,
}

/// A function of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionDef {
    /// Its name, folded; also its id in policies, `Function::"lower"`.
    pub name: &'static str,
    /// Where it may stand.
    pub kind: Kind,
    /// What it reaches.
    pub safety: Safety,
    /// The fewest arguments.
    pub min_args: u8,
    /// The most arguments; `None` for any number.
    pub max_args: Option<u8>,
}

const fn f(
    name: &'static str,
    kind: Kind,
    safety: Safety,
    min_args: u8,
    max_args: Option<u8>,
) -> FunctionDef {
    FunctionDef {
        name,
        kind,
        safety,
        min_args,
        max_args,
    }
}

/// Every function of `dialect`, sorted by name.
#[must_use]
pub fn all(dialect: Dialect) -> &'static [FunctionDef] {
    match dialect {
        Dialect::Sqlite => SQLITE,
    }
}

/// The function whose folded name is `key`.
#[must_use]
pub fn find(dialect: Dialect, key: &str) -> Option<&'static FunctionDef> {
    let table = all(dialect);
    table
        .binary_search_by(|def| def.name.cmp(key))
        .ok()
        .and_then(|i| table.get(i))
}

/// The columns of a table function, in the order `*` lists them, with their classes.
#[must_use]
pub fn table_columns(def: &FunctionDef) -> &'static [&'static str] {
    match def.name {
        // <https://www.sqlite.org/json1.html#the_json_each_and_json_tree_table_valued_functions>
        "json_each" | "json_tree" | "jsonb_each" | "jsonb_tree" => &[
            "key", "value", "type", "atom", "id", "parent", "fullkey", "path",
        ],
        _ => &[],
    }
}

const SQLITE: &[FunctionDef] = &[
    f("->", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("->>", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("abs", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("acos", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("acosh", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("asin", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("asinh", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("atan", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("atan2", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("atanh", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("avg", Kind::Aggregate, Safety::Pure, 1, Some(1)),
    f("bm25", Kind::Scalar, Safety::Catalog, 0, None),
    f("ceil", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("ceiling", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("changes", Kind::Scalar, Safety::Session, 0, Some(0)),
    f("char", Kind::Scalar, Safety::Pure, 0, None),
    f("coalesce", Kind::Scalar, Safety::Pure, 2, None),
    f("concat", Kind::Scalar, Safety::Pure, 0, None),
    f("concat_ws", Kind::Scalar, Safety::Pure, 2, None),
    f("cos", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("cosh", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("count", Kind::Aggregate, Safety::Pure, 0, Some(1)),
    f("cume_dist", Kind::Window, Safety::Pure, 0, Some(0)),
    f("current_date", Kind::Niladic, Safety::Volatile, 0, Some(0)),
    f("current_time", Kind::Niladic, Safety::Volatile, 0, Some(0)),
    f(
        "current_timestamp",
        Kind::Niladic,
        Safety::Volatile,
        0,
        Some(0),
    ),
    f("date", Kind::Scalar, Safety::Volatile, 0, None),
    f("datetime", Kind::Scalar, Safety::Volatile, 0, None),
    f("degrees", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("dense_rank", Kind::Window, Safety::Pure, 0, Some(0)),
    f("exp", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("first_value", Kind::Window, Safety::Pure, 1, Some(1)),
    f("floor", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("format", Kind::Scalar, Safety::Pure, 0, None),
    f("fts3_tokenizer", Kind::Scalar, Safety::Admin, 1, Some(2)),
    f("fts5", Kind::Scalar, Safety::Catalog, 0, None),
    f("fts5_get_locale", Kind::Scalar, Safety::Catalog, 0, None),
    f("fts5_insttoken", Kind::Scalar, Safety::Catalog, 0, None),
    f("fts5_locale", Kind::Scalar, Safety::Catalog, 0, None),
    f("fts5_source_id", Kind::Scalar, Safety::Catalog, 0, None),
    f("glob", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("group_concat", Kind::Aggregate, Safety::Pure, 1, Some(2)),
    f("hex", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("highlight", Kind::Scalar, Safety::Catalog, 0, None),
    f("if", Kind::Scalar, Safety::Pure, 2, None),
    f("ifnull", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("iif", Kind::Scalar, Safety::Pure, 2, None),
    f("instr", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("json", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("json_array", Kind::Scalar, Safety::Pure, 0, None),
    f("json_array_insert", Kind::Scalar, Safety::Pure, 1, None),
    f("json_array_length", Kind::Scalar, Safety::Pure, 1, Some(2)),
    f("json_each", Kind::Table, Safety::Pure, 1, Some(2)),
    f(
        "json_error_position",
        Kind::Scalar,
        Safety::Pure,
        1,
        Some(1),
    ),
    f("json_extract", Kind::Scalar, Safety::Pure, 1, None),
    f(
        "json_group_array",
        Kind::Aggregate,
        Safety::Pure,
        1,
        Some(1),
    ),
    f(
        "json_group_object",
        Kind::Aggregate,
        Safety::Pure,
        2,
        Some(2),
    ),
    f("json_insert", Kind::Scalar, Safety::Pure, 1, None),
    f("json_object", Kind::Scalar, Safety::Pure, 0, None),
    f("json_patch", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("json_pretty", Kind::Scalar, Safety::Pure, 1, Some(2)),
    f("json_quote", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("json_remove", Kind::Scalar, Safety::Pure, 1, None),
    f("json_replace", Kind::Scalar, Safety::Pure, 1, None),
    f("json_set", Kind::Scalar, Safety::Pure, 1, None),
    f("json_tree", Kind::Table, Safety::Pure, 1, Some(2)),
    f("json_type", Kind::Scalar, Safety::Pure, 1, Some(2)),
    f("json_valid", Kind::Scalar, Safety::Pure, 1, Some(2)),
    f("jsonb", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("jsonb_array", Kind::Scalar, Safety::Pure, 0, None),
    f("jsonb_array_insert", Kind::Scalar, Safety::Pure, 1, None),
    f("jsonb_each", Kind::Table, Safety::Pure, 1, Some(2)),
    f("jsonb_extract", Kind::Scalar, Safety::Pure, 1, None),
    f(
        "jsonb_group_array",
        Kind::Aggregate,
        Safety::Pure,
        1,
        Some(1),
    ),
    f(
        "jsonb_group_object",
        Kind::Aggregate,
        Safety::Pure,
        2,
        Some(2),
    ),
    f("jsonb_insert", Kind::Scalar, Safety::Pure, 1, None),
    f("jsonb_object", Kind::Scalar, Safety::Pure, 0, None),
    f("jsonb_patch", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("jsonb_remove", Kind::Scalar, Safety::Pure, 1, None),
    f("jsonb_replace", Kind::Scalar, Safety::Pure, 1, None),
    f("jsonb_set", Kind::Scalar, Safety::Pure, 1, None),
    f("jsonb_tree", Kind::Table, Safety::Pure, 1, Some(2)),
    f("julianday", Kind::Scalar, Safety::Volatile, 0, None),
    f("lag", Kind::Window, Safety::Pure, 1, Some(3)),
    f(
        "last_insert_rowid",
        Kind::Scalar,
        Safety::Session,
        0,
        Some(0),
    ),
    f("last_value", Kind::Window, Safety::Pure, 1, Some(1)),
    f("lead", Kind::Window, Safety::Pure, 1, Some(3)),
    f("length", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("like", Kind::Scalar, Safety::Pure, 2, Some(3)),
    f("likelihood", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("likely", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("ln", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("load_extension", Kind::Scalar, Safety::File, 1, Some(2)),
    f("log", Kind::Scalar, Safety::Pure, 1, Some(2)),
    f("log10", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("log2", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("lower", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("ltrim", Kind::Scalar, Safety::Pure, 1, Some(2)),
    f("match", Kind::Scalar, Safety::Unknown, 2, Some(2)),
    f("matchinfo", Kind::Scalar, Safety::Catalog, 0, None),
    f("max", Kind::ScalarOrAggregate, Safety::Pure, 1, None),
    f("median", Kind::Aggregate, Safety::Pure, 1, Some(1)),
    f("min", Kind::ScalarOrAggregate, Safety::Pure, 1, None),
    f("mod", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("nth_value", Kind::Window, Safety::Pure, 2, Some(2)),
    f("ntile", Kind::Window, Safety::Pure, 1, Some(1)),
    f("nullif", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("octet_length", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("offsets", Kind::Scalar, Safety::Catalog, 0, None),
    f("optimize", Kind::Scalar, Safety::Catalog, 0, None),
    f("percent_rank", Kind::Window, Safety::Pure, 0, Some(0)),
    f("percentile", Kind::Aggregate, Safety::Pure, 2, Some(2)),
    f("percentile_cont", Kind::Aggregate, Safety::Pure, 2, Some(2)),
    f("percentile_disc", Kind::Aggregate, Safety::Pure, 2, Some(2)),
    f("pi", Kind::Scalar, Safety::Pure, 0, Some(0)),
    f("pow", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("power", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("printf", Kind::Scalar, Safety::Pure, 0, None),
    f("quote", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("radians", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("random", Kind::Scalar, Safety::Volatile, 0, Some(0)),
    f("randomblob", Kind::Scalar, Safety::Resource, 1, Some(1)),
    f("rank", Kind::Window, Safety::Pure, 0, Some(0)),
    f("regexp", Kind::Scalar, Safety::Unknown, 2, Some(2)),
    f("replace", Kind::Scalar, Safety::Pure, 3, Some(3)),
    f("round", Kind::Scalar, Safety::Pure, 1, Some(2)),
    f("row_number", Kind::Window, Safety::Pure, 0, Some(0)),
    f("rtreecheck", Kind::Scalar, Safety::Catalog, 0, None),
    f("rtreedepth", Kind::Scalar, Safety::Catalog, 0, None),
    f("rtreenode", Kind::Scalar, Safety::Catalog, 0, None),
    f("rtrim", Kind::Scalar, Safety::Pure, 1, Some(2)),
    f("sign", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("sin", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("sinh", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("snippet", Kind::Scalar, Safety::Catalog, 0, None),
    f("soundex", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f(
        "sqlite_add_constraint",
        Kind::Scalar,
        Safety::Admin,
        0,
        None,
    ),
    f(
        "sqlite_compileoption_get",
        Kind::Scalar,
        Safety::Session,
        1,
        Some(1),
    ),
    f(
        "sqlite_compileoption_used",
        Kind::Scalar,
        Safety::Session,
        1,
        Some(1),
    ),
    f("sqlite_drop_column", Kind::Scalar, Safety::Admin, 0, None),
    f(
        "sqlite_drop_constraint",
        Kind::Scalar,
        Safety::Admin,
        0,
        None,
    ),
    f("sqlite_fail", Kind::Scalar, Safety::Admin, 0, None),
    f(
        "sqlite_find_constraint",
        Kind::Scalar,
        Safety::Admin,
        0,
        None,
    ),
    f("sqlite_log", Kind::Scalar, Safety::Admin, 2, Some(2)),
    f("sqlite_offset", Kind::Scalar, Safety::Admin, 1, Some(1)),
    f("sqlite_rename_column", Kind::Scalar, Safety::Admin, 0, None),
    f(
        "sqlite_rename_quotefix",
        Kind::Scalar,
        Safety::Admin,
        0,
        None,
    ),
    f("sqlite_rename_table", Kind::Scalar, Safety::Admin, 0, None),
    f("sqlite_rename_test", Kind::Scalar, Safety::Admin, 0, None),
    f(
        "sqlite_source_id",
        Kind::Scalar,
        Safety::Session,
        0,
        Some(0),
    ),
    f("sqlite_version", Kind::Scalar, Safety::Session, 0, Some(0)),
    f("sqrt", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("strftime", Kind::Scalar, Safety::Volatile, 1, None),
    f("string_agg", Kind::Aggregate, Safety::Pure, 2, Some(2)),
    f("substr", Kind::Scalar, Safety::Pure, 2, Some(3)),
    f("substring", Kind::Scalar, Safety::Pure, 2, Some(3)),
    f("subtype", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("sum", Kind::Aggregate, Safety::Pure, 1, Some(1)),
    f("tan", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("tanh", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("time", Kind::Scalar, Safety::Volatile, 0, None),
    f("timediff", Kind::Scalar, Safety::Pure, 2, Some(2)),
    f("total", Kind::Aggregate, Safety::Pure, 1, Some(1)),
    f("total_changes", Kind::Scalar, Safety::Session, 0, Some(0)),
    f("trim", Kind::Scalar, Safety::Pure, 1, Some(2)),
    f("trunc", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("typeof", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("unhex", Kind::Scalar, Safety::Pure, 1, Some(2)),
    f("unicode", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("unistr", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("unistr_quote", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("unixepoch", Kind::Scalar, Safety::Volatile, 0, None),
    f("unlikely", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("upper", Kind::Scalar, Safety::Pure, 1, Some(1)),
    f("zeroblob", Kind::Scalar, Safety::Resource, 1, Some(1)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_for_binary_search() {
        assert!(SQLITE.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn table_functions_have_columns() {
        for def in SQLITE {
            assert_eq!(
                def.kind == Kind::Table,
                !table_columns(def).is_empty(),
                "{}",
                def.name
            );
        }
    }
}
