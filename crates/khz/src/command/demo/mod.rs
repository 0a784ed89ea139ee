//! `khz demo`: a hub, simulated nodes and a script of faults in one process, on free ports, with a directory that ends with it. The
//! parts are those that users have: `role/hub`, `khz_simulate`, the shipped rules. It reads no configuration.

mod cast;
mod guide;
mod place;
mod players;
mod rules;
mod script;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use khz_door::DoorError;
use khz_http::Tour;
use khz_model::{Nanos, Rate};
use khz_simulate::Settings;
use tracing::Level;

use self::cast::{Cast, NODES_MIN, PREFIX};
use self::guide::{Guide, say};
use self::place::Place;
use self::players::{Begin, Players};
use self::script::Script;
use crate::config::file::FileValues;
use crate::config::settings::position;
use crate::config::{Layers, NodeFlags, Plan};
use crate::role::doors::{Opened, Stage};
use crate::role::{gatherer, hub, signals};
use crate::show::log;
use crate::show::outcome::{Failure, Outcome, sentence};
use crate::show::table::remark;

/// Examples for `khz demo --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz demo                          200 nodes, until Ctrl-C
  khz demo --open                   the same, and the page in your browser
  khz demo --nodes 1000 --for 10m   a larger one, for ten minutes
  khz demo --listen 0.0.0.0:7080    for other machines, or from a container;
                                    everybody may read it

In three and a half minutes, four things happen: one node of a job of 64 becomes
slow, a node leaks memory, sixteen nodes write a checkpoint all at once, and a
node dies and comes back. For each of them a line appears, with an address on
the page and a command that show it. The page has a card with the same text.
Alerts are those of the shipped rules, with shorter times.

In another terminal, with the address that the demo prints:
  khz nodes --server http://127.0.0.1:7070
  khz alerts --server http://127.0.0.1:7070
  khz watch node117:mem.available --server http://127.0.0.1:7070

Everything is made up; the demo shows nothing of this machine. After its end no
file, no process and no shared memory is left. It leaves an installed khz alone.
If port 7070 is taken, the demo takes another port and names it.

Exit codes: 0 the demo ended at Ctrl-C or after --for, 1 it could not go on,
2 wrong usage.";

/// The page's port, unless somebody has it.
const PORT: u16 = 7070;
/// Most nodes: all are played by one thread of this process.
const NODES_MAX: usize = 4_096;
/// A signal that comes while the demo starts is noticed within this time.
const NOTICE: Duration = Duration::from_millis(50);
/// How long the nodes could fill a gap of a connection.
const HELD: Nanos = Nanos::from_secs(120);
/// The hub's settings beside those that depend on the flags.
const HUB: [(&str, &str); 7] = [
    ("node", "demo"),
    ("link_listen", "127.0.0.1:0"),
    ("text_listen", "none"),
    ("history", "64MiB"),
    ("keep", "512MiB"),
    ("log", "error"),
    ("quiet", "true"),
];

/// `khz demo`.
#[derive(Debug, Args)]
pub struct DemoFlags {
    /// How many nodes: 8 to 4096.
    #[arg(long, value_name = "N", default_value_t = 200)]
    nodes: usize,
    /// Rows of each node: 1Hz, or a period: 5s. Those of the job send at least ten a second.
    #[arg(long, value_name = "RATE", default_value = "1Hz")]
    rate: String,
    /// Another seed chooses other nodes for the faults, and other loads.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// End after this time.
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
    /// Address and port of the page [default: 127.0.0.1:7070, or another port if that is taken].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Open the page in a browser (xdg-open).
    #[arg(long)]
    open: bool,
    /// Everything happens so much faster.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, hide = true)]
    speed: f64,
}

/// Plays until the end or until a signal.
pub fn run(flags: &DemoFlags) -> Outcome {
    let stop = signals::stop_on_signal()?;
    log::start(Some(Level::ERROR));
    let Checked { period, length } = checked(flags)?;
    let sockets = sockets(flags.listen)?;
    let place = Place::make()?;
    let failed = |error| Failure::work(format!("cannot write rules: {error}"));
    rules::write(&place.path().join("rules"), flags.speed).map_err(failed)?;
    let cast = Cast::new(flags.nodes, flags.seed);
    let plan = plan(place.path(), &sockets, &cast, flags.listen.is_some())?;
    let script = Script::new(&cast, period, flags.speed);
    let tour = Arc::new(Tour::new(script.stops.clone()));
    let (players, nodes_begin) = Players::ready(&tour, &stop)?;
    let play = Play {
        script,
        nodes_begin,
        period,
        run_dir: place.path().join("run"),
        tour: Arc::clone(&tour),
        stop: Arc::clone(&stop),
        nodes: flags.nodes,
        seed: flags.seed,
        opens: flags.open,
    };
    let stage = Stage { sockets, tour, opened: Box::new(move |opened| play.begin(opened)) };
    let outcome = hub::run_demo(&plan, stage, ended(length, Arc::clone(&stop)));
    let nodes_end = players.failure();
    stop.store(true, Ordering::Relaxed);
    drop(place);
    let done = outcome?;
    nodes_end?;
    say("The demo has ended. Nothing of it is left.");
    Ok(done)
}

/// Flags in their own types.
struct Checked {
    period: Nanos,
    length: Option<Nanos>,
}

