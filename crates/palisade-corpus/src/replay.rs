//! Statements that were asked, decided by two versions of a policy folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use palisade::{
    code::{Code, Fault, Stage},
    firewall::{Decision, Firewall, Trace},
    policy::{
        PolicySources,
        template::{ParameterType, Template},
    },
    session::{Principal, Session, Transport},
    value::{Params, Value},
};
use serde::Serialize;

use crate::{
    diff::{self, Direction, PolicyChange, direction, share},
    folder::PolicyTests,
    load::OWN_POLICIES,
    run::{RunError, Runner},
    unreachable::is_of_text,
};

/// A statement that somebody asked.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedStatement {
    /// Who.
    pub principal: Principal,
    /// Its text; as audit logs hold it where its literals were left out.
    pub sql: String,
    /// The template that it was the statement of.
    pub template: Option<String>,
    /// Its parameters.
    pub params: Params,
    /// How it came.
    pub transport: Transport,
    /// When first, since 1970-01-01 UTC; zero if that is not known.
    pub first: Duration,
    /// When last.
    pub last: Duration,
    /// How often.
    pub count: u64,
    /// How often in sessions without a finding of instructions to a model.
    pub clean: u64,
    /// Whether it ran by a person's approval, or waits for one.
    pub needed_approval: bool,
    /// What policies obliged to, as audit records have it: `filter main.tickets`.
    pub obligations: BTreeSet<String>,
    /// Whether `sql` has its literals.
    pub literals: Literals,
    /// Whether it was permitted, where that is known.
    pub was_permitted: Option<bool>,
    /// The code with which it was refused, where that is known.
    pub refused_with: Option<Code>,
}

impl AskedStatement {
    /// Whether the policies by which it was decided would have decided otherwise about literals for which they give `code`.
    fn contradicts(&self, code: Option<Code>) -> bool {
        match (self.was_permitted, self.refused_with) {
            (Some(true), _) => code.is_some(),
            // What the data or the server refused tells nothing of literals.
            (Some(false), Some(told)) => is_of_policies(told) && code != Some(told),
            (Some(false) | None, _) => false,
        }
    }
}

/// Whether text and policies alone give this refusal.
fn is_of_policies(code: Code) -> bool {
    code.stage() == Stage::Decision && code.fault() == Fault::Statement
}

/// Whether this refusal is given whatever policies and tables there are. Which columns a principal sees decides what is ambiguous,
/// and templates have parameters of their own.
fn is_of_no_policy(asked: &AskedStatement) -> bool {
    asked.refused_with.is_some_and(|code| {
        is_of_text(code) || asked.template.is_none() && code == Code::ParameterMismatch
    })
}

/// Whether a text has its literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literals {
    /// It is as it was asked.
    Kept,
    /// Each is a `?`, as in audit logs.
    LeftOut,
}

/// What becomes of statements that were asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// What changes, the wider first.
    pub changes: Vec<PolicyChange>,
    /// How many statements are decided as before.
    pub unchanged: usize,
    /// Statements whose decision hangs on a literal that was left out.
    pub undecided: Vec<String>,
    /// Statements about tables that the tests lack, and texts that cannot be read.
    pub not_replayable: Vec<String>,
}

impl Replay {
    /// Of the statements that can be replayed, how many in a hundred are undecided.
    #[must_use]
    pub fn undecided_percent(&self) -> f64 {
        share(self.undecided.len(), self.changes.len() + self.unchanged)
    }
}

/// What stands in the place of a literal that was left out. Where decisions differ by it, the literal decides.
const STAND_INS: [&str; 3] = ["1", "1000000", "'1'"];

/// The most texts with several stand-ins that are tried.
const MAX_MIXED: usize = 2_000;

/// The most attributes of a principal that stand in for literals.
const MAX_ATTRIBUTES: usize = 4;

