//! Everything over time, a line each: the nodes of a cluster by one number, or the processors, disks and waits of a node. The newest
//! is at the right.

use ratatui::layout::Rect;
use ratatui::style::Style;

use khz_model::Nanos;

use super::app::App;
use super::list::COLUMNS;
use super::node::Node;
use super::pen::{Pen, columns, lines};
use crate::show::quantities::of_span;

/// Columns of a name.
const NAME_WIDTH: u16 = 16;

/// A line: its name, its curve, and what is the most; `None`: the highest of all.
struct Row<'a> {
    name: String,
    node: &'a Node,
    curve: String,
    top: Option<f64>,
    is_chosen: bool,
}

/// Draws the waterfall.
pub fn draw(app: &App, pen: &mut Pen<'_>, area: Rect) {
    let rows = match app.node() {
        Some(node) => of_node(node),
        None => of_list(app),
    };
    let width = area.width.saturating_sub(NAME_WIDTH + 1);
    let step = rows.first().map_or(Nanos::SECOND, |row| row.node.step());
    let what = match app.focus {
        Some(_) => "processors, disks, waits".to_owned(),
        None => app.list.sorted.checked_sub(1).map_or("cpu", |column| COLUMNS[column].curve).to_owned(),
    };
    let all = of_span(step.as_secs_f64() * f64::from(width));
    let title = format!("WATERFALL of {what}");
    pen.title(
        lines(area, 0, 1),
        &title,
        &format!(
            "{} {all}, {} a column",
            if app.past.is_some() { "up to this moment," } else { "the last" },
            of_span(step.as_secs_f64())
        ),
    );
    let until = app.charts_end();
    let curves: Vec<Vec<Option<f64>>> =
        rows.iter().map(|row| row.node.curve(&row.curve, width.into(), until)).collect();
    let highest = curves.iter().flatten().flatten().copied().fold(0.0, f64::max);
    let chosen = rows.iter().position(|row| row.is_chosen).unwrap_or(0);
    let room = usize::from(area.height.saturating_sub(1));
    let from = super::list_screen::first(chosen, room);
    for (at, (row, curve)) in rows.iter().zip(&curves).enumerate().skip(from).take(room) {
        let line = lines(area, (at - from) as u16 + 1, 1);
        let mut style = if row.node.is_away() { pen.look.alarm() } else { Style::new() };
        if row.is_chosen {
            style = style.patch(pen.look.chosen());
        }
        let name = super::list_screen::short_name(pen, &row.name, NAME_WIDTH.into());
        pen.text(columns(line, 0, NAME_WIDTH), (0, 0), &name, style);
        let top = row.top.unwrap_or(highest).max(f64::MIN_POSITIVE);
        let cells = columns(line, NAME_WIDTH + 1, width);
        for (x, value) in curve.iter().enumerate() {
            let Some(share) = value.map(|value| value / top) else { continue };
            let (sign, style) = (pen.look.shade(share), pen.look.heat(share));
            if let Some(cell) = pen.buffer.cell_mut((cells.x + x as u16, cells.y)) {
                cell.set_char(sign).set_style(style);
            }
        }
    }
}

fn of_list(app: &App) -> Vec<Row<'_>> {
    let all = app.list.lines(app.shown());
    let place = app.list.place(&all);
    let curve = app.list.sorted.checked_sub(1).map_or("cpu", |column| COLUMNS[column].curve);
    let top = (!matches!(curve, "load" | "traffic")).then_some(1.0);
    let row = |(at, line): (usize, &super::list::Line<'_>)| (at, line.name.to_owned());
    let names: Vec<(usize, String)> = all.iter().enumerate().map(row).collect();
    let node = |(at, name): (usize, String)| {
        let node = app.shown().node(&name)?;
        Some(Row { node, name, curve: curve.to_owned(), top, is_chosen: at == place })
    };
    names.into_iter().filter_map(node).collect()
}

fn of_node(node: &Node) -> Vec<Row<'_>> {
    let measures = node.measures();
    let fixed = [
        ("all CPUs", "cpu"),
        ("memory", "memory"),
        ("waits for CPU", "pressure.cpu"),
        ("waits for mem", "pressure.memory"),
        ("waits for IO", "pressure.io"),
    ];
    let row = |name: String, curve: String, top| Row { name, node, curve, top, is_chosen: false };
    let mut rows: Vec<Row<'_>> =
        fixed.into_iter().map(|(name, curve)| row(name.to_owned(), curve.to_owned(), Some(1.0))).collect();
    rows.extend(
        measures
            .disks()
            .into_iter()
            .map(|disk| row(format!("disk {}", disk.name), format!("busy {}", disk.name), Some(1.0))),
    );
    rows.extend(
        measures
            .cores()
            .into_iter()
            .map(|(name, _)| row(format!("CPU {name}"), format!("core {name}"), Some(1.0))),
    );
    rows
}
