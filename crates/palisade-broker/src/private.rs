//! Folders and files that only their owner can use, made so from the first moment.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

/// Why a folder or a file is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateError {
    /// Others than its owner may use it.
    #[error(
        "`{path}` has the mode {mode:04o}, which lets others use it\n  help: chmod {wanted:o} {path}"
    )]
    Wide {
        /// Where it is.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The mode it should have.
        wanted: u32,
    },
    /// It is another's.
    #[error(
        "`{path}` belongs to the user {owner}, and not to {wanted}\n  help: chown {wanted} {path}"
    )]
    Owner {
        /// Where it is.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Whose it should be.
        wanted: u32,
    },
    /// The group that is to use it cannot be given it.
    #[error(
        "`{path}` cannot be given to the group {group}: {error}\n  help: chgrp {group} {path}; or make this user one of the group's: `usermod --append --groups {group} NAME`, for a service `SupplementaryGroups={group}`"
    )]
    NoMember {
        /// Where it is.
        path: PathBuf,
        /// The group.
        group: u32,
        /// What the system says.
        error: io::Error,
    },
    /// It is a link, or something else.
    #[error(
        "`{path}` is not {wanted}; links are not followed\n  help: remove it, or name another folder"
    )]
    Kind {
        /// Where it is.
        path: PathBuf,
        /// What it should be.
        wanted: &'static str,
    },
    /// It is too long.
    #[error("`{path}` is longer than {most} bytes")]
    Long {
        /// Where it is.
        path: PathBuf,
        /// The most that is read, in bytes.
        most: u64,
    },
    /// The system refuses.
    #[error("`{path}`: {error}")]
    System {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// Names the path of what the system says.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> PrivateError + '_ {
    move |error| PrivateError::System {
        path: path.to_owned(),
        error,
    }
}

/// Who uses a folder beside its owner.
pub(crate) type Group = Option<u32>;

/// Makes a folder that only its owner can use, and whose files `group` can open by name. A folder that is there already is looked at, and
/// opened to the group where it is not yet.
pub(crate) fn open_folder(path: &Path, group: Group) -> Result<(), PrivateError> {
    let made = match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(at(path)(error)),
    };
    let metadata = fs::symlink_metadata(path).map_err(at(path))?;
    if !metadata.is_dir() {
        return Err(PrivateError::Kind {
            path: path.to_owned(),
            wanted: "a folder",
        });
    }
    check_mode(path, &metadata, folder_mode(group))?;
    if let Some(group) = group {
        let flags = flags(OFlags::NOFOLLOW | OFlags::DIRECTORY);
        let folder = OpenOptions::new().read(true).custom_flags(flags).open(path);
        give_to_group(&folder.map_err(at(path))?, path, group, 0o710)?;
    }
    // A file system without modes would take the folder and show another.
    let mode = fs::symlink_metadata(path).map_err(at(path))?.mode() & 0o777;
    if (made || group.is_some()) && mode != folder_mode(group) {
        return Err(PrivateError::Wide {
            path: path.to_owned(),
            mode,
            wanted: folder_mode(group),
        });
    }
    Ok(())
}

/// Gives a file or a folder to `group` under `mode`, if it is not yet.
fn give_to_group(file: &File, path: &Path, group: u32, mode: u32) -> Result<(), PrivateError> {
    let metadata = file.metadata().map_err(at(path))?;
    if metadata.gid() != group {
        std::os::unix::fs::fchown(file, None, Some(group)).map_err(|error| {
            PrivateError::NoMember {
                path: path.to_owned(),
                group,
                error,
            }
        })?;
    }
    if metadata.mode() & 0o777 != mode {
        let mode = fs::Permissions::from_mode(mode);
        file.set_permissions(mode).map_err(at(path))?;
    }
    Ok(())
}

fn folder_mode(group: Group) -> u32 {
    if group.is_some() { 0o710 } else { 0o700 }
}

/// Refuses what is another's, or has a wider mode than `wanted`.
fn check_mode(path: &Path, metadata: &Metadata, wanted: u32) -> Result<(), PrivateError> {
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own {
        return Err(PrivateError::Owner {
            path: path.to_owned(),
            owner: metadata.uid(),
            wanted: own,
        });
    }
    let mode = metadata.mode() & 0o777;
    if mode & !wanted != 0 {
        return Err(PrivateError::Wide {
            path: path.to_owned(),
            mode,
            wanted,
        });
    }
    Ok(())
}

