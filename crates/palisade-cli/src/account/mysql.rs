//! The account of a MySQL or MariaDB server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use palisade::{
    catalog::{Cascade, Catalog, Change, Relation, RelationKind},
    dialect::Dialect,
    ident,
    past::TO,
    policy::PolicySources,
    session::Principal,
};
use palisade_mysql::{
    Conn, GrantedOn, HistoryGrant, HistoryKeeping, HistoryRights, IntrospectError, KeptTable,
    account::{
        Assigning, assignable, client_host, current, having, invoker_views, readable_system,
        unreadable, version,
    },
    columns_read, examine_beside, history_keeping,
    introspect::tells_triggers,
    list_kept_tables, read_history_rights,
};

use super::{Account, Asked, Mending, Plan, beside_changes, comment, compare_changes};
use crate::{
    database::Access,
    exit::Failure,
    mysql::{self, silent},
    needs::{Changes, Needs, needs, past_columns, principals},
    setup::Setup,
    step_needs::{IMAGES_NOTE, StepNeeds},
    target::Target,
    untold_views,
    weakness::{Weak, missing, missing_changes, missing_history, missing_view},
};

/// Looks at the account that `target` logs in as.
pub(crate) async fn look(
    setup: &Setup,
    target: &Target,
    access: Access,
) -> Result<Account, Failure> {
    let mut conn = mysql::connection(target).await?;
    let (product, version) = version(&mut conn).await.map_err(silent(target))?;
    // The built-in policies speak of every table; that an account reads fewer is no fault.
    let found = if !setup.is_starter || access == Access::Write {
        let found = of_server(setup, target, &mut conn, &principals(setup), access).await?;
        let tells = tells_triggers(&mut conn).await.map_err(silent(target))?;
        let beside = needed_privileges(&found.1, tells);
        Some((found, beside))
    } else {
        None
    };
    let meant = found.iter().flat_map(|((_, needs), beside)| {
        let of_server = needs.system.keys().map(|key| (key, "SELECT"));
        let beside = beside.iter().map(|(key, word)| (key, *word));
        beside.chain(of_server)
    });
    let meant = meant.map(|((schema, name), word)| (word.to_owned(), relation(schema, name)));
    let meant = meant.chain(mysql::lag_rights(target)).collect();
    let weaknesses = examine_beside(&mut conn, &meant).await;
    let weaknesses = weaknesses
        .map_err(silent(target))?
        .into_iter()
        .map(Weak::from);
    let mut weaknesses = match access {
        Access::Read => weaknesses.collect(),
        Access::Write => beside_changes(weaknesses),
    };
    let known = found.as_ref().map(|((catalog, _), _)| catalog.clone());
    weaknesses.extend(look_at_views(setup, target, &mut conn, (known, access)).await?);
    let mut notes = Vec::new();
    if let Some(((catalog, mut needs), beside)) = found {
        let (name, host) = current(&mut conn).await.map_err(silent(target))?;
        let account = account(&name, &host);
        if !setup.is_starter {
            let unreadable = unreadable(&mut conn).await.map_err(silent(target))?;
            weaknesses.extend(lacking(&account, &needs, &unreadable));
            let readable = readable_system(&mut conn).await.map_err(silent(target))?;
            weaknesses.extend(lacking_system(&account, &needs, &readable));
            let of_history = (account.as_str(), target.database());
            let (lacking, obstacle) = look_at_history(&mut conn, of_history, &catalog, &needs)
                .await
                .map_err(silent(target))?;
            weaknesses.extend(lacking);
            notes.extend(obstacle);
        }
        if access == Access::Write {
            let held = read_changes(&mut conn, &catalog)
                .await
                .map_err(silent(target))?;
            weaknesses.extend(changes(&account, &needs, &held));
            needs.look_before(&catalog);
            if let Some(steps) = &needs.steps {
                let holds = read_privileges(&mut conn, &steps.tables())
                    .await
                    .map_err(silent(target))?;
                let mend = |words: &str, (schema, name): &(String, String)| {
                    format!("GRANT {words} ON {} TO {account};", relation(schema, name))
                };
                weaknesses.extend(steps.find_lacking(&account, &holds, mend));
            }
            for ((schema, name), word) in &beside {
                let one = [(schema.as_str(), name.as_str())];
                let held = having(&mut conn, word, &one)
                    .await
                    .map_err(silent(target))?;
                if held.is_empty() {
                    let table = relation(schema, name);
                    let remedy = format!("GRANT {word} ON {table} TO {account};");
                    let shown = ident::qualify([schema.as_str(), name.as_str()]);
                    weaknesses.push(missing_changes(&account, &shown, word, remedy));
                }
            }
        }
    }
    let (name, host) = current(&mut conn).await.map_err(silent(target))?;
    let role = format!("{name}@{host}");
    Ok(Account {
        product,
        version: Some(version),
        role,
        weaknesses,
        notes,
    })
}

