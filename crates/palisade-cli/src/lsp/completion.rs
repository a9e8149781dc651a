//! What an editor offers while a word is written.

use std::ops::Range;

use lsp_types::CompletionItemKind;
use palisade::{
    catalog::Catalog,
    policy::{ACTIONS, ANNOTATIONS, PolicyWordKind, Rule, find_begun_word, row_type},
    session::Principal,
};
use serde_json::{Value, json};

use crate::lsp::{
    diagnostics::explain_rule,
    hover::{describe_kind, describe_type, explain_action, explain_annotation, explain_function},
    positions::find_range,
    state::{Analysis, LoadedPolicies},
};

/// Items of one list; with more than these the editor asks again as the word grows.
const MAX_ITEMS: usize = 400;

/// Something that could stand at the cursor.
struct Offer {
    label: String,
    kind: CompletionItemKind,
    detail: String,
    documentation: Option<String>,
}

/// What could stand at `offset` of a file.
pub(super) fn complete_word(text: &str, offset: usize, analysis: &Analysis) -> Value {
    let before = text.get(..offset).unwrap_or_default();
    let Some(word) = find_begun_word(before) else {
        return Value::Null;
    };
    let loaded = analysis.loaded.as_deref();
    let (begun, offers) = match &word.kind {
        PolicyWordKind::Annotation(name) => (format!("@{name}"), offer_annotations()),
        PolicyWordKind::Comment(comment) => match comment.rsplit_once("palisade:ignore ") {
            Some((_, code)) if !code.contains(' ') => (code.to_owned(), offer_rules()),
            Some(_) | None => return Value::Null,
        },
        PolicyWordKind::Entity { kind, id } => (id.clone(), offer_entities(kind, loaded)),
        PolicyWordKind::Text(begun) => (begun.clone(), offer_tags(loaded)),
        PolicyWordKind::Name(name) => (name.clone(), offer_names(loaded)),
    };
    let is_of_text = matches!(
        word.kind,
        PolicyWordKind::Entity { .. } | PolicyWordKind::Text(_)
    );
    let range = match word.kind {
        // The code alone, behind the rest of its comment.
        PolicyWordKind::Comment(_) => offset - begun.len()..offset,
        _ => word.range,
    };
    let after = text.get(offset..).unwrap_or_default();
    let line = after.lines().next().unwrap_or_default();
    let is_open = is_of_text && !line.contains('"');
    let lower = begun.to_lowercase();
    let mut fitting: Vec<Offer> = offers;
    fitting.retain(|offer| offer.label.to_lowercase().contains(&lower));
    let is_incomplete = fitting.len() > MAX_ITEMS;
    fitting.truncate(MAX_ITEMS);
    let items = fitting.iter();
    let items = items.map(|offer| offer.tell(text, range.clone(), is_of_text, is_open));
    json!({
        "isIncomplete": is_incomplete,
        "items": items.collect::<Vec<_>>(),
    })
}

impl Offer {
    fn new(label: impl Into<String>, kind: CompletionItemKind, detail: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            kind,
            detail: detail.into(),
            documentation: None,
        }
    }

    fn explain(mut self, documentation: String) -> Self {
        self.documentation = Some(documentation);
        self
    }

    fn tell(&self, text: &str, range: Range<usize>, is_of_text: bool, is_open: bool) -> Value {
        let mut new = self.label.clone();
        if is_of_text {
            new = new.replace('\\', "\\\\").replace('"', "\\\"");
        }
        if is_open {
            new.push('"');
        }
        let documentation = self.documentation.as_ref();
        json!({
            "label": self.label,
            "kind": self.kind,
            "detail": self.detail,
            "documentation": documentation.map(|text| json!({"kind": "markdown", "value": text})),
            "filterText": self.label,
            "textEdit": {"range": find_range(text, range), "newText": new},
        })
    }
}

