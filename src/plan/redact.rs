//! `redact: Consumer`: texts that go to the consumer speak of the consumer's own names, and not of the target's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::observed::Observed;
use super::render::Rendering;
use super::targets::{self, TargetContext};
use crate::mapping::{Mapping, Side};
use crate::object::metadata;

/// What stands for the name of a target and the address of its server.
const TARGET: &str = "target";

/// Names of the target, and what the consumer reads instead; by the word that each begins with. A fleet has a thousand names, of which a
/// text has a few.
#[derive(Debug, Default)]
pub struct Redaction(BTreeMap<String, Vec<Rename>>);

#[derive(Debug)]
struct Rename {
    from: String,
    to: String,
    /// Whether `from` may be the beginning of a longer name: an object's pods are named after it.
    begins: bool,
}

impl Redaction {
    pub fn new(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, rendering: Option<&Rendering>) -> Self {
        if !mapping.status.redact && !mapping.status.fields.iter().any(|field| field.redact) {
            return Self::default();
        }
        let own = metadata(source, "name");
        // Objects beside their source have the names that the consumer knows.
        let placed = rendering.filter(|_| !mapping.is_beside()).map(|rendering| rendering.place.name.clone());
        let mut renames: Vec<_> =
            target_names(mapping, observed, source).into_iter().map(|name| whole(name, TARGET)).collect();
        renames.extend(observed.target.places.iter().map(|name| whole(name, metadata(source, "namespace"))));
        renames.extend(placed.iter().map(|name| Rename { begins: true, ..whole(name, own) }));
        let derived = |name: &&str| name.contains(own) || placed.as_ref().is_some_and(|placed| name.contains(placed));
        renames.extend(
            names(mapping, observed, rendering).into_iter().filter(|name| !derived(name)).map(|name| whole(name, own)),
        );
        renames.retain(|rename| !rename.from.is_empty() && rename.from != rename.to);
        Self::of(renames)
    }

    fn of(renames: Vec<Rename>) -> Self {
        let mut by_word: BTreeMap<String, Vec<Rename>> = BTreeMap::new();
        for rename in renames {
            let word = rename.from.split(|c: char| !is_name(c)).next().unwrap_or_default().to_owned();
            by_word.entry(word).or_default().push(rename);
        }
        Self(by_word)
    }

    /// Every text of a value; keys of maps stay.
    pub fn value(&self, value: Value) -> Value {
        with_texts(value, &|text| self.text(text))
    }

    /// No name is looked for in what stands for another one: a consumer chooses both, and a text could double with each name.
    pub fn text(&self, text: String) -> String {
        let named = words(&text).flat_map(|(start, word)| self.named(word).map(move |rename| (start, rename)));
        // An address may begin with no word.
        let wordless = self.0.get("").into_iter().flatten();
        let wordless = wordless.flat_map(|rename| text.match_indices(&*rename.from).map(move |(at, _)| (at, rename)));
        let mut meant: Vec<(usize, &Rename)> =
            named.chain(wordless).filter(|(start, rename)| rename.is_meant(&text, *start)).collect();
        // Longer names come first: a namespace may begin with the name of an object.
        meant.sort_by_key(|(start, rename)| (Reverse(rename.from.len()), *start));
        // By where each begins: its end, and what stands for it.
        let mut found: BTreeMap<usize, (usize, &str)> = BTreeMap::new();
        for (start, rename) in meant {
            let end = start + rename.from.len();
            let is_free = found.range(..end).next_back().is_none_or(|(_, (taken, _))| *taken <= start);
            if is_free {
                found.insert(start, (end, &*rename.to));
            }
        }
        if found.is_empty() {
            return text;
        }
        let (mut told, mut rest) = (String::new(), 0);
        for (start, (end, to)) in found {
            told.push_str(&text[rest..start]);
            told.push_str(to);
            rest = end;
        }
        told + &text[rest..]
    }

    /// The names that a word may be of, or the beginning of: what is named after an object has more behind a `-`.
    fn named(&self, word: &str) -> impl Iterator<Item = &Rename> {
        let ends = word.match_indices('-').map(|(at, _)| at).chain([word.len()]);
        ends.filter(|end| *end > 0).filter_map(move |end| self.0.get(&word[..end])).flatten()
    }
}

/// The words of a text, each with where it begins.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let pieces = text.split_inclusive(|c: char| !is_name(c)).scan(0, |next, piece| {
        let start = *next;
        *next += piece.len();
        Some((start, piece.trim_end_matches(|c: char| !is_name(c))))
    });
    pieces.filter(|(_, word)| !word.is_empty())
}

/// Whether a character is of a name.
const fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

