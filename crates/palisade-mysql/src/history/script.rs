//! History of MariaDB tables: the SQL by which an operator has it kept.
//!
//! A table with history is versioned by transaction: each row has the ids of the transactions by which it began and ended.
//! `AS OF` of the server stays unused: it consults `mysql.transaction_registry`, which loses transactions.
//!
//! What only the server knows of a table is looked at when the script runs. A condition chooses the statement that is run then, or an
//! error that says what to do.

use palisade::past::{FROM, NumberRange, PREFIX, TO};

use super::print_ranges;
use crate::settings::identifier;

/// The table of a database that says since when its tables have a history. It is versioned as they are.
pub(crate) const SPANS: &str = "palisade_history.spans";

/// The table whose one row is written after each label.
pub(crate) const SEAL: &str = "palisade_history.seal";

/// The index of a table with history by which the rows are found that differ since a moment.
const ENDS: &str = "palisade_history_ends";

/// The most characters of a name.
const LONGEST_NAME: usize = 64;

/// A new random value. Who restores a dump has the old one, with the id of another transaction.
const MARK: &str = "SHA1(CONCAT(UUID(), RAND()))";

/// A table of which history is to be kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryTable<'a> {
    /// Its database.
    pub(crate) schema: &'a str,
    /// Its name.
    pub(crate) table: &'a str,
    /// Its columns, in their order, without those of history.
    pub(crate) columns: &'a [String],
    /// Whether it has a primary key.
    pub(crate) has_key: bool,
}

/// Why no history can be kept of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HistoryFault {
    /// Rows could be told apart by nothing.
    #[error("it has no primary key: give it one first")]
    NoPrimaryKey,
    /// A column has a name that history needs.
    #[error("history needs the name of its column `{0}`: rename that first")]
    ReservedColumn(String),
    /// The companion's name would be too long.
    #[error(
        "with `palisade_history_` before it, its name has more than 64 characters: rename it first"
    )]
    LongName,
    /// InnoDB's list of tables has it by a name that is not known here.
    #[error(
        "its name, or its database's, has letters beyond ASCII, by which the server's list of tables is not asked: rename it first"
    )]
    OddName,
    /// It is a view, or what the engine makes up.
    #[error("history is kept of tables alone")]
    NoTable,
    /// The names of its triggers would be too long.
    #[error(
        "with `palisade_history_` before it and `_insert` behind, its name has more than 64 characters: rename it first"
    )]
    LongTable,
    /// A type that cannot be written down as the server tells it.
    #[error("a label of the type of its column `{0}` has a backslash: rename the label first")]
    OddType(String),
    /// Rows that a foreign key deletes or changes set off no triggers.
    #[error(
        "its foreign key to `{0}` changes rows of it by ON DELETE or ON UPDATE, which sets off no triggers on MySQL: make that RESTRICT first"
    )]
    Cascade(String),
    /// An account is written as `name@host`.
    #[error("`{0}` is no account: write it as name@host")]
    BadAccount(String),
}

/// The name of the view that has every state of a table's rows.
pub(crate) fn companion_name(table: &str) -> String {
    format!("{PREFIX}_{table}")
}

/// Whether an error says that an account may not read until when a row of a table with history is so.
pub(crate) fn lacks_until(code: u16, message: &str) -> bool {
    // `ER_COLUMNACCESS_DENIED_ERROR`
    code == 1143 && message.contains(TO)
}

