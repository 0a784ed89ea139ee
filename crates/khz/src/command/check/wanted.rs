//! What somebody asks `khz check` for: names of sources as its table has them, and patterns of metrics. It tries nothing.

use khz_model::{Nanos, Pattern, suggest};
use khz_parse::{KernelFile, KnownFiles};

use crate::show::outcome::Failure;

/// The sources that are wanted; without a word, all.
pub struct Wanted {
    words: Vec<String>,
    sources: Vec<&'static str>,
    patterns: Vec<Pattern>,
}

impl Wanted {
    /// Reads the words of the command line. A word that is the name of a source is no pattern.
    pub fn read(words: &[String], known: &KnownFiles) -> Result<Self, Failure> {
        let source = |word: &String| known.named(word).map(|file| file.name);
        let sources = words.iter().filter_map(source).collect();
        let patterns: Vec<String> = words.iter().filter(|word| source(word).is_none()).cloned().collect();
        let patterns = crate::command::patterns(&patterns)?;
        Ok(Wanted { words: words.to_vec(), sources, patterns })
    }

    /// How far apart reads of the file may be; 0: every tick. `None`: nothing of it is wanted.
    pub fn refresh_of(&self, file: &KernelFile) -> Option<Nanos> {
        if self.words.is_empty() || self.sources.contains(&file.name) {
            file.refresh_for(&[Pattern::everything()])
        } else {
            file.refresh_for(&self.patterns)
        }
    }

    /// The error where no source is selected.
    pub fn selects_nothing(&self, known: &KnownFiles) -> Failure {
        let sources = || known.iter().map(|file| file.name);
        let hint = self.words.iter().map(|word| suggest::hint(word, sources())).find(|hint| !hint.is_empty());
        let hint = hint.unwrap_or_default();
        let words = self.words.join(", ");
        Failure::work(format!(
            "nothing matches {words}{hint}; `khz check` alone lists every source, `khz catalog` every metric"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str]) -> Wanted {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Wanted::read(&words, &KnownFiles::default()).unwrap()
    }

    fn selected(words: &[&str]) -> Vec<&'static str> {
        let wanted = wanted(words);
        let known = KnownFiles::default();
        known.iter().filter(|file| wanted.refresh_of(file).is_some()).map(|file| file.name).collect()
    }

    #[test]
    fn a_source_is_wanted_by_its_name_or_by_its_metrics() {
        assert_eq!(selected(&["filesystem"]), ["filesystem"]);
        assert_eq!(selected(&["pressure/cpu", "mem.free"]), ["meminfo", "pressure/cpu"]);
        assert_eq!(selected(&[]).len(), KnownFiles::default().iter().count());
    }

    #[test]
    fn what_selects_nothing_says_what_there_is_and_what_was_probably_meant() {
        let said = |word: &str| {
            assert_eq!(selected(&[word]), [] as [&str; 0]);
            match wanted(&[word]).selects_nothing(&KnownFiles::default()) {
                Failure::Work(text) => text,
                _ => panic!("it is no usage error"),
            }
        };
        let lists = "; `khz check` alone lists every source, `khz catalog` every metric";
        assert_eq!(
            said("filesistem"),
            format!("nothing matches filesistem (did you mean 'filesystem'?){lists}")
        );
        assert_eq!(said("zebra.*"), format!("nothing matches zebra.*{lists}"));
    }
}