impl PolicyTests {
    /// What becomes of `asked` where the policies of `old` give way to these, over the catalog `catalog` of this folder's
    /// tests. Where the tests of `old` have other tables of this name, statements are decided over those too: a change over
    /// either counts.
    ///
    /// # Errors
    /// If policies do not load over it.
    pub fn replay(
        &self,
        old: &PolicyTests,
        catalog: &str,
        asked: &[AskedStatement],
    ) -> Result<Replay, RunError> {
        let principals: BTreeSet<&Principal> =
            asked.iter().map(|statement| &statement.principal).collect();
        let (newer, older) = (&self.corpus().catalogs, &old.corpus().catalogs);
        let texts = match (newer.get(catalog), older.get(catalog)) {
            (Some(new), Some(old)) if new != old => vec![new, old],
            (Some(one), _) | (None, Some(one)) => vec![one],
            (None, None) => Vec::new(),
        };
        let mut grounds = Vec::new();
        for (at, text) in texts.into_iter().enumerate() {
            let load = |tests: &PolicyTests| {
                let mut corpus = tests.corpus().clone();
                corpus.catalogs = BTreeMap::from([(catalog.to_owned(), text.clone())]);
                Runner::over_catalogs(&corpus, OWN_POLICIES)
            };
            let runners = [load(old), load(self)];
            match runners {
                [Ok(old), Ok(new)] => grounds.push([old, new]),
                // Statements that need the older tables stay not replayable.
                [Err(RunError::Policies { .. }), _] | [_, Err(RunError::Policies { .. })]
                    if at > 0 => {}
                [Err(fault), _] | [_, Err(fault)] => return Err(fault),
            }
        }
        let mut versions = Vec::new();
        for [old, new] in &grounds {
            versions.push(Versions {
                old: Version::new(old, catalog, &principals)?,
                new: Version::new(new, catalog, &principals)?,
                open: new.permit_everything_over(catalog, OWN_POLICIES),
            });
        }
        let mut replay = Replay::default();
        let mut changes = BTreeSet::new();
        let count = self.progress().count("statements", asked.len());
        for statement in asked {
            let fates = versions.iter().map(|versions| versions.decide(statement));
            match fates.reduce(Fate::or).unwrap_or(Fate::NotReplayable) {
                Fate::Same => replay.unchanged += 1,
                Fate::Changes(change) => {
                    changes.insert(change);
                }
                Fate::Undecided => replay.undecided.push(statement.sql.clone()),
                Fate::NotReplayable => replay.not_replayable.push(statement.sql.clone()),
            }
            count.add_one();
        }
        replay.changes = changes.into_iter().collect();
        Ok(replay)
    }

    /// The versions by which the firewall decides over the catalog `catalog` of these tests, as audit records name them.
    ///
    /// # Errors
    /// If policies do not load over it.
    pub fn versions(&self, catalog: &str) -> Result<PolicyVersions, RunError> {
        self.versions_by(self, catalog)
    }

    /// As [`versions`](Self::versions), by the policies of `tests` over the tables of this folder.
    ///
    /// # Errors
    /// As there.
    pub fn versions_by(
        &self,
        tests: &PolicyTests,
        catalog: &str,
    ) -> Result<PolicyVersions, RunError> {
        let mut corpus = tests.corpus().clone();
        let named = self.corpus().catalogs.iter();
        let named = named.filter(|(name, _)| *name == catalog);
        corpus.catalogs = named
            .map(|(name, text)| (name.clone(), text.clone()))
            .collect();
        let runner = Runner::over_catalogs(&corpus, OWN_POLICIES)?;
        let firewall = runner.firewall_over(catalog, OWN_POLICIES)?;
        let policies = firewall.policies();
        Ok(PolicyVersions {
            policies: policies.texts_digest().to_owned(),
            entities: policies.entities_digest().to_owned(),
            catalog: firewall.catalog().version().to_owned(),
        })
    }
}

