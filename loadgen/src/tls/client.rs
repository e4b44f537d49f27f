//! TLS settings that all connections to one instance share: the offer, the trusted certificates,
//! and the sessions to resume.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::errors::Kind;
use crate::plan::{self, server_name};

/// Sessions of one instance that are stored to be resumed.
const SESSIONS: usize = 256;

/// The client's side of TLS to one instance.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// The protocol that the server must accept in ALPN; HTTP/1.1 is used without its acceptance
    /// too.
    pub(super) protocol: Option<&'static [u8]>,
}

impl Client {
    /// Create the client for an instance that is named `host` unless the plan gives another name.
    ///
    /// The offer is that of a browser or of a recent OpenSSL: TLS 1.3 and 1.2, X25519MLKEM768
    /// first.
    ///
    /// # Errors
    /// A file that cannot be read or contains no certificate, or an invalid name.
    pub fn new(tls: &plan::Tls, host: &str, protocol: plan::Protocol) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("tls: {error}"))?;
        let builder = if tls.verify {
            builder.with_root_certificates(roots(tls.ca_file.as_deref())?)
        } else {
            let verifier = Arc::new(AcceptAnyCertificate(provider));
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        };
        let mut config = builder.with_no_client_auth();
        let alpn = match protocol {
            plan::Protocol::Http1 => &b"http/1.1"[..],
            plan::Protocol::Http2 => b"h2",
            plan::Protocol::Http3 => b"h3",
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        config.resumption = if tls.resume {
            Resumption::in_memory_sessions(SESSIONS)
        } else {
            Resumption::disabled()
        };
        let name = tls
            .server_name
            .as_deref()
            .unwrap_or_else(|| without_port(host));
        let name = server_name(name).ok_or_else(|| {
            format!("tls.server_name: {name:?} is not allowed; it must be a host name or an IP")
        })?;
        Ok(Self {
            config: Arc::new(config),
            name,
            protocol: (protocol != plan::Protocol::Http1).then_some(alpn),
        })
    }

    /// Return the configuration, for QUIC.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Return the server's name.
    pub fn name(&self) -> &ServerName<'static> {
        &self.name
    }

    /// Create the session of a connection.
    pub(super) fn session(&self) -> Result<UnbufferedClientConnection, Kind> {
        UnbufferedClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(|_| Kind::ConnectTlsFailed)
    }
}

/// Return a host without its port and the brackets of IPv6.
fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or(rest, |(address, _)| address);
    }
    match host.split_once(':') {
        Some((name, port)) if !port.contains(':') => name,
        _ => host,
    }
}

/// Read the trusted certificates: those of a file, or the system's.
fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        let found = rustls_native_certs::load_native_certs();
        let (good, _) = roots.add_parsable_certificates(found.certs);
        return if good > 0 {
            Ok(roots)
        } else {
            Err(
                "tls: the system has no trusted certificates; give some in tls.ca_file, or set \
                 tls.verify to false"
                    .to_owned(),
            )
        };
    };
    let path = file.display();
    let message = |error: &dyn std::fmt::Display| format!("tls.ca_file: {path}: {error}");
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| message(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| message(&error))?;
        roots.add(certificate).map_err(|error| message(&error))?;
    }
    if roots.is_empty() {
        return Err(message(
            &"no certificate in the file; it must contain at least one in PEM",
        ));
    }
    Ok(roots)
}

/// A verifier that accepts every certificate, but does all the work of a handshake.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
