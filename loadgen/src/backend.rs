//! A server behind a proxy: it answers FastCGI, uwsgi, SCGI and gRPC with given sizes after given
//! times.
//!
//! One port speaks all of them, because the first bytes of a connection tell them apart. It also
//! answers one HTTP request, which proves that it is live.

mod answers;
mod cgi;
mod fastcgi;
mod grpc;
mod live;
mod packet;
mod peer;
mod speaker;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::sys;
use worker::Worker;

pub use answers::{Answer, Answers};
pub use peer::Peer;

/// Connections that wait to be accepted. A proxy without kept connections opens one for each
/// request, and a connection that finds the queue full is delayed by a second.
const BACKLOG: i32 = 4096;

/// A running backend.
#[derive(Debug)]
pub struct Backend {
    /// The address that it listens on.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Backend {
    /// Start threads that answer the connections of a listener.
    ///
    /// # Errors
    /// An error of the system.
    pub fn start(listener: TcpListener, answers: Answers, threads: usize) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        sys::set_backlog(&listener, BACKLOG)?;
        let (listener, answers) = (Arc::new(listener), Arc::new(answers));
        let mut backend = Self {
            address: listener.local_addr()?,
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        for number in 0..threads.max(1) {
            let (listener, answers) = (Arc::clone(&listener), Arc::clone(&answers));
            let worker = Worker::new(listener, answers, number as u64)?;
            let stop = Arc::clone(&backend.stop);
            let thread = std::thread::Builder::new().name(format!("backend-{number}"));
            backend.threads.push(thread.spawn(move || {
                sys::set_precise_timers();
                worker.run(&stop)
            })?);
        }
        Ok(backend)
    }

    /// Answer until a signal asks this process to stop.
    ///
    /// # Errors
    /// The error that ended a thread.
    pub fn wait(mut self) -> io::Result<()> {
        for thread in std::mem::take(&mut self.threads) {
            match thread.join() {
                Ok(ended) => ended?,
                Err(_) => return Err(io::Error::other("a thread of the backend panicked")),
            }
        }
        Ok(())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A failed thread shows as errors of the requests.
            let _ = thread.join();
        }
    }
}
