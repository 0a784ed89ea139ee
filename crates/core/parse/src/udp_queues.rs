//! `/proc/net/udp` and `/proc/net/udp6`: the UDP sockets, a line each, below a line of names. Their fifth column is the bytes
//! that wait in a socket, to be sent and to be read, in hexadecimal: `00000000:00000A00`. The metrics are the sums of all
//! sockets.

use std::ops::Range;

use khz_model::{Fault, Unit};

use crate::entry::{Entry, gauge};
use crate::kernel_file::{KernelFile, Pieces};
use crate::number;
use crate::sink::Sink;
use crate::text::{split_at_mark, words};

/// Sockets of IPv4. The kernel pads each line to 127 bytes.
pub static IPV4: KernelFile = file(
    "net/udp",
    "proc/net/udp",
    &[
        waiting(
            "udp.tx_queue",
            "tx_queue",
            &[("queue", "tx"), ("ip", "v4")],
            "Bytes that wait in UDP sockets to be sent.",
        ),
        waiting(
            "udp.rx_queue",
            "rx_queue",
            &[("queue", "rx"), ("ip", "v4")],
            "Bytes that wait in UDP sockets to be read.",
        ),
    ],
);

/// Sockets of IPv6. There is no such file if the kernel has no IPv6.
pub static IPV6: KernelFile = file(
    "net/udp6",
    "proc/net/udp6",
    &[
        waiting(
            "udp6.tx_queue",
            "tx_queue",
            &[("queue", "tx"), ("ip", "v6")],
            "Bytes that wait in UDP sockets of IPv6 to be sent.",
        ),
        waiting(
            "udp6.rx_queue",
            "rx_queue",
            &[("queue", "rx"), ("ip", "v6")],
            "Bytes that wait in UDP sockets of IPv6 to be read.",
        ),
    ],
);

const fn file(name: &'static str, path: &'static str, scalars: &'static [Entry]) -> KernelFile {
    let pieces = Pieces::Records { longest: 256 };
    KernelFile { name, path, pieces, only_base: true, scalars, groups: &[], parse }
}

const fn waiting(
    name: &'static str,
    field: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Entry {
    gauge(name, field, Unit::Bytes, help)
        .exposed("node_udp_queues", labels)
        .together("Bytes that wait in UDP sockets to be sent (tx) and to be read (rx).")
}

/// The column of both.
const QUEUES: usize = 4;

fn parse(sink: &mut Sink<'_>) {
    let mut sums = [Ok(0u64); 2];
    let mut has_header = false;
    sink.lines(|sink, line| {
        if std::mem::replace(&mut has_header, true) {
            let queues = queues(sink.text(), line);
            sums = [0, 1].map(|at| Ok(sums[at]?.saturating_add(queues?[at])));
        }
    });
    // An empty text, or one that is cut off, is no text without sockets, or with fewer.
    if !has_header || !sink.is_whole() {
        return;
    }
    for (index, sum) in sums.into_iter().enumerate() {
        match sum {
            Ok(bytes) => sink.scalar_is(index, bytes),
            Err(fault) => sink.fail_scalar(index, fault, "a socket's queues are no hexadecimal numbers"),
        }
    }
}

/// The bytes of one socket: to be sent, to be read.
fn queues(text: &[u8], line: Range<usize>) -> Result<[u64; 2], Fault> {
    let word = words(text, line).nth(QUEUES).ok_or(Fault::Malformed)?;
    let (to_send, to_read) = split_at_mark(text, word, b':').ok_or(Fault::Malformed)?;
    Ok([number::hexadecimal(&text[to_send])?, number::hexadecimal(&text[to_read])?])
}

#[cfg(test)]
mod tests {
    use crate::Parser;
    use khz_model::{Fault, Reading};

    const HEADER: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops            \n";

    fn read(lines: &[&str]) -> [Reading; 2] {
        let mut parser = Parser::new(&super::IPV4);
        let lines = lines.iter().map(|queues| {
            format!("  505: 00000000:0044 00000000:0000 07 {queues} 00:00000000 00000000     0        0 12 2 0 0\n")
        });
        parser.advance_with((HEADER.to_owned() + &lines.collect::<String>()).as_bytes());
        [0, 1].map(|slot| parser.reading(slot).unwrap())
    }

    #[test]
    fn the_queues_of_all_sockets_are_added() {
        assert_eq!(read(&[]), [Reading::Present(0); 2]);
        let sums = read(&["00000001:00000A00", "00000010:00000001"]);
        assert_eq!(sums, [Reading::Present(17), Reading::Present(2_561)]);
    }

    #[test]
    fn a_socket_without_queues_fails_the_sums() {
        for wrong in ["0000000x:00000000", "00000001", "-:"] {
            assert_eq!(
                read(&["00000001:00000A00", wrong]),
                [Reading::Failed(Fault::Malformed); 2],
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_text_that_is_cut_off_gives_no_sum() {
        for text in ["", &HEADER[..40], &format!("{HEADER} 505: 0 0 07 00000001:0")] {
            let mut parser = Parser::new(&super::IPV6);
            parser.advance_with(text.as_bytes());
            assert_eq!(parser.reading(0), Some(Reading::Failed(Fault::Malformed)));
        }
    }
}
