//! A question as Cedar's symbolic compiler takes it, and a principal as the solver describes one.

use cedar_policy::{EntityUid, Policy, PolicyId, PolicySet, RequestEnv, Schema};
use cedar_policy_symcc::{CompiledPolicySet, Env};
use palisade::{
    policy::{SymbolicModel, SymbolicQuestion},
    session::Principal,
};
use serde_json::{Value, json};

/// A question that Cedar has taken.
pub(crate) struct Compiled {
    /// They permit something where a principal meets a condition.
    pub(crate) permits: CompiledPolicySet,
    /// They permit something where nothing is asked about.
    pub(crate) within: CompiledPolicySet,
}

/// Compiles a question.
///
/// # Errors
/// What Cedar does not take.
pub(crate) fn compile(question: &SymbolicQuestion) -> Result<Compiled, String> {
    let (schema, _warnings) =
        Schema::from_cedarschema_str(&question.schema).map_err(|error| error.to_string())?;
    let is_meant = |env: &RequestEnv| {
        env.action().id().unescaped() == SymbolicQuestion::ACTION
            && env.principal().to_string() == question.principal
    };
    let mut envs = schema.request_envs().filter(is_meant);
    let (Some(env), None) = (envs.next(), envs.next()) else {
        return Err("the question is not about one type of principals and resources".to_owned());
    };
    let compile = |texts: &[String]| {
        let mut policies = PolicySet::new();
        for (index, text) in texts.iter().enumerate() {
            let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let id = PolicyId::new(format!("condition {index}"));
            let policy = Policy::from_json(Some(id), json).map_err(|error| error.to_string())?;
            policies.add(policy).map_err(|error| error.to_string())?;
        }
        CompiledPolicySet::compile(&policies, &env, &schema).map_err(|error| describe(&error))
    };
    Ok(Compiled {
        permits: compile(&question.permits)?,
        within: compile(&question.within)?,
    })
}

/// An error with all that it is made of.
pub(crate) fn describe(error: &cedar_policy_symcc::err::Error) -> String {
    let mut told = error.to_string();
    if let cedar_policy_symcc::err::Error::PolicyNotWellTyped { errs } = error {
        for error in errs {
            told.push_str(&format!("; {error}"));
        }
    }
    told
}

/// The principal of `env`, and the entities in which it exists.
///
/// # Errors
/// What cannot be written down.
pub(crate) fn read_model(env: &Env) -> Result<SymbolicModel, String> {
    let principal = env.request.principal();
    let principal = principal.ok_or("the solver names no principal")?;
    let name = |uid: &EntityUid| json!({ "type": uid.type_name().to_string(), "id": uid.id().unescaped() });
    let mut entities = Vec::new();
    for entity in env.entities.iter() {
        let uid = entity.uid();
        let json = entity.to_json_value().map_err(|error| error.to_string())?;
        let parents = env.entities.ancestors(&uid).into_iter().flatten();
        entities.push(json!({
            "uid": name(&uid),
            "attrs": json.get("attrs").cloned().unwrap_or_else(|| json!({})),
            "parents": parents.map(name).collect::<Vec<_>>(),
        }));
    }
    Ok(SymbolicModel {
        principal: Principal::new(
            principal.type_name().to_string(),
            principal.id().unescaped(),
        ),
        entities,
    })
}
