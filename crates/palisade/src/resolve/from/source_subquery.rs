//! Our own output: the source subqueries that stand in the place of relations with obligations.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query};

use crate::{
    catalog::RelationId,
    dialect::Dialect,
    rejection::Rejection,
    resolve::{Mode, PlacedSource, Resolver, scope::Columns},
    syntax::encode,
};

/// The name that stands for the source subquery at `index` in our own output: no text that is parsed holds its first
/// character.
pub(crate) fn source_name(index: usize, dialect: Dialect) -> Ident {
    encode(&format!("{PREFIX}{index}"), dialect)
}

/// The index of the source subquery for which `ident` stands.
fn source_index(ident: &Ident, dialect: Dialect) -> Option<usize> {
    let digits = ident.value.strip_prefix(PREFIX)?;
    let index = digits.parse().ok()?;
    (*ident == source_name(index, dialect)).then_some(index)
}

/// The first of such names in a printed text: what stands before it, its index, what stands after it.
pub(crate) fn find_source_name(text: &str, dialect: Dialect) -> Option<(&str, usize, &str)> {
    let quote = dialect.quote();
    let (before, rest) = text.split_once(PREFIX)?;
    let (index, after) = rest.split_once(quote)?;
    Some((before.strip_suffix(quote)?, index.parse().ok()?, after))
}

/// What such names begin with.
const PREFIX: &str = "\0source ";

impl<'a> Resolver<'a> {
    /// In our own output: the relation whose source subquery `query` is.
    pub(in crate::resolve) fn find_source_subquery(
        &mut self,
        query: &Query,
    ) -> Result<Option<Columns<'a>>, Rejection> {
        let Mode::Rewritten { sources, writes: _ } = self.mode else {
            return Ok(None);
        };
        let found = sources.iter().find(|(_, source)| match source {
            PlacedSource::Tree(tree) => *tree == query,
            PlacedSource::Named => false,
        });
        match found {
            Some((id, _)) => self.source_columns(*id),
            None => Ok(None),
        }
    }

    /// In our own output: the relation for whose source subquery `name` stands.
    pub(in crate::resolve) fn find_named_source(
        &mut self,
        name: &ObjectName,
    ) -> Result<Option<Columns<'a>>, Rejection> {
        let Mode::Rewritten { sources, writes: _ } = self.mode else {
            return Ok(None);
        };
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
            return Ok(None);
        };
        let index = source_index(ident, self.catalog.dialect());
        match index.and_then(|index| sources.get(index)) {
            Some((id, PlacedSource::Named)) => self.source_columns(*id),
            Some((_, PlacedSource::Tree(_))) | None => Ok(None),
        }
    }

    fn source_columns(&mut self, id: RelationId) -> Result<Option<Columns<'a>>, Rejection> {
        let Some(relation) = self.catalog.relation(id) else {
            return Ok(None);
        };
        self.access.relations.insert(id);
        let decision = self.visible.relation(id)?;
        Ok(Some(Columns::Relation {
            relation,
            decision,
            hidden_exist: false,
            bare: false,
            body: None,
        }))
    }
}
