//! Non-blocking TCP sockets.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::c_int;

use super::call::{check, count};
use super::clock::unix_ns;

/// Start to connect a TCP socket to `address`: non-blocking, without Nagle's delay.
///
/// The flag is true if the connection is already established.
pub fn connect(address: &SocketAddr) -> io::Result<(OwnedFd, bool)> {
    let socket = open(address, libc::SOCK_STREAM, libc::IPPROTO_TCP)?;
    set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1 as c_int)?;
    match connect_address(&socket, address) {
        Ok(()) => Ok((socket, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok((socket, false)),
        Err(error) => Err(error),
    }
}

/// Create a non-blocking socket of the address's family.
pub(super) fn open(address: &SocketAddr, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers only; the new descriptor has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind, protocol))?) })
}

/// Connect a socket to an address.
pub(super) fn connect_address(socket: &OwnedFd, address: &SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            connect_raw(socket, &raw)
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
            connect_raw(socket, &raw)
        }
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

pub(super) fn set_option<T>(
    socket: &OwnedFd,
    level: c_int,
    name: c_int,
    value: T,
) -> io::Result<()> {
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

/// Make the coming close reset the connection instead of letting it linger in TIME_WAIT.
pub fn reset_on_close(socket: &OwnedFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // After a failure, the close is an ordinary one.
    let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_LINGER, linger);
}

/// Return the pending error of a socket (SO_ERROR), which is the result of a connect.
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

/// Set how many connections may wait at a listener to be accepted.
pub fn set_backlog(listener: &TcpListener, connections: c_int) -> io::Result<()> {
    // SAFETY: takes numbers only. A second call changes the number (listen(2) in the kernel's
    // inet_listen).
    check(unsafe { libc::listen(listener.as_raw_fd(), connections) }).map(drop)
}

/// Send as many bytes as the socket takes now.
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

/// Receive the available bytes; 0 mean the end of the stream.
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

/// Let the kernel timestamp incoming bytes, for [`receive_stamped`]; return false if it does not
/// support that (socket(7)).
pub fn stamp_receives(socket: &OwnedFd) -> bool {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1 as c_int).is_ok()
}

/// A buffer for one control message with a time, aligned as the kernel requires.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Receive the available bytes; 0 mean the end of the stream. Also return how long ago the last of
/// these bytes arrived, in nanoseconds, if the kernel timestamped it.
#[inline]
pub fn receive_stamped(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut control = Control([0; 64]);
    let mut piece = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: `msghdr` is plain data; what it points to is valid for the writes of the sizes given,
    // and outlives the call. The control messages are walked by the macros made for it.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        let n = count(libc::recvmsg(
            socket.as_raw_fd(),
            &mut message,
            libc::MSG_DONTWAIT,
        ))?;
        let head = libc::CMSG_FIRSTHDR(&message);
        if head.is_null()
            || (*head).cmsg_level != libc::SOL_SOCKET
            || (*head).cmsg_type != libc::SCM_TIMESTAMPNS
        {
            return Ok((n, None));
        }
        let time: libc::timespec = libc::CMSG_DATA(head)
            .cast::<libc::timespec>()
            .read_unaligned();
        let at = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        Ok((n, unix_ns().checked_sub(at)))
    }
}