/// By which versions statements are decided, as audit records name them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyVersions {
    /// The digest of policies, classification and templates.
    pub policies: String,
    /// The digest of the principals.
    pub entities: String,
    /// The digest of the tables.
    pub catalog: String,
}

impl PolicyVersions {
    /// What of `other` is another version.
    #[must_use]
    pub fn list_differing(&self, other: &Self) -> Vec<&'static str> {
        let Self {
            policies,
            entities,
            catalog,
        } = self;
        [
            ("policies", policies != &other.policies),
            ("entities", entities != &other.entities),
            ("catalog", catalog != &other.catalog),
        ]
        .into_iter()
        .filter_map(|(what, differs)| differs.then_some(what))
        .collect()
    }
}

/// What becomes of one statement.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Same,
    Changes(PolicyChange),
    Undecided,
    NotReplayable,
}

impl Fate {
    /// What becomes of it over two tables: what one of them shows counts.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Changes(a), Self::Changes(b)) => Self::Changes(a.min(b)),
            (changes @ Self::Changes(_), _) | (_, changes @ Self::Changes(_)) => changes,
            (Self::Undecided, _) | (_, Self::Undecided) => Self::Undecided,
            (Self::Same, _) | (_, Self::Same) => Self::Same,
            (Self::NotReplayable, Self::NotReplayable) => Self::NotReplayable,
        }
    }
}

/// What principals may do at all, by resource and action, as `access.lock` says it.
type Cells = BTreeMap<(String, &'static str), String>;

/// One version of policies over a catalog.
struct Version {
    firewall: Arc<Firewall>,
    cells: BTreeMap<Principal, Cells>,
}

impl Version {
    fn new(
        runner: &Runner,
        catalog: &str,
        principals: &BTreeSet<&Principal>,
    ) -> Result<Self, RunError> {
        let firewall = runner.firewall_over(catalog, OWN_POLICIES)?;
        let mut cells = BTreeMap::new();
        let kinds = firewall.principal_kinds();
        // To a principal of a type that these policies do not know, nothing is permitted.
        let known = |principal: &&&Principal| kinds.iter().any(|kind| kind == principal.kind());
        for principal in principals.iter().filter(known) {
            let found = diff::cells(&firewall, principal).map_err(|source| RunError::Policies {
                policies: OWN_POLICIES.to_owned(),
                catalog: catalog.to_owned(),
                source,
            })?;
            cells.insert((*principal).clone(), found);
        }
        Ok(Self { firewall, cells })
    }

    /// None where there is no decision.
    fn decide(&self, sql: &str, params: &Params, session: &Session) -> Option<Outcome> {
        let (code, trace) = decide(&self.firewall, sql, params, session)?;
        Some(self.outcome(code, &trace, session))
    }

    /// The same of a template with the stand-in at `at` for each argument. It may have another statement than that of the record.
    fn decide_template(&self, name: &str, at: usize, session: &Session) -> Option<Outcome> {
        let templates = self.firewall.known_templates();
        let template = templates.iter().find(|template| template.name == name);
        let arguments = template.map_or_else(BTreeMap::new, |template| stand_in(template, at));
        match self.firewall.instantiate(name, &arguments, session) {
            Ok(call) => self.decide(call.sql(), call.params(), call.session()),
            Err(rejection) => Some(Outcome {
                code: Some(rejection.code()),
                seen: Vec::new(),
            }),
        }
    }

    fn outcome(&self, code: Option<Code>, trace: &Trace, session: &Session) -> Outcome {
        let none = Cells::new();
        let cells = self.cells.get(session.principal()).unwrap_or(&none);
        Outcome {
            seen: match code {
                None => list_seen(trace, cells),
                Some(_) => Vec::new(),
            },
            code,
        }
    }
}

/// Two versions of policies over one catalog.
struct Versions<'v> {
    old: Version,
    new: Version,
    /// Policies that permit everything, where they load.
    open: Option<&'v Firewall>,
}

