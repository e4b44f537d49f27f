//! gRPC as a server's end of one connection in cleartext
//! (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>, RFC 9113).
//!
//! Every request is answered once all of its messages have arrived, with a stream of one or more
//! messages, whatever the method. The encoder of header fields uses no dynamic table.

use super::answers::Answer;
use super::speaker::{Asked, Violation};
use crate::fields::MAX_HEAD;
use crate::http2::frame::{self, Head, MAX_PAYLOAD, MAX_WINDOW};
use crate::http2::hpack::{self, Decoder, Keep};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The most concurrent requests of a connection.
const MAX_STREAMS: usize = 256;
/// Bodies are written only while less than this is waiting to be sent.
const ENOUGH: usize = 128 * 1024;
/// Bytes received on a connection before the peer gets new credit.
const CREDIT: u32 = 1 << 30;
/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// Status codes of gRPC.
const OK: &str = "0";
const UNKNOWN: &str = "2";
const UNIMPLEMENTED: &str = "12";

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Not complete yet.
    Reading,
    /// Waiting for its answer.
    Asked,
    /// Part of its answer is written.
    Sending(Sending),
}

/// The part of an answer that is not written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sending {
    /// Bytes of a message, without its prefix.
    size: usize,
    /// Messages that are not completely written yet, and those of them that are due.
    left: u32,
    due: u32,
    /// Bytes of the first of them that are written, prefix included.
    at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    id: u32,
    number: Option<u64>,
    window: i64,
    progress: Progress,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Grpc {
    /// Received bytes that are not a complete frame yet.
    input: Vec<u8>,
    /// True if the preface arrived.
    begun: bool,
    /// True if the first settings arrived.
    settled: bool,
    decoder: Decoder,
    /// The stream of an incomplete header block, whether the stream ends with it, and its bytes.
    block: Option<(u32, bool, Vec<u8>)>,
    streams: Vec<Stream>,
    /// The highest stream so far.
    last: u32,
    /// The peer's windows: of the connection, and of a new stream.
    window: i64,
    first_window: i64,
    uncredited: u32,
    /// True if the connection ends once all is sent.
    pub ends: bool,
}

impl Grpc {
    /// Create the state before the first byte.
    pub fn new() -> Self {
        Self {
            input: Vec::new(),
            begun: false,
            settled: false,
            decoder: Decoder::new(),
            block: None,
            streams: Vec::new(),
            last: 0,
            window: frame::FIRST_WINDOW,
            first_window: frame::FIRST_WINDOW,
            uncredited: 0,
            ends: false,
        }
    }

