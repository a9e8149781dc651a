//! History of PostgreSQL tables: the SQL by which an operator has it kept.
//!
//! Statement triggers keep it, so that writers which do not go through the firewall are in it too. They take keys from the transition tables
//! and read the rows again: nested triggers would invert the values there. Each firing leaves the open rows of its keys equal to the table.

use std::fmt;

/// The schema of all that history needs.
pub(crate) const SCHEMA: &str = "palisade_history";

/// The column that says which transaction made a row so.
const FROM: &str = "palisade_from";

/// The column that says which transaction ended a row; NULL while it is so still.
const TO: &str = "palisade_to";

/// The longest identifier that PostgreSQL keeps whole, in bytes.
const LONGEST_NAME: usize = 63;

/// What the triggers' names begin with; it sorts late, so that they run after others.
const TRIGGER: &str = "zz_palisade_history_";

/// The label of what a transaction sees, as one text `SYSTEM_IDENTIFIER.TIMELINE:SNAPSHOT`.
///
/// It is NULL on a standby, whose snapshots leave out transactions in flight. Any account may run it. The timeline is that of the log being
/// written: the control file keeps the old one for a while after a promotion.
pub(crate) const LABEL_QUERY: &str = "SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN \
pg_catalog.concat((SELECT c.system_identifier FROM pg_catalog.pg_control_system() c), '.', \
('x' || pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::pg_catalog.bit(32)::pg_catalog.int4, ':', \
pg_catalog.pg_current_snapshot()) END";

/// The end of the log, as text; asked right after a label.
///
/// A crash may give transaction ids out again that a label holds to be ended. It cannot once the log is on disk up to here.
pub(crate) const POSITION_QUERY: &str =
    "SELECT pg_catalog.pg_current_wal_insert_lsn()::pg_catalog.text";

/// Whether the log is on disk up to the position `$1`: a label taken before that position is then safe to keep.
pub(crate) const SETTLED_QUERY: &str =
    "SELECT pg_catalog.pg_current_wal_flush_lsn() >= $1::pg_catalog.text::pg_catalog.pg_lsn";

/// A table of which history is to be kept.
///
/// Types, collations and partitions are not here: the script takes them from the table itself when it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryTable<'a> {
    /// Its schema, unquoted.
    pub(crate) schema: &'a str,
    /// Its name, unquoted.
    pub(crate) table: &'a str,
    /// Its columns in their order, generated ones too.
    pub(crate) columns: &'a [String],
    /// The columns of its primary key, in the key's order.
    pub(crate) key: &'a [String],
}

/// Why no history can be kept of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum HistoryFault {
    /// Its rows cannot be told from each other.
    NoPrimaryKey,
    /// Schema and name are too long for the name of its companion.
    NameTooLong,
    /// A dot in its schema or name, which would make `schema.table` ambiguous.
    DottedName,
    /// A column has a name that history needs.
    ReservedColumn(String),
}

impl fmt::Display for HistoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPrimaryKey => f.write_str(
                "the table has no primary key; give it one, and history can be kept of it",
            ),
            Self::NameTooLong => write!(
                f,
                "schema and table name with the dot between them have over {LONGEST_NAME} bytes; a shorter name makes history possible"
            ),
            Self::DottedName => f.write_str(
                "there is a dot in the name of the schema or of the table; rename it, and history can be kept",
            ),
            Self::ReservedColumn(name) => write!(
                f,
                "the table has a column `{name}`, a name that history uses; give it another one"
            ),
        }
    }
}

impl std::error::Error for HistoryFault {}

