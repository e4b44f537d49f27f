//! The documents that `run` prints and writes.

use super::RunOptions;
use crate::format::Format;
use crate::out_file::OutFile;

/// The documents of a run.
#[derive(Debug)]
pub struct Documents {
    /// The document on standard output; `None` for the report.
    pub printed: Option<Format>,
    /// The files, already open.
    pub files: Vec<(Format, OutFile)>,
}

impl RunOptions {
    /// Open the files of results, and choose what is printed.
    pub fn documents(&self) -> Result<Documents, String> {
        let mut files = Vec::new();
        if let Some(path) = &self.hgrm {
            files.push((Format::Hgrm, OutFile::open("--hgrm", path.clone())?));
        }
        let mut printed = self.json.then_some(Format::Json);
        match (&self.out, self.format) {
            (Some(path), format) => {
                let format = format.or_else(|| Format::of_file(path)).ok_or_else(|| {
                    format!(
                        "--out: {:?} does not end with .csv, .hgrm, .hlog or .json; add --format",
                        path.display().to_string()
                    )
                })?;
                files.push((format, OutFile::open("--out", path.clone())?));
            }
            (None, Some(_)) if self.json => {
                return Err(
                    "--format: not allowed with --json, which prints another document; \
                            add --out FILE, or omit one of the two"
                        .into(),
                );
            }
            (None, Some(format)) => printed = Some(format),
            (None, None) => {}
        }
        Ok(Documents { printed, files })
    }
}
