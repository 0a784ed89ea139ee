//! Who is logged in: the records of utmp (utmp(5)), or the sessions of systemd-logind where there is no utmp any more. Reads a
//! record and a session into a [`Login`], and counts users and sessions. The input may have any bytes; bytes that are no
//! record are an error.

use std::collections::HashSet;

use khz_model::{Fault, Unit};

use crate::entry::{Entry, gauge};
use crate::kernel_file::{KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "logins",
    path: "run/utmp",
    pieces: Pieces::Survey { subject: Subject::Logins, captured: "survey/logins" },
    only_base: true,
    scalars: SCALARS,
    groups: &[],
    parse,
};

static SCALARS: &[Entry] = &[
    gauge("system.users", "ut_user", Unit::Count, "Users that are logged in, each once.")
        .every(SURVEY_PERIOD)
        .exposed("khz_system_users", &[]),
    gauge(
        "system.sessions",
        "USER_PROCESS",
        Unit::Count,
        "Their sessions: a user may be logged in several times.",
    )
    .every(SURVEY_PERIOD)
    .exposed("khz_system_sessions", &[]),
];

/// A session of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login<'a> {
    /// The user's name, as utmp cuts it, or number.
    pub user: &'a [u8],
    /// The process that began the session; when it has ended, so has the session, whatever utmp says.
    pub leader: Option<u32>,
}

/// The bytes of a record: the C library keeps its times in 32 bits on most machines, and in 64 bits on 64-bit ARM. The fields that
/// we read are at the same places in both.
const RECORD_BYTES: [usize; 2] = [384, 400];

/// The types of records are numbers from 0 (empty) to this one (accounting).
const TYPE_MAX: u16 = 9;
/// The type of a session.
const USER_PROCESS: u16 = 7;

/// Where the number of the process stands.
const LEADER: std::ops::Range<usize> = 4..8;
/// Where the user's name stands, ended by a zero if it is shorter.
const USER: std::ops::Range<usize> = 44..76;

/// The sessions in the bytes of utmp. `None`: it has no record, not even of the last boot, so no program writes it.
///
/// # Errors
/// The bytes are no whole records.
pub fn sessions_of_utmp(bytes: &[u8]) -> Result<Option<Vec<Login<'_>>>, Fault> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let is_it = |size: &usize| {
        bytes.len().is_multiple_of(*size)
            && bytes.chunks_exact(*size).all(|record| type_of(record) <= TYPE_MAX)
    };
    let size = RECORD_BYTES.into_iter().find(is_it).ok_or(Fault::Malformed)?;
    let sessions = bytes.chunks_exact(size).filter(|record| type_of(record) == USER_PROCESS);
    Ok(Some(sessions.map(login).filter(|login| !login.user.is_empty()).collect()))
}

fn type_of(record: &[u8]) -> u16 {
    record.first_chunk().map_or(u16::MAX, |bytes| u16::from_ne_bytes(*bytes))
}

fn login(record: &[u8]) -> Login<'_> {
    let user = record[USER].split(|&byte| byte == 0).next().unwrap_or_default();
    let leader = record[LEADER].first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    Login { user, leader: leader.filter(|leader| *leader != 0) }
}

/// The session in a file of systemd-logind. `None`: it is no login: the session belongs to a login screen or to services, or is
/// about to end.
pub fn session_of_logind(text: &[u8]) -> Option<Login<'_>> {
    let value = |name: &str| {
        let mut lines = text.split(|&byte| byte == b'\n');
        lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let is_of_user = value("CLASS")?.starts_with(b"user");
    let user = value("UID").filter(|user| !user.is_empty())?;
    (is_of_user && value("STATE") != Some(b"closing")).then_some(Login { user, leader: None })
}

