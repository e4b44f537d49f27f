//! TLS within QUIC (RFC 9001): rustls behind quinn-proto's trait.
//!
//! quinn-proto's own implementation does not report the negotiated cipher and group, nor whether
//! the session was resumed.

use std::any::Any;
use std::io::Cursor;
use std::sync::{Arc, OnceLock};

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, KeyChange, Secrets, Version};
use rustls::{CipherSuite, HandshakeKind, NamedGroup, ProtocolVersion};

/// The result of a handshake: the session's `handshake_data`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handshake {
    /// The version of TLS.
    pub version: Option<ProtocolVersion>,
    /// The cipher suite.
    pub cipher: Option<CipherSuite>,
    /// The group of the key exchange.
    pub group: Option<NamedGroup>,
    /// True if a session was resumed.
    pub resumed: bool,
    /// The error of a failed handshake.
    pub failure: Option<rustls::Error>,
}

impl Handshake {
    /// Return the handshake of a connection.
    pub fn of(connection: &quinn_proto::Connection) -> Self {
        let data = connection.crypto_session().handshake_data();
        let data = data.and_then(|data| data.downcast().ok());
        data.map(|handshake| *handshake).unwrap_or_default()
    }
}

/// A factory of sessions.
pub struct Client {
    config: Arc<rustls::ClientConfig>,
    name: ServerName<'static>,
    quinn: Arc<QuicClientConfig>,
    /// A session that is never used for a connection. It provides what depends on the version of
    /// QUIC: the keys of the first packets and of Retry.
    version: OnceLock<Arc<dyn Session>>,
}

impl Client {
    /// Create a factory from a configuration with TLS 1.3 and AES-128-GCM, with which every
    /// connection begins.
    pub fn new(
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, String> {
        let quinn = QuicClientConfig::try_from(Arc::clone(&config));
        Ok(Self {
            config,
            name,
            quinn: Arc::new(quinn.map_err(|error| error.to_string())?),
            version: OnceLock::new(),
        })
    }
}

impl crypto::ClientConfig for Client {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let of_version = if let Some(session) = self.version.get() {
            Arc::clone(session)
        } else {
            let quinn = Arc::clone(&self.quinn);
            let session = quinn.start_session(version, server_name, params)?;
            Arc::clone(self.version.get_or_init(|| session.into()))
        };
        let mut encoded = Vec::new();
        params.write(&mut encoded);
        let config = Arc::clone(&self.config);
        let inner = ClientConnection::new(config, Version::V1, self.name.clone(), encoded);
        Ok(Box::new(TlsSession {
            version: of_version,
            // Only a configuration without TLS 1.3 or ALPN is rejected.
            inner: inner.map_err(|_| ConnectError::UnsupportedVersion)?,
            secrets: None,
            ready: false,
            failure: None,
        }))
    }
}

struct TlsSession {
    version: Arc<dyn Session>,
    inner: ClientConnection,
    secrets: Option<Secrets>,
    ready: bool,
    failure: Option<rustls::Error>,
}

fn boxed(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: Box::new(keys.local.packet),
            remote: Box::new(keys.remote.packet),
        },
    }
}

impl Session for TlsSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.version.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let cipher = self.inner.negotiated_cipher_suite();
        let group = self.inner.negotiated_key_exchange_group();
        Some(Box::new(Handshake {
            version: self.inner.protocol_version(),
            cipher: cipher.map(|cipher| cipher.suite()),
            group: group.map(|group| group.name()),
            resumed: self.inner.handshake_kind() == Some(HandshakeKind::Resumed),
            failure: self.failure.clone(),
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// Return no keys for 0-RTT: requests must not be replayed, and a first request without a round
    /// trip is another workload.
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(false)
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        if let Err(error) = self.inner.read_hs(bytes) {
            let reason = error.to_string();
            self.failure = Some(error);
            return Err(TransportError {
                code: match self.inner.alert() {
                    Some(alert) => TransportErrorCode::crypto(alert.into()),
                    None => TransportErrorCode::PROTOCOL_VIOLATION,
                },
                frame: None,
                reason,
            });
        }
        let ready = self.inner.alpn_protocol().is_some() || !self.inner.is_handshaking();
        Ok(ready && !std::mem::replace(&mut self.ready, ready))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(encoded) = self.inner.quic_transport_parameters() else {
            return Ok(None);
        };
        let read = TransportParameters::read(Side::Client, &mut Cursor::new(encoded));
        Ok(Some(read?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        Some(match self.inner.write_hs(out)? {
            KeyChange::Handshake { keys } => boxed(keys),
            KeyChange::OneRtt { keys, next } => {
                self.secrets = Some(next);
                boxed(keys)
            }
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.secrets.as_mut()?.next_packet_keys();
        Some(KeyPair {
            local: Box::new(keys.local),
            remote: Box::new(keys.remote),
        })
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.version.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        // Nothing in this crate uses keying material.
        Err(ExportKeyingMaterialError)
    }
}
