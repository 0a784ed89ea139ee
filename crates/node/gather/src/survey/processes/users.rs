//! The names of users, by the host's own list.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of looks after which the list is read again.
const LOOKS: u32 = 60;

/// The largest list that is read.
const BYTES_MAX: u64 = 4 << 20;

/// Names by number.
pub(super) struct Users {
    file: PathBuf,
    names: HashMap<u32, String>,
    looks: u32,
}

impl Users {
    pub fn new(root: &Path) -> Self {
        Users { file: root.join("etc/passwd"), names: HashMap::new(), looks: 0 }
    }

    /// Begins a look.
    pub fn begin(&mut self) {
        if self.looks == 0 {
            let is_small =
                fs::metadata(&self.file).is_ok_and(|file| file.is_file() && file.len() <= BYTES_MAX);
            let list = if is_small { fs::read(&self.file).unwrap_or_default() } else { Vec::new() };
            self.names = String::from_utf8_lossy(&list).lines().rev().filter_map(entry).collect();
        }
        self.looks = (self.looks + 1) % LOOKS;
    }

    /// The user's name, or the number where the list has none: users of a directory service are not in it.
    pub fn name(&self, user: u32) -> String {
        self.names.get(&user).cloned().unwrap_or_else(|| user.to_string())
    }
}

/// `name:x:number:...`
fn entry(line: &str) -> Option<(u32, String)> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_names_a_user() {
        assert_eq!(entry("root:x:0:0:root:/root:/bin/bash"), Some((0, "root".to_owned())));
        for line in ["", "root", "root:x", ":x:0", "root:x:-1:0", "# root:x"] {
            assert_eq!(entry(line), None, "{line}");
        }
        let mut users = Users::new(Path::new("/"));
        users.begin();
        assert_eq!((users.name(0), users.name(4_294_967_294)), ("root".to_owned(), "4294967294".to_owned()));
    }
}
