//! Statements that change rows.

use palisade::dialect::Dialect;

use super::{Grammar, Named};
use crate::worlds::{
    cells::{Cell, Kind},
    world::{Column, Filter, Level, Table},
};

impl Grammar<'_, '_> {
    /// A statement that changes rows.
    pub(super) fn change(&mut self) -> String {
        let index = self.choices.below(3);
        self.target = Some(index);
        let table = self.world.tables[index].clone();
        self.capped |= table.cap.is_some();
        if table
            .trigger
            .as_ref()
            .is_some_and(|trigger| trigger.permitted)
        {
            self.note("a table with a trigger changed");
        }
        if table.reference.is_some() {
            self.note("a table with a foreign key changed");
        }
        let merge = match self.dialect() {
            Dialect::Postgres => 4,
            Dialect::Sqlite => 2,
            Dialect::Mysql => 1,
        };
        match self.choices.weighted(&[5, 5, 4, merge]) {
            0 => self.insert(&table),
            1 => self.update(&table),
            2 => {
                if self.world.reached(index).len() > 1 {
                    self.note("a deletion that reaches other tables");
                }
                self.delete(&table)
            }
            _ => match self.dialect() {
                Dialect::Postgres => self.merge(&table),
                Dialect::Mysql | Dialect::Sqlite => self.replace(&table),
            },
        }
    }

    /// Columns that are given values: mostly all that must be and some more.
    fn assigned(&mut self, table: &Table) -> Vec<Column> {
        table
            .columns
            .iter()
            .filter(|column| {
                let decides = matches!(column.name, "org" | "grp");
                let must =
                    !column.nullable || column.name == "id" || decides && self.choices.chance(75);
                if column.generated.is_some() {
                    return self.choices.chance(2);
                }
                let usual = column.assignable && !matches!(column.level, Level::Token(_));
                let may = usual || self.choices.chance(3);
                (must || self.choices.chance(60)) && may
            })
            .cloned()
            .collect()
    }

    /// A value that `column` is given, in a place of its type.
    fn new_value(&mut self, table: &Table, column: &Column) -> String {
        let value = self.new_cell(table, column);
        self.placed(&value)
    }

    /// A value that `column` is given by a query.
    fn selected_value(&mut self, table: &Table, column: &Column) -> String {
        let value = self.new_cell(table, column);
        self.typed(column.kind, &value)
    }

    fn new_cell(&mut self, table: &Table, column: &Column) -> Cell {
        if column.name == "id" {
            return self.number(200, 50);
        }
        // That a row is referenced, or that a value is there already, is told by constraints.
        if column.name == "r" {
            return match self.number(0, 6) {
                Cell::Int(0) => Cell::Null,
                id => id,
            };
        }
        if column.unique {
            self.note("a unique column assigned");
            return match (column.kind, self.number(500, 400)) {
                (Kind::Text, fresh) => Cell::Text(format!("n{}", fresh.literal())),
                (_, fresh) => fresh,
            };
        }
        if self.choices.chance(75) {
            match (table.filter, column.name) {
                (Filter::Org(value) | Filter::OrgAtLength(value), "org") => {
                    return Cell::Int(value);
                }
                (Filter::OrgOneOf(values), "org") => return Cell::Int(values[0]),
                (Filter::OrgBelow(bound), "org") => return Cell::Int(bound - 1),
                (Filter::NotOrg(value), "org") => return Cell::Int(value + 1),
                (Filter::NoOrg, "org") => return Cell::Null,
                (Filter::Group(value), "grp") => return Cell::Text(value.to_owned()),
                (Filter::GroupBegins(start), "grp") => return Cell::Text(format!("{start}-9")),
                _ => {}
            }
        }
        if column.nullable && self.choices.chance(15) {
            return Cell::Null;
        }
        self.value(column.kind)
    }

    /// A number from `first` on, of `count`.
    fn number(&mut self, first: i64, count: usize) -> Cell {
        let more: i64 = self.choices.below(count).try_into().unwrap();
        Cell::Int(first + more)
    }

