//! Processes that are measured.

use std::fs;

/// What the process `id` has resident, in MiB; NaN where the system does not tell.
#[must_use]
pub fn resident_mib(id: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
