//! Whether policies are wider than others for any principal: each strength of what is shown by the one is at most what is shown by
//! the other.
//!
//! Of the others a condition holds only where their decision shows as much: it is nothing where a policy fails to evaluate.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::catalog::{ColumnId, Relation};
use crate::policy::{
    PolicySet,
    cedar::{entities::resource, schema::PolicyAction},
    load::annotation::Annotations,
    rule::Rule,
    set::Loaded,
    symbolic::{
        Applies, Asking, Aspect, SymbolicQuestion, Verdict,
        expression::{all, any, has_where, not},
        tell, whenever,
    },
};

/// The action on rows that are changed or removed, with those that do so.
const CHANGING: (PolicyAction, &[PolicyAction]) = (
    PolicyAction::Change,
    &[PolicyAction::Update, PolicyAction::Delete],
);

/// The action on rows as they become, with those that make them.
const ADDING: (PolicyAction, &[PolicyAction]) = (
    PolicyAction::Add,
    &[PolicyAction::Insert, PolicyAction::Update],
);

/// What of the one has to be within what of the other.
struct Pair {
    new: Vec<Value>,
    old: Vec<Value>,
}

impl PolicySet {
    /// Questions that have no principal where none of the type `kind` has more of an aspect of a relation, or of its column, than by
    /// `old`. None where policies decide alike.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub(crate) fn ask_whether_wider(
        &self,
        old: &Self,
        kind: &str,
        (relation, column): (&Relation, Option<ColumnId>),
        aspect: Aspect,
    ) -> Result<Vec<SymbolicQuestion>, String> {
        let (new, old) = (
            Side::new(&self.loaded, kind)?,
            Side::new(&old.loaded, kind)?,
        );
        require_comparable(&new, &old, relation)?;
        let pairs = match aspect {
            Aspect::Read => read(&new, &old, relation, column)?,
            Aspect::Write => write(&new, &old, relation, column)?,
            Aspect::Select => select(&new, &old, relation)?,
            Aspect::See => rows(
                (PolicyAction::See, &[PolicyAction::Select]),
                &new,
                &old,
                relation,
            )?,
            Aspect::Change => rows(CHANGING, &new, &old, relation)?,
            Aspect::Add => rows(ADDING, &new, &old, relation)?,
            Aspect::Insert => table(PolicyAction::Insert, &new, &old, relation)?,
            Aspect::Update => change(PolicyAction::Update, &new, &old, relation)?,
            Aspect::Delete => change(PolicyAction::Delete, &new, &old, relation)?,
            Aspect::Truncate => table(PolicyAction::Truncate, &new, &old, relation)?,
            Aspect::Run => return Err("a template is no table".to_owned()),
        };
        let about_rows = match aspect {
            Aspect::See | Aspect::Change | Aspect::Add => Some(relation),
            Aspect::Read
            | Aspect::Write
            | Aspect::Select
            | Aspect::Insert
            | Aspect::Update
            | Aspect::Delete
            | Aspect::Truncate
            | Aspect::Run => None,
        };
        pairs
            .into_iter()
            .map(|pair| {
                let schema = new.asking.schema_text(about_rows)?;
                let kind = kind.to_owned();
                Ok(SymbolicQuestion::new(schema, kind, pair.new, pair.old))
            })
            .collect()
    }

    /// Questions that have no principal where none of the type `kind` may run a template that it may not by `old`.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub(crate) fn ask_whether_more_runs(
        &self,
        old: &Self,
        kind: &str,
        template: &str,
    ) -> Result<Vec<SymbolicQuestion>, String> {
        let (new, old) = (
            Side::new(&self.loaded, kind)?,
            Side::new(&old.loaded, kind)?,
        );
        require_same_types(&new, &old)?;
        let uid = resource("Template", template).map_err(tell)?;
        let [mine, theirs] =
            [&new, &old].map(|side| side.asking.verdict(PolicyAction::Run, None, &uid));
        let (mine, theirs) = (mine?, theirs?);
        if mine == theirs {
            return Ok(Vec::new());
        }
        let schema = new.asking.schema_text(None)?;
        let pair = limits(&new, &old, &mine, &theirs, &[])?;
        let pairs = pair.into_iter();
        let asked = pairs
            .map(|pair| SymbolicQuestion::new(schema.clone(), kind.to_owned(), pair.new, pair.old));
        Ok(asked.collect())
    }
}

