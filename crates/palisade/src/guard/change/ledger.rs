//! Receipts of changes that were kept, for whoever may know of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Guard, Receipt};
use crate::{
    catalog::Relation,
    change::{ChainedReceipt, row_text},
    code::Code,
    firewall::VisibleRelation,
    guard::{
        Refusal,
        reading::{Given, Reading},
        run::Run,
    },
    policy::obligation::RowFilter,
    rejection::Rejection,
    session::Session,
    value::Value,
};

/// The most receipts of one answer.
const MAX_RECEIPTS: usize = 50;

/// A receipt, as whoever asks may know of it. Its place in the chain is not told: gaps would tell how many changes there were of which
/// whoever asks may not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReceiptView {
    /// Of which change.
    pub change: String,
    /// Why, in the words of who proposed it. A reason that would instruct a model is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The receipt.
    #[serde(flatten)]
    pub receipt: Receipt,
}

impl Reading for ReceiptView {
    fn as_given(&self) -> Given<'_> {
        Given::Entries(1)
    }
}

impl Reading for Vec<ReceiptView> {
    fn as_given(&self) -> Given<'_> {
        Given::Entries(self.len())
    }
}

/// A row whose receipts are asked for.
#[derive(Debug, Clone, Copy)]
pub struct TracedRow<'a> {
    /// Its table, with or without the schema.
    pub table: &'a str,
    /// The values of all columns of the primary key, by name.
    pub key: &'a BTreeMap<String, Value>,
}

/// How the receipts of a database differ from those that were chained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerFault {
    /// It has not what was written there.
    #[error("receipt {number}, of the change {change}, is missing in the database")]
    Missing {
        /// Its place in the chain.
        number: u64,
        /// Of which change.
        change: String,
    },
    /// It has another one.
    #[error("receipt {number}, of the change {change}, was edited in the database")]
    Altered {
        /// Its place in the chain.
        number: u64,
        /// Of which change.
        change: String,
    },
    /// It has a receipt that was never chained, or was cut off.
    #[error(
        "the database has a receipt of the change {0} that the state file has not: it was cut off there, written by hand, or is of another state file"
    )]
    Unchained(String),
}

/// The values of `key`, in the order of the table's primary key.
///
/// # Errors
/// `request.invalid` unless it has each of these columns and no other.
pub(super) fn read_key(
    primary_key: &[String],
    key: &BTreeMap<String, Value>,
) -> Result<Vec<Value>, Rejection> {
    let values: Vec<Value> = (primary_key.iter())
        .filter_map(|name| key.get(name).cloned())
        .collect();
    if values.len() == primary_key.len() && values.len() == key.len() {
        return Ok(values);
    }
    Err(Rejection::new(
        Code::RequestInvalid,
        format!(
            "`key` gives each column of the primary key and no other: {}",
            primary_key.join(", ")
        ),
    ))
}

impl Guard {
    /// Compares the database's table of receipts with `links`, which is the whole chain of the store. None if it has no table.
    ///
    /// A change that is being kept at this moment may be told of as [unchained](LedgerFault::Unchained).
    ///
    /// # Errors
    /// A text for the operator, if the database cannot be asked.
    pub async fn compare_receipts(
        &self,
        links: &[ChainedReceipt],
    ) -> Result<Option<Vec<LedgerFault>>, String> {
        let found = self.current.get().backend.list_receipts().await;
        let Some(found) = found.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let found: BTreeMap<String, String> = found.into_iter().collect();
        let mut faults = Vec::new();
        let own = links
            .iter()
            .map(|link| &link.body)
            .filter(|body| body.in_database && body.connection.as_deref() == self.name.as_deref());
        for body in own {
            let (number, change) = (body.number, body.change.clone());
            match found.get(&body.change) {
                None => faults.push(LedgerFault::Missing { number, change }),
                Some(text) => {
                    let receipt = serde_json::from_str::<Receipt>(text).ok();
                    if receipt.as_ref() != Some(&body.receipt) {
                        faults.push(LedgerFault::Altered { number, change });
                    }
                }
            }
        }
        let is_chained = |change: &&String| links.iter().any(|link| link.body.change == **change);
        let unchained = found.keys().filter(|change| !is_chained(change));
        faults.extend(unchained.cloned().map(LedgerFault::Unchained));
        Ok(Some(faults))
    }

    /// The newest receipts on this connection that `session` may know of, newest first and 50 at most.
    ///
    /// Of a receipt know its proposer, whoever may approve such a change, and whoever sees all rows of all tables of its statements; and
    /// only while all of these tables exist for them. Tables are counted for those who see all of their rows, and all columns plain.
    ///
    /// # Errors
    /// `internal` if they cannot be read.
    pub fn list_receipts(&self, session: &Session) -> Result<Vec<ReceiptView>, Refusal> {
        let run = self.begin_reading();
        let listed = self
            .admit_reading(session, &run)
            .and_then(|()| self.receipts(session, |_| true));
        self.end_reading(("list_receipts", session), run, listed)
    }

