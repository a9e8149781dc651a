//! Statements that were asked, from a file of them or from audit logs.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::BufRead as _,
    path::Path,
    time::Duration,
};

use palisade::{
    code::Code,
    session::{Principal, Transport},
    value::Params,
};
use palisade_corpus::{AskedStatement, Literals, PolicyVersions};
use palisade_host::{audit_log_of, list_audit_files};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// Bytes of a line.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// A line of a file of statements.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementLine {
    /// As batches have it.
    #[expect(dead_code, reason = "lines of batches may have one")]
    id: Option<serde_json::Value>,
    sql: String,
    params: Option<serde_json::Value>,
    r#as: String,
}

/// Principal, statement, template, transport, and the code if it was refused. What was permitted with some literals and refused
/// with others is two: each may change.
type Shape = (
    String,
    String,
    Option<String>,
    &'static str,
    (bool, Option<Code>),
);

/// What counts of a record of an audit log, which has more keys from version to version.
#[derive(Deserialize)]
struct RecordLine {
    seq: Option<u64>,
    kind: Option<String>,
    principal: Option<String>,
    statement: Option<String>,
    template: Option<String>,
    transport: Option<String>,
    time_ms: Option<u64>,
    decision: Option<String>,
    code: Option<String>,
    #[serde(default)]
    dry_run: bool,
    session: Option<String>,
    #[serde(default)]
    findings: u64,
    #[serde(default)]
    obligations: Vec<String>,
    approval: Option<serde_json::Value>,
    #[serde(default)]
    policies: Vec<String>,
    #[serde(default)]
    policy_digest: String,
    #[serde(default)]
    entities_digest: String,
    #[serde(default)]
    catalog_digest: String,
}

impl RecordLine {
    /// By which versions it was decided; empty where the record does not say.
    fn versions(&self) -> PolicyVersions {
        PolicyVersions {
            policies: self.policy_digest.clone(),
            entities: self.entities_digest.clone(),
            catalog: self.catalog_digest.clone(),
        }
    }

    /// How the statement came; of an older record that does not say it, as if from within a program.
    fn transport(&self) -> Transport {
        let name = self.transport.as_deref();
        name.and_then(Transport::from_name).unwrap_or_default()
    }
}

/// What becomes of records that were decided by other versions than those at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherVersions {
    /// They are counted, and not taken.
    LeaveOut,
    /// They are counted, and taken.
    Take,
}

/// A statement of records that were decided by other versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OfOtherVersions {
    pub(crate) principal: String,
    pub(crate) sql: String,
    /// What differs: `policies`, `entities`, `catalog`.
    pub(crate) differing: Vec<&'static str>,
    pub(crate) records: u64,
}

/// What is read of an audit log.
#[derive(Debug, Default)]
pub(crate) struct AskedInLog {
    /// Each shape of a statement of each principal once.
    pub(crate) statements: Vec<AskedStatement>,
    /// When each policy last determined a decision.
    pub(crate) policies: BTreeMap<String, Duration>,
    /// The time of the first and of the last record.
    pub(crate) window: Option<(Duration, Duration)>,
    /// How many records there are of statements.
    pub(crate) records: u64,
    /// Those that were decided by other versions than those at hand, where any were given.
    pub(crate) other_versions: Vec<OfOtherVersions>,
}

impl AskedInLog {
    /// How many records were decided by other versions, and what differs.
    pub(crate) fn count_other_versions(&self) -> (u64, Vec<&'static str>) {
        let others = self.other_versions.iter();
        let differing: BTreeSet<&str> = others
            .clone()
            .flat_map(|one| one.differing.clone())
            .collect();
        let records = others.map(|one| one.records).sum();
        (records, differing.into_iter().collect())
    }
}

