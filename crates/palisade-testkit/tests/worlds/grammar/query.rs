//! Queries: sources, joins, groups, windows, set operations, common table expressions.

use palisade::dialect::Dialect;

use super::{Grammar, Named};
use crate::cells::Kind;

/// The columns of a query, named.
pub(super) type Columns = Vec<(String, Kind)>;

impl Grammar<'_, '_> {
    /// A statement that reads.
    pub(super) fn top(&mut self) -> String {
        let head = self.head();
        let (mut text, columns) = self.query(None, &[], 0);
        if columns.is_empty() {
            return format!("{head}{text}");
        }
        match self.choices.below(12) {
            // By all columns: rows that are equal are the same in a bag.
            0 | 1 => text.push_str(&self.order(columns.len())),
            2 | 3 => {
                let order = self.order(columns.len());
                text.push_str(&order);
                text.push_str(&format!(" LIMIT {}", self.choices.below(4)));
                if self.choices.chance(40) {
                    text.push_str(&format!(" OFFSET {}", self.choices.below(3)));
                }
            }
            4 => {
                self.loose = true;
                text.push_str(&format!(" LIMIT {}", self.choices.below(4)));
            }
            _ => {}
        }
        format!("{head}{text}")
    }

    fn order(&mut self, width: usize) -> String {
        let columns: Vec<String> = (1..=width)
            .map(|number| {
                let direction = *self.choices.pick(&["", "", " DESC"]);
                format!("{number}{direction}")
            })
            .collect();
        format!(" ORDER BY {}", columns.join(", "))
    }

    /// WITH, sometimes.
    pub(super) fn head(&mut self) -> String {
        if !self.choices.chance(22) {
            return String::new();
        }
        if self.choices.chance(25) {
            return self.recursive();
        }
        let mut parts = Vec::new();
        for _ in 0..=self.choices.below(2) {
            // One may have the name of a table or a view.
            let name = (*self.choices.pick(&["c0", "c1", "t0", "v0", "t1"])).to_owned();
            if self.ctes.iter().any(|(other, _)| *other == name) {
                continue;
            }
            let (query, columns) = self.query(None, &[], 1);
            parts.push(format!("{name} AS ({query})"));
            self.ctes.push((name, columns));
        }
        format!("WITH {} ", parts.join(", "))
    }

    fn recursive(&mut self) -> String {
        let (from, own) = self.from(&[], 2);
        let start = self.column(Kind::Int, &own).unwrap_or("1".to_owned());
        let condition = self.condition(&own, &[], 2);
        let step = if self.choices.chance(50) {
            "SELECT n + 1 FROM r WHERE n < 4".to_owned()
        } else {
            let table = &self.world.tables[self.choices.below(3)];
            format!("SELECT x.a FROM {} x JOIN r ON x.id = r.n + 1", table.name)
        };
        self.ctes
            .push(("r".to_owned(), vec![("n".to_owned(), Kind::Int)]));
        format!("WITH RECURSIVE r(n) AS (SELECT {start} FROM {from}{condition} UNION {step}) ")
    }

