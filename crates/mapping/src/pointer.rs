//! JSON pointers to what is left to others, in which a step may stand for items of a list.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::names::{escape_pointer, unescape_pointer};

/// `/spec/replicas`, `/spec/groups/*/replicas`, `/spec/groups/[name=cpu]/replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    pub text: String,
    pub steps: Vec<Step>,
}

/// One step of a [`Pointer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A field, or the position of an item.
    Field(String),
    /// Every item of a list.
    Each,
    /// The items of a list whose field has this text.
    With { field: String, text: String },
}

/// Where a pointer leads in a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// JSON pointer of it.
    pub at: String,
    /// JSON pointer of its counterpart in another tree. `None`: that has no such item.
    pub there: Option<String>,
    /// JSON pointers of the lists on the way, with `*` for their items.
    pub lists: Vec<String>,
}

impl Pointer {
    /// RFC 6901: steps after slashes; `~` only as `~0` and `~1`. `None`: it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let is_escaped = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
        if !(text.is_empty() || text.starts_with('/')) || !is_escaped {
            return None;
        }
        let steps = text.split('/').skip(1).map(step).collect::<Option<_>>()?;
        Some(Self { text: text.to_owned(), steps })
    }

    /// Where it leads in a tree, and in another one where that has the same items: with the text that the pointer names, else
    /// with the same `name`, else at the same position.
    pub fn places(&self, tree: &Value, other: Option<&Value>) -> Vec<Place> {
        let mut found = Vec::new();
        let root = Place { there: other.is_some().then(String::new), ..Place::default() };
        walk(&self.steps, tree, other, (root, String::new()), &mut found);
        found
    }
}

fn step(written: &str) -> Option<Step> {
    match written.strip_prefix('[') {
        None if written == "*" => Some(Step::Each),
        None => Some(Step::Field(unescape_pointer(written))),
        Some(rest) => {
            let (field, text) = rest.strip_suffix(']')?.split_once('=').filter(|(field, _)| !field.is_empty())?;
            Some(Step::With { field: unescape_pointer(field), text: unescape_pointer(text) })
        }
    }
}

fn walk(steps: &[Step], tree: &Value, other: Option<&Value>, (place, way): (Place, String), found: &mut Vec<Place>) {
    let Some((first, rest)) = steps.split_first() else { return found.push(place) };
    let below = |segment: &str, there: Option<&str>, list: Option<&str>| {
        let under = |above: &str, segment: &str| format!("{above}/{}", escape_pointer(segment));
        let there = place.there.as_deref().zip(there).map(|(above, segment)| under(above, segment));
        let lists = place.lists.iter().cloned().chain(list.map(str::to_owned)).collect();
        let way = if list.is_some() { format!("{way}/*") } else { under(&way, segment) };
        (Place { at: under(&place.at, segment), there, lists }, way)
    };
    if let Step::Field(name) = first {
        let own = format!("/{}", escape_pointer(name));
        if let Some(value) = tree.pointer(&own) {
            walk(rest, value, other.and_then(|other| other.pointer(&own)), below(name, Some(name), None), found);
        }
        return;
    }
    let theirs = other.and_then(Value::as_array);
    let field: &str = match first {
        Step::With { field, .. } => field,
        _ => "name",
    };
    // The first of each: a consumer's list may have ten thousands of items.
    let mut positions = BTreeMap::new();
    for (index, item) in theirs.into_iter().flatten().enumerate() {
        if let Some(own) = item.get(field) {
            positions.entry(own.to_string()).or_insert(index);
        }
    }
    for (index, item) in tree.as_array().into_iter().flatten().enumerate() {
        let own = item.get(field);
        if let Step::With { text, .. } = first
            && own.and_then(Value::as_str) != Some(text.as_str())
        {
            continue;
        }
        let same = match own {
            Some(own) => positions.get(&own.to_string()).copied(),
            None => Some(index).filter(|index| theirs.is_some_and(|all| *index < all.len())),
        };
        let other = same.and_then(|at| theirs?.get(at));
        let there = same.map(|at| at.to_string());
        walk(rest, item, other, below(&index.to_string(), there.as_deref(), Some(&way)), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_stand_for_items() {
        let tree = json!({"a": {"l": [{"name": "x", "n": 1}, {"name": "y", "n": 2}, {"n": 3}]}});
        let other = json!({"a": {"l": [{"name": "y", "n": 8}]}});
        let shown = |text: &str| -> Vec<String> {
            let places = Pointer::parse(text).expect("a pointer").places(&tree, Some(&other));
            places.into_iter().map(|one| format!("{} {:?} {:?}", one.at, one.there, one.lists)).collect()
        };
        assert_eq!(shown("/a/l/[name=y]/n"), ["/a/l/1/n Some(\"/a/l/0/n\") [\"/a/l\"]"]);
        assert_eq!(shown("/a/l/[name=z]/n"), [""; 0]);
        assert_eq!(shown("/a/l/0/n"), ["/a/l/0/n Some(\"/a/l/0/n\") []"]);
        assert_eq!(shown("/a/l/*/n").len(), 3);
        assert_eq!(shown("/a/l/*/n")[0], "/a/l/0/n None [\"/a/l\"]");
        assert_eq!(shown("/a/l/[name=x]/n"), ["/a/l/0/n None [\"/a/l\"]"]);
        for wrong in ["a", "/a~2", "/a/[b]", "/a/[=c]", "/a/[b=c"] {
            assert_eq!(Pointer::parse(wrong), None, "{wrong}");
        }
    }
    /// The engine has one thread, and each plan looks for the counterparts of all items.
    #[test]
    fn a_list_with_ten_thousands_of_items_is_walked_in_no_time() {
        let list = |numbers: &mut dyn Iterator<Item = u32>| -> Value {
            let items: Vec<Value> = numbers.map(|number| json!({"name": number.to_string(), "v": 1})).collect();
            json!({"l": items})
        };
        let (tree, other) = (list(&mut (0..20_000_u32)), list(&mut (0..20_000_u32).rev()));
        let started = std::time::Instant::now();
        let places = Pointer::parse("/l/*/v").expect("a pointer").places(&tree, Some(&other));
        assert_eq!(places[1].there.as_deref(), Some("/l/19998/v"));
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }
}
