//! A plot as SVG: lines over places at equal distances, one scale, even or logarithmic. Each line has a name, not
//! only a colour.

use std::fmt::Write;

/// Width and height in pixels.
const SIZE: (f64, f64) = (760.0, 400.0);
const LEFT: f64 = 60.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 6] = ["#0b6e99", "#c0392b", "#6c757d", "#8e44ad", "#2e7d32", "#b7791f"];

/// The vertical scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0 to a round number above the highest value.
    Even,
    /// Powers of ten around all values. Values that are not above 0 are left out.
    Logarithmic,
}

/// A line: its name, and a value for each place. One that is no number is a gap.
pub struct Line {
    /// The name.
    pub name: String,
    /// The values.
    pub values: Vec<f64>,
}

/// The contents of a plot.
pub struct Plot<'a> {
    /// The title above it.
    pub title: &'a str,
    /// The label of the vertical axis, with its unit.
    pub axis: &'a str,
    /// What the places are.
    pub below: &'a str,
    /// The vertical scale.
    pub scale: Scale,
    /// The label of each place; an empty one is not drawn.
    pub labels: Vec<String>,
    /// The lines.
    pub lines: &'a [Line],
}

impl Plot<'_> {
    /// The picture.
    pub fn svg(&self) -> String {
        let (marks, share) = self.marks();
        let places = self.labels.len().max(2);
        let x = |place: usize| LEFT + (SIZE.0 - LEFT - RIGHT) * place as f64 / (places - 1) as f64;
        let y = |value: f64| SIZE.1 - BOTTOM - (SIZE.1 - TOP - BOTTOM) * share(value);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n<text x=\"8\" y=\"{}\">{}</text>\n",
            SIZE.0,
            SIZE.1,
            self.title,
            TOP - 8.0,
            self.axis
        );
        let mut line = |text: String| svg.push_str(&(text + "\n"));
        for value in marks {
            let at = y(value);
            line(format!("<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#ddd\"/>", SIZE.0 - RIGHT));
            line(format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
                LEFT - 6.0,
                at + 4.0
            ));
        }
        for (place, label) in self.labels.iter().enumerate().filter(|(_, label)| !label.is_empty()) {
            let at = x(place);
            line(format!("<path d=\"M{at:.1} {TOP}V{:.1}\" stroke=\"#eee\"/>", SIZE.1 - BOTTOM));
            line(format!(
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                SIZE.1 - 30.0
            ));
        }
        line(format!("<text x=\"{LEFT}\" y=\"{:.1}\">{}</text>", SIZE.1 - 10.0, self.below));
        for (number, drawn) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let (mut path, mut is_gap) = (String::new(), true);
            for (place, value) in drawn.values.iter().enumerate() {
                if !self.is_shown(*value) {
                    is_gap = true;
                    continue;
                }
                // Writing to a string cannot fail.
                let _ = write!(path, "{}{:.1} {:.1}", if is_gap { 'M' } else { 'L' }, x(place), y(*value));
                // A value between gaps has no line: a dot shows it.
                if is_gap && drawn.values.get(place + 1).is_none_or(|next| !self.is_shown(*next)) {
                    line(format!(
                        "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                        x(place),
                        y(*value)
                    ));
                }
                is_gap = false;
            }
            line(format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"));
            let legend = TOP + 20.0 * number as f64;
            let (at, name) = (SIZE.0 - RIGHT + 12.0, &drawn.name);
            line(format!("<path d=\"M{at} {legend}h18\" stroke=\"{colour}\" stroke-width=\"2\"/>"));
            line(format!("<text x=\"{}\" y=\"{}\">{name}</text>", at + 24.0, legend + 4.0));
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn is_shown(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Even || value > 0.0)
    }

    /// The values with a label at the left, and how high a value stands, as a share of the height.
    fn marks(&self) -> (Vec<f64>, Box<dyn Fn(f64) -> f64>) {
        let values = self.lines.iter().flat_map(|line| line.values.iter().copied());
        let values: Vec<f64> = values.filter(|value| self.is_shown(*value)).collect();
        match self.scale {
            Scale::Even => {
                let top = round_up(values.into_iter().fold(0.0, f64::max).max(1e-3));
                // Without the dust of floating-point numbers: 0.3, not 0.30000000000000004.
                let mark = |tick| (top * f64::from(tick) / 4.0 * 1e9).round() / 1e9;
                let marks = (0..=4).map(mark).collect();
                (marks, Box::new(move |value| value / top))
            }
            Scale::Logarithmic => {
                let lowest = values.iter().copied().fold(f64::INFINITY, f64::min).log10().floor();
                let highest = values.into_iter().fold(0.0, f64::max).log10().ceil();
                // Without values any decade will do.
                let lowest = if lowest.is_finite() { lowest as i32 } else { 0 };
                let highest = if highest.is_finite() { (highest as i32).max(lowest + 1) } else { lowest + 1 };
                let marks = (lowest..=highest).map(power_of_ten).collect();
                let (from, decades) = (f64::from(lowest), f64::from(highest - lowest));
                (marks, Box::new(move |value| (value.log10() - from) / decades))
            }
        }
    }
}

/// A power of ten that prints without the dust of a floating-point power.
fn power_of_ten(power: i32) -> f64 {
    if power < 0 { 1.0 / 10f64.powi(-power) } else { 10f64.powi(power) }
}

/// The next larger number that is 1, 2, 4 or 8 times a power of ten, so that a quarter of it is round.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 8.0, 10.0].into_iter().map(|step| step * power).find(|top| *top >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_and_named() {
        let lines = [Line { name: "ours".into(), values: vec![1.0, 2.0, 3.0] }];
        let labels = vec!["".into(), "23:00".into(), "".into()];
        let svg = Plot { title: "t", axis: "s", below: "b", scale: Scale::Even, labels, lines: &lines }.svg();
        assert!(svg.contains(">ours</text>") && svg.contains(">23:00</text>") && svg.contains(">b</text>"));
        assert!(svg.contains("<path d=\"M60.0 272.5L325.0 195.0L590.0 117.5\""), "{svg}");
    }

    #[test]
    fn a_logarithmic_scale_has_whole_decades_and_leaves_out_what_it_cannot_show() {
        let lines = [Line { name: "us".into(), values: vec![0.2, f64::NAN, 30.0, 0.0, 1000.0] }];
        let labels = vec!["8 B".into(); 5];
        let scale = Scale::Logarithmic;
        let svg = Plot { title: "t", axis: "us", below: "b", scale, labels, lines: &lines }.svg();
        for mark in ["0.1", "1", "10", "100", "1000"] {
            assert!(svg.contains(&format!("end\">{mark}</text>")), "{mark}: {svg}");
        }
        assert_eq!(svg.matches("fill=\"none\"").count(), 1);
        let path = svg.lines().find(|line| line.contains("fill=\"none\"")).unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (3, 0), "{path}");
        assert_eq!(svg.matches("<circle").count(), 3, "a value between gaps is a dot");
        let nothing = Plot { title: "t", axis: "us", below: "b", scale, labels: Vec::new(), lines: &[] };
        assert!(!nothing.svg().contains("NaN"));
    }

    #[test]
    fn scales_end_at_round_numbers() {
        assert_eq!([0.03, 3.0, 8.0, 99.0].map(round_up), [0.04, 4.0, 8.0, 100.0]);
    }
}
