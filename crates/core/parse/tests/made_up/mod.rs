//! Made-up texts of surveys, from the descriptions of their sources: two instances of each kind, and a number for each entry, or
//! for some of them.

use std::fmt::Write;

use khz_model::ValueType;
use khz_parse::tree::word_of;
use khz_parse::{Entry, KernelFile, Pieces, Subject};

/// The text of a tree of small files; `None`: the source is of another kind.
pub fn tree_text(
    file: &KernelFile,
    entries_max: usize,
    is_wanted: impl Fn(&Entry) -> bool,
) -> Option<String> {
    let Pieces::Survey { subject, .. } = file.pieces else { return None };
    let others = [Subject::Disks, Subject::Sensors, Subject::ControlGroups, Subject::Processes];
    if !matches!(subject, Subject::Tree(_)) && !others.contains(&subject) {
        return None;
    }
    let (mut text, mut number) = (String::new(), 100);
    for groups in file.groups.chunk_by(|a, b| a.line_kind() == b.line_kind()) {
        for instance in ["a", "b\\040c"].into_iter().take(if groups[0].is_whole() { 1 } else { 2 }) {
            let _ = write!(text, "{}", groups[0].line_kind());
            if !groups[0].is_whole() {
                let _ = write!(text, " {instance}");
            }
            for label in groups[0].instance_labels {
                let _ = write!(text, " {label}=x{instance}");
            }
            // Some of all of them: sensors have 146.
            let entries = groups.iter().flat_map(|group| group.entries).filter(|entry| is_wanted(entry));
            let entries: Vec<&Entry> = entries.collect();
            for entry in entries.iter().step_by(entries.len().div_ceil(entries_max).max(1)) {
                number += 7;
                let _ = match entry.value_type {
                    ValueType::Labels => write!(text, " :label=d"),
                    _ if entry.max == Some(1) => write!(text, " {}=1", word_of(entry)),
                    _ => write!(text, " {}={number}", word_of(entry)),
                };
            }
            text.push('\n');
        }
    }
    Some(text)
}

/// The text of a file that virtual machines do not have; `None`: another file.
pub fn text(file: &KernelFile) -> Option<&'static str> {
    let text = match file.name {
        "nfs" => "net 70 69 68 45\nrpc 1218 37 9\nproc2 2 16 57\nproc3 6 1 2 3 4 5 6\nproc4 2 0 98\n",
        "nfsd" => {
            "rc 0 6 18622\nth 8 0 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000 0.000\nrpc 18628 3 1 2 0\n\
             proc3 3 22 2 112\nproc4 2 2 10853\nproc4ops 5 0 0 0 1098 2\nwdeleg_getattr 15\n"
        }
        "schedstat" => {
            "version 15\ntimestamp 15819\ncpu0 4 0 3 2 1 2 2045 343 47\ndomain0 00000000,00000003 212 210 18\n\
             cpu11 4 0 3 2 1 2 77 78 79\ndomain0 00000000,00000003 212 210 18\n"
        }
        "mdstat" => {
            "Personalities : [raid0] [raid1]\nmd6 : active raid1 sdb2[2](F) sdc[1](S) sda2[0]\n\
             \x20     195310144 blocks super 1.2 [2/1] [U_]\n\
             \x20     [=>.......]  recovery =  8.5% (16775552/195310144) finish=17.0min speed=259783K/sec\n\n\
             md10 : active raid0 sda1[0] sdb1[1]\n       314159265 blocks 64k chunks\n\n\
             md219 : inactive sdb[2](S) sdc[1](S)\n        7932 blocks super external:imsm\n\nunused devices: <none>\n"
        }
        "net/ip_vs" => {
            "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n\
             \x20 -> RemoteAddress:Port Forward Weight ActiveConn InActConn\nTCP  C0A80016:0CEA wlc  \n\
             \x20 -> C0A85216:0CEA      Tunnel  100    248        2         \n\
             \x20 -> C0A85318:0CEA      Tunnel  100    248        1         \nFWM  10001000 wlc   \n\
             \x20 -> C0A8321A:0CEA      Tunnel  20     64         1         \n"
        }
        "net/ip_vs_stats" => {
            "   Total Incoming Outgoing         Incoming         Outgoing\n\
             \x20  Conns  Packets  Packets            Bytes            Bytes\n\
             \x2016AA370 E33656E5        0     51D8C8883AB3                0\n\n\
             \x20Conns/s   Pkts/s   Pkts/s          Bytes/s          Bytes/s\n\
             \x20      4    1FB3C        0          1282A8F                0\n"
        }
        _ => return None,
    };
    Some(text)
}
