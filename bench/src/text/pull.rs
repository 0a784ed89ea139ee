//! 128 nodes, five items: statuses a second if every node gathers for each, if rows may be two milliseconds
//! old, and from rows already received. One client; hub and simulation share this machine's processors.

use std::time::Duration;

use super::client::{Client, rate};
use crate::error::BenchError;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

const NODES: u64 = 128;
/// The age of rows in the protocol's words, its meaning, and the statuses a second to reach.
const AGES: [(&str, &str, f64); 3] = [
    ("", "asked anew (128 round trips each)", 300.0),
    ("2ms", "rows no older than 2 ms", 1_000.0),
    ("any", "as they were pushed", 1_000.0),
];

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let (hub, _simulation) = super::cluster(NODES)?;
    let mut client = Client::new(hub.text()?)?;
    let (mask, names) = client.five_items()?;
    client.ask(&format!("{mask}\nS"))?;
    let span = Duration::from_secs(record.effort.of(2, 1));
    let mut table = Table::new(&["128 nodes, five items", "S/s", "quartiles", "lines"]);
    let mut rates = AGES.map(|_| Vec::new());
    let mut lines = 0;
    for turn in 0..record.effort.pairs() {
        for (rates, (age, what, _)) in rates.iter_mut().zip(AGES) {
            client.set(&format!(":age {age}\n"))?;
            client.ask("S")?;
            let reached = rate(span, || {
                lines = client.ask("S")?.iter().filter(|&&byte| byte == b'\n').count() - 1;
                Ok(())
            })?;
            record.sample(["pull", what, "khz"], turn, "statuses_per_s", reached);
            rates.push(reached);
        }
    }
    for (rates, (_, what, least)) in rates.into_iter().zip(AGES) {
        let Some(spread) = Spread::of(rates) else { continue };
        let quartiles = format!("{}..{}", figure(spread.lower), figure(spread.upper));
        table.row([what.to_owned(), figure(spread.median), quartiles, lines.to_string()]);
        record.verdict(&format!("S/s of 128 nodes: {what}"), Some(spread), Bound::AtLeast(least));
    }
    record.show("## Statuses a second", &table);
    let count = |name: &str| hub.count(name);
    record.say(&format!(
        "Items: {}. Requests to nodes {}, answered {}, nodes left out of an answer {} (the first statuses open lanes on all \
         nodes).\n",
        names.join(", "),
        count("khz_hub_now_requests_total")?,
        count("khz_hub_now_answers_total")?,
        count("khz_hub_now_left_out_total")?
    ));
    Ok(())
}
