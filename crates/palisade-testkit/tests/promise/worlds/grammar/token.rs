//! Tokens: what is compared with them, and what they are compared with.
//!
//! Nothing is computed from them and nothing ordered by them here: that is of the hash, and not promised.

use palisade::dialect::Dialect;

use super::{Grammar, Named, query::Columns};
use crate::worlds::{
    cells::Kind,
    tokens::Mark,
    world::{Level, Table},
};

impl Grammar<'_, '_> {
    /// A token of `domain` that was handed out earlier, or what is none.
    pub(super) fn handed_out(&mut self, domain: u8, mark: Mark) -> String {
        let places = self.world.tokens(domain);
        if places.is_empty() || self.choices.chance(4) {
            return self.literal(Kind::Text);
        }
        self.note(match mark {
            Mark::Literal => "a token as a literal",
            Mark::Parameter => "a token as a parameter",
            // Which the gate must refuse.
            Mark::Forged => return mark.mark(*self.choices.pick(&places)),
        });
        mark.mark(*self.choices.pick(&places))
    }

    /// The rows of two tables whose tokens of two domains are the same, whatever they stand for: none.
    pub(super) fn across(&mut self) -> Option<(String, Columns)> {
        let tables = [self.choices.below(3), self.choices.below(3)];
        let [one, other] = tables.map(|index| self.world.tables[index].clone());
        let scope = |table: &Table, alias: &str| -> Vec<Named> {
            let tokens = table
                .columns
                .iter()
                .filter_map(|column| match column.level {
                    Level::Token(domain) => Some(Named {
                        text: format!("{alias}.{}", column.name),
                        kind: Kind::Token(domain),
                    }),
                    Level::Plain | Level::Masked(_) | Level::Hidden => None,
                });
            tokens.collect()
        };
        let (own, theirs) = (scope(&one, "x"), scope(&other, "y"));
        let kind = self.token_kind(&own)?;
        let another = self.other_token_kind(kind, &theirs)?;
        let (left, right) = (self.column(kind, &own)?, self.column(another, &theirs)?);
        self.capped |= one.cap.is_some() || other.cap.is_some();
        self.note("tokens of two domains compared");
        Some((
            format!(
                "SELECT x.id AS k0, y.id AS k1 FROM {} AS x JOIN {} AS y ON {left} = {right}",
                one.name, other.name
            ),
            vec![("k0".to_owned(), Kind::Int), ("k1".to_owned(), Kind::Int)],
        ))
    }

    /// Tokens that a query reads from itself, beside numbers that begin with `start`.
    pub(super) fn recursive_tokens(
        &mut self,
        start: &str,
        from: &str,
        own: &[Named],
        condition: &str,
    ) -> Option<String> {
        let kind = self.token_kind(own)?;
        let Kind::Token(domain) = kind else {
            return None;
        };
        let column = self.column(kind, own)?;
        let table = self.world.tables[self.choices.below(3)].clone();
        let same = table
            .columns
            .iter()
            .find(|column| column.level == Level::Token(domain));
        let step = match (self.choices.below(3), same) {
            (0, Some(same)) => {
                self.capped |= table.cap.is_some();
                // One is added to it, and nothing is computed from tokens.
                let is_token = table
                    .columns
                    .iter()
                    .any(|column| column.name == "a" && matches!(column.level, Level::Token(_)));
                let number = if is_token { "id" } else { "a" };
                format!(
                    "SELECT x.{number}, x.{} FROM {} AS x JOIN r ON x.id = r.n + 1",
                    same.name, table.name
                )
            }
            (1, _) => format!(
                "SELECT n + 1, e FROM r WHERE n < 4 AND e <> {}",
                self.handed_out(domain, Mark::Parameter)
            ),
            _ => "SELECT n + 1, e FROM r WHERE n < 4".to_owned(),
        };
        self.note("tokens through WITH RECURSIVE");
        let columns = vec![("n".to_owned(), Kind::Int), ("e".to_owned(), kind)];
        self.ctes.push(("r".to_owned(), columns));
        Some(format!(
            "WITH RECURSIVE r(n, e) AS (SELECT {start}, {column} FROM {from}{condition} UNION {step}) "
        ))
    }

