//! Joins steps of a plan that is bound, so that a row needs fewer of them: a comparison with a number is done in the step that
//! gives the series, and a chain of `or` is one step. The results are the same.

use crate::bound::{Does, Of};
use crate::number::{ABSENT, is_absent};
use crate::plan::StepId;

/// The series of the first step that has any, of several whose series all match each other.
#[derive(Debug)]
pub(crate) struct FirstOf(Vec<Operand>);

#[derive(Debug)]
struct Operand {
    step: StepId,
    /// The place of each of its series in the result.
    places: Box<[u32]>,
}

impl FirstOf {
    #[inline]
    pub fn row<'s>(&self, of: impl Fn(StepId) -> &'s [f64], out: &mut [f64]) {
        out.fill(ABSENT);
        for Operand { step, places } in &self.0 {
            let values = of(*step);
            if values.iter().any(|&value| !is_absent(value)) {
                values.iter().zip(places).for_each(|(&value, &place)| out[place as usize] = value);
                return;
            }
        }
    }
}

/// Joins steps: some steps then also do the work of others.
pub(crate) fn join(mut does: Vec<Does>) -> Vec<Does> {
    let mut uses = vec![0u32; does.len()];
    does.iter().flat_map(Does::operands).for_each(|id| uses[usize::from(id.0)] += 1);
    for step in 0..does.len() {
        let is_joined = join_comparison(&mut does, &uses, step);
        if !is_joined {
            join_chain(&mut does, &uses, step);
        }
    }
    does
}

/// Joins a comparison of what only it uses, and that comes from the row, with a number.
fn join_comparison(does: &mut [Does], uses: &[u32], step: usize) -> bool {
    let Does::WithNumber(with, Of { left, right }) = &does[step] else { return false };
    let (with, left, right) = (with.clone(), usize::from(left.0), usize::from(right.0));
    let Does::Number(number) = does[right] else { return false };
    if uses[left] != 1 || !matches!(does[left], Does::Series(_) | Does::Windows(_)) {
        return false;
    }
    let gives = std::mem::replace(&mut does[left], Does::Joined);
    does[step] = Does::Compared(Box::new(gives), with, number);
    true
}

/// Makes an `or` a chain. If its left side is a chain that only it uses, it extends that chain.
fn join_chain(does: &mut [Does], uses: &[u32], step: usize) {
    let Does::Sets(sets, Of { left, right }) = &does[step] else { return };
    let (left, right) = (*left, *right);
    let Some([of_left, of_right]) = sets.places_of_or() else { return };
    let right = Operand { step: right, places: of_right };
    let is_own_chain =
        uses[usize::from(left.0)] == 1 && matches!(does[usize::from(left.0)], Does::FirstOf(_));
    let mut operands = match is_own_chain {
        // The places of the left side come first in the result, so those of its operands stay.
        true => match std::mem::replace(&mut does[usize::from(left.0)], Does::Joined) {
            Does::FirstOf(FirstOf(operands)) => operands,
            _ => Vec::new(),
        },
        false => vec![Operand { step: left, places: of_left }],
    };
    operands.push(right);
    does[step] = Does::FirstOf(FirstOf(operands));
}
