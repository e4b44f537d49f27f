//! The answers of a backend, read from a JSON file.

use serde::Deserialize;

use crate::rng::Rng;

/// The largest body, in bytes.
const MAX_BODY: usize = 64 << 20;
/// The longest media type, in bytes.
const MAX_MEDIA: usize = 255;
/// The longest time, in microseconds: one hour.
const MAX_US: u64 = 3_600_000_000;
/// The most messages of a stream.
const MAX_MESSAGES: u32 = 100_000;

/// One answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The status.
    #[serde(default = "ok")]
    pub status: u16,
    /// Length of the body, in bytes: the beginning of the text.
    pub size: usize,
    /// Times until the answer, each for an equal share of the requests, in microseconds; empty: at
    /// once.
    #[serde(default)]
    pub times_us: Vec<u64>,
    /// Over gRPC, the messages of the stream, each of `size` bytes.
    #[serde(default = "one")]
    pub messages: u32,
    /// Time from one message to the next, in microseconds; 0: all together.
    #[serde(default)]
    pub every_us: u64,
}

fn one() -> u32 {
    1
}

fn ok() -> u16 {
    200
}

/// The file of a backend.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    /// The path that is asked over HTTP to prove that the backend is live.
    pub live_path: String,
    /// The answer at that path.
    pub live_token: String,
    /// The media type of the answers; those of gRPC have their own.
    pub content_type: String,
    /// The text that every body is the beginning of.
    pub text: String,
    /// The answer to requests without a number; `None`: status 404.
    #[serde(default)]
    pub other: Option<Answer>,
    /// The answers to requests by their number, from 0.
    #[serde(default)]
    pub answers: Vec<Answer>,
}

/// The answer to a request whose number is unknown.
static UNKNOWN: Answer = Answer {
    status: 404,
    size: 0,
    times_us: Vec::new(),
    messages: 1,
    every_us: 0,
};

impl Answers {
    /// Parse the text of a file.
    ///
    /// # Errors
    /// The position and the reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut source = serde_json::Deserializer::from_str(text);
        let answers: Self =
            serde_path_to_error::deserialize(&mut source).map_err(|error| error.to_string())?;
        answers.check()?;
        Ok(answers)
    }

    fn check(&self) -> Result<(), String> {
        if self.text.len() > MAX_BODY {
            return Err(format!("text: it must have at most {MAX_BODY} bytes"));
        }
        let media = &self.content_type;
        if media.len() > MAX_MEDIA || media.chars().any(char::is_control) {
            return Err(format!(
                "content_type: it must have at most {MAX_MEDIA} bytes, and no control characters"
            ));
        }
        for answer in self.other.iter().chain(&self.answers) {
            let Answer {
                status,
                size,
                times_us,
                messages,
                every_us,
            } = answer;
            if !(200..=599).contains(status) {
                return Err(format!(
                    "status: {status} is not allowed; it must be 200 to 599"
                ));
            }
            if *size > self.text.len() {
                return Err(format!(
                    "size: {size} is not allowed; the text has {} bytes",
                    self.text.len()
                ));
            }
            if times_us.iter().any(|us| *us > MAX_US) {
                return Err(format!("times_us: at most {MAX_US} are allowed"));
            }
            if !(1..=MAX_MESSAGES).contains(messages) {
                return Err(format!(
                    "messages: {messages} is not allowed; it must be 1 to {MAX_MESSAGES}"
                ));
            }
            if *every_us > MAX_US {
                return Err(format!("every_us: at most {MAX_US} are allowed"));
            }
        }
        Ok(())
    }

    /// Return the answer to a request that names this number.
    pub fn of(&self, number: Option<u64>) -> &Answer {
        number
            .and_then(|number| self.answers.get(usize::try_from(number).ok()?))
            .or(self.other.as_ref())
            .unwrap_or(&UNKNOWN)
    }

    /// Return the body of an answer.
    pub fn body(&self, answer: &Answer) -> &[u8] {
        &self.text.as_bytes()[..answer.size]
    }
}

impl Answer {
    /// Draw the time until the answer, in nanoseconds.
    pub fn delay_ns(&self, rng: &mut Rng) -> u64 {
        let place = (rng.unit() * self.times_us.len() as f64) as usize;
        self.times_us.get(place).map_or(0, |us| us * 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(answers: &str) -> String {
        format!(
            r#"{{"live_path":"/l","live_token":"t","content_type":"text/plain","text":"hello",
            "answers":{answers}}}"#
        )
    }

    /// A number names its answer; others get the common one, or 404.
    #[test]
    fn numbers_name_answers() {
        let mut answers = Answers::parse(&file(r#"[{"size":2},{"size":5,"status":201}]"#)).unwrap();
        assert_eq!(answers.body(answers.of(Some(0))), b"he");
        assert_eq!(answers.of(Some(1)).status, 201);
        for number in [None, Some(2), Some(u64::MAX)] {
            assert_eq!(answers.of(number).status, 404, "{number:?}");
        }
        answers.other = Some(answers.of(Some(1)).clone());
        assert_eq!(answers.body(answers.of(None)), b"hello");
    }

    /// A value that cannot be served is refused with its name.
    #[test]
    fn wrong_values_are_refused() {
        for (answers, words) in [
            (r#"[{"size":6}]"#, "size: 6"),
            (r#"[{"size":1,"status":99}]"#, "status: 99"),
            (r#"[{"size":1,"times_us":[3600000001]}]"#, "times_us"),
            (r#"[{"size":1,"messages":0}]"#, "messages: 0"),
            (r#"[{"size":1,"messages":100001}]"#, "messages: 100001"),
            (r#"[{"size":1,"every_us":3600000001}]"#, "every_us"),
            (r#"[{"size":-1}]"#, "answers[0].size"),
            (r#"[{"size":1,"x":1}]"#, "unknown field"),
        ] {
            let error = Answers::parse(&file(answers)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    /// Each time is drawn for an equal share of the requests.
    #[test]
    fn times_have_equal_shares() {
        let answer = Answer {
            status: 200,
            size: 0,
            times_us: vec![1, 2, 2, 3],
            ..UNKNOWN
        };
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..4000).map(|_| answer.delay_ns(&mut rng)).collect();
        let twos = drawn.iter().filter(|ns| **ns == 2000).count();
        assert!((1900..2100).contains(&twos), "{twos}");
    }
}
