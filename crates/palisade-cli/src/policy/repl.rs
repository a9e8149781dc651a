//! `palisade policy repl`: statements one after another, asked as a principal.

use std::{
    collections::BTreeMap,
    io::{BufRead, IsTerminal as _, Write as _},
    sync::Arc,
};

use palisade::{
    code::Code,
    error::Error,
    firewall::Firewall,
    policy::PolicySources,
    session::{Principal, Session, Transport},
    value::{Params, Value},
};

use crate::{
    answer::{Answer, Answerer as _, Request},
    args::{Format, policy::ReplArguments},
    batch::{Line, read_line},
    database::Access,
    database_name::{CatalogSource, Source},
    exit::{Exit, Failure},
    explain,
    policies::Policies,
    principal_name,
    query::Gate,
    setup::Setup,
    standing,
    statements::{max_input_bytes, print, read_params},
    stdout,
};

const HELP: &str = "\
A statement ends with `;` at the end of a line, or with an empty line.
  :as PRINCIPAL      ask as another, for example :as Agent::\"support-bot\"
  :params JSON       the parameters of the statements that follow
  :run NAME JSON     run a template, for example :run tickets-of {\"customer\": 1}
  :explain           tell how the last statement was decided
  :explain STATEMENT tell how this one is
  :reload            read the policies again
  :help              this text
  :quit              leave
";

/// Runs the command. What is refused does not end it.
pub(crate) fn run(arguments: &ReplArguments) -> Result<Exit, Failure> {
    let (ground, setup, sql) = open(arguments)?;
    standing::tell(&standing::describe(&ground.firewall(), &setup.principal)?);
    let mut repl = Repl {
        session: session(&setup.principal),
        params: read_params(arguments.params.as_deref())?,
        max_bytes: max_input_bytes(&setup.limits),
        format: arguments.format,
        last: None,
        policies: setup.policies,
        ground,
    };
    match sql {
        Some(line) if line.starts_with(':') => match repl.obey(line.trim())? {
            Next::Go => {}
            Next::Leave => return Ok(Exit::Permitted),
        },
        Some(sql) => repl.ask(sql)?,
        None => {}
    }
    repl.read(&mut std::io::stdin().lock())?;
    Ok(Exit::Permitted)
}

/// What statements are asked of.
enum Ground {
    /// A database: they run.
    Rows(Box<Gate>),
    /// A schema alone: they are decided.
    Decisions(Arc<Firewall>),
}

/// The ground, how it is set up, and the first statement.
fn open(arguments: &ReplArguments) -> Result<(Ground, Setup, Option<&str>), Failure> {
    let usage = |why: &str| {
        Failure::Usage(format!(
            "{why}\n  help: palisade policy repl sqlite:FILE --policies DIR\n        \
             palisade policy repl --init DIR/tests/NAME.sql --policies DIR"
        ))
    };
    let (policies, secret) = (&arguments.policies, &arguments.secret);
    let mut words = arguments.words.iter().map(String::as_str);
    let gate = |setup: Setup, database, access| {
        let gate = Gate::open(&setup, &database, access, setup.limits.clone())?;
        Ok::<_, Failure>((Ground::Rows(Box::new(gate)), setup))
    };
    let (ground, setup) = match (&arguments.init, &arguments.catalog) {
        (Some(script), _) => {
            let (setup, database) = Setup::in_memory(Some(script), secret, policies, None)?;
            gate(setup, database, Access::Write)?
        }
        (None, Some(schema)) => {
            let source = CatalogSource::argument(schema)?;
            let (setup, catalog) =
                Setup::over_catalog(source, arguments.dialect, secret, policies)?;
            let firewall = setup.firewall(catalog, Access::Write)?;
            (Ground::Decisions(Arc::new(firewall)), setup)
        }
        (None, None) => {
            let word = words.next();
            let word = word.ok_or_else(|| usage("there is no database"))?;
            let source = Source::parse(word).map_err(|why| usage(&why))?;
            let (setup, database) = Setup::over(source, secret, policies, None)?;
            gate(setup.read_only(), database, Access::Read)?
        }
    };
    let sql = words.next();
    match words.next() {
        None => Ok((ground, setup, sql)),
        Some(_) => Err(usage("there is more than one statement")),
    }
}

impl Ground {
    fn firewall(&self) -> Arc<Firewall> {
        match self {
            Self::Rows(gate) => gate.firewall(),
            Self::Decisions(firewall) => Arc::clone(firewall),
        }
    }

    fn answer(&self, request: &Request) -> Answer {
        match self {
            Self::Rows(gate) => gate.answer(request),
            Self::Decisions(firewall) => Answer::decided(firewall.check(
                &request.sql,
                &request.params,
                &crate::host::now(&request.session),
            )),
        }
    }

    /// The answer of a template with its arguments.
    fn run(&self, name: &str, arguments: &BTreeMap<String, Value>, session: &Session) -> Answer {
        match self {
            Self::Rows(gate) => gate.run(name, arguments, session),
            Self::Decisions(firewall) => Answer::decided(firewall.check_template(
                name,
                arguments,
                &crate::host::now(session),
            )),
        }
    }

    /// Decides by these policies from now on.
    fn reload(&mut self, sources: &PolicySources) -> Result<(), Error> {
        match self {
            Self::Rows(gate) => gate.reload(sources),
            Self::Decisions(firewall) => {
                let catalog = firewall.catalog().clone();
                *firewall = Arc::new(firewall.renewed(catalog, sources.clone())?);
                Ok(())
            }
        }
    }
}

fn session(principal: &Principal) -> Session {
    Session::new(principal.clone()).over(Transport::Cli)
}

/// What is to be done after a line.
enum Next {
    Go,
    Leave,
}

struct Repl {
    ground: Ground,
    policies: Policies,
    session: Session,
    params: Params,
    format: Format,
    /// Bytes of a statement that are kept.
    max_bytes: usize,
    /// The last statement, or that of the last template.
    last: Option<Request>,
}

impl Repl {
    /// Answers what `input` holds, to its end.
    fn read(&mut self, input: &mut dyn BufRead) -> Result<(), Failure> {
        let is_watched = std::io::stdin().is_terminal();
        if is_watched {
            stdout::text(HELP)?;
        }
        let mut statement = String::new();
        loop {
            if is_watched {
                let waits = if statement.is_empty() {
                    "palisade> "
                } else {
                    "     ...> "
                };
                stdout::text(waits)?;
            }
            let line = read_line(input, self.max_bytes)
                .map_err(|error| Failure::Usage(format!("cannot read the statement: {error}")))?;
            let Some(line) = line else {
                break;
            };
            let is_whole = match line {
                Line::Blank => true,
                Line::TooLong => {
                    statement.clear();
                    self.refuse_long()?;
                    continue;
                }
                Line::Text(bytes) => match String::from_utf8(bytes) {
                    Ok(text) if statement.is_empty() && text.trim_start().starts_with(':') => {
                        match self.obey(text.trim())? {
                            Next::Go => continue,
                            Next::Leave => return Ok(()),
                        }
                    }
                    Ok(text) => {
                        statement.push_str(&text);
                        statement.push('\n');
                        text.trim_end().ends_with(';')
                    }
                    Err(_) => {
                        statement.clear();
                        self.tell("error: the line is not UTF-8; write it in UTF-8")?;
                        continue;
                    }
                },
            };
            if statement.len() > self.max_bytes {
                statement.clear();
                self.refuse_long()?;
            }
            if is_whole {
                self.ask(&std::mem::take(&mut statement))?;
            }
        }
        if is_watched {
            stdout::text("\n")?;
        }
        self.ask(&statement)
    }

    /// Asks a statement, and prints its answer; nothing is asked where there is none.
    fn ask(&mut self, sql: &str) -> Result<(), Failure> {
        let sql = sql.trim();
        if sql.is_empty() {
            return Ok(());
        }
        let request = self.request(sql);
        let answer = self.ground.answer(&request);
        self.last = Some(request);
        print(&answer, self.format)
    }

    /// Runs the template that `asked` names first, with the arguments that follow.
    fn run(&mut self, asked: &str) -> Result<(), Failure> {
        let (name, arguments) = asked.split_once(char::is_whitespace).unwrap_or((asked, ""));
        let arguments = match arguments.trim() {
            "" => Params::None,
            json => match read_params(Some(json)) {
                Ok(arguments) => arguments,
                Err(failure) => return self.tell(&failure.to_string()),
            },
        };
        let arguments = match arguments {
            Params::None => BTreeMap::new(),
            Params::Named(arguments) => arguments,
            Params::Positional(_) => {
                let form = "error: the arguments have names; write them as `{\"customer\": 1}`";
                return self.tell(form);
            }
        };
        let answer = self.ground.run(name, &arguments, &self.session);
        let firewall = self.ground.firewall();
        let call = firewall.instantiate(name, &arguments, &self.session);
        // Of a template that is not there, there is nothing to explain.
        self.last = call.ok().map(|call| Request {
            sql: call.sql().to_owned(),
            params: call.params().clone(),
            session: call.session().clone(),
        });
        print(&answer, self.format)
    }

    fn request(&self, sql: &str) -> Request {
        Request {
            sql: sql.to_owned(),
            params: self.params.clone(),
            session: self.session.clone(),
        }
    }

    fn refuse_long(&self) -> Result<(), Failure> {
        let message = format!("the statement is longer than {} bytes", self.max_bytes);
        print(&Answer::invalid(Code::LimitQuerySize, message), self.format)
    }

    /// Does what a line that begins with `:` says.
    fn obey(&mut self, line: &str) -> Result<Next, Failure> {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (command, rest) {
            (":quit" | ":q", "") => return Ok(Next::Leave),
            (":help", "") => self.tell(HELP.trim_end())?,
            (":reload", "") => self.reload()?,
            (":run", "") => {
                self.tell("error: which template? `:run NAME {\"PARAMETER\": VALUE}`")?
            }
            (":run", asked) => self.run(asked)?,
            (":explain", "") => match &self.last {
                Some(request) => self.explain(request)?,
                None => self.tell("error: there is no statement yet; ask one first")?,
            },
            (":explain", sql) => {
                let request = self.request(sql);
                self.explain(&request)?;
                self.last = Some(request);
            }
            (":as", principal) => self.ask_as(principal)?,
            (":params", "") => self.params = Params::None,
            (":params", json) => match read_params(Some(json)) {
                Ok(params) => self.params = params,
                Err(failure) => self.tell(&failure.to_string())?,
            },
            (other, _) => self.tell(&format!(
                "error: there is no command `{other}` of this form; `:help` lists them"
            ))?,
        }
        Ok(Next::Go)
    }

    fn explain(&self, request: &Request) -> Result<(), Failure> {
        let answer = explain::explain(&self.ground.firewall(), request);
        print(&answer, self.format)
    }

    fn ask_as(&mut self, principal: &str) -> Result<(), Failure> {
        let principal = match principal_name::parse(principal) {
            Ok(principal) => principal,
            Err(why) => return self.tell(&format!("error: {why}")),
        };
        match standing::describe(&self.ground.firewall(), &principal) {
            Ok(notes) => standing::tell(&notes),
            Err(failure) => return self.tell(&failure.to_string()),
        }
        self.session = session(&principal);
        self.tell(&format!("asking as {principal}"))
    }

    /// Reads the policies again. Those in force stay where they do not load.
    fn reload(&mut self) -> Result<(), Failure> {
        let Some(folder) = self.policies.folder().map(ToOwned::to_owned) else {
            return self
                .tell("error: the starter policies are built in; name a folder, `--policies DIR`");
        };
        let loaded = Policies::read(&folder).and_then(|policies| {
            match self.ground.reload(&policies.sources) {
                Ok(()) => Ok(policies),
                Err(error) => Err(policies.failure(&error)),
            }
        });
        match loaded {
            Ok(policies) => {
                self.policies = policies;
                self.tell(&format!("policies of {} loaded", folder.display()))
            }
            Err(failure) => self.tell(&format!("{failure}\nthe policies in force stay")),
        }
    }

    /// Says something that is no answer: beside the answers where these are for programs.
    fn tell(&self, text: &str) -> Result<(), Failure> {
        match self.format {
            Format::Text => stdout::text(&format!("{text}\n")),
            Format::Json => {
                // There is no reader if this fails.
                let _ = writeln!(std::io::stderr(), "{text}");
                Ok(())
            }
        }
    }
}
