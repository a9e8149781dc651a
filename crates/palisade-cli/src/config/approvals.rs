//! What the operator decides about approvals: `[approvals]` of the configuration.

use std::{
    fs::OpenOptions,
    io::ErrorKind,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use palisade_mcp::ApprovalPage;
use palisade_state::{
    ApprovalOptions, ApprovalStore, OperatorKeyError, OperatorPublicKey, StateSecret,
};
use serde::Deserialize;
use toml::Spanned;

use crate::{
    config::{
        Grants, Reader,
        audit::AuditSetup,
        webhook::{Webhook, WebhookSetup},
    },
    database_name::Source,
    exit::Failure,
    key_file::{self, SECRET_BYTES},
    postgres,
    secret::Secret,
    target::{Engine, Target},
};

/// The state file, beside an audit log.
pub(crate) const STATE_FILE: &str = "palisade.state.db";

/// What an operator writes where there is no state file.
pub(crate) const STATE_LINE: &str = "`state = \"approvals.db\"` under `[approvals]`";

/// `[approvals]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Approvals {
    /// The file in which requests wait; or a PostgreSQL database, `"postgres://USER@HOST:PORT/DATABASE"`, which several servers share. Without it,
    /// `palisade.state.db` beside the audit log. Without an audit log, they wait in the memory of `palisade serve`, where `palisade approve` does
    /// not reach them.
    state: Option<Spanned<String>>,
    /// The environment variable that holds the password of that database. `[grants]` must name it.
    state_password_env: Option<Spanned<String>>,
    /// The file that holds this password, instead of a variable. `[grants]` must name it.
    state_password_file: Option<Spanned<PathBuf>>,
    /// Minutes until a request expires, and until an approval does: 1 to 1440. Without it, 15.
    expire_minutes: Option<Spanned<u64>>,
    /// The public half of the operator's key, as `palisade approvals --new-key` prints it. Without it, nothing that needs an operator can be
    /// approved.
    operator_key: Option<Spanned<String>>,
    /// The environment variable that holds the secret of the seals, at least 32 bytes. `[grants]` must name it. Without a secret, one is made in
    /// a file beside the state file, with `.key` at the end of its name. All servers over one database have the same.
    secret_env: Option<Spanned<String>>,
    /// The file that holds this secret, instead of a variable. `[grants]` must name it.
    secret_file: Option<Spanned<PathBuf>>,
    /// The page on which a person decides about a request, for example `"https://approvals.example.org/{id}"`. Clients that can open an address
    /// send their person there before they ask in a form. `{id}` stands for the request. Plain `http` is for this machine alone. It needs a state file.
    page: Option<Spanned<String>>,
    /// Who outside is told of each request. It needs a state file.
    webhook: Option<Webhook>,
}

impl Approvals {
    /// Where `state` is written.
    pub(crate) fn find_state(&self) -> Option<Range<usize>> {
        self.state.as_ref().map(Spanned::span)
    }
}

/// Where requests wait.
#[derive(Debug, Clone, Default)]
enum Place {
    /// In the memory of a server.
    #[default]
    Memory,
    /// In this file beside an audit log, as nothing else is said.
    Beside(PathBuf),
    /// In the file that the operator names.
    Named(PathBuf),
    /// In a database that the operator names.
    Server(Box<Target>),
}

/// What the operator decides about approvals.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApprovalSetup {
    place: Place,
    /// The secret behind its seals; without it, it is in a file beside.
    secret: Option<Secret>,
    /// How long requests wait.
    expire_after: Option<Duration>,
    /// By which an operator's signature is known.
    operator_key: Option<OperatorPublicKey>,
    /// Where a person decides.
    pub(crate) page: Option<ApprovalPage>,
    /// Who outside is told.
    pub(crate) webhook: Option<WebhookSetup>,
}

impl ApprovalSetup {
    /// What is usual, in the file at `path`.
    pub(crate) fn with_file(path: PathBuf) -> Self {
        Self {
            place: Place::Named(path),
            ..Self::default()
        }
    }

    /// The same; where nothing says where requests wait, in a file beside the log of `audit`, if that is a file.
    pub(crate) fn settle_beside(self, audit: &AuditSetup) -> Self {
        let place = match (self.place, &audit.file) {
            // A pipe or a device has no folder of its own.
            (Place::Memory, Some(log)) if !log.exists() || log.is_file() => {
                Place::Beside(log.with_file_name(STATE_FILE))
            }
            (place, Some(_) | None) => place,
        };
        Self { place, ..self }
    }

