//! The screen of one node: processors, memory, pressure, disks, interfaces, processes. It draws what fits, the important first.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::app::{App, Origin};
use super::measures::Measures;
use super::node::Node;
use super::numbers::{bytes, count, percent, span};
use super::pen::{Pen, columns, lines};
use super::processes::ORDERS;

/// A smaller screen has lines instead of charts.
const CHARTS_WIDTH_MIN: u16 = 60;
const CHARTS_HEIGHT_MIN: u16 = 14;

/// Draws the node into everything between heading and footer.
pub fn draw(app: &App, pen: &mut Pen<'_>, area: Rect) {
    let Some(node) = app.node() else {
        let waiting = match app.origin {
            Origin::Recording => "the rows of this node cannot be read",
            _ if app.is_away => "nothing has come yet: the khz is away",
            _ => "waiting for the first row",
        };
        pen.text(area, (1, 1), waiting, pen.look.dim());
        return;
    };
    if area.width < CHARTS_WIDTH_MIN || area.height < CHARTS_HEIGHT_MIN {
        return brief(app, node, pen, area);
    }
    let screen =
        Screen { app, node, measures: node.measures(), until: app.past.as_ref().map(|past| past.at) };
    let charts = (area.height * 3 / 10).clamp(4, 16);
    let half = area.width / 2;
    let top = lines(area, 0, charts);
    // A blank column keeps two charts apart.
    screen.processors(pen, columns(top, 0, half - 1));
    screen.memory(pen, columns(top, half, area.width - half));
    let cores = screen.cores(pen, lines(area, charts, (area.height / 6).max(2)));
    let rest = lines(area, charts + cores, area.height);
    let devices = screen.device_lines().min(rest.height / 2).max(2);
    let middle = lines(rest, 0, devices);
    screen.disks(pen, columns(middle, 0, half));
    screen.links(pen, columns(middle, half, area.width - half));
    screen.processes(pen, lines(rest, devices, rest.height));
}

struct Screen<'a> {
    app: &'a App,
    node: &'a Node,
    measures: Measures<'a>,
    until: Option<khz_model::Nanos>,
}

