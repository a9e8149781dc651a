//! Cedar's validation of policies, each against the row types that it can meet.
//!
//! Cedar tries a policy on every type that its scope may admit. Of thousands of row types most look alike to a policy: what it does
//! not name and cannot tell apart by the attributes that it looks at is tried once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use cedar_policy::{
    ActionConstraint, Effect, Policy, PolicySet, ResourceConstraint, Schema, ValidationMode,
    ValidationResult, ValidationWarning, Validator, ffi::DetailedError,
};
use serde_json::Value;

use crate::catalog::{Catalog, Relation, RelationKind};
use crate::dialect::Dialect;
use crate::policy::{
    cedar::{
        attribute_names::attribute_names,
        attribute_type::{AttributeType, attribute_type, shows_presence},
        by_action::covers_any,
        failure::Failure,
        named_relations::NamedRelations,
        schema::{PolicyAction, ROW_NAMESPACE, row_type},
        schemas::Schemas,
        seen_attribute::find_seen_attribute,
    },
    lint::{attributes, entity_ids::OF_VIRTUAL},
    load::{
        diagnostic::{PolicyProblem, Source, probably},
        missing_attribute,
        source::{Located, Origins},
        unseen_attribute, written_help,
    },
};

/// How many policies with row types of their own are tried against one schema: each costs time for every type that it holds.
const TOGETHER: usize = 16;

/// What policies are validated against.
pub(in crate::policy) struct Validation<'a> {
    pub(in crate::policy) catalog: &'a Catalog,
    pub(in crate::policy) named: &'a NamedRelations<'a>,
    pub(in crate::policy) schemas: &'a Schemas,
    pub(in crate::policy) principals: &'a Source<'a>,
    pub(in crate::policy) origins: &'a Origins<'a>,
}

