//! The store of requests and approvals: one table.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use palisade::{
    approval::{
        ApprovalRequest, Approvals, BoundRequest, Confirmation, GivenApproval, PendingApproval,
        Redemption,
    },
    policy::ApprovalLevel,
};
#[cfg(feature = "postgres")]
use palisade_postgres::PostgresConfig;
use rusqlite::{Connection, TransactionBehavior};

#[cfg(feature = "postgres")]
use crate::postgres_database::PostgresDatabase;
use crate::{
    access_tokens, budgets, changes,
    database::{DatabaseFault, PATIENCE, StateDatabase, StateRow, StateTransaction},
    labels,
    operator_key::{OperatorKey, OperatorPublicKey},
    receipts,
    seal::{Keys, StateSecret, random},
};

/// How many requests of one principal may wait at once.
pub const MAX_WAITING: u32 = 20;

/// How long what is over is kept, so that a person who comes late is told what became of it.
pub(crate) const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The form of the tables; a file of a later one is refused.
const VERSION: i64 = 6;

/// Marks the file as one of these: `PLSA`.
pub(crate) const APPLICATION: i64 = 0x504c_5341;

pub(crate) const TABLES: &str = "
    CREATE TABLE approvals (
        id TEXT PRIMARY KEY,
        digest BLOB NOT NULL,
        principal TEXT NOT NULL,
        level TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'rejected', 'used')),
        created_ms INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL,
        sealed BLOB NOT NULL,
        given_by TEXT,
        signature BLOB
    ) STRICT;
    CREATE INDEX approvals_by_digest ON approvals (digest);
";

/// Tables, each with the form that was the first to have them. The last one is [`VERSION`].
pub(crate) const ADDED: [(i64, &str); 6] = [
    (1, TABLES),
    (2, changes::TABLE),
    (3, receipts::TABLES),
    (4, labels::TABLE),
    (5, budgets::TABLE),
    (VERSION, access_tokens::TABLE),
];

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file.
    #[error("cannot use the state file `{}`: {why}", path.display())]
    File {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The server of a PostgreSQL database.
    #[error("cannot use the state's database: {0}")]
    Server(String),
    /// Anything else.
    #[error("the store of approvals does not work: {0}")]
    Other(String),
}

/// Why a request was not approved or rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApproveError {
    /// There is none by that id.
    #[error("there is no request `{0}`; `palisade approvals` lists those that wait")]
    Unknown(String),
    /// It is over.
    #[error("the request `{id}` {became}; the agent has to send its call again to ask anew")]
    Over {
        /// Its id.
        id: String,
        /// What became of it.
        became: &'static str,
    },
    /// It was sealed under another secret, or changed.
    #[error(
        "the request `{0}` cannot be read: it was sealed under another secret, or was changed; name the secret that the server has"
    )]
    Sealed(String),
    /// An operator has to sign.
    #[error(
        "the request `{0}` needs an operator's approval: name the operator's key with `--key-file FILE`"
    )]
    NeedsKey(String),
    /// Another key than the server's.
    #[error(
        "the key in `--key-file` is not the operator's that the configuration names in `operator_key`"
    )]
    OtherKey,
    /// A change that does not wait for that.
    #[error(
        "the change `{id}` is {state}; its proposer validates it first, and only what waits can be approved or rejected"
    )]
    ChangeStands {
        /// Its id.
        id: String,
        /// Where it stands.
        state: &'static str,
    },
    /// No policy demands an approval of it.
    #[error("the change `{0}` needs no approval: its proposer commits it")]
    NeedsNone(String),
    /// The store.
    #[error("the store of approvals does not work: {0}")]
    Store(String),
}

/// What an operator decides about approvals.
#[derive(Debug, Clone)]
pub struct ApprovalOptions {
    /// How long a request waits, and how long an approval can be used.
    pub expire_after: Duration,
    /// By which an operator's signature is known. Without it, there is no operator.
    pub operator_key: Option<OperatorPublicKey>,
}

impl Default for ApprovalOptions {
    /// A quarter of an hour, and no operator.
    fn default() -> Self {
        Self {
            expire_after: Duration::from_secs(15 * 60),
            operator_key: None,
        }
    }
}

