//! Rows as CSV or JSON, with the gaps between them.

use std::io::{self, Write};

use khz_model::{Nanos, Stamp};
use khz_record::{Gap, LaneSurvey};
use serde_json::{Map, Value, json};

use super::rows::{Line, Slot};
use crate::command::recording::Opened;
use crate::show::quantities::{cell, cell_json, csv};
use crate::show::table::{json_line, printable};

/// The gaps of each lane that are not printed yet; the first gap is the last in its list.
pub struct Marks(Vec<Vec<Gap>>);

impl Marks {
    /// The gaps of a recording.
    pub fn of(opened: &Opened) -> Self {
        let gaps = |lane: &LaneSurvey| lane.gaps().into_iter().rev().collect();
        Marks(opened.survey.lanes.iter().map(gaps).collect())
    }

    /// The gaps right before this row of a lane; each is returned once.
    pub fn before(&mut self, lane: usize, number: u64) -> Vec<Gap> {
        let gaps = &mut self.0[lane];
        let at = gaps.iter().position(|gap| gap.before <= number).unwrap_or(gaps.len());
        let mut due = gaps.split_off(at);
        due.reverse();
        // Where only a part of a recording is printed, gaps before that part are not.
        due.retain(|gap| gap.before == number);
        due
    }
}

impl Line<'_> {
    /// One line of CSV.
    pub fn csv(&self, out: &mut impl Write) -> io::Result<()> {
        let stamp = self.row.stamp();
        let node = &self.opened.survey.lanes[self.lane].lane.node;
        write!(
            out,
            "{},{},{}",
            stamp.real_text(),
            stamp.boot_text(),
            printable(&node.replace([',', '"', '\n'], "_"))
        )?;
        let mut cells = vec![String::new(); self.columns.len()];
        for slot in self.slots {
            cells[slot.column] = csv(cell(slot.format, self.reading(slot.slot)));
        }
        for cell in cells {
            write!(out, ",{cell}")?;
        }
        writeln!(out)
    }

    /// A line for a gap: the time of the first missing row, and the word `missing` in every column of the lane.
    pub fn csv_gap(&self, gap: &Gap, out: &mut impl Write) -> io::Result<()> {
        let first = Stamp { boot: Nanos(gap.from.boot.0.saturating_add(gap.period.0)), ..gap.from };
        let node = &self.opened.survey.lanes[self.lane].lane.node;
        write!(
            out,
            "{},{},{}",
            first.real_text(),
            first.boot_text(),
            printable(&node.replace([',', '"', '\n'], "_"))
        )?;
        let mut cells = vec![""; self.columns.len()];
        self.slots.iter().for_each(|slot| cells[slot.column] = "missing");
        for cell in cells {
            write!(out, ",{cell}")?;
        }
        writeln!(out)
    }

    /// A gap as an object of its own.
    pub fn json_gap(&self, gap: &Gap, out: &mut impl Write) -> io::Result<()> {
        let lane = &self.opened.survey.lanes[self.lane].lane;
        let object = json!({
            "node": &*lane.node,
            "lane": &*lane.name,
            "gap": {
                "from": gap.from.real_text(),
                "to": gap.to.real_text(),
                "rows_missing": gap.rows,
                "ticks_without_row": gap.ticks,
            },
        });
        writeln!(out, "{}", json_line(&object))
    }

    /// One JSON object.
    pub fn json(&self, out: &mut impl Write) -> io::Result<()> {
        let lane = &self.opened.survey.lanes[self.lane].lane;
        let value = |slot: &Slot| {
            let (series, reading) = (&self.columns[slot.column], self.reading(slot.slot));
            (series.to_string(), cell_json(slot.format, reading))
        };
        let values: Map<String, Value> = self.slots.iter().map(value).collect();
        let stamp = self.row.stamp();
        let object = json!({
            "node": &*lane.node,
            "lane": &*lane.name,
            "row": self.number,
            "time": stamp.real_text(),
            "boot": stamp.boot_text(),
            "values": values,
        });
        writeln!(out, "{}", json_line(&object))
    }
}
