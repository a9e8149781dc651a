//! What a match of a pattern cannot do without.
//!
//! A pattern is a sequence; where a part of it can only be one of a few words, one of them must be in every match. One pass over
//! a text finds the words of all patterns, and a pattern of which a part is missing need not be tried.

use std::collections::BTreeSet;

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use crate::reach::Reach;

/// Words in lower case, with spaces for control characters. [`EDGE`] stands where a word of letters, digits and `_` has to begin or
/// end.
pub(crate) type Words = BTreeSet<String>;

/// Words one of which is in every match, and how much of the match is before and after it at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) words: Words,
    pub(crate) before: Reach,
    pub(crate) after: Reach,
}

impl Part {
    /// Words that are all of a match.
    fn from_words(words: Words) -> Self {
        Self {
            words,
            before: Reach::NOTHING,
            after: Reach::NOTHING,
        }
    }

    fn widen(self, before: Reach, after: Reach) -> Self {
        Self {
            words: self.words,
            before: before.and(self.before),
            after: self.after.and(after),
        }
    }
}

/// What stands at an end of a word of a [`Part`] where no letter may be beyond it.
pub(crate) const EDGE: char = '\u{1}';

/// Words of a part; with more of them it tells little.
const MOST_WORDS: usize = 96;
/// Characters of each word, and of one with both edges.
const LEAST_LENGTH: usize = 3;
const LEAST_WHOLE: usize = 2;
/// Parts of a pattern that are looked for.
const MOST_PARTS: usize = 4;
/// Words that honest text is full of.
const COMMON: &[&str] = &[
    "is", "to", "of", "in", "it", "on", "as", "at", "be", "we", "or", "an", "by", "if", "do", "no",
    "so", "us", "act", "add", "all", "and", "any", "are", "ask", "but", "can", "end", "for", "had",
    "has", "how", "ion", "its", "may", "new", "not", "now", "one", "our", "out", "put", "row",
    "run", "set", "the", "use", "was", "you", "about", "call", "data", "dent", "format", "in the",
    "inform", "order", "open", "sent", "then", "to be", "return", "have", "http", "https:", "info",
    "just", "know", "list", "make", "need", "only", "over", "read", "text", "that", "this", "user",
    "what", "will", "with", "would", "your",
];
/// The [`frequency`] from which on a part is not worth looking for.
const TOO_FREQUENT: usize = 100;

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
        Language::Words(words) => vec![Part::from_words(words)],
        Language::Parts(parts) => parts,
    };
    parts.retain(|part| is_telling(&part.words));
    for part in &mut parts {
        drop_longer_words(part);
    }
    parts.retain(|part| frequency(&part.words) < TOO_FREQUENT);
    parts.sort_by_key(|part| frequency(&part.words));
    parts.dedup_by(|part, before| part.words == before.words);
    parts.truncate(MOST_PARTS);
    if pattern.contains("(?u") {
        // Letters beyond ASCII can stand for others of more bytes.
        for part in &mut parts {
            (part.before, part.after) = (Reach::ENDLESS, Reach::ENDLESS);
        }
    }
    parts
}

/// A longer word tells nothing that one in it does not. Where that stands in it is not known.
fn drop_longer_words(part: &mut Part) {
    let all = part.words.clone();
    let mut longest = 0;
    part.words.retain(|word| {
        let is_longer = all
            .iter()
            .any(|other| other != word && !other.contains(EDGE) && word.contains(other.as_str()));
        if is_longer {
            longest = longest.max(word.len());
        }
        !is_longer
    });
    let more = Reach::of_bytes(longest);
    (part.before, part.after) = (part.before.and(more), part.after.and(more));
}

/// What is known of the matches of a part of a pattern.
enum Language {
    /// All of them.
    Words(Words),
    /// Of each of these one word is in every match.
    Parts(Vec<Part>),
}

