//! What is kept of a change, and the statements that undo it.

use palisade::{
    catalog::Catalog,
    change::{
        Difference, ImageFault, Inverse, InverseFault, OtherRow, RowDifference, TableDifference,
        read_images, write_images,
    },
    value::{Params, Value},
};

const SCHEMA: &str = "CREATE TABLE par (id int PRIMARY KEY, up int REFERENCES par (id), v text);
    CREATE TABLE kid (par int REFERENCES par (id), n int, v text, PRIMARY KEY (par, n));
    CREATE TABLE loose (v text);";

fn catalog() -> Catalog {
    palisade_ddl::postgres(SCHEMA, "app").unwrap()
}

type Cells = Option<Vec<Value>>;

fn difference(tables: &[(&str, Vec<(Cells, Cells)>)]) -> Difference {
    let tables = tables.iter().map(|(table, rows)| TableDifference {
        schema: "public".to_owned(),
        table: (*table).to_owned(),
        rows: rows
            .iter()
            .map(|(before, after)| RowDifference {
                before: before.clone(),
                after: after.clone(),
            })
            .collect(),
    });
    Difference {
        tables: tables.collect(),
    }
}

fn par(id: i64, up: Option<i64>, v: &str) -> Cells {
    let up = up.map_or(Value::Null, Value::Integer);
    Some(vec![Value::Integer(id), up, Value::text(v)])
}

fn kid(par: i64, n: i64, v: &str) -> Cells {
    Some(vec![Value::Integer(par), Value::Integer(n), Value::text(v)])
}

fn inverse(difference: &Difference) -> Inverse {
    let parts = write_images(difference, &catalog());
    Inverse::new(read_images(&parts).unwrap())
}

fn statements(difference: &Difference) -> Vec<String> {
    let statements = inverse(difference).statements(&catalog()).unwrap();
    statements.into_iter().map(|(sql, _)| sql).collect()
}

#[test]
fn rows_are_set_back_in_an_order_that_foreign_keys_take() {
    let change = difference(&[
        (
            "par",
            vec![
                (None, par(2, Some(1), "new")),
                (None, par(1, None, "new")),
                (par(5, Some(4), "old"), None),
                (par(4, None, "old"), None),
                (par(7, None, "a"), par(7, None, "b")),
                (par(8, None, "a"), par(8, None, "b")),
                (par(9, Some(4), "a"), par(9, None, "a")),
            ],
        ),
        (
            "kid",
            vec![
                (None, kid(1, 1, "new")),
                (None, kid(1, 2, "new")),
                (kid(4, 1, "old"), None),
            ],
        ),
    ]);
    assert_eq!(
        statements(&change),
        [
            r#"DELETE FROM "public"."kid" WHERE ("n" = $1 AND "par" = $2) OR ("n" = $3 AND "par" = $4)"#,
            r#"DELETE FROM "public"."par" WHERE ("id" = $1)"#,
            r#"DELETE FROM "public"."par" WHERE ("id" = $1)"#,
            r#"UPDATE "public"."par" SET "v" = $1 WHERE ("id" = $2)"#,
            r#"UPDATE "public"."par" SET "v" = $1 WHERE ("id" = $2)"#,
            r#"INSERT INTO "public"."par" ("id", "up", "v") VALUES ($1, $2, $3)"#,
            r#"INSERT INTO "public"."par" ("id", "up", "v") VALUES ($1, $2, $3)"#,
            r#"INSERT INTO "public"."kid" ("par", "n", "v") VALUES ($1, $2, $3)"#,
            r#"UPDATE "public"."par" SET "up" = $1 WHERE ("id" = $2)"#,
        ]
    );
    let all = inverse(&change).statements(&catalog()).unwrap();
    let values: Vec<String> = all
        .iter()
        .map(|(_, params)| format!("{params:?}"))
        .collect();
    // Row 2 refers to row 1, and 5 to 4.
    assert!(
        values[1].contains("Integer(2)") && values[2].contains("Integer(1)"),
        "{values:?}"
    );
    assert!(
        values[5].contains("Integer(4)") && values[6].contains("Integer(5)"),
        "{values:?}"
    );
}

