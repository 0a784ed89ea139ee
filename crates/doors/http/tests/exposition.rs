//! `/metrics` in both formats, compared with the expected text, promtool, and the rules of OpenMetrics.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use fake::{FakeNode, Server, metric, node, stamp, with_instances};
use khz_http::{Format, render};
use khz_model::{Instance, Kind, Metric, Nanos, Reading, Sample, Series, Snapshot, Unit, ValueType};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";

const TEXT: &str = r#"# HELP node_cpu_seconds_total What the kernel says of cpu.user.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="user"} 12.34
node_cpu_seconds_total{cpu="0",mode="idle"} 12.34
node_cpu_seconds_total{cpu="1",mode="user"} 12.34
node_cpu_seconds_total{cpu="1",mode="idle"} 12.34
# HELP node_network_receive_bytes_total What the kernel says of net.rx_bytes.
# TYPE node_network_receive_bytes_total counter
node_network_receive_bytes_total{device="eth0"} 123
node_network_receive_bytes_total{device="a\"b\\c\nd:[*]"} 123
# HELP node_load1 What the kernel says of load.1m.
# TYPE node_load1 gauge
node_load1 12.34
# HELP node_vmstat_pgpgin What the kernel says of vm.page_in_bytes.
# TYPE node_vmstat_pgpgin untyped
node_vmstat_pgpgin 1.205078125
# HELP node_memory_MemTotal_bytes What the kernel says of mem.total.
# TYPE node_memory_MemTotal_bytes gauge
node_memory_MemTotal_bytes 16777216000
# HELP node_context_switches_total What the kernel says of context_switches.
# TYPE node_context_switches_total counter
node_context_switches_total 18446744072709552849
# HELP node_time_seconds The node's wall clock when its newest row was gathered, in seconds since 1970.
# TYPE node_time_seconds gauge
node_time_seconds 1763690000.000001234
"#;

#[test]
fn families_stand_together_and_the_unknown_is_left_out() {
    let node = Arc::new(FakeNode::default());
    let server = Server::start(Arc::clone(&node));
    let answer = server.get("/metrics");
    assert_eq!(answer.body, TEXT);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(answer.headers["content-length"], TEXT.len().to_string(), "known, so not chunked");
    assert_eq!(*node.ages.lock().unwrap(), [Nanos::from_micros(100)], "asked once, no older than the window");
}

#[test]
fn open_metrics_names_families_without_total_and_ends() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let answer = server.ask("GET", "/metrics", &[("Accept", OPEN_METRICS)]);
    assert_eq!(answer.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    for part in [
        "# TYPE node_cpu_seconds counter\n# UNIT node_cpu_seconds seconds\nnode_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 12.34\n",
        "# TYPE node_vmstat_pgpgin unknown\nnode_vmstat_pgpgin 1.205078125\n",
        "# TYPE node_memory_MemTotal_bytes gauge\n# UNIT node_memory_MemTotal_bytes bytes\n",
    ] {
        assert!(answer.body.contains(part), "{part} in {}", answer.body);
    }
    check_open_metrics(&answer.body).unwrap();
}

#[test]
fn a_counter_whose_bare_name_is_taken_is_no_counter_in_open_metrics() {
    let sample = |metric: Metric| Sample {
        series: Series { metric: Arc::new(metric), instance: None },
        reading: Reading::Present(1),
        stamp: stamp(0),
    };
    let samples = vec![
        sample(metric("a.total", Kind::Counter, Unit::Count, "a_total")),
        sample(metric("a.now", Kind::Gauge, Unit::Count, "a")),
        sample(metric("b", Kind::Counter, Unit::Count, "node_intr")),
    ];
    let text = render(
        &Snapshot { nodes: vec![(node(), samples)], missing: vec![] },
        Format::OpenMetrics,
        Some("node"),
    );
    check_open_metrics(&text).unwrap();
    assert!(text.contains("# TYPE a_total unknown\na_total{instance=\"n1\",job=\"node\"} 1\n"), "{text}");
    assert!(text.contains("# TYPE node_intr unknown\n"), "{text}");
}

