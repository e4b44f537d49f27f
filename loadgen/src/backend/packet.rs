//! uwsgi and SCGI: one block of variables, the body, and an answer that ends the connection
//! (<https://uwsgi-docs.readthedocs.io/en/latest/Protocol.html>,
//! <https://python.ca/scgi/protocol.txt>).

use super::cgi::{self, Content, MAX_VARIABLES, Variables};
use super::speaker::{Asked, Violation};

/// Digits of the longest block of SCGI, which begins with its length.
const MAX_DIGITS: usize = 6;
const UWSGI_HEAD: usize = 4;

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// uwsgi, answered with HTTP.
    Uwsgi,
    /// SCGI, answered as CGI does.
    Scgi,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Packet {
    form: Form,
    /// The block so far.
    block: Vec<u8>,
    /// The block's variables once it is complete, with the bytes of the body that are missing.
    request: Option<(Variables, u64)>,
    asked: bool,
    /// True if the connection ends once all is sent.
    pub ends: bool,
}

impl Packet {
    /// Create the state before the first byte.
    pub fn new(form: Form) -> Self {
        Self {
            form,
            block: Vec::new(),
            request: None,
            asked: false,
            ends: false,
        }
    }

    /// Process the next bytes of the peer. What follows the body is ignored.
    pub fn take(&mut self, bytes: &[u8], asked: &mut Vec<Asked>) -> Result<(), Violation> {
        let mut body = bytes.len() as u64;
        if self.request.is_none() {
            self.block.extend_from_slice(bytes);
            let Some((variables, used)) = self.variables()? else {
                return Ok(());
            };
            body = (self.block.len() - used) as u64;
            self.block = Vec::new();
            self.request = Some((variables, variables.length));
        }
        if let Some((variables, left)) = &mut self.request
            && !self.asked
        {
            *left = left.saturating_sub(body);
            if *left == 0 {
                self.asked = true;
                asked.push(Asked {
                    stream: 0,
                    number: variables.number,
                });
            }
        }
        Ok(())
    }

    /// Return the variables and the length of the block; `None` before it is complete.
    fn variables(&self) -> Result<Option<(Variables, usize)>, Violation> {
        match self.form {
            Form::Uwsgi => uwsgi(&self.block),
            Form::Scgi => scgi(&self.block),
        }
    }

    /// Append the answer, and end the connection.
    pub fn answer(&mut self, content: &Content, out: &mut Vec<u8>) {
        let Some((variables, _)) = self.request.filter(|_| self.asked && !self.ends) else {
            return;
        };
        let first = match self.form {
            Form::Uwsgi => "HTTP/1.1 ",
            Form::Scgi => "Status: ",
        };
        cgi::write_head(first, content, true, out);
        if !variables.head {
            out.extend_from_slice(content.body);
        }
        self.ends = true;
    }
}

fn uwsgi(block: &[u8]) -> Result<Option<(Variables, usize)>, Violation> {
    let Some(&[_modifier, low, high, _]) = block.first_chunk::<UWSGI_HEAD>() else {
        return Ok(None);
    };
    let end = UWSGI_HEAD + usize::from(u16::from_le_bytes([low, high]));
    let Some(mut rest) = block.get(UWSGI_HEAD..end) else {
        return Ok(None);
    };
    let mut variables = Variables::default();
    while !rest.is_empty() {
        let name = uwsgi_text(&mut rest)?;
        let value = uwsgi_text(&mut rest)?;
        variables.take(name, value);
    }
    Ok(Some((variables, end)))
}

fn uwsgi_text<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Violation> {
    let (size, after) = rest.split_first_chunk().ok_or(Violation)?;
    let size = usize::from(u16::from_le_bytes(*size));
    let (text, after) = after.split_at_checked(size).ok_or(Violation)?;
    *rest = after;
    Ok(text)
}

fn scgi(block: &[u8]) -> Result<Option<(Variables, usize)>, Violation> {
    let Some(digits) = block.iter().position(|byte| *byte == b':') else {
        let good = block.len() <= MAX_DIGITS;
        return if good { Ok(None) } else { Err(Violation) };
    };
    let size = Some(&block[..digits])
        .filter(|digits| digits.len() <= MAX_DIGITS)
        .and_then(crate::fields::decimal)
        .ok_or(Violation)? as usize;
    if size > MAX_VARIABLES {
        return Err(Violation);
    }
    let begin = digits + 1;
    let Some(end) = block.get(begin + size) else {
        return Ok(None);
    };
    if *end != b',' {
        return Err(Violation);
    }
    let mut variables = Variables::default();
    let mut texts = block[begin..begin + size].split(|byte| *byte == 0);
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        variables.take(name, value);
    }
    Ok(Some((variables, begin + size + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIRS: [(&str, &str); 3] = [
        ("CONTENT_LENGTH", "4"),
        ("REQUEST_METHOD", "POST"),
        ("HTTP_TUNER_ANSWER", "3"),
    ];

    fn uwsgi_request() -> Vec<u8> {
        let mut block = Vec::new();
        for text in PAIRS.iter().flat_map(|(name, value)| [name, value]) {
            block.extend((text.len() as u16).to_le_bytes());
            block.extend_from_slice(text.as_bytes());
        }
        let [low, high] = (block.len() as u16).to_le_bytes();
        [&[0, low, high, 0], &block[..], b"body"].concat()
    }

    fn scgi_request() -> Vec<u8> {
        let block: String = PAIRS
            .map(|(name, value)| format!("{name}\0{value}\0"))
            .concat();
        format!("{}:{block},body", block.len()).into_bytes()
    }

    /// Both protocols read a request in any pieces, with its body, and end after the answer.
    #[test]
    fn requests_may_be_split() {
        for (form, bytes, first) in [
            (Form::Uwsgi, uwsgi_request(), "HTTP/1.1 404 Not Found\r\n"),
            (Form::Scgi, scgi_request(), "Status: 404 Not Found\r\n"),
        ] {
            for size in [1, 7, bytes.len()] {
                let (mut peer, mut out, mut asked) = (Packet::new(form), Vec::new(), Vec::new());
                for piece in bytes.chunks(size) {
                    assert!(asked.is_empty());
                    peer.take(piece, &mut asked).unwrap();
                }
                assert_eq!(asked[0].number, Some(3), "{form:?}");
                let content = Content {
                    status: 404,
                    media: "text/plain",
                    body: b"gone",
                };
                peer.answer(&content, &mut out);
                assert!(peer.ends);
                let rest = "Content-Type: text/plain\r\nContent-Length: 4\r\n\r\ngone";
                assert_eq!(String::from_utf8(out).unwrap(), format!("{first}{rest}"));
            }
        }
    }

    /// Lengths beyond their block, and blocks beyond the limit, end the connection.
    #[test]
    fn hostile_blocks_end_the_connection() {
        for (form, bytes) in [
            (Form::Uwsgi, &b"\0\x03\0\0\x09\0a"[..]),
            (Form::Uwsgi, b"\0\x01\0\0\x09"),
            (Form::Scgi, b"65537:"),
            (Form::Scgi, b"12345678"),
            (Form::Scgi, b"1x:a,"),
            (Form::Scgi, b"1:ab"),
        ] {
            let mut asked = Vec::new();
            let taken = Packet::new(form).take(bytes, &mut asked);
            assert_eq!(taken, Err(Violation), "{form:?} {bytes:?}");
        }
    }
}