/// The script that begins the history of `table`, and lets `account` read it.
///
/// Running it again begins a new history: the old one is dropped.
///
/// # Errors
///
/// [`HistoryFault`], if no history can be kept of the table. What the script finds out when it runs ends it with an error that says what to do.
pub(crate) fn enable_script(
    table: &HistoryTable<'_>,
    account: Option<&str>,
) -> Result<String, HistoryFault> {
    let names = Names::check(table)?;
    let Names {
        base,
        companion,
        relation,
        ..
    } = &names;
    let columns = list(table.columns, |name| format!("b.{}", identifier(name)));
    let keys = list(table.key, identifier);
    let account_lines = account.map_or_else(String::new, |account| {
        let account = identifier(account);
        format!(
            "GRANT USAGE ON SCHEMA {SCHEMA} TO {account};\n\
             GRANT SELECT ON {SCHEMA}.spans, {companion} TO {account};\n"
        )
    });
    Ok(format!(
        "-- History of {title}: begin.\n\
         -- Run it as the owner of the table, or as a superuser.\n\
         -- If there is a history of this table already, it is dropped and a new one begins. Do so after each change of its columns or partitions.\n\
         -- Writers wait until it ends; readers go on.\n\
         BEGIN ISOLATION LEVEL READ COMMITTED;\n\
         {settings}\
         {schema}\
         LOCK TABLE {base} IN SHARE ROW EXCLUSIVE MODE;\n\
         {checks}\
         DROP TABLE IF EXISTS {companion};\n\
         -- Types and collations are those of the table.\n\
         CREATE TABLE {companion} AS\n  \
         SELECT {columns}, pg_catalog.pg_current_xact_id() AS {FROM}, NULL::pg_catalog.xid8 AS {TO} FROM {base} AS b;\n\
         ALTER TABLE {companion} ALTER COLUMN {FROM} SET NOT NULL;\n\
         -- Publications of all tables would refuse updates without it.\n\
         ALTER TABLE {companion} REPLICA IDENTITY FULL;\n\
         CREATE INDEX ON {companion} ({keys}, {FROM});\n\
         CREATE INDEX ON {companion} ({TO}) WHERE {TO} IS NOT NULL;\n\
         CREATE INDEX ON {companion} ({FROM});\n\
         {open_index}\
         ANALYZE {companion};\n\
         {function}\
         {triggers}\
         INSERT INTO {SCHEMA}.spans AS s (relation, since, companion, system_identifier, seal, files, forms)\n  \
         SELECT {relation}, pg_catalog.pg_current_xact_id(), {companion_text}::pg_catalog.regclass, c.system_identifier,\n  \
         {seal},\n  \
         {files},\n  \
         {forms}\n  \
         FROM pg_catalog.pg_control_system() AS c\n  \
         ON CONFLICT (relation) DO UPDATE\n  \
         SET since = excluded.since, companion = excluded.companion, system_identifier = excluded.system_identifier,\n  \
         seal = excluded.seal, files = excluded.files, forms = excluded.forms, pruned = NULL;\n\
         {revocations}\
         {account_lines}\
         COMMIT;\n",
        title = one_line(&names.title),
        settings = SETTINGS,
        schema = do_block(&schema_body()),
        checks = do_block(&checks_body(table, &names)),
        open_index = do_block(&open_index_body(&names, &keys)),
        function = do_block(&function_body(table, &names)),
        triggers = do_block(&triggers_body(&names)),
        companion_text = literal(companion),
        seal = seal(&names),
        files = files(&names),
        forms = forms(&names),
        revocations = do_block(&revocations_body(&names)),
    ))
}

/// The script that ends the history of `table` and drops what was kept.
///
/// # Errors
///
/// [`HistoryFault`], if no history can be kept of the table.
pub(crate) fn disable_script(table: &HistoryTable<'_>) -> Result<String, HistoryFault> {
    let names = Names::check(table)?;
    let Names {
        base,
        companion,
        relation,
        ..
    } = &names;
    let body = format!(
        "DECLARE\n  palisade_trigger record;\n\
         BEGIN\n  \
         IF pg_catalog.to_regclass({base_text}) IS NOT NULL THEN\n    \
         LOCK TABLE {base} IN ACCESS EXCLUSIVE MODE;\n  \
         END IF;\n  \
         IF pg_catalog.to_regclass('{SCHEMA}.spans') IS NULL THEN\n    \
         RETURN;\n  \
         END IF;\n  \
         FOR palisade_trigger IN\n    \
         SELECT t.tgname, t.tgrelid::pg_catalog.regclass AS relation FROM pg_catalog.pg_trigger AS t\n    \
         WHERE t.tgfoid = pg_catalog.to_regprocedure({procedure}) AND t.tgparentid = 0\n  \
         LOOP\n    \
         EXECUTE pg_catalog.format('DROP TRIGGER %I ON %s', palisade_trigger.tgname, palisade_trigger.relation);\n  \
         END LOOP;\n  \
         DROP FUNCTION IF EXISTS {companion}();\n  \
         DROP TABLE IF EXISTS {companion};\n  \
         DELETE FROM {SCHEMA}.spans AS s WHERE s.relation = {relation};\n\
         END\n",
        base_text = literal(base),
        procedure = literal(&format!("{companion}()")),
    );
    Ok(format!(
        "-- History of {title}: end. All of it is dropped.\n\
         BEGIN ISOLATION LEVEL READ COMMITTED;\n\
         {SETTINGS}\
         {body}\
         COMMIT;\n",
        title = one_line(&names.title),
        body = do_block(&body),
    ))
}

/// The script that drops what ended before `snapshot`, the last part of a label.
///
/// That label and later ones are answered still; those before it are refused from then on.
///
/// # Errors
///
/// [`HistoryFault`], if no history can be kept of the table.
pub(crate) fn prune_script(
    table: &HistoryTable<'_>,
    snapshot: &str,
) -> Result<String, HistoryFault> {
    let names = Names::check(table)?;
    let Names {
        companion,
        relation,
        ..
    } = &names;
    let snapshot = format!("{}::pg_catalog.pg_snapshot", literal(snapshot));
    let check = format!(
        "BEGIN\n  \
         IF pg_catalog.pg_snapshot_xmax({snapshot}) > pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()) THEN\n    \
         RAISE EXCEPTION 'the label is of another server: this one has not come so far' USING HINT = 'Prune to a label that was taken here.';\n  \
         END IF;\n  \
         IF NOT EXISTS (SELECT FROM {SCHEMA}.spans AS s WHERE s.relation = {relation}) THEN\n    \
         RAISE EXCEPTION 'the table has no history' USING HINT = 'Begin it first.';\n  \
         END IF;\n\
         END\n"
    );
    Ok(format!(
        "-- History of {title}: drop what ended before a label.\n\
         BEGIN ISOLATION LEVEL READ COMMITTED;\n\
         {SETTINGS}\
         {check}\
         UPDATE {SCHEMA}.spans AS s SET pruned = {snapshot}\n  \
         WHERE s.relation = {relation} AND (s.pruned IS NULL OR {later});\n\
         DELETE FROM {companion} AS h\n  \
         WHERE h.{TO} < pg_catalog.pg_snapshot_xmax({snapshot}) AND pg_catalog.pg_visible_in_snapshot(h.{TO}, {snapshot});\n\
         COMMIT;\n",
        title = one_line(&names.title),
        check = do_block(&check),
        later = is_not_before(&snapshot, "s.pruned"),
    ))
}

