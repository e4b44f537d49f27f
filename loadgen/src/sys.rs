//! Thin wrappers over the Linux calls that the instrument stands on.
//!
//! This is the only module with `unsafe` code. Nothing here decides anything: each function is one
//! system call, with its error as `io::Error`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::{c_int, c_long, c_void};

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

// ---------------------------------------------------------------- clocks

/// Nanoseconds of one clock; `None` if the clock does not exist (the process is gone).
pub fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the write.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of every time in this crate (vDSO, some 25 ns).
#[inline]
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Nanoseconds since 1970 (CLOCK_REALTIME).
pub fn unix_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME).unwrap_or(0)
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// CPU time (user and system, all threads) of another process, in nanoseconds.
///
/// One call of some 300 ns with nanosecond resolution, where `/proc/PID/stat` takes a file read and
/// counts in 10 ms, and `/proc/PID/schedstat` covers the main thread only: clock_getcpuclockid(3).
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is valid for the write.
    let result = unsafe { libc::clock_getcpuclockid(pid, &mut clock) };
    if result == 0 { clock_ns(clock) } else { None }
}

/// Sleep until CLOCK_MONOTONIC shows `at_ns` or a signal comes.
pub fn sleep_until(at_ns: u64) {
    let time = timespec(at_ns);
    // SAFETY: `time` is valid, and no remainder is asked for.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &time,
            std::ptr::null_mut(),
        );
    }
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as c_long,
    }
}

/// Ask for sleeps that end on time: the default slack of a thread is 50 µs.
pub fn set_precise_timers() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64, 0, 0, 0) };
}

// ---------------------------------------------------------------- scheduling

/// The CPUs on which the calling thread may run.
fn allowed_cpus() -> Vec<usize> {
    // SAFETY: `cpu_set_t` is plain data, and its size is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &set))
            .collect()
    }
}

/// Those of `cpus` that the calling thread may be confined to: found by trying, since what it is
/// confined to now (by taskset, say) limits nothing, but a cpuset does.
pub fn usable_cpus(cpus: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let before = allowed_cpus();
    let usable = cpus
        .into_iter()
        .filter(|cpu| pin(&[*cpu]).is_ok())
        .collect();
    // What was allowed before is allowed still.
    let _ = pin(&before);
    usable
}

/// Confine the calling thread to these CPUs.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: `cpu_set_t` is plain data; CPU_SET is bounds-checked by the filter.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in cpus.iter().filter(|cpu| **cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(*cpu, &mut set);
        }
        check(libc::sched_setaffinity(
            0,
            size_of::<libc::cpu_set_t>(),
            &set,
        ))?;
    }
    Ok(())
}

/// Give the calling thread real-time priority (SCHED_FIFO); false if that is not permitted.
pub fn set_realtime(priority: i32) -> bool {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `parameters` is valid for the read.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 }
}

// ---------------------------------------------------------------- sockets

/// A TCP socket on its way to `address`: non-blocking, without Nagle's delay.
///
/// The flag says whether the connection is already established.
pub fn connect(address: &SocketAddr) -> io::Result<(OwnedFd, bool)> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers only; the new descriptor is owned by nobody else.
    let socket =
        unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind, libc::IPPROTO_TCP))?) };
    set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1 as c_int)?;
    let result = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            connect_raw(&socket, &raw)
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            connect_raw(&socket, &raw)
        }
    };
    match result {
        Ok(()) => Ok((socket, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok((socket, false)),
        Err(error) => Err(error),
    }
}

fn connect_raw<T>(socket: &OwnedFd, address: &T) -> io::Result<()> {
    // SAFETY: `address` is a socket address structure of the size given.
    let result = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            (address as *const T).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

fn set_option<T>(socket: &OwnedFd, level: c_int, name: c_int, value: T) -> io::Result<()> {
    // SAFETY: `value` is valid for the read of the size given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&value as *const T).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

/// Let the coming close reset the connection instead of lingering in TIME_WAIT.
pub fn reset_on_close(socket: &OwnedFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // A refusal only means an ordinary close.
    let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_LINGER, linger);
}

/// The pending error of a socket (SO_ERROR), which tells how a connect ended.
pub fn socket_error(socket: &OwnedFd) -> Option<io::Error> {
    let mut code: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `code` is valid for the write of the size given.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&mut code as *mut c_int).cast(),
            &mut length,
        )
    };
    if result != 0 {
        Some(io::Error::last_os_error())
    } else if code != 0 {
        Some(io::Error::from_raw_os_error(code))
    } else {
        None
    }
}

/// Send what the socket takes now.
#[inline]
pub fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `bytes` is valid for the read of its length.
    count(unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
        )
    })
}

/// Receive what is there; 0 is the end of the stream.
#[inline]
pub fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `buffer` is valid for the write of its length.
    count(unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
        )
    })
}

// ---------------------------------------------------------------- epoll

/// An edge-triggered epoll set.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    /// epoll_pwait2 exists since Linux 5.11; without it sleeps are cut to whole milliseconds.
    nanoseconds: bool,
}

