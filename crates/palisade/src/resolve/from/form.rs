//! Our own output: the source forms that stand in the place of relations with obligations.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query};

use crate::{
    catalog::RelationId,
    dialect::Dialect,
    rejection::Rejection,
    resolve::{Mode, Resolver, SourceForm, scope::Columns},
    syntax::encode,
};

/// The name that stands for the source form at `index` in our own output: no text that is parsed holds its first
/// character.
pub(crate) fn form_name(index: usize, dialect: Dialect) -> Ident {
    encode(&format!("\0form {index}"), dialect)
}

impl<'a> Resolver<'a> {
    /// In our own output: the relation whose source form `query` is.
    pub(super) fn source_form(&mut self, query: &Query) -> Result<Option<Columns<'a>>, Rejection> {
        let Mode::Rewritten { forms, writes: _ } = self.mode else {
            return Ok(None);
        };
        let found = forms.iter().find(|(_, form)| match form {
            SourceForm::Tree(form) => *form == query,
            SourceForm::Named => false,
        });
        match found {
            Some((id, _)) => self.form_of(*id),
            None => Ok(None),
        }
    }

    /// In our own output: the relation for whose source form `name` stands.
    pub(super) fn named_form(
        &mut self,
        name: &ObjectName,
    ) -> Result<Option<Columns<'a>>, Rejection> {
        let Mode::Rewritten { forms, writes: _ } = self.mode else {
            return Ok(None);
        };
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
            return Ok(None);
        };
        let dialect = self.catalog.dialect();
        let found = forms
            .iter()
            .enumerate()
            .find(|(index, (_, form))| match form {
                SourceForm::Tree(_) => false,
                SourceForm::Named => *ident == form_name(*index, dialect),
            });
        match found {
            Some((_, (id, _))) => self.form_of(*id),
            None => Ok(None),
        }
    }

    fn form_of(&mut self, id: RelationId) -> Result<Option<Columns<'a>>, Rejection> {
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
        }))
    }
}
