//! The checked plan: every setting as the thing it means, or one sentence that says which value cannot be
//! used, where it was written and what to write instead. Past this point nothing is text any more.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use khz_gather::{AllowList, Placement, RingSize};
use khz_model::hostlist::{EXPAND_MAX, Hostlist};
use khz_model::{ByteSize, Nanos, NodeName, Pattern, Rate};
use khz_rrdcached::recorder::Layout;
use khz_trust::{Exposure, Means};

use super::trust::Trust;
use super::{ConfigError, Layers, Origin, Value};
use khz_model::suggest;

/// A longer window would serve numbers older than the fastest base lane.
const WINDOW_MAX: Nanos = Nanos::SECOND;
/// Less does not hold a handful of answers; more than this is no limit.
const ANSWERS_LIMITS: (u64, u64) = (1 << 20, 64 << 30);
/// Less does not hold one block of a large host; more than this belongs into a store.
const RING_LIMITS: (u64, u64) = (256 << 10, 64 << 30);
/// The same as times.
const RING_SPANS: (Nanos, Nanos) = (Nanos::from_secs(10), Nanos::from_secs(30 * 86_400));

/// What the program is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Addresses of the HTTP door, at least one.
    pub listen: Vec<SocketAddr>,
    /// True where somebody said for this command alone where the door is.
    pub listen_is_flag: bool,
    /// Addresses of the text door; none: it stays closed.
    pub text_listen: Vec<SocketAddr>,
    /// True where somebody said where the text door is.
    pub text_is_asked: bool,
    /// Hubs to report to, in the order of preference.
    pub hubs: Vec<HubAddress>,
    /// An agent goes back to a better one when that was well for so long; 0: never.
    pub failback_after: Nanos,
    /// Hubs whose nodes a hub shows as well.
    pub source_hubs: Vec<HubAddress>,
    /// Text doors whose nodes a hub shows.
    pub source_doors: Vec<HubAddress>,
    /// Where a hub takes nodes in.
    pub link_listen: Vec<SocketAddr>,
    /// Nodes that a hub expects.
    pub expected: Vec<NodeName>,
    /// Where a hub remembers its nodes.
    pub state_dir: StateDir,
    /// A hub's memory for the recent past.
    pub history: ByteSize,
    /// What HTTP answers may hold, all together.
    pub answers_max: ByteSize,
    /// What a hub records into .rrd files, and where.
    pub rrd: Option<(PathBuf, Recording)>,
    /// The local address that connections go out from; `None`: the kernel chooses.
    pub bind: Option<IpAddr>,
    /// Everybody who can reach a door may come in.
    pub insecure: bool,
    /// Certificates, keys and tokens.
    pub trust: Trust,
    /// Where the local sockets are, if somebody said so.
    pub run_dir: Option<PathBuf>,
    /// Further names of the door.
    pub allowed_hosts: Vec<String>,
    /// This node.
    pub node: NodeName,
    /// Where `/proc` and `/sys` are.
    pub root: PathBuf,
    /// What is gathered.
    pub sources: Sources,
    /// Files below `/proc` that readers may see as they are.
    pub proc_allow: AllowList,
    /// Base lane.
    pub base_rate: Rate,
    /// Local lane.
    pub local_rate: Rate,
    /// The ceiling for readers.
    pub rate_max: Rate,
    /// Share of one core, above 0 and at most 1.
    pub cpu_max: f64,
    /// Merge window.
    pub window: Nanos,
    /// How much of the past is recorded.
    pub ring: RingSize,
    /// Where.
    pub ring_dir: RingDir,
    /// The rings stay after a clean end.
    pub keep_rings: bool,
    /// Where and with which priority gathering runs.
    pub placement: Placement,
    /// What is logged.
    pub log: Option<tracing::Level>,
    /// No status line.
    pub quiet: bool,
}

/// A hub's address as it is written; the name is looked up at every connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAddress {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Where the rings are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingDir {
    /// Where they are when nobody says where.
    Usual,
    /// In memory without a name.
    Nowhere,
    /// In a directory for each node, below this one.
    Below(PathBuf),
}

/// Where a hub remembers its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateDir {
    /// Where that is when nobody says where.
    Usual,
    /// Nowhere.
    Nowhere,
    /// There.
    Here(PathBuf),
}

/// Which sources are gathered, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// True when only the listed ones are gathered.
    pub exactly: bool,
    /// What was said about single sources.
    pub choices: Vec<SourceChoice>,
}

