//! FastCGI, as an application's end of one connection
//! (<https://fastcgi-archives.github.io/FastCGI_Specification.html>).
//!
//! It takes one request at a time, like PHP-FPM, and keeps the connection if it is asked to.

use super::cgi::{self, Content, MAX_VARIABLES, Variables};
use super::speaker::{Asked, Violation};

const VERSION: u8 = 1;
const HEAD: usize = 8;
const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const DATA: u8 = 8;
const GET_VALUES: u8 = 9;
const GET_VALUES_RESULT: u8 = 10;
const UNKNOWN_TYPE: u8 = 11;
const RESPONDER: u16 = 1;
const KEEP_CONNECTION: u8 = 1;
/// Protocol status of END_REQUEST: done.
const COMPLETE: u8 = 0;
/// Protocol status of END_REQUEST: one request at a time.
const NO_MULTIPLEXING: u8 = 1;
/// Protocol status of END_REQUEST: only the role of a responder.
const UNKNOWN_ROLE: u8 = 3;
/// Bytes of a record of the answer.
const PIECE: usize = 32 * 1024;
/// Bytes that a record's content is padded to a multiple of, as the specification recommends.
const ALIGNMENT: usize = 8;

/// The part of a record that comes next.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The head, of which this many bytes have arrived.
    Head(usize),
    /// Bytes of content, then bytes of padding.
    Content(usize, usize),
    /// Bytes of padding.
    Padding(usize),
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Variables,
    Body,
    Asked,
}

/// The request of a connection.
#[derive(Clone, Copy, Debug)]
struct Request {
    id: u16,
    keep: bool,
    progress: Progress,
    variables: Variables,
}

/// The state of one connection.
#[derive(Debug)]
pub struct FastCgi {
    part: Part,
    head: [u8; HEAD],
    /// The content of a BEGIN_REQUEST, or the variables so far.
    stash: Vec<u8>,
    request: Option<Request>,
    /// Distinguishes the requests of the connection, which may all have one id.
    serial: u32,
    /// True if the connection ends once all is sent.
    pub ends: bool,
}

impl FastCgi {
    /// Create the state before the first byte.
    pub fn new() -> Self {
        Self {
            part: Part::Head(0),
            head: [0; HEAD],
            stash: Vec::new(),
            request: None,
            serial: 0,
            ends: false,
        }
    }

