//! `/proc/sys/kernel`: the data that `uname` prints: the kernel's name, release and version, the machine's
//! architecture, and the node's names. We read files and do not call uname(2), so that a captured host (`--root`)
//! describes itself.

use khz_model::Nanos;

use crate::description::parse;
use crate::entry::{Entry, info};
use crate::kernel_file::{KernelFile, Pieces, ValueFile};

/// The folder.
pub static FILE: KernelFile = KernelFile {
    name: "uname",
    path: "proc/sys/kernel",
    only_base: false,
    pieces: Pieces::Folder(&[
        ValueFile { file: "ostype", label: "sysname" },
        ValueFile { file: "osrelease", label: "release" },
        ValueFile { file: "version", label: "version" },
        // Since Linux 6.1.
        ValueFile { file: "arch", label: "machine" },
        ValueFile { file: "hostname", label: "nodename" },
        ValueFile { file: "domainname", label: "domainname" },
    ]),
    scalars: SCALARS,
    groups: &[],
    parse,
};

static SCALARS: &[Entry] = &[info(
    "host.uname",
    "ostype, osrelease, version, arch, hostname, domainname",
    "node_uname_info",
    "Kernel, architecture and names of the node, as uname prints them.",
)
// An administrator may rename the node; nothing else changes before the next boot.
.every(Nanos::from_secs(60))];

#[cfg(test)]
mod tests {
    use crate::description::tests::read;

    #[test]
    fn the_labels_are_those_of_uname() {
        let text = "sysname=Linux\nrelease=6.18.44\nversion=#1 SMP PREEMPT_DYNAMIC @0\nmachine=x86_64\nnodename=vm\n\
                    domainname=(none)\n";
        assert_eq!(
            read(&super::FILE, text),
            "domainname=(none),machine=x86_64,nodename=vm,release=6.18.44,sysname=Linux,version=#1%20SMP%20\
             PREEMPT_DYNAMIC%20@0"
        );
    }
}
