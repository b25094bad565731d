//! What a mapping serves is part of its identity: an edit that changes it is refused while sources are served.

use serde_json::{Value, json};

use crate::api::Api;
use crate::case::{Case, Stage, case};
use crate::eventually::eventually;
use crate::tenant::Tenant;
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    vec![
        case!(another_resource_is_served_by_a_mapping_of_another_name).on_both(),
        case!(former_sources_of_an_earlier_version_are_released_by_a_person).on_kube(),
    ]
}

/// Two widgets of alpha in sync.
struct Scene<'s> {
    world: World<'s>,
    gadgets: Api,
}

impl<'s> Scene<'s> {
    async fn in_sync(world: World<'s>) -> Self {
        for name in ["kept", "leaving"] {
            world.alpha.create_synced(name, json!({"size": 1})).await;
        }
        let gadgets = world.api.sibling("gadgets", "Gadget");
        world.serve_at_source(&gadgets).await;
        Self { world, gadgets }
    }

    /// The mapping's document, with gadgets in place of widgets.
    fn of_gadgets(&self) -> String {
        let source = self.world.mappings.fill("<source>").replace(&self.world.api.resource(), &self.gadgets.resource());
        WIDGETS.replace("<source>", &source)
    }

    fn edit(&self) {
        self.world.mappings.write("widgets.yaml", &self.of_gadgets());
    }

    fn gadget(&self) -> Tenant {
        self.world.alpha.of(&self.gadgets)
    }
}

/// The way over: the former file stays until its sources are gone.
async fn another_resource_is_served_by_a_mapping_of_another_name(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let scene = Scene::in_sync(world).await;
    scene.edit();
    let [gadgets, widgets] = [&scene.gadgets, &scene.world.api].map(|api| format!("{}.{}", api.plural, api.group));
    let serves = format!("it would serve {gadgets} instead of {widgets}");
    let finalizers = "2 sources of 1 cluster carry its finalizer";
    engine.says(&["the document in widgets.yaml is refused", &serves, finalizers]).await;
    engine.becomes_degraded("document of mapping", "is refused").await;
    let name = &scene.world.name;
    let other = scene.of_gadgets().replace("<name>", &format!("{name}-gadgets"));
    scene.world.mappings.write("widgets.yaml", WIDGETS);
    scene.world.mappings.write("gadgets.yaml", &other);
    let gadget = scene.gadget();
    gadget.create("new", json!({"size": 7})).await;
    let path = format!("/api/v1/namespaces/notes-{}/configmaps/main.{name}-gadgets", stage.id);
    eventually("the gadget is served", async || {
        let holds = gadget.holds("new").await;
        holds.iter().any(|one| one.ends_with("-gadgets")).then_some(()).ok_or_else(|| format!("{holds:?}"))
    })
    .await;
    assert!(scene.world.target.rest.get(&path).await.is_some(), "it has a state store of its own");
    scene.world.alpha.patch("kept", json!({"spec": {"size": 2}})).await;
    scene.world.target.has_spec(&scene.world.alpha, "kept", json!({"size": 2})).await;
    gadget.remove("new").await;
}

/// An earlier version served the sources of a former document beside those of the present one. This one runs deletions alone
/// until a person has released them.
async fn former_sources_of_an_earlier_version_are_released_by_a_person(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let scene = Scene::in_sync(world).await;
    assert!(engine.terminate().await.success());
    let (world, gadget) = (&scene.world, scene.gadget());
    let path = format!("/api/v1/namespaces/notes-{}/configmaps/main.{}", stage.id, world.name);
    let stored = world.target.rest.get(&path).await.expect("a state store");
    let data = |field: &str| stored["data"][field].as_str().expect("a text").to_owned();
    let mut source: Value = serde_json::from_str(&data("source")).expect("JSON");
    let former = json!([{"source": source.clone(), "document": data("document")}]).to_string();
    source["resource"] = format!("{}.{}", scene.gadgets.plural, scene.gadgets.group).into();
    let of_gadgets = data("document").replace(&world.api.resource(), &scene.gadgets.resource());
    let patch = json!({"data": {"former": former, "source": source.to_string(), "document": of_gadgets}});
    world.target.rest.patch(crate::rest::Patch::Merge, &path, &patch).await;

    scene.edit();
    let mut engine = world.launch().start();
    engine.says(&["its state store names former sources", "uninstall", "--former"]).await;
    gadget.create("new", json!({"size": 7})).await;
    gadget.create("gone", json!({"size": 7})).await;
    gadget.remove("gone").await;
    assert!(gadget.holds("new").await.is_empty(), "deletions alone go on");

    assert!(engine.terminate().await.success());
    let released = engine.verb(&["uninstall", &world.name, "--former", "--release", "--yes"]);
    assert!(released.ends_with("left: nothing\n"), "{released}");
    for name in ["kept", "leaving"] {
        assert!(world.alpha.holds(name).await.is_empty(), "{name} is released");
    }
    let mut engine = world.engine().await;
    engine.becomes_ready().await;
    world.target.has_spec(&gadget, "new", json!({"size": 7})).await;
    gadget.remove("new").await;
}
