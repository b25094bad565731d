//! What an object costs the servers, counted in their audit logs.

use std::collections::BTreeMap;

use serde_json::json;

use crate::audit::Request;
use crate::case::{Case, Stage, case};
use crate::world::World;

pub fn cases() -> Vec<Case> {
    vec![case!(an_object_costs_three_writes_and_no_read).on_both()]
}

/// One mapping, and nothing that moves when the generation does.
const LEAN: &str = r#"<widget mapping>
  status:
    fields:
      phase: {path: $.status.phase, default: Pending}
    observedGeneration: Off
"#;

/// How often each verb was used on one side since `before` requests, watches and lists left out.
fn used(requests: Vec<Request>, before: usize) -> BTreeMap<String, usize> {
    let mut used = BTreeMap::new();
    let counted = requests.into_iter().skip(before).filter(|request| request.is_write() || request.is_read());
    for request in counted {
        *used.entry(request.verb).or_default() += 1;
    }
    used
}

/// What both servers were asked while `step` was carried out and settled: the source's part, the target's part.
async fn cost_of(world: &World<'_>, step: impl Future<Output = ()>) -> [BTreeMap<String, usize>; 2] {
    let before = [world.source_requests().len(), world.target_requests().len()];
    step.await;
    world.settled().await;
    [used(world.source_requests(), before[0]), used(world.target_requests(), before[1])]
}

fn times<const N: usize>(verbs: [(&str, usize); N]) -> BTreeMap<String, usize> {
    verbs.into_iter().map(|(verb, times)| (verb.to_owned(), times)).collect()
}

async fn an_object_costs_three_writes_and_no_read(stage: &Stage) {
    let (world, _engine) = stage.running_with(LEAN).await;
    // The first object of a tenant pays for the namespace and for the inventory.
    world.alpha.create_synced("first", json!({"size": 1})).await;
    world.settled().await;

    let new = cost_of(&world, async {
        world.alpha.create("it", json!({"size": 1})).await;
        world.alpha.status("it", json!({"phase": "Pending"})).await;
        world.alpha.synced("it", "True", "Synced").await;
    });
    let finalizer_and_status = times([("patch", 2)]);
    assert_eq!(new.await, [finalizer_and_status, times([("patch", 1)])], "a new object");

    let spec = cost_of(&world, async {
        world.target.follows(&world.alpha, "it", json!({"size": 2})).await;
    });
    assert_eq!(spec.await, [times([]), times([("patch", 1)])], "a change of the spec");

    let status = cost_of(&world, async {
        world.target.operate(&world.alpha, "it", json!({"phase": "Running"})).await;
        world.alpha.status("it", json!({"phase": "Running"})).await;
    });
    assert_eq!(status.await, [times([("patch", 1)]), times([])], "a change of the status");
}
