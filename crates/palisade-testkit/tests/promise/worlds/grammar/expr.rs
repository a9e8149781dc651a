//! Expressions and predicates. Some raise for some values.

use palisade::dialect::Dialect;

use super::{Grammar, Named};
use crate::worlds::{
    cells::{Cell, DATES, INTEGERS, Kind, TEXTS},
    tokens::{Mark, bound},
};

/// How deep expressions nest.
const DEPTH: usize = 3;

/// How many of 100 values in expressions are bound.
const PARAMETERS: usize = 25;

/// And of those that columns are given, and of patterns and limits.
const PLACED: usize = 50;

impl Grammar<'_, '_> {
    /// A column of `scope` that is of `kind`.
    pub(super) fn column(&mut self, kind: Kind, scope: &[Named]) -> Option<String> {
        let of_kind: Vec<&Named> = scope.iter().filter(|named| named.kind == kind).collect();
        (!of_kind.is_empty()).then(|| self.choices.pick(&of_kind).text.clone())
    }

    /// A value of `kind`, wherever it stands.
    pub(super) fn literal(&mut self, kind: Kind) -> String {
        if let Kind::Token(domain) = kind {
            return self.handed_out(domain, Mark::Literal);
        }
        let value = self.value(kind);
        self.typed(kind, &value)
    }

    /// `value` as a literal of `kind`, or as a parameter that is cast where an engine would not know its type.
    pub(super) fn typed(&mut self, kind: Kind, value: &Cell) -> String {
        if !self.choices.chance(PARAMETERS) {
            return match (kind, self.dialect(), value) {
                (Kind::Date, Dialect::Postgres | Dialect::Mysql, Cell::Text(_)) => {
                    format!("DATE {}", value.literal())
                }
                _ => value.literal(),
            };
        }
        let parameter = self.parameter(value);
        match (kind, self.dialect()) {
            (_, Dialect::Postgres) | (Kind::Date, Dialect::Mysql) => {
                format!("CAST({parameter} AS {})", kind.declared(self.dialect()))
            }
            _ => parameter,
        }
    }

    /// A literal or a parameter, beside an expression that determines its type.
    pub(super) fn typed_constant(&mut self, kind: Kind) -> String {
        if matches!(kind, Kind::Token(_)) || !self.choices.chance(PARAMETERS) {
            return self.literal(kind);
        }
        let value = self.value(kind);
        self.parameter(&value)
    }

    /// `value` as a literal of its own, or as a parameter of a place whose type is known.
    pub(super) fn placed(&mut self, value: &Cell) -> String {
        match self.choices.chance(PLACED) {
            true => self.parameter(value),
            false => value.literal(),
        }
    }

    fn parameter(&mut self, value: &Cell) -> String {
        self.note(match self.target {
            None => "a parameter",
            Some(_) => "a parameter in a change",
        });
        bound(value)
    }

    pub(super) fn value(&mut self, kind: Kind) -> Cell {
        match kind {
            Kind::Int => Cell::Int(*self.choices.pick(INTEGERS)),
            Kind::Text => Cell::Text((*self.choices.pick(TEXTS)).to_owned()),
            Kind::Date => Cell::Text((*self.choices.pick(DATES)).to_owned()),
            Kind::Token(_) => panic!("tokens are handed out"),
        }
    }

    pub(super) fn leaf(&mut self, kind: Kind, scope: &[Named]) -> String {
        if self.choices.chance(25) {
            return self.literal(kind);
        }
        match self.column(kind, scope) {
            Some(column) => column,
            None => self.literal(kind),
        }
    }

    /// An expression of `kind` that is small and never raises: for aggregates, whose sums must not depend on the
    /// order.
    pub(super) fn small(&mut self, kind: Kind, scope: &[Named]) -> String {
        let leaf = self.leaf(kind, scope);
        match (kind, self.choices.below(4)) {
            (Kind::Int, 1) => format!("{leaf} + 1"),
            (Kind::Int, 2) => format!("({leaf}) * 2"),
            _ => leaf,
        }
    }

