//! Mappings are edited while the engine runs.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::interval;

use crate::case::{Case, Stage, case};
use crate::engine::Engine;
use crate::eventually::{becomes, throughout};
use crate::target::uid;
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    vec![
        case!(an_edit_changes_existing_objects_without_new_lists),
        case!(an_edit_in_the_middle_of_a_reconcile_is_not_forgotten).in_memory_alone(),
        case!(a_broken_edit_changes_nothing_and_its_fix_clears_it),
        case!(fifty_quick_edits_end_in_the_last_good_one),
        case!(a_mounted_config_map_is_followed),
        case!(the_last_good_text_survives_a_restart),
        case!(a_broken_file_and_a_name_taken_twice_leave_the_first_alone),
        case!(an_edit_that_would_break_sources_is_held_without_a_write),
        case!(an_edit_that_is_held_stays_so_across_a_restart_until_a_person_approves_it),
        case!(an_edit_reaches_the_sources_in_waves),
        case!(a_wave_that_fails_goes_back_before_others_notice),
        case!(a_release_goes_on_where_it_was_after_a_restart_and_ends_with_the_former_text),
        case!(a_wave_whose_objects_never_get_ready_goes_back),
        case!(what_an_edit_takes_away_goes_at_the_end_and_another_edit_takes_its_place),
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

async fn an_edit_in_the_middle_of_a_reconcile_is_not_forgotten(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    world.alpha.create_synced("it", json!({"size": 1})).await;
    world.settled().await;

    let lines = engine.lines_logged();
    let applies = world.memory().delay_next_apply("").await;
    world.alpha.patch("it", json!({"spec": {"size": 2}})).await;
    applies.await;
    world.mappings.write("widgets.yaml", &labelled("edited"));
    engine.says_after(lines, &["generation 2"]).await;
    let copy = world.target.copy(&world.alpha, "it").await;
    assert_eq!(copy["spec"]["size"], 1, "the former generation is still at work");
    has_label(&world, "it", "edited").await;
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

async fn an_edit_that_is_held_stays_so_across_a_restart_until_a_person_approves_it(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    world.alpha.create_synced("one", json!({"size": 1})).await;
    world.settled().await;
    assert!(engine.terminate().await.success());
    world.mappings.write("widgets.yaml", &failing_for_one());
    let mut engine = world.launch().start();
    engine.says(&HELD).await;
    world.alpha.create("new", json!({"size": 5})).await;
    world.target.has_spec(&world.alpha, "new", json!({"size": 5})).await;
    engine.approve(&world.name).await;
    world.alpha.synced("one", "False", "RenderFailed").await;
    has_label(&world, "new", "1").await;
}

/// A soak in which a slow machine, too, looks at the sources before their second wave begins.
const SOAK: &str = "30s";

/// One that no case waits for.
const LONG: &str = "1h";

/// The sources with a label follow an edit first.
fn in_waves(text: &str, soak: &str) -> String {
    let release = format!(
        "  release:\n    maxFailing: 100%\n    maxLost: {{percent: 100}}\n    progressDeadline: {LONG}\n    waves:\n      - {{sources: {{matchLabels: {{tier: canary}}}}, \
         soak: {soak}, maxFailing: 0}}\n      - {{percent: 100}}\n  status:\n"
    );
    text.replace("  status:\n", &release)
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

async fn an_edit_reaches_the_sources_in_waves(stage: &Stage) {
    let (world, mut engine) = canary_and_other(stage, &in_waves(WIDGETS, SOAK)).await;
    let edit = || world.mappings.write("widgets.yaml", &in_waves(&labelled("new"), SOAK));
    engine.says_of(edit, &["a wave begins", "1 of 2"]).await;
    has_label(&world, "canary", "new").await;
    assert_eq!(label_of(&world, "other").await, None, "before the soak of the first wave is over");
    engine.says(&["a wave begins", "2 of 2"]).await;
    has_label(&world, "other", "new").await;
    engine.says(&["is in force now"]).await;
    engine.becomes_ready().await;
}

async fn a_wave_that_fails_goes_back_before_others_notice(stage: &Stage) {
    // At once: neither the soak nor the deadline is over.
    let (world, mut engine) = canary_and_other(stage, &in_waves(WIDGETS, LONG)).await;
    let before = world.target.copy(&world.alpha, "other").await;
    let edit = || world.mappings.write("widgets.yaml", &in_waves(&failing_for_one(), LONG));
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
    let (world, mut engine) = canary_and_other(stage, &in_waves(WIDGETS, LONG)).await;
    // It makes one more object, which takes its name from nobody else's.
    let more = "  objects:\n    - id: more\n      template: {apiVersion: v1, kind: ConfigMap, \
                metadata: {name: '{{ placement.name }}-more'}, data: {a: b}}\n";
    let new = labelled("new").replace("  objects:\n", more).replace("  status:\n", "  status:\n    from: widget\n");
    let strict = |text: &str| in_waves(text, LONG).replace("maxLost: {percent: 100}", "maxLost: {objects: 0}");
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
    let impatient = |text: &str| in_waves(text, SOAK).replace("progressDeadline: 1h", "progressDeadline: 30s");
    let (world, mut engine) = canary_and_other(stage, &impatient(WIDGETS)).await;
    let never = "    - id: widget\n      ready: ${{ objects.widget.status.phase | default(\"\") == \"Never\" }}\n";
    let edit = labelled("new").replace("    - id: widget\n", never);
    engine.says_of(|| world.mappings.write("widgets.yaml", &impatient(&edit)), &["a wave begins", "1 of 2"]).await;
    has_label(&world, "canary", "new").await;
    engine.says(&["it went back, for wave 1 failed", "1 is not yet", "not become fewer for 30 s"]).await;
    has_no_label(&world, "canary").await;
    assert_eq!(label_of(&world, "other").await, None);
}

async fn what_an_edit_takes_away_goes_at_the_end_and_another_edit_takes_its_place(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let second = "    - id: second\n      template: {apiVersion: v1, kind: ConfigMap, \
                  metadata: {name: '{{ placement.name }}'}, data: {a: b}}\n  status:\n    from: widget\n";
    let both = |text: &str| in_waves(&text.replace("  status:\n", second), SOAK);
    let edit = || world.mappings.write("widgets.yaml", &both(WIDGETS));
    engine.says_of(edit, &["generation 2"]).await;
    world.alpha.create_synced("canary", json!({"size": 1})).await;
    world.alpha.patch("canary", json!({"metadata": {"labels": {"tier": "canary"}}})).await;
    let maps = async || world.target.labelled("/api/v1/configmaps").await.len();
    assert_eq!(maps().await, 1, "made in the first place");
    world.settled().await;
    // The first wave follows a text without it.
    let edit = || world.mappings.write("widgets.yaml", &in_waves(&labelled("new"), SOAK));
    engine.says_of(edit, &["a wave begins", "1 of 2"]).await;
    has_label(&world, "canary", "new").await;
    throughout(Duration::from_secs(3), "it is not taken away before the end", async || match maps().await {
        1 => Ok(()),
        number => Err(format!("{number} are there")),
    })
    .await;
    world.alpha.synced("canary", "True", "Synced").await;
    // Another edit goes on with the same wave.
    world.mappings.write("widgets.yaml", &in_waves(&labelled("newer"), SOAK));
    has_label(&world, "canary", "newer").await;
    assert_eq!(maps().await, 1, "nor by that one, before its end");
    engine.says(&["is in force now"]).await;
    becomes("it goes at the end", 0, maps).await;
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

async fn a_mounted_config_map_is_followed(stage: &Stage) {
    let world = stage.unmapped(true).await;
    let mounted = world.second_mappings("mounted");
    mounted.publish(1, &[("widgets.yaml", &labelled("one"))]);
    let _engine = world.launch().flag("--mappings", mounted.folder().display()).ready().await;
    world.alpha.create("it", json!({"size": 1})).await;
    let copy = has_label(&world, "it", "one").await;
    mounted.publish(2, &[("widgets.yaml", &labelled("two"))]);
    let now = has_label(&world, "it", "two").await;
    assert_eq!(uid(&now), uid(&copy));
}

async fn the_last_good_text_survives_a_restart(stage: &Stage) {
    let (world, mut engine) = stage.running_with(&labelled("good")).await;
    world.alpha.create("it", json!({"size": 1})).await;
    let copy = has_label(&world, "it", "good").await;
    world.alpha.synced("it", "True", "Synced").await;
    world.settled().await;
    engine.kill();

    // So broken that not even the mapping's name can be read.
    world.mappings.write("widgets.yaml", ": {{{ not YAML at all\n");
    let mut engine = world.launch().start();
    engine.says(&["widgets.yaml:"]).await;
    let now = world.target.follows(&world.alpha, "it", json!({"size": 2})).await;
    assert_eq!((uid(&now), &now["metadata"]["labels"]["edit"]), (uid(&copy), &json!("good")));
    world.alpha.remove("it").await;
}

async fn a_broken_file_and_a_name_taken_twice_leave_the_first_alone(stage: &Stage) {
    let world = stage.widgets().await;
    world.mappings.write("broken.yaml", "apiVersion: sync-engine.dev/v1alpha1\nkind: [\n");
    world.mappings.write("widgets.yaml", &labelled("first"));
    let mut engine = world.engine().await;
    engine.says(&["broken.yaml:"]).await;
    world.alpha.create("it", json!({"size": 1})).await;
    let copy = has_label(&world, "it", "first").await;
    engine
        .says_of(|| world.mappings.write("a-newcomer.yaml", &labelled("second")), &["a-newcomer.yaml:", &world.name])
        .await;
    world.target.keeps(&copy, "the running one stays", |now| now["metadata"]["labels"]["edit"] == "first").await;
}