    /// The file in which requests wait, if it is in one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.place {
            Place::Memory | Place::Server(_) => None,
            Place::Beside(path) | Place::Named(path) => Some(path),
        }
    }

    /// The folder of the file that the operator names, where it is missing.
    pub(crate) fn find_missing_folder(&self) -> Option<&Path> {
        match &self.place {
            Place::Named(path) => key_file::find_missing_folder(path),
            Place::Memory | Place::Beside(_) | Place::Server(_) => None,
        }
    }

    /// What tells one store that outlives a process from another.
    pub(crate) fn name_store(&self) -> Option<String> {
        match &self.place {
            Place::Memory => None,
            Place::Beside(path) | Place::Named(path) => Some(path.display().to_string()),
            Place::Server(target) => Some(target.url().to_owned()),
        }
    }

    /// Whether the operator named the file, or the database.
    pub(crate) fn is_named(&self) -> bool {
        match &self.place {
            Place::Named(_) | Place::Server(_) => true,
            Place::Memory | Place::Beside(_) => false,
        }
    }

    /// The store, if there is a file or a database for it. A file that is not named is none where its folder cannot be written.
    pub(crate) fn open(&self) -> Result<Option<ApprovalStore>, Failure> {
        let path = match &self.place {
            Place::Memory => return Ok(None),
            Place::Server(target) => {
                let secret = self.secret.as_ref().ok_or_else(|| {
                    Failure::Internal("a database of state without a secret".to_owned())
                })?;
                let secret = read_secret(secret)?;
                return postgres::open_state(target, &secret, self.options()).map(Some);
            }
            Place::Beside(path) if !can_be_made(path) => return Ok(None),
            Place::Beside(path) | Place::Named(path) => path,
        };
        if let Some(folder) = key_file::find_missing_folder(path) {
            return Err(Failure::Usage(format!(
                "cannot write the state file `{}`: there is no folder `{}`\n  help: make it",
                path.display(),
                folder.display()
            )));
        }
        let secret = match &self.secret {
            Some(secret) => read_secret(secret)?,
            None => secret_beside(path)?,
        };
        let opened = ApprovalStore::open(path, &secret, self.options());
        opened
            .map(Some)
            .map_err(|error| Failure::Usage(error.to_string()))
    }

    /// The store, for commands whose work is lost without a file.
    pub(crate) fn require_store(&self) -> Result<ApprovalStore, Failure> {
        self.open()?.ok_or_else(|| {
            Failure::Usage(
                "there is no state file, so that no changes and no receipts outlive their server\n  help: name one by `state` under `[approvals]`, or an audit log by --audit"
                    .to_owned(),
            )
        })
    }

    /// A store that is gone with the process.
    pub(crate) fn open_in_memory(&self) -> Result<ApprovalStore, Failure> {
        ApprovalStore::in_memory(self.options())
            .map_err(|error| Failure::Internal(error.to_string()))
    }

    /// How long requests wait.
    pub(crate) fn expire_after(&self) -> Duration {
        (self.expire_after).unwrap_or_else(|| ApprovalOptions::default().expire_after)
    }

    fn options(&self) -> ApprovalOptions {
        ApprovalOptions {
            expire_after: self.expire_after(),
            operator_key: self.operator_key.clone(),
        }
    }
}

/// Whether there is a file at `path`, or one can be made. What else is wrong with it, opening it tells.
fn can_be_made(path: &Path) -> bool {
    if path.exists() {
        return true;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
        ),
    }
}

/// The secret that the configuration names.
fn read_secret(secret: &Secret) -> Result<StateSecret, Failure> {
    let text = secret.read()?;
    if text.reveal().len() < SECRET_BYTES {
        return Err(Failure::Configuration(format!(
            "error: the secret of approvals, {secret}, is shorter than {SECRET_BYTES} bytes\n  help: make one by `openssl rand -hex 32`"
        )));
    }
    Ok(StateSecret::new(text.reveal()))
}

/// The secret in the file beside `state`, which is made where it is not there.
fn secret_beside(state: &Path) -> Result<StateSecret, Failure> {
    let secret = key_file::read_or_make(
        &key_file::name_key_file(state),
        "the secret of the state file",
    )?;
    Ok(StateSecret::new(secret.reveal()))
}

