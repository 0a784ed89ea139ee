//! The limit of open files (`ulimit -n`): one connection for each node needs more of them than a shell allows. Raises the
//! soft limit as far as the hard limit permits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::SimulateError;

/// Open files besides connections.
const BESIDES: u64 = 64;

/// Raises the limit for this many connections.
pub fn make_room(connections: u64) -> Result<(), SimulateError> {
    let needed = connections + BESIDES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|limit| limit >= needed) {
        return Ok(());
    }
    // A privileged process raises the hard limit too.
    let raised = [maximum.map(|hard| hard.max(needed)), maximum].into_iter().any(|hard| {
        hard.is_none_or(|hard| hard >= needed)
            && setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: hard }).is_ok()
    });
    if raised { Ok(()) } else { Err(SimulateError::Files { needed, hard: maximum.unwrap_or(u64::MAX) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_nobody_has_is_refused_with_advice() {
        assert!(make_room(8).is_ok());
        let error = make_room(1 << 60).unwrap_err().to_string();
        assert!(error.contains("ulimit -Hn"), "{error}");
    }
}
