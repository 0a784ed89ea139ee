//! `khz mount`: its flags, and the process that mounts the tree and stays until it is unmounted or gets a signal.

mod background;
pub mod keeper;
mod mirror;
mod options;

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use khz_client::Access;
use khz_link::driver::HubAddress;
use khz_model::Rate;
use khz_mount::{HubLink, Mount, MountError, Options, Place, Upstream};
use khz_trust::{ClientFiles, Role};

use self::mirror::MirrorFlags;
use self::options::MountOptions;
use crate::config::{NodeFlags, Plan, ReaderFlags};
use crate::role::signals;
use crate::role::systemd;
use crate::show::log;
use crate::show::outcome::{Done, Failure, Outcome, sentence};

/// Examples for `khz mount --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz mount /cluster                what the khz on this machine knows
  khz mount /cluster --hub hub1 --tls-ca ca.pem --token /etc/khz/token
  cat /cluster/node7/metrics/mem/free
  cat /cluster/node7/status         up or down, how old its rows are
  sort -nk2 /cluster/.by/load.1m | head -1
                                    the node with the lowest load
  echo 100Hz > /cluster/node7/.control/metrics/mem/free/rate
  echo '0 1GiB' > /cluster/node7/.control/metrics/mem/free/range
                                    show it only while it is below 1 GiB
  khz umount /cluster               or plain umount
  khz mount --shm /dev/shm/khz --shm-select 'node[1-8]:*' --shm-rate 10Hz
                                    snapshots of eight nodes in shared memory

A value is one line. While its file is open, khz puts new values into the page
cache: to read one costs no more than to read a cached file. poll(2), select and
epoll sleep until a new value arrives; inotify does not see new values. The
first open waits for the first value, at most 5s (-o wait=). Then it fails with
ETIMEDOUT. docs/mount.md has the details.

