//! Refusals of rows that policy does not admit, or about which nothing is known before the change runs.

use crate::rewrite::change::upsert::on_conflict::UnknownRows;
use crate::{
    catalog::{Column, Relation},
    code::Code,
    rejection::Rejection,
};

pub(in crate::rewrite) fn not_admitted(message: &str) -> Rejection {
    Rejection::new(Code::WriteRowNotAdmitted, message)
}

pub(in crate::rewrite) fn cannot_find_conflicts(unknown: &UnknownRows) -> Rejection {
    not_admitted(&format!(
        "policy looks at columns that the update leaves as they are, and no precheck can find the conflicting row{unknown}; or \
         assign those columns too"
    ))
}

pub(in crate::rewrite) fn unassigned_column(relation: &Relation, index: u16) -> Rejection {
    let column = relation.column(index);
    let name = column.map_or("", |c| &*c.name);
    let instead = match column.and_then(|c| c.generated.as_ref()) {
        Some(_) => "which the table computes: its value is not known before the rows are added",
        None => "and the statement gives it no value",
    };
    not_admitted(&format!(
        "policy looks at column `{name}` of new rows, {instead}"
    ))
}

pub(in crate::rewrite) fn undecided_row(relation: &Relation, column: Option<&Column>) -> Rejection {
    match column {
        Some(column) if column.generated.is_some() => not_admitted(&format!(
            "policy looks at column `{}` of new rows, which the table computes from the assigned values: its value is not known \
             before the change",
            column.name
        )),
        Some(column) => not_admitted(&format!(
            "policy looks at column `{}` of new rows: write it as a literal or parameter of the column's type",
            column.name
        )),
        None => not_admitted(&format!(
            "it is not known before the change whether policy admits the new rows of `{}`: give literals or parameters",
            relation.name
        )),
    }
}
