//! Sums that cannot fail, whatever values they put together.
//!
//! An engine computes every aggregate of a group before it looks at the condition on the group's size. A sum that fails tells of
//! its values then, however small the group is: a join repeats a row as often as the statement likes, until the sum overflows or
//! does not. So what is added cannot overflow. Where the parts are put together, the group is large enough.

use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, ObjectNamePart, UnaryOperator, Value,
    helpers::attached_token::AttachedToken,
};

use crate::{catalog::postgres_type_name, dialect::Dialect};

/// Two to the power of 21: three digits to this base make every whole number of SQLite.
const BASE: &str = "2097152";
/// The square of [`BASE`].
const BASE_SQUARED: &str = "4398046511104";
/// Values within this bound overflow by no number of rows, neither as `double precision` nor as `numeric`.
const LARGE: &str = "1e290";
/// What makes values beyond [`LARGE`] small enough.
const SHRUNK: &str = "1e-20";
/// The inverse of [`SHRUNK`].
const GROWN: &str = "1e20";
/// Numbers of so many digits are none too large for `double precision`, nor are their squares.
const MOST_DIGITS: u32 = 100;

/// Which aggregate is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Count,
    Sum,
    /// SQLite's `total`, which is a float.
    Total,
    Average,
}

/// How an aggregate is computed so that it cannot fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SumForm {
    /// As it is written: it cannot.
    Written,
    /// SQLite's sum of floats.
    Floats,
    /// SQLite's sum of anything: digits of whole numbers apart, and floats apart. A sum that is too large is a float.
    Digits,
    /// PostgreSQL's sum or average of numbers without a bound: large ones apart.
    LargeApart,
    /// PostgreSQL's sum by way of a type that has room.
    Through { wide: DataType, own: DataType },
}

impl SumForm {
    /// How `kind` of a column is computed, which is of the type `type_name` below domains and cast to `cast` first. None where
    /// it may fail.
    pub(super) fn choose(
        kind: Kind,
        dialect: Dialect,
        type_name: &str,
        cast: Option<&DataType>,
    ) -> Option<Self> {
        match dialect {
            Dialect::Sqlite => match (kind, cast) {
                (_, Some(cast)) => is_sqlite_float(&cast.to_string()).then_some(Self::Written),
                (Kind::Count | Kind::Total | Kind::Average, None) => Some(Self::Written),
                (Kind::Sum, None) if is_sqlite_float(type_name) => Some(Self::Floats),
                (Kind::Sum, None) => Some(Self::Digits),
            },
            // Its decimals have room for any number of rows, and a float that is too large fails nowhere.
            Dialect::Mysql => match cast {
                None
                | Some(
                    DataType::Double(ExactNumberInfo::None)
                    | DataType::DoublePrecision
                    | DataType::Float(ExactNumberInfo::None)
                    | DataType::Real,
                ) => Some(Self::Written),
                Some(_) => None,
            },
            Dialect::Postgres => postgres(kind, type_name, cast),
        }
    }

    /// The aggregate that `call` is, in this form; none of a call that has no column in one of the forms that are read.
    pub(super) fn write(&self, kind: Kind, call: &Function) -> Option<Expr> {
        match self {
            Self::Written => Some(Expr::Function(call.clone())),
            Self::Floats => sum_of(call, |column| cast(column, DataType::Real)),
            Self::Digits => {
                let whole = |column: &Expr| cast(column.clone(), DataType::Integer(None));
                // What is no whole number differs from the whole number that it is cast to.
                let is_other =
                    |column: &Expr| binary(whole(column), BinaryOperator::NotEq, column.clone());
                let digits = |of: fn(Expr) -> Expr| {
                    sum_of(call, |column| {
                        case(is_other(&column), number("0"), of(whole(&column)))
                    })
                };
                let high = digits(|c| binary(c, BinaryOperator::Divide, number(BASE_SQUARED)))?;
                let middle = digits(|c| {
                    let c = binary(c, BinaryOperator::Divide, number(BASE));
                    binary(c, BinaryOperator::Modulo, number(BASE))
                })?;
                let low = digits(|c| binary(c, BinaryOperator::Modulo, number(BASE)))?;
                let others = sum_of(call, |column| {
                    let other = is_other(&column);
                    case(other, cast(column, DataType::Real), number("0"))
                })?;
                let high = binary(high, BinaryOperator::Multiply, number(BASE_SQUARED));
                let middle = binary(middle, BinaryOperator::Multiply, number(BASE));
                let parts = [middle, low, others].into_iter();
                Some(parts.fold(high, |sum, part| binary(sum, BinaryOperator::Plus, part)))
            }
            Self::LargeApart => {
                let is_large = |column: &Expr| Expr::Between {
                    expr: Box::new(column.clone()),
                    negated: true,
                    low: Box::new(Expr::UnaryOp {
                        op: UnaryOperator::Minus,
                        expr: Box::new(number(LARGE)),
                    }),
                    high: Box::new(number(LARGE)),
                };
                let small = sum_of(call, |column| case(is_large(&column), number("0"), column))?;
                let large = sum_of(call, |column| {
                    let shrunk = binary(column.clone(), BinaryOperator::Multiply, number(SHRUNK));
                    case(is_large(&column), shrunk, number("0"))
                })?;
                let large = binary(large, BinaryOperator::Multiply, number(GROWN));
                let sum = binary(small, BinaryOperator::Plus, large);
                match kind {
                    Kind::Average => {
                        let count = Expr::Function(rename_call(call, "count"));
                        let sum = Expr::Nested(Box::new(sum));
                        Some(binary(sum, BinaryOperator::Divide, count))
                    }
                    Kind::Count | Kind::Sum | Kind::Total => Some(sum),
                }
            }
            Self::Through { wide, own } => {
                let sum = sum_of(call, |column| cast(column, wide.clone()))?;
                Some(cast(sum, own.clone()))
            }
        }
    }
}

