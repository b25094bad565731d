//! What was found in sync is not computed again, and is as it would be if it were.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use serde_json::{Value, json};

use super::rows::synced;
use super::world::World;
use super::{DATABASES, mapping, source};
use crate::plan::settled::Content;
use crate::plan::{Plan, Rest, plan};

/// A world in which another source's shared object stands as it should.
fn neighboured() -> World {
    let mut world = synced();
    let shared = world.objects.iter().filter(|(reference, _)| reference.kind.kind == "ServiceAccount");
    let shared = shared.map(|(reference, object)| (reference.clone(), object.clone())).collect();
    world = World::new(source());
    world.objects = shared;
    world
}

#[test]
fn shared_objects_known_to_stand_as_they_should_are_not_compared_again() {
    let mut world = neighboured();
    world.edit("ServiceAccount", |object| drop(object["metadata"]["labels"].take()));
    world.shared_settled = true;
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(!world.take_log().iter().any(|line| line.contains("ServiceAccount")));
    world.shared_settled = false;
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.take_log().iter().any(|line| line.contains("ServiceAccount")), "else they are put right");
}

#[test]
fn shared_objects_known_to_stand_as_they_should_are_deleted_by_the_last_source() {
    let mut world = synced();
    world.shared_settled = true;
    world.delete_source();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.objects.is_empty());
}

#[test]
fn a_source_known_to_be_in_sync_is_not_rendered_again_and_its_status_follows_all_the_same() {
    let mut world = synced();
    world.edit("Database", |object| object["status"]["phase"] = json!("Running"));
    let mut plans = [false, true].map(|settled| {
        world.settled = settled;
        let observed = world.observe(&mapping(DATABASES));
        let plan = plan(&mapping(DATABASES), &observed);
        (plan, observed.memo.has_rendering())
    });
    assert_eq!(plans[0].0, plans[1].0);
    assert!(matches!(&mut plans[1], (Plan::Last(action, Rest::InSync), false) if action.is_write()), "{plans:?}");
    world.edit("Database", |object| object["spec"] = json!({}));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.take_log().iter().all(|line| line.contains("status")), "it was said to be as it was");
}

#[test]
fn content_is_all_but_status_and_version() {
    let hash = |world: &World| {
        let (mapping, hasher) = (mapping(DATABASES), BuildHasherDefault::<DefaultHasher>::new());
        let observed = world.observe(&mapping);
        Content::of(&mapping, &observed).map(|content| hasher.hash_one(content))
    };
    let before = hash(&synced());
    assert!(before.is_some());
    let source = |change: fn(&mut Value)| {
        let mut world = synced();
        world.edit_source(change);
        hash(&world)
    };
    let object = |change: fn(&mut Value)| {
        let mut world = synced();
        world.edit("Database", change);
        hash(&world)
    };
    for same in [
        source(|it| it["status"] = json!({"phase": "Odd"})),
        source(|it| it["metadata"]["resourceVersion"] = json!("7000")),
        object(|it| it["status"] = json!({"phase": "Odd"})),
        object(|it| it["metadata"]["resourceVersion"] = json!("7000")),
    ] {
        assert_eq!(same, before);
    }
    for other in [
        source(|it| it["spec"]["odd"] = json!(1)),
        source(|it| it["metadata"]["labels"] = json!({"a": "b"})),
        source(|it| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
        source(|it| it["metadata"]["finalizers"] = json!([])),
        object(|it| it["spec"]["odd"] = json!(1)),
        object(|it| it["metadata"]["annotations"]["a"] = json!("b")),
        object(|it| it["metadata"]["uid"] = json!("another")),
        object(|it| drop(it["metadata"]["labels"].take())),
    ] {
        assert_ne!(other, before);
    }
}
