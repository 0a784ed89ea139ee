//! What the past has had of each pattern, and of each host of its list: whatever it lacks, the command names at the end. Reads
//! nothing itself.

use std::collections::HashSet;

use khz_model::Pattern;
use khz_model::fold::fold;
use khz_model::hostlist::{EXPAND_MAX, Hostlist};

/// What was found until now.
#[derive(Clone, Debug)]
pub struct Found(Vec<OfPattern>);

/// What was found of one pattern.
#[derive(Clone, Debug)]
struct OfPattern {
    pattern: Pattern,
    is_found: bool,
    /// Hosts that its list names and of which there was something.
    hosts: HashSet<String>,
    /// The other parts of its list, as `login*`, and whether there was something of one of their nodes.
    globs: Vec<(Hostlist, bool)>,
}

impl Found {
    /// Nothing so far.
    pub fn new(patterns: &[Pattern]) -> Self {
        let mut room = EXPAND_MAX;
        Found(patterns.iter().map(|pattern| OfPattern::new(pattern, &mut room)).collect())
    }

    /// Something has come of this node; `selects` says whether a pattern selects it.
    pub fn take(&mut self, node: &str, mut selects: impl FnMut(&Pattern) -> bool) {
        for one in &mut self.0 {
            if one.awaits(node) && one.pattern.matches_node(node) && selects(&one.pattern) {
                one.take(node);
            }
        }
    }

    /// Adds what another answer to the same patterns has had.
    pub fn add(&mut self, other: &Found) {
        for (one, other) in self.0.iter_mut().zip(&other.0) {
            one.is_found |= other.is_found;
            one.hosts.extend(other.hosts.iter().cloned());
            for ((_, is_found), (_, was_found)) in one.globs.iter_mut().zip(&other.globs) {
                *is_found |= was_found;
            }
        }
    }

    /// True if no pattern has selected anything.
    pub fn is_nothing(&self) -> bool {
        self.0.iter().all(|one| !one.is_found)
    }

    /// The patterns that have selected nothing; of the others the part with those hosts of their lists of which there was
    /// nothing.
    pub fn lacking(&self) -> Vec<Pattern> {
        let mut room = EXPAND_MAX;
        self.0.iter().filter_map(|one| one.lacking(&mut room)).collect()
    }
}

impl OfPattern {
    fn new(pattern: &Pattern, room: &mut usize) -> Self {
        let globs = pattern.nodes().map_or_else(Vec::new, |hosts| {
            let globs = hosts.beyond(*room).into_iter().map(|glob| (glob, false)).collect();
            hosts.named_within(room);
            globs
        });
        OfPattern { pattern: pattern.clone(), is_found: false, hosts: HashSet::new(), globs }
    }

    /// False if something of this node says nothing new.
    fn awaits(&self, node: &str) -> bool {
        !self.is_found || self.pattern.nodes().is_some() && !self.hosts.contains(node)
    }

    fn take(&mut self, node: &str) {
        self.is_found = true;
        if self.pattern.nodes().is_some() {
            self.hosts.insert(node.to_owned());
        }
        self.globs.iter_mut().for_each(|(glob, is_found)| *is_found |= glob.matches(node));
    }

    fn lacking(&self, room: &mut usize) -> Option<Pattern> {
        if !self.is_found {
            return Some(self.pattern.clone());
        }
        let hosts = self.pattern.nodes()?;
        let mut names = hosts.named_within(room);
        names.retain(|name| !self.hosts.contains(name));
        let mut globs = self.globs.iter().filter(|(_, is_found)| !is_found).map(|(glob, _)| glob.to_string());
        loop {
            let named = (!names.is_empty()).then(|| fold(&names));
            let hosts: Vec<String> = named.into_iter().chain(globs.by_ref()).collect();
            if hosts.is_empty() {
                return None;
            }
            match Pattern::new(&format!("{}:{}", hosts.join(","), self.pattern.series())) {
                Ok(pattern) => return Some(pattern),
                // The names may be longer one by one than as they were written: then some of them must do.
                Err(_) => names.truncate(names.len() / 2),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| Pattern::new(text).unwrap()).collect()
    }

    fn lacking(found: &Found) -> Vec<String> {
        found.lacking().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn hosts_of_a_list_of_which_there_is_nothing_are_lacking_like_patterns() {
        let mut found =
            Found::new(&patterns(&["n[1-3,88],login*,gpu*:load.1m", "mem.free", "n1:disk.*", "n9:cpu.*[0]"]));
        assert!(found.is_nothing());
        let series = |name: &'static str| move |pattern: &Pattern| pattern.matches_series(name, None);
        found.take("n1", series("load.1m"));
        found.take("login7", series("load.1m"));
        found.take("n2", series("mem.free"));
        assert!(!found.is_nothing());
        assert_eq!(lacking(&found), ["n[2-3,88],gpu*:load.1m", "n1:disk.*", "n9:cpu.*[0]"]);
        let mut later =
            Found::new(&patterns(&["n[1-3,88],login*,gpu*:load.1m", "mem.free", "n1:disk.*", "n9:cpu.*[0]"]));
        later.take("n3", series("load.1m"));
        later.take("gpu1", series("load.1m"));
        found.add(&later);
        assert_eq!(lacking(&found), ["n[2,88]:load.1m", "n1:disk.*", "n9:cpu.*[0]"]);
    }

    #[test]
    fn a_pattern_without_hosts_lacks_nothing_once_it_has_selected_something() {
        let mut found = Found::new(&patterns(&["load.1m"]));
        found.take("n1", |pattern| pattern.matches_series("load.1m", None));
        assert!(lacking(&found).is_empty());
    }
}
