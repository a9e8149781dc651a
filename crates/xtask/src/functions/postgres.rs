//! PostgreSQL lists its functions in `pg_proc`.

use std::process::{Command, Stdio};

use super::table_format::Found;
use crate::run::Result;

/// One line for each overload: schema, or `@` and the extension; name; `prokind`; whether it returns
/// a set; kind of aggregate and its direct arguments; counts of arguments and of defaults; whether it
/// is variadic; names of columns.
const QUERY: &str = "\
SELECT coalesce('@' || e.extname, n.nspname), lower(p.proname), p.prokind, p.proretset,
       coalesce(a.aggkind::text, '-'), coalesce(a.aggnumdirectargs, 0),
       p.pronargs, p.pronargdefaults, p.provariadic <> 0,
       coalesce((SELECT lower(string_agg(coalesce(nullif(p.proargnames[i], ''), '?'), ',' ORDER BY i))
                 FROM unnest(p.proargmodes) WITH ORDINALITY AS u (mode, i)
                 WHERE mode IN ('o', 'b', 't')), '')
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace
LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid
LEFT JOIN pg_depend d
       ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
LEFT JOIN pg_extension e ON e.oid = d.refobjid
WHERE e.oid IS NOT NULL OR n.nspname IN ('pg_catalog', 'information_schema')
ORDER BY 1, 2, p.pronargs";

/// Every overload of the database at `url`.
pub(super) fn functions(url: &str) -> Result<Vec<Found>> {
    let output = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
        .args(["--field-separator=\t", "--set=ON_ERROR_STOP=1"])
        .args(["--dbname", url, "--command", QUERY])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("psql cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| overload(line).ok_or_else(|| format!("psql answered: {line}")))
        .collect()
}

fn overload(line: &str) -> Option<Found> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let (schema, name, kind, set) = (next()?, next()?, next()?, next()? == "t");
    let (aggregate, direct): (&str, u16) = (next()?, next()?.parse().ok()?);
    let (all, defaults): (u16, u16) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let (variadic, out) = (next()? == "t", next()?);
    let (kind, most, out) = match (kind, aggregate) {
        ("a", "n") => ("aggregate", all, ""),
        // Written in WITHIN GROUP are the others.
        ("a", _) => ("ordered", direct, ""),
        ("w", _) => ("window", all, ""),
        ("p", _) => ("procedure", all, ""),
        ("f", _) if set => ("table", all, out),
        ("f", _) => ("scalar", all, out),
        _ => return None,
    };
    Some(Found {
        schema: schema.to_owned(),
        name: name.to_owned(),
        kind: Some(kind),
        min: most.saturating_sub(defaults),
        max: (!variadic).then_some(most),
        out: out.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: &str) {
        let found = overload(line).map(|f| {
            let max = f.max.map_or("-".to_owned(), |max| max.to_string());
            format!(
                "{} {} {} {}..{max} {}",
                f.schema,
                f.name,
                f.kind.unwrap(),
                f.min,
                f.out
            )
        });
        assert_eq!(found.unwrap_or_default().trim_end(), expect);
    }

    #[test]
    fn overloads_are_read() {
        check(
            "pg_catalog\tjson_each\tf\tt\t-\t0\t1\t0\tf\tkey,value",
            "pg_catalog json_each table 1..1 key,value",
        );
        check(
            "pg_catalog\tpercentile_cont\ta\tf\to\t1\t2\t0\tf\t",
            "pg_catalog percentile_cont ordered 1..1",
        );
        check(
            "pg_catalog\tformat\tf\tf\t-\t0\t2\t0\tt\t",
            "pg_catalog format scalar 2..-",
        );
        check(
            "@dblink\tdblink_exec\tf\tf\t-\t0\t3\t1\tf\t",
            "@dblink dblink_exec scalar 2..3",
        );
        check("psql: error", "");
    }
}
