//! While `serve` runs: policies that are edited, and a schema that changes.

use std::{collections::BTreeSet, future::pending, path::PathBuf, sync::Arc, time::Duration};

use palisade::{
    firewall::Firewall,
    guard::{Guard, RefreshError},
    policy::{PolicyProblem, PolicySet, Rule},
    session::Principal,
};
use tokio::{
    runtime::Handle,
    sync::watch::Receiver,
    task::spawn_blocking,
    time::{Interval, MissedTickBehavior, interval},
};

use crate::{bundle::BundleFeed, database::Access, policies::Policies, withheld_columns};

/// How often the policy folder is looked at.
const POLICIES: Duration = Duration::from_secs(1);

/// How often the database is asked whether its schema is still the same. What an agent asks for and is not
/// there is looked for at once.
const SCHEMA: Duration = Duration::from_secs(15);

/// Between two tries of a bundle that does not fit a database.
const LEAST_RETRY: Duration = Duration::from_secs(5);

/// How often other servers are told what was taken of budgets.
const BUDGETS: Duration = Duration::from_secs(1);

/// Loads the policies of the folder that `policies` were read from whenever they change, and at once on a
/// hangup signal. `folders` says where others are that apply in their place. A set that is wrong changes nothing, and the log says
/// where it is wrong. Runs for ever.
pub(crate) async fn policies(
    guard: Arc<Guard>,
    (connection, access): (String, Access),
    policies: Policies,
    mut folders: Receiver<Option<PathBuf>>,
) {
    let mut current = policies.folder().map(ToOwned::to_owned);
    let mut ticks = every(POLICIES);
    let mut hangups = Hangups::new();
    // What was tried last, and what is there since the last look: an editor may be half-way through.
    let mut tried = Ok(policies);
    let mut unsettled = None;
    loop {
        let asked = tokio::select! {
            _ = ticks.tick() => false,
            () = hangups.next() => true,
            Ok(()) = folders.changed() => {
                current.clone_from(&folders.borrow_and_update());
                true
            }
        };
        let Some(folder) = current.clone() else {
            continue;
        };
        let read = spawn_blocking(move || Policies::read(&folder).map_err(|why| why.to_string()));
        let Ok(read) = read.await else { continue };
        if !asked && read == tried {
            unsettled = None;
        } else if asked || unsettled.as_ref() == Some(&read) {
            if let Err(why) = load(&guard, (&connection, access), read.clone()).await {
                tracing::error!(connection, "{STAY}\n{why}");
            }
            tried = read;
            unsettled = None;
        } else {
            unsettled = Some(read);
        }
    }
}

const STAY: &str = "the policies do not load; those in force stay";

/// Decides by the newest bundle of `feed`, as soon as it fits the database. Until then it is tried again: the database may follow.
/// Runs for ever.
pub(crate) async fn bundles(
    guard: Arc<Guard>,
    (connection, access): (String, Access),
    feed: Arc<BundleFeed>,
) {
    let mut news = feed.subscribe();
    let mut ticks = every(feed.period().max(LEAST_RETRY));
    let mut told = String::new();
    loop {
        let newest = feed.newest();
        let is_in_force = guard.firewall().sources().origin.as_ref() == Some(&newest.origin);
        let now = match is_in_force {
            true => String::new(),
            false => {
                let read = Ok(newest.policies.clone());
                let loaded = load(&guard, (&connection, access), read).await;
                loaded.err().unwrap_or_default()
            }
        };
        if now.is_empty() {
            let (feed, name) = (Arc::clone(&feed), connection.clone());
            // It is written to the disk.
            drop(spawn_blocking(move || feed.note_running(&name, &newest)).await);
        } else if now != told {
            // Once is enough, however long it lasts.
            tracing::error!(connection, "{STAY}\n{now}");
        }
        told = now;
        tokio::select! {
            Ok(()) = news.changed() => {}
            _ = ticks.tick() => {}
        }
    }
}

async fn load(
    guard: &Arc<Guard>,
    (connection, access): (&str, Access),
    read: Result<Policies, String>,
) -> Result<(), String> {
    let policies = read?;
    let (guard, handle) = (Arc::clone(guard), Handle::current());
    let name = connection.to_owned();
    // Reading policies takes time in which others want answers.
    let job = spawn_blocking(
        move || match handle.block_on(guard.reload(&policies.sources)) {
            Ok(firewall) => {
                let set = firewall.policies();
                tracing::info!(
                    connection = name,
                    version = set.version(),
                    bundle = name_bundle(&firewall),
                    "policies loaded"
                );
                for warning in list_warnings(set, access) {
                    tracing::warn!(connection = name, "{warning}");
                }
                Ok(())
            }
            Err(error) => Err(policies.failure(&error).to_string()),
        },
    );
    job.await.unwrap_or_else(|error| Err(error.to_string()))
}

