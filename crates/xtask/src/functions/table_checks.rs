//! What must hold for the tables of functions and of system relations as they are committed.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::root;

const SAFETY: [&str; 12] = [
    "pure",
    "volatile",
    "account",
    "session",
    "catalog",
    "file",
    "network",
    "dynamic-sql",
    "lock",
    "admin",
    "resource",
    "unknown",
];
const KINDS: [&str; 7] = [
    "niladic",
    "scalar",
    "aggregate",
    "window",
    "table",
    "ordered",
    "procedure",
];
const CLASSES: [&str; 6] = [
    "catalog",
    "activity",
    "statistics",
    "secrets",
    "storage",
    "settings",
];

/// Names that a blanket permit must never reach, by engine: files, large objects, network, SQL as text,
/// control of the server, session state, sequences, locks, sleep, replication, raw storage, other
/// people's SQL, texts of definitions, extensions that act.
const DANGEROUS: &[(&str, &str)] = &[
    (
        "postgres",
        "pg_read_file pg_read_binary_file pg_ls_dir pg_ls_logdir pg_ls_waldir pg_stat_file pg_hba_file_rules \
         pg_show_all_file_settings pg_current_logfile pg_file_write lo_export lo_import lo_get loread lowrite lo_put \
         lo_from_bytea lo_creat dblink dblink_exec dblink_connect dblink_connect_u dblink_send_query http_get \
         query_export_to_s3 invoke query_to_xml query_to_xmlschema cursor_to_xml table_to_xml schema_to_xml \
         database_to_xml ts_stat crosstab connectby xpath_table pg_terminate_backend pg_cancel_backend \
         pg_reload_conf pg_rotate_logfile pg_promote pg_switch_wal pg_create_restore_point \
         pg_log_backend_memory_contexts set_config nextval setval currval lastval pg_advisory_lock \
         pg_advisory_lock_shared pg_try_advisory_lock pg_try_advisory_lock_shared pg_advisory_xact_lock \
         pg_advisory_xact_lock_shared pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared \
         pg_advisory_unlock pg_advisory_unlock_shared pg_advisory_unlock_all pg_sleep pg_sleep_for pg_sleep_until \
         array_fill gin_clean_pending_list brin_summarize_new_values pg_import_system_collations pg_backup_start \
         pg_logical_emit_message pg_stat_reset pg_stat_reset_shared pg_stat_statements_reset pg_notify \
         pg_export_snapshot pg_logical_slot_get_changes pg_logical_slot_peek_changes \
         pg_create_logical_replication_slot pg_get_wal_records_info get_raw_page heap_page_items \
         pg_stat_get_activity pg_stat_statements current_setting pg_get_viewdef pg_get_functiondef \
         pg_get_constraintdef obj_description col_description to_regclass regclassin has_table_privilege \
         pg_input_is_valid record_in array_in enum_first enum_last enum_range schedule run_maintenance create_subscription drop_chunks \
         create_hypertable add_retention_policy addgeometrycolumn dropgeometrycolumn st_findextent send \
         create_secret repack_swap squeeze_table system_user current_schemas version",
    ),
    (
        "mysql",
        "load_file sleep benchmark get_lock release_lock release_all_locks is_used_lock is_free_lock \
         wait_for_executed_gtid_set master_pos_wait source_pos_wait master_gtid_wait last_insert_id nextval setval \
         lastval uuid_short user session_user system_user version connection_id \
         found_rows row_count execute_prepared_stmt default match sys_exec sys_eval",
    ),
    (
        "sqlite",
        "fts3_tokenizer load_extension randomblob zeroblob last_insert_rowid pragma_table_info \
         pragma_database_list dbstat changes total_changes",
    ),
];

/// What ordinary statements call.
const HARMLESS: &[(&str, &str)] = &[
    (
        "postgres",
        "abs round coalesce nullif greatest lower upper length substring substr trim btrim replace split_part strpos \
         concat concat_ws format repeat lpad left right md5 sha256 encode decode regexp_replace regexp_matches \
         string_agg array_agg unnest generate_series count sum avg min max stddev percentile_cont row_number rank \
         dense_rank lag lead first_value ntile now current_date current_timestamp date_trunc date_part extract age \
         to_char to_date to_timestamp make_date json_agg jsonb_agg json_build_object jsonb_build_object to_jsonb \
         row_to_json jsonb_each jsonb_array_elements jsonb_path_query jsonb_set to_tsvector to_tsquery ts_rank \
         ts_headline random gen_random_uuid similarity levenshtein unaccent digest st_distance st_intersects \
         st_asgeojson st_geomfromtext cosine_distance time_bucket",
    ),
    (
        "mysql",
        "abs round coalesce ifnull nullif if greatest lower upper length char_length substring trim replace concat \
         concat_ws group_concat repeat lpad left right md5 sha2 hex count sum avg min max std row_number rank lag now \
         curdate date_format date_add datediff timestampdiff extract year month json_extract json_unquote \
         json_object json_arrayagg json_table regexp_replace rand uuid cast convert",
    ),
    (
        "sqlite",
        "abs round coalesce ifnull nullif iif lower upper length substr trim replace concat group_concat count sum \
         avg min max total row_number rank lag date datetime strftime julianday json_extract json_each json_object \
         printf hex random sqrt median",
    ),
];

