//! Does what stands on a server hold what we want there?

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;

use json_patch::jsonptr::Pointer;
use serde_json::{Map, Number, Value};

use super::hash::tuple_hash;
use super::json_text;
use super::lists::Lists;
pub use crate::mapping::names::{escape_pointer, pointer, unescape_pointer};

/// Where an object does not hold what is desired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// JSON pointer into what is desired.
    pub pointer: String,
    /// Hash of both values: the same only while both stay as they are.
    pub hash: String,
}

/// One line of the annotation that remembers it.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.hash, self.pointer.replace('\n', " "))
    }
}

/// What `desired` says and `actual` does not hold. Fields that only `actual` has are others', and no difference. Numbers are
/// compared by value (a server stores `1.0` as `1`), and null is what is not there. In a list that the server merges by key,
/// others may have items of their own, in any order.
pub fn differences(desired: &Value, actual: &Value) -> Vec<Difference> {
    #[cfg(test)]
    COMPARED.set(COMPARED.get() + 1);
    let lists = Lists::of(actual);
    let mut comparison = Comparison::new(&lists, WORK);
    comparison.compare(None, desired, Some(actual));
    comparison.found
}

#[cfg(test)]
thread_local! {
    /// How often objects were compared.
    pub static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Work that one comparison may do outside of the metadata: some 0.2 s. A unit is about a byte that is hashed. The largest object that
/// etcd takes needs less; but whoever can write on a target says which of its lists are merged, and by which keys.
const WORK: usize = 64 << 20;
/// Work for each value that is looked at, and for each place that differs.
const VALUE: usize = 64;
const DIFFERENCE: usize = 512;

/// A way into what is desired. It is written out where something differs: most of the time, nothing does.
#[derive(Clone, Copy)]
struct Path<'p> {
    above: Option<&'p Path<'p>>,
    at: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Field(&'p str),
    Item(usize),
}

impl Path<'_> {
    /// As a JSON pointer; `any`: with `*` for the items of lists.
    fn written(path: Option<&Self>, any: bool) -> String {
        let steps: Vec<Step<'_>> = std::iter::successors(path, |path| path.above).map(|path| path.at).collect();
        let written = steps.into_iter().rev().map(|step| match step {
            Step::Field(name) => format!("/{}", escape_pointer(name)),
            Step::Item(_) if any => "/*".to_owned(),
            Step::Item(index) => format!("/{index}"),
        });
        written.collect()
    }
}

struct Comparison<'l> {
    /// Lists that the server merges by key.
    lists: &'l Lists,
    found: Vec<Difference>,
    /// Work that may still be done. Once it is none, a field of the object is the same or differs as a whole.
    left: usize,
    /// Whether it is done in a field that may be given up: not in the metadata, where each write changes something.
    is_bound: bool,
}

impl<'l> Comparison<'l> {
    fn new(lists: &'l Lists, work: usize) -> Self {
        Self { lists, found: Vec::new(), left: work, is_bound: false }
    }

    fn compare(&mut self, path: Option<&Path<'_>>, desired: &Value, actual: Option<&Value>) {
        self.charge(VALUE);
        if self.is_bound && self.left == 0 {
            return;
        }
        let below = |at| Path { above: path, at };
        match (desired, actual) {
            (Value::Object(fields), Some(Value::Object(others))) => {
                for (name, value) in fields {
                    let (field, other) = (below(Step::Field(name)), others.get(name));
                    match path {
                        None if name != "metadata" => self.compare_field(&field, value, other),
                        _ => self.compare(Some(&field), value, other),
                    }
                }
            }
            (Value::Array(items), Some(Value::Array(others))) => match self.keys(path) {
                Some(keys) => {
                    let mut others = MergedList { keys, items: others, positions: BTreeMap::new() };
                    items.iter().enumerate().for_each(|(index, item)| {
                        self.compare_item(&below(Step::Item(index)), item, &mut others);
                    });
                }
                None if items.len() == others.len() => {
                    for (index, (item, other)) in items.iter().zip(others).enumerate() {
                        self.compare(Some(&below(Step::Item(index))), item, Some(other));
                    }
                }
                None => self.differs(path, desired, actual),
            },
            // Null is what is not there.
            _ if actual.map_or(desired.is_null(), |actual| same(desired, actual)) => {}
            _ => self.differs(path, desired, actual),
        }
    }

