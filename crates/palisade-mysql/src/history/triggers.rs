//! History of MySQL tables: the SQL by which an operator has it kept.
//!
//! No trigger on MySQL learns the number of its transaction. So each change of a row takes a number of ours, by triggers that run for every
//! writer: they write it, end the row's state with it, and begin the new one. A row is locked until its transaction ends, so the numbers of
//! its states rise. Which of them a moment has seen, the numbers themselves tell that were visible then.
//!
//! Names in what is kept in the database have no database before them: a dump that is restored under another name keeps to itself.

use palisade::{
    catalog::{Column, ReferenceAction, Relation, RelationKind},
    past::{FROM, NumberRange, TO},
};

use super::{
    print_ranges,
    script::{
        HistoryFault, SEAL, SPANS, companion_name, file_name, literal, print_comment, quote_account,
    },
};
use crate::settings::identifier;

/// The table with a row for each change of a row.
pub(crate) const NUMBERS: &str = "palisade_history.numbers";

/// The function that says what the server has of a table with history: another one after it was altered, emptied or made anew.
pub(crate) const STATE: &str = "palisade_history.state";

/// The function that says which server this is, and why it has no moments.
pub(crate) const PLACE: &str = "palisade_history.place";

/// A procedure that is there while a script runs.
const CHECK: &str = "palisade_history.check";

/// The most characters of a table's name: the longest of its triggers' has 64.
const LONGEST_TABLE: usize = 40;

/// Until when a row is so that is so by now.
const OPEN: u64 = u64::MAX;

/// What sets off a trigger, and whether a state ends and one begins then.
const KINDS: [(&str, Ends, Begins); 3] = [
    ("insert", Ends(false), Begins(true)),
    ("update", Ends(true), Begins(true)),
    ("delete", Ends(true), Begins(false)),
];

#[derive(Clone, Copy)]
struct Ends(bool);

#[derive(Clone, Copy)]
struct Begins(bool);

/// Whether a trigger of this name is one of history's.
pub(crate) fn keeps_history(trigger: &str, table: &str) -> bool {
    KINDS
        .iter()
        .any(|(kind, _, _)| trigger == trigger_name(table, kind))
}

fn trigger_name(table: &str, kind: &str) -> String {
    format!("{}_{kind}", companion_name(table))
}

