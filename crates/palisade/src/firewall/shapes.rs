//! What was decided of statements that differ in literals alone.
//!
//! A statement whose text was never seen may have the shape of one that was: the same text, with other plain literals where only
//! their values matter. It is decided like that one with parameters in their places, if nothing has looked at a value
//! of theirs, and what runs is what would run if it were decided by itself; builds with debug assertions decide it by itself
//! as well, and compare. A shape is looked into when it is met for the second time.

use std::{fmt, sync::Arc};

use quick_cache::{Weighter, sync::Cache};

use super::Firewall;
use crate::firewall::{
    plan_cache::{Asked, Key},
    session_catalog::Sight,
};
use crate::{
    code::Code,
    limits::Limits,
    rejection::Rejection,
    rewrite::{RewrittenStatement, Shaped},
    session::Session,
    syntax::{self, Literals, Which},
    value::{Params, Placeholder},
};

/// Bytes of a shape and its key, about, for a first guess of how many fit.
const TYPICAL_BYTES: u64 = 4096;

/// All literals of a text.
const EVERY: Which = Which::MAX;

/// Shapes by their texts, for whom and within what they were decided; bounded in bytes.
pub(super) struct ShapeCache(Option<Cache<Key, Known, Weight>>);

impl fmt::Debug for ShapeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShapeCache")
            .field(&self.0.as_ref().map(Cache::len))
            .finish()
    }
}

/// What is known of a text without some of its literals.
#[derive(Debug, Clone)]
enum Known {
    /// It was met once.
    Met,
    /// It has to be asked for without these of its literals only.
    Without(Which),
    /// What was decided.
    Decided(Arc<Shaped>),
    /// It is decided by its literals.
    ByLiterals,
}

/// What there is to do about a statement.
#[derive(Debug)]
pub(super) enum Outlook {
    /// Nothing: this is what was decided.
    Decided(Box<RewrittenStatement>),
    /// To remember that it was met without these of its literals.
    Unmet(Which),
    /// To look into its shape without these of its literals.
    Met(Which),
    /// To decide it by itself, each time.
    ByLiterals,
}

impl ShapeCache {
    /// A cache of about `bytes` bytes; none for 0.
    pub(super) fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self((bytes > 0).then(|| Cache::with_weighter(items, bytes, Weight)))
    }

    /// What is known of a text with these literals.
    pub(super) fn find(
        &self,
        session: &Session,
        limits: &Limits,
        literals: &Literals<'_>,
    ) -> Outlook {
        let Some(cache) = &self.0 else {
            return Outlook::ByLiterals;
        };
        let known = |which| {
            let sql = literals.without(which);
            let asked = Asked {
                session,
                limits,
                sql: &sql,
            };
            cache.get(&asked)
        };
        let decided = |shape: &Shaped, which| {
            let statement = shape.with(&literals.written(which));
            statement.map_or(Outlook::ByLiterals, |s| Outlook::Decided(Box::new(s)))
        };
        match known(EVERY) {
            None => Outlook::Unmet(EVERY),
            Some(Known::Met) => Outlook::Met(EVERY),
            Some(Known::Decided(shape)) => decided(&shape, EVERY),
            Some(Known::ByLiterals) => Outlook::ByLiterals,
            Some(Known::Without(which)) => match known(which) {
                None => Outlook::Unmet(which),
                Some(Known::Met) => Outlook::Met(which),
                Some(Known::Decided(shape)) => decided(&shape, which),
                Some(Known::ByLiterals | Known::Without(_)) => Outlook::ByLiterals,
            },
        }
    }

    fn keep(
        &self,
        session: &Session,
        limits: &Limits,
        (literals, which): (&Literals<'_>, Which),
        known: Known,
    ) {
        if let Some(cache) = &self.0 {
            let sql = literals.without(which);
            cache.insert(Key::new(session, limits, &sql), known);
        }
    }
}

