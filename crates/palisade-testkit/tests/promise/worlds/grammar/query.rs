//! Queries: sources, joins, groups, windows, set operations, common table expressions.

use palisade::dialect::Dialect;

use super::{Grammar, Named};
use crate::worlds::cells::{Cell, Kind};

/// How many of 100 columns of the answer are windows.
const WINDOWS: usize = 26;

/// The columns of a query, named.
pub(super) type Columns = Vec<(String, Kind)>;

impl Grammar<'_, '_> {
    /// A statement that reads.
    pub(super) fn top(&mut self) -> String {
        if self.choices.chance(2) {
            return self.explain();
        }
        let mut head = self.head();
        let rows = self.choices.weighted(&[37, 2, 1]);
        if rows > 0 {
            head.clear();
            self.ctes.clear();
        }
        let across = if rows == 2 { self.across() } else { None };
        let (mut text, columns) = match (rows, across) {
            (1, _) => self.row_values(),
            (2, Some(across)) => across,
            _ => self.query(None, &[], 0),
        };
        if columns.is_empty() {
            return format!("{head}{text}");
        }
        match self.choices.below(12) {
            // By all columns: rows that are equal are the same in a bag.
            0 | 1 => {
                text.push_str(&self.order(columns.len()));
                self.ordered = columns.iter().all(|(_, kind)| !is_token(*kind));
            }
            // Tokens have an order of their own, so that which rows those are is no part of the promise.
            2 | 3 if columns.iter().all(|(_, kind)| !is_token(*kind)) => {
                let order = self.order(columns.len());
                text.push_str(&order);
                self.ordered = true;
                text.push_str(&format!(" LIMIT {}", self.count(4)));
                if self.choices.chance(40) {
                    text.push_str(&format!(" OFFSET {}", self.count(3)));
                }
            }
            4 => {
                self.loose = true;
                text.push_str(&format!(" LIMIT {}", self.count(4)));
            }
            _ => {}
        }
        format!("{head}{text}")
    }

    /// How many rows, fewer than `most`.
    fn count(&mut self, most: usize) -> String {
        let count = self.choices.below(most);
        self.placed(&Cell::Int(count.try_into().unwrap()))
    }

    /// A plan: over what has obligations there is none.
    fn explain(&mut self) -> String {
        self.note("EXPLAIN");
        let text = if self.choices.chance(70) {
            let own = [
                ("id".to_owned(), Kind::Int),
                ("note".to_owned(), Kind::Text),
            ];
            let (from, own) = self.aliased("journal", &own);
            let (item, condition) = (self.small(Kind::Text, &own), self.comparison(&own));
            format!("SELECT {item} FROM {from} WHERE {condition}")
        } else {
            let (text, _) = self.query(None, &[], 0);
            self.capped = false;
            text
        };
        match self.dialect() {
            Dialect::Sqlite => format!("EXPLAIN QUERY PLAN {text}"),
            Dialect::Postgres | Dialect::Mysql => format!("EXPLAIN {text}"),
        }
    }

