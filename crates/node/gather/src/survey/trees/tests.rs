//! Trees of made-up files: what their drivers may do, from a value to a folder that vanishes, and a driver that hangs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use khz_model::instance::kernel_text;
use khz_model::{Absence, Fault, Instance, Kind, Reading, Series, Unit};
use khz_parse::Parser;
use khz_parse::own_source::OwnSource;
use proptest::prelude::*;

use super::*;
use crate::made_up::MadeUp;
use crate::survey::looks::Looks;
use crate::survey::{Survey, SurveySettings, SurveyText};

/// A root of made-up files.
struct Root(MadeUp);

impl Root {
    fn new(name: &str) -> Self {
        Root(MadeUp::new(&format!("trees-{name}")))
    }

    fn write(&self, path: &str, value: impl AsRef<[u8]>) -> &Self {
        self.0.write(path, value);
        self
    }

    /// Surveys one tree, and reads the text.
    fn bytes(&self, name: &'static str) -> Result<Vec<u8>, Errno> {
        let subject = if name == "hwmon" { Subject::Sensors } else { Subject::Tree(name) };
        Looks::at(&self.0, subject).bytes()
    }

    fn survey(&self, name: &'static str) -> Result<String, Errno> {
        Ok(String::from_utf8(self.bytes(name)?).unwrap())
    }

    fn parse(&self, name: &'static str) -> Parser {
        let file = khz_parse::files().iter().find(|file| file.name == name).unwrap();
        let mut parser = Parser::new(file);
        parser.advance_with(&self.bytes(name).unwrap());
        parser
    }
}

fn readings(parser: &Parser) -> Vec<(String, Reading)> {
    let series = parser.schema().series().iter().enumerate();
    series.map(|(slot, series)| (series.to_string(), parser.reading(slot).unwrap())).collect()
}

const ZONE: &str = "sys/class/thermal/thermal_zone";

#[test]
fn what_a_driver_says_is_a_number_or_failed_with_a_reason() {
    let root = Root::new("says");
    let megabyte = vec![b'7'; 1 << 20];
    let said: [(&[u8], Reading); 9] = [
        (b"-12500\n", Reading::Present((-12_500_i64).cast_unsigned())),
        (b"", Reading::Failed(Fault::Unreadable)),
        (b"warm\n", Reading::Failed(Fault::Malformed)),
        (b"1\n2\n", Reading::Failed(Fault::Malformed)),
        (b"\xff\0 =\\", Reading::Failed(Fault::Malformed)),
        (b"9223372036854775808\n", Reading::Failed(Fault::OutOfRange)),
        (b"-9223372036854775808\n", Reading::Present(i64::MIN.cast_unsigned())),
        (b"-9223372036854775809\n", Reading::Failed(Fault::OutOfRange)),
        (&megabyte, Reading::Failed(Fault::Unreadable)),
    ];
    for (number, (value, _)) in said.iter().enumerate() {
        root.write(&format!("{ZONE}{number}/temp"), value).write(&format!("{ZONE}{number}/type"), "a b\n");
    }
    let parser = root.parse("thermal_zone");
    assert_eq!(parser.faults(), []);
    let expected = said
        .iter()
        .enumerate()
        .map(|(number, (_, reading))| (format!("thermal.temperature[{number},type=a%20b]"), *reading));
    assert_eq!(readings(&parser), expected.collect::<Vec<_>>());
}

#[test]
fn what_is_no_file_or_is_gone_has_no_number_and_hides_nothing() {
    let root = Root::new("gone");
    root.write(&format!("{ZONE}0/temp"), "1000").write(&format!("{ZONE}1/type"), "x");
    fs::create_dir_all(root.0.join(format!("{ZONE}2/temp"))).unwrap();
    symlink("../gone", root.0.join(format!("{ZONE}3"))).unwrap();
    root.write(&format!("{ZONE}4"), "a file").write(&format!("{ZONE}x/temp"), "1");
    let text = root.survey("thermal_zone").unwrap();
    let lines =
        "zone 0 type= temperature=1000\nzone 1 type=x temperature=-\nzone 2 type= temperature=unreadable\n";
    assert_eq!(text, lines);
    assert_eq!(root.survey("infiniband"), Err(Errno::NOENT));
    // The folder is there, and no device.
    fs::create_dir_all(root.0.join("sys/class/infiniband")).unwrap();
    assert_eq!(root.survey("infiniband"), Err(Errno::NOENT));
}

