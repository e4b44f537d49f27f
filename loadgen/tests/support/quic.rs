//! HTTP/3 servers in this process: a correct one by others (quinn and h3), and ones whose faults
//! are a closure.

use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, VarInt};
use quinn_proto::RandomConnectionIdGenerator;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};

/// A server and the certificate that it is trusted by.
pub struct Quic {
    pub address: SocketAddr,
    /// Its certificate, in PEM.
    pub certificate: PathBuf,
    endpoint: Option<Endpoint>,
    /// The configuration that a restarted process would read: it has the key that signs the resets
    /// of the old process's connections.
    config: (EndpointConfig, ServerConfig),
    runtime: Option<tokio::runtime::Runtime>,
}

/// A certificate for `localhost` in a file, and a server that has it.
fn certificate() -> (PathBuf, ServerConfig) {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::SeqCst);
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let own = format!("certificate {number} of a test");
    params.distinguished_name.push(DnType::CommonName, own);
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
    let file = format!("loadgen-quic-{}-{number}.pem", std::process::id());
    let path = std::env::temp_dir().join(file);
    std::fs::write(&path, cert.pem()).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = QuicServerConfig::try_from(tls).unwrap();
    (path, ServerConfig::with_crypto(Arc::new(crypto)))
}

impl Quic {
    /// Serve each connection, with its number, with the closure.
    pub fn start<F>(serve: impl Fn(Connection, usize) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (certificate, tls) = certificate();
        let mut config = EndpointConfig::default();
        config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(8)));
        let at = "127.0.0.1:0".parse().unwrap();
        let server = Self::idle_at(at, certificate, (config, tls));
        server.serve(serve);
        server
    }

    /// A server without behaviour of its own.
    fn idle_at(
        at: SocketAddr,
        certificate: PathBuf,
        config: (EndpointConfig, ServerConfig),
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let entered = runtime.enter();
        let (how, serving) = config.clone();
        let socket = UdpSocket::bind(at).unwrap();
        let runs = Arc::new(TokioRuntime);
        let endpoint = Endpoint::new(how, Some(serving), socket, runs).unwrap();
        drop(entered);
        Self {
            address: endpoint.local_addr().unwrap(),
            certificate,
            endpoint: Some(endpoint),
            config,
            runtime: Some(runtime),
        }
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime.as_ref().unwrap().spawn(future);
    }

    fn serve<F>(&self, serve: impl Fn(Connection, usize) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let endpoint = self.endpoint.clone().unwrap();
        self.spawn(async move {
            let mut number = 0;
            while let Some(incoming) = endpoint.accept().await {
                let Ok(connection) = incoming.await else {
                    continue;
                };
                tokio::spawn(serve(connection, number));
                number += 1;
            }
        });
    }

    /// Answer each request with `hello`, by h3.
    pub fn good() -> Self {
        Self::start(|connection, _| hello(connection))
    }

    /// The same, with at most this number of concurrent requests on each connection.
    pub fn limited(streams: u32) -> Self {
        let (certificate, mut tls) = certificate();
        let mut transport = quinn::TransportConfig::default();
        transport.max_concurrent_bidi_streams(VarInt::from_u32(streams));
        tls.transport_config(Arc::new(transport));
        let at = "127.0.0.1:0".parse().unwrap();
        let server = Self::idle_at(at, certificate, (EndpointConfig::default(), tls));
        server.serve(|connection, _| hello(connection));
        server
    }

    /// Refuse each connection.
    pub fn refusing() -> Self {
        let (certificate, tls) = certificate();
        let mut config = EndpointConfig::default();
        config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(8)));
        let at = "127.0.0.1:0".parse().unwrap();
        let server = Self::idle_at(at, certificate, (config, tls));
        let endpoint = server.endpoint.clone().unwrap();
        server.spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                incoming.refuse();
            }
        });
        server
    }

    /// The plan's instance.
    pub fn changes(&self) -> Value {
        json!({"instances": [{
            "id": "a", "address": self.address.to_string(), "protocol": "http3",
            "tls": {"server_name": "localhost", "ca_file": self.certificate},
        }]})
    }

    /// Vanish without a word, as a process that was killed.
    pub fn vanish(&mut self) {
        self.endpoint = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }

    /// Vanish, and come back as a good server that knows nothing of the connections.
    pub fn restart(mut self) -> Self {
        self.vanish();
        let certificate = std::mem::take(&mut self.certificate);
        let server = Self::idle_at(self.address, certificate, self.config.clone());
        server.serve(|connection, _| hello(connection));
        server
    }
}

impl Drop for Quic {
    fn drop(&mut self) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.close(VarInt::from_u32(0x100), b"");
        }
        self.vanish();
        let _ = std::fs::remove_file(&self.certificate);
    }
}

/// A path to a server that loses one of `every` datagrams, in both directions.
pub struct Lossy {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Lossy {
    pub fn start(server: SocketAddr, one_of: usize) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        front.set_nonblocking(true).unwrap();
        let address = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut back: Vec<(SocketAddr, UdpSocket)> = Vec::new();
            let (mut buffer, mut count) = ([0; 65_536], 0);
            let mut kept = || {
                count += 1;
                count % one_of != 0
            };
            while !stopped.load(Ordering::SeqCst) {
                while let Ok((n, client)) = front.recv_from(&mut buffer) {
                    let place = back.iter().position(|(of, _)| *of == client);
                    let place = place.unwrap_or_else(|| {
                        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                        socket.set_nonblocking(true).unwrap();
                        socket.connect(server).unwrap();
                        back.push((client, socket));
                        back.len() - 1
                    });
                    if kept() {
                        let _ = back[place].1.send(&buffer[..n]);
                    }
                }
                for (client, socket) in &back {
                    while let Ok(n) = socket.recv(&mut buffer) {
                        if kept() {
                            let _ = front.send_to(&buffer[..n], client);
                        }
                    }
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Self {
            address,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serve a connection well.
pub async fn hello(connection: Connection) {
    let connection = h3_quinn::Connection::new(connection);
    let Ok(mut connection) = h3::server::Connection::<_, Bytes>::new(connection).await else {
        return;
    };
    while let Ok(Some(resolver)) = connection.accept().await {
        tokio::spawn(async move {
            let Ok((request, mut stream)) = resolver.resolve_request().await else {
                return;
            };
            while let Ok(Some(_)) = stream.recv_data().await {}
            let body: &'static [u8] = match request.uri().path() {
                "/large" => &[b'x'; 300_000],
                _ => b"hello",
            };
            let response = http::Response::builder().header("content-length", body.len());
            let _ = stream.send_response(response.body(()).unwrap()).await;
            if request.method() != http::Method::HEAD {
                let _ = stream.send_data(Bytes::from_static(body)).await;
            }
            let _ = stream.finish().await;
        });
    }
}

/// Serve each request stream of a connection with bytes of one's own.
pub async fn raw<F>(
    connection: Connection,
    serve: impl Fn(quinn::SendStream, quinn::RecvStream, usize) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut number = 0;
    while let Ok((send, mut receive)) = connection.accept_bi().await {
        let _ = receive.read_to_end(1_000_000).await;
        tokio::spawn(serve(send, receive, number));
        number += 1;
    }
}

/// HEADERS with status 200 and no length.
pub const OK: &[u8] = b"\x01\x03\0\0\xd9";
/// The same and DATA.
pub const HELLO: &[u8] = b"\x01\x03\0\0\xd9\0\x05hello";
/// The control stream of a server: its type and empty SETTINGS.
pub const SETTINGS: &[u8] = b"\0\x04\0";
