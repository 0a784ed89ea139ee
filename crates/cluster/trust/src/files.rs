//! Files of keys and certificates. Reads them within a limit, reads secrets only when nobody else can, and
//! never overwrites a file by accident. Does not know what is in them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::TrustError;

/// A bundle of every public certificate authority has a quarter of this size.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a file that anybody may read.
pub fn read_public(path: &Path) -> Result<Vec<u8>, TrustError> {
    read_open(path, &mut open(path)?)
}

/// Reads a secret. The rule is PostgreSQL's: mode 0600 or less, or 0640 where root owns the file and lends it
/// to a group.
pub fn read_private(path: &Path) -> Result<Vec<u8>, TrustError> {
    let mut file = open(path)?;
    let about = file.metadata().map_err(|source| TrustError::Read { path: path.into(), source })?;
    let mode = about.mode() & 0o7777;
    let forbidden = if about.uid() == 0 { 0o037 } else { 0o077 };
    if about.is_file() && mode & forbidden != 0 {
        return Err(TrustError::Open { path: path.into(), mode });
    }
    read_open(path, &mut file)
}

fn open(path: &Path) -> Result<File, TrustError> {
    File::open(path).map_err(|source| TrustError::Read { path: path.into(), source })
}

fn read_open(path: &Path, file: &mut File) -> Result<Vec<u8>, TrustError> {
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|source| TrustError::Read { path: path.into(), source })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TrustError::TooLarge { path: path.into(), limit: FILE_BYTES_MAX });
    }
    Ok(bytes)
}

/// Writes a file with this mode, whole or not at all; keeps an existing file, unless `force`.
pub fn write_new(path: &Path, bytes: &[u8], mode: u32, force: bool) -> Result<(), TrustError> {
    let failed = |source| TrustError::Write { path: path.into(), source };
    let beside = beside(path);
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside) {
        // A killed writer left this file: nobody else writes this name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&beside).map_err(failed)?;
            OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)
        }
        opened => opened,
    }
    .map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    // A hard link fails where the name is taken; a rename replaces it.
    let placed = if force { fs::rename(&beside, path) } else { fs::hard_link(&beside, path) };
    let _ = fs::remove_file(&beside);
    placed.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => TrustError::Exists { path: path.into() },
        _ => failed(source),
    })
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn fresh(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("khz-trust-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let path = fresh("secret");
        write_new(&path, b"x", 0o600, false).unwrap();
        assert_eq!(read_private(&path).unwrap(), b"x");
        for (mode, is_open) in [(0o400, false), (0o644, true), (0o602, true), (0o604, true), (0o660, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(matches!(read_private(&path), Err(TrustError::Open { .. })), is_open, "{mode:o}");
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn nothing_is_overwritten_without_force() {
        let path = fresh("kept");
        write_new(&path, b"first", 0o644, false).unwrap();
        let error = write_new(&path, b"second", 0o600, false).unwrap_err();
        assert!(error.to_string().ends_with("is there already; --force overwrites it"), "{error}");
        assert_eq!(read_public(&path).unwrap(), b"first");
        write_new(&path, b"second", 0o600, true).unwrap();
        assert_eq!(read_public(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!beside(&path).exists());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_may_be_as_large_as_the_limit_and_no_larger() {
        let path = fresh("large");
        for (more, is_read) in [(0, true), (1, false)] {
            let bytes = vec![7; FILE_BYTES_MAX as usize + more];
            write_new(&path, &bytes, 0o600, true).unwrap();
            assert_eq!(read_private(&path).is_ok_and(|read| read == bytes), is_read, "{more} more");
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn endless_and_missing_files_are_named() {
        let error = read_public("/dev/zero".as_ref()).unwrap_err();
        assert_eq!(error.to_string(), "/dev/zero has more than 1048576 bytes");
        let error = read_public("/nonexistent/ca.pem".as_ref()).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nonexistent/ca.pem");
    }
}
