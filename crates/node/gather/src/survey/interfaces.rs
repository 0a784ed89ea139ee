//! Reads the state of each network interface below `/sys/class/net`. The kernel may wait for a driver before it answers;
//! one lock is shared by all interfaces, so they are one step.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use khz_parse::survey::{NONE, describe, escape};
use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course};
use super::folder::{Folder, names, why};
use super::limited::Shown;

/// The most interfaces that are read: each costs twenty-three files every ten seconds. A node with containers may have
/// hundreds of virtual ones.
pub const INTERFACES_MAX: usize = 256;

/// Files with a decimal number that seldom changes, and the words for them.
const SETTINGS: [(&str, &str); 8] = [
    ("dormant", "dormant"),
    ("ifindex", "index"),
    ("iflink", "link_index"),
    ("link_mode", "link_mode"),
    ("netdev_group", "group"),
    ("type", "hardware_type"),
    ("addr_assign_type", "address_type"),
    ("name_assign_type", "name_type"),
];

/// The kernel counts the speed in millions of bits a second.
const BYTES_OF_MEGABIT: u64 = 125_000;

/// The interfaces that the latest survey has shown.
#[derive(Default)]
pub(super) struct Interfaces(Mutex<Shown>);

impl Interfaces {
    /// Makes the text.
    pub fn survey(&self, course: &mut Course<'_>, root: &Path) -> Result<Answer, Abandoned> {
        if !course.begin(b"")? {
            return Ok(Err(Errno::TIMEDOUT));
        }
        let class = root.join("sys/class/net");
        let mut found = match names(&class) {
            Ok(found) => found,
            Err(errno) => return Ok(Err(errno)),
        };
        // `bonding_masters` is a file.
        found.retain(|name| class.join(name).is_dir());
        let shown = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seats = shown().seats_among(found.iter().map(|name| name.as_encoded_bytes()), INTERFACES_MAX);
        let mut text = Vec::new();
        for name in found {
            if seats.takes(name.as_encoded_bytes())
                && let Ok(mut folder) = Folder::open(&class.join(&name), course.whereabouts())
            {
                interface(&mut folder, name.as_encoded_bytes(), &mut text);
                course.note(|| folder.problem());
            }
        }
        course.close()?;
        let left_out = seats.left_out();
        if left_out > 0 {
            course.note_left_out(format!(
                "{left_out} network interfaces are left out: khz shows the links of {INTERFACES_MAX}, and those that were shown before keep their places; the traffic is of all"
            ));
        }
        shown().note(seats);
        text.extend(format!("* links_left_out={left_out}\n").bytes());
        Ok(Ok(text))
    }
}

fn interface(folder: &mut Folder<'_>, name: &[u8], text: &mut Vec<u8>) {
    text.extend(b"device ");
    escape(name, text);
    let up = folder.value("operstate").map(|state| u8::from(state == b"up").to_string());
    let up = up.unwrap_or_else(|errno| why(Some(errno)).to_owned());
    text.extend(format!(" up={up}").bytes());
    folder.number("carrier", "carrier", text);
    folder.number("carrier_changes", "carrier_changes", text);
    folder.number("carrier_up_count", "carrier_up_changes", text);
    folder.number("carrier_down_count", "carrier_down_changes", text);
    text.extend(format!(" speed={}", speed(folder.value("speed"))).bytes());
    folder.number("mtu", "mtu", text);
    folder.number("tx_queue_len", "queue_length", text);
    folder.number("statistics/rx_nohandler", "rx_no_handler", text);
    folder.hexadecimal("flags", "flags", text);
    folder.hexadecimal("dev_id", "device_id", text);
    for (file, name) in SETTINGS {
        folder.number(file, name, text);
    }
    for label in ["address", "broadcast", "duplex", "ifalias", "operstate"] {
        folder.label(label, label, text);
    }
    if let Some(state) = folder.value("flags").ok().and_then(switched) {
        describe("adminstate", state.as_bytes(), text);
    }
    text.push(b'\n');
}