/// What was said about one source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceChoice {
    /// The source.
    pub name: String,
    /// Its own rate, if not that of its lane.
    pub rate: Option<Rate>,
    /// Whether it is gathered.
    pub enabled: bool,
    /// Its share of one core, above 0 and at most 1.
    pub budget: Option<f64>,
}

/// Which series a hub records into .rrd files, and how.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Which series.
    pub patterns: Vec<Pattern>,
    /// How far apart the readings of a series are.
    pub every: Rate,
    /// Step and archives of the files.
    pub layout: Layout,
}

impl Plan {
    /// Checks the layers. `host_name` becomes the node's name where none is set.
    pub fn check(layers: &Layers, host_name: &str, source_names: &[&str]) -> Result<Self, ConfigError> {
        let plan = Plan {
            listen: checked(layers, "listen", listen_addresses)?,
            listen_is_flag: matches!(layers.value("listen").origin, Origin::Flag(_)),
            text_listen: checked(layers, "text_listen", |text| match text {
                "none" => Ok(Vec::new()),
                _ => listen_addresses(text),
            })?,
            text_is_asked: !matches!(layers.value("text_listen").origin, Origin::Default),
            hubs: checked(layers, "hub", hub_addresses)?,
            failback_after: checked(layers, "failback_after", quantity::<Nanos>)?,
            source_hubs: checked(layers, "source", source_hubs)?,
            source_doors: checked(layers, "source", source_doors)?,
            link_listen: checked(layers, "link_listen", listen_addresses)?,
            expected: checked(layers, "nodes", expected)?,
            state_dir: checked(layers, "state_dir", |text| Ok(state_dir(text)))?,
            history: checked(layers, "history", quantity::<ByteSize>)?,
            answers_max: checked(layers, "answers_max", answers_max)?,
            rrd: recording(layers)?,
            bind: checked(layers, "bind", local_address)?,
            insecure: checked(layers, "insecure", switch)?,
            trust: Trust::check(layers)?,
            run_dir: checked(layers, "run_dir", |text| Ok(file(text)))?,
            allowed_hosts: checked(layers, "allowed_hosts", hosts)?,
            node: checked(layers, "node", |text| node_name(text, host_name))?,
            root: checked(layers, "root", root)?,
            sources: sources(layers, source_names)?,
            proc_allow: checked(layers, "proc_allow", proc_allow)?,
            base_rate: checked(layers, "base_rate", quantity::<Rate>)?,
            local_rate: checked(layers, "local_rate", quantity::<Rate>)?,
            rate_max: checked(layers, "rate_max", quantity::<Rate>)?,
            cpu_max: checked(layers, "cpu_max", share)?,
            window: checked(layers, "window", window)?,
            ring: checked(layers, "ring", ring)?,
            ring_dir: checked(layers, "ring_dir", |text| Ok(ring_dir(text)))?,
            keep_rings: checked(layers, "keep_rings", switch)?,
            placement: Placement {
                cpus: checked(layers, "cpu", unless_empty)?,
                nice: checked(layers, "nice", nice)?,
                sched: checked(layers, "sched", unless_empty)?,
            },
            log: checked(layers, "log", level)?,
            quiet: checked(layers, "quiet", switch)?,
        };
        plan.agrees_with_itself(layers)?;
        Ok(plan)
    }

    /// What no single setting can get wrong alone.
    fn agrees_with_itself(&self, layers: &Layers) -> Result<(), ConfigError> {
        for &address in &self.listen {
            Exposure::of_listener(address, self.means())
                .map_err(|error| bad("listen", layers.value("listen"), error.to_string()))?;
        }
        // The text protocol has no tokens: a cluster key does not tell people apart there.
        let means = Means { identifies: self.trust.ca.is_some(), ..self.means() };
        for &address in &self.text_listen {
            Exposure::of_listener(address, means)
                .map_err(|error| bad("text_listen", layers.value("text_listen"), error.to_string()))?;
        }
        for &address in &self.link_listen {
            Exposure::of_listener(address, self.means())
                .map_err(|error| bad("link_listen", layers.value("link_listen"), error.to_string()))?;
        }
        for (key, rate) in [("base_rate", self.base_rate), ("local_rate", self.local_rate)] {
            if rate.period() < self.rate_max.period() {
                let problem = format!("{rate} is above rate_max, which is {}", self.rate_max);
                return Err(bad(key, layers.value(key), problem));
            }
        }
        Ok(())
    }

    /// What the doors have been given.
    pub fn means(&self) -> Means {
        let identifies = self.trust.ca.is_some() || self.trust.cluster_key.is_some();
        Means { tls: self.trust.pair.is_some(), identifies, insecure: self.insecure }
    }
}

