//! The account of a PostgreSQL server.

mod image_readers;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use palisade::{ident, limits::Limits, session::Principal};
use palisade_postgres::examine;
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use super::{Account, Asked, Mending, Plan, beside_changes, comment, compare_changes};
use crate::{
    database::Access,
    exit::Failure,
    needs::{Changes, Needs, needs, principals},
    postgres,
    setup::Setup,
    step_needs::{IMAGES_NOTE, StepNeeds},
    target::Target,
    weakness::{Weak, missing},
};

/// Milliseconds that a session of the account may work on one statement, if the limits do not ask for more.
/// Our own transactions set their own, shorter time.
const STATEMENT_TIMEOUT_MS: u64 = 10_000;

/// Milliseconds that a transaction of the account may wait for its client.
const IDLE_TIMEOUT_MS: u64 = 10_000;

/// The schema of histories.
const HISTORY: &str = "palisade_history";

/// The columns of the table there that says since when each is whole.
const SPANS: [&str; 8] = [
    "relation",
    "since",
    "companion",
    "system_identifier",
    "pruned",
    "seal",
    "files",
    "forms",
];

/// Looks at the account that `target` logs in as.
pub(crate) async fn look(
    setup: &Setup,
    target: &Target,
    access: Access,
) -> Result<Account, Failure> {
    let client = postgres::client(target).await?;
    let fault = |error: tokio_postgres::Error| {
        Failure::Unavailable(format!("cannot look at the account: {error}"))
    };
    let rows = client
        .query_typed("SELECT pg_catalog.current_setting('server_version')", &[])
        .await
        .map_err(fault)?;
    let version: Option<String> = rows
        .first()
        .map(|row| row.try_get(0))
        .transpose()
        .map_err(fault)?;
    let weaknesses = examine(&client).await.map_err(fault)?;
    let weaknesses = weaknesses.into_iter().map(Weak::from);
    let mut weaknesses: Vec<Weak> = match access {
        Access::Read => weaknesses.collect(),
        Access::Write => beside_changes(weaknesses),
    };
    // The built-in policies speak of every table; that an account reads fewer is no fault.
    if !setup.is_starter || access == Access::Write {
        let mut needs = of_database(setup, target, &client, &principals(setup), access).await?;
        if !setup.is_starter {
            let lacking = lacking(&client, target.user(), &needs).await;
            weaknesses.extend(lacking.map_err(fault)?);
        }
        if access == Access::Write {
            needs.look_before(&postgres::catalog(target, &client).await?);
            let mut held = read_changes(&client).await.map_err(fault)?;
            if let Some(steps) = &needs.steps {
                let own = steps.tables();
                // Receipts and images are the gate's own to write, and no policy's.
                for (key, _) in own.iter().take(2) {
                    held.remove(key);
                }
                let holds = read_privileges(&client, &own).await.map_err(fault)?;
                let role = ident::quote(target.user());
                let mend = |words: &str, (schema, name): &(String, String)| {
                    format!(
                        "GRANT {words} ON {} TO {role};",
                        ident::qualify([schema.as_str(), name.as_str()])
                    )
                };
                weaknesses.extend(steps.find_lacking(target.user(), &holds, mend));
            }
            weaknesses.extend(changes(target.user(), &needs, &held));
        }
    }
    let readers = image_readers::find(&client).await.map_err(fault)?;
    weaknesses.extend(readers.weaknesses);
    let (everybody, weaknesses) = weaknesses
        .into_iter()
        .partition::<Vec<_>, _>(|weak| weak.kind == postgres::TEMPORARY);
    let notes = everybody.into_iter().map(|weak| {
        format!(
            "{}; the gate's own sessions create none. `{}` takes it from all accounts.",
            weak.description, weak.remedy
        )
    });
    Ok(Account {
        product: "PostgreSQL",
        version,
        role: target.user().to_owned(),
        weaknesses,
        notes: notes.chain(readers.notes).collect(),
    })
}

