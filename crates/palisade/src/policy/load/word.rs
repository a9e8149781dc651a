//! What stands at a place of a policy file, for editors.

use std::ops::Range;

use crate::policy::load::source::{Kind, Token, lex, unescape};

/// A word of a policy file, as far as an editor can tell something of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyWord {
    /// Where it stands, in bytes. Of an entity or text that is not ended yet, what is between the quote and the end.
    pub range: Range<usize>,
    /// What it is.
    pub kind: PolicyWordKind,
}

/// What a word of a policy file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyWordKind {
    /// `Type::"id"`.
    Entity {
        /// Its type, namespaces included.
        kind: String,
        /// Its id, without escapes.
        id: String,
    },
    /// `@name`, without the `@`.
    Annotation(String),
    /// A comment, with its slashes.
    Comment(String),
    /// A string literal of no entity, without escapes.
    Text(String),
    /// Names joined by `::`, or one alone: `row::main::tickets`, `principal`.
    Name(String),
}

/// The word that stands around `offset` of `text`.
#[must_use]
pub fn find_word(text: &str, offset: usize) -> Option<PolicyWord> {
    let tokens = lex(text).into_iter();
    let around = tokens
        .skip_while(|token| token.range.end < offset)
        .take_while(|token| token.range.start <= offset);
    for token in around {
        let range = token.range.clone();
        let kind = match token.kind {
            Kind::Text => return Some(read_literal(text, token)),
            Kind::Annotation => {
                let name = token.text.trim_start_matches('@').trim();
                PolicyWordKind::Annotation(name.to_owned())
            }
            Kind::Comment => PolicyWordKind::Comment(token.text.to_owned()),
            Kind::Semicolon => continue,
            Kind::Other => {
                let Some(range) = find_name_around(text, offset) else {
                    continue;
                };
                // The type of an entity, whose id comes next.
                if let Some(literal) = find_id_behind(text, range.end) {
                    return Some(read_literal(text, literal));
                }
                let name = text.get(range.clone())?.to_owned();
                let kind = PolicyWordKind::Name(name);
                return Some(PolicyWord { range, kind });
            }
        };
        return Some(PolicyWord { range, kind });
    }
    None
}

/// A string literal, with the type in front of it.
fn read_literal(text: &str, token: Token<'_>) -> PolicyWord {
    let literal = unescape(token.text);
    let before = text.get(..token.range.start).unwrap_or_default();
    match find_type_before(before) {
        Some(kind) => PolicyWord {
            range: before.len() - kind.written..token.range.end,
            kind: PolicyWordKind::Entity {
                kind: kind.name,
                id: literal,
            },
        },
        None => PolicyWord {
            range: token.range,
            kind: PolicyWordKind::Text(literal),
        },
    }
}

/// The id of an entity whose type ends at `end`.
fn find_id_behind(text: &str, end: usize) -> Option<Token<'_>> {
    let rest = text.get(end..)?;
    let rest = match text.get(..end)?.ends_with("::") {
        true => rest,
        false => rest.trim_start().strip_prefix("::")?,
    };
    let literal = rest.trim_start();
    let start = text.len() - literal.len();
    let token = lex(literal).into_iter().next()?;
    (token.kind == Kind::Text).then(|| Token {
        range: token.range.start + start..token.range.end + start,
        ..token
    })
}

/// The word that is being written at the end of `text`, which is a file up to its cursor.
#[must_use]
pub fn find_begun_word(text: &str) -> Option<PolicyWord> {
    let token = lex(text)
        .pop()
        .filter(|token| token.range.end == text.len())?;
    match token.kind {
        Kind::Text => {
            let is_ended = token.text.len() > 1
                && token.text.ends_with('"')
                && !token.text.trim_end_matches('"').ends_with('\\');
            if is_ended {
                return None;
            }
            let range = token.range.start + 1..token.range.end;
            let written = unescape(text.get(range.clone())?);
            let kind = match find_type_before(text.get(..token.range.start)?) {
                Some(kind) => PolicyWordKind::Entity {
                    kind: kind.name,
                    id: written,
                },
                None => PolicyWordKind::Text(written),
            };
            Some(PolicyWord { range, kind })
        }
        Kind::Annotation => {
            let name = token.text.trim_start_matches('@').to_owned();
            Some(PolicyWord {
                range: token.range,
                kind: PolicyWordKind::Annotation(name),
            })
        }
        Kind::Comment => Some(PolicyWord {
            kind: PolicyWordKind::Comment(token.text.to_owned()),
            range: token.range,
        }),
        Kind::Other => {
            let range = find_name_around(text, text.len())?;
            let name = text.get(range.clone())?.to_owned();
            Some(PolicyWord {
                range,
                kind: PolicyWordKind::Name(name),
            })
        }
        Kind::Semicolon => None,
    }
}

