//! Generated schemas and policies, and two databases that differ only in what may not be seen.

use std::fmt::Write as _;

use palisade::dialect::Dialect;

use crate::{
    cells::{Cell, Kind, Mask},
    choices::Choices,
};

/// Ids of rows that may not be seen begin here, so that no statement meets them by chance through a key:
/// outcomes of keys over such rows are outside the promise.
const HIDDEN_IDS: i64 = 100_000;

/// How much of a column may be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Plain,
    Masked(Mask),
    Hidden,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) nullable: bool,
    pub(crate) level: Level,
    /// Whether policy lets it be assigned.
    pub(crate) assignable: bool,
}

/// Which rows may be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filter {
    All,
    /// `org` is this.
    Org(i64),
    /// `org` is this, said at such length that a planner would try it after most other conditions.
    OrgAtLength(i64),
    /// `org` is one of these.
    OrgOneOf(&'static [i64]),
    /// `org` is NULL or not this.
    NotOrg(i64),
    /// `org` is below this.
    OrgBelow(i64),
    /// `grp` is this, to the byte.
    Group(&'static str),
    /// `grp` begins so.
    GroupBegins(&'static str),
    /// `org` is the one, or `grp` is the other.
    Either(i64, &'static str),
    /// `org` is NULL.
    NoOrg,
    /// No row.
    Nothing,
}

/// What a filter is said of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Actions {
    /// Seeing, changing and adding.
    All,
    /// Seeing and adding.
    SeeAndAdd,
    /// Seeing alone.
    See,
}

#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The first is `id`.
    pub(crate) columns: Vec<Column>,
    /// Whether `id` is its key.
    pub(crate) keyed: bool,
    pub(crate) filter: Filter,
    pub(crate) actions: Actions,
    /// Whether it may be read at all.
    pub(crate) selectable: bool,
    /// How many rows one UPDATE or DELETE may reach.
    pub(crate) max_rows: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) query: String,
    pub(crate) columns: Vec<(&'static str, Kind)>,
}

pub(crate) type Row = Vec<Cell>;

/// Tables, views, policies, and the rows of two databases.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) dialect: Dialect,
    pub(crate) tables: Vec<Table>,
    pub(crate) views: Vec<View>,
    indexes: Vec<String>,
    /// Of each database the rows of each table.
    pub(crate) rows: [Vec<Vec<Row>>; 2],
}

impl Table {
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Whether `row` may be seen.
    pub(crate) fn shows(&self, row: &[Cell]) -> bool {
        let cell = |name: &str| self.position(name).map_or(&Cell::Null, |index| &row[index]);
        let (org, grp) = (cell("org"), cell("grp"));
        let text = |value: &str| Cell::Text(value.to_owned());
        match self.filter {
            Filter::All => true,
            Filter::Org(value) | Filter::OrgAtLength(value) => *org == Cell::Int(value),
            Filter::OrgOneOf(values) => values.iter().any(|value| *org == Cell::Int(*value)),
            Filter::NotOrg(value) => *org != Cell::Int(value),
            Filter::OrgBelow(bound) => matches!(org, Cell::Int(value) if *value < bound),
            Filter::Group(value) => *grp == text(value),
            Filter::GroupBegins(start) => {
                matches!(grp, Cell::Text(value) if value.starts_with(start))
            }
            Filter::Either(value, group) => *org == Cell::Int(value) || *grp == text(group),
            Filter::NoOrg => *org == Cell::Null,
            Filter::Nothing => false,
        }
    }

    /// The collation of a text column. Policies compare bytes whatever it is, so the column of a filter has one
    /// that does not; elsewhere an answer could depend on which of two equal texts the engine meets first.
    fn collation(&self, column: &str, dialect: Dialect) -> &'static str {
        let loose =
            column == "grp" && matches!(self.filter, Filter::Group(_) | Filter::GroupBegins(_));
        match (dialect, loose) {
            (Dialect::Sqlite, true) => " COLLATE NOCASE",
            (Dialect::Mysql, true) => " COLLATE utf8mb4_general_ci",
            (Dialect::Mysql, false) => " COLLATE utf8mb4_bin",
            (Dialect::Sqlite, false) | (Dialect::Postgres, _) => "",
        }
    }

    /// Whether two rows look the same.
    fn alike(&self, one: &[Cell], other: &[Cell]) -> bool {
        let cells = one.iter().zip(other);
        self.columns
            .iter()
            .zip(cells)
            .all(|(column, (one, other))| match column.level {
                Level::Plain => one == other,
                Level::Masked(mask) => mask.shown(one) == mask.shown(other),
                Level::Hidden => true,
            })
    }
}

