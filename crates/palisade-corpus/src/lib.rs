//! The case format of Palisade's corpus: load, run, report.
//!
//! A corpus is a folder. One set of cases serves the tests, the benchmarks, the fuzz targets and the command line:
//!
//! * `catalogs/*.sql`: tables and rows. `desk.postgres.sql` and `desk.mysql.sql` are of those dialects; their cases are
//!   decided and do not run.
//! * `policies/*/`: policy folders.
//! * `techniques.toml`: the techniques of attack, by id.
//! * `accept/*.toml` and so on: the cases of five [`Suite`]s.
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
//! A file with one catalog and one principal has its common keys before its cases, as above. A file with several has
//! them in a `[[part]]` each, and its cases are `[[part.case]]`:
//!
//! ```toml
//! [[part]]
//! catalog = ["ledger", "ledger.mysql"]  # every case on both engines
//! policies = "clerk"
//! as = 'Agent::"clerk"'
//!
//! [[part.case]]
//! name = "an-update-of-a-hidden-row"
//! ```
//!
//! Keys of a file or a part:
//!
//! | key | meaning |
//! |---|---|
//! | `catalog` | one catalog, or a list: then every case runs on each |
//! | `policies` | the policy folder |
//! | `as` | the principal; a case may name its own |
//! | `at` | the moment in UTC, to the millisecond: `"2026-03-01T12:00:00Z"`; the beginning of 1970 if left out. A case may name its own |
//! | `transport` | `"library"`, if left out, `"cli"`, `"stdio"` or `"http"`: how the statement comes. A case may name its own |
//! | `token_lifetime` | `"24h"`, as in the configuration; without it tokens do not expire |
//! | `never` | texts that no answer may contain; added to those of each case |
//!
//! Keys of a case beside `name`, `why`, `decision`, and `sql` or `template`, the name of a template that is run:
//!
//! | key | of | meaning |
//! |---|---|---|
//! | `ids` | all | the techniques that it tries, from `techniques.toml` |
//! | `params`, `limits`, `on_finding` | all | the request and the limits; of a template `params` are its arguments by name |
//! | `bench` | all | the benchmarks measure it |
//! | `policies` | all | the determining policies |
//! | `code`, `message` | refused | the code, and the exact message |
//! | `rewritten` | allowed | the exact text that runs |
//! | `columns`, `masked`, `rows` | allowed | the answer |
//! | `used_masks`, `empty_reason` | allowed | what it says of masked columns that were used, and why there is no row |
//! | `ordered` | allowed | whether the order of rows counts; by default whether `sql` says ORDER BY |
//! | `max_time_ms` | allowed | the most milliseconds that policies give it |
//! | `approval` | refused | whose approval it waits for: `"required"` or `"operator"` |
//! | `truncated`, `findings` | allowed | the notices of the answer |
//! | `preserve` | allowed | names and rows equal those of the bare engine |
//! | `affected` | changes | how many rows change |
//! | `on_data` | changes | the code of the refusal once the statement runs over the data |
//! | `approvers`, `no_approvers` | changes | principals who may approve it, and who may not |
//!
//! A policy folder may name a server for catalogs of PostgreSQL, MySQL and MariaDB, in `tests/servers.toml`; then their
//! cases run, and have rows:
//!
//! ```toml
//! ["shop.postgres"]                     # tests/shop.postgres.sql
//! url = "postgres://tester@localhost/postgres"
//! password_env = "TEST_PASSWORD"
//! disposable = true                     # it holds nothing but tests
//! ```
//!
//! Policies see the transport as `context.transport`, and the moment as `context.time`, and the keys of expiring tokens are those of its span. The engine's own
//! clock does not follow it. A case writes a token as an earlier case got it: the rows of one case contain it, and a case
//! at another moment asks with it.
//!
//! TOML has no null: an empty table, `{}`, stands for NULL in `rows` and `params`. Unknown keys are
//! errors. [`Corpus::load`] reads the folder, [`Runner`] decides about a case and runs it,
//! [`Difference`] says what was not as expected.

mod access_request;
mod case;
mod case_text;
mod clause_coverage;
mod compare;
mod cores;
mod coverage;
mod diff;
mod fixture;
mod folder;
mod generate;
mod host;
pub mod junit;
mod lcov;
mod learn;
mod load;
mod lock;
mod matrix;
mod mutation;
#[cfg(feature = "mysql")]
mod mysql;
mod only_policy;
mod policy_coverage;
#[cfg(feature = "postgres")]
mod postgres;
mod probe;
mod probe_case;
mod progress;
mod property;
mod prove;
mod prove_any;
mod prove_any_compare;
mod prove_bound;
mod prove_compare;
mod question;
mod replay;
mod report;
mod reproduce;
mod row_maker;
mod row_sets;
mod run;
mod schema_name;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod server;
mod smallest;
#[cfg(feature = "sqlite")]
mod sqlite;
mod survivor;
mod test_rule;
mod test_server;
mod unreachable;
mod update;
mod why;
mod wish;
mod witness;
mod written;

pub use access_request::AccessRequest;
pub use case::{After, Case, Expectation, Shown, Suite, Verdict, arises_on_execution};
pub use clause_coverage::{ClauseHits, PolicyHits, Seen};
pub use compare::Difference;
pub use coverage::Coverage;
pub use diff::{Direction, PolicyChange, PolicyDiff};
pub use folder::PolicyTests;
pub use generate::{GenerateError, Generated};
pub use learn::{LearnError, Learned};
pub use load::{Corpus, CorpusError, Place, catalog_file, policy_sources};
pub use lock::Lock;
pub use mutation::{Fate, MutantResult, MutationReport};
pub use policy_coverage::{Covered, PolicyCoverage};
pub use progress::Step;
pub use property::{Bound, Claim, Properties, Property, RowBound, Who};
pub use prove::{Counterexample, Outcome, Proof, Proofs, ProveError, World};
pub use replay::{AskedStatement, Literals, PolicyVersions, Replay};
pub use report::{CaseResult, Report, Status, TextForm};
pub use run::{Answer, Approval, Ran, RunError, Runner, SECRET};
pub use survivor::Survivor;
pub use test_rule::{EXAMPLE_FILES, TestRule, TestWarning, TestWarnings};
pub use test_server::TestServer;
pub use update::Update;
pub use why::Why;
pub use witness::Witness;
