//! What single policies decide alone: what becomes of every principal's access without each of them.

use std::collections::BTreeMap;

use crate::firewall::{Firewall, deep_check::visible};
use crate::{
    error::Error,
    policy::{Mutation, mutate},
};

/// What a policy decides that no other decides alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SoleCells {
    /// How many cells are others without it: one for each principal, table or column, and action.
    Count(usize),
    /// They cannot be counted, and why not.
    Uncounted(String),
}

impl Firewall {
    /// By the id of each policy, what it decides alone, over this catalog and these entities. It is the count behind
    /// [`check_deeply`](Self::check_deeply). `is_wanted` is asked before each policy; once it is false, the count ends without one.
    ///
    /// # Errors
    /// A policy that cannot be evaluated or written down.
    pub fn count_sole_cells(
        &self,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<BTreeMap<String, SoleCells>>, Error> {
        let before = self.list_access()?;
        let mut found = BTreeMap::new();
        for removal in mutate(&self.sources) {
            if removal.mutation != Mutation::Removed {
                continue;
            }
            if !is_wanted() {
                return Ok(None);
            }
            let why = self.why_not_enumerated(&removal.policy);
            let less = self.renewed(self.catalog.as_ref().clone(), removal.apply(&self.sources));
            let cells = match (why.is_empty(), less) {
                (false, _) => SoleCells::Uncounted(why.join("; ")),
                (true, Err(_)) => {
                    SoleCells::Uncounted("without it the policies do not load".to_owned())
                }
                (true, Ok(less)) => {
                    let mut count = 0;
                    for (principal, was) in self.known_principals().iter().zip(&before) {
                        let is = less.access_places(principal)?;
                        let (was, is) = (visible(was), visible(&is));
                        let gone = was
                            .iter()
                            .filter(|(place, level)| is.get(*place) != Some(level));
                        let new = is.keys().filter(|place| !was.contains_key(*place));
                        count += gone.count() + new.count();
                    }
                    SoleCells::Count(count)
                }
            };
            found.insert(removal.policy.clone(), cells);
        }
        Ok(Some(found))
    }
}
