//! Columns and constraints of tables that are created or altered.

use sqlparser::{
    ast::{
        CheckConstraint, ColumnDef, ColumnOption, ColumnOptionDef, Expr, ForeignKeyConstraint,
        GeneratedAs, Ident, IndexColumn, ObjectName, ObjectNamePart, PrimaryKeyConstraint,
        TableConstraint, UniqueConstraint, Value,
    },
    tokenizer::Token,
};

use crate::resolve::{
    Resolver,
    expr::plain_name,
    query::Ctes,
    refuse_unsupported,
    scope::{Columns, Scope, Source},
};
use crate::{access::Usage, catalog::ColumnId, dialect::Dialect, rejection::Rejection};

/// Whether rows are known to have NULL in a column that they are not given: the definition has no default, no expression, and no place
/// where numbers begin.
pub(in crate::resolve) fn gives_no_values(column: &ColumnDef) -> bool {
    let is_null = |value: &Expr| match value {
        Expr::Value(value) => value.value == Value::Null,
        _ => false,
    };
    column.options.iter().all(|option| match &option.option {
        ColumnOption::Null
        | ColumnOption::NotNull
        | ColumnOption::Comment(_)
        | ColumnOption::PrimaryKey(_)
        | ColumnOption::Unique(_)
        | ColumnOption::ForeignKey(_)
        | ColumnOption::Check(_)
        | ColumnOption::Collation(_) => true,
        ColumnOption::Default(value) => is_null(value),
        _ => false,
    })
}

impl<'a> Resolver<'a> {
    pub(in crate::resolve) fn column_def(
        &mut self,
        column: &mut ColumnDef,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let ColumnDef {
            name,
            data_type,
            options,
        } = column;
        self.normalise(name);
        self.cast_type(data_type)?;
        for ColumnOptionDef { name, option } in options {
            self.constraint_name(name);
            self.column_option(option, scope)?;
        }
        Ok(())
    }

    fn column_option(
        &mut self,
        option: &mut ColumnOption,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        match option {
            ColumnOption::Null | ColumnOption::NotNull | ColumnOption::Comment(_) => Ok(()),
            ColumnOption::Default(value) => {
                let nothing = Scope::new(self.catalog.dialect(), None);
                self.expr(value, &nothing, Ctes::NONE, Usage::Output)?;
                Ok(())
            }
            ColumnOption::PrimaryKey(key) => self.primary_key(key, scope),
            ColumnOption::Unique(key) => self.unique(key, scope),
            ColumnOption::ForeignKey(key) => self.foreign_key(key, scope),
            ColumnOption::Check(check) => self.check(check, scope),
            ColumnOption::Generated {
                generated_as: GeneratedAs::Always | GeneratedAs::ByDefault | GeneratedAs::ExpStored,
                sequence_options: None,
                generation_expr,
                generation_expr_mode: _,
                generated_keyword: _,
            } => {
                if let Some(expr) = generation_expr {
                    self.expr(expr, scope, Ctes::NONE, Usage::Output)?;
                }
                Ok(())
            }
            ColumnOption::Collation(name) => plain_name(name),
            ColumnOption::DialectSpecific(tokens) => match tokens.as_slice() {
                [Token::Word(word)]
                    if word.quote_style.is_none()
                        && ["AUTO_INCREMENT", "AUTOINCREMENT"]
                            .iter()
                            .any(|known| word.value.eq_ignore_ascii_case(known)) =>
                {
                    Ok(())
                }
                _ => Err(refuse_unsupported("an option of a column")),
            },
            _ => Err(refuse_unsupported("an option of a column")),
        }
    }

    pub(in crate::resolve) fn table_constraint(
        &mut self,
        constraint: &mut TableConstraint,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        match constraint {
            TableConstraint::PrimaryKey(key) => self.primary_key(key, scope),
            TableConstraint::Unique(key) => self.unique(key, scope),
            TableConstraint::ForeignKey(key) => self.foreign_key(key, scope),
            TableConstraint::Check(check) => self.check(check, scope),
            _ => Err(refuse_unsupported("a constraint of this kind")),
        }
    }

    fn primary_key(
        &mut self,
        key: &mut PrimaryKeyConstraint,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let PrimaryKeyConstraint {
            name,
            index_name,
            index_type,
            columns,
            include,
            index_options,
            characteristics: _,
        } = key;
        if index_name.is_some()
            || index_type.is_some()
            || !include.is_empty()
            || !index_options.is_empty()
        {
            return Err(refuse_unsupported("an option of a primary key"));
        }
        self.constraint_name(name);
        // SQLite's `PRIMARY KEY (id AUTOINCREMENT)` (<https://www.sqlite.org/syntax/table-constraint.html>), whose word the
        // parser keeps as it does the class of an operator.
        let is_counted = match columns.as_slice() {
            [column] => self.catalog.dialect() == Dialect::Sqlite && is_autoincrement(column),
            [] | [_, ..] => false,
        };
        for column in columns {
            let counted = column.operator_class.take_if(|_| is_counted);
            self.index_column(column, scope)?;
            column.operator_class = counted;
        }
        Ok(())
    }

