//! A master hands the same work to eight workers on four nodes in three ways, and says what that gained: round robin, by the live
//! load that they publish, and by a composite that the nodes compute out of it.
//!
//! ```text
//! cargo build && cargo run -p khz-client --example steer -- target/debug/khz [TASKS]
//! ```
//!
//! It starts a hub and four agents of its own, in a folder that is gone at its end; nothing else has to run. Two workers publish at
//! each agent how much work waits for them (`job.steer.waiting[w3]`), how many tasks of others share their processor, and how short
//! of memory they are. The master gets this a hundred times a second from the hub.
//!
//! What is real: hub, agents, links, rows, plans. What is made up: the workers are threads that sleep as long as a task takes, so that
//! eight fit on two cores; some are slow from the beginning, and one becomes slow in the middle. So the figures say what news from
//! the nodes in time are worth for such a workload, and nothing about the processors.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use khz_client::{Access, Client, Event, Selection, Subscription, Value};

type Failed = Box<dyn std::error::Error>;

/// Tasks, unless told otherwise, and how long one takes an undisturbed worker.
const TASKS: usize = 400;
const TASK: Duration = Duration::from_millis(10);
const NODES: usize = 4;
/// Tasks of other users on each worker's processor.
const OTHERS: [u32; 8] = [0, 0, 0, 0, 1, 1, 0, 1];
/// Which share of its memory each worker lacks. The last but one lacks all of it after a while: somebody else has taken it.
const SHORT: [f64; 8] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0 / 3.0];
const SHORT_AFTER: usize = 25;
/// How many times as long a task takes a worker that lacks all of its memory, above an undisturbed one.
const SWAPPING: f64 = 3.0;
/// Tasks that a worker may have waiting: enough for the time that its news takes to reach the master.
const WAITING_MAX: u64 = 4;
/// Tasks that a worker gets at once; it says how it is before it is given more.
const AT_ONCE: u64 = 2;
/// How often a worker says how it is, changed or not.
const NEWS: Duration = Duration::from_millis(10);
/// Longest wait for nodes and for news.
const PATIENCE: Duration = Duration::from_secs(10);

/// The composite: in how many task times one more task would be done. Each node computes it of its own rows, and sends this number
/// instead of three.
const COMPOSITE: &str =
    r#"({"job.steer.waiting"} + 1) * (1 + {"job.steer.others"}) * (1 + 3 * {"job.steer.short"})"#;

fn main() -> Result<(), Failed> {
    let mut words = std::env::args().skip(1);
    let program = PathBuf::from(words.next().unwrap_or_else(|| "khz".into()));
    let tasks = words.next().map_or(Ok(TASKS), |word| word.parse())?;
    compare(&program, tasks, &mut std::io::stdout())
}

/// Runs the work in the three ways, and prints how long each took.
pub fn compare(program: &Path, tasks: usize, out: &mut impl Write) -> Result<(), Failed> {
    let site = Site::start(program)?;
    let client = Client::open(&Access::local_in(Some(&site.folder.join("hub")))?)?;
    site.wait_for_nodes(&client)?;

    let fixed = site.run(|workers| (0..tasks).try_for_each(|task| workers[task % workers.len()].give()))?;
    writeln!(out, "round robin                  {:6.2} s", fixed.as_secs_f64())?;
    let mut show = |name: &str, took: Duration| {
        let gained = 100.0 * (1.0 - took.as_secs_f64() / fixed.as_secs_f64());
        let times = fixed.as_secs_f64() / took.as_secs_f64();
        writeln!(
            out,
            "{name:<28} {:6.2} s   gained {gained:.0} %, {times:.1} times as fast",
            took.as_secs_f64()
        )
    };

    let selection = Selection::new(["job.steer.waiting"])?.rate("100Hz")?.exact().prompt();
    let news = client.subscribe(selection)?;
    let room = |waiting: f64| WAITING_MAX.saturating_sub(waiting as u64);
    let by_load = site.run(|workers| steer(tasks, workers, &news, room))?;
    drop(news);
    show("by live load", by_load)?;

    site.khz(&["channel", "create", "steer", "--expr", COMPOSITE, "--rate", "100Hz", "--exact"])?;
    let news = client.subscribe(Selection::channel("steer")?)?;
    // A further task takes at least one task time more.
    let room = |done_in: f64| (WAITING_MAX as f64 - done_in + 1.0).max(0.0) as u64;
    let by_composite = site.run(|workers| steer(tasks, workers, &news, room))?;
    show("by a composite of the nodes", by_composite)?;
    Ok(())
}

