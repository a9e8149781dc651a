//! What the operator decides about the audit log: `[audit]` of the configuration, and options of the command line.

use std::{
    fmt,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use palisade_host::{AnchorCommand, AuditFile, AuditFileError, AuditKey, AuditOptions, AuditSync};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use toml::Spanned;

use crate::{
    config::{Grants, Reader},
    exit::Failure,
    key_file::{self, SECRET_BYTES},
    secret::{Password, Secret},
};

/// `[audit]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditTable {
    /// The file to which records are appended. `audit = "FILE"` at the top says this alone.
    pub(crate) file: Option<PathBuf>,
    /// The environment variable that holds the key of the chain, at least 32 bytes. `[grants]` must name it. Without a key, one is made in
    /// a file beside, with `.key` at the end of its name.
    pub(crate) key_env: Option<Spanned<String>>,
    /// The file that holds this key, instead of a variable. `[grants]` must name it. It is made where it is missing.
    pub(crate) key_file: Option<Spanned<PathBuf>>,
    /// The file to which anchors are appended. Without it, none are, and a cut tail goes unnoticed.
    pub(crate) anchors: Option<PathBuf>,
    /// A program with its arguments, which is run without a shell for each anchor, and gets it as a line on its standard input. A path is
    /// from the folder of the configuration. It takes anchors away from this machine.
    pub(crate) anchor_command: Option<Spanned<Vec<String>>>,
    /// Seconds after which this program is killed: 1 to 60. Without it, 10.
    pub(crate) anchor_command_seconds: Option<Spanned<u64>>,
    /// After how many records there is an anchor: 1 to 1000000. Without it, 1000.
    pub(crate) anchor_records: Option<Spanned<u64>>,
    /// After how many minutes: 1 to 1440. Without it, 10.
    pub(crate) anchor_minutes: Option<Spanned<u64>>,
    /// When records are forced to the disk: before each anchor, or each before its call is answered. Without it, `"anchor"`.
    pub(crate) sync: Option<Sync>,
    /// Thousands of bytes at which the file is renamed, and another one begun: 10 to 100000000. Without it, it grows.
    pub(crate) max_file_kb: Option<Spanned<u64>>,
    /// Hours after which it is renamed: 1 to 8784. Without it, it is not for its age.
    pub(crate) max_file_hours: Option<Spanned<u64>>,
    /// How many renamed files are kept: 1 to 1000000. It needs `anchors`. Without it, all.
    pub(crate) max_files: Option<Spanned<u64>>,
}

/// When records are forced to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sync {
    /// Before each anchor.
    Anchor,
    /// Each.
    Record,
}

/// `audit = "FILE"`, or `[audit]`.
pub(crate) struct Audit(pub(crate) AuditTable);

