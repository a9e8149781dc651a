//! The recorded trace of one decision, for the operator.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    access::{TextPlace, Touched, Usage, Usages},
    catalog::{Catalog, ColumnId, RelationId},
    code::Code,
    policy::{
        Permit,
        obligation::{ColumnLevel, RowFilter},
    },
    rejection::Rejection,
    resolve::ResolvedStatement,
    rewrite::RewrittenStatement,
    session::Session,
};

/// How a decision came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// The statement as it came.
    pub original: String,
    /// Who asked.
    pub principal: String,
    /// The last stage that was reached.
    pub stage: &'static str,
    /// What was decided about each relation.
    pub relations: Vec<RelationTrace>,
    /// The functions called.
    pub functions: Vec<String>,
    /// The row cap that policies set.
    pub max_rows: Option<u64>,
    /// The most milliseconds that policies give it.
    pub max_time_ms: Option<u64>,
    /// Whose approval it waits for, as policies write it; none where it waits for no approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<&'static str>,
    /// Whether filters had to be fenced.
    pub fenced: bool,
    /// Ids of the determining policies.
    pub policies: Vec<String>,
    /// Queries that must give no row before the text is run, in its transaction.
    pub prechecks: Vec<String>,
    /// The text that may be run.
    pub rewritten: Option<String>,
    /// The refusal's code.
    pub code: Option<Code>,
    /// The refusal's message.
    pub message: Option<String>,
    /// What only the operator may read of the refusal.
    pub detail: Option<String>,
}

/// What was decided about one relation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RelationTrace {
    /// Its uid.
    pub relation: String,
    /// Where the statement names it; empty where it is read inside of a view alone.
    pub places: Vec<TextPlace>,
    /// Ids of the policies that determined reading it and its rows.
    pub policies: Vec<String>,
    /// `all`, `none` or `filtered`.
    pub rows: &'static str,
    /// Ids of the policies that determined changing it, and which of its rows; empty where it is only read.
    pub changed_by: Vec<String>,
    /// What stands in its place, where something does.
    pub source: Option<String>,
    /// The columns the statement uses.
    pub columns: Vec<ColumnTrace>,
}

/// What was decided about one column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnTrace {
    /// Its name.
    pub column: String,
    /// How the statement uses it.
    pub usages: Vec<&'static str>,
    /// Where it does; empty where no word of the statement says so.
    pub places: Vec<UsePlace>,
    /// `plain`, or the mask.
    pub level: String,
    /// Ids of the policies that determined it.
    pub policies: Vec<String>,
}

/// Where a statement uses a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsePlace {
    /// How.
    pub usage: &'static str,
    /// Where in its text.
    #[serde(flatten)]
    pub place: TextPlace,
}

/// What a statement touches where.
struct Located(Vec<(TextPlace, Touched)>);

impl Located {
    fn of_relation(&self, id: RelationId) -> Vec<TextPlace> {
        let places = self.0.iter();
        places
            .filter(|(_, touched)| *touched == Touched::Relation(id))
            .map(|(place, _)| *place)
            .collect()
    }

    fn of_column(&self, id: ColumnId, usages: Usages) -> Vec<UsePlace> {
        let places = self.0.iter();
        places
            .filter_map(|(place, touched)| match touched {
                // What a star takes along is not used where it did not have to be.
                Touched::Column(column, usage) if *column == id && usages.contains(*usage) => {
                    Some(UsePlace {
                        usage: usage.name(),
                        place: *place,
                    })
                }
                Touched::Column(_, _) | Touched::Relation(_) => None,
            })
            .collect()
    }
}

impl Trace {
    pub(super) fn new(sql: &str, session: &Session) -> Self {
        Self {
            original: sql.to_owned(),
            principal: session.principal().to_string(),
            stage: "resolve",
            relations: Vec::new(),
            functions: Vec::new(),
            max_rows: None,
            max_time_ms: None,
            approval: None,
            fenced: false,
            policies: Vec::new(),
            prechecks: Vec::new(),
            rewritten: None,
            code: None,
            message: None,
            detail: None,
        }
    }