impl Screen<'_> {
    fn curve(&self, name: &str, width: u16) -> Vec<Option<f64>> {
        self.node.curve(name, usize::from(width) * 2, self.until)
    }

    fn processors(&self, pen: &mut Pen<'_>, area: Rect) {
        let (look, measures) = (pen.look, self.measures);
        let processors = measures.processors().map(|count| count as f64);
        let title = format!("CPU {} of {}", percent(look, measures.cpu()), count(look, processors));
        let parts = format!(
            "sys {} io {} irq {}",
            percent(look, measures.share(&["system"])),
            percent(look, measures.share(&["iowait"])),
            percent(look, measures.share(&["irq", "softirq"])),
        );
        pen.title(area, &title, &parts);
        pen.curve(lines(area, 1, area.height), &self.curve("cpu", area.width), 1.0);
    }

    fn memory(&self, pen: &mut Pen<'_>, area: Rect) {
        let (look, measures) = (pen.look, self.measures);
        let number = |series| bytes(look, measures.number(series));
        let title = format!("MEM {} of {}", percent(look, measures.memory()), number("mem.total"));
        let swap = measures.swap().map(|share| format!(" swap {}", percent(look, Some(share))));
        let right = format!(
            "cache {} dirty {}{}",
            number("mem.cached"),
            number("mem.dirty"),
            swap.unwrap_or_default()
        );
        pen.title(area, &title, &right);
        let pressures = 3.min(area.height.saturating_sub(2));
        let chart = lines(area, 1, area.height - 1 - pressures);
        pen.curve(chart, &self.curve("memory", area.width), 1.0);
        for (line, (of, label)) in
            [("cpu", "waits for CPU"), ("memory", "waits for mem"), ("io", "waits for IO")]
                .into_iter()
                .take(pressures.into())
                .enumerate()
        {
            let line = lines(area, chart.height + 1 + line as u16, 1);
            let share = measures.pressure(of, "some");
            pen.text(line, (0, 0), label, look.dim());
            let style = share.map_or(Style::new(), |share| look.heat(share * 2.0));
            pen.right(line, (20, 0), &percent(look, share), style);
            let chart = columns(line, 21, line.width);
            pen.curve(chart, &self.curve(&format!("pressure.{of}"), chart.width), 1.0);
        }
    }

    /// A character for each processor, or a little chart where there is room. Returns the lines that it took.
    fn cores(&self, pen: &mut Pen<'_>, area: Rect) -> u16 {
        let cores = self.measures.cores();
        if cores.is_empty() || area.height == 0 {
            return 0;
        }
        let width = core_width(area.width, cores.len());
        let across = usize::from((area.width / width).max(1));
        let needed = cores.len().div_ceil(across);
        if needed > usize::from(area.height) {
            return self.many_cores(pen, area, &cores);
        }
        for (at, (name, share)) in cores.iter().enumerate() {
            let cell = columns(lines(area, (at / across) as u16, 1), (at % across) as u16 * width, width - 1);
            pen.right(cell, (3, 0), name, pen.look.dim());
            let chart = columns(cell, 4, cell.width.saturating_sub(9));
            pen.curve(chart, &self.curve(&format!("core {name}"), chart.width), 1.0);
            let style = share.map_or(Style::new(), |share| pen.look.heat(share));
            pen.right(cell, (cell.width, 0), &percent(pen.look, *share), style);
        }
        needed as u16
    }

    fn many_cores(&self, pen: &mut Pen<'_>, area: Rect, cores: &[(String, Option<f64>)]) -> u16 {
        let across = usize::from(area.width.saturating_sub(2)).max(1);
        let needed = cores.len().div_ceil(across).min(area.height.into());
        for (at, (_, share)) in cores.iter().take(needed * across).enumerate() {
            let (text, style) = match share {
                Some(share) => (pen.look.shade(*share).to_string(), pen.look.heat(*share)),
                None => (pen.look.unknown().to_owned(), pen.look.dim()),
            };
            pen.text(area, ((at % across) as u16 + 1, (at / across) as u16), &text, style);
        }
        needed as u16
    }

    fn device_lines(&self) -> u16 {
        let most = self.measures.disks().len().max(self.measures.links().len());
        u16::try_from(most + 1).unwrap_or(u16::MAX)
    }

    fn disks(&self, pen: &mut Pen<'_>, area: Rect) {
        let look = pen.look;
        pen.title(area, "DISK", "read  write  busy   wait");
        let mut disks = self.measures.disks();
        // If not all fit, show the busy ones.
        if disks.len() >= usize::from(area.height) {
            disks.sort_by(|a, b| b.busy.unwrap_or(-1.0).total_cmp(&a.busy.unwrap_or(-1.0)));
        }
        if disks.is_empty() {
            pen.text(area, (0, 1), look.unknown(), look.dim());
        }
        for (at, disk) in disks.iter().take(usize::from(area.height.saturating_sub(1))).enumerate() {
            let line = lines(area, at as u16 + 1, 1);
            let right = line.width.saturating_sub(1);
            pen.text(columns(line, 0, 10), (0, 0), &disk.name, Style::new());
            let chart = columns(line, 11, right.saturating_sub(11 + 25));
            pen.curve(chart, &self.curve(&format!("busy {}", disk.name), chart.width), 1.0);
            pen.right(line, (right.saturating_sub(20), 0), &bytes(look, disk.read), Style::new());
            pen.right(line, (right.saturating_sub(13), 0), &bytes(look, disk.written), Style::new());
            let style = disk.busy.map_or(Style::new(), |busy| look.heat(busy));
            pen.right(line, (right.saturating_sub(7), 0), &percent(look, disk.busy), style);
            pen.right(line, (right, 0), &span(look, disk.wait), Style::new());
        }
    }

    fn links(&self, pen: &mut Pen<'_>, area: Rect) {
        let look = pen.look;
        pen.title(area, "NET", "received    sent");
        let links = self.measures.links();
        if links.is_empty() {
            pen.text(area, (0, 1), look.unknown(), look.dim());
        }
        for (at, link) in links.iter().take(usize::from(area.height.saturating_sub(1))).enumerate() {
            let line = lines(area, at as u16 + 1, 1);
            let right = line.width.saturating_sub(1);
            pen.text(columns(line, 0, 12), (0, 0), &link.name, Style::new());
            let chart = columns(line, 13, right.saturating_sub(13 + 17));
            let columns = self.curve(&format!("net {}", link.name), chart.width);
            let highest = columns.iter().flatten().copied().fold(0.0, f64::max);
            pen.curve(chart, &columns, highest);
            pen.right(line, (right.saturating_sub(8), 0), &bytes(look, link.received), Style::new());
            pen.right(line, (right, 0), &bytes(look, link.sent), Style::new());
        }
    }

    fn processes(&self, pen: &mut Pen<'_>, area: Rect) {
        if area.height == 0 {
            return;
        }
        let (look, table) = (pen.look, &self.app.processes);
        let number = |series| count(look, self.measures.number(series));
        let totals = format!(
            "{} processes, {} threads, {} run, {} wait for disks",
            number("processes.count"),
            number("processes.threads"),
            number("kernel.procs_running"),
            number("kernel.procs_blocked"),
        );
        let turned = if table.reverse { ", turned" } else { "" };
        pen.title(area, &format!("PROCESSES by {}{turned}", ORDERS[table.sorted]), &totals);
        let heading = lines(area, 1, 1);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        for (end, title, place) in [(8, "PID", 3), (27, "CPU%", 0), (35, "MEMORY", 1), (43, "IO/s", 2)] {
            let style = if table.sorted == place { bold.add_modifier(Modifier::UNDERLINED) } else { bold };
            pen.right(heading, (end, 0), title, style);
        }
        pen.text(heading, (9, 0), "USER", bold);
        pen.text(heading, (44, 0), "COMMAND", bold);
        let processes = table.lines(self.measures);
        let room = usize::from(area.height.saturating_sub(2));
        if processes.is_empty() {
            pen.text(area, (9, 2), look.unknown(), look.dim());
        }
        let top = table.top.min(processes.len().saturating_sub(room));
        for (at, process) in processes.iter().skip(top).take(room).enumerate() {
            let line = lines(area, at as u16 + 2, 1);
            pen.right(line, (8, 0), &process.pid, look.dim());
            pen.text(columns(line, 9, 12), (0, 0), &process.user, Style::new());
            let style = process.cpu.map_or(Style::new(), |cpu| look.heat(cpu / 100.0));
            let cpu = process.cpu.map_or_else(|| look.unknown().to_owned(), |cpu| format!("{cpu:.1}"));
            pen.right(line, (27, 0), &cpu, style);
            pen.right(line, (35, 0), &bytes(look, process.memory), Style::new());
            pen.right(line, (43, 0), &bytes(look, process.io), Style::new());
            pen.text(line, (44, 0), &process.command, Style::new());
        }
    }
}

