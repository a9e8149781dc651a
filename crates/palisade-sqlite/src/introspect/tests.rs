//! Catalogs of databases in memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use palisade::catalog::{Column, Relation};

use super::*;

fn load(ddl: &str) -> Catalog {
    catalog_from_ddl(ddl, "shop").unwrap()
}

fn uids(catalog: &Catalog, kind: RelationKind) -> BTreeSet<&str> {
    catalog
        .relations()
        .iter()
        .filter(|r| r.kind == kind)
        .map(|r| r.uid.as_str())
        .collect()
}

fn relation<'a>(catalog: &'a Catalog, name: &str) -> &'a Relation {
    catalog
        .find("main", name)
        .unwrap_or_else(|| panic!("no {name}"))
}

fn column<'a>(relation: &'a Relation, key: &str) -> &'a Column {
    relation.column(relation.position(key).unwrap()).unwrap()
}

#[test]
fn a_table_with_everything() {
    let catalog = load(
        "CREATE TABLE Customers (
           id INTEGER PRIMARY KEY, Email TEXT NOT NULL COLLATE nocase, age INT, note,
           vip BOOLEAN, since DATETIME, price DECIMAL(10,2), weight DOUBLE PRECISION, raw BLOB,
           lower_email TEXT GENERATED ALWAYS AS (lower(Email)) STORED, twice AS (age * 2));
         CREATE TABLE \"Odd 'name\" (a ANY, b TEXT, PRIMARY KEY (b, a)) STRICT, WITHOUT ROWID;",
    );
    assert_eq!(catalog.database(), "shop");
    let customers = relation(&catalog, "CUSTOMERS");
    assert_eq!(customers.name, "Customers");
    assert_eq!(customers.uid, "main.customers");
    assert_eq!(customers.kind, RelationKind::Table);
    assert!(customers.has_rowid && !customers.strict && customers.definition.is_none());
    assert_eq!(customers.rowid_alias, Some(0));
    assert_eq!(customers.primary_key, [0]);
    let classes: Vec<_> = customers
        .columns
        .iter()
        .map(|c| (&*c.key, c.class))
        .collect();
    assert_eq!(
        classes,
        [
            ("id", TypeClass::Integer),
            ("email", TypeClass::Text),
            ("age", TypeClass::Integer),
            ("note", TypeClass::Other),
            ("vip", TypeClass::Boolean),
            ("since", TypeClass::Other),
            ("price", TypeClass::Number),
            ("weight", TypeClass::Number),
            ("raw", TypeClass::Blob),
            ("lower_email", TypeClass::Text),
            ("twice", TypeClass::Other),
        ]
    );
    assert!(!column(customers, "id").nullable);
    assert!(!column(customers, "email").nullable);
    assert!(column(customers, "age").nullable);
    assert_eq!(column(customers, "email").collation, "NOCASE");
    assert_eq!(column(customers, "note").collation, "BINARY");
    assert_eq!(
        column(customers, "lower_email").generated.as_deref(),
        Some("lower(Email)")
    );
    assert_eq!(
        column(customers, "twice").generated.as_deref(),
        Some("age * 2")
    );
    assert_eq!(column(customers, "age").generated, None);

    let odd = relation(&catalog, "odd 'name");
    assert!(odd.strict && !odd.has_rowid);
    assert_eq!(odd.rowid_alias, None);
    assert_eq!(odd.primary_key, [1, 0]);
    assert_eq!(column(odd, "a").class, TypeClass::Other);
    // The primary key of a table without row id cannot be NULL.
    assert!(!column(odd, "a").nullable && !column(odd, "b").nullable);
}

