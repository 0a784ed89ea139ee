//! Attacks of other users on rings and snapshots: they cut files short while they are mapped, replace them by
//! links or directories, or write over them. No process dies, nothing is written elsewhere, and the damage is
//! reported.

#![allow(clippy::unwrap_used)]

mod lane;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};

use khz_model::{Kind, Nanos, Stamp, ValueFormat};
use khz_ring::{Folder, RingError, SlotName, Snapshot, SnapshotLabel, SnapshotWriter, survive_truncation};
use lane::{TestFolder, label, open};

const SIZE: u64 = 1 << 18;

/// The user id of nobody.
const OTHER: u32 = 65_534;

fn cut(path: &std::path::Path, length: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn snapshot_label() -> SnapshotLabel {
    SnapshotLabel { node: "n1".into(), machine: [1; 16], boot: [2; 16], epoch: 3, created: 4 }
}

#[test]
fn a_ring_that_is_cut_short_under_its_writer_does_not_end_it_and_is_noticed() {
    survive_truncation().unwrap();
    for length in [0, 4_096, 8_192 + (16 << 20) + SIZE / 2] {
        let folder = TestFolder::new(&format!("cut-{length}"));
        let locked = Folder::lock(&folder.0).unwrap();
        let (mut lane, _) = open(&locked, SIZE);
        lane.rows(100);
        assert_eq!(lane.writer.problem(), None);
        cut(&folder.ring(), length);
        assert_eq!(lane.writer.problem(), Some("somebody has cut it short"));
        // More rows than the ring holds, so that every page is written.
        lane.rows(20_000);
        assert_eq!(lane.writer.problem(), Some("somebody has cut it short"));
        // Somebody extends the file again, without its data.
        cut(&folder.ring(), 8_192 + (16 << 20) + SIZE);
        assert!(lane.writer.problem().is_some());
        drop((lane, locked));
        // The next writer makes a new ring.
        let locked = Folder::lock(&folder.0).unwrap();
        open(&locked, SIZE).0.rows(10);
    }
}

#[test]
fn a_ring_that_is_removed_or_written_over_under_its_writer_is_noticed() {
    let folder = TestFolder::new("removed");
    let locked = Folder::lock(&folder.0).unwrap();
    let (mut lane, _) = open(&locked, SIZE);
    lane.rows(10);
    let file = fs::OpenOptions::new().write(true).open(folder.ring()).unwrap();
    file.write_all_at(&[0; 8], 4_096).unwrap();
    assert_eq!(lane.writer.problem(), Some("somebody else has written to it"));
    fs::remove_file(folder.ring()).unwrap();
    assert_eq!(lane.writer.problem(), Some("somebody has removed it"));
}

#[test]
fn a_snapshot_that_is_cut_short_ends_neither_its_writer_nor_its_reader() {
    survive_truncation().unwrap();
    let folder = TestFolder::new("cut-snapshot");
    let path = folder.0.join("snapshot");
    let mut writer = SnapshotWriter::create(&path, &snapshot_label()).unwrap();
    let name = |n: u32| SlotName {
        group: 0,
        kind: Kind::Gauge,
        format: ValueFormat::WHOLE,
        unit: "count".into(),
        name: format!("made.up{n}"),
    };
    writer.append(&(0..1_000).map(name).collect::<Vec<_>>()).unwrap();
    let row = |writer: &SnapshotWriter| {
        writer.write(0, Stamp { boot: Nanos(5), real_offset: 0 }, (0..1_000).map(|slot| (slot, 0, 7)));
    };
    row(&writer);
    let reader = Snapshot::open(&path).unwrap();
    assert_eq!((reader.slots(), reader.problem(), writer.problem()), (1_000, None, None));
    cut(&path, 0);
    assert_eq!(reader.problem(), Some("somebody has cut it short"));
    assert_eq!((reader.slots(), reader.find("made.up1"), reader.read(1).unwrap()), (0, None, None));
    row(&writer);
    assert_eq!(writer.problem(), Some("somebody has cut it short"));
    let _ = writer.append(&[name(1_000)]);
    // A new snapshot replaces it.
    let writer = SnapshotWriter::create(&path, &snapshot_label()).unwrap();
    assert_eq!(writer.problem(), None);
    Snapshot::open(&path).unwrap();
}

#[test]
fn links_in_the_place_of_directories_and_files_lead_nowhere() {
    let folder = TestFolder::new("links");
    let elsewhere = TestFolder::new("links-elsewhere");
    fs::create_dir_all(&elsewhere.0).unwrap();
    // A link in the place of the node's directory, and of its parent.
    fs::create_dir_all(&folder.0).unwrap();
    symlink(&elsewhere.0, folder.0.join("node")).unwrap();
    for path in [folder.0.join("node"), folder.0.join("node/below")] {
        let error = Folder::lock(&path).unwrap_err();
        assert!(matches!(error, RingError::Unsafe { .. }), "{error}");
        assert!(error.to_string().contains("a link"), "{error}");
        assert!(SnapshotWriter::create(&path.join("snapshot"), &snapshot_label()).is_err());
    }
    // Links in the place of files, both finished and unfinished ones.
    let victim = elsewhere.0.join("victim");
    fs::write(&victim, "precious").unwrap();
    let node = folder.0.join("n1");
    let locked = Folder::lock(&node).unwrap();
    for name in ["base.ring.new", "snapshot.new", "kept"] {
        symlink(&victim, node.join(name)).unwrap();
    }
    drop(open(&locked, SIZE));
    drop(locked.snapshot(&snapshot_label()).unwrap());
    assert!(locked.keep().is_err());
    fs::remove_file(node.join("base.ring")).unwrap();
    symlink(&victim, node.join("base.ring")).unwrap();
    assert!(locked.ring(label("base"), SIZE).is_err());
    assert!(locked.remove(false).unwrap());
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(fs::read_dir(&elsewhere.0).unwrap().count(), 1);
}

#[test]
fn a_directory_of_another_user_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        return khz_skip::skip("only root can make another user's directory");
    }
    let folder = TestFolder::new("other");
    fs::create_dir_all(folder.0.join("n1")).unwrap();
    let check = |path: &std::path::Path| {
        let error = Folder::lock(path).unwrap_err();
        assert!(matches!(error, RingError::Unsafe { .. }), "{error}");
        assert!(error.to_string().contains("user 65534"), "{error}");
    };
    chown(folder.0.join("n1"), Some(OTHER), None).unwrap();
    check(&folder.0.join("n1"));
    chown(&folder.0, Some(OTHER), None).unwrap();
    check(&folder.0.join("n2"));
    chown(folder.0.join("n1"), Some(0), None).unwrap();
    check(&folder.0.join("n1"));
    chown(&folder.0, Some(0), None).unwrap();
    Folder::lock(&folder.0.join("n1")).unwrap();
}

