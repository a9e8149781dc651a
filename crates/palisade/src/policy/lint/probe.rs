//! What only deciding shows: row policies without SQL form, and readable tables without rows. Every
//! kind of principal there is gets asked about every relation.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cedar_policy::{Effect, EntityUid};

use crate::policy::{
    cedar::{
        entities,
        failure::Failure,
        request::{Subject, decide},
        residual::Untranslatable,
        schema::PolicyAction,
    },
    decide::{
        columns::{decide_columns, find_keyed_columns},
        mask_fit::{UnfitMask, find_unfit_masks},
        relation,
        rows::decide_rows,
        writes,
        writes::WriteDecision,
    },
    lint::{
        Lint, UNKNOWN, absent_views::AbsentViews, constraint_oracles::Oracles,
        hidden_views::HiddenViews, masked_away::MaskedAway, place, plain_to_others::PlainToOthers,
        sample::relations_to_try, trigger_permits::TriggerPermits,
        unfiltered_children::UnfilteredChildren, unread_views::UnreadViews,
        unseen_tables::UnseenTables, view_calls::ViewCalls, warn,
    },
    load::{diagnostic::PolicyProblem, source::Origins},
    obligation::{Caps, ColumnDecision, ColumnLevel, HashDomain, Mask, RowFilter, Visibility},
    rule::Rule,
    set::Loaded,
};
use crate::{
    catalog::{Change, Relation, computed_from},
    session::{Identity, Principal, Session, Transport},
};

/// Asks about the rows of every relation, for representative principals. An untranslatable permit
/// and a failing policy are warned of, since both only deny; an untranslatable forbid is a problem.
pub(in crate::policy) fn check(
    loaded: &Loaded,
    origins: &Origins<'_>,
    lint: Lint,
    problems: &mut Vec<PolicyProblem>,
    warnings: &mut Vec<PolicyProblem>,
) {
    let mut findings = Findings::default();
    let context_matters = origins
        .values()
        .any(|origin| origin.text().contains("context"));
    let typed_masks = loaded.annotations.values().any(|annotations| {
        !matches!(
            annotations.mask,
            None | Some(Mask::Null | Mask::Fixed(_) | Mask::AggregateOnly(_))
        )
    }) || loaded.policies.permits(PolicyAction::ReadToken);
    let subjects = subjects(loaded, context_matters);
    let relations = relations_to_try(loaded, lint, subjects.len(), warnings);
    for (number, subject) in subjects.into_iter().enumerate() {
        for relation in relations.iter().copied() {
            let Some(table) = entities::uid("Table", &relation.uid) else {
                continue;
            };
            if relation.system.is_some() {
                findings.note_system_masks(loaded, &subject, relation);
                continue;
            }
            if typed_masks {
                // Where a policy fails, the rows below fail alike or nothing is shown.
                for (id, unfit) in find_unfit_masks(loaded, &subject, relation).unwrap_or_default()
                {
                    findings.unfit.entry(id).or_insert(unfit);
                }
            }
            // Where a policy fails, it is reported as failing.
            let columns = decide_columns(loaded, &subject, relation).unwrap_or_default();
            findings.note_different_masks(loaded, relation, &columns);
            findings
                .masked_away
                .look(loaded, &subject, relation, &columns);
            let is_known = subject.uid.id().unescaped() != UNKNOWN;
            if is_known && loaded.policies.forbids(PolicyAction::ReadPlain) {
                let subject = (number, &subject);
                let strangers = &mut findings.plain_to_others;
                strangers.note_known(loaded, subject, relation, &columns);
            }
            let write = writes::decide_writes(loaded, &subject, relation);
            if let Some(write) = findings.note_failing(write, &subject) {
                for change in Change::ALL {
                    let policies = write.action(change).policies;
                    findings.note_different_caps(loaded, &policies, &relation.uid);
                }
                findings.note_guessable_tokens(loaded, &subject, relation, &write);
                findings.note_unseen_rows(loaded, &subject, relation, &write);
                findings.note_unread_columns(loaded, &subject, relation, &write);
                findings.oracles.look(loaded, &subject, relation, &write);
                findings.triggers.look(loaded, &subject, relation, &write);
            }
            for action in [PolicyAction::Change, PolicyAction::Add] {
                let wanted = loaded.policies.permits(action) || loaded.policies.forbids(action);
                let rows = wanted.then(|| decide_rows(loaded, &subject, relation, action));
                if let Some(rows) = rows.and_then(|rows| findings.note_failing(rows, &subject)) {
                    findings.note_untranslatable(rows.untranslatable, &relation.uid);
                }
            }
            match decide_rows(loaded, &subject, relation, PolicyAction::See) {
                Ok(rows) => {
                    findings.note_untranslatable(rows.untranslatable.clone(), &relation.uid);
                    let select = decide(loaded, &subject, PolicyAction::Select, relation, table);
                    let select = findings.note_failing(select, &subject);
                    if let Some(select) = select.filter(|select| select.permitted) {
                        // At which times rows are seen is not tried out.
                        let seen = rows.filter != RowFilter::Nothing
                            || loaded.timed.contains(&PolicyAction::See);
                        let together = select.policies.iter().chain(&rows.policies);
                        let together: Vec<String> = together.cloned().collect();
                        findings.note_different_caps(loaded, &together, &relation.uid);
                        let unseen = &mut findings.unseen_tables;
                        unseen.note(relation, &select.policies, seen);
                        unseen.note_forbids(relation, &rows);
                        findings.hidden_views.look(loaded, relation, &rows);
                        let unseen = &mut findings.unseen_tables;
                        if is_known {
                            let by = (select.policies.as_slice(), &rows);
                            unseen.note_of_principal(loaded, &subject, relation, by, seen);
                        } else if seen {
                            let strangers = &mut findings.plain_to_others;
                            strangers.note_unknown(&subject, relation, &columns);
                        }
                        let by = &select.policies;
                        findings.absent_views.look(loaded, &subject, relation, by);
                        findings.view_calls.look(loaded, &subject, relation, by);
                        findings.unread_views.look(loaded, relation, by);
                        let children = &mut findings.unfiltered_children;
                        children.look(loaded, &subject, relation, &rows);
                    }
                }
                Err(failure) => findings.note_failure(failure, &subject),
            }
        }
    }
    findings.report(origins, problems, warnings);
    for (id, origin) in origins {
        let mask = loaded.annotations.get(id).and_then(|a| a.mask.as_ref());
        if let Some(Mask::Expr(mask)) = mask
            && mask.formula.shows_all()
        {
            let message = "this mask gives the value back: it hides nothing";
            let help = "permit `read_plain` where the value may be seen, or mask a part of it";
            let warning = origin.at_annotation("mask", message);
            warnings.push(warning.with_help(Some(help)).of_rule(Rule::MaskShowsAll));
        }
    }
}

