//! The order inside of each room of the core: no import climbs, and no files stand in a circle.

use std::{collections::BTreeSet, fs};

use crate::{core, imports::Graph};

/// For each room, its files and folders in layers, each layer above those that may import from it. The longest path that
/// a file stands under says its layer.
const ROOMS: &[(&str, &[&[&str]])] = &[
    (
        "policy",
        &[
            &["sources", "rule", "approval"],
            &["obligation", "load/diagnostic", "inheritance"],
            &["load/written_help"],
            &["load/source", "load/classification", "load/template"],
            &["cedar"],
            &[
                "load/annotation",
                "load/named_resources",
                "load/unseen_attribute",
            ],
            &["set"],
            &["cedar/request"],
            &["decide", "review/possible_permits", "time_dependent"],
            &["lint"],
            &["load"],
            &["session_view"],
            &["statement_conditions"],
            &["authorize"],
            &["", "review"],
        ],
    ),
    (
        "syntax",
        &[
            &[
                "stack",
                "identifier",
                "statement_kind",
                "visit",
                "role",
                "plain_call",
                "row_changes",
            ],
            &["dialect"],
            &["lexer", "parser_drift", "explain", "advice"],
            &[
                "prescan",
                "fingerprint",
                "wording",
                "subscript",
                "letter_case",
            ],
            &["unsupported"],
            &["parse"],
            &["placeholders", "print", "output_name", "mask_expr"],
            &["reparse_cache"],
            &[""],
        ],
    ),
    (
        "catalog",
        &[
            &[
                "types",
                "triggers",
                "unique_key",
                "functions",
                "system_relations",
            ],
            &["default"],
            &["column_def"],
            &["", "cascades", "generated", "key_equality"],
            &["builder"],
            &["system_columns"],
            &["snapshot", "test_ddl"],
        ],
    ),
    (
        "resolve",
        &[
            &[
                "token/wrapper",
                "expr/regex_cost",
                "change/self_assignment",
                "places",
            ],
            &[""],
            &["ddl"],
        ],
    ),
    (
        "rewrite",
        &[
            &["ast", "authorized", "refusal", "change/walk", "output"],
            &[
                "relation_source/predicate_sql",
                "relation_source/mask_expr",
                "relation_source/typed_null",
                "relation_source/keyed_hash",
                "relation_source/json_paths",
                "relation_source/row_filter",
                "relation_source/mask",
            ],
            &[
                "change/write_filter_cache",
                "change/precheck",
                "change/determinism",
                "change/upsert/on_conflict",
                "change/new_row",
            ],
            &["relation_source", "output/columns", "limit"],
            &["output/masked_uses"],
            &[
                "change",
                "change/precheck/foreign_keys",
                "change/precheck/query",
                "change/new_row/defaults",
                "change/new_row/insert_ignore",
                "change/new_row/select_constants",
            ],
            &["explain", "output/expected_access"],
            &["draft"],
            &["statement"],
            &["ddl", "pipeline"],
            &[""],
        ],
    ),
    (
        "firewall",
        &[
            &["session_catalog", "statement_cache", "column_lineage"],
            &["", "builder", "trace", "metadata", "permitted_changes"],
            &["account_needs"],
        ],
    ),
    (
        "guard",
        &[
            &[
                "request",
                "cancel",
                "failure_quota",
                "budget",
                "engine_fault",
                "constraint",
            ],
            &["backend_error"],
            &["estimates"],
            &["checks"],
            &["ticket"],
            &["change/rehearsal"],
            &["backend", "live"],
            &[""],
            &["refresh", "record", "approvals", "constraint_disclosure"],
            &["reading"],
            &["change", "past"],
            &["recorded_run"],
            &["answer_request", "dry_run"],
        ],
    ),
];

/// The circles that are allowed, with exactly their files. Expressions hold queries and queries expressions, so that the
/// files of `resolve` that read either are one circle by nature.
const CIRCLES: &[&[&str]] = &[&[
    "resolve",
    "resolve/aggregate_only",
    "resolve/change/target",
    "resolve/expr",
    "resolve/expr/plan_failures",
    "resolve/expr/user_cast",
    "resolve/from",
    "resolve/from/relation",
    "resolve/names",
    "resolve/query",
    "resolve/query/cartesian",
    "resolve/query/cte",
    "resolve/query/group_by_key",
    "resolve/query/recursive_cte",
    "resolve/query/select",
    "resolve/query/terms",
    "resolve/scope",
    "resolve/scope/source",
    "resolve/state",
    "resolve/statement",
    "resolve/steps",
    "resolve/token",
    "resolve/token/provenance",
]];

/// The rooms: every folder of the core.
fn rooms() -> Vec<String> {
    let entries = fs::read_dir(core()).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut rooms: Vec<_> = folders
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    rooms.sort();
    rooms
}

fn layer(layers: &[&[&str]], path: &str) -> Option<usize> {
    let stands_under = |prefix: &str| {
        path.strip_prefix(prefix)
            .is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
    };
    let prefixes = layers
        .iter()
        .enumerate()
        .flat_map(|(at, layer)| layer.iter().map(move |prefix| (at, *prefix)));
    prefixes
        .filter(|(_, prefix)| stands_under(prefix))
        .max_by_key(|(_, prefix)| prefix.len())
        .map(|(at, _)| at)
}

#[test]
fn no_import_climbs_inside_of_a_room() {
    let mut wrong = Vec::new();
    for (room, layers) in ROOMS {
        for (from, target) in Graph::read(room).edges() {
            let (own, theirs) = (from[1..].join("/"), target[1..].join("/"));
            let own_layer =
                layer(layers, &own).unwrap_or_else(|| panic!("{room}/{own} is in no layer"));
            let their_layer =
                layer(layers, &theirs).unwrap_or_else(|| panic!("{room}/{theirs} is in no layer"));
            if their_layer > own_layer {
                wrong.push(format!("{room}: `{own}` imports `{theirs}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_files_stand_in_a_circle() {
    let allowed: BTreeSet<BTreeSet<String>> = CIRCLES
        .iter()
        .map(|files| files.iter().map(|file| (*file).to_owned()).collect())
        .collect();
    let found: BTreeSet<_> = rooms()
        .iter()
        .flat_map(|room| Graph::read(room).circles())
        .collect();
    let new: Vec<_> = found.difference(&allowed).collect();
    assert!(new.is_empty(), "circles that are not allowed: {new:#?}");
    let gone: Vec<_> = allowed.difference(&found).collect();
    assert!(
        gone.is_empty(),
        "circles that are no longer there: {gone:#?}"
    );
}

/// The graph sees what it is asked for: a path, a re-export and a child module.
#[test]
fn imports_are_seen() {
    let graph = Graph::read("policy");
    let has = |from: &str, target: &str| {
        graph
            .edges()
            .any(|(a, b)| a.join("/") == from && b.join("/") == target)
    };
    assert!(has("policy/decide/columns", "policy/set"));
    assert!(has("policy/decide/columns", "policy/obligation/mask"));
    assert!(has("policy/load", "policy/lint/probe"));
}
