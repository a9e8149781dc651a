//! Whether properties hold: for every principal that is known, by enumeration, or for any whatever, by a solver; at every column
//! and table, as the firewall decides.

use std::{collections::BTreeSet, sync::Arc};

use palisade::{
    did_you_mean,
    firewall::{AccessPlace, Firewall},
    policy::{SymbolicAnswer, SymbolicQuestion},
    session::Principal,
};
use serde::Serialize;

use crate::{
    diff::NEVER,
    folder::PolicyTests,
    load::{CorpusError, OWN_POLICIES},
    probe::Place,
    property::{Claim, Properties, Property},
    prove_any::{self, Asker},
    prove_any_compare,
    prove_bound::{self, Bounds},
    prove_compare,
    reproduce::Confirmed,
    run::{RunError, Runner},
    witness::tell,
};

/// At most so many counterexamples of one property are shown.
const MAX_SHOWN: usize = 5;

/// At most so many places are tried for one property.
const MAX_TRIED: usize = 200;

/// What became of each property of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proofs {
    /// By property, in the order of the file.
    pub properties: Vec<Proof>,
}

/// What became of one property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// The property's name.
    pub name: String,
    /// Why it is to hold.
    pub why: String,
    /// File, line and column.
    pub place: String,
    /// Whether it holds.
    pub outcome: Outcome,
    /// Over what it was decided.
    pub world: World,
    /// Where it does not hold, each shown by a statement that was run.
    pub counterexamples: Vec<Counterexample>,
    /// How many more places seem not to hold, and were not tried.
    pub more: usize,
    /// Why it is not proved, though no counterexample was found.
    pub undecided: Vec<String>,
    /// Places where it seemed not to hold, and that no statement shows.
    pub spurious: Vec<String>,
}

/// Whether a property holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It holds everywhere in its world.
    Proved,
    /// A statement shows that it does not.
    Refuted,
    /// Neither is known.
    Undecided,
}

/// What a property was decided over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct World {
    /// The catalogs, by name.
    pub catalogs: BTreeSet<String>,
    /// How many principals: those that entities and policies name, and for each type one for all others.
    pub principals: usize,
    /// The types of which any principal is meant, whatever its attributes and whatever it is in; empty where `principals` are.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub any_of: BTreeSet<String>,
    /// How many columns.
    pub columns: usize,
    /// How many tables and views.
    pub tables: usize,
}

/// A statement that shows that a property does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counterexample {
    /// Who asks.
    pub principal: String,
    /// The table or column, as policies name it.
    pub resource: String,
    /// What is done to it, as `access.lock` names it.
    pub action: String,
    /// What is there, where it should not be.
    pub shown: String,
    /// The determining policies.
    pub policies: Vec<String>,
    /// The statement.
    pub sql: String,
    /// What came of it.
    pub answer: String,
    /// The case, ready to paste into the tests.
    pub case: String,
    /// The principal as an entity, and what it names, where a solver made them: ready for `entities.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entities: Option<String>,
}

/// A place where a property seems not to hold.
pub(crate) struct Suspect {
    pub(crate) principal: Principal,
    pub(crate) place: Place,
    pub(crate) shown: String,
    pub(crate) by: Vec<String>,
    /// Whether circumstances decide what is there, so that a statement at our moments may not show it.
    pub(crate) depends: bool,
}

impl Suspect {
    /// `Agent::"bot": main.customers.email read: plain, by base`.
    pub(crate) fn describe(&self) -> String {
        let by = match self.by.as_slice() {
            [] => String::new(),
            by => format!(", by {}", by.join(", ")),
        };
        let who = palisade::firewall::AccessClass::describe_member(&self.principal);
        let resource = self.place.resource();
        let action = self.place.action;
        format!("{who}: {resource} {action}: {}{by}", self.shown)
    }
}

/// What is found of one property.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) world: World,
    counterexamples: Vec<Counterexample>,
    more: usize,
    pub(crate) undecided: BTreeSet<String>,
    spurious: Vec<String>,
    tried: usize,
}

