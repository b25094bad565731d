//! Workspaces that kcp holds up: nothing but the initializer or the terminator is taken out of their LogicalCluster, and only
//! once what they wait for is done.

use serde_json::{Value, json};

use super::world::{World, steps};
use super::{causes, mapping, source};
use crate::mapping::{Mapping, OnExit};
use crate::object::hold::{Hold, HoldStage};
use crate::plan::{Missing, Phase, Plan, Source, plan};

/// The second object waits for the first.
const TEAMS: &str = r#"
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: databases}
spec:
  source:
    provider: teams
    resource: logicalclusters.v1alpha1.core.kcp.io
    when: ${{ source.metadata.labels["plain"] | default("") != "yes" }}
  target: {cluster: source}
  objects:
    - id: space
      template: {apiVersion: example.dev/v1, kind: Space, metadata: {name: space}}
      ready: ${{ objects.space.status.phase | default("") == "Ready" }}
    - id: tools
      dependsOn: [space]
      template:
        apiVersion: example.dev/v1
        kind: Tools
        metadata: {name: tools}
        spec: {plan: "{{ source.metadata.labels['plan'] | required('no plan') }}"}
"#;

fn teams() -> Mapping {
    mapping(TEAMS)
}

fn workspace() -> World {
    let mut source = source();
    source["metadata"]["labels"] = json!({"plan": "gold"});
    source["metadata"]["finalizers"] = json!(["kcp.io/has-terminators"]);
    source["status"] = json!({
        "phase": "Initializing", "initializers": ["system:apibindings", "c:team"], "terminators": ["c:team", "d:team"],
    });
    let mut world = World::new(source);
    world.seen.subject.hold = Some(Hold { stage: HoldStage::Initializing, name: "c:team".into() });
    world
}

/// Its space is made.
fn begun() -> World {
    workspace().with(|world| {
        world.settle(&teams());
        world.log.clear();
    })
}

fn becomes_ready(world: &mut World) {
    world.edit("Space", |space| space["status"] = json!({"phase": "Ready"}));
}

/// An edit of the LogicalCluster that is none of the engine's, taken out of what the engine itself did.
fn untouched(world: &World) -> [Value; 3] {
    ["finalizers", "annotations", "labels"].map(|field| world.live()["metadata"][field].clone())
}

/// The causes, and what was done.
fn tell(world: &mut World, mapping: &Mapping) -> String {
    format!("{}; {}", causes(&world.settle(mapping)), world.writes().join(", "))
}

#[test]
#[rustfmt::skip]
fn a_workspace_is_let_go_once_everything_in_it_is_ready() {
    let world = workspace();
    let before = untouched(&world);
    let world = steps(world, &[
        ("new", |_| {}, &teams(), "Waiting; create Space"),
        ("the same", |_| {}, &teams(), "Waiting; "),
        ("its space is ready", becomes_ready, &teams(), "in sync; create Tools, remove initializer"),
        ("let go", |_| {}, &teams(), "in sync; "),
    ], tell);
    let status = world.status();
    assert_eq!(status["initializers"], json!(["system:apibindings"]), "no other's");
    assert_eq!((&status["terminators"], &status["phase"]), (&json!(["c:team", "d:team"]), &json!("Initializing")));
    assert_eq!(untouched(&world), before);
}

#[test]
fn a_crash_after_any_write_lets_no_workspace_go_too_early() {
    for writes in 0.. {
        let mut world = begun().with(becomes_ready);
        let ended = world.settle_within(&teams(), writes).is_some();
        let source = world.live().clone();
        let is_held = source["status"]["initializers"].as_array().is_some_and(|entries| entries.len() == 2);
        assert!(is_held || world.objects.len() == 2, "after {writes} writes");
        world.sync(&teams());
        assert_eq!(world.objects.len(), 2);
        if ended {
            break;
        }
    }
}

#[test]
#[rustfmt::skip]
fn what_cannot_be_made_holds_the_workspace_up_and_is_told() {
    fn label(world: &mut World, labels: Value) {
        world.edit_source(|source| source["metadata"]["labels"] = labels);
    }
    steps(workspace(), &[
        ("one object cannot be rendered", |world| label(world, json!({})), &teams(), "RenderFailed; create Space"),
        ("the other one is ready", becomes_ready, &teams(), "RenderFailed; "),
        ("it is refused", |world| { label(world, json!({"plan": "gold"})); world.refuses = vec!["create Tools".into()]; }, &teams(),
            "Refused; create Tools"),
        ("it is made", |world| world.refuses.clear(), &teams(), "in sync; create Tools, remove initializer"),
    ], tell);
    let plain = workspace().with(|world| label(world, json!({"plain": "yes"})));
    let plain = steps(plain, &[
        ("the filter leaves it out", |_| {}, &teams(), "in sync; list all, remove initializer"),
    ], tell);
    assert!(plain.objects.is_empty());
}

/// A workspace in use is out of sight; so is one whose initializer a person took out. What was made in it is its owner's.
#[test]
fn a_workspace_that_is_no_longer_held_up_asks_for_nothing() {
    let mut world = begun();
    for missing in [Missing::default(), Missing { deleted: Some("source-1".into()), long: true, ..Missing::default() }]
    {
        let mut observed = world.observe(&teams());
        observed.source = Ok(Source::Missing(missing));
        assert_eq!(plan(&teams(), &observed), Plan::in_sync());
    }
    world.edit_source(|source| source["status"]["initializers"] = json!([]));
    world.sync(&teams());
    world.delete_source();
    world.rests(&teams());
}

#[test]
fn without_its_mapping_a_workspace_stays_as_it_is() {
    for phase in [Phase::DeletionsOnly, Phase::Leaving(OnExit::Delete), Phase::Leaving(OnExit::Orphan)] {
        let mut world = begun().with(becomes_ready);
        world.seen.phase = phase;
        world.sync(&teams());
        assert_eq!((world.take_log(), world.objects.len()), (Vec::new(), 1));
    }
}

#[test]
#[rustfmt::skip]
fn a_terminator_goes_after_what_was_made_and_only_that() {
    let mut world = begun().with(becomes_ready).in_sync(&teams());
    world.seen.subject.hold = Some(Hold { stage: HoldStage::Terminating, name: "c:team".into() });
    world.edit("Tools", |tools| tools["metadata"]["finalizers"] = json!(["of/others"]));
    world.delete_source();
    let world = steps(world, &[
        ("an object is held by others", |_| {}, &teams(), "Stuck, Waiting; delete Tools"),
        ("it is gone", |world| drop(world.objects.remove(&world.reference("Tools"))), &teams(),
            "in sync; delete Space, list all, remove terminator"),
    ], tell);
    assert_eq!(world.status()["terminators"], json!(["d:team"]), "others hold it");
}
