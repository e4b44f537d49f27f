//! HTTP/2 as a function of bytes (RFC 9113): the client's end of one connection.
//!
//! A connection has a fixed number of slots. Each has one request at a time, on a stream of its
//! own. Flow-control windows have the largest size that the protocol allows, so that the server
//! never waits for the client. Memory is allocated when a connection is created; later only for
//! frames that arrive in pieces.

pub mod frame;
pub mod hpack;
mod input;
mod receive;
mod request;

use std::sync::Arc;

use crate::errors::Kind;
use crate::machine::{Machine, Sink};
use crate::request::Prepared;
use frame::{MAX_PAYLOAD, MAX_WINDOW};
use input::Input;

pub use request::render;

/// Bodies are written only while less than this is waiting to be sent.
const ENOUGH: usize = 128 * 1024;
/// The most bytes of unsent replies to PING and SETTINGS; more are a flood.
const FLOOD: usize = 1024 * 1024;
/// The highest stream number.
const LAST_STREAM: u32 = 0x7fff_ffff;
/// The stream number of a free slot.
const NONE: u32 = 0;

/// The peer's limits.
#[derive(Clone, Copy, Debug)]
struct Peer {
    streams: u32,
    window: i64,
}

/// The state of the peer's table of header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    /// Empty.
    Fresh,
    /// Holding the fields that all requests share.
    Entered,
    /// Too small. The flag is true once the peer knows that it is not used.
    Unused(bool),
}

/// The state of a slot's stream.
#[derive(Clone, Debug, Default)]
struct Slot {
    head: bool,
    /// The final status; 0 before it arrives.
    status: u16,
    /// Bytes of the body so far, and the announced length.
    length: u64,
    announced: Option<u64>,
    /// Bytes received since the last WINDOW_UPDATE.
    uncredited: u32,
    /// Bytes that may be sent; negative if the peer has reduced its initial window.
    window: i64,
    /// The request's body and how much of it is written; `None` once all of it is.
    body: Option<(Arc<[u8]>, usize)>,
}

/// One connection.
#[derive(Debug)]
pub struct Http2 {
    input: Input,
    decoder: hpack::Decoder,
    peer: Peer,
    table: Table,
    /// The stream of each slot, separate from the slots because every frame searches them.
    streams: Box<[u32]>,
    slots: Box<[Slot]>,
    next_stream: u32,
    /// Number of slots whose body is not written completely.
    uploading: u32,
    window: i64,
    uncredited: u32,
    settled: bool,
    closing: bool,
    /// The code of the peer's GOAWAY.
    goaway_code: Option<u32>,
}

impl Http2 {
    /// Create a connection with this number of slots.
    pub fn new(slots: u32) -> Self {
        Self {
            input: Input::new(),
            decoder: hpack::Decoder::new(),
            peer: Peer {
                streams: u32::MAX,
                window: frame::FIRST_WINDOW,
            },
            table: Table::Fresh,
            streams: vec![NONE; slots as usize].into(),
            slots: vec![Slot::default(); slots as usize].into(),
            next_stream: 1,
            uploading: 0,
            window: frame::FIRST_WINDOW,
            uncredited: 0,
            settled: false,
            closing: false,
            goaway_code: None,
        }
    }

    /// Append the head of a request, in as many frames as it needs.
    #[inline]
    fn write_head(&mut self, stream: u32, request: &Prepared, out: &mut Vec<u8>) {
        let mut sized = Vec::new();
        let block: &[u8] = match self.table {
            Table::Entered => &request.http2.next,
            Table::Fresh => {
                self.table = Table::Entered;
                &request.http2.first
            }
            Table::Unused(true) => &request.http2.plain,
            Table::Unused(false) => {
                // A smaller table is acknowledged at the start of the next block (RFC 7541, 4.2).
                self.table = Table::Unused(true);
                hpack::encode_table_size(0, &mut sized);
                sized.extend_from_slice(&request.http2.plain);
                &sized
            }
        };
        let end_stream = if request.body.is_empty() {
            frame::END_STREAM
        } else {
            0
        };
        if block.len() <= MAX_PAYLOAD {
            let flags = end_stream | frame::END_HEADERS;
            return frame::write(frame::HEADERS, flags, stream, block, out);
        }
        let last = (block.len() - 1) / MAX_PAYLOAD;
        for (i, piece) in block.chunks(MAX_PAYLOAD).enumerate() {
            let (kind, flags) = match i {
                0 => (frame::HEADERS, end_stream),
                _ => (frame::CONTINUATION, 0),
            };
            let ends = if i == last { frame::END_HEADERS } else { 0 };
            frame::write(kind, flags | ends, stream, piece, out);
        }
    }

