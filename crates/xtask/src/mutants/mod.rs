//! Whether tests notice when deciding code says something else: a sample of small changes, which `cargo-mutants` lists.
//!
//! Each change stands behind a switch in one tree, so that it is built once. A change is tried with the tests that reach it alone.

mod build;
mod list;
mod memory;
mod report;
mod run;
mod stages;
mod switches;
mod tree;

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Mutex, thread, time::Instant};

use build::{Binary, LeftOut, build};
use list::{Mutant, draw, install, list, read_equivalents};
use memory::Memory;
use report::Outcomes;
use run::Baseline;
use tree::Tree;

use crate::run::{Result, root};

const HELP: &str = "\
Usage: cargo xtask mutants [--sample N] [--seed S] [--only TEXT] [--from TEXT] [--afresh] [--list]

Changes the deciding code in N places (20) and runs the tests that reach each place, quick ones first, then those with
real servers. A change that no test notices is shown, unless `crates/xtask/mutants.json` says why it is equivalent.
Fails where less than 95 % are noticed. What is committed is tested.

A second run of the same sample and seed tries those alone that were not noticed: after one that was stopped, or with
new tests.

  --sample N      how many changes are drawn
  --seed S        which ones (1)
  --only TEXT     of those, the ones with TEXT in their name
  --from TEXT     begins with the first test program that has TEXT in its name, for a run that was stopped there
  --afresh        draws and tries all of them again
  --list          prints those that are drawn, and runs nothing

Example:
  cargo xtask mutants --sample 5 --seed 7 --list";

/// How many changes are tried at a time.
const AT_A_TIME: usize = 2;

/// Draws changes and runs the tests over each, as `args` say.
pub(crate) fn run_sample(args: &[String]) -> Result {
    let Some(wanted) = Wanted::parse(args)? else {
        println!("{HELP}");
        return Ok(());
    };
    let program = install()?;
    let mut tree = Tree::prepare()?;
    let path = folder().join(format!("{}-{}.json", wanted.sample, wanted.seed));
    if wanted.is_afresh {
        let _ = fs::remove_file(&path);
    }
    let mut memory = Memory::recall(path)?;
    let all = list(&program, &tree.path)?;
    let mut drawn = memory.choose(all, |all| draw(all, wanted.sample, wanted.seed))?;
    drawn.retain(|mutant| mutant.name.contains(&wanted.only));
    if wanted.lists {
        for mutant in &drawn {
            println!("{}", mutant.name);
        }
        return Ok(());
    }
    let equivalents = read_equivalents()?;
    let (equivalent, tested): (Vec<_>, Vec<_>) = drawn
        .into_iter()
        .partition(|mutant| equivalents.contains(&mutant.place));
    let mut left_out = recall_left_out(&tested);
    println!("\n==> building the tests with {} changes", tested.len());
    let binaries = build(&mut tree, &tested, &mut left_out)?;
    remember_left_out(&tested, &left_out)?;
    let later = skip_programs(&binaries, &wanted.from)?;
    let noticed = try_changes(later, &tested, &left_out, &mut memory)?;
    Outcomes {
        equivalent: &equivalent,
        tested: &tested,
        left_out: &left_out,
        noticed: &noticed,
    }
    .report()
}

/// The programs from the first one on that has `from` in its name.
fn skip_programs<'b>(binaries: &'b [Binary], from: &str) -> Result<&'b [Binary]> {
    let is_first = |binary: &Binary| {
        format!("{} {}", binary.stage.package, binary.stage.target).contains(from)
    };
    let first = binaries.iter().position(is_first);
    first
        .and_then(|first| binaries.get(first..))
        .ok_or_else(|| format!("no test program has `{from}` in its name"))
}

/// Where and by which test each change was noticed, by its number.
fn try_changes(
    binaries: &[Binary],
    tested: &[Mutant],
    left_out: &LeftOut,
    memory: &mut Memory,
) -> Result<BTreeMap<u32, (String, String)>> {
    let out = left_out.numbers();
    let mut open: Vec<(u32, &Mutant)> = (0..).zip(tested).collect();
    open.retain(|(number, _)| !out.contains(number));
    let mut noticed = BTreeMap::new();
    open.retain(|(number, mutant)| {
        let known = memory.find(mutant).cloned();
        let is_open = known.is_none();
        noticed.extend(known.map(|by| (*number, by)));
        is_open
    });
    for (index, binary) in binaries.iter().enumerate() {
        if open.is_empty() {
            break;
        }
        let stage = format!("{} {}", binary.stage.package, binary.stage.target);
        println!("\n==> {} of {}: {stage}", index + 1, binaries.len());
        let baseline = Baseline::run(binary, &folder())?;
        for test in &baseline.failing {
            println!("    fails without a change, and is left out: {test}");
        }
        let reached = (open.iter()).filter(|(number, _)| baseline.reaches(*number));
        println!(
            "    {:.0} s; reaches {} of {} changes",
            baseline.seconds(),
            reached.count(),
            open.len()
        );
        let mut left = Vec::new();
        let note = |mutant: &Mutant, test: &str| memory.note(mutant, &stage, test);
        for (number, mutant, test) in try_each(&baseline, open, note)? {
            match test {
                Some(test) => {
                    noticed.insert(number, (stage.clone(), test));
                }
                None => left.push((number, mutant)),
            }
        }
        open = left;
    }
    Ok(noticed)
}