impl<'de> Deserialize<'de> for Audit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Audit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, or the table `[audit]`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Audit, E> {
                Ok(Audit(AuditTable {
                    file: Some(PathBuf::from(text)),
                    ..AuditTable::default()
                }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Audit, A::Error> {
                AuditTable::deserialize(MapAccessDeserializer::new(map)).map(Audit)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Numbers that the keys of `[audit]` take.
const ANCHOR_RECORDS: RangeInclusive<u64> = 1..=1_000_000;
const ANCHOR_MINUTES: RangeInclusive<u64> = 1..=1440;
const COMMAND_SECONDS: RangeInclusive<u64> = 1..=60;
const FILE_KB: RangeInclusive<u64> = 10..=100_000_000;
const FILE_HOURS: RangeInclusive<u64> = 1..=8784;
const FILES: RangeInclusive<u64> = 1..=1_000_000;

impl Reader<'_> {
    /// The audit log.
    pub(crate) fn audit(
        &self,
        audit: Option<Audit>,
        grants: &Grants,
    ) -> Result<AuditSetup, Failure> {
        let AuditTable {
            file,
            key_env,
            key_file,
            anchors,
            anchor_command,
            anchor_command_seconds,
            anchor_records,
            anchor_minutes,
            sync,
            max_file_kb,
            max_file_hours,
            max_files,
        } = audit.map(|Audit(table)| table).unwrap_or_default();
        let span = (key_env.as_ref().map(Spanned::span)).or(key_file.as_ref().map(Spanned::span));
        let keys = ("the key of the audit log", "`key_env` and `key_file`");
        let key = self.secret((key_env, key_file), keys)?;
        let refused = key.as_ref().and_then(|key| grants.refuse_unnamed(key));
        if let Some((message, help)) = refused {
            return Err(self.fault(&message, span, &help));
        }
        if let (Some(files), None) = (&max_files, &anchors) {
            return Err(self.fault(
                "`max_files` removes files, and nothing would show what they were",
                Some(files.span()),
                "name a file of `anchors` too",
            ));
        }
        let number = |value, limits| self.number(value, limits);
        let seconds = number(
            anchor_command_seconds,
            ("anchor_command_seconds", COMMAND_SECONDS),
        )?;
        let command = anchor_command.map(|words| match words.get_ref().split_first() {
            Some((program, arguments)) if !program.is_empty() => Ok(AnchorProgram {
                program: match program.contains('/') {
                    true => self.folder.join(program),
                    false => PathBuf::from(program),
                },
                arguments: arguments.to_vec(),
                timeout: Duration::from_secs(seconds.unwrap_or(10)),
            }),
            Some(_) | None => Err(self.fault(
                "`anchor_command` names no program",
                Some(words.span()),
                "write for example `anchor_command = [\"./keep-anchor.sh\"]`",
            )),
        });
        Ok(AuditSetup {
            file: file.map(|path| self.folder.join(path)),
            key,
            anchors: anchors.map(|path| self.folder.join(path)),
            anchor_command: command.transpose()?,
            anchor_records: number(anchor_records, ("anchor_records", ANCHOR_RECORDS))?,
            anchor_minutes: number(anchor_minutes, ("anchor_minutes", ANCHOR_MINUTES))?,
            sync,
            max_file_kb: number(max_file_kb, ("max_file_kb", FILE_KB))?,
            max_file_hours: number(max_file_hours, ("max_file_hours", FILE_HOURS))?,
            max_files: number(max_files, ("max_files", FILES))?,
        })
    }
}

/// Options of the command line.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AuditArguments {
    /// Append one JSON line a call to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// The key of the chain that its lines are; FILE.key beside it if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_key: Option<PathBuf>,
    /// Append anchors to this file, which shows lines that are cut off
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_anchors: Option<PathBuf>,
}

/// A program that takes anchors away from this machine.
#[derive(Debug, Clone)]
pub(crate) struct AnchorProgram {
    program: PathBuf,
    arguments: Vec<String>,
    timeout: Duration,
}

impl AnchorProgram {
    /// The command, if the program is there.
    fn command(&self) -> Result<AnchorCommand, Failure> {
        let Self {
            program,
            arguments,
            timeout,
        } = self;
        // A name alone is looked for when it is run.
        if program.components().count() > 1 && !program.is_file() {
            return Err(Failure::Configuration(format!(
                "error: there is no program `{}`, which `anchor_command` names\n  help: name a program that takes an anchor on its standard input, or leave the line out",
                program.display()
            )));
        }
        Ok(AnchorCommand {
            program: program.clone(),
            arguments: arguments.clone(),
            timeout: *timeout,
            on_failure: Arc::new(|why| tracing::error!("an anchor was not taken away: {why}")),
        })
    }
}

/// What the operator decides about the audit log.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditSetup {
    /// The log. Without it, nothing is recorded.
    pub(crate) file: Option<PathBuf>,
    /// Where the key is; without it, in a file beside.
    pub(crate) key: Option<Secret>,
    /// Where anchors go.
    pub(crate) anchors: Option<PathBuf>,
    /// What takes them away.
    pub(crate) anchor_command: Option<AnchorProgram>,
    pub(crate) anchor_records: Option<u64>,
    pub(crate) anchor_minutes: Option<u64>,
    pub(crate) sync: Option<Sync>,
    pub(crate) max_file_kb: Option<u64>,
    pub(crate) max_file_hours: Option<u64>,
    pub(crate) max_files: Option<u64>,
}

impl AuditSetup {
    /// With what the command line says, which wins.
    pub(crate) fn with(&self, arguments: &AuditArguments) -> Self {
        let AuditArguments {
            audit,
            audit_key,
            audit_anchors,
        } = arguments.clone();
        let setup = self.clone();
        Self {
            file: audit.or(setup.file),
            key: audit_key.map(Secret::File).or(setup.key),
            anchors: audit_anchors.or(setup.anchors),
            ..setup
        }
    }

