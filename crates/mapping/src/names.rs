//! Kubernetes' rules for names and labels, and RFC 6901's for pointers.

use std::borrow::Cow;

/// Whether a text is a DNS-1123 label: what namespaces must be.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// Whether a text is a DNS-1123 subdomain: what most names must be.
pub fn is_dns_subdomain(text: &str) -> bool {
    (1..=253).contains(&text.len()) && text.split('.').all(is_dns_part)
}

fn is_dns_part(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Kubernetes' rule for label keys: an optional DNS prefix, a slash, a name.
pub(super) fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && !name.is_empty() && is_label_value(name),
        None => !key.is_empty() && is_label_value(key),
    }
}

/// Kubernetes' rule for label values.
pub fn is_label_value(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && ends(text.chars().next())
        && ends(text.chars().next_back())
}

/// JSON pointer (RFC 6901) of a path.
pub fn pointer(path: &[String]) -> String {
    path.iter().map(|segment| format!("/{}", escape_pointer(segment))).collect()
}

/// One segment of a JSON pointer.
pub fn escape_pointer(segment: &str) -> Cow<'_, str> {
    if segment.contains(['~', '/']) { segment.replace('~', "~0").replace('/', "~1").into() } else { segment.into() }
}

/// `1 file`, `2 files`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The verb of so many.
pub fn are(number: usize) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// Whether a character would end a line, move the cursor, colour what follows or turn it around.
pub fn is_hidden(c: char) -> bool {
    let is_line_or_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_line_or_direction
}

/// A text of tenants or servers for a line of a log or a terminal: what is [hidden](is_hidden) is shown by its code point.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_hidden(c) { c.escape_default().collect() } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// A text of which no more characters than these are shown.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What a segment of a JSON pointer means.
pub fn unescape_pointer(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// Whether a label or annotation is one of kcp's.
pub fn is_kcps(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    prefix == "kcp.io" || prefix.ends_with(".kcp.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_is_one_line() {
        assert_eq!(one_line("Größe 3"), "Größe 3");
        assert_eq!(one_line("a\nforged\u{1b}[31m\u{202e}\u{9b}"), "a\\nforged\\u{1b}[31m\\u{202e}\\u{9b}");
    }
}
