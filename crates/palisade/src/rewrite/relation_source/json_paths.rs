//! A JSON document with the keys alone that a mask shows. The text of a new object is put together of the texts of
//! the values that are there, so that whatever reads the column finds nothing else: operators on paths, `json_each`,
//! containment, the document as a whole.
//!
//! The texts of values are the engine's own, of which each stays what it is: a number keeps its digits, true and null
//! are no text. Keys have neither quotation marks nor backslashes (`JsonPaths::parse`).

use std::collections::BTreeSet;

use sqlparser::ast::{BinaryOperator, DataType, Expr};

use crate::rewrite::ast;
use crate::{
    catalog::{Column, TypeClass},
    dialect::Dialect,
    policy::obligation::{JsonPaths, ShownValue},
};

/// The column with nothing but what `paths` show, NULL where it is no object; `None` where its type is none of JSON.
pub(in crate::rewrite) fn expression(
    paths: &JsonPaths,
    column: &Column,
    dialect: Dialect,
    functions: &mut BTreeSet<String>,
) -> Option<Expr> {
    let is_binary = column.type_name.trim_start_matches("pg_catalog.") == "jsonb";
    let mut writer = DocumentWriter {
        value: ast::column(dialect, &column.name),
        dialect,
        is_binary,
        functions,
    };
    match (dialect, column.class) {
        (Dialect::Postgres, TypeClass::Json) => Some(writer.postgres(paths)),
        (Dialect::Sqlite, _) => Some(writer.sqlite(paths)),
        (Dialect::Mysql, TypeClass::Json) => {
            let document = writer.mysql(paths);
            Some(writer.call("json_extract", vec![document, ast::text(dialect, "$")]))
        }
        (Dialect::Mysql, TypeClass::Text) => Some(ast::mysql_text(writer.mysql(paths), dialect)),
        (Dialect::Postgres | Dialect::Mysql, _) => None,
    }
}

struct DocumentWriter<'w> {
    /// The column.
    value: Expr,
    dialect: Dialect,
    /// Whether it is PostgreSQL's `jsonb`, which holds what has been read.
    is_binary: bool,
    functions: &'w mut BTreeSet<String>,
}

