//! What the columns of a view are called.
//!
//! A dump names every column that is no plain reference. A column without a name gets the engine's name for it,
//! where that is certain. Otherwise the view's columns are not known, and no session can read it.

use crate::{
    cursor::{Cursor, Name},
    lex::{Lexeme, Token},
    postgres::types,
    state::{SchemaState, Typed, column},
};
use palisade::{
    catalog::{ColumnDef, DefaultValue, TypeClass},
    dialect::Dialect,
};

/// How deep queries in queries are looked into.
const MAX_DEPTH: usize = 32;

/// Queries by name, from `WITH`.
type Named = Vec<(String, Vec<ColumnDef>)>;

/// What a query reads: what each part is called, and its columns if they are known.
type Scope = Vec<(String, Option<Vec<ColumnDef>>)>;

const CLAUSES: &[&str] = &[
    "from",
    "where",
    "group by",
    "having",
    "window",
    "union",
    "intersect",
    "except",
    "order by",
    "limit",
    "offset",
    "fetch",
    "for update",
    "for share",
    "into",
    "procedure",
];

const JOINS: &[&str] = &[
    "join",
    "inner join",
    "cross join",
    "left join",
    "left outer join",
    "right join",
    "right outer join",
    "full join",
    "full outer join",
    "straight_join",
];

/// The columns that `query` gives; none if they are not certain.
pub(super) fn columns(query: Cursor<'_>, state: &SchemaState) -> Option<Vec<ColumnDef>> {
    let names = Query {
        state,
        named: Vec::new(),
    };
    let mut columns = names.columns(query, 0)?;
    for column in &mut columns {
        // What a query gives is computed from nothing else, and can be NULL.
        (column.generated, column.stored, column.nullable) = (None, false, true);
        column.filled = DefaultValue::Unknown;
    }
    Some(columns)
}

struct Query<'d> {
    state: &'d SchemaState,
    named: Named,
}

