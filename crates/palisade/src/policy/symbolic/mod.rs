//! What is decided about any principal of a type, as conditions over it and its circumstances: for whoever proves something of
//! all of them.
//!
//! A condition holds wherever a decision shows or permits the amount that it is about. It may hold where a decision does not:
//! partitions, computed columns and rows can only take away. Cedar evaluates the policies over the catalog and leaves what
//! looks at the principal and the context. A policy that fails to evaluate denies, and a condition with such a part does not hold.

mod difference;
mod expression;
mod question;
mod sample_row;

use std::collections::BTreeSet;

use cedar_policy::{
    Decision, Entities, EntityTypeName, EntityUid, PartialEntities, PartialEntityUid,
    PartialRequest, Policy, Schema, TpeResponse,
};
use serde_json::Value;

pub use question::{
    Amount, Aspect, Setting, SymbolicAnswer, SymbolicModel, SymbolicQuestion, Whose,
};

use expression::{
    all, any, conditions, context_has, context_is, decide_membership, evaluates, find_has,
    has_where, not, principal_in, truth,
};

use crate::policy::{
    PolicySet,
    cedar::{
        entities,
        entities::{action_uid, relation_entities, resource, row_ancestors},
        failure::Failure,
        schema,
        schema::PolicyAction,
    },
    obligation::Mask,
    set::Loaded,
};
use crate::{
    catalog::{ColumnId, Relation},
    session::Principal,
};

impl PolicySet {
    /// The types of principals.
    pub(crate) fn principal_kinds(&self) -> Vec<String> {
        let kinds = self.loaded.schemas.fixed.principals();
        let mut kinds: Vec<String> = kinds.map(ToString::to_string).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    /// Whether any principal of the type `kind` among `whose` has any of `amounts` of a relation, or of its column.
    ///
    /// # Errors
    /// Why nothing can be said: a policy that cannot be evaluated or written down.
    pub(crate) fn ask_about_any(
        &self,
        kind: &str,
        whose: Whose<'_>,
        setting: Setting,
        (relation, column): (&Relation, Option<ColumnId>),
        amounts: &[Amount],
    ) -> Result<SymbolicQuestion, String> {
        let asking = Asking::new(&self.loaded, kind)?;
        let who = who(whose)?;
        let setting = asking.setting(setting)?;
        let mut conditions = Vec::new();
        let mut about_rows = false;
        for amount in amounts {
            about_rows |= *amount == Amount::AnyRow;
            for shown in asking.amount(relation, column, *amount)? {
                conditions.push(all([who.clone(), setting.clone(), shown]));
            }
        }
        let schema = asking.schema_text(about_rows.then_some(relation))?;
        Ok(SymbolicQuestion::new(
            schema,
            kind.to_owned(),
            conditions,
            Vec::new(),
        ))
    }
}

fn who(whose: Whose<'_>) -> Result<Value, String> {
    let in_any = |groups: &[Principal]| {
        let each = groups.iter().map(|group| {
            let uid = entities::uid(group.kind(), group.id());
            let uid = uid.ok_or_else(|| format!("`{}` is no type", group.kind()))?;
            Ok(principal_in(&uid))
        });
        each.collect::<Result<Vec<_>, String>>().map(any)
    };
    Ok(match whose {
        Whose::Everyone => truth(true),
        Whose::Outside(groups) => not(in_any(groups)?),
        Whose::Within(groups) => in_any(groups)?,
    })
}

/// One policy, and when it applies.
#[derive(PartialEq)]
struct Applies {
    id: String,
    when: Value,
}

/// The policies that Cedar decides by about one resource, each with when it applies.
#[derive(PartialEq)]
struct Verdict {
    permits: Vec<Applies>,
    forbids: Vec<Applies>,
}

impl Verdict {
    fn permitted(&self) -> Value {
        all([whenever(&self.permits), not(whenever(&self.forbids))])
    }

    /// True, and an error where a policy is one: then a decision denies, whatever the others say.
    fn evaluates(&self) -> Value {
        let policies = self.permits.iter().chain(&self.forbids);
        all(policies.map(|one| evaluates(&one.when)))
    }
}

/// When any of `policies` applies.
fn whenever<'a>(policies: impl IntoIterator<Item = &'a Applies>) -> Value {
    any(policies.into_iter().map(|one| one.when.clone()))
}

/// Policies over a catalog, and any principal of a type.
struct Asking<'l> {
    loaded: &'l Loaded,
    kind: EntityTypeName,
    /// Attributes that an entity of the operator's has wherever it is there at all.
    required: BTreeSet<String>,
}

