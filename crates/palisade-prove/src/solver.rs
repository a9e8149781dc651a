//! The solver: a process of cvc5, asked with a time limit.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::Duration,
};

use cedar_policy_symcc::{CedarSymCompiler, err::Error, solver::LocalSolver};
use palisade::policy::{SymbolicAnswer, SymbolicQuestion};
use tokio::{
    process::Command,
    runtime::{Builder, Runtime},
    time::timeout,
};

use crate::compile::{compile, describe, read_model};

/// The oldest cvc5 that is asked: older ones have not been tried.
pub const OLDEST: (u32, u32, u32) = (1, 0, 3);

/// The variable that names the solver.
const VARIABLE: &str = "CVC5";

/// So many questions without an answer in time, one after the other, and no more are asked.
const PATIENCE: u32 = 3;

/// What the solver gets beyond its own limit before it is killed.
const GRACE: Duration = Duration::from_millis(500);

/// What a thread has that compiles, in bytes: policies may be nested deeply.
const STACK: usize = 64 * 1024 * 1024;

/// A process of cvc5 that answers questions, one after the other.
#[derive(Debug)]
pub struct Solver {
    program: PathBuf,
    limit: Duration,
    state: State,
    timeouts: u32,
}

#[derive(Debug)]
enum State {
    /// Nothing was asked yet.
    Untried,
    /// It is there, of a version that is asked; a process where one runs.
    Ready {
        runtime: Box<Runtime>,
        compiler: Option<Box<CedarSymCompiler<LocalSolver>>>,
    },
    /// Why nothing is asked.
    Unusable(String),
}

impl Solver {
    /// The program at `path`; without one what the variable `CVC5` names, or `cvc5` on the path. Each answer may take `limit`.
    #[must_use]
    pub fn new(path: Option<&Path>, limit: Duration) -> Self {
        let program = match path {
            Some(path) => path.to_owned(),
            None => env::var_os(VARIABLE).map_or_else(|| PathBuf::from("cvc5"), PathBuf::from),
        };
        Self {
            program,
            limit,
            state: State::Untried,
            timeouts: 0,
        }
    }

