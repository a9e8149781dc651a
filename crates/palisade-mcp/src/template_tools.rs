//! Templates that the operator offers as tools of their own, with typed parameters.

use std::sync::Arc;

use palisade::{
    code::Code,
    policy::template::{ParameterType, Template, TemplateParameter},
    rejection::Rejection,
};
use rmcp::model::{Extensions, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::{
    connections::Connection,
    declare::{closed_object, format, limit, meta_of},
    options::AnswerSize,
};

/// Characters of an argument's name that an answer quotes.
const MAX_QUOTED: usize = 64;

/// A template as a tool.
pub(crate) struct TemplateTool {
    /// What the tool is called.
    pub(crate) name: String,
    /// The database that it is of.
    pub(crate) connection: Arc<Connection>,
    pub(crate) template: Template,
    /// Whether it waits for a person's approval.
    waits: bool,
}

impl TemplateTool {
    /// The tool of `template`; where there are several connections, its name begins with that of its own.
    pub(crate) fn new(
        template: Template,
        (connection, request): (&Arc<Connection>, &Extensions),
        is_alone: bool,
    ) -> Self {
        let name = template.tool_name();
        let session = connection.session(request);
        Self {
            waits: session
                .is_some_and(|session| connection.guard.template_waits(&template, &session)),
            name: if is_alone {
                name
            } else {
                let prefix = connection.name.replace(['-', '.'], "_");
                format!("{prefix}_{name}")
            },
            connection: Arc::clone(connection),
            template,
        }
    }

    /// What it is declared from, in a form that is only compared.
    pub(crate) fn outline(&self) -> String {
        let Self {
            name,
            connection: _,
            template,
            waits,
        } = self;
        format!("{name:?} {template:?} {waits}")
    }

    /// As clients see it. Its texts are the operator's own.
    pub(crate) fn declare(&self, size: AnswerSize) -> Tool {
        let parameters = self.template.parameters.iter();
        let properties: JsonObject = parameters
            .clone()
            .map(|parameter| (parameter.name.clone(), schema_of(parameter)))
            .collect();
        let names: Vec<&str> = parameters
            .map(|parameter| parameter.name.as_str())
            .collect();
        let has_parameters = !names.is_empty();
        let params = Value::Object(closed_object(Value::Object(properties), &names));
        let mut arguments = JsonObject::new();
        if has_parameters {
            arguments.insert("params".to_owned(), params);
        }
        arguments.insert("limit".to_owned(), limit());
        arguments.insert("format".to_owned(), format());
        let required: &[&str] = if has_parameters { &["params"] } else { &[] };
        let input = closed_object(Value::Object(arguments), required);
        Tool::new(
            self.name.clone(),
            self.template.description.clone(),
            Arc::new(input),
        )
        .with_title(self.template.name.clone())
        .with_annotations(
            ToolAnnotations::with_title(self.template.name.clone())
                .read_only(true)
                .destructive(false)
                .idempotent(true)
                .open_world(false),
        )
        .with_icons(vec![crate::icons::template()])
        .with_meta(meta_of(size, self.waits))
    }

    /// The arguments of `run_template` that `arguments` of this tool stand for.
    ///
    /// # Errors
    /// `request.invalid` if the tool does not take one of them, such as the name of a template.
    pub(crate) fn arguments(
        template: &Template,
        mut arguments: JsonObject,
    ) -> Result<JsonObject, Rejection> {
        let refuse = |why: String| {
            let takes = describe_arguments(template);
            let told = format!("the arguments do not fit: {why}; this tool takes {takes}");
            Rejection::new(Code::RequestInvalid, told)
        };
        let is_known = |name: &&String| ["params", "limit", "format"].contains(&name.as_str());
        if let Some(unknown) = arguments.keys().find(|name| !is_known(name)) {
            let unknown: String = unknown.chars().take(MAX_QUOTED).collect();
            return Err(refuse(format!("there is no argument `{unknown}`")));
        }
        match arguments.get("params") {
            None | Some(Value::Null | Value::Object(_)) => {}
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                return Err(refuse("`params` must be an object".to_owned()));
            }
        }
        let name = Value::String(template.name.clone());
        arguments.insert("template".to_owned(), name);
        Ok(arguments)
    }
}

/// What the tool of `template` takes, for whoever gave it something else.
fn describe_arguments(template: &Template) -> String {
    let names = template.parameters.iter();
    let names: Vec<String> = names
        .map(|parameter| format!("`{}`", parameter.name))
        .collect();
    match names.is_empty() {
        true => "`limit` and `format`".to_owned(),
        false => format!(
            "`params`, an object with {}; and `limit` and `format`",
            names.join(", ")
        ),
    }
}

/// What a parameter takes, in JSON Schema's words.
fn schema_of(parameter: &TemplateParameter) -> Value {
    let kind = match parameter.kind {
        ParameterType::Text => "string",
        ParameterType::Integer => "integer",
        ParameterType::Number => "number",
        ParameterType::Boolean => "boolean",
    };
    let mut schema = JsonObject::new();
    let kind = if parameter.nullable {
        json!([kind, "null"])
    } else {
        json!(kind)
    };
    schema.insert("type".to_owned(), kind);
    if !parameter.description.is_empty() {
        schema.insert("description".to_owned(), json!(parameter.description));
    }
    Value::Object(schema)
}
