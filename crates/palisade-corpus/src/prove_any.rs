//! Whether any principal whatever sees or does more than a bound: a solver looks for one, and the firewall decides about it.

use std::{
    collections::{BTreeSet, HashMap},
    rc::Rc,
};

use palisade::{
    firewall::{AccessLevel, Firewall},
    policy::{
        Amount, PolicySources, Setting, SymbolicAnswer, SymbolicModel, SymbolicQuestion, Whose,
    },
    session::Principal,
};
use serde_json::Value;

use crate::{
    load::OWN_POLICIES,
    probe::Place,
    property::{Bound, Property, RowBound, Who},
    prove::{Findings, Ground, ProveError},
    prove_bound::{
        Bounds, Standing, check_place, find_targets, is_meant, nothing, require_names, rows_within,
        shown_within,
    },
    run::Runner,
};

/// The id of a principal that a solver made, where it does not matter.
const SOMEBODY: &str = "somebody";

/// Types of entities that come from the catalog.
const OF_CATALOG: [&str; 9] = [
    "Action",
    "Database",
    "Schema",
    "Table",
    "Column",
    "Function",
    "Template",
    "HasColumn",
    "Tagged",
];

/// Asks a solver, each question once.
pub(crate) struct Asker<'a> {
    ask: &'a mut dyn FnMut(&SymbolicQuestion) -> SymbolicAnswer,
    known: HashMap<SymbolicQuestion, SymbolicAnswer>,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(ask: &'a mut dyn FnMut(&SymbolicQuestion) -> SymbolicAnswer) -> Self {
        Self {
            ask,
            known: HashMap::new(),
        }
    }

    pub(crate) fn ask(&mut self, question: SymbolicQuestion) -> SymbolicAnswer {
        if let Some(answer) = self.known.get(&question) {
            return answer.clone();
        }
        let answer = (self.ask)(&question);
        match &answer {
            SymbolicAnswer::Never
            | SymbolicAnswer::Sometimes(_)
            | SymbolicAnswer::Unavailable(_) => {
                self.known.insert(question, answer.clone());
            }
            // Another time it may be known.
            SymbolicAnswer::Undecided(_) => {}
        }
        answer
    }
}

/// A place, and what is asked of it.
struct Check<'c> {
    table: &'c str,
    column: Option<&'c str>,
    action: &'static str,
    amounts: &'static [Amount],
    most: Most,
}

/// The most that may be there.
#[derive(Clone, Copy)]
enum Most {
    Nothing,
    Shown(Bound),
    Rows(RowBound),
}

impl Most {
    fn judge(self, level: &AccessLevel) -> Standing {
        match self {
            Self::Nothing => nothing(level),
            Self::Shown(bound) => shown_within(level, bound),
            Self::Rows(bound) => rows_within(level, bound),
        }
    }
}

impl Check<'_> {
    /// `any Agent: main.customers.email read`.
    fn describe(&self, kind: &str) -> String {
        let place = Place {
            table: self.table.to_owned(),
            column: self.column.map(str::to_owned),
            action: self.action,
        };
        format!("any {kind}: {} {}", place.resource(), self.action)
    }
}