/// How many users these sessions are of.
pub fn users(sessions: &[Login<'_>]) -> usize {
    sessions.iter().map(|login| login.user).collect::<HashSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(size: usize, kind: u16, leader: u32, user: &str) -> Vec<u8> {
        let mut bytes = vec![0; size];
        bytes[..2].copy_from_slice(&kind.to_ne_bytes());
        bytes[LEADER].copy_from_slice(&leader.to_ne_bytes());
        bytes[USER.start..USER.start + user.len()].copy_from_slice(user.as_bytes());
        bytes
    }

    fn utmp(size: usize) -> Vec<u8> {
        let long = "a".repeat(USER.len());
        [
            (2, 0, "reboot"),
            (7, 17, "root"),
            (8, 18, "gone"),
            (7, 19, &long),
            (7, 20, "root"),
            (6, 21, "LOGIN"),
        ]
        .map(|(kind, leader, user)| record(size, kind, leader, user))
        .concat()
    }

    #[test]
    fn both_sizes_of_records_are_read_and_a_user_counts_once() {
        for size in RECORD_BYTES {
            let bytes = utmp(size);
            let sessions = sessions_of_utmp(&bytes).unwrap().unwrap();
            assert_eq!((sessions.len(), users(&sessions)), (3, 2));
            assert_eq!(sessions[0], Login { user: b"root", leader: Some(17) });
            assert_eq!(sessions[1].user, [b'a'; 32]);
        }
        // As many bytes as 24 records of one size and 25 of the other.
        let many = record(384, 2, 0, "reboot").repeat(24);
        let many = [many, record(384, 7, 5, "me")].concat();
        assert_eq!(sessions_of_utmp(&many).unwrap().unwrap(), [Login { user: b"me", leader: Some(5) }]);
    }

    #[test]
    fn an_empty_utmp_says_nothing_and_a_cut_one_is_no_utmp() {
        assert_eq!(sessions_of_utmp(b""), Ok(None));
        assert_eq!(sessions_of_utmp(&record(384, 2, 0, "reboot")), Ok(Some(Vec::new())));
        for cut in [1, 383, 385, 800 - 384] {
            assert_eq!(sessions_of_utmp(&utmp(384)[..cut]), Err(Fault::Malformed), "{cut}");
        }
        assert_eq!(sessions_of_utmp(&record(384, 10, 0, "x")), Err(Fault::Malformed));
    }

    #[test]
    fn sessions_of_users_count_and_no_others() {
        let session = |class: &str, state: &str| {
            let text = format!("# private\nUID=1000\nUSER=ann\nACTIVE=1\nSTATE={state}\nCLASS={class}\n");
            session_of_logind(text.as_bytes()).map(|login| login.user.to_vec())
        };
        for class in ["user", "user-early", "user-light", "user-incomplete"] {
            assert_eq!(session(class, "active"), Some(b"1000".to_vec()), "{class}");
        }
        for class in ["greeter", "lock-screen", "background", "manager", "manager-early", ""] {
            assert_eq!(session(class, "online"), None, "{class}");
        }
        assert_eq!(session("user", "closing"), None);
        assert_eq!(session_of_logind(b"CLASS=user\nUID="), None);
        assert_eq!(session_of_logind(b""), None);
    }

    proptest! {
        /// Twins of a true utmp with damaged bytes, and bytes of any kind.
        #[test]
        fn foreign_bytes_are_records_or_an_error(
            size in 0..RECORD_BYTES.len(),
            damage in prop::collection::vec((0usize..2_400, any::<u8>()), 0..8),
            cut in 0usize..2_401,
            any: Vec<u8>,
        ) {
            let mut bytes = utmp(RECORD_BYTES[size]);
            for (at, byte) in damage {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            for bytes in [&bytes, &any] {
                if let Ok(Some(sessions)) = sessions_of_utmp(bytes) {
                    prop_assert!(sessions.len() <= bytes.len() / RECORD_BYTES[0]);
                    prop_assert!(users(&sessions) <= sessions.len());
                    prop_assert!(sessions.iter().all(|login| !login.user.is_empty() && !login.user.contains(&0)));
                }
                if let Some(login) = session_of_logind(bytes) {
                    prop_assert!(!login.user.is_empty() && !login.user.contains(&b'\n'));
                }
            }
        }
    }
}
