//! How much of an answer leaves, and what is said of the rest.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::ops::ControlFlow::{Break, Continue};

use crate::{
    answer::{
        Action, Cell, EmptyReason, Form, Marker, OutputColumn, Room, RowBound, ScanPlan,
        ScanSession, ScannedRows, TruncationReason,
    },
    code::Code,
    value::{ColumnTypes, RowSink as _, Value},
};

fn plan(names: &[&str]) -> ScanPlan {
    ScanPlan {
        columns: names
            .iter()
            .map(|name| OutputColumn {
                name: (*name).into(),
                type_name: "".into(),
                masked: false,
            })
            .collect(),
        max_rows: 100,
        row_bound: RowBound::Limit,
        max_result_bytes: 10_000,
        max_cell_bytes: 100,
        if_empty: EmptyReason::NoMatchOrFiltered,
        masked_uses: Vec::new(),
        quoted_texts: Vec::new(),
        identities: Vec::new(),
        tokens: Vec::new(),
    }
}

fn session(plan: &ScanPlan) -> ScanSession {
    ScanSession::new(plan, Action::Flag, Marker::from_bytes(*b"0123456789abcdef"))
}

fn answer(plan: &ScanPlan, rows: Vec<Vec<Value>>) -> ScannedRows {
    let mut session = session(plan);
    for row in rows {
        if session.push(row).is_break() {
            break;
        }
    }
    session.finish().unwrap()
}

/// The slug and count of each notice.
fn notices(rows: &ScannedRows) -> Vec<(&'static str, u64)> {
    let notices = rows.notices().iter();
    notices
        .map(|notice| (notice.notice, notice.count))
        .collect()
}

#[test]
fn rows_beyond_the_bound_are_cut_off_or_refused() {
    use RowBound::{Limit, Policy, PolicyOrRefusal};
    use TruncationReason::{RowCap, RowLimit};
    for (row_bound, has_most_rows, expected) in [
        (Limit, false, Ok(RowLimit)),
        (Limit, true, Ok(RowCap)),
        (Policy, false, Ok(RowCap)),
        (PolicyOrRefusal, false, Err(Code::LimitRows)),
    ] {
        let plan = ScanPlan {
            max_rows: 2,
            row_bound,
            ..plan(&["a"])
        };
        let mut session = session(&plan).keep_within(Room {
            form: Form::Json,
            max_chars: 100_000,
            max_tokens: 100_000,
            has_most_rows,
        });
        let row = || vec![Value::Integer(1)];
        let flows = [session.push(row()), session.push(row())];
        assert_eq!(flows, [Continue(()), Continue(())]);
        // One more tells that there are more; no other is looked at.
        assert_eq!([session.push(row()), session.push(row())], [Break(()); 2]);
        match (session.finish(), expected) {
            (Ok(rows), Ok(reason)) => {
                assert_eq!(rows.truncation(), Some(reason));
                assert_eq!((rows.row_count(), rows.total_seen()), (2, 3));
            }
            (Err(refused), Err(code)) => assert_eq!(refused.code(), code),
            (found, _) => assert!(found.is_err() && expected.is_err(), "{found:?}"),
        }
    }
}

#[test]
fn as_many_rows_as_the_bound_are_all_of_them() {
    let plan = ScanPlan {
        max_rows: 2,
        ..plan(&["a"])
    };
    let rows = answer(&plan, vec![vec![Value::Integer(1)]; 2]);
    assert_eq!((rows.row_count(), rows.truncation()), (2, None));
}

#[test]
fn bytes_are_those_of_cells_and_of_names_in_each_row() {
    for (max_result_bytes, count, truncation) in [
        (15, 3, None),
        (14, 2, Some(TruncationReason::SizeLimit)),
        (10, 2, Some(TruncationReason::SizeLimit)),
        (9, 1, Some(TruncationReason::SizeLimit)),
    ] {
        let plan = ScanPlan {
            max_result_bytes,
            ..plan(&["n"])
        };
        let rows = answer(&plan, vec![vec![Value::text("four")]; 3]);
        assert_eq!(rows.row_count(), count, "{max_result_bytes}");
        assert_eq!(rows.truncation(), truncation, "{max_result_bytes}");
        assert!(rows.notices().is_empty());
    }
}

#[test]
fn a_first_row_that_does_not_fit_is_cut() {
    let plan = ScanPlan {
        max_result_bytes: 22,
        ..plan(&["a", "b"])
    };
    let rows = answer(
        &plan,
        vec![vec![Value::text("0123456789abcdefghijkl"), Value::text("xyz")]; 2],
    );
    assert_eq!(rows.truncation(), Some(TruncationReason::SizeLimit));
    assert_eq!(notices(&rows), [("cell_cut", 1)]);
    assert_eq!(
        rows.into_values(),
        [[Value::text("0123456789"), Value::text("xyz")]]
    );
}

