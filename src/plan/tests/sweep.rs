//! Fixpoint and crash sweep: whatever write was the last, the next engine ends in the same world.

use serde_json::json;

use super::world::World;
use super::{DATABASES, mapping, source};
use crate::plan::Rest;

type Story = (&'static str, fn(&mut World));

/// What may happen to a synced source before the engine looks again.
const STORIES: [Story; 6] = [
    ("created", |_| {}),
    ("spec changed", |world| world.edit_source(|source| source["spec"] = json!({"members": 9}))),
    ("edited by hand", |world| world.edit("Database", |object| object["spec"]["members"] = json!(0))),
    ("recreated", |world| world.edit_source(|source| source["metadata"]["uid"] = json!("source-2"))),
    ("downstream lost", |world| world.objects.clear()),
    ("deleted", World::delete_source),
];

fn before(story: &Story) -> World {
    let mut world = World::new(source());
    if story.0 != "created" {
        world.settle(&mapping(DATABASES));
    }
    story.1(&mut world);
    world
}

#[test]
fn after_the_plan_is_applied_the_next_plan_is_empty() {
    for story in &STORIES {
        let mut world = before(story);
        assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync, "{}", story.0);
        world.take_log();
        assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync, "{}", story.0);
        assert!(world.log.is_empty(), "{}: {:?}", story.0, world.log);
    }
}

#[test]
fn a_crash_after_any_write_ends_in_the_same_world() {
    for story in &STORIES {
        let mut whole = before(story);
        whole.settle(&mapping(DATABASES));
        for writes in 0.. {
            let mut world = before(story);
            let finished = world.settle_within(&mapping(DATABASES), writes).is_some();
            world.settle(&mapping(DATABASES));
            assert_eq!(world.essence(), whole.essence(), "{}, crash after write {writes}", story.0);
            if finished {
                break;
            }
        }
    }
}
