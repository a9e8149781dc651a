//! Which of a caller's own literals the engine could not read.

use crate::{
    firewall::VisibleRelation,
    guard::engine_fault::{EngineFault, FaultClass},
    ident,
};

/// What is said of a literal of `asked` that is no value of its type, after `told`. Only what the engine found while it prepared the
/// statement counts: no row was looked at, so that its message tells of the literal alone. Literals of policies stay unsaid.
pub(in crate::guard) fn describe_wrong_literal(
    fault: &EngineFault,
    (told, asked): (&str, &str),
    relations: impl FnOnce() -> Vec<VisibleRelation>,
    search_path: &[String],
) -> Option<String> {
    let is_of_literals = matches!(
        fault.class,
        FaultClass::InvalidText | FaultClass::InvalidDate | FaultClass::InvalidJson
    );
    if !is_of_literals || !fault.is_of_preparation {
        return None;
    }
    let (before, quoted) = fault.message.split_once('"')?;
    let literal = quoted.strip_suffix('"')?;
    if literal.is_empty() || !asked.contains(&format!("'{literal}'")) {
        return None;
    }
    let told = match told.contains(" It said: ") {
        true => told.to_owned(),
        false => fault.describe_with_message(),
    };
    if let Some(type_name) = before.strip_prefix("invalid input value for enum ") {
        let type_name = type_name.trim_end_matches(": ");
        return Some(match find_labels(type_name, &relations(), search_path) {
            Some(labels) => format!("{told} Its labels are {}.", labels.join(", ")),
            None => told,
        });
    }
    Some(match before.starts_with("malformed array literal") {
        true => format!("{told} To look for an element, write '{literal}' = ANY(column)."),
        false => told,
    })
}

/// The labels of the enumeration called so, as far as a column tells them that is readable plain. The engine leaves the schema out
/// where that is on the search path, and catalogs may not.
fn find_labels<'r>(
    type_name: &str,
    relations: &'r [VisibleRelation],
    search_path: &[String],
) -> Option<&'r [String]> {
    let is_meant = |column: &str| {
        let on_path = |schema: &String| {
            column == format!("{}.{type_name}", ident::qualify([schema.as_str()]))
        };
        column == type_name || search_path.iter().any(on_path)
    };
    let columns = relations.iter().flat_map(|relation| &relation.columns);
    let mut found = columns
        .filter(|column| is_meant(&column.type_name))
        .filter_map(|column| column.labels.as_deref());
    let first = found.next()?;
    found.all(|labels| labels == first).then_some(first)
}