/// The account that `target` logs in as, as `--role` takes it. None where it administers the server:
/// statements run by another account then.
pub(crate) async fn own_role(target: &Target) -> Result<Option<String>, Failure> {
    let client = postgres::client(target).await?;
    let found = examine(&client)
        .await
        .map_err(|error| Failure::Unavailable(format!("cannot look at the account: {error}")))?;
    let administers = (found.into_iter().map(Weak::from)).any(|weak| weak.is_administration());
    Ok((!administers).then(|| target.user().to_owned()))
}

/// SQL that makes an account with no more than the policies in force need.
pub(crate) async fn sql(
    setup: &Setup,
    target: &Target,
    asked: Asked<'_>,
) -> Result<String, Failure> {
    let client = postgres::client(target).await?;
    let principals = principals(setup);
    let mut needs = of_database(setup, target, &client, &principals, asked.access).await?;
    if asked.in_steps {
        needs.look_before(&postgres::catalog(target, &client).await?);
    }
    let sequences = sequences(&client, &needs)
        .await
        .map_err(|error| Failure::Unavailable(format!("cannot read the sequences: {error}")))?;
    let kept = unreadable_system_columns(&client, &needs)
        .await
        .map_err(|error| Failure::Unavailable(format!("cannot read privileges: {error}")))?;
    drop(client);
    let plan = Plan::new(asked, &principals, &needs);
    let privileges = (&sequences, &kept);
    Ok(script(target.database(), &plan, privileges, &setup.limits))
}

/// What the policies let `principals` read and change of the database that `client` is connected to.
async fn of_database(
    setup: &Setup,
    target: &Target,
    client: &Client,
    principals: &BTreeSet<Principal>,
    access: Access,
) -> Result<Needs, Failure> {
    let catalog = postgres::catalog(target, client).await?;
    let invoker = invoker_views(client)
        .await
        .map_err(|error| Failure::Unavailable(format!("cannot read the views: {error}")))?;
    let firewall = setup.firewall(catalog, access)?;
    let mut needs = needs(&firewall, principals, &invoker)?;
    needs.read_past(firewall.catalog());
    if !needs.past.is_empty() {
        let spans = (HISTORY.to_owned(), "spans".to_owned());
        needs.past.insert(spans, SPANS.map(str::to_owned).into());
    }
    Ok(needs)
}

/// Views that read with the rights of whoever asks.
async fn invoker_views(client: &Client) -> Result<BTreeSet<String>, tokio_postgres::Error> {
    let sql = "SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE c.relkind = 'v' AND EXISTS (SELECT FROM pg_catalog.pg_options_to_table(c.reloptions) o \
                 WHERE o.option_name = 'security_invoker' AND o.option_value::bool)";
    let mut uids = BTreeSet::new();
    for row in client.query_typed(sql, &[]).await? {
        let (schema, name): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        uids.insert(ident::qualify([schema.as_str(), name.as_str()]));
    }
    Ok(uids)
}

/// What the policies let somebody see and the account cannot read.
async fn lacking(
    client: &Client,
    user: &str,
    needs: &Needs,
) -> Result<Vec<Weak>, tokio_postgres::Error> {
    let wanted = needs.relations.iter().chain(&needs.system);
    let wanted = wanted.chain(&needs.past);
    let lacking = unreadable(client, "current_user", wanted).await?;
    let role = ident::quote(user);
    Ok(lacking
        .iter()
        .map(|((schema, name), columns)| {
            missing(
                user,
                &ident::qualify([schema.as_str(), name.as_str()]),
                columns.iter().map(String::as_str),
                format!(
                    "GRANT USAGE ON SCHEMA {} TO {role}; {}",
                    ident::quote(schema),
                    grant(schema, name, columns, &role)
                ),
            )
        })
        .collect())
}

/// Columns by relation, as [`Needs`] holds them.
type Columns = BTreeMap<(String, String), BTreeSet<String>>;

