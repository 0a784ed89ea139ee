//! `khz mount --shm`: which nodes' snapshots are kept on this machine, and where. The keeping is `khz_client`'s.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::Args;
use khz_client::{Access, Mirror, MirrorSettings};
use khz_model::Rate;

use crate::keeper::Keeper;
use crate::outcome::{Failure, sentence};

/// Who may read the snapshots: the user's group too, as with the agent's own.
const MODE: u32 = 0o750;

/// The flags.
#[derive(Debug, Args)]
pub struct MirrorFlags {
    /// Keep the latest values of other nodes in shared memory below this directory, as DIR/NODE/snapshot
    /// (docs/shm.md); a directory on a tmpfs, as /dev/shm/khz-cluster. Without a mount point that is all.
    #[arg(long, value_name = "DIR")]
    pub shm: Option<PathBuf>,
    /// Which series of which nodes, as in `khz get`; may be given several times [default: all of all].
    #[arg(long, value_name = "PATTERN", requires = "shm")]
    shm_select: Vec<String>,
    /// How often; faster than the nodes send anyway is asked of them [default: as they send].
    #[arg(long, value_name = "RATE", requires = "shm")]
    shm_rate: Option<String>,
}

impl MirrorFlags {
    /// What is wanted, checked.
    pub fn want(&self) -> Result<MirrorSettings, Failure> {
        let patterns = match self.shm_select.as_slice() {
            [] => crate::patterns(&["*".to_owned()])?,
            texts => crate::patterns(texts)?,
        };
        let rate = self.shm_rate.as_deref().map(str::parse::<Rate>).transpose();
        let rate = rate.map_err(|error| Failure::usage(format!("--shm-rate: {}", sentence(&error))))?;
        Ok(MirrorSettings { patterns, rate })
    }

    /// Begins, if it was asked for.
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

/// Two who kept the same directory would take each other's files away.
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
