//! Palisade as an MCP server: tools over one [`Guard`](palisade::guard::Guard) or several.
//!
//! [`serve_stdio`] is the whole server over standard input and output. [`serve`] is the same over any
//! pair of streams. [`PalisadeServer`] is the `rmcp` handler, for servers with a transport of their own.
//!
//! | tool | does |
//! |---|---|
//! | `list_databases` | names the connections, and the SQL that each speaks |
//! | `list_schemas` | names the schemas in which something exists for the principal |
//! | `list_tables`, `list_views` | name the tables and views that exist for the principal, page by page |
//! | `search_objects` | finds tables and columns by a part of their names |
//! | `describe_table` | columns, keys, indexes and masks of a table, and what may be changed |
//! | `schema_dump` | the same of all tables, as CREATE statements |
//! | `policy_explain` | what the principal may do: tables, masks, changes, limits |
//! | `policy_test` | says what would become of a statement, which is not run |
//! | `explain_query` | the engine's plan of a query |
//! | `query` | runs one reading statement with parameters |
//! | `execute` | runs one statement that may change what policy permits, where [`ServeOptions::writable`] says so and some policy permits a change |
//! | `propose_change`, `validate_change`, `commit_change` | a change that is looked at before it is kept, where the guard has a store for changes |
//! | `compensate_change` | proposes a change that undoes a committed one |
//! | `list_receipts`, `trace` | what was committed, and what happened to a row |
//! | `list_changes`, `inspect_change`, `approve_change`, `reject_change` | the same for whoever may approve it |
//! | `list_templates`, `run_template` | statements that the operator prepared, where the principal may run any |
//! | `create_snapshot`, `delete_snapshot`, `list_snapshots` | moments with a name, as of which `query` reads, where a table has a history |
//! | `diff_table`, `list_history` | what is different between two moments, and what became of a table or a row |
//! | `revert_table` | proposes a change that sets a table back to how it was |
//!
//! Resources say the same of names by URI, as calls of these tools. Prompts teach their use. Arguments are completed with names that
//! the caller may see, and clients are told of resources that they watch.
//!
//! Over several databases, every tool takes `connection`, one of their names; each has its own gate, policies, principal
//! and room, and a call reaches one of them. Over a single one there is no such argument.
//!
//! Every tool reaches the database through the guard and in no other way. The operator's
//! [`PrincipalSource`] says who asks: one principal for a server, or one for each request by what the transport knows of it. No
//! header and no argument chooses one by itself.
//!
//! What a client says of itself (`clientInfo`, and `palisade/purpose` in the `_meta` of a call) is recorded as a claim. Where a
//! reload of policies makes tools come or go, clients are told (`notifications/tools/list_changed`).
//!
//! A call of a client that declares the protocol's tasks extension goes on as a task where it takes long or waits for a person. Tasks
//! are in memory, and of who began them alone: a transport without lasting connections names its [`Caller`].
//!
//! A refusal, bad arguments included, is a tool result with `isError: true`. Its structured content has `code`,
//! `message`, `retryable`, `remediation_hint`, `context` and `next_valid_actions`. An `incident` is there where the
//! agent is not told all, and `retry_after_ms` where there is no place for a call (`limit.busy`). Two requests are
//! protocol errors: a request that reaches no tool, and a line that is no request or larger than the largest statement needs.
//!
//! Rows are one string: a compact table between random marks, as text and without structured content, so that every client hands
//! its model the same. With `format: "json"` they are typed, in structured content and in text. Every copy is marked as data:
//! structured content begins with `content_policy` or `before_rows`, and `rows_end` stands behind rows. What hides or imitates in
//! names and cells is spelled out. [`AnswerSize`] bounds each copy.
//!
//! Standard output belongs to the protocol. This crate never prints, and [`ProtocolStreams::take`] hands what anything else of the
//! process prints to standard error. A process that serves should log there. `rmcp` logs whole requests and answers at its levels
//! `debug` and `trace`, and errors of the protocol at `warn` (target `rmcp::service`). A subscriber must not let them through where
//! logs may not hold data.
//!
//! # Files
//!
//! Messages:
//!
//! * `serve`: a server over two streams, until the client goes away.
//! * `streams`: keeps standard output for the protocol.
//! * `lines`: bounds lines before anything is made of them.
//! * `request`: what keeps a line from being a request.
//! * `server`: the handler: finds the tool, and makes a result of what comes of it.
//! * `flight`: requests of a client that have no answer yet.
//! * `turn`: who may decide on a thread for which others wait.
//! * `queue`: who runs next, where more is asked for than runs at once.
//! * `load`: how much a server has to do now.
//! * `running`: calls that run, and how they end when nothing waits for them.
//! * `tasks`: calls that go on without their requests, each of its owner.
//! * `confirm`: a person's approval by the client's own means; of tasks in `confirm/in_task`.
//! * `watch`: what clients are told without asking.
//!
//! Tools:
//!
//! * `tool_name`: the table of tools.
//! * `arguments`: what a tool takes.
//! * `declare`: the tools as clients see them, with their schemas.
//! * `tool_set`: which tools a server offers.
//! * `narrow`: which of them one request leaves.
//! * `template_tools`: templates as tools; `template_clashes` where two would have one name.
//! * `icons`: the icons of tools.
//! * `calls`: finds a call its place and thread, and records it.
//! * `tool_calls`: what each tool does.
//! * `change_tools`: the tools of changes in steps.
//! * `past_tools`: the tools of tables as they were.
//! * `policy_test`: the answer of `policy_test`.
//! * `schema_dump`: the answer of `schema_dump`.
//! * `metadata`: the answers of `list_tables` and `describe_table`.
//! * `lists`: pages of lists; `cursor` says where the next one begins.
//! * `answer`: what a tool gives back.
//! * `refusals`: refusals of calls that run no statement.
//!
//! Resources and prompts:
//!
//! * `resources`: what tools about names answer, by URI.
//! * `complete`: completion of arguments.
//! * `resource_calls`: makes the calls of tools behind both.
//! * `prompts`: prompts that teach safe use.
//!
//! Databases and operators:
//!
//! * `connections`: the databases of one server.
//! * `late`: databases that are opened while the server answers.
//! * `readiness`: whether databases answer.
//! * `options`: what an operator decides about a connection.
//! * `claims`: what a client says of itself, for records.
//! * `observe`: tells of calls that have ended, for traces and metrics.
//! * `approval_page`: the operator's page on which a person decides.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod answer;
mod approval_page;
mod arguments;
mod calls;
mod change_tools;
mod claims;
mod complete;
mod confirm;
mod connections;
mod cursor;
mod declare;
mod flight;
mod icons;
mod late;
mod lines;
mod lists;
mod load;
pub mod metadata;
mod narrow;
mod observe;
mod options;
mod past_tools;
mod policy_test;
mod prompts;
mod queue;
mod readiness;
mod refusals;
mod request;
mod resource_calls;
mod resources;
mod running;
mod schema_dump;
mod serve;
mod server;
mod streams;
mod tasks;
mod template_clashes;
mod template_tools;
mod tool_calls;
mod tool_name;
mod tool_set;
mod turn;
mod watch;

pub use approval_page::{ApprovalPage, ApprovalPageError};
pub use connections::ConnectionsError;
pub use late::LateConnection;
pub use load::{ConnectionLoad, Load};
pub use narrow::Narrowing;
pub use observe::{CallObserver, CallOutcome, ObservedCall, ObservedStage};
pub use options::{AnswerSize, Asker, PrincipalSource, ServeOptions};
/// The protocol whose types this crate shows.
pub use rmcp;

pub use serve::{ServeError, serve, serve_peer, serve_stdio, serve_streams, serve_streams_until};
pub use server::PalisadeServer;
pub use streams::ProtocolStreams;
pub use tasks::Caller;
#[cfg(feature = "conformance")]
#[doc(hidden)]
pub use tasks::OpenTask;
pub use tool_set::{ToolSet, UnknownToolError};
