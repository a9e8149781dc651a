//! The test programs that are run, in their order.

/// A test program.
pub(super) struct Stage {
    pub(super) package: &'static str,
    /// `lib` for unit tests.
    pub(super) target: &'static str,
}

/// Quick ones first, then those that start servers, and last those that take long.
///
/// `tidy` and what reads sources or the manual is left out: it would notice the switches.
const STAGES: [Stage; 34] = [
    stage("palisade", "lib"),
    stage("palisade", "text_facts"),
    stage("palisade", "fence"),
    stage("palisade", "usages"),
    stage("palisade", "context"),
    stage("palisade-state", "lib"),
    stage("palisade-pool", "lib"),
    stage("palisade-ddl", "lib"),
    stage("palisade-corpus", "lib"),
    stage("palisade-corpus", "corpus"),
    stage("palisade-corpus", "portable"),
    stage("palisade-sqlite", "lib"),
    stage("palisade-sqlite", "oracle"),
    stage("palisade-testkit", "lib"),
    stage("palisade-mcp", "lib"),
    stage("palisade-cli", "lib"),
    stage("palisade-postgres", "lib"),
    stage("palisade-postgres", "ddl"),
    stage("palisade-postgres", "guard"),
    stage("palisade-postgres", "introspect"),
    stage("palisade-postgres", "live"),
    stage("palisade-postgres", "oracle"),
    stage("palisade-mysql", "lib"),
    stage("palisade-mysql", "introspect"),
    stage("palisade-mysql", "views"),
    stage("palisade-mysql", "live"),
    stage("palisade-testkit", "catalog"),
    stage("palisade-testkit", "reads"),
    stage("palisade-testkit", "changes"),
    stage("palisade-testkit", "promise"),
    stage("palisade-postgres", "promise"),
    stage("palisade-mcp", "protocol"),
    stage("palisade-cli", "cli"),
    stage("palisade-testkit", "infra"),
];

const fn stage(package: &'static str, target: &'static str) -> Stage {
    Stage { package, target }
}

/// The names of the targets but those of unit tests, each once.
pub(super) fn targets() -> impl Iterator<Item = &'static str> {
    let names: std::collections::BTreeSet<&str> = STAGES.iter().map(|stage| stage.target).collect();
    names.into_iter().filter(|name| *name != "lib")
}

pub(super) fn find(package: &str, target: &str) -> Option<&'static Stage> {
    STAGES
        .iter()
        .find(|stage| stage.package == package && stage.target == target)
}

/// Which comes first.
pub(super) fn rank(stage: &Stage) -> Option<usize> {
    STAGES
        .iter()
        .position(|other| other.package == stage.package && other.target == stage.target)
}
