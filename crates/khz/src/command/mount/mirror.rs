//! `khz mount --shm`: its flags. `khz_client` keeps the snapshots of other nodes on this machine.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::Args;
use khz_client::{Access, Mirror, MirrorSettings};
use khz_model::Rate;

use crate::command::mount::keeper::Keeper;
use crate::show::outcome::{Failure, sentence};

/// The user's group may read the snapshots too, like the agent's own.
const MODE: u32 = 0o750;

/// The flags.
#[derive(Debug, Args)]
pub struct MirrorFlags {
    /// Keep the latest values of other nodes in shared memory below this directory, as DIR/NODE/snapshot
    /// (docs/shm.md); a directory on a tmpfs, as /dev/shm/khz-cluster. Without a mount point that is all.
    #[arg(long, value_name = "DIR")]
    pub shm: Option<PathBuf>,
    /// Which series of which nodes, as in `khz get`; may be given several times [default: all series of all nodes].
    #[arg(long, value_name = "PATTERN", requires = "shm")]
    shm_select: Vec<String>,
    /// How often; a rate faster than the nodes send is asked of them [default: as they send].
    #[arg(long, value_name = "RATE", requires = "shm")]
    shm_rate: Option<String>,
}

impl MirrorFlags {
    /// The chosen series and rate.
    pub fn want(&self) -> Result<MirrorSettings, Failure> {
        let patterns = match self.shm_select.as_slice() {
            [] => crate::command::patterns(&["*".to_owned()])?,
            texts => crate::command::patterns(texts)?,
        };
        let rate = self.shm_rate.as_deref().map(str::parse::<Rate>).transpose();
        let rate = rate.map_err(|error| Failure::usage(format!("--shm-rate: {}", sentence(&error))))?;
        Ok(MirrorSettings { patterns, rate })
    }

    /// Starts to keep snapshots, where `--shm` asks for it.
    pub fn start(&self, access: &Access) -> Result<Option<(Mirror, Keeper)>, Failure> {
        let Some(directory) = &self.shm else { return Ok(None) };
        let want = self.want()?;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(MODE)
            .create(directory)
            .map_err(|error| Failure::work(format!("cannot make {}: {error}", directory.display())))?;
        let keeper = keeper(directory)?;
        let mirror = Mirror::start(access, directory, &want);
        mirror.map(|mirror| Some((mirror, keeper))).map_err(|error| Failure::work(sentence(&error)))
    }
}

/// Takes the directory: two processes that kept the same one would remove each other's files.
fn keeper(directory: &Path) -> Result<Keeper, Failure> {
    let shown = directory.display();
    let taken =
        Keeper::take(directory).map_err(|error| Failure::work(format!("cannot lock {shown}: {error}")))?;
    taken.map_err(|other| {
        let other =
            other.map_or("another process".to_owned(), |pid| format!("process {}", pid.as_raw_nonzero()));
        Failure::work(format!("{other} keeps snapshots in {shown} already; `khz umount {shown}` ends it"))
    })
}