/// The query that says by one boolean whether the history of `table` answers for a label.
///
/// It is so if the history began before it, on this server, and nothing interrupted it: each trigger is in its place and was there all the
/// while, the columns are the same, and the table is of no family. Ask it in the snapshot in which the past is read, by one statement or in
/// REPEATABLE READ. A history that was begun anew since that snapshot does not answer there.
///
/// # Errors
///
/// [`HistoryFault`], if no history can be kept of the table.
pub(crate) fn standing_query(
    table: &HistoryTable<'_>,
    system_identifier: &str,
    snapshot: &str,
) -> Result<String, HistoryFault> {
    let names = Names::check(table)?;
    let system_identifier = literal(system_identifier);
    let snapshot = format!("{}::pg_catalog.pg_snapshot", literal(snapshot));
    let procedure = literal(&format!("{}()", names.companion));
    let base = literal(&names.base);
    let companion = literal(&names.companion);
    let relation = &names.relation;
    let columns = |of: &str| {
        format!(
            "SELECT pg_catalog.concat_ws(' ', a.atttypid, a.atttypmod, a.attcollation, a.attname) FROM pg_catalog.pg_attribute AS a \
             WHERE a.attrelid = pg_catalog.to_regclass({of}) AND a.attnum > 0 AND NOT a.attisdropped \
             AND a.attname NOT IN ('{FROM}', '{TO}') ORDER BY a.attname"
        )
    };
    Ok(format!(
        "SELECT EXISTS (SELECT FROM {SCHEMA}.spans AS s WHERE s.relation = {relation} \
         AND s.companion = pg_catalog.to_regclass({companion}) \
         AND s.system_identifier::pg_catalog.text = {system_identifier} \
         AND pg_catalog.pg_visible_in_snapshot(s.since, {snapshot}) AND (s.pruned IS NULL OR {later}) \
         AND s.seal = {seal} AND (s.files = {files} OR s.forms = {forms})) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhparent \
         WHERE i.inhrelid = pg_catalog.to_regclass({base}) OR c.relkind = 'r' AND c.oid = pg_catalog.to_regclass({base})) \
         AND NOT EXISTS (SELECT FROM {relations} WHERE (SELECT pg_catalog.count(*) FROM pg_catalog.pg_trigger AS t \
         WHERE t.tgrelid = r.relid AND t.tgfoid = pg_catalog.to_regprocedure({procedure}) \
         AND t.tgenabled = CASE WHEN pg_catalog.right(t.tgname::pg_catalog.text, 4) = '_row' THEN 'R' ELSE 'A' END) <> 5) \
         AND ARRAY({}) = ARRAY({})",
        columns(&base),
        columns(&companion),
        later = is_not_before(&snapshot, "s.pruned"),
        seal = seal(&names),
        files = files(&names),
        forms = forms(&names),
        relations = relations(&names),
    ))
}

/// The table `r` of the identifiers of the table and of each of its partitions.
fn relations(names: &Names) -> String {
    let base = literal(&names.base);
    format!(
        "(SELECT pg_catalog.to_regclass({base})::pg_catalog.oid AS relid \
         UNION SELECT p.relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass({base})) AS p) AS r"
    )
}

/// The expression for what keeps the history: each partition, each trigger with the transaction that last changed it, and each column.
///
/// A trigger that was off for a while, or was dropped and made again, is of another transaction. Rows of a partition that was detached are
/// gone without a trigger. A column that was dropped and made again has another number, and a generated column another expression.
/// So a history was interrupted where the expression gives another text than when it began.
fn seal(names: &Names) -> String {
    let base = literal(&names.base);
    let procedure = literal(&format!("{}()", names.companion));
    format!(
        "(SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', r.relid, (SELECT pg_catalog.string_agg( \
         pg_catalog.concat_ws('.', t.oid, t.xmin), ' ' ORDER BY t.oid) FROM pg_catalog.pg_trigger AS t \
         WHERE t.tgrelid = r.relid AND t.tgfoid = pg_catalog.to_regprocedure({procedure}))), ',' ORDER BY r.relid) \
         FROM {relations}) OPERATOR(pg_catalog.||) \
         (SELECT pg_catalog.concat(';', pg_catalog.string_agg(pg_catalog.concat_ws('.', a.attnum, d.oid), ' ' ORDER BY a.attnum)) \
         FROM pg_catalog.pg_attribute AS a LEFT JOIN pg_catalog.pg_attrdef AS d \
         ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attgenerated <> '' \
         WHERE a.attrelid = pg_catalog.to_regclass({base}) AND a.attnum > 0 AND NOT a.attisdropped)",
        relations = relations(names),
    )
}

