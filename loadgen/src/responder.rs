//! A built-in responder with known delays: the server of the self-test.
//!
//! The path is the delay before the answer, in microseconds: `GET /2500` is answered 2.5 ms after
//! it was read. So delays come from the schedule, each is known in advance, and any other generator
//! can take the same test. The responder can also freeze at regular intervals, in which it neither
//! reads nor writes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::stalls::Watch;
use crate::sys::{self, Epoll, Wait};

/// The answer to everything.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// Bytes of [`ANSWER`]'s body.
pub const ANSWER_LENGTH: u64 = 5;
const EVENTS: usize = 64;
const LISTENER: u64 = u64::MAX;
/// Interval at which a sleeping responder checks whether to stop.
const NAP_NS: u64 = 1_000_000;
/// The longest request that is accepted.
const MAX_REQUEST: usize = 16 * 1024;

/// Regular freezes, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freezes {
    /// The start of any of them.
    pub origin: u64,
    /// Time from the start of one to the start of the next; 0 for none.
    pub every_ns: u64,
    /// Length of each.
    pub for_ns: u64,
}

impl Freezes {
    /// Return the first instant from `at` on at which the responder is not frozen.
    #[inline]
    pub fn lifted(&self, at: u64) -> u64 {
        if self.every_ns == 0 || at < self.origin {
            return at;
        }
        let phase = (at - self.origin) % self.every_ns;
        if phase < self.for_ns {
            at - phase + self.for_ns
        } else {
            at
        }
    }

    /// Return when a request that arrives at `arrived` is read, and when it is answered after a
    /// delay of `delay_ns`: reading waits for the end of a freeze, and so does the answer.
    pub fn answered(&self, arrived: u64, delay_ns: u64) -> (u64, u64) {
        let read = self.lifted(arrived);
        (read, self.lifted(read + delay_ns))
    }
}

/// The state that the threads share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    origin: AtomicU64,
    every_ns: AtomicU64,
    for_ns: AtomicU64,
    /// Answers that directly followed another one: their number, and their total time.
    answers: AtomicU64,
    answering_ns: AtomicU64,
    /// Stalls of the threads' cores. Locked only when there is one.
    stalls: Mutex<Vec<(usize, u64, u64)>>,
}

impl Shared {
    #[inline]
    fn freezes(&self) -> Freezes {
        Freezes {
            origin: self.origin.load(Ordering::Relaxed),
            every_ns: self.every_ns.load(Ordering::Relaxed),
            for_ns: self.for_ns.load(Ordering::Relaxed),
        }
    }
}

/// A running responder on loopback.
#[derive(Debug)]
pub struct Responder {
    /// The address that it listens on.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Responder {
    /// Start a thread on each of the CPUs, at least one; `spin`: poll instead of sleeping.
    ///
    /// # Errors
    /// A CPU that may not be used, or another error of the system.
    pub fn start(cpus: &[usize], spin: bool, gap_ns: u64) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let (senders, receivers): (Vec<_>, Vec<_>) = cpus.iter().map(|_| mpsc::channel()).unzip();
        let mut acceptor = Some((listener, senders));
        let mut responder = Self {
            address,
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        for (cpu, incoming) in cpus.iter().copied().zip(receivers) {
            let worker = Worker::new(acceptor.take(), incoming)?;
            let shared = Arc::clone(&shared);
            let (ready_sender, is_ready) = mpsc::channel();
            let thread = std::thread::Builder::new().name(format!("responder-{cpu}"));
            responder.threads.push(thread.spawn(move || {
                let ready = sys::pin(&[cpu]);
                let failed = ready.is_err();
                // The receiver waits for this one message.
                let _ = ready_sender.send(ready);
                if failed {
                    return Ok(());
                }
                sys::set_precise_timers();
                worker.run(&shared, cpu, spin, gap_ns)
            })?);
            is_ready.recv().map_err(io::Error::other)??;
        }
        Ok(responder)
    }

