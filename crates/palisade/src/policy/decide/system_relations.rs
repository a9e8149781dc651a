//! Whether relations of the engine's own may be read: their rows tell of what filters and masks do not reach, so that a
//! permit of everything does not reach them.
//!
//! Such a relation is read by a permit of `select` whose scope names it. Its columns and rows are decided as those of tables,
//! but nothing is masked in it: a column is plain or hidden. A relation that tells of names alone may also be read by a
//! session that sees everything of the catalog, unless a forbid says otherwise.

use cedar_policy::{Context, Effect, EntityUid};

use crate::policy::{
    cedar::{
        entities,
        entities::resource,
        failure::Failure,
        request::{Subject, Verdict, decide, decide_among},
        schema,
        schema::PolicyAction,
    },
    decide::{columns::decide_unforbidden_column, rows::decide_rows},
    obligation::{Caps, ColumnDecision, ColumnLevel, RelationDecision, RowFilter, Visibility},
    set::Loaded,
    sources::PolicySources,
};
use crate::{
    catalog::{Relation, SystemRelation, system_relations, system_schemas},
    dialect::Dialect,
    ident,
};

/// The relations of the engine's own that the texts may name: all whose names, or their columns', stand in one of them.
pub(crate) fn named_in(
    sources: &PolicySources,
    dialect: Dialect,
) -> impl Iterator<Item = &'static SystemRelation> {
    let begins = |text: &&str| {
        let mut schemas = system_schemas(dialect).iter();
        schemas.any(|schema| text.contains(&format!("{schema}.")))
    };
    let texts: Vec<&str> = sources
        .policies
        .iter()
        .map(|file| file.text.as_str())
        .chain(sources.entities.as_deref())
        .chain(sources.classification.as_deref())
        .filter(begins)
        .collect();
    let is_named = |known: &&SystemRelation| {
        let uid = known.uid();
        // As it stands in a string.
        let written = uid.replace('"', "\\\"");
        [uid, written].iter().any(|name| {
            let ends = |text: &&str, at: usize| {
                let after = text.get(at + name.len()..).unwrap_or_default();
                after.starts_with(['"', '\'', '.'])
            };
            let names = |text: &&str| text.match_indices(name).any(|(at, _)| ends(text, at));
            texts.iter().any(names)
        })
    };
    let mut named: Vec<_> = match texts.is_empty() {
        true => Vec::new(),
        false => system_relations(dialect).filter(is_named).collect(),
    };
    // The order of their ids.
    named.sort_by_key(|known| (&known.schema, &known.name));
    named.into_iter()
}

/// Whether one of `policies` names `resource` in its scope.
pub(in crate::policy) fn is_named(
    loaded: &Loaded,
    policies: &[String],
    resource: &EntityUid,
) -> bool {
    let mut named = policies.iter().filter_map(|id| loaded.named.get(id));
    named.any(|named| named.contains(resource))
}

/// Hides columns of one of the engine's own relations: those that would be masked or have not been reviewed, and secrets
/// among other things unless a permit names the column.
pub(in crate::policy) fn hide_unreviewed(
    loaded: &Loaded,
    relation: &Relation,
    known: &SystemRelation,
    columns: &mut [ColumnDecision],
) -> Result<(), Failure> {
    for (index, (column, decided)) in relation.columns.iter().zip(columns).enumerate() {
        let is_secret = known.secrets.iter().any(|secret| *secret == *column.key);
        let uid = resource("Column", &column.uid)?;
        let is_shown = match &decided.level {
            ColumnLevel::Plain => {
                relation.is_reviewed(index)
                    && (!is_secret || is_named(loaded, &decided.policies, &uid))
            }
            ColumnLevel::Masked(_) | ColumnLevel::Hidden => false,
        };
        if !is_shown {
            decided.level = ColumnLevel::Hidden;
        }
    }
    Ok(())
}