fn read(hir: &Hir) -> Language {
    match hir.kind() {
        HirKind::Look(Look::WordAscii) => Language::Words(Words::from([EDGE.to_string()])),
        HirKind::Empty | HirKind::Look(_) => Language::Words(Words::from([String::new()])),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) if text.is_ascii() => Language::Words(Words::from([comparable(text)])),
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
                // One is in the first of them.
                (Language::Words(words), _, _) => {
                    let part = Part::from_words(words);
                    Language::Parts(vec![part.widen(Reach::NOTHING, Reach::from_hir(hir))])
                }
                (Language::Parts(parts), _, _) => {
                    let widen = |part: Part| part.widen(Reach::NOTHING, Reach::from_hir(hir));
                    Language::Parts(parts.into_iter().map(widen).collect())
                }
            }
        }
        HirKind::Concat(all) => read_sequence(all),
        HirKind::Alternation(all) => read_choice(all),
    }
}

fn read_class(class: &Class) -> Language {
    let bytes: Option<Vec<u8>> = match class {
        Class::Bytes(bytes) => Some(
            bytes
                .ranges()
                .iter()
                .flat_map(|r| r.start()..=r.end())
                .collect(),
        ),
        Class::Unicode(chars) => chars
            .ranges()
            .iter()
            .map(|r| Some(u8::try_from(r.start()).ok()?..=u8::try_from(r.end()).ok()?))
            .collect::<Option<Vec<_>>>()
            .map(|ranges| ranges.into_iter().flatten().collect()),
    };
    let words: Option<Words> = bytes.and_then(|bytes| {
        bytes
            .into_iter()
            .map(|b| {
                b.is_ascii()
                    .then(|| comparable(char::from(b).encode_utf8(&mut [0; 4])))
            })
            .collect()
    });
    match words {
        Some(words) if words.len() <= 4 => Language::Words(words),
        Some(_) | None => Language::Parts(Vec::new()),
    }
}

fn read_sequence(all: &[Hir]) -> Language {
    let mut parts: Vec<Part> = Vec::new();
    let mut run = Words::from([String::new()]);
    // What is before the run, and what has been read.
    let (mut before_run, mut read_before) = (Reach::NOTHING, Reach::NOTHING);
    let mut is_all = true;
    // Whether what was read ends with a character that is of no word.
    let mut after_gap = false;
    for hir in all {
        let reach = Reach::from_hir(hir);
        for part in &mut parts {
            part.after = part.after.and(reach);
        }
        let words = match read(hir) {
            Language::Words(words) => Some(words),
            Language::Parts(more) => {
                let widen = |part: Part| part.widen(read_before, Reach::NOTHING);
                parts.extend(more.into_iter().map(widen));
                None
            }
        };
        let gap = is_gap(hir);
        let read_upto = read_before.and(reach);
        match words {
            Some(next) if run.len() * next.len() <= MOST_WORDS => {
                run = join(&run, &next);
                // What may be empty ends as what is before it.
                after_gap &= next.contains("");
            }
            words => {
                is_all = false;
                if gap {
                    run = join(&run, &Words::from([EDGE.to_string()]));
                }
                parts.push(Part::from_words(run).widen(before_run, reach));
                after_gap = gap || after_gap && ends_with_gap(hir);
                before_run = if words.is_some() {
                    read_before
                } else {
                    read_upto
                };
                run = words.unwrap_or_else(|| {
                    let start = if after_gap {
                        EDGE.to_string()
                    } else {
                        String::new()
                    };
                    Words::from([start])
                });
            }
        }
        read_before = read_upto;
    }
    if is_all {
        return Language::Words(run);
    }
    parts.push(Part::from_words(run).widen(before_run, Reach::NOTHING));
    parts.retain(|part| is_telling(&part.words));
    Language::Parts(parts)
}

/// Each of `first` with each of `second` after it. Edges are told at the ends alone.
fn join(first: &Words, second: &Words) -> Words {
    let joined = first.iter().flat_map(|first| {
        second.iter().map(move |second| {
            let middle = first.trim_end_matches(EDGE);
            let rest = second.trim_start_matches(EDGE);
            match (middle.is_empty(), rest.is_empty()) {
                (true, true) if first.is_empty() => second.clone(),
                (true, true) => first.clone(),
                (true, false) if first.is_empty() => second.clone(),
                (true, false) => format!("{EDGE}{rest}"),
                (false, true) if second.is_empty() => first.clone(),
                (false, true) => format!("{middle}{EDGE}"),
                (false, false) => format!("{middle}{rest}"),
            }
        })
    });
    joined.collect()
}

