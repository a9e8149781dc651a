//! What hides the memory of this process, and closes what its parent left open.

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

/// Closes what the process that started this one left open, but standard input, output and error: a file or a pipe of an agent
/// has no business here. Call it before this process opens anything.
///
/// # Errors
/// If `/proc/self/fd` cannot be read.
#[cfg(target_os = "linux")]
pub fn close_inherited() -> io::Result<()> {
    let entries = std::fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // The list's own descriptor is closed by now.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Closes nothing: this system lists no descriptors of a process.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn close_inherited() -> io::Result<()> {
    Ok(())
}

/// Keeps the memory of this process out of the swap: whether the system lets it. Where memory that may be locked is limited,
/// none is, because an allocation beyond the limit would end the process.
#[must_use]
pub fn lock_memory() -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::{
            mm::{MlockAllFlags, mlockall},
            process::getrlimit,
        };

        let endless = Rlimit {
            current: None,
            maximum: None,
        };
        // An administrator's process may raise its own limit.
        let is_endless = getrlimit(Resource::Memlock).current.is_none()
            || setrlimit(Resource::Memlock, endless).is_ok();
        let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
        is_endless && mlockall(all).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    false
}