/// The names of the targets, and the addresses of their servers. A name by which the consumer's own object calls a target is
/// no news to them.
fn target_names<'o>(mapping: &'o Mapping, observed: &'o Observed, source: &Arc<Value>) -> Vec<&'o str> {
    let others = || observed.among.iter().flat_map(TargetContext::others);
    let urls = others().filter_map(|(_, other)| other.url.as_ref()).chain(&observed.target.url);
    let own = observed.target.pin.iter().map(|pin| pin.connection.as_str());
    let named = mapping.named_targets().into_iter().chain(own).chain(others().map(|(name, _)| name.as_str()));
    let keys = targets::keys(mapping, observed, source);
    named.filter(|name| !keys.contains(*name)).chain(urls.filter_map(|url| host(url))).collect()
}

/// The host of an address, unless it is this machine: that says nothing about the target.
fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    Some(host).filter(|host| !matches!(*host, "localhost" | "127.0.0.1" | "[::1]"))
}

/// The names of the source's objects; a shared object has a fixed name, which can be any word.
fn names<'o>(mapping: &'o Mapping, observed: &'o Observed, rendering: Option<&'o Rendering>) -> BTreeSet<&'o str> {
    let wanted = rendering.into_iter().flat_map(|rendering| rendering.desired(mapping));
    let wanted = wanted
        .filter(|(rule, ..)| !rule.shared && rule.kind.side == Side::Target)
        .map(|(.., desired)| desired.reference.name.as_str());
    let owned = observed.owned_anywhere().filter(|object| object.reference.kind.side == Side::Target);
    owned.map(|object| object.reference.name.as_str()).chain(wanted).collect()
}

fn whole(from: &str, to: &str) -> Rename {
    Rename { from: from.to_owned(), to: to.to_owned(), begins: false }
}

impl Rename {
    /// Whether the name is meant at a place of a text.
    fn is_meant(&self, text: &str, at: usize) -> bool {
        let goes_on = |c: char| if self.begins { c.is_ascii_alphanumeric() } else { is_name(c) };
        let rest = text[at..].strip_prefix(&*self.from);
        rest.is_some_and(|rest| !rest.starts_with(goes_on)) && !text[..at].ends_with(is_name)
    }
}

/// A value with each of its texts changed; keys of maps stay.
pub fn with_texts(value: Value, change: &impl Fn(String) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.into_iter().map(|item| with_texts(item, change)).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, with_texts(value, change))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{Redaction, Rename, whole, words};

    #[test]
    fn only_whole_names_are_replaced() {
        let redaction = Redaction::of(vec![whole("db", "ns")]);
        let said = redaction.text("db in db, my-db/db-2 has no db: adb.db".to_owned());
        assert_eq!(said, "ns in ns, my-db/db-2 has no ns: adb.ns");
    }

    #[test]
    fn what_is_named_after_an_object_is_renamed_with_it() {
        let redaction = Redaction::of(vec![Rename { begins: true, ..whole("db-x7", "db") }]);
        let said = redaction.text("db-x7-0 of db-x7 is not my-db-x7 or db-x77".to_owned());
        assert_eq!(said, "db-0 of db is not my-db-x7 or db-x77");
    }

    #[test]
    fn what_stands_for_a_name_is_not_replaced_for_another_one() {
        let redaction = Redaction::of(vec![whole("a.b", "b"), whole("x", "x.y"), whole("y", "x.y"), whole("b", "c")]);
        assert_eq!(redaction.text("x, y and z: a.b of b".to_owned()), "x.y, x.y and z: b of c");
        let names = ["v", "w", "x", "y", "z"].map(|name| whole(name, &["v.w.x.y.z"; 25].join(".")));
        // Each of them has 25 of each.
        assert_eq!(Redaction::of(names.into()).text("v".to_owned()).len(), 249);
    }

    /// A fleet has a thousand targets, and each text of a status is told.
    #[test]
    fn a_word_is_compared_with_the_names_that_begin_with_it_alone() {
        let names =
            (0..1000).flat_map(|n| [format!("fleet/c{n}"), format!("c{n}.example.dev"), format!("[fd00::{n}]")]);
        let redaction = Redaction::of(names.map(|name| whole(&name, "target")).collect());
        let said = "c7.example.dev, [fd00::7] and fleet/c7 refuse: dial tcp c7.example.dev:443, é-c7";
        let told = redaction.text(said.to_owned());
        assert_eq!(told, "target, target and target refuse: dial tcp target:443, é-c7");
        let compared = |text| words(text).flat_map(|(_, word)| redaction.named(word)).count();
        assert_eq!([compared("c7 of c7.example"), compared("nothing of a fleets")], [2, 0]);
    }
}
