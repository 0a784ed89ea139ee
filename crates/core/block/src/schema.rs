//! The meaning of a lane's slots, as bytes that only grow: each new series is written once, and the bytes
//! are read in pieces of any size. Every text and count from outside has its limit here. It does not check
//! whether a series appears twice.

mod decode;
mod encode;
mod fields;
mod labels;
mod metric;
mod pool;

pub use decode::SchemaDecoder;
pub use encode::SchemaEncoder;
pub use khz_model::schema::SLOTS_MAX;
pub use pool::MetricPool;

/// The largest schema: 64 bytes for each slot of the largest one.
pub const SCHEMA_BYTES_MAX: usize = 16 << 20;
/// The largest body of a record. A decoder keeps at most one unfinished record.
pub const RECORD_BYTES_MAX: usize = 16 << 10;
/// The most metrics in one schema: the catalogue has some hundreds.
pub const METRICS_MAX: usize = 16_384;
/// The largest text of a metric that is neither its name nor the name of a label: help, origin, label values.
pub const TEXT_BYTES_MAX: usize = 2_048;
/// The most fixed labels of one metric's exposition.
pub const FIXED_LABELS_MAX: usize = 16;
/// The largest instance without labels: a kernel's name of 255 bytes, each of which may be written as `\xFF`.
pub const INSTANCE_BYTES_MAX: usize = khz_model::name::INSTANCE_MAX * 4;