/// What of the server's own relations not every account may read.
async fn unreadable_system_columns(
    client: &Client,
    needs: &Needs,
) -> Result<Columns, tokio_postgres::Error> {
    unreadable(client, "'public'::name", needs.system.iter()).await
}

/// Those of the columns that `role`, an expression of its name, may not read.
async fn unreadable(
    client: &Client,
    role: &str,
    wanted: impl Iterator<Item = (&(String, String), &BTreeSet<String>)>,
) -> Result<Columns, tokio_postgres::Error> {
    let (mut schemas, mut names, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for ((schema, name), wanted) in wanted {
        for column in wanted {
            schemas.push(schema.as_str());
            names.push(name.as_str());
            columns.push(column.as_str());
        }
    }
    let sql = format!(
        "SELECT w.s, w.n, w.c FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2), pg_catalog.unnest($3)) AS w (s, n, c) \
         JOIN pg_catalog.pg_namespace n ON n.nspname = w.s \
         JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = w.n \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attname = w.c \
         WHERE NOT (pg_catalog.has_schema_privilege({role}, n.oid, 'USAGE') \
                    AND pg_catalog.has_column_privilege({role}, r.oid, a.attnum, 'SELECT'))"
    );
    let texts = Type::TEXT_ARRAY;
    let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
        (&schemas, texts.clone()),
        (&names, texts.clone()),
        (&columns, texts),
    ];
    let mut unreadable = Columns::new();
    for row in client.query_typed(&sql, &parameters).await? {
        let key = (row.try_get(0)?, row.try_get(1)?);
        unreadable.entry(key).or_default().insert(row.try_get(2)?);
    }
    Ok(unreadable)
}

/// Sequences that give new rows of the tables to insert into their numbers, as identifiers. Those of identity
/// columns need no privilege.
async fn sequences(
    client: &Client,
    needs: &Needs,
) -> Result<BTreeSet<(String, String)>, tokio_postgres::Error> {
    let sql = "SELECT t.nspname::text, c.relname::text, n.nspname::text, s.relname::text \
               FROM pg_catalog.pg_attrdef d \
               JOIN pg_catalog.pg_class c ON c.oid = d.adrelid \
               JOIN pg_catalog.pg_namespace t ON t.oid = c.relnamespace \
               JOIN pg_catalog.pg_depend p ON p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND p.objid = d.oid \
                 AND p.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass \
               JOIN pg_catalog.pg_class s ON s.oid = p.refobjid AND s.relkind = 'S' \
               JOIN pg_catalog.pg_namespace n ON n.oid = s.relnamespace";
    let mut found = BTreeSet::new();
    for row in client.query_typed(sql, &[]).await? {
        let table = (row.try_get(0)?, row.try_get(1)?);
        let inserts = needs.changes.get(&table);
        if inserts.is_some_and(|changes| !changes.insert.is_empty()) {
            found.insert((row.try_get(2)?, row.try_get(3)?));
        }
    }
    Ok(found)
}

/// What the account may change of tables and views that it does not own, whoever has granted it.
async fn read_changes(
    client: &Client,
) -> Result<BTreeMap<(String, String), Changes>, tokio_postgres::Error> {
    let sql = "SELECT n.nspname::text, c.relname::text, \
                 pg_catalog.array_agg(a.attname::text) FILTER (WHERE pg_catalog.has_column_privilege(c.oid, a.attnum, 'INSERT')), \
                 pg_catalog.array_agg(a.attname::text) FILTER (WHERE pg_catalog.has_column_privilege(c.oid, a.attnum, 'UPDATE')), \
                 pg_catalog.has_table_privilege(c.oid, 'DELETE'), pg_catalog.has_table_privilege(c.oid, 'TRUNCATE') \
               FROM pg_catalog.pg_class c \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
               WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname <> 'information_schema' \
                 AND NOT pg_catalog.starts_with(n.nspname::text, 'pg_') \
                 AND NOT pg_catalog.pg_has_role(session_user, c.relowner, 'MEMBER') \
               GROUP BY n.nspname, c.relname, c.oid";
    let mut held = BTreeMap::new();
    for row in client.query_typed(sql, &[]).await? {
        let columns = |index| -> Result<BTreeSet<String>, tokio_postgres::Error> {
            let names: Option<Vec<String>> = row.try_get(index)?;
            Ok(names.into_iter().flatten().collect())
        };
        let changes = Changes {
            insert: columns(2)?,
            update: columns(3)?,
            delete: row.try_get(4)?,
            truncate: row.try_get(5)?,
        };
        held.insert((row.try_get(0)?, row.try_get(1)?), changes);
    }
    Ok(held)
}

