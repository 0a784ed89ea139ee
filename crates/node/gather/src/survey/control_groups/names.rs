//! The kind of a control group, and the name that people use for it. Service managers, Slurm and container runtimes put numbers
//! into the names of groups; the names that belong to these numbers are in their own files. A name that is not found is left as a
//! number.
//!
//! | group | name |
//! |---|---|
//! | `system.slice/ssh.service` | the same |
//! | `system.slice/slurmstepd.scope/job_7/step_0` | `slurm/job_7/step_0`; where several daemons share a host, `slurm/NODE/job_7/step_0` |
//! | `system.slice/docker-ID.scope`, `docker/ID` | `docker/NAME` |
//! | `machine.slice/libpod-ID.scope` | `podman/NAME` |
//! | `kubepods.slice/.../kubepods-podUID.slice` | `pod/NAMESPACE/NAME`, and below it `pod/NAMESPACE/NAME/CONTAINER` |
//! | `lxc.payload.NAME` | `lxc/NAME` |
//!
//! Only the owner of all groups (root) gives such names, and only at the places where these programs make their groups: a group that
//! another user may have made, or that is elsewhere, keeps its path. Users may make groups in their own parts of the tree, with any
//! names.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Files that say names are read up to this size.
const NAMES_BYTES_MAX: u64 = 16 << 20;

/// The environment of a process is read up to this size.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;

/// To find the number of a job, khz searches at most this number of folders in its group, and this number of processes in each.
const JOB_FOLDERS_MAX: usize = 64;

/// Digits of an identifier that stand for a container without a name: as many as the runtimes' own commands show.
const SHORT_ID: usize = 12;

/// A control group as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The name of the instance.
    pub name: String,
    /// The name with the identifier, for the second container of one name; empty: the group is no container or pod, or is not where
    /// such groups are made.
    pub by_id: String,
    pub kind: &'static str,
    /// The identifier of a container, pod or job; else empty.
    pub id: String,
    /// False if the name is still a number.
    pub is_resolved: bool,
    /// False if what is below is no concern of the host: a container's own groups, the tasks of a step.
    pub has_parts: bool,
}

impl Named {
    /// The identifier of the container or pod that the group claims to be, if it is where such groups are made.
    pub fn claim(&self) -> Option<&str> {
        (!self.by_id.is_empty()).then_some(&*self.id)
    }

    fn plain(path: &str, kind: &'static str) -> Self {
        let (name, by_id, id) = (path.to_owned(), String::new(), String::new());
        Named { name, by_id, kind, id, is_resolved: true, has_parts: true }
    }
}

/// Finds names below a root.
pub(super) struct Names {
    /// `None`: it asks no files.
    root: Option<PathBuf>,
}

impl Names {
    /// Those that the files below this root say. They may be on a file server that is gone.
    pub fn new(root: &Path) -> Self {
        Names { root: Some(root.to_owned()) }
    }

    /// Those that the paths of groups say alone.
    pub fn of_paths() -> Self {
        Names { root: None }
    }

    /// A file or folder of the host.
    fn below(&self, path: &str) -> Option<PathBuf> {
        Some(self.root.as_ref()?.join(path))
    }

    /// The kind of the group at this path. `groups` is the folder of all groups. `None`: the group belongs to a manager itself, and
    /// is not surveyed.
    pub fn of(&self, groups: &Path, path: &str) -> Option<Named> {
        let parts: Vec<&str> = path.split('/').collect();
        let what = What::of(&parts);
        if !what.is_at_its_place(&parts) || !matches!(what, What::Unit(_)) && !is_of_owner(groups, path) {
            return Some(what.unnamed(path));
        }
        self.named(groups, path, &what, &parts)
    }

    /// The name of a group that root has made.
    fn named(&self, groups: &Path, path: &str, what: &What<'_>, parts: &[&str]) -> Option<Named> {
        match what {
            What::Slurm(at) => self.slurm(groups, path, parts.get(*at..)?),
            What::Pod(uid) => Some(self.pod(uid)),
            What::ContainerOfPod(uid, id) => Some(self.container_of_pod(uid, id)),
            What::Container(runtime, id) => Some(self.container(runtime, id)),
            What::Lxc(name) => Some(Named {
                name: format!("lxc/{name}"),
                by_id: format!("lxc/{name}"),
                id: (*name).to_owned(),
                has_parts: false,
                ..Named::plain(path, "container")
            }),
            What::Unit(kind) => Some(Named::plain(path, kind)),
        }
    }