pub(crate) fn prove(
    property: &Property,
    bounds: &Bounds<'_>,
    (grounds, sources): (&[Ground<'_>], &PolicySources),
    asker: &mut Asker<'_>,
    findings: &mut Findings,
) -> Result<(), ProveError> {
    require_names(property, bounds, grounds)?;
    let mut is_about_something = false;
    for ground in grounds {
        let firewall = &ground.firewall;
        let targets = find_targets(bounds, firewall, findings);
        findings.world.catalogs.insert(ground.catalog.to_owned());
        findings.world.any_of.extend(firewall.principal_kinds());
        findings.world.columns += targets.columns.len();
        findings.world.tables += targets.tables.len();
        is_about_something |= !targets.columns.is_empty() || !targets.tables.is_empty();
        let mut reproduction = Reproduction::new(ground, sources);
        let mut check = |check: Check<'_>| {
            check_any(ground, bounds, &check, &mut reproduction, asker, findings);
        };
        for (table, column) in &targets.columns {
            let of_column = |action, amounts, most| Check {
                table,
                column: Some(column),
                action,
                amounts,
                most,
            };
            if let Some(bound) = bounds.shows {
                check(of_column("read", amounts_beyond(bound), Most::Shown(bound)));
            }
            if bounds.may_not.iter().any(|action| action == "write") {
                check(of_column("write", &[Amount::Write], Most::Nothing));
            }
        }
        for table in &targets.tables {
            let of_table = |action, amounts, most| Check {
                table,
                column: None,
                action,
                amounts,
                most,
            };
            if let Some(bound) = bounds.rows {
                check(of_table("see", rows_beyond(bound), Most::Rows(bound)));
            }
            for (action, amounts) in ACTIONS {
                if bounds.may_not.iter().any(|named| named == action) {
                    check(of_table(action, amounts, Most::Nothing));
                }
            }
        }
    }
    if !is_about_something {
        let why = "it is about no column and no table of the catalog";
        findings.undecided.insert(why.to_owned());
    }
    Ok(())
}

const ACTIONS: [(&str, &[Amount]); 5] = [
    ("select", &[Amount::Select]),
    ("insert", &[Amount::Insert]),
    ("update", &[Amount::Update]),
    ("delete", &[Amount::Delete]),
    ("truncate", &[Amount::Truncate]),
];

/// What of a column is more than a bound.
fn amounts_beyond(bound: Bound) -> &'static [Amount] {
    match bound {
        Bound::Hidden => &[Amount::Column],
        Bound::Null => &[Amount::Plain, Amount::Token, Amount::Masked],
        Bound::Token => &[Amount::Plain, Amount::Masked],
        Bound::Mask => &[Amount::Plain],
    }
}

fn rows_beyond(bound: RowBound) -> &'static [Amount] {
    match bound {
        RowBound::None => &[Amount::AnyRow],
        RowBound::Some => &[Amount::EveryRow],
    }
}

fn check_any(
    ground: &Ground<'_>,
    bounds: &Bounds<'_>,
    check: &Check<'_>,
    reproduction: &mut Reproduction<'_>,
    asker: &mut Asker<'_>,
    findings: &mut Findings,
) {
    let firewall = &ground.firewall;
    let settings: &[Setting] = match firewall.policies().has_templates() {
        true => &[Setting::Outside, Setting::Template],
        false => &[Setting::Outside],
    };
    for kind in firewall.principal_kinds() {
        for setting in settings {
            let whose = match bounds.who {
                Who::Everyone => Whose::Everyone,
                Who::Outside(groups) => Whose::Outside(groups),
                Who::Within(groups) => Whose::Within(groups),
            };
            let place = (check.table, check.column);
            let question = firewall.ask_about_any(&kind, whose, *setting, place, check.amounts);
            let answer = match question {
                Ok(question) => asker.ask(question),
                Err(why) => SymbolicAnswer::Undecided(why),
            };
            match (answer, setting) {
                (SymbolicAnswer::Never, _) => {}
                (SymbolicAnswer::Unavailable(why), _) => {
                    findings.undecided.insert(why);
                }
                (SymbolicAnswer::Undecided(why), _) => {
                    let place = check.describe(&kind);
                    findings.undecided.insert(format!("{place}: {why}"));
                }
                (SymbolicAnswer::Sometimes(_), Setting::Template) => {
                    findings.undecided.insert(format!(
                        "{}; within a template that it may run, which is not run here",
                        check.describe(&kind)
                    ));
                }
                (SymbolicAnswer::Sometimes(model), Setting::Outside) => {
                    refute(bounds, check, &model, reproduction, findings);
                }
            }
        }
    }
}

