//! Query templates: statements of the operator's with typed parameters, which policy may permit where other
//! statements are not.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::policy::load::diagnostic::{PolicyProblem, Source};
use crate::{
    dialect::Dialect,
    did_you_mean,
    limits::Limits,
    syntax,
    tool_names::TOOLS,
    value::{Params, Placeholder, Value},
};

/// A statement with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The name, `Template::"…"` in policies.
    pub name: String,
    /// What it is for, for whoever chooses one.
    pub description: String,
    /// Its parameters: for a statement with numbered placeholders, the first to the first.
    pub parameters: Vec<TemplateParameter>,
    /// Whether an agent is offered it as a tool of its own.
    pub is_tool: bool,
    /// Whether its statement changes rows.
    pub changes_rows: bool,
    /// The statement.
    pub(crate) sql: String,
    /// Whether its placeholders have names.
    named: bool,
    /// A problem without a message, at its statement.
    place: PolicyProblem,
}

/// A parameter of a template. Every one must be given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateParameter {
    /// The name by which it is given.
    pub name: String,
    /// Which values it takes.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// Whether NULL is one of them.
    #[serde(default)]
    pub nullable: bool,
    /// What it means, for whoever gives it.
    #[serde(default)]
    pub description: String,
}

/// The values that a parameter takes. Nothing is converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Text.
    Text,
    /// 64-bit integers.
    Integer,
    /// Numbers, integers among them.
    Number,
    /// True and false.
    Boolean,
}

impl ParameterType {
    /// The word in `templates.toml`, which is JSON Schema's but for text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    fn takes(self, value: &Value) -> bool {
        match value {
            Value::Text(_) => self == Self::Text,
            Value::Integer(_) => matches!(self, Self::Integer | Self::Number),
            Value::Real(_) => self == Self::Number,
            Value::Bool(_) => self == Self::Boolean,
            Value::Null | Value::Blob(_) => false,
        }
    }
}

impl Template {
    /// What it is called as a tool: `-` becomes `_`.
    #[must_use]
    pub fn tool_name(&self) -> String {
        tool_name(&self.name)
    }

    /// A problem of its statement.
    pub(crate) fn problem(&self, message: String, help: &str) -> PolicyProblem {
        let place = PolicyProblem {
            message,
            ..self.place.clone()
        };
        place.with_help(Some(help))
    }

    /// `given` as parameters of the statement.
    ///
    /// # Errors
    /// A text for whoever gave them, if one is missing, too many or of another type.
    pub fn bind(&self, given: &BTreeMap<String, Value>) -> Result<Params, String> {
        let known = |name: &String| self.parameters.iter().any(|p| p.name == *name);
        if let Some(unknown) = given.keys().find(|name| !known(name)) {
            let names = self.parameters.iter().map(|p| p.name.as_str());
            return Err(match did_you_mean::closest(unknown, names) {
                Some(close) => {
                    format!("there is no parameter `{unknown}`; did you mean `{close}`?")
                }
                None => format!("there is no parameter `{unknown}`"),
            });
        }
        let mut values = Vec::with_capacity(self.parameters.len());
        for TemplateParameter {
            name,
            kind,
            nullable,
            description: _,
        } in &self.parameters
        {
            let value = given
                .get(name)
                .ok_or_else(|| format!("the parameter `{name}` is missing"))?;
            if !(kind.takes(value) || (*nullable && *value == Value::Null)) {
                let null = if *nullable { " or null" } else { "" };
                return Err(format!("the parameter `{name}` is {}{null}", kind.name()));
            }
            values.push((name.clone(), value.clone()));
        }
        Ok(match (values.is_empty(), self.named) {
            (true, _) => Params::None,
            (false, true) => Params::Named(values.into_iter().collect()),
            (false, false) => Params::Positional(values.into_iter().map(|(_, v)| v).collect()),
        })
    }
}

/// The templates of a policy folder, by name.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct Templates(BTreeMap<String, Template>);

