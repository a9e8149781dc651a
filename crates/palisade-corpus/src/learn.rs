//! The least policies that would have permitted what was asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use palisade::{
    access::AccessSet,
    catalog::{Catalog, Change},
    firewall::{Decision, Firewall},
    moment,
    policy::{PolicyErrors, PolicyFile, PolicySources, format_policies, row_type},
    session::{Principal, Session},
};
use serde::Serialize;

use crate::{
    folder::PolicyTests,
    load::OWN_POLICIES,
    replay::{AskedStatement, put_in_literals},
    run::{RunError, Runner},
};

/// What was learned from statements that were asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Learned {
    /// Policies with their evidence, in Cedar.
    pub policies: String,
    /// Cases that hold by them, in the format of tests.
    pub tests: String,
    /// How many statements they permit.
    pub permitted: usize,
    /// Statements from which nothing was learned, with the reason.
    pub left: Vec<(String, String)>,
    /// The first and the last moment of what was learned from, in UTC.
    pub window: Option<(String, String)>,
}

/// Why nothing is learned.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// Policies or tables do not load.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The learned policies are none: a fault of this program.
    #[error("the learned policies cannot be laid out: {0}")]
    Layout(PolicyErrors),
}

impl PolicyTests {
    /// The least policies that would have permitted `asked`, over the catalog `catalog` of this folder's tests and for the
    /// principals of its `entities.json`. Nothing is learned from what was refused, or was asked in a session with findings.
    ///
    /// # Errors
    /// If the folder does not load over the catalog.
    pub fn learn(&self, catalog: &str, asked: &[AskedStatement]) -> Result<Learned, LearnError> {
        let runner = Runner::over_catalogs(self.corpus(), OWN_POLICIES)?;
        let firewall = runner.firewall_over(catalog, OWN_POLICIES)?;
        let mut left = Vec::new();
        let mut known = Vec::new();
        let roles = read_roles(firewall.sources());
        let mut granted: BTreeMap<Subject, Grants> = BTreeMap::new();
        let Some(open) = runner.permit_everything_over(catalog, OWN_POLICIES) else {
            let why = "policies that permit everything do not load over the tables".to_owned();
            left.extend(asked.iter().map(|one| (one.sql.clone(), why.clone())));
            return Ok(Learned {
                policies: String::new(),
                tests: String::new(),
                permitted: 0,
                left,
                window: None,
            });
        };
        let count = self.progress().count("statements", asked.len());
        for statement in asked {
            count.add_one();
            match resolve(open, statement) {
                Ok((text, access)) => {
                    let subject = Subject::choose(&statement.principal, &roles);
                    let grants = granted.entry(subject).or_default();
                    grants.add(&access, statement, firewall.catalog());
                    known.push((statement, text));
                }
                Err(why) => left.push((statement.sql.clone(), why)),
            }
        }
        let text = print_policies(&granted);
        let policies = format_policies(&PolicyFile {
            name: FILE.to_owned(),
            text,
        })
        .map_err(LearnError::Layout)?;
        let mut permitted = Vec::new();
        let by_them = decide_by(&firewall, &policies, &granted);
        for (statement, text) in known {
            let session = Session::new(statement.principal.clone()).at(statement.last);
            let decided = by_them
                .as_ref()
                .and_then(|by_them| by_them.check(&text, &statement.params, &session).ok());
            match decided {
                Some(Decision::Allow(_)) => permitted.push((statement, text)),
                Some(Decision::Reject(rejection)) => {
                    let why = format!("it needs more than is learned: {rejection}");
                    left.push((statement.sql.clone(), why));
                }
                None => {
                    let why = "the learned policies do not load".to_owned();
                    left.push((statement.sql.clone(), why));
                }
            }
        }
        let moments = permitted.iter().map(|(statement, _)| statement);
        let first = moments.clone().map(|statement| statement.first).min();
        let last = moments.map(|statement| statement.last).max();
        Ok(Learned {
            tests: print_tests(catalog, &permitted),
            policies,
            permitted: permitted.len(),
            left,
            window: first
                .zip(last)
                .filter(|(_, last)| !last.is_zero())
                .map(|(first, last)| (moment::print_utc(first), moment::print_utc(last))),
        })
    }
}

