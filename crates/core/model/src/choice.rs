//! Which nodes some patterns select, prepared for thousands of nodes: names that are spelled out are looked
//! up, and only the rest is compared. Ignores metrics.

use std::collections::HashMap;
use std::sync::Arc;

use crate::hostlist::Hostlist;
use crate::name::is_owner;
use crate::pattern::Pattern;

/// Most names of one choice to look up: thirty racks. Further hostlists are compared. Names cost memory for
/// each reader, comparisons cost time for each node.
pub const NAMED_MAX: usize = 1_024;

/// The node parts of some patterns.
#[derive(Debug)]
pub struct Choice {
    patterns: Arc<[Pattern]>,
    /// Patterns that select every node.
    of_all: Vec<u32>,
    /// Names, each with the patterns that spell it out.
    named: HashMap<Box<str>, Vec<u32>>,
    /// Patterns that are compared with a node's name.
    compared: Vec<u32>,
    /// The number of their hosts: comparisons for one node.
    hosts: usize,
}

impl Choice {
    /// Prepares these patterns.
    pub fn new(patterns: Arc<[Pattern]>) -> Self {
        let mut choice = Choice {
            patterns: patterns.clone(),
            of_all: Vec::new(),
            named: HashMap::new(),
            compared: Vec::new(),
            hosts: 0,
        };
        let mut room = NAMED_MAX as u64;
        for (number, pattern) in (0..).zip(&*patterns) {
            match pattern.nodes() {
                None => choice.of_all.push(number),
                Some(hosts) => match hosts.names().filter(|&names| names <= room) {
                    Some(names) => {
                        room -= names;
                        choice.name(number, hosts);
                    }
                    None => {
                        choice.compared.push(number);
                        choice.hosts += hosts.hosts();
                    }
                },
            }
        }
        choice
    }

    fn name(&mut self, number: u32, hosts: &Hostlist) {
        for name in hosts.named() {
            self.named.entry(name.into()).or_default().push(number);
        }
    }

    /// The patterns.
    pub fn patterns(&self) -> &Arc<[Pattern]> {
        &self.patterns
    }

    /// The numbers of the patterns that select a node, in order; none where no pattern does.
    pub fn speaking(&self, node: &str) -> Vec<u32> {
        // A pattern without nodes means no owner of recorded series.
        let mut speaking = if is_owner(node) { Vec::new() } else { self.of_all.clone() };
        speaking.extend(self.named.get(node).into_iter().flatten());
        let speaks = |&&number: &&u32| self.patterns[number as usize].matches_node(node);
        speaking.extend(self.compared.iter().filter(speaks));
        speaking.sort_unstable();
        speaking
    }

    /// Every node that can be selected, if all patterns spell out their names: no other node needs a check.
    pub fn names(&self) -> Option<impl ExactSizeIterator<Item = &str>> {
        let is_named = self.of_all.is_empty() && self.compared.is_empty();
        is_named.then(|| self.named.keys().map(|name| &**name))
    }

    /// Comparisons for one node.
    pub fn cost(&self) -> usize {
        1 + self.hosts
    }

    /// Roughly the bytes that it holds.
    pub fn held(&self) -> usize {
        let entry = size_of::<(Box<str>, Vec<u32>)>();
        let names = self.named.iter();
        let named = names.map(|(name, numbers)| entry + name.len() + numbers.capacity() * size_of::<u32>());
        let patterns = self.patterns.iter().map(|pattern| pattern.to_string().len() * TEXT_COMPILED);
        named.sum::<usize>() + patterns.sum::<usize>()
    }
}

/// A byte of a pattern takes at most this many bytes when compiled: `a,` is a host with a text and a part.
const TEXT_COMPILED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn choice(patterns: &[&str]) -> Choice {
        Choice::new(patterns.iter().map(|text| Pattern::new(text).unwrap()).collect())
    }

    #[test]
    fn names_that_are_written_out_are_looked_up_and_nothing_is_compared() {
        for patterns in [&["n1:mem.*"][..], &["n[0-31]:load.1m"], &["n1,n[3-5],gpu[01-16]:*", "n1:cpu.*[0]"]]
        {
            let choice = choice(patterns);
            assert_eq!(choice.cost(), 1, "{patterns:?}");
            assert!(choice.names().is_some_and(|names| names.len() <= 32), "{patterns:?}");
        }
        for patterns in [&["mem.*"][..], &["n*:mem.*"], &["n1:mem.*", "n?:load.*"], &["n[0-99999]:mem.*"]] {
            assert!(choice(patterns).names().is_none(), "{patterns:?}");
        }
    }

    #[test]
    fn names_of_many_patterns_share_the_room_of_one() {
        let texts: Vec<String> =
            (0..64).map(|n| format!("n[{}-{}]:mem.*", n * 1_000, n * 1_000 + 999)).collect();
        let choice = choice(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(choice.named.len() <= NAMED_MAX && choice.cost() == 64, "{}", choice.cost());
        assert_eq!((choice.speaking("n5"), choice.speaking("n63999")), (vec![0], vec![63]));
    }

    #[test]
    fn the_cost_of_a_node_counts_every_compared_host() {
        assert_eq!(choice(&["a*,b*,c?:mem.*", "load.*", "n7:x"]).cost(), 4);
    }

    proptest! {
        #[test]
        fn a_choice_selects_what_its_patterns_select(
            patterns in prop::collection::vec("(n[0-3]|n\\[0-2\\]|n\\*|g\\?|n1,g\\[1,3\\]|n\\[0-9999\\])?", 0..6),
            node in "[ng][0-3]",
        ) {
            let pattern = |hosts: &String| {
                let text = if hosts.is_empty() { "mem.*".into() } else { format!("{hosts}:mem.*") };
                Pattern::new(&text).unwrap()
            };
            let patterns: Arc<[Pattern]> = patterns.iter().map(pattern).collect();
            let expected: Vec<u32> =
                (0..).zip(&*patterns).filter(|(_, p)| p.matches_node(&node)).map(|(number, _)| number).collect();
            let choice = Choice::new(patterns.clone());
            prop_assert_eq!(choice.speaking(&node), expected.clone());
            if let Some(mut names) = choice.names() {
                prop_assert_eq!(names.any(|name| name == node), !expected.is_empty());
            }
        }
    }
}
