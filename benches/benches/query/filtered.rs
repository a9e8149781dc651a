//! What a fence costs. Each query reads a table of which a filter leaves a fiftieth, beside a small table. In two of
//! three queries an expression over the small table may fail: in a condition, or in the list of a nested query.
//!
//! The baseline is the query as one would write it without a firewall, with the filter as one more condition, over the bare
//! driver. Beside it stand the text that the firewall printed, over the same driver, and the whole way through the gate.

use std::{sync::Arc, time::Instant};

use palisade::{
    audit::NoAudit,
    catalog::Catalog,
    firewall::Firewall,
    guard::{Backend, Guard},
    policy::{PolicyFile, PolicySources},
    session::{Principal, Session},
};

use crate::{Driver, Machine, decide, median, ms, query_json};

/// Rows of the table that is filtered, of fifty tenants.
pub(crate) const ORDERS: u32 = 50_000;

/// What makes the tables, and what learns how they are filled; rows are made by each engine in its own way.
pub(crate) const TABLES: &str = "
    CREATE TABLE orders (id int NOT NULL PRIMARY KEY, tenant int NOT NULL, rate int NOT NULL, total int NOT NULL, note varchar(40) NOT NULL);
    CREATE TABLE rates (id int NOT NULL PRIMARY KEY, k int NOT NULL, name varchar(40) NOT NULL);
    CREATE INDEX orders_tenant ON orders (tenant);
    CREATE INDEX orders_total ON orders (total);
    CREATE INDEX orders_rate ON orders (rate);";

/// The values of a row of `orders` and of one of `rates`, by its number `i`.
pub(crate) const ROW: [&str; 2] = [
    "i, i % 50, i % 100 + 1, (i * 7919) % 100000, 'an order of somebody'",
    "i, i, 'a rate'",
];

const ROUNDS: usize = 31;

/// What is asked of `orders`: one row, a thousandth of the rows, all.
const ASKED: [(&str, &str); 3] = [
    ("one row", " AND o.id = 10001"),
    ("few rows", " AND o.total BETWEEN 50000 AND 50200"),
    ("all rows", ""),
];

/// Where something may fail, and the query without its last condition.
const QUERIES: [(&str, &str); 3] = [
    (
        "nowhere",
        "SELECT o.id, o.total, r.name FROM orders o JOIN rates r ON r.id = o.rate WHERE r.k > 0",
    ),
    (
        "in a condition",
        "SELECT o.id, o.total, r.name FROM orders o JOIN rates r ON r.id = o.rate WHERE <fallible> > 0",
    ),
    (
        "in a list",
        "SELECT o.id, o.total, r.x FROM orders o JOIN (SELECT id, <fallible> AS x FROM rates r) r ON r.id = o.rate WHERE o.rate > 0",
    ),
];

/// Prints a line for each query; `fallible` is what may fail of a rate called `r`, and fails for none that is there.
pub(crate) async fn bench<B: Backend + Clone>(
    engine: &str,
    schema: &str,
    fallible: &str,
    catalog: Catalog,
    backend: B,
    driver: &mut impl Driver,
) {
    let text = format!(
        "permit(principal, action, resource);
         forbid(principal, action, resource is row::{schema}::orders) unless {{ resource.tenant == 1 }};"
    );
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "bench.cedar".to_owned(),
            text,
        }],
        ..PolicySources::default()
    };
    let firewall = Arc::new(
        Firewall::builder(catalog, sources)
            .limits(crate::limits())
            .build()
            .unwrap(),
    );
    let guard = Guard::new(
        Arc::clone(&firewall),
        backend,
        Arc::new(Machine(Instant::now())),
        Arc::new(NoAudit),
    );
    let session = Session::new(Principal::new("Agent", "bench"));
    println!(
        "\nA filter that leaves a fiftieth of {ORDERS} rows, and what may fail beside it. Milliseconds, medians; ratios are to by hand.\n\
         {:<9} {:<15} {:<9} {:>9} {:>9} {:>6} {:>9} {:>6}",
        "engine", "may fail", "", "by hand", "rewritten", "ratio", "whole", "ratio"
    );
    for (place, query) in QUERIES {
        for (asked, condition) in ASKED {
            let sql = format!("{query}{condition}").replace("<fallible>", fallible);
            let by_hand = format!("{sql} AND o.tenant = 1 LIMIT {}", crate::ROWS + 1);
            let rewritten = palisade::danger::parts(&decide(&firewall, &sql, &session))
                .sql
                .to_owned();
            let rows = |json: Vec<u8>| json.windows(2).filter(|two| two == b"},").count();
            let expected = rows(driver.same_way(&by_hand).await);
            assert_eq!(rows(driver.same_way(&rewritten).await), expected, "{sql}");
            let mut times: [Vec<f64>; 3] = Default::default();
            for _ in 0..ROUNDS {
                let start = Instant::now();
                let _ = driver.same_way(&by_hand).await;
                times[0].push(ms(start));

                let start = Instant::now();
                let _ = driver.same_way(&rewritten).await;
                times[1].push(ms(start));

                let start = Instant::now();
                let _ = query_json(&guard, &sql, &session).await;
                times[2].push(ms(start));
            }
            let [by_hand, rewritten, whole] = times.map(median);
            println!(
                "{engine:<9} {place:<15} {asked:<9} {by_hand:>9.3} {rewritten:>9.3} {:>6.2} {whole:>9.3} {:>6.2}",
                rewritten / by_hand,
                whole / by_hand,
            );
        }
    }
}
