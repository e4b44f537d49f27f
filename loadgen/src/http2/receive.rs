//! Receiving: frames are assembled, checked, and processed.

use super::frame::{self, Head};
use super::input::State;
use super::{CREDIT, FLOOD, Http2, LAST_STREAM, NONE, Slot, Table, hpack};
use crate::errors::Kind;
use crate::fields::MAX_HEAD;
use crate::machine::{Machine as _, Sink};

/// Allowed values of SETTINGS_MAX_FRAME_SIZE (6.5.2).
const FRAME_SIZES: std::ops::Range<u32> = 16_384..16_777_216;

/// The reason why the connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Not HTTP/2.
    Garbage,
    Protocol,
    FlowControl,
    FrameSize,
    Compression,
    HeadTooLarge,
    Flood,
}

impl Fault {
    /// Return the error code for the peer.
    fn code(self) -> u32 {
        match self {
            Self::Garbage | Self::Protocol => frame::PROTOCOL_ERROR,
            Self::FlowControl => frame::FLOW_CONTROL_ERROR,
            Self::FrameSize => frame::FRAME_SIZE_ERROR,
            Self::Compression => frame::COMPRESSION_ERROR,
            Self::HeadTooLarge | Self::Flood => frame::ENHANCE_YOUR_CALM,
        }
    }
}

impl From<Fault> for Kind {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Garbage => Self::Garbage,
            Fault::Protocol => Self::H2Protocol,
            Fault::FlowControl => Self::H2FlowControl,
            Fault::FrameSize => Self::H2FrameSize,
            Fault::Compression => Self::H2Compression,
            Fault::HeadTooLarge => Self::HeadTooLarge,
            Fault::Flood => Self::H2Flood,
        }
    }
}

impl Http2 {
    /// Report the fault to the peer.
    pub(super) fn write_goaway(&self, fault: Fault, out: &mut Vec<u8>) {
        if fault != Fault::Garbage {
            frame::write_goaway(fault.code(), out);
        }
    }

