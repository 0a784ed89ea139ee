//! khz-mount.service under a real systemd, which is the first process of its own namespaces over a copy of this machine's
//! root: other services see the mount, and it ends with the unit. Needs root, systemd and /dev/fuse.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Makes the machine: `$0` is a folder of ours, with the units in `units` and the probe; `$1` is the program. Changes of the
/// root end with it; the folder is at /mnt.
const BOOT: &str = r#"
set -e
mount --make-rprivate /
mkdir -p "$0/machine"
mount -t tmpfs tmpfs "$0/machine"
cd "$0/machine"
mkdir up work root
mount -t overlay overlay -o lowerdir=/,upperdir=up,workdir=work root
cd root
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p old mnt run/systemd/system
touch usr/bin/khz
mount --bind "$1" usr/bin/khz
mount --bind "$0" mnt
cp -r "$0/units/." run/systemd/system/
rm -f etc/machine-id
echo 0123456789abcdef0123456789abcdef > etc/machine-id
pivot_root . old
umount -l /old
mount --make-rshared /
exec env -i container=test PATH=/usr/bin:/bin:/usr/sbin:/sbin /lib/systemd/systemd --unit=test.target
"#;

/// What another service sees.
const PROBE: &str = r#"
exec > /mnt/told.part 2>&1
tries=0
until [ -e /cluster/n1/metrics/mem/total ] || [ $tries -ge 500 ]; do tries=$((tries + 1)); sleep 0.2; done
echo "nodes: $(ls /cluster | tr '\n' ' ')"
echo "total: $(cat /cluster/n1/metrics/mem/total)"
main=$(systemctl show -P MainPID khz-mount.service)
echo "capabilities: $(sed -n 's/^CapEff:\t//p' /proc/$main/status)"
echo "filtered: $(sed -n 's/^Seccomp:\t//p' /proc/$main/status)"
systemctl stop khz-mount.service
echo "ended: $(systemctl show -P Result khz-mount.service)"
echo "left: $(ls -A /cluster | wc -l)"
mv /mnt/told.part /mnt/told
"#;

const TARGET: &str = "[Unit]\nDescription=The test\nDefaultDependencies=no\n\
    Wants=khz-alone.service khz-mount.service probe.service\n";
const ALONE: &str = "[Unit]\nDefaultDependencies=no\n[Service]\nRuntimeDirectory=khz\n\
    Environment=KHZ_RING_DIR=none KHZ_RUN_DIR=/run/khz\n\
    ExecStart=/usr/bin/khz --node n1 --listen 127.0.0.1:0 --text-listen none\n";
const PROBES: &str =
    "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/sh /mnt/probe\n";
/// Not what a whole machine starts before it.
const EARLY: &str = "[Unit]\nDefaultDependencies=no\n";

fn can_run() -> bool {
    let may_unshare =
        Command::new("unshare").args(["--mount", "--pid", "--cgroup", "--fork", "true"]).output();
    may_unshare.is_ok_and(|output| output.status.success())
        && Path::new("/lib/systemd/systemd").exists()
        && std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
}

fn lay_out(folder: &Path) {
    let units = folder.join("units");
    std::fs::create_dir_all(units.join("khz-mount.service.d")).unwrap();
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/khz-mount.service");
    std::fs::copy(packaged, units.join("khz-mount.service")).unwrap();
    for (name, text) in [
        ("test.target", TARGET),
        ("khz-alone.service", ALONE),
        ("probe.service", PROBES),
        ("khz-mount.service.d/early.conf", EARLY),
    ] {
        std::fs::write(units.join(name), text).unwrap();
    }
    // There is no network to wait for.
    std::os::unix::fs::symlink("/dev/null", units.join("network-online.target")).unwrap();
    std::fs::write(folder.join("probe"), PROBE).unwrap();
}

#[test]
fn the_units_mount_is_seen_by_other_services_and_goes_with_the_unit() {
    if !can_run() {
        return khz_skip::skip("needs root, systemd (Debian package systemd) and /dev/fuse");
    }
    let folder: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("unit-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    lay_out(&folder);
    let mut machine = Command::new("unshare");
    machine.args(["--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc", "--cgroup", "--net"]);
    machine.args(["sh", "-c"]).arg(format!("ip link set lo up 2>/dev/null || true\n{BOOT}"));
    machine.arg(&folder).arg(env!("CARGO_BIN_EXE_khz"));
    machine.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut machine = machine.spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    let told = folder.join("told");
    while !told.exists() && Instant::now() < end && machine.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = machine.kill();
    let output = machine.wait_with_output().unwrap();
    let message =
        std::fs::read_to_string(&told).or_else(|_| std::fs::read_to_string(folder.join("told.part")));
    let message = message
        .unwrap_or_else(|_| panic!("the probe never ran: {}", String::from_utf8_lossy(&output.stderr)));
    let told = |name: &str| {
        let line = message
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("{name}: {message}"));
        line.trim().to_owned()
    };
    assert_eq!(told("nodes:"), "n1", "{message}");
    assert!(told("total:").parse::<u64>().is_ok_and(|bytes| bytes > 0), "{message}");
    // CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH, and no other.
    assert_eq!(told("capabilities:"), "0000000000200004", "{message}");
    assert_eq!((told("filtered:").as_str(), told("ended:").as_str()), ("2", "success"), "{message}");
    assert_eq!(told("left:"), "0", "{message}");
    std::fs::remove_dir_all(folder).unwrap();
}