impl World {
    /// The world that `choices` stand for.
    pub(crate) fn new(dialect: Dialect, choices: &mut Choices<'_>) -> Self {
        let mut tables = ["t0", "t1", "t2"]
            .map(|name| table(name, dialect, choices))
            .to_vec();
        tables.push(Table {
            selectable: false,
            filter: Filter::Nothing,
            ..table("vault", dialect, choices)
        });
        let views = vec![
            plain_view("v0", &tables[0], choices),
            joined_view("v1", &tables[1], &tables[0]),
            grouped_view("v2", &tables[choices.below(3)]),
        ];
        let mut indexes = Vec::new();
        for table in &tables {
            for column in &table.columns {
                // The order of an index over a column that is not shown may be that of the rows.
                if column.level == Level::Plain && choices.chance(20) {
                    let (table, column) = (table.name, column.name);
                    indexes.push(format!(
                        "CREATE INDEX {table}_{column} ON {table} ({column})"
                    ));
                }
            }
        }
        let mut rows = [Vec::new(), Vec::new()];
        for table in &tables {
            let [one, other] = twins(table, choices);
            rows[0].push(one);
            rows[1].push(other);
        }
        Self {
            dialect,
            tables,
            views,
            indexes,
            rows,
        }
    }

    /// The statements that make the schema.
    pub(crate) fn schema(&self) -> Vec<String> {
        let mut out = Vec::new();
        for table in &self.tables {
            let mut columns = Vec::new();
            for column in &table.columns {
                let mut text = format!("{} {}", column.name, column.kind.declared(self.dialect));
                if column.kind == Kind::Text {
                    text.push_str(table.collation(column.name, self.dialect));
                }
                if table.keyed && column.name == "id" {
                    text.push_str(" NOT NULL PRIMARY KEY");
                } else if !column.nullable {
                    text.push_str(" NOT NULL");
                }
                columns.push(text);
            }
            out.push(format!(
                "CREATE TABLE {} ({})",
                table.name,
                columns.join(", ")
            ));
        }
        for view in &self.views {
            out.push(format!("CREATE VIEW {} AS {}", view.name, view.query));
        }
        out.extend(self.indexes.iter().cloned());
        out
    }

    /// The statements that fill the tables of one of the databases, after they were emptied.
    pub(crate) fn fill(&self, database: usize) -> Vec<String> {
        let mut out = Vec::new();
        for (table, rows) in self.tables.iter().zip(&self.rows[database]) {
            out.push(format!("DELETE FROM {}", table.name));
            if rows.is_empty() {
                continue;
            }
            let rows: Vec<String> = rows
                .iter()
                .map(|row| {
                    let cells: Vec<String> = row.iter().map(Cell::literal).collect();
                    format!("({})", cells.join(", "))
                })
                .collect();
            out.push(format!(
                "INSERT INTO {} VALUES {}",
                table.name,
                rows.join(", ")
            ));
        }
        out
    }

    /// The policies, for unqualified names of `schema`.
    pub(crate) fn policies(&self, schema: &str) -> String {
        let mut out = "permit(principal, action, resource);\n".to_owned();
        for table in &self.tables {
            table.policies(schema, &mut out).unwrap();
        }
        out
    }
}

