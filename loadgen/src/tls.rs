//! TLS over a TCP socket: rustls without buffers of its own.
//!
//! Records are decrypted in the buffer that the caller reads into, and encrypted directly before
//! they are sent. A connection stores bytes only while a record is received or sent in part, so ten
//! thousand idle ones cost little more than their keys.

mod client;
pub mod kinds;
mod tally;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use rustls::HandshakeKind;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};

use crate::errors::Kind;
use crate::sys;
pub use client::Client;
pub use tally::{Agreed, Tally};

/// The most bytes of one record (RFC 8446, 5.1).
const RECORD: usize = 16 * 1024;
/// The most bytes that encryption adds to a record.
const OVERHEAD: usize = 256;
/// The most consecutive reads that bring records without data; no reasonable peer needs more.
const EMPTY_READS: usize = 16;

/// One connection.
pub struct Tls {
    socket: OwnedFd,
    session: UnbufferedClientConnection,
    /// The protocol that the server must accept in ALPN.
    protocol: Option<&'static [u8]>,
    /// The start of an incomplete record.
    incoming: Vec<u8>,
    /// Decrypted bytes that arrived with the handshake.
    early: Vec<u8>,
    /// Records that the socket has not taken yet, and how many of their bytes it has.
    outgoing: Vec<u8>,
    sent: usize,
    /// Bytes of the caller in these records that are not reported as sent yet.
    promised: usize,
    /// True if the peer has ended the stream with close_notify.
    ended: bool,
    started: Option<u64>,
    agreed: Option<Agreed>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tls = f.debug_struct("Tls");
        tls.field("agreed", &self.agreed).finish_non_exhaustive()
    }
}

impl Tls {
    /// Create a connection over a socket that may still be connecting.
    pub fn new(client: &Client, socket: OwnedFd) -> Result<Self, Kind> {
        Ok(Self {
            socket,
            session: client.session()?,
            protocol: client.protocol,
            incoming: Vec::new(),
            early: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
            promised: 0,
            ended: false,
            started: None,
            agreed: None,
        })
    }

    /// Return the socket, to be polled.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Return the negotiated encryption; `None` until the handshake is complete.
    pub fn agreed(&self) -> Option<Agreed> {
        self.agreed
    }

    /// Continue the handshake; return whether it is complete.
    ///
    /// # Errors
    /// A kind of [`Kind::is_connect_error`].
    pub fn handshake(&mut self, buffer: &mut [u8]) -> Result<bool, Kind> {
        if self.agreed.is_some() {
            return Ok(true);
        }
        if let Some(error) = sys::socket_error(&self.socket) {
            return Err(match self.started {
                None => Kind::from_connect(&error),
                Some(_) => Kind::ConnectTlsClosed,
            });
        }
        let started = *self.started.get_or_insert_with(sys::now_ns);
        loop {
            if let Err(error) = self.digest() {
                return Err(kinds::of_handshake(&self.rejected(error)));
            }
            self.flush().map_err(closed)?;
            if !self.session.is_handshaking() {
                // A resumed session reports that only after this: its last message must be sent.
                if self.outgoing.is_empty() {
                    self.outgoing = Vec::new();
                    self.agreed = Some(self.agreement(started)?);
                    return Ok(true);
                }
                return Ok(false);
            }
            match sys::receive(&self.socket, buffer) {
                Ok(0) => return Err(Kind::ConnectTlsClosed),
                Ok(n) => self.incoming.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(closed(error)),
            }
        }
    }

    fn agreement(&self, started: u64) -> Result<Agreed, Kind> {
        if self.protocol.is_some() && self.session.alpn_protocol() != self.protocol {
            return Err(Kind::ConnectTlsAlpn);
        }
        let version = self.session.protocol_version();
        let cipher = self.session.negotiated_cipher_suite();
        let group = self.session.negotiated_key_exchange_group();
        Ok(Agreed {
            version: kinds::version(version),
            cipher: cipher.map_or("unknown", |suite| kinds::cipher(suite.suite())),
            group: group.and_then(|group| group.name().as_str()),
            resumed: self.session.handshake_kind() == Some(HandshakeKind::Resumed),
            took_ns: sys::now_ns().saturating_sub(started),
        })
    }