impl Versions<'_> {
    fn decide(&self, asked: &AskedStatement) -> Fate {
        let session = Session::new(asked.principal.clone())
            .at(asked.last)
            .over(asked.transport);
        let texts = put_in_literals(asked);
        if asked.sql.trim().is_empty() {
            return Fate::NotReplayable;
        }
        if asked.was_permitted == Some(true) && self.lacks_tables(&texts, &session) {
            return Fate::NotReplayable;
        }
        // Policies have no part in that.
        if is_of_no_policy(asked) {
            return Fate::Same;
        }
        let mut fates = Vec::new();
        // Values of several types, as those of a row: the older policies tell which could have been there.
        let mixed = match asked.template {
            None => self.find_mixed(asked, &texts, &session),
            Some(_) => Vec::new(),
        };
        let mut is_contradicted = false;
        for (at, text) in texts.iter().chain(&mixed).enumerate() {
            let decide = |version: &Version| match &asked.template {
                None => version.decide(text, &asked.params, &session),
                Some(name) => version.decide_template(name, at, &session),
            };
            let (Some(was), Some(is)) = (decide(&self.old), decide(&self.new)) else {
                return Fate::Undecided;
            };
            // A stand-in that makes it no statement says nothing.
            let is_no_statement =
                was.code.is_some() && was.code == is.code && self.is_always_refused(text, &session);
            if is_no_statement && asked.literals == Literals::LeftOut {
                continue;
            }
            if asked.literals == Literals::LeftOut && asked.contradicts(was.code) {
                is_contradicted = true;
                continue;
            }
            fates.push(
                compare(&was, &is).map(|(direction, [old, new])| PolicyChange {
                    direction,
                    principal: asked.principal.to_string(),
                    of: describe(asked),
                    old,
                    new,
                }),
            );
        }
        fates.dedup();
        let mut fates = fates.into_iter();
        match (fates.next(), fates.next()) {
            (Some(None), None) => Fate::Same,
            (Some(Some(change)), None) => Fate::Changes(change),
            // What was refused whatever was asked for still is.
            (None, _) if asked.was_permitted == Some(false) && !is_contradicted => Fate::Same,
            (None, _) | (Some(_), Some(_)) => Fate::Undecided,
        }
    }

    /// Where the record contradicts each stand-in in all places, texts with several that it does not contradict.
    fn find_mixed(
        &self,
        asked: &AskedStatement,
        texts: &[String],
        session: &Session,
    ) -> Vec<String> {
        let is_possible = |text: &String| {
            let decided = self.old.decide(text, &asked.params, session);
            decided.is_some_and(|outcome| !asked.contradicts(outcome.code))
        };
        if asked.literals == Literals::Kept || texts.iter().any(is_possible) {
            return Vec::new();
        }
        let pieces = split_at_literals(&asked.sql);
        let values = list_values(self.old.firewall.sources(), &asked.principal);
        let places = pieces.len().saturating_sub(1);
        let mut found = Vec::new();
        for number in 0..MAX_MIXED {
            let mut left = number;
            let mut chosen = Vec::new();
            for _ in 0..places {
                chosen.extend(values.get(left % values.len()));
                left /= values.len();
            }
            // All have been there.
            if left > 0 {
                break;
            }
            let text = put_between(&pieces, &mut chosen.into_iter().map(String::as_str));
            if is_possible(&text) {
                found.push(text);
            }
            if found.len() == STAND_INS.len() {
                break;
            }
        }
        found
    }

    /// Whether it is refused whatever policies say.
    fn is_always_refused(&self, text: &str, session: &Session) -> bool {
        let decided = self
            .open
            .and_then(|open| decide(open, text, &Params::None, session));
        decided.is_some_and(|(code, _)| code.is_some())
    }

    /// Whether the statement names what the catalog does not have.
    fn lacks_tables(&self, texts: &[String], session: &Session) -> bool {
        let Some(open) = self.open else {
            return false;
        };
        texts.iter().all(|text| {
            let decided = decide(open, text, &Params::None, session);
            let code = decided.and_then(|(code, _)| code);
            code == Some(Code::NameUnknownRelation) || code == Some(Code::NameUnknownColumn)
        })
    }
}

