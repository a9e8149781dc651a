//! A statement that tells two policy sets apart, as a case that holds with one of them alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
    time::Duration,
};

use palisade::{firewall::Firewall, policy::Mutant, session::Principal};
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};

use crate::{
    case::{Case, Expectation, Verdict},
    compare::{names, rows_of, toml_rows},
    diff::{NEVER, cells},
    load::{Corpus, OWN_POLICIES},
    mutation,
    probe::{self, Place},
    probe_case::{MOMENTS, probe_case, stand_in},
    run::{Answer, RunError, Runner},
};

/// A case that holds with one policy set, and does not with another.
#[derive(Debug, Clone)]
pub struct Witness {
    /// The case, ready to paste.
    pub case: Case,
    /// What comes out with the policies as they are, or with the old ones.
    pub before: String,
    /// What comes out with the changed or the new policies.
    pub after: String,
    /// Up to three rows of the table that it is about, without the firewall; none where there is no database.
    pub rows: Vec<Vec<Json>>,
}

/// At most so many rows stand in a case.
const MAX_ROWS: usize = 12;

/// At most so many places are asked about for one mutant.
const MAX_PLACES: usize = 80;

impl Witness {
    pub(crate) fn write(&self, out: &mut String) {
        self.write_answers(out, ["as it is", "changed "]);
        let _ = writeln!(out, "  no case notices it; this one does:\n");
        self.write_case(out);
    }

    /// The statement, with the answers below what each is of.
    pub fn write_answers(&self, out: &mut String, heads: [&str; 2]) {
        let [before, after] = heads;
        let _ = writeln!(out, "  {}: {}", self.case.principal, self.case.sql);
        let _ = writeln!(out, "    {before}  {}", self.before);
        let _ = writeln!(out, "    {after}  {}", self.after);
        if !self.rows.is_empty() {
            let _ = writeln!(out, "    the table holds {}", toml_rows(&self.rows));
        }
    }

    /// The case as TOML, indented.
    pub fn write_case(&self, out: &mut String) {
        for line in self.case.to_toml().lines() {
            let _ = writeln!(out, "  {line}");
        }
        out.push('\n');
    }

    pub(crate) fn json(&self) -> Json {
        json!({
            "principal": self.case.principal.to_string(),
            "sql": self.case.sql,
            "before": self.before,
            "after": self.after,
            "rows": self.rows,
            "case": self.case.to_toml(),
        })
    }
}

impl Serialize for Witness {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

/// What every principal may do by the policies as they are.
pub(crate) struct Before {
    catalogs: BTreeMap<String, BTreeMap<Principal, Cells>>,
}

/// By resource and action.
type Cells = BTreeMap<(String, &'static str), String>;

/// A difference between two policy sets for one principal.
pub(crate) struct Differing<'b> {
    principal: &'b Principal,
    pub(crate) place: Place,
    readable: Vec<String>,
    /// The values of the cell.
    pub(crate) was: String,
    pub(crate) is: String,
}

impl Before {
    pub(crate) fn new(runner: &Runner, corpus: &Corpus) -> Result<Self, RunError> {
        let mut catalogs = BTreeMap::new();
        for catalog in corpus.catalogs.keys() {
            let firewall = runner.firewall_over(catalog, OWN_POLICIES)?;
            let mut known = BTreeMap::new();
            for principal in firewall.known_principals() {
                let found = cells_of(&firewall, &principal, catalog)?;
                known.insert(principal, found);
            }
            catalogs.insert(catalog.clone(), known);
        }
        Ok(Self { catalogs })
    }

    /// None if the policies of `changed` give every principal the same. Otherwise a witness, where there is one.
    pub(crate) fn compare(
        &self,
        runner: &Runner,
        changed: &Runner,
        corpus: &Corpus,
        mutant: &Mutant,
    ) -> Result<Option<Option<Witness>>, RunError> {
        let mut differs = false;
        for (catalog, known) in &self.catalogs {
            let pair = Pair {
                old: runner,
                new: changed,
                holds: Holds::WithOld,
                corpus,
                catalog,
                why: &|_| {
                    format!(
                        "It notices a change of `{}`: {}.",
                        mutant.policy,
                        mutant.describe()
                    )
                },
                named: format!("{}-{}", mutant.policy, mutant.mutation),
            };
            let firewall = changed.firewall_over(catalog, OWN_POLICIES)?;
            let differing = find_differing(known, &firewall, catalog)?;
            differs |= !differing.is_empty();
            if let Some(found) = pair.find(&firewall, &differing, known) {
                return Ok(Some(Some(found)));
            }
        }
        Ok(differs.then_some(None))
    }
}

fn cells_of(firewall: &Firewall, principal: &Principal, catalog: &str) -> Result<Cells, RunError> {
    cells(firewall, principal).map_err(|source| RunError::Policies {
        policies: OWN_POLICIES.to_owned(),
        catalog: catalog.to_owned(),
        source,
    })
}

/// The places at which `firewall` gives a principal something else than before.
fn find_differing<'b>(
    known: &'b BTreeMap<Principal, Cells>,
    firewall: &Firewall,
    catalog: &str,
) -> Result<Vec<Differing<'b>>, RunError> {
    let mut out = Vec::new();
    for (principal, was) in known {
        let is = cells_of(firewall, principal, catalog)?;
        out.extend(list_differing(principal, [was, &is], firewall));
    }
    Ok(out)
}

