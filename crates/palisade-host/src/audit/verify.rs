//! Whether a log is what was written.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::audit::{
    anchor::Anchor,
    chain::{AuditKey, ChainPlace, Tag, hex, read_seq, sha256_hex, split_line},
    files::audit_log_of,
    tail::{Head, head_of, read_standing},
};

/// What is wrong, or odd, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFault {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; none of the file as a whole.
    pub line: Option<usize>,
    /// What is wrong with it.
    pub what: String,
}

/// What a log is found to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditVerdict {
    /// How many lines are as they were written.
    pub lines: u64,
    /// How many of the anchors name one of them.
    pub anchors: u64,
    /// The ids of its chains.
    pub chains: Vec<String>,
    /// The last line's place.
    pub last: Option<ChainPlace>,
    /// What is wrong.
    pub faults: Vec<AuditFault>,
    /// What is odd and has an honest cause that the chain tells.
    pub notes: Vec<AuditFault>,
}

/// Looks at every line of `files`, which are in any order, and at `anchors` that were kept elsewhere.
///
/// Without anchors, lines that were cut off at the end are not missed.
///
/// # Errors
/// If a file cannot be read.
pub fn verify_audit(
    files: &[PathBuf],
    key: &AuditKey,
    anchors: Option<&[Anchor]>,
) -> io::Result<AuditVerdict> {
    let mut verdict = AuditVerdict::default();
    let mut chains: BTreeMap<String, Vec<(u64, PathBuf)>> = BTreeMap::new();
    for path in files {
        match read_first(path)? {
            Some((head, _)) if head.key != key.id() => verdict.fault(
                path,
                Some(1),
                "it is chained under another key; name that key with `--key`",
            ),
            Some((head, seq)) => {
                let of_chain = chains.entry(head.chain).or_default();
                of_chain.push((seq, path.clone()));
            }
            None if path.metadata()?.len() == 0 => verdict.note(path, None, "it is empty"),
            None if is_half_begun(path)? => verdict.note(path, Some(1), HALF),
            None => verdict.fault(path, Some(1), "it begins no chain"),
        }
    }
    let mut found = BTreeMap::new();
    for (chain, mut files) in chains {
        files.sort();
        let mut walk = Walk::new(key, anchors.unwrap_or_default(), &chain, &mut verdict);
        for (_, file) in &files {
            walk.read(file)?;
        }
        let end = walk.finish(&files);
        found.insert(chain.clone(), end);
        verdict.chains.push(chain);
    }
    if let Some(anchors) = anchors {
        judge_anchors(&mut verdict, files, anchors, &found);
    }
    Ok(verdict)
}

/// Compares anchors with what a walk over the chains has found at their places.
fn judge_anchors(
    verdict: &mut AuditVerdict,
    files: &[PathBuf],
    anchors: &[Anchor],
    found: &BTreeMap<String, End>,
) {
    let mut of_this_log = 0_u64;
    for anchor in anchors {
        let ChainPlace { seq, mac } = &anchor.place;
        let Some(end) = found.get(&anchor.chain) else {
            let named = (files.iter()).find(|path| {
                audit_log_of(path)
                    .file_name()
                    .and_then(|name| name.to_str())
                    == Some(&anchor.log)
            });
            if let Some(path) = named {
                of_this_log += 1;
                let what = format!(
                    "the chain {} that an anchor names is not here",
                    anchor.chain
                );
                verdict.fault_once(path, None, &what);
            }
            continue;
        };
        of_this_log += 1;
        let path = end.file.as_path();
        if *seq > end.last {
            let what = format!(
                "its end was cut off: it ends at record {}, and an anchor names record {seq}",
                end.last
            );
            verdict.fault(path, None, &what);
        } else if *seq < end.first {
            // In a file that was removed.
        } else if end.at.get(seq) == Some(mac) {
            verdict.anchors += 1;
        } else {
            let what = format!("record {seq} is not the one that an anchor names");
            verdict.fault(path, None, &what);
        }
    }
    if of_this_log == 0 {
        let path = files.first().map_or(Path::new(""), PathBuf::as_path);
        verdict.fault(path, None, "no anchor is of this log; name its own anchors");
    }
}

