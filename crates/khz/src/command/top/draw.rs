//! The whole picture: a heading, the screen of a node or of a list, and a line for notices and keys. A pure function of the state
//! and the size.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use khz_model::Nanos;
use khz_model::calendar::Civil;

use super::app::{App, Origin};
use super::keys;
use super::node::Node;
use super::numbers::count;
use super::pen::{Pen, lines};
use super::{list_screen, node_screen, waterfall};
use crate::show::fit::ELLIPSIS;
use crate::show::quantities::of_whole_span;

/// Draws everything.
pub fn draw(app: &App, buffer: &mut Buffer, area: Rect) {
    let look = app.look;
    let mut pen = Pen { buffer, look };
    let pen = &mut pen;
    if area.height == 0 || area.width == 0 {
        return;
    }
    heading(app, pen, lines(area, 0, 1));
    footer(app, pen, lines(area, area.height.saturating_sub(1).max(1), 1));
    let body = body(area);
    match (app.help, app.waterfall, &app.focus) {
        (true, ..) => help(pen, body),
        (_, true, _) => waterfall::draw(app, pen, body),
        (_, _, Some(_)) => node_screen::draw(app, pen, body),
        (_, _, None) => list_screen::draw(app, pen, body),
    }
}

/// Everything between heading and footer.
pub fn body(area: Rect) -> Rect {
    lines(area, 1, area.height.saturating_sub(2))
}

fn heading(app: &App, pen: &mut Pen<'_>, area: Rect) {
    let look = pen.look;
    let who = app.focus.as_deref().unwrap_or(&app.source);
    // State, time and mode always have room.
    let who = list_screen::short_name(pen, who, usize::from(area.width / 3));
    let mut end = pen.text(area, (0, 0), &who, look.title()) + 1;
    if let Some(node) = app.node().filter(|node| node.is_away()) {
        end += pen.text(area, (end, 0), node.state.as_deref().unwrap_or_default(), look.alarm()) + 1;
    }
    let (mode, style) = match (&app.past, app.is_away) {
        _ if app.question.is_some() => ("asking for the past", look.alarm()),
        // A recording that cannot be read any more has no present either.
        _ if app.origin == Origin::Recording => ("recording", look.dim()),
        (Some(_), _) => ("PAST", look.alarm()),
        (None, true) => ("khz is away", look.alarm()),
        (None, false) if app.node().is_some_and(Node::is_away) => {
            (if app.moment().is_some() { "its last row" } else { "no row is known here" }, look.dim())
        }
        (None, false) => ("live", look.dim()),
    };
    if let Some(moment) = app.moment() {
        end += pen.text(area, (end, 0), &clock(moment, area.width), Style::new()) + 1;
    }
    end += pen.text(area, (end, 0), mode, style) + 1;
    let Some(node) = app.node() else { return };
    if let (Some(rate), true) = (node.rate().filter(|_| app.past.is_none()), area.width >= 40) {
        end += pen.text(area, (end, 0), rate, look.dim()) + 1;
    }
    if node.lost > 0 {
        end += pen.text(area, (end, 0), &format!("{} rows lost", node.lost), look.alarm()) + 1;
    }
    let text = of_machine(pen, node);
    if usize::from(end) + text.chars().count() < usize::from(area.width) {
        pen.right(area, (area.width, 0), &text, look.dim());
    }
}

/// `load 0.52 0.40 0.31  up 3d 2h`
fn of_machine(pen: &Pen<'_>, node: &Node) -> String {
    let number = |series| node.measures().number(series);
    let load = ["load.1m", "load.5m", "load.15m"].map(|series| count(pen.look, number(series))).join(" ");
    let up = number("uptime.up").map_or_else(|| pen.look.unknown().to_owned(), of_whole_span);
    format!("load {load}  up {up}")
}

fn footer(app: &App, pen: &mut Pen<'_>, area: Rect) {
    if let Some(prompt) = &app.prompt {
        let end = pen.text(area, (0, 0), prompt.label(), pen.look.title());
        let end = end + pen.text(area, (end, 0), &prompt.text, Style::new());
        pen.text(area, (end, 0), "_", pen.look.chosen());
        return;
    }
    if let Some((notice, _)) = &app.notice {
        let room = usize::from(area.width);
        let short = notice.chars().count() > room;
        pen.text(area, (0, 0), notice, pen.look.alarm());
        if short {
            // A sign shows that something is cut off.
            let end = if pen.look.unicode { ELLIPSIS.to_string() } else { "~".to_owned() };
            pen.right(area, (area.width, 0), &end, pen.look.alarm());
        }
        return;
    }
    let search = match app.focus {
        Some(_) => &app.processes.search,
        None => &app.list.search,
    };
    let found = if search.is_empty() { String::new() } else { format!("/{search}  ") };
    let keys = match (&app.focus, &app.past) {
        (_, Some(_)) => "b f step  B F minute  t time  l live  ? keys",
        (Some(_), None) => "1-4 rate  b back in time  t time  / search  s sort  w waterfall  ? keys",
        (None, None) => "Enter open  / search  s sort  o odd  v tiles  w waterfall  t time  ? keys",
    };
    let end = pen.text(area, (0, 0), &found, pen.look.title());
    pen.text(area, (end, 0), keys, pen.look.dim());
}

fn help(pen: &mut Pen<'_>, area: Rect) {
    let text = keys::lines();
    let rows = text.lines().count();
    // In a low window the lines continue in a second column.
    let height = usize::from(area.height.max(1));
    let across = if rows > height && area.width >= 120 { 2 } else { 1 };
    for (at, line) in text.lines().enumerate().take(height * across) {
        let x = (at / height) as u16 * (area.width / across as u16);
        pen.text(area, (x, (at % height) as u16), line, Style::new());
    }
}

/// `2026-11-30 14:03:20.100 UTC`, or less where there is little room.
fn clock(time: Nanos, width: u16) -> String {
    let whole = Civil::of(time).to_string();
    let millis = time.0 / 1_000_000 % 1_000;
    match width {
        ..40 => whole.split(' ').next_back().unwrap_or_default().to_owned(),
        40..70 => format!("{whole}.{}", millis / 100),
        _ => format!("{whole}.{millis:03} UTC"),
    }
}
