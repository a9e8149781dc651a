//! What the tests of a policy folder leave out.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt::Write as _,
};

use palisade::{
    catalog::RelationKind, code::Code, firewall::AccessClass, policy::PolicySources,
    session::Principal,
};
use serde::Serialize;

use crate::{
    clause_coverage::{self, PolicyHits},
    report::CaseResult,
    run::{RunError, Runner, Touched},
};

/// What the tests of a policy folder touch, and what they leave out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyCoverage {
    /// Of each kind of thing.
    pub kinds: Vec<Covered>,
    /// Of each policy, by file and line.
    pub policies: Vec<PolicyHits>,
}

/// How much of one kind of thing is tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Covered {
    /// One of [`KINDS`](Self::KINDS).
    pub kind: &'static str,
    /// How many there are.
    pub total: usize,
    /// Those that no case touches, sorted.
    pub untested: Vec<String>,
}

/// Names that a line shows.
const SHOWN: usize = 8;

impl Covered {
    /// The kinds of things.
    pub const KINDS: [&'static str; 7] = [
        "policies",
        "tables",
        "columns",
        "principals",
        "actions",
        "clauses",
        "usages",
    ];

    /// How much is tested, in hundredths, rounded down; all of nothing.
    #[must_use]
    pub fn percent(&self) -> usize {
        let tested = self.total.saturating_sub(self.untested.len());
        (tested * 100).checked_div(self.total).unwrap_or(100)
    }
}

impl PolicyCoverage {
    /// Keeps, of policies and clauses, those of policies that `keep` takes; the other kinds stay.
    pub fn retain_policies(&mut self, keep: impl Fn(&PolicyHits) -> bool) {
        self.policies.retain(keep);
        let [of_policies, _, _, _, _, of_clauses, _] = Covered::KINDS;
        for covered in &mut self.kinds {
            if covered.kind == of_policies {
                let left = |id: &String| self.policies.iter().any(|one| one.policy == *id);
                covered.untested.retain(left);
                covered.total = self.policies.len();
            } else if covered.kind == of_clauses {
                let found: Vec<_> = self.policies.iter().map(PolicyHits::find_unseen).collect();
                covered.total = found.iter().map(|(total, _)| total).sum();
                covered.untested = found.into_iter().flat_map(|(_, unseen)| unseen).collect();
            }
        }
    }

    /// What is not tested, then how much is.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut told = Vec::new();
        for covered in &self.kinds {
            let Covered {
                kind,
                total,
                untested,
            } = covered;
            if !untested.is_empty() {
                let shown: Vec<&str> = untested.iter().take(SHOWN).map(String::as_str).collect();
                let rest = match untested.len().saturating_sub(SHOWN) {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                let _ = writeln!(out, "untested {kind}: {}{rest}", shown.join(", "));
            }
            // Most policies tell no uses of columns apart.
            if *kind == "usages" && *total == 0 {
                continue;
            }
            let tested = total.saturating_sub(untested.len());
            told.push(format!("{tested} of {total} {kind}"));
        }
        let _ = writeln!(out, "tested: {}", told.join(", "));
        out
    }
}

/// Each thing that there is, and whether a case touched it.
#[derive(Default)]
struct Marks(BTreeMap<String, bool>);

impl Marks {
    fn add(&mut self, name: String) {
        self.0.entry(name).or_insert(false);
    }

    fn mark(&mut self, name: &str) {
        if let Some(mark) = self.0.get_mut(name) {
            *mark = true;
        }
    }

    fn count(self, kind: &'static str) -> Covered {
        Covered {
            kind,
            total: self.0.len(),
            untested: self
                .0
                .into_iter()
                .filter(|(_, mark)| !mark)
                .map(|(name, _)| name)
                .collect(),
        }
    }
}

