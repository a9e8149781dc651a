//! Running cases: the decision alone, or the whole way through a database.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::Path,
    sync::{Arc, OnceLock},
};

use palisade::{
    audit::NoAudit,
    catalog::Catalog,
    code::{Code, Fault, Stage},
    dialect::Dialect,
    error::Error,
    firewall::{Decision, Firewall, FirewallBuilder, Trace},
    guard::{Guard, Request},
    policy::{ApprovalLevel, PolicySources},
    rejection::Rejection,
    session::{Principal, Session},
    token::{Lifetime, TokenSecret},
    value::Params,
};

use crate::{
    case::{Case, Shown, Verdict},
    compare::{self, Difference},
    fixture::Fixture,
    host::StillHost,
    load::{Corpus, is_snapshot},
    only_policy::{PERMIT_EVERYTHING, only},
    schema_name::{mysql_database, rename_mysql_database},
    test_server::TestServer,
    written::dialect,
};

/// Firewalls over the catalogs of a corpus, with a database each.
pub struct Runner {
    /// By catalog, policies and how long tokens last.
    stands: BTreeMap<Key, Stand>,
    /// Holds the databases; gone with the last runner over them.
    folder: Arc<tempfile::TempDir>,
}

/// Catalog, policies, and how long tokens last.
type Key = (String, String, Lifetime);

struct Stand {
    firewall: Arc<Firewall>,
    /// The same catalog under policies that permit everything; made when it is first asked.
    open: Arc<OnceLock<Option<Firewall>>>,
    /// None for a dialect whose statements are decided about and not run.
    database: Option<Arc<dyn Fixture>>,
    /// What the catalog's text calls its database, on MySQL.
    name: String,
}

/// The secret behind the tokens and hashes of every case, so that they come out the same.
pub const SECRET: &str = "the secret of the corpus, known to all";

/// Why a corpus cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no place for the databases.
    #[error("cannot make a folder for the databases: {0}")]
    Folder(std::io::Error),
    /// A catalog's script failed.
    #[error("catalog `{catalog}`: {why}")]
    Database {
        /// Which.
        catalog: String,
        /// Why.
        why: String,
    },
    /// A catalog's text is not understood.
    #[error("catalog `{catalog}`: {source}")]
    Ddl {
        /// Which.
        catalog: String,
        /// Why.
        source: palisade_ddl::DdlError,
    },
    /// The lock of a policy folder cannot be read.
    #[error("cannot read `access.lock`: {0}")]
    Lock(std::io::Error),
    /// Policies do not load over a catalog.
    #[error("policies `{policies}` over `{catalog}`: {source}")]
    Policies {
        /// Which.
        policies: String,
        /// Over which catalog.
        catalog: String,
        /// Why.
        source: Error,
    },
    /// A case names what the corpus does not hold.
    #[error("there is no catalog `{catalog}` with policies `{policies}`")]
    Missing {
        /// The catalog.
        catalog: String,
        /// The policies.
        policies: String,
    },
    /// The run was ended, as [`PolicyTests::while_wanted`](crate::PolicyTests::while_wanted) allows.
    #[error("the run was ended before its end")]
    Stopped,
}

/// What came out of a case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Refused with this code, or allowed.
    pub code: Option<Code>,
    /// What the agent gets, durations and incident ids aside: an envelope or a refusal.
    pub json: serde_json::Value,
    /// The same as text for a model; none for a refusal.
    pub text: String,
    /// What was run.
    pub rewritten: Option<String>,
    /// The determining policies, sorted.
    pub policies: Vec<String>,
    /// What only the operator may read of a refusal.
    pub detail: Option<String>,
    /// Whether masks and row filters apply; none if that was not looked at.
    pub shown: Option<Shown>,
    /// Whose approval it waits for, where it was refused for want of that.
    pub approval: Option<ApprovalLevel>,
    /// The most milliseconds that policies give it, where the case asks for that.
    pub max_time_ms: Option<u64>,
    /// Whether the principals that the case asks about may approve it as a change.
    pub approvals: Vec<Approval>,
    /// How many rows were changed, where any could be.
    pub affected: Option<u64>,
    /// The rows of the query after the change.
    pub after: Option<Vec<Vec<serde_json::Value>>>,
}