    /// Rows that stand in the statement, beside a relation.
    fn row_values(&mut self) -> (String, Columns) {
        self.note("VALUES");
        let rows = |this: &mut Self| {
            let (int, text) = (this.literal(Kind::Int), this.literal(Kind::Text));
            match this.dialect() {
                Dialect::Sqlite | Dialect::Postgres => format!("({int}, {text})"),
                Dialect::Mysql => format!("SELECT {int} AS n, {text} AS x"),
            }
        };
        let (one, other) = (rows(self), rows(self));
        let values = match self.dialect() {
            Dialect::Sqlite => format!("WITH l(n, x) AS (VALUES {one}, {other}) SELECT"),
            Dialect::Postgres | Dialect::Mysql => "SELECT".to_owned(),
        };
        let list = match self.dialect() {
            Dialect::Sqlite => "l".to_owned(),
            Dialect::Postgres => format!("(VALUES {one}, {other}) AS l(n, x)"),
            Dialect::Mysql => format!("({one} UNION ALL {other}) AS l"),
        };
        let (from, own) = self.source(2);
        let on = match self.column(Kind::Int, &own) {
            Some(int) => format!("{int} = l.n"),
            None => "l.n = 1".to_owned(),
        };
        (
            format!(
                "{values} l.n AS k0, l.x AS k1, count(*) AS k2 FROM {from} JOIN {list} ON {on} GROUP BY l.n, l.x"
            ),
            vec![
                ("k0".to_owned(), Kind::Int),
                ("k1".to_owned(), Kind::Text),
                ("k2".to_owned(), Kind::Int),
            ],
        )
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
        self.note("WITH RECURSIVE");
        if let Some(text) = self.recursive_tokens(&start, &from, &own, &condition) {
            return text;
        }
        self.ctes
            .push(("r".to_owned(), vec![("n".to_owned(), Kind::Int)]));
        if self.choices.chance(25) {
            return format!(
                "WITH RECURSIVE r(n) AS (SELECT {start} FROM {from}{condition} \
                 UNION ALL SELECT n * 2 FROM r WHERE n BETWEEN 1 AND 6) "
            );
        }
        let step = if self.choices.chance(50) {
            "SELECT n + 1 FROM r WHERE n < 4".to_owned()
        } else {
            let table = &self.world.tables[self.choices.below(3)];
            self.capped |= table.cap.is_some();
            format!("SELECT x.a FROM {} x JOIN r ON x.id = r.n + 1", table.name)
        };
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
        let operator = self.set_operator();
        if depth > 0 || !self.choices.chance(30) {
            self.note("a set operation");
            return (format!("{text} {operator} {other}"), columns);
        }
        self.note("nested set operations");
        let (third, _) = self.select(Some(&kinds), outer, depth + 1);
        let outside = self.set_operator();
        let text = match self.dialect() {
            Dialect::Sqlite => format!("{text} {operator} {other} {outside} {third}"),
            Dialect::Postgres | Dialect::Mysql => {
                format!("{text} {outside} ({other} {operator} {third})")
            }
        };
        (text, columns)
    }

    fn set_operator(&mut self) -> &'static str {
        let all: &[&str] = match self.dialect() {
            Dialect::Sqlite => &["UNION", "UNION ALL", "EXCEPT", "INTERSECT"],
            Dialect::Postgres | Dialect::Mysql => &[
                "UNION",
                "UNION ALL",
                "EXCEPT",
                "INTERSECT",
                "EXCEPT ALL",
                "INTERSECT ALL",
            ],
        };
        self.choices.pick::<&str>(all)
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
                .map(|_| self.any_kind(&own))
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
        if want.is_none() && depth == 0 && self.dialect() == Dialect::Postgres {
            match self.choices.weighted(&[30, 2, 2]) {
                1 => return self.distinct_on(&from, &own, &kinds, outer),
                2 => return self.whole_row(&from, &own, outer),
                _ => {}
            }
        }
        let mut items = Vec::new();
        let mut columns = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let value = if depth == 0 && !is_token(*kind) && self.choices.chance(WINDOWS) {
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

    /// The first of the rows with equal values, in an order of all columns.
    fn distinct_on(
        &mut self,
        from: &str,
        own: &[Named],
        kinds: &[Kind],
        outer: &[Named],
    ) -> (String, Columns) {
        self.note("DISTINCT ON");
        let ordered: Vec<Kind> = kinds
            .iter()
            .copied()
            .filter(|kind| !is_token(*kind))
            .collect();
        let first = self.column(Kind::Int, own).unwrap_or("1".to_owned());
        let mut items = vec![format!("{first} AS k0")];
        for (number, kind) in (1..).zip(&ordered) {
            items.push(format!("{} AS k{number}", self.small(*kind, own)));
        }
        let condition = self.condition(own, outer, 0);
        let order: Vec<String> = (1..=items.len()).map(|number| number.to_string()).collect();
        (
            format!(
                "SELECT DISTINCT ON ({first}) {} FROM {from}{condition} ORDER BY {}",
                items.join(", "),
                order.join(", ")
            ),
            Vec::new(),
        )
    }

    /// A row as a value, which holds what may be seen of it and no more. It may hold tokens, which are not looked
    /// into.
    fn whole_row(&mut self, from: &str, own: &[Named], outer: &[Named]) -> (String, Columns) {
        self.note("a whole row");
        let Some(alias) = own
            .iter()
            .find_map(|named| named.text.split('.').next().map(str::to_owned))
        else {
            return ("SELECT 1".to_owned(), Vec::new());
        };
        let item = match self.choices.below(6) {
            0 => alias,
            1 => format!("to_jsonb({alias}) AS k"),
            2 => format!("row_to_json({alias}) AS k"),
            3 => format!("count({alias}) AS k"),
            4 => format!("CASE WHEN {alias} IS NULL THEN 1 ELSE 2 END AS k"),
            _ => format!("{alias}.*"),
        };
        let condition = self.condition(own, outer, 0);
        (format!("SELECT {item} FROM {from}{condition}"), Vec::new())
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
            let kind = self.any_kind(own);
            if let Some(text) = self.column(kind, own) {
                keys.push(Named { text, kind });
            }
        }
        let mut items = Vec::new();
        let mut columns = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let value = match self.column(*kind, &keys) {
                Some(key) if self.choices.chance(60) || is_token(*kind) => key,
                _ if is_token(*kind) => self.literal(*kind),
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
            text.push_str(&self.group_by(&keys));
        }
        if self.choices.chance(35) {
            let having = if self.choices.chance(40) && !keys.is_empty() {
                self.predicate(&keys, 2)
            } else {
                let kind = Kind::ALL[self.choices.below(2)];
                let aggregate = self.aggregate(kind, own);
                format!("{aggregate} >= {}", self.typed_constant(kind))
            };
            text.push_str(&format!(" HAVING {having}"));
        }
        (text, columns)
    }