impl Findings {
    /// Tries to show a suspect by a statement; `confirm` says whether one does.
    pub(crate) fn try_suspect(
        &mut self,
        suspect: &Suspect,
        confirm: impl FnOnce(&Suspect) -> Option<Confirmed>,
    ) {
        if self.counterexamples.len() >= MAX_SHOWN || self.tried >= MAX_TRIED {
            self.more += 1;
            return;
        }
        self.tried += 1;
        match confirm(suspect) {
            Some(Confirmed { case, answer }) => self.counterexamples.push(Counterexample {
                principal: case.principal.to_string(),
                resource: suspect.place.resource(),
                action: suspect.place.action.to_owned(),
                shown: suspect.shown.clone(),
                policies: suspect.by.clone(),
                sql: case.sql.clone(),
                answer: tell(&answer),
                case: case.to_toml(),
                entities: None,
            }),
            None if suspect.depends => {
                self.undecided.insert(format!(
                    "{}; circumstances decide, and no statement that was tried shows it",
                    suspect.describe()
                ));
            }
            None => self.spurious.push(suspect.describe()),
        }
    }

    /// How much was found: counterexamples, those that were not tried, what is not decided and what is spurious.
    pub(crate) fn size(&self) -> usize {
        self.counterexamples.len() + self.more + self.undecided.len() + self.spurious.len()
    }

    /// Says of the counterexamples behind the first `known` in which entities they hold.
    pub(crate) fn name_entities(&mut self, known: usize, entities: &str) {
        for example in self.counterexamples.iter_mut().skip(known) {
            example.entities = Some(entities.to_owned());
        }
    }

    pub(crate) fn counted(&self) -> usize {
        self.counterexamples.len()
    }

    /// Whether so many are shown already that no more are tried.
    pub(crate) fn is_full(&self) -> bool {
        self.counterexamples.len() >= MAX_SHOWN || self.tried >= MAX_TRIED
    }

    /// A place that was not tried.
    pub(crate) fn leave_out(&mut self) {
        self.more += 1;
    }

    pub(crate) fn add_spurious(&mut self, told: String) {
        if !self.spurious.contains(&told) {
            self.spurious.push(told);
        }
    }

    fn conclude(self, property: &Property) -> Proof {
        let outcome = if !self.counterexamples.is_empty() {
            Outcome::Refuted
        } else if self.more > 0 || !self.undecided.is_empty() || !self.spurious.is_empty() {
            Outcome::Undecided
        } else {
            Outcome::Proved
        };
        Proof {
            name: property.name.clone(),
            why: property.why.clone(),
            place: property.place.clone(),
            outcome,
            world: self.world,
            counterexamples: self.counterexamples,
            more: self.more,
            undecided: self.undecided.into_iter().collect(),
            spurious: self.spurious,
        }
    }
}

/// Why a property cannot be decided about.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// A policy folder or its tests do not load.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The other policy folder cannot be read.
    #[error(transparent)]
    Folder(#[from] CorpusError),
    /// It names what there is not.
    #[error("{place}: property `{property}`: {message}")]
    Names {
        /// File, line and column.
        place: String,
        /// The property.
        property: String,
        /// What there is not.
        message: String,
    },
}

/// One catalog that a property is decided over.
pub(crate) struct Ground<'g> {
    pub(crate) runner: &'g Runner,
    pub(crate) catalog: &'g str,
    pub(crate) firewall: Arc<Firewall>,
}

impl Ground<'_> {
    pub(crate) fn places(&self, principal: &Principal) -> Result<Vec<AccessPlace>, RunError> {
        places(&self.firewall, self.catalog, principal)
    }
}

pub(crate) fn places(
    firewall: &Firewall,
    catalog: &str,
    principal: &Principal,
) -> Result<Vec<AccessPlace>, RunError> {
    firewall
        .access_places(principal)
        .map_err(|source| RunError::Policies {
            policies: OWN_POLICIES.to_owned(),
            catalog: catalog.to_owned(),
            source,
        })
}

/// Distinct texts, joined by `or`.
pub(crate) fn join_levels<'l>(
    levels: impl IntoIterator<Item = &'l palisade::firewall::AccessLevel>,
) -> String {
    let told: BTreeSet<String> = levels.into_iter().map(ToString::to_string).collect();
    match told.is_empty() {
        true => NEVER.to_owned(),
        false => told.into_iter().collect::<Vec<_>>().join(" or "),
    }
}

