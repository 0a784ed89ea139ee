//! Rings and snapshots have exactly the bytes that docs/ring.md and docs/shm.md describe. The tests read them as
//! other programs do, without code of this crate.

#![allow(clippy::unwrap_used)]

mod lane;

use std::fs;

use khz_block::Header;
use khz_model::{Kind, Nanos, Stamp, ValueFormat, ValueType};
use khz_ring::{Folder, Reader, SlotName, SnapshotLabel, SnapshotWriter};
use lane::{TestFolder, open};

/// A file, read at offsets.
struct Bytes(Vec<u8>);

impl Bytes {
    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.0[at..].first_chunk().unwrap()
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.at(at))
    }

    /// A name after its length of two bytes; zeros follow up to `end`.
    fn name(&self, at: usize, end: usize) -> &str {
        let length = usize::from(u16::from_le_bytes(self.at(at)));
        let (name, zeros) = self.0[at + 2..end].split_at(length);
        assert!(zeros.iter().all(|&byte| byte == 0), "after the name at {at}");
        std::str::from_utf8(name).unwrap()
    }

    /// Checks the checksum of the first page; returns magic and version.
    fn begins(&self) -> [u8; 8] {
        assert_eq!(self.at(4_092), crc32fast::hash(&self.0[..4_092]).to_le_bytes());
        self.at(0)
    }
}

const PAGE: usize = 4_096;
const MIB: u64 = 1 << 20;

#[test]
fn a_ring_has_the_bytes_of_its_document() {
    const DATA: usize = 8_192 + (16 << 20);
    let folder = TestFolder::new("document");
    let locked = Folder::lock(&folder.0).unwrap();
    let (mut lane, _) = open(&locked, (1 << 18) + 12_345);
    lane.writer.extend_schema(b"what the slots ").unwrap();
    lane.writer.extend_schema(b"mean").unwrap();
    lane.writer.set_started(Stamp { boot: Nanos(77), real_offset: 5 });
    lane.writer.set_period(Nanos(1_000_000));
    lane.rows(300);
    let reader = Reader::open(&folder.ring()).unwrap();
    assert_eq!((reader.started(), reader.period(), reader.size()), (Nanos(77), Nanos(1_000_000), 1 << 18));
    assert_eq!((lane.writer.size(), lane.writer.used()), (1 << 18, reader.head() - reader.oldest()));

    let bytes = Bytes(fs::read(folder.ring()).unwrap());
    assert_eq!(bytes.0.len(), DATA + (1 << 18), "rounded down to a power of two");
    assert_eq!(bytes.begins(), *b"khzR\x01\0\0\0");
    assert_eq!(bytes.at(8), [3, 0, 0, 0, 0, 0, 0, 0], "the lane's number");
    assert_eq!([16, 24, 32, 40].map(|at| bytes.word(at)), [8_192, 16 * MIB, DATA as u64, 1 << 18]);
    assert_eq!((bytes.at(48), bytes.at(64)), ([1; 16], [2; 16]), "machine and boot");
    assert_eq!((bytes.word(80), bytes.word(88)), (reader.label().epoch, 5));
    assert_eq!((bytes.name(96, 352), bytes.name(352, 4_092)), ("n1", "base"));

    let word = |number: usize| bytes.word(PAGE + 8 * number);
    let (head, tail, newest) = (word(0), word(1), word(2));
    assert_eq!((head, tail, newest), (reader.head(), reader.oldest(), reader.newest()));
    assert!(tail == 0 && 0 < newest && newest < head && head < 1 << 18);
    let entry = 16 + b"what the slots mean".len() as u64;
    assert_eq!([8, 9, 10, 11, 12].map(word), [entry, 1, 1_000_000, std::process::id().into(), 77]);
    assert_eq!(bytes.at(8_192), [1, 0, 0, 0, 0, 0, 0, 0], "the generation of the first entry");
    assert_eq!(bytes.word(8_200), 19);
    assert_eq!(&bytes.0[8_208..8_208 + 19], b"what the slots mean");

    // The blocks follow each other without gaps, and the last one is open.
    let mut at = 0;
    let mut first_row = 0;
    while at < newest {
        let header = Header::from_bytes(&bytes.at(DATA + at as usize), 0).unwrap();
        let (rows, length, checksum) = header.closed.unwrap();
        let rows_at = DATA + at as usize + 64;
        assert_eq!(header.first_row, first_row);
        assert_eq!(crc32fast::hash(&bytes.0[rows_at..rows_at + length as usize]), checksum);
        first_row += u64::from(rows);
        at += 64 + u64::from(length);
    }
    let open = Header::from_bytes(&bytes.at(DATA + at as usize), 0).unwrap();
    assert_eq!((at, open.first_row, open.closed), (newest, first_row, None));
}