/// What the policies are warned of on a connection. Where nothing is changed, no trigger refuses a change.
pub(crate) fn list_warnings(
    set: &PolicySet,
    access: Access,
) -> impl Iterator<Item = &PolicyProblem> {
    let is_told = move |warning: &&PolicyProblem| match access {
        Access::Write => true,
        Access::Read => warning.rule != Some(Rule::TriggerRefused),
    };
    set.warnings().iter().filter(is_told)
}

/// The bundle that policies came in, where they did.
fn name_bundle(firewall: &Firewall) -> Option<String> {
    firewall.sources().origin.as_ref().map(ToString::to_string)
}

/// Looks whether the schema changed, again and again, and tells which columns `asking` could see if the account could. Runs for ever.
pub(crate) async fn schema(guard: Arc<Guard>, connection: String, asking: BTreeSet<Principal>) {
    let mut ticks = every(SCHEMA);
    let mut told = String::new();
    let mut withheld = withheld_columns::describe(&guard.firewall(), &asking);
    // The first is at once, when nothing can have changed.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let (looking, handle) = (Arc::clone(&guard), Handle::current());
        let looked = spawn_blocking(move || handle.block_on(looking.refresh())).await;
        // A request may have looked before.
        let now_withheld = withheld_columns::describe(&guard.firewall(), &asking);
        if let Some(note) = now_withheld.as_ref().filter(|_| now_withheld != withheld) {
            tracing::warn!(connection, "{note}");
        }
        withheld = now_withheld;
        let Ok(looked) = looked else {
            continue;
        };
        let now = match looked {
            Ok(true) => {
                tracing::info!(
                    connection,
                    "the schema changed; statements are decided over the new one"
                );
                String::new()
            }
            Ok(false) => String::new(),
            Err(RefreshError::Firewall(error)) => format!(
                "the schema changed and the policies do not fit it; statements over what changed are refused\n{error}"
            ),
            Err(error) => error.to_string(),
        };
        // Once is enough, however long it lasts.
        if !now.is_empty() && now != told {
            tracing::error!(connection, "{now}");
        }
        told = now;
    }
}

/// Notes the moment each `period`, where history is kept and something was written. Runs for ever.
pub(crate) async fn moments(guard: Arc<Guard>, connection: String, period: Duration) {
    let mut ticks = every(period);
    let mut told = String::new();
    loop {
        ticks.tick().await;
        let (guard, handle) = (Arc::clone(&guard), Handle::current());
        let Ok(kept) = spawn_blocking(move || handle.block_on(guard.keep_label())).await else {
            continue;
        };
        let now = kept.err().unwrap_or_default();
        // Once is enough, however long it lasts.
        if !now.is_empty() && now != told {
            tracing::error!(connection, "the moment cannot be noted: {now}");
        }
        told = now;
    }
}

/// Tells other servers each second what principals have taken of their budgets, where anything was. Runs for ever.
pub(crate) async fn budgets(guard: Arc<Guard>, connection: String) {
    let mut ticks = every(BUDGETS);
    let mut told = String::new();
    loop {
        ticks.tick().await;
        let guard = Arc::clone(&guard);
        let Ok(exchanged) = spawn_blocking(move || guard.exchange_budgets()).await else {
            continue;
        };
        let now = exchanged.err().unwrap_or_default();
        // Once is enough, however long it lasts.
        if !now.is_empty() && now != told {
            tracing::error!(
                connection,
                "budgets count for this server alone until its state can be reached: {now}"
            );
        }
        told = now;
    }
}

pub(crate) fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Hangup signals, where there are such.
pub(crate) struct Hangups {
    #[cfg(unix)]
    signals: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(unix)]
            signals: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
                .inspect_err(|error| tracing::warn!("hangup signals are not heard: {error}"))
                .ok(),
        }
    }

    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signals) = &mut self.signals
            && signals.recv().await.is_some()
        {
            return;
        }
        pending().await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use palisade::policy::PolicySources;

    use super::*;

    const ALL: &str = "permit (principal, action in [Action::\"select\", Action::\"see\", Action::\"read\", Action::\"write\", \
        Action::\"insert\", Action::\"change\", Action::\"add\"], resource);";

    #[test]
    fn triggers_are_warned_of_where_something_is_changed() {
        let catalog = palisade_ddl::postgres(
            "CREATE TABLE t (a int);
             CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'begin return new; end';
             CREATE TRIGGER noting AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION noted();",
            "d",
        )
        .unwrap();
        let sources = PolicySources::from_cedar("p.cedar", ALL);
        let firewall = Firewall::builder(catalog, sources).build().unwrap();
        let told = |access| {
            let mut warnings = list_warnings(firewall.policies(), access);
            warnings.any(|warning| warning.rule == Some(Rule::TriggerRefused))
        };
        assert!(told(Access::Write));
        assert!(!told(Access::Read));
    }
}