/// Writes a file that only its owner can use, whole or not at all. What stood there is replaced.
pub(crate) fn write_file(path: &Path, bytes: &[u8], group: Group) -> Result<(), PrivateError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    // Left behind by a process that was killed.
    match fs::remove_file(&beside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(at(&beside)(error)),
    }
    let result =
        write_new(&beside, bytes, group).and_then(|()| rename(&beside, path).map_err(at(path)));
    if result.is_err() {
        let _ = fs::remove_file(&beside);
    }
    result
}

/// Renames a file, and has the disk know it.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_new(path: &Path, bytes: &[u8], group: Group) -> Result<(), PrivateError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(flags(OFlags::NOFOLLOW))
        .open(path)
        .map_err(at(path))?;
    if let Some(group) = group {
        give_to_group(&file, path, group, 0o640)?;
    }
    file.write_all(bytes).map_err(at(path))?;
    file.sync_all().map_err(at(path))
}

/// Reads a file that only its owner can change or read, `group` aside, which is given it; none where there is none.
pub(crate) fn read_file(
    path: &Path,
    most: u64,
    group: Group,
) -> Result<Option<Zeroizing<String>>, PrivateError> {
    let opened = OpenOptions::new()
        .read(true)
        // A pipe would be waited for.
        .custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
        .open(path);
    let kind = || PrivateError::Kind {
        path: path.to_owned(),
        wanted: "a file",
    };
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(kind());
        }
        Err(error) => return Err(at(path)(error)),
    };
    let metadata = file.metadata().map_err(at(path))?;
    if !metadata.is_file() {
        return Err(kind());
    }
    check_mode(path, &metadata, if group.is_some() { 0o640 } else { 0o600 })?;
    if let Some(group) = group {
        give_to_group(&file, path, group, 0o640)?;
    }
    read_bounded(&file, most, path).map(Some)
}

/// Reads a file that may be another's, as a relay does. Its mode is its owner's concern.
pub(crate) fn read_bounded(
    file: &File,
    most: u64,
    path: &Path,
) -> Result<Zeroizing<String>, PrivateError> {
    // With its room from the first, so that no part of it is left where it grew.
    let room = usize::try_from(most.saturating_add(1)).unwrap_or(usize::MAX);
    let mut text = Zeroizing::new(String::with_capacity(room.min(64 * 1024)));
    file.take(most.saturating_add(1))
        .read_to_string(&mut text)
        .map_err(at(path))?;
    if u64::try_from(text.len()).is_ok_and(|length| length > most) {
        return Err(PrivateError::Long {
            path: path.to_owned(),
            most,
        });
    }
    Ok(text)
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_there_is_opened_to_a_group_that_comes_later() {
        let dir = tempfile::tempdir().unwrap();
        let group = rustix::process::getegid().as_raw();
        let folder = dir.path().join("secret");
        open_folder(&folder, None).unwrap();
        let path = folder.join("token");
        write_file(&path, b"geheim", None).unwrap();
        open_folder(&folder, Some(group)).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o710);
        read_file(&path, 10, Some(group)).unwrap().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::metadata(&path).unwrap().gid(), group);
        // Without the group they are too wide again.
        let told = open_folder(&folder, None).unwrap_err().to_string();
        assert!(told.contains("chmod 700"), "{told}");
    }

    #[test]
    fn a_folder_is_made_private_and_refused_where_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        open_folder(&path, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        open_folder(&path, None).unwrap();
        for mode in [0o701, 0o710, 0o750, 0o777] {
            set_mode(&path, mode);
            let told = open_folder(&path, None).unwrap_err().to_string();
            let help = format!("chmod 700 {}", path.display());
            assert!(told.contains(&help), "{told}");
        }
        set_mode(&path, 0o700);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let told = open_folder(&link, None).unwrap_err().to_string();
        assert!(told.contains("is not a folder"), "{told}");
    }

    #[test]
    fn a_file_is_read_only_where_it_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        assert!(read_file(&path, 10, None).unwrap().is_none());
        write_file(&path, b"geheim", None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            read_file(&path, 10, None).unwrap().unwrap().as_str(),
            "geheim"
        );
        let told = read_file(&path, 5, None).unwrap_err().to_string();
        assert!(told.contains("longer than 5"), "{told}");
        for mode in [0o604, 0o640, 0o660] {
            set_mode(&path, mode);
            let told = read_file(&path, 10, None).unwrap_err().to_string();
            assert!(told.contains("chmod 600"), "{told}");
            assert!(!told.contains("geheim"), "{told}");
        }
        set_mode(&path, 0o600);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let told = read_file(&link, 10, None).unwrap_err().to_string();
        assert!(told.contains("is not a file"), "{told}");
        // It is the link that is replaced, and not what it leads to.
        write_file(&link, b"other", None).unwrap();
        assert_eq!(
            read_file(&path, 10, None).unwrap().unwrap().as_str(),
            "geheim"
        );
    }
}
