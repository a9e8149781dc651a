//! What an editor shows of a word under the mouse.

use std::fmt::Write as _;

use palisade::{
    catalog::{Column, Relation, RelationKind, functions::FunctionDef},
    firewall::{AccessClass, Firewall},
    policy::{
        ACTIONS, ANNOTATIONS, ActionNote, Annotation, PolicyWord, PolicyWordKind, Rule, find_word,
        row_type,
    },
    session::Principal,
};

use crate::{
    human,
    lsp::{
        diagnostics::explain_rule,
        state::{Analysis, LoadedPolicies},
    },
};

/// Names that a list shows.
const SHOWN: usize = 12;

/// What is known of the word at `offset` of a file, in Markdown, and the word.
pub(super) fn explain_word(
    text: &str,
    offset: usize,
    analysis: &Analysis,
) -> Option<(PolicyWord, String)> {
    let word = find_word(text, offset)?;
    let loaded = analysis.loaded.as_deref();
    let told = match &word.kind {
        PolicyWordKind::Annotation(name) => {
            let found = ANNOTATIONS.iter().find(|one| one.name == name)?;
            explain_annotation(found)
        }
        PolicyWordKind::Comment(comment) => explain_rule(find_ignored_rule(comment)?),
        PolicyWordKind::Entity { kind, id } => match kind.as_str() {
            "Action" => explain_action(ACTIONS.iter().find(|one| one.name == id)?),
            "Column" | "Table" => explain_place(id, loaded?)?,
            "Function" => explain_function(loaded?.firewall.catalog().function(id)?),
            _ => explain_entity(kind, id, &loaded?.firewall)?,
        },
        PolicyWordKind::Name(name) => {
            let loaded = loaded?;
            let mut relations = loaded.firewall.catalog().relations().iter();
            explain_relation(relations.find(|one| row_type(one) == *name)?, loaded)
        }
        PolicyWordKind::Text(text) => {
            let loaded = loaded?;
            match explain_place(text, loaded) {
                Some(told) => told,
                None => explain_tag(text, &loaded.firewall)?,
            }
        }
    };
    Some((word, told))
}

/// The rules of the warnings that reach over `offset` of the file called `name`.
pub(super) fn find_warned_rules(name: &str, offset: usize, analysis: &Analysis) -> Vec<Rule> {
    let warnings = analysis.warnings.iter().filter(|one| one.file == name);
    let around = warnings.filter(|warning| {
        let span = warning.span;
        span.is_some_and(|at| (at.offset..=at.offset + at.length).contains(&offset))
    });
    let mut rules: Vec<Rule> = Vec::new();
    for rule in around.filter_map(|warning| warning.rule) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// The rule that a comment `// palisade:ignore CODE reason` names.
pub(super) fn find_ignored_rule(comment: &str) -> Option<Rule> {
    let (_, rest) = comment.split_once("palisade:ignore")?;
    Rule::from_slug(rest.split_whitespace().next()?)
}

pub(super) fn explain_annotation(annotation: &Annotation) -> String {
    let Annotation {
        form,
        place,
        effect,
        ..
    } = annotation;
    format!("`{form}` on {place}\n\n{effect}")
}

pub(super) fn explain_action(action: &ActionNote) -> String {
    let ActionNote {
        name,
        resource,
        permits,
    } = action;
    format!("`Action::\"{name}\"` on a {resource}: {permits}")
}

pub(super) fn explain_function(function: &FunctionDef) -> String {
    let safety = function.safety.name();
    format!("Function `{}` of the class `{safety}`", function.uid)
}

/// The table or column that policies call `uid`.
fn explain_place(uid: &str, loaded: &LoadedPolicies) -> Option<String> {
    for relation in loaded.firewall.catalog().relations() {
        if relation.uid == uid {
            return Some(explain_relation(relation, loaded));
        }
        let mut columns = relation.columns.iter();
        if let Some(column) = columns.find(|column| column.uid == uid) {
            return Some(explain_column(relation, column, loaded));
        }
    }
    None
}

/// `table`, `view`, …
pub(super) fn describe_kind(relation: &Relation) -> &'static str {
    match relation.kind {
        RelationKind::Table => "table",
        RelationKind::View => "view",
        RelationKind::Materialized => "materialised view",
        RelationKind::Virtual => "virtual table",
        RelationKind::System => "relation of the engine's own",
    }
}

/// A column's type as it is declared, and what that is to policies.
pub(super) fn describe_type(column: &Column) -> String {
    let class = format!("{:?}", column.class).to_lowercase();
    let null = match column.nullable {
        true => ", may be NULL",
        false => "",
    };
    match column.type_name.as_ref() {
        "" => format!("no declared type (class {class}){null}"),
        name => format!("`{name}` (class {class}){null}"),
    }
}

/// The tags of a column, those of what it is computed from included.
pub(super) fn list_tags(relation: &Relation, column: &Column, firewall: &Firewall) -> Vec<String> {
    let known = firewall.known_columns().into_iter();
    let mut same = known.filter(|one| one.table == relation.uid && one.column == *column.name);
    same.next().map(|one| one.tags).unwrap_or_default()
}

