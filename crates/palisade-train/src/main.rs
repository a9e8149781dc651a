//! Learns the weights of the scanner's score from a folder of texts, and says how well it judges sources that it has not seen.

mod beside;
mod corpus;
mod examples;
mod learn;
mod phrases;
mod provenance;
mod table;
mod validate;

use std::{fs, path::Path, process::ExitCode};

use examples::Examples;
use table::Table;

const HELP: &str = "\
Usage: cargo xtask train DIR [--beside TEXTS] [--write]

DIR holds injections.jsonl and benign.jsonl. Weights are learned from rows marked `use: \"train\"`,
and from the sentences in `phrases` of this crate.
Prints how well each source is judged by weights that were learned without it.

Options:
  --beside TEXTS  also judges injection_texts.jsonl and benign_texts.jsonl of
                  another folder, by weights learned from all of DIR
  --write         writes the weights and where they come from into the
                  scanner's crate; build it anew to use them";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match *args {
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        [dir] => train(Path::new(dir), None, false),
        [dir, "--write"] | ["--write", dir] => train(Path::new(dir), None, true),
        [dir, "--beside", beside] => train(Path::new(dir), Some(Path::new(beside)), false),
        [dir, "--beside", beside, "--write"] => {
            train(Path::new(dir), Some(Path::new(beside)), true)
        }
        _ => Err(format!(
            "one folder is needed, then `--beside` with another, then `--write`\n\n{HELP}"
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("palisade-train: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Of a thousand ordinary texts whose source was not learned from, how many reach the score that supports a pattern.
const SUPPORT: f64 = 20.0;
/// The same of the score that is certain.
const CERTAIN: f64 = 0.3;
/// Per cent of everyday texts that `Balanced` flags, and that a passage which is possibly an instruction reaches.
const LIKELY: f64 = 0.4;
const POSSIBLE: f64 = 1.0;

/// What the curve shows.
const CURVE: &str = "Per cent of texts that `balanced` would flag at other thresholds. The head of a column is the per cent of everyday texts \
     that it flags, of which a tenth are prompts and tasks.\n\n";

fn train(dir: &Path, beside: Option<&Path>, write: bool) -> Result<(), String> {
    let mut rows = corpus::read_rows(dir)?;
    let judged = rows.len();
    rows.extend(phrases::rows()?);
    let count = rows.len();
    rows.extend(
        beside
            .map(beside::read_rows)
            .transpose()?
            .unwrap_or_default(),
    );
    let mut examples = Examples::read(&rows);
    let others = examples.all.split_off(count);
    let other_rows = rows.split_off(count);
    eprintln!("{count} texts, {} features", examples.hashes.len());
    let scores = validate::scores_by_others(&examples);
    let corpus = rows.get(..judged).unwrap_or_default();
    let support = validate::threshold(corpus, &scores, SUPPORT);
    let everyday =
        |per_cent| validate::threshold_of_everyday(corpus, &examples, &scores, support, per_cent);
    let certain = validate::threshold(corpus, &scores, CERTAIN);
    let thresholds = [support, everyday(POSSIBLE), everyday(LIKELY), certain];
    let report = validate::report(corpus, &examples, &scores, thresholds);
    let curve = validate::curve(corpus, &examples, &scores, thresholds);
    println!("{report}\n{CURVE}{curve}");
    if !write && beside.is_none() {
        return Ok(());
    }
    let among: Vec<usize> = (0..rows.len())
        .filter(|i| examples.all.get(*i).is_some_and(|e| e.weight > 0.0))
        .collect();
    let model = learn::Model::learn(&examples, &among);
    if beside.is_some() {
        let others = Examples {
            all: others,
            hashes: Vec::new(),
        };
        let flags: Vec<[bool; 3]> = others
            .all
            .iter()
            .enumerate()
            .map(|(i, example)| validate::flags(example, model.score(&others, i), thresholds))
            .collect();
        println!("{}", beside::report(&other_rows, &flags));
    }
    if !write {
        return Ok(());
    }
    let table = Table::quantise(&model, &examples.hashes, thresholds);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../palisade-scan/src/score");
    for (name, bytes) in [
        ("weights.bin", table.bytes.clone()),
        (
            "weights.md",
            provenance::describe(
                corpus,
                &examples,
                &table,
                &format!("{report}\n{CURVE}{curve}"),
            )?
            .into_bytes(),
        ),
    ] {
        let path = folder.join(name);
        fs::write(&path, bytes)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    println!("{} weights are written; build the scanner anew", table.kept);
    Ok(())
}