/// Views that the account may read and whose definitions it is not told. The built-in policies, too, show all views of the database.
async fn look_at_views(
    setup: &Setup,
    target: &Target,
    conn: &mut Conn,
    (known, access): (Option<Catalog>, Access),
) -> Result<Vec<Weak>, Failure> {
    let catalog = match known {
        Some(catalog) => catalog,
        None => mysql::catalog(target, conn).await?,
    };
    let firewall = setup.firewall(catalog, access)?;
    let untold = untold_views::list(&firewall, setup)?;
    if untold.is_empty() {
        return Ok(Vec::new());
    }
    let (name, host) = current(conn).await.map_err(silent(target))?;
    let account = account(&name, &host);
    let unreadable = unreadable(conn).await.map_err(silent(target))?;
    // What it is not meant to read, it need not be told of.
    let is_read = |view: &Relation| {
        view.columns.iter().any(|column| {
            let key = (
                view.schema.clone(),
                view.name.clone(),
                column.name.to_string(),
            );
            !unreadable.contains(&key)
        })
    };
    let lacking = untold.into_iter().filter(|view| is_read(view)).map(|view| {
        let on = relation(&view.schema, &view.name);
        let remedy = format!("GRANT SELECT, SHOW VIEW ON {on} TO {account};");
        let shown = ident::qualify([view.schema.as_str(), view.name.as_str()]);
        missing_view(&account, &shown, remedy)
    });
    Ok(lacking.collect())
}

/// The account that `target` logs in as, as `--role` takes it. None where it administers the server:
/// statements run by another account then.
pub(crate) async fn own_role(target: &Target) -> Result<Option<String>, Failure> {
    let mut conn = mysql::connection(target).await?;
    let found = examine_beside(&mut conn, &mysql::lag_rights(target))
        .await
        .map_err(silent(target))?;
    let administers = (found.into_iter().map(Weak::from)).any(|weak| weak.is_administration());
    let (name, host) = current(&mut conn).await.map_err(silent(target))?;
    Ok((!administers).then(|| format!("{name}@{host}")))
}

/// SQL that makes an account with no more than the policies in force need. `role` is `NAME` or `NAME@HOST`.
pub(crate) async fn sql(
    setup: &Setup,
    target: &Target,
    asked: Asked<'_>,
) -> Result<String, Failure> {
    let (role, access) = (asked.role, asked.access);
    let mut conn = mysql::connection(target).await?;
    let principals = principals(setup);
    let (catalog, mut needs) = of_server(setup, target, &mut conn, &principals, access).await?;
    if asked.in_steps {
        needs.look_before(&catalog);
    }
    let account = match role.rsplit_once('@') {
        Some((name, host)) => (name.to_owned(), host.to_owned()),
        None => {
            let host = client_host(&mut conn).await.map_err(silent(target))?;
            (role.to_owned(), host)
        }
    };
    let scope = databases(&setup.policies.sources, &catalog, target.database());
    let plan = Plan::new(asked, &principals, &needs);
    let tells = tells_triggers(&mut conn).await.map_err(silent(target))?;
    let keeping = history_keeping(&mut conn).await.map_err(silent(target))?;
    Ok(script(
        &account,
        &catalog,
        &scope,
        &plan,
        (&needed_privileges(&needs, tells), keeping),
    ))
}

