//! Catalogs from text beside what MariaDB says of itself after it has read the same text.

use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf};

use palisade::catalog::{Catalog, DefaultValue, ReferenceAction, RelationKind};
use palisade_testkit::servers::{MariaDbServer, MySqlServer, Server};

use crate::database::TestDatabase;

const SCRIPT: &str = r#"
CREATE TABLE users (id INTEGER UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) CHARACTER SET latin1 NOT NULL DEFAULT 'it''s, (x)',
    mood ENUM('sad, or', 'ok') COMMENT 'a;b', tags SET('a','b'), born DATE, at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    price DECIMAL(10, 2) DEFAULT -1.5, ratio DOUBLE PRECISION, small FLOAT, flag BOOLEAN, bits BIT(3), one BIT, c CHAR, d CHARACTER VARYING(9),
    bin VARBINARY(4), big BLOB, doc JSON, y YEAR, wide LONGTEXT COLLATE utf8mb4_bin, n NUMERIC(4), z INT ZEROFILL,
    twice INT GENERATED ALWAYS AS (price * 2) VIRTUAL, hidden INT INVISIBLE, who UUID, addr INET6, `select` INT, "quoted" INT,
    KEY names (name(10)), UNIQUE (born), FULLTEXT KEY (wide), CHECK (price > -2));
CREATE TABLE orders (a INT, b INT, user_id INT UNSIGNED NOT NULL, PRIMARY KEY (b, a),
    CONSTRAINT of_user FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE);
CREATE TABLE items (a INT, b INT, c INT UNSIGNED, d INT UNSIGNED, FOREIGN KEY (b, a) REFERENCES orders (b, a) ON UPDATE CASCADE ON DELETE SET NULL,
    FOREIGN KEY (c) REFERENCES users (id) ON DELETE NO ACTION ON UPDATE RESTRICT, FOREIGN KEY (d) REFERENCES users (id));
ALTER TABLE orders ADD COLUMN note TEXT AFTER a, ADD INDEX (note(5)), MODIFY user_id INT UNSIGNED;
ALTER TABLE orders DROP COLUMN note;
CREATE TABLE liked LIKE users;
CREATE TABLE parts (id INT, y INT, PRIMARY KEY (id, y)) ENGINE=InnoDB PARTITION BY HASH (y) PARTITIONS 4;
CREATE TABLE made AS SELECT id, name AS label FROM users;
CREATE VIEW v AS SELECT id, name AS label, count(*) AS n FROM users GROUP BY id, name;
CREATE VIEW starred (x, y, z, w) AS SELECT o.*, 1 FROM orders o;
CREATE SEQUENCE s;
CREATE TEMPORARY TABLE passing (a INT);
DELIMITER //
CREATE FUNCTION f(a INT, b ENUM('x','y')) RETURNS INT DETERMINISTIC BEGIN DECLARE x INT; SET x = 1; RETURN x; END //
CREATE PROCEDURE p(IN a INT, OUT b VARCHAR(5)) BEGIN SELECT 1; SELECT 2; END //
CREATE TRIGGER t BEFORE INSERT ON made FOR EACH ROW BEGIN SET NEW.id = 1; END //
CREATE OR REPLACE DEFINER=CURRENT_USER TRIGGER `t on` AFTER UPDATE ON made FOR EACH ROW BEGIN DELETE FROM items; END //
CREATE TRIGGER other AFTER DELETE ON users FOR EACH ROW SET @a = 1 //
CREATE TRIGGER IF NOT EXISTS gone AFTER DELETE ON users FOR EACH ROW SET @a = 1 //
DROP TRIGGER gone //
DELIMITER ;
"#;

