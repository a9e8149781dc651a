//! `palisade mcp-config`: what an MCP client has to be told to start `palisade serve`.

mod clients;
mod merge;

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

pub(crate) use clients::Client;

use crate::{
    args::{McpConfigArguments, PolicyArguments, SecretArguments, ServeArguments},
    config::{ConfigFile, Tools},
    database_name::Source,
    exit::{Exit, Failure},
    mcp_config::clients::Server,
    secret::Secret,
    setup::refuse_for_several,
    target::Target,
};

/// Prints the entry, or writes it.
pub(crate) fn run(arguments: &McpConfigArguments) -> Result<Exit, Failure> {
    let McpConfigArguments {
        client,
        list,
        write,
        file,
        name,
        serve,
    } = arguments;
    if *list {
        return list_clients();
    }
    let Some(client) = *client else {
        return Err(Failure::Usage(
            "no client is named\n  help: `palisade mcp-config --list` names them".to_owned(),
        ));
    };
    let server = describe_server(name, serve)?;
    let file = file.clone().or_else(|| client.file());
    if !client.hands_variables() && !server.secrets.is_empty() {
        tell(&format!(
            "note: {} hands a server no variables: start it where {} is set, or use `--password-file`",
            client.slug(),
            server.secrets.join(", ")
        ));
    }
    if *write {
        let file = file.ok_or_else(|| {
            Failure::Usage(
                "the folder of the client is not known; name the file with `--file`".to_owned(),
            )
        })?;
        return write_file(client, &file, &server);
    }
    let text = merge::merge(client, "", &server).map_err(Failure::Internal)?;
    print(&format!("{}\n", text.trim_end()))?;
    if let Some(file) = file {
        tell(&format!(
            "This belongs into {}. With `--write` it is added there, and a copy of the file is kept.",
            file.display()
        ));
    }
    Ok(Exit::Permitted)
}

fn list_clients() -> Result<Exit, Failure> {
    let mut text = String::new();
    for client in Client::all() {
        let file = client
            .file()
            .map_or_else(|| "?".to_owned(), |file| file.display().to_string());
        text.push_str(&format!("{:<15} {file}\n", client.slug()));
    }
    print(&text)?;
    Ok(Exit::Permitted)
}

/// Adds the entry to `file`. What stood in it is kept beside it first.
fn write_file(client: Client, file: &Path, server: &Server) -> Result<Exit, Failure> {
    let shown = file.display();
    let failed =
        |what: &str, error: &io::Error| Failure::Usage(format!("cannot {what} `{shown}`: {error}"));
    let before = match fs::read_to_string(file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed("read", &error)),
    };
    let after = merge::merge(client, before.as_deref().unwrap_or_default(), server).map_err(|why| {
        Failure::Usage(format!(
            "`{shown}` is left as it is: {why}\n  help: without `--write` the entry is printed, to be added by hand"
        ))
    })?;
    match before {
        Some(before) if before == after => {
            print(&format!("{shown} has it already\n"))?;
            return Ok(Exit::Permitted);
        }
        Some(before) => {
            let kept = keep(file, &before).map_err(|error| failed("copy", &error))?;
            print(&format!("kept {}\n", kept.display()))?;
        }
        None => {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder).map_err(|error| failed("make the folder of", &error))?;
            }
        }
    }
    fs::write(file, after).map_err(|error| failed("write", &error))?;
    print(&format!("wrote {shown}\n"))?;
    Ok(Exit::Permitted)
}