/// What `results` touch of the policies called `policies` over `catalogs`. A case that was skipped touches nothing.
pub(crate) fn measure<'c>(
    runner: &Runner,
    catalogs: impl Iterator<Item = &'c String>,
    (policies, sources): (&str, &PolicySources),
    results: &[CaseResult],
) -> Result<PolicyCoverage, RunError> {
    let [
        mut rules,
        mut tables,
        mut columns,
        mut principals,
        mut actions,
        mut usages,
    ] = [(); 6].map(|()| Marks::default());
    let mut hits: BTreeMap<String, usize> = BTreeMap::new();
    let mut named = BTreeSet::new();
    for catalog in catalogs {
        let firewall = runner.firewall_over(catalog, policies)?;
        for id in firewall.policies().ids() {
            rules.add(id);
        }
        for action in firewall.policies().permitted_actions() {
            actions.add(action.to_owned());
        }
        for usage in firewall.policies().named_usages() {
            usages.add(usage.to_owned());
        }
        for relation in firewall.catalog().relations() {
            match relation.kind {
                RelationKind::Table | RelationKind::View | RelationKind::Materialized => {}
                RelationKind::Virtual | RelationKind::System => continue,
            }
            tables.add(relation.uid.clone());
            for (_, column) in relation.column_ids() {
                columns.add(format!("{}.{}", relation.uid, column.name));
            }
        }
        for principal in firewall.known_principals() {
            principals.add(AccessClass::describe_member(&principal));
            named.insert(principal);
        }
    }
    let mut hidden: BTreeMap<(&str, &Principal), BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for CaseResult { case, answer, .. } in results {
        let Some(answer) = answer else { continue };
        let mut determined: BTreeSet<String> = answer.policies.iter().cloned().collect();
        for approval in &answer.approvals {
            actions.mark("approve");
            determined.extend(approval.policies.iter().cloned());
        }
        if case.template.is_some() && answer.code != Some(Code::TemplateUnknown) {
            actions.mark("run");
        }
        if let Some(action) = runner.find_action(case) {
            actions.mark(action);
        }
        principals.mark(&describe_principal(&case.principal, &named));
        for touched in runner.find_touched(case) {
            let Touched {
                table,
                column,
                usages: used,
            } = touched;
            tables.mark(&table);
            for usage in used {
                usages.mark(usage);
            }
            if let Some(column) = column {
                let column = format!("{table}.{column}");
                columns.mark(&column);
                // An answer names no policy that hides what the statement asks for.
                let key = (case.catalog.as_str(), &case.principal);
                let hidden = match hidden.entry(key) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(vacant) => vacant.insert(runner.hidden_columns(case)),
                };
                let by = hidden.get(&column).into_iter().flatten();
                determined.extend(by.cloned());
            }
        }
        for id in determined {
            rules.mark(&id);
            *hits.entry(id).or_default() += 1;
        }
    }
    let policies = clause_coverage::measure(runner, (policies, sources), results, &hits)?;
    let [
        of_rules,
        of_tables,
        of_columns,
        of_principals,
        of_actions,
        of_clauses,
        of_usages,
    ] = Covered::KINDS;
    let mut clauses = Covered {
        kind: of_clauses,
        total: 0,
        untested: Vec::new(),
    };
    for policy in &policies {
        let (total, unseen) = policy.find_unseen();
        clauses.total += total;
        clauses.untested.extend(unseen);
    }
    Ok(PolicyCoverage {
        kinds: vec![
            rules.count(of_rules),
            tables.count(of_tables),
            columns.count(of_columns),
            principals.count(of_principals),
            actions.count(of_actions),
            clauses,
            usages.count(of_usages),
        ],
        policies,
    })
}

/// A principal by name, or `any other Agent` where nothing names it.
fn describe_principal(principal: &Principal, named: &BTreeSet<Principal>) -> String {
    if named.contains(principal) {
        AccessClass::describe_member(principal)
    } else {
        format!("any other {}", principal.kind())
    }
}