fn checked(flags: &DemoFlags) -> Result<Checked, Failure> {
    if !(NODES_MIN..=NODES_MAX).contains(&flags.nodes) {
        let problem = format!("--nodes {}: a demo has {NODES_MIN} to {NODES_MAX} nodes", flags.nodes);
        return Err(Failure::usage(problem));
    }
    if !(0.1..=20.0).contains(&flags.speed) {
        return Err(Failure::usage(format!("--speed {}: between 0.1 and 20", flags.speed)));
    }
    let rate: Rate = flags.rate.parse().map_err(|error| Failure::usage(format!("--rate: {error}")))?;
    let length = flags.duration.as_deref().map(str::parse::<Nanos>).transpose();
    Ok(Checked {
        period: rate.period(),
        length: length.map_err(|error| Failure::usage(format!("--for: {error}")))?,
    })
}

/// The sockets of the page: at the address that was asked for, else at the usual port, else at a free one.
fn sockets(asked: Option<SocketAddr>) -> Result<Vec<TcpListener>, Failure> {
    let failed = |error: DoorError| Failure::usage(sentence(&error));
    if let Some(asked) = asked {
        return khz_door::listen(&[asked], "--listen").map_err(failed);
    }
    let at = |port| khz_door::listen(&[(Ipv4Addr::LOCALHOST, port).into()], "--listen");
    match at(PORT) {
        Ok(sockets) => Ok(sockets),
        Err(_) => {
            let sockets = at(0).map_err(failed)?;
            let address = sockets.first().and_then(|socket| socket.local_addr().ok());
            let port = address.map_or_else(String::new, |address| address.port().to_string());
            say(&format!("Port {PORT} is taken; the demo has port {port}."));
            Ok(sockets)
        }
    }
}

/// The plan of the demo's hub: no file, no environment.
fn plan(place: &Path, sockets: &[TcpListener], cast: &Cast, is_asked: bool) -> Result<Plan, Failure> {
    let below = |name: &str| place.join(name).to_string_lossy().into_owned();
    let addresses: Result<Vec<String>, _> =
        sockets.iter().map(|socket| socket.local_addr().map(|address| address.to_string())).collect();
    let addresses = addresses.map_err(|error| Failure::work(format!("no address: {error}")))?.join(",");
    let own = [
        ("listen", addresses),
        // Whoever gave an address wants to be reached there, and all that can be read is made up.
        ("insecure", is_asked.to_string()),
        // Who opens the page at once sees a cluster, too.
        ("nodes", cast.names(&cast.all())),
        ("rules", below("rules")),
        ("state_dir", below("state")),
        ("store", below("store")),
        ("run_dir", below("run")),
    ];
    let mut flags = NodeFlags::none();
    for (key, value) in HUB.map(|(key, value)| (key, value.to_owned())).into_iter().chain(own) {
        let at = position(key).expect("BUG: a setting that is not in the table");
        flags.given[at] = Some(value);
    }
    let layers = Layers::merge(FileValues::default(), &[], flags);
    Plan::check(&layers, "demo", &gatherer::source_names()).map_err(Failure::work)
}

/// Ready after that time, or when a signal has come before the hub listened for signals.
async fn ended(length: Option<Nanos>, stop: Arc<AtomicBool>) {
    let begun = tokio::time::Instant::now();
    let length = length.map(|length| Duration::from_nanos(length.0));
    while !stop.load(Ordering::Relaxed) && length.is_none_or(|length| begun.elapsed() < length) {
        tokio::time::sleep(NOTICE).await;
    }
}

/// What begins when the hub is open.
struct Play {
    script: Script,
    nodes_begin: Begin,
    period: Nanos,
    nodes: usize,
    seed: u64,
    run_dir: PathBuf,
    tour: Arc<Tour>,
    stop: Arc<AtomicBool>,
    opens: bool,
}

impl Play {
    fn begin(self, opened: Opened) -> Result<(), Failure> {
        let Opened { http, link, rules } = opened;
        let (Some(http), Some(&link)) = (http.first(), link.first()) else {
            return Err(Failure::work("BUG: a door of the demo has no address"));
        };
        let settings = Settings {
            hub: link,
            from: None,
            tls: None,
            key: None,
            run_dirs: vec![self.run_dir],
            nodes: self.nodes,
            prefix: PREFIX.to_owned(),
            period: self.period,
            seed: self.seed,
            length: None,
            held: HELD,
            quiet_rules: false,
            faults: self.script.faults,
            jobs: self.script.jobs,
        };
        let url = format!("http://{}", reachable(*http));
        let program = std::env::args().next().unwrap_or_else(|| "khz".to_owned());
        welcome(self.nodes, &url, &program);
        // If nobody takes them, the nodes have failed, and their thread says why.
        let _ = self.nodes_begin.send(settings);
        let page = format!("{url}/?tour");
        let guide = Guide { tour: self.tour, rules, url, program };
        let stop = self.stop;
        spawn("demo guide", move || guide.run(&stop))?;
        if self.opens {
            open(&page);
        }
        Ok(())
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map(drop).map_err(|error| Failure::work(format!("cannot start a thread: {error}")))
}

/// The address as a browser on this machine takes it.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip().is_unspecified() {
        true => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        false => address,
    }
}

fn welcome(nodes: usize, url: &str, program: &str) {
    say(&format!(
        "Kilohertz shows {nodes} made-up nodes at {url}/?tour\n\
         In another terminal: {program} nodes --server {url}\n\
         Ctrl-C ends the demo, and nothing of it stays.\n"
    ));
}

/// Asks the desktop to open the page. The demo goes on without.
fn open(page: &str) {
    let mut command = std::process::Command::new("xdg-open");
    let child = command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match child {
        // Waited for, so that it does not stay as a zombie.
        Ok(mut child) => _ = spawn("demo browser", move || _ = child.wait()),
        Err(error) => remark!("xdg-open cannot be started ({error}): open the address yourself"),
    }
}
