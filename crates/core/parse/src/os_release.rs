//! `/etc/os-release`: the name and version of the distribution, as shell variables (os-release(5)).

use std::collections::BTreeMap;

use crate::description::{describe, split};
use crate::entry::{Entry, info};
use crate::kernel_file::{KernelFile, Pieces};
use crate::sink::Sink;

/// The file.
pub static FILE: KernelFile = KernelFile {
    name: "os",
    path: "etc/os-release",
    pieces: Pieces::Whole,
    only_base: false,
    scalars: SCALARS,
    groups: &[],
    parse,
};

// The file is on a disk, for which the gather thread must not wait. So it is read once, before that thread starts.
static SCALARS: &[Entry] = &[info(
    "host.os",
    "the variables' names, in lower case",
    "node_os_info",
    "Name and version of the distribution, as they were when the agent started.",
)
.constant()];

/// The variables that node_exporter shows. Others are left out: a distribution may write anything into them.
const VARIABLES: [(&str, &str); 12] = [
    ("BUILD_ID", "build_id"),
    ("ID", "id"),
    ("ID_LIKE", "id_like"),
    ("IMAGE_ID", "image_id"),
    ("IMAGE_VERSION", "image_version"),
    ("NAME", "name"),
    ("PRETTY_NAME", "pretty_name"),
    ("VARIANT", "variant"),
    ("VARIANT_ID", "variant_id"),
    ("VERSION", "version"),
    ("VERSION_CODENAME", "version_codename"),
    ("VERSION_ID", "version_id"),
];

fn parse(sink: &mut Sink<'_>) {
    let mut found = BTreeMap::new();
    // An administrator may have written it, without a newline at the end.
    for line in sink.text().split(|&byte| byte == b'\n') {
        let Some((name, value)) = split(line.trim_ascii()) else { continue };
        if let Some((_, label)) = VARIABLES.iter().find(|(variable, _)| *variable == name) {
            // As in a shell, the last one counts.
            found.insert(*label, unquoted(value));
        }
    }
    describe(sink, found);
}

/// A shell word without its quotes. Inside double quotes and outside any, a backslash stands before a character that
/// would have a meaning.
fn unquoted(word: &[u8]) -> Vec<u8> {
    let inner = |quote: u8| word.strip_prefix(&[quote])?.strip_suffix(&[quote]);
    if let Some(inner) = inner(b'\'') {
        return inner.to_vec();
    }
    let mut bytes = inner(b'"').unwrap_or(word).iter();
    let mut text = Vec::with_capacity(word.len());
    while let Some(&byte) = bytes.next() {
        text.extend(if byte == b'\\' { bytes.next() } else { Some(&byte) });
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::description::tests::read;

    #[test]
    fn quotes_comments_and_unknown_variables_are_not_shown() {
        let text = "# a comment\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME='Debian'\nID=debian\n\n\
                    VERSION=\"1 \\\"two\\\" \\$3\"\nHOME_URL=\"https://www.debian.org/\"\nID_LIKE=\"\"\nno variable\n";
        assert_eq!(
            read(&super::FILE, text),
            "id=debian,name=Debian,pretty_name=Debian%20GNU%2FLinux%2012%20(bookworm),version=1%20%22two%22%20$3"
        );
    }

    #[test]
    fn the_last_of_two_counts_and_half_a_quote_stays() {
        assert_eq!(read(&super::FILE, "ID=a\nID=\"b\nNAME=\"\n  VERSION=c\\"), "id=%22b,name=%22,version=c");
    }
}
