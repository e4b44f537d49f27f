//! Numbers with units, parsed and formatted as in wrk2 (units.c): 10k, 2m, 6.60ms, 19.81MB.

/// Parse a count or a rate: `500`, `2.5k`, `1M`, `1G` (powers of 1000, any case).
pub fn metric(text: &str) -> Option<f64> {
    scaled(text, &[("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9)])
}

/// Parse seconds: `30`, `30s`, `2m`, `1h`, and also `200ms` and `50us`.
pub fn seconds(text: &str) -> Option<f64> {
    scaled(
        text,
        &[
            ("", 1.0),
            ("s", 1.0),
            ("m", 60.0),
            ("h", 3600.0),
            ("ms", 1e-3),
            ("us", 1e-6),
        ],
    )
}

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    // A number that does not end with a digit is a word such as `inf`, or `1e`.
    if !digits.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let unit = &text[digits.len()..];
    let (_, scale) = units.iter().find(|(u, _)| u.eq_ignore_ascii_case(unit))?;
    let number: f64 = digits.parse().ok()?;
    Some(number * scale)
}

/// Format microseconds, as `105.20us`, `6.60ms`, `1.25s`, `2.00m`.
pub fn time_us(us: f64) -> String {
    if us >= 1e6 {
        largest(us / 1e6, 60.0, "s", &["m"], 2)
    } else {
        largest(us, 1000.0, "us", &["ms"], 2)
    }
}

/// Format seconds, as `30s`, `2m`; with decimals only if needed.
pub fn time_s(s: f64) -> String {
    let decimals = usize::from(s < 10.0 && s.fract() != 0.0) * 2;
    largest(s, 60.0, "s", &["m"], decimals)
}

/// Format a count, as `1.05k`.
pub fn count(n: f64) -> String {
    largest(n, 1000.0, "", &["k", "M", "G"], 2)
}

/// Format bytes without the B, as `19.81M` (powers of 1024).
pub fn bytes(n: f64) -> String {
    largest(n, 1024.0, "", &["K", "M", "G", "T"], 2)
}

/// Format a number in the largest unit; like wrk2, switch at 85 % of a unit.
fn largest(n: f64, scale: f64, base: &str, units: &[&str], decimals: usize) -> String {
    let (mut amount, mut unit) = (n, base);
    for next in units {
        if amount < scale * 0.85 {
            break;
        }
        amount /= scale;
        unit = next;
    }
    format!("{amount:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that wrk2 accepts mean the same here.
    #[test]
    fn reads_what_wrk2_reads() {
        for (text, value) in [("500", 500.0), ("10k", 1e4), ("2.5K", 2500.0), ("1M", 1e6)] {
            assert_eq!(metric(text), Some(value), "{text}");
        }
        for (text, value) in [("30", 30.0), ("30s", 30.0), ("2m", 120.0), ("1H", 3600.0)] {
            assert_eq!(seconds(text), Some(value), "{text}");
        }
        assert_eq!(seconds("200ms"), Some(0.2));
        for bad in ["", "k", "inf", "nan", "1e", "10q", "1 k", "2days", "--1"] {
            assert_eq!((metric(bad), seconds(bad)), (None, None), "{bad}");
        }
    }

    /// Formatted values look as in wrk2.
    #[test]
    fn writes_as_wrk2_writes() {
        for (us, text) in [
            (105.2, "105.20us"),
            (849.0, "849.00us"),
            (850.0, "0.85ms"),
            (6600.0, "6.60ms"),
            (999_999.0, "1000.00ms"),
            (1_250_000.0, "1.25s"),
            (120e6, "2.00m"),
        ] {
            assert_eq!(time_us(us), text);
        }
        assert_eq!((time_s(30.0), time_s(120.0)), ("30s".into(), "2m".into()));
        assert_eq!(time_s(0.5), "0.50s");
        assert_eq!(
            (count(1050.0), count(12.0)),
            ("1.05k".into(), "12.00".into())
        );
        assert_eq!(
            (bytes(676.15 * 1024.0), bytes(5.0)),
            ("676.15K".into(), "5.00".into())
        );
    }
}