#[test]
fn cells_are_cut_at_the_limit_and_no_sooner() {
    let plan = ScanPlan {
        max_cell_bytes: 10,
        ..plan(&["a"])
    };
    for (value, cell, is_cut) in [
        (Value::text("0123456789"), "0123456789", false),
        (Value::text("0123456789a"), "0123456789", true),
        // No character is cut in two.
        (Value::text("012345678é"), "012345678", true),
    ] {
        let rows = answer(&plan, vec![vec![value.clone()]]);
        let expected: &[_] = if is_cut { &[("cell_cut", 1)] } else { &[] };
        assert_eq!(notices(&rows), expected, "{value:?}");
        assert_eq!(rows.into_values(), [[Value::text(cell)]], "{value:?}");
    }
    // A byte takes two digits.
    for (bytes, expected) in [
        (&[1, 2, 3, 4][..], &[][..]),
        (&[1, 2, 3, 4, 5], &[("cell_cut", 1)]),
    ] {
        let rows = answer(&plan, vec![vec![Value::Blob(bytes.to_vec())]]);
        assert_eq!(notices(&rows), expected, "{bytes:?}");
        assert_eq!(
            serde_json::to_value(&rows).unwrap()["rows"][0]["a"],
            "\\x01020304"
        );
        assert_eq!(rows.into_values(), [[Value::Blob(vec![1, 2, 3, 4])]]);
    }
}

#[test]
fn bytes_of_a_first_row_that_does_not_fit_are_cut() {
    let plan = ScanPlan {
        max_result_bytes: 9,
        ..plan(&["a"])
    };
    let rows = answer(&plan, vec![vec![Value::Blob(vec![1; 9])]]);
    assert_eq!(notices(&rows), [("cell_cut", 1)]);
    assert_eq!(rows.into_values(), [[Value::Blob(vec![1; 3])]]);
}

#[test]
fn rows_have_typed_cells_by_the_names_of_columns() {
    let row = vec![
        Value::Integer(i64::MAX),
        Value::text("\\x00"),
        Value::Blob(vec![0]),
        Value::Null,
    ];
    let rows = answer(&plan(&["id", "id", "b", "c"]), vec![row]);
    assert_eq!(rows.rows().len(), 1);
    let row = rows.rows().next().unwrap();
    assert_eq!(row.cell("id").and_then(Cell::as_integer), Some(i64::MAX));
    assert_eq!(row.cell("id_2").and_then(Cell::as_text), Some("\\x00"));
    assert_eq!(row.cell("b"), Some(&Cell::Bytes(vec![0])));
    assert!(row.cell("c").is_some_and(Cell::is_null));
    assert_eq!(row.cell("d"), None);
    assert_eq!(row.cells().len(), 4);
}

#[test]
fn what_is_no_utf_8_is_said() {
    let rows = answer(&plan(&["a"]), vec![vec![Value::Text(vec![b'a', 0xff])]]);
    assert_eq!(notices(&rows), [("invalid_utf8", 1)]);
    assert_eq!(rows.into_values(), [[Value::text("a\u{fffd}")]]);
}

#[test]
fn an_answer_of_another_shape_is_none() {
    let decided = plan(&["a", "b"]);
    let finish = |session: ScanSession| session.finish().map(|_| ()).map_err(|e| e.code());
    for names in [&["a"][..], &["a", "c"], &["b", "a"], &["a", "b", "c"]] {
        let mut session = session(&decided);
        assert_eq!(session.columns(names), Break(()), "{names:?}");
        assert_eq!(finish(session), Err(Code::Internal));
    }
    let mut same = session(&decided);
    assert_eq!(same.columns(&["a", "b"]), Continue(()));
    let row = || vec![Value::Null, Value::Null];
    assert_eq!(same.row(row()), Continue(()));
    assert_eq!(finish(same), Ok(()));
    let mut unnamed = session(&decided);
    assert_eq!(unnamed.row(row()), Break(()));
    assert_eq!(finish(unnamed), Err(Code::Internal));
    for width in [1, 3] {
        let mut wrong = session(&decided);
        assert_eq!(wrong.push(vec![Value::Null; width]), Break(()));
        assert_eq!(wrong.push(row()), Break(()));
        assert_eq!(finish(wrong), Err(Code::Internal), "{width}");
    }
}

