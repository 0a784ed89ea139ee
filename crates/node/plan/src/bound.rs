//! A plan that is bound to the slots of a lane, and executed row by row. Nothing is allocated here.

use crate::aggregate::Groups;
use crate::combine::{Pairs, Sets, WithNumber, value_of};
use crate::join::{FirstOf, join};
use crate::labels::LabelSet;
use crate::number::{ABSENT, Scale, is_absent};
use crate::plan::{Math, Operator, StepId};
use crate::window::{RowTime, Window};

/// A value of a step, with where it comes from.
const BYTES_A_VALUE: usize = 64;

/// The labels of a series of the result.
const BYTES_A_RESULT: usize = 256;

/// A plan that is ready for rows.
#[derive(Debug)]
pub struct Bound {
    steps: Vec<Bind>,
    /// The steps that each row executes.
    executed: Box<[u16]>,
    /// The labels of the result.
    labels: Vec<LabelSet>,
    /// Bytes of all windows.
    windows: usize,
}

/// A step, and its values at the newest row.
#[derive(Debug)]
struct Bind {
    does: Does,
    values: Box<[f64]>,
}

/// The operands of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of {
    pub left: StepId,
    pub right: StepId,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum Does {
    Number(f64),
    Time,
    Series(Vec<(u32, Scale)>),
    Windows(Vec<(u32, Window)>),
    Math(Math, StepId),
    Numbers(Operator, bool, Of),
    WithNumber(WithNumber, Of),
    /// The step that gives the vector, and its comparison with this number: one step instead of two.
    Compared(Box<Does>, WithNumber, f64),
    /// The only step that uses this step also executes it.
    Joined,
    Pairs(Pairs, Of),
    Sets(Sets, Of),
    Groups(Groups, StepId),
    /// A chain of `or`.
    FirstOf(FirstOf),
}

impl Bound {
    pub(crate) fn of(does: Vec<Does>, counts: Vec<usize>, labels: Vec<LabelSet>, windows: usize) -> Self {
        let bind = |(does, count)| {
            // Numbers are there once and for all.
            let value = if let Does::Number(number) = does { number } else { ABSENT };
            Bind { does, values: vec![value; count].into() }
        };
        let does = join(does);
        let executed = (0..).zip(&does).filter(|(_, does)| !matches!(does, Does::Number(_) | Does::Joined));
        let executed = executed.map(|(number, _)| number).collect();
        Bound { executed, steps: does.into_iter().zip(counts).map(bind).collect(), labels, windows }
    }

    /// The labels of each series of the result; a result that is a number has none.
    pub fn labels(&self) -> &[LabelSet] {
        &self.labels
    }

    /// The slots of the readings that are its result.
    pub(crate) fn series_slots(&self) -> impl Iterator<Item = u32> {
        let series = self
            .steps
            .last()
            .and_then(|last| if let Does::Series(all) = &last.does { Some(all) } else { None });
        series.into_iter().flatten().map(|(slot, _)| *slot)
    }

    /// The slots of the windows of its result.
    pub(crate) fn window_slots(&self) -> impl Iterator<Item = u32> {
        let windows = self
            .steps
            .last()
            .and_then(|last| if let Does::Windows(all) = &last.does { Some(all) } else { None });
        windows.into_iter().flatten().map(|(slot, _)| *slot)
    }

    /// The bytes that it holds, about.
    pub fn held(&self) -> usize {
        let values = |step: &Bind| size_of::<Bind>() + step.values.len() * BYTES_A_VALUE;
        self.windows + self.steps.iter().map(values).sum::<usize>() + self.labels.len() * BYTES_A_RESULT
    }

    /// The values of a row.
    pub fn width(&self) -> usize {
        self.steps.last().map_or(0, |last| last.values.len())
    }

    /// A value of the newest row.
    pub(crate) fn value(&self, at: usize) -> f64 {
        self.steps.last().and_then(|last| last.values.get(at)).copied().unwrap_or(ABSENT)
    }

    /// True if the result is a number, which has no labels.
    pub fn is_number(&self) -> bool {
        self.width() > self.labels.len()
    }

    /// Reads the beginning of the data for the next row, to bring it into the cache. The returned
    /// number means nothing.
    #[inline]
    pub fn touch(&self) -> usize {
        let step = self.executed.first().and_then(|&first| self.steps.get(usize::from(first)));
        step.map_or(0, |step| {
            step.does.touch() + usize::from(step.values.first().is_some_and(|value| *value > 0.0))
        })
    }