impl AuditVerdict {
    fn fault(&mut self, file: &Path, line: Option<usize>, what: &str) {
        self.faults.push(AuditFault {
            file: file.to_owned(),
            line,
            what: what.to_owned(),
        });
    }

    fn fault_once(&mut self, file: &Path, line: Option<usize>, what: &str) {
        if !self.faults.iter().any(|fault| fault.what == what) {
            self.fault(file, line, what);
        }
    }

    fn note(&mut self, file: &Path, line: Option<usize>, what: &str) {
        self.notes.push(AuditFault {
            file: file.to_owned(),
            line,
            what: what.to_owned(),
        });
    }
}

/// Of a last line without its end.
const HALF: &str = "half a record: a crash left it, or it is being written";

/// Whether a file holds no more than half of its first line.
fn is_half_begun(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let standing = read_standing(&mut file, len);
    let torn = standing.ok().and_then(|standing| standing.torn);
    Ok(torn.is_some_and(|torn| !torn.is_ended))
}

/// What the first line of a chain in a file says, and its number.
fn read_first(path: &Path) -> io::Result<Option<(Head, u64)>> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let bare = line.strip_suffix(b"\n").unwrap_or(&line);
        if let Some((body, _)) = split_line(bare) {
            return Ok(head_of(bare).zip(read_seq(body)));
        }
        line.clear();
    }
    Ok(None)
}

/// Where a chain begins and ends, and the tags of the lines that anchors name.
struct End {
    /// The file in which it ends.
    file: PathBuf,
    first: u64,
    last: u64,
    at: BTreeMap<u64, String>,
}

/// Lines that are none of the chain. The next one has to tell of them.
struct Torn {
    file: PathBuf,
    line: usize,
    bytes: Vec<u8>,
}

struct Walk<'k> {
    key: &'k AuditKey,
    verdict: &'k mut AuditVerdict,
    /// The place of the line before.
    before: Option<(u64, Tag)>,
    first: Option<u64>,
    torn: Option<Torn>,
    /// Up to which line old files were removed, as a line says.
    removed: u64,
    /// The tags of the lines that anchors name.
    anchored: BTreeMap<u64, Option<String>>,
}

impl<'k> Walk<'k> {
    fn new(
        key: &'k AuditKey,
        anchors: &[Anchor],
        chain: &str,
        verdict: &'k mut AuditVerdict,
    ) -> Self {
        let of_chain = anchors.iter().filter(|anchor| anchor.chain == chain);
        Self {
            key,
            verdict,
            before: None,
            first: None,
            torn: None,
            removed: 0,
            anchored: of_chain.map(|anchor| (anchor.place.seq, None)).collect(),
        }
    }

    fn read(&mut self, file: &Path) -> io::Result<()> {
        let mut reader = BufReader::new(File::open(file)?);
        let (mut line, mut number, mut is_first) = (Vec::new(), 0, true);
        while reader.read_until(b'\n', &mut line)? > 0 {
            number += 1;
            match line.strip_suffix(b"\n") {
                Some(bare) => self.line((file, number), bare, &mut is_first),
                None if split_line(&line).is_some() => {
                    self.line((file, number), &line, &mut is_first);
                }
                None => self.verdict.note(file, Some(number), HALF),
            }
            line.clear();
        }
        self.drop_torn();
        Ok(())
    }

