//! A hub or an agent as a source of nodes over the text protocol (`--source text://`, `docs/text-protocol.md`). This hub
//! requests its items, and then its status once a second. The rows are handled like rows of the link. It refuses a hub
//! that gets nodes from here. A daemon that is too old to answer `:hub` counts as a daemon with only its own nodes.

mod lines;
mod relay;
mod words;

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use khz_follow::Follower;
use khz_link::HubName;
use khz_link::driver::{TlsSettings, connect_from};
use khz_model::Metric;

use crate::clock;
use crate::cluster::Cluster;
use crate::source::{self, NodesBelow};
use lines::{Lines, Problem};
use relay::Relay;
use words::{ITEMS_MAX, Items};

/// A thread that waits for an answer checks this often whether it is to end.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// The time between two statuses: the base rate of nodes that come through another daemon.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// The connection to a daemon that takes longer for one answer ends.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Old daemons do not answer words that they do not know.
const SILENCE: Duration = Duration::from_secs(2);
/// Time to connect.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Lines of one status: 4,096 nodes with 512 items each.
const STATUS_LINES_MAX: usize = 2 << 20;
/// The pause after a failed attempt, which doubles with each, and the longest pause.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A text door.
pub struct TextAddress {
    /// Name or address; looked up at every connection.
    pub host: String,
    /// Port.
    pub port: u16,
    /// TLS, if the door is not on this machine; `None`: plain text everywhere.
    pub tls: Option<TlsSettings>,
    /// The local address that we connect from; `None`: the kernel chooses.
    pub from: Option<IpAddr>,
}

/// A daemon whose nodes come here over the text protocol. Dropping it ends that.
pub struct TextSource {
    over: Arc<AtomicBool>,
    thread: Thread,
}

impl TextSource {
    /// Starts. Each source has another `number`, over the link too. `catalogue` has metrics with all that the protocol does not
    /// send.
    pub fn start(
        cluster: Arc<Cluster>,
        address: TextAddress,
        number: usize,
        catalogue: Vec<Arc<Metric>>,
    ) -> std::io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let follower = source::follower(cluster, number)?;
        let asker = Asker { address, follower, catalogue, number, over: Arc::clone(&over) };
        let name = format!("text-source-{number}");
        let asking = thread::Builder::new().name(name).spawn(move || asker.run())?;
        Ok(TextSource { over, thread: asking.thread().clone() })
    }
}

impl Drop for TextSource {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// How a daemon lists its items.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// `#`: their names.
    Plain,
    /// `:items`: their series.
    Full,
    /// `:items types`: also the types of their values.
    Typed,
}

struct Asker {
    address: TextAddress,
    follower: Follower<NodesBelow>,
    catalogue: Vec<Arc<Metric>>,
    number: usize,
    over: Arc<AtomicBool>,
}