#[test]
fn values_below_zero_doubles_labels_and_descriptions_are_exposed() {
    let labels = |pairs: &[(&str, &str)]| khz_model::Labels::new(pairs.iter().copied()).unwrap();
    let of = |value_type, metric: Metric| Arc::new(Metric { value_type, ..metric });
    let port = Instance::from_kernel(b"mlx5_0").with_labels(&labels(&[("port", "1"), ("device", "taken")]));
    let device =
        with_instances(metric("ib.rx", Kind::Counter, Unit::Bytes, "node_ib_rx_bytes_total"), "device");
    let uname = labels(&[("release", "6.18\"x\\"), ("nodename", "n1"), ("node", "0"), ("job", "taken")]);
    let nan = f64::NAN.to_bits();
    let samples = [
        (
            of(ValueType::Signed, metric("temp", Kind::Gauge, Unit::Count, "node_temp")),
            None,
            Reading::Present((-5i64).cast_unsigned()),
        ),
        (
            of(ValueType::Float, metric("mean", Kind::Gauge, Unit::Count, "node_mean")),
            None,
            Reading::Present((-2.5e-9f64).to_bits()),
        ),
        (
            of(ValueType::Float, metric("nan", Kind::Gauge, Unit::Count, "node_nan")),
            None,
            Reading::Present(nan),
        ),
        (Arc::new(device.clone()), Some(port), Reading::Present(7)),
        (
            Arc::new(device),
            Some(Instance::from_kernel(b"").with_labels(&labels(&[("port", "2")]))),
            Reading::Present(8),
        ),
        (
            of(ValueType::Labels, metric("uname", Kind::Gauge, Unit::Count, "node_uname_info")),
            None,
            Reading::Labels(uname.number()),
        ),
        (
            of(ValueType::Labels, metric("gone", Kind::Gauge, Unit::Count, "node_gone_info")),
            None,
            Reading::Labels(1),
        ),
        (
            of(ValueType::Unknown, metric("newer", Kind::Gauge, Unit::Count, "node_newer")),
            None,
            Reading::Present(1),
        ),
    ];
    let samples = samples.map(|(metric, instance, reading)| Sample {
        series: Series { metric, instance },
        reading,
        stamp: stamp(0),
    });
    let snapshot = Snapshot { nodes: vec![(node(), samples.to_vec())], missing: vec![] };
    let text = render(&snapshot, Format::Text, Some("node"));
    for line in [
        "node_temp{instance=\"n1\",job=\"node\"} -5\n",
        "node_mean{instance=\"n1\",job=\"node\"} -2.5e-9\n",
        "node_nan{instance=\"n1\",job=\"node\"} NaN\n",
        "node_ib_rx_bytes_total{instance=\"n1\",job=\"node\",device=\"mlx5_0\",port=\"1\"} 7\n",
        "node_ib_rx_bytes_total{instance=\"n1\",job=\"node\",port=\"2\"} 8\n",
        "node_uname_info{instance=\"n1\",job=\"node\",exported_job=\"taken\",node=\"0\",nodename=\"n1\",release=\"6.18\\\"x\\\\\"} 1\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("gone") && !text.contains("newer"), "{text}");
    assert_eq!(promtool(&text), Vec::<String>::new());
    check_open_metrics(&render(&snapshot, Format::OpenMetrics, Some("node"))).unwrap();
}

#[test]
fn a_ranked_series_has_the_labels_of_the_process_that_is_in_its_slot_now() {
    let of = |value_type, metric: Metric| Arc::new(Metric { value_type, ..with_instances(metric, "rank") });
    let share = of(ValueType::Unsigned, metric("top.cpu", Kind::Gauge, Unit::Count, "khz_top_cpu"));
    let share = Arc::new(Metric { labels_from: Some("top.process".into()), ..(*share).clone() });
    let process =
        of(ValueType::Labels, metric("top.process", Kind::Gauge, Unit::Count, "khz_top_process_info"));
    let labels = |pid: &str, rank: &str| {
        let labels = khz_model::Labels::new([("pid", pid), ("command", "cc \"1\""), ("rank", rank)]).unwrap();
        // Somebody holds them as long as they are shown.
        (Reading::Labels(labels.number()), labels)
    };
    let [(gcc, _gcc), (ld, _ld)] = [labels("17", "99"), labels("23", "99")];
    let samples = |first: Reading, second: Reading| {
        let ranks = ["1", "2"].map(|rank| Some(Instance::from_kernel(rank.as_bytes())));
        let series = [(&share, 0), (&share, 1), (&process, 0), (&process, 1)];
        let series =
            series.map(|(metric, rank)| Series { metric: metric.clone(), instance: ranks[rank].clone() });
        let readings = [Reading::Present(90), Reading::Present(10), first, second];
        let samples = series.into_iter().zip(readings);
        samples.map(|(series, reading)| Sample { series, reading, stamp: stamp(0) }).collect::<Vec<_>>()
    };
    let gone = Reading::Absent(khz_model::Absence::InstanceGone);
    let other = khz_model::NodeName::new("n2").unwrap();
    let nodes = vec![(node(), samples(gcc, ld)), (other, samples(ld, gone))];
    let snapshot = Snapshot { nodes, missing: vec![] };
    let text = render(&snapshot, Format::Text, Some("node"));
    for line in [
        // A label that the description shares with the series is the series' own.
        "khz_top_cpu{instance=\"n1\",job=\"node\",rank=\"1\",command=\"cc \\\"1\\\"\",pid=\"17\"} 90\n",
        "khz_top_cpu{instance=\"n1\",job=\"node\",rank=\"2\",command=\"cc \\\"1\\\"\",pid=\"23\"} 10\n",
        "khz_top_cpu{instance=\"n2\",job=\"node\",rank=\"1\",command=\"cc \\\"1\\\"\",pid=\"23\"} 90\n",
        // Nobody knows what is in this slot: unknown is not the last one.
        "khz_top_cpu{instance=\"n2\",job=\"node\",rank=\"2\"} 10\n",
        "khz_top_process_info{instance=\"n1\",job=\"node\",rank=\"2\",command=\"cc \\\"1\\\"\",pid=\"23\"} 1\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert_eq!(promtool(&text), Vec::<String>::new());
    check_open_metrics(&render(&snapshot, Format::OpenMetrics, Some("node"))).unwrap();
    // One node alone, without the labels of its identity.
    let alone = Snapshot { nodes: vec![(node(), samples(ld, gcc))], missing: vec![] };
    let text = render(&alone, Format::Text, None);
    assert!(text.contains("khz_top_cpu{rank=\"1\",command=\"cc \\\"1\\\"\",pid=\"23\"} 90\n"), "{text}");
}

/// node_exporter itself uses these names; promtool would prefer others, but compatibility comes first.
fn is_node_exporters_own(complaint: &str) -> bool {
    complaint.starts_with("node_memory_")
        && complaint.ends_with("should be written in 'snake_case' not 'camelCase'")
}

#[test]
fn promtool_is_content() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let text = server.get("/metrics").body;
    let complaints = promtool(&text);
    assert!(complaints.iter().all(|line| is_node_exporters_own(line)), "{complaints:#?}");
}

#[test]
fn promtool_is_content_with_the_doors_own_numbers() {
    let samples = khz_http::Counters::default().metrics().into_iter().map(|(metric, _)| Sample {
        series: Series { metric: Arc::new(metric), instance: None },
        reading: Reading::Present(1),
        stamp: stamp(0),
    });
    let snapshot = Snapshot { nodes: vec![(node(), samples.collect())], missing: vec![] };
    assert_eq!(promtool(&render(&snapshot, Format::Text, None)), Vec::<String>::new());
    check_open_metrics(&render(&snapshot, Format::OpenMetrics, None)).unwrap();
}

/// The complaints of `promtool check metrics`, one for each line.
fn promtool(text: &str) -> Vec<String> {
    let spawned = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            khz_skip::skip("promtool is not installed (Debian package prometheus)");
            return Vec::new();
        }
        Err(error) => panic!("promtool: {error}"),
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let lines = [output.stdout, output.stderr].concat();
    let lines: Vec<String> = String::from_utf8_lossy(&lines).lines().map(str::to_owned).collect();
    assert!(matches!(output.status.code(), Some(0 | 3)), "it could not be parsed: {lines:#?}");
    lines
}

