//! Literals and placeholders: each is printed with the meaning it had, or refused by name.

use sqlparser::{
    ast::{Expr, UnaryOperator, Value, ValueWithSpan},
    tokenizer::Location,
};

use crate::resolve::{
    Resolver, refuse_unsupported,
    scope::{Found, Scope},
};
use crate::{
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
    syntax::{advise_on_parameter, placeholder_name},
    value::Placeholder,
};

impl Resolver<'_> {
    /// A literal as an expression.
    pub(in crate::resolve) fn literal(
        &mut self,
        expr: &mut Expr,
        scope: &Scope<'_, '_>,
    ) -> Result<(), Rejection> {
        let Expr::Value(ValueWithSpan { value, span }) = expr else {
            return Ok(());
        };
        // A text to MySQL and MariaDB, and a column to whoever knows other engines.
        if let Value::DoubleQuotedString(text) = value
            && let Found::Column(_, _) = scope.find(None, &text.to_lowercase())
        {
            self.engine_names.quoted_texts.insert(text.clone());
        }
        self.value(value, span.start)?;
        // `0xffffffffffffffff` is -1 on SQLite, which is a sign and a number.
        if let Value::Number(text, long) = value
            && let Some(digits) = text.strip_prefix('-')
        {
            let digits = Value::Number(digits.to_owned(), *long);
            *expr = Expr::Nested(Box::new(Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: Box::new(Expr::Value(digits.into())),
            }));
        }
        Ok(())
    }

    /// A literal wherever the grammar takes nothing else.
    pub(in crate::resolve) fn value(
        &mut self,
        value: &mut Value,
        start: Location,
    ) -> Result<(), Rejection> {
        let dialect = self.catalog.dialect();
        match value {
            Value::Number(text, _) => {
                // `1_000` is one number to newer versions of an engine, and two tokens to older ones.
                text.retain(|c| c != '_');
                Ok(())
            }
            Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null => Ok(()),
            Value::DoubleQuotedString(_) if dialect == Dialect::Mysql => Ok(()),
            Value::HexStringLiteral(digits) => {
                if !self.outline.is_hex_number(start) {
                    return Ok(());
                }
                match dialect {
                    // The parser reads `0x1F`, an integer, like `x'1F'`, a blob.
                    Dialect::Sqlite => {
                        let digits = digits.replace('_', "");
                        let number = u64::from_str_radix(&digits, 16).map_err(|_| {
                            Rejection::new(Code::SyntaxInvalid, "a number is too large")
                        })?;
                        *value = Value::Number(number.cast_signed().to_string(), false);
                        Ok(())
                    }
                    // An integer since PostgreSQL 16, `0` with an alias before.
                    Dialect::Postgres => {
                        Err(refuse_unsupported("an integer written in hexadecimal"))
                    }
                    // Our dialect reads it as a number.
                    Dialect::Mysql => Err(refuse_unsupported("a literal of this form")),
                }
            }
            Value::SingleQuotedByteStringLiteral(digits)
                if dialect != Dialect::Sqlite
                    && digits.bytes().all(|b| matches!(b, b'0' | b'1')) =>
            {
                Ok(())
            }
            Value::EscapedStringLiteral(text) if dialect == Dialect::Postgres => {
                // The tokenizer has read its escapes, whatever its options say.
                *value = plain(text);
                Ok(())
            }
            Value::DollarQuotedString(text) if dialect == Dialect::Postgres => {
                *value = plain(&text.value);
                Ok(())
            }
            Value::NationalStringLiteral(_) if dialect == Dialect::Mysql => Ok(()),
            Value::Placeholder(text) => {
                let placeholder =
                    placeholder(dialect, text, self.outline.positional.get(&start).copied())
                        .ok_or_else(|| {
                            Rejection::new(
                                Code::SyntaxInvalid,
                                format!(
                                    "`{text}` is not a placeholder: {}",
                                    advise_on_parameter(dialect)
                                ),
                            )
                        })?;
                let number = match placeholder {
                    Placeholder::Number(number) => {
                        *text = dialect.placeholder(number);
                        number
                    }
                    Placeholder::Name(_) => 0,
                };
                self.placeholders.insert(placeholder, number);
                Ok(())
            }
            Value::DollarQuotedString(_)
            | Value::TripleSingleQuotedString(_)
            | Value::TripleDoubleQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::UnicodeStringLiteral(_)
            | Value::SingleQuotedByteStringLiteral(_)
            | Value::DoubleQuotedByteStringLiteral(_)
            | Value::TripleSingleQuotedByteStringLiteral(_)
            | Value::TripleDoubleQuotedByteStringLiteral(_)
            | Value::SingleQuotedRawStringLiteral(_)
            | Value::DoubleQuotedRawStringLiteral(_)
            | Value::TripleSingleQuotedRawStringLiteral(_)
            | Value::TripleDoubleQuotedRawStringLiteral(_)
            | Value::NationalStringLiteral(_)
            | Value::QuoteDelimitedStringLiteral(_)
            | Value::NationalQuoteDelimitedStringLiteral(_)
            | Value::DoubleQuotedString(_) => Err(refuse_unsupported("a literal of this form")),
        }
    }
}

impl Resolver<'_> {
    /// The parameter that a placeholder means which has been resolved.
    pub(in crate::resolve) fn placeholder_at(
        &self,
        text: &str,
        start: Location,
    ) -> Option<Placeholder> {
        let numbered = self.outline.positional.get(&start).copied();
        placeholder(self.catalog.dialect(), text, numbered)
    }
}

/// The parameter that a placeholder means; `numbered` if the outline has counted it.
fn placeholder(dialect: Dialect, text: &str, numbered: Option<u32>) -> Option<Placeholder> {
    let written = |sigil| {
        text.strip_prefix(sigil)
            .and_then(|n: &str| n.parse().ok())
            .map(Placeholder::Number)
    };
    match dialect {
        Dialect::Sqlite => written('?')
            .or(numbered.map(Placeholder::Number))
            .or_else(|| placeholder_name(text)),
        Dialect::Postgres => written('$'),
        Dialect::Mysql => numbered.map(Placeholder::Number),
    }
}

fn plain(text: &str) -> Value {
    Value::SingleQuotedString(text.replace('\'', "''"))
}