    fn insert(&mut self, table: &Table) -> String {
        let columns = self.assigned(table);
        // Of rows that may be seen.
        let meets = table.keyed && self.choices.chance(35);
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        let looked = match table.filter {
            Filter::Org(_) | Filter::OrgAtLength(_) | Filter::NoOrg => Some("org"),
            Filter::Group(_) => Some("grp"),
            _ => None,
        };
        if looked.is_some_and(|looked| !names.contains(&looked)) {
            self.note("a new row of which nothing is said that policy looks at");
        }
        let source = if self.choices.chance(40) {
            self.inserted_query(table, &columns)
        } else {
            let rows: Vec<String> = (0..)
                .take(1 + self.choices.below(2))
                .map(|number: i64| {
                    let values: Vec<String> = columns
                        .iter()
                        .map(|column| match column.name {
                            "id" if meets => {
                                let id = self.number(1, 6);
                                let id = self.placed(&id);
                                if self.choices.chance(20) {
                                    self.note("a key that is computed");
                                    return format!("{id} * 1");
                                }
                                id
                            }
                            // Of each row in tens of its own.
                            "id" if table.keyed => {
                                let id = self.number(200 + 50 * number, 50);
                                self.placed(&id)
                            }
                            _ => self.new_value(table, column),
                        })
                        .collect();
                    format!("({})", values.join(", "))
                })
                .collect();
            format!("VALUES {}", rows.join(", "))
        };
        let name = table.name;
        let conflict = self.on_conflict(table, &columns, meets);
        let returning = self.returning(
            table,
            self.dialect() != Dialect::Mysql || conflict.is_empty(),
        );
        format!(
            "INSERT INTO {name} ({}) {source}{conflict}{returning}",
            names.join(", ")
        )
    }

    /// Rows of a query; their ids do not meet.
    fn inserted_query(&mut self, table: &Table, columns: &[Column]) -> String {
        let (from, own) = if table.keyed {
            // One row for each of the source, so that ids stay apart.
            let index = self.choices.below(3);
            let source = self.world.tables[index].clone();
            self.capped |= source.cap.is_some();
            if !source.keyed {
                return self.one_row(table, columns);
            }
            let alias = self.alias();
            let own = self
                .columns(&source)
                .into_iter()
                .map(|(name, kind)| Named {
                    text: format!("{alias}.{name}"),
                    kind,
                })
                .collect::<Vec<_>>();
            (format!("{} AS {alias}", source.name), own)
        } else {
            self.from(&[], 1)
        };
        let id = own
            .first()
            .map_or("1".to_owned(), |named| named.text.clone());
        let items: Vec<String> = columns
            .iter()
            .map(|column| match column.name {
                "id" => format!("{id} + 300"),
                "r" => self.selected_value(table, column),
                _ if column.unique => self.selected_value(table, column),
                "org" | "grp" if self.choices.chance(60) => self.selected_value(table, column),
                _ => self.expr(column.kind, &own, 1),
            })
            .collect();
        let condition = self.condition(&own, &[], 1);
        format!("SELECT {} FROM {from}{condition}", items.join(", "))
    }

    fn one_row(&mut self, table: &Table, columns: &[Column]) -> String {
        let items: Vec<String> = columns
            .iter()
            .map(|column| self.selected_value(table, column))
            .collect();
        format!("SELECT {}", items.join(", "))
    }

    fn on_conflict(&mut self, table: &Table, columns: &[Column], meets: bool) -> String {
        let percent = if meets { 85 } else { 25 };
        if !table.keyed || !self.choices.chance(percent) {
            return String::new();
        }
        self.note("an upsert");
        if self.dialect() == Dialect::Mysql && table.filter != Filter::All {
            self.note("ON DUPLICATE KEY UPDATE of a filtered table");
        }
        let assigned = self.assignments(table, columns).join(", ");
        if self.dialect() == Dialect::Mysql {
            return format!(" ON DUPLICATE KEY UPDATE {assigned}");
        }
        if self.choices.chance(30) {
            return match self.choices.chance(30) {
                true => " ON CONFLICT DO NOTHING".to_owned(),
                false => " ON CONFLICT (id) DO NOTHING".to_owned(),
            };
        }
        // SQLite reads ON after a SELECT as that of a join.
        let condition = match self.choices.chance(30) {
            true => self.target_condition(table),
            false => String::new(),
        };
        format!(" ON CONFLICT (id) DO UPDATE SET {assigned}{condition}")
    }

    /// What SET says.
    fn assignments(&mut self, table: &Table, columns: &[Column]) -> Vec<String> {
        let scope = plain(table, table.name);
        let others: Vec<&Column> = columns
            .iter()
            .filter(|column| column.name != "id")
            .collect();
        let mut out: Vec<String> = Vec::new();
        for column in others {
            if !out.is_empty() && self.choices.chance(60) {
                continue;
            }
            let given = column.unique || matches!(column.name, "org" | "grp" | "r");
            let value = if given || self.choices.chance(40) {
                self.new_value(table, column)
            } else {
                self.own_expr(column.kind, &scope)
            };
            out.push(format!("{} = {value}", column.name));
        }
        if out.is_empty() {
            out.push("a = 1".to_owned());
        }
        out
    }