/// How long [`Epoll::wait`] may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Poll,
    /// At most so many nanoseconds.
    Ns(u64),
}

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes numbers only; the new descriptor is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Self {
            fd,
            nanoseconds: true,
        })
    }

    /// Watch a socket for everything, edge-triggered; its events carry `token`.
    pub fn add(&self, socket: &OwnedFd, token: u64) -> io::Result<()> {
        let mask = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: mask as u32,
            u64: token,
        };
        // SAFETY: `event` is valid for the read.
        let result = unsafe {
            libc::epoll_ctl(
                self.fd.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                socket.as_raw_fd(),
                &mut event,
            )
        };
        check(result).map(drop)
    }

    /// The events that are there, after sleeping at most as told. A signal ends the sleep.
    #[inline]
    pub fn wait(&mut self, events: &mut [libc::epoll_event], wait: Wait) -> io::Result<usize> {
        let capacity = events.len() as c_int;
        let result = match wait {
            // SAFETY: `events` is valid for the write of its length.
            Wait::Poll => unsafe {
                libc::epoll_wait(self.fd.as_raw_fd(), events.as_mut_ptr(), capacity, 0)
            },
            Wait::Ns(ns) if self.nanoseconds => {
                let timeout = timespec(ns);
                // SAFETY: `events` and `timeout` are valid; no signal mask is given.
                let result = unsafe {
                    libc::syscall(
                        libc::SYS_epoll_pwait2,
                        self.fd.as_raw_fd(),
                        events.as_mut_ptr(),
                        capacity,
                        &timeout as *const libc::timespec,
                        std::ptr::null::<c_void>(),
                        0usize,
                    )
                };
                if result < 0 && matches!(errno(), libc::ENOSYS | libc::EPERM) {
                    self.nanoseconds = false;
                    return self.wait(events, wait);
                }
                result as c_int
            }
            Wait::Ns(ns) => {
                let ms = (ns / 1_000_000).min(60_000) as c_int;
                // SAFETY: `events` is valid for the write of its length.
                unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events.as_mut_ptr(), capacity, ms) }
            }
        };
        match check(result) {
            Ok(n) => Ok(n as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Raise the soft limit of open files to the hard one.
pub fn raise_file_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for the write and the read.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

// ---------------------------------------------------------------- memory

/// A fixed column of numbers, all zero at first, that never moves and never grows.
#[derive(Debug)]
pub struct Column<T: Copy> {
    start: *mut T,
    length: usize,
}

impl<T: Copy> Column<T> {
    /// Room for `length` numbers. With `populate` its pages are there at once, so that the first
    /// write to each of them costs no page fault; without, memory is taken as it is used.
    ///
    /// Huge pages are refused: zeroing one takes 100 µs or more, which is a stall of our own.
    pub fn new(length: usize, populate: bool) -> io::Result<Self> {
        let bytes = (length * size_of::<T>()).max(1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping; `T` is a plain number for which zero bytes are valid
        // (the constructor is used with integers only).
        let start = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            );
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            if populate {
                std::ptr::write_bytes(start.cast::<u8>(), 0, bytes);
            } else {
                libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
            }
            start.cast()
        };
        Ok(Self { start, length })
    }
}

impl<T: Copy> std::ops::Deref for Column<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `length` initialised values as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<T: Copy> std::ops::DerefMut for Column<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl<T: Copy> Drop for Column<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size.
        unsafe { libc::munmap(self.start.cast(), (self.length * size_of::<T>()).max(1)) };
    }
}

/// Bytes per page of memory.
pub fn page_bytes() -> u64 {
    // SAFETY: takes a number only.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

// ---------------------------------------------------------------- signals

static STOP: AtomicBool = AtomicBool::new(false);
static PARENT: AtomicI32 = AtomicI32::new(0);

/// Whether SIGTERM or SIGINT came, or the parent process died.
#[inline]
pub fn stop_requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

extern "C" fn on_stop(_signal: c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// The kernel sends the death signal when the *thread* that started us ends (prctl(2)), which is no
/// reason to stop as long as its process lives; a dead process shows as a new parent.
extern "C" fn on_parent_death(_signal: c_int) {
    // SAFETY: getppid is async-signal-safe.
    if unsafe { libc::getppid() } != PARENT.load(Ordering::Relaxed) {
        STOP.store(true, Ordering::Relaxed);
    }
}

fn handle(signal: c_int, handler: extern "C" fn(c_int)) {
    // SAFETY: the handlers only touch atomics and call getppid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Turn SIGTERM and SIGINT into a flag, and ignore SIGPIPE (a closed pipe is an error of a write).
pub fn install_signals() {
    handle(libc::SIGTERM, on_stop);
    handle(libc::SIGINT, on_stop);
    // SAFETY: takes numbers only.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Stop when the process that started us dies.
pub fn die_with_parent() {
    // SAFETY: take numbers only.
    unsafe {
        PARENT.store(libc::getppid(), Ordering::Relaxed);
        handle(libc::SIGUSR2, on_parent_death);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGUSR2 as u64, 0, 0, 0);
    }
}

/// Sleep until the descriptor is readable (or at its end); false if a stop was requested meanwhile.
pub fn wait_readable(fd: RawFd) -> bool {
    // SAFETY: the sets and the pollfd are valid locals. The signals are blocked while the flag is
    // read and let in by ppoll alone, so that none can come between the two and be slept through.
    unsafe {
        let mut ours: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut ours);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGUSR2] {
            libc::sigaddset(&mut ours, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &ours, &mut before);
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut ready = false;
        while !stop_requested() && !ready {
            ready = libc::ppoll(&mut poll, 1, std::ptr::null(), &before) > 0;
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        ready && !stop_requested()
    }
}

/// Read from a descriptor; 0 is its end.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `buffer` is valid for the write of its length.
    count(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
}