fn offer_annotations() -> Vec<Offer> {
    let all = ANNOTATIONS.iter();
    all.map(|one| {
        Offer::new(one.form, CompletionItemKind::PROPERTY, one.place)
            .explain(explain_annotation(one))
    })
    .collect()
}

fn offer_rules() -> Vec<Offer> {
    let all = Rule::ALL.iter();
    all.map(|rule| {
        Offer::new(rule.slug(), CompletionItemKind::ENUM_MEMBER, rule.summary())
            .explain(explain_rule(*rule))
    })
    .collect()
}

fn offer_entities(kind: &str, loaded: Option<&LoadedPolicies>) -> Vec<Offer> {
    if kind == "Action" {
        let all = ACTIONS.iter();
        return all
            .map(|one| {
                Offer::new(one.name, CompletionItemKind::METHOD, one.resource)
                    .explain(explain_action(one))
            })
            .collect();
    }
    let Some(loaded) = loaded else {
        return Vec::new();
    };
    let catalog = loaded.firewall.catalog();
    match kind {
        "Table" => offer_tables(catalog),
        "Column" => offer_columns(catalog),
        "Schema" => {
            let mut names: Vec<&str> = (catalog.relations().iter())
                .map(|relation| relation.policy_schema.as_ref())
                .collect();
            names.sort_unstable();
            names.dedup();
            let offers = names.into_iter();
            offers
                .map(|name| Offer::new(name, CompletionItemKind::MODULE, "schema"))
                .collect()
        }
        "Function" => {
            let all = catalog.every_function();
            all.map(|one| {
                let safety = one.safety.name();
                Offer::new(&one.uid, CompletionItemKind::FUNCTION, safety)
                    .explain(explain_function(one))
            })
            .collect()
        }
        "Tagged" => offer_tags(Some(loaded)),
        _ => {
            let names = loaded.firewall.policies().entity_names();
            let known = names.iter().filter_map(|name| Principal::parse(name).ok());
            let of_kind = known.filter(|one| one.kind() == kind);
            of_kind
                .map(|one| Offer::new(one.id(), CompletionItemKind::VALUE, kind))
                .collect()
        }
    }
}

fn offer_tables(catalog: &Catalog) -> Vec<Offer> {
    let all = catalog.relations().iter();
    all.map(|one| Offer::new(&one.uid, CompletionItemKind::CLASS, describe_kind(one)))
        .collect()
}

fn offer_columns(catalog: &Catalog) -> Vec<Offer> {
    let columns = catalog.relations().iter().flat_map(|one| &one.columns);
    columns
        .map(|one| Offer::new(&one.uid, CompletionItemKind::FIELD, describe_type(one)))
        .collect()
}

fn offer_tags(loaded: Option<&LoadedPolicies>) -> Vec<Offer> {
    let columns = loaded.map(|loaded| loaded.firewall.known_columns());
    let columns = columns.into_iter().flatten();
    let mut tags: Vec<String> = columns.flat_map(|column| column.tags).collect();
    tags.sort_unstable();
    tags.dedup();
    let tags = tags.into_iter();
    tags.map(|tag| Offer::new(tag, CompletionItemKind::ENUM_MEMBER, "tag"))
        .collect()
}

/// The types of rows, where a name begins as they do, and what else begins a policy or a clause.
fn offer_names(loaded: Option<&LoadedPolicies>) -> Vec<Offer> {
    const WORDS: [&str; 8] = [
        "permit",
        "forbid",
        "when",
        "unless",
        "principal",
        "action",
        "resource",
        "context",
    ];
    let words = WORDS.iter();
    let mut offers: Vec<Offer> = words
        .map(|word| Offer::new(*word, CompletionItemKind::KEYWORD, ""))
        .collect();
    let relations = loaded.map(|loaded| loaded.firewall.catalog().relations());
    let relations = relations.into_iter().flatten();
    offers.extend(relations.map(|one| {
        let detail = format!("rows of `{}`", one.uid);
        Offer::new(row_type(one), CompletionItemKind::STRUCT, detail)
    }));
    offers
}