/// Whether a principal may approve a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Who.
    pub principal: Principal,
    /// Whether it may.
    pub is_permitted: bool,
    /// The determining policies, sorted.
    pub policies: Vec<String>,
}

/// What became of a case that was run.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// The answer; none if there could be none.
    pub answer: Option<Answer>,
    /// What is not as expected.
    pub differences: Vec<Difference>,
}

impl Stand {
    /// `sql` with the catalog's name in the place of the database's own, which is another in every run.
    fn name_plainly(&self, sql: &str, database: Option<&dyn Fixture>) -> String {
        match database.and_then(Fixture::own_name) {
            Some(name) => sql.replace(name, &self.name),
            None => sql.to_owned(),
        }
    }

    /// The same policies over a copy of the database.
    fn over(&self, copied: &dyn Fixture) -> Result<Self, String> {
        let sources = sources_for(Some(copied), self.firewall.sources());
        let catalog = sources
            .name_schemas(copied.catalog().clone())
            .map_err(|error| error.to_string())?;
        let firewall = self.firewall.renewed(catalog, sources);
        Ok(Self {
            firewall: Arc::new(firewall.map_err(|error| error.to_string())?),
            open: Arc::default(),
            database: None,
            name: self.name.clone(),
        })
    }
}

impl Runner {
    /// Makes the databases and loads the policies that the cases of `corpus` use.
    ///
    /// # Errors
    /// If a script fails or policies do not load.
    pub fn new(corpus: &Corpus) -> Result<Self, RunError> {
        Self::with_builder(corpus, |builder| builder)
    }

    /// As [`new`](Self::new), with databases on the servers of `corpus` too.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if a server cannot be used.
    pub fn on_servers(corpus: &Corpus) -> Result<Self, RunError> {
        let keys = corpus.cases.iter().map(|case| (key(case), case.dialect));
        Self::over(corpus, keys, &corpus.servers, |builder| builder)
    }

