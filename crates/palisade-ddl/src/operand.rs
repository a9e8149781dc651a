//! What an operator or a function takes, by the type that its declaration names.

use palisade::catalog::{OperandDef, TypeClass, TypeKind};
use palisade::dialect::Dialect;

use crate::{
    cursor::{Cursor, Name},
    postgres::types,
    state::SchemaState,
};

/// The type of an operand or a parameter, until it is known which casts there are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeclaredOperand {
    /// There is no operand.
    Absent,
    /// A type of which nothing is known here, such as `anyelement`.
    Any,
    /// A type of the engine's own, or a domain over one.
    Engine(TypeClass),
    /// A type of the database: its schema and name.
    Own(String, String),
}

/// A cast that is applied where nothing is written: the ends are as `CastDef` has them.
pub(super) struct ImplicitCast {
    pub(super) source: (String, String),
    pub(super) target: (String, String),
}

impl DeclaredOperand {
    /// Takes a type.
    pub(super) fn read(cursor: &mut Cursor<'_>, state: &SchemaState) -> Self {
        let Ok(declared) = types::parse_type(cursor, state) else {
            return Self::Any;
        };
        match &declared.named {
            None => Self::from_class(declared.typed.class),
            Some(name) => Self::from_name(name, state),
        }
    }

    fn from_name(name: &Name, state: &SchemaState) -> Self {
        let Some(def) = state.type_named(name) else {
            return Self::from_class(TypeClass::from_name(Dialect::Postgres, &name.name));
        };
        match &def.kind {
            TypeKind::Domain { base: _, check: _ } => Self::from_class(state.class(def)),
            TypeKind::Enum | TypeKind::Composite(_) | TypeKind::Range | TypeKind::Base => {
                Self::Own(def.schema.clone(), def.name.clone())
            }
        }
    }

    fn from_class(class: TypeClass) -> Self {
        if class.is_by_name_alone() {
            Self::Any
        } else {
            Self::Engine(class)
        }
    }

    /// What the engine takes for it.
    pub(super) fn settle(&self, casts: &[ImplicitCast]) -> OperandDef {
        let class_of = |end: &(String, String)| match end.0.as_str() {
            "pg_catalog" => TypeClass::from_name(Dialect::Postgres, &end.1),
            _ => TypeClass::Other,
        };
        let (mut classes, target): (Vec<TypeClass>, _) = match self {
            Self::Absent => return OperandDef::Absent,
            Self::Any => return OperandDef::Any,
            Self::Engine(class) => (class.implicit_sources().to_vec(), None),
            Self::Own(schema, name) => (Vec::new(), Some((schema, name))),
        };
        let reaches = |cast: &&ImplicitCast| match (target, self) {
            (Some((schema, name)), _) => cast.target.0 == *schema && cast.target.1 == *name,
            (None, Self::Engine(class)) => class_of(&cast.target) == *class,
            (None, Self::Absent | Self::Any | Self::Own(..)) => false,
        };
        let sources = casts
            .iter()
            .filter(reaches)
            .map(|cast| class_of(&cast.source));
        classes.extend(sources.filter(|class| *class != TypeClass::Other));
        classes.sort_unstable();
        classes.dedup();
        OperandDef::Classes(classes)
    }

    /// Whether it is of a type that only values of the database's own types can be cast to.
    pub(super) fn is_confined(&self, state: &SchemaState, casts: &[ImplicitCast]) -> bool {
        let Self::Own(schema, name) = self else {
            return false;
        };
        let kind = state
            .types
            .iter()
            .find(|def| def.schema == *schema && def.name == *name)
            .map(|def| &def.kind);
        // A base type may be the preferred one of its category; a row type takes any row.
        matches!(kind, Some(TypeKind::Enum | TypeKind::Range))
            && !casts.iter().any(|cast| {
                cast.target.0 == *schema && cast.target.1 == *name && cast.source.0 == "pg_catalog"
            })
    }
}
