//! `khz simulate`: its flags. `khz_simulate` plays the nodes; this prints how it goes.

use std::io::{IsTerminal, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::Args;
use khz_model::{Nanos, Rate};
use khz_simulate::{Crowd, Faults, LATE, Library, Report, Settings, Tls};
use khz_trust::{ClientFiles, ClusterKey, Exposure, Protocol, TlsClient};
use tracing::Level;

use crate::config::addresses::local_address;
use crate::role::signals;
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::table::{json_line, on_stderr};

/// Examples for `khz simulate --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz hub --history 0MiB &
  khz simulate --nodes 4096 --rate 100          4,096 nodes at 100 Hz, until
                                                Ctrl-C
  khz simulate --nodes 128 --rate 1000 --slots 300 --for 60s
                                                128 nodes at 1,000 Hz with 300
                                                slots a row, for a minute
  khz simulate --nodes 16 --workload compile    sixteen nodes that compile
  khz simulate --nodes 8 --rate 1 --faults faults.toml
                                                with faults, as below
  khz nodes --server http://127.0.0.1:7070      the nodes as the hub sees them

The nodes are called node1, node2 and so on, with as many digits as the last one
has: if there are thousands, the first is node0001. Each node has its own
connection, as an agent has: when the hub was away, it connects again and sends
the missing rows. Nodes play recordings of real machines. --seed decides which
node plays which recording from which moment on, how long it is up and how much
memory it has. With the same seed, the nodes have the same rows again.

Nodes may have faults (--faults FILE): their numbers change as those of real
nodes would. docs/simulate.md says more. A file has tables like this:

  [[fault]]
  kind = \"leak\"            # leak, dying-disk, throttled-core, flapping-link,
                           # noisy-neighbour, creeping-ecc, io-storm
  nodes = \"node[3,7]\"      # a hostlist
  begin = \"10m\"            # after the start; without it: at once
  lasts = \"2h\"             # from the begin to the end
  strength = 0.5           # above 0, at most 1; without it: 1
  end = \"down\"             # heals, stays, or down: the node falls silent
  back = \"5m\"              # this time after it went down, the node is back

Exit codes: 0 every row arrived in time, 1 rows were late, lost or not
acknowledged, or the hub accepted no node, 2 wrong usage.";

/// `khz simulate`.
#[derive(Debug, Args)]
pub struct SimulateFlags {
    /// How many nodes.
    #[arg(long, value_name = "N", default_value_t = 64)]
    nodes: usize,
    /// Rows of each node: 100Hz, 1kHz, or a period: 5s.
    #[arg(long, value_name = "RATE", default_value = "100Hz")]
    rate: String,
    /// The hub that they report to.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7071")]
    hub: String,
    /// What they play: names of recordings that are part of the program, or files.
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "idle,compile,netcopy,mempressure"
    )]
    workload: Vec<String>,
    /// A folder of other recordings, NAME-100hz.khzt, for the names of --workload.
    #[arg(long, value_name = "DIR")]
    workloads: Option<PathBuf>,
    /// Slots of a row: those that change most, or copies of devices where there are fewer; 0: as recorded.
    #[arg(long, value_name = "N", default_value_t = 0)]
    slots: usize,
    /// Another seed makes other nodes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What the nodes' names begin with.
    #[arg(long, value_name = "TEXT", default_value = "node")]
    prefix: String,
    /// How long the nodes' rings keep rows.
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    held: String,
    /// Play that the nodes judge the hub's rules, and that none gives anything: thousands of nodes with thousands of rules need more
    /// than one machine's time to judge them.
    #[arg(long)]
    quiet_rules: bool,
    /// Faults of some nodes, of this file (docs/simulate.md).
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Stop after this time.
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
    /// Local address from which all connections go out, on hosts that have several [default: KHZ_BIND, else the kernel
    /// chooses].
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// Use TLS, and trust a hub whose certificate this CA signed.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Give each node its token, made with this cluster key.
    #[arg(long, value_name = "FILE")]
    cluster_key: Option<PathBuf>,
    /// Where a hub of this machine has the key for its own user [default: KHZ_RUN_DIR, then the usual run directories].
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Connect to a hub on another machine without TLS.
    #[arg(long)]
    insecure: bool,
    /// One JSON object a second, and one at the end.
    #[arg(long)]
    json: bool,
}

