//! The thread that plays the nodes. It reads the recordings before the hub opens, so that the nodes are there as soon as people are. What
//! they play is in `script.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use khz_http::Tour;
use khz_simulate::{Crowd, Library, Settings};

use super::script::WORKLOADS;
use crate::show::outcome::{Failure, sentence};

/// The thread. It ends with the process: nobody waits for it once its hub is gone.
pub struct Players(JoinHandle<Result<(), Failure>>);

/// Lets the nodes begin.
pub type Begin = SyncSender<Settings>;

impl Players {
    /// Reads the recordings. The tour begins when the nodes do; `stop` ends them, and is set if they end otherwise.
    pub fn ready(tour: &Arc<Tour>, stop: &Arc<AtomicBool>) -> Result<(Self, Begin), Failure> {
        let (begin, begun) = sync_channel(1);
        let (read, have_read) = sync_channel(1);
        let (tour, stop) = (Arc::clone(tour), Arc::clone(stop));
        let work = move || {
            let result = play(&read, &begun, &tour, &stop);
            stop.store(true, Ordering::Relaxed);
            result
        };
        let thread = std::thread::Builder::new().name("demo nodes".into()).spawn(work);
        let thread = thread.map_err(|error| Failure::work(format!("cannot start the nodes: {error}")))?;
        // An error comes with the thread's result.
        let _ = have_read.recv();
        Ok((Players(thread), begin))
    }

    /// Why they ended before the hub did.
    pub fn failure(self) -> Result<(), Failure> {
        match self.0.is_finished() {
            true => self.0.join().unwrap_or(Err(Failure::Reported)),
            false => Ok(()),
        }
    }
}

fn play(
    read: &SyncSender<()>,
    begun: &Receiver<Settings>,
    tour: &Tour,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let library = Library::read(&WORKLOADS.map(String::from), None, 0).map_err(Failure::work)?;
    let _ = read.send(());
    // Without settings the hub has failed, and says why.
    let Ok(settings) = begun.recv() else { return Ok(()) };
    let crowd = Crowd::new(settings, library).map_err(|error| Failure::work(sentence(&error)))?;
    tour.begin();
    crowd.run(stop, |_| {});
    Ok(())
}
