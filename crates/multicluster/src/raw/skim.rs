//! The entries of a JSON map, each value passed over without being read.
//!
//! Most of an object's text is of no interest when it arrives: managedFields, and what only a reconcile will read. What
//! is passed over is looked at for where it ends and no further: quotes and brackets have to match, whatever stands
//! between. Who reads it in the end reads it with serde, which is strict.

use std::ops::Range;

/// The key of an entry, by its places in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key<'a> {
    /// As it is written, without its quotes.
    pub name: &'a str,
    /// From the end of the entry before it (or the map's opening brace) to the opening quote.
    pub gap: Range<usize>,
    /// Where the value begins.
    pub value: usize,
}

/// A text that is no JSON map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMap;

/// The entries of the map that a text holds from a place on, in their order.
#[derive(Debug, Clone, Default)]
pub struct Entries<'a> {
    text: &'a str,
    /// Where the entry before ended.
    end: usize,
    first: bool,
}

impl<'a> Entries<'a> {
    /// `at` is the place of the map's opening brace.
    pub fn new(text: &'a str, at: usize) -> Result<Self, NoMap> {
        match text.as_bytes().get(at) {
            Some(b'{') => Ok(Self { text, end: at + 1, first: true }),
            _ => Err(NoMap),
        }
    }

    /// The key of the next entry; `None` behind the last, when [`end`](Self::end) is behind the map. Before it is called
    /// again, the value has to be [passed over](Self::skip), or [read](Self::resume) by whoever wants to.
    pub fn key(&mut self) -> Result<Option<Key<'a>>, NoMap> {
        let bytes = self.text.as_bytes();
        let before = self.end;
        let mut at = blank(bytes, before);
        match (bytes.get(at), self.first) {
            (Some(b'}'), _) => {
                self.end = at + 1;
                return Ok(None);
            }
            (Some(b','), false) => at = blank(bytes, at + 1),
            (_, true) => {}
            _ => return Err(NoMap),
        }
        self.first = false;
        let key_end = string(bytes, at)?;
        let colon = blank(bytes, key_end);
        if bytes.get(colon) != Some(&b':') {
            return Err(NoMap);
        }
        self.end = blank(bytes, colon + 1);
        Ok(Some(Key { name: &self.text[at + 1..key_end - 1], gap: before..at, value: self.end }))
    }

    /// Passes over the value of the key that was told last.
    pub fn skip(&mut self) -> Result<Range<usize>, NoMap> {
        let start = self.end;
        self.end = behind(self.text.as_bytes(), start)?;
        Ok(start..self.end)
    }

    /// The value of the key that was told last has been read up to this place, which is behind it.
    pub fn resume(&mut self, end: usize) {
        self.end = end;
    }

    /// Where what was told and passed over so far ends.
    pub fn end(&self) -> usize {
        self.end
    }
}

/// The first place from `at` on that is no white space.
pub fn blank(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// The place behind the value that begins at `at`.
fn behind(bytes: &[u8], at: usize) -> Result<usize, NoMap> {
    match bytes.get(at) {
        Some(b'"') => string(bytes, at),
        Some(b'{' | b'[') => nested(bytes, at),
        _ => {
            let rest = bytes.get(at..).unwrap_or_default();
            let length =
                rest.iter().position(|byte| !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'+' | b'-' | b'E'));
            match length.unwrap_or(rest.len()) {
                0 => Err(NoMap),
                length => Ok(at + length),
            }
        }
    }
}

/// The place behind the string that begins at `at`.
fn string(bytes: &[u8], at: usize) -> Result<usize, NoMap> {
    if bytes.get(at) != Some(&b'"') {
        return Err(NoMap);
    }
    let mut at = at + 1;
    loop {
        at = quote_or_escape(bytes, at)?;
        if bytes[at] == b'"' {
            return Ok(at + 1);
        }
        at += 2;
    }
}

