//! Every type of each engine, out as JSON and back as a parameter, through the gate and on real servers; and the
//! manual's page of them, `docs/reference/types.md`, which is made of what happened.

mod mysql;
mod page;
mod postgres;
mod sqlite;

use std::{fmt::Write as _, sync::Arc};

use palisade::{
    audit::NoAudit,
    firewall::Firewall,
    guard::{Backend, Guard, Outcome},
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{fixture::policy_sources, host::Still};
use serde_json::{Value as Json, json};

/// A type and a value of it.
struct Type {
    /// As a column declares it.
    name: &'static str,
    /// The value in the engine's own words.
    literal: &'static str,
    /// The next value of the type: a comparison that rounds would find it too.
    neighbour: Option<&'static str>,
    back: Back,
    /// The expression over the parameter, `?`, that stores it.
    stored_as: &'static str,
    /// The key of the object that the value goes back in, where a JSON value alone would be something else.
    spelt: Option<&'static str>,
    note: &'static str,
}

/// What becomes of the value that was read when it is given back as a parameter, `?`.
enum Back {
    /// It is stored, reads the same then, and finds both rows by this condition on column `v`.
    Found(&'static str),
    /// It is stored and reads the same; the engine has no equality of the type.
    Stored,
    /// It is refused.
    Refused,
    /// It is another value, and the answer says so.
    Lost,
}

/// A value that goes back as it was read and finds its row by `=`.
const fn roundtrip(name: &'static str, literal: &'static str) -> Type {
    Type {
        name,
        literal,
        neighbour: None,
        back: Back::Found("v = ?"),
        stored_as: "?",
        spelt: None,
        note: "",
    }
}

impl Type {
    const fn neighbour(self, literal: &'static str) -> Self {
        Self {
            neighbour: Some(literal),
            ..self
        }
    }

    const fn back(self, back: Back) -> Self {
        Self { back, ..self }
    }

    const fn stored_as(self, expression: &'static str) -> Self {
        Self {
            stored_as: expression,
            ..self
        }
    }

    const fn spelt(self, key: &'static str) -> Self {
        Self {
            spelt: Some(key),
            ..self
        }
    }

    const fn note(self, note: &'static str) -> Self {
        Self { note, ..self }
    }
}

/// Statements that make a table `t0`, `t1`, … of each type, with the value in its row 1, and in row 0 what must not be
/// taken for it.
fn script(types: &[Type]) -> String {
    let mut script = String::new();
    for (number, ty) in types.iter().enumerate() {
        let _ = writeln!(
            script,
            "CREATE TABLE t{number} (k int PRIMARY KEY, v {}); INSERT INTO t{number} VALUES (0, {}), (1, {});",
            ty.name,
            ty.neighbour.unwrap_or("NULL"),
            ty.literal
        );
    }
    script
}

/// Sends each value out and back, and returns the rows of the page. `placeholder` is the engine's first.
async fn there_and_back(guard: &Guard, types: &[Type], placeholder: &str) -> String {
    let (mut rows, mut failures) = (String::new(), String::new());
    for (number, ty) in types.iter().enumerate() {
        match one(guard, number, ty, placeholder).await {
            Ok(row) => rows.push_str(&row),
            Err(why) => {
                let _ = writeln!(failures, "{} {}: {why}", ty.name, ty.literal);
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    rows
}

async fn one(guard: &Guard, number: usize, ty: &Type, placeholder: &str) -> Result<String, String> {
    let read = async |k: u8| {
        let sql = format!("SELECT v FROM t{number} WHERE k = {k}");
        let rows = told(guard.query(&sql, &Params::None, &session()).await)?;
        Ok::<_, String>(rows[0]["v"].clone())
    };
    let value = read(1).await?;
    let given = match ty.spelt {
        Some(key) => json!({key: value.clone()}),
        None => value.clone(),
    };
    let params = Params::from_json(&json!([given]))?;
    let expression = ty.stored_as.replace('?', placeholder);
    let store = format!("INSERT INTO t{number} (k, v) VALUES (2, {expression})");
    let stored = told(guard.execute(&store, &params, &session()).await);
    let found_by = match ty.back {
        Back::Refused => {
            if stored.is_ok() {
                return Err(format!("{given} is stored"));
            }
            "refused".to_owned()
        }
        Back::Lost => {
            stored?;
            "lost".to_owned()
        }
        Back::Stored | Back::Found(_) => {
            stored.map_err(|why| format!("{given} is not stored: {why}"))?;
            let again = read(2).await?;
            if again != value {
                return Err(format!("{value} is read, {again} when it was given back"));
            }
            match ty.back {
                Back::Found(condition) => {
                    find_both(guard, number, condition, placeholder, &params).await?;
                    format!("`{condition}`")
                }
                _ => "stored".to_owned(),
            }
        }
    };
    let parameter = match ty.spelt {
        Some(key) => page::code(&format!("{{\"{key}\": …}}")),
        None => String::new(),
    };
    Ok(format!(
        "| {} | {} | {} | {parameter} | {found_by} | {} |\n",
        page::code(ty.name),
        page::code(ty.literal),
        page::code(&value.to_string()),
        ty.note
    ))
}

/// Checks that both rows are found by the value.
async fn find_both(
    guard: &Guard,
    number: usize,
    condition: &str,
    placeholder: &str,
    params: &Params,
) -> Result<(), String> {
    let condition = condition.replace('?', placeholder);
    let sql = format!("SELECT k FROM t{number} WHERE {condition} ORDER BY k");
    let rows = told(guard.query(&sql, params, &session()).await)?;
    if rows == json!([{"k": 1}, {"k": 2}]) {
        Ok(())
    } else {
        Err(format!("{params:?} finds {rows} where {condition}"))
    }
}

/// The rows, or why there are none.
fn told(outcome: Outcome) -> Result<Json, String> {
    match outcome.into_result() {
        Ok(envelope) => Ok(serde_json::to_value(&envelope).unwrap()["rows"].clone()),
        Err(refusal) => Err(format!(
            "{} {} {}",
            refusal.rejection.code(),
            refusal.rejection.message(),
            refusal.rejection.operator_detail().unwrap_or_default()
        )),
    }
}

fn session() -> Session {
    Session::new(Principal::new("Agent", "a"))
}

/// A gate over a backend that can write, where everything is permitted.
fn gate<B: Backend>(backend: B) -> Guard {
    let sources = policy_sources("permit(principal, action, resource);");
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .allow_changes()
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Still),
        Arc::new(NoAudit),
    )
}