/// The SQL that gives a table a history, or begins it anew, and lets `account` (`name@host`) read it.
pub(crate) fn enable_script(
    table: &HistoryTable<'_>,
    account: Option<&str>,
) -> Result<String, HistoryFault> {
    check_table(table)?;
    let account = account.map(quote_account).transpose()?;
    let Names {
        relation,
        companion,
        spans,
        seal,
    } = Names::of_table(table);
    let columns: Vec<String> = (table.columns.iter().map(String::as_str))
        .chain([FROM, TO])
        .map(identifier)
        .collect();
    let index = format!("ADD INDEX {ENDS} ({TO}, {FROM})");
    let alter = format!(
        "ALTER TABLE {relation} \
         ADD COLUMN {FROM} bigint unsigned GENERATED ALWAYS AS ROW START INVISIBLE, \
         ADD COLUMN {TO} bigint unsigned GENERATED ALWAYS AS ROW END INVISIBLE, \
         ADD PERIOD FOR SYSTEM_TIME ({FROM}, {TO}), ADD SYSTEM VERSIONING, {index}"
    );
    let is_ours = format!(
        "(SELECT COUNT(*) FROM information_schema.COLUMNS c WHERE {} AND c.COLUMN_TYPE = 'bigint(20) unsigned' \
         AND (c.COLUMN_NAME = '{FROM}' AND c.GENERATION_EXPRESSION = 'ROW START' \
         OR c.COLUMN_NAME = '{TO}' AND c.GENERATION_EXPRESSION = 'ROW END')) = 2",
        is_table("c", table)
    );
    let has_index = format!(
        "(SELECT COUNT(*) FROM information_schema.STATISTICS s WHERE {} AND s.INDEX_NAME = {}) > 0",
        is_table("s", table),
        literal(ENDS)
    );
    let choice = [
        (
            "t.ENGINE <> 'InnoDB'".to_owned(),
            signal("only InnoDB knows transactions: ALTER TABLE ... ENGINE=InnoDB first"),
        ),
        (
            "t.CREATE_OPTIONS LIKE '%partitioned%'".to_owned(),
            signal(
                "what is done to partitions leaves no trace: ALTER TABLE ... REMOVE PARTITIONING first",
            ),
        ),
        (format!("{is_ours} AND {has_index}"), literal("DO 0")),
        // A history of before there was an index.
        (is_ours, literal(&format!("ALTER TABLE {relation} {index}"))),
        (
            "t.TABLE_TYPE = 'SYSTEM VERSIONED'".to_owned(),
            signal(
                "the table has versions of another kind: ALTER TABLE ... DROP SYSTEM VERSIONING first",
            ),
        ),
    ];
    let mut script = format!(
        "-- Gives {} a history. The table is rebuilt where it had none: writers wait.\n\
         -- Who may read the table may read its past. Accounts with rights on columns alone need SELECT ({TO}), or their queries\n\
         -- fail with error 1143. Who they are:\n\
         -- SELECT DISTINCT GRANTEE FROM information_schema.COLUMN_PRIVILEGES WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {};\n\
         CREATE TABLE IF NOT EXISTS {spans} (\n  \
           table_name varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,\n  \
           mark varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,\n  \
           table_id bigint unsigned,\n  \
           {FROM} bigint unsigned GENERATED ALWAYS AS ROW START INVISIBLE,\n  \
           {TO} bigint unsigned GENERATED ALWAYS AS ROW END INVISIBLE,\n  \
           PERIOD FOR SYSTEM_TIME ({FROM}, {TO})\n\
         ) ENGINE=InnoDB WITH SYSTEM VERSIONING;\n\
         INSERT IGNORE INTO {spans} (table_name, mark) VALUES ('', {MARK});\n\
         CREATE TABLE IF NOT EXISTS {seal} (id int NOT NULL PRIMARY KEY, n bigint unsigned NOT NULL) ENGINE=InnoDB;\n\
         INSERT IGNORE INTO {seal} VALUES (1, 0);\n",
        print_comment(&format!("{}.{}", table.schema, table.table)),
        literal(table.schema),
        literal(table.table),
    );
    script += &run_choice(table, &choice, &literal(&alter));
    script += &format!(
        "CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW {companion} AS\n  \
         SELECT {} FROM {relation} FOR SYSTEM_TIME ALL;\n{};\n",
        columns.join(", "),
        register(table, &spans)
    );
    if let Some(account) = account {
        script += &format!(
            "GRANT SELECT ({TO}) ON {relation} TO {account};\n\
             GRANT SELECT ON {companion} TO {account};\n\
             GRANT SELECT ON {spans} TO {account};\n\
             -- A write comes after each moment that is noted.\n\
             GRANT SELECT, UPDATE (n) ON {seal} TO {account};\n\
             -- Moments are read from the status of InnoDB. PROCESS shows the statements of all sessions too.\n\
             GRANT PROCESS ON *.* TO {account};\n"
        );
    }
    Ok(script + &forget_triggers(table))
}

/// The SQL that ends the history of a table. Its past rows are deleted.
pub(crate) fn disable_script(table: &HistoryTable<'_>) -> String {
    let Names {
        relation,
        companion,
        spans,
        ..
    } = Names::of_table(table);
    let script = format!(
        "-- Ends the history of {}: what was kept is deleted.\n\
         DELETE FROM {spans} WHERE table_name = {};\n\
         DROP VIEW IF EXISTS {companion};\n\
         SET STATEMENT system_versioning_alter_history = KEEP FOR\n\
         ALTER TABLE {relation}\n  DROP INDEX IF EXISTS {ENDS}, DROP PERIOD FOR SYSTEM_TIME, DROP COLUMN {FROM}, DROP COLUMN {TO}, DROP SYSTEM VERSIONING;\n",
        print_comment(&format!("{}.{}", table.schema, table.table)),
        literal(table.table),
    );
    script + &forget_triggers(table)
}

