//! Tables of eighty columns for a terminal and for code blocks in Markdown. No colours.

/// The widest line of a table.
pub const COLUMNS: usize = 80;

/// A table being built: the first column is text, the others are right-aligned figures.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub fn new(heads: &[&str]) -> Self {
        Table { rows: vec![heads.iter().map(|h| h.to_string()).collect()] }
    }

    /// Appends a row; missing cells stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text. A line that would be too wide shortens its first column.
    pub fn render(&self) -> String {
        let mut widths = self.widths();
        let room = COLUMNS - widths[1..].iter().map(|w| w + 2).sum::<usize>().min(COLUMNS - 1);
        widths[0] = widths[0].min(room);
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            text.push_str(&line(row, &widths));
            if number == 0 {
                let wide = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
                text.push_str(&"-".repeat(wide.min(COLUMNS)));
                text.push('\n');
            }
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        (0..self.rows[0].len())
            .map(|c| self.rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.chars().count()).max())
            .map(|width| width.unwrap_or(0))
            .collect()
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let first: String = row[0].chars().take(widths[0]).collect();
    let mut text = format!("{first:width$}", width = widths[0]);
    for (cell, width) in row[1..].iter().zip(&widths[1..]) {
        text.push_str(&format!("  {cell:>width$}"));
    }
    let mut text: String = text.chars().take(COLUMNS).collect();
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// `33855` as `33,855`.
pub fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if number <= -0.5 { format!("-{text}") } else { text }
}

/// A figure with three to four significant digits.
pub fn figure(number: f64) -> String {
    match number.abs() {
        n if n >= 1000.0 => thousands(number),
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        n if n >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_align_with_their_heads() {
        let mut table = Table::new(&["way", "per second"]);
        table.row(["a character at a time".into(), "85".into()]);
        assert_eq!(
            table.render(),
            "way                    per second\n\
             ---------------------------------\n\
             a character at a time          85\n"
        );
    }

    #[test]
    fn no_line_is_wider_than_eighty_columns() {
        let mut table = Table::new(&["name", "x", "y"]);
        table.row(["n".repeat(200), "1".repeat(20), "2".repeat(30)]);
        table.row(["n".into(), "1".repeat(20), "2".into()]);
        assert!(table.render().lines().all(|l| l.len() <= COLUMNS));
        assert!(table.render().contains(&"2".repeat(30)), "figures are never cut before names");
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in
            [(0.0, "0"), (999.0, "999"), (4173.0, "4,173"), (33855.4, "33,855"), (-1e6, "-1,000,000")]
        {
            assert_eq!(thousands(number), text);
        }
        assert_eq!([figure(0.95), figure(12.34), figure(4173.0)], ["0.950", "12.3", "4,173"]);
    }
}
