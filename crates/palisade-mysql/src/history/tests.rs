//! Scripts as texts, and statuses of InnoDB.

use palisade::{
    catalog::{ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass},
    dialect::Dialect,
    past::{HistoryOrder, Label, NumberRange},
};

use super::{
    LastLabel, Sealed, print_seen,
    script::*,
    status::{Committed, read_label, read_status},
    take_companions, triggers, write_script,
};
use crate::introspect::Product;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn table<'a>(columns: &'a [String]) -> HistoryTable<'a> {
    HistoryTable {
        schema: "shop",
        table: "orders",
        columns,
        has_key: true,
    }
}

#[test]
fn scripts_are_refused_with_what_to_do() {
    let (columns, taken) = (names(&["id", "v"]), names(&["id", "Palisade_To"]));
    let base = table(&columns);
    let long = "x".repeat(48);
    for (table, advice) in [
        (
            HistoryTable {
                has_key: false,
                ..base
            },
            "no primary key",
        ),
        (
            HistoryTable {
                columns: &taken,
                ..base
            },
            "rename that first",
        ),
        (
            HistoryTable {
                table: &long,
                ..base
            },
            "64 characters",
        ),
        (
            HistoryTable {
                table: "ö", ..base
            },
            "beyond ASCII",
        ),
    ] {
        let fault = enable_script(&table, None).unwrap_err().to_string();
        assert!(fault.contains(advice), "{fault}");
        let fault = prune_script(&table, 9, &[]).unwrap_err().to_string();
        assert!(fault.contains(advice), "{fault}");
    }
    for account in ["agent", "@%", "agent@", "a\\b@%", "a\n@%"] {
        let fault = enable_script(&base, Some(account)).unwrap_err();
        assert_eq!(fault, HistoryFault::BadAccount(account.to_owned()));
    }
}

#[test]
fn history_is_of_the_connections_database() {
    let catalog = palisade_ddl::mysql("CREATE TABLE t (id int PRIMARY KEY)", "shop").unwrap();
    let relation = catalog.find("shop", "t").unwrap();
    let enable = HistoryOrder::Enable { account: None };
    let write = |product, own| write_script(product, own, relation, &enable);
    assert!(write(Product::MariaDb, "shop").is_ok());
    assert!(write(Product::MySql, "shop").is_ok());
    for product in [Product::MariaDb, Product::MySql] {
        let refused = write(product, "desk").unwrap_err();
        assert!(refused.contains("name a connection to `shop`"), "{refused}");
    }
    for (dialect, text, is_written) in [
        (Dialect::Mysql, "e:9:3", true),
        (Dialect::Sqlite, "1:2", false),
    ] {
        let label = Label::parse(dialect, text).unwrap();
        let order = HistoryOrder::Prune(label);
        for product in [Product::MariaDb, Product::MySql] {
            let script = write_script(product, "shop", relation, &order);
            assert_eq!(script.is_ok(), is_written, "{text}");
        }
    }
}

#[test]
fn names_are_quoted_everywhere() {
    let columns = names(&["i`d"]);
    let odd = HistoryTable {
        schema: "a`b",
        table: "c'd\n--\\",
        ..table(&columns)
    };
    let script = enable_script(&odd, Some("o'r@l@%")).unwrap();
    assert!(script.starts_with("-- Gives a`b.c'd --\\ a history."));
    assert!(script.contains(
        "SELECT `i``d`, `palisade_from`, `palisade_to` FROM `a``b`.`c'd\n--\\` FOR SYSTEM_TIME ALL"
    ));
    assert!(script.contains("VALUES (CONVERT(X'6327640A2D2D5C' USING utf8mb4)"));
    // As InnoDB has it: `a@0060b/c@0027d@000a@002d@002d@005c`.
    assert!(script.contains("s.NAME = 'a@0060b/c@0027d@000a@002d@002d@005c'"));
    assert!(script.contains("TO 'o''r@l'@'%';"));
    assert_eq!(
        seal_statement("a`b"),
        "UPDATE `a``b`.`palisade_history.seal` SET n = n + 1 WHERE id = 1"
    );
    // A statement within a literal is quoted once more.
    let quoted = HistoryTable {
        table: "c'd",
        ..table(&columns)
    };
    let script = prune_script(&quoted, 9, &[3, 5].map(NumberRange::one)).unwrap();
    assert!(script.contains("'DELETE HISTORY FROM `shop`.`c''d`'"));
    assert!(script.contains("VALUES (''c''''d''"));
    assert!(script.contains("(palisade_to >= 9 OR palisade_to IN (3, 5))"));
}

