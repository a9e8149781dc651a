//! Whether what a session does could wait for a person's approval: hints for clients, before there is a statement.

use std::collections::{BTreeMap, BTreeSet};

use crate::firewall::Firewall;
use crate::{
    policy::template::{ParameterType, Template},
    rejection::Rejection,
    session::Session,
    value::Value,
};

impl Firewall {
    /// Whether a statement of `session` that reads could wait for a person's approval. A hint: whether a statement does is
    /// decided with it.
    #[must_use]
    pub fn reads_may_wait(&self, session: &Session) -> bool {
        self.policies.session(session).reads_may_wait()
    }

    /// As [`reads_may_wait`](Self::reads_may_wait), for a statement that may change something, and reads.
    #[must_use]
    pub fn changes_may_wait(&self, session: &Session) -> bool {
        let session_view = self.policies.session(session);
        self.may_change(session)
            && (session_view.changes_may_wait() || session_view.reads_may_wait())
    }

    /// Whether `session` could approve a change that others propose. A hint: it is decided about for each change.
    #[must_use]
    pub fn may_approve(&self, session: &Session) -> bool {
        self.policies.session(session).could_approve()
    }

    /// Whether `session` may approve a change of these relations, by uid, that somebody else proposes, and ids of the policies that
    /// determine it. A change of no relation is approved by none.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub fn decide_approval(
        &self,
        relations: &[&str],
        session: &Session,
    ) -> Result<(bool, Vec<String>), Rejection> {
        let view = self.policies.session(session);
        let (mut is_permitted, mut policies) = (!relations.is_empty(), BTreeSet::new());
        for uid in relations {
            let mut all = self.catalog.relations().iter();
            let relation = all.find(|relation| relation.uid == *uid);
            let (may_approve, by) = match relation {
                Some(relation) => view.decide_approval(relation.id)?,
                None => (false, Vec::new()),
            };
            is_permitted &= may_approve;
            policies.extend(by);
        }
        Ok((is_permitted, policies.into_iter().collect()))
    }

    /// Whether `template` waits for a person's approval where `session` runs it. Its statement is decided about, with an
    /// argument of each type.
    #[must_use]
    pub fn template_waits(&self, template: &Template, session: &Session) -> bool {
        if !self.policies.demands_approval() {
            return false;
        }
        let arguments: BTreeMap<String, Value> = (template.parameters.iter())
            .map(|parameter| (parameter.name.clone(), example(parameter.kind)))
            .collect();
        let Ok(call) = self.instantiate(&template.name, &arguments, session) else {
            return false;
        };
        let decided = self.decide(
            call.sql().into(),
            call.params(),
            call.session(),
            &self.limits,
            None,
        );
        // What is refused does not wait.
        decided.is_ok_and(|statement| statement.approval().is_some())
    }
}

/// A value of this type.
fn example(kind: ParameterType) -> Value {
    match kind {
        ParameterType::Text => Value::text(""),
        ParameterType::Integer | ParameterType::Number => Value::Integer(0),
        ParameterType::Boolean => Value::Bool(false),
    }
}