/// The statements of a file of JSON lines, `{"sql", "params"?, "as"}`.
pub(crate) fn read_statements(path: &Path) -> Result<Vec<AskedStatement>, Failure> {
    let mut asked = Vec::new();
    for_each_line(path, &mut |line| {
        let read: StatementLine = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let params = match &read.params {
            Some(json) => Params::from_json(json)?,
            None => Params::None,
        };
        asked.push(AskedStatement {
            params,
            ..mark(parse_principal(&read.r#as)?, read.sql)
        });
        Ok(())
    })?;
    Ok(asked)
}

/// A statement that a person named.
pub(crate) fn mark(principal: Principal, sql: String) -> AskedStatement {
    AskedStatement {
        principal,
        sql,
        template: None,
        params: Params::None,
        transport: Transport::default(),
        first: Duration::ZERO,
        last: Duration::ZERO,
        count: 1,
        clean: 1,
        needed_approval: false,
        obligations: BTreeSet::new(),
        literals: Literals::Kept,
        was_permitted: None,
        refused_with: None,
    }
}

/// The statement of the record `seq` of an audit log.
pub(crate) fn read_record(path: &Path, seq: u64) -> Result<AskedStatement, Failure> {
    let mut found = None;
    for_each_line(path, &mut |line| {
        let read: RecordLine = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if read.seq != Some(seq) {
            return Ok(());
        }
        let transport = read.transport();
        let (Some("statement"), Some(principal), Some(sql)) =
            (read.kind.as_deref(), read.principal, read.statement)
        else {
            return Err("the record is of no statement".to_owned());
        };
        found = Some(AskedStatement {
            last: Duration::from_millis(read.time_ms.unwrap_or_default()),
            literals: Literals::LeftOut,
            template: read.template,
            transport,
            ..mark(parse_principal(&principal)?, sql)
        });
        Ok(())
    })?;
    found.ok_or_else(|| {
        Failure::Usage(format!(
            "`{}` has no record {seq}\n  help: `palisade audit show` lists records",
            path.display()
        ))
    })
}

/// The statements of an audit log, and of the files that were renamed before it. With `at_hand`, records that were decided
/// by other versions are told of.
pub(crate) fn read_audit(
    path: &Path,
    at_hand: Option<(&PolicyVersions, OtherVersions)>,
) -> Result<AskedInLog, Failure> {
    let files = if path == audit_log_of(path) {
        list_audit_files(path).map_err(|error| unread(path, &error))?
    } else {
        vec![path.to_owned()]
    };
    if files.is_empty() {
        let error = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(unread(path, &error));
    }
    let mut tainted = BTreeSet::new();
    for file in &files {
        for_each_line(file, &mut |line| {
            let read: RecordLine = serde_json::from_str(line).map_err(|error| error.to_string())?;
            if read.findings > 0 {
                tainted.extend(read.session);
            }
            Ok(())
        })?;
    }
    let mut log = AskedInLog::default();
    let mut by_shape: BTreeMap<Shape, AskedStatement> = BTreeMap::new();
    let mut others: BTreeMap<(String, String, Vec<&'static str>), u64> = BTreeMap::new();
    for file in files {
        for_each_line(&file, &mut |line| {
            let read: RecordLine = serde_json::from_str(line).map_err(|error| error.to_string())?;
            // Calls of tools that run nothing, what a person said, and what was only asked about.
            if read.kind.as_deref() != Some("statement") || read.dry_run {
                return Ok(());
            }
            let versions = read.versions();
            let transport = read.transport();
            let (Some(principal), Some(sql)) = (read.principal, read.statement) else {
                return Err("the record has no `principal` or no `statement`".to_owned());
            };
            log.records += 1;
            let at = Duration::from_millis(read.time_ms.unwrap_or_default());
            log.window = Some(match log.window {
                Some((first, last)) => (first.min(at), last.max(at)),
                None => (at, at),
            });
            for policy in read.policies {
                let last = log.policies.entry(policy).or_default();
                *last = at.max(*last);
            }
            let is_clean = read.findings == 0
                && read
                    .session
                    .is_none_or(|session| !tainted.contains(&session));
            let permitted = read.decision.as_deref() == Some("allow");
            let refused_with = read.code.as_deref().and_then(Code::from_slug);
            let parsed = parse_principal(&principal)?;
            if let Some((at_hand, others_are)) = at_hand {
                let differing = at_hand.list_differing(&versions);
                if !differing.is_empty() {
                    let key = (principal.clone(), sql.clone(), differing);
                    *others.entry(key).or_default() += 1;
                    match others_are {
                        OtherVersions::LeaveOut => return Ok(()),
                        OtherVersions::Take => {}
                    }
                }
            }
            let shape = (
                principal,
                sql.clone(),
                read.template.clone(),
                transport.name(),
                (permitted, refused_with),
            );
            let known = by_shape.entry(shape);
            let known = known.or_insert_with(|| AskedStatement {
                principal: parsed,
                sql,
                template: read.template,
                params: Params::None,
                transport,
                first: at,
                last: at,
                count: 0,
                clean: 0,
                needed_approval: false,
                obligations: BTreeSet::new(),
                literals: Literals::LeftOut,
                was_permitted: Some(permitted),
                refused_with,
            });
            known.count += 1;
            known.needed_approval |= read.approval.is_some();
            known.clean += u64::from(is_clean);
            known.first = known.first.min(at);
            known.last = known.last.max(at);
            known.obligations.extend(read.obligations);
            Ok(())
        })?;
    }
    log.statements = by_shape.into_values().collect();
    let told = |((principal, sql, differing), records)| OfOtherVersions {
        principal,
        sql,
        differing,
        records,
    };
    log.other_versions = others.into_iter().map(told).collect();
    Ok(log)
}

fn parse_principal(text: &str) -> Result<Principal, String> {
    Principal::parse(text).map_err(|error| error.to_string())
}

fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Usage(format!("cannot read `{}`: {error}", path.display()))
}

/// Hands over the lines of a file that are not blank. An error of one is told with its number.
fn for_each_line(
    path: &Path,
    read: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<(), Failure> {
    let file = std::fs::File::open(path).map_err(|error| unread(path, &error))?;
    let mut lines = std::io::BufReader::new(file);
    let mut number = 0_usize;
    loop {
        number += 1;
        let mut line = Vec::new();
        let mut bounded = std::io::Read::take(&mut lines, MAX_LINE_BYTES as u64);
        let count = bounded
            .read_until(b'\n', &mut line)
            .map_err(|error| unread(path, &error))?;
        let fault = |why: &str| Failure::Usage(format!("{}:{number}: {why}", path.display()));
        if count == 0 {
            return Ok(());
        }
        if count == MAX_LINE_BYTES {
            return Err(fault("the line is too long"));
        }
        let text = std::str::from_utf8(&line).map_err(|_| fault("the line is not UTF-8"))?;
        if !text.trim().is_empty() {
            read(text).map_err(|why| fault(&why))?;
        }
    }
}
