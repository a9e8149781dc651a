//! Views, and views over them.

use super::{Level, Table, View};
use crate::worlds::{cells::Kind, choices::Choices};

pub(super) fn plain_view(name: &'static str, table: &Table, choices: &mut Choices<'_>) -> View {
    const NAMES: [&str; 3] = ["x", "y", "z"];
    let mut items = vec!["id".to_owned()];
    let mut columns = vec![("id", Kind::Int)];
    for column in NAMES {
        let source = choices.pick(&table.columns);
        items.push(format!("{} AS {column}", source.name));
        columns.push((column, source.visible_kind()));
    }
    // Tokens have no order.
    let conditions: &[&str] = match (is_token(table, "a"), is_token(table, "org")) {
        (false, _) => &["", " WHERE a > 0", " WHERE org IS NOT NULL OR a < 3"],
        (true, _) => &["", " WHERE a IS NOT NULL"],
    };
    let condition = choices.pick(conditions);
    View {
        name,
        query: format!("SELECT {} FROM {}{condition}", items.join(", "), table.name),
        columns,
        capped: table.cap.is_some(),
    }
}

pub(super) fn joined_view(name: &'static str, left: &Table, right: &Table) -> View {
    let shown = |table: &Table, name| table.columns[table.position(name).unwrap()].visible_kind();
    // A token is compared with a token.
    let by = match (shown(left, "a"), shown(right, "a")) {
        (Kind::Token(_), Kind::Token(_)) | (Kind::Int, Kind::Int) => "a",
        _ => "id",
    };
    View {
        name,
        query: format!(
            "SELECT l.id, l.grp AS x, r.grp AS y, r.a AS n FROM {} l LEFT JOIN {} r ON l.{by} = r.{by}",
            left.name, right.name
        ),
        columns: vec![
            ("id", Kind::Int),
            ("x", shown(left, "grp")),
            ("y", shown(right, "grp")),
            ("n", shown(right, "a")),
        ],
        capped: left.cap.is_some() || right.cap.is_some(),
    }
}

pub(super) fn grouped_view(name: &'static str, table: &Table) -> View {
    let (largest, x) = match is_token(table, "grp") {
        true => ("count(DISTINCT grp)", Kind::Int),
        false => ("max(grp)", Kind::Text),
    };
    let sum = match is_token(table, "org") {
        true => "count(org)",
        false => "sum(org)",
    };
    let by = table.columns[table.position("a").unwrap()].visible_kind();
    View {
        name,
        query: format!(
            "SELECT a, count(*) AS n, {largest} AS x, {sum} AS y FROM {} GROUP BY a",
            table.name
        ),
        columns: vec![("a", by), ("n", Kind::Int), ("x", x), ("y", Kind::Int)],
        capped: table.cap.is_some(),
    }
}

/// A view over the first of `views` and the second.
pub(super) fn over_views(name: &'static str, views: &[View]) -> View {
    let kind = |view: &View, name| {
        let (_, kind) = view.columns.iter().find(|column| column.0 == name).unwrap();
        *kind
    };
    View {
        name,
        query: "SELECT p.id, p.x, q.y, q.n AS z FROM v0 p JOIN v1 q ON p.id = q.id".to_owned(),
        columns: vec![
            ("id", Kind::Int),
            ("x", kind(&views[0], "x")),
            ("y", kind(&views[1], "y")),
            ("z", kind(&views[1], "n")),
        ],
        capped: views[..2].iter().any(|view| view.capped),
    }
}

fn is_token(table: &Table, column: &str) -> bool {
    let position = table.position(column);
    position.is_some_and(|index| matches!(table.columns[index].level, Level::Token(_)))
}
