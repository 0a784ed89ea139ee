//! Operators between series, and between series and numbers. Which series belong together is found when the plan is bound.

use std::collections::HashMap;

use crate::error::PlanError;
use crate::labels::LabelSet;
use crate::number::{ABSENT, is_absent};
use crate::plan::{Combine, Many, Operator, StepId};

/// Each value of a vector with a number.
#[derive(Clone, Debug)]
pub(crate) struct WithNumber {
    operator: Operator,
    is_bool: bool,
    is_number_left: bool,
}

/// Pairs of values.
#[derive(Debug)]
pub(crate) struct Pairs {
    operator: Operator,
    is_bool: bool,
    /// For each result the places of its left and its right value.
    pairs: Vec<(u32, u32)>,
}

/// Values that are kept because other values exist, or do not exist.
#[derive(Debug)]
pub(crate) struct Sets {
    operator: Operator,
    /// For each result its place on the left, its place on the right, and its match group.
    results: Vec<(Option<u32>, Option<u32>, u32)>,
    /// The group of each value of the side that is looked at.
    left: Vec<u32>,
    right: Vec<u32>,
    /// For each group whether a value of the side is there: scratch of a row.
    is_there: Vec<[bool; 2]>,
}

/// The labels of a result: all labels of the operand for a comparison without bool, otherwise all
/// but the name.
fn named(combine: &Combine, labels: &LabelSet) -> LabelSet {
    if combine.operator.compares() && !combine.is_bool { labels.clone() } else { labels.unnamed() }
}

impl WithNumber {
    pub fn bind(combine: &Combine, vector: &[LabelSet], is_number_left: bool) -> (Self, Vec<LabelSet>) {
        let Combine { operator, is_bool, .. } = *combine;
        let labels = vector.iter().map(|labels| named(combine, labels)).collect();
        (WithNumber { operator, is_bool, is_number_left }, labels)
    }

    pub fn row(&self, vector: &[f64], number: f64, out: &mut [f64]) {
        out.copy_from_slice(vector);
        self.row_in_place(out, number);
    }

    /// The same with the vector where the result is to be.
    #[inline]
    pub fn row_in_place(&self, values: &mut [f64], number: f64) {
        for out in values {
            let value = *out;
            let (left, right) = if self.is_number_left { (number, value) } else { (value, number) };
            *out = match is_absent(value) {
                true => ABSENT,
                // A comparison keeps the value of the series, whatever side it is on.
                false if self.operator.compares() && !self.is_bool => {
                    self.operator.apply(left, right).map_or(ABSENT, |_| value)
                }
                false => value_of(self.operator, self.is_bool, left, right),
            };
        }
    }
}

/// The value for two values.
pub(crate) fn value_of(operator: Operator, is_bool: bool, left: f64, right: f64) -> f64 {
    let value = operator.apply(left, right);
    match operator.compares() && is_bool {
        true => f64::from(u8::from(value.is_some())),
        false => value.unwrap_or(ABSENT),
    }
}

impl Pairs {
    pub fn bind(
        step: StepId,
        combine: &Combine,
        left: &[LabelSet],
        right: &[LabelSet],
    ) -> Result<(Self, Vec<LabelSet>), PlanError> {
        let matching = &combine.matching;
        let is_swapped = matching.many == Many::Right;
        let (many, one) = if is_swapped { (right, left) } else { (left, right) };
        let mut ones: HashMap<LabelSet, u32> = HashMap::new();
        let ambiguous = |labels: &LabelSet| PlanError::Ambiguous { step, labels: labels.to_string() };
        for (place, labels) in one.iter().enumerate() {
            let signature = labels.group(&matching.grouping);
            if ones.insert(signature.clone(), place as u32).is_some() {
                return Err(ambiguous(&signature));
            }
        }
        let (mut pairs, mut all, mut met) = (Vec::new(), Vec::new(), HashMap::new());
        for (place, labels) in many.iter().enumerate() {
            let signature = labels.group(&matching.grouping);
            let Some(&partner) = ones.get(&signature) else { continue };
            if matching.many == Many::Neither && met.insert(partner, ()).is_some() {
                return Err(ambiguous(&signature));
            }
            let mut result = named(combine, labels);
            if matching.many == Many::Neither {
                result = match matching.grouping.is_without {
                    // The name stays where a comparison keeps it.
                    true => result.without(&matching.grouping.labels),
                    false => result.group(&matching.grouping),
                };
            }
            all.push(result.with(&matching.include, &one[partner as usize]));
            let place = place as u32;
            pairs.push(if is_swapped { (partner, place) } else { (place, partner) });
        }
        Ok((Pairs { operator: combine.operator, is_bool: combine.is_bool, pairs }, all))
    }

