//! Each way in which a small file can fail, for sources of a configuration, trees of /sys and files of numbers: what happens to its
//! series when it fails from the start, and when it had a number before. A FUSE file system of this test has the files that answer
//! with errors, or not at all.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};
use khz_model::{Absence, Fault, Kind, Nanos, Reading, Unit};
use khz_parse::own_source::OwnSource;
use khz_parse::{KernelFile, KnownFiles, Subject};

use super::looks::PATIENCE;
use super::{SubjectPlan, Survey, SurveySettings, Surveys, subject_of};
use crate::budget::Budget;
use crate::clock;
use crate::made_up::MadeUp;
use crate::source::Source;

/// A busy machine may hold a thread up for longer; then it comes back.
const STUCK_AFTER: Nanos = Nanos::from_millis(200);

/// What becomes of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Is(Reading),
    /// There is no such series, or it is absent.
    IsNone,
}

const STUCK: Fate = Fate::Is(Reading::Failed(Fault::Stuck));
const UNREADABLE: Fate = Fate::Is(Reading::Failed(Fault::Unreadable));
const SEVEN: Fate = Fate::Is(Reading::Present(7));

impl Fate {
    fn of(reading: Option<Reading>) -> Self {
        match reading {
            None | Some(Reading::Absent(_)) => Fate::IsNone,
            Some(reading) => Fate::Is(reading),
        }
    }
}

/// A way to fail.
struct Way {
    name: &'static str,
    /// The result for sources of a configuration and trees, at the start and later. Files of numbers have no numbers then: such a
    /// file is left out whole.
    fate: Fate,
    /// Whether files of numbers count it as an error.
    is_error: bool,
}

const fn way(name: &'static str, fate: Fate) -> Way {
    Way { name, fate, is_error: true }
}

/// Files of the FUSE file system.
const ANSWERS: [Way; 9] = [
    way("hangs", STUCK),
    way("hangs_too", STUCK),
    way("eio", UNREADABLE),
    way("eagain", UNREADABLE),
    way("ebusy", UNREADABLE),
    // A driver says so of a number that it does not have.
    way("enxio", Fate::IsNone),
    way("eacces", UNREADABLE),
    Way { is_error: false, ..way("empty", UNREADABLE) },
    way("megabyte", UNREADABLE),
];

/// What stands where a file should be.
const PLACES: [Way; 8] = [
    way("folder", UNREADABLE),
    way("pipe", UNREADABLE),
    way("socket", UNREADABLE),
    way("loop", UNREADABLE),
    Way { is_error: false, ..way("nothing", UNREADABLE) },
    way("long", UNREADABLE),
    Way { is_error: false, ..way("gone", Fate::IsNone) },
    // The folder has gone, too.
    Way { is_error: false, ..way("vanished", Fate::IsNone) },
];

const ROOM: &str = "sys/class/room";
const ZONE: &str = "sys/class/thermal/thermal_zone";
const PROM: &str = "var/lib/prometheus/node-exporter";

/// The file of a source of the configuration, of a tree, and the file of numbers.
fn files(number: usize, name: &str) -> [String; 3] {
    [format!("{ROOM}/{name}/temp"), format!("{ZONE}{number}/temp"), format!("{PROM}/{name}.prom")]
}

/// What a file has that does not fail.
fn whole(name: &str, is_prom: bool) -> String {
    if is_prom { format!("{name} 7\n") } else { "7\n".to_owned() }
}

fn own(name: &str, path: &str) -> &'static KernelFile {
    let source = OwnSource {
        name: name.into(),
        path: path.into(),
        line: None,
        kind: Kind::Gauge,
        unit: Unit::Count,
        places: 0,
        help: String::new(),
    };
    source.make().unwrap()
}

/// Sources that are surveyed below a root, and gathered whenever the test looks.
struct Watched {
    survey: Arc<Survey>,
    surveys: Surveys,
    sources: Vec<Source>,
}

impl Watched {
    fn start(root: &Path, ways: &[Way]) -> Self {
        let single = |way: &Way| own(&format!("one_{}", way.name), &format!("/{ROOM}/{}/temp", way.name));
        let described: Vec<&KernelFile> =
            [own("room", &format!("/{ROOM}/*/temp"))].into_iter().chain(ways.iter().map(single)).collect();
        let known = KnownFiles::with(described.iter().copied());
        let ours = ["thermal_zone", "textfile"].map(|name| known.named(name).unwrap());
        let files: Vec<&KernelFile> = described.into_iter().chain(ours).collect();
        let subjects: Vec<Subject> = files.iter().filter_map(|file| subject_of(root, file)).collect();
        let settings = SurveySettings { known, ..SurveySettings::default() };
        let survey = Survey::start(root, &settings, subjects.iter().copied());
        let plan = |subject| SubjectPlan { subject, period: Nanos(0), budget: Some(1.0) };
        let mut surveys = Surveys::new(survey.clone(), subjects.into_iter().map(plan), clock::boot());
        surveys.stuck_after = STUCK_AFTER;
        surveys.due.iter_mut().for_each(|due| (due.period, due.next) = (Nanos(0), Nanos(0)));
        surveys.find_next();
        let source = |file| Source::surveyed(root, file, Budget::unlimited(), &survey);
        let sources = files.into_iter().map(source).collect();
        Watched { survey, surveys, sources }
    }