/// The expression for the files of the table and of each partition, which have other numbers once all rows were written anew.
///
/// `VACUUM FULL` and `TRUNCATE` do that, which interrupt nothing, and `ALTER COLUMN … TYPE … USING`, which gives rows other values without
/// a trigger. The latter changes the [`forms`] too.
fn files(names: &Names) -> String {
    format!(
        "(SELECT pg_catalog.string_agg(pg_catalog.concat_ws('.', r.relid, pg_catalog.pg_relation_filenode(r.relid)), ' ' ORDER BY r.relid) \
         FROM {relations})",
        relations = relations(names),
    )
}

/// The expression for the transactions that last changed what each column is.
///
/// A change of a type is one, even where the type is the same in the end. So are a new default and a grant, which interrupt nothing: they
/// leave the [`files`] alone. A history that had both kinds of changes is taken for interrupted, as nothing tells which it was.
fn forms(names: &Names) -> String {
    let base = literal(&names.base);
    format!(
        "(SELECT pg_catalog.string_agg(pg_catalog.concat_ws('.', a.attnum, a.xmin), ' ' ORDER BY a.attnum) \
         FROM pg_catalog.pg_attribute AS a \
         WHERE a.attrelid = pg_catalog.to_regclass({base}) AND a.attnum > 0 AND NOT a.attisdropped)"
    )
}

/// The condition that snapshot `one` sees all that `other` sees, so that it is the same or a later one.
///
/// The visibility of one transaction would not do: the next one after a snapshot may run for hours.
fn is_not_before(one: &str, other: &str) -> String {
    format!(
        "pg_catalog.pg_snapshot_xmax({one}) >= pg_catalog.pg_snapshot_xmax({other}) AND NOT EXISTS \
         (SELECT FROM pg_catalog.pg_snapshot_xip({one}) AS x (id) WHERE pg_catalog.pg_visible_in_snapshot(x.id, {other}))"
    )
}

/// What every script sets for itself.
const SETTINGS: &str = "SET LOCAL search_path = pg_catalog, pg_temp;\n\
SET LOCAL row_security = off;\n\
-- Writers queue behind this script while it waits for its locks; it gives up rather than stop them for long.\n\
SET LOCAL lock_timeout = '10s';\n";

/// The names of a table and its companion, checked and quoted.
struct Names {
    /// `schema.table`, unquoted.
    title: String,
    /// The table, quoted.
    base: String,
    /// The companion, quoted; the function has this name too.
    companion: String,
    /// What the table is called in the spans: `schema.table` as a literal.
    relation: String,
}

impl Names {
    fn check(table: &HistoryTable<'_>) -> Result<Self, HistoryFault> {
        if table.schema.contains('.') || table.table.contains('.') {
            return Err(HistoryFault::DottedName);
        }
        if table.key.is_empty() {
            return Err(HistoryFault::NoPrimaryKey);
        }
        let reserved = |name: &&String| [FROM, TO].contains(&name.as_str());
        if let Some(name) = table.columns.iter().find(reserved) {
            return Err(HistoryFault::ReservedColumn(name.clone()));
        }
        let title = format!("{}.{}", table.schema, table.table);
        if title.len() > LONGEST_NAME {
            return Err(HistoryFault::NameTooLong);
        }
        Ok(Self {
            base: format!("{}.{}", identifier(table.schema), identifier(table.table)),
            companion: format!("{SCHEMA}.{}", identifier(&title)),
            relation: literal(&title),
            title,
        })
    }
}

/// The schema and the spans, if they are missing.
fn schema_body() -> String {
    format!(
        "DECLARE\n  palisade_owner pg_catalog.text;\n  palisade_grantee record;\n\
         BEGIN\n  \
         PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('{SCHEMA}', 0));\n  \
         SELECT n.nspowner::pg_catalog.regrole::pg_catalog.text INTO palisade_owner\n    \
         FROM pg_catalog.pg_namespace AS n WHERE n.nspname = '{SCHEMA}';\n  \
         IF palisade_owner IS NULL THEN\n    \
         CREATE SCHEMA {SCHEMA};\n    \
         FOR palisade_grantee IN\n      \
         SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END AS name\n      \
         FROM pg_catalog.pg_namespace AS n, pg_catalog.aclexplode(n.nspacl) AS a\n      \
         WHERE n.nspname = '{SCHEMA}' AND a.grantee <> n.nspowner\n    \
         LOOP\n      \
         EXECUTE 'REVOKE ALL ON SCHEMA {SCHEMA} FROM ' || palisade_grantee.name;\n    \
         END LOOP;\n  \
         ELSIF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace AS n JOIN pg_catalog.pg_roles AS r ON r.oid = n.nspowner\n      \
         WHERE n.nspname = '{SCHEMA}' AND r.rolname = current_user) THEN\n    \
         RAISE EXCEPTION 'the schema {SCHEMA} belongs to %', palisade_owner USING HINT = 'Run the script as that role, or drop the schema.';\n  \
         END IF;\n  \
         IF EXISTS (SELECT FROM pg_catalog.pg_publication AS p WHERE p.puballtables) THEN\n    \
         RAISE WARNING 'a publication of all tables takes the history too: subscribers need its tables';\n  \
         END IF;\n  \
         CREATE TABLE IF NOT EXISTS {SCHEMA}.spans (\n    \
         relation pg_catalog.text PRIMARY KEY,\n    \
         since pg_catalog.xid8 NOT NULL,\n    \
         companion pg_catalog.oid NOT NULL,\n    \
         system_identifier pg_catalog.int8 NOT NULL,\n    \
         pruned pg_catalog.pg_snapshot,\n    \
         seal pg_catalog.text,\n    \
         files pg_catalog.text,\n    \
         forms pg_catalog.text\n  \
         );\n  \
         -- Histories that were begun without one are begun anew.\n  \
         ALTER TABLE {SCHEMA}.spans ADD COLUMN IF NOT EXISTS seal pg_catalog.text,\n    \
         ADD COLUMN IF NOT EXISTS files pg_catalog.text, ADD COLUMN IF NOT EXISTS forms pg_catalog.text;\n\
         END\n"
    )
}

