//! Sums of processes by the name of their program.

use std::collections::{HashMap, HashSet};

/// The sums of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// Hundredths of a second of CPU since the look before.
    pub ticks: u64,
    pub pages: u64,
    /// Bytes since the look before.
    pub moved: u64,
    pub processes: u64,
    pub threads: u64,
}

/// The sums of all programs at one look.
#[derive(Default)]
pub(super) struct Programs<'a> {
    sums: HashMap<&'a [u8], Sum>,
}

impl<'a> Programs<'a> {
    pub fn add(&mut self, command: &'a [u8], is_kernel: bool, one: Sum) {
        let sum = self.sums.entry(program(command, is_kernel)).or_default();
        sum.ticks += one.ticks;
        sum.pages = sum.pages.saturating_add(one.pages);
        sum.moved = sum.moved.saturating_add(one.moved);
        sum.processes += one.processes;
        sum.threads += one.threads;
    }

    /// The `count` programs with the most CPU time, those with the most memory, and those with the most input and output, in the order of
    /// their names.
    pub fn largest(&self, count: usize) -> Vec<(&'a [u8], Sum)> {
        let mut chosen = HashSet::new();
        let measures: [fn(&Sum) -> u64; 3] = [|sum| sum.ticks, |sum| sum.pages, |sum| sum.moved];
        for measure in measures {
            let mut by: Vec<(u64, &[u8])> =
                self.sums.iter().map(|(name, sum)| (measure(sum), *name)).collect();
            by.retain(|(amount, _)| *amount > 0);
            by.sort_unstable_by_key(|(amount, name)| (u64::MAX - amount, *name));
            chosen.extend(by.into_iter().take(count).map(|(_, name)| name));
        }
        let mut largest: Vec<(&[u8], Sum)> =
            self.sums.iter().filter(|(name, _)| chosen.contains(*name)).map(|(n, s)| (*n, *s)).collect();
        largest.sort_unstable_by_key(|(name, _)| *name);
        largest
    }
}

/// The name of a program. Each kernel thread has its own name, such as `kworker/3:1-events`. The part before the slash is common to
/// its kind.
fn program(command: &[u8], is_kernel: bool) -> &[u8] {
    match command.iter().position(|&byte| byte == b'/').filter(|at| is_kernel && *at > 0) {
        Some(slash) => &command[..slash],
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_summed_and_the_largest_of_each_kind_are_shown() {
        let one = |ticks, pages, moved| Sum { ticks, pages, moved, processes: 1, threads: 2 };
        let mut programs = Programs::default();
        programs.add(b"a/b", false, one(5, 0, 0));
        programs.add(b"kworker/1:1", true, one(1, 0, 0));
        programs.add(b"kworker/u8:3-events", true, one(2, 0, 0));
        programs.add(b"large", false, one(0, 9, 0));
        programs.add(b"larger", false, one(0, 10, 0));
        programs.add(b"mover", false, one(0, 1, u64::MAX));
        programs.add(b"mover", false, one(0, 1, 1));
        programs.add(b"idle", false, one(0, 0, 0));
        let names = |count| programs.largest(count).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(1), [b"a/b".as_slice(), b"larger", b"mover"]);
        assert_eq!(names(9), [b"a/b".as_slice(), b"kworker", b"large", b"larger", b"mover"]);
        let all = programs.largest(9);
        assert_eq!(all[1].1, Sum { ticks: 3, pages: 0, moved: 0, processes: 2, threads: 4 });
        assert_eq!(all[4].1.moved, u64::MAX);
    }
}
