//! Which rows of a relation a principal sees, may change or may add: the row policies, evaluated with
//! the row unknown.

use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

use cedar_policy::{Effect, EntityTypeName, PartialEntityUid, PartialRequest, PolicyId};

use crate::catalog::Relation;
use crate::policy::{
    cedar::{
        entities::{action_uid, resource, row_ancestors},
        failure::Failure,
        request::{Subject, decide},
        residual::{Untranslatable, translate},
        row_verdict::Rows,
        schema,
        schema::PolicyAction,
        seen_attribute::find_seen_attribute,
    },
    inheritance,
    obligation::{
        Caps, ColumnDecision, ColumnLevel, Operand, Predicate, ReferredRows, RelationDecision,
        RowFilter, Visibility,
    },
    set::Loaded,
};

/// The rows of `relation` to which `subject` may do `action`: `see`, `change` or `add`.
///
/// A filter is always `And[Or[permits…], Not(forbid)…]`, with one element a policy and single
/// elements kept, so that what a dialect adds to a policy's condition finds it.
///
/// # Errors
/// If a row policy fails to evaluate whatever the row.
pub(in crate::policy) fn decide_rows(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    action: PolicyAction,
) -> Result<Rows, Failure> {
    decide_rows_below(loaded, subject, relation, action, 0)
}

/// How many keys, one after the other, are followed to a row that is seen or not.
pub(in crate::policy) const KEYS: usize = 8;

/// The same, where `below` keys led to `relation`.
fn decide_rows_below(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    action: PolicyAction,
    below: usize,
) -> Result<Rows, Failure> {
    let find = || find_rows(loaded, subject, relation, action, below);
    match below {
        0 => subject.remember_rows(action, relation.id, find),
        // How far it is followed depends on where one began.
        _ => find(),
    }
}

fn find_rows(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    action: PolicyAction,
    below: usize,
) -> Result<Rows, Failure> {
    let row_type: EntityTypeName = schema::row_type(relation).parse().map_err(Failure::new)?;
    let ancestors = row_ancestors(&loaded.catalog, &loaded.tags, relation);
    let uids = ancestors.iter().map(|(kind, id)| resource(kind, id));
    let uids: Vec<_> = uids.collect::<Result<_, _>>()?;
    let policies = loaded.policies.about_rows(action, &row_type, &uids)?;
    if policies.is_empty() {
        return Ok(combine(loaded, Vec::new()));
    }
    let schema = loaded.schemas.of_rows(&loaded.catalog, relation)?;
    let request = PartialRequest::new(
        PartialEntityUid::from_concrete(subject.uid.clone()),
        action_uid(action)?,
        PartialEntityUid::new(row_type, None),
        Some(subject.context.clone()),
        &schema,
    )
    .map_err(Failure::new)?;
    let response = policies
        .tpe(&request, &subject.partial, &schema)
        .map_err(Failure::new)?;

    let failed = sort_ids(response.error_permits().chain(response.error_forbids()));
    if !failed.is_empty() {
        let detail = format!("row policies fail for every row: {}", failed.join(", "));
        return Err(Failure {
            detail,
            policies: failed,
        });
    }
    let mut conditions: Vec<(String, Effect, Result<Predicate, Untranslatable>)> = Vec::new();
    // Policies about rows to which these refer.
    let followed = RefCell::new(BTreeSet::new());
    for (ids, effect) in [
        (sort_ids(response.true_permits()), Effect::Permit),
        (sort_ids(response.true_forbids()), Effect::Forbid),
    ] {
        conditions.extend(
            ids.into_iter()
                .map(|id| (id, effect, Ok(Predicate::Constant(true)))),
        );
    }
    for residual in response.residual_policies() {
        let condition = translate(
            &residual,
            relation,
            &ancestors,
            loaded.catalog.dialect(),
            &|name| {
                let (meant, by) = refers_to_seen(loaded, subject, relation, name, below)?;
                followed.borrow_mut().extend(by);
                Some(meant)
            },
        );
        conditions.push((residual.id().to_string(), residual.effect(), condition));
    }
    conditions.sort_by(|left, right| left.0.cmp(&right.0));
    let mut rows = combine(loaded, conditions);
    rows.policies.extend(followed.into_inner());
    Ok(rows)
}

