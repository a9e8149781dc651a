//! `palisade load-connections`: passwords from a terminal into the broker's store.

use palisade_broker::hide_memory;

use crate::{
    args::broker::LoadArguments,
    broker::{
        door::{identify, refuse},
        layout,
        stores::Store,
        terminal::Terminal,
    },
    config::{Config, ConfigFile},
    database::{Access, Database},
    exit::{Exit, Failure},
    host,
    secret::Password,
    stdout,
    target::Target,
};

/// Times that a password is asked for.
const ATTEMPTS: u32 = 3;

/// Runs the command.
pub(crate) fn run(arguments: &LoadArguments) -> Result<Exit, Failure> {
    let LoadArguments {
        config,
        store,
        credentials,
        list,
        forget,
        rotate,
    } = arguments;
    hide_memory().map_err(|error| {
        Failure::Internal(format!("this process cannot hide its memory: {error}"))
    })?;
    let file = ConfigFile::read(config)?;
    let layout = layout(file.broker());
    let passwords = Store::open(*store, &layout, credentials)?;
    if *list {
        return print_list(&file, &passwords);
    }
    if let Some(name) = forget {
        let removed = passwords.forget(name).map_err(|error| refuse(&error))?;
        if removed == 0 {
            return Err(Failure::Usage(format!(
                "no password is stored for a connection `{name}`\n  help: `--list` says for which"
            )));
        }
        stdout::text(&format!("The password of `{name}` is removed.\n"))?;
        return Ok(Exit::Permitted);
    }
    if file.names().next().is_none() {
        return Err(Failure::Configuration(
            "error: the configuration names no connection\n  help: write `[connections.NAME]` with a `url`"
                .to_owned(),
        ));
    }
    if let Some(name) = rotate {
        let (config, database) = file.connection(name)?;
        let Some(target) = find_target(database) else {
            return Err(Failure::Usage(format!(
                "the password of `{name}` is not stored here\n  help: connections to SQLite have none, and those with `password_env` or `password_file` name theirs"
            )));
        };
        ask_for(name, config, target, &passwords)?;
        return Ok(Exit::Permitted);
    }
    let mut asked = 0;
    for name in file.names() {
        let (config, database) = file.connection(name)?;
        let Some(target) = find_target(database) else {
            continue;
        };
        let stored = passwords.find(&identify(name, target));
        if stored.map_err(|error| refuse(&error))?.is_none() {
            ask_for(name, config, target, &passwords)?;
            asked += 1;
        }
    }
    if asked == 0 {
        stdout::text("Nothing is to be asked: no connection is new or has changed.\n")?;
    }
    Ok(Exit::Permitted)
}

/// The target whose password is stored here.
pub(super) fn find_target(database: &Database) -> Option<&Target> {
    match database {
        Database::Server(target) if target.secret().is_none() => Some(target),
        Database::Server(_) | Database::Sqlite(_) | Database::Memory(_) => None,
    }
}

/// Asks for a password until one is taken, and stores that.
fn ask_for(name: &str, config: &Config, target: &Target, passwords: &Store) -> Result<(), Failure> {
    let mut terminal = Terminal::open()?;
    let identity = identify(name, target);
    let question = format!(
        "Password of `{}` at {} for `{name}` (none: Enter): ",
        target.user(),
        target.endpoints().join(", ")
    );
    let access = Access::asked(config.writable);
    let mut attempt = 1;
    loop {
        let password = terminal.ask(&question)?;
        identity.check(&password).map_err(|error| refuse(&error))?;
        // Nothing is on the disk before the database has taken it.
        let with = if password.is_empty() {
            target.clone()
        } else {
            target.clone().with_typed(Password::typed(&password))
        };
        let opened = host::runtime()?.block_on(with.open(access));
        match opened {
            Ok(_) => {
                let place = passwords
                    .store(&identity, &password)
                    .map_err(|error| refuse(&error))?;
                terminal.tell(&format!("`{name}` is tried, and stored: {place}.\n"));
                return Ok(());
            }
            Err(Failure::Unavailable(why)) if attempt < ATTEMPTS => {
                terminal.tell(&format!("{why}\n"));
                attempt += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn print_list(file: &ConfigFile, passwords: &Store) -> Result<Exit, Failure> {
    let mut out = String::new();
    for name in file.names() {
        let (_, database) = file.connection(name)?;
        let told = match find_target(database) {
            None => "needs none here".to_owned(),
            Some(target) => {
                let place = passwords.find(&identify(name, target));
                match place.map_err(|error| refuse(&error))? {
                    Some(place) => format!("stored: {place}"),
                    None => "new or changed: not stored".to_owned(),
                }
            }
        };
        out += &format!("{name}  {told}\n");
    }
    for name in passwords.names().map_err(|error| refuse(&error))? {
        if !file.names().any(|known| known == name) {
            out += &format!("{name}  stored, and not in the configuration\n");
        }
    }
    stdout::text(&out)?;
    Ok(Exit::Permitted)
}
