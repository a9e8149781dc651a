//! Hidden values that a principal would read out by permitted statements alone, from which of them fail. Whether an engine
//! evaluates an expression on one table depends on the plan. The plan depends on statistics over hidden rows of another.

mod family;
mod leads;
mod reader;
mod twins;

use crate::worlds::{
    interference::runtime,
    stand::{Engine, MariaDb, Postgres, Sqlite},
};

use self::{
    leads::{Secret, stand},
    reader::{Bared, Counted, Gate, Oracle, read_number, read_text},
};

/// What reads the secret of an engine's hidden rows.
struct Questions {
    /// Whether many hidden notes are `<from>` or after it and before `<before>`.
    text: &'static str,
    /// Whether many hidden amounts are of 0 to `<most>`.
    number: &'static str,
    /// Whether it fails where there are many.
    fails_of_many: bool,
}

/// Where many rows are expected of `leads`, the other side of the join is read first, and fails.
const POSTGRES: Questions = Questions {
    text: "SELECT l.id FROM leads l, generate_series(1, 500) g \
           WHERE l.note >= '<from>' AND l.note < '<before>' AND 1 / (g - 1) > 0",
    number: "SELECT l.id FROM leads l, generate_series(1, 500) g \
             WHERE l.amount BETWEEN 0 AND <most> AND 1 / (g - 1) > 0",
    fails_of_many: true,
};

/// The same; how many rows an index has between two values, the engine looks up exactly.
const MARIADB: Questions = Questions {
    text: "SELECT l.id, t.e FROM leads l CROSS JOIN (SELECT exp(1000 * k) AS e FROM teams LIMIT 5) t \
           WHERE l.note >= '<from>' AND l.note < '<before>'",
    number: "SELECT l.id, t.e FROM leads l CROSS JOIN (SELECT exp(1000 * k) AS e FROM teams LIMIT 5) t \
             WHERE l.amount BETWEEN 0 AND <most>",
    fails_of_many: true,
};

/// The same, where a build of the engine keeps samples of analysed indexes (`sqlite_stat4`); ours keeps none.
const SQLITE: Questions = Questions {
    text: "SELECT l.id, t.e FROM leads l, (SELECT DISTINCT json(t) AS e FROM teams) t \
           WHERE l.note >= '<from>' AND l.note < '<before>'",
    number: "SELECT l.id, t.e FROM leads l, (SELECT DISTINCT json(t) AS e FROM teams) t \
             WHERE l.amount BETWEEN 0 AND <most>",
    fails_of_many: true,
};

/// Changes, of which none changes a row: of two tables beside `leads` each of the own rows meets one, over which it fails, and no
/// other. Which is met first hangs on how many rows are expected.
const POSTGRES_CHANGES: Questions = Questions {
    text: "UPDATE leads l SET hint = 'x' FROM nums n, few m WHERE n.id = l.team AND m.id = l.score \
           AND (l.note >= '<from>' AND l.note < '<before>' OR l.id < 21) AND n.k * 2147483647 > 0",
    number: "UPDATE leads l SET hint = 'x' FROM nums n, few m WHERE n.id = l.team AND m.id = l.score \
             AND (l.amount BETWEEN 0 AND <most> OR l.id < 21) AND n.k * 2147483647 > 0",
    fails_of_many: false,
};

/// By which of two indexes the table is read decides which of the own rows are looked at.
const MARIADB_CHANGES: Questions = Questions {
    text: "DELETE FROM leads WHERE exp(amount * -1000) > 0 AND note >= '<from>' AND note < '<before>' AND team = 3",
    number: "DELETE FROM leads WHERE exp(amount * -1000) > 0 AND amount BETWEEN 0 AND <most> AND team = 3",
    fails_of_many: true,
};

/// The same.
const SQLITE_CHANGES: Questions = Questions {
    text: "DELETE FROM leads WHERE json(memo) > '' AND note >= '<from>' AND note < '<before>' AND team = 3",
    number: "DELETE FROM leads WHERE json(memo) > '' AND amount BETWEEN 0 AND <most> AND team = 3",
    fails_of_many: true,
};

impl Questions {
    /// What `oracle` tells of the hidden note and the hidden amount.
    async fn read(&self, oracle: &mut impl Oracle) -> (String, u32) {
        let text = |from: &str, before: &str| {
            self.text
                .replace("<from>", from)
                .replace("<before>", before)
        };
        let number = |most: u32| self.number.replace("<most>", &most.to_string());
        (
            read_text(oracle, text, Secret::ONE.text.len(), self.fails_of_many).await,
            read_number(oracle, number, self.fails_of_many).await,
        )
    }

    /// Without what stands between planner and hidden rows the secret is read, in `statements` at most.
    async fn are_good<E: Engine>(&self, engine: &E, statements: usize) {
        for secret in [Secret::ONE, Secret::OTHER] {
            let mut stand = stand(engine, secret).await;
            let mut oracle = Counted::new(Bared(&mut stand));
            let read = self.read(&mut oracle).await;
            println!("{:?}: {read:?} by {} statements", E::DIALECT, oracle.asked);
            assert_eq!(read, (secret.text.to_owned(), secret.number));
            assert!(oracle.asked <= statements);
        }
    }

    /// Even without what stands between planner and hidden rows nothing is read.
    async fn are_idle<E: Engine>(&self, engine: &E) {
        let mut stand = stand(engine, Secret::ONE).await;
        let (text, number) = self.read(&mut Bared(&mut stand)).await;
        assert_ne!(text, Secret::ONE.text);
        assert_ne!(number, Secret::ONE.number);
    }

    /// Through the gate the same is told of one secret and of another.
    async fn tell_nothing<E: Engine>(&self, engine: &E) {
        let mut told = Vec::new();
        for secret in [Secret::ONE, Secret::OTHER] {
            let stand = stand(engine, secret).await;
            told.push(self.read(&mut Gate::new(&stand)).await);
        }
        println!("{:?}: {told:?}", E::DIALECT);
        assert_eq!(told[0], told[1]);
        assert_ne!(told[0].0, Secret::ONE.text);
        assert_ne!(told[0].1, Secret::ONE.number);
    }
}

#[test]
fn unfenced_postgres_is_read() {
    runtime().block_on(POSTGRES.are_good(&Postgres, 150));
}

#[test]
fn unfenced_mariadb_is_read() {
    runtime().block_on(MARIADB.are_good(&MariaDb, 150));
}

#[test]
fn unfenced_sqlite_is_not_read() {
    runtime().block_on(SQLITE.are_idle(&Sqlite::new()));
}

#[test]
fn postgres_is_not_read() {
    runtime().block_on(POSTGRES.tell_nothing(&Postgres));
}

#[test]
fn mariadb_is_not_read() {
    runtime().block_on(MARIADB.tell_nothing(&MariaDb));
}

#[test]
fn sqlite_is_not_read() {
    runtime().block_on(SQLITE.tell_nothing(&Sqlite::new()));
}

#[test]
fn changes_of_postgres_are_not_read() {
    runtime().block_on(POSTGRES_CHANGES.tell_nothing(&Postgres));
}

#[test]
fn changes_of_mariadb_are_not_read() {
    runtime().block_on(MARIADB_CHANGES.tell_nothing(&MariaDb));
}

#[test]
fn changes_of_sqlite_are_not_read() {
    runtime().block_on(SQLITE_CHANGES.tell_nothing(&Sqlite::new()));
}
