//! Kinds of failures, counted by kind.

use std::collections::BTreeMap;
use std::io;

/// A kind of failure. Those named `Connect…` concern attempts to connect, the others requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No process listens.
    ConnectRefused,
    /// No connection within the timeout, handshakes included.
    ConnectTimeout,
    /// The process has no file descriptor left.
    ConnectNoFiles,
    /// No local port is left.
    ConnectNoPorts,
    /// The peer ended or reset the connection before its protocol was ready.
    ConnectClosed,
    /// The first bytes are not the protocol.
    ConnectGarbage,
    /// Any other failure to connect.
    ConnectFailed,
    /// The peer ended or reset the connection during the TLS handshake.
    ConnectTlsClosed,
    /// The certificate's issuer is not trusted.
    ConnectTlsUntrusted,
    /// The certificate has expired, or is not valid yet.
    ConnectTlsExpired,
    /// The certificate is for another name.
    ConnectTlsWrongName,
    /// Any other error of the certificate.
    ConnectTlsCertificate,
    /// The peer does not accept the protocol (ALPN).
    ConnectTlsAlpn,
    /// No common version, cipher or group.
    ConnectTlsIncompatible,
    /// Not TLS.
    ConnectTlsGarbage,
    /// Any other failure of the TLS handshake.
    ConnectTlsFailed,
    /// The peer ended the TLS handshake with this alert.
    ConnectTlsAlert(u8),
    /// The peer reset the connection.
    Reset,
    /// The stream ended before the first byte of the response.
    Closed,
    /// The stream ended within the response.
    Truncated,
    /// Not the protocol.
    Garbage,
    /// The response's head is too large.
    HeadTooLarge,
    /// Malformed chunked coding.
    BadChunk,
    /// Bytes after the end of the response.
    ExcessBytes,
    /// The body does not have the expected length.
    WrongLength,
    /// The body does not have the expected hash.
    WrongSha256,
    /// Any other error of the socket.
    Io,
    /// The stream ended without TLS's close_notify, so it may have been truncated.
    TlsTruncated,
    /// A TLS record that cannot be decrypted, or is not allowed.
    TlsGarbage,
    /// The peer ended TLS with this alert.
    TlsAlert(u8),
    /// HTTP/2: any other protocol error.
    H2Protocol,
    /// HTTP/2: a flow-control window was exceeded.
    H2FlowControl,
    /// HTTP/2: a frame of an invalid size.
    H2FrameSize,
    /// HTTP/2: a header block that cannot be decoded.
    H2Compression,
    /// HTTP/2: more frames require a reply than the peer reads replies.
    H2Flood,
    /// HTTP/2: the peer ended the stream with this code.
    StreamReset(u32),
    /// HTTP/2: the peer ended the connection with this code.
    GoAway(u32),
    /// The peer supports no common version of QUIC.
    ConnectQuicVersion,
    /// The peer refused the QUIC connection.
    ConnectQuicClosed,
    /// QUIC: nothing was received for the idle timeout.
    QuicIdle,
    /// QUIC: the peer violated the protocol.
    QuicViolation,
    /// QUIC: the peer ended the connection with this transport code.
    QuicClose(u64),
    /// HTTP/3: a protocol error.
    H3Protocol,
    /// HTTP/3: the peer ended the stream with this code.
    H3Reset(u64),
    /// HTTP/3: the peer ended the connection with this code.
    H3Close(u64),
    /// This status, not the expected one.
    Status(u16),
}