    /// Process the next bytes of the peer.
    pub fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        asked: &mut Vec<Asked>,
    ) -> Result<(), Violation> {
        if self.ends {
            return Ok(());
        }
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        if !self.begun {
            let Some(after) = rest.strip_prefix(PREFACE) else {
                let begins = PREFACE.starts_with(rest);
                self.input = input;
                return if begins { Ok(()) } else { Err(Violation) };
            };
            rest = after;
            self.begun = true;
            write_settings(out);
        }
        while let Some(bytes) = rest.first_chunk() {
            let head = Head::read(*bytes);
            if head.length > MAX_PAYLOAD {
                return self.close(frame::FRAME_SIZE_ERROR, out);
            }
            let end = frame::HEAD + head.length;
            let Some(payload) = rest.get(frame::HEAD..end) else {
                break;
            };
            if let Err(code) = self.frame(head, payload, out, asked) {
                return self.close(code, out);
            }
            rest = &rest[end..];
        }
        self.input = rest.to_vec();
        Ok(())
    }

    /// Report an error of the peer, and end the connection once that is sent.
    fn close(&mut self, code: u32, out: &mut Vec<u8>) -> Result<(), Violation> {
        frame::write_goaway(code, out);
        self.streams.clear();
        self.ends = true;
        Ok(())
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    /// Process a frame. An error is the code for the peer.
    fn frame(
        &mut self,
        head: Head,
        payload: &[u8],
        out: &mut Vec<u8>,
        asked: &mut Vec<Asked>,
    ) -> Result<(), u32> {
        if !self.settled && head.kind != frame::SETTINGS {
            return Err(frame::PROTOCOL_ERROR);
        }
        let continues = head.kind == frame::CONTINUATION;
        match &self.block {
            Some((id, ..)) if !continues || *id != head.stream => {
                return Err(frame::PROTOCOL_ERROR);
            }
            None if continues => return Err(frame::PROTOCOL_ERROR),
            _ => {}
        }
        let on_stream = matches!(head.kind, frame::DATA | frame::HEADERS | frame::RST_STREAM);
        if on_stream && head.stream.is_multiple_of(2) {
            return Err(frame::PROTOCOL_ERROR);
        }
        match head.kind {
            frame::DATA => self.data(&head, out, asked)?,
            frame::HEADERS => {
                let part = unpadded(&head, payload)?;
                let ends = head.has(frame::END_STREAM);
                self.block = Some((head.stream, ends, Vec::new()));
                self.part(part, head.has(frame::END_HEADERS), out, asked)?;
            }
            frame::CONTINUATION => {
                self.part(payload, head.has(frame::END_HEADERS), out, asked)?;
            }
            frame::RST_STREAM => self.streams.retain(|stream| stream.id != head.stream),
            frame::SETTINGS => self.settings(&head, payload, out)?,
            frame::PING if payload.len() != 8 => return Err(frame::FRAME_SIZE_ERROR),
            frame::PING if !head.has(frame::ACK) => {
                frame::write(frame::PING, frame::ACK, 0, payload, out);
            }
            frame::WINDOW_UPDATE => self.credit(&head, payload)?,
            frame::PUSH_PROMISE => return Err(frame::PROTOCOL_ERROR),
            // Of the others, none concerns a server that opens no streams.
            _ => {}
        }
        Ok(())
    }

    /// Process a part of a header block.
    fn part(
        &mut self,
        part: &[u8],
        last: bool,
        out: &mut Vec<u8>,
        asked: &mut Vec<Asked>,
    ) -> Result<(), u32> {
        let Some((id, ends, mut block)) = self.block.take() else {
            return Err(frame::PROTOCOL_ERROR);
        };
        if block.len() + part.len() > MAX_HEAD {
            return Err(frame::ENHANCE_YOUR_CALM);
        }
        block.extend_from_slice(part);
        if !last {
            self.block = Some((id, ends, block));
            return Ok(());
        }
        // Blocks of refused streams are decoded too, because they change the table.
        let fields = self
            .decoder
            .decode(&block)
            .map_err(|_| frame::COMPRESSION_ERROR)?;
        if id > self.last {
            self.last = id;
            if self.streams.len() == MAX_STREAMS {
                frame::write_reset(id, frame::REFUSED_STREAM, out);
                return Ok(());
            }
            self.streams.push(Stream {
                id,
                number: fields.answer,
                window: self.first_window,
                progress: Progress::Reading,
            });
        }
        if ends {
            self.complete(id, asked);
        }
        Ok(())
    }

    fn data(&mut self, head: &Head, out: &mut Vec<u8>, asked: &mut Vec<Asked>) -> Result<(), u32> {
        if head.stream > self.last {
            return Err(frame::PROTOCOL_ERROR);
        }
        self.uncredited += head.length as u32;
        if self.uncredited > CREDIT {
            frame::write_window_update(0, self.uncredited, out);
            self.uncredited = 0;
        }
        if head.has(frame::END_STREAM) {
            self.complete(head.stream, asked);
        }
        Ok(())
    }

    /// Note the end of a request, unless its stream is closed.
    fn complete(&mut self, id: u32, asked: &mut Vec<Asked>) {
        let reading = self
            .streams
            .iter_mut()
            .find(|stream| stream.id == id && stream.progress == Progress::Reading);
        if let Some(stream) = reading {
            stream.progress = Progress::Asked;
            asked.push(Asked {
                stream: id,
                number: stream.number,
            });
        }
    }

    fn settings(&mut self, head: &Head, payload: &[u8], out: &mut Vec<u8>) -> Result<(), u32> {
        if head.stream != 0 {
            return Err(frame::PROTOCOL_ERROR);
        }
        if head.has(frame::ACK) {
            return Ok(());
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(frame::FRAME_SIZE_ERROR);
        }
        for [a, b, value @ ..] in settings {
            let value = i64::from(u32::from_be_bytes(*value));
            if u16::from_be_bytes([*a, *b]) == frame::INITIAL_WINDOW_SIZE {
                if value > MAX_WINDOW {
                    return Err(frame::FLOW_CONTROL_ERROR);
                }
                let change = value - self.first_window;
                self.first_window = value;
                for stream in &mut self.streams {
                    stream.window += change;
                }
            }
        }
        self.settled = true;
        frame::write(frame::SETTINGS, frame::ACK, 0, &[], out);
        Ok(())
    }

    fn credit(&mut self, head: &Head, payload: &[u8]) -> Result<(), u32> {
        let credit: [u8; 4] = payload.try_into().map_err(|_| frame::FRAME_SIZE_ERROR)?;
        let credit = i64::from(u32::from_be_bytes(credit) & 0x7fff_ffff);
        let window = if head.stream == 0 {
            &mut self.window
        } else if let Some(place) = self.place(head.stream) {
            &mut self.streams[place].window
        } else {
            return Ok(());
        };
        *window += credit;
        if credit == 0 || *window > MAX_WINDOW {
            return Err(frame::FLOW_CONTROL_ERROR);
        }
        Ok(())
    }

    /// Begin the answer to a request, and write what the windows allow. Returns whether messages
    /// remain that are not due yet.
    pub fn answer(&mut self, id: u32, answer: &Answer, text: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(place) = self.place(id) else {
            return false;
        };
        let stream = &mut self.streams[place];
        if stream.progress != Progress::Asked {
            return false;
        }
        let mut block = Vec::new();
        hpack::encode(":status", "200", Keep::No, &mut block);
        hpack::encode("content-type", "application/grpc", Keep::No, &mut block);
        if answer.status != 200 {
            let code = if answer.status == 404 {
                UNIMPLEMENTED
            } else {
                UNKNOWN
            };
            write_trailers(id, block, code, out);
            self.streams.swap_remove(place);
            return false;
        }
        frame::write(frame::HEADERS, frame::END_HEADERS, id, &block, out);
        let paced = answer.every_us > 0;
        let due = if paced { 1 } else { answer.messages };
        stream.progress = Progress::Sending(Sending {
            size: answer.size,
            left: answer.messages,
            due,
            at: 0,
        });
        self.pump(text, out);
        due < answer.messages
    }

    /// Make the next message of an answer due, and write what the windows allow. Returns whether
    /// messages remain that are not due yet.
    pub fn continue_answer(&mut self, id: u32, text: &[u8], out: &mut Vec<u8>) -> bool {
        let place = self.place(id);
        let Some(Progress::Sending(sending)) = place.map(|place| &mut self.streams[place].progress)
        else {
            return false;
        };
        sending.due = sending.left.min(sending.due + 1);
        let more = sending.due < sending.left;
        self.pump(text, out);
        more
    }

    /// Write as much of the answers as the windows and the waiting bytes allow.
    pub fn pump(&mut self, text: &[u8], out: &mut Vec<u8>) {
        let mut place = 0;
        while let Some(stream) = self.streams.get_mut(place) {
            let Progress::Sending(sending) = &mut stream.progress else {
                place += 1;
                continue;
            };
            while sending.due > 0 && out.len() < ENOUGH {
                let allowed = self.window.min(stream.window).clamp(0, MAX_PAYLOAD as i64);
                let whole = PREFIX + sending.size;
                let n = (whole - sending.at).min(allowed as usize);
                if n == 0 {
                    break;
                }
                let at = sending.at;
                write_data(stream.id, at..at + n, sending.size, text, out);
                sending.at += n;
                self.window -= n as i64;
                stream.window -= n as i64;
                if sending.at == whole {
                    sending.at = 0;
                    sending.due -= 1;
                    sending.left -= 1;
                }
            }
            if sending.left > 0 {
                place += 1;
                continue;
            }
            write_trailers(stream.id, Vec::new(), OK, out);
            self.streams.swap_remove(place);
        }
    }
}

