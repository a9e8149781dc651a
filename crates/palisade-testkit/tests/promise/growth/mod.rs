//! Work grows with a statement's length and no faster: as it is decided, and as each engine prepares it.
//!
//! Time is that of the processor, of this thread or of a server, so that what else runs on the machine does not count.
//! A refusal is as good as an answer, if it comes as soon.

mod constructs;
mod deadline;
mod engines;

use std::{fmt::Write as _, fs, time::Duration};

use palisade::{
    catalog::Catalog,
    dialect::Dialect,
    firewall::{Decision, Firewall},
    limits::Limits,
    session::{Principal, Session},
    token::TokenSecret,
    value::{Params, Value},
};

use constructs::{CONSTRUCTS, Construct};
use engines::Engine;
use palisade_testkit::fixture::policy_sources;

/// The tables that statements are about: `v` has a row filter, a mask and tokens.
const SCHEMA: &str = "
CREATE TABLE t (k integer PRIMARY KEY, a varchar(20), b integer, c integer, d varchar(20));
CREATE TABLE u (k integer, a varchar(20));
CREATE TABLE v (k integer PRIMARY KEY, a varchar(20), c integer, d varchar(20), tenant integer);
CREATE VIEW w AS SELECT k + k + k + k AS s, c FROM t;
";

const POLICIES: &str = r#"
permit(principal, action, resource);
@mask("last(4)")
forbid(principal, action == Action::"read_plain", resource == Column::"SCHEMA.v.a");
forbid(principal, action == Action::"read_plain", resource == Column::"SCHEMA.v.d");
forbid(principal, action == Action::"see", resource is row::SCHEMA::v)
unless { resource has tenant && resource.tenant == 1 };
"#;

/// How much longer ten times as much may take, beside ten times as long.
const SLACK: u32 = 4;

/// What is not worth a comparison: caches are warmed and pages mapped in that time.
const NOTHING: Duration = Duration::from_millis(8);

/// The longest time for the firewall to decide a statement, or for an engine to prepare it, in a build without optimisation.
/// It is the default time of statements, and the delay until a server notices that this time is over.
const MOST: Duration = Duration::from_secs(8);

/// Time of the processor that this thread has taken.
fn own_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

fn catalog(dialect: Dialect) -> Catalog {
    match dialect {
        Dialect::Sqlite => palisade_sqlite::catalog_from_ddl(SCHEMA, "main").unwrap(),
        Dialect::Postgres => palisade_ddl::postgres(SCHEMA, engines::DATABASE).unwrap(),
        Dialect::Mysql => palisade_ddl::mysql(SCHEMA, engines::DATABASE).unwrap(),
    }
}

fn firewall(catalog: Catalog) -> Firewall {
    let schema = match catalog.dialect() {
        Dialect::Sqlite => "main".to_owned(),
        Dialect::Postgres => "public".to_owned(),
        Dialect::Mysql => catalog.database().to_owned(),
    };
    let sources = policy_sources(POLICIES.replace("SCHEMA", &schema));
    let built = Firewall::builder(catalog, sources)
        .allow_changes()
        .cache_bytes(0)
        .token_secret(TokenSecret::new("0".repeat(32)))
        .build();
    built.unwrap_or_else(|error| panic!("{error}"))
}

/// Parameters for as many placeholders as a construct has.
fn params(construct: &Construct, count: usize) -> Params {
    match construct.name {
        "parameters" | "parameters by number" | "marks" => {
            Params::Positional(vec![Value::Integer(1); count])
        }
        "parameters by name" => {
            let named = (0..count).map(|number| (format!("p{number}"), Value::Integer(1)));
            Params::Named(named.collect())
        }
        _ => Params::None,
    }
}