/// A request as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRequest {
    /// Its id.
    pub id: String,
    /// When it came, since 1970-01-01 UTC.
    pub created: Duration,
    /// When it expires.
    pub expires: Duration,
    /// What would run. None if it was sealed under another secret.
    pub request: Option<BoundRequest>,
}

impl From<DatabaseFault> for ApproveError {
    fn from(fault: DatabaseFault) -> Self {
        Self::Store(fault.0)
    }
}

/// Requests that wait for a person, and approvals.
pub struct ApprovalStore {
    pub(crate) database: StateDatabase,
    pub(crate) keys: Keys,
    pub(crate) options: ApprovalOptions,
    pub(crate) is_shared: bool,
}

impl fmt::Debug for ApprovalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalStore")
            .field("options", &self.options)
            .field("is_shared", &self.is_shared)
            .finish_non_exhaustive()
    }
}

impl ApprovalStore {
    /// The store in the file at `path`, which several processes may share. A new one gets mode 0600.
    ///
    /// # Errors
    /// If it cannot be opened, or is another program's or a later version's.
    pub fn open(
        path: &Path,
        secret: &StateSecret,
        options: ApprovalOptions,
    ) -> Result<Self, StateError> {
        let fault = |why: String| StateError::File {
            path: path.to_owned(),
            why,
        };
        let mut file = std::fs::OpenOptions::new();
        file.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
        file.open(path).map_err(|error| fault(error.to_string()))?;
        let connection = Connection::open(path).map_err(|error| fault(error.to_string()))?;
        Self::over_sqlite(connection, secret, options, true).map_err(fault)
    }

    /// The store in the PostgreSQL database of `config`, which servers on several machines may share. Its tables stand in the schema
    /// `palisade_state`, and are made where they are not there yet.
    ///
    /// # Errors
    /// If the database cannot be reached, or its tables are a later version's.
    #[cfg(feature = "postgres")]
    pub fn open_postgres(
        config: PostgresConfig,
        secret: &StateSecret,
        options: ApprovalOptions,
    ) -> Result<Self, StateError> {
        let database = PostgresDatabase::open(config, &ADDED);
        let database = database.map_err(|why| StateError::Server(why.0))?;
        Self::over(
            StateDatabase::over_postgres(database),
            secret,
            options,
            true,
        )
        .map_err(StateError::Other)
    }

    /// A store that is gone with the process. What waits in it is approved by this process alone: by [`approve`](Self::approve), or
    /// by the person at the agent's client. Agents are told of the client, unless
    /// [the host says more](palisade::guard::Guard::with_approval_instruction).
    ///
    /// # Errors
    /// If the machine has no random bytes.
    pub fn in_memory(options: ApprovalOptions) -> Result<Self, StateError> {
        let secret = StateSecret::random().map_err(StateError::Other)?;
        let connection = Connection::open_in_memory();
        let connection = connection.map_err(|error| StateError::Other(error.to_string()))?;
        Self::over_sqlite(connection, &secret, options, false).map_err(StateError::Other)
    }

    fn over_sqlite(
        mut connection: Connection,
        secret: &StateSecret,
        options: ApprovalOptions,
        is_shared: bool,
    ) -> Result<Self, String> {
        prepare(&mut connection)?;
        Self::over(StateDatabase::over(connection), secret, options, is_shared)
    }

    fn over(
        database: StateDatabase,
        secret: &StateSecret,
        options: ApprovalOptions,
        is_shared: bool,
    ) -> Result<Self, String> {
        Ok(Self {
            database,
            keys: Keys::derive(secret)?,
            options,
            is_shared,
        })
    }