/// What the file of learned policies is called.
const FILE: &str = "learned.cedar";

/// The statement with stand-ins for literals, and what it touches; or why nothing is learned from it.
pub(crate) fn resolve(
    open: &Firewall,
    asked: &AskedStatement,
) -> Result<(String, AccessSet), String> {
    if asked.was_permitted == Some(false) {
        return Err("it was refused".to_owned());
    }
    if asked.needed_approval {
        return Err(
            "it ran by a person's approval: write its permit by hand, with `@approval`".to_owned(),
        );
    }
    if asked.clean == 0 {
        return Err(
            "it was asked only in sessions in which instructions to a model were found".to_owned(),
        );
    }
    // Permits of the statement would let it be asked outside of the template too.
    if let Some(name) = &asked.template {
        return Err(format!(
            "it ran as the template `{name}`: by hand, permit `run` of it, and what it touches `when {{ context has template && context.template == \"{name}\" }}`"
        ));
    }
    let session = Session::new(asked.principal.clone()).at(asked.last);
    let mut why = "its text was not recorded".to_owned();
    for text in put_in_literals(asked) {
        let decided = open.check(&text, &asked.params, &session);
        match (decided, open.resolve_access(&text, &session)) {
            (Ok(Decision::Allow(_)), Ok(access)) => return Ok((text, access)),
            (Ok(Decision::Reject(rejection)), _) => why = rejection.to_string(),
            (Err(error), _) => why = error.to_string(),
            (Ok(Decision::Allow(_)), Err(rejection)) => why = rejection.to_string(),
        }
    }
    Err(why)
}

/// To whom something is granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Role(String),
    Principal(String),
}

impl Subject {
    /// The role of `principal`, where it has a single one; a principal of several is granted for itself.
    fn choose(principal: &Principal, roles: &BTreeMap<String, Vec<String>>) -> Self {
        let name = principal.to_string();
        match roles.get(&name).map(Vec::as_slice) {
            Some([only]) => Self::Role(only.clone()),
            Some(_) | None => Self::Principal(name),
        }
    }

    /// As a policy's scope has it.
    fn scope(&self) -> String {
        match self {
            Self::Role(role) => format!("principal in {role}"),
            Self::Principal(principal) => format!("principal == {principal}"),
        }
    }

    /// As ids of policies have it.
    fn id(&self) -> String {
        let (Self::Role(name) | Self::Principal(name)) = self;
        let quoted = name.split('"').nth(1).unwrap_or(name);
        quoted
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect()
    }
}

/// The parents of each principal of `entities.json`, as policies write them.
fn read_roles(sources: &PolicySources) -> BTreeMap<String, Vec<String>> {
    let text = sources.entities.as_deref().unwrap_or("[]");
    let entities: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
    let name = |uid: &serde_json::Value| {
        let uid = uid.get("__entity").unwrap_or(uid);
        let (kind, id) = (uid.get("type")?.as_str()?, uid.get("id")?.as_str()?);
        Some(Principal::new(kind, id).to_string())
    };
    let mut roles = BTreeMap::new();
    for entity in &entities {
        let parents = entity.get("parents").and_then(serde_json::Value::as_array);
        let parents = parents.into_iter().flatten().filter_map(name);
        if let Some(uid) = entity.get("uid").and_then(name) {
            roles.insert(uid, parents.collect());
        }
    }
    roles
}

/// What a subject is granted.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    pub(crate) tables: BTreeMap<String, TableGrant>,
    functions: BTreeSet<String>,
    evidence: Evidence,
}

