//! Texts: what the scanner flags of those that would instruct a model, and of ordinary ones.

use palisade_scan::Scanner;

use crate::{
    args::{Arguments, Part},
    data::{self, BenignText, InjectionText},
    fault::Fault,
    record::{Judgement, Record, Rows},
};

/// Measures how many instructions are flagged, by tier.
///
/// # Errors
/// If the data cannot be read.
pub(crate) fn injections(arguments: &Arguments) -> Result<Vec<Record>, Fault> {
    let texts = arguments.select_rows(
        data::rows::<InjectionText>(&arguments.dir, Part::Injection)?,
        |row| (None, &row.tier, &row.id),
    );
    Ok(texts
        .into_iter()
        .map(|row| {
            let scanner = Scanner::with_sensitivity(arguments.sensitivity);
            record(
                scanner,
                Part::Injection,
                row.tier,
                row.label_noise,
                row.id,
                row.text,
            )
        })
        .collect())
}

/// Measures how many ordinary texts are left alone, by kind.
///
/// # Errors
/// If the data cannot be read.
pub(crate) fn benign(arguments: &Arguments) -> Result<Vec<Record>, Fault> {
    let texts = arguments.select_rows(
        data::rows::<BenignText>(&arguments.dir, Part::Texts)?,
        |row| (None, &row.kind, &row.id),
    );
    Ok(texts
        .into_iter()
        .map(|row| {
            let scanner = Scanner::with_sensitivity(arguments.sensitivity);
            record(
                scanner,
                Part::Texts,
                row.kind,
                row.label_noise,
                row.id,
                row.text,
            )
        })
        .collect())
}

fn record(
    scanner: Scanner,
    part: Part,
    family: String,
    doubtful: bool,
    id: String,
    text: String,
) -> Record {
    let found: Vec<&str> = scanner
        .detect(text.as_bytes())
        .iter()
        .map(|d| d.id)
        .collect();
    let flagged = !found.is_empty();
    let right = match part {
        Part::Injection => flagged,
        Part::Texts | Part::Benign | Part::Bypass | Part::Peer => !flagged,
    };
    Record {
        part,
        engine: None,
        family,
        category: if doubtful {
            "doubtful label"
        } else {
            "sure label"
        }
        .to_owned(),
        id,
        text,
        judgement: if right {
            Judgement::Right
        } else {
            Judgement::Wrong
        },
        rows: Rows::NotCompared,
        code: None,
        message: found.join(", "),
    }
}
