//! Two texts, line by line.

/// Lines of context around a difference.
const CONTEXT: usize = 3;

/// Above this many pairs of lines, both texts are shown whole instead of compared.
const MAX_PAIRS: usize = 4_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'t> {
    Both(&'t str),
    Old(&'t str),
    New(&'t str),
}

/// What is different: lines of `old` after `-`, of `new` after `+`, with some that are the same around them. Empty where
/// nothing is.
pub(super) fn difference(old: &str, new: &str) -> String {
    let lines = compare(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let near = |index: usize| {
        let range = index.saturating_sub(CONTEXT)..lines.len().min(index + CONTEXT + 1);
        lines[range].iter().any(|line| !matches!(line, Line::Both(_)))
    };
    let mut text = String::new();
    let mut skipped = false;
    for (index, line) in lines.iter().enumerate() {
        if !near(index) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            text.push_str("  …\n");
        }
        text.push_str(&match line {
            Line::Both(line) => format!("  {line}\n"),
            Line::Old(line) => format!("- {line}\n"),
            Line::New(line) => format!("+ {line}\n"),
        });
    }
    text
}

/// By the longest common subsequence of lines.
fn compare<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<Line<'t>> {
    if old.len().saturating_mul(new.len()) > MAX_PAIRS {
        let all = old.iter().map(|line| Line::Old(line));
        return all.chain(new.iter().map(|line| Line::New(line))).collect();
    }
    let common = common(old, new);
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Both(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
    lines
}

/// Length of the longest common subsequence of the rests behind each pair of positions.
fn common(old: &[&str], new: &[&str]) -> Vec<Vec<u32>> {
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn shows_what_differs_and_what_is_around_it() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
        insta::assert_snapshot!(difference(old, &old.replace("b\n", "B\nb2\n").replace("j\n", "")), @r"
          a
        - b
        + B
        + b2
          c
          d
          e
          …
          g
          h
          i
        - j
        ");
        assert_eq!(difference(old, old), "");
        assert_eq!(difference("", "x\n"), "+ x\n");
    }
}
