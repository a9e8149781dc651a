//! The values of a statement's parameters, and which of them the rewriting looked at.

use std::{cell::RefCell, collections::BTreeSet};

use crate::value::{Params, Placeholder, Value};

/// Values that cannot be looked at without a trace: what is made without any look holds for all values.
#[derive(Debug)]
pub(in crate::rewrite) struct ParameterValues<'p> {
    params: &'p Params,
    looked_at: RefCell<BTreeSet<Placeholder>>,
}

impl<'p> ParameterValues<'p> {
    /// The values in `params`; none has been looked at.
    pub(in crate::rewrite) fn new(params: &'p Params) -> Self {
        Self {
            params,
            looked_at: RefCell::default(),
        }
    }

    /// The value of `placeholder`.
    pub(in crate::rewrite) fn value(&self, placeholder: &Placeholder) -> Option<&'p Value> {
        self.looked_at.borrow_mut().insert(placeholder.clone());
        self.params.lookup(placeholder)
    }

    /// The value of the parameter that has `number` in the statement: names were numbered in their own order.
    pub(in crate::rewrite) fn by_number(&self, number: u32) -> Option<&'p Value> {
        let placeholder = match self.params {
            Params::Positional(_) | Params::None => Placeholder::Number(number),
            Params::Named(values) => {
                let index = usize::try_from(number.checked_sub(1)?).ok()?;
                Placeholder::Name(values.keys().nth(index)?.clone())
            }
        };
        self.value(&placeholder)
    }

    /// The parameters of which a value was looked at.
    pub(in crate::rewrite) fn looked_at(self) -> BTreeSet<Placeholder> {
        self.looked_at.into_inner()
    }
}
