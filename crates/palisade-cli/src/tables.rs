//! `palisade tables` and `palisade describe`: what exists for a principal, as the tools of the server tell it.

use palisade::{
    catalog::{Catalog, Relation, RelationKind},
    code::Code,
    firewall::{Firewall, VisibleColumn, VisibleForeignKey, VisibleRelation},
    ident,
    policy::row_type,
    rejection::Rejection,
    session::{Session, Transport},
};
use palisade_mcp::metadata::{self, NameFinding, TableDescription, TableList};
use serde::Serialize;

use crate::{
    answer::Answer,
    args::{DescribeArguments, Format, PolicyArguments, SecretArguments, TablesArguments},
    database::Access,
    database_name::{CatalogSource, Source},
    exit::{Exit, Failure},
    grid::{self, Cell},
    host::now,
    human::{self, Paint},
    setup::Setup,
    standing, statements, stdout, unreadable,
};

/// Lists the tables.
pub(crate) fn list(arguments: &TablesArguments) -> Result<Exit, Failure> {
    let TablesArguments {
        source,
        secret,
        policies,
        format,
    } = arguments;
    let seen = look(source, secret, policies, *format)?;
    match &seen.relations {
        Ok(relations) => print(&metadata::list(relations), *format, |list, paint| {
            format_list(list, seen.firewall.catalog(), paint)
        }),
        Err(rejection) => refuse(rejection, *format),
    }
}

/// Describes one of them.
pub(crate) fn describe(arguments: &DescribeArguments) -> Result<Exit, Failure> {
    let DescribeArguments {
        source,
        table,
        secret,
        policies,
        format,
    } = arguments;
    let seen = look(source, secret, policies, *format)?;
    let catalog = seen.firewall.catalog();
    let described = seen.relations.as_ref().map_err(Clone::clone);
    let described = described.and_then(|relations| {
        metadata::describe(relations, table, catalog.dialect(), catalog.search_path())
    });
    match described {
        Ok(description) => {
            let exit = print(&description, *format, |description, paint| {
                format_description(description, catalog, paint)
            })?;
            if *format == Format::Text {
                stdout::text(&describe_row_type(catalog, &description))?;
            }
            Ok(exit)
        }
        Err(rejection) => {
            let why = explain_absence(&seen.firewall, table);
            let rejection = match (rejection.code(), why) {
                (Code::NameUnknownRelation, Some(why)) => rejection.with_operator_detail(why),
                _ => rejection,
            };
            refuse(&rejection, *format)
        }
    }
}

/// How policies spell the type of a table's rows, where that is not as the table is called; nothing else.
fn describe_row_type(catalog: &Catalog, description: &TableDescription<'_>) -> String {
    let VisibleRelation { schema, name, .. } = &*description.relation;
    let Some(relation) = catalog.find(schema, name) else {
        return String::new();
    };
    let spelled = row_type(relation);
    match spelled == format!("row::{}::{}", relation.policy_schema, relation.key) {
        true => String::new(),
        false => human::label("in policies", &spelled, Paint::for_stdout()),
    }
}

/// Why `table` is not there for a principal though it is in the catalog: for the operator, who asks here.
fn explain_absence(firewall: &Firewall, table: &str) -> Option<String> {
    let catalog = firewall.catalog();
    let is_it = |relation: &&Relation| {
        let key = catalog.dialect().fold(table);
        let whole = format!("{}.{}", relation.schema_key, relation.key);
        *relation.key == *key || *whole == *key || relation.uid == table
    };
    let relation = catalog.relations().iter().find(is_it)?;
    let uid = &relation.uid;
    let unread = firewall.policies().why_unread(relation.id);
    Some(match (unreadable::is_unreadable(relation), unread) {
        (true, _) => format!(
            "`{uid}` is a virtual table or belongs to one, and no policy can permit it; let agents read a table or view that holds the same"
        ),
        (false, Some(why)) => format!(
            "`{uid}` exists, and no statement can read it, since its definition is not understood: {why}"
        ),
        (false, None) => format!("`{uid}` exists; policies do not show it to this principal"),
    })
}

/// What exists for the principal.
struct Seen {
    firewall: Firewall,
    relations: Result<Vec<VisibleRelation>, Rejection>,
}

fn look(
    source: &str,
    secret: &SecretArguments,
    policies: &PolicyArguments,
    format: Format,
) -> Result<Seen, Failure> {
    let source = CatalogSource::Database(Source::argument(source)?);
    let (setup, catalog) = Setup::over_catalog(source, None, secret, policies)?;
    let firewall = setup.firewall(catalog, setup.access(Access::Read)?)?;
    standing::tell(&standing::describe(&firewall, &setup.principal)?);
    statements::note_starter(&setup, format);
    let session = Session::new(setup.principal.clone()).over(Transport::Cli);
    let relations = firewall.relations(&now(&session));
    Ok(Seen {
        firewall,
        relations,
    })
}

fn print<T: Serialize>(
    answer: &T,
    format: Format,
    for_people: impl FnOnce(&T, Paint) -> String,
) -> Result<Exit, Failure> {
    let text = match format {
        Format::Json => {
            let line = serde_json::to_string(answer);
            line.map_err(|error| Failure::Internal(error.to_string()))? + "\n"
        }
        Format::Text => for_people(answer, Paint::for_stdout()),
    };
    stdout::text(&text)?;
    Ok(Exit::Permitted)
}

fn refuse(rejection: &Rejection, format: Format) -> Result<Exit, Failure> {
    let answer = Answer::refused(rejection.clone());
    statements::print(&answer, format)?;
    Ok(answer.exit())
}