#[test]
fn a_table_is_registered_once_it_has_versions() {
    let columns = names(&["id"]);
    let script = enable_script(&table(&columns), None).unwrap();
    let place = |words: &str| script.find(words).unwrap();
    assert!(place("ADD SYSTEM VERSIONING") < place("CREATE OR REPLACE ALGORITHM"));
    assert!(place("CREATE OR REPLACE ALGORITHM") < place("VALUES ('orders'"));
    assert!(!script.contains("GRANT ") && !script.contains("AS OF"));
    let script = disable_script(&table(&columns));
    let place = |words: &str| script.find(words).unwrap();
    assert!(place("DELETE FROM") < place("DROP VIEW") && place("DROP VIEW") < place("DROP SYSTEM"));
}

#[test]
fn a_companion_has_all_columns_of_its_table() {
    let column = |name: &&str| ColumnDef {
        name: (*name).to_owned(),
        class: TypeClass::Integer,
        type_name: "int".to_owned(),
        nullable: false,
        collation: String::new(),
        generated: None,
        stored: false,
        filled: DefaultValue::Null,
    };
    let def = |schema: &str, name: &str, kind, columns: &[&str]| {
        RelationDef::new(schema, name, kind, columns.iter().map(column).collect())
    };
    let states = ["id", "v", "palisade_from", "palisade_to"];
    let keeping = |product| match product {
        Product::MariaDb => RelationKind::View,
        Product::MySql => RelationKind::Table,
    };
    for (product, other) in [
        (Product::MariaDb, Product::MySql),
        (Product::MySql, Product::MariaDb),
    ] {
        let other = vec![def("d", "palisade_history_t", keeping(other), &states)];
        assert!(take_companions(&mut other.clone(), "d", product).is_empty());
    }
    for (view, is_found) in [
        (
            def("d", "palisade_history_t", RelationKind::View, &states),
            true,
        ),
        (
            def("e", "palisade_history_t", RelationKind::View, &states),
            false,
        ),
        (
            def("d", "Palisade_history_t", RelationKind::View, &states),
            false,
        ),
        (
            def("d", "palisade_history_t", RelationKind::View, &states[..2]),
            false,
        ),
        (
            def(
                "d",
                "palisade_history_t",
                RelationKind::View,
                &["id", "palisade_from", "palisade_to"],
            ),
            false,
        ),
    ] {
        let mut relations = vec![
            def(
                "d",
                "palisade_history.spans",
                RelationKind::Table,
                &["mark"],
            ),
            view.clone(),
            def("d", "t", RelationKind::Table, &["id", "v"]),
        ];
        let found = take_companions(&mut relations, "d", Product::MariaDb);
        assert_eq!(found.len(), usize::from(is_found), "{view:?}");
        // In the catalog there is neither.
        let left: Vec<&str> = relations.iter().map(|def| def.name.as_str()).collect();
        assert_eq!(left, ["t"]);
    }
}