/// A statement as a line of a difference has it.
fn describe(asked: &AskedStatement) -> String {
    match asked.count {
        1 => format!("`{}`", asked.sql),
        count => format!("`{}`, asked {count} times", asked.sql),
    }
}

/// An argument for each parameter of a template: what [`STAND_INS`] has at `at`, of its type.
fn stand_in(template: &Template, at: usize) -> BTreeMap<String, Value> {
    let number = if at == 1 { 1_000_000 } else { 1 };
    let value = |kind: ParameterType| match kind {
        ParameterType::Text => Value::text(number.to_string()),
        ParameterType::Integer | ParameterType::Number => Value::Integer(number),
        ParameterType::Boolean => Value::Bool(at == 1),
    };
    let parameters = template.parameters.iter();
    parameters
        .map(|parameter| (parameter.name.clone(), value(parameter.kind)))
        .collect()
}

/// The text of a statement, with each stand-in where its literals were left out.
pub(crate) fn put_in_literals(asked: &AskedStatement) -> Vec<String> {
    match asked.literals {
        Literals::Kept => vec![asked.sql.clone()],
        Literals::LeftOut => STAND_INS
            .iter()
            .map(|literal| put_in(&asked.sql, literal))
            .collect(),
    }
}

/// `text` with `literal` in the place of each literal or parameter that was left out.
fn put_in(text: &str, literal: &str) -> String {
    put_between(&split_at_literals(text), &mut std::iter::repeat(literal))
}

fn put_between(pieces: &[String], literals: &mut dyn Iterator<Item = &str>) -> String {
    let mut out = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 {
            out.push_str(literals.next().unwrap_or("NULL"));
        }
        out.push_str(piece);
    }
    out
}

/// What stands before, between and behind the literals of a statement. Each is a word `?`, and a parameter is `$1` or `?1`, not
/// in quotes.
fn split_at_literals(text: &str) -> Vec<String> {
    let mut quote = None;
    let mut pieces = vec![String::new()];
    for (at, word) in text.split(' ').enumerate() {
        let last = pieces.last_mut();
        if let Some(last) = last
            && at > 0
        {
            last.push(' ');
        }
        if quote.is_none() && is_left_out(word) {
            pieces.push(String::new());
            continue;
        }
        for c in word.chars() {
            match (quote, c) {
                (None, '"' | '`') => quote = Some(c),
                (Some(open), c) if open == c => quote = None,
                (None | Some(_), _) => {}
            }
        }
        if let Some(last) = pieces.last_mut() {
            last.push_str(word);
        }
    }
    pieces
}

fn is_left_out(word: &str) -> bool {
    let number = word.strip_prefix('?');
    match number.or_else(|| word.strip_prefix('$')) {
        Some("") => word == "?",
        Some(number) => number.bytes().all(|byte| byte.is_ascii_digit()),
        None => false,
    }
}

