//! A catalogue entry as constant data, written beside the parser that fills it. `khz_model::Metric` is
//! derived from it here and nowhere else.

use std::borrow::Cow;
use std::sync::Arc;

use khz_model::metric::Called;
use khz_model::{Exposition, Kind, Metric, Nanos, Origin, Refresh, Unit, ValueType};

use crate::tree::Form;

/// One metric, and the form of its number in the kernel's text.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Dotted name.
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// Unit of the reading, after the multiplier.
    pub unit: Unit,
    /// What the bits of a reading mean: numbers that the kernel prints are unsigned.
    pub value_type: ValueType,
    /// The metric whose readings describe this one's, see [`Metric::labels_from`].
    pub labels_from: Option<&'static str>,
    /// Decimal places of the reading.
    pub places: u8,
    /// Digits after the point in the text: equal to `places`, or 0 when the kernel counts whole steps.
    pub text_places: u8,
    /// The reading is the text's number times this.
    pub multiplier: Multiplier,
    /// The largest possible reading.
    pub max: Option<u64>,
    /// How often the kernel changes the number.
    pub refresh: Refresh,
    /// One sentence of help.
    pub help: &'static str,
    /// The field's name in the kernel's documentation.
    pub field: &'static str,
    /// The exposition's family.
    pub family: &'static str,
    /// One sentence of help for the family, when other entries share it.
    pub family_help: Option<&'static str>,
    /// The exposition's labels besides the instance.
    pub labels: &'static [(&'static str, &'static str)],
    /// The exposition's divisor.
    pub divisor: u64,
    /// Exposed as untyped, as node_exporter does for vmstat.
    pub untyped: bool,
    /// How the text of a small file of a tree gives the number.
    pub form: Form,
}

/// What the text's number is multiplied by: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplier {
    /// 1,024 for kB, 512 for sectors.
    Of(u64),
    /// The size of a page of memory on the machine that khz runs on.
    PageSize,
}

impl Multiplier {
    /// The number.
    pub fn get(self) -> u64 {
        match self {
            Multiplier::Of(number) => number,
            // The kernel tells each program at its start.
            Multiplier::PageSize => rustix::param::page_size() as u64,
        }
    }
}

const fn entry(name: &'static str, field: &'static str, kind: Kind, unit: Unit, help: &'static str) -> Entry {
    Entry {
        name,
        kind,
        unit,
        value_type: ValueType::Unsigned,
        labels_from: None,
        places: 0,
        text_places: 0,
        multiplier: Multiplier::Of(1),
        max: None,
        refresh: Refresh::Event,
        help,
        field,
        family: "",
        family_help: None,
        labels: &[],
        divisor: 1,
        untyped: false,
        form: Form::Number,
    }
}

/// A counter that the kernel prints as `field`.
pub const fn counter(name: &'static str, field: &'static str, unit: Unit, help: &'static str) -> Entry {
    entry(name, field, Kind::Counter, unit, help)
}

/// A gauge that the kernel prints as `field`.
pub const fn gauge(name: &'static str, field: &'static str, unit: Unit, help: &'static str) -> Entry {
    entry(name, field, Kind::Gauge, unit, help)
}

/// A description: its readings are labels, with which the exposition has the value 1.
pub const fn info(
    name: &'static str,
    field: &'static str,
    family: &'static str,
    help: &'static str,
) -> Entry {
    let mut entry = entry(name, field, Kind::Gauge, Unit::Count, help);
    entry.value_type = ValueType::Labels;
    entry.exposed(family, &[])
}

impl Entry {
    /// The readings of that metric are further labels of this one's, instance by instance.
    pub const fn described_by(mut self, metric: &'static str) -> Self {
        self.labels_from = Some(metric);
        self
    }

    /// The kernel prints this many digits after the point.
    pub const fn places(mut self, places: u8) -> Self {
        self.places = places;
        self.text_places = places;
        self
    }

