//! Names before subscripts, as PostgreSQL reads them.

use std::ops::ControlFlow;

use sqlparser::ast::{AccessExpr, Expr, Ident, VisitMut};

use crate::syntax::each_expr_mut;

/// Makes `t.c[1]` the column `t.c` and a subscript, in each expression of `node`.
///
/// The parser takes `t` for a value with a field `c`, and a table's name that is a value is its whole row. PostgreSQL reads all
/// names before the first subscript as one (`columnref` in its grammar); of a value, fields need parentheses.
pub(in crate::syntax) fn join_names(node: &mut impl VisitMut) {
    let _ = each_expr_mut(node, &mut |expr| {
        join_name(expr);
        ControlFlow::Continue(())
    });
}

fn join_name(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else {
        return;
    };
    let Expr::Identifier(first) = &**root else {
        return;
    };
    let fields = access_chain.iter().map_while(|access| match access {
        AccessExpr::Dot(Expr::Identifier(field)) => Some(field.clone()),
        AccessExpr::Dot(_) | AccessExpr::Subscript(_) => None,
    });
    let names: Vec<Ident> = std::iter::once(first.clone()).chain(fields).collect();
    if names.len() > 1 {
        access_chain.drain(..names.len() - 1);
        **root = Expr::CompoundIdentifier(names);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

    use super::*;

    #[test]
    fn names_before_a_subscript_are_one_name() {
        for (text, names, accesses) in [
            ("t.c[1]", 2, 1),
            ("s.t.c[1:2]", 3, 1),
            ("t.c[1].f", 2, 2),
            ("c[1]", 1, 1),
            ("(t).c[1]", 0, 2),
            ("(c).f", 0, 1),
        ] {
            let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text);
            let mut expr = parser.unwrap().parse_expr().unwrap();
            join_names(&mut expr);
            let Expr::CompoundFieldAccess { root, access_chain } = &expr else {
                panic!("{text}: {expr:?}");
            };
            let found = match &**root {
                Expr::CompoundIdentifier(names) => names.len(),
                Expr::Identifier(_) => 1,
                _ => 0,
            };
            assert_eq!((found, access_chain.len()), (names, accesses), "{text}");
            assert_eq!(expr.to_string(), text);
        }
    }
}