/// Checks OpenMetrics 1.0 as far as we use it: order of lines, names, suffixes, units, escapes, values, the
/// end.
fn check_open_metrics(text: &str) -> Result<(), String> {
    let body = text.strip_suffix("# EOF\n").ok_or("no # EOF at the end")?;
    let mut families: BTreeMap<&str, &str> = BTreeMap::new();
    let mut samples = BTreeSet::new();
    let (mut family, mut told, mut sampled) = ("", BTreeSet::new(), false);
    for line in body.lines() {
        let wrong = |why: &str| format!("{why}: {line}");
        if let Some(comment) = line.strip_prefix("# ") {
            let (what, rest) = comment.split_once(' ').ok_or_else(|| wrong("bare comment"))?;
            let (name, value) = rest.split_once(' ').ok_or_else(|| wrong("no value"))?;
            if name != family {
                (family, told, sampled) = (name, BTreeSet::new(), false);
                if families.insert(name, "unknown").is_some() {
                    return Err(wrong("the family is in two places"));
                }
            }
            if sampled || !told.insert(what) || !is_name(name) {
                return Err(wrong("metadata twice, after samples, or with a bad name"));
            }
            match what {
                "HELP" => unescaped(value).map(drop).ok_or_else(|| wrong("bad escape"))?,
                "TYPE" if ["counter", "gauge", "unknown"].contains(&value) => {
                    families.insert(name, value);
                }
                "UNIT" if name.ends_with(&format!("_{value}")) => {}
                _ => return Err(wrong("unknown comment, type or unit")),
            }
            continue;
        }
        sampled = true;
        let suffix = if families.get(family) == Some(&"counter") { "_total" } else { "" };
        let rest = line.strip_prefix(family).and_then(|rest| rest.strip_prefix(suffix));
        let rest = rest.ok_or_else(|| wrong("the sample is not of the family above it"))?;
        let (labels, value) = rest.rsplit_once(' ').ok_or_else(|| wrong("no value"))?;
        check_labels(labels).ok_or_else(|| wrong("bad labels"))?;
        if value.parse::<f64>().is_err() {
            return Err(wrong("bad value"));
        }
        if !samples.insert(line.rsplit_once(' ').unwrap().0) {
            return Err(wrong("the sample is there twice"));
        }
    }
    // A family must not have the name of another family's sample.
    let clash = families
        .iter()
        .find(|(name, kind)| **kind == "counter" && families.contains_key(format!("{name}_total").as_str()));
    clash.map_or(Ok(()), |(name, _)| Err(format!("{name} clashes")))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// `{a="b",c="d"}` or nothing.
fn check_labels(labels: &str) -> Option<()> {
    if labels.is_empty() {
        return Some(());
    }
    let mut rest = labels.strip_prefix('{')?.strip_suffix('}')?;
    loop {
        let (name, value) = rest.split_once("=\"")?;
        let mut escaped = false;
        let end = value.char_indices().find(|&(_, c)| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        unescaped(&value[..end.0]).filter(|_| is_name(name))?;
        rest = &value[end.0 + 1..];
        if rest.is_empty() {
            return Some(());
        }
        rest = rest.strip_prefix(',')?;
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'n' => '\n',
                same @ ('\\' | '"') => same,
                _ => return None,
            },
            '"' => return None,
            other => other,
        });
    }
    Some(out)
}

