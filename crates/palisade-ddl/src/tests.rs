//! Texts and the catalogs they give. Beside real servers: `palisade-postgres/tests/ddl.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use super::*;
use palisade::catalog::{ReferenceAction, Relation, RelationKind, TypeClass};

fn columns(relation: &Relation) -> Vec<String> {
    relation
        .columns
        .iter()
        .map(|c| {
            format!(
                "{} {}{}",
                c.name,
                c.type_name,
                if c.nullable { "" } else { " !" }
            )
        })
        .collect()
}

fn find<'c>(catalog: &'c Catalog, schema: &str, name: &str) -> &'c Relation {
    catalog
        .find(schema, name)
        .unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_dump_of_postgres() {
    let catalog = postgres(
        "\\restrict abc\n\
         SET statement_timeout = 0;\nSELECT pg_catalog.set_config('search_path', '', false);\n\
         CREATE SCHEMA app;\nALTER SCHEMA app OWNER TO x;\n\
         CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public;\nCOMMENT ON EXTENSION pg_trgm IS 'a; b';\n\
         CREATE TYPE app.mood AS ENUM (\n    'sad',\n    'ok'\n);\n\
         CREATE FUNCTION app.f(a integer, b integer DEFAULT 1) RETURNS TABLE(x integer, y text)\n    LANGUAGE sql AS $_$ SELECT 1; $_$;\n\
         CREATE TABLE app.users (\n    id integer NOT NULL,\n    mood app.mood DEFAULT 'ok'::app.mood NOT NULL,\n    n numeric(10,2),\n\
             twice integer GENERATED ALWAYS AS ((id * 2)) STORED,\n    CONSTRAINT c CHECK ((id > 0))\n);\n\
         ALTER TABLE app.users ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (\n    SEQUENCE NAME app.users_id_seq\n);\n\
         CREATE VIEW app.v AS\n SELECT u.id,\n    (u.mood)::text AS m,\n    count(*) AS n\n   FROM app.users u\n  GROUP BY u.id, u.mood;\n\
         COPY app.users (id, mood) FROM stdin;\n1\tCREATE TABLE x (a int);\n\\.\n\
         ALTER TABLE ONLY app.users\n    ADD CONSTRAINT users_pkey PRIMARY KEY (id);\n\
         CREATE INDEX i ON app.users USING btree (mood);\n\\unrestrict abc\n",
        "d",
    )
    .unwrap();
    let users = find(&catalog, "app", "users");
    assert_eq!(
        columns(users),
        [
            "id integer !",
            "mood app.mood !",
            "n numeric(10,2)",
            "twice integer"
        ]
    );
    assert_eq!(users.primary_key, [0]);
    assert_eq!(users.columns[1].class, TypeClass::Enum);
    assert_eq!(users.columns[3].generated.as_deref(), Some("(id * 2)"));
    let view = find(&catalog, "app", "v");
    assert_eq!(columns(view), ["id integer", "m text", "n bigint"]);
    assert!(
        view.definition
            .as_deref()
            .unwrap()
            .ends_with("GROUP BY u.id, u.mood")
    );
    assert_eq!(catalog.relations().len(), 2);
    assert_eq!(catalog.search_path(), ["public"]);
    let f = catalog
        .functions()
        .iter()
        .find(|f| f.uid == "app.f")
        .unwrap();
    assert!(f.kinds.table && (f.min_args, f.max_args) == (1, Some(2)));
    assert_eq!(f.columns, [["x", "y"]]);
    assert!(
        catalog
            .functions()
            .iter()
            .any(|f| f.uid == "public.similarity")
    );
}