    fn group_by(&mut self, keys: &[&str]) -> String {
        let list = keys.join(", ");
        match (self.dialect(), self.choices.weighted(&[14, 2, 1, 1])) {
            (Dialect::Postgres, 1) => {
                self.note("ROLLUP");
                format!(" GROUP BY ROLLUP ({list})")
            }
            (Dialect::Postgres, 2) => {
                self.note("CUBE");
                format!(" GROUP BY CUBE ({list})")
            }
            (Dialect::Postgres, 3) => {
                self.note("GROUPING SETS");
                format!(" GROUP BY GROUPING SETS (({list}), ({}), ())", keys[0])
            }
            (Dialect::Mysql, 1) => {
                self.note("ROLLUP");
                format!(" GROUP BY {list} WITH ROLLUP")
            }
            _ => format!(" GROUP BY {list}"),
        }
    }

    /// An aggregate of `kind`.
    fn aggregate(&mut self, kind: Kind, own: &[Named]) -> String {
        let any = self.any_kind(own);
        let value = match (kind, self.choices.below(6)) {
            (Kind::Int, 0) => "count(*)".to_owned(),
            (Kind::Int, 1) => format!("count({})", self.small(any, own)),
            (Kind::Int, 2) => format!("count(DISTINCT {})", self.small(any, own)),
            (Kind::Int, 3) => format!("sum({})", self.small(kind, own)),
            (Kind::Text, 3) => self.joined_texts(own),
            (_, 4) => format!("min({})", self.small(kind, own)),
            _ => format!("max({})", self.small(kind, own)),
        };
        if self.dialect() != Dialect::Mysql && self.choices.chance(12) {
            self.note("FILTER");
            return format!("{value} FILTER (WHERE {})", self.predicate(own, 2));
        }
        value
    }

    /// Texts in an order of their own, one after the other.
    fn joined_texts(&mut self, own: &[Named]) -> String {
        let text = self.small(Kind::Text, own);
        match self.dialect() {
            Dialect::Sqlite => format!("max(lower({text}))"),
            Dialect::Postgres => {
                self.note("string_agg");
                format!("string_agg({text}, ',' ORDER BY {text})")
            }
            Dialect::Mysql => {
                self.note("group_concat");
                format!("group_concat({text} ORDER BY {text})")
            }
        }
    }

