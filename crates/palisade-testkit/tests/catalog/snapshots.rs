//! Catalogs as text: whatever a catalog holds, its snapshot gives it back.

use palisade::{
    catalog::{
        CastDef, Catalog, Change, ColumnDef, DefaultValue, ForeignKey, OperandDef, OperatorDef,
        ReferenceAction, RelationDef, RelationKind, RoutineDef, Trigger, TypeClass, TypeDef,
        TypeKind, UniqueKeyDef, functions::Kinds,
    },
    dialect::Dialect,
};
use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::{select, subsequence},
};

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,6}", "[A-Za-z \"'.\\\\\u{e9}\u{2028}]{1,8}"]
}

fn names() -> impl Strategy<Value = Vec<String>> {
    vec(name(), 0..3)
}

fn dialect() -> impl Strategy<Value = Dialect> {
    select(&Dialect::ALL[..])
}

fn filled() -> impl Strategy<Value = DefaultValue> {
    prop_oneof![
        Just(DefaultValue::Unknown),
        Just(DefaultValue::Null),
        name().prop_map(DefaultValue::Number),
        name().prop_map(DefaultValue::Text),
        any::<bool>().prop_map(DefaultValue::Boolean),
    ]
}

fn column() -> impl Strategy<Value = ColumnDef> {
    let class = select(vec![
        TypeClass::Integer,
        TypeClass::TimestampTz,
        TypeClass::Enum,
        TypeClass::Other,
    ]);
    let facts = (
        name(),
        name(),
        class,
        any::<bool>(),
        name(),
        option::of(name()),
        any::<bool>(),
        filled(),
    );
    facts.prop_map(
        |(name, type_name, class, nullable, collation, generated, stored, filled)| ColumnDef {
            name,
            type_name,
            class,
            nullable,
            collation,
            generated,
            stored,
            filled,
        },
    )
}

fn trigger() -> impl Strategy<Value = Trigger> {
    let changes = subsequence(Change::ALL.to_vec(), 0..=Change::ALL.len());
    let columns = proptest::collection::btree_set(name(), 0..3);
    (name(), name(), changes, columns).prop_map(|(schema, function, changes, columns)| Trigger {
        schema,
        function,
        on: changes.into_iter().collect(),
        columns,
    })
}

fn action() -> impl Strategy<Value = ReferenceAction> {
    select(vec![
        ReferenceAction::Refuse,
        ReferenceAction::Cascade,
        ReferenceAction::SetNull,
        ReferenceAction::SetDefault,
    ])
}

fn relation() -> impl Strategy<Value = RelationDef> {
    let kind = select(vec![
        RelationKind::Table,
        RelationKind::View,
        RelationKind::Materialized,
        RelationKind::Virtual,
        RelationKind::System,
    ]);
    let facts = (
        name(),
        name(),
        kind,
        vec(column(), 0..5),
        any::<[bool; 3]>(),
    );
    let set_off = (vec(trigger(), 0..3), action(), action());
    (facts, (name(), name()), name(), set_off).prop_map(
        |(
            (schema, name, kind, columns, [strict, has_rowid, keyed]),
            (elsewhere, table),
            definition,
            (triggers, on_delete, on_update),
        )| {
            let own: Vec<String> = columns.iter().map(|c| c.name.clone()).collect();
            let view = matches!(kind, RelationKind::View | RelationKind::Materialized);
            let mut def = RelationDef::new(schema, name, kind, columns);
            def.strict = strict;
            def.triggers = triggers;
            def.has_rowid = has_rowid;
            if keyed {
                def.rowid_alias = own.first().cloned();
                def.foreign_keys = vec![ForeignKey {
                    columns: own.clone(),
                    schema: elsewhere,
                    table,
                    references: own.clone(),
                    on_delete,
                    on_update,
                }];
                def.unique_keys = Some(vec![
                    UniqueKeyDef {
                        name: own.last().cloned(),
                        columns: own.iter().rev().cloned().collect(),
                        filled: own.first().cloned().into_iter().collect(),
                        equal: own.last().cloned().into_iter().collect(),
                        plain: strict,
                    },
                    UniqueKeyDef {
                        columns: own.first().cloned().into_iter().collect(),
                        ..UniqueKeyDef::default()
                    },
                ]);
                def.primary_key = own;
            }
            def.definition = view.then_some(definition);
            def
        },
    )
}