/// Lets the firewall decide about a principal of the solver's.
fn refute(
    bounds: &Bounds<'_>,
    check: &Check<'_>,
    model: &SymbolicModel,
    reproduction: &mut Reproduction<'_>,
    findings: &mut Findings,
) {
    if findings.is_full() {
        findings.leave_out();
        return;
    }
    let place = check.describe(model.principal.kind());
    let world = match reproduction.enter(model) {
        Ok(world) => world,
        Err(why) => {
            findings.undecided.insert(format!("{place}: {why}"));
            return;
        }
    };
    let ground = world.ground(reproduction.catalog);
    let spurious = format!(
        "{place}: the firewall does not show it to the solver's principal {}",
        world.entity()
    );
    if !is_meant(bounds.who, &ground.firewall, &world.principal) {
        findings.add_spurious(spurious);
        return;
    }
    let places = match ground.places(&world.principal) {
        Ok(places) => places,
        Err(error) => {
            findings.undecided.insert(format!("{place}: {error}"));
            return;
        }
    };
    let found = places.iter().find(|found| {
        (found.table.as_str(), found.column.as_deref(), found.action)
            == (check.table, check.column, check.action)
    });
    let (size, counted) = (findings.size(), findings.counted());
    if let Some(found) = found {
        let vary = ground.firewall.policies().demands_vary();
        check_place(
            &ground,
            (&world.principal, found),
            vary,
            &|level| check.most.judge(level),
            findings,
        );
        findings.name_entities(counted, &world.entities);
    }
    if findings.size() == size {
        findings.add_spurious(spurious);
    }
}

/// Firewalls in whose entities a solver's principals exist.
pub(crate) struct Reproduction<'g> {
    runner: &'g Runner,
    firewall: &'g Firewall,
    pub(crate) catalog: &'g str,
    sources: &'g PolicySources,
    worlds: HashMap<String, Rc<AnyWorld>>,
}

/// A principal of a solver's, and the firewall in whose entities it exists.
pub(crate) struct AnyWorld {
    pub(crate) principal: Principal,
    /// What the solver made, as `entities.json` has it.
    pub(crate) entities: String,
    entity: String,
    /// The sources with these entities.
    pub(crate) sources: PolicySources,
    runner: Runner,
    firewall: std::sync::Arc<Firewall>,
}

impl AnyWorld {
    pub(crate) fn ground<'w>(&'w self, catalog: &'w str) -> Ground<'w> {
        Ground {
            runner: &self.runner,
            catalog,
            firewall: std::sync::Arc::clone(&self.firewall),
        }
    }

    /// The principal as an entity, on one line.
    pub(crate) fn entity(&self) -> &str {
        &self.entity
    }
}

impl<'g> Reproduction<'g> {
    pub(crate) fn new(ground: &'g Ground<'g>, sources: &'g PolicySources) -> Self {
        Self {
            runner: ground.runner,
            firewall: &ground.firewall,
            catalog: ground.catalog,
            sources,
            worlds: HashMap::new(),
        }
    }

    /// The firewall with the entities of `model`, and its principal there.
    ///
    /// # Errors
    /// If the policies do not load with them.
    pub(crate) fn enter(&mut self, model: &SymbolicModel) -> Result<Rc<AnyWorld>, String> {
        let named = self.firewall.policies().entity_names();
        let (principal, made) = settle(model, &named);
        let lines: Vec<String> = made.iter().map(|entity| format!("  {entity}")).collect();
        let entities = format!("[\n{}\n]", lines.join(",\n"));
        let key = format!("{principal} {entities}");
        if let Some(world) = self.worlds.get(&key) {
            return Ok(Rc::clone(world));
        }
        let all = join(self.sources.entities.as_deref(), &made)?;
        let sources = PolicySources {
            entities: Some(all),
            ..self.sources.clone()
        };
        let failed = |error: &dyn std::fmt::Display| {
            format!("the policies do not load with the solver's entities: {error}")
        };
        let runner = self.runner.with_policies(OWN_POLICIES, &sources);
        let runner = runner.map_err(|error| failed(&error))?;
        let firewall = runner.firewall_over(self.catalog, OWN_POLICIES);
        let firewall = firewall.map_err(|error| failed(&error))?;
        let own = made.iter().find(|entity| is(entity, &principal));
        let world = Rc::new(AnyWorld {
            entity: own.map_or_else(|| principal.to_string(), Value::to_string),
            principal,
            entities,
            sources,
            runner,
            firewall,
        });
        self.worlds.insert(key, Rc::clone(&world));
        Ok(world)
    }
}