    /// As [`new`](Self::new), with firewalls as `configure` makes them.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_builder(
        corpus: &Corpus,
        configure: impl Fn(FirewallBuilder) -> FirewallBuilder,
    ) -> Result<Self, RunError> {
        let keys = corpus.cases.iter().map(|case| (key(case), case.dialect));
        Self::over(corpus, keys, &BTreeMap::new(), configure)
    }

    /// As [`new`](Self::new), for every catalog by one set of policies, and no case.
    pub(crate) fn over_catalogs(corpus: &Corpus, policies: &str) -> Result<Self, RunError> {
        let keys = corpus.catalogs.keys().map(|catalog| {
            let key = (catalog.clone(), policies.to_owned(), Lifetime::default());
            // A catalog of a dialect that there is none of is not loaded.
            (key, dialect(catalog).unwrap_or(Dialect::Sqlite))
        });
        Self::over(corpus, keys, &BTreeMap::new(), |builder| builder)
    }

    /// As [`over_catalogs`](Self::over_catalogs), for one catalog, with its database on its server.
    pub(crate) fn over_server(
        corpus: &Corpus,
        catalog: &str,
        policies: &str,
    ) -> Result<Self, RunError> {
        let key = (catalog.to_owned(), policies.to_owned(), Lifetime::default());
        let keys = std::iter::once((key, dialect(catalog).unwrap_or(Dialect::Sqlite)));
        Self::over(corpus, keys, &corpus.servers, |builder| builder)
    }

    /// Which of `statements` the database of a catalog takes, one after the other; it has what they leave from then on.
    pub(crate) fn try_each(
        &self,
        catalog: &str,
        policies: &str,
        statements: &[String],
    ) -> Result<Vec<bool>, String> {
        let key = (catalog.to_owned(), policies.to_owned(), Lifetime::default());
        let stand = self.stands.get(&key);
        let database = stand.and_then(|stand| stand.database.as_ref());
        let database = database.ok_or("the catalog has no database")?;
        database.try_each(statements)
    }

    /// As [`over_catalogs`](Self::over_catalogs), and for the cases of `corpus`.
    pub(crate) fn over_folder(corpus: &Corpus, policies: &str) -> Result<Self, RunError> {
        let catalogs = corpus.catalogs.keys().map(|catalog| {
            let key = (catalog.clone(), policies.to_owned(), Lifetime::default());
            (key, dialect(catalog).unwrap_or(Dialect::Sqlite))
        });
        let cases = corpus.cases.iter().map(|case| (key(case), case.dialect));
        let keys = catalogs.chain(cases);
        Self::over(corpus, keys, &BTreeMap::new(), |builder| builder)
    }

    /// The rows of a query on the database of `case`, without the firewall.
    pub(crate) fn read_bare(
        &self,
        case: &Case,
        sql: &str,
    ) -> Result<Vec<Vec<serde_json::Value>>, String> {
        let stand = self.stand(case).map_err(|error| error.to_string())?;
        match &stand.database {
            Some(database) => Ok(database.query(sql, &Params::None)?.json()),
            None => Ok(Vec::new()),
        }
    }

    /// The firewall over a catalog, by policies.
    pub(crate) fn firewall_over(
        &self,
        catalog: &str,
        policies: &str,
    ) -> Result<Arc<Firewall>, RunError> {
        let key = (catalog.to_owned(), policies.to_owned(), Lifetime::default());
        let (catalog, policies, _) = &key;
        let missing = || RunError::Missing {
            catalog: catalog.clone(),
            policies: policies.clone(),
        };
        let stand = self.stands.get(&key).ok_or_else(missing)?;
        Ok(Arc::clone(&stand.firewall))
    }

    /// The firewall of policies that permit everything over a catalog; none if they do not load.
    pub(crate) fn permit_everything_over(
        &self,
        catalog: &str,
        policies: &str,
    ) -> Option<&Firewall> {
        let key = (catalog.to_owned(), policies.to_owned(), Lifetime::default());
        let stand = self.stands.get(&key)?;
        let open = &stand.open;
        open.get_or_init(|| permit_everything(&stand.firewall))
            .as_ref()
    }

    fn over(
        corpus: &Corpus,
        keys: impl Iterator<Item = (Key, Dialect)>,
        servers: &BTreeMap<String, TestServer>,
        configure: impl Fn(FirewallBuilder) -> FirewallBuilder,
    ) -> Result<Self, RunError> {
        let folder = tempfile::tempdir().map_err(RunError::Folder)?;
        let mut stands = BTreeMap::new();
        for (key, dialect) in keys {
            let number = stands.len();
            if let Entry::Vacant(vacant) = stands.entry(key) {
                let (catalog, policies, token_lifetime) = vacant.key();
                let database = folder.path().join(format!("{catalog}.{number}.db"));
                let ground = match servers.get(catalog) {
                    Some(server) => ground_on_server(corpus, server, dialect, (catalog, policies))?,
                    None => ground(corpus, dialect, catalog, policies, &database)?,
                };
                let builder = Firewall::builder(ground.catalog, ground.sources)
                    .allow_changes()
                    .token_secret(TokenSecret::new(SECRET).lasting(*token_lifetime));
                let firewall = configure(builder)
                    .build()
                    .map_err(|source| RunError::Policies {
                        policies: policies.to_owned(),
                        catalog: catalog.to_owned(),
                        source,
                    })?;
                vacant.insert(Stand {
                    firewall: Arc::new(firewall),
                    open: Arc::default(),
                    database: ground.database.map(Arc::from),
                    name: ground.name,
                });
            }
        }
        Ok(Self {
            stands,
            folder: Arc::new(folder),
        })
    }

    /// The same cases over the same databases, by `sources` instead. Cases of other policies than `policies` have no place here.
    ///
    /// # Errors
    /// If `sources` do not load.
    pub(crate) fn with_policies(
        &self,
        policies: &str,
        sources: &PolicySources,
    ) -> Result<Self, Error> {
        let mut stands = BTreeMap::new();
        for (key, stand) in self.stands.iter().filter(|(key, _)| key.1 == policies) {
            let catalog = stand.firewall.catalog().clone();
            let sources = sources_for(stand.database.as_deref(), sources);
            let firewall = stand.firewall.renewed(catalog, sources)?;
            let changed = Stand {
                firewall: Arc::new(firewall),
                open: Arc::clone(&stand.open),
                database: stand.database.clone(),
                name: stand.name.clone(),
            };
            stands.insert(key.clone(), changed);
        }
        Ok(Self {
            stands,
            folder: Arc::clone(&self.folder),
        })
    }

    /// The firewall that decides about `case`.
    #[must_use]
    pub fn firewall(&self, case: &Case) -> Option<&Arc<Firewall>> {
        self.stand(case).ok().map(|stand| &stand.firewall)
    }

    /// Runs `case` as far as it can be run, and compares everything. What changes a database has one of its own. A cell of a
    /// matrix, and a case without a database, is decided.
    #[must_use]
    pub fn run(&self, case: &Case) -> Ran {
        let stand = match self.stand(case) {
            Ok(stand) => stand,
            Err(error) => return Ran::failed(error.to_string()),
        };
        let is_cell = case.expect.shown.is_some() || case.expect.verdict == Verdict::Deny;
        let Some(database) = stand.database.as_deref().filter(|_| !is_cell) else {
            return match self.decide(case) {
                Ok(answer) => {
                    let mut differences = compare::decision(case, &answer);
                    if differences.is_empty() {
                        differences.extend(self.find_empty_denial(stand, case, &answer));
                    }
                    Ran {
                        differences,
                        answer: Some(answer),
                    }
                }
                Err(error) => Ran::failed(error),
            };
        };
        if self.changes(case) {
            return match self.change(stand, database, case) {
                Ok(answer) => Ran {
                    differences: compare::change(case, &answer),
                    answer: Some(answer),
                },
                Err(error) => Ran::failed(error),
            };
        }
        // A refusal is that of a gate which lets changes through.
        let answer = match self.decide(case) {
            Ok(decided) if decided.code.is_some() => Ok(decided),
            Ok(_) => self.answer(case),
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) => Ran {
                differences: self.compare_answer(case, &answer),
                answer: Some(answer),
            },
            Err(error) => Ran::failed(error),
        }
    }

    /// A denial that is none: the statement is refused as well where everything is permitted.
    fn find_empty_denial(&self, stand: &Stand, case: &Case, answer: &Answer) -> Option<Difference> {
        let code = answer
            .code
            .filter(|_| case.expect.verdict == Verdict::Deny)?;
        let is_of_policies = code.fault() == Fault::Statement && code.stage() == Stage::Decision;
        let open = stand
            .open
            .get_or_init(|| permit_everything(&stand.firewall));
        let refused = open.as_ref().is_none_or(|open| match case.check(open) {
            Ok(Decision::Allow(_)) | Err(_) => false,
            Ok(Decision::Reject(rejection)) => rejection.code() == code,
        });
        (!is_of_policies || refused).then(|| {
            let message = answer
                .json
                .get("message")
                .and_then(serde_json::Value::as_str);
            Difference::new(
                "denial",
                "deny, by what policies say",
                format!(
                    "reject {code}, whatever policies say: {}",
                    message.unwrap_or_default()
                ),
            )
        })
    }

    /// Decides about `case` and compares, as far as a decision shows it. A refusal that can only come
    /// from running the statement is an allowed statement here.
    #[must_use]
    pub fn run_pure(&self, case: &Case) -> Vec<Difference> {
        match self.decide(case) {
            Ok(answer) => compare::decision(case, &answer),
            Err(error) => vec![Difference::new("run", "an answer", error)],
        }
    }

    /// Runs `case`, of SQLite, through the gate on its database and compares everything.
    #[must_use]
    pub fn run_sqlite(&self, case: &Case) -> Vec<Difference> {
        // What changes the database would change it for the next case.
        if self.changes(case) {
            return self.run_pure(case);
        }
        match self.answer(case) {
            Ok(answer) => self.compare_answer(case, &answer),
            Err(error) => vec![Difference::new("run", "an answer", error)],
        }
    }

    fn compare_answer(&self, case: &Case, answer: &Answer) -> Vec<Difference> {
        let mut differences = compare::answer(case, answer);
        if case.expect.preserve && answer.code.is_none() {
            match self.bare(case) {
                Ok(bare) => differences.extend(compare::compare_rows(case, answer, &bare)),
                Err(error) => {
                    differences.push(Difference::new("bare engine", "an answer", error));
                }
            }
        }
        differences
    }

    /// Whether `case` is a statement that is allowed to change anything.
    #[must_use]
    pub fn changes(&self, case: &Case) -> bool {
        let stand = self.stand(case).ok();
        let decided = stand.map(|stand| case.check(&stand.firewall));
        match decided {
            Some(Ok(Decision::Allow(statement))) => !statement.effect().only_reads(),
            Some(Ok(Decision::Reject(_)) | Err(_)) | None => false,
        }
    }

    /// The decision about `case`, without columns and rows.
    ///
    /// # Errors
    /// A text if the case cannot be decided about at all.
    pub fn decide(&self, case: &Case) -> Result<Answer, String> {
        let stand = self.stand(case).map_err(|error| error.to_string())?;
        let is_cell = case.expect.shown.is_some() || case.expect.verdict == Verdict::Deny;
        let (decided, trace) = match is_cell {
            false => (case.check(&stand.firewall), None),
            true => match case.explain(&stand.firewall) {
                Ok((decision, trace)) => (Ok(decision), trace),
                Err(error) => (Err(error), None),
            },
        };
        let mut answer = match decided {
            Ok(Decision::Allow(statement)) => Answer {
                rewritten: Some(stand.name_plainly(
                    palisade::danger::parts(&statement).sql,
                    stand.database.as_deref(),
                )),
                policies: sort_names(statement.policies()),
                shown: trace.as_ref().map(find_shown),
                ..Answer::default()
            },
            Ok(Decision::Reject(rejection)) => answer_of_refusal(&rejection),
            Err(error) => fault(&error),
        };
        look_further(&stand.firewall, case, &mut answer)?;
        Ok(answer)
    }

    /// The tables, and columns of them with their uses, that the statement of `case` touches, whoever asks: as policies that permit everything
    /// let it be seen. Nothing of a statement that is refused even so.
    pub(crate) fn find_touched(&self, case: &Case) -> Vec<Touched> {
        let key = (
            case.catalog.clone(),
            case.policies.clone(),
            Lifetime::default(),
        );
        let Some(stand) = self.stands.get(&key) else {
            return Vec::new();
        };
        let open = stand
            .open
            .get_or_init(|| permit_everything(&stand.firewall));
        let explained = open.as_ref().and_then(|open| case.explain(open).ok());
        let trace = explained.and_then(|(_, trace)| trace);
        let mut found = Vec::new();
        for relation in trace.into_iter().flat_map(|trace| trace.relations) {
            found.extend(relation.columns.into_iter().map(|column| Touched {
                table: relation.relation.clone(),
                column: Some(column.column),
                usages: column.usages,
            }));
            found.push(Touched {
                table: relation.relation,
                column: None,
                usages: Vec::new(),
            });
        }
        found
    }

    /// What the statement of `case` does, as policies call it; none where it is refused whatever policies say.
    pub(crate) fn find_action(&self, case: &Case) -> Option<&'static str> {
        let key = (
            case.catalog.clone(),
            case.policies.clone(),
            Lifetime::default(),
        );
        let stand = self.stands.get(&key)?;
        let open = stand
            .open
            .get_or_init(|| permit_everything(&stand.firewall));
        let open = open.as_ref()?;
        let asked = case.question(open).ok()?;
        let access = open.resolve_access(&asked.sql, &asked.session);
        Some(access.ok()?.facts().kind)
    }

    /// The columns that are hidden from the principal of `case`, and the policies that hide them.
    pub(crate) fn hidden_columns(&self, case: &Case) -> BTreeMap<String, Vec<String>> {
        let key = (
            case.catalog.clone(),
            case.policies.clone(),
            Lifetime::default(),
        );
        let Some(stand) = self.stands.get(&key) else {
            return BTreeMap::new();
        };
        let shown = stand.firewall.shown_columns(&case.session());
        shown
            .into_iter()
            .flatten()
            .filter(|column| column.level == "hidden")
            .map(|column| {
                (
                    format!("{}.{}", column.table, column.column),
                    column.policies,
                )
            })
            .collect()
    }

    /// The record of the decision about `case`.
    ///
    /// # Errors
    /// A text if the case cannot be decided about at all.
    pub fn explain(&self, case: &Case) -> Result<Trace, String> {
        let stand = self.stand(case).map_err(|error| error.to_string())?;
        let explained = case.explain(&stand.firewall);
        let (decision, trace) = explained.map_err(|error| error.to_string())?;
        trace.ok_or_else(|| match decision {
            Decision::Allow(_) => "there is no record of the decision".to_owned(),
            Decision::Reject(rejection) => rejection.to_string(),
        })
    }

    /// What the gate gives for `case`.
    ///
    /// # Errors
    /// A text if the case cannot be run at all, as those of other dialects than SQLite.
    pub fn answer(&self, case: &Case) -> Result<Answer, String> {
        let stand = self.stand(case).map_err(|error| error.to_string())?;
        let Some(database) = &stand.database else {
            return Err(format!("nothing runs cases of {}", case.dialect));
        };
        self.ask(stand, &**database, case, Asked::ToRead)
    }

    /// What the gate gives for `case`, which may change the database, on a copy of it.
    fn change(&self, stand: &Stand, database: &dyn Fixture, case: &Case) -> Result<Answer, String> {
        let copied = database.copy()?;
        // A copy on a server has relations of its own.
        let moved = match case.dialect {
            Dialect::Sqlite => None,
            Dialect::Postgres | Dialect::Mysql => Some(stand.over(&*copied)?),
        };
        let stand = moved.as_ref().unwrap_or(stand);
        let mut answer = self.ask(stand, &*copied, case, Asked::ToChange)?;
        if let Some(after) = &case.expect.after {
            let rows = copied.query(&after.sql, &Params::None);
            answer.after = Some(rows.map_err(|why| format!("`after`: {why}"))?.json());
        }
        Ok(answer)
    }

    fn ask(
        &self,
        stand: &Stand,
        database: &dyn Fixture,
        case: &Case,
        asked: Asked,
    ) -> Result<Answer, String> {
        let guard = Guard::over(
            Arc::clone(&stand.firewall),
            database.backend(),
            Arc::new(StillHost(case.at)),
            Arc::new(NoAudit),
        )
        .with_finding_actions(case.on_finding);
        // Without a time of its own: the gate asks the clock.
        let session = Session::new(case.principal.clone()).over(case.transport);
        let request = match &case.template {
            None => Request::statement(&case.sql, &case.params, &session),
            Some(template) => Request::template(template, case.arguments(), &session),
        };
        let request = request.with_limits(&case.limits);
        let request = match asked {
            Asked::ToRead => request,
            Asked::ToChange => request.allow_changes(),
        };
        let mut answered = None;
        database.wait(Box::pin(async {
            answered = Some(guard.answer(request).await);
        }));
        let (outcome, mut report) = answered.ok_or("the server gave no answer")?;
        report.rewritten = (report.rewritten).map(|sql| stand.name_plainly(&sql, Some(database)));
        let mut answer = match outcome.into_result() {
            Ok(envelope) => Answer {
                json: serde_json::to_value(envelope.answer()).map_err(|e| e.to_string())?,
                text: envelope.delimited_text(),
                rewritten: report.rewritten,
                policies: sort_names(&report.policies),
                affected: envelope.affected_rows(),
                ..Answer::default()
            },
            Err(refusal) => Answer {
                rewritten: report.rewritten,
                policies: sort_names(&report.policies),
                ..answer_of_refusal(&refusal.rejection)
            },
        };
        look_further(&stand.firewall, case, &mut answer)?;
        Ok(answer)
    }

    /// What the engine gives for the statement as it was written, put into the same form.
    fn bare(&self, case: &Case) -> Result<serde_json::Value, String> {
        let stand = self.stand(case).map_err(|error| error.to_string())?;
        let statement = match case.check(&stand.firewall) {
            Ok(Decision::Allow(statement)) => statement,
            Ok(Decision::Reject(rejection)) => return Err(rejection.to_string()),
            Err(error) => return Err(error.to_string()),
        };
        match &stand.database {
            Some(database) => {
                let asked = case.question(&stand.firewall);
                let asked = asked.map_err(|rejection| rejection.to_string())?;
                let bare = database.query(&asked.sql, &asked.params)?;
                bare.answer(case, &statement)
            }
            None => Err(format!("nothing runs cases of {}", case.dialect)),
        }
    }

    fn stand(&self, case: &Case) -> Result<&Stand, RunError> {
        self.stands
            .get(&key(case))
            .ok_or_else(|| RunError::Missing {
                catalog: case.catalog.clone(),
                policies: case.policies.clone(),
            })
    }
}

