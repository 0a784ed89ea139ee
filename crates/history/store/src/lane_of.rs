//! Which lane of a node rows are of, as their series tell: its base lane, or that of a channel. Rows of two lanes share no section:
//! they were gathered at other times, so each column would be full of holes.

use khz_model::{ChannelName, Series};

/// The base lane.
const BASE: &str = "base";

/// The lane whose rows have these series: `base`, or `channel.NAME`.
pub(crate) fn lane_of(series: &[Series]) -> &str {
    lane_of_metric(series.first().map_or("", |series| &*series.metric.name))
}

/// The lane whose rows have a metric of this name.
pub fn lane_of_metric(metric: &str) -> &str {
    channel_of(metric).map_or(BASE, |channel| &metric[..ChannelName::PREFIX.len() + channel.len()])
}

/// The channel that a metric of this name is of.
pub(crate) fn channel_of(metric: &str) -> Option<&str> {
    metric.strip_prefix(ChannelName::PREFIX).map(|rest| rest.split('.').next().unwrap_or(rest))
}

/// True if they are those of a channel.
pub(crate) fn are_of_channel(series: &[Series]) -> bool {
    lane_of(series) != BASE
}

#[cfg(test)]
mod tests {
    use khz_model::{Kind, Metric};

    use super::*;

    fn series(name: &'static str) -> Vec<Series> {
        let metric = Metric::plain(name, "khz_test", Kind::Gauge, khz_model::Unit::Count);
        vec![Series { metric: metric.into(), instance: None }]
    }

    #[test]
    fn the_first_series_tells_the_lane() {
        for (name, lane) in [
            ("mem.free", "base"),
            ("channel.hot", "channel.hot"),
            ("channel.net.rx_bytes", "channel.net"),
            ("channels.hot", "base"),
        ] {
            assert_eq!(lane_of(&series(name)), lane);
        }
        assert_eq!(lane_of(&[]), "base");
        assert!(are_of_channel(&series("channel.hot")) && !are_of_channel(&series("job.channel")));
    }
}
