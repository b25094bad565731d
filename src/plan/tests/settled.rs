//! What was found in sync is not computed again, and is as it would be if it were.

use std::sync::Arc;

use serde_json::json;

use super::rows::synced;
use super::world::{World, head};
use super::{DATABASES, changed, mapping, source};
use crate::plan::{Plan, Rest, Source, plan};

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
    assert!(mapping(DATABASES).reports_from_heads());
    let mut plans = [(false, false), (true, false), (true, true)].map(|(settled, heads)| {
        world.settled = settled;
        let mut observed = world.observe(&mapping(DATABASES));
        let objects = observed.owned.iter_mut().map(|standing| &mut standing.object);
        let source = match &mut observed.source {
            Source::Present(source) => Some(source),
            _ => None,
        };
        for object in objects.chain(source).filter(|_| heads) {
            *object = Arc::new(head(object));
        }
        let plan = plan(&mapping(DATABASES), &observed);
        (plan, observed.memo.has_rendering())
    });
    assert_eq!(plans[0].0, plans[1].0);
    assert_eq!(plans[0].0, plans[2].0);
    assert!(matches!(&mut plans[1], (Plan::Last(action, Rest::InSync), false) if action.is_write()), "{plans:?}");
    world.edit("Database", |object| object["spec"] = json!({}));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.take_log().iter().all(|line| line.contains("status")), "it was said to be as it was");
}

#[test]
fn a_source_known_to_be_in_sync_reports_what_it_asks_for() {
    let reporting =
        changed("version: $.status.version", "members: {value: \"${{ source.spec.members }}\", default: none}");
    let mut world = synced();
    world.edit("Database", |object| object["status"]["phase"] = json!("Running"));
    world.settled = true;
    assert!(!reporting.reports_from_heads());
    assert_eq!(world.settle(&reporting), Rest::InSync);
    let status = &world.source.unwrap()["status"];
    assert_eq!((&status["phase"], &status["members"]), (&json!("Running"), &json!(3)));
}