/// What stand `case` runs on.
fn key(case: &Case) -> Key {
    (
        case.catalog.clone(),
        case.policies.clone(),
        case.token_lifetime,
    )
}

/// What a statement may do to its database.
#[derive(Clone, Copy)]
enum Asked {
    ToRead,
    ToChange,
}

impl Ran {
    fn failed(why: String) -> Self {
        Self {
            answer: None,
            differences: vec![Difference::new("run", "an answer", why)],
        }
    }
}

/// A table that a statement touches, or a column of one.
pub(crate) struct Touched {
    pub(crate) table: String,
    pub(crate) column: Option<String>,
    /// Of a column.
    pub(crate) usages: Vec<&'static str>,
}

/// What a stand is built on.
struct Built {
    catalog: Catalog,
    sources: PolicySources,
    database: Option<Box<dyn Fixture>>,
    name: String,
}

/// What a stand is built on, with a database at `path` where one is needed.
fn ground(
    corpus: &Corpus,
    dialect: Dialect,
    catalog: &str,
    policies: &str,
    path: &Path,
) -> Result<Built, RunError> {
    let missing = || RunError::Missing {
        catalog: catalog.to_owned(),
        policies: policies.to_owned(),
    };
    let script = corpus.catalogs.get(catalog).ok_or_else(missing)?;
    let sources = corpus.policies.get(policies).ok_or_else(missing)?;
    let not_understood = |source| RunError::Ddl {
        catalog: catalog.to_owned(),
        source,
    };
    let (facts, database) = match dialect {
        _ if is_snapshot(script) => {
            let facts = Catalog::from_snapshot(script).map_err(|error| RunError::Database {
                catalog: catalog.to_owned(),
                why: error.to_string(),
            })?;
            (facts, None)
        }
        Dialect::Postgres => {
            let name = catalog.split('.').next().unwrap_or(catalog);
            let facts = palisade_ddl::postgres(script, name).map_err(not_understood)?;
            (facts, None)
        }
        Dialect::Mysql => {
            let facts = palisade_ddl::mysql(script, &mysql_database(sources));
            let facts = facts.map_err(not_understood)?;
            (facts, None)
        }
        Dialect::Sqlite => {
            let database =
                create_on_sqlite(path, catalog, script).map_err(|why| RunError::Database {
                    catalog: catalog.to_owned(),
                    why,
                })?;
            (database.catalog().clone(), Some(database))
        }
    };
    Ok(Built {
        catalog: name_schemas(sources, facts, (catalog, policies))?,
        name: mysql_database(sources),
        sources: sources.clone(),
        database,
    })
}