impl<'l> Asking<'l> {
    fn new(loaded: &'l Loaded, kind: &str) -> Result<Self, String> {
        let kind = kind.parse().map_err(|_| format!("`{kind}` is no type"))?;
        Ok(Self {
            loaded,
            kind,
            required: loaded.schemas.required_attributes()?,
        })
    }

    /// When `amount` is there.
    fn amount(
        &self,
        relation: &Relation,
        column: Option<ColumnId>,
        amount: Amount,
    ) -> Result<Vec<Value>, String> {
        let of_table = |action| -> Result<Vec<Value>, String> {
            Ok(vec![self.of_table(action, relation)?.permitted()])
        };
        match amount {
            Amount::Plain => Ok(vec![self.column(relation, column)?.plain()]),
            Amount::Token => Ok(vec![self.column(relation, column)?.token()]),
            Amount::Masked => Ok(vec![self.column(relation, column)?.masked()]),
            Amount::Column => {
                let of_column = self.column(relation, column)?;
                Ok(vec![
                    of_column.plain(),
                    of_column.token(),
                    of_column.masked_or_null(),
                ])
            }
            Amount::AnyRow => {
                let select = self.of_table(PolicyAction::Select, relation)?.permitted();
                let see = self.row(PolicyAction::See, relation, None)?.permitted();
                Ok(vec![all([select, see])])
            }
            Amount::EveryRow => {
                let mut parts = vec![self.of_table(PolicyAction::Select, relation)?.permitted()];
                for sample in sample_row::Sample::ALL {
                    let row = self.row(PolicyAction::See, relation, Some(sample))?;
                    parts.push(row.permitted());
                }
                Ok(vec![all(parts)])
            }
            Amount::Select => of_table(PolicyAction::Select),
            Amount::Insert => of_table(PolicyAction::Insert),
            // What is permitted without a condition is permitted with one.
            Amount::Update => Ok(vec![all([
                has_where(),
                self.of_table(PolicyAction::Update, relation)?.permitted(),
            ])]),
            Amount::Delete => Ok(vec![all([
                has_where(),
                self.of_table(PolicyAction::Delete, relation)?.permitted(),
            ])]),
            Amount::Truncate => of_table(PolicyAction::Truncate),
            Amount::Write => {
                let write = self.of_column(PolicyAction::Write, relation, column)?;
                // Nothing is assigned but by these.
                let insert = self.of_table(PolicyAction::Insert, relation)?.permitted();
                let update = self.of_table(PolicyAction::Update, relation)?.permitted();
                let write = write.permitted();
                Ok(vec![all([insert, write.clone()]), all([update, write])])
            }
        }
    }

    fn of_table(&self, action: PolicyAction, relation: &Relation) -> Result<Verdict, String> {
        let uid = resource("Table", &relation.uid).map_err(tell)?;
        self.verdict(action, Some(relation), &uid)
    }

    fn of_column(
        &self,
        action: PolicyAction,
        relation: &Relation,
        column: Option<ColumnId>,
    ) -> Result<Verdict, String> {
        let column = column.and_then(|id| relation.column(id.index));
        let column = column.ok_or("a column is asked about, and none is named")?;
        let uid = resource("Column", &column.uid).map_err(tell)?;
        self.verdict(action, Some(relation), &uid)
    }