impl Reader<'_> {
    /// Where requests wait, by what `state` says.
    fn place(
        &self,
        state: Option<Spanned<String>>,
        (env, file): (Option<Spanned<String>>, Option<Spanned<PathBuf>>),
        (grants, has_secret): (&Grants, bool),
    ) -> Result<Place, Failure> {
        let named = (env.as_ref().map(Spanned::span)).or(file.as_ref().map(Spanned::span));
        let keys = (
            "the password of the state's database",
            "`state_password_env` and `state_password_file`",
        );
        let password = self.secret((env, file), keys)?;
        let is_server = (state.as_ref()).is_some_and(|state| state.get_ref().contains("://"));
        let state = match (state, named) {
            (Some(state), _) if is_server => state,
            (Some(_) | None, Some(span)) => {
                let help = "leave it out, or write the URL of a PostgreSQL database as `state`";
                return Err(self.fault("a file has no password", Some(span), help));
            }
            (Some(path), None) => return Ok(Place::Named(self.folder.join(path.get_ref()))),
            (None, None) => return Ok(Place::Memory),
        };
        let url = match Source::parse(state.get_ref()) {
            Ok(Source::Server(Engine::Postgres, url)) => url,
            Ok(Source::Server(Engine::Mysql, _) | Source::Sqlite(_) | Source::Connection(_))
            | Err(_) => {
                return Err(self.error_without_source(
                    "`state` is neither a file nor a PostgreSQL database",
                    state.span(),
                    "write a path, or `postgres://USER@HOST:PORT/DATABASE`",
                ));
            }
        };
        let target = Target::parse(Engine::Postgres, &url, password);
        let target = target.map_err(|problem| {
            self.error_without_source(&problem.message, state.span(), &problem.help)
        })?;
        let at_state =
            |message: &str, help: &str| Err(self.fault(message, Some(state.span()), help));
        if let Some(path) = target.tls().relative() {
            return at_state(
                &format!("`{}` means another file in another folder", path.display()),
                "in a configuration, write files of the URL from the root, `/…`",
            );
        }
        if let Some((message, help)) = grants.refusal(&target) {
            return at_state(&message, &help);
        }
        if !has_secret {
            return at_state(
                "what is kept in a database is sealed, and no secret is named",
                "name one that all servers have, by `secret_env` or `secret_file`; make one by `openssl rand -hex 32`",
            );
        }
        Ok(Place::Server(Box::new(target)))
    }

    /// Where requests wait for a person.
    pub(crate) fn approvals(
        &self,
        approvals: Approvals,
        grants: &Grants,
    ) -> Result<ApprovalSetup, Failure> {
        let Approvals {
            state,
            state_password_env,
            state_password_file,
            expire_minutes,
            operator_key,
            secret_env,
            secret_file,
            page,
            webhook,
        } = approvals;
        let span =
            (secret_env.as_ref().map(Spanned::span)).or(secret_file.as_ref().map(Spanned::span));
        let keys = ("the secret of approvals", "`secret_env` and `secret_file`");
        let secret = self.secret((secret_env, secret_file), keys)?;
        let refused = secret
            .as_ref()
            .and_then(|secret| grants.refuse_unnamed(secret));
        if let Some((message, help)) = refused {
            return Err(self.fault(&message, span, &help));
        }
        let password = (state_password_env, state_password_file);
        let place = self.place(state, password, (grants, secret.is_some()))?;
        let expire_after = expire_minutes.map(|minutes| match *minutes.get_ref() {
            within @ 1..=1440 => Ok(Duration::from_secs(60 * within)),
            other => Err(self.fault(
                &format!("`expire_minutes` cannot be {other}"),
                Some(minutes.span()),
                "write a number from 1 to 1440",
            )),
        });
        let operator_key = operator_key.map(|key| {
            (key.get_ref().parse()).map_err(|error: OperatorKeyError| {
                let help = "`palisade approvals --new-key FILE` makes a key, and prints this line";
                self.fault(&error.to_string(), Some(key.span()), help)
            })
        });
        let page = page.map(|page| {
            ApprovalPage::parse(page.get_ref()).map_err(|error| {
                let help = "write for example `\"https://approvals.example.org/{id}\"`; `http://` is for `127.0.0.1`, `[::1]` and `localhost`";
                self.fault(&format!("`page` cannot be this: {error}"), Some(page.span()), help)
            })
        });
        Ok(ApprovalSetup {
            page: page.transpose()?,
            place,
            secret,
            expire_after: expire_after.transpose()?,
            operator_key: operator_key.transpose()?,
            webhook: webhook
                .map(|table| self.webhook(table, grants))
                .transpose()?,
        })
    }
}