#[test]
fn the_row_id_has_another_name_where_the_engine_says_so() {
    let check = |columns: &str, alias: Option<&str>, nullable: bool| {
        let ddl = format!("CREATE TABLE t ({columns}");
        let conn = load::memory(&ddl).unwrap();
        let catalog = super::catalog(&conn, "x").unwrap();
        let t = relation(&catalog, "t");
        let found = t.rowid_alias.and_then(|i| t.column(i)).map(|c| &*c.key);
        assert_eq!(found, alias, "{columns}");
        assert_eq!(t.columns[0].nullable, nullable, "{columns}");
        if t.has_rowid {
            // The engine names the column `rowid` stands for.
            let statement = conn.prepare("SELECT rowid FROM t").unwrap();
            assert_eq!(statement.column_name(0).unwrap(), alias.unwrap_or("rowid"));
        }
    };
    check("id INTEGER PRIMARY KEY)", Some("id"), false);
    check(
        "id integer primary key autoincrement, b)",
        Some("id"),
        false,
    );
    check("id INTEGER, b, PRIMARY KEY (id))", Some("id"), false);
    check("id INTEGER, b, PRIMARY KEY (id DESC))", Some("id"), false);
    check("id INTEGER UNIQUE PRIMARY KEY)", Some("id"), false);
    check("id INTEGER PRIMARY KEY DESC)", None, true);
    check("id INT PRIMARY KEY)", None, true);
    check("id BIGINT PRIMARY KEY)", None, true);
    check("id TEXT UNIQUE PRIMARY KEY)", None, true);
    check("id INTEGER, b, PRIMARY KEY (id, b))", None, true);
    check("id INTEGER PRIMARY KEY) WITHOUT ROWID", None, false);
    check("id INTEGER)", None, true);
}

#[test]
fn unique_keys() {
    let check = |ddl: &str, expected: &[&str]| {
        let catalog = load(ddl);
        let t = relation(&catalog, "t");
        let names = |indexes: &[u16]| -> String {
            let names = indexes.iter().map(|i| &*t.column(*i).unwrap().name);
            names.collect::<Vec<_>>().join(",")
        };
        let mut found: Vec<String> = (t.unique_keys.as_ref().unwrap().iter())
            .map(|key| {
                let name = key.name.as_deref().unwrap_or("-");
                let sort = match key.plain {
                    true => "plain".to_owned(),
                    false => format!("equal [{}]", names(&key.equal)),
                };
                format!(
                    "{name} {} [{}] {sort}",
                    names(&key.columns),
                    names(&key.filled)
                )
            })
            .collect();
        found.sort();
        assert_eq!(found, expected, "{ddl}");
    };
    check(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a)",
        &["- id [] plain"],
    );
    check("CREATE TABLE t (a, b)", &[]);
    check(
        "CREATE TABLE t (id INT PRIMARY KEY DESC, a UNIQUE DEFAULT 3, b DEFAULT NULL, c, UNIQUE (c, b))",
        &["- a [a] plain", "- c,b [] plain", "- id [] plain"],
    );
    check(
        "CREATE TABLE t (a, b, PRIMARY KEY (b, a)) WITHOUT ROWID",
        &["- b,a [] plain"],
    );
    check(
        "CREATE TABLE t (a TEXT COLLATE NOCASE, b TEXT, \"c d\", e);
         CREATE UNIQUE INDEX one ON t (a); CREATE UNIQUE INDEX two ON t (a COLLATE BINARY);
         CREATE UNIQUE INDEX three ON t (lower(b), a DESC); CREATE UNIQUE INDEX four ON t (b) WHERE [c d] > 1;
         CREATE INDEX five ON t (e);",
        &[
            "four b,c d [] equal [b]",
            "one a [] plain",
            "three a,b [] equal [a]",
            "two a [] equal []",
        ],
    );
}

#[test]
fn foreign_keys_in_order_of_their_ids() {
    let catalog = load(
        "CREATE TABLE p (a, b, PRIMARY KEY (a, b)); CREATE TABLE q (id INTEGER PRIMARY KEY);
         CREATE TABLE c (x, y, z REFERENCES Q, w REFERENCES gone(k), FOREIGN KEY (y, x) REFERENCES p (b, a), FOREIGN KEY (x, y) REFERENCES p);",
    );
    let mut keys: Vec<_> = relation(&catalog, "c")
        .foreign_keys
        .iter()
        .map(|k| {
            format!(
                "{} -> {}({})",
                k.columns.join(","),
                k.table,
                k.references.join(",")
            )
        })
        .collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "w -> gone(k)",
            "x,y -> p(a,b)",
            "y,x -> p(b,a)",
            "z -> Q(id)"
        ]
    );
}

#[test]
fn what_foreign_keys_do() {
    let catalog = load(
        "CREATE TABLE p (a PRIMARY KEY);
         CREATE TABLE c (u REFERENCES p ON DELETE CASCADE ON UPDATE SET NULL, v REFERENCES p ON UPDATE SET DEFAULT ON DELETE RESTRICT,
             w REFERENCES p ON DELETE NO ACTION ON UPDATE CASCADE, x REFERENCES p, FOREIGN KEY (x) REFERENCES p ON DELETE SET NULL);",
    );
    let mut keys: Vec<_> = relation(&catalog, "c")
        .foreign_keys
        .iter()
        .map(|k| {
            assert_eq!(k.schema, "main");
            format!("{} {:?} {:?}", k.columns[0], k.on_delete, k.on_update)
        })
        .collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "u Cascade SetNull",
            "v Refuse SetDefault",
            "w Refuse Cascade",
            "x Refuse Refuse",
            "x SetNull Refuse"
        ]
    );
}