    /// What decides how a column is shown, in the order in which decisions ask.
    fn column(
        &self,
        relation: &Relation,
        column: Option<ColumnId>,
    ) -> Result<ColumnVerdicts<'l>, String> {
        Ok(ColumnVerdicts {
            loaded: self.loaded,
            select: self.of_table(PolicyAction::Select, relation)?,
            plain: self.of_column(PolicyAction::ReadPlain, relation, column)?,
            token: self.of_column(PolicyAction::ReadToken, relation, column)?,
            masked: self.of_column(PolicyAction::ReadMasked, relation, column)?,
        })
    }

    /// Where a statement stands: by itself, or within a template.
    fn setting(&self, setting: Setting) -> Result<Value, String> {
        match setting {
            Setting::Outside => Ok(not(context_has("template"))),
            Setting::Template => {
                let mut runs = Vec::new();
                for name in self.loaded.templates.names() {
                    let uid = resource("Template", name).map_err(tell)?;
                    let run = self.verdict(PolicyAction::Run, None, &uid)?.permitted();
                    runs.push(all([context_is("template", name), run]));
                }
                Ok(all([context_has("template"), any(runs)]))
            }
        }
    }

    /// What the catalog has of entities around a relation; those of the operator are any.
    fn catalog_entities(&self, relation: Option<&Relation>) -> Result<Entities, String> {
        let loaded = self.loaded;
        let named = loaded.store.collect_catalog();
        let known = Entities::from_entities(named, None).map_err(tell_error)?;
        let Some(relation) = relation else {
            return Ok(known);
        };
        let own = relation_entities(&loaded.catalog, &loaded.tags, relation)
            .map_err(|error| error.message)?;
        entities::add(&known, &own, &loaded.schemas.fixed).map_err(tell)
    }

    fn verdict(
        &self,
        action: PolicyAction,
        relation: Option<&Relation>,
        uid: &EntityUid,
    ) -> Result<Verdict, String> {
        let (loaded, schema) = (self.loaded, &self.loaded.schemas.fixed);
        let entities = self.catalog_entities(relation)?;
        // What exists is decided before a statement is known; what a forbid says of that comes later, and only takes away.
        let policies = loaded
            .policies
            .about(action, uid, &entities, false)
            .map_err(tell)?;
        let partial = PartialEntities::from_concrete(entities, schema).map_err(tell_error)?;
        let request = self.request(action, PartialEntityUid::from_concrete(uid.clone()), schema)?;
        let response = policies
            .tpe(&request, &partial, schema)
            .map_err(tell_error)?;
        self.read(&response, &|expression| expression)
    }

    fn request(
        &self,
        action: PolicyAction,
        resource: PartialEntityUid,
        schema: &Schema,
    ) -> Result<PartialRequest, String> {
        let action = action_uid(action).map_err(tell)?;
        let principal = PartialEntityUid::new(self.kind.clone(), None);
        PartialRequest::new(principal, action, resource, None, schema).map_err(tell_error)
    }

    /// What decides about a row of our own making, or about one of which nothing is known but its table.
    fn row(
        &self,
        action: PolicyAction,
        relation: &Relation,
        sample: Option<sample_row::Sample>,
    ) -> Result<Verdict, String> {
        let loaded = self.loaded;
        let row_type: EntityTypeName = schema::row_type(relation).parse().map_err(tell_error)?;
        let ancestors = row_ancestors(&loaded.catalog, &loaded.tags, relation);
        let uids = ancestors.iter().map(|(kind, id)| resource(kind, id));
        let uids: Vec<_> = uids.collect::<Result<_, _>>().map_err(tell)?;
        let policies = loaded
            .policies
            .about_rows(action, &row_type, &uids)
            .map_err(tell)?;
        let schema = loaded
            .schemas
            .of_rows(&loaded.catalog, relation)
            .map_err(tell)?;
        let known = self.catalog_entities(Some(relation))?;
        let (known, asked) = match sample {
            None => (known, PartialEntityUid::new(row_type, None)),
            Some(sample) => {
                let row = sample.make(loaded, relation)?;
                let uid = row.uid();
                let known = known.add_entities([row], None).map_err(tell_error)?;
                (known, PartialEntityUid::from_concrete(uid))
            }
        };
        let partial = PartialEntities::from_concrete(known, &schema).map_err(tell_error)?;
        let request = self.request(action, asked, &schema)?;
        let response = policies
            .tpe(&request, &partial, &schema)
            .map_err(tell_error)?;
        let is_above =
            |kind: &str, id: &str| ancestors.iter().any(|one| (one.0, &*one.1) == (kind, id));
        self.read(&response, &|expression| {
            decide_membership(&expression, &is_above)
        })
    }

    /// The schema of the question: with the rows of a relation, where the question is about these.
    fn schema_text(&self, rows: Option<&Relation>) -> Result<String, String> {
        let (principals, rows_text, resource) = match rows {
            None => {
                let principals = self.loaded.schemas.principals_text()?;
                (
                    principals,
                    schema::NO_ROW_ACTIONS.to_owned(),
                    "Table".to_owned(),
                )
            }
            Some(relation) => {
                let rows = self
                    .loaded
                    .schemas
                    .rows_text(&self.loaded.catalog, relation);
                let principals = self.loaded.schemas.principals_text()?;
                (principals, rows, schema::row_type(relation))
            }
        };
        let fixed = schema::fixed_text();
        let action =
            schema::any_action(SymbolicQuestion::ACTION, &self.kind.to_string(), &resource);
        Ok(format!("{principals}\n{fixed}\n{action}\n{rows_text}"))
    }

    /// When each policy of a response applies.
    fn read(
        &self,
        response: &TpeResponse<'_>,
        settle: &impl Fn(Value) -> Value,
    ) -> Result<Verdict, String> {
        let failing = response.error_permits().chain(response.error_forbids());
        let failing: Vec<String> = failing.map(ToString::to_string).collect();
        if !failing.is_empty() {
            return Err(format!("{} cannot be evaluated", failing.join(", ")));
        }
        let applies = |id: String, when: Value| Applies { id, when };
        let certain = |id: &cedar_policy::PolicyId| applies(id.to_string(), truth(true));
        let mut out = Verdict {
            permits: response.true_permits().map(certain).collect(),
            forbids: response.true_forbids().map(certain).collect(),
        };
        let residual: Vec<Policy> = response.residual_policies().collect();
        for policy in residual {
            let one = applies(policy.id().to_string(), settle(self.conditions(&policy)?));
            match policy.effect() {
                cedar_policy::Effect::Permit => out.permits.push(one),
                cedar_policy::Effect::Forbid => out.forbids.push(one),
            }
        }
        for policies in [&mut out.permits, &mut out.forbids] {
            policies.sort_by(|one, other| one.id.cmp(&other.id));
        }
        // Where Cedar has an answer of its own already, ours is the same.
        let own = match response.decision() {
            None => return Ok(out),
            Some(Decision::Allow) => truth(true),
            Some(Decision::Deny) => truth(false),
        };
        match out.permitted() == not(own) {
            true => Err("two evaluations of the policies differ".to_owned()),
            false => Ok(out),
        }
    }

    /// The conditions of a policy, unless the solver would take them otherwise than Cedar does.
    fn conditions(&self, policy: &Policy) -> Result<Value, String> {
        let expression = conditions(policy)?;
        match find_has(&expression, &self.required) {
            None => Ok(expression),
            // Solvers know no entity that is not there.
            Some(attribute) => Err(format!(
                "`{}` asks for `has {attribute}`, an attribute that only an entity which is not there lacks",
                policy.id()
            )),
        }
    }
}