/// [`SumForm::choose`] on PostgreSQL, whose types have an overflow each.
fn postgres(kind: Kind, type_name: &str, cast: Option<&DataType>) -> Option<SumForm> {
    let own = postgres_type_name(type_name);
    let cast = match cast {
        None => None,
        Some(cast) => {
            let spelled = cast.to_string();
            let target = postgres_type_name(&spelled);
            let is_unbounded = !spelled.contains('(') && !spelled.contains('[');
            // Values stay what they are.
            if !is_unbounded || !matches!(target.as_str(), "double precision" | "numeric") {
                return None;
            }
            Some(target)
        }
    };
    let is_bounded = most_digits(type_name).is_some();
    let form = match (own.as_str(), cast.as_deref()) {
        // Sums of whole numbers have room for any number of rows.
        ("smallint" | "integer" | "bigint", _) => SumForm::Written,
        ("numeric", None | Some("numeric")) if is_bounded => SumForm::Written,
        ("numeric", None | Some("numeric")) => SumForm::LargeApart,
        ("numeric", Some(_)) if most_digits(type_name)? <= MOST_DIGITS => SumForm::Written,
        ("real" | "double precision" | "money", Some("numeric")) => SumForm::Written,
        // Values of `real` are small as `double precision`, and so are their averages computed.
        ("real", Some(_)) => SumForm::Written,
        ("real", None) if kind == Kind::Average => SumForm::Written,
        ("real", None) => SumForm::Through {
            wide: DataType::DoublePrecision,
            own: DataType::Real,
        },
        ("double precision", None | Some(_)) => SumForm::LargeApart,
        ("money", None) if kind == Kind::Sum => SumForm::Through {
            wide: DataType::Numeric(ExactNumberInfo::None),
            own: DataType::Custom(vec![Ident::new("money")].into(), Vec::new()),
        },
        // Nothing overflows by being counted.
        (_, None) if kind == Kind::Count => SumForm::Written,
        // Intervals overflow by each of their parts. Other types have no sum of the engine's own.
        _ => return None,
    };
    Some(match kind {
        Kind::Count => SumForm::Written,
        Kind::Sum | Kind::Total | Kind::Average => form,
    })
}

/// How many digits `numeric(…)` says that there are, before the point and behind it.
fn most_digits(type_name: &str) -> Option<u32> {
    let (_, modifiers) = type_name.split_once('(')?;
    let mut modifiers = modifiers.trim_end_matches(')').split(',');
    let precision: u32 = modifiers.next()?.trim().parse().ok()?;
    let scale: i32 = modifiers.next().unwrap_or("0").trim().parse().ok()?;
    // A scale below zero makes larger numbers.
    Some(precision.saturating_add(u32::try_from(scale.saturating_neg()).unwrap_or(0)))
}

/// Whether a type's name makes numbers floats (<https://www.sqlite.org/datatype3.html#determination_of_column_affinity>).
fn is_sqlite_float(type_name: &str) -> bool {
    let name = type_name.to_ascii_uppercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    has(&["REAL", "FLOA", "DOUB"]) && !has(&["INT", "CHAR", "CLOB", "TEXT", "BLOB"])
}

/// The sum of what `call` puts together, with `change` of the column in its place.
fn sum_of(call: &Function, change: impl FnOnce(Expr) -> Expr) -> Option<Expr> {
    let mut sum = rename_call(call, "sum");
    let FunctionArguments::List(list) = &mut sum.args else {
        return None;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))] = list.args.as_mut_slice() else {
        return None;
    };
    let place = column_place(arg)?;
    let column = std::mem::replace(place, number("0"));
    *place = change(column);
    Some(Expr::Function(sum))
}

