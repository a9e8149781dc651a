//! What of the server the broker is: where it listens, who asks, and which passwords it takes.

use std::{collections::BTreeSet, future::Future};

use palisade::session::Principal;
use palisade_broker::{
    Broker, BrokerOptions, Enrolment, Identity, PasswordStore, Peer, PeerRules, SessionTimes,
    StoreError,
};
use palisade_mcp::{Asker, PalisadeServer, PrincipalSource};

use crate::{
    broker::{layout, stores::equip},
    config::{ConfigFile, broker::BrokerSetup},
    database::Database,
    exit::Failure,
    setup::Setup,
    target::{Engine, Target},
};

/// Where it listens, and under what terms.
pub(crate) struct BrokerDoor {
    setup: Box<BrokerSetup>,
    is_memory_locked: bool,
}

/// Who asks by a connection to the broker: whom `[broker]` names, or else `configured`.
pub(crate) fn principal_source(configured: Principal) -> PrincipalSource {
    PrincipalSource::by_request(move |request| {
        let peer = request.get::<Peer>()?;
        let asker = Asker::new(peer.principal.clone().unwrap_or_else(|| configured.clone()));
        let asker = match &peer.enrolment {
            Some(name) => asker.with_client(name.clone()),
            None => asker,
        };
        // A request without a session has no part in the tokens of any.
        Some(asker.with_token_scope(peer.session.clone()?))
    })
}

/// What the password of a target is for.
pub(super) fn identify(name: &str, target: &Target) -> Identity {
    let engine = match target.engine() {
        Engine::Postgres => "postgres",
        Engine::Mysql => "mysql",
    };
    let (user, database) = (target.user(), target.database());
    Identity::new(name, engine, target.endpoints(), user, database)
}

impl BrokerDoor {
    /// What the configuration says of it.
    pub(crate) fn open(config: &ConfigFile, is_memory_locked: bool) -> Result<Self, Failure> {
        if config.names().next().is_none() {
            return Err(Failure::Configuration(
                "error: the configuration names no connection\n  help: write `[connections.NAME]` with a `url`"
                    .to_owned(),
            ));
        }
        Ok(Self {
            setup: Box::new(config.broker().clone()),
            is_memory_locked,
        })
    }

    /// Those who may ask, beside whom connections name.
    pub(crate) fn principals(&self) -> BTreeSet<Principal> {
        let BrokerSetup {
            principal,
            users,
            groups,
            enrolments,
            ..
        } = &*self.setup;
        let named = users.values().chain(groups.values());
        let named = named.chain(enrolments.values());
        named.chain(principal).cloned().collect()
    }

    /// Gives each database its stored password, where the configuration names no other.
    pub(crate) fn equip(
        &self,
        databases: Vec<(Setup, Database)>,
    ) -> Result<Vec<(Setup, Database)>, Failure> {
        let layout = layout(&self.setup);
        layout.open().map_err(|error| refuse(&error))?;
        // It is looked at also where no password is in it.
        PasswordStore::open(layout.passwords()).map_err(|error| refuse(&error))?;
        databases
            .into_iter()
            .map(|(setup, database)| match database {
                Database::Server(target) if target.secret().is_none() => {
                    let name = setup.name_of(&Database::Server(target.clone()));
                    let identity = identify(&name, &target);
                    let database = match equip(target, &identity, &layout)? {
                        Ok(target) => Database::Server(target),
                        Err(silent) => return Err(tell_absence(&name, silent)),
                    };
                    Ok((setup, database))
                }
                Database::Server(_) | Database::Sqlite(_) | Database::Memory(_) => {
                    Ok((setup, database))
                }
            })
            .collect()
    }

    /// Serves until `stop` is there.
    pub(crate) async fn serve(
        self,
        server: PalisadeServer,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Failure> {
        let layout = layout(&self.setup);
        let BrokerSetup {
            directory: _,
            principal,
            group,
            connections,
            idle,
            absolute,
            drain,
            users,
            groups,
            enrolments,
        } = *self.setup;
        let enrolments = enrolments.into_iter();
        let broker = Broker::open(BrokerOptions {
            layout,
            rules: PeerRules {
                group,
                users,
                groups,
                enrolments: enrolments
                    .map(|(name, principal)| Enrolment { name, principal })
                    .collect(),
                principal,
            },
            times: SessionTimes { idle, absolute },
            connections,
            drain,
            is_memory_locked: self.is_memory_locked,
        })
        .map_err(|error| refuse(&error))?;
        tracing::info!("listening at {}", broker.socket().display());
        broker.serve(server, stop).await;
        Ok(())
    }
}

/// That no store has the password of a connection, one of which may not have answered.
fn tell_absence(name: &str, silent: Option<StoreError>) -> Failure {
    let but = silent.map_or_else(String::new, |silent| format!("\n  but {silent}"));
    Failure::Configuration(format!(
        "error: no password is stored for the connection `{name}` as it is now{but}\n  help: `palisade load-connections --config FILE` asks for it. A credential of systemd is there for a broker that systemd starts (`install-service`), a keyring's item while the keyring is unlocked, and a key of the kernel until a reboot or three days without use"
    ))
}

/// A fault of the machine's that the operator can do something about.
pub(super) fn refuse(error: &dyn std::fmt::Display) -> Failure {
    Failure::Configuration(format!("error: {error}"))
}
