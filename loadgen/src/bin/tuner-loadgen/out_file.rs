//! A file that results are written to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// A file that is opened before the measurement, so that a wrong path costs no measurement, and
/// written after it. Until then it keeps its content; one that did not exist is removed if nothing is
/// written.
#[derive(Debug)]
pub struct OutFile {
    /// The option that names it.
    option: &'static str,
    path: PathBuf,
    file: File,
    /// True if it did not exist, and nothing is written yet.
    created: bool,
}

impl OutFile {
    /// Open a file, or create it.
    pub fn open(option: &'static str, path: PathBuf) -> Result<Self, String> {
        let created = !path.exists();
        let mut options = OpenOptions::new();
        match options.write(true).create(true).truncate(false).open(&path) {
            Ok(file) => Ok(Self {
                option,
                path,
                file,
                created,
            }),
            Err(error) => Err(format!(
                "{option}: {}: {error}; name a file in a folder that exists and that you may write to",
                path.display()
            )),
        }
    }

    /// Replace the file's content.
    pub fn write(mut self, text: &str) -> Result<(), String> {
        self.replace(text).map_err(|error| {
            format!(
                "{}: {}: {error}; the results are not in it: make room, or name another file",
                self.option,
                self.path.display()
            )
        })
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        // Devices and pipes have no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.created = false;
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        if self.created {
            // An empty file is not worth an error of its own.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