/// Has the server read triggers anew. A trigger that was read before the table got or lost its versions writes rows by the columns of then,
/// which fails with error 1062. Which triggers write the table through a procedure is not known, so that it is all of the database, and
/// those of other databases that name it.
fn forget_triggers(table: &HistoryTable<'_>) -> String {
    format!(
        "-- Triggers that were read before go by the columns of then, and writes through them fail with error 1062. This needs RELOAD.\n\
         SET @palisade_statement = (SELECT CONCAT('FLUSH TABLES ', GROUP_CONCAT(DISTINCT '`', \
         REPLACE(g.EVENT_OBJECT_SCHEMA, '`', '``'), '`.`', REPLACE(g.EVENT_OBJECT_TABLE, '`', '``'), '`'))\n  \
         FROM information_schema.TRIGGERS g WHERE g.EVENT_OBJECT_SCHEMA = {} OR INSTR(g.ACTION_STATEMENT, {}) > 0);\n\
         EXECUTE IMMEDIATE COALESCE(@palisade_statement, 'DO 0');\n",
        literal(table.schema),
        literal(table.table)
    )
}

/// The SQL that deletes the past rows of a table if all of them had ended at the label of `next` and `active`, and none otherwise.
///
/// The server deletes all past rows exactly, or up to a time by its own registry, which loses transactions. History begins anew with the
/// transaction of this: a label that sees it sees all that ended the deleted rows, since they were committed when it read them.
pub(crate) fn prune_script(
    table: &HistoryTable<'_>,
    next: u64,
    active: &[NumberRange],
) -> Result<String, HistoryFault> {
    check_table(table)?;
    let Names {
        relation,
        companion,
        spans,
        ..
    } = Names::of_table(table);
    let late = match print_ranges(TO, active) {
        None => String::new(),
        Some(late) => format!(" OR {late}"),
    };
    Ok(format!(
        "-- Deletes all past rows of {}, and begins its history anew. MariaDB cannot delete some of them exactly: if one ended after\n\
         -- the moment, none is deleted.\n\
         START TRANSACTION;\n\
         SET @palisade_late = (SELECT COUNT(*) FROM {companion} WHERE {TO} < {} AND ({TO} >= {next}{late}));\n\
         EXECUTE IMMEDIATE IF(@palisade_late > 0,\n  {},\n  {});\n\
         -- Clients that go on after errors change nothing either.\n\
         EXECUTE IMMEDIATE IF(@palisade_late > 0, 'DO 0',\n  {});\nCOMMIT;\n",
        print_comment(&format!("{}.{}", table.schema, table.table)),
        u64::MAX,
        signal(
            "rows ended after that moment, and MariaDB deletes all past rows or none: prune before a moment of now"
        ),
        literal(&format!("DELETE HISTORY FROM {relation}")),
        literal(&register(table, &spans)),
    ))
}

/// Asks for the epoch of transaction ids in a database.
///
/// The first part is made of a random value and of the id of the transaction that wrote it: a restored dump has the value with another
/// id. The second is the server's own id: a copy of its files differs there on another host or port.
pub(crate) fn epoch_query(schema: &str) -> String {
    format!(
        "SELECT CONCAT(LEFT(SHA2(CONCAT(h.mark, '/', h.{FROM}), 256), 16), '.', \
         LEFT(SHA2(COALESCE((SELECT v.VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES v \
         WHERE v.VARIABLE_NAME = 'SERVER_UID'), ''), 256), 16)) FROM {}.{} h WHERE h.table_name = ''",
        identifier(schema),
        identifier(SPANS)
    )
}

/// Asks since which transaction a table has a history, and whether it was neither made anew nor rebuilt since.
pub(crate) fn span_query(schema: &str, table: &str) -> String {
    format!(
        "SELECT h.{FROM}, COALESCE(h.table_id = {}, 0) FROM {}.{} h WHERE h.table_name = {}",
        table_id(schema, table),
        identifier(schema),
        identifier(SPANS),
        literal(table)
    )
}

/// The statement after a label that keeps a restart from giving out its ids again.
pub(crate) fn seal_statement(schema: &str) -> String {
    format!(
        "UPDATE {}.{} SET n = n + 1 WHERE id = 1",
        identifier(schema),
        identifier(SEAL)
    )
}