    /// A query with columns of `want`, if it is given, that may name what is in `outer`.
    pub(super) fn query(
        &mut self,
        want: Option<&[Kind]>,
        outer: &[Named],
        depth: usize,
    ) -> (String, Columns) {
        let (text, columns) = self.select(want, outer, depth);
        if depth > 2 || columns.is_empty() || !self.choices.chance(14) {
            return (text, columns);
        }
        let kinds: Vec<Kind> = columns.iter().map(|(_, kind)| *kind).collect();
        let (other, _) = self.select(Some(&kinds), outer, depth + 1);
        let operator = *self
            .choices
            .pick(&["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]);
        (format!("{text} {operator} {other}"), columns)
    }

    fn select(
        &mut self,
        want: Option<&[Kind]>,
        outer: &[Named],
        depth: usize,
    ) -> (String, Columns) {
        let (from, own) = self.from(outer, depth);
        let mut scope = own.clone();
        if depth > 0 && self.choices.chance(20) {
            scope.extend_from_slice(outer);
        }
        let kinds: Vec<Kind> = match want {
            Some(kinds) => kinds.to_vec(),
            None => (0..self.choices.below(3) + 1)
                .map(|_| Kind::ALL[self.choices.weighted(&[4, 4, 1])])
                .collect(),
        };
        if self.choices.chance(22) {
            return self.grouped(&from, &own, &kinds, outer, depth);
        }
        if want.is_none() && depth == 0 && self.choices.chance(12) {
            let condition = self.condition(&own, outer, depth);
            // As many as the engine says, so that nothing may be ordered by number.
            return (format!("SELECT * FROM {from}{condition}"), Vec::new());
        }
        let mut items = Vec::new();
        let mut columns = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let value = if depth == 0 && self.choices.chance(10) {
                self.windowed(*kind, &own)
            } else {
                self.expr(*kind, &scope, depth)
            };
            let name = format!("k{number}");
            // The engine's own names of columns show as well.
            if depth > 0 || self.choices.chance(50) {
                items.push(format!("{value} AS {name}"));
            } else {
                items.push(value);
            }
            columns.push((name, *kind));
        }
        let distinct = if self.choices.chance(15) {
            "DISTINCT "
        } else {
            ""
        };
        let condition = self.condition(&own, outer, depth);
        (
            format!(
                "SELECT {distinct}{} FROM {from}{condition}",
                items.join(", ")
            ),
            columns,
        )
    }

    fn grouped(
        &mut self,
        from: &str,
        own: &[Named],
        kinds: &[Kind],
        outer: &[Named],
        depth: usize,
    ) -> (String, Columns) {
        let mut keys: Vec<Named> = Vec::new();
        for _ in 0..self.choices.below(3) {
            let kind = Kind::ALL[self.choices.below(3)];
            if let Some(text) = self.column(kind, own) {
                keys.push(Named { text, kind });
            }
        }
        let mut items = Vec::new();
        let mut columns = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let value = match self.column(*kind, &keys) {
                Some(key) if self.choices.chance(60) => key,
                _ => self.aggregate(*kind, own),
            };
            let name = format!("k{number}");
            items.push(format!("{value} AS {name}"));
            columns.push((name, *kind));
        }
        let mut text = format!(
            "SELECT {} FROM {from}{}",
            items.join(", "),
            self.condition(own, outer, depth)
        );
        if !keys.is_empty() {
            let keys: Vec<&str> = keys.iter().map(|key| key.text.as_str()).collect();
            text.push_str(&format!(" GROUP BY {}", keys.join(", ")));
        }
        if self.choices.chance(35) {
            let having = if self.choices.chance(40) && !keys.is_empty() {
                self.predicate(&keys, 2)
            } else {
                let kind = Kind::ALL[self.choices.below(2)];
                let aggregate = self.aggregate(kind, own);
                format!("{aggregate} >= {}", self.literal(kind))
            };
            text.push_str(&format!(" HAVING {having}"));
        }
        (text, columns)
    }

    /// An aggregate of `kind`.
    fn aggregate(&mut self, kind: Kind, own: &[Named]) -> String {
        let any = Kind::ALL[self.choices.below(3)];
        let value = match (kind, self.choices.below(6)) {
            (Kind::Int, 0) => "count(*)".to_owned(),
            (Kind::Int, 1) => format!("count({})", self.small(any, own)),
            (Kind::Int, 2) => format!("count(DISTINCT {})", self.small(any, own)),
            (Kind::Int, 3) => format!("sum({})", self.small(kind, own)),
            (_, 4) => format!("min({})", self.small(kind, own)),
            _ => format!("max({})", self.small(kind, own)),
        };
        if self.dialect() != Dialect::Mysql && self.choices.chance(12) {
            return format!("{value} FILTER (WHERE {})", self.predicate(own, 2));
        }
        value
    }

    /// A window of which the value for each row does not depend on the order among equal ones.
    fn windowed(&mut self, kind: Kind, own: &[Named]) -> String {
        let by = Kind::ALL[self.choices.below(2)];
        let by = self.small(by, own);
        match (kind, self.choices.below(6)) {
            (Kind::Int, 0) => format!("count(*) OVER (PARTITION BY {by})"),
            (Kind::Int, 1) => format!("rank() OVER (ORDER BY {by})"),
            (Kind::Int, 2) => {
                let value = self.small(kind, own);
                format!("sum({value}) OVER (ORDER BY {by})")
            }
            (Kind::Int, 3) => {
                self.loose = true;
                format!("row_number() OVER (ORDER BY {by})")
            }
            (Kind::Int, 4) => format!("dense_rank() OVER (PARTITION BY {by} ORDER BY {by})"),
            _ => {
                let value = self.small(kind, own);
                format!("max({value}) OVER (PARTITION BY {by})")
            }
        }
    }

