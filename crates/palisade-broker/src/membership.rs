//! The groups of users, as the system's database of users tells them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How long an answer is good. Databases of users can be across a network.
const KEPT: Duration = Duration::from_secs(60);

/// Users whose groups are remembered.
const USERS: usize = 256;

/// Groups of users, asked for once a minute at most.
#[derive(Default)]
pub(crate) struct Memberships {
    known: BTreeMap<u32, (Instant, Vec<u32>)>,
}

impl Memberships {
    /// What was found for `user`, if that is still good.
    pub(crate) fn find(&self, user: u32, now: Instant) -> Option<Vec<u32>> {
        let (since, groups) = self.known.get(&user)?;
        (now.saturating_duration_since(*since) < KEPT).then(|| groups.clone())
    }

    /// Remembers what was found.
    pub(crate) fn keep(&mut self, user: u32, groups: Vec<u32>, now: Instant) {
        if self.known.len() >= USERS {
            self.known.clear();
        }
        self.known.insert(user, (now, groups));
    }
}

/// The groups of `user` beside its primary one; none for a user that the database does not have. It can block.
///
/// A process tells its primary group alone when it connects.
#[cfg(target_os = "linux")]
pub(crate) fn list_groups(user: u32) -> Vec<u32> {
    use std::ffi::CString;

    use nix::unistd::{Uid, User, getgrouplist};

    let Ok(Some(user)) = User::from_uid(Uid::from_raw(user)) else {
        return Vec::new();
    };
    let Ok(name) = CString::new(user.name) else {
        return Vec::new();
    };
    let groups = getgrouplist(&name, user.gid).unwrap_or_default();
    groups.into_iter().map(nix::unistd::Gid::as_raw).collect()
}

/// None: this system's groups cannot be asked for without unsafe code, and primary groups alone count.
#[cfg(not(target_os = "linux"))]
pub(crate) fn list_groups(_user: u32) -> Vec<u32> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_good_for_a_minute() {
        let start = Instant::now();
        let mut known = Memberships::default();
        known.keep(5, vec![7], start);
        assert_eq!(known.find(5, start + KEPT / 2), Some(vec![7]));
        assert_eq!(known.find(5, start + KEPT), None);
        assert_eq!(known.find(6, start), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_database_tells_the_groups_of_root_and_none_of_a_user_that_is_not() {
        assert!(list_groups(0).contains(&0));
        assert!(list_groups(4_000_000_000).is_empty());
    }
}
