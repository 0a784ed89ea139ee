//! `/proc/net/rpc/nfs` and `/proc/net/rpc/nfsd`: the work of the NFS client and server since boot: packets, RPCs, requests
//! of each version and procedure. The files exist only while the kernel modules are loaded.

use khz_model::Unit;

use crate::columns::{Columns, parse};
use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces};

/// The client. A record is the whole file.
pub static CLIENT: KernelFile = KernelFile {
    name: "nfs",
    path: "proc/net/rpc/nfs",
    pieces: Pieces::Whole,
    only_base: true,
    scalars: &[],
    groups: &CLIENT_GROUPS,
    parse,
};

/// The server. A record is the whole file.
pub static SERVER: KernelFile = KernelFile {
    name: "nfsd",
    path: "proc/net/rpc/nfsd",
    pieces: Pieces::Whole,
    only_base: true,
    scalars: &[],
    groups: &SERVER_GROUPS,
    parse,
};

static CLIENT_GROUPS: [Group; CLIENT_COUNTS.len() + 1] = Group::join(&[
    &Group::PLAIN.each(&CLIENT_COUNTS),
    &[Group { entries: CLIENT_REQUESTS, columns: CLIENT_PROCEDURES, ..PROCEDURES }],
]);

static SERVER_GROUPS: [Group; SERVER_COUNTS.len() + 1] = Group::join(&[
    &Group::PLAIN.each(&SERVER_COUNTS),
    &[Group { entries: SERVER_REQUESTS, columns: SERVER_PROCEDURES, ..PROCEDURES }],
]);

const PROCEDURES: Group = Group { label: "proto", instance_labels: &["method"], ..Group::PLAIN };

const fn count(name: &'static str, place: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, place, Unit::Count, help).exposed(family, &[])
}

