//! A mounted tree: the mount point, and the threads that serve it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Config, MountOption, Session, SessionACL};

use crate::fuse::filesystem::Kernel;
use crate::fuse::shared::Shared;
use crate::fuse::{errands, pusher};
use crate::options::Options;
use crate::tree::Tree;
use crate::upstream::{Sink, Upstream};

/// Threads that answer the kernel. None of them ever waits, so two are enough for any number of readers.
const KERNEL_THREADS: usize = 2;

/// Dead mounts on top of one another that are unmounted.
const STACKED_MAX: usize = 8;

/// Where to mount, and for which users.
#[derive(Clone, Debug)]
pub struct Place {
    /// An empty directory.
    pub directory: PathBuf,
    /// Other users may read it too.
    pub allow_other: bool,
    /// Owner and group of the files.
    pub owner: (u32, u32),
}

/// Why there is no mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel or fusermount3 has refused it.
    #[error("cannot mount at {}: {source}{}", directory.display(), advice(directory, source))]
    Refused {
        /// The mount point.
        directory: PathBuf,
        /// What the kernel or fusermount3 said.
        source: io::Error,
    },
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// What the user can do; errors of fusermount3 already say what is wrong.
fn advice(directory: &Path, error: &io::Error) -> &'static str {
    let text = error.to_string();
    match error.kind() {
        io::ErrorKind::NotFound if !Path::new(DEVICE).exists() => {
            "; this kernel has no /dev/fuse: `modprobe fuse` as root"
        }
        io::ErrorKind::NotFound if !directory.exists() => "; the directory must exist",
        io::ErrorKind::NotFound => {
            "; users mount through fusermount3, and it is not there: install the package fuse3, or mount as root"
        }
        io::ErrorKind::PermissionDenied if text.contains("user_allow_other") => {
            "; for other users /etc/fuse.conf must have user_allow_other"
        }
        io::ErrorKind::PermissionDenied => {
            "; the directory must be readable, and /dev/fuse open to users (mode 0666, as udev makes it)"
        }
        _ => "",
    }
}

/// An error without the newline that fusermount3 puts at its end.
fn one_line(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(_) => error,
        None => io::Error::new(error.kind(), error.to_string().trim_end().to_owned()),
    }
}

/// The kernel's door to file systems in user space.
const DEVICE: &str = "/dev/fuse";

/// A mounted tree. Dropping it unmounts it.
pub struct Mount {
    shared: Arc<Shared>,
    kernel: JoinHandle<()>,
    /// Those that do errands and push.
    workers: Vec<JoinHandle<()>>,
    directory: PathBuf,
}

impl Mount {
    /// Mounts the tree. `start` gets the sink and returns the upstream that brings values to it. `over` is called once when
    /// the tree is not mounted any more.
    pub fn start<E: From<MountError>>(
        place: &Place,
        options: Options,
        over: impl FnOnce() + Send + 'static,
        start: impl FnOnce(Arc<dyn Sink>) -> Result<Arc<dyn Upstream>, E>,
    ) -> Result<Self, E> {
        let shared = Shared::new(Tree::new(options, place.owner.0), place.owner);
        clear_dead(&place.directory);
        let refused =
            |source| MountError::Refused { directory: place.directory.clone(), source: one_line(source) };
        let session =
            Session::new(Kernel(shared.clone()), &place.directory, &config(place)).map_err(refused)?;
        let notifier = session.notifier();
        let upstream = start(shared.clone())?;
        let ends = shared.clone();
        let serve = move || {
            if let Err(error) = session.run() {
                tracing::warn!("the mount has ended: {error}");
            }
            ends.stop();
            over();
        };
        let (runs, pushes, directory) = (shared.clone(), shared.clone(), place.directory.clone());
        let kernel = thread("kernel", serve)?;
        let workers = vec![
            thread("errands", move || errands::run(&runs, &upstream))?,
            thread("push", move || pusher::run(&pushes, &notifier, &directory))?,
        ];
        Ok(Mount { shared, kernel, workers, directory: place.directory.clone() })
    }

    /// True after somebody has unmounted it.
    pub fn is_over(&self) -> bool {
        self.kernel.is_finished()
    }

    /// Unmounts, even while files are open: those give errors from then on.
    fn end(&mut self) {
        self.shared.stop();
        // Open descriptors keep the kernel's thread alive. Nobody waits for it: it ends with the process.
        if !self.is_over() {
            detach(&self.directory);
        }
        for worker in self.workers.drain(..) {
            // A panic of the thread was printed when it happened.
            let _ = worker.join();
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.end();
    }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, MountError> {
    std::thread::Builder::new().name(name.into()).spawn(run).map_err(MountError::Thread)
}

fn config(place: &Place) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("khz".into()),
        MountOption::Subtype("khz".into()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
        MountOption::NoAtime,
    ];
    config.acl = if place.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(KERNEL_THREADS);
    config
}

/// Unmounts a mount whose process was killed, so that the next one can take its place.
fn clear_dead(directory: &Path) {
    // The kernel's cache may still have its attributes: only an open shows that it is dead. The last request to the dead
    // process gives ECONNABORTED.
    let is_dead =
        |error: io::Error| matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED));
    for _ in 0..STACKED_MAX {
        if !std::fs::read_dir(directory).is_err_and(is_dead) {
            return;
        }
        tracing::info!("{} was mounted by a process that is dead: unmounting it first", directory.display());
        detach(directory);
    }
}

/// Unmounts a directory at once. Programs that have files open in it keep them until they close them.
pub fn detach(directory: &Path) -> bool {
    if rustix::mount::unmount(directory, rustix::mount::UnmountFlags::DETACH).is_ok() {
        return true;
    }
    let as_user =
        std::process::Command::new("fusermount3").args(["-u", "-q", "-z", "--"]).arg(directory).output();
    as_user.is_ok_and(|done| done.status.success())
}