    /// Process the next bytes of the peer.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
        asked: &mut Vec<Asked>,
    ) -> Result<(), Violation> {
        while !bytes.is_empty() && !self.ends {
            let used = match self.part {
                Part::Head(have) => {
                    let n = bytes.len().min(HEAD - have);
                    self.head[have..have + n].copy_from_slice(&bytes[..n]);
                    self.part = Part::Head(have + n);
                    if have + n == HEAD {
                        self.begin_record()?;
                    }
                    n
                }
                Part::Content(left, padding) => {
                    let n = bytes.len().min(left);
                    self.content(&bytes[..n])?;
                    self.part = Part::Content(left - n, padding);
                    n
                }
                Part::Padding(left) => {
                    let n = bytes.len().min(left);
                    self.part = Part::Padding(left - n);
                    n
                }
            };
            bytes = &bytes[used..];
            if let Part::Content(0, padding) = self.part {
                self.part = Part::Padding(padding);
            }
            if let Part::Padding(0) = self.part {
                self.part = Part::Head(0);
                self.record(out, asked)?;
            }
        }
        Ok(())
    }

    fn kind(&self) -> u8 {
        self.head[1]
    }

    fn id(&self) -> u16 {
        u16::from_be_bytes([self.head[2], self.head[3]])
    }

    fn length(&self) -> u16 {
        u16::from_be_bytes([self.head[4], self.head[5]])
    }

    fn begin_record(&mut self) -> Result<(), Violation> {
        let begins = self.kind() == BEGIN_REQUEST;
        if self.head[0] != VERSION || (begins && self.length() != 8) {
            return Err(Violation);
        }
        self.part = Part::Content(self.length().into(), self.head[6].into());
        Ok(())
    }

    /// Return whether the record belongs to the open request.
    fn is_current(&self) -> bool {
        self.request.is_some_and(|request| request.id == self.id())
    }

    /// Store the content of a record as far as it matters; the bodies of requests do not.
    fn content(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let kept = match self.kind() {
            // The variables of an open request are in the stash.
            BEGIN_REQUEST => self.request.is_none(),
            PARAMS => self.is_current(),
            _ => false,
        };
        if kept {
            if self.stash.len() + bytes.len() > MAX_VARIABLES {
                return Err(Violation);
            }
            self.stash.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Process a complete record.
    fn record(&mut self, out: &mut Vec<u8>, asked: &mut Vec<Asked>) -> Result<(), Violation> {
        let (id, ended) = (self.id(), self.length() == 0);
        match self.kind() {
            BEGIN_REQUEST if id == 0 => return Err(Violation),
            BEGIN_REQUEST if self.is_current() => return Err(Violation),
            BEGIN_REQUEST if self.request.is_some() => write_end(id, NO_MULTIPLEXING, out),
            BEGIN_REQUEST => self.begin(id, out)?,
            ABORT_REQUEST if self.is_current() => {
                // Its answer may be due later, so its connection is not used again.
                write_end(id, COMPLETE, out);
                self.ends = true;
            }
            PARAMS if self.is_current() && ended => self.variables()?,
            STDIN if self.is_current() && ended => self.complete(asked)?,
            GET_VALUES if id == 0 => write_record(GET_VALUES_RESULT, 0, &[], out),
            ABORT_REQUEST | PARAMS | STDIN | DATA => {}
            kind if id == 0 => write_record(UNKNOWN_TYPE, 0, &[kind, 0, 0, 0, 0, 0, 0, 0], out),
            _ => return Err(Violation),
        }
        Ok(())
    }

    fn begin(&mut self, id: u16, out: &mut Vec<u8>) -> Result<(), Violation> {
        let &[a, b, flags, ..] = &self.stash[..] else {
            return Err(Violation);
        };
        self.stash.clear();
        let keep = flags & KEEP_CONNECTION != 0;
        if u16::from_be_bytes([a, b]) != RESPONDER {
            write_end(id, UNKNOWN_ROLE, out);
            self.ends = !keep;
            return Ok(());
        }
        self.request = Some(Request {
            id,
            keep,
            progress: Progress::Variables,
            variables: Variables::default(),
        });
        Ok(())
    }

    fn variables(&mut self) -> Result<(), Violation> {
        let Some(request) = &mut self.request else {
            return Err(Violation);
        };
        if request.progress != Progress::Variables {
            return Err(Violation);
        }
        let mut pairs = Pairs(&self.stash);
        while let Some((name, value)) = pairs.next()? {
            request.variables.take(name, value);
        }
        request.progress = Progress::Body;
        self.stash.clear();
        Ok(())
    }

    fn complete(&mut self, asked: &mut Vec<Asked>) -> Result<(), Violation> {
        let Some(request) = &mut self.request else {
            return Err(Violation);
        };
        if request.progress != Progress::Body {
            return Err(Violation);
        }
        request.progress = Progress::Asked;
        self.serial = self.serial.wrapping_add(1);
        asked.push(Asked {
            stream: self.serial,
            number: request.variables.number,
        });
        Ok(())
    }

    /// Append the answer to a request.
    pub fn answer(&mut self, stream: u32, content: &Content, out: &mut Vec<u8>) {
        let Some(request) = self.request else {
            return;
        };
        if stream != self.serial || request.progress != Progress::Asked || self.ends {
            return;
        }
        let mut head = Vec::with_capacity(96);
        // PHP names the status only if it is not 200, and does not know the length.
        if content.status == 200 {
            head.extend_from_slice(format!("Content-Type: {}\r\n\r\n", content.media).as_bytes());
        } else {
            cgi::write_head("Status: ", content, false, &mut head);
        }
        let body = if request.variables.head {
            &[]
        } else {
            content.body
        };
        // The head and the beginning of the body share a record.
        let (first, rest) = body.split_at(body.len().min(PIECE - head.len()));
        head.extend_from_slice(first);
        write_record(STDOUT, request.id, &head, out);
        for piece in rest.chunks(PIECE) {
            write_record(STDOUT, request.id, piece, out);
        }
        write_record(STDOUT, request.id, &[], out);
        write_end(request.id, COMPLETE, out);
        self.request = None;
        self.ends = !request.keep;
    }
}

/// Append a record; its content has at most [`PIECE`] bytes.
fn write_record(kind: u8, id: u16, content: &[u8], out: &mut Vec<u8>) {
    let padding = content.len().next_multiple_of(ALIGNMENT) - content.len();
    let [a, b] = id.to_be_bytes();
    let [c, d] = (content.len() as u16).to_be_bytes();
    out.extend_from_slice(&[VERSION, kind, a, b, c, d, padding as u8, 0]);
    out.extend_from_slice(content);
    out.extend_from_slice(&[0; ALIGNMENT][..padding]);
}

fn write_end(id: u16, status: u8, out: &mut Vec<u8>) {
    write_record(END_REQUEST, id, &[0, 0, 0, 0, status, 0, 0, 0], out);
}

type Pair<'a> = (&'a [u8], &'a [u8]);

/// Pairs of names and values (section 3.4).
struct Pairs<'a>(&'a [u8]);