const fn packets(
    name: &'static str,
    place: &'static str,
    family: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Entry {
    counter(name, place, Unit::Packets, help).exposed(family, labels)
}

const fn errors(
    name: &'static str,
    place: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Entry {
    counter(name, place, Unit::Count, help)
        .exposed("node_nfsd_rpc_errors_total", labels)
        .together("RPCs that the NFS server refused.")
}

#[rustfmt::skip]
static CLIENT_COUNTS: [Entry; 6] = [
    packets("nfs.udp_packets", "net 2 of 4", "node_nfs_packets_total", &[("protocol", "udp")], "Packets of the NFS client over UDP.").together("Packets of the NFS client."),
    packets("nfs.tcp_packets", "net 3 of 4", "node_nfs_packets_total", &[("protocol", "tcp")], "Packets of the NFS client over TCP.").together("Packets of the NFS client."),
    count("nfs.connections", "net 4 of 4", "node_nfs_connections_total", "Connections over TCP that the NFS client has opened."),
    count("nfs.rpcs", "rpc 1 of 3", "node_nfs_rpcs_total", "RPCs that the NFS client has made."),
    count("nfs.retransmits", "rpc 2 of 3", "node_nfs_rpc_retransmissions_total", "RPCs that the NFS client had to send again."),
    count("nfs.auth_refreshes", "rpc 3 of 3", "node_nfs_rpc_authentication_refreshes_total", "Times that the NFS client renewed its credentials."),
];

static CLIENT_REQUESTS: &[Entry] = &[count(
    "nfs.requests",
    "lines proc2 to proc4",
    "node_nfs_requests_total",
    "Requests of the NFS client, by version and procedure.",
)];

#[rustfmt::skip]
static SERVER_COUNTS: [Entry; 16] = [
    count("nfsd.reply_cache_hits", "rc 1 of 3", "node_nfsd_reply_cache_hits_total", "Requests that came again and were answered from the cache of replies."),
    count("nfsd.reply_cache_misses", "rc 2 of 3", "node_nfsd_reply_cache_misses_total", "Requests whose replies went into the cache."),
    count("nfsd.reply_cache_uncached", "rc 3 of 3", "node_nfsd_reply_cache_nocache_total", "Requests whose replies need not be kept."),
    count("nfsd.stale_handles", "fh 1 of 5", "node_nfsd_file_handles_stale_total", "Requests for a file that is no longer there."),
    counter("nfsd.read_bytes", "io 1 of 2", Unit::Bytes, "Bytes that the NFS server has read from its disks.").exposed("node_nfsd_disk_bytes_read_total", &[]),
    counter("nfsd.written_bytes", "io 2 of 2", Unit::Bytes, "Bytes that the NFS server has written to its disks.").exposed("node_nfsd_disk_bytes_written_total", &[]),
    gauge("nfsd.threads", "th 1 of 12", Unit::Count, "Threads of the NFS server.").exposed("node_nfsd_server_threads", &[]),
    gauge("nfsd.read_ahead_size", "ra 1 of 12", Unit::Count, "Places of the cache for reading ahead (0 since Linux 5.4).").exposed("node_nfsd_read_ahead_cache_size_blocks", &[]),
    count("nfsd.read_ahead_misses", "ra 12 of 12", "node_nfsd_read_ahead_cache_not_found_total", "Reads that were not in the cache for reading ahead (0 since Linux 5.4)."),
    packets("nfsd.udp_packets", "net 2 of 4", "node_nfsd_packets_total", &[("proto", "udp")], "Packets of the NFS server over UDP.").together("Packets of the NFS server."),
    packets("nfsd.tcp_packets", "net 3 of 4", "node_nfsd_packets_total", &[("proto", "tcp")], "Packets of the NFS server over TCP.").together("Packets of the NFS server."),
    count("nfsd.connections", "net 4 of 4", "node_nfsd_connections_total", "Connections over TCP that the NFS server has accepted."),
    count("nfsd.rpcs", "rpc 1 of 5", "node_nfsd_server_rpcs_total", "RPCs that the NFS server has received."),
    errors("nfsd.format_errors", "rpc 3 of 5", &[("error", "fmt")], "RPCs refused because of their form."),
    errors("nfsd.auth_errors", "rpc 4 of 5", &[("error", "auth")], "RPCs refused because of their credentials."),
    errors("nfsd.client_errors", "rpc 5 of 5", &[("error", "cInt")], "RPCs refused because of the client."),
];

static SERVER_REQUESTS: &[Entry] = &[count(
    "nfsd.requests",
    "lines proc2, proc3, proc4ops, wdeleg_getattr",
    "node_nfsd_requests_total",
    "Requests that the NFS server has received, by version and procedure.",
)];

static CLIENT_PROCEDURES: &[Columns] = &[
    Columns { line: "proc2", name: "2", is_counted: true, labels: &VERSION_2 },
    Columns { line: "proc3", name: "3", is_counted: true, labels: &VERSION_3 },
    Columns { line: "proc4", name: "4", is_counted: true, labels: CLIENT_VERSION_4 },
];

static SERVER_PROCEDURES: &[Columns] = &[
    Columns { line: "proc2", name: "2", is_counted: true, labels: &without_null(VERSION_2) },
    Columns { line: "proc3", name: "3", is_counted: true, labels: &without_null(VERSION_3) },
    Columns { line: "proc4ops", name: "4", is_counted: true, labels: SERVER_VERSION_4 },
    Columns { line: "wdeleg_getattr", name: "4", is_counted: false, labels: &["WdelegGetattr"] },
];

/// node_exporter does not show how often a server was asked for nothing.
const fn without_null<const COUNT: usize>(mut labels: [&'static str; COUNT]) -> [&'static str; COUNT] {
    labels[0] = "";
    labels
}

#[rustfmt::skip]
const VERSION_2: [&str; 18] = [
    "Null", "GetAttr", "SetAttr", "Root", "Lookup", "ReadLink", "Read", "WrCache", "Write", "Create", "Remove", "Rename", "Link",
    "SymLink", "MkDir", "RmDir", "ReadDir", "FsStat",
];

#[rustfmt::skip]
const VERSION_3: [&str; 22] = [
    "Null", "GetAttr", "SetAttr", "Lookup", "Access", "ReadLink", "Read", "Write", "Create", "MkDir", "SymLink", "MkNod", "Remove",
    "RmDir", "Rename", "Link", "ReadDir", "ReadDirPlus", "FsStat", "FsInfo", "PathConf", "Commit",
];

/// In the order of the kernel's `nfs4_procedures`.
#[rustfmt::skip]
static CLIENT_VERSION_4: &[&str] = &[
    "Null", "Read", "Write", "Commit", "Open", "OpenConfirm", "OpenNoattr", "OpenDowngrade", "Close", "Setattr", "FsInfo", "Renew",
    "SetClientID", "SetClientIDConfirm", "Lock", "Lockt", "Locku", "Access", "Getattr", "Lookup", "LookupRoot", "Remove", "Rename",
    "Link", "Symlink", "Create", "Pathconf", "StatFs", "ReadLink", "ReadDir", "ServerCaps", "DelegReturn", "GetACL", "SetACL",
    "FsLocations", "ReleaseLockowner", "Secinfo", "FsidPresent", "ExchangeID", "CreateSession", "DestroySession", "Sequence",
    "GetLeaseTime", "ReclaimComplete", "GetDeviceInfo", "LayoutGet", "LayoutCommit", "LayoutReturn", "SecinfoNoName", "TestStateID",
    "FreeStateID", "GetDeviceList", "BindConnToSession", "DestroyClientID", "Seek", "Allocate", "DeAllocate", "LayoutStats", "Clone",
];

/// In the order of the operations' numbers (RFC 7530); operations that node_exporter does not show
/// are empty.
#[rustfmt::skip]
static SERVER_VERSION_4: &[&str] = &[
    "", "", "", "Access", "Close", "Commit", "Create", "DelegPurge", "DelegReturn", "GetAttr", "GetFH", "Link", "Lock", "Lockt",
    "Locku", "Lookup", "LookupRoot", "Nverify", "Open", "OpenAttr", "OpenConfirm", "OpenDgrd", "PutFH", "", "", "Read", "ReadDir",
    "ReadLink", "Remove", "Rename", "Renew", "RestoreFH", "SaveFH", "SecInfo", "SetAttr", "SetClientID", "SetClientIDConfirm",
    "Verify", "Write", "RelLockOwner",
];

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Fault, Instance, Reading};

    const TEXT: &str = "net 70 69 68 45\nrpc 1218 37 9\nproc2 2 16 57\nproc3 6 1 2 3 4 5 6\nproc4 2 0 98\n";

    fn read(text: &str) -> Parser {
        let mut parser = Parser::new(&super::CLIENT);
        parser.advance_with(text.as_bytes());
        parser
    }

    fn get(parser: &Parser, metric: &str, instance: Option<&str>) -> Option<Reading> {
        let instance = instance.map(|instance| Instance::parse(instance).unwrap());
        parser.reading(parser.schema().slot(metric, instance.as_ref())? as usize)
    }

    #[test]
    fn a_procedure_is_an_instance_and_only_those_that_the_kernel_has() {
        let mut parser = read(TEXT);
        assert_eq!(parser.faults(), []);
        assert_eq!(parser.schema().len(), 6 + 10);
        assert_eq!(get(&parser, "nfs.retransmits", None), Some(Reading::Present(37)));
        assert_eq!(get(&parser, "nfs.requests", Some("3,method=Access")), Some(Reading::Present(5)));
        assert_eq!(get(&parser, "nfs.requests", Some("4,method=Read")), Some(Reading::Present(98)));
        assert_eq!(get(&parser, "nfs.requests", Some("4,method=Write")), None);
        assert_eq!(parser.advance_with(TEXT.replace(" 98", " 99").as_bytes()), Outcome::InPlace);
        assert_eq!(get(&parser, "nfs.requests", Some("4,method=Read")), Some(Reading::Present(99)));
    }

    #[test]
    fn a_line_without_a_number_fails_as_a_whole_and_no_other() {
        let parser = read(&TEXT.replace("6 1 2 3", "6 1 3"));
        let failed = Some(Reading::Failed(Fault::Malformed));
        assert_eq!(get(&parser, "nfs.requests", Some("3,method=GetAttr")), failed);
        assert_eq!(get(&parser, "nfs.requests", Some("2,method=GetAttr")), Some(Reading::Present(57)));
        let parser = read(&TEXT.replace("net 70 69 68 45", "net 70 69 68"));
        assert_eq!(get(&parser, "nfs.udp_packets", None), failed);
        assert_eq!(get(&parser, "nfs.rpcs", None), Some(Reading::Present(1218)));
    }

    #[test]
    fn a_host_without_the_file_has_no_slots() {
        assert_eq!(Parser::new(&super::CLIENT).schema().len(), 0);
        assert_eq!(Parser::new(&super::SERVER).schema().len(), 0);
    }
}