#[test]
fn an_answer_without_rows_says_why_where_it_could_have_some() {
    for (names, rows, expected) in [
        (&["a"][..], vec![], Some(EmptyReason::NoMatchOrFiltered)),
        (&["a"], vec![vec![Value::Null]], None),
        (&[], vec![], None),
    ] {
        let rows = answer(&plan(names), rows);
        assert_eq!(rows.empty_reason(), expected, "{names:?}");
    }
}

#[test]
fn columns_without_a_type_have_that_of_their_values() {
    let typed = |types: ColumnTypes<'_>, cells: Vec<Value>| {
        let mut session = session(&plan(&["a"]));
        session.types(types);
        for cell in cells {
            assert_eq!(session.push(vec![cell]), Continue(()));
        }
        session.finish().unwrap().columns()[0].type_name.to_string()
    };
    for (cells, expected) in [
        (vec![Value::Integer(1), Value::Null], "INTEGER"),
        (vec![Value::Bool(true), Value::Integer(1)], "INTEGER"),
        (vec![Value::Real(0.5)], "REAL"),
        (vec![Value::text("a")], "TEXT"),
        (vec![Value::Blob(vec![0])], "BLOB"),
        (vec![Value::text("a"), Value::Integer(1)], ""),
        (vec![Value::Null], ""),
        (vec![], ""),
    ] {
        let found = typed(ColumnTypes::ByValue, cells.clone());
        assert_eq!(found, expected, "{cells:?}");
    }
    let named = typed(ColumnTypes::Named(&["bigint"]), vec![Value::Integer(1)]);
    assert_eq!(named, "bigint");
    let known = ScanPlan {
        columns: vec![OutputColumn {
            name: "a".into(),
            type_name: "date".into(),
            masked: false,
        }],
        ..plan(&[])
    };
    let mut session = session(&known);
    session.types(ColumnTypes::Named(&["text"]));
    assert_eq!(&*session.finish().unwrap().columns()[0].type_name, "date");
}

#[test]
fn columns_of_one_name_are_told_apart() {
    for (names, expected) in [
        (&["a", "a", "a"][..], &["a", "a_2", "a_3"][..]),
        (&["a", "a_2", "a"], &["a", "a_2", "a_3"]),
        (&["a", "b"], &["a", "b"]),
    ] {
        let rows = answer(&plan(names), Vec::new());
        let found: Vec<&str> = rows.columns().iter().map(|c| &*c.name).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn numbers_are_scanned_from_fourteen_digits_on() {
    for (number, expected) in [
        // A number of a card by its check digit.
        (4_111_111_111_111_111, 1),
        // With a sign it is none.
        (-4_111_111_111_111_111, 0),
        (4_111_111_111_111_112, 0),
        (30_569_309_025_904, 1),
        (4_222_222_222_222, 0),
        (5, 0),
    ] {
        let rows = answer(&plan(&["a"]), vec![vec![Value::Integer(number)]]);
        assert_eq!(rows.findings().len(), expected, "{number}");
        assert_eq!(rows.into_values(), [[Value::Integer(number)]]);
    }
}

#[test]
fn names_alone_may_be_too_wide() {
    let name = "a".repeat(200);
    for (max_chars, is_refused) in [(100_000, false), (100, true)] {
        let mut session = session(&plan(&[&name])).keep_within(Room {
            form: Form::Json,
            max_chars,
            max_tokens: 100_000,
            has_most_rows: false,
        });
        let flow = session.push(vec![Value::Integer(1)]);
        assert_eq!(flow.is_break(), is_refused);
        let refused = session.finish().err().map(|error| error.code());
        assert_eq!(refused, is_refused.then_some(Code::LimitResource));
    }
}

#[test]
fn notices_are_left_out_where_there_is_no_room_and_counted() {
    let names: Vec<String> = (0..60).map(|number| format!("c{number}")).collect();
    for columns in [1, 60] {
        let names: Vec<&str> = names.iter().take(columns).map(String::as_str).collect();
        let plan = ScanPlan {
            max_cell_bytes: 2,
            ..plan(&names)
        };
        let rows = answer(&plan, vec![vec![Value::text("four"); columns]]);
        let mut told = notices(&rows.with_fewer_remarks());
        let omitted = told.pop_if(|(notice, _)| *notice != "cell_cut");
        let left_out = u64::try_from(columns - told.len()).unwrap();
        let expected = (columns == 60).then_some(("notices_omitted", left_out));
        assert_eq!(omitted, expected, "{told:?}");
        assert_eq!(left_out == 0, columns == 1, "{told:?}");
    }
}