/// Writes `text` beside `file`, under a name that no file has.
fn keep(file: &Path, text: &str) -> io::Result<PathBuf> {
    let mut number = 1_u32;
    loop {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".before-palisade-{number}"));
        let path = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut copy) => {
                // It can hold the keys of other servers.
                copy.set_permissions(fs::metadata(file)?.permissions())?;
                copy.write_all(text.as_bytes())?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The server that `arguments` of `palisade serve` start. A client starts it in any folder, so that every path begins at the root.
fn describe_server(name: &str, arguments: &ServeArguments) -> Result<Server, Failure> {
    let ServeArguments {
        sources,
        in_memory,
        schema,
        writable,
        read_only,
        http,
        tools,
        secret,
        policies,
        audit,
    } = arguments;
    if http.is_some() {
        return Err(Failure::Usage(
            "a client starts the server that is written here, and reaches one over HTTP by its address\n  help: leave `--http` out, or see the manual's page `Over the network` for what such a client needs"
                .to_owned(),
        ));
    }
    let SecretArguments {
        password_env,
        password_file,
    } = secret;
    let PolicyArguments {
        principal,
        policies,
        config,
    } = policies;
    if sources.is_empty() && !in_memory && config.is_none() {
        return Err(Failure::Usage(
            "there is no database to serve\n  help: name a `<DATABASE>`, for example `sqlite:demo.db`, or `--config FILE` with connections, or `--in-memory`"
                .to_owned(),
        ));
    }
    let mut words = vec!["serve".to_owned()];
    for source in sources {
        words.push(describe_source(source)?);
    }
    let mut secrets: Vec<String> = password_env.iter().cloned().collect();
    if let Some(config) = config {
        let file = ConfigFile::read(config)?;
        // Written here, it would win over what the file says later, and hide the tools of what else the file sets up.
        if tools.is_none() && !file.defaults().tools.is_said() {
            tell(
                "note: the configuration does not say which tools there are, so that all are offered: `tools = \"core\"` under `[mcp]` offers those that an agent needs",
            );
        }
        secrets.extend(file.granted_variables().iter().cloned());
        let served = match sources.len() {
            0 => file.names().count(),
            named => named,
        };
        let given = [
            ("--policies", policies.is_some()),
            ("--as", principal.is_some()),
            ("--audit", audit.audit.is_some()),
            ("--audit-key", audit.audit_key.is_some()),
            ("--audit-anchors", audit.audit_anchors.is_some()),
        ];
        // The server would not start with it.
        if let (2.., Some((option, _))) = (served, given.iter().find(|(_, given)| *given)) {
            return Err(refuse_for_several(option));
        }
    }
    for (flag, given) in [
        ("--in-memory", *in_memory),
        ("--writable", *writable),
        ("--read-only", *read_only),
    ] {
        if given {
            words.push(flag.to_owned());
        }
    }
    // A model that has other servers too reads the fewer tools. A configuration says it itself.
    let tools = tools.or_else(|| config.is_none().then_some(Tools::Core));
    if let Some(tools) = tools {
        words.extend(["--tools".to_owned(), tools.word().to_owned()]);
    }
    for (option, path) in [
        ("--schema", schema),
        ("--password-file", password_file),
        ("--policies", policies),
        ("--config", config),
        ("--audit", &audit.audit),
        ("--audit-key", &audit.audit_key),
        ("--audit-anchors", &audit.audit_anchors),
    ] {
        if let Some(path) = path {
            words.extend([option.to_owned(), from_root(path)?]);
        }
    }
    for (option, value) in [
        ("--password-env", password_env.clone()),
        ("--as", principal.as_ref().map(ToString::to_string)),
    ] {
        if let Some(value) = value {
            words.extend([option.to_owned(), value]);
        }
    }
    let command = std::env::current_exe()
        .map_err(|error| Failure::Internal(format!("cannot find this program: {error}")))?;
    Ok(Server {
        name: name.to_owned(),
        command: command.display().to_string(),
        arguments: words,
        secrets,
    })
}

/// A database as a client may write it down: without a password, and not by a relative path.
fn describe_source(text: &str) -> Result<String, Failure> {
    match Source::argument(text)? {
        Source::Sqlite(path) => {
            if !path.exists() {
                // It can be made between now and the client's start.
                tell(&format!(
                    "note: there is no file `{}` yet; the server ends if it finds none",
                    path.display()
                ));
            }
            Ok(format!("sqlite:{}", from_root(&path)?))
        }
        Source::Connection(name) => Ok(format!("connection:{name}")),
        Source::Server(engine, url) => {
            let target = Target::parse(engine, &url, None::<Secret>).map_err(|problem| {
                Failure::Usage(format!("{}\n  help: {}", problem.message, problem.help))
            })?;
            match target.tls().relative() {
                Some(path) => Err(Failure::Usage(format!(
                    "`{}` means another file in another folder\n  help: write files of the URL from the root, `/…`",
                    path.display()
                ))),
                None => Ok(url),
            }
        }
    }
}

fn from_root(path: &Path) -> Result<String, Failure> {
    std::path::absolute(path)
        .map(|path| path.display().to_string())
        .map_err(|error| Failure::Usage(format!("cannot find `{}`: {error}", path.display())))
}

fn print(text: &str) -> Result<(), Failure> {
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| Failure::output(&error))
}

/// Says something beside the output, which may be piped into a file.
fn tell(text: &str) {
    // There is no reader if this fails.
    let _ = writeln!(io::stderr(), "{text}");
}