/// Privileges beyond changing rows, on tables and views: the servers take the one to do away with a table for emptying it,
/// and most tell of triggers, without which nothing is changed, only to who may make them.
type Beside = BTreeSet<((String, String), &'static str)>;

fn needed_privileges(needs: &Needs, tells_triggers: bool) -> Beside {
    let mut found = Beside::new();
    for (key, changes) in &needs.changes {
        let changes_rows =
            changes.delete || !changes.insert.is_empty() || !changes.update.is_empty();
        if !tells_triggers && changes_rows {
            found.insert((key.clone(), "TRIGGER"));
        }
        if changes.truncate {
            found.insert((key.clone(), "DROP"));
        }
    }
    found.extend(needs.drops.iter().map(|key| (key.clone(), "DROP")));
    found
}

/// What the server holds for the account of `conn`, and what the policies let `principals` read and change of it.
async fn of_server(
    setup: &Setup,
    target: &Target,
    conn: &mut Conn,
    principals: &BTreeSet<Principal>,
    access: Access,
) -> Result<(Catalog, Needs), Failure> {
    let catalog = mysql::catalog(target, conn).await?;
    let invoker = invoker_views(conn).await.map_err(silent(target))?;
    let firewall = setup.firewall(catalog.clone(), access)?;
    let mut needs = needs(&firewall, principals, &invoker)?;
    needs.read_upserted();
    needs.read_reached(firewall.catalog());
    needs.read_past(firewall.catalog());
    Ok((catalog, needs))
}

impl Needs {
    /// Adds what the servers have an account read: what ON DUPLICATE KEY UPDATE assigns, to MariaDB, and what it takes from
    /// the row that was to be inserted, to MySQL.
    fn read_upserted(&mut self) {
        for (key, changes) in &self.changes {
            if !changes.insert.is_empty() && !changes.update.is_empty() {
                let read = self.relations.entry(key.clone()).or_default();
                read.extend(changes.update.iter().cloned());
            }
        }
    }

    /// Adds what the account reads so that rows which foreign keys change are counted.
    fn read_reached(&mut self, catalog: &Catalog) {
        let permitted = |relation: &Relation| {
            let key = (relation.schema.clone(), relation.name.clone());
            self.changes.get(&key)
        };
        // Where no policy permits what a key does, what it would follow is refused.
        let may = |cascade: &Cascade<'_>| {
            permitted(cascade.child).is_some_and(|changes| match cascade.change {
                Change::Delete => changes.delete,
                Change::Update => (cascade.key.columns.iter()).any(|c| changes.update.contains(c)),
                Change::Insert | Change::Truncate => false,
            })
        };
        let mut found = BTreeSet::new();
        for relation in catalog.relations() {
            let Some(changes) = permitted(relation) else {
                continue;
            };
            let read = |change, columns| columns_read(catalog, relation, change, columns, may);
            if changes.delete {
                found.extend(read(Change::Delete, BTreeSet::new()));
            }
            let updated = (relation.column_ids())
                .filter(|(_, column)| changes.update.contains(&*column.name))
                .map(|(id, _)| id.index);
            let updated: BTreeSet<u16> = updated.collect();
            if !updated.is_empty() {
                found.extend(read(Change::Update, updated));
            }
        }
        for (id, index) in found {
            if let Some(relation) = catalog.relation(id)
                && let Some(column) = relation.column(index)
            {
                self.grant(relation, [column.name.to_string()].into_iter());
            }
        }
    }
}