/// Kinds without a number, and their names.
const NAMED: [(Kind, &str); 38] = [
    (Kind::ConnectRefused, "connect_refused"),
    (Kind::ConnectTimeout, "connect_timeout"),
    (Kind::ConnectNoFiles, "connect_no_files"),
    (Kind::ConnectNoPorts, "connect_no_ports"),
    (Kind::ConnectClosed, "connect_closed"),
    (Kind::ConnectGarbage, "connect_garbage"),
    (Kind::ConnectFailed, "connect_failed"),
    (Kind::ConnectTlsClosed, "connect_tls_closed"),
    (Kind::ConnectTlsUntrusted, "connect_tls_untrusted"),
    (Kind::ConnectTlsExpired, "connect_tls_expired"),
    (Kind::ConnectTlsWrongName, "connect_tls_wrong_name"),
    (Kind::ConnectTlsCertificate, "connect_tls_certificate"),
    (Kind::ConnectTlsAlpn, "connect_tls_alpn"),
    (Kind::ConnectTlsIncompatible, "connect_tls_incompatible"),
    (Kind::ConnectTlsGarbage, "connect_tls_garbage"),
    (Kind::ConnectTlsFailed, "connect_tls_failed"),
    (Kind::ConnectQuicVersion, "connect_quic_version"),
    (Kind::ConnectQuicClosed, "connect_quic_closed"),
    (Kind::Reset, "reset"),
    (Kind::Closed, "closed"),
    (Kind::Truncated, "truncated"),
    (Kind::Garbage, "garbage"),
    (Kind::HeadTooLarge, "head_too_large"),
    (Kind::BadChunk, "bad_chunk"),
    (Kind::ExcessBytes, "excess_bytes"),
    (Kind::WrongLength, "wrong_length"),
    (Kind::WrongSha256, "wrong_sha256"),
    (Kind::Io, "io"),
    (Kind::TlsTruncated, "tls_truncated"),
    (Kind::TlsGarbage, "tls_garbage"),
    (Kind::H2Protocol, "h2_protocol"),
    (Kind::H2FlowControl, "h2_flow_control"),
    (Kind::H2FrameSize, "h2_frame_size"),
    (Kind::H2Compression, "h2_compression"),
    (Kind::H2Flood, "h2_flood"),
    (Kind::QuicIdle, "quic_idle_timeout"),
    (Kind::QuicViolation, "quic_violation"),
    (Kind::H3Protocol, "h3_protocol"),
];

/// Error codes of HTTP/2 (RFC 9113, section 7).
const H2_CODES: [&str; 14] = [
    "no_error",
    "protocol_error",
    "internal_error",
    "flow_control_error",
    "settings_timeout",
    "stream_closed",
    "frame_size_error",
    "refused_stream",
    "cancel",
    "compression_error",
    "connect_error",
    "enhance_your_calm",
    "inadequate_security",
    "http_1_1_required",
];

/// Error codes of HTTP/3, from 0x100 on (RFC 9114, section 8.1).
const H3_CODES: [&str; 17] = [
    "no_error",
    "general_protocol_error",
    "internal_error",
    "stream_creation_error",
    "closed_critical_stream",
    "frame_unexpected",
    "frame_error",
    "excessive_load",
    "id_error",
    "settings_error",
    "missing_settings",
    "request_rejected",
    "request_cancelled",
    "request_incomplete",
    "message_error",
    "connect_error",
    "version_fallback",
];
/// Error codes of QUIC (RFC 9000, section 20.1).
const QUIC_CODES: [&str; 17] = [
    "no_error",
    "internal_error",
    "connection_refused",
    "flow_control_error",
    "stream_limit_error",
    "stream_state_error",
    "final_size_error",
    "frame_encoding_error",
    "transport_parameter_error",
    "connection_id_limit_error",
    "protocol_violation",
    "invalid_token",
    "application_error",
    "crypto_buffer_exceeded",
    "key_update_error",
    "aead_limit_reached",
    "no_viable_path",
];

/// Offsets of the counts of the kinds with a number.
const STATUSES: usize = NAMED.len();
const RESETS: usize = STATUSES + 1000;
const GOAWAYS: usize = RESETS + H2_CODES.len() + 1;
const ALERTS: usize = GOAWAYS + H2_CODES.len() + 1;
const CONNECT_ALERTS: usize = ALERTS + 256;
const H3_RESETS: usize = CONNECT_ALERTS + 256;
const H3_CLOSES: usize = H3_RESETS + H3_CODES.len() + 1;
const QUIC_CLOSES: usize = H3_CLOSES + H3_CODES.len() + 1;
const COUNTS: usize = QUIC_CLOSES + QUIC_CODES.len() + 1;

impl Kind {
    fn index(self) -> usize {
        let code = |code: u32| (code as usize).min(H2_CODES.len());
        let h3 = |code: u64| (code.wrapping_sub(0x100)).min(H3_CODES.len() as u64) as usize;
        let quic = |code: u64| code.min(QUIC_CODES.len() as u64) as usize;
        match self {
            Self::H3Reset(number) => H3_RESETS + h3(number),
            Self::H3Close(number) => H3_CLOSES + h3(number),
            Self::QuicClose(number) => QUIC_CLOSES + quic(number),
            Self::Status(status) => STATUSES + usize::from(status.min(999)),
            Self::StreamReset(number) => RESETS + code(number),
            Self::GoAway(number) => GOAWAYS + code(number),
            Self::TlsAlert(number) => ALERTS + usize::from(number),
            Self::ConnectTlsAlert(number) => CONNECT_ALERTS + usize::from(number),
            named => NAMED
                .iter()
                .position(|(kind, _)| *kind == named)
                .unwrap_or(0),
        }
    }

