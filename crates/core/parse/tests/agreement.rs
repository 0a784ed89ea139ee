//! The differential parser and the full parser always agree, whatever happens to the text between two reads:
//! numbers move, grow and shrink, lines come, go and change places, bytes break, the end is cut off.

#![allow(clippy::unwrap_used)]

use khz_model::{Nanos, Reading};
use khz_parse::{KernelFile, Parser, files};
use proptest::prelude::*;

mod made_up;

const HOSTS: [&str; 4] = ["linux-6.18-vm2", "linux-6.12-qemu4", "linux-6.1-qemu8", "linux-2.4-documented"];

fn fixture(file: &KernelFile, host: usize) -> Vec<u8> {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fixtures");
    // PSI for interrupts is not compiled into those kernels, and 2.4 has only half of the files. A made-up
    // text of the same form replaces a missing one, and the text that is made of a folder's files.
    let stand_in = match file.name {
        "uname" => "sysname=Linux\nrelease=6.18.44\nversion=#1 SMP @0\nmachine=x86_64\nnodename=n17\n",
        "dmi" => "bios_date=04/12/2021\nboard_name=07PXPY\nproduct_sku=SKU=0;Model=R6515\n",
        "os" => {
            "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\nVERSION_ID='12'\n# 1=2\nSUPPORT_END=2028-06-30\n"
        }
        "filesystem" => {
            "* left_out=0\nmountpoint / device=/dev/sda1 fstype=ext4 read_only=0 error=0 size=1000 free=500 available=400 \
             files=64 files_free=60\nmountpoint /a\\040b device=server:/x fstype=nfs4 read_only=1 error=0 size=9000 free=10 \
             available=10 files=- files_free=-\n"
        }
        "net/class" => {
            "device eth0 up=1 carrier=1 carrier_changes=3 carrier_up_changes=2 speed=125000000 mtu=1500 :duplex=full \
             :operstate=up\ndevice lo up=0 carrier=1 speed=- mtu=65536 :operstate=unknown\n* links_left_out=0\n"
        }
        "cpu/throttle" => {
            "core 0 package=0 core_throttles=3\ncore 0 package=1 core_throttles=41\npackage 0 package_throttles=5\n"
        }
        "timex" => {
            "* synchronised=1 offset=-1500 estimated_error=12 max_error=25500 status=8193\ntime_zone CET zone_offset=3600\n"
        }
        "hung_tasks" => "17\n",
        "net/snmp" => {
            "Ip: Forwarding DefaultTTL\nIp: 2 64\nTcp: RtoMin MaxConn ActiveOpens OutSegs\nTcp: 200 -1 84 7001\n"
        }
        "net/netstat" => {
            "TcpExt: ListenDrops PruneCalled\nTcpExt: 3 0\nIpExt: InOctets OutOctets\nIpExt: 90071 44\n"
        }
        "net/snmp6" => "Ip6InReceives                   \t12\nIp6InOctets                     \t840\n",
        "net/sockstat" => {
            "sockets: used 92\nTCP: inuse 27 orphan 0 tw 152 alloc 27 mem 4\nFRAG: inuse 0 memory 0\n"
        }
        "net/sockstat6" => "TCP6: inuse 2\nFRAG6: inuse 0 memory 0\n",
        "net/softnet_stat" => {
            "00fcdeb2 000000b5 00000004 0 0 0 0 0 0 0 0 0 00000000\n0000000a 00000000 00000006 0 0 0 0 0 0 0 0 0 0000000c\n"
        }
        "net/arp" => {
            "IP address       HW type     Flags       HW address            Mask     Device\n\
             192.0.2.1        0x1         0x2         02:fc:00:00:00:05     *        eth0\n\
             192.0.2.7        0x1         0x2         02:fc:00:00:00:06     *        eth1\n"
        }
        "net/udp" | "net/udp6" => {
            "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             505: 00000000:0044 00000000:0000 07 00000001:00000A00 00:00000000 00000000     0        0 12\n"
        }
        "fs/file-nr" => "1009\t0\t9223372036854775807\n",
        "random/entropy_avail" | "random/poolsize" => "256\n",
        "netfilter/nf_conntrack_count" | "netfilter/nf_conntrack_max" => "4096\n",
        "net/stat/nf_conntrack" => {
            "entries found drop\n00000001 0000000f 00000002\n00000001 00000001 0000000a\n"
        }
        "cgroup/cpu" => "usage_usec 4310\nuser_usec 1200\nsystem_usec 3110\nnr_periods 0\n",
        "cgroups" => {
            "* count=2\ncgroup system.slice/ssh.service cpu_usage=4310 memory=4096 tasks=3 :kind=service\ncgroup user.slice \
             cpu_usage=12 tasks=1\n"
        }
        "processes" => {
            "* count=92 threads=140 short_lived=7 look_period=1000 left_out=0\nprogram sh cpu=12 memory=4096 count=2\n"
        }
        "logins" => "* users=2 sessions=13\n",
        "textfile" => {
            "error 0\nmtime 1441205977 /a b.prom\nhelp x_total Of x.\ncounter x_total{a=\"1\"} 1.5\nuntyped y 7.0\n"
        }
        _ => "full avg10=0.00 avg60=0.12 avg300=3.45 total=67890\n",
    };
    let made_up = made_up::tree_text(file, 40, |_| true);
    let made_up = made_up.or_else(|| made_up::text(file).map(str::to_owned));
    let stand_in = made_up.map_or_else(|| stand_in.into(), String::into_bytes);
    std::fs::read(format!("{fixtures}/{}/{}", HOSTS[host], file.captured_path())).unwrap_or(stand_in)
}

