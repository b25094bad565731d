//! Fixpoint and crash sweep: whatever write was the last, the next engine ends in the same world.

use serde_json::json;

use super::world::World;
use super::{CHAIN, DATABASES, LISTS, fresh, lists_beside, mapping};
use crate::mapping::Mapping;
use crate::plan::Reasons;

type Story = (&'static str, fn(&mut World));

/// What may happen to a synced source before the engine looks again.
const STORIES: [Story; 7] = [
    ("created", |_| {}),
    ("spec changed", |world| world.edit_source(|source| source["spec"] = json!({"members": 9}))),
    ("edited by hand", |world| world.edit("Database", |object| object["spec"]["members"] = json!(0))),
    ("recreated", |world| world.edit_source(|source| source["metadata"]["uid"] = json!("source-2"))),
    ("downstream lost", |world| world.objects.clear()),
    ("list changed", |world| {
        world.edit_source(|source| source["spec"]["users"] = json!([{"name": "eve"}, {"name": "ann"}]));
    }),
    ("deleted", World::delete_source),
];

fn stories() -> impl Iterator<Item = (&'static Story, Mapping)> {
    let mappings = [DATABASES.to_owned(), CHAIN.to_owned(), LISTS.to_owned(), lists_beside()];
    mappings.into_iter().flat_map(|text| STORIES.iter().map(move |story| (story, mapping(&text))))
}

fn before(story: &Story, mapping: &Mapping) -> World {
    let mut world = fresh();
    if story.0 != "created" {
        world.settle(mapping);
    }
    story.1(&mut world);
    world
}

#[test]
fn a_crash_after_any_write_ends_in_the_same_world_for_which_the_plan_is_empty() {
    for (story, mapping) in stories() {
        let mut whole = before(story, &mapping);
        assert_eq!(whole.settle(&mapping), Reasons::default(), "{}", story.0);
        whole.take_log();
        assert_eq!(whole.settle(&mapping), Reasons::default(), "{}: the next plan", story.0);
        assert!(whole.log.is_empty(), "{}: the next plan is empty: {:?}", story.0, whole.log);
        for writes in 0.. {
            let mut world = before(story, &mapping);
            let finished = world.settle_within(&mapping, writes).is_some();
            world.settle(&mapping);
            assert_eq!(world.essence(), whole.essence(), "{}, crash after write {writes}", story.0);
            if finished {
                break;
            }
        }
    }
}