impl Asker {
    fn run(mut self) {
        let mut wait = WAITS.0;
        let mut said = String::new();
        while !self.is_over() {
            let start = Instant::now();
            let problem = match self.talk() {
                Ok(()) => return,
                Err(problem) => problem.to_string(),
            };
            self.follower.down(&problem);
            // A problem that lasts is logged once.
            if problem != said {
                tracing::warn!("source text://{}:{}: {problem}", self.address.host, self.address.port);
                said = problem;
            }
            wait = if start.elapsed() > WAITS.1 { WAITS.0 } else { wait };
            // Two hubs that were refused at once must not come again at once.
            let spread = Duration::from_nanos(clock::boot().0 % (wait.as_nanos() as u64 / 2));
            self.sleep(wait + spread);
            wait = (wait * 2).min(WAITS.1);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn sleep(&self, span: Duration) {
        let start = Instant::now();
        while let Some(rest) = span.checked_sub(start.elapsed()).filter(|_| !self.is_over()) {
            thread::park_timeout(rest);
        }
    }

    /// One connection, until it fails or the source is dropped.
    fn talk(&mut self) -> Result<(), Problem> {
        let mut lines = self.connect()?;
        let knows_words = self.whose(&mut lines)?;
        let mut items = Items::default();
        let mut relay = Relay::new(self.number);
        let mut next = Instant::now();
        loop {
            if relay.wants_items() {
                self.learn(&mut lines, &mut items, knows_words)?;
                relay.has_items();
            }
            self.status(&mut lines, &items, &mut relay)?;
            self.follower.rest();
            next = (next + PERIOD).max(Instant::now());
            self.sleep(next.saturating_duration_since(Instant::now()));
            if self.is_over() {
                return Ok(());
            }
            if knows_words {
                self.whose(&mut lines)?;
            }
        }
    }

    fn connect(&self) -> Result<Lines, Problem> {
        let TextAddress { host, port, tls, from } = &self.address;
        let mut last = None;
        for address in (host.as_str(), *port).to_socket_addrs()? {
            match connect_from(&address, *from, Some(CONNECT_MAX)) {
                Ok(socket) => {
                    // As the door itself: on this machine nobody can read the connection.
                    let tls = tls.as_ref().filter(|_| !address.ip().to_canonical().is_loopback());
                    let tls = tls.map(|settings| (settings(), host.as_str()));
                    return Lines::begin(socket, tls, Arc::clone(&self.over));
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or(Problem::Said("its name has no address".to_owned()), Problem::Socket))
    }

    /// Asks which hubs its nodes come from, and refuses a loop. `false`: it does not know words after a colon.
    fn whose(&mut self, lines: &mut Lines) -> Result<bool, Problem> {
        let name = format!("{}:{}", self.address.host, self.address.port);
        lines.say(":hub\n", SILENCE)?;
        match lines.next() {
            Ok(line) => match words::origins(line)? {
                Some((identity, sources)) => self.follower.up(&HubName { identity, name, sources }),
                None => self.follower.up(&HubName { name, ..HubName::default() }),
            },
            Err(Problem::Late) => {
                self.follower.up(&HubName { name, ..HubName::default() });
                return Ok(false);
            }
            Err(problem) => return Err(problem),
        }
        match self.follower.refusal() {
            Some(text) => Err(Problem::Said(text)),
            None => Ok(true),
        }
    }

    /// Requests the items, in the old way if the daemon knows no other.
    fn learn(&mut self, lines: &mut Lines, items: &mut Items, knows_words: bool) -> Result<(), Problem> {
        if knows_words {
            lines.say(":age 1s\n", ANSWER_MAX)?;
            words::agreed(lines.next()?)?;
            lines.say(":items types\n", ANSWER_MAX)?;
        } else {
            // It has taken the letters of unknown words for a mask.
            lines.say("0\n#", ANSWER_MAX)?;
        }
        let (mut count, mut listing) = (0, if knows_words { Listing::Typed } else { Listing::Plain });
        loop {
            let line = lines.next()?;
            if line.is_empty() {
                return Ok(());
            }
            if count == 0 && listing == Listing::Typed && line.starts_with(":error ") {
                // It is older: all its values are unsigned, or it does not say which are not.
                listing = Listing::Full;
                lines.say(":items\n", ANSWER_MAX)?;
                continue;
            }
            count += 1;
            if count > ITEMS_MAX + 2 {
                return Err(Problem::Said(format!("it has more than {ITEMS_MAX} items")));
            }
            match listing {
                Listing::Typed => items.full(line, true, &self.catalogue)?,
                Listing::Full => items.full(line, false, &self.catalogue)?,
                Listing::Plain => items.plain(line, &self.catalogue)?,
            }
        }
    }

    /// Requests a status and puts its values into rows.
    fn status(&mut self, lines: &mut Lines, items: &Items, relay: &mut Relay) -> Result<(), Problem> {
        lines.say("S", ANSWER_MAX)?;
        let mut count = 0;
        loop {
            let line = lines.next()?;
            if line.is_empty() {
                return relay.end(&mut self.follower);
            }
            count += 1;
            if count > STATUS_LINES_MAX {
                return Err(Problem::Said(format!("a status of more than {STATUS_LINES_MAX} lines")));
            }
            relay.line(words::status(line)?, items, &mut self.follower)?;
        }
    }
}
