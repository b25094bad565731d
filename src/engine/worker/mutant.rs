//! Mutants that need more than a line.

use super::{Arc, Cause, Ended, Facts, Generation, Key, Mutant, Pipeline, Run, causes, mutants, run};
use crate::multicluster::ApiPath;
use crate::multicluster::endpoint::DeleteOptions;
use crate::object::marks::Origin;

/// Two workers have the same request at once.
pub async fn beside_another(
    one: impl Future<Output = Run>,
    pipeline: &Arc<Pipeline>,
    generation: &Generation,
    key: &Key,
) -> Run {
    if !mutants::active(Mutant::TwoWorkersOnOneKey) {
        return one.await;
    }
    let mut facts = Facts::new(pipeline.interests.reader(key));
    tokio::join!(one, run(pipeline, generation, key, &mut facts, None)).0
}

/// A cluster that is not engaged is taken for one whose sources were deleted.
pub async fn delete_orphaned(ended: &Ended, pipeline: &Pipeline, generation: &Generation, key: &Key) {
    if !mutants::active(Mutant::DisengagedIsDeleted) || !causes(ended).contains(&Cause::Orphaned) {
        return;
    }
    let source = &generation.mapping.source;
    let owner = pipeline.writer.owner(&Origin::new(&source.resource, key.cluster.as_str(), key));
    for (_, feed) in pipeline.kind_feeds() {
        for (at, object) in feed.watch.store().of_owner(&owner.0) {
            let Ok(path) = ApiPath::object(&feed.served.resource, &at.namespace, &at.name) else { continue };
            let (uid, resource_version) = (object.uid(), object.resource_version());
            let options = DeleteOptions { uid, resource_version, propagation: "Background" };
            let _ = generation.target.endpoint().delete(&path, options).await;
        }
    }
}
