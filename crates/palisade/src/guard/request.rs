//! What is asked of the gate.

use std::collections::BTreeMap;

use crate::{
    answer::Room,
    guard::cancel::Cancel,
    limits::Limits,
    session::Session,
    value::{Params, Value},
};

/// A statement or a template, for a session. It may read and change nothing unless [`allow_changes`](Self::allow_changes)
/// is called, whatever policy permits.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub(in crate::guard) asked: Asked<'a>,
    pub(in crate::guard) session: &'a Session,
    /// The firewall's own where there are none.
    pub(in crate::guard) limits: Option<&'a Limits>,
    pub(in crate::guard) allows_changes: bool,
    pub(in crate::guard) is_trial: bool,
    /// How much of the answer a model is given.
    pub(in crate::guard) room: Option<Room>,
    /// Whether anybody waits for it.
    pub(in crate::guard) cancel: Option<&'a Cancel>,
    /// As of which snapshot or time tables are read.
    pub(in crate::guard) as_of: Option<&'a str>,
}

/// What is to be run.
#[derive(Debug, Clone, Copy)]
pub(in crate::guard) enum Asked<'a> {
    /// A statement with its parameters.
    Statement(&'a str, &'a Params),
    /// The engine's plan of a statement with its parameters.
    Plan(&'a str, &'a Params),
    /// A template, by name, with its arguments.
    Template(&'a str, &'a BTreeMap<String, Value>),
}

impl<'a> Request<'a> {
    /// A statement with its parameters.
    #[must_use]
    pub fn statement(sql: &'a str, params: &'a Params, session: &'a Session) -> Self {
        Self::new(Asked::Statement(sql, params), session)
    }

    /// The engine's plan of a query with its parameters, instead of its rows. A plan is refused where it would tell of what masks and
    /// filters hide.
    #[must_use]
    pub fn plan(sql: &'a str, params: &'a Params, session: &'a Session) -> Self {
        Self::new(Asked::Plan(sql, params), session)
    }

    /// The template called `name` with these arguments. `run` must be permitted on it, and its statement by policies that
    /// may look at `context.template`.
    #[must_use]
    pub fn template(
        name: &'a str,
        arguments: &'a BTreeMap<String, Value>,
        session: &'a Session,
    ) -> Self {
        Self::new(Asked::Template(name, arguments), session)
    }

    fn new(asked: Asked<'a>, session: &'a Session) -> Self {
        Self {
            asked,
            session,
            limits: None,
            allows_changes: false,
            is_trial: false,
            room: None,
            cancel: None,
            as_of: None,
        }
    }

    /// Lowers limits of the firewall for this request; higher ones have no effect.
    #[must_use]
    pub fn with_limits(self, limits: &'a Limits) -> Self {
        Self {
            limits: Some(limits),
            ..self
        }
    }

    /// Lets the statement change data or the schema, if policy permits it.
    #[must_use]
    pub fn allow_changes(self) -> Self {
        Self {
            allows_changes: true,
            ..self
        }
    }

    /// Ends the statement on the database when `cancel` is set. It is refused with `limit.cancelled` then, and recorded.
    #[must_use]
    pub fn cancelled_by(self, cancel: &'a Cancel) -> Self {
        Self {
            cancel: Some(cancel),
            ..self
        }
    }

    /// Reads tables as they were: at a snapshot, by its name, or at a time as `2026-03-01T12:00:00Z`. Policies are those of now.
    #[must_use]
    pub fn as_of(self, as_of: Option<&'a str>) -> Self {
        Self { as_of, ..self }
    }

    /// Says that the statement is run again with more time if it runs out of it. What needs an approval then runs out at once, so
    /// that the approval is not used up.
    #[must_use]
    pub fn on_trial(self) -> Self {
        Self {
            is_trial: true,
            ..self
        }
    }

    /// Whether it is only [tried](Self::on_trial).
    #[must_use]
    pub fn is_on_trial(&self) -> bool {
        self.is_trial
    }

    /// Bounds what a model is given of the answer, as it is written for one.
    #[must_use]
    pub fn with_room(self, room: Room) -> Self {
        Self {
            room: Some(room),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Principal;

    #[test]
    fn a_request_asks_for_no_more_than_it_says() {
        let session = Session::new(Principal::new("Agent", "a"));
        let (limits, cancel) = (Limits::default(), Cancel::default());
        let plain = Request::statement("SELECT 1", &Params::None, &session);
        assert!(!plain.allows_changes && !plain.is_trial);
        assert!(plain.limits.is_none() && plain.cancel.is_none() && plain.as_of.is_none());
        let request = plain
            .with_limits(&limits)
            .cancelled_by(&cancel)
            .as_of(Some("monday"))
            .on_trial()
            .allow_changes();
        assert!(request.allows_changes && request.is_trial);
        assert_eq!(request.as_of, Some("monday"));
        assert!(
            request
                .limits
                .is_some_and(|one| std::ptr::eq(one, &raw const limits))
        );
        assert!(
            request
                .cancel
                .is_some_and(|one| std::ptr::eq(one, &raw const cancel))
        );
    }
}
