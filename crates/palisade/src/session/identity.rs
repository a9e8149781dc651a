//! What a verified credential says of a principal beside who it is: roles and attributes, for policies.

use std::collections::{BTreeMap, BTreeSet};

use crate::session::Principal;

/// What an attribute of a principal can be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// True or false.
    Boolean(bool),
    /// A set of texts.
    Texts(BTreeSet<String>),
}

/// Roles and attributes that a verified credential gives its principal, beside those of the operator's `entities.json`.
///
/// Roles of both count. Of an attribute that both have, that of `entities.json` holds. What the policies' schema does not know
/// denies everything. What a client only says of itself does not belong here.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    roles: BTreeSet<Principal>,
    attributes: BTreeMap<String, AttributeValue>,
}

impl Identity {
    /// The same with a role, for example `Role::"analyst"`.
    #[must_use]
    pub fn with_role(mut self, role: Principal) -> Self {
        self.roles.insert(role);
        self
    }

    /// The same with an attribute.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<String>, value: AttributeValue) -> Self {
        self.attributes.insert(name.into(), value);
        self
    }

    /// Its roles.
    #[must_use]
    pub fn roles(&self) -> &BTreeSet<Principal> {
        &self.roles
    }

    /// Its attributes.
    #[must_use]
    pub fn attributes(&self) -> &BTreeMap<String, AttributeValue> {
        &self.attributes
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.attributes.is_empty()
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let roles = self
            .roles
            .iter()
            .map(|role| role.kind().len() + role.id().len());
        let attributes = self.attributes.iter().map(|(name, value)| {
            name.len()
                + match value {
                    AttributeValue::Text(text) => text.len(),
                    AttributeValue::Number(_) | AttributeValue::Boolean(_) => 8,
                    AttributeValue::Texts(texts) => texts.iter().map(|text| text.len() + 24).sum(),
                }
        });
        roles.chain(attributes).map(|bytes| bytes + 48).sum()
    }
}
