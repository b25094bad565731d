//! What is wrong at a place of a file.

use std::ops::Range;

use serde::Serialize;

/// Something wrong at a place of a file, before the file's name and lines are known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Finding {
    /// `SE0201`; the meaning of each is in the registry of codes.
    pub code: &'static str,
    /// Bytes of the file.
    pub span: Range<usize>,
    pub message: String,
    /// Stands beside the caret.
    pub label: Option<String>,
    pub help: Option<String>,
    pub notes: Vec<String>,
}

impl Finding {
    pub fn new(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { code, span, message: message.into(), label: None, help: None, notes: Vec::new() }
    }

    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}
