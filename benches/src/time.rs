//! Times of things that are measured beside each other.

use std::time::Instant;

/// Times at which each piece of work is measured; the median of them is told.
const ROUNDS: usize = 101;

/// Median microseconds of one run of each piece of `work`, `runs` runs at a time. The pieces take turns,
/// so that a machine whose speed drifts does not show in their ratios.
#[must_use]
pub fn medians<const N: usize>(runs: u32, work: [&mut dyn FnMut(); N]) -> [f64; N] {
    medians_of(ROUNDS, runs, work)
}

/// As [`medians`], of so many rounds.
#[must_use]
pub fn medians_of<const N: usize>(
    rounds: usize,
    runs: u32,
    work: [&mut dyn FnMut(); N],
) -> [f64; N] {
    let mut times = [const { Vec::new() }; N];
    let mut work = work;
    for _ in 0..rounds {
        for (work, times) in work.iter_mut().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..runs {
                work();
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(runs));
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    })
}
