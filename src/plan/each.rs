//! Several objects of one rule: one for each item of a list, told apart by their keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::observed::{Observed, TargetObject};
use super::render::{self, Instance, Rendered, Wanted};
use crate::mapping::expression::{Evaluated, Scope, Way};
use crate::mapping::placement::Place;
use crate::mapping::template::Unrendered;
use crate::mapping::{ForEach, ObjectRule};
use crate::object::marks::Reference;

/// Objects of one rule and source. A consumer's list must not become a flood of objects.
pub const MOST: usize = 1000;

/// Bytes of a key: it stands in an annotation, and in reasons.
const LONGEST_KEY: usize = 253;

/// Renders the objects of a list, each on its own.
///
/// # Errors
/// What stands in the way of all of them: a list that cannot be evaluated, and items that cannot be told apart.
pub fn instances(observed: &Observed, rule: &ObjectRule, each: &ForEach, place: &Place, scope: &Scope) -> Wanted {
    let mut scope = scope.clone();
    let mut instances = Vec::new();
    for (key, item) in keyed(each, &mut scope)? {
        scope.set_local(&each.item, item.clone());
        let rendered = render::one(observed, rule, &render::instance_id(rule, Some(&key)), place, &scope);
        let reference = render::reference(rule, place, &scope).ok();
        instances.push(Instance { key: Some(key), item: Some(item), reference, rendered });
    }
    have_names_apart(&instances)?;
    Ok(instances)
}

/// Refuses objects of one rule that would have the same name.
pub fn have_names_apart(instances: &[Instance]) -> Result<(), Unrendered> {
    apart(instances.iter().map(|one| Some(&one.desired()?.reference.name)), "name")
}

/// The items of the list with their keys.
pub fn keyed(each: &ForEach, scope: &mut Scope) -> Result<Vec<(String, Arc<Value>)>, Unrendered> {
    let items = match each.list.evaluate(scope)? {
        Evaluated::Omit => Vec::new(),
        evaluated => match evaluated.value()? {
            Value::Array(items) => items,
            _ => return Err(failed("it gives no list".into())),
        },
    };
    if items.len() > MOST {
        return Err(failed(format!("its list has {} items, and {MOST} are the most", items.len())));
    }
    let mut all = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let item = Arc::new(item);
        scope.set_local(&each.item, item.clone());
        let of_item = || format!("forEach: the key of item {}", index + 1);
        let key = each.key.render(scope).map_err(|why| why.within(&of_item()))?;
        if key.is_empty() || key.len() > LONGEST_KEY || key.chars().any(char::is_control) {
            return Err(Unrendered::Failed(of_item() + " is empty, longer than 253 bytes, or has line breaks"));
        }
        scope.note(&each.place(), Way::Item);
        all.push((key, item));
    }
    apart(all.iter().map(|(key, _)| Some(key)), "key")?;
    Ok(all)
}

/// Something of each object of a rule, single or several, from its key and from what expressions read for it; of no object, where
/// they cannot be told apart.
pub fn of_each<T>(rule: &ObjectRule, scope: &Scope, mut of: impl FnMut(Option<&str>, &Scope) -> Option<T>) -> Vec<T> {
    let mut scope = scope.clone();
    let Some(each) = &rule.for_each else { return of(None, &scope).into_iter().collect() };
    let items = keyed(each, &mut scope).unwrap_or_default().into_iter();
    let all = items.filter_map(|(key, item)| {
        scope.set_local(&each.item, item);
        of(Some(&key), &scope)
    });
    all.collect()
}

/// Refuses items that have something in common which should tell them apart.
fn apart<'k>(all: impl Iterator<Item = Option<&'k String>>, what: &str) -> Result<(), Unrendered> {
    let mut seen = BTreeMap::new();
    for (index, one) in all.enumerate().filter_map(|(index, one)| Some((index + 1, one?))) {
        if let Some(first) = seen.insert(one, index) {
            return Err(failed(format!("items {first} and {index} have the same {what} `{one}`")));
        }
    }
    Ok(())
}

fn failed(why: String) -> Unrendered {
    Unrendered::Failed(format!("forEach: {why}"))
}

/// What stands of a rule and is not wanted any more, as far as that is certain: its list was rendered, and where each item goes
/// is known. An item that cannot be rendered holds up no other.
pub fn leaving<'o>(observed: &'o Observed, rule: &ObjectRule, wanted: &Wanted, place: &Place) -> Vec<&'o TargetObject> {
    let is_known = |one: &Instance| one.rendered.is_ok() || one.reference.is_some();
    let Ok(all) = wanted else { return Vec::new() };
    // A shared object that one source does not want may be wanted by its neighbour.
    if rule.shared || !all.iter().all(is_known) {
        return Vec::new();
    }
    let stay = all.iter().filter(|one| !matches!(one.rendered, Ok(Rendered::Absent)));
    let keys: BTreeSet<Option<&str>> = stay.clone().map(|one| one.key.as_deref()).collect();
    // Another key may have taken over its name.
    let made = stay.filter(|one| !matches!(one.rendered, Ok(Rendered::Kept(_))));
    let places: BTreeSet<&Reference> = made.filter_map(|one| one.reference.as_ref()).collect();
    let is_kept = |standing: &TargetObject| {
        keys.contains(&None) || keys.contains(&standing.key()) || places.contains(&standing.reference)
    };
    let is_left = |standing: &&TargetObject| !is_kept(standing);
    match rule.is_several() {
        true => render::instances(observed, rule, place).filter(is_left).collect(),
        false => render::standing(observed, rule, place).filter(is_left).into_iter().collect(),
    }
}
