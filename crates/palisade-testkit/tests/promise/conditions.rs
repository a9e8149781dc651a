//! Whether a change has a condition: generated conditions that hold for every row are none, and generated ones that choose are.
//! What is generated is tried on SQLite first, so that the grammar itself is right; MERGE runs on PostgreSQL.

use std::sync::Arc;

use palisade::{
    audit::NoAudit,
    catalog::Catalog,
    code::Code,
    dialect::Dialect,
    firewall::{Decision, Firewall},
    guard::Guard,
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_sqlite::catalog_from_ddl;
use palisade_testkit::{fixture::policy_sources, host::Still};
use rusqlite::Connection;

use crate::database::TestDatabase;

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, m INTEGER, s VARCHAR(20) NOT NULL);
CREATE TABLE o (x INTEGER NOT NULL, y INTEGER);";

/// Two databases: what chooses rows leaves out one of one of them.
const ROWS: [&str; 2] = [
    "INSERT INTO o VALUES (1, 1), (2, NULL);
     INSERT INTO t VALUES (1, 1, NULL, 'a'), (2, 2, 2, 'b'), (3, 9, 3, 'abc'), (4, -4, NULL, 'z');",
    "INSERT INTO o VALUES (7, 7);
     INSERT INTO t VALUES (1, 7, 7, 'a'), (2, 8, NULL, 'q'), (3, 5, 5, 'b');",
];

const POLICIES: &str = "permit(principal, action, resource);";

/// Statements for each dialect.
const ENOUGH: usize = 400;

/// Numbers from a seed, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }
}

/// Conditions over the target, which is called `t`.
struct Grammar {
    chance: Chance,
    dialect: Dialect,
}

