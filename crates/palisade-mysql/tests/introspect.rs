//! Catalogs of real databases.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use palisade::{
    catalog::{Catalog, Column, ReferenceAction, Relation, RelationKind, TypeClass},
    dialect::Dialect,
};
use palisade_mysql::MysqlConfig;
use palisade_testkit::servers::{MariaDbServer, MySqlServer, Server};

/// What both products understand.
const SCRIPT: &str = "
    CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, j json, inv int INVISIBLE DEFAULT 3,
        g int GENERATED ALWAYS AS (inv + 1) VIRTUAL, gs varchar(20) CHARACTER SET latin1 AS (concat('x''y', inv)) STORED,
        e enum('a','b') NOT NULL, vb varbinary(20), d decimal(10,2) NOT NULL, UNIQUE (e, d));
    CREATE TABLE c (b int, a int, t_id int, x enum('a','b'), y decimal(10,2), PRIMARY KEY (a, b),
        FOREIGN KEY (t_id) REFERENCES t (id) ON UPDATE CASCADE,
        FOREIGN KEY (x, y) REFERENCES t (e, d) ON DELETE SET NULL);
    CREATE TRIGGER Before_t BEFORE INSERT ON t FOR EACH ROW SET NEW.inv = 1;
    CREATE TRIGGER after_t AFTER DELETE ON t FOR EACH ROW DELETE FROM c;
    CREATE TABLE `odd ``name` (`Weird.Col` int);
    CREATE VIEW v AS SELECT t.id AS n, c.b FROM t JOIN c ON c.t_id = t.id WHERE t.e = 'a\\\\b';
    CREATE FUNCTION f(x int, y int) RETURNS int DETERMINISTIC RETURN x + y;
    CREATE PROCEDURE p() SELECT 1;
    CREATE PROCEDURE f(IN x int) SELECT x;
";

async fn read(server: &Server, database: &str, user: &str) -> Catalog {
    let mut conn =
        palisade_mysql::connect(&MysqlConfig::from_url(&server.url_as(user, database)).unwrap())
            .await
            .unwrap();
    let catalog = palisade_mysql::catalog(&mut conn).await.unwrap();
    conn.disconnect().await.unwrap();
    catalog
}

fn find<'c>(catalog: &'c Catalog, name: &str) -> &'c Relation {
    catalog
        .find(catalog.default_schema(), name)
        .unwrap_or_else(|| panic!("no {name}"))
}

fn column<'c>(relation: &'c Relation, name: &str) -> &'c Column {
    relation.columns.iter().find(|c| *c.name == *name).unwrap()
}

fn names(relation: &Relation) -> Vec<&str> {
    relation.columns.iter().map(|c| &*c.name).collect()
}

fn armed(relation: &Relation) -> Vec<(&str, &str, Vec<&str>)> {
    let changes = |t: &palisade::catalog::Trigger| t.on.iter().map(|c| c.name()).collect();
    (relation.triggers.iter())
        .map(|t| (t.schema.as_str(), t.function.as_str(), changes(t)))
        .collect()
}

