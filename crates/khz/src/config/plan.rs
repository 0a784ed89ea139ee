//! The checked plan: every setting in its own type. Where a value cannot be used there is no plan but one sentence: which
//! value, where it was written, and what to write instead.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use khz_ask::ForeignServer;
use khz_gather::{AllowList, Handlers, Placement, RingSize};
use khz_http::NodeGroup;
use khz_model::{ByteSize, Nanos, NodeName, Rate};
use khz_program::ProgramHash;
use khz_trust::{Exposure, Means};

use super::actions;
use super::addresses::{self, HubAddress};
use super::foreign;
use super::groups;
use super::health::{self, HealthPlan};
use super::jobs::{self, JobsPlan};
use super::nodes;
use super::notify;
use super::remote::{self, RemoteWrite};
use super::rrd::{self, Recording};
use super::sinks::{self, Sink};
use super::sources::{self, Sources};
use super::trust::Trust;
use super::values::{self, bad, checked, file, quantity, switch};
use super::{ConfigError, Layers, Origin};

/// What the program is to do. One field a setting, or a few that belong together.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Addresses of the HTTP door, at least one.
    pub listen: Vec<SocketAddr>,
    /// A flag of this command says where the door is.
    pub listen_is_flag: bool,
    /// Addresses of the text door; without any it stays closed.
    pub text_listen: Vec<SocketAddr>,
    /// A setting asks for the text door.
    pub text_is_asked: bool,
    /// Hubs to report to, in the order of preference.
    pub hubs: Vec<HubAddress>,
    /// An agent goes back to a preferred hub when that has been well for this long; 0: never.
    pub failback_after: Nanos,
    /// Other hubs whose nodes a hub shows too.
    pub source_hubs: Vec<HubAddress>,
    /// Text doors whose nodes a hub shows too.
    pub source_doors: Vec<HubAddress>,
    /// Addresses of a hub's link door.
    pub link_listen: Vec<SocketAddr>,
    /// Nodes that a hub expects.
    pub expected: Vec<NodeName>,
    /// Where a hub keeps the list of its nodes.
    pub state_dir: StateDir,
    /// A hub's memory for recent rows.
    pub history: ByteSize,
    /// Bytes that the recordings of freezes may have; 0: nothing is frozen.
    pub black_box: ByteSize,
    /// Where rows are stored for weeks, and how long.
    pub store: StorePlan,
    /// Where a hub sends the rows of its store.
    pub remote_write: Vec<RemoteWrite>,
    /// Who is told of alerts.
    pub notify: khz_notify::Settings,
    /// What is done about alerts.
    pub actions: khz_actions::Settings,
    /// What `khz health` looks at.
    pub health: HealthPlan,
    /// What a hub does with the jobs of a batch system.
    pub jobs: JobsPlan,
    /// Another engine that answers queries in PromQL.
    pub engine: Option<ForeignServer>,
    /// Other hubs that judge the same rules for other nodes.
    pub rules_peers: Vec<ForeignServer>,
    /// Memory for all HTTP answers together.
    pub answers_max: ByteSize,
    /// Groups of nodes, as people arrange them: racks, partitions.
    pub groups: Vec<NodeGroup>,
    /// Where named boards of the page are; `None`: in the usual folder.
    pub boards: Option<PathBuf>,
    /// What a hub records into .rrd files, and where.
    pub rrd: Option<(PathBuf, Recording)>,
    /// Where a hub writes the rows of channels that say so.
    pub sinks: Vec<Sink>,
    /// Rule files, and directories of them, that a hub evaluates.
    pub rules: Vec<PathBuf>,
    /// How often a group of rules is evaluated that does not say so.
    pub rules_interval: Nanos,
    /// How often nodes judge the rules that they can judge by themselves.
    pub rules_rate: Rate,
    /// Where people find this hub: links in alerts begin with it.
    pub external_url: String,
    /// The local address that connections go out from; `None`: the kernel chooses.
    pub bind: Option<IpAddr>,
    /// Everybody who reaches a door may read there, without TLS.
    pub insecure: bool,
    /// Certificates, keys and tokens.
    pub trust: Trust,
    /// Directory of the local sockets; `None`: the usual ones.
    pub run_dir: Option<PathBuf>,
    /// Further host names of the HTTP door.
    pub allowed_hosts: Vec<String>,
    /// The label `job` of the nodes' series in Prometheus.
    pub job: String,
    /// The name of this node.
    pub node: NodeName,
    /// Where `/proc` and `/sys` are.
    pub root: PathBuf,
    /// What is gathered.
    pub sources: Sources,
    /// Files below `/proc` that readers may see as they are.
    pub proc_allow: AllowList,
    /// Rate of the base lane.
    pub base_rate: Rate,
    /// Rate of the local lane.
    pub local_rate: Rate,
    /// The fastest rate that a reader may ask for.
    pub rate_max: Rate,
    /// Share of one core that gathering may take, above 0 and at most 1.
    pub cpu_max: f64,
    /// What channels may ask of this node.
    pub handlers: Handlers,
    /// The programs that it executes; `None`: all that operators send.
    pub programs_allowed: Option<Vec<ProgramHash>>,
    /// Readers that ask within this time share one gather.
    pub window: Nanos,
    /// How much of the past the rings hold.
    pub ring: RingSize,
    /// Where the rings are.
    pub ring_dir: RingDir,
    /// Rings stay after a clean end.
    pub keep_rings: bool,
    /// Where and with which priority gathering runs.
    pub placement: Placement,
    /// The least severe level that is logged; `None`: nothing.
    pub log: Option<tracing::Level>,
    /// No status line on a terminal.
    pub quiet: bool,
}