    pub fn row(&self, left: &[f64], right: &[f64], out: &mut [f64]) {
        for (out, &(one, two)) in out.iter_mut().zip(&self.pairs) {
            let (left, right) = (left[one as usize], right[two as usize]);
            *out = match is_absent(left) || is_absent(right) {
                true => ABSENT,
                false => value_of(self.operator, self.is_bool, left, right),
            };
        }
    }
}

impl Sets {
    pub fn bind(combine: &Combine, left: &[LabelSet], right: &[LabelSet]) -> (Self, Vec<LabelSet>) {
        let mut groups: HashMap<LabelSet, u32> = HashMap::new();
        let mut group = |labels: &LabelSet| {
            let next = groups.len() as u32;
            *groups.entry(labels.group(&combine.matching.grouping)).or_insert(next)
        };
        let left_groups: Vec<u32> = left.iter().map(&mut group).collect();
        let right_groups: Vec<u32> = right.iter().map(&mut group).collect();
        let is_there = vec![[false; 2]; groups.len()];
        let mut all: Vec<LabelSet> = left.to_vec();
        let of_left = left_groups.iter().enumerate();
        let mut results: Vec<_> = of_left.map(|(place, group)| (Some(place as u32), None, *group)).collect();
        if combine.operator == Operator::Or {
            let places: HashMap<(LabelSet, u32), usize> = all
                .iter()
                .cloned()
                .zip(left_groups.iter().copied())
                .enumerate()
                .map(|(place, key)| (key, place))
                .collect();
            for (place, (labels, group)) in right.iter().zip(&right_groups).enumerate() {
                // The same series on both sides: never both at a time.
                match places.get(&(labels.clone(), *group)) {
                    Some(&known) => results[known].1 = Some(place as u32),
                    None => {
                        results.push((None, Some(place as u32), *group));
                        all.push(labels.clone());
                    }
                }
            }
        }
        (Sets { operator: combine.operator, results, left: left_groups, right: right_groups, is_there }, all)
    }

    pub fn row(&mut self, left: &[f64], right: &[f64], out: &mut [f64]) {
        if self.is_there.len() == 1 && self.operator != Operator::Or {
            return self.row_of_one_group(left, right, out);
        }
        self.is_there.fill([false; 2]);
        for (side, (values, groups)) in [(left, &self.left), (right, &self.right)].into_iter().enumerate() {
            for (value, group) in values.iter().zip(groups) {
                self.is_there[*group as usize][side] |= !is_absent(*value);
            }
        }
        for (out, (one, two, group)) in out.iter_mut().zip(&self.results) {
            let [has_left, has_right] = self.is_there[*group as usize];
            let of =
                |place: &Option<u32>, values: &[f64]| place.map_or(ABSENT, |place| values[place as usize]);
            *out = match self.operator {
                Operator::And if has_right => of(one, left),
                Operator::Unless if !has_right => of(one, left),
                Operator::Or if has_left => of(one, left),
                Operator::Or => of(two, right),
                _ => ABSENT,
            };
        }
    }

    /// For an `or` whose series all match each other: the place in the result of each series of the left side and of the right
    /// side.
    pub fn places_of_or(&self) -> Option<[Box<[u32]>; 2]> {
        if self.operator != Operator::Or || self.is_there.len() != 1 {
            return None;
        }
        let mut of_right = vec![0; self.right.len()];
        for (place, (_, two, _)) in (0..).zip(&self.results) {
            if let Some(two) = two {
                of_right[*two as usize] = place;
            }
        }
        Some([(0..self.left.len() as u32).collect(), of_right.into()])
    }

    /// `and` and `unless` where all series match each other: the left side is taken, or nothing.
    #[inline]
    fn row_of_one_group(&self, left: &[f64], right: &[f64], out: &mut [f64]) {
        let has_right = right.iter().any(|&value| !is_absent(value));
        match has_right == (self.operator == Operator::And) {
            true => out.copy_from_slice(left),
            false => out.fill(ABSENT),
        }
    }
}
