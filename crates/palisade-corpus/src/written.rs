//! The text of one file of cases. Everything is strict: an unknown key or an expectation that contradicts itself is an
//! error with its line.

use std::{collections::BTreeMap, ops::Range, path::Path, time::Duration};

use palisade::{
    answer::Action,
    code::Code,
    dialect::Dialect,
    did_you_mean,
    limits::Limits,
    moment,
    policy::ApprovalLevel,
    session::{Principal, Transport},
    token::{Lifetime, LifetimeSyntaxError},
    value::Params,
};
use serde::Deserialize;
use toml::Spanned;

use crate::{
    case::{After, Case, Expectation, Suite, Verdict},
    load::is_snapshot,
    matrix::Matrix,
    survivor::{Survivor, WrittenSurvivor},
    test_server::TestServer,
};

/// A text and where its lines begin.
pub(crate) struct Text<'t> {
    path: &'t Path,
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Text<'t> {
    pub(crate) fn new(path: &'t Path, text: &'t str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            path,
            text,
            starts: std::iter::once(0).chain(ends).collect(),
        }
    }

    /// The line of a place, from 1.
    pub(crate) fn line(&self, offset: usize) -> u32 {
        let line = self.starts.partition_point(|start| *start <= offset);
        u32::try_from(line).unwrap_or(u32::MAX)
    }

    /// `tests/desk.toml:3:7`.
    pub(crate) fn place(&self, span: Option<Range<usize>>) -> String {
        let path = self.path.display();
        let Some(span) = span else {
            return path.to_string();
        };
        let line = self.line(span.start);
        let start = self.starts.get(line as usize - 1).copied().unwrap_or(0);
        let before = self.text.get(start..span.start).unwrap_or_default();
        format!("{path}:{line}:{}", before.chars().count() + 1)
    }

    fn fault(&self, error: &toml::de::Error) -> WrittenError {
        WrittenError {
            place: self.place(error.span()),
            case: None,
            message: with_hint(error.message()),
        }
    }
}

/// What is wrong with a file of cases, and where.
pub(crate) struct WrittenError {
    pub(crate) place: String,
    pub(crate) case: Option<String>,
    pub(crate) message: String,
}

/// A message of the parser, with the name that was probably meant: ``unknown field `rwos`, expected one of `rows`, …``.
fn with_hint(message: &str) -> String {
    let one_line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let names: Vec<&str> = one_line.split('`').skip(1).step_by(2).collect();
    match names.split_first() {
        Some((unknown, known)) if one_line.starts_with("unknown ") => {
            match find_meant(unknown, known) {
                Some(close) => {
                    let (what, _) = one_line.split_once(',').unwrap_or((&one_line, ""));
                    format!("{what}; did you mean `{close}`?")
                }
                None => one_line,
            }
        }
        Some(_) | None => one_line,
    }
}

/// The one of `known` that was probably meant: the closest, or one with letters swapped.
fn find_meant<'k>(unknown: &str, known: &[&'k str]) -> Option<&'k str> {
    let letters = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let swapped = || {
        let mut known = known.iter().copied();
        known.find(|name| letters(name) == letters(unknown))
    };
    did_you_mean::closest(unknown, known.iter().copied()).or_else(swapped)
}

/// The parts of a file: its `[[part]]` tables or, where there are none, the file as a whole.
pub(crate) fn read_parts(text: &Text<'_>) -> Result<Vec<Part>, WrittenError> {
    let read = || {
        let keys: FirstKeys = toml::from_str(text.text)?;
        if keys.part.is_some() {
            toml::from_str(text.text).map(|file: Parts| file.part)
        } else {
            toml::from_str(text.text).map(|part| vec![part])
        }
    };
    read().map_err(|error: toml::de::Error| text.fault(&error))
}

/// The mutants that the parts of a file say may survive.
pub(crate) fn read_survivors(
    text: &Text<'_>,
    parts: &[Part],
) -> Result<Vec<Survivor>, WrittenError> {
    let written = parts.iter().flat_map(|part| &part.survivor);
    written.map(|survivor| survivor.read(text)).collect()
}

/// A text of TOML as `T`; what is wrong is told with its place.
pub(crate) fn parse_toml<T: serde::de::DeserializeOwned>(
    text: &Text<'_>,
) -> Result<T, WrittenError> {
    toml::from_str(text.text).map_err(|error| text.fault(&error))
}

/// Whether a file has parts.
#[derive(Deserialize)]
struct FirstKeys {
    part: Option<serde::de::IgnoredAny>,
}

/// A file of several parts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    part: Vec<Part>,
}

