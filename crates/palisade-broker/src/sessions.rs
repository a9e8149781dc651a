//! Sessions of the broker: made at a handshake, resumed by a secret that is used once, ended by time or by the operator.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    peer::Peer,
    private::{PrivateError, read_file, write_file},
    secret::{are_equal, hash_text, is_secret, make_secret},
};

/// Bytes of the file of sessions.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Sessions that are remembered at most.
const SESSIONS: usize = 1024;

/// The form of the file of sessions.
const FORM: u32 = 1;

/// The file of sessions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    form: u32,
    sessions: Vec<Entry>,
}

/// What all its forms have.
#[derive(Deserialize)]
struct AnyForm {
    form: u32,
}

/// The same, to be written.
#[derive(Serialize)]
struct Saving<'e> {
    form: u32,
    sessions: &'e [Entry],
}

/// How long sessions last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTimes {
    /// Without a connection.
    pub idle: Duration,
    /// Altogether.
    pub absolute: Duration,
}

impl Default for SessionTimes {
    /// 20 minutes, and a day.
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(20 * 60),
            absolute: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// What is told of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionInfo {
    /// Its id, which is no secret.
    pub id: String,
    /// Who asks in it, if not whom each connection of the configuration names.
    pub principal: Option<String>,
    /// The enrolment whose secret began it.
    pub enrolment: Option<String>,
    /// The user of the process that began it.
    pub user: u32,
    /// When it began, in seconds since 1970.
    pub created: u64,
    /// When it was last connected, in seconds since 1970.
    pub seen: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    info: SessionInfo,
    /// Of the secret that resumes it.
    hash: String,
    #[serde(skip)]
    connection: Option<u64>,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    #[error("sessions cannot be written: {0}")]
    Text(#[from] serde_json::Error),
    #[error(
        "`{path}` has the form {form}, which this program does not know\n  help: start the version that wrote it; or remove the file, and sessions begin anew"
    )]
    Form { path: PathBuf, form: u32 },
    #[error("`{path}` is damaged: {why}\n  help: remove it, and sessions begin anew")]
    Damaged { path: PathBuf, why: String },
    #[error(transparent)]
    File(#[from] PrivateError),
}

fn read_entries(path: &Path, text: &str) -> Result<Vec<Entry>, SessionError> {
    let unknown = |form| SessionError::Form {
        path: path.to_owned(),
        form,
    };
    match serde_json::from_str(text) {
        Ok(Saved {
            form: FORM,
            sessions,
        }) => Ok(sessions),
        Ok(Saved { form, sessions: _ }) => Err(unknown(form)),
        Err(error) => Err(match serde_json::from_str(text) {
            Ok(AnyForm { form }) if form != FORM => unknown(form),
            Ok(AnyForm { form: _ }) | Err(_) => SessionError::Damaged {
                path: path.to_owned(),
                why: error.to_string(),
            },
        }),
    }
}

/// A session that has begun or goes on.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) id: String,
    /// The secret that resumes it, once.
    pub(crate) resume: String,
    pub(crate) resumed: bool,
    /// The connection that it had, which has to end.
    pub(crate) before: Option<u64>,
}

/// Sessions, and the file in which their hashes outlive the broker.
#[derive(Debug)]
pub(crate) struct Sessions {
    file: Option<PathBuf>,
    times: SessionTimes,
    entries: Vec<Entry>,
}

impl Sessions {
    /// Those of a file.
    ///
    /// # Errors
    /// If it is not private, of a newer form, or damaged. Nothing of it is taken then, and it stays as it is.
    pub(crate) fn open(file: Option<PathBuf>, times: SessionTimes) -> Result<Self, SessionError> {
        let entries = match &file {
            Some(path) => match read_file(path, FILE_BYTES, None)? {
                Some(text) => read_entries(path, &text)?,
                None => Vec::new(),
            },
            None => Vec::new(),
        };
        Ok(Self {
            file,
            times,
            entries,
        })
    }

    /// Goes on with the session of `resume`, or begins one.
    pub(crate) fn begin(
        &mut self,
        peer: &Peer,
        resume: Option<&str>,
        connection: u64,
        now: u64,
    ) -> Result<Begun, SessionError> {
        self.drop_ended(now);
        let before = self.entries.clone();
        let begun = self.change(peer, resume, connection, now);
        // A secret that is used up, and would be good again for the next broker, is not told.
        begun
            .and_then(|begun| self.save().map(|()| begun))
            .inspect_err(|_| self.entries = before)
    }