    /// A field of the object itself. Where its comparison would take too long, it differs as a whole.
    fn compare_field(&mut self, path: &Path<'_>, desired: &Value, actual: Option<&Value>) {
        let former = self.found.len();
        self.is_bound = true;
        self.compare(Some(path), desired, actual);
        self.is_bound = false;
        if self.left == 0 {
            self.found.truncate(former);
            if !actual.map_or(desired.is_null(), |actual| same(desired, actual)) {
                self.differs(Some(path), desired, actual);
            }
        }
    }

    fn charge(&mut self, work: usize) {
        if self.is_bound {
            charge(&mut self.left, work);
        }
    }

    /// The keys of a list that the server merges.
    fn keys(&mut self, path: Option<&Path<'_>>) -> Option<&'l [String]> {
        if self.lists.is_empty() {
            return None;
        }
        let written = Path::written(path, true);
        self.charge(written.len());
        self.lists.at(&written)
    }

    fn differs(&mut self, path: Option<&Path<'_>>, desired: &Value, actual: Option<&Value>) {
        let text = |value: &Value| String::from_utf8(json_text(value)).unwrap_or_default();
        let (desired, actual) = (text(desired), actual.map(text).unwrap_or_default());
        let pointer = Path::written(path, false);
        self.charge(DIFFERENCE + pointer.len() + desired.len() + actual.len());
        self.found.push(Difference { pointer, hash: tuple_hash([&*desired, &*actual], 10) });
    }

    /// An item of a list that is merged by key, or of a set. A key that has a default may be omitted: of several items that it may
    /// be, the most similar one counts.
    fn compare_item(&mut self, path: &Path<'_>, item: &Value, all: &mut MergedList<'_>) {
        let mut candidates: Vec<_> = all.alike(item, &mut self.left).into_iter().map(Some).collect();
        if candidates.is_empty() {
            candidates.push(None);
        }
        let former = self.found.len();
        let compared = candidates.into_iter().map(|candidate| {
            self.compare(Some(path), item, candidate);
            self.found.split_off(former)
        });
        let least = compared.min_by_key(Vec::len).unwrap_or_default();
        self.found.extend(least);
    }
}

fn charge(left: &mut usize, work: usize) {
    *left = left.saturating_sub(work);
}

/// Items that one may be which omits keys. Of a port without a protocol there are three.
const MOST_ALIKE: usize = 16;

/// A list that the server merges by these keys, or, without keys, a set. A consumer's list may have ten thousands of items: none
/// of them is found by a walk through all.
struct MergedList<'l> {
    keys: &'l [String],
    items: &'l [Value],
    /// By some of the keys: those that an item has which was looked for.
    positions: BTreeMap<Vec<&'l str>, Positions>,
}

/// Positions of items, by what these have in some of their keys.
type Positions = BTreeMap<Vec<String>, Vec<usize>>;

impl<'l> MergedList<'l> {
    /// The items that this one may be; none, once no work is `left`.
    fn alike(&mut self, item: &Value, left: &mut usize) -> Vec<&'l Value> {
        if *left == 0 {
            return Vec::new();
        }
        let (keys, items, is_set) = (self.keys, self.items, self.keys.is_empty());
        let given: Vec<&'l str> = keys.iter().map(String::as_str).filter(|key| item.get(*key).is_some()).collect();
        let all = self.positions.entry(given.clone()).or_insert_with_key(|given| positions(items, given, is_set, left));
        let found = words(item, &given, is_set).and_then(|words| all.get(&words)).into_iter().flatten();
        let has_key =
            |other: &Value, key: &str| item.get(key).zip(other.get(key)).is_some_and(|(own, its)| same(own, its));
        let is_it =
            |other: &&Value| if is_set { same(item, other) } else { given.iter().all(|key| has_key(other, key)) };
        // Items that differ may have the same words.
        let found = found.inspect(|_| charge(left, VALUE)).filter_map(|position| items.get(*position));
        found.filter(is_it).take(MOST_ALIKE).collect()
    }
}