    fn line(&mut self, (file, number): (&Path, usize), line: &[u8], is_first: &mut bool) {
        let place = split_line(line).and_then(|(body, tag)| Some((body, read_seq(body)?, tag)));
        let Some((body, seq, tag)) = place else {
            match &mut self.torn {
                Some(torn) => {
                    torn.bytes.push(b'\n');
                    torn.bytes.extend_from_slice(line);
                }
                None => {
                    self.torn = Some(Torn {
                        file: file.to_owned(),
                        line: number,
                        bytes: line.to_vec(),
                    });
                }
            }
            return;
        };
        let head = std::mem::take(is_first).then(|| head_of(line)).flatten();
        let fault = match (self.before, &head) {
            // What stood before it is in a file that is not here; the line itself names its tag.
            (None, Some(head)) => {
                (self.key.tag(&head.before, body) != tag).then(|| was_edited(seq))
            }
            (None, None) => Some("it begins no chain".to_owned()),
            (Some((before, before_tag)), _) => match before.checked_add(1) {
                Some(next) if next == seq => {
                    (self.key.tag(&before_tag, body) != tag).then(|| was_edited(seq))
                }
                Some(next) if next < seq => Some(match seq - next {
                    1 => format!("record {next} before it is missing"),
                    _ => format!("records {next} to {} before it are missing", seq - 1),
                }),
                Some(_) | None => Some(format!(
                    "record {seq} stands behind record {before}: repeated, or out of order"
                )),
            },
        };
        let is_sound = fault.is_none();
        if let Some(what) = fault {
            self.verdict.fault(file, Some(number), &what);
        } else {
            self.verdict.lines += 1;
        }
        self.tell(line, is_sound, head.is_some());
        if let Some(anchored) = self.anchored.get_mut(&seq) {
            anchored.get_or_insert_with(|| hex(&tag));
        }
        self.first.get_or_insert(seq);
        self.verdict.last = Some(ChainPlace {
            seq,
            mac: hex(&tag),
        });
        self.before = Some((seq, tag));
    }

    /// Takes what a line says of the log itself.
    fn tell(&mut self, line: &[u8], is_sound: bool, is_head: bool) {
        // The first line of a file stands between half a line and the one that tells of it.
        if is_head && is_sound {
            return;
        }
        let json: Value = match is_sound {
            true => serde_json::from_slice(line).unwrap_or_default(),
            false => Value::Null,
        };
        let kind = json.get("kind").and_then(Value::as_str);
        if kind == Some("removed") {
            let through = json.get("through").and_then(Value::as_u64);
            self.removed = self.removed.max(through.unwrap_or_default());
        }
        let Some(torn) = self.torn.take() else { return };
        let told = json.get("sha256").and_then(Value::as_str);
        if kind == Some("torn") && told == Some(&sha256_hex(&torn.bytes)) {
            let what = "half a record that a crash left, of which the next one tells";
            self.verdict.note(&torn.file, Some(torn.line), what);
        } else {
            self.torn = Some(torn);
            self.drop_torn();
        }
    }

    /// No line tells of what is none.
    fn drop_torn(&mut self) {
        if let Some(torn) = self.torn.take() {
            let what = "it is no record of the chain: edited, or put there by somebody else";
            self.verdict.fault(&torn.file, Some(torn.line), what);
        }
    }

    fn finish(self, files: &[(u64, PathBuf)]) -> End {
        let first = self.first.unwrap_or(1);
        if let (2.., Some((_, file))) = (first, files.first()) {
            let before = first - 1;
            if self.removed >= before {
                let what = format!("records 1 to {before} were in old files, which were removed");
                self.verdict.note(file, None, &what);
            } else {
                let what = format!("records 1 to {before} are not here");
                self.verdict.fault(file, None, &what);
            }
        }
        End {
            file: files
                .last()
                .map_or_else(PathBuf::new, |(_, file)| file.clone()),
            first,
            last: self.before.map_or(0, |(seq, _)| seq),
            at: (self.anchored.into_iter())
                .filter_map(|(seq, tag)| Some((seq, tag?)))
                .collect(),
        }
    }
}

fn was_edited(seq: u64) -> String {
    format!("record {seq} was edited, or the one before it")
}
