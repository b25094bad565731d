//! The lines of a watch.

use super::client::Answer;

/// No object comes near this: etcd takes 1.5 MiB by default.
const LONGEST_LINE: usize = 16 << 20;

/// What a buffer may keep for nothing.
const LARGE: usize = 64 << 10;

/// Lines as they arrive.
pub(super) struct Lines {
    answer: Answer,
    buffer: Vec<u8>,
    /// Where the next line begins in the buffer.
    start: usize,
    /// Up to where the buffer holds no further line end.
    searched: usize,
}

impl Lines {
    pub(super) fn new(answer: Answer) -> Self {
        Self { answer, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// The next line without its end; `None` at the end of the stream. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, String> {
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let line = self.start..self.searched + length;
                self.start = line.end + 1;
                self.searched = self.start;
                return Ok(Some(&self.buffer[line]));
            }
            self.searched = self.buffer.len();
            if self.searched - self.start > LONGEST_LINE {
                return Err("a line without end".into());
            }
            let Some(data) = self.answer.next().await.transpose()? else { return Ok(None) };
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
            if self.buffer.len() < LARGE && self.buffer.capacity() > LARGE {
                // One huge object must not cost its size for as long as the watch lives.
                self.buffer.shrink_to(LARGE);
            }
            self.buffer.extend_from_slice(&data);
        }
    }
}