    /// Set the freezes from now on.
    pub fn freeze(&self, freezes: Freezes) {
        // The interval last, because it turns freezing on.
        self.shared.every_ns.store(0, Ordering::SeqCst);
        self.shared.origin.store(freezes.origin, Ordering::SeqCst);
        self.shared.for_ns.store(freezes.for_ns, Ordering::SeqCst);
        self.shared
            .every_ns
            .store(freezes.every_ns, Ordering::SeqCst);
    }

    /// Return the mean time of an answer when others wait, in nanoseconds, since the last call; 0
    /// if none waited.
    pub fn answer_ns(&self) -> u64 {
        let answers = self.shared.answers.swap(0, Ordering::Relaxed);
        let ns = self.shared.answering_ns.swap(0, Ordering::Relaxed);
        ns / answers.max(1)
    }

    /// Return the stalls of its threads since the last call: CPU, start and end.
    pub fn stalls(&self) -> Vec<(usize, u64, u64)> {
        match self.shared.stalls.lock() {
            Ok(mut stalls) => std::mem::take(&mut *stalls),
            Err(_) => Vec::new(),
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A failed thread shows as errors of the requests.
            let _ = thread.join();
        }
    }
}

#[derive(Debug)]
struct Peer {
    socket: OwnedFd,
    /// The bytes of an incomplete request.
    begun: Vec<u8>,
}

struct Worker {
    epoll: Epoll,
    acceptor: Option<(TcpListener, Vec<Sender<TcpStream>>)>,
    incoming: Receiver<TcpStream>,
    accepted: usize,
    peers: Vec<Option<Peer>>,
    /// Pending answers: due instant, order of the requests, and index of the peer. Indices are not
    /// reused.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    asked: u64,
    buffer: Vec<u8>,
}

impl Worker {
    fn new(
        acceptor: Option<(TcpListener, Vec<Sender<TcpStream>>)>,
        incoming: Receiver<TcpStream>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        if let Some((listener, _)) = &acceptor {
            // The copy may be closed once it is registered: the set polls the open socket, which
            // the listener keeps.
            epoll.add(&OwnedFd::from(listener.try_clone()?), LISTENER)?;
        }
        Ok(Self {
            epoll,
            acceptor,
            incoming,
            accepted: 0,
            peers: Vec::new(),
            due: BinaryHeap::with_capacity(4096),
            asked: 0,
            buffer: vec![0; MAX_REQUEST],
        })
    }