impl Grammar {
    /// What is never NULL.
    fn column(&mut self) -> &'static str {
        self.chance.pick(&["t.id", "t.n", "t.s"])
    }

    /// What holds for every row, whatever it holds.
    fn always(&mut self, depth: usize) -> String {
        let column = self.column();
        let number = self.chance.pick(&["t.id", "t.n"]);
        let leaf = depth == 0;
        match self.chance.below(if leaf { 14 } else { 23 }) {
            0 => self
                .chance
                .pick(&[
                    "1 = 1",
                    "'a' = 'a'",
                    "1 < 2",
                    "NULL IS NULL",
                    "2 IN (1, 2)",
                    "'x' LIKE '%'",
                ])
                .to_owned(),
            1 => self
                .chance
                .pick(&[
                    "coalesce(1, 1) = 1",
                    "EXISTS (SELECT 1)",
                    "(SELECT 1) = 1",
                    "3 BETWEEN 1 AND 5",
                    "(SELECT count(*) FROM t) > 0",
                    "NOT (1 = 2)",
                ])
                .to_owned(),
            2 => format!("{column} {} {column}", self.chance.pick(&["=", ">=", "<="])),
            3 => format!("{column} IN ({column})"),
            4 => format!("{column} BETWEEN {column} AND {column}"),
            5 => format!("{number} = {number} + 0"),
            6 => format!("{number} < {number} + 1"),
            7 => format!("{column} IS NOT NULL"),
            8 => "t.m IS NULL OR t.m IS NOT NULL".to_owned(),
            9 => format!(
                "NOT ({column} {} {column})",
                self.chance.pick(&["<>", "<", ">"])
            ),
            10 => "t.s LIKE '%'".to_owned(),
            11 => format!("{number} - {number} = 0"),
            12 => match self.dialect {
                Dialect::Sqlite => format!("{column} IS {column}"),
                Dialect::Postgres => format!("{column} IS NOT DISTINCT FROM {column}"),
                Dialect::Mysql => "t.m <=> t.m".to_owned(),
            },
            13 => self
                .chance
                .pick(&[
                    "t.id IN (SELECT id FROM t)",
                    "t.id IN (SELECT u.id FROM t AS u WHERE 1 = 1)",
                    "EXISTS (SELECT 1 FROM t AS u WHERE u.id = t.id)",
                ])
                .to_owned(),
            14 => format!("({})", self.always(depth - 1)),
            15 => format!("NOT ({})", self.never(depth - 1)),
            16 => format!(
                "({}) AND ({})",
                self.always(depth - 1),
                self.always(depth - 1)
            ),
            17 => format!(
                "({}) OR ({})",
                self.always(depth - 1),
                self.chooses(depth - 1)
            ),
            18 => format!(
                "({}) OR ({})",
                self.chooses(depth - 1),
                self.always(depth - 1)
            ),
            19 => {
                let atom = self.atom();
                format!("({atom}) OR NOT ({atom})")
            }
            20 => format!("CASE WHEN {} THEN 1 ELSE 1 END = 1", self.always(depth - 1)),
            21 => format!("CASE WHEN {} THEN 1 ELSE 0 END = 1", self.always(depth - 1)),
            _ => {
                let (one, other) = self
                    .chance
                    .pick(&["= <>", "< >=", "<= >"])
                    .split_once(' ')
                    .unwrap();
                let bound = self.chance.below(9);
                format!("{number} {one} {bound} OR {number} {other} {bound}")
            }
        }
    }

    /// What holds for no row.
    fn never(&mut self, depth: usize) -> String {
        let column = self.column();
        match self.chance.below(if depth == 0 { 2 } else { 4 }) {
            0 => self
                .chance
                .pick(&["1 = 2", "'a' <> 'a'", "1 IS NULL"])
                .to_owned(),
            1 => format!("{column} {} {column}", self.chance.pick(&["<>", "<", ">"])),
            2 => format!("NOT ({})", self.always(depth - 1)),
            _ => format!("({}) OR ({})", self.never(depth - 1), self.never(depth - 1)),
        }
    }

    /// What hangs on a row and is never NULL.
    fn atom(&mut self) -> String {
        let number = self.chance.pick(&["t.id", "t.n"]);
        let bound = self.chance.below(9);
        match self.chance.below(9) {
            0 => format!(
                "{number} {} {bound}",
                self.chance.pick(&["=", "<>", "<", ">", "<=", ">="])
            ),
            1 => format!("{number} IN ({bound}, 3)"),
            2 => format!("{number} BETWEEN {bound} AND 8"),
            3 => "t.s LIKE 'a%'".to_owned(),
            4 => "lower(t.s) = 'a'".to_owned(),
            5 => "t.m IS NULL".to_owned(),
            6 => "t.n IN (SELECT x FROM o)".to_owned(),
            7 => "EXISTS (SELECT 1 FROM o WHERE o.x = t.n)".to_owned(),
            _ => "t.n > t.id + 1".to_owned(),
        }
    }

    /// What leaves out a row of some table.
    fn chooses(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.atom();
        }
        match self.chance.below(9) {
            0 => format!("({})", self.chooses(depth - 1)),
            1 => format!(
                "({}) AND ({})",
                self.chooses(depth - 1),
                self.always(depth - 1)
            ),
            2 => format!(
                "({}) AND ({})",
                self.always(depth - 1),
                self.chooses(depth - 1)
            ),
            3 => format!(
                "({}) AND ({})",
                self.chooses(depth - 1),
                self.chooses(depth - 1)
            ),
            // Of different columns, so that none is the other's contrary.
            4 => format!("t.id = {} OR t.s = 'b'", self.chance.below(9)),
            5 => format!("t.m IS NULL OR t.n > {}", self.chance.below(9)),
            6 => format!("CASE WHEN {} THEN 'x' ELSE 'y' END = 'x'", self.atom()),
            7 => self
                .chance
                .pick(&[
                    "t.id NOT IN (SELECT min(u.id) FROM t AS u GROUP BY u.s)",
                    "EXISTS (SELECT 1 FROM t AS u WHERE u.n = t.n AND u.id < t.id)",
                    "(SELECT count(*) FROM t AS u WHERE u.s = t.s) > 1",
                    "t.id IN (SELECT u.id FROM t AS u WHERE u.n > 4)",
                    "t.n = (SELECT max(u.n) FROM t AS u)",
                    "coalesce(t.m, 0) = 0",
                    "t.s <> upper(t.s) AND t.n < 5",
                    "(t.n, t.s) IN (SELECT x, 'a' FROM o)",
                ])
                .to_owned(),
            _ => format!("NOT ({})", self.atom()),
        }
    }

    /// Changes with this condition alone.
    fn changes(&mut self, condition: &str) -> Vec<String> {
        let mut out = vec![
            format!("UPDATE t SET s = 'changed' WHERE {condition}"),
            format!("DELETE FROM t WHERE {condition}"),
        ];
        match self.dialect {
            Dialect::Sqlite => {
                out.push(format!("UPDATE t SET s = o.x FROM o WHERE {condition}"));
            }
            Dialect::Postgres => out.extend([
                format!("UPDATE t SET s = 'changed' FROM o WHERE o.x > 0 AND ({condition})"),
                format!("DELETE FROM t USING o WHERE o.x = 1 AND ({condition})"),
                format!("WITH c AS (DELETE FROM t WHERE {condition} RETURNING id) SELECT id FROM c WHERE id > 0"),
                format!("MERGE INTO t USING o ON {condition} WHEN MATCHED THEN DELETE"),
                format!("MERGE INTO t USING o ON o.x > 0 WHEN MATCHED AND ({condition}) THEN UPDATE SET s = 'changed'"),
            ]),
            Dialect::Mysql => out.extend([
                format!("DELETE t FROM t JOIN o ON {condition}"),
                format!("DELETE t FROM t CROSS JOIN o WHERE o.x = 1 AND ({condition})"),
                format!("UPDATE t LEFT JOIN o ON o.x = t.n SET t.s = 'changed' WHERE {condition}"),
            ]),
        }
        out
    }
}