    /// Executes the plan on a row of this time (ns since 1970); `reading` gives the bits of a slot that is present. Returns the
    /// values of the result, in the order of its series; a number is one value.
    pub fn row(&mut self, time: i64, reading: impl Fn(u32) -> Option<u64>) -> &[f64] {
        let time = RowTime::new(time);
        for &number in &self.executed {
            let (earlier, rest) = self.steps.split_at_mut(usize::from(number));
            let Some(Bind { does, values }) = rest.first_mut() else { break };
            let of = |id: StepId| &*earlier[usize::from(id.0)].values;
            does.row(time, &reading, of, values);
        }
        self.steps.last().map_or(&[], |last| &last.values)
    }
}

impl Bound {
    /// Continues a bound plan: the same plan was bound to the same lane before its slots changed. `slot` gives the present
    /// number of an earlier slot. Windows keep their samples.
    pub(crate) fn take_over(&mut self, before: Bound, slot: impl Fn(u32) -> Option<u32>) {
        for (step, before) in self.steps.iter_mut().zip(before.steps) {
            let (windows, filled) = (step.does.windows_mut(), before.does.into_windows());
            let Some((windows, filled)) = windows.zip(filled) else { continue };
            for (old, window) in filled {
                let place =
                    slot(old).and_then(|new| windows.binary_search_by_key(&new, |(slot, _)| *slot).ok());
                if let Some(place) = place {
                    windows[place].1 = window;
                }
            }
        }
    }
}

impl Does {
    /// The steps whose values it uses.
    pub(crate) fn operands(&self) -> impl Iterator<Item = StepId> + use<> {
        let (one, two) = match self {
            Does::Math(_, of) | Does::Groups(_, of) => (Some(*of), None),
            Does::Numbers(.., of) | Does::WithNumber(_, of) | Does::Pairs(_, of) | Does::Sets(_, of) => {
                (Some(of.left), Some(of.right))
            }
            _ => (None, None),
        };
        one.into_iter().chain(two)
    }

    fn touch(&self) -> usize {
        match self {
            Does::Series(slots) => slots.first().map_or(0, |(slot, _)| *slot as usize),
            Does::Windows(windows) => {
                windows.first().map_or(0, |(slot, window)| *slot as usize + window.touch())
            }
            Does::Compared(gives, ..) => gives.touch(),
            _ => 0,
        }
    }

    fn windows_mut(&mut self) -> Option<&mut Vec<(u32, Window)>> {
        match self {
            Does::Windows(windows) => Some(windows),
            Does::Compared(gives, ..) => gives.windows_mut(),
            _ => None,
        }
    }

    fn into_windows(self) -> Option<Vec<(u32, Window)>> {
        match self {
            Does::Windows(windows) => Some(windows),
            Does::Compared(gives, ..) => gives.into_windows(),
            _ => None,
        }
    }

    #[inline]
    fn row<'s>(
        &mut self,
        time: RowTime,
        reading: &impl Fn(u32) -> Option<u64>,
        of: impl Fn(StepId) -> &'s [f64],
        out: &mut [f64],
    ) {
        match self {
            Does::Number(_) | Does::Joined => {}
            Does::Compared(gives, with, number) => {
                gives.row(time, reading, of, out);
                with.row_in_place(out, *number);
            }
            Does::Time => out.fill(time.seconds()),
            Does::Series(slots) => {
                for (out, (slot, scale)) in out.iter_mut().zip(slots) {
                    *out = reading(*slot).map_or(ABSENT, |bits| scale.number(bits));
                }
            }
            Does::Windows(windows) => {
                for (out, (slot, window)) in out.iter_mut().zip(windows) {
                    *out = window.row(time, reading(*slot));
                }
            }
            Does::Math(math, operand) => {
                for (out, &value) in out.iter_mut().zip(of(*operand)) {
                    *out = if is_absent(value) { ABSENT } else { bounded(*math, value) };
                }
            }
            Does::Numbers(operator, is_bool, Of { left, right }) => {
                out.fill(value_of(*operator, *is_bool, of(*left)[0], of(*right)[0]));
            }
            Does::WithNumber(with, Of { left, right }) => with.row(of(*left), of(*right)[0], out),
            Does::Pairs(pairs, Of { left, right }) => pairs.row(of(*left), of(*right), out),
            Does::Sets(sets, Of { left, right }) => sets.row(of(*left), of(*right), out),
            Does::Groups(groups, operand) => groups.row(of(*operand), out),
            Does::FirstOf(chain) => chain.row(of, out),
        }
    }
}

/// Where the bounds of `clamp` are in the wrong order, nothing is between them.
fn bounded(math: Math, value: f64) -> f64 {
    match math {
        Math::Clamp(low, high) if low > high => ABSENT,
        math => math.of(value),
    }
}