/// The stand-ins, and what `principal` has as attributes, which conditions on rows compare with.
fn list_values(sources: &PolicySources, principal: &Principal) -> Vec<String> {
    let text = sources.entities.as_deref().unwrap_or("[]");
    let entities: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
    let is_it = |entity: &&serde_json::Value| {
        let uid = entity.get("uid").unwrap_or(&serde_json::Value::Null);
        let uid = uid.get("__entity").unwrap_or(uid);
        let part = |key: &str| uid.get(key).and_then(serde_json::Value::as_str);
        part("type").zip(part("id")) == Some((principal.kind(), principal.id()))
    };
    let found = entities.iter().find(is_it);
    let attributes = found.and_then(|entity| entity.get("attrs")?.as_object());
    let attributes = attributes
        .into_iter()
        .flat_map(|attributes| attributes.values());
    let literals = attributes.filter_map(|value| match value {
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::String(text) => Some(format!("'{}'", text.replace('\'', "''"))),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Array(_)
        | serde_json::Value::Object(_) => None,
    });
    let mut values: Vec<String> = literals.take(MAX_ATTRIBUTES).collect();
    // A token cannot be made up, and is compared with NULL as with a token.
    for stand_in in STAND_INS.into_iter().chain(["NULL"]) {
        if !values.iter().any(|value| value == stand_in) {
            values.push(stand_in.to_owned());
        }
    }
    values
}

/// What a version of policies makes of a statement.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: Option<Code>,
    /// What of each table and column is seen and changed, as cells of `access.lock` say it.
    seen: Vec<(String, String)>,
}

/// The refusal, if there is one, and the record; none where there is no decision.
fn decide(
    firewall: &Firewall,
    sql: &str,
    params: &Params,
    session: &Session,
) -> Option<(Option<Code>, Trace)> {
    let (decision, trace) = firewall.explain(sql, params, session).ok()?;
    let code = match decision {
        Decision::Allow(_) => None,
        Decision::Reject(rejection) => Some(rejection.code()),
    };
    Some((code, trace))
}

fn list_seen(trace: &Trace, cells: &Cells) -> Vec<(String, String)> {
    let most = match trace.max_rows {
        None => "all rows".to_owned(),
        Some(rows) => format!("at most {rows} rows"),
    };
    let mut seen = vec![("the answer".to_owned(), most)];
    for relation in &trace.relations {
        let name = &relation.relation;
        let cell = |action| cells.get(&(name.clone(), action)).cloned();
        let rows = match relation.rows {
            "all" => Some("all rows".to_owned()),
            "none" => Some("no rows".to_owned()),
            // By which condition, the cell says.
            _ => cell("see"),
        };
        seen.extend(rows.map(|rows| (name.clone(), rows)));
        if !relation.changed_by.is_empty() {
            seen.extend(cell("change").map(|rows| (format!("{name} change"), rows)));
        }
        for column in &relation.columns {
            let name = format!("{name}.{}", column.column);
            seen.push((name, column.level.clone()));
        }
    }
    seen.sort();
    seen
}

/// What is different, and its widest part.
fn compare(was: &Outcome, is: &Outcome) -> Option<(Direction, [String; 2])> {
    match (was.code, is.code) {
        (Some(code), None) => Some((
            Direction::NewlyPermitted,
            [code.slug().to_owned(), "allow".to_owned()],
        )),
        (None, Some(code)) => Some((
            Direction::Narrower,
            ["allow".to_owned(), code.slug().to_owned()],
        )),
        (Some(_), Some(_)) => None,
        (None, None) => {
            let mut changes = Vec::new();
            for (name, old) in &was.seen {
                let new = is.seen.iter().find(|(other, _)| other == name);
                if let Some((_, new)) = new.filter(|(_, new)| new != old) {
                    let told = [format!("{name} {old}"), format!("{name} {new}")];
                    changes.push((direction(old, new), told));
                }
            }
            changes.sort();
            changes.into_iter().next()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::put_in;

    #[test]
    fn literals_are_put_where_they_were() {
        let text = "select \"a ? b\" , ? from t where x = ?";
        let expected = "select \"a ? b\" , 1 from t where x = 1";
        assert_eq!(put_in(text, "1"), expected);
        let text = "select ?1 , \"$2\" , $2 , ? :: text , ?x , $ from t";
        let expected = "select '1' , \"$2\" , '1' , '1' :: text , ?x , $ from t";
        assert_eq!(put_in(text, "'1'"), expected);
    }
}
