//! The screen of a cluster: a line or a tile for each node.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use khz_model::Nanos;

use super::app::App;
use super::list::{COLUMNS, Line};
use super::numbers::{bytes, count, percent};
use super::pen::{Pen, columns, lines};
use crate::show::fit::{ELLIPSIS, cut_front};
use crate::show::quantities::{of_span, of_whole_span};

/// The width reserved for names, if longer ones do not need more.
const NAME_WIDTH: u16 = 16;
/// The largest width of the reason column in a narrow list.
const WHY_WIDTH: u16 = 9;
/// A tile: a name, and a number after it.
const TILE_NAME_MIN: u16 = 6;
const TILE_NUMBER: u16 = 7;
/// A shorter chart is useless.
const CHART_WIDTH_MIN: u16 = 8;

/// Draws the cluster into everything between heading and footer.
pub fn draw(app: &App, pen: &mut Pen<'_>, area: Rect) {
    let all = app.list.lines(app.shown());
    let place = app.list.place(&all);
    summary(app, &all, pen, lines(area, 0, 1));
    let body = lines(area, 1, area.height);
    match app.list.tiles {
        true => tiles(app, &all, place, pen, body),
        false => table(app, &all, place, pen, body),
    }
}

fn summary(app: &App, all: &[Line<'_>], pen: &mut Pen<'_>, area: Rect) {
    let away = all.iter().filter(|line| line.node.is_away()).count();
    let odd = all.iter().filter(|line| line.odd.is_some()).count();
    let nodes = if all.len() == 1 { "node" } else { "nodes" };
    let mut end = pen.text(area, (0, 0), &format!("{} {nodes}, ", all.len()), Style::new());
    let style = if away > 0 { pen.look.alarm() } else { Style::new() };
    end += pen.text(area, (end, 0), &format!("{away} not up"), style);
    end += pen.text(area, (end, 0), &format!(", {odd} odd"), Style::new());
    let sorted = app.list.sorted.checked_sub(1).map_or("NODE", |column| COLUMNS[column].title);
    let turned = if app.list.reverse { ", turned" } else { "" };
    end += pen.text(area, (end, 0), &format!(" - by {sorted}{turned}"), pen.look.dim());
    if app.list.only_odd {
        end += pen.text(area, (end, 0), " - only those", pen.look.dim());
    }
    if app.shown().is_cut {
        end += pen.text(area, (end, 0), " - more are not shown: name fewer", pen.look.alarm());
    }
    let _ = end;
}

/// The first visible line, chosen so that the selected one is visible.
pub fn first(place: usize, room: usize) -> usize {
    place.saturating_sub(room.saturating_sub(1))
}

/// The length of the longest name.
fn longest_name(all: &[Line<'_>]) -> u16 {
    let longest = all.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    u16::try_from(longest).unwrap_or(u16::MAX)
}

/// As wide as the longest name needs, up to a third of the screen.
fn name_width(all: &[Line<'_>], width: u16) -> u16 {
    longest_name(all).clamp(NAME_WIDTH, (width / 3).max(NAME_WIDTH)).min(width)
}

/// A name in this room: the names of nodes differ at their ends.
pub fn short_name(pen: &Pen<'_>, name: &str, room: usize) -> String {
    let shown = cut_front(name, room.max(1));
    if pen.look.unicode { shown } else { shown.replace(ELLIPSIS, "~") }
}

/// The places of the columns that fit after the names, and the room left for a chart.
fn places(names: u16, width: u16) -> (Vec<(usize, u16, u16)>, u16) {
    let mut left = names;
    let mut places = Vec::new();
    // The numbers come first. The oddness stands before them if there is room.
    for (number, column) in COLUMNS.iter().enumerate() {
        if left + column.width + 1 > width {
            break;
        }
        places.push((number, left + 1, column.width));
        left += column.width + 1;
    }
    (places, left)
}

fn table(app: &App, all: &[Line<'_>], place: usize, pen: &mut Pen<'_>, area: Rect) {
    // If there is no room for a number, the reason why a node stands out gets the room.
    let is_narrow = area.width < NAME_WIDTH + COLUMNS[0].width + 1;
    let names =
        if is_narrow { area.width - (area.width / 2).min(WHY_WIDTH) } else { name_width(all, area.width) };
    let (fitting, used) = match is_narrow {
        true => (vec![(0, (names + 1).min(area.width), area.width.saturating_sub(names + 1))], area.width),
        false => places(names, area.width),
    };
    let heading = lines(area, 0, 1);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let style =
        |at: usize| if app.list.sorted == at { bold.add_modifier(Modifier::UNDERLINED) } else { bold };
    pen.text(heading, (0, 0), "NODE", style(0));
    for (number, left, width) in &fitting {
        match number {
            0 => _ = pen.text(heading, (*left, 0), COLUMNS[0].title, style(1)),
            _ => pen.right(heading, (left + width, 0), COLUMNS[*number].title, style(number + 1)),
        }
    }
    let chart = columns(area, used + 2, area.width);
    let curve = app.list.sorted.checked_sub(1).map_or("cpu", |column| COLUMNS[column].curve);
    if chart.width >= CHART_WIDTH_MIN {
        pen.text(heading, (used + 2, 0), curve, bold);
    }
    let room = usize::from(area.height.saturating_sub(1));
    let from = first(place, room);
    for (at, line) in all.iter().enumerate().skip(from).take(room) {
        let row = lines(area, (at - from) as u16 + 1, 1);
        let style = if at == place { pen.look.chosen() } else { Style::new() };
        if at == place {
            pen.text(row, (0, 0), &" ".repeat(row.width.into()), style);
        }
        let name = columns(row, 0, names);
        let style = if line.node.is_away() { style.patch(pen.look.alarm()) } else { style };
        let shown = short_name(pen, line.name, names.into());
        pen.text(name, (0, 0), &shown, style);
        cells(app, line, &fitting, pen, row, style);
        if chart.width >= CHART_WIDTH_MIN && !line.node.is_away() {
            let chart = Rect { y: row.y, height: 1, ..chart };
            let values = line.node.curve(curve, usize::from(chart.width) * 2, app.charts_end());
            let top = if matches!(curve, "load" | "traffic") {
                values.iter().flatten().copied().fold(0.0, f64::max)
            } else {
                1.0
            };
            pen.curve(chart, &values, top);
        }
    }
}

fn cells(
    app: &App,
    line: &Line<'_>,
    fitting: &[(usize, u16, u16)],
    pen: &mut Pen<'_>,
    row: Rect,
    style: Style,
) {
    let look = pen.look;
    for (number, left, width) in fitting {
        if *number == 0 {
            let cell = columns(row, *left, *width);
            pen.text(cell, (0, 0), &why(app, line), style);
            continue;
        }
        // The last numbers of a node that is away are outdated.
        let value = if line.node.is_away() { None } else { (COLUMNS[*number].number)(line.node) };
        let (text, share) = match COLUMNS[*number].title {
            "LOAD" => (count(look, value), None),
            "NET" => (bytes(look, value), None),
            _ => (percent(look, value), value),
        };
        let style = share.map_or(style, |share| style.patch(look.heat(share)));
        pen.right(row, (left + width, 0), &text, style);
    }
}

/// Why a node stands out: it is away, or it is odd, and since when.
fn why(app: &App, line: &Line<'_>) -> String {
    let moment = app.moment().unwrap_or_default();
    if line.node.is_away() {
        let state = line.node.state.as_deref().unwrap_or_default();
        return match line.node.since.filter(|since| *since <= moment) {
            Some(since) => format!("{state} {}", of_whole_span(moment.since(since).as_secs_f64())),
            None => state.to_owned(),
        };
    }
    let Some(odd) = line.odd else { return String::new() };
    let sign = if odd.far > 0.0 { "+" } else { "-" };
    match line.node.odd_since(odd.way()).filter(|since| moment.since(since.time) >= Nanos::SECOND) {
        Some(since) => {
            // It may have begun before its first row.
            let least = if since.is_least { ">" } else { "" };
            format!("{}{sign} {least}{}", odd.what, of_span(moment.since(since.time).as_secs_f64()))
        }
        None => format!("{}{sign}", odd.what),
    }
}

/// As wide as the longest name needs, and never wider than a column of names.
fn tile_width(all: &[Line<'_>]) -> u16 {
    longest_name(all).clamp(TILE_NAME_MIN, NAME_WIDTH) + TILE_NUMBER
}

fn tiles(app: &App, all: &[Line<'_>], place: usize, pen: &mut Pen<'_>, area: Rect) {
    let wide = tile_width(all);
    let across = usize::from((area.width / wide).max(1));
    let room = usize::from(area.height) * across;
    let from = first(place, room.max(1)).next_multiple_of(across.max(1));
    let column = app.list.sorted.checked_sub(1).filter(|column| *column > 0).unwrap_or(1);
    for (at, line) in all.iter().enumerate().skip(from).take(room) {
        let (x, y) = ((at - from) % across, (at - from) / across);
        let tile = columns(lines(area, y as u16, 1), x as u16 * wide, wide - 1);
        let value = if line.node.is_away() { None } else { (COLUMNS[column].number)(line.node) };
        let text = match COLUMNS[column].title {
            "LOAD" => count(pen.look, value),
            "NET" => bytes(pen.look, value),
            _ => percent(pen.look, value),
        };
        let text = if line.node.is_away() { line.node.state.clone().unwrap_or_default() } else { text };
        let mut style = match value {
            _ if line.node.is_away() => pen.look.alarm(),
            Some(share) => pen.look.heat(share),
            None => Style::new(),
        };
        if line.odd.is_some() {
            style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        }
        if at == place {
            style = style.patch(pen.look.chosen());
        }
        let width = u16::try_from(text.chars().count()).unwrap_or(0);
        let name = short_name(pen, line.name, usize::from(tile.width.saturating_sub(width + 1)));
        pen.text(tile, (0, 0), &name, style);
        pen.right(tile, (tile.width, 0), &text, style);
    }
}

/// The target of a click in this area.
pub enum Clicked {
    /// A line of the list.
    Line(usize),
    /// The heading of this column.
    Heading(usize),
}

/// What stands there.
pub fn clicked(app: &App, area: Rect, x: u16, y: u16) -> Option<Clicked> {
    let all = app.list.lines(app.shown());
    let place = app.list.place(&all);
    let (x, y) = (x.checked_sub(area.x)?, y.checked_sub(area.y + 1)?);
    let height = area.height.saturating_sub(1);
    if app.list.tiles {
        let wide = tile_width(&all);
        let across = usize::from((area.width / wide).max(1));
        let from = first(place, (usize::from(height) * across).max(1)).next_multiple_of(across);
        let at = from + usize::from(y) * across + usize::from(x / wide);
        return (at < all.len()).then_some(Clicked::Line(at));
    }
    if y == 0 {
        let (fitting, _) = places(name_width(&all, area.width), area.width);
        let hit = fitting.iter().find(|(_, left, width)| (*left..=left + width).contains(&x));
        return Some(Clicked::Heading(hit.map_or(0, |(number, ..)| number + 1)));
    }
    let from = first(place, usize::from(height.saturating_sub(1)));
    let at = from + usize::from(y) - 1;
    (at < all.len()).then_some(Clicked::Line(at))
}
