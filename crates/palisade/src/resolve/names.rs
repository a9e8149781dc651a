//! Refusals of names that do not exist, with the nearest that does.

use std::borrow::Cow;

use crate::resolve::Resolver;
use crate::{
    catalog::{Relation, RelationKind},
    code::Code,
    dialect::Dialect,
    did_you_mean, ident,
    policy::obligation::{RelationDecision, Visibility},
    rejection::Rejection,
    syntax::encode,
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

/// The refusal of a column name, with the nearest visible one.
pub(in crate::resolve) fn unknown_column(
    shown: &str,
    candidates: &[String],
    dialect: Dialect,
) -> Rejection {
    let message = match did_you_mean::closest(shown, candidates.iter().map(String::as_str)) {
        Some(name) => {
            let name = quote_if_needed(name, dialect);
            format!("there is no column `{shown}`; did you mean `{name}`?")
        }
        None => format!("there is no column `{shown}`"),
    };
    Rejection::new(Code::NameUnknownColumn, message)
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
