//! TLS: negotiation and its report, and faulty servers, each by its kind.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{HELLO, Responder, assert_accounted, measure, plan};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion,
};
use serde_json::{Value, json};
use tuner_loadgen::output::WindowLine;

type Session = StreamOwned<ServerConnection, TcpStream>;

/// A certificate authority with its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = format!("tuner-loadgen-{}-{name}.pem", std::process::id());
        let file = std::env::temp_dir().join(file);
        std::fs::write(&file, issuer.pem()).unwrap();
        Self { issuer, file }
    }

    /// A server with a certificate for this name, until this year.
    fn server(
        &self,
        name: &str,
        until: i32,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ServerConfig {
        let (chain, key) = self.certificate(name, until);
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_protocol_versions(versions).unwrap();
        builder
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap()
    }

    fn certificate(
        &self,
        name: &str,
        until: i32,
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (vec![certificate.der().clone()], key.into())
    }

    /// A good server of today.
    fn good(&self) -> ServerConfig {
        self.server("localhost", 2100, &[&TLS13, &TLS12])
    }

    /// A window at a server, by HTTPS.
    fn offered(&self, server: &Responder, window: Value, tls: Value) -> WindowLine {
        let mut plan = plan(server.address, window, json!({}));
        let mut with = json!({"ca_file": self.file});
        with.as_object_mut()
            .unwrap()
            .extend(tls.as_object().cloned().unwrap());
        plan["instances"][0]["host"] = Value::from("localhost:443");
        plan["instances"][0]["tls"] = with;
        let line = measure(&plan).remove(0);
        assert_accounted(&line);
        line
    }

    /// Not one request can be sent to a server, for this one reason.
    fn assert_unsent(&self, server: &Responder, kind: &str) {
        let line = self.offered(server, json!({"timeout_s": 0.3}), json!({}));
        let kinds: Vec<&str> = line.errors.keys().map(String::as_str).collect();
        assert_eq!((kinds, line.unsent), (vec![kind], line.offered), "{line:?}");
    }

    /// Every request that is sent to such a server ends in this one kind of error.
    fn assert_only(&self, kind: &str, serve: impl Fn(&mut Session) + Send + Sync + 'static) {
        let server = responder(self.good(), serve);
        let line = self.offered(&server, json!({"rate_per_s": 100}), json!({}));
        let kinds: Vec<&str> = line.errors.keys().map(String::as_str).collect();
        assert_eq!((kinds, line.completed), (vec![kind], 0), "{line:?}");
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// A server in this process; the closure is given each session.
fn responder(
    config: ServerConfig,
    serve: impl Fn(&mut Session) + Send + Sync + 'static,
) -> Responder {
    let config = Arc::new(config);
    Responder::start(move |client, _| {
        let socket = client.stream.try_clone().unwrap();
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        serve(&mut StreamOwned::new(connection, socket));
    })
}

/// A server below TLS.
fn raw(serve: impl Fn(&mut &TcpStream) + Send + Sync + 'static) -> Responder {
    Responder::start(move |client, _| serve(&mut &*client.stream))
}

/// Wait for a request's head; false at the end.
fn request(session: &mut impl Read) -> bool {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while !seen.ends_with(b"\r\n\r\n") {
        match session.read(&mut piece) {
            Ok(n @ 1..) => seen.extend_from_slice(&piece[..n]),
            _ => return false,
        }
    }
    true
}

/// Answer each request well, and end in the way of TLS.
fn hello(session: &mut Session) {
    while request(session) && session.write_all(HELLO).is_ok() {}
    session.conn.send_close_notify();
    let _ = session.flush();
}

/// HTTP/1.1 over TLS 1.3: version, cipher, group and handshakes are reported.
#[test]
fn agreed() {
    let authority = Authority::new("agreed");
    let server = responder(authority.good(), hello);
    let line = authority.offered(&server, json!({}), json!({}));
    assert_eq!(
        (line.completed, line.errors.len()),
        (line.offered, 0),
        "{line:?}"
    );
    let tls = line.tls.unwrap();
    assert_eq!(tls.version["TLSv1.3"], 8);
    assert_eq!(tls.cipher["TLS_AES_256_GCM_SHA384"], 8);
    assert_eq!(tls.group["X25519MLKEM768"], 8);
    assert_eq!((tls.full, tls.resumed, tls.handshake.count), (8, 0, 8));
    assert_eq!(line.warnings, [""; 0]);
}

/// The same with TLS 1.2.
#[test]
fn older() {
    let authority = Authority::new("older");
    let server = responder(authority.server("localhost", 2100, &[&TLS12]), hello);
    let line = authority.offered(&server, json!({}), json!({}));
    assert_eq!(line.completed, line.offered);
    assert_eq!(line.tls.unwrap().version["TLSv1.2"], 8);
}

/// Reopened connections resume their sessions, unless that is disabled.
#[test]
fn resumption() {
    let authority = Authority::new("resumption");
    for versions in [&[&TLS13][..], &[&TLS12]] {
        let server = responder(authority.server("localhost", 2100, versions), hello);
        for resume in [true, false] {
            let window = json!({"requests_per_connection": 5, "connections": 2});
            let line = authority.offered(&server, window, json!({"resume": resume}));
            assert_eq!(
                (line.completed, line.errors.len()),
                (line.offered, 0),
                "{line:?}"
            );
            let tls = line.tls.unwrap();
            assert_eq!(tls.resumed > 20, resume, "{tls:?}");
            let opened = line.connects + line.reopened + line.reconnects;
            assert_eq!(tls.full + tls.resumed, opened, "{tls:?}");
        }
    }
}

/// Certificates that prove nothing: another authority's, an old one, one for another name.
#[test]
fn certificates() {
    let authority = Authority::new("certificates");
    let other = Authority::new("other");
    for (config, kind) in [
        (other.good(), "connect_tls_untrusted"),
        (
            authority.server("localhost", 2021, &[&TLS13]),
            "connect_tls_expired",
        ),
        (
            authority.server("example.org", 2100, &[&TLS13]),
            "connect_tls_wrong_name",
        ),
    ] {
        let server = responder(config, hello);
        authority.assert_unsent(&server, kind);
        let line = authority.offered(&server, json!({}), json!({"verify": false}));
        assert_eq!(line.completed, line.offered, "{line:?}");
        assert!(line.warnings[0].contains("not verified"), "{line:?}");
    }
    let server = responder(authority.server("example.org", 2100, &[&TLS13]), hello);
    let named = json!({"server_name": "example.org"});
    let line = authority.offered(&server, json!({}), named);
    assert_eq!(line.completed, line.offered);
}

/// A file without certificates, and a name that is none, are refused with the way out.
#[test]
fn wrong_plans() {
    let at = "127.0.0.1:1".parse().unwrap();
    for (tls, words) in [
        (
            json!({"ca_file": "/nowhere.pem"}),
            "tls.ca_file: /nowhere.pem",
        ),
        (json!({"ca_file": "/dev/null"}), "no certificate"),
    ] {
        let mut plan = plan(at, json!({}), json!({}));
        plan["instances"][0]["tls"] = tls;
        let plan = tuner_loadgen::plan::Plan::parse(&plan.to_string()).unwrap();
        let refused = tuner_loadgen::session::Session::new(&plan).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
    let mut plan = plan(at, json!({}), json!({}));
    plan["instances"][0]["tls"] = json!({"server_name": "no name"});
    let refused = tuner_loadgen::plan::Plan::parse(&plan.to_string()).unwrap_err();
    assert_eq!(refused.path, "instances[0].tls.server_name");
}

/// A server that does not accept HTTP/2, either silently or with an alert.
#[test]
fn no_agreement_on_http2() {
    let authority = Authority::new("alpn");
    let mut old = authority.good();
    old.alpn_protocols = vec![b"http/1.1".to_vec()];
    for config in [authority.good(), old] {
        let server = responder(config, hello);
        let mut plan = plan(server.address, json!({"timeout_s": 0.3}), json!({}));
        plan["instances"][0]["host"] = Value::from("localhost");
        plan["instances"][0]["protocol"] = Value::from("http2");
        plan["instances"][0]["tls"] = json!({"ca_file": authority.file});
        let line = measure(&plan).remove(0);
        assert!(line.errors["connect_tls_alpn"] > 0, "{line:?}");
        assert_eq!(line.unsent, line.offered);
    }
}

/// Handshakes fail with an alert, bytes that are not TLS, no common version, an end, or silence.
#[test]
fn handshakes() {
    let authority = Authority::new("handshakes");
    let read = |stream: &mut &TcpStream| {
        let mut hello = [0; 8192];
        let _ = stream.read(&mut hello);
    };
    let closing = |stream: &mut &TcpStream| {
        let _ = stream.shutdown(Shutdown::Write);
        let _ = std::io::copy(stream, &mut std::io::sink());
    };
    let alert = raw(move |stream| {
        read(stream);
        let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]);
        closing(stream);
    });
    authority.assert_unsent(&alert, "connect_tls_alert_handshake_failure");
    let old = raw(move |stream| {
        read(stream);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        closing(stream);
    });
    authority.assert_unsent(&old, "connect_tls_garbage");
    let half = raw(move |stream| {
        read(stream);
        let _ = stream.write_all(&[22, 3, 3, 1, 0, 2, 0]);
        closing(stream);
    });
    authority.assert_unsent(&half, "connect_tls_closed");
    let silent = raw(|stream| drop(std::io::copy(stream, &mut std::io::sink())));
    authority.assert_unsent(&silent, "connect_timeout");
}

/// A server that requires a client certificate: in TLS 1.3 it reports that when a request is
/// already sent.
#[test]
fn client_certificates() {
    let authority = Authority::new("client");
    let (chain, key) = authority.certificate("localhost", 2100);
    let mut roots = RootCertStore::empty();
    roots.add(authority.issuer.der().clone()).unwrap();
    let provider = Arc::new(default_provider());
    let wanted = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_client_cert_verifier(wanted.build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    let server = responder(config, |session| {
        while session.conn.complete_io(&mut session.sock).is_ok() {}
        let _ = session.sock.shutdown(Shutdown::Write);
        let _ = std::io::copy(&mut session.sock, &mut std::io::sink());
    });
    let line = authority.offered(&server, json!({"rate_per_s": 50}), json!({}));
    assert_eq!(line.completed, 0);
    assert!(
        line.errors["tls_alert_certificate_required"] > 0,
        "{line:?}"
    );
}

/// A response is truncated even if its end could be the end of the connection.
#[test]
fn truncated() {
    let authority = Authority::new("truncated");
    authority.assert_only("tls_truncated", |session| {
        if request(session) {
            let _ = session.write_all(b"HTTP/1.1 200 OK\r\n\r\nhel");
        }
    });
    // The same with an end in the way of TLS is a whole response of the wrong length.
    authority.assert_only("wrong_length", |session| {
        if request(session) {
            let _ = session.write_all(b"HTTP/1.1 200 OK\r\n\r\nhel");
            session.conn.send_close_notify();
            let _ = session.flush();
            let _ = std::io::copy(&mut session.sock, &mut std::io::sink());
        }
    });
    // Half a record.
    authority.assert_only("tls_truncated", |session| {
        if request(session) && session.write_all(&HELLO[..20]).is_ok() {
            let _ = session.sock.write_all(&[23, 3, 3, 1, 0, 1, 2, 3]);
        }
    });
}

/// A server that hangs up before it answers is closed, as in cleartext.
#[test]
fn closed() {
    let authority = Authority::new("closed");
    authority.assert_only("closed", |session| {
        request(session);
    });
}

/// The end of a connection is noticed even if it comes in one packet with session tickets, which are
/// records without data.
#[test]
fn closed_with_tickets() {
    let authority = Authority::new("tickets");
    let server = responder(authority.good(), |session| {
        let (connection, socket) = (&mut session.conn, &mut session.sock);
        shake_hands(connection, socket);
        let mut piece = [0; 4096];
        while connection.reader().read(&mut piece).is_err() {
            if !matches!(connection.read_tls(socket), Ok(1..)) {
                return;
            }
            connection.process_new_packets().unwrap();
        }
        send_with_the_end(connection, socket);
    });
    let line = authority.offered(&server, json!({}), json!({}));
    let kinds: Vec<&str> = line.errors.keys().map(String::as_str).collect();
    assert_eq!(
        (kinds, line.timeouts, line.in_flight),
        (vec!["closed"], 0, 0)
    );
}

/// The same before the first frame of HTTP/2: the connection was never open.
#[test]
fn closed_with_tickets_on_http2() {
    let authority = Authority::new("tickets-h2");
    let mut config = authority.good();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let server = responder(config, |session| {
        shake_hands(&mut session.conn, &session.sock);
        send_with_the_end(&mut session.conn, &session.sock);
    });
    let mut plan = plan(server.address, json!({}), json!({}));
    plan["instances"][0]["host"] = Value::from("localhost");
    plan["instances"][0]["protocol"] = Value::from("http2");
    plan["instances"][0]["tls"] = json!({"ca_file": authority.file});
    let line = measure(&plan).remove(0);
    let kinds: Vec<&str> = line.errors.keys().map(String::as_str).collect();
    assert_eq!(
        (kinds, line.unsent),
        (vec!["connect_tls_closed"], line.offered)
    );
}

/// Complete a handshake, and keep the session tickets.
fn shake_hands(connection: &mut ServerConnection, mut socket: &TcpStream) {
    while connection.is_handshaking() {
        while connection.wants_write() {
            connection.write_tls(&mut socket).unwrap();
        }
        if !matches!(connection.read_tls(&mut socket), Ok(1..)) {
            return;
        }
        connection.process_new_packets().unwrap();
    }
}

/// Send what a connection has to send, and its end, in one packet.
fn send_with_the_end(connection: &mut ServerConnection, socket: &TcpStream) {
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes).unwrap();
    }
    // With MSG_MORE, the kernel keeps them until the end comes (send(2)).
    #[expect(unsafe_code, reason = "the standard library sends without flags")]
    // SAFETY: the bytes are valid for the read of their length.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_MORE,
        )
    };
    assert_eq!(sent, bytes.len() as isize);
    socket.shutdown(Shutdown::Write).unwrap();
    let _ = std::io::copy(&mut &*socket, &mut std::io::sink());
}

