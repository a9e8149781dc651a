//! Cross-validation: no source is judged by weights that it taught.

use std::collections::BTreeMap;

use crate::{
    corpus::{Group, Row},
    examples::{Example, Examples},
    learn::Model,
    phrases::SOURCE,
};

/// Parts that the sources are divided into.
const FOLDS: usize = 6;

/// The score of each text by weights learned without its source; none without a passage.
pub(crate) fn scores_by_others(examples: &Examples) -> Vec<Option<f64>> {
    let folds = folds(examples);
    // Sentences of our own have no part: they are always learned from.
    let fold = |index: usize| {
        examples
            .all
            .get(index)
            .and_then(|e| folds.get(&e.source))
            .copied()
    };
    let mut scores = vec![None; examples.all.len()];
    for number in 0..FOLDS {
        let among: Vec<usize> = examples
            .all
            .iter()
            .enumerate()
            .filter(|(index, e)| e.weight > 0.0 && fold(*index) != Some(number))
            .map(|(index, _)| index)
            .collect();
        let model = Model::learn(examples, &among);
        for (index, score) in scores.iter_mut().enumerate() {
            if fold(index) == Some(number) {
                *score = model.score(examples, index);
            }
        }
        eprintln!("part {} of {FOLDS} is judged", number + 1);
    }
    scores
}

/// Sources to parts, so that each has about as many injections and as many honest texts.
fn folds(examples: &Examples) -> BTreeMap<String, usize> {
    let mut sources: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for example in examples
        .all
        .iter()
        .filter(|e| e.weight > 0.0 && e.source != SOURCE)
    {
        let (injections, others) = sources.entry(&example.source).or_default();
        if example.injection {
            *injections += 1;
        } else {
            *others += 1;
        }
    }
    for example in examples.all.iter().filter(|e| e.source != SOURCE) {
        sources.entry(&example.source).or_default();
    }
    let mut by_size: Vec<_> = sources.into_iter().collect();
    by_size.sort_by_key(|(name, size)| (std::cmp::Reverse(*size), *name));
    let mut loads = [(0_usize, 0_usize); FOLDS];
    by_size
        .into_iter()
        .map(|(name, (injections, others))| {
            let least = loads
                .iter()
                .enumerate()
                .min_by_key(|(_, load)| {
                    if injections > 0 {
                        (load.0, load.1)
                    } else {
                        (load.1, load.0)
                    }
                })
                .map_or(0, |(fold, _)| fold);
            if let Some(load) = loads.get_mut(least) {
                load.0 += injections;
                load.1 += others;
            }
            (name.to_owned(), least)
        })
        .collect()
}

/// The scores that so many of a thousand ordinary texts reach.
pub(crate) fn threshold(rows: &[Row], scores: &[Option<f64>], per_mille: f64) -> f64 {
    let mut ordinary: Vec<f64> = rows
        .iter()
        .zip(scores)
        .filter(|(row, _)| row.group() == Group::Ordinary)
        .map(|(_, score)| score.unwrap_or(f64::NEG_INFINITY))
        .collect();
    ordinary.sort_by(|a, b| b.total_cmp(a));
    let place = (ordinary.len() as f64 * per_mille / 1000.0) as usize;
    ordinary.get(place).copied().unwrap_or(0.0) + 1e-9
}

/// What each sensitivity says of a text with this score: `Strict`, `Balanced` and `Quiet`.
pub(crate) fn flags(example: &Example, score: Option<f64>, thresholds: [f64; 4]) -> [bool; 3] {
    let [support, possible, likely, certain] = thresholds;
    let reaches = |threshold| score.is_some_and(|s| s >= threshold);
    [
        example.by_pattern || reaches(possible),
        example.by_trusted || example.by_pattern && reaches(support) || reaches(likely),
        reaches(certain),
    ]
}

