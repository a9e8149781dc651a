//! Cases as values.

use std::{fmt, time::Duration};

use palisade::{
    answer::Action,
    code::{Code, Stage},
    dialect::Dialect,
    limits::Limits,
    policy::ApprovalLevel,
    session::{Principal, Session, Transport},
    token::Lifetime,
    value::Params,
};

/// What a case is about: the folder it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suite {
    /// Ordinary statements that must run and give the right answer.
    Accept,
    /// Statements that must be refused, with the right code.
    Reject,
    /// What stands in the place of a statement, to the letter.
    Rewrite,
    /// What is found in answers.
    Scan,
    /// Ways around a firewall; allowed or refused, nothing hidden may come out.
    Attacks,
    /// The tests of a policy folder. No folder of a corpus.
    Tests,
}

impl Suite {
    /// Every suite of a corpus.
    pub const ALL: &'static [Self] = &[
        Self::Accept,
        Self::Reject,
        Self::Rewrite,
        Self::Scan,
        Self::Attacks,
    ];

    /// The folder's name.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Rewrite => "rewrite",
            Self::Scan => "scan",
            Self::Attacks => "attacks",
            Self::Tests => "tests",
        }
    }
}

/// One statement with what must become of it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The folder.
    pub suite: Suite,
    /// The file's name without extension.
    pub topic: String,
    /// Unique in the corpus. A cell of a matrix is `matrix/statement/principal`.
    pub name: String,
    /// As the file has the name: on a second catalog `name` ends in the dialect.
    pub written_name: String,
    /// The file, as it was opened.
    pub file: String,
    /// The line of the name in it, from 1.
    pub line: u32,
    /// Why it must come out so, for whoever sees it fail.
    pub why: String,
    /// Why it is not run; none if it is.
    pub skip: Option<String>,
    /// Ids of the technique it tries, from the table of threats.
    pub ids: Vec<String>,
    /// The catalog it runs on: `desk`, or with its dialect `desk.postgres`.
    pub catalog: String,
    /// The dialect of the catalog and the statement.
    pub dialect: Dialect,
    /// The policies it is decided by.
    pub policies: String,
    /// How long tokens last under them.
    pub token_lifetime: Lifetime,
    /// Who asks.
    pub principal: Principal,
    /// When, as time since 1970-01-01 UTC.
    pub at: Duration,
    /// How the statement comes.
    pub transport: Transport,
    /// The statement; empty where a template is run.
    pub sql: String,
    /// The template that is run instead.
    pub template: Option<String>,
    /// The parameters of the statement, or the arguments of the template.
    pub params: Params,
    /// The same as they are written; none where there are none.
    pub written_params: Option<serde_json::Value>,
    /// Limits that may be lower than the default ones.
    pub limits: Limits,
    /// What becomes of cells with findings.
    pub on_finding: Action,
    /// Whether the benchmarks measure it.
    pub bench: bool,
    /// Whether it is a cell that a matrix leaves out.
    pub is_left_out: bool,
    /// What must come out.
    pub expect: Expectation,
}

impl Case {
    /// A case without a name and a place that expects `sql` to be permitted, within the usual limits.
    pub(crate) fn expect_permit(
        (suite, policies): (Suite, &str),
        (catalog, dialect): (String, Dialect),
        principal: Principal,
        sql: &str,
    ) -> Self {
        Self {
            suite,
            topic: String::new(),
            name: String::new(),
            written_name: String::new(),
            file: String::new(),
            line: 0,
            why: String::new(),
            skip: None,
            ids: Vec::new(),
            catalog,
            dialect,
            policies: policies.to_owned(),
            token_lifetime: Lifetime::default(),
            principal,
            at: Duration::ZERO,
            transport: Transport::Library,
            sql: sql.to_owned(),
            template: None,
            params: Params::None,
            written_params: None,
            limits: Limits::default(),
            on_finding: Action::Flag,
            bench: false,
            is_left_out: false,
            expect: Expectation::from_verdict(Verdict::Allow),
        }
    }
}

