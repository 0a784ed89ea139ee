//! The file system with which a guest boots: a folder, packed as an archive that the kernel unpacks into memory.

use std::fs::{copy, create_dir_all, write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{debian, folder, run, static_khz};

/// The script that runs each line of the second serial line. It prints a mark before the output, and a mark with the exit
/// code after it.
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

/// A file system that a test builds. The folder is removed when this is dropped.
pub struct Image {
    root: PathBuf,
}

impl Image {
    /// One with the folders that a kernel needs, such as `dev` and `proc`.
    pub fn new(name: &str) -> Self {
        let root = folder().join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let image = Image { root };
        for folder in ["dev", "proc", "sys", "run", "tmp", "root", "etc"] {
            create_dir_all(image.root.join(folder)).expect("a folder can be made");
        }
        image
    }

    /// Copies the content of a folder of this machine into it.
    pub fn lay_over(self, from: &Path) -> Self {
        run(Command::new("cp").args(["-a", "--no-preserve=ownership"]).arg(from.join(".")).arg(&self.root));
        self
    }

    /// Adds busybox, under each of its names that is not taken, and the console's script.
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

    /// Copies a file of this machine.
    pub fn with_copy(self, from: &Path, to: &str) -> Self {
        copy(from, self.place(to)).unwrap_or_else(|error| panic!("cannot copy {}: {error}", from.display()));
        self
    }

    /// Adds the program under test without its debug information, which is four fifths of it.
    pub fn with_khz(self, to: &str) -> Self {
        run(Command::new("strip").arg("-o").arg(self.place(to)).arg(static_khz()));
        self
    }

    /// Adds a file with this text.
    pub fn with_text(self, to: &str, text: &str) -> Self {
        write(self.place(to), text).unwrap_or_else(|error| panic!("cannot write {to}: {error}"));
        self
    }

    /// Adds a script that can be run.
    pub fn with_program(self, to: &str, text: &str) -> Self {
        let image = self.with_text(to, text);
        std::fs::set_permissions(image.root.join(to), PermissionsExt::from_mode(0o755)).expect("it is ours");
        image
    }

    /// Copies a folder of this machine.
    pub fn with_folder(self, from: &Path, to: &str) -> Self {
        run(Command::new("cp").args(["-a", "--no-preserve=ownership"]).arg(from).arg(self.place(to)));
        self
    }

    /// Adds a symbolic link.
    pub fn with_link(self, target: &str, to: &str) -> Self {
        symlink(target, self.place(to)).unwrap_or_else(|error| panic!("cannot link {to}: {error}"));
        self
    }

    /// Removes these folders.
    pub fn without(self, folders: &[&str]) -> Self {
        folders.iter().for_each(|folder| drop(std::fs::remove_dir_all(self.root.join(folder))));
        self
    }

    /// Packs it. Everything in it belongs to root.
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
