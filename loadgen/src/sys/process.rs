//! CPUs, priorities and limits of a process and its threads, and signals to stop.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use libc::c_int;

use super::call::{check, count, timespec};

/// Return the CPUs on which a process's main thread may run, or the calling thread if it is 0; none
/// if that cannot be seen.
fn allowed_cpus(pid: i32) -> Vec<usize> {
    // SAFETY: `cpu_set_t` is plain data, and its size is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(pid, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &set))
            .collect()
    }
}

/// Return the number of CPUs on which a process's main thread may run; 0 if it has ended.
pub fn cpus_of(pid: i32) -> usize {
    allowed_cpus(pid).len()
}

/// Return those of `cpus` that the calling thread may be pinned to. It tries each: the current
/// affinity (of taskset, for example) is no limit, but a cpuset is.
pub fn usable_cpus(cpus: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let before = allowed_cpus(0);
    let usable = cpus
        .into_iter()
        .filter(|cpu| pin(&[*cpu]).is_ok())
        .collect();
    // The previous CPUs are still allowed.
    let _ = pin(&before);
    usable
}

/// Pin the calling thread to these CPUs.
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

/// Give the calling thread real-time priority (SCHED_FIFO); return false if that is not permitted.
pub fn set_realtime(priority: i32) -> bool {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `parameters` is valid for the read.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 }
}

/// Raise the priority of this thread and those that it starts above other processes; return whether
/// it is above all of them.
///
/// With autogroups, niceness counts within one session only, and the session's niceness counts
/// between sessions (sched(7)). It is set only for a session of our own, because another session
/// would keep it.
pub fn raise_priority() -> bool {
    const AUTOGROUP: &str = "/proc/self/autogroup";
    // SAFETY: take numbers only; 0 is the calling thread, or the calling process.
    let (granted, own_session) = unsafe {
        let granted = libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0;
        (granted, libc::getsid(0) == libc::getpid())
    };
    let grouped = std::fs::exists(AUTOGROUP).unwrap_or(false);
    granted && (!grouped || own_session && std::fs::write(AUTOGROUP, "-20").is_ok())
}

/// Let the calling thread run only on idle CPUs (SCHED_IDLE); any other thread that wakes up there
/// takes the CPU at once.
pub fn set_idle_priority() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is valid for the read. A refusal leaves the usual priority.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) };
}

/// Raise the soft limit of open files to the hard limit.
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

static STOP: AtomicU32 = AtomicU32::new(0);
static PARENT: AtomicI32 = AtomicI32::new(0);

/// Return whether SIGTERM or SIGINT came, or the parent process died.
#[inline]
pub fn stop_requested() -> bool {
    STOP.load(Ordering::Relaxed) > 0
}

/// Return how many requests to stop came.
pub fn stops_requested() -> u32 {
    STOP.load(Ordering::Relaxed)
}

extern "C" fn on_stop(_signal: c_int) {
    STOP.fetch_add(1, Ordering::Relaxed);
}

/// The kernel sends the death signal when the *thread* that started us ends (prctl(2)), which is no
/// reason to stop as long as its process lives; a dead process shows as a new parent.
extern "C" fn on_parent_death(_signal: c_int) {
    // SAFETY: getppid is async-signal-safe.
    if unsafe { libc::getppid() } != PARENT.load(Ordering::Relaxed) {
        STOP.fetch_add(1, Ordering::Relaxed);
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

/// Turn SIGTERM and SIGINT into a flag, and ignore SIGPIPE (a write to a closed pipe returns an
/// error).
pub fn install_signals() {
    handle(libc::SIGTERM, on_stop);
    handle(libc::SIGINT, on_stop);
    // SAFETY: takes numbers only.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Request a stop when the parent process dies.
pub fn die_with_parent() {
    // SAFETY: take numbers only.
    unsafe {
        PARENT.store(libc::getppid(), Ordering::Relaxed);
        handle(libc::SIGUSR2, on_parent_death);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGUSR2 as u64, 0, 0, 0);
    }
    // A parent that died before the last call sent no signal.
    on_parent_death(libc::SIGUSR2);
}

/// The result of waiting for a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// Readable, or at its end.
    Yes,
    /// The time is over.
    No,
    /// A stop was requested.
    Stop,
}

/// Sleep until the descriptor is readable (or at its end); return false if a stop is requested.
pub fn wait_readable(fd: RawFd) -> bool {
    loop {
        match wait_readable_for(fd, 3_600_000_000_000) {
            Readable::Yes => return true,
            Readable::Stop => return false,
            Readable::No => {}
        }
    }
}

/// Sleep until the descriptor is readable (or at its end), for at most `ns` nanoseconds. Any signal
/// may end the wait early.
pub fn wait_readable_for(fd: RawFd, ns: u64) -> Readable {
    // SAFETY: the sets, the time and the pollfd are valid locals. The signals are blocked while the
    // flag is read, and only ppoll unblocks them, so none can come in between and be missed.
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
        let time = timespec(ns);
        let ready = !stop_requested() && libc::ppoll(&mut poll, 1, &time, &before) > 0;
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        match (stop_requested(), ready) {
            (true, _) => Readable::Stop,
            (false, true) => Readable::Yes,
            (false, false) => Readable::No,
        }
    }
}

/// Read from a descriptor; 0 bytes mean its end.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `buffer` is valid for the write of its length.
    count(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
}
