//! The text of a screen: a table of one node, of several nodes side by side, or of the first series of an order. Knows no
//! terminal: a look says how wide it is.

use std::collections::BTreeSet;

use khz_model::Nanos;
use khz_model::calendar::Civil;
use khz_model::fold::by_name;

use super::pages::{Entry, Now, Page, Pages, tone_of};
use crate::show::look::{Look, Tone};
use crate::show::matrix::Matrix;
use crate::show::order::{Key, Order, Sort};
use crate::show::spark::BARS_MAX;
use crate::show::table::{Cell, Side, Table, line};

/// The title of the row of bars.
const TREND: &str = "TREND";
/// What a name and a number need; bars get half of the columns beyond.
const BARS_FROM: usize = 40;
/// A row of fewer bars has no form.
const BARS_MIN: usize = 5;
/// In fewer columns the head has the time of day alone.
const DATE_WIDTH_MIN: usize = 60;

/// The whole text.
pub fn picture(pages: &Pages, order: Order, look: &Look) -> String {
    match pages.nodes().len() {
        0 => String::new(),
        1 => below(pages, order, look),
        _ if order.is_wanted() => ranked(pages, order, look),
        _ => across(pages, look).unwrap_or_else(|| below(pages, order, look)),
    }
}

/// Several nodes as rows of one table; `None` when it does not fit.
fn across(pages: &Pages, look: &Look) -> Option<String> {
    if only_series(pages).is_some() {
        return Some(ranked(pages, Order { sort: Some(Sort::Node), top: None }, look));
    }
    let mut matrix = Matrix::default();
    for (node, page) in pages.nodes() {
        let cells = page.entries.iter().map(|entry| (entry.series.clone(), entry.cell()));
        matrix.node(node, name(node, page), cells);
    }
    Some(head_of_all(pages, String::new(), look) + &matrix.table(look.width)?.draw(look))
}

/// One node below the other, in natural order.
fn below(pages: &Pages, order: Order, look: &Look) -> String {
    let mut nodes: Vec<_> = pages.nodes().iter().collect();
    nodes.sort_by(|(a, _), (b, _)| by_name(a, b));
    let whole = |(node, page): (&String, &Page)| {
        let mut entries: Vec<&Entry> = page.entries.iter().collect();
        order.arrange(&mut entries, |entry| key(node, entry));
        let left_out = rest(page.entries.len(), entries.len());
        let away = page.away.as_ref().map(|state| Cell::new(format!("   {state}"), Tone::Bad));
        let more = [Cell::from(left_out)].into_iter().chain(away);
        head(node, &page.rate, page.time, page.lost, more, look) + &table(page, &entries, look).draw(look)
    };
    nodes.into_iter().map(whole).collect()
}

/// The series of one node.
fn table(page: &Page, entries: &[&Entry], look: &Look) -> Table {
    let mut titles = vec![("SERIES", Side::Left), ("NOW", Side::Right)];
    let bars = bars(look);
    titles.extend(bars.map(|_| (TREND, Side::Left)));
    let mut table = Table::new(&titles, 0).leaving(&[2]);
    for entry in entries {
        let series = entry.series.clone();
        match &entry.now {
            Now::Value(_) => {
                let trend = bars.map(|bars| trend(page, entry, bars, look));
                table.row([series.into(), entry.cell()].into_iter().chain(trend));
            }
            Now::Labels(labels) => table.description(series, labels),
            Now::None(word, why) => table.remark_in(series, &format!("{word}: {why}"), tone_of(word)),
        }
    }
    table
}

