//! Binds a plan to the slots of a lane: which series each step gives, and where their values come from.

use std::collections::HashSet;

use khz_model::{Nanos, NodeName, Series};

use crate::aggregate::Groups;
use crate::bound::{Bound, Does, Of};
use crate::combine::{Pairs, Sets, WithNumber};
use crate::error::{PlanError, most};
use crate::labels::LabelSet;
use crate::limits::{SERIES_MAX, WINDOWS_BYTES, WORK_MAX};
use crate::number::Scale;
use crate::plan::{Combine, Form, Over, Plan, Selector, Step, StepId};
use crate::types::Gives;
use crate::window::{self, Window};

/// The labels that say which node a series is of.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The label `instance`.
    pub node: &'a NodeName,
    /// The label `job`.
    pub job: &'a str,
}

/// A plan on its way.
struct Binding<'a> {
    series: &'a [Series],
    identity: Identity<'a>,
    period: Nanos,
    gives: Vec<Gives>,
    /// The labels of what each step gives; a number has none.
    labels: Vec<Vec<LabelSet>>,
    /// Bytes of all windows.
    bytes: usize,
}

impl Bound {
    /// Binds a plan to the series of a lane, of which a row comes each period. It allocates everything that rows will need.
    ///
    /// # Errors
    /// Returns which limit the plan exceeds on this node, or which of its series cannot be told apart.
    pub fn new(
        plan: &Plan,
        series: &[Series],
        identity: Identity<'_>,
        period: Nanos,
    ) -> Result<Self, PlanError> {
        let (gives, labels) = (plan.gives(), Vec::with_capacity(plan.steps().len()));
        let mut binding = Binding { series, identity, period, gives, labels, bytes: 0 };
        let mut does = Vec::with_capacity(plan.steps().len());
        let mut work = 0;
        for (number, step) in plan.steps().iter().enumerate() {
            let id = StepId(number as u16);
            let (done, labels) = binding.step(id, step)?;
            work += labels.len();
            most("series in one step", labels.len(), SERIES_MAX)?;
            most("series in all steps", work, WORK_MAX)?;
            refuse_twins(id, &labels)?;
            does.push(done);
            binding.labels.push(labels);
        }
        let numbers = binding.gives.iter().map(|gives| *gives == Gives::Scalar);
        let counts = binding.labels.iter().map(Vec::len).zip(numbers);
        let counts = counts.map(|(count, is_number)| if is_number { 1 } else { count }).collect();
        let labels = binding.labels.pop().unwrap_or_default();
        Ok(Bound::of(does, counts, labels, binding.bytes))
    }
}

impl Bound {
    /// The numbers of some series of a lane, or a function of a window of each. Each keeps its name.
    ///
    /// # Errors
    /// The same as of [`Bound::new`].
    pub(crate) fn each(
        over: Option<(Over, Nanos)>,
        series: &[Series],
        is_meant: impl Fn(&Series) -> bool + Copy,
        identity: Identity<'_>,
        period: Nanos,
    ) -> Result<Self, PlanError> {
        let any = Selector { form: Form::Own, conditions: Vec::new() };
        let mut binding =
            Binding { series, identity, period, gives: Vec::new(), labels: Vec::new(), bytes: 0 };
        let (does, labels) = match over {
            None => binding.selected(&any, is_meant),
            Some((over, length)) => {
                let (mut does, labels) = binding.window(&any, is_meant, length, over)?;
                if let Does::Windows(windows) = &mut does {
                    windows.iter_mut().for_each(|(_, window)| window.join(period));
                }
                (does, labels)
            }
        };
        most("series in one step", labels.len(), SERIES_MAX)?;
        Ok(Bound::of(vec![does], vec![labels.len()], labels, binding.bytes))
    }
}