fn positions(items: &[Value], keys: &[&str], is_set: bool, left: &mut usize) -> Positions {
    let mut positions = Positions::new();
    for (position, item) in items.iter().enumerate() {
        charge(left, VALUE);
        if let Some(words) = words(item, keys, is_set) {
            charge(left, words.iter().map(String::len).sum());
            positions.entry(words).or_default().push(position);
        }
    }
    positions
}

/// What an item has in these keys, or, of a set, is; `None`: it lacks one. Items that are the same have the same words.
fn words(item: &Value, keys: &[&str], is_set: bool) -> Option<Vec<String>> {
    if is_set {
        return Some(vec![word(item)]);
    }
    let values: Option<Vec<&Value>> = keys.iter().map(|key| item.get(*key)).collect();
    Some(values?.into_iter().map(word).collect())
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // By its value; a zero has no sign.
        Value::Number(number) => number.as_f64().map_or_else(String::new, |number| (number + 0.0).to_string()),
        Value::Array(items) => items.iter().map(word).collect::<Vec<_>>().join(","),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}:{}", word(value)));
            fields.collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

fn same_number(a: &Number, b: &Number) -> bool {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a == b,
        _ => a.as_f64() == b.as_f64(),
    }
}

/// Equality of whole values by the rule of [`differences`] for numbers.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        _ => a == b,
    }
}

/// Takes what a JSON pointer names out of a tree; nothing where it names nothing.
pub fn remove_pointer(tree: &mut Value, pointer: &str) {
    if let Ok(pointer) = Pointer::parse(pointer)
        && !pointer.is_root()
    {
        pointer.delete(tree);
    }
}

/// Puts a value where a JSON pointer leads; nothing where no map is above that.
pub fn put_pointer(tree: &mut Value, pointer: &str, value: Value) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(map)) = tree.pointer_mut(parent) {
        map.insert(unescape_pointer(last), value);
    }
}

/// The same, with the maps above it made where they are missing.
pub fn make_pointer(tree: &mut Value, pointer: &str, value: Value) {
    let Some((parent, _)) = pointer.rsplit_once('/') else { return };
    if tree.pointer(parent).is_none() {
        make_pointer(tree, parent, Value::Object(Map::new()));
    }
    put_pointer(tree, pointer, value);
}

/// Bytes of the JSON pointers of everything in a tree. A consumer may have ten thousands of fields below a name of a megabyte.
const MOST_POINTERS: usize = 32 << 20;

/// Whether the JSON pointers of everything in a tree can be written out.
pub fn has_short_pointers(tree: &Value) -> bool {
    let mut left = MOST_POINTERS;
    fit(tree, 0, &mut left)
}

fn fit(value: &Value, pointer: usize, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(pointer) else { return false };
    *left = rest;
    match value {
        Value::Object(fields) => fields.iter().all(|(key, value)| fit(value, pointer + 1 + key.len(), left)),
        Value::Array(items) => items.iter().all(|item| fit(item, pointer + 2, left)),
        _ => true,
    }
}

/// JSON pointers of everything that an object says beside its kind. A list is one value, as a merge patch has it. Pointers with
/// a line break are left out.
pub fn leaves(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    leaf(object, "", &mut found);
    found.retain(|pointer| !matches!(pointer.as_str(), "" | "/apiVersion" | "/kind") && !pointer.contains('\n'));
    found
}

