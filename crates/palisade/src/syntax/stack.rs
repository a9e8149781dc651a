//! Room on the stack. The parser's own recursion limit does not count chains (`a OR b OR …`), and
//! cloning, comparing and dropping the tree recurse as well: a small stack aborts the process.

/// Runs `work` where the stack has room for trees of `levels` nested or chained nodes.
///
/// The bytes a level takes were measured on debug builds, whose frames are several times larger.
pub(crate) fn with_stack<T>(levels: usize, work: impl FnOnce() -> T) -> T {
    const BASE: usize = 768 * 1024;
    const PER_LEVEL: usize = if cfg!(debug_assertions) {
        96 * 1024
    } else {
        24 * 1024
    };
    let needed = BASE.saturating_add(levels.saturating_mul(PER_LEVEL));
    stacker::maybe_grow(needed, needed.saturating_mul(2), work)
}