/// `facts`, its schemas called as the policies do.
fn name_schemas(
    sources: &PolicySources,
    facts: Catalog,
    (catalog, policies): (&str, &str),
) -> Result<Catalog, RunError> {
    let named = sources.name_schemas(facts);
    named.map_err(|errors| RunError::Policies {
        policies: policies.to_owned(),
        catalog: catalog.to_owned(),
        source: Error::from(errors),
    })
}

/// What a stand is built on, with a database on a server.
fn ground_on_server(
    corpus: &Corpus,
    server: &TestServer,
    dialect: Dialect,
    (catalog, policies): (&str, &str),
) -> Result<Built, RunError> {
    let missing = || RunError::Missing {
        catalog: catalog.to_owned(),
        policies: policies.to_owned(),
    };
    let failed = |why| RunError::Database {
        catalog: catalog.to_owned(),
        why,
    };
    let script = corpus.catalogs.get(catalog).ok_or_else(missing)?;
    let written = corpus.policies.get(policies).ok_or_else(missing)?;
    let database = create_on_server(dialect, server, script).map_err(failed)?;
    let sources = sources_for(Some(&*database), written);
    Ok(Built {
        catalog: name_schemas(&sources, database.catalog().clone(), (catalog, policies))?,
        name: mysql_database(written),
        sources,
        database: Some(database),
    })
}

