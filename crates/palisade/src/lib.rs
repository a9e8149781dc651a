//! A SQL firewall for AI agents: the core.
//!
//! [`Firewall::check`](firewall::Firewall::check) takes the text of a statement. It gives back a statement that is safe to run exactly
//! as printed, or a refusal that an agent can act on. In between it parses the text, resolves every name against the catalog, lets Cedar policies
//! decide, and rewrites the statement so that masks, row filters and limits hold at the source.
//!
//! The core has no runtime, driver, file, environment, clock or randomness: they are arguments. [`guard::Guard`] is the gate that decides,
//! runs, scans and records over a [`guard::Backend`].
//!
//! What most programs need stands at the root. These modules come next:
//!
//! | module | has |
//! |---|---|
//! | [`guard`] | the gate and its outcomes: begin here, with a backend of `palisade-sqlite`, `palisade-postgres` or `palisade-mysql` |
//! | [`session`] | who asks, and how a statement came |
//! | [`answer`] | scanned rows, their typed cells, and what a model is given |
//! | [`rejection`], [`code`] | refusals, and what each code means |
//! | [`policy`], [`firewall`] | policies, and decisions without a database |
//! | [`audit`], [`approval`], [`change`], [`past`] | traits for records, approvals, changes in steps and snapshots |
//! | [`host`] | the clock and randomness that a program lends |
//! | [`catalog`], [`rewrite`], [`danger`] | for those who write a backend or run statements by themselves |
//!
//! ```
//! use palisade::answer::{Action, Marker, ScanSession};
//! use palisade::{Decision, Firewall, Params, PolicySources, Principal, Session, Value};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let db = rusqlite::Connection::open_in_memory()?;
//! db.execute_batch(
//!     "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, ssn TEXT);
//!      INSERT INTO users VALUES (1, 'Ann', '900-12-3456');",
//! )?;
//! let policy = r#"
//!     permit(principal, action, resource);
//!     @mask("last(4)")
//!     forbid(principal, action == Action::"read_plain", resource == Column::"main.users.ssn");
//! "#;
//! let policies = PolicySources::from_cedar("app.cedar", policy);
//! let firewall = Firewall::builder(palisade_sqlite::catalog(&db, "main")?, policies).build()?;
//!
//! let session = Session::new(Principal::parse(r#"Agent::"support-bot""#)?);
//! match firewall.check("SELECT name, ssn FROM users", &Params::None, &session)? {
//!     Decision::Reject(why) => println!("{}", serde_json::to_string(&why.for_agent())?),
//!     Decision::Allow(statement) => {
//!         let marker = Marker::from_bytes(*b"sixteen random b"); // from your source of randomness
//!         let mut scan = ScanSession::new(statement.scan_plan(), Action::Flag, marker);
//!         // What reads has a text of its own; changes go through a `Guard`.
//!         let text = statement.sql().ok_or("it changes data")?;
//!         let mut query = db.prepare(text)?;
//!         let mut rows = query.query([])?; // statement.params() where there are any
//!         while let Some(row) = rows.next()? {
//!             let cells = vec![Value::text(row.get::<_, String>(0)?), Value::text(row.get::<_, String>(1)?)];
//!             if scan.push(cells).is_break() {
//!                 break;
//!             }
//!         }
//!         let answer = scan.finish()?;
//! #       assert!(serde_json::to_string(&answer)?.contains(r#""ssn":"****3456""#));
//!         println!("{}", serde_json::to_string(&answer)?);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

pub mod access;
pub mod answer;
pub mod approval;
pub mod audit;
pub mod catalog;
pub mod change;
pub mod code;
pub mod danger;
pub mod dialect;
#[doc(hidden)]
pub mod did_you_mean;
mod digest;
pub mod error;
pub mod firewall;
pub mod guard;
pub mod host;
#[doc(hidden)]
pub mod ident;
pub mod limits;
mod lineage;
#[doc(hidden)]
pub mod moment;
pub mod past;
pub mod policy;
pub mod rejection;
mod resolve;
pub mod rewrite;
pub mod session;
mod stage_span;
mod syntax;
pub mod token;
pub mod tool_names;
pub mod value;

pub use code::Code;
pub use error::Error;
pub use firewall::{Decision, Firewall};
pub use guard::{Guard, Outcome, Refusal, Request};
pub use limits::Limits;
pub use policy::PolicySources;
pub use rejection::Rejection;
pub use session::{Principal, Session};
pub use value::{Params, Value};