/// What has to be so when the script runs, and cannot be known before.
fn checks_body(table: &HistoryTable<'_>, names: &Names) -> String {
    let base = literal(&names.base);
    let columns = list(table.columns, literal);
    let keys = list(table.key, literal);
    let checks = [
        (
            format!(
                "NOT EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = {base}::pg_catalog.regclass AND c.relkind IN ('r', 'p'))"
            ),
            "it is no table",
            "History is kept of tables alone.",
        ),
        (
            format!(
                "EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = {base}::pg_catalog.regclass AND c.relispartition)"
            ),
            "it is a partition",
            "Keep the history of the table at the root instead.",
        ),
        (
            format!(
                "EXISTS (SELECT FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhparent \
                 WHERE c.relkind = 'r' AND {base}::pg_catalog.regclass IN (i.inhrelid, i.inhparent))"
            ),
            "it inherits or is inherited from",
            "Changes through another table of the family would be missed; use partitions instead.",
        ),
        (
            format!(
                "EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE (c.oid = {base}::pg_catalog.regclass \
                 OR c.oid IN (SELECT p.relid FROM pg_catalog.pg_partition_tree({base}::pg_catalog.regclass) AS p)) \
                 AND (c.relpersistence <> 'p' OR c.relkind NOT IN ('r', 'p')))"
            ),
            "it or a partition is unlogged, temporary or foreign",
            "Make it an ordinary table first.",
        ),
        (
            format!(
                "pg_catalog.array_to_json(ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = {base}::pg_catalog.regclass \
                 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum))::pg_catalog.text \
                 <> pg_catalog.array_to_json(ARRAY[{columns}]::pg_catalog.text[])::pg_catalog.text"
            ),
            "its columns have changed since this script was printed",
            "Print the script again.",
        ),
        (
            format!(
                "pg_catalog.array_to_json(ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_index AS i, \
                 pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY AS k (attnum, place), pg_catalog.pg_attribute AS a \
                 WHERE i.indrelid = {base}::pg_catalog.regclass AND i.indisprimary AND k.place <= i.indnkeyatts \
                 AND a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY k.place))::pg_catalog.text \
                 <> pg_catalog.array_to_json(ARRAY[{keys}]::pg_catalog.text[])::pg_catalog.text"
            ),
            "its primary key has changed since this script was printed",
            "Print the script again.",
        ),
    ];
    let mut body = "BEGIN\n".to_owned();
    for (condition, problem, hint) in checks {
        body.push_str(&format!(
            "  IF {condition} THEN\n    \
             RAISE EXCEPTION 'no history of %: {problem}', {} USING HINT = '{hint}';\n  \
             END IF;\n",
            names.relation
        ));
    }
    body.push_str("END\n");
    body
}

/// The index of open rows: unique where the key is checked at once, as a deferred one may stand twice for a while.
fn open_index_body(names: &Names, keys: &str) -> String {
    let Names {
        base, companion, ..
    } = names;
    let base = literal(base);
    format!(
        "BEGIN\n  \
         IF EXISTS (SELECT FROM pg_catalog.pg_index AS i WHERE i.indrelid = {base}::pg_catalog.regclass AND i.indisprimary AND i.indimmediate) THEN\n    \
         CREATE UNIQUE INDEX ON {companion} ({keys}) WHERE {TO} IS NULL;\n  \
         ELSE\n    \
         CREATE INDEX ON {companion} ({keys}) WHERE {TO} IS NULL;\n  \
         END IF;\n\
         END\n"
    )
}

