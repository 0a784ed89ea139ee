//! Bytes on the wire for each value of a row, changed or not, with frames and block headers: for the recorded
//! workloads, and as bytes a second of a node, at usual rates.

use khz_model::Nanos;
use khz_simulate::{Library, said};

use super::cluster::{SLOTS, SLOTS_OF_ALL};
use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure, thousands};

const WORKLOADS: [&str; 4] = ["idle", "compile", "netcopy", "mempressure"];
/// Rates, the seconds to count, and the most bytes for a value.
const RATES: [(u64, u64, f64); 4] = [(1_000, 60, 0.5), (100, 60, 0.5), (10, 300, 1.0), (1, 1_800, 2.0)];

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let mut table = Table::new(&["workload, rate", "slots", "bytes/row", "bytes/value", "bytes/s a node"]);
    for slots in [SLOTS, SLOTS_OF_ALL, 0].map(|slots| slots as usize) {
        for (rate, seconds, most) in RATES {
            record.progress(&format!("{rate} Hz"));
            let (mut worst, mut most_a_second) = (0.0f64, 0.0f64);
            for (number, workload) in WORKLOADS.into_iter().enumerate() {
                let names = WORKLOADS.map(String::from);
                let library = Library::read(&names, None, slots).map_err(|e| failed("the recordings", e))?;
                let period = Nanos(1_000_000_000 / rate);
                let said = said(library, number, period, Nanos::from_secs(seconds));
                let said = said.map_err(|e| failed("the link", e))?;
                let row = said.bytes as f64 / said.rows as f64;
                let value = row / said.slots as f64;
                let case = format!("{workload} {rate} Hz {} slots", said.slots);
                let second = said.bytes as f64 / seconds as f64;
                record.sample(["bytes", &case, "khz"], 0, "bytes_per_value", value);
                record.sample(["bytes", &case, "khz"], 0, "bytes_per_second", second);
                table.row([
                    format!("{workload} {rate} Hz"),
                    said.slots.to_string(),
                    figure(row),
                    figure(value),
                    thousands(second),
                ]);
                (worst, most_a_second) = (worst.max(value), most_a_second.max(second));
            }
            if slots > 0 {
                let (promise, bound) = match slots as u64 {
                    SLOTS => (format!("bytes per value at {rate} Hz, worst workload"), Bound::AtMost(most)),
                    _ => (format!("bytes per value of {slots} slots at {rate} Hz"), Bound::Stated),
                };
                record.verdict(&promise, Spread::of([worst]), bound);
                let promise =
                    format!("bytes a second of a node of {slots} slots at {rate} Hz, worst workload");
                record.verdict(&promise, Spread::of([most_a_second]), Bound::Stated);
            }
        }
    }
    record.show("## Bytes on the wire", &table);
    record.say(
        "300 slots: those that change most often, as in the other sections. 1,000: all, and copies of devices and\n\
         processors. Else all that were recorded.\n",
    );
    Ok(())
}
