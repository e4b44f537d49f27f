//! A request made ready before the window starts, for whichever protocol carries it.

use std::sync::Arc;

use bytes::Bytes;

use crate::http1;
use crate::http2::{self, Blocks};
use crate::http3;
use crate::plan::{self, Check, Expect};

/// A request ready to be sent, with what its response must look like.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The whole request as HTTP/1.1 writes it.
    pub http1: Box<[u8]>,
    /// The whole request as HTTP/3 writes it, its body apart from what comes before.
    pub http3: [Bytes; 2],
    /// The method.
    pub method: Box<str>,
    /// Host, with the port if it was given: `Host` and `:authority`.
    pub authority: Box<str>,
    /// The target in origin form.
    pub path: Box<str>,
    /// The header fields in order, names as they were given; `Host` is not among them.
    pub fields: Box<[(Box<str>, Box<str>)]>,
    /// Its head as HTTP/2 writes it.
    pub http2: Blocks,
    /// The body; empty if there is none.
    pub body: Arc<[u8]>,
    /// A response to HEAD has no body whatever its fields say.
    pub head: bool,
    /// The status to expect.
    pub status: Option<u16>,
    /// The length of the body to expect.
    pub length: Option<u64>,
    /// The hash of the body to expect.
    pub sha256: Option<[u8; 32]>,
    /// Whether the hash is checked on every response, not on a sample.
    pub check_all: bool,
}

impl Prepared {
    /// Make a mix of requests ready for a host. `Host` and `Content-Length` are added unless given.
    pub fn all(mix: &[plan::Request], host: &str, scheme: &str) -> Arc<[Self]> {
        let blocks = http2::render(mix, host, scheme);
        let each = mix.iter().zip(blocks);
        each.map(|(request, blocks)| Self::new(request, host, blocks))
            .collect()
    }

    fn new(request: &plan::Request, host: &str, http2: Blocks) -> Self {
        let is = |given: &str, name: &str| given.eq_ignore_ascii_case(name);
        let given = |name: &str| request.headers.iter().find(|(given, _)| is(given, name));
        let authority = given("host").map_or(host, |(_, host)| host);
        let body = request.body();
        let others = request.headers.iter().filter(|(name, _)| !is(name, "host"));
        let mut fields: Vec<(Box<str>, Box<str>)> = others
            .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
            .collect();
        if let Some(body) = &body
            && given("content-length").is_none()
        {
            fields.push(("Content-Length".into(), body.len().to_string().into()));
        }
        let body: Arc<[u8]> = body.unwrap_or_default().into();
        let named = fields.iter().map(|(name, value)| (&**name, &**value));
        let http3 = http3::render(&request.method, authority, &request.path, named, body.len());
        let expect: Expect = request.expect.clone().unwrap_or_default();
        Self {
            http1: http1::render(request, host, &body).into(),
            http3: [http3.into(), Bytes::from_owner(Arc::clone(&body))],
            method: request.method.as_str().into(),
            authority: authority.into(),
            path: request.path.as_str().into(),
            fields: fields.into(),
            http2,
            body,
            head: request.method == "HEAD",
            status: expect.status,
            length: expect.length,
            sha256: expect.sha256.as_deref().and_then(plan::decode_hash),
            check_all: expect.check == Check::All,
        }
    }
}
