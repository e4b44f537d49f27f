//! QPACK with the static table only (RFC 9204): no dynamic table is offered, so field sections are
//! independent, and no response waits for the encoder's stream.
//!
//! Of a response, only the status and the announced length matter: other names and values are
//! skipped, and no text is stored.

use crate::fields::{BadFields, Fields, Input, LOOK, Name, decimal, integer, string};

/// The static table (appendix A).
#[rustfmt::skip]
const STATIC: [(&str, &str); 99] = [
    (":authority", ""), (":path", "/"), ("age", "0"), ("content-disposition", ""),
    ("content-length", "0"), ("cookie", ""), ("date", ""), ("etag", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("last-modified", ""), ("link", ""), ("location", ""), ("referer", ""),
    ("set-cookie", ""), (":method", "CONNECT"), (":method", "DELETE"), (":method", "GET"),
    (":method", "HEAD"), (":method", "OPTIONS"), (":method", "POST"), (":method", "PUT"),
    (":scheme", "http"), (":scheme", "https"), (":status", "103"), (":status", "200"),
    (":status", "304"), (":status", "404"), (":status", "503"), ("accept", "*/*"),
    ("accept", "application/dns-message"), ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"), ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"), ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"), ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"), ("cache-control", "no-cache"),
    ("cache-control", "no-store"), ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"), ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"), ("content-type", "application/javascript"),
    ("content-type", "application/json"), ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"), ("content-type", "image/jpeg"), ("content-type", "image/png"),
    ("content-type", "text/css"), ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"), ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"), ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"), ("vary", "origin"), ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"), (":status", "100"), (":status", "204"),
    (":status", "206"), (":status", "302"), (":status", "400"), (":status", "403"),
    (":status", "421"), (":status", "425"), (":status", "500"), ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"), ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"), ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"), ("access-control-request-method", "get"),
    ("access-control-request-method", "post"), ("alt-svc", "clear"), ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"), ("expect-ct", ""), ("forwarded", ""), ("if-range", ""), ("origin", ""),
    ("purpose", "prefetch"), ("server", ""), ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"), ("user-agent", ""), ("x-forwarded-for", ""),
    ("x-frame-options", "deny"), ("x-frame-options", "sameorigin"),];

/// Decode one section (4.5).
///
/// # Errors
/// [`BadFields`]: the section is malformed, or refers to a dynamic table, which was not offered.
pub fn decode(section: &[u8]) -> Result<Fields, BadFields> {
    let mut input = Input(section);
    let mut fields = Fields::default();
    // Without a table, the required insert count is 0 and the base has no meaning.
    if input.integer(8)? != 0 {
        return Err(BadFields);
    }
    input.integer(7)?;
    let mut seen = [0; LOOK];
    while let Some(first) = input.peek() {
        match first {
            0xc0.. => {
                let (name, value) = entry(input.integer(6)?)?;
                fields.take(Name::of(name), decimal(value));
            }
            0x50..=0x5f | 0x70..=0x7f => {
                let (name, _) = entry(input.integer(4)?)?;
                let size = input.string(7, &mut seen)?;
                fields.take(Name::of(name), seen.get(..size).and_then(decimal));
            }
            0x20..=0x3f => {
                let size = input.string(3, &mut seen)?;
                let name = seen.get(..size).map_or(Name::Other, Name::of);
                let size = input.string(7, &mut seen)?;
                fields.take(name, seen.get(..size).and_then(decimal));
            }
            _ => return Err(BadFields),
        }
    }
    Ok(fields)
}

#[inline]
fn entry(index: usize) -> Result<(&'static [u8], &'static [u8]), BadFields> {
    let (name, value) = STATIC.get(index).ok_or(BadFields)?;
    Ok((name.as_bytes(), value.as_bytes()))
}

/// Append the start of a section without references to a dynamic table.
pub fn encode_prefix(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Append a field: by index if the static table contains it or its name.
pub fn encode(name: &str, value: &str, out: &mut Vec<u8>) {
    if let Some(i) = STATIC.iter().position(|field| *field == (name, value)) {
        return integer(i, 6, 0xc0, out);
    }
    match STATIC.iter().position(|field| field.0 == name) {
        Some(i) => integer(i, 4, 0x50, out),
        None => string(name.as_bytes(), 3, 0x20, out),
    }
    string(value.as_bytes(), 7, 0, out);
}
