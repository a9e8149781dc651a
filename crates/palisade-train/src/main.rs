//! Learns the weights of the scanner's score from a folder of texts, and says how well it judges sources that it has not seen.

mod corpus;
mod examples;
mod learn;
mod validate;

use std::{path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("palisade-train: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let dir = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or("name the folder of the texts")?;
    let rows = corpus::read_rows(&dir)?;
    let examples = examples::Examples::read(&rows);
    eprintln!("{} texts, {} features", rows.len(), examples.hashes.len());
    let scores = validate::scores_by_others(&examples);
    let thresholds = [10.0, 5.0, 3.0, 2.0, 1.0].map(|n| validate::threshold(&rows, &scores, n));
    println!("thresholds {thresholds:?}");
    if let Ok(f) = std::env::var("DUMP") {
        let t: Vec<String> = scores.iter().map(|s| format!("{}", s.unwrap_or(-99.0))).collect();
        std::fs::write(f, t.join("\n")).map_err(|e| e.to_string())?;
    }
    validate::print(&rows, &examples, &scores, &thresholds);
    Ok(())
}
