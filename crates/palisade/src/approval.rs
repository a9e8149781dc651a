//! Approvals that policies demand: what is asked of a person, and what may become of it.
//!
//! An approval is for one principal, statement, parameters, policies, principals' attributes and catalog, and for one run.

use std::{fmt::Write as _, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    limits::Limits,
    policy::ApprovalLevel,
    session::Session,
    value::{Params, Value},
};

/// What waits for an approval.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// Everything that the approval is bound to, as the JSON text of [`BoundRequest`]. It is the agent's, and never empty: a store
    /// seals it. Equal texts, equal requests.
    pub bound: String,
    /// Whose approval is demanded.
    pub level: ApprovalLevel,
    /// Who asks, `Agent::"support-bot"`.
    pub principal: String,
    /// Uids of the relations that it reads or changes, for whoever is told of it. No approval is bound to them.
    pub relations: Vec<String>,
    /// Since 1970-01-01 UTC.
    pub now: Duration,
}

/// What an approval is bound to, and what a person is shown of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundRequest {
    /// Of this form.
    pub version: u32,
    /// Who asks, `Agent::"support-bot"`.
    pub principal: String,
    /// How the statement came.
    pub transport: String,
    /// The verified identity of the client.
    pub client: Option<String>,
    /// The operator's name of the database.
    pub connection: Option<String>,
    /// The template that would be run.
    pub template: Option<String>,
    /// The change that is run and taken back, so that it is seen what it does. None where the statement itself runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validates: Option<String>,
    /// The statement as it came.
    pub sql: String,
    /// Its parameters as JSON; empty where there are none.
    pub params: String,
    /// Of the policies, the principals' attributes and the catalog.
    pub policy_version: String,
    /// Ids of the demanding policies.
    pub policies: Vec<String>,
    /// Whose approval is demanded.
    pub level: String,
    /// The most rows of the answer.
    pub max_rows: u64,
    /// The most rows that may be changed; 0 for a statement that reads.
    pub max_affected_rows: u64,
}

/// What an approval is bound to beside session, statement and parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundTo<'c> {
    /// Of the policies, the principals' attributes and the catalog.
    pub(crate) policy_version: &'c str,
    pub(crate) connection: Option<&'c str>,
    /// The change that is looked at, if it is not kept by this.
    pub(crate) validates: Option<&'c str>,
    pub(crate) level: ApprovalLevel,
    /// Ids of the demanding policies.
    pub(crate) policies: &'c [String],
    pub(crate) limits: &'c Limits,
    /// The most rows that may be changed.
    pub(crate) max_affected: u64,
}

/// Everything that an approval is bound to, as the JSON text of [`BoundRequest`].
pub(crate) fn bind(sql: &str, params: &Params, session: &Session, binding: BoundTo<'_>) -> String {
    let BoundTo {
        policy_version,
        connection,
        validates,
        level,
        policies,
        limits,
        max_affected,
    } = binding;
    let bound = BoundRequest {
        version: 1,
        principal: session.principal().to_string(),
        transport: session.transport().name().to_owned(),
        client: session.client().map(str::to_owned),
        connection: connection.map(str::to_owned),
        template: session.template().map(str::to_owned),
        validates: validates.map(str::to_owned),
        sql: sql.to_owned(),
        params: spell_params(params),
        policy_version: policy_version.to_owned(),
        policies: policies.to_vec(),
        level: level.word().to_owned(),
        max_rows: limits.max_rows,
        max_affected_rows: max_affected,
    };
    // It holds nothing that JSON cannot.
    serde_json::to_string(&bound).unwrap_or_default()
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redemption {
    /// A person approved it, and this run uses the approval up.
    Approved(GivenApproval),
    /// It waits for a person.
    Pending(PendingApproval),
    /// A person rejected it.
    Rejected {
        /// Its id.
        id: String,
    },
    /// As many of the principal's requests wait as may.
    TooMany,
    /// It cannot be approved here, for this reason.
    Unavailable(&'static str),
}

/// An approval that was given and is used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenApproval {
    /// The request's id.
    pub id: String,
    /// Who gave it, and how.
    pub by: String,
}

/// A request that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingApproval {
    /// Its id, which a person names.
    pub id: String,
    /// Whose approval is demanded.
    pub level: ApprovalLevel,
    /// When it expires, since 1970-01-01 UTC.
    pub expires: Duration,
    /// Whether a person can approve it apart from the agent's client: by `palisade approve`, or as
    /// [the host says](crate::guard::Guard::with_approval_instruction).
    pub is_out_of_band: bool,
}

/// What became of a confirmation by the agent's own client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// The request is approved.
    Approved,
    /// No request of this principal waits by that id: it expired, or was used or rejected.
    NotPending,
    /// An operator has to approve it.
    NeedsOperator,
}