    /// Send as many bytes as the socket takes. Bytes count as sent when the socket has all of their
    /// record; until then the caller passes them again.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let blocked = || io::Error::from(io::ErrorKind::WouldBlock);
        self.flush()?;
        if !self.outgoing.is_empty() {
            return Err(blocked());
        }
        let mut taken = std::mem::take(&mut self.promised).min(bytes.len());
        while taken < bytes.len() {
            let piece = &bytes[taken..bytes.len().min(taken + RECORD)];
            self.encrypt(piece)?;
            self.flush()?;
            if !self.outgoing.is_empty() {
                self.promised = piece.len();
                break;
            }
            taken += piece.len();
        }
        if taken == 0 && !bytes.is_empty() {
            return Err(blocked());
        }
        Ok(taken)
    }

    /// Receive the available bytes, decrypted into the first half of the buffer, and whether there
    /// may be more. 0 bytes: the peer has ended the stream. `None`: nothing is available.
    ///
    /// # Errors
    /// [`Kind::TlsTruncated`]: the stream ended without close_notify.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<(usize, bool)>, Kind> {
        if !self.early.is_empty() {
            let n = self.early.len().min(buffer.len());
            buffer[..n].copy_from_slice(&self.early[..n]);
            self.early.drain(..n);
            if self.early.is_empty() {
                self.early = Vec::new();
            }
            return Ok(Some((n, true)));
        }
        let (plain, records) = buffer.split_at_mut(buffer.len() / 2);
        let mut empty_reads = 0;
        // A read without data is followed by another one, even if it was short: the end of the stream
        // may have come with the records, and then no other event reports it.
        while empty_reads < EMPTY_READS {
            if self.ended {
                return Ok(Some((0, false)));
            }
            let before = self.incoming.len();
            let room = records.get_mut(before..).unwrap_or_default();
            let (n, full) = match sys::receive(&self.socket, room) {
                Ok(0) => return Err(Kind::TlsTruncated),
                Ok(n) => (n, n == room.len()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(Kind::from_transfer(&error)),
            };
            let records = &mut records[..before + n];
            records[..before].copy_from_slice(&self.incoming);
            self.incoming.clear();
            let mut got = 0;
            let digested = digest(
                &mut self.session,
                records,
                &mut self.outgoing,
                &mut self.ended,
                |bytes| {
                    plain[got..got + bytes.len()].copy_from_slice(bytes);
                    got += bytes.len();
                },
            );
            let used = digested.map_err(|error| kinds::of_transfer(&self.rejected(error)))?;
            self.incoming.extend_from_slice(&records[used..]);
            // A reply of the session itself (a key update, for example) is sent as soon as
            // possible.
            self.flush().map_err(|error| Kind::from_transfer(&error))?;
            if got > 0 {
                return Ok(Some((got, full || self.ended)));
            }
            // A part of a record is progress.
            empty_reads += usize::from(used > 0);
        }
        Err(Kind::TlsGarbage)
    }

    /// Process the records in `incoming`.
    fn digest(&mut self) -> Result<(), rustls::Error> {
        let early = &mut self.early;
        let used = digest(
            &mut self.session,
            &mut self.incoming,
            &mut self.outgoing,
            &mut self.ended,
            |bytes| early.extend_from_slice(bytes),
        )?;
        self.incoming.drain(..used);
        if self.incoming.is_empty() {
            // A handshake takes some kilobytes that are not needed again.
            self.incoming = Vec::new();
        }
        Ok(())
    }

    /// Encrypt a piece of at most [`RECORD`] bytes into `outgoing`, which is empty.
    fn encrypt(&mut self, piece: &[u8]) -> io::Result<()> {
        let broken = |_| io::Error::from(io::ErrorKind::InvalidData);
        // Usually there are no records, and this only obtains the right to write.
        self.digest().map_err(broken)?;
        self.outgoing
            .resize(self.outgoing.len() + piece.len() + OVERHEAD, 0);
        let at = self.outgoing.len() - piece.len() - OVERHEAD;
        let status = self.session.process_tls_records(&mut self.incoming);
        let written = match status.state {
            Ok(ConnectionState::WriteTraffic(mut writer)) => {
                writer.encrypt(piece, &mut self.outgoing[at..])
            }
            _ => Err(EncryptError::EncryptExhausted),
        };
        let written = written.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        self.outgoing.truncate(at + written);
        Ok(())
    }

    /// Send the bytes in `outgoing`, as far as the socket takes them.
    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outgoing.len() {
            match sys::send(&self.socket, &self.outgoing[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Handle a failed session: send the alert with the reason to the peer, if that is possible.
    #[cold]
    fn rejected(&mut self, error: rustls::Error) -> rustls::Error {
        let mut none = [];
        let UnbufferedStatus { state, .. } = self.session.process_tls_records(&mut none);
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = state {
            let _ = encode(&mut data, &mut self.outgoing);
        }
        let _ = self.flush();
        error
    }
}

/// Process records; return how many of their bytes are done.
fn digest(
    session: &mut UnbufferedClientConnection,
    records: &mut [u8],
    outgoing: &mut Vec<u8>,
    ended: &mut bool,
    mut plain: impl FnMut(&[u8]),
) -> Result<usize, rustls::Error> {
    let mut used = 0;
    loop {
        let UnbufferedStatus { mut discard, state } =
            session.process_tls_records(&mut records[used..]);
        let mut done = false;
        match state? {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    plain(record.payload);
                }
            }
            ConnectionState::EncodeTlsData(mut data) => {
                encode(&mut data, outgoing)?;
            }
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::PeerClosed => *ended = true,
            // Nothing to do before more records arrive.
            _ => done = true,
        }
        used += discard;
        if done {
            return Ok(used);
        }
    }
}

/// Append the session's records, and allocate no more memory than they need.
fn encode(
    data: &mut EncodeTlsData<'_, ClientConnectionData>,
    outgoing: &mut Vec<u8>,
) -> Result<(), rustls::Error> {
    let at = outgoing.len();
    if let Err(EncodeError::InsufficientSize(error)) = data.encode(&mut []) {
        outgoing.resize(at + error.required_size, 0);
    }
    let written = data.encode(&mut outgoing[at..]);
    let written = written.map_err(|error| rustls::Error::General(error.to_string()))?;
    outgoing.truncate(at + written);
    Ok(())
}

fn closed(error: io::Error) -> Kind {
    match Kind::from_transfer(&error) {
        Kind::Reset => Kind::ConnectTlsClosed,
        _ => Kind::ConnectTlsFailed,
    }
}
