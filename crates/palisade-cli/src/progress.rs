//! How far long work is, at a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use palisade_corpus::{PolicyTests, Step};

/// How often the line is drawn.
const EVERY: Duration = Duration::from_millis(150);

const UNCOUNTED: &str = "{spinner} {msg} · {elapsed}";

const COUNTED: &str = "{spinner} {msg} · {pos} of {len} · {elapsed}, about {eta} left";

/// A line that says how far work is, at standard error where that is a terminal. It is gone when this value is.
pub(crate) struct ProgressLine {
    bar: ProgressBar,
}

impl ProgressLine {
    /// Shows `what` and the time that it takes.
    pub(crate) fn begin(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(what);
        // A template that is none leaves the usual line.
        if let Ok(style) = ProgressStyle::with_template(UNCOUNTED) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(EVERY);
        Self { bar }
    }

    /// The same tests, whose work is counted on the line.
    pub(crate) fn follow(&self, tests: PolicyTests) -> PolicyTests {
        let bar = self.bar.clone();
        tests.telling(move |step| tell(&bar, step))
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn tell(bar: &ProgressBar, Step { what, done, total }: Step) {
    if done == 0 {
        if let Ok(style) = ProgressStyle::with_template(COUNTED) {
            bar.set_style(style);
        }
        bar.reset_eta();
        bar.set_length(total as u64);
        bar.set_message(what);
    }
    bar.set_position(done as u64);
}
