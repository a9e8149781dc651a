//! What a match of a pattern cannot do without.
//!
//! A pattern is a sequence; where a part of it can only be one of a few words, one of them must be in every match. One pass over
//! a text finds the words of all patterns, and a pattern of which a part is missing need not be tried.

use std::collections::BTreeSet;

use regex_syntax::hir::{Class, Hir, HirKind};

/// Words one of which is in every match, in lower case, with spaces for control characters.
pub(crate) type Part = BTreeSet<String>;

/// Words of a part; with more of them it tells little.
const MOST_WORDS: usize = 96;
/// Characters of each word.
const LEAST_LENGTH: usize = 3;
/// Parts of a pattern that are looked for.
const MOST_PARTS: usize = 3;
/// Words that honest text is full of.
const COMMON: &[&str] = &[
    "act", "add", "all", "and", "any", "are", "ask", "but", "can", "end", "for", "had", "has", "how", "ion", "its",
    "may", "new", "not", "now", "one", "our", "out", "put", "row", "run", "set", "the", "use", "was", "you",
    "about", "call", "data", "dent", "format", "in the", "inform", "order", "open", "sent", "then", "to be", "return", "have", "http", "https:", "info", "just", "know", "list", "make", "need", "only", "over",
    "read", "text", "that", "this", "user", "what", "will", "with", "would", "your",
];
/// The [`frequency`] from which on a part is not worth looking for.
const TOO_FREQUENT: usize = 60;

/// The parts of `pattern` that tell most. Empty if none is known: then it has to be tried.
pub(crate) fn parts(pattern: &str) -> Vec<Part> {
    let parsed = regex_syntax::ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .build()
        .parse(pattern);
    let Ok(hir) = parsed else {
        return Vec::new();
    };
    let mut parts = match read(&hir) {
        Language::Words(words) => vec![words],
        Language::Parts(parts) => parts,
    };
    parts.retain(is_telling);
    for part in &mut parts {
        let all = part.clone();
        // A longer word tells nothing that one in it does not.
        part.retain(|word| !all.iter().any(|other| other != word && word.contains(other.as_str())));
    }
    parts.retain(|part| frequency(part) < TOO_FREQUENT);
    parts.sort_by_key(frequency);
    parts.dedup();
    parts.truncate(MOST_PARTS);
    parts
}

/// What is known of the matches of a part of a pattern.
enum Language {
    /// All of them.
    Words(Part),
    /// Of each of these one word is in every match.
    Parts(Vec<Part>),
}

fn read(hir: &Hir) -> Language {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Language::Words(Part::from([String::new()])),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) if text.is_ascii() => Language::Words(Part::from([comparable(text)])),
            // Upper case beyond ASCII is not undone before words are looked for.
            Ok(_) | Err(_) => Language::Parts(Vec::new()),
        },
        HirKind::Class(class) => read_class(class),
        HirKind::Capture(capture) => read(&capture.sub),
        HirKind::Repetition(repetition) => {
            match (read(&repetition.sub), repetition.min, repetition.max) {
                (Language::Words(words), 1, Some(1)) => Language::Words(words),
                (Language::Words(mut words), 0, Some(1)) => {
                    words.insert(String::new());
                    Language::Words(words)
                }
                (_, 0, _) => Language::Parts(Vec::new()),
                (Language::Words(words), _, _) => Language::Parts(vec![words]),
                (parts @ Language::Parts(_), _, _) => parts,
            }
        }
        HirKind::Concat(all) => read_sequence(all),
        HirKind::Alternation(all) => read_choice(all),
    }
}