/// The type without what the server adds or takes away: widths of integers, the alias of JSON.
fn plain(type_name: &str) -> String {
    let lower = type_name.to_ascii_lowercase().replace(", ", ",");
    let (head, tail) = lower.split_once('(').unwrap_or((&lower, ""));
    let numeric = ["tinyint", "smallint", "mediumint", "int", "bigint", "year"].contains(&head);
    match (head, tail.split_once(')')) {
        (_, Some((_, rest))) if numeric => {
            format!("{head}{rest}").replace(" unsigned zerofill", " zerofill")
        }
        ("json", _) => "longtext".to_owned(),
        ("decimal", None) => "decimal(10,0)".to_owned(),
        ("decimal", Some((digits, rest))) if !digits.contains(',') => {
            format!("decimal({digits},0){rest}")
        }
        _ => lower.replace(" unsigned zerofill", " zerofill"),
    }
}

/// One line for each fact, as the server has it.
fn of_server(database: &TestDatabase<'_>) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    let rows = |sql: &str| -> Vec<Vec<String>> {
        let text = database.query(sql);
        let cells = |row: &str| row.split('\t').map(str::to_owned).collect();
        text.lines().map(cells).collect()
    };
    for row in rows(
        "SELECT c.table_name, c.column_name, t.table_type, c.column_type, c.is_nullable, c.is_generated, \
                (SELECT count(*) FROM information_schema.columns b WHERE b.table_schema = c.table_schema AND b.table_name = c.table_name \
                 AND b.ordinal_position < c.ordinal_position AND b.extra NOT LIKE '%INVISIBLE%') \
         FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name) \
         WHERE c.table_schema = database() AND t.table_type IN ('BASE TABLE', 'VIEW') AND c.extra NOT LIKE '%INVISIBLE%'",
    ) {
        let [table, column, kind, typed, nullable, generated, position] = row.as_slice() else {
            panic!("{row:?}");
        };
        facts.insert(match kind.as_str() {
            "VIEW" => format!("{table}.{position} view {column}"),
            _ => format!(
                "{table}.{position} {column} {} null {nullable} generated {}",
                plain(typed),
                generated == "ALWAYS"
            ),
        });
    }
    for row in rows(
        "SELECT table_name, constraint_name = 'PRIMARY', ifnull(referenced_table_name, ''), group_concat(column_name ORDER BY ordinal_position), \
                ifnull(group_concat(referenced_column_name ORDER BY ordinal_position), ''), \
                ifnull(referenced_table_schema, ''), ifnull(delete_rule, ''), ifnull(update_rule, '') \
         FROM information_schema.key_column_usage k \
         LEFT JOIN information_schema.referential_constraints r USING (constraint_schema, table_name, constraint_name, referenced_table_name) \
         WHERE table_schema = database() AND (constraint_name = 'PRIMARY' OR referenced_table_name IS NOT NULL) \
         GROUP BY table_name, constraint_name, referenced_table_name",
    ) {
        let table = &row[0];
        let action = |text: &str| ReferenceAction::from_sql(text).unwrap();
        facts.insert(match row[1].as_str() {
            "1" => format!("{table} key {}", row[3]),
            _ => format!(
                "{table} foreign {} {}.{} {} {:?} {:?}",
                row[3],
                row[5],
                row[2],
                row[4],
                action(&row[6]),
                action(&row[7])
            ),
        });
    }
    for row in rows(
        "SELECT event_object_table, trigger_schema, trigger_name, lower(event_manipulation) FROM information_schema.triggers \
         WHERE trigger_schema = database()",
    ) {
        facts.insert(format!("{} trigger {}", row[0], row[1..].join(" ")));
    }
    for row in rows(
        "SELECT r.routine_name, r.routine_type, count(p.ordinal_position) FROM information_schema.routines r \
         LEFT JOIN information_schema.parameters p ON p.specific_schema = r.routine_schema AND p.specific_name = r.specific_name \
              AND p.ordinal_position > 0 \
         WHERE r.routine_schema = database() GROUP BY r.routine_name, r.routine_type",
    ) {
        if row.len() == 3 {
            facts.insert(format!(
                "routine {} {} {}",
                row[0],
                row[1] == "PROCEDURE",
                row[2]
            ));
        }
    }
    facts
}

