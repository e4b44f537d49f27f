//! Network faults, in a network namespace: no free ports, lost packets, a host that disappears. The
//! tests need root; without it they show nothing.

#![allow(unsafe_code)]

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use crate::support::{HELLO, Responder, assert_accounted, window};
use serde_json::json;
use tuner_loadgen::output::WindowLine;

/// Switch the loopback of this thread's network on or off.
fn loopback(up: bool) {
    // SAFETY: the request is plain data, and the socket is closed in the end.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        assert!(socket >= 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = if up { libc::IFF_UP as libc::c_short } else { 0 };
        assert_eq!(libc::ioctl(socket, libc::SIOCSIFFLAGS, &request), 0);
        libc::close(socket);
    }
}

/// Run a test in a thread with a network of its own; its threads share that network.
fn in_own_network(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        // SAFETY: takes a number only, and concerns this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            eprintln!("not shown: this user may not make a network");
            return;
        }
        loopback(true);
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn good() -> Responder {
    Responder::start(
        |mut client, _| while client.request().is_some() && client.answer(HELLO).is_ok() {},
    )
}

fn failed_connects(line: &WindowLine, kind: &str) -> u64 {
    line.errors.get(kind).copied().unwrap_or(0)
}

/// With fewer local ports than connections, the missing ones are counted as attempts without a
/// port, and the window continues with the others.
#[test]
fn no_ports_left() {
    in_own_network(|| {
        let server = good();
        let range = "/proc/sys/net/ipv4/ip_local_port_range";
        std::fs::write(range, "40000 40003").unwrap();
        let line = window(server.address, json!({"connections": 16, "timeout_s": 1.0}));
        // The responder needs one to end.
        std::fs::write(range, "32768 60999").unwrap();
        assert_accounted(&line);
        assert!(
            failed_connects(&line, "connect_no_ports") > 0,
            "{:?}",
            line.errors
        );
        assert!((1..=4).contains(&line.connects), "{line:?}");
        assert_eq!(line.completed, line.offered);
    });
}

/// At a server with a full backlog, attempts to connect time out.
#[test]
fn connects_that_are_never_answered() {
    in_own_network(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: listening again only changes the length of the queue.
        unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) };
        let address: SocketAddr = listener.local_addr().unwrap();
        let line = window(address, json!({"timeout_s": 0.2, "duration_s": 0.8}));
        assert_accounted(&line);
        assert!(
            failed_connects(&line, "connect_timeout") > 0,
            "{:?}",
            line.errors
        );
        assert_eq!(line.completed, 0);
    });
}

/// A network that is down for a while in the middle: connections are half-open, packets are lost.
/// Open requests time out with their age, and then the window continues.
#[test]
fn a_network_that_goes_and_comes() {
    in_own_network(|| {
        let server = good();
        let breaker = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(600));
            loopback(false);
            std::thread::sleep(Duration::from_millis(500));
            loopback(true);
        });
        let line = window(server.address, json!({"timeout_s": 0.3, "duration_s": 2.0}));
        breaker.join().unwrap();
        assert_accounted(&line);
        assert!(line.timeouts > 0, "{line:?}");
        assert!(line.completed > line.offered / 4, "{line:?}");
        assert!(line.latency.corrected.max_us.unwrap() >= 290_000.0);
        assert!(line.reconnects > 0);
    });
}

/// A network that goes and never comes back: nothing hangs, and every request is accounted for.
#[test]
fn a_network_that_goes() {
    in_own_network(|| {
        let server = good();
        let breaker = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(600));
            loopback(false);
        });
        let line = window(server.address, json!({"timeout_s": 0.3, "duration_s": 1.0}));
        breaker.join().unwrap();
        loopback(true);
        assert_accounted(&line);
        let lost = line.timeouts + line.in_flight + line.unsent;
        assert!(lost > 0 && line.completed < line.offered, "{line:?}");
    });
}