/// What decides how a column is shown.
struct ColumnVerdicts<'l> {
    loaded: &'l Loaded,
    select: Verdict,
    plain: Verdict,
    token: Verdict,
    masked: Verdict,
}

impl ColumnVerdicts<'_> {
    fn plain(&self) -> Value {
        all([self.select.permitted(), self.plain.permitted()])
    }

    fn is_not_plain(&self) -> Value {
        all([self.select.permitted(), not(self.plain.permitted())])
    }

    /// Whether a forbid has taken the values for a mask of its own: then there are no tokens.
    fn asks_for_a_mask(&self) -> Value {
        let forbids = self.plain.forbids.iter();
        whenever(forbids.filter(|one| self.mask(one).is_some()))
    }

    fn token(&self) -> Value {
        all([
            self.is_not_plain(),
            not(self.asks_for_a_mask()),
            self.token.permitted(),
        ])
    }

    fn masked_or_null(&self) -> Value {
        all([
            self.is_not_plain(),
            any([self.asks_for_a_mask(), not(self.token.permitted())]),
            self.masked.permitted(),
        ])
    }

    /// Under the strictest of the masks that policies demand, and NULL is the strictest of all.
    fn masked(&self) -> Value {
        let demanding = || self.plain.forbids.iter().chain(&self.masked.permits);
        let null = demanding().filter(|one| self.mask(one) == Some(&Mask::Null));
        let other =
            demanding().filter(|one| self.mask(one).is_some_and(|mask| *mask != Mask::Null));
        all([self.masked_or_null(), not(whenever(null)), whenever(other)])
    }

    /// Under this very mask.
    fn exactly(&self, mask: &Mask) -> Value {
        let demanding = || self.plain.forbids.iter().chain(&self.masked.permits);
        let same = demanding().filter(|one| self.mask(one) == Some(mask));
        let stricter = demanding().filter(|one| {
            let other = self.mask(one);
            other.is_some_and(|other| mask.clone().strictest(other.clone()) != *mask)
        });
        all([
            self.masked_or_null(),
            whenever(same),
            not(whenever(stricter)),
        ])
    }

    /// The masks that policies demand, NULL aside.
    fn masks(&self) -> Vec<Mask> {
        let demanding = self.plain.forbids.iter().chain(&self.masked.permits);
        let mut masks: Vec<Mask> = demanding
            .filter_map(|one| self.mask(one))
            .cloned()
            .collect();
        masks.retain(|mask| *mask != Mask::Null);
        masks.sort();
        masks.dedup();
        masks
    }

    /// As NULL for every row.
    fn null(&self) -> Value {
        let others = self.masks().into_iter();
        let others = any(others.map(|mask| self.exactly(&mask)));
        all([self.masked_or_null(), not(others)])
    }

    fn mask(&self, policy: &Applies) -> Option<&Mask> {
        self.loaded.annotations.get(&policy.id)?.mask.as_ref()
    }
}

fn tell(failure: Failure) -> String {
    failure.detail
}

fn tell_error(error: impl ToString) -> String {
    error.to_string()
}