fn seed() -> u64 {
    let given = std::env::var("PALISADE_SEED").ok();
    given.map_or(0x9E37_79B9_7F4A_7C15, |seed| {
        seed.parse::<u64>().unwrap() | 1
    })
}

fn grammar(dialect: Dialect) -> Grammar {
    Grammar {
        chance: Chance(seed()),
        dialect,
    }
}

fn sources(policies: &str) -> PolicySources {
    policy_sources(policies)
}

fn firewall(catalog: Catalog) -> Firewall {
    let built = Firewall::builder(catalog, sources(POLICIES))
        .allow_changes()
        .build();
    built.unwrap_or_else(|error| panic!("{error}"))
}

fn catalog(dialect: Dialect) -> Catalog {
    match dialect {
        Dialect::Sqlite => catalog_from_ddl(SCHEMA, "main").unwrap(),
        Dialect::Postgres => palisade_ddl::postgres(SCHEMA, "conditions").unwrap(),
        Dialect::Mysql => palisade_ddl::mysql(SCHEMA, "conditions").unwrap(),
    }
}

/// Whether the condition holds for every row of every database.
fn holds_everywhere(databases: &[Connection], condition: &str) -> bool {
    databases.iter().all(|database| {
        let count = |sql: &str| -> i64 {
            let found = database.query_row(sql, [], |row| row.get(0));
            found.unwrap_or_else(|error| panic!("{sql}: {error}"))
        };
        count(&format!("SELECT count(*) FROM t WHERE {condition}"))
            == count("SELECT count(*) FROM t")
    })
}

fn decided(firewall: &Firewall, sql: &str) -> Option<(Code, String)> {
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall.check(sql, &Params::None, &session).unwrap() {
        Decision::Allow(_) => None,
        Decision::Reject(why) => Some((why.code(), why.to_string())),
    }
}

