//! What of a difference binds.

use palisade::{
    change::{Difference, GeneratedColumns, RowDifference, TableDifference},
    value::Value,
};

const SCHEMA: &str = "
CREATE TABLE parents (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE children (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parents, made TEXT);
";

fn insert(cells: Vec<Value>) -> RowDifference {
    RowDifference {
        before: None,
        after: Some(cells),
    }
}

fn table(name: &str, rows: Vec<RowDifference>) -> TableDifference {
    TableDifference {
        schema: "main".to_owned(),
        table: name.to_owned(),
        rows,
    }
}

/// A new parent and its child, and a child of an old parent.
fn family(parent: i64, child: i64, of: i64, name: &str, made: &str) -> Difference {
    let text = |text: &str| Value::text(text);
    Difference {
        tables: vec![
            table(
                "parents",
                vec![insert(vec![Value::Integer(parent), text(name)])],
            ),
            table(
                "children",
                vec![
                    insert(vec![
                        Value::Integer(child),
                        Value::Integer(parent),
                        text(made),
                    ]),
                    insert(vec![
                        Value::Integer(child + 1),
                        Value::Integer(of),
                        text(made),
                    ]),
                ],
            ),
        ],
    }
}

#[test]
fn keys_of_new_rows_do_not_bind_and_what_they_refer_to_does() {
    let catalog = crate::catalog_from_ddl(SCHEMA, "desk").unwrap();
    let none = GeneratedColumns::new();
    let text = |difference: &Difference| difference.binding_text(&catalog, &none);
    let first = text(&family(5, 7, 1, "a", "x"));
    assert_eq!(first, text(&family(6, 9, 1, "a", "x")));
    for other in [
        family(5, 7, 2, "a", "x"),
        family(5, 7, 5, "a", "x"),
        family(5, 7, 1, "b", "x"),
        family(5, 7, 1, "a", "y"),
    ] {
        assert_ne!(first, text(&other));
    }
    let mut fewer = family(5, 7, 1, "a", "x");
    fewer.tables[1].rows.pop();
    assert_ne!(first, text(&fewer));
    // A column that is made anew each time.
    let made = ("main".to_owned(), "children".to_owned(), "made".to_owned());
    let generated = GeneratedColumns::from([made]);
    let loose = |made: &str| family(5, 7, 1, "a", made).binding_text(&catalog, &generated);
    assert_eq!(loose("x"), loose("y"));
}

/// The kind of a value binds, and what a row was before.
#[test]
fn no_two_rows_are_spelled_alike() {
    let catalog = crate::catalog_from_ddl(SCHEMA, "desk").unwrap();
    let update = |before: Value, after: Value| {
        let cells = |value: Value| Some(vec![Value::Integer(1), value]);
        let row = RowDifference {
            before: cells(before),
            after: cells(after),
        };
        let difference = Difference {
            tables: vec![table("parents", vec![row])],
        };
        difference.binding_text(&catalog, &GeneratedColumns::new())
    };
    let values = [
        Value::Null,
        Value::Integer(1),
        Value::Real(1.0),
        Value::text("1"),
        Value::Blob(b"1".to_vec()),
        Value::text("1\nrow 3 abc"),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for before in &values {
        for after in values.iter().filter(|after| *after != before) {
            assert!(seen.insert(update(before.clone(), after.clone())));
        }
    }
}