#[test]
fn triggers_and_what_sets_them_off() {
    let catalog = load(
        "CREATE TABLE T (a, b); CREATE TABLE u (a); CREATE VIEW v AS SELECT a FROM t;
         CREATE TRIGGER \"After Insert\" BEFORE DELETE ON t BEGIN INSERT INTO u VALUES (1); END;
         CREATE TRIGGER ins INSERT ON t WHEN NEW.a > 1 BEGIN DELETE FROM u; END;
         CREATE TRIGGER upd AFTER UPDATE OF a, b ON t BEGIN SELECT 1; END;
         CREATE TRIGGER instead INSTEAD OF UPDATE ON v BEGIN SELECT 1; END;
         CREATE TRIGGER gone AFTER INSERT ON u BEGIN SELECT 1; END; DROP TRIGGER gone;
         ALTER TABLE u RENAME TO w;
         CREATE TRIGGER after_u AFTER INSERT ON w BEGIN SELECT 1; END; ALTER TABLE w RENAME TO x;",
    );
    let of = |name: &str| -> Vec<(&str, Vec<&str>)> {
        relation(&catalog, name)
            .triggers
            .iter()
            .map(|t| {
                assert_eq!(t.schema, "main");
                (t.function.as_str(), t.on.iter().map(|c| c.name()).collect())
            })
            .collect()
    };
    assert_eq!(
        of("t"),
        [
            ("After Insert", vec!["delete"]),
            ("ins", vec!["insert"]),
            ("upd", vec!["update"])
        ]
    );
    assert_eq!(of("v"), [("instead", vec!["update"])]);
    assert_eq!(of("x"), [("after_u", vec!["insert"])]);
    assert!(catalog.function("main.\"after insert\"").is_some());
}

#[test]
fn constraints_that_replace_rows_are_triggers() {
    let catalog = load(
        "CREATE TABLE t (a UNIQUE ON CONFLICT REPLACE, b); CREATE TABLE u (a UNIQUE ON CONFLICT ABORT);",
    );
    assert!(relation(&catalog, "u").triggers.is_empty());
    let [only] = relation(&catalog, "t").triggers.as_slice() else {
        panic!("{:?}", relation(&catalog, "t").triggers);
    };
    assert_eq!(only.function, "replaced_rows");
    let on: Vec<_> = only.on.iter().map(|change| change.name()).collect();
    assert_eq!(on, ["insert", "update"]);
}

#[test]
fn views_keep_their_names_and_query() {
    let catalog = load(
        "CREATE TABLE t (a TEXT COLLATE NOCASE NOT NULL, b);
         CREATE VIEW v (x, \"y as (\") AS -- why
           SELECT a, b FROM t;
         CREATE VIEW w AS WITH c AS (SELECT a FROM t) SELECT * FROM c;
         CREATE VIEW broken AS SELECT * FROM gone;
         CREATE VIEW short (a, b) AS SELECT 1;",
    );
    let v = relation(&catalog, "v");
    assert_eq!(v.kind, RelationKind::View);
    let names: Vec<_> = v.columns.iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["x", "y as ("]);
    assert_eq!(
        v.definition.as_deref(),
        Some("-- why\n           SELECT a, b FROM t")
    );
    assert!(!v.has_rowid && v.columns.iter().all(|c| c.nullable));
    assert_eq!(v.columns[0].collation, UNKNOWN_COLLATION);
    assert_eq!(v.columns[0].class, TypeClass::Text);
    assert_eq!(
        relation(&catalog, "w").definition.as_deref(),
        Some("WITH c AS (SELECT a FROM t) SELECT * FROM c")
    );
    for name in ["broken", "short"] {
        let broken = relation(&catalog, name);
        assert!(
            broken.columns.is_empty() && broken.definition.is_some(),
            "{name}"
        );
    }
}

