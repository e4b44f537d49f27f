//! Non-blocking UDP sockets, each connected to one peer.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::{c_int, c_void};

use super::call::count;
use super::socket::{connect_address, open, send, set_option};

/// The largest datagram, or batch of datagrams of one size that the kernel passes as one.
const PIECE: usize = 64 * 1024;
/// Messages per system call.
const MESSAGES: usize = 8;
/// Size of a buffer for one control message with an int or a u16.
const CONTROL: usize = 32;

/// Create a UDP socket connected to `address`. It receives only from there, reports refusals, and
/// never fragments, so that the path's limit can be probed.
pub fn connect_udp(address: &SocketAddr) -> io::Result<OwnedFd> {
    let socket = open(address, libc::SOCK_DGRAM, libc::IPPROTO_UDP)?;
    let (level, name, value) = match address {
        SocketAddr::V4(_) => (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        ),
        SocketAddr::V6(_) => (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        ),
    };
    set_option(&socket, level, name, value)?;
    // Without it (before Linux 5.0), datagrams arrive one by one.
    let _ = set_option(&socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1 as c_int);
    connect_address(&socket, address)?;
    Ok(socket)
}

/// A buffer for one control message, aligned as the kernel requires.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// Send a datagram, or with `segment` a batch of datagrams of that size (the last one may be
/// shorter), in one system call and one pass through the network stack (UDP_SEGMENT).
#[inline]
pub fn send_datagrams(socket: &OwnedFd, bytes: &[u8], segment: Option<u16>) -> io::Result<usize> {
    let Some(segment) = segment else {
        return send(socket, bytes);
    };
    let mut control = Control([0; CONTROL]);
    let mut piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: computes a number.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as _;
    // SAFETY: `control` is aligned and has room for this one control message.
    unsafe {
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = libc::IPPROTO_UDP;
        (*head).cmsg_type = libc::UDP_SEGMENT;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(head).cast::<u16>().write_unaligned(segment);
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `message` points to memory that is valid for the call; the kernel only reads it.
    count(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) })
}

/// The result of one call of [`receive_datagrams`], as pieces of its buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Datagrams {
    /// The length of each message, and the size of its datagrams.
    messages: [(usize, usize); MESSAGES],
    count: usize,
    /// True if there may be more to receive.
    pub more: bool,
}

impl Datagrams {
    /// Return the datagrams in the order of their arrival.
    pub fn of<'b>(&self, buffer: &'b [u8]) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        let (messages, count) = (self.messages, self.count);
        let pieces = buffer.chunks(PIECE).zip(messages).take(count);
        pieces.flat_map(|(piece, (length, size))| piece[..length.min(piece.len())].chunks(size))
    }
}

/// Receive the available datagrams, into the buffer's pieces of 64 KB.
pub fn receive_datagrams(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Datagrams> {
    let mut controls = [Control([0; CONTROL]); MESSAGES];
    let mut pieces = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; MESSAGES];
    // SAFETY: all-zero is a valid mmsghdr.
    let mut messages: [libc::mmsghdr; MESSAGES] = unsafe { std::mem::zeroed() };
    let mut room = 0;
    for (i, piece) in buffer.chunks_mut(PIECE).take(MESSAGES).enumerate() {
        pieces[i].iov_base = piece.as_mut_ptr().cast();
        pieces[i].iov_len = piece.len();
        messages[i].msg_hdr.msg_iov = &mut pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_control = controls[i].0.as_mut_ptr().cast();
        messages[i].msg_hdr.msg_controllen = CONTROL as _;
        room = i + 1;
    }
    // SAFETY: the first `room` messages point to memory that is valid for the call.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            room as u32,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let mut datagrams = Datagrams {
        count: count(received as isize)?,
        ..Datagrams::default()
    };
    datagrams.more = datagrams.count == room;
    for (place, message) in datagrams
        .messages
        .iter_mut()
        .zip(&messages[..datagrams.count])
    {
        let length = message.msg_len as usize;
        // An empty datagram counts as one; with a size of 0 it would not.
        *place = (
            length,
            segment_of(&message.msg_hdr).unwrap_or(length).max(1),
        );
    }
    Ok(datagrams)
}

/// Return the size of the datagrams that the kernel has joined to one message (UDP_GRO).
fn segment_of(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel has filled in `message`, which points to memory that is still there.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = head.as_ref() {
            if control.cmsg_level == libc::IPPROTO_UDP && control.cmsg_type == libc::UDP_GRO {
                let data: *const c_void = libc::CMSG_DATA(control).cast();
                let size = data.cast::<c_int>().read_unaligned();
                return usize::try_from(size).ok().filter(|size| *size > 0);
            }
            head = libc::CMSG_NXTHDR(message, control);
        }
    }
    None
}