/// What only deciding shows, each once.
#[derive(Default)]
struct Findings {
    /// By policy that permits writing a column of tokens or hashes, or what one is generated from: which may be written.
    guessable: BTreeMap<String, String>,
    /// By policy that permits writing a column: a view's column of tokens or hashes that is computed from it, and it.
    guessed_by_views: BTreeMap<String, (String, String)>,
    /// By policy that permits inserting rows which cannot be seen then: the relation.
    unseen: BTreeMap<String, String>,
    /// By policy that permits writing any column: a column that is hidden from its writer.
    unshown: BTreeMap<String, String>,
    /// By policy and whether it forbids: the condition and a relation.
    untranslatable: BTreeMap<(String, bool), (String, String)>,
    /// By annotation, the policy whose demand does not hold and the one whose does: both demands, and of what.
    conflicts: BTreeMap<(&'static str, String, String), (String, String, String)>,
    /// By policy: its mask and a column that does not take it.
    unfit: BTreeMap<String, UnfitMask>,
    /// By policy: a column of the engine's own that its mask hides.
    unmasked: BTreeMap<String, String>,
    /// By policy: a principal for whom it fails.
    failing: BTreeMap<String, String>,
    /// Constraints over what is hidden.
    oracles: Oracles,
    /// Triggers that are set off and not permitted.
    triggers: TriggerPermits,
    /// Columns that masks hide.
    masked_away: MaskedAway,
    /// Columns that no known principal reads plain, and others do.
    plain_to_others: PlainToOthers,
    /// Views over tables that are not permitted.
    absent_views: AbsentViews,
    /// Views that call what is not permitted.
    view_calls: ViewCalls,
    /// Tables that show all rows and refer to hidden ones.
    unfiltered_children: UnfilteredChildren,
    /// Views that a forbid of child tables hides.
    hidden_views: HiddenViews,
    /// Views that no statement can read.
    unread_views: UnreadViews,
    /// Tables that are selected, by whether rows of them are seen.
    unseen_tables: UnseenTables,
}

impl Findings {
    /// What was decided, if no policy failed.
    fn note_failing<D>(&mut self, decided: Result<D, Failure>, subject: &Subject) -> Option<D> {
        decided
            .map_err(|failure| self.note_failure(failure, subject))
            .ok()
    }

