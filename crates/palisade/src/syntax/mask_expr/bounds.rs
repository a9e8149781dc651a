//! Between which bounds what an expression gives is, known without the value: of arithmetic the numbers, of text how long
//! it can grow.

use crate::syntax::mask_expr::{Arithmetic, Formula, Unread, gives_number};

/// Two numbers with known bounds whose result every engine's integers hold.
pub(in crate::syntax) fn bound_arithmetic(
    left: Box<Formula>,
    op: Arithmetic,
    right: Box<Formula>,
) -> Result<Formula, Unread> {
    let formula = Formula::Arithmetic(left, op, right);
    let fits =
        |(low, high): &(i64, i64)| *low >= i64::from(i32::MIN) && *high <= i64::from(i32::MAX);
    bounds(&formula)
        .filter(fits)
        .map(|_| formula)
        .ok_or_else(arithmetic)
}

pub(in crate::syntax) fn arithmetic() -> Unread {
    Unread::new("arithmetic over the value can raise").help(
        "only lengths, positions and constants are added, subtracted and multiplied; `bucket(100)` makes numbers coarser",
    )
}

/// More characters than a value of any engine has: PostgreSQL's are at most a gigabyte.
const LONGEST: i64 = (1 << 30) - 1;

/// Between which whole numbers the result is, where that is known without the value.
fn bounds(formula: &Formula) -> Option<(i64, i64)> {
    match formula {
        Formula::Number(digits) => digits.parse().ok().map(|number| (number, number)),
        Formula::Call(name, _) => gives_number(name).then_some((0, LONGEST)),
        Formula::Arithmetic(left, op, right) => {
            let ((low, high), (from, to)) = (bounds(left)?, bounds(right)?);
            let all = match op {
                Arithmetic::Plus => [low.checked_add(from)?, high.checked_add(to)?].to_vec(),
                Arithmetic::Minus => [low.checked_sub(to)?, high.checked_sub(from)?].to_vec(),
                Arithmetic::Times => [(low, from), (low, to), (high, from), (high, to)]
                    .into_iter()
                    .map(|(one, other)| one.checked_mul(other))
                    .collect::<Option<Vec<_>>>()?,
            };
            all.iter().min().copied().zip(all.iter().max().copied())
        }
        Formula::Coalesce(parts) => {
            let all = parts.iter().map(bounds).collect::<Option<Vec<_>>>()?;
            let low = all.iter().map(|(low, _)| *low).min()?;
            let high = all.iter().map(|(_, high)| *high).max()?;
            Some((low, high))
        }
        Formula::Value
        | Formula::Null
        | Formula::Text(_)
        | Formula::Truth(_)
        | Formula::Case {
            operand: _,
            arms: _,
            otherwise: _,
        }
        | Formula::Condition(_)
        | Formula::Concat(_, _)
        | Formula::AsText(_)
        | Formula::Nullif(_, _)
        | Formula::Trim {
            side: _,
            what: _,
            text: _,
        } => None,
    }
}

/// A text that holds the whole value at most once: longer than the value by a constant, it has room where the
/// value has.
pub(in crate::syntax) fn require_single_use(formula: Formula) -> Result<Formula, Unread> {
    if count_value_uses(&formula) > 1 {
        return Err(Unread::new(
            "the whole value stands more than once in one text, which may grow too long",
        )
        .help("take a part of it: `left(value, 20)`, `substr(value, 1, 20)`"));
    }
    Ok(formula)
}

/// How many times the result can be as long as the value.
fn count_value_uses(formula: &Formula) -> usize {
    match formula {
        Formula::Value => 1,
        Formula::Null
        | Formula::Text(_)
        | Formula::Number(_)
        | Formula::Truth(_)
        | Formula::Condition(_)
        | Formula::Arithmetic(_, _, _) => 0,
        Formula::Case {
            operand: _,
            arms,
            otherwise,
        } => {
            let results = arms.iter().map(|(_, then)| then);
            let all = results.chain(otherwise.as_deref()).map(count_value_uses);
            all.max().unwrap_or(0)
        }
        Formula::Concat(left, right) => count_value_uses(left) + count_value_uses(right),
        Formula::AsText(inner)
        | Formula::Nullif(inner, _)
        | Formula::Trim {
            side: _,
            what: _,
            text: inner,
        } => count_value_uses(inner),
        Formula::Coalesce(parts) => parts.iter().map(count_value_uses).max().unwrap_or(0),
        Formula::Call("concat", parts) => parts.iter().map(count_value_uses).sum(),
        Formula::Call("left" | "right" | "lpad" | "rpad", _) => 0,
        Formula::Call("substr", args) if args.len() > 2 => 0,
        Formula::Call("replace", args) => {
            let of = args.first().map_or(0, count_value_uses);
            match args.as_slice() {
                [_, Formula::Text(from), Formula::Text(to)] if to.len() > from.len() => {
                    of * to.len().div_ceil(from.len().max(1))
                }
                _ => of,
            }
        }
        Formula::Call(name, args) if !gives_number(name) => {
            args.first().map_or(0, count_value_uses)
        }
        Formula::Call(_, _) => 0,
    }
}