impl Templates {
    /// Reads `source`, `templates.toml`; what is wrong becomes a problem.
    pub(in crate::policy) fn read(
        source: Option<&Source<'_>>,
        dialect: Dialect,
        problems: &mut Vec<PolicyProblem>,
    ) -> Self {
        let mut out = BTreeMap::new();
        let Some(source) = source else {
            return Self(out);
        };
        let document: Document = match source.toml() {
            Ok(document) => document,
            Err(problem) => {
                problems.push(problem);
                return Self(out);
            }
        };
        for entry in document.template {
            match entry.read(source, dialect) {
                Ok(template) if out.contains_key(&template.name) => {
                    let message = format!("two templates have the name `{}`", template.name);
                    problems.push(source.at(entry.name.span(), message));
                }
                Ok(template) if template.is_tool && is_tool_taken(&template, out.values()) => {
                    let message = format!(
                        "the template `{}` cannot be a tool: there is another tool `{}`",
                        template.name,
                        template.tool_name()
                    );
                    problems.push(
                        source
                            .at(entry.name.span(), message)
                            .with_help(Some("give the template another name, or leave `tool` out")),
                    );
                }
                Ok(template) => {
                    out.insert(template.name.clone(), template);
                }
                Err(problem) => problems.push(problem),
            }
        }
        Self(out)
    }

    /// Their names.
    pub(in crate::policy) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// All of them, by name.
    pub(in crate::policy) fn all(&self) -> impl Iterator<Item = &Template> {
        self.0.values()
    }

    /// The one called `name`.
    pub(in crate::policy) fn get(&self, name: &str) -> Option<&Template> {
        self.0.get(name)
    }
}

fn tool_name(name: &str) -> String {
    name.replace('-', "_")
}

/// Whether there is another tool by the name of `template`, among `others` or those of every server.
fn is_tool_taken<'t>(template: &Template, others: impl Iterator<Item = &'t Template>) -> bool {
    let name = template.tool_name();
    let mut others = others.filter(|other| other.is_tool);
    TOOLS.contains(&name.as_str()) || others.any(|other| other.tool_name() == name)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// Statements with a name.
    #[serde(default)]
    template: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The name, `Template::"…"` in policies: letters, digits, `_` and `-`.
    name: Spanned<String>,
    /// What it is for, for whoever chooses one.
    description: String,
    /// The statement, with the engine's own placeholders.
    sql: Spanned<String>,
    /// Whether an agent is offered it as a tool of its own.
    #[serde(default)]
    tool: bool,
    /// Its parameters: for a statement with numbered placeholders, the first to the first.
    #[serde(default)]
    parameters: Vec<Spanned<TemplateParameter>>,
}

impl Entry {
    fn read(&self, source: &Source<'_>, dialect: Dialect) -> Result<Template, PolicyProblem> {
        let name = self.name.get_ref();
        let is_word = |text: &str| {
            !text.is_empty()
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        };
        if !is_word(name) {
            let message = format!("`{name}` is no name for a template");
            return Err(source
                .at(self.name.span(), message)
                .with_help(Some("a name is made of letters, digits, `_` and `-`")));
        }
        let mut names = BTreeSet::new();
        for parameter in &self.parameters {
            let name = &parameter.get_ref().name;
            if !is_word(name) || !names.insert(name.clone()) {
                let message = format!("`{name}` is no name for a parameter, or is there twice");
                return Err(source.at(parameter.span(), message));
            }
        }
        let sql = self.sql.get_ref();
        let at = |message: String| source.at(self.sql.span(), message);
        let limits = Limits::default();
        let (used, changes_rows) = syntax::parse(sql, dialect, &limits, |parsed| {
            let changes_rows = syntax::contains_change(&parsed.query);
            Ok((syntax::placeholders(&parsed), changes_rows))
        })
        .map_err(|why| {
            at(format!(
                "the statement of `{name}` is not read: {}",
                why.message()
            ))
        })?;
        let count = u32::try_from(self.parameters.len()).unwrap_or(u32::MAX);
        let numbers: BTreeSet<_> = (1..=count).map(Placeholder::Number).collect();
        let named: BTreeSet<_> = names.into_iter().map(Placeholder::Name).collect();
        if used != numbers && used != named {
            let message = format!(
                "the placeholders of the statement of `{name}` are not its {count} parameters"
            );
            return Err(at(message).with_help(Some(
                "write one `[[template.parameters]]` for each placeholder: by its name, or, where they have numbers, in their order",
            )));
        }
        Ok(Template {
            name: name.clone(),
            description: self.description.clone(),
            parameters: self
                .parameters
                .iter()
                .map(|p| p.get_ref().clone())
                .collect(),
            is_tool: self.tool,
            changes_rows,
            sql: sql.clone(),
            named: !used.is_empty() && used == named,
            place: source.at(self.sql.span(), ""),
        })
    }
}
