//! The identity of this machine and of this boot. They distinguish two machines of the same name, and a ring
//! of this boot from one of an earlier boot.

use std::fs;

/// A machine and its current boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `/etc/machine-id`, or without that file the boot id, so that two such machines differ.
    pub id: [u8; 16],
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot: [u8; 16],
}

impl Machine {
    /// The machine that this process runs on, whatever root it watches.
    pub fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok().and_then(|text| id(&text));
        let boot = read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let machine = read("/etc/machine-id").or_else(|| read("/var/lib/dbus/machine-id"));
        Machine { id: machine.unwrap_or(boot), boot }
    }
}

/// Reads 32 hexadecimal digits, with or without dashes. All zeros are not an id.
fn id(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u32> =
        text.trim().chars().filter(|&c| c != '-').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let digits: [u32; 32] = digits.try_into().ok()?;
    let id = std::array::from_fn(|i| (digits[2 * i] << 4 | digits[2 * i + 1]) as u8);
    (id != [0; 16]).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_both_files_write_them() {
        let expected = Some([0x0a, 0x1b, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff]);
        assert_eq!(id("0a1b02030405060708090a0b0c0d0eff\n"), expected);
        assert_eq!(id("0a1b0203-0405-0607-0809-0a0b0c0d0eff\n"), expected);
        for text in ["", "uninitialized", "0a1b", "00000000000000000000000000000000"] {
            assert_eq!(id(text), None, "{text}");
        }
    }
}
