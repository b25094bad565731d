//! A mapping's `source.resource` is edited: the former sources are served for their deletion alone, and nothing is deleted
//! for the edit.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Api;
use crate::case::{Case, Stage, case};
use crate::eventually::throughout;
use crate::target::uid;
use crate::tenant::Tenant;
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    vec![
        case!(an_edit_of_the_resource_deletes_nothing_and_former_sources_can_go).on_both(),
        case!(an_edit_of_the_resource_across_a_restart_deletes_nothing_and_former_sources_can_go),
        case!(an_edit_to_a_resource_that_nobody_serves_deletes_nothing),
        case!(former_sources_leave_with_their_mapping),
    ]
}

/// Two widgets of alpha in sync, before the edit.
struct Scene<'s> {
    world: World<'s>,
    gadgets: Api,
    kept: Value,
    leaving: Value,
}

impl<'s> Scene<'s> {
    async fn in_sync(world: World<'s>) -> Self {
        for name in ["kept", "leaving"] {
            world.alpha.create_synced(name, json!({"size": 1})).await;
        }
        let gadgets = world.api.sibling("gadgets", "Gadget");
        let kept = world.target.copy(&world.alpha, "kept").await;
        let leaving = world.target.copy(&world.alpha, "leaving").await;
        Self { world, gadgets, kept, leaving }
    }

    /// Has the mapping read gadgets in place of widgets.
    fn edit(&self) {
        self.edit_from(WIDGETS);
    }

    fn edit_from(&self, text: &str) {
        let source = self.world.mappings.fill("<source>").replace(&self.world.api.resource(), &self.gadgets.resource());
        self.world.mappings.write("widgets.yaml", &text.replace("<source>", &source));
    }

    fn of_gadgets(&self) -> Tenant {
        self.world.alpha.of(&self.gadgets)
    }

    async fn all_stay(&self) {
        throughout(Duration::from_secs(4), "the objects of the former sources stay as they are", async || {
            stays(&self.world, &self.kept).await?;
            stays(&self.world, &self.leaving).await
        })
        .await;
    }

    /// The deletion of a former source ends, and takes its own object alone.
    async fn former_source_goes(&self) {
        self.world.alpha.delete("leaving").await;
        self.world.alpha.gone("leaving").await;
        assert_eq!(self.world.target.find(&self.world.alpha, "leaving").await, None);
        stays(&self.world, &self.kept).await.expect("the other object stays");
    }

    /// The mapping reads widgets again, and the object that it left goes on.
    async fn going_back_resumes(&self) {
        let world = &self.world;
        world.alpha.patch("kept", json!({"spec": {"size": 2}})).await;
        throughout(Duration::from_secs(2), "a former source is not updated", async || stays(world, &self.kept).await)
            .await;
        world.mappings.write("widgets.yaml", WIDGETS);
        let now = world.target.has_spec(&world.alpha, "kept", json!({"size": 2})).await;
        assert_eq!(uid(&now), uid(&self.kept));
    }
}

/// Err where an object of the target is another, is being deleted or differs in its spec.
async fn stays(world: &World<'_>, object: &Value) -> Result<(), String> {
    let now = world.target.rest.get(&world.target.path(object)).await.ok_or("it is gone")?;
    let same = uid(&now) == uid(object) && now["metadata"]["deletionTimestamp"].is_null();
    (same && now["spec"] == object["spec"]).then_some(()).ok_or_else(|| now.to_string())
}

/// While the mapping serves gadgets, and after it went back.
async fn former_sources_can_go(scene: &Scene<'_>) {
    let (world, gadgets) = (&scene.world, scene.of_gadgets());
    gadgets.create("new", json!({"size": 7})).await;
    let new = world.target.has_spec(&gadgets, "new", json!({"size": 7})).await;
    scene.all_stay().await;
    scene.former_source_goes().await;
    scene.going_back_resumes().await;

    // Now the gadget is the former source.
    stays(world, &new).await.expect("the gadget's object stays");
    gadgets.delete("new").await;
    gadgets.gone("new").await;
    assert_eq!(world.target.find(&gadgets, "new").await, None);
    world.alpha.remove("kept").await;
    assert_eq!(world.target.copies().await, Vec::<Value>::new());
}

async fn an_edit_of_the_resource_deletes_nothing_and_former_sources_can_go(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    let scene = Scene::in_sync(world).await;
    scene.world.serve_at_source(&scene.gadgets).await;
    scene.edit();
    former_sources_can_go(&scene).await;
}

async fn an_edit_of_the_resource_across_a_restart_deletes_nothing_and_former_sources_can_go(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let scene = Scene::in_sync(world).await;
    scene.world.serve_at_source(&scene.gadgets).await;
    assert!(engine.terminate().await.success());
    scene.edit();
    let _engine = scene.world.engine().await;
    former_sources_can_go(&scene).await;
}

async fn an_edit_to_a_resource_that_nobody_serves_deletes_nothing(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let scene = Scene::in_sync(world).await;
    engine.says_of(|| scene.edit(), &["generation 2"]).await;
    scene.all_stay().await;
    scene.former_source_goes().await;
    scene.going_back_resumes().await;
}

async fn former_sources_leave_with_their_mapping(stage: &Stage) {
    let text = WIDGETS.to_owned() + "  lifecycle: {onMappingRemoved: Delete, pruneGuard: {maxPercent: 100}}\n";
    let (world, mut engine) = stage.running_with(&text).await;
    let scene = Scene::in_sync(world).await;
    scene.world.serve_at_source(&scene.gadgets).await;
    engine.says_of(|| scene.edit_from(&text), &["the former source runs on"]).await;
    scene.of_gadgets().create("new", json!({"size": 7})).await;
    scene.world.target.has_spec(&scene.of_gadgets(), "new", json!({"size": 7})).await;

    let lines = engine.lines_logged();
    scene.world.mappings.remove("widgets.yaml");
    engine.says_after(lines, &["nothing of the former source is left"]).await;
    engine.says_after(lines, &["the mapping was removed, and so was all it had made"]).await;
    assert_eq!(scene.world.target.copies().await, Vec::<Value>::new());
    for name in ["kept", "leaving"] {
        assert!(scene.world.alpha.holds(name).await.is_empty(), "{name} is let go, and lives on");
    }
}