/// Which of the privileges of tables the account holds, where they are there.
async fn read_privileges(
    client: &Client,
    wanted: &[((String, String), &[&str])],
) -> Result<BTreeMap<(String, String), BTreeSet<String>>, tokio_postgres::Error> {
    let (mut schemas, mut names, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for ((schema, name), privileges) in wanted {
        for word in *privileges {
            schemas.push(schema.as_str());
            names.push(name.as_str());
            words.push(*word);
        }
    }
    let sql = "SELECT w.s, w.n, w.p, pg_catalog.has_table_privilege(r.oid, w.p) \
               FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2), pg_catalog.unnest($3)) AS w (s, n, p) \
               JOIN pg_catalog.pg_namespace n ON n.nspname = w.s \
               JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = w.n";
    let texts = Type::TEXT_ARRAY;
    let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
        (&schemas, texts.clone()),
        (&names, texts.clone()),
        (&words, texts),
    ];
    let mut held: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for row in client.query_typed(sql, &parameters).await? {
        let words = held.entry((row.try_get(0)?, row.try_get(1)?)).or_default();
        if row.try_get(3)? {
            words.insert(row.try_get(2)?);
        }
    }
    Ok(held)
}

/// What the account can change, beside what the policies permit. Of what it owns there is nothing to compare.
fn changes(user: &str, needs: &Needs, held: &BTreeMap<(String, String), Changes>) -> Vec<Weak> {
    let role = ident::quote(user);
    let needed = needs
        .changes
        .iter()
        .filter(|(key, _)| held.contains_key(*key));
    let needed = needed
        .map(|(key, changes)| (key.clone(), changes.clone()))
        .collect();
    let relation =
        |schema: &str, name: &str| format!("{}.{}", ident::quote(schema), ident::quote(name));
    let grant = |privileges: &[String], schema: &str, name: &str| {
        format!(
            "GRANT {} ON {} TO {role};",
            privileges.join(", "),
            relation(schema, name)
        )
    };
    let revoke = |needed: &[String], schema: &str, name: &str| {
        let back = match needed {
            [] => String::new(),
            needed => format!(" {}", grant(needed, schema, name)),
        };
        format!(
            "REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON {} FROM PUBLIC, {role};{back}",
            relation(schema, name)
        )
    };
    let mending = Mending {
        user,
        identifier: ident::quote,
        grant: &grant,
        revoke: &revoke,
    };
    compare_changes(&needed, held, &mending)
}