#[test]
fn what_cannot_be_read_is_unreadable_and_zones_have_numbers() {
    let root = Root::new("secret");
    let zone = "sys/class/powercap/intel-rapl:0";
    root.write(&format!("{zone}/name"), "package-3\n").write(&format!("{zone}/energy_uj"), "17\n");
    root.write("sys/class/powercap/intel-rapl:0:0/name", "dram")
        .write("sys/class/powercap/intel-rapl:0:0/energy_uj", "1");
    root.write("sys/class/powercap/intel-rapl:1:0/name", "dram")
        .write("sys/class/powercap/intel-rapl:1:0/energy_uj", "2");
    root.write("sys/class/powercap/other/name", "package-3-die-1");
    let of = |energy: &str| {
        format!(
            "package 3 path=/{zone} package={energy}\ndram 0 path=/sys/class/powercap/intel-rapl:0:0 dram=1\n\
             dram 1 path=/sys/class/powercap/intel-rapl:1:0 dram=2\n"
        )
    };
    assert_eq!(root.survey("rapl").unwrap(), of("17"));
    // Root may read any file, but no folder.
    fs::remove_file(root.0.join(format!("{zone}/energy_uj"))).unwrap();
    fs::create_dir(root.0.join(format!("{zone}/energy_uj"))).unwrap();
    assert_eq!(root.survey("rapl").unwrap(), of("unreadable"));
}

