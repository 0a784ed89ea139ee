//! Names of hosts: a label's value becomes a word of a command line only if it is the name of exactly one host.

use crate::limits::HOST_BYTES_MAX;

/// Words that Slurm takes for several nodes, or for another one.
const NO_NAMES: [&str; 3] = ["all", "localhost", "default"];

/// Whether this is a plain name of one host: letters, digits, `-`, `_` and `.`; no list, no address with a port, nothing that a
/// command could take for a flag.
pub fn is_host_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_word = NO_NAMES.iter().any(|word| text.eq_ignore_ascii_case(word));
    begins && text.len() <= HOST_BYTES_MAX && text.bytes().all(is_plain) && !is_word
}

/// The host of a label: `node7:9100` is node7.
pub fn host_of(label: &str) -> &str {
    match label.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_of_one_host_is_one() {
        for name in ["n1", "node-7.cluster_a.example", "7"] {
            assert!(is_host_name(name), "{name}");
        }
        let long = "n".repeat(254);
        for text in [
            "",
            "ALL",
            "all",
            "localhost",
            "-n1",
            ".n1",
            "n[1-9]",
            "n1,n2",
            "n1 State=RESUME",
            "n1\n",
            "n1:9100",
            "n1=n2",
            "$(reboot)",
            "ñ1",
            "n1\0",
            &long,
        ] {
            assert!(!is_host_name(text), "{text}");
        }
    }

    #[test]
    fn the_port_of_a_label_is_not_part_of_its_host() {
        assert_eq!(["n1:9100", "n1", "n1:", "n1:x"].map(host_of), ["n1", "n1", "n1:", "n1:x"]);
    }
}