/// The places at which two tables of cells give `principal` different things.
pub(crate) fn list_differing<'p>(
    principal: &'p Principal,
    [was, is]: [&Cells; 2],
    firewall: &Firewall,
) -> Vec<Differing<'p>> {
    let mut out = Vec::new();
    let places: BTreeSet<_> = was.keys().chain(is.keys()).collect();
    for (resource, action) in places {
        let value = |cells: &Cells| {
            let value = cells.get(&(resource.clone(), *action));
            value.map_or(NEVER.to_owned(), Clone::clone)
        };
        if value(was) == value(is) {
            continue;
        }
        let table = firewall.catalog().relations().iter().map(|r| &r.uid);
        let table = table.filter(|uid| {
            let rest = resource.strip_prefix(uid.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let Some(table) = table.max_by_key(|uid| uid.len()) else {
            continue;
        };
        let column = resource.strip_prefix(&format!("{table}."));
        out.push(Differing {
            principal,
            place: Place {
                table: table.clone(),
                column: column.map(str::to_owned),
                action,
            },
            readable: find_readable(firewall, table, [was, is]),
            was: value(was),
            is: value(is),
        });
    }
    out
}

/// The columns of a table that both read, or else one of them.
fn find_readable(firewall: &Firewall, table: &str, both: [&Cells; 2]) -> Vec<String> {
    let Some(relation) = probe::find_relation(firewall.catalog(), table) else {
        return Vec::new();
    };
    let reads = |cells: &Cells, column: &str| {
        let value = cells.get(&(format!("{table}.{column}"), "read"));
        value.is_some_and(|value| value != "hidden" && value != NEVER)
    };
    let columns = relation.columns.iter().map(|column| &*column.name);
    let by = |is: &dyn Fn(&str) -> bool| -> Vec<String> {
        let found = columns.clone().filter(|column| is(column));
        found.map(str::to_owned).collect()
    };
    let all = by(&|column| both.iter().all(|cells| reads(cells, column)));
    if all.is_empty() {
        by(&|column| both.iter().any(|cells| reads(cells, column)))
    } else {
        all
    }
}

/// Which differences count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// One of the two lets the statement run.
    Permit,
    /// Any, of two refusals too.
    Any,
}

/// With which policies a case holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    WithOld,
    WithNew,
}

/// Two policy sets over one catalog.
pub(crate) struct Pair<'p> {
    pub(crate) old: &'p Runner,
    pub(crate) new: &'p Runner,
    pub(crate) holds: Holds,
    /// Names of its cases are taken.
    pub(crate) corpus: &'p Corpus,
    pub(crate) catalog: &'p str,
    /// Why the case stands there, by the place that it is about.
    pub(crate) why: &'p dyn Fn(Option<&Differing<'_>>) -> String,
    /// What the name of each case begins with.
    pub(crate) named: String,
}

