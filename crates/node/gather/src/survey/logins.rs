//! Who is logged in: reads utmp if some program writes it, else the sessions of systemd-logind. Where there is neither, as in
//! a container, there is no number.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use khz_parse::logins::{Login, session_of_logind, sessions_of_utmp, users};
use khz_parse::survey::{MALFORMED, NO_INSTANCE};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::Answer;
use super::course::{Abandoned, Course};
use super::file_systems::is_live;
use super::folder::{Folder, names};

/// The largest utmp that is read: 10,000 records.
pub const UTMP_BYTES_MAX: u64 = 4 << 20;

/// The most sessions of systemd-logind that are read: each is a file. It has 8,192 at most itself (SessionsMax=).
pub const SESSIONS_MAX: usize = 8_192;

/// Where utmp may be.
const UTMP: [&str; 2] = ["run/utmp", "var/run/utmp"];
/// The folder of sessions, and the one that is there only if systemd is the host's first process (sd_booted(3)).
const SESSIONS: &str = "run/systemd/sessions";
const SYSTEMD: &str = "run/systemd/system";

/// Makes the text.
pub(super) fn survey(course: &mut Course<'_>, root: &Path) -> Result<Answer, Abandoned> {
    if !course.begin(b"")? {
        return Ok(Err(Errno::TIMEDOUT));
    }
    for path in UTMP {
        match utmp(&root.join(path)) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Ok(Err(errno)),
            Ok(bytes) => match sessions_of_utmp(&bytes) {
                Ok(None) => {}
                Ok(Some(mut sessions)) => {
                    if is_live(root) {
                        sessions.retain(|login| is_there(root, login));
                    }
                    return Ok(Ok(text(&sessions)));
                }
                Err(_) => {
                    let text = format!("{NO_INSTANCE} users={MALFORMED} sessions={MALFORMED}\n");
                    return Ok(Ok(text.into_bytes()));
                }
            },
        }
    }
    if !root.join(SYSTEMD).is_dir() {
        return Ok(Err(Errno::NOENT));
    }
    Ok(logind(course, &root.join(SESSIONS)))
}

fn utmp(path: &Path) -> Result<Vec<u8>, Errno> {
    // A pipe without a writer must not wait.
    let file = File::from(open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?);
    let mut bytes = Vec::new();
    let read = file.take(UTMP_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if bytes.len() as u64 > UTMP_BYTES_MAX { Err(Errno::FBIG) } else { Ok(bytes) }
}

/// True if the process that began the session is still there. A program that was killed has left its record.
fn is_there(root: &Path, login: &Login<'_>) -> bool {
    let Some(leader) = login.leader else { return true };
    // A /proc that is mounted with hidepid= hides processes of others. A signal that is none says whether they are there.
    let pid = i32::try_from(leader).ok().and_then(Pid::from_raw).filter(|_| root == Path::new("/"));
    let is_hidden = pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    is_hidden || root.join("proc").join(leader.to_string()).exists()
}

fn logind(course: &mut Course<'_>, path: &Path) -> Answer {
    let mut folder = Folder::open(path, course.whereabouts())?;
    let mut files = names(path)?;
    // The others are pipes by which programs hold their sessions.
    files.retain(|name| !name.as_encoded_bytes().contains(&b'.'));
    let left_out = files.len().saturating_sub(SESSIONS_MAX);
    course.left_out += left_out as u64;
    if left_out > 0 {
        course.note_left_out(format!("{left_out} sessions are left out: khz reads {SESSIONS_MAX}"));
    }
    let read =
        |name: &OsString| folder.value(name.as_encoded_bytes()).map(<[u8]>::to_vec).unwrap_or_default();
    let texts: Vec<Vec<u8>> = files.iter().take(SESSIONS_MAX).map(read).collect();
    let sessions: Vec<Login<'_>> = texts.iter().filter_map(|text| session_of_logind(text)).collect();
    Ok(text(&sessions))
}

fn text(sessions: &[Login<'_>]) -> Vec<u8> {
    format!("{NO_INSTANCE} users={} sessions={}\n", users(sessions), sessions.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use khz_model::{Fault, Reading};
    use khz_parse::{Parser, Subject, logins};
    use std::fs;

    use super::*;
    use crate::made_up::MadeUp;
    use crate::survey::looks::Looks;

    fn look(root: &MadeUp) -> Result<[Reading; 2], Errno> {
        let text = Looks::at(root, Subject::Logins).bytes()?;
        let mut parser = Parser::new(&logins::FILE);
        parser.advance_with(&text);
        assert_eq!(parser.faults(), []);
        Ok([0, 1].map(|slot| parser.reading(slot).unwrap()))
    }

    /// A record of utmp.
    fn record(kind: u8, leader: u32, user: &str) -> Vec<u8> {
        let mut bytes = vec![0; 384];
        bytes[..2].copy_from_slice(&u16::from(kind).to_ne_bytes());
        bytes[4..8].copy_from_slice(&leader.to_ne_bytes());
        bytes[44..44 + user.len()].copy_from_slice(user.as_bytes());
        bytes
    }

    #[test]
    fn utmp_counts_where_somebody_writes_it_and_sessions_of_logind_elsewhere() {
        let root = MadeUp::new("logins");
        assert_eq!(look(&root), Err(Errno::NOENT));
        root.write("run/utmp", b"");
        // A folder that an image brings, without systemd.
        root.write("run/systemd/sessions/1", "UID=0\nCLASS=user\n");
        assert_eq!(look(&root), Err(Errno::NOENT));
        fs::create_dir_all(root.join("run/systemd/system")).unwrap();
        root.write("run/systemd/sessions/2", "UID=0\nCLASS=user\nSTATE=online\n");
        root.write("run/systemd/sessions/c1", "UID=117\nCLASS=greeter\nSTATE=online\n");
        root.write("run/systemd/sessions/4", b"\xff\0UID=\n");
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("run/systemd/sessions/2.ref"), Mode::RUSR).unwrap();
        assert_eq!(look(&root), Ok([1, 2].map(Reading::Present)));
        let records = [record(2, 0, "reboot"), record(7, 1, "ann"), record(7, 2, "ann"), record(7, 3, "bob")];
        root.write("run/utmp", records.concat());
        assert_eq!(look(&root), Ok([2, 3].map(Reading::Present)));
        root.write("run/utmp", &records.concat()[..1_000]);
        assert_eq!(look(&root), Ok([Reading::Failed(Fault::Malformed); 2]));
    }

    #[test]
    fn a_session_whose_process_has_ended_is_over() {
        let here = Login { user: b"me", leader: Some(std::process::id()) };
        let gone = Login { leader: Some(u32::MAX), ..here };
        assert!(is_there(Path::new("/"), &here) && !is_there(Path::new("/"), &gone));
        assert!(is_there(Path::new("/"), &Login { leader: None, ..here }));
    }
}
