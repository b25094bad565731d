//! What a replica makes of a state store that another one keeps: it writes nothing by another document than the recorded one.

use std::sync::Arc;

use super::{Doubt, Generation, Inventory, Pipeline, REVIEW, Work, inventories, report, source_id};
use crate::health::{Condition, Level};
use crate::mapping::{Mode, ObjectRule};
use crate::plan::Phase;

/// Another replica keeps the state store, and alone writes. Returns when that may have changed, or when it is time to compare
/// the documents again.
pub async fn stand_by(pipeline: &Pipeline, generation: &Arc<Generation>) {
    let found = inventories(pipeline, generation, None).get(pipeline.writer.mapping()).await;
    let found = found.ok().flatten().filter(|_| generation.former.is_none());
    pipeline.saw_recorded(found.as_ref());
    let condition = match found.map(|found| agreed(pipeline, generation, Some(found))) {
        Some(Err(doubt)) => Condition { level: doubt.level, message: doubt.why },
        _ => Condition::ready("another replica keeps it"),
    };
    report(pipeline, condition);
    // Elapsed or rung: it is looked at again.
    let _ = tokio::time::timeout(REVIEW, pipeline.inventory_due()).await;
}

/// What another replica recorded, as far as this one may go by it: it writes nothing by another document than that one. What
/// creates and updates nothing may be any document.
pub fn agreed(pipeline: &Pipeline, generation: &Arc<Generation>, found: Option<Inventory>) -> Result<Inventory, Doubt> {
    let (mapping, is_divided) = (&generation.mapping, pipeline.shared.lease.is_divided());
    let found = found.unwrap_or_default();
    let is_missing = found.resource_version.is_empty();
    let is_recorded = |rule: &ObjectRule| found.kinds.contains(&rule.kind);
    let is_same = match generation.phase {
        Phase::Active | Phase::DeletionsOnly if mapping.mode != Mode::Enforce => true,
        Phase::Active => {
            found.document == *mapping.text
                && found.provider == provider(pipeline, generation)
                && found.source == source_id(pipeline, generation)?
                && found.leaving.is_empty()
                && mapping.objects.iter().all(is_recorded)
        }
        Phase::DeletionsOnly => is_missing || found.document == *mapping.text,
        Phase::Leaving(_) => {
            let is_leaving = found.leaving == generation.leaving() && found.document == *mapping.text;
            is_missing || is_leaving || !is_divided
        }
    };
    if is_same {
        return Ok(found);
    }
    let (name, target) = (pipeline.writer.mapping(), &generation.target.name);
    let keeper = pipeline.shared.lease.owner(Work::Mapping(name));
    let keeper = keeper.map_or("another replica".to_owned(), |keeper| format!("replica `{keeper}`"));
    let why = match is_missing {
        true => format!("mapping {name}: target `{target}` holds no state store of it yet, which {keeper} writes"),
        false => format!(
            "mapping {name}: the document of this replica is not the one that the state store on target `{target}` holds: \
             this replica writes nothing for it; {keeper} keeps the state store, and needs the same document"
        ),
    };
    Err(Doubt { level: Level::Degraded, why })
}

/// The document of the provider of the source's clusters.
pub fn provider(pipeline: &Pipeline, generation: &Generation) -> String {
    let provider = pipeline.shared.manager.document(&generation.mapping.source.clusters);
    provider.map(|provider| provider.document()).unwrap_or_default()
}