Options for -o:
  strict         files of nodes that are down give EIO, not their last value
  wait=DURATION  how long an open waits for a first value [default: 5s]
  budget=N       places at which one user may set a faster rate [default: 1024]
  allow_other    other users may read the tree too (always true of root's)
  cache_texts    open kernel files of up to 4 KiB come from the page cache: 20
                 times as fast, for programs that read a file with one call";

/// `khz mount`.
#[derive(Debug, Args)]
pub struct MountFlags {
    /// Where: an empty directory.
    #[arg(value_name = "DIR", required_unless_present = "shm")]
    directory: Option<PathBuf>,
    /// The hubs, the preferred one first [default: the khz on this machine].
    #[arg(long, value_name = "HOST[:PORT],...")]
    hub: Option<String>,
    /// Options, as mount(8) takes them; they are listed below.
    #[arg(short = 'o', value_name = "OPTION,...", value_delimiter = ',')]
    options: Vec<String>,
    /// Stay in the foreground, until Ctrl-C or SIGTERM.
    #[arg(short, long)]
    foreground: bool,
    /// Stay, and report to the process that started this one.
    #[arg(long, hide = true)]
    detached: bool,
    /// Snapshots beside the tree, or instead of it.
    #[command(flatten)]
    mirror: MirrorFlags,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Mounts the tree, in the foreground or in the background.
pub fn run(flags: MountFlags, outer: NodeFlags) -> Outcome {
    let (_, plan) = super::plan(flags.settings.clone().over(outer))?;
    log::start(plan.log);
    mount_with(&flags, &plan)
}

fn mount_with(flags: &MountFlags, plan: &Plan) -> Outcome {
    let options = options::read(&flags.options)?;
    let access = access(flags, plan)?;
    if flags.foreground || flags.detached {
        return stay(flags, &access, options);
    }
    // Errors are reported before anything goes to the background.
    access.settings().map_err(|error| Failure::usage(sentence(&error)))?;
    flags.mirror.want()?;
    background::start()
}

fn access(flags: &MountFlags, plan: &Plan) -> Result<Access, Failure> {
    let unusable = |error: &dyn std::error::Error| Failure::usage(sentence(error));
    let mut access = match &flags.hub {
        None => Access::local_in(plan.run_dir.as_deref()).map_err(|error| {
            Failure::work(format!("{error}; start `khz` or `khz hub`, or name a hub with --hub HOST"))
        })?,
        Some(text) => {
            let hubs = crate::config::addresses::hub_addresses(text).map_err(Failure::usage)?;
            Access::to(
                hubs.into_iter().map(|hub| HubAddress::Net { host: hub.host, port: hub.port }).collect(),
            )
        }
    };
    access.files = plan
        .trust
        .ca
        .as_ref()
        .map(|ca| ClientFiles { pair: plan.trust.pair.clone(), ..ClientFiles::new(ca) });
    access.token =
        plan.trust.token.as_ref().map(|token| token.read()).transpose().map_err(|error| unusable(&error))?;
    access.insecure = plan.insecure;
    access.run_dir.clone_from(&plan.run_dir);
    access.from = plan.bind;
    Ok(access)
}

/// Mounts, and returns when the tree is unmounted or a signal comes.
fn stay(flags: &MountFlags, access: &Access, chosen: MountOptions) -> Outcome {
    if flags.detached {
        // The mount survives the end of its terminal. It fails only where the process leads a session already.
        let _ = rustix::process::setsid();
    }
    let (over, ended) = tokio::sync::oneshot::channel();
    let runtime = signals::runtime()?;
    // First: where the mount fails, dropping this removes its files again.
    let mirror = flags.mirror.start(access)?;
    // Without a tree only a signal ends it.
    let (mount, kept) = match &flags.directory {
        Some(directory) => (Some(mount(directory, access, &chosen, over)?), None),
        None => (None, Some(over)),
    };
    runtime.block_on(async {
        let stop = signals::stop_signal()
            .map_err(|error| Failure::work(format!("cannot wait for signals: {error}")))?;
        announce(flags);
        systemd::ready();
        tokio::select! {
            () = stop => {}
            _ = ended => {}
        }
        systemd::stopping();
        Ok::<(), Failure>(())
    })?;
    drop((mount, mirror, kept));
    Ok(Done::Wholly)
}

/// Mounts the tree; `over` gets a message when it is unmounted.
fn mount(
    directory: &Path,
    access: &Access,
    chosen: &MountOptions,
    over: tokio::sync::oneshot::Sender<()>,
) -> Result<Mount, Failure> {
    let identity = access.identity().map_err(|error| Failure::usage(sentence(&error)))?;
    let settings = access.settings().map_err(|error| Failure::usage(sentence(&error)))?;
    let mut options = Options::new(ceiling(identity.role)?, &identity.role.to_string());
    options.strict = chosen.strict;
    options.cache_texts = chosen.cache_texts;
    options.wait = chosen.wait.map_or(options.wait, Into::into);
    options.budget = chosen.budget.unwrap_or(options.budget);
    let directory = place_of(directory)?;
    let is_root = rustix::process::geteuid().is_root();
    let place = Place {
        directory,
        allow_other: chosen.allow_other || is_root,
        owner: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    };
    let over = move || {
        // Where this process ends first, nothing receives it.
        let _ = over.send(());
    };
    let mount = Mount::start(&place, options, over, |sink| {
        let source = HubLink::start(settings, sink).map_err(MountError::Thread)?;
        Ok::<Arc<dyn Upstream>, MountError>(Arc::new(source))
    });
    mount.map_err(|error| Failure::work(sentence(&error)))
}

/// The fastest rate that a role may ask for.
fn ceiling(role: Role) -> Result<Rate, Failure> {
    let rates = [Rate::from_period(Rate::PERIOD_MIN), Rate::from_hz(khz_trust::READER_RATE_MAX_HZ)];
    let rate = rates.into_iter().flatten().find(|&rate| role.may_read_at(rate));
    rate.ok_or_else(|| Failure::usage(format!("the role {role} may not read")))
}

/// The absolute path of the mount point: it is unmounted by that.
fn place_of(directory: &Path) -> Result<PathBuf, Failure> {
    match std::fs::metadata(directory) {
        Ok(seen) if !seen.is_dir() => {
            return Err(Failure::usage(format!("{} is not a directory", directory.display())));
        }
        Ok(seen) if seen.ino() == 1 && directory.join(".mount/stats").exists() => {
            let directory = directory.display();
            return Err(Failure::usage(format!("{directory} is mounted already; `khz umount` it first")));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Failure::usage(format!("{} does not exist; make it first", directory.display())));
        }
        // The mount of a killed process is such an error. It is removed before the next mount.
        _ => {}
    }
    std::path::absolute(directory).map_err(|error| Failure::usage(error.to_string()))
}

/// The line that people see and scripts wait for.
fn announce(flags: &MountFlags) {
    let mut stdout = std::io::stdout().lock();
    let line = match (&flags.directory, &flags.mirror.shm) {
        _ if flags.detached => background::READY.to_owned(),
        (Some(directory), _) => format!("Kilohertz shows the cluster at {}", directory.display()),
        (None, Some(shm)) => format!("Kilohertz keeps snapshots below {}", shm.display()),
        (None, None) => String::new(),
    };
    // A mount does not end when its stdout is closed.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