/// Where the column stands in what an aggregate puts together, by the forms that are read as such
/// (`Resolver::aggregated_value`).
fn column_place(arg: &mut Expr) -> Option<&mut Expr> {
    match arg {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => Some(arg),
        Expr::Nested(inner) => column_place(inner),
        Expr::Cast {
            kind: _,
            expr,
            data_type: _,
            format: _,
        } => column_place(expr),
        Expr::Case {
            case_token: _,
            end_token: _,
            operand: _,
            conditions,
            else_result: _,
        } => column_place(&mut conditions.first_mut()?.result),
        Expr::Function(Function {
            name: _,
            uses_odbc_syntax: _,
            parameters: _,
            args: FunctionArguments::List(list),
            within_group: _,
            filter: _,
            null_treatment: _,
            over: _,
        }) => match list.args.as_mut_slice() {
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)),
                FunctionArg::Unnamed(_),
            ]
            | [
                FunctionArg::Unnamed(_),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)),
                FunctionArg::Unnamed(_),
            ] => column_place(value),
            _ => None,
        },
        _ => None,
    }
}

/// `call` with another name, in the same schema.
fn rename_call(call: &Function, name: &str) -> Function {
    let mut call = call.clone();
    if let Some(ObjectNamePart::Identifier(last)) = call.name.0.last_mut() {
        *last = Ident::new(name);
    }
    call
}

fn number(text: &str) -> Expr {
    Expr::Value(Value::Number(text.to_owned(), false).into())
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        format: None,
    }
}

/// `CASE WHEN condition THEN result ELSE otherwise END`.
fn case(condition: Expr, result: Expr, otherwise: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: Some(Box::new(otherwise)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    fn choose_form(dialect: Dialect, kind: Kind, type_name: &str, cast: &str) -> Option<SumForm> {
        let cast = (!cast.is_empty()).then(|| syntax::data_type(cast, dialect).unwrap());
        SumForm::choose(kind, dialect, type_name, cast.as_ref())
    }

    #[test]
    fn a_form_has_room_for_what_its_type_can_hold() {
        let through = |wide, own: &str| SumForm::Through {
            wide,
            own: syntax::data_type(own, Dialect::Postgres).unwrap(),
        };
        let rows = [
            ("integer", "", Some(SumForm::Written)),
            ("bigint", "float8", Some(SumForm::Written)),
            ("numeric(10,2)", "", Some(SumForm::Written)),
            ("numeric(10,2)", "float", Some(SumForm::Written)),
            ("numeric(200)", "float", None),
            ("numeric(50,-60)", "float", None),
            ("numeric", "", Some(SumForm::LargeApart)),
            ("numeric", "double precision", None),
            ("double precision", "", Some(SumForm::LargeApart)),
            ("double precision", "float8", Some(SumForm::LargeApart)),
            ("double precision", "numeric", Some(SumForm::Written)),
            ("real", "", Some(through(DataType::DoublePrecision, "real"))),
            ("real", "numeric", Some(SumForm::Written)),
            ("real", "real", None),
            (
                "money",
                "",
                Some(through(DataType::Numeric(ExactNumberInfo::None), "money")),
            ),
            ("money", "numeric", Some(SumForm::Written)),
            ("interval", "", None),
            ("text", "", None),
            ("text", "float8", None),
            ("integer", "numeric(3)", None),
            ("integer", "int", None),
        ];
        for (type_name, cast, expected) in rows {
            let form = choose_form(Dialect::Postgres, Kind::Sum, type_name, cast);
            assert_eq!(form, expected, "{type_name} {cast}");
        }
        for (kind, type_name, expected) in [
            (Kind::Count, "text", Some(SumForm::Written)),
            (Kind::Count, "double precision", Some(SumForm::Written)),
            (Kind::Average, "real", Some(SumForm::Written)),
            (Kind::Average, "double precision", Some(SumForm::LargeApart)),
            (Kind::Average, "interval", None),
            (Kind::Average, "money", None),
        ] {
            let form = choose_form(Dialect::Postgres, kind, type_name, "");
            assert_eq!(form, expected, "{kind:?} {type_name}");
        }
        for (kind, type_name, cast, expected) in [
            (Kind::Sum, "INTEGER", "", Some(SumForm::Digits)),
            (Kind::Sum, "", "", Some(SumForm::Digits)),
            (Kind::Sum, "POINT_REAL", "", Some(SumForm::Digits)),
            (Kind::Sum, "DOUBLE", "", Some(SumForm::Floats)),
            (Kind::Sum, "INTEGER", "REAL", Some(SumForm::Written)),
            (Kind::Sum, "INTEGER", "INTEGER", None),
            (Kind::Total, "INTEGER", "", Some(SumForm::Written)),
            (Kind::Average, "INTEGER", "", Some(SumForm::Written)),
        ] {
            let form = choose_form(Dialect::Sqlite, kind, type_name, cast);
            assert_eq!(form, expected, "{kind:?} {type_name} {cast}");
        }
        for (cast, expected) in [
            ("", Some(SumForm::Written)),
            ("DOUBLE", Some(SumForm::Written)),
            ("DECIMAL(3,1)", None),
        ] {
            let form = choose_form(Dialect::Mysql, Kind::Sum, "text", cast);
            assert_eq!(form, expected, "{cast}");
        }
    }
}
