//! Which parameters a statement has, before any name in it is resolved.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{Value, ValueWithSpan};

use crate::syntax::{
    parse::ParsedQuery,
    prescan::placeholder_name,
    visit::{TreeVisitor, visit_tree},
};
use crate::value::Placeholder;

/// The parameters of `parsed`.
pub(crate) fn placeholders(parsed: &ParsedQuery<'_>) -> BTreeSet<Placeholder> {
    let mut all = All {
        parsed,
        found: BTreeSet::new(),
    };
    let _ = visit_tree(&*parsed.query, &mut all);
    all.found
}

struct All<'p> {
    parsed: &'p ParsedQuery<'p>,
    found: BTreeSet<Placeholder>,
}

impl TreeVisitor for All<'_> {
    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        if let Value::Placeholder(text) = &value.value {
            let number = self.parsed.outline.positional.get(&value.span.start);
            let number = number.copied().map(Placeholder::Number);
            self.found.extend(number.or_else(|| placeholder_name(text)));
        }
        ControlFlow::Continue(())
    }
}
