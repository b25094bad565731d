//! What the people see who run the engine: events, metrics, flags and signals.

use serde_json::json;

use crate::case::{Case, Stage, case};
use crate::eventually::eventually;
use crate::rest::Rest;
use crate::world::WIDGETS;

pub fn cases() -> Vec<Case> {
    vec![case!(events_and_metrics_tell_of_sources_and_of_documents).on_both()]
}

async fn events_and_metrics_tell_of_sources_and_of_documents(stage: &Stage) {
    let world = stage.widgets().await;
    world.lets_use(&["events"]).await;
    let engine = world.launch().environment("SYNC_ENGINE_EVENTS", "true").ready().await;
    world.alpha.create_synced("it", json!({"size": 1})).await;
    let reasons = async |rest: &Rest, namespace: &str, name: &str| -> Vec<String> {
        let all = rest.list(&format!("/api/v1/namespaces/{namespace}/events")).await;
        let its = all.iter().filter(|event| event["involvedObject"]["name"] == name);
        its.map(|event| format!("{} {}", event["type"], event["reason"]).replace('"', "")).collect()
    };
    eventually("the consumer is told once", async || {
        let told = reasons(&world.alpha.rest, &world.alpha.namespace, "it").await;
        (told == ["Normal Synced"]).then_some(()).ok_or_else(|| format!("{told:?}"))
    })
    .await;
    eventually("the metrics count what was done", async || {
        for name in ["sync_engine_writes_total", "sync_engine_reconcile_total", "sync_engine_clusters_engaged"] {
            let value = engine.metric(name).await;
            (value >= 1.0).then_some(()).ok_or_else(|| format!("{name} is {value}"))?;
        }
        Ok(())
    })
    .await;

    // The namespace of the state store stands by now.
    world.mappings.write("widgets.yaml", &WIDGETS.replace("Pending", "Waiting"));
    let notes = format!("notes-{}", stage.id);
    eventually("the provider is told of the document", async || {
        let told = reasons(&world.target.rest, &notes, &format!("main.{}", world.name)).await;
        told.contains(&"Normal DocumentLoaded".to_owned()).then_some(()).ok_or_else(|| format!("{told:?}"))
    })
    .await;
}
