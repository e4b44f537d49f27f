//! The processes that listen on an address of this host.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The states of listening sockets in `/proc/net` (include/net/tcp_states.h): a UDP socket without a
/// peer is "closed".
const TCP_LISTEN: u8 = 0x0a;
const UDP_OPEN: u8 = 0x07;

/// Return the ids of the processes that listen on an address over TCP, or over UDP: on the address
/// itself, otherwise on all addresses. Processes of other users are visible to root only.
pub fn on(address: SocketAddr, udp: bool) -> Vec<i32> {
    let (names, state) = if udp {
        (["udp", "udp6"], UDP_OPEN)
    } else {
        (["tcp", "tcp6"], TCP_LISTEN)
    };
    let tables = names.map(|name| fs::read_to_string(format!("/proc/net/{name}")));
    let sockets: Vec<Socket> = tables
        .iter()
        .flatten()
        .flat_map(|table| table.lines().filter_map(Socket::parse))
        .filter(|socket| socket.state == state && socket.port == address.port())
        .collect();
    let at = |ip: IpAddr| {
        let found = sockets.iter().filter(move |socket| socket.ip == ip);
        found.map(|socket| socket.inode).collect::<HashSet<_>>()
    };
    let mut inodes = at(address.ip().to_canonical());
    if inodes.is_empty() {
        // A socket for all IPv6 addresses usually takes those of IPv4 too.
        inodes = at(Ipv6Addr::UNSPECIFIED.into());
        inodes.extend(at(Ipv4Addr::UNSPECIFIED.into()));
    }
    holders(&inodes)
}

/// One line of `/proc/net/tcp` and its kin.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    ip: IpAddr,
    port: u16,
    state: u8,
    inode: u64,
}

impl Socket {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (ip, port) = fields.next()?.split_once(':')?;
        let state = u8::from_str_radix(fields.nth(1)?, 16).ok()?;
        let inode = fields.nth(5)?.parse().ok()?;
        // Words of 32 bits, each in the order of this host's bytes.
        let words = ip.as_bytes().chunks(8).map(|word| {
            let word = std::str::from_utf8(word).ok()?;
            Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
        });
        let bytes = words.collect::<Option<Vec<_>>>()?.concat();
        let ip: IpAddr = match <[u8; 4]>::try_from(&bytes[..]) {
            Ok(four) => four.into(),
            Err(_) => <[u8; 16]>::try_from(&bytes[..]).ok()?.into(),
        };
        Some(Self {
            ip: ip.to_canonical(),
            port: u16::from_str_radix(port, 16).ok()?,
            state,
            inode,
        })
    }
}

/// Return the processes with a descriptor of one of these sockets, in ascending order: a main
/// process before those that it started. Never the first process: a service manager holds sockets
/// for others.
fn holders(inodes: &HashSet<u64>) -> Vec<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let holds = |pid: &i32| {
        let held = fs::read_dir(format!("/proc/{pid}/fd"));
        held.into_iter().flatten().flatten().any(|entry| {
            let target = fs::read_link(entry.path()).ok();
            let inode = target.as_ref().and_then(|target| {
                let name = target.to_str()?.strip_prefix("socket:[")?;
                name.strip_suffix(']')?.parse().ok()
            });
            inode.is_some_and(|inode: u64| inodes.contains(&inode))
        })
    };
    let mut found: Vec<i32> = pids.filter(|pid| *pid > 1).filter(holds).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    /// This process is found by its sockets: TCP and UDP, one address and all of them; no process is
    /// found on a port without a listener.
    #[test]
    fn a_listening_process_is_found() {
        let own = vec![std::process::id() as i32];
        for bound in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            let Ok(tcp) = TcpListener::bind(bound) else {
                continue;
            };
            let mut address = tcp.local_addr().unwrap();
            if bound.starts_with('0') {
                address.set_ip(Ipv4Addr::LOCALHOST.into());
            }
            assert_eq!(on(address, false), own, "{bound}");
            let udp = UdpSocket::bind(bound).unwrap();
            address.set_port(udp.local_addr().unwrap().port());
            assert_eq!(on(address, true), own, "{bound}");
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        assert!(on(port.unwrap(), false).is_empty());
    }

    /// Addresses of both families are read, an IPv4 address in IPv6 as itself.
    #[test]
    fn lines_of_both_families_are_read() {
        let rest = "0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 x";
        for (written, ip) in [
            (u32::from_ne_bytes([127, 0, 0, 1]), "127.0.0.1"),
            (0, "0.0.0.0"),
        ] {
            let line = format!("  0: {written:08X}:1F90 00000000:0000 {rest}");
            let socket = Socket::parse(&line).unwrap();
            assert_eq!((socket.ip.to_string(), socket.port), (ip.into(), 8080));
            assert_eq!((socket.state, socket.inode), (TCP_LISTEN, 4711));
        }
        let mapped = [
            0,
            0,
            u32::from_ne_bytes([0, 0, 255, 255]),
            u32::from_ne_bytes([127, 0, 0, 1]),
        ];
        let words = mapped.map(|word| format!("{word:08X}")).concat();
        let line = format!("  0: {words}:1F90 {}:0000 {rest}", "0".repeat(32));
        assert_eq!(Socket::parse(&line).unwrap().ip, Ipv4Addr::LOCALHOST);
        assert_eq!(Socket::parse("  sl  local_address rem_address   st"), None);
    }
}
