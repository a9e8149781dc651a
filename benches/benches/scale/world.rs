//! A schema of any size, and policies over it.

use std::fmt::Write as _;

use palisade::policy::{PolicyFile, PolicySources};

const COLUMNS: [&str; 4] = ["name", "mail", "note", "place"];

/// So many tables of six columns, as a shop of many tenants has them.
pub(crate) fn schema(tables: usize) -> String {
    let mut out = String::new();
    for table in 0..tables {
        writeln!(
            out,
            "CREATE TABLE t{table} (id integer PRIMARY KEY, tenant_id integer, name varchar(40), mail varchar(40), note varchar(40), place varchar(40));"
        )
        .unwrap();
    }
    for table in 0..tables.min(30) {
        writeln!(
            out,
            "INSERT INTO t{table} VALUES (1, 1, 'a', 'b', 'c', 'd');"
        )
        .unwrap();
    }
    out
}

/// A permit of reading, and then forbids: of a column each, and of each hundred one of rows.
pub(crate) fn policies(
    (engine, url): (&str, &str),
    tables: usize,
    policies: usize,
) -> PolicySources {
    let schema = match engine {
        "postgres" => "public",
        // The database is the schema there, and each run has one of its own.
        "mariadb" => url.rsplit('/').next().unwrap(),
        _ => "main",
    };
    let mut text = "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\", Action::\"call\"], resource);\n".to_owned();
    for n in 1..policies {
        let table = n % tables;
        let column = COLUMNS[n / tables % COLUMNS.len()];
        if n % 100 == 99 {
            writeln!(text, "@id(\"rows{n}\") forbid(principal, action == Action::\"see\", resource is row::{schema}::t{table}) unless {{ resource has tenant_id && resource.tenant_id == 1 }};")
        } else {
            writeln!(text, "@id(\"column{n}\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"{schema}.t{table}.{column}\");")
        }
        .unwrap();
    }
    PolicySources {
        policies: vec![PolicyFile {
            name: "scale.cedar".to_owned(),
            text,
        }],
        ..PolicySources::default()
    }
}

/// A join of two tables.
pub(crate) fn statement(n: usize) -> String {
    let (left, right) = (n % 30, (n + 7) % 30);
    format!(
        "SELECT a.id, a.name, b.mail FROM t{left} AS a JOIN t{right} AS b ON a.id = b.id WHERE a.tenant_id = 1"
    )
}