    /// Whether it outlives the process, and others share it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The requests that wait at `now`, oldest first.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn list(&self, now: Duration) -> Result<Vec<WaitingRequest>, String> {
        let rows = self.database.read(|transaction| {
            transaction.query(
                "SELECT id, created_ms, expires_ms, sealed FROM approvals
                 WHERE state = 'pending' AND expires_ms > ?1 ORDER BY created_ms, id",
                &[millis(now).into()],
            )
        })?;
        let waiting = rows.iter().map(|row| {
            let (id, sealed) = (row.text(0)?, row.bytes(3)?);
            let (request, _) = self.unseal(&id, &sealed).unzip();
            Ok(WaitingRequest {
                id,
                created: time(row.integer(1)?),
                expires: time(row.integer(2)?),
                request,
            })
        });
        let waiting: Result<_, DatabaseFault> = waiting.collect();
        Ok(waiting?)
    }

    /// How many requests wait at `now`.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn count_waiting(&self, now: Duration) -> Result<u64, String> {
        let count = self.database.read(|transaction| {
            transaction.count(
                "SELECT count(*) FROM approvals WHERE state = 'pending' AND expires_ms > ?1",
                &[millis(now).into()],
            )
        })?;
        Ok(count)
    }

    /// Approves the request called `id`, once; `by` says who. Where an operator's approval is demanded, `key` has to sign it.
    ///
    /// # Errors
    /// If it does not wait, or the key is missing or another.
    pub fn approve(
        &self,
        id: &str,
        now: Duration,
        by: &str,
        key: Option<&OperatorKey>,
    ) -> Result<BoundRequest, ApproveError> {
        self.decide(id, now, |row, bound, transaction| {
            let expires = millis(now.saturating_add(self.options.expire_after));
            let signature = match (row.level, key) {
                (ApprovalLevel::Required, _) => None,
                (ApprovalLevel::Operator, None) => {
                    return Err(ApproveError::NeedsKey(id.to_owned()));
                }
                (ApprovalLevel::Operator, Some(key)) => {
                    let known = self.options.operator_key.as_ref();
                    if known.is_some_and(|known| *known != key.public()) {
                        return Err(ApproveError::OtherKey);
                    }
                    Some(key.sign(&signed_text(id, expires, bound)))
                }
            };
            transaction.execute(
                "UPDATE approvals SET state = 'approved', expires_ms = ?2, given_by = ?3, signature = ?4
                 WHERE id = ?1",
                &[id.into(), expires.into(), by.into(), signature.into()],
            )?;
            Ok(())
        })
    }

    /// Rejects the request called `id`: until it expires, it cannot be made again.
    ///
    /// # Errors
    /// If it does not wait.
    pub fn reject(&self, id: &str, now: Duration, by: &str) -> Result<BoundRequest, ApproveError> {
        self.decide(id, now, |_, _, transaction| {
            transaction.execute(
                "UPDATE approvals SET state = 'rejected', given_by = ?2 WHERE id = ?1",
                &[id.into(), by.into()],
            )?;
            Ok(())
        })
    }

    /// Does `step` with a request that waits, in one transaction.
    fn decide(
        &self,
        id: &str,
        now: Duration,
        step: impl FnOnce(&Row, &str, &mut StateTransaction<'_>) -> Result<(), ApproveError>,
    ) -> Result<BoundRequest, ApproveError> {
        self.database.write(|transaction| {
            let row = find(transaction, id)?;
            let row = row.ok_or_else(|| ApproveError::Unknown(id.to_owned()))?;
            let over = |became| ApproveError::Over {
                id: id.to_owned(),
                became,
            };
            match row.state {
                RequestState::Pending if row.expires_ms > millis(now) => {}
                RequestState::Pending => return Err(over("has expired")),
                RequestState::Approved => return Err(over("is approved already")),
                RequestState::Rejected => return Err(over("was rejected")),
                RequestState::Used => return Err(over("was approved and has run")),
            }
            let (request, bound) = self
                .unseal(id, &row.sealed)
                .filter(|(_, bound)| self.keys.digest(bound) == row.digest)
                .ok_or_else(|| ApproveError::Sealed(id.to_owned()))?;
            step(&row, &bound, transaction)?;
            Ok(request)
        })
    }

    fn unseal(&self, id: &str, sealed: &[u8]) -> Option<(BoundRequest, String)> {
        let bound = self.keys.open(id, sealed)?;
        Some((serde_json::from_str(&bound).ok()?, bound))
    }

    /// What a request waits as, if it may.
    fn wait(
        &self,
        request: &ApprovalRequest,
        digest: &[u8],
        transaction: &mut StateTransaction<'_>,
    ) -> Result<Redemption, DatabaseFault> {
        let now = millis(request.now);
        let waiting = transaction.count(
            "SELECT count(*) FROM approvals
             WHERE principal = ?1 AND state = 'pending' AND expires_ms > ?2",
            &[(&request.principal).into(), now.into()],
        )?;
        if waiting >= MAX_WAITING.into() {
            return Ok(Redemption::TooMany);
        }
        let id = new_id()?;
        let expires = request.now.saturating_add(self.options.expire_after);
        transaction.execute(
            "INSERT INTO approvals (id, digest, principal, level, state, created_ms, expires_ms, sealed)
             VALUES (?1, ?2, ?3, ?4, 'pending', ?5, ?6, ?7)",
            &[
                (&id).into(),
                digest.into(),
                (&request.principal).into(),
                request.level.word().into(),
                now.into(),
                millis(expires).into(),
                self.keys.seal(&id, &request.bound)?.into(),
            ],
        )?;
        Ok(self.pending(id, request.level, expires))
    }

    fn redeem_within(
        &self,
        request: &ApprovalRequest,
        transaction: &mut StateTransaction<'_>,
    ) -> Result<Redemption, DatabaseFault> {
        let (now, digest) = (millis(request.now), self.keys.digest(&request.bound));
        transaction.execute(
            "DELETE FROM approvals WHERE expires_ms < ?1",
            &[now.saturating_sub(millis(KEPT)).into()],
        )?;
        let mut waiting = None;
        for row in find_live(transaction, &digest, now)? {
            match row.state {
                RequestState::Approved => {
                    if !self.is_good(&row, request) {
                        // Whoever wrote that is no operator: the request waits as before.
                        transaction.execute(
                            "UPDATE approvals SET state = 'pending', given_by = NULL, signature = NULL
                             WHERE id = ?1",
                            &[(&row.id).into()],
                        )?;
                        waiting = Some((row.id, row.expires_ms));
                        continue;
                    }
                    transaction.execute(
                        "UPDATE approvals SET state = 'used' WHERE id = ?1",
                        &[(&row.id).into()],
                    )?;
                    return Ok(Redemption::Approved(GivenApproval {
                        id: row.id,
                        by: row.given_by.unwrap_or_default(),
                    }));
                }
                RequestState::Rejected => return Ok(Redemption::Rejected { id: row.id }),
                RequestState::Pending => waiting = Some((row.id, row.expires_ms)),
                // One run each: it is asked for anew.
                RequestState::Used => {}
            }
        }
        match waiting {
            Some((id, expires)) => Ok(self.pending(id, request.level, time(expires))),
            None => self.wait(request, &digest, transaction),
        }
    }

    /// Whether whoever approved `request` in `row` could: what an operator is demanded for is signed.
    fn is_good(&self, row: &Row, request: &ApprovalRequest) -> bool {
        match (request.level, &self.options.operator_key) {
            (ApprovalLevel::Required, _) => true,
            (ApprovalLevel::Operator, Some(key)) => {
                let signed = signed_text(&row.id, row.expires_ms, &request.bound);
                key.verifies(&signed, row.signature.as_deref().unwrap_or_default())
            }
            (ApprovalLevel::Operator, None) => false,
        }
    }

    fn pending(&self, id: String, level: ApprovalLevel, expires: Duration) -> Redemption {
        Redemption::Pending(PendingApproval {
            id,
            level,
            expires,
            is_out_of_band: self.is_shared,
        })
    }
}

