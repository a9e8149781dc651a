//! Statements as an agent might write them over a world, so that many pass. They are made so that their
//! answers, as bags, depend on nothing but what may be seen; where that cannot be, they say so. Values stand in them as
//! literals or as parameters.

mod expr;
mod query;
mod token;
mod write;

use std::collections::BTreeSet;

use palisade::dialect::Dialect;

use crate::worlds::{
    cells::Kind,
    choices::Choices,
    world::{Level, Table, World, stand_for_the_same},
};

/// A statement.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    /// Whether rows and counts depend on the order in which the engine meets rows, so that only the shape of
    /// the answer is promised.
    pub(crate) loose: bool,
    /// The table that it changes.
    pub(crate) target: Option<usize>,
    /// What it is made of.
    pub(crate) shapes: BTreeSet<&'static str>,
    /// Whether policy caps the rows that are read.
    pub(crate) capped: bool,
}

/// The statement that `choices` stand for.
pub(crate) fn statement(world: &World, choices: &mut Choices<'_>) -> Statement {
    let mut grammar = Grammar {
        world,
        choices,
        loose: false,
        aliases: 0,
        ctes: Vec::new(),
        target: None,
        shapes: BTreeSet::new(),
        capped: false,
        ordered: false,
    };
    let sql = if grammar.choices.chance(38) {
        grammar.change()
    } else {
        grammar.top()
    };
    Statement {
        sql,
        // Which rows a cap leaves is promised where their order is.
        loose: grammar.loose || (grammar.capped && !grammar.ordered),
        target: grammar.target,
        shapes: grammar.shapes,
        capped: grammar.capped,
    }
}

/// A column that expressions may name.
#[derive(Debug, Clone)]
struct Named {
    /// As it is written, with its table where that is needed.
    text: String,
    kind: Kind,
}

/// What is being written.
struct Grammar<'g, 'c> {
    world: &'g World,
    choices: &'g mut Choices<'c>,
    loose: bool,
    /// How many aliases there are.
    aliases: usize,
    /// Common table expressions in scope.
    ctes: Vec<(String, Vec<(String, Kind)>)>,
    /// What the statement changes.
    target: Option<usize>,
    shapes: BTreeSet<&'static str>,
    capped: bool,
    /// Whether the order of all rows is given.
    ordered: bool,
}

impl Grammar<'_, '_> {
    fn dialect(&self) -> Dialect {
        self.world.dialect
    }

    /// Says that the statement has something of this shape.
    fn note(&mut self, shape: &'static str) {
        self.shapes.insert(shape);
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }

    /// A kind of tokens that columns of `scope` are of.
    fn token_kind(&mut self, scope: &[Named]) -> Option<Kind> {
        let kinds: Vec<Kind> = scope
            .iter()
            .map(|named| named.kind)
            .filter(|kind| matches!(kind, Kind::Token(_)))
            .collect();
        (!kinds.is_empty()).then(|| *self.choices.pick(&kinds))
    }

    /// A kind of tokens of another domain than `kind`, that may stand for the same values.
    fn other_token_kind(&mut self, kind: Kind, scope: &[Named]) -> Option<Kind> {
        let others: Vec<Named> = scope
            .iter()
            .filter(|named| match (named.kind, kind) {
                (Kind::Token(other), Kind::Token(domain)) => {
                    other != domain && stand_for_the_same(other, domain)
                }
                _ => false,
            })
            .cloned()
            .collect();
        self.token_kind(&others)
    }

    /// The columns of `table` that statements name. Hidden columns are rare, and so are masked columns in changes: such
    /// statements are refused.
    fn columns(&mut self, table: &Table) -> Vec<(String, Kind)> {
        let changes = self.target.is_some();
        let mut out = Vec::new();
        for column in &table.columns {
            let usual = match column.level {
                Level::Plain => true,
                Level::Masked(_) | Level::Token(_) => !changes,
                Level::Hidden => false,
            };
            if usual || self.choices.chance(2) {
                out.push((column.name.to_owned(), column.visible_kind()));
            }
        }
        out
    }
}
