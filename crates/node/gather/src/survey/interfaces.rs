//! Reads the state of each network interface below `/sys/class/net`. The kernel may wait for a driver before it answers;
//! one lock is shared by all interfaces, so they are one step.

use std::path::Path;

use khz_parse::survey::{NONE, describe, escape};
use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course};
use super::folder::{Folder, names, why};

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

/// Makes the text.
pub(super) fn survey(course: &mut Course<'_>, root: &Path) -> Result<Answer, Abandoned> {
    if !course.begin(b"")? {
        return Ok(Err(Errno::TIMEDOUT));
    }
    let class = root.join("sys/class/net");
    let found = match names(&class) {
        Ok(found) => found,
        Err(errno) => return Ok(Err(errno)),
    };
    let (mut text, mut count) = (Vec::new(), 0);
    for name in found {
        // `bonding_masters` is a file.
        let Ok(mut folder) = Folder::open(&class.join(&name), course.whereabouts()) else { continue };
        count += 1;
        if count <= INTERFACES_MAX {
            interface(&mut folder, name.as_encoded_bytes(), &mut text);
            course.note(|| folder.problem());
        }
    }
    text.extend(format!("* links_left_out={}\n", count.saturating_sub(INTERFACES_MAX)).bytes());
    Ok(Ok(text))
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
    use super::*;

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
