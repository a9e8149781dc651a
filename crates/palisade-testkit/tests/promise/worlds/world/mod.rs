//! Generated schemas and policies, and two databases that differ only in what may not be seen.

mod rows;
pub(crate) mod structure;
mod views;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use palisade::dialect::Dialect;

use self::structure::{OnDelete, Reference, Trigger};
use crate::worlds::{
    cells::{Cell, Kind, Mask, Renaming},
    choices::Choices,
};

/// Ids of rows that may not be seen begin here, so that no statement meets them by chance through a key:
/// outcomes of keys over such rows are outside the promise.
const HIDDEN_IDS: i64 = 100_000;

/// Rows of the table over which statements fail: where `k` is 1 and `t` is no pattern and no JSON.
const SPOILT_ROWS: u32 = 20;

/// How much of a column may be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Plain,
    Masked(Mask),
    /// What is read is a token, of the domain with this number.
    Token(u8),
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
    /// Of a generated column, which it is computed from.
    pub(crate) generated: Option<usize>,
    /// Whether no two rows have the same value.
    pub(crate) unique: bool,
}

impl Column {
    /// What statements see of it.
    pub(crate) fn visible_kind(&self) -> Kind {
        match self.level {
            Level::Token(domain) => Kind::Token(domain),
            Level::Plain | Level::Masked(_) | Level::Hidden => self.kind,
        }
    }
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
    /// How many rows one statement that reads it gives.
    pub(crate) cap: Option<u64>,
    /// What its column `r` references.
    pub(crate) reference: Option<Reference>,
    /// What its changes set off.
    pub(crate) trigger: Option<Trigger>,
    /// Whether its rows are held by partitions, by their ids.
    pub(crate) partitioned: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) query: String,
    pub(crate) columns: Vec<(&'static str, Kind)>,
    /// Whether a table below has a cap on the rows that are read.
    pub(crate) capped: bool,
}

/// Which of the tables triggers write to.
pub(crate) const JOURNAL: usize = 4;

pub(crate) type Row = Vec<Cell>;

/// Tables, views, policies, and the rows of two databases.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) dialect: Dialect,
    pub(crate) tables: Vec<Table>,
    pub(crate) views: Vec<View>,
    indexes: Vec<String>,
    /// Of each domain of tokens, what the values of one database are in the other.
    pub(crate) renamings: BTreeMap<u8, Renaming>,
    /// Of each database the rows of each table.
    pub(crate) rows: [Vec<Vec<Row>>; 2],
    /// Whether most rows may not be seen, as many in one database as in the other, planners know what they hold, and
    /// statements fail over a table beside.
    pub(crate) crowded: bool,
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

    /// The collation of a text column. Policies compare bytes under every collation, so the column of a filter has a
    /// collation that ignores case. Elsewhere an answer could depend on which of two equal texts the engine reads first.
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

    /// Whether two rows look the same, but for their tokens.
    fn alike(&self, one: &[Cell], other: &[Cell]) -> bool {
        let cells = one.iter().zip(other);
        self.columns
            .iter()
            .zip(cells)
            .all(|(column, (one, other))| match column.level {
                Level::Plain => one == other,
                Level::Masked(mask) => mask.apply(one) == mask.apply(other),
                Level::Hidden | Level::Token(_) => true,
            })
    }
}

impl World {
    /// The world that `choices` stand for.
    pub(crate) fn new(dialect: Dialect, choices: &mut Choices<'_>) -> Self {
        Self::generate(dialect, false, choices)
    }

    /// One whose databases differ in the values of many rows that may not be seen, and not in their number.
    pub(crate) fn crowded(dialect: Dialect, choices: &mut Choices<'_>) -> Self {
        Self::generate(dialect, true, choices)
    }

