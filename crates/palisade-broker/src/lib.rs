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
//!
//! # Files
//!
//! * `broker`: listens, looks at who connects, greets and serves.
//! * `layout`: names the folders, and the secrets in them.
//! * `private`: makes files and folders that only their owner can use.
//! * `peer`: who is at the other end of a connection, and who asks by it.
//! * `membership`: the groups of users, as the system tells them.
//! * `places`: who has how many of the connections that are served.
//! * `rate`: how often something may happen.
//! * `handshake`: the first line of each side.
//! * `secret`: random secrets of a handshake, and their hashes.
//! * `sessions`: sessions, which a secret of one use resumes.
//! * `password_store`: passwords in files.
//! * `credential_store`: passwords as encrypted credentials of systemd.
//! * `kernel_store`: passwords as keys of the kernel; `absent_kernel_store` where there are none.
//! * `keyring_store`: passwords in a desktop's secret service or keychain; `absent_keyring_store` where it is not built in.
//! * `relay`: all that an agent starts: it copies lines.
//! * `in_flight`: which requests wait for an answer, for the relay.
//! * `lines`: lines of bounded length.
//! * `hand_in`: connects for relays whose sandbox forbids sockets.
//! * `ask`: a connection to a broker, from its other side.
//! * `harden`: hides this process's memory, and closes what its parent left open.

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
