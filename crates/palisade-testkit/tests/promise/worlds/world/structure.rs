//! What tables have beside columns: keys of other tables, triggers, generated columns, partitions.

use palisade::dialect::Dialect;

use super::{Actions, Column, Filter, Level, Table};
use crate::worlds::{
    cells::{Cell, Kind, Mask},
    choices::Choices,
};

/// What becomes of rows when that which they reference is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDelete {
    Cascade,
    SetNull,
    /// The deletion fails, which tells of the row: only where every row may be seen, and its column.
    Refuse,
}

/// A foreign key, of the column `r`.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    /// Which of the tables it is of; one with a key that stands before.
    pub(crate) parent: usize,
    pub(crate) on_delete: OnDelete,
}

impl Reference {
    pub(super) fn constraint(&self, parent: &str) -> String {
        let action = match self.on_delete {
            OnDelete::Cascade => " ON DELETE CASCADE",
            OnDelete::SetNull => " ON DELETE SET NULL",
            OnDelete::Refuse => "",
        };
        format!("FOREIGN KEY (r) REFERENCES {parent} (id){action}")
    }
}

/// A trigger that notes changes in the journal.
#[derive(Debug, Clone)]
pub(crate) struct Trigger {
    /// INSERT, UPDATE or DELETE.
    on: &'static str,
    /// The column whose values are noted.
    copied: usize,
    /// Whether policy permits it by name. What such a one does with hidden columns is documented, so that it copies
    /// none.
    pub(crate) permitted: bool,
}

impl Trigger {
    pub(super) fn created(&self, table: &Table, dialect: Dialect) -> Vec<String> {
        let (name, on) = (table.name, self.on);
        let row = if on == "DELETE" { "OLD" } else { "NEW" };
        let copied = table.columns[self.copied].name;
        let insert = |text: &str| {
            format!(
                "INSERT INTO journal (id, note) VALUES ({row}.id, CAST({row}.{copied} AS {text}))"
            )
        };
        match dialect {
            Dialect::Sqlite => vec![format!(
                "CREATE TRIGGER {name}_jot AFTER {on} ON {name} BEGIN {}; END",
                insert("TEXT")
            )],
            Dialect::Mysql => vec![format!(
                "CREATE TRIGGER {name}_jot AFTER {on} ON {name} FOR EACH ROW {}",
                insert("CHAR")
            )],
            Dialect::Postgres => vec![
                format!(
                    "CREATE FUNCTION {name}_jot() RETURNS trigger LANGUAGE plpgsql AS \
                     $$ BEGIN {}; RETURN NULL; END $$",
                    insert("text")
                ),
                format!(
                    "CREATE TRIGGER {name}_jot AFTER {on} ON {name} FOR EACH ROW \
                     EXECUTE FUNCTION {name}_jot()"
                ),
            ],
        }
    }

    /// The permit that names it.
    pub(crate) fn permit(&self, table: &Table, schema: &str) -> String {
        let name = table.name;
        format!(
            "permit(principal, action == Action::\"call\", resource == Function::\"{schema}.{name}_jot\");\n"
        )
    }
}

/// The table that triggers write to.
pub(super) fn journal() -> Table {
    let column = |name, kind, nullable| Column {
        name,
        kind,
        nullable,
        level: Level::Plain,
        assignable: true,
        generated: None,
        unique: false,
    };
    Table {
        name: "journal",
        columns: vec![
            column("id", Kind::Int, true),
            column("note", Kind::Text, true),
        ],
        keyed: false,
        filter: Filter::All,
        actions: Actions::All,
        selectable: true,
        max_rows: None,
        cap: None,
        reference: None,
        trigger: None,
        partitioned: false,
    }
}

/// Gives `tables` what connects them.
pub(super) fn add(tables: &mut [Table], dialect: Dialect, choices: &mut Choices<'_>) {
    for index in 0..tables.len() {
        let keyed: Vec<usize> = (0..index).filter(|index| tables[*index].keyed).collect();
        let table = &mut tables[index];
        if dialect == Dialect::Postgres && choices.chance(25) {
            table.partitioned = true;
        }
        if !table.partitioned && choices.chance(35) {
            unique(table, choices);
        }
        if !keyed.is_empty() && choices.chance(55) {
            refer(table, &keyed, choices);
        }
        if choices.chance(30) {
            generate(table, choices);
        }
        if choices.chance(20) {
            table.trigger = Some(trigger(table, choices));
        }
    }
}