#[test]
fn the_checker_itself_refuses_what_is_wrong() {
    for text in [
        "",
        "# TYPE a gauge\na 1\n",
        "# TYPE a_total counter\na_total 1\n# EOF\n",
        "# TYPE a counter\na 1\n# EOF\n",
        "# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n",
        "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\na 2\n# EOF\n",
        "# TYPE a gauge\na{x=\"\"\"} 1\n# EOF\n",
        "# TYPE a gauge\na 1\na 2\n# EOF\n",
    ] {
        assert!(check_open_metrics(text).is_err(), "{text}");
    }
}

#[test]
fn a_scrape_may_ask_for_some_collectors_in_node_exporters_words() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let families = |query: &str| {
        let answer = server.get(&format!("/metrics?{query}"));
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        let samples = answer.body.lines().filter(|line| !line.starts_with('#'));
        let names: BTreeSet<String> =
            samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect();
        names.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(families("collect[]=cpu"), "node_cpu_seconds_total");
    assert_eq!(
        families("collect%5B%5D=loadavg&collect[]=netdev"),
        "node_load1 node_network_receive_bytes_total"
    );
    assert_eq!(families("collect[]=meminfo&node=n1"), "node_memory_MemTotal_bytes");
    assert_eq!(families("collect[]=jobs"), "", "known, and nothing is there");
    let unknown = server.get("/metrics?collect[]=cpu&collect[]=systemd");
    assert_eq!(unknown.status, 400);
    assert!(
        unknown.body.contains("no collector 'systemd'; there are arp, bcache, bcachefs, bonding, btrfs, cpu"),
        "{}",
        unknown.body
    );
    let hub = Server::start(Arc::new(FakeNode { own: Some(Vec::new()), ..FakeNode::many(2) }));
    assert_eq!(hub.get("/metrics?collect[]=cpu").body, "", "its nodes are asked for by name");
    assert!(hub.get("/metrics?collect[]=cpu&node=n1").body.contains("node_cpu_seconds_total"));
}