/// As many processors side by side as have room for a chart of at least six characters.
fn core_width(width: u16, cores: usize) -> u16 {
    const WIDTH_MIN: u16 = 15;
    let most = (width / WIDTH_MIN).clamp(1, 16);
    width / u16::try_from(cores).unwrap_or(most).clamp(1, most)
}

/// A few lines, where there is no room for charts.
fn brief(app: &App, node: &Node, pen: &mut Pen<'_>, area: Rect) {
    let (look, measures) = (pen.look, node.measures());
    let disk =
        measures.disks().into_iter().max_by(|a, b| a.busy.unwrap_or(-1.0).total_cmp(&b.busy.unwrap_or(-1.0)));
    let first = app.processes.lines(measures).into_iter().next();
    let texts = [
        ("cpu", percent(look, measures.cpu()), measures.cpu()),
        ("mem", percent(look, measures.memory()), measures.memory()),
        ("io", percent(look, measures.pressure("io", "some")), measures.pressure("io", "some")),
        ("load", count(look, measures.number("load.1m")), None),
        (
            "disk",
            disk.map_or_else(
                || look.unknown().to_owned(),
                |disk| format!("{} {}", percent(look, disk.busy), disk.name),
            ),
            None,
        ),
        ("net", bytes(look, measures.traffic()), None),
        ("top", first.map_or_else(|| look.unknown().to_owned(), |process| process.command), None),
    ];
    // Two columns where seven lines do not fit.
    let across = if area.height >= 7 { 1 } else { 2 };
    let width = area.width / across;
    for (at, (label, text, share)) in texts.into_iter().enumerate() {
        let line = lines(area, at as u16 / across, 1);
        let cell = columns(line, at as u16 % across * width, width.saturating_sub(1));
        pen.text(cell, (0, 0), label, look.dim());
        let style = share.map_or(Style::new(), |share| look.heat(share));
        let end = pen.text(cell, (5, 0), &text, style);
        let chart = columns(cell, 5 + end + 1, cell.width);
        if share.is_some() && chart.width >= 8 {
            pen.bar(chart, share);
        }
    }
}
