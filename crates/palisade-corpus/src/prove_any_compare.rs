//! Whether policies are no wider than others for any principal whatever, and whether one is redundant.

use std::{collections::BTreeSet, rc::Rc, sync::Arc};

use palisade::{
    firewall::{AccessPlace, Firewall},
    policy::{Aspect, PolicySources, SymbolicAnswer, SymbolicModel, SymbolicQuestion},
};

use crate::{
    load::OWN_POLICIES,
    probe::Place,
    property::Property,
    prove::{Findings, Ground, ProveError, places},
    prove_any::{AnyWorld, Asker, Reproduction},
    prove_compare::{
        compare_beyond_tables, compare_place, compare_without, count_world, load_without,
        other_policies, remove,
    },
};

/// What is compared: a place, and which of its aspects.
struct Compared<'c> {
    table: &'c str,
    column: Option<&'c str>,
    aspect: Aspect,
}

impl Compared<'_> {
    fn describe(&self, kind: &str) -> String {
        let place = Place {
            table: self.table.to_owned(),
            column: self.column.map(str::to_owned),
            action: self.aspect.name(),
        };
        format!("any {kind}: {} {}", place.resource(), self.aspect.name())
    }

    fn is_at(&self, place: &AccessPlace) -> bool {
        (place.table.as_str(), place.column.as_deref(), place.action)
            == (self.table, self.column, self.aspect.name())
    }
}