    fn change(
        &mut self,
        peer: &Peer,
        resume: Option<&str>,
        connection: u64,
        now: u64,
    ) -> Result<Begun, SessionError> {
        let secret = make_secret()?;
        let hash = hash_text(&secret);
        let asked = resume.filter(|text| is_secret(text)).map(hash_text);
        let found = self.entries.iter_mut().find(|entry| {
            let is_it = asked
                .as_ref()
                .is_some_and(|asked| are_equal(asked, &entry.hash));
            is_it && entry.info.user == peer.user && entry.info.enrolment == peer.enrolment
        });
        let principal = peer.principal.as_ref().map(ToString::to_string);
        let begun = match found {
            // Whom the configuration names may have changed.
            Some(entry) if entry.info.principal == principal => {
                entry.hash = hash;
                entry.info.seen = now;
                Begun {
                    id: entry.info.id.clone(),
                    resume: secret,
                    resumed: true,
                    before: entry.connection.replace(connection),
                }
            }
            Some(_) | None => {
                let id: String = make_secret()?.chars().take(16).collect();
                self.make_room();
                self.entries.push(Entry {
                    info: SessionInfo {
                        id: id.clone(),
                        principal,
                        enrolment: peer.enrolment.clone(),
                        user: peer.user,
                        created: now,
                        seen: now,
                    },
                    hash,
                    connection: Some(connection),
                });
                Begun {
                    id,
                    resume: secret,
                    resumed: false,
                    before: None,
                }
            }
        };
        Ok(begun)
    }

    /// Says that a connection has ended.
    pub(crate) fn leave(&mut self, connection: u64, now: u64) {
        for entry in &mut self.entries {
            if entry.connection == Some(connection) {
                entry.connection = None;
                entry.info.seen = now;
            }
        }
        self.try_to_save();
    }

    /// Ends a session; its connection, if there was such a session, and whether the file says so.
    pub(crate) fn end(&mut self, id: &str) -> (Option<Option<u64>>, Result<(), SessionError>) {
        let at = self.entries.iter().position(|entry| entry.info.id == id);
        let entry = at.map(|at| self.entries.remove(at));
        // Also where it is gone already, since the file may not know.
        (entry.map(|entry| entry.connection), self.save())
    }

    /// Forgets sessions whose time is over; their connections.
    pub(crate) fn expire(&mut self, now: u64) -> Vec<u64> {
        let connections = self.drop_ended(now);
        if !connections.is_empty() {
            self.try_to_save();
        }
        connections
    }

    /// All of them, and whether each is connected.
    pub(crate) fn list(&self) -> Vec<(SessionInfo, bool)> {
        let told = |entry: &Entry| (entry.info.clone(), entry.connection.is_some());
        self.entries.iter().map(told).collect()
    }

    fn drop_ended(&mut self, now: u64) -> Vec<u64> {
        let times = self.times;
        let is_over = |entry: &Entry| {
            let idle = now.saturating_sub(entry.info.seen) >= times.idle.as_secs();
            let old = now.saturating_sub(entry.info.created) >= times.absolute.as_secs();
            old || (idle && entry.connection.is_none())
        };
        let ended = self.entries.iter().filter(|entry| is_over(entry));
        let connections = ended.filter_map(|entry| entry.connection).collect();
        self.entries.retain(|entry| !is_over(entry));
        connections
    }

    /// Forgets a session that is away, where there are too many. Connected ones are fewer by the bound on connections.
    ///
    /// Whoever has the most sessions loses that which was away for longest, so that opening many ends none of others.
    fn make_room(&mut self) {
        if self.entries.len() < SESSIONS {
            return;
        }
        let mut counts: BTreeMap<_, usize> = BTreeMap::new();
        for Entry { info, .. } in &self.entries {
            let count = counts.entry((info.user, info.enrolment.as_deref()));
            *count.or_default() += 1;
        }
        let count_of = |entry: &Entry| {
            let owner = (entry.info.user, entry.info.enrolment.as_deref());
            counts.get(&owner).copied()
        };
        let away = self.entries.iter().enumerate();
        let away = away.filter(|(_, entry)| entry.connection.is_none());
        let oldest = away.min_by_key(|(_, entry)| (Reverse(count_of(entry)), entry.info.seen));
        if let Some((at, _)) = oldest {
            self.entries.remove(at);
        }
    }

