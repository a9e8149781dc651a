//! The engine's own relations in a catalog: those that policies name, as relations of the kind
//! [`System`](RelationKind::System), with the columns that the server has.

use std::sync::Arc;

use crate::catalog::{
    Catalog, CatalogBuilder, ColumnDef, DefaultValue, Relation, RelationDef, RelationId,
    RelationKind, TypeClass, builder, system_relations::SystemRelation,
};

impl CatalogBuilder {
    /// Says which columns a relation of the engine's own has on this server, in order. Without this its columns are taken to
    /// be those of all versions. It is no relation of the catalog by that, and no part of its version.
    #[must_use]
    pub fn system_relation(
        mut self,
        schema: impl AsRef<str>,
        name: impl AsRef<str>,
        columns: Vec<ColumnDef>,
    ) -> Self {
        let key = (schema.as_ref().to_lowercase(), name.as_ref().to_lowercase());
        self.system.insert(key, columns);
        self
    }
}

impl Catalog {
    /// The same catalog with these relations of the engine's own, and no others, after its own: for policies that name them.
    /// Ids and version stay.
    #[must_use]
    pub(crate) fn with_system(
        mut self,
        named: impl Iterator<Item = &'static SystemRelation>,
    ) -> Self {
        let own = self.relations.iter().filter(|r| r.system.is_none()).count();
        // They stand at the end: whatever comes before keeps its id.
        while self.relations.len() > own
            && let Some(last) = self.relations.pop_if(|last| last.system.is_some())
        {
            if let Some(ids) = self.by_key.get_mut(&last.key) {
                ids.retain(|id| *id != last.id);
            }
        }
        for known in named {
            let (schema, key): (Arc<str>, Arc<str>) =
                (known.schema.as_str().into(), known.name.as_str().into());
            let Ok(id) = u32::try_from(self.relations.len()) else {
                break;
            };
            if self.find_by_key(&schema, &key).is_some() {
                continue;
            }
            let mut columns = self.system_columns(known);
            let told = columns.len();
            let is_told = |name: &&String| {
                let mut columns = columns.iter();
                columns.any(|column| self.dialect.fold(&column.name) == **name)
            };
            let untold: Vec<_> = known.columns.iter().filter(|name| !is_told(name)).collect();
            columns.extend(untold.into_iter().map(|name| unknown(name)));
            let untold = columns.len() - told;
            let def = RelationDef::new(&*schema, &*key, RelationKind::System, columns);
            let names = (schema, Arc::clone(&key));
            // One that contradicts itself stays unknown, so that policies cannot name it.
            let made = builder::relation(self.dialect, RelationId(id), known.uid(), names, def);
            if let Ok(mut relation) = made {
                relation.untold = untold;
                self.by_key.entry(key).or_default().push(relation.id);
                self.relations.push(relation);
            }
        }
        self
    }

    /// The columns of a relation of the engine's own: those that the server has where it has told, else those of all versions.
    pub(crate) fn system_columns(&self, known: &SystemRelation) -> Vec<ColumnDef> {
        let key = (known.schema.clone(), known.name.clone());
        match self.system.get(&key) {
            Some(columns) => columns.clone(),
            None => known.columns.iter().map(|name| unknown(name)).collect(),
        }
    }
}

impl Relation {
    /// Whether the server has a column of a relation of its own and the column has been reviewed: a newer server may
    /// have others.
    pub(crate) fn is_reviewed(&self, index: usize) -> bool {
        let told = self.columns.len().saturating_sub(self.untold);
        let column = self.columns.get(index).filter(|_| index < told);
        let mut known = self.system.iter().flat_map(|known| &known.columns);
        column.is_some_and(|column| known.any(|name| *name == *column.key))
    }
}

/// A column of which no more than the name is known.
fn unknown(name: &str) -> ColumnDef {
    ColumnDef {
        name: name.to_owned(),
        type_name: String::new(),
        class: TypeClass::Other,
        nullable: true,
        collation: String::new(),
        generated: None,
        stored: false,
        filled: DefaultValue::Unknown,
    }
}
