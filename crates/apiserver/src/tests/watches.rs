//! Lists and watches.

use serde_json::json;

use super::*;
use crate::Subscription;

fn watch(world: &mut World, url: &str) -> Subscription {
    match world.state.handle(&Request::get(url), world.now) {
        (Reply::Watch(subscription), _) => *subscription,
        (Reply::Answer(answer), _) => panic!("{} {}", answer.code, answer.to_json()),
    }
}

/// `ADDED a`, or the code of an error.
fn shown(line: &[u8]) -> String {
    let event: Value = serde_json::from_slice(line).expect("a line of JSON");
    let what = match event["type"].as_str() {
        Some("ERROR") => event["object"]["code"].to_string(),
        _ => event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
    };
    format!("{} {what}", event["type"].as_str().expect("a type")).trim_end().to_owned()
}

fn backlog(subscription: &Subscription) -> Vec<String> {
    subscription.backlog.iter().map(|line| shown(line)).collect()
}

/// What a watch is sent of the events since the last look.
fn sent(world: &mut World, subscription: &Subscription) -> Vec<String> {
    let events = std::mem::take(&mut world.events);
    events.iter().filter_map(|event| subscription.interest.line_for(event)).map(|line| shown(&line)).collect()
}

fn create(world: &mut World, name: &str) -> String {
    let created = world.ok(Request::post(MAPS, &config_map(name, json!({}))));
    version(&created)
}

#[test]
fn a_forgotten_version_is_an_error_in_the_stream() {
    let mut world = World::kubernetes();
    let old = create(&mut world, "a");
    create(&mut world, "b");
    world.state.compact();
    let watched = watch(&mut world, &format!("{MAPS}?watch=1&resourceVersion={old}"));
    assert_eq!(backlog(&watched), ["ERROR 410"]);
    assert!(watched.refused);
}

#[test]
fn a_future_version_is_silent_until_it_comes() {
    let mut world = World::kubernetes();
    let now: u64 = create(&mut world, "a").parse().expect("a number");
    let watched = watch(&mut world, &format!("{MAPS}?watch=1&resourceVersion={}", now + 1));
    world.seen();
    create(&mut world, "b");
    create(&mut world, "c");
    assert_eq!(sent(&mut world, &watched), ["ADDED c"]);
}

#[test]
fn namespaces_and_names_are_kept_apart() {
    let mut world = World::kubernetes();
    let watched = watch(&mut world, "/api/v1/namespaces/kube-system/configmaps?watch=1");
    let named = watch(&mut world, &format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Db"));
    world.seen();
    create(&mut world, "a");
    create(&mut world, "b");
    let events = std::mem::take(&mut world.events);
    let count = |subscription: &Subscription| {
        events.iter().filter(|event| subscription.interest.line_for(event).is_some()).count()
    };
    assert_eq!((count(&watched), count(&named)), (0, 1));
}