#[test]
fn what_agents_make_is_removed_and_what_is_not_theirs_stays() {
    let folder = TestFolder::new("remove");
    let node = folder.0.join("n1");
    let filled = || {
        let locked = Folder::lock(&node).unwrap();
        drop(open(&locked, SIZE));
        for name in ["base.ring.old", "snapshot"] {
            fs::write(node.join(name), "").unwrap();
        }
        assert!(!locked.is_kept().unwrap());
        locked.keep().unwrap();
        locked.keep().unwrap();
        assert!(locked.is_kept().unwrap());
        locked
    };
    assert!(filled().remove(false).unwrap());
    assert!(!node.exists() && folder.0.exists());
    let locked = filled();
    fs::write(node.join("notes"), "").unwrap();
    assert!(!locked.remove(true).unwrap(), "a file of somebody else is left");
    assert_eq!(fs::read_dir(&node).unwrap().count(), 1);
    fs::remove_file(node.join("notes")).unwrap();
    let first = Folder::lock_existing(&node).unwrap();
    assert!(matches!(Folder::lock_existing(&node), Err(RingError::Locked { .. })));
    // The directories of other nodes stay, and so does the parent; it goes with the last one.
    fs::create_dir(folder.0.join("n2")).unwrap();
    fs::set_permissions(folder.0.join("n2"), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(first.remove(true).unwrap());
    assert_eq!(fs::metadata(&folder.0).unwrap().mode() & 0o777, 0o750);
    assert!(Folder::lock_existing(&folder.0.join("n2")).unwrap().remove(true).unwrap());
    assert!(!folder.0.exists());
}