impl<'a> Validation<'a> {
    /// Reports what Cedar finds wrong with the policies, and what is odd about them.
    pub(in crate::policy) fn check(
        &self,
        located: &[Located<'_>],
        problems: &mut Vec<PolicyProblem>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        let mut wrong = HashSet::new();
        for (policies, schema) in self.groups(located) {
            let result = schema.and_then(|schema| validate(&policies, schema));
            match result {
                Ok((set, result)) => {
                    let ids = result.validation_errors().map(|error| error.policy_id());
                    wrong.extend(ids.map(ToString::to_string));
                    self.report_warnings(&set, &result, problems, warnings);
                }
                Err(failure) => problems.push(self.principals.problem_of_file(failure.detail)),
            }
        }
        if !wrong.is_empty() {
            let is_wrong = |l: &&Located<'_>| wrong.contains(l.policy.id().as_ref() as &str);
            let policies: Vec<&Policy> =
                located.iter().filter(is_wrong).map(|l| &l.policy).collect();
            self.report_errors(&policies, problems);
        }
        for list in [problems, warnings] {
            // Cedar tells several of one place in another order each time.
            list.sort_by_cached_key(|problem| {
                let PolicyProblem {
                    file,
                    line,
                    column,
                    message,
                    ..
                } = problem;
                (file.clone(), *line, *column, message.clone())
            });
        }
    }

    /// The policies in groups, each with a schema that holds the row types they can tell apart.
    fn groups<'p>(
        &self,
        located: &'p [Located<'_>],
    ) -> Vec<(Vec<&'p Policy>, Result<Schema, Failure>)> {
        let mut without = Vec::new();
        let mut with: Vec<(&Policy, Vec<&Relation>)> = Vec::new();
        let mut alike = HashMap::new();
        for Located { policy, json, .. } in located {
            let relations = self.relations_to_try(policy, json.as_ref(), &mut alike);
            if relations.is_empty() {
                without.push(policy);
            } else {
                with.push((policy, relations));
            }
        }
        let mut out = vec![(without, Ok(self.schemas.fixed.clone()))];
        for group in with.chunks(TOGETHER) {
            let relations: BTreeMap<_, _> = group
                .iter()
                .flat_map(|(_, relations)| relations)
                .map(|relation| (relation.id, *relation))
                .collect();
            let relations: Vec<&Relation> = relations.into_values().collect();
            let schema = self.schemas.with_rows(self.catalog, &relations);
            out.push((group.iter().map(|(policy, _)| *policy).collect(), schema));
        }
        out
    }

    /// The relations whose row types `policy` has to be tried with: those that it names, and of those that its scope may admit one
    /// of each kind that it can tell apart.
    fn relations_to_try(
        &self,
        policy: &Policy,
        json: Option<&Value>,
        alike: &mut HashMap<BTreeSet<String>, Vec<&'a Relation>>,
    ) -> Vec<&'a Relation> {
        // One that cannot be written down may look at anything.
        let Some(json) = json else {
            return self.named.all.clone();
        };
        let attributes = attribute_names(json);
        let mut out: Vec<&'a Relation> = self.named.mentioned_in(json);
        let of_rows = covers_any(policy, PolicyAction::is_of_rows);
        let is_pinned = match policy.resource_constraint() {
            ResourceConstraint::Is(kind) | ResourceConstraint::IsIn(kind, _) => {
                self.named.with_row_type(&kind.to_string()).is_some()
            }
            ResourceConstraint::Any | ResourceConstraint::In(_) | ResourceConstraint::Eq(_) => {
                false
            }
        };
        if of_rows && !is_pinned {
            let kinds = alike.entry(attributes).or_insert_with_key(|attributes| {
                let mut seen = HashSet::new();
                let all = self.named.all.iter().copied();
                all.filter(|relation| seen.insert(self.shape(relation, attributes)))
                    .collect()
            });
            out.extend(kinds.iter());
        }
        out
    }

    /// What Cedar knows of these attributes of a relation's rows.
    fn shape(
        &self,
        relation: &Relation,
        attributes: &BTreeSet<String>,
    ) -> Vec<Option<(Option<AttributeType>, bool)>> {
        let dialect = self.catalog.dialect();
        let column = |name: &String| {
            let Some(index) = relation.position(name) else {
                let seen = find_seen_attribute(self.catalog, relation, name);
                return seen.map(|_| (Some(AttributeType::Bool), false));
            };
            let column = relation.column(index)?;
            let kind = attribute_type(column, dialect);
            (relation.system.is_none() && (kind.is_some() || shows_presence(column, dialect)))
                .then_some((kind, column.nullable))
        };
        attributes.iter().map(column).collect()
    }

    /// What is wrong with policies, told by a schema of every row type, so that a misspelt one is told beside the right one.
    fn report_errors(&self, policies: &[&Policy], problems: &mut Vec<PolicyProblem>) {
        let whole = self.schemas.with_rows(self.catalog, &self.named.all);
        match whole.and_then(|schema| validate(policies, schema)) {
            Ok((_, result)) if result.validation_passed() => {
                let message = "Cedar finds these policies wrong in one schema and right in another";
                problems.push(self.principals.problem_of_file(message));
            }
            Ok((_, result)) => {
                let mut by_policy: BTreeMap<String, Vec<PolicyProblem>> = BTreeMap::new();
                for error in result.validation_errors() {
                    let id = error.policy_id();
                    let found = self.place(id, DetailedError::from(error));
                    by_policy.entry(id.to_string()).or_default().extend(found);
                }
                for (id, found) in by_policy {
                    let policy = policies.iter().find(|policy| policy.id().to_string() == id);
                    let found = match policy {
                        Some(policy) => {
                            missing_attribute::fold(policy, self.catalog, self.named, found)
                        }
                        None => found,
                    };
                    let text = self
                        .origins
                        .get(&id)
                        .map_or("", |origin| origin.source.text);
                    let explain = |problem| self.explain(problem, text);
                    problems.extend(found.into_iter().map(explain));
                }
            }
            Err(failure) => problems.push(self.principals.problem_of_file(failure.detail)),
        }
    }

    fn report_warnings(
        &self,
        policies: &PolicySet,
        result: &ValidationResult,
        problems: &mut Vec<PolicyProblem>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        // Without relations no row action applies to anything.
        let has_rows = !self.named.all.is_empty();
        for warning in result.validation_warnings() {
            let policy = policies.policy(warning.policy_id());
            let mut found = self.place(warning.policy_id(), DetailedError::from(warning));
            if let (ValidationWarning::InvalidActionApplication(_), Some(policy)) =
                (warning, policy)
            {
                let help = group_of_actions(policy);
                found = found
                    .into_iter()
                    .map(|problem| problem.with_help(help.clone()))
                    .collect();
            }
            // A forbid whose scope fits no action forbids nothing, which is never meant.
            let scope = matches!(warning, ValidationWarning::InvalidActionApplication(_));
            let forbids = policy.map(Policy::effect) == Some(Effect::Forbid);
            if scope && forbids && has_rows {
                problems.extend(found);
            } else {
                warnings.extend(found);
            }
        }
    }

    /// A mistake that Cedar found in `text`, with what to do about it where Cedar does not know.
    fn explain(&self, problem: PolicyProblem, text: &str) -> PolicyProblem {
        let help = self.explain_unseen(&problem.message);
        let problem = explain(problem, text, self.principals, self.catalog);
        problem.with_help(help)
    }

    /// Why rows lack the attribute of which this message tells, where it is one of those that ask for a row that is seen.
    fn explain_unseen(&self, message: &str) -> Option<String> {
        let (attribute, kind) = missing_attribute::read_missing(message)?;
        let relation = self.named.with_row_type(kind)?;
        unseen_attribute::explain_absence(self.catalog, relation, attribute)
    }

    /// What Cedar says of a policy, where the policy stands.
    fn place(&self, id: &cedar_policy::PolicyId, error: DetailedError) -> Vec<PolicyProblem> {
        match self.origins.get(id.as_ref() as &str) {
            Some(origin) => {
                let range = origin.range.clone();
                origin
                    .source
                    .cedar_problems(error, range.start, Some(range))
            }
            None => Source {
                name: self.principals.name,
                text: "",
            }
            .cedar_problems(error, 0, None),
        }
    }
}