    pub(super) fn record(
        &mut self,
        resolved: &ResolvedStatement,
        permit: &Permit,
        catalog: &Catalog,
    ) {
        self.stage = "rewrite";
        let located = Located(resolved.places.locate(&self.original));
        self.fenced = resolved.needs_fence;
        self.max_rows = permit.caps().most_rows();
        self.max_time_ms = permit.caps().time_ms;
        self.approval = permit.approval().map(|demand| demand.level.word());
        self.policies = permit.policies().to_vec();
        self.functions = resolved.access.functions().map(str::to_owned).collect();
        for (id, decision) in permit.relations() {
            let Some(relation) = catalog.relation(*id) else {
                continue;
            };
            let columns = resolved
                .access
                .columns()
                .filter(|(column, _)| column.relation == *id)
                .filter_map(|(column, usages)| {
                    let decided = decision.columns.get(usize::from(column.index))?;
                    Some(ColumnTrace {
                        column: relation.column(column.index)?.name.to_string(),
                        usages: usages.iter().map(|u| u.name()).collect(),
                        places: located.of_column(column, usages),
                        level: describe_level(&decided.level),
                        policies: decided.policies.clone(),
                    })
                })
                .collect();
            self.relations.push(RelationTrace {
                relation: relation.uid.clone(),
                places: located.of_relation(*id),
                policies: decision.policies.clone(),
                rows: match decision.rows {
                    RowFilter::Everything => "all",
                    RowFilter::Nothing => "none",
                    RowFilter::Where(_) => "filtered",
                },
                changed_by: determine_change(resolved, permit, *id),
                source: None,
                columns,
            });
        }
        // What is changed without being read.
        for (id, write) in permit.writes() {
            if permit.relations().contains_key(id) {
                continue;
            }
            let Some(relation) = catalog.relation(*id) else {
                continue;
            };
            let written = resolved.access.columns_written();
            let columns = written.filter(|column| column.relation == *id);
            let mut usages = Usages::default();
            usages.insert(Usage::Write);
            self.relations.push(RelationTrace {
                relation: relation.uid.clone(),
                places: located.of_relation(*id),
                policies: Vec::new(),
                rows: "none",
                changed_by: determine_change(resolved, permit, *id),
                source: None,
                columns: columns
                    .filter_map(|column| {
                        let decided = write.columns.get(usize::from(column.index))?;
                        Some(ColumnTrace {
                            column: relation.column(column.index)?.name.to_string(),
                            usages: vec![Usage::Write.name()],
                            places: located.of_column(column, usages),
                            level: "written".to_owned(),
                            policies: decided.policies.clone(),
                        })
                    })
                    .collect(),
            });
        }
    }

    pub(super) fn conclude(&mut self, result: &Result<RewrittenStatement, Rejection>) {
        match result {
            Ok(statement) => {
                self.stage = "allow";
                let prechecks = statement.prechecks().iter();
                self.prechecks = prechecks
                    .map(|precheck| precheck.sql().to_owned())
                    .collect();
                self.rewritten = Some(statement.text().to_owned());
                for (relation, source) in statement.sources() {
                    if let Some(trace) = self.relations.iter_mut().find(|r| r.relation == *relation)
                    {
                        trace.source = Some(source.to_string());
                    }
                }
            }
            Err(rejection) => {
                self.code = Some(rejection.code());
                self.message = Some(rejection.message().to_owned());
                self.detail = rejection.operator_detail().map(str::to_owned);
                if self.policies.is_empty() {
                    self.policies = rejection.policies().to_vec();
                }
            }
        }
    }
}

/// Ids of the policies that determined the changes of a relation and of its rows, sorted, each once.
fn determine_change(resolved: &ResolvedStatement, permit: &Permit, id: RelationId) -> Vec<String> {
    let Some(write) = permit.writes().get(&id) else {
        return Vec::new();
    };
    let mut out = BTreeSet::new();
    for access in resolved.access.changes() {
        if access.relation == id {
            out.extend(write.action(access.change).policies);
            out.extend(write.row_policies(access.change).cloned());
        }
    }
    out.into_iter().collect()
}

/// A level as it is shown to operators.
pub(super) fn describe_level(level: &ColumnLevel) -> String {
    match level {
        ColumnLevel::Plain => "plain".to_owned(),
        ColumnLevel::Masked(mask) => format!("mask {mask}"),
        ColumnLevel::Hidden => "hidden".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use crate::{
        firewall::tests::ledger,
        session::{Principal, Session},
        value::Params,
    };

    #[test]
    fn a_change_is_traced_to_the_policies_of_its_action_and_rows() {
        let firewall = ledger(
            r#"@id("reads") permit(principal, action in [Action::"select", Action::"see", Action::"read"], resource);
            @id("deletes") permit(principal, action == Action::"delete", resource);
            @id("inserts") permit(principal, action in [Action::"insert", Action::"write", Action::"add"], resource);
            @id("changes") permit(principal, action == Action::"change", resource);"#,
        );
        let session = Session::new(Principal::new("Agent", "a"));
        for (sql, expected) in [
            ("SELECT id FROM notes", &[][..]),
            ("DELETE FROM notes WHERE id = 1", &["changes", "deletes"]),
            ("INSERT INTO notes (id) VALUES (1)", &["inserts"]),
        ] {
            let (_, trace) = firewall.explain(sql, &Params::None, &session).unwrap();
            assert_eq!(trace.relations.len(), 1, "{sql}");
            assert_eq!(trace.relations[0].changed_by, expected, "{sql}");
        }
    }
}
