//! `/proc/PID/mountinfo`: which file systems are mounted where. Reads its lines, and chooses the mounts whose sizes are
//! useful: real file systems, each place once. It queries no file system.
//!
//! ```text
//! 36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/sda1 rw,errors=continue
//! (1)(2)(3)  (4)   (5)  (6)        (7)     (8)(9)  (10)      (11)
//! ```
//!
//! (1) number of the mount, (3) device number, (4) root of the mount in its file system, (5) place, (6) options of the mount, (7) any number of
//! further fields, (8) a hyphen, (9) type, (10) device, (11) options of the file system itself. Words are escaped as in
//! [`crate::survey`].

/// A mounted file system. The words are as the kernel escapes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// The mount's own number. The kernel gives it again only when nobody holds the mount any more, not even a call that hangs in it.
    pub id: &'a [u8],
    /// The device number, `8:1`.
    pub number: &'a [u8],
    /// Which part of the file system is mounted: `/` for all of it.
    pub root: &'a [u8],
    /// Where it is mounted.
    pub place: &'a [u8],
    /// The device, as the file system names it.
    pub device: &'a [u8],
    /// The type.
    pub fs_type: &'a [u8],
    /// True if this mount cannot be written: another mount of the same file system may.
    pub is_read_only: bool,
    /// True if the file system itself cannot be written.
    pub is_all_read_only: bool,
}

/// Types without space of their own: node_exporter's usual list.
const PSEUDO: [&str; 25] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "erofs",
    "fusectl",
    "hugetlbfs",
    "iso9660",
    "mqueue",
    "nsfs",
    "overlay",
    "proc",
    "procfs",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "squashfs",
    "sysfs",
    "tracefs",
];

/// Folders without useful mounts: node_exporter's usual list. A folder that ends in `/` means only the mounts below it.
const ELSEWHERE: [&str; 6] =
    ["/dev", "/proc", "/sys", "/run/credentials/", "/var/lib/docker/", "/var/lib/containers/storage/"];

/// Roots of mounts that systemd puts in the way of a service: `ProtectHome=yes`, `PrivateTmp=yes`.
const IN_THE_WAY: [&str; 2] = ["/systemd/inaccessible/", "systemd-private-"];

/// The mounts of a text, in its order. Lines that are none are left out.
pub fn mounts(text: &[u8]) -> impl Iterator<Item = Mount<'_>> {
    text.split(|&byte| byte == b'\n').filter_map(mount)
}

fn mount(line: &[u8]) -> Option<Mount<'_>> {
    let mut words = line.split(|&byte| byte == b' ');
    let (id, number) = (words.next()?, words.nth(1)?);
    let (root, place, options) = (words.next()?, words.next()?, words.next()?);
    let mut after = words.skip_while(|word| *word != b"-").skip(1);
    let (fs_type, device, all) = (after.next()?, after.next()?, after.next()?);
    let has = |options: &[u8], wanted: &[u8]| options.split(|&byte| byte == b',').any(|one| one == wanted);
    let is_whole = [id, number, root, place, fs_type].iter().all(|word| !word.is_empty());
    is_whole.then(|| Mount {
        id,
        number,
        root,
        place,
        // mount(2) takes an empty word, too; mount(8) calls it so.
        device: if device.is_empty() { b"none" } else { device },
        fs_type,
        is_read_only: has(options, b"ro"),
        // Since Linux 6.15, ext4 says so after an error (`errors=remount-ro`), and is not mounted `ro`.
        is_all_read_only: has(all, b"ro") || has(all, b"emergency_ro"),
    })
}

/// The mounts whose sizes are useful. If several mounts are at one place, the last one counts, because it covers
/// the others.
pub fn chosen(text: &[u8]) -> Vec<Mount<'_>> {
    let mut chosen: Vec<Mount<'_>> = Vec::new();
    let mut at = std::collections::HashMap::new();
    for mount in mounts(text) {
        match at.get(mount.place) {
            Some(&index) => {
                let below: &mut Mount<'_> = &mut chosen[index];
                // What is in the way of a service is in no way of the file system.
                let shows_the_same = mount.number == below.number;
                if shows_the_same && is_in_the_way(&mount) {
                    continue;
                }
                *below = mount;
            }
            None => {
                at.insert(mount.place, chosen.len());
                chosen.push(mount);
            }
        }
    }
    chosen.retain(|mount| !is_pseudo(mount) && !is_in_the_way(mount));
    chosen
}

fn is_pseudo(mount: &Mount<'_>) -> bool {
    let is_below = |folder: &&str| {
        let rest = mount.place.strip_prefix(folder.as_bytes());
        rest.is_some_and(|rest| {
            if folder.ends_with('/') { !rest.is_empty() } else { matches!(rest, [] | [b'/', ..]) }
        })
    };
    PSEUDO.iter().any(|name| name.as_bytes() == mount.fs_type) || ELSEWHERE.iter().any(is_below)
}

