//! Requests of a plan, rendered for every protocol before the window starts.

use std::sync::Arc;

use bytes::Bytes;

use crate::plan::{self, Check, Expect};
use crate::request::{Blocks, Prepared};
use crate::{http1, http2, http3};

/// Render a mix of requests for a host. `Host` and `Content-Length` are added unless given.
pub fn all(mix: &[plan::Request], host: &str, scheme: &str) -> Arc<[Prepared]> {
    let blocks = http2::render(mix, host, scheme);
    let each = mix.iter().zip(blocks);
    each.map(|(request, blocks)| one(request, host, blocks))
        .collect()
}

fn one(request: &plan::Request, host: &str, http2: Blocks) -> Prepared {
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
    Prepared {
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
