//! Why a case does not hold: the policies that would have to go, and the conditions with their values.

use std::{cell::OnceCell, collections::BTreeMap};

use palisade::policy::{ConditionValues, Mutant, Mutation, PolicySources, mutate};
use serde_json::{Value as Json, json};

use crate::{
    case::Case,
    load::OWN_POLICIES,
    only_policy::{PERMIT_EVERYTHING, only},
    run::{Answer, Runner},
    unreachable::Reach,
};

/// So many failing cases are looked into; the rest say what differs.
const MAX_CASES: usize = 10;

/// So many sets of policies are tried for one case.
const MAX_SETS: usize = 60;

/// So often policies that decide once others are gone are taken away too.
const MAX_ROUNDS: usize = 8;

/// Why a case does not hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Why {
    /// Why no policies can make it hold; none where some may.
    pub unreachable: Option<String>,
    /// The smallest sets of policies without which it would hold: single ones, else pairs, else one larger set of which each is
    /// needed. None where no set of those that decide is one.
    pub without: Vec<Vec<String>>,
    /// The conditions of the policies that decided, with their values.
    pub conditions: Vec<ConditionValues>,
}

impl Why {
    pub(crate) fn json(&self) -> Json {
        json!({
            "unreachable": self.unreachable,
            "without": self.without,
            "conditions": self.conditions,
        })
    }
}

/// Looks into failing cases.
pub(crate) struct Inquiry<'r> {
    runner: &'r Runner,
    sources: &'r PolicySources,
    /// Each policy taken away.
    removals: Vec<Mutant>,
    /// The runners without some policies; none where the rest does not load.
    without: BTreeMap<Vec<String>, Option<Runner>>,
    /// The runner of policies that permit everything, once a case failed; none where they do not load.
    open: OnceCell<Option<Runner>>,
    cases: usize,
}

impl<'r> Inquiry<'r> {
    pub(crate) fn new(runner: &'r Runner, sources: &'r PolicySources) -> Self {
        Self {
            runner,
            sources,
            removals: mutate(sources)
                .into_iter()
                .filter(|mutant| mutant.mutation == Mutation::Removed)
                .collect(),
            without: BTreeMap::new(),
            open: OnceCell::new(),
            cases: 0,
        }
    }

    /// Why `case` gives `answer`, which is not what it expects; none of the many after the first.
    pub(crate) fn ask(&mut self, case: &Case, answer: Option<&Answer>) -> Option<Why> {
        self.cases += 1;
        if self.cases > MAX_CASES {
            return None;
        }
        if let Some(why) = self.find_obstacle(case) {
            return Some(Why {
                unreachable: Some(why),
                ..Why::default()
            });
        }
        let determining = answer.map_or(&[][..], |answer| answer.policies.as_slice());
        let conditions = self.runner.explain(case).ok().and_then(|trace| {
            let firewall = self.runner.firewall(case)?;
            let asked = case.question(firewall).ok()?;
            Some(firewall.condition_values(&trace, &asked.session))
        });
        Some(Why {
            unreachable: None,
            without: self.find_sets(case, determining),
            conditions: conditions.unwrap_or_default(),
        })
    }

    fn find_obstacle(&self, case: &Case) -> Option<String> {
        let open = self.open.get_or_init(|| {
            let everything = only(self.sources, PERMIT_EVERYTHING);
            self.runner.with_policies(OWN_POLICIES, &everything).ok()
        });
        let open = open.as_ref()?;
        let firewall = self.runner.firewall(case)?;
        let reach = Reach {
            open,
            policies: &firewall.policies().ids(),
        };
        reach.find_obstacle(case)
    }

    /// Every single policy, then pairs of those that determined the answer.
    fn find_sets(&mut self, case: &Case, determining: &[String]) -> Vec<Vec<String>> {
        let mut ids: Vec<String> = determining.to_vec();
        let rest = self.removals.iter().map(|mutant| mutant.policy.clone());
        ids.extend(rest.filter(|id| !determining.contains(id)));
        let singles: Vec<Vec<String>> = ids.into_iter().map(|id| vec![id]).collect();
        let mut pairs = Vec::new();
        for (at, one) in determining.iter().enumerate() {
            let others = determining.iter().skip(at + 1);
            pairs.extend(others.map(|other| vec![one.clone(), other.clone()]));
        }
        let mut left = MAX_SETS;
        for sets in [singles, pairs] {
            let found: Vec<Vec<String>> = sets
                .into_iter()
                .take(left)
                .inspect(|_| left = left.saturating_sub(1))
                .filter(|set| self.holds_without(case, set))
                .collect();
            if !found.is_empty() {
                return found;
            }
        }
        self.find_large_set(case, determining).into_iter().collect()
    }

    /// A set of three or more of the policies that decide, of which each is needed. Those that decide once these are gone
    /// are tried as well.
    fn find_large_set(&mut self, case: &Case, determining: &[String]) -> Option<Vec<String>> {
        let mut set = determining.to_vec();
        let mut rounds = 0;
        while !self.holds_without(case, &set) {
            let next = self.decide_without(case, &set)?;
            let more: Vec<String> = next.into_iter().filter(|id| !set.contains(id)).collect();
            rounds += 1;
            if more.is_empty() || rounds == MAX_ROUNDS {
                return None;
            }
            set.extend(more);
        }
        for id in set.clone() {
            let rest: Vec<String> = set.iter().filter(|kept| **kept != id).cloned().collect();
            if self.holds_without(case, &rest) {
                set = rest;
            }
        }
        Some(set)
    }

    /// The policies that decide without those of `set`; none where the rest does not load.
    fn decide_without(&self, case: &Case, set: &[String]) -> Option<Vec<String>> {
        let runner = self.without.get(set)?.as_ref()?;
        Some(runner.decide(case).ok()?.policies)
    }

    fn holds_without(&mut self, case: &Case, set: &[String]) -> bool {
        let (runner, sources, removals) = (self.runner, self.sources, &self.removals);
        let runner = self.without.entry(set.to_vec()).or_insert_with(|| {
            // Of one file the later goes first, so that places stay where they are.
            let mut gone: Vec<&Mutant> = removals
                .iter()
                .filter(|mutant| set.contains(&mutant.policy))
                .collect();
            gone.reverse();
            let left = gone
                .iter()
                .fold(sources.clone(), |left, mutant| mutant.apply(&left));
            runner.with_policies(OWN_POLICIES, &left).ok()
        });
        runner
            .as_ref()
            .is_some_and(|runner| runner.run(case).differences.is_empty())
    }
}