    fn gather(&mut self) {
        self.surveys.look(clock::boot());
        for source in &mut self.sources {
            source.gather(clock::stamp(), &mut Vec::new());
        }
    }

    /// Ends all threads: a file system whose files they have open cannot be taken away.
    fn end(self) {
        let survey = self.survey.clone();
        drop(self);
        let begun = Instant::now();
        while Arc::strong_count(&survey) > 1 {
            assert!(begun.elapsed() < PATIENCE, "a thread does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// All series and their readings.
    fn readings(&self) -> BTreeMap<String, Reading> {
        let of = |source: &Source| {
            let reading = |slot: usize| Reading::from_parts(source.states()[slot], source.values()[slot]);
            let series = source.series().iter().enumerate();
            series.map(|(slot, series)| (series.to_string(), reading(slot))).collect::<Vec<_>>()
        };
        self.sources.iter().flat_map(of).collect()
    }

    /// Gathers until each series has this fate, and files of numbers are as they should be.
    fn until(&mut self, when: &str, expected: &BTreeMap<String, Fate>) {
        let begun = Instant::now();
        loop {
            self.gather();
            let found = self.readings();
            let wrong: Vec<_> = expected
                .iter()
                .map(|(series, fate)| (series, *fate, Fate::of(found.get(series).copied())))
                .filter(|(_, fate, found)| fate != found)
                .collect();
            if wrong.is_empty() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{when} (series, expected, found): {wrong:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The fates of all series while everything fails, or nothing does.
fn expected(ways: &[Way], is_broken: bool) -> BTreeMap<String, Fate> {
    let mut fates = BTreeMap::new();
    for (number, Way { name, fate, .. }) in ways.iter().enumerate() {
        let fate = if is_broken { *fate } else { SEVEN };
        // Without a wildcard, only the path shows that there should be a number.
        fates.insert(format!("own.one_{name}"), fate);
        fates.insert(format!("own.room[{name}]"), fate);
        fates.insert(format!("thermal.temperature[{number},type=x]"), fate);
        let seven = Fate::Is(Reading::Present(7.0_f64.to_bits()));
        fates.insert(format!("text.{name}"), if is_broken { Fate::IsNone } else { seven });
    }
    let has_error = is_broken && ways.iter().any(|way| way.is_error);
    fates.insert("textfile.error".into(), Fate::Is(Reading::Present(u64::from(has_error))));
    fates
}

/// A driver hangs while the kind of a zone is not known. The zone still gets its name, since the kind is in a file that answers.
fn with_kinds(root: &MadeUp, ways: &[Way]) {
    for number in 0..ways.len() {
        root.write(&format!("{ZONE}{number}/type"), "x\n");
    }
}

/// Puts something where a file should be.
fn put(root: &MadeUp, path: &str, way: &str, is_prom: bool) {
    let place = root.join(path);
    let folder = place.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    match way {
        "folder" => fs::create_dir(place).unwrap(),
        "pipe" => {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &place, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }
        "socket" => drop(UnixListener::bind(place).unwrap()),
        "loop" => symlink(place.file_name().unwrap(), &place).unwrap(),
        "nothing" => fs::write(place, "").unwrap(),
        "long" => fs::write(place, "7".repeat(1 << 20)).unwrap(),
        "gone" => {}
        "vanished" if is_prom => {}
        "vanished" => fs::remove_dir_all(folder).unwrap(),
        other => panic!("{other}"),
    }
}

fn remove(place: &Path) {
    let is_folder = fs::symlink_metadata(place).is_ok_and(|found| found.is_dir());
    let _ = if is_folder { fs::remove_dir(place) } else { fs::remove_file(place) };
}

/// Makes each file fail, or gives it back what it should have.
fn set(root: &MadeUp, is_broken: bool) {
    for (number, Way { name, .. }) in PLACES.iter().enumerate() {
        for (path, is_prom) in files(number, name).into_iter().zip([false, false, true]) {
            remove(&root.join(&path));
            match is_broken {
                true => put(root, &path, name, is_prom),
                false => root.write(&path, whole(name, is_prom)),
            }
        }
    }
    if !is_broken {
        with_kinds(root, &PLACES);
    }
}

#[test]
fn what_is_in_the_place_of_a_file_says_why_there_is_no_number() {
    let root = MadeUp::new("fault-places");
    with_kinds(&root, &PLACES);
    set(&root, true);
    let mut watched = Watched::start(&root, &PLACES);
    watched.until("from the start", &expected(&PLACES, true));
    let remark = |watched: &Watched, name: &str| {
        let source = watched.sources.iter().find(|source| source.name() == name).unwrap();
        source.remark().unwrap_or_default().to_owned()
    };
    for (name, why) in [
        ("folder", "it is a folder"),
        ("pipe", "it is a pipe, and no file"),
        ("socket", "it is a socket, and no file"),
        ("loop", "Too many levels of symbolic links (os error 40)"),
        ("nothing", "there is nothing in it"),
        ("long", "it is too long: a file with a number has at most 4096 bytes, one of several lines 1048576"),
    ] {
        let path = root.join(format!("{ROOM}/{name}/temp"));
        assert_eq!(remark(&watched, &format!("one_{name}")), format!("{}: {why}", path.display()));
    }
    set(&root, false);
    watched.until("when all is well", &expected(&PLACES, false));
    assert_eq!(remark(&watched, "one_folder"), "");
    set(&root, true);
    watched.until("after a number", &expected(&PLACES, true));
    watched.end();
}

/// What the files of the FUSE file system do.
#[derive(Default)]
struct Mood {
    is_broken: bool,
    /// How often that has changed.
    changes: u64,
    /// The reads that are not answered yet.
    held: Vec<ReplyData>,
}

/// Answers as the names of its files say: `eio`, and `eio.prom` for files of numbers.
#[derive(Clone, Default)]
struct Faulty(Arc<Mutex<Mood>>);

impl Faulty {
    fn set(&self, is_broken: bool) {
        let mut mood = self.0.lock().unwrap();
        (mood.is_broken, mood.changes) = (is_broken, mood.changes + 1);
        for reply in mood.held.drain(..) {
            reply.error(fuser::Errno::EIO);
        }
    }

    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let time = UNIX_EPOCH + Duration::from_secs(self.0.lock().unwrap().changes);
        let kind = if ino.0 > 1 { FileType::RegularFile } else { FileType::Directory };
        FileAttr {
            ino,
            size: 4_096,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4_096,
            flags: 0,
        }
    }

    /// The way of a file, and whether it has numbers of any name.
    fn way(ino: INodeNo) -> (&'static str, bool) {
        let number = ino.0 as usize - 2;
        (ANSWERS[number / 2].name, number % 2 == 1)
    }
}

impl Filesystem for Faulty {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let known = (2..2 + 2 * ANSWERS.len() as u64).map(INodeNo).find(|ino| {
            let (way, is_prom) = Faulty::way(*ino);
            *name == *format!("{way}{}", if is_prom { ".prom" } else { "" })
        });
        match known {
            Some(ino) => reply.entry(&Duration::ZERO, &self.attributes(ino), Generation(0)),
            None => reply.error(fuser::Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &self.attributes(ino));
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let is_broken = self.0.lock().unwrap().is_broken;
        match Faulty::way(ino) {
            ("eacces", _) if is_broken => reply.error(fuser::Errno::EACCES),
            _ => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut mood = self.0.lock().unwrap();
        let (way, is_prom) = Faulty::way(ino);
        let text = match way {
            _ if !mood.is_broken => whole(way, is_prom),
            "hangs" | "hangs_too" => return mood.held.push(reply),
            "eio" => return reply.error(fuser::Errno::EIO),
            "eagain" => return reply.error(fuser::Errno::EAGAIN),
            "ebusy" => return reply.error(fuser::Errno::EBUSY),
            "enxio" => return reply.error(fuser::Errno::ENXIO),
            "megabyte" => "7".repeat(1 << 20),
            _ => String::new(),
        };
        let rest = text.as_bytes().get(offset as usize..).unwrap_or_default();
        reply.data(&rest[..rest.len().min(size as usize)]);
    }
}

/// Answers held requests, whatever happens to the test: a mount with unanswered requests cannot be removed.
struct Mounted {
    faulty: Faulty,
    place: PathBuf,
    /// Taken away after the answers.
    _session: fuser::BackgroundSession,
}

impl Mounted {
    fn at(place: &Path, faulty: &Faulty) -> std::io::Result<Mounted> {
        fs::create_dir_all(place).unwrap();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("faulty".into()), MountOption::RO];
        let session = fuser::spawn_mount(faulty.clone(), place, &config)?;
        Ok(Mounted { faulty: faulty.clone(), place: place.to_owned(), _session: session })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.faulty.set(false);
        // Even if a thread of the test still holds one of its files: a remaining mount would be in the lists of other tests.
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.place).status();
    }
}

#[test]
fn a_probe_and_an_agent_that_waits_show_what_hangs_beside_what_does_not() {
    let root = MadeUp::new("fault-probe");
    let place = root.join("faults");
    let faulty = Faulty::default();
    let mounted = match Mounted::at(&place, &faulty) {
        Ok(mounted) => mounted,
        Err(error) => return khz_skip::skip(format!("a FUSE file system, as root: {error}")),
    };
    for name in ["hangs", "hangs_too"] {
        fs::create_dir_all(root.join(format!("{ROOM}/{name}"))).unwrap();
        symlink(place.join(name), root.join(format!("{ROOM}/{name}/temp"))).unwrap();
    }
    root.write(&format!("{ROOM}/fine/temp"), "7\n");
    faulty.set(true);
    let files = [
        own("alone", &format!("/{ROOM}/hangs/temp")),
        own("room", &format!("/{ROOM}/*/temp")),
        own("fine", &format!("/{ROOM}/fine/temp")),
    ];
    let known = KnownFiles::with(files);
    let settings = SurveySettings { known, first_wait: super::SURVEYS_PATIENCE, ..SurveySettings::default() };
    let found: BTreeMap<_, _> = crate::probe(&root, &settings)
        .into_iter()
        .filter(|report| files.iter().any(|file| file.name == report.name))
        .map(|report| (report.name, (report.values, report.missing)))
        .collect();
    let stuck = |series: &str| (series.to_owned(), Reading::Failed(Fault::Stuck));
    let expected = [
        ("alone", (0, vec![stuck("own.alone")])),
        ("fine", (1, vec![])),
        ("room", (1, vec![stuck("own.room[hangs]"), stuck("own.room[hangs_too]")])),
    ];
    assert_eq!(found, expected.into());
    let mut plan = crate::Plan::new(&*root, khz_model::NodeName::new("n1").unwrap());
    plan.sources =
        files.map(|file| crate::SourcePlan { file, rate: None, budget: None }).into_iter().collect();
    plan.survey = settings;
    let agent = crate::Agent::start(plan).unwrap();
    let own = [khz_model::Pattern::new("own.*").unwrap()];
    let latest = futures_executor::block_on(agent.query().latest(&own, Nanos(0))).unwrap();
    let mut readings: Vec<(String, Reading)> = latest
        .nodes
        .into_iter()
        .flat_map(|(_, samples)| samples)
        .map(|sample| (sample.series.to_string(), sample.reading))
        .collect();
    readings.sort_by(|a, b| a.0.cmp(&b.0));
    let seven = |series: &str| (series.to_owned(), Reading::Present(7));
    let expected = [
        stuck("own.alone"),
        seven("own.fine"),
        seven("own.room[fine]"),
        stuck("own.room[hangs]"),
        stuck("own.room[hangs_too]"),
    ];
    assert_eq!(readings, expected);
    agent.stop();
    drop(mounted);
}

#[test]
fn what_reading_a_file_says_becomes_of_its_series_and_one_that_hangs_delays_no_other() {
    let root = MadeUp::new("fault-answers");
    with_kinds(&root, &ANSWERS);
    let place = root.join("faults");
    let faulty = Faulty::default();
    let mounted = match Mounted::at(&place, &faulty) {
        Ok(mounted) => mounted,
        Err(error) => return khz_skip::skip(format!("a FUSE file system, as root: {error}")),
    };
    for (number, Way { name, .. }) in ANSWERS.iter().enumerate() {
        for (path, end) in files(number, name).into_iter().zip(["", "", ".prom"]) {
            fs::create_dir_all(root.join(&path).parent().unwrap()).unwrap();
            symlink(place.join(format!("{name}{end}")), root.join(&path)).unwrap();
        }
    }
    faulty.set(true);
    let mut watched = Watched::start(&root, &ANSWERS);
    watched.until("from the start", &expected(&ANSWERS, true));
    let called = |(index, thread)| super::worker::called(watched.survey.subjects[index], thread);
    let stuck: Vec<String> = watched.survey.lock().threads.all_stuck().map(called).collect();
    for path in &files(0, "hangs") {
        let path = root.join(path).display().to_string();
        assert!(stuck.contains(&path), "{path}: {stuck:?}");
    }
    faulty.set(false);
    watched.until("when all is well", &expected(&ANSWERS, false));
    faulty.set(true);
    watched.until("after a number", &expected(&ANSWERS, true));
    assert_eq!(
        watched.readings()["text.hangs"],
        Reading::Absent(Absence::InstanceGone),
        "a file is left out whole"
    );
    faulty.set(false);
    watched.until("when all is well again", &expected(&ANSWERS, false));
    faulty.set(false);
    watched.end();
    drop(mounted);
}