fn is_in_the_way(mount: &Mount<'_>) -> bool {
    IN_THE_WAY.iter().any(|part| mount.root.windows(part.len()).any(|bytes| bytes == part.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
22 27 0:21 / /sys rw,nosuid - sysfs sysfs rw
24 27 0:5 / /dev rw - devtmpfs udev rw,size=4096k
25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw
26 27 0:25 / /run rw shared:5 - tmpfs tmpfs rw,size=800k
27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 27 0:40 / /scratch rw,relatime shared:20 master:3 - nfs4 server:/scratch rw,vers=4.2
31 27 8:17 / /data\\040sets ro,relatime - xfs /dev/sdb1 ro,attr2
32 27 8:1 /srv /export ro,relatime - ext4 /dev/sda1 rw,errors=remount-ro
33 26 0:41 / /run/user/1000 rw - tmpfs tmpfs rw
34 27 0:50 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
35 27 0:51 / /devices rw - ext4 /dev/sdc1 rw,emergency_ro
";

    #[test]
    fn a_mount_whose_device_has_no_name_is_a_mount() {
        let text = b"36 27 0:44 / /mnt/x rw - tmpfs  rw\n";
        let device = |mount: &Mount<'_>| mount.device.to_owned();
        assert_eq!(chosen(text).iter().map(device).collect::<Vec<_>>(), [b"none"]);
    }

    fn places(text: &str) -> Vec<String> {
        chosen(text.as_bytes())
            .iter()
            .map(|mount| String::from_utf8_lossy(mount.place).into_owned())
            .collect()
    }

    #[test]
    fn real_file_systems_are_chosen_and_say_whether_they_can_be_written() {
        let places = places(TEXT);
        assert_eq!(
            places,
            ["/run", "/", "/scratch", "/data\\040sets", "/export", "/run/user/1000", "/devices"]
        );
        let read_only: Vec<_> = chosen(TEXT.as_bytes())
            .iter()
            .map(|mount| (mount.is_read_only, mount.is_all_read_only))
            .collect();
        let (no, yes) = (false, true);
        assert_eq!(
            read_only,
            [(no, no), (no, no), (no, no), (yes, yes), (yes, no), (no, no), (no, yes)],
            "a bind mount may be read-only alone; a file system that met an error says so itself"
        );
        let scratch = chosen(TEXT.as_bytes())[2];
        assert_eq!(
            (scratch.device, scratch.fs_type, scratch.number),
            (&b"server:/scratch"[..], &b"nfs4"[..], &b"0:40"[..])
        );
    }

    #[test]
    fn the_last_mount_at_a_place_is_the_one_that_is_seen() {
        let over = format!("{TEXT}40 27 8:33 / /scratch rw - xfs /dev/sdd1 rw\n");
        let mounts = chosen(over.as_bytes());
        assert_eq!(mounts.iter().filter(|mount| mount.place == b"/scratch").count(), 1);
        assert_eq!(mounts[2].device, b"/dev/sdd1");
        // A pseudo file system covers it, too.
        assert!(
            !places(&format!("{TEXT}40 27 0:99 / /scratch rw - autofs auto rw\n"))
                .contains(&"/scratch".to_owned())
        );
    }

    #[test]
    fn what_systemd_puts_before_a_service_is_no_file_system_of_the_host() {
        let home = "41 27 8:49 / /home rw - ext4 /dev/sdd1 rw\n42 41 0:25 /systemd/inaccessible/dir /home ro - tmpfs tmpfs rw\n";
        assert!(!places(&format!("{TEXT}{home}")).contains(&"/home".to_owned()), "hidden, so not known");
        let private = "43 27 8:1 /tmp/systemd-private-77-khz-agent.service/tmp /tmp rw - ext4 /dev/sda1 rw\n";
        assert!(!places(&format!("{TEXT}{private}")).contains(&"/tmp".to_owned()), "a part of /");
        let own = "44 27 8:65 / /tmp rw - xfs /dev/sde1 rw\n45 44 8:65 /systemd-private-77/tmp /tmp rw - xfs /dev/sde1 rw\n";
        assert!(
            places(&format!("{TEXT}{own}")).contains(&"/tmp".to_owned()),
            "the same file system is seen through it"
        );
    }

    #[test]
    fn lines_that_are_no_mounts_are_left_out() {
        for line in
            ["", "1 2 3", "1 2 8:1 / / rw ext4 a rw", "1 2 8:1 / / rw - ext4 a", "1 2  / / rw - ext4 a rw"]
        {
            assert_eq!(mounts(line.as_bytes()).count(), 0, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9:/ a,\\-\\n]{0,200}") {
            chosen(text.as_bytes());
        }
    }
}