    fn generate(dialect: Dialect, crowded: bool, choices: &mut Choices<'_>) -> Self {
        let mut tables: Vec<Table> = (0..3)
            .zip(["t0", "t1", "t2"])
            .map(|(index, name)| table(index, name, dialect, choices))
            .collect();
        structure::add(&mut tables, dialect, choices);
        tables.push(Table {
            selectable: false,
            filter: Filter::Nothing,
            cap: None,
            ..table(3, "vault", dialect, choices)
        });
        tables.push(structure::journal());
        let domains: BTreeSet<u8> = tables
            .iter()
            .flat_map(|table| &table.columns)
            .filter_map(|column| match column.level {
                Level::Token(domain) => Some(domain),
                Level::Plain | Level::Masked(_) | Level::Hidden => None,
            })
            .collect();
        let renamings: BTreeMap<u8, Renaming> = domains
            .into_iter()
            .map(|domain| (domain, Renaming::new(said, choices)))
            .collect();
        let mut views = vec![
            views::plain_view("v0", &tables[0], choices),
            views::joined_view("v1", &tables[1], &tables[0]),
            views::grouped_view("v2", &tables[choices.below(3)]),
        ];
        views.push(views::over_views("v3", &views));
        let mut indexes = Vec::new();
        for table in &tables {
            for column in &table.columns {
                // The order of an index over a column that is not shown may be that of the rows.
                if column.level == Level::Plain && choices.chance(if crowded { 60 } else { 20 }) {
                    let (table, column) = (table.name, column.name);
                    indexes.push(format!(
                        "CREATE INDEX {table}_{column} ON {table} ({column})"
                    ));
                }
            }
        }
        let mut rows = [Vec::new(), Vec::new()];
        for table in &tables {
            let [one, other] = match table.name {
                "journal" => [Vec::new(), Vec::new()],
                _ => rows::twins(table, &rows, &renamings, crowded, choices),
            };
            rows[0].push(one);
            rows[1].push(other);
        }
        Self {
            dialect,
            tables,
            views,
            indexes,
            renamings,
            rows,
            crowded,
        }
    }

    /// The cells that the tokens of a domain stand for, as table, column and id of a row that may be seen.
    pub(crate) fn tokens(&self, domain: u8) -> Vec<(usize, usize, i64)> {
        let mut out = Vec::new();
        for (index, table) in self.tables.iter().enumerate() {
            for row in self.rows[0][index].iter().filter(|row| table.shows(row)) {
                for (at, column) in table.columns.iter().enumerate() {
                    if let (Cell::Int(id), true) = (&row[0], column.level == Level::Token(domain))
                        && table.selectable
                        && row[at] != Cell::Null
                    {
                        out.push((index, at, *id));
                    }
                }
            }
        }
        out
    }

    /// The same with a key for each table whose rows all have an id of their own.
    pub(crate) fn with_keys(mut self) -> Self {
        for (index, table) in self.tables.iter_mut().enumerate() {
            let has_ids = |rows: &Vec<Row>| {
                let ids: BTreeSet<&Cell> = rows.iter().map(|row| &row[0]).collect();
                ids.len() == rows.len() && !ids.contains(&Cell::Null)
            };
            // Triggers write what they like into the journal.
            if index != JOURNAL && self.rows.iter().all(|tables| has_ids(&tables[index])) {
                table.keyed = true;
                table.columns[0].nullable = false;
            }
        }
        self
    }

    /// The statements that make the schema.
    pub(crate) fn schema(&self) -> Vec<String> {
        let mut out = Vec::new();
        for table in &self.tables {
            let mut columns: Vec<String> = table
                .columns
                .iter()
                .map(|column| self.defined(table, column))
                .collect();
            if let Some(reference) = &table.reference {
                columns.push(reference.constraint(self.tables[reference.parent].name));
            }
            let partition = match table.partitioned {
                true => " PARTITION BY RANGE (id)",
                false => "",
            };
            out.push(format!(
                "CREATE TABLE {} ({}){partition}",
                table.name,
                columns.join(", ")
            ));
            if table.partitioned {
                out.extend(structure::partitions(table.name));
            }
        }
        for view in &self.views {
            out.push(format!("CREATE VIEW {} AS {}", view.name, view.query));
        }
        for table in &self.tables {
            if let Some(trigger) = &table.trigger {
                out.extend(trigger.created(table, self.dialect));
            }
        }
        out.extend(self.indexes.iter().cloned());
        if self.crowded {
            let rows: Vec<String> = (1..=SPOILT_ROWS)
                .map(|n| format!("({n}, {n}, '{}')", if n == 1 { "(" } else { "n" }))
                .collect();
            out.push("CREATE TABLE spoilt (id int NOT NULL PRIMARY KEY, k int NOT NULL, t varchar(10) NOT NULL)".to_owned());
            out.push(format!("INSERT INTO spoilt VALUES {}", rows.join(", ")));
        }
        out
    }

