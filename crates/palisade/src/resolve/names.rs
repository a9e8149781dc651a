//! Refusals of names that do not exist, with the nearest that does.

use std::{borrow::Cow, fmt::Write as _};

use sqlparser::ast::Ident;

use crate::resolve::{Resolver, query::Ctes, scope::Scope};
use crate::{
    catalog::{Relation, RelationKind},
    code::Code,
    dialect::Dialect,
    did_you_mean, ident,
    policy::obligation::{RelationDecision, Visibility},
    rejection::Rejection,
    syntax::{advise_on_parameter, decode, encode, is_typographic_quote},
};

impl<'a> Resolver<'a> {
    pub(in crate::resolve) fn unknown_relation(&self, shown: &str) -> Rejection {
        let names = self.visible.names();
        let message = match did_you_mean::closest(shown, names.iter().map(String::as_str)) {
            Some(name) => {
                let dialect = self.catalog.dialect();
                // The name alone is right: it was looked for in another schema than the one that it is in.
                let schema = (name == shown).then(|| self.schema_of(name)).flatten();
                let schema = schema
                    .map_or_else(String::new, |s| format!("{}.", quote_if_needed(s, dialect)));
                let name = quote_if_needed(name, dialect);
                format!("there is no table or view `{shown}`; did you mean `{schema}{name}`?")
            }
            None if is_sequence(shown, self.catalog.dialect()) => format!(
                "there is no table or view `{shown}`: tables of numbers are not read; write WITH RECURSIVE s AS \
                 (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM s WHERE seq < 5)"
            ),
            None => format!("there is no table or view `{shown}`"),
        };
        Rejection::new(Code::NameUnknownRelation, message)
    }

    /// The same of a relation that exists and not for who asks. To the operator it says so.
    pub(in crate::resolve) fn absent_relation(
        &self,
        relation: &Relation,
        decision: &RelationDecision,
        shown: &str,
    ) -> Rejection {
        let (uid, principal) = (&relation.uid, self.visible.shown_principal());
        let why = if relation.kind == RelationKind::Virtual {
            format!(
                "`{uid}` is a virtual table or belongs to one, and no policy can permit it; let agents read a table or view \
                 that holds the same"
            )
        } else if decision.policies.is_empty() {
            format!("`{uid}` exists; no policy permits `select` or `discover` of it to {principal}")
        } else {
            format!(
                "`{uid}` exists; not permitted to {principal}, by {}",
                decision.policies.join(", ")
            )
        };
        self.unknown_relation(shown).with_operator_detail(why)
    }

    /// The schema of a relation called `name` that may be known of.
    fn schema_of(&self, name: &str) -> Option<&'a str> {
        let relations = self.catalog.relations();
        let found = relations.iter().find(|relation| {
            let decision = self.visible.relation(relation.id);
            relation.name == name && decision.is_ok_and(|d| d.visibility != Visibility::Absent)
        });
        found.map(|relation| &*relation.schema)
    }
}

/// Whether it is the name of a table of numbers, as the engine SEQUENCE of MariaDB makes them (<https://mariadb.com/kb/en/sequence-storage-engine/>).
fn is_sequence(name: &str, dialect: Dialect) -> bool {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let name = name.to_ascii_lowercase();
    let Some(rest) = name.strip_prefix("seq_") else {
        return false;
    };
    let parts: Vec<&str> = rest.split('_').collect();
    dialect == Dialect::Mysql
        && match parts.as_slice() {
            [from, "to", to] => [from, to].into_iter().all(is_number),
            [from, "to", to, "step", step] => [from, to, step].into_iter().all(is_number),
            _ => false,
        }
}

/// `refusal` of a table called `shown`, with the common table expression that was probably meant.
pub(in crate::resolve) fn suggest_common_table(
    refusal: Rejection,
    shown: &str,
    ctes: Ctes<'_>,
    dialect: Dialect,
) -> Rejection {
    let near = did_you_mean::closest(shown, ctes.names());
    match near.filter(|_| refusal.code() == Code::NameUnknownRelation) {
        Some(near) => {
            let near = quote_if_needed(near, dialect);
            refusal.with_message(format!(
                "there is no table or view `{shown}`; did you mean `{near}`?"
            ))
        }
        None => refusal,
    }
}

/// The refusal of a column name, with the nearest visible one.
pub(in crate::resolve) fn unknown_column(
    shown: &str,
    candidates: &[String],
    dialect: Dialect,
) -> Rejection {
    let near = did_you_mean::closest(shown, candidates.iter().map(String::as_str));
    let near = near.map(|name| quote_if_needed(name, dialect));
    missing_column(shown, near.as_deref(), None)
}

