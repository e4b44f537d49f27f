//! What ended a connection, in the words of the output.

use std::io;

use quinn_proto::ConnectionError;

use super::Quic;
use super::session::Handshake;
use crate::errors::Kind;
use crate::http3::code;
use crate::tls::kinds;

/// Where the codes begin that stand for alerts of TLS (RFC 9000, 20.1).
const CRYPTO_ERROR: u64 = 0x100;

impl Quic {
    pub(super) fn of_socket(&self, error: &io::Error) -> Kind {
        match error.raw_os_error() {
            _ if self.greeted.is_none() => Kind::of_connect(error),
            // ICMP says that nobody listens any more.
            Some(libc::ECONNREFUSED) => Kind::Reset,
            _ => Kind::of_transfer(error),
        }
    }

    /// The peer broke the rules: the connection ends.
    pub(super) fn refuse(&mut self, code: u64, now: u64) -> Kind {
        self.close(code, now);
        Kind::H3Protocol
    }

    pub(super) fn of_loss(&self, reason: &ConnectionError) -> Kind {
        match reason {
            ConnectionError::VersionMismatch => Kind::ConnectQuicVersion,
            ConnectionError::Reset => Kind::Reset,
            ConnectionError::TimedOut if self.greeted.is_some() => Kind::QuicIdle,
            ConnectionError::TimedOut => Kind::ConnectTimeout,
            ConnectionError::ApplicationClosed(close) => match close.error_code.into_inner() {
                code::NO_ERROR => Kind::Closed,
                code => Kind::H3Close(code),
            },
            ConnectionError::ConnectionClosed(close) => {
                let code = u64::from(close.error_code);
                match u8::try_from(code.wrapping_sub(CRYPTO_ERROR)) {
                    // An alert of TLS (RFC 9001, 4.8).
                    Ok(alert) if self.greeted.is_none() => {
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
