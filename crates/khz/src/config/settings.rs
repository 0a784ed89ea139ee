//! The one table of settings. Flags, environment variables, keys of the file, `khz config`, help, man pages
//! and completions are derived from it. Only the keys of two tables of the file are not: those of `[store]` are shorter names
//! of settings that are here, and those of `[sources.NAME]` are for one source; `file.rs` lists both.

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Key in the TOML file: `rate_max`. Flag and variable follow from it.
    pub key: &'static str,
    /// What kind of value it takes.
    pub shape: Shape,
    /// The default, in the form in which a person writes it; empty if khz computes it (for example the node's name).
    pub default: &'static str,
    /// One or two sentences for `--help`.
    pub help: &'static str,
    /// The commands that take it as a flag. In the file and in the environment, every setting may be given for every
    /// command.
    pub scope: u8,
}

/// Which commands take a setting as a flag.
pub mod scope {
    /// Commands that only read: `get`, `watch`, `nodes`.
    pub const READER: u8 = 1;
    /// The cluster of one, and commands that gather for themselves.
    pub const ALONE: u8 = 2;
    /// `khz agent`.
    pub const AGENT: u8 = 4;
    /// `khz hub`.
    pub const HUB: u8 = 8;
    /// `khz store`.
    pub const STORE: u8 = 16;
    /// Processes that gather.
    pub const GATHERERS: u8 = ALONE | AGENT;
    /// Processes that run until they are stopped.
    pub const DAEMONS: u8 = GATHERERS | HUB;
    /// All commands.
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

/// The position of a key in [`SETTINGS`].
pub fn position(key: &str) -> Option<usize> {
    SETTINGS.iter().position(|setting| setting.key == key)
}

/// Every setting, in the order of the help.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "listen",
        shape: Shape::List("ADDRESS,..."),
        default: "127.0.0.1:7070",
        help: "Addresses and ports of the HTTP door; none: only a local socket. An agent opens it only when this is given. Other machines reach it only with TLS, or with --insecure",
        scope: scope::ALL,
    },
    Setting {
        key: "text_listen",
        shape: Shape::List("ADDRESS,..."),
        default: "127.0.0.1:2709",
        help: "Addresses and ports of the text door, for nc and small programs; none: closed. An agent opens it only when this is given",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "hub",
        shape: Shape::List("HOST:PORT,..."),
        default: "",
        help: "Hubs to report to, in order of preference. When one dies or hangs, the agent goes to the next",
        scope: scope::AGENT,
    },
    Setting {
        key: "failback_after",
        shape: Shape::Text("DURATION"),
        default: "5m",
        help: "How long a preferred hub must answer without a failure before the agent goes back to it. Each agent adds a random time of up to half of this, so that not all agents come back at once. 0s: it never goes back",
        scope: scope::AGENT,
    },
    Setting {
        key: "link_listen",
        shape: Shape::List("ADDRESS,..."),
        default: "127.0.0.1:7071",
        help: "Addresses and ports of the link door, where agents report. Other machines reach it only with TLS, or with --insecure",
        scope: scope::HUB,
    },
    Setting {
        key: "source",
        shape: Shape::List("HOST:PORT,..."),
        default: "",
        help: "Other hubs whose nodes this one shows too, at their base rate: HOST:PORT of the link door, or text://HOST:2709 for the text protocol. Loops are refused",
        scope: scope::HUB,
    },
    Setting {
        key: "nodes",
        shape: Shape::Text("HOSTLIST"),
        default: "",
        help: "The nodes that should exist: node[001-500],login[1-2]. If a hub has never seen one of them, it shows the node as missing",
        scope: scope::HUB,
    },
    Setting {
        key: "state_dir",
        shape: Shape::Text("DIR"),
        default: "",
        help: "Where a hub keeps the list of its nodes over a restart, and its store; none: nowhere [default: /var/lib/khz; for users, khz below XDG_STATE_HOME]",
        scope: scope::HUB | scope::STORE,
    },
    Setting {
        key: "history",
        shape: Shape::Text("SIZE"),
        default: "256MiB",
        help: "Memory for recent rows of all nodes together; 0MiB: only the newest row of each",
        scope: scope::HUB,
    },
    Setting {
        key: "blackbox",
        shape: Shape::Text("SIZE"),
        default: "1GiB",
        help: "How large the recordings of all freezes together may become; the oldest make room. 0MiB: nothing is frozen",
        scope: scope::HUB,
    },
    Setting {
        key: "store",
        shape: Shape::Text("DIR"),
        default: "",
        help: "Where rows are stored for weeks; none: nowhere. `khz` alone stores only with this flag [default: for a hub, store below the state directory]",
        scope: scope::HUB | scope::ALONE | scope::STORE,
    },
    Setting {
        key: "keep",
        shape: Shape::Text("SIZE"),
        default: "20GiB",
        help: "How large the store may become: 64MiB or more. If the store is full, the oldest hours are removed",
        scope: scope::HUB | scope::ALONE | scope::STORE,
    },
    Setting {
        key: "store_raw",
        shape: Shape::Text("DURATION"),
        default: "21d",
        help: "How long the store keeps rows as they came, if --keep has room for them. In the file: raw below [store]",
        scope: scope::HUB | scope::ALONE | scope::STORE,
    },
    Setting {
        key: "store_minute",
        shape: Shape::Text("DURATION"),
        default: "90d",
        help: "How long the store keeps summaries of a minute, if --keep has room for them. In the file: minute below [store]",
        scope: scope::HUB | scope::ALONE | scope::STORE,
    },
    Setting {
        key: "store_hour",
        shape: Shape::Text("DURATION"),
        default: "10y",
        help: "How long the store keeps summaries of an hour, if --keep has room for them. In the file: hour below [store]",
        scope: scope::HUB | scope::ALONE | scope::STORE,
    },
    Setting {
        key: "answers_max",
        shape: Shape::Text("SIZE"),
        default: "64MiB",
        help: "Memory for HTTP answers that clients have not taken yet, all together. If it is full, requests get 503",
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
        help: "Which series to record into .rrd files. Separate patterns by ';'. A comma also separates patterns, but not within a hostlist: n1,n[3-5]:load.1m",
        scope: scope::HUB,
    },
    Setting {
        key: "rrd_layout",
        shape: Shape::List("STEP,ARCHIVE,..."),
        default: "",
        help: "Step in seconds, and archives in rrdtool's syntax: 300,AVERAGE:0.5:1:600,MAX:0.5:288:797 [default: MRTG's]",
        scope: scope::HUB,
    },
    Setting {
        key: "rules",
        shape: Shape::List("FILE,..."),
        default: "",
        help: "Rule files of Prometheus, and directories of them (*.yml, *.yaml, *.rules), that the hub evaluates; `khz rules check` checks them",
        scope: scope::HUB,
    },
    Setting {
        key: "boards",
        shape: Shape::Text("DIR"),
        default: "",
        help: "Where the page finds named boards: files *.toml with panels, docs/page.md [default: /etc/khz/boards, if there is one]",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "rules_interval",
        shape: Shape::Text("TIME"),
        default: "15s",
        help: "How often the hub evaluates a group of rules that has no interval of its own",
        scope: scope::HUB,
    },
    Setting {
        key: "rules_rate",
        shape: Shape::Text("RATE"),
        default: "1Hz",
        help: "How often nodes judge the rules that they can judge by themselves. At 10Hz they find what lasts for 100 ms",
        scope: scope::HUB,
    },
    Setting {
        key: "external_url",
        shape: Shape::Text("URL"),
        default: "",
        help: "Where people find this hub, as https://khz.example.org: links in alerts begin with it [default: http, the node's name and the port of the HTTP door]",
        scope: scope::HUB,
    },
    Setting {
        key: "bind",
        shape: Shape::Text("ADDRESS"),
        default: "",
        help: "Local address for outgoing connections, on hosts that have several: of agents to hubs, of hubs to other hubs, of readers to a hub or server [default: the kernel chooses]",
        scope: scope::ALL,
    },
    Setting {
        key: "insecure",
        shape: Shape::Switch,
        default: "false",
        help: "Open doors to other machines without TLS. Everybody who reaches them may read. The traffic is not encrypted. Without cluster_key or tls_ca, every node name is believed",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "tls_cert",
        shape: Shape::Text("FILE"),
        default: "",
        help: "Certificate of this process (PEM), for its doors and for servers that ask for one; `khz certs` makes it",
        scope: scope::ALL,
    },
    Setting {
        key: "tls_key",
        shape: Shape::Text("FILE"),
        default: "",
        help: "The certificate's private key (PEM)",
        scope: scope::ALL,
    },
    Setting {
        key: "tls_ca",
        shape: Shape::Text("FILE"),
        default: "",
        help: "The CA (PEM). Certificates of servers and of clients are accepted if this CA has signed them",
        scope: scope::ALL,
    },
    Setting {
        key: "cluster_key",
        shape: Shape::Text("FILE"),
        default: "",
        help: "The cluster key, from which all tokens are derived; a door that accepts tokens needs it",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "token",
        shape: Shape::Text("FILE"),
        default: "",
        help: "File with the token to show to servers. The environment and the configuration file may hold the token itself",
        scope: scope::ALL,
    },
    Setting {
        key: "run_dir",
        shape: Shape::Text("DIR"),
        default: "",
        help: "Directory of the local sockets [default: /run/khz, or khz below XDG_RUNTIME_DIR]",
        scope: scope::ALL,
    },
    Setting {
        key: "allowed_hosts",
        shape: Shape::List("HOST,..."),
        default: "",
        help: "More host names that clients may use for this door (Host and Origin headers)",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "job",
        shape: Shape::Text("NAME"),
        default: "node",
        help: "Label `job` of the nodes' series in Prometheus (docs/prometheus.md)",
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
        help: "Directory that holds proc and sys, to watch a captured host",
        scope: scope::GATHERERS | scope::READER,
    },
    Setting {
        key: "sources",
        shape: Shape::List("NAME[=RATE],..."),
        default: "",
        help: "Gather only these sources (`khz check` names them), at these rates: stat=1000Hz,meminfo [default: all]",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "proc_allow",
        shape: Shape::List("PATTERN,..."),
        default: "default",
        help: "Files below /proc that readers may read as they are: default,net/tcp, or none. Files of processes, kcore, keys and the like are never shown",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "base_rate",
        shape: Shape::Text("RATE"),
        default: "1Hz",
        help: "Rate of the base lane, which is always sent to the hub",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "local_rate",
        shape: Shape::Text("RATE"),
        default: "10Hz",
        help: "Rate of the local lane, which stays on the node",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "rate_max",
        shape: Shape::Text("RATE"),
        default: "1000Hz",
        help: "The fastest rate that a reader may ask for",
        scope: scope::DAEMONS,
    },
    Setting {
        key: "cpu_max",
        shape: Shape::Text("PERCENT"),
        default: "10%",
        help: "Share of one core that gathering may take. If it takes more, fast lanes run slower",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "handlers",
        shape: Shape::Text("none|plans|programs"),
        default: "plans",
        help: "What channels may ask of this node. none: nothing; plans: to compute expressions and conditions; programs: also to execute programs that operators send (docs/handlers.md)",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "programs_allowed",
        shape: Shape::List("HASH,..."),
        default: "all",
        help: "The programs that this node executes, by their hashes (`khz handler check FILE` prints them); all: every one that an operator sends",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "window",
        shape: Shape::Text("DURATION"),
        default: "100us",
        help: "Readers that ask within this time share one gather",
        scope: scope::ALL,
    },
    Setting {
        key: "ring",
        shape: Shape::Text("SIZE|DURATION"),
        default: "64MiB",
        help: "How much of the past the rings hold: memory for all lanes together, a quarter of it (at least 16MiB) for lanes that readers open, or a time for each lane, as 2h",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "ring_dir",
        shape: Shape::Text("DIR"),
        default: "",
        help: "Directory of the rings, with a subdirectory for each node; none: memory that ends with the process [default: /dev/shm/khz, or khz below XDG_RUNTIME_DIR]",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "keep_rings",
        shape: Shape::Switch,
        default: "false",
        help: "`khz` alone keeps its rings and its snapshot when it ends, as an agent does; otherwise it removes them",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "cpu",
        shape: Shape::Text("LIST"),
        default: "",
        help: "CPUs for gathering and sending: 2, or 0-3,8 [default: all but those that the kernel isolates]",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "nice",
        shape: Shape::Text("N"),
        default: "",
        help: "Nice value of gathering and sending, from -20 (first) to 19 (last) [default: as inherited]",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "sched",
        shape: Shape::Text("POLICY"),
        default: "",
        help: "Scheduling policy of gathering and sending: other, batch, idle, fifo:PRIO or rr:PRIO [default: as inherited]",
        scope: scope::GATHERERS,
    },
    Setting {
        key: "log",
        shape: Shape::Text("LEVEL"),
        default: "warn",
        help: "What to log on stderr: off, error, warn, info, debug or trace",
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