    /// The kernel counts whole steps, each `10^-places` of the unit (ticks of 10 ms, microseconds).
    pub const fn steps(mut self, places: u8) -> Self {
        self.places = places;
        self
    }

    /// The number may be below zero. Only a survey's text has such numbers.
    pub const fn signed(mut self) -> Self {
        self.value_type = ValueType::Signed;
        self
    }

    /// How the text of a small file of a tree gives the number.
    pub const fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// The kernel counts in multiples of the unit.
    pub const fn times(mut self, multiplier: u64) -> Self {
        self.multiplier = Multiplier::Of(multiplier);
        self
    }

    /// The kernel counts pages of memory.
    pub const fn in_pages(mut self) -> Self {
        self.multiplier = Multiplier::PageSize;
        self
    }

    /// The kernel updates the number on its own timer, or it changes so seldom that a read once in this time suffices (a
    /// host's name).
    pub const fn every(mut self, period: Nanos) -> Self {
        self.refresh = Refresh::Every(period);
        self
    }

    /// The number never changes after boot.
    pub const fn constant(mut self) -> Self {
        self.refresh = Refresh::Constant;
        self
    }

    /// No reading is larger than `max`.
    pub const fn at_most(mut self, max: u64) -> Self {
        self.max = Some(max);
        self
    }

    /// The exposition family and its fixed labels.
    pub const fn exposed(
        mut self,
        family: &'static str,
        labels: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.family = family;
        self.labels = labels;
        self
    }

    /// The help of an exposition family that this entry shares with others.
    pub const fn together(mut self, help: &'static str) -> Self {
        self.family_help = Some(help);
        self
    }

    /// Exposed in the kernel's own unit: divided by `divisor`.
    pub const fn divided(mut self, divisor: u64) -> Self {
        self.divisor = divisor;
        self
    }

    /// Exposed as untyped and divided: node_exporter shows vmstat in the kernel's own units.
    pub const fn untyped(mut self, divisor: u64) -> Self {
        self.untyped = true;
        self.divisor = divisor;
        self
    }

    /// The two words of the field, in a file whose names are not unique: the kind (a protocol), and the name.
    pub fn kind_and_name(&self) -> Option<(&'static [u8], &'static [u8])> {
        self.field.split_once(' ').map(|(kind, name)| (kind.as_bytes(), name.as_bytes()))
    }

    /// What the metric is called.
    pub const fn called(&self) -> Called<'static> {
        Called { name: self.name, exposed: self.family, value_type: self.value_type }
    }

    /// The catalogue's metric. `file` is the origin; `instances` is the label of the metric's instances.
    pub fn metric(&self, file: &'static str, instances: Option<&'static str>) -> Arc<Metric> {
        let labels = self.labels.iter().map(|&(k, v)| (Cow::Borrowed(k), Cow::Borrowed(v)));
        Arc::new(Metric {
            name: self.name.into(),
            kind: self.kind,
            unit: self.unit,
            value_type: self.value_type,
            labels_from: self.labels_from.map(Cow::Borrowed),
            places: self.places,
            max: self.max,
            refresh: self.refresh,
            help: self.help.into(),
            origin: Origin { file: file.into(), field: self.field.into() },
            instances: instances.map(Cow::Borrowed),
            exposition: Exposition {
                name: self.family.into(),
                help: self.family_help.map(Cow::Borrowed),
                labels: labels.collect::<Vec<_>>().into(),
                instance_label: instances.map(Cow::Borrowed),
                divisor: self.divisor,
                untyped: self.untyped,
            },
            flat: flat_name(self.name).into(),
        })
    }
}

/// The name without dots: `mem.free` becomes `memfree`. `net.` and `disk.` are dropped, because the instance
/// already says which it is (`eth0rxbytes`, `sdareads`).
pub fn flat_name(name: &str) -> String {
    let rest = name.strip_prefix("net.").or_else(|| name.strip_prefix("disk.")).unwrap_or(name);
    rest.chars().filter(char::is_ascii_alphanumeric).collect()
}