    fn save(&self) -> Result<(), SessionError> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let text = serde_json::to_vec(&Saving {
            form: FORM,
            sessions: &self.entries,
        })?;
        Ok(write_file(path, &text, None)?)
    }

    /// Saves times. Those of before are good enough.
    fn try_to_save(&self) {
        if let Err(error) = self.save() {
            tracing::error!("the times of sessions are not stored: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn peer(user: u32) -> Peer {
        Peer {
            principal: None,
            enrolment: None,
            user,
            session: None,
        }
    }

    fn sessions() -> Sessions {
        Sessions::open(None, SessionTimes::default()).unwrap()
    }

    #[test]
    fn a_secret_resumes_its_session_once() {
        let mut all = sessions();
        let first = all.begin(&peer(1), None, 1, 0).unwrap();
        assert!(!first.resumed);
        let again = all.begin(&peer(1), Some(&first.resume), 2, 5).unwrap();
        assert!(again.resumed && again.id == first.id && again.resume != first.resume);
        // The connection of before is taken over.
        assert_eq!(again.before, Some(1));
        let used = all.begin(&peer(1), Some(&first.resume), 3, 5).unwrap();
        assert!(!used.resumed && used.id != first.id);
        // Of another user, of another enrolment, and of another principal.
        let stolen = all.begin(&peer(2), Some(&again.resume), 4, 5).unwrap();
        assert!(!stolen.resumed);
        let mut other = peer(1);
        other.enrolment = Some("ci".to_owned());
        assert!(
            !all.begin(&other, Some(&again.resume), 5, 5)
                .unwrap()
                .resumed
        );
        let mut other = peer(1);
        other.principal = Some(palisade::session::Principal::new("Agent", "x"));
        assert!(
            !all.begin(&other, Some(&again.resume), 6, 5)
                .unwrap()
                .resumed
        );
        for text in ["", "x", &"0".repeat(64)] {
            assert!(!all.begin(&peer(1), Some(text), 7, 5).unwrap().resumed);
        }
    }

    #[test]
    fn sessions_end_with_their_times() {
        let mut all = sessions();
        let first = all.begin(&peer(1), None, 1, 0).unwrap();
        // Connected, it is not idle.
        assert!(all.expire(5000).is_empty());
        all.leave(1, 5000);
        let again = all.begin(&peer(1), Some(&first.resume), 2, 6199).unwrap();
        assert!(again.resumed);
        all.leave(2, 6200);
        assert!(
            !all.begin(&peer(1), Some(&again.resume), 3, 7400)
                .unwrap()
                .resumed
        );
        let long = all.begin(&peer(1), None, 4, 10_000).unwrap();
        assert_eq!(all.expire(10_000 + 86_399), [3]);
        assert_eq!(all.expire(10_000 + 86_400), [4]);
        assert_eq!(all.end(&long.id).0, None);
    }

    #[test]
    fn a_file_keeps_sessions_and_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions.json");
        let open = || Sessions::open(Some(path.clone()), SessionTimes::default()).unwrap();
        let mut all = open();
        let first = all.begin(&peer(1), None, 1, 0).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&first.resume), "{text}");
        drop(all);
        let mut all = open();
        assert_eq!(all.list().len(), 1);
        let again = all.begin(&peer(1), Some(&first.resume), 1, 9).unwrap();
        assert!(again.resumed && again.before.is_none());
        assert_eq!(all.end(&first.id).0, Some(Some(1)));
        assert!(open().list().is_empty());
    }

    #[test]
    fn a_file_of_another_form_is_refused_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions.json");
        for (text, told) in [
            ("{\"form\":2,\"people\":[]}", "does not know"),
            ("{\"form\":0,\"sessions\":[]}", "the form 0"),
            ("[]", "damaged"),
            ("{\"form\":1}", "damaged"),
            ("{\"form\":1,\"sessions\":[],\"more\":1}", "damaged"),
            ("{\"form\":1,\"sessions\":[{\"hash\":\"x\"}]}", "damaged"),
        ] {
            write_file(&path, text.as_bytes(), None).unwrap();
            let error = Sessions::open(Some(path.clone()), SessionTimes::default()).unwrap_err();
            assert!(error.to_string().contains(told), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn opening_many_sessions_ends_none_of_others() {
        let mut sessions = sessions();
        let first = sessions.begin(&peer(1), None, 0, 0).unwrap();
        sessions.leave(0, 0);
        for number in 1..=2 * SESSIONS as u64 {
            sessions
                .begin(&peer(2), None, number, number / 100)
                .unwrap();
            sessions.leave(number, number / 100);
        }
        assert_eq!(sessions.list().len(), SESSIONS);
        let again = sessions
            .begin(&peer(1), Some(&first.resume), 1, 30)
            .unwrap();
        assert!(again.resumed);
    }

    #[test]
    fn what_cannot_be_stored_does_not_begin() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("admin");
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("sessions.json");
        let mut all = Sessions::open(Some(path.clone()), SessionTimes::default()).unwrap();
        let first = all.begin(&peer(1), None, 1, 0).unwrap();
        std::fs::rename(&folder, dir.path().join("away")).unwrap();
        all.begin(&peer(1), None, 2, 1).unwrap_err();
        all.begin(&peer(1), Some(&first.resume), 2, 1).unwrap_err();
        assert_eq!(all.list().len(), 1);
        std::fs::rename(dir.path().join("away"), &folder).unwrap();
        // The secret was not used up.
        assert!(
            all.begin(&peer(1), Some(&first.resume), 3, 2)
                .unwrap()
                .resumed
        );
    }
}
