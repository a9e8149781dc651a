//! Casts that a database defines: each is a function that the statement calls
//! (<https://www.postgresql.org/docs/current/sql-createcast.html>).
//!
//! What an expression is of is not known here, but which columns it is made from is. A cast of the database is
//! counted where a value of its types takes part; what none of them takes part in cannot call it.

use sqlparser::ast::DataType;

use crate::resolve::{Resolver, expr::operand_class::OperandClass};
use std::collections::BTreeSet;

use crate::catalog::{
    CastDef, ColumnId, TypeClass, TypeKind, functions::FunctionDef, postgres_type_name,
};
use crate::{access::Usage, code::Code, dialect::Dialect, rejection::Rejection};

/// A type by schema and name.
type Own = (String, String);

/// What a column gets.
#[derive(Debug, Clone)]
pub(in crate::resolve) struct AssignedValue {
    /// The columns that it is made from.
    pub(in crate::resolve) columns: BTreeSet<ColumnId>,
    /// What else is known of it.
    pub(in crate::resolve) operand: OperandClass,
}

impl AssignedValue {
    /// No value but the column's default: what a row gives comes to it by [`add`](Self::add).
    pub(in crate::resolve) fn from_default() -> Self {
        Self {
            columns: BTreeSet::new(),
            operand: OperandClass::Untyped,
        }
    }

    /// Adds the value of another row.
    pub(in crate::resolve) fn add(&mut self, other: Self) {
        self.columns.extend(other.columns);
        let own = std::mem::replace(&mut self.operand, OperandClass::Unknown);
        self.operand = own.or(other.operand);
    }
}

/// The schema of the types that are PostgreSQL's own.
const SYSTEM: &str = "pg_catalog";

/// How many domains may stand over each other.
pub(in crate::resolve) const MAX_DOMAINS: usize = 64;