/// One of the two sets of policies.
struct Side<'l> {
    asking: Asking<'l>,
    loaded: &'l Loaded,
}

impl<'l> Side<'l> {
    fn new(loaded: &'l Loaded, kind: &str) -> Result<Self, String> {
        Ok(Self {
            asking: Asking::new(loaded, kind)?,
            loaded,
        })
    }

    fn annotations(&self, policy: &Applies) -> Option<&'l Annotations> {
        self.loaded.annotations.get(&policy.id)
    }

    /// Whether the same policies apply in the same cases and demand the same.
    fn is_alike(&self, other: &Side<'_>, own: &Verdict, theirs: &Verdict) -> bool {
        let demands = |side: &Side<'_>, verdict: &Verdict| -> Vec<Option<Annotations>> {
            let policies = verdict.permits.iter().chain(&verdict.forbids);
            policies
                .map(|one| side.loaded.annotations.get(&one.id).cloned())
                .collect()
        };
        own == theirs && demands(self, own) == demands(other, theirs)
    }
}

fn require_same_types(new: &Side<'_>, old: &Side<'_>) -> Result<(), String> {
    let types = |side: &Side<'_>| side.loaded.schemas.principals_text();
    match types(new)? == types(old)? {
        true => Ok(()),
        false => Err("the types of principals are others".to_owned()),
    }
}

/// Where a comparison would leave out something that decides.
fn require_comparable(new: &Side<'_>, old: &Side<'_>, relation: &Relation) -> Result<(), String> {
    require_same_types(new, old)?;
    for side in [new, old] {
        if !side.loaded.of_statements.is_empty() {
            return Err("policies look at the statement, and these are not compared".to_owned());
        }
        let (inheritance, catalog) = (&side.loaded.inheritance, &side.loaded.catalog);
        if !inheritance.ancestors(catalog, relation).is_empty()
            || !inheritance.descendants(catalog, relation).is_empty()
        {
            return Err("it has partitions or parents, and these are not compared".to_owned());
        }
    }
    Ok(())
}

fn read(
    new: &Side<'_>,
    old: &Side<'_>,
    relation: &Relation,
    column: Option<ColumnId>,
) -> Result<Vec<Pair>, String> {
    let mine = new.asking.column(relation, column)?;
    let theirs = old.asking.column(relation, column)?;
    let verdicts = [
        (&mine.select, &theirs.select),
        (&mine.plain, &theirs.plain),
        (&mine.token, &theirs.token),
        (&mine.masked, &theirs.masked),
    ];
    if verdicts
        .iter()
        .all(|(mine, theirs)| new.is_alike(old, mine, theirs))
    {
        return Ok(Vec::new());
    }
    for (mine, theirs) in verdicts.iter().skip(1) {
        forbid_demands(new, mine)?;
        forbid_demands(old, theirs)?;
    }
    let evaluates = |verdicts: &[&Verdict]| all(verdicts.iter().map(|one| one.evaluates()));
    let to_plain = evaluates(&[&theirs.select, &theirs.plain]);
    let to_token = all([to_plain.clone(), theirs.token.evaluates()]);
    let to_mask = all([to_token.clone(), theirs.masked.evaluates()]);
    let plain = || all([to_plain.clone(), theirs.plain()]);
    let token = || all([to_token.clone(), theirs.token()]);
    let mut pairs = vec![
        Pair {
            new: vec![mine.plain()],
            old: vec![plain()],
        },
        Pair {
            new: vec![mine.token()],
            old: vec![plain(), token()],
        },
        Pair {
            new: vec![mine.null()],
            old: vec![
                plain(),
                token(),
                all([to_mask.clone(), theirs.masked_or_null()]),
            ],
        },
    ];
    for mask in mine.masks() {
        pairs.push(Pair {
            new: vec![mine.exactly(&mask)],
            old: vec![plain(), all([to_mask.clone(), theirs.exactly(&mask)])],
        });
    }
    Ok(pairs)
}

