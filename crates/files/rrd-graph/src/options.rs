//! The options of a command line, checked as rrdtool checks them.

use khz_rrd::at::When;
use khz_rrd::cli::options::{self as words, Known};
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::number::{self, Reading};

/// Pixels of a side at most; rrdtool has no limit.
const SIDE_MAX: i64 = 16_000;
/// The least side of a graph.
const SIDE_MIN: i64 = 10;
/// Bytes of a title, a label or a format.
const TEXT_MAX: usize = 4096;
const FONT_SIZE_MAX: f64 = 200.0;
/// How many times a picture may be enlarged; rrdtool has no limit.
const ZOOM_MAX: f64 = 100.0;
/// Pixels of a point.
pub const DOTS: f64 = 100.0 / 72.0;
/// Pixels from tab to tab, without the room that the font adds.
const TAB: i64 = 40;
/// Letters from tab to tab where the option says 0.
const TAB_LETTERS: f64 = 8.0;

const KNOWN: [Known; 56] = [
    ("alt-autoscale", 'A', false),
    ("alt-autoscale-max", 'M', false),
    ("alt-autoscale-min", 'J', false),
    ("alt-y-grid", 'Y', false),
    ("base", 'b', true),
    ("color", 'c', true),
    ("daemon", 'd', true),
    ("end", 'e', true),
    ("force-rules-legend", 'F', false),
    ("full-size-mode", 'D', false),
    ("graph-render-mode", 'G', true),
    ("font-render-mode", 'R', true),
    ("font-smoothing-threshold", 'B', true),
    ("height", 'h', true),
    ("imgformat", 'a', true),
    ("imginfo", 'f', true),
    ("interlaced", 'i', false),
    ("legend-direction", ' ', true),
    ("legend-position", ' ', true),
    ("lazy", 'z', false),
    ("left-axis-format", ' ', true),
    ("left-axis-formatter", ' ', true),
    ("logarithmic", 'o', false),
    ("lower-limit", 'l', true),
    ("no-gridfit", 'N', false),
    ("no-legend", 'g', false),
    ("no-minor", 'I', false),
    ("only-graph", 'j', false),
    ("font", 'n', true),
    ("pango-markup", 'P', false),
    ("right-axis", ' ', true),
    ("right-axis-format", ' ', true),
    ("right-axis-formatter", ' ', true),
    ("right-axis-label", ' ', true),
    ("rigid", 'r', false),
    ("allow-shrink", ' ', false),
    ("slope-mode", 'E', false),
    ("start", 's', true),
    ("step", 'S', true),
    ("tabwidth", 'T', true),
    ("title", 't', true),
    ("upper-limit", 'u', true),
    ("units-exponent", 'X', true),
    ("units-length", 'L', true),
    ("units", ' ', true),
    ("vertical-label", 'v', true),
    ("watermark", 'W', true),
    ("width", 'w', true),
    ("x-grid", 'x', true),
    ("y-grid", 'y', true),
    ("zoom", 'm', true),
    ("use-nan-for-all-missing-data", 'Z', false),
    ("border", ' ', true),
    ("grid-dash", ' ', true),
    ("dynamic-labels", ' ', false),
    ("week-fmt", ' ', true),
];

/// Every option by its names, for the help.
pub fn names() -> String {
    let name = |(long, short, takes_value): &Known| {
        let short = if *short == ' ' { String::new() } else { format!("-{short}|") };
        format!("{short}--{long}{}", if *takes_value { "=X" } else { "" })
    };
    KNOWN.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// What the fonts are for, in this order in [`Options::sizes`].
pub const FONTS: [(&str, f64); 6] =
    [("DEFAULT", 8.0), ("TITLE", 9.0), ("AXIS", 7.0), ("UNIT", 8.0), ("LEGEND", 8.0), ("WATERMARK", 5.5)];

/// What the colours are for, and the colours without an option.
const COLOURS: [(&str, Colour); 11] = [
    ("CANVAS", [255, 255, 255, 255]),
    ("BACK", [242, 242, 242, 255]),
    ("SHADEA", [200, 200, 200, 255]),
    ("SHADEB", [150, 150, 150, 255]),
    ("GRID", [140, 140, 140, 140]),
    ("MGRID", [130, 30, 30, 150]),
    ("FONT", [0, 0, 0, 255]),
    ("ARROW", [127, 31, 31, 255]),
    ("AXIS", [31, 31, 31, 255]),
    ("FRAME", [0, 0, 0, 255]),
    ("", [0, 0, 0, 0]),
];

/// Red, green, blue, opacity.
pub type Colour = [u8; 4];

/// How the range of the value axis is made larger than that of the values: without any of these, to numbers that look well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Autoscale {
    /// A tenth on both sides. Then the others have no effect.
    pub both: bool,
    /// A tenth below. Then `max` has no effect.
    pub min: bool,
    /// A tenth above.
    pub max: bool,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is its own name in rrdtool's documentation")]
pub enum Output {
    Png,
    Svg,
    Csv(char),
    Json { times: bool },
    Xml { numbered: bool },
}

/// Where the legend stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "directions")]
pub enum Side {
    North,
    South,
    East,
    West,
}

/// In which order the lines of the legend stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// In that of the elements.
    Down,
    /// The last line first.
    Up,
    /// The same, except for the comments before the first and after the last legend of something else.
    UpWithinComments,
}

