//! Made-up series and their metrics, for this crate's tests.

use std::borrow::Cow;
use std::sync::Arc;

use khz_model::{Exposition, Instance, Kind, Metric, Origin, Refresh, Series, Unit};

/// A series of a made-up gauge without decimal places.
pub fn series(name: &str, instance: Option<&str>) -> Series {
    let text = |text: &str| Cow::Owned(text.to_owned());
    let metric = Metric {
        name: text(name),
        kind: Kind::Gauge,
        unit: Unit::Count,
        value_type: khz_model::ValueType::Unsigned,
        labels_from: None,
        places: 0,
        max: None,
        refresh: Refresh::Event,
        help: text("made up"),
        origin: Origin { file: text("/proc/none"), field: text(name) },
        instances: instance.map(|_| text("thing")),
        exposition: Exposition {
            name: text("khz_none"),
            help: None,
            labels: Cow::Borrowed(&[]),
            instance_label: instance.map(|_| text("thing")),
            divisor: 1,
            untyped: false,
        },
        flat: text("none"),
    };
    Series { metric: Arc::new(metric), instance: instance.map(|name| Instance::from_kernel(name.as_bytes())) }
}
