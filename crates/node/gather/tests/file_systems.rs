//! File systems of an agent that reads this machine: one that does not answer delays no row and hides no other. It is a
//! FUSE file system of this test: needs /dev/fuse and root.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fuser::{
    Config, FileAttr, FileHandle, FileType, Filesystem, INodeNo, MountOption, ReplyAttr, ReplyStatfs, Request,
};
use futures_executor::block_on;
use khz_gather::{Agent, Plan};
use khz_model::{Fault, Instance, Nanos, NodeName, Pattern, Rate, Reading};

/// Questions for the sizes that are not answered yet; `None`: they are answered at once.
type Held = Arc<Mutex<Option<Vec<ReplyStatfs>>>>;

struct Slow(Held);

fn answer(reply: ReplyStatfs) {
    // 1,000 blocks of 4 KiB, of which 400 are free, 300 of them for everybody; 64 files, 60 of them free.
    reply.statfs(1_000, 400, 300, 64, 60, 4_096, 255, 4_096);
}

impl Filesystem for Slow {
    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let time = std::time::UNIX_EPOCH;
        let attributes = FileAttr {
            ino,
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: FileType::Directory,
            perm: 0o555,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4_096,
            flags: 0,
        };
        reply.attr(&Duration::from_secs(60), &attributes);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match &mut *self.0.lock().unwrap() {
            Some(held) => held.push(reply),
            None => answer(reply),
        }
    }
}

/// Releases what is held, whatever becomes of the test: a mount whose questions are not answered cannot be taken away.
struct Release(Held);

impl Drop for Release {
    fn drop(&mut self) {
        let held = self.0.lock().unwrap().take();
        held.into_iter().flatten().for_each(answer);
    }
}

/// The reading of a metric of the file system that is mounted there.
fn reading(agent: &Agent, metric: &str, place: &Path) -> Option<Reading> {
    let pattern = [Pattern::new(metric).unwrap()];
    let snapshot = block_on(agent.query().latest(&pattern, Nanos::SECOND)).unwrap();
    let name = |instance: &Instance| instance.name() == place.to_str().unwrap();
    let is_it = |sample: &&khz_model::Sample| sample.series.instance.as_ref().is_some_and(name);
    snapshot.nodes.first()?.1.iter().find(is_it).map(|sample| sample.reading)
}

/// The readings of all series of that place.
fn readings_at(agent: &Agent, metric: &str, place: &Path) -> Vec<Reading> {
    let pattern = [Pattern::new(metric).unwrap()];
    let snapshot = block_on(agent.query().latest(&pattern, Nanos::SECOND)).unwrap();
    let name = |instance: &Instance| instance.name() == place.to_str().unwrap();
    let is_it = |sample: &&khz_model::Sample| sample.series.instance.as_ref().is_some_and(name);
    let Some(node) = snapshot.nodes.first() else { return Vec::new() };
    node.1.iter().filter(is_it).map(|sample| sample.reading).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn mount(place: &Path, held: &Held, name: &str) -> fuser::BackgroundSession {
    std::fs::create_dir_all(place).unwrap();
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName(name.into()), MountOption::RO];
    config.n_threads = Some(2);
    fuser::spawn_mount(Slow(held.clone()), place, &config).unwrap()
}

/// One test after the other: each lists what the others mount.
static ALONE: Mutex<()> = Mutex::new(());

/// File systems of one server, which do not answer together: more than the threads that may wait for them.
const SLOW: usize = 10;
const WAITING: usize = 8;