#[test]
fn virtual_shadow_and_system_tables_are_told_apart() {
    let catalog = load(
        "CREATE VIRTUAL TABLE notes USING fts5(body); CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1);
         CREATE TABLE s (id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO s DEFAULT VALUES;
         CREATE INDEX i ON s (id); ANALYZE;",
    );
    assert_eq!(
        uids(&catalog, RelationKind::Table),
        BTreeSet::from(["main.s"])
    );
    let system = uids(&catalog, RelationKind::System);
    for name in [
        "main.sqlite_schema",
        "main.sqlite_sequence",
        "main.sqlite_stat1",
    ] {
        assert!(system.contains(name), "{name} in {system:?}");
    }
    let found = uids(&catalog, RelationKind::Virtual);
    for name in [
        "main.notes",
        "main.notes_content",
        "main.notes_data",
        "main.boxes",
        "main.boxes_node",
    ] {
        assert!(found.contains(name), "{name} in {found:?}");
    }
    // FTS5 hides columns named like the table and `rank`.
    let names: Vec<_> = relation(&catalog, "notes")
        .columns
        .iter()
        .map(|c| &*c.key)
        .collect();
    assert_eq!(names, ["body"]);
}

#[test]
fn a_virtual_table_without_its_module_has_no_columns() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(
        "CREATE TABLE t (a); PRAGMA writable_schema=ON;
         INSERT INTO sqlite_schema VALUES ('table', 'w', 'w', 0, 'CREATE VIRTUAL TABLE w USING nosuch(a)');
         PRAGMA writable_schema=RESET;",
    )
    .unwrap();
    let catalog = super::catalog(&conn, "x").unwrap();
    assert_eq!(relation(&catalog, "w").kind, RelationKind::Virtual);
    assert!(relation(&catalog, "w").columns.is_empty());
    assert_eq!(relation(&catalog, "t").columns.len(), 1);
}

#[test]
fn attached_and_temporary_relations_are_not_listed() {
    let conn = load::memory("CREATE TABLE t (a, b)").unwrap();
    conn.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_ATTACHED, 2)
        .unwrap();
    conn.execute_batch(
        "ATTACH ':memory:' AS o; CREATE TABLE o.elsewhere (a); CREATE TEMP TABLE t (c); CREATE TEMP VIEW z AS SELECT 1;",
    )
    .unwrap();
    let catalog = super::catalog(&conn, "x").unwrap();
    assert_eq!(
        uids(&catalog, RelationKind::Table),
        BTreeSet::from(["main.t"])
    );
    assert!(uids(&catalog, RelationKind::View).is_empty());
    assert_eq!(relation(&catalog, "t").columns.len(), 2);
}

#[test]
fn tables_called_like_pragmas_do_not_mislead() {
    let catalog = load(
        "CREATE TABLE pragma_table_list (schema, name, type, wr, strict);
         CREATE TABLE pragma_table_xinfo (name, type);",
    );
    assert_eq!(uids(&catalog, RelationKind::Table).len(), 2);
}

#[test]
fn dumps_load() {
    let catalog = load(
        "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n\
         CREATE TABLE c (id INTEGER PRIMARY KEY AUTOINCREMENT, p REFERENCES parent(id), t TEXT);\n\
         INSERT INTO c VALUES(1,7,unistr('a\\u000ab')),(2,8,replace('x\\n','\\n',char(10)));\n\
         CREATE TABLE parent (id INTEGER PRIMARY KEY);\n\
         ANALYZE sqlite_schema;\nINSERT INTO sqlite_stat1 VALUES('c','i','2 1');\n\
         DELETE FROM sqlite_sequence;\nINSERT INTO sqlite_sequence VALUES('c',2);\n\
         CREATE VIEW v AS SELECT id FROM c;\n\
         CREATE TRIGGER g AFTER INSERT ON c BEGIN SELECT 1; UPDATE c SET t = 'x;' WHERE id = new.id; END;\n\
         CREATE INDEX i ON c (t);\nCOMMIT;\n",
    );
    assert_eq!(uids(&catalog, RelationKind::Table).len(), 2);
    assert_eq!(uids(&catalog, RelationKind::View).len(), 1);
}

#[test]
fn alterations_are_followed() {
    let catalog = load(
        "CREATE TABLE a (x, y); CREATE VIEW v AS SELECT x FROM a;
         ALTER TABLE a RENAME TO b; ALTER TABLE b RENAME COLUMN x TO z;
         ALTER TABLE b ADD COLUMN g AS (z || ')'); ALTER TABLE b DROP COLUMN y;",
    );
    let b = relation(&catalog, "b");
    let names: Vec<_> = b.columns.iter().map(|c| &*c.key).collect();
    assert_eq!(names, ["z", "g"]);
    assert_eq!(column(b, "g").generated.as_deref(), Some("z || ')'"));
    let definition = relation(&catalog, "v").definition.as_deref();
    assert_eq!(definition, Some("SELECT z FROM \"b\""));
}

