//! Forbidden calls, and names that do not exist: each gives its errno, and nothing else happens.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, FallocateFlags, Mode, RenameFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use crate::lab::{Lab, errno};

/// One forbidden call.
type Call = (&'static str, fn(&Path) -> rustix::io::Result<()>, Errno);

const VALUE: &str = "n0000/metrics/mem/free";

const CALLS: [Call; 26] = [
    ("create", |top| open(top, "n0000/new", libc::O_CREAT | libc::O_WRONLY), Errno::PERM),
    ("create at the top", |top| open(top, "new", libc::O_CREAT | libc::O_WRONLY), Errno::PERM),
    ("write to a value", |top| open(top, VALUE, libc::O_WRONLY), Errno::ACCESS),
    ("write to a value, emptying it", |top| open(top, VALUE, libc::O_WRONLY | libc::O_TRUNC), Errno::ACCESS),
    ("write to a status", |top| open(top, "n0000/status", libc::O_RDWR), Errno::ACCESS),
    ("write to a directory", |top| open(top, "n0000", libc::O_WRONLY), Errno::ISDIR),
    ("list a file", |top| open(top, VALUE, libc::O_DIRECTORY), Errno::NOTDIR),
    ("mkdir", |top| rustix::fs::mkdir(top.join("n0000/new"), Mode::RWXU), Errno::PERM),
    ("mkdir of what is there", |top| rustix::fs::mkdir(top.join("n0000"), Mode::RWXU), Errno::EXIST),
    ("rmdir", |top| rustix::fs::rmdir(top.join("n0000/metrics")), Errno::PERM),
    ("unlink", |top| rustix::fs::unlink(top.join(VALUE)), Errno::PERM),
    ("rename", |top| rustix::fs::rename(top.join(VALUE), top.join("n0000/other")), Errno::PERM),
    (
        "exchange",
        |top| {
            let [one, two] = [VALUE, "n0000/status"].map(|path| top.join(path));
            rustix::fs::renameat_with(CWD, one, CWD, two, RenameFlags::EXCHANGE)
        },
        Errno::PERM,
    ),
    ("link", |top| rustix::fs::link(top.join(VALUE), top.join("n0000/other")), Errno::PERM),
    ("symlink", |top| rustix::fs::symlink("/etc/passwd", top.join("n0000/other")), Errno::PERM),
    ("readlink", |top| rustix::fs::readlink(top.join(VALUE), Vec::new()).map(drop), Errno::INVAL),
    (
        "mknod",
        |top| rustix::fs::mknodat(CWD, top.join("n0000/pipe"), rustix::fs::FileType::Fifo, Mode::RWXU, 0),
        Errno::PERM,
    ),
    ("chmod", |top| rustix::fs::chmod(top.join(VALUE), Mode::RWXU), Errno::PERM),
    (
        "chown",
        |top| rustix::fs::chown(top.join(VALUE), Some(rustix::process::Uid::from_raw(1)), None),
        Errno::PERM,
    ),
    (
        "utimes",
        |top| {
            let time = Timespec { tv_sec: 0, tv_nsec: 0 };
            let times = Timestamps { last_access: time, last_modification: time };
            rustix::fs::utimensat(CWD, top.join(VALUE), &times, rustix::fs::AtFlags::empty())
        },
        Errno::PERM,
    ),
    (
        "setxattr",
        |top| rustix::fs::setxattr(top.join(VALUE), "user.x", b"1", XattrFlags::empty()),
        Errno::OPNOTSUPP,
    ),
    ("truncate a value", |top| truncate(&top.join(VALUE), 0), Errno::PERM),
    ("truncate a setting to a length", |top| truncate(&top.join("n0000/.control/rate"), 7), Errno::PERM),
    (
        "getxattr",
        |top| rustix::fs::getxattr(top.join(VALUE), "user.x", &mut [0u8; 8][..]).map(drop),
        Errno::OPNOTSUPP,
    ),
    (
        "listxattr",
        |top| rustix::fs::listxattr(top.join(VALUE), &mut [0u8; 8][..]).map(drop),
        Errno::OPNOTSUPP,
    ),
    ("removexattr", |top| rustix::fs::removexattr(top.join(VALUE), "user.x"), Errno::OPNOTSUPP),
];

fn truncate(path: &Path, length: libc::off_t) -> rustix::io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends with a NUL and outlives the call; rustix has no truncate(2).
    match unsafe { libc::truncate(path.as_ptr(), length) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()),
    }
}