#[test]
fn file_systems_that_do_not_answer_are_failed_and_delay_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = std::env::temp_dir().join(format!("khz-file-systems-{}", std::process::id()));
    let fine = folder.join("fine here");
    let all_slow: Vec<_> = (0..SLOW).map(|number| folder.join(format!("slow{number}"))).collect();
    let slow = &all_slow[0];
    let (answered, held): (Held, Held) = Default::default();
    let mut mounts = vec![mount(&fine, &answered, "fine=1")];
    mounts.extend(all_slow.iter().map(|slow| mount(slow, &held, "server:/slow")));
    let release = Release(held.clone());
    let seen = std::fs::read_to_string("/proc/1/mountinfo").unwrap();
    if !seen.contains(slow.to_str().unwrap()) {
        return khz_skip::skip("process 1 does not see what this one mounts");
    }
    let mut plan = Plan::new("/", NodeName::new("n1").unwrap());
    plan.sources.retain(|source| ["filesystem", "loadavg", "timex", "processes"].contains(&source.file.name));
    // Surveys are a second apart.
    plan.sources.iter_mut().for_each(|source| source.rate = Rate::from_hz(1));
    let agent = Agent::start(plan).unwrap();
    let is = |metric: &str, place: &Path, expected: Reading| reading(&agent, metric, place) == Some(expected);
    until("all have sizes", || {
        let mut places = all_slow.iter().chain([&fine]);
        places.all(|place| is("fs.available", place, Reading::Present(300 * 4_096)))
    });
    assert_eq!(reading(&agent, "fs.read_only", &fine), Some(Reading::Present(1)));
    assert_eq!(reading(&agent, "fs.files_free", slow), Some(Reading::Present(60)));
    let device = |place: &Path| {
        let samples =
            block_on(agent.query().latest(&[Pattern::new("fs.size").unwrap()], Nanos::SECOND)).unwrap();
        let instances = samples.nodes[0].1.iter().filter_map(|sample| sample.series.instance.clone());
        let found =
            instances.into_iter().find(|instance| instance.name() == place.to_str().unwrap()).unwrap();
        found.only_labels().get("device").unwrap().to_owned()
    };
    assert_eq!((device(&fine), device(slow)), ("fine=1".to_owned(), "server:/slow".to_owned()));

    *held.lock().unwrap() = Some(Vec::new());
    until("the silent ones are stuck", || {
        all_slow.iter().all(|slow| is("fs.available", slow, Reading::Failed(Fault::Stuck)))
    });
    for slow in &all_slow {
        assert!(is("fs.error", slow, Reading::Present(1)) && is("fs.read_only", slow, Reading::Present(1)));
    }
    assert!(
        is("fs.available", &fine, Reading::Present(300 * 4_096))
            && is("fs.error", &fine, Reading::Present(0))
    );
    let own = |name: &str| {
        let pattern = [Pattern::new(name).unwrap()];
        let snapshot = block_on(agent.query().latest(&pattern, Nanos(0))).unwrap();
        snapshot.nodes[0].1[0].reading.value()
    };
    assert_eq!(own("khz.survey.stuck"), Some(WAITING as u64));
    let processes = own("processes.count");
    assert!(processes > Some(0), "what is surveyed beside them: {processes:?}");
    let surveys = own("khz.survey.surveys");
    until("further surveys are made", || own("khz.survey.surveys") > surveys.map(|surveys| surveys + 1));
    assert!(is("fs.available", slow, Reading::Failed(Fault::Stuck)), "it is not asked again");
    let clock =
        block_on(agent.query().latest(&[Pattern::new("clock.synchronised").unwrap()], Nanos(0))).unwrap();
    let clock = clock.nodes[0].1[0].reading;
    assert_ne!(clock, Reading::Failed(Fault::Stuck), "what is surveyed beside them");

    drop(release);
    until("they have sizes again", || {
        all_slow.iter().all(|slow| is("fs.available", slow, Reading::Present(300 * 4_096)))
    });
    until("no thread is stuck", || own("khz.survey.stuck") == Some(0));
    assert!(is("fs.error", slow, Reading::Present(0)));
    agent.stop();
    drop(mounts);
    let _ = std::fs::remove_dir_all(folder);
}

/// A file system that hangs is known by its mount, and not by its place: what is mounted there instead, or over it, has its sizes.
#[test]
fn what_is_mounted_at_the_place_of_one_that_hangs_or_over_it_is_asked() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = std::env::temp_dir().join(format!("khz-file-systems-again-{}", std::process::id()));
    let (instead, over) = (folder.join("instead"), folder.join("over"));
    let (answered, held): (Held, Held) = Default::default();
    let places = [&instead, &over];
    let mut mounts: Vec<_> = places.map(|place| mount(place, &held, "hangs")).into();
    let release = Release(held.clone());
    let seen = std::fs::read_to_string("/proc/1/mountinfo").unwrap();
    if !seen.contains(over.to_str().unwrap()) {
        return khz_skip::skip("process 1 does not see what this one mounts");
    }
    let mut plan = Plan::new("/", NodeName::new("n1").unwrap());
    plan.sources.retain(|source| source.file.name == "filesystem");
    plan.sources.iter_mut().for_each(|source| source.rate = Rate::from_hz(1));
    let agent = Agent::start(plan).unwrap();
    let both = |expected: Reading| {
        places.iter().all(|place| readings_at(&agent, "fs.available", place).contains(&expected))
    };
    let sizes = Reading::Present(300 * 4_096);
    until("both have sizes", || both(sizes));
    *held.lock().unwrap() = Some(Vec::new());
    until("both hang", || both(Reading::Failed(Fault::Stuck)));
    let detached = std::process::Command::new("umount").arg("-l").arg(&instead).status();
    if !detached.is_ok_and(|status| status.success()) {
        return khz_skip::skip("umount -l");
    }
    // The same device and the same type: only the mount is another one.
    mounts.extend(places.map(|place| mount(place, &answered, "hangs")));
    until("both are asked", || both(sizes));
    until("there is no error", || {
        places.iter().all(|place| readings_at(&agent, "fs.error", place) == [Reading::Present(0)])
    });
    let stuck =
        block_on(agent.query().latest(&[Pattern::new("khz.survey.stuck").unwrap()], Nanos(0))).unwrap();
    assert_eq!(stuck.nodes[0].1[0].reading, Reading::Present(2), "the old ones hang as before");
    drop(release);
    agent.stop();
    // The last of a place first: it is over the other one.
    while let Some(mounted) = mounts.pop() {
        drop(mounted);
    }
    let _ = std::fs::remove_dir_all(folder);
}