#[test]
fn a_dump_of_mysql() {
    let catalog = mysql(
        "/*M!999999\\- enable the sandbox mode */ \n-- Host: x\n/*!40101 SET NAMES utf8mb4 */;\n\
         DROP TABLE IF EXISTS `users`;\n/*!40101 SET @saved_cs_client     = @@character_set_client */;\n\
         CREATE TABLE `users` (\n  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,\n  `name` varchar(50) DEFAULT NULL COMMENT 'it''s; (a)',\n\
           `mood` enum('sad, or','ok') CHARACTER SET latin1 COLLATE latin1_bin NOT NULL DEFAULT 'ok',\n\
           `twice` int(11) GENERATED ALWAYS AS (`id` * 2) STORED,\n  `at` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),\n\
           `secret` int(11) INVISIBLE DEFAULT -1,\n\
           PRIMARY KEY (`id`),\n  UNIQUE KEY `n` (`name`(10)),\n  KEY `f` (`mood`),\n\
           CONSTRAINT `up` FOREIGN KEY (`twice`) REFERENCES `users` (`id`) ON DELETE CASCADE\n\
         ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;\n\
         LOCK TABLES `users` WRITE;\nINSERT INTO `users` VALUES (1,'a;\\'b','ok');\nUNLOCK TABLES;\n\
         /*!50001 CREATE VIEW `v` AS SELECT\n 1 AS `id`,\n  1 AS `c` */;\n\
         DELIMITER ;;\nCREATE DEFINER=`root`@`localhost` FUNCTION `f`(a INT, b ENUM('x','y')) RETURNS int(11)\nBEGIN\n DECLARE x INT; RETURN 1;\nEND ;;\nDELIMITER ;\n\
         /*!50001 DROP VIEW IF EXISTS `v`*/;\n/*!50001 CREATE ALGORITHM=UNDEFINED */\n\
         /*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */\n\
         /*!50001 VIEW `v` AS select `users`.`id` AS `id`,count(0) AS `c` from `users` group by `users`.`id` */\n\
         /*!50002 WITH CASCADED CHECK OPTION */;\n",
        "shop",
    )
    .unwrap();
    let users = find(&catalog, "shop", "users");
    assert_eq!(
        columns(users),
        [
            "id int(10) unsigned !",
            "name varchar(50)",
            "mood enum('sad, or','ok') !",
            "twice int(11)",
            "at timestamp !"
        ]
    );
    assert_eq!(users.primary_key, [0]);
    assert_eq!(users.columns[1].collation, "utf8mb4_general_ci");
    assert_eq!(users.columns[2].collation, "latin1_bin");
    assert_eq!(users.columns[3].generated.as_deref(), Some("`id` * 2"));
    assert_eq!(users.foreign_keys[0].references, ["id"]);
    let view = find(&catalog, "shop", "v");
    assert_eq!(columns(view), ["id int(10) unsigned", "c "]);
    assert_eq!(
        view.definition.as_deref().unwrap(),
        "select `users`.`id` AS `id`,count(0) AS `c` from `users` group by `users`.`id`"
    );
    assert_eq!(catalog.search_path(), ["shop"]);
    let f = &catalog.functions()[0];
    assert_eq!(
        (f.uid.as_str(), f.min_args, f.max_args),
        ("shop.f", 2, Some(2))
    );
}

#[test]
fn parents_of_every_kind() {
    let catalog = postgres(
        "CREATE TABLE p (id int PRIMARY KEY, a text, at date) PARTITION BY RANGE (at);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
         CREATE TABLE p2 (id int NOT NULL, a text, at date);
         ALTER TABLE ONLY p ATTACH PARTITION p2 DEFAULT;
         CREATE TABLE c (b int, a text NOT NULL) INHERITS (p);
         ALTER TABLE p ADD COLUMN later int;
         CREATE TABLE l (LIKE c INCLUDING ALL, x int);
         CREATE TEMP TABLE gone (a int);",
        "d",
    )
    .unwrap();
    let shown = |name: &str| {
        let relation = find(&catalog, "public", name);
        let parents: Vec<_> = (relation.parents.iter())
            .map(|id| catalog.relation(*id).unwrap().name.clone())
            .collect();
        (
            columns(relation).join(", "),
            parents,
            relation.primary_key.clone(),
        )
    };
    let parent = || vec!["p".to_owned()];
    let own = "id integer !, a text, at date, later integer".to_owned();
    assert_eq!(shown("p1"), (own.clone(), parent(), vec![0]));
    assert_eq!(shown("p2"), (own, parent(), vec![0]));
    let inherited = "id integer !, a text !, at date, b integer, later integer".to_owned();
    assert_eq!(shown("c"), (inherited.clone(), parent(), vec![]));
    assert_eq!(
        shown("l"),
        (format!("{inherited}, x integer"), vec![], vec![])
    );
    assert_eq!(catalog.relations().len(), 5);
}

