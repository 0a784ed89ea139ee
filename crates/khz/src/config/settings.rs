//! The one table of settings. Flags, environment variables, keys of the file, `khz config`, help, man pages
//! and completions are derived from it; a setting that is not in it does not exist.

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Key in the TOML file: `rate_max`. Flag and variable follow from it.
    pub key: &'static str,
    /// What kind of value it takes.
    pub shape: Shape,
    /// The default as it would be written; the node's name has none: it is asked of the host.
    pub default: &'static str,
    /// One or two sentences for `--help`.
    pub help: &'static str,
    /// True where the commands that only read (`get`, `watch`, `catalog`) need it too.
    pub for_readers: bool,
}

/// What kind of value a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text, named like this in the help.
    Text(&'static str),
    /// Several texts: an array in the file, separated by commas elsewhere.
    List(&'static str),
    /// On or off: `true` or `false`; as a flag it takes no value.
    Switch,
}

impl Setting {
    /// `--rate-max` without its dashes.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// `KHZ_RATE_MAX`.
    pub fn variable(&self) -> String {
        format!("KHZ_{}", self.key.to_ascii_uppercase())
    }
}

/// Where a key stands in [`SETTINGS`].
pub fn position(key: &str) -> Option<usize> {
    SETTINGS.iter().position(|setting| setting.key == key)
}

/// Every setting, in the order of the help.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "listen",
        shape: Shape::Text("ADDRESS"),
        default: "127.0.0.1:7070",
        help: "Address and port of the HTTP door. Addresses that other machines can reach need --insecure",
        for_readers: true,
    },
    Setting {
        key: "insecure",
        shape: Shape::Switch,
        default: "false",
        help: "Accept that everybody who can reach the door reads along: there is no TLS yet",
        for_readers: false,
    },
    Setting {
        key: "allowed_hosts",
        shape: Shape::List("HOST,..."),
        default: "",
        help: "Further names under which browsers may reach the door (Host and Origin headers)",
        for_readers: false,
    },
    Setting {
        key: "node",
        shape: Shape::Text("NAME"),
        default: "",
        help: "Name of this node [default: its host name]",
        for_readers: true,
    },
    Setting {
        key: "root",
        shape: Shape::Text("DIR"),
        default: "/",
        help: "Where /proc and /sys are looked for, so that a captured host can be watched",
        for_readers: true,
    },
    Setting {
        key: "sources",
        shape: Shape::List("NAME[=RATE],..."),
        default: "",
        help: "Gather exactly these sources (`khz check` names them), at these rates: stat=1000Hz,meminfo [default: all]",
        for_readers: false,
    },
    Setting {
        key: "base_rate",
        shape: Shape::Text("RATE"),
        default: "1Hz",
        help: "Rate of the base lane, which is always shipped",
        for_readers: false,
    },
    Setting {
        key: "local_rate",
        shape: Shape::Text("RATE"),
        default: "10Hz",
        help: "Rate of the local lane, which is recorded on the node",
        for_readers: false,
    },
    Setting {
        key: "rate_max",
        shape: Shape::Text("RATE"),
        default: "1000Hz",
        help: "Fastest rate that a reader is granted",
        for_readers: false,
    },
    Setting {
        key: "cpu_max",
        shape: Shape::Text("PERCENT"),
        default: "10%",
        help: "Share of one core that gathering may use; beyond it sources are slowed down",
        for_readers: false,
    },
    Setting {
        key: "window",
        shape: Shape::Text("DURATION"),
        default: "100us",
        help: "One gather serves all who ask within this time",
        for_readers: true,
    },
    Setting {
        key: "ring",
        shape: Shape::Text("SIZE"),
        default: "16MiB",
        help: "Memory for the history of the last minutes; lanes that readers open take more",
        for_readers: false,
    },
    Setting {
        key: "log",
        shape: Shape::Text("LEVEL"),
        default: "warn",
        help: "What is logged on stderr: off, error, warn, info, debug or trace",
        for_readers: false,
    },
    Setting {
        key: "quiet",
        shape: Shape::Switch,
        default: "false",
        help: "No status line, even on a terminal",
        for_readers: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_key() {
        let setting = &SETTINGS[position("rate_max").unwrap()];
        assert_eq!((setting.flag().as_str(), setting.variable().as_str()), ("rate-max", "KHZ_RATE_MAX"));
    }

    #[test]
    fn every_key_is_there_once() {
        for (at, setting) in SETTINGS.iter().enumerate() {
            assert_eq!(position(setting.key), Some(at), "{}", setting.key);
        }
    }
}