    /// `parts` begins with the daemon's scope.
    fn slurm(&self, groups: &Path, path: &str, parts: &[&str]) -> Option<Named> {
        let host = slurm_host(parts.first()?)?;
        let begin = if host.is_empty() { String::from("slurm") } else { format!("slurm/{host}") };
        let [_, job, rest @ ..] = parts else { return Some(Named::plain(path, "scope")) };
        if *job == "system" {
            return None;
        }
        let number = match job.strip_prefix("job_") {
            Some(number) => Some(number.to_owned()),
            // Since Slurm 26.05 groups are called by the job's SLUID; its processes know the number.
            None => {
                let depth = path.split('/').count() - rest.len();
                let folder = path.split('/').take(depth).collect::<Vec<_>>().join("/");
                self.job_number(&groups.join(folder))
            }
        };
        let id = number.clone().unwrap_or_else(|| (*job).to_owned());
        let job = format!("{begin}/job_{id}");
        let is_resolved = number.is_some();
        let named = |name, kind, has_parts| Named {
            name,
            by_id: String::new(),
            kind,
            id: id.clone(),
            is_resolved,
            has_parts,
        };
        match rest {
            [] => Some(named(job, "job", true)),
            [step] => Some(named(format!("{job}/{step}"), "step", false)),
            _ => None,
        }
    }

    /// The job of the processes in this group, as their environment says it.
    fn job_number(&self, folder: &Path) -> Option<String> {
        let processes_of_host = self.below("proc")?;
        let mut folders = vec![folder.to_owned()];
        for _ in 0..JOB_FOLDERS_MAX {
            let folder = folders.pop()?;
            let processes = bounded(&folder.join("cgroup.procs"), NAMES_BYTES_MAX).unwrap_or_default();
            for process in processes.split(|&byte| byte == b'\n').take(JOB_FOLDERS_MAX) {
                let Ok(process) = std::str::from_utf8(process) else { continue };
                if process.is_empty() || process.bytes().any(|byte| !byte.is_ascii_digit()) {
                    continue;
                }
                let environment = processes_of_host.join(process).join("environ");
                let environment = bounded(&environment, ENVIRONMENT_BYTES_MAX).unwrap_or_default();
                let number =
                    environment.split(|&byte| byte == 0).find_map(|one| one.strip_prefix(b"SLURM_JOB_ID="));
                if let Some(number) =
                    number.filter(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
                {
                    return String::from_utf8(number.to_vec()).ok();
                }
            }
            let below = fs::read_dir(&folder).into_iter().flatten().flatten();
            folders.extend(
                below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()),
            );
        }
        None
    }

    fn container(&self, runtime: &'static str, id: &str) -> Named {
        let name = match runtime {
            "docker" => self.docker(id),
            "podman" => self.podman(id),
            _ => None,
        };
        Self::contained(format!("{runtime}/"), name, id)
    }

    fn contained(begin: String, name: Option<String>, id: &str) -> Named {
        let is_resolved = name.is_some();
        let by_id = format!("{begin}{}", short(id));
        let name = name.map_or_else(|| by_id.clone(), |name| begin + &name);
        Named { name, by_id, kind: "container", id: id.to_owned(), is_resolved, has_parts: false }
    }

    /// Docker keeps a file for each container.
    fn docker(&self, id: &str) -> Option<String> {
        let file = self.below("var/lib/docker/containers")?.join(id).join("config.v2.json");
        let config: Value = serde_json::from_slice(&bounded(&file, NAMES_BYTES_MAX)?).ok()?;
        named(config.get("Name")?.as_str()?.trim_start_matches('/'))
    }

    /// Podman keeps one file for all containers.
    fn podman(&self, id: &str) -> Option<String> {
        let file = self.below("var/lib/containers/storage/overlay-containers/containers.json")?;
        let all: Value = serde_json::from_slice(&bounded(&file, NAMES_BYTES_MAX)?).ok()?;
        let one = all.as_array()?.iter().find(|one| one.get("id").and_then(Value::as_str) == Some(id))?;
        named(one.get("names")?.as_array()?.first()?.as_str()?)
    }