/// What a view's columns are called, or that it is not certain.
#[test]
fn columns_of_views() {
    let tables = "CREATE TABLE t (a int, b text); CREATE TABLE u (a int, c date);";
    for (query, expected) in [
        ("SELECT * FROM t", Some("a integer, b text")),
        ("SELECT t.*, c FROM t, u", Some("a integer, b text, c date")),
        (
            "SELECT x.* FROM t AS x (q) JOIN u ON u.a = q",
            Some("q integer, b text"),
        ),
        ("SELECT a z, b \"Z z\" FROM t", Some("z integer, Z z text")),
        (
            "SELECT lower(b), a::bigint AS n FROM t",
            Some("lower , n bigint"),
        ),
        (
            "WITH w AS (SELECT a FROM t) SELECT * FROM w",
            Some("a integer"),
        ),
        (
            "SELECT a AS one FROM t UNION SELECT a FROM u",
            Some("one integer"),
        ),
        ("(SELECT a FROM t) UNION ALL SELECT 1", Some("a integer")),
        ("VALUES (1, 2)", Some("column1 , column2 ")),
        (
            "SELECT a IS DISTINCT FROM 1 AS same, b FROM t",
            Some("same , b text"),
        ),
        (
            "SELECT * FROM (SELECT b FROM t) AS s, LATERAL (SELECT a FROM u) AS r",
            Some("b text, a integer"),
        ),
        (
            "SELECT t.a AS x FROM (t JOIN u ON ((t.a = u.a)))",
            Some("x integer"),
        ),
        ("SELECT a AS x FROM t JOIN u USING (a)", Some("x ")),
        ("SELECT * FROM t JOIN u USING (a)", None),
        ("SELECT a + 1 FROM t", None),
        ("SELECT a, a FROM t", None),
        ("SELECT * FROM nothing", None),
        ("SELECT CASE WHEN true THEN 1 END FROM t", None),
    ] {
        let text = format!("{tables} CREATE VIEW v AS {query};");
        match (postgres(&text, "d"), expected) {
            (Ok(catalog), Some(expected)) => {
                let view = find(&catalog, "public", "v");
                assert_eq!(columns(view).join(", "), expected, "{query}");
                assert_eq!(view.definition.as_deref(), Some(query));
            }
            (Err(error), None) => assert_eq!(error.line(), 1, "{query}"),
            (Ok(catalog), None) => panic!("{query}: {:?}", columns(find(&catalog, "public", "v"))),
            (Err(error), Some(_)) => panic!("{query}: {error}"),
        }
    }
}