impl Pair<'_> {
    /// A witness at one of the places, or else for one of the principals over any table.
    fn find(
        &self,
        firewall: &Arc<Firewall>,
        differing: &[Differing<'_>],
        known: &BTreeMap<Principal, Cells>,
    ) -> Option<Witness> {
        let catalog = firewall.catalog();
        // What one of the two lets run says more than two refusals. A refusal that is another, and no more, changes nothing for
        // anybody where no cell differs.
        let wanted = [Wanted::Permit, Wanted::Any];
        let moments = MOMENTS
            .iter()
            .flat_map(|at| wanted.map(|wanted| (*at, wanted)));
        for (at, wanted) in moments {
            // Each action and table once, then the rest.
            let mut seen = BTreeSet::new();
            let (first, rest): (Vec<&Differing<'_>>, Vec<_>) = differing
                .iter()
                .partition(|one| seen.insert((one.place.table.clone(), one.place.action)));
            for one in first.into_iter().chain(rest).take(MAX_PLACES) {
                if let Some(found) = self.find_at(firewall, one, (at, wanted)) {
                    return Some(found);
                }
            }
            if wanted == Wanted::Any {
                continue;
            }
            for principal in known.keys() {
                for sql in probe::calls(catalog) {
                    if let Some(found) = self.try_statement(principal, &sql, (at, wanted), None) {
                        return Some(found);
                    }
                }
            }
        }
        None
    }

    /// A witness at one place, which one of the two policy sets lets run.
    pub(crate) fn find_permitted(
        &self,
        firewall: &Firewall,
        one: &Differing<'_>,
    ) -> Option<Witness> {
        let mut moments = MOMENTS.iter();
        moments.find_map(|at| self.find_at(firewall, one, (*at, Wanted::Permit)))
    }

    fn find_at(
        &self,
        firewall: &Firewall,
        one: &Differing<'_>,
        when: (Duration, Wanted),
    ) -> Option<Witness> {
        let statements = probe::statements(firewall.catalog(), &one.place, &one.readable);
        let mut statements = statements.iter();
        statements.find_map(|sql| self.try_statement(one.principal, sql, when, Some(one)))
    }

    /// A witness, if the statement is answered otherwise.
    fn try_statement(
        &self,
        principal: &Principal,
        sql: &str,
        (at, wanted): (Duration, Wanted),
        about: Option<&Differing<'_>>,
    ) -> Option<Witness> {
        let mut case = probe_case(self.catalog, principal, sql, at)?;
        case.why = (self.why)(about);
        let (was, is) = (self.old.decide(&case).ok()?, self.new.decide(&case).ok()?);
        if (was.code, &was.rewritten, &was.json) == (is.code, &is.rewritten, &is.json) {
            return None;
        }
        match wanted {
            Wanted::Permit if was.code.is_some() && is.code.is_some() => return None,
            Wanted::Permit | Wanted::Any => {}
        }
        let was = self.old.run(&case).answer?;
        let is = self.new.run(&case).answer?;
        let (expected, holding, failing) = match self.holds {
            Holds::WithOld => (&was, self.old, self.new),
            Holds::WithNew => (&is, self.new, self.old),
        };
        for shown in [Shown::Rows, Shown::RowsAndText, Shown::Text, Shown::Nothing] {
            case.expect = expect(expected, shown);
            if holding.run(&case).differences.is_empty()
                && !failing.run(&case).differences.is_empty()
            {
                case.name = self.name(about.map(|one| &one.place), principal);
                case.written_name.clone_from(&case.name);
                let rows = about.and_then(|one| {
                    let firewall = holding.firewall(&case)?;
                    let sql = probe::sample(firewall.catalog(), &one.place, &one.readable)?;
                    holding.read_bare(&case, &sql).ok()
                });
                return Some(Witness {
                    before: tell(&was),
                    after: tell(&is),
                    rows: rows.unwrap_or_default(),
                    case,
                });
            }
        }
        None
    }

    /// A name that no case has.
    fn name(&self, place: Option<&Place>, principal: &Principal) -> String {
        let place = place.map(|place| {
            let column = place.column.as_deref().unwrap_or_default();
            format!("{}-{column}-{}", place.action, place.table)
        });
        let principal = stand_in(principal);
        let id = principal.id();
        let text = format!("{}-{}-{id}", self.named, place.unwrap_or_default());
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<String> = words
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
        let name = words.join("-");
        let taken = mutation::names(self.corpus);
        let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
        let mut all = std::iter::once(name.clone()).chain(numbered);
        all.find(|name| !taken.contains(name.as_str()))
            .unwrap_or(name)
    }
}

/// What an expectation holds beside the decision. Rows may be others each time, and the text the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Rows,
    RowsAndText,
    Text,
    Nothing,
}

/// What `answer` shows, as an expectation.
fn expect(answer: &Answer, shown: Shown) -> Expectation {
    let (with_rows, with_text) = match shown {
        Shown::Rows => (true, false),
        Shown::RowsAndText => (true, true),
        Shown::Text => (false, true),
        Shown::Nothing => (false, false),
    };
    if let Some(code) = answer.code {
        let mut expect = Expectation::from_verdict(Verdict::Reject(code));
        if with_text {
            let message = answer.json.get("message").and_then(Json::as_str);
            expect.message = message.map(str::to_owned);
        }
        return expect;
    }
    let mut expect = Expectation::from_verdict(Verdict::Allow);
    let rows = rows_of(&answer.json);
    let has_rows = answer.json.get("rows").is_some() && answer.affected.is_none();
    if with_rows && has_rows && rows.len() <= MAX_ROWS {
        let masked = names(&answer.json, |column| {
            column.get("masked") == Some(&Json::Bool(true))
        });
        expect.masked = Some(masked);
        expect.rows = Some(rows);
    }
    expect.affected = answer.affected;
    if with_text {
        expect.rewritten.clone_from(&answer.rewritten);
    }
    expect
}

/// The rows that `answer` shows, as an expectation.
pub(crate) fn expect_rows(answer: &Answer) -> Expectation {
    expect(answer, Shown::Rows)
}

/// An answer on one line.
pub(crate) fn tell(answer: &Answer) -> String {
    match (answer.code, answer.affected) {
        (Some(code), _) => format!("reject {code}"),
        (None, Some(count)) => format!("allow, {count} rows change"),
        (None, None) if answer.json.get("rows").is_some() => {
            let rows = rows_of(&answer.json);
            let shown = rows.get(..3).unwrap_or(&rows);
            let more = match rows.len().saturating_sub(3) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("allow, {}{more}", toml_rows(shown))
        }
        (None, None) => format!("allow, {}", answer.rewritten.clone().unwrap_or_default()),
    }
}
