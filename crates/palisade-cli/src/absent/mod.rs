//! Engines that were not built in. For each, its file here stands in the place of its module, and refuses by name.

use palisade::{
    catalog::Catalog,
    dialect::Dialect,
    guard::{Backend, BackendError, Completion, Introspect, RowSink, Ticket},
};

use crate::target::Problem;

/// The backend of such an engine: there is none.
pub(crate) enum Absent {}

/// That `engine` was not built in.
pub(crate) fn absent(engine: &str) -> Problem {
    Problem::new(
        format!("this palisade was built without {engine}"),
        "build it with `--features full`",
    )
}

impl Introspect for Absent {
    fn catalog(&self) -> &Catalog {
        match *self {}
    }

    async fn is_current(&self) -> Result<bool, BackendError> {
        match *self {}
    }

    async fn refreshed(&self) -> Result<Option<Self>, BackendError> {
        match *self {}
    }
}

impl Backend for Absent {
    fn dialect(&self) -> Dialect {
        match *self {}
    }

    async fn execute(
        &self,
        _: Ticket<'_>,
        _: &mut (dyn RowSink + Send),
    ) -> Result<Completion, BackendError> {
        match *self {}
    }
}