/// A table of what each sensitivity flags, by group, and by whether rows of the group may be learned from.
pub(crate) fn report(
    rows: &[Row],
    examples: &Examples,
    scores: &[Option<f64>],
    thresholds: [f64; 4],
) -> String {
    let mut groups: BTreeMap<(Group, &str), (usize, [usize; 4])> = BTreeMap::new();
    for ((row, example), score) in rows.iter().zip(&examples.all).zip(scores) {
        let (count, flagged) = groups.entry((row.group(), &row.purpose)).or_default();
        *count += 1;
        let [strict, balanced, quiet] = flags(example, *score, thresholds);
        for (sum, flag) in flagged
            .iter_mut()
            .zip([example.by_pattern, strict, balanced, quiet])
        {
            *sum += usize::from(flag);
        }
    }
    let mut table = String::from(
        "| texts | use | count | patterns alone | strict | balanced | quiet |\n|---|---|---|---|---|---|---|\n",
    );
    for ((group, purpose), (count, flagged)) in groups {
        table += &format!("| {} | {purpose} | {count} |", group.name());
        for flagged in flagged {
            table += &format!(" {:.2} |", 100.0 * flagged as f64 / count as f64);
        }
        table.push('\n');
    }
    table
}

/// Per cent of everyday texts that are flagged at each point of the curve.
const CURVE: [f64; 7] = [0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0];
/// Of a hundred everyday texts so many are prompts and tasks; the others are ordinary.
const PROMPTS: f64 = 10.0;

/// The score that so many per cent of everyday texts reach, or are flagged by a pattern that `Balanced` believes.
pub(crate) fn threshold_of_everyday(
    rows: &[Row],
    examples: &Examples,
    scores: &[Option<f64>],
    support: f64,
    per_cent: f64,
) -> f64 {
    let none = f64::INFINITY;
    let share = |group| match group {
        Group::Ordinary => Some(100.0 - PROMPTS),
        Group::Prompt => Some(PROMPTS),
        Group::AboutAttacks
        | Group::HardBenign
        | Group::Direct
        | Group::Indirect
        | Group::Obfuscated
        | Group::OtherLanguage
        | Group::Jailbreak
        | Group::Subtle => None,
    };
    let mut counts: BTreeMap<Group, f64> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.group()).or_default() += 1.0;
    }
    let mut left = per_cent;
    let mut others: Vec<(f64, f64)> = Vec::new();
    for ((row, example), score) in rows.iter().zip(&examples.all).zip(scores) {
        let Some(share) = share(row.group()) else {
            continue;
        };
        let share = share / counts.get(&row.group()).copied().unwrap_or(1.0);
        let [_, by_pattern, _] = flags(example, *score, [support, none, none, none]);
        if by_pattern {
            left -= share;
        } else {
            others.push((score.unwrap_or(f64::NEG_INFINITY), share));
        }
    }
    others.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut least = none;
    for (score, share) in others {
        left -= share;
        least = score + 1e-9;
        if left < 0.0 {
            break;
        }
    }
    least
}

/// What `Balanced` would flag of each group if so many per cent of everyday texts were false alarms, by whichever part.
pub(crate) fn curve(
    rows: &[Row],
    examples: &Examples,
    scores: &[Option<f64>],
    thresholds: [f64; 4],
) -> String {
    let [support, possible, _, certain] = thresholds;
    let likely = CURVE.map(|point| threshold_of_everyday(rows, examples, scores, support, point));
    let mut groups: BTreeMap<Group, (usize, [usize; CURVE.len()])> = BTreeMap::new();
    for ((row, example), score) in rows.iter().zip(&examples.all).zip(scores) {
        let (count, flagged) = groups.entry(row.group()).or_default();
        *count += 1;
        for (sum, likely) in flagged.iter_mut().zip(likely) {
            let [_, flag, _] = flags(example, *score, [support, possible, likely, certain]);
            *sum += usize::from(flag);
        }
    }
    let mut table = String::from("| texts |");
    for point in CURVE {
        table += &format!(" {point:.1} |");
    }
    table += &format!("\n|---|{}\n", "---|".repeat(CURVE.len()));
    for (group, (count, flagged)) in groups {
        table += &format!("| {} |", group.name());
        for flagged in flagged {
            table += &format!(" {:.1} |", 100.0 * flagged as f64 / count as f64);
        }
        table.push('\n');
    }
    table
}
