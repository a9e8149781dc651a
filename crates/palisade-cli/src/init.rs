//! `palisade init`: a working folder for the policies of a database.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;
use palisade::{
    catalog::{Catalog, RelationKind},
    dialect::Dialect,
    firewall::{Firewall, ShownColumn},
    policy::PolicySet,
    session::{Principal, Session},
    value::Params,
};
use palisade_corpus::{PolicyTests, Report, TextForm};
use palisade_host::PolicyFolder;
use serde_json::json;

use crate::{
    args::{Format, PolicyArguments, SecretArguments, policy::InitArguments},
    database::{Access, Database},
    database_name::{CatalogSource, stem},
    exit::{Exit, Failure},
    file_schemas::{self, SchemaOf},
    human,
    init_account::StrongAccount,
    init_proposals::{self, Proposal, quote_name},
    init_refresh,
    policies::{self, STARTER},
    policy::test::{not_loaded, not_run, replace},
    progress::ProgressLine,
    setup::{Setup, require_dialect},
    stdout, unreadable,
};

const CONFIGURATION_HEAD: &str = "\
# `palisade serve --config palisade.toml` serves it to an MCP client.
# An editor that starts `palisade lsp` here takes policies and tables from it.
policies = \"policies\"
";

/// Tables that the first tests read.
const FIRST: usize = 40;

/// Runs the command.
pub(crate) fn run(arguments: &InitArguments) -> Result<Exit, Failure> {
    if arguments.refresh {
        return init_refresh::run(arguments);
    }
    let (setup, origin, catalog) = find_origin(arguments)?;
    let starter = setup.firewall(catalog.clone(), Access::Write)?;
    let place = Place::new(&arguments.dir, &origin.name(), catalog.dialect());
    let known = place.known_columns();
    let sample = match (arguments.sample, &origin) {
        (true, Origin::Database(database)) => Some(init_proposals::sample(database)?),
        (true, Origin::Schema(path)) => {
            return Err(Failure::Usage(format!(
                "`{}` holds no rows to look at\n  help: leave `--sample` out, or name the database itself",
                path.display()
            )));
        }
        (false, _) => None,
    };
    // What the folder says by now; where it has none, or none that loads, what the starter policies say.
    let is_first = !place.classification().exists();
    let current = PolicyFolder::read(&place.policies)
        .ok()
        .and_then(|folder| starter.renewed(catalog.clone(), folder.sources).ok());
    let plain = shown_columns(current.as_ref().unwrap_or(&starter))?
        .into_iter()
        .filter(|column| column.tags.is_empty())
        .map(|column| format!("{}.{}", column.table, column.column))
        // By its values, a column is looked at anew.
        .filter(|column| arguments.sample || !known.contains(column))
        .collect();
    let proposals = init_proposals::propose(&catalog, &plain, sample.as_ref());
    let entries: String = proposals.iter().map(Proposal::entry).collect();
    let mut sources = starter.sources().clone();
    let classification = sources.classification.unwrap_or_default() + &entries;
    sources.classification = Some(classification);
    let firewall = match is_first {
        true => (starter.renewed(catalog, sources))
            .map_err(|error| Failure::Internal(error.to_string()))?,
        false => starter,
    };
    let strong = match &origin {
        Origin::Database(Database::Server(target)) => StrongAccount::find(&setup, target),
        Origin::Database(Database::Sqlite(_) | Database::Memory(_)) | Origin::Schema(_) => None,
    };
    let mut written = Written::default();
    let report = place
        .files(&origin, &arguments.secret, &firewall)
        .and_then(|files| {
            for (path, text) in files {
                written.write(&path, &text)?;
            }
            place.conclude(&mut written)
        });
    let report = match report {
        Ok(report) => report,
        Err(failure) => {
            written.take_back();
            return Err(failure);
        }
    };
    let exit = match report.is_passed() {
        true => Exit::Permitted,
        false => Exit::Refused,
    };
    let found = Found {
        columns: match (is_first, &current) {
            (true, _) => shown_columns(&firewall)?,
            (false, Some(current)) => columns_of_all(current)?,
            // By its own policies, which do not load over the database as it is, no column is shown in any way.
            (false, None) => (shown_columns(&firewall)?.into_iter())
                .map(|column| with_level(column, "undecided"))
                .collect(),
        },
        known,
        proposals,
        not_sampled: sample.map_or_else(Vec::new, |sample| sample.not_sampled),
        is_first,
    };
    let strong = strong.filter(|_| place.names(&origin));
    stdout::text(&match arguments.format {
        Format::Json => found.json(&written, &report, strong.as_ref().map(|one| (one, &place)))?,
        Format::Text => {
            let mut out = String::new();
            for (what, path) in &written.files {
                let _ = writeln!(out, "{what:5} {}", path.display());
            }
            out.push_str(&found.explain(&place.snapshot));
            if let Some(told) = unreadable::describe(firewall.catalog()) {
                out.push_str(&human::wrap(&format!("note: {told}"), 0, 6));
            }
            out.push_str(&place.tell(&report, strong.as_ref()));
            out
        }
    })?;
    Ok(exit)
}

