//! Rows on their way out: capped, scanned cell by cell, and only then able to become JSON.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
};

use serde::Serialize;

use crate::{
    answer::{
        Action, Detector, ExpectedByColumn, OutputColumn, Room, RowBound, ScanPlan, Scanner,
        Sensitivity, Severity, SeverityActions,
        cell::{Cell, HEX_PREFIX},
        marker::Marker,
        redact::{self, redact},
        room::{Left, NOTE_CHARS},
        row::ScannedRow,
        spell_out,
        split::{Split, find_split},
    },
    code::Code,
    rejection::Rejection,
    value::{ColumnTypes, RowSink, Value},
};

/// What a detector found, and where. It quotes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What found it.
    pub detector: &'static Detector,
    /// The row, the first being 0; none if it is in the column's name or type.
    pub row: Option<u64>,
    /// The column's name in the answer.
    pub column: String,
    /// How sure and how bad.
    pub severity: Severity,
}

/// Something the reader has to know about the rows, once for each kind and column. A masked column that the statement used is
/// `masked_column`, whatever came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// What happened: a slug.
    pub notice: &'static str,
    /// The column's name in the answer, or of a masked column that of the table and its own; none if it is about the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// What a masked column was used for, in the words of [`Usage`](crate::access::Usage); nothing of other notices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<&'static str>,
    /// How many cells, or findings, it is about; 1 of a masked column.
    pub count: u64,
    /// The same in words.
    pub message: Cow<'static, str>,
}

/// The slug of the notice that a table shows no row. An answer without rows says it as its reason.
pub(in crate::answer) const NO_ROWS: &str = "no_rows_permitted";

/// Why rows are missing at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TruncationReason {
    /// There are more rows than were asked for.
    RowLimit,
    /// There are more rows than any answer may have: a higher limit would give no more.
    RowCap,
    /// The next row would exceed the bytes that may leave.
    SizeLimit,
}

/// Why there are no rows. It follows from policy alone, never from hidden data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyReason {
    /// No row meets the statement's conditions.
    NoMatch,
    /// As before, or policy hides the rows that do.
    NoMatchOrFiltered,
    /// A condition compared masks, which may hold for no row while it would for values; or one of the reasons before.
    MaskedCondition,
    /// Policy shows no row of a relation that the statement reads, whatever it holds.
    NoRowsPermitted,
}

/// An answer that has been scanned: the only thing that becomes JSON, and made only by
/// [`ScanSession::finish`].
///
/// ```compile_fail
/// let rows = palisade::answer::ScannedRows { rows: Vec::new() };
/// ```
#[derive(Debug)]
pub struct ScannedRows {
    /// With names made unique; each is the key of its cell in a row.
    pub(in crate::answer) columns: Vec<OutputColumn>,
    pub(in crate::answer) rows: Vec<Vec<Cell>>,
    pub(in crate::answer) truncation: Option<TruncationReason>,
    pub(in crate::answer) total_seen: u64,
    pub(in crate::answer) empty: Option<EmptyReason>,
    pub(in crate::answer) notices: Vec<Notice>,
    pub(in crate::answer) findings: Vec<Finding>,
    pub(in crate::answer) marker: Marker,
}

impl ScannedRows {
    /// Adds that the statement did nothing, since what it names is not there for who asks.
    pub(in crate::answer) fn with_nothing_done(mut self) -> Self {
        let kind = NoticeKind::NothingDone;
        self.notices.push(Notice {
            notice: kind.slug(),
            column: None,
            usage: Vec::new(),
            count: 1,
            message: kind.message().into(),
        });
        self
    }