fn explain_relation(relation: &Relation, loaded: &LoadedPolicies) -> String {
    let mut out = format!(
        "**{}** `{}`, {} columns\n",
        describe_kind(relation),
        relation.uid,
        relation.columns.len()
    );
    add_comment(&mut out, loaded.firewall.catalog().comment(relation, None));
    let actions = [
        "select", "see", "insert", "update", "delete", "truncate", "change", "add",
    ];
    add_audience(&mut out, loaded, (&relation.uid, None), &actions);
    out
}

fn explain_column(relation: &Relation, column: &Column, loaded: &LoadedPolicies) -> String {
    let firewall = &loaded.firewall;
    let mut out = format!("**column** `{}`: {}\n", column.uid, describe_type(column));
    let tags = list_tags(relation, column, firewall);
    if !tags.is_empty() {
        let _ = writeln!(out, "\nTags: `{}`", tags.join("`, `"));
    }
    let comment = firewall.catalog().comment(relation, Some(&column.name));
    add_comment(&mut out, comment);
    let place = (relation.uid.as_str(), Some(column.name.as_ref()));
    add_audience(&mut out, loaded, place, &["read", "write"]);
    out
}

fn add_comment(out: &mut String, comment: Option<&str>) {
    if let Some(comment) = comment {
        let _ = writeln!(out, "\n{}", escape(comment));
    }
}

/// A table of principals, and what each may do. Only actions that somebody may do have a column.
fn add_audience(
    out: &mut String,
    loaded: &LoadedPolicies,
    place: (&str, Option<&str>),
    actions: &[&'static str],
) {
    let classes = match loaded.classes() {
        Ok(classes) => classes,
        Err(why) => {
            let _ = writeln!(out, "\nWho sees it is not known: {}", escape(why));
            return;
        }
    };
    let find = |class: &AccessClass, action: &str, (table, column): (&str, Option<&str>)| {
        let mut cells = class.cells.iter();
        let cell = cells.find(|cell| {
            cell.table == table && cell.column.as_deref() == column && cell.action == action
        });
        cell.map(|cell| escape(&cell.value))
    };
    let is_given = |action: &&&'static str| {
        let mut classes = classes.iter();
        classes.any(|class| find(class, action, place).is_some())
    };
    let given: Vec<&str> = actions.iter().filter(is_given).copied().collect();
    if given.is_empty() {
        out.push_str("\nNo principal that is known sees it.\n");
        return;
    }
    let of_column = place.1.is_some();
    let rows = if of_column { " rows |" } else { "" };
    let _ = writeln!(out, "\n| principal | {} |{rows}", given.join(" | "));
    let _ = writeln!(
        out,
        "|{}",
        "---|".repeat(1 + given.len() + usize::from(of_column))
    );
    let never = || "never".to_owned();
    for class in classes {
        let _ = write!(out, "| {} |", escape(&shorten(&class.members)));
        for action in &given {
            let _ = write!(
                out,
                " {} |",
                find(class, action, place).unwrap_or_else(never)
            );
        }
        if of_column {
            let rows = find(class, "see", (place.0, None)).unwrap_or_else(never);
            let _ = write!(out, " {rows} |");
        }
        out.push('\n');
    }
}

/// The columns with a tag.
fn explain_tag(tag: &str, firewall: &Firewall) -> Option<String> {
    let known = firewall.known_columns().into_iter();
    let tagged = known.filter(|column| column.tags.iter().any(|one| one == tag));
    let names: Vec<String> = tagged
        .map(|column| format!("{}.{}", column.table, column.column))
        .collect();
    (!names.is_empty()).then(|| format!("Tag `{tag}` of: {}", escape(&shorten(&names))))
}

/// A principal or role of `entities.json` or of the policies.
fn explain_entity(kind: &str, id: &str, firewall: &Firewall) -> Option<String> {
    let entity = Principal::new(kind, id);
    let known = firewall.policies().entity_names();
    if !known.contains(&entity.to_string()) {
        return None;
    }
    let principals = firewall.known_principals();
    let within = principals.iter().filter(|one| **one != entity);
    let members: Vec<String> = within
        .filter(|one| firewall.is_in(one, &entity))
        .map(AccessClass::describe_member)
        .collect();
    let groups: Vec<String> = (known.iter())
        .filter_map(|name| Principal::parse(name).ok())
        .filter(|group| *group != entity && firewall.is_in(&entity, group))
        .map(|group| group.to_string())
        .collect();
    let mut out = format!("`{entity}`");
    for (what, names) in [("Members", members), ("In", groups)] {
        if !names.is_empty() {
            let _ = write!(out, "\n\n{what}: {}", escape(&shorten(&names)));
        }
    }
    Some(out)
}

/// The first names of a list, and how many more there are.
fn shorten(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

/// A text of a database or folder, as text in Markdown and on one line.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in human::printable(text).chars() {
        if "\\`*_{}[]<>#|!~".contains(c) {
            out.push('\\');
        }
        out.push(if c == '\n' { ' ' } else { c });
    }
    out
}