impl Approvals for ApprovalStore {
    fn redeem(&self, request: &ApprovalRequest) -> Result<Redemption, String> {
        match (request.level, &self.options.operator_key, self.is_shared) {
            (ApprovalLevel::Required, _, _) | (ApprovalLevel::Operator, Some(_), true) => {}
            (ApprovalLevel::Operator, None, _) => {
                return Ok(Redemption::Unavailable(
                    "the configuration names no `operator_key`",
                ));
            }
            (ApprovalLevel::Operator, Some(_), false) => {
                return Ok(Redemption::Unavailable(
                    "requests are kept in memory, where no operator reaches them",
                ));
            }
        }
        // Of several that redeem one approval, one is first. It is on the disk before anything runs.
        let redeemed = self
            .database
            .write(|transaction| self.redeem_within(request, transaction));
        redeemed.map_err(|fault: DatabaseFault| fault.0)
    }

    fn find_given(&self, request: &ApprovalRequest) -> Result<Option<GivenApproval>, String> {
        let digest = self.keys.digest(&request.bound);
        let rows = self
            .database
            .read(|transaction| find_live(transaction, &digest, millis(request.now)));
        let rows = rows.map_err(|fault: DatabaseFault| fault.0)?;
        if rows.iter().any(|row| row.state == RequestState::Rejected) {
            return Ok(None);
        }
        let used = rows
            .into_iter()
            .find(|row| row.state == RequestState::Used && self.is_good(row, request));
        Ok(used.map(|row| GivenApproval {
            id: row.id,
            by: row.given_by.unwrap_or_default(),
        }))
    }