/// How labels of an axis are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is its own name in rrdtool's documentation")]
pub enum Formatter {
    Numeric,
    Timestamp,
    Duration,
}

/// Lines of the value axis that an option asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueGrid {
    /// Chosen.
    Automatic,
    /// None, and no labels.
    Off,
    /// The distance between two lines, and how many lines there are for each label.
    Every(f64, i64),
}

/// Lines of the time axis that an option asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum TimeGrid {
    /// Chosen.
    Automatic,
    /// None, and no labels.
    Off,
    /// As written.
    Given(GivenTimes),
}

/// Units and counts of the thin lines, of the strong lines and of the labels.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenTimes {
    /// Each with the seconds of its unit and how many of them.
    pub steps: [(Unit, i64); 3],
    /// Seconds that a label stands for; it is centred in them.
    pub precision: i64,
    /// The label's format.
    pub format: String,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "units")]
pub enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    fn parse(text: &str) -> Result<Self> {
        Ok(match text {
            "SECOND" => Self::Second,
            "MINUTE" => Self::Minute,
            "HOUR" => Self::Hour,
            "DAY" => Self::Day,
            "WEEK" => Self::Week,
            "MONTH" => Self::Month,
            "YEAR" => Self::Year,
            _ => return refused(format!("unknown keyword {text}")),
        })
    }
}

/// The options.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each is an option of rrdtool")]
pub struct Options {
    pub start: i64,
    pub end: i64,
    pub now: i64,
    pub step: u64,
    pub width: i64,
    pub height: i64,
    pub is_full_size: bool,
    pub is_only_graph: bool,
    pub has_legend: bool,
    pub forces_rules: bool,
    pub is_lazy: bool,
    pub is_log: bool,
    pub is_si_log: bool,
    pub is_rigid: bool,
    /// Whether a file that cannot be read has unknown rows.
    pub allows_missing: bool,
    /// Whether texts have Pango's markup.
    pub is_markup: bool,
    /// `--allow-shrink`: with `--rigid`, the limits are those of the values, not of the axis.
    pub shrinks: bool,
    pub is_slope: bool,
    pub is_alt_grid: bool,
    pub has_minor: bool,
    pub autoscale: Autoscale,
    pub lower: Option<f64>,
    pub upper: Option<f64>,
    pub base: f64,
    pub exponent: Option<i32>,
    pub units_length: Option<i64>,
    pub title: String,
    pub vertical: String,
    pub watermark: String,
    pub right_label: String,
    pub right: Option<(f64, f64)>,
    pub left_format: Option<String>,
    pub right_format: Option<String>,
    pub left_formatter: Formatter,
    pub right_formatter: Formatter,
    pub week_format: String,
    pub value_grid: ValueGrid,
    /// From label to label of the value axis, also if they are off.
    pub label_step: Option<f64>,
    pub time_grid: TimeGrid,
    /// The format of the times in tables.
    pub table_times: Option<String>,
    pub sizes: [f64; 6],
    pub colours: [Colour; 11],
    pub tab: i64,
    pub zoom: f64,
    pub border: i64,
    pub grid_dash: (f64, f64),
    pub output: Output,
    pub info: Option<String>,
    pub legend_side: Side,
    pub direction: Direction,
    pub daemon: Option<String>,
    pub is_mono: bool,
}

