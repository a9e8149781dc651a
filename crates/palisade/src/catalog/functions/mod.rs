//! Functions: what an engine has built in, as reviewed data, and what a database adds.
//!
//! The registry of each engine is a table in `data/functions/`: one row for each name, with the worst
//! class of its overloads. Sources: `pg_proc` of running servers, the help tables of MariaDB and
//! MySQL, `pragma_function_list` of the bundled SQLite, and the engines' manuals; every row's class
//! is reviewed. A function that no table has and the catalog does not hold does not exist.

pub(in crate::catalog) mod registry;
pub(in crate::catalog) mod safety;

pub use registry::{Registry, Servers, extension, extension_functions, registry};
pub use safety::Safety;

use crate::catalog::OperandDef;

/// Where a function may stand; overloads of one name may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a set with one name for each member"
)]
pub struct Kinds {
    /// One value a call.
    pub scalar: bool,
    /// Written without parentheses.
    pub niladic: bool,
    /// One value a group.
    pub aggregate: bool,
    /// Only with `OVER`.
    pub window: bool,
    /// A table in `FROM`.
    pub table: bool,
    /// An aggregate over an order: `WITHIN GROUP`.
    pub ordered: bool,
    /// Only with `CALL`.
    pub procedure: bool,
}

impl Kinds {
    /// A scalar function.
    pub const SCALAR: Self = Self {
        scalar: true,
        niladic: false,
        aggregate: false,
        window: false,
        table: false,
        ordered: false,
        procedure: false,
    };

    /// Whether a call with `args` arguments looks at a group or window of rows. Where one name is
    /// both (`max` on SQLite), one argument makes it an aggregate.
    #[must_use]
    pub fn is_over_rows(self, args: Option<usize>) -> bool {
        if self.scalar && (self.aggregate || self.window) {
            return args == Some(1);
        }
        self.aggregate || self.window || self.ordered
    }
}

/// A function, of the engine or of the database, with what is known of what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionDef {
    /// Its id in policies: `lower`, `pg_catalog.lower`, `public.price_of`. Where a number of arguments
    /// makes another class of it, that form has an id of its own: `pg_catalog.ts_rewrite/2`.
    pub uid: String,
    /// Its schema as declared; none where the engine has none, or for what the grammar makes a call of.
    pub schema: Option<String>,
    /// Its name, folded.
    pub name: String,
    /// Where it may stand.
    pub kinds: Kinds,
    /// What it reaches.
    pub safety: Safety,
    /// The fewest arguments.
    pub min_args: u8,
    /// The most arguments; `None` for any number.
    pub max_args: Option<u8>,
    /// Names of the columns it gives in `FROM`, one list for each overload; empty for a scalar.
    pub columns: Vec<Vec<String>>,
    /// What each overload takes for its parameters, where that is known of all of them; else empty.
    pub parameters: Vec<Vec<OperandDef>>,
    /// The position, from 1, of the argument that chooses how large the result is.
    pub bound: Option<u8>,
    /// Whether its result can be as large as its arguments' sizes multiplied.
    pub grows: bool,
    /// Whether its first argument is a format whose widths choose how large the result is.
    pub format: bool,
}

/// What messages call the function with this id in policies: PostgreSQL's own without their schema, as statements do.
pub(crate) fn shown_name(uid: &str) -> &str {
    let plain = uid.strip_prefix("pg_catalog.").unwrap_or(uid);
    match plain.rsplit_once('/') {
        Some((name, arguments)) if arguments.parse::<u8>().is_ok() => name,
        Some(_) | None => plain,
    }
}

impl FunctionDef {
    /// Whether a call with `args` arguments can be a call of this.
    #[must_use]
    pub fn takes(&self, args: usize) -> bool {
        args >= usize::from(self.min_args)
            && self.max_args.is_none_or(|max| args <= usize::from(max))
    }
}