fn script(
    database: &str,
    plan: &Plan<'_>,
    (sequences, kept): (&BTreeSet<(String, String)>, &Columns),
    limits: &Limits,
) -> String {
    let (role, database) = (ident::quote(plan.asked.role), ident::quote(database));
    let statement = STATEMENT_TIMEOUT_MS.max(limits.statement_timeout_ms);
    let read_only = match plan.asked.access {
        Access::Read => format!("ALTER ROLE {role} SET default_transaction_read_only = on;\n"),
        Access::Write => String::new(),
    };
    let mut out = String::new();
    let head = if plan.asked.is_there {
        format!(
            "-- What the account {} is granted, for {}.\n\
             -- Run it in database {} as a superuser. What the account may already stays; `palisade doctor` tells what is too much.\n\
             BEGIN;\n",
            comment(&role),
            plan.who,
            comment(&database)
        )
    } else {
        format!(
            "-- The account that palisade logs in as, with no more than the policies need.\n\
             -- For {}.\n\
             -- Run it in database {} as a superuser. When policies or tables have changed, the same command with\n\
             -- `--update` prints all grants, those that are held among them; to begin anew, run `DROP OWNED BY {role}; DROP ROLE {role};` and this again.\n\
             BEGIN;\n\
             CREATE ROLE {role} LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 40;\n",
            plan.who,
            comment(&database)
        )
    };
    let _ = write!(
        out,
        "{head}{read_only}\
         ALTER ROLE {role} SET statement_timeout = '{statement}ms';\n\
         ALTER ROLE {role} SET idle_in_transaction_session_timeout = '{IDLE_TIMEOUT_MS}ms';\n\
         GRANT CONNECT ON DATABASE {database} TO {role};\n"
    );
    let (read, changed) = (plan.needs.relations.keys(), plan.needs.changes.keys());
    let steps = plan.needs.steps.iter();
    let schemas: BTreeSet<&String> = read
        .chain(plan.needs.past.keys())
        .chain(changed)
        .chain(sequences)
        .chain(steps.clone().flat_map(|steps| &steps.whole))
        .map(|(schema, _)| schema)
        .chain(steps.map(|steps| &steps.schema))
        .collect();
    for schema in schemas {
        let _ = writeln!(
            out,
            "GRANT USAGE ON SCHEMA {} TO {role};",
            ident::quote(schema)
        );
    }
    // By column: a grant on a table would hold for columns that are added later, too.
    let read = plan.needs.relations.iter().chain(&plan.needs.past);
    for ((schema, name), columns) in read.chain(kept) {
        let _ = writeln!(out, "{}", grant(schema, name, columns, &role));
    }
    if !plan.needs.system.is_empty() {
        let names: Vec<String> = (plan.needs.system.keys())
            .map(|(schema, name)| ident::qualify([schema.as_str(), name.as_str()]))
            .collect();
        let _ = write!(
            out,
            "-- Policies name {names}: it shows this account what the server lets it see, which is\n\
             -- little of other roles' sessions without `ALTER ROLE {0} INHERIT; GRANT pg_read_all_stats TO {0};`,\n\
             -- which shows all of them.\n",
            comment(&role),
            names = comment(&names.join(", ")),
        );
    }
    for ((schema, name), changes) in &plan.needs.changes {
        let mut privileges = changes.privileges(ident::quote);
        privileges.extend(changes.truncate.then(|| "TRUNCATE".to_owned()));
        let _ = writeln!(
            out,
            "GRANT {} ON {}.{} TO {role};",
            privileges.join(", "),
            ident::quote(schema),
            ident::quote(name)
        );
    }
    for (schema, name) in sequences {
        let _ = writeln!(
            out,
            "GRANT USAGE ON SEQUENCE {}.{} TO {role};",
            ident::quote(schema),
            ident::quote(name)
        );
    }
    if let Some(steps) = &plan.needs.steps {
        out.push_str(&grant_steps(steps, &role));
    }
    out.push_str("COMMIT;\n");
    out.push_str(&plan.notes());
    if plan.asked.is_there {
        return out;
    }
    let _ = write!(
        out,
        "-- Its password: `\\password {}` in psql asks for one, so that it stands in no file and no log.\n\
         -- Temporary tables are everybody's in a new database; to take that away from all accounts:\n\
         -- REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC;\n",
        comment(plan.asked.role),
        comment(&database)
    );
    out
}

/// What changes in steps take: by table, since a row is read with the place where it is stored.
fn grant_steps(steps: &StepNeeds, role: &str) -> String {
    let ledger = steps.ledger(ident::quote);
    let mut out = "-- Changes in steps: whole rows of what is changed, and receipts.\n".to_owned();
    for (schema, name) in &steps.whole {
        let _ = writeln!(
            out,
            "GRANT SELECT ON {}.{} TO {role};",
            ident::quote(schema),
            ident::quote(name)
        );
    }
    out.push_str(&StepNeeds::ledger_script(&ledger, ""));
    let _ = writeln!(out, "GRANT SELECT, INSERT ON {ledger} TO {role};");
    let images = steps.images(ident::quote);
    out.push_str(IMAGES_NOTE);
    out.push_str(&StepNeeds::images_script(&images, "text", ""));
    let _ = writeln!(out, "GRANT SELECT, INSERT, DELETE ON {images} TO {role};");
    for note in &steps.notes {
        let _ = writeln!(out, "-- {}", comment(note));
    }
    out
}