impl Options {
    fn new(now: i64) -> Self {
        Self {
            start: 0,
            end: now,
            now,
            step: 0,
            width: 400,
            height: 100,
            is_full_size: false,
            is_only_graph: false,
            has_legend: true,
            forces_rules: false,
            is_lazy: false,
            is_log: false,
            is_si_log: false,
            is_rigid: false,
            shrinks: false,
            is_slope: false,
            is_markup: false,
            allows_missing: false,
            is_alt_grid: false,
            has_minor: true,
            autoscale: Autoscale::default(),
            lower: None,
            upper: None,
            base: 1000.0,
            exponent: None,
            units_length: None,
            title: String::new(),
            vertical: String::new(),
            watermark: String::new(),
            right_label: String::new(),
            right: None,
            left_format: None,
            right_format: None,
            left_formatter: Formatter::Numeric,
            right_formatter: Formatter::Numeric,
            week_format: "Week %V".into(),
            value_grid: ValueGrid::Automatic,
            label_step: None,
            time_grid: TimeGrid::Automatic,
            table_times: None,
            sizes: FONTS.map(|(_, size)| size),
            colours: COLOURS.map(|(_, colour)| colour),
            tab: TAB,
            zoom: 1.0,
            border: 2,
            grid_dash: (1.0, 1.0),
            output: Output::Png,
            info: None,
            legend_side: Side::South,
            direction: Direction::Down,
            daemon: None,
            is_mono: false,
        }
    }

    /// The colour called `name`.
    pub fn colour(&self, name: &str) -> Colour {
        let at = COLOURS.iter().position(|(known, _)| *known == name);
        at.map_or([0; 4], |at| self.colours[at])
    }

    /// The size of the font called `name`.
    pub fn size(&self, name: &str) -> f64 {
        FONTS.iter().position(|(known, _)| *known == name).map_or(FONTS[0].1, |at| self.sizes[at])
    }

    /// Pixels from tab to tab in the legend of a picture that is enlarged by `zoom`.
    pub fn tab_stop(&self, zoom: f64) -> f64 {
        let size = self.size("LEGEND");
        // As in rrdtool, tabs are wider in a picture with labels beside the value axis.
        let more = if self.has_value_labels() { 2.0 * size } else { 0.0 };
        match self.tab {
            0 => TAB_LETTERS * crate::frame::advance(size * zoom) / zoom,
            tab => (tab as f64 + more).floor(),
        }
    }

    /// Whether there is room for labels beside the value axis: a length that an option gives counts even without labels.
    pub fn has_value_labels(&self) -> bool {
        self.units_length.is_some() || self.value_grid != ValueGrid::Off
    }

    /// The options of `arguments`, and what is no option.
    ///
    /// # Errors
    /// rrdtool's messages.
    pub fn parse(arguments: &[String], now: i64) -> Result<(Self, Vec<String>)> {
        let (parsed, wrong) = words::parse_up_to(arguments, &KNOWN);
        let mut options = Self::new(now);
        options.daemon = khz_rrd::cli::daemon(&parsed);
        let (mut start, mut end) = (When::day_before_end(), When::now());
        for (name, value) in &parsed.options {
            if value.len() > TEXT_MAX {
                return refused(format!("option --{name} has more than {TEXT_MAX} bytes"));
            }
            let time =
                || When::parse(value, now).map_err(|why| Error::Refused(format!("{name} time: {why}")));
            match *name {
                "start" => start = time()?,
                "end" => end = time()?,
                name => options.take(name, value)?,
            }
        }
        wrong?;
        options.check_axis_formats()?;
        if options.is_log && options.lower.is_some_and(|lower| lower <= 0.0) {
            return refused("for a logarithmic yaxis you must specify a lower-limit > 0");
        }
        (options.start, options.end) = When::range(&start, &end, now).map_err(Error::Refused)?;
        let (start, end) = (options.start, options.end);
        if end < start {
            return refused(format!("start ({start}) should be less than end ({end})"));
        }
        Ok((options, parsed.rest))
    }

    /// The format of an axis is that of a number, unless its labels are times or durations.
    fn check_axis_formats(&self) -> Result<()> {
        for (format, formatter) in self.axis_formats() {
            if let (Some(format), Formatter::Numeric) = (format, formatter) {
                crate::format::Format::parse_axis(format)?;
            }
        }
        Ok(())
    }

    fn axis_formats(&self) -> [(Option<&str>, Formatter); 2] {
        [
            (self.left_format.as_deref(), self.left_formatter),
            (self.right_format.as_deref(), self.right_formatter),
        ]
    }

