//! A folder of this process's own, gone with it.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A folder below the system's temporary one, which nobody else can read. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct Folder(PathBuf);

/// How often another name is tried where one is taken.
const ATTEMPTS: u32 = 100;

impl Folder {
    /// Makes a folder whose name begins as given.
    pub fn create(prefix: &str) -> io::Result<Self> {
        let process = std::process::id();
        for attempt in 0..ATTEMPTS {
            let path = env::temp_dir().join(format!("{prefix}-{process}-{attempt}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, "every name for a temporary folder is taken"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Where it cannot be removed, there is nobody left to tell.
        let _ = fs::remove_dir_all(&self.0);
    }
}
