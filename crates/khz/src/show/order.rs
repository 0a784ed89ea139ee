//! The order of a list of readings, and how many of them are shown: `--sort` and `--top`. What has no value comes last,
//! whatever the order: unknown is not small.

use std::cmp::Ordering;

use clap::{Args, ValueEnum};
use khz_model::fold::by_name;

/// `--sort` and `--top`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Order {
    /// Order by the value (largest first), by the name of the series, or by the node. What has no value comes last.
    #[arg(long, value_enum, value_name = "BY")]
    pub sort: Option<Sort>,
    /// Only the first N; without --sort those with the largest values.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub top: Option<u64>,
}

/// What decides the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// The largest first.
    Value,
    /// The name of the series.
    Name,
    /// The name of the node.
    Node,
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The node.
    pub node: &'a str,
    /// The series.
    pub series: &'a str,
    /// The value; `None`: there is none, or it is no number.
    pub value: Option<f64>,
}

impl Order {
    /// Somebody wants an order.
    pub fn is_wanted(&self) -> bool {
        self.sort.is_some() || self.top.is_some()
    }

    /// Puts the items into their order, and drops all but the first ones. Without `--sort` and `--top` they stay as they are.
    pub fn arrange<T>(&self, items: &mut Vec<T>, key: impl Fn(&T) -> Key<'_>) {
        if self.is_wanted() {
            let by = self.sort.unwrap_or(Sort::Value);
            items.sort_by(|a, b| by.compare(key(a), key(b)));
        }
        if let Some(top) = self.top {
            items.truncate(usize::try_from(top).unwrap_or(usize::MAX));
        }
    }
}

impl Sort {
    fn compare(self, a: Key<'_>, b: Key<'_>) -> Ordering {
        let by_node = || by_name(a.node, b.node);
        let by_series = || by_name(a.series, b.series);
        match self {
            Sort::Value => largest_first(a.value, b.value).then_with(by_series).then_with(by_node),
            Sort::Name => by_series().then_with(by_node),
            Sort::Node => by_node().then_with(by_series),
        }
    }
}

/// Compares so that the larger one comes first, and what is unknown last.
pub fn largest_first(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a.filter(|a| !a.is_nan()), b.filter(|b| !b.is_nan())) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READINGS: [(&str, &str, Option<f64>); 6] = [
        ("n10", "load.1m", Some(0.5)),
        ("n9", "load.1m", None),
        ("n9", "net.rx_bytes[eth10]", Some(-3.0)),
        ("n9", "net.rx_bytes[eth9]", Some(7.0)),
        ("n1", "load.1m", Some(0.0)),
        ("n2", "load.1m", Some(f64::NAN)),
    ];

    fn arranged(sort: Option<Sort>, top: Option<u64>) -> Vec<String> {
        let mut all = READINGS.to_vec();
        Order { sort, top }.arrange(&mut all, |(node, series, value)| Key { node, series, value: *value });
        all.into_iter().map(|(node, series, _)| format!("{node}:{series}")).collect()
    }

    #[test]
    fn the_largest_comes_first_and_what_is_unknown_after_the_smallest() {
        assert_eq!(
            arranged(Some(Sort::Value), None),
            [
                "n9:net.rx_bytes[eth9]",
                "n10:load.1m",
                "n1:load.1m",
                "n9:net.rx_bytes[eth10]",
                "n2:load.1m",
                "n9:load.1m"
            ]
        );
    }

    #[test]
    fn names_are_in_natural_order() {
        assert_eq!(arranged(Some(Sort::Node), Some(2)), ["n1:load.1m", "n2:load.1m"]);
        assert_eq!(
            arranged(Some(Sort::Name), None)[3..],
            ["n10:load.1m", "n9:net.rx_bytes[eth9]", "n9:net.rx_bytes[eth10]"]
        );
    }

    #[test]
    fn top_alone_is_by_value_and_without_both_nothing_changes() {
        assert_eq!(arranged(None, Some(1)), ["n9:net.rx_bytes[eth9]"]);
        assert_eq!(arranged(None, None).len(), READINGS.len());
        assert_eq!(arranged(None, None)[0], "n10:load.1m");
        assert_eq!(arranged(None, Some(u64::MAX)).len(), READINGS.len());
    }
}
