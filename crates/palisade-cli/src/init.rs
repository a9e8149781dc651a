//! `palisade init`: a working folder for the policies of a database.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use palisade::{
    catalog::{Catalog, RelationKind},
    dialect::Dialect,
    firewall::{Firewall, ShownColumn},
    ident,
    policy::PolicySet,
    session::{Principal, Session},
    value::Params,
};
use palisade_corpus::PolicyTests;

use crate::{
    args::SecretArguments,
    database::{Access, Database},
    exit::{Exit, Failure},
    human, output,
    policies::{self, STARTER},
    policy_test::{not_loaded, not_run, replace},
    setup::Setup,
    workbench_args::InitArguments,
};

/// Tables that the first tests read.
const FIRST: usize = 40;

/// Runs the command.
pub(crate) fn run(arguments: &InitArguments) -> Result<Exit, Failure> {
    let (setup, database) = Setup::without_configuration(
        &arguments.source,
        &arguments.secret,
        None,
        "palisade init sqlite:demo.db",
    )?;
    let catalog = database.catalog()?;
    let firewall = setup.firewall(catalog, Access::Write)?;
    let place = Place::new(&arguments.dir, &database);
    let known = place.known_columns();
    let session = Session::new(Principal::new("Agent", "someone"));
    let columns = firewall
        .shown_columns(&session)
        .map_err(|refused| Failure::Internal(refused.to_string()))?;
    let mut out = String::new();
    for (path, text) in place.files(&database, &arguments.secret, &firewall)? {
        let what = write(&path, &text)?;
        let _ = writeln!(out, "{what} {}", path.display());
    }
    out.push_str(&explain(&columns, &known, &place.snapshot));
    out.push_str(&place.conclude()?);
    output::text(&out)?;
    Ok(Exit::Permitted)
}

/// Writes a file that is not there, and leaves any other as it is.
fn write(path: &Path, text: &str) -> Result<&'static str, Failure> {
    match std::fs::read_to_string(path) {
        Ok(found) if found == text => return Ok("same "),
        Ok(_) => return Ok("kept "),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            let shown = path.display();
            return Err(Failure::Usage(format!("cannot read `{shown}`: {error}")));
        }
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::Usage(format!("cannot make `{}`: {error}", folder.display()))
        })?;
    }
    replace(path, text)?;
    Ok("wrote")
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
    fn new(dir: &Path, database: &Database) -> Self {
        let plain: String = database
            .name()
            .to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let name = match plain.trim_matches('-') {
            "" => "database".to_owned(),
            name => name.to_owned(),
        };
        let policies = dir.join("policies");
        let file = match database.dialect() {
            Dialect::Sqlite => format!("{name}.json"),
            dialect @ (Dialect::Postgres | Dialect::Mysql) => format!("{name}.{dialect}.json"),
        };
        Self {
            snapshot: policies.join("tests").join(file),
            dir: dir.to_owned(),
            policies,
            name,
        }
    }

    /// The columns of the snapshot that an earlier run wrote.
    fn known_columns(&self) -> BTreeSet<String> {
        let text = std::fs::read_to_string(&self.snapshot).unwrap_or_default();
        let mut known = BTreeSet::new();
        if let Ok(catalog) = Catalog::from_snapshot(&text) {
            for relation in catalog.relations() {
                let columns = relation.column_ids();
                known.extend(columns.map(|(_, c)| format!("{}.{}", relation.uid, c.name)));
            }
        }
        known
    }

    /// The files, each with its text.
    fn files(
        &self,
        database: &Database,
        secret: &SecretArguments,
        firewall: &Firewall,
    ) -> Result<Vec<(PathBuf, String)>, Failure> {
        let mut files = vec![(
            self.dir.join("palisade.toml"),
            self.configuration(database, secret)?,
        )];
        for (name, text) in STARTER.iter().filter(|(name, _)| !policies::is_test(name)) {
            files.push((self.policies.join(name), (*text).to_owned()));
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
        Ok(files)
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
        let mut out = "# `palisade serve --config palisade.toml` serves it to an MCP client.\n\
                       # An editor that starts `palisade lsp` here takes policies and tables from it.\n\
                       policies = \"policies\"\n"
            .to_owned();
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
    fn conclude(&self) -> Result<String, Failure> {
        let shown = self.policies.display();
        let tests = PolicyTests::load(&self.policies).map_err(not_loaded)?;
        let fault = |error| not_run(&error, &self.policies);
        let lock = tests.lock().map_err(fault)?;
        if lock.old.is_none() {
            replace(&lock.path, &lock.new)?;
        }
        let report = tests.run().map_err(fault)?;
        Ok(format!(
            "\nTests in `{shown}`: {}. Edit the policies, then run\n  palisade policy test {shown}\n",
            report.summary()
        ))
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
        let name = [&relation.schema, &relation.name].map(|part| {
            if ident::is_plain(part) {
                return part.clone();
            }
            match firewall.catalog().dialect() {
                Dialect::Sqlite | Dialect::Postgres => ident::quote(part),
                Dialect::Mysql => format!("`{}`", part.replace('`', "``")),
            }
        });
        let sql = format!("SELECT * FROM {}", name.join("."));
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

/// What is proposed for each column that is not plain, of those that an earlier run did not know.
fn explain(columns: &[ShownColumn], known: &BTreeSet<String>, snapshot: &Path) -> String {
    let name = |column: &ShownColumn| format!("{}.{}", column.table, column.column);
    let new: Vec<&ShownColumn> = columns
        .iter()
        .filter(|column| !known.contains(&name(column)))
        .collect();
    if new.is_empty() {
        return "\nNo column is new.\n".to_owned();
    }
    let mut out = match (new.len(), known.is_empty()) {
        (count, true) => format!("\n{count} columns.\n"),
        (1, false) => "\n1 column is new.\n".to_owned(),
        (count, false) => format!("\n{count} columns are new.\n"),
    };
    for column in new.iter().filter(|column| column.level != "plain") {
        let why = match column.chosen_by.as_slice() {
            [] => "by what it is computed from".to_owned(),
            chosen => format!("its name matches {}", chosen.join(", ")),
        };
        let told = format!(
            "{}: {}, since it is {}: {why}",
            human::printable(&name(column)),
            column.level,
            column.tags.join(", ")
        );
        out.push_str(&human::wrap(&told, 2, 4));
    }
    out.push_str("The others stay plain. `classification.toml` has the patterns.\n");
    if !known.is_empty() {
        let told = format!(
            "Tests still decide over the catalog as it was: delete `{}` and run this again to take the new one.",
            snapshot.display()
        );
        out.push_str(&human::wrap(&told, 0, 0));
    }
    out
}