/// What the attribute `name` of rows of `relation` means, which is no column: that the row to which a key refers is seen.
///
/// None if there is no such attribute, or nothing can be said of those rows. The policies are those that decided about them.
fn refers_to_seen(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    name: &str,
    below: usize,
) -> Option<(Predicate, Vec<String>)> {
    let attribute = find_seen_attribute(&loaded.catalog, relation, name)?;
    if below >= KEYS {
        return None;
    }
    let (rows, policies) = seen_rows(loaded, subject, attribute.parent, below + 1)?;
    let meant = match rows {
        RowFilter::Nothing => Predicate::Constant(false),
        // None is hidden.
        RowFilter::Everything => Predicate::Has(attribute.column),
        rows @ RowFilter::Where(_) => Predicate::RefersToSeen(
            Operand::Column(attribute.column),
            Arc::new(ReferredRows {
                table: attribute.parent.id,
                key: attribute.key,
                rows,
            }),
        ),
    };
    Some((meant, policies))
}

/// The rows of `relation` that are seen by whoever may select them, and no rows for anybody else.
///
/// None where a policy about them fails, or has no form in SQL: less would be seen than policy says, and a condition that looks for what
/// is not seen would find more.
fn seen_rows(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    below: usize,
) -> Option<(RowFilter, Vec<String>)> {
    let above = loaded.inheritance.ancestors(&loaded.catalog, relation);
    for table in std::iter::once(relation).chain(above) {
        let uid = resource("Table", &table.uid).ok()?;
        let select = decide(loaded, subject, PolicyAction::Select, table, uid).ok()?;
        if !(schema::has_entity(table) && select.permitted) {
            return Some((RowFilter::Nothing, select.policies));
        }
    }
    let action = PolicyAction::See;
    let found = decide_rows_of_relatives(loaded, subject, relation, action, below).ok()?;
    found.is_whole.then_some((found.rows, found.policies))
}

/// Rows of a relation with what its relatives say.
struct FoundRows {
    rows: RowFilter,
    policies: Vec<String>,
    /// Whether each policy about them has a form in SQL.
    is_whole: bool,
}

/// The rows of `relation` to which `action` applies, with what its relatives say, and the policies that determined them.
pub(in crate::policy) fn decide_rows_with_relatives(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    action: PolicyAction,
) -> Result<(RowFilter, Vec<String>), Failure> {
    let found = decide_rows_of_relatives(loaded, subject, relation, action, 0)?;
    Ok((found.rows, found.policies))
}

fn decide_rows_of_relatives(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    action: PolicyAction,
    below: usize,
) -> Result<FoundRows, Failure> {
    let of = |relation: &Relation, rows, policies: BTreeSet<String>| RelationDecision {
        visibility: Visibility::Selectable,
        columns: vec![
            ColumnDecision {
                level: ColumnLevel::Plain,
                policies: Vec::new()
            };
            relation.columns.len()
        ],
        rows,
        caps: Caps::default(),
        policies: policies.into_iter().collect(),
        message: None,
        has_hidden_children: false,
        past: None,
    };
    let (catalog, relatives) = (&loaded.catalog, &loaded.inheritance);
    let own = decide_rows_below(loaded, subject, relation, action, below)?;
    let mut is_whole = own.untranslatable.is_empty();
    let mut out = of(relation, own.filter, own.policies);
    for other in relatives.ancestors(catalog, relation) {
        let theirs = decide_rows_below(loaded, subject, other, action, below)?;
        is_whole &= theirs.untranslatable.is_empty();
        let theirs = of(other, theirs.filter, theirs.policies);
        inheritance::tighten(&mut out, relation, other, &theirs);
    }
    if loaded.policies.forbids(action) {
        for other in relatives.descendants(catalog, relation) {
            let theirs = decide_rows_below(loaded, subject, other, action, below)?;
            is_whole &= theirs.untranslatable.is_empty();
            let theirs = of(other, theirs.unforbidden, theirs.forbidding);
            inheritance::tighten(&mut out, relation, other, &theirs);
        }
    }
    Ok(FoundRows {
        rows: out.rows,
        policies: out.policies,
        is_whole,
    })
}