#[derive(Debug, Default)]
pub(crate) struct TableGrant {
    /// `row::main::tickets`.
    rows: String,
    actions: BTreeSet<&'static str>,
    row_actions: BTreeSet<&'static str>,
    pub(crate) plain: BTreeSet<String>,
    masked: BTreeSet<String>,
    tokens: BTreeSet<String>,
    written: BTreeSet<String>,
    /// A column by which rows were counted, where none was read.
    counted_by: BTreeSet<String>,
    /// The caps on rows; none where there was none.
    caps: BTreeSet<Option<u64>>,
    is_filtered: bool,
    evidence: Evidence,
}

/// By what something is granted.
#[derive(Debug, Default)]
struct Evidence {
    calls: u64,
    principals: BTreeSet<String>,
    first: Option<Duration>,
    last: Duration,
}

impl Evidence {
    fn add(&mut self, asked: &AskedStatement) {
        self.calls = self.calls.saturating_add(asked.clean);
        self.principals.insert(asked.principal.to_string());
        self.first = Some(
            self.first
                .map_or(asked.first, |first| first.min(asked.first)),
        );
        self.last = self.last.max(asked.last);
    }

    fn describe(&self) -> String {
        let times = match self.calls {
            1 => "asked once".to_owned(),
            calls => format!("asked {calls} times"),
        };
        let mut who: Vec<&str> = self.principals.iter().take(3).map(String::as_str).collect();
        let more = self.principals.len().saturating_sub(who.len());
        let rest = format!("{more} more");
        if more > 0 {
            who.push(&rest);
        }
        let when = match (self.first, self.last.is_zero()) {
            (Some(first), false) => {
                let day = |moment| {
                    moment::print_utc(moment)
                        .chars()
                        .take(10)
                        .collect::<String>()
                };
                let (first, last): (String, String) = (day(first), day(self.last));
                format!(", {first} to {last}")
            }
            (Some(_), true) | (None, _) => String::new(),
        };
        format!("{times} by {}{when}", who.join(", "))
    }
}

/// As what the values of a column are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownAs {
    Plain,
    Mask,
    Token,
}

impl Grants {
    /// Lets a column of a table be read so, and not otherwise.
    pub(crate) fn show(&mut self, table: &str, column: &str, shown_as: ShownAs) {
        let Some(grant) = self.tables.get_mut(table) else {
            return;
        };
        for (columns, of) in [
            (&mut grant.plain, ShownAs::Plain),
            (&mut grant.masked, ShownAs::Mask),
            (&mut grant.tokens, ShownAs::Token),
        ] {
            match of == shown_as {
                true => columns.insert(column.to_owned()),
                false => columns.remove(column),
            };
        }
    }

    /// The policy of the functions that were called, if any were.
    pub(crate) fn function_policy(&self, subject: &Subject) -> Option<String> {
        let list = self.functions.iter();
        let list: Vec<String> = list.map(|name| entity("Function", name)).collect();
        (!list.is_empty()).then(|| {
            format!(
                "// Functions, {}.\n@id(\"learned.{}.functions\")\npermit ({}, action == Action::\"call\", resource) when {{ [{}].contains(resource) }};\n\n",
                self.evidence.describe(),
                subject.id(),
                subject.scope(),
                list.join(", ")
            )
        })
    }

