//! A name in FROM: a common table expression, a relation of the visible catalog, or one of the engine's own.

use std::sync::Arc;

use sqlparser::{
    ast::{Ident, ObjectName, ObjectNamePart, Spanned as _, TableAlias},
    tokenizer::{Location, Span},
};

use crate::resolve::{
    Mode, Reference, Resolver, ViewBody,
    from::plain_alias,
    names::suggest_common_table,
    not_as_decided,
    query::Ctes,
    refuse_unsupported, refuse_with_replacement,
    scope::{Columns, Output, Source},
};
use crate::{
    catalog::{Relation, RelationKind, SystemRelation, system_relation},
    code::Code,
    dialect::Dialect,
    lineage::Lineage,
    policy::obligation::Visibility,
    rejection::Rejection,
    syntax::decode,
};

/// A line no text has: the span of an identifier that marks a physical reference.
const MARK: u64 = u64::MAX;

/// `ident`, marked as the reference with this index.
pub(in crate::resolve) fn mark_schema(mut ident: Ident, index: usize) -> Ident {
    let at = Location {
        line: MARK,
        column: u64::try_from(index).unwrap_or(MARK),
    };
    ident.span = Span { start: at, end: at };
    ident
}

/// The index of the reference that `name` was marked as.
pub(crate) fn reference_index(name: &ObjectName) -> Option<usize> {
    let start = name.0.first()?.as_ident()?.span.start;
    (start.line == MARK)
        .then(|| usize::try_from(start.column).ok())
        .flatten()
}

impl<'a> Resolver<'a> {
    /// A name in FROM: a CTE in scope, else a relation of the visible catalog.
    pub(in crate::resolve) fn table(
        &mut self,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        let (schema, last) = self.schema_and_name(name)?;
        let shown = self.table_name(last).into_owned();
        let schema = schema.map(|schema| self.table_key(schema).into_owned());
        let key = self.table_key(last).into_owned();
        // MariaDB compares these names without regard to case, whatever it does with those of tables
        // (`With_clause::find_table_def` in its source).
        let cte = ctes.find(&self.key(last));
        if schema.is_none()
            && let Some(cte) = cte
        {
            self.refuse_other_case(&cte.written, &key, &shown)?;
            let Some(columns) = cte.columns.clone() else {
                let why = if cte.changes {
                    "gives no rows without RETURNING"
                } else {
                    "reads itself without UNION"
                };
                return Err(Rejection::new(
                    Code::SyntaxInvalid,
                    format!("the common table expression `{key}` {why}"),
                ));
            };
            if decode(&cte.name) != shown && alias.is_none() {
                *alias = Some(plain_alias(self.encode(&shown)));
            }
            *last = cte.name.clone();
            // Engines plan it again for each reading.
            self.count_relation(1)?;
            self.failures.read_cte(&cte.key);
            self.work.arms = cte.arms;
            return self.alias_source(alias, Some(key.into()), None, Columns::Derived(columns));
        }
        // `dual` is a table of one row that every MySQL has.
        if self.catalog.dialect() == Dialect::Mysql
            && key.eq_ignore_ascii_case("dual")
            && schema.is_none()
            && self.catalog.lookup(&key).is_none()
        {
            *last = Ident::new("DUAL");
            return Ok(Source {
                qualifier: None,
                schema: None,
                columns: Columns::Derived(Vec::new()),
            });
        }
        if self.is_system_name(schema.as_deref(), &key)
            && let Some(source) = self.system(schema.as_deref(), &key, &shown, name, alias)?
        {
            return Ok(source);
        }
        let is_bare = schema.is_none();
        let found = self.in_catalog(schema.as_deref(), &key, &shown);
        let source = found.and_then(|relation| self.relation(name, relation, alias, &shown));
        source.map_err(|why| match is_bare {
            true => suggest_common_table(why, &shown, ctes, self.catalog.dialect()),
            false => why,
        })
    }

    /// Refuses a name that is a table's as it is written and a CTE's in other letters: MariaDB reads the CTE, MySQL the table
    /// (<https://dev.mysql.com/doc/refman/8.4/en/identifier-case-sensitivity.html>).
    fn refuse_other_case(&self, written: &str, key: &str, shown: &str) -> Result<(), Rejection> {
        let Some(relation) = self.catalog.lookup(key) else {
            return Ok(());
        };
        if written == key || self.visible.relation(relation.id)?.visibility == Visibility::Absent {
            return Ok(());
        }
        Err(Rejection::new(
            Code::NameAmbiguous,
            format!(
                "`{shown}` is a table, and `{}` a common table expression: MySQL and MariaDB read such names differently. \
                 Give the common table expression another name",
                written
            ),
        ))
    }

