//! From the mask a policy demands to the mask a column gets: whether its type takes it, and the keys of
//! hashes and tokens.

use std::sync::Arc;

use cedar_policy::PolicyId;

use crate::policy::{
    cedar::{failure::Failure, request::Subject, schema::PolicyAction},
    decide::columns::{decide_columns, is_computed},
    obligation::{
        ColumnDecision, ColumnLevel, DatePart, ExprMask, HashDomain, HashMask, Mask, TokenMask,
    },
    set::Loaded,
};
use crate::{
    catalog::{Column, ColumnId, Relation, TypeClass},
    dialect::Dialect,
    syntax::mask_expr::ValueKind,
};

/// Gives each masked column a mask its type takes, NULL if the one demanded is for other types, and
/// hashes and tokens their keys.
pub(in crate::policy) fn settle(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    columns: &mut [ColumnDecision],
) {
    let dialect = loaded.catalog.dialect();
    for ((id, column), decided) in relation.column_ids().zip(columns) {
        let ColumnLevel::Masked(mask) = &mut decided.level else {
            continue;
        };
        // Some characters of one of two words are the word.
        let tells_all =
            column.class == TypeClass::Boolean && matches!(mask, Mask::First(_) | Mask::Last(_));
        if tells_all || !fits(mask, column, dialect) {
            *mask = Mask::Null;
            continue;
        }
        let keyed = match mask {
            Mask::Hash(HashMask { domain, key: _ }) => {
                let named = describe_domain(domain, &column.uid);
                loaded.secret.as_ref().map(|secret| {
                    Mask::Hash(HashMask {
                        key: Some(secret.key(&["mask", &named])),
                        domain: domain.clone(),
                    })
                })
            }
            Mask::Token(TokenMask { domain, keys: _ }) => {
                let named = describe_domain(domain, origin(loaded, id, &column.uid));
                let (owner, epoch) = (&subject.token_owner, subject.epoch);
                let secret = loaded.secret.as_ref();
                let keys = secret.and_then(|secret| secret.tokens(owner, epoch, &named));
                keys.map(|keys| {
                    Mask::Token(TokenMask {
                        keys: Some(Arc::new(keys)),
                        domain: domain.clone(),
                    })
                })
            }
            Mask::Null
            | Mask::Fixed(_)
            | Mask::Expr(_)
            | Mask::Paths(_)
            | Mask::AggregateOnly(_)
            | Mask::Inherited(_)
            | Mask::First(_)
            | Mask::Last(_)
            | Mask::Email
            | Mask::Date(_)
            | Mask::Bucket(_) => continue,
        };
        *mask = keyed.unwrap_or(Mask::Null);
    }
}

/// A domain by name or by column, which are never one.
fn describe_domain(domain: &HashDomain, column: &str) -> String {
    match domain {
        HashDomain::Named(domain) => format!("domain {domain}"),
        HashDomain::Column => format!("column {column}"),
    }
}

/// The column whose tokens a column has: of a view's that comes from one column, that one's.
fn origin<'l>(loaded: &'l Loaded, id: ColumnId, own: &'l str) -> &'l str {
    let mut at = id;
    // Views stand on views, and a column comes from another at most once each.
    for _ in 0..loaded.flow.columns.len() {
        let Some(from) = loaded.flow.columns.get(&at) else {
            break;
        };
        let mut from = from.iter();
        let (Some(only), None) = (from.next(), from.next()) else {
            break;
        };
        at = *only;
    }
    loaded
        .catalog
        .column(at)
        .map_or(own, |column| column.uid.as_str())
}

/// A mask that a column cannot have.
pub(in crate::policy) struct UnfitMask {
    pub(in crate::policy) mask: Mask,
    /// The column's uid.
    pub(in crate::policy) column: String,
    /// Why not.
    pub(in crate::policy) why: String,
}

impl UnfitMask {
    fn new(mask: Mask, column: &Column, dialect: Dialect) -> Self {
        let why = match &mask {
            Mask::Expr(expr) => explain_misfit(expr, column, dialect),
            _ => None,
        };
        Self {
            mask,
            column: column.uid.clone(),
            why: why.unwrap_or_else(|| "its type has no such values".to_owned()),
        }
    }
}