/// Lets `role`, quoted, read these columns.
fn grant(schema: &str, name: &str, columns: &BTreeSet<String>, role: &str) -> String {
    let columns: Vec<String> = columns.iter().map(|column| ident::quote(column)).collect();
    format!(
        "GRANT SELECT ({}) ON {}.{} TO {role};",
        columns.join(", "),
        ident::quote(schema),
        ident::quote(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(role: &str, access: Access) -> Asked<'_> {
        Asked {
            role,
            access,
            is_there: false,
            in_steps: false,
        }
    }

    #[test]
    fn names_stay_names() {
        let mut needs = Needs::default();
        needs.relations.insert(
            ("a\"b".to_owned(), "t; DROP".to_owned()),
            BTreeSet::from(["x)".to_owned()]),
        );
        let principals = BTreeSet::from([Principal::new("Agent", "x\n")]);
        let changes = Changes {
            insert: BTreeSet::from(["x)".to_owned(), "y\"".to_owned()]),
            delete: true,
            ..Changes::default()
        };
        needs
            .changes
            .insert(("a\"b".to_owned(), "t; DROP".to_owned()), changes);
        let plan = Plan::new(asked("r\" SUPERUSER", Access::Write), &principals, &needs);
        let sequences = BTreeSet::from([("a\"b".to_owned(), "s;".to_owned())]);
        let privileges = (&sequences, &Columns::new());
        let text = script("d\nb", &plan, privileges, &Limits::default());
        assert!(
            text.contains("CREATE ROLE \"r\"\" SUPERUSER\" LOGIN"),
            "{text}"
        );
        assert!(
            text.contains(
                "GRANT SELECT (\"x)\") ON \"a\"\"b\".\"t; DROP\" TO \"r\"\" SUPERUSER\";"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "GRANT INSERT (\"x)\", \"y\"\"\"), DELETE ON \"a\"\"b\".\"t; DROP\" TO \"r\"\" SUPERUSER\";"
            ),
            "{text}"
        );
        assert!(
            text.contains("USAGE ON SEQUENCE \"a\"\"b\".\"s;\" TO"),
            "{text}"
        );
        assert!(!text.contains("read_only"), "{text}");
        assert!(text.contains("-- For Agent::\"x \"."), "{text}");
        assert!(!text.contains("pg_read_all_stats"), "{text}");
    }

    #[test]
    fn what_everybody_may_read_is_granted_to_nobody() {
        let key = |name: &str| ("pg_catalog".to_owned(), name.to_owned());
        let columns = |name: &str| BTreeSet::from([name.to_owned()]);
        let needs = Needs {
            system: Columns::from([
                (key("pg_stat_activity"), columns("pid")),
                (key("pg_authid"), columns("rolname")),
            ]),
            ..Needs::default()
        };
        let plan = Plan::new(asked("r", Access::Read), &BTreeSet::new(), &needs);
        let kept = Columns::from([(key("pg_authid"), columns("rolname"))]);
        let text = script("d", &plan, (&BTreeSet::new(), &kept), &Limits::default());
        let grants = text.lines().filter(|line| line.starts_with("GRANT SELECT"));
        let grants: Vec<_> = grants.collect();
        assert_eq!(
            grants,
            ["GRANT SELECT (\"rolname\") ON \"pg_catalog\".\"pg_authid\" TO \"r\";"]
        );
        assert!(
            text.contains("-- Policies name pg_catalog.pg_authid, pg_catalog.pg_stat_activity:"),
            "{text}"
        );
    }
}
