//! The figures that count, each with the share that it should reach.

use palisade::dialect::Dialect;
use serde::Serialize;

use crate::{
    args::Part,
    record::{Judgement, Record, Rows},
};

/// A share of some rows.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Share {
    /// How many there are.
    pub(crate) total: usize,
    /// How many of them could not be tried; they are not in the share.
    pub(crate) not_run: usize,
    /// How many the firewall was right about.
    pub(crate) right: usize,
    /// How many answers were compared with the bare engine's.
    pub(crate) compared: usize,
    /// How many of those were equal.
    pub(crate) equal: usize,
}

impl Share {
    /// Counts `records`.
    pub(crate) fn count<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut out = Self::default();
        for record in records {
            out.add(record);
        }
        out
    }

    /// Counts one more.
    pub(crate) fn add(&mut self, record: &Record) {
        let add = |n: &mut usize, yes: bool| *n = n.saturating_add(usize::from(yes));
        add(&mut self.total, true);
        add(&mut self.not_run, record.judgement == Judgement::NotRun);
        add(&mut self.right, record.judgement == Judgement::Right);
        add(&mut self.compared, record.rows != Rows::NotCompared);
        add(&mut self.equal, record.rows == Rows::Equal);
    }

    /// Those that were tried.
    pub(crate) fn tried(&self) -> usize {
        self.total.saturating_sub(self.not_run)
    }

    /// Whether at least `percent` of those tried are right; none tried is no.
    pub(crate) fn reaches(&self, percent: usize) -> bool {
        self.tried() > 0 && self.right.saturating_mul(100) >= self.tried().saturating_mul(percent)
    }
}

/// A figure that should reach a share.
pub(crate) struct Goal {
    /// What it is of.
    pub(crate) name: String,
    /// The least percentage; none where it is only told.
    pub(crate) least: Option<usize>,
    /// What was reached.
    pub(crate) share: Share,
}

/// The goals that the records say something of.
pub(crate) fn goals(records: &[Record]) -> Vec<Goal> {
    let mut out = Vec::new();
    for dialect in Dialect::ALL {
        let mine = |record: &&Record| record.engine == Some(dialect);
        let mut goal = |name: &str, least, which: &dyn Fn(&Record) -> bool| {
            out.push(Goal {
                name: format!("{dialect}: {name}"),
                least,
                share: Share::count(records.iter().filter(mine).filter(|r| which(r))),
            });
        };
        let bypass = |r: &Record, must| r.part == Part::Bypass && r.family == must;
        goal("attacks that must be denied", Some(100), &|r| {
            bypass(r, "deny")
        });
        goal("attacks that must be neutralised", Some(100), &|r| {
            bypass(r, "neutralise")
        });
        let benign =
            |r: &Record, category| r.part == Part::Benign && r.category.starts_with(category);
        goal("realistic queries permitted", Some(98), &|r| {
            benign(r, "realistic")
        });
        goal("synthetic queries permitted", Some(90), &|r| {
            benign(r, "synthetic")
        });
        let compared = Share::count(
            records
                .iter()
                .filter(mine)
                .filter(|r| r.part == Part::Benign),
        );
        out.push(Goal {
            name: format!("{dialect}: answers equal to the bare engine's"),
            least: Some(100),
            share: Share {
                total: compared.compared,
                right: compared.equal,
                ..Share::default()
            },
        });
    }
    let mut goal = |name: &str, least, which: &dyn Fn(&Record) -> bool| {
        out.push(Goal {
            name: name.to_owned(),
            least,
            share: Share::count(records.iter().filter(|r| which(r))),
        });
    };
    goal("all engines: peers' cases agreed with", Some(97), &|r| {
        r.part == Part::Peer && r.family == "judged"
    });
    goal(
        "texts: explicit and encoded injections flagged",
        None,
        &|r| {
            let headline = ["direct_explicit", "indirect_explicit", "encoded"];
            r.part == Part::Injection && headline.contains(&r.family.as_str())
        },
    );
    goal("texts: ordinary ones passed", None, &|r| {
        r.part == Part::Texts
    });
    out.retain(|goal| goal.share.total > 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_run_does_not_count_as_right() {
        let none = Share {
            total: 5,
            not_run: 5,
            ..Share::default()
        };
        assert!(!none.reaches(0) && !none.reaches(100));
        let some = Share {
            total: 101,
            not_run: 1,
            right: 98,
            ..Share::default()
        };
        assert!(some.reaches(98) && !some.reaches(99));
    }
}