/// Whether all that `hir` matches is one character or more that are of no word.
fn is_gap(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => repetition.min > 0 && is_gap(&repetition.sub),
        HirKind::Capture(capture) => is_gap(&capture.sub),
        HirKind::Class(Class::Bytes(bytes)) => !bytes.ranges().iter().any(|range| {
            (range.start()..=range.end()).any(|b| b == b'_' || b.is_ascii_alphanumeric())
        }),
        HirKind::Class(Class::Unicode(_))
        | HirKind::Empty
        | HirKind::Literal(_)
        | HirKind::Look(_)
        | HirKind::Concat(_)
        | HirKind::Alternation(_) => false,
    }
}

/// Whether what `hir` matches is empty or ends with a character that is of no word.
fn ends_with_gap(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => ends_with_gap(&repetition.sub),
        HirKind::Capture(capture) => ends_with_gap(&capture.sub),
        HirKind::Concat(all) => all.last().is_some_and(is_gap),
        HirKind::Alternation(all) => all.iter().all(ends_with_gap),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => is_gap(hir),
    }
}

fn read_choice(all: &[Hir]) -> Language {
    let mut any = Part::from_words(Words::new());
    let mut is_all = true;
    let mut add = |part: Part| {
        any.words.extend(part.words);
        any.before = any.before.or(part.before);
        any.after = any.after.or(part.after);
    };
    for hir in all {
        match read(hir) {
            Language::Words(words) => add(Part::from_words(words)),
            Language::Parts(parts) => {
                is_all = false;
                let telling = parts.into_iter().filter(|part| is_telling(&part.words));
                match telling.min_by_key(|part| frequency(&part.words)) {
                    Some(part) => add(part),
                    None => return Language::Parts(Vec::new()),
                }
            }
        }
    }
    if any.words.len() > MOST_WORDS {
        Language::Parts(Vec::new())
    } else if is_all {
        Language::Words(any.words)
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

fn is_telling(words: &Words) -> bool {
    let is_word = |word: &String| {
        let edges = word.starts_with(EDGE) && word.len() > 1 && word.ends_with(EDGE);
        let least = if edges { LEAST_WHOLE } else { LEAST_LENGTH };
        word.trim_matches(EDGE).len() >= least
    };
    !words.is_empty() && words.len() <= MOST_WORDS && words.iter().all(is_word)
}

/// About how often honest text has one of the words.
fn frequency(words: &Words) -> usize {
    words
        .iter()
        .map(|word| word.trim_matches(EDGE).trim())
        .map(|word| match word.len() {
            _ if COMMON.contains(&word) => 100,
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
            .map(|part| part.words.into_iter().collect())
            .collect();
        let expected = expected
            .iter()
            .map(|part| part.iter().map(|w| (*w).to_owned()).collect())
            .collect();
        assert_eq!(parts, expected, "{pattern}");
    }

    #[test]
    fn parts_of_a_sequence_are_needed_together() {
        check(
            "send.{0,9}(?:all|every) files",
            &[&["send"], &["all files", "every files"]],
        );
        check(
            r"(?:Ignore|drop)[a-z]rules?",
            &[&["drop", "ignore"], &["rule"]],
        );
        check(r"one\stwo", &[&["one two"]]);
        check("(?:tables?){2,3}", &[&["table"]]);
    }

    #[test]
    fn words_end_where_they_must() {
        check(
            r"\bhi\W+(?:\w+\W+){0,4}ai\b",
            &[&["\u{1}hi\u{1}"], &["\u{1}ai\u{1}"]],
        );
        check(r"\bsend\w*x{3,9}token", &[&["\u{1}send"], &["token"]]);
        check(r"(?:hi|ho)\b", &[]);
        check(r"\W(?:x\W)?ab\b", &[&["\u{1}ab\u{1}"]]);
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
