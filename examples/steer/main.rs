//! A master hands work to eight workers, first by a fixed split, then by their live load, and says what that gained.
//!
//! ```text
//! khz &                                           or: khz agent --hub ..., with a hub on this machine
//! cargo run -p khz-client --example steer
//! ```
//!
//! The workers are threads that take tasks out of a queue of their own. They are not equally fast: some share their
//! machine with others, as on any cluster, and one becomes slow in the middle of its work. Each publishes how much work
//! waits for it (`job.steer.waiting[w3]`), the master subscribes to all of them a hundred times a second, and gives the
//! next task to the worker that will be done first. It could as well run on another machine, and so could they: what
//! they say goes through the agent, and comes from the hub.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use khz_client::{Access, Client, Event, Selection, Subscription, place};

type Failed = Box<dyn std::error::Error>;

/// Tasks, and how long one takes an undisturbed worker.
const TASKS: usize = 400;
const TASK: Duration = Duration::from_millis(10);
/// How many times as long it takes each of them; the last but one becomes that slow half-way.
const SLOWNESS: [u32; 8] = [1, 1, 1, 1, 2, 2, 4, 4];
/// Tasks that a worker may have waiting: enough for the time that its news takes to reach the master.
const WAITING_MAX: u64 = 4;
/// How often a worker says how it is, changed or not.
const NEWS: Duration = Duration::from_millis(10);

fn main() -> Result<(), Failed> {
    let run_dir = std::env::args().nth(1).map(PathBuf::from);
    let access = Access::local_in(run_dir.as_deref())?;
    let sockets = place::run_dirs(run_dir.as_deref()).into_iter().map(|folder| folder.join("publish.sock"));
    let socket = sockets.into_iter().find(|path| path.exists()).ok_or("no khz takes numbers here")?;
    let client = Client::open(&access)?;

    let fixed = run(&socket, |workers| (0..TASKS).try_for_each(|task| workers[task % workers.len()].give()))?;
    println!("fixed split    {:.2} s", fixed.as_secs_f64());
    let selection = Selection::new(["job.steer.waiting"])?.rate("100Hz")?.exact().prompt();
    let news = client.subscribe(selection)?;
    let steered = run(&socket, |workers| steer(workers, &news))?;
    println!("by live load   {:.2} s", steered.as_secs_f64());
    println!(
        "gained         {:.0} %, {:.1} times as fast",
        100.0 * (1.0 - steered.as_secs_f64() / fixed.as_secs_f64()),
        fixed.as_secs_f64() / steered.as_secs_f64()
    );
    Ok(())
}

/// Starts eight workers, lets `hand_out` give them their tasks, and tells how long all of it took.
fn run(socket: &PathBuf, hand_out: impl FnOnce(&[Worker]) -> Result<(), Failed>) -> Result<Duration, Failed> {
    let began = Instant::now();
    let workers: Vec<Worker> =
        (0..SLOWNESS.len()).map(|n| Worker::start(n, socket)).collect::<Result<_, _>>()?;
    hand_out(&workers)?;
    for worker in workers {
        drop(worker.tasks);
        worker.thread.join().map_err(|_| "a worker has panicked")?;
    }
    Ok(began.elapsed())
}

/// Gives each task to a worker that has room, the one with least before it: what it said last, and what it was given
/// since then.
fn steer(workers: &[Worker], news: &Subscription) -> Result<(), Failed> {
    let mut waiting = vec![None::<u64>; workers.len()];
    let mut given = 0;
    while given < TASKS {
        match news.next_within(Duration::from_secs(5)).ok_or("the workers say nothing")? {
            Event::Value(value) => {
                let instance = value.series.instance.as_ref().map(|instance| instance.name());
                let worker = instance.and_then(|name| name.strip_prefix('w')?.parse::<usize>().ok());
                if let Some(known) = worker.and_then(|worker| waiting.get_mut(worker)) {
                    *known = value.reading.value();
                }
            }
            Event::Notice { granted: false, text } | Event::Down { problem: text } => return Err(text.into()),
            _ => {}
        }
        // One task for each that says it has room; it says how it is before it is given more.
        for (worker, known) in workers.iter().zip(&mut waiting) {
            let Some(said) = *known else { continue };
            for _ in said..WAITING_MAX.min(said + 2) {
                if given < TASKS {
                    worker.give()?;
                    given += 1;
                }
            }
            *known = None;
        }
    }
    Ok(())
}

/// A worker, as its master sees it.
struct Worker {
    tasks: Sender<()>,
    waiting: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start(number: usize, socket: &PathBuf) -> Result<Self, Failed> {
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
            self.tell();
            match todo.recv_timeout(NEWS) {
                Ok(()) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => continue,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
            }
            // A task: the processor is not what it waits for, so that eight fit on two cores.
            std::thread::sleep(TASK * self.slowness(done));
            done += 1;
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn slowness(&self, done: usize) -> u32 {
        let becomes_slow = self.number == SLOWNESS.len() - 2;
        if becomes_slow && done < 25 { 1 } else { SLOWNESS[self.number] }
    }

    /// A full socket means that the agent knows enough for now.
    fn tell(&self) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let line = format!("steer.waiting[w{}]={waiting} help=Tasks that wait for a worker", self.number);
        let _ = self.news.send(line.as_bytes());
    }
}