    pub(crate) fn add(&mut self, access: &AccessSet, asked: &AskedStatement, catalog: &Catalog) {
        self.evidence.add(asked);
        self.functions.extend(access.functions().map(str::to_owned));
        let mut touched = BTreeSet::new();
        for id in access.relations() {
            if let Some(relation) = catalog.relation(id) {
                let grant = self.tables.entry(relation.uid.to_string()).or_default();
                grant.rows = row_type(relation);
                grant.actions.insert("select");
                grant.row_actions.insert("see");
                touched.insert(relation.uid.to_string());
            }
        }
        for change in access.changes() {
            if let Some(relation) = catalog.relation(change.relation) {
                let grant = self.tables.entry(relation.uid.to_string()).or_default();
                grant.rows = row_type(relation);
                grant.actions.insert(change.change.name());
                grant.row_actions.extend(match change.change {
                    Change::Insert => &["add"][..],
                    Change::Delete => &["change"],
                    Change::Update => &["change", "add"],
                    // It asks no policy about rows.
                    Change::Truncate => &[],
                });
                touched.insert(relation.uid.to_string());
            }
        }
        for id in access.columns_read() {
            let names = catalog.relation(id.relation).zip(catalog.column(id));
            if let Some((relation, column)) = names {
                let grant = self.tables.entry(relation.uid.to_string()).or_default();
                let mask = format!("mask {}.{}", relation.uid, column.name);
                let is_masked = asked.obligations.contains(&mask);
                let columns = match is_masked {
                    true => &mut grant.masked,
                    false => &mut grant.plain,
                };
                columns.insert(column.uid.to_string());
            }
        }
        for id in access.relations() {
            let read = access.columns_read().any(|column| column.relation == id);
            // A table of which no column may be read is none to its reader, who may count its rows by a masked one.
            if let Some((relation, column)) = (catalog.relation(id).filter(|_| !read))
                .and_then(|relation| Some((relation, relation.column(0)?)))
            {
                let grant = self.tables.entry(relation.uid.to_string()).or_default();
                grant.counted_by.insert(column.uid.to_string());
            }
        }
        for id in access.columns_written() {
            let names = catalog.relation(id.relation).zip(catalog.column(id));
            if let Some((relation, column)) = names {
                let grant = self.tables.entry(relation.uid.to_string()).or_default();
                grant.written.insert(column.uid.to_string());
            }
        }
        for uid in touched {
            let is_filtered = ["filter", "no-rows"]
                .iter()
                .any(|obligation| asked.obligations.contains(&format!("{obligation} {uid}")));
            if let Some(grant) = self.tables.get_mut(&uid) {
                grant.is_filtered |= is_filtered;
                grant.caps.insert(find_cap(&asked.obligations));
                grant.evidence.add(asked);
            }
        }
    }
}

/// The policies that grant it, each with its evidence. What was asked once stands last.
fn print_policies(granted: &BTreeMap<Subject, Grants>) -> String {
    let (mut often, mut once) = (Vec::new(), Vec::new());
    for (subject, grants) in granted {
        for (table, grant) in &grants.tables {
            let out = match grant.evidence.calls {
                1 => &mut once,
                _ => &mut often,
            };
            out.extend(grant.list_policies(subject, table));
        }
        often.extend(grants.function_policy(subject));
    }
    let mut out = "// Learned from statements that were permitted. Review each policy: what an agent asked is not yet what it should.\n\n".to_owned();
    out.push_str(&often.concat());
    if !once.is_empty() {
        out.push_str("// Asked once each: is it what the principal is for?\n\n");
        out.push_str(&once.concat());
    }
    out
}

