//! One policy in the place of all.

use palisade::policy::{PolicyFile, PolicySources};

/// The policy that permits everything.
pub(crate) const PERMIT_EVERYTHING: &str = "permit (principal, action, resource);";

/// `sources` with one policy in the place of all.
pub(crate) fn only(sources: &PolicySources, text: &str) -> PolicySources {
    PolicySources {
        policies: vec![PolicyFile {
            name: "only.cedar".to_owned(),
            text: text.to_owned(),
        }],
        ..sources.clone()
    }
}
