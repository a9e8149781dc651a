//! What `palisade init` proposes of columns whose names say nothing: by their types, their tables, their comments, and what values
//! look like.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    ops::Range,
    sync::Arc,
};

use palisade::{
    audit::NoAudit,
    catalog::{Catalog, Column, Relation, RelationKind},
    dialect::Dialect,
    firewall::Firewall,
    guard::{Guard, Request},
    ident,
    limits::Limits,
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_host::Machine;
use palisade_scan::{find_card, find_iban};
use serde::Serialize;
use serde_json::Value as Json;

use crate::{
    database::{Access, Database},
    exit::Failure,
    host::{self, Driver},
};

/// Rows of a table that are looked at.
const ROWS: u64 = 1000;

/// Of so few values nothing is said.
const FEW: usize = 2;

/// What words in comments and types say, each with the tag.
const WORDS: &[(&str, &str)] = &[
    ("e-mail", "email"),
    ("email", "email"),
    ("phone", "phone"),
    ("telephone", "phone"),
    ("telefon", "phone"),
    ("mobile number", "phone"),
    ("iban", "personal-number"),
    ("card number", "personal-number"),
    ("passport", "personal-number"),
    ("social security", "personal-number"),
    ("national id", "personal-number"),
    ("tax id", "personal-number"),
    ("date of birth", "birth-date"),
    ("birth date", "birth-date"),
    ("birthday", "birth-date"),
    ("password", "secret"),
    ("secret", "secret"),
    ("api key", "secret"),
    ("credential", "secret"),
    ("salary", "pay"),
    ("wage", "pay"),
    ("postal address", "address"),
    ("street address", "address"),
    ("home address", "address"),
    ("ip address", "online-identifier"),
    ("personal data", "personal"),
    ("personenbezogen", "personal"),
    ("pii", "personal"),
    ("gdpr", "personal"),
    ("confidential", "personal"),
];

/// Names of columns that hold an amount of whatever their table is about.
const AMOUNTS: &[&str] = &["amount", "value", "total", "base"];

/// Parts of the names of tables about what people earn.
const PAY_STEMS: &[&str] = &["salar", "payroll", "compensation"];

/// Words in such names that stand by themselves: `wager` is none.
const PAY_WORDS: &[&str] = &["wage", "wages", "bonus", "bonuses"];

/// Types whose values are addresses of machines.
const ADDRESSES: &[&str] = &["inet", "inet4", "inet6", "cidr", "macaddr", "macaddr8"];

/// A tag for a column, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Proposal {
    /// As policies name it: `main.people.contact`.
    pub(crate) column: String,
    pub(crate) tag: &'static str,
    /// `its comment says …`.
    pub(crate) why: String,
}

impl Proposal {
    /// As an entry of `classification.toml`.
    pub(crate) fn entry(&self) -> String {
        // A comment ends with its line.
        let why: String = (self.why.chars())
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        format!(
            "\n# Proposed by `palisade init`, since {why}.\n[[column]]\nname = {}\ntags = [\"{}\"]\n",
            toml::Value::from(self.column.as_str()),
            self.tag
        )
    }
}

/// What values of columns look like, by column; and the tables that could not be read, with the reason.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    kinds: BTreeMap<String, (&'static str, String)>,
    pub(crate) not_sampled: Vec<String>,
}

/// The proposals for the columns of `wanted` by their types, tables, comments and values. The first that says anything counts.
pub(crate) fn propose(
    catalog: &Catalog,
    wanted: &BTreeSet<String>,
    sample: Option<&Sample>,
) -> Vec<Proposal> {
    let mut found = Vec::new();
    for relation in catalog.relations() {
        for (_, column) in relation.column_ids() {
            if !wanted.contains(&column.uid) {
                continue;
            }
            let by_values = || sample?.kinds.get(&column.uid).cloned();
            let said = by_type(column)
                .or_else(|| by_table(relation, column))
                .or_else(|| by_comment(catalog, relation, column))
                .or_else(by_values);
            found.extend(said.map(|(tag, why)| Proposal {
                column: column.uid.clone(),
                tag,
                why,
            }));
        }
    }
    found
}

fn by_type(column: &Column) -> Option<(&'static str, String)> {
    let name = column.type_name.to_lowercase();
    let tag = match ADDRESSES.contains(&name.as_str()) {
        true => Some("online-identifier"),
        false => find_word(&name.replace('_', " ")).map(|(_, tag)| tag),
    };
    Some((tag?, format!("its type is `{}`", column.type_name)))
}

/// What an amount is of, which a plain name such as `salaries.amount` leaves to its table to say.
fn by_table(relation: &Relation, column: &Column) -> Option<(&'static str, String)> {
    let name = column.key.to_lowercase();
    let mut words = name.split('_');
    if !words.any(|word| AMOUNTS.contains(&word)) || name.ends_with("_id") {
        return None;
    }
    let table = relation.key.to_lowercase();
    let is_of_pay = PAY_STEMS.iter().any(|stem| table.contains(stem))
        || table.split('_').any(|word| PAY_WORDS.contains(&word));
    let why = || ("pay", format!("its table is called `{}`", relation.name));
    is_of_pay.then(why)
}

