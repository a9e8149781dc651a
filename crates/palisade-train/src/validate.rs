//! Cross-validation: no source is judged by weights that it taught.

use std::collections::BTreeMap;

use crate::{
    corpus::{Group, Row},
    examples::Examples,
    learn::Model,
};

/// Parts that the sources are divided into.
const FOLDS: usize = 6;

/// The score of each text by weights learned without its source; none without a passage.
pub(crate) fn scores_by_others(examples: &Examples) -> Vec<Option<f64>> {
    let folds = folds(examples);
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
    for example in examples.all.iter().filter(|e| e.weight > 0.0) {
        let (injections, others) = sources.entry(&example.source).or_default();
        if example.injection {
            *injections += 1;
        } else {
            *others += 1;
        }
    }
    for example in &examples.all {
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

/// A table of what each sensitivity flags, by group, and by whether rows of the group may be learned from.
pub(crate) fn report(
    rows: &[Row],
    examples: &Examples,
    scores: &[Option<f64>],
    thresholds: [f64; 4],
) -> String {
    let mut groups: BTreeMap<(Group, &str), Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        groups
            .entry((row.group(), &row.purpose))
            .or_default()
            .push(index);
    }
    let [support, possible, likely, certain] = thresholds;
    let by_pattern = |i: usize| examples.all.get(i).is_some_and(|e| e.by_pattern);
    let by_trusted = |i: usize| examples.all.get(i).is_some_and(|e| e.by_trusted);
    let reaches = |i: usize, threshold: f64| {
        scores
            .get(i)
            .is_some_and(|s| s.is_some_and(|s| s >= threshold))
    };
    let mut table = String::from(
        "| texts | use | count | patterns alone | strict | balanced | quiet |\n|---|---|---|---|---|---|---|\n",
    );
    for ((group, purpose), indexes) in groups {
        table += &format!("| {} | {purpose} | {} |", group.name(), indexes.len());
        let sensitivities: [&dyn Fn(usize) -> bool; 4] = [
            &by_pattern,
            &|i| by_pattern(i) || reaches(i, possible),
            &|i| by_trusted(i) || by_pattern(i) && reaches(i, support) || reaches(i, likely),
            &|i| reaches(i, certain),
        ];
        for flags in sensitivities {
            let count = indexes.iter().filter(|i| flags(**i)).count();
            table += &format!(" {:.2} |", 100.0 * count as f64 / indexes.len() as f64);
        }
        table.push('\n');
    }
    table
}