/// Records that cannot be decrypted.
#[test]
fn garbage() {
    let authority = Authority::new("garbage");
    authority.assert_only("tls_garbage", |session| {
        if request(session) {
            let record = [&[23, 3, 3, 0, 40][..], &[7; 40]].concat();
            let _ = session.sock.write_all(&record);
            let _ = std::io::copy(&mut session.sock, &mut std::io::sink());
        }
    });
}

/// Records that come byte by byte are slow, not wrong.
#[test]
fn slow_bytes() {
    /// A socket that sends single bytes.
    struct Slow(TcpStream);
    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buffer)
        }
    }
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            std::thread::sleep(Duration::from_micros(20));
            self.0.write(&bytes[..1.min(bytes.len())])
        }
        fn flush(&mut self) -> std::io::Result<()> {
            self.0.flush()
        }
    }
    let authority = Authority::new("slow");
    let config = Arc::new(authority.good());
    let server = Responder::start(move |client, _| {
        let socket = Slow(client.stream.try_clone().unwrap());
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut session = StreamOwned::new(connection, socket);
        while request(&mut session) && session.write_all(HELLO).is_ok() {}
    });
    let window = json!({"rate_per_s": 20, "connections": 2, "timeout_s": 10.0});
    let line = authority.offered(&server, window, json!({}));
    assert_eq!(
        (line.completed, line.errors.len()),
        (line.offered, 0),
        "{line:?}"
    );
}

