//! Two engines with a partition of kcp each, as docs/partitions.md has it.

use serde_json::{Value, json};

use crate::case::{Case, Stage, case};
use crate::engine::Launch;
use crate::eventually::eventually;
use crate::mappings::Mappings;
use crate::rest::Patch;
use crate::target::Target;
use crate::tenant::{Tenant, condition};
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    // A kcp with two shards.
    vec![case!(engines_with_a_partition_each_divide_the_workspaces_and_take_nothing_from_each_other).in_memory_alone()]
}

const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
const PARTITIONS: &str = "/apis/topology.kcp.io/v1alpha1/partitions";
const ENGINES: [&str; 2] = ["one", "two"];

/// A partition, and a slice of the export with the same name.
async fn divide(world: &World<'_>, name: &str, shard: &str) {
    let provider = world.provider();
    let partition = json!({
        "apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"name": shard}}},
    });
    let slice = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": name},
        "spec": {"export": {"path": provider.path, "name": world.api.plural}, "partition": name},
    });
    provider.rest.create(PARTITIONS, &partition).await;
    provider.rest.create(SLICES, &slice).await;
}

/// The mapping of an engine, and its target's view.
fn of_engine(world: &World<'_>, mappings: &Mappings, name: &str, text: &str) -> Target {
    let path = &world.provider().path;
    let source = format!(
        "{{apiExport: {{name: {}, path: \"{path}\", endpointSlice: {name}}}, resource: {}}}",
        world.api.plural,
        world.api.resource()
    );
    mappings.write("widgets.yaml", &text.replace("<source>", &source));
    Target { mapping: format!("{name}.{}", world.name), ..world.target.clone() }
}

fn launch(world: &World<'_>, mappings: &Mappings, name: &str) -> Launch {
    world.launch().flag("--engine-id", name).flag("--mappings", mappings.folder().display())
}

/// The condition of an engine on a source.
fn says<'s>(source: &'s Value, engine: &str) -> Option<&'s Value> {
    condition(source, &format!("{engine}.sync-engine.dev/Synced"))
}

/// The source once an engine's condition on it has this reason.
async fn told(tenant: &Tenant, engine: &str, reason: &str) -> Value {
    tenant.condition("it", &format!("{engine}.sync-engine.dev/Synced"), json!({"reason": reason})).await;
    tenant.object("it").await
}

async fn engines_with_a_partition_each_divide_the_workspaces_and_take_nothing_from_each_other(stage: &Stage) {
    let world = stage.widgets().await;
    let mappings = ENGINES.map(|name| world.second_mappings(name));
    let mut engines = Vec::new();
    let mut targets = Vec::new();
    for (index, shard) in ["root", "shard-1"].into_iter().enumerate() {
        divide(&world, ENGINES[index], shard).await;
        targets.push(of_engine(&world, &mappings[index], ENGINES[index], WIDGETS));
        engines.push(launch(&world, &mappings[index], ENGINES[index]).ready().await);
    }
    for tenant in [&world.alpha, &world.beta] {
        tenant.create("it", json!({"size": 1})).await;
        eventually("one of the engines serves it", async || {
            let source = tenant.object("it").await;
            let serves = |engine: &&str| says(&source, engine).is_some_and(|condition| condition["status"] == "True");
            ENGINES.iter().any(serves).then_some(()).ok_or_else(|| source.to_string())
        })
        .await;
    }
    let carried = |source: &Value| source["metadata"]["finalizers"].to_string();
    let finalizers = [world.alpha.object("it").await, world.beta.object("it").await].map(|source| carried(&source));
    let index = usize::from(finalizers[0].contains("/two."));
    let (former, next) = (ENGINES[index], ENGINES[1 - index]);
    for (finalizers, engine) in finalizers.iter().zip([former, next]) {
        assert_eq!(
            finalizers,
            &format!("[\"sync-engine.dev/{engine}.{}\"]", world.name),
            "one engine for each workspace"
        );
    }
    let made = targets[index].copy(&world.alpha, "it").await;
    assert!(targets[1 - index].find(&world.alpha, "it").await.is_none());

    // The shard of alpha becomes one of the other partition, while the former engine still serves it.
    let everywhere = json!({"spec": {"selector": {"matchLabels": null, "matchExpressions": [{"key": "name", "operator": "Exists"}]}}});
    let provider = world.provider();
    provider.rest.patch(Patch::Merge, &format!("{PARTITIONS}/{next}"), &everywhere).await;
    let source = told(&world.alpha, next, "Conflict").await;
    let owner = format!("default/it of {former}.{} (engine.mapping)", world.name);
    engines[1 - index].says(&["exists and belongs to source", &owner]).await;
    assert_eq!(says(&source, former).expect("its condition")["status"], "True");

    // Nothing of the former engine's was touched.
    let now = targets[index].copy(&world.alpha, "it").await;
    assert_eq!(
        (&now["metadata"]["uid"], &now["metadata"]["labels"]),
        (&made["metadata"]["uid"], &made["metadata"]["labels"])
    );

    // The way over, as the page has it.
    let adopting = WIDGETS.replace("    - id: widget\n", "    - id: widget\n      adopt: IfUnowned\n");
    let target = of_engine(&world, &mappings[1 - index], next, &adopting);
    let mut stopped = engines.remove(index);
    assert!(stopped.terminate().await.success());
    assert_eq!(says(&world.alpha.object("it").await, next).expect("its condition")["reason"], "Conflict");
    let released = stopped.verb(&["uninstall", &world.name, "--release", "--yes"]);
    assert!(released.ends_with("left: nothing\n"), "{released}");
    let source = told(&world.alpha, next, "Synced").await;
    let adopted = target.copy(&world.alpha, "it").await;
    assert_eq!(adopted["metadata"]["uid"], made["metadata"]["uid"], "nothing is deleted");
    assert_eq!(carried(&source), format!("[\"sync-engine.dev/{next}.{}\"]", world.name));
    world.alpha.delete("it").await;
    target.gone(&world.alpha, "it").await;
}
