//! Classes of operands: what is known of the values that PostgreSQL chooses an operator or a function by
//! (<https://www.postgresql.org/docs/current/typeconv-oper.html>).

use crate::catalog::{ClassSet, OperandDef, TypeClass};

/// What is known of the value of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::resolve) enum OperandClass {
    /// Nothing.
    Unknown,
    /// It is a literal in quotes or NULL: the engine gives it the type that it needs.
    Untyped,
    /// It is of a type of one of these classes, and of none that the database adds.
    Known(ClassSet),
}

impl OperandClass {
    /// Of one class.
    pub(in crate::resolve) fn from_one(class: TypeClass) -> Self {
        Self::Known(ClassSet::from_list(&[class]))
    }

    /// A number of any type.
    pub(in crate::resolve) fn numbers() -> Self {
        Self::Known(ClassSet::from_list(&[
            TypeClass::Integer,
            TypeClass::Decimal,
            TypeClass::Number,
        ]))
    }

    /// The class of an engine's type; unknown where it has none.
    pub(in crate::resolve) fn from_class(class: TypeClass) -> Self {
        if class.is_by_name_alone() {
            Self::Unknown
        } else {
            Self::from_one(class)
        }
    }

    /// The classes; none where nothing is known.
    pub(in crate::resolve) fn classes(self) -> ClassSet {
        match self {
            Self::Unknown | Self::Untyped => ClassSet::default(),
            Self::Known(classes) => classes,
        }
    }

    /// Of one of these classes; unknown of none.
    pub(in crate::resolve) fn from_classes(classes: ClassSet) -> Self {
        if classes.is_empty() {
            Self::Unknown
        } else {
            Self::Known(classes)
        }
    }

    /// What a choice between two values gives: CASE, coalesce and their like.
    pub(in crate::resolve) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Untyped, known) | (known, Self::Untyped) => known,
            (Self::Known(one), Self::Known(other)) => Self::Known(one.union(other)),
        }
    }

    /// What a choice among values is: one among literals without a type is a text.
    pub(in crate::resolve) fn settled(self) -> Self {
        match self {
            Self::Untyped => text_operand(),
            Self::Unknown | Self::Known(_) => self,
        }
    }

    fn is_among(&self, classes: &[TypeClass]) -> bool {
        match self {
            Self::Unknown | Self::Untyped => false,
            Self::Known(own) => own.is_within(ClassSet::from_list(classes)),
        }
    }

    pub(in crate::resolve) fn is_number(&self) -> bool {
        self.is_among(&[TypeClass::Integer, TypeClass::Decimal, TypeClass::Number])
    }

    /// Whether it is a point in time.
    pub(in crate::resolve) fn is_moment(&self) -> bool {
        self.is_among(&[TypeClass::Timestamp, TypeClass::TimestampTz])
    }

    /// Whether it may be a text.
    pub(in crate::resolve) fn may_be_text(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Untyped => false,
            Self::Known(classes) => {
                classes.contains(TypeClass::Text) || classes.contains(TypeClass::Padded)
            }
        }
    }

    pub(in crate::resolve) fn is_text(&self) -> bool {
        self.is_among(&[TypeClass::Text, TypeClass::Padded])
    }

    /// Whether the engine may take the value for an operand or a parameter that a database declares.
    pub(in crate::resolve) fn may_be(&self, def: &OperandDef) -> bool {
        match self {
            Self::Unknown | Self::Untyped => *def != OperandDef::Absent,
            Self::Known(classes) => !classes.iter().all(|class| def.excludes(class)),
        }
    }

    /// Whether the engine has comparisons for exactly these types. It has none of `character varying`, `cidr` or `json`:
    /// those it compares as values of another type, or not at all.
    fn compares_exactly(&self) -> bool {
        match self {
            Self::Unknown | Self::Untyped => false,
            Self::Known(classes) => {
                let others = [TypeClass::Json, TypeClass::Text, TypeClass::Network];
                others.iter().all(|class| !classes.contains(*class))
            }
        }
    }
}

/// The operands of an operator.
#[derive(Debug, Clone)]
pub(in crate::resolve) enum Operands {
    /// `left op right`
    Binary(OperandClass, OperandClass),
    /// `op right`
    Prefix(OperandClass),
}

impl Operands {
    /// A comparison of two values of which nothing is known.
    pub(in crate::resolve) fn unknown() -> Self {
        Self::Binary(OperandClass::Unknown, OperandClass::Unknown)
    }

    /// Whether the engine may choose an operator of these operands, `symbol` by name.
    pub(in crate::resolve) fn may_choose(
        &self,
        symbol: &str,
        left: &OperandDef,
        right: &OperandDef,
    ) -> bool {
        match self {
            Self::Prefix(operand) => *left == OperandDef::Absent && operand.may_be(right),
            Self::Binary(one, other) => {
                // A literal without a type is taken to be like the other operand, where the engine compares such values.
                let (one, other) = match (one, other) {
                    (OperandClass::Untyped, known) | (known, OperandClass::Untyped)
                        if known.compares_exactly() && is_comparison(symbol) =>
                    {
                        (known, known)
                    }
                    // Two of them are taken for texts.
                    (OperandClass::Untyped, OperandClass::Untyped) if is_comparison(symbol) => {
                        return text_operand().may_be(left) && text_operand().may_be(right);
                    }
                    both => both,
                };
                one.may_be(left) && other.may_be(right)
            }
        }
    }
}

/// The operands of each comparison of a row with what a query gives. What has no counterpart is compared with anything.
pub(in crate::resolve) fn pair_operands(
    sides: Vec<OperandClass>,
    outputs: Vec<OperandClass>,
) -> Vec<Operands> {
    if sides.len() != outputs.len() {
        return vec![Operands::unknown()];
    }
    let pairs = sides.into_iter().zip(outputs);
    pairs
        .map(|(side, output)| Operands::Binary(side, output))
        .collect()
}

pub(in crate::resolve) fn text_operand() -> OperandClass {
    OperandClass::from_one(TypeClass::Text)
}

fn is_comparison(symbol: &str) -> bool {
    matches!(symbol, "=" | "<>" | "<" | "<=" | ">" | ">=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_that_compare_are_six() {
        for (symbol, expected) in [
            ("=", true),
            ("<>", true),
            ("<", true),
            ("<=", true),
            (">", true),
            (">=", true),
            ("+", false),
            ("||", false),
            ("==", false),
        ] {
            assert_eq!(is_comparison(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn two_literals_without_a_type_are_compared_as_texts() {
        let text = OperandDef::Classes(vec![TypeClass::Text]);
        let number = OperandDef::Classes(vec![TypeClass::Integer]);
        let literals = Operands::Binary(OperandClass::Untyped, OperandClass::Untyped);
        for (left, right, expected) in [
            (&text, &text, true),
            (&text, &number, false),
            (&number, &text, false),
            (&number, &number, false),
        ] {
            let found = literals.may_choose("=", left, right);
            assert_eq!(found, expected, "{left:?} {right:?}");
        }
    }
}
