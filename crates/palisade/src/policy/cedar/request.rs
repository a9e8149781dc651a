//! One question to Cedar, answered so that a policy that fails to evaluate denies.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use cedar_policy::{
    Authorizer, Context, Decision, Entities, EntityUid, PartialEntities, Request,
    RestrictedExpression,
};

use crate::policy::{
    cedar::{
        context_use::{HAS_WHERE, STATEMENT, TIME},
        entities,
        entities::action_uid,
        failure::Failure,
        row_verdict::Rows,
        schema::PolicyAction,
    },
    set::Loaded,
};
use crate::{
    catalog::{Relation, RelationId},
    code::Code,
    moment::utc,
    rejection::Rejection,
    session::Session,
    token::Epoch,
};

/// Who asks, with the entities in which the principal exists.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Subject {
    /// The span of the tokens' lifetime that the session is in, where tokens expire.
    pub(in crate::policy) epoch: Option<Epoch>,
    /// To whom tokens belong: the principal, and a scope where the session has one.
    pub(in crate::policy) token_owner: String,
    pub(in crate::policy) uid: EntityUid,
    pub(in crate::policy) context: Context,
    pub(in crate::policy) circumstances: Circumstances,
    /// What a decision sees whatever the resource.
    pub(in crate::policy) entities: Arc<Entities>,
    /// The same for row policies.
    pub(in crate::policy) partial: Arc<PartialEntities>,
    /// The same with a relation and its columns.
    by_relation: Arc<Mutex<HashMap<RelationId, Arc<Entities>>>>,
    /// What was decided, where the same is asked again and again.
    memo: Option<Arc<Mutex<Memo>>>,
}

/// Answers that a subject remembers. Failures are none.
#[derive(Debug, Default)]
struct Memo {
    verdicts: HashMap<(PolicyAction, EntityUid), Verdict>,
    rows: HashMap<(PolicyAction, RelationId), Rows>,
}

/// How many answers of a kind are remembered; when more come, all of it are forgotten.
const ANSWERS: usize = 4096;

/// How many relations' entities a subject remembers; when more come, all are forgotten.
const RELATIONS: usize = 64;

impl Subject {
    /// Who asks in `session`.
    ///
    /// # Errors
    /// `policy.no-permit` if the principal is of no type that policies know.
    pub(in crate::policy) fn new(loaded: &Loaded, session: &Session) -> Result<Self, Rejection> {
        let principal = session.principal();
        let uid = entities::uid(principal.kind(), principal.id()).filter(|uid| {
            loaded
                .schemas
                .fixed
                .principals()
                .any(|kind| kind == uid.type_name())
        });
        let Some(uid) = uid else {
            return Err(
                Rejection::from(Code::PolicyNoPermit).with_operator_detail(format!(
                    "principal {principal}: `{}` is not a principal type",
                    principal.kind()
                )),
            );
        };
        Ok(Self::with_uid(loaded, uid, session)?)
    }

    /// The principal `uid` in the circumstances of `session`.
    ///
    /// # Errors
    /// If Cedar does not take the context, or the entities together: what a credential says of the principal does not fit the schema.
    pub(in crate::policy) fn with_uid(
        loaded: &Loaded,
        uid: EntityUid,
        session: &Session,
    ) -> Result<Self, Failure> {
        let circumstances = Circumstances::new(session);
        let (store, schema) = (&loaded.store, &loaded.schemas.fixed);
        let entities = store.collect_around(&uid, session.identity(), schema)?;
        let partial = entities::without_columns(&entities, &loaded.schemas.fixed)?;
        Ok(Self {
            epoch: session.epoch(),
            // A principal ends with a quote, and so is none of those with a scope.
            token_owner: match session.token_scope() {
                None => uid.to_string(),
                Some(scope) => format!("{uid} in {scope}."),
            },
            uid,
            context: circumstances.context()?,
            circumstances,
            entities: Arc::new(entities),
            partial: Arc::new(partial),
            by_relation: Arc::default(),
            memo: None,
        })
    }

    /// The same, that remembers what was decided: for checks that ask the same several times. A session asks once.
    pub(in crate::policy) fn remembering(self) -> Self {
        Self {
            memo: Some(Arc::default()),
            ..self
        }
    }

    /// The rows to which it may do `action`: those that are remembered, or what `find` finds.
    ///
    /// # Errors
    /// Those of `find`.
    pub(in crate::policy) fn remember_rows(
        &self,
        action: PolicyAction,
        relation: RelationId,
        find: impl FnOnce() -> Result<Rows, Failure>,
    ) -> Result<Rows, Failure> {
        self.remember(|memo| &mut memo.rows, (action, relation), find)
    }

    fn remember<K: Eq + Hash, V: Clone>(
        &self,
        part: impl Fn(&mut Memo) -> &mut HashMap<K, V>,
        key: K,
        find: impl FnOnce() -> Result<V, Failure>,
    ) -> Result<V, Failure> {
        let Some(memo) = &self.memo else {
            return find();
        };
        // A poisoned lock guards maps of finished values; the panic was elsewhere.
        let lock = || memo.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = part(&mut lock()).get(&key) {
            return Ok(value.clone());
        }
        let value = find()?;
        let mut memo = lock();
        let known = part(&mut memo);
        if known.len() >= ANSWERS {
            known.clear();
        }
        known.insert(key, value.clone());
        Ok(value)
    }

