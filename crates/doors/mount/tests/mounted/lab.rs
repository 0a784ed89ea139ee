//! A mounted tree whose values a test brings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use khz_follow::Defined;
use khz_model::{Nanos, NodeName, NodeStatus, Rate, Reading, Series, Stamp};
use khz_mount::{
    ChannelSubscription, Mount, MountError, Options, Place, Sink, Subscription, TextSubscription, Upstream,
};

use crate::sample::series;

/// What the tree asks of its upstream, and how that answers.
#[derive(Default)]
pub struct Asked {
    pub subscriptions: Vec<Subscription>,
    pub lists_nodes: bool,
    /// What the values of first rows begin with, above 1000.
    pub more: u64,
    /// First rows come later by this.
    pub delay: Duration,
    /// There is nobody to answer.
    pub mute: bool,
    pub texts: Vec<TextSubscription>,
    /// Requests for a fresh text: subscription and number. The file `counted` has in it how many there were.
    pub requests: Vec<(u32, u32)>,
    /// What every node shows below `/proc`, by name. Nothing is sent of a file that is not here.
    pub kernel: BTreeMap<String, Vec<u8>>,
    /// The channels that there are.
    pub defined: Vec<Defined>,
    /// Those that the tree follows.
    pub channels: Vec<ChannelSubscription>,
}

pub struct Lab {
    pub directory: PathBuf,
    pub asked: Arc<Mutex<Asked>>,
    pub sink: Arc<dyn Sink>,
    columns: Arc<Vec<Series>>,
    /// Held until last: dropping it unmounts.
    pub mount: Option<Mount>,
}

struct Feed {
    asked: Arc<Mutex<Asked>>,
    sink: Arc<dyn Sink>,
    columns: Arc<Vec<Series>>,
    nodes: usize,
}

impl Upstream for Feed {
    fn subscribe(&self, subscription: Subscription) {
        let mut asked = self.asked.lock().unwrap();
        asked.subscriptions.push(subscription.clone());
        let (first, delay) = (1_000 + asked.more, asked.delay);
        drop(asked);
        let (sink, columns, nodes) = (self.sink.clone(), self.columns.clone(), self.nodes);
        let answer = move || {
            std::thread::sleep(delay);
            (0..nodes).for_each(|node| answer(&*sink, &subscription, node, &columns, first));
        };
        match delay.is_zero() {
            true => answer(),
            false => drop(std::thread::spawn(answer)),
        }
    }
    fn list_channels(&self, wanted: bool) {
        if wanted {
            let defined = self.asked.lock().unwrap().defined.clone();
            self.sink.channels(Some(defined));
        }
    }
    fn subscribe_channel(&self, subscription: ChannelSubscription) {
        self.asked.lock().unwrap().channels.push(subscription);
    }
    fn unsubscribe_channel(&self, number: u32) {
        self.asked.lock().unwrap().channels.retain(|known| known.number != number);
    }
    fn unsubscribe(&self, number: u32) {
        self.asked.lock().unwrap().subscriptions.retain(|known| known.number != number);
    }
    fn list_nodes(&self, wanted: bool) {
        let mut asked = self.asked.lock().unwrap();
        asked.lists_nodes = wanted;
        let answers = wanted && !asked.mute;
        drop(asked);
        if answers {
            let nodes: Vec<NodeStatus> = (0..self.nodes).map(|node| NodeStatus::here(name(node))).collect();
            self.sink.nodes(&nodes, true);
        }
    }
    fn subscribe_text(&self, subscription: TextSubscription) {
        let mut asked = self.asked.lock().unwrap();
        asked.texts.retain(|known| known.number != subscription.number);
        asked.texts.push(subscription.clone());
        let text = match asked.kernel.get(&subscription.path) {
            None if subscription.path.is_empty() => {
                let names: String = asked.kernel.keys().map(|name| format!("{name}\n")).collect();
                Some(names.into_bytes())
            }
            known => known.cloned(),
        };
        drop(asked);
        if let Some(text) = text {
            self.sink.text(subscription.number, &text.into(), stamp(1));
        }
    }
    fn read_text_now(&self, number: u32, request: u32) {
        let mut asked = self.asked.lock().unwrap();
        asked.requests.push((number, request));
        let text = asked.texts.iter().find(|text| text.number == number);
        let (is_counted, is_mute) = (text.is_some_and(|text| text.path == "counted"), asked.mute);
        let seen = asked.requests.len() as u64;
        drop(asked);
        if is_counted {
            self.sink.text(number, &format!("{seen}\n").into_bytes().into(), stamp(seen));
        }
        if !is_mute {
            self.sink.text_answered(number, request, true);
        }
    }
    fn unsubscribe_text(&self, number: u32) {
        self.asked.lock().unwrap().texts.retain(|known| known.number != number);
    }
}

pub fn name(node: usize) -> NodeName {
    NodeName::new(&format!("n{node:04}")).unwrap()
}