/// Rows `(id, a, b)` whose `a` and pairs of which are unique, from what they were to what they are: the ids in the order in which they are
/// set back.
#[test]
fn unique_values_are_set_back_where_they_are_free() {
    let schema = "CREATE TABLE t (id int PRIMARY KEY, a int UNIQUE, b int, c int, UNIQUE (b, c));";
    let catalog = palisade_ddl::postgres(schema, "app").unwrap();
    let row = |id: i64, [a, b, c]: [Option<i64>; 3]| {
        let value = |cell: Option<i64>| cell.map_or(Value::Null, Value::Integer);
        vec![Value::Integer(id), value(a), value(b), value(c)]
    };
    let only = |a: i64| [Some(a), None, None];
    let pair = |b: i64, c: i64| [None, Some(b), Some(c)];
    for (rows, expected) in [
        (
            vec![
                (only(10), only(5)),
                (only(20), only(10)),
                (only(30), only(20)),
            ],
            [3, 2, 1].as_slice(),
        ),
        (
            vec![
                (only(10), only(20)),
                (only(20), only(30)),
                (only(30), only(40)),
            ],
            &[1, 2, 3],
        ),
        // A row that gets NULL waits for no other.
        (vec![([None; 3], only(20)), (only(20), [None; 3])], &[1, 2]),
        (
            vec![(pair(1, 1), pair(9, 9)), (pair(2, 1), pair(1, 1))],
            &[2, 1],
        ),
        // Of a pair of which one value stays, only the other is known.
        (
            vec![(pair(1, 1), pair(1, 0)), (pair(1, 2), pair(1, 1))],
            &[2, 1],
        ),
        (
            vec![(pair(1, 1), pair(2, 2)), (pair(2, 1), pair(1, 2))],
            &[1, 2],
        ),
        // A circle is the engine's to refuse, and comes last.
        (
            vec![(only(2), only(1)), (only(1), only(2)), (only(10), only(3))],
            &[3, 1, 2],
        ),
    ] {
        let rows = (1..).zip(&rows).map(|(id, (before, after))| RowDifference {
            before: Some(row(id, *before)),
            after: Some(row(id, *after)),
        });
        let change = Difference {
            tables: vec![TableDifference {
                schema: "public".to_owned(),
                table: "t".to_owned(),
                rows: rows.collect(),
            }],
        };
        let parts = write_images(&change, &catalog);
        let inverse = Inverse::new(read_images(&parts).unwrap());
        let statements = inverse.statements(&catalog).unwrap();
        let ids: Vec<Value> = (statements.iter())
            .filter_map(|(_, params)| match params {
                Params::Positional(values) => values.last().cloned(),
                Params::None | Params::Named(_) => None,
            })
            .collect();
        let expected: Vec<Value> = expected.iter().copied().map(Value::Integer).collect();
        assert_eq!(ids, expected, "{statements:?}");
    }
}

#[test]
fn what_is_not_the_inverse_is_named() {
    let change = difference(&[(
        "kid",
        vec![
            (kid(1, 1, "a"), kid(1, 1, "b")),
            (None, kid(1, 2, "new")),
            (kid(1, 3, "old"), None),
        ],
    )]);
    let undone = inverse(&change);
    let right = vec![
        (kid(1, 1, "b"), kid(1, 1, "a")),
        (kid(1, 2, "new"), None),
        (None, kid(1, 3, "old")),
    ];
    let find = |rows: &[(Cells, Cells)]| -> Vec<String> {
        let others = undone.find_other_rows(&difference(&[("kid", rows.to_vec())]), &catalog());
        others.into_iter().map(|row: OtherRow| row.key).collect()
    };
    assert_eq!(find(&right), [""; 0]);
    for (at, row, key) in [
        (0, (kid(1, 1, "c"), kid(1, 1, "a")), "n=1, par=1"),
        (0, (kid(1, 1, "b"), kid(1, 1, "c")), "n=1, par=1"),
        (0, (kid(1, 1, "b"), None), "n=1, par=1"),
        (1, (kid(1, 2, "other"), None), "n=2, par=1"),
        (1, (kid(1, 2, "new"), kid(1, 2, "old")), "n=2, par=1"),
        (2, (None, kid(1, 3, "other")), "n=3, par=1"),
    ] {
        let mut rows = right.clone();
        rows[at] = row;
        assert_eq!(find(&rows), [key]);
    }
    // A row too few, and a row too many.
    assert_eq!(find(&right[..2]), ["n=3, par=1"]);
    let mut more = right.clone();
    more.push((kid(1, 4, "x"), None));
    assert_eq!(find(&more), ["n=4, par=1"]);
    more.pop();
    // Another table.
    let both = difference(&[
        ("kid", more),
        ("loose", vec![(None, Some(vec![Value::text("x")]))]),
    ]);
    assert_eq!(undone.find_other_rows(&both, &catalog()).len(), 1);
}