/// A change to a text.
#[derive(Clone, Debug)]
enum Change {
    /// The n-th number gets other digits, and keeps its length.
    Digits {
        number: usize,
        seed: u64,
    },
    /// The n-th number becomes `new`.
    Number {
        number: usize,
        value: u64,
    },
    DropLine(usize),
    RepeatLine(usize),
    SwapLines(usize, usize),
    Byte {
        at: usize,
        byte: u8,
    },
    Insert {
        at: usize,
        byte: u8,
    },
    Cut(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0usize..1 << 20;
    prop_oneof![
        12 => (at.clone(), any::<u64>()).prop_map(|(number, seed)| Change::Digits { number, seed }),
        3 => (at.clone(), prop_oneof![0u64..200, any::<u64>()]).prop_map(|(number, value)| Change::Number { number, value }),
        1 => at.clone().prop_map(Change::DropLine),
        1 => at.clone().prop_map(Change::RepeatLine),
        1 => (at.clone(), at.clone()).prop_map(|(a, b)| Change::SwapLines(a, b)),
        2 => (at.clone(), prop_oneof![any::<u8>(), Just(b'\n'), Just(b' '), Just(b'7'), Just(b':')]).prop_map(|(at, byte)| Change::Byte { at, byte }),
        1 => (at.clone(), prop_oneof![Just(b'\n'), Just(b' '), Just(b'7')]).prop_map(|(at, byte)| Change::Insert { at, byte }),
        1 => at.prop_map(Change::Cut),
    ]
}

/// The ranges of all digit runs.
fn numbers(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let end = at + text[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        if end > at {
            found.push(at..end);
        }
        at = end.max(at + 1);
    }
    found
}

fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect()
}