impl Binding<'_> {
    fn is_number(&self, id: StepId) -> bool {
        self.gives[usize::from(id.0)] == Gives::Scalar
    }

    fn of(&self, id: StepId) -> &[LabelSet] {
        &self.labels[usize::from(id.0)]
    }

    fn step(&mut self, id: StepId, step: &Step) -> Result<(Does, Vec<LabelSet>), PlanError> {
        Ok(match step {
            Step::Number(number) => (Does::Number(*number), Vec::new()),
            Step::Time => (Does::Time, Vec::new()),
            Step::Series(selector) => self.selected(selector, |_| true),
            Step::Window { selector, length, over } => {
                let (windows, labels) = self.window(selector, |_| true, *length, *over)?;
                let keeps_name = matches!(over, Over::First | Over::Last);
                (windows, if keeps_name { labels } else { labels.iter().map(LabelSet::unnamed).collect() })
            }
            // A function drops the name, and so does `-`.
            Step::Math(math, of) => {
                (Does::Math(*math, *of), self.of(*of).iter().map(LabelSet::unnamed).collect())
            }
            Step::Combine(combine) => self.combine(id, combine)?,
            Step::Aggregate(aggregate) => {
                let (groups, labels) = Groups::bind(aggregate, self.of(aggregate.of));
                (Does::Groups(groups, aggregate.of), labels)
            }
        })
    }

    /// The series that a selector selects, out of the series for which `is_meant` is true.
    fn meant(
        &self,
        selector: &Selector,
        is_meant: impl Fn(&Series) -> bool,
    ) -> impl Iterator<Item = (u32, Scale, &Series, LabelSet)> {
        let slots = self.series.iter().enumerate().filter(move |(_, series)| is_meant(series));
        slots.filter_map(move |(slot, series)| {
            let labels = selector.labels(series, self.identity)?;
            Some((slot as u32, Scale::of(selector.form, &series.metric), series, labels))
        })
    }

    fn selected(&self, selector: &Selector, is_meant: impl Fn(&Series) -> bool) -> (Does, Vec<LabelSet>) {
        let meant = self.meant(selector, is_meant).map(|(slot, scale, _, labels)| ((slot, scale), labels));
        let (slots, labels) = meant.unzip();
        (Does::Series(slots), labels)
    }

    /// Windows of the series that a selector means, with the labels that these have.
    fn window(
        &mut self,
        selector: &Selector,
        is_meant: impl Fn(&Series) -> bool + Copy,
        length: Nanos,
        over: Over,
    ) -> Result<(Does, Vec<LabelSet>), PlanError> {
        let rows = window::rows(length, self.period);
        let each = window::bytes(over, rows);
        // Checked before any window is created.
        let count = self.meant(selector, is_meant).count();
        let bytes = self.bytes.saturating_add(count.saturating_mul(each));
        most("bytes of windows", bytes, WINDOWS_BYTES)?;
        let windows = self.meant(selector, is_meant).map(|(slot, scale, series, labels)| {
            let window = Window::new(over, length, scale, series.metric.value_type, rows);
            ((slot, window), labels)
        });
        let (windows, labels) = windows.unzip();
        self.bytes = bytes;
        Ok((Does::Windows(windows), labels))
    }

    fn combine(&self, id: StepId, combine: &Combine) -> Result<(Does, Vec<LabelSet>), PlanError> {
        let Combine { left, right, operator, is_bool, .. } = *combine;
        let of = Of { left, right };
        Ok(match (self.is_number(left), self.is_number(right)) {
            (true, true) => (Does::Numbers(operator, is_bool, of), Vec::new()),
            (false, true) => {
                let (bound, labels) = WithNumber::bind(combine, self.of(left), false);
                (Does::WithNumber(bound, Of { left, right }), labels)
            }
            (true, false) => {
                let (bound, labels) = WithNumber::bind(combine, self.of(right), true);
                // The vector first.
                (Does::WithNumber(bound, Of { left: right, right: left }), labels)
            }
            (false, false) if operator.is_of_sets() => {
                let (sets, labels) = Sets::bind(combine, self.of(left), self.of(right));
                (Does::Sets(sets, of), labels)
            }
            (false, false) => {
                let (pairs, labels) = Pairs::bind(id, combine, self.of(left), self.of(right))?;
                (Does::Pairs(pairs, of), labels)
            }
        })
    }
}

fn refuse_twins(step: StepId, labels: &[LabelSet]) -> Result<(), PlanError> {
    let mut known = HashSet::with_capacity(labels.len());
    match labels.iter().find(|labels| !known.insert(*labels)) {
        Some(twin) => Err(PlanError::Twins { step, labels: twin.to_string() }),
        None => Ok(()),
    }
}