/// Whether somebody has switched an interface on, by its flags.
fn switched(flags: &[u8]) -> Option<&'static str> {
    let flags = khz_parse::number::hexadecimal(flags.strip_prefix(b"0x")?).ok()?;
    Some(if flags & libc::IFF_UP as u64 != 0 { "up" } else { "down" })
}

/// Bytes a second. A driver that does not know the speed says -1, or refuses.
fn speed(said: Result<&[u8], Errno>) -> String {
    let number = |said: &[u8]| std::str::from_utf8(said).ok()?.parse::<i64>().ok();
    match said {
        Ok(said) => match number(said) {
            Some(-1) => NONE.to_owned(),
            // The same, of older kernels.
            Some(unknown) if unknown == i64::from(u32::MAX) => NONE.to_owned(),
            Some(megabits @ 0..) => (megabits.unsigned_abs().saturating_mul(BYTES_OF_MEGABIT)).to_string(),
            _ => khz_parse::survey::UNREADABLE.to_owned(),
        },
        Err(errno) => why(Some(errno)).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use khz_parse::Subject;

    use super::*;
    use crate::made_up::MadeUp;
    use crate::survey::looks::Looks;

    #[test]
    fn an_interface_that_was_shown_keeps_its_place() {
        let root = MadeUp::new("interfaces-many");
        let add = |name: &str| root.write(&format!("sys/class/net/{name}/operstate"), "up\n");
        add("uplink");
        root.write("sys/class/net/bonding_masters", "");
        let looks = Looks::at(&root, Subject::Interfaces);
        let shown = || {
            let text = String::from_utf8(looks.bytes().unwrap()).unwrap();
            let is_shown = |name: &str| text.contains(&format!("device {name} "));
            let left_out = text.lines().last().unwrap().to_owned();
            (is_shown("uplink"), is_shown("a1000"), text.matches("device ").count(), left_out)
        };
        let problem = || looks.survey.lock().problems[0].clone().unwrap_or_default();
        assert_eq!(shown(), (true, false, 1, "* links_left_out=0".into()));
        // They come before it, by their names.
        (0..300).for_each(|number| add(&format!("a1{number:03}")));
        assert_eq!(shown(), (true, true, INTERFACES_MAX, "* links_left_out=45".into()));
        assert!(problem().starts_with("45 network interfaces are left out: khz shows"), "{}", problem());
        // A new interface comes after all others that were there.
        add("a0");
        assert_eq!(shown(), (true, true, INTERFACES_MAX, "* links_left_out=46".into()));
        std::fs::remove_dir_all(root.join("sys/class/net/uplink")).unwrap();
        assert_eq!(shown(), (false, true, INTERFACES_MAX, "* links_left_out=45".into()));
        (0..299).for_each(|n| std::fs::remove_dir_all(root.join(format!("sys/class/net/a1{n:03}"))).unwrap());
        assert_eq!((shown(), problem()), ((false, false, 2, "* links_left_out=0".into()), String::new()));
    }

    #[test]
    fn an_interface_is_switched_on_by_its_flags_whatever_its_state() {
        for (flags, state) in [("0x1003", Some("up")), ("0x1002", Some("down")), ("0x1", Some("up"))] {
            assert_eq!(switched(flags.as_bytes()), state);
        }
        assert_eq!((switched(b"up"), switched(b""), switched(b"0x")), (None, None, None));
    }

    #[test]
    fn a_speed_that_is_not_known_is_none() {
        for (said, speed_is) in [("1000", "125000000"), ("400000", "50000000000"), ("0", "0"), ("-1", "-")] {
            assert_eq!(speed(Ok(said.as_bytes())), speed_is);
        }
        assert_eq!(speed(Ok(b"4294967295")), "-");
        assert_eq!((speed(Err(Errno::INVAL)), speed(Err(Errno::IO))), ("-".into(), "unreadable".into()));
        assert_eq!(speed(Ok(b"fast")), "unreadable");
    }
}