    /// Process the next bytes of the stream.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let used = match self.input.state {
                State::Head(have) => {
                    let n = bytes.len().min(frame::HEAD - have);
                    self.input.bytes[have..have + n].copy_from_slice(&bytes[..n]);
                    self.input.state = State::Head(have + n);
                    if have + n == frame::HEAD {
                        self.head(out, sink)?;
                    }
                    n
                }
                State::Pad(length) => {
                    let pad = usize::from(bytes[0]);
                    let data = length.checked_sub(pad).ok_or(Fault::Protocol)?;
                    self.input.state = State::Data(data, pad);
                    self.data_ends(sink, out);
                    1
                }
                State::Data(data, pad) => {
                    let n = bytes.len().min(data);
                    if let Some(place) = self.slot_of(self.input.head.stream) {
                        self.slots[place].length += n as u64;
                        sink.body(place as u32, &bytes[..n]);
                    }
                    self.input.state = State::Data(data - n, pad);
                    self.data_ends(sink, out);
                    n
                }
                State::Skip(left) => {
                    let n = bytes.len().min(left);
                    self.input.state = match left - n {
                        0 => State::Head(0),
                        left => State::Skip(left),
                    };
                    n
                }
                State::Payload => {
                    let length = self.input.head.length;
                    if self.input.stash.is_empty() && bytes.len() >= length {
                        self.input.state = State::Head(0);
                        self.frame(&bytes[..length], out, sink)?;
                        length
                    } else {
                        let n = bytes.len().min(length - self.input.stash.len());
                        self.input.stash.extend_from_slice(&bytes[..n]);
                        if self.input.stash.len() == length {
                            self.input.state = State::Head(0);
                            let mut whole = std::mem::take(&mut self.input.stash);
                            self.frame(&whole, out, sink)?;
                            whole.clear();
                            self.input.stash = whole;
                        }
                        n
                    }
                }
            };
            bytes = &bytes[used..];
            if out.len() > FLOOD {
                return Err(Fault::Flood);
            }
        }
        Ok(())
    }

    /// Process a frame's head: choose how to read its payload.
    fn head(&mut self, out: &mut Vec<u8>, sink: &mut impl Sink) -> Result<(), Fault> {
        let head = Head::read(self.input.bytes);
        self.input.head = head;
        let acknowledges = head.kind == frame::SETTINGS && head.has(frame::ACK);
        if !self.settled && (head.kind != frame::SETTINGS || head.stream != 0 || acknowledges) {
            return Err(Fault::Garbage);
        }
        if head.length > frame::MAX_PAYLOAD {
            return Err(Fault::FrameSize);
        }
        let continues = head.kind == frame::CONTINUATION;
        match self.input.block {
            Some((stream, _)) if !continues || head.stream != stream => {
                return Err(Fault::Protocol);
            }
            None if continues => return Err(Fault::Protocol),
            _ => {}
        }
        self.input.state = match head.kind {
            frame::DATA => {
                self.receive_credit(&head, out)?;
                if let Some(place) = self.slot_of(head.stream)
                    && self.slots[place].status == 0
                {
                    self.fault(place, Kind::H2Protocol, out, sink);
                }
                if head.has(frame::PADDED) {
                    State::Pad(head.length.checked_sub(1).ok_or(Fault::FrameSize)?)
                } else {
                    State::Data(head.length, 0)
                }
            }
            frame::HEADERS..=frame::CONTINUATION if head.length > 0 => State::Payload,
            frame::HEADERS..=frame::CONTINUATION => {
                self.input.state = State::Head(0);
                return self.frame(&[], out, sink);
            }
            _ if head.length == 0 => State::Head(0),
            _ => State::Skip(head.length),
        };
        self.data_ends(sink, out);
        Ok(())
    }

    /// Complete the response if this was the last of its data.
    #[inline]
    fn data_ends(&mut self, sink: &mut impl Sink, out: &mut Vec<u8>) {
        let State::Data(0, pad) = self.input.state else {
            return;
        };
        self.input.state = match pad {
            0 => State::Head(0),
            pad => State::Skip(pad),
        };
        let head = self.input.head;
        if head.has(frame::END_STREAM)
            && let Some(place) = self.slot_of(head.stream)
        {
            self.complete(place, out, sink);
        }
    }

    /// Account for the bytes of a DATA frame in the windows, padding included.
    fn receive_credit(&mut self, head: &Head, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.check_stream(head)?;
        let n = head.length as u32;
        self.uncredited += n;
        if self.uncredited > CREDIT {
            frame::write_window_update(0, self.uncredited, out);
            self.uncredited = 0;
        }
        if let Some(place) = self.slot_of(head.stream) {
            let slot = &mut self.slots[place];
            slot.uncredited += n;
            if slot.uncredited > CREDIT {
                frame::write_window_update(head.stream, slot.uncredited, out);
                slot.uncredited = 0;
            }
        }
        Ok(())
    }

    /// Check that this client has opened the stream of a frame.
    fn check_stream(&self, head: &Head) -> Result<(), Fault> {
        let opened = head.stream % 2 == 1 && head.stream < self.next_stream;
        opened.then_some(()).ok_or(Fault::Protocol)
    }

    /// Process a frame other than DATA.
    fn frame(
        &mut self,
        payload: &[u8],
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let head = self.input.head;
        match head.kind {
            frame::HEADERS => {
                self.check_stream(&head)?;
                let block = unpadded(&head, payload)?;
                let ends = head.has(frame::END_STREAM);
                if head.has(frame::END_HEADERS) {
                    return self.block(head.stream, ends, block, out, sink);
                }
                self.input.block = Some((head.stream, ends));
                self.input.parts.clear();
                self.input.parts.extend_from_slice(block);
            }
            frame::CONTINUATION => {
                let Some((stream, ends)) = self.input.block else {
                    return Err(Fault::Protocol);
                };
                if self.input.parts.len() + payload.len() > MAX_HEAD {
                    return Err(Fault::HeadTooLarge);
                }
                self.input.parts.extend_from_slice(payload);
                if head.has(frame::END_HEADERS) {
                    self.input.block = None;
                    let block = std::mem::take(&mut self.input.parts);
                    self.block(stream, ends, &block, out, sink)?;
                    self.input.parts = block;
                }
            }
            frame::PRIORITY => {
                if payload.len() != 5 {
                    return Err(Fault::FrameSize);
                }
            }
            frame::RST_STREAM => {
                self.check_stream(&head)?;
                let code = u32::from_be_bytes(exactly(payload)?);
                if let Some(place) = self.slot_of(head.stream) {
                    self.free(place);
                    let again = code == frame::REFUSED_STREAM;
                    sink.failed(place as u32, Kind::StreamReset(code), again);
                }
            }
            frame::SETTINGS => self.settings(&head, payload, out)?,
            frame::PING => {
                on_connection(&head)?;
                let echo: [u8; 8] = exactly(payload)?;
                if !head.has(frame::ACK) {
                    frame::write(frame::PING, frame::ACK, 0, &echo, out);
                }
            }
            frame::GOAWAY => {
                on_connection(&head)?;
                let (last, rest) = payload.split_first_chunk().ok_or(Fault::FrameSize)?;
                let (code, _) = rest.split_first_chunk().ok_or(Fault::FrameSize)?;
                let last = u32::from_be_bytes(*last) & LAST_STREAM;
                self.goaway(last, u32::from_be_bytes(*code), sink);
            }
            frame::WINDOW_UPDATE => {
                let credit = u32::from_be_bytes(exactly(payload)?) & LAST_STREAM;
                self.credit(&head, i64::from(credit), out, sink)?;
                self.pump(out);
            }
            // PUSH_PROMISE, which the settings forbid.
            _ => return Err(Fault::Protocol),
        }
        Ok(())
    }

    /// Process a complete header block: a response's head, an interim one's, or trailers.
    fn block(
        &mut self,
        stream: u32,
        ends: bool,
        block: &[u8],
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        // Blocks of cancelled streams are decoded too, because they change the table.
        let fields = self.decoder.decode(block).map_err(|_| Fault::Compression)?;
        let Some(place) = self.slot_of(stream) else {
            return Ok(());
        };
        let slot = &mut self.slots[place];
        let trailers = slot.status != 0;
        let bad = match fields.status {
            Some(_) if trailers => true,
            Some(status) if status < 200 => ends || status == 101,
            Some(_) => false,
            None => !trailers || !ends,
        };
        if bad || fields.malformed {
            self.fault(place, Kind::H2Protocol, out, sink);
            return Ok(());
        }
        if !trailers {
            sink.started(place as u32);
        }
        if let Some(status) = fields.status.filter(|status| *status >= 200) {
            slot.status = status;
            let empty = slot.head || status == 204 || status == 304;
            slot.announced = fields.length.filter(|_| !empty);
        }
        if ends {
            self.complete(place, out, sink);
        }
        Ok(())
    }

    /// Complete a response, if its body is as long as announced (RFC 9113, 8.1.1).
    fn complete(&mut self, place: usize, out: &mut Vec<u8>, sink: &mut impl Sink) {
        let Slot {
            status,
            length,
            announced,
            ..
        } = self.slots[place];
        match announced {
            Some(announced) if length < announced => {
                self.fault(place, Kind::Truncated, out, sink);
            }
            Some(announced) if length > announced => {
                self.fault(place, Kind::ExcessBytes, out, sink);
            }
            _ => {
                if self.slots[place].body.is_some() {
                    // The response came before the request was sent completely; the rest is not
                    // needed.
                    frame::write_reset(self.streams[place], frame::CANCEL, out);
                }
                self.free(place);
                sink.complete(place as u32, status, length);
            }
        }
    }

    /// Fail one stream; the others continue.
    fn fault(&mut self, place: usize, kind: Kind, out: &mut Vec<u8>, sink: &mut impl Sink) {
        frame::write_reset(self.streams[place], frame::PROTOCOL_ERROR, out);
        self.free(place);
        sink.failed(place as u32, kind, false);
    }

    fn settings(&mut self, head: &Head, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        on_connection(head)?;
        if head.has(frame::ACK) {
            return payload.is_empty().then_some(()).ok_or(Fault::FrameSize);
        }
        if !payload.len().is_multiple_of(6) {
            return Err(Fault::FrameSize);
        }
        for setting in payload.chunks_exact(6) {
            let [a, b, value @ ..] = exactly::<6>(setting)?;
            let value = u32::from_be_bytes(value);
            match u16::from_be_bytes([a, b]) {
                frame::HEADER_TABLE_SIZE => self.table_size(value as usize),
                frame::ENABLE_PUSH if value != 0 => return Err(Fault::Protocol),
                frame::MAX_CONCURRENT_STREAMS => self.peer.streams = value,
                frame::INITIAL_WINDOW_SIZE => {
                    let window = i64::from(value);
                    if window > frame::MAX_WINDOW {
                        return Err(Fault::FlowControl);
                    }
                    // Open streams change by the difference (6.9.2).
                    let open = |(_, id): &(&mut Slot, &u32)| **id != NONE;
                    let difference = window - self.peer.window;
                    self.peer.window = window;
                    for (slot, _) in self.slots.iter_mut().zip(&self.streams).filter(open) {
                        slot.window += difference;
                        if slot.window > frame::MAX_WINDOW {
                            return Err(Fault::FlowControl);
                        }
                    }
                }
                // Frames larger than every peer accepts would bring no advantage.
                frame::MAX_FRAME_SIZE if !FRAME_SIZES.contains(&value) => {
                    return Err(Fault::Protocol);
                }
                _ => {}
            }
        }
        self.settled = true;
        frame::write(frame::SETTINGS, frame::ACK, 0, &[], out);
        self.pump(out);
        Ok(())
    }

    /// Handle a new size of the peer's table.
    fn table_size(&mut self, size: usize) {
        if size < hpack::TABLE_SIZE && self.table != Table::Unused(true) {
            self.table = Table::Unused(false);
        }
    }

    /// Handle a GOAWAY: streams above the last one were not processed, the others finish.
    fn goaway(&mut self, last: u32, code: u32, sink: &mut impl Sink) {
        self.goaway_code = Some(code);
        self.closing = true;
        sink.closing();
        for place in 0..self.slots.len() {
            if self.streams[place] != NONE && self.streams[place] > last {
                self.free(place);
                sink.failed(place as u32, Kind::GoAway(code), true);
            }
        }
    }

    /// Handle a WINDOW_UPDATE.
    fn credit(
        &mut self,
        head: &Head,
        credit: i64,
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        if head.stream == 0 {
            if credit == 0 {
                return Err(Fault::Protocol);
            }
            self.window += credit;
            return if self.window > frame::MAX_WINDOW {
                Err(Fault::FlowControl)
            } else {
                Ok(())
            };
        }
        self.check_stream(head)?;
        if let Some(place) = self.slot_of(head.stream) {
            let slot = &mut self.slots[place];
            slot.window += credit;
            if slot.window > frame::MAX_WINDOW {
                self.fault(place, Kind::H2FlowControl, out, sink);
            } else if credit == 0 {
                self.fault(place, Kind::H2Protocol, out, sink);
            }
        }
        Ok(())
    }
}

/// Return a payload of exactly this length.
fn exactly<const N: usize>(payload: &[u8]) -> Result<[u8; N], Fault> {
    payload.try_into().map_err(|_| Fault::FrameSize)
}

/// Check that a frame concerns the connection, not a stream.
fn on_connection(head: &Head) -> Result<(), Fault> {
    (head.stream == 0).then_some(()).ok_or(Fault::Protocol)
}

/// Return the header block of a HEADERS frame, without padding and priority.
fn unpadded<'a>(head: &Head, payload: &'a [u8]) -> Result<&'a [u8], Fault> {
    let mut block = payload;
    let mut pad = 0;
    if head.has(frame::PADDED) {
        let (first, rest) = block.split_first().ok_or(Fault::FrameSize)?;
        (pad, block) = (usize::from(*first), rest);
    }
    if head.has(frame::WITH_PRIORITY) {
        block = block.get(5..).ok_or(Fault::FrameSize)?;
    }
    let length = block.len().checked_sub(pad).ok_or(Fault::Protocol)?;
    Ok(&block[..length])
}
