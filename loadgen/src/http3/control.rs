//! The server's unidirectional streams, of which the control stream matters.

use super::code;
use super::frame::{
    DATA, GOAWAY, HEADERS, MAX_PUSH_ID, OF_HTTP2, PUSH_PROMISE, SETTINGS, Stash, at_most,
    frame_head, varint,
};

/// The largest frame accepted on a control stream, in bytes; SETTINGS take some twenty.
const MAX_CONTROL: usize = 4 * 1024;

/// The type of a unidirectional stream of the server.
#[derive(Debug)]
enum Role {
    /// Not known yet.
    Unknown,
    Control,
    Encoder,
    /// The decoder's stream, or one of a type to ignore.
    Ignored,
}

#[derive(Debug)]
struct Stream {
    id: u64,
    role: Role,
    stash: Stash,
    /// Bytes to skip on a control stream.
    skip: u64,
}

/// The state of the server's unidirectional streams.
#[derive(Debug, Default)]
pub struct Control {
    streams: Vec<Stream>,
    settled: bool,
    /// The first request that the server will not process, after a GOAWAY.
    pub goaway: Option<u64>,
}

impl Control {
    /// Process the next bytes of one of the server's unidirectional streams.
    ///
    /// # Errors
    /// The code to close the connection with.
    pub fn feed(&mut self, id: u64, bytes: &[u8]) -> Result<(), u64> {
        let place = self.streams.iter().position(|stream| stream.id == id);
        let place = place.unwrap_or_else(|| {
            self.streams.push(Stream {
                id,
                role: Role::Unknown,
                stash: Stash::default(),
                skip: 0,
            });
            self.streams.len() - 1
        });
        let mut stream = self.streams.swap_remove(place);
        let result = self.read(&mut stream, bytes);
        self.streams.push(stream);
        result
    }

    /// Handle the end or the reset of one of these streams.
    ///
    /// # Errors
    /// The code to close the connection with.
    pub fn end(&mut self, id: u64) -> Result<(), u64> {
        let Some(place) = self.streams.iter().position(|stream| stream.id == id) else {
            return Ok(());
        };
        match self.streams.swap_remove(place).role {
            Role::Control | Role::Encoder => Err(code::CLOSED_CRITICAL_STREAM),
            Role::Unknown | Role::Ignored => Ok(()),
        }
    }

    fn read(&mut self, stream: &mut Stream, bytes: &[u8]) -> Result<(), u64> {
        let mut rest = bytes;
        if matches!(stream.role, Role::Unknown) {
            for at in 0..rest.len() {
                stream.stash.0.push(rest[at]);
                if let Some((kind, _)) = varint(&stream.stash.0) {
                    stream.stash.0.clear();
                    stream.role = self.role(kind)?;
                    rest = &rest[at + 1..];
                    break;
                }
            }
        }
        match stream.role {
            Role::Unknown | Role::Ignored => Ok(()),
            Role::Control => self.frames(stream, rest),
            // Without a table, only its size of 0 is allowed (RFC 9204, 4.3.1).
            Role::Encoder if rest.iter().all(|byte| *byte == 0x20) => Ok(()),
            Role::Encoder => Err(code::QPACK_ENCODER_STREAM),
        }
    }

    fn role(&self, kind: u64) -> Result<Role, u64> {
        let role = match kind {
            0 => Role::Control,
            // Pushes are not allowed (4.6).
            1 => return Err(code::ID),
            2 => Role::Encoder,
            _ => return Ok(Role::Ignored),
        };
        let same =
            |stream: &Stream| std::mem::discriminant(&stream.role) == std::mem::discriminant(&role);
        if self.streams.iter().any(same) {
            return Err(code::STREAM_CREATION);
        }
        Ok(role)
    }

    fn frames(&mut self, stream: &mut Stream, bytes: &[u8]) -> Result<(), u64> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if stream.skip > 0 {
                let n = at_most(rest, stream.skip);
                stream.skip -= n as u64;
                rest = &rest[n..];
                continue;
            }
            stream.stash.0.push(rest[0]);
            rest = &rest[1..];
            let Some((kind, length, head)) = frame_head(&stream.stash.0) else {
                continue;
            };
            if !self.settled && kind != SETTINGS {
                return Err(code::MISSING_SETTINGS);
            }
            if !matches!(kind, SETTINGS | GOAWAY) {
                match kind {
                    DATA | HEADERS | PUSH_PROMISE | MAX_PUSH_ID => {
                        return Err(code::FRAME_UNEXPECTED);
                    }
                    kind if OF_HTTP2.contains(&kind) => return Err(code::FRAME_UNEXPECTED),
                    _ => {}
                }
                stream.skip = length;
                stream.stash.0.clear();
                continue;
            }
            if length > MAX_CONTROL as u64 {
                return Err(code::EXCESSIVE_LOAD);
            }
            let whole = head + length as usize;
            let n = rest.len().min(whole - stream.stash.0.len());
            stream.stash.0.extend_from_slice(&rest[..n]);
            rest = &rest[n..];
            if stream.stash.0.len() == whole {
                self.frame(kind, &stream.stash.0[head..])?;
                stream.stash.0.clear();
            }
        }
        Ok(())
    }

    fn frame(&mut self, kind: u64, payload: &[u8]) -> Result<(), u64> {
        let mut rest = payload;
        let mut number = || {
            let (value, used) = varint(rest).ok_or(code::FRAME)?;
            rest = &rest[used..];
            Ok::<_, u64>((value, rest.is_empty()))
        };
        if kind == GOAWAY {
            // The id of a request; it may only decrease (5.2).
            let (id, last) = number()?;
            if !last {
                return Err(code::FRAME);
            }
            if id % 4 != 0 || self.goaway.is_some_and(|before| id > before) {
                return Err(code::ID);
            }
            self.goaway = Some(id);
            return Ok(());
        }
        if self.settled {
            return Err(code::FRAME_UNEXPECTED);
        }
        self.settled = true;
        let mut last = payload.is_empty();
        while !last {
            let (setting, _) = number()?;
            // Settings of HTTP/2 that HTTP/3 forbids (7.2.4.1).
            if matches!(setting, 0x2..=0x5) {
                return Err(code::SETTINGS);
            }
            (_, last) = number()?;
        }
        Ok(())
    }
}
