//! Constants as partial evaluation leaves them: `decimal("1.0000")`, and points in time as an offset
//! from a day.

use cedar_policy::pst::{self, BinaryOp, Expr, UnaryOp};

use crate::moment::days;
use crate::policy::{cedar::attribute_type::AttributeType, obligation::Literal};

/// The constant that `expr` is.
pub(in crate::policy) fn literal(expr: &Expr) -> Option<(Literal, AttributeType)> {
    match expr {
        Expr::Literal(pst::Literal::Bool(value)) => {
            Some((Literal::Boolean(*value), AttributeType::Bool))
        }
        Expr::Literal(pst::Literal::Long(value)) => {
            Some((Literal::Integer(*value), AttributeType::Long))
        }
        Expr::Literal(pst::Literal::String(value)) => {
            Some((Literal::Text(value.to_string()), AttributeType::Text))
        }
        Expr::UnaryOp {
            op: UnaryOp::Decimal,
            expr: inner,
        } => Some((
            Literal::Decimal(decimal(string(inner)?)?),
            AttributeType::Decimal,
        )),
        Expr::UnaryOp {
            op: UnaryOp::Datetime,
            expr: _,
        }
        | Expr::BinaryOp {
            op: BinaryOp::Offset,
            left: _,
            right: _,
        } => {
            let at = datetime(expr)?;
            YEARS
                .contains(&at)
                .then_some((Literal::Datetime(at), AttributeType::Datetime))
        }
        // The enum is foreign and open; everything else is no constant that SQL has.
        _ => None,
    }
}

/// The years 1 to 9999 in milliseconds from 1970: what every engine reads in one way.
const YEARS: std::ops::Range<i64> = -62_135_596_800_000..253_402_300_800_000;

fn string(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(pst::Literal::String(text)) => Some(text.as_str()),
        _ => None,
    }
}

/// `12.34` in ten-thousandths. Cedar writes one to four digits after the point.
fn decimal(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 4 {
        return None;
    }
    let scaled: i64 = format!("{}{whole}{fraction:0<4}", if negative { "-" } else { "" })
        .parse()
        .ok()?;
    Some(scaled)
}

/// `datetime("…")`, or that with an offset, in milliseconds from 1970.
fn datetime(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::UnaryOp {
            op: UnaryOp::Datetime,
            expr: inner,
        } => days(string(inner)?)?.checked_mul(86_400_000),
        Expr::BinaryOp {
            op: BinaryOp::Offset,
            left,
            right,
        } => {
            let Expr::UnaryOp {
                op: UnaryOp::Duration,
                expr: inner,
            } = right.as_ref()
            else {
                return None;
            };
            let offset: i64 = string(inner)?.strip_suffix("ms")?.parse().ok()?;
            datetime(left)?.checked_add(offset)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (text, value) in [
            ("100.0000", Some(1_000_000)),
            ("-0.5", Some(-5_000)),
            ("922337203685477.5807", Some(i64::MAX)),
            ("1", None),
            ("1.", None),
            ("1.00001", None),
        ] {
            assert_eq!(decimal(text), value, "{text}");
        }
    }
}