    fn pod(&self, uid: &str) -> Named {
        let found = self.pod_name(uid);
        let is_resolved = found.is_some();
        let name = found.map_or_else(|| format!("pod/{uid}"), |(space, name)| format!("pod/{space}/{name}"));
        let by_id = format!("pod/{uid}");
        Named { name, by_id, kind: "pod", id: uid.to_owned(), is_resolved, has_parts: true }
    }

    fn container_of_pod(&self, uid: &str, id: &str) -> Named {
        let name = self.container_name(id);
        let pod = self.pod(uid);
        let is_resolved = pod.is_resolved && name.is_some();
        Named { is_resolved, ..Self::contained(format!("{}/", pod.name), name, id) }
    }

    /// The kubelet keeps the logs of a pod in a folder `NAMESPACE_NAME_UID`.
    fn pod_name(&self, uid: &str) -> Option<(String, String)> {
        let folders = fs::read_dir(self.below("var/log/pods")?).ok()?;
        folders.flatten().find_map(|folder| {
            let folder = folder.file_name().into_string().ok()?;
            let (space, name) = folder.strip_suffix(uid)?.strip_suffix('_')?.split_once('_')?;
            Some((named(space)?, named(name)?))
        })
    }

    /// And a link `POD_NAMESPACE_CONTAINER-ID.log` to the log of each container.
    fn container_name(&self, id: &str) -> Option<String> {
        let links = fs::read_dir(self.below("var/log/containers")?).ok()?;
        links.flatten().find_map(|link| {
            let link = link.file_name().into_string().ok()?;
            let rest = link.strip_suffix(".log")?.strip_suffix(id)?.strip_suffix('-')?;
            named(rest.splitn(3, '_').nth(2)?)
        })
    }
}