impl DocumentWriter<'_> {
    /// A call of the engine's own function.
    fn call(&mut self, name: &str, args: Vec<Expr>) -> Expr {
        self.functions.insert(match self.dialect {
            Dialect::Sqlite | Dialect::Mysql => name.to_owned(),
            Dialect::Postgres => format!("pg_catalog.{name}"),
        });
        ast::call(self.dialect, name, args)
    }

    fn text(&self, text: &str) -> Expr {
        ast::text(self.dialect, text)
    }

    fn equals(&self, value: Expr, text: &str) -> Expr {
        ast::binary(value, BinaryOperator::Eq, self.text(text))
    }

    fn postgres(&mut self, paths: &JsonPaths) -> Expr {
        let shown = self.object(paths, &mut Vec::new());
        if self.is_binary {
            return ast::cast(shown, DataType::JSONB);
        }
        // A `json` is a text that the functions read anew, and they raise on an escape that no text can hold.
        let text = ast::cast_text(self.dialect, self.value.clone());
        let escape = ast::binary(
            text.clone(),
            BinaryOperator::PGRegexMatch,
            self.text(r"\\u(0000|[dD][89a-fA-F])"),
        );
        let any = self.call("strpos", vec![text, self.text(r"\u")]);
        let none = ast::binary(any, BinaryOperator::Eq, ast::integer(0));
        let encoding = self.call("getdatabaseencoding", Vec::new());
        let can_hold_all = self.equals(encoding, "UTF8");
        let readable = ast::join_by(vec![none, can_hold_all], &BinaryOperator::Or, false);
        let readable = ast::join_by(
            vec![readable, ast::not(escape)],
            &BinaryOperator::And,
            false,
        );
        ast::cast(ast::case(vec![(readable, shown)], None), DataType::JSON)
    }

    fn sqlite(&mut self, paths: &JsonPaths) -> Expr {
        let value = self.value.clone();
        let kind = self.call("typeof", vec![value.clone()]);
        let is_valid = self.call("json_valid", vec![value.clone()]);
        // To the engine a key ends at such an escape, and would be another key.
        let escape = self.call("instr", vec![value, self.text(r"\u0000")]);
        let is_whole = ast::binary(escape, BinaryOperator::Eq, ast::integer(0));
        let readable = vec![self.equals(kind, "text"), is_valid, is_whole];
        let readable = ast::join_by(readable, &BinaryOperator::And, false);
        let shown = self.object(paths, &mut Vec::new());
        ast::case(vec![(readable, shown)], None)
    }

    fn mysql(&mut self, paths: &JsonPaths) -> Expr {
        let is_valid = self.call("json_valid", vec![self.value.clone()]);
        let shown = self.object(paths, &mut Vec::new());
        ast::case(vec![(is_valid, shown)], None)
    }

    /// The text of the object at `at`, NULL where there is none.
    fn object<'p>(&mut self, paths: &'p JsonPaths, at: &mut Vec<&'p str>) -> Expr {
        let mut members = vec![self.text(",")];
        for (key, shown) in paths.keys() {
            at.push(key);
            let value = match shown {
                ShownValue::Whole => self.document_text(at),
                ShownValue::Members => {
                    let whole = self.document_text(at);
                    self.if_object(at, whole)
                }
                ShownValue::Keys(keys) => self.object(keys, at),
            };
            at.pop();
            // NULL, and so left out, where there is no such key.
            let name = self.text(&format!("\"{key}\":"));
            members.push(self.concat(vec![name, value]));
        }
        let members = self.call("concat_ws", members);
        let (open, close) = (self.text("{"), self.text("}"));
        let object = self.concat(vec![open, members, close]);
        self.if_object(at, object)
    }

    /// All of `parts` in a row; NULL where one is.
    fn concat(&mut self, parts: Vec<Expr>) -> Expr {
        match self.dialect {
            Dialect::Sqlite | Dialect::Postgres => {
                ast::parens(ast::join_by(parts, &BinaryOperator::StringConcat, false))
            }
            Dialect::Mysql => self.call("concat", parts),
        }
    }

    fn if_object(&mut self, at: &[&str], shown: Expr) -> Expr {
        let kind = match self.dialect {
            Dialect::Postgres => {
                let value = self.extract(at);
                let typeof_ = if self.is_binary {
                    "jsonb_typeof"
                } else {
                    "json_typeof"
                };
                self.call(typeof_, vec![value])
            }
            Dialect::Sqlite => {
                let path = self.path(at);
                self.call("json_type", vec![self.value.clone(), path])
            }
            Dialect::Mysql => {
                let value = self.extract(at);
                self.call("json_type", vec![value])
            }
        };
        let object = match self.dialect {
            Dialect::Sqlite | Dialect::Postgres => "object",
            Dialect::Mysql => "OBJECT",
        };
        ast::case(vec![(self.equals(kind, object), shown)], None)
    }

    /// The value at `at` as JSON; NULL where there is none.
    fn extract(&mut self, at: &[&str]) -> Expr {
        let value = self.value.clone();
        match self.dialect {
            Dialect::Postgres if at.is_empty() => value,
            Dialect::Postgres => {
                let function = if self.is_binary {
                    "jsonb_extract_path"
                } else {
                    "json_extract_path"
                };
                let keys = at.iter().map(|key| self.text(key));
                let args = [value].into_iter().chain(keys).collect();
                self.call(function, args)
            }
            Dialect::Sqlite => {
                self.functions.insert("->".to_owned());
                let path = self.path(at);
                ast::parens(ast::binary(value, BinaryOperator::Arrow, path))
            }
            Dialect::Mysql => {
                let path = self.path(at);
                self.call("json_extract", vec![value, path])
            }
        }
    }

    /// The text of the value at `at`.
    fn document_text(&mut self, at: &[&str]) -> Expr {
        let value = self.extract(at);
        match self.dialect {
            Dialect::Sqlite | Dialect::Mysql => value,
            Dialect::Postgres => ast::cast_text(self.dialect, value),
        }
    }

    /// A path as SQLite and MySQL write it.
    fn path(&self, at: &[&str]) -> Expr {
        let keys: String = at.iter().map(|key| format!(".\"{key}\"")).collect();
        self.text(&format!("${keys}"))
    }
}