/// Where the rings are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingDir {
    /// In the usual directory.
    Usual,
    /// In memory without a name.
    Nowhere,
    /// Below this directory, with a subdirectory for each node.
    Below(PathBuf),
}

/// Where rows are stored, and how much of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePlan {
    /// The directory.
    pub dir: StateDir,
    /// How large it may become.
    pub keep: ByteSize,
    /// How long rows are kept as they came.
    pub raw: Nanos,
    /// How long summaries of a minute are kept.
    pub minute: Nanos,
    /// How long summaries of an hour are kept.
    pub hour: Nanos,
}

/// Where a hub keeps the list of its nodes, or rows are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateDir {
    /// In the usual directory.
    Usual,
    /// Nowhere.
    Nowhere,
    /// In this directory.
    Here(PathBuf),
}

impl Plan {
    /// Checks the layers. `host_name` becomes the node's name where none is set.
    pub fn check(layers: &Layers, host_name: &str, source_names: &[&str]) -> Result<Self, ConfigError> {
        let job = checked(layers, "job", values::label)?;
        let insecure = checked(layers, "insecure", switch)?;
        let plan = Plan {
            engine: layers.engine.as_ref().map(foreign::engine).transpose()?,
            rules_peers: foreign::rules_peers(&layers.rules_peers)?,
            notify: notify::settings(&layers.notify)?,
            actions: actions::settings(&layers.actions)?,
            health: health::settings(layers.health.as_ref(), &layers.actions)?,
            jobs: jobs::settings(layers.jobs.as_ref())?,
            remote_write: remote::receivers(&layers.remote_writes, &job)?,
            listen: checked(layers, "listen", addresses::door_addresses)?,
            listen_is_flag: matches!(layers.value("listen").origin, Origin::Flag(_)),
            text_listen: checked(layers, "text_listen", addresses::door_addresses)?,
            text_is_asked: !matches!(layers.value("text_listen").origin, Origin::Default),
            hubs: checked(layers, "hub", addresses::hub_addresses)?,
            failback_after: checked(layers, "failback_after", quantity::<Nanos>)?,
            source_hubs: checked(layers, "source", addresses::source_hubs)?,
            source_doors: checked(layers, "source", addresses::source_doors)?,
            link_listen: checked(layers, "link_listen", addresses::link_addresses)?,
            expected: checked(layers, "nodes", nodes::expected)?,
            state_dir: checked(layers, "state_dir", |text| Ok(values::state_dir(text)))?,
            history: checked(layers, "history", quantity::<ByteSize>)?,
            black_box: checked(layers, "blackbox", quantity::<ByteSize>)?,
            store: StorePlan {
                dir: checked(layers, "store", |text| Ok(values::state_dir(text)))?,
                keep: checked(layers, "keep", values::keep)?,
                raw: checked(layers, "store_raw", values::store_time)?,
                minute: checked(layers, "store_minute", values::store_time)?,
                hour: checked(layers, "store_hour", values::store_time)?,
            },
            answers_max: checked(layers, "answers_max", values::answers_max)?,
            groups: groups::groups(&layers.groups)?,
            boards: checked(layers, "boards", |text| Ok(file(text)))?,
            rrd: rrd::recording(layers)?,
            sinks: sinks::sinks(&layers.sinks)?,
            rules: checked(layers, "rules", values::files)?,
            rules_interval: checked(layers, "rules_interval", values::rules_interval)?,
            rules_rate: checked(layers, "rules_rate", quantity::<Rate>)?,
            external_url: checked(layers, "external_url", values::external_url)?,
            bind: checked(layers, "bind", addresses::local_address)?,
            insecure,
            trust: Trust::check(layers)?,
            run_dir: checked(layers, "run_dir", |text| Ok(file(text)))?,
            allowed_hosts: checked(layers, "allowed_hosts", addresses::hosts)?,
            job,
            node: checked(layers, "node", |text| nodes::node_name(text, host_name))?,
            root: checked(layers, "root", values::root)?,
            sources: sources::sources(layers, source_names)?,
            proc_allow: checked(layers, "proc_allow", values::proc_allow)?,
            base_rate: checked(layers, "base_rate", quantity::<Rate>)?,
            local_rate: checked(layers, "local_rate", quantity::<Rate>)?,
            rate_max: checked(layers, "rate_max", quantity::<Rate>)?,
            cpu_max: checked(layers, "cpu_max", values::share)?,
            handlers: checked(layers, "handlers", values::handlers)?,
            programs_allowed: checked(layers, "programs_allowed", values::programs_allowed)?,
            window: checked(layers, "window", values::window)?,
            ring: checked(layers, "ring", values::ring)?,
            ring_dir: checked(layers, "ring_dir", |text| Ok(values::ring_dir(text)))?,
            keep_rings: checked(layers, "keep_rings", switch)?,
            placement: Placement {
                cpus: checked(layers, "cpu", values::unless_empty)?,
                nice: checked(layers, "nice", values::nice)?,
                sched: checked(layers, "sched", values::unless_empty)?,
            },
            log: checked(layers, "log", values::level)?,
            quiet: checked(layers, "quiet", switch)?,
        };
        plan.agrees_with_itself(layers)?;
        Ok(plan)
    }