/// A type in front of an entity's id.
struct TypeBefore {
    name: String,
    /// Bytes from its beginning to the id.
    written: usize,
}

fn find_type_before(before: &str) -> Option<TypeBefore> {
    let path = before.trim_end().strip_suffix("::")?.trim_end();
    let start = path
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_of_name(*c) || *c == ':')
        .last()?
        .0;
    let name = path.get(start..)?.to_owned();
    Some(TypeBefore {
        written: before.len() - start,
        name,
    })
}

fn find_name_around(text: &str, offset: usize) -> Option<Range<usize>> {
    let is_part = |c: &char| is_of_name(*c) || *c == ':';
    let before = text.get(..offset)?.chars().rev();
    let before: usize = before.take_while(is_part).map(char::len_utf8).sum();
    let after = text.get(offset..)?.chars();
    let after: usize = after.take_while(is_part).map(char::len_utf8).sum();
    (before + after > 0).then_some(offset - before..offset + after)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const TEXT: &str = "// palisade:ignore redundant why\n@mask(\"last(4)\")\npermit (principal in Role :: \"a\\\"b\", action == Action::\"read\", resource is row::main::tea)\nwhen { resource.tags.contains(\"pii\") };\n";

    fn kind_at(part: &str, into: usize) -> PolicyWordKind {
        let offset = TEXT.find(part).unwrap() + into;
        find_word(TEXT, offset).unwrap().kind
    }

    #[test]
    fn words_are_found_around_a_place() {
        let entity = |kind: &str, id: &str| PolicyWordKind::Entity {
            kind: kind.to_owned(),
            id: id.to_owned(),
        };
        for into in [0, 3, 12] {
            assert_eq!(
                kind_at("Action::", into),
                entity("Action", "read"),
                "{into}"
            );
        }
        assert_eq!(kind_at("Role ::", 2), entity("Role", "a\"b"));
        assert_eq!(kind_at("Role ::", 10), entity("Role", "a\"b"));
        let annotation = PolicyWordKind::Annotation("mask".to_owned());
        assert_eq!(kind_at("@mask", 2), annotation);
        assert_eq!(kind_at("pii", 1), PolicyWordKind::Text("pii".to_owned()));
        let name = PolicyWordKind::Name("row::main::tea".to_owned());
        assert_eq!(kind_at("row::", 6), name);
        assert!(matches!(
            kind_at("redundant", 0),
            PolicyWordKind::Comment(_)
        ));
        assert_eq!(find_word(TEXT, TEXT.len()), None);
        assert_eq!(find_word("", 0), None);
    }

    #[test]
    fn words_are_found_while_they_are_written() {
        let begun = |text: &str| find_begun_word(text).map(|word| (word.range, word.kind));
        let entity = |kind: &str, id: &str| PolicyWordKind::Entity {
            kind: kind.to_owned(),
            id: id.to_owned(),
        };
        assert_eq!(begun("Action::\""), Some((9..9, entity("Action", ""))));
        let text = "permit (principal, action == Action::\"se";
        assert_eq!(begun(text), Some((38..40, entity("Action", "se"))));
        assert_eq!(
            begun("\"pi"),
            Some((1..3, PolicyWordKind::Text("pi".to_owned())))
        );
        assert_eq!(begun("Action::\"select\""), None);
        assert_eq!(
            begun("@ma"),
            Some((0..3, PolicyWordKind::Annotation("ma".to_owned())))
        );
        assert_eq!(begun("permit "), None);
        assert_eq!(begun("permit;"), None);
    }
}
