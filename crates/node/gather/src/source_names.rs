//! Which source has which metric, by name alone: the metrics themselves are made when somebody asks for them.

use khz_model::metric::Text;

use crate::source_set::SourceSet;

/// The names of all metrics that are known before they are read, each with the place of its source.
pub(crate) struct SourceNames {
    /// Sorted by name.
    names: Box<[(Text, u8)]>,
}

impl SourceNames {
    /// Those of the sources at these places.
    pub fn new(names: impl IntoIterator<Item = (Text, usize)>) -> Self {
        let narrow =
            |place| u8::try_from(place).unwrap_or_else(|_| unreachable!("BUG: a place beyond all sets"));
        let mut names: Box<[(Text, u8)]> =
            names.into_iter().map(|(name, place)| (name, narrow(place))).collect();
        names.sort_unstable();
        SourceNames { names }
    }

    /// The source with this metric, if one has it.
    pub fn source_of(&self, name: &str) -> Option<SourceSet> {
        let at = self.names.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(SourceSet::one(usize::from(self.names[at].1)))
    }

    /// The sources with such a metric.
    pub fn sources_with(&self, is_wanted: impl Fn(&str) -> bool) -> SourceSet {
        let mut found = SourceSet::default();
        for (name, place) in &self.names {
            let place = usize::from(*place);
            if !found.has(place) && is_wanted(name) {
                found = found | SourceSet::one(place);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_source_and_others_have_none() {
        let names = [("mem.free", 1), ("cpu.user", 0), ("mem.total", 1), ("khz.agents", 127)];
        let names = SourceNames::new(names.map(|(name, place)| (Text::from(name), place)));
        for (name, place) in [("cpu.user", 0), ("mem.free", 1), ("mem.total", 1), ("khz.agents", 127)] {
            assert_eq!(names.source_of(name), Some(SourceSet::one(place)), "{name}");
        }
        assert_eq!(names.source_of("mem"), None);
        let of_memory = names.sources_with(|name| name.starts_with("mem."));
        assert_eq!(of_memory, SourceSet::one(1));
        assert_eq!(names.sources_with(|_| true).len(), 3);
        assert!(names.sources_with(|name| name == "mem").is_empty());
    }
}