    fn confirm(&self, id: &str, principal: &str, now: Duration) -> Result<Confirmation, String> {
        let confirmed = self.database.write(|transaction| {
            let row = find(transaction, id)?;
            Ok(match row {
                Some(row) if row.principal == principal && row.expires_ms > millis(now) => {
                    match (row.level, row.state) {
                        (ApprovalLevel::Operator, _) => Confirmation::NeedsOperator,
                        (ApprovalLevel::Required, RequestState::Pending) => {
                            let expires = now.saturating_add(self.options.expire_after);
                            transaction.execute(
                                "UPDATE approvals SET state = 'approved', expires_ms = ?2,
                                 given_by = 'the agent''s client' WHERE id = ?1",
                                &[id.into(), millis(expires).into()],
                            )?;
                            Confirmation::Approved
                        }
                        (ApprovalLevel::Required, RequestState::Approved) => Confirmation::Approved,
                        (ApprovalLevel::Required, RequestState::Rejected | RequestState::Used) => {
                            Confirmation::NotPending
                        }
                    }
                }
                Some(_) | None => Confirmation::NotPending,
            })
        });
        confirmed.map_err(|fault: DatabaseFault| fault.0)
    }

    fn waits(&self, id: &str, principal: &str, now: Duration) -> Result<bool, String> {
        let row = self.database.read(|transaction| find(transaction, id))?;
        Ok(row.is_some_and(|row| {
            row.principal == principal
                && row.state == RequestState::Pending
                && row.expires_ms > millis(now)
        }))
    }
}

/// Where a request stands. The words are those of the table's constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    /// It waits for a person.
    Pending,
    /// A person approved it, and it has not run.
    Approved,
    /// A person rejected it.
    Rejected,
    /// It was approved and has run.
    Used,
}

impl RequestState {
    fn parse(word: &str) -> Result<Self, DatabaseFault> {
        match word {
            "pending" => Ok(Self::Pending),
            "approved" => Ok(Self::Approved),
            "rejected" => Ok(Self::Rejected),
            "used" => Ok(Self::Used),
            _ => Err(DatabaseFault(format!(
                "the state `{word}` of a request is none that this program knows"
            ))),
        }
    }
}

/// A row of the table.
struct Row {
    id: String,
    digest: Vec<u8>,
    principal: String,
    level: ApprovalLevel,
    state: RequestState,
    expires_ms: i64,
    sealed: Vec<u8>,
    given_by: Option<String>,
    signature: Option<Vec<u8>>,
}

const COLUMNS: &str =
    "id, digest, principal, level, state, expires_ms, sealed, given_by, signature";

fn read_row(row: &StateRow) -> Result<Row, DatabaseFault> {
    let level = row.text(3)?;
    Ok(Row {
        id: row.text(0)?,
        digest: row.bytes(1)?,
        principal: row.text(2)?,
        // What is not known is the strictest.
        level: ApprovalLevel::parse(&level).unwrap_or(ApprovalLevel::Operator),
        state: RequestState::parse(&row.text(4)?)?,
        expires_ms: row.integer(5)?,
        sealed: row.bytes(6)?,
        given_by: row.find_text(7)?,
        signature: row.find_bytes(8)?,
    })
}

