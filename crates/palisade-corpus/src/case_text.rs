//! A case as a file of tests has it, ready to paste.

use palisade::{moment, session::Transport};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use crate::{
    case::{Case, Expectation, Verdict},
    update::{list, rows},
};

impl Case {
    /// The case as `[[case]]` of a file of tests, with the keys that this program writes by itself: who asks, the statement, the
    /// decision and its code, policies, the text that runs, columns, masks, rows and what a change does. Parameters are left out.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut table = Table::new();
        let mut set = |key: &str, item: Item| drop(table.insert(key, item));
        set("name", value(&self.written_name));
        if !self.why.is_empty() {
            set("why", value(&self.why));
        }
        set("as", value(self.principal.to_string()));
        if !self.at.is_zero() {
            set("at", value(moment::print_utc(self.at)));
        }
        if self.transport != Transport::default() {
            set("transport", value(self.transport.name()));
        }
        match &self.template {
            None => set("sql", value(&self.sql)),
            Some(template) => set("template", value(template)),
        }
        expect(&self.expect, &mut set);
        let mut cases = ArrayOfTables::new();
        cases.push(table);
        let mut document = DocumentMut::new();
        document.insert("case", Item::ArrayOfTables(cases));
        document.to_string()
    }
}

fn expect(expect: &Expectation, set: &mut impl FnMut(&str, Item)) {
    match expect.verdict {
        Verdict::Allow => set("decision", value("allow")),
        Verdict::Reject(code) => {
            set("decision", value("reject"));
            set("code", value(code.slug()));
        }
        // A case names the code; only cells of matrices leave it open.
        Verdict::Deny => set("decision", value("reject")),
    }
    let mut names = |key: &str, names: &Option<Vec<String>>| {
        if let Some(names) = names {
            set(key, value(list(names)));
        }
    };
    names("policies", &expect.policies);
    names("columns", &expect.columns);
    names("masked", &expect.masked);
    if let Some(approval) = expect.approval {
        set("approval", value(approval.word()));
    }
    if let Some(message) = &expect.message {
        set("message", value(message));
    }
    if let Some(text) = &expect.rewritten {
        set("rewritten", value(text));
    }
    if let Some(found) = &expect.rows {
        set("rows", value(rows(found)));
    }
    if let Some(truncated) = expect.truncated {
        set("truncated", value(truncated));
    }
    if let Some(Ok(affected)) = expect.affected.map(i64::try_from) {
        set("affected", value(affected));
    }
    if let Some(after) = &expect.after {
        let mut table = toml_edit::InlineTable::new();
        table.insert("sql", after.sql.as_str().into());
        table.insert("rows", rows(&after.rows).into());
        set("after", value(table));
    }
}