/// Append a part of a message with its prefix, as DATA.
fn write_data(id: u32, part: std::ops::Range<usize>, size: usize, text: &[u8], out: &mut Vec<u8>) {
    let length = part.len();
    let head = Head {
        length,
        kind: frame::DATA,
        flags: 0,
        stream: id,
    };
    head.write(out);
    let [a, b, c, d] = (size as u32).to_be_bytes();
    let prefix = [0, a, b, c, d];
    let cut = part.end.min(PREFIX);
    out.extend_from_slice(prefix.get(part.start..cut).unwrap_or_default());
    let text = text.get(part.start.max(PREFIX) - PREFIX..part.end.max(PREFIX) - PREFIX);
    out.extend_from_slice(text.unwrap_or_default());
}

/// Append the fields that end a stream, after those of `block`.
fn write_trailers(id: u32, mut block: Vec<u8>, code: &str, out: &mut Vec<u8>) {
    hpack::encode("grpc-status", code, Keep::No, &mut block);
    let flags = frame::END_HEADERS | frame::END_STREAM;
    frame::write(frame::HEADERS, flags, id, &block, out);
}

/// Append the settings of a server whose windows never hold up a request.
fn write_settings(out: &mut Vec<u8>) {
    let mut settings = Vec::with_capacity(12);
    for (setting, value) in [
        (frame::MAX_CONCURRENT_STREAMS, MAX_STREAMS as u32),
        (frame::INITIAL_WINDOW_SIZE, MAX_WINDOW as u32),
    ] {
        settings.extend(setting.to_be_bytes());
        settings.extend(value.to_be_bytes());
    }
    frame::write(frame::SETTINGS, 0, 0, &settings, out);
    frame::write_window_update(0, (MAX_WINDOW - frame::FIRST_WINDOW) as u32, out);
}

