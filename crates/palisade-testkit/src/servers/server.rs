//! What all servers have in common.

use std::{
    fmt::Debug,
    fs::{self, File},
    io::{Seek as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tempfile::TempDir;

use super::{
    account::Account,
    error::ServerError,
    process::{Process, Stop, Wait},
    template::Template,
};

/// The only address that servers listen on.
const HOST: &str = "127.0.0.1";

/// How long a server may take to answer. Half a second is usual; a loaded machine gets its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a start is tried: between finding a free port and taking it, somebody else may.
const TRIES: u32 = 5;

/// How one product is initialised, started and asked.
pub(super) trait Engine: Debug + Send + Sync {
    /// What the server says of itself: product and version.
    fn version(&self) -> &str;

    /// Accounts to run as, in order of preference, when the tests run as root.
    fn accounts(&self) -> &'static [&'static str];

    /// Statements for [`Engine::initialise`] to run, written to [`Home::script`].
    fn script(&self) -> Option<&'static str>;

    /// Whether a data folder that it makes may be copied for the next server.
    fn has_template(&self) -> bool {
        true
    }

    /// Makes a data folder in `home/data`.
    fn initialise(&self, home: &Home) -> Command;

    /// Runs the server over `home/data`.
    fn serve(&self, home: &Home, port: u16) -> Command;

    /// How it is told to end at once.
    fn stop(&self) -> Stop;

    /// Whether the server has noted that it takes connections. Read from its own folder: another
    /// server's answer on the same port would not do.
    fn ready(&self, home: &Home) -> bool;

    /// The command-line client as `user`, reading a script from standard input. It stops at the
    /// first error or goes on, and prints rows by line and cells by tab.
    fn client(&self, port: u16, user: &str, database: &str, errors: OnError) -> Command;

    /// Which lines of the client's standard error are failures of statements.
    fn is_failure(&self, line: &str) -> bool;

    /// The scheme of connection URLs.
    fn scheme(&self) -> &'static str;

    /// Who may do everything.
    fn superuser(&self) -> &'static str;

    /// The database that is there from the start and serves to make others.
    fn first_database(&self) -> &'static str;

    /// `name` as an identifier in a statement.
    fn quote(&self, name: &str) -> String;
}

/// What the client does after a statement that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnError {
    Stop,
    GoOn,
}

/// The folder of one server.
#[derive(Debug)]
pub(super) struct Home {
    folder: TempDir,
}

impl Home {
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub(super) fn script(&self) -> PathBuf {
        self.path().join("init.sql")
    }

    fn log_path(&self) -> PathBuf {
        self.path().join("log")
    }

    pub(super) fn log(&self) -> String {
        match fs::read(self.log_path()) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(why) => format!("(no log: {why})"),
        }
    }
}

/// SQL to load: text, or a file of it.
#[derive(Debug, Clone, Copy)]
pub enum Script<'a> {
    /// The statements themselves.
    Text(&'a str),
    /// A file that holds them; it is streamed.
    File(&'a Path),
}

impl<'a> From<&'a str> for Script<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Script<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a Path> for Script<'a> {
    fn from(file: &'a Path) -> Self {
        Self::File(file)
    }
}

impl<'a> From<&'a PathBuf> for Script<'a> {
    fn from(file: &'a PathBuf) -> Self {
        Self::File(file)
    }
}

/// What came of a script: every statement was tried, and these failed.
#[derive(Debug)]
#[must_use = "statements that failed are only noted here"]
pub struct Loaded {
    /// What the server said to each statement that failed, in order.
    pub failures: Vec<String>,
}

impl Loaded {
    /// # Errors
    /// If a statement failed.
    pub fn clean(self) -> Result<(), ServerError> {
        if self.failures.is_empty() {
            Ok(())
        } else {
            Err(ServerError::Load(self.failures))
        }
    }
}

/// A running server. [`PostgresServer`](super::PostgresServer) and its kin lead here, so that a test
/// over several products takes `&Server`.
#[derive(Debug)]
pub struct Server {
    // Dropped in this order: the process ends before its folder goes.
    process: Process,
    home: Home,
    engine: Box<dyn Engine>,
    port: u16,
}

