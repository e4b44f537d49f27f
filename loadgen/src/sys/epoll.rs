//! Readiness of many sockets.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_void};

use super::call::{check, errno, timespec};

/// An edge-triggered epoll set.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    /// True if epoll_pwait2 exists (since Linux 5.11); without it, sleeps are cut to whole
    /// milliseconds.
    nanoseconds: bool,
}

/// Limit for the sleep of [`Epoll::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Poll,
    /// At most this many nanoseconds.
    Ns(u64),
}

impl Epoll {
    /// Create an empty set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes numbers only; the new descriptor has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Self {
            fd,
            nanoseconds: true,
        })
    }

    /// Poll a socket for reading and writing, edge-triggered; its events have this `token`.
    pub fn add(&self, socket: &OwnedFd, token: u64) -> io::Result<()> {
        self.watch(socket, token, libc::EPOLLIN | libc::EPOLLOUT)
    }

    /// Poll a socket for reading only.
    pub fn add_reading(&self, socket: &OwnedFd, token: u64) -> io::Result<()> {
        self.watch(socket, token, libc::EPOLLIN)
    }

    fn watch(&self, socket: &OwnedFd, token: u64, mask: c_int) -> io::Result<()> {
        let mask = mask | libc::EPOLLRDHUP | libc::EPOLLET;
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

    /// Return the number of events, after sleeping at most for `wait`. A signal ends the sleep.
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
