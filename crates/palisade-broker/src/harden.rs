//! What hides the memory of this process.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Keeps other processes of the same user from reading this one: no core file, and no `/proc/PID/mem`, `environ` or `maps`. Files
/// that it makes from here on are its owner's alone. Call it before any secret is read.
///
/// # Errors
/// If the system refuses.
pub fn hide_memory() -> io::Result<()> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}