/// A host name made a valid node name: what cannot stand in one becomes `-`.
pub fn valid_node_name(host_name: &str) -> NodeName {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let name: String = host_name.trim().chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let name = &name[..name.len().min(khz_model::name::NODE_NAME_MAX)];
    NodeName::new(name)
        .or_else(|_| NodeName::new("localhost"))
        .expect("BUG: 'localhost' is a valid node name")
}

pub(super) fn checked<T>(
    layers: &Layers,
    key: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, ConfigError> {
    let value = layers.value(key);
    read(&value.text).map_err(|problem| bad(key, value, problem))
}

pub(super) fn bad(key: &str, value: &Value, problem: String) -> ConfigError {
    ConfigError::BadValue { at: value.origin.clone(), key: key.to_owned(), problem }
}

fn quantity<T: FromStr<Err = khz_model::QuantityError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: khz_model::QuantityError| error.to_string())
}

fn answers_max(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = quantity(text)?;
    let (least, most) = ANSWERS_LIMITS;
    match (least..=most).contains(&size.0) {
        true => Ok(size),
        false => Err(format!("{size} is not between {} and {}", ByteSize(least), ByteSize(most))),
    }
}

fn listen_addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    let addresses: Vec<SocketAddr> = items(text).map(listen_address).collect::<Result<_, _>>()?;
    if addresses.is_empty() { Err("it names no address".to_owned()) } else { Ok(addresses) }
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse()
        .map_err(|_| format!("'{text}' is not an address with a port, as 127.0.0.1:7070 or [::1]:7070"))
}

fn recording(layers: &Layers) -> Result<Option<(PathBuf, Recording)>, ConfigError> {
    let patterns =
        checked(layers, "rrd_match", |text| Pattern::list(text).map_err(|error| error.to_string()))?;
    let layout = checked(layers, "rrd_layout", rrd_layout)?;
    let directory = checked(layers, "rrd", |text| Ok(file(text)))?;
    let recording = Recording { patterns, every: every(&layout), layout };
    Ok(directory.map(|directory| (directory, recording)))
}

/// `300,AVERAGE:0.5:1:600,...`; nothing is MRTG's. What an archive may be, crate `rrd` knows.
fn rrd_layout(text: &str) -> Result<Layout, String> {
    let mut words = items(text);
    let Some(step) = words.next() else { return Ok(Layout::default()) };
    let step: u64 =
        step.parse().ok().filter(|step| (1..=86_400).contains(step)).ok_or_else(|| {
            format!("'{step}' is not a step in seconds, at most a day: 300,AVERAGE:0.5:1:600")
        })?;
    let archives: Vec<String> = words.map(str::to_owned).collect();
    if archives.is_empty() {
        return Err("it names no archive behind the step: 300,AVERAGE:0.5:1:600".to_owned());
    }
    Ok(Layout { step, heartbeat: 2 * step, archives })
}

/// Five readings for each primary point, but at most one a second.
fn every(layout: &Layout) -> Rate {
    let seconds = (layout.step / 5).clamp(1, 86_400);
    Rate::from_period(Nanos::from_secs(seconds)).unwrap_or_else(|| unreachable!("BUG: a period within a day"))
}

/// Addresses of hubs, separated by commas.
pub fn hub_addresses(text: &str) -> Result<Vec<HubAddress>, String> {
    items(text).map(hub_address).collect()
}

/// What a source over the text protocol begins with.
const TEXT: &str = "text://";

/// The sources that are followed over the link.
fn source_hubs(text: &str) -> Result<Vec<HubAddress>, String> {
    items(text).filter(|item| !item.starts_with(TEXT)).map(hub_address).collect()
}

/// The sources that are asked over the text protocol.
fn source_doors(text: &str) -> Result<Vec<HubAddress>, String> {
    items(text).filter_map(|item| item.strip_prefix(TEXT)).map(|item| address(item, 2709)).collect()
}

/// `HOST`, `HOST:PORT`, `ADDRESS` or `[ADDRESS]:PORT`.
pub fn hub_address(text: &str) -> Result<HubAddress, String> {
    address(text, 7071)
}

fn address(text: &str, usual: u16) -> Result<HubAddress, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(HubAddress { host: address.to_string(), port: usual });
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(HubAddress { host: address.ip().to_string(), port: address.port() });
    }
    let usual = usual.to_string();
    let (host, port) = text.rsplit_once(':').unwrap_or((text, &usual));
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_name = !host.is_empty() && host.len() <= 253 && host.chars().all(fits);
    match port.parse() {
        Ok(port) if is_name && port > 0 => Ok(HubAddress { host: host.to_owned(), port }),
        _ => Err(format!("'{text}' is not the address of a hub, as hub1, hub1:7071 or [2001:db8::1]:7071")),
    }
}

