//! Formats of the results for other programs.

use std::path::Path;

/// A format, named as in `tuner report --format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A row for each second.
    Csv,
    /// HdrHistogram's percentile text.
    Hgrm,
    /// HdrHistogram's interval log, with a line for each second.
    Hlog,
    /// The JSON document of `--json`.
    Json,
}

const FORMATS: [(&str, Format); 4] = [
    ("csv", Format::Csv),
    ("hgrm", Format::Hgrm),
    ("hlog", Format::Hlog),
    ("json", Format::Json),
];

impl Format {
    /// Return the format of this name.
    pub fn named(name: &str) -> Option<Self> {
        let found = FORMATS.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format)
    }

    /// Return the format that the ending of a file's name says.
    pub fn of_file(path: &Path) -> Option<Self> {
        Self::named(path.extension()?.to_str()?)
    }
}
