//! Where a principal, a role or a tag is defined.

use std::ops::Range;

use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use palisade::policy::{PolicyWordKind, find_word};
use toml_edit::{Document, Item};

/// A file of the folder, and the bytes in it.
pub(super) type Place = (&'static str, Range<usize>);

/// Where the word at `offset` of a file is defined. `read` gives the text of another file of the folder.
pub(super) fn find_definition(
    text: &str,
    offset: usize,
    read: impl Fn(&str) -> Option<String>,
) -> Option<Place> {
    match find_word(text, offset)?.kind {
        PolicyWordKind::Entity { kind, id } if kind != "Tagged" => {
            let range = find_entity(&read(ENTITIES)?, &kind, &id)?;
            Some((ENTITIES, range))
        }
        PolicyWordKind::Text(tag) | PolicyWordKind::Entity { id: tag, .. } => {
            let range = find_tag(&read(CLASSIFICATION)?, &tag)?;
            Some((CLASSIFICATION, range))
        }
        PolicyWordKind::Annotation(_) | PolicyWordKind::Comment(_) | PolicyWordKind::Name(_) => {
            None
        }
    }
}

const ENTITIES: &str = "entities.json";
const CLASSIFICATION: &str = "classification.toml";

/// The id of an entity, where its `uid` names it.
fn find_entity(text: &str, kind: &str, id: &str) -> Option<Range<usize>> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()).ok()?;
    let value = parsed.value?;
    let entities = value.as_array()?.elements.iter();
    entities
        .filter_map(ast::Value::as_object)
        .filter_map(|entity| entity.get_object("uid"))
        .find_map(|uid| {
            let (found_kind, found_id) = (uid.get_string("type")?, uid.get_string("id")?);
            let is_it = found_kind.value == kind && found_id.value == id;
            is_it.then_some(found_id.range.start..found_id.range.end)
        })
}

/// A tag, where the classification first gives it.
fn find_tag(text: &str, tag: &str) -> Option<Range<usize>> {
    let document = Document::parse(text).ok()?;
    for section in ["column", "table"] {
        let tables = document.get(section).and_then(Item::as_array_of_tables);
        for table in tables.into_iter().flatten() {
            let tags = table.get("tags").and_then(Item::as_array);
            let mut tags = tags.into_iter().flatten();
            if let Some(found) = tags.find(|one| one.as_str() == Some(tag)) {
                return found.span();
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_and_tags_are_found_where_they_are_defined() {
        let entities = r#"[{"uid": {"type": "User", "id": "a"}, "parents": [{"type": "Role", "id": "a"}]},
            {"uid": {"type": "Role", "id": "a"}, "attrs": {}, "parents": []}]"#;
        let found = find_entity(entities, "Role", "a");
        let start = entities.rfind("\"a\"");
        assert_eq!(found.map(|range| range.start), start);
        assert_eq!(find_entity(entities, "Role", "b"), None);
        assert_eq!(find_entity("[", "Role", "a"), None);
        let tags = "[[column]]\nname = \"pii\"\ntags = [\"x\", \"pii\"]\n";
        let found = find_tag(tags, "pii");
        assert_eq!(found.map(|range| range.start), tags.rfind("\"pii\""));
        assert_eq!(find_tag(tags, "y"), None);
    }
}
