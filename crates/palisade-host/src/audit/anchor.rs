//! Anchors: places of a chain that are kept elsewhere, so that a tail that was cut off is missed.

use std::{
    fmt,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    str::FromStr,
};

use serde_json::{Value, json};

use crate::audit::{chain::ChainPlace, files::open_to_append};

/// A place of a chain. As text it is one JSON line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// When it was taken, in milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// The name of the log's file.
    pub log: String,
    /// The chain's id.
    pub chain: String,
    /// The place.
    pub place: ChainPlace,
}

/// A line that is no anchor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is no anchor: a line of the file that `anchors` names is one")]
pub struct AnchorSyntaxError;

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            time_ms,
            log,
            chain,
            place,
        } = self;
        let line = json!({
            "time_ms": time_ms, "log": log, "chain": chain, "seq": place.seq, "mac": place.mac
        });
        write!(f, "{line}")
    }
}

impl FromStr for Anchor {
    type Err = AnchorSyntaxError;

    fn from_str(line: &str) -> Result<Self, AnchorSyntaxError> {
        let json: Value = serde_json::from_str(line).map_err(|_| AnchorSyntaxError)?;
        let number = |key: &str| json.get(key).and_then(Value::as_u64);
        let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
        let read = || {
            Some(Self {
                time_ms: number("time_ms")?,
                log: text("log")?,
                chain: text("chain")?,
                place: ChainPlace {
                    seq: number("seq")?,
                    mac: text("mac")?,
                },
            })
        };
        read().ok_or(AnchorSyntaxError)
    }
}

impl Anchor {
    /// Appends it to the file at `path`, and waits until it is on the disk; a new file gets mode 0600.
    pub(in crate::audit) fn append(&self, path: &Path) -> io::Result<()> {
        let mut file = open_to_append(path)?;
        // Half a line that a crash left stays one line.
        let is_whole = match file.metadata()?.len() {
            0 => true,
            len => {
                let mut last = [0];
                file.seek(SeekFrom::Start(len - 1))?;
                file.read_exact(&mut last)?;
                last == *b"\n"
            }
        };
        let begin = if is_whole { "" } else { "\n" };
        file.write_all(format!("{begin}{self}\n").as_bytes())?;
        file.sync_data()
    }
}