    fn note_failure(&mut self, failure: Failure, subject: &Subject) {
        for id in failure.policies {
            let principal = || subject.uid.to_string();
            self.failing.entry(id).or_insert_with(principal);
        }
    }

    fn note_untranslatable(
        &mut self,
        found: Vec<(String, Effect, Untranslatable)>,
        relation: &str,
    ) {
        for (id, effect, why) in found {
            self.untranslatable
                .entry((id, effect == Effect::Forbid))
                .or_insert((why.0, relation.to_owned()));
        }
    }

    /// Notes masks on one of the engine's own relations, in which nothing is masked.
    fn note_system_masks(&mut self, loaded: &Loaded, subject: &Subject, relation: &Relation) {
        let columns = decide_columns(loaded, subject, relation).unwrap_or_default();
        for (column, decided) in relation.columns.iter().zip(columns) {
            let masks = |id: &&String| {
                let annotations = loaded.annotations.get(*id);
                annotations.is_some_and(|annotations| annotations.mask.is_some())
            };
            if let ColumnLevel::Masked(_) = decided.level {
                for id in decided.policies.iter().filter(masks) {
                    let column = || column.uid.clone();
                    self.unmasked.entry(id.clone()).or_insert_with(column);
                }
            }
        }
        match relation::decide_relation(loaded, subject, relation) {
            Ok(decision) if decision.visibility == Visibility::Selectable => {
                self.note_different_caps(loaded, &decision.policies, &relation.uid);
                let seen = decision.rows != RowFilter::Nothing;
                self.unseen_tables.note(relation, &decision.policies, seen);
            }
            Ok(_) => {}
            Err(failure) => self.note_failure(failure, subject),
        }
    }

    /// Columns for which several policies demand different masks, or domains of tokens.
    fn note_different_masks(
        &mut self,
        loaded: &Loaded,
        relation: &Relation,
        decisions: &[ColumnDecision],
    ) {
        for (column, decision) in relation.columns.iter().zip(decisions) {
            let ColumnLevel::Masked(mask) = &decision.level else {
                continue;
            };
            let annotated = |id: &String| Some((id.clone(), loaded.annotations.get(id)?));
            let annotated = decision.policies.iter().filter_map(annotated);
            let demands: Vec<(String, String)> = if let Mask::Token(_) = mask {
                let permits = |id: &String| loaded.policies.has(PolicyAction::ReadToken, id);
                annotated
                    .filter(|(id, _)| permits(id))
                    .map(|(id, of)| match &of.domain {
                        Some(HashDomain::Named(domain)) => (id, domain.clone()),
                        Some(HashDomain::Column) | None => (id, "the column's own".to_owned()),
                    })
                    .collect()
            } else {
                annotated
                    .filter_map(|(id, of)| Some((id, of.mask.as_ref()?.to_string())))
                    .collect()
            };
            let (annotation, holds) = match mask {
                Mask::Token(token) => match &token.domain {
                    HashDomain::Named(domain) => ("domain", domain.clone()),
                    HashDomain::Column => ("domain", "the column's own".to_owned()),
                },
                _ => {
                    let together = loaded.demands(&decision.policies).mask;
                    (
                        "mask",
                        together.map_or_else(String::new, |mask| mask.to_string()),
                    )
                }
            };
            self.note_conflict(annotation, &demands, &holds, &column.uid);
        }
    }

    /// Different caps of policies that determine the same.
    fn note_different_caps(&mut self, loaded: &Loaded, policies: &[String], relation: &str) {
        let all = loaded.demands(policies).caps;
        type Written = fn(Caps) -> Option<String>;
        for (annotation, written) in [
            ("max_rows", Caps::rows_as_written as Written),
            ("max_time", Caps::time_as_written),
        ] {
            let cap = |id: &String| written(loaded.annotations.get(id)?.caps);
            let demands: Vec<(String, String)> = policies
                .iter()
                .filter_map(|id| Some((id.clone(), cap(id)?)))
                .collect();
            if let Some(holds) = written(all) {
                self.note_conflict(annotation, &demands, &holds, relation);
            }
        }
    }

