//! Which of a caller's own literals the engine could not read.

use crate::{
    firewall::VisibleRelation,
    guard::engine_fault::{EngineFault, FaultClass},
};

/// What is said of a literal of `asked` that is no value of its type, after `told`. Only what the engine found while it prepared the
/// statement counts: no row was looked at, so that its message tells of the literal alone. Literals of policies stay unsaid.
pub(in crate::guard) fn describe_wrong_literal(
    fault: &EngineFault,
    (told, asked): (&str, &str),
    relations: impl FnOnce() -> Vec<VisibleRelation>,
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
        return Some(match find_labels(type_name, &relations()) {
            Some(labels) => format!("{told} Its labels are {}.", labels.join(", ")),
            None => told,
        });
    }
    Some(match before.starts_with("malformed array literal") {
        true => format!("{told} To look for an element, write '{literal}' = ANY(column)."),
        false => told,
    })
}

/// The labels of the enumeration called so, as far as a column tells them that is readable plain.
fn find_labels<'r>(type_name: &str, relations: &'r [VisibleRelation]) -> Option<&'r [String]> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().replace('"', "");
    let wanted = last(type_name);
    let columns = relations.iter().flat_map(|relation| &relation.columns);
    let mut found = columns
        .filter(|column| last(&column.type_name) == wanted)
        .filter_map(|column| column.labels.as_deref());
    let first = found.next()?;
    // Types of one name in two schemas may have other labels.
    found.all(|labels| labels == first).then_some(first)
}
