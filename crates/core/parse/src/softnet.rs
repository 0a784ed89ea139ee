//! `/proc/net/softnet_stat`: how each CPU has handled received packets. A line is a CPU that is online, with numbers
//! in hexadecimal: packets processed, dropped because the queue was full, times that the budget ran out, and others.
//! The thirteenth is the CPU's number (since Linux 5.10; before, lines are counted).

use std::ops::Range;

use khz_model::{Fault, Unit};

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces};
use crate::number;
use crate::sink::Sink;
use crate::text::words;

/// The file. A record is a line: fifteen numbers of eight digits.
pub static FILE: KernelFile = KernelFile {
    name: "net/softnet_stat",
    path: "proc/net/softnet_stat",
    pieces: Pieces::Records { longest: 160 },
    only_base: true,
    scalars: &[],
    groups: &[Group { label: "cpu", entries: PER_CPU, ..Group::PLAIN }],
    parse,
};

static PER_CPU: &[Entry] = &[
    counter(
        "softnet.processed",
        "first number",
        Unit::Packets,
        "Packets that this CPU has received and processed.",
    )
    .exposed("node_softnet_processed_total", &[]),
    counter(
        "softnet.dropped",
        "second number",
        Unit::Packets,
        "Packets thrown away because this CPU's queue was full.",
    )
    .exposed("node_softnet_dropped_total", &[]),
    counter(
        "softnet.squeezed",
        "third number",
        Unit::Count,
        "Times that packets were left when this CPU's budget or time for them was used up.",
    )
    .exposed("node_softnet_times_squeezed_total", &[]),
    counter(
        "softnet.collisions",
        "ninth number",
        Unit::Count,
        "Times that this CPU wanted to send while another one had locked the device (kernels before 4.7).",
    )
    .exposed("node_softnet_cpu_collision_total", &[]),
    counter(
        "softnet.woken",
        "tenth number",
        Unit::Count,
        "Times that another CPU has woken this one to process packets (RPS).",
    )
    .exposed("node_softnet_received_rps_total", &[]),
    counter(
        "softnet.flow_limited",
        "eleventh number",
        Unit::Packets,
        "Packets thrown away because of the limit of flows.",
    )
    .exposed("node_softnet_flow_limit_count_total", &[]),
    gauge("softnet.backlog", "twelfth number", Unit::Packets, "Packets that wait for this CPU (Linux 5.10).")
        .exposed("node_softnet_backlog_len", &[]),
];

/// The place of each number.
const PLACES: [usize; PER_CPU.len()] = [0, 1, 2, 8, 9, 10, 11];

/// Every kernel prints this many numbers.
const PRINTED: usize = 3;

/// The place of the CPU's number.
const CPU: usize = 12;

fn parse(sink: &mut Sink<'_>) {
    let mut lines = 0u64;
    sink.lines(|sink, line| {
        let cpu = match words(sink.text(), line.clone()).nth(CPU) {
            Some(word) => number::hexadecimal(&sink.text()[word]),
            None => Ok(lines),
        };
        lines += 1;
        match cpu {
            Ok(cpu) => one_cpu(sink, line, cpu),
            Err(_) => sink.note(String::from("the CPU's number"), "not a hexadecimal number"),
        }
    });
}

fn one_cpu(sink: &mut Sink<'_>, line: Range<usize>, cpu: u64) {
    let Some(slots) = sink.instance(0, decimal(cpu, &mut [0; DIGITS_MAX])) else { return };
    for (index, place) in PLACES.into_iter().enumerate() {
        let word = words(sink.text(), line.clone()).nth(place);
        match word.map(|word| number::hexadecimal(&sink.text()[word])) {
            Some(Ok(value)) => sink.field_is(slots, index, value),
            Some(Err(fault)) => sink.fail_field(slots, index, fault, "not a hexadecimal number"),
            None if index < PRINTED => {
                sink.fail_field(slots, index, Fault::Malformed, "the line has not as many numbers");
            }
            // An older kernel.
            None => {}
        }
    }
}

/// Digits of a number of 64 bits.
const DIGITS_MAX: usize = 20;

/// The number's digits, without an allocation: this runs on every tick.
fn decimal(mut number: u64, room: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut from = DIGITS_MAX;
    loop {
        from -= 1;
        room[from] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[from..];
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Parser;
    use khz_model::{Absence, Fault, Instance, Reading};

    const REST: &str = "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000";

    fn read(text: &str) -> Parser {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(text.as_bytes());
        parser
    }

    fn get(parser: &Parser, metric: &str, cpu: &str) -> Reading {
        let slot = parser.schema().slot(metric, Some(&Instance::from_kernel(cpu.as_bytes()))).unwrap();
        parser.reading(slot as usize).unwrap()
    }

    #[test]
    fn numbers_are_hexadecimal_and_lines_name_their_cpu() {
        let mut parser = read(&format!(
            "00fcdeb2 000000b5 00000004 {REST} 00000000 00000000 00000000\n0000000a 00000000 00000006 {REST} 0000000c 00000000 00000000\n"
        ));
        assert_eq!(parser.faults(), []);
        assert_eq!(get(&parser, "softnet.processed", "0"), Reading::Present(0x00fc_deb2));
        assert_eq!(get(&parser, "softnet.dropped", "0"), Reading::Present(181));
        assert_eq!(get(&parser, "softnet.squeezed", "12"), Reading::Present(6));
        parser.advance_with(
            format!("0000000b 00000000 00000006 {REST} 0000000c 00000000 00000000\n").as_bytes(),
        );
        assert_eq!(get(&parser, "softnet.processed", "12"), Reading::Present(11));
    }

    #[test]
    fn all_numbers_have_their_digits() {
        for number in [0, 7, 10, 1_099, u64::MAX] {
            assert_eq!(super::decimal(number, &mut [0; super::DIGITS_MAX]), number.to_string().as_bytes());
        }
    }

    #[test]
    fn an_older_kernel_has_a_line_for_each_cpu() {
        let parser = read("00000001 00000002 00000003\n00000004 00000005 00000006\n");
        assert_eq!(get(&parser, "softnet.dropped", "1"), Reading::Present(5));
        assert_eq!(get(&parser, "softnet.backlog", "1"), Reading::Absent(Absence::NoField));
    }

    #[test]
    fn damage_is_failed() {
        let parser = read("0000000g 00000002\n");
        for metric in ["softnet.processed", "softnet.squeezed"] {
            assert_eq!(get(&parser, metric, "0"), Reading::Failed(Fault::Malformed), "{metric}");
        }
        assert_eq!(get(&parser, "softnet.dropped", "0"), Reading::Present(2));
    }
}
