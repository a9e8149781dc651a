//! Functions, aggregates, procedures and operators of the database.

use std::collections::{BTreeMap, HashMap};

use palisade::{
    catalog::{CastDef, OperandDef, OperatorDef, RoutineDef, functions::Kinds},
    ident,
};
use tokio_postgres::{Client, Row};

use super::{IntrospectError, columns::Columns, read::USER_SCHEMA};

/// Every routine, one for each schema and name.
pub(super) async fn routines(
    client: &Client,
    columns: &Columns,
    operands: &HashMap<u32, OperandDef>,
) -> Result<Vec<RoutineDef>, IntrospectError> {
    let sql = format!(
        "SELECT n.nspname, p.proname, p.prokind::text, p.proretset, p.pronargs, p.pronargdefaults, \
                p.provariadic <> 0, g.aggkind::text, g.aggnumdirectargs, \
                p.proargmodes::text[], p.proargnames, t.typrelid, e.extname, \
                p.proargtypes::pg_catalog.oid[] \
         FROM pg_catalog.pg_proc p \
         JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         JOIN pg_catalog.pg_type t ON t.oid = p.prorettype \
         LEFT JOIN pg_catalog.pg_aggregate g ON g.aggfnoid = p.oid \
         LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
              AND d.objid = p.oid AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass \
              AND d.deptype = 'e' \
         LEFT JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid \
         WHERE {USER_SCHEMA} \
           AND p.prorettype NOT IN ('pg_catalog.trigger'::pg_catalog.regtype, \
                                    'pg_catalog.event_trigger'::pg_catalog.regtype) \
         ORDER BY n.nspname, p.proname, p.oid"
    );
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    for row in client.query_typed(&sql, &[]).await? {
        let key = (row.try_get(0)?, row.try_get(1)?);
        let overload = Overload::read(&row, columns, operands)?;
        match groups.get_mut(&key) {
            Some(group) => group.add(overload),
            None => {
                groups.insert(key, Group::new(overload));
            }
        }
    }
    Ok(groups
        .into_iter()
        .map(|((schema, name), group)| RoutineDef {
            schema,
            name,
            kinds: group.kinds,
            extensions: group.extensions,
            min_args: group.min_args,
            max_args: group.max_args,
            columns: group.columns,
            parameters: group.parameters.unwrap_or_default(),
        })
        .collect())
}

/// One row of `pg_proc`.
struct Overload {
    kinds: Kinds,
    extension: Option<String>,
    min_args: u8,
    /// `None` for any number.
    max_args: Option<u8>,
    /// Of its result, where that is a row whose columns are known.
    columns: Vec<String>,
    /// Unless it takes any number of arguments.
    parameters: Option<Vec<OperandDef>>,
}

impl Overload {
    fn read(
        row: &Row,
        columns: &Columns,
        operands: &HashMap<u32, OperandDef>,
    ) -> Result<Self, IntrospectError> {
        let name: &str = row.try_get(1)?;
        let kind: String = row.try_get(2)?;
        let returns_set: bool = row.try_get(3)?;
        let variadic: bool = row.try_get(6)?;
        let aggregate: Option<String> = row.try_get(7)?;
        let mut kinds = Kinds::default();
        let mut args: i16 = row.try_get(4)?;
        let mut optional: i16 = row.try_get(5)?;
        match (kind.as_str(), aggregate.as_deref()) {
            ("f", _) if returns_set => kinds.table = true,
            ("f", _) => kinds.scalar = true,
            ("a", Some("n")) => kinds.aggregate = true,
            ("a", Some("o" | "h")) => {
                kinds.ordered = true;
                // What stands in WITHIN GROUP is no argument of the call.
                args = row.try_get::<_, Option<i16>>(8)?.unwrap_or_default();
                optional = i16::from(variadic);
            }
            ("w", _) => kinds.window = true,
            ("p", _) => kinds.procedure = true,
            (kind, _) => {
                return Err(IntrospectError::Inconsistent(format!(
                    "function `{name}` is of the unknown kind `{kind}`"
                )));
            }
        }
        let is_known = kinds.scalar || kinds.table || kinds.aggregate || kinds.window;
        let types: Vec<u32> = row.try_get(13)?;
        let types = types.iter();
        let parameters = types.map(|t| operands.get(t).cloned().unwrap_or(OperandDef::Any));
        let count = |n: i16| u8::try_from(n.max(0)).unwrap_or(u8::MAX);
        Ok(Self {
            kinds,
            extension: row.try_get(12)?,
            min_args: count(args.saturating_sub(optional)),
            max_args: (!variadic).then(|| count(args)),
            columns: out_columns(row, columns)?,
            parameters: (is_known && !variadic).then(|| parameters.collect()),
        })
    }
}

