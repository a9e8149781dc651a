//! Crates as they would be published: each packs, with all that it needs in it. `tests/tidy` holds that none includes a file from
//! outside of its folder.

use crate::run::{Result, cargo};

/// Members of the workspace that are not published.
const OWN: &[&str] = &[
    "palisade-benches",
    "palisade-eval",
    "palisade-examples",
    "palisade-testkit",
    "palisade-train",
    "xtask",
];

/// Packs each crate that is published.
pub(crate) fn check() -> Result {
    let mut args = vec![
        "package",
        "--workspace",
        "--no-verify",
        "--allow-dirty",
        "--quiet",
    ];
    for package in OWN {
        args.extend(["--exclude", package]);
    }
    cargo(&args)
}
