//! Learns the weights of the scanner's score from a folder of texts, and says how well it judges sources that it has not seen.

mod corpus;
mod examples;
mod learn;
mod provenance;
mod table;
mod validate;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

const HELP: &str = "\
Usage: cargo xtask train DIR [--write]

DIR holds injections.jsonl and benign.jsonl. Weights are learned from rows marked `use: \"train\"` alone.
Prints how well each source is judged by weights that were learned without it.

Options:
  --write  writes the weights and where they come from into the scanner's crate; build it anew to use them";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match *args {
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        [dir] | [dir, "--write"] | ["--write", dir] => train(&PathBuf::from(dir), args.len() == 2),
        _ => Err(format!(
            "one folder is needed, and nothing but `--write` beside it\n\n{HELP}"
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

/// Of a thousand ordinary texts, how many reach each threshold when their source was not learned from.
const FALSE_ALARMS: [f64; 4] = [20.0, 3.0, 0.35, 0.2];

fn train(dir: &Path, write: bool) -> Result<(), String> {
    let rows = corpus::read_rows(dir)?;
    let examples = examples::Examples::read(&rows);
    eprintln!("{} texts, {} features", rows.len(), examples.hashes.len());
    let scores = validate::scores_by_others(&examples);
    let thresholds = FALSE_ALARMS.map(|share| validate::threshold(&rows, &scores, share));
    let report = validate::report(&rows, &examples, &scores, thresholds);
    println!("{report}");
    if !write {
        return Ok(());
    }
    let among: Vec<usize> = (0..rows.len())
        .filter(|i| examples.all.get(*i).is_some_and(|e| e.weight > 0.0))
        .collect();
    let model = learn::Model::learn(&examples, &among);
    let table = table::Table::quantise(&model, &examples.hashes, thresholds);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../palisade-scan/src/score");
    for (name, bytes) in [
        ("weights.bin", table.bytes.clone()),
        (
            "weights.md",
            provenance::describe(&rows, &examples, &table, &report)?.into_bytes(),
        ),
    ] {
        let path = folder.join(name);
        fs::write(&path, bytes)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    println!("{} weights are written; build the scanner anew", table.kept);
    Ok(())
}
