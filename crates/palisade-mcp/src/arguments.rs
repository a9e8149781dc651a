//! What a tool takes: strictly, so that a misspelt argument is not an ignored one.

use std::collections::BTreeMap;

use palisade::{answer::Form, code::Code, rejection::Rejection, value::Params};
use rmcp::model::JsonObject;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    change_tools::{ChangeToolCall, MAX_REASON, read_id},
    lists::{Detail, Scope},
    past_tools::{PastToolCall, read_moment},
    tool_name::ToolName,
};

/// Rows an answer has if the caller names no limit.
pub(crate) const DEFAULT_ROWS: u64 = 100;
/// Rows a caller may ask for.
pub(crate) const MAX_ROWS: u64 = 1000;
/// Characters of a table's name.
const MAX_NAME: usize = 256;
/// Parameters of a statement: as many as any engine takes.
pub(crate) const MAX_PARAMETERS: usize = 65_535;
/// Bytes of all of them as JSON.
pub(crate) const MAX_PARAMETER_BYTES: usize = 2 << 20;
/// Characters of a message that quotes arguments.
const MAX_QUOTED: usize = 200;
/// Characters of a text by which its type is told from others: more than any word that an argument takes.
const MAX_WORD: usize = 64;

/// Whether history of any table is kept, so that `query` takes `as_of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum History {
    Kept,
    None,
}

/// How rows are wanted.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawForm {
    #[default]
    Table,
    Json,
}

impl From<RawForm> for Form {
    fn from(raw: RawForm) -> Self {
        match raw {
            RawForm::Table => Self::Table,
            RawForm::Json => Self::Json,
        }
    }
}

/// A call of `query`.
#[derive(Debug)]
pub(crate) struct QueryCall {
    pub(crate) sql: String,
    pub(crate) params: Params,
    /// From 1 to [`MAX_ROWS`].
    pub(crate) limit: u64,
    /// Milliseconds; the operator's limit may be lower.
    pub(crate) timeout_ms: Option<u64>,
    /// As of which snapshot or time tables are read.
    pub(crate) as_of: Option<String>,
    pub(crate) form: Form,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQuery {
    sql: String,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    limit: Option<Value>,
    #[serde(default)]
    format: RawForm,
    #[serde(default)]
    timeout_ms: Option<Value>,
    #[serde(default)]
    as_of: Option<String>,
}

/// The same where no history is kept: what is told of its arguments does not name `as_of`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQueryNow {
    sql: String,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    limit: Option<Value>,
    #[serde(default)]
    format: RawForm,
    #[serde(default)]
    timeout_ms: Option<Value>,
}

impl From<RawQueryNow> for RawQuery {
    fn from(raw: RawQueryNow) -> Self {
        let RawQueryNow {
            sql,
            params,
            limit,
            format,
            timeout_ms,
        } = raw;
        Self {
            sql,
            params,
            limit,
            format,
            timeout_ms,
            as_of: None,
        }
    }
}