/// The SQL that gives a table a history, or begins it anew, and lets `account` (`name@host`) read it.
pub(crate) fn enable_script(
    relation: &Relation,
    account: Option<&str>,
) -> Result<String, HistoryFault> {
    let keys = check_table(relation)?;
    let account = account.map(quote_account).transpose()?;
    let table = identifier(&relation.name);
    let companion = identifier(&companion_name(&relation.name));
    let (numbers, spans, seal) = (identifier(NUMBERS), identifier(SPANS), identifier(SEAL));
    let columns: Vec<String> = (relation.columns.iter())
        .map(|column| identifier(&column.name))
        .collect();
    let columns = columns.join(", ");
    let key: Vec<String> = keys.iter().map(|key| identifier(&key.name)).collect();
    let definitions: Vec<String> = (relation.columns.iter())
        .map(|column| define(column, &keys))
        .collect();
    let mut script = begin(relation, "Gives", "a history");
    script += &format!(
        "-- Writers wait while its rows are copied.\n\
         SET @palisade_mode = @@SESSION.sql_mode, @palisade_zone = @@SESSION.time_zone;\n\
         SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES', time_zone = '+00:00';\n\
         CREATE TABLE IF NOT EXISTS {numbers} (n bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB;\n\
         CREATE TABLE IF NOT EXISTS {seal} (\n  \
           id int NOT NULL PRIMARY KEY, n bigint unsigned NOT NULL, low bigint unsigned NOT NULL\n\
         ) ENGINE=InnoDB;\n\
         INSERT IGNORE INTO {seal} VALUES (1, 0, 1);\n\
         CREATE TABLE IF NOT EXISTS {spans} (\n  \
           table_name varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,\n  \
           mark varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,\n  \
           state varchar(64) CHARACTER SET ascii COLLATE ascii_bin,\n  \
           {FROM} bigint unsigned NOT NULL,\n  \
           pruned mediumtext CHARACTER SET ascii COLLATE ascii_bin,\n  \
           pruned_count bigint unsigned NOT NULL\n\
         ) ENGINE=InnoDB;\n\
         INSERT IGNORE INTO {spans} VALUES ('', LEFT(SHA2(CONCAT(UUID(), RAND()), 256), 40), NULL, 0, NULL, 0);\n"
    );
    script += &define_functions();
    script += &drop_kept(relation);
    script += &format!(
        "CREATE TABLE {companion} (\n  {},\n  {FROM} bigint unsigned NOT NULL,\n  {TO} bigint unsigned NOT NULL,\n  \
           PRIMARY KEY ({}, {TO}), KEY ({FROM}), KEY ({TO})\n) ENGINE=InnoDB;\n\
         LOCK TABLES {table} WRITE, {companion} WRITE, {numbers} WRITE, {spans} WRITE;\n\
         DELIMITER //\n",
        definitions.join(",\n  "),
        key.join(", "),
    );
    for (kind, ends, begins) in KINDS {
        script += &define_trigger(relation, &keys, (kind, ends, begins));
    }
    let state = state_call(&relation.schema, &relation.name);
    script += &format!(
        "DELIMITER ;\n\
         INSERT INTO {numbers} () VALUES ();\n\
         SET @palisade_number = LAST_INSERT_ID();\n\
         INSERT INTO {companion} ({columns}, {FROM}, {TO}) SELECT {columns}, @palisade_number, {OPEN} FROM {table};\n\
         SET @palisade_copied = ROW_COUNT();\n\
         -- Of later changes of its definition, the server tells the second.\n\
         DO SLEEP(IF((SELECT MAX(t.CREATE_TIME) FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = DATABASE()\n  \
           AND t.TABLE_NAME IN ({0}, {1})) >= NOW() - INTERVAL 1 SECOND, 1.5, 0));\n\
         INSERT INTO {spans} SELECT {0}, '', {state}, @palisade_number, NULL, 0 FROM DUAL\n  \
           WHERE @palisade_copied >= 0 AND {state} IS NOT NULL;\n\
         UNLOCK TABLES;\n\
         SET SESSION sql_mode = @palisade_mode, time_zone = @palisade_zone;\n",
        literal(&relation.name),
        literal(&companion_name(&relation.name)),
    );
    if let Some(account) = account {
        script += &format!(
            "GRANT SELECT ON {companion} TO {account};\n\
             GRANT SELECT ON {spans} TO {account};\n\
             -- A moment is read off the numbers. Those that were given out in vain are taken, and old ones are deleted.\n\
             GRANT SELECT, INSERT, DELETE ON {numbers} TO {account};\n\
             GRANT SELECT, UPDATE (n, low) ON {seal} TO {account};\n\
             GRANT EXECUTE ON FUNCTION {} TO {account};\n\
             GRANT EXECUTE ON FUNCTION {} TO {account};\n",
            identifier(STATE),
            identifier(PLACE),
        );
    }
    Ok(script)
}

/// The SQL that ends the history of a table, and deletes what was kept.
pub(crate) fn disable_script(relation: &Relation) -> String {
    format!(
        "{}DELETE FROM {} WHERE table_name = {};\n{}DROP TABLE IF EXISTS {};\n",
        begin(relation, "Ends", "history: what was kept is deleted"),
        identifier(SPANS),
        literal(&relation.name),
        drop_triggers(relation),
        identifier(&companion_name(&relation.name)),
    )
}

/// The SQL that deletes states which had ended at the label of `next` and `active`. Nothing is read as of an earlier one then.
pub(crate) fn prune_script(
    relation: &Relation,
    next: u64,
    active: &[NumberRange],
) -> Result<String, HistoryFault> {
    check_table(relation)?;
    let (spans, name) = (identifier(SPANS), literal(&relation.name));
    let late = match print_ranges(TO, active) {
        None => String::new(),
        Some(late) => format!(" AND NOT ({late})"),
    };
    let pruned: Vec<String> = active.iter().map(NumberRange::to_string).collect();
    let pruned = literal(&format!("{next}:{}", pruned.join(",")));
    let seen = count_seen(next, active);
    Ok(format!(
        "{}START TRANSACTION;\n\
         UPDATE {spans} SET pruned = {pruned}, pruned_count = {seen} WHERE table_name = {name} AND pruned_count < {seen};\n\
         -- Nothing is deleted that could still be asked for.\n\
         DELETE FROM {} WHERE {TO} < {next}{late}\n  \
           AND EXISTS (SELECT 1 FROM {spans} h WHERE h.table_name = {name} AND h.pruned_count >= {seen});\n\
         COMMIT;\n",
        begin(relation, "Deletes what had ended at a moment of", "history"),
        identifier(&companion_name(&relation.name)),
    ))
}