#[test]
fn columns_that_a_change_did_not_write_may_be_others_by_now() {
    let change = difference(&[("par", vec![(par(1, None, "a"), par(1, None, "b"))])]);
    let undone = inverse(&change);
    let find = |before: Cells, after: Cells| {
        let found = difference(&[("par", vec![(before, after)])]);
        undone.find_other_rows(&found, &catalog()).len()
    };
    assert_eq!(find(par(1, Some(1), "b"), par(1, Some(1), "a")), 0);
    // The inverse itself writes nothing else.
    assert_eq!(find(par(1, Some(1), "b"), par(1, None, "a")), 1);
}

#[test]
fn images_say_why_there_are_none() {
    let catalog = catalog();
    let loose = difference(&[("loose", vec![(None, Some(vec![Value::text("x")]))])]);
    assert_eq!(
        read_images(&write_images(&loose, &catalog)),
        Err(ImageFault::NoKey("public.loose".to_owned()))
    );
    let large = "x".repeat(3_000_000);
    let rows = (0..3).map(|id| (None, par(id, None, &large))).collect();
    let large = difference(&[("par", rows)]);
    assert_eq!(
        read_images(&write_images(&large, &catalog)),
        Err(ImageFault::TooLarge)
    );
    let text = "x".repeat(9_000);
    let rows = (0..30).map(|id| (None, par(id, None, &text))).collect();
    let several = difference(&[("par", rows)]);
    let parts = write_images(&several, &catalog);
    assert!(
        parts.len() > 5 && parts.iter().all(|part| part.len() < 64 * 1024),
        "{}",
        parts.len()
    );
    assert_eq!(read_images(&parts).unwrap().len(), 30);
    for wrong in [
        "",
        "{}",
        r#"{"version": 2, "rows": []}"#,
        r#"{"version": 1, "rows": [], "x": 1}"#,
    ] {
        assert_eq!(
            read_images(&[wrong.to_owned()]),
            Err(ImageFault::Unreadable),
            "{wrong}"
        );
    }
    assert_eq!(read_images(&[]), Err(ImageFault::Unreadable));
}

#[test]
fn another_schema_and_too_many_rows_are_refused() {
    let change = difference(&[("par", vec![(par(1, None, "a"), None)])]);
    let other =
        palisade_ddl::postgres("CREATE TABLE par (id int PRIMARY KEY, v text);", "app").unwrap();
    let fault = InverseFault::OtherTable("public.par".to_owned());
    assert_eq!(inverse(&change).statements(&other), Err(fault));
    let rows = (0..1001).map(|id| {
        let was = format!("v{id}");
        (par(id, None, &was), par(id, None, "b"))
    });
    let many = difference(&[("par", rows.collect())]);
    assert_eq!(
        inverse(&many).statements(&catalog()),
        Err(InverseFault::TooMany)
    );
    // Rows that get the same value are one statement.
    let rows = (0..1001).map(|n| (kid(1, n, "a"), kid(1, n, "b")));
    let same = difference(&[("kid", rows.collect())]);
    assert_eq!(statements(&same).len(), 6);
}