impl Table {
    fn policies(&self, schema: &str, out: &mut String) -> std::fmt::Result {
        let name = self.name;
        if !self.selectable {
            return writeln!(
                out,
                "forbid(principal, action, resource == Table::\"{schema}.{name}\");"
            );
        }
        for column in &self.columns {
            let uid = format!("Column::\"{schema}.{name}.{}\"", column.name);
            match column.level {
                Level::Plain => {}
                Level::Hidden => writeln!(
                    out,
                    "forbid(principal, action in Action::\"read\", resource == {uid});"
                )?,
                Level::Masked(mask) => writeln!(
                    out,
                    "@mask(\"{}\")\nforbid(principal, action == Action::\"read_plain\", resource == {uid});",
                    mask.written()
                )?,
            }
            if !column.assignable {
                writeln!(
                    out,
                    "forbid(principal, action == Action::\"write\", resource == {uid});"
                )?;
            }
        }
        if let Some(most) = self.max_rows {
            writeln!(
                out,
                "@max_rows(\"{most}\")\npermit(principal, action in [Action::\"update\", Action::\"delete\"], \
                 resource == Table::\"{schema}.{name}\");"
            )?;
        }
        let actions = match self.actions {
            Actions::All => "[Action::\"see\", Action::\"change\", Action::\"add\"]",
            Actions::SeeAndAdd => "[Action::\"see\", Action::\"add\"]",
            Actions::See => "[Action::\"see\"]",
        };
        let guarded = |name: &str, condition: String| match self.position(name) {
            Some(index) if self.columns[index].nullable => {
                format!("resource has {name} && {condition}")
            }
            _ => condition,
        };
        let org = |condition: String| guarded("org", format!("resource.org {condition}"));
        let grp = |condition: String| guarded("grp", format!("resource.grp {condition}"));
        let condition = match self.filter {
            Filter::All => return Ok(()),
            Filter::Org(value) => org(format!("== {value}")),
            Filter::OrgAtLength(value) => {
                let never = [901, 902, 903, 904, 905, 906]
                    .map(|value| format!(" || resource.org == {value}"));
                guarded(
                    "org",
                    format!("(resource.org == {value}{})", never.concat()),
                )
            }
            Filter::OrgOneOf(values) => {
                guarded("org", format!("{values:?}.contains(resource.org)"))
            }
            Filter::NotOrg(value) => {
                let condition = org(format!("== {value}"));
                return writeln!(
                    out,
                    "forbid(principal, action in {actions}, resource is row::{schema}::{name})\nwhen {{ {condition} }};"
                );
            }
            Filter::OrgBelow(bound) => org(format!("< {bound}")),
            Filter::Group(value) => grp(format!("== \"{value}\"")),
            Filter::GroupBegins(start) => grp(format!("like \"{start}*\"")),
            Filter::Either(value, group) => format!(
                "({}) || ({})",
                org(format!("== {value}")),
                grp(format!("== \"{group}\""))
            ),
            Filter::NoOrg => "!(resource has org)".to_owned(),
            Filter::Nothing => "false".to_owned(),
        };
        writeln!(
            out,
            "forbid(principal, action in {actions}, resource is row::{schema}::{name})\nunless {{ {condition} }};"
        )
    }
}

/// The columns that tables have, beside `id`: the same name means the same kind everywhere, so that tables
/// join by their names.
const COLUMNS: &[(&str, Kind)] = &[
    ("org", Kind::Int),
    ("grp", Kind::Text),
    ("a", Kind::Int),
    ("b", Kind::Int),
    ("s", Kind::Text),
    ("u", Kind::Text),
    ("d", Kind::Date),
];

const FILTERS: &[Filter] = &[
    Filter::Org(1),
    Filter::All,
    Filter::OrgOneOf(&[1, 5]),
    Filter::NotOrg(2),
    Filter::OrgBelow(2),
    Filter::Group("eu"),
    Filter::GroupBegins("eu"),
    Filter::Either(1, "eu"),
    Filter::NoOrg,
    Filter::Nothing,
    Filter::OrgAtLength(1),
];

fn table(name: &'static str, dialect: Dialect, choices: &mut Choices<'_>) -> Table {
    let filter = match FILTERS[choices.weighted(&[3, 5, 2, 2, 2, 3, 2, 2, 1, 1, 3])] {
        Filter::NoOrg if choices.chance(50) => Filter::All,
        filter => filter,
    };
    let keyed = choices.chance(40);
    let mut columns = vec![Column {
        name: "id",
        kind: Kind::Int,
        nullable: false,
        level: Level::Plain,
        assignable: true,
    }];
    for (name, kind) in COLUMNS {
        // What filters look at is always there.
        let needed = matches!(*name, "org" | "grp" | "a");
        if !needed && choices.chance(30) {
            continue;
        }
        let level = match choices.weighted(&[6, 2, 2]) {
            0 => Level::Plain,
            1 => Level::Masked(*choices.pick(Mask::of(*kind, dialect))),
            _ => Level::Hidden,
        };
        columns.push(Column {
            name,
            kind: *kind,
            nullable: choices.chance(60) || (filter == Filter::NoOrg && *name == "org"),
            level,
            assignable: !choices.chance(8),
        });
    }
    Table {
        name,
        columns,
        keyed,
        filter,
        actions: [Actions::All, Actions::SeeAndAdd, Actions::See][choices.weighted(&[3, 2, 2])],
        selectable: true,
        max_rows: choices.chance(15).then_some(2),
    }
}