    /// The statements by which planners learn what filled tables hold.
    fn analysis(&self) -> Vec<String> {
        match (self.crowded, self.dialect) {
            (false, _) => Vec::new(),
            (true, Dialect::Sqlite | Dialect::Postgres) => vec!["ANALYZE".to_owned()],
            (true, Dialect::Mysql) => {
                let names = self.tables.iter().map(|table| table.name);
                let names: Vec<&str> = names.chain(["spoilt"]).collect();
                vec![format!(
                    "ANALYZE TABLE {} PERSISTENT FOR ALL",
                    names.join(", ")
                )]
            }
        }
    }

    fn defined(&self, table: &Table, column: &Column) -> String {
        let mut text = format!("{} {}", column.name, column.kind.declared(self.dialect));
        if column.kind == Kind::Text {
            text.push_str(table.collation(column.name, self.dialect));
        }
        // What policy admits, mostly, where nothing is said.
        match (table.filter, column.name) {
            (Filter::Org(value) | Filter::OrgAtLength(value), "org") if table.keyed => {
                text.push_str(&format!(" DEFAULT {value}"));
            }
            (Filter::Group(value), "grp") if table.keyed => {
                text.push_str(&format!(" DEFAULT '{value}'"));
            }
            _ => {}
        }
        if let Some(source) = column.generated {
            let source = &table.columns[source];
            text.push_str(&structure::generation(source, self.dialect));
        } else if table.keyed && column.name == "id" {
            text.push_str(" NOT NULL PRIMARY KEY");
        } else if column.unique {
            text.push_str(" UNIQUE");
        } else if !column.nullable {
            text.push_str(" NOT NULL");
        }
        text
    }

    /// The statements that fill the tables of one of the databases, after they were emptied.
    pub(crate) fn fill(&self, database: usize) -> Vec<String> {
        let mut out = self.emptied();
        for (table, rows) in self.tables.iter().zip(&self.rows[database]) {
            if rows.is_empty() {
                continue;
            }
            let is_stored = |index: &usize| table.columns[*index].generated.is_none();
            let stored: Vec<usize> = (0..table.columns.len()).filter(is_stored).collect();
            let names: Vec<&str> = stored.iter().map(|at| table.columns[*at].name).collect();
            let rows: Vec<String> = rows
                .iter()
                .map(|row| {
                    let cells: Vec<String> = stored.iter().map(|at| row[*at].literal()).collect();
                    format!("({})", cells.join(", "))
                })
                .collect();
            out.push(format!(
                "INSERT INTO {} ({}) VALUES {}",
                table.name,
                names.join(", "),
                rows.join(", ")
            ));
        }
        // Triggers wrote into it.
        out.push("DELETE FROM journal".to_owned());
        out.extend(self.analysis());
        out
    }

    /// The statements that empty the tables. Where planners know what the tables hold, nothing is left of rows that were there: they
    /// would count it.
    fn emptied(&self) -> Vec<String> {
        let names = self.tables.iter().map(|table| table.name);
        match (self.crowded, self.dialect) {
            (true, Dialect::Postgres) => {
                vec![format!("TRUNCATE {}", names.collect::<Vec<_>>().join(", "))]
            }
            (true, Dialect::Mysql) => {
                let mut out = vec!["SET foreign_key_checks = 0".to_owned()];
                out.extend(names.map(|name| format!("TRUNCATE TABLE {name}")));
                out.push("SET foreign_key_checks = 1".to_owned());
                out
            }
            // Tables reference those before them.
            (true, Dialect::Sqlite) | (false, _) => names
                .rev()
                .map(|name| format!("DELETE FROM {name}"))
                .collect(),
        }
    }

    /// The tables whose rows a change of one of them may change, itself among them.
    pub(crate) fn reached(&self, target: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::from([target]);
        // Tables reference those before them.
        for (index, table) in self.tables.iter().enumerate() {
            let follows = table.reference.as_ref().is_some_and(|reference| {
                reference.on_delete != OnDelete::Refuse && reached.contains(&reference.parent)
            });
            if follows {
                reached.insert(index);
            }
        }
        if reached
            .iter()
            .any(|index| self.tables[*index].trigger.is_some())
        {
            reached.insert(JOURNAL);
        }
        reached
    }