#[test]
fn what_is_not_understood_is_an_error_with_its_line() {
    for (text, part) in [
        (
            "CREATE TABLE t (a int);\n\nDO $$ BEGIN END $$;",
            "line 3: `DO` is not",
        ),
        (
            "CREATE TABLE t (a int WITH MAGIC);",
            "line 1: expected a constraint, found `WITH`",
        ),
        (
            "CREATE TABLE t (a int)\n;\nCREATE TABLE t (b int);",
            "line 3: relation `t` is there",
        ),
        ("CREATE TABLE c () INHERITS (p);", "there is no parent `p`"),
        (
            "SET search_path = '';\nCREATE TABLE t (a int);",
            "line 2: `t` is in no schema",
        ),
        (
            "ALTER TABLE t ADD COLUMN a int;",
            "there is no relation `t`",
        ),
        (
            "CREATE TABLE t (a int);\nCREATE RULE \"_RETURN\" AS ON SELECT TO t DO INSTEAD SELECT 1 AS a;",
            "line 2: a rule",
        ),
        (
            "CREATE SCHEMA s CREATE TABLE t (a int);",
            "a schema made together",
        ),
        ("SELECT a INTO t FROM u;", "`SELECT INTO`"),
        (
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; DROP FUNCTION f();",
            "`DROP FUNCTION`",
        ),
        (
            "CREATE GADGET x;",
            "expected what to create, found `GADGET`",
        ),
    ] {
        let message = postgres(text, "d").unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
    for (text, part) in [
        (
            "CREATE TABLE t (a int MAGIC);",
            "expected an attribute of the column, found `MAGIC`",
        ),
        (
            "CREATE TABLE t (a int);\nRENAME TABLE t TO u;",
            "line 2: `RENAME`",
        ),
        ("ALTER TABLE t ADD a int;", "there is no table `t`"),
    ] {
        let message = mysql(text, "d").unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}

/// A view's names mean what they meant when it was made, or no session can read it.
#[test]
fn names_in_views_mean_what_they_meant() {
    let made = "CREATE SCHEMA app; CREATE TABLE app.t (a int); CREATE TABLE public.u (a int); SET search_path = app, public;\n";
    for (text, is_error) in [
        ("CREATE VIEW public.v AS SELECT a FROM app.t", false),
        ("CREATE VIEW public.v AS SELECT a FROM t", true),
        (
            "CREATE VIEW public.v AS SELECT a FROM t; ALTER DATABASE d SET search_path = app",
            false,
        ),
        ("CREATE VIEW public.v AS SELECT a FROM u", false),
        // Another table of the name comes before it, later.
        (
            "CREATE VIEW public.v AS SELECT a FROM u; CREATE TABLE app.u (a int); ALTER DATABASE d SET search_path = app, public",
            true,
        ),
        (
            "CREATE FUNCTION app.f(int) RETURNS int LANGUAGE sql AS ''; CREATE VIEW public.v AS SELECT f(1) AS a FROM u",
            true,
        ),
        (
            "CREATE VIEW public.v AS SELECT a FROM t; CREATE OR REPLACE VIEW public.v AS SELECT a FROM app.t",
            false,
        ),
    ] {
        let text = format!("{made}{text};");
        let read = postgres(&text, "d");
        assert_eq!(
            read.as_ref().err().map(DdlError::line),
            is_error.then_some(2),
            "{text}"
        );
        let Partial { catalog, problems } = lenient(Dialect::Postgres, &text, "d").unwrap();
        assert_eq!(problems.len(), usize::from(is_error), "{text}");
        assert_eq!(
            find(&catalog, "public", "v").definition.is_none(),
            is_error,
            "{text}"
        );
    }
}

fn armed(relation: &Relation) -> Vec<String> {
    (relation.triggers.iter())
        .map(|t| {
            let on = t.on.iter().map(|c| c.name().to_owned());
            let columns = t.columns.iter().map(|column| format!("of {column}"));
            let events: Vec<String> = on.chain(columns).collect();
            format!("{}.{} {}", t.schema, t.function, events.join(" "))
        })
        .collect()
}

/// In the shapes of `pg_dump`; beside a server: `palisade-postgres/tests/ddl.rs`.
#[test]
fn triggers_of_a_dump_of_postgres() {
    let catalog = postgres(
        "SELECT pg_catalog.set_config('search_path', '', false);\n\
         CREATE FUNCTION app.fires() RETURNS trigger\n    LANGUAGE plpgsql\n    AS $$BEGIN INSERT INTO x VALUES (1); RETURN NULL; END$$;\n\
         CREATE TABLE app.users (\n    id integer NOT NULL\n);\nCREATE TABLE app.\"on\" (\n    a integer\n);\n\
         CREATE TRIGGER words BEFORE INSERT OR UPDATE OF id ON app.users FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger('x', 'pg_catalog.english', 'y');\n\
         CREATE TRIGGER fires AFTER DELETE OR TRUNCATE ON app.users FOR EACH STATEMENT EXECUTE FUNCTION app.fires();\n\
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON app.\"on\" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION app.fires();\n\
         ALTER TABLE app.\"on\" DISABLE TRIGGER late;\n\
         CREATE RULE \"Noted\" AS\n    ON UPDATE TO app.\"on\" DO INSTEAD  INSERT INTO app.users (id)\n  VALUES (new.a);\n\
         CREATE TRIGGER nowhere AFTER INSERT ON app.passing EXECUTE FUNCTION app.fires();\n",
        "d",
    )
    .unwrap();
    assert_eq!(
        armed(find(&catalog, "app", "users")),
        [
            "app.fires delete truncate",
            "pg_catalog.tsvector_update_trigger insert update of id"
        ]
    );
    assert_eq!(armed(find(&catalog, "app", "on")), ["app.Noted update"]);
    // What a trigger is about has another name, and another column may have that.
    let renamed = postgres(
        "CREATE TABLE t (a integer, b integer);\n\
         CREATE TRIGGER fires AFTER UPDATE OF b OR DELETE ON t EXECUTE FUNCTION f();\n\
         ALTER TABLE t RENAME COLUMN a TO c;\n",
        "d",
    )
    .unwrap();
    assert_eq!(
        armed(find(&renamed, "public", "t")),
        ["public.f update delete"]
    );
    assert!(catalog.function("app.fires").is_some());
    assert!(catalog.function("app.\"Noted\"").is_some());
}

/// In the shapes of `mysqldump`; beside a server: `palisade-testkit/tests/catalog/mysql_ddl.rs`.
#[test]
fn triggers_of_a_dump_of_mysql() {
    let catalog = mysql(
        "CREATE TABLE `t` (\n  `a` int DEFAULT NULL,\n  `up` int DEFAULT NULL,\n  KEY `up` (`up`),\n\
           CONSTRAINT `k` FOREIGN KEY (`up`) REFERENCES `elsewhere`.`t` (`a`) ON DELETE SET NULL ON UPDATE CASCADE\n) ENGINE=InnoDB;\n\
         /*!50003 SET @saved_sql_mode       = @@sql_mode */ ;\n\
         /*!50003 SET sql_mode              = 'ANSI_QUOTES' */ ;\n\
         DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`trigger`@`%`*/ /*!50003 TRIGGER \"on\" BEFORE UPDATE ON \"t\" FOR EACH ROW BEGIN\n\
           IF NEW.a > 1 THEN SET NEW.a = 'x;'; END IF; /* ; */\nEND */;;\nDELIMITER ;\n\
         /*!50003 SET sql_mode              = @saved_sql_mode */ ;\n\
         CREATE TRIGGER `d`.`gone` AFTER INSERT ON `t` FOR EACH ROW DELETE FROM u;\n/*!50032 DROP TRIGGER IF EXISTS gone */;\n\
         CREATE TRIGGER many AFTER INSERT OR DELETE ON t FOR EACH ROW FOLLOWS gone SET @a = 1;\n\
         CREATE TRIGGER odd AFTER MERGE ON t FOR EACH ROW SET @a = 1;\n",
        "d",
    )
    .unwrap();
    let t = find(&catalog, "d", "t");
    assert_eq!(
        armed(t),
        [
            "d.many insert delete",
            "d.odd insert update delete truncate",
            "d.on update"
        ]
    );
    let key = &t.foreign_keys[0];
    assert_eq!(
        (key.schema.as_str(), key.table.as_str()),
        ("elsewhere", "t")
    );
    assert_eq!(
        (key.on_delete, key.on_update),
        (ReferenceAction::SetNull, ReferenceAction::Cascade)
    );
}

/// A table whose trigger was not understood cannot be read.
#[test]
fn a_trigger_that_is_not_understood_hides_its_table() {
    let text = "CREATE TABLE t (a int, b int); CREATE TABLE u (a int);\n\
                CREATE TRIGGER x AFTER INSERT ON t DO MAGIC;";
    assert_eq!(postgres(text, "d").unwrap_err().line(), 2);
    let Partial { catalog, problems } = lenient(Dialect::Postgres, text, "d").unwrap();
    assert_eq!(problems.len(), 1);
    let t = find(&catalog, "public", "t");
    assert_eq!((t.kind, &t.definition), (RelationKind::View, &None));
    assert_eq!(find(&catalog, "public", "u").kind, RelationKind::Table);
    let unnamed = text.replace("ON t", "ON 5");
    assert_eq!(
        lenient(Dialect::Postgres, &unnamed, "d")
            .unwrap_err()
            .line(),
        2
    );
}

/// Going on loses no relation: what is not understood cannot be read.
#[test]
fn going_on_loses_no_relation() {
    let text = "CREATE TABLE t (a int WITH MAGIC);\nCREATE VIEW v AS SELECT 1 + 1;\nDROP MAGIC x;\nCREATE TABLE u (a int);";
    assert_eq!(lenient(Dialect::Postgres, text, "d").unwrap_err().line(), 3);
    let text = text.replace("DROP", "SHAKE") + "ALTER TABLE u MAGIC;";
    let Partial { catalog, problems } = lenient(Dialect::Postgres, &text, "d").unwrap();
    let lines: Vec<_> = problems.iter().map(DdlError::line).collect();
    assert_eq!(lines, [1, 2, 3, 4]);
    for name in ["t", "u", "v"] {
        let relation = find(&catalog, "public", name);
        assert_eq!(relation.kind, RelationKind::View, "{name}");
        assert_eq!(relation.definition, None, "{name}");
    }
    assert_eq!(
        lenient(Dialect::Sqlite, "SELECT 1", "d")
            .unwrap_err()
            .line(),
        1
    );
}

#[test]
fn tables_of_mysql_change() {
    let catalog = mysql(
        "SET sql_mode = 'ANSI_QUOTES';
         CREATE TABLE \"t\" (a int, b varchar(5));
         SET sql_mode = DEFAULT;
         ALTER TABLE t ADD PRIMARY KEY (a), MODIFY a int NOT NULL AUTO_INCREMENT, ADD c json FIRST, CHANGE b d text;
         ALTER TABLE t DROP COLUMN c, AUTO_INCREMENT=5;
         CREATE TABLE far (a int) ENGINE=FEDERATED CONNECTION='x';
         CREATE TABLE l LIKE t; CREATE TABLE made (z int) AS SELECT a, 1 AS one FROM t;
         CREATE PROCEDURE p(IN x int) SELECT 1;",
        "d",
    )
    .unwrap();
    let t = find(&catalog, "d", "t");
    assert_eq!(columns(t), ["a int !", "d text"]);
    assert_eq!(t.primary_key, [0]);
    assert_eq!(columns(find(&catalog, "d", "l")), columns(t));
    assert_eq!(find(&catalog, "d", "far").kind, RelationKind::Virtual);
    assert_eq!(
        columns(find(&catalog, "d", "made")),
        ["z int", "a int", "one "]
    );
    assert!(catalog.functions()[0].kinds.procedure);
    // Names of relations differ in case.
    assert!(catalog.find("d", "T").is_none());
}

/// Whatever a text lacks, reading it ends, and a relation that is made is there or the text is refused.
#[test]
fn a_word_less_loses_no_relation() {
    for (dialect, text) in [
        (
            Dialect::Postgres,
            "CREATE TABLE r (a int DEFAULT (1 + 2) NOT NULL, b numeric(10,2)[] COLLATE \"C\", c text GENERATED ALWAYS AS (a || 'x') STORED, \
             CONSTRAINT k PRIMARY KEY (a), FOREIGN KEY (b) REFERENCES s.t (x, y) ON DELETE SET NULL) PARTITION BY RANGE (a)",
        ),
        (
            Dialect::Postgres,
            "CREATE VIEW r (a, b) WITH (security_barrier) AS WITH w AS (SELECT 1 AS x) SELECT w.x, y.* FROM w JOIN (VALUES (1)) y (z) ON ((w.x = y.z)) WITH CHECK OPTION",
        ),
        (
            Dialect::Mysql,
            "CREATE TABLE r (`a` int unsigned NOT NULL DEFAULT '1' COMMENT 'x', b enum('p','q') CHARACTER SET latin1 COLLATE latin1_bin, \
             PRIMARY KEY (`a`), CONSTRAINT f FOREIGN KEY (b) REFERENCES t (`c`) ON UPDATE CASCADE) ENGINE=InnoDB COMMENT='x' COLLATE=utf8mb4_bin",
        ),
        (
            Dialect::Mysql,
            "CREATE ALGORITHM=MERGE DEFINER=`x`@`y` SQL SECURITY INVOKER VIEW r AS SELECT 1 AS a, count(*) FROM (SELECT 2) s WITH LOCAL CHECK OPTION",
        ),
    ] {
        let words: Vec<std::ops::Range<usize>> = {
            let statement = Lexer::new(text, dialect).statement().unwrap().unwrap();
            statement.tokens.iter().map(|t| t.start..t.end).collect()
        };
        let name = words.iter().position(|w| &text[w.clone()] == "r").unwrap();
        let schema = match dialect {
            Dialect::Mysql => "d",
            Dialect::Postgres | Dialect::Sqlite => "public",
        };
        for (index, word) in words.iter().enumerate() {
            let without = format!("{} {}", &text[..word.start], &text[word.end..]);
            let cut = &text[..word.end];
            for changed in [without.as_str(), cut] {
                let Ok(read) = lenient(dialect, changed, "d") else {
                    continue;
                };
                let found = read.catalog.find(schema, "r").is_some();
                let is_named = index > name || index == name && changed == cut;
                assert!(found || !is_named, "{changed}");
            }
        }
    }
}
