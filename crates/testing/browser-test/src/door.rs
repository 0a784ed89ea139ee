//! A real door of a made-up cluster, in its own thread. It closes when this is dropped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use khz_http::Door;
use tokio::sync::oneshot;

use crate::cluster::Cluster;

/// An open door.
pub struct OpenDoor {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OpenDoor {
    /// Opens one at any free port.
    pub fn of(cluster: &Cluster) -> Self {
        OpenDoor::open(cluster, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Opens a door at `address`. Port 0 means a free port.
    pub fn open(cluster: &Cluster, address: SocketAddr) -> Self {
        OpenDoor::open_with(cluster, address, |_| {})
    }

    /// The same, with settings.
    pub fn open_with(cluster: &Cluster, address: SocketAddr, set: impl FnOnce(&mut Door)) -> Self {
        let mut door = Door::new(Arc::new(cluster.clone()));
        door.listen = vec![address];
        set(&mut door);
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime starts").block_on(async {
                let bound = door.bind().await.unwrap_or_else(|error| panic!("{address}: {error}"));
                tell.send(bound.local_addr()).expect("BUG: somebody waits for the address");
                bound.serve(async { drop(stopped.await) }).await;
            });
        };
        let thread = std::thread::Builder::new().name("door".into()).spawn(serve).expect("a thread starts");
        let address = told.recv().expect("the door opens");
        OpenDoor { address, stop: Some(stop), thread: Some(thread) }
    }

    /// Its address: `http://127.0.0.1:7070/`.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// CPU seconds that its thread has used.
    pub fn cpu_seconds(&self) -> f64 {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        let ticks =
            stats.filter(|stat| stat.contains(" (door) ")).filter_map(|stat| crate::browser::ticks(&stat));
        ticks.sum::<u64>() as f64 / crate::browser::TICKS_PER_SECOND
    }
}

impl Drop for OpenDoor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok(), "the door panicked");
        }
    }
}
