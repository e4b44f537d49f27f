//! Lists of URLs, one per line: `[METHOD] TARGET [WEIGHT]`.
//!
//! TARGET is a path, or a URL whose authority becomes the Host field. Empty lines and lines that
//! start with `#` are skipped.

use std::path::Path;

use crate::fields::is_token;

/// One line of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Line number in the file, from 1.
    pub line: usize,
    /// The method, if given.
    pub method: Option<String>,
    /// True if the target is a URL with https.
    pub encrypted: bool,
    /// The authority, if the target is a URL.
    pub authority: Option<String>,
    /// The target in origin form.
    pub path: String,
    /// Share relative to the other entries.
    pub weight: f64,
}

/// Read a list from a file.
///
/// # Errors
/// A message with file, line, value, and what is allowed.
pub fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{}: not UTF-8", path.display()))?;
    parse(&text).map_err(|(line, message)| format!("{}:{line}: {message}", path.display()))
}

/// Parse a list of at least one entry.
///
/// # Errors
/// The number of the first invalid line, and its error.
pub fn parse(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let mut entries = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if !text.is_empty() && !text.starts_with('#') {
            entries.push(entry(line, text).map_err(|message| (line, message))?);
        }
    }
    if entries.is_empty() {
        return Err((
            1,
            "no URL in the list; write one per line, such as /path or /path 2.5".into(),
        ));
    }
    Ok(entries)
}

fn entry(line: usize, text: &str) -> Result<Entry, String> {
    let bad = |what: &str, value: &str, allowed: &str| {
        format!("{what} {value:?} is not allowed; it must be {allowed}")
    };
    let mut words = text.split_ascii_whitespace().peekable();
    let is_target = |word: &&str| word.starts_with('/') || word.contains("://");
    let method = words.next_if(|word| !is_target(word) && is_token(word));
    let target = words.next().unwrap_or(method.unwrap_or_default());
    let allowed = "a path that starts with /, or a URL with http:// or https://";
    if !is_target(&target) {
        return Err(bad("target", target, allowed));
    }
    let (authority, path) = match split(target) {
        Some((_, authority, path)) => (Some(authority.to_owned()), path),
        None if target.starts_with('/') => (None, without_fragment(target)),
        None => return Err(bad("target", target, allowed)),
    };
    let weight = words.next().unwrap_or("1");
    let parsed = weight
        .parse()
        .ok()
        .filter(|w: &f64| w.is_finite() && *w > 0.0);
    let weight = parsed.ok_or_else(|| bad("weight", weight, "a number above 0"))?;
    if let Some(word) = words.next() {
        return Err(format!(
            "{word:?} is one word too many; a line is [METHOD] TARGET [WEIGHT]"
        ));
    }
    Ok(Entry {
        line,
        encrypted: target.starts_with("https://"),
        method: method.map(str::to_owned),
        authority,
        path: path.into(),
        weight,
    })
}

/// Split an http or https URL into scheme, authority and path (at least `/`, with its query).
pub fn split(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = match rest.find(['/', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let path = match without_fragment(path) {
        "" => "/",
        path => path,
    };
    let good = |byte: u8| byte.is_ascii_graphic() && !b"@?\\\"".contains(&byte);
    let known = scheme == "http" || scheme == "https";
    (known && !authority.is_empty() && authority.bytes().all(good))
        .then_some((scheme, authority, path))
}

/// Remove the fragment, which is not sent (RFC 9110, section 4.2.5).
fn without_fragment(path: &str) -> &str {
    path.split('#').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths, URLs, methods and weights are read; comments are skipped.
    #[test]
    fn lines_are_read() {
        let text = "# a list\n\n/\n/a?b=c 2.5\r\nPOST /form\nhttp://b.example:80/x#top 3\n";
        let entries = parse(text).unwrap();
        let seen: Vec<_> = entries
            .iter()
            .map(|e| {
                (
                    e.line,
                    e.method.as_deref(),
                    e.authority.as_deref(),
                    &*e.path,
                    e.weight,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (3, None, None, "/", 1.0),
                (4, None, None, "/a?b=c", 2.5),
                (5, Some("POST"), None, "/form", 1.0),
                (6, None, Some("b.example:80"), "/x", 3.0),
            ]
        );
    }

    /// The error of an invalid line has its number and what is allowed.
    #[test]
    fn refusals_name_the_line() {
        for (text, line, words) in [
            ("", 1, "no URL"),
            ("# nothing\n", 1, "no URL"),
            ("/\nindex.html\n", 2, "\"index.html\""),
            ("/ many", 1, "\"many\""),
            ("/ 0", 1, "above 0"),
            ("/ inf", 1, "above 0"),
            ("/ 1 2", 1, "one word too many"),
            ("ftp://host/", 1, "http://"),
            ("http:///x", 1, "http://"),
        ] {
            let (at, message) = parse(text).unwrap_err();
            assert_eq!(at, line, "{text:?}");
            assert!(message.contains(words), "{text:?}: {message}");
        }
    }

    /// URLs are split into scheme, authority and path.
    #[test]
    fn urls_are_split() {
        assert_eq!(split("http://a"), Some(("http", "a", "/")));
        assert_eq!(
            split("https://[::1]:8443/x?y=/z#w"),
            Some(("https", "[::1]:8443", "/x?y=/z"))
        );
        for bad in [
            "a/b",
            "http://",
            "http://me@host/",
            "ws://a/",
            "http://a b/",
        ] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }
}