    /// The same for a model: what hides or imitates in names and cells is spelled out, and notices say in which
    /// columns it was.
    pub(in crate::answer) fn spelled_out(&self) -> Self {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|column| OutputColumn {
                name: spell_out(&column.name).into(),
                type_name: spell_out(&column.type_name).into(),
                masked: column.masked,
            })
            .collect();
        // Two names may be spelled alike.
        let columns = unique_names(&columns);
        let mut counts = vec![0_u64; columns.len()];
        let rows = self
            .rows
            .iter()
            .map(|row| {
                let spell = |(cell, count): (&Cell, &mut u64)| {
                    let shown = cell.spelled_out();
                    *count += u64::from(shown != *cell);
                    shown
                };
                row.iter().zip(&mut counts).map(spell).collect()
            })
            .collect();
        let names: BTreeMap<&str, &str> = self
            .columns
            .iter()
            .zip(&columns)
            .map(|(old, new)| (&*old.name, &*new.name))
            .collect();
        let renamed = |name: &str| (*names.get(name).unwrap_or(&name)).to_owned();
        let mut notices: Vec<_> = self
            .notices
            .iter()
            .map(|notice| Notice {
                column: notice
                    .column
                    .as_deref()
                    .map(|name| match notice.usage.as_slice() {
                        [] => renamed(name),
                        // It is no column of the answer.
                        [_, ..] => spell_out(name).into_owned(),
                    }),
                message: spell_out(&notice.message).into_owned().into(),
                ..notice.clone()
            })
            .collect();
        let kind = NoticeKind::CharactersSpelled;
        let changed = columns.iter().zip(&counts).filter(|(_, count)| **count > 0);
        notices.extend(changed.map(|(column, count)| Notice {
            notice: kind.slug(),
            column: Some(column.name.to_string()),
            usage: Vec::new(),
            count: *count,
            message: kind.message().into(),
        }));
        let findings = self
            .findings
            .iter()
            .map(|finding| Finding {
                column: renamed(&finding.column),
                ..finding.clone()
            })
            .collect();
        Self {
            rows,
            truncation: self.truncation,
            total_seen: self.total_seen,
            empty: self.empty,
            notices,
            findings,
            marker: self.marker,
            columns,
        }
    }

    /// The same with as many notices and findings as an answer has room for; notices count the others.
    pub(in crate::answer) fn with_fewer_remarks(mut self) -> Self {
        let kept = fitting(&self.notices, NOTE_CHARS / 2);
        let left_out = self.notices.split_off(kept);
        let kept = fitting(&self.findings, NOTE_CHARS / 2);
        let findings = self.findings.split_off(kept);
        for (kind, count) in [
            (NoticeKind::NoticesOmitted, left_out.len()),
            (NoticeKind::FindingsOmitted, findings.len()),
        ] {
            let Some(count) = u64::try_from(count).ok().filter(|count| *count > 0) else {
                continue;
            };
            let slug = kind.slug();
            match self.notices.iter_mut().find(|notice| notice.notice == slug) {
                Some(notice) => notice.count = notice.count.saturating_add(count),
                None => self.notices.push(Notice {
                    notice: slug,
                    column: None,
                    usage: Vec::new(),
                    count,
                    message: kind.message().into(),
                }),
            }
        }
        self
    }

    /// The cells as values, for rows that are made of them and scanned again.
    pub(crate) fn into_values(self) -> Vec<Vec<Value>> {
        let rows = self.rows.into_iter();
        rows.map(|row| row.into_iter().map(Value::from).collect())
            .collect()
    }

    /// The rows, in the order in which the database gave them.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = ScannedRow<'_>> {
        let columns = self.columns.as_slice();
        self.rows
            .iter()
            .map(move |cells| ScannedRow { columns, cells })
    }

    /// The columns, with names made unique: of two that are called `id`, the second is `id_2`, or the next number by which no
    /// other column goes. Columns of names that stand once keep them.
    #[must_use]
    pub fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    /// How many rows there are.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Why rows are missing at the end, if any are.
    #[must_use]
    pub fn truncation(&self) -> Option<TruncationReason> {
        self.truncation
    }

    /// Rows looked at; a lower bound of those there are.
    #[must_use]
    pub fn total_seen(&self) -> u64 {
        self.total_seen
    }

    /// Why there are no rows, where there are none.
    #[must_use]
    pub fn empty_reason(&self) -> Option<EmptyReason> {
        self.empty
    }

    /// What the detectors found, at most [`MAX_FINDINGS`]; a notice counts the others.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What the reader has to know about the rows.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }
}