fn write(
    new: &Side<'_>,
    old: &Side<'_>,
    relation: &Relation,
    column: Option<ColumnId>,
) -> Result<Vec<Pair>, String> {
    let of = |side: &Side<'_>| side.asking.of_column(PolicyAction::Write, relation, column);
    let (mine, theirs) = (of(new)?, of(old)?);
    if new.is_alike(old, &mine, &theirs) {
        return Ok(Vec::new());
    }
    forbid_demands(new, &mine)?;
    forbid_demands(old, &theirs)?;
    let assigns = |side: &Side<'_>| -> Result<Value, String> {
        let table = |action| side.asking.of_table(action, relation);
        let (insert, update) = (table(PolicyAction::Insert)?, table(PolicyAction::Update)?);
        Ok(any([insert.permitted(), update.permitted()]))
    };
    // Whether anything is changed at all is compared by itself.
    Ok(vec![Pair {
        new: vec![all([assigns(new)?, mine.permitted()])],
        old: vec![all([theirs.evaluates(), theirs.permitted()])],
    }])
}

fn select(new: &Side<'_>, old: &Side<'_>, relation: &Relation) -> Result<Vec<Pair>, String> {
    let mut pairs = table(PolicyAction::Select, new, old, relation)?;
    let discover = |side: &Side<'_>| side.asking.of_table(PolicyAction::Discover, relation);
    let (mine, theirs) = (discover(new)?, discover(old)?);
    if pairs.is_empty() && new.is_alike(old, &mine, &theirs) {
        return Ok(pairs);
    }
    let select = |side: &Side<'_>| side.asking.of_table(PolicyAction::Select, relation);
    let (new_select, old_select) = (select(new)?, select(old)?);
    let seen = all([old_select.evaluates(), old_select.permitted()]);
    let named = all([
        old_select.evaluates(),
        theirs.evaluates(),
        theirs.permitted(),
    ]);
    pairs.push(Pair {
        new: vec![all([not(new_select.permitted()), mine.permitted()])],
        old: vec![seen, named],
    });
    Ok(pairs)
}

/// Whether an action on a table is permitted, within caps and approvals that are no wider.
fn table(
    action: PolicyAction,
    new: &Side<'_>,
    old: &Side<'_>,
    relation: &Relation,
) -> Result<Vec<Pair>, String> {
    let of = |side: &Side<'_>| side.asking.of_table(action, relation);
    let (mine, theirs) = (of(new)?, of(old)?);
    match new.is_alike(old, &mine, &theirs) {
        true => Ok(Vec::new()),
        false => limits(new, old, &mine, &theirs, &[]),
    }
}

/// The same of a change that may have a condition, or none where a policy speaks of it.
fn change(
    action: PolicyAction,
    new: &Side<'_>,
    old: &Side<'_>,
    relation: &Relation,
) -> Result<Vec<Pair>, String> {
    let of = |side: &Side<'_>| side.asking.of_table(action, relation);
    let (mine, theirs) = (of(new)?, of(old)?);
    let is_spoken = new.loaded.unconditional == old.loaded.unconditional;
    if is_spoken && new.is_alike(old, &mine, &theirs) {
        return Ok(Vec::new());
    }
    let mut pairs = limits(new, old, &mine, &theirs, &[has_where()])?;
    let unconditional = |side: &Side<'_>, verdict: &Verdict| {
        let spoken = verdict.permits.iter();
        let spoken = spoken.filter(|one| side.loaded.unconditional.contains(&one.id));
        all([not(has_where()), verdict.permitted(), whenever(spoken)])
    };
    pairs.push(Pair {
        new: vec![unconditional(new, &mine)],
        old: vec![all([theirs.evaluates(), unconditional(old, &theirs)])],
    });
    Ok(pairs)
}