    /// What a decision about `relation`, or one of its columns, sees.
    ///
    /// # Errors
    /// If Cedar does not take them together, which would be a defect of ours.
    pub(in crate::policy) fn entities_about(
        &self,
        loaded: &Loaded,
        relation: &Relation,
    ) -> Result<Arc<Entities>, Failure> {
        // A poisoned lock guards a map of finished values; the panic was elsewhere.
        let known = || {
            self.by_relation
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(entities) = known().get(&relation.id) {
            return Ok(Arc::clone(entities));
        }
        let (catalog, tags) = (&loaded.catalog, &loaded.tags);
        let own = loaded.relation_entities.find(catalog, tags, relation)?;
        let entities = Arc::new(entities::add(&self.entities, &own, &loaded.schemas.fixed)?);
        let mut known = known();
        if known.len() >= RELATIONS {
            known.clear();
        }
        known.insert(relation.id, Arc::clone(&entities));
        Ok(entities)
    }
}

/// Cedar's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::policy) struct Verdict {
    pub(in crate::policy) permitted: bool,
    /// The policies that made it so, sorted.
    pub(in crate::policy) policies: Vec<String>,
}

/// What policies see of a session beside its principal, as attributes of the context.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Circumstances(Vec<(String, RestrictedExpression)>);

impl Circumstances {
    /// Those of `session`.
    pub(in crate::policy) fn new(session: &Session) -> Self {
        let text = |value: &str| RestrictedExpression::new_string(value.to_owned());
        let transport = ("transport".to_owned(), text(session.transport().name()));
        let mut out = vec![transport];
        out.extend(
            session
                .client()
                .map(|client| ("client".to_owned(), text(client))),
        );
        out.extend(
            session
                .template()
                .map(|name| ("template".to_owned(), text(name))),
        );
        out.extend(session.time().map(|time| {
            let (date, time) = utc(time);
            let time = RestrictedExpression::new_datetime(format!("{date}T{time}Z"));
            (TIME.to_owned(), time)
        }));
        Self(out)
    }

    /// The context of a request about which nothing else is known.
    pub(in crate::policy) fn context(&self) -> Result<Context, Failure> {
        self.context_with(Vec::new())
    }

    /// The context of a request about which this is known too.
    pub(in crate::policy) fn context_with(
        &self,
        more: Vec<(String, RestrictedExpression)>,
    ) -> Result<Context, Failure> {
        Context::from_pairs(self.0.iter().cloned().chain(more)).map_err(Failure::new)
    }

    /// The context of `update` and `delete`: whether the statement has a condition on the table's rows.
    pub(in crate::policy) fn with_condition(&self, has_where: bool) -> Result<Context, Failure> {
        let has_where = RestrictedExpression::new_bool(has_where);
        self.context_with(vec![(HAS_WHERE.to_owned(), has_where)])
    }
}

/// Whether the subject may do `action` to `resource`, which is `relation` or one of its columns.
///
/// # Errors
/// If the request does not fit the schema, or any policy of the action fails to evaluate.
pub(in crate::policy) fn decide(
    loaded: &Loaded,
    subject: &Subject,
    action: PolicyAction,
    relation: &Relation,
    resource: EntityUid,
) -> Result<Verdict, Failure> {
    let key = (action, resource.clone());
    subject.remember(
        |memo| &mut memo.verdicts,
        key,
        || {
            let entities = subject.entities_about(loaded, relation)?;
            let context = subject.context.clone();
            decide_among(loaded, subject, action, resource, &entities, context)
        },
    )
}

/// Whether the subject may do `action` to `resource`, where `entities` exist and `context` holds.
///
/// # Errors
/// As [`decide`].
pub(in crate::policy) fn decide_among(
    loaded: &Loaded,
    subject: &Subject,
    action: PolicyAction,
    resource: EntityUid,
    entities: &Entities,
    context: Context,
) -> Result<Verdict, Failure> {
    let knows_statement = context.get(STATEMENT).is_some();
    let policies = loaded
        .policies
        .about(action, &resource, entities, knows_statement)?;
    let request = Request::new(
        subject.uid.clone(),
        action_uid(action)?,
        resource,
        context,
        Some(&loaded.schemas.fixed),
    )
    .map_err(Failure::new)?;
    let response = Authorizer::new().is_authorized(&request, &policies, entities);
    let mut failed: Vec<(String, String)> = response
        .diagnostics()
        .errors()
        .map(|error| match error {
            cedar_policy::AuthorizationError::PolicyEvaluationError(error) => {
                (error.policy_id().to_string(), error.to_string())
            }
        })
        .collect();
    if !failed.is_empty() {
        failed.sort();
        let (policies, details): (_, Vec<_>) = failed.into_iter().unzip();
        return Err(Failure {
            detail: details.join("; "),
            policies,
        });
    }
    let mut determining: Vec<String> = response
        .diagnostics()
        .reason()
        .map(ToString::to_string)
        .collect();
    determining.sort();
    let permitted = match response.decision() {
        Decision::Allow => true,
        Decision::Deny => false,
    };
    Ok(Verdict {
        permitted,
        policies: determining,
    })
}