/// How many of `remarks`, from the first on, have so many characters as JSON.
fn fitting(remarks: &[impl Serialize], chars: usize) -> usize {
    let mut left = chars;
    let fits = |remark: &&_| {
        let json = serde_json::to_string(remark).unwrap_or_default();
        left.checked_sub(json.chars().count())
            .inspect(|rest| left = *rest)
            .is_some()
    };
    remarks.iter().take_while(fits).count()
}

/// The least number that is scanned: it has fourteen digits, as many as the shortest number of a card.
const LONG_NUMBER: u64 = 10_000_000_000_000;
/// Findings that are listed in an answer.
pub const MAX_FINDINGS: usize = 100;

/// Takes the rows of one answer and scans them as they come.
#[derive(Debug)]
pub struct ScanSession {
    plan: ScanPlan,
    actions: SeverityActions,
    /// What is no news in which column.
    expected: ExpectedByColumn,
    scanner: Scanner,
    marker: Marker,
    columns: Vec<OutputColumn>,
    rows: Vec<Vec<Cell>>,
    bytes: usize,
    truncation: Option<TruncationReason>,
    total_seen: u64,
    notices: BTreeMap<(NoticeKind, Option<usize>), u64>,
    findings: Vec<Finding>,
    blocked: BTreeSet<&'static str>,
    shape_checked: bool,
    fault: Option<String>,
    /// More rows came than policy lets an answer have before it is refused.
    has_refused_rows: bool,
    /// What is left of the room that the answer was given, if it was.
    left: Option<Left>,
    /// The names of its columns alone are larger than that room.
    is_too_wide: bool,
    /// A higher limit would give no more rows.
    has_most_rows: bool,
    /// Columns without a type have that of their values.
    is_typed_by_value: bool,
}

impl ScanSession {
    /// Begins an answer that must have the shape in `plan`. Column names and types are scanned here.
    /// `marker` must be random and used for this answer only. Without the feature `scan` nothing is found, and `action` has no effect.
    #[must_use]
    pub fn new(plan: &ScanPlan, action: Action, marker: Marker) -> Self {
        Self::with_sensitivity(plan, action, Sensitivity::default(), marker)
    }

    /// The same with another sensitivity than the balanced one.
    #[must_use]
    pub fn with_sensitivity(
        plan: &ScanPlan,
        action: Action,
        sensitivity: Sensitivity,
        marker: Marker,
    ) -> Self {
        Self::with_scanner(plan, action, Scanner::with_sensitivity(sensitivity), marker)
    }

    /// The same with a scanner that looks for what an operator does, too.
    #[must_use]
    pub fn with_scanner(
        plan: &ScanPlan,
        actions: impl Into<SeverityActions>,
        scanner: Scanner,
        marker: Marker,
    ) -> Self {
        let mut session = Self {
            plan: plan.clone(),
            actions: actions.into(),
            expected: ExpectedByColumn::default(),
            scanner,
            marker,
            columns: unique_names(&plan.columns),
            rows: Vec::new(),
            bytes: 0,
            truncation: None,
            total_seen: 0,
            notices: BTreeMap::new(),
            findings: Vec::new(),
            blocked: BTreeSet::new(),
            shape_checked: false,
            fault: None,
            has_refused_rows: false,
            left: None,
            is_too_wide: false,
            has_most_rows: false,
            is_typed_by_value: false,
        };
        session.scan_columns();
        session
    }

