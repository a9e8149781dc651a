//! Walks over the parser's tree. The parser derives a walk for each kind of node and compiles all of them anew for each type that
//! visits: some megabytes each time. So one type of ours visits for all, and hands on what it meets.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, Query, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

/// Reads the nodes of a tree, in the order of the parser's visit. `Break` ends the walk.
pub(crate) trait TreeVisitor {
    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, _name: &ObjectName) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, _factor: &TableFactor) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _expr: &Expr) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _expr: &Expr) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, _value: &ValueWithSpan) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Changes the nodes of a tree, in the order of the parser's visit. `Break` ends the walk.
pub(crate) trait TreeVisitorMut {
    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, _factor: &mut TableFactor) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, _value: &mut ValueWithSpan) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Walks through `node`.
pub(crate) fn visit_tree(node: &impl Visit, visitor: &mut dyn TreeVisitor) -> ControlFlow<()> {
    node.visit(&mut Reading(visitor))
}

/// Walks through `node` and changes it.
pub(crate) fn visit_tree_mut(
    node: &mut impl VisitMut,
    visitor: &mut dyn TreeVisitorMut,
) -> ControlFlow<()> {
    node.visit(&mut Changing(visitor))
}

/// Gives `read` each expression of `node`, a whole before its parts.
pub(crate) fn each_expr(
    node: &impl Visit,
    read: &mut dyn FnMut(&Expr) -> ControlFlow<()>,
) -> ControlFlow<()> {
    visit_tree(node, &mut Exprs(read))
}

/// Gives `change` each expression of `node`, the parts before their whole.
pub(crate) fn each_expr_mut(
    node: &mut impl VisitMut,
    change: &mut dyn FnMut(&mut Expr) -> ControlFlow<()>,
) -> ControlFlow<()> {
    visit_tree_mut(node, &mut ExprsMut(change))
}

/// Gives `read` the name of each relation in `node`.
pub(crate) fn each_relation(
    node: &impl Visit,
    read: &mut dyn FnMut(&ObjectName) -> ControlFlow<()>,
) -> ControlFlow<()> {
    visit_tree(node, &mut Relations(read))
}

struct Reading<'v>(&'v mut dyn TreeVisitor);

impl Visitor for Reading<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.0.pre_visit_relation(name)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.0.pre_visit_table_factor(factor)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0.post_visit_expr(expr)
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        self.0.pre_visit_value(value)
    }
}

struct Changing<'v>(&'v mut dyn TreeVisitorMut);

impl VisitorMut for Changing<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.0.post_visit_query(query)
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.0.post_visit_table_factor(factor)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.0.post_visit_expr(expr)
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        self.0.pre_visit_value(value)
    }
}

struct Exprs<'f>(&'f mut dyn FnMut(&Expr) -> ControlFlow<()>);

impl TreeVisitor for Exprs<'_> {
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        (self.0)(expr)
    }
}

struct ExprsMut<'f>(&'f mut dyn FnMut(&mut Expr) -> ControlFlow<()>);

impl TreeVisitorMut for ExprsMut<'_> {
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr)
    }
}

struct Relations<'f>(&'f mut dyn FnMut(&ObjectName) -> ControlFlow<()>);

impl TreeVisitor for Relations<'_> {
    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        (self.0)(name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{dialect::Dialect, limits::Limits, syntax::read_query};

    fn query() -> Box<Query> {
        let text = "SELECT a FROM t WHERE b IN (SELECT 1)";
        read_query(text, Dialect::Sqlite, &Limits::default()).unwrap()
    }

    /// What is visited; the walk ends after `most`.
    struct Trace {
        visited: Vec<String>,
        most: usize,
    }

    impl Trace {
        fn new(most: usize) -> Self {
            let visited = Vec::new();
            Self { visited, most }
        }

        fn note(&mut self, hook: &str, node: &dyn std::fmt::Display) -> ControlFlow<()> {
            self.visited.push(format!("{hook} {node}"));
            if self.visited.len() == self.most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }

    impl TreeVisitor for Trace {
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.note("query", query)
        }

        fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.note("after query", query)
        }

        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
            self.note("relation", name)
        }

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            self.note("factor", factor)
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.note("expr", expr)
        }

        fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.note("after expr", expr)
        }

        fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
            self.note("value", value)
        }
    }

    impl TreeVisitorMut for Trace {
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.note("query", query)
        }

        fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.note("after query", query)
        }

        fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            self.note("after factor", factor)
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            self.note("after expr", expr)
        }

        fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
            self.note("value", value)
        }
    }

    #[test]
    fn all_that_is_met_is_handed_on() {
        let mut reading = Trace::new(usize::MAX);
        assert!(visit_tree(&*query(), &mut reading).is_continue());
        let visited = [
            "query SELECT a FROM t WHERE b IN (SELECT 1)",
            "expr a",
            "after expr a",
            "factor t",
            "relation t",
            "expr b IN (SELECT 1)",
            "expr b",
            "after expr b",
            "query SELECT 1",
            "expr 1",
            "value 1",
            "after expr 1",
            "after query SELECT 1",
            "after expr b IN (SELECT 1)",
            "after query SELECT a FROM t WHERE b IN (SELECT 1)",
        ];
        assert_eq!(reading.visited, visited);
        let mut changing = Trace::new(usize::MAX);
        assert!(visit_tree_mut(&mut *query(), &mut changing).is_continue());
        let visited = [
            "query SELECT a FROM t WHERE b IN (SELECT 1)",
            "after expr a",
            "after factor t",
            "after expr b",
            "query SELECT 1",
            "value 1",
            "after expr 1",
            "after query SELECT 1",
            "after expr b IN (SELECT 1)",
            "after query SELECT a FROM t WHERE b IN (SELECT 1)",
        ];
        assert_eq!(changing.visited, visited);
    }

    #[test]
    fn a_break_ends_the_walk() {
        for most in 1..=15 {
            let mut reading = Trace::new(most);
            assert!(visit_tree(&*query(), &mut reading).is_break());
            assert_eq!(reading.visited.len(), most);
        }
        for most in 1..=10 {
            let mut changing = Trace::new(most);
            assert!(visit_tree_mut(&mut *query(), &mut changing).is_break());
            assert_eq!(changing.visited.len(), most);
        }
    }

    #[test]
    fn each_is_in_order() {
        let mut visited = Vec::new();
        let walk = each_expr(&*query(), &mut |expr| {
            visited.push(expr.to_string());
            if visited.len() == 3 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        assert!(walk.is_break());
        assert_eq!(visited, ["a", "b IN (SELECT 1)", "b"]);
        let mut visited = Vec::new();
        let walk = each_expr_mut(&mut *query(), &mut |expr| {
            visited.push(expr.to_string());
            ControlFlow::Continue(())
        });
        assert!(walk.is_continue());
        assert_eq!(visited, ["a", "b", "1", "b IN (SELECT 1)"]);
        let mut visited = Vec::new();
        let _ = each_relation(&*query(), &mut |name| {
            visited.push(name.to_string());
            ControlFlow::Continue(())
        });
        assert_eq!(visited, ["t"]);
    }
}
