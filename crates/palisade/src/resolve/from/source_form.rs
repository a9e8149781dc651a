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
    encode(&format!("{FORM}{index}"), dialect)
}

/// The index of the source form for which `ident` stands.
fn form_index(ident: &Ident, dialect: Dialect) -> Option<usize> {
    let digits = ident.value.strip_prefix(FORM)?;
    let index = digits.parse().ok()?;
    (*ident == form_name(index, dialect)).then_some(index)
}

/// The first of such names in a printed text: what stands before it, its index, what stands after it.
pub(crate) fn form_place(text: &str, dialect: Dialect) -> Option<(&str, usize, &str)> {
    let quote = dialect.quote();
    let (before, rest) = text.split_once(FORM)?;
    let (index, after) = rest.split_once(quote)?;
    Some((before.strip_suffix(quote)?, index.parse().ok()?, after))
}

/// What such names begin with.
const FORM: &str = "\0form ";

impl<'a> Resolver<'a> {
    /// In our own output: the relation whose source form `query` is.
    pub(in crate::resolve) fn source_form(
        &mut self,
        query: &Query,
    ) -> Result<Option<Columns<'a>>, Rejection> {
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
    pub(in crate::resolve) fn named_form(
        &mut self,
        name: &ObjectName,
    ) -> Result<Option<Columns<'a>>, Rejection> {
        let Mode::Rewritten { forms, writes: _ } = self.mode else {
            return Ok(None);
        };
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
            return Ok(None);
        };
        let index = form_index(ident, self.catalog.dialect());
        match index.and_then(|index| forms.get(index)) {
            Some((id, SourceForm::Named)) => self.form_of(*id),
            Some((_, SourceForm::Tree(_))) | None => Ok(None),
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
            body: None,
        }))
    }
}
