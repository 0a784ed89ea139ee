//! Metrics are made for what a host has, and each is there once. In a process of its own: other tests' parsers use the same metrics.

use std::sync::Arc;

use khz_model::Metric;
use khz_parse::{KernelFile, Parser, catalogue, files, net_dev};

/// The names of the metrics that somebody holds besides the caller.
fn in_use(metrics: Vec<Arc<Metric>>) -> Vec<String> {
    let is_held = |metric: &Arc<Metric>| Arc::strong_count(metric) > 1;
    metrics.into_iter().filter(is_held).map(|metric| metric.name.to_string()).collect()
}

#[test]
fn metrics_with_instances_are_made_when_the_first_instance_comes_and_all_parsers_share_them() {
    assert_eq!(in_use(catalogue()), [""; 0], "a list of the catalogue keeps none of them");
    let mut parsers: Vec<Parser> = files().iter().map(|file| Parser::new(file)).collect();
    let scalars = |file: &&'static KernelFile| file.scalars.iter().map(|entry| entry.name);
    let scalars: Vec<&str> = files().iter().flat_map(scalars).collect();
    assert_eq!(in_use(catalogue()), scalars, "their slots are there before a text");

    let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
    let parser = parsers.iter_mut().find(|parser| *parser.file() == net_dev::FILE).unwrap();
    parser.advance_with(text.as_bytes());
    let of_file: Vec<_> = net_dev::FILE.metrics().iter().map(|metric| metric.name.to_string()).collect();
    assert!(!of_file.is_empty());
    assert_eq!(in_use(net_dev::FILE.metrics()), of_file);
    assert_eq!(in_use(catalogue()).len(), scalars.len() + of_file.len(), "no other file's");

    let mut second = Parser::new(&net_dev::FILE);
    second.advance_with(text.as_bytes());
    let both = parser.schema().series().iter().zip(second.schema().series());
    assert_eq!(both.clone().count(), of_file.len());
    assert!(both.into_iter().all(|(one, other)| Arc::ptr_eq(&one.metric, &other.metric)));
}