/// A column that is masked is unique rather than another. Statements assign values to it that no row has: a
/// constraint tells of the rows that it reaches.
fn unique(table: &mut Table, choices: &mut Choices<'_>) {
    let free = |column: &Column| matches!(column.name, "b" | "s" | "u");
    let mut able: Vec<usize> = (0..table.columns.len())
        .filter(|at| free(&table.columns[*at]))
        .collect();
    able.sort_by_key(|at| table.columns[*at].level == Level::Plain);
    if able.is_empty() {
        return;
    }
    let at = able[choices.weighted(&[3, 1]).min(able.len() - 1)];
    table.columns[at].unique = true;
    table.columns[at].nullable = true;
}

fn refer(table: &mut Table, keyed: &[usize], choices: &mut Choices<'_>) {
    let parent = *choices.pick(keyed);
    let level = match choices.weighted(&[5, 1, 2]) {
        0 => Level::Plain,
        1 => Level::Masked(Mask::Bucket(10)),
        _ => Level::Hidden,
    };
    let on_delete = match choices.below(3) {
        0 => OnDelete::Cascade,
        1 => OnDelete::SetNull,
        _ if level == Level::Plain && table.filter == Filter::All => OnDelete::Refuse,
        _ => OnDelete::Cascade,
    };
    table.columns.push(Column {
        name: "r",
        kind: Kind::Int,
        nullable: true,
        level,
        assignable: !choices.chance(8),
        generated: None,
        unique: false,
    });
    table.reference = Some(Reference { parent, on_delete });
}

/// A column that is computed from another is seen as much as that is.
fn generate(table: &mut Table, choices: &mut Choices<'_>) {
    let able: Vec<usize> = (1..table.columns.len())
        .filter(|at| {
            let column = &table.columns[*at];
            matches!(column.kind, Kind::Int | Kind::Text) && column.name != "r"
        })
        .collect();
    let source = *choices.pick(&able);
    let of = &table.columns[source];
    let level = match of.level {
        Level::Plain => Level::Plain,
        Level::Masked(_) | Level::Token(_) => Level::Masked(Mask::Null),
        Level::Hidden => Level::Hidden,
    };
    table.columns.push(Column {
        name: "g",
        kind: of.kind,
        nullable: true,
        level,
        assignable: false,
        generated: Some(source),
        unique: false,
    });
}

fn trigger(table: &Table, choices: &mut Choices<'_>) -> Trigger {
    let permitted = choices.chance(70);
    let able: Vec<usize> = (0..table.columns.len())
        .filter(|at| !permitted || table.columns[*at].level == Level::Plain)
        .collect();
    Trigger {
        on: ["UPDATE", "INSERT", "DELETE"][choices.below(3)],
        copied: *choices.pick(&able),
        permitted,
    }
}

/// The partitions of a table, by ids: those of rows that a filter hides are large.
pub(super) fn partitions(name: &str) -> [String; 2] {
    [
        format!("CREATE TABLE {name}_low PARTITION OF {name} FOR VALUES FROM (MINVALUE) TO (1000)"),
        format!(
            "CREATE TABLE {name}_high PARTITION OF {name} FOR VALUES FROM (1000) TO (MAXVALUE)"
        ),
    ]
}

/// How a column that is computed from `source` is.
pub(super) fn generation(source: &Column, dialect: Dialect) -> String {
    let name = source.name;
    let value = match (source.kind, dialect) {
        (Kind::Int, _) => format!("{name} + 1"),
        (_, Dialect::Mysql) => format!("CONCAT({name}, '!')"),
        (_, Dialect::Sqlite | Dialect::Postgres) => format!("{name} || '!'"),
    };
    format!(" GENERATED ALWAYS AS ({value}) STORED")
}

/// The value of a column that is computed from `source`.
pub(super) fn generated(source: &Cell) -> Cell {
    match source {
        Cell::Null => Cell::Null,
        Cell::Int(value) => Cell::Int(value + 1),
        Cell::Text(text) => Cell::Text(format!("{text}!")),
    }
}