/// What the folder is made of.
enum Origin {
    Database(Database),
    /// A file of `CREATE` statements, or a catalog that an earlier run wrote.
    Schema(PathBuf),
}

impl Origin {
    fn name(&self) -> String {
        match self {
            Self::Database(database) => database.name(),
            // `shop.postgres.json` is of `shop`.
            Self::Schema(path) => {
                let name = stem(path);
                let dialect = name
                    .rsplit_once('.')
                    .filter(|(_, last)| Dialect::from_name(last).is_some());
                dialect.map_or(name.clone(), |(name, _)| name.to_owned())
            }
        }
    }
}

/// The database or the file that the command line names, with its catalog.
fn find_origin(arguments: &InitArguments) -> Result<(Setup, Origin, Catalog), Failure> {
    match CatalogSource::argument(&arguments.source)? {
        CatalogSource::Schema(path) => {
            let nothing = PolicyArguments {
                principal: None,
                policies: None,
                config: None,
            };
            let source = CatalogSource::Schema(path.clone());
            let (setup, catalog) =
                Setup::over_catalog(source, arguments.dialect, &arguments.secret, &nothing)?;
            Ok((setup, Origin::Schema(path), catalog))
        }
        CatalogSource::Database(_) => {
            let (setup, database) = Setup::without_configuration(
                &arguments.source,
                &arguments.secret,
                None,
                "palisade init sqlite:demo.db",
            )?;
            let catalog = database.catalog()?;
            if let Some(asked) = arguments.dialect {
                require_dialect(asked, database.dialect())?;
            }
            Ok((setup, Origin::Database(database), catalog))
        }
    }
}

/// The name of a database as files and connections have it.
pub(crate) fn plain_name(name: &str) -> String {
    let plain: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    match plain.trim_matches('-') {
        "" => "database".to_owned(),
        name => name.to_owned(),
    }
}

/// Where the catalog of a database stands in the tests of a policy folder.
pub(crate) fn snapshot_file(policies: &Path, name: &str, dialect: Dialect) -> PathBuf {
    let file = match dialect {
        Dialect::Sqlite => format!("{name}.json"),
        dialect @ (Dialect::Postgres | Dialect::Mysql) => format!("{name}.{dialect}.json"),
    };
    policies.join("tests").join(file)
}

/// The columns of a catalog, each with its table.
pub(crate) fn list_columns(catalog: &Catalog) -> BTreeSet<String> {
    let relations = catalog.relations().iter();
    let columns = relations.flat_map(|relation| {
        let columns = relation.column_ids();
        columns.map(|(_, column)| format!("{}.{}", relation.uid, column.name))
    });
    columns.collect()
}

/// What anybody is shown of each column.
fn shown_columns(firewall: &Firewall) -> Result<Vec<ShownColumn>, Failure> {
    let session = Session::new(Principal::new("Agent", "someone"));
    firewall
        .shown_columns(&session)
        .map_err(|refused| Failure::Internal(refused.to_string()))
}

