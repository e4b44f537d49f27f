//! Other processes, stopped and continued by signals, and a process that continues them if this one
//! dies.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libc::{c_int, c_uint, pid_t};

use super::call::{check, errno, timespec};
use super::clock::now_ns;
use super::memory::Column;

/// Time after which the guardian continues all processes, unless it is put off again: longer than
/// any stall of a host that still measures something.
const PUT_OFF_NS: u64 = 1_000_000_000;
/// Interval at which the guardian looks.
const LOOK_NS: u64 = 500_000_000;
/// Descriptors closed one by one where close_range does not exist (before Linux 5.9).
const CLOSED: c_uint = 4096;

/// Another process. It is held by a descriptor, so a signal never reaches a later process with the
/// same id (pidfd_open(2), since Linux 5.3).
#[derive(Debug)]
pub struct Process {
    fd: OwnedFd,
}

impl Process {
    /// Open a process that this one may send signals to.
    pub fn open(pid: i32) -> io::Result<Self> {
        // SAFETY: takes numbers only; the new descriptor has no other owner.
        let fd = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid as pid_t, 0 as c_uint);
            OwnedFd::from_raw_fd(check(fd as c_int)?)
        };
        let process = Self { fd };
        process.probe()?;
        Ok(process)
    }

    /// Return an error unless the process exists and may be sent signals.
    pub fn probe(&self) -> io::Result<()> {
        send(self.fd.as_raw_fd(), 0)
    }

    /// Stop the process.
    pub fn stop(&self) -> io::Result<()> {
        send(self.fd.as_raw_fd(), libc::SIGSTOP)
    }

    /// Continue the process; nothing happens if it runs.
    pub fn resume(&self) -> io::Result<()> {
        send(self.fd.as_raw_fd(), libc::SIGCONT)
    }
}

fn send(process: RawFd, signal: c_int) -> io::Result<()> {
    let info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: takes numbers only; without `info` the kernel fills it in as for kill(2).
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process,
            signal,
            info,
            0 as c_uint,
        )
    };
    check(result as c_int).map(drop)
}

/// A process of its own that continues others when this one has died, however it died, or does
/// nothing for a second while others are stopped: it was itself stopped, or hangs.
///
/// A death signal (prctl(2), PR_SET_PDEATHSIG) could not do this: it is sent to children of the dead
/// process, and servers are none.
#[derive(Debug)]
pub struct Guardian {
    pid: pid_t,
    /// The kernel closes it when this process dies. Closed first on drop.
    pipe: Option<OwnedFd>,
    /// Instant at which the guardian continues all; 0: never.
    deadline: Column<AtomicU64>,
}

impl Guardian {
    /// Start the guardian of these processes.
    pub fn start<'a>(processes: impl IntoIterator<Item = &'a Process>) -> io::Result<Self> {
        let guarded: Vec<RawFd> = processes.into_iter().map(|p| p.fd.as_raw_fd()).collect();
        let mut ends = [0; 2];
        // SAFETY: `ends` is valid for the write; the new descriptors have no other owner.
        let (end, pipe) = unsafe {
            check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        let deadline = Column::shared(1)?;
        let mut kept = guarded.clone();
        kept.push(end.as_raw_fd());
        kept.sort_unstable();
        // SAFETY: the child uses only system calls and memory allocated above: other threads may
        // have held locks, the allocator's too. It never returns.
        let pid = unsafe {
            let pid = check(libc::fork())?;
            if pid == 0 {
                detach();
                close_others(&kept);
                watch(end.as_raw_fd(), &guarded, &deadline);
                libc::_exit(0);
            }
            pid
        };
        Ok(Self {
            pid,
            pipe: Some(pipe),
            deadline,
        })
    }

    /// Put off the instant at which the guardian continues all processes; to be called at least
    /// every half second.
    pub fn put_off(&self, now: u64) {
        self.deadline[0].store(now + PUT_OFF_NS, Relaxed);
    }

    /// Let the guardian wait for the death of this process only: no other is stopped.
    pub fn relax(&self) {
        self.deadline[0].store(0, Relaxed);
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.pipe = None;
        // SAFETY: takes numbers only; the status is not wanted.
        while unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) } < 0
            && errno() == libc::EINTR
        {}
    }
}

/// Leave the terminal and the folder of the parent, so that signals to its group do not end the
/// guardian, and raise its priority as far as that is allowed: it hardly ever runs, and must not
/// wait for a busy generator. With autogroups the session's niceness counts (sched(7)).
fn detach() {
    // SAFETY: take numbers and literals only.
    unsafe {
        libc::setsid();
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
        let group = libc::open(c"/proc/self/autogroup".as_ptr(), libc::O_WRONLY);
        if group >= 0 {
            libc::write(group, c"-20".as_ptr().cast(), 3);
            libc::close(group);
        }
        libc::chdir(c"/".as_ptr());
        libc::prctl(libc::PR_SET_NAME, c"loadgen-guard".as_ptr());
        for signal in [
            libc::SIGHUP,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGTERM,
            libc::SIGUSR2,
        ] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Close all descriptors but these, in ascending order: a reader of the parent's output must see its
/// end when the parent ends.
fn close_others(kept: &[RawFd]) {
    let mut first: c_uint = 0;
    let ends = kept.iter().map(|fd| *fd as c_uint);
    for next in ends.chain([c_uint::MAX]) {
        if first < next {
            // SAFETY: takes numbers only; no owner of these descriptors runs in this process.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, first, next - 1, 0) };
            if closed < 0 {
                for fd in first..next.min(CLOSED) {
                    // SAFETY: as above.
                    unsafe { libc::close(fd as c_int) };
                }
            }
        }
        first = next.saturating_add(1);
    }
}

/// Continue the processes when the other end of the pipe is closed, or at the deadline.
fn watch(pipe: RawFd, guarded: &[RawFd], deadline: &[AtomicU64]) {
    let mut poll = libc::pollfd {
        fd: pipe,
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        let time = timespec(LOOK_NS);
        // SAFETY: `poll` and `time` are valid locals; no signal mask is given.
        let ready = unsafe { libc::ppoll(&mut poll, 1, &time, std::ptr::null()) };
        let until = deadline.first().map_or(0, |at| at.load(Relaxed));
        if ready > 0 || (until > 0 && now_ns() > until) {
            for process in guarded {
                let _ = send(*process, libc::SIGCONT);
            }
        }
        if ready > 0 {
            return;
        }
    }
}
