//! Where the story is told: in colours, where the terminal has some.

use std::io::{self, Write};
use std::time::Duration;

use crate::cli::terminal;
use crate::story::Line;
use crate::story::narrate::{ENGINE, OPERATOR};

/// Differences shown of one change.
const MAX_DETAILS: usize = 8;
/// Columns of a row of details, and what stands between two.
const ROW: usize = 76;
const GAP: &str = "; ";
/// Column where the sentences begin.
const INDENT: &str = "                      ";

/// Somewhere to tell a story.
pub(super) struct Screen<W> {
    out: W,
    colours: bool,
}

/// The colours, as SGR parameters (ECMA-48).
pub(super) const STRONG: &str = "1";
pub(super) const FAINT: &str = "2";
pub(super) const BAD: &str = "31";
pub(super) const GOOD: &str = "32";
pub(super) const CONSUMER: &str = "33";
const BY_OPERATOR: &str = "35";
pub(super) const BY_ENGINE: &str = "36";

impl Screen<io::Stdout> {
    /// Standard output.
    pub fn of_this_process() -> Self {
        Self { out: io::stdout(), colours: terminal::colours() }
    }
}

impl<W: Write> Screen<W> {
    /// A text of one or more lines as it is.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// A sentence of the story.
    pub fn tell(&mut self, at: Duration, line: &Line) -> io::Result<()> {
        let style = match &*line.who {
            ENGINE => BY_ENGINE,
            OPERATOR => BY_OPERATOR,
            _ => CONSUMER,
        };
        self.sentence(at, &line.who, style, &line.text)?;
        let more = line.details.len().saturating_sub(MAX_DETAILS);
        let more = (more > 0).then(|| format!("… and {more} more"));
        for row in rows(line.details.iter().take(MAX_DETAILS).chain(&more)) {
            self.detail(&row)?;
        }
        Ok(())
    }

    /// A sentence by somebody.
    pub fn sentence(&mut self, at: Duration, who: &str, style: &str, text: &str) -> io::Result<()> {
        let time = self.paint(FAINT, &format!("{:6.1}s", at.as_secs_f64()));
        let who = self.paint(style, &format!("{who:<12}"));
        self.say(&format!("{time}  {who} {text}"))
    }

    /// Something below a sentence.
    pub fn detail(&mut self, text: &str) -> io::Result<()> {
        let text = text.lines().map(|line| format!("{INDENT}{line}")).collect::<Vec<_>>().join("\n");
        let text = self.paint(FAINT, &text);
        self.say(&text)
    }

    /// A text in a style, where there are colours.
    pub fn paint(&self, style: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Puts short texts beside one another.
fn rows<'t>(texts: impl Iterator<Item = &'t String>) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for text in texts {
        match rows.last_mut() {
            Some(row) if row.chars().count() + text.chars().count() < ROW => {
                row.push_str(GAP);
                row.push_str(text);
            }
            _ => rows.push(text.clone()),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(colours: bool) -> String {
        let mut screen = Screen { out: Vec::new(), colours };
        let details = (0..10).map(|index| format!("spec.f{index}: 1 → 2")).collect();
        let line = Line { who: ENGINE.to_owned(), text: "updates Thing a/b".to_owned(), details };
        screen.tell(Duration::from_millis(1230), &line).expect("writes to memory");
        String::from_utf8(screen.out).expect("text").replace('\x1b', "ESC")
    }

    #[test]
    fn plain_lines_where_there_are_no_colours() {
        insta::assert_snapshot!(shown(false), @"
        1.2s  engine       updates Thing a/b
                           spec.f0: 1 → 2; spec.f1: 1 → 2; spec.f2: 1 → 2; spec.f3: 1 → 2
                           spec.f4: 1 → 2; spec.f5: 1 → 2; spec.f6: 1 → 2; spec.f7: 1 → 2; … and 2 more
        ");
    }

    #[test]
    fn a_terminal_has_colours() {
        let text = shown(true);
        assert!(text.starts_with("ESC[2m   1.2sESC[0m  ESC[36mengine"), "{text}");
    }
}