impl Server {
    pub(super) fn start(engine: Box<dyn Engine>) -> Result<Self, ServerError> {
        let account = Account::choose(engine.accounts())?;
        let home = prepare(engine.as_ref(), account)?;
        let (process, port) = launch(engine.as_ref(), account, &home)?;
        let server = Self {
            process,
            home,
            engine,
            port,
        };
        server.query(server.engine.first_database(), "SELECT 1;")?;
        Ok(server)
    }

    /// The address: always 127.0.0.1.
    #[must_use]
    pub fn host(&self) -> &'static str {
        HOST
    }

    /// The TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The account that may do everything, without a password.
    #[must_use]
    pub fn superuser(&self) -> &'static str {
        self.engine.superuser()
    }

    /// Product and version in the server's own words.
    #[must_use]
    pub fn version(&self) -> &str {
        self.engine.version()
    }

    /// The id of the server's (first) process, which is that of its process group.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Whether its process has ended, by itself or because it was asked to.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// The server's folder, gone when the server is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.home.path()
    }

    /// What the server has written to its log.
    #[must_use]
    pub fn log(&self) -> String {
        self.home.log()
    }

    /// The connection URL of `database` as the superuser.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.url_as(self.superuser(), database)
    }

    /// The connection URL of `database` as `user`, who has no password.
    #[must_use]
    pub fn url_as(&self, user: &str, database: &str) -> String {
        let (scheme, port) = (self.engine.scheme(), self.port);
        let (user, database) = (percent(user), percent(database));
        format!("{scheme}://{user}@{HOST}:{port}/{database}")
    }

    /// Makes an empty database.
    ///
    /// # Errors
    /// If it exists or the server refuses.
    pub fn create_database(&self, name: &str) -> Result<(), ServerError> {
        let name = self.engine.quote(name);
        self.query(
            self.engine.first_database(),
            &format!("CREATE DATABASE {name};"),
        )
        .map(drop)
    }

    /// Makes an empty database with a name that no other has: `label` and a number.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn fresh_database(&self, label: &str) -> Result<String, ServerError> {
        static COUNTER: AtomicU32 = AtomicU32::new(1);
        let name = format!("{label}_{}", COUNTER.fetch_add(1, Ordering::Relaxed));
        self.create_database(&name)?;
        Ok(name)
    }

    /// The command-line client as `user`, reading statements from standard input and stopping at the
    /// first error: for what should still run while the test looks on.
    #[must_use]
    pub fn client(&self, user: &str, database: &str) -> Command {
        self.engine.client(self.port, user, database, OnError::Stop)
    }

    /// Runs every statement of a script through the command-line client, going on after errors: it
    /// may hold COPY with its data, and statements that only some versions know.
    ///
    /// # Errors
    /// If the client cannot be run, cannot connect, or cannot read the file.
    pub fn load<'a>(
        &self,
        database: &str,
        script: impl Into<Script<'a>>,
    ) -> Result<Loaded, ServerError> {
        let input = match script.into() {
            Script::Text(text) => file_of(text)?,
            Script::File(path) => {
                File::open(path).map_err(|why| ServerError::system("open", path, &why))?
            }
        };
        let mut command = self
            .engine
            .client(self.port, self.superuser(), database, OnError::GoOn);
        let output = run(&mut command, input)?;
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        let failures: Vec<String> = complaints
            .lines()
            .filter(|line| self.engine.is_failure(line))
            .map(str::to_owned)
            .collect();
        // With failures to show for it, a status that is not zero says nothing new.
        if !output.status.success() && failures.is_empty() {
            return Err(command_error(
                &command,
                output.status.to_string(),
                complaints,
            ));
        }
        Ok(Loaded { failures })
    }

    /// Runs statements as the superuser through the command-line client, for setting up and for
    /// looking at the server: rows by line, cells by tab, without the last line's end. Stops at the
    /// first error.
    ///
    /// # Errors
    /// If a statement fails; the text is the server's.
    pub fn query(&self, database: &str, sql: &str) -> Result<String, ServerError> {
        self.query_as(self.superuser(), database, sql)
    }

    /// As [`Server::query`], as another account.
    ///
    /// # Errors
    /// If a statement fails; the text is the server's.
    pub fn query_as(&self, user: &str, database: &str, sql: &str) -> Result<String, ServerError> {
        let mut command = self.engine.client(self.port, user, database, OnError::Stop);
        let output = run(&mut command, file_of(sql)?)?;
        if !output.status.success() {
            let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(command_error(
                &command,
                output.status.to_string(),
                complaints,
            ));
        }
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }
}