/// Grants that default privileges made are taken back.
fn revocations_body(names: &Names) -> String {
    let companion = &names.companion;
    let companion_text = literal(companion);
    let procedure = literal(&format!("{companion}()"));
    format!(
        "DECLARE\n  palisade_grantee record;\n\
         BEGIN\n  \
         FOR palisade_grantee IN\n    \
         SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END AS name\n    \
         FROM (SELECT c.relowner AS owner, c.relacl AS acl FROM pg_catalog.pg_class AS c WHERE c.oid = {companion_text}::pg_catalog.regclass\n      \
         UNION ALL SELECT p.proowner, COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner)) FROM pg_catalog.pg_proc AS p\n      \
         WHERE p.oid = {procedure}::pg_catalog.regprocedure) AS o, pg_catalog.aclexplode(o.acl) AS a\n    \
         WHERE a.grantee <> o.owner\n  \
         LOOP\n    \
         EXECUTE pg_catalog.concat('REVOKE ALL ON TABLE ', {companion_text}, ' FROM ', palisade_grantee.name);\n    \
         EXECUTE pg_catalog.concat('REVOKE ALL ON FUNCTION ', {procedure}, ' FROM ', palisade_grantee.name);\n  \
         END LOOP;\n\
         END\n"
    )
}

/// The triggers of the table and of each of its partitions, however deep.
fn triggers_body(names: &Names) -> String {
    let base = literal(&names.base);
    let function = literal(&names.companion);
    let statements = [
        (
            "insert",
            "AFTER INSERT",
            "REFERENCING NEW TABLE AS palisade_new ",
        ),
        (
            "update",
            "AFTER UPDATE",
            "REFERENCING OLD TABLE AS palisade_old NEW TABLE AS palisade_new ",
        ),
        (
            "delete",
            "AFTER DELETE",
            "REFERENCING OLD TABLE AS palisade_old ",
        ),
        ("truncate", "BEFORE TRUNCATE", ""),
    ];
    let mut made = String::new();
    for (name, event, tables) in statements {
        made.push_str(&format!(
            "    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER {TRIGGER}{name} {event} ON %s \
             {tables}FOR EACH STATEMENT EXECUTE FUNCTION %s()', palisade_relation, {function});\n    \
             EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER {TRIGGER}{name}', palisade_relation);\n"
        ));
    }
    format!(
        "DECLARE\n  palisade_relation pg_catalog.regclass;\n\
         BEGIN\n  \
         -- Subscriptions fire row triggers alone; partitions take this one from the root.\n  \
         EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER {TRIGGER}row AFTER INSERT OR UPDATE OR DELETE ON %s \
         FOR EACH ROW EXECUTE FUNCTION %s()', {base}::pg_catalog.regclass, {function});\n  \
         FOR palisade_relation IN\n    \
         SELECT {base}::pg_catalog.regclass UNION SELECT p.relid FROM pg_catalog.pg_partition_tree({base}::pg_catalog.regclass) AS p\n  \
         LOOP\n\
         {made}    \
         EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE REPLICA TRIGGER {TRIGGER}row', palisade_relation);\n  \
         END LOOP;\n\
         END\n"
    )
}

/// The block that makes the function of the triggers, with the operators by which the primary key compares.
fn function_body(table: &HistoryTable<'_>, names: &Names) -> String {
    let Names {
        base, companion, ..
    } = names;
    let base_text = literal(base);
    let function = format!(
        "CREATE OR REPLACE FUNCTION {companion}() RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER\n\
         -- Rows are always found by index, whatever the plan was made for.\n\
         SET search_path = pg_catalog, pg_temp SET row_security = off SET enable_seqscan = off\n\
         SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off\n\
         AS {};\n",
        dollar_quote(&trigger_body(table, names))
    );
    // What `format` puts in is marked in the text; all other percent signs are doubled.
    let mut template = function.replace('%', "%%");
    let mut arguments = String::new();
    for place in 0..table.key.len() {
        template = template.replace(&operator_mark(place), &format!("%{}$s", place + 1));
        arguments.push_str(&format!(", palisade_operators[{}]", place + 1));
    }
    let last = table.key.len() + 1;
    template = template.replace(ARRAY_MARK, &format!("%{last}$s"));
    let count = table.key.len();
    format!(
        "DECLARE\n  palisade_operators pg_catalog.text[];\n  palisade_array pg_catalog.text;\n\
         BEGIN\n  \
         palisade_operators := ARRAY(\n    \
         SELECT pg_catalog.format('OPERATOR(%I.%s)', n.nspname, o.oprname)\n    \
         FROM pg_catalog.pg_index AS i, pg_catalog.unnest(i.indclass::pg_catalog.oid[]) WITH ORDINALITY AS k (opclass, place),\n      \
         pg_catalog.pg_opclass AS c, pg_catalog.pg_amop AS m, pg_catalog.pg_operator AS o, pg_catalog.pg_namespace AS n\n    \
         WHERE i.indrelid = {base_text}::pg_catalog.regclass AND i.indisprimary AND c.oid = k.opclass\n      \
         AND m.amopfamily = c.opcfamily AND m.amopstrategy = 3 AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype\n      \
         AND o.oid = m.amopopr AND n.oid = o.oprnamespace\n    \
         ORDER BY k.place);\n  \
         SELECT pg_catalog.format('%I.%I', n.nspname, t.typname) INTO palisade_array\n    \
         FROM pg_catalog.pg_index AS i, pg_catalog.pg_attribute AS a, pg_catalog.pg_type AS e, pg_catalog.pg_type AS t, pg_catalog.pg_namespace AS n\n    \
         WHERE i.indrelid = {base_text}::pg_catalog.regclass AND i.indisprimary\n      \
         AND a.attrelid = i.indrelid AND a.attnum = i.indkey[0] AND e.oid = a.atttypid AND t.oid = e.typarray AND n.oid = t.typnamespace;\n  \
         IF pg_catalog.cardinality(palisade_operators) < {count} OR {count} = 1 AND palisade_array IS NULL THEN\n    \
         RAISE EXCEPTION 'no history of %: the type of its primary key cannot be compared', {relation}\n      \
         USING HINT = 'A key of one column must not be an array; give the table another primary key.';\n  \
         END IF;\n  \
         EXECUTE pg_catalog.format({template}{arguments}, palisade_array);\n\
         END\n",
        relation = names.relation,
        template = dollar_quote(&template),
    )
}

