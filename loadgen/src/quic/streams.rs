//! The requests of one connection, and the streams that the server opens.

use bytes::Bytes;
use quinn_proto::{Dir, ReadError, StreamId, VarInt, WriteError};

use super::Quic;
use super::stream::{Stream, reason};
use crate::errors::Kind;
use crate::http3::{self, Fault, Response, code};
use crate::machine::Sink;
use crate::request::Prepared;

impl Quic {
    /// How many requests it takes at the same time, as of now.
    pub fn streams(&self) -> u32 {
        self.running + self.allowed.len() as u32
    }

    /// How many requests it will be asked to take at the same time.
    pub fn want(&mut self, streams: u32) {
        self.wanted = streams;
        self.allow();
    }

    pub(super) fn allow(&mut self) {
        while self.running + (self.allowed.len() as u32) < self.wanted {
            let Some(id) = self.inner.streams().open(Dir::Bi) else {
                return;
            };
            self.allowed.push_back(id);
        }
    }

    /// Send a request on a free stream. False: nothing of it was sent yet, and [`Sink::written`]
    /// will tell when it is.
    ///
    /// # Errors
    /// The kind of what ended the connection.
    pub fn request(
        &mut self,
        stream: u32,
        request: &Prepared,
        sink: &mut impl Sink,
    ) -> Result<bool, Kind> {
        let now = sink.now();
        let id = self.allowed.pop_front().ok_or(Kind::Closed)?;
        while self.streams.len() <= stream as usize {
            self.streams.push(Stream {
                id: None,
                response: Response::new(),
                started: false,
                rest: [Bytes::new(), Bytes::new()],
                since: 0,
            });
        }
        let place = &mut self.streams[stream as usize];
        place.id = Some(id);
        place.response.expect(request.head);
        place.started = false;
        place.rest = request.http3.clone();
        place.since = now;
        self.running += 1;
        let length = request.http3.iter().map(Bytes::len).sum();
        self.waiting.push_back((stream, length));
        self.write(stream);
        let mut gone = false;
        let sent = self.transmit(now, |written, at| {
            if written == stream {
                gone = true;
            } else {
                sink.written(written, at);
            }
        })?;
        sink.sent(sent);
        Ok(gone)
    }