/// Cases with the keys that they share.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    /// The tables: `NAME` of `NAME.sql` or `NAME.json`, or a list, and each case runs on each. It may be left out where there is one.
    pub(crate) catalog: Option<Spanned<Catalogs>>,
    /// The policy folder, of a corpus. The tests of a folder are of its own policies.
    pub(crate) policies: Option<Spanned<String>>,
    /// Who asks, in each case that does not say it: `Agent::"support-bot"`.
    r#as: Option<String>,
    /// The moment in UTC, `2026-03-01T12:00:00Z`. Without it, the beginning of 1970.
    at: Option<String>,
    /// How statements come, as policies see it in `context.transport`. Without it, `library`.
    transport: Option<WrittenTransport>,
    /// How long tokens last: `1m` to `365d`. Without it, they do not expire.
    token_lifetime: Option<String>,
    /// Texts that no answer may contain, beside those of each case.
    #[serde(default)]
    never: Vec<String>,
    /// Cases: a statement or a template each, with what must become of it.
    #[serde(default)]
    case: Vec<Written>,
    /// Many principals and many statements. A cell that is left out is a deny.
    #[serde(default)]
    matrix: Vec<Matrix>,
    /// Mutants that no case needs to notice.
    #[serde(default)]
    survivor: Vec<WrittenSurvivor>,
}

/// The catalogs of a part. Each case runs on every catalog; its name has the dialect at the end on all but the first.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Catalogs {
    One(String),
    Each(Vec<String>),
}

impl Catalogs {
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::One(name) => vec![name],
            Self::Each(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

/// A case as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// What it is called: lower-case letters, digits and dashes. No other case has this name.
    name: Spanned<String>,
    /// Why it must come out so. It is shown where the case fails.
    #[serde(default)]
    why: String,
    /// Why it is not run. Such cases are counted.
    skip: Option<String>,
    /// The techniques of attack that it tries, of a corpus.
    #[serde(default)]
    ids: Vec<String>,
    /// The statement.
    sql: Option<String>,
    /// The template that is run, in the place of `sql`.
    template: Option<String>,
    /// The parameters, a list or a table by name; of a template its arguments by name.
    params: Option<toml::Value>,
    /// Who asks: `Agent::"support-bot"`.
    r#as: Option<String>,
    /// The moment in UTC, `2026-03-01T12:00:00Z`.
    at: Option<String>,
    /// How the statement comes, as policies see it in `context.transport`.
    transport: Option<WrittenTransport>,
    /// Limits that are lower than the default ones.
    limits: Option<Limits>,
    /// What becomes of a cell in which a detector finds something.
    on_finding: Option<OnFinding>,
    /// Whether the benchmarks of a corpus measure it.
    #[serde(default)]
    bench: bool,
    /// Whether names and rows must be those that the database gives without the firewall.
    #[serde(default)]
    preserve: bool,
    /// Whether it is permitted.
    decision: WrittenDecision,
    /// The code of the refusal.
    code: Option<String>,
    /// The exact message of the refusal.
    message: Option<String>,
    /// Ids of the determining policies.
    policies: Option<Vec<String>>,
    /// The exact text that runs.
    rewritten: Option<String>,
    /// Texts within what runs.
    #[serde(default)]
    rewritten_has: Vec<String>,
    /// The most milliseconds that policies give it.
    max_time_ms: Option<u64>,
    /// Whose approval it waits for.
    approval: Option<WrittenApproval>,
    /// Principals who may approve it as a change.
    #[serde(default)]
    approvers: Vec<String>,
    /// Principals who may not.
    #[serde(default)]
    no_approvers: Vec<String>,
    /// The names of the answer's columns.
    columns: Option<Vec<String>>,
    /// The names of those that are masked.
    masked: Option<Vec<String>>,
    /// What the notices say of masked columns that the statement used.
    used_masks: Option<Vec<String>>,
    /// Why there is no row.
    empty_reason: Option<String>,
    /// The rows of the answer. `{}` stands for NULL.
    rows: Option<Vec<Vec<toml::Value>>>,
    /// Whether the order of rows counts. Without it, whether `sql` says ORDER BY.
    ordered: Option<bool>,
    /// Whether there were more rows.
    truncated: Option<bool>,
    /// How many rows change.
    affected: Option<u64>,
    /// The code of a refusal that the rows decide.
    on_data: Option<String>,
    /// What is there after a change.
    after: Option<WrittenAfter>,
    /// Ids of the detectors that find something.
    findings: Option<Vec<String>>,
    /// Texts that the answer does not contain.
    #[serde(default)]
    never: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAfter {
    /// A query that is run without the firewall.
    sql: String,
    /// Its rows.
    rows: Vec<Vec<toml::Value>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenDecision {
    Allow,
    Reject,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnFinding {
    Flag,
    Redact,
    Withhold,
    Block,
}

/// The level of an approval, as policies write it.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenApproval {
    Required,
    Operator,
}

impl From<WrittenApproval> for ApprovalLevel {
    fn from(written: WrittenApproval) -> Self {
        match written {
            WrittenApproval::Required => Self::Required,
            WrittenApproval::Operator => Self::Operator,
        }
    }
}

/// A transport, as policies call it.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenTransport {
    Library,
    Cli,
    Stdio,
    Http,
}

impl From<WrittenTransport> for Transport {
    fn from(written: WrittenTransport) -> Self {
        match written {
            WrittenTransport::Library => Self::Library,
            WrittenTransport::Cli => Self::Cli,
            WrittenTransport::Stdio => Self::Stdio,
            WrittenTransport::Http => Self::Http,
        }
    }
}

/// The dialect of a catalog, by its name.
pub(crate) fn dialect(catalog: &str) -> Result<Dialect, String> {
    match catalog.rsplit_once('.') {
        None => Ok(Dialect::Sqlite),
        Some((_, name)) => {
            Dialect::from_name(name).ok_or_else(|| format!("there is no dialect `{name}`"))
        }
    }
}

/// Where the cases of a part stand, and over what they are decided.
pub(crate) struct Ground<'g> {
    pub(crate) suite: Suite,
    pub(crate) text: &'g Text<'g>,
    pub(crate) topic: &'g str,
    pub(crate) part: &'g Part,
    /// Every catalog of the part.
    pub(crate) catalogs: &'g [&'g str],
    /// The texts of catalogs, by name.
    pub(crate) texts: &'g BTreeMap<String, String>,
    /// The servers that run cases, by catalog.
    pub(crate) servers: &'g BTreeMap<String, TestServer>,
    pub(crate) policies: &'g str,
}

