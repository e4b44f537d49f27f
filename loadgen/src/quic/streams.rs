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
    /// Return how many concurrent requests the peer accepts now.
    pub fn streams(&self) -> u32 {
        self.running + self.allowed.len() as u32
    }

    /// Change the number of streams.
    pub fn set_streams(&mut self, streams: u32) {
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

    /// Send a request on a free stream. Return false if no byte of it was sent yet;
    /// [`Sink::written`] reports when one is.
    ///
    /// # Errors
    /// The kind of the failure that ended the connection.
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
        let mut sent_now = false;
        let sent = self.transmit(now, |written, at| {
            if written == stream {
                sent_now = true;
            } else {
                sink.written(written, at);
            }
        })?;
        sink.sent(sent);
        Ok(sent_now)
    }

    /// Pass a request to QUIC, as far as flow control accepts it.
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
                // The peer wants no more of the request; its response decides the outcome.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    place.rest = Default::default();
                    return;
                }
            }
        }
        // This fails only if the peer wants no more of the request.
        let _ = sending.finish();
    }

    /// Complete the handshake: open the client's control stream first.
    pub(super) fn on_connected(&mut self, now: u64) {
        self.connected_at = Some(now);
        if let Some(id) = self.inner.streams().open(Dir::Uni) {
            // Some ten bytes. A peer that allows less answers no request either.
            let _ = self.inner.send_stream(id).write(&http3::preface());
        }
        self.allow();
    }

    pub(super) fn stream_of(&self, id: StreamId) -> Option<u32> {
        let place = self.streams.iter().position(|stream| stream.id == Some(id));
        place.map(|place| place as u32)
    }

    /// Read one of the server's unidirectional streams.
    pub(super) fn listen(&mut self, id: StreamId, sink: &mut impl Sink) -> Result<(), Kind> {
        let mut result = Ok(());
        let number = VarInt::from(id).into_inner();
        let mut receiving = self.inner.recv_stream(id);
        if let Ok(mut chunks) = receiving.read(true) {
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => {
                        result = result.and_then(|()| self.control.feed(number, &chunk.bytes));
                    }
                    Err(ReadError::Blocked) => break,
                    Ok(None) | Err(ReadError::Reset(_)) => {
                        result = result.and_then(|()| self.control.end(number));
                        break;
                    }
                }
            }
            // Replies are sent after all events.
            let _ = chunks.finalize();
        }
        if let Err(code) = result {
            return Err(self.refuse(code, sink.now()));
        }
        if let Some(first) = self.control.goaway {
            self.on_goaway(first, sink);
        }
        Ok(())
    }

    /// Handle a GOAWAY: the server answers no request from this one on.
    fn on_goaway(&mut self, first: u64, sink: &mut impl Sink) {
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

    /// Read a response, as far as it has arrived.
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

    /// Free the stream of an answered request. An answered request counts as written.
    fn vacate(&mut self, stream: u32, sink: &mut impl Sink) {
        let place = &mut self.streams[stream as usize];
        let Some(id) = place.id.take() else { return };
        let rest = std::mem::take(&mut place.rest);
        if rest.iter().any(|rest| !rest.is_empty()) {
            // The response came before the whole request was sent; the rest is not needed (RFC
            // 9114, 4.1).
            let _ = self.inner.send_stream(id).reset(reason(code::NO_ERROR));
        }
        self.running -= 1;
        if let Some(at) = self.waiting.iter().position(|(waits, _)| *waits == stream) {
            self.waiting.remove(at);
            sink.written(stream, place.since);
        }
        self.allow();
    }

    /// Cancel a request, and free its stream.
    fn abandon(&mut self, stream: u32) {
        let place = &mut self.streams[stream as usize];
        let Some(id) = place.id.take() else { return };
        place.rest = Default::default();
        let cancelled = reason(code::REQUEST_CANCELLED);
        // The streams may have ended already.
        let _ = self.inner.send_stream(id).reset(cancelled);
        let _ = self.inner.recv_stream(id).stop(cancelled);
        self.running -= 1;
        self.waiting.retain(|(waits, _)| *waits != stream);
        self.allow();
    }

    /// Cancel a request; return false if the connection must be closed, because nothing was
    /// received since the request was sent.
    pub fn cancel(&mut self, stream: u32) -> bool {
        let place = self.streams.get(stream as usize);
        let received = place.is_none_or(|place| self.last_received > place.since);
        self.abandon(stream);
        received
    }
}