fn by_comment(
    catalog: &Catalog,
    relation: &Relation,
    column: &Column,
) -> Option<(&'static str, String)> {
    let comment = catalog.comment(relation, Some(&column.name))?;
    let (word, tag) = find_word(&comment.to_lowercase())?;
    Some((tag, format!("its comment says `{word}`")))
}

/// The first of the words that stands in `text` by itself.
fn find_word(text: &str) -> Option<(&'static str, &'static str)> {
    let stands = |word: &str| {
        text.match_indices(word).any(|(at, _)| {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            let after = text.get(at + word.len()..);
            let after = after.and_then(|after| after.chars().next());
            // A plural is the word too.
            let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
            is_end(before) && (is_end(after) || after == Some('s'))
        })
    };
    WORDS.iter().copied().find(|(word, _)| stands(word))
}

/// Reads up to [`ROWS`] rows of each table through the firewall, by policies that permit to read everything.
pub(crate) fn sample(database: &Database) -> Result<Sample, Failure> {
    let internal = |error: palisade::error::Error| Failure::Internal(error.to_string());
    let runtime = host::runtime()?;
    let backend = database.open(Access::Read, Driver::Own(&runtime))?;
    let catalog = backend.catalog().clone();
    let sources =
        PolicySources::from_cedar("sample.cedar", "permit (principal, action, resource);");
    let limits = Limits {
        max_rows: ROWS,
        ..Limits::default()
    };
    let firewall = Firewall::builder(catalog, sources).limits(limits).build();
    let firewall = Arc::new(firewall.map_err(internal)?);
    let guard = Guard::over(
        Arc::clone(&firewall),
        backend,
        Arc::new(Machine::new()),
        Arc::new(NoAudit),
    );
    let session = Session::new(Principal::new("Agent", "sample"));
    let mut sample = Sample::default();
    for relation in firewall.catalog().relations() {
        match relation.kind {
            RelationKind::Table | RelationKind::Materialized => {}
            // What a view shows is of its tables.
            RelationKind::View | RelationKind::Virtual | RelationKind::System => continue,
        }
        if relation.system.is_some() {
            continue;
        }
        let name = quote_name(firewall.catalog().dialect(), relation);
        let sql = format!("SELECT * FROM {name} LIMIT {ROWS}");
        let request = Request::statement(&sql, &Params::None, &session);
        let (outcome, _) = runtime.block_on(guard.answer(request));
        match outcome.into_result() {
            Ok(envelope) => {
                let answer = serde_json::to_value(envelope.answer())
                    .map_err(|error| Failure::Internal(error.to_string()))?;
                look_at(&answer, relation, &mut sample);
            }
            Err(refusal) => {
                let code = refusal.rejection.code();
                sample.not_sampled.push(format!("{}: {code}", relation.uid));
            }
        }
    }
    Ok(sample)
}

/// A table's name as a statement has it.
pub(crate) fn quote_name(dialect: Dialect, relation: &Relation) -> String {
    let name = [&relation.schema, &relation.name].map(|part| {
        if ident::is_plain(part) {
            return part.to_string();
        }
        match dialect {
            Dialect::Sqlite | Dialect::Postgres => ident::quote(part),
            Dialect::Mysql => format!("`{}`", part.replace('`', "``")),
        }
    });
    name.join(".")
}

/// What the values of an answer's columns look like. None of them is kept.
fn look_at(answer: &Json, relation: &Relation, sample: &mut Sample) {
    let rows = answer.get("rows").and_then(Json::as_array);
    for (_, column) in relation.column_ids() {
        let cells = rows.into_iter().flatten();
        let cells = cells.filter_map(|row| row.get(&*column.name));
        let values: Vec<String> = cells
            .filter_map(|cell| match cell {
                Json::String(text) => Some(text.trim().to_owned()),
                Json::Number(number) => Some(number.to_string()),
                Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
            })
            .filter(|text| !text.is_empty())
            .collect();
        if let Some((kind, count)) = Kind::of_most(&values) {
            let mut why = String::new();
            let _ = write!(
                why,
                "{count} of {} values that were looked at look like {}",
                values.len(),
                kind.plural()
            );
            sample.kinds.insert(column.uid.clone(), (kind.tag(), why));
        }
    }
}