    /// An expression of the row alone.
    fn own_expr(&mut self, kind: Kind, scope: &[Named]) -> String {
        let leaf = self
            .column(kind, scope)
            .unwrap_or_else(|| self.literal(kind));
        match (kind, self.choices.below(6)) {
            (Kind::Int, 1) => format!("{leaf} + 1"),
            (Kind::Int, 2) => match self.dialect() {
                Dialect::Mysql => format!("100 DIV ({leaf})"),
                Dialect::Sqlite | Dialect::Postgres => format!("100 / ({leaf})"),
            },
            (Kind::Int, 3) => format!("COALESCE({leaf}, 0) * 2"),
            (Kind::Text, 1) => format!("upper({leaf})"),
            (Kind::Text, 2) => format!("substr({leaf}, 2)"),
            (Kind::Text, 3) if self.dialect() == Dialect::Sqlite => format!("json({leaf})"),
            // Without subqueries: they could see rows that have changed already.
            (_, 4) => format!("CASE WHEN {} THEN {leaf} END", self.predicate(scope, 3)),
            _ => leaf,
        }
    }

    fn update(&mut self, table: &Table) -> String {
        let columns = self.assigned(table);
        let name = table.name;
        // Of MySQL's own form there are seldom enough.
        let joined = match self.dialect() {
            Dialect::Mysql => 40,
            Dialect::Sqlite | Dialect::Postgres => 25,
        };
        if self.choices.chance(joined) {
            let alias = self.alias();
            let index = self.choices.below(3);
            let source = self.world.tables[index].clone();
            self.capped |= source.cap.is_some();
            let theirs = plain(&source, &alias);
            let mut scope = plain(table, name);
            let assigned = self.assignments(table, &columns);
            let mut condition = format!("{name}.id = {alias}.id");
            scope.extend(theirs);
            if self.choices.chance(50) {
                condition = format!("{} AND {condition}", self.comparison(&scope));
            } else if self.choices.chance(60) {
                condition = format!("{} AND {condition}", self.predicate(&scope, 2));
            }
            self.note("UPDATE with another table");
            return match self.dialect() {
                Dialect::Mysql => {
                    // Which of the two tables it is of.
                    let assigned: Vec<String> = assigned
                        .iter()
                        .map(|assignment| format!("{name}.{assignment}"))
                        .collect();
                    let join = *self.choices.pick(&["JOIN", "JOIN", "LEFT JOIN"]);
                    let on = match self.choices.chance(25) {
                        true => format!(" AND {}", self.predicate(&scope, 2)),
                        false => String::new(),
                    };
                    // What stands in ON is no condition of the change.
                    format!(
                        "UPDATE {name} {join} {} AS {alias} ON {name}.id = {alias}.id{on} SET {} WHERE {condition}",
                        source.name,
                        assigned.join(", ")
                    )
                }
                Dialect::Sqlite | Dialect::Postgres => format!(
                    "UPDATE {name} SET {} FROM {} AS {alias} WHERE {condition}{}",
                    assigned.join(", "),
                    source.name,
                    self.returning_of(table)
                ),
            };
        }
        let assigned = self.assignments(table, &columns).join(", ");
        let condition = self.target_condition(table);
        let returning = self.returning(table, self.dialect() != Dialect::Mysql);
        format!("UPDATE {name} SET {assigned}{condition}{returning}")
    }

    /// A condition that is leak-proof, so that it may stand beside a filter.
    pub(super) fn comparison(&mut self, scope: &[Named]) -> String {
        let kind = Kind::ALL[self.choices.below(2)];
        let operator = *self.choices.pick(&["=", "<>", ">=", "<"]);
        match self.column(kind, scope) {
            Some(column) => format!("{column} {operator} {}", self.typed_constant(kind)),
            None => format!("1 {operator} {}", self.literal(kind)),
        }
    }

    fn target_condition(&mut self, table: &Table) -> String {
        if self.choices.chance(8) {
            return String::new();
        }
        let scope = plain(table, table.name);
        format!(" WHERE {}", self.predicate(&scope, 0))
    }

    fn delete(&mut self, table: &Table) -> String {
        let name = table.name;
        if self.dialect() != Dialect::Sqlite && self.choices.chance(25) {
            let alias = self.alias();
            let index = self.choices.below(3);
            let source = self.world.tables[index].clone();
            self.capped |= source.cap.is_some();
            let mut scope = plain(table, name);
            scope.extend(plain(&source, &alias));
            let condition = if self.choices.chance(60) {
                self.comparison(&scope)
            } else {
                self.predicate(&scope, 2)
            };
            let join = self.equal(&scope);
            self.note("DELETE with another table");
            return match self.dialect() {
                Dialect::Mysql => format!(
                    "DELETE {name} FROM {name} JOIN {} AS {alias} ON {join} WHERE {condition}",
                    source.name
                ),
                Dialect::Sqlite | Dialect::Postgres => format!(
                    "DELETE FROM {name} USING {} AS {alias} WHERE {join} AND {condition}",
                    source.name
                ),
            };
        }
        let condition = self.target_condition(table);
        let returning = self.returning(table, true);
        format!("DELETE FROM {name}{condition}{returning}")
    }