/// A change, and the test that noticed it.
type Tried<'a> = (u32, &'a Mutant, Option<String>);

/// Tries each change with the tests of one program, two at a time.
fn try_each<'a>(
    baseline: &Baseline<'_>,
    open: Vec<(u32, &'a Mutant)>,
    note: impl FnMut(&Mutant, &str) -> Result + Send,
) -> Result<Vec<Tried<'a>>> {
    let waiting = Mutex::new(open.into_iter());
    let note = Mutex::new(note);
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.next());
    let work = || {
        let mut tried = Vec::new();
        while let Some((number, mutant)) = next() {
            let start = Instant::now();
            let test = baseline.notice(number)?;
            if let Some(test) = &test {
                let seconds = start.elapsed().as_secs_f64();
                println!("    {seconds:5.1} s {}: {test}", mutant.name);
                if let Ok(mut note) = note.lock() {
                    note(mutant, test)?;
                }
            }
            tried.push((number, mutant, test));
        }
        Ok(tried)
    };
    let lost = || "a thread that ran tests has ended".to_owned();
    let done: Vec<Result<Vec<Tried<'a>>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        let join =
            |worker: thread::ScopedJoinHandle<'_, _>| worker.join().unwrap_or_else(|_| Err(lost()));
        workers.into_iter().map(join).collect()
    });
    let mut tried = Vec::new();
    for done in done {
        tried.extend(done?);
    }
    tried.sort_by_key(|(number, _, _)| *number);
    Ok(tried)
}

fn folder() -> PathBuf {
    root().join("target/mutants")
}

/// What was found not to compile before, by its name: each costs a build.
fn recall_left_out(tested: &[Mutant]) -> LeftOut {
    let text = fs::read(folder().join("left-out.json")).unwrap_or_default();
    let known: BTreeMap<String, (bool, String)> = serde_json::from_slice(&text).unwrap_or_default();
    let mut left_out = LeftOut::default();
    for (number, mutant) in (0..).zip(tested) {
        if let Some((unviable, reason)) = known.get(&mutant.name) {
            let list = if *unviable {
                &mut left_out.unviable
            } else {
                &mut left_out.unswitched
            };
            list.insert(number, reason.clone());
        }
    }
    left_out
}

fn remember_left_out(tested: &[Mutant], left_out: &LeftOut) -> Result {
    let mut known = BTreeMap::new();
    for (number, mutant) in (0..).zip(tested) {
        let unviable = left_out.unviable.get(&number).map(|reason| (true, reason));
        let unswitched = left_out
            .unswitched
            .get(&number)
            .map(|reason| (false, reason));
        if let Some(entry) = unviable.or(unswitched) {
            known.insert(&mutant.name, entry);
        }
    }
    let path = folder().join("left-out.json");
    let text = serde_json::to_vec(&known).map_err(|error| error.to_string())?;
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

struct Wanted {
    sample: usize,
    seed: u64,
    only: String,
    from: String,
    is_afresh: bool,
    lists: bool,
}

impl Wanted {
    fn parse(args: &[String]) -> Result<Option<Self>> {
        let mut wanted = Self {
            sample: 20,
            seed: 1,
            only: String::new(),
            from: String::new(),
            is_afresh: false,
            lists: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut number = || -> Result<u64> {
                let value = args.next().and_then(|value| value.parse().ok());
                value.ok_or_else(|| format!("`{arg}` needs a number\n\n{HELP}"))
            };
            match arg.as_str() {
                "--sample" => wanted.sample = usize::try_from(number()?).unwrap_or(usize::MAX),
                "--seed" => wanted.seed = number()?,
                "--only" => {
                    let text = args.next();
                    wanted.only = text.cloned().ok_or("`--only` needs a text")?;
                }
                "--from" => {
                    let text = args.next();
                    wanted.from = text.cloned().ok_or("`--from` needs a text")?;
                }
                "--afresh" => wanted.is_afresh = true,
                "--list" => wanted.lists = true,
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("there is no option `{other}`\n\n{HELP}")),
            }
        }
        Ok(Some(wanted))
    }
}
