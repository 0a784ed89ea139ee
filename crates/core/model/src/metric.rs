//! A metric, an entry of the catalogue: its name, kind, unit, type and help; the list of kinds and units. A metric exists
//! because its entry is written beside the parser that fills it. Every door derives names, units, help and exposition
//! from that entry alone.

use std::borrow::Cow;
use std::fmt;

use crate::quantity::Nanos;
use crate::value_type::{ValueFormat, ValueType};

/// Text of a catalogue entry: borrowed for our own entries, owned for those that another node sends.
pub type Text = Cow<'static, str>;

/// One quantity that the catalogue knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Metric {
    /// Dotted name: `net.rx_bytes`.
    pub name: Text,
    /// Counter or gauge.
    pub kind: Kind,
    /// Base unit of the value.
    pub unit: Unit,
    /// What the bits of a reading mean.
    pub value_type: ValueType,
    /// Decimal places of the value: a reading of 52 with 2 places is 0.52.
    pub places: u8,
    /// Largest possible value in raw steps, where there is one (the smallest is always 0).
    pub max: Option<u64>,
    /// How often the kernel itself changes the number.
    pub refresh: Refresh,
    /// One sentence for people.
    pub help: Text,
    /// Where the kernel prints it.
    pub origin: Origin,
    /// What an instance is ("cpu", "device"), for metrics that have instances.
    pub instances: Option<Text>,
    /// A metric whose readings, for the same instance, are further labels of this metric. They may change
    /// from row to row: process 3 of the busiest may be another process a second later. Such a metric is a
    /// gauge: the growth from one process's counter to another's would be meaningless.
    pub labels_from: Option<Text>,
    /// How Prometheus sees it.
    pub exposition: Exposition,
    /// Short name without dots, for the text protocol and property files: `rxbytes`; an instance goes before
    /// it (`eth0rxbytes`), or between for CPUs (`cpu3user`).
    pub flat: Text,
}

impl Metric {
    /// A whole number of khz itself, without instances and without help; an entry states what differs.
    /// `exposed` is its name at Prometheus.
    pub fn plain(name: impl Into<Text>, exposed: impl Into<Text>, kind: Kind, unit: Unit) -> Self {
        let name = name.into();
        Metric {
            kind,
            unit,
            value_type: ValueType::Unsigned,
            places: 0,
            max: None,
            refresh: Refresh::Event,
            help: Cow::Borrowed(""),
            origin: Origin { file: Cow::Borrowed("khz"), field: name.clone() },
            instances: None,
            labels_from: None,
            exposition: Exposition {
                name: exposed.into(),
                help: None,
                labels: Cow::Borrowed(&[]),
                instance_label: None,
                divisor: 1,
                untyped: false,
            },
            flat: Cow::Owned(name.replace(['.', '_'], "")),
            name,
        }
    }

    /// The same with instances; Prometheus has them as a label with this name.
    #[must_use]
    pub fn of_instances(mut self, label: impl Into<Text>) -> Self {
        let label = label.into();
        self.exposition.instance_label = Some(label.clone());
        self.instances = Some(label);
        self
    }

    /// What it is called.
    pub fn called(&self) -> Called<'_> {
        Called { name: &self.name, exposed: &self.exposition.name, value_type: self.value_type }
    }

    /// How its readings are read.
    pub const fn format(&self) -> ValueFormat {
        ValueFormat { value_type: self.value_type, places: self.places }
    }

    /// Roughly the memory that it takes: its own, and that of texts that are not part of the program.
    pub fn held(&self) -> usize {
        let Exposition { name, help, labels, instance_label, .. } = &self.exposition;
        let Origin { file, field } = &self.origin;
        let texts =
            [Some(&self.name), Some(&self.help), Some(file), Some(field), Some(&self.flat), Some(name)];
        let texts =
            texts.into_iter().chain([self.instances.as_ref(), help.as_ref(), instance_label.as_ref()]);
        let texts = texts.chain([self.labels_from.as_ref()]);
        let labels =
            labels.iter().map(|(name, value)| size_of::<(Text, Text)>() + owned(name) + owned(value));
        size_of::<Self>() + texts.flatten().map(owned).sum::<usize>() + labels.sum::<usize>()
    }
}

/// The name of a metric, and the meaning of its bits: enough to tell whether an expression may mean it, before there is a
/// [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its name at Prometheus.
    pub exposed: &'a str,
    /// What the bits of a reading mean.
    pub value_type: ValueType,
}