    /// The receipt with this id, of which `session` has to know as for [`list_receipts`](Self::list_receipts).
    ///
    /// # Errors
    /// `change.unknown-receipt`.
    pub fn get_receipt(&self, id: &str, session: &Session) -> Result<ReceiptView, Refusal> {
        let run = self.begin_reading();
        let found = self
            .admit_reading(session, &run)
            .and_then(|()| self.receipts(session, |link| link.body.receipt.id == id));
        let found = found.and_then(|found| {
            let unknown = || Rejection::from(Code::ChangeUnknownReceipt);
            found.into_iter().next().ok_or_else(unknown)
        });
        self.end_reading(("list_receipts", session), run, found)
    }

    /// The receipts of all changes that made a row different, newest first: for whoever sees all rows of its table, and all columns plain.
    /// For anybody else there are none, as of a row that no change was about.
    ///
    /// # Errors
    /// `request.invalid` if the key is not the table's, to those who see the table; `internal`.
    pub fn trace_row(
        &self,
        row: TracedRow<'_>,
        session: &Session,
    ) -> Result<Vec<ReceiptView>, Refusal> {
        let mut run = self.begin_reading();
        let traced = self
            .admit_reading(session, &run)
            .and_then(|()| self.trace(row, session, &mut run));
        self.end_reading(("trace", session), run, traced)
    }

    fn trace(
        &self,
        row: TracedRow<'_>,
        session: &Session,
        run: &mut Run,
    ) -> Result<Vec<ReceiptView>, Rejection> {
        let Some(text) = self.find_row(row, session, run)? else {
            return Ok(Vec::new());
        };
        let store = self.change_store()?;
        let numbers = store.trace_row(&store.digest(&text));
        let numbers = numbers.map_err(Rejection::internal)?;
        self.receipts(session, |link| numbers.contains(&link.body.number))
    }

    /// The text of a row that `session` may trace.
    fn find_row(
        &self,
        row: TracedRow<'_>,
        session: &Session,
        run: &mut Run,
    ) -> Result<Option<String>, Rejection> {
        let firewall = self.firewall();
        let session = self.now(&firewall, session);
        let relations = firewall.relations(&session)?;
        let (dialect, path) = (
            firewall.catalog().dialect(),
            firewall.catalog().search_path(),
        );
        let found = VisibleRelation::find_named(&relations, row.table, dialect, path);
        let [visible] = found.as_slice() else {
            return Ok(None);
        };
        let relation = firewall
            .catalog()
            .find(&visible.schema, &visible.name)
            .filter(|relation| visible.is_plain(relation) && !visible.primary_key.is_empty());
        let Some(relation) = relation else {
            return Ok(None);
        };
        run.relations = vec![relation.database_name()];
        let key = read_key(&visible.primary_key, row.key)?;
        let view = firewall.policies().session(&session);
        let sees_all = view
            .relation(relation.id)
            .is_ok_and(|decision| decision.rows == RowFilter::Everything);
        Ok(sees_all.then(|| row_text(&relation.schema, &relation.name, &key)))
    }

    /// The receipts that `wanted` takes, of those that `session` may know of.
    fn receipts(
        &self,
        session: &Session,
        wanted: impl Fn(&ChainedReceipt) -> bool,
    ) -> Result<Vec<ReceiptView>, Rejection> {
        let all = self.change_store()?.list_receipts();
        let all = all.map_err(Rejection::internal)?;
        let relations = {
            let firewall = self.firewall();
            let session = self.now(&firewall, session);
            firewall.relations(&session)?
        };
        let known = all
            .into_iter()
            .filter(|link| wanted(link) && self.may_know(link, &relations, session));
        let shown = known.take(MAX_RECEIPTS).map(|link| {
            let reads_as_instruction =
                |text: &String| !self.scanner.detect(text.as_bytes()).is_empty();
            ReceiptView {
                change: link.body.change,
                reason: link.body.reason.filter(|text| !reads_as_instruction(text)),
                receipt: self.show_receipt(link.body.receipt, session),
            }
        });
        Ok(shown.collect())
    }

    fn may_know(
        &self,
        link: &ChainedReceipt,
        relations: &[VisibleRelation],
        session: &Session,
    ) -> bool {
        let body = &link.body;
        if body.connection.as_deref() != self.name.as_deref() || body.tables.is_empty() {
            return false;
        }
        let firewall = self.firewall();
        let catalog = firewall.catalog();
        let named: Option<Vec<&Relation>> = (body.tables.iter())
            .map(|name| {
                let mut all = catalog.relations().iter();
                all.find(|one| one.database_name() == *name)
            })
            .collect();
        let Some(named) = named else {
            return false;
        };
        let exists = |relation: &&Relation| {
            let mut seen = relations.iter();
            seen.any(|one| one.schema == relation.schema && one.name == relation.name)
        };
        if !named.iter().all(exists) {
            return false;
        }
        let session = self.now(&firewall, session);
        let view = firewall.policies().session(&session);
        let sees_all = |relation: &&Relation| {
            view.relation(relation.id)
                .is_ok_and(|decision| decision.rows == RowFilter::Everything)
        };
        body.proposed_by == session.principal().to_string()
            || self.may_approve(&body.tables, &session)
            || named.iter().all(sees_all)
    }
}