    /// Return the slot of an open stream.
    #[inline]
    fn slot_of(&self, stream: u32) -> Option<usize> {
        self.streams.iter().position(|id| *id == stream)
    }

    /// Free the slot of a closed stream.
    #[inline]
    fn free(&mut self, place: usize) {
        self.streams[place] = NONE;
        if self.slots[place].body.take().is_some() {
            self.uploading -= 1;
        }
    }
}

impl Machine for Http2 {
    fn open(&mut self, out: &mut Vec<u8>) {
        frame::write_preface(out);
    }

    /// Return true once the peer's settings have arrived.
    #[inline]
    fn ready(&self) -> bool {
        self.settled
    }

    #[inline]
    fn streams(&self) -> u32 {
        if self.settled && !self.closing {
            self.peer.streams.min(self.slots.len() as u32)
        } else {
            0
        }
    }

    fn set_streams(&mut self, streams: u32) {
        if self.slots.len() != streams as usize {
            self.streams = vec![NONE; streams as usize].into();
            self.slots = vec![Slot::default(); streams as usize].into();
            self.uploading = 0;
        }
    }

    #[inline]
    fn request<'r>(
        &mut self,
        stream: u32,
        request: &'r Prepared,
        out: &mut Vec<u8>,
    ) -> Result<&'r [u8], Kind> {
        let place = stream as usize;
        let open = self.streams.get(place).is_none_or(|id| *id != NONE);
        if open || self.next_stream > LAST_STREAM {
            return Err(Kind::Closed);
        }
        let id = self.next_stream;
        self.next_stream += 2;
        // A connection that reopens after this never reaches the last number.
        self.closing |= self.next_stream > LAST_STREAM;
        self.streams[place] = id;
        self.slots[place] = Slot {
            head: request.head,
            window: self.peer.window,
            ..Slot::default()
        };
        self.write_head(id, request, out);
        if !request.body.is_empty() {
            self.slots[place].body = Some((Arc::clone(&request.body), 0));
            self.uploading += 1;
            self.pump(out);
        }
        Ok(&[])
    }

    fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<(), Kind> {
        self.take(bytes, out, sink).map_err(|fault| {
            self.closing = true;
            self.write_goaway(fault, out);
            fault.into()
        })
    }

    fn end(&mut self, sink: &mut impl Sink) -> Result<(), Kind> {
        self.closing = true;
        sink.closing();
        let kind = self.reason(Kind::Closed);
        for place in 0..self.slots.len() {
            if self.streams[place] != NONE && self.slots[place].status != 0 {
                self.free(place);
                sink.failed(place as u32, self.reason(Kind::Truncated), false);
            }
        }
        if self.streams.iter().all(|id| *id == NONE) {
            Ok(())
        } else {
            Err(kind)
        }
    }

    fn reason(&self, kind: Kind) -> Kind {
        match self.goaway_code {
            None | Some(frame::NO_ERROR) => kind,
            Some(code) => Kind::GoAway(code),
        }
    }

    fn cancel(&mut self, stream: u32, out: &mut Vec<u8>) -> bool {
        let place = stream as usize;
        if let Some(id) = self.streams.get(place).copied()
            && id != NONE
        {
            frame::write_reset(id, frame::CANCEL, out);
            self.free(place);
        }
        true
    }

    /// Append more of the bodies, one frame of each in turn, as far as the windows allow and while
    /// little waits to be sent.
    fn pump(&mut self, out: &mut Vec<u8>) {
        let mut wrote = true;
        while wrote && self.uploading > 0 {
            wrote = false;
            for place in 0..self.slots.len() {
                let slot = &mut self.slots[place];
                let Some((body, at)) = &mut slot.body else {
                    continue;
                };
                let room = self.window.min(slot.window).max(0) as usize;
                let n = (body.len() - *at).min(room).min(MAX_PAYLOAD);
                if n == 0 || out.len() >= ENOUGH {
                    continue;
                }
                let piece = &body[*at..*at + n];
                *at += n;
                let last = *at == body.len();
                let flags = if last { frame::END_STREAM } else { 0 };
                frame::write(frame::DATA, flags, self.streams[place], piece, out);
                self.window -= n as i64;
                slot.window -= n as i64;
                if last {
                    slot.body = None;
                    self.uploading -= 1;
                }
                wrote = true;
            }
        }
    }
}

/// Received bytes after which a WINDOW_UPDATE is sent: half of the largest window.
const CREDIT: u32 = (MAX_WINDOW / 2) as u32;