/// Whether nothing is permitted or shown that `old` does not.
pub(crate) fn no_wider(
    (new, old): (&PolicySources, &PolicySources),
    grounds: &[Ground<'_>],
    asker: &mut Asker<'_>,
    findings: &mut Findings,
) -> Result<(), ProveError> {
    for ground in grounds {
        let before = other_policies(ground, old)?;
        let was = before.firewall_over(ground.catalog, OWN_POLICIES)?;
        count_world(ground, findings);
        let is = &ground.firewall;
        findings.world.any_of.extend(is.principal_kinds());
        // The same texts over the same tables decide alike.
        if was.policies().version() == is.policies().version() {
            continue;
        }
        let mut reproduction = Reproduction::new(ground, new);
        compare_each(
            is,
            &was,
            asker,
            findings,
            &mut |compared, model, findings| {
                let world = reproduction.enter(model)?;
                let now = world.ground(ground.catalog);
                // The same principal in the same entities, by the other policies.
                let sources = PolicySources {
                    entities: world.sources.entities.clone(),
                    ..old.clone()
                };
                let before = other_policies(&now, &sources).map_err(|error| error.to_string())?;
                let was = before.firewall_over(ground.catalog, OWN_POLICIES);
                let was = was.map_err(|error| error.to_string())?;
                let (new, old) = find(&now, &was, &world, compared)?;
                if let Some(place) = &new {
                    let [new, old_set] = [now.firewall.policies(), was.policies()];
                    let vary = new.demands_vary() || old_set.demands_vary();
                    let pair = (place, old.as_ref());
                    compare_place(&now, &before, &world.principal, pair, vary, findings);
                }
                Ok(Rc::clone(&world))
            },
        );
        compare_beyond_tables(is.policies(), was.policies(), findings);
    }
    Ok(())
}

/// Whether without the policy `id` each principal sees and may do the same.
pub(crate) fn redundant(
    (property, id): (&Property, &str),
    sources: &PolicySources,
    grounds: &[Ground<'_>],
    asker: &mut Asker<'_>,
    findings: &mut Findings,
) -> Result<(), ProveError> {
    let without = remove(property, id, sources)?;
    for ground in grounds {
        count_world(ground, findings);
        let is = &ground.firewall;
        findings.world.any_of.extend(is.principal_kinds());
        let Some(less) = load_without(ground, &without, findings) else {
            continue;
        };
        let rest = less.firewall_over(ground.catalog, OWN_POLICIES)?;
        let mut reproduction = Reproduction::new(ground, sources);
        let mut show = |compared: &Compared<'_>, model: &SymbolicModel, findings: &mut Findings| {
            let world = reproduction.enter(model)?;
            let now = world.ground(ground.catalog);
            let sources = PolicySources {
                entities: world.sources.entities.clone(),
                ..without.clone()
            };
            let less = other_policies(&now, &sources).map_err(|error| error.to_string())?;
            let rest = less.firewall_over(ground.catalog, OWN_POLICIES);
            let rest = rest.map_err(|error| error.to_string())?;
            let (with, without) = find(&now, &rest, &world, compared)?;
            let pair = (with.as_ref(), without.as_ref());
            compare_without(&now, &less, &world.principal, pair, findings);
            Ok(Rc::clone(&world))
        };
        // The one is no wider than the other, and the other no wider than the one.
        compare_each(is, &rest, asker, findings, &mut show);
        compare_each(&rest, is, asker, findings, &mut show);
        for action in is.policies().actions_beyond_tables(id) {
            findings.undecided.insert(format!(
                "it is of the action `{action}` too, which is not compared"
            ));
        }
    }
    Ok(())
}

/// The place of a principal by the one and by the other.
fn find(
    now: &Ground<'_>,
    was: &Firewall,
    world: &AnyWorld,
    compared: &Compared<'_>,
) -> Result<(Option<AccessPlace>, Option<AccessPlace>), String> {
    let find = |places: Vec<AccessPlace>| places.into_iter().find(|place| compared.is_at(place));
    let new = now.places(&world.principal);
    let new = new.map_err(|error| error.to_string())?;
    let old = places(was, now.catalog, &world.principal);
    let old = old.map_err(|error| error.to_string())?;
    Ok((find(new), find(old)))
}

/// Lets the firewall decide about a principal of the solver's, in whose world it then is.
type Show<'s> =
    dyn FnMut(&Compared<'_>, &SymbolicModel, &mut Findings) -> Result<Rc<AnyWorld>, String> + 's;

/// Asks about each aspect of each place whether any principal has more by `new` than by `old`.
fn compare_each(
    new: &Arc<Firewall>,
    old: &Arc<Firewall>,
    asker: &mut Asker<'_>,
    findings: &mut Findings,
    show: &mut Show<'_>,
) {
    let mut tables = BTreeSet::new();
    let columns = new.known_columns();
    let mut all = Vec::new();
    for column in &columns {
        if !column.is_enumerated {
            continue;
        }
        if tables.insert(&column.table) {
            all.extend(Aspect::OF_TABLES.map(|aspect| (&column.table, None, aspect)));
        }
        all.extend(Aspect::OF_COLUMNS.map(|aspect| (&column.table, Some(&column.column), aspect)));
    }
    for kind in new.principal_kinds() {
        for (table, column, aspect) in &all {
            let compared = Compared {
                table,
                column: column.map(String::as_str),
                aspect: *aspect,
            };
            let place = (compared.table, compared.column);
            let asked = new.ask_whether_wider(old, &kind, place, *aspect);
            settle(&compared, &kind, asked, asker, findings, show);
        }
        let names = |firewall: &Firewall| -> BTreeSet<String> {
            let templates = firewall.known_templates().into_iter();
            templates.map(|template| template.name).collect()
        };
        for name in names(new).union(&names(old)) {
            let asked = match is_same_template(new, old, name) {
                true => new.ask_whether_more_runs(old, &kind, name),
                false => Err("the template is another".to_owned()),
            };
            let table = format!("template {name}");
            let compared = Compared {
                table: &table,
                column: None,
                aspect: Aspect::Run,
            };
            settle(&compared, &kind, asked, asker, findings, show);
        }
    }
}

fn is_same_template(new: &Firewall, old: &Firewall, name: &str) -> bool {
    let find = |firewall: &Firewall| {
        let mut templates = firewall.known_templates().into_iter();
        let found = templates.find(|template| template.name == name);
        found.map(|template| format!("{template:?}"))
    };
    find(new) == find(old)
}

fn settle(
    compared: &Compared<'_>,
    kind: &str,
    asked: Result<Vec<SymbolicQuestion>, String>,
    asker: &mut Asker<'_>,
    findings: &mut Findings,
    show: &mut Show<'_>,
) {
    let place = compared.describe(kind);
    let questions = match asked {
        Ok(questions) => questions,
        Err(why) => {
            findings.undecided.insert(why);
            return;
        }
    };
    for question in questions {
        match asker.ask(question) {
            SymbolicAnswer::Never => {}
            SymbolicAnswer::Unavailable(why) => {
                findings.undecided.insert(why);
            }
            SymbolicAnswer::Undecided(why) => {
                findings.undecided.insert(format!("{place}: {why}"));
            }
            SymbolicAnswer::Sometimes(_) if findings.is_full() => findings.leave_out(),
            SymbolicAnswer::Sometimes(model) => {
                let (size, counted) = (findings.size(), findings.counted());
                match show(compared, &model, findings) {
                    Ok(world) => {
                        findings.name_entities(counted, &world.entities);
                        if findings.size() == size {
                            findings.add_spurious(format!(
                                "{place}: the firewall shows no difference to the solver's principal {}",
                                world.entity()
                            ));
                        }
                    }
                    Err(why) => {
                        findings.undecided.insert(format!("{place}: {why}"));
                    }
                }
            }
        }
    }
}
