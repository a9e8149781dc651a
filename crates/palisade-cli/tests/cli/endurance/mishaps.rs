//! What happens to a fleet.

use std::{process::Command, thread::sleep, time::Duration};

use super::fleet::{Fleet, MASKS};

#[derive(Debug, Clone, Copy)]
pub(super) enum Mishap {
    KillFirst,
    NewCertificates,
    OtherPolicies,
    DatabaseRestarts,
    EndSecond,
    FirstPolicies,
    ReadAgain,
}

impl Mishap {
    pub(super) const ALL: &[Self] = &[
        Self::KillFirst,
        Self::NewCertificates,
        Self::OtherPolicies,
        Self::DatabaseRestarts,
        Self::EndSecond,
        Self::FirstPolicies,
        Self::ReadAgain,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KillFirst => "a server is killed",
            Self::NewCertificates => "certificates are replaced",
            Self::OtherPolicies => "policies are replaced",
            Self::DatabaseRestarts => "the database restarts",
            Self::EndSecond => "a server is replaced",
            Self::FirstPolicies => "policies are put back",
            Self::ReadAgain => "files are read again",
        }
    }

    pub(super) fn happen(self, fleet: &Fleet) {
        let [first, second] = &fleet.machines;
        match self {
            Self::KillFirst => {
                first.end(false);
                first.start();
            }
            Self::EndSecond => {
                second.end(true);
                second.start();
            }
            Self::NewCertificates => fleet.replace_certificates(),
            Self::OtherPolicies => fleet.replace_policies(MASKS[1]),
            Self::FirstPolicies => fleet.replace_policies(MASKS[0]),
            Self::ReadAgain => {
                for machine in &fleet.machines {
                    machine.hang_up();
                }
            }
            Self::DatabaseRestarts => restart(fleet),
        }
    }
}

/// Kills a session's process, and so has the database end all sessions, recover, and begin anew. The state is in it, too.
fn restart(fleet: &Fleet) {
    let victims = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1";
    let found = (0..100).find_map(|_| {
        sleep(Duration::from_millis(50));
        let told = fleet.database.query("postgres", victims).ok()?;
        told.trim().parse::<u32>().ok()
    });
    // Servers that have just begun have none yet.
    let pid =
        found.unwrap_or_else(|| panic!("the database has no sessions: {}", fleet.tell_logs()));
    let killed = Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status();
    // It may have ended by itself.
    let _ = killed.unwrap();
}
