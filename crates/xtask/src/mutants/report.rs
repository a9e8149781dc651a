//! What became of each change, and the share that was noticed.

use std::collections::BTreeMap;

use super::{build::LeftOut, list::Mutant};
use crate::run::Result;

/// Least share of changes that tests must notice, in percent.
const LEAST_PERCENT: usize = 95;

/// What became of the changes that were drawn.
pub(super) struct Outcomes<'a> {
    pub(super) equivalent: &'a [Mutant],
    pub(super) tested: &'a [Mutant],
    pub(super) left_out: &'a LeftOut,
    /// By number: the test program, and its test.
    pub(super) noticed: &'a BTreeMap<u32, (String, String)>,
}

impl Outcomes<'_> {
    /// Prints them; an error where too few were noticed.
    pub(super) fn report(&self) -> Result {
        let out = self.left_out.numbers();
        let missed: Vec<&Mutant> = (0..)
            .zip(self.tested)
            .filter(|(number, _)| !out.contains(number) && !self.noticed.contains_key(number))
            .map(|(_, mutant)| mutant)
            .collect();
        self.print_list("do not compile", &self.left_out.unviable);
        self.print_list("cannot be switched", &self.left_out.unswitched);
        let mut stages: BTreeMap<&str, usize> = BTreeMap::new();
        for (stage, _) in self.noticed.values() {
            *stages.entry(stage).or_default() += 1;
        }
        println!("\nnoticed by:");
        for (stage, count) in stages {
            println!("  {count:4} {stage}");
        }
        for mutant in &missed {
            println!("\nmissed: {}\n  {}", mutant.name, mutant.place.to_row());
        }
        let of = self.noticed.len() + missed.len();
        let percent = 100 * self.noticed.len() / of.max(1);
        println!(
            "\n{} drawn: {} equivalent, {} do not compile, {} cannot be switched\n\
             {} of {of} were noticed: {percent} %",
            self.equivalent.len() + self.tested.len(),
            self.equivalent.len(),
            self.left_out.unviable.len(),
            self.left_out.unswitched.len(),
            self.noticed.len(),
        );
        if 100 * self.noticed.len() >= LEAST_PERCENT * of {
            return Ok(());
        }
        Err(format!(
            "less than {LEAST_PERCENT} % were noticed. Write tests for the {} missed, or add rows as they are printed to \
             crates/xtask/mutants.json with the reason why they make no difference",
            missed.len()
        ))
    }

    fn print_list(&self, what: &str, list: &BTreeMap<u32, String>) {
        for (number, reason) in list {
            let index = usize::try_from(*number).unwrap_or(usize::MAX);
            if let Some(mutant) = self.tested.get(index) {
                println!("{what}: {} ({reason})", mutant.name);
            }
        }
    }
}