/// The policies whose masks some column of `relation` cannot have.
pub(in crate::policy) fn find_unfit_masks(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<Vec<(String, UnfitMask)>, Failure> {
    let dialect = loaded.catalog.dialect();
    let mut out = Vec::new();
    let decisions = decide_columns(loaded, subject, relation)?;
    for ((id, column), decision) in relation.column_ids().zip(decisions) {
        let ColumnLevel::Masked(mask) = decision.level else {
            continue;
        };
        // The mask was meant for what it is computed from; NULL stands for it.
        if is_computed(loaded, id, &column.uid) {
            continue;
        }
        if matches!(mask, Mask::Token(_)) && !fits(&mask, column, dialect) {
            let permits = loaded.policies.for_action(PolicyAction::ReadToken);
            let permit = decision.policies.iter().find(|id| {
                permits.is_some_and(|permits| permits.policy(&PolicyId::new(id)).is_some())
            });
            out.extend(permit.map(|id| (id.clone(), UnfitMask::new(mask, column, dialect))));
            continue;
        }
        for id in decision.policies {
            let annotations = loaded.annotations.get(&id).filter(|a| !a.is_mask_or_null);
            let mask = annotations.and_then(|a| a.mask.clone());
            if let Some(mask) = mask.filter(|mask| !fits(mask, column, dialect)) {
                out.push((id, UnfitMask::new(mask, column, dialect)));
            }
        }
    }
    Ok(out)
}

/// Whether `mask` makes sense of the column's values and cannot fail on any.
pub(in crate::policy) fn fits(mask: &Mask, column: &Column, dialect: Dialect) -> bool {
    match mask {
        Mask::Null | Mask::Fixed(_) | Mask::AggregateOnly(_) | Mask::Inherited(_) => true,
        Mask::Expr(mask) => explain_misfit(mask, column, dialect).is_none(),
        Mask::First(_) | Mask::Last(_) | Mask::Hash(_) | Mask::Token(_) => match dialect {
            Dialect::Sqlite => true,
            Dialect::Postgres | Dialect::Mysql => has_text(column.class),
        },
        Mask::Paths(_) => match (dialect, column.class) {
            (Dialect::Sqlite, _) | (_, TypeClass::Json) => true,
            // MariaDB's JSON is a text. PostgreSQL cannot tell whether a text is JSON.
            (Dialect::Mysql, class) => class == TypeClass::Text,
            (Dialect::Postgres, _) => false,
        },
        Mask::Email => matches!(column.class, TypeClass::Text | TypeClass::Padded),
        Mask::Bucket(_) => matches!(
            column.class,
            TypeClass::Integer | TypeClass::Number | TypeClass::Decimal
        ),
        Mask::Date(part) => match (column.class, dialect) {
            // A day is all there is in a date: such a mask would hide nothing.
            (TypeClass::Date, Dialect::Postgres | Dialect::Mysql) => match part {
                DatePart::Month | DatePart::Year => true,
                DatePart::Hour | DatePart::Day => false,
            },
            (TypeClass::Timestamp | TypeClass::TimestampTz, Dialect::Postgres | Dialect::Mysql) => {
                true
            }
            // SQLite has no such types, but columns that say they hold dates.
            (TypeClass::Other, Dialect::Sqlite) => {
                let declared = column.type_name.to_ascii_uppercase();
                declared.contains("DATE") || declared.contains("TIME")
            }
            _ => false,
        },
    }
}

/// Why the expression makes no sense of the column's values.
pub(in crate::policy) fn explain_misfit(
    mask: &ExprMask,
    column: &Column,
    dialect: Dialect,
) -> Option<String> {
    if let Some(other) = mask.names.iter().find(|name| **name != *column.key) {
        return Some(format!(
            "it speaks of another column, `{other}` (`value` is the column, whatever it is called)"
        ));
    }
    let value = ValueKind::from_class(column.class, dialect);
    mask.formula.kind(value).err()
}

/// Whether every value has a text, which no function of the database makes.
fn has_text(class: TypeClass) -> bool {
    match class {
        TypeClass::Integer
        | TypeClass::Number
        | TypeClass::Decimal
        | TypeClass::Boolean
        | TypeClass::Text
        | TypeClass::Padded
        | TypeClass::Enum
        | TypeClass::Uuid
        | TypeClass::Date
        | TypeClass::Time
        | TypeClass::Timestamp
        | TypeClass::TimestampTz
        | TypeClass::Interval
        | TypeClass::Json
        | TypeClass::Network => true,
        TypeClass::Blob | TypeClass::Other => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use crate::token::TokenSecret;
    use std::sync::Arc;

    use super::*;
    use crate::{
        catalog::{Catalog, ColumnDef, RelationDef, RelationKind},
        policy::{ColumnFlow, PolicyErrors, PolicySet, PolicySources, tests::fixture},
    };

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn load(
        dialect: Dialect,
        mask: &str,
        of: &str,
        secret: Option<&str>,
    ) -> Result<PolicySet, PolicyErrors> {
        let schema = dialect.default_schema();
        let columns = [
            ("name", TypeClass::Text),
            ("born", TypeClass::Date),
            ("paid", TypeClass::Decimal),
            ("photo", TypeClass::Blob),
        ];
        let columns = columns.map(|(name, class)| ColumnDef {
            ..fixture::column(name, class)
        });
        let table = RelationDef::new(schema, "people", RelationKind::Table, columns.to_vec());
        let catalog = Catalog::builder(dialect).relation(table).build().unwrap();
        let sources = PolicySources {
            secret: secret.map(TokenSecret::new),
            ..fixture::sources(&format!(
                "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);\n\
                 @mask(\"{mask}\")\n\
                 forbid(principal, action == Action::\"read_plain\", resource == Column::\"{schema}.people.{of}\");"
            ))
        };
        let sources = PolicySources {
            classification: None,
            ..sources
        };
        PolicySet::load(&sources, &Arc::new(catalog), &ColumnFlow::default())
    }

    #[test]
    fn a_mask_for_another_type_does_not_load() {
        for (mask, of, message) in [
            (
                "date(month)",
                "name",
                "`date(month)` is no mask for `public.people.name`",
            ),
            ("date(day)", "born", "is no mask for"),
            ("bucket(10)", "born", "is no mask for"),
            ("email", "paid", "is no mask for"),
            ("last(4)", "photo", "is no mask for"),
        ] {
            let errors = load(Dialect::Postgres, mask, of, None).unwrap_err();
            let problem = &errors.problems()[0];
            assert_eq!(errors.problems().len(), 1, "{errors}");
            assert!(problem.message.contains(message), "{problem}");
            assert_eq!((problem.line, problem.column), (Some(2), Some(1)));
        }
        for (mask, of) in [
            ("date(month)", "born"),
            ("bucket(10)", "paid"),
            ("email", "name"),
            ("last(4)", "born"),
            ("fixed(x)", "photo"),
            ("email else null", "paid"),
            ("date(day) else null", "born"),
            ("last(4) else null", "photo"),
        ] {
            for dialect in [Dialect::Postgres, Dialect::Mysql] {
                load(dialect, mask, of, None).unwrap_or_else(|errors| panic!("{errors}"));
            }
        }
    }

    #[test]
    fn hashes_need_a_secret() {
        for (secret, message) in [
            (None, "needs the operator's secret"),
            (Some("short"), "at least 32 bytes"),
        ] {
            let errors = load(Dialect::Postgres, "hash", "name", secret).unwrap_err();
            let problem = &errors.problems()[0];
            assert!(problem.message.contains(message), "{errors}");
            assert_eq!(problem.line, Some(2));
        }
        let key = |mask: &str, of: &str, secret: &str| {
            let set = load(Dialect::Postgres, mask, of, Some(secret)).unwrap();
            let view = set.session(&fixture::agent("bot"));
            let relation = &set.catalog().relations()[0];
            let decision = view.relation(relation.id).unwrap();
            let index = usize::from(relation.position(of).unwrap());
            let ColumnLevel::Masked(Mask::Hash(hash)) = &decision.columns[index].level else {
                panic!("{decision:?}")
            };
            (hash.key.clone().unwrap(), set.version().to_owned())
        };
        let other = format!("{SECRET}x");
        assert_ne!(key("hash", "name", SECRET).0, key("hash", "born", SECRET).0);
        assert_ne!(key("hash", "name", SECRET), key("hash", "name", &other));
        assert_eq!(
            key("hash(d)", "name", SECRET).0,
            key("hash(d)", "born", SECRET).0
        );
    }
}
