//! Texts of files of counts below `/proc/net` and `/proc/sys` one after the other, see [`khz_fuzz::texts`]; the first byte says of
//! which.

#![no_main]

use khz_parse::{
    conntrack, ipvs, kernel_values, md, neighbours, nfs, protocols, schedstat, sockets, softnet, udp_queues,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, texts)) = bytes.split_first() else { return };
    let files = [
        &protocols::SNMP,
        &protocols::NETSTAT,
        &protocols::SNMP6,
        &sockets::IPV4,
        &sockets::IPV6,
        &softnet::FILE,
        &kernel_values::FILE_HANDLES,
        &kernel_values::ENTROPY,
        &conntrack::FILE,
        &neighbours::ARP,
        &udp_queues::IPV4,
        &nfs::CLIENT,
        &nfs::SERVER,
        &schedstat::FILE,
        &md::STATES,
        &ipvs::SUMS,
        &ipvs::SERVERS,
    ];
    khz_fuzz::texts(files[usize::from(*first) % files.len()], texts);
});