/// Where the name of the key's array type goes; control characters tell it from names.
const ARRAY_MARK: &str = "\u{1}palisade_array\u{1}";

/// Where the operator goes by which a column of the key compares.
fn operator_mark(place: usize) -> String {
    format!("\u{1}palisade_operator_{place}\u{1}")
}

/// What the triggers do.
fn trigger_body(table: &HistoryTable<'_>, names: &Names) -> String {
    let Names {
        base,
        companion,
        relation,
        ..
    } = names;
    let companion_text = literal(companion);
    let base_text = literal(base);
    let same = table
        .key
        .iter()
        .enumerate()
        .map(|(place, name)| {
            let name = identifier(name);
            format!("h.{name} {} l.{name}", operator_mark(place))
        })
        .collect::<Vec<_>>()
        .join(" AND ");
    let work = if let [key] = table.key {
        keep_by_array(table, names, key)
    } else {
        keep_by_rows(table, names)
    };
    let declared = if table.key.len() == 1 {
        format!("  palisade_keys {ARRAY_MARK};\n")
    } else {
        String::new()
    };
    format!(
        "\n#variable_conflict use_variable\n\
         DECLARE\n  palisade_xid pg_catalog.xid8;\n{declared}\
         BEGIN\n  \
         IF pg_catalog.current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN\n    \
         IF TG_OP = 'TRUNCATE' THEN\n      \
         RAISE EXCEPTION 'TRUNCATE of a table with history needs READ COMMITTED'\n        \
         USING ERRCODE = 'feature_not_supported', HINT = 'Rows that this transaction does not see would stay in the history.';\n    \
         ELSIF NOT EXISTS (SELECT FROM {SCHEMA}.spans AS s WHERE s.relation = {relation}\n        \
         AND s.companion = {companion_text}::pg_catalog.regclass) THEN\n      \
         RAISE EXCEPTION 'the history of this table began after this transaction'\n        \
         USING ERRCODE = 'serialization_failure', HINT = 'Try the transaction again.';\n    \
         END IF;\n  \
         END IF;\n  \
         IF TG_OP = 'TRUNCATE' THEN\n    \
         palisade_xid := pg_catalog.pg_current_xact_id();\n    \
         IF TG_RELID = {base_text}::pg_catalog.regclass THEN\n      \
         DELETE FROM {companion} AS h WHERE h.{TO} IS NULL AND h.{FROM} = palisade_xid;\n      \
         UPDATE {companion} AS h SET {TO} = palisade_xid WHERE h.{TO} IS NULL;\n    \
         ELSE\n      \
         EXECUTE pg_catalog.format({delete_leaf}, TG_RELID::pg_catalog.regclass) USING palisade_xid;\n      \
         EXECUTE pg_catalog.format({close_leaf}, TG_RELID::pg_catalog.regclass) USING palisade_xid;\n    \
         END IF;\n    \
         RETURN NULL;\n  \
         END IF;\n\
         {work}  \
         RETURN NULL;\n\
         END\n",
        delete_leaf = literal(&format!(
            "DELETE FROM {} AS h USING %s AS l WHERE {} AND h.{TO} IS NULL AND h.{FROM} = $1",
            companion.replace('%', "%%"),
            same.replace('%', "%%"),
        )),
        close_leaf = literal(&format!(
            "UPDATE {} AS h SET {TO} = $1 FROM %s AS l WHERE {} AND h.{TO} IS NULL",
            companion.replace('%', "%%"),
            same.replace('%', "%%"),
        )),
    )
}

/// Keeping rows whose key is one column: by an array, which is the fastest.
fn keep_by_array(table: &HistoryTable<'_>, names: &Names, key: &str) -> String {
    let Names {
        base, companion, ..
    } = names;
    let key = identifier(key);
    let equal = operator_mark(0);
    let columns = list(table.columns, identifier);
    let values = list(table.columns, |name| format!("b.{}", identifier(name)));
    format!(
        "  IF TG_LEVEL = 'ROW' THEN\n    \
         palisade_keys := ARRAY[OLD.{key}, NEW.{key}];\n  \
         ELSIF TG_OP = 'INSERT' THEN\n    \
         palisade_keys := ARRAY(SELECT n.{key} FROM palisade_new AS n);\n  \
         ELSIF TG_OP = 'DELETE' THEN\n    \
         palisade_keys := ARRAY(SELECT o.{key} FROM palisade_old AS o);\n  \
         ELSE\n    \
         palisade_keys := ARRAY(SELECT o.{key} FROM palisade_old AS o UNION SELECT n.{key} FROM palisade_new AS n);\n  \
         END IF;\n  \
         IF pg_catalog.cardinality(palisade_keys) = 0 THEN\n    \
         RETURN NULL;\n  \
         END IF;\n  \
         palisade_xid := pg_catalog.pg_current_xact_id();\n  \
         DELETE FROM {companion} AS h\n    \
         WHERE h.{key} {equal} ANY (palisade_keys) AND h.{TO} IS NULL AND h.{FROM} = palisade_xid;\n  \
         UPDATE {companion} AS h SET {TO} = palisade_xid\n    \
         WHERE h.{key} {equal} ANY (palisade_keys) AND h.{TO} IS NULL;\n  \
         INSERT INTO {companion} ({columns}, {FROM})\n    \
         SELECT {values}, palisade_xid FROM {base} AS b WHERE b.{key} {equal} ANY (palisade_keys);\n"
    )
}