impl Firewall {
    /// Remembers what `outlook` asks for of a statement that was decided by itself, as `statement`.
    pub(super) fn learn(
        &self,
        (session, limits): (&Session, &Limits),
        (sql, literals): (&str, &Literals<'_>),
        outlook: &Outlook,
        statement: &RewrittenStatement,
        sight: &Sight<'_>,
    ) {
        let keep = |which, known| {
            self.shapes.keep(session, limits, (literals, which), known);
        };
        match outlook {
            Outlook::Decided(_) | Outlook::ByLiterals => {}
            Outlook::Unmet(which) => keep(*which, Known::Met),
            Outlook::Met(which) => {
                let (free, shape) = self.shape(sql, literals, *which, statement, sight, limits);
                if sight.view().depends_on_time() {
                    return;
                }
                let known = shape.map_or(Known::ByLiterals, |s| Known::Decided(Arc::new(s)));
                if free == 0 || literals.written(free).len() == literals.written(EVERY).len() {
                    keep(EVERY, known);
                } else {
                    keep(EVERY, Known::Without(free));
                    keep(free, known);
                }
            }
        }
    }

    /// The shape of `sql` without as many of `which` literals as may be, and without which those are.
    fn shape(
        &self,
        sql: &str,
        literals: &Literals<'_>,
        which: Which,
        statement: &RewrittenStatement,
        sight: &Sight<'_>,
        limits: &Limits,
    ) -> (Which, Option<Shaped>) {
        let mut free = which;
        loop {
            let decided = self.decide_without(sql, literals, free, sight, limits);
            let (without, with) = decided.unwrap_or_default();
            let Some(with) = with else {
                return (without, None);
            };
            let looked_at = with.looked_at();
            if looked_at.is_empty() {
                let written = literals.written(without);
                let dialect = self.catalog.dialect();
                return (without, Shaped::of(&with, statement, &written, dialect));
            }
            let ranked = (0..Which::BITS).filter(|index| without >> index & 1 == 1);
            free = ranked
                .zip(1..)
                .filter(|(_, number)| !looked_at.contains(&Placeholder::Number(*number)))
                .fold(0, |free, (index, _)| free | 1 << index);
            // Those that were looked at stay, so there are fewer each time.
            if free == without {
                return (0, None);
            }
        }
    }

    /// Decides `sql` with parameters in the places of as many of `which` literals as may be others; gives which these are.
    fn decide_without(
        &self,
        sql: &str,
        literals: &Literals<'_>,
        which: Which,
        sight: &Sight<'_>,
        limits: &Limits,
    ) -> Result<(Which, Option<RewrittenStatement>), Rejection> {
        let dialect = self.catalog.dialect();
        syntax::parse(sql, dialect, limits, |mut parsed| {
            let free = literals.free(&mut parsed.query) & which;
            let values = literals.values(free).unwrap_or_default();
            if parsed.explain.is_some() || values.is_empty() {
                return Ok((0, None));
            }
            literals.parametrise(&mut parsed, free, dialect);
            let params = Params::Positional(values);
            // What is refused with parameters may be permitted with what they stand for.
            let with = self.decide_query(parsed, &params, sight, limits, None);
            Ok((free, with.ok()))
        })
    }

    /// Refuses if `statement`, which has a shape that was decided, is not what is decided of it by itself.
    pub(super) fn compare(
        &self,
        statement: &RewrittenStatement,
        tokens: syntax::Tokens<'_>,
        session: &Session,
        limits: &Limits,
    ) -> Result<(), Rejection> {
        let alone = self.decide_anew(tokens, &Params::None, &self.sight(session), limits, None);
        match alone {
            Ok(alone) if alone.is_same(statement) => Ok(()),
            alone => Err(Rejection::new(
                Code::Internal,
                "the statement is not decided like another of its shape",
            )
            .with_operator_detail(format!(
                "by its shape: {}; by itself: {}",
                statement.sql(),
                alone.map_or_else(|why| why.to_string(), |alone| alone.sql().to_owned())
            ))),
        }
    }
}

/// Bytes of what is known, with its key.
#[derive(Clone)]
struct Weight;

impl Weighter<Key, Known> for Weight {
    fn weight(&self, key: &Key, known: &Known) -> u64 {
        let known = match known {
            Known::Decided(shape) => shape.bytes(),
            Known::Met | Known::Without(_) | Known::ByLiterals => 0,
        };
        u64::try_from(key.bytes() + known).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::{
        super::{
            Decision,
            tests::{firewall, ledger},
        },
        *,
    };
    use crate::{
        catalog::{Catalog, ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass},
        dialect::Dialect,
        policy::{PolicyFile, PolicySources},
        session::Principal,
    };

    fn session(id: &str) -> Session {
        Session::new(Principal::new("Agent", id))
    }

    /// How `firewall` would come to decide about `sql`.
    fn outlook(firewall: &Firewall, sql: &str, session: &Session) -> Option<Outlook> {
        let limits = firewall.limits();
        let tokens = syntax::Tokens::read(sql, firewall.catalog().dialect(), limits).unwrap();
        let literals = Literals::of(&tokens)?;
        Some(firewall.shapes.find(session, limits, &literals))
    }

    fn decided(firewall: &Firewall, sql: &str, session: &Session) -> Result<String, String> {
        match firewall.check(sql, &Params::None, session).unwrap() {
            Decision::Allow(statement) => Ok(statement.sql().to_owned()),
            Decision::Reject(why) => Err(why.to_string()),
        }
    }

    #[test]
    fn texts_that_differ_in_values_are_decided_once() {
        let agent = session("a");
        for (first, second, third, runs) in [
            (
                "SELECT total FROM orders WHERE id = 1",
                "SELECT total FROM orders WHERE id = 22",
                "SELECT total FROM orders WHERE id = 333",
                "SELECT total FROM \"main\".\"Orders\" WHERE id = 333 LIMIT 1001",
            ),
            (
                "SELECT total FROM orders WHERE 1 < id AND total BETWEEN 1.5 AND 2.5 OR user_id IN (1, 2)",
                "SELECT total FROM orders WHERE 3 < id AND total BETWEEN 3.5 AND 4.5 OR user_id IN (5, 6)",
                "SELECT total FROM orders WHERE 4 < id AND total BETWEEN 0.0 AND 1.0 OR user_id IN (7, 8)",
                "SELECT total FROM \"main\".\"Orders\" WHERE 4 < id AND total BETWEEN 0.0 AND 1.0 \
                 OR user_id IN (7, 8) LIMIT 1001",
            ),
            (
                "DELETE FROM orders WHERE id = 1",
                "DELETE FROM orders WHERE id = 2",
                "DELETE FROM orders WHERE id = 3",
                "DELETE FROM \"main\".\"Orders\" WHERE id = 3",
            ),
            (
                "INSERT INTO secrets (id, secret) VALUES (1, 'a')",
                "INSERT INTO secrets (id, secret) VALUES (2, 'b')",
                "INSERT INTO secrets (id, secret) VALUES (3, 'é — \u{202e}?1')",
                "",
            ),
        ] {
            let firewall = firewall();
            if runs.is_empty() {
                assert!(decided(&firewall, third, &agent).is_err(), "{third}");
                continue;
            }
            for sql in [first, second] {
                let known = outlook(&firewall, sql, &agent);
                assert!(
                    matches!(known, Some(Outlook::Unmet(_) | Outlook::Met(_))),
                    "{sql}: {known:?}"
                );
                assert!(decided(&firewall, sql, &agent).is_ok(), "{sql}");
            }
            let known = outlook(&firewall, third, &agent);
            assert!(
                matches!(known, Some(Outlook::Decided(_))),
                "{third}: {known:?}"
            );
            assert_eq!(decided(&firewall, third, &agent).as_deref(), Ok(runs));
            // For nobody else, and within no other limits.
            let other = outlook(&firewall, third, &session("b"));
            assert!(matches!(other, Some(Outlook::Unmet(_))), "{other:?}");
            let limits = Limits {
                max_rows: 5,
                ..Limits::default()
            };
            let lower = firewall.check_within(third, &Params::None, &agent, &limits);
            match lower.unwrap() {
                Decision::Allow(statement) => {
                    assert_eq!(statement.scan_plan().max_rows, 5);
                }
                Decision::Reject(why) => panic!("{why}"),
            }
        }
    }

    #[test]
    fn what_more_than_the_value_matters_of_stays() {
        let agent = session("a");
        for (texts, runs) in [
            // Where it stands for a column, or bounds the answer.
            (
                [
                    "SELECT id, total FROM orders WHERE id = 1 ORDER BY 1 LIMIT 5",
                    "SELECT id, total FROM orders WHERE id = 2 ORDER BY 2 LIMIT 5",
                    "SELECT id, total FROM orders WHERE id = 3 ORDER BY 2 LIMIT 500000",
                    "SELECT id, total FROM orders WHERE id = 4 ORDER BY 9 LIMIT 7",
                ],
                false,
            ),
            // Where it gives a name.
            (
                [
                    "SELECT id + 1 FROM orders WHERE id = 1",
                    "SELECT id + 2 FROM orders WHERE id = 1",
                    "SELECT id + 3 FROM orders WHERE id = 1",
                    "SELECT id + 4 FROM orders WHERE id = 2",
                ],
                false,
            ),
            // Other kinds.
            (
                [
                    "SELECT id FROM orders WHERE id = 1",
                    "SELECT id FROM orders WHERE id = 1.5",
                    "SELECT id FROM orders WHERE id = '1'",
                    "SELECT id FROM orders WHERE id = 99999999999999999999",
                ],
                false,
            ),
            (
                [
                    "SELECT id FROM orders WHERE id = 1 LIMIT 5",
                    "SELECT id FROM orders WHERE id = 2 LIMIT 5",
                    "SELECT id FROM orders WHERE id = 3 LIMIT 5",
                    "SELECT id FROM orders WHERE id = 4 LIMIT 5",
                ],
                true,
            ),
        ] {
            let firewall = firewall();
            for (index, sql) in texts.into_iter().enumerate() {
                let known = outlook(&firewall, sql, &agent);
                let hit = matches!(known, Some(Outlook::Decided(_)));
                assert_eq!(hit, runs && index >= 2, "{sql}: {known:?}");
                let _ = decided(&firewall, sql, &agent);
            }
        }
    }

    /// However an engine spells its parameters.
    #[test]
    fn every_engine_has_shapes() {
        for dialect in Dialect::ALL {
            let column = |name: &str, type_name: &str, class| ColumnDef {
                name: name.to_owned(),
                type_name: type_name.to_owned(),
                class,
                nullable: true,
                collation: String::new(),
                generated: None,
                stored: false,
                filled: DefaultValue::Unknown,
            };
            let columns = vec![
                column("id", "bigint", TypeClass::Integer),
                column("tenant_id", "bigint", TypeClass::Integer),
                column("title", "text", TypeClass::Text),
            ];
            let table = RelationDef::new("main", "notes", RelationKind::Table, columns);
            let catalog = Catalog::builder(dialect).relation(table).build().unwrap();
            let text = "permit(principal, action, resource);
                forbid(principal, action == Action::\"see\", resource is row::main::notes)
                unless { resource has tenant_id && resource.tenant_id == 1 };";
            let policies = PolicySources {
                policies: vec![PolicyFile {
                    name: "p.cedar".to_owned(),
                    text: text.to_owned(),
                }],
                ..PolicySources::default()
            };
            let builder = Firewall::builder(catalog, policies).allow_changes();
            let firewall = builder.build().unwrap();
            let agent = session("a");
            for statement in [
                "SELECT title FROM main.notes WHERE id = {} AND title <> '{}'",
                "SELECT title, count(*) AS n FROM main.notes WHERE title IN ('{}', 'b') GROUP BY title HAVING count(*) > {}",
                "UPDATE main.notes SET title = '{}' WHERE id = {}",
                "DELETE FROM main.notes WHERE id BETWEEN {} AND {}",
            ] {
                let text = |value: &str| statement.replace("{}", value);
                for value in ["1", "22"] {
                    let result = decided(&firewall, &text(value), &agent);
                    assert!(result.is_ok(), "{dialect:?} {statement}: {result:?}");
                }
                let known = outlook(&firewall, &text("333"), &agent);
                assert!(
                    matches!(known, Some(Outlook::Decided(_))),
                    "{dialect:?} {statement}: {known:?}"
                );
                let runs = decided(&firewall, &text("333"), &agent).unwrap();
                assert_eq!(runs.matches("333").count(), 2, "{runs}");
            }
        }
    }

    /// The values that policy looks at belong to the shape.
    #[test]
    fn rows_that_are_not_admitted_have_no_shape() {
        let firewall = ledger(
            "permit(principal, action, resource);
             forbid(principal, action == Action::\"add\", resource is row::main::notes)
             unless { resource has tenant_id && resource.tenant_id == 1 };",
        );
        let agent = session("a");
        let mut known = [0, 0];
        for id in 1..9 {
            for (tenant, admitted) in [(1, true), (2, false)] {
                let insert = format!("INSERT INTO notes (id, tenant_id) VALUES ({id}, {tenant})");
                let update = format!("UPDATE notes SET tenant_id = {tenant} WHERE id = {id}");
                for (sql, known) in [insert, update].into_iter().zip(&mut known) {
                    let is_known =
                        matches!(outlook(&firewall, &sql, &agent), Some(Outlook::Decided(_)));
                    *known += usize::from(is_known);
                    assert!(!is_known || admitted, "{sql}");
                    assert_eq!(decided(&firewall, &sql, &agent).is_ok(), admitted, "{sql}");
                }
            }
        }
        // All but those by which they are learnt.
        assert_eq!(known, [6, 6]);
    }
}