/// An address without a port: the kernel chooses that.
pub fn local_address(text: &str) -> Result<Option<IpAddr>, String> {
    let wrong =
        || format!("'{text}' is not an address of this machine without a port, as 10.0.0.7 or 2001:db8::7");
    match text {
        "" => Ok(None),
        text => match text.parse::<IpAddr>() {
            Ok(address) if !address.is_multicast() => Ok((!address.is_unspecified()).then_some(address)),
            _ => Err(wrong()),
        },
    }
}

fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("'{text}' is neither true nor false"))
}

fn hosts(text: &str) -> Result<Vec<String>, String> {
    let hosts: Vec<String> = items(text).map(str::to_owned).collect();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let valid = |host: &String| host.chars().all(fits) || host.parse::<IpAddr>().is_ok();
    match hosts.iter().find(|host| !valid(host)) {
        None => Ok(hosts),
        Some(host) => Err(format!("'{host}' is not a host name without port, as khz.example.org")),
    }
}

fn node_name(text: &str, host_name: &str) -> Result<NodeName, String> {
    if text.is_empty() {
        return Ok(valid_node_name(host_name));
    }
    NodeName::new(text).map_err(|error| format!("'{text}': {}", error.problem))
}

/// A path, or none.
pub(super) fn file(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

fn root(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("it names no directory".to_owned()) } else { Ok(text.into()) }
}

/// Patterns; `none`: nothing is shown.
fn proc_allow(text: &str) -> Result<AllowList, String> {
    match text {
        "none" => Ok(AllowList::default()),
        _ => AllowList::new(items(text)).map_err(|error| error.to_string()),
    }
}

fn window(text: &str) -> Result<Nanos, String> {
    let window = quantity::<Nanos>(text)?;
    if window > WINDOW_MAX {
        return Err(format!("'{text}' is out of range: a merge window has at most {WINDOW_MAX}"));
    }
    Ok(window)
}

/// A size for all lanes, or a time for each.
fn ring(text: &str) -> Result<RingSize, String> {
    if let Ok(span) = text.parse::<Nanos>() {
        let (least, most) = RING_SPANS;
        return if (least..=most).contains(&span) {
            Ok(RingSize::Span(span))
        } else {
            Err(format!("'{text}' is out of range: the ring holds between {least} and {most}"))
        };
    }
    let size = text.parse::<ByteSize>().map_err(|_| {
        format!("'{text}' is neither a size nor a time: write it with its unit, as 64MiB or 2h")
    })?;
    let (least, most) = RING_LIMITS;
    if !(least..=most).contains(&size.0) {
        let limits = format!("between {} and {}", ByteSize(least), ByteSize(most));
        return Err(format!("'{text}' is out of range: the ring has {limits}"));
    }
    Ok(RingSize::Bytes(size))
}

/// Nodes one by one: what a glob means is not known before they come.
fn expected(text: &str) -> Result<Vec<NodeName>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let hosts = Hostlist::new(text).map_err(|error| format!("'{text}': {}", error.problem))?;
    let names = hosts.expand().ok_or_else(|| {
        format!("'{text}' does not name its nodes one by one, or more than {EXPAND_MAX}: write node[001-500]")
    })?;
    names.iter().map(|name| NodeName::new(name).map_err(|e| format!("'{name}': {}", e.problem))).collect()
}

fn state_dir(text: &str) -> StateDir {
    match text {
        "" => StateDir::Usual,
        "none" => StateDir::Nowhere,
        path => StateDir::Here(path.into()),
    }
}

fn ring_dir(text: &str) -> RingDir {
    match text {
        "" => RingDir::Usual,
        "none" => RingDir::Nowhere,
        path => RingDir::Below(path.into()),
    }
}

/// What explains itself when it is wrong, and may be left out.
fn unless_empty<T: FromStr<Err = String>>(text: &str) -> Result<Option<T>, String> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}

fn nice(text: &str) -> Result<Option<i8>, String> {
    match text.parse::<i8>() {
        Ok(nice @ -20..=19) => Ok(Some(nice)),
        _ if text.is_empty() => Ok(None),
        _ => Err(format!("'{text}' is not a nice value from -20 to 19")),
    }
}

