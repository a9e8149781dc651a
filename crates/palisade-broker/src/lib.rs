//! Palisade's broker: one process has the credentials, the guards and the audit log, and listens on a private Unix socket. Agents
//! reach it through a relay, which knows nothing and decides nothing.
//!
//! | part | does |
//! |---|---|
//! | [`Layout`] | names the folders of a broker, makes them private, and refuses those that are not |
//! | [`PasswordStore`] | passwords of connections, in files that only their owner may read |
//! | [`CredentialStore`] | passwords as encrypted credentials, which systemd opens for a service |
//! | [`KernelStore`] | passwords as keys of the kernel |
//! | [`KeyringStore`] | passwords in the secret service of a desktop, or in the keychain of macOS |
//! | [`Broker`] | listens, looks at who connects, and serves MCP lines to whoever is let in |
//! | [`run_relay`] | copies MCP lines between two streams and the socket |
//! | [`hand_connections_in`] | connects for relays whose sandbox forbids sockets |
//! | [`hide_memory`] | keeps other processes of the same user out of this one's memory |
//! | [`lock_memory`] | keeps this one's memory out of the swap |
//! | [`close_inherited`] | closes what the process that started this one left open |
//!
//! A connection begins with one line of JSON each way: a secret, and a session. Who asks follows from the secret and from what the
//! system says of the process at the other end. Nothing that the process says of itself decides it.
//!
//! Unix alone: on other systems the crate is empty.

#![cfg(unix)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod ask;
mod broker;
mod credential_store;
mod hand_in;
mod handshake;
mod harden;
mod in_flight;
#[cfg(target_os = "linux")]
mod kernel_store;
#[cfg(not(target_os = "linux"))]
#[path = "absent_kernel_store.rs"]
mod kernel_store;
#[cfg(all(feature = "keyring", any(target_os = "linux", target_os = "macos")))]
mod keyring_store;
#[cfg(not(all(feature = "keyring", any(target_os = "linux", target_os = "macos"))))]
#[path = "absent_keyring_store.rs"]
mod keyring_store;
mod layout;
mod lines;
mod membership;
mod password_store;
mod peer;
mod places;
mod private;
mod rate;
mod relay;
mod secret;
mod sessions;

pub use ask::{AskError, ask_broker};
pub use broker::{Broker, BrokerError, BrokerOptions};
pub use credential_store::CredentialStore;
pub use hand_in::{Reach, hand_connections_in};
pub use handshake::{Ask, Hello, Welcome};
pub use harden::{close_inherited, hide_memory, lock_memory};
pub use kernel_store::KernelStore;
pub use keyring_store::KeyringStore;
pub use layout::Layout;
pub use password_store::{Identity, PasswordStore, StoreError, StoredPassword};
pub use peer::{Enrolment, Peer, PeerRules};
pub use private::PrivateError;
pub use relay::{RelayError, RelayOptions, run_relay};
pub use sessions::{SessionInfo, SessionTimes};