/// The first series of an order, of all nodes.
fn ranked(pages: &Pages, order: Order, look: &Look) -> String {
    let entries = pages
        .nodes()
        .iter()
        .flat_map(|(node, page)| page.entries.iter().map(move |entry| (node.as_str(), page, entry)));
    let mut entries: Vec<(&str, &Page, &Entry)> = entries.collect();
    let all = entries.len();
    order.arrange(&mut entries, |(node, _, entry)| key(node, entry));
    let only = only_series(pages);
    let mut titles = vec![("NODE", Side::Left)];
    titles.extend(only.is_none().then_some(("SERIES", Side::Left)));
    let bars = bars(look);
    titles.push((only.unwrap_or("NOW"), Side::Right));
    let after = titles.len();
    titles.extend(bars.map(|_| (TREND, Side::Left)));
    // A long name of a series is cut before the nodes are.
    let elastic = usize::from(only.is_none());
    let mut table = Table::new(&titles, elastic).yielding(0).leaving(&[after]);
    for (node, page, entry) in &entries {
        let mut cells = vec![name(node, page)];
        cells.extend(only.is_none().then(|| entry.series.clone().into()));
        cells.push(entry.cell());
        cells.extend(bars.map(|bars| trend(page, entry, bars, look)));
        table.row(cells);
    }
    head_of_all(pages, rest(all, entries.len()), look) + &table.draw(look)
}

/// How many bars a row has; `None`: there is no room.
fn bars(look: &Look) -> Option<usize> {
    let room = look.width.unwrap_or(usize::MAX).saturating_sub(BARS_FROM) / 2;
    Some(room.min(BARS_MAX)).filter(|bars| *bars >= BARS_MIN)
}

/// The bars of a series. The first ones have the room of all, so that the table does not change when others come.
fn trend(page: &Page, entry: &Entry, bars: usize, look: &Look) -> Cell {
    format!("{:<bars$}", page.bars(&entry.series, bars, look.has_unicode)).into()
}

fn key<'a>(node: &'a str, entry: &'a Entry) -> Key<'a> {
    Key { node, series: &entry.series, value: entry.value }
}

/// The series that is the only one of every node.
fn only_series(pages: &Pages) -> Option<&str> {
    let mut series = pages.nodes().values().map(|page| match page.entries.as_slice() {
        [Entry { now: Now::Labels(_), .. }] => None,
        [entry] => Some(entry.series.as_str()),
        _ => None,
    });
    let first = series.next()??;
    series.all(|other| other == Some(first)).then_some(first)
}

/// The node, with its state where it is not up.
fn name(node: &str, page: &Page) -> Cell {
    match &page.away {
        Some(state) => Cell::new(format!("{node} ({state})"), Tone::Bad),
        None => node.to_owned().into(),
    }
}

/// `   3 of 40`; nothing where all are there.
fn rest(all: usize, shown: usize) -> String {
    if shown < all { format!("   {shown} of {all} series") } else { String::new() }
}

fn head_of_all(pages: &Pages, more: String, look: &Look) -> String {
    let pages = pages.nodes();
    let rates: BTreeSet<&str> = pages.values().map(|page| page.rate.as_str()).collect();
    let rates = rates.into_iter().collect::<Vec<_>>().join(", ");
    let time = pages.values().map(|page| page.time).max().unwrap_or_default();
    let lost = pages.values().map(|page| page.lost).fold(0, u64::saturating_add);
    head(&format!("{} nodes", pages.len()), &rates, time, lost, [Cell::from(more)], look)
}

/// `n1 at 10Hz   2025-11-21 01:53:20.500 UTC   2 rows lost`.
fn head(
    who: &str,
    rate: &str,
    time: Nanos,
    lost: u64,
    more: impl IntoIterator<Item = Cell>,
    look: &Look,
) -> String {
    let lost = if lost > 0 { format!("   {lost} rows lost") } else { String::new() };
    let head = [
        Cell::new(who, Tone::Title),
        Cell::from(format!(" at {rate}   {} UTC", clock(time, look))),
        Cell::new(lost, Tone::Bad),
    ];
    line(head.into_iter().chain(more), look)
}

/// `2025-11-21 01:53:20.500`; where there is little room `01:53:20`.
fn clock(time: Nanos, look: &Look) -> String {
    let civil = Civil::of(time).to_string();
    match look.width {
        Some(..DATE_WIDTH_MIN) => civil.split(' ').next_back().unwrap_or_default().to_owned(),
        _ => format!("{civil}.{:03}", time.0 / 1_000_000 % 1_000),
    }
}
