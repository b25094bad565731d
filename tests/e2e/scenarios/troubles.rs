//! What `sync-engine status` shows of each kind of trouble, by which operators find what to do. A case of another theme that
//! brings one about asks here; `tests/troubles.yaml` is the table of all.

use regex::{Captures, Regex};
use serde_json::json;

use crate::case::{Case, Stage, case};
use crate::engine::Engine;
use crate::eventually::eventually;
use crate::fleet::On;

pub fn cases() -> Vec<Case> {
    vec![case!(another_name_in_the_mapping_and_a_deletion_that_needs_no_rendering_and_hangs).in_memory()]
}

const NAMED: &str = "<mapping>
  objects:
    - id: widget
      template:
        apiVersion: <group>/v1
        kind: Widget
        metadata: {name: '{{ placement.name }}-<object>'}
        spec: {size: \"${{ source.spec.size | default(none) | required('say how large it shall be') }}\"}
  lifecycle: {stuckAfter: <long>}
  release: {maxFailing: 100%}
  reconcile: {backoff: {min: 1s, max: 2s}}
";

/// Waits until `status` lists a source for this reason: the first one is the snapshot. Servers in memory word some refusals
/// otherwise.
pub async fn shown(stage: &Stage, engine: &Engine, reason: &str) {
    let listed = eventually(&format!("status lists a source with the reason {reason}"), async || {
        let said = engine.status(&["--reason", reason]);
        if said.contains(&format!("\n  {reason}: ")) { Ok(said) } else { Err(said) }
    })
    .await;
    if stage.on == On::Sandbox {
        return;
    }
    let first: Vec<&str> = listed.lines().take(2).collect();
    is(stage, &format!("trouble-{reason}"), &first.join("\n"));
}

/// Waits until `approve` shows what is held of a mapping.
pub async fn is_held(stage: &Stage, engine: &Engine, mapping: &str) {
    let shown = engine.held(mapping).await;
    if stage.on != On::Sandbox {
        is(stage, "an-edit-that-is-held", &shown);
    }
}

fn is(stage: &Stage, name: &str, text: &str) {
    let text = masked(stage, text);
    insta::with_settings!({prepend_module_to_snapshot => false}, { insta::assert_snapshot!(name, text) });
}

/// Without what differs from one run to the next, or between kinds of servers.
fn masked(stage: &Stage, text: &str) -> String {
    // On a plain cluster, the tenant alpha is a namespace.
    let text = text.replace(&format!("{}-alpha", stage.id), "default").replace(&stage.id, "<id>");
    let masks = [
        (r"\S+\|", "<cluster>|"),
        (r" of \S+ \(mapping", " of <cluster> (mapping"),
        (r"(?m), for \w+$", ", for <time>"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
        (r"\d+\.\d+\.\d+\.\d+:\d+", "<address>"),
        // One in twenty-five has no digit.
        (r"\b(default-|target=|digest )[a-z2-7]{16}\b", "$1<hash>"),
    ];
    let text = masks.into_iter().fold(text, |text, (pattern, mask)| {
        Regex::new(pattern).expect("a pattern").replace_all(&text, mask).into_owned()
    });
    let hash = |word: &Captures<'_>| match word[0].contains(|letter: char| letter.is_ascii_digit()) {
        true => "<hash>".to_owned(),
        false => word[0].to_owned(),
    };
    Regex::new(r"\b[a-z0-9]{8,}\b").expect("a pattern").replace_all(&text, hash).into_owned()
}

async fn another_name_in_the_mapping_and_a_deletion_that_needs_no_rendering_and_hangs(stage: &Stage) {
    let edition = |object: &str, long: &str| NAMED.replace("<object>", object).replace("<long>", long);
    let (world, engine) = stage.running_with(&edition("a", "15m")).await;
    let copy = world.made("it", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;

    world.mappings.write("widgets.yaml", &edition("b", "15m"));
    world.alpha.synced("it", "False", "IdentityChanged").await;
    shown(stage, &engine, "IdentityChanged").await;
    world.mappings.write("widgets.yaml", &edition("a", "15m"));
    world.alpha.synced("it", "True", "Synced").await;

    world.alpha.patch("it", json!({"spec": {"size": null}})).await;
    let condition = world.alpha.synced("it", "False", "RenderFailed").await;
    assert!(condition["message"].as_str().is_some_and(|text| text.contains("say how large")), "{condition}");
    shown(stage, &engine, "RenderFailed").await;
    assert_eq!(world.target.again(&copy).await["spec"], json!({"size": 1}), "a failed rendering writes nothing");

    world.target.edit(&copy, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    world.alpha.delete("it").await;
    world.alpha.synced("it", "False", "Deleting").await;
    shown(stage, &engine, "Deleting").await;
    world.mappings.write("widgets.yaml", &edition("a", "1s"));
    world.alpha.synced("it", "False", "Stuck").await;
    shown(stage, &engine, "Stuck").await;
    assert_eq!(world.alpha.holds("it").await, [format!("sync-engine.dev/main.{}", world.name)]);
    world.target.edit(&copy, json!({"metadata": {"finalizers": null}})).await;
    world.alpha.gone("it").await;
    assert_eq!(world.target.find(&world.alpha, "it").await, None, "it goes first");
}