    /// Whether the durations that the axes show have a format.
    ///
    /// # Errors
    /// rrdtool's message. As in rrdtool, it comes when the picture is drawn.
    pub fn check_durations(&self) -> Result<()> {
        let has_labels = !self.is_log && !self.is_only_graph && self.value_grid != ValueGrid::Off;
        let [left, right] = self.axis_formats();
        for ((format, formatter), is_shown) in
            [(left, has_labels), (right, has_labels && self.right.is_some())]
        {
            if let (Some(format), Formatter::Duration, true) = (format, formatter, is_shown) {
                crate::duration::check(format)?;
            }
        }
        Ok(())
    }

    /// Width and height of the whole picture in its file, where it has `side` pixels before it is enlarged.
    pub fn zoomed(&self, side: i64) -> i64 {
        (side as f64 * self.zoom) as i64
    }

    fn take(&mut self, name: &'static str, value: &str) -> Result<()> {
        match name {
            "alt-autoscale" => self.autoscale.both = true,
            "alt-autoscale-max" => self.autoscale.max = true,
            "alt-autoscale-min" => self.autoscale.min = true,
            "alt-y-grid" => self.is_alt_grid = true,
            "no-minor" => self.has_minor = false,
            "force-rules-legend" => self.forces_rules = true,
            "full-size-mode" => self.is_full_size = true,
            "lazy" => self.is_lazy = true,
            "logarithmic" => self.is_log = true,
            "no-legend" => self.has_legend = false,
            "only-graph" => self.is_only_graph = true,
            "rigid" => self.is_rigid = true,
            "allow-shrink" => self.shrinks = true,
            "slope-mode" => self.is_slope = true,
            "pango-markup" => self.is_markup = true,
            "use-nan-for-all-missing-data" => self.allows_missing = true,
            "title" => self.title = value.into(),
            "vertical-label" => self.vertical = value.into(),
            "watermark" => self.watermark = value.into(),
            "right-axis-label" => self.right_label = value.into(),
            // An empty one is none.
            "right-axis-format" => {
                self.right_format = Some(value.to_string()).filter(|text| !text.is_empty())
            }
            "left-axis-format" => self.left_format = Some(value.to_string()).filter(|text| !text.is_empty()),
            "week-fmt" => self.week_format = value.into(),
            "step" => self.step = u64::try_from(number::c_decimal(value).unwrap_or(0)).unwrap_or(0),
            "width" => self.width = side("width", value)?,
            "height" => self.height = side("height", value)?,
            "lower-limit" => self.lower = Some(limit('l', value)?).filter(|limit| !limit.is_nan()),
            "upper-limit" => self.upper = Some(limit('u', value)?).filter(|limit| !limit.is_nan()),
            "units-exponent" => {
                self.exponent = Some(number::c_decimal(value).unwrap_or(0).clamp(-30, 30) as i32)
            }
            "units-length" => self.units_length = Some(number::c_decimal(value).unwrap_or(0).clamp(0, 1000)),
            "tabwidth" => self.tab = (limit('T', value)? as i64).clamp(0, 10_000),
            "border" => self.border = number::c_decimal(value).unwrap_or(0).clamp(0, 100),
            // As in rrdtool, it is checked when it is shown, and an empty one shows nothing.
            "imginfo" => self.info = Some(value.into()),
            _ => return self.take_choice(name, value),
        }
        Ok(())
    }