/// Which of the privileges of tables the account holds. A table on which it holds none is as good as not there: the server does not tell.
async fn read_privileges(
    conn: &mut Conn,
    wanted: &[((String, String), &[&'static str])],
) -> Result<BTreeMap<(String, String), BTreeSet<String>>, IntrospectError> {
    let mut held: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for word in ["SELECT", "INSERT", "DELETE"] {
        let asked = wanted.iter().filter(|(_, words)| words.contains(&word));
        let asked: Vec<_> = asked
            .map(|((schema, name), _)| (schema.as_str(), name.as_str()))
            .collect();
        for key in having(conn, word, &asked).await? {
            held.entry(key).or_default().insert(word.to_owned());
        }
    }
    Ok(held)
}

/// What the policies let somebody see and the account cannot read.
fn lacking(
    account: &str,
    needs: &Needs,
    unreadable: &BTreeSet<(String, String, String)>,
) -> Vec<Weak> {
    let mut found: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for ((schema, name), columns) in &needs.relations {
        for column in columns {
            if unreadable.contains(&(schema.clone(), name.clone(), column.clone())) {
                let lacking = found.entry((schema, name)).or_default();
                lacking.insert(column.clone());
            }
        }
    }
    found
        .iter()
        .map(|((schema, name), columns)| {
            missing(
                account,
                &ident::qualify([*schema, *name]),
                columns.iter().map(String::as_str),
                format!(
                    "GRANT {} ON {} TO {};",
                    select(columns),
                    relation(schema, name),
                    account
                ),
            )
        })
        .collect()
}

/// What the policies let somebody see of the server's own relations and the account cannot read at all.
fn lacking_system(
    account: &str,
    needs: &Needs,
    readable: &BTreeSet<(String, String)>,
) -> Vec<Weak> {
    let lacking = grantable(needs).filter(|(key, _)| !readable.contains(*key));
    lacking
        .map(|((schema, name), _)| {
            let remedy = format!("GRANT SELECT ON {} TO {account};", relation(schema, name));
            let shown = ident::qualify([schema.as_str(), name.as_str()]);
            missing_changes(account, &shown, "SELECT", remedy)
        })
        .collect()
}

/// What the account lacks to read the past of what the policies show to somebody, and why no moment is noted on this server.
async fn look_at_history(
    conn: &mut Conn,
    (account, own): (&str, &str),
    catalog: &Catalog,
    needs: &Needs,
) -> Result<(Vec<Weak>, Option<String>), IntrospectError> {
    let read = needs.relations.keys();
    let tables = (read.filter(|(schema, _)| schema == own)).map(|(_, name)| name.clone());
    let kept = list_kept_tables(conn, &tables.collect()).await?;
    if kept.is_empty() {
        return Ok((Vec::new(), None));
    }
    let rights = read_history_rights(conn).await?;
    let lacking = lacking_history((account, own), catalog, needs, (&kept, &rights));
    let obstacle = rights
        .obstacle
        .map(|why| format!("history is kept, and no moment can be noted on this server: {why}"));
    Ok((lacking, obstacle))
}

fn lacking_history(
    (account, own): (&str, &str),
    catalog: &Catalog,
    needs: &Needs,
    (kept, rights): (&[KeptTable], &HistoryRights),
) -> Vec<Weak> {
    let grant = |privileges: &str, name: &str| {
        format!(
            "GRANT {privileges} ON {} TO {account};",
            relation(own, name)
        )
    };
    let shown = |name: &str| ident::qualify([own, name]);
    let mut found = Vec::new();
    for one in kept {
        if one.lacks_until {
            let until = select(&BTreeSet::from([TO.to_owned()]));
            found.push(missing_history(
                account,
                &format!("{until} on {}", shown(&one.table)),
                "without it plain queries of the table fail, since history is kept of it (error 1143)",
                grant(&until, &one.table),
            ));
        }
        let key = (own.to_owned(), one.table.clone());
        let Some((table, columns)) = (catalog.find(own, &one.table)).zip(needs.relations.get(&key))
        else {
            continue;
        };
        let none = BTreeSet::new();
        let readable = rights.readable.get(&one.companion).unwrap_or(&none);
        let wanted = past_columns(table, columns);
        let lacking: BTreeSet<String> = wanted.difference(readable).cloned().collect();
        if !lacking.is_empty() {
            // Of a view that is not seen whole, it is not known that it has the past.
            let privileges = format!("{}, REFERENCES", select(&lacking));
            found.push(missing_history(
                account,
                &format!("{} on {}", select(&lacking), shown(&one.companion)),
                "without it the past of the table is not read",
                grant(&privileges, &one.companion),
            ));
        } else if catalog.companion(table).is_none() {
            found.push(missing_history(
                account,
                &format!("REFERENCES on {}", shown(&one.companion)),
                "without it not all columns of the past are seen, and none of it is read; if it is granted, run the SQL of \
                 `palisade history enable` again",
                grant("REFERENCES", &one.companion),
            ));
        }
    }
    for right in &rights.lacking {
        let what = match right.on {
            GrantedOn::Table(name) | GrantedOn::Function(name) => {
                format!("{} on {}", right.privileges, shown(name))
            }
            GrantedOn::Server => format!("{} on *.*", right.privileges),
        };
        found.push(missing_history(
            account,
            &what,
            right.without,
            grant_of_history(right, own, account),
        ));
    }
    found
}

/// The statement that gives an account a right which histories of the database `own` take.
fn grant_of_history(right: &HistoryGrant, own: &str, account: &str) -> String {
    let on = match right.on {
        GrantedOn::Table(name) => relation(own, name),
        GrantedOn::Function(name) => format!("FUNCTION {}", relation(own, name)),
        GrantedOn::Server => "*.*".to_owned(),
    };
    format!("GRANT {} ON {on} TO {account};", right.privileges)
}

/// What to read of the server's own relations for which there are privileges: `information_schema` has none.
fn grantable(needs: &Needs) -> impl Iterator<Item = (&(String, String), &BTreeSet<String>)> {
    let system = needs.system.iter();
    system.filter(|((schema, _), _)| schema != "information_schema")
}

/// What the account may change of the relations of `catalog`, as far as it is told so by the server.
async fn read_changes(
    conn: &mut Conn,
    catalog: &Catalog,
) -> Result<BTreeMap<(String, String), Changes>, IntrospectError> {
    let mut held: BTreeMap<(String, String), Changes> = BTreeMap::new();
    let tables: Vec<_> = catalog
        .relations()
        .iter()
        .map(|relation| (relation.schema.as_str(), relation.name.as_str()))
        .collect();
    for (schema, name) in having(conn, "DELETE", &tables).await? {
        held.entry((schema, name)).or_default().delete = true;
    }
    for ((schema, name, column), privilege) in assignable(conn).await? {
        if !tables.contains(&(schema.as_str(), name.as_str())) {
            continue;
        }
        let changes = held.entry((schema, name)).or_default();
        match privilege {
            Assigning::Insert => changes.insert.insert(column),
            Assigning::Update => changes.update.insert(column),
        };
    }
    Ok(held)
}

/// What the account can change, beside what the policies permit. What emptying a table takes is told with [`Beside`].
fn changes(account: &str, needs: &Needs, held: &BTreeMap<(String, String), Changes>) -> Vec<Weak> {
    let needed = needs.changes.iter().map(|(key, changes)| {
        let changes = Changes {
            truncate: false,
            ..changes.clone()
        };
        (key.clone(), changes)
    });
    let grant = |privileges: &[String], schema: &str, name: &str| {
        let privileges = privileges.join(", ");
        format!(
            "GRANT {privileges} ON {} TO {account};",
            relation(schema, name)
        )
    };
    let revoke = |_: &[String], _: &str, _: &str| {
        format!("-- REVOKE it as it was granted, which SHOW GRANTS FOR {account} tells")
    };
    let mending = Mending {
        user: account,
        identifier,
        grant: &grant,
        revoke: &revoke,
    };
    compare_changes(&needed.collect(), held, &mending)
}

/// The databases that a new account is for: the URL's, and those that the policies name.
fn databases(sources: &PolicySources, catalog: &Catalog, own: &str) -> BTreeSet<String> {
    let texts: Vec<&str> = sources
        .policies
        .iter()
        .map(|file| file.text.as_str())
        .chain(sources.classification.as_deref())
        .collect();
    let is_named = |schema: &str| {
        let forms = [
            format!("\"{schema}\""),
            format!("\"{schema}."),
            format!("::{schema}::"),
        ];
        texts
            .iter()
            .any(|text| forms.iter().any(|form| text.contains(form)))
    };
    catalog
        .relations()
        .iter()
        .map(|relation| &relation.schema)
        .filter(|schema| *schema == own || is_named(schema))
        .cloned()
        .collect()
}

fn script(
    (name, host): &(String, String),
    catalog: &Catalog,
    scope: &BTreeSet<String>,
    plan: &Plan<'_>,
    (beside, keeping): (&Beside, &HistoryKeeping),
) -> String {
    let account = account(name, host);
    let shown = comment(&account);
    let databases: Vec<String> = scope
        .iter()
        .map(|name| comment(&identifier(name)))
        .collect();
    let mut out = String::new();
    let databases = databases.join(", ");
    let head = if plan.asked.is_there {
        format!(
            "-- What the account {shown} is granted, for {}, in {databases}.\n\
             -- Run it as one who may grant. What the account may already stays; `palisade doctor` tells what is too much.\n",
            plan.who
        )
    } else {
        format!(
            "-- The account that palisade logs in as, with no more than the policies need.\n\
             -- For {}, in {databases}.\n\
             -- Run it as one who may create accounts. When policies or tables have changed, the same command with\n\
             -- `--update` prints all grants, those that are held among them; to begin anew, run `DROP USER {shown};` and this again.\n\
             CREATE USER {account} WITH MAX_USER_CONNECTIONS 40 ACCOUNT LOCK;\n",
            plan.who
        )
    };
    let _ = writeln!(
        out,
        "{head}-- REFERENCES lets it see that a column is there, which policies may name, and not what is in it."
    );
    for found in catalog.relations() {
        if !scope.contains(&found.schema) {
            continue;
        }
        let key = (found.schema.clone(), found.name.clone());
        let is_view = match found.kind {
            RelationKind::View | RelationKind::Materialized => true,
            RelationKind::System => continue,
            RelationKind::Table | RelationKind::Virtual => false,
        };
        let steps = plan.needs.steps.as_ref();
        let privileges = match plan.needs.relations.get(&key) {
            _ if steps.is_some_and(|steps| steps.reads_whole(&key)) => {
                "SELECT, REFERENCES".to_owned()
            }
            // The server tells a view's definition only to who may read all of it.
            _ if is_view && plan.needs.views.contains(&key) => "SELECT, SHOW VIEW".to_owned(),
            // Plain queries of an account with rights on columns fail without the one that says until when a row is so.
            Some(columns) if keeping.is_in_table && catalog.companion(found).is_some() => {
                let until = BTreeSet::from([TO.to_owned()]);
                format!("{}, REFERENCES", select(&(columns | &until)))
            }
            Some(columns) => format!("{}, REFERENCES", select(columns)),
            None => "REFERENCES".to_owned(),
        };
        let changes = plan.needs.changes.get(&key);
        let privileges: Vec<String> = std::iter::once(privileges)
            .chain(
                changes
                    .into_iter()
                    .flat_map(|changes| changes.privileges(identifier)),
            )
            .chain(
                ["TRIGGER", "DROP"]
                    .into_iter()
                    .filter(|word| beside.contains(&(key.clone(), word)))
                    .map(str::to_owned),
            )
            .collect();
        let privileges = privileges.join(", ");
        let _ = writeln!(
            out,
            "GRANT {privileges} ON {} TO {account};",
            relation(&found.schema, &found.name)
        );
    }
    for ((schema, name), columns) in &plan.needs.past {
        let (columns, companion) = (select(columns), relation(schema, name));
        let _ = writeln!(
            out,
            "GRANT {columns}, REFERENCES ON {companion} TO {account};"
        );
    }
    let own = plan.needs.past.keys().map(|(schema, _)| schema);
    for schema in own.collect::<BTreeSet<_>>() {
        for right in keeping.grants {
            if right.on == GrantedOn::Server {
                out.push_str(
                    "-- Moments are read off the transactions that InnoDB lists, which takes PROCESS: it shows the statements of all sessions.\n",
                );
            }
            let _ = writeln!(out, "{}", grant_of_history(right, schema, &account));
        }
    }
    for ((schema, name), columns) in grantable(plan.needs) {
        let (columns, relation) = (select(columns), relation(schema, name));
        let _ = writeln!(out, "GRANT {columns} ON {relation} TO {account};");
    }
    for (schema, name) in &plan.needs.functions {
        let function = relation(schema, name);
        let _ = writeln!(out, "GRANT EXECUTE ON FUNCTION {function} TO {account};");
    }
    if !plan.needs.system.is_empty() {
        let names: Vec<String> = (plan.needs.system.keys())
            .map(|(schema, name)| relation(schema, name))
            .collect();
        let _ = write!(
            out,
            "-- Policies name {}: it shows this account what the server lets it see, which is little of other\n\
             -- accounts without `GRANT PROCESS ON *.* TO {shown};`, which shows all of them; views of `sys` take what they read, too.\n",
            comment(&names.join(", ")),
        );
    }
    if let Some(steps) = &plan.needs.steps {
        let ledger = steps.ledger(identifier);
        out.push_str(
            "-- Receipts of changes in steps, which also read whole rows of what is changed.\n",
        );
        out.push_str(&StepNeeds::ledger_script(&ledger, " ENGINE=InnoDB"));
        let _ = writeln!(out, "GRANT SELECT, INSERT ON {ledger} TO {account};");
        let images = steps.images(identifier);
        out.push_str(IMAGES_NOTE);
        out.push_str(&StepNeeds::images_script(
            &images,
            "longtext",
            " ENGINE=InnoDB",
        ));
        let _ = writeln!(
            out,
            "GRANT SELECT, INSERT, DELETE ON {images} TO {account};"
        );
        for note in &steps.notes {
            let _ = writeln!(out, "-- {}", comment(note));
        }
    }
    out.push_str(&plan.notes());
    if beside.iter().any(|(_, word)| *word == "TRIGGER") {
        let _ = write!(
            out,
            "-- This server tells of triggers only to who may make them: hence TRIGGER where rows are changed. Without it, a\n\
             -- policy has to permit the call of `unseen_triggers`. The gate makes none, and no statement through it can.\n"
        );
    }
    if plan.asked.is_there {
        return out;
    }
    let _ = write!(
        out,
        "-- The account is locked as long as it has no password. To give it one and unlock it:\n\
         -- ALTER USER {shown} IDENTIFIED BY '…' ACCOUNT UNLOCK;\n"
    );
    out
}

/// The privilege to read these columns.
fn select(columns: &BTreeSet<String>) -> String {
    let columns: Vec<String> = columns.iter().map(|column| identifier(column)).collect();
    format!("SELECT ({})", columns.join(", "))
}

/// An account; its halves are written like identifiers.
fn account(name: &str, host: &str) -> String {
    format!("{}@{}", identifier(name), identifier(host))
}

fn relation(schema: &str, name: &str) -> String {
    format!("{}.{}", identifier(schema), identifier(name))
}

fn identifier(name: &str) -> String {
    Dialect::Mysql.identifier(name)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn names_stay_names() {
        let catalog = palisade_ddl::mysql(
            "CREATE TABLE `t``; DROP` (`x)` int, `y` int); CREATE TABLE u (a int);",
            "d",
        )
        .unwrap();
        let mut needs = Needs::default();
        needs.relations.insert(
            ("d".to_owned(), "t`; DROP".to_owned()),
            BTreeSet::from(["x)".to_owned()]),
        );
        needs.functions.insert(("d".to_owned(), "f`".to_owned()));
        let principals = BTreeSet::from([Principal::new("Agent", "x\n")]);
        let plan = Plan::new(
            Asked {
                role: "r",
                access: Access::Write,
                is_there: false,
                in_steps: false,
            },
            &principals,
            &needs,
        );
        let account = ("r` SUPER".to_owned(), "%".to_owned());
        let scope = databases(&PolicySources::default(), &catalog, "d");
        let keeping = HistoryKeeping {
            is_in_table: false,
            grants: &[],
        };
        let text = script(
            &account,
            &catalog,
            &scope,
            &plan,
            (&Beside::new(), &keeping),
        );
        for line in [
            "CREATE USER `r`` SUPER`@`%` WITH",
            "GRANT SELECT (`x)`), REFERENCES ON `d`.`t``; DROP` TO `r`` SUPER`@`%`;",
            "GRANT REFERENCES ON `d`.`u` TO",
            "GRANT EXECUTE ON FUNCTION `d`.`f``` TO `r`` SUPER`@`%`;",
            "-- For Agent::\"x \", in `d`.",
        ] {
            assert!(text.contains(line), "`{line}` is not in\n{text}");
        }
    }
}