/// Everything that the two products have in common.
async fn check(server: &Server, generated: [&str; 2], tells_triggers: bool) {
    let database = server.fresh_database("catalog").unwrap();
    let other = server.fresh_database("other").unwrap();
    server
        .load(&other, "CREATE TABLE far (a int)")
        .unwrap()
        .clean()
        .unwrap();
    server.load(&database, SCRIPT).unwrap().clean().unwrap();
    let catalog = read(server, &database, server.superuser()).await;
    assert_eq!(catalog.dialect(), Dialect::Mysql);
    assert_eq!(catalog.database(), database);
    assert_eq!(catalog.search_path(), [database.as_str()]);
    // Case counts where the server says so, as it does here.
    assert!(catalog.find(&database, "T").is_none());
    assert!(catalog.find(&other, "far").is_some());
    for system in ["mysql", "information_schema", "performance_schema", "sys"] {
        assert!(catalog.relations().iter().all(|r| r.schema != system));
    }

    let t = find(&catalog, "t");
    assert_eq!(t.kind, RelationKind::Table);
    assert_eq!(names(t), ["id", "j", "g", "gs", "e", "vb", "d"]);
    let classes: Vec<_> = t.columns.iter().map(|c| c.class).collect();
    assert_eq!(
        classes,
        [
            TypeClass::Integer,
            TypeClass::Json,
            TypeClass::Integer,
            TypeClass::Text,
            TypeClass::Enum,
            TypeClass::Blob,
            TypeClass::Decimal
        ]
    );
    assert_eq!(t.primary_key, [0]);
    assert!(!column(t, "id").nullable && column(t, "g").nullable);
    assert!(column(t, "gs").collation.starts_with("latin1_"));
    assert_eq!(column(t, "vb").collation, "");
    assert_eq!(column(t, "g").generated.as_deref(), Some(generated[0]));
    assert_eq!(column(t, "gs").generated.as_deref(), Some(generated[1]));
    assert_eq!(column(t, "id").generated, None);

    let c = find(&catalog, "c");
    assert_eq!(c.primary_key, [1, 0]);
    let keys: Vec<_> = c
        .foreign_keys
        .iter()
        .map(|k| {
            (
                k.columns.join(" "),
                k.table.as_str(),
                k.references.join(" "),
                k.on_delete,
                k.on_update,
            )
        })
        .collect();
    assert_eq!(keys.len(), 2);
    let (refuse, cascade, null) = (
        ReferenceAction::Refuse,
        ReferenceAction::Cascade,
        ReferenceAction::SetNull,
    );
    assert!(keys.contains(&("t_id".to_owned(), "t", "id".to_owned(), refuse, cascade)));
    assert!(keys.contains(&("x y".to_owned(), "t", "e d".to_owned(), null, refuse)));
    assert!(c.foreign_keys.iter().all(|k| k.schema == database));
    assert_eq!(
        armed(t),
        [
            (database.as_str(), "Before_t", vec!["insert"]),
            (database.as_str(), "after_t", vec!["delete"])
        ]
    );
    assert!(c.triggers.is_empty());
    assert_eq!(names(find(&catalog, "odd `name")), ["Weird.Col"]);

    let v = find(&catalog, "v");
    assert_eq!(v.kind, RelationKind::View);
    assert_eq!(names(v), ["n", "b"]);
    let definition = v.definition.as_deref().unwrap();
    assert!(
        definition.contains(&format!("`{database}`.`t`")),
        "{definition}"
    );
    assert!(definition.contains(r"'a\\b'"), "{definition}");

    let routines: Vec<_> = catalog
        .functions()
        .iter()
        .filter(|f| f.schema.as_deref() == Some(database.as_str()))
        .filter(|f| !f.name.ends_with("_t"))
        .map(|f| {
            (
                f.name.as_str(),
                f.kinds.scalar,
                f.kinds.procedure,
                f.min_args,
                f.max_args,
            )
        })
        .collect();
    assert_eq!(
        routines,
        [
            ("f", true, true, 1, Some(2)),
            ("p", false, true, 0, Some(0))
        ]
    );

    // What an account without privileges sees, and without SHOW VIEW.
    server
        .load(
            &database,
            &format!(
                "CREATE USER reader_{database}@'127.0.0.1'; GRANT SELECT ON `{database}`.v TO reader_{database}@'127.0.0.1'"
            ),
        )
        .unwrap()
        .clean()
        .unwrap();
    let seen = read(server, &database, &format!("reader_{database}")).await;
    let uids: Vec<_> = seen.relations().iter().map(|r| r.name.as_str()).collect();
    assert_eq!(uids, ["v"]);
    assert_eq!(find(&seen, "v").definition, None);
    assert!(seen.functions().is_empty());
    assert_ne!(seen.version(), catalog.version());

    // One that may only read, and of one table a column.
    for (label, grant) in [
        ("selects", format!("SELECT ON `{database}`.*")),
        ("peeps", format!("SELECT (t_id) ON `{database}`.c")),
    ] {
        let user = format!("{label}_{database}");
        let script = format!("CREATE USER {user}@'127.0.0.1'; GRANT {grant} TO {user}@'127.0.0.1'");
        server.load(&database, &script).unwrap().clean().unwrap();
        let seen = read(server, &database, &user).await;
        // The server leaves out what is of other columns.
        let keys = (label == "selects").then(|| c.unique_keys.clone().unwrap());
        assert_eq!(find(&seen, "c").unique_keys, keys);
        for key in &find(&seen, "c").foreign_keys {
            let told = c.foreign_keys.iter().any(|k| k == key);
            assert!(told || (key.on_delete, key.on_update) == (cascade, cascade));
        }
    }

    // One that may write, and is told of triggers on one table only.
    server
        .load(
            &database,
            &format!(
                "CREATE USER writer_{database}@'127.0.0.1'; GRANT SELECT, INSERT ON `{database}`.* TO writer_{database}@'127.0.0.1';
                 GRANT TRIGGER ON `{database}`.c TO writer_{database}@'127.0.0.1'"
            ),
        )
        .unwrap()
        .clean()
        .unwrap();
    let writer = format!("writer_{database}");
    let seen = read(server, &database, &writer).await;
    assert!(find(&seen, "c").triggers.is_empty());
    assert_eq!(find(&seen, "c").foreign_keys, c.foreign_keys);
    let all = vec!["insert", "update", "delete"];
    // Not every MariaDB tells.
    let count = "SELECT COUNT(*) FROM information_schema.TRIGGERS";
    let told = server.query_as(&writer, &database, count).unwrap();
    let tells_triggers = tells_triggers && told != "0";
    if tells_triggers {
        assert_eq!(find(&seen, "t").triggers, t.triggers);
    } else {
        assert_eq!(
            armed(find(&seen, "t")),
            [(database.as_str(), "unseen_triggers", all)]
        );
    }
    let again = read(server, &database, server.superuser()).await;
    assert_eq!(find(&again, "v").definition, find(&catalog, "v").definition);
}