/// The policies where the database of its stand has a name of its own.
fn sources_for(database: Option<&dyn Fixture>, sources: &PolicySources) -> PolicySources {
    match database.and_then(Fixture::own_name) {
        Some(name) => rename_mysql_database(sources, name),
        None => sources.clone(),
    }
}

#[cfg(feature = "sqlite")]
fn create_on_sqlite(path: &Path, name: &str, script: &str) -> Result<Box<dyn Fixture>, String> {
    Ok(Box::new(crate::sqlite::SqliteFixture::create(
        path, name, script,
    )?))
}

#[cfg(not(feature = "sqlite"))]
fn create_on_sqlite(_: &Path, _: &str, _: &str) -> Result<Box<dyn Fixture>, String> {
    Err("this build has no SQLite; it decides about catalogs of other dialects".to_owned())
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::server::create as create_on_server;

#[cfg(not(any(feature = "postgres", feature = "mysql")))]
fn create_on_server(_: Dialect, _: &TestServer, _: &str) -> Result<Box<dyn Fixture>, String> {
    Err("this build runs nothing on a server".to_owned())
}

/// Policies that permit everything to the same principals over the same catalog; none if they do not load.
fn permit_everything(firewall: &Firewall) -> Option<Firewall> {
    let sources = PolicySources {
        classification: None,
        ..only(firewall.sources(), PERMIT_EVERYTHING)
    };
    let builder = Firewall::builder(firewall.catalog().clone(), sources);
    builder.allow_changes().build().ok()
}

/// Whether masks and row filters apply, by the record of a decision.
fn find_shown(trace: &Trace) -> Shown {
    let mut columns = trace
        .relations
        .iter()
        .flat_map(|relation| &relation.columns);
    Shown {
        masked: columns.any(|column| column.level.starts_with("mask")),
        filtered: trace.relations.iter().any(|relation| match relation.rows {
            "all" => false,
            // A table that is only written has no rows to see.
            "none" => relation.source.is_some(),
            _ => true,
        }),
    }
}

/// What a case asks beside the answer: how much time policies give it, whose approval it waits for, and who may approve it.
fn look_further(firewall: &Firewall, case: &Case, answer: &mut Answer) -> Result<(), String> {
    let expect = &case.expect;
    let waits = answer.code == Some(Code::ApprovalRequired);
    if expect.max_time_ms.is_none() && expect.approvers.is_empty() && !waits {
        return Ok(());
    }
    let explained = case.explain(firewall).map_err(|error| error.to_string())?;
    let Some(trace) = explained.1 else {
        return Ok(());
    };
    answer.max_time_ms = trace.max_time_ms;
    let approval = trace.approval.filter(|_| waits);
    answer.approval = approval.and_then(ApprovalLevel::parse);
    let tables = trace.relations.iter();
    let tables: Vec<&str> = tables.map(|one| one.relation.as_str()).collect();
    for (principal, _) in &expect.approvers {
        let session = Session::new(principal.clone()).at(case.at);
        let decided = firewall.decide_approval(&tables, &session);
        let (is_permitted, policies) = decided.map_err(|rejection| rejection.to_string())?;
        answer.approvals.push(Approval {
            principal: principal.clone(),
            // A change of one's own is for others to approve.
            is_permitted: is_permitted && *principal != case.principal,
            policies: sort_names(&policies),
        });
    }
    Ok(())
}

fn answer_of_refusal(rejection: &Rejection) -> Answer {
    Answer {
        code: Some(rejection.code()),
        json: serde_json::to_value(rejection.for_agent()).unwrap_or_default(),
        policies: sort_names(rejection.policies()),
        detail: rejection.operator_detail().map(str::to_owned),
        ..Answer::default()
    }
}

fn fault(error: &Error) -> Answer {
    Answer {
        detail: Some(error.to_string()),
        ..answer_of_refusal(&Rejection::from(Code::Internal))
    }
}

fn sort_names(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names
}