/// The kind of a group, by the names on its path.
enum What<'a> {
    /// Slurm's; its scope is the part with this number.
    Slurm(usize),
    Pod(String),
    /// A container (second identifier) of a pod (first identifier).
    ContainerOfPod(String, &'a str),
    /// A runtime and an identifier.
    Container(&'static str, &'a str),
    Lxc(&'a str),
    /// Nothing that has another name: its kind.
    Unit(&'static str),
}

impl<'a> What<'a> {
    fn of(parts: &[&'a str]) -> Self {
        let part = |before: usize| {
            let at = parts.len().checked_sub(before + 1);
            at.and_then(|at| parts.get(at)).copied().unwrap_or_default()
        };
        let (last, above, over) = (part(0), part(1), part(2));
        if let Some(at) = parts.iter().position(|part| slurm_host(part).is_some()) {
            return What::Slurm(at);
        }
        if let Some(uid) = pod(last).or_else(|| pod_of_cgroupfs(above, last)) {
            return What::Pod(uid);
        }
        if let Some((runtime, id)) = container(above, last) {
            return match pod(above).or_else(|| pod_of_cgroupfs(over, above)) {
                Some(uid) => What::ContainerOfPod(uid, id),
                None => What::Container(runtime, id),
            };
        }
        if let Some(name) = last.strip_prefix("lxc.payload.").or_else(|| (above == "lxc").then_some(last)) {
            return What::Lxc(name);
        }
        What::Unit(match last.rsplit_once('.') {
            Some((_, "slice")) => "slice",
            Some((_, "service")) => "service",
            Some((_, "scope")) => "scope",
            _ => "group",
        })
    }

    /// True if a group is where the program that makes such groups makes them: below slices of systemd, but not of users; without
    /// systemd, at the top.
    fn is_at_its_place(&self, parts: &[&str]) -> bool {
        let slices = slices(parts);
        let (rest, is_top) = (&parts[slices..], slices == 0);
        let is_of_users = parts.first() == Some(&"user.slice");
        let is_it = match self {
            What::Unit(_) => return true,
            What::Slurm(at) => *at == slices,
            What::Pod(_) => rest.is_empty() || is_top && rest.len() <= 3 && rest[0] == "kubepods",
            What::ContainerOfPod(..) => rest.len() == 1 || is_top && rest.len() <= 4 && rest[0] == "kubepods",
            // Without systemd, a top group may be above containers. With systemd, only slices are: groups that systemd makes at
            // the top end with `.scope`.
            What::Container(..) => {
                rest.len() == 1 || is_top && rest.len() == 2 && !rest.iter().any(|part| part.contains('.'))
            }
            What::Lxc(_) => rest.len() == 1 || rest.len() == 2 && rest[0] == "lxc",
        };
        is_it && !is_of_users
    }

    /// The group under its path, since what its names say may be made up.
    fn unnamed(&self, path: &str) -> Named {
        match self {
            What::Slurm(_) => Named::plain(path, "group"),
            What::Pod(uid) => Named { id: uid.clone(), ..Named::plain(path, "pod") },
            What::Container(_, id) | What::ContainerOfPod(_, id) | What::Lxc(id) => {
                Named { id: (*id).to_owned(), has_parts: false, ..Named::plain(path, "container") }
            }
            What::Unit(kind) => Named::plain(path, kind),
        }
    }
}

/// How many parts of a path are slices as systemd makes them: `a-b.slice` is in `a.slice`.
fn slices(parts: &[&str]) -> usize {
    let (mut above, mut count) = ("", 0);
    for name in parts.iter().map_while(|part| part.strip_suffix(".slice")) {
        let own = match above {
            "" => Some(name),
            above => name.strip_prefix(above).and_then(|rest| rest.strip_prefix('-')),
        };
        if own.is_none_or(|own| own.is_empty() || own.contains('-')) {
            break;
        }
        (above, count) = (name, count + 1);
    }
    count
}

/// True if only the owner of all groups can have made the group at this path: nobody else may write to the folders above it. (A runtime
/// may give the folder itself to the container's user.)
fn is_of_owner(groups: &Path, path: &str) -> bool {
    let Ok(top) = fs::metadata(groups) else { return false };
    let path = groups.join(path);
    path.ancestors().skip(1).take_while(|folder| *folder != groups).all(|folder| {
        fs::symlink_metadata(folder).is_ok_and(|found| {
            let mode = found.permissions().mode();
            let is_of_group = mode & 0o020 != 0 && found.gid() != top.gid();
            found.uid() == top.uid() && !is_of_group && mode & 0o002 == 0
        })
    })
}

/// The beginning of a file. A pipe or a device gives `None`, since reading it could wait.
fn bounded(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A name that a file says, if it can stand in the name of a group.
fn named(name: &str) -> Option<String> {
    let is_name = !name.is_empty() && !name.contains(|char: char| char.is_control() || char == '/');
    is_name.then(|| name.to_owned())
}

/// `slurmstepd.scope` (no host), or `HOST_slurmstepd.scope`.
fn slurm_host(part: &str) -> Option<&str> {
    let before = part.strip_suffix("slurmstepd.scope")?;
    if before.is_empty() { Some("") } else { before.strip_suffix('_') }
}

/// The runtime and identifier of a container, by the names of its group and of the one above it.
fn container<'a>(above: &str, last: &'a str) -> Option<(&'static str, &'a str)> {
    let scope = last.strip_suffix(".scope").unwrap_or(last);
    for (begin, runtime) in [
        ("docker-", "docker"),
        ("libpod-", "podman"),
        ("cri-containerd-", "containerd"),
        ("containerd-", "containerd"),
        ("crio-", "crio"),
        ("nerdctl-", "containerd"),
    ] {
        if let Some(id) = scope.strip_prefix(begin).filter(|id| is_id(id)) {
            return Some((runtime, id));
        }
    }
    let runtime = match above {
        "docker" => "docker",
        "libpod_parent" => "podman",
        _ if is_id(scope) => "container",
        _ => return None,
    };
    is_id(scope).then_some((runtime, scope))
}

/// 64 hexadecimal digits.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn short(id: &str) -> &str {
    id.get(..SHORT_ID).unwrap_or(id)
}

/// The identifier of a pod whose group systemd made: `kubepods-burstable-pod0123_4567.slice`.
fn pod(part: &str) -> Option<String> {
    let inner = part.strip_suffix(".slice")?;
    let (begin, uid) = inner.rsplit_once("-pod")?;
    (begin.starts_with("kubepods") && is_uid(uid)).then(|| uid.replace('_', "-"))
}

/// The same without systemd: `kubepods/burstable/pod0123-4567`.
fn pod_of_cgroupfs(above: &str, part: &str) -> Option<String> {
    let uid = part.strip_prefix("pod")?;
    (matches!(above, "kubepods" | "burstable" | "besteffort" | "guaranteed") && is_uid(uid))
        .then(|| uid.to_owned())
}

fn is_uid(text: &str) -> bool {
    text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests;
