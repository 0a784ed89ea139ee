//! The file system that a guest begins with: a folder, packed as an archive that the kernel unpacks into memory.

use std::fs::{copy, create_dir_all, write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{debian, folder, run, static_khz};

/// Runs every line that the second serial line brings, and says between which marks its output stands, and how it ended.
const CONSOLE: &str = r#"#!/bin/busybox sh
exec < /dev/ttyS1 > /dev/ttyS1 2>&1
stty raw -echo
echo ready
while read -r number line; do
    echo "begin $number"
    sh -c "$line" < /dev/null 2>&1
    echo "end $number $?"
done
"#;

/// A file system in the making; the folder goes with it.
pub struct Image {
    root: PathBuf,
}

impl Image {
    /// One with busybox, the console's script, and the folders where a kernel shows itself.
    pub fn new(name: &str) -> Self {
        let root = folder().join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let image = Image { root };
        for folder in ["dev", "proc", "sys", "run", "tmp", "root", "etc"] {
            create_dir_all(image.root.join(folder)).expect("a folder can be made");
        }
        image
    }

    /// Copies a folder of this machine over it.
    pub fn lay_over(self, from: &Path) -> Self {
        run(Command::new("cp").args(["-a", "--no-preserve=ownership"]).arg(from.join(".")).arg(&self.root));
        self
    }

    /// Busybox under all its names, where nothing else has them, and the console's script.
    pub fn with_shell(self) -> Self {
        let (busybox, bin) = (debian::alone("busybox-static").join("bin/busybox"), self.root.join("bin"));
        create_dir_all(&bin).expect("a folder can be made");
        for name in run(Command::new(&busybox).arg("--list")).lines() {
            let places =
                ["bin", "sbin", "usr/bin", "usr/sbin"].map(|folder| self.root.join(folder).join(name));
            if places.iter().all(|place| place.symlink_metadata().is_err()) {
                symlink("busybox", bin.join(name)).expect("a link can be made");
            }
        }
        let _ = std::fs::remove_file(bin.join("busybox"));
        self.with_copy(&busybox, "bin/busybox").with_program("bin/console", CONSOLE)
    }

    /// A copy of a file of this machine.
    pub fn with_copy(self, from: &Path, to: &str) -> Self {
        copy(from, self.place(to)).unwrap_or_else(|error| panic!("cannot copy {}: {error}", from.display()));
        self
    }

    /// The program under test, without what only a debugger reads: that is four fifths of it.
    pub fn with_khz(self, to: &str) -> Self {
        run(Command::new("strip").arg("-o").arg(self.place(to)).arg(static_khz()));
        self
    }

    /// A file with this text.
    pub fn with_text(self, to: &str, text: &str) -> Self {
        write(self.place(to), text).unwrap_or_else(|error| panic!("cannot write {to}: {error}"));
        self
    }

    /// A script that can be started.
    pub fn with_program(self, to: &str, text: &str) -> Self {
        let image = self.with_text(to, text);
        std::fs::set_permissions(image.root.join(to), PermissionsExt::from_mode(0o755)).expect("it is ours");
        image
    }

    /// A folder of this machine, copied.
    pub fn with_folder(self, from: &Path, to: &str) -> Self {
        run(Command::new("cp").args(["-a", "--no-preserve=ownership"]).arg(from).arg(self.place(to)));
        self
    }

    /// A symbolic link.
    pub fn with_link(self, target: &str, to: &str) -> Self {
        symlink(target, self.place(to)).unwrap_or_else(|error| panic!("cannot link {to}: {error}"));
        self
    }

    /// Leaves out what nobody needs.
    pub fn without(self, folders: &[&str]) -> Self {
        folders.iter().for_each(|folder| drop(std::fs::remove_dir_all(self.root.join(folder))));
        self
    }

    /// Packs it; everything in it belongs to root.
    pub fn pack(self) -> PathBuf {
        let packed = self.root.with_extension("cpio");
        let pack = "cd \"$1\" && find . | bin/busybox cpio -o -H newc -R 0:0 > \"$2\"";
        run(Command::new("sh").args(["-c", pack, "sh"]).arg(&self.root).arg(&packed));
        packed
    }

    fn place(&self, to: &str) -> PathBuf {
        let place = self.root.join(to);
        create_dir_all(place.parent().expect("BUG: a file in the root")).expect("a folder can be made");
        place
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
