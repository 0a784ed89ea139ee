//! The options of `khz mount -o`.

use khz_model::Nanos;

use crate::show::outcome::Failure;

/// The options, read.
pub struct MountOptions {
    /// Files of nodes that are down give EIO.
    pub strict: bool,
    /// Other users may read the tree too.
    pub allow_other: bool,
    /// How long an open waits for a first value.
    pub wait: Option<Nanos>,
    /// At how many places one user may ask for a faster rate.
    pub budget: Option<usize>,
    /// Small kernel files are read out of the page cache.
    pub cache_texts: bool,
}

/// Reads the options; an unknown one is an error that lists the known ones.
pub fn read(options: &[String]) -> Result<MountOptions, Failure> {
    let mut parsed =
        MountOptions { strict: false, allow_other: false, wait: None, budget: None, cache_texts: false };
    for option in options.iter().filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').map_or((option.as_str(), None), |(n, v)| (n, Some(v)));
        match (name, value) {
            ("strict", None) => parsed.strict = true,
            ("allow_other", None) => parsed.allow_other = true,
            ("cache_texts", None) => parsed.cache_texts = true,
            ("wait", Some(value)) => parsed.wait = Some(value.parse().map_err(Failure::usage)?),
            ("budget", Some(value)) => {
                let wrong = |_| Failure::usage(format!("-o budget={value}: that is not a number"));
                parsed.budget = Some(value.parse().map_err(wrong)?);
            }
            // Options that mount(8) passes to every helper.
            (
                "ro" | "rw" | "defaults" | "nodev" | "nosuid" | "noexec" | "_netdev" | "noauto" | "user",
                None,
            ) => {}
            _ => {
                let known = "strict, wait=DURATION, budget=N, allow_other, cache_texts";

                return Err(Failure::usage(format!("-o {option}: no such option; there are {known}")));
            }
        }
    }
    Ok(parsed)
}