/// Large bodies go both ways whole.
#[test]
fn large_bodies() {
    use base64::Engine as _;
    const SIZE: usize = 3 << 20;
    let authority = Authority::new("large");
    let server = responder(authority.good(), |session| {
        let mut body = vec![0; SIZE];
        while request_head(session) && session.read_exact(&mut body).is_ok() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n");
            if session.write_all(head.as_bytes()).is_err() || session.write_all(&body).is_err() {
                return;
            }
        }
    });
    /// Read a head, and no byte after it.
    fn request_head(session: &mut Session) -> bool {
        let (mut seen, mut byte) = (Vec::new(), [0]);
        while !seen.ends_with(b"\r\n\r\n") {
            if session.read_exact(&mut byte).is_err() {
                return false;
            }
            seen.push(byte[0]);
        }
        true
    }
    let bytes: Vec<u8> = (0..SIZE as u32).map(|i| (i % 251) as u8).collect();
    let hash: String = {
        use sha2::Digest as _;
        let hash = sha2::Sha256::digest(&bytes);
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let body = base64::engine::general_purpose::STANDARD.encode(&bytes);
    let requests = json!([{"method": "POST", "path": "/", "body_base64": body,
        "expect": {"length": SIZE, "sha256": hash}}]);
    let window = json!({"rate_per_s": 10, "connections": 2, "timeout_s": 20.0, "warmup_s": 0});
    let mut plan = plan(server.address, window, json!({"requests": requests}));
    plan["instances"][0]["host"] = Value::from("localhost");
    plan["instances"][0]["tls"] = json!({"ca_file": authority.file});
    let line = measure(&plan).remove(0);
    assert_accounted(&line);
    assert_eq!(
        (line.completed, line.errors.len()),
        (line.offered, 0),
        "{line:?}"
    );
}