    /// A FROM clause, and the columns it has.
    pub(super) fn from(&mut self, outer: &[Named], depth: usize) -> (String, Vec<Named>) {
        let (mut text, mut scope) = self.source(depth);
        let joins = if depth > 2 {
            0
        } else {
            self.choices.weighted(&[6, 3, 1])
        };
        for _ in 0..joins {
            if self.dialect() == Dialect::Postgres && self.choices.chance(12) {
                let alias = self.alias();
                let mut around = scope.clone();
                around.extend_from_slice(outer);
                let (query, columns) = self.query(None, &around, depth + 1);
                text.push_str(&format!(" CROSS JOIN LATERAL ({query}) AS {alias}"));
                scope.extend(qualified(&alias, &columns));
                continue;
            }
            let (other, own) = self.source(depth);
            let mut both = scope.clone();
            both.extend(own);
            let kinds: &[&str] = match self.dialect() {
                Dialect::Mysql => &["JOIN", "LEFT JOIN", "RIGHT JOIN", "CROSS JOIN"],
                Dialect::Sqlite | Dialect::Postgres => {
                    &["JOIN", "LEFT JOIN", "RIGHT JOIN", "CROSS JOIN", "FULL JOIN"]
                }
            };
            let join = *self.choices.pick(kinds);
            text = match (join, self.choices.below(8)) {
                ("CROSS JOIN", _) => format!("{text} CROSS JOIN {other}"),
                ("FULL JOIN", _) => format!("{text} FULL JOIN {other} ON {}", self.equal(&both)),
                (_, 0) => format!("{text} NATURAL {join} {other}"),
                (_, 1) => format!("{text} {join} {other} USING (id)"),
                (_, 2) => format!(
                    "{text} {join} {other} ON {}",
                    self.predicate(&both, depth + 1)
                ),
                _ => format!("{text} {join} {other} ON {}", self.equal(&both)),
            };
            scope = both;
        }
        (text, scope)
    }

    /// Two columns that are equal.
    pub(super) fn equal(&mut self, scope: &[Named]) -> String {
        let kind = Kind::ALL[self.choices.below(2)];
        let one = self.column(kind, scope).unwrap_or("1".to_owned());
        let other = self.column(kind, scope).unwrap_or("1".to_owned());
        format!("{one} = {other}")
    }

    fn source(&mut self, depth: usize) -> (String, Vec<Named>) {
        let deep = depth > 2;
        let cte = if self.ctes.is_empty() { 0 } else { 6 };
        let derived = if deep { 0 } else { 3 };
        match self.choices.weighted(&[16, 4, cte, derived, 1]) {
            1 => {
                let view = &self.world.views[self.choices.below(self.world.views.len())];
                let columns = view
                    .columns
                    .iter()
                    .map(|(name, kind)| ((*name).to_owned(), *kind))
                    .collect::<Vec<_>>();
                self.aliased(view.name, &columns)
            }
            2 => {
                let (name, columns) = self.choices.pick(&self.ctes).clone();
                self.aliased(&name, &columns)
            }
            3 => {
                let alias = self.alias();
                let (query, columns) = self.query(None, &[], depth + 1);
                let scope = qualified(&alias, &columns);
                (format!("({query}) AS {alias}"), scope)
            }
            4 if self.choices.chance(20) => self.aliased("vault", &[("id".to_owned(), Kind::Int)]),
            _ => {
                let table = self.world.tables[self.choices.below(3)].clone();
                let columns = self.columns(&table);
                self.aliased(table.name, &columns)
            }
        }
    }

    /// A relation under an alias, sometimes that of another relation.
    fn aliased(&mut self, name: &str, columns: &[(String, Kind)]) -> (String, Vec<Named>) {
        let alias = self.alias();
        let scope = qualified(&alias, columns);
        (format!("{name} AS {alias}"), scope)
    }
}

fn qualified(alias: &str, columns: &[(String, Kind)]) -> Vec<Named> {
    columns
        .iter()
        .map(|(name, kind)| Named {
            text: format!("{alias}.{name}"),
            kind: *kind,
        })
        .collect()
}
