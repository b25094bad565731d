//! What a replica that stands by makes of a state store, which the one that leads keeps.

use std::sync::Arc;

use super::{Generation, Inventory, Pipeline, REVIEW, report, source_id};
use crate::health::Condition;
use crate::mapping::{Mode, ObjectRule, SourceClusters};
use crate::plan::Phase;

/// Another replica leads, and alone writes. Returns when that may have changed, or when it is time to compare the documents
/// again.
pub async fn stand_by(pipeline: &Pipeline, generation: &Arc<Generation>) {
    // Who only reads needs no permit.
    let inventories = pipeline.shared.inventories(generation.target.endpoint());
    let found = inventories.get(pipeline.writer.mapping()).await.ok().flatten();
    pipeline.saw_recorded(found.as_ref());
    let condition = match found.map_or(Ok(true), |found| is_same(pipeline, generation, &found)) {
        Ok(true) => Condition::ready("another replica keeps it"),
        Ok(false) => Condition::degraded(differs(pipeline, generation)),
        Err(why) => Condition::waiting(why),
    };
    report(pipeline, condition);
    // Elapsed or rung: it is looked at again.
    let _ = tokio::time::timeout(REVIEW, pipeline.inventory_due()).await;
}

/// Whether the leader recorded the document of this replica, as far as that matters: what creates and updates nothing may be
/// any document.
fn is_same(pipeline: &Pipeline, generation: &Arc<Generation>, found: &Inventory) -> Result<bool, String> {
    let mapping = &generation.mapping;
    let is_recorded = |rule: &ObjectRule| found.kinds.contains(&rule.kind);
    Ok(match generation.phase {
        Phase::Active | Phase::DeletionsOnly if generation.mode != Mode::Enforce => true,
        Phase::Active => {
            found.document == mapping.text
                && found.provider == provider(pipeline, generation)
                && found.source == source_id(pipeline, generation)?
                && mapping.objects.iter().all(is_recorded)
        }
        Phase::DeletionsOnly => found.document == mapping.text,
        Phase::Leaving(_) => true,
    })
}

fn differs(pipeline: &Pipeline, generation: &Generation) -> String {
    format!(
        "mapping {}: the document of this replica is not the one that the state store on target `{}` holds: this replica would \
         release another one once it leads; give all replicas the same documents",
        pipeline.writer.mapping(),
        generation.target.name
    )
}

/// The documents of the providers of the mapping's clusters.
pub fn provider(pipeline: &Pipeline, generation: &Generation) -> String {
    let manager = &pipeline.shared.manager;
    generation.mapping.provider_documents(|name| manager.document(&SourceClusters::Provider(name.to_owned())))
}