/// Keeping rows whose key has several columns: one by one, so that no plan reads the whole table.
fn keep_by_rows(table: &HistoryTable<'_>, names: &Names) -> String {
    let of = |alias: &str| {
        list(table.key, |name| {
            let name = identifier(name);
            format!("{alias}.{name} AS {name}")
        })
    };
    let old = format!("SELECT {} FROM palisade_old AS o", of("o"));
    let new = format!("SELECT {} FROM palisade_new AS n", of("n"));
    let row = format!(
        "SELECT {} WHERE TG_OP <> 'INSERT' UNION SELECT {} WHERE TG_OP <> 'DELETE'",
        of("OLD"),
        of("NEW")
    );
    let branches = [
        ("IF TG_LEVEL = 'ROW'", row.clone(), row),
        (
            "ELSIF TG_OP = 'INSERT'",
            new.clone(),
            new.replacen("SELECT", "SELECT DISTINCT", 1),
        ),
        (
            "ELSIF TG_OP = 'DELETE'",
            old.clone(),
            old.replacen("SELECT", "SELECT DISTINCT", 1),
        ),
        ("ELSE", new.clone(), format!("{old} UNION {new}")),
    ];
    let mut work = String::new();
    for (condition, any, keys) in branches {
        let then = if condition == "ELSE" { "" } else { " THEN" };
        work.push_str(&format!(
            "  {condition}{then}\n{}",
            keep_each(table, names, &any, &keys)
        ));
    }
    work.push_str("  END IF;\n");
    work
}

/// Keeping the rows of the keys that `keys` gives, if `any` gives one; each key comes once.
fn keep_each(table: &HistoryTable<'_>, names: &Names, any: &str, keys: &str) -> String {
    let Names {
        base, companion, ..
    } = names;
    let same = |alias: &str| {
        table
            .key
            .iter()
            .enumerate()
            .map(|(place, name)| {
                let name = identifier(name);
                format!("{alias}.{name} {} k.{name}", operator_mark(place))
            })
            .collect::<Vec<_>>()
            .join(" AND ")
    };
    let open = format!(
        "SELECT h.ctid AS place FROM {companion} AS h WHERE {} AND h.{TO} IS NULL",
        same("h")
    );
    let columns = list(table.columns, identifier);
    let values = list(table.columns, |name| format!("c.{}", identifier(name)));
    let rows = list(table.columns, |name| {
        let name = identifier(name);
        format!("b.{name} AS {name}")
    });
    format!(
        "    IF NOT EXISTS ({any}) THEN\n      \
         RETURN NULL;\n    \
         END IF;\n    \
         palisade_xid := pg_catalog.pg_current_xact_id();\n    \
         DELETE FROM {companion} AS h USING ({keys}) AS k\n      \
         CROSS JOIN LATERAL ({open} AND h.{FROM} = palisade_xid OFFSET 0) AS c WHERE h.ctid = c.place;\n    \
         UPDATE {companion} AS h SET {TO} = palisade_xid FROM ({keys}) AS k\n      \
         CROSS JOIN LATERAL ({open} OFFSET 0) AS c WHERE h.ctid = c.place;\n    \
         INSERT INTO {companion} ({columns}, {FROM})\n      \
         SELECT {values}, palisade_xid FROM ({keys}) AS k\n      \
         CROSS JOIN LATERAL (SELECT {rows} FROM {base} AS b WHERE {here} OFFSET 0) AS c;\n",
        here = same("b"),
    )
}

/// An anonymous block.
fn do_block(body: &str) -> String {
    format!("DO {};\n", dollar_quote(&format!("\n{body}")))
}

/// A text between dollar signs, with a tag that does not occur in it.
pub(super) fn dollar_quote(text: &str) -> String {
    let mut tag = "palisade".to_owned();
    while text.contains(&format!("${tag}")) {
        tag.push('_');
    }
    format!("${tag}${text}${tag}$")
}

/// A name as an identifier, always quoted.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string literal, whatever `standard_conforming_strings` says.
pub(super) fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    if quoted.contains('\\') {
        format!("E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}

/// Names, each written by `write`, with commas between them.
fn list(names: &[String], write: impl Fn(&str) -> String) -> String {
    names
        .iter()
        .map(|name| write(name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A text for a comment: a line's end in a name would end the comment too.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