impl Query<'_> {
    fn columns(&self, query: Cursor<'_>, depth: usize) -> Option<Vec<ColumnDef>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut query = query;
        if query.eat("with") {
            return self.with(query, depth);
        }
        if query.sees("(") {
            return self.columns(query.group().ok()?, depth + 1);
        }
        if query.eat("table") {
            return self.relation_columns(&query.name().ok()?);
        }
        if query.eat("values") {
            query.eat("row");
            let count = query.group().ok()?.parts().len();
            let name = |i: usize| match self.state.dialect {
                Dialect::Mysql => format!("column_{i}"),
                Dialect::Postgres | Dialect::Sqlite => format!("column{}", i + 1),
            };
            return Some(
                (0..count)
                    .map(|i| column(name(i), Typed::unknown()))
                    .collect(),
            );
        }
        if !query.eat("select") {
            return None;
        }
        if query.eat("distinct") && query.eat("on") {
            query.group().ok()?;
        }
        while query
            .eat_any(&[
                "all",
                "distinctrow",
                "straight_join",
                "sql_no_cache",
                "sql_calc_found_rows",
            ])
            .is_some()
        {}
        let items = items(&mut query);
        let scope = if query.eat("from") {
            self.scope(query.until(CLAUSES.get(1..)?), depth)
        } else {
            Some(Vec::new())
        };
        let mut columns = Vec::new();
        for item in items.parts() {
            self.item(item, scope.as_ref(), &mut columns)?;
        }
        Some(columns)
    }

    fn with(&self, query: Cursor<'_>, depth: usize) -> Option<Vec<ColumnDef>> {
        let mut query = query;
        let mut inner = Query {
            state: self.state,
            named: self.named.clone(),
        };
        query.eat("recursive");
        loop {
            let name = query.ident().ok()?;
            let names = if query.sees("(") {
                Some(query.group().ok()?.idents().ok()?)
            } else {
                None
            };
            query.expect("as").ok()?;
            query.eat_any(&["not materialized", "materialized"]);
            let body = query.group().ok()?;
            let columns = match names {
                Some(names) => {
                    let known = inner.columns(body, depth + 1);
                    rename(known, names)?
                }
                None => inner.columns(body, depth + 1)?,
            };
            let columns = with_marks(&mut query, columns)?;
            inner.named.push((name, columns));
            if !query.eat(",") {
                return inner.columns(query, depth + 1);
            }
        }
    }

    fn relation_columns(&self, name: &Name) -> Option<Vec<ColumnDef>> {
        if name.schema.is_none()
            && let Some((_, columns)) = self.named.iter().rev().find(|(n, _)| *n == name.name)
        {
            return Some(columns.clone());
        }
        let columns = &self.state.relation(name)?.def.columns;
        Some(columns.clone())
    }

    fn item(
        &self,
        item: Cursor<'_>,
        scope: Option<&Scope>,
        columns: &mut Vec<ColumnDef>,
    ) -> Option<()> {
        if item.sees("*") && item.len() == 1 {
            for (_, part) in scope? {
                columns.extend(part.clone()?);
            }
            return Some(());
        }
        let mut reference = item;
        if let Some(path) = path(&mut reference)
            && reference.eat(". *")
            && reference.is_empty()
        {
            let mut parts = scope?.iter().filter(|(name, _)| Some(name) == path.last());
            let (_, part) = parts.next()?;
            columns.extend(part.clone()?);
            return parts.next().is_none().then_some(());
        }
        let (body, alias) = alias(item)?;
        let mut made = self.item_type(body, scope);
        made.name = match alias {
            Some(alias) => alias,
            None => self.engine_name(body)?,
        };
        columns.push(made);
        Some(())
    }

    /// What the engine calls a column that the query does not name.
    fn engine_name(&self, item: Cursor<'_>) -> Option<String> {
        let mut body = item;
        if let Some(mut path) = path(&mut body)
            && body.is_empty()
        {
            return path.pop();
        }
        match self.state.dialect {
            Dialect::Mysql => Some(item.written().to_owned()),
            Dialect::Sqlite => None,
            Dialect::Postgres => {
                let mut body = item;
                let mut name = path(&mut body)?;
                // A call; whatever else follows may be an operator, whose result has another name.
                body.group().ok()?;
                (body.is_empty() && !item.sees("cast") && !item.sees("row"))
                    .then(|| name.pop())
                    .flatten()
            }
        }
    }

    /// The type of what an item gives, where it is a column or a cast.
    fn item_type(&self, item: Cursor<'_>, scope: Option<&Scope>) -> ColumnDef {
        let unknown = column("", Typed::unknown());
        let mut rest = item;
        if let Some(path) = path(&mut rest)
            && rest.is_empty()
        {
            return self.referenced_column(&path, scope).unwrap_or(unknown);
        }
        if self.state.dialect != Dialect::Postgres {
            return unknown;
        }
        if item.sees("count (") {
            let mut call = item;
            call.bump();
            if call.group().is_ok() && call.is_empty() {
                let name = "bigint".to_owned();
                let class = TypeClass::Integer;
                return column("", Typed { name, class });
            }
        }
        let mut rest = item;
        rest.until(&["::"]);
        if rest.eat("::")
            && let Ok(declared) = types::parse_type(&mut rest, self.state)
            && rest.is_empty()
        {
            return column("", declared.typed);
        }
        unknown
    }

    fn referenced_column(&self, path: &[String], scope: Option<&Scope>) -> Option<ColumnDef> {
        let (name, qualifiers) = path.split_last()?;
        let mut found = None;
        for (part, columns) in scope? {
            if qualifiers.last().is_some_and(|wanted| wanted != part) {
                continue;
            }
            let key = self.state.dialect.fold(name);
            let hit = columns
                .as_ref()?
                .iter()
                .find(|c| self.state.dialect.fold(&c.name) == key);
            if let Some(hit) = hit
                && found.replace(hit.clone()).is_some()
            {
                return None;
            }
        }
        found
    }

    /// What stands in FROM; none if that is not certain.
    fn scope(&self, from: Cursor<'_>, depth: usize) -> Option<Scope> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut scope = Vec::new();
        for mut part in from.parts() {
            self.primary(&mut part, depth, &mut scope)?;
            while !part.is_empty() {
                part.eat_any(JOINS)?;
                self.primary(&mut part, depth, &mut scope)?;
                if part.eat("on") {
                    part.until(JOINS);
                }
                // USING and NATURAL merge columns, and are not followed.
            }
        }
        Some(scope)
    }

    fn primary(&self, part: &mut Cursor<'_>, depth: usize, scope: &mut Scope) -> Option<()> {
        part.eat("lateral");
        part.eat("only");
        let (mut columns, own);
        if part.sees("(") {
            let group = part.group().ok()?;
            let query = ["select", "with", "values", "table", "("];
            if !query.iter().any(|word| group.sees(word)) || {
                // `((a JOIN b) JOIN c)`
                let mut inner = group;
                inner.sees("(") && {
                    inner.group().ok()?;
                    JOINS.iter().any(|join| inner.sees(join))
                }
            } {
                scope.extend(self.scope(group, depth + 1)?);
                return Some(());
            }
            columns = self.columns(group, depth + 1);
            own = None;
        } else {
            let name = part.name().ok()?;
            if part.sees("(") {
                part.group().ok()?;
                part.eat("with ordinality");
                columns = None;
            } else {
                columns = self.relation_columns(&name);
            }
            own = Some(name.name);
            part.eat("*");
        }
        let alias = if part.eat("as") || part.sees_name() && !ends_primary(part) {
            Some(part.ident().ok()?)
        } else {
            None
        };
        if part.sees("(") {
            columns = match part.group().ok()?.idents() {
                Ok(names) => rename(columns, names),
                Err(_) => None,
            };
        }
        scope.push((alias.or(own)?, columns));
        Some(())
    }
}

