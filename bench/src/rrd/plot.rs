//! A plot as SVG: lines over rounds, one scale, labels at the lines' ends. Each line has a name, not only a
//! colour.

use std::fmt::Write;

/// Width and height in pixels.
const SIZE: (f64, f64) = (760.0, 400.0);
const LEFT: f64 = 60.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 5] = ["#0b6e99", "#c0392b", "#6c757d", "#8e44ad", "#2e7d32"];

/// A line: its name, and a value for each round.
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
    /// The label of each round.
    pub labels: Vec<String>,
    /// The lines.
    pub lines: &'a [Line],
}

impl Plot<'_> {
    /// The picture.
    pub fn svg(&self) -> String {
        let highest = self.lines.iter().flat_map(|line| &line.values).copied().fold(0.0, f64::max);
        let top = round_up(highest.max(1e-3));
        let rounds = self.labels.len().max(2);
        let x = |round: usize| LEFT + (SIZE.0 - LEFT - RIGHT) * round as f64 / (rounds - 1) as f64;
        let y = |value: f64| SIZE.1 - BOTTOM - (SIZE.1 - TOP - BOTTOM) * value / top;
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
        for tick in 0..=4 {
            let value = top * f64::from(tick) / 4.0;
            let at = y(value);
            line(format!("<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#ddd\"/>", SIZE.0 - RIGHT));
            line(format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
                LEFT - 6.0,
                at + 4.0
            ));
        }
        for (round, label) in self.labels.iter().enumerate().filter(|(_, label)| label.ends_with("00")) {
            let at = x(round);
            line(format!("<path d=\"M{at:.1} {TOP}V{:.1}\" stroke=\"#eee\"/>", SIZE.1 - BOTTOM));
            line(format!(
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                SIZE.1 - 30.0
            ));
        }
        line(format!("<text x=\"{LEFT}\" y=\"{:.1}\">end of the round, UTC</text>", SIZE.1 - 10.0));
        for (number, drawn) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let mut path = String::new();
            for (round, value) in drawn.values.iter().enumerate() {
                // Writing to a string cannot fail.
                let _ =
                    write!(path, "{}{:.1} {:.1}", if round == 0 { 'M' } else { 'L' }, x(round), y(*value));
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
        let labels = vec!["22:55".into(), "23:00".into(), "23:05".into()];
        let svg = Plot { title: "t", axis: "s", labels, lines: &lines }.svg();
        assert!(svg.contains(">ours</text>") && svg.contains(">23:00</text>") && !svg.contains("22:55"));
        assert!(svg.contains("<path d=\"M60.0 272.5L325.0 195.0L590.0 117.5\""), "{svg}");
    }

    #[test]
    fn scales_end_at_round_numbers() {
        assert_eq!([0.03, 3.0, 8.0, 99.0].map(round_up), [0.04, 4.0, 8.0, 100.0]);
    }
}