fn apply(text: &mut Vec<u8>, change: &Change) {
    let (runs, mut rows) = (numbers(text), lines(text));
    if text.is_empty() || runs.is_empty() || rows.is_empty() {
        return;
    }
    let (size, height) = (text.len(), rows.len());
    match *change {
        Change::Digits { number, mut seed } => {
            for digit in runs[number % runs.len()].clone() {
                text[digit] = b'0' + (seed % 10) as u8;
                seed /= 10;
            }
        }
        Change::Number { number, value } => {
            text.splice(runs[number % runs.len()].clone(), value.to_string().into_bytes());
        }
        Change::Byte { at, byte } => text[at % size] = byte,
        Change::Insert { at, byte } => text.insert(at % size, byte),
        Change::Cut(at) => text.truncate(at % size),
        Change::DropLine(row) => {
            rows.remove(row % height);
            *text = rows.concat();
        }
        Change::RepeatLine(row) => {
            rows.insert(row % height, rows[row % height].clone());
            *text = rows.concat();
        }
        Change::SwapLines(a, b) => {
            rows.swap(a % height, b % height);
            *text = rows.concat();
        }
    }
}

/// Every reading of the long-lived parser equals that of a fresh parser that sees only this text.
fn agree(long_lived: &Parser, text: &[u8]) -> Result<(), TestCaseError> {
    let mut fresh = Parser::new(long_lived.file());
    fresh.advance_with(text);
    for (slot, series) in long_lived.schema().series().iter().enumerate() {
        let kept = long_lived.reading(slot);
        match fresh.schema().slot(&series.metric.name, series.instance.as_ref()) {
            Some(new) => prop_assert_eq!(kept, fresh.reading(new as usize), "{}", series),
            None => {
                prop_assert!(!matches!(kept, Some(Reading::Present(_))), "{} outlived its instance", series)
            }
        }
    }
    prop_assert!(fresh.schema().len() <= long_lived.schema().len());
    Ok(())
}

/// `changed` is enough to keep a copy up to date.
fn follow(copy: &mut Vec<Option<Reading>>, parser: &Parser) {
    copy.resize(parser.schema().len(), Some(Reading::Absent(khz_model::Absence::NotYet)));
    for &slot in parser.changed() {
        copy[slot as usize] = parser.reading(slot as usize);
    }
}

fn rounds_agree(file: &'static KernelFile, host: usize, rounds: &[Vec<Change>]) -> Result<(), TestCaseError> {
    let original = fixture(file, host);
    let mut parser = Parser::new(file);
    let mut copy = Vec::new();
    let mut text = original.clone();
    for round in rounds {
        parser.advance_with(&text);
        agree(&parser, &text)?;
        follow(&mut copy, &parser);
        for (slot, kept) in copy.iter().enumerate() {
            prop_assert_eq!(
                *kept,
                parser.reading(slot),
                "slot {} changed, but `changed` does not name it",
                slot
            );
        }
        if text.len() < original.len() / 2 {
            text.clone_from(&original);
        }
        round.iter().for_each(|change| apply(&mut text, change));
    }
    Ok(())
}

