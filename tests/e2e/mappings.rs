//! The directory of mapping files that a case's engine watches, edited the way people and machines edit files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A mappings directory.
pub struct Mappings {
    folder: PathBuf,
    /// What stands for `<mapping>`, `<name>`, `<source>`, `<group>` in the texts of the cases.
    words: Vec<(&'static str, String)>,
}

impl Mappings {
    pub fn new(folder: PathBuf, words: Vec<(&'static str, String)>) -> Self {
        fs::create_dir_all(&folder).expect("the mappings directory");
        Self { folder, words }
    }

    /// Another directory for the same words.
    pub fn beside(&self, folder: PathBuf) -> Self {
        Self::new(folder, self.words.clone())
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A text with the case's own words filled in.
    pub fn fill(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
    }

    /// Writes a file at once: the text goes into a hidden file that is then renamed over it, as editors do.
    pub fn write(&self, file: &str, text: &str) {
        static WRITTEN: AtomicUsize = AtomicUsize::new(0);
        let draft = self.folder.join(format!(".{file}.{}", WRITTEN.fetch_add(1, Ordering::Relaxed)));
        fs::write(&draft, self.fill(text)).expect("a draft");
        fs::rename(draft, self.folder.join(file)).expect("a file");
    }

    pub fn remove(&self, file: &str) {
        fs::remove_file(self.folder.join(file)).expect("a file to remove");
    }
}
