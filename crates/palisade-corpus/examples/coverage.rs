//! Prints the manual's page of what is read and what is refused.

use std::{error::Error, fs, path::PathBuf};

use palisade_corpus::{Corpus, Coverage, Runner};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let coverage = Coverage::parse(&fs::read_to_string(folder.join("coverage.toml"))?)?;
    let runner = Runner::new(&Corpus::load(folder)?)?;
    print!("{}", coverage.page(&runner)?);
    Ok(())
}