impl PolicyTests {
    /// Whether each of `properties` holds for the policies of this folder, over the tables in its tests and the principals that
    /// are known.
    ///
    /// # Errors
    /// If policies or tables do not load, or a property names what there is not.
    pub fn prove(&self, properties: &Properties) -> Result<Proofs, ProveError> {
        self.prove_over(properties, None)
    }

    /// As [`prove`](Self::prove), over any principals, whatever their attributes and whatever they are in; `ask` asks a solver.
    ///
    /// # Errors
    /// As [`prove`](Self::prove).
    pub fn prove_any(
        &self,
        properties: &Properties,
        ask: &mut dyn FnMut(&SymbolicQuestion) -> SymbolicAnswer,
    ) -> Result<Proofs, ProveError> {
        self.prove_over(properties, Some(&mut Asker::new(ask)))
    }

    fn prove_over(
        &self,
        properties: &Properties,
        mut asker: Option<&mut Asker<'_>>,
    ) -> Result<Proofs, ProveError> {
        let runner = Runner::over_catalogs(self.corpus(), OWN_POLICIES)?;
        let sources = self.corpus().policies.get(OWN_POLICIES);
        let sources = sources.cloned().unwrap_or_default();
        let mut proved = Vec::new();
        let count = self.progress().count("properties", properties.all.len());
        for property in &properties.all {
            count.add_one();
            let mut findings = Findings::default();
            let known: Vec<&String> = self.corpus().catalogs.keys().collect();
            let chosen: Vec<&String> = match &property.catalog {
                None => known,
                Some(name) => {
                    if !known.contains(&name) {
                        return Err(unknown(property, "catalog in the tests", name, known));
                    }
                    vec![name]
                }
            };
            let mut grounds = Vec::new();
            for catalog in chosen {
                grounds.push(Ground {
                    runner: &runner,
                    catalog,
                    firewall: runner.firewall_over(catalog, OWN_POLICIES)?,
                });
            }
            match &property.claim {
                Claim::AtMost {
                    who,
                    tagged,
                    columns,
                    tables,
                    shows,
                    rows,
                    may_not,
                } => {
                    let bounds = Bounds {
                        who,
                        tagged,
                        columns,
                        tables,
                        shows: *shows,
                        rows: *rows,
                        may_not,
                    };
                    match asker.as_deref_mut() {
                        None => prove_bound::prove(property, &bounds, &grounds, &mut findings)?,
                        Some(asker) => prove_any::prove(
                            property,
                            &bounds,
                            (&grounds, &sources),
                            asker,
                            &mut findings,
                        )?,
                    }
                }
                Claim::NoWiderThan(folder) => {
                    let old = PolicyTests::load(folder)?;
                    let old = old.corpus().policies.get(OWN_POLICIES);
                    let old = old.cloned().unwrap_or_default();
                    match asker.as_deref_mut() {
                        None => prove_compare::no_wider(&old, &grounds, &mut findings)?,
                        Some(asker) => {
                            let sources = (&sources, &old);
                            prove_any_compare::no_wider(sources, &grounds, asker, &mut findings)?;
                        }
                    }
                }
                Claim::Redundant(id) => match asker.as_deref_mut() {
                    None => {
                        let found = &mut findings;
                        prove_compare::redundant(property, id, &sources, &grounds, found)?;
                    }
                    Some(asker) => prove_any_compare::redundant(
                        (property, id),
                        &sources,
                        &grounds,
                        asker,
                        &mut findings,
                    )?,
                },
            }
            proved.push(findings.conclude(property));
        }
        Ok(Proofs { properties: proved })
    }
}

/// That a property names what there is not.
pub(crate) fn unknown<'k>(
    property: &Property,
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'k String>,
) -> ProveError {
    let known = known.into_iter().map(String::as_str);
    let hint = did_you_mean::closest(name, known);
    let hint = hint.map(|close| format!("; did you mean `{close}`?"));
    ProveError::Names {
        place: property.place.clone(),
        property: property.name.clone(),
        message: format!("there is no {what} `{name}`{}", hint.unwrap_or_default()),
    }
}
