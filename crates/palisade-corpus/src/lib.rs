//! The case format of Palisade's corpus: load, run, report.
//!
//! A corpus is a folder with `catalogs/*.sql` (tables and rows; `desk.postgres.sql` and `desk.mysql.sql` are
//! of those dialects, and cases about them are decided and not run), `policies/*/` (policy folders) and
//! the cases of five [`Suite`]s, `accept/*.toml` and so on. One set of cases serves the tests, the
//! benchmarks, the fuzz targets and the command line.
//!
//! ```toml
//! catalog = "desk"                      # corpus/catalogs/desk.sql
//! policies = "desk"                     # corpus/policies/desk/
//! as = 'Agent::"support-bot"'
//!
//! [[case]]
//! name = "a-masked-column-keeps-its-last-characters"
//! why = "The mask is computed in the database, below everything the statement does."
//! ids = ["M1"]
//! sql = "SELECT national_id AS x FROM customers WHERE id = 1"
//! decision = "allow"
//! masked = ["x"]
//! rows = [["****4321"]]
//! never = ["AB-1987-4321"]
//! ```
//!
//! What is common to a file stands before its cases: `catalog`, `policies`, `as`, `at`, `token_lifetime`, and `never`, which
//! is added to that of each case. A case may name its own `as` and `at`, and `params`, `limits`, `on_finding`,
//! `bench` and `preserve`. A refused case has a `code` and may have the exact `message`; either kind may
//! have the determining `policies`; an allowed one `rewritten`, `columns`, `masked`, `rows` with
//! `ordered` (by default whether the statement says ORDER BY), `truncated` and `findings`; one that changes rows
//! `affected`, or the code `on_data` by which it is refused once it meets the data.
//!
//! `at = "2026-03-01T12:00:00Z"` is the moment at which a case happens, in UTC to the millisecond; without it, that is the
//! beginning of 1970. Policies see it as `context.time`, and where tokens expire (`token_lifetime = "24h"`, as in the
//! configuration; without it they do not) the keys are those of its span. The engine's own clock is not turned. A token of a case is
//! written as it was given: the rows of a case at one moment hold it, and a case at another asks with it.
//!
//! TOML has no null: an empty table, `{}`, stands for NULL in `rows` and `params`. Unknown keys are
//! errors. [`Corpus::load`] reads the folder, [`Runner`] decides about a case and runs it,
//! [`Difference`] says what was not as expected.

mod case;
mod compare;
mod coverage;
mod host;
mod load;
mod run;

pub use case::{Case, Expectation, Suite, Verdict, arises_on_execution};
pub use compare::Difference;
pub use coverage::Coverage;
pub use load::{Corpus, CorpusError, policy_sources};
pub use run::{Answer, RunError, Runner, SECRET};