/// The columns a call gives in `FROM`: its OUT and TABLE parameters, or those of the row type that it
/// returns.
fn out_columns(row: &Row, columns: &Columns) -> Result<Vec<String>, IntrospectError> {
    let modes: Option<Vec<String>> = row.try_get(9)?;
    let names: Option<Vec<String>> = row.try_get(10)?;
    let names = names.unwrap_or_default();
    let out: Vec<String> = modes
        .unwrap_or_default()
        .iter()
        .enumerate()
        .filter(|(_, mode)| matches!(mode.as_str(), "o" | "b" | "t"))
        .map(|(i, _)| names.get(i).cloned().unwrap_or_default())
        .collect();
    if out.len() > 1 {
        // As `build_function_result_tupdesc_d` names what has no name.
        return Ok(out
            .into_iter()
            .enumerate()
            .map(|(i, name)| match name.as_str() {
                "" => format!("column{}", i + 1),
                _ => name,
            })
            .collect());
    }
    if let [only] = out.as_slice() {
        // One is no row; its name, where it has one, is the column's.
        return Ok(out.iter().filter(|_| !only.is_empty()).cloned().collect());
    }
    let relation: u32 = row.try_get(11)?;
    Ok(columns
        .columns(relation)
        .iter()
        .map(|column| column.name.clone())
        .collect())
}

/// Overloads of one name.
struct Group {
    kinds: Kinds,
    /// Of each overload; empty where one came with none.
    extensions: Vec<String>,
    min_args: u8,
    max_args: Option<u8>,
    columns: Vec<Vec<String>>,
    /// Of each overload, where they are known of all.
    parameters: Option<Vec<Vec<OperandDef>>>,
}

impl Group {
    fn new(first: Overload) -> Self {
        Self {
            kinds: first.kinds,
            extensions: first.extension.into_iter().collect(),
            min_args: first.min_args,
            max_args: first.max_args,
            parameters: first.parameters.map(|parameters| vec![parameters]),
            columns: (!first.columns.is_empty())
                .then_some(first.columns)
                .into_iter()
                .collect(),
        }
    }

    fn add(&mut self, other: Overload) {
        let Kinds {
            scalar,
            niladic,
            aggregate,
            window,
            table,
            ordered,
            procedure,
        } = other.kinds;
        self.kinds.scalar |= scalar;
        self.kinds.niladic |= niladic;
        self.kinds.aggregate |= aggregate;
        self.kinds.window |= window;
        self.kinds.table |= table;
        self.kinds.ordered |= ordered;
        self.kinds.procedure |= procedure;
        match other.extension {
            None => self.extensions.clear(),
            Some(_) if self.extensions.is_empty() => {}
            Some(extension) if self.extensions.contains(&extension) => {}
            Some(extension) => self.extensions.push(extension),
        }
        self.min_args = self.min_args.min(other.min_args);
        self.max_args = match (self.max_args, other.max_args) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (Some(_), None) | (None, Some(_)) | (None, None) => None,
        };
        self.parameters = match (self.parameters.take(), other.parameters) {
            (Some(mut all), Some(parameters)) => {
                all.push(parameters);
                Some(all)
            }
            (Some(_), None) | (None, Some(_)) | (None, None) => None,
        };
        if !other.columns.is_empty() && !self.columns.contains(&other.columns) {
            self.columns.push(other.columns);
        }
    }
}

