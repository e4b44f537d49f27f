//! Kinds of failures, and names of versions and ciphers, from rustls's types.

use rustls::{
    AlertDescription, CertificateError, CipherSuite, Error, PeerMisbehaved, ProtocolVersion,
};

use crate::errors::Kind;

/// Return the kind of a failed handshake.
pub fn of_handshake(error: &Error) -> Kind {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::NoCertificatesPresented => Kind::ConnectTlsCertificate,
        Error::AlertReceived(AlertDescription::NoApplicationProtocol)
        | Error::NoApplicationProtocol
        | Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedApplicationProtocol) => {
            Kind::ConnectTlsAlpn
        }
        Error::AlertReceived(alert) => Kind::ConnectTlsAlert(u8::from(*alert)),
        Error::PeerIncompatible(_) => Kind::ConnectTlsIncompatible,
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerMisbehaved(_)
        | Error::PeerSentOversizedRecord
        | Error::DecryptError => Kind::ConnectTlsGarbage,
        _ => Kind::ConnectTlsFailed,
    }
}

fn of_certificate(error: &CertificateError) -> Kind {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            Kind::ConnectTlsUntrusted
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => Kind::ConnectTlsExpired,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Kind::ConnectTlsWrongName
        }
        _ => Kind::ConnectTlsCertificate,
    }
}

/// Return the kind of a failure after the handshake.
pub fn of_transfer(error: &Error) -> Kind {
    match error {
        Error::AlertReceived(alert) => Kind::TlsAlert(u8::from(*alert)),
        _ => Kind::TlsGarbage,
    }
}

/// Return the usual name of a version.
pub fn version(version: Option<ProtocolVersion>) -> &'static str {
    match version {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "unknown",
    }
}

/// Return the IANA name of a cipher suite.
pub fn cipher(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        suite => suite.as_str().unwrap_or("unknown"),
    }
}