/// JSON pointers as an annotation holds them: as text or, of too many, as hashes.
#[derive(Debug, PartialEq, Eq)]
pub enum Pointers<'t> {
    Written(BTreeSet<&'t str>),
    Hashed(BTreeSet<&'t str>),
}

/// Annotations have 256 KiB together.
const MOST_TEXT: usize = 64 << 10;
/// Characters of a hash: 40 bits. Of more pointers than fit, they are shorter.
const HASH: RangeInclusive<usize> = 4..=8;
const MOST_HASHES: usize = 192 << 10;
/// Begins a text of hashes, before how long each is. No pointer begins with it.
const HASHED: char = '#';

/// What an annotation holds of JSON pointers.
pub fn pointers_text(pointers: &[String]) -> String {
    let text = pointers.join("\n");
    if text.len() <= MOST_TEXT {
        return text;
    }
    let length = (MOST_HASHES / pointers.len()).clamp(*HASH.start(), *HASH.end());
    let hashes: String = pointers.iter().map(|pointer| pointer_hash(pointer, length)).collect();
    format!("{HASHED}{length}{hashes}")
}

impl<'t> Pointers<'t> {
    pub fn read(text: &'t str) -> Self {
        let hashed = text.strip_prefix(HASHED).and_then(|text| text.split_at_checked(1));
        let Some((length, hashes)) = hashed.and_then(|(length, hashes)| Some((length.parse::<usize>().ok()?, hashes)))
        else {
            return Self::Written(text.lines().collect());
        };
        let starts = (0..hashes.len()).step_by(length.max(1));
        Self::Hashed(starts.filter_map(|start| hashes.get(start..start + length)).collect())
    }

    /// Those of them that `pointers`, the leaves of an object, may be about.
    pub fn among(&self, leaves: impl Iterator<Item = String>) -> Vec<String> {
        match self {
            Self::Written(all) => all.iter().map(|pointer| (*pointer).to_owned()).collect(),
            Self::Hashed(all) => {
                let length = all.first().map_or(0, |hash| hash.len());
                leaves.filter(|leaf| all.contains(&*pointer_hash(leaf, length))).collect()
            }
        }
    }
}

fn pointer_hash(pointer: &str, length: usize) -> String {
    let mut hash = tuple_hash([pointer], 10);
    hash.truncate(length);
    hash
}

fn leaf(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(key, value)| leaf(value, &format!("{path}/{}", escape_pointer(key)), found));
        }
        _ => found.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn differing(desired: &Value, actual: &Value) -> Vec<String> {
        differences(desired, actual).into_iter().map(|one| one.pointer).collect()
    }

    #[test]
    fn names_each_place_that_differs() {
        let desired = json!({"a": {"b/c": 1}, "l": [1, 2], "m": [{"x": 1}], "n": null});
        let actual = json!({"a": {"b/c": 2}, "l": [1], "m": [{"x": 2, "y": 3}]});
        assert_eq!(differing(&desired, &actual), ["/a/b~1c", "/l", "/m/0/x"]);
        for (what, desired, actual, is_same) in [
            ("others' fields are no difference", json!({"a": 1}), json!({"a": 1, "b": 2}), true),
            ("numbers are compared by value", json!(1.0), json!(1), true),
            ("also large ones", json!(9007199254740993_i64), json!(9007199254740992_i64), false),
            ("an empty map is not nothing", json!({"a": {}}), json!({}), false),
        ] {
            assert_eq!(differing(&desired, &actual).is_empty(), is_same, "{what}");
        }
    }

    #[test]
    fn a_difference_is_the_same_while_both_values_are() {
        let of = |desired: &str, actual: &str| differences(&json!({"cpu": desired}), &json!({"cpu": actual}));
        assert_eq!(of("1000m", "1"), of("1000m", "1"));
        assert!(of("1000m", "1") != of("1000m", "32") && of("1000m", "1") != of("2000m", "1"));
        assert_ne!(differences(&json!({"a": ""}), &json!({})), differences(&json!({"a": ""}), &json!({"a": null})));
    }

    #[test]
    fn a_list_that_is_merged_by_key_is_compared_item_by_item() {
        let actual = |items: Value| {
            json!({"users": items, "tags": ["x", "blue"], "metadata": {"managedFields": {
                "/users": ["name"], "/users/*/ports": ["port", "protocol"], "/tags": [],
            }}})
        };
        let desired = json!({"users": [{"name": "ann", "ports": [{"port": 1, "ip": "a"}, {"port": 1, "protocol": "UDP"}]}, {"name": "bob"}], "tags": ["blue"]});
        let ann = json!({"name": "ann", "more": 1, "ports": [
            {"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP", "ip": "a"},
        ]});
        assert!(differing(&desired, &actual(json!([{"name": "op"}, {"name": "bob"}, ann]))).is_empty());
        assert_eq!(differing(&desired, &actual(json!([{"name": "op"}, ann]))), ["/users/1"]);
        let changed = json!([{"name": "op"}, {"name": "ann", "ports": [{"port": 1, "protocol": "TCP", "ip": "b"}]}, {"name": "bob"}]);
        assert_eq!(differing(&desired, &actual(changed)), ["/users/0/ports/0/ip", "/users/0/ports/1"]);
        let mut without = actual(json!([{"name": "bob"}, ann]));
        without["tags"] = json!(["x"]);
        assert_eq!(differing(&desired, &without), ["/tags/0"]);
    }

    /// Whoever can write managedFields on a target makes a set of any list, and its items are looked for by their words.
    #[test]
    fn items_of_a_set_are_told_apart_by_all_that_they_hold() {
        let words: BTreeSet<String> = (0..100).map(|number| word(&json!({"a": [{"b": number}], "c": null}))).collect();
        assert_eq!(words.len(), 100);
        assert_eq!(word(&json!({"a": [1.0, {"b": -0.0}]})), word(&json!({"a": [1, {"b": 0}]})));
    }

    #[test]
    fn items_are_the_same_by_the_value_of_their_keys_and_may_omit_some() {
        let actual = |items: Value, keys: Value| json!({"l": items, "metadata": {"managedFields": {"/l": keys}}});
        for (what, keys, items, desired, differs) in [
            (
                "a number is a number",
                json!(["p"]),
                json!([{"p": 2.0}, {"p": 1.0}]),
                json!([{"p": 1}, {"p": 2}]),
                vec![],
            ),
            ("a text is none", json!(["p"]), json!([{"p": "1"}]), json!([{"p": 1}]), vec!["/l/0"]),
            (
                "large numbers",
                json!(["p"]),
                json!([{"p": 9007199254740993_i64}]),
                json!([{"p": 9007199254740992_i64}]),
                vec!["/l/0"],
            ),
            ("items of a set", json!([]), json!(["b", 1.0, {"x": 2}]), json!([{"x": 2}, "b", 1]), vec![]),
            ("one that is left out", json!([]), json!(["b", {"x": 2}]), json!([{"x": 3}, "c"]), vec!["/l/0", "/l/1"]),
            ("no key", json!(["p"]), json!([{"p": 1, "v": 1}, {"p": 2, "v": 2}]), json!([{"v": 2}]), vec![]),
        ] {
            assert_eq!(differing(&json!({"l": desired}), &actual(items, keys)), differs, "{what}");
        }
    }

    /// A consumer's `env` may have ten thousands of items, and each plan compares them.
    #[test]
    fn an_item_is_looked_for_among_those_that_have_its_keys() {
        let items: Vec<Value> = (0..100).map(|n| json!({"name": format!("E{n}"), "value": "a"})).collect();
        let keys = ["name".to_owned()];
        let mut list = MergedList { keys: &keys, items: &items, positions: BTreeMap::new() };
        let mut left = WORK;
        assert_eq!(list.alike(&items[7], &mut left), [&items[7]]);
        assert!(list.positions[&vec!["name"]].values().all(|found| found.len() == 1));
        let nameless = json!({"value": "b"});
        assert_eq!(list.alike(&nameless, &mut left).len(), MOST_ALIKE);
    }

    /// Who writes on a target says that every list in an object is merged by a key that no item has: each item may be any other one.
    /// And a consumer may have many fields below a long name.
    #[test]
    fn a_comparison_does_no_more_work_than_it_may() {
        const MOST: usize = 1 << 18;
        let nested = |depth: usize, leaf: u8| (0..depth).fold(json!(leaf), |below, _| json!({"l": vec![below; 4]}));
        let leaves = |leaf: u8| Value::from_iter((0..100).map(|number| (number.to_string(), leaf)));
        let below = |name: usize, leaf: u8| Value::from_iter([("k".repeat(name), leaves(leaf))]);
        let lists = (0..6).map(|above| (format!("/a{}/l", "/l/*".repeat(above)), json!(["k"])));
        let lists = Lists::of(&json!({"metadata": {"managedFields": lists.collect::<Map<_, _>>()}}));
        for (what, desired, actual, is_compared) in [
            ("a list", nested(1, 1), nested(1, 2), true),
            ("lists in a list", nested(2, 1), nested(2, 2), true),
            ("four levels of lists", nested(4, 1), nested(4, 2), false),
            ("six levels of lists", nested(6, 1), nested(6, 2), false),
            ("a short name", below(10, 1), below(10, 2), true),
            ("a long name", below(10_000, 1), below(10_000, 2), false),
        ] {
            let whole = |a: Value, b: u8| json!({"a": a, "b": b, "c": 1, "metadata": {"labels": {"b": b}}});
            let mut comparison = Comparison::new(&lists, MOST);
            comparison.compare(None, &whole(desired, 1), Some(&whole(actual, 2)));
            let differing: Vec<&str> = comparison.found.iter().map(|one| &*one.pointer).collect();
            assert_eq!((comparison.left > 0, !differing.contains(&"/a")), (is_compared, is_compared), "{what}");
            assert!(differing.ends_with(&["/b", "/metadata/labels/b"]), "{what}: the rest is compared all the same");
        }
    }

    #[test]
    fn leaves_are_what_a_merge_patch_sets() {
        let object = json!({"kind": "A", "spec": {"a/b": [{"c": 1}], "d": {}, "e": {"f": null}, "g\nh": 1}});
        assert_eq!(leaves(&object), ["/spec/a~1b", "/spec/d", "/spec/e/f"]);
    }

    #[test]
    fn pointers_are_short_but_for_many_fields_or_items_below_a_long_name() {
        let fields = |count: u32| Value::from_iter((0..count).map(|number| (number.to_string(), number)));
        for (name, below, is_short) in [
            (1, fields(100_000), true),
            (1 << 20, fields(10), true),
            (1 << 20, fields(100), false),
            (1 << 20, json!(vec![0; 100]), false),
        ] {
            assert_eq!(has_short_pointers(&Value::from_iter([("k".repeat(name), below)])), is_short, "{name}");
        }
    }

    #[test]
    fn too_many_pointers_are_hashed() {
        let few = vec!["/a".to_owned(), "/b/c".to_owned()];
        assert_eq!(pointers_text(&few), "/a\n/b/c");
        assert_eq!(Pointers::read("/a\n/b/c").among(std::iter::empty()), few);
        for count in [6_000, 60_000] {
            let many: Vec<String> = (0..count).map(|n| format!("/data/{n:06}{}", "k".repeat(30))).collect();
            let text = pointers_text(&many);
            assert!(text.len() <= 240 << 10, "{}", text.len());
            let others = ["/data/other".to_owned()];
            let found = Pointers::read(&text).among(many.iter().chain(&others).cloned());
            assert!(found.len() >= count && many.iter().zip(&found).all(|(one, other)| one == other));
        }
        let hashes = Pointers::read("#4abcdefgh");
        assert_eq!(hashes, Pointers::Hashed(BTreeSet::from(["abcd", "efgh"])));
    }

    #[test]
    fn maps_are_made_on_the_way() {
        let mut tree = json!({"a": {"b": 1}});
        make_pointer(&mut tree, "/a/c/d", Value::Null);
        make_pointer(&mut tree, "/a/b/e", json!(2));
        assert_eq!(tree, json!({"a": {"b": 1, "c": {"d": null}}}));
    }

    #[test]
    fn removes_what_a_pointer_names() {
        let mut tree = json!({"a": {"b/c": 1, "d": [1, 2]}});
        remove_pointer(&mut tree, "/a/b~1c");
        remove_pointer(&mut tree, "/a/d/0");
        remove_pointer(&mut tree, "/x/y");
        assert_eq!(tree, json!({"a": {"d": [2]}}));
    }
}