    /// An expression that gives a token of `domain`.
    pub(super) fn token(&mut self, domain: u8, scope: &[Named], depth: usize) -> String {
        let kind = Kind::Token(domain);
        self.note("an expression over tokens");
        match self.choices.below(5) {
            1 => {
                let (when, then) = (self.predicate(scope, depth), self.leaf(kind, scope));
                let other = self.leaf(kind, scope);
                format!("CASE WHEN {when} THEN {then} ELSE {other} END")
            }
            2 => {
                let (one, other) = (self.leaf(kind, scope), self.leaf(kind, scope));
                format!("COALESCE({one}, {other})")
            }
            3 => {
                let (one, other) = (self.leaf(kind, scope), self.leaf(kind, scope));
                format!("NULLIF({one}, {other})")
            }
            4 => {
                let places = self.world.tokens(domain);
                if places.is_empty() {
                    return self.leaf(kind, scope);
                }
                let (table, column, id) = *self.choices.pick(&places);
                let table = &self.world.tables[table];
                self.capped |= table.cap.is_some();
                let (name, column) = (table.name, table.columns[column].name);
                let alias = self.alias();
                // Of those rows that may be seen one has the id.
                format!("(SELECT {alias}.{column} FROM {name} AS {alias} WHERE {alias}.id = {id})")
            }
            _ => self.leaf(kind, scope),
        }
    }

    /// A condition over a column of tokens, where `scope` has one.
    pub(super) fn token_predicate(&mut self, scope: &[Named], depth: usize) -> Option<String> {
        let kind = self.token_kind(scope)?;
        let Kind::Token(domain) = kind else {
            return None;
        };
        let column = self.column(kind, scope)?;
        let mark = match self.choices.chance(30) {
            true => Mark::Parameter,
            false => Mark::Literal,
        };
        self.note("a condition over tokens");
        Some(match self.choices.below(12) {
            0 | 1 => {
                let operator = *self.choices.pick(&["=", "<>"]);
                let token = self.handed_out(domain, mark);
                format!("{column} {operator} {token}")
            }
            2 => format!("{column} IS {}NULL", self.not()),
            3 => {
                let list: Vec<String> = (0..self.choices.below(3) + 1)
                    .map(|_| self.handed_out(domain, mark))
                    .collect();
                format!("{column} {}IN ({})", self.not(), list.join(", "))
            }
            4 if depth < 3 => {
                let (query, _) = self.query(Some(&[kind]), scope, depth + 1);
                format!("{column} {}IN ({query})", self.not())
            }
            // Of another domain, of which none is equal but by chance.
            5 | 6 => {
                let other = self.other_token_kind(kind, scope)?;
                self.note("tokens of two domains compared");
                let operator = *self.choices.pick(&["=", "<>"]);
                format!("{column} {operator} {}", self.column(other, scope)?)
            }
            7 => {
                let other = self.leaf(kind, scope);
                match self.dialect() {
                    Dialect::Sqlite => format!("{column} IS {}{other}", self.not()),
                    Dialect::Postgres => {
                        format!("{column} IS {}DISTINCT FROM {other}", self.not())
                    }
                    Dialect::Mysql => format!("{column} <=> {other}"),
                }
            }
            8 => {
                let (one, other) = (
                    self.handed_out(domain, mark),
                    self.handed_out(domain, Mark::Literal),
                );
                format!("CASE {column} WHEN {one} THEN 1 WHEN {other} THEN 2 ELSE 3 END < 3")
            }
            9 => {
                let id = self.choices.below(5) + 1;
                let token = self.handed_out(domain, mark);
                match self.column(Kind::Int, scope) {
                    Some(int) => format!("({column}, {int}) = ({token}, {id})"),
                    None => format!("({column}, {id}) = ({token}, {id})"),
                }
            }
            10 => {
                let operator = *self.choices.pick(&[">=", "<"]);
                format!(
                    "{column} {operator} {}",
                    self.handed_out(domain, Mark::Forged)
                )
            }
            _ => format!("{column} = {}", self.leaf(kind, scope)),
        })
    }
}