/// Return the header block of a HEADERS frame.
fn unpadded<'a>(head: &Head, payload: &'a [u8]) -> Result<&'a [u8], u32> {
    let mut block = payload;
    let mut padding = 0;
    if head.has(frame::PADDED) {
        let (first, rest) = block.split_first().ok_or(frame::FRAME_SIZE_ERROR)?;
        padding = usize::from(*first);
        block = rest;
    }
    if head.has(frame::WITH_PRIORITY) {
        block = block.get(5..).ok_or(frame::FRAME_SIZE_ERROR)?;
    }
    let length = block.len().checked_sub(padding);
    Ok(&block[..length.ok_or(frame::PROTOCOL_ERROR)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> (Grpc, Vec<u8>) {
        let (mut peer, mut out) = (Grpc::new(), Vec::new());
        let mut bytes = PREFACE.to_vec();
        frame::write(frame::SETTINGS, 0, 0, &[], &mut bytes);
        peer.take(&bytes, &mut out, &mut Vec::new()).unwrap();
        out.clear();
        (peer, out)
    }

    fn request(id: u32, number: &str) -> Vec<u8> {
        let (mut block, mut bytes) = (Vec::new(), Vec::new());
        hpack::encode(":method", "POST", Keep::No, &mut block);
        hpack::encode("tuner-answer", number, Keep::Yes, &mut block);
        frame::write(frame::HEADERS, frame::END_HEADERS, id, &block, &mut bytes);
        frame::write(
            frame::DATA,
            frame::END_STREAM,
            id,
            b"\0\0\0\0\x01x",
            &mut bytes,
        );
        bytes
    }

    fn frames(mut bytes: &[u8]) -> Vec<(Head, Vec<u8>)> {
        let mut found = Vec::new();
        while let Some(head) = bytes.first_chunk() {
            let head = Head::read(*head);
            let end = frame::HEAD + head.length;
            found.push((head, bytes[frame::HEAD..end].to_vec()));
            bytes = &bytes[end..];
        }
        found
    }

    fn answer(size: usize, status: u16) -> Answer {
        Answer {
            status,
            size,
            times_us: Vec::new(),
            messages: 1,
            every_us: 0,
        }
    }

    /// Return the messages in the DATA frames, and whether the trailers follow.
    fn messages(out: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let found = frames(out);
        let ended = found.iter().any(|(head, _)| head.has(frame::END_STREAM));
        let data = found
            .into_iter()
            .filter(|(head, _)| head.kind == frame::DATA);
        (data.map(|(_, payload)| payload).collect(), ended)
    }

    /// A stream has all its messages before its status: at once, or each when it is due.
    #[test]
    fn a_stream_has_all_messages() {
        for every_us in [0, 1000] {
            let ((mut peer, mut out), mut asked) = (opened(), Vec::new());
            peer.take(&request(1, "0"), &mut out, &mut asked).unwrap();
            let stream = Answer {
                messages: 3,
                every_us,
                ..answer(2, 200)
            };
            let more = peer.answer(1, &stream, b"hello", &mut out);
            let mut sent = vec![messages(&out).0.len()];
            assert_eq!(more, every_us > 0);
            if more {
                assert!(peer.continue_answer(1, b"hello", &mut out));
                sent.push(messages(&out).0.len());
                assert!(!messages(&out).1);
                assert!(!peer.continue_answer(1, b"hello", &mut out));
                assert_eq!(sent, [1, 2]);
            }
            assert_eq!(messages(&out), (vec![b"\0\0\0\0\x02he".to_vec(); 3], true));
            assert!(!peer.continue_answer(1, b"hello", &mut out));
            assert!(peer.streams.is_empty());
        }
    }

    /// Messages that became due while the window was full are sent once it opens.
    #[test]
    fn due_messages_wait_for_the_window() {
        let ((mut peer, mut out), mut asked) = (opened(), Vec::new());
        peer.take(&request(1, "0"), &mut out, &mut asked).unwrap();
        let text = vec![b'x'; 60_000];
        let stream = Answer {
            messages: 3,
            every_us: 1,
            ..answer(text.len(), 200)
        };
        peer.answer(1, &stream, &text, &mut out);
        while peer.continue_answer(1, &text, &mut out) {}
        let sent = |out: &[u8]| messages(out).0.concat().len();
        assert_eq!(sent(&out), 65_535);
        let mut credit = Vec::new();
        frame::write_window_update(1, 200_000, &mut credit);
        frame::write_window_update(0, 200_000, &mut credit);
        peer.take(&credit, &mut out, &mut asked).unwrap();
        while !messages(&out).1 {
            let before = sent(&out);
            // As the socket takes them.
            let mut next = Vec::new();
            peer.pump(&text, &mut next);
            out.append(&mut next);
            assert!(sent(&out) > before);
        }
        assert_eq!(sent(&out), 3 * 60_005);
    }

    /// A request in any pieces is answered with one message and the status in trailers.
    #[test]
    fn a_message_ends_with_its_status() {
        for size in [1, 10, 1000] {
            let ((mut peer, mut out), mut asked) = (opened(), Vec::new());
            for piece in request(1, "4").chunks(size) {
                peer.take(piece, &mut out, &mut asked).unwrap();
            }
            let wanted = Asked {
                stream: 1,
                number: Some(4),
            };
            assert_eq!(asked, [wanted]);
            peer.answer(1, &answer(5, 200), b"hello", &mut out);
            let found = frames(&out);
            let kinds: Vec<u8> = found.iter().map(|(head, _)| head.kind).collect();
            assert_eq!(kinds, [frame::HEADERS, frame::DATA, frame::HEADERS]);
            assert_eq!(found[1].1, b"\0\0\0\0\x05hello");
            assert!(found[2].0.has(frame::END_STREAM));
            assert!(found[2].1.ends_with(b"0"));
            assert!(peer.streams.is_empty());
        }
    }

    /// An answer waits for the peer's windows, of the stream and of the connection.
    #[test]
    fn windows_are_respected() {
        let ((mut peer, mut out), mut asked) = (opened(), Vec::new());
        peer.take(&request(1, "0"), &mut out, &mut asked).unwrap();
        let text = vec![b'x'; 100_000];
        peer.answer(1, &answer(text.len(), 200), &text, &mut out);
        let sent = |out: &[u8]| -> usize {
            let data = frames(out).into_iter();
            data.filter(|(head, _)| head.kind == frame::DATA)
                .map(|(head, _)| head.length)
                .sum()
        };
        assert_eq!(sent(&out), 65_535);
        let mut credit = Vec::new();
        frame::write_window_update(1, 100_000, &mut credit);
        peer.take(&credit, &mut out, &mut asked).unwrap();
        peer.pump(&text, &mut out);
        assert_eq!(sent(&out), 65_535);
        credit.clear();
        frame::write_window_update(0, 100_000, &mut credit);
        peer.take(&credit, &mut out, &mut asked).unwrap();
        peer.pump(&text, &mut out);
        assert_eq!(sent(&out), 100_005);
        assert!(peer.streams.is_empty());
    }

    /// A failure has its code in the only block of fields; a stream that was reset has no answer.
    #[test]
    fn failures_have_no_message() {
        let ((mut peer, mut out), mut asked) = (opened(), Vec::new());
        let mut bytes = [request(1, "0"), request(3, "0")].concat();
        frame::write_reset(3, frame::CANCEL, &mut bytes);
        peer.take(&bytes, &mut out, &mut asked).unwrap();
        assert_eq!(asked.len(), 2);
        peer.answer(3, &answer(0, 200), b"", &mut out);
        assert!(out.is_empty());
        peer.answer(1, &answer(0, 404), b"", &mut out);
        let found = frames(&out);
        assert_eq!(found.len(), 1);
        assert!(found[0].0.has(frame::END_STREAM));
    }

    /// Violations are answered with a GOAWAY, and end the connection; garbage ends it at once.
    #[test]
    fn violations_end_the_connection() {
        let mut bytes = Vec::new();
        for (kind, stream, payload) in [
            (frame::HEADERS, 2, &[0x88][..]),
            (frame::HEADERS, 1, &[0x88]),
            (frame::CONTINUATION, 1, &[]),
            (frame::DATA, 1, &[]),
            (frame::SETTINGS, 1, &[]),
            (frame::SETTINGS, 0, &[1]),
            (frame::SETTINGS, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff]),
            (frame::PING, 0, &[1]),
            (frame::WINDOW_UPDATE, 0, &[0, 0, 0, 0]),
            (frame::PUSH_PROMISE, 1, &[]),
        ] {
            let ((mut peer, mut out), mut asked) = (opened(), Vec::new());
            bytes.clear();
            frame::write(kind, 0, stream, payload, &mut bytes);
            // An incomplete block must be continued.
            frame::write(frame::PING, 0, 0, &[0; 8], &mut bytes);
            peer.take(&bytes, &mut out, &mut asked).unwrap();
            assert!(peer.ends, "{kind} {payload:?}");
        }
        let garbage = b"PRI * HTTP/1.1\r\n";
        let taken = Grpc::new().take(garbage, &mut Vec::new(), &mut Vec::new());
        assert_eq!(taken, Err(Violation));
    }
}
