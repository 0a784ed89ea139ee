//! A mounted tree whose values a test brings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use khz_model::{Nanos, NodeName, NodeStatus, Rate, Reading, Series, Stamp};
use khz_mount::{Mount, MountError, Options, Place, Sink, Source, TextWish, Wish};

use crate::sample::series;

/// What the tree has said to its source.
#[derive(Default)]
pub struct Said {
    pub wishes: Vec<Wish>,
    pub roster: bool,
    /// What the values of first rows begin with, above 1000.
    pub more: u64,
    /// They come so much later.
    pub delay: Duration,
    /// There is nobody to answer.
    pub mute: bool,
    pub reads: Vec<TextWish>,
    /// Files that were to be read at once: the wish, the ask. Each time the file `counted` has how many that were.
    pub asks: Vec<(u32, u32)>,
    /// What every node shows below `/proc`, by name; of what is not here nothing is told.
    pub kernel: BTreeMap<String, Vec<u8>>,
}

pub struct Lab {
    pub directory: PathBuf,
    pub said: Arc<Mutex<Said>>,
    pub sink: Arc<dyn Sink>,
    columns: Arc<Vec<Series>>,
    /// Held until last: dropping it unmounts.
    pub mount: Option<Mount>,
}

struct Feed {
    said: Arc<Mutex<Said>>,
    sink: Arc<dyn Sink>,
    columns: Arc<Vec<Series>>,
    nodes: usize,
}

impl Source for Feed {
    fn ask(&self, wish: Wish) {
        let mut said = self.said.lock().unwrap();
        said.wishes.push(wish.clone());
        let (first, delay) = (1_000 + said.more, said.delay);
        drop(said);
        let (sink, columns, nodes) = (self.sink.clone(), self.columns.clone(), self.nodes);
        let answer = move || {
            std::thread::sleep(delay);
            (0..nodes).for_each(|node| answer(&*sink, &wish, node, &columns, first));
        };
        match delay.is_zero() {
            true => answer(),
            false => drop(std::thread::spawn(answer)),
        }
    }
    fn dismiss(&self, number: u32) {
        self.said.lock().unwrap().wishes.retain(|wish| wish.number != number);
    }
    fn read(&self, wish: TextWish) {
        let mut said = self.said.lock().unwrap();
        said.reads.retain(|known| known.number != wish.number);
        said.reads.push(wish.clone());
        let text = match said.kernel.get(&wish.path) {
            None if wish.path.is_empty() => {
                let names: String = said.kernel.keys().map(|name| format!("{name}\n")).collect();
                Some(names.into_bytes())
            }
            known => known.cloned(),
        };
        drop(said);
        if let Some(text) = text {
            self.sink.text(wish.number, &text.into(), stamp(1));
        }
    }
    fn read_now(&self, number: u32, ask: u32) {
        let mut said = self.said.lock().unwrap();
        said.asks.push((number, ask));
        let wish = said.reads.iter().find(|wish| wish.number == number).cloned();
        let (is_counted, is_mute) = (wish.is_some_and(|wish| wish.path == "counted"), said.mute);
        let seen = said.asks.len() as u64;
        drop(said);
        if is_counted {
            self.sink.text(number, &format!("{seen}\n").into_bytes().into(), stamp(seen));
        }
        if !is_mute {
            self.sink.text_given(number, ask, true);
        }
    }
    fn unread(&self, number: u32) {
        self.said.lock().unwrap().reads.retain(|wish| wish.number != number);
    }
    fn roster(&self, wanted: bool) {
        let mut said = self.said.lock().unwrap();
        said.roster = wanted;
        let answers = wanted && !said.mute;
        drop(said);
        if answers {
            let nodes: Vec<NodeStatus> = (0..self.nodes).map(|node| NodeStatus::here(name(node))).collect();
            self.sink.nodes(&nodes, true);
        }
    }
}

pub fn name(node: usize) -> NodeName {
    NodeName::new(&format!("n{node:04}")).unwrap()
}

/// A node's first row for a wish that selects it: its values are 1000, 1001, 1002 ...
fn answer(sink: &dyn Sink, wish: &Wish, node: usize, columns: &Arc<Vec<Series>>, first: u64) {
    let patterns: Vec<khz_model::Pattern> = wish.patterns.iter().map(|text| text.parse().unwrap()).collect();
    if !patterns.iter().any(|pattern| pattern.matches_node(name(node).as_str())) {
        return;
    }
    let chosen = columns.iter().enumerate().filter(|(_, one)| one.is_selected(&patterns));
    let (values, series): (Vec<usize>, Vec<Series>) = chosen.map(|(at, one)| (at, one.clone())).unzip();
    let all = if series.len() == columns.len() { columns.clone() } else { Arc::new(series) };
    let lane = lane(wish.number, node);
    sink.columns(lane, wish.number, &name(node), &all);
    let cells = values.into_iter().map(|at| Reading::Present(first + at as u64));
    sink.row(lane, stamp(1), &mut cells.enumerate());
}

pub fn lane(wish: u32, node: usize) -> u64 {
    u64::from(wish) << 32 | node as u64
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
        let said = Arc::<Mutex<Said>>::default();
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
                Ok(Arc::new(Feed { said: said.clone(), sink, columns: columns.clone(), nodes }))
            },
        );
        let mount = Some(mount.unwrap());
        Lab { directory, said, sink: kept.unwrap(), columns, mount }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.directory.join(below)
    }

    pub fn read(&self, below: &str) -> std::io::Result<String> {
        std::fs::read_to_string(self.path(below))
    }

    /// Wishes that stand now.
    pub fn wishes(&self) -> Vec<Wish> {
        self.said.lock().unwrap().wishes.clone()
    }

    /// A new value of a column, as rows of every wish that selects it; at `seconds`.
    pub fn set(&self, node: usize, column: usize, value: Reading, seconds: u64) {
        for wish in self.wishes() {
            let patterns: Vec<khz_model::Pattern> =
                wish.patterns.iter().map(|text| text.parse().unwrap()).collect();
            let is_of = patterns.iter().any(|pattern| pattern.matches_node(name(node).as_str()));
            let chosen: Vec<usize> =
                (0..self.columns.len()).filter(|&at| self.columns[at].is_selected(&patterns)).collect();
            if let Some(at) = chosen.iter().position(|&at| at == column).filter(|_| is_of) {
                self.sink.row(lane(wish.number, node), stamp(seconds), &mut std::iter::once((at, value)));
            }
        }
    }

    /// A kernel file as every node shows it, from the next time on that it is asked for.
    pub fn kernel(&self, path: &str, text: impl Into<Vec<u8>>) {
        self.said.lock().unwrap().kernel.insert(path.to_owned(), text.into());
    }

    /// A new text of a kernel file, for whoever wants it.
    pub fn print(&self, path: &str, text: impl Into<Vec<u8>>, seconds: u64) {
        let text: Arc<[u8]> = text.into().into();
        self.kernel(path, &text[..]);
        for wish in self.reads().into_iter().filter(|wish| wish.path == path) {
            self.sink.text(wish.number, &text, stamp(seconds));
        }
    }

    /// Kernel files that are wanted now.
    pub fn reads(&self) -> Vec<TextWish> {
        self.said.lock().unwrap().reads.clone()
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

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain until {what}");
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
