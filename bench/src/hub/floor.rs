//! The floor: plain TCP loops that move as many bytes in as many writes as a simulation and its hub. The
//! receiver only reads, the sender only writes; the hub's cost beyond that is ours.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::epoll::{Sockets, raise_files};
use super::number;
use crate::error::BenchError;
use crate::program::failed;

/// As much as the hub reads at once.
const ROOM: usize = 256 << 10;
const LISTENER: u64 = u64::MAX;
/// The sender loops as often as a simulation does.
const TURN: Duration = Duration::from_millis(1);

/// The receiver: prints its address, reads everything, and ends with its standard input.
pub fn receive() -> Result<(), BenchError> {
    raise_files();
    let wrong = |e: std::io::Error| failed("the receiver", e);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    rustix::net::listen(&listener, 4_096).map_err(BenchError::call("listen"))?;
    println!("{}", listener.local_addr().map_err(wrong)?);
    let sockets = Sockets::new()?;
    sockets.add(&listener, LISTENER)?;
    let (mut open, mut ready, mut room) = (Vec::<TcpStream>::new(), Vec::new(), vec![0; ROOM]);
    loop {
        sockets.wait(1_000, &mut ready)?;
        for &number in &ready {
            if number == LISTENER {
                while let Ok((socket, _)) = listener.accept() {
                    socket.set_nonblocking(true).map_err(wrong)?;
                    sockets.add(&socket, open.len() as u64)?;
                    open.push(socket);
                }
                continue;
            }
            match open[number as usize].read(&mut room) {
                // The sender has finished.
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(wrong(error)),
            }
        }
    }
}

/// The sender: `ADDRESS CONNECTIONS BYTES INTERVAL_US SECONDS`. On each connection it writes this many bytes
/// at once, again every interval. Prints how many writes it made.
pub fn send(words: &[&str]) -> Result<(), BenchError> {
    let [address, connections, bytes, interval, seconds] = words else {
        return Err(BenchError::Usage("send ADDRESS CONNECTIONS BYTES INTERVAL_US SECONDS".into()));
    };
    raise_files();
    let wrong = |e: std::io::Error| failed("the sender", e);
    let address: SocketAddr = address.parse().map_err(|_| BenchError::Usage("no address".into()))?;
    let (count, interval) = (number(connections)?, Duration::from_micros(number(interval)?));
    let open: Result<Vec<TcpStream>, _> = (0..count).map(|_| TcpStream::connect(address)).collect();
    let mut open = open.map_err(wrong)?;
    for socket in &open {
        socket.set_nodelay(true).map_err(wrong)?;
    }
    let piece = vec![0x55; number(bytes)? as usize];
    let (start, mut writes) = (Instant::now(), 0u64);
    let end = Duration::from_secs(number(seconds)?);
    loop {
        let now = start.elapsed();
        if now >= end {
            break;
        }
        // Each connection has its own moment in the interval.
        let due = (now.as_nanos() * u128::from(count) / interval.as_nanos()) as u64;
        while writes < due {
            open[(writes % count) as usize].write_all(&piece).map_err(wrong)?;
            writes += 1;
        }
        std::thread::sleep(TURN.saturating_sub(start.elapsed() - now));
    }
    println!("{writes}");
    Ok(())
}