#[tokio::test]
async fn a_catalog_of_mariadb() {
    let server = MariaDbServer::start_shared().unwrap();
    check(server, ["`inv` + 1", "concat('x\\'y',`inv`)"], true).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn a_catalog_of_mysql_9() {
    let server = MySqlServer::start_shared().unwrap();
    check(
        server,
        ["(`inv` + 1)", "concat(_utf8mb4'x\\'y',`inv`)"],
        false,
    )
    .await;
}

#[tokio::test]
async fn what_only_mariadb_has() {
    let server = MariaDbServer::start_shared().unwrap();
    let database = server.fresh_database("maria").unwrap();
    server
        .load(
            &database,
            "CREATE SEQUENCE s; CREATE TABLE sv (a int) WITH SYSTEM VERSIONING;
             CREATE TABLE types (u uuid, i inet6, l longtext, k longtext CHECK (json_valid(k) AND k <> ''));
             CREATE TABLE m1 (a int) ENGINE=MyISAM; CREATE TABLE mm (a int) ENGINE=MRG_MyISAM UNION=(m1);",
        )
        .unwrap()
        .clean()
        .unwrap();
    let catalog = read(server, &database, server.superuser()).await;
    assert!(catalog.find(&database, "s").is_none());
    assert_eq!(find(&catalog, "sv").kind, RelationKind::Table);
    assert_eq!(names(find(&catalog, "sv")), ["a"]);
    assert_eq!(find(&catalog, "mm").kind, RelationKind::Virtual);
    let classes: Vec<_> = find(&catalog, "types")
        .columns
        .iter()
        .map(|c| c.class)
        .collect();
    assert_eq!(
        classes,
        [
            TypeClass::Uuid,
            TypeClass::Network,
            TypeClass::Text,
            TypeClass::Text
        ]
    );
}

#[test]
fn without_a_database_there_is_no_catalog() {
    let server = MariaDbServer::start_shared().unwrap();
    let url = server.url("");
    let error = MysqlConfig::from_url(&url).unwrap_err();
    assert!(error.to_string().contains("names no database"), "{error}");
}