#[test]
fn triggers_write_what_became_of_a_row() {
    let sql = "CREATE TABLE `c'd``e` (`i``d` int, v varchar(9), PRIMARY KEY (`i``d`)); \
               CREATE TABLE child (id int PRIMARY KEY, up int, FOREIGN KEY (up) REFERENCES other (id) ON DELETE SET NULL); \
               CREATE TABLE other (id int PRIMARY KEY); CREATE VIEW seen AS SELECT id FROM other;";
    let catalog = palisade_ddl::mysql(sql, "a`b").unwrap();
    let relation = |name: &str| catalog.find("a`b", name).unwrap();
    let odd = relation("c'd`e");
    let script = triggers::enable_script(odd, Some("o'r@l@%")).unwrap();
    for part in [
        "-- Gives a`b.c'd`e a history.",
        "SET NAMES utf8mb4;\nUSE `a``b`;\n",
        "CREATE TRIGGER `palisade_history_c'd``e_update` AFTER UPDATE ON `c'd``e` FOR EACH ROW\n",
        "UPDATE `palisade_history_c'd``e` SET palisade_to = palisade_number \
         WHERE `palisade_history_c'd``e`.`i``d` = OLD.`i``d` AND `palisade_history_c'd``e`.palisade_to = 18446744073709551615;",
        "(`i``d`, `v`, palisade_from, palisade_to) VALUES (NEW.`i``d`, NEW.`v`, palisade_number, 18446744073709551615);",
        "PRIMARY KEY (`i``d`, palisade_to)",
        "`palisade_history.state`('c''d`e', 'a@0060b/c@0027d@0060e', 'a@0060b/palisade_history_c@0027d@0060e')",
        "GRANT EXECUTE ON FUNCTION `palisade_history.place` TO 'o''r@l'@'%';",
    ] {
        assert!(script.contains(part), "`{part}` is not in\n{script}");
    }
    // What is kept in the database names no database: a dump may be restored under another name.
    let kept: Vec<&str> = script.split("DELIMITER //\n").skip(1).collect();
    assert_eq!(kept.len(), 2);
    assert!(
        kept.iter()
            .all(|part| !part.split("END//").any(|one| one.contains("`a``b`")))
    );
    // The table is registered last, under its lock.
    let place = |words: &str| script.find(words).unwrap();
    assert!(place("LOCK TABLES") < place("CREATE TRIGGER"));
    assert!(place("CREATE TRIGGER") < place("SET @palisade_copied"));
    assert!(place("SET @palisade_copied") < place("WHERE @palisade_copied >= 0"));
    assert!(place("WHERE @palisade_copied >= 0") < place("UNLOCK TABLES"));
    let active = [3, 5].map(NumberRange::one);
    let script = triggers::prune_script(odd, 9, &active).unwrap();
    assert!(
        script.contains("pruned = '9:3,5', pruned_count = 7"),
        "{script}"
    );
    assert!(
        script.contains("palisade_to < 9 AND NOT (palisade_to IN (3, 5))"),
        "{script}"
    );
    for (name, fault) in [
        ("child", HistoryFault::Cascade("other".to_owned())),
        ("seen", HistoryFault::NoTable),
    ] {
        assert_eq!(triggers::enable_script(relation(name), None), Err(fault));
    }
    for (trigger, is_ours) in [
        ("palisade_history_t_insert", true),
        ("palisade_history_u_insert", false),
        ("palisade_history_t_other", false),
        ("palisade_history_t", false),
    ] {
        assert_eq!(triggers::keeps_history(trigger, "t"), is_ours, "{trigger}");
    }
}

#[test]
fn a_label_is_the_same_until_more_than_its_seal_is_written() {
    let committed = |next, active: &[u64]| Committed {
        next,
        active: active.to_vec(),
    };
    let last = LastLabel::default();
    assert_eq!(last.get(), None);
    last.put(Sealed {
        epoch: "e".to_owned(),
        committed: committed(9, &[3]),
    });
    let sealed = last.get().unwrap();
    for (epoch, found, is_still) in [
        ("e", committed(11, &[3]), true),
        ("f", committed(11, &[3]), false),
        ("e", committed(11, &[]), false),
        ("e", committed(11, &[3, 10]), false),
        ("e", committed(9, &[3]), false),
        ("e", committed(10, &[3]), false),
        ("e", committed(12, &[3]), false),
    ] {
        assert_eq!(
            sealed.is_still(epoch, &found),
            is_still,
            "{epoch} {found:?}"
        );
    }
}