    /// The log, if there is a file for it.
    pub(crate) fn open(&self) -> Result<Option<Arc<AuditFile>>, Failure> {
        let Some(path) = &self.file else {
            return match (&self.key, &self.anchors, &self.anchor_command) {
                (None, None, None) => Ok(None),
                // Of a connection that records nothing, too.
                (Some(_), _, _) | (_, Some(_), _) | (_, _, Some(_)) => Err(Failure::Usage(
                    "there is a key, or something for anchors, and no audit log\n  help: name the log, `--audit FILE`, or `file` under `[audit]`"
                        .to_owned(),
                )),
            };
        };
        let failed = |error: AuditFileError| {
            Failure::Usage(format!(
                "cannot write the audit log `{}`: {error}",
                path.display()
            ))
        };
        let usual = AuditOptions::new(None);
        let minutes = self.anchor_minutes.map(|minutes| 60 * minutes);
        let options = AuditOptions {
            key: self.key(path)?,
            anchors: self.anchors.clone(),
            anchor_command: (self.anchor_command.as_ref())
                .map(AnchorProgram::command)
                .transpose()?,
            anchor_every: self.anchor_records.unwrap_or(usual.anchor_every),
            anchor_after: minutes.map_or(usual.anchor_after, Duration::from_secs),
            sync: match self.sync {
                Some(Sync::Record) => AuditSync::Record,
                Some(Sync::Anchor) | None => AuditSync::Anchor,
            },
            max_file_bytes: self.max_file_kb.map(|kb| kb * 1000),
            max_file_age: (self.max_file_hours).map(|hours| Duration::from_secs(3600 * hours)),
            max_files: self.max_files,
        };
        let file = AuditFile::open(path, options).map_err(failed)?;
        Ok(Some(Arc::new(file)))
    }

    /// The key of the log at `path`. What is no file gets none unless one is named.
    fn key(&self, path: &Path) -> Result<Option<AuditKey>, Failure> {
        let metadata = std::fs::metadata(path).ok();
        let is_begun = metadata.as_ref().is_some_and(|log| log.len() > 0);
        let secret = match &self.key {
            None if metadata.is_some_and(|log| !log.is_file()) => return Ok(None),
            None => Secret::File(key_file::name_key_file(path)),
            Some(secret) => secret.clone(),
        };
        match &secret {
            Secret::File(file) if is_begun && !file.exists() => Err(Failure::Usage(format!(
                "the key of the audit log `{}` is not there, `{}`\n  help: bring it back, or move the log away; then another chain begins",
                path.display(),
                file.display()
            ))),
            Secret::File(file) => {
                if key_file::find_missing_folder(path).is_some() {
                    return Err(Failure::Usage(format!(
                        "cannot write the audit log `{}`: there is no such folder\n  help: make it",
                        path.display()
                    )));
                }
                let key = key_file::read_or_make(file, "the key of the audit log")?;
                derive_key(&secret, &key).map(Some)
            }
            Secret::Env(_) => read_key(&secret).map(Some),
        }
    }
}

/// The key of a chain that has begun.
pub(crate) fn read_key(secret: &Secret) -> Result<AuditKey, Failure> {
    derive_key(secret, &secret.read()?)
}

fn derive_key(secret: &Secret, text: &Password) -> Result<AuditKey, Failure> {
    if text.reveal().len() < SECRET_BYTES {
        return Err(Failure::Configuration(format!(
            "error: the key of the audit log, {secret}, is shorter than {SECRET_BYTES} bytes\n  help: make one by `openssl rand -hex 32`"
        )));
    }
    Ok(AuditKey::derive(text.reveal().as_bytes()))
}