    fn merge(&mut self, table: &Table) -> String {
        let name = table.name;
        let index = self.choices.below(3);
        let source = self.world.tables[index].clone();
        self.capped |= source.cap.is_some();
        let columns = self.assigned(table);
        let assigned = self.assignments(table, &columns).join(", ");
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        let theirs = plain(&source, "y");
        let values: Vec<String> = columns
            .iter()
            .map(|column| match column.name {
                "id" => "y.id + 400".to_owned(),
                "org" | "grp" if self.choices.chance(30) => self
                    .column(column.kind, &theirs)
                    .unwrap_or_else(|| self.new_value(table, column)),
                _ => self.new_value(table, column),
            })
            .collect();
        // Over a filtered table it is refused by name.
        if matches!(table.filter, Filter::All) {
            self.note("MERGE");
        }
        let matched = if self.choices.chance(60) {
            format!("UPDATE SET {assigned}")
        } else {
            "DELETE".to_owned()
        };
        let mut scope = plain(table, name);
        scope.extend(theirs.iter().cloned());
        let on = match self.choices.below(6) {
            0 | 1 => format!("{name}.id = y.id AND {}", self.predicate(&scope, 2)),
            // Rows of the target by what they hold, once each.
            2 | 3 => format!("{} AND y.id = 1", self.comparison(&plain(table, name))),
            _ => format!("{name}.id = y.id"),
        };
        let further = match self.choices.below(5) {
            0 | 1 => format!(" AND {}", self.comparison(&scope)),
            2 => format!(" AND {}", self.predicate(&scope, 2)),
            _ => String::new(),
        };
        let last = match (further.is_empty(), self.choices.below(3)) {
            (false, 0) => " WHEN MATCHED THEN DO NOTHING",
            (false, 1) => " WHEN MATCHED THEN DELETE",
            _ => "",
        };
        let unmatched = match self.choices.chance(25) {
            true => format!(" AND {}", self.predicate(&theirs, 2)),
            false => String::new(),
        };
        format!(
            "MERGE INTO {name} USING {} AS y ON {on} WHEN MATCHED{further} THEN {matched}{last} \
             WHEN NOT MATCHED{unmatched} THEN INSERT ({}) VALUES ({})",
            source.name,
            names.join(", "),
            values.join(", ")
        )
    }

    fn replace(&mut self, table: &Table) -> String {
        let columns = self.assigned(table);
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        let meets = self.choices.chance(50);
        let values: Vec<String> = columns
            .iter()
            .map(|column| match column.name {
                "id" if meets => {
                    let id = self.number(1, 6);
                    self.placed(&id)
                }
                _ => self.new_value(table, column),
            })
            .collect();
        self.note("REPLACE");
        if table.filter != Filter::All {
            self.note("REPLACE of a filtered table");
        }
        format!(
            "REPLACE INTO {} ({}) VALUES ({})",
            table.name,
            names.join(", "),
            values.join(", ")
        )
    }

    /// RETURNING of a statement that names two tables: of the target alone, for which row of the other goes with
    /// it is not said.
    fn returning_of(&mut self, table: &Table) -> String {
        if !self.choices.chance(30) {
            return String::new();
        }
        let scope = plain(table, table.name);
        let kind = Kind::ALL[self.choices.below(2)];
        match self.column(kind, &scope) {
            Some(item) => format!(" RETURNING {item}"),
            None => String::new(),
        }
    }

    fn returning(&mut self, table: &Table, exists: bool) -> String {
        if !exists || !self.choices.chance(30) {
            return String::new();
        }
        let scope: Vec<Named> = plain(table, table.name)
            .into_iter()
            .map(|named| Named {
                text: named
                    .text
                    .split('.')
                    .next_back()
                    .unwrap_or_default()
                    .to_owned(),
                ..named
            })
            .collect();
        let kind = Kind::ALL[self.choices.below(2)];
        let item = self.column(kind, &scope).unwrap_or("id".to_owned());
        self.note("RETURNING");
        match self.choices.below(4) {
            0 => format!(" RETURNING id, {item}"),
            1 => format!(" RETURNING {item}"),
            2 => {
                self.note("RETURNING an expression");
                format!(" RETURNING id, {} AS k", self.own_expr(kind, &scope))
            }
            _ => " RETURNING *".to_owned(),
        }
    }
}

/// The columns of `table` that may be read as they are.
fn plain(table: &Table, qualifier: &str) -> Vec<Named> {
    table
        .columns
        .iter()
        .filter(|column| column.level == Level::Plain)
        .map(|column| Named {
            text: format!("{qualifier}.{}", column.name),
            kind: column.kind,
        })
        .collect()
}