    /// The relation of the catalog called `key`, in the search path or in `schema`; both are folded.
    ///
    /// # Errors
    /// `name.system-relation` for a relation of the engine's own, `name.unknown-relation` where there is none.
    pub(in crate::resolve) fn in_catalog(
        &self,
        schema: Option<&str>,
        key: &str,
        shown: &str,
    ) -> Result<&'a Relation, Rejection> {
        let found = match schema {
            Some(schema) => self.catalog.find_by_key(schema, key),
            None => self.catalog.lookup(key),
        };
        if self.is_system_name(schema, key) || found.is_some_and(|r| r.kind == RelationKind::System)
        {
            let refused = Rejection::new(
                Code::NameSystemRelation,
                format!("`{shown}` is a system relation"),
            );
            let known = self.known_system(schema, key);
            return Err(match known.map(|known| (known.uid(), known.class.name())) {
                Some((uid, class)) => refused.with_operator_detail(format!(
                    "`{uid}` ({class}) is read by a permit of `select` with `resource == Table::{uid:?}` in its scope"
                )),
                None => refused,
            });
        }
        found.ok_or_else(|| self.unknown_relation(shown))
    }

    /// What is known of a relation of the engine's own that these folded names mean.
    fn known_system(&self, schema: Option<&str>, key: &str) -> Option<&'static SystemRelation> {
        let dialect = self.catalog.dialect();
        let schema = schema.unwrap_or("pg_catalog").to_lowercase();
        match dialect {
            Dialect::Sqlite | Dialect::Postgres => system_relation(dialect, &schema, key),
            Dialect::Mysql => system_relation(dialect, &schema, &key.to_lowercase()),
        }
    }

    /// A relation of the engine's own. Policies that name it decide about it. Any other is open, if it tells of names alone, to
    /// sessions from which nothing is hidden.
    fn system(
        &mut self,
        schema: Option<&str>,
        key: &str,
        shown: &str,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
    ) -> Result<Option<Source<'a>>, Rejection> {
        let Some(known) = self.known_system(schema, key) else {
            return Ok(None);
        };
        if let Some(relation) = self.catalog.find_by_key(&known.schema, &known.name) {
            let decision = self.visible.relation(relation.id)?;
            return match decision.visibility {
                Visibility::Selectable => self.relation(name, relation, alias, shown).map(Some),
                // To the session it is like any other that it may not read.
                Visibility::Absent | Visibility::Discoverable(_) => {
                    match self.in_catalog(schema, key, shown) {
                        Ok(_) => Ok(None),
                        Err(refused) => Err(refused.with_policies(decision.policies.clone())),
                    }
                }
            };
        }
        if !self.visible.reads_system(known)? {
            return Ok(None);
        }
        self.count_relation(1)?;
        self.failures.sources += 1;
        let key = (known.schema.clone(), known.name.clone());
        self.access.system.insert(key);
        name.0 = [&known.schema, &known.name]
            .into_iter()
            .map(|part| ObjectNamePart::Identifier(self.encode(part)))
            .collect();
        let dialect = self.catalog.dialect();
        let columns = self.catalog.system_columns(known);
        let columns = columns.into_iter().filter_map(|column| {
            let key = dialect.fold(&column.name);
            // Others are not reviewed.
            known.columns.contains(&key).then(|| Output {
                name: column.name.into(),
                key: key.into(),
                lineage: Lineage::default(),
            })
        });
        let columns = Columns::Derived(columns.collect());
        let (schema, key) = (known.schema.as_str().into(), known.name.as_str().into());
        self.alias_source(alias, Some(key), Some(schema), columns)
            .map(Some)
    }

    /// The parts of `[schema.]name`, which may stand behind the database at hand.
    pub(in crate::resolve) fn schema_and_name<'n>(
        &self,
        name: &'n mut ObjectName,
    ) -> Result<(Option<&'n Ident>, &'n mut Ident), Rejection> {
        self.drop_database(name);
        match name.0.as_mut_slice() {
            [ObjectNamePart::Identifier(last)] => Ok((None, last)),
            [
                ObjectNamePart::Identifier(schema),
                ObjectNamePart::Identifier(last),
            ] => Ok((Some(schema), last)),
            [_, _, _] => Err(refuse_with_replacement(
                "a relation name of this form",
                "the table's name, or schema.table, without the database",
            )),
            _ => Err(refuse_unsupported("a relation name of this form")),
        }
    }

    /// Takes the database off `database.schema.table` where it is the one at hand.
    fn drop_database(&self, name: &mut ObjectName) {
        if self.catalog.dialect() == Dialect::Postgres
            && name.0.len() == 3
            && let Some(ObjectNamePart::Identifier(database)) = name.0.first()
            && self.table_key(database) == self.catalog.database()
        {
            name.0.remove(0);
        }
    }

    /// Whether a CTE of this name could be mistaken for a relation of the engine's own.
    pub(in crate::resolve) fn is_reserved(&self, key: &str) -> bool {
        self.is_system_name(None, key)
            || (self.catalog.dialect() == Dialect::Mysql && key == "dual")
    }

    /// Whether a name means a relation of the engine's own, whatever the catalog holds.
    pub(in crate::resolve) fn is_system_name(&self, schema: Option<&str>, key: &str) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => key.starts_with("sqlite_") || key.starts_with("pragma_"),
            Dialect::Postgres => match schema {
                None => key.starts_with("pg_"),
                Some(schema) => schema.starts_with("pg_") || schema == "information_schema",
            },
            Dialect::Mysql => schema.is_some_and(|schema| {
                ["information_schema", "mysql", "performance_schema", "sys"]
                    .iter()
                    .any(|system| schema.eq_ignore_ascii_case(system))
            }),
        }
    }

    fn relation(
        &mut self,
        name: &mut ObjectName,
        relation: &'a Relation,
        alias: &mut Option<TableAlias>,
        shown: &str,
    ) -> Result<Source<'a>, Rejection> {
        let decision = self.visible.relation(relation.id)?;
        match decision.visibility {
            Visibility::Selectable => {}
            Visibility::Absent => return Err(self.absent_relation(relation, &decision, shown)),
            Visibility::Discoverable(code) => {
                let message = decision
                    .message
                    .clone()
                    .unwrap_or_else(|| format!("`{shown}` may not be read"));
                return Err(Rejection::new(code, message).with_policies(decision.policies.clone()));
            }
        }
        if let Mode::Rewritten { sources, writes: _ } = self.mode
            && sources.iter().any(|(id, _)| *id == relation.id)
        {
            return Err(not_as_decided(&format!(
                "`{}` stands outside its source subquery",
                relation.uid
            )));
        }
        self.count_relation(1)?;
        self.access.relations.insert(relation.id);
        let body = match relation.kind {
            RelationKind::View | RelationKind::Materialized => Some(self.view(relation, shown)?),
            RelationKind::Table => None,
            RelationKind::System if relation.system.is_some() => None,
            RelationKind::Virtual | RelationKind::System => {
                return Err(self.unknown_relation(shown));
            }
        };
        self.failures.sources += match &body {
            Some(body) => {
                self.failures.planned |= body.resolved.may_fail;
                body.resolved.sources.max(1)
            }
            None => 1,
        };
        // A materialised view holds what it was computed from as that was.
        let view = body.clone().filter(|_| relation.kind == RelationKind::View);
        self.work.arms = view.as_ref().map_or(1, |body| body.resolved.arms);
        let is_among = |body: &Arc<ViewBody>| body.resolved.gives_tokens();
        self.aggregate_only.is_present |= self.is_statement() && decision.has_aggregate_only();
        self.tokens.are_given |= decision.gives_tokens() || view.as_ref().is_some_and(is_among);
        self.note_relation(name.span(), relation.id);
        let index = self.references.len();
        *name = ObjectName(vec![
            ObjectNamePart::Identifier(mark_schema(self.encode(&relation.schema), index)),
            ObjectNamePart::Identifier(self.encode(&relation.name)),
        ]);
        self.references.push(Reference {
            relation: relation.id,
            decision: decision.clone(),
            body,
            opened: Vec::new(),
            narrowed_by: None,
        });
        let columns = Columns::Relation {
            relation,
            decision,
            hidden_exist: matches!(self.mode, Mode::View { within: _ }),
            bare: false,
            body: view,
        };
        self.alias_source(
            alias,
            Some(Arc::clone(&relation.key)),
            Some(Arc::clone(&relation.schema_key)),
            columns,
        )
    }
}