/// Plays until the end or until a signal.
pub fn run(flags: &SimulateFlags, out: &mut impl Write) -> Outcome {
    crate::show::log::start(Some(Level::WARN));
    // Before the recordings are read: a background job of a shell would miss a signal that comes meanwhile.
    let stop = signals::stop_on_signal()?;
    let length = flags.duration.as_deref().map(str::parse::<Nanos>).transpose().map_err(Failure::usage)?;
    let rate: Rate = flags.rate.parse().map_err(Failure::usage)?;
    let (hub, tls) = hub(flags)?;
    let key = flags.cluster_key.as_deref().map(ClusterKey::read).transpose();
    let settings = Settings {
        hub,
        from: bind(flags)?,
        tls,
        key: key.map_err(|error| Failure::usage(sentence(&error)))?,
        run_dirs: khz_client::place::run_dirs(run_dir(flags).as_deref()),
        nodes: flags.nodes,
        prefix: flags.prefix.clone(),
        period: rate.period(),
        seed: flags.seed,
        length,
        held: flags.held.parse().map_err(Failure::usage)?,
        quiet_rules: flags.quiet_rules,
        faults: match &flags.faults {
            Some(path) => Faults::read(path).map_err(Failure::usage)?,
            None => Faults::default(),
        },
        jobs: Vec::new(),
    };
    let library =
        Library::read(&flags.workload, flags.workloads.as_deref(), flags.slots).map_err(Failure::usage)?;
    let crowd = Crowd::new(settings, library).map_err(Failure::usage)?;
    let mut before = Report::default();
    let shows_line = std::io::stderr().is_terminal() && !flags.json;
    let report = crowd.run(&stop, |report| {
        if flags.json {
            // The simulation goes on where nobody reads its output.
            let _ = writeln!(out, "{}", json_line(&object(report))).and_then(|()| out.flush());
        } else if shows_line {
            on_stderr(&format!("\r\x1b[K{}", report.line(&before)));
        }
        before = *report;
    });
    if shows_line {
        on_stderr("\n");
    }
    conclude(&report, &flags.hub, flags.json, out)
}

fn conclude(report: &Report, hub: &str, json: bool, out: &mut impl Write) -> Outcome {
    match json {
        true => writeln!(out, "{}", json_line(&object(report)))?,
        false => writeln!(out, "{}", report.line(&Report::default()))?,
    }
    out.flush()?;
    let Report { unacknowledged, lost, late, welcomes, .. } = *report;
    if welcomes == 0 {
        return Err(Failure::work(format!(
            "{hub} has accepted no node: see the reason above, or whether a hub runs there"
        )));
    }
    if report.is_clean() {
        return Ok(Done::Wholly);
    }
    Err(Failure::work(format!(
        "{late} rows left more than {LATE} after their time, {lost} were lost, and the hub has not acknowledged \
         {unacknowledged}"
    )))
}

fn object(report: &Report) -> serde_json::Value {
    let field = |(name, number): (&str, u64)| (name.to_owned(), serde_json::Value::from(number));
    report.fields().into_iter().map(field).collect()
}

/// The address of the hub, and TLS where a flag asks for it.
fn hub(flags: &SimulateFlags) -> Result<(SocketAddr, Option<Tls>), Failure> {
    let unknown = |problem: String| Failure::usage(format!("--hub {}: {problem}", flags.hub));
    let mut addresses = flags.hub.to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    let address = addresses.next().ok_or_else(|| unknown("no such host".into()))?;
    Exposure::of_caller(address, flags.tls_ca.is_some(), flags.insecure).map_err(Failure::usage)?;
    let Some(ca) = &flags.tls_ca else { return Ok((address, None)) };
    let usage = |error: khz_trust::TrustError| Failure::usage(sentence(&error));
    let client = TlsClient::load(ClientFiles::new(ca), Protocol::Link).map_err(usage)?;
    let host = flags.hub.rsplit_once(':').map_or(&*flags.hub, |(host, _)| host);
    let name = TlsClient::server_name(host).map_err(usage)?;
    Ok((address, Some(Tls { config: client.config(), name })))
}

/// The local address of connections.
fn bind(flags: &SimulateFlags) -> Result<Option<IpAddr>, Failure> {
    let (from, text) = match (&flags.bind, std::env::var("KHZ_BIND")) {
        (Some(text), _) => ("--bind", text.clone()),
        (None, Ok(text)) => ("KHZ_BIND", text),
        (None, Err(_)) => return Ok(None),
    };
    local_address(&text).map_err(|problem| Failure::usage(format!("bind (from {from}): {problem}")))
}

fn run_dir(flags: &SimulateFlags) -> Option<PathBuf> {
    flags.run_dir.clone().or_else(|| std::env::var_os("KHZ_RUN_DIR").map(PathBuf::from))
}
