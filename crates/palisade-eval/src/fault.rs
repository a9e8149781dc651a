//! What stops an evaluation. A disagreement does not.

use std::{io, path::PathBuf};

/// An error of the run itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A file of the folder cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A row or file is not of the form that the folder's README describes.
    #[error("`{path}`, line {line}: {source}")]
    Form {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// There is no place for the databases.
    #[error("cannot make a folder for the databases: {0}")]
    Folder(io::Error),
    /// A thread does not start.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A thread panicked; its hook reported why.
    #[error("a worker panicked")]
    Worker,
    /// The policies of the evaluation do not load over a catalog.
    #[error("policies over `{schema}`: {source}")]
    Policies {
        /// Which schema.
        schema: String,
        /// Why.
        source: palisade::error::Error,
    },
    /// A catalog made of a statement's names contradicts itself.
    #[error("`{id}`: {source}")]
    Derived {
        /// Which case.
        id: String,
        /// Why.
        source: palisade::catalog::CatalogError,
    },
    /// The results cannot be printed.
    #[error("cannot print: {0}")]
    Output(io::Error),
    /// The results cannot be made JSON.
    #[error("cannot print: {0}")]
    Json(#[from] serde_json::Error),
}