/// The refusal of a column of a query's sources: its exact name in another source comes before the nearest name.
pub(in crate::resolve) fn unknown_column_of(
    qualifier: Option<&str>,
    ident: &Ident,
    key: &str,
    scope: &Scope<'_, '_>,
) -> Rejection {
    let (name, dialect) = (decode(ident), scope.dialect);
    let quoted = |name| quote_if_needed(name, dialect);
    let names = scope.visible_names(qualifier);
    let near = did_you_mean::closest(&name, names.iter().map(String::as_str));
    let Some(qualifier) = qualifier else {
        let number = name.strip_prefix('$').unwrap_or_default();
        if dialect == Dialect::Mysql && number.parse::<u16>().is_ok() {
            let message = format!(
                "there is no column `{name}`: {}",
                advise_on_parameter(dialect)
            );
            return Rejection::new(Code::NameUnknownColumn, message);
        }
        // In another case, it is the column.
        let is_column = near.is_some_and(|near| near.to_lowercase() == name.to_lowercase());
        let text = intended_text(ident, &name, dialect).filter(|_| !is_column);
        return missing_column(&name, near.map(quoted).as_deref(), text.as_deref());
    };
    let elsewhere = scope.qualified_column(key);
    let meant = elsewhere.or(near.map(|near| (qualifier, near)));
    let meant = meant.map(|(table, column)| format!("{}.{}", quoted(table), quoted(column)));
    let shown = format!("{}.{name}", quoted(qualifier));
    missing_column(&shown, meant.as_deref(), None)
}

/// The refusal of a column's name, with the column or the text, as it stands between single quotes, that was probably meant.
fn missing_column(shown: &str, meant: Option<&str>, text: Option<&str>) -> Rejection {
    let mut message = format!("there is no column `{shown}`");
    if let Some(meant) = meant {
        let _ = write!(message, "; did you mean `{meant}`?");
    }
    if let Some(text) = text {
        let lead = if meant.is_some() { " A" } else { "; a" };
        let _ = write!(message, "{lead} text stands in single quotes: `'{text}'`");
    }
    Rejection::new(Code::NameUnknownColumn, message)
}

/// The refusal of a name before a column that no table of the statement has.
pub(in crate::resolve) fn unknown_qualifier(qualifier: &str, scope: &Scope<'_, '_>) -> Rejection {
    let quoted = |name| quote_if_needed(name, scope.dialect);
    let relation = qualifier.rsplit('.').next().unwrap_or(qualifier);
    let message = if let Some(alias) = scope.alias_of(relation).filter(|a| *a != relation) {
        format!(
            "`{qualifier}` is called `{alias}` in this statement; write `{alias}` before its columns",
            alias = quoted(alias)
        )
    } else if scope
        .visible_names(None)
        .iter()
        .any(|name| name == relation)
    {
        let column = quoted(relation);
        let path = match scope.dialect {
            Dialect::Sqlite => format!("`{column}->>'key'`"),
            Dialect::Postgres => {
                format!("`{column}->>'key'`, of a composite value `({column}).field`")
            }
            Dialect::Mysql => format!("`JSON_VALUE({column}, '$.key')`"),
        };
        format!(
            "`{qualifier}` is a column, and no table of the statement; if it holds JSON documents, a key of one is {path}"
        )
    } else if let Some(near) = did_you_mean::closest(qualifier, scope.qualifiers()) {
        let near = quoted(near);
        format!("no table of the statement is called `{qualifier}`; did you mean `{near}`?")
    } else {
        format!("no table of the statement is called `{qualifier}`")
    };
    Rejection::new(Code::NameUnknownRelation, message)
}

/// The text, as it stands between single quotes, that was probably meant by a name: other engines read double quotes so, and word
/// processors make quotation marks that belong to names.
fn intended_text(ident: &Ident, name: &str, dialect: Dialect) -> Option<String> {
    let text = match (ident.quote_style, dialect) {
        (Some('"'), Dialect::Postgres) => name,
        (None, _) if name.starts_with(is_typographic_quote) => {
            name.trim_matches(is_typographic_quote)
        }
        (Some(_), Dialect::Postgres | Dialect::Sqlite | Dialect::Mysql) | (None, _) => return None,
    };
    Some(text.replace('\'', "''"))
}

/// A name as a statement has to spell it: in quotes where it would be read as another without.
pub(in crate::resolve) fn quote_if_needed(name: &str, dialect: Dialect) -> Cow<'_, str> {
    let is_plain = match dialect {
        Dialect::Postgres => ident::is_plain(name),
        Dialect::Sqlite | Dialect::Mysql => ident::is_plain(&name.to_ascii_lowercase()),
    };
    if is_plain {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(encode(name, dialect).to_string())
    }
}