#[test]
fn a_label_sees_what_is_below_it_and_was_not_open() {
    for (text, seen) in [
        ("e:9:3,5", "c < 9 AND NOT (c IN (3, 5))"),
        (
            "e:9:1-3,5,7-8",
            "c < 9 AND NOT (c IN (5) OR c BETWEEN 1 AND 3 OR c BETWEEN 7 AND 8)",
        ),
        ("e:9:", "c < 9"),
    ] {
        let label = Label::parse(Dialect::Mysql, text).unwrap();
        assert_eq!(print_seen("c", &label), seen);
    }
    let label = Label::parse(Dialect::Sqlite, "1:2").unwrap();
    assert_eq!(print_seen("c", &label), "FALSE");
}

fn status(counter: &str, list: &str) -> String {
    format!(
        "\n=====\n2026-11-27 INNODB MONITOR OUTPUT\n=====\n------------\nTRANSACTIONS\n------------\n\
         Trx id counter {counter}\nPurge done for trx's n:o < 203 undo n:o < 0 state: running\n\
         History list length 3\nLIST OF TRANSACTIONS FOR EACH SESSION:\n{list}--------\nFILE I/O\n--------\n\
         Pending flushes (fsync): 0\n----------------------------\nEND OF INNODB MONITOR OUTPUT\n====\n"
    )
}

const BUSY: &str = "---TRANSACTION 213, ACTIVE 0 sec starting index read\nmysql tables in use 1, locked 1\n\
    LOCK WAIT 2 lock struct(s), heap size 1128, 1 row lock(s)\n\
    MariaDB thread id 14, OS thread handle 140, query id 144 localhost root Updating\nupdate t set v=0 where id=1\n\
    ------- TRX HAS BEEN WAITING 291794 us FOR THIS LOCK TO BE GRANTED:\n\
    RECORD LOCKS space id 20 page no 3 n bits 320 index PRIMARY of table `sx`.`t` trx id 213 lock_mode X waiting\n\
    Record lock, heap no 2 PHYSICAL RECORD: n_fields 4; compact format; info bits 0\n 0: len 4; hex 80000001; asc     ;;\n\n\
    ------------------\n\
    ---TRANSACTION 211, ACTIVE (PREPARED) 2 sec recovered trx\n\
    2 lock struct(s), heap size 1128, 1 row lock(s), undo log entries 1\n\
    ---TRANSACTION (0x7f94e411fc80), ACTIVE 0 sec\n0 lock struct(s), heap size 1128, 0 row lock(s)\n\
    MariaDB thread id 10, OS thread handle 140, query id 136 localhost root \n\
    Trx read view will not see trx with id >= 214, sees < 211\n\
    ---TRANSACTION 421781578720592, not started\n0 lock struct(s), heap size 1136, 0 row lock(s)\n\
    ---TRANSACTION (0x7f94e411db80), not started\n0 lock struct(s), heap size 1128, 0 row lock(s)\n";

fn pair(found: Option<Committed>) -> Option<(u64, Vec<u64>)> {
    found.map(|found| (found.next, found.active))
}

#[test]
fn a_status_lists_open_transactions_and_prepared_ones() {
    let read = |counter, list| pair(read_status(&status(counter, list)));
    assert_eq!(read("214", BUSY), Some((214, vec![211, 213])));
    assert_eq!(read("214", ""), Some((214, vec![])));
    // One began after the counter was read.
    assert_eq!(read("212", BUSY), Some((212, vec![211])));
}