    fn name(index: usize) -> String {
        let code = |at: usize| H2_CODES.get(at).unwrap_or(&"unknown_error");
        let h3 = |at: usize| H3_CODES.get(at).unwrap_or(&"unknown_error");
        let quic = |at: usize| QUIC_CODES.get(at).unwrap_or(&"unknown_error");
        match index {
            ..STATUSES => NAMED[index].1.to_owned(),
            STATUSES..RESETS => format!("status_{}", index - STATUSES),
            RESETS..GOAWAYS => format!("h2_reset_{}", code(index - RESETS)),
            GOAWAYS..ALERTS => format!("h2_goaway_{}", code(index - GOAWAYS)),
            ALERTS..CONNECT_ALERTS => format!("tls_alert_{}", alert(index - ALERTS)),
            CONNECT_ALERTS..H3_RESETS => {
                format!("connect_tls_alert_{}", alert(index - CONNECT_ALERTS))
            }
            H3_RESETS..H3_CLOSES => format!("h3_reset_{}", h3(index - H3_RESETS)),
            H3_CLOSES..QUIC_CLOSES => format!("h3_close_{}", h3(index - H3_CLOSES)),
            _ => format!("quic_close_{}", quic(index - QUIC_CLOSES)),
        }
    }

    /// Return the kind of the same failure while a connection is being established.
    pub fn while_connecting(self) -> Self {
        match self {
            Self::Reset | Self::Closed | Self::Truncated | Self::GoAway(_) => Self::ConnectClosed,
            Self::TlsTruncated => Self::ConnectTlsClosed,
            Self::TlsGarbage => Self::ConnectTlsGarbage,
            Self::TlsAlert(number) => Self::ConnectTlsAlert(number),
            Self::H3Close(_) | Self::QuicClose(_) => Self::ConnectQuicClosed,
            Self::Io => Self::ConnectFailed,
            kind if kind.is_connect_error() => kind,
            _ => Self::ConnectGarbage,
        }
    }

    /// Return whether it concerns attempts to connect.
    pub fn is_connect_error(self) -> bool {
        match self {
            Self::ConnectTlsAlert(_) => true,
            kind => kind.index() <= Self::ConnectQuicClosed.index(),
        }
    }

    /// Return the kind of a failed connect.
    pub fn from_connect(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => Self::ConnectRefused,
            Some(libc::ETIMEDOUT) => Self::ConnectTimeout,
            Some(libc::EMFILE | libc::ENFILE) => Self::ConnectNoFiles,
            Some(libc::EADDRNOTAVAIL) => Self::ConnectNoPorts,
            _ => Self::ConnectFailed,
        }
    }

    /// Return the kind of a failed read or write.
    pub fn from_transfer(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNRESET | libc::EPIPE) => Self::Reset,
            _ => Self::Io,
        }
    }
}

/// Counts by kind. Memory is allocated at the start.
#[derive(Debug)]
pub struct Errors {
    counts: Vec<u64>,
}

impl Errors {
    /// Create counts of zero.
    pub fn new() -> Self {
        Self {
            counts: vec![0; COUNTS],
        }
    }

    /// Count one.
    pub fn add(&mut self, kind: Kind) {
        self.counts[kind.index()] += 1;
    }

    /// Add another's counts.
    pub fn merge(&mut self, other: &Self) {
        for (all, its) in self.counts.iter_mut().zip(&other.counts) {
            *all += its;
        }
    }

    /// Return the counts of the kinds that occurred, by name.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let counts = self.counts.iter().enumerate();
        counts
            .filter(|(_, count)| **count > 0)
            .map(|(i, count)| (Kind::name(i), *count))
            .collect()
    }
}

impl Default for Errors {
    fn default() -> Self {
        Self::new()
    }
}

/// Return an alert's name as in RFC 8446, or its number.
fn alert(number: usize) -> String {
    let number = number as u8;
    let Some(name) = rustls::AlertDescription::from(number).as_str() else {
        return number.to_string();
    };
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
