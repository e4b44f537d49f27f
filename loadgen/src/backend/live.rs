//! One request over HTTP/1.1, which proves that the backend is live.

use super::answers::Answers;
use super::speaker::Violation;

const MAX_REQUEST: usize = 8 * 1024;

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Live {
    request: Vec<u8>,
    /// True if the connection ends once all is sent.
    pub ends: bool,
}

impl Live {
    /// Process the next bytes of the peer.
    pub fn take(
        &mut self,
        bytes: &[u8],
        answers: &Answers,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        if self.ends {
            return Ok(());
        }
        self.request.extend_from_slice(bytes);
        if self.request.len() > MAX_REQUEST {
            return Err(Violation);
        }
        if !self.request.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(());
        }
        let line = format!("GET {} HTTP/1.", answers.live_path);
        let (status, body) = if self.request.starts_with(line.as_bytes()) {
            ("200 OK", answers.live_token.as_str())
        } else {
            ("404 Not Found", "")
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        out.extend_from_slice(answer.as_bytes());
        self.ends = true;
        Ok(())
    }
}
