//! The copy of the project in which mutants are made: all files that git does not ignore. Writes only files
//! that differ, so that cargo builds only what has changed; this also undoes changes that a stopped run has
//! left.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes `to` like the project at `root`.
pub fn copy(root: &Path, to: &Path) -> Result<(), String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    let listed = listed.map_err(|error| format!("cannot run git: {error}"))?;
    if !listed.status.success() {
        return Err(format!(
            "git cannot list the project's files: {}",
            String::from_utf8_lossy(&listed.stderr)
        ));
    }
    let names = String::from_utf8(listed.stdout).map_err(|_| "a file's name is not UTF-8")?;
    let names: BTreeSet<&Path> = names.split_terminator('\0').map(Path::new).collect();
    // git still lists a removed file, but it does not exist.
    let names: BTreeSet<&Path> = names.into_iter().filter(|name| root.join(name).is_file()).collect();
    let failed = |path: &Path, error: Error| format!("{}: {error}", path.display());
    for name in &names {
        copy_file(&root.join(name), &to.join(name)).map_err(|error| failed(&to.join(name), error))?;
    }
    let mut there = Vec::new();
    files(to, &mut there).map_err(|error| failed(to, error))?;
    for path in there {
        if path.strip_prefix(to).is_ok_and(|name| !names.contains(name)) {
            fs::remove_file(&path).map_err(|error| failed(&path, error))?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<(), Error> {
    let bytes = fs::read(from)?;
    match fs::read(to) {
        Ok(there) if there == bytes => return Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, bytes)?;
    // Scripts among the examples are run by tests.
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

/// All files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => files(&entry.path(), found)?,
            false => found.push(entry.path()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(root: &Path, words: &[&str]) {
        assert!(Command::new("git").args(words).current_dir(root).output().unwrap().status.success());
    }

    #[test]
    fn the_copy_is_corrected_and_unchanged_files_are_not_written() {
        let place = std::env::temp_dir().join(format!("khz-mutants-{}", std::process::id()));
        let (root, to) = (place.join("root"), place.join("to"));
        fs::create_dir_all(root.join("a")).unwrap();
        git(&root, &["init", "-q"]);
        for (name, text) in
            [("a/same", "1"), ("a/changed", "2"), ("gone", "3"), (".gitignore", "*.log\n"), ("x.log", "")]
        {
            fs::write(root.join(name), text).unwrap();
        }
        copy(&root, &to).unwrap();
        let written = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let before = written("a/same");
        fs::write(to.join("a/changed"), "a mutant").unwrap();
        fs::remove_file(root.join("gone")).unwrap();
        copy(&root, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/changed")).unwrap(), "2");
        assert_eq!(written("a/same"), before);
        let mut there = Vec::new();
        files(&to, &mut there).unwrap();
        there.sort();
        assert_eq!(there, [".gitignore", "a/changed", "a/same"].map(|name| to.join(name)));
        fs::remove_dir_all(place).unwrap();
    }
}
