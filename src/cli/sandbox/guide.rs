//! What the sandbox prints around the story: where everything is, and what to try.

use std::path::Path;

use serde_json::Value;

use super::stage::Stage;
use crate::story::Order;

/// Where everything is.
pub(super) fn endpoints(stage: &Stage, status_page: &str) -> String {
    let mut lines = vec![format!("kcp          {}", stage.scene.kcp.url())];
    lines.extend(stage.scene.clusters.iter().map(|member| format!("{:<12} {}", member.name, member.server.url())));
    lines.push(format!("status page  {status_page}"));
    lines.push(format!("mappings     {}", stage.mappings.display()));
    lines.push(format!("kubeconfig   {}", stage.kubeconfig().display()));
    lines.push(format!("contexts     {}", contexts(stage)));
    lines.join("\n")
}

/// The first few, for there can be thousands.
fn contexts(stage: &Stage) -> String {
    const SHOWN: usize = 6;
    let mut names: Vec<String> = stage.scene.contexts().into_iter().map(|context| context.name).collect();
    let last = names.pop();
    let hidden = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    names.extend((hidden > 0).then(|| format!("… {hidden} more …")));
    names.extend(last);
    names.join(", ")
}

/// Lines to paste into another terminal. `ordered`: the consumers have ordered.
pub(super) fn suggestions(stage: &Stage, ordered: bool) -> String {
    let order = stage.scene.script.orders.first().filter(|_| ordered);
    let consumer = stage.scene.consumers.first().map_or("provider", |consumer| consumer.name.as_str());
    // The cluster where it is ordered, of a fleet.
    let member = order.and_then(|order| stage.scene.clusters.iter().find(|member| order.place.has(&member.connection)));
    let consumer = member.map_or(consumer, |member| member.name.as_str());
    let mut lines = vec![
        "Try, in another terminal:".to_owned(),
        String::new(),
        format!("  export KUBECONFIG={}", quoted(stage.kubeconfig())),
    ];
    match order {
        Some(order) => lines.extend(visits(consumer, order, &stage.scene.script.definitions)),
        None if stage.scene.script.exports.iter().all(|export| export.name == "mongodb") => {
            lines.push(format!(
                "  kubectl --context {consumer} apply -f examples/mongodb/secret.yaml -f examples/mongodb/mongodb.yaml"
            ));
        }
        None => lines.push(format!("  kubectl --context {consumer} api-resources")),
    }
    lines.extend(order.map(|order| format!("  kubectl --context {consumer} delete {}", named(order))));
    lines.push(String::new());
    lines.push(format!(
        "What comes of it is told here, and of an edit in {}. Ctrl-C ends it all.",
        stage.mappings.display()
    ));
    lines.join("\n")
}

/// What to do with an object that a consumer has created. `definitions`: of the kinds on the target cluster.
fn visits(consumer: &str, order: &Order, definitions: &[Value]) -> Vec<String> {
    let plural = &order.resource.plural;
    let change = match order.object["spec"]["members"].is_number() {
        true => format!("patch {} --type merge -p '{{\"spec\":{{\"members\":5}}}}'", named(order)),
        false => format!("edit {}", named(order)),
    };
    // Objects of kcp's own kinds can only be beside their sources.
    let is_kcps =
        |definition: &&Value| definition["spec"]["group"].as_str().is_some_and(|group| group.ends_with("kcp.io"));
    let (beside, downstream): (Vec<&Value>, Vec<&Value>) = definitions.iter().partition(is_kcps);
    let look = |context: &str, definitions: &[&Value], namespaces: &str| {
        let plurals = definitions.iter().filter_map(|definition| definition["spec"]["names"]["plural"].as_str());
        let plurals: Vec<_> = plurals.collect();
        let line = format!("  kubectl --context {context} get {}{namespaces}", plurals.join(","));
        (!plurals.is_empty()).then_some(line)
    };
    let mut lines = vec![format!("  kubectl --context {consumer} get {plural}{} -o yaml", namespace(order))];
    lines.extend(look(consumer, &beside, ""));
    lines.extend(look("downstream", &downstream, " -A"));
    lines.push(format!("  kubectl --context {consumer} {change}"));
    lines
}

/// `mongodbcommunity my-database`
fn named(order: &Order) -> String {
    let plural = &order.resource.plural;
    let name = order.object["metadata"]["name"].as_str().unwrap_or_default();
    format!("{plural} {name}{}", namespace(order))
}

/// ` -n team` where it stands in another namespace than kubectl's own.
fn namespace(order: &Order) -> String {
    match order.object["metadata"]["namespace"].as_str() {
        None | Some("default") => String::new(),
        Some(namespace) => format!(" -n {namespace}"),
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+:@".contains(character);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
