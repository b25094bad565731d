//! Mappings are edited while the engine runs.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::interval;

use crate::case::{Case, Stage, case};
use crate::engine::Engine;
use crate::eventually::becomes;
use crate::target::uid;
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    vec![
        case!(an_edit_changes_existing_objects_without_new_lists),
        case!(a_broken_edit_changes_nothing_and_its_fix_clears_it),
        case!(fifty_quick_edits_end_in_the_last_good_one),
        case!(an_edit_that_would_break_sources_is_held_without_a_write),
        case!(a_wave_that_fails_goes_back_before_others_notice),
        case!(a_release_goes_on_where_it_was_after_a_restart_and_ends_with_the_former_text),
        case!(a_wave_whose_objects_never_get_ready_goes_back),
        case!(an_edit_that_a_person_rejects_stays_out),
    ]
}

/// `WIDGETS` with a label on the object downstream.
fn labelled(value: &str) -> String {
    let with_label = format!("        kind: Widget\n        metadata: {{labels: {{edit: \"{value}\"}}}}\n");
    WIDGETS.replace("        kind: Widget\n", &with_label)
}

/// Waits until the object of a source has that label.
async fn has_label(world: &World<'_>, name: &str, value: &str) -> Value {
    world.target.has(&world.alpha, name, json!({"metadata": {"labels": {"edit": value}}})).await
}

/// Waits until it has none.
async fn has_no_label(world: &World<'_>, name: &str) {
    let copy = world.target.copy(&world.alpha, name).await;
    let is_without = |now: &Value| now["metadata"]["labels"]["edit"].is_null();
    world.target.becomes(&copy, "the label is given up", is_without).await;
}