/// The names of what stands in a script.
struct Names {
    relation: String,
    companion: String,
    spans: String,
    seal: String,
}

impl Names {
    fn of_table(table: &HistoryTable<'_>) -> Self {
        let schema = identifier(table.schema);
        let name = |name: &str| format!("{schema}.{}", identifier(name));
        Self {
            relation: name(table.table),
            companion: name(&companion_name(table.table)),
            spans: name(SPANS),
            seal: name(SEAL),
        }
    }
}

fn check_table(table: &HistoryTable<'_>) -> Result<(), HistoryFault> {
    if !table.has_key {
        return Err(HistoryFault::NoPrimaryKey);
    }
    let is_reserved = |column: &&String| {
        [FROM, TO]
            .iter()
            .any(|own| column.eq_ignore_ascii_case(own))
    };
    if let Some(column) = table.columns.iter().find(is_reserved) {
        return Err(HistoryFault::ReservedColumn(column.clone()));
    }
    if companion_name(table.table).chars().count() > LONGEST_NAME {
        return Err(HistoryFault::LongName);
    }
    if !table.schema.is_ascii() || !table.table.is_ascii() {
        return Err(HistoryFault::OddName);
    }
    Ok(())
}

/// Registers a table as from the transaction that runs this.
fn register(table: &HistoryTable<'_>, spans: &str) -> String {
    format!(
        "INSERT INTO {spans} (table_name, mark, table_id)\n  VALUES ({}, {MARK}, {})\n  \
         ON DUPLICATE KEY UPDATE mark = VALUES(mark), table_id = VALUES(table_id)",
        literal(table.table),
        table_id(table.schema, table.table),
    )
}

/// InnoDB's number of a table, which a rebuild changes.
fn table_id(schema: &str, table: &str) -> String {
    format!(
        "(SELECT s.TABLE_ID FROM information_schema.INNODB_SYS_TABLES s WHERE s.NAME = {})",
        literal(&format!("{}/{}", file_name(schema), file_name(table)))
    )
}

/// A name as the server's files have it, if it is of ASCII.
pub(super) fn file_name(name: &str) -> String {
    name.chars()
        .map(|letter| match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => letter.to_string(),
            _ => format!("@{:04x}", u32::from(letter)),
        })
        .collect()
}

/// Runs the statement of the first condition that holds for the table, called `t` there, or `otherwise`. Statements are literals.
fn run_choice(table: &HistoryTable<'_>, choice: &[(String, String)], otherwise: &str) -> String {
    let cases: Vec<String> = (choice.iter())
        .map(|(condition, statement)| format!("  WHEN {condition}\n    THEN {statement}\n"))
        .collect();
    format!(
        "SET @palisade_statement = (SELECT CASE\n{}  ELSE {otherwise} END\n  \
         FROM information_schema.TABLES t WHERE {});\nEXECUTE IMMEDIATE @palisade_statement;\n",
        cases.concat(),
        is_table("t", table)
    )
}

fn is_table(alias: &str, table: &HistoryTable<'_>) -> String {
    format!(
        "{alias}.TABLE_SCHEMA = {} AND {alias}.TABLE_NAME = {}",
        literal(table.schema),
        literal(table.table)
    )
}

/// The literal of a statement that fails with this text, which has no quotation marks.
fn signal(text: &str) -> String {
    literal(&format!(
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{text}'"
    ))
}

/// `text` as a string literal that reads alike with and without `NO_BACKSLASH_ESCAPES`.
pub(super) fn literal(text: &str) -> String {
    if text.contains('\\') {
        let hex: String = text.bytes().map(|byte| format!("{byte:02X}")).collect();
        return format!("CONVERT(X'{hex}' USING utf8mb4)");
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// Keeps a name within its comment.
pub(super) fn print_comment(text: &str) -> String {
    let print = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().map(print).collect()
}

/// Quotes `name@host`. A name may hold an at sign, a host may not.
pub(super) fn quote_account(account: &str) -> Result<String, HistoryFault> {
    let bad = || HistoryFault::BadAccount(account.to_owned());
    let (name, host) = account.rsplit_once('@').ok_or_else(bad)?;
    let is_odd = |letter: char| letter.is_control() || letter == '\\';
    if name.is_empty() || host.is_empty() || account.contains(is_odd) {
        return Err(bad());
    }
    Ok(format!("{}@{}", literal(name), literal(host)))
}
