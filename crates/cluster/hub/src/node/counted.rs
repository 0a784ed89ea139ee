//! What is counted of a node's rows. Counters never fall, whatever lanes come and go, and never overflow: a node may say
//! that it has lost any number of rows.

use crate::lane::Lane;

/// Rows of one lane, or of all lanes of a node together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub rows: u64,
    pub lost: u64,
    pub late: u64,
}

impl Counted {
    /// These, plus the rows of a lane.
    pub fn and(self, lane: &Lane) -> Self {
        self.plus(Counted { rows: lane.rows(), lost: lane.lost(), late: lane.late_rows })
    }

    /// The counts of a lane that is over: awaited rows do not come any more.
    pub fn of_former(lane: &Lane) -> Self {
        let counted = Counted::default().and(lane);
        Counted { lost: counted.lost.saturating_add(lane.awaited()), ..counted }
    }

    /// These without those.
    pub fn minus(self, other: Self) -> Self {
        Counted {
            rows: self.rows.saturating_sub(other.rows),
            lost: self.lost.saturating_sub(other.lost),
            late: self.late.saturating_sub(other.late),
        }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Counted {
            rows: self.rows.saturating_add(other.rows),
            lost: self.lost.saturating_add(other.lost),
            late: self.late.saturating_add(other.late),
        }
    }
}
