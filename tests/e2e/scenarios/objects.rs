//! Several objects of one source.

use serde_json::json;
use sync_engine::sandbox::{Fault, Verb};

use crate::case::{Case, Stage, case};
use crate::eventually::becomes;
use crate::memory::LATE;

pub fn cases() -> Vec<Case> {
    vec![case!(a_slow_object_delays_no_other_of_its_source).in_memory_alone()]
}

const TAGGED: &str = r#"<mapping>
  objects:
    - id: tag
      forEach: ${{ source.spec.tags | default([]) }}
      as: tag
      key: ${{ tag }}
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "{{ placement.name }}-{{ tag | dns_label }}"}
        data: {tag: "${{ tag }}"}
"#;

async fn a_slow_object_delays_no_other_of_its_source(stage: &Stage) {
    let (world, _engine) = stage.running_with(TAGGED).await;
    // Waits until the ConfigMaps downstream are of these tags.
    let tags = async |expected: &[&str]| {
        becomes(&format!("the tags {expected:?}"), expected, async || {
            let maps = world.target.labelled("/api/v1/configmaps").await;
            let mut tags: Vec<_> =
                maps.iter().filter_map(|map| map["data"]["tag"].as_str()).map(str::to_owned).collect();
            tags.sort_unstable();
            tags
        })
        .await;
    };
    world.memory().fault(Verb::Apply, "configmaps", "it-a", Fault::Delay(LATE));
    world.alpha.create("it", json!({"tags": ["a", "b", "c"]})).await;
    // One after the other, they would come after it.
    tags(&["b", "c"]).await;
    tags(&["a", "b", "c"]).await;
}
