//! Header blocks of requests, rendered in advance: only the stream number is added when one is
//! sent.

use super::hpack::{self, Keep};
use crate::plan;
use crate::request::Blocks;

/// Connection-specific fields of HTTP/1.1, which HTTP/2 forbids (RFC 9113, 8.2.2).
const OF_CONNECTIONS: [&str; 6] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

type Fields = Vec<(String, String)>;

/// Render the header blocks of a mix of requests for a host.
pub fn render(mix: &[plan::Request], host: &str, scheme: &str) -> Vec<Blocks> {
    let all: Vec<Fields> = mix.iter().map(|r| fields(r, host, scheme)).collect();
    let common = common(&all);
    let place = |field: &(String, String)| {
        let at = common.iter().position(|shared| *shared == field)?;
        Some(common.len() - 1 - at)
    };
    all.iter()
        .map(|fields| {
            let mut fields: Vec<&(String, String)> = fields.iter().collect();
            // Every request enters the shared fields in the same order. The order of fields with
            // different names has no meaning (RFC 9110, 5.3), but pseudo-fields come first.
            fields.sort_by_key(|field| {
                let pseudo = field.0.starts_with(':');
                (
                    !pseudo,
                    place(field).map_or(usize::MAX, |p| common.len() - p),
                )
            });
            let (mut first, mut next, mut plain) = (Vec::new(), Vec::new(), Vec::new());
            for field in fields {
                let (name, value) = field;
                hpack::encode(name, value, Keep::No, &mut plain);
                if let Some(place) = place(field) {
                    hpack::encode(name, value, Keep::Yes, &mut first);
                    hpack::encode_index(place, &mut next);
                } else {
                    hpack::encode(name, value, Keep::No, &mut first);
                    hpack::encode(name, value, Keep::No, &mut next);
                }
            }
            Blocks {
                first: first.into(),
                next: next.into(),
                plain: plain.into(),
            }
        })
        .collect()
}

/// Return the fields of a request in HTTP/2.
fn fields(request: &plan::Request, host: &str, scheme: &str) -> Fields {
    let given = |name: &str| {
        let mut headers = request.headers.iter();
        headers.find(|(given, _)| given.eq_ignore_ascii_case(name))
    };
    let authority = given("host").map_or(host, |(_, value)| value.as_str());
    let mut fields = vec![
        (":method".to_owned(), request.method.clone()),
        (":scheme".to_owned(), scheme.to_owned()),
        (":authority".to_owned(), authority.to_owned()),
        (":path".to_owned(), request.path.clone()),
    ];
    for (name, value) in &request.headers {
        let name = name.to_ascii_lowercase();
        // The one value of TE that HTTP/2 allows, and gRPC demands.
        let trailers = name == "te" && value.trim() == "trailers";
        if trailers || name != "host" && !OF_CONNECTIONS.contains(&name.as_str()) {
            fields.push((name, value.trim().to_owned()));
        }
    }
    if let Some(body) = request.body()
        && given("content-length").is_none()
    {
        fields.push(("content-length".to_owned(), body.len().to_string()));
    }
    fields
}

/// Return the fields that all requests share, each once, as far as they fit in the server's table.
fn common(all: &[Fields]) -> Vec<&(String, String)> {
    let Some(first) = all.first() else {
        return Vec::new();
    };
    let mut room = hpack::TABLE_SIZE;
    first
        .iter()
        .filter(|field| {
            let once = |fields: &Fields| {
                fields.contains(field) && fields.iter().filter(|f| f.0 == field.0).count() == 1
            };
            let size = hpack::field_size(&field.0, &field.1);
            let kept = !hpack::is_static(&field.0, &field.1) && all.iter().all(once);
            let enters = kept && size <= room;
            if enters {
                room -= size;
            }
            enters
        })
        .collect()
}
