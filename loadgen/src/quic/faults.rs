//! The kinds of failures that end a connection.

use std::io;

use quinn_proto::ConnectionError;

use super::Quic;
use super::session::Handshake;
use crate::errors::Kind;
use crate::http3::code;
use crate::tls::kinds;

/// The first of the codes that stand for TLS alerts (RFC 9000, 20.1).
const CRYPTO_ERROR: u64 = 0x100;

impl Quic {
    pub(super) fn of_socket(&self, error: &io::Error) -> Kind {
        match error.raw_os_error() {
            _ if self.connected_at.is_none() => Kind::from_connect(error),
            // ICMP reports that no process listens any more.
            Some(libc::ECONNREFUSED) => Kind::Reset,
            _ => Kind::from_transfer(error),
        }
    }

    /// Close the connection, because the peer violated the protocol.
    pub(super) fn refuse(&mut self, code: u64, now: u64) -> Kind {
        self.close(code, now);
        Kind::H3Protocol
    }

    pub(super) fn of_loss(&self, reason: &ConnectionError) -> Kind {
        match reason {
            ConnectionError::VersionMismatch => Kind::ConnectQuicVersion,
            ConnectionError::Reset => Kind::Reset,
            ConnectionError::TimedOut if self.connected_at.is_some() => Kind::QuicIdle,
            ConnectionError::TimedOut => Kind::ConnectTimeout,
            ConnectionError::ApplicationClosed(close) => match close.error_code.into_inner() {
                code::NO_ERROR => Kind::Closed,
                code => Kind::H3Close(code),
            },
            ConnectionError::ConnectionClosed(close) => {
                let code = u64::from(close.error_code);
                match u8::try_from(code.wrapping_sub(CRYPTO_ERROR)) {
                    // A TLS alert (RFC 9001, 4.8).
                    Ok(alert) if self.connected_at.is_none() => {
                        kinds::of_handshake(&rustls::Error::AlertReceived(alert.into()))
                    }
                    Ok(alert) => Kind::TlsAlert(alert),
                    Err(_) => Kind::QuicClose(code),
                }
            }
            ConnectionError::TransportError(_) => match Handshake::of(&self.inner).failure {
                Some(failure) => kinds::of_handshake(&failure),
                None => Kind::QuicViolation,
            },
            ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => Kind::Closed,
        }
    }
}