    /// The policies as they were for who took a change for one of `target` alone: what it sets off is permitted.
    pub(crate) fn policies_of_target(&self, target: usize, schema: &str) -> String {
        let mut others = self.clone();
        for (index, table) in others.tables.iter_mut().enumerate() {
            if let Some(trigger) = &mut table.trigger {
                trigger.permitted = true;
            }
            if index != target && table.selectable {
                table.filter = Filter::All;
                for column in &mut table.columns {
                    column.level = Level::Plain;
                    column.assignable = true;
                }
            }
        }
        others.policies(schema)
    }

    /// The policies, for unqualified names of `schema`.
    pub(crate) fn policies(&self, schema: &str) -> String {
        let mut out = "permit(principal, action, resource);\n".to_owned();
        for table in &self.tables {
            table.policies(schema, &mut out).unwrap();
            if let Some(trigger) = table.trigger.as_ref().filter(|trigger| trigger.permitted) {
                out.push_str(&trigger.permit(table, schema));
            }
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
            // It is what it is computed from that policies keep.
            if column.generated.is_some() {
                continue;
            }
            let uid = format!("Column::\"{schema}.{name}.{}\"", column.name);
            match column.level {
                Level::Plain => {}
                Level::Hidden => writeln!(
                    out,
                    "forbid(principal, action in Action::\"read\", resource == {uid});"
                )?,
                Level::Masked(mask) => writeln!(
                    out,
                    "{}\nforbid(principal, action == Action::\"read_plain\", resource == {uid});",
                    mask.annotation()
                )?,
                Level::Token(domain) => writeln!(
                    out,
                    "forbid(principal, action == Action::\"read_plain\", resource == {uid});\n\
                     {}permit(principal, action == Action::\"read_token\", resource == {uid});",
                    match domain {
                        SHARED => "@domain(\"shared\")\n",
                        _ => "",
                    }
                )?,
            }
            if !column.assignable {
                writeln!(
                    out,
                    "forbid(principal, action == Action::\"write\", resource == {uid});"
                )?;
            }
        }
        if let Some(most) = self.cap {
            writeln!(
                out,
                "@max_rows(\"{most}\")\npermit(principal, action == Action::\"select\", \
                 resource == Table::\"{schema}.{name}\");"
            )?;
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

/// The domain of tokens that columns of several tables share.
const SHARED: u8 = 0;

/// Whether tokens of two domains may stand for the same values.
pub(crate) fn stand_for_the_same(one: u8, other: u8) -> bool {
    let kind = |domain: u8| match domain {
        SHARED => None,
        own => Some(COLUMNS[usize::from((own - 1) % 16)].1),
    };
    match (kind(one), kind(other)) {
        (Some(one), Some(other)) => one == other,
        (None, _) | (_, None) => true,
    }
}

/// What filters say of a value, wherever it stands.
fn said(value: &str) -> Vec<bool> {
    let integer: Option<i64> = value.parse().ok();
    vec![
        value.starts_with("eu"),
        value == "eu",
        integer == Some(1),
        integer == Some(2),
        integer == Some(5),
        integer.is_some_and(|integer| integer < 2),
    ]
}

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

fn table(index: u8, name: &'static str, dialect: Dialect, choices: &mut Choices<'_>) -> Table {
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
        generated: None,
        unique: false,
    }];
    for (place, (name, kind)) in (0..).zip(COLUMNS) {
        // What filters look at is always there.
        let needed = matches!(*name, "org" | "grp" | "a");
        if !needed && choices.chance(30) {
            continue;
        }
        let level = match choices.weighted(&[6, 2, 2, 2]) {
            0 => Level::Plain,
            1 => Level::Masked(*choices.pick(Mask::applicable(*kind, dialect))),
            2 => Level::Hidden,
            _ if choices.chance(50) => Level::Token(SHARED),
            _ => Level::Token(1 + 16 * index + place),
        };
        // What is given as tokens cannot be assigned, and is left out of new rows.
        let must_be_null = matches!(level, Level::Token(_));
        columns.push(Column {
            name,
            kind: *kind,
            nullable: choices.chance(60)
                || must_be_null
                || (filter == Filter::NoOrg && *name == "org"),
            level,
            assignable: !choices.chance(8),
            generated: None,
            unique: false,
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
        cap: choices.chance(20).then_some(2),
        reference: None,
        trigger: None,
        partitioned: false,
    }
}