    fn note_conflict(
        &mut self,
        annotation: &'static str,
        demands: &[(String, String)],
        holds: &str,
        of: &str,
    ) {
        let Some((winner, _)) = demands.iter().find(|(_, demand)| demand == holds) else {
            return;
        };
        for (id, demand) in demands.iter().filter(|(_, demand)| demand != holds) {
            self.conflicts
                .entry((annotation, id.clone(), winner.clone()))
                .or_insert_with(|| (demand.clone(), holds.to_owned(), of.to_owned()));
        }
    }

    /// Columns that `subject` reads as tokens or hashes, and may write, or may write what they are computed from.
    fn note_guessable_tokens(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        write: &WriteDecision,
    ) {
        let masks = || loaded.annotations.values().map(|a| &a.mask);
        let hashes = || masks().any(|mask| matches!(mask, Some(Mask::Hash(_))));
        if !(loaded.policies.permits(PolicyAction::ReadToken) || hashes()) {
            return;
        }
        let permits = |write: &WriteDecision, index: u16| {
            let written = write.columns.get(usize::from(index));
            let written = written.filter(|written| write.is_target() && written.permitted)?;
            Some(written.policies.first().cloned().unwrap_or_default())
        };
        for (id, column) in find_keyed_columns(loaded, subject, relation).unwrap_or_default() {
            let dialect = loaded.catalog.dialect();
            let from = computed_from([id.index], relation, dialect);
            let mut from = from.into_iter();
            let permitted = from.find_map(|index| Some((permits(write, index)?, index)));
            if let Some((policy, index)) = permitted {
                let written = relation.column(index).map_or("", |column| &column.uid);
                let which = match index == id.index {
                    true => format!("`{column}` may be written"),
                    false => {
                        format!("`{written}`, of which `{column}` is generated, may be written")
                    }
                };
                self.guessable.entry(policy).or_insert(which);
                continue;
            }
            // What stands below a view is written by its own name, and no change of it looks at views.
            for base in loaded.flow.columns.get(&id).into_iter().flatten() {
                let below = loaded.catalog.relation(base.relation);
                let Some(below) = below.filter(|below| below.id != relation.id) else {
                    continue;
                };
                let write = writes::decide_writes(loaded, subject, below);
                let policy = write.ok().and_then(|write| permits(&write, base.index));
                let keyed = || find_keyed_columns(loaded, subject, below).unwrap_or_default();
                let Some(policy) = policy.filter(|_| keyed().iter().all(|(id, _)| id != base))
                else {
                    continue;
                };
                let uid = loaded.catalog.column(*base).map(|column| &column.uid);
                let names = (column.clone(), uid.cloned().unwrap_or_default());
                self.guessed_by_views.entry(policy).or_insert(names);
            }
        }
    }

    /// Rows that `subject` may insert and not see.
    fn note_unseen_rows(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        write: &WriteDecision,
    ) {
        let insert = write.action(Change::Insert);
        if !insert.permitted || write.add != RowFilter::Everything {
            return;
        }
        let seen = decide_rows(loaded, subject, relation, PolicyAction::See);
        if seen.is_ok_and(|seen| seen.filter != RowFilter::Everything) {
            let policy = insert.policies.first().cloned().unwrap_or_default();
            self.unseen.entry(policy).or_insert(relation.uid.clone());
        }
    }

    /// Columns that `subject` may write, by a policy that does not name them, and not read.
    fn note_unread_columns(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        write: &WriteDecision,
    ) {
        let changes = [Change::Insert, Change::Update];
        if changes
            .iter()
            .all(|change| !write.action(*change).permitted)
        {
            return;
        }
        let Ok(shown) = relation::decide_relation(loaded, subject, relation) else {
            return;
        };
        // Of what is not read at all, columns are written on purpose.
        if shown.visibility != Visibility::Selectable {
            return;
        }
        let both = relation.columns.iter().zip(&shown.columns);
        for ((column, shown), written) in both.zip(&write.columns) {
            let is_named = |id: &String| loaded.named.contains_key(id);
            // Where no policy forbids it, none hides it on purpose.
            if shown.level == ColumnLevel::Hidden
                && !shown.policies.is_empty()
                && written.permitted
                && !written.policies.iter().any(is_named)
            {
                let policy = written.policies.first().cloned().unwrap_or_default();
                let column = || column.uid.clone();
                self.unshown.entry(policy).or_insert_with(column);
            }
        }
    }