#[test]
fn a_label_comes_once_and_those_that_identify_a_node_are_renamed_as_prometheus_does() {
    let labels = |pairs: &[(&str, &str)]| khz_model::Labels::new(pairs.iter().copied()).unwrap();
    let numbered = |metric: &Arc<Metric>, name: &str, pairs| Sample {
        series: Series {
            metric: metric.clone(),
            instance: Some(Instance::from_kernel(name.as_bytes()).with_labels(&labels(pairs))),
        },
        reading: Reading::Present(1),
        stamp: stamp(0),
    };
    // The word of a text source, and of a peer that chooses its own.
    let queue = with_instances(metric("queue", Kind::Gauge, Unit::Count, "queue"), "instance");
    let queue = Arc::new(queue);
    let top = with_instances(metric("top", Kind::Gauge, Unit::Count, "top"), "rank");
    let top = Arc::new(Metric { value_type: ValueType::Labels, ..top });
    let says = Reading::Labels(labels(&[("pid", "7"), ("rank", "9"), ("who", "b")]).number());
    let samples = vec![
        numbered(&queue, "x", &[]),
        numbered(&queue, "y", &[("exported_instance", "z"), ("job", "mine")]),
        Sample { reading: says, ..numbered(&top, "1", &[("who", "a")]) },
    ];
    let snapshot = Snapshot { nodes: vec![(node(), samples)], missing: vec![] };
    let all = render(&snapshot, Format::Text, Some("node"));
    for line in [
        "queue{instance=\"n1\",job=\"node\",exported_instance=\"x\"} 1\n",
        "queue{instance=\"n1\",job=\"node\",exported_instance=\"y\",exported_job=\"mine\"} 1\n",
        "top{instance=\"n1\",job=\"node\",rank=\"1\",who=\"a\",pid=\"7\"} 1\n",
    ] {
        assert!(all.contains(line), "{line} in {all}");
    }
    assert_eq!(promtool(&all), Vec::<String>::new());
    // Scraped alone, Prometheus renames them itself.
    let alone = render(&snapshot, Format::Text, None);
    assert!(alone.contains("queue{instance=\"x\"} 1\n"), "{alone}");
    assert!(alone.contains("queue{instance=\"y\",exported_instance=\"z\",job=\"mine\"} 1\n"), "{alone}");
}
