//! Takes from this process what a program does not need: files, the network, system calls, memory, and time that others want. What it
//! has open stays: the socket to the agent, and rings that it can only read.

use std::collections::BTreeMap;

use khz_gather::{Placement, Sched};
use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus, Scope};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use rustix::thread::set_no_new_privs;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

use crate::limits::{CHILD_BYTES_MAX, PROGRAMS_MAX};

/// Files that it may have open: its socket, the three of a process, a ring for each program, and some that come while others go.
const FILES_MAX: u64 = 3 * PROGRAMS_MAX as u64 + 16;

/// How this process is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// System calls are filtered.
    pub by_seccomp: bool,
    /// It reaches neither files nor network.
    pub by_landlock: bool,
    /// It runs only when nothing else does.
    pub is_idle: bool,
}

impl std::fmt::Display for Confined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            (self.by_seccomp, "seccomp"),
            (self.by_landlock, "Landlock"),
            (self.is_idle, "the scheduling class idle"),
        ];
        let parts: Vec<&str> = parts.into_iter().filter(|(is_so, _)| *is_so).map(|(_, name)| name).collect();
        f.write_str(&parts.join(", "))
    }
}

/// Confines this thread and all that it starts.
///
/// # Errors
/// Neither seccomp nor Landlock can be had: no program may run here.
pub fn confine() -> Result<Confined, String> {
    limit();
    let is_idle = Placement { sched: Some(Sched::Idle), ..Placement::default() }.apply().is_ok();
    // Without this, only root may filter system calls.
    let no_more = set_no_new_privs(true).map_err(|errno| errno.to_string());
    let landlock = no_more.clone().and_then(|()| by_landlock());
    let seccomp = no_more.and_then(|()| by_seccomp());
    match (&seccomp, &landlock) {
        (Err(seccomp), Err(landlock)) => Err(format!(
            "this kernel can confine them neither by seccomp ({seccomp}) nor by Landlock ({landlock})"
        )),
        _ => Ok(Confined { by_seccomp: seccomp.is_ok(), by_landlock: landlock.is_ok(), is_idle }),
    }
}

/// Limits that hold whatever the kernel can confine.
fn limit() {
    let most = |most| Rlimit { current: Some(most), maximum: Some(most) };
    for (resource, limit) in [
        (Resource::Data, CHILD_BYTES_MAX),
        (Resource::Nofile, FILES_MAX),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nproc, 0),
    ] {
        // A lower limit that stands already is as good.
        let _ = setrlimit(resource, most(limit));
    }
    // It does not outlive the agent, however that ends.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// No file can be opened, no connection made, no process signalled.
fn by_landlock() -> Result<(), String> {
    let abi = ABI::V6;
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
        .and_then(|rules| rules.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .map_err(|error| error.to_string())?;
    match ruleset.restrict_self().map_err(|error| error.to_string())?.ruleset {
        RulesetStatus::NotEnforced => Err("this kernel does not have it".to_owned()),
        _ => Ok(()),
    }
}

/// The system calls of a process that reads rings and a socket, computes, and waits. Any other one ends it.
const CALLS: [i64; 32] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_ppoll,
    libc::SYS_fstat,
    libc::SYS_fcntl,
    libc::SYS_close,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Those of older machines, which newer ones do not have.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: [i64; 1] = [libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: [i64; 0] = [];

fn by_seccomp() -> Result<(), String> {
    let filter = filter().map_err(|error| error.to_string())?;
    apply_filter(&filter).map_err(|error| error.to_string())
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.into_iter().chain(OLD_CALLS).map(|call| (call, Vec::new())).collect();
    // Memory that can be executed is not to be had.
    let executable = libc::PROT_EXEC as u64;
    let is_plain = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(executable), 0)?;
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![SeccompRule::new(vec![is_plain.clone()])?]);
    }
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_can_be_made_for_this_machine() {
        assert!(filter().is_ok_and(|filter| filter.len() > CALLS.len()));
    }
}