    /// An expression of `kind`.
    pub(super) fn expr(&mut self, kind: Kind, scope: &[Named], depth: usize) -> String {
        if depth >= DEPTH || self.choices.is_over() || self.choices.chance(50) {
            return self.leaf(kind, scope);
        }
        let next = depth + 1;
        if let Kind::Token(domain) = kind {
            return self.token(domain, scope, next);
        }
        match self.choices.below(9) {
            0 => self.computed(kind, scope, next),
            1 => {
                let (when, then) = (self.predicate(scope, next), self.expr(kind, scope, next));
                format!(
                    "CASE WHEN {when} THEN {then} ELSE {} END",
                    self.leaf(kind, scope)
                )
            }
            2 => {
                let (one, other) = (self.expr(kind, scope, next), self.expr(kind, scope, next));
                format!("COALESCE({one}, {other})")
            }
            3 => {
                let (one, other) = (self.expr(kind, scope, next), self.leaf(kind, scope));
                format!("NULLIF({one}, {other})")
            }
            4 => self.scalar(kind, scope, next),
            5 => format!("({})", self.expr(kind, scope, next)),
            6 => {
                let when = self.predicate(scope, next);
                format!("CASE WHEN {when} THEN {} END", self.leaf(kind, scope))
            }
            _ => self.computed(kind, scope, next),
        }
    }

    /// A function or an operator.
    fn computed(&mut self, kind: Kind, scope: &[Named], depth: usize) -> String {
        let postgres = self.dialect() == Dialect::Postgres;
        match kind {
            Kind::Int => {
                let int = |this: &mut Self| this.expr(Kind::Int, scope, depth);
                match self.choices.below(9) {
                    0 => format!("{} + {}", int(self), self.leaf(Kind::Int, scope)),
                    1 => format!("{} - ({})", int(self), int(self)),
                    2 => format!("abs({})", int(self)),
                    3 => format!("length({})", self.expr(Kind::Text, scope, depth)),
                    4 => format!("- ({})", int(self)),
                    5 => self.divided(scope),
                    6 => format!("({}) % ({})", int(self), self.leaf(Kind::Int, scope)),
                    7 => {
                        self.note("a cast that may raise");
                        let text = self.leaf(Kind::Text, scope);
                        match self.dialect() {
                            Dialect::Sqlite => format!("CAST({text} AS INTEGER)"),
                            Dialect::Postgres => format!("CAST({text} AS bigint)"),
                            Dialect::Mysql => format!("CAST({text} AS SIGNED)"),
                        }
                    }
                    _ => format!("({}) * {}", int(self), self.literal(Kind::Int)),
                }
            }
            Kind::Text => {
                let text = |this: &mut Self| this.expr(Kind::Text, scope, depth);
                match self.choices.below(8) {
                    0 => format!("upper({})", text(self)),
                    1 => {
                        let (one, other) = (text(self), self.leaf(Kind::Text, scope));
                        match self.dialect() {
                            Dialect::Mysql => format!("CONCAT({one}, {other})"),
                            Dialect::Sqlite | Dialect::Postgres => format!("{one} || {other}"),
                        }
                    }
                    2 => format!("substr({}, {})", text(self), self.choices.below(4) + 1),
                    3 => format!("replace({}, 'e', 'x')", text(self)),
                    4 => {
                        let int = self.leaf(Kind::Int, scope);
                        match self.dialect() {
                            Dialect::Mysql => format!("CAST({int} AS CHAR)"),
                            Dialect::Sqlite | Dialect::Postgres => format!("CAST({int} AS TEXT)"),
                        }
                    }
                    5 => self.json(scope),
                    _ => format!("lower({})", text(self)),
                }
            }
            Kind::Date => match self.choices.below(3) {
                0 if postgres => format!("({} + 1)", self.leaf(Kind::Date, scope)),
                1 if postgres => {
                    let text = self.leaf(Kind::Text, scope);
                    format!("CAST({text} AS date)")
                }
                _ => self.leaf(Kind::Date, scope),
            },
            Kind::Token(_) => self.leaf(kind, scope),
        }
    }