/// The columns that SEARCH and CYCLE add to a recursive query's own.
fn with_marks(query: &mut Cursor<'_>, mut columns: Vec<ColumnDef>) -> Option<Vec<ColumnDef>> {
    let mut mark = |name| columns.push(column(name, Typed::unknown()));
    if query
        .eat_any(&["search depth first by", "search breadth first by"])
        .is_some()
    {
        query.until(&["set"]);
        query.expect("set").ok()?;
        mark(query.ident().ok()?);
    }
    if query.eat("cycle") {
        query.until(&["set"]);
        query.expect("set").ok()?;
        mark(query.ident().ok()?);
        query.until(&["using"]);
        query.expect("using").ok()?;
        mark(query.ident().ok()?);
    }
    Some(columns)
}

/// Whether the word that comes next belongs to the join.
fn ends_primary(part: &Cursor<'_>) -> bool {
    part.sees("on")
        || [
            "using",
            "natural",
            "tablesample",
            "use",
            "force",
            "ignore",
            "partition",
        ]
        .iter()
        .any(|word| part.sees(word))
        || JOINS.iter().any(|join| part.sees(join))
}

/// The first columns get these names; if the columns are not known, these are all.
fn rename(columns: Option<Vec<ColumnDef>>, names: Vec<String>) -> Option<Vec<ColumnDef>> {
    let Some(mut columns) = columns else {
        let unknown = |name| column(name, Typed::unknown());
        return Some(names.into_iter().map(unknown).collect());
    };
    if names.len() > columns.len() {
        return None;
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = name;
    }
    Some(columns)
}

/// Takes the list of what a query gives.
fn items<'t>(query: &mut Cursor<'t>) -> Cursor<'t> {
    let all = *query;
    let mut taken = 0;
    loop {
        let before = taken;
        taken += query.until(CLAUSES).len();
        // `a IS DISTINCT FROM b`
        let distinct = all.prefix(taken).last().is_some_and(|token| {
            token.lexeme == Lexeme::Word && all.spell_token(token).eq_ignore_ascii_case("distinct")
        });
        if query.is_empty() || !distinct || taken == before {
            return all.prefix(taken);
        }
        query.bump();
        taken += 1;
    }
}

/// Takes names with dots between them.
fn path(cursor: &mut Cursor<'_>) -> Option<Vec<String>> {
    let mut path = vec![cursor.ident().ok()?];
    while cursor.sees(".") && !cursor.sees(". *") {
        cursor.bump();
        path.push(cursor.ident().ok()?);
    }
    Some(path)
}

/// What an item gives, and the name the query gives it. None if it is not certain whether it has one.
fn alias<'t>(item: Cursor<'t>) -> Option<(Cursor<'t>, Option<String>)> {
    let mut rest = item;
    let body = rest.until(&["as"]);
    if rest.eat("as") {
        let name = rest.ident().ok()?;
        return rest.is_empty().then_some((body, Some(name)));
    }
    let count = item.len();
    let last = item.last()?;
    let name = match &last.lexeme {
        Lexeme::Word | Lexeme::Quoted(_) if count > 1 => last,
        _ => return Some((item, None)),
    };
    let body = item.prefix(count - 1);
    let previous = body.last()?;
    let ends_value = match &previous.lexeme {
        Lexeme::Quoted(_) | Lexeme::Text | Lexeme::Number => true,
        Lexeme::Word => !continues(item.spell_token(previous)),
        Lexeme::Symbol => matches!(item.spell_token(previous), ")" | "]"),
    };
    if !ends_value {
        return Some((item, None));
    }
    if is_end(&item, name) {
        return Some((item, None));
    }
    let mut only = item;
    for _ in 0..count - 1 {
        only.bump();
    }
    Some((body, Some(only.ident().ok()?)))
}

/// Words after which an expression goes on.
fn continues(word: &str) -> bool {
    [
        "is", "not", "and", "or", "like", "ilike", "in", "between", "collate", "zone", "to",
        "over", "div", "mod", "then", "else", "when", "case", "xor", "regexp", "rlike", "distinct",
        "from", "similar", "interval", "binary",
    ]
    .iter()
    .any(|known| word.eq_ignore_ascii_case(known))
}

/// Words that end an expression and are no names.
fn is_end(item: &Cursor<'_>, token: &Token) -> bool {
    token.lexeme == Lexeme::Word
        && [
            "null",
            "end",
            "true",
            "false",
            "unknown",
            "precision",
            "zone",
            "varying",
        ]
        .iter()
        .any(|known| item.spell_token(token).eq_ignore_ascii_case(known))
}