/// What must come out. What is `None` is not compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Allowed or refused.
    pub verdict: Verdict,
    /// The refusal's message, exactly.
    pub message: Option<String>,
    /// The determining policies, sorted.
    pub policies: Option<Vec<String>>,
    /// What is run, exactly.
    pub rewritten: Option<String>,
    /// Texts that what is run contains.
    pub rewritten_has: Vec<String>,
    /// The most milliseconds that policies give it.
    pub max_time_ms: Option<u64>,
    /// Whose approval it waits for.
    pub approval: Option<ApprovalLevel>,
    /// Who may approve it as a change, and who may not.
    pub approvers: Vec<(Principal, bool)>,
    /// Whether masks and row filters apply, where the case is a cell of a matrix.
    pub shown: Option<Shown>,
    /// Whether it is a cell that nothing establishes yet, which fails whatever comes out.
    pub is_unverified: bool,
    /// The names of the answer's columns.
    pub columns: Option<Vec<String>>,
    /// The names of those that are masked.
    pub masked: Option<Vec<String>>,
    /// What the notices say of masked columns that the statement used, sorted: `customers.email: filter, aggregate`, of a view
    /// `: view`.
    pub used_masks: Option<Vec<String>>,
    /// Why there is no row.
    pub empty_reason: Option<String>,
    /// The rows, as the envelope's JSON has them.
    pub rows: Option<Vec<Vec<serde_json::Value>>>,
    /// Whether their order counts.
    pub ordered: bool,
    /// Whether there were more.
    pub truncated: Option<bool>,
    /// How many rows are changed, where it is run on a database that may be changed.
    pub affected: Option<u64>,
    /// The code by which it is refused where it is run on a database that may be changed, though it was permitted: what
    /// is there decides.
    pub on_data: Option<Code>,
    /// What is there after a change, read without the firewall.
    pub after: Option<After>,
    /// Ids of the detectors that find something, each once.
    pub findings: Option<Vec<String>>,
    /// What must not occur anywhere in what the agent gets.
    pub never: Vec<String>,
    /// Whether rows and column names must be those of the statement on the bare engine.
    pub preserve: bool,
}

/// Whether what a statement reads is masked, and whether only some rows are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shown {
    /// A column that it uses is masked or a token.
    pub masked: bool,
    /// Of a relation that it reads not every row is there.
    pub filtered: bool,
}

/// A query that is run after a change, on the bare engine, and its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct After {
    /// The query.
    pub sql: String,
    /// Its rows.
    pub rows: Vec<Vec<serde_json::Value>>,
}

/// Allowed, or refused with a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Decided to run, and run.
    Allow,
    /// Refused, before or after it ran.
    Reject(Code),
    /// Refused by what policies say or leave out, with whatever code: a policy that permits everything would let it run.
    Deny,
}

impl Expectation {
    /// The verdict, and nothing beside it.
    #[must_use]
    pub fn from_verdict(verdict: Verdict) -> Self {
        Self {
            verdict,
            message: None,
            policies: None,
            rewritten: None,
            rewritten_has: Vec::new(),
            max_time_ms: None,
            approval: None,
            approvers: Vec::new(),
            shown: None,
            is_unverified: false,
            columns: None,
            masked: None,
            used_masks: None,
            empty_reason: None,
            rows: None,
            ordered: false,
            truncated: None,
            affected: None,
            on_data: None,
            after: None,
            findings: None,
            never: Vec::new(),
            preserve: false,
        }
    }
}

impl Case {
    /// Who asks, when, and how.
    #[must_use]
    pub fn session(&self) -> Session {
        let session = Session::new(self.principal.clone()).at(self.at);
        session.over(self.transport)
    }

    /// `attacks/joins: using-a-masked-column`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}: {}", self.suite.folder(), self.topic, self.name)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.masked, self.filtered) {
            (false, false) => "allow",
            (true, false) => "mask",
            (false, true) => "filter",
            (true, true) => "mask, filter",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allow"),
            Self::Reject(code) => write!(f, "reject {code}"),
            Self::Deny => f.write_str("deny"),
        }
    }
}

/// Whether a refusal with this code can only come from running a statement that was allowed.
#[must_use]
pub fn arises_on_execution(code: Code) -> bool {
    match code.stage() {
        Stage::Execution => true,
        Stage::Decision => false,
    }
}