/// The first quote or backslash from `at` on, looked for in eight bytes at once: most strings are too short for a search
/// that is made for long texts.
fn quote_or_escape(bytes: &[u8], mut at: usize) -> Result<usize, NoMap> {
    const EACH: u64 = u64::MAX / 0xff;
    // A zero byte becomes 0x80. What comes above the first one may be wrong, which nobody looks at.
    let zeros = |word: u64| word.wrapping_sub(EACH) & !word & (EACH << 7);
    while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*eight);
        let found = zeros(word ^ (EACH * u64::from(b'"'))) | zeros(word ^ (EACH * u64::from(b'\\')));
        if found != 0 {
            return Ok(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).map(|found| at + found).ok_or(NoMap)
}

/// The place behind the map or list that begins at `at`.
fn nested(bytes: &[u8], mut at: usize) -> Result<usize, NoMap> {
    let (mut braces, mut brackets) = (0_u32, 0_u32);
    loop {
        match bytes.get(at).ok_or(NoMap)? {
            b'"' => {
                at = string(bytes, at)?;
                continue;
            }
            b'{' => braces += 1,
            b'[' => brackets += 1,
            b'}' => braces = braces.checked_sub(1).ok_or(NoMap)?,
            b']' => brackets = brackets.checked_sub(1).ok_or(NoMap)?,
            _ => {}
        }
        at += 1;
        if braces == 0 && brackets == 0 {
            return Ok(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn all(text: &str) -> Result<Vec<(String, String)>, NoMap> {
        let mut entries = Entries::new(text, 0)?;
        let mut all = Vec::new();
        while let Some(key) = entries.key()? {
            all.push((key.name.to_owned(), text[entries.skip()?].to_owned()));
        }
        assert_eq!(entries.end(), text.len());
        Ok(all)
    }

    #[test]
    fn entries_are_told_by_their_places() {
        let text = r#"{ "a" : [1, {"b": "]}\"\\"}] , "c":-1.5e3,"d":"\\"}"#;
        let told = all(text).unwrap();
        let told: Vec<_> = told.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(told, [("a", r#"[1, {"b": "]}\"\\"}]"#), ("c", "-1.5e3"), ("d", r#""\\""#)]);
        let mut entries = Entries::new(text, 0).unwrap();
        assert_eq!(entries.key().unwrap().unwrap().gap, 1..2);
        entries.skip().unwrap();
        assert_eq!(&text[entries.key().unwrap().unwrap().gap], " , ");
        assert_eq!(all("{}"), Ok(vec![]));
    }

    #[test]
    fn what_does_not_end_is_no_map() {
        for text in [
            "",
            "[]",
            "{",
            r#"{"a"#,
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a":1"#,
            r#"{"a":1,"#,
            r#"{"a":[}"#,
            r#"{"a":]}"#,
            r#"{"a":"\"#,
            r#"{"a":,"b":1}"#,
            r#"{"a" 1}"#,
            r#"{"a":1 "b":2}"#,
            r#"{,"a":1}"#,
            r#"{a:1}"#,
            r#"{"a":1]"#,
            r#"{"a":{"b":[1]}"#,
        ] {
            assert!(all(text).is_err(), "{text}");
        }
    }

    /// Any JSON, with everything in its strings that means something elsewhere.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            "[a-z\"\\\\{}\\[\\],:é\\n ]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"\\\\{}]{0,5}", inner, 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_map_is_told_as_serde_reads_it(
            entries in prop::collection::btree_map("[a-z\"\\\\]{0,5}", value(), 0..6),
            pretty in any::<bool>(),
        ) {
            let map: Map<String, Value> = entries.into_iter().collect();
            let text = if pretty { serde_json::to_string_pretty(&map) } else { serde_json::to_string(&map) }.unwrap();
            let told: Map<String, Value> = all(&text).unwrap().into_iter()
                .map(|(key, value)| {
                    let key: String = serde_json::from_str(&format!("\"{key}\"")).unwrap();
                    (key, serde_json::from_str(&value).unwrap())
                })
                .collect();
            prop_assert_eq!(told, map);
        }

        #[test]
        fn any_text_comes_to_an_end(text in "[{}\\[\\]\":,a1\\\\é ]{0,24}") {
            if let Ok(mut entries) = Entries::new(&text, 0) {
                while let Ok(Some(_)) = entries.key() {
                    let Ok(value) = entries.skip() else { break };
                    prop_assert!(text.get(value).is_some());
                }
            }
        }
    }
}
