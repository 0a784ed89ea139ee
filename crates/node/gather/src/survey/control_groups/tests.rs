//! Made-up trees of control groups, and real ones of this machine.

use std::collections::BTreeMap;
use std::time::Duration;

use khz_model::{Fault, Instance, Reading};
use khz_parse::{Parser, Subject, control_groups};

use super::*;
use crate::made_up::{MadeUp, Program};
use crate::survey::looks::{Looks, PATIENCE};

/// A root of made-up files.
struct Root(MadeUp);

impl Root {
    fn new(name: &str) -> Self {
        let root = Root(MadeUp::new(&format!("groups-{name}")));
        root.write("sys/fs/cgroup/cgroup.controllers", "cpu memory io pids");
        root
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        self.0.write(path, text);
    }

    /// A group with tasks.
    fn group(&self, path: &str) {
        let files =
            [("cgroup.events", "populated 1\nfrozen 0\n"), ("pids.current", "3\n"), ("pids.max", "max\n")];
        for (file, text) in files {
            self.write(&format!("sys/fs/cgroup/{path}/{file}"), text);
        }
    }

    /// A group, and those above it.
    fn group_with_parents(&self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        ends.for_each(|end| self.group(&path[..end]));
    }

    fn survey(&self) -> Groups {
        Groups(Looks::at(&self.0, Subject::ControlGroups))
    }
}

struct Groups(Looks);

impl Groups {
    fn look(&self) -> Parser {
        self.0.parse(&control_groups::FILE)
    }

    /// The names of the groups.
    fn names(&self) -> Vec<String> {
        named(&self.look()).into_keys().collect()
    }
}