/// What a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Email,
    Iban,
    Card,
    Phone,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Email, Self::Iban, Self::Card, Self::Phone];

    /// The kind of more than half of the values, with how many there are.
    fn of_most(values: &[String]) -> Option<(Self, usize)> {
        let counted = Self::ALL.map(|kind| {
            let count = values.iter().filter(|value| kind.fits(value)).count();
            (kind, count)
        });
        let mut counted = counted.into_iter();
        counted.find(|(_, count)| *count >= FEW && count * 2 > values.len())
    }

    fn tag(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Iban | Self::Card => "personal-number",
            Self::Phone => "phone",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Email => "e-mail addresses",
            Self::Iban => "account numbers (IBAN)",
            Self::Card => "card numbers",
            Self::Phone => "phone numbers",
        }
    }

    fn fits(self, value: &str) -> bool {
        match self {
            Self::Email => is_email(value),
            Self::Iban => is_whole(value, find_iban),
            Self::Card => is_whole(value, find_card),
            Self::Phone => is_phone(value),
        }
    }
}

/// Whether what the scanner finds is all of it.
fn is_whole(value: &str, find: fn(&[u8]) -> Option<Range<usize>>) -> bool {
    find(value.as_bytes()) == Some(0..value.len())
}

fn is_email(value: &str) -> bool {
    let Some((local, domain)) = value.split_once('@') else {
        return false;
    };
    let is_odd = |c: char| c.is_whitespace() || c == '@';
    let (name, end) = domain.rsplit_once('.').unwrap_or_default();
    !local.is_empty()
        && !name.is_empty()
        && end.len() > 1
        && !value.replacen('@', "", 1).contains(is_odd)
}

/// Digits with what sets them apart, from a `+`, or of nine and more from a `0` or a bracket. A date has fewer.
fn is_phone(value: &str) -> bool {
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let is_formed = value
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '(' | ')' | ' ' | '.' | '/'));
    let least = match value.chars().next() {
        Some('+') => 7,
        Some('0' | '(') => 9,
        Some(_) | None => return false,
    };
    is_formed && (least..=15).contains(&digits)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{Kind, find_word, propose};

    #[test]
    fn amounts_of_tables_about_pay_are_pay() {
        let catalog = palisade_ddl::postgres(
            "CREATE TABLE salaries (id int, amount int, base_id int, note text);
             CREATE TABLE bonuses (id int, amount int);
             CREATE TABLE payroll_runs (id int, total int);
             CREATE VIEW v_current_salary AS SELECT id, amount FROM salaries;
             CREATE TABLE wagers (id int, amount int);
             CREATE TABLE orders (id int, total int);",
            "d",
        )
        .unwrap();
        let columns = catalog
            .relations()
            .iter()
            .flat_map(|relation| &relation.columns);
        let wanted = columns.map(|column| column.uid.clone()).collect();
        let proposed = propose(&catalog, &wanted, None);
        let found: Vec<_> = (proposed.iter())
            .map(|one| (one.column.as_str(), one.tag))
            .collect();
        assert_eq!(
            found,
            [
                ("public.bonuses.amount", "pay"),
                ("public.payroll_runs.total", "pay"),
                ("public.salaries.amount", "pay"),
                ("public.v_current_salary.amount", "pay"),
            ]
        );
        assert_eq!(
            proposed.first().unwrap().why,
            "its table is called `bonuses`"
        );
    }

    #[test]
    fn values_are_told_by_how_they_look() {
        for (kind, values) in [
            (Kind::Email, ["ada@example.org", "b.c+d@mail.example.com"]),
            (
                Kind::Iban,
                ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432"],
            ),
            (Kind::Card, ["4111 1111 1111 1111", "378282246310005"]),
            (Kind::Phone, ["+49 30 901820", "(030) 9018-2000"]),
        ] {
            let values = values.map(str::to_owned);
            assert_eq!(Kind::of_most(&values), Some((kind, 2)), "{values:?}");
        }
        for value in [
            "ada@",
            "@example.org",
            "a b@example.org",
            "ada@localhost",
            "a@b@example.org",
            "DE89 3704 0044 0532 0130 01",
            "4111 1111 1111 1112",
            "1111111111111117",
            "01.02.2024",
            "2024-01-02 10:30",
            "030 90182",
            "12345678901",
            "+49 call me",
            "",
            "Assam",
        ] {
            let values = [value, value].map(str::to_owned);
            assert_eq!(Kind::of_most(&values), None, "{value}");
        }
        // Half is not most, and one is few.
        let half = ["ada@example.org", "Assam", "bob@example.org", "Sencha"].map(str::to_owned);
        assert_eq!(Kind::of_most(&half), None);
        assert_eq!(Kind::of_most(&half[..1]), None);
    }

    #[test]
    fn words_stand_by_themselves() {
        for (text, tag) in [
            ("the customer's e-mail, if there is one", Some("email")),
            ("phones of both", Some("phone")),
            ("(pii)", Some("personal")),
            ("a microphone", None),
            ("secretary", None),
        ] {
            assert_eq!(find_word(text).map(|(_, tag)| tag), tag, "{text}");
        }
    }
}