/// Each column as any principal sees it by the policies of `firewall`: `plain or mask null` where that is not the same for all. Whoever
/// does not see the table does not count.
fn columns_of_all(firewall: &Firewall) -> Result<Vec<ShownColumn>, Failure> {
    let classes = firewall
        .access_classes(&firewall.known_principals())
        .map_err(|error| Failure::Internal(error.to_string()))?;
    let mut seen: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let cells = classes.iter().flat_map(|class| &class.cells);
    for cell in cells.filter(|cell| cell.action == "read") {
        seen.entry(cell.resource()).or_default().insert(&cell.value);
    }
    let columns = shown_columns(firewall)?.into_iter().map(|column| {
        let levels = seen.get(&format!("{}.{}", column.table, column.column));
        let levels: Vec<&str> = levels.into_iter().flatten().copied().collect();
        match levels.as_slice() {
            [] => with_level(column, "never"),
            [_, ..] => with_level(column, &levels.join(" or ")),
        }
    });
    Ok(columns.collect())
}

fn with_level(column: ShownColumn, level: &str) -> ShownColumn {
    ShownColumn {
        level: level.to_owned(),
        ..column
    }
}

/// What became of each file.
#[derive(Default)]
struct Written {
    /// `wrote`, `same` or `kept`, and the file.
    files: Vec<(&'static str, PathBuf)>,
    /// Folders that were made, the outer first.
    folders: Vec<PathBuf>,
    /// Files that were written and are not told of.
    others: Vec<PathBuf>,
}

impl Written {
    /// Writes a file that is not there, and leaves any other as it is.
    fn write(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        let what = match std::fs::read_to_string(path) {
            Ok(found) if found == text => "same",
            Ok(_) => "kept",
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.make_folder(path)?;
                replace(path, text)?;
                "wrote"
            }
            Err(error) => {
                let shown = path.display();
                return Err(Failure::Usage(format!("cannot read `{shown}`: {error}")));
            }
        };
        self.files.push((what, path.to_owned()));
        Ok(())
    }