/// Which rows an action reaches. Whether the action that reaches them is permitted is compared by itself.
fn rows(
    (action, reaching): (PolicyAction, &[PolicyAction]),
    new: &Side<'_>,
    old: &Side<'_>,
    relation: &Relation,
) -> Result<Vec<Pair>, String> {
    let of = |side: &Side<'_>| side.asking.row(action, relation, None);
    let (mine, theirs) = (of(new)?, of(old)?);
    if new.is_alike(old, &mine, &theirs) {
        return Ok(Vec::new());
    }
    for (side, verdict) in [(new, &mine), (old, &theirs)] {
        forbid_demands(side, verdict)?;
        let mut warnings = side.loaded.warnings.iter();
        if warnings.any(|warning| warning.rule == Some(Rule::UntranslatableRows)) {
            return Err("a condition of rows has no SQL form".to_owned());
        }
    }
    let reaching: Vec<Value> = reaching
        .iter()
        .map(|action| Ok(new.asking.of_table(*action, relation)?.permitted()))
        .collect::<Result<_, String>>()?;
    Ok(vec![Pair {
        new: vec![all([any(reaching), mine.permitted()])],
        old: vec![all([theirs.evaluates(), theirs.permitted()])],
    }])
}

/// One pair for each limit: what is permitted within no tighter limit by the new is so by the old.
fn limits(
    new: &Side<'_>,
    old: &Side<'_>,
    mine: &Verdict,
    theirs: &Verdict,
    both: &[Value],
) -> Result<Vec<Pair>, String> {
    // Where a permit that is `tighter` applies too, less is permitted.
    let within = |side: &Side<'_>, verdict: &Verdict, tighter: &dyn Fn(&Annotations) -> bool| {
        let permits = verdict.permits.iter();
        let tighter = permits.filter(|one| side.annotations(one).is_some_and(tighter));
        let mut parts = both.to_vec();
        parts.extend([verdict.permitted(), not(whenever(tighter))]);
        all(parts)
    };
    let pair = |tighter: &dyn Fn(&Annotations) -> bool| Pair {
        new: vec![within(new, mine, tighter)],
        old: vec![all([theirs.evaluates(), within(old, theirs, tighter)])],
    };
    let mut pairs = vec![pair(&|_: &Annotations| false)];
    let demanding: Vec<&Annotations> = [(new, mine), (old, theirs)]
        .into_iter()
        .flat_map(|(side, verdict)| {
            verdict
                .permits
                .iter()
                .filter_map(|one| side.annotations(one))
        })
        .filter(|found| found.demands())
        .collect();
    if demanding.is_empty() {
        return Ok(pairs);
    }
    let caps: [fn(&Annotations) -> Option<u64>; 3] = [
        |found| found.caps.rows,
        |found| found.caps.rows_or_refusal,
        |found| found.caps.time_ms,
    ];
    for cap in caps {
        let values: BTreeSet<u64> = demanding.iter().filter_map(|found| cap(found)).collect();
        if values.is_empty() {
            continue;
        }
        pairs.push(pair(&|found: &Annotations| cap(found).is_some()));
        for value in values {
            pairs.push(pair(&|found: &Annotations| {
                cap(found).is_some_and(|other| other < value)
            }));
        }
    }
    let levels: BTreeSet<_> = demanding
        .iter()
        .filter_map(|found| found.approval)
        .collect();
    for level in levels {
        pairs.push(pair(&|found: &Annotations| found.approval >= Some(level)));
    }
    Ok(pairs)
}

/// Refuses caps and approvals that come by rows and columns: those of several come together.
fn forbid_demands(side: &Side<'_>, verdict: &Verdict) -> Result<(), String> {
    let mut permits = verdict.permits.iter();
    match permits.any(|one| side.annotations(one).is_some_and(Annotations::demands)) {
        true => Err(
            "a permit of rows or columns has caps or demands an approval, which are not compared"
                .to_owned(),
        ),
        false => Ok(()),
    }
}
