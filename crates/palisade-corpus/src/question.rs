//! What a case asks: a statement, or a template with its arguments.

use std::{borrow::Cow, collections::BTreeMap};

use palisade::{
    error::Error,
    firewall::{Decision, Firewall, Trace},
    rejection::Rejection,
    session::Session,
    value::{Params, Value},
};

use crate::case::Case;

/// A statement with its parameters, and the session in which it is decided.
pub(crate) struct Question<'c> {
    pub(crate) sql: Cow<'c, str>,
    pub(crate) params: Cow<'c, Params>,
    pub(crate) session: Session,
}

impl Case {
    /// What `firewall` decides about; a refusal where the template is not there for whoever asks.
    pub(crate) fn question(&self, firewall: &Firewall) -> Result<Question<'_>, Rejection> {
        let Some(template) = &self.template else {
            return Ok(Question {
                sql: Cow::Borrowed(&self.sql),
                params: Cow::Borrowed(&self.params),
                session: self.session(),
            });
        };
        let call = firewall.instantiate(template, self.arguments(), &self.session())?;
        Ok(Question {
            sql: Cow::Owned(call.sql().to_owned()),
            params: Cow::Owned(call.params().clone()),
            session: call.session().clone(),
        })
    }

    /// The arguments of its template.
    pub(crate) fn arguments(&self) -> &BTreeMap<String, Value> {
        static NONE: BTreeMap<String, Value> = BTreeMap::new();
        match &self.params {
            Params::Named(arguments) => arguments,
            // Other parameters of a template are an error of its file.
            Params::None | Params::Positional(_) => &NONE,
        }
    }

    /// The decision about it.
    pub(crate) fn check(&self, firewall: &Firewall) -> Result<Decision, Error> {
        match self.question(firewall) {
            Ok(Question {
                sql,
                params,
                session,
            }) => firewall.check_within(&sql, &params, &session, &self.limits),
            Err(rejection) => Ok(Decision::Reject(rejection)),
        }
    }

    /// The decision about it within the firewall's own limits, and its record where there is a statement.
    pub(crate) fn explain(&self, firewall: &Firewall) -> Result<(Decision, Option<Trace>), Error> {
        match self.question(firewall) {
            Ok(Question {
                sql,
                params,
                session,
            }) => {
                let (decision, trace) = firewall.explain(&sql, &params, &session)?;
                Ok((decision, Some(trace)))
            }
            Err(rejection) => Ok((Decision::Reject(rejection), None)),
        }
    }

    /// The statement, or the template as the workbench's prompt takes it: `:run tickets-of {"customer":1}`.
    #[must_use]
    pub fn asked(&self) -> Cow<'_, str> {
        match (&self.template, &self.written_params) {
            (None, _) => Cow::Borrowed(self.sql.trim()),
            (Some(name), None) => Cow::Owned(format!(":run {name}")),
            (Some(name), Some(arguments)) => Cow::Owned(format!(":run {name} {arguments}")),
        }
    }
}