impl Ground<'_> {
    /// The cases of the part that have no fault, on one catalog after the other.
    pub(crate) fn cases(&self, faults: &mut Vec<WrittenError>) -> Vec<Case> {
        let mut cases = Vec::new();
        for (at, catalog) in self.catalogs.iter().enumerate() {
            let mut add = |mut case: Case| {
                self.set_apart(&mut case, at);
                cases.push(case);
            };
            for written in &self.part.case {
                let name = &written.name;
                let read = self
                    .case(catalog, name.get_ref(), name.span())
                    .and_then(|mut case| self.fill(&mut case, written).map(|()| case));
                match read {
                    Ok(case) => add(case),
                    Err(message) => faults.push(self.fault_in(name, message)),
                }
            }
            for matrix in &self.part.matrix {
                match matrix.cases(self, catalog) {
                    Ok(found) => found.into_iter().for_each(&mut add),
                    Err(fault) => faults.push(fault),
                }
            }
        }
        cases
    }

    pub(crate) fn fault_in(&self, name: &Spanned<String>, message: String) -> WrittenError {
        WrittenError {
            place: self.text.place(Some(name.span())),
            case: Some(name.get_ref().clone()),
            message,
        }
    }

    /// Gives the case on the catalog at `at` a name of its own.
    fn set_apart(&self, case: &mut Case, at: usize) {
        if at > 0 {
            case.name = format!("{}-{}", case.name, case.dialect.name());
        }
    }

    /// A case that has all that the part says, and nothing of its own but a name. It expects a permit.
    pub(crate) fn case(
        &self,
        catalog: &str,
        name: &str,
        span: Range<usize>,
    ) -> Result<Case, String> {
        require_plain(name)?;
        Ok(Case {
            suite: self.suite,
            topic: self.topic.to_owned(),
            name: name.to_owned(),
            written_name: name.to_owned(),
            file: self.text.path.display().to_string(),
            line: self.text.line(span.start),
            why: String::new(),
            skip: None,
            ids: Vec::new(),
            catalog: catalog.to_owned(),
            dialect: dialect(catalog)?,
            policies: self.policies.to_owned(),
            token_lifetime: match &self.part.token_lifetime {
                None => Lifetime::default(),
                Some(text) => text
                    .parse()
                    .map_err(|error: LifetimeSyntaxError| format!("{error}: {}", error.help()))?,
            },
            principal: Principal::new("Agent", "default"),
            at: moment_of(self.part.at.as_deref())?,
            transport: self.part.transport.map(Into::into).unwrap_or_default(),
            sql: String::new(),
            template: None,
            params: Params::None,
            written_params: None,
            limits: Limits::default(),
            on_finding: Action::Flag,
            bench: false,
            is_left_out: false,
            expect: Expectation {
                never: self.part.never.clone(),
                ..Expectation::from_verdict(Verdict::Allow)
            },
        })
    }

    /// Puts what is written into a case.
    fn fill(&self, case: &mut Case, written: &Written) -> Result<(), String> {
        if written
            .skip
            .as_ref()
            .is_some_and(|why| why.trim().is_empty())
        {
            return Err("`skip` is a reason, and this one is empty".to_owned());
        }
        let principal = written.r#as.as_ref().or(self.part.r#as.as_ref());
        let principal =
            principal.ok_or_else(|| "who asks? write `as = 'Agent::\"…\"'`".to_owned())?;
        case.why.clone_from(&written.why);
        case.skip.clone_from(&written.skip);
        case.ids.clone_from(&written.ids);
        case.principal = Principal::parse(principal).map_err(|error| error.to_string())?;
        case.at = moment_of(written.at.as_deref().or(self.part.at.as_deref()))?;
        let transport = written.transport.or(self.part.transport);
        case.transport = transport.map(Into::into).unwrap_or_default();
        match (&written.sql, &written.template) {
            (Some(sql), None) => case.sql.clone_from(sql),
            (None, Some(_)) => case.template.clone_from(&written.template),
            (None, None) => {
                return Err(
                    "what is asked? write `sql = \"…\"` or `template = \"NAME\"`".to_owned(),
                );
            }
            (Some(_), Some(_)) => {
                return Err("`template` stands instead of `sql`: leave one out".to_owned());
            }
        }
        if let Some(value) = &written.params {
            let value = json(value)?;
            case.params = Params::from_json(&value)?;
            case.written_params = Some(value);
        }
        let by_number = matches!(case.params, Params::Positional(_));
        if case.template.is_some() && by_number {
            return Err(
                "a template's parameters have names: write `params = { NAME = … }`".to_owned(),
            );
        }
        case.limits = written.limits.clone().unwrap_or_default();
        case.on_finding = match written.on_finding {
            None | Some(OnFinding::Flag) => Action::Flag,
            Some(OnFinding::Redact) => Action::Redact,
            Some(OnFinding::Withhold) => Action::Withhold,
            Some(OnFinding::Block) => Action::Block,
        };
        case.bench = written.bench;
        let snapshot = self
            .texts
            .get(&case.catalog)
            .is_some_and(|text| is_snapshot(text));
        let runs = match (case.dialect, snapshot) {
            (Dialect::Sqlite, false) => Ok(()),
            (Dialect::Sqlite, true) => Err("over a snapshot of a catalog".to_owned()),
            (Dialect::Postgres | Dialect::Mysql, false)
                if self.servers.contains_key(&case.catalog) =>
            {
                Ok(())
            }
            (dialect @ (Dialect::Postgres | Dialect::Mysql), _) => Err(format!(
                "of {dialect} without a server in `tests/servers.toml`"
            )),
        };
        case.expect = expectation(self.part, written, runs)?;
        Ok(())
    }
}

