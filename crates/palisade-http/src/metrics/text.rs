//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write as _};

/// What names of all figures begin with.
const PREFIX: &str = "palisade_";

/// A page of figures.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// Begins the figures called `name`.
    pub(super) fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a text does not fail.
        let _ = writeln!(self.0, "# HELP {PREFIX}{name} {help}");
        let _ = writeln!(self.0, "# TYPE {PREFIX}{name} {kind}");
    }

    /// One of them.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, text)| format!("{label}=\"{}\"", escape(text)))
            .collect();
        let _ = match labels.is_empty() {
            true => writeln!(self.0, "{PREFIX}{name} {value}"),
            false => writeln!(self.0, "{PREFIX}{name}{{{}}} {value}", labels.join(",")),
        };
    }

    /// A figure without labels.
    pub(super) fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.begin(name, kind, help);
        self.sample(name, &[], value);
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_helps_are_one_line() {
        let mut page = Page::default();
        page.begin("x_total", "counter", "a\nb\\");
        page.sample("x_total", &[("a", "\"\n\\"), ("b", "c")], 1);
        page.one("y", "gauge", "Why.", 0.5);
        let expected = "# HELP palisade_x_total a\\nb\\\\\n# TYPE palisade_x_total counter\npalisade_x_total{a=\"\\\"\\n\\\\\",b=\"c\"} 1\n# HELP palisade_y Why.\n# TYPE palisade_y gauge\npalisade_y 0.5\n";
        assert_eq!(page.finish(), expected);
    }
}