    /// Checks settings against each other.
    fn agrees_with_itself(&self, layers: &Layers) -> Result<(), ConfigError> {
        for &address in &self.listen {
            Exposure::of_listener(address, self.means())
                .map_err(|error| bad("listen", layers.value("listen"), error.to_string()))?;
        }
        // The text protocol has no tokens: a cluster key does not identify anybody there.
        let means = Means { identifies: self.trust.ca.is_some(), ..self.means() };
        for &address in &self.text_listen {
            Exposure::of_listener(address, means)
                .map_err(|error| bad("text_listen", layers.value("text_listen"), error.to_string()))?;
        }
        for &address in &self.link_listen {
            Exposure::of_listener(address, self.means())
                .map_err(|error| bad("link_listen", layers.value("link_listen"), error.to_string()))?;
        }
        let rates =
            [("base_rate", self.base_rate), ("local_rate", self.local_rate), ("rules_rate", self.rules_rate)];
        for (key, rate) in rates {
            if rate.is_above(self.rate_max) {
                let problem = format!("{rate} is above rate_max, which is {}", self.rate_max);
                return Err(bad(key, layers.value(key), problem));
            }
        }
        Ok(())
    }

    /// How the doors are protected.
    pub fn means(&self) -> Means {
        let identifies = self.trust.ca.is_some() || self.trust.cluster_key.is_some();
        Means { tls: self.trust.pair.is_some(), identifies, insecure: self.insecure }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layers::tests::layers;
    use super::*;

    const SOURCES: [&str; 3] = ["stat", "meminfo", "net_dev"];

    fn plan(file: &str, flags: &[(&str, &str)]) -> Result<Plan, String> {
        Plan::check(&layers(file, &[], flags), "host1", &SOURCES).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_a_valid_plan() {
        let plan = plan("", &[]).unwrap();
        assert_eq!(plan.listen, ["127.0.0.1:7070".parse().unwrap()]);
        assert_eq!(plan.node.as_str(), "host1");
        assert_eq!(plan.rate_max.to_string(), "1000Hz");
        assert_eq!(plan.cpu_max, 0.1);
        assert_eq!(plan.sources, Sources::default());
    }

    #[test]
    fn bad_values_say_where_they_were_written_and_what_to_write() {
        for (key, text, expected) in [
            (
                "rate_max",
                "0",
                "rate_max (from --rate-max): '0' is out of range: a rate is above 0 and at most 10000Hz; the slowest is once a day",
            ),
            ("cpu_max", "10", "cpu_max (from --cpu-max): '10' is not a share of one core: write it as 10%"),
            (
                "cpu_max",
                "101%",
                "cpu_max (from --cpu-max): '101%' is out of range: above 0% and at most 100% of one core",
            ),
            (
                "cpu_max",
                "NaN%",
                "cpu_max (from --cpu-max): 'NaN%' is not a share of one core: write it as 10%",
            ),
            ("window", "2s", "window (from --window): '2s' is out of range: a merge window has at most 1s"),
            (
                "ring",
                "1KiB",
                "ring (from --ring): '1KiB' is out of range: the ring has between 256KiB and 64GiB",
            ),
            (
                "node",
                "a/b",
                "node (from --node): 'a/b': a node name starts with a letter or digit; letters, digits, '-', '.' and '_' follow",
            ),
            (
                "listen",
                "7070",
                "listen (from --listen): '7070' is not an address with a port, as 127.0.0.1:7070 or [::1]:7070",
            ),
            ("log", "loud", "log (from --log): 'loud' is not one of off, error, warn, info, debug, trace"),
            (
                "local_rate",
                "2000Hz",
                "local_rate (from --local-rate): 2000Hz is above rate_max, which is 1000Hz",
            ),
            (
                "sources",
                "stat=1Hz,memifno",
                "sources (from --sources): no source is called 'memifno' (did you mean 'meminfo'?); there are stat, meminfo, net_dev",
            ),
            ("keep", "1MiB", "keep (from --keep): 1MiB is not between 64MiB and 1024TiB"),
            (
                "store_raw",
                "5m",
                "store_raw (from --store-raw): '5m' is out of range: a store keeps rows for an hour at least",
            ),
            ("sources", "stat,stat", "sources (from --sources): 'stat' is listed twice"),
            ("nodes", "n[1-", "nodes (from --nodes): 'n[1-': '[' is never closed"),
            (
                "nodes",
                "n[1-3],gpu*",
                "nodes (from --nodes): 'n[1-3],gpu*' does not name its nodes one by one, or more than 65536: write node[001-500]",
            ),
            (
                "nodes",
                "n1,-x",
                "nodes (from --nodes): '-x': a node name starts with a letter or digit; letters, digits, '-', '.' and '_' follow",
            ),
            (
                "allowed_hosts",
                "a b",
                "allowed_hosts (from --allowed-hosts): 'a b' is not a host name without port, as khz.example.org",
            ),
        ] {
            assert_eq!(plan("", &[(key, text)]).unwrap_err(), expected);
        }
        assert_eq!(
            plan("\n[sources.stat]\nrate = \"fast\"\n", &[]).unwrap_err(),
            "sources.stat.rate (from /etc/khz/khz.toml:3): 'fast' is not a rate: write it with its unit, \
             as 100Hz or 1kHz, or as a period, as 5s"
        );
    }

    #[test]
    fn the_store_has_a_table_of_its_own_in_the_file() {
        let days = |days: u64| Nanos::from_secs(days * 86_400);
        let usual = StorePlan {
            dir: StateDir::Usual,
            keep: ByteSize(20 << 30),
            raw: days(21),
            minute: days(90),
            hour: days(3_650),
        };
        assert_eq!(plan("", &[]).unwrap().store, usual);
        let file =
            "[store]\ndir = \"/srv/khz\"\nkeep = \"1TiB\"\nraw = \"7d\"\nminute = \"1y\"\nhour = \"2y\"\n";
        let (dir, keep) = (StateDir::Here("/srv/khz".into()), ByteSize(1 << 40));
        let named = StorePlan { dir, keep, raw: days(7), minute: days(365), hour: days(730) };
        assert_eq!(plan(file, &[]).unwrap().store, named);
        let flags = [("store", "none"), ("store_raw", "2d")];
        assert_eq!(
            plan(file, &flags).unwrap().store,
            StorePlan { dir: StateDir::Nowhere, raw: days(2), ..named }
        );
        assert_eq!(
            plan("[store]\nkeep = \"many\"\n", &[]).unwrap_err().split(':').next(),
            Some("keep (from /etc/khz/khz.toml")
        );
    }

    #[test]
    fn off_loopback_needs_tls_or_insecure() {
        let refused = plan("", &[("listen", "0.0.0.0:7070")]).unwrap_err();
        assert!(refused.starts_with("listen (from --listen): other machines can reach 0.0.0.0:7070"));
        assert!(plan("", &[("listen", "0.0.0.0:7070"), ("insecure", "true")]).is_ok());
        assert!(plan("", &[("listen", "[::1]:7070")]).is_ok());
        assert!(plan("", &[("listen", "localhost:0")]).unwrap().listen[0].ip().is_loopback());
        let two = plan("", &[("listen", "127.0.0.1:1, [::1]:1")]).unwrap().listen;
        assert_eq!(two, ["127.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap()]);
        assert!(plan("", &[("listen", "127.0.0.1:1,0.0.0.0:1")]).is_err());
        assert!(plan("", &[("listen", " , ")]).is_err());
        for door in ["listen", "text_listen"] {
            let error = plan(&format!("{door} = []\n"), &[]).unwrap_err();
            assert!(error.ends_with("it names no address; \"none\" keeps this door closed"), "{error}");
        }
        let none = plan("", &[("listen", "none"), ("text_listen", "none")]).unwrap();
        assert!(none.listen.is_empty() && none.text_listen.is_empty());
        assert!(plan("", &[("link_listen", "none")]).unwrap_err().contains("agents report there"));
        let tls = [("listen", "0.0.0.0:1"), ("tls_cert", "a"), ("tls_key", "b")];
        assert!(plan("", &tls).unwrap_err().contains("nothing says who may come in"));
        assert!(plan("", &[&tls[..], &[("cluster_key", "c")]].concat()).is_ok());
        assert!(plan("", &[&tls[..], &[("tls_ca", "c")]].concat()).is_ok());
    }
}
