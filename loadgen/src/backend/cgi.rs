//! Common code of FastCGI, uwsgi and SCGI: variables of a request, and answers in the form of CGI
//! (RFC 3875).

use crate::fields::decimal;

/// The most bytes of a request's variables.
pub const MAX_VARIABLES: usize = 64 * 1024;

/// A complete answer, before a protocol gives it its form.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// The status.
    pub status: u16,
    /// The media type.
    pub media: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// The variables of a request that matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// The number of the answer, from the header `Tuner-Answer`.
    pub number: Option<u64>,
    /// Bytes of the request's body.
    pub length: u64,
    /// True if the answer has no body, because the method is HEAD.
    pub head: bool,
}

impl Variables {
    /// Take a variable into account.
    pub fn take(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"HTTP_TUNER_ANSWER" => self.number = decimal(value),
            b"CONTENT_LENGTH" => self.length = decimal(value).unwrap_or(0),
            b"REQUEST_METHOD" => self.head = value == b"HEAD",
            _ => {}
        }
    }
}

/// Return the reason phrase of a status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        410 => "Gone",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

/// Append the head of an answer.
///
/// Args: `first` is what precedes the status, `length` whether the head has the length of the body.
pub fn write_head(first: &str, content: &Content, length: bool, out: &mut Vec<u8>) {
    let Content {
        status,
        media,
        body,
    } = content;
    out.extend_from_slice(format!("{first}{status} {}\r\n", reason(*status)).as_bytes());
    if !matches!(status, 204 | 304) {
        out.extend_from_slice(format!("Content-Type: {media}\r\n").as_bytes());
        if length {
            out.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
    }
    if matches!(status, 301 | 302 | 303 | 307 | 308) {
        out.extend_from_slice(b"Location: /\r\n");
    }
    out.extend_from_slice(b"\r\n");
}