fn conditions_are_told_apart(dialect: Dialect) {
    let firewall = firewall(catalog(dialect));
    let mut grammar = grammar(dialect);
    let databases = ROWS.map(|rows| {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch(&format!("{SCHEMA}{rows}")).unwrap();
        database
    });
    let (mut failures, mut none, mut some) = (Vec::new(), 0, 0);
    for round in 0..ENOUGH {
        let depth = round % 4;
        let condition = grammar.always(depth);
        if dialect == Dialect::Sqlite {
            assert!(holds_everywhere(&databases, &condition), "{condition}");
        }
        for sql in grammar.changes(&condition) {
            none += 1;
            match decided(&firewall, &sql) {
                Some((Code::WriteUnconditional, _)) => {}
                other => failures.push(format!("no condition, and {other:?}: {sql}")),
            }
        }
        let condition = grammar.chooses(depth);
        // What was made to choose and does not, by chance, does not matter.
        if dialect == Dialect::Sqlite && holds_everywhere(&databases, &condition) {
            continue;
        }
        for sql in grammar.changes(&condition) {
            some += 1;
            if let Some(why) = decided(&firewall, &sql) {
                failures.push(format!("a condition, and {why:?}: {sql}"));
            }
        }
    }
    assert!(none > ENOUGH && some > ENOUGH, "{none} {some}");
    failures.sort_by_key(String::len);
    failures.truncate(12);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn generated_conditions_are_told_apart_on_sqlite() {
    conditions_are_told_apart(Dialect::Sqlite);
}

#[test]
fn generated_conditions_are_told_apart_on_postgres() {
    conditions_are_told_apart(Dialect::Postgres);
}

#[test]
fn generated_conditions_are_told_apart_on_mysql() {
    conditions_are_told_apart(Dialect::Mysql);
}

#[tokio::test]
async fn a_merge_on_a_constant_changes_no_row() {
    let rows = "INSERT INTO t SELECT i, i, NULL, 'kept' FROM generate_series(1, 20) AS g(i); INSERT INTO o VALUES (1, 1);";
    let script = format!("{SCHEMA}{rows}");
    let database = TestDatabase::postgres("conditions", &script);
    let kept = || database.query("SELECT count(*) FROM t WHERE s = 'kept'");
    for policies in [
        POLICIES,
        "permit(principal, action, resource) unless { action in [Action::\"update\", Action::\"delete\"] };
         permit(principal, action in [Action::\"update\", Action::\"delete\"], resource) when { context.has_where };",
    ] {
        let backend = database.postgres_backend().await;
        let firewall = Firewall::builder(backend.catalog().clone(), sources(policies))
            .allow_changes()
            .build();
        let firewall = firewall.unwrap_or_else(|error| panic!("{error}"));
        let guard = Guard::new(Arc::new(firewall), backend, Arc::new(Still), Arc::new(NoAudit));
        let session = Session::new(Principal::new("Agent", "a"));
        for sql in [
            "MERGE INTO t USING o ON true WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING o ON true WHEN MATCHED THEN UPDATE SET s = 'gone'",
            "MERGE INTO t USING o ON 1 = 1 WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING o ON t.id = t.id WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING o ON o.x = 1 WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING t AS u ON u.id = t.id WHEN MATCHED THEN DELETE",
        ] {
            let refused = match guard.execute(sql, &Params::None, &session).await.into_result() {
                Err(refusal) => refusal.rejection.code(),
                Ok(envelope) => panic!("{sql}: {:?} rows", envelope.affected_rows()),
            };
            assert!(
                matches!(refused, Code::WriteUnconditional | Code::PolicyNoPermit),
                "{sql}: {refused}"
            );
            assert_eq!(kept(), "20", "{sql}");
        }
        let sql = "MERGE INTO t USING o ON t.id = o.x WHEN MATCHED THEN UPDATE SET s = 'kept'";
        match guard.execute(sql, &Params::None, &session).await.into_result() {
            Ok(envelope) => assert_eq!(envelope.affected_rows(), Some(1)),
            Err(refusal) => panic!("{sql}: {}", refusal.rejection),
        }
    }
    // What was kept from the server would have changed all of them.
    let sql = "MERGE INTO t USING o ON true WHEN MATCHED THEN UPDATE SET s = 'gone'";
    database.query(sql);
    assert_eq!(kept(), "0");
}