/// Every operator that the database adds. An operator that is only declared cannot be used.
pub(super) async fn operators(
    client: &Client,
    operands: &HashMap<u32, OperandDef>,
) -> Result<Vec<OperatorDef>, IntrospectError> {
    // A domain takes what its base type does, a row type any row; what is preferred is taken where nothing is known.
    let confined = |side: &str| {
        format!(
            "EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid = {side} AND t.oid >= 16384 \
                     AND t.typtype IN ('b', 'e', 'r', 'm') AND t.typelem = 0 AND NOT t.typispreferred) \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_cast k \
                             WHERE k.casttarget = {side} AND k.castcontext = 'i' AND k.castsource < 16384)"
        )
    };
    let sql = format!(
        "SELECT n.nspname, o.oprname, pn.nspname, p.proname, \
                pg_catalog.bool_and(o.oprkind = 'b' AND o.oprname IN ('=', '<>', '<', '<=', '>', '>=') \
                                    AND {} AND {}), \
                o.oprleft, o.oprright \
         FROM pg_catalog.pg_operator o \
         JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace \
         JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode \
         JOIN pg_catalog.pg_namespace pn ON pn.oid = p.pronamespace \
         WHERE {USER_SCHEMA} \
         GROUP BY 1, 2, 3, 4, 6, 7 \
         ORDER BY 1, 2, 3, 4, 6, 7",
        confined("o.oprleft"),
        confined("o.oprright"),
    );
    let operand = |id: u32| operands.get(&id).cloned().unwrap_or(OperandDef::Any);
    let mut operators = Vec::new();
    for row in client.query_typed(&sql, &[]).await? {
        operators.push(OperatorDef {
            schema: row.try_get(0)?,
            name: row.try_get(1)?,
            function: ident::qualify([row.try_get(2)?, row.try_get(3)?]),
            confined: row.try_get(4)?,
            left: operand(row.try_get(5)?),
            right: operand(row.try_get(6)?),
        });
    }
    Ok(operators)
}