#[test]
fn what_reaches_outside_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.db");
    let path = path.display();
    let check = |statement: &str, action: &str| {
        let ddl = format!("CREATE TABLE t (a);\n\n{statement};");
        match catalog_from_ddl(&ddl, "x").unwrap_err() {
            IntrospectError::Load(LoadError::Refused {
                line: 3,
                action: found,
            }) => {
                assert_eq!(found, action, "{statement}");
            }
            other => panic!("{statement}: {other:?}"),
        }
    };
    check(&format!("ATTACH '{path}' AS o"), "ATTACH or VACUUM");
    check(&format!("VACUUM INTO '{path}'"), "ATTACH or VACUUM");
    check("SELECT load_extension('x')", "load_extension()");
    check("SELECT fts3_tokenizer('simple')", "fts3_tokenizer()");
    check("PRAGMA writable_schema=ON", "PRAGMA writable_schema");
    check(
        "PRAGMA temp_store_directory='/'",
        "PRAGMA temp_store_directory",
    );
    check("CREATE TEMP TABLE u (a)", "CREATE TEMP");
    check(
        "CREATE VIRTUAL TABLE u USING dbstat",
        "CREATE VIRTUAL TABLE … USING dbstat",
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn errors_name_the_line() {
    let error = catalog_from_ddl("CREATE TABLE t (a);\n\nCREATE TABLE t\n(a);", "x").unwrap_err();
    assert_eq!(error.to_string(), "line 3: table t already exists");
    let error = catalog_from_ddl("\nSELEC 1;", "x").unwrap_err();
    assert_eq!(error.to_string(), "line 2: near \"SELEC\": syntax error");
    let large = " ".repeat(load::MAX_SCRIPT_BYTES + 1);
    assert!(matches!(
        catalog_from_ddl(&large, "x"),
        Err(IntrospectError::Load(LoadError::TooLarge { .. }))
    ));
}

#[test]
fn many_rows_load_in_linear_time() {
    let mut ddl = String::from("CREATE TABLE t (a, b);BEGIN;");
    for i in 0..20_000 {
        ddl.push_str(&format!(
            "INSERT INTO t VALUES({i},'some text of a row');\n"
        ));
    }
    ddl.push_str("COMMIT;");
    assert_eq!(
        load(&ddl)
            .relations()
            .iter()
            .filter(|r| r.kind == RelationKind::Table)
            .count(),
        1
    );
}

#[test]
fn the_same_schema_has_the_same_version() {
    let ddl = "CREATE TABLE t (a); CREATE VIEW v AS SELECT a FROM t;";
    assert_eq!(load(ddl).version(), load(ddl).version());
    assert_ne!(load(ddl).version(), load("CREATE TABLE t (a);").version());
}

/// The engine looks through the whole schema for each question about it by name: such a question for each table takes the square of their
/// number.
#[test]
fn a_schema_is_looked_through_so_often_and_not_once_a_table() {
    let steps = |tables: usize| {
        let mut ddl = String::new();
        for n in 0..tables {
            ddl.push_str(&format!(
                "CREATE TABLE t{n} (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b TEXT); CREATE INDEX i{n} ON t{n} (b);
                 CREATE UNIQUE INDEX u{n} ON t{n} (lower(b)) WHERE a > 'x'; CREATE VIEW v{n} AS SELECT a FROM t{n};
                 CREATE TRIGGER g{n} AFTER INSERT ON t{n} BEGIN DELETE FROM t{n} WHERE b = new.a; END;
                 INSERT INTO t{n} VALUES (1, 'y', 'z');"
            ));
        }
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(&format!("BEGIN; {ddl} COMMIT; ANALYZE"))
            .unwrap();
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        conn.progress_handler(1, Some(count)).unwrap();
        let read = catalog(&conn, "wide").unwrap();
        assert_eq!(uids(&read, RelationKind::Table).len(), tables);
        taken.load(Ordering::Relaxed)
    };
    let (few, many) = (steps(100), steps(800));
    assert!(
        many < few * 12,
        "{few} steps, {many} for eight times as many"
    );
}