/// What forbids leave of a relation that tells of names alone, to a session from which the catalog keeps nothing. None if one is
/// of the relation.
pub(in crate::policy) fn decide_name_relation(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<Option<RelationDecision>, Failure> {
    let table = resource("Table", &relation.uid)?;
    if is_forbidden(&decide(
        loaded,
        subject,
        PolicyAction::Select,
        relation,
        table,
    )?) {
        return Ok(None);
    }
    let mut columns = Vec::with_capacity(relation.columns.len());
    for (index, column) in relation.columns.iter().enumerate() {
        let mut decided = if loaded.policies.forbids(PolicyAction::ReadPlain) {
            decide_unforbidden_column(loaded, subject, relation, &column.uid)?
        } else {
            ColumnDecision {
                level: ColumnLevel::Plain,
                policies: Vec::new(),
            }
        };
        if decided.level != ColumnLevel::Plain || !relation.is_reviewed(index) {
            decided.level = ColumnLevel::Hidden;
        }
        columns.push(decided);
    }
    let rows = if loaded.policies.forbids(PolicyAction::See) {
        decide_rows(loaded, subject, relation, PolicyAction::See)?.unforbidden
    } else {
        RowFilter::Everything
    };
    Ok(Some(RelationDecision {
        visibility: Visibility::Selectable,
        columns,
        rows,
        caps: Caps::default(),
        policies: Vec::new(),
        message: None,
        has_hidden_children: false,
        past: None,
    }))
}

/// Whether no forbid reaches a relation that tells of names alone and that no policy names.
pub(in crate::policy) fn is_unforbidden(
    loaded: &Loaded,
    subject: &Subject,
    known: &SystemRelation,
) -> Result<bool, Failure> {
    for action in [PolicyAction::Select, PolicyAction::ReadPlain] {
        if loaded.policies.forbids(action)
            && is_forbidden(&ask_system_relation(
                loaded,
                subject,
                known,
                action,
                subject.context.clone(),
            )?)
        {
            return Ok(false);
        }
    }
    // Its rows have no type, so there is no request about them.
    let schema = resource("Schema", &schema::schema_id(&loaded.catalog, &known.schema))?;
    let reaches = |literals: Vec<EntityUid>| literals.contains(&schema);
    Ok(loaded
        .policies
        .for_action(PolicyAction::See)
        .is_some_and(|policies| {
            let mut forbids = policies.policies().filter(|p| p.effect() == Effect::Forbid);
            !forbids.any(|forbid| reaches(forbid.entity_literals()))
        }))
}

fn is_forbidden(verdict: &Verdict) -> bool {
    // Cedar names policies in a denial only if they forbid.
    !verdict.permitted && !verdict.policies.is_empty()
}

/// What policies say of selecting from, or of the columns of, a relation that none of them names.
pub(in crate::policy) fn ask_system_relation(
    loaded: &Loaded,
    subject: &Subject,
    known: &SystemRelation,
    action: PolicyAction,
    context: Context,
) -> Result<Verdict, Failure> {
    // What no policy names is told apart by nothing.
    let name = known.columns.first().map_or("", String::as_str);
    let column = ident::qualify([known.schema.as_str(), known.name.as_str(), name]);
    let added = entities::system_entities(&loaded.catalog, known, &column)
        .map_err(|error| Failure::new(error.message))?;
    let entities = entities::add(&subject.entities, &added, &loaded.schemas.fixed)?;
    let asked = match action {
        PolicyAction::ReadPlain => resource("Column", &column)?,
        _ => resource("Table", &known.uid())?,
    };
    decide_among(loaded, subject, action, asked, &entities, context)
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

    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        catalog::{Catalog, system_relation},
        policy::{
            ColumnFlow, PolicyErrors, PolicySet,
            tests::fixture::{READ_ALL, agent, sources, table},
        },
    };

    const ACTIVITY: &str = "permit(principal == Agent::\"bot\", action == Action::\"select\", resource == Table::\"pg_catalog.pg_stat_activity\");";

    fn load(policies: &str) -> Result<PolicySet, PolicyErrors> {
        let mut sources = sources(policies);
        sources.classification = None;
        let mut tables = table("tickets", &["id", "title"]);
        tables.schema = "public".to_owned();
        let catalog = Catalog::builder(Dialect::Postgres).relation(tables);
        let catalog = catalog.build().unwrap();
        let named = named_in(&sources, Dialect::Postgres);
        let catalog = Arc::new(catalog.with_system(named));
        PolicySet::load(&sources, &catalog, &ColumnFlow::default())
    }

    fn set(policies: &str) -> PolicySet {
        load(policies).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// What is decided about a relation that the policies name.
    fn decision(policies: &str, who: &str, name: &str) -> Arc<RelationDecision> {
        let set = set(policies);
        let relation = set.catalog().find("pg_catalog", name).unwrap().id;
        set.session(&agent(who)).relation(relation).unwrap()
    }

    /// Whether rows of `pg_stat_activity` may be read.
    fn reads(policies: &str, who: &str) -> bool {
        let decision = decision(policies, who, "pg_stat_activity");
        decision.visibility == Visibility::Selectable
    }

    fn levels(policies: &str, who: &str, name: &str, columns: &[&str]) -> Vec<ColumnLevel> {
        let set = set(policies);
        let relation = set.catalog().find("pg_catalog", name).unwrap();
        let decision = set.session(&agent(who)).relation(relation.id).unwrap();
        let level = |column: &&str| {
            let index = relation.position(column).unwrap();
            decision.columns[usize::from(index)].level.clone()
        };
        columns.iter().map(level).collect()
    }

    #[test]
    fn a_permit_must_name_it_in_its_scope() {
        let all = "permit(principal, action, resource);";
        assert!(reads(&format!("{READ_ALL}{ACTIVITY}"), "bot"));
        assert!(!reads(&format!("{READ_ALL}{ACTIVITY}"), "other"));
        for other in [
            "permit(principal, action == Action::\"select\", resource) when { resource == Table::\"pg_catalog.pg_stat_activity\" };",
            "permit(principal, action == Action::\"select\", resource in Table::\"pg_catalog.pg_stat_activity\");",
            "permit(principal, action == Action::\"select\", resource in Schema::\"pg_catalog\") unless { resource == Table::\"pg_catalog.pg_stat_activity\" };",
            "permit(principal, action == Action::\"discover\", resource == Table::\"pg_catalog.pg_stat_activity\");",
        ] {
            let decision = decision(&format!("{all}{other}"), "bot", "pg_stat_activity");
            assert_eq!(decision.visibility, Visibility::Absent, "{other}");
            assert!(decision.policies.is_empty(), "{other}");
        }
    }

    #[test]
    fn forbids_win_however_they_reach_it() {
        for scope in [
            "principal, action == Action::\"select\", resource == Table::\"pg_catalog.pg_stat_activity\"",
            "principal, action == Action::\"select\", resource in Schema::\"pg_catalog\"",
            "principal, action, resource in Database::\"public\"",
            "principal == Agent::\"bot\", action == Action::\"select\", resource",
            "principal in Role::\"analyst\", action, resource in Schema::\"pg_catalog\"",
        ] {
            let policies = format!("{READ_ALL}{ACTIVITY}@id(\"no\") forbid({scope});");
            let decision = decision(&policies, "bot", "pg_stat_activity");
            assert_eq!(decision.visibility, Visibility::Absent, "{scope}");
            assert_eq!(decision.policies, ["no"], "{scope}");
        }
        let other =
            "forbid(principal == Agent::\"x\", action, resource in Schema::\"pg_catalog\");";
        assert!(reads(&format!("{READ_ALL}{ACTIVITY}{other}"), "bot"));
        let kind = "forbid(principal, action == Action::\"select\", resource) when { resource.kind == \"system\" };";
        assert!(!reads(&format!("{READ_ALL}{ACTIVITY}{kind}"), "bot"));
    }

    #[test]
    fn columns_are_plain_or_not_there() {
        let columns = ["pid", "query"];
        let of = |more: &str| {
            let policies = format!("{READ_ALL}{ACTIVITY}{more}");
            levels(&policies, "bot", "pg_stat_activity", &columns)
        };
        let (plain, hidden) = (ColumnLevel::Plain, ColumnLevel::Hidden);
        assert_eq!(of(""), [plain.clone(), plain.clone()]);
        for more in [
            "forbid(principal, action == Action::\"read_plain\", resource == Column::\"pg_catalog.pg_stat_activity.query\");",
            "forbid(principal, action in Action::\"read\", resource == Column::\"pg_catalog.pg_stat_activity.query\");",
            "@mask(\"fixed(x)\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"pg_catalog.pg_stat_activity.query\");",
        ] {
            assert_eq!(of(more), [plain.clone(), hidden.clone()], "{more}");
        }
        let masked = "@mask(\"last(4)\") forbid(principal, action == Action::\"read_plain\", resource in Schema::\"pg_catalog\");";
        assert_eq!(of(masked), [hidden.clone(), hidden]);
        let set = set(&format!("{READ_ALL}{ACTIVITY}{masked}"));
        let warnings = set.warnings();
        let of_mask = |w: &&crate::policy::PolicyProblem| w.message.contains("nothing is masked");
        assert_eq!(warnings.iter().filter(of_mask).count(), 1, "{warnings:?}");
    }

    #[test]
    fn columns_of_secrets_are_named_too() {
        let roles = "permit(principal, action == Action::\"select\", resource == Table::\"pg_catalog.pg_roles\");";
        let named = "permit(principal, action == Action::\"read_plain\", resource == Column::\"pg_catalog.pg_roles.rolconfig\");";
        let (plain, hidden) = (ColumnLevel::Plain, ColumnLevel::Hidden);
        // A table of which the session does not see everything.
        let kept = "forbid(principal, action == Action::\"select\", resource == Table::\"public.tickets\");";
        let of = |more: &str| {
            let policies = format!("{READ_ALL}{kept}{roles}{more}");
            levels(&policies, "bot", "pg_roles", &["rolname", "rolconfig"])
        };
        assert_eq!(of(""), [plain.clone(), hidden]);
        assert_eq!(of(named), [plain.clone(), plain]);
    }

    #[test]
    fn rows_are_those_of_a_permit_of_see() {
        let read = "permit(principal, action in [Action::\"select\", Action::\"read\"], resource);";
        let seen = |more: &str| {
            let policies = format!("{read}{ACTIVITY}{more}");
            decision(&policies, "bot", "pg_stat_activity").rows.clone()
        };
        assert_eq!(seen(""), RowFilter::Nothing);
        assert_eq!(
            seen("permit(principal, action == Action::\"see\", resource);"),
            RowFilter::Everything
        );
        let own = "permit(principal, action == Action::\"see\", resource is row::pg_catalog::pg_stat_activity);";
        assert_eq!(seen(own), RowFilter::Everything);
        let mine = "permit(principal, action == Action::\"see\", resource) when { resource has title && resource.title == \"x\" };";
        assert_eq!(seen(mine), RowFilter::Nothing);
        let warned = set(&format!("{read}{ACTIVITY}"));
        let unseen =
            |w: &crate::policy::PolicyProblem| w.message.contains("no principal sees a row");
        assert!(warned.warnings().iter().any(unseen));
    }

    #[test]
    fn caps_and_approvals_hold() {
        let capped = ACTIVITY.replace("permit(", "@id(\"few\") @max_rows(\"7\") permit(");
        let decision = decision(&format!("{READ_ALL}{capped}"), "bot", "pg_stat_activity");
        assert_eq!(decision.caps.rows, Some(7));
        assert!(decision.policies.contains(&"few".to_owned()));
    }

    #[test]
    fn conditions_on_the_context_hold_as_for_tables() {
        let when = |condition: &str| {
            let permit = ACTIVITY.replace(");", &format!(") when {{ {condition} }};"));
            set(&format!("{READ_ALL}{permit}"))
        };
        let reads = |set: &PolicySet, session: &crate::session::Session| {
            let relation = set
                .catalog()
                .find("pg_catalog", "pg_stat_activity")
                .unwrap();
            let view = set.session(session);
            let decision = view.relation(relation.id).unwrap();
            let reads = decision.visibility == Visibility::Selectable;
            (reads, view.depends_on_time())
        };
        let template = when("context has template && context.template == \"who\"");
        let running = agent("bot").running("who", Vec::new());
        assert_eq!(reads(&template, &running), (true, false));
        assert_eq!(reads(&template, &agent("bot")), (false, false));
        let timed = when("context has time && context.time < datetime(\"1970-01-02\")");
        for (seconds, expected) in [(1, true), (100_000, false)] {
            let session = agent("bot").at(Duration::from_secs(seconds));
            assert_eq!(reads(&timed, &session), (expected, true));
        }
        assert_eq!(reads(&timed, &agent("bot")), (false, false));
        // What is seen of everything else may be another matter at another time.
        let kept =
            "forbid(principal, action == Action::\"select\", resource == Table::\"public.tickets\")
             when { context has time && context.time < datetime(\"1970-01-02\") };";
        let named = "permit(principal == Agent::\"x\", action == Action::\"select\", resource == Table::\"pg_catalog.pg_class\");";
        let known = system_relation(Dialect::Postgres, "pg_catalog", "pg_namespace").unwrap();
        let set = set(&format!("{READ_ALL}{kept}{named}"));
        let class = set.catalog().find("pg_catalog", "pg_class").unwrap().id;
        for (seconds, expected) in [(1, false), (100_000, true)] {
            let session = agent("bot").at(Duration::from_secs(seconds));
            let view = set.session(&session);
            let decision = view.relation(class).unwrap();
            assert_eq!(decision.visibility == Visibility::Selectable, expected);
            assert!(view.depends_on_time());
            let view = set.session(&session);
            assert_eq!(view.reads_system(known).unwrap(), expected);
            assert!(view.depends_on_time());
        }
    }

    #[test]
    fn names_are_read_by_whoever_sees_everything() {
        let known = |name| system_relation(Dialect::Postgres, "pg_catalog", name).unwrap();
        let reads = |policies: &str, name| {
            let set = set(policies);
            let view = set.session(&agent("bot"));
            match set.catalog().find("pg_catalog", name) {
                Some(relation) => {
                    let decision = view.relation(relation.id).unwrap();
                    decision.visibility == Visibility::Selectable
                }
                None => view.reads_system(known(name)).unwrap(),
            }
        };
        assert!(reads(READ_ALL, "pg_class"));
        for name in [
            "pg_authid",
            "pg_stats",
            "pg_stat_activity",
            "pg_settings",
            "pg_largeobject",
        ] {
            assert!(
                !reads("permit(principal, action, resource);", name),
                "{name}"
            );
        }
        for (forbid, class, namespace) in [
            (
                "principal, action == Action::\"select\", resource == Table::\"public.tickets\"",
                false,
                false,
            ),
            (
                "principal, action == Action::\"select\", resource == Table::\"pg_catalog.pg_class\"",
                false,
                true,
            ),
            (
                "principal, action == Action::\"select\", resource in Schema::\"pg_catalog\"",
                false,
                false,
            ),
            (
                "principal, action == Action::\"read_plain\", resource in Schema::\"pg_catalog\"",
                true,
                false,
            ),
            (
                "principal, action == Action::\"see\", resource in Schema::\"pg_catalog\"",
                false,
                false,
            ),
            (
                "principal == Agent::\"x\", action == Action::\"select\", resource in Schema::\"pg_catalog\"",
                true,
                true,
            ),
            (
                "principal, action in Action::\"read\", resource == Column::\"pg_catalog.pg_class.reltuples\"",
                true,
                true,
            ),
        ] {
            let policies = format!("{READ_ALL}forbid({forbid});");
            assert_eq!(reads(&policies, "pg_namespace"), namespace, "{forbid}");
            // One that another's permit names is decided about in the same way.
            if !forbid.contains("see") && !forbid.contains("read_plain") {
                let named = "permit(principal == Agent::\"x\", action == Action::\"select\", resource == Table::\"pg_catalog.pg_class\");";
                assert_eq!(
                    reads(&format!("{policies}{named}"), "pg_class"),
                    class,
                    "{forbid}"
                );
            }
        }
        // It is no part of what is listed, whoever is permitted it by name.
        let named = "permit(principal == Agent::\"x\", action == Action::\"select\", resource == Table::\"pg_catalog.pg_class\");";
        let set = set(&format!("{READ_ALL}{named}"));
        let listed = |who| set.session(&agent(who)).discoverable().unwrap().len();
        assert_eq!((listed("bot"), listed("x")), (1, 2));
        let forbid = "forbid(principal, action in Action::\"read\", resource == Column::\"pg_catalog.pg_class.reltuples\");";
        let of = levels(
            &format!("{READ_ALL}{forbid}"),
            "bot",
            "pg_class",
            &["relname", "reltuples"],
        );
        assert_eq!(of, [ColumnLevel::Plain, ColumnLevel::Hidden]);
    }

    #[test]
    fn permits_that_reach_none_are_warned_of() {
        let warned = |scope: &str| {
            let set = set(&format!("{READ_ALL}permit({scope});"));
            let of_these =
                |w: &&crate::policy::PolicyProblem| w.message.contains("permits no relation");
            set.warnings().iter().filter(of_these).count()
        };
        for (scope, expected) in [
            (
                "principal, action == Action::\"select\", resource in Schema::\"pg_catalog\"",
                1,
            ),
            (
                "principal, action == Action::\"select\", resource is Table in Schema::\"information_schema\"",
                1,
            ),
            (
                "principal, action == Action::\"select\", resource in Table::\"pg_catalog.pg_locks\"",
                1,
            ),
            (
                "principal, action == Action::\"select\", resource == Table::\"pg_catalog.pg_locks\"",
                0,
            ),
            (
                "principal, action == Action::\"select\", resource in Schema::\"public\"",
                0,
            ),
            (
                "principal, action == Action::\"call\", resource in Schema::\"pg_catalog\"",
                0,
            ),
            ("principal, action, resource in Schema::\"pg_catalog\"", 0),
        ] {
            assert_eq!(warned(scope), expected, "{scope}");
        }
    }

    #[test]
    fn unknown_names_do_not_load() {
        for (name, help) in [
            (
                "pg_catalog.pg_stat_activty",
                Some("pg_catalog.pg_stat_activity"),
            ),
            ("pg_catalog.nothing_like_it_at_all", None),
            ("pg_toast.pg_toast_1", None),
        ] {
            let permit = format!(
                "permit(principal, action == Action::\"select\", resource == Table::\"{name}\");"
            );
            let errors = load(&format!("{READ_ALL}{permit}"))
                .unwrap_err()
                .to_string();
            assert!(errors.contains("is not in the catalog"), "{errors}");
            let helps = help.is_none_or(|help| errors.contains(&format!("Table::\"{help}\"")));
            assert!(helps, "{errors}");
        }
        let column = "forbid(principal, action == Action::\"read_plain\", resource == Column::\"pg_catalog.pg_stat_activity.qury\");";
        let errors = load(column).unwrap_err().to_string();
        assert!(errors.contains("pg_stat_activity.query"), "{errors}");
    }

    #[test]
    fn a_catalog_holds_what_is_named_and_no_more() {
        let set = set(&format!("{READ_ALL}{ACTIVITY}"));
        let catalog = Catalog::clone(set.catalog());
        let system = |catalog: &Catalog| {
            let of_engine = catalog.relations().iter().filter(|r| r.system.is_some());
            of_engine.map(|r| r.uid.clone()).collect::<Vec<_>>()
        };
        assert_eq!(system(&catalog), ["pg_catalog.pg_stat_activity"]);
        let version = catalog.version().to_owned();
        assert_eq!(
            Catalog::from_snapshot(&catalog.to_snapshot())
                .unwrap()
                .version(),
            version
        );
        let other = system_relation(Dialect::Postgres, "pg_catalog", "pg_locks").into_iter();
        let catalog = catalog.with_system(other);
        assert_eq!(system(&catalog), ["pg_catalog.pg_locks"]);
        assert!(catalog.find("pg_catalog", "pg_stat_activity").is_none());
        assert_eq!(catalog.version(), version);
    }

    #[test]
    fn a_column_without_a_review_is_not_there() {
        let column = |name: &str| {
            crate::policy::tests::fixture::column(name, crate::catalog::TypeClass::Text)
        };
        let catalog = Catalog::builder(Dialect::Postgres).system_relation(
            "pg_catalog",
            "pg_stat_activity",
            vec![column("pid"), column("secret_of_a_later_version")],
        );
        let mut sources = sources(&format!("{READ_ALL}{ACTIVITY}"));
        sources.classification = None;
        let catalog = catalog.build().unwrap();
        let catalog = catalog.with_system(named_in(&sources, Dialect::Postgres));
        let set = PolicySet::load(&sources, &Arc::new(catalog), &ColumnFlow::default()).unwrap();
        let relation = set
            .catalog()
            .find("pg_catalog", "pg_stat_activity")
            .unwrap();
        let decision = set.session(&agent("bot")).relation(relation.id).unwrap();
        let plain = |(_, decided): &(_, &ColumnDecision)| decided.level == ColumnLevel::Plain;
        let shown = relation.columns.iter().zip(&decision.columns).filter(plain);
        let shown: Vec<_> = shown.map(|(column, _)| &*column.name).collect();
        assert_eq!(shown, ["pid"]);
        // What other versions have can be named all the same.
        assert!(relation.position("query").is_some());
    }
}