fn open(top: &Path, below: &str, flags: i32) -> rustix::io::Result<()> {
    let flags = rustix::fs::OFlags::from_bits_retain(flags as u32);
    rustix::fs::open(top.join(below), flags, Mode::RWXU).map(drop)
}

#[test]
fn every_forbidden_call_has_its_errno_and_changes_nothing() {
    let lab = Lab::new(1, |_| {});
    let before = lab.read(VALUE).unwrap();
    for (name, call, expected) in CALLS {
        assert_eq!(call(&lab.directory), Err(expected), "{name}");
    }
    assert_eq!(lab.read(VALUE).unwrap(), before);
    let open = File::open(lab.path(VALUE)).unwrap();
    assert_eq!(
        errno(open.set_len(0)),
        libc::EINVAL,
        "the kernel's own answer for a file that is open for reading"
    );
    assert_eq!(errno(open.write_at(b"x", 0)), libc::EBADF);
    let control = File::options().write(true).open(lab.path("n0000/.control/rate")).unwrap();
    let none = rustix::fs::fallocate(&control, FallocateFlags::empty(), 0, 10);
    assert_eq!(none, Err(Errno::OPNOTSUPP));
    assert_eq!(errno(control.set_len(7)), libc::EPERM);
    assert_eq!(errno(std::fs::read_dir(lab.path(".mount")).map(|_| ())), 0);
}

#[test]
fn no_name_does_harm() {
    let lab = Lab::new(1, |_| {});
    let stat = |name: &[u8]| errno(std::fs::symlink_metadata(lab.directory.join(OsStr::from_bytes(name))));
    for byte in 1..=255u8 {
        for name in [vec![byte], vec![b'x', byte, b'y'], [b"n0000/metrics/mem/", &[byte][..]].concat()] {
            let expected: &[i32] =
                if matches!(byte, b'/' | b'.') { &[0, libc::ENOENT, libc::ENOTDIR] } else { &[libc::ENOENT] };
            assert!(expected.contains(&stat(&name)), "{name:?}: {}", stat(&name));
        }
    }
    for (name, expected) in [
        (vec![b'n'; 255], libc::ENOENT),
        (vec![b'n'; 256], libc::ENAMETOOLONG),
        (vec![b'n'; 4_096], libc::ENAMETOOLONG),
        ([b"n0000/metrics/", &vec![b'm'; 300][..]].concat(), libc::ENAMETOOLONG),
        (b"n0000/metrics/../../n0000/status".to_vec(), 0),
        (b"n0000/metrics/mem/free/../free".to_vec(), libc::ENOTDIR),
        (b".by/mem.*".to_vec(), libc::ENOENT),
        (b".by/n0000:mem.free".to_vec(), libc::ENOENT),
        (b".by/mem.free[".to_vec(), libc::ENOENT),
        (b".by/No.Metric".to_vec(), libc::ENOENT),
        (b"n0000/metrics/net/rx_bytes/%2E%2E".to_vec(), libc::ENOENT),
    ] {
        assert_eq!(stat(&name), expected, "{:?}", String::from_utf8_lossy(&name[..name.len().min(60)]));
    }
    let with_nul = std::fs::metadata(lab.path("n0000/a\0b"));
    assert_eq!(with_nul.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(lab.read(".mount/stats").unwrap().lines().next(), Some("hub connected"));
}