/// The same of a catalog.
fn of_text(catalog: &Catalog) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    for relation in catalog.relations() {
        let table = &relation.name;
        for (position, column) in relation.columns.iter().enumerate() {
            // What a query computes has a type that the text does not say.
            facts.insert(match relation.kind {
                RelationKind::View => format!("{table}.{position} view {}", column.name),
                _ => format!(
                    "{table}.{position} {} {} null {} generated {}",
                    column.name,
                    plain(&column.type_name),
                    if column.nullable { "YES" } else { "NO" },
                    column.generated.is_some()
                ),
            });
        }
        let names: Vec<&str> = (relation.primary_key.iter())
            .map(|index| &*relation.column(*index).unwrap().name)
            .collect();
        if !names.is_empty() {
            facts.insert(format!("{table} key {}", names.join(",")));
        }
        for key in &relation.foreign_keys {
            facts.insert(format!(
                "{table} foreign {} {}.{} {} {:?} {:?}",
                key.columns.join(","),
                key.schema,
                key.table,
                key.references.join(","),
                key.on_delete,
                key.on_update
            ));
        }
        for trigger in &relation.triggers {
            for change in &trigger.on {
                facts.insert(format!(
                    "{table} trigger {} {} {}",
                    trigger.schema,
                    trigger.function,
                    change.name()
                ));
            }
        }
    }
    let triggers: BTreeSet<String> = (catalog.relations().iter())
        .flat_map(|relation| &relation.triggers)
        .map(|trigger| trigger.uid(catalog.dialect()))
        .collect();
    let routines = (catalog.functions().iter()).filter(|def| !triggers.contains(&def.uid));
    for def in routines {
        facts.insert(format!(
            "routine {} {} {}",
            def.name, def.kinds.procedure, def.min_args
        ));
    }
    facts
}

fn differences(server: &BTreeSet<String>, text: &BTreeSet<String>) -> Vec<String> {
    let theirs = server
        .difference(text)
        .map(|fact| format!("server: {fact}"));
    let ours = text.difference(server).map(|fact| format!("text: {fact}"));
    theirs.chain(ours).collect()
}

/// What the server itself prints of its tables, views and triggers, in the order of their making; triggers in the
/// shape of `mariadb-dump`.
fn dump(database: &TestDatabase<'_>, tables: &[&str], triggers: &[&str]) -> String {
    let mut text = String::new();
    for table in tables {
        let shown = database.query(&format!("SHOW CREATE TABLE `{table}`"));
        let statement = shown.split_once('\t').unwrap().1;
        // A view's row goes on with two character sets.
        let statement = match statement.split_once('\t') {
            Some((statement, _)) => statement,
            None => statement,
        };
        writeln!(text, "{statement};").unwrap();
    }
    for trigger in triggers {
        let shown = database.query(&format!("SHOW CREATE TRIGGER `{trigger}`"));
        let statement = shown.split('\t').nth(2).unwrap();
        let (head, body) = statement.split_once(" TRIGGER ").unwrap();
        let definer = head.strip_prefix("CREATE ").unwrap();
        writeln!(
            text,
            "DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 {definer}*/ /*!50003 TRIGGER {body} */;;\nDELIMITER ;"
        )
        .unwrap();
    }
    text
}