fn combine(
    loaded: &Loaded,
    conditions: Vec<(String, Effect, Result<Predicate, Untranslatable>)>,
) -> Rows {
    let mut permits = Vec::new();
    let mut forbids = Vec::new();
    let mut policies = BTreeSet::new();
    let mut forbidding = BTreeSet::new();
    let mut untranslatable = Vec::new();
    for (id, effect, condition) in conditions {
        let condition = match condition {
            Ok(Predicate::Constant(false)) => continue,
            Ok(condition) => condition,
            Err(why) => {
                untranslatable.push((id.clone(), effect, why));
                match effect {
                    Effect::Permit => continue,
                    Effect::Forbid => Predicate::Constant(true),
                }
            }
        };
        policies.insert(id.clone());
        let conditions = match effect {
            Effect::Permit => &mut permits,
            Effect::Forbid => {
                forbidding.insert(id);
                &mut forbids
            }
        };
        // What several policies say in the same words is asked of each row once.
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
    let unforbidden = if forbids.contains(&Predicate::Constant(true)) {
        RowFilter::Nothing
    } else if forbids.is_empty() {
        RowFilter::Everything
    } else {
        let not = |forbid: &Predicate| Predicate::Not(Box::new(forbid.clone()));
        RowFilter::Where(Predicate::And(forbids.iter().map(not).collect()))
    };
    let caps = loaded.demands(&policies).caps;
    let filter = if permits.is_empty() || forbids.contains(&Predicate::Constant(true)) {
        RowFilter::Nothing
    } else {
        if permits.contains(&Predicate::Constant(true)) {
            permits = vec![Predicate::Constant(true)];
        }
        if forbids.is_empty() && permits == [Predicate::Constant(true)] {
            RowFilter::Everything
        } else {
            let mut all = vec![Predicate::Or(permits)];
            all.extend(
                forbids
                    .into_iter()
                    .map(|forbid| Predicate::Not(Box::new(forbid))),
            );
            RowFilter::Where(Predicate::And(all))
        }
    };
    Rows {
        filter,
        unforbidden,
        forbidding,
        policies,
        caps,
        untranslatable,
    }
}

fn sort_ids<'a>(ids: impl Iterator<Item = &'a PolicyId>) -> Vec<String> {
    let mut ids: Vec<String> = ids.map(ToString::to_string).collect();
    ids.sort();
    ids
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

    use std::sync::Arc;

    use crate::{
        catalog::test_ddl,
        code::Code,
        policy::{
            ColumnFlow, PolicySet, PolicySources,
            obligation::{Comparison, Literal, Operand, Predicate, RowFilter},
            tests::fixture::{agent, load, relation_id, set, sources},
        },
        session::{Principal, Session},
    };

    const SELECT: &str = "permit(principal, action == Action::\"select\", resource);\n";
    const SEE: &str = "permit(principal, action == Action::\"see\", resource);\n";
    const TENANT: &str = "@id(\"tenant\") forbid(principal, action == Action::\"see\", resource is row::main::tickets)
        unless { principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant };\n";

    fn rows(policies: &str, who: &str, table: &str) -> RowFilter {
        let set = set(&format!("{SELECT}{policies}"));
        set.session(&agent(who))
            .relation(relation_id(table))
            .unwrap()
            .rows
            .clone()
    }

    fn equals(column: u16, value: i64) -> Predicate {
        Predicate::Compare(
            Operand::Column(column),
            Comparison::Equal,
            Operand::Literal(Literal::Integer(value)),
        )
    }

    #[test]
    fn no_permit_means_no_rows() {
        assert_eq!(rows("", "bot", "tickets"), RowFilter::Nothing);
        assert_eq!(rows(SEE, "bot", "tickets"), RowFilter::Everything);
    }

    #[test]
    fn permits_and_forbids_keep_their_shape() {
        let forbid = Predicate::Not(Box::new(Predicate::And(vec![
            Predicate::Has(1),
            equals(1, 42),
        ])));
        let expect = Predicate::And(vec![
            Predicate::Or(vec![Predicate::Constant(true)]),
            Predicate::Not(Box::new(forbid)),
        ]);
        assert_eq!(
            rows(&format!("{SEE}{TENANT}"), "bot", "tickets"),
            RowFilter::Where(expect)
        );
        assert_eq!(
            rows(&format!("{SEE}{TENANT}"), "bot", "customers"),
            RowFilter::Everything
        );
    }

    /// One policy for every table that has the column, and for no other.
    #[test]
    fn a_policy_may_speak_of_all_tables_with_a_column() {
        let tenant = "@id(\"tenant\") forbid(principal, action == Action::\"see\", resource in HasColumn::\"tenant_id\")
            unless { principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant };\n";
        let own = rows(&format!("{SEE}{TENANT}"), "bot", "tickets");
        assert_ne!(own, RowFilter::Everything);
        assert_eq!(rows(&format!("{SEE}{tenant}"), "bot", "tickets"), own);
        assert_eq!(
            rows(&format!("{SEE}{tenant}"), "officer", "tickets"),
            RowFilter::Nothing
        );
        assert_eq!(
            rows(&format!("{SEE}{tenant}"), "bot", "contacts"),
            RowFilter::Everything
        );
        let inside = "permit(principal, action == Action::\"see\", resource)
            unless { resource in HasColumn::\"tenant_id\" };\n";
        assert_eq!(rows(inside, "bot", "tickets"), RowFilter::Nothing);
        assert_eq!(rows(inside, "bot", "contacts"), RowFilter::Everything);
    }

    #[test]
    fn a_misspelt_column_or_tag_of_tables_is_an_error() {
        for (group, told) in [
            (
                "HasColumn::\"tenantid\"",
                "`HasColumn::\"tenantid\"` is not in the catalog",
            ),
            (
                "Tagged::\"tenant\"",
                "`Tagged::\"tenant\"` is not in the tags that tables have",
            ),
        ] {
            let policies =
                format!("forbid(principal, action == Action::\"see\", resource in {group});");
            let errors = load(&sources(&policies)).unwrap_err();
            assert!(errors.to_string().contains(told), "{errors}");
        }
    }

    #[test]
    fn a_condition_may_name_the_rows_of_another_relation() {
        let others = "permit(principal, action == Action::\"see\", resource) unless { resource is row::main::tickets };\n";
        assert_eq!(rows(others, "bot", "customers"), RowFilter::Everything);
        assert_eq!(rows(others, "bot", "tickets"), RowFilter::Nothing);
        let one = "permit(principal, action == Action::\"see\", resource is row::main::customers)
            unless { resource is row::main::tickets && resource.id == 1 };\n";
        assert_eq!(rows(one, "bot", "customers"), RowFilter::Everything);
        let named =
            "permit(principal, action == Action::\"see\", resource in Table::\"main.customers\")
            unless { resource is row::main::tickets };\n";
        assert_eq!(rows(named, "bot", "customers"), RowFilter::Everything);
    }

    #[test]
    fn permits_are_alternatives() {
        let permit = |id: &str, n: u8| {
            format!(
                "@id(\"{id}\") permit(principal, action == Action::\"see\", resource is row::main::tickets) when {{ resource.id == {n} }};\n"
            )
        };
        let got = rows(
            &format!("{}{}", permit("b", 2), permit("a", 1)),
            "bot",
            "tickets",
        );
        let expect = Predicate::And(vec![Predicate::Or(vec![equals(0, 1), equals(0, 2)])]);
        assert_eq!(got, RowFilter::Where(expect));
    }

    #[test]
    fn a_missing_attribute_matches_nothing() {
        assert_eq!(
            rows(&format!("{SEE}{TENANT}"), "officer", "tickets"),
            RowFilter::Nothing
        );
        assert_eq!(
            rows(&format!("{SEE}{TENANT}"), "stranger", "tickets"),
            RowFilter::Nothing
        );
        let permit = "permit(principal, action == Action::\"see\", resource is row::main::tickets)
            when { principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant };\n";
        assert_eq!(rows(permit, "officer", "tickets"), RowFilter::Nothing);
    }

    #[test]
    fn an_unknown_principal_without_its_required_attributes_sees_nothing() {
        let policies = format!(
            "{SELECT}{SEE}forbid(principal is User, action == Action::\"see\", resource is row::main::tickets)
             unless {{ principal.level == resource.id }};"
        );
        let view = set(&policies).session(&Session::new(Principal::new("User", "unknown")));
        assert_eq!(
            view.relation(relation_id("tickets")).unwrap().rows,
            RowFilter::Nothing
        );
        let policies = format!(
            "{SELECT}{SEE}forbid(principal is User, action == Action::\"select\", resource)
             unless {{ principal.level == 3 }};"
        );
        let view = set(&policies).session(&Session::new(Principal::new("User", "unknown")));
        let refused = view.relation(relation_id("tickets")).unwrap_err();
        assert_eq!(refused.code(), Code::PolicyEvaluationFailed);
        assert_eq!(refused.policies(), ["base.cedar:3"]);
    }

    #[test]
    fn row_caps_combine_to_the_smallest() {
        let policies = "@max_rows(\"500\") permit(principal, action == Action::\"select\", resource);
            @max_rows(\"100\") permit(principal, action == Action::\"see\", resource is row::main::tickets) when { resource.id < 5 };
            @max_rows(\"10\") permit(principal, action == Action::\"see\", resource is row::main::customers);";
        let set = set(policies);
        let view = set.session(&agent("bot"));
        let tickets = view.relation(relation_id("tickets")).unwrap();
        assert_eq!(tickets.caps.rows, Some(100));
        assert_eq!(tickets.policies, ["base.cedar:1", "base.cedar:2"]);
        assert_eq!(
            view.relation(relation_id("customers")).unwrap().caps.rows,
            Some(10)
        );
    }

    const CHILDREN: &str = "
        CREATE TABLE orders (id bigint PRIMARY KEY, tenant bigint NOT NULL);
        CREATE TABLE items (id bigint PRIMARY KEY, order_id bigint REFERENCES orders (id));
        CREATE TABLE notes (id bigint PRIMARY KEY, item_id bigint NOT NULL REFERENCES items (id));
        CREATE TABLE a (id bigint PRIMARY KEY, b_id bigint);
        CREATE TABLE b (id bigint PRIMARY KEY, a_id bigint REFERENCES a (id));
        ALTER TABLE a ADD FOREIGN KEY (b_id) REFERENCES b (id);";

    fn children(policies: &str) -> Result<PolicySet, String> {
        let catalog = Arc::new(test_ddl::postgres(CHILDREN, "public").unwrap());
        let sources = PolicySources::from_cedar("p.cedar", policies);
        let set = PolicySet::load(&sources, &catalog, &ColumnFlow::default());
        set.map_err(|errors| errors.to_string())
    }

    fn rows_of_child(policies: &str, table: &str) -> RowFilter {
        let set = children(policies).unwrap();
        let view = set.session(&Session::new(Principal::new("Agent", "a")));
        let id = set.catalog().find("public", table).unwrap().id;
        view.relation(id).unwrap().rows.clone()
    }

    const READ: &str = "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);\n";
    const ORDERS: &str = "@id(\"tenant\") forbid(principal, action == Action::\"see\", resource is row::public::orders) unless { resource.tenant == 1 };\n";
    const ITEMS: &str = "@id(\"items\") forbid(principal, action == Action::\"see\", resource is row::public::items) unless { resource.order_id_is_seen };\n";
    const NOTES: &str = "@id(\"notes\") forbid(principal, action == Action::\"see\", resource is row::public::notes) unless { resource has item_id_is_seen && resource.item_id_is_seen };\n";

    fn follows(filter: &RowFilter) -> (u16, u16, RowFilter) {
        let RowFilter::Where(Predicate::And(parts)) = filter else {
            panic!("{filter:?}");
        };
        let Predicate::Not(forbid) = &parts[1] else {
            panic!("{filter:?}");
        };
        let Predicate::Not(condition) = &**forbid else {
            panic!("{filter:?}");
        };
        match &**condition {
            Predicate::RefersToSeen(Operand::Column(column), referred) => {
                (*column, referred.key, referred.rows.clone())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rows_follow_those_to_which_they_refer() {
        let orders = rows_of_child(&format!("{READ}{ORDERS}"), "orders");
        let all = format!("{READ}{ORDERS}{ITEMS}{NOTES}");
        let items = rows_of_child(&all, "items");
        assert_eq!(follows(&items), (1, 0, orders));
        assert_eq!(follows(&rows_of_child(&all, "notes")), (1, 0, items));
        // The policies about the parent decide about the child.
        let set = children(&all).unwrap();
        let view = set.session(&Session::new(Principal::new("Agent", "a")));
        let notes = set.catalog().find("public", "notes").unwrap().id;
        let by = &view.relation(notes).unwrap().policies;
        assert_eq!(*by, ["items", "notes", "p.cedar:1", "tenant"]);
    }

    #[test]
    fn a_parent_that_is_seen_whole_or_not_at_all_is_not_looked_up() {
        let whole = rows_of_child(&format!("{READ}{ITEMS}"), "items");
        let has = Predicate::Not(Box::new(Predicate::Not(Box::new(Predicate::Has(1)))));
        let expect = Predicate::And(vec![Predicate::Or(vec![Predicate::Constant(true)]), has]);
        assert_eq!(whole, RowFilter::Where(expect));
        for hides in [
            "forbid(principal, action == Action::\"see\", resource is row::public::orders);",
            "forbid(principal, action == Action::\"select\", resource == Table::\"public.orders\");",
        ] {
            let rows = rows_of_child(&format!("{READ}{ITEMS}{hides}"), "items");
            assert_eq!(rows, RowFilter::Nothing, "{hides}");
        }
    }

    #[test]
    fn tables_that_follow_each_other_in_a_circle_are_an_error() {
        let forbid = |table: &str, column: &str| {
            format!(
                "forbid(principal, action == Action::\"see\", resource is row::public::{table}) unless {{ resource.{column}_is_seen }};\n"
            )
        };
        let (a, b) = (forbid("a", "b_id"), forbid("b", "a_id"));
        assert!(children(&format!("{READ}{a}")).is_ok());
        let errors = children(&format!("{READ}{a}{b}")).unwrap_err();
        assert!(
            errors.contains(
                "p.cedar:2:90: which rows are seen would depend on itself: `public.a` follows `public.b` follows `public.a`"
            ),
            "{errors}"
        );
        // Of changes it does not depend.
        let b = b.replace("\"see\"", "\"change\"");
        assert!(children(&format!("{READ}{a}{b}")).is_ok());
    }

    #[test]
    fn too_many_keys_one_after_the_other_are_an_error() {
        let mut tables =
            "CREATE TABLE t0 (id bigint PRIMARY KEY, tenant bigint NOT NULL);".to_owned();
        let mut policies = format!(
            "{READ}forbid(principal, action == Action::\"see\", resource is row::public::t0) unless {{ resource.tenant == 1 }};\n"
        );
        for table in 1..=9 {
            let parent = table - 1;
            tables += &format!(
                "CREATE TABLE t{table} (id bigint PRIMARY KEY, p_id bigint REFERENCES t{parent} (id));"
            );
            // Of what is not seen, nothing more is seen.
            let negation = if table == 8 { "!" } else { "" };
            policies += &format!(
                "forbid(principal, action == Action::\"see\", resource is row::public::t{table}) unless {{ {negation}resource.p_id_is_seen }};\n"
            );
            let catalog = Arc::new(test_ddl::postgres(&tables, "public").unwrap());
            let sources = PolicySources::from_cedar("p.cedar", &policies);
            let set = PolicySet::load(&sources, &catalog, &ColumnFlow::default());
            let Err(errors) = set else {
                assert!(table <= 8, "{table}");
                continue;
            };
            let errors = errors.to_string();
            assert_eq!(table, 9, "{errors}");
            let expected =
                "p.cedar:11:91: more than 8 keys, one after the other, decide which rows are seen";
            assert!(errors.starts_with(expected), "{errors}");
        }
    }

    #[test]
    fn a_misspelt_key_is_an_error() {
        let errors = children(&format!("{READ}{}", ITEMS.replace("_is_seen", "_is_sen")));
        assert!(errors.unwrap_err().contains("order_id_is_sen"));
        let negated = ITEMS.replace(
            "resource.order_id_is_seen",
            "resource.order_id_is_seen == true",
        );
        let errors = children(&format!("{READ}{negated}")).unwrap_err();
        assert!(errors.contains("has no SQL form"), "{errors}");
    }

    #[test]
    fn transport_is_known_while_filtering() {
        let policies = format!(
            "{SELECT}permit(principal, action == Action::\"see\", resource) when {{ context.transport == \"cli\" }};"
        );
        let set = set(&policies);
        let id = relation_id("tickets");
        let bot = agent("bot");
        assert_eq!(
            set.session(&bot).relation(id).unwrap().rows,
            RowFilter::Nothing
        );
        let cli = bot.over(crate::session::Transport::Cli);
        assert_eq!(
            set.session(&cli).relation(id).unwrap().rows,
            RowFilter::Everything
        );
    }
}
