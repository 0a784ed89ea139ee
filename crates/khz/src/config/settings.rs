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
    /// The commands that take it as a flag; the file and the environment hold every setting for all of them.
    pub scope: u8,
}

/// Who needs a setting.
pub mod scope {
    /// Commands that only read: `get`, `watch`, `nodes`.
    pub const READER: u8 = 1;
    /// The cluster of one, and commands that gather for themselves.
    pub const ALONE: u8 = 2;
    /// `khz agent`.
    pub const AGENT: u8 = 4;
    /// `khz hub`.
    pub const HUB: u8 = 8;
    /// Whoever gathers.
    pub const GATHERERS: u8 = ALONE | AGENT;
    /// Whoever stays.
    pub const DAEMONS: u8 = GATHERERS | HUB;
    /// Everybody.
    pub const ALL: u8 = DAEMONS | READER;
}

/// What kind of value a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text, named like this in the help.
    Text(&'static str),
    /// Several texts: an array in the file, separated by commas elsewhere.
    List(&'static str),
    /// Several patterns: an array in the file, separated as `Pattern::list` reads them elsewhere.
    Patterns(&'static str),
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
        shape: Shape::List("ADDRESS,..."),
        default: "127.0.0.1:7070",
        help: "Addresses and ports of the HTTP door. Those that other machines can reach need TLS, or --insecure",
        scope: scope::ALL,
    },
    Setting {
        key: "text_listen",
        shape: Shape::List("ADDRESS,..."),
        default: "127.0.0.1:2709",
        help: "Addresses and ports of the text door, for nc and small programs; none: it stays closed, as it does in an agent where nobody says so",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "hub",
        shape: Shape::List("HOST:PORT,..."),
        default: "",
        help: "Hubs that the agent may report to, in order of preference: the first that answers; when one dies or hangs the next takes over",
        scope: scope::AGENT,
    },
    Setting {
        key: "failback_after",
        shape: Shape::Text("DURATION"),
        default: "5m",
        help: "An agent goes back to a hub that stands before its present one when that was well for so long, and up to half as long again, so that not all come at once; 0s: it stays",
        scope: scope::AGENT,
    },
    Setting {
        key: "link_listen",
        shape: Shape::List("ADDRESS,..."),
        default: "127.0.0.1:7071",
        help: "Addresses and ports where the hub takes nodes in. Those that other machines can reach need TLS or --insecure",
        scope: scope::HUB,
    },
    Setting {
        key: "source",
        shape: Shape::List("HOST:PORT,..."),
        default: "",
        help: "Other hubs (their link doors) whose nodes this one shows as well, at their base rate; text://HOST:2709: hubs or agents that are asked over the text protocol; loops are refused",
        scope: scope::HUB,
    },
    Setting {
        key: "nodes",
        shape: Shape::Text("HOSTLIST"),
        default: "",
        help: "The nodes that should be there, as node[001-500],login[1-2]: one that was never seen is missing",
        scope: scope::HUB,
    },
    Setting {
        key: "state_dir",
        shape: Shape::Text("DIR"),
        default: "",
        help: "Where a hub remembers its nodes from one start to the next; none: nowhere [default: /var/lib/khz; of users khz below XDG_STATE_HOME]",
        scope: scope::HUB,
    },
    Setting {
        key: "history",
        shape: Shape::Text("SIZE"),
        default: "256MiB",
        help: "Memory of the hub for the recent past of all nodes together; 0MiB keeps only the present",
        scope: scope::HUB,
    },
    Setting {
        key: "answers_max",
        shape: Shape::Text("SIZE"),
        default: "64MiB",
        help: "Memory for HTTP answers that their readers have not yet taken, all together; beyond it requests get 503",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "rrd",
        shape: Shape::Text("DIR"),
        default: "",
        help: "Record the base lane of every node into .rrd files below this directory: DIR/NODE/SERIES.rrd",
        scope: scope::HUB,
    },
    Setting {
        key: "rrd_match",
        shape: Shape::Patterns("PATTERN,..."),
        default: "*",
        help: "The series that are recorded into .rrd files; a comma between hosts, as in n1,n[3-5]:load.1m, belongs to them, and ; is always between patterns",
        scope: scope::HUB,
    },
    Setting {
        key: "rrd_layout",
        shape: Shape::List("STEP,ARCHIVE,..."),
        default: "",
        help: "Seconds a primary point, and archives in rrdtool's words: 300,AVERAGE:0.5:1:600,MAX:0.5:288:797 [default: MRTG's]",
        scope: scope::HUB,
    },
    Setting {
        key: "bind",
        shape: Shape::Text("ADDRESS"),
        default: "",
        help: "Local address from which connections go out, on hosts that have several: of an agent to its hubs, of a hub to its sources, of readers to a hub or server [default: as the routes say]",
        scope: scope::ALL,
    },
    Setting {
        key: "insecure",
        shape: Shape::Switch,
        default: "false",
        help: "Accept that everybody who can reach a door may come in, that without TLS all on the way read along, and that names of nodes are believed where no cluster_key or tls_ca is given",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "tls_cert",
        shape: Shape::Text("FILE"),
        default: "",
        help: "Our certificate (PEM), for our doors and for servers that ask; `khz certs` makes it",
        scope: scope::ALL,
    },
    Setting {
        key: "tls_key",
        shape: Shape::Text("FILE"),
        default: "",
        help: "The key of our certificate (PEM)",
        scope: scope::ALL,
    },
    Setting {
        key: "tls_ca",
        shape: Shape::Text("FILE"),
        default: "",
        help: "The CA (PEM) whose certificates we accept, of servers and of those who come to our doors",
        scope: scope::ALL,
    },
    Setting {
        key: "cluster_key",
        shape: Shape::Text("FILE"),
        default: "",
        help: "The cluster key, from which all tokens follow: for doors that accept tokens",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "token",
        shape: Shape::Text("FILE"),
        default: "",
        help: "File of our own token, to show where we come to; the environment and a file of settings may hold the token itself",
        scope: scope::ALL,
    },
    Setting {
        key: "run_dir",
        shape: Shape::Text("DIR"),
        default: "",
        help: "Where the local sockets are [default: /run/khz, or khz below XDG_RUNTIME_DIR]",
        scope: scope::ALL,
    },
    Setting {
        key: "allowed_hosts",
        shape: Shape::List("HOST,..."),
        default: "",
        help: "Further names under which browsers may reach the door (Host and Origin headers)",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "node",
        shape: Shape::Text("NAME"),
        default: "",
        help: "Name of this node [default: its host name]",
        scope: scope::ALL,
    },
    Setting {
        key: "root",
        shape: Shape::Text("DIR"),
        default: "/",
        help: "Where /proc and /sys are looked for, so that a captured host can be watched",
        scope: scope::GATHERERS | scope::READER,
    },
    Setting {
        key: "sources",
        shape: Shape::List("NAME[=RATE],..."),
        default: "",
        help: "Gather exactly these sources (`khz check` names them), at these rates: stat=1000Hz,meminfo [default: all]",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "proc_allow",
        shape: Shape::List("PATTERN,..."),
        default: "default",
        help: "Files below /proc that readers may see as the kernel printed them, as default,net/tcp or none; never those of processes, kcore, keys and the like",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "base_rate",
        shape: Shape::Text("RATE"),
        default: "1Hz",
        help: "Rate of the base lane, which is always shipped",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "local_rate",
        shape: Shape::Text("RATE"),
        default: "10Hz",
        help: "Rate of the local lane, which is recorded on the node",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "rate_max",
        shape: Shape::Text("RATE"),
        default: "1000Hz",
        help: "Fastest rate that a reader is granted",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "cpu_max",
        shape: Shape::Text("PERCENT"),
        default: "10%",
        help: "Share of one core that gathering may use; beyond it sources are slowed down",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "window",
        shape: Shape::Text("DURATION"),
        default: "100us",
        help: "One gather serves all who ask within this time",
        scope: scope::ALL,
    },
    Setting {
        key: "ring",
        shape: Shape::Text("SIZE|DURATION"),
        default: "64MiB",
        help: "How much of the past is recorded: memory for all lanes together, or a time for each, as 2h",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "ring_dir",
        shape: Shape::Text("DIR"),
        default: "",
        help: "Where the rings are, a directory for each node; none: memory that ends with the agent [default: /dev/shm/khz, or khz below XDG_RUNTIME_DIR]",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "keep_rings",
        shape: Shape::Switch,
        default: "false",
        help: "`khz` alone leaves its rings and its snapshot when it is ended, as an agent does; otherwise it removes them",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "cpu",
        shape: Shape::Text("LIST"),
        default: "",
        help: "CPUs that gathering runs on, as 2 or 0-3,8 [default: all but those that the kernel isolates]",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "nice",
        shape: Shape::Text("N"),
        default: "",
        help: "Nice value of gathering, from -20 (first) to 19 (last) [default: as inherited]",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "sched",
        shape: Shape::Text("POLICY"),
        default: "",
        help: "Scheduling policy of gathering: other, batch, idle, fifo:PRIO or rr:PRIO [default: as inherited]",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "log",
        shape: Shape::Text("LEVEL"),
        default: "warn",
        help: "What is logged on stderr: off, error, warn, info, debug or trace",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "quiet",
        shape: Shape::Switch,
        default: "false",
        help: "No status line, even on a terminal",
        scope: scope::DAEMONS,
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
