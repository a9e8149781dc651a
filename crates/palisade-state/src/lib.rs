//! What outlives a request: requests that wait for a person's approval, the approvals that were given, and changes that are looked at
//! before they are kept.
//!
//! [`ApprovalStore`] is the [`Approvals`](palisade::approval::Approvals) of a gate, and its [`ChangeStore`](palisade::change::ChangeStore). It is a SQLite file, which several processes may
//! share, a schema of a PostgreSQL database, for several servers, or lives in memory. Statements and parameters are sealed in it, and found again by digests under a key.
//!
//! | type | is |
//! |---|---|
//! | [`ApprovalStore`] | the store |
//! | [`WaitingRequest`] | a request as a person reads it |
//! | [`VerifyFault`] | what is wrong with the chain of receipts |
//! | [`OperatorKey`], [`OperatorPublicKey`] | by which an operator signs, and by which the gate knows the signature |

mod access_tokens;
mod budgets;
mod changes;
mod database;
mod labels;
mod operator_key;
#[cfg(feature = "postgres")]
mod postgres_database;
mod receipts;
mod seal;
mod store;

pub use operator_key::{OperatorKey, OperatorKeyError, OperatorPublicKey};
pub use receipts::VerifyFault;
pub use seal::StateSecret;
pub use store::{
    ApprovalOptions, ApprovalStore, ApproveError, MAX_WAITING, StateError, WaitingRequest,
};
