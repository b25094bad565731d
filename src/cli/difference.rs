//! Two texts, compared line by line.

use std::time::Duration;

use similar::TextDiff;

/// Lines of context around a difference.
const CONTEXT: usize = 3;

/// After this time the comparison is coarser, and still right.
const PATIENCE: Duration = Duration::from_secs(1);

/// The lines that differ, `-` before those of `old` and `+` before those of `new`, with some context around them. Empty if the
/// texts are equal.
pub(super) fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let compared = TextDiff::configure().timeout(PATIENCE).diff_slices(&old, &new);
    let mut text = String::new();
    for group in compared.grouped_ops(CONTEXT) {
        if group.first().is_some_and(|first| first.old_range().start > 0) {
            text.push_str("  …\n");
        }
        for change in group.iter().flat_map(|operation| compared.iter_changes(operation)) {
            text.push_str(&format!("{} {}\n", change.tag(), change.value()));
        }
    }
    text
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
