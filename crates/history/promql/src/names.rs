//! The names that a regular expression fits, if it fits only some: an alternation of names, also within groups, with classes and
//! repetitions of few signs. It gives no part of the names: if there are too many, it gives none.

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use crate::limits::REGEX_BYTES_MAX;

/// Names that an expression without alternatives may have, as `node[1-3][0-9]`: above it the expression itself is shorter.
const EXPANDED_MAX: usize = 256;
/// Bytes that a name takes in a set, besides its own.
const NAME_BYTES: usize = 64;
/// Bytes of all names that are made on the way, also of parts: a hundred thousand of some bytes take ten milliseconds.
const MADE_BYTES_MAX: usize = 8 * REGEX_BYTES_MAX;

/// The place of an expression in the whole text: whether it is at its beginning, and at its end.
#[derive(Clone, Copy)]
struct Place {
    begins: bool,
    ends: bool,
}

const INSIDE: Place = Place { begins: false, ends: false };

/// The names that an expression of this many bytes fits; `None`: too many, or it cannot be said.
pub(crate) fn names(expression: &Hir, bytes: usize) -> Option<Vec<Vec<u8>>> {
    let most = bytes.max(EXPANDED_MAX);
    Finder { most, made: 0 }.of(expression, Place { begins: true, ends: true })
}

struct Finder {
    /// Names at most; an alternation never has more than its text has bytes.
    most: usize,
    /// Bytes of the names that it has made.
    made: usize,
}

impl Finder {
    fn of(&mut self, expression: &Hir, place: Place) -> Option<Vec<Vec<u8>>> {
        match expression.kind() {
            HirKind::Empty => Some(vec![Vec::new()]),
            HirKind::Literal(literal) => Some(vec![literal.0.to_vec()]),
            HirKind::Class(class) => self.class(class),
            // Values are compared whole.
            HirKind::Look(Look::Start) if place.begins => Some(vec![Vec::new()]),
            HirKind::Look(Look::End) if place.ends => Some(vec![Vec::new()]),
            HirKind::Look(_) => None,
            HirKind::Repetition(repetition) => self.repeated(repetition),
            HirKind::Capture(group) => self.of(&group.sub, place),
            HirKind::Concat(parts) => self.joined(parts, place),
            HirKind::Alternation(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    let names = self.of(part, place)?;
                    self.room(all.len() + names.len(), bytes(&names))?;
                    all.extend(names);
                }
                Some(all)
            }
        }
    }

    fn class(&mut self, class: &Class) -> Option<Vec<Vec<u8>>> {
        let signs: Vec<char> = match class {
            Class::Unicode(class) => {
                class.iter().flat_map(|range| range.start()..=range.end()).take(self.most + 1).collect()
            }
            Class::Bytes(class) => {
                class.iter().flat_map(|range| range.start()..=range.end()).map(char::from).collect()
            }
        };
        let all: Vec<Vec<u8>> = signs.into_iter().map(|sign| sign.to_string().into_bytes()).collect();
        self.room(all.len(), bytes(&all))?;
        Some(all)
    }

    fn repeated(&mut self, repetition: &Repetition) -> Option<Vec<Vec<u8>>> {
        let most = repetition.max.filter(|&most| most as usize <= EXPANDED_MAX)?;
        let once = self.of(&repetition.sub, INSIDE)?;
        let (mut all, mut times) = (Vec::new(), vec![Vec::new()]);
        for time in 0..=most {
            if time >= repetition.min {
                self.room(all.len() + times.len(), bytes(&times))?;
                all.extend_from_slice(&times);
            }
            if time < most {
                times = self.product(&times, &once)?;
            }
        }
        Some(all)
    }

    fn joined(&mut self, parts: &[Hir], place: Place) -> Option<Vec<Vec<u8>>> {
        let is_look = |part: &Hir| matches!(part.kind(), HirKind::Look(_));
        let first = parts.iter().take_while(|part| is_look(part)).count();
        let last = parts.len() - parts.iter().rev().take_while(|part| is_look(part)).count();
        let mut all = vec![Vec::new()];
        for (at, part) in parts.iter().enumerate() {
            let place = Place { begins: place.begins && at <= first, ends: place.ends && at + 1 >= last };
            let names = self.of(part, place)?;
            all = self.product(&all, &names)?;
        }
        Some(all)
    }

    /// Each of the first with each of the second after it.
    fn product(&mut self, first: &[Vec<u8>], second: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
        let count = first.len().checked_mul(second.len())?;
        self.room(
            count,
            own_bytes(first) * second.len() + own_bytes(second) * first.len() + count * NAME_BYTES,
        )?;
        let mut all: Vec<Vec<u8>> =
            first.iter().flat_map(|begin| second.iter().map(move |end| [&begin[..], end].concat())).collect();
        // So that names do not become more with each repetition of the same.
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    /// Whether there is room for this many names; the new ones have these bytes.
    fn room(&mut self, count: usize, bytes: usize) -> Option<()> {
        self.made = self.made.saturating_add(bytes);
        (count <= self.most
            && count * NAME_BYTES <= REGEX_BYTES_MAX
            && bytes <= REGEX_BYTES_MAX
            && self.made <= MADE_BYTES_MAX)
            .then_some(())
    }
}

fn own_bytes(all: &[Vec<u8>]) -> usize {
    all.iter().map(Vec::len).sum()
}

fn bytes(all: &[Vec<u8>]) -> usize {
    own_bytes(all) + all.len() * NAME_BYTES
}
