//! `khz umount`: unmounts the file tree, or ends the process that keeps snapshots in a directory.

use std::path::PathBuf;

use clap::Args;

use super::mount::keeper;
use crate::show::outcome::{Done, Failure, Outcome};

/// Examples for `khz umount --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz umount /cluster
  khz umount /dev/shm/khz           ends the `khz mount --shm` that keeps it

It also works while programs have files open in the tree (plain umount fails
then), while the hub is away, and after the mount's process was killed.";

/// `khz umount`.
#[derive(Debug, Args)]
pub struct UmountFlags {
    /// Where it is mounted.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Unmounts.
pub fn run(flags: &UmountFlags) -> Outcome {
    if khz_mount::detach(&flags.directory) || keeper::end(&flags.directory) {
        return Ok(Done::Wholly);
    }
    let directory = flags.directory.display();
    Err(Failure::work(format!(
        "cannot unmount {directory}: it is neither a mount nor a directory of `khz mount --shm`, or not yours (see \
         /proc/self/mounts)"
    )))
}
