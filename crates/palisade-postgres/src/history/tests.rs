//! The scripts as texts.

use super::script::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn scripts(
    schema: &str,
    table: &str,
    columns: &[&str],
    key: &[&str],
) -> Result<[String; 3], HistoryFault> {
    let (columns, key) = (names(columns), names(key));
    let table = HistoryTable {
        schema,
        table,
        columns: &columns,
        key: &key,
    };
    Ok([
        enable_script(&table, Some("fire\"wall"))?,
        disable_script(&table)?,
        prune_script(&table, "7:9:8")?,
    ])
}

#[test]
fn scripts_are_one_transaction() {
    for script in scripts("public", "users", &["id", "mail"], &["id"]).unwrap() {
        assert_eq!(
            script
                .matches("\nBEGIN ISOLATION LEVEL READ COMMITTED;\n")
                .count(),
            1
        );
        assert!(script.ends_with("COMMIT;\n"));
    }
}

#[test]
fn names_are_quoted() {
    let [enable, disable, _] = scripts("pub\"lic", "us'ers", &["i\"d"], &["i\"d"]).unwrap();
    assert!(enable.contains("LOCK TABLE \"pub\"\"lic\".\"us'ers\" IN SHARE ROW EXCLUSIVE MODE"));
    assert!(enable.contains("palisade_history.\"pub\"\"lic.us'ers\""));
    assert!(enable.contains("TO \"fire\"\"wall\";"));
    assert!(enable.contains("'pub\"lic.us''ers'"));
    assert!(disable.contains("s.relation = 'pub\"lic.us''ers'"));
}

#[test]
fn names_end_no_comment() {
    let [enable, ..] = scripts("public", "a\nDROP", &["id"], &["id"]).unwrap();
    assert!(enable.starts_with("-- History of public.a DROP: begin.\n"));
}

#[test]
fn names_end_no_block() {
    let [enable, ..] = scripts("public", "$palisade$", &["id", "$palisade_$"], &["id"]).unwrap();
    let tags = enable.matches("$palisade____$").count();
    assert!(enable.contains("DO $palisade_"), "{tags}");
    assert_eq!(
        dollar_quote("a$palisade$b"),
        "$palisade_$a$palisade$b$palisade_$"
    );
}

#[test]
fn percent_signs_are_doubled_for_format() {
    let [enable, ..] = scripts("public", "t", &["id", "100%s"], &["id"]).unwrap();
    assert!(enable.contains("b.\"100%%s\", palisade_xid"));
    assert!(enable.contains("SELECT b.\"id\", b.\"100%s\", pg_catalog.pg_current_xact_id()"));
}

#[test]
fn backslashes_are_kept() {
    assert_eq!(literal("a\\'b"), "E'a\\\\''b'");
    assert_eq!(literal("a'b"), "'a''b'");
}

#[test]
fn keys_of_several_columns_are_found_one_by_one() {
    let [enable, ..] = scripts("public", "t", &["a", "b", "c"], &["b", "a"]).unwrap();
    assert!(enable.contains("CROSS JOIN LATERAL"));
    assert!(enable.contains("h.\"b\" %1$s k.\"b\" AND h.\"a\" %2$s k.\"a\""));
    assert!(!enable.contains('\u{1}'));
}

#[test]
fn marks_are_filled() {
    let [enable, ..] = scripts("public", "t", &["a"], &["a"]).unwrap();
    assert!(enable.contains("palisade_keys %2$s;"));
    assert!(!enable.contains('\u{1}'));
}

#[test]
fn nothing_is_granted_without_an_account() {
    let (columns, key) = (names(&["id"]), names(&["id"]));
    let table = HistoryTable {
        schema: "public",
        table: "t",
        columns: &columns,
        key: &key,
    };
    assert!(!enable_script(&table, None).unwrap().contains("GRANT "));
}

#[test]
fn faults_say_what_to_do() {
    let long = "x".repeat(57);
    let cases = [
        (
            scripts("a.b", "t", &["id"], &["id"]),
            HistoryFault::DottedName,
        ),
        (
            scripts("a", "t.b", &["id"], &["id"]),
            HistoryFault::DottedName,
        ),
        (
            scripts("public", "t", &["id"], &[]),
            HistoryFault::NoPrimaryKey,
        ),
        (
            scripts("public", &long, &["id"], &["id"]),
            HistoryFault::NameTooLong,
        ),
        (
            scripts("public", "t", &["id", "palisade_to"], &["id"]),
            HistoryFault::ReservedColumn("palisade_to".to_owned()),
        ),
    ];
    for (result, fault) in cases {
        assert_eq!(result, Err(fault.clone()));
        assert!(fault.to_string().contains(';'), "{fault}");
    }
    assert!(HistoryFault::DottedName.to_string().contains("rename it"));
    assert!(scripts("public", &long[1..], &["id"], &["id"]).is_ok());
}