#[test]
fn a_status_that_is_not_as_expected_gives_nothing() {
    let whole = status("214", BUSY);
    let list = "LIST OF TRANSACTIONS FOR EACH SESSION:\n";
    let prepared = "---TRANSACTION 211, ACTIVE (PREPARED)";
    let statement = "update t set v=0 where id=1\n";
    let (cut, _) = whole.split_once("---TRANSACTION (0x7f94e411fc80)").unwrap();
    for (place, case) in [
        String::new(),
        whole.replace("214", "2l4"),
        whole.replace("Trx id counter 214", "Trx id counter"),
        whole.replace("Trx id counter 214", "Trx id counter 0214"),
        whole.replace("Trx id counter 214", "Trx id counter 281474976710656"),
        whole.replace("Purge done", "Purge begun"),
        whole.replace("History list", "Future list"),
        whole.replace(list, "LIST:\n"),
        whole.replace(list, &format!("{list}... truncated...\n")),
        whole.replace(prepared, "---TRANSACTION 211, COMMITTED IN MEMORY"),
        whole.replace(prepared, "---TRANSACTION 211, not started"),
        whole.replace(prepared, "---TRANSACTION 211, ACTIVE x sec"),
        whole.replace(prepared, "---TRANSACTION211, ACTIVE (PREPARED)"),
        whole.replace("---TRANSACTION 211", "---TRANSACTION 213"),
        whole.replace("---TRANSACTION 211", "---TRANSACTION -211"),
        whole.replace("(0x7f94e411fc80)", "(0x)"),
        whole.replace("(0x7f94e411fc80)", "(0xg)"),
        whole.replace("thread id 14", "thread id x"),
        whole.replace("thread id 14,", "thread id 14"),
        whole.replace("id >= 214, sees", "id >= 214 sees"),
        whole.replace(statement, "---TRANSACTION 17, ACTIVE 5 sec\n"),
        whole.replace(statement, &whole),
        whole.replace("END OF INNODB MONITOR OUTPUT", ""),
        cut.to_owned(),
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(pair(read_status(case)), None, "case {place}");
    }
    let end = whole.find("\nEND OF INNODB").unwrap();
    for (at, _) in whole.char_indices().take_while(|(at, _)| *at < end) {
        let (cut, _) = whole.split_at(at);
        assert_eq!(pair(read_status(cut)), None, "cut at {at}");
    }
}

#[test]
fn a_label_needs_two_statuses_and_the_sessions_view_to_agree() {
    let whole = status("214", BUSY);
    let label = |before: &str, after: &str, connection| pair(read_label(before, after, connection));
    assert_eq!(label(&whole, &whole, 10), Some((214, vec![211, 213])));
    assert_eq!(label(&whole, &whole, 11), None);
    // One with an id has written.
    assert_eq!(label(&whole, &whole, 14), None);
    for (from, to) in [
        ("counter 214", "counter 215"),
        ("sees < 211", "sees < 213"),
        ("id >= 214", "id >= 213"),
        ("thread id 14", "thread id 10"),
        ("---TRANSACTION 213", "---TRANSACTION 212"),
    ] {
        assert_eq!(label(&whole, &whole.replace(from, to), 10), None, "{to}");
    }
    let other = whole.replace("---TRANSACTION 213", "---TRANSACTION 212");
    assert_eq!(label(&other, &whole, 10), None);
    // The server ends the view at the first open id, where all from there on are open.
    let full = whole.replace("---TRANSACTION 211", "---TRANSACTION 212");
    for (view, expected) in [
        ("id >= 214, sees < 212", Some((214, vec![212, 213]))),
        ("id >= 212, sees < 212", Some((214, vec![212, 213]))),
        ("id >= 213, sees < 212", None),
        ("id >= 212, sees < 211", None),
    ] {
        let full = full.replace("id >= 214, sees < 211", view);
        assert_eq!(label(&full, &full, 10), expected, "{view}");
    }
    let partly = whole.replace("id >= 214, sees < 211", "id >= 211, sees < 211");
    assert_eq!(label(&partly, &partly, 10), None);
}
