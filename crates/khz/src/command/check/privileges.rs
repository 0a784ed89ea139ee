//! What of a source only root sees: the kernel and the runtimes of containers keep it from other users. It tries nothing; what this
//! user cannot read of other sources, `probe.rs` finds out.

/// Sources with numbers or names that other users do not see.
const MORE: [(&str, &str); 5] = [
    ("cgroups", "names of containers, and of jobs of Slurm 26.05"),
    ("dmi", "serial numbers"),
    ("filesystem", "sizes of file systems that FUSE shows to one user"),
    ("processes", "what processes of other users read and write"),
    ("rapl", "energy"),
];

/// What root would see of the source beside the rest; `None`: nothing, or this user is root.
pub fn more(source: &str, is_root: bool) -> Option<&'static str> {
    MORE.iter().find(|(name, _)| *name == source && !is_root).map(|(_, more)| *more)
}

/// What root would see of these sources, for people.
pub fn sentence<'a>(more: impl Iterator<Item = (&'a str, &'static str)>) -> Option<String> {
    let more: Vec<String> = more.map(|(source, more)| format!("{source} ({more})")).collect();
    (!more.is_empty()).then(|| format!("As root khz would see more: {}.", more.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_nothing_to_gain_and_each_name_is_a_source() {
        for (name, what) in MORE {
            assert!(khz_parse::files().iter().any(|file| file.name == name), "{name}");
            assert_eq!((more(name, true), more(name, false)), (None, Some(what)));
        }
        assert_eq!(more("stat", false), None);
        assert_eq!(sentence([].into_iter()), None);
        let two = [("dmi", "serial numbers"), ("rapl", "energy")];
        let text = "As root khz would see more: dmi (serial numbers), rapl (energy).";
        assert_eq!(sentence(two.into_iter()).as_deref(), Some(text));
    }
}