    /// A text made of or out of JSON.
    fn json(&mut self, scope: &[Named]) -> String {
        self.note("JSON");
        let (text, int) = (self.leaf(Kind::Text, scope), self.leaf(Kind::Int, scope));
        match (self.dialect(), self.choices.below(4)) {
            (Dialect::Sqlite, 0) => format!("json({text})"),
            (Dialect::Sqlite, 1) => format!("json_object('k', {text}, 'n', {int})"),
            (Dialect::Sqlite, 2) => format!("json_array({int}, {text}) ->> '$[1]'"),
            (Dialect::Sqlite, _) => format!("json_extract({text}, '$.a')"),
            (Dialect::Postgres, 0) => format!("CAST(CAST({text} AS jsonb) AS text)"),
            (Dialect::Postgres, 1) => format!("jsonb_build_object('k', {text}, 'n', {int})::text"),
            (Dialect::Postgres, 2) => format!("to_jsonb({int})::text"),
            (Dialect::Postgres, _) => format!("(CAST({text} AS jsonb) ->> 'a')"),
            (Dialect::Mysql, 0) => format!("JSON_OBJECT('k', {text}, 'n', {int})"),
            (Dialect::Mysql, 1) => format!("JSON_EXTRACT({text}, '$.a')"),
            (Dialect::Mysql, 2) => {
                format!("JSON_UNQUOTE(JSON_EXTRACT(JSON_ARRAY({text}), '$[0]'))")
            }
            (Dialect::Mysql, _) => format!("JSON_QUOTE({text})"),
        }
    }

    /// A whole quotient, which raises on PostgreSQL where the divisor is 0.
    fn divided(&mut self, scope: &[Named]) -> String {
        self.note("a division");
        let (one, other) = (self.literal(Kind::Int), self.leaf(Kind::Int, scope));
        match self.dialect() {
            Dialect::Mysql => format!("({one}) DIV ({other})"),
            Dialect::Sqlite | Dialect::Postgres => format!("({one}) / ({other})"),
        }
    }

    /// A subquery that gives one value: an aggregate, so that it is always one and always the same.
    fn scalar(&mut self, kind: Kind, scope: &[Named], depth: usize) -> String {
        let (from, own) = self.from(scope, depth + 1);
        let value = match (kind, self.choices.below(3)) {
            (Kind::Int, 0) => "count(*)".to_owned(),
            (Kind::Int, 1) => format!("count(DISTINCT {})", self.small(Kind::Int, &own)),
            (_, 2) => format!("min({})", self.small(kind, &own)),
            _ => format!("max({})", self.small(kind, &own)),
        };
        let condition = self.condition(&own, scope, depth);
        format!("(SELECT {value} FROM {from}{condition})")
    }

    /// A WHERE clause, mostly.
    pub(super) fn condition(&mut self, own: &[Named], outer: &[Named], depth: usize) -> String {
        if self.choices.chance(35) {
            return String::new();
        }
        let mut scope = own.to_vec();
        if self.choices.chance(50) {
            scope.extend_from_slice(outer);
        }
        format!(" WHERE {}", self.predicate(&scope, depth))
    }