/// Magic, version, three bytes of zeros.
const HEADER: [u8; 8] = *b"khzS\x01\0\0\0";
const VERSION: u8 = HEADER[4];
/// Kind bytes of records.
const METRIC: u8 = 1;
const SLOT: u8 = 2;
/// A metric whose values are not unsigned: a byte for the type of its values, then the body of a metric. An
/// older reader skips it, and refuses the slot that needs it: it never shows a number as another one.
const TYPED_METRIC: u8 = 3;
/// A refresh of this many nanoseconds means that the number never changes; 0 means that any event may change
/// it.
const CONSTANT: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use khz_model::name::METRIC_NAME_MAX;
    use khz_model::{Instance, Labels, Metric, Series, ValueType};
    use proptest::prelude::*;

    use super::fields::Fields;
    use super::*;
    use crate::{BlockError, varint};

    #[test]
    fn the_limits_are_those_of_the_document() {
        let text = include_str!("../../../../docs/block.md");
        for (limit, value) in [
            ("bytes of a schema", format!("{} MiB", SCHEMA_BYTES_MAX >> 20)),
            ("slots", with_commas(SLOTS_MAX)),
            ("metrics", with_commas(METRICS_MAX)),
            ("body of a record", format!("{} KiB", RECORD_BYTES_MAX >> 10)),
            ("name, flat name and other words", format!("{METRIC_NAME_MAX} bytes")),
            ("help, origin, label values", format!("{} bytes", with_commas(TEXT_BYTES_MAX))),
            ("labels of a metric", with_commas(FIXED_LABELS_MAX)),
            ("instance without labels", format!("{} bytes", with_commas(INSTANCE_BYTES_MAX))),
            ("labels of an instance, or of a reading", format!("{}, with ", khz_model::labels::LABELS_MAX)),
        ] {
            let line = format!("| {limit} | {value}");
            assert!(text.contains(&line), "docs/block.md does not say: {line}");
        }
    }

    fn with_commas(number: usize) -> String {
        match number {
            0..1_000 => number.to_string(),
            _ => format!("{},{:03}", with_commas(number / 1_000), number % 1_000),
        }
    }

    /// The real catalogue, for a node with some CPUs, interfaces and disks.
    fn node() -> Vec<Series> {
        let mut series = Vec::new();
        for metric in khz_parse::catalogue() {
            let names: &[&[u8]] = match metric.instances.as_deref() {
                None => {
                    series.push(Series { metric, instance: None });
                    continue;
                }
                Some("cpu") => &[b"0", b"1", b"127"],
                _ => &[b"eth0", b"a[b]:c*/d%", b"bad\xff\xfe", &[0xff; 255], b"%25"],
            };
            series.extend(
                names.iter().map(|name| Series {
                    metric: metric.clone(),
                    instance: Some(Instance::from_kernel(name)),
                }),
            );
        }
        series
    }

    fn encode(series: &[Series]) -> Vec<u8> {
        let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
        for series in series {
            encoder.append(series, &mut bytes).unwrap();
        }
        assert_eq!((encoder.len(), encoder.bytes()), (series.len(), bytes.len() as u64));
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Vec<Series>, BlockError> {
        let mut decoder = SchemaDecoder::new();
        decoder.feed(bytes)?;
        assert_eq!(decoder.bytes(), bytes.len() as u64);
        Ok(decoder.series().to_vec())
    }

    /// Compares every field; `Series` itself compares only names.
    fn assert_same(found: &[Series], expected: &[Series]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!((&found.metric, &found.instance), (&expected.metric, &expected.instance));
        }
    }

    /// The bytes of a schema with one metric, which has this body, and one slot of it.
    fn with_metric_body(body: &[u8]) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        record(METRIC, body, &mut bytes);
        record(SLOT, &[0, 0], &mut bytes);
        bytes
    }

    fn record(kind: u8, body: &[u8], out: &mut Vec<u8>) {
        out.push(kind);
        varint::put(out, body.len() as u64);
        out.extend_from_slice(body);
    }

    fn body_of(metric: &Metric) -> Vec<u8> {
        let mut body = Vec::new();
        metric::put(&mut body, metric);
        body
    }

    fn some_metric() -> Metric {
        (*khz_parse::catalogue()[0]).clone()
    }

    #[test]
    fn the_catalogue_survives_the_way_to_bytes_and_back() {
        let series = node();
        assert!(series.len() > 300);
        assert_same(&decode(&encode(&series)).unwrap(), &series);
    }

    #[test]
    fn equal_metrics_are_one() {
        let bytes = encode(&node());
        // Metrics of the catalogue itself live as long as the program.
        let copies = khz_parse::catalogue().into_iter().map(|metric| Arc::new((*metric).clone()));
        let mut pool: MetricPool = copies.collect();
        let count = pool.len();
        let (mut one, mut two) = (SchemaDecoder::new(), SchemaDecoder::new());
        one.feed_sharing(&bytes, &mut pool).unwrap();
        two.feed_sharing(&bytes, &mut pool).unwrap();
        assert_eq!(pool.len(), count);
        for (one, two) in one.series().iter().zip(two.series()) {
            assert!(Arc::ptr_eq(&one.metric, &two.metric));
        }
        drop((one, two));
        pool.forget_unused();
        assert!(pool.is_empty());
    }

    #[test]
    fn an_older_hub_shows_a_newer_agents_metric() {
        let metric = some_metric();
        let mut body = body_of(&metric);
        // Six texts precede kind, unit and places.
        let texts = [&metric.name, &metric.flat, &metric.help, &metric.origin.file, &metric.origin.field];
        let at = texts.iter().map(|text| text.len() + varint::length(text.len() as u64)).sum::<usize>()
            + 1
            + metric.instances.as_ref().map_or(0, |word| word.len());
        body[at] = 77;
        body[at + 1] = 200;
        body[at + 2] = 255;
        fields::put_text(&mut body, "some.labels");
        body.extend_from_slice(b"a field of a later version");
        let mut bytes = HEADER.to_vec();
        record(9, b"a record of a later version", &mut bytes);
        record(METRIC, &body, &mut bytes);
        record(200, b"", &mut bytes);
        record(SLOT, b"\x00\x01\x05shown\x04eth0\x00 and more", &mut bytes);
        let series = decode(&bytes).unwrap();
        assert_eq!(series.len(), 1);
        assert_eq!(series[0].to_string(), format!("{}[eth0]", metric.name));
        let found = &series[0].metric;
        assert_eq!((found.kind, found.unit), (khz_model::Kind::Gauge, khz_model::Unit::Count));
        assert_eq!((found.places, &found.help), (khz_model::decimal::PLACES_MAX, &metric.help));
        assert_eq!(found.labels_from.as_deref(), Some("some.labels"));
    }

    /// A metric of each type, one with labels that change, and instances with labels.
    fn typed() -> Vec<Series> {
        let types = [ValueType::Signed, ValueType::Unsigned, ValueType::Float, ValueType::Labels];
        let instances = [
            None,
            Some(labelled("mlx5_0", &[("port", "1"), ("net", "a,b=c")])),
            Some(labelled("", &[("port", "2")])),
            Some(labelled("\u{ff}=", &[("a", "\n"), ("b", &"é".repeat(1_000))])),
            Some(labelled(&"\u{fe}".repeat(127), &[("b", &"é".repeat(1_000))])),
        ];
        let mut series = Vec::new();
        for (value_type, metric) in types.into_iter().zip(khz_parse::catalogue()) {
            let labels_from = (value_type == ValueType::Signed).then(|| "top.labels".into());
            let metric = Arc::new(Metric { value_type, labels_from, ..(*metric).clone() });
            series.extend(
                instances
                    .iter()
                    .map(|instance| Series { metric: metric.clone(), instance: instance.clone() }),
            );
        }
        series
    }

    fn labelled(name: &str, labels: &[(&str, &str)]) -> Instance {
        Instance::from_kernel(name.as_bytes()).with_labels(&set(labels))
    }

    fn set(labels: &[(&str, &str)]) -> Labels {
        Labels::new(labels.iter().copied()).unwrap()
    }

    #[test]
    fn types_and_labels_survive_the_way_to_bytes_and_back() {
        let series = typed();
        assert_same(&decode(&encode(&series)).unwrap(), &series);
    }

    /// How the first version of the program reads the bytes: it knows two kinds of records, and only the
    /// metric and one name of a slot.
    fn read_by_the_first_version(bytes: &[u8]) -> Result<Vec<String>, String> {
        let (mut metrics, mut names, mut rest) = (Vec::new(), Vec::new(), &bytes[HEADER.len()..]);
        while let Some((&kind, after)) = rest.split_first() {
            let (length, after) = varint::get(after).unwrap();
            let (body, after) = after.split_at(length as usize);
            let mut fields = Fields::new(body, 0);
            match kind {
                METRIC => metrics.push(fields.text(999, "").unwrap().to_owned()),
                SLOT => {
                    let number = fields.number().unwrap() as usize;
                    let metric = metrics.get(number).ok_or_else(|| format!("metric {number} is unknown"))?;
                    let has_instance = fields.byte().unwrap() == 1;
                    let name = if has_instance { fields.text(1_020, "").unwrap() } else { "" };
                    names.push(format!("{metric}[{name}]"));
                }
                _ => {}
            }
            rest = after;
        }
        Ok(names)
    }

    #[test]
    fn the_first_version_shows_labels_as_one_name_and_refuses_values_that_it_cannot_read() {
        let series = typed();
        let plain: Vec<Series> = series[5..10].to_vec();
        let name = &plain[0].metric.name;
        let shown = read_by_the_first_version(&encode(&plain)).unwrap();
        assert_eq!(
            shown[..3],
            [format!("{name}[]"), format!("{name}[mlx5_0,net=a,b=c,port=1]"), format!("{name}[port=2]")]
        );
        assert!(shown[3..].iter().all(|shown| shown.len() > 1_000));
        for typed in [&series[0], &series[10], &series[15]] {
            let mixed = [plain[0].clone(), typed.clone(), plain[1].clone()];
            assert_eq!(read_by_the_first_version(&encode(&mixed)), Err("metric 1 is unknown".into()));
        }
    }

    #[test]
    fn labels_from_outside_have_their_limits() {
        let with_set = |labels: &[u8]| {
            let mut bytes = with_metric_body(&body_of(&some_metric()));
            record(SLOT, &[&b"\0\x01\x05shown\0"[..], labels].concat(), &mut bytes);
            SchemaDecoder::new().feed(&bytes)
        };
        let mut many = Vec::new();
        let names: Vec<String> = (0..65).map(|number| format!("l{number}")).collect();
        labels::put(&mut many, names.iter().map(|name| (name.as_str(), "v")));
        assert!(matches!(with_set(&many), Err(BlockError::TooMuch { what: "labels of a series", .. })));
        let long = "v".repeat(khz_model::labels::LABELS_BYTES_MAX);
        for pairs in [&[("a", "1"), ("a", "2")][..], &[("1", "a")], &[("a", "b\0c")], &[("a", long.as_str())]]
        {
            let mut body = Vec::new();
            labels::put(&mut body, pairs.iter().copied());
            assert!(matches!(with_set(&body), Err(BlockError::Damaged { .. })), "{pairs:?}");
        }
    }

    #[test]
    fn names_that_could_be_taken_for_something_else_are_refused() {
        let fit = some_metric();
        assert!(decode(&with_metric_body(&body_of(&fit))).is_ok());
        let cases: [fn(&mut Metric); 7] = [
            |m| m.name = "../etc/passwd".into(),
            |m| m.flat = "two words".into(),
            |m| m.help = "two\nlines".into(),
            |m| m.exposition.name = "up 1\nother".into(),
            |m| m.exposition.name = "".into(),
            |m| m.exposition.instance_label = Some("a=\"b\"".into()),
            |m| m.exposition.labels = vec![("".into(), "x".into())].into(),
        ];
        for (number, damage) in cases.into_iter().enumerate() {
            let mut metric = fit.clone();
            damage(&mut metric);
            let refused = decode(&with_metric_body(&body_of(&metric)));
            assert!(matches!(refused, Err(BlockError::Damaged { .. })), "case {number}: {refused:?}");
            let series = Series { metric: Arc::new(metric), instance: None };
            let mut out = Vec::new();
            assert!(SchemaEncoder::new().append(&series, &mut out).is_err() && out.is_empty());
        }
    }

    #[test]
    fn every_limit_holds() {
        let refused = |bytes: &[u8], what: &str| match SchemaDecoder::new().feed(bytes) {
            Err(BlockError::TooMuch { what: found, .. }) => assert_eq!(found, what),
            other => panic!("{what}: {other:?}"),
        };
        let body = body_of(&some_metric());
        let mut bytes = with_metric_body(&body);
        let mut slots = bytes.clone();
        (0..SLOTS_MAX).for_each(|_| record(SLOT, &[0, 0], &mut slots));
        refused(&slots, "slots");
        let mut metrics = bytes.clone();
        (0..METRICS_MAX).for_each(|_| record(METRIC, &body, &mut metrics));
        refused(&metrics, "metrics");
        let mut long = some_metric();
        long.help = "x".repeat(TEXT_BYTES_MAX + 1).into();
        refused(&with_metric_body(&body_of(&long)), "bytes in a text of the schema");
        long.help = "".into();
        long.exposition.labels = vec![("a".into(), "b".into()); FIXED_LABELS_MAX + 1].into();
        refused(&with_metric_body(&body_of(&long)), "labels of one metric");
        let mut instance = vec![0, 1];
        fields::put_text(&mut instance, &"x".repeat(INSTANCE_BYTES_MAX + 1));
        let mut instances = bytes.clone();
        record(SLOT, &instance, &mut instances);
        refused(&instances, "bytes in an instance");
        let mut endless = bytes.clone();
        endless.push(9);
        varint::put(&mut endless, RECORD_BYTES_MAX as u64 + 1);
        refused(&endless, "bytes in a record");
        while bytes.len() <= SCHEMA_BYTES_MAX {
            record(9, &[0; RECORD_BYTES_MAX], &mut bytes);
        }
        refused(&bytes, "bytes of schema");
    }

    #[test]
    fn a_broken_schema_stays_broken() {
        let mut decoder = SchemaDecoder::new();
        let error = decoder.feed(b"khzS\x02\0\0\0").unwrap_err();
        assert_eq!(error, BlockError::UnknownSchemaVersion { version: 2 });
        assert_eq!(decoder.feed(b"khzS\x01\0\0\0"), Err(error));
        let never = [&HEADER[..], &[9], &[0xff; 11]].concat();
        assert!(SchemaDecoder::new().feed(&never).is_err());
    }

    #[test]
    fn the_bytes_of_version_1_stay() {
        let metric = Arc::new(Metric {
            name: "net.rx_bytes".into(),
            kind: khz_model::Kind::Counter,
            unit: khz_model::Unit::Bytes,
            value_type: khz_model::ValueType::Unsigned,
            labels_from: None,
            places: 0,
            max: Some(299),
            refresh: khz_model::Refresh::Every(khz_model::Nanos(1_000)),
            help: "Received.".into(),
            origin: khz_model::Origin { file: "net/dev".into(), field: "bytes".into() },
            instances: Some("device".into()),
            exposition: khz_model::Exposition {
                name: "node_rx".into(),
                help: None,
                labels: vec![("a".into(), "b".into())].into(),
                instance_label: Some("device".into()),
                divisor: 1,
                untyped: false,
            },
            flat: "rxbytes".into(),
        });
        let slot = |name: &str| Series {
            metric: metric.clone(),
            instance: Some(Instance::from_kernel(name.as_bytes())),
        };
        let expected = b"khzS\x01\0\0\0\x01\x52\
            \x0cnet.rx_bytes\x07rxbytes\x09Received.\x07net/dev\x05bytes\x06device\
            \x01\x02\x00\xe8\x07\xac\x02\x07node_rx\x00\x06device\x01\x01a\x01b\x01\x00\
            \x02\x05\x00\x01\x02lo\x02\x07\x00\x01\x04eth0";
        let bytes = encode(&[slot("lo"), slot("eth0")]);
        assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    proptest! {
        #[test]
        fn any_split_says_the_same(cuts in prop::collection::vec(1usize..3_000, 1..60)) {
            let series = [node(), typed()].concat();
            let bytes = encode(&series);
            let (mut decoder, mut rest) = (SchemaDecoder::new(), &bytes[..]);
            for cut in cuts.into_iter().cycle() {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                decoder.feed(piece).unwrap();
                rest = more;
                prop_assert_eq!(decoder.bytes() as usize, bytes.len() - rest.len());
                if rest.is_empty() {
                    break;
                }
            }
            assert_same(decoder.series(), &series);
        }

        #[test]
        fn damaged_bytes_never_panic(hits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6), cut in 1usize..500) {
            let mut bytes = encode(&[node(), typed()].concat());
            for (at, byte) in hits {
                // The first kilobytes contain metrics and slots of every kind.
                let at = at % bytes.len().min(4_096);
                bytes[at] = byte;
            }
            let mut decoder = SchemaDecoder::new();
            for piece in bytes.chunks(cut) {
                let result = decoder.feed(piece);
                prop_assert!(decoder.unfinished().len() <= RECORD_BYTES_MAX + 1 + varint::BYTES_MAX);
                if let Err(error) = result {
                    prop_assert!(!error.to_string().is_empty());
                    break;
                }
            }
            prop_assert!(decoder.series().len() <= bytes.len() / 4);
        }
    }
}