    fn make_folder(&mut self, path: &Path) -> Result<(), Failure> {
        let Some(folder) = path.parent() else {
            return Ok(());
        };
        let missing = folder
            .ancestors()
            .take_while(|one| !one.as_os_str().is_empty() && !one.exists());
        let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::Usage(format!("cannot make `{}`: {error}", folder.display()))
        })?;
        self.folders.extend(missing.into_iter().rev());
        Ok(())
    }

    /// Takes away what was written, so that nothing half-made stays.
    fn take_back(&self) {
        let files = self.files.iter().filter(|(what, _)| *what == "wrote");
        for path in files.map(|(_, path)| path).chain(&self.others) {
            // What cannot be taken away is told by the failure that led here.
            let _ = std::fs::remove_file(path);
        }
        for folder in self.folders.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Where everything goes.
struct Place {
    dir: PathBuf,
    policies: PathBuf,
    /// The snapshot of the catalog.
    snapshot: PathBuf,
    name: String,
}

impl Place {
    fn new(dir: &Path, name: &str, dialect: Dialect) -> Self {
        let name = plain_name(name);
        let policies = dir.join("policies");
        Self {
            snapshot: snapshot_file(&policies, &name, dialect),
            dir: dir.to_owned(),
            policies,
            name,
        }
    }

    /// The columns of the snapshot that an earlier run wrote.
    fn known_columns(&self) -> BTreeSet<String> {
        let text = std::fs::read_to_string(&self.snapshot).unwrap_or_default();
        let catalog = Catalog::from_snapshot(&text).ok();
        catalog.as_ref().map(list_columns).unwrap_or_default()
    }

    /// The files, each with its text.
    fn files(
        &self,
        origin: &Origin,
        secret: &SecretArguments,
        firewall: &Firewall,
    ) -> Result<Vec<(PathBuf, String)>, Failure> {
        let mut files = vec![(
            self.configuration_file(),
            match origin {
                Origin::Database(database) => self.configuration(database, secret)?,
                Origin::Schema(_) => {
                    self.configuration_without_database(firewall.catalog().dialect())
                }
            },
        )];
        let classification = firewall.sources().classification.as_deref();
        for (name, text) in STARTER.iter().filter(|(name, _)| !policies::is_test(name)) {
            let text = match *name {
                "classification.toml" => classification.unwrap_or(text),
                _ => text,
            };
            files.push((self.policies.join(name), text.to_owned()));
        }
        let catalog = firewall.catalog();
        files.push((self.snapshot.clone(), catalog.to_snapshot()));
        files.push((
            self.policies.join("tests").join("first.toml"),
            first_tests(firewall)?,
        ));
        // For the language server of Cedar.
        files.push((
            self.dir.join("schema.cedarschema"),
            PolicySet::schema_text(catalog),
        ));
        // For that of TOML.
        files.push((self.dir.join(".taplo.toml"), file_schemas::taplo()));
        for of in SchemaOf::value_variants() {
            let path = self.dir.join(file_schemas::FOLDER).join(of.file());
            files.push((path, of.text().to_owned()));
        }
        Ok(files)
    }

    /// A configuration whose connection is still to be written.
    fn configuration_without_database(&self, dialect: Dialect) -> String {
        let url = match dialect {
            Dialect::Sqlite => format!("sqlite:{}.db", self.name),
            Dialect::Postgres => format!("postgres://palisade_reader@localhost:5432/{}", self.name),
            Dialect::Mysql => format!("mysql://palisade_reader@localhost:3306/{}", self.name),
        };
        let grants = match dialect {
            Dialect::Sqlite => "",
            Dialect::Postgres => "# [grants]\n# hosts = [\"localhost:5432\"]\n#\n",
            Dialect::Mysql => "# [grants]\n# hosts = [\"localhost:3306\"]\n#\n",
        };
        format!(
            "{CONFIGURATION_HEAD}\n# Name the database here, and it can be served:\n#\n{grants}# [connections.{}]\n# url = {}\n",
            self.name,
            toml::Value::from(url)
        )
    }

    fn configuration(
        &self,
        database: &Database,
        secret: &SecretArguments,
    ) -> Result<String, Failure> {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let (url, hosts) = match database {
            Database::Sqlite(path) => {
                let path = if self.dir == Path::new(".") {
                    path.clone()
                } else {
                    let shown = path.display();
                    path.canonicalize()
                        .map_err(|error| Failure::Usage(format!("`{shown}`: {error}")))?
                };
                (format!("sqlite:{}", path.display()), Vec::new())
            }
            Database::Memory(_) => (String::new(), Vec::new()),
            Database::Server(target) => (target.url().to_owned(), target.endpoints().to_vec()),
        };
        let mut out = CONFIGURATION_HEAD.to_owned();
        let env = secret.password_env.as_deref();
        let file = secret.password_file.as_deref();
        let file = file.map(|file| file.display().to_string());
        let grants = [
            ("hosts", hosts.iter().map(|host| quoted(host)).collect()),
            ("env", env.into_iter().map(quoted).collect::<Vec<_>>()),
            ("files", file.iter().map(|file| quoted(file)).collect()),
        ];
        if grants.iter().any(|(_, granted)| !granted.is_empty()) {
            out.push_str("\n[grants]\n");
        }
        for (key, granted) in grants.iter().filter(|(_, granted)| !granted.is_empty()) {
            let _ = writeln!(out, "{key} = [{}]", granted.join(", "));
        }
        let _ = write!(
            out,
            "\n[connections.{}]\nurl = {}\n",
            self.name,
            quoted(&url)
        );
        if let Some(env) = env {
            let _ = writeln!(out, "password_env = {}", quoted(env));
        }
        if let Some(file) = &file {
            let _ = writeln!(out, "password_file = {}", quoted(file));
        }
        Ok(out)
    }

    /// Runs the tests that are there, and writes a lock where there is none.
    fn conclude(&self, written: &mut Written) -> Result<Report, Failure> {
        let tests = PolicyTests::load(&self.policies).map_err(not_loaded)?;
        let fault = |error| not_run(&error, &self.policies);
        let line = ProgressLine::begin("testing");
        let tests = line.follow(tests);
        let lock = tests.lock().map_err(fault)?;
        if lock.old.is_none() {
            replace(&lock.path, &lock.new)?;
            written.others.push(lock.path);
        }
        tests.run().map_err(fault)
    }

    /// What became of the tests, for people.
    fn tell(&self, report: &Report, strong: Option<&StrongAccount<'_>>) -> String {
        let shown = self.policies.display();
        let configuration = self.configuration_file();
        let account =
            strong.map(|strong| strong.describe(&self.policies, &configuration, &self.name));
        let client = match &account {
            Some(_) => "Then give the database",
            None => "and give the database",
        };
        let account = account.unwrap_or_default();
        match report.is_passed() {
            true => format!(
                "\nTests in `{shown}`: {}. Edit the policies, then run\n  palisade policy test {shown}\n\
                 {account}{client} to a client (`mcp-config --list` names them):\n  \
                 palisade mcp-config claude-code --config {} --write\n",
                report.summary(),
                configuration.display()
            ),
            false => {
                let form = TextForm {
                    verbose: false,
                    folder: self.policies.clone(),
                };
                format!("\nTests in `{shown}`:\n{}", report.text(&form))
            }
        }
    }

    fn configuration_file(&self) -> PathBuf {
        self.dir.join("palisade.toml")
    }

    /// Whether the configuration names the account that `origin` was read by: it may have been written earlier, for another.
    fn names(&self, origin: &Origin) -> bool {
        let text = std::fs::read_to_string(self.configuration_file()).unwrap_or_default();
        match origin {
            Origin::Database(Database::Server(target)) => text.contains(target.url()),
            Origin::Database(Database::Sqlite(_) | Database::Memory(_)) | Origin::Schema(_) => {
                false
            }
        }
    }

    fn classification(&self) -> PathBuf {
        self.policies.join("classification.toml")
    }
}

/// A matrix of tables, whose cells are what the starter policies decide.
fn first_tests(firewall: &Firewall) -> Result<String, Failure> {
    let mut out = "# What anybody may read. Add the principals of yours, and change the cells\n\
                   # to what you want: `allow`, `mask`, `filter`, or nothing for a deny.\n\n\
                   [[matrix]]\nname = \"reads\"\n\n[matrix.principals]\nsomeone = 'Agent::\"someone\"'\n"
        .to_owned();
    let session = Session::new(Principal::new("Agent", "someone"));
    let tables = firewall
        .catalog()
        .relations()
        .iter()
        .filter(|relation| match relation.kind {
            RelationKind::Table | RelationKind::View | RelationKind::Materialized => true,
            RelationKind::Virtual | RelationKind::System => false,
        });
    for (number, relation) in (1..).zip(tables.take(FIRST)) {
        let name = quote_name(firewall.catalog().dialect(), relation);
        let sql = format!("SELECT * FROM {name}");
        let (_, trace) = firewall
            .explain(&sql, &Params::None, &session)
            .map_err(|error| Failure::Internal(error.to_string()))?;
        let mut columns = trace.relations.iter().flat_map(|r| &r.columns);
        let cell = match trace.code {
            Some(code) => code.slug(),
            None if columns.any(|column| column.level.starts_with("mask")) => "mask",
            None => "allow",
        };
        let _ = write!(
            out,
            "\n[[matrix.statement]]\nname = \"table-{number}\"\nsql = {}\ncells = {{ someone = \"{cell}\" }}\n",
            toml::Value::from(sql)
        );
    }
    Ok(out)
}

/// What is to be told of columns.
struct Found {
    columns: Vec<ShownColumn>,
    /// The columns that an earlier run knew.
    known: BTreeSet<String>,
    proposals: Vec<Proposal>,
    not_sampled: Vec<String>,
    /// Whether the proposals are written into the folder.
    is_first: bool,
}

impl Found {
    /// Why a column is not plain.
    fn why(&self, column: &ShownColumn) -> String {
        let name = format!("{}.{}", column.table, column.column);
        if column.tags.is_empty() {
            return "by the policies".to_owned();
        }
        let mut proposed = self.proposals.iter().filter(|one| one.column == name);
        match (proposed.next(), column.chosen_by.as_slice()) {
            (Some(proposal), _) if self.is_first => proposal.why.clone(),
            (_, []) => "by what it is computed from".to_owned(),
            (_, chosen) => format!("its name matches {}", chosen.join(", ")),
        }
    }

    fn is_new(&self, column: &ShownColumn) -> bool {
        let name = format!("{}.{}", column.table, column.column);
        !self.known.contains(&name)
    }

    fn json(
        &self,
        written: &Written,
        report: &Report,
        strong: Option<(&StrongAccount<'_>, &Place)>,
    ) -> Result<String, Failure> {
        let files = written.files.iter();
        let files =
            files.map(|(what, path)| json!({"file": path.display().to_string(), "state": what}));
        let columns = self.columns.iter().map(|column| {
            json!({
                "column": format!("{}.{}", column.table, column.column),
                "type": column.type_name,
                "level": column.level,
                "tags": column.tags,
                "why": (column.level != "plain").then(|| self.why(column)),
                "new": self.is_new(column),
            })
        });
        let proposals = serde_json::to_value(&self.proposals)
            .map_err(|error| Failure::Internal(error.to_string()))?;
        let told = json!({
            "files": files.collect::<Vec<_>>(),
            "columns": columns.collect::<Vec<_>>(),
            "proposals": proposals,
            "proposals_written": self.is_first,
            "not_sampled": self.not_sampled,
            "strong_account": strong.map(|(strong, place)| json!({
                "excess": strong.excess,
                "setup_sql": strong.command(&place.policies).to_string(),
            })),
            "tests": report.json(),
        });
        Ok(format!("{told}\n"))
    }

    /// What is proposed for each column that is not plain, of those that an earlier run did not know.
    fn explain(&self, snapshot: &Path) -> String {
        let new: Vec<&ShownColumn> = (self.columns.iter())
            .filter(|column| self.is_new(column))
            .collect();
        let mut out = match (new.len(), self.known.is_empty()) {
            (0, _) => "\nNo column is new.\n".to_owned(),
            (count, true) => format!("\n{count} columns.\n"),
            (1, false) => "\n1 column is new.\n".to_owned(),
            (count, false) => format!("\n{count} columns are new.\n"),
        };
        for column in new.iter().filter(|column| column.level != "plain") {
            let name = format!("{}.{}", column.table, column.column);
            let (name, why) = (human::printable(&name), self.why(column));
            let (level, why) = (human::printable(&column.level), human::printable(&why));
            let tags = column.tags.join(", ");
            let told = match (self.is_first, column.tags.is_empty()) {
                (true, _) => format!("{name}: {level}, since it is {tags}: {why}"),
                (false, false) => format!("{name}: {level}, tagged {tags}: {why}"),
                (false, true) => format!("{name}: {level}"),
            };
            out.push_str(&human::wrap(&told, 2, 4));
        }
        if !new.is_empty() {
            out.push_str(match self.is_first {
                true => "The others stay plain. `classification.toml` has the patterns.\n",
                false => "What is not listed is plain by the policies of the folder. `classification.toml` has the patterns.\n",
            });
        }
        if !self.is_first && !self.proposals.is_empty() {
            out.push_str("\nProposed for `classification.toml`, which stays as it is:\n");
            for proposal in &self.proposals {
                for line in proposal.entry().lines() {
                    let _ = writeln!(out, "{}", human::printable(line));
                }
            }
        }
        for table in &self.not_sampled {
            let _ = writeln!(out, "Not looked at: {}", human::printable(table));
        }
        if !self.known.is_empty() && !new.is_empty() {
            let told = format!(
                "Tests still decide over the catalog as it was, of `{}`: the same command with `--refresh` takes the new one.",
                snapshot.display()
            );
            out.push_str(&human::wrap(&told, 0, 0));
        }
        out
    }
}
