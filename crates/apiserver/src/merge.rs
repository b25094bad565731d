//! Merging what a manager wants into what is there.

use serde_json::Value;

use super::schema::Schema;

/// What comes of a live value where a manager wants another one.
pub(super) fn merged(live: &Value, wanted: &Value, schema: &Schema) -> Value {
    if !schema.is_granular(wanted) {
        return wanted.clone();
    }
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let mut all = live.clone();
            for (name, value) in wanted {
                let present = live.get(name);
                let value = present.map_or_else(|| value.clone(), |live| merged(live, value, schema.field(name)));
                all.insert(name.clone(), value);
            }
            Value::Object(all)
        }
        (Value::Array(live), Value::Array(wanted)) => Value::Array(merged_items(live, wanted, schema)),
        _ => wanted.clone(),
    }
}

/// Items of both lists: those of the wanted one in its order, what is only in the live one in front of the shared item that it
/// stood in front of.
fn merged_items(live: &[Value], wanted: &[Value], schema: &Schema) -> Vec<Value> {
    let keys = |items: &[Value]| items.iter().map(|item| schema.item_key(item)).collect::<Vec<_>>();
    let (live_keys, wanted_keys) = (keys(live), keys(wanted));
    let place = |key: &str| live_keys.iter().position(|live_key| &**live_key == key);
    let mut shared = wanted_keys.iter().filter(|key| place(key).is_some()).peekable();
    let (mut left, mut right) = (0, 0);
    let mut items = Vec::with_capacity(live.len().max(wanted.len()));
    while left < live.len() || right < wanted.len() {
        let ours = live_keys.get(left);
        let is_wanted = ours.is_some_and(|key| wanted_keys.contains(key));
        if let Some(item) = live.get(left).filter(|_| !is_wanted) {
            items.push(item.clone());
            left += 1;
        } else if ours.is_some() && ours != shared.peek().copied() {
            // It has been taken, or will be: in the order of the wanted list.
            left += 1;
        } else if let Some(item) = wanted.get(right) {
            let key = &wanted_keys[right];
            items.push(place(key).map_or_else(|| item.clone(), |at| merged(&live[at], item, schema.element())));
            if shared.next_if_eq(&key).is_some() {
                left += usize::from(ours == Some(key));
            }
            right += 1;
        }
    }
    items
}
