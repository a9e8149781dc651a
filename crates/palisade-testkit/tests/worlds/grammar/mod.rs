//! Statements as an agent might write them over a world, so that many pass. They are made so that their
//! answers, as bags, depend on nothing but what may be seen; where that cannot be, they say so.

mod expr;
mod query;
mod write;

use palisade::dialect::Dialect;

use crate::{
    cells::Kind,
    choices::Choices,
    world::{Level, Table, World},
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
    };
    let sql = if grammar.choices.chance(38) {
        grammar.change()
    } else {
        grammar.top()
    };
    Statement {
        sql,
        loose: grammar.loose,
        target: grammar.target,
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
}

impl Grammar<'_, '_> {
    fn dialect(&self) -> Dialect {
        self.world.dialect
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }

    /// The columns of `table` that statements name: seldom one that is hidden, and where the statement changes
    /// data seldom one that is masked, for those are refused.
    fn columns(&mut self, table: &Table) -> Vec<(String, Kind)> {
        let changes = self.target.is_some();
        let mut out = Vec::new();
        for column in &table.columns {
            let usual = match column.level {
                Level::Plain => true,
                Level::Masked(_) => !changes,
                Level::Hidden => false,
            };
            if usual || self.choices.chance(2) {
                out.push((column.name.to_owned(), column.kind));
            }
        }
        out
    }
}
