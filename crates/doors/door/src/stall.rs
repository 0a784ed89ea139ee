//! Cuts off a slow client: a socket with a time limit for writing. Writing fails with `TimedOut` when bytes have waited
//! for longer than the limit in total, and the client has taken less than the minimum meanwhile. No buffering; reading is
//! unchanged.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A socket with a time limit for writing.
#[derive(Debug)]
pub struct Stalling<S> {
    socket: S,
    patience: Duration,
    /// The least that the other side must take within the limit.
    taken_min: u64,
    /// What it has taken since the limit began.
    taken: u64,
    /// How long bytes have waited since then, without the present wait.
    waited: Duration,
    /// When the present wait began.
    waiting: Option<Instant>,
    /// When the limit ends if the other side takes nothing.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    /// Gives the other side this much time to take this number of bytes. Only time in which bytes wait
    /// counts.
    pub fn new(socket: S, patience: Duration, taken_min: u64) -> Self {
        Stalling { socket, patience, taken_min, taken: 0, waited: Duration::ZERO, waiting: None, end: None }
    }

    /// Returns `written`, or the error if bytes have waited longer than the limit and too few were taken.
    fn watch(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.taken = self.taken.saturating_add(bytes as u64);
                self.stop_waiting();
                written
            }
            Poll::Ready(Err(_)) => written,
            Poll::Pending => self.wait(cx),
        }
    }

    fn stop_waiting(&mut self) {
        if let Some(since) = self.waiting.take() {
            self.waited += since.elapsed();
            self.end = None;
        }
    }

    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            if self.waiting.is_none() && self.waited == Duration::ZERO {
                // What was written until now fills the buffers: the other side need not have taken any of it.
                self.taken = 0;
            }
            let since = *self.waiting.get_or_insert_with(Instant::now);
            let left = self.patience.saturating_sub(self.waited);
            let end = self.end.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(since + left)));
            if end.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if self.taken < self.taken_min {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            (self.taken, self.waited, self.waiting, self.end) = (0, Duration::ZERO, None, None);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_ends_the_writer() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut socket = Stalling::new(ours, PATIENCE, 1);
        let error = socket.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_buffers_take_at_the_beginning_gives_nobody_more_time() {
        let (ours, _theirs) = tokio::io::duplex(1 << 20);
        let mut socket = Stalling::new(ours, PATIENCE, 64 << 10);
        let begun = Instant::now();
        assert!(socket.write_all(&[0; 2 << 20]).await.is_err());
        assert_eq!(begun.elapsed(), PATIENCE);
    }

    /// Reads `bytes` bytes every `every`, until `whole` are read or the writer has given up. Returns whether
    /// all were read.
    async fn read_slowly(every: Duration, bytes: usize, whole: usize, taken_min: u64) -> bool {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut socket = Stalling::new(ours, PATIENCE, taken_min);
        let reader = async {
            let mut taken = 0;
            while taken < whole {
                tokio::time::sleep(every).await;
                let mut room = vec![0; bytes];
                taken += theirs.read(&mut room).await.unwrap();
            }
        };
        let bytes = vec![0; whole];
        tokio::select! {
            written = socket.write_all(&bytes) => {
                let gave_up = written.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
                !gave_up
            }
            () = reader => true,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_that_takes_the_minimum_is_kept_and_a_slower_one_is_dropped() {
        let every = Duration::from_secs(3);
        assert!(read_slowly(every, 16, 640, 40).await, "48 bytes in nine seconds");
        assert!(!read_slowly(every, 8, 640, 40).await, "24 bytes in nine seconds");
        assert!(!read_slowly(Duration::from_millis(900), 1, 640, 40).await, "a few bytes are not enough");
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_no_bytes_wait_does_not_count() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut socket = Stalling::new(ours, PATIENCE, 40);
        // Far fewer than forty bytes in ten seconds, but hardly any wait.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(8)).await;
            let (written, ()) = tokio::join!(socket.write_all(&[0; 20]), async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                theirs.read_exact(&mut [0; 20]).await.unwrap();
            });
            written.unwrap();
        }
    }
}