    fn report(
        self,
        origins: &Origins<'_>,
        problems: &mut Vec<PolicyProblem>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        let place = |id: &str, message: String| place(origins, id, message);
        for ((id, forbids), (condition, relation)) in self.untranslatable {
            let message = format!("`{condition}` has no SQL form (rows of `{relation}`)");
            let help = "row conditions can compare columns with constants and the principal's attributes, and combine them with `&&`, `||`, `!`, `has`, `contains` and `like`; a column that is computed where it is read (VIRTUAL) only if that cannot fail";
            let help = match condition.contains("_is_seen") {
                true => format!("{help}; an attribute `…_is_seen` stands by itself or behind `!`"),
                false => help.to_owned(),
            };
            let problem = place(&id, message).with_help(Some(help));
            if forbids {
                problems.push(problem)
            } else {
                warnings.push(problem.of_rule(Rule::UntranslatableRows))
            }
        }
        for (id, UnfitMask { mask, column, why }) in self.unfit {
            if matches!(mask, Mask::Token(_)) {
                // Types of views' columns are not always known: one policy may permit many, and some may not fit.
                let message = format!(
                    "`{column}` has no tokens: its type has no text, and it is NULL instead"
                );
                warnings.push(place(&id, message).of_rule(Rule::NoToken));
                continue;
            }
            let message = format!("`{mask}` is no mask for `{column}`: {why}");
            problems.push(match origins.get(&id) {
                Some(origin) => origin.at_annotation("mask", message),
                None => place(&id, message),
            });
        }
        for (id, column) in self.unmasked {
            let message = format!(
                "nothing is masked in relations of the engine's own: `{column}` is not there for whom this masks it"
            );
            let warning = match origins.get(&id) {
                Some(origin) => origin.at_annotation("mask", message),
                None => place(&id, message),
            };
            warnings.push(warning.of_rule(Rule::MaskOfSystem));
        }
        for ((annotation, id, winner), (demand, holds, of)) in self.conflicts {
            let first = place(&winner, String::new());
            let message = format!(
                "`@{annotation}` demands `{demand}` of `{of}`, and that of `{winner}` ({}, line {}) demands `{holds}`, which holds",
                first.file,
                first.line.unwrap_or(1)
            );
            let problem = match origins.get(&id) {
                Some(origin) => origin.at_annotation(annotation, message),
                None => place(&id, message),
            };
            let help = "of several the strictest holds; let their conditions not overlap, or demand the same";
            let warning = problem.with_help(Some(help));
            warnings.push(warning.of_rule(Rule::DifferentDemands));
        }
        for (id, which) in self.guessable {
            let message = format!(
                "{which} by somebody who reads it as tokens or hashes: whoever writes a guess and compares what becomes of it knows whether it is right"
            );
            let help = "such a change is refused; permit `write` on other columns, or let those who write it read it plain";
            let warning = place(&id, message).with_help(Some(help));
            warnings.push(warning.of_rule(Rule::TokenGuessed));
        }
        for (id, (column, base)) in self.guessed_by_views {
            let message = format!(
                "`{base}` may be written by somebody who reads it as tokens or hashes in `{column}`: whoever writes a guess and compares what becomes of it knows whether it is right"
            );
            let help = "such a change is not refused; permit `write` on other columns, or let those who write it read the view's column plain";
            let warning = place(&id, message).with_help(Some(help));
            warnings.push(warning.of_rule(Rule::TokenGuessed));
        }
        for (id, relation) in self.unseen {
            let message = format!(
                "rows may be inserted into `{relation}` that whoever inserts them does not see: `see` is filtered and `add` is not"
            );
            let help = "forbid or permit `Action::\"add\"` by the condition of `Action::\"see\"`";
            let warning = place(&id, message).with_help(Some(help));
            warnings.push(warning.of_rule(Rule::InvisibleInsert));
        }
        for (id, column) in self.unshown {
            let message = format!(
                "`{column}` may be written by somebody from whom it is hidden: this permits writing every column, and forbids of reading forbid no writing"
            );
            let help = "forbid `Action::\"write\"` on it as well, or permit `write` with `resource == Column::\"…\"` where it is meant";
            let warning = place(&id, message).with_help(Some(help));
            warnings.push(warning.of_rule(Rule::HiddenWritten));
        }
        warn(Rule::ConstraintTells, warnings, |warnings| {
            self.oracles.report(origins, warnings);
        });
        warn(Rule::TriggerRefused, warnings, |warnings| {
            self.triggers.report(origins, warnings);
        });
        for (id, principal) in self.failing {
            let message = format!("the policy fails to evaluate for {principal}, which denies");
            warnings.push(place(&id, message).of_rule(Rule::EvaluationFails));
        }
        self.masked_away.report(origins, warnings);
        self.plain_to_others.report(origins, warnings);
        self.absent_views.report(origins, warnings);
        self.view_calls.report(origins, warnings);
        self.unfiltered_children.report(origins, warnings);
        self.unread_views.report(origins, warnings);
        let told = self.hidden_views.names();
        self.hidden_views.report(origins, warnings);
        self.unseen_tables.report(&told, origins, warnings);
    }
}

/// How many kinds of principals the entities may contribute to these checks. Decisions about the
/// others deny just the same; they are not reported in advance.
const KINDS: usize = 64;

/// Moments at which policies that look at the time are asked: a Thursday's midnight in 1970, and a noon in 2500.
const EARLY: Duration = Duration::ZERO;
const LATE: Duration = Duration::from_secs(16_725_268_800);

/// One subject for each kind of principal: entities that differ in type, roles or the attributes they have, and one unknown
/// principal of each type. There are at most [`KINDS`] of the former, so that loading stays quick. Where policies look at the
/// context, each comes over every transport and in every template; where they look at the time, without one and at several.
pub(in crate::policy) fn subjects(loaded: &Loaded, context_matters: bool) -> Vec<Subject> {
    let kinds: BTreeSet<String> = loaded
        .schemas
        .fixed
        .principals()
        .map(ToString::to_string)
        .collect();
    let mut seen = BTreeSet::new();
    let mut uids: Vec<EntityUid> = Vec::new();
    let mut entities: Vec<_> = loaded
        .store
        .operator
        .iter()
        .filter(|entity| kinds.contains(&entity.uid().type_name().to_string()))
        .collect();
    entities.sort_by_key(|entity| entity.uid().to_string());
    for entity in entities {
        let uid = entity.uid();
        let attributes: BTreeSet<String> =
            entity.attrs().map(|(name, _)| name.to_string()).collect();
        let ancestors: BTreeSet<String> = loaded
            .store
            .operator
            .ancestors(&uid)
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        if seen.insert((uid.type_name().to_string(), attributes, ancestors)) {
            uids.push(uid);
        }
    }
    uids.truncate(KINDS);
    for kind in &kinds {
        // A type that demands attributes has no such principal.
        let unknown = entities::uid(kind, UNKNOWN);
        let exists = |uid: &EntityUid| {
            let around =
                loaded
                    .store
                    .collect_around(uid, &Identity::default(), &loaded.schemas.fixed);
            around.is_ok_and(|entities| entities.get(uid).is_some())
        };
        uids.extend(unknown.filter(exists));
    }
    let transports: &[Transport] = if context_matters {
        &Transport::ALL
    } else {
        &[Transport::Library]
    };
    let templates: Vec<Option<&str>> = if context_matters {
        let names = loaded.templates.names().take(KINDS).map(Some);
        std::iter::once(None).chain(names).collect()
    } else {
        vec![None]
    };
    // At the one of them a condition on the time may hold, at the other its contrary.
    let moments: &[Option<Duration>] = if loaded.timed.is_empty() {
        &[None]
    } else {
        &[None, Some(EARLY), Some(LATE)]
    };
    let mut out = Vec::new();
    for uid in uids {
        for transport in transports {
            for template in &templates {
                for moment in moments {
                    let principal = Principal::new("", "");
                    let mut session = Session::new(principal).over(*transport);
                    if let Some(template) = template {
                        session = session.running(template, Vec::new());
                    }
                    if let Some(moment) = moment {
                        session = session.at(*moment);
                    }
                    let subject = Subject::with_uid(loaded, uid.clone(), &session);
                    out.extend(subject.map(Subject::remembering));
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
