//! Who has how many of the connections that are served at a time.

use std::collections::BTreeMap;

/// Whose a connection is, as far as the configuration tells users apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// An enrolment, by its name.
    Enrolment(String),
    /// A user whom the configuration names.
    User(u32),
    /// A group that the configuration names.
    Group(u32),
    /// Everybody else.
    Other,
}

/// Places for connections. Each owner has a share that others cannot take, so that whoever opens all it can keeps none out.
///
/// The shares are half of the places, alike for each owner. The other half is for whoever comes first.
pub(crate) struct Places {
    most: usize,
    share: usize,
    owners: usize,
    taken: BTreeMap<Owner, usize>,
}

impl Places {
    /// `most` places, for `named` owners of the configuration and everybody else.
    pub(crate) fn new(most: usize, named: usize) -> Self {
        let owners = named.saturating_add(1);
        Self {
            most,
            share: most / owners.saturating_mul(2),
            owners,
            taken: BTreeMap::new(),
        }
    }

    /// Takes a place, if there is one for `owner`.
    pub(crate) fn take(&mut self, owner: &Owner) -> bool {
        let free = self.most.saturating_sub(self.taken.values().sum());
        let own = self.taken.get(owner).copied().unwrap_or_default();
        let used: usize = self
            .taken
            .values()
            .map(|count| *count.min(&self.share))
            .sum();
        // What is kept for others; an owner below its share has a part of it.
        let kept = self.share.saturating_mul(self.owners).saturating_sub(used);
        let has_place = if own < self.share {
            free > 0
        } else {
            free > kept
        };
        if has_place {
            self.taken.insert(owner.clone(), own.saturating_add(1));
        }
        has_place
    }

    /// Gives a place back.
    pub(crate) fn leave(&mut self, owner: &Owner) {
        if let Some(count) = self.taken.get_mut(owner) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.taken.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_names_whoever_comes_has_all_but_one_share() {
        let mut places = Places::new(2, 0);
        assert!(places.take(&Owner::Other) && places.take(&Owner::Other));
        assert!(!places.take(&Owner::Other));
        places.leave(&Owner::Other);
        assert!(places.take(&Owner::Other));
    }

    #[test]
    fn an_owner_that_takes_all_it_can_leaves_the_shares_of_others() {
        let mut places = Places::new(64, 3);
        let greedy = Owner::Enrolment("greedy".to_owned());
        let mut count = 0;
        while places.take(&greedy) {
            count += 1;
        }
        // A share is 8.
        assert_eq!(count, 40);
        for late in [Owner::User(5), Owner::Group(7), Owner::Other] {
            for _ in 0..8 {
                assert!(places.take(&late), "{late:?}");
            }
            assert!(!places.take(&late), "{late:?}");
        }
        places.leave(&greedy);
        assert!(places.take(&Owner::Other));
        assert!(!places.take(&greedy));
    }
}
