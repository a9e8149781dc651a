//! Where a chain ends: the last line of a file that is of the chain, and what stands behind it.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
};

use serde_json::Value;

use crate::audit::chain::{NO_TAG, Tag, hex, read_seq, sha256_hex, split_line};

/// Bytes that are looked at first, from the end.
const FIRST_LOOK: u64 = 16 * 1024;

/// Bytes of a first line at most.
const HEAD: u64 = 4 * 1024;

/// How a line of a chain begins.
const LINE_BEGINS: &[u8] = b"{\"seq\":";

/// Where a chain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::audit) struct Tail {
    /// The number of the last line.
    pub(in crate::audit) seq: u64,
    /// Its tag.
    pub(in crate::audit) tag: Tag,
}

impl Tail {
    /// Before the first line.
    pub(in crate::audit) const NONE: Self = Self {
        seq: 0,
        tag: NO_TAG,
    };

    /// The last line's tag in hexadecimal digits.
    pub(in crate::audit) fn mac(&self) -> String {
        hex(&self.tag)
    }
}

/// What begins a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::audit) struct Head {
    /// When, in milliseconds since 1970-01-01 UTC.
    pub(in crate::audit) time_ms: u64,
    /// The chain's id.
    pub(in crate::audit) chain: String,
    /// The id of its key.
    pub(in crate::audit) key: String,
    /// The tag of the line before, which stands in another file.
    pub(in crate::audit) before: Tag,
}

/// What stands behind the last line of the chain, as a crash or a full disk leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::audit) struct Torn {
    pub(in crate::audit) bytes: usize,
    pub(in crate::audit) sha256: String,
    /// Whether it has its line's end.
    pub(in crate::audit) is_ended: bool,
}

impl Torn {
    /// Of these bytes, none if there are none. A line's end at their end does not count.
    pub(in crate::audit) fn measure(bytes: &[u8]) -> Option<Self> {
        let (bytes, is_ended) = match bytes.strip_suffix(b"\n") {
            Some(bytes) => (bytes, true),
            None if bytes.is_empty() => return None,
            None => (bytes, false),
        };
        Some(Self {
            bytes: bytes.len(),
            sha256: sha256_hex(bytes),
            is_ended,
        })
    }
}

/// What a file of a chain says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::audit) struct Standing {
    /// Without a line of a chain there is none.
    pub(in crate::audit) begun: Option<(Head, Tail)>,
    /// Whether that line has not its line's end yet.
    pub(in crate::audit) is_open: bool,
    /// What stands behind it.
    pub(in crate::audit) torn: Option<Torn>,
}

/// Reads where the chain in `file` stands, which has `len` bytes.
///
/// # Errors
/// If it cannot be read, or holds other lines than a chain's.
pub(in crate::audit) fn read_standing(file: &mut File, len: u64) -> io::Result<Standing> {
    let other = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "its lines are no chain of records; move it away, or name another file",
        )
    };
    let mut look = FIRST_LOOK;
    let (bytes, at) = loop {
        let from = len.saturating_sub(look);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        (&mut *file).take(len - from).read_to_end(&mut bytes)?;
        match find_last_line(&bytes, from == 0) {
            Some(found) => break (bytes, Some(found)),
            None if from == 0 => break (bytes, None),
            None => look = look.saturating_mul(8),
        }
    };
    let Some((line, behind)) = at else {
        let is_ours = |line: &[u8]| {
            let most = line.len().min(LINE_BEGINS.len());
            line.get(..most) == LINE_BEGINS.get(..most)
        };
        // Half a first line is a chain that a crash ended; anything else is somebody's file.
        let is_begun = bytes.split(|byte| *byte == b'\n').all(is_ours);
        return if is_begun {
            Ok(Standing {
                begun: None,
                is_open: false,
                torn: Torn::measure(&bytes),
            })
        } else {
            Err(other())
        };
    };
    let (body, tag) = (bytes.get(line.clone()))
        .and_then(split_line)
        .ok_or_else(other)?;
    let tail = Tail {
        seq: read_seq(body).ok_or_else(other)?,
        tag,
    };
    let head = read_head(file)?.ok_or_else(other)?;
    Ok(Standing {
        begun: Some((head, tail)),
        is_open: line.end == bytes.len(),
        torn: Torn::measure(bytes.get(behind..).unwrap_or_default()),
    })
}

/// The place of the last line of a chain in `bytes`, and where what stands behind it begins. The first line counts only
/// if `is_whole`, because it may be half of one.
fn find_last_line(bytes: &[u8], is_whole: bool) -> Option<(std::ops::Range<usize>, usize)> {
    let mut end = bytes.len();
    loop {
        let start = bytes
            .get(..end)?
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map(|at| at + 1);
        if start.is_none() && !is_whole {
            return None;
        }
        let from = start.unwrap_or(0);
        let is_line =
            (split_line(bytes.get(from..end)?)).is_some_and(|(body, _)| read_seq(body).is_some());
        if is_line {
            return Some((from..end, bytes.len().min(end + 1)));
        }
        end = start?.checked_sub(1)?;
    }
}

/// What the first line that is one of a chain says; none if it begins no file.
pub(in crate::audit) fn read_head(file: &mut File) -> io::Result<Option<Head>> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(HEAD).read_to_end(&mut bytes)?;
    let mut lines = bytes.split(|byte| *byte == b'\n');
    Ok(lines
        .find(|line| split_line(line).is_some())
        .and_then(head_of))
}

/// What `line` says as the first of a file.
pub(in crate::audit) fn head_of(line: &[u8]) -> Option<Head> {
    let json: Value = serde_json::from_slice(line).ok()?;
    let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
    (json.get("kind").and_then(Value::as_str) == Some("begin")).then_some(())?;
    Some(Head {
        time_ms: json.get("time_ms").and_then(Value::as_u64)?,
        chain: text("chain")?,
        key: text("key")?,
        before: crate::audit::chain::unhex(text("before")?.as_bytes())?,
    })
}
