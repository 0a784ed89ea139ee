//! What a cursor reads, as deliveries for a door.

use std::sync::Arc;

use khz_model::{Delivery, Rate, RowNumber};

use super::{Cursor, Event};

/// New rows as deliveries: one delivery for each set of columns. Rows beyond `readings_max` are counted as lost.
pub(crate) fn deliveries(cursor: &mut Cursor, readings_max: usize) -> Vec<Delivery> {
    let mut deliveries: Vec<Delivery> = Vec::new();
    let name = cursor.node.name.clone();
    let (mut lost, mut readings) = (0u64, 0);
    let mut rate = Rate::from_period(cursor.offered_period);
    let mut epoch = cursor.lane.map(|served| served.epoch());
    cursor.read(|event| match event {
        Event::Columns(_, served, _) => {
            (rate, epoch) = (Rate::from_period(served.period()), Some(served.epoch()));
        }
        Event::Over | Event::Late(..) => {}
        Event::Lost(from, to) => lost = lost.saturating_add(to - from),
        Event::Row(columns, ..) if columns.is_empty() => {}
        Event::Row(..) if readings > readings_max => lost = lost.saturating_add(1),
        Event::Row(columns, decoder, number, _) => {
            let row = columns.row(decoder);
            let number = epoch.map(|epoch| RowNumber { epoch, number });
            readings += row.readings.len();
            match deliveries.last_mut() {
                Some(last)
                    if lost == 0 && last.rate == rate && Arc::ptr_eq(&last.columns, &columns.series) =>
                {
                    last.rows.push(row);
                    last.last = number;
                }
                _ => deliveries.push(Delivery {
                    node: name.clone(),
                    columns: columns.series.clone(),
                    rows: vec![row],
                    lost: std::mem::take(&mut lost),
                    rate,
                    last: number,
                }),
            }
        }
    });
    if lost > 0 {
        let columns = cursor.columns.series.clone();
        deliveries.push(Delivery { node: name, columns, rows: Vec::new(), lost, rate, last: None });
    }
    deliveries
}