    /// Options whose values are words of a list, or several numbers.
    fn take_choice(&mut self, name: &'static str, value: &str) -> Result<()> {
        match name {
            "base" => {
                self.base = match number::c_decimal(value).unwrap_or(0) {
                    1000 => 1000.0,
                    1024 => 1024.0,
                    _ => return refused("the only sensible value for base apart from 1000 is 1024"),
                }
            }
            "zoom" => {
                self.zoom = match limit('m', value)? {
                    zoom if zoom > 0.0 && zoom.is_finite() => zoom.min(ZOOM_MAX),
                    _ => return refused("zoom factor must be > 0"),
                }
            }
            "units" => match value {
                "si" => self.is_si_log = true,
                _ => return refused(format!("invalid argument for --units: {value}")),
            },
            "imgformat" => self.output = output(value)?,
            "color" => self.take_colour(value)?,
            "font" => self.take_font(value)?,
            "right-axis" => self.right = Some(right_axis(value)?),
            "left-axis-formatter" => self.left_formatter = formatter(value, "left")?,
            "right-axis-formatter" => self.right_formatter = formatter(value, "right")?,
            "x-grid" => self.take_time_grid(time_grid(value)?),
            "y-grid" => self.take_value_grid(value_grid(value)?),
            "graph-render-mode" => match value {
                "normal" => {}
                "mono" => self.is_mono = true,
                _ => return refused(format!("unknown graph-render-mode '{value}'")),
            },
            "font-render-mode" => match value {
                "normal" | "light" | "mono" => {}
                _ => return refused(format!("unknown font-render-mode '{value}'")),
            },
            "legend-position" => {
                self.legend_side = match value {
                    "north" => Side::North,
                    "south" => Side::South,
                    "east" => Side::East,
                    "west" => Side::West,
                    _ => return refused(format!("unknown legend-position '{value}'")),
                }
            }
            "legend-direction" => match value {
                "topdown" => self.direction = Direction::Down,
                "bottomup" => self.direction = Direction::Up,
                "bottomup2" => self.direction = Direction::UpWithinComments,
                _ => return refused(format!("unknown legend-position '{value}'")),
            },
            "grid-dash" => {
                let whole = |text: &str| whole(text).filter(|length| *length >= 0.0);
                let begun = |text: &str| begun(text).filter(|length| *length >= 0.0);
                match value.split_once(':').map(|(on, off)| (whole(on), begun(off))) {
                    Some((Some(on), Some(off))) => self.grid_dash = (on, off),
                    _ => return refused("invalid grid-dash format"),
                }
            }
            // These have no effect on numbers, and none here on pictures.
            _ => {}
        }
        Ok(())
    }

    /// As in rrdtool, a grid that is off stays off; the range of the axis ends at lines of the last grid that has some.
    fn take_value_grid(&mut self, grid: ValueGrid) {
        if let ValueGrid::Every(step, every) = grid {
            self.label_step = Some(step * every as f64);
        }
        if self.value_grid != ValueGrid::Off {
            self.value_grid = grid;
        }
    }

    /// As in rrdtool, a grid that is off stays off; times in tables have the format of the last grid that has one.
    fn take_time_grid(&mut self, grid: TimeGrid) {
        if let TimeGrid::Given(times) = &grid {
            self.table_times = Some(times.format.clone());
        }
        if self.time_grid != TimeGrid::Off {
            self.time_grid = grid;
        }
    }

    fn take_colour(&mut self, value: &str) -> Result<()> {
        let Some((name, digits)) = value.split_once('#') else { return refused("invalid color def format") };
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return refused("invalid color def format");
        }
        // As in rrdtool, what follows the digits is ignored, and so are digits after the eighth.
        let length = digits.bytes().take_while(u8::is_ascii_hexdigit).take(8).count();
        let colour = match (length, colour(&digits[..length])) {
            (0, _) => return refused("invalid color def format"),
            (_, None) => return refused("the color format is #RRGGBB[AA]"),
            (_, Some(colour)) => colour,
        };
        match COLOURS.iter().position(|(known, _)| *known == name && !name.is_empty()) {
            Some(at) => self.colours[at] = colour,
            None => return refused(format!("invalid color name '{name}'")),
        }
        Ok(())
    }

    fn take_font(&mut self, value: &str) -> Result<()> {
        let bad = || Error::Refused("invalid text property format".into());
        let (tag, rest) = value.split_once(':').ok_or_else(bad)?;
        if tag.is_empty() {
            return Err(bad());
        }
        let size = begun(rest.split(':').next().unwrap_or("")).ok_or_else(bad)?;
        let at = FONTS.iter().position(|(known, _)| *known == tag);
        let at = at.ok_or_else(|| Error::Refused(format!("invalid fonttag '{tag}'")))?;
        // 0 keeps the size and changes the font; there is one font here.
        if size > 0.0 {
            let size = size.min(FONT_SIZE_MAX);
            match at {
                0 => self.sizes = [size; 6],
                at => self.sizes[at] = size,
            }
        }
        Ok(())
    }
}

fn side(name: &str, value: &str) -> Result<i64> {
    let side = number::c_decimal(value).unwrap_or(0);
    if side < SIDE_MIN {
        return refused(format!("{name} below {SIDE_MIN} pixels"));
    }
    if side > SIDE_MAX {
        return refused(format!("{name} above {SIDE_MAX} pixels"));
    }
    Ok(side)
}

fn limit(letter: char, value: &str) -> Result<f64> {
    match number::read(value) {
        Reading::Whole(limit) => Ok(limit),
        Reading::Partly(limit, rest) => refused(format!(
            "option -{letter} - Converted '{value}' to {limit:.6}, but cannot convert '{rest}'"
        )),
        _ => refused(format!("option -{letter} - Cannot convert '{value}' to float")),
    }
}