/// Names are plain, so that they can be typed and are the same in every report.
pub(crate) fn require_plain(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '/');
    if name.is_empty() || !name.chars().all(plain) {
        return Err("a name has lower-case letters, digits and dashes".to_owned());
    }
    Ok(())
}

fn moment_of(text: Option<&str>) -> Result<Duration, String> {
    match text {
        None => Ok(Duration::ZERO),
        Some(text) => moment::since_1970(text).ok_or_else(|| {
            format!("`at` is no moment: `{text}`; write it in UTC, as \"2026-03-01T12:00:00Z\"")
        }),
    }
}

/// The code called `slug`.
pub(crate) fn code(slug: &str) -> Result<Code, String> {
    Code::from_slug(slug).ok_or_else(|| {
        let slugs = Code::ALL.iter().map(|code| code.slug());
        match did_you_mean::closest(slug, slugs) {
            Some(close) => format!("there is no code `{slug}`; did you mean `{close}`?"),
            None => format!("there is no code `{slug}`"),
        }
    })
}

fn expectation(
    part: &Part,
    written: &Written,
    runs: Result<(), String>,
) -> Result<Expectation, String> {
    let verdict = match (written.decision, &written.code) {
        (WrittenDecision::Allow, None) => Verdict::Allow,
        (WrittenDecision::Allow, Some(_)) => return Err("an allowed case has no `code`".to_owned()),
        (WrittenDecision::Reject, None) => return Err("a refused case needs a `code`".to_owned()),
        (WrittenDecision::Reject, Some(slug)) => Verdict::Reject(code(slug)?),
    };
    let of_an_answer = written.columns.is_some()
        || written.masked.is_some()
        || written.used_masks.is_some()
        || written.empty_reason.is_some()
        || written.rows.is_some()
        || written.truncated.is_some()
        || written.findings.is_some()
        || written.after.is_some()
        || written.preserve;
    if verdict != Verdict::Allow && (of_an_answer || !written.rewritten_has.is_empty()) {
        return Err("a refused case has no columns, rows or findings".to_owned());
    }
    if let (Err(which), true) = (runs, of_an_answer) {
        return Err(format!(
            "nothing runs cases {which}: what an answer holds would not be compared"
        ));
    }
    if verdict == Verdict::Allow && written.message.is_some() {
        return Err("an allowed case has no `message`".to_owned());
    }
    let on_data = match (&written.on_data, verdict) {
        (None, _) => None,
        (Some(slug), Verdict::Allow) if written.affected.is_none() => Some(code(slug)?),
        (Some(_), _) => {
            return Err("`on_data` is for what is allowed, and changes nothing".to_owned());
        }
    };
    if verdict != Verdict::Allow && written.max_time_ms.is_some() {
        return Err("a refused case has no `max_time_ms`: nothing is run".to_owned());
    }
    if written.approval.is_some() && verdict != Verdict::Reject(Code::ApprovalRequired) {
        return Err(
            "`approval` is for a case with `decision = \"reject\"` and `code = \"approval.required\"`"
                .to_owned(),
        );
    }
    let asked = [(&written.approvers, true), (&written.no_approvers, false)];
    let approvers = asked.iter().flat_map(|(names, is_one)| {
        let read = |name: &String| match Principal::parse(name) {
            Ok(principal) => Ok((principal, *is_one)),
            Err(why) => Err(format!("`{name}` is no principal: {why}")),
        };
        names.iter().map(read)
    });
    let sorted = |names: &Option<Vec<String>>| {
        names.clone().map(|mut names| {
            names.sort();
            names
        })
    };
    Ok(Expectation {
        verdict,
        message: written.message.clone(),
        policies: sorted(&written.policies),
        rewritten: written.rewritten.clone(),
        rewritten_has: written.rewritten_has.clone(),
        max_time_ms: written.max_time_ms,
        approval: written.approval.map(Into::into),
        approvers: approvers.collect::<Result<_, String>>()?,
        shown: None,
        is_unverified: false,
        columns: written.columns.clone(),
        masked: written.masked.clone(),
        used_masks: sorted(&written.used_masks),
        empty_reason: written.empty_reason.clone(),
        rows: written.rows.as_deref().map(json_rows).transpose()?,
        // Of a template it is said by the case.
        ordered: (written.ordered)
            .unwrap_or_else(|| written.sql.as_deref().is_some_and(is_ordered)),
        truncated: written.truncated,
        affected: written.affected,
        on_data,
        after: match &written.after {
            None => None,
            Some(after) => Some(After {
                sql: after.sql.clone(),
                rows: json_rows(&after.rows)?,
            }),
        },
        findings: sorted(&written.findings),
        never: part.never.iter().chain(&written.never).cloned().collect(),
        preserve: written.preserve,
    })
}

/// Whether a statement says in which order its rows come.
pub(crate) fn is_ordered(sql: &str) -> bool {
    sql.to_ascii_uppercase().contains("ORDER BY")
}

fn json_rows(rows: &[Vec<toml::Value>]) -> Result<Vec<Vec<serde_json::Value>>, String> {
    rows.iter()
        .map(|row| row.iter().map(json).collect())
        .collect()
}

/// A TOML value as JSON; `{}` is NULL.
fn json(value: &toml::Value) -> Result<serde_json::Value, String> {
    use serde_json::Value as Json;
    Ok(match value {
        toml::Value::String(text) => Json::from(text.as_str()),
        toml::Value::Integer(integer) => Json::from(*integer),
        toml::Value::Float(float) => Json::from(*float),
        toml::Value::Boolean(boolean) => Json::from(*boolean),
        toml::Value::Array(items) => items
            .iter()
            .map(json)
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        toml::Value::Table(table) if table.is_empty() => Json::Null,
        toml::Value::Table(table) => Json::Object(
            table
                .iter()
                .map(|(key, value)| Ok((key.clone(), json(value)?)))
                .collect::<Result<_, String>>()?,
        ),
        toml::Value::Datetime(_) => return Err("dates are written as strings".to_owned()),
    })
}