/// Where requests wait for a person.
pub trait Approvals: Send + Sync {
    /// Uses up an approval that was given for `request`. Where there is none, the request waits from now on, once however often
    /// it is made.
    ///
    /// One approval lets one call through, also of several at once and of several processes.
    ///
    /// # Errors
    /// A text for the operator. The statement does not run.
    fn redeem(&self, request: &ApprovalRequest) -> Result<Redemption, String>;

    /// An approval that was given for `request`, used up or not, within its time. None once a person rejected it.
    ///
    /// # Errors
    /// A text for the operator. The statement does not run.
    fn find_given(&self, request: &ApprovalRequest) -> Result<Option<GivenApproval>, String>;

    /// Approves a waiting request of `principal`, as a person said in the agent's own client. It does not count where an operator
    /// is demanded.
    ///
    /// # Errors
    /// A text for the operator. Nothing is approved.
    fn confirm(&self, id: &str, principal: &str, now: Duration) -> Result<Confirmation, String>;

    /// Whether a request of `principal` still waits for a person. What became of it is told by [`redeem`](Self::redeem) alone.
    ///
    /// # Errors
    /// A text for the operator.
    fn waits(&self, id: &str, principal: &str, now: Duration) -> Result<bool, String>;
}

/// Parameters as JSON that a person can read, and of which no two spell alike; empty where there are none.
#[must_use]
pub fn spell_params(params: &Params) -> String {
    let json = match params {
        Params::None => return String::new(),
        Params::Positional(values) => values.iter().map(spell_value).collect(),
        Params::Named(values) => (values.iter())
            .map(|(name, value)| (name.clone(), spell_value(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    };
    serde_json::Value::to_string(&json)
}

/// As [`Params::from_json`] takes it.
fn spell_value(value: &Value) -> serde_json::Value {
    let hex = |bytes: &[u8]| {
        bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(bool) => (*bool).into(),
        Value::Integer(integer) => (*integer).into(),
        // A number without fraction would be an integer.
        Value::Real(real) => json!({"real": format!("{real:?}")}),
        Value::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => text.into(),
            Err(_) => json!({"text_bytes": hex(text)}),
        },
        Value::Blob(bytes) => json!({"bytes": hex(bytes)}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Principal, Transport};

    #[test]
    fn everything_binds() {
        let session = Session::new(Principal::new("Agent", "a"));
        let limits = Limits::default();
        let usual = BoundTo {
            policy_version: "v",
            connection: Some("c"),
            validates: None,
            level: ApprovalLevel::Required,
            policies: &[],
            limits: &limits,
            max_affected: 5,
        };
        let of = |sql: &str, params: &Params, session: &Session, binding| {
            bind(sql, params, session, binding)
        };
        let none = Params::None;
        let base = of("DELETE", &none, &session, usual);
        assert_eq!(base, of("DELETE", &none, &session, usual));
        let fewer = Limits {
            max_rows: 1,
            ..limits.clone()
        };
        let others = [
            of("DELETE ", &none, &session, usual),
            of("DELETE", &Params::Positional(Vec::new()), &session, usual),
            of(
                "DELETE",
                &Params::Positional(vec![Value::Integer(1)]),
                &session,
                usual,
            ),
            of(
                "DELETE",
                &Params::Positional(vec![Value::Real(1.0)]),
                &session,
                usual,
            ),
            of(
                "DELETE",
                &none,
                &Session::new(Principal::new("Agent", "b")),
                usual,
            ),
            of(
                "DELETE",
                &none,
                &session.clone().over(Transport::Http),
                usual,
            ),
            of("DELETE", &none, &session.clone().of_client("x"), usual),
            of(
                "DELETE",
                &none,
                &session.clone().running("t", Vec::new()),
                usual,
            ),
            of(
                "DELETE",
                &none,
                &session,
                BoundTo {
                    policy_version: "w",
                    ..usual
                },
            ),
            of(
                "DELETE",
                &none,
                &session,
                BoundTo {
                    connection: None,
                    ..usual
                },
            ),
            of(
                "DELETE",
                &none,
                &session,
                BoundTo {
                    validates: Some("x"),
                    ..usual
                },
            ),
            of(
                "DELETE",
                &none,
                &session,
                BoundTo {
                    level: ApprovalLevel::Operator,
                    ..usual
                },
            ),
            of(
                "DELETE",
                &none,
                &session,
                BoundTo {
                    max_affected: 6,
                    ..usual
                },
            ),
            of(
                "DELETE",
                &none,
                &session,
                BoundTo {
                    limits: &fewer,
                    ..usual
                },
            ),
        ];
        for (i, other) in others.iter().enumerate() {
            assert_ne!(&base, other, "{i}");
        }
    }
}