/// A node's first row for a subscription that selects it: its values are 1000, 1001, 1002 ...
fn answer(sink: &dyn Sink, to: &Subscription, node: usize, columns: &Arc<Vec<Series>>, first: u64) {
    let patterns: Vec<khz_model::Pattern> = to.patterns.iter().map(|text| text.parse().unwrap()).collect();
    if !patterns.iter().any(|pattern| pattern.matches_node(name(node).as_str())) {
        return;
    }
    let chosen = columns.iter().enumerate().filter(|(_, one)| one.is_selected(&patterns));
    let (values, series): (Vec<usize>, Vec<Series>) = chosen.map(|(at, one)| (at, one.clone())).unzip();
    let all = if series.len() == columns.len() { columns.clone() } else { Arc::new(series) };
    let lane = lane(to.number, node);
    sink.columns(lane, to.number, &name(node), &all);
    let cells = values.into_iter().map(|at| Reading::Present(first + at as u64));
    sink.row(lane, stamp(1), &mut cells.enumerate());
}

pub fn lane(subscription: u32, node: usize) -> u64 {
    u64::from(subscription) << 32 | node as u64
}

pub fn stamp(seconds: u64) -> Stamp {
    Stamp { boot: Nanos(seconds * 1_000_000_000), real_offset: 1_600_000_000_000_000_000 }
}

static MADE: AtomicU32 = AtomicU32::new(0);

impl Lab {
    pub fn new(nodes: usize, tune: impl FnOnce(&mut Options)) -> Self {
        Lab::mounted_by(0, nodes, tune)
    }

    pub fn mounted_by(owner: u32, nodes: usize, tune: impl FnOnce(&mut Options)) -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("khz-mount-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let asked = Arc::<Mutex<Asked>>::default();
        let columns =
            [series("mem.free", None), series("load.1m", None), series("net.rx_bytes", Some("eth0"))];
        let columns = Arc::new(columns.to_vec());
        let mut options = Options::new(Rate::from_hz(100).unwrap(), "reader");
        options.wait = Duration::from_millis(300);
        tune(&mut options);
        let place = Place { directory: directory.clone(), allow_other: true, owner: (owner, 0) };
        let mut kept = None;
        let mount = Mount::start::<MountError>(
            &place,
            options,
            || {},
            |sink| {
                sink.connected(true, "test");
                kept = Some(sink.clone());
                Ok(Arc::new(Feed { asked: asked.clone(), sink, columns: columns.clone(), nodes }))
            },
        );
        let mount = Some(mount.unwrap());
        Lab { directory, asked, sink: kept.unwrap(), columns, mount }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.directory.join(below)
    }

    pub fn read(&self, below: &str) -> std::io::Result<String> {
        std::fs::read_to_string(self.path(below))
    }

    /// The present subscriptions.
    pub fn subscriptions(&self) -> Vec<Subscription> {
        self.asked.lock().unwrap().subscriptions.clone()
    }

    /// A new value of a column, as rows of every subscription that selects it; at `seconds`.
    pub fn set(&self, node: usize, column: usize, value: Reading, seconds: u64) {
        for to in self.subscriptions() {
            let patterns: Vec<khz_model::Pattern> =
                to.patterns.iter().map(|text| text.parse().unwrap()).collect();
            let is_of = patterns.iter().any(|pattern| pattern.matches_node(name(node).as_str()));
            let chosen: Vec<usize> =
                (0..self.columns.len()).filter(|&at| self.columns[at].is_selected(&patterns)).collect();
            if let Some(at) = chosen.iter().position(|&at| at == column).filter(|_| is_of) {
                self.sink.row(lane(to.number, node), stamp(seconds), &mut std::iter::once((at, value)));
            }
        }
    }

    /// A kernel file as every node shows it, from the next time on that it is asked for.
    pub fn kernel(&self, path: &str, text: impl Into<Vec<u8>>) {
        self.asked.lock().unwrap().kernel.insert(path.to_owned(), text.into());
    }

    /// A new text of a kernel file, for every subscription to it.
    pub fn print(&self, path: &str, text: impl Into<Vec<u8>>, seconds: u64) {
        let text: Arc<[u8]> = text.into().into();
        self.kernel(path, &text[..]);
        for to in self.texts().into_iter().filter(|to| to.path == path) {
            self.sink.text(to.number, &text, stamp(seconds));
        }
    }

    /// The present subscriptions to kernel files.
    pub fn texts(&self) -> Vec<TextSubscription> {
        self.asked.lock().unwrap().texts.clone()
    }

    /// A number out of `.mount/stats`.
    pub fn stat(&self, name: &str) -> u64 {
        let text = self.read(".mount/stats").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        drop(self.mount.take());
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// A program that SIGINT ends, also where the tests run in the background of a shell, which ignores it.
pub fn interruptible(program: &str) -> std::process::Command {
    let mut command = std::process::Command::new("env");
    command.args(["--default-signal=INT", program]);
    command
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "it did not happen in time that {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The errno of what failed.
pub fn errno<T>(result: std::io::Result<T>) -> i32 {
    match result {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    }
}