    /// A window function whose value does not depend on the order among equal rows.
    fn windowed(&mut self, kind: Kind, own: &[Named]) -> String {
        let by = Kind::ALL[self.choices.below(2)];
        let by = self.small(by, own);
        let parts = self.any_kind(own);
        let parts = self.small(parts, own);
        self.note("a window");
        if kind == Kind::Int && self.choices.chance(70) {
            return self.framed(&by, &parts, own);
        }
        match (kind, self.choices.below(6)) {
            (Kind::Int, 0) => format!("count(*) OVER (PARTITION BY {parts})"),
            (Kind::Int, 1) => format!("rank() OVER (ORDER BY {by})"),
            (Kind::Int, 2) => {
                let value = self.small(kind, own);
                format!("sum({value}) OVER (ORDER BY {by})")
            }
            (Kind::Int, 3) => {
                self.loose = true;
                format!("row_number() OVER (ORDER BY {by})")
            }
            (Kind::Int, 4) => format!("dense_rank() OVER (PARTITION BY {parts} ORDER BY {by})"),
            _ => {
                let value = self.small(kind, own);
                format!("max({value}) OVER (PARTITION BY {parts})")
            }
        }
    }

    /// A window over a part of the rows: by values, so that equal ones are all in it or none is, or by places, of
    /// which only the shape is promised.
    fn framed(&mut self, by: &str, parts: &str, own: &[Named]) -> String {
        let value = self.small(Kind::Int, own);
        let int = self.column(Kind::Int, own).unwrap_or("1".to_owned());
        match self.choices.weighted(&[2, 2, 5, 2, 5, 5]) {
            0 => {
                self.note("a frame by range");
                format!(
                    "sum({value}) OVER (ORDER BY {int} RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)"
                )
            }
            1 => {
                self.note("a frame by range");
                format!(
                    "count({value}) OVER (PARTITION BY {parts} ORDER BY {by} \
                     RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
                )
            }
            2 => {
                self.note("a frame by rows");
                self.loose = true;
                format!(
                    "sum({value}) OVER (ORDER BY {by} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
                )
            }
            3 if self.dialect() != Dialect::Mysql => {
                self.note("a frame by groups");
                format!(
                    "max({value}) OVER (ORDER BY {by} GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING)"
                )
            }
            4 => {
                self.note("first_value");
                format!("first_value({int}) OVER (PARTITION BY {parts} ORDER BY {int} DESC)")
            }
            _ => {
                self.note("lag");
                // Which of equal rows comes first is not said.
                self.loose = true;
                format!("lag({int}) OVER (PARTITION BY {parts} ORDER BY {int})")
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
                self.note("LATERAL");
                let join = match self.choices.chance(30) {
                    true => format!(" LEFT JOIN LATERAL ({query}) AS {alias} ON true"),
                    false => format!(" CROSS JOIN LATERAL ({query}) AS {alias}"),
                };
                text.push_str(&join);
                scope.extend(qualified(&alias, &columns));
                continue;
            }
            let (other, own) = self.source(depth);
            let natural = fits(&scope, &own);
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
                // MariaDB lists the columns of this in an order that we do not know.
                ("RIGHT JOIN", 0) if self.dialect() == Dialect::Mysql => {
                    format!("{text} {join} {other} ON {}", self.equal(&both))
                }
                (_, 0) if natural => format!("{text} NATURAL {join} {other}"),
                (_, 1) => format!("{text} {join} {other} USING (id)"),
                (_, 2) => format!(
                    "{text} {join} {other} ON {}",
                    self.predicate(&both, depth + 1)
                ),
                _ => format!("{text} {join} {other} ON {}", self.equal(&both)),
            };
            scope = both;
        }
        if self.world.crowded && depth < 3 && self.choices.chance(55) {
            text = self.spoilt(&text, &scope);
        }
        (text, scope)
    }

    /// Sources beside a table over one of whose rows an expression fails, wherever it stands.
    fn spoilt(&mut self, text: &str, scope: &[Named]) -> String {
        self.note("what fails beside");
        let alias = self.alias();
        let fails: &[&str] = match self.dialect() {
            Dialect::Postgres => &[
                "1 / (f.k - 1) > 0",
                "'a' ~ f.t",
                "CAST(f.t AS jsonb) IS NOT NULL",
                "f.k * 2147483647 > 0",
                "CASE WHEN f.k < 3 THEN 1 / (f.k - 1) ELSE 1 END > 0",
                "(f.k || f.t)::int > 0",
            ],
            Dialect::Mysql => &[
                "exp(1000 * f.k) > 0",
                "'a' REGEXP f.t",
                "f.k * 9223372036854775807 > 0",
                "cot(f.k - 1) > 0",
                "CASE WHEN f.k < 3 THEN exp(1000 * f.k) ELSE 1 END > 0",
            ],
            Dialect::Sqlite => &[
                "json(f.t) > ''",
                "f.t -> '$.a' IS NULL",
                "abs(-9223372036854775807 - f.k) > 0",
                "CASE WHEN f.k < 3 THEN json(f.t) ELSE 1 END > ''",
            ],
        };
        let fails = *self.choices.pick(fails);
        let own = fails.replace("f.", &format!("{alias}."));
        let by = self.column(Kind::Int, scope).unwrap_or("1".to_owned());
        match self.choices.below(7) {
            0 => format!("{text} JOIN spoilt AS {alias} ON {own}"),
            1 => format!("{text} JOIN spoilt AS {alias} ON {alias}.k = {by} AND {own}"),
            2 => {
                format!("{text} CROSS JOIN (SELECT DISTINCT {fails} AS q FROM spoilt f) AS {alias}")
            }
            3 => format!(
                "{text} JOIN (SELECT f.id, max(CASE WHEN {fails} THEN 1 END) AS q FROM spoilt f GROUP BY f.id) AS {alias} ON {alias}.id = {by}"
            ),
            4 => format!("{text} LEFT JOIN spoilt AS {alias} ON {alias}.id = {by} AND {own}"),
            5 => format!(
                "{text} JOIN (SELECT f.id FROM spoilt f WHERE {fails}) AS {alias} ON {alias}.id = {by}"
            ),
            _ => format!(
                "{text} JOIN spoilt AS {alias} ON EXISTS (SELECT 1 FROM spoilt f WHERE f.id = {alias}.k AND {fails})"
            ),
        }
    }

    /// Two columns that are equal.
    pub(super) fn equal(&mut self, scope: &[Named]) -> String {
        let mut kind = Kind::ALL[self.choices.below(2)];
        if self.choices.chance(25) {
            kind = self.token_kind(scope).unwrap_or(kind);
            // Of two domains none are equal, whatever they stand for.
            if self.choices.chance(40)
                && let Some(other) = self.other_token_kind(kind, scope)
                && let (Some(one), Some(other)) =
                    (self.column(kind, scope), self.column(other, scope))
            {
                self.note("tokens of two domains compared");
                return format!("{one} = {other}");
            }
        }
        let one = self.column(kind, scope).unwrap_or("1".to_owned());
        let other = self.column(kind, scope).unwrap_or("1".to_owned());
        format!("{one} = {other}")
    }

    /// A kind of which there may be columns in `scope`.
    fn any_kind(&mut self, scope: &[Named]) -> Kind {
        let kind = Kind::ALL[self.choices.weighted(&[4, 4, 1])];
        match self.choices.chance(15) {
            true => self.token_kind(scope).unwrap_or(kind),
            false => kind,
        }
    }

    fn source(&mut self, depth: usize) -> (String, Vec<Named>) {
        let deep = depth > 2;
        let cte = if self.ctes.is_empty() { 0 } else { 6 };
        let derived = if deep { 0 } else { 3 };
        match self.choices.weighted(&[16, 4, cte, derived, 1]) {
            1 => {
                let view = &self.world.views[self.choices.below(self.world.views.len())];
                self.capped |= view.capped;
                self.shapes.insert(match view.name {
                    "v3" => "view over views",
                    _ => "view",
                });
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
                self.capped |= table.cap.is_some();
                // Tokens of partitions have no names in the other database.
                let has_tokens = columns.iter().any(|(_, kind)| is_token(*kind));
                if table.partitioned && !has_tokens && self.choices.chance(30) {
                    self.note("a partition");
                    let part = *self.choices.pick(&["low", "high"]);
                    return self.aliased(&format!("{}_{part}", table.name), &columns);
                }
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

fn is_token(kind: Kind) -> bool {
    matches!(kind, Kind::Token(_))
}

/// Whether columns of one name may be compared: tokens only with tokens, for as a number one is what its hash is.
fn fits(left: &[Named], right: &[Named]) -> bool {
    let name = |named: &Named| named.text.split('.').next_back().map(str::to_owned);
    left.iter().all(|one| {
        right
            .iter()
            .filter(|other| name(one) == name(other))
            .all(|other| is_token(one.kind) == is_token(other.kind))
    })
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