    /// The same where an operator expects findings in some columns.
    #[must_use]
    pub fn expect_findings(self, expected: ExpectedByColumn) -> Self {
        Self { expected, ..self }
    }

    /// The same for an answer that a model is given no more of than `room` holds. What does not fit is cut off at a row, and counts as
    /// what exceeds the limit of bytes.
    #[must_use]
    pub fn keep_within(mut self, room: Room) -> Self {
        self.left = Left::measure(room, &self.columns);
        self.has_most_rows = room.has_most_rows;
        self.is_too_wide = self.left.is_none();
        self
    }

    /// One row, a cell for each column. A break means that no more rows are wanted; rows that come
    /// all the same are dropped.
    pub fn push(&mut self, cells: Vec<Value>) -> ControlFlow<()> {
        if self.fault.is_some() || self.truncation.is_some() || self.takes_nothing() {
            return ControlFlow::Break(());
        }
        if cells.len() != self.columns.len() {
            return self.fail(format!(
                "a row has {} cells where {} columns were decided",
                cells.len(),
                self.columns.len()
            ));
        }
        self.total_seen = self.total_seen.saturating_add(1);
        if self.total_seen > self.plan.max_rows {
            self.truncation = Some(match (self.plan.row_bound, self.has_most_rows) {
                (RowBound::PolicyOrRefusal, _) => {
                    self.has_refused_rows = true;
                    TruncationReason::RowCap
                }
                (RowBound::Policy, _) | (RowBound::Limit, true) => TruncationReason::RowCap,
                (RowBound::Limit, false) => TruncationReason::RowLimit,
            });
            return ControlFlow::Break(());
        }
        let mut notices = Vec::new();
        let mut found = Vec::new();
        let mut bytes = self.bytes;
        let mut row = Vec::with_capacity(cells.len());
        for (column, value) in cells.into_iter().enumerate() {
            let cell = self.cell(column, value, &mut notices, &mut found);
            // Each row spells its columns' names again.
            let name = self.columns.get(column).map_or(0, |c| c.name.len());
            bytes = bytes.saturating_add(cell.bytes()).saturating_add(name);
            row.push(cell);
        }
        if !self.fits(bytes, &row) && self.rows.is_empty() {
            bytes = self.cut_to_fit(&mut row, &mut notices, &mut found);
        }
        // What is not sent is not reported: findings of a row that is left out would tell of it.
        if !self.fits(bytes, &row) {
            self.truncation = Some(TruncationReason::SizeLimit);
            return ControlFlow::Break(());
        }
        let number = u64::try_from(self.rows.len()).ok();
        self.bytes = bytes;
        self.left = self
            .left
            .and_then(|left| left.take_row(&self.columns, &row));
        self.rows.push(row);
        for (kind, column) in notices {
            self.notice(kind, Some(column));
        }
        for (column, detector) in found {
            self.record_finding(detector, number, column);
        }
        if self.takes_nothing() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Whether one more row fits, with which the answer has so many bytes.
    fn fits(&self, bytes: usize, row: &[Cell]) -> bool {
        bytes <= self.plan.max_result_bytes
            && self
                .left
                .is_none_or(|left| left.take_row(&self.columns, row).is_some())
    }

    /// Cuts the texts of a row that does not fit into the answer by itself, each to the same share, so that there is an answer.
    /// Its bytes then.
    fn cut_to_fit(
        &self,
        row: &mut [Cell],
        notices: &mut Vec<(NoticeKind, usize)>,
        found: &mut Vec<(usize, &'static Detector)>,
    ) -> usize {
        let names: usize = self.columns.iter().map(|column| column.name.len()).sum();
        let left = self.plan.max_result_bytes.saturating_sub(names);
        let left = self.left.map_or(left, |room| left.min(room.chars()));
        let mut share = left.checked_div(row.len()).unwrap_or_default();
        let mut bytes = self.cut_to(share, row, notices, found);
        // What a text grows to as a model reads it is known only when it is written.
        while self.left.is_some() && share > 0 && !self.fits(bytes, row) {
            share /= 2;
            bytes = self.cut_to(share, row, notices, found);
        }
        bytes
    }

    /// Cuts each text of a row to so many bytes; the row's bytes then.
    fn cut_to(
        &self,
        share: usize,
        row: &mut [Cell],
        notices: &mut Vec<(NoticeKind, usize)>,
        found: &mut Vec<(usize, &'static Detector)>,
    ) -> usize {
        let names: usize = self.columns.iter().map(|column| column.name.len()).sum();
        for (column, cell) in row.iter_mut().enumerate() {
            if !cell.cut_to(share) {
                continue;
            }
            let cut = (NoticeKind::CellCut, column);
            if !notices.contains(&cut) {
                notices.push(cut);
            }
            // What is cut off is not reported. What is left may score less.
            let detectors = match cell {
                Cell::Text(text) => self.scanner.detect(text.as_bytes()),
                Cell::Bytes(bytes) => self.scanner.detect(bytes),
                Cell::Null | Cell::Bool(_) | Cell::Integer(_) | Cell::Real(_) => Vec::new(),
            };
            let had_findings = found.iter().any(|(at, _)| *at == column);
            found.retain(|(at, _)| *at != column);
            if had_findings {
                let detectors = detectors.into_iter();
                let news = detectors.filter(|one| !self.expected.has(column, one));
                found.extend(news.map(|detector| (column, detector)));
            }
        }
        row.iter()
            .map(Cell::bytes)
            .fold(names, usize::saturating_add)
    }

    /// The answer.
    ///
    /// # Errors
    /// [`Code::Internal`] if the answer has another shape than was decided, [`Code::OutputBlocked`] if
    /// something was found and the action is to block, [`Code::LimitRows`] if policy refuses an answer with so many rows.
    pub fn finish(mut self) -> Result<ScannedRows, Rejection> {
        self.type_by_value();
        self.scan_across_cells();
        if let Some(detail) = self.fault {
            return Err(Rejection::internal(detail));
        }
        if !self.blocked.is_empty() {
            let detectors = self.blocked.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Rejection::from(Code::OutputBlocked)
                .with_operator_detail(format!("found by {detectors}")));
        }
        if self.has_refused_rows {
            return Err(Rejection::new(
                Code::LimitRows,
                format!(
                    "there are more than {} rows, and policy permits no part of such an answer",
                    self.plan.max_rows
                ),
            ));
        }
        if self.is_too_wide {
            return Err(Rejection::new(
                Code::LimitResource,
                "the names of the columns alone are larger than an answer may be; ask for fewer columns or shorter names",
            ));
        }
        // What gives no columns has no rows to miss.
        let could_have_rows = !self.plan.columns.is_empty();
        let empty = (could_have_rows && self.total_seen == 0).then_some(self.plan.if_empty);
        let name = |column: usize| self.columns.get(column).map(|c| c.name.to_string());
        let notices = self
            .notices
            .iter()
            .map(|((kind, column), count)| Notice {
                notice: kind.slug(),
                column: column.and_then(name),
                usage: Vec::new(),
                count: *count,
                message: kind.message().into(),
            })
            .chain(
                (self.plan.statement_notices().into_iter())
                    // The reason says it already.
                    .filter(|told| empty.is_none() || told.notice != NO_ROWS),
            )
            .collect();
        Ok(ScannedRows {
            notices,
            columns: self.columns,
            rows: self.rows,
            truncation: self.truncation,
            total_seen: self.total_seen,
            empty,
            findings: self.findings,
            marker: self.marker,
        })
    }

    /// Treats what is spread over several cells as if each of them held it. Where it is expected in one of them, the others tell.
    fn scan_across_cells(&mut self) {
        for Split { detector, cells } in find_split(&self.rows, self.scanner) {
            for (row, column) in cells {
                if self.expected.has(column, detector) {
                    self.notice(NoticeKind::FindingsExpected, Some(column));
                    continue;
                }
                self.record_finding(detector, u64::try_from(row).ok(), column);
                let cell = self.rows.get_mut(row).and_then(|row| row.get_mut(column));
                let Some(cell) = cell else {
                    continue;
                };
                let replaced = redact::name(detector.id);
                match self.actions.choose(detector.severity) {
                    Action::Flag | Action::Block => {}
                    // An answer is not made longer: its room is spent.
                    Action::Redact if replaced.len() <= cell.bytes() => {
                        *cell = Cell::Text(replaced);
                    }
                    Action::Redact | Action::Withhold => {
                        if *cell != Cell::Null {
                            *cell = Cell::Null;
                            self.notice(NoticeKind::CellWithheld, Some(column));
                        }
                    }
                }
            }
        }
    }

    /// Gives columns without a type that of the values that leave, where all have the same.
    fn type_by_value(&mut self) {
        if !self.is_typed_by_value {
            return;
        }
        for (index, column) in self.columns.iter_mut().enumerate() {
            if column.type_name.is_empty() {
                let cells = self.rows.iter().filter_map(|row| row.get(index));
                column.type_name = common_type(cells).into();
            }
        }
    }

    fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Whether there will be no answer, whatever comes.
    fn takes_nothing(&self) -> bool {
        self.is_blocked() || self.is_too_wide
    }

    fn fail(&mut self, detail: String) -> ControlFlow<()> {
        self.fault.get_or_insert(detail);
        ControlFlow::Break(())
    }

    fn scan_columns(&mut self) {
        let mut taken: BTreeSet<Arc<str>> = self.columns.iter().map(|c| c.name.clone()).collect();
        for index in 0..self.columns.len() {
            let Some(column) = self.columns.get_mut(index) else {
                continue;
            };
            let in_name = self.scanner.detect(column.name.as_bytes());
            let in_type = self.scanner.detect(column.type_name.as_bytes());
            let is_replaced =
                |found: &[&'static Detector]| match self.actions.choose_strictest(found) {
                    Action::Flag | Action::Block => false,
                    Action::Redact | Action::Withhold => true,
                };
            if is_replaced(&in_name) {
                column.name = free_name(&format!("column_{}", index + 1), &taken);
                taken.insert(column.name.clone());
            }
            if is_replaced(&in_type) {
                column.type_name = Arc::default();
            }
            let found: BTreeMap<_, _> = in_name
                .into_iter()
                .chain(in_type)
                .map(|d| (d.id, d))
                .collect();
            for detector in found.into_values() {
                self.record_finding(detector, None, index);
            }
        }
    }

    /// Turns a value into a cell: cut to size, scanned, and treated as the action says.
    fn cell(
        &self,
        column: usize,
        value: Value,
        notices: &mut Vec<(NoticeKind, usize)>,
        found: &mut Vec<(usize, &'static Detector)>,
    ) -> Cell {
        let bytes = match value {
            Value::Null => return Cell::Null,
            Value::Bool(b) => return Cell::Bool(b),
            Value::Integer(i) => {
                // Of digits alone there are numbers of cards, and what an operator looks for.
                let detectors = match i.unsigned_abs() {
                    LONG_NUMBER.. => self.scanner.detect(i.to_string().as_bytes()),
                    0..LONG_NUMBER => Vec::new(),
                };
                return self.apply_action(column, Cell::Integer(i), &detectors, notices, found);
            }
            Value::Real(r) => return Cell::Real(r),
            Value::Blob(bytes) => {
                // Two digits a byte and the prefix.
                let most = self.plan.max_cell_bytes.saturating_sub(HEX_PREFIX.len()) / 2;
                if bytes.len() > most {
                    notices.push((NoticeKind::CellCut, column));
                }
                // Bytes that hold text are scanned too: a model reads hexadecimal.
                let kept = bytes.get(..most).unwrap_or(&bytes);
                let detectors = self.scanner.detect(kept);
                let cell = Cell::Bytes(kept.to_vec());
                return self.apply_action(column, cell, &detectors, notices, found);
            }
            Value::Text(bytes) => match self.token(column, &bytes) {
                // Digits, which no detector has to look at.
                Some(token) => return Cell::Text(token),
                None => bytes,
            },
        };
        let mut text = String::from_utf8(bytes).unwrap_or_else(|error| {
            notices.push((NoticeKind::InvalidUtf8, column));
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        if text.len() > self.plan.max_cell_bytes {
            text.truncate(text.floor_char_boundary(self.plan.max_cell_bytes));
            notices.push((NoticeKind::CellCut, column));
        }
        let detectors = self.scanner.detect(text.as_bytes());
        self.apply_action(column, Cell::Text(text), &detectors, notices, found)
    }

    /// The token of a hash, in a column of tokens.
    fn token(&self, column: usize, hash: &[u8]) -> Option<String> {
        let (_, keys) = self
            .plan
            .tokens
            .iter()
            .find(|(index, _)| *index == column)?;
        keys.stamp(hash)
    }

    fn apply_action(
        &self,
        column: usize,
        cell: Cell,
        detectors: &[&'static Detector],
        notices: &mut Vec<(NoticeKind, usize)>,
        found: &mut Vec<(usize, &'static Detector)>,
    ) -> Cell {
        let (expected, detectors): (Vec<_>, Vec<_>) = detectors
            .iter()
            .copied()
            .partition(|detector| self.expected.has(column, detector));
        notices.extend(
            expected
                .iter()
                .map(|_| (NoticeKind::FindingsExpected, column)),
        );
        let Some(first) = detectors.first() else {
            return cell;
        };
        found.extend(detectors.iter().map(|detector| (column, *detector)));
        match self.actions.choose_strictest(&detectors) {
            Action::Flag | Action::Block => cell,
            Action::Redact => Cell::Text(match cell {
                Cell::Text(text) => redact(&text, first, self.scanner, |one| {
                    !self.expected.has(column, one)
                }),
                Cell::Null | Cell::Bool(_) | Cell::Integer(_) | Cell::Real(_) | Cell::Bytes(_) => {
                    redact::name(first.id)
                }
            }),
            Action::Withhold => {
                notices.push((NoticeKind::CellWithheld, column));
                Cell::Null
            }
        }
    }

    fn record_finding(&mut self, detector: &'static Detector, row: Option<u64>, column: usize) {
        if self.actions.choose(detector.severity) == Action::Block {
            self.blocked.insert(detector.id);
        }
        if self.findings.len() >= MAX_FINDINGS {
            self.notice(NoticeKind::FindingsOmitted, None);
            return;
        }
        let column = self
            .columns
            .get(column)
            .map(|c| c.name.to_string())
            .unwrap_or_default();
        self.findings.push(Finding {
            detector,
            row,
            column,
            severity: detector.severity,
        });
    }

    fn notice(&mut self, kind: NoticeKind, column: Option<usize>) {
        let count = self.notices.entry((kind, column)).or_default();
        *count = count.saturating_add(1);
    }
}

/// The type of all of these cells that hold something, in SQLite's words; nothing where they have several.
fn common_type<'c>(cells: impl Iterator<Item = &'c Cell>) -> &'static str {
    let types: BTreeSet<&str> = cells
        .filter_map(|cell| match cell {
            Cell::Null => None,
            Cell::Bool(_) | Cell::Integer(_) => Some("INTEGER"),
            Cell::Real(_) => Some("REAL"),
            Cell::Text(_) => Some("TEXT"),
            Cell::Bytes(_) => Some("BLOB"),
        })
        .collect();
    match (types.len(), types.first()) {
        (1, Some(only)) => only,
        (_, _) => "",
    }
}

impl RowSink for ScanSession {
    fn columns(&mut self, names: &[&str]) -> ControlFlow<()> {
        let decided = self.plan.columns.iter().map(|c| &*c.name);
        if names.iter().copied().eq(decided) {
            self.shape_checked = true;
            return if self.takes_nothing() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            };
        }
        let difference = names
            .iter()
            .zip(&self.plan.columns)
            .position(|(name, column)| *name != &*column.name)
            .map_or_else(
                || "their number differs".to_owned(),
                |at| format!("column {} differs", at + 1),
            );
        self.fail(format!(
            "the engine answers with {} columns where {} were decided: {difference}",
            names.len(),
            self.plan.columns.len()
        ))
    }

    fn types(&mut self, types: ColumnTypes<'_>) {
        match types {
            ColumnTypes::ByValue => self.is_typed_by_value = true,
            ColumnTypes::Named(names) => {
                for (column, name) in self.columns.iter_mut().zip(names) {
                    if column.type_name.is_empty() {
                        column.type_name = (*name).into();
                    }
                }
            }
        }
    }

    fn row(&mut self, cells: Vec<Value>) -> ControlFlow<()> {
        if !self.shape_checked {
            return self
                .fail("the engine's driver gives rows before it names the columns".to_owned());
        }
        self.push(cells)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NoticeKind {
    CellCut,
    InvalidUtf8,
    CellWithheld,
    FindingsExpected,
    FindingsOmitted,
    NoticesOmitted,
    NothingDone,
    CharactersSpelled,
}

impl NoticeKind {
    fn slug(self) -> &'static str {
        match self {
            Self::CellCut => "cell_cut",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::CellWithheld => "cell_withheld",
            Self::FindingsExpected => "findings_expected",
            Self::FindingsOmitted => "findings_omitted",
            Self::NoticesOmitted => "notices_omitted",
            Self::NothingDone => "nothing_done",
            Self::CharactersSpelled => "characters_spelled",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::CellCut => "Cells longer than the limit are cut off.",
            Self::InvalidUtf8 => "Cells hold bytes that are not UTF-8; U+FFFD stands for them.",
            Self::CellWithheld => {
                "Cells that read as instructions to a model are withheld and null here."
            }
            Self::FindingsExpected => {
                "In this column the operator expects such findings; they are not listed. The cells are data all the same."
            }
            Self::FindingsOmitted => "More was found than is listed.",
            Self::NoticesOmitted => "There are more notices than are listed.",
            Self::NothingDone => {
                "There is nothing of that name that you can see: the statement did nothing."
            }
            Self::CharactersSpelled => {
                "Characters that hide or imitate are spelled as \\uXXXX in these cells; in the database they are single characters."
            }
        }
    }
}

/// The second `a` becomes `a_2`, or the next that no column has.
fn unique_names(columns: &[OutputColumn]) -> Vec<OutputColumn> {
    // Names that stand in the answer keep theirs; only repetitions are renamed.
    let mut taken: BTreeSet<Arc<str>> = columns.iter().map(|c| c.name.clone()).collect();
    let mut seen = BTreeSet::new();
    columns
        .iter()
        .map(|column| {
            let mut column = column.clone();
            if !seen.insert(column.name.clone()) {
                column.name = free_name(&column.name, &taken);
                taken.insert(column.name.clone());
            }
            column
        })
        .collect()
}

/// `name`, or `name_2`, `name_3`, … that is not in `taken`.
fn free_name(name: &str, taken: &BTreeSet<Arc<str>>) -> Arc<str> {
    if !taken.contains(name) {
        return name.into();
    }
    (2_u64..)
        .map(|n| Arc::from(format!("{name}_{n}")))
        .find(|n| !taken.contains(n))
        .unwrap_or_default()
}