#[test]
fn a_text_says_what_mariadb_says() {
    // The one name in double quotes is written for both modes.
    let script = SCRIPT.replace("\"quoted\"", "quoted");
    let database = TestDatabase::mariadb("ddl", &script);
    let live = of_server(&database);
    assert!(live.len() > 60, "{live:#?}");
    let text = palisade_ddl::mysql(&script, database.name()).unwrap_or_else(|e| panic!("{e}"));
    let mut found = differences(&live, &of_text(&text));
    // A table made of a query keeps NOT NULL and defaults of what it reads; the text does not say so of a query.
    found.retain(|line| !line.contains("made."));
    assert!(found.is_empty(), "{}", found.join("\n"));
    let made = text.find(database.name(), "made").unwrap();
    assert_eq!(made.columns.len(), 2);
    let quoted = format!("SET sql_mode = 'ANSI_QUOTES';\n{SCRIPT}");
    let quoted = palisade_ddl::mysql(&quoted, database.name()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(of_text(&quoted), of_text(&text));

    let tables = [
        "users", "orders", "items", "liked", "parts", "made", "v", "starred",
    ];
    let triggers = ["t", "t on", "other"];
    let dump = dump(&database, &tables, &triggers);
    let text =
        palisade_ddl::mysql(&dump, database.name()).unwrap_or_else(|e| panic!("{e}\n{dump}"));
    let live: BTreeSet<String> = live
        .into_iter()
        .filter(|f| !f.starts_with("routine"))
        .collect();
    let found = differences(&live, &of_text(&text));
    assert!(found.is_empty(), "{}\n{dump}", found.join("\n"));
}

const KEYS: &str = "
CREATE TABLE k (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, a INT DEFAULT 3, b VARCHAR(20) NOT NULL, c TEXT, d INT, f INT UNIQUE KEY DEFAULT NULL,
    PRIMARY KEY (id), UNIQUE (a, b), UNIQUE KEY named USING BTREE (b(10), a DESC), CONSTRAINT con UNIQUE INDEX (d), UNIQUE whole (b(20)), UNIQUE (c(5)), KEY x (a),
    FULLTEXT (c)) ENGINE=InnoDB;
CREATE TABLE l LIKE k;
CREATE TABLE m (a VARCHAR(9), b VARCHAR(9) DEFAULT '', c INT, PRIMARY KEY (a(3), c)) ENGINE=InnoDB;
ALTER TABLE m ADD UNIQUE INDEX one (b), ADD UNIQUE two (c, b), ADD CONSTRAINT three UNIQUE (c), ADD INDEX four (c);
CREATE UNIQUE INDEX five ON m (a); CREATE UNIQUE INDEX six USING BTREE ON m (a, b); CREATE INDEX seven ON m (b);
DROP INDEX five ON m; ALTER TABLE m DROP INDEX one, DROP KEY four, ALTER COLUMN b SET DEFAULT 'x', ALTER c SET DEFAULT 1;
ALTER TABLE m RENAME INDEX six TO sixth; ALTER TABLE m CHANGE COLUMN c cc INT NOT NULL DEFAULT 2; DROP INDEX seven ON m;
CREATE TABLE n (a INT, b INT, e SERIAL, g ENUM('x', 'y') NOT NULL, h ENUM('x', 'y'), UNIQUE (g), UNIQUE (h)) ENGINE=InnoDB;
CREATE TABLE o (id INT AUTO_INCREMENT PRIMARY KEY, a INT DEFAULT -1, b VARCHAR(9) DEFAULT 'it''s' NOT NULL, c BOOLEAN DEFAULT TRUE, d DECIMAL(6,2) DEFAULT 5.5,
    e VARCHAR(9) DEFAULT (upper('a')), f ENUM('x','y') DEFAULT 'y', g TIMESTAMP, h TIMESTAMP NULL, i TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    j INT AS (a + 1) STORED, k DATETIME DEFAULT '2026-01-01', l VARCHAR(9) DEFAULT 'a\\\\b', m TEXT, n INT DEFAULT NULL, p INT, q INT DEFAULT 1, r INT) ENGINE=InnoDB;
ALTER TABLE o MODIFY id INT;
ALTER TABLE o ALTER COLUMN p SET DEFAULT 7, MODIFY q INT AUTO_INCREMENT UNIQUE, CHANGE r s INT DEFAULT 4, ADD COLUMN t VARCHAR(9) DEFAULT 'late';
ALTER TABLE n ADD PRIMARY KEY (a); ALTER TABLE n DROP PRIMARY KEY, ADD COLUMN c INT UNIQUE;
";

/// What a table's unique keys are, one line each.
fn unique_keys(catalog: &Catalog, database: &str) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for table in ["k", "l", "m", "n", "f"] {
        let Some(relation) = catalog.find(database, table) else {
            continue;
        };
        for key in relation.unique_keys.as_ref().unwrap() {
            lines.insert(format!("{table} {key:?}"));
        }
    }
    lines
}

