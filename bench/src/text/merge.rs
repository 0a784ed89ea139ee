//! Sixteen clients request the status of 128 nodes, each a hundred times a second: how many requests does a
//! node get?

use std::time::{Duration, Instant};

use super::client::Client;
use crate::error::BenchError;
use crate::record::{Bound, Record};
use crate::spread::Spread;

const NODES: u64 = 128;
const CLIENTS: usize = 16;
const PERIOD: Duration = Duration::from_millis(10);

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let (hub, _simulation) = super::cluster(NODES)?;
    let door = hub.text()?;
    let mut first = Client::new(door)?;
    let (mask, _) = first.five_items()?;
    first.ask(&format!("{mask}\nS"))?;
    let before = hub.count("khz_hub_now_requests_total")?;
    let span = Duration::from_secs(record.effort.of(15, 5));
    let start = Instant::now();
    let asked: u64 = std::thread::scope(|scope| {
        let ask = || -> Result<u64, BenchError> {
            let mut client = Client::new(door)?;
            client.say(&format!("{mask}\n"))?;
            let (mut asked, mut due) = (0, Instant::now());
            while start.elapsed() < span {
                client.ask("S")?;
                asked += 1;
                due += PERIOD;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            Ok(asked)
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().map(|client| client.join().unwrap_or(Ok(0))).sum::<Result<u64, BenchError>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let requests = (hub.count("khz_hub_now_requests_total")? - before) as f64 / NODES as f64;
    let crowded = hub.count("khz_hub_now_crowded_total")?;
    record.sample(["merge", "16 clients", "khz"], 0, "requests_per_node", requests);
    record.sample(["merge", "16 clients", "khz"], 0, "statuses", asked as f64);
    record.sample(["merge", "16 clients", "khz"], 0, "crowded", crowded as f64);
    record.say(&format!(
        "## Sixteen clients\n\n{asked} statuses in {seconds:.1} s ({:.0}/s); {requests:.0} requests to each node ({:.0}/s): {:.2} \
         for each status. Requests less than a window (100 us) after the one before: {crowded}.\n",
        asked as f64 / seconds,
        requests / seconds,
        requests / asked as f64
    ));
    record.verdict(
        "requests to a node within one window, beyond the first",
        Spread::of([crowded as f64]),
        Bound::AtMost(0.0),
    );
    Ok(())
}