/// A call of `execute`.
#[derive(Debug)]
pub(crate) struct ExecuteCall {
    pub(crate) sql: String,
    pub(crate) params: Params,
    /// At least 1; the operator's limit may be lower.
    pub(crate) max_affected_rows: Option<u64>,
    pub(crate) form: Form,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExecute {
    sql: String,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    max_affected_rows: Option<Value>,
    #[serde(default)]
    format: RawForm,
}

/// A call of `describe_table`.
#[derive(Debug)]
pub(crate) struct DescribeCall {
    pub(crate) table: String,
    /// Where the page of columns begins, under a seal.
    pub(crate) cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDescribe {
    table: String,
    #[serde(default)]
    cursor: Option<String>,
}

/// A call of `explain_query` or `policy_test`.
#[derive(Debug)]
pub(crate) struct StatementCall {
    pub(crate) sql: String,
    pub(crate) params: Params,
    /// How the rows of a plan are wanted.
    pub(crate) form: Form,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStatement {
    sql: String,
    #[serde(default)]
    params: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlan {
    sql: String,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    format: RawForm,
}

/// The arguments of `explain_query`.
fn plan(arguments: JsonObject) -> Result<StatementCall, Rejection> {
    let RawPlan {
        sql,
        params: given,
        format,
    } = read(arguments)?;
    Ok(StatementCall {
        sql,
        params: params(&given)?,
        form: format.into(),
    })
}

/// The arguments of `policy_test`.
fn statement(arguments: JsonObject) -> Result<StatementCall, Rejection> {
    let RawStatement { sql, params: given } = read(arguments)?;
    Ok(StatementCall {
        sql,
        params: params(&given)?,
        form: Form::default(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNothing {}

/// What a tool lists of the relations that its caller sees.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Listing {
    Schemas,
    Tables,
    Objects,
    Permissions,
    Definitions,
}

impl Listing {
    /// The tool to which a cursor of it belongs.
    pub(crate) fn tool(self) -> ToolName {
        match self {
            Self::Schemas => ToolName::ListSchemas,
            // `list_views` is a narrower one.
            Self::Tables => ToolName::ListTables,
            Self::Objects => ToolName::SearchObjects,
            Self::Permissions => ToolName::PolicyExplain,
            Self::Definitions => ToolName::SchemaDump,
        }
    }
}

/// A call of a tool that lists.
#[derive(Debug)]
pub(crate) struct ListCall {
    /// What of it.
    pub(crate) scope: Scope,
    /// Where the page begins, under a seal.
    pub(crate) cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPage {
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTables {
    #[serde(default)]
    schema: Option<String>,
    #[serde(default)]
    pattern: Option<String>,
    #[serde(default)]
    kind: Option<RawKind>,
    #[serde(default)]
    detail: RawDetail,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawViews {
    #[serde(default)]
    schema: Option<String>,
    #[serde(default)]
    pattern: Option<String>,
    #[serde(default)]
    detail: RawDetail,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDump {
    #[serde(default)]
    schema: Option<String>,
    #[serde(default)]
    pattern: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSearch {
    #[serde(default)]
    pattern: Option<String>,
    #[serde(default)]
    schema: Option<String>,
    #[serde(default)]
    kind: Option<RawObject>,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawKind {
    Table,
    View,
    System,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawObject {
    Table,
    View,
    Column,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawDetail {
    Names,
    #[default]
    Summary,
    Full,
}

impl From<RawDetail> for Detail {
    fn from(raw: RawDetail) -> Self {
        match raw {
            RawDetail::Names => Self::Names,
            RawDetail::Summary => Self::Summary,
            RawDetail::Full => Self::Full,
        }
    }
}

/// The arguments of a tool that lists everything.
fn page(arguments: JsonObject) -> Result<ListCall, Rejection> {
    let RawPage { cursor } = read(arguments)?;
    list_call(Scope::default(), cursor)
}

/// The arguments of `list_tables`.
fn tables(arguments: JsonObject) -> Result<ListCall, Rejection> {
    let RawTables {
        schema,
        pattern,
        kind,
        detail,
        cursor,
    } = read(arguments)?;
    let kind = kind.map(|kind| match kind {
        RawKind::Table => "table",
        RawKind::View => "view",
        RawKind::System => "system",
    });
    let scope = Scope {
        schema,
        pattern,
        kind,
        detail: detail.into(),
    };
    list_call(scope, cursor)
}

/// The arguments of `schema_dump`.
fn dump(arguments: JsonObject) -> Result<ListCall, Rejection> {
    let RawDump {
        schema,
        pattern,
        cursor,
    } = read(arguments)?;
    let scope = Scope {
        schema,
        pattern,
        kind: None,
        detail: Detail::default(),
    };
    list_call(scope, cursor)
}

/// The arguments of `list_views`.
fn views(arguments: JsonObject) -> Result<ListCall, Rejection> {
    let RawViews {
        schema,
        pattern,
        detail,
        cursor,
    } = read(arguments)?;
    let scope = Scope {
        schema,
        pattern,
        kind: Some("view"),
        detail: detail.into(),
    };
    list_call(scope, cursor)
}

/// The arguments of `search_objects`.
fn search(arguments: JsonObject) -> Result<ListCall, Rejection> {
    let RawSearch {
        pattern,
        schema,
        kind,
        cursor,
    } = read(arguments)?;
    let kind = kind.map(|kind| match kind {
        RawObject::Table => "table",
        RawObject::View => "view",
        RawObject::Column => "column",
    });
    let scope = Scope {
        schema,
        pattern,
        kind,
        detail: Detail::default(),
    };
    list_call(scope, cursor)
}

fn list_call(scope: Scope, cursor: Option<String>) -> Result<ListCall, Rejection> {
    for (argument, text) in [
        ("schema", &scope.schema),
        ("pattern", &scope.pattern),
        ("cursor", &cursor),
    ] {
        if text
            .as_ref()
            .is_some_and(|text| text.chars().count() > MAX_NAME)
        {
            return Err(invalid(format!(
                "`{argument}` must have at most {MAX_NAME} characters"
            )));
        }
    }
    Ok(ListCall { scope, cursor })
}

/// The arguments of `query`.
pub(crate) fn query(arguments: JsonObject, history: History) -> Result<QueryCall, Rejection> {
    let raw: RawQuery = match history {
        History::Kept => read(arguments)?,
        History::None => read_now(arguments)?.into(),
    };
    Ok(QueryCall {
        sql: raw.sql,
        params: params(&raw.params)?,
        limit: rows(raw.limit)?,
        timeout_ms: positive("timeout_ms", raw.timeout_ms)?,
        as_of: raw
            .as_of
            .map(|moment| read_moment("as_of", moment))
            .transpose()?,
        form: raw.format.into(),
    })
}

/// The arguments of `query` where no history is kept.
fn read_now(mut arguments: JsonObject) -> Result<RawQueryNow, Rejection> {
    // A null is as good as nothing.
    match arguments.remove("as_of") {
        None | Some(Value::Null) => read(arguments),
        Some(_) => Err(Rejection::new(
            Code::HistoryNotKept,
            "no history of any table is kept here; leave out `as_of`",
        )),
    }
}

/// A call of `run_template`.
#[derive(Debug)]
pub(crate) struct TemplateCall {
    pub(crate) template: String,
    pub(crate) arguments: BTreeMap<String, palisade::value::Value>,
    /// From 1 to [`MAX_ROWS`].
    pub(crate) limit: u64,
    pub(crate) form: Form,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTemplate {
    template: String,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    limit: Option<Value>,
    #[serde(default)]
    format: RawForm,
}

/// The arguments of `run_template`.
pub(crate) fn template(arguments: JsonObject) -> Result<TemplateCall, Rejection> {
    let RawTemplate {
        template,
        params,
        limit,
        format,
    } = read(arguments)?;
    let params = match params {
        Value::Null => JsonObject::new(),
        Value::Object(params) => params,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(invalid(
                "`params` must be an object with each parameter by its name".to_owned(),
            ));
        }
    };
    unless_too_many(params.len())?;
    let arguments = match Params::from_json(&Value::Object(params)) {
        Ok(Params::Named(values)) => values,
        Ok(Params::None | Params::Positional(_)) => BTreeMap::new(),
        Err(why) => return Err(invalid(format!("`params` does not fit: {why}"))),
    };
    Ok(TemplateCall {
        template,
        arguments,
        limit: rows(limit)?,
        form: format.into(),
    })
}

/// The arguments of `execute`.
pub(crate) fn execute(arguments: JsonObject) -> Result<ExecuteCall, Rejection> {
    let raw: RawExecute = read(arguments)?;
    let max_affected_rows = positive("max_affected_rows", raw.max_affected_rows)?;
    Ok(ExecuteCall {
        sql: raw.sql,
        params: params(&raw.params)?,
        max_affected_rows,
        form: raw.format.into(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPropose {
    statements: Vec<Value>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    max_affected_rows: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCompensate {
    change: String,
    #[serde(default)]
    reason: Option<String>,
}

/// What `revert_table` is called with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRevert {
    table: String,
    to: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChange {
    change: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLook {
    change: String,
    #[serde(default)]
    format: RawForm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReceipts {
    receipt: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTrace {
    table: String,
    key: JsonObject,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSnapshot {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDiff {
    table: String,
    from: String,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    format: RawForm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHistory {
    table: String,
    #[serde(default)]
    key: Option<JsonObject>,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    format: RawForm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawApprove {
    change: String,
    preview: String,
}

/// The arguments of `propose_change`.
fn propose(arguments: JsonObject) -> Result<ChangeToolCall, Rejection> {
    let raw: RawPropose = read(arguments)?;
    check_reason(raw.reason.as_deref())?;
    let statements = raw.statements.into_iter().map(read_statement);
    Ok(ChangeToolCall::Propose {
        statements: statements.collect::<Result<_, Rejection>>()?,
        reason: raw.reason,
        max_affected_rows: positive("max_affected_rows", raw.max_affected_rows)?,
    })
}

/// A statement of a change: with its values, or its text alone.
fn read_statement(entry: Value) -> Result<(String, Params), Rejection> {
    match entry {
        Value::String(sql) => Ok((sql, Params::None)),
        Value::Object(entry) => {
            let RawStatement { sql, params: given } = read(entry)?;
            Ok((sql, params(&given)?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(invalid(
            "an entry of `statements` must be an object with `sql` and `params`, or the text of one statement".to_owned(),
        )),
    }
}

fn check_reason(reason: Option<&str>) -> Result<(), Rejection> {
    match reason.is_some_and(|reason| reason.chars().count() > MAX_REASON) {
        true => Err(invalid(format!(
            "`reason` must have at most {MAX_REASON} characters"
        ))),
        false => Ok(()),
    }
}

/// The arguments of `compensate_change`.
fn compensate(arguments: JsonObject) -> Result<ChangeToolCall, Rejection> {
    let RawCompensate { change, reason } = read(arguments)?;
    check_reason(reason.as_deref())?;
    Ok(ChangeToolCall::Compensate {
        change: read_id("change", change)?,
        reason,
    })
}

/// The arguments of `revert_table`.
fn revert(arguments: JsonObject) -> Result<ChangeToolCall, Rejection> {
    let RawRevert { table, to, reason } = read(arguments)?;
    check_reason(reason.as_deref())?;
    Ok(ChangeToolCall::Revert {
        table,
        to: read_moment("to", to)?,
        reason,
    })
}

/// The arguments of a tool that names a change.
fn change(arguments: JsonObject) -> Result<String, Rejection> {
    let RawChange { change } = read(arguments)?;
    read_id("change", change)
}

/// The arguments of a tool that shows a change.
fn look(arguments: JsonObject) -> Result<(String, Form), Rejection> {
    let RawLook { change, format } = read(arguments)?;
    Ok((read_id("change", change)?, format.into()))
}

/// The arguments of `approve_change`.
fn approve(arguments: JsonObject) -> Result<ChangeToolCall, Rejection> {
    let RawApprove { change, preview } = read(arguments)?;
    Ok(ChangeToolCall::Approve {
        change: read_id("change", change)?,
        preview: read_id("preview", preview)?,
    })
}

/// The arguments of `list_receipts`.
fn receipts(arguments: JsonObject) -> Result<ChangeToolCall, Rejection> {
    let RawReceipts { receipt } = read(arguments)?;
    let receipt = receipt.map(|receipt| read_id("receipt", receipt));
    Ok(ChangeToolCall::Receipts(receipt.transpose()?))
}

/// The arguments of `trace`.
fn trace(arguments: JsonObject) -> Result<ChangeToolCall, Rejection> {
    let RawTrace { table, key } = read(arguments)?;
    let key = read_key(key)?;
    Ok(ChangeToolCall::Trace { table, key })
}

/// The primary key of a row.
fn read_key(key: JsonObject) -> Result<BTreeMap<String, palisade::value::Value>, Rejection> {
    match params(&Value::Object(key))? {
        Params::Named(key) => Ok(key),
        Params::None | Params::Positional(_) => Err(invalid(
            "`key` must be an object with each column of the primary key".to_owned(),
        )),
    }
}

/// The arguments of a tool that names a snapshot.
fn snapshot(arguments: JsonObject) -> Result<String, Rejection> {
    let RawSnapshot { name } = read(arguments)?;
    read_moment("name", name)
}

/// The arguments of `diff_table`.
fn diff(arguments: JsonObject) -> Result<PastToolCall, Rejection> {
    let RawDiff {
        table,
        from,
        to,
        format,
    } = read(arguments)?;
    Ok(PastToolCall::Diff {
        table,
        from: read_moment("from", from)?,
        to: to.map(|to| read_moment("to", to)).transpose()?,
        form: format.into(),
    })
}

/// The arguments of `list_history`.
fn list_history(arguments: JsonObject) -> Result<PastToolCall, Rejection> {
    let RawHistory {
        table,
        key,
        from,
        format,
    } = read(arguments)?;
    Ok(PastToolCall::History {
        table,
        key: key.map(read_key).transpose()?,
        from: from.map(|from| read_moment("from", from)).transpose()?,
        form: format.into(),
    })
}

/// What a call has for its tool.
#[derive(Debug)]
pub(crate) enum Call {
    List(Listing, ListCall),
    ListTemplates(ListCall),
    DescribeTable(DescribeCall),
    ExplainQuery(StatementCall),
    PolicyTest(StatementCall),
    RunTemplate(TemplateCall),
    Query(QueryCall),
    Execute(ExecuteCall),
    Change(ChangeToolCall),
    Past(PastToolCall),
}

impl Call {
    /// Reads the arguments of `tool`.
    pub(crate) fn read(
        tool: ToolName,
        arguments: JsonObject,
        history: History,
    ) -> Result<Self, Rejection> {
        match tool {
            ToolName::ListSchemas => page(arguments).map(|call| Self::List(Listing::Schemas, call)),
            ToolName::ListTables => tables(arguments).map(|call| Self::List(Listing::Tables, call)),
            ToolName::ListViews => views(arguments).map(|call| Self::List(Listing::Tables, call)),
            ToolName::SearchObjects => {
                search(arguments).map(|call| Self::List(Listing::Objects, call))
            }
            ToolName::PolicyExplain => {
                page(arguments).map(|call| Self::List(Listing::Permissions, call))
            }
            ToolName::DescribeTable => describe(arguments).map(Self::DescribeTable),
            // It is of the server, and answered before a connection is chosen.
            ToolName::ListDatabases => {
                Err(invalid("`list_databases` is of no connection".to_owned()))
            }
            ToolName::ExplainQuery => plan(arguments).map(Self::ExplainQuery),
            ToolName::PolicyTest => statement(arguments).map(Self::PolicyTest),
            ToolName::SchemaDump => {
                dump(arguments).map(|call| Self::List(Listing::Definitions, call))
            }
            ToolName::ListTemplates => page(arguments).map(Self::ListTemplates),
            ToolName::RunTemplate => template(arguments).map(Self::RunTemplate),
            ToolName::Query => query(arguments, history).map(Self::Query),
            ToolName::Execute => execute(arguments).map(Self::Execute),
            ToolName::ProposeChange => propose(arguments).map(Self::Change),
            ToolName::ValidateChange => {
                look(arguments).map(|(id, form)| Self::Change(ChangeToolCall::Validate(id, form)))
            }
            ToolName::InspectChange => {
                look(arguments).map(|(id, form)| Self::Change(ChangeToolCall::Inspect(id, form)))
            }
            ToolName::ApproveChange => approve(arguments).map(Self::Change),
            ToolName::RejectChange => {
                change(arguments).map(|id| Self::Change(ChangeToolCall::Reject(id)))
            }
            ToolName::CommitChange => {
                change(arguments).map(|id| Self::Change(ChangeToolCall::Commit(id)))
            }
            ToolName::CompensateChange => compensate(arguments).map(Self::Change),
            ToolName::RevertTable => revert(arguments).map(Self::Change),
            ToolName::ListChanges => {
                nothing(arguments).map(|()| Self::Change(ChangeToolCall::List))
            }
            ToolName::ListReceipts => receipts(arguments).map(Self::Change),
            ToolName::Trace => trace(arguments).map(Self::Change),
            ToolName::CreateSnapshot => {
                snapshot(arguments).map(|name| Self::Past(PastToolCall::Create(name)))
            }
            ToolName::DeleteSnapshot => {
                snapshot(arguments).map(|name| Self::Past(PastToolCall::Delete(name)))
            }
            ToolName::ListSnapshots => nothing(arguments).map(|()| Self::Past(PastToolCall::List)),
            ToolName::DiffTable => diff(arguments).map(Self::Past),
            ToolName::ListHistory => list_history(arguments).map(Self::Past),
        }
    }

    /// Whether it may be begun, stopped and begun again: nothing of it is left.
    pub(crate) fn may_be_tried(&self) -> bool {
        match self {
            Self::Execute(_) | Self::Change(_) | Self::Past(_) => false,
            Self::List(_, _)
            | Self::ListTemplates(_)
            | Self::DescribeTable(_)
            | Self::ExplainQuery(_)
            | Self::PolicyTest(_)
            | Self::RunTemplate(_)
            | Self::Query(_) => true,
        }
    }

    /// Whether it runs a statement or a template.
    pub(crate) fn is_statement(&self) -> bool {
        match self {
            Self::Execute(_)
            | Self::RunTemplate(_)
            | Self::Query(_)
            | Self::ExplainQuery(_)
            | Self::PolicyTest(_) => true,
            // The statements of a change are records of their own beside the call's.
            Self::List(_, _)
            | Self::ListTemplates(_)
            | Self::DescribeTable(_)
            | Self::Change(_)
            | Self::Past(_) => false,
        }
    }

    /// Whether the gate records the call itself, though it runs no statement of the caller's.
    pub(crate) fn is_reading(&self) -> bool {
        match self {
            Self::Past(_) => true,
            Self::Change(call) => call.is_reading(),
            Self::Execute(_)
            | Self::RunTemplate(_)
            | Self::Query(_)
            | Self::ExplainQuery(_)
            | Self::PolicyTest(_)
            | Self::List(_, _)
            | Self::ListTemplates(_)
            | Self::DescribeTable(_) => false,
        }
    }

    /// Whether it runs one query over the rows of now: neither a file nor a store is asked for it.
    pub(crate) fn reads_now(&self) -> bool {
        match self {
            Self::Query(call) => call.as_of.is_none(),
            Self::RunTemplate(_) => true,
            Self::Execute(_)
            | Self::Change(_)
            | Self::Past(_)
            | Self::List(_, _)
            | Self::ListTemplates(_)
            | Self::DescribeTable(_)
            | Self::ExplainQuery(_)
            | Self::PolicyTest(_) => false,
        }
    }

    /// About what it takes while it waits.
    pub(crate) fn bytes(&self) -> usize {
        let values = |params: &Params| match params {
            Params::None => 0,
            Params::Positional(values) => values.iter().map(value_bytes).sum(),
            Params::Named(values) => named_bytes(values),
        };
        match self {
            Self::List(_, call) | Self::ListTemplates(call) => {
                let Scope {
                    schema,
                    pattern,
                    kind: _,
                    detail: _,
                } = &call.scope;
                let texts = [schema, pattern, &call.cursor];
                texts.into_iter().flatten().map(String::len).sum()
            }
            Self::DescribeTable(call) => call.table.len(),
            Self::ExplainQuery(call) | Self::PolicyTest(call) => {
                call.sql.len() + values(&call.params)
            }
            Self::RunTemplate(call) => call.template.len() + named_bytes(&call.arguments),
            Self::Query(call) => call.sql.len() + values(&call.params),
            Self::Execute(call) => call.sql.len() + values(&call.params),
            Self::Change(call) => call.bytes(values),
            Self::Past(call) => call.bytes(values),
        }
    }
}

fn named_bytes(values: &BTreeMap<String, palisade::value::Value>) -> usize {
    let each = values
        .iter()
        .map(|(name, value)| name.len() + value_bytes(value));
    each.sum()
}

fn value_bytes(value: &palisade::value::Value) -> usize {
    use palisade::value::Value;
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Real(_) => 0,
            Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
        }
}

/// Refuses more parameters than any engine takes.
fn unless_too_many(given: usize) -> Result<(), Rejection> {
    if given <= MAX_PARAMETERS {
        return Ok(());
    }
    Err(invalid(format!(
        "{given} parameters are given, and a statement may have {MAX_PARAMETERS}; send several statements"
    )))
}

fn params(json: &Value) -> Result<Params, Rejection> {
    unless_too_many(match json {
        Value::Array(values) => values.len(),
        Value::Object(values) => values.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    })?;
    Params::from_json(json).map_err(|why| invalid(format!("`params` does not fit: {why}")))
}

/// The arguments of `describe_table`: a name.
pub(crate) fn describe(arguments: JsonObject) -> Result<DescribeCall, Rejection> {
    let raw: RawDescribe = read(arguments)?;
    let ListCall { scope: _, cursor } = list_call(Scope::default(), raw.cursor)?;
    if raw.table.is_empty() || raw.table.chars().count() > MAX_NAME {
        return Err(invalid(format!(
            "`table` must have from 1 to {MAX_NAME} characters"
        )));
    }
    Ok(DescribeCall {
        table: raw.table,
        cursor,
    })
}

/// A number that may be left out.
fn positive(argument: &str, value: Option<Value>) -> Result<Option<u64>, Rejection> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_u64().filter(|number| *number > 0);
            let invalid = || invalid(format!("`{argument}` must be a whole number from 1"));
            number.map(Some).ok_or_else(invalid)
        }
    }
}

/// How many rows are asked for.
fn rows(limit: Option<Value>) -> Result<u64, Rejection> {
    match limit {
        None | Some(Value::Null) => Ok(DEFAULT_ROWS),
        Some(value) => value
            .as_u64()
            .filter(|limit| (1..=MAX_ROWS).contains(limit))
            .ok_or_else(|| {
                invalid(format!(
                    "`limit` must be a whole number from 1 to {MAX_ROWS}"
                ))
            }),
    }
}

/// The arguments of `list_databases`: none.
pub(crate) fn nothing(arguments: JsonObject) -> Result<(), Rejection> {
    read(arguments).map(|RawNothing {}| ())
}

fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Rejection> {
    let outlines = arguments.iter();
    let outlines: JsonObject = outlines
        .map(|(name, value)| (name.clone(), outline(value)))
        .collect();
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let text = find_misfit::<T>(&outlines).unwrap_or_else(|| error.to_string());
        let text: String = text.chars().take(MAX_QUOTED).collect();
        invalid(format!("the arguments do not fit: {text}"))
    })
}

/// A value as far as it shows its type, without what can be long.
fn outline(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.chars().take(MAX_WORD).collect()),
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Object(_) => Value::Object(JsonObject::new()),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The first argument whose value is of another type than it takes, and what it takes; none before an argument that there is not.
/// The reader itself names neither.
fn find_misfit<T: DeserializeOwned>(outlines: &JsonObject) -> Option<String> {
    // What is said of an argument that stands alone.
    let try_alone = |name: &String, value: Value| {
        let alone = JsonObject::from_iter([(name.clone(), value)]);
        let tried = serde_json::from_value::<T>(Value::Object(alone));
        tried.err().map(|error| error.to_string())
    };
    for (name, value) in outlines {
        let told = try_alone(name, value.clone()).unwrap_or_default();
        if told.starts_with("unknown field") {
            return None;
        }
        // Alone, a good argument lacks the others.
        if told.is_empty() || told.starts_with("missing field") {
            continue;
        }
        // What takes words of its own says which, and what takes no text says so.
        let of_text = try_alone(name, Value::String(String::new())).unwrap_or_default();
        let takes = match of_text.rsplit_once("expected ") {
            None => "a string",
            Some((_, "a map")) => "an object",
            Some((_, "a sequence")) => "an array",
            Some((_, words)) => words,
        };
        return Some(format!("`{name}` must be {takes}"));
    }
    None
}

fn invalid(message: String) -> Rejection {
    Rejection::new(Code::RequestInvalid, message)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use serde_json::json;

    use super::*;

    fn query(arguments: JsonObject) -> Result<QueryCall, Rejection> {
        super::query(arguments, History::Kept)
    }

    fn object(json: Value) -> JsonObject {
        match json {
            Value::Object(object) => object,
            other => panic!("{other} is no object"),
        }
    }

    #[test]
    fn query_arguments_are_read() {
        let call = query(object(json!({"sql": "SELECT 1"}))).unwrap();
        assert_eq!((call.limit, call.params), (DEFAULT_ROWS, Params::None));
        let call = query(object(
            json!({"sql": "SELECT ?", "params": [1], "limit": 1000}),
        ))
        .unwrap();
        assert_eq!(call.sql, "SELECT ?");
        assert_eq!(call.limit, 1000);
        assert!(matches!(call.params, Params::Positional(values) if values.len() == 1));
    }

    #[test]
    fn parameters_are_counted() {
        let with = |given: usize| query(object(json!({"sql": "x", "params": vec![1; given]})));
        assert!(with(MAX_PARAMETERS).is_ok());
        let rejection = with(MAX_PARAMETERS + 1).unwrap_err();
        assert_eq!(rejection.code(), Code::RequestInvalid);
        assert!(rejection.message().contains("65535"), "{rejection}");
        let named = (0..=MAX_PARAMETERS).map(|n| (n.to_string(), json!(n)));
        let named = Value::Object(named.collect());
        assert!(query(object(json!({"sql": "x", "params": named}))).is_err());
        assert!(template(object(json!({"template": "x", "params": named}))).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (arguments, word) in [
            (json!({}), "sql"),
            (json!({"sql": 1}), "string"),
            (json!({"sql": "x", "limit": 0}), "`limit`"),
            (json!({"sql": "x", "limit": 1001}), "`limit`"),
            (json!({"sql": "x", "limit": -1}), "`limit`"),
            (json!({"sql": "x", "limit": 1.5}), "`limit`"),
            (json!({"sql": "x", "limit": "10"}), "`limit`"),
            (json!({"sql": "x", "format": "csv"}), "json"),
            (json!({"sql": "x", "timeout_ms": 0}), "`timeout_ms`"),
            (json!({"sql": "x", "params": 1}), "`params`"),
            (json!({"sql": "x", "params": [[1]]}), "`params`"),
            (
                json!({"sql": "x", "principal": "Agent::\"root\""}),
                "principal",
            ),
        ] {
            let rejection = query(object(arguments.clone())).unwrap_err();
            assert_eq!(rejection.code(), Code::RequestInvalid, "{arguments}");
            assert!(rejection.message().contains(word), "{rejection}");
        }
        for (arguments, word) in [
            (json!({"sql": "x", "limit": 1}), "limit"),
            (
                json!({"sql": "x", "max_affected_rows": 0}),
                "`max_affected_rows`",
            ),
            (
                json!({"sql": "x", "max_affected_rows": -1}),
                "`max_affected_rows`",
            ),
            (json!({"sql": "x", "params": 1}), "`params`"),
        ] {
            let rejection = execute(object(arguments.clone())).unwrap_err();
            assert_eq!(rejection.code(), Code::RequestInvalid, "{arguments}");
            assert!(rejection.message().contains(word), "{rejection}");
        }
        assert!(describe(object(json!({"table": ""}))).is_err());
        assert!(describe(object(json!({"table": "x".repeat(257)}))).is_err());
        assert!(describe(object(json!({"table": "x", "as": "y"}))).is_err());
        assert!(nothing(object(json!({"schema": "main"}))).is_err());
        assert!(
            tables(object(
                json!({"schema": "main", "pattern": "x*", "kind": "view"})
            ))
            .is_ok()
        );
        for bad in [
            json!({"kind": "column"}),
            json!({"detail": "all"}),
            json!({"pattern": "x".repeat(257)}),
            json!({"pattern": 7}),
        ] {
            assert!(tables(object(bad.clone())).is_err(), "{bad}");
        }
        assert_eq!(search(object(json!({}))).unwrap().scope, Scope::default());
        assert!(views(object(json!({"kind": "table"}))).is_err());
        let long = query(object(
            json!({"sql": ["x".repeat(5000)], "y": "x".repeat(5000)}),
        ));
        assert!(long.unwrap_err().message().len() < 300);
    }

    #[test]
    fn a_value_of_another_type_is_told_with_its_argument() {
        let told = |call: Result<ListCall, Rejection>| call.unwrap_err().message().to_owned();
        for (arguments, word) in [
            (
                json!({"detail": true}),
                "`detail` must be one of `names`, `summary`, `full`",
            ),
            (
                json!({"pattern": "x", "kind": "index"}),
                "`kind` must be one of `table`, `view`, `system`",
            ),
            (json!({"schema": 1}), "`schema` must be a string"),
            (json!({"cursor": {}}), "`cursor` must be a string"),
            (json!({"scheme": 1}), "unknown field `scheme`"),
            // What there is not comes before what is of another type behind it.
            (json!({"scheme": 1, "detail": 2}), "unknown field `scheme`"),
        ] {
            let told = told(tables(object(arguments.clone())));
            assert!(told.contains(word), "{arguments}: {told}");
        }
        for (arguments, word) in [
            (json!({"sql": ["SELECT 1"]}), "`sql` must be a string"),
            (
                json!({"sql": "x", "format": "csv"}),
                "`format` must be `table` or `json`",
            ),
            (
                json!({"sql": "x", "format": {}}),
                "`format` must be `table` or `json`",
            ),
            (json!({"format": "json"}), "missing field `sql`"),
        ] {
            let rejection = query(object(arguments.clone())).unwrap_err();
            assert!(rejection.message().contains(word), "{rejection}");
        }
        let keyless = trace(object(json!({"table": "t", "key": 1}))).unwrap_err();
        let message = keyless.message();
        assert!(message.contains("`key` must be an object"), "{message}");
    }

    #[test]
    fn the_past_is_an_argument_where_it_is_kept() {
        let now = |json: Value| super::query(object(json), History::None);
        assert!(now(json!({"sql": "x", "as_of": null})).is_ok());
        let rejection = now(json!({"sql": "x", "as_of": "2026-01-01"})).unwrap_err();
        assert_eq!(rejection.code(), Code::HistoryNotKept);
        let unknown = json!({"sql": "x", "query": "y"});
        let rejection = now(unknown.clone()).unwrap_err();
        assert!(!rejection.message().contains("as_of"), "{rejection}");
        let rejection = query(object(unknown)).unwrap_err();
        assert!(rejection.message().contains("as_of"), "{rejection}");
    }

    #[test]
    fn a_statement_of_a_change_may_be_its_text() {
        let entries = json!({"statements": ["DELETE FROM t", {"sql": "x", "params": [1]}]});
        let call = propose(object(entries)).unwrap();
        let ChangeToolCall::Propose { statements, .. } = call else {
            panic!("it is no proposal");
        };
        assert_eq!(statements[0], ("DELETE FROM t".to_owned(), Params::None));
        assert_eq!(statements[1].0, "x");
        for (statements, word) in [
            (json!([1]), "an entry of `statements`"),
            (json!([{"sql": 1}]), "`sql` must be a string"),
            (json!("DELETE FROM t"), "`statements` must be an array"),
        ] {
            let rejection = propose(object(json!({"statements": statements}))).unwrap_err();
            assert_eq!(rejection.code(), Code::RequestInvalid);
            assert!(rejection.message().contains(word), "{rejection}");
        }
    }

    #[test]
    fn the_parameters_of_a_template_have_names() {
        let with = |params: Value| template(object(json!({"template": "t", "params": params})));
        assert_eq!(with(json!({"a": 1})).unwrap().arguments.len(), 1);
        assert!(with(Value::Null).unwrap().arguments.is_empty());
        for params in [json!([2, "open"]), json!("x"), json!(1)] {
            let rejection = with(params).unwrap_err();
            let message = rejection.message();
            assert!(message.contains("each parameter by its name"), "{message}");
        }
    }
}
