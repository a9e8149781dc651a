//! A catalog made of the names a statement uses: what the firewall misses is added until it misses
//! nothing.

use palisade::{
    catalog::{
        Catalog, CatalogError, ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass,
    },
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
};

/// Relations and columns so far.
pub(crate) struct Derived {
    dialect: Dialect,
    relations: Vec<Guess>,
    /// The column that was missed last, and how many relations have got it since.
    missed: Option<(String, usize)>,
}

struct Guess {
    schema: String,
    name: String,
    columns: Vec<String>,
}

impl Derived {
    /// An empty catalog.
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            relations: Vec::new(),
            missed: None,
        }
    }

    /// The catalog of what there is so far. Columns are text: what a statement compares them with is
    /// not known.
    ///
    /// # Errors
    /// If two names are one.
    pub(crate) fn catalog(&self) -> Result<Catalog, CatalogError> {
        let schema = self.schema();
        let mut builder = Catalog::builder(self.dialect)
            .database(schema)
            .search_path([schema.to_owned()]);
        for guess in &self.relations {
            let columns = guess.columns.iter().map(|name| self.column(name)).collect();
            builder = builder.relation(RelationDef::new(
                guess.schema.clone(),
                guess.name.clone(),
                RelationKind::Table,
                columns,
            ));
        }
        builder.build()
    }

    /// Adds what `rejection` says is missing; false if it says nothing of the kind, or all was tried.
    pub(crate) fn grow(&mut self, rejection: &Rejection, sql: &str) -> bool {
        let Some(name) = quoted_names(rejection.message()) else {
            return false;
        };
        match rejection.code() {
            Code::NameUnknownRelation => self.add_relation(name),
            Code::NameUnknownColumn => self.add_column(name, sql),
            _ => false,
        }
    }

    /// Where relations without a schema are.
    fn schema(&self) -> &'static str {
        match self.dialect {
            Dialect::Sqlite | Dialect::Postgres => self.dialect.default_schema(),
            // The default is one of the engine's own databases.
            Dialect::Mysql => "eval",
        }
    }

    fn add_relation(&mut self, shown: &str) -> bool {
        let parts = parts(shown);
        let (schema, name) = match parts.as_slice() {
            [name] => (self.schema().to_owned(), name.clone()),
            [.., schema, name] => (schema.clone(), name.clone()),
            [] => return false,
        };
        if self
            .relations
            .iter()
            .any(|guess| guess.schema == schema && self.same(&guess.name, &name))
        {
            return false;
        }
        // A relation needs a column, and one that no other relation has.
        let columns = vec![format!("{name}_key")];
        self.relations.push(Guess {
            schema,
            name,
            columns,
        });
        true
    }

    /// Gives the column to one relation after the other: a name that two relations in one FROM have is
    /// ambiguous, and which is in scope is not known.
    fn add_column(&mut self, shown: &str, sql: &str) -> bool {
        let mut parts = parts(shown);
        let Some(column) = parts.pop() else {
            return false;
        };
        if let Some(qualifier) = parts.pop() {
            let named = find_alias(sql, &qualifier).unwrap_or(qualifier);
            let dialect = self.dialect;
            let meant = self
                .relations
                .iter_mut()
                .find(|guess| dialect.fold(&guess.name) == dialect.fold(&named));
            if let Some(guess) = meant
                && !has(dialect, &guess.columns, &column)
            {
                guess.columns.push(column);
                return true;
            }
        }
        let tried = match &self.missed {
            Some((missed, tried)) if missed == shown => *tried,
            Some(_) | None => 0,
        };
        self.missed = Some((shown.to_owned(), tried.saturating_add(1)));
        let dialect = self.dialect;
        match self.relations.get_mut(tried) {
            Some(guess) => {
                if !has(dialect, &guess.columns, &column) {
                    guess.columns.push(column);
                }
                true
            }
            None => false,
        }
    }

    fn column(&self, name: &str) -> ColumnDef {
        let (type_name, collation) = match self.dialect {
            Dialect::Sqlite => ("TEXT", "BINARY"),
            Dialect::Postgres => ("text", ""),
            Dialect::Mysql => ("varchar(255)", ""),
        };
        ColumnDef {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            class: TypeClass::Text,
            nullable: true,
            collation: collation.to_owned(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
        }
    }

    fn same(&self, a: &str, b: &str) -> bool {
        self.dialect.fold(a) == self.dialect.fold(b)
    }
}

fn has(dialect: Dialect, columns: &[String], name: &str) -> bool {
    let key = dialect.fold(name);
    columns.iter().any(|column| dialect.fold(column) == key)
}

/// The first name in backticks of a message.
fn quoted_names(message: &str) -> Option<&str> {
    message.split('`').nth(1).filter(|name| !name.is_empty())
}

/// The parts of a dotted name, quotes undone.
fn parts(shown: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut open = false;
    for c in shown.chars() {
        match c {
            '"' => open = !open,
            '.' if !open => out.push(String::new()),
            c => {
                if let Some(last) = out.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    out.retain(|part| !part.is_empty());
    out
}

/// The relation that `alias` stands for: the name before it, `AS` aside.
fn find_alias(sql: &str, alias: &str) -> Option<String> {
    let words: Vec<&str> = sql
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '`')))
        .filter(|word| !word.is_empty())
        .collect();
    words.iter().enumerate().find_map(|(index, word)| {
        if !word.eq_ignore_ascii_case(alias) {
            return None;
        }
        let mut before = words.get(..index)?.iter().rev();
        let mut named = before.next()?;
        if named.eq_ignore_ascii_case("as") {
            named = before.next()?;
        }
        let opens = before.next()?;
        ["from", "join"]
            .iter()
            .any(|keyword| opens.eq_ignore_ascii_case(keyword))
            .then(|| parts(&named.replace('`', "\"")).pop())
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_found_behind_from_and_join() {
        let sql = "SELECT u.a FROM public.users AS u JOIN `Orders` o ON o.id = u.id";
        assert_eq!(find_alias(sql, "u").as_deref(), Some("users"));
        assert_eq!(find_alias(sql, "o").as_deref(), Some("Orders"));
        assert_eq!(find_alias(sql, "x"), None);
    }

    #[test]
    fn names_come_apart() {
        assert_eq!(parts("a.\"b.c\""), ["a", "b.c"]);
        assert_eq!(
            quoted_names("there is no column `u.id`; did you mean `x`?"),
            Some("u.id")
        );
        assert_eq!(quoted_names("nothing"), None);
    }
}
