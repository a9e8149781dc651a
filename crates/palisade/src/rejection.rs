//! A refusal: a value, which a program may also pass on as an error. It carries what the agent may read and, apart from it,
//! what only the operator's log may.

use std::{borrow::Cow, time::Duration};

use serde::Serialize;

use crate::{
    code::{Code, Detail, Incident},
    tool_names::ToolNames,
};

/// Characters of a message.
const MAX_MESSAGE: usize = 500;

/// What is not for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Details {
    /// What the operator's log has.
    operator: Option<String>,
    /// What records and logs have, where the operator's detail may hold values.
    recorded: Option<String>,
}

/// Why a statement, or its answer, is refused.
///
/// As text it is code and message, which the agent may read. `{:?}` prints the operator's detail too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    code: Code,
    message: String,
    details: Option<Box<Details>>,
    policies: Vec<String>,
    retry_after_ms: Option<u64>,
}

/// A refusal that says what its code says.
impl From<Code> for Rejection {
    fn from(code: Code) -> Self {
        Self::new(code, code.summary())
    }
}

impl Rejection {
    /// A refusal whose message is safe to show: it may quote the agent's own statement and what the
    /// visible catalog holds, nothing else.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        // A name the agent made up may be as long as its statement.
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        Self {
            code,
            message,
            details: None,
            policies: Vec::new(),
            retry_after_ms: None,
        }
    }

    /// The same with another message, which is as safe to show.
    #[must_use]
    pub(crate) fn with_message(self, message: impl Into<String>) -> Self {
        Self {
            message: Self::new(self.code, message).message,
            ..self
        }
    }

    /// A refusal for which this code, or the host's, is to blame; `detail` is for the operator.
    #[must_use]
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::from(Code::Internal).with_operator_detail(detail)
    }

    /// Adds after how long the same statement may be sent again.
    #[must_use]
    pub fn with_retry_after(mut self, time: Duration) -> Self {
        self.retry_after_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// After how long the same statement may be sent again, where that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }

    /// Adds what only the operator may read.
    #[must_use]
    pub fn with_operator_detail(mut self, detail: impl Into<String>) -> Self {
        self.details.get_or_insert_default().operator = Some(detail.into());
        self
    }

    /// Adds what records and logs say, where the operator's detail may hold values.
    #[must_use]
    pub(crate) fn with_recorded_detail(mut self, detail: Option<String>) -> Self {
        self.details.get_or_insert_default().recorded = detail;
        self
    }

    /// Adds the ids of the policies that determined the refusal.
    #[must_use]
    pub fn with_policies(mut self, policies: Vec<String>) -> Self {
        self.policies = policies;
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// The message the agent reads.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What only the operator may read.
    #[must_use]
    pub fn operator_detail(&self) -> Option<&str> {
        self.details.as_ref()?.operator.as_deref()
    }

    /// What records and logs say of the reason: the operator's detail, unless it is an engine's message. That can hold values: the
    /// engine's code stands in its place, with what it is about.
    #[must_use]
    pub fn recorded_detail(&self) -> Option<&str> {
        match self.code.detail() {
            Detail::Recorded => self.operator_detail(),
            Detail::Withheld => self.details.as_ref()?.recorded.as_deref(),
        }
    }

    /// Whether the reason is the operator's to know, so that the agent is given an id to quote.
    #[must_use]
    pub fn is_incident(&self) -> bool {
        match self.code.incident() {
            Incident::Never => false,
            Incident::Always => true,
            Incident::WithDetail => self.operator_detail().is_some(),
        }
    }

    /// The policies that determined the refusal; the operator's.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        &self.policies
    }

    /// The envelope the agent gets, with the names of the tools of `palisade serve`.
    #[must_use]
    pub fn for_agent(&self) -> AgentRejection<'_> {
        AgentRejection {
            code: self.code,
            message: &self.message,
            retryable: self.code.retryable(),
            retry_after_ms: self.retry_after_ms,
            remediation_hint: Cow::Borrowed(self.code.remediation()),
            next_valid_actions: self
                .code
                .next_valid_actions()
                .iter()
                .map(|action| Cow::Borrowed(*action))
                .collect(),
        }
    }

    /// The envelope the agent gets from a server whose tools are called `names`.
    ///
    /// ```
    /// use palisade::{code::Code, rejection::Rejection, tool_names::ToolNames};
    /// let names = ToolNames::default()
    ///     .rename("query", "run_sql")
    ///     .rename("list_tables", "show_tables");
    /// let refused = Rejection::new(Code::NameUnknownRelation, "there is no table `t`");
    /// let told = refused.for_agent_of(&names);
    /// assert_eq!(told.remediation_hint, "List the tables you can use with show_tables.");
    /// assert_eq!(told.next_valid_actions, ["show_tables", "run_sql"]);
    /// ```
    #[must_use]
    pub fn for_agent_of<'a>(&'a self, names: &'a ToolNames) -> AgentRejection<'a> {
        let usual = self.for_agent();
        AgentRejection {
            remediation_hint: names.translate(self.code.remediation()),
            next_valid_actions: self
                .code
                .next_valid_actions()
                .iter()
                .filter_map(|action| names.name(action))
                .map(Cow::Borrowed)
                .collect(),
            ..usual
        }
    }
}

/// The part of a refusal that leaves the firewall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentRejection<'a> {
    /// The stable code.
    pub code: Code,
    /// What happened, about this statement.
    pub message: &'a str,
    /// Whether the same statement may succeed later.
    pub retryable: bool,
    /// After how many milliseconds, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What to do, the same text for every refusal with this code.
    pub remediation_hint: Cow<'a, str>,
    /// Tools that make sense next.
    pub next_valid_actions: Vec<Cow<'a, str>>,
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// It has no source: the operator's detail is no part of what is printed.
impl std::error::Error for Rejection {}