/// "10%" as 0.1; a share of one core.
fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    let Some(percent) = number.and_then(|n| n.parse::<f64>().ok()).filter(|p| p.is_finite()) else {
        return Err(format!("'{text}' is not a share of one core: write it as 10%"));
    };
    if percent <= 0.0 || percent > 100.0 {
        return Err(format!("'{text}' is out of range: above 0% and at most 100% of one core"));
    }
    Ok(percent / 100.0)
}

fn level(text: &str) -> Result<Option<tracing::Level>, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    match text {
        "off" => Ok(None),
        _ if LEVELS.contains(&text) => Ok(text.parse().ok()),
        _ => Err(format!("'{text}' is not one of {}", LEVELS.join(", "))),
    }
}

/// A list's items; blanks around them do not count, nor do empty ones.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// The file's tables, and over them the list of `--sources` or its variable.
fn sources(layers: &Layers, source_names: &[&str]) -> Result<Sources, ConfigError> {
    let mut tables = Vec::new();
    for table in &layers.sources {
        tables.push(SourceChoice {
            name: table.name.clone(),
            rate: optional(&table.rate, &table.name, "rate", quantity)?,
            enabled: optional(&table.enabled, &table.name, "enabled", switch)?.unwrap_or(true),
            budget: optional(&table.budget, &table.name, "budget", share)?,
        });
    }
    let listed = checked(layers, "sources", |text| source_list(text, source_names))?;
    if listed.is_empty() {
        return Ok(Sources { exactly: false, choices: tables });
    }
    let choices = listed.into_iter().map(|(name, rate)| {
        let table = tables.iter().find(|table| table.name == name);
        let own_rate = table.and_then(|table| table.rate);
        SourceChoice {
            rate: rate.or(own_rate),
            budget: table.and_then(|table| table.budget),
            enabled: true,
            name,
        }
    });
    Ok(Sources { exactly: true, choices: choices.collect() })
}

fn optional<T>(
    value: &Option<Value>,
    source: &str,
    key: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    read(&value.text).map(Some).map_err(|problem| bad(&format!("sources.{source}.{key}"), value, problem))
}

/// `stat=1000Hz,meminfo`.
fn source_list(text: &str, source_names: &[&str]) -> Result<Vec<(String, Option<Rate>)>, String> {
    let mut listed: Vec<(String, Option<Rate>)> = Vec::new();
    for item in items(text) {
        let (name, rate) = match item.split_once('=') {
            Some((name, rate)) => (name.trim(), Some(quantity::<Rate>(rate)?)),
            None => (item, None),
        };
        if !source_names.contains(&name) {
            let hint = suggest::hint(name, source_names.iter().copied());
            let all = source_names.join(", ");
            return Err(format!("no source is called '{name}'{hint}; there are {all}"));
        }
        if listed.iter().any(|(other, _)| other == name) {
            return Err(format!("'{name}' is listed twice"));
        }
        listed.push((name.to_owned(), rate));
    }
    Ok(listed)
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
        let tls = [("listen", "0.0.0.0:1"), ("tls_cert", "a"), ("tls_key", "b")];
        assert!(plan("", &tls).unwrap_err().contains("nothing says who may come in"));
        assert!(plan("", &[&tls[..], &[("cluster_key", "c")]].concat()).is_ok());
        assert!(plan("", &[&tls[..], &[("tls_ca", "c")]].concat()).is_ok());
    }

    #[test]
    fn the_flag_lists_exactly_the_sources_and_keeps_the_budgets_of_the_file() {
        let file = "[sources.stat]\nbudget = \"2%\"\nrate = \"5Hz\"\n[sources.net_dev]\nenabled = false\n";
        let of_file = plan(file, &[]).unwrap().sources;
        assert!(!of_file.exactly && of_file.choices.len() == 2 && !of_file.choices[1].enabled);
        let listed = plan(file, &[("sources", "stat, meminfo=1000Hz")]).unwrap().sources;
        let hz = |n| Rate::from_hz(n);
        assert_eq!(
            listed,
            Sources {
                exactly: true,
                choices: vec![
                    SourceChoice { name: "stat".into(), rate: hz(5), enabled: true, budget: Some(0.02) },
                    SourceChoice { name: "meminfo".into(), rate: hz(1000), enabled: true, budget: None },
                ],
            }
        );
    }

    #[test]
    fn any_host_name_becomes_a_valid_node_name() {
        for (host, node) in
            [("web-1\n", "web-1"), ("-x", "x"), ("a b/c", "a-b-c"), ("", "localhost"), ("ä", "localhost")]
        {
            assert_eq!(valid_node_name(host).as_str(), node);
        }
        assert_eq!(valid_node_name(&"n".repeat(300)).as_str().len(), 253);
    }
}