    /// A condition.
    pub(super) fn predicate(&mut self, scope: &[Named], depth: usize) -> String {
        let kind = Kind::ALL[self.choices.weighted(&[4, 4, 1])];
        if self.choices.chance(18)
            && let Some(predicate) = self.token_predicate(scope, depth)
        {
            return predicate;
        }
        if depth >= DEPTH || self.choices.is_over() {
            return match self.column(kind, scope) {
                Some(column) => format!("{column} = {}", self.typed_constant(kind)),
                None => format!("{} = {}", self.literal(kind), self.literal(kind)),
            };
        }
        let next = depth + 1;
        match self.choices.below(16) {
            0 | 1 => {
                let operator = *self.choices.pick(&["=", "<>", "<", ">=", ">"]);
                let left = self.leaf(kind, scope);
                format!("{left} {operator} {}", self.leaf(kind, scope))
            }
            2 => {
                let operator = *self.choices.pick(&["=", "<>", "<", ">="]);
                let left = self.expr(kind, scope, next);
                format!("{left} {operator} {}", self.expr(kind, scope, next))
            }
            3 => {
                let left = self.leaf(kind, scope);
                format!("{left} IS {}NULL", self.not())
            }
            4 => {
                let Some(left) = self.column(kind, scope) else {
                    return self.risky(scope);
                };
                let list: Vec<String> = (0..self.choices.below(3) + 1)
                    .map(|_| match self.choices.chance(40) {
                        true => self.typed_constant(kind),
                        false => self.leaf(kind, scope),
                    })
                    .collect();
                format!("{left} {}IN ({})", self.not(), list.join(", "))
            }
            5 => {
                let left = self.expr(kind, scope, next);
                let (low, high) = (self.literal(kind), self.leaf(kind, scope));
                format!("{left} {}BETWEEN {low} AND {high}", self.not())
            }
            6 => {
                let left = self.expr(Kind::Text, scope, next);
                let pattern = *self.choices.pick(&["e%", "%3456", "%1%", "_", "*%"]);
                let pattern = self.placed(&Cell::Text(pattern.to_owned()));
                format!("{left} {}LIKE {pattern}", self.not())
            }
            7 => {
                let left = self.leaf(kind, scope);
                let (query, _) = self.query(Some(&[kind]), scope, next);
                format!("{left} {}IN ({query})", self.not())
            }
            8 => {
                let (query, _) = self.query(None, scope, next);
                format!("{}EXISTS ({query})", self.not())
            }
            9 => format!("NOT ({})", self.predicate(scope, next)),
            10 | 11 => {
                let (one, other) = (self.predicate(scope, next), self.predicate(scope, next));
                format!("({one} AND {other})")
            }
            12 => {
                let (one, other) = (self.predicate(scope, next), self.predicate(scope, next));
                format!("({one} OR {other})")
            }
            13 if self.dialect() != Dialect::Sqlite => {
                let left = self.leaf(kind, scope);
                let (query, _) = self.query(Some(&[kind]), scope, next);
                let quantifier = *self.choices.pick(&["= ANY", "<> ALL", ">= ALL", "< ANY"]);
                format!("{left} {quantifier} ({query})")
            }
            14 => {
                let left = self.leaf(kind, scope);
                let right = self.leaf(kind, scope);
                match self.dialect() {
                    Dialect::Sqlite => format!("{left} IS {}{right}", self.not()),
                    Dialect::Postgres => format!("{left} IS {}DISTINCT FROM {right}", self.not()),
                    Dialect::Mysql => format!("{left} <=> {right}"),
                }
            }
            _ => self.risky(scope),
        }
    }

    pub(super) fn not(&mut self) -> &'static str {
        if self.choices.chance(30) { "NOT " } else { "" }
    }

    /// A condition that raises for some value.
    fn risky(&mut self, scope: &[Named]) -> String {
        let (int, text) = (self.leaf(Kind::Int, scope), self.leaf(Kind::Text, scope));
        let choice = self.choices.below(6);
        self.note("a condition that may raise");
        match self.dialect() {
            Dialect::Sqlite => match choice {
                0 | 1 => format!("json({text}) > '0'"),
                2 => format!("abs({int} - 9223372036854775807 - 1) > 3"),
                3 => format!("json_extract({text}, '$.a') IS NULL"),
                4 => format!("{text} ->> '$' = 1"),
                _ => format!("{text} LIKE 'a' ESCAPE {text}"),
            },
            Dialect::Postgres => match choice {
                0 | 1 => format!("10 / {int} > 1"),
                2 => format!("{text}::int > 3"),
                3 => format!("'abc' ~ {text}"),
                4 => format!("{int} + 9223372036854775800 > 3"),
                _ => format!("{text}::date > DATE '2000-01-01'"),
            },
            Dialect::Mysql => match choice {
                0 | 1 => format!("{int} + 9223372036854775800 > 3"),
                2 => format!("exp({int} * 100) > 3"),
                3 => format!(
                    "{int} IN (SELECT x.id FROM t0 x WHERE {int} = (SELECT y.id FROM t0 y))"
                ),
                4 => format!("{text} REGEXP {text}"),
                _ => format!("CAST({text} AS SIGNED) * 9223372036854775807 > 3"),
            },
        }
    }
}