fn read_class(class: &Class) -> Language {
    let bytes: Option<Vec<u8>> = match class {
        Class::Bytes(bytes) => Some(bytes.ranges().iter().flat_map(|r| r.start()..=r.end()).collect()),
        Class::Unicode(chars) => chars
            .ranges()
            .iter()
            .map(|r| Some(u8::try_from(r.start()).ok()?..=u8::try_from(r.end()).ok()?))
            .collect::<Option<Vec<_>>>()
            .map(|ranges| ranges.into_iter().flatten().collect()),
    };
    let words: Option<Part> = bytes.and_then(|bytes| {
        bytes
            .into_iter()
            .map(|b| b.is_ascii().then(|| comparable(char::from(b).encode_utf8(&mut [0; 4]))))
            .collect()
    });
    match words {
        Some(words) if words.len() <= 4 => Language::Words(words),
        Some(_) | None => Language::Parts(Vec::new()),
    }
}

fn read_sequence(all: &[Hir]) -> Language {
    let mut parts = Vec::new();
    let mut run = Part::from([String::new()]);
    let mut is_all = true;
    for hir in all {
        match read(hir) {
            Language::Words(next) if run.len() * next.len() <= MOST_WORDS => {
                run = run
                    .iter()
                    .flat_map(|first| next.iter().map(move |second| format!("{first}{second}")))
                    .collect();
            }
            Language::Words(next) => {
                is_all = false;
                parts.push(std::mem::replace(&mut run, next));
            }
            Language::Parts(more) => {
                is_all = false;
                parts.push(std::mem::replace(&mut run, Part::from([String::new()])));
                parts.extend(more);
            }
        }
    }
    if is_all {
        return Language::Words(run);
    }
    parts.push(run);
    parts.retain(is_telling);
    Language::Parts(parts)
}

fn read_choice(all: &[Hir]) -> Language {
    let mut any = Part::new();
    let mut is_all = true;
    for hir in all {
        match read(hir) {
            Language::Words(words) => any.extend(words),
            Language::Parts(parts) => {
                is_all = false;
                match parts.into_iter().filter(is_telling).min_by_key(frequency) {
                    Some(part) => any.extend(part),
                    None => return Language::Parts(Vec::new()),
                }
            }
        }
    }
    if any.len() > MOST_WORDS {
        Language::Parts(Vec::new())
    } else if is_all {
        Language::Words(any)
    } else {
        Language::Parts(vec![any])
    }
}

/// As texts are when words are looked for in them.
fn comparable(text: &str) -> String {
    text.chars()
        .map(|c| if c < ' ' { ' ' } else { c.to_ascii_lowercase() })
        .collect()
}

fn is_telling(part: &Part) -> bool {
    !part.is_empty() && part.len() <= MOST_WORDS && part.iter().all(|word| word.len() >= LEAST_LENGTH)
}

/// About how often honest text has one of the words.
fn frequency(part: &Part) -> usize {
    part.iter()
        .map(|word| match word.trim().len() {
            _ if COMMON.contains(&word.trim()) => 60,
            0..=3 => 15,
            4 => 8,
            5 => 4,
            6 | 7 => 2,
            8.. => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, expected: &[&[&str]]) {
        let parts: BTreeSet<Vec<String>> = parts(pattern)
            .into_iter()
            .map(|part| part.into_iter().collect())
            .collect();
        let expected = expected
            .iter()
            .map(|part| part.iter().map(|w| (*w).to_owned()).collect())
            .collect();
        assert_eq!(parts, expected, "{pattern}");
    }

    #[test]
    fn parts_of_a_sequence_are_needed_together() {
        check("send.{0,9}(?:all|every) files", &[&["send"], &["all files", "every files"]]);
        check(r"(?:Ignore|drop)\W+rules?\b", &[&["drop", "ignore"], &["rule"]]);
        check(r"one\stwo", &[&["one two"]]);
        check("(?:tables?){2,3}", &[&["table"]]);
    }

    #[test]
    fn what_may_be_left_out_is_not_needed() {
        check("(?:please)?.*now!", &[&["now!"]]);
        check("[a-z]+", &[]);
        check("(?:secret|.x)", &[]);
        check("(?:secret.y|token.x)", &[&["secret", "token"]]);
        check("(?:secret)*", &[]);
        check("(?u:забудь)", &[]);
        check("to", &[]);
        check("(", &[]);
    }
}
