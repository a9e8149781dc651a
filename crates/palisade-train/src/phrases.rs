//! Sentences of our own: attacks, and honest ones with the same words. They are made from the files in `phrases`, in every run the same.

use std::collections::{BTreeSet, HashMap};

use crate::corpus::Row;

/// The files, with the sentences that each line of a file gives at most.
const FILES: [(&str, usize); 6] = [
    (include_str!("../phrases/english.txt"), 45),
    (include_str!("../phrases/machines.txt"), 45),
    (include_str!("../phrases/honest.txt"), 40),
    (include_str!("../phrases/languages.txt"), 24),
    (include_str!("../phrases/plain.txt"), 24),
    (include_str!("../phrases/questions.txt"), 24),
];

/// What the rows have as their source. They are always learned from, and never judged.
pub(crate) const SOURCE: &str = "phrases";

/// Every sentence as a row to learn from.
///
/// # Errors
/// If a line is neither a slot nor a sentence, or names a slot that is not above it.
pub(crate) fn rows() -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (file, most) in FILES {
        let mut slots: HashMap<&str, Vec<&str>> = HashMap::new();
        let (mut attacks, mut honest) = (Vec::new(), Vec::new());
        let mut chance = Chance(0x2545_F491_4F6C_DD1D);
        for line in file.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let sentence = [("+ ", "injection"), ("- ", "benign")]
                .into_iter()
                .find_map(|(mark, label)| Some((line.strip_prefix(mark)?, label)));
            if let Some((template, label)) = sentence {
                let mut made = BTreeSet::new();
                for _ in 0..most {
                    let text = fill(template, &slots, &mut chance)?;
                    made.insert(text);
                }
                if label == "injection" {
                    attacks.extend(made);
                } else {
                    honest.extend(made);
                }
            } else {
                let (name, words) = line
                    .split_once(" = ")
                    .ok_or_else(|| format!("neither a slot nor a sentence: {line}"))?;
                slots.insert(name, words.split(" | ").collect());
            }
        }
        // Every third attack stands among honest sentences.
        for (number, attack) in attacks.iter_mut().enumerate() {
            if number % 3 == 0
                && let (Some(before), Some(after)) = (chance.pick(&honest), chance.pick(&honest))
            {
                *attack = match chance.draw_below(3) {
                    0 => format!("{before} {attack}"),
                    1 => format!("{attack} {after}"),
                    _ => format!("{before} {attack} {after}"),
                };
            }
        }
        let label = |label| move |text| Row::of_phrase(text, label);
        rows.extend(attacks.into_iter().map(label("injection")));
        rows.extend(honest.into_iter().map(label("benign")));
    }
    Ok(rows)
}

/// A sentence of `template`, its first letter at times a capital.
fn fill(
    template: &str,
    slots: &HashMap<&str, Vec<&str>>,
    chance: &mut Chance,
) -> Result<String, String> {
    let mut text = template.to_owned();
    // The innermost choice or slot first.
    while let Some(end) = text.find(['}', ')']) {
        let is_slot = text.as_bytes().get(end) == Some(&b'}');
        let before = text.get(..end).unwrap_or_default();
        let start = before
            .rfind(if is_slot { '{' } else { '(' })
            .ok_or_else(|| format!("a bracket is not opened: {template}"))?;
        let inner = before.get(start + 1..).unwrap_or_default();
        let word = if is_slot {
            let words = slots.get(inner);
            words.and_then(|words| chance.pick(words)).copied()
        } else {
            let words: Vec<&str> = inner.split('|').collect();
            chance.pick(&words).copied()
        };
        let word = word
            .ok_or_else(|| format!("no slot {inner}: {template}"))?
            .to_owned();
        text.replace_range(start..=end, &word);
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut chars = text.chars();
    Ok(match chars.next() {
        Some(first) if chance.draw_below(3) > 0 => first.to_uppercase().chain(chars).collect(),
        Some(_) | None => text,
    })
}

/// Numbers that look random.
struct Chance(u64);

impl Chance {
    fn draw_below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 20) % (most.max(1) as u64)).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let index = self.draw_below(from.len());
        from.get(index)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_line_gives_whole_sentences_and_the_same_in_every_run() {
        let texts = || -> Vec<String> { rows().unwrap().into_iter().map(|r| r.text).collect() };
        let first = texts();
        assert!(first.len() > 5000, "{}", first.len());
        assert_eq!(first, texts());
        for text in first {
            assert!(!text.contains(['{', '}', '(', ')']), "{text}");
        }
    }

    #[test]
    fn a_slot_that_is_missing_is_told() {
        let mut chance = Chance(1);
        let slots = HashMap::from([("word", vec!["kettle"])]);
        let made = fill("the (blue|blue) {word}", &slots, &mut chance).unwrap();
        assert!(made.eq_ignore_ascii_case("the blue kettle"));
        assert!(fill("the {cup}", &slots, &mut chance).is_err());
        assert!(fill("the cup)", &slots, &mut chance).is_err());
    }
}