impl<'a> Pairs<'a> {
    fn next(&mut self) -> Result<Option<Pair<'a>>, Violation> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (name, value) = (self.length()?, self.length()?);
        let (name, rest) = self.0.split_at_checked(name).ok_or(Violation)?;
        let (value, rest) = rest.split_at_checked(value).ok_or(Violation)?;
        self.0 = rest;
        Ok(Some((name, value)))
    }

    fn length(&mut self) -> Result<usize, Violation> {
        let (first, rest) = self.0.split_first().ok_or(Violation)?;
        if first & 0x80 == 0 {
            self.0 = rest;
            return Ok((*first).into());
        }
        let (four, rest) = self.0.split_first_chunk().ok_or(Violation)?;
        self.0 = rest;
        Ok((u32::from_be_bytes(*four) & 0x7fff_ffff) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
        let (id, length) = (id.to_be_bytes(), (content.len() as u16).to_be_bytes());
        let mut made = vec![1, kind, id[0], id[1], length[0], length[1], padding, 0];
        made.extend_from_slice(content);
        made.extend(std::iter::repeat_n(0, padding.into()));
        made
    }

    fn pair(name: &str, value: &str) -> Vec<u8> {
        let mut made = vec![name.len() as u8];
        // Lengths may always be written in four bytes.
        made.extend((value.len() as u32 | 0x8000_0000).to_be_bytes());
        made.extend_from_slice(name.as_bytes());
        made.extend_from_slice(value.as_bytes());
        made
    }

    fn request(keep: u8, number: &str, body: &[u8]) -> Vec<u8> {
        let mut made = record(BEGIN_REQUEST, 1, &[0, 1, keep, 0, 0, 0, 0, 0], 0);
        let variables = [
            pair("REQUEST_METHOD", "POST"),
            pair("HTTP_TUNER_ANSWER", number),
        ]
        .concat();
        // Split within a name.
        made.extend(record(PARAMS, 1, &variables[..9], 3));
        made.extend(record(PARAMS, 1, &variables[9..], 0));
        made.extend(record(PARAMS, 1, &[], 0));
        if !body.is_empty() {
            made.extend(record(STDIN, 1, body, 1));
        }
        made.extend(record(STDIN, 1, &[], 0));
        made
    }

    fn content(body: &[u8]) -> Content<'_> {
        Content {
            status: 200,
            media: "text/html",
            body,
        }
    }

    /// Return the kinds of records, and what they write to the standard output.
    fn read(mut bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut kinds, mut stdout) = (Vec::new(), Vec::new());
        while !bytes.is_empty() {
            let length = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
            if bytes[1] == STDOUT {
                stdout.extend_from_slice(&bytes[8..8 + length]);
            }
            kinds.push(bytes[1]);
            bytes = &bytes[8 + length + usize::from(bytes[6])..];
        }
        (kinds, stdout)
    }

    /// A request may arrive in any pieces; it is answered once its body has ended.
    #[test]
    fn records_may_be_split() {
        let bytes = request(1, "7", b"abc");
        for size in [1, 5, bytes.len()] {
            let (mut peer, mut out, mut asked) = (FastCgi::new(), Vec::new(), Vec::new());
            for piece in bytes.chunks(size) {
                assert!(asked.is_empty());
                peer.take(piece, &mut out, &mut asked).unwrap();
            }
            assert_eq!(asked[0].number, Some(7));
            peer.answer(asked[0].stream, &content(b"hello"), &mut out);
            let (kinds, stdout) = read(&out);
            assert_eq!(kinds, [STDOUT, STDOUT, END_REQUEST]);
            assert_eq!(stdout, b"Content-Type: text/html\r\n\r\nhello");
        }
    }

    /// The connection stays if the request asks for it, and serves the next one.
    #[test]
    fn connections_are_kept_on_request() {
        let (mut peer, mut out, mut asked) = (FastCgi::new(), Vec::new(), Vec::new());
        for (number, keep) in [(1, 1), (2, 0)] {
            peer.take(&request(keep, "0", b""), &mut out, &mut asked)
                .unwrap();
            peer.answer(asked[number - 1].stream, &content(b""), &mut out);
            assert_eq!(peer.ends, keep == 0);
        }
    }

    /// A large body takes several records.
    #[test]
    fn bodies_are_divided() {
        let (mut peer, mut out, mut asked) = (FastCgi::new(), Vec::new(), Vec::new());
        peer.take(&request(0, "0", b""), &mut out, &mut asked)
            .unwrap();
        let body = vec![b'x'; 3 * PIECE];
        peer.answer(asked[0].stream, &content(&body), &mut out);
        let (kinds, stdout) = read(&out);
        assert_eq!(kinds.len(), 6);
        assert!(stdout.ends_with(&body));
    }

    /// A second request beside an open one, and another role, are turned down; an abort ends the
    /// connection without an answer.
    #[test]
    fn other_requests_are_turned_down() {
        let (mut peer, mut out, mut asked) = (FastCgi::new(), Vec::new(), Vec::new());
        peer.take(&request(1, "0", b""), &mut out, &mut asked)
            .unwrap();
        let begin = record(BEGIN_REQUEST, 2, &[0, 1, 1, 0, 0, 0, 0, 0], 0);
        peer.take(&begin, &mut out, &mut asked).unwrap();
        assert_eq!((out[1], out[3], out[12]), (END_REQUEST, 2, NO_MULTIPLEXING));
        out.clear();
        peer.take(&record(ABORT_REQUEST, 1, &[], 0), &mut out, &mut asked)
            .unwrap();
        assert!(peer.ends);
        let before = out.len();
        peer.answer(asked[0].stream, &content(b"late"), &mut out);
        assert_eq!(out.len(), before);
        let mut other = FastCgi::new();
        out.clear();
        let filter = record(BEGIN_REQUEST, 1, &[0, 3, 0, 0, 0, 0, 0, 0], 0);
        other.take(&filter, &mut out, &mut asked).unwrap();
        assert_eq!(out[12], UNKNOWN_ROLE);
    }

    /// Variables beyond the limit, and lengths beyond their record, end the connection.
    #[test]
    fn hostile_variables_end_the_connection() {
        let begin = record(BEGIN_REQUEST, 1, &[0, 1, 0, 0, 0, 0, 0, 0], 0);
        let big = record(PARAMS, 1, &[0; 65_535], 0);
        let long = [
            record(PARAMS, 1, &[0xff, 0xff, 0xff, 0xff, 1, b'a'], 0),
            record(PARAMS, 1, &[], 0),
        ]
        .concat();
        for bad in [[big.clone(), big].concat(), long] {
            let (mut peer, mut out, mut asked) = (FastCgi::new(), Vec::new(), Vec::new());
            peer.take(&begin, &mut out, &mut asked).unwrap();
            assert_eq!(peer.take(&bad, &mut out, &mut asked), Err(Violation));
        }
    }
}