async fn says_the_same_keys(server: &Server, script: &str) {
    let database = TestDatabase::on(server, "keys", script);
    let backend = database.mysql_reader().await;
    let (catalog, name) = (backend.catalog(), database.name());
    let live = unique_keys(catalog, name);
    let text = palisade_ddl::mysql(script, name).unwrap_or_else(|e| panic!("{e}"));
    for relation in text.relations() {
        let by_server = catalog.find(name, &relation.name).unwrap();
        for (column, theirs) in relation.columns.iter().zip(&by_server.columns) {
            // What the text does not tell is not known.
            let known = [&theirs.filled, &DefaultValue::Unknown];
            assert!(
                known.contains(&&column.filled),
                "{}: {:?}, {:?}",
                column.uid,
                column.filled,
                theirs.filled
            );
        }
    }
    let o = text.find(name, "o").unwrap();
    let known = o
        .columns
        .iter()
        .filter(|c| c.filled != DefaultValue::Unknown);
    let known: Vec<&str> = known.map(|c| &*c.name).collect();
    assert_eq!(known.join(" "), "id a b c d f h m n p s t");
    let found = differences(&live, &unique_keys(&text, name));
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(live.len() > 10);
}

#[tokio::test]
async fn a_text_has_the_unique_keys_of_mariadb() {
    says_the_same_keys(MariaDbServer::start_shared().unwrap(), KEYS).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn a_text_has_the_unique_keys_of_mysql_9() {
    // Calls its index by a name of its own.
    let expression =
        "CREATE TABLE f (a INT, b VARCHAR(9), UNIQUE INDEX low ((lower(b)), a)) ENGINE=InnoDB;";
    says_the_same_keys(
        MySqlServer::start_shared().unwrap(),
        &format!("{KEYS}{expression}"),
    )
    .await;
}

/// Over the schemas of the folder that `PALISADE_EVAL` names: each is loaded, and the facts compared.
#[test]
#[ignore = "needs the folder of public schemas in PALISADE_EVAL"]
fn texts_of_the_evaluation() {
    let folder = std::env::var("PALISADE_EVAL").unwrap();
    let server = MariaDbServer::start_shared().unwrap();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(PathBuf::from(folder).join("schemas"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("gms_") || name == "bypass__mysql.sql"
        })
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let (mut same, mut refused, mut different) = (0, 0, Vec::new());
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let script = std::fs::read_to_string(path).unwrap();
        let database = TestDatabase::on(server, "evalddl", "");
        // Another dialect of MySQL's than the server's: the catalogs cannot be equal.
        if database.try_load(&script).is_err() {
            refused += 1;
            continue;
        }
        match palisade_ddl::mysql(&script, database.name()) {
            Ok(text) => {
                let found = differences(&of_server(&database), &of_text(&text));
                if found.is_empty() {
                    same += 1;
                } else {
                    different.push(format!("{name}:\n  {}", found.join("\n  ")));
                }
            }
            Err(error) => different.push(format!("{name}: {error}")),
        }
    }
    eprintln!(
        "{same} of {} schemas give the same facts; MariaDB does not take {refused}",
        paths.len()
    );
    eprintln!("{}", different.join("\n"));
    assert!(
        same * 10 >= (paths.len() - refused) * 8,
        "{same} of {}",
        paths.len()
    );
}
