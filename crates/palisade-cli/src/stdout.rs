//! Standard output.

use std::io::Write as _;

use crate::exit::Failure;

/// Writes `text`, whole.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| Failure::output(&error))
}