/// A folder with initialised data, from the template or, the first time, made into one.
fn prepare(engine: &dyn Engine, account: Account) -> Result<Home, ServerError> {
    // Not TMPDIR: that may be closed to the account, and the path of a Unix socket has 107 bytes.
    let above = Path::new("/tmp");
    let folder = tempfile::Builder::new()
        .prefix("palisade-server-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(above)
        .map_err(|why| ServerError::system("make a folder in", above, &why))?;
    account.own(folder.path())?;
    let home = Home { folder };
    let template = engine
        .has_template()
        .then(|| Template::new(engine.version(), account.uid()));
    if let Some(template) = &template
        && template.copy_to(&home.data())?
    {
        return Ok(home);
    }
    if let Some(script) = engine.script() {
        fs::write(home.script(), script)
            .map_err(|why| ServerError::system("write", &home.script(), &why))?;
    }
    let mut command = engine.initialise(&home);
    account.apply(&mut command);
    let output = command
        .current_dir(home.path())
        .stdin(Stdio::null())
        .output()
        .map_err(|why| ServerError::system("start", Path::new(command.get_program()), &why))?;
    if !output.status.success() {
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        return Err(command_error(&command, output.status.to_string(), text));
    }
    if let Some(template) = template {
        template.keep(&home.data());
    }
    Ok(home)
}

fn launch(
    engine: &dyn Engine,
    account: Account,
    home: &Home,
) -> Result<(Process, u16), ServerError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let port = free_port()?;
        let log = File::create(home.log_path())
            .map_err(|why| ServerError::system("create", &home.log_path(), &why))?;
        let errors = log
            .try_clone()
            .map_err(|why| ServerError::system("open", &home.log_path(), &why))?;
        let mut command = engine.serve(home, port);
        account.apply(&mut command);
        command.current_dir(home.path()).stdout(log).stderr(errors);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut process = Process::start(command, engine.stop(), home.path())?;
        match process.wait_until(PATIENCE, || engine.ready(home)) {
            Wait::Ready => return Ok((process, port)),
            Wait::Late => {
                return Err(ServerError::Silent {
                    name: engine.version().to_owned(),
                    after: PATIENCE,
                    log: home.log(),
                });
            }
            Wait::Ended(status) if tries >= TRIES => {
                return Err(ServerError::Program {
                    program,
                    status: status.to_string(),
                    output: home.log(),
                });
            }
            // Most likely the port.
            Wait::Ended(_) => {}
        }
    }
}

/// A port that nothing listens at.
pub(super) fn free_port() -> Result<u16, ServerError> {
    TcpListener::bind((HOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|why| ServerError::system("find a free port of", Path::new(HOST), &why))
}

/// A nameless file with this text: a pipe would need a thread to fill it.
fn file_of(text: &str) -> Result<File, ServerError> {
    tempfile::tempfile()
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.rewind()?;
            Ok(file)
        })
        .map_err(|why| ServerError::system("write", Path::new("a temporary file"), &why))
}

fn run(command: &mut Command, input: File) -> Result<std::process::Output, ServerError> {
    command
        .stdin(input)
        .output()
        .map_err(|why| ServerError::system("start", Path::new(command.get_program()), &why))
}

fn command_error(command: &Command, status: String, output: String) -> ServerError {
    ServerError::Program {
        program: command.get_program().to_string_lossy().into_owned(),
        status,
        output,
    }
}

/// Percent-encodes what has a meaning in a URL.
fn percent(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