#[test]
fn an_instance_has_slots_only_for_what_it_has() {
    let root = Root::new("sparse");
    let chip = "sys/class/hwmon/hwmon0";
    root.write(&format!("{chip}/name"), "Nct 1\n").write(&format!("{chip}/temp1_input"), "41000");
    root.write(&format!("{chip}/temp1_crit_alarm"), "1").write(&format!("{chip}/temp1_label"), "CPU");
    root.write(&format!("{chip}/fan2_input"), "900").write(&format!("{chip}/uevent"), "x");
    let parser = root.parse("hwmon");
    assert_eq!(parser.faults(), []);
    let found: Vec<String> = readings(&parser).into_iter().map(|(name, _)| name).collect();
    let expected = [
        "hwmon.chip[nct_1]",
        "hwmon.fan[nct_1,sensor=fan2]",
        "hwmon.temp[nct_1,sensor=temp1]",
        "hwmon.temp_crit_alarm[nct_1,sensor=temp1]",
        "hwmon.label[nct_1,sensor=temp1]",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_sensor_that_goes_is_gone_and_one_that_comes_back_is_the_same() {
    let root = Root::new("back");
    root.write(&format!("{ZONE}0/temp"), "1000").write(&format!("{ZONE}1/temp"), "2000");
    let mut parser = root.parse("thermal_zone");
    fs::remove_dir_all(root.0.join(format!("{ZONE}0"))).unwrap();
    parser.advance_with(root.survey("thermal_zone").unwrap().as_bytes());
    assert_eq!(parser.reading(0), Some(Reading::Absent(Absence::InstanceGone)));
    assert_eq!(parser.reading(1), Some(Reading::Present(2_000)));
    root.write(&format!("{ZONE}0/temp"), "3000");
    parser.advance_with(root.survey("thermal_zone").unwrap().as_bytes());
    assert_eq!(parser.reading(0), Some(Reading::Present(3_000)));
}

#[test]
fn instances_beyond_the_limit_are_left_out_and_counted() {
    let root = Root::new("many");
    for number in 0..TREE_INSTANCES_MAX + 3 {
        fs::create_dir_all(root.0.join(format!("{ZONE}{number}"))).unwrap();
    }
    let survey = Survey::start(&root.0, &SurveySettings::default(), [Subject::Tree("thermal_zone")]);
    assert!(survey.wait(std::time::Duration::from_secs(60)));
    assert_eq!(survey.counts.left_out.load(Ordering::Relaxed), 3);
    survey.end();
}

#[test]
fn the_numbers_of_a_driver_that_hangs_are_stuck_and_those_of_others_are_not() {
    let root = Root::new("stuck");
    root.write(&format!("{ZONE}0/temp"), "1000").write(&format!("{ZONE}1/temp"), "2000");
    let (path, trees) = (root.0.to_owned(), Trees::default());
    let hangs = Arc::new(AtomicBool::new(false));
    let hanging = hangs.clone();
    let surveyor = move |course: &mut Course<'_>| {
        if hanging.load(Ordering::Relaxed) && course.begin(format!("{ZONE}0").as_bytes())? {
            while hanging.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        trees.survey(course, &path, "thermal_zone")
    };
    let subject = Subject::Tree("thermal_zone");
    let survey = Survey::with([subject], Box::new(surveyor));
    let mut surveys = crate::survey::Surveys::new(
        survey.clone(),
        [crate::survey::SubjectPlan { subject, period: Nanos(0), budget: None }],
        Nanos(0),
    );
    surveys.stuck_after = Nanos::from_millis(50);
    surveys.due.iter_mut().for_each(|due| (due.period, due.next) = (Nanos(0), Nanos(0)));
    surveys.find_next();
    let mut until = |expected: &str| {
        let (begun, mut text) = (std::time::Instant::now(), SurveyText::new(&survey, subject));
        loop {
            surveys.look(clock::boot());
            let mut buffer = Vec::new();
            let length = text.read(&mut buffer).unwrap_or(0);
            if &buffer[..length] == expected.as_bytes() {
                return;
            }
            let found = String::from_utf8_lossy(&buffer[..length]).into_owned();
            assert!(begun.elapsed().as_secs() < 60, "{found}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    let whole = "zone 0 type= temperature=1000\nzone 1 type= temperature=2000\n";
    until(whole);
    hangs.store(true, Ordering::Relaxed);
    until(&whole.replace("1000", "stuck"));
    hangs.store(false, Ordering::Relaxed);
    until(whole);
}

#[test]
fn folders_are_instances_whatever_bytes_their_names_have() {
    let root = Root::new("bytes");
    let names = [&b"a\xff"[..], b"b \n=", "\u{e4}\u{2028}".as_bytes(), b"\xe4*#"];
    for name in names {
        let folder = root.0.join("sys/class/room").join(OsStr::from_bytes(name));
        for inner in names {
            let inner = folder.join(OsStr::from_bytes(&[b"s", inner].concat()));
            fs::create_dir_all(&inner).unwrap();
            fs::write(inner.join("temp"), "7\n").unwrap();
        }
        let stats = root.0.join("sys/fs/xfs").join(OsStr::from_bytes(name)).join("stats");
        fs::create_dir_all(&stats).unwrap();
        fs::write(stats.join("stats"), "rw 1 2\n").unwrap();
    }
    let source = OwnSource {
        name: "room".into(),
        path: "/sys/class/room/*/s*/temp".into(),
        line: None,
        kind: Kind::Gauge,
        unit: Unit::Count,
        places: 0,
        help: String::new(),
    };
    let file = source.make().unwrap();
    let found = Looks::of_own(&root.0, file).parse(file);
    let shown = |name: &[u8]| kernel_text(name);
    let mut expected: Vec<(String, String)> =
        names.iter().flat_map(|name| names.map(|inner| (shown(name), shown(inner)))).collect();
    let instance = |series: &Series| {
        let instance = series.instance.clone().unwrap();
        let part = instance.only_labels().get("part2").unwrap().to_owned();
        (instance.name().to_owned(), part)
    };
    let mut instances: Vec<_> = found.schema().series().iter().map(instance).collect();
    expected.sort();
    instances.sort();
    assert_eq!(instances, expected);
    assert!(readings(&found).iter().all(|(_, reading)| *reading == Reading::Present(7)));
    let xfs = root.parse("xfs");
    for name in names {
        let slot = xfs.schema().slot("xfs.read_calls", Some(&Instance::from_kernel(name))).unwrap();
        assert_eq!(xfs.reading(slot as usize), Some(Reading::Present(2)), "{}", shown(name));
    }
}

#[test]
fn a_governor_is_one_of_those_that_there_are() {
    let root = Root::new("governor");
    let cpu = "sys/devices/system/cpu/cpu7/cpufreq";
    root.write(&format!("{cpu}/scaling_available_governors"), "performance powersave \n");
    root.write(&format!("{cpu}/scaling_governor"), "powersave\n");
    root.write(&format!("{cpu}/scaling_max_freq"), "3700000\n");
    root.write("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1");
    let text = root.survey("cpufreq").unwrap();
    let governors = "governor 7 governor=performance governor=0\ngovernor 7 governor=powersave governor=1\n";
    assert!(text.ends_with(governors), "{text}");
    assert!(text.contains("cpu 7 ") && text.contains(" scaling_max=3700000000"), "{text}");
    assert_eq!(root.parse("cpufreq").faults(), []);
}

/// The readings of a tree, as text.
fn printed(parser: &Parser) -> Vec<String> {
    readings(parser).into_iter().map(|(name, reading)| format!("{name} {reading:?}")).collect()
}

#[test]
fn a_file_of_lines_gives_each_number_its_place_and_what_is_missing_has_no_slot() {
    let root = Root::new("lines");
    let file = "sys/fs/xfs/sda1/stats/stats";
    root.write(file, "extent_alloc 1 872 3 4\nrw 28\nvnodes x 0 0 0 1 1 1 0\nnew 1 2\n");
    // Folders beside those of file systems.
    root.write("sys/fs/xfs/stats/stats", "extent_alloc 9 9 9 9\n").write("sys/fs/xfs/debug/log", "1");
    let parser = root.parse("xfs");
    let found = printed(&parser);
    assert_eq!(found.len(), 4 + 2 + 7, "{found:?}");
    for expected in [
        "xfs.blocks_allocated[sda1] Present(872)",
        "xfs.write_calls[sda1] Failed(Malformed)",
        "xfs.read_calls[sda1] Failed(Malformed)",
        "xfs.vnode_active[sda1] Failed(Malformed)",
        "xfs.vnode_releases[sda1] Present(1)",
    ] {
        assert!(found.contains(&expected.to_owned()), "{expected}: {found:?}");
    }
    root.write(file, vec![b'7'; super::super::folder::TREE_FILE_BYTES_MAX + 1]);
    assert!(printed(&root.parse("xfs")).iter().all(|line| line.ends_with("Failed(Unreadable)")));
}

#[test]
fn numbers_without_an_instance_take_slots_only_where_they_are() {
    let root = Root::new("whole");
    assert_eq!(root.survey("zfs"), Err(Errno::NOENT));
    let kstat = "proc/spl/kstat/zfs";
    let head = "6 1 0x01 91 4368 52 97\nname                            type data\n";
    root.write(
        &format!("{kstat}/arcstats"),
        format!("{head}hits 4 546\nmemory_available_bytes 3 -7\nnew 4 1\n"),
    );
    root.write(&format!("{kstat}/pool 1/state"), "DEGRADED\n");
    root.write(
        &format!("{kstat}/pool 1/objset-0x36"),
        format!("{head}dataset_name 7 pool 1/my data\nreads 4 28\n"),
    );
    let found = printed(&root.parse("zfs"));
    for expected in [
        "zfs.pool_online[pool%201] Present(0)",
        "zfs.pool_degraded[pool%201] Present(1)",
        "zfs.dataset_reads[pool%201,dataset=pool%201%2Fmy%20data] Present(28)",
        "zfs.arc_hits Present(546)",
        "zfs.arc_memory_available_bytes Present(18446744073709551609)",
    ] {
        assert!(found.contains(&expected.to_owned()), "{expected}: {found:?}");
    }
    assert_eq!(found.len(), 7 + 1 + 2, "{found:?}");
}

#[test]
fn what_is_not_there_is_off_where_that_is_what_it_means() {
    let root = Root::new("off");
    fs::create_dir_all(root.0.join("sys/fs")).unwrap();
    assert_eq!(printed(&root.parse("selinux")), ["selinux.enabled Present(0)"]);
    root.write("sys/fs/selinux/enforce", "0");
    assert_eq!(
        printed(&root.parse("selinux")),
        ["selinux.enabled Present(1)", "selinux.enforcing Present(0)"]
    );
    for (text, expected) in [
        ("# SELINUX=a\nSELINUX=permissive\nSELINUXTYPE=targeted\n", "Present(0)"),
        ("SELINUX=disabled", "Present(18446744073709551615)"),
        ("SELINUX=on", "Failed(Malformed)"),
    ] {
        root.write("etc/selinux/config", text);
        let found = root.parse("selinux");
        let slot = found.schema().slot("selinux.configured", None).unwrap();
        assert_eq!(format!("{:?}", found.reading(slot as usize).unwrap()), expected);
    }
    fs::remove_dir_all(root.0.join("sys/fs/selinux")).unwrap();
    assert_eq!(printed(&root.parse("selinux")), ["selinux.enabled Present(0)"]);
}

#[test]
fn lines_below_a_heading_are_instances() {
    let root = Root::new("lines");
    let set = "sys/fs/bcachefs/a-1";
    root.write(&format!("{set}/btree_cache_size"), "2.05G\n");
    root.write(&format!("{set}/errors"), "bad_sum   2\t17\nno name\n: 4\nodd=1 5 1\n");
    root.write(
        &format!("{set}/compression_stats"),
        "type   compressed  uncompressed\nlz4    1.5k   3.00k  1k\ngzip: 7\n",
    );
    root.write(&format!("{set}/counters/fsync"), "since mount:    1\nsince filesystem creation: 3\n");
    root.write(&format!("{set}/dev-4/io_done"), "read:\nsb    :   8\nuser  :16\nwrite:\nsb    :   9\n");
    root.write(&format!("{set}/dev-4/label"), "");
    let found = printed(&root.parse("bcachefs"));
    for expected in [
        "bcachefs.mounted[a-1] Present(1)",
        "bcachefs.tree_memory[a-1] Present(2201170739)",
        "bcachefs.errors[a-1,error_type=bad_sum] Present(2)",
        "bcachefs.errors[a-1,error_type=odd%3D1] Present(5)",
        "bcachefs.compressed[a-1,algorithm=lz4] Present(1536)",
        "bcachefs.uncompressed[a-1,algorithm=lz4] Present(3072)",
        "bcachefs.compressed[a-1,algorithm=gzip] Failed(Malformed)",
        "bcachefs.fsync[a-1] Present(3)",
        "bcachefs.read[a-1,data_type=sb,device=4] Present(8)",
        "bcachefs.read[a-1,data_type=user,device=4] Present(16)",
        "bcachefs.written[a-1,data_type=sb,device=4] Present(9)",
    ] {
        assert!(found.contains(&expected.to_owned()), "{expected}: {found:?}");
    }
    // The other counters of this kernel.
    let there = found.iter().filter(|line| !line.ends_with("Absent(NoField)")).count();
    assert_eq!(there, 12, "{found:?}");
}

#[test]
fn paths_are_counted_by_their_states_and_other_disks_are_left_out() {
    let root = Root::new("paths");
    for (disk, uuid, name) in
        [("dm-5", "mpath-36", "mpathA"), ("dm-6", "LVM-ab", "vg0"), ("dm-x", "mpath-1", "b")]
    {
        root.write(&format!("sys/block/{disk}/dm/uuid"), uuid)
            .write(&format!("sys/block/{disk}/dm/name"), name);
        root.write(&format!("sys/block/{disk}/size"), "8")
            .write(&format!("sys/block/{disk}/dm/suspended"), "1");
    }
    for (path, state) in [("sda", "running"), ("sdb", "offline"), ("nvme0n1", "live")] {
        root.write(&format!("sys/block/dm-5/slaves/{path}/device/state"), state);
    }
    let found = printed(&root.parse("dmmultipath"));
    for expected in [
        "multipath.active[mpathA,sysfs_name=dm-5] Present(0)",
        "multipath.size[mpathA,sysfs_name=dm-5] Present(4096)",
        "multipath.paths[mpathA,sysfs_name=dm-5] Present(3)",
        "multipath.paths_active[mpathA,sysfs_name=dm-5] Present(2)",
        "multipath.paths_failed[mpathA,sysfs_name=dm-5] Present(1)",
        "multipath.path_state[mpathA,path=sdb,state=offline] Present(1)",
    ] {
        assert!(found.contains(&expected.to_owned()), "{expected}: {found:?}");
    }
    assert_eq!(found.len(), 6 + 3, "{found:?}");
    // Of a path without a state nobody knows whether it works.
    fs::create_dir(root.0.join("sys/block/dm-5/slaves/sdc")).unwrap();
    let found = printed(&root.parse("dmmultipath"));
    let states = ["multipath.paths_active", "multipath.paths_failed"];
    let known =
        |metric: &&str| found.iter().any(|line| line.starts_with(*metric) && line.contains("Present"));
    assert_eq!(states.iter().find(|metric| known(metric)), None, "{found:?}");
    assert!(found.contains(&"multipath.paths[mpathA,sysfs_name=dm-5] Present(4)".to_owned()), "{found:?}");
}

#[test]
fn a_range_is_as_many_instances_as_there_is_room_for() {
    let root = Root::new("ranges");
    root.write("sys/devices/system/cpu/isolated", "\n");
    assert_eq!(root.survey("cpu/isolated"), Err(Errno::NOENT));
    root.write("sys/devices/system/cpu/isolated", "1,3-4\n");
    assert_eq!(
        root.survey("cpu/isolated").unwrap(),
        "cpu 1 isolated=1\ncpu 3 isolated=1\ncpu 4 isolated=1\n"
    );
    root.write("sys/devices/system/cpu/isolated", "0-18446744073709551615\n");
    assert_eq!(root.survey("cpu/isolated").unwrap().lines().count(), TREE_INSTANCES_MAX);
}

#[test]
fn a_file_that_is_always_slow_is_given_up_and_one_that_is_so_now_and_then_is_not() {
    let root = Root::new("slow");
    let cpu = root.0.join("sys/devices/system/cpu/cpu0/cpufreq");
    root.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "800000");
    let entries = khz_parse::cpufreq::FILE.groups.iter().flat_map(|group| group.entries);
    let entry = entries.into_iter().find(|entry| entry.field == "scaling_cur_freq").unwrap();
    let trees = Trees::default();
    let survey = Survey::with([], Box::new(|_| Ok(Err(Errno::NOENT))));
    let place = Default::default();
    let course = Course::new(&survey, 0, 0, &place);
    let is_read = || {
        let mut line = Line::new("cpu", b"0", []);
        trees.number(&mut line, &mut Folder::open(&cpu, course.whereabouts()).unwrap(), entry, b"");
        let mut text = Vec::new();
        line.write(&mut text);
        text.ends_with(b"=800000000\n")
    };
    for took in [&[20; 7][..], &[0], &[20; 7], &[0]].concat() {
        trees.took(entry.name, Nanos::from_millis(took));
    }
    assert!(is_read());
    (0..TREE_SLOW_READS_MAX).for_each(|_| trees.took(entry.name, Nanos::from_millis(20)));
    assert!(!is_read());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_files_have_the_text_has_no_fault(
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 6),
        name in "[a-z=\\\\ \u{e4}]{1,8}",
    ) {
        let root = Root::new("any");
        let port = format!("sys/class/infiniband/{name}/ports/1");
        let supply = format!("sys/class/power_supply/{name}");
        root.write(&format!("{port}/state"), &values[0]).write(&format!("{port}/rate"), &values[1]);
        root.write(&format!("sys/class/infiniband/{name}/fw_ver"), &values[2]);
        root.write(&format!("{supply}/model_name"), &values[3]).write(&format!("{supply}/temp"), &values[4]);
        root.write(&format!("{ZONE}0/type"), &values[5]).write(&format!("{ZONE}0/temp"), &values[4]);
        root.write("sys/class/hwmon/hwmon0/temp1_label", &values[0]).write("sys/class/hwmon/hwmon0/temp1_input", &values[1]);
        root.write(&format!("sys/fs/xfs/{name}/stats/stats"), [b"rw ", &values[0][..], b"\nig ", &values[1]].concat());
        let objset = format!("proc/spl/kstat/zfs/{name}/objset-{name}");
        root.write(&objset, [b"dataset_name ", &values[2][..], b"\nreads ", &values[3]].concat());
        let set = format!("sys/fs/bcache/{name}-{name}/bdev0");
        root.write(&format!("{set}/writeback_rate_debug"), [b"rate: ", &values[4][..]].concat());
        root.write(&format!("sys/fs/btrfs/{name}-{name}/allocation/data/{name}/used_bytes"), &values[0]);
        root.write(&format!("sys/block/dm-1/slaves/{name}/device/state"), &values[1]);
        root.write("sys/block/dm-1/dm/name", &values[2]).write("sys/block/dm-1/dm/uuid", "mpath-");
        root.write("sys/class/net/bonding_masters", &values[3]);
        root.write("sys/devices/system/cpu/isolated", &values[4]);
        root.write("sys/fs/selinux/enforce", &values[5]);
        root.write("etc/selinux/config", [b"SELINUX=", &values[0][..]].concat());
        root.write("sys/fs/bcachefs/a-b/btree_cache_size", &values[1]);
        root.write("sys/fs/bcachefs/a-b/counters/fsync", [b"since filesystem creation: ", &values[2][..]].concat());
        let trees = ["xfs", "zfs", "bcache", "bcachefs", "btrfs", "dmmultipath", "selinux"];
        for tree in ["infiniband", "power_supply", "thermal_zone", "hwmon"].into_iter().chain(trees) {
            let parser = root.parse(tree);
            prop_assert_eq!(parser.faults(), []);
        }
        // The same word twice is the same instance twice.
        root.write("sys/fs/bcachefs/a-b/errors", &values[3]);
        root.write("sys/fs/bcachefs/a-b/dev-0/io_done", [b"read:\na:1\n", &values[4][..]].concat());
        for tree in ["bonding", "cpu/isolated", "bcachefs"] {
            let _ = root.bytes(tree);
        }
    }
}

#[test]
fn folders_whose_names_change_all_the_time_take_a_bounded_number_of_bytes() {
    use crate::survey::churn::OWN_SOURCE_NAMES_MAX;
    let root = Root::new("own-names");
    let terms = |name: &str, path: &str| OwnSource {
        name: name.into(),
        path: path.into(),
        line: None,
        kind: Kind::Gauge,
        unit: Unit::Count,
        places: 0,
        help: String::new(),
    };
    let bomb = terms("bomb", "/sys/bomb/*/v").make().unwrap();
    let quiet = terms("quiet", "/sys/quiet/*/v").make().unwrap();
    let subjects = [Subject::Tree("bomb"), Subject::Tree("quiet")];
    let known = KnownFiles::with([bomb, quiet]);
    let survey =
        Survey::start(&root.0.join(""), &SurveySettings { known, ..SurveySettings::default() }, subjects);
    let (mut parser, mut text) = (Parser::new(bomb), Vec::new());
    let mut left_out = 0;
    for generation in 0..6 {
        let _ = fs::remove_dir_all(root.0.join("sys/bomb"));
        for number in 0..400 {
            root.write(&format!("sys/bomb/{generation}{number:0200}/v"), "7\n");
        }
        root.write(&format!("sys/quiet/{generation}/v"), "7\n");
        let ask = |subject: Subject| {
            while !survey.want(survey.bit(subject)) {}
            assert!(survey.wait(std::time::Duration::from_secs(60)));
        };
        subjects.into_iter().for_each(ask);
        let length = SurveyText::new(&survey, subjects[0]).read(&mut text).unwrap_or(0);
        parser.advance_with(&text[..length]);
        let mut quiet = Vec::new();
        let length = SurveyText::new(&survey, subjects[1]).read(&mut quiet).unwrap();
        // Another source has all of its instances, always.
        assert_eq!(quiet[..length].iter().filter(|&&byte| byte == b'\n').count(), generation + 1);
        left_out = survey.lock().left_out[0];
    }
    let (names, _) = parser.names();
    assert!(names > OWN_SOURCE_NAMES_MAX / 2 && names < 3 * OWN_SOURCE_NAMES_MAX, "{names} bytes");
    assert!(left_out > 300, "{left_out}");
    let problem = survey.lock().problems[0].clone().unwrap_or_default();
    assert!(problem.starts_with("instances are left out: their names change too often"), "{problem}");
    survey.end();
}

#[test]
fn a_number_is_shown_whole_or_not_at_all_wherever_its_digits_stand() {
    let root = Root::new("cut");
    for (blanks, digits, expected) in [
        (4_088, "1234567\n", Reading::Present(1_234_567)),
        (4_089, "1234567\n", Reading::Failed(Fault::Unreadable)),
        (4_092, "1234567\n", Reading::Failed(Fault::Unreadable)),
        (5_000, "5\n", Reading::Failed(Fault::Unreadable)),
    ] {
        for pad in [" ", "0"] {
            root.write(&format!("{ZONE}0/type"), "x\n");
            root.write(&format!("{ZONE}0/temp"), pad.repeat(blanks) + digits);
            let found = readings(&root.parse("thermal_zone"));
            assert!(
                found.contains(&("thermal.temperature[0,type=x]".into(), expected)),
                "{blanks} {pad:?}: {found:?}"
            );
        }
    }
}

fn described(path: &str) -> &'static KernelFile {
    let source = khz_parse::own_source::OwnSource {
        name: "mine".into(),
        path: path.into(),
        line: None,
        kind: khz_model::Kind::Gauge,
        unit: khz_model::Unit::Count,
        places: 0,
        help: String::new(),
    };
    source.make().unwrap()
}

#[test]
fn each_file_that_has_no_number_is_named_with_its_reason() {
    let root = MadeUp::new("own-problems");
    root.write("room/a/v", "x\n");
    root.write("room/b/v", "99999999999999999999999\n");
    root.write("room/c/v/in", "");
    root.write("room/d/v", "");
    root.write("room/e/v", "7\n");
    let looks = Looks::of_own(&root, described("/room/*/v"));
    let problem_now = || {
        looks.bytes().unwrap();
        let mut text = SurveyText::new(&looks.survey, Subject::Tree("mine"));
        text.read(&mut Vec::new()).unwrap();
        text.problem().unwrap_or_default().to_owned()
    };
    let problem = problem_now();
    for (file, why) in [
        ("a", "what is in it is no number"),
        ("b", "its number is beyond 64 bits"),
        ("c", "it is a folder"),
        ("d", "there is nothing in it"),
    ] {
        assert!(problem.contains(&format!("/room/{file}/v: {why}")), "{problem}");
    }
    assert!(!problem.contains("/room/e/"), "{problem}");
    for number in 0..30 {
        root.write(&format!("room/z{number}/v"), "x\n");
    }
    let problem = problem_now();
    assert!(problem.ends_with("; and 18 more"), "{problem}");
}

#[test]
fn a_described_file_without_instances_has_a_series_before_it_is_there() {
    let root = MadeUp::new("own-absent");
    let file = described("/room/v");
    let mut parser = Parser::new(file);
    parser.lose(Reading::Absent(Absence::NoSource));
    assert_eq!(readings(&parser), [("own.mine".to_owned(), Reading::Absent(Absence::NoSource))]);
    root.write("room/other", "1\n");
    let looks = Looks::of_own(&root, file);
    assert_eq!(readings(&looks.parse(file)), [("own.mine".to_owned(), Reading::Absent(Absence::NoSource))]);
    root.write("room/v", "7\n");
    assert_eq!(readings(&looks.parse(file)), [("own.mine".to_owned(), Reading::Present(7))]);
}

#[test]
fn a_counter_below_zero_is_named_as_one() {
    let root = MadeUp::new("own-below-zero");
    root.write("room/v", "-1\n");
    let source = OwnSource {
        name: "mine".into(),
        path: "/room/v".into(),
        line: None,
        kind: Kind::Counter,
        unit: Unit::Count,
        places: 0,
        help: String::new(),
    };
    let file = source.make().unwrap();
    let looks = Looks::of_own(&root, file);
    assert_eq!(readings(&looks.parse(file)), [("own.mine".to_owned(), Reading::Failed(Fault::Malformed))]);
    let problem = looks.survey.lock().problems[0].clone().unwrap_or_default();
    let why = "/room/v: its number is below zero, and this one cannot be: a counter counts from 0";
    assert!(problem.ends_with(why), "{problem}");
}

#[test]
fn a_folder_that_cannot_be_listed_is_named_and_its_names_are_not_absent() {
    let root = MadeUp::new("own-unlisted");
    // Root may list each folder of others, but nobody lists what has too many links.
    for path in ["room", "hall/a"] {
        let place = root.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(&place, &place).unwrap();
    }
    for (path, folder) in [("/room/*/v", "room"), ("/hall/*/*/v", "hall/a")] {
        let looks = Looks::of_own(&root, described(path));
        assert_eq!(looks.bytes(), Err(Errno::LOOP), "{path}");
        let problem = looks.survey.lock().problems[0].clone().unwrap_or_default();
        let begin = format!("{}: the folder cannot be read: ", root.join(folder).display());
        assert!(problem.starts_with(&begin), "{problem}");
    }
    // The others have their numbers.
    root.write("hall/b/c/v", "7\n");
    let file = described("/hall/*/*/v");
    let looks = Looks::of_own(&root, file);
    assert_eq!(readings(&looks.parse(file)), [("own.mine[b,part2=c]".to_owned(), Reading::Present(7))]);
    let problem = looks.survey.lock().problems[0].clone().unwrap_or_default();
    assert!(problem.contains("/hall/a: the folder cannot be read: "), "{problem}");
}

/// More instances than there is room for come before one that was shown: it keeps its place, and the others are counted.
fn keeps_its_place(name: &str, start: &dyn Fn(&MadeUp) -> Looks, write: &dyn Fn(&MadeUp, &[String])) {
    let root = MadeUp::new(&format!("trees-places-{name}"));
    let last = "9last".to_owned();
    write(&root, std::slice::from_ref(&last));
    let looks = start(&root);
    let text = || String::from_utf8(looks.bytes().unwrap()).unwrap();
    assert!(text().contains(&last), "{name}");
    let mut all: Vec<String> = (0..=TREE_INSTANCES_MAX).map(|number| format!("1n{number:04}")).collect();
    all.push(last.clone());
    write(&root, &all);
    for _ in 0..2 {
        let text = text();
        assert!(text.contains(&last) && text.contains("1n0000") && !text.contains("1n4096"), "{name}");
        assert_eq!(
            (text.lines().count(), looks.survey.lock().left_out[0]),
            (TREE_INSTANCES_MAX, 2),
            "{name}"
        );
    }
    let problem = looks.problem().unwrap_or_default();
    assert!(problem.contains("instances") && problem.contains("are left out: "), "{name}: {problem}");
}

#[test]
fn an_instance_that_was_shown_keeps_its_place_in_trees_disks_sensors_and_described_sources() {
    let files = |path: &'static str| {
        move |root: &MadeUp, names: &[String]| {
            names.iter().for_each(|name| root.write(&path.replace('%', name), "7\n"));
        }
    };
    let at = |subject: Subject| move |root: &MadeUp| Looks::at(root, subject);
    let power = files("sys/class/power_supply/%/capacity");
    keeps_its_place("power", &at(Subject::Tree("power_supply")), &power);
    keeps_its_place("hwmon", &at(Subject::Sensors), &files("sys/class/hwmon/%/temp1_input"));
    keeps_its_place("own", &|root| Looks::of_own(root, described("/room/*/v")), &files("room/%/v"));
    let disks = |root: &MadeUp, names: &[String]| {
        let lines: String = names.iter().map(|name| format!("   8       0 {name} 1 2 3\n")).collect();
        root.write("proc/diskstats", lines);
    };
    keeps_its_place("disks", &at(Subject::Disks), &disks);
}

#[test]
fn a_described_source_keeps_the_names_that_it_has_when_new_ones_have_no_room() {
    let root = MadeUp::new("own-names-places");
    let long = |begin: &str, number: usize| format!("room/{begin}{number:03}{}/v", "n".repeat(240));
    let count = crate::survey::OWN_SOURCE_NAMES_MAX / 300;
    (0..count).for_each(|number| root.write(&long("z", number), "7\n"));
    let looks = Looks::of_own(&root, described("/room/*/v"));
    let shown = |begin: &str| {
        let text = String::from_utf8(looks.bytes().unwrap()).unwrap();
        text.lines()
            .filter(|line| line.contains(&format!("name {begin}")) || line.contains(&format!(" {begin}0")))
            .count()
    };
    assert_eq!(shown("z"), count);
    (0..count).for_each(|number| root.write(&long("a", number), "7\n"));
    assert_eq!(shown("z"), count, "new names come first, and have what is left");
    assert!((1..count).contains(&shown("a")));
}
