//! A wall clock for a process of its own, put back and forth while it runs.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use tempfile::NamedTempFile;

use crate::parts;

/// The clock of whatever is started in its environment. Monotonic time is left alone.
#[derive(Debug)]
pub struct FakeClock {
    offset: NamedTempFile,
}

impl FakeClock {
    pub fn start() -> Self {
        let clock = Self { offset: NamedTempFile::new().expect("a temporary file") };
        clock.set(0);
        clock
    }

    /// So many milliseconds ahead of the true time, from now on.
    pub fn set(&self, milliseconds: i64) {
        let file = OpenOptions::new().write(true).open(self.offset.path()).expect("a writable file");
        file.write_all_at(&(milliseconds * 1000).to_ne_bytes(), 0).expect("a writable file");
    }

    pub fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &std::path::Path| path.display().to_string();
        vec![("LD_PRELOAD".to_owned(), text(&parts::clock())), ("TURNSTONE_CLOCK".to_owned(), text(self.offset.path()))]
    }
}
