//! `palisade policy prove`: whether properties hold for a policy folder, by enumeration or by a solver.

use std::fmt::Write as _;

use palisade_corpus::{Outcome, PolicyTests, Proof, Proofs, Properties, ProveError, World};

use crate::{
    args::{Format, policy::ProveArguments},
    exit::{Exit, Failure},
    human,
    policy::test::{not_loaded, not_run},
    progress::ProgressLine,
    solver, stdout,
};

/// The file's name, in a policy folder.
const FILE: &str = "properties.toml";

/// So many reasons of one kind are printed for one property.
const MAX_REASONS: usize = 8;

/// Runs the command.
pub(crate) fn run(arguments: &ProveArguments) -> Result<Exit, Failure> {
    let path = match arguments.file.is_dir() {
        true => arguments.file.join(FILE),
        false => arguments.file.clone(),
    };
    let properties = Properties::load(&path).map_err(|error| {
        let failure = not_loaded(error);
        match (&failure, path.exists()) {
            (Failure::Usage(message), false) => Failure::Usage(format!(
                "{message}\n  help: write properties into it; docs/policies/proofs.md says how"
            )),
            (_, _) => failure,
        }
    })?;
    let tests = PolicyTests::load(&properties.folder).map_err(not_loaded)?;
    if tests.corpus().catalogs.is_empty() {
        return Err(Failure::Usage(format!(
            "there are no tables in `{}`\n  help: write `CREATE` statements into `NAME.sql` there",
            properties.folder.join("tests").display()
        )));
    }
    let line = ProgressLine::begin("proving");
    let tests = line.follow(tests);
    let proofs = match arguments.any_entities {
        true => solver::prove_any(arguments, &tests, &properties)?,
        false => tests.prove(&properties),
    };
    let proofs = proofs.map_err(|error| match error {
        ProveError::Run(error) => not_run(&error, &properties.folder),
        ProveError::Folder(error) => not_loaded(error),
        error @ ProveError::Names { .. } => Failure::Usage(error.to_string()),
    })?;
    drop(line);
    stdout::text(&match arguments.format {
        Format::Json => {
            let text = serde_json::to_string(&proofs)
                .map_err(|error| Failure::Internal(error.to_string()))?;
            text + "\n"
        }
        Format::Text => describe(&proofs),
    })?;
    let has = |outcome| {
        proofs
            .properties
            .iter()
            .any(|proof| proof.outcome == outcome)
    };
    Ok(if has(Outcome::Refuted) {
        Exit::Refused
    } else if has(Outcome::Undecided) {
        Exit::Undecided
    } else {
        Exit::Permitted
    })
}

/// For people: each property with its world, and what shows that it does not hold.
fn describe(proofs: &Proofs) -> String {
    let mut out = String::new();
    for proof in &proofs.properties {
        describe_proof(proof, &mut out);
    }
    let count = |outcome| {
        let is = proofs
            .properties
            .iter()
            .filter(|proof| proof.outcome == outcome);
        is.count()
    };
    let spurious: usize = proofs
        .properties
        .iter()
        .map(|proof| proof.spurious.len())
        .sum();
    let _ = writeln!(
        out,
        "{} proved, {} refuted, {} undecided; {spurious} spurious",
        count(Outcome::Proved),
        count(Outcome::Refuted),
        count(Outcome::Undecided),
    );
    out
}

fn describe_proof(proof: &Proof, out: &mut String) {
    let word = match proof.outcome {
        Outcome::Proved => "PROVED",
        Outcome::Refuted => "REFUTED",
        Outcome::Undecided => "UNDECIDED",
    };
    let mut line = |text: &str| {
        let _ = writeln!(out, "{}", human::printable(text));
    };
    match proof.outcome {
        Outcome::Proved => line(&format!("{word} {}", proof.name)),
        Outcome::Refuted | Outcome::Undecided => {
            line(&format!("{word} {} ({})", proof.name, proof.place));
            if !proof.why.is_empty() {
                line(&format!("  {}", proof.why));
            }
        }
    }
    line(&format!("  over {}", describe_world(&proof.world)));
    for example in &proof.counterexamples {
        let by = match example.policies.as_slice() {
            [] => String::new(),
            by => format!(", by {}", by.join(", ")),
        };
        line(&format!(
            "  {}: {} {}: {}{by}",
            example.principal, example.resource, example.action, example.shown
        ));
        line(&format!("    {}", example.sql));
        line(&format!("    {}", example.answer));
        let entities = example.entities.iter().flat_map(|text| text.lines());
        for text in entities {
            line(&format!("    {text}"));
        }
    }
    if proof.more > 0 {
        line(&format!("  and {} more places, not tried", proof.more));
    }
    for (what, reasons) in [
        ("undecided", &proof.undecided),
        ("spurious", &proof.spurious),
    ] {
        for reason in reasons.iter().take(MAX_REASONS) {
            line(&format!("  {what}: {reason}"));
        }
        if let more @ 1.. = reasons.len().saturating_sub(MAX_REASONS) {
            line(&format!("  {what}: and {more} more"));
        }
    }
}

/// `these entities and this catalog: demo, 4 principals, 7 columns`, or `any Agent and User, and this catalog: demo, 7 columns`.
fn describe_world(world: &World) -> String {
    let catalogs: Vec<&str> = world.catalogs.iter().map(String::as_str).collect();
    let which = match catalogs.as_slice() {
        [_] => "this catalog",
        [] | [_, ..] => "these catalogs",
    };
    let any: Vec<&str> = world.any_of.iter().map(String::as_str).collect();
    let (who, mut counted) = match any.is_empty() {
        true => {
            let counted = vec![format!("{} principals", world.principals)];
            ("these entities".to_owned(), counted)
        }
        false => (format!("any {}", any.join(" and ")), Vec::new()),
    };
    if world.tables > 0 {
        counted.push(format!("{} tables", world.tables));
    }
    if world.columns > 0 {
        counted.push(format!("{} columns", world.columns));
    }
    format!(
        "{who} and {which}: {}",
        [catalogs.join(", ")]
            .into_iter()
            .chain(counted)
            .collect::<Vec<_>>()
            .join(", ")
    )
}
