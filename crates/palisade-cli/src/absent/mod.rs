//! Engines that were not built in. For each, its file here stands in the place of its module, and refuses by name.

use crate::target::Problem;

/// That `engine` was not built in.
pub(crate) fn absent(engine: &str) -> Problem {
    Problem::new(
        format!("this palisade was built without {engine}"),
        "build it with `--features full`",
    )
}