/// The groups and their kinds.
fn named(parser: &Parser) -> BTreeMap<String, String> {
    let infos = parser
        .schema()
        .series()
        .iter()
        .enumerate()
        .filter(|(_, series)| &*series.metric.name == "cgroup.info");
    let kind = |(slot, series): (usize, &khz_model::Series)| {
        let labels = match parser.reading(slot) {
            Some(reading @ Reading::Labels(_)) => {
                let labels = reading.labels().unwrap();
                labels.iter().map(|(_, value)| value.to_owned()).collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        };
        (series.instance.as_ref().unwrap().name().to_owned(), labels)
    };
    infos.map(kind).collect()
}

fn get(parser: &Parser, metric: &str, group: &str) -> Option<Reading> {
    let slot = parser.schema().slot(metric, Some(&Instance::from_kernel(group.as_bytes())))?;
    parser.reading(slot as usize)
}

#[test]
fn each_group_with_tasks_has_its_numbers_and_says_what_it_is() {
    let root = Root::new("numbers");
    root.group("system.slice");
    root.group("system.slice/ssh.service");
    root.write(
        "sys/fs/cgroup/system.slice/ssh.service/cpu.stat",
        "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n",
    );
    root.write("sys/fs/cgroup/system.slice/ssh.service/memory.current", "4096\n");
    root.write("sys/fs/cgroup/system.slice/ssh.service/memory.max", "max\n");
    root.write("sys/fs/cgroup/system.slice/ssh.service/memory.events", "low 0\noom_kill 2\n");
    root.write(
        "sys/fs/cgroup/system.slice/ssh.service/io.stat",
        "8:0 rbytes=1 wbytes=2 rios=3 wios=4\n8:16 rbytes=10 wbytes=20 rios=30 wios=40\n",
    );
    root.write(
        "sys/fs/cgroup/system.slice/ssh.service/io.pressure",
        "some avg10=0.00 total=7\nfull avg10=0.00 total=x\n",
    );
    root.group("system.slice/empty.service");
    root.write("sys/fs/cgroup/system.slice/empty.service/cgroup.events", "populated 0\nfrozen 0\n");
    let parser = root.survey().look();
    assert_eq!(parser.reading(0), Some(Reading::Present(2)));
    let ssh = "system.slice/ssh.service";
    let expected = [("system.slice", "slice system.slice"), (ssh, "service system.slice/ssh.service")];
    assert_eq!(named(&parser), expected.map(|(name, info)| (name.to_owned(), info.to_owned())).into());
    for (metric, value) in [
        ("cgroup.cpu_usage", 1_500_000),
        ("cgroup.cpu_system", 500_000),
        ("cgroup.memory", 4_096),
        ("cgroup.memory_oom_kills", 2),
        ("cgroup.io_read", 11),
        ("cgroup.io_writes", 44),
        ("cgroup.io_waiting", 7),
        ("cgroup.tasks", 3),
    ] {
        assert_eq!(get(&parser, metric, ssh), Some(Reading::Present(value)), "{metric}");
    }
    assert_eq!(get(&parser, "cgroup.io_stalled", ssh), Some(Reading::Failed(Fault::Malformed)));
    for none in ["cgroup.memory_limit", "cgroup.memory_swap", "cgroup.cpu_throttled", "cgroup.tasks_limit"] {
        assert_eq!(get(&parser, none, ssh), None, "{none}");
    }
}

#[test]
fn two_containers_of_one_name_stay_apart_and_groups_beyond_the_limit_are_counted() {
    let root = Root::new("limit");
    for group in ["lxc", "lxc/mail", "lxc/mail/deeper", "lxc.payload.mail"] {
        root.group(group);
    }
    for id in ["1".repeat(64), "2".repeat(64)] {
        root.group(&format!("docker-{id}.scope"));
        root.write(&format!("var/lib/docker/containers/{id}/config.v2.json"), r#"{"Name":"/web"}"#);
    }
    let names = ["docker/222222222222", "docker/web", "lxc", "lxc.payload.mail", "lxc/mail"];
    assert_eq!(root.survey().names(), names);
    for number in 0..CONTROL_GROUPS_MAX {
        root.group(&format!("g{number}"));
    }
    let groups = root.survey();
    assert_eq!(groups.names().len(), CONTROL_GROUPS_MAX);
    assert_eq!(groups.0.survey.lock().left_out, [names.len() as u64]);
    let deep = (0..2 * CONTROL_GROUPS_DEPTH_MAX).map(|_| "deep").collect::<Vec<_>>().join("/");
    let root = Root::new("deep");
    root.group(&deep);
    let groups = root.survey();
    assert_eq!(groups.names().len(), CONTROL_GROUPS_DEPTH_MAX);
    // The group right below, with all that is in it.
    assert_eq!(groups.0.survey.lock().left_out, [1]);
    let problem = groups.0.survey.lock().problems[0].clone().unwrap_or_default();
    let expected = "1 control groups are left out: khz shows 2048, and 12 levels; ";
    assert!(problem.starts_with(expected), "{problem}");
}

#[test]
fn groups_that_were_shown_keep_their_places_and_gone_ones_give_theirs_to_new_ones() {
    let root = Root::new("places");
    for group in ["last.slice", "last.slice/a.service", "last.slice/b.service"] {
        root.group(group);
    }
    let groups = root.survey();
    let shown = || {
        let names = groups.names();
        let is = |name: &str| names.iter().any(|shown| shown == name);
        let old = ["last.slice", "last.slice/a.service", "last.slice/b.service"].map(is);
        (names.len(), old, groups.0.survey.lock().left_out[0])
    };
    assert_eq!(shown(), (3, [true; 3], 0));
    // By their names, these come before them.
    (0..CONTROL_GROUPS_MAX + 7).for_each(|number| root.group(&format!("g{number}")));
    assert_eq!(shown(), (CONTROL_GROUPS_MAX, [true; 3], 10));
    std::fs::remove_dir_all(root.0.join("sys/fs/cgroup/last.slice/a.service")).unwrap();
    assert_eq!(shown(), (CONTROL_GROUPS_MAX, [true, false, true], 9));
    root.group("a-new");
    assert_eq!(shown(), (CONTROL_GROUPS_MAX, [true, false, true], 10));
    let problem = groups.0.problem().unwrap_or_default();
    assert!(problem.starts_with("10 control groups are left out: "), "{problem}");
}

#[test]
fn the_path_of_a_container_of_kubernetes_is_whole() {
    let root = Root::new("long-path");
    let uid = "aaaaaaaa_1234_1234_1234_123456789abc";
    let pod = format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice");
    let container = format!("{pod}/cri-containerd-{}.scope", "0123456789abcdef".repeat(4));
    root.group_with_parents(&container);
    // Longer than the name of a group may be: it is cut.
    let (long, part) = ("l".repeat(200), "m".repeat(200));
    root.group_with_parents(&format!("{long}/{part}"));
    let parser = root.survey().look();
    let paths: Vec<String> = (0..parser.schema().len())
        .filter_map(|slot| Some(parser.reading(slot)?.labels()?.get("path")?.to_owned()))
        .collect();
    assert!(container.len() > 180 && paths.contains(&container), "{paths:?}");
    let cut = format!("{long}/{}…", "m".repeat(255 - 3 - 201));
    assert!(paths.contains(&cut), "{paths:?}");
}

#[test]
fn of_two_groups_that_claim_one_container_neither_has_its_name() {
    let root = Root::new("claims");
    let id = "1".repeat(64);
    root.write(&format!("var/lib/docker/containers/{id}/config.v2.json"), r#"{"Name":"/web"}"#);
    let scope = format!("system.slice/docker-{id}.scope");
    root.group("system.slice");
    root.group(&scope);
    // Where no runtime makes such a group, it claims nothing.
    let planted = format!("foo/docker-{id}.scope");
    root.group("foo");
    root.group(&planted);
    assert_eq!(
        root.survey().names(),
        ["docker/web".to_owned(), "foo".into(), planted.clone(), "system.slice".into()]
    );
    let other = format!("docker/{id}");
    root.group("docker");
    root.group(&other);
    let mut names = ["docker".to_owned(), other, "foo".into(), planted, "system.slice".into(), scope];
    names.sort();
    assert_eq!(root.survey().names(), names);
}

#[test]
fn what_a_group_would_be_called_may_be_the_path_of_another() {
    let root = Root::new("paths");
    let uid = "aaaaaaaa-1234-1234-1234-123456789abc";
    let slice = format!("kubepods.slice/kubepods-pod{}.slice", uid.replace('-', "_"));
    let job = "system.slice/slurmstepd.scope/job_7";
    let scope = format!("docker-{}.scope", "2".repeat(64));
    for group in [&slice, job, &scope] {
        root.group_with_parents(group);
    }
    for name in [&format!("pod/{uid}"), "slurm/job_7", "docker/222222222222"] {
        assert!(root.survey().names().iter().any(|known| known == name), "{name}");
        root.group_with_parents(name);
    }
    let names = root.survey().names();
    for path in [&slice, job, &scope, &format!("pod/{uid}"), "slurm/job_7", "docker/222222222222"] {
        assert_eq!(names.iter().filter(|name| name == &path).count(), 1, "{path} in {names:?}");
    }
}

#[test]
fn a_file_of_names_that_is_none_or_hangs_leaves_one_name_open_and_all_numbers_come() {
    let root = Root::new("hanging-names");
    let (ids, scope) =
        (["1", "2", "3"].map(|digit| digit.repeat(64)), |id: &str| format!("docker-{id}.scope"));
    let config = |id: &str| format!("var/lib/docker/containers/{id}/config.v2.json");
    ids.iter().for_each(|id| root.group(&scope(id)));
    root.write(&config(&ids[0]), r#"{"Name":"/web"}"#);
    // Nobody writes into the pipe.
    root.write(&config(&ids[1]), "");
    let pipe = root.0.join(config(&ids[1]));
    fs::remove_file(&pipe).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let named = ["docker/222222222222", "docker/333333333333", "docker/web"];
    assert_eq!(root.survey().names(), named);
    // And a file system that does not answer.
    let place = root.0.join(format!("var/lib/docker/containers/{}", ids[2]));
    fs::create_dir_all(&place).unwrap();
    let held: Held = std::sync::Arc::new(Mutex::new(Some(Vec::new())));
    let mut config = fuser::Config::default();
    config.mount_options = vec![fuser::MountOption::FSName("silent".into()), fuser::MountOption::RO];
    let mount = match fuser::spawn_mount(Silent(held.clone()), &place, &config) {
        Ok(mount) => mount,
        Err(error) => return khz_skip::skip(format!("a FUSE file system, as root: {error}")),
    };
    let release = Release(held);
    let groups = root.survey();
    let survey = &groups.0.survey;
    let stuck_after = khz_model::Nanos::from_millis(100);
    while !survey.want(u64::MAX) {}
    survey.wait_and_give_up(stuck_after, khz_model::Nanos::from_secs(60));
    assert_eq!(survey.lock().threads.stuck(), 1);
    assert_eq!(groups.names(), named);
    let tasks = get(&groups.look(), "cgroup.tasks", "docker/333333333333");
    assert_eq!(tasks, Some(Reading::Present(3)));
    let survey = survey.clone();
    drop(release);
    drop(groups);
    // A file system whose files a thread asks for cannot be taken away.
    let begun = std::time::Instant::now();
    while std::sync::Arc::strong_count(&survey) > 1 {
        assert!(begun.elapsed() < PATIENCE, "a thread does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(mount);
}

/// The questions that are not answered yet; `None`: they are answered at once.
type Held = std::sync::Arc<Mutex<Option<Vec<fuser::ReplyEntry>>>>;

/// A file system that answers no question about its files.
struct Silent(Held);

impl fuser::Filesystem for Silent {
    fn lookup(&self, _: &fuser::Request, _: fuser::INodeNo, _: &std::ffi::OsStr, reply: fuser::ReplyEntry) {
        match &mut *self.0.lock().unwrap() {
            Some(held) => held.push(reply),
            None => reply.error(fuser::Errno::ENOENT),
        }
    }
}

/// Answers what is held, whatever becomes of the test.
struct Release(Held);

impl Drop for Release {
    fn drop(&mut self) {
        let held = self.0.lock().unwrap().take();
        held.into_iter().flatten().for_each(|reply| reply.error(fuser::Errno::ENOENT));
    }
}

#[test]
fn a_host_without_version_2_of_control_groups_has_none() {
    let root = Root::new("none");
    fs::remove_file(root.0.join("sys/fs/cgroup/cgroup.controllers")).unwrap();
    assert_eq!(root.survey().0.bytes(), Err(Errno::NOENT));
}

/// A group of this machine, removed at the end.
struct RealGroup(PathBuf);

impl RealGroup {
    fn make(name: &str) -> Result<Self, String> {
        let top = control_groups_folder(Path::new("/")).ok_or("no control groups of version 2")?;
        let path = top.join(name);
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(RealGroup(path))
    }
}

impl Drop for RealGroup {
    fn drop(&mut self) {
        // The kernel needs a moment until a killed process has left.
        for _ in 0..1_000 {
            match fs::remove_dir(&self.0) {
                Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

#[test]
fn groups_of_the_kernel_are_seen_when_they_come_fill_empty_and_go() {
    let groups = Groups(Looks::at(Path::new("/"), Subject::ControlGroups));
    let name = format!("khz-test-{}", std::process::id());
    let group = match RealGroup::make(&name) {
        Ok(group) => group,
        Err(lacking) => return khz_skip::skip(format!("control groups of the kernel: {lacking}")),
    };
    let has = |parser: &Parser| named(parser).contains_key(&name);
    assert!(!has(&groups.look()), "it has no tasks");
    let child = Program::script("exec sleep 1000");
    fs::write(group.0.join("cgroup.procs"), child.id().to_string()).unwrap();
    // The kernel tells of it a little later.
    let begun = std::time::Instant::now();
    let parser = loop {
        let parser = groups.look();
        if has(&parser) {
            break parser;
        }
        assert!(begun.elapsed() < PATIENCE, "it is not there");
        std::thread::sleep(Duration::from_millis(10));
    };
    let used = get(&parser, "cgroup.cpu_usage", &name);
    assert!(matches!(used, Some(Reading::Present(_))), "{used:?}");
    drop(child);
    // The group is empty when the kernel has let the process go.
    let begun = std::time::Instant::now();
    while has(&groups.look()) {
        assert!(begun.elapsed() < PATIENCE, "it is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    let inner = RealGroup::make(&format!("{name}/inner")).unwrap();
    let child = Program::script("exec sleep 1000");
    fs::write(inner.0.join("cgroup.procs"), child.id().to_string()).unwrap();
    let begun = std::time::Instant::now();
    loop {
        let names = groups.names();
        if names.contains(&name) && names.contains(&format!("{name}/inner")) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{names:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(child);
    // A service that is started again has another group of the same name. The group above it has tasks all the time.
    let other = Program::script("exec sleep 1000");
    fs::write(group.0.join("cgroup.procs"), other.id().to_string()).unwrap();
    drop(inner);
    let inner = RealGroup::make(&format!("{name}/inner")).unwrap();
    // The kernel tells of the old one's end a little later.
    for _ in 0..10 {
        groups.names();
        std::thread::sleep(Duration::from_millis(20));
    }
    let child = Program::script("exec sleep 1000");
    fs::write(inner.0.join("cgroup.procs"), child.id().to_string()).unwrap();
    let begun = std::time::Instant::now();
    while !groups.names().contains(&format!("{name}/inner")) {
        assert!(begun.elapsed() < PATIENCE, "it is not there again");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop((child, other));
    drop(inner);
    drop(group);
    let begun = std::time::Instant::now();
    while groups.names().contains(&name) {
        assert!(begun.elapsed() < PATIENCE, "it is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}