fn validate(
    policies: &[&Policy],
    schema: Schema,
) -> Result<(PolicySet, ValidationResult), Failure> {
    let policies = policies.iter().copied().cloned();
    let policies = PolicySet::from_policies(policies).map_err(Failure::new)?;
    let result = Validator::new(schema).validate(&policies, ValidationMode::Strict);
    Ok((policies, result))
}

/// What to write where a policy's scope asks for a group as if it were an action: nothing is ever asked about the group.
fn group_of_actions(policy: &Policy) -> Option<String> {
    let ActionConstraint::Eq(uid) = policy.action_constraint() else {
        return None;
    };
    let id = uid.id().unescaped();
    let mut actions = PolicyAction::ALL.iter();
    let is_group = actions.any(|action| action.group() == Some(id));
    is_group.then(|| format!("`{id}` is a group of actions: write `action in {uid}`"))
}

/// What to write for the type of a row whose table is called so, and is spelled otherwise or cannot be named.
fn explain_row_type(written: &str, catalog: &Catalog) -> Option<String> {
    let mut relations = catalog.relations().iter();
    let meant = relations.find(|relation| {
        let plain = format!(
            "{ROW_NAMESPACE}::{}::{}",
            relation.policy_schema, relation.key
        );
        plain == written
    })?;
    match meant.kind {
        RelationKind::Virtual => Some(OF_VIRTUAL.to_owned()),
        RelationKind::Table | RelationKind::View | RelationKind::Materialized => {
            Some(format!("did you mean `{}`?", row_type(meant)))
        }
        RelationKind::System => None,
    }
}

/// The same, with what the words of the message and `text` tell.
fn explain(
    problem: PolicyProblem,
    text: &str,
    principals: &Source<'_>,
    catalog: &Catalog,
) -> PolicyProblem {
    let PolicyProblem { message, .. } = &problem;
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let numbers = |side: &str| side == "Long";
    let truths = |side: &str| side == "Bool" || side.starts_with("__cedar::internal::");
    let sides = message
        .strip_prefix("the types ")
        .and_then(|rest| rest.strip_suffix(" are not compatible"))
        .and_then(|rest| rest.split_once(" and "));
    let help = match (quoted.as_slice(), sides) {
        ([.., attribute, kind], _)
            if message.contains("on entity type") && message.ends_with("not found") =>
        {
            let others = attributes::find_declaring_types(principals, attribute, kind);
            others.first().map(|other| {
                format!(
                    "`{other}` has it: ask `principal is {other} &&` before, or declare it of `{kind}` too"
                )
            })
        }
        // Where several are as close, Cedar suggests another each time.
        ([.., action], _) if message.contains(", unrecognized action `") => {
            let written = action.trim_start_matches("Action::").trim_matches('"');
            let actions = || PolicyAction::ALL.iter().map(|action| action.name());
            Some(match probably(written, actions()) {
                Some(action) => format!("did you mean `Action::\"{action}\"`?"),
                None => {
                    let actions: Vec<&str> = actions().collect();
                    format!("the actions are `{}`", actions.join("`, `"))
                }
            })
        }
        ([.., written], _) if message.contains("unrecognized entity type `") => {
            explain_row_type(written, catalog)
        }
        (_, Some((left, right)))
            if catalog.dialect() == Dialect::Mysql
                && (numbers(left) && truths(right) || truths(left) && numbers(right)) =>
        {
            Some("BOOLEAN is a number there: compare with `1` or `0`".to_owned())
        }
        (_, sides) => written_help::explain_types(&problem, sides, text, catalog.dialect()),
    };
    let message = message
        .replace("__cedar::internal::True", "Bool")
        .replace("__cedar::internal::False", "Bool");
    PolicyProblem { message, ..problem }.with_help(help)
}