async fn an_edit_changes_existing_objects_without_new_lists(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let copy = world.made("it", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;
    world.settled().await;
    let lists = || world.requests().into_iter().filter(|request| request.is_list()).collect::<Vec<_>>();
    let (before, lines) = (lists().len(), engine.lines_logged());

    world.mappings.write("widgets.yaml", &labelled("first"));
    let now = has_label(&world, "it", "first").await;
    assert_eq!(uid(&now), uid(&copy), "the object is changed, not replaced");
    engine.says_after(lines, &[&world.name]).await;

    world.mappings.write("widgets.yaml", WIDGETS);
    has_no_label(&world, "it").await;
    let new: Vec<_> = lists().into_iter().skip(before).collect();
    assert!(new.is_empty(), "an edit lists again what it does not change: {new:?}");
}

/// A key that no mapping has, at a known place.
fn broken() -> String {
    labelled("broken").replace("  status:\n", "  stattus:\n")
}

/// `line:column` of a text in a file.
fn place(text: &str, needle: &str) -> String {
    let at = text.find(needle).expect("the text has it");
    let line = text[..at].lines().count() + usize::from(text[..at].ends_with('\n'));
    let column = at - text[..at].rfind('\n').map_or(0, |end| end + 1) + 1;
    format!("{line}:{column}")
}

async fn a_broken_edit_changes_nothing_and_its_fix_clears_it(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let copy = world.made("it", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;
    world.settled().await;

    let lines = engine.lines_logged();
    world.mappings.write("widgets.yaml", &broken());
    let at = format!("widgets.yaml:{}", place(&world.mappings.fill(&broken()), "stattus"));
    engine.says_after(lines, &["stattus", &at]).await;
    let answer = engine.reload().await;
    assert!(!answer.is_success(), "a reload of a broken file is refused: {answer:?}");
    world.no_write(Duration::from_secs(2)).await;

    // The last good version runs on.
    let now = world.target.follows(&world.alpha, "it", json!({"size": 2})).await;
    assert_eq!(uid(&now), uid(&copy));
    assert!(now["metadata"]["labels"]["edit"].is_null(), "{now}");

    world.mappings.write("widgets.yaml", &labelled("mended"));
    has_label(&world, "it", "mended").await;
    let answer = engine.reload().await;
    assert!(answer.is_success(), "{answer:?}");
}

/// `WIDGETS` with an expression that fails for sources of the size 1.
fn failing_for_one() -> String {
    labelled("${{ (6 // (source.spec.size - 1)) | string }}")
}

const HELD: [&str; 3] = ["is held", "1 source that is in sync would not be", "RenderFailed"];

async fn an_edit_that_would_break_sources_is_held_without_a_write(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    world.alpha.create_synced("one", json!({"size": 1})).await;
    world.alpha.create_synced("two", json!({"size": 2})).await;
    world.settled().await;
    engine.says_of(|| world.mappings.write("widgets.yaml", &failing_for_one()), &HELD).await;
    let answer = engine.reload().await;
    assert!(!answer.is_success() && HELD.iter().all(|held| format!("{answer:?}").contains(held)), "{answer:?}");
    engine.held(&world.name).await;
    world.no_write(Duration::from_secs(2)).await;
    // One mapping's edit takes no replica out of service.
    engine.becomes_degraded("document of mapping", "is held").await;

    // The document before goes on; and once the edit breaks nothing any more, it is released.
    world.alpha.patch("two", json!({"spec": {"size": 3}})).await;
    world.target.has_spec(&world.alpha, "two", json!({"size": 3})).await;
    world.alpha.patch("one", json!({"spec": {"size": 4}})).await;
    engine.says(&["0 newly failing, 2 updated", "rehearsed on 2 of 2 sources"]).await;
    for (name, value) in [("one", "2"), ("two", "3")] {
        has_label(&world, name, value).await;
    }
    engine.becomes_ready().await;
}

/// The sources with a label follow an edit first. No case waits for the end of the soak or of the deadline.
const WAVES: &str = "  release:
    maxFailing: 100%
    maxLost: {percent: 100}
    progressDeadline: 1h
    waves:
      - {sources: {matchLabels: {tier: canary}}, soak: 1h, maxFailing: 0}
      - {percent: 100}
  status:
";

fn in_waves(text: &str) -> String {
    text.replace("  status:\n", WAVES)
}

/// An engine with this mapping, which has waves, with a source that follows an edit first and another one.
async fn canary_and_other<'s>(stage: &'s Stage, mapping: &str) -> (World<'s>, Engine) {
    let (world, mut engine) = stage.running().await;
    let edit = || world.mappings.write("widgets.yaml", mapping);
    engine.says_of(edit, &["generation 2"]).await;
    world.alpha.create_synced("canary", json!({"size": 1})).await;
    world.alpha.patch("canary", json!({"metadata": {"labels": {"tier": "canary"}}})).await;
    world.alpha.create_synced("other", json!({"size": 2})).await;
    world.settled().await;
    (world, engine)
}

async fn label_of(world: &World<'_>, name: &str) -> Option<String> {
    world.target.copy(&world.alpha, name).await["metadata"]["labels"]["edit"].as_str().map(str::to_owned)
}

async fn a_wave_that_fails_goes_back_before_others_notice(stage: &Stage) {
    // At once: neither the soak nor the deadline is over.
    let (world, mut engine) = canary_and_other(stage, &in_waves(WIDGETS)).await;
    let before = world.target.copy(&world.alpha, "other").await;
    let edit = || world.mappings.write("widgets.yaml", &in_waves(&failing_for_one()));
    engine.says_of(edit, &["a wave begins", "1 of 2"]).await;
    engine.says(&["not in sync", "RenderFailed"]).await;
    engine.says(&["it went back, for wave 1 failed", "1 cannot be in order"]).await;
    world.alpha.synced("canary", "True", "Synced").await;
    world.settled().await;
    assert_eq!(world.target.copy(&world.alpha, "other").await, before, "it never followed the edit");
    // The same text is not tried again, also not by another process.
    engine.held(&world.name).await;
    assert!(engine.terminate().await.success());
    let mut engine = world.launch().start();
    engine.says(&["is held", "it went back, for wave 1 failed"]).await;
    world.no_write(Duration::from_secs(2)).await;
    // A person may have it tried again.
    engine.approve(&world.name).await;
    engine.says(&["a wave begins", "1 of 2"]).await;
}

async fn a_release_goes_on_where_it_was_after_a_restart_and_ends_with_the_former_text(stage: &Stage) {
    let (world, mut engine) = canary_and_other(stage, &in_waves(WIDGETS)).await;
    // It makes one more object, which takes its name from nobody else's.
    let more = "  objects:\n    - id: more\n      template: {apiVersion: v1, kind: ConfigMap, \
                metadata: {name: '{{ placement.name }}-more'}, data: {a: b}}\n";
    let new = labelled("new").replace("  objects:\n", more).replace("  status:\n", "  status:\n    from: widget\n");
    let strict = |text: &str| in_waves(text).replace("maxLost: {percent: 100}", "maxLost: {objects: 0}");
    engine.says_of(|| world.mappings.write("widgets.yaml", &strict(WIDGETS)), &["generation 3"]).await;
    let edit = || world.mappings.write("widgets.yaml", &strict(&new));
    engine.says_of(edit, &["a wave begins", "1 of 2"]).await;
    has_label(&world, "canary", "new").await;
    world.settled().await;
    assert!(engine.terminate().await.success());

    let mut engine = world.launch().start();
    engine.becomes_ready().await;
    world.no_write(Duration::from_secs(2)).await;
    world.alpha.patch("canary", json!({"spec": {"size": 3}})).await;
    world.target.has_spec(&world.alpha, "canary", json!({"size": 3})).await;
    assert_eq!(label_of(&world, "canary").await.as_deref(), Some("new"));
    assert_eq!(label_of(&world, "other").await, None);

    world.mappings.write("widgets.yaml", &strict(WIDGETS));
    has_no_label(&world, "canary").await;
    // What only the candidate made is beyond the limits of the former text.
    world.alpha.synced("canary", "False", "Held").await;
    let maps = async || world.target.labelled("/api/v1/configmaps").await.len();
    assert_eq!(maps().await, 1, "it is kept");
    engine.approve(&world.name).await;
    becomes("it goes", 0, maps).await;
    world.alpha.synced("canary", "True", "Synced").await;
    engine.becomes_ready().await;
}

/// It renders, and servers accept it: no rehearsal sees through that.
async fn a_wave_whose_objects_never_get_ready_goes_back(stage: &Stage) {
    let impatient = |text: &str| in_waves(text).replace("progressDeadline: 1h", "progressDeadline: 30s");
    let (world, mut engine) = canary_and_other(stage, &impatient(WIDGETS)).await;
    let never = "    - id: widget\n      ready: ${{ objects.widget.status.phase | default(\"\") == \"Never\" }}\n";
    let edit = labelled("new").replace("    - id: widget\n", never);
    engine.says_of(|| world.mappings.write("widgets.yaml", &impatient(&edit)), &["a wave begins", "1 of 2"]).await;
    has_label(&world, "canary", "new").await;
    engine.says(&["it went back, for wave 1 failed", "1 is not yet", "not become fewer for 30 s"]).await;
    has_no_label(&world, "canary").await;
    assert_eq!(label_of(&world, "other").await, None);
}

async fn an_edit_that_a_person_rejects_stays_out(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    world.alpha.create_synced("one", json!({"size": 1})).await;
    world.settled().await;
    engine.says_of(|| world.mappings.write("widgets.yaml", &failing_for_one()), &HELD).await;
    engine.reject(&world.name).await;
    engine.says(&["is held", "a person rejected it"]).await;
    // Also once nothing holds it any more.
    world.alpha.patch("one", json!({"spec": {"size": 4}})).await;
    world.target.has_spec(&world.alpha, "one", json!({"size": 4})).await;
    assert!(engine.terminate().await.success());
    let mut engine = world.launch().start();
    engine.says(&["is held", "a person rejected it"]).await;
    engine.approve(&world.name).await;
    has_label(&world, "one", "2").await;
}

async fn fifty_quick_edits_end_in_the_last_good_one(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    let copy = world.made("it", json!({"size": 1})).await;

    let mut ticks = interval(Duration::from_millis(20));
    for edit in 1..=50 {
        ticks.tick().await;
        let text = labelled(&format!("edit-{edit}"));
        match edit % 4 {
            0 => world.mappings.write("widgets.yaml", &text),
            1 => world.mappings.overwrite("widgets.yaml", &text[..text.len() / 2]),
            2 => world.mappings.overwrite("widgets.yaml", &text),
            _ => world.mappings.write("widgets.yaml", &text.replace("  status:\n", "  stattus:\n")),
        }
        let now = world.target.again(&copy).await;
        assert_eq!(uid(&now), uid(&copy));
    }
    world.mappings.overwrite("widgets.yaml", &labelled("edit-51").replace("template", "tempalte"));
    world.mappings.write("widgets.yaml", &labelled("last"));
    has_label(&world, "it", "last").await;
    world
        .target
        .keeps(&copy, "the last good text stands, and the object never went", |now| {
            uid(now) == uid(&copy) && now["metadata"]["labels"]["edit"] == "last"
        })
        .await;
}