/// Gives each worker as many tasks as it has room for: what it said last decides.
fn steer(
    tasks: usize,
    workers: &[Worker],
    news: &Subscription,
    room: impl Fn(f64) -> u64,
) -> Result<(), Failed> {
    let mut given = 0;
    while given < tasks {
        match news.next_within(PATIENCE).ok_or("the workers say nothing")? {
            Event::Value(value) => {
                let (Some(worker), Some(said)) = (worker_of(&value), value.number()) else { continue };
                for _ in 0..room(said.to_f64()).min(AT_ONCE).min((tasks - given) as u64) {
                    workers.get(worker).ok_or("there is no such worker")?.give()?;
                    given += 1;
                }
            }
            Event::Notice { granted: false, text } | Event::Down { problem: text } => return Err(text.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Whose number it is: `job.steer.waiting[w3]`, and of a result `channel.steer[part=w3]`.
fn worker_of(value: &Value) -> Option<usize> {
    let instance = value.series.instance.as_ref()?;
    let mut labels = instance.labels().filter(|(name, _)| *name == "part").map(|(_, part)| part);
    instance.primary().or_else(|| labels.next())?.strip_prefix('w')?.parse().ok()
}

/// A hub and four agents in a folder of their own. Dropping it ends them.
struct Site {
    folder: PathBuf,
    program: PathBuf,
    processes: Vec<Child>,
}

impl Site {
    fn start(program: &Path) -> Result<Self, Failed> {
        let folder = std::env::temp_dir().join(format!("khz-steer-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut site = Site { folder, program: program.to_owned(), processes: Vec::new() };
        // Agents have run directories of their own, as on other machines, so that the hub must believe their names.
        let doors = ["--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--insecure"];
        let ready = site.daemon("hub", &[&["hub", "--state-dir", "none"], &doors[..]].concat())?;
        let link = ready.split_once("report to ").and_then(|(_, after)| after.split([' ', ',']).next());
        let link = link.ok_or_else(|| format!("the hub said '{ready}'"))?.to_owned();
        let rings = site.folder.join("rings").to_string_lossy().into_owned();
        let own = ["--listen", "127.0.0.1:0", "--ring-dir", &rings, "--ring", "1MiB"];
        for number in 1..=NODES {
            let words = [&["agent", "--hub", &link], &own[..]].concat();
            site.daemon(&format!("node{number}"), &words)?;
        }
        Ok(site)
    }

    /// Starts a khz of this name; returns the line with which it says that it is ready.
    fn daemon(&mut self, name: &str, words: &[&str]) -> Result<String, Failed> {
        let mut command = Command::new(&self.program);
        command.args(words).args(["--node", name, "--text-listen", "none", "--quiet", "--log", "error"]);
        command.arg("--run-dir").arg(self.folder.join(name));
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| {
            format!("cannot start {}: {error}; name the program: steer PATH-OF-KHZ", self.program.display())
        })?;
        let output = child.stdout.take();
        self.processes.push(child);
        let mut line = String::new();
        BufReader::new(output.ok_or("no pipe")?).read_line(&mut line)?;
        match line.is_empty() {
            true => Err(format!("khz {} did not start; stderr says why", words[0]).into()),
            false => Ok(line),
        }
    }

    /// Runs a command against the hub, as its user.
    fn khz(&self, words: &[&str]) -> Result<(), Failed> {
        let status = Command::new(&self.program)
            .args(words)
            .env("KHZ_RUN_DIR", self.folder.join("hub"))
            .stdout(Stdio::null())
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("khz {} ended with {status}", words.join(" ")).into())
        }
    }

    fn wait_for_nodes(&self, client: &Client) -> Result<(), Failed> {
        let begun = Instant::now();
        loop {
            let values = client.get("node*:load.1m")?;
            let nodes: BTreeSet<&str> = values.iter().map(|value| &*value.node).collect();
            if nodes.len() == NODES {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("of {NODES} nodes {} came", nodes.len()).into());
            }
        }
    }

    /// Starts eight workers, lets `hand_out` give them their tasks, and tells how long all of it took.
    fn run(&self, hand_out: impl FnOnce(&[Worker]) -> Result<(), Failed>) -> Result<Duration, Failed> {
        let began = Instant::now();
        let socket = |n: usize| self.folder.join(format!("node{}", n % NODES + 1)).join("publish.sock");
        let workers: Vec<Worker> =
            (0..OTHERS.len()).map(|n| Worker::start(n, &socket(n))).collect::<Result<_, _>>()?;
        hand_out(&workers)?;
        for worker in workers {
            drop(worker.tasks);
            worker.thread.join().map_err(|_| "a worker has panicked")?;
        }
        Ok(began.elapsed())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Agents first: they would only look for their hub.
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A worker, as its master sees it.
struct Worker {
    tasks: Sender<()>,
    waiting: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start(number: usize, socket: &Path) -> Result<Self, Failed> {
        let (tasks, todo) = channel();
        let waiting = Arc::new(AtomicU64::new(0));
        let news = UnixDatagram::unbound()?;
        news.connect(socket)?;
        news.set_nonblocking(true)?;
        let job = Job { number, todo: Mutex::new(todo), waiting: waiting.clone(), news };
        Ok(Worker { tasks, waiting, thread: std::thread::spawn(move || job.work()) })
    }

    fn give(&self) -> Result<(), Failed> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(self.tasks.send(())?)
    }
}

/// The same from inside.
struct Job {
    number: usize,
    todo: Mutex<Receiver<()>>,
    waiting: Arc<AtomicU64>,
    news: UnixDatagram,
}

impl Job {
    fn work(self) {
        let (mut done, todo) = (0, self.todo.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        loop {
            self.tell(done);
            match todo.recv_timeout(NEWS) {
                Ok(()) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => continue,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
            }
            let slowness = f64::from(1 + OTHERS[self.number]) * (1.0 + SWAPPING * self.short(done));
            let over = Instant::now() + TASK.mul_f64(slowness);
            while let Some(left) = over.checked_duration_since(Instant::now()) {
                self.tell(done);
                std::thread::sleep(left.min(NEWS));
            }
            done += 1;
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn short(&self, done: usize) -> f64 {
        let becomes_short = self.number == SHORT.len() - 2;
        if becomes_short && done < SHORT_AFTER { 0.0 } else { SHORT[self.number] }
    }

    /// All in one datagram, so that a row has all of it. A full socket means that the agent knows enough for now.
    fn tell(&self, done: usize) {
        let (number, waiting) = (self.number, self.waiting.load(Ordering::Relaxed));
        let lines = format!(
            "steer.waiting[w{number}]={waiting} help=Tasks that wait for a worker\n\
             steer.others[w{number}]={} help=Tasks of others on its processor\n\
             steer.short[w{number}]={:.3} help=Share of its memory that it lacks",
            OTHERS[number],
            self.short(done),
        );
        let _ = self.news.send(lines.as_bytes());
    }
}