/// What is gone leaves the schema, and every other series keeps its place among the others, and its reading.
fn renew(parser: &mut Parser) -> Result<(), TestCaseError> {
    let gone = Some(Reading::Absent(khz_model::Absence::InstanceGone));
    let named = |parser: &Parser| -> Vec<(String, Option<Reading>)> {
        let series = parser.schema().series().iter().enumerate();
        series.map(|(slot, series)| (series.to_string(), parser.reading(slot))).collect()
    };
    let mut expected = named(parser);
    expected.retain(|(_, reading)| *reading != gone);
    let count = parser.slots_gone(Nanos(7), Nanos(0));
    prop_assert_eq!(parser.schema().len(), expected.len() + count);
    parser.renew(Nanos(7), Nanos(0));
    prop_assert_eq!(named(parser), expected);
    prop_assert!(parser.changed().is_empty() && parser.slots_gone(Nanos(7), Nanos(0)) == 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn differential_and_full_parser_agree(
        file in 0..files().len(),
        host in 0..HOSTS.len(),
        rounds in prop::collection::vec(prop::collection::vec(change(), 0..6), 2..12),
    ) {
        rounds_agree(files()[file], host, &rounds)?;
    }

    #[test]
    fn a_renewed_parser_has_what_is_here_and_nothing_that_is_gone(
        file in 0..files().len(),
        host in 0..HOSTS.len(),
        rounds in prop::collection::vec((prop::collection::vec(change(), 0..6), any::<bool>()), 2..12),
    ) {
        let original = fixture(files()[file], host);
        let (mut parser, mut text) = (Parser::new(files()[file]), original.clone());
        for (round, is_renewed) in &rounds {
            parser.advance_with(&text);
            agree(&parser, &text)?;
            if *is_renewed {
                renew(&mut parser)?;
            }
            if text.len() < original.len() / 2 {
                text.clone_from(&original);
            }
            round.iter().for_each(|change| apply(&mut text, change));
        }
    }

    #[test]
    fn foreign_bytes_never_panic_and_never_leave_an_old_value(
        file in 0..files().len(),
        bytes in prop::collection::vec(any::<u8>(), 0..2_000),
    ) {
        let mut parser = Parser::new(files()[file]);
        parser.advance_with(&fixture(files()[file], 0));
        parser.advance_with(&bytes);
        agree(&parser, &bytes)?;
    }
}

/// The words of a text, as ranges.
fn words(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for at in (0..text.len()).filter(|&at| !text[at].is_ascii_whitespace()) {
        match found.last_mut() {
            Some(word) if word.end == at => word.end = at + 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

/// Texts with words that this parser does not know, before and after others, as a newer kernel may have them.
const NEWER: [(&str, &str); 3] = [
    (
        "net/dev",
        "Inter-|   Receive          |  Transmit\n face |bytes novel packets errs|bytes later packets\n\
         eth0: 101 77 202   3 404 88 505\n   lo:   1  7   2   3   4  8   5\n",
    ),
    (
        "pressure/cpu",
        "some avg10=0.12 avg60=0.34 later=5.67 avg300=0.56 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    (
        "stat",
        "cpu  10 20 30 40 50 60 70 80 90 100 110 120\ncpu0 10 20 30 40 50 60 70 80 90 100 110 120\nctxt 7 8\nbtime 9\n",
    ),
];

/// An unwanted word may change, but it must stay one word, because the words after it are counted from it.
#[test]
fn a_word_that_vanishes_or_becomes_two_is_read_as_by_a_parser_that_never_saw_it() {
    let captured = files().iter().map(|&file| (file, fixture(file, 0)));
    let of_name = |name: &str| *files().iter().find(|file| file.name == name).expect(name);
    let newer = NEWER.iter().map(|(name, text)| (of_name(name), text.as_bytes().to_vec()));
    for (file, text) in captured.chain(newer) {
        let mut parser = Parser::new(file);
        // The first words of each file are enough: the thousands of interrupts are all of one kind.
        for word in words(&text).into_iter().take(40) {
            let middle = word.start + word.len() / 2;
            for place in
                [word.clone(), middle..middle + 1, word.start..word.start + 1, word.end - 1..word.end]
            {
                for byte in [b' ', b'\t', b'\n', b'x'] {
                    parser.advance_with(&text);
                    let mut changed = text.clone();
                    changed[place.clone()].fill(byte);
                    parser.advance_with(&changed);
                    if let Err(error) = agree(&parser, &changed) {
                        panic!("{}: {place:?} is {byte}: {error}", file.name)
                    }
                }
            }
        }
    }
}

#[test]
fn digits_that_change_in_place_need_no_full_parse() {
    for file in files() {
        let text = fixture(file, 0);
        let mut parser = Parser::new(file);
        parser.advance_with(&text);
        assert_eq!(parser.faults(), [], "{}", file.name);
        assert_eq!(parser.advance_with(&text), khz_parse::Outcome::InPlace, "{}", file.name);
        assert_eq!(parser.changed(), [0u32; 0], "{}", file.name);
    }
}