fn find(transaction: &mut StateTransaction<'_>, id: &str) -> Result<Option<Row>, DatabaseFault> {
    let query = format!("SELECT {COLUMNS} FROM approvals WHERE id = ?1");
    let row = transaction.find(&query, &[id.into()])?;
    row.as_ref().map(read_row).transpose()
}

/// The rows of a digest that have not expired, approved ones first.
fn find_live(
    transaction: &mut StateTransaction<'_>,
    digest: &[u8],
    now: i64,
) -> Result<Vec<Row>, DatabaseFault> {
    let query = format!(
        "SELECT {COLUMNS} FROM approvals WHERE digest = ?1 AND expires_ms > ?2 ORDER BY state, id"
    );
    let rows = transaction.query(&query, &[digest.into(), now.into()])?;
    rows.iter().map(read_row).collect()
}

/// What an operator signs.
fn signed_text(id: &str, expires_ms: i64, bound: &str) -> String {
    format!("palisade approval 1\n{id}\n{expires_ms}\n{bound}")
}

/// Makes the tables, or checks that they are these.
fn prepare(connection: &mut Connection) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    connection.busy_timeout(PATIENCE).map_err(text)?;
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(text)?;
    let pragma =
        |name: &str| transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (
        pragma("application_id").map_err(text)?,
        pragma("user_version").map_err(text)?,
    );
    let tables: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(text)?;
    match (application, version) {
        (APPLICATION, VERSION) => Ok(()),
        (0, 0) if tables == 0 => {
            for (_, tables) in ADDED {
                transaction.execute_batch(tables).map_err(text)?;
            }
            transaction
                .pragma_update(None, "application_id", APPLICATION)
                .map_err(text)?;
            transaction
                .pragma_update(None, "user_version", VERSION)
                .map_err(text)?;
            transaction.commit().map_err(text)
        }
        (APPLICATION, older @ 1..VERSION) => {
            for (version, tables) in ADDED {
                if version > older {
                    transaction.execute_batch(tables).map_err(text)?;
                }
            }
            transaction
                .pragma_update(None, "user_version", VERSION)
                .map_err(text)?;
            transaction.commit().map_err(text)
        }
        (APPLICATION, version) => Err(format!(
            "it is of version {version}, and this program knows version {VERSION}; name another file, or update the program"
        )),
        (_, _) => Err("it holds something else; name another file".to_owned()),
    }
}