fn output(value: &str) -> Result<Output> {
    Ok(match value {
        "PNG" => Output::Png,
        "SVG" => Output::Svg,
        "CSV" => Output::Csv(','),
        "SSV" => Output::Csv(';'),
        "TSV" => Output::Csv('\t'),
        "JSON" => Output::Json { times: false },
        "JSONTIME" => Output::Json { times: true },
        "XML" => Output::Xml { numbered: false },
        "XMLENUM" => Output::Xml { numbered: true },
        "PDF" | "EPS" => return refused(format!("graphics format '{value}' is not there; use PNG or SVG")),
        _ => return refused(format!("unsupported graphics format '{value}'")),
    })
}

fn formatter(value: &str, side: &str) -> Result<Formatter> {
    Ok(match value {
        "numeric" => Formatter::Numeric,
        "timestamp" => Formatter::Timestamp,
        "duration" => Formatter::Duration,
        _ => return refused(format!("Unknown {side} axis formatter")),
    })
}

/// A finite number.
fn whole(text: &str) -> Option<f64> {
    match number::read(text) {
        Reading::Whole(value) if value.is_finite() => Some(value),
        _ => None,
    }
}

/// A finite number, perhaps with more text after it, as C's sscanf takes it.
fn begun(text: &str) -> Option<f64> {
    match number::read(text) {
        Reading::Whole(value) | Reading::Partly(value, _) if value.is_finite() => Some(value),
        _ => None,
    }
}

fn right_axis(value: &str) -> Result<(f64, f64)> {
    match value.split_once(':').map(|(scale, shift)| (whole(scale), begun(shift))) {
        Some((Some(0.0), Some(_))) => refused("the second_axis_scale  must not be 0"),
        Some((Some(scale), Some(shift))) => Ok((scale, shift)),
        _ => refused("invalid right-axis format expected scale:shift"),
    }
}

fn value_grid(value: &str) -> Result<ValueGrid> {
    if value == "none" {
        return Ok(ValueGrid::Off);
    }
    let Some((step, every)) = value.split_once(':') else { return refused("invalid y-grid format") };
    let Reading::Whole(step) = number::read(step) else { return refused("invalid y-grid format") };
    let Some(every) = number::c_decimal(every) else { return refused("invalid y-grid format") };
    if step <= 0.0 {
        return refused("grid step must be > 0");
    }
    if every < 1 {
        return refused("label factor must be > 0");
    }
    Ok(ValueGrid::Every(step, every))
}

fn time_grid(value: &str) -> Result<TimeGrid> {
    if value == "none" {
        return Ok(TimeGrid::Off);
    }
    let bad = || Error::Refused("invalid x-grid format".into());
    let parts: Vec<&str> = value.splitn(8, ':').collect();
    let [a, b, c, d, e, f, precision, format] = parts.as_slice() else { return Err(bad()) };
    if [a, c, e].iter().any(|unit| !unit.bytes().all(|byte| byte.is_ascii_uppercase())) {
        return Err(bad());
    }
    let mut steps = [(Unit::Hour, 1); 3];
    for (at, (unit, count)) in [(a, b), (c, d), (e, f)].into_iter().enumerate() {
        let count =
            number::c_decimal(count).filter(|count| (1..=1_000_000).contains(count)).ok_or_else(bad)?;
        steps[at] = (Unit::parse(unit)?, count);
    }
    let precision = number::c_decimal(precision).ok_or_else(bad)?;
    Ok(TimeGrid::Given(GivenTimes { steps, precision, format: (*format).into() }))
}

/// A colour of 3, 4, 6 or 8 hexadecimal digits.
pub fn colour(digits: &str) -> Option<Colour> {
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let value = u32::from_str_radix(digits, 16).ok()?;
    let byte = |shift: u32| (value >> shift) as u8;
    match digits.len() {
        3 => {
            let wide = |shift: u32| (((value >> shift) & 15) * 17) as u8;
            Some([wide(8), wide(4), wide(0), 255])
        }
        4 => {
            let wide = |shift: u32| (((value >> shift) & 15) * 17) as u8;
            Some([wide(12), wide(8), wide(4), wide(0)])
        }
        6 => Some([byte(16), byte(8), byte(0), 255]),
        8 => Some([byte(24), byte(16), byte(8), byte(0)]),
        _ => None,
    }
}
