//! Lines of a stream, of bounded length.

use std::io::{self, BufRead as _, BufReader, Read};

/// Bytes of a line.
pub(crate) const LINE_BYTES: usize = 4 * 1024 * 1024;

/// A line with its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// It was longer than it may be, and is gone.
    TooLong,
}

/// Reads lines.
pub(crate) struct LineReader<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    is_too_long: bool,
    most: usize,
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(read: R, most: usize) -> Self {
        Self {
            read: BufReader::with_capacity(16 * 1024, read),
            line: Vec::new(),
            is_too_long: false,
            most,
        }
    }

    /// The next line; none at the end. What stands behind the last line end is no line.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = match self.read.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            if available.is_empty() {
                return Ok(None);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |at| at + 1);
            let part = available.get(..taken).unwrap_or(available);
            if self.line.len().saturating_add(taken) > self.most {
                self.is_too_long = true;
                self.line = Vec::new();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(part);
            }
            self.read.consume(taken);
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                return Ok(Some(if std::mem::take(&mut self.is_too_long) {
                    Line::TooLong
                } else {
                    Line::Whole(line)
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn lines_are_bounded() {
        let long = "x".repeat(50_000);
        let text = format!("a\n{long}\nbc\nrest");
        let mut lines = LineReader::new(text.as_bytes(), 100);
        assert_eq!(lines.next().unwrap(), Some(Line::Whole(b"a\n".to_vec())));
        assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
        assert_eq!(lines.next().unwrap(), Some(Line::Whole(b"bc\n".to_vec())));
        assert_eq!(lines.next().unwrap(), None);
    }
}
