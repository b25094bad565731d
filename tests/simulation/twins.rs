//! Non-interference: the same world twice, with the actions of one tenant changed. The other one sees the same in the end.

use std::collections::BTreeMap;

use serde_json::Value;

use super::action::{Action, Plan, Step, TENANTS};
use super::dice::Dice;
use super::mapping::placement;
use super::plan;
use super::world::{World, side_of, text};

/// The plan with other actions of every tenant but the first, as many and at the same moments.
pub fn twin(plan: &Plan) -> Plan {
    let mut dice = Dice::new(!plan.seed);
    let mut other = |step: &Step| match step.action.tenant() {
        Some(tenant) if tenant != TENANTS[0] => Step { action: of_another(&mut dice, tenant), ..*step },
        _ => *step,
    };
    Plan { steps: plan.steps.iter().map(&mut other).collect(), ..plan.clone() }
}

fn of_another(dice: &mut Dice, tenant: &str) -> Action {
    loop {
        let action = plan::of_tenants(dice);
        if action.tenant() == Some(tenant) {
            return action;
        }
    }
}

/// What a tenant sees: its sources and Secrets, and what is in its namespace on the target.
pub fn view(world: &World, tenant: &str) -> BTreeMap<String, Value> {
    let cluster = world.cluster(tenant);
    if cluster.is_empty() {
        return BTreeMap::new();
    }
    let namespace = placement(&world.identity(&cluster), "default");
    let is_its = |object: &Value| match world.plan.is_beside {
        true => !world.plan.is_kcp || object["metadata"]["annotations"]["kcp.io/cluster"] == *cluster,
        false => text(object, "namespace") == namespace,
    };
    let objects = world.target_objects().into_iter().filter(is_its);
    let sources = world.sources().into_iter().filter(|(key, _)| key.cluster == cluster);
    let objects = objects
        .map(|object| (format!("{} {} at {}", object["kind"], text(&object, "name"), side_of(&object).name()), object));
    let secrets = world.secrets().into_iter().filter(|((of, _), _)| *of == cluster);
    let secrets = secrets.map(|((_, name), secret)| (format!("secrets {name}"), secret));
    let sources = sources.map(|(key, source)| (format!("{} {}", key.resource, key.name), source));
    let all = sources.chain(objects).chain(secrets);
    all.map(|(name, object)| (name, scrubbed(object, &cluster, &namespace))).collect()
}

/// Without uids, versions and times, and with one name for the workspace, which is another one when it was made anew.
fn scrubbed(mut object: Value, cluster: &str, namespace: &str) -> Value {
    scrub(&mut object);
    let text = object.to_string().replace(namespace, "NAMESPACE").replace(cluster, "CLUSTER");
    serde_json::from_str(&text).expect("names are text")
}

const CHANGING: [&str; 11] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "observedGeneration",
    "lastTransitionTime",
    "sync-engine.dev/source-uid",
    "sync-engine.dev/self",
    "sync-engine.dev/hash",
    "sync-engine.dev/owner",
];

fn scrub(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !CHANGING.contains(&name.as_str()));
            fields.values_mut().for_each(scrub);
        }
        Value::Array(items) => items.iter_mut().for_each(scrub),
        _ => {}
    }
}
