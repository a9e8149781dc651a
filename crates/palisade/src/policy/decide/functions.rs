//! Whether a function may be called.

use cedar_policy::Context;

use crate::catalog::functions::FunctionDef;
use crate::policy::{
    cedar::{
        entities,
        entities::resource,
        failure::Failure,
        request::{Subject, Verdict, decide_among},
        schema::PolicyAction,
    },
    decide::system_relations,
    set::Loaded,
};

/// What was decided about a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionDecision {
    /// Whether it may be called.
    pub permitted: bool,
    /// Ids of the policies that determined it, sorted.
    pub policies: Vec<String>,
}

/// What is decided about calling `def`. A function that reaches beyond its arguments needs a permit whose scope names it.
pub(in crate::policy) fn decide_call(
    loaded: &Loaded,
    subject: &Subject,
    def: &FunctionDef,
) -> Result<FunctionDecision, Failure> {
    if loaded.catalog.function(&def.uid) != Some(def) {
        return Ok(FunctionDecision {
            permitted: false,
            policies: Vec::new(),
        });
    }
    let function = resource("Function", &def.uid)?;
    let verdict = ask_call(loaded, subject, def, subject.context.clone())?;
    let named = || system_relations::is_named(loaded, &verdict.policies, &function);
    let permitted = verdict.permitted && (!def.safety.needs_named_permit() || named());
    Ok(FunctionDecision {
        permitted,
        policies: verdict.policies,
    })
}

/// What policies say of calling `def` where `context` holds.
pub(in crate::policy) fn ask_call(
    loaded: &Loaded,
    subject: &Subject,
    def: &FunctionDef,
    context: Context,
) -> Result<Verdict, Failure> {
    let own = entities::function_entities(&loaded.catalog, def)
        .map_err(|error| Failure::new(error.message))?;
    let entities = entities::add(&subject.entities, &own, &loaded.schemas.fixed)?;
    let function = resource("Function", &def.uid)?;
    decide_among(
        loaded,
        subject,
        PolicyAction::Call,
        function,
        &entities,
        context,
    )
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use crate::{
        catalog::functions,
        dialect::Dialect,
        policy::tests::fixture::{agent, set},
    };

    #[test]
    fn unsafe_functions_need_a_permit_that_names_them() {
        let find = |name| functions::registry(Dialect::Sqlite).get(name).unwrap();
        let set = set(
            "permit(principal, action == Action::\"call\", resource);
             permit(principal, action == Action::\"call\", resource == Function::\"randomblob\");
             permit(principal, action == Action::\"call\", resource in Function::\"zeroblob\");
             permit(principal, action == Action::\"call\", resource) when { resource == Function::\"load_extension\" };
             permit(principal, action == Action::\"call\", resource == Function::\"changes\");
             @id(\"no\") forbid(principal, action == Action::\"call\", resource == Function::\"changes\");",
        );
        let view = set.session(&agent("bot"));
        let permitted = |name| view.function(find(name)).unwrap().permitted;
        assert!(permitted("lower") && permitted("random") && permitted("randomblob"));
        assert!(permitted("zeroblob") && permitted("load_extension") && !permitted("changes"));
        assert_eq!(view.function(find("changes")).unwrap().policies, ["no"]);
    }

    #[test]
    fn conditions_name_functions_where_they_admit_no_others() {
        let find = |name| functions::registry(Dialect::Sqlite).get(name).unwrap();
        for (condition, is_named) in [
            ("resource == Function::\"zeroblob\"", true),
            ("Function::\"zeroblob\" == resource", true),
            (
                "resource in [Function::\"zeroblob\", Function::\"randomblob\"]",
                true,
            ),
            (
                "[Function::\"zeroblob\", Function::\"lower\"].contains(resource)",
                true,
            ),
            (
                "resource == Function::\"lower\" || resource == Function::\"zeroblob\"",
                true,
            ),
            (
                "resource.safety != \"file\" && resource == Function::\"zeroblob\"",
                true,
            ),
            (
                "resource == Function::\"zeroblob\" || resource.safety == \"resource\"",
                false,
            ),
            ("resource != Function::\"lower\"", false),
            ("!(resource == Function::\"lower\")", false),
            ("resource in Schema::\"main\"", false),
            (
                "if resource == Function::\"zeroblob\" then true else true",
                false,
            ),
        ] {
            let set = set(&format!(
                "permit(principal, action == Action::\"call\", resource) when {{ {condition} }};"
            ));
            let view = set.session(&agent("bot"));
            let permitted = view.function(find("zeroblob")).unwrap().permitted;
            assert_eq!(permitted, is_named, "{condition}");
        }
        let set = set(
            "permit(principal, action == Action::\"call\", resource) unless { resource == Function::\"zeroblob\" };",
        );
        assert!(
            !set.session(&agent("bot"))
                .function(find("zeroblob"))
                .unwrap()
                .permitted
        );
    }

    #[test]
    fn functions_are_classified_for_policies() {
        let find = |name| functions::registry(Dialect::Sqlite).get(name).unwrap();
        let set = set(
            "permit(principal, action == Action::\"call\", resource in Schema::\"main\") when { resource.safety == \"pure\" };",
        );
        let view = set.session(&agent("bot"));
        assert!(view.function(find("lower")).unwrap().permitted);
        assert!(view.function(find("->>")).unwrap().permitted);
        assert!(!view.function(find("random")).unwrap().permitted);
    }
}