/// How many numbers a label has seen: more, the later it was taken.
fn count_seen(next: u64, active: &[NumberRange]) -> u64 {
    let unseen = active.iter().map(|range| range.last - range.first + 1);
    next.saturating_sub(unseen.sum())
}

/// Asks for what the server has of a table with history, in the database that is in use.
pub(crate) fn state_call(schema: &str, table: &str) -> String {
    format!(
        "{}({}, {}, {})",
        identifier(STATE),
        literal(table),
        literal(&file_of(schema, table)),
        literal(&file_of(schema, &companion_name(table))),
    )
}

/// Asks which server this is, and why it has no moments: 32 digits, a space, and a text that is empty where it has.
pub(crate) fn place_call(schema: &str) -> String {
    format!(
        "{}({})",
        identifier(PLACE),
        literal(&file_of(schema, NUMBERS))
    )
}

/// The name that InnoDB has for a table.
fn file_of(schema: &str, table: &str) -> String {
    format!("{}/{}", file_name(schema), file_name(table))
}

fn begin(relation: &Relation, verb: &str, what: &str) -> String {
    // Functions and triggers keep the character set of the session that makes them, for the literals in them.
    format!(
        "-- {verb} {} {what}. For the client `mysql`.\nSET NAMES utf8mb4;\nUSE {};\n",
        print_comment(&format!("{}.{}", relation.schema, relation.name)),
        identifier(&relation.schema),
    )
}

/// The columns of the primary key of a table of which history can be kept.
fn check_table(relation: &Relation) -> Result<Vec<&Column>, HistoryFault> {
    if relation.kind != RelationKind::Table {
        return Err(HistoryFault::NoTable);
    }
    let keys: Vec<&Column> = (relation.primary_key.iter())
        .filter_map(|index| relation.column(*index))
        .collect();
    if keys.is_empty() || keys.len() != relation.primary_key.len() {
        return Err(HistoryFault::NoPrimaryKey);
    }
    for column in &relation.columns {
        let is_reserved = |own: &str| column.name.eq_ignore_ascii_case(own);
        if [FROM, TO].into_iter().any(is_reserved) {
            return Err(HistoryFault::ReservedColumn(column.name.to_string()));
        }
        if column.type_name.contains('\\') {
            return Err(HistoryFault::OddType(column.name.to_string()));
        }
    }
    if relation.name.chars().count() > LONGEST_TABLE {
        return Err(HistoryFault::LongTable);
    }
    if !relation.schema.is_ascii() || !relation.name.is_ascii() {
        return Err(HistoryFault::OddName);
    }
    let acts = |action: ReferenceAction| action != ReferenceAction::Refuse;
    let cascade =
        (relation.foreign_keys.iter()).find(|key| acts(key.on_delete) || acts(key.on_update));
    match cascade {
        Some(key) => Err(HistoryFault::Cascade(key.table.clone())),
        None => Ok(keys),
    }
}

/// A column of a companion. Whatever the table demands of its values, it has demanded.
fn define(column: &Column, keys: &[&Column]) -> String {
    let collation = match column.collation.as_str() {
        "" => String::new(),
        collation => format!(" COLLATE {}", identifier(collation)),
    };
    let is_key = keys.iter().any(|key| key.key == column.key);
    let null = if is_key { "NOT NULL" } else { "NULL" };
    format!(
        "{} {}{collation} {null}",
        identifier(&column.name),
        column.type_name
    )
}

