//! One connection of a backend as a function of bytes. Its first bytes tell its protocol.

use super::answers::{Answer, Answers};
use super::cgi::Content;
use super::fastcgi::FastCgi;
use super::grpc::Grpc;
use super::live::Live;
use super::packet::{Form, Packet};
use super::speaker::{Asked, Violation};

/// Bytes that distinguish HTTP/2 from HTTP/1.1.
const PREFACE: &[u8] = b"PRI";

#[derive(Debug)]
enum Speaker {
    /// The first bytes, which may be the preface of HTTP/2 or not.
    Unknown(Vec<u8>),
    FastCgi(FastCgi),
    Packet(Packet),
    Grpc(Box<Grpc>),
    Live(Live),
}

/// The state of one connection.
#[derive(Debug)]
pub struct Peer {
    speaker: Speaker,
    /// Bytes to send.
    pub out: Vec<u8>,
}

impl Peer {
    /// Create the state before the first byte.
    pub fn new() -> Self {
        Self {
            speaker: Speaker::Unknown(Vec::new()),
            out: Vec::new(),
        }
    }

    /// Process the next bytes of the peer; append its complete requests to `asked`.
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn take(
        &mut self,
        bytes: &[u8],
        answers: &Answers,
        asked: &mut Vec<Asked>,
    ) -> Result<(), Violation> {
        let held;
        let mut bytes = bytes;
        if let Speaker::Unknown(first) = &mut self.speaker {
            first.extend_from_slice(bytes);
            let Some(speaker) = speaker_of(first) else {
                return Ok(());
            };
            held = std::mem::take(first);
            bytes = &held;
            self.speaker = speaker;
        }
        let out = &mut self.out;
        match &mut self.speaker {
            Speaker::Unknown(_) => Ok(()),
            Speaker::FastCgi(peer) => peer.take(bytes, out, asked),
            Speaker::Packet(peer) => peer.take(bytes, asked),
            Speaker::Grpc(peer) => {
                peer.take(bytes, out, asked)?;
                peer.pump(answers.text.as_bytes(), out);
                Ok(())
            }
            Speaker::Live(peer) => peer.take(bytes, answers, out),
        }
    }

    /// Begin the answer to one of its requests. Returns whether messages remain, which
    /// [`Self::continue_answer`] sends one by one.
    pub fn answer(&mut self, stream: u32, answer: &Answer, answers: &Answers) -> bool {
        let content = Content {
            status: answer.status,
            media: &answers.content_type,
            body: answers.body(answer),
        };
        let out = &mut self.out;
        match &mut self.speaker {
            Speaker::FastCgi(peer) => peer.answer(stream, &content, out),
            Speaker::Packet(peer) => peer.answer(&content, out),
            Speaker::Grpc(peer) => {
                return peer.answer(stream, answer, answers.text.as_bytes(), out);
            }
            Speaker::Unknown(_) | Speaker::Live(_) => {}
        }
        false
    }

    /// Send the next message of an answer. Returns whether more remain.
    pub fn continue_answer(&mut self, stream: u32, answers: &Answers) -> bool {
        match &mut self.speaker {
            Speaker::Grpc(peer) => {
                peer.continue_answer(stream, answers.text.as_bytes(), &mut self.out)
            }
            _ => false,
        }
    }

    /// Write more of the answers that did not fit, after bytes were sent.
    pub fn pump(&mut self, answers: &Answers) {
        if let Speaker::Grpc(peer) = &mut self.speaker {
            peer.pump(answers.text.as_bytes(), &mut self.out);
        }
    }

    /// Return whether the connection ends once all is sent.
    pub fn ends(&self) -> bool {
        match &self.speaker {
            Speaker::Unknown(_) => false,
            Speaker::FastCgi(peer) => peer.ends,
            Speaker::Packet(peer) => peer.ends,
            Speaker::Grpc(peer) => peer.ends,
            Speaker::Live(peer) => peer.ends,
        }
    }
}

impl Default for Peer {
    fn default() -> Self {
        Self::new()
    }
}

/// Return the protocol that begins with these bytes; `None` if they are too few.
fn speaker_of(first: &[u8]) -> Option<Speaker> {
    Some(match first.first()? {
        // The version of FastCGI.
        1 => Speaker::FastCgi(FastCgi::new()),
        // The length of SCGI's variables.
        b'0'..=b'9' => Speaker::Packet(Packet::new(Form::Scgi)),
        b'P' if first.starts_with(PREFACE) => Speaker::Grpc(Box::new(Grpc::new())),
        b'P' if PREFACE.starts_with(first) => return None,
        b'A'..=b'Z' => Speaker::Live(Live::default()),
        // The first modifier of uwsgi; 0 unless the configuration sets it.
        _ => Speaker::Packet(Packet::new(Form::Uwsgi)),
    })
}