impl TableGrant {
    /// The policies that grant it, with comments.
    pub(crate) fn list_policies(&self, subject: &Subject, table: &str) -> Vec<String> {
        let mut out = Vec::new();
        // What was masked for one of them stays so for all, and what was capped keeps the widest cap.
        let plain: BTreeSet<String> = self.plain.difference(&self.masked).cloned().collect();
        let masked = match plain.is_empty() && self.masked.is_empty() && self.tokens.is_empty() {
            true => &self.counted_by,
            false => &self.masked,
        };
        let cap = match (self.caps.first(), self.caps.last()) {
            (Some(Some(_)), Some(Some(most))) => format!("@max_rows(\"{most}\")\n"),
            (_, _) => String::new(),
        };
        let scope = subject.scope();
        let id = format!("learned.{}.{}", subject.id(), table.replace('"', ""));
        let actions = list_actions(&self.actions);
        out.push(format!(
            "// {table}, {}.\n@id(\"{id}\")\n{cap}permit ({scope}, action in [{actions}], resource == {});\n\n",
            self.evidence.describe(),
            entity("Table", table)
        ));
        for (name, action, columns) in [
            ("plain", "read_plain", &plain),
            ("masked", "read_masked", masked),
            ("tokens", "read_token", &self.tokens),
            ("written", "write", &self.written),
        ] {
            if columns.is_empty() {
                continue;
            }
            let note = match action {
                "read_masked" => {
                    "// Masked: as a forbid of `read_plain` with `@mask` says, which is to be kept; NULL where there is none.\n"
                }
                "read_token" => "// Tokens: they compare, and no value is told.\n",
                _ => "",
            };
            let list: Vec<String> = columns.iter().map(|uid| entity("Column", uid)).collect();
            out.push(format!(
                "{note}@id(\"{id}.{name}\")\npermit ({scope}, action == Action::\"{action}\", resource) when {{ [{}].contains(resource) }};\n\n",
                list.join(", ")
            ));
        }
        let rows = list_actions(&self.row_actions);
        if self.is_filtered {
            out.push(format!(
                "// The rows of {table} were filtered: keep the policies of `see` that did so.\n\n"
            ));
        } else if !self.row_actions.is_empty() {
            out.push(format!(
                "// Every row. Write the condition of those that are its own, as `when {{ resource.tenant_id == principal.tenant }}`.\n@id(\"{id}.rows\")\npermit ({scope}, action in [{rows}], resource is {});\n\n",
                self.rows
            ));
        }
        out
    }
}

/// The cap on rows among obligations.
fn find_cap(obligations: &BTreeSet<String>) -> Option<u64> {
    let caps = obligations
        .iter()
        .filter_map(|one| one.strip_prefix("max-rows "));
    caps.filter_map(|rows| rows.parse().ok()).max()
}

fn list_actions(actions: &BTreeSet<&'static str>) -> String {
    let actions: Vec<String> = actions
        .iter()
        .map(|action| format!("Action::\"{action}\""))
        .collect();
    actions.join(", ")
}

/// An entity as a policy writes it.
pub(crate) fn entity(kind: &str, id: &str) -> String {
    Principal::new(kind, id).to_string()
}

/// The learned policies over the same tables. Where rows were filtered, every row stands for those that the filters let through.
fn decide_by(
    firewall: &Firewall,
    policies: &str,
    granted: &BTreeMap<Subject, Grants>,
) -> Option<Firewall> {
    let mut text = policies.to_owned();
    let tables = granted.values().flat_map(|grants| grants.tables.values());
    let filtered = tables.filter(|grant| grant.is_filtered);
    for rows in filtered.map(|grant| &grant.rows).collect::<BTreeSet<_>>() {
        let _ = writeln!(
            text,
            "permit (principal, action in [Action::\"see\", Action::\"change\", Action::\"add\"], resource is {rows});"
        );
    }
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: FILE.to_owned(),
            text,
        }],
        ..firewall.sources().clone()
    };
    let builder = Firewall::builder(firewall.catalog().clone(), sources);
    builder.allow_changes().build().ok()
}

/// A case for each statement, with stand-ins for its literals.
fn print_tests(catalog: &str, permitted: &[(&AskedStatement, String)]) -> String {
    let mut out = format!(
        "# Statements from which policies were learned; `1` stands for literals that were not recorded.\ncatalog = {}\n",
        toml::Value::from(catalog)
    );
    for (number, (statement, text)) in permitted.iter().enumerate() {
        let _ = write!(
            out,
            "\n[[case]]\nname = \"learned-{}\"\nas = {}\nsql = {}\ndecision = \"allow\"\n",
            number + 1,
            toml::Value::from(statement.principal.to_string()),
            toml::Value::from(text.as_str())
        );
    }
    out
}
