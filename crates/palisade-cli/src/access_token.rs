//! `palisade token`: access tokens of the server over HTTP, made, listed and taken back.

use std::{sync::Arc, time::Duration};

use palisade::{host::Host as _, moment, token::Lifetime};
use palisade_host::Machine;
use palisade_http::{
    SharedTokens, TokenEntry, TokenFile, TokenFileError, TokenName, TokenNameError, TokenStore,
    Tokens,
};
use palisade_state::ApprovalStore;
use serde_json::{Value, json};

use crate::{
    args::{
        Format,
        access_token::{
            CreateArguments, ListArguments, RevokeArguments, TokenCommand, TokenFileArguments,
        },
    },
    config::{ConfigFile, http::TokenPlace},
    exit::{Exit, Failure},
    principal_name, stdout,
};

/// Runs the command.
pub(crate) fn run(command: &TokenCommand) -> Result<Exit, Failure> {
    let text = match command {
        TokenCommand::Create(arguments) => create(arguments)?,
        TokenCommand::List(arguments) => list(arguments)?,
        TokenCommand::Revoke(arguments) => revoke(arguments)?,
    };
    stdout::text(&text)?;
    Ok(Exit::Permitted)
}

fn create(arguments: &CreateArguments) -> Result<String, Failure> {
    let CreateArguments {
        name,
        principal,
        expires,
        file,
        format,
    } = arguments;
    let principal = principal_name::parse_as(principal).map_err(Failure::Usage)?;
    let lifetime: Lifetime = expires.parse().map_err(|_| {
        Failure::Usage(format!(
            "`{expires}` is no time\n  help: write minutes, hours or days, from `1m` to `365d`, or `never`"
        ))
    })?;
    let lifetime = match lifetime {
        Lifetime::Unending => None,
        Lifetime::Span(span) => Some(span),
    };
    let (tokens, _) = file.open()?;
    let made = tokens.create(read_name(name)?, &principal, lifetime);
    let (token, entry) = made.map_err(fail)?;
    Ok(match format {
        Format::Text => format!(
            "{}\n\nIt is shown this once. Whoever has it asks as {} ({}).\nA client sends it as `Authorization: Bearer {}`.\n",
            token.reveal(),
            entry.principal,
            describe_end(&entry, now()),
            token.reveal(),
        ),
        Format::Json => {
            let mut told = to_json(&entry, now());
            if let Some(fields) = told.as_object_mut() {
                fields.insert("token".to_owned(), Value::from(token.reveal()));
            }
            format!("{told}\n")
        }
    })
}

fn list(arguments: &ListArguments) -> Result<String, Failure> {
    let ListArguments { file, format } = arguments;
    let (tokens, place) = file.open()?;
    let entries = tokens.entries().map_err(fail)?;
    let now = now();
    Ok(match format {
        Format::Json => {
            let all: Vec<Value> = entries.iter().map(|entry| to_json(entry, now)).collect();
            format!("{}\n", json!({"tokens": all}))
        }
        Format::Text if entries.is_empty() => format!(
            "There is no access token in {place}.\nMake one: palisade token create NAME --as 'Agent::\"support-bot\"'\n"
        ),
        Format::Text => {
            let width = entries.iter().map(|entry| entry.name.as_str().len()).max();
            let width = width.unwrap_or_default();
            entries
                .iter()
                .map(|entry| {
                    let end = describe_end(entry, now);
                    format!(
                        "{:width$}  {}  {end}\n",
                        entry.name.as_str(),
                        entry.principal
                    )
                })
                .collect()
        }
    })
}

fn revoke(arguments: &RevokeArguments) -> Result<String, Failure> {
    let RevokeArguments { name, file } = arguments;
    let (tokens, _) = file.open()?;
    let entry = tokens.revoke(&read_name(name)?).map_err(fail)?;
    let since = match tokens {
        Tokens::File(_) => "the next request with it is refused",
        Tokens::Shared(_) => "every server refuses it within a second",
    };
    Ok(format!(
        "The access token `{}` of {} is revoked: {since}.\n",
        entry.name, entry.principal
    ))
}

impl TokenFileArguments {
    /// The tokens that are meant, and where they are.
    fn open(&self) -> Result<(Tokens, String), Failure> {
        match (&self.tokens, &self.config) {
            (Some(path), _) => Ok((TokenFile::new(path.clone()).into(), path.display().to_string())),
            (None, Some(config)) => {
                let config = ConfigFile::read(config)?;
                let place = &config.http().tokens;
                let shown = match place {
                    TokenPlace::File(path) => path.display().to_string(),
                    TokenPlace::State => "the state of `[approvals]`".to_owned(),
                };
                Ok((open_tokens(place, &config)?, shown))
            }
            (None, None) => Err(Failure::Usage(
                "it is not said where access tokens are\n  help: `--config palisade.toml`, or `--tokens FILE`"
                    .to_owned(),
            )),
        }
    }
}

/// The tokens at `place`, as `config` has it; those of a store are read.
pub(crate) fn open_tokens(place: &TokenPlace, config: &ConfigFile) -> Result<Tokens, Failure> {
    match place {
        TokenPlace::File(path) => Ok(TokenFile::new(path.clone()).into()),
        TokenPlace::State => {
            let store = config.defaults().approvals.require_store()?;
            let shared = SharedTokens::new(Arc::new(StateTokens(store)));
            shared.refresh().map_err(fail)?;
            Ok(shared.into())
        }
    }
}

/// The state as a store of access tokens.
struct StateTokens(ApprovalStore);

impl TokenStore for StateTokens {
    fn list(&self) -> Result<Vec<String>, String> {
        self.0.list_access_tokens()
    }

    fn keep(&self, name: &str, text: &str) -> Result<bool, String> {
        self.0.keep_access_token(name, text)
    }

    fn delete(&self, name: &str) -> Result<bool, String> {
        self.0.delete_access_token(name)
    }
}

fn read_name(name: &str) -> Result<TokenName, Failure> {
    name.parse()
        .map_err(|error: TokenNameError| Failure::Usage(error.to_string()))
}

fn fail(error: TokenFileError) -> Failure {
    Failure::Usage(error.to_string())
}

fn now() -> u64 {
    Machine::new().unix_time().as_secs()
}

fn describe_end(entry: &TokenEntry, now: u64) -> String {
    match entry.expires {
        None => "until it is revoked".to_owned(),
        Some(_) if entry.is_expired(now) => "ended".to_owned(),
        Some(expires) => format!("until {}", print_time(expires)),
    }
}

fn print_time(seconds: u64) -> String {
    moment::print_utc(Duration::from_secs(seconds))
}

/// All of an entry but its hash.
fn to_json(entry: &TokenEntry, now: u64) -> Value {
    json!({
        "name": entry.name.as_str(),
        "principal": entry.principal,
        "created": print_time(entry.created),
        "expires": entry.expires.map(print_time),
        "is_expired": entry.is_expired(now),
    })
}
