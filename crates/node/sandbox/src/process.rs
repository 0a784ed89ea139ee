//! The child process as the agent sees it: started, spoken to, and ended. A message never waits.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use khz_ring::Shared;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::wire::{News, Order};

/// How the child is started: it finds its socket as standard input, and calls [`crate::child::run`].
#[derive(Clone, Debug)]
pub struct ChildCommand {
    /// The program.
    pub program: PathBuf,
    /// Its words.
    pub words: Vec<String>,
}

/// The child. It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    socket: OwnedFd,
    bytes: Vec<u8>,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// Returns why it could not be started.
    pub fn start(command: &ChildCommand) -> Result<Self, String> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|errno| errno.to_string())?;
        let mut child = Command::new(&command.program);
        child.args(&command.words).env_clear().current_dir("/");
        child.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.spawn().map_err(|error| error.to_string())?;
        Ok(Process { child, socket: ours, bytes: vec![0; crate::limits::MESSAGE_BYTES_MAX] })
    }

    /// For `poll`.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Gives it an order, and the ring of a program.
    ///
    /// # Errors
    /// `EAGAIN`: it has no room now. Otherwise it has gone.
    pub fn order(&mut self, order: &Order, ring: Option<&Shared>) -> Result<(), Errno> {
        let mut message = Vec::new();
        order.put(&mut message);
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut room);
        let files = ring.map(|ring| [ring.file.as_fd()]);
        if let Some(files) = &files {
            beside.push(SendAncillaryMessage::ScmRights(files));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &[IoSlice::new(&message)], &mut beside, flags)?;
        Ok(())
    }

    /// What it says next; `Ok(None)`: nothing now.
    ///
    /// # Errors
    /// It has gone, or sends what is no message.
    pub fn news(&mut self) -> Result<Option<News>, ()> {
        loop {
            let mut beside = RecvAncillaryBuffer::default();
            let mut into = [IoSliceMut::new(&mut self.bytes)];
            return match recvmsg(&self.socket, &mut into, &mut beside, RecvFlags::DONTWAIT) {
                Ok(got) if got.bytes == 0 => Err(()),
                Ok(got) => News::take(&self.bytes[..got.bytes]).map(Some).ok_or(()),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Ok(None),
                Err(_) => Err(()),
            };
        }
    }

    /// Ends it, and says how it ended.
    pub fn end(mut self) -> String {
        let status = self.child.try_wait().ok().flatten();
        let _ = self.child.kill();
        let status = status.or_else(|| self.child.wait().ok());
        status.map_or_else(|| "it is not known how".to_owned(), |status| status.to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