/// The text that would be run, or the code of the refusal, and how long the decision took, at the least of some runs.
fn decide(
    firewall: &Firewall,
    construct: &Construct,
    count: usize,
) -> (Result<String, String>, Duration) {
    let sql = (construct.with)(count);
    let params = params(construct, count);
    let session = Session::new(Principal::new("Agent", "a"));
    let mut least = Duration::MAX;
    let mut said = Err(String::new());
    for _ in 0..3 {
        let start = own_time();
        let decision = firewall
            .check(&sql, &params, &session)
            .unwrap_or_else(|why| panic!("{} {count} times: {why}", construct.name));
        let took = own_time() - start;
        least = least.min(took);
        said = match decision {
            Decision::Allow(statement) => Ok(palisade::danger::parts(&statement).sql.to_owned()),
            Decision::Reject(why) => Err(why.to_string()),
        };
        // One run is enough of what is far from mattering, and of what matters in any case.
        if took < NOTHING || took > MOST {
            break;
        }
    }
    (said, least)
}

/// How many of a construct there are, up to what a text may hold.
fn counts(construct: &Construct) -> Vec<usize> {
    let most = Limits::default().max_query_bytes;
    let fits = |count: &usize| (construct.with)(*count).len() <= most;
    [10, 100, 1000, 10_000].into_iter().filter(fits).collect()
}

/// What took longer than it may, of each construct of a dialect.
fn too_long(dialect: Dialect, engine: &Engine) -> String {
    let only = std::env::var("PALISADE_CONSTRUCT").ok();
    let firewall = firewall(catalog(dialect));
    let mut found = String::new();
    let mut allowed = 0;
    for construct in CONSTRUCTS {
        let is_asked = only.as_deref().is_none_or(|only| construct.name == only);
        if !construct.dialects.contains(&dialect) || !is_asked {
            continue;
        }
        let mut before: Option<(usize, Duration)> = None;
        let mut line = String::new();
        for count in counts(construct) {
            let (said, took) = decide(&firewall, construct, count);
            let prepared = said.as_deref().ok().map(|sql| {
                let first = engine.prepare(sql);
                // The least of two runs, as of decisions: a processor that is shared takes longer for the same work.
                if first.0 > MOST {
                    first.min(engine.prepare(sql))
                } else {
                    first
                }
            });
            allowed += usize::from(said.is_ok());
            let refused = said.err().map_or_else(String::new, |why| {
                let end = why.find(':').unwrap_or(why.len());
                format!(" {}", &why[..end])
            });
            let (engine_took, engine_said) = prepared.unwrap_or_default();
            write!(
                line,
                " | {count}: {took:.1?}{refused} {engine_took:.1?} {engine_said}"
            )
            .unwrap();
            if let Some((less, time)) = before {
                let times = u32::try_from(count / less).unwrap();
                if took > times * SLACK * time.max(NOTHING) {
                    writeln!(found, "{dialect:?}: {}: {less} take {time:.1?} to decide, {count} take {took:.1?}", construct.name).unwrap();
                }
            }
            before = Some((count, took));
            for (took, what) in [(took, "decide"), (engine_took, "prepare")] {
                if took > MOST {
                    writeln!(
                        found,
                        "{dialect:?}: {}: {count} take {took:.1?} to {what}",
                        construct.name
                    )
                    .unwrap();
                }
            }
            if took > MOST || engine_took > MOST {
                break;
            }
        }
        println!("{:36}{line}", construct.name);
    }
    assert!(allowed > 150 || only.is_some(), "{allowed} were allowed");
    found
}

#[test]
fn sqlite_works_no_longer_than_a_statement_is_long() {
    let found = too_long(Dialect::Sqlite, &Engine::sqlite());
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn postgres_works_no_longer_than_a_statement_is_long() {
    let found = too_long(Dialect::Postgres, &Engine::postgres());
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn mariadb_works_no_longer_than_a_statement_is_long() {
    let found = too_long(Dialect::Mysql, &Engine::mariadb());
    assert!(found.is_empty(), "\n{found}");
}