    fn run(mut self, shared: &Shared, cpu: usize, spin: bool, gap_ns: u64) -> io::Result<()> {
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let mut watch = Watch::new(gap_ns);
        let mut answered = 0;
        while !shared.stop.load(Ordering::Relaxed) {
            let now = thaw(shared, &mut watch, spin);
            if !watch.spans.list.is_empty()
                && let Ok(mut stalls) = shared.stalls.lock()
            {
                let seen = watch.spans.list.drain(..);
                stalls.extend(seen.map(|(start, end)| (cpu, start, end)));
            }
            while let Ok(stream) = self.incoming.try_recv() {
                self.admit(stream)?;
            }
            if let Some(Reverse((due, _, peer))) = self.due.peek().copied()
                && due <= now
            {
                self.due.pop();
                if due <= answered && now - answered <= gap_ns {
                    shared.answers.fetch_add(1, Ordering::Relaxed);
                    shared
                        .answering_ns
                        .fetch_add(now - answered, Ordering::Relaxed);
                }
                answered = now;
                self.answer(peer);
                continue;
            }
            let (wait, until) = if spin {
                (Wait::Poll, now)
            } else {
                let due = self.due.peek().map_or(u64::MAX, |Reverse((due, ..))| *due);
                let until = due.min(now + NAP_NS);
                (Wait::Ns(until - now), until)
            };
            let n = self.epoll.wait(&mut events, wait)?;
            let stamp = match wait {
                Wait::Poll => watch.tick(),
                Wait::Ns(_) => watch.woke(until),
            };
            for event in &events[..n] {
                let (mask, token) = (event.events, event.u64);
                if token == LISTENER {
                    self.accept();
                } else if mask & libc::EPOLLIN as u32 != 0 {
                    self.read(token as usize, stamp);
                }
                watch.tick();
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        let Some((listener, senders)) = &self.acceptor else {
            return;
        };
        while let Ok((stream, _)) = listener.accept() {
            // The receivers live as long as the threads; a stopped thread needs no connection.
            let _ = senders[self.accepted % senders.len()].send(stream);
            self.accepted += 1;
        }
    }

    fn admit(&mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let socket = OwnedFd::from(stream);
        self.epoll.add(&socket, self.peers.len() as u64)?;
        self.peers.push(Some(Peer {
            socket,
            begun: Vec::new(),
        }));
        Ok(())
    }

    fn read(&mut self, i: usize, stamp: u64) {
        let Some(Some(peer)) = self.peers.get_mut(i) else {
            return;
        };
        let n = match sys::receive(&peer.socket, &mut self.buffer) {
            Ok(n) if n > 0 => n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            _ => return self.peers[i] = None,
        };
        let mut bytes = &self.buffer[..n];
        let whole;
        if !peer.begun.is_empty() || !bytes.ends_with(b"\r\n\r\n") {
            peer.begun.extend_from_slice(bytes);
            if !peer.begun.ends_with(b"\r\n\r\n") {
                if peer.begun.len() > MAX_REQUEST {
                    self.peers[i] = None;
                }
                return;
            }
            whole = std::mem::take(&mut peer.begun);
            bytes = &whole;
        }
        match delay_us(bytes) {
            Some(0) => self.answer(i),
            Some(us) => {
                self.due.push(Reverse((stamp + us * 1000, self.asked, i)));
                self.asked += 1;
            }
            None => self.peers[i] = None,
        }
    }

    fn answer(&mut self, i: usize) {
        let Some(Some(peer)) = self.peers.get(i) else {
            return;
        };
        if sys::send(&peer.socket, ANSWER).ok() != Some(ANSWER.len()) {
            self.peers[i] = None;
        }
    }
}

/// Wait for the end of a freeze. The freeze itself is not a stall of the host, but stalls of the
/// host during it are recorded.
#[inline]
fn thaw(shared: &Shared, watch: &mut Watch, spin: bool) -> u64 {
    let now = watch.tick();
    let end = shared.freezes().lifted(now);
    if end == now {
        return now;
    }
    if spin {
        let mut now = now;
        while now < end && !shared.stop.load(Ordering::Relaxed) {
            now = watch.tick();
        }
        return now;
    }
    sys::sleep_until(end);
    watch.woke(end)
}

/// Return the number in `GET /NUMBER HTTP/1.1`, 0 if there is none; `None` for any other request.
fn delay_us(request: &[u8]) -> Option<u64> {
    let rest = request.strip_prefix(b"GET /")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits
        .take(10)
        .fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREEZES: Freezes = Freezes {
        origin: 1_000,
        every_ns: 100,
        for_ns: 10,
    };

    /// A freeze lasts from the start of a period for its length; there is none before the first
    /// one.
    #[test]
    fn freezes_are_periodic() {
        for (at, lifted) in [(0, 0), (999, 999), (1000, 1010), (1009, 1010), (1010, 1010)] {
            assert_eq!(FREEZES.lifted(at), lifted, "{at}");
        }
        assert_eq!(FREEZES.lifted(1705), 1710);
        assert_eq!(Freezes::default().lifted(7), 7);
    }

    /// Reading waits for the end of a freeze, and so does the answer.
    #[test]
    fn a_delay_may_end_in_a_freeze() {
        assert_eq!(FREEZES.answered(1020, 5), (1020, 1025));
        assert_eq!(FREEZES.answered(1003, 5), (1010, 1015));
        assert_eq!(FREEZES.answered(1097, 5), (1097, 1110));
        assert_eq!(FREEZES.answered(1003, 95), (1010, 1110));
    }

    /// The path is the delay.
    #[test]
    fn paths_are_delays() {
        for (request, delay) in [
            ("GET /2500 HTTP/1.1\r\n\r\n", Some(2500)),
            ("GET / HTTP/1.1\r\n\r\n", Some(0)),
            ("POST /1 HTTP/1.1\r\n\r\n", None),
        ] {
            assert_eq!(delay_us(request.as_bytes()), delay);
        }
    }
}
