//! What a parameter of the statement that runs holds.

use crate::{
    code::Code,
    rejection::Rejection,
    resolve::TokenParameter,
    value::{Params, Placeholder, Value},
};

/// What a parameter of the statement that runs holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bound {
    /// A parameter of the statement as it was written.
    Agent(Placeholder),
    /// A key.
    Secret(String),
    /// A parameter that must be a token, without its tag.
    Token(TokenParameter),
}

impl Bound {
    /// The statement's own parameter in whose place it stands.
    pub(in crate::rewrite) fn replaced(&self) -> Option<&Placeholder> {
        match self {
            Self::Token(token) => Some(&token.placeholder),
            Self::Agent(_) | Self::Secret(_) => None,
        }
    }

    /// The value, of the statement's `params`.
    pub(in crate::rewrite) fn value(&self, params: &Params) -> Result<Value, Rejection> {
        let given = |placeholder| {
            params.lookup(placeholder).cloned().ok_or_else(|| {
                let message = "a parameter the statement uses is not given";
                Rejection::new(Code::ParameterMismatch, message)
            })
        };
        match self {
            Self::Agent(placeholder) => given(placeholder),
            Self::Secret(text) => Ok(Value::text(text.clone())),
            Self::Token(token) => token.bind(given(&token.placeholder)?),
        }
    }
}