    /// Answers `question`.
    pub fn ask(&mut self, question: &SymbolicQuestion) -> SymbolicAnswer {
        thread::scope(|scope| {
            let work = thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, || self.answer(question));
            match work.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => SymbolicAnswer::Undecided("the symbolic compiler failed".to_owned()),
                Err(error) => SymbolicAnswer::Unavailable(format!("no thread: {error}")),
            }
        })
    }

    fn answer(&mut self, question: &SymbolicQuestion) -> SymbolicAnswer {
        if let State::Untried = self.state {
            self.state = match self.prepare() {
                Ok(runtime) => State::Ready {
                    runtime: Box::new(runtime),
                    compiler: None,
                },
                Err(why) => State::Unusable(why),
            };
        }
        if self.timeouts >= PATIENCE {
            self.state = State::Unusable(format!(
                "the solver `{}` did not answer {PATIENCE} times within {}, and is asked no more",
                self.program.display(),
                describe_seconds(self.limit)
            ));
        }
        let (program, limit) = (&self.program, self.limit);
        let (runtime, compiler) = match &mut self.state {
            State::Ready { runtime, compiler } => (runtime, compiler),
            State::Unusable(why) => return SymbolicAnswer::Unavailable(why.clone()),
            State::Untried => {
                return SymbolicAnswer::Unavailable("the solver was not tried".to_owned());
            }
        };
        let policies = match compile(question) {
            Ok(policies) => policies,
            Err(why) => {
                return SymbolicAnswer::Undecided(format!(
                    "Cedar's symbolic compiler does not take it: {why}"
                ));
            }
        };
        let asked = runtime.block_on(async {
            // Dropped, and killed with that, unless it is put back.
            let mut own = match compiler.take() {
                Some(own) => own,
                None => Box::new(start(program, limit)?),
            };
            // By no policy nothing is permitted, so that this asks about all of it.
            let check =
                own.check_implies_with_counterexample_opt(&policies.permits, &policies.within);
            let asked = timeout(limit + GRACE, check).await;
            match &asked {
                Ok(Ok(_) | Err(Error::SolverUnknown)) => *compiler = Some(own),
                Ok(Err(_)) | Err(_) => {
                    let _ = own.solver_mut().clean_up().await;
                }
            }
            Ok::<_, String>(asked)
        });
        let asked = match asked {
            Ok(asked) => asked,
            Err(why) => return SymbolicAnswer::Undecided(why),
        };
        let Ok(answered) = asked else {
            self.timeouts += 1;
            return SymbolicAnswer::Undecided(format!(
                "the solver did not answer within {} and was ended",
                describe_seconds(limit)
            ));
        };
        self.timeouts = 0;
        match answered {
            Ok(None) => SymbolicAnswer::Never,
            Ok(Some(env)) => match read_model(&env) {
                Ok(model) => SymbolicAnswer::Sometimes(model),
                Err(why) => SymbolicAnswer::Undecided(format!(
                    "the solver's principal cannot be read: {why}"
                )),
            },
            Err(Error::SolverUnknown) => SymbolicAnswer::Undecided(format!(
                "the solver does not know; it had {}",
                describe_seconds(limit)
            )),
            Err(error) => {
                SymbolicAnswer::Undecided(format!("the solver failed: {}", describe(&error)))
            }
        }
    }

    /// Looks which version the program is of.
    fn prepare(&self) -> Result<Runtime, String> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("no runtime for the solver: {error}"))?;
        let program = self.program.display();
        let how = format!(
            "name cvc5 {} or newer by `--solver` or the variable `{VARIABLE}`",
            describe_version(OLDEST)
        );
        let output = runtime.block_on(async {
            let run = Command::new(&self.program)
                .arg("--version")
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .output();
            timeout(self.limit + GRACE, run).await
        });
        let output = match output {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                return Err(format!(
                    "the solver `{program}` does not start: {error}; {how}"
                ));
            }
            Err(_) => {
                return Err(format!(
                    "the solver `{program}` did not tell its version within {}; {how}",
                    describe_seconds(self.limit)
                ));
            }
        };
        let text = String::from_utf8_lossy(&output.stdout);
        match read_version(&text) {
            Some(version) if version >= OLDEST => Ok(runtime),
            Some(version) => Err(format!(
                "the solver `{program}` is cvc5 {}, which is too old; {how}",
                describe_version(version)
            )),
            None => Err(format!("the solver `{program}` is no cvc5; {how}")),
        }
    }
}

/// Starts the program. What it hears from us is SMT-LIB alone.
fn start(program: &Path, limit: Duration) -> Result<CedarSymCompiler<LocalSolver>, String> {
    let mut command = Command::new(program);
    command
        .args(["--lang", "smt"])
        .arg(format!("--tlimit-per={}", limit.as_millis().max(1)))
        .kill_on_drop(true);
    let solver = LocalSolver::from_command(&mut command)
        .map_err(|error| format!("the solver does not start: {error}"))?;
    CedarSymCompiler::new(solver).map_err(|error| describe(&error))
}

/// The version in `This is cvc5 version 1.0.3`.
fn read_version(text: &str) -> Option<(u32, u32, u32)> {
    let (_, rest) = text.split_once("cvc5 version ")?;
    let word = rest.split_whitespace().next()?;
    // `1.3.1-dev.7.abc` is on the way to 1.3.1.
    let word = word.split('-').next()?;
    let mut numbers = word.split('.').map(str::parse::<u32>);
    let mut next = || numbers.next()?.ok();
    Some((next()?, next()?, next()?))
}

fn describe_version((major, minor, patch): (u32, u32, u32)) -> String {
    format!("{major}.{minor}.{patch}")
}

fn describe_seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::read_version;

    #[test]
    fn versions_are_read_where_cvc5_says_them() {
        for (text, expected) in [
            (
                "This is cvc5 version 1.0.3\ncompiled with GCC",
                Some((1, 0, 3)),
            ),
            ("This is cvc5 version 1.3.1-dev.7.ab [git]", Some((1, 3, 1))),
            ("cvc5 version 1.2", None),
            ("Z3 version 4.8.12", None),
            ("", None),
        ] {
            assert_eq!(read_version(text), expected, "{text}");
        }
    }
}
