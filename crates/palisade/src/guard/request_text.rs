//! What a request asks for as it is decided: a statement, the plan of one, or the call of a template.

use crate::{
    dialect::Dialect,
    firewall::{Firewall, TemplateCall},
    guard::{question::Question, request::Asked},
    limits::Limits,
    rejection::Rejection,
    session::Session,
    syntax::Wording,
    value::Params,
};

/// A request whose text is known, or why it has none.
pub(in crate::guard) struct RequestText<'a> {
    asked: Asked<'a>,
    dialect: Dialect,
    /// The whole text, where the plan of a statement is asked for.
    plan: Option<String>,
    /// A template's text is of the policies by which it is decided.
    call: Result<Option<TemplateCall>, Rejection>,
}

impl<'a> RequestText<'a> {
    pub(in crate::guard) fn read(asked: Asked<'a>, firewall: &Firewall, session: &Session) -> Self {
        let (plan, call) = match asked {
            Asked::Statement(_, _) => (None, Ok(None)),
            Asked::Plan(sql, _) => (Some(firewall.plan_of(sql)), Ok(None)),
            Asked::Template(name, arguments) => {
                let call = firewall.instantiate(name, arguments, session);
                (None, call.map(Some))
            }
        };
        Self {
            asked,
            dialect: firewall.catalog().dialect(),
            plan,
            call,
        }
    }

    /// What is decided about, for `session` and within `limits`. A template has a session of its own.
    pub(in crate::guard) fn question<'s>(
        &'s self,
        session: &'s Session,
        limits: &'s Limits,
    ) -> Question<'s> {
        let (wording, params, session) = match (&self.call, self.asked) {
            (Ok(Some(call)), _) => (call.sql().into(), call.params(), call.session()),
            (_, Asked::Statement(sql, params)) => (sql.into(), params, session),
            (_, Asked::Plan(_, params)) => {
                let whole = self.plan.as_deref().unwrap_or_default();
                (Wording::plan(whole, self.dialect), params, session)
            }
            // What was not run has no text.
            (_, Asked::Template(_, _)) => ("".into(), &Params::None, session),
        };
        Question {
            wording,
            params,
            session,
            limits,
        }
    }

    /// # Errors
    /// What the call of the template is refused with.
    pub(in crate::guard) fn require_text(&self) -> Result<(), Rejection> {
        match &self.call {
            Ok(_) => Ok(()),
            Err(rejection) => Err(rejection.clone()),
        }
    }
}