/// Writes the number of a change, ends the state of the row, and begins the next one.
fn define_trigger(
    relation: &Relation,
    keys: &[&Column],
    (kind, Ends(ends), Begins(begins)): (&str, Ends, Begins),
) -> String {
    let companion = identifier(&companion_name(&relation.name));
    let mut body = format!(
        "  DECLARE palisade_number bigint unsigned;\n  \
           IF @@SESSION.insert_id <> 0 THEN\n    \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the session says by insert_id which number is next, and history needs a new one';\n  \
           END IF;\n  \
           INSERT INTO {} () VALUES ();\n  \
           IF ROW_COUNT() <> 1 THEN\n    \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the change has no number in history';\n  \
           END IF;\n  \
           SET palisade_number = LAST_INSERT_ID();\n",
        identifier(NUMBERS)
    );
    if ends {
        let is_row: Vec<String> = (keys.iter())
            .map(|key| {
                let name = identifier(&key.name);
                format!("{companion}.{name} = OLD.{name}")
            })
            .collect();
        body += &format!(
            "  UPDATE {companion} SET {TO} = palisade_number WHERE {} AND {companion}.{TO} = {OPEN};\n",
            is_row.join(" AND ")
        );
    }
    if begins {
        let names: Vec<String> = (relation.columns.iter())
            .map(|column| identifier(&column.name))
            .collect();
        let images: Vec<String> = names.iter().map(|name| format!("NEW.{name}")).collect();
        // Of a table that was emptied, states are left over. Its history is known to be interrupted, and its writers go on.
        body += &format!(
            "  REPLACE INTO {companion} ({}, {FROM}, {TO}) VALUES ({}, palisade_number, {OPEN});\n",
            names.join(", "),
            images.join(", ")
        );
    }
    format!(
        "CREATE TRIGGER {} AFTER {} ON {} FOR EACH ROW\nBEGIN\n{body}END//\n",
        identifier(&trigger_name(&relation.name, kind)),
        kind.to_uppercase(),
        identifier(&relation.name),
    )
}

fn drop_triggers(relation: &Relation) -> String {
    KINDS
        .iter()
        .map(|(kind, _, _)| {
            let name = identifier(&trigger_name(&relation.name, kind));
            format!("DROP TRIGGER IF EXISTS {name};\n")
        })
        .collect()
}

/// Ends what is kept of a table by now, if it can be kept anew.
fn drop_kept(relation: &Relation) -> String {
    let (check, name) = (identifier(CHECK), literal(&relation.name));
    let is_table = format!("t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME = {name}");
    let refusals = [
        (
            format!(
                "NOT EXISTS (SELECT 1 FROM information_schema.TABLES t WHERE {is_table} AND t.ENGINE = 'InnoDB' AND t.TABLE_TYPE = 'BASE TABLE')"
            ),
            "only InnoDB knows transactions: ALTER TABLE ... ENGINE=InnoDB first",
        ),
        (
            format!(
                "EXISTS (SELECT 1 FROM information_schema.TABLES t WHERE {is_table} AND t.CREATE_OPTIONS LIKE '%partitioned%')"
            ),
            "what is done to partitions leaves no trace: ALTER TABLE ... REMOVE PARTITIONING first",
        ),
        (
            format!("EXISTS {}", cascades(&name)),
            "a foreign key of the table acts on its rows, which sets off no trigger: make it RESTRICT first",
        ),
        (
            format!(
                "NOT EXISTS (SELECT 1 FROM information_schema.INNODB_TABLES i WHERE {})",
                is_file("i", &literal(&file_of(&relation.schema, &relation.name)))
            ),
            "the list of tables of InnoDB has it by another name",
        ),
    ];
    let refusals = refusals.map(|(condition, why)| {
        format!(
            "  IF {condition} THEN\n    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{why}';\n  END IF;\n"
        )
    });
    format!(
        "DROP PROCEDURE IF EXISTS {check};\n\
         DELIMITER //\n\
         CREATE PROCEDURE {check}() READS SQL DATA\nBEGIN\n{}END//\n\
         DELIMITER ;\n\
         CALL {check}();\n\
         DROP PROCEDURE {check};\n\
         DELETE FROM {} WHERE table_name = {name};\n\
         {}DROP TABLE IF EXISTS {};\n",
        refusals.concat(),
        identifier(SPANS),
        drop_triggers(relation),
        identifier(&companion_name(&relation.name)),
    )
}

/// The foreign keys of the table `name` that act on its rows.
fn cascades(name: &str) -> String {
    format!(
        "(SELECT 1 FROM information_schema.REFERENTIAL_CONSTRAINTS r WHERE r.CONSTRAINT_SCHEMA = DATABASE() AND r.TABLE_NAME = {name} \
         AND (r.DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION') OR r.UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION')))"
    )
}

/// Whether InnoDB's table `alias` has this name: names that differ in case are other tables.
fn is_file(alias: &str, file: &str) -> String {
    format!("CAST({alias}.NAME AS BINARY) = CAST({file} AS BINARY)")
}