/// Every cast that people made and that calls a function.
pub(super) async fn casts(client: &Client) -> Result<Vec<CastDef>, IntrospectError> {
    // Objects of the system have ids below 16384 (`FirstNormalObjectId`).
    let sql = "SELECT sn.nspname, s.typname, pg_catalog.format_type(s.oid, NULL), \
                tn.nspname, t.typname, pg_catalog.format_type(t.oid, NULL), \
                pn.nspname, p.proname, k.castcontext = 'i' \
         FROM pg_catalog.pg_cast k \
         JOIN pg_catalog.pg_proc p ON p.oid = k.castfunc \
         JOIN pg_catalog.pg_namespace pn ON pn.oid = p.pronamespace \
         JOIN pg_catalog.pg_type s ON s.oid = k.castsource \
         JOIN pg_catalog.pg_namespace sn ON sn.oid = s.typnamespace \
         JOIN pg_catalog.pg_type t ON t.oid = k.casttarget \
         JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace \
         WHERE k.castmethod = 'f' AND k.oid >= 16384 \
         ORDER BY 1, 2, 3, 4";
    let end = |schema: String, name: String, spelt: String| {
        let name = if schema == "pg_catalog" { spelt } else { name };
        (schema, name)
    };
    let mut casts = Vec::new();
    for row in client.query_typed(sql, &[]).await? {
        casts.push(CastDef {
            source: end(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?),
            target: end(row.try_get(3)?, row.try_get(4)?, row.try_get(5)?),
            function: ident::qualify([row.try_get(6)?, row.try_get(7)?]),
            implicit: row.try_get(8)?,
        });
    }
    casts.sort_by(|a, b| {
        (&a.source, &a.target, &a.function).cmp(&(&b.source, &b.target, &b.function))
    });
    Ok(casts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overload(kinds: Kinds) -> Overload {
        Overload {
            kinds,
            extension: None,
            min_args: 1,
            max_args: Some(1),
            columns: Vec::new(),
            parameters: Some(Vec::new()),
        }
    }

    /// What two overloads are together.
    fn both(first: Overload, second: Overload) -> Group {
        let mut group = Group::new(first);
        group.add(second);
        group
    }

    #[test]
    fn a_name_is_of_every_kind_that_an_overload_is_of() {
        let none = Kinds::default();
        for kinds in [
            Kinds {
                scalar: true,
                ..none
            },
            Kinds {
                niladic: true,
                ..none
            },
            Kinds {
                aggregate: true,
                ..none
            },
            Kinds {
                window: true,
                ..none
            },
            Kinds {
                table: true,
                ..none
            },
            Kinds {
                ordered: true,
                ..none
            },
            Kinds {
                procedure: true,
                ..none
            },
        ] {
            for (first, second) in [(kinds, none), (none, kinds), (kinds, kinds)] {
                assert_eq!(both(overload(first), overload(second)).kinds, kinds);
            }
        }
    }

    #[test]
    fn a_name_is_of_extensions_where_each_overload_is() {
        let of = |extension: Option<&str>| Overload {
            extension: extension.map(str::to_owned),
            ..overload(Kinds::SCALAR)
        };
        for (overloads, expected) in [
            ([Some("a"), Some("a"), Some("a")], &["a"][..]),
            ([Some("a"), Some("b"), Some("a")], &["a", "b"]),
            ([None, Some("a"), Some("a")], &[]),
            ([Some("a"), None, Some("b")], &[]),
        ] {
            let [first, second, third] = overloads.map(of);
            let mut group = both(first, second);
            group.add(third);
            assert_eq!(group.extensions, expected, "{overloads:?}");
        }
    }

    #[test]
    fn a_name_takes_what_any_overload_takes() {
        let takes = |min_args, max_args| Overload {
            min_args,
            max_args,
            ..overload(Kinds::SCALAR)
        };
        for (first, second, expected) in [
            (takes(2, Some(3)), takes(1, Some(2)), (1, Some(3))),
            (takes(1, Some(1)), takes(2, Some(4)), (1, Some(4))),
            (takes(1, None), takes(2, Some(4)), (1, None)),
            (takes(2, Some(2)), takes(3, None), (2, None)),
        ] {
            let group = both(first, second);
            assert_eq!((group.min_args, group.max_args), expected);
        }
    }

    #[test]
    fn parameters_are_known_where_those_of_each_overload_are() {
        let with = |parameters| Overload {
            parameters,
            ..overload(Kinds::SCALAR)
        };
        let any = || Some(vec![OperandDef::Any]);
        for (first, second, expected) in [
            (any(), any(), Some(2)),
            (any(), None, None),
            (None, any(), None),
        ] {
            let found = both(with(first), with(second)).parameters;
            assert_eq!(found.map(|found| found.len()), expected);
        }
    }

    #[test]
    fn columns_are_told_once_for_each_row_type() {
        let gives = |names: &[&str]| Overload {
            columns: names.iter().map(|name| (*name).to_owned()).collect(),
            ..overload(Kinds::SCALAR)
        };
        for (first, second, count) in [
            (&["a"][..], &["a"][..], 1),
            (&["a"], &["b"], 2),
            (&["a"], &[], 1),
            (&[], &["b"], 1),
            (&[], &[], 0),
        ] {
            let found = both(gives(first), gives(second)).columns;
            assert_eq!(found.len(), count, "{first:?} {second:?}");
        }
    }
}