/// Rows of a table in two databases: those that may be seen look the same and stand in the same order, for what
/// depends on that is not promised; those that may not are others, and stand anywhere between them.
fn twins(table: &Table, choices: &mut Choices<'_>) -> [Vec<Row>; 2] {
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for id in 1..=i64::try_from(choices.below(6)).unwrap() {
        let Some(row) = row(table, id, true, choices) else {
            continue;
        };
        other.push(twin(table, &row, choices));
        one.push(row);
    }
    for rows in [&mut one, &mut other] {
        let count = match table.filter {
            Filter::All => 0,
            _ => i64::try_from(choices.below(5)).unwrap(),
        };
        for id in 1..=count {
            let at = choices.below(rows.len() + 1);
            let hidden = row(table, HIDDEN_IDS + id, false, choices);
            rows.splice(at..at, hidden);
        }
    }
    [one, other]
}

/// A row that may be seen, or not; nothing where none is found.
fn row(table: &Table, id: i64, shown: bool, choices: &mut Choices<'_>) -> Option<Row> {
    (0..12).find_map(|_| {
        let mut row: Row = table
            .columns
            .iter()
            .map(|column| Cell::any(column.kind, column.nullable, choices))
            .collect();
        row[0] = Cell::Int(id);
        if shown && choices.chance(80) {
            for (column, cell) in table.columns.iter().zip(&mut row) {
                match (table.filter, column.name) {
                    (Filter::Org(value) | Filter::OrgAtLength(value), "org") => {
                        *cell = Cell::Int(value)
                    }
                    (Filter::Group(value), "grp") => *cell = Cell::Text(value.to_owned()),
                    (Filter::GroupBegins(start), "grp") => *cell = Cell::Text(format!("{start}-1")),
                    _ => {}
                }
            }
        }
        (table.shows(&row) == shown).then_some(row)
    })
}

/// Another row that looks the same.
fn twin(table: &Table, row: &Row, choices: &mut Choices<'_>) -> Row {
    let mut twin = row.clone();
    for (index, column) in table.columns.iter().enumerate().skip(1) {
        if column.level == Level::Plain {
            continue;
        }
        for _ in 0..6 {
            let mut changed = twin.clone();
            changed[index] = Cell::any(column.kind, column.nullable, choices);
            if table.shows(&changed) && table.alike(row, &changed) {
                twin = changed;
                break;
            }
        }
    }
    twin
}

fn plain_view(name: &'static str, table: &Table, choices: &mut Choices<'_>) -> View {
    const NAMES: [&str; 3] = ["x", "y", "z"];
    let mut items = vec!["id".to_owned()];
    let mut columns = vec![("id", Kind::Int)];
    for column in NAMES {
        let source = choices.pick(&table.columns);
        items.push(format!("{} AS {column}", source.name));
        columns.push((column, source.kind));
    }
    let condition = choices.pick(&["", " WHERE a > 0", " WHERE org IS NOT NULL OR a < 3"]);
    View {
        name,
        query: format!("SELECT {} FROM {}{condition}", items.join(", "), table.name),
        columns,
    }
}

fn joined_view(name: &'static str, left: &Table, right: &Table) -> View {
    View {
        name,
        query: format!(
            "SELECT l.id, l.grp AS x, r.grp AS y, r.a AS n FROM {} l LEFT JOIN {} r ON l.a = r.a",
            left.name, right.name
        ),
        columns: vec![
            ("id", Kind::Int),
            ("x", Kind::Text),
            ("y", Kind::Text),
            ("n", Kind::Int),
        ],
    }
}

fn grouped_view(name: &'static str, table: &Table) -> View {
    View {
        name,
        query: format!(
            "SELECT a, count(*) AS n, max(grp) AS x, sum(org) AS y FROM {} GROUP BY a",
            table.name
        ),
        columns: vec![
            ("a", Kind::Int),
            ("n", Kind::Int),
            ("x", Kind::Text),
            ("y", Kind::Int),
        ],
    }
}