/// An id that a person can read out: letters and digits that are not taken for each other.
pub(crate) fn new_id() -> Result<String, String> {
    const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstvwxyz0123456789";
    let bytes = random::<10>()?;
    let letter = |byte: u8| LETTERS.get(usize::from(byte % 32)).copied().map(char::from);
    Ok(bytes.into_iter().filter_map(letter).collect())
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn time(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn store(path: &Path) -> ApprovalStore {
        ApprovalStore::open(
            path,
            &StateSecret::new(*b"secret"),
            ApprovalOptions::default(),
        )
        .unwrap()
    }

    /// A request for this statement, which the store does not look into.
    fn request(sql: &str) -> ApprovalRequest {
        let bound = serde_json::json!({
            "version": 1, "principal": "Agent::\"a\"", "transport": "stdio", "client": null,
            "connection": "desk", "template": null, "sql": sql, "params": "", "policy_version": "v",
            "policies": ["p"], "level": "required", "max_rows": 1, "max_affected_rows": 1,
        });
        ApprovalRequest {
            bound: bound.to_string(),
            level: ApprovalLevel::Required,
            principal: "Agent::\"a\"".to_owned(),
            relations: Vec::new(),
            now: NOW,
        }
    }

    fn pending(store: &ApprovalStore, request: &ApprovalRequest) -> String {
        match store.redeem(request).unwrap() {
            Redemption::Pending(pending) => pending.id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_of_many_threads_and_files_uses_an_approval() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let first = store(&path);
        let id = pending(&first, &request("DELETE"));
        first.approve(&id, NOW, "ann", None).unwrap();
        let used: usize = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4)
                .map(|_| {
                    let path = &path;
                    scope.spawn(move || {
                        let redeemed = store(path).redeem(&request("DELETE")).unwrap();
                        usize::from(matches!(redeemed, Redemption::Approved(_)))
                    })
                })
                .collect();
            all.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(used, 1);
    }

    #[test]
    fn requests_of_one_principal_are_bounded() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        for n in 0..MAX_WAITING {
            pending(&store, &request(&format!("DELETE {n}")));
        }
        assert_eq!(store.redeem(&request("one more")), Ok(Redemption::TooMany));
        // Those that wait are found again, and another principal has room.
        pending(&store, &request("DELETE 0"));
        let other = ApprovalRequest {
            principal: "Agent::\"b\"".to_owned(),
            ..request("one more")
        };
        pending(&store, &other);
        let later = ApprovalRequest {
            now: NOW + Duration::from_secs(16 * 60),
            ..request("one more")
        };
        pending(&store, &later);
    }

    #[test]
    fn a_client_confirms_its_own_requests_alone() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        let id = pending(&store, &request("DELETE"));
        let confirm = |principal, now| store.confirm(&id, principal, now).unwrap();
        let late = NOW + ApprovalOptions::default().expire_after;
        assert_eq!(confirm("Agent::\"b\"", NOW), Confirmation::NotPending);
        // At the moment of its end it is over.
        assert_eq!(confirm("Agent::\"a\"", late), Confirmation::NotPending);
        assert_eq!(confirm("Agent::\"a\"", NOW), Confirmation::Approved);
        assert!(matches!(
            store.redeem(&request("DELETE")),
            Ok(Redemption::Approved(_))
        ));
        assert_eq!(confirm("Agent::\"a\"", NOW), Confirmation::NotPending);
    }

    #[test]
    fn a_row_that_was_changed_is_not_approved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let store = store(&path);
        let harmless = pending(&store, &request("DELETE 1"));
        let harmful = pending(&store, &request("DELETE"));
        let file = Connection::open(&path).unwrap();
        // What is shown would be the one, and what runs the other.
        let swap = "UPDATE approvals SET digest = (SELECT digest FROM approvals WHERE id = ?2) WHERE id = ?1";
        file.execute(swap, [&harmless, &harmful]).unwrap();
        assert_eq!(
            store.approve(&harmless, NOW, "ann", None),
            Err(ApproveError::Sealed(harmless.clone()))
        );
        let swap = "UPDATE approvals SET sealed = (SELECT sealed FROM approvals WHERE id = ?2) WHERE id = ?1";
        file.execute(swap, [&harmful, &harmless]).unwrap();
        assert_eq!(
            store.approve(&harmful, NOW, "ann", None),
            Err(ApproveError::Sealed(harmful.clone()))
        );
    }

    /// The table's constraint keeps such words out; a file that was made without it is not believed.
    #[test]
    fn a_state_that_is_not_known_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let store = store(&path);
        let id = pending(&store, &request("DELETE"));
        let file = Connection::open(&path).unwrap();
        file.execute_batch(
            "PRAGMA ignore_check_constraints = ON; UPDATE approvals SET state = 'Approved'",
        )
        .unwrap();
        let why = "the state `Approved` of a request is none that this program knows";
        assert_eq!(store.redeem(&request("DELETE")), Err(why.to_owned()));
        assert_eq!(store.waits(&id, "Agent::\"a\"", NOW), Err(why.to_owned()));
        assert_eq!(
            store.approve(&id, NOW, "ann", None),
            Err(ApproveError::Store(why.to_owned()))
        );
    }

    #[test]
    fn other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE t (x)").unwrap();
        let open = |path: &Path| {
            let secret = StateSecret::new(*b"secret");
            ApprovalStore::open(path, &secret, ApprovalOptions::default())
                .map_err(|e| e.to_string())
        };
        assert!(open(&path).unwrap_err().contains("holds something else"));
        let later = dir.path().join("later.db");
        drop(open(&later).unwrap());
        let file = Connection::open(&later).unwrap();
        file.pragma_update(None, "user_version", VERSION + 1)
            .unwrap();
        let refused = open(&later).unwrap_err();
        assert!(
            refused.contains(&format!("version {}", VERSION + 1)),
            "{refused}"
        );
    }
}