    /// Hand a request to QUIC, as far as flow control takes it.
    pub(super) fn write(&mut self, stream: u32) {
        let Some(place) = self.streams.get_mut(stream as usize) else {
            return;
        };
        let Some(id) = place.id else { return };
        let mut sending = self.inner.send_stream(id);
        while place.rest.iter().any(|rest| !rest.is_empty()) {
            match sending.write_chunks(&mut place.rest) {
                Ok(_) => {}
                Err(WriteError::Blocked) => return,
                // The peer wants no more of it: what it answers decides.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    place.rest = Default::default();
                    return;
                }
            }
        }
        // Refused only if the peer wants no more of it.
        let _ = sending.finish();
    }

    /// The handshake is done: our control stream goes first.
    pub(super) fn greet(&mut self, now: u64) {
        self.greeted = Some(now);
        if let Some(id) = self.inner.streams().open(Dir::Uni) {
            // Some ten bytes; a peer that allows less than that answers no request either.
            let _ = self.inner.send_stream(id).write(&http3::preface());
        }
        self.allow();
    }

    pub(super) fn stream_of(&self, id: StreamId) -> Option<u32> {
        let place = self.streams.iter().position(|stream| stream.id == Some(id));
        place.map(|place| place as u32)
    }

    /// Read one of the server's own streams.
    pub(super) fn listen(&mut self, id: StreamId, sink: &mut impl Sink) -> Result<(), Kind> {
        let mut said = Ok(());
        let number = VarInt::from(id).into_inner();
        let mut receiving = self.inner.recv_stream(id);
        if let Ok(mut chunks) = receiving.read(true) {
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => {
                        said = said.and_then(|()| self.control.feed(number, &chunk.bytes));
                    }
                    Err(ReadError::Blocked) => break,
                    Ok(None) | Err(ReadError::Reset(_)) => {
                        said = said.and_then(|()| self.control.end(number));
                        break;
                    }
                }
            }
            // What must be sent in return is sent after all events.
            let _ = chunks.finalize();
        }
        if let Err(code) = said {
            return Err(self.refuse(code, sink.now()));
        }
        if let Some(first) = self.control.goaway {
            self.leave(first, sink);
        }
        Ok(())
    }

    /// The server answers no request from this one on.
    fn leave(&mut self, first: u64, sink: &mut impl Sink) {
        if !std::mem::replace(&mut self.closing, true) {
            sink.closing();
        }
        for stream in 0..self.streams.len() as u32 {
            let id = self.streams[stream as usize].id;
            if id.is_some_and(|id| VarInt::from(id).into_inner() >= first) {
                self.abandon(stream);
                sink.failed(stream, Kind::H3Reset(code::REQUEST_REJECTED), true);
            }
        }
    }

    /// Read a response as far as it came.
    pub(super) fn read(&mut self, id: StreamId, sink: &mut impl Sink) -> Result<(), Kind> {
        let Some(stream) = self.stream_of(id) else {
            return Ok(());
        };
        let place = &mut self.streams[stream as usize];
        let mut receiving = self.inner.recv_stream(id);
        let Ok(mut chunks) = receiving.read(true) else {
            return Ok(());
        };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if !std::mem::replace(&mut place.started, true) {
                        sink.started(stream);
                    }
                    let body = |bytes: &[u8]| sink.body(stream, bytes);
                    if let Err(fault) = place.response.feed(&chunk.bytes, body) {
                        break Some(Err(fault));
                    }
                }
                Ok(None) => break Some(place.response.end().map(|()| None)),
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(code)) => break Some(Ok(Some(code.into_inner()))),
            }
        };
        let _ = chunks.finalize();
        let (status, length) = (place.response.status, place.response.length);
        match end {
            None => {}
            Some(Ok(None)) => {
                self.vacate(stream, sink);
                sink.complete(stream, status, length);
            }
            Some(Ok(Some(code))) => {
                self.vacate(stream, sink);
                let again = code == http3::code::REQUEST_REJECTED;
                sink.failed(stream, Kind::H3Reset(code), again);
            }
            Some(Err(Fault::Connection(code))) => return Err(self.refuse(code, sink.now())),
            Some(Err(fault)) => {
                self.abandon(stream);
                sink.failed(stream, fault.into(), false);
            }
        }
        Ok(())
    }

    /// A request is answered, and with that it was written.
    fn vacate(&mut self, stream: u32, sink: &mut impl Sink) {
        let place = &mut self.streams[stream as usize];
        let Some(id) = place.id.take() else { return };
        let rest = std::mem::take(&mut place.rest);
        if rest.iter().any(|rest| !rest.is_empty()) {
            // Answered before it was all there: the rest is not wanted (RFC 9114, 4.1).
            let _ = self.inner.send_stream(id).reset(reason(code::NO_ERROR));
        }
        self.running -= 1;
        if let Some(at) = self.waiting.iter().position(|(waits, _)| *waits == stream) {
            self.waiting.remove(at);
            sink.written(stream, place.since);
        }
        self.allow();
    }

    /// A request is of no more interest.
    fn abandon(&mut self, stream: u32) {
        let place = &mut self.streams[stream as usize];
        let Some(id) = place.id.take() else { return };
        place.rest = Default::default();
        let cancelled = reason(code::REQUEST_CANCELLED);
        // They may have come to their end already.
        let _ = self.inner.send_stream(id).reset(cancelled);
        let _ = self.inner.recv_stream(id).stop(cancelled);
        self.running -= 1;
        self.waiting.retain(|(waits, _)| *waits != stream);
        self.allow();
    }

    /// A request is not waited for any longer; false if the connection must be closed: nothing was
    /// heard of the server since the request was made.
    pub fn cancel(&mut self, stream: u32) -> bool {
        let place = self.streams.get(stream as usize);
        let heard = place.is_none_or(|place| self.heard > place.since);
        self.abandon(stream);
        heard
    }
}
