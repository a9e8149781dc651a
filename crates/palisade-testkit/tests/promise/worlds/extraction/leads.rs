//! A database in which most rows are another tenant's, and what they hold is the secret.

use palisade::dialect::Dialect;

use crate::worlds::stand::{Engine, Stand};

/// What hidden rows hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret {
    /// Sixteen letters.
    pub(crate) text: &'static str,
    /// Thirty-two bits.
    pub(crate) number: u32,
}

impl Secret {
    pub(crate) const ONE: Self = Self {
        text: "mergerofacmecorp",
        number: 3_141_592_653,
    };

    pub(crate) const OTHER: Self = Self {
        text: "bankruptcyinjune",
        number: 271_828_182,
    };
}

/// Rows of `leads` that may be seen.
const SHOWN: u32 = 20;

/// Rows of `leads` that another tenant has.
const HIDDEN: u32 = 980;

/// The row filter shows every row of the own tenant.
const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action, resource is row::SCHEMA::leads) unless { resource.tenant == 1 };
"#;

/// A new database whose hidden rows hold `secret`, analysed, with indexes on what is asked about and what the filter asks.
pub(crate) async fn stand<E: Engine>(engine: &E, secret: Secret) -> Stand<E::Bare> {
    let script = script(E::DIALECT, secret);
    engine
        .stand_of(&script, Vec::new(), |schema| {
            POLICIES.replace("SCHEMA", schema)
        })
        .await
}

fn script(dialect: Dialect, secret: Secret) -> String {
    let mut script = "
CREATE TABLE leads (id int NOT NULL PRIMARY KEY, tenant int NOT NULL, note varchar(40), amount bigint, team int,
    score int, memo varchar(20), hint varchar(20));
CREATE TABLE nums (id int NOT NULL PRIMARY KEY, k int NOT NULL, t varchar(40) NOT NULL);
CREATE TABLE teams (id int NOT NULL PRIMARY KEY, k int NOT NULL, t varchar(40) NOT NULL);
CREATE TABLE few (id int NOT NULL PRIMARY KEY, k int NOT NULL, t varchar(40) NOT NULL);
CREATE INDEX leads_tenant ON leads (tenant);
CREATE INDEX leads_note ON leads (note);
CREATE INDEX leads_amount ON leads (amount);
CREATE INDEX leads_team ON leads (team);
CREATE INDEX leads_score ON leads (score);
CREATE INDEX leads_memo ON leads (memo);
CREATE INDEX leads_hint ON leads (hint);
CREATE INDEX nums_k ON nums (k);
CREATE VIEW own_leads AS SELECT id, note, amount, team, score, memo, hint FROM leads;
"
    .to_owned();
    // Before all that is asked about.
    let shown = (1..=SHOWN).map(|n| {
        format!(
            "({n}, 1, '{n} own', -{n}, {}, -{n}, 'm{n}', 'h{n}')",
            n % 10 + 1
        )
    });
    let hidden = (1..=HIDDEN).map(|n| {
        let (id, team) = (100_000 + n, n % 10 + 1);
        // As long in one database as in another.
        let rest = match secret == Secret::ONE {
            true => format!("7, NULL, 'x{}'", n + 1000),
            false => format!("{n}, 'x{}', NULL", n + 1000),
        };
        match n % 2 {
            0 => format!(
                "({id}, 2, '{}', {}, {team}, {rest})",
                secret.text, secret.number
            ),
            _ => format!("({id}, 2, NULL, NULL, {team}, {rest})"),
        }
    });
    let numbered = |count: u32| -> Vec<String> {
        let text = |n| {
            if n == 1 {
                "(".to_owned()
            } else {
                format!("n{n}")
            }
        };
        (1..=count)
            .map(|n| format!("({n}, {n}, '{}')", text(n)))
            .collect()
    };
    for (table, rows) in [
        ("leads", shown.chain(hidden).collect()),
        ("nums", numbered(500)),
        ("teams", numbered(10)),
        ("few", numbered(3)),
    ] {
        script.push_str(&format!(
            "INSERT INTO {table} VALUES {};\n",
            rows.join(", ")
        ));
    }
    script.push_str(match dialect {
        Dialect::Postgres | Dialect::Sqlite => "ANALYZE;",
        Dialect::Mysql => "ANALYZE TABLE leads, nums, teams, few PERSISTENT FOR ALL;",
    });
    script
}