#[test]
fn a_snapshot_has_the_bytes_of_its_document() {
    const SLOTS: usize = 12_288;
    const NAMES: usize = 4_206_592;
    let folder = TestFolder::new("snapshot-document");
    fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join("snapshot");
    let label = SnapshotLabel { node: "n1".into(), machine: [1; 16], boot: [2; 16], epoch: 3, created: 4 };
    let mut writer = SnapshotWriter::create(&path, &label).unwrap();
    let slot = |group, kind, places, unit: &str, name: &str| SlotName {
        group,
        kind,
        format: ValueFormat { value_type: ValueType::Unsigned, places },
        unit: unit.into(),
        name: name.into(),
    };
    let names = [
        slot(2, Kind::Gauge, 2, "count", "load.1m"),
        slot(63, Kind::Counter, 0, "bytes", "net.rx_bytes[eth0]"),
    ];
    assert_eq!(writer.append(&names), Ok(0));
    writer.write(2, Stamp { boot: Nanos(70), real_offset: -5 }, [(0, 0, 52)].into_iter());
    writer.write(63, Stamp { boot: Nanos(80), real_offset: -5 }, [(1, 3, 0)].into_iter());
    writer.write(63, Stamp { boot: Nanos(90), real_offset: -6 }, [(1, 0, u64::MAX)].into_iter());

    let bytes = Bytes(fs::read(&path).unwrap());
    assert_eq!(bytes.0.len(), NAMES + (16 << 20));
    assert_eq!(bytes.begins(), *b"khzM\x01\0\0\0");
    assert_eq!(
        [8, 16, 24, 32, 40].map(|at| bytes.word(at)),
        [8_192, SLOTS as u64, 262_144, NAMES as u64, 16 * MIB]
    );
    assert_eq!((bytes.at(48), bytes.at(64), bytes.word(80), bytes.word(88)), ([1; 16], [2; 16], 3, 4));
    assert_eq!(bytes.name(96, 4_092), "n1");

    let word = |number: usize| bytes.word(PAGE + 8 * number);
    // Eight bytes, unit and name, then zeros up to a multiple of eight.
    let lengths = [24, 32];
    assert_eq!([0, 1, 2, 3].map(word), [2, 56, 0, std::process::id().into()]);
    assert!(word(4) > 0, "it has started");
    let group = |number: usize| [0, 8, 16, 24].map(|at| bytes.word(8_192 + 64 * number + at));
    assert_eq!(group(2), [2, 70, -5i64 as u64, 1]);
    assert_eq!(group(63), [4, 90, -6i64 as u64, 2]);
    assert_eq!(group(0), [0; 4]);
    let slot = |number: usize| [0, 8].map(|at| bytes.word(SLOTS + 16 * number + at));
    assert_eq!(slot(0), [52, 2 << 8 | 2 << 16]);
    assert_eq!(slot(1), [u64::MAX, 63 << 8]);
    let mut at = NAMES;
    for (name, length) in names.iter().zip(lengths) {
        let kind = u8::from(name.kind == Kind::Gauge);
        let head = [
            length as u8,
            0,
            name.group,
            kind,
            name.format.places,
            name.unit.len() as u8,
            name.name.len() as u8,
            0,
        ];
        assert_eq!(bytes.at(at), head, "{}", name.name);
        let text = format!("{}{}", name.unit, name.name);
        let (said, zeros) = bytes.0[at + 8..at + length].split_at(text.len());
        assert!(said == text.as_bytes() && zeros.iter().all(|&byte| byte == 0), "{}", name.name);
        at += length;
    }
}
