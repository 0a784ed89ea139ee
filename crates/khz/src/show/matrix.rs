//! Several nodes in one table: a row for each node, a column for each series. Returns no table where it does not fit; then
//! the caller prints one node below the other.

use crate::show::look::Tone;
use crate::show::table::{Cell, Side, Table};
use khz_model::fold::by_name;

/// People cannot read a table with more columns. It counts where no width is given.
const COLUMNS_MAX: usize = 8;
/// Printed where a node does not have the series.
const NOT_THERE: &str = "-";

/// The cells of some nodes.
#[derive(Default)]
pub struct Matrix {
    /// Series, in the order in which they came.
    columns: Vec<String>,
    rows: Vec<Row>,
}

/// A node.
struct Row {
    node: String,
    /// As it is shown.
    title: Cell,
    cells: Vec<Option<Cell>>,
}

impl Matrix {
    /// Adds a node with the title of its row and with its cells, each with the series that it belongs to.
    pub fn node(&mut self, node: &str, title: Cell, cells: impl IntoIterator<Item = (String, Cell)>) {
        let mut row = vec![None; self.columns.len()];
        for (series, cell) in cells {
            let column = self.columns.iter().position(|known| *known == series).unwrap_or_else(|| {
                self.columns.push(series);
                row.push(None);
                self.columns.len() - 1
            });
            row[column] = Some(cell);
        }
        self.rows.push(Row { node: node.to_owned(), title, cells: row });
    }

    /// The table with the nodes in natural order; `None` where it is wider than `width`.
    pub fn table(mut self, width: Option<usize>) -> Option<Table> {
        let titles = [("NODE", Side::Left)].into_iter();
        let titles: Vec<(&str, Side)> =
            titles.chain(self.columns.iter().map(|series| (series.as_str(), Side::Right))).collect();
        let mut table = Table::new(&titles, 0);
        self.rows.sort_by(|a, b| by_name(&a.node, &b.node));
        for Row { title, cells, .. } in &self.rows {
            let cells = (0..self.columns.len()).map(|at| cells.get(at).cloned().flatten());
            let cells = cells.map(|cell| cell.unwrap_or_else(|| Cell::new(NOT_THERE, Tone::Faint)));
            table.row([title.clone()].into_iter().chain(cells));
        }
        let fits = match width {
            Some(width) => table.width() <= width,
            None => self.columns.len() <= COLUMNS_MAX,
        };
        fits.then_some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> Matrix {
        let mut matrix = Matrix::default();
        let cell = |series: &str, text: &str| (series.to_owned(), text.to_owned().into());
        matrix.node("n10", "n10".to_owned().into(), [cell("load.1m", "0.52"), cell("mem.free", "15.3 GiB")]);
        matrix.node("n9", "n9".to_owned().into(), [cell("mem.free", "absent")]);
        matrix
    }

    #[test]
    fn a_row_is_a_node_in_natural_order_and_what_is_not_there_is_no_zero() {
        assert_eq!(
            matrix().table(Some(80)).unwrap().render(Some(80)),
            "NODE  load.1m  mem.free\n\
             n9          -    absent\n\
             n10      0.52  15.3 GiB\n"
        );
    }

    #[test]
    fn what_does_not_fit_is_no_table() {
        assert!(matrix().table(Some(23)).is_some());
        assert!(matrix().table(Some(22)).is_none());
        let mut wide = matrix();
        let cells = (0..9).map(|n| (format!("x.{n}"), "1".to_owned().into()));
        wide.node("n1", "n1".to_owned().into(), cells);
        assert!(wide.table(None).is_none());
    }
}
