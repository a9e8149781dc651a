//! Other tools' own cases: the same verdict, where it does not hang on that tool's settings.

use palisade::{code::Code, limits::Limits};

use crate::{
    args::{Arguments, Part},
    data::{self, Expect, PeerCase},
    decide::{Verdict, decide},
    derive::Derived,
    fault::Fault,
    parallel, policies,
    record::{Judgement, Record, Rows},
};

/// Names added before a statement is given up.
const MAX_ROUNDS: usize = 64;

/// Measures the cases, each over a catalog made of the names it uses.
///
/// # Errors
/// If the data cannot be read.
pub(crate) fn evaluate(arguments: &Arguments) -> Result<Vec<Record>, Fault> {
    let cases = arguments.select_rows(data::rows::<PeerCase>(&arguments.dir, Part::Peer)?, |row| {
        (Some(row.engine), family(row), &row.id)
    });
    parallel::map("peers' cases", &cases, arguments.jobs, judge)
}

/// The family of a case: judged, or what it hangs on that is not ours.
fn family(case: &PeerCase) -> &'static str {
    if case.heuristic_only {
        "heuristic_only"
    } else if case.config_dependent {
        "config_dependent"
    } else if case.needs_policy {
        "needs_policy"
    } else {
        "judged"
    }
}

fn judge(case: &PeerCase) -> Result<Record, Fault> {
    let mut derived = Derived::new(case.engine);
    let mut rounds = 0_usize;
    let (code, message) = loop {
        let catalog = derived.catalog().map_err(|source| Fault::Derived {
            id: case.id.clone(),
            source,
        })?;
        let firewall = policies::read_everything(&case.id, catalog, Limits::default())?;
        match decide(&firewall, &case.sql, None) {
            Verdict::Allow(statement) => {
                break (None, palisade::danger::parts(&statement).sql.to_owned());
            }
            Verdict::Reject(rejection) => {
                rounds = rounds.saturating_add(1);
                if rounds > MAX_ROUNDS || !derived.grow(&rejection, &case.sql) {
                    break (Some(rejection.code()), rejection.message().to_owned());
                }
            }
            Verdict::Broken(message) => break (Some(Code::Internal), message),
        }
    };
    // Two statements in one text are refused whatever they are.
    let expected = match code {
        Some(Code::SyntaxMultiple) => Expect::Deny,
        Some(_) | None => case.expect,
    };
    let agreed = (expected == Expect::Allow) == code.is_none();
    Ok(Record {
        part: Part::Peer,
        engine: Some(case.engine),
        family: family(case).to_owned(),
        category: match case.expect {
            Expect::Allow => "allow",
            Expect::Deny => "deny",
        }
        .to_owned(),
        id: case.id.clone(),
        text: case.sql.clone(),
        judgement: if agreed {
            Judgement::Right
        } else {
            Judgement::Wrong
        },
        rows: Rows::NotCompared,
        code: code.map(Code::slug),
        message,
    })
}
