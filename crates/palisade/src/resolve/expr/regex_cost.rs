//! Regular expressions whose time grows exponentially with what they are matched with.

use sqlparser::ast::{Expr, Value};

use crate::{code::Code, rejection::Rejection};

/// Refuses a literal pattern in which a repeated group holds a repetition. MariaDB's and MySQL's matchers
/// backtrack; PostgreSQL's does not, and SQLite has none.
pub(in crate::resolve) fn check(pattern: &Expr) -> Result<(), Rejection> {
    let Expr::Value(value) = pattern else {
        return Ok(());
    };
    let (Value::SingleQuotedString(text) | Value::DoubleQuotedString(text)) = &value.value else {
        return Ok(());
    };
    if repeats_repetition(text) {
        return Err(Rejection::new(
            Code::LimitCost,
            "the regular expression repeats a group that repeats something itself",
        ));
    }
    Ok(())
}

fn repeats_repetition(pattern: &str) -> bool {
    // For each open group, whether something in it is repeated without an end.
    let mut groups = vec![false];
    let mut closed = false;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let endless = match c {
            '*' | '+' => true,
            // `{2,}`
            '{' => {
                let bounds: String = chars.by_ref().take_while(|c| *c != '}').collect();
                bounds.ends_with(',')
            }
            _ => false,
        };
        if endless {
            if closed {
                return true;
            }
            if let Some(group) = groups.last_mut() {
                *group = true;
            }
        }
        closed = false;
        if c == '\\' {
            chars.next();
        } else if c == '[' {
            // A bracket expression may begin with its own end.
            chars.next_if_eq(&'^');
            chars.next_if_eq(&']');
            for inner in chars.by_ref() {
                if inner == ']' {
                    break;
                }
            }
        } else if c == '(' {
            groups.push(false);
        } else if c == ')' {
            let inner = groups.len() > 1 && groups.pop().unwrap_or(false);
            closed = inner;
            if let Some(group) = groups.last_mut() {
                *group |= inner;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_of_repetitions_are_found() {
        for (pattern, found) in [
            ("^(a+)+$", true),
            ("((a|b)*c)*", true),
            ("(a{2,})+", true),
            ("(a+)(b+)", false),
            ("^[a-z]+@[a-z]+$", false),
            ("(ab)+c*", false),
            (r"(\+)+", false),
            ("([*+])+", false),
            ("(a{2,3})+", false),
        ] {
            assert_eq!(repeats_repetition(pattern), found, "{pattern}");
        }
    }
}
