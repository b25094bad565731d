//! What the world should look like once everything is quiet: mapping times sources, and nothing else.

use std::collections::BTreeMap;

use serde_json::Value;

use super::checker::Made;
use super::mapping::Wanted;
use super::server::{Side, items};
use super::world::{SourceKey, World, text};

/// Compares the world with the model.
pub fn check(world: &World) {
    let found: Vec<String> = differences(world);
    let core = &mut *world.shared.lock();
    for text in found {
        core.checker.violated("I4", text);
    }
}

/// What is not as it should be.
pub fn differences(world: &World) -> Vec<String> {
    let sources = world.sources();
    let target = target(world);
    let made = world.shared.lock().checker.made.clone();
    let mut found = Vec::new();
    for (key, source) in &sources {
        let deleting = !source["metadata"]["deletionTimestamp"].is_null();
        if deleting {
            found.push(format!("the deletion of {} {} never ends", key.resource, key.name));
        } else if key.resource == world.mapping.resource {
            found.extend(of_source(world, key, source, &target, &made));
        }
    }
    found
}

/// What is wrong with the objects of one source.
fn of_source(world: &World, key: &SourceKey, source: &Value, target: &Target, made: &Records) -> Vec<String> {
    let uid = text(source, "uid");
    let wanted = world.mapping.objects(&key.cluster, source);
    let mut found = Vec::new();
    let mut held_up = false;
    for wanted in &wanted {
        match target.get(&place(wanted)) {
            None => found.push(format!("{} of {} {} is missing", wanted.id, key.resource, key.name)),
            Some(object) => {
                let maker = made.get(&text(object, "uid"));
                let ours = maker.is_some_and(|maker| maker.source_uid == uid && maker.id == wanted.id);
                held_up |= !ours;
                if ours && !holds(object, wanted) {
                    let data = &object["data"];
                    found.push(format!("{} of {} {} is out of date: {data}", wanted.id, key.resource, key.name));
                }
            }
        }
    }
    let synced = synced(source);
    if held_up == (synced == Some("True")) {
        let said = synced.unwrap_or("missing");
        let should = if held_up { "False" } else { "True" };
        found.push(format!("`Synced` of {} {} should be {should} and is {said}", key.resource, key.name));
    }
    for maker in made.values().filter(|maker| maker.source_uid == uid && !maker.gone) {
        if !wanted.iter().any(|wanted| wanted.id == maker.id) {
            found.push(format!("{} of {} {} is no longer wanted and remains", maker.id, key.resource, key.name));
        }
    }
    found
}

fn synced(source: &Value) -> Option<&str> {
    let conditions = source["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Synced")?["status"].as_str()
}

fn holds(object: &Value, wanted: &Wanted) -> bool {
    let data: BTreeMap<String, String> = serde_json::from_value(object["data"].clone()).unwrap_or_default();
    data == wanted.data
}

type Records = BTreeMap<String, Made>;
type Target = BTreeMap<(&'static str, String, String), Value>;

fn place(wanted: &Wanted) -> (&'static str, String, String) {
    (wanted.kind, wanted.namespace.clone(), wanted.name.clone())
}

/// What is on the target, by kind, namespace and name.
fn target(world: &World) -> Target {
    let mut all = BTreeMap::new();
    for (kind, plural) in [("ConfigMap", "configmaps"), ("Secret", "secrets")] {
        let list = world.shared.lock().get(Side::Target, &format!("/api/v1/{plural}")).unwrap_or_default();
        for ((namespace, name), object) in items(&list) {
            all.insert((kind, namespace, name), object);
        }
    }
    all
}