fn routine() -> impl Strategy<Value = RoutineDef> {
    let args = (0..5u8, option::of(0..9u8));
    let facts = (name(), name(), any::<[bool; 7]>(), vec(name(), 0..3), args);
    (facts, vec(names(), 0..3)).prop_map(|((schema, name, kinds, extensions, args), columns)| {
        let [
            scalar,
            niladic,
            aggregate,
            window,
            table,
            ordered,
            procedure,
        ] = kinds;
        RoutineDef {
            schema,
            name,
            kinds: Kinds {
                scalar,
                niladic,
                aggregate,
                window,
                table,
                ordered,
                procedure,
            },
            extensions,
            min_args: args.0,
            max_args: args.1.map(|more| args.0 + more),
            columns,
            parameters: vec![vec![OperandDef::Any]; usize::from(args.0)],
        }
    })
}

fn type_def() -> impl Strategy<Value = TypeDef> {
    let kind = prop_oneof![
        Just(TypeKind::Enum),
        Just(TypeKind::Range),
        Just(TypeKind::Base),
        (name(), option::of(name())).prop_map(|(base, check)| TypeKind::Domain { base, check }),
        vec((name(), name()), 0..3).prop_map(TypeKind::Composite),
    ];
    (name(), name(), kind, option::of(name())).prop_map(|(schema, name, kind, extension)| TypeDef {
        schema,
        name,
        kind,
        extension,
    })
}

fn catalog() -> impl Strategy<Value = Catalog> {
    let settings = (dialect(), name(), vec(name(), 0..3), any::<[bool; 2]>());
    let parts = (
        vec(relation(), 0..5),
        vec(routine(), 0..4),
        vec(type_def(), 0..4),
    );
    let operators = vec((name(), name(), name(), any::<bool>()), 0..2);
    let end = || (name(), name());
    let casts = vec((end(), end(), name(), any::<bool>()), 0..2);
    let parts = (parts, operators, casts);
    (settings, parts).prop_filter_map("names twice", |(settings, (parts, operators, casts))| {
        let (dialect, database, path, [sensitive, plain]) = settings;
        let (mut relations, routines, types) = parts;
        let first = relations
            .first()
            .map(|r| (r.schema.clone(), r.name.clone()));
        for def in relations.iter_mut().skip(1) {
            def.parents.extend(first.clone());
        }
        let mut builder = Catalog::builder(dialect)
            .database(database)
            .search_path(path)
            .case_sensitive_relations(sensitive)
            .plain_collations(plain);
        for def in relations {
            builder = builder.relation(def);
        }
        for def in routines {
            builder = builder.routine(def);
        }
        for def in types {
            builder = builder.type_def(def);
        }
        for (schema, name, function, confined) in operators {
            builder = builder.operator(OperatorDef {
                schema,
                name,
                function,
                confined,
                left: if confined {
                    OperandDef::Absent
                } else {
                    OperandDef::Any
                },
                right: OperandDef::Classes(vec![TypeClass::Text; usize::from(confined)]),
            });
        }
        for (source, target, function, implicit) in casts {
            builder = builder.cast(CastDef {
                source,
                target,
                function,
                implicit,
            });
        }
        builder.build().ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_gives_the_catalog_back(catalog in catalog()) {
        let text = catalog.to_snapshot();
        let again = match Catalog::from_snapshot(&text) {
            Ok(again) => again,
            // A backend never names two routines or types alike; a text that does is refused.
            Err(error) => {
                prop_assert!(error.to_string().ends_with("twice"), "{error}\n{text}");
                return Ok(());
            }
        };
        prop_assert_eq!(again.version(), catalog.version());
        prop_assert_eq!(format!("{:?}", again.relations()), format!("{:?}", catalog.relations()));
        prop_assert_eq!(again.functions(), catalog.functions());
        prop_assert_eq!(again.types(), catalog.types());
        prop_assert_eq!(again.operators(), catalog.operators());
        prop_assert_eq!(again.casts(), catalog.casts());
        prop_assert_eq!(again.search_path(), catalog.search_path());
        prop_assert_eq!(again.fold_relation("A"), catalog.fold_relation("A"));
        prop_assert_eq!(again.database(), catalog.database());
    }
}