/// The memory of an owned text.
fn owned(text: &Text) -> usize {
    match text {
        Cow::Borrowed(_) => 0,
        Cow::Owned(text) => text.capacity() + size_of::<usize>(),
    }
}

/// How the values of a metric behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only grows, until a reset; shown as a rate.
    Counter,
    /// Goes up and down; shown unchanged.
    Gauge,
}

/// The list of units, each with its name: the enum, the list and the names are made from it, so no unit is missing in
/// any of them.
macro_rules! units {
    ($($(#[$doc:meta])* $unit:ident $name:literal;)*) => {
        /// Base units. Kernel files give multiples too (KiB, ticks, milliseconds); reading the file converts them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Unit { $($(#[$doc])* $unit,)* }

        impl Unit {
            /// Every unit.
            pub const ALL: &'static [Unit] = &[$(Unit::$unit),*];

            /// The unit's name in lower case, plural.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Unit::$unit => $name,)*
                }
            }
        }
    };
}

units! {
    /// Plain number of things.
    Count "count";
    /// Bytes.
    Bytes "bytes";
    /// Seconds.
    Seconds "seconds";
    /// Hundredths.
    Percent "percent";
    /// Memory pages of the node's page size.
    Pages "pages";
    /// Network packets.
    Packets "packets";
    /// Ticks a second.
    Hertz "hertz";
    /// Degrees of temperature.
    Celsius "celsius";
    /// Electric tension.
    Volts "volts";
    /// Electric current.
    Amperes "amperes";
    /// Power.
    Watts "watts";
    /// Energy.
    Joules "joules";
}

/// How often the kernel itself updates a number; faster sampling shows nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refresh {
    /// At every event: any rate can show something new.
    Event,
    /// On the kernel's own timer.
    Every(Nanos),
    /// Never after boot (a total, a boot time).
    Constant,
}

/// The kernel file and the field in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Path below the root, as in `/proc/net/dev`.
    pub file: Text,
    /// The field as the kernel's documentation calls it.
    pub field: Text,
}

/// The metric in node_exporter's names and units; names that node_exporter does not have start with `khz_`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exposition {
    /// Family name: `node_network_receive_bytes_total`.
    pub name: Text,
    /// One sentence for the whole family, if several metrics share it; `None`: the metric's own help.
    pub help: Option<Text>,
    /// Fixed labels: `("mode", "user")`.
    pub labels: Cow<'static, [(Text, Text)]>,
    /// Label that carries the instance: `device`.
    pub instance_label: Option<Text>,
    /// The reading is divided by this on the way out (1,024 for vmstat's KiB counters, else 1).
    pub divisor: u64,
    /// Type line: node_exporter leaves some counters untyped.
    pub untyped: bool,
}

impl Exposition {
    /// The family name of a metric that is not in the catalogue: `job.queue.length` in seconds becomes `khz_job_queue_length_seconds`.
    pub fn given_name(metric: &str, kind: Kind, unit: Unit) -> String {
        let unit = match unit {
            Unit::Bytes | Unit::Seconds => format!("_{unit}"),
            _ => String::new(),
        };
        let total = if kind == Kind::Counter { "_total" } else { "" };
        format!("khz_{}{unit}{total}", metric.replace('.', "_"))
    }
}

impl Kind {
    /// "counter" or "gauge".
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Kind::Counter, Kind::Gauge].into_iter().find(|kind| kind.as_str() == name)
    }
}

impl Unit {
    /// The unit of this name.
    pub fn named(name: &str) -> Option<Self> {
        Unit::ALL.iter().copied().find(|unit| unit.as_str() == name)
    }

    /// The unit's sign after a value on a screen.
    pub const fn sign(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::Bytes => "B",
            Unit::Seconds => "s",
            Unit::Percent => "%",
            Unit::Pages => "pages",
            Unit::Packets => "pkt",
            Unit::Hertz => "Hz",
            Unit::Celsius => "°C",
            Unit::Volts => "V",
            Unit::Amperes => "A",
            Unit::Watts => "W",
            Unit::Joules => "J",
        }
    }
}

impl Refresh {
    /// Shortest time after which another sample can show something new; `None` when every sample can.
    pub const fn period(self) -> Option<Nanos> {
        match self {
            Refresh::Event => None,
            Refresh::Every(period) => Some(period),
            Refresh::Constant => Some(Nanos::from_secs(3_600)),
        }
    }
}

impl fmt::Display for Refresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refresh::Event => f.write_str("at once"),
            Refresh::Every(period) => write!(f, "{period}"),
            Refresh::Constant => f.write_str("constant"),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
