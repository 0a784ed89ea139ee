//! `/proc/net/dev` of a made-up host: sixteen counters for each interface.

use std::fmt::Write;

use crate::{KernelFile, Noise, Truth};

/// The metrics of an interface's sixteen counters, in the kernel's order.
pub const INTERFACE_COUNTERS: [&str; 16] = [
    "net.rx_bytes",
    "net.rx_packets",
    "net.rx_errors",
    "net.rx_dropped",
    "net.rx_fifo",
    "net.rx_frame",
    "net.rx_compressed",
    "net.rx_multicast",
    "net.tx_bytes",
    "net.tx_packets",
    "net.tx_errors",
    "net.tx_dropped",
    "net.tx_fifo",
    "net.tx_collisions",
    "net.tx_carrier",
    "net.tx_compressed",
];

/// The widths to which the kernel pads the counters.
const WIDTHS: [usize; 16] = [7, 7, 4, 4, 4, 5, 10, 9, 8, 7, 4, 4, 4, 5, 7, 10];

const HEADER: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
";

/// Bits of the first counts. Counters grow slowly, so they never overflow 64 bits.
const BITS: u32 = 63;

/// A made-up `/proc/net/dev`.
#[derive(Clone, Debug)]
pub struct Network {
    /// Each interface's name and counters, in the order of the text.
    pub interfaces: Vec<(String, [u64; 16])>,
}

impl Network {
    pub(crate) fn new(interfaces: usize, noise: &mut Noise) -> Self {
        let name = |n: usize| match n {
            0 => "lo".to_owned(),
            n if n % 3 == 0 => format!("veth{n:07x}"),
            n if n % 3 == 1 => format!("eth{n}"),
            // The kernel allows names of up to 15 bytes.
            n => format!("enp{n:05}s0f0np{}", n % 10),
        };
        let quiet = |noise: &mut Noise| if noise.once_in(3) { 0 } else { noise.counter(BITS) };
        let interfaces = (0..interfaces).map(|n| (name(n), [0; 16].map(|_: u64| quiet(noise)))).collect();
        Network { interfaces }
    }

    /// Renames the interface `old` to `new`. Its counters stay.
    pub fn rename(&mut self, old: &str, new: &str) {
        for (name, _) in self.interfaces.iter_mut().filter(|(name, _)| name == old) {
            *name = new.to_owned();
        }
    }
}

impl KernelFile for Network {
    fn path(&self) -> &'static str {
        "proc/net/dev"
    }

    fn advance(&mut self, noise: &mut Noise) {
        for (_, counters) in &mut self.interfaces {
            if noise.once_in(2) {
                counters.iter_mut().for_each(|counter| *counter += noise.growth());
            }
        }
    }

    fn text(&self) -> String {
        let mut text = HEADER.to_owned();
        for (name, counters) in &self.interfaces {
            let _ = write!(text, "{name:>6}:");
            for (counter, width) in counters.iter().zip(WIDTHS) {
                let _ = write!(text, " {counter:>width$}");
            }
            text.push('\n');
        }
        text
    }

    fn truth(&self) -> Vec<Truth> {
        let of = |name: &str, counters: &[u64; 16]| {
            let name = name.to_owned();
            INTERFACE_COUNTERS.iter().zip(*counters).map(move |(metric, value)| Truth {
                metric,
                instance: Some(name.clone()),
                value,
            })
        };
        self.interfaces.iter().flat_map(|(name, counters)| of(name, counters)).collect()
    }
}