fn rows(folder: &str, engine: &str) -> Vec<Vec<String>> {
    let path = root().join(format!("crates/palisade/data/{folder}/{engine}.tsv"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

fn sorted_and_unique(rows: &[Vec<String>]) {
    for pair in rows.windows(2) {
        assert!(
            (&pair[0][0], &pair[0][1]) < (&pair[1][0], &pair[1][1]),
            "{pair:?}"
        );
    }
}

#[test]
fn tables_of_functions_are_well_formed() {
    for (engine, _) in DANGEROUS {
        let rows = rows("functions", engine);
        assert!(rows.len() > 200, "{engine}: {}", rows.len());
        sorted_and_unique(&rows);
        for row in rows {
            let [schema, name, kind, safety, min, max, out, bound, note] = row.as_slice() else {
                panic!("{engine}: {row:?}");
            };
            let kinds: Vec<_> = kind
                .split('+')
                .map(|word| KINDS.iter().position(|k| *k == word).unwrap())
                .collect();
            assert!(kinds.is_sorted_by(|a, b| a < b), "{row:?}");
            assert!(SAFETY.contains(&safety.as_str()), "{row:?}");
            let min: u8 = min.parse().unwrap();
            assert!(max == "-" || max.parse::<u8>().unwrap() >= min, "{row:?}");
            let harmless = safety == "pure" || safety == "volatile";
            // A bound matters where a call may happen at all.
            assert!(
                bound == "-" || (harmless && bound.parse::<u8>().unwrap() > 0),
                "{row:?}"
            );
            for text in [schema, name, out, note] {
                assert!(
                    !text.is_empty() && text.trim() == text && *text == text.to_lowercase(),
                    "{row:?}"
                );
            }
            assert!(
                out == "-" || out.split(['|', ',']).all(|column| !column.is_empty()),
                "{row:?}"
            );
            for word in note.split(' ') {
                if let Some((class, count)) = word.split_once(':') {
                    assert!(
                        SAFETY.contains(&class) && count.parse::<u8>().is_ok(),
                        "{row:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_reaches_beyond_its_arguments_needs_a_permit() {
    check_classes(DANGEROUS, |safety| safety != "pure" && safety != "volatile");
}

#[test]
fn what_ordinary_statements_call_is_harmless() {
    check_classes(HARMLESS, |safety| safety == "pure" || safety == "volatile");
}

/// Every name of `lists` is in its table, and each of its rows has a class that `holds`.
fn check_classes(lists: &[(&str, &str)], holds: fn(&str) -> bool) {
    let mut wrong = Vec::new();
    for (engine, names) in lists {
        let mut classes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in rows("functions", engine) {
            classes
                .entry(row[1].clone())
                .or_default()
                .push(row[3].clone());
        }
        for name in names.split_ascii_whitespace() {
            let found = classes.get(name).map_or(&[][..], Vec::as_slice);
            if found.is_empty() || !found.iter().all(|safety| holds(safety)) {
                wrong.push(format!("{engine} {name} {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The bundled SQLite lacks what its command-line shell and loadable extensions add; an agent is told so.
#[test]
fn what_is_not_in_the_build_is_not_in_its_table() {
    let rows = rows("functions", "sqlite");
    for name in [
        "readfile",
        "writefile",
        "edit",
        "eval",
        "fsdir",
        "generate_series",
        "sqlite_dbpage",
    ] {
        assert!(rows.iter().all(|row| row[1] != name), "{name}");
    }
}

/// Two forms whose class depends on the number of arguments.
#[test]
fn some_forms_are_worse_than_their_name() {
    let rows = rows("functions", "postgres");
    for (name, note) in [("ts_rewrite", "dynamic-sql:2"), ("polygon", "resource:2")] {
        let row = rows
            .iter()
            .find(|row| row[0] == "pg_catalog" && row[1] == name)
            .unwrap();
        assert!(row[8].split(' ').any(|word| word == note), "{row:?}");
    }
}

#[test]
fn tables_of_relations_are_well_formed() {
    for engine in ["postgres", "mysql"] {
        let rows = rows("relations", engine);
        assert!(rows.len() > 200, "{engine}: {}", rows.len());
        sorted_and_unique(&rows);
        for row in rows {
            let [schema, name, class, columns, except] = row.as_slice() else {
                panic!("{engine}: {row:?}");
            };
            assert!(CLASSES.contains(&class.as_str()), "{row:?}");
            let names: Vec<_> = columns.split(',').collect();
            let unique: BTreeSet<_> = names.iter().collect();
            assert!(
                unique.len() == names.len() && !unique.contains(&""),
                "{row:?}"
            );
            for text in [schema, name, columns] {
                assert!(!text.is_empty() && *text == text.to_lowercase(), "{row:?}");
            }
            if except == "-" {
                continue;
            }
            for exception in except.split(',') {
                let (column, class) = exception.split_once(':').unwrap();
                assert!(names.contains(&column), "{row:?}");
                assert!(class == "definition" || CLASSES.contains(&class), "{row:?}");
            }
        }
    }
}

#[test]
fn relations_with_values_secrets_or_sessions_need_a_permit() {
    let lists = [
        (
            "postgres",
            "pg_stats pg_statistic pg_statistic_ext_data pg_stats_ext pg_stats_ext_exprs pg_stat_activity \
             pg_stat_statements pg_stat_user_tables pg_user_mapping pg_user_mappings pg_shadow pg_authid \
             pg_subscription pg_foreign_server pg_largeobject pg_hba_file_rules pg_file_settings decrypted_secrets job",
        ),
        (
            "mysql",
            "column_statistics innodb_buffer_page innodb_sys_tablestats processlist \
             events_statements_history events_statements_summary_by_digest user slow_log general_log session_status",
        ),
    ];
    for (engine, names) in lists {
        let rows = rows("relations", engine);
        for name in names.split_ascii_whitespace() {
            let found: Vec<_> = rows.iter().filter(|row| row[1] == name).collect();
            assert!(!found.is_empty(), "{name}");
            assert!(
                found
                    .iter()
                    .all(|row| row[2] != "catalog" && row[2] != "settings"),
                "{found:?}"
            );
        }
    }
}
