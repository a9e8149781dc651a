//! Completion of arguments of prompts and resource templates: with names that tools tell the caller, and no others.

use palisade::{code::Code, ident};
use rmcp::model::{CompleteRequestParams, CompletionInfo, JsonObject, Reference};
use serde_json::Value;

use crate::{
    connections::ARGUMENT,
    prompts::{Completed, PromptName},
    resources,
    tool_name::ToolName,
    tool_set::ToolSet,
};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A connection.
    Connection,
    /// A schema of one.
    Schema,
    /// A table of a schema.
    Table { schema: Option<String> },
    /// A table by its name after its schema and a dot.
    Qualified,
    /// A code of refusals.
    Code,
    /// Nothing that is known here.
    Nothing,
}

impl Wanted {
    /// What `request` asks for; none if there is no such prompt, template or argument.
    pub(crate) fn read(request: &CompleteRequestParams, set: &ToolSet) -> Option<Self> {
        let argument = request.argument.name.as_str();
        match &request.r#ref {
            Reference::Prompt(prompt) => {
                let prompt = PromptName::find(&prompt.name, set)?;
                Some(match prompt.completion_of(argument)? {
                    Completed::Connections => Self::Connection,
                    Completed::Tables => Self::Qualified,
                    Completed::Codes => Self::Code,
                    Completed::Nothing => Self::Nothing,
                })
            }
            Reference::Resource(template) => {
                let mut templates = resources::templates(set).into_iter();
                let template = templates.find(|one| one.uri_template == template.uri)?;
                if !template.uri_template.contains(&format!("{{{argument}}}")) {
                    return (argument == "cursor").then_some(Self::Nothing);
                }
                match argument {
                    ARGUMENT => Some(Self::Connection),
                    "schema" => Some(Self::Schema),
                    "table" => Some(Self::Table {
                        schema: find_argument(request, "schema"),
                    }),
                    "change" | "receipt" => Some(Self::Nothing),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The tool that lists what is asked for, and its arguments; none where no tool is needed.
    pub(crate) fn call(&self, begun: &str, set: &ToolSet) -> Option<(ToolName, JsonObject)> {
        // With signs of patterns of its own, a name is looked for by what stands before them.
        let pattern = |begun: &str| {
            let plain = begun.split(['*', '?', '%']).next().unwrap_or_default();
            format!("{plain}*")
        };
        let mut arguments = JsonObject::new();
        let mut add = |key: &str, value: &str| arguments.insert(key.to_owned(), value.into());
        let tool = match self {
            Self::Connection | Self::Code | Self::Nothing => return None,
            Self::Schema => ToolName::ListSchemas,
            Self::Table { schema } => {
                if let Some(schema) = schema {
                    add("schema", schema);
                }
                add("pattern", &pattern(begun));
                ToolName::ListTables
            }
            Self::Qualified => {
                let name = match begun.split_once('.') {
                    Some((schema, name)) => {
                        add("schema", schema.trim_matches(['"', '`']));
                        name.trim_start_matches(['"', '`'])
                    }
                    None => begun,
                };
                add("pattern", &pattern(name));
                ToolName::ListTables
            }
        };
        // What the operator takes away is listed nowhere else.
        set.has(tool).then_some((tool, arguments))
    }

    /// The names of an answer of that tool.
    pub(crate) fn names(&self, answer: &Value) -> Vec<String> {
        let list = |key: &str| answer.get(key).and_then(Value::as_array).cloned();
        let text = |entry: &Value, key: &str| {
            let text = entry.get(key).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let tables = || list("tables").unwrap_or_default();
        match self {
            Self::Connection | Self::Code | Self::Nothing => Vec::new(),
            Self::Schema => {
                let schemas = list("schemas").unwrap_or_default();
                schemas.iter().map(|entry| text(entry, "name")).collect()
            }
            Self::Table { schema: _ } => tables().iter().map(|entry| text(entry, "name")).collect(),
            Self::Qualified => tables()
                .iter()
                .map(|entry| {
                    let (schema, name) = (text(entry, "schema"), text(entry, "name"));
                    ident::qualify([schema.as_str(), name.as_str()])
                })
                .collect(),
        }
    }

    /// Whether `name` begins as was written, in letters of either case.
    pub(crate) fn begins(&self, name: &str, begun: &str) -> bool {
        // Names that need quotes are found without them.
        let plain = |text: &str| text.to_lowercase().replace(['"', '`'], "");
        let (name, begun) = (plain(name), plain(begun));
        match self {
            // The name may stand without its schema.
            Self::Qualified => {
                let bare = name.split_once('.').map_or("", |(_, bare)| bare);
                name.starts_with(&begun) || bare.starts_with(&begun)
            }
            Self::Connection | Self::Schema | Self::Table { .. } | Self::Code | Self::Nothing => {
                name.starts_with(&begun)
            }
        }
    }
}

/// An argument that was chosen before.
pub(crate) fn find_argument(request: &CompleteRequestParams, name: &str) -> Option<String> {
    request.context.as_ref()?.get_argument(name).cloned()
}

/// All codes of refusals.
pub(crate) fn codes() -> Vec<String> {
    let codes = Code::ALL.iter();
    codes.map(|code| code.slug().to_owned()).collect()
}

/// The first hundred of `names`. `more` says that there are others.
pub(crate) fn info(mut names: Vec<String>, more: bool) -> CompletionInfo {
    names.sort();
    names.dedup();
    let total = u32::try_from(names.len()).ok();
    let is_cut = names.len() > CompletionInfo::MAX_VALUES;
    names.truncate(CompletionInfo::MAX_VALUES);
    let total = total.filter(|_| !more);
    CompletionInfo::with_pagination(names, total, is_cut || more).unwrap_or_default()
}