impl Resolver<'_> {
    /// `CAST(value AS target)`, of a value made from these columns; `own` if the target is of the database.
    pub(in crate::resolve) fn explicit_cast(
        &mut self,
        target: &DataType,
        own: Option<Own>,
        columns: &[ColumnId],
    ) {
        if self.catalog.casts().is_empty() {
            return;
        }
        let Some(target) =
            own.or_else(|| Some((SYSTEM.to_owned(), postgres_type_name(&target.to_string()))))
        else {
            return;
        };
        let called: Vec<String> = self
            .catalog
            .casts()
            .iter()
            .filter(|cast| cast.target == target)
            .filter(|cast| is_system(&cast.source) || self.takes_part(&cast.source, columns))
            .map(|cast| cast.function.clone())
            .collect();
        self.access.functions.extend(called);
        if !is_system(&target) {
            self.user_types.cast_to.insert(target);
        }
    }

    /// Columns that get values, each of which may be cast to its column's type.
    ///
    /// # Errors
    /// If one of them is there twice: engines differ in which value counts, or take it for a mistake.
    pub(in crate::resolve) fn assign(
        &mut self,
        columns: &[ColumnId],
        values: &[AssignedValue],
    ) -> Result<(), Rejection> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = columns.iter().find(|column| !seen.insert(**column)) {
            let name = self.catalog.column(*twice).map_or("", |c| &*c.name);
            return Err(Rejection::new(
                Code::SyntaxInvalid,
                format!("column `{name}` is assigned more than once"),
            ));
        }
        for column in columns {
            self.touch(*column, Usage::Write);
        }
        let called: Vec<String> = self
            .catalog
            .casts()
            .iter()
            .filter(|cast| {
                // A value that is not known may be of any type.
                let values = values.iter().map(Some).chain(std::iter::repeat(None));
                columns.iter().zip(values).any(|(column, value)| {
                    self.is_of(*column, &cast.target)
                        && value.is_none_or(|value| self.may_be_cast(value, cast))
                })
            })
            .map(|cast| cast.function.clone())
            .collect();
        self.access.functions.extend(called);
        Ok(())
    }

    fn may_be_cast(&self, value: &AssignedValue, cast: &CastDef) -> bool {
        if !is_system(&cast.source) {
            return self.takes_part(&cast.source, &value.columns);
        }
        match value.operand.settled() {
            OperandClass::Unknown | OperandClass::Untyped => true,
            OperandClass::Known(classes) => {
                classes.contains(TypeClass::from_name(Dialect::Postgres, &cast.source.1))
            }
        }
    }

    /// Values that an operator, a call or the like brings together, each made from these columns: one of them
    /// may be cast to be like another, or as a parameter is.
    pub(in crate::resolve) fn implicit_casts(&mut self, operands: &[&[ColumnId]]) {
        if self.catalog.casts().is_empty() {
            return;
        }
        let called: Vec<String> = self
            .catalog
            .casts()
            .iter()
            .filter(|cast| cast.implicit && self.may_apply(cast, operands))
            .map(|cast| cast.function.clone())
            .collect();
        self.access.functions.extend(called);
    }

    /// Arguments of a call of `called`, each made from these columns: a function that makes JSON calls the casts that the database has to
    /// JSON (<https://www.postgresql.org/docs/current/functions-json.html#FUNCTIONS-JSON-CREATION-TABLE>).
    pub(in crate::resolve) fn casts_to_json(
        &mut self,
        called: &[&FunctionDef],
        operands: &[&[ColumnId]],
    ) {
        if self.catalog.casts().is_empty() || !called.iter().any(|def| def.name.contains("json")) {
            return;
        }
        let taken: Vec<String> = self
            .catalog
            .casts()
            .iter()
            .filter(|cast| {
                let mut operands = operands.iter();
                is_to_json(cast)
                    && operands.any(|columns| {
                        self.takes_part(&cast.source, *columns) || self.has_parts(columns)
                    })
            })
            .map(|cast| cast.function.clone())
            .collect();
        self.access.functions.extend(taken);
    }

    /// Whether one of these columns holds rows, whose parts may be of any type.
    fn has_parts(&self, columns: &[ColumnId]) -> bool {
        let composites = self.catalog.types().iter().filter(|def| match &def.kind {
            TypeKind::Composite(_) => true,
            TypeKind::Domain { base: _, check: _ }
            | TypeKind::Enum
            | TypeKind::Range
            | TypeKind::Base => false,
        });
        let composites = composites.map(|def| (def.schema.clone(), def.name.clone()));
        let tables = (self.catalog.relations().iter())
            .map(|relation| (relation.schema.clone(), relation.name.clone()));
        let rows: Vec<Own> = composites.chain(tables).collect();
        columns.iter().any(|id| {
            let declared = self.catalog.column(*id).map(|column| &*column.type_name);
            declared.is_some_and(|name| rows.iter().any(|own| self.spells(name, own)))
        })
    }

    /// Whether the database says how values of types of its own become JSON.
    pub(in crate::resolve) fn has_casts_to_json(&self) -> bool {
        self.catalog.casts().iter().any(is_to_json)
    }

    fn may_apply(&self, cast: &CastDef, operands: &[&[ColumnId]]) -> bool {
        let among = |own: &Own| {
            operands
                .iter()
                .any(|columns| self.takes_part(own, *columns))
        };
        let CastDef {
            source,
            target,
            function: _,
            implicit: _,
        } = cast;
        match (is_system(source), is_system(target)) {
            (false, _) => among(source),
            // Nothing is cast to a type that everything already is of.
            (true, false) => {
                let all = operands.iter().all(|columns| {
                    !columns.is_empty() && columns.iter().all(|column| self.is_of(*column, target))
                });
                among(target) && !all
            }
            (true, true) => true,
        }
    }

    /// Whether a value made from these columns may be of the type, or have parts that are.
    fn takes_part<'c>(&self, own: &Own, columns: impl IntoIterator<Item = &'c ColumnId>) -> bool {
        self.user_types.has_own_calls
            || self.user_types.cast_to.contains(own)
            || columns.into_iter().any(|column| self.is_of(*column, own))
    }

    fn is_of(&self, column: ColumnId, own: &Own) -> bool {
        let row = self
            .catalog
            .relation(column.relation)
            .is_some_and(|relation| relation.schema == own.0 && relation.name == own.1);
        let declared = self.catalog.column(column).map(|c| &*c.type_name);
        row || declared.is_some_and(|name| self.spells(name, own))
    }

    /// Whether a type as it is declared is `own`, an array of it, or a domain over it.
    fn spells(&self, declared: &str, own: &Own) -> bool {
        let mut declared = declared;
        for _ in 0..MAX_DOMAINS {
            if is_called(declared, own) {
                return true;
            }
            let domain = self.catalog.types().iter().find_map(|def| match &def.kind {
                TypeKind::Domain { base, check: _ } => {
                    let name = (def.schema.clone(), def.name.clone());
                    is_called(declared, &name).then_some(base.as_str())
                }
                TypeKind::Enum | TypeKind::Composite(_) | TypeKind::Range | TypeKind::Base => None,
            });
            match domain {
                Some(base) => declared = base,
                None => return false,
            }
        }
        true
    }
}

fn is_to_json(cast: &CastDef) -> bool {
    is_system(&cast.target) && matches!(cast.target.1.as_str(), "json" | "jsonb")
}

fn is_system(own: &Own) -> bool {
    own.0 == SYSTEM
}

/// Whether a type's declared name is this one, with its schema or without, or an array of it.
pub(in crate::resolve) fn is_called(declared: &str, own: &Own) -> bool {
    let element = declared.split(['[', '(']).next().unwrap_or_default().trim();
    let name = crate::ident::qualify([own.1.as_str()]);
    element == name || element == crate::ident::qualify([own.0.as_str(), own.1.as_str()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_called_by_its_name_with_or_without_its_schema() {
        let own = ("public".to_owned(), "mood".to_owned());
        for (declared, expected) in [
            ("mood", true),
            ("public.mood", true),
            ("mood[]", true),
            ("public.mood[]", true),
            ("mood(3)", true),
            ("other.mood", false),
            ("moods", false),
            ("public", false),
        ] {
            assert_eq!(is_called(declared, &own), expected, "{declared}");
        }
    }
}