/// The solver's principal and entities without those of the catalog, and with a plain id where the solver's own means nothing.
fn settle(model: &SymbolicModel, named: &BTreeSet<String>) -> (Principal, Vec<Value>) {
    let is_named = named.contains(&model.principal.to_string());
    let somebody = Principal::new(model.principal.kind(), SOMEBODY);
    let principal = match is_named || named.contains(&somebody.to_string()) {
        true => model.principal.clone(),
        false => somebody,
    };
    let of_operator = model.entities.iter().filter(|entity| {
        uid(entity)
            .is_some_and(|(kind, _)| !OF_CATALOG.contains(&kind) && !kind.starts_with("row::"))
    });
    let renamed = of_operator.map(|entity| rename(entity, &model.principal, &principal));
    let mut entities: Vec<Value> = renamed.collect();
    // The principal first, then what it is in or names, and whatever else conditions may look at.
    entities.sort_by_key(|entity| !is(entity, &principal));
    let own = entities.first().cloned().unwrap_or_default();
    let has_attributes = |entity: &Value| {
        let attributes = entity.get("attrs").and_then(Value::as_object);
        attributes.is_some_and(|attributes| !attributes.is_empty())
    };
    entities
        .retain(|entity| uid(entity).is_some_and(|uid| names(&own, uid)) || has_attributes(entity));
    (principal, entities)
}

fn is(entity: &Value, principal: &Principal) -> bool {
    uid(entity) == Some((principal.kind(), principal.id()))
}

/// Type and id of an entity, whichever way Cedar's JSON writes them.
fn uid(entity: &Value) -> Option<(&str, &str)> {
    let uid = entity.get("uid")?;
    let uid = uid.get("__entity").unwrap_or(uid);
    Some((uid.get("type")?.as_str()?, uid.get("id")?.as_str()?))
}

/// Whether an entity is this one, or names it.
fn names(json: &Value, (kind, id): (&str, &str)) -> bool {
    match json {
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str);
            (text("type"), text("id")) == (Some(kind), Some(id))
                || fields.values().any(|field| names(field, (kind, id)))
        }
        Value::Array(items) => items.iter().any(|item| names(item, (kind, id))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn rename(json: &Value, from: &Principal, to: &Principal) -> Value {
    match json {
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str);
            let is_it = (text("type"), text("id")) == (Some(from.kind()), Some(from.id()));
            let fields = fields.iter().map(|(name, field)| {
                let field = match is_it && name == "id" {
                    true => Value::from(to.id()),
                    false => rename(field, from, to),
                };
                (name.clone(), field)
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(|item| rename(item, from, to)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => json.clone(),
    }
}

/// `entities.json` with those that the solver made in the place of its own.
fn join(own: Option<&str>, made: &[Value]) -> Result<String, String> {
    let own: Vec<Value> = match own {
        None => Vec::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| error.to_string())?,
    };
    let is_made = |entity: &Value| {
        let mut made = made.iter();
        made.any(|other| uid(other) == uid(entity))
    };
    let mut all: Vec<&Value> = own.iter().filter(|entity| !is_made(entity)).collect();
    all.extend(made);
    serde_json::to_string_pretty(&all).map_err(|error| error.to_string())
}