    fn unique(
        &mut self,
        key: &mut UniqueConstraint,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let UniqueConstraint {
            name,
            index_name,
            index_type_display: _,
            index_type,
            columns,
            include,
            index_options,
            characteristics: _,
            nulls_distinct: _,
        } = key;
        if index_type.is_some() || !include.is_empty() || !index_options.is_empty() {
            return Err(refuse_unsupported("an option of a unique constraint"));
        }
        self.constraint_name(name);
        self.constraint_name(index_name);
        for column in columns {
            self.index_column(column, scope)?;
        }
        Ok(())
    }

    /// A foreign key tells which values its target holds: they are read.
    fn foreign_key(
        &mut self,
        key: &mut ForeignKeyConstraint,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let ForeignKeyConstraint {
            name,
            index_name,
            columns,
            foreign_table,
            referred_columns,
            on_delete: _,
            on_update: _,
            match_kind: _,
            characteristics: _,
        } = key;
        self.constraint_name(name);
        self.constraint_name(index_name);
        for column in columns {
            self.use_column(column, scope, Usage::Join)?;
        }
        if self.is_new(foreign_table, scope) {
            // It references itself, and nothing that is there.
            for column in referred_columns {
                self.use_column(column, scope, Usage::Join)?;
            }
            return Ok(());
        }
        let source = self.table(foreign_table, &mut None, Ctes::NONE)?;
        let Some(relation) = source.columns.relation() else {
            return Err(refuse_unsupported("a reference to this relation"));
        };
        if self.catalog.dialect() == Dialect::Sqlite {
            // There a reference stays within its schema, which is not written.
            *foreign_table = ObjectName::from(self.encode(&relation.name));
        }
        if referred_columns.is_empty() {
            for index in relation.primary_key.clone() {
                self.touch(
                    ColumnId {
                        relation: relation.id,
                        index,
                    },
                    Usage::Join,
                );
            }
        }
        let mut referred = Scope::new(self.catalog.dialect(), None);
        referred.sources.push(source);
        for column in referred_columns {
            self.use_column(column, &referred, Usage::Join)?;
        }
        Ok(())
    }

    /// Whether `name` is the table that is being created, whose columns are in `scope`; it is completed then.
    fn is_new(&self, name: &mut ObjectName, scope: &Scope<'a, '_>) -> bool {
        let Some(Source {
            qualifier: Some(own),
            schema: Some(schema),
            columns: Columns::Derived(_),
        }) = scope.sources.first()
        else {
            return false;
        };
        let is_own = match name.0.as_slice() {
            [ObjectNamePart::Identifier(last)] => {
                **schema == *self.catalog.fold_relation(self.catalog.default_schema())
                    && *self.table_key(last) == **own
            }
            [
                ObjectNamePart::Identifier(first),
                ObjectNamePart::Identifier(last),
            ] => *self.table_key(first) == **schema && *self.table_key(last) == **own,
            [] | [_, ..] => false,
        };
        if is_own {
            let last = self.encode(own);
            *name = match self.catalog.dialect() {
                Dialect::Sqlite => ObjectName::from(last),
                Dialect::Postgres | Dialect::Mysql => {
                    ObjectName::from(vec![self.encode(schema), last])
                }
            };
        }
        is_own
    }

    fn check(
        &mut self,
        check: &mut CheckConstraint,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let CheckConstraint {
            name,
            expr,
            no_inherit: _,
            enforced: _,
        } = check;
        self.constraint_name(name);
        self.expr(expr, scope, Ctes::NONE, Usage::Filter)?;
        Ok(())
    }

    /// A column that a definition uses by its bare name.
    pub(in crate::resolve) fn use_column(
        &mut self,
        column: &mut Ident,
        scope: &Scope<'a, '_>,
        usage: Usage,
    ) -> Result<(), Rejection> {
        let mut expr = Expr::Identifier(column.clone());
        self.expr(&mut expr, scope, Ctes::NONE, usage)?;
        self.normalise(column);
        Ok(())
    }

    fn constraint_name(&self, name: &mut Option<Ident>) {
        if let Some(name) = name {
            self.normalise(name);
        }
    }
}

/// Whether a column of a key has SQLite's AUTOINCREMENT.
fn is_autoincrement(column: &IndexColumn) -> bool {
    let class = column.operator_class.as_ref();
    class.is_some_and(|class| match class.0.as_slice() {
        [ObjectNamePart::Identifier(word)] => {
            word.quote_style.is_none() && word.value.eq_ignore_ascii_case("AUTOINCREMENT")
        }
        [] | [_, ..] => false,
    })
}