/// Of functions that are there, the accounts keep the right to call them.
fn define_functions() -> String {
    let digest = "BIT_XOR(CAST(CONV(LEFT(SHA2(CONCAT_WS(0x00, g.TRIGGER_NAME, g.EVENT_MANIPULATION, g.ACTION_TIMING, g.ACTION_STATEMENT, \
                  g.SQL_MODE, g.DEFINER, UNIX_TIMESTAMP(g.CREATED)), 256), 16), 16, 10) AS UNSIGNED))";
    let names: Vec<String> = (KINDS.iter())
        .map(|(kind, _, _)| {
            format!(
                "CONCAT({}, palisade_table, '_{kind}')",
                literal(&companion_name(""))
            )
        })
        .collect();
    let id = |file: &str| {
        format!(
            "(SELECT i.TABLE_ID FROM information_schema.INNODB_TABLES i WHERE {})",
            is_file("i", file)
        )
    };
    let utf8 = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
    format!(
        "CREATE FUNCTION IF NOT EXISTS {}(palisade_table varchar(64) {utf8}, palisade_file varchar(700) {utf8}, palisade_companion varchar(700) {utf8})\n  \
         RETURNS varchar(64) CHARACTER SET ascii COLLATE ascii_bin READS SQL DATA SQL SECURITY DEFINER\n  \
         RETURN (SELECT SHA2(CONCAT(UNIX_TIMESTAMP(t.CREATE_TIME), '/', {}, '/', UNIX_TIMESTAMP(c.CREATE_TIME), '/', {}, '/',\n    \
           (SELECT {digest} FROM information_schema.TRIGGERS g WHERE g.EVENT_OBJECT_SCHEMA = DATABASE()\n      \
             AND g.EVENT_OBJECT_TABLE = palisade_table AND g.TRIGGER_NAME IN ({})\n      HAVING COUNT(*) = 3)), 256)\n    \
           FROM information_schema.TABLES t JOIN information_schema.TABLES c\n      \
             ON c.TABLE_SCHEMA = DATABASE() AND c.TABLE_NAME = CONCAT({}, palisade_table)\n    \
           WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME = palisade_table AND t.ENGINE = 'InnoDB'\n      \
             AND NOT EXISTS {});\n\
         CREATE FUNCTION IF NOT EXISTS {}(palisade_file varchar(700) {utf8})\n  \
         RETURNS varchar(255) CHARACTER SET ascii COLLATE ascii_bin READS SQL DATA SQL SECURITY DEFINER\n  \
         RETURN (SELECT CONCAT(LEFT(SHA2(CONCAT(h.mark, '/', @@GLOBAL.server_uuid, '/', @@GLOBAL.port, '/', UNIX_TIMESTAMP(t.CREATE_TIME), '/', {}), 256), 32),\n    \
           ' ', COALESCE(\n      \
           (SELECT 'it is a replica' FROM performance_schema.replication_connection_configuration LIMIT 1),\n      \
           (SELECT 'it is of a group of servers' FROM information_schema.PLUGINS p\n        \
             WHERE p.PLUGIN_NAME = 'group_replication' AND p.PLUGIN_STATUS = 'ACTIVE' LIMIT 1),\n      \
           (SELECT 'it is a node of a Galera cluster' FROM performance_schema.global_variables v\n        \
             WHERE v.VARIABLE_NAME = 'wsrep_on' AND v.VARIABLE_VALUE = 'ON' LIMIT 1),\n      \
           IF(@@GLOBAL.innodb_flush_log_at_trx_commit <> 1,\n        \
             'innodb_flush_log_at_trx_commit must be 1, or a crash loses changes whose numbers are given out again', NULL),\n      \
           IF(@@GLOBAL.log_bin AND @@GLOBAL.sync_binlog <> 1,\n        \
             'sync_binlog must be 1, or a crash loses changes that moments have seen', NULL),\n      \
           (SELECT 'the redo log of InnoDB is off' FROM performance_schema.global_status s\n        \
             WHERE s.VARIABLE_NAME = 'Innodb_redo_log_enabled' AND s.VARIABLE_VALUE <> 'ON' LIMIT 1),\n      '')) COLLATE utf8mb4_bin\n    \
           FROM {} h JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME = {}\n    \
           WHERE h.table_name = '');\n",
        identifier(STATE),
        id("palisade_file"),
        id("palisade_companion"),
        names.join(", "),
        literal(&companion_name("")),
        cascades("palisade_table"),
        identifier(PLACE),
        id("palisade_file"),
        identifier(SPANS),
        literal(NUMBERS),
    )
}