/// The kind of a table for people: a client is told of a materialised view as of any other.
fn kind_of<'k>(catalog: &Catalog, (schema, name): (&str, &str), kind: &'k str) -> &'k str {
    match catalog.find(schema, name).map(|relation| relation.kind) {
        Some(RelationKind::Materialized) => "materialised view",
        Some(
            RelationKind::Table | RelationKind::View | RelationKind::Virtual | RelationKind::System,
        )
        | None => kind,
    }
}

fn format_list(list: &TableList<'_>, catalog: &Catalog, paint: Paint) -> String {
    let names = ["schema", "name", "kind", "readable"].map(str::to_owned);
    let row = |listed: &metadata::Listed<'_>| {
        let parts = match listed {
            metadata::Listed::Table(table) => [
                table.schema,
                table.name,
                kind_of(catalog, (table.schema, table.name), table.kind),
                yes_or_no(table.readable),
            ],
            metadata::Listed::Whole(table) => [
                table.schema.as_str(),
                table.name.as_str(),
                kind_of(catalog, (&table.schema, &table.name), table.kind),
                yes_or_no(table.readable),
            ],
            metadata::Listed::Name(name) => ["", name.as_str(), "", ""],
        };
        parts.map(Cell::text).to_vec()
    };
    let cells: Vec<_> = list.tables.iter().map(row).collect();
    let mut out = grid::draw(&names, &cells, paint, paint.width());
    let plural = if list.table_count == 1 { "" } else { "s" };
    let mut summary = format!("{} table{plural}", list.table_count);
    if list.truncated {
        summary.push_str(&format!(", of which {} are listed", list.tables.len()));
    }
    out.push_str(&human::wrap(&format!("({summary})"), 0, 0));
    out.push_str(&format_findings(&list.findings, paint));
    out
}

fn format_description(
    description: &TableDescription<'_>,
    catalog: &Catalog,
    paint: Paint,
) -> String {
    let relation = &*description.relation;
    let name = ident::qualify([relation.schema.as_str(), relation.name.as_str()]);
    let mut out = format!(
        "{} ({})\n",
        paint.strong(&human::printable(&name)),
        kind_of(catalog, (&relation.schema, &relation.name), relation.kind)
    );
    if let Some(comment) = &relation.comment {
        out.push_str(&human::label("comment", comment, paint));
    }
    if !relation.readable {
        out.push_str(&human::wrap(
            "Its name may be listed. Its rows may not be read.",
            0,
            0,
        ));
    }
    if !relation.columns.is_empty() {
        let has_generated = relation.columns.iter().any(|c| c.generated);
        let has_defaults = relation.columns.iter().any(|c| c.default.is_some());
        let has_labels = relation.columns.iter().any(|c| c.labels.is_some());
        let has_comments = relation.columns.iter().any(|c| c.comment.is_some());
        let mut names = vec!["column", "type", "null", "masked"];
        names.extend(has_generated.then_some("generated"));
        names.extend(has_defaults.then_some("default"));
        names.extend(has_labels.then_some("labels"));
        names.extend(has_comments.then_some("comment"));
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let row = |column: &VisibleColumn| {
            let mut row = vec![
                Cell::text(&column.name),
                Cell::text(&column.type_name),
                Cell::text(yes_or_no(column.nullable)),
                Cell::text(yes_or_no(column.masked)),
            ];
            row.extend(has_generated.then(|| Cell::text(yes_or_no(column.generated))));
            let default = column.default.as_deref().unwrap_or_default();
            row.extend(has_defaults.then(|| Cell::text(default)));
            let labels = column.labels.as_deref().unwrap_or_default().join(", ");
            row.extend(has_labels.then(|| Cell::text(&labels)));
            let comment = column.comment.as_deref().unwrap_or_default();
            row.extend(has_comments.then(|| Cell::text(comment)));
            row
        };
        let cells: Vec<_> = relation.columns.iter().map(row).collect();
        out.push_str(&grid::draw(&names, &cells, paint, paint.width()));
    }
    if !relation.primary_key.is_empty() {
        let key = relation.primary_key.join(", ");
        out.push_str(&human::label("primary key", &key, paint));
    }
    for key in &relation.unique_keys {
        out.push_str(&human::label("unique key", &key.join(", "), paint));
    }
    for VisibleForeignKey {
        columns,
        schema,
        table,
        references,
    } in &relation.foreign_keys
    {
        let parent = ident::qualify([schema.as_str(), table.as_str()]);
        let key = format!(
            "{} → {parent} ({})",
            columns.join(", "),
            references.join(", ")
        );
        out.push_str(&human::label("foreign key", &key, paint));
    }
    for index in &relation.indexes {
        out.push_str(&human::label("index", &index.join(", "), paint));
    }
    if let Some(rows) = relation.row_estimate {
        out.push_str(&human::label("rows", &format!("about {rows}"), paint));
    }
    out.push_str(&format_findings(&description.findings, paint));
    out
}

/// What detectors found in names, one line each.
fn format_findings(findings: &[NameFinding<'_>], paint: Paint) -> String {
    let mut out = String::new();
    for finding in findings {
        let place = match finding.column {
            Some(column) => format!("the name or type of column {}", human::printable(column)),
            None => format!(
                "the name or keys of table {}",
                human::printable(finding.table)
            ),
        };
        let detector = finding.detector;
        let text = format!("FLAGGED {}: {} ({place})", detector.id, detector.finds);
        let text = human::wrap(&text, 0, 8);
        out.push_str(&text.replacen("FLAGGED", &paint.bad("FLAGGED"), 1));
    }
    out
}

fn yes_or_no(holds: bool) -> &'static str {
    if holds { "yes" } else { "no" }
}
