//! Workspaces come and go while the engine runs.

use serde_json::json;

use crate::api::Api;
use crate::case::{Case, Stage, case};
use crate::eventually::becomes;
use crate::tenant::Tenant;
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    let cases = [
        case!(workspaces_that_leave_take_their_objects_along_and_who_comes_back_is_served_again),
        case!(an_export_without_bindings_is_ready_and_who_binds_later_is_served),
        case!(a_mapping_that_moves_to_another_export_waits_and_orphans_nothing),
    ];
    cases.into_iter().map(|case| case.on_kcp().in_memory()).collect()
}

/// Nothing of alpha is left, and beta is served as before: its next size arrives.
async fn only_alpha_left(world: &World<'_>, size: usize) {
    becomes("alpha's object downstream is gone", 1, async || world.target.copies().await.len()).await;
    world.target.follows(&world.beta, "it", json!({"size": size})).await;
}

async fn both_synced(world: &World<'_>) {
    for tenant in [&world.alpha, &world.beta] {
        world.target.made(tenant, "it", json!({"size": 1})).await;
        tenant.synced("it", "True", "Synced").await;
    }
}

async fn workspaces_that_leave_take_their_objects_along_and_who_comes_back_is_served_again(stage: &Stage) {
    let labelled = WIDGETS.replace(
        "        kind: Widget\n",
        "        kind: Widget\n        metadata: {annotations: {from: \"{{ workspace.path }} {{ workspace.cluster }}\"}}\n",
    );
    let (world, mut engine) = stage.running_with(&labelled).await;
    both_synced(&world).await;
    let workspace = &world.workspaces[0];
    let from = format!("{} {}", workspace.path, workspace.cluster);
    let annotations = json!({"from": from, "sync-engine.dev/workspace": workspace.path});
    world.target.has(&world.alpha, "it", json!({"metadata": {"annotations": annotations}})).await;
    let comes_back = async |size: usize| {
        workspace.bind(&world.provider().path, &world.api).await;
        world.alpha.create_synced("it", json!({"size": size})).await;
        world.target.has_spec(&world.alpha, "it", json!({"size": size})).await;
    };

    workspace.unbind(&world.api.plural).await;
    workspace.unbound(&world.api.plural).await;
    only_alpha_left(&world, 3).await;

    // While the engine is down.
    comes_back(5).await;
    engine.kill();
    workspace.unbind(&world.api.plural).await;
    let mut engine = world.engine().await;
    workspace.unbound(&world.api.plural).await;
    only_alpha_left(&world, 4).await;

    comes_back(6).await;
    let root = world.root().await;
    workspace.delete(&root).await;
    workspace.gone(&root).await;
    only_alpha_left(&world, 5).await;
    engine.is_running().expect("the engine runs on");
}

async fn an_export_without_bindings_is_ready_and_who_binds_later_is_served(stage: &Stage) {
    let world = stage.widgets().await;
    let api = Api::widgets(format!("lonely-{}.example.com", stage.id));
    api.install(&world.target.rest).await;
    let lonely = world.new_workspace(&format!("{}-lonely", stage.id)).await;
    lonely.publish(&api, &stage.user).await;
    let mappings = world.mappings.beside(stage.folder.join("lonely"));
    let source = format!("{{apiExport: {{name: widgets, path: \"{}\"}}, resource: {}}}", lonely.path, api.resource());
    let text = WIDGETS.replace("<source>", &source).replace("<group>", &api.group);
    mappings.write("widgets.yaml", &text);
    let _engine = world.launch().flag("--mappings", mappings.folder().display()).ready().await;

    let first = world.new_workspace(&format!("{}-first", stage.id)).await;
    first.bind(&lonely.path, &api).await;
    let tenant = Tenant::in_workspace(&first, &api);
    tenant.create("it", json!({"size": 1})).await;
    let target = crate::target::Target { api: api.clone(), ..world.target.clone() };
    target.has_spec(&tenant, "it", json!({"size": 1})).await;
}

/// Another APIExport is another storage: its sources wait until those of the export in force are gone.
async fn a_mapping_that_moves_to_another_export_waits_and_orphans_nothing(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    both_synced(&world).await;
    let provider = world.new_workspace(&format!("{}-moved", stage.id)).await;
    provider.publish(&world.api, &stage.user).await;
    let workspace = world.new_workspace(&format!("{}-late", stage.id)).await;
    workspace.bind(&provider.path, &world.api).await;
    let late = Tenant::in_workspace(&workspace, &world.api);
    let moved = WIDGETS.replace("<source>", &world.source_at(&provider, &world.api.plural));
    engine.says_of(|| world.mappings.write("widgets.yaml", &moved), &["another identity hash"]).await;
    late.create("it", json!({"size": 1})).await;
    world.alpha.patch("it", json!({"spec": {"size": 3}})).await;
    world.target.has_spec(&world.alpha, "it", json!({"size": 3})).await;
    for tenant in [&world.alpha, &world.beta] {
        tenant.remove("it").await;
    }
    world.target.has_spec(&late, "it", json!({"size": 1})).await;
    assert_eq!(world.target.copies().await.len(), 1);
    let orphaned: Vec<String> = engine.log().into_iter().filter(|line| line.contains("Orphaned")).collect();
    assert_eq!(orphaned, Vec::<String>::new());
}
