//! Settings that all connections of one thread to one instance share, and the clock of each.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::{
    ClientConfig, EndpointConfig, IdleTimeout, RandomConnectionIdGenerator, TransportConfig, VarInt,
};

use super::gate::Gate;
use super::session;
use crate::sys;
use crate::tls;

/// A connection ends after this time without a datagram (RFC 9308, 3.2), or earlier if the server
/// requires it.
const IDLE: Duration = Duration::from_secs(30);
/// Unidirectional streams that the server may open: it needs three, and may try unknown types.
const PEER_STREAMS: u32 = 16;

/// Settings that all connections of one thread to one instance share.
#[derive(Clone)]
pub struct Config {
    pub(super) endpoint: Arc<EndpointConfig>,
    pub(super) client: ClientConfig,
    pub(super) server_name: Arc<str>,
    pub(super) gate: Gate,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.server_name;
        f.debug_struct("Config")
            .field("server_name", name)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Create settings with this TLS client.
    ///
    /// # Errors
    /// The reason why the TLS client does not support QUIC.
    pub fn new(tls: &tls::Client) -> Result<Self, String> {
        let gate = Gate::default();
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .max_concurrent_uni_streams(VarInt::from_u32(PEER_STREAMS))
            .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
            .receive_window(VarInt::MAX)
            .stream_receive_window(VarInt::MAX)
            .datagram_receive_buffer_size(None)
            // In the order of their creation, in which they are measured.
            .send_fairness(false)
            .congestion_controller_factory(Arc::new(gate.clone()));
        let crypto = session::Client::new(Arc::clone(tls.config()), tls.name().clone());
        let mut client = ClientConfig::new(Arc::new(crypto?));
        client.transport_config(Arc::new(transport));
        let mut endpoint = EndpointConfig::default();
        // The socket identifies the connection, so connection ids need no bytes.
        endpoint.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
        Ok(Self {
            endpoint: Arc::new(endpoint),
            client,
            server_name: tls.name().to_str().into(),
            gate,
        })
    }
}

/// The monotonic clock in quinn-proto's type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub instant: Instant,
    pub ns: u64,
}

impl Clock {
    pub fn start() -> Self {
        Self {
            instant: Instant::now(),
            ns: sys::now_ns(),
        }
    }

    #[inline]
    pub fn instant(&self, ns: u64) -> Instant {
        self.instant + Duration::from_nanos(ns.saturating_sub(self.ns))
    }

    #[inline]
    pub fn ns(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.instant);
        self.ns
            .saturating_add(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}
