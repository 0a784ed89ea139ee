//! Debian's packages, downloaded with this machine's apt and unpacked into a folder. Nothing is installed, and no script
//! of a package runs.

use std::fs::{create_dir_all, read_dir};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::{folder, run};

/// The kernel for virtual machines. It is small, and boots without modules.
const KERNEL: &str = "linux-image-cloud-amd64";

/// Allows one download at a time, since tests of one program run at the same time.
static FETCHING: Mutex<()> = Mutex::new(());

/// A kernel, unpacked.
pub struct Kernel {
    /// What QEMU boots.
    pub image: PathBuf,
    /// The folder of its modules.
    pub modules: PathBuf,
}

/// The newest kernel of this machine's Debian.
pub fn kernel() -> Kernel {
    let depends = run(Command::new("apt-cache").args(["depends", KERNEL]));
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let version = package.unwrap_or_else(|| panic!("apt knows no {KERNEL}: `apt-get update`?"));
    let unpacked = alone(&format!("linux-image-{version}"));
    Kernel {
        image: unpacked.join(format!("boot/vmlinuz-{version}")),
        modules: unpacked.join(format!("lib/modules/{version}")),
    }
}

/// A package without its dependencies, unpacked into its own folder.
pub fn alone(package: &str) -> PathBuf {
    let _one = FETCHING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let place = folder().join(package);
    unpacked(&place, |packages| {
        run(Command::new("apt-get").args(["-q", "download", package]).current_dir(packages));
    })
}

/// A package with all its dependencies, as on a machine where nothing is installed.
pub fn whole(package: &str) -> PathBuf {
    let _one = FETCHING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    unpacked(&folder().join(format!("{package}-whole")), |packages| {
        create_dir_all(packages.join("partial")).expect("a folder can be made");
        let options = ["-q", "-y", "--no-install-recommends", "--download-only"];
        let settings = ["Dir::State::status=/dev/null", "Debug::NoLocking=1", "APT::Sandbox::User="];
        let mut apt = Command::new("apt-get");
        apt.args(options).args(settings.iter().flat_map(|setting| ["-o", setting]));
        run(apt.arg(format!("-oDir::Cache::archives={}/", packages.display())).args(["install", package]));
    })
}

/// Unpacks, once, the packages that `fetch` puts into a folder. Returns the folder of their files.
fn unpacked(place: &Path, fetch: impl FnOnce(&Path)) -> PathBuf {
    let root = place.join("root");
    if root.exists() {
        return root;
    }
    let (packages, making) = (place.join("packages"), place.join("making"));
    let _ = std::fs::remove_dir_all(place);
    create_dir_all(&packages).expect("a folder can be made");
    fetch(&packages);
    for file in read_dir(&packages).expect("the folder can be read").flatten().map(|entry| entry.path()) {
        if file.extension().is_some_and(|ending| ending == "deb") {
            run(Command::new("dpkg").arg("-x").arg(&file).arg(&making));
        }
    }
    std::fs::rename(&making, &root).expect("packages were fetched");
    root
}
